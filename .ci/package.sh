#!/usr/bin/env bash
# Packs what is published, and uses it as a stranger does: outside of the checkout, and with nothing else of it. Called by
# `make package`, with the parts to run: all without any.
#
#   pack     the packages, with their READMEs, licenses and pages
#   project  a project of ten lines, in debug and in release, with the default features, with none and with all; and that of the
#            first page, word by word
#   docs     its documentation, with no C++ compiler and no network
#   tests    the packages' own tests
#   graphs   projects that also use crates which share dependencies with CairnDB: they resolve
#   pcre2    patterns by a PCRE2 of the system: with one that is too old they are refused by both versions, and with one that is
#            new enough they pass. It needs pkg-config, and apt-get and dpkg to load Debian's package, without being root
#
# A part that cannot run on a machine fails: it never counts as passed. Name the others there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# quiet COMMAND...: prints what it says only if it fails.
quiet() { said=$("$@" 2>&1) || { printf '%s\n' "$said" >&2; return 1; }; }
say() { printf 'package: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

checkout=$PWD
work="$CAIRNDB_CACHE/package"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
published=(index sequence pcre query rocksfile formats base store engine server cli counters rocksdb)
names=()
for folder in "${published[@]}"; do names+=("$(sed -n 's/^name = "\(.*\)"/\1/p' "$folder/Cargo.toml" | head -n 1)"); done
# The oldest PCRE2 that patterns are tested with.
tested=$(sed -n 's/^const OLDEST: .* = (\([0-9]*\), \([0-9]*\));/\1.\2/p' pcre/src/version.rs)
# A setting of the caller for its own builds. What is made here has a folder of its own, which later runs go on with.
export CARGO_TARGET_DIR="$work/target"

pack() {
    rm -rf "$work/target/package" "$work/crates"
    mkdir -p "$work/crates"
    # Without the build that cargo makes of each package by itself: `tests` builds all of them, once.
    cargo package --locked --no-verify --allow-dirty -q "${names[@]/#/-p}"
    for name in "${names[@]}"; do
        # With the time of this moment (-m): archives have one that never changes, by which cargo would take changed files for those that
        # it has compiled before.
        tar -xzmf "$work/target/package/$name-$version.crate" -C "$work/crates"
        for file in README.md LICENSE-MIT LICENSE-APACHE; do
            [ -s "$work/crates/$name-$version/$file" ] || fail "the package $name has no $file"
        done
        if grep -n 'path = "\.\./' "$work/crates/$name-$version/Cargo.toml"; then fail "$name leads out of its package"; fi
    done
    [ -s "$work/crates/cairndb-$version/linked/guide/queries.md" ] || fail "the package cairndb has no guide"
    say "packed ${#names[@]} packages"
}

# What the engine consists of.
engine=(cairndb-index cairndb-sequence cairndb-pcre cairndb-query cairndb-rocksfile cairndb-base cairndb-store cairndb)

# patches NAMES: these packages, in the place of a registry.
patches() {
    printf '\n[patch.crates-io]\n'
    for name in "$@"; do printf '%s = { path = "%s" }\n' "$name" "$work/crates/$name-$version"; done
}

# new_project FOLDER DEPENDENCIES NAMES: with these packages. Its lock file begins with the versions that are tested.
new_project() {
    mkdir -p "$work/$1/src"
    printf '[package]\nname = "%s"\nversion = "0.1.0"\nedition = "2024"\n\n[workspace]\n\n[dependencies]\n%s\n' "$1" "$2" >"$work/$1/Cargo.toml"
    patches "${@:3}" >>"$work/$1/Cargo.toml"
    cp "$checkout/Cargo.lock" "$work/$1/Cargo.lock"
}

ten_lines() {
    cat <<'END'
use cairndb::Client;
use cairndb::bson::{Document, doc};
fn main() -> cairndb::Result<()> {
    let client = Client::open("data")?;
    let books = client.database("library").collection::<Document>("books");
    books.insert_one(doc! { "title": "Kim", "year": 1901 }).run()?;
    let found = books.find_one(doc! { "title": { "$regex": "^k.m$", "$options": "i" } }).run()?;
    println!("{}", found.expect("inserted").get_i32("year").expect("a number"));
    client.close()
}
END
}

project() {
    new_project ten_lines "cairndb = { version = \"=$version\", default-features = false }

[features]
default = [\"cairndb/collation\"]
all = [\"cairndb/collation\", \"cairndb/opentelemetry\"]" "${engine[@]}"
    ten_lines >"$work/ten_lines/src/main.rs"
    rm -rf "$work/ten_lines/.cargo"
    (cd "$work/ten_lines" && "$CAIRNDB_CACHE/build/release/cairndb-rocksdb" --write)
    grep -q 'PCRE2_SYS_STATIC = "1"' "$work/ten_lines/.cargo/config.toml" || fail "cairndb-rocksdb --write wrote no PCRE2_SYS_STATIC"
    for profile in ${PROFILES:-dev release}; do
        for features in "" "--no-default-features" "--features all"; do
            rm -rf "$work/ten_lines/data"
            # Without this script's own settings: those that the tool wrote do.
            # shellcheck disable=SC2086
            said=$(cd "$work/ten_lines" && env -u ROCKSDB_LIB_DIR -u ROCKSDB_STATIC -u PCRE2_SYS_STATIC \
                cargo run -q --profile "$profile" $features)
            [ "$said" = 1901 ] || fail "a project of ten lines said '$said' ($profile $features)"
            say "a project of ten lines runs: $profile ${features:-with the default features}"
        done
    done
    first_page
}

# The lines and the program of the first page, with the package in the place of the checkout.
first_page() {
    local page="$work/first_page"
    rm -rf "$page"
    new_project first_page/app "" "${engine[@]}"
    mkdir -p "$page/cairndb"
    ln -s "$work/crates/cairndb-$version" "$page/cairndb/engine"
    {
        printf '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2024"\n\n[workspace]\n\n'
        block toml
        patches "${engine[@]:0:${#engine[@]}-1}"
    } >"$page/app/Cargo.toml"
    block rust,no_run >"$page/app/src/main.rs"
    said=$(cd "$page/app" && cargo run -q)
    case $said in
        '{ "_id": ObjectId('*'), "isbn": "0-19-1", "title": "Kim", "year": 1901 }') say "the project of the first page runs" ;;
        *) fail "the project of the first page said '$said'" ;;
    esac
}

# block LANGUAGE: the first block in it of the first page.
block() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$checkout/README.md" | sed -e '1d' -e '/^```$/,$d'; }

# With the features that the packages ask for on the host of documentation, and with all.
docs() {
    documented hosted "cairndb = { version = \"=$version\", features = [\"opentelemetry\"] }
cairndb-server = \"=$version\"
cairndb-counters = { version = \"=$version\", features = [\"mongodb\"] }"
    documented all "$(with_all_features)"
}

# documented WHICH DEPENDENCIES
documented() {
    new_project documented "$2" "${engine[@]}" cairndb-server cairndb-counters
    ten_lines >"$work/documented/src/main.rs"
    rm -rf "$work/docs-target/doc"
    # As the packages ask the host of documentation to. A compiler of C++ would fail.
    (cd "$work/documented" && cargo fetch -q && env -u ROCKSDB_LIB_DIR -u ROCKSDB_STATIC CXX=false \
        cargo --config "env.ROCKSDB_LIB_DIR='.'" --config "env.ROCKSDB_STATIC='1'" --config "env.PCRE2_SYS_STATIC='1'" \
        doc -q --offline --no-deps -p cairndb -p cairndb-server -p cairndb-counters --target-dir "$work/docs-target")
    for page in cairndb cairndb/guide/first_half_hour cairndb/guide/queries cairndb_server cairndb_counters; do
        [ "$(wc -c <"$work/docs-target/doc/$page/index.html")" -gt 5000 ] || fail "the documentation of $page is empty ($1 features)"
    done
    grep -q '<svg ' "$work/docs-target/doc/cairndb/index.html" || fail "the front page of the documentation has no plot"
    say "documentation has its pages, and was made without a C++ compiler and without network: $1 features"
}

# All libraries, with the features that users have.
with_all_features() {
    local name
    for name in cairndb cairndb-server cairndb-counters; do
        printf '%s = { version = "=%s", features = [%s] }\n' "$name" "$version" "$(features_of "$name")"
    done
}

# features_of PACKAGE: all that users have, in a list of TOML.
features_of() {
    sed -n '/^\[features\]/,/^\[/s/^\([a-z-]*\) = .*/\1/p' "$work/crates/$1-$version/Cargo.toml" |
        grep -vx -e default -e shuttle -e planted-faults | sed 's/.*/"&"/' | paste -s -d , -
}

# All packages as one workspace, so that they are built once. Cargo's settings of the checkout do not reach here.
workspace() {
    mkdir -p "$work/crates/.cargo"
    {
        printf '[workspace]\nresolver = "3"\nmembers = ["*-%s"]\n' "$version"
        patches "${names[@]}"
        printf '\n'
        sed -n '/^\[profile\.dev\]/,/^\[profile\.release\]/p' "$checkout/Cargo.toml" | sed '$d'
    } >"$work/crates/Cargo.toml"
    printf '[env]\nPCRE2_SYS_STATIC = "1"\n' >"$work/crates/.cargo/config.toml"
    cp "$checkout/Cargo.lock" "$work/crates/Cargo.lock"
}

tests() {
    workspace
    local of=(${PACKAGES:-${names[@]}})
    (cd "$work/crates" && cargo test --no-fail-fast "${of[@]/#/-p}")
    say "the tests of ${#of[@]} packages pass, from their archives"
}

# The engine alone, and with the server, the counters and all features.
graphs() {
    local all
    all=$(with_all_features)
    for other in 'url = "2"' 'reqwest = "0.12"' 'axum = "0.8"' 'mongodb = "3.9"'; do
        resolves "cairndb = \"=$version\"" "$other" "${engine[@]}"
        resolves "$all" "$other" "${engine[@]}" cairndb-server cairndb-counters
        say "resolves with $other: the engine, and all libraries with all features"
    done
}

# resolves DEPENDENCIES OTHER NAMES: with the versions that are tested, and with the newest of all that is allowed.
resolves() {
    new_project beside "$1
$2" "${@:3}"
    ten_lines >"$work/beside/src/main.rs"
    (cd "$work/beside" && quiet cargo metadata --format-version 1) || fail "no versions suit both $1 and $2"
    rm "$work/beside/Cargo.lock"
    (cd "$work/beside" && quiet cargo generate-lockfile) || fail "no newest versions suit both $1 and $2"
}

pcre2() {
    command -v pkg-config >/dev/null || fail "the part pcre2 needs pkg-config: without it no PCRE2 of a system is ever linked"
    new_project systems "bson = { version = \"3\", features = [\"serde_json-1\"] }
serde_json = { version = \"1\", features = [\"preserve_order\"] }
cairndb-pcre = \"=$version\"
cairndb-query = \"=$version\"" cairndb-index cairndb-pcre cairndb-query
    cases_of_patterns >"$work/systems/src/main.rs"
    by_pcre2 1 "$work/none"
    [ "$said" = "passed with $tested" ] || fail "patterns by the PCRE2 that is tested: $said"

    debians_pcre2
    by_pcre2 0 "$work/debian"
    case $said in
        "passed with "*) ;;
        "refused with 51091: "*"this program is linked with PCRE2 $linked, and patterns need $tested or newer"*PCRE2_SYS_STATIC=1*) ;;
        *) fail "Debian's PCRE2 $linked is neither used nor refused: $said" ;;
    esac
    say "the PCRE2 $linked of Debian: $said"

    newer_pcre2
    by_pcre2 0 "$work/newer"
    [ "$said" = "passed with $tested" ] || fail "a PCRE2 of the system that is new enough: $said"
    say "a PCRE2 of the system that is new enough: $said"
}

# by_pcre2 STATIC FOLDER: what the cases of patterns say, by the PCRE2 within its crate or by the library in the folder.
by_pcre2() {
    said=$(cd "$work/systems" && PCRE2_SYS_STATIC=$1 PKG_CONFIG_PATH=$2 LD_LIBRARY_PATH=$2 \
        cargo run -q --target-dir "$work/systems-target" -- "$checkout/tests/oracle/conformance/cases/filter_regex.json")
}

# Debian's packages, unpacked into a folder: nothing is installed.
debians_pcre2() {
    { command -v apt-get && command -v dpkg-deb; } >/dev/null ||
        fail "the part pcre2 loads Debian's libpcre2-dev with apt-get and dpkg-deb, which are not here"
    rm -rf "$work/debian" "$work/packages"
    mkdir -p "$work/packages" "$work/debian"
    (cd "$work/packages" && quiet apt-get download libpcre2-dev libpcre2-8-0) || fail "libpcre2-dev cannot be loaded"
    for package in "$work/packages"/*.deb; do dpkg-deb -x "$package" "$work/packages/files"; done
    find "$work/packages/files" -name 'libpcre2-8.*' -exec cp -P {} "$work/debian" \;
    linked=$(sed -n 's/^Version: *//p' "$work/debian/libpcre2-8.pc")
    describe_pcre2 "$work/debian" "$linked"
}

# The PCRE2 that is tested, as a library of a system: from the source within its crate.
newer_pcre2() {
    local upstream
    upstream=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -maxdepth 3 -type d -path '*/pcre2-sys-*/upstream' | sort | tail -n 1)
    [ -n "$upstream" ] || fail "the source of PCRE2 is not among cargo's"
    rm -rf "$work/newer"
    mkdir -p "$work/newer"
    # These three are included by others.
    find "$upstream/src" -name '*.c' ! -name pcre2_jit_match.c ! -name pcre2_jit_misc.c ! -name pcre2_ucptables.c -exec \
        cc -O1 -shared -fPIC -Wl,-soname,libpcre2-8.so.0 -DPCRE2_CODE_UNIT_WIDTH=8 -DHAVE_STDLIB_H=1 -DHAVE_MEMMOVE=1 \
        -DHAVE_CONFIG_H=1 -DSTDC_HEADERS=1 -DSUPPORT_PCRE2_8=1 -DSUPPORT_UNICODE=1 -I"$upstream/src" -I"$upstream/deps" \
        -I"$upstream/include" -o "$work/newer/libpcre2-8.so.0" {} +
    ln -s libpcre2-8.so.0 "$work/newer/libpcre2-8.so"
    describe_pcre2 "$work/newer" "$tested"
}

# describe_pcre2 FOLDER VERSION: what pkg-config says of the library there.
describe_pcre2() {
    printf 'Name: libpcre2-8\nDescription: patterns\nVersion: %s\nLibs: -L%s -lpcre2-8\nCflags:\n' "$2" "$1" >"$1/libpcre2-8.pc"
}

# A program that runs the cases of patterns that the conformance suite has, without a database.
cases_of_patterns() {
    cat <<'END'
use bson::{Bson, Document, RawDocumentBuf};
use cairndb_query::error::Error;
use cairndb_query::filter::Filter;
use cairndb_query::operation::OperationContext;

fn main() {
    let path = std::env::args().nth(1).expect("a file of cases");
    let cases: serde_json::Value = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
    let (mut passed, mut refused) = (0, Vec::new());
    for case in Bson::try_from(cases).expect("Extended JSON").as_array().expect("a list") {
        let case = case.as_document().expect("a case");
        let expected = case.get_document("expect").expect("it has one");
        match ids(case) {
            Err(error) if error.to_string().contains("this program is linked with PCRE2 ") => {
                refused.push(format!("refused with {}: {error}", error.code().number()));
                continue;
            }
            Ok(ids) => assert_eq!(Some(&ids), expected.get("ids"), "{case}"),
            Err(error) => {
                let code = expected.get_document("error").and_then(|error| error.get_i32("code")).ok();
                assert_eq!(Some(error.code().number()), code, "{case}");
            }
        }
        passed += 1;
    }
    assert!(passed + refused.len() > 80, "too few cases");
    match refused.first() {
        Some(first) => println!("{first}"),
        None => println!("passed with {}", cairndb_pcre::version::linked()),
    }
}

/// The _ids of the documents that the filter of a case finds.
fn ids(case: &Document) -> Result<Bson, Error> {
    let raw = |document: &Document| RawDocumentBuf::try_from(document).expect("BSON");
    let command = case.get_document("command").expect("it has one");
    let filter = Filter::parse(&raw(command.get_document("filter").expect("it has one")))?;
    let mut ids = Vec::new();
    for document in case.get_array("documents").expect("it has them").iter().filter_map(Bson::as_document) {
        if filter.matches_within(&raw(document), &OperationContext::default())? {
            ids.push(document.get("_id").expect("it has one").clone());
        }
    }
    Ok(Bson::Array(ids))
}
END
}

mkdir -p "$work"
[ -d "$work/crates" ] || [ "${1:-pack}" = pack ] || pack
for part in ${@:-pack project docs tests graphs pcre2}; do
    case $part in
        pack | project | docs | tests | graphs | pcre2) "$part" ;;
        *) fail "'$part' is none of its parts: pack, project, docs, tests, graphs, pcre2" ;;
    esac
done
