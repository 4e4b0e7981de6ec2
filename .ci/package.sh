#!/usr/bin/env bash
# Packs what is published, and uses it as a stranger does: outside of the checkout, and with nothing else of it. Called by
# `make package`, with the parts to run: all without any.
#
#   pack     the packages, with their READMEs, licenses and pages
#   project  a project of ten lines, in debug and in release, with the default features, with none and with all
#   docs     its documentation, with no C++ compiler and no network
#   tests    the packages' own tests
#   graphs   projects that also use crates which share dependencies with CairnDB: they resolve
#   pcre2    the PCRE2 of the system, if there is one: patterns pass, or are refused by both versions
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
# A setting of the caller for its own builds. What is made here has a folder of its own, which later runs go on with.
export CARGO_TARGET_DIR="$work/target"

pack() {
    rm -rf "$work/target/package" "$work/crates"
    mkdir -p "$work/crates"
    # Without the build that cargo makes of each package by itself: `tests` builds all of them, once.
    cargo package --locked --no-verify --allow-dirty -q "${names[@]/#/-p}"
    for name in "${names[@]}"; do
        tar -xzf "$work/target/package/$name-$version.crate" -C "$work/crates"
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
}

docs() {
    new_project documented "cairndb = { version = \"=$version\", features = [\"opentelemetry\"] }
cairndb-server = \"=$version\"
cairndb-counters = { version = \"=$version\", features = [\"mongodb\"] }" "${engine[@]}" cairndb-server cairndb-counters
    ten_lines >"$work/documented/src/main.rs"
    # As the packages ask the host of documentation to. A compiler of C++ would fail.
    (cd "$work/documented" && cargo fetch -q && env -u ROCKSDB_LIB_DIR -u ROCKSDB_STATIC CXX=false \
        cargo --config "env.ROCKSDB_LIB_DIR='.'" --config "env.ROCKSDB_STATIC='1'" --config "env.PCRE2_SYS_STATIC='1'" \
        doc -q --offline --no-deps -p cairndb -p cairndb-server -p cairndb-counters --target-dir "$work/docs-target")
    for page in cairndb/guide/first_half_hour cairndb/guide/queries cairndb_server cairndb_counters; do
        [ "$(wc -c <"$work/docs-target/doc/$page/index.html")" -gt 5000 ] || fail "the documentation of $page is empty"
    done
    say "documentation has its pages, and was made without a C++ compiler and without network"
}

# All packages at once, so that they are built once. Cargo's settings of the checkout do not reach here.
tests() {
    mkdir -p "$work/crates/.cargo"
    {
        printf '[workspace]\nresolver = "3"\nmembers = ["*-%s"]\n' "$version"
        patches "${names[@]}"
        printf '\n'
        sed -n '/^\[profile\.dev\]/,/^\[profile\.release\]/p' "$checkout/Cargo.toml" | sed '$d'
    } >"$work/crates/Cargo.toml"
    printf '[env]\nPCRE2_SYS_STATIC = "1"\n' >"$work/crates/.cargo/config.toml"
    cp "$checkout/Cargo.lock" "$work/crates/Cargo.lock"
    local of=(${PACKAGES:-${names[@]}})
    (cd "$work/crates" && cargo test --no-fail-fast "${of[@]/#/-p}")
    say "the tests of ${#of[@]} packages pass, from their archives"
}

graphs() {
    for other in 'url = "2"' 'reqwest = "0.12"' 'axum = "0.8"' 'mongodb = "3.9"'; do
        new_project beside "cairndb = \"=$version\"
$other" "${engine[@]}"
        ten_lines >"$work/beside/src/main.rs"
        (cd "$work/beside" && quiet cargo metadata --format-version 1) || fail "no versions suit both cairndb and $other"
        # The newest of all that is allowed, too.
        rm "$work/beside/Cargo.lock"
        (cd "$work/beside" && quiet cargo generate-lockfile) || fail "no newest versions suit both cairndb and $other"
        say "resolves with $other"
    done
}

pcre2() {
    if ! pkg-config --exists libpcre2-8 2>/dev/null; then
        say "skipped: no libpcre2-8 in this system"
        return
    fi
    new_project systems "cairndb-pcre = \"=$version\"" cairndb-pcre
    cat >"$work/systems/src/main.rs" <<'END'
use cairndb_pcre::program::{Options, Program};
fn main() {
    match Program::compile("a+", Options::default()) {
        Ok(_) => println!("passes with {}", cairndb_pcre::version::linked()),
        Err(error) => println!("{error}"),
    }
}
END
    said=$(cd "$work/systems" && env -u PCRE2_SYS_STATIC cargo run -q --target-dir "$work/systems-target")
    case $said in
        "passes with "* | "this program is linked with PCRE2 "*) say "the system's PCRE2: $said" ;;
        *) fail "the system's PCRE2 is neither used nor refused: '$said'" ;;
    esac
}

mkdir -p "$work"
[ -d "$work/crates" ] || [ "${1:-pack}" = pack ] || pack
for part in ${@:-pack project docs tests graphs pcre2}; do
    case $part in
        pack | project | docs | tests | graphs | pcre2) "$part" ;;
        *) fail "'$part' is none of its parts: pack, project, docs, tests, graphs, pcre2" ;;
    esac
done
