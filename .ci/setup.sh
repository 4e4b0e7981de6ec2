# What every command of this project needs, found or installed. Sourced by the Makefile's recipes
# and by .ci/run (`. .ci/setup.sh`, POSIX sh): it checks in well under a second when all is there.
# It exports ROCKSDB_LIB_DIR and ROCKSDB_STATIC, so that demo, tests, lints and fuzzing all link one
# RocksDB archive, which is built here once and outlives `cargo clean` and the checkout. `clients` is for `make test` alone.

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

[ -n "${HOME:-}" ] || [ -n "${CAIRNDB_CACHE:-}" ] ||
    fail "neither HOME nor CAIRNDB_CACHE is set: there is no place for what is built"
CAIRNDB_CACHE="${CAIRNDB_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/cairndb}"
export CAIRNDB_CACHE
PATH="$CAIRNDB_CACHE/tools/bin:$PATH:${HOME:-}/.cargo/bin"
export PATH

# More than the tool, the bindings and the archive take while they are built.
ROOM_MEGABYTES=500

find_cache() {
    mkdir -p "$CAIRNDB_CACHE" || fail "the folder for what is built cannot be made: name another one in CAIRNDB_CACHE"
    [ -w "$CAIRNDB_CACHE" ] || fail "$CAIRNDB_CACHE cannot be written to: name another folder in CAIRNDB_CACHE"
}

# check_room: before something is built that would end in the middle with a message of a compiler.
check_room() {
    free=$(df -Pk "$CAIRNDB_CACHE" 2>/dev/null | sed -n '2s/^.* \([0-9][0-9]*\)  *[0-9]*% .*$/\1/p')
    [ $((${free:-99999999} / 1000)) -ge "$ROOM_MEGABYTES" ] || fail "the disk of $CAIRNDB_CACHE has \
$((free / 1000)) MB left, and building RocksDB needs up to $ROOM_MEGABYTES MB there: make room, or name another folder in CAIRNDB_CACHE"
}

# install DEBIAN_PACKAGE FEDORA_PACKAGE: by the system's own package manager.
install() {
    if has apt-get; then
        as_root "apt-get install $1" sh -c "apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q $1"
    elif has dnf; then
        as_root "dnf install $2" dnf install -y -q "$2"
    else
        fail "neither apt-get nor dnf is here: install the equivalent of the package $1 (Debian) or $2 (Fedora)"
    fi
}

# has_llvm MAJOR: whether the readers of coverage that have no number in their names are of that version, or newer.
has_llvm() {
    has llvm-cov && has llvm-profdata &&
        major=$(llvm-profdata --version 2>/dev/null | sed -n 's/.*LLVM version \([0-9]*\).*/\1/p') &&
        [ "${major:-0}" -ge "$1" ]
}

# as_root SENTENCE COMMAND...: directly as root, else through sudo.
as_root() {
    what=$1
    shift
    if [ "$(id -u)" = 0 ]; then
        say "installing: $what"
        "$@" >&2 || fail "'$what' failed: see its message above"
    elif has sudo; then
        say "installing with sudo: $what"
        sudo "$@" >&2 || fail "'$what' failed: see its message above"
    else
        fail "'$what' is needed, and this is neither root nor is sudo here: run it as root, then try again"
    fi
}

find_compiler() {
    has c++ && has cc && return
    say "a C and a C++ compiler (cc, c++) are missing; RocksDB is built with them"
    [ "$(uname -s)" != Darwin ] || fail "run 'xcode-select --install', wait until it has ended, then try again"
    install g++ gcc-c++
    has c++ || fail "there is still no c++ in PATH"
}

# is_new_enough PROGRAM: cargo or rustc, of the version in Cargo.toml or newer.
is_new_enough() {
    has "$1" && minor=$("$1" --version 2>/dev/null | sed -n 's/^[a-z]* 1\.\([0-9]*\).*/\1/p') &&
        [ "${minor:-0}" -ge "$(sed -n 's/^rust-version = "1\.\([0-9]*\)"/\1/p' Cargo.toml)" ]
}

rust_is_new_enough() { is_new_enough cargo && is_new_enough "${RUSTC:-rustc}"; }

# found PROGRAM: its name and version, for a message.
found() {
    if ! has "$1"; then echo "no $1"; return; fi
    version=$("$1" --version 2>/dev/null) || version="$1 that does not run"
    echo "${version%% (*}"
}

find_cargo() {
    rust_is_new_enough && return
    if has rustup; then
        export RUSTUP_TOOLCHAIN=stable
        rust_is_new_enough && return
    fi
    say "Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or newer is needed, and here is $(found cargo), $(found "${RUSTC:-rustc}")"
    if has rustup; then
        say "installing: rustup toolchain install stable"
        rustup toolchain install stable >&2 || fail "'rustup toolchain install stable' failed: see its message above"
    else
        has curl || install curl curl
        say "installing: rustup's stable Rust into $HOME/.cargo and $HOME/.rustup (https://rustup.rs)"
        installer=$(curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs) ||
            fail "https://sh.rustup.rs cannot be reached (a proxy is named in https_proxy): see curl's message above, or install Rust by yourself"
        printf '%s\n' "$installer" | sh -s -- -y -q --profile minimal \
            --component rustfmt --component clippy --no-modify-path >&2
        PATH="$HOME/.cargo/bin:$PATH"
    fi
    rust_is_new_enough || fail "there is still no Rust that is new enough, but $(found cargo), $(found "${RUSTC:-rustc}"): see https://rustup.rs"
}

# The project's own tool (rocksdb/) finds libclang and RocksDB's archive, which it builds if it is not there. It links
# no C++, so that it is there in seconds, and outlives `cargo clean` as the archive does.
rocksdb_tool() { "$CAIRNDB_CACHE/build/release/cairndb-rocksdb" "$@"; }

find_rocksdb_tool() {
    [ -x "$CAIRNDB_CACHE/build/release/cairndb-rocksdb" ] || check_room
    (unset CARGO_BUILD_TARGET; cargo build --quiet --release --locked --target-dir "$CAIRNDB_CACHE/build" \
        -p cairndb-rocksdb) || fail "the tool that builds RocksDB did not build: see the message above. Crates that are not \
here yet come from https://index.crates.io, by the proxy in https_proxy if there is one"
}

find_libclang() {
    libclang=$(rocksdb_tool --libclang) || install_libclang
    eval "$libclang"
}

install_libclang() {
    [ -z "${LIBCLANG_PATH:-}" ] || exit 1
    if [ "$(uname -s)" = Darwin ]; then
        has brew || fail "run 'xcode-select --install' (or 'brew install llvm'), then try again"
        say "installing: brew install llvm"
        brew install llvm >&2 || fail "'brew install llvm' failed: see its message above"
    else
        install libclang-dev clang-devel
    fi
    libclang=$(rocksdb_tool --libclang) || exit 1
}

# CAIRNDB_PORTABLE builds for processors without the instructions for checksums.
find_rocksdb() {
    ls "$CAIRNDB_CACHE"/rocksdb/*/librocksdb.a >/dev/null 2>&1 || check_room
    exports=$(rocksdb_tool --locked ${CAIRNDB_PORTABLE:+--portable}) || exit 1
    eval "$exports"
}

# tool NAME VERSION: a cargo subcommand of that very version, in the cache.
tool() {
    cargo "${1#cargo-}" --version 2>/dev/null </dev/null | grep -qF "$2" && return
    say "installing: cargo install $1 $2, into $CAIRNDB_CACHE/tools"
    (unset CARGO_TARGET_DIR; cargo install --quiet --locked --root "$CAIRNDB_CACHE/tools" --version "=$2" "$1") >&2 ||
        fail "'cargo install $1' failed: see its message above"
}

# Python 3 that can make virtual environments; Debian keeps that in a package of its own.
find_python() {
    can_make_environments() { has python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; }
    can_make_environments && return
    say "Python 3 with venv is missing; PyMongo is run by it"
    install python3-venv python3
    can_make_environments || fail "there is still no python3 in PATH that can 'import ensurepip, venv'"
}

# Node.js of the version that tests/clients/mongosh was chosen for, or newer.
find_node() {
    is_new_enough() { has npm && has node && [ "$(node -p 'parseInt(process.versions.node)')" -ge 18 ]; }
    is_new_enough && return
    say "Node.js 18 with npm is missing; mongosh is run by it"
    install "nodejs npm" nodejs-npm
    is_new_enough || fail "there is still no node of version 18 or newer with npm in PATH: see https://nodejs.org"
}

# clients: for `make test`, MongoDB's own clients in the versions that tests/clients pins. Their folders are named after
# those pins, and hold nothing half done: each is made under another name.
clients() {
    [ -x "$CAIRNDB_PYTHON" ] || install_pymongo
    [ -d "$CAIRNDB_SPECIFICATIONS" ] || install_specifications
    [ -f "$CAIRNDB_MONGOSH" ] && has node || install_mongosh
    [ -f "$CAIRNDB_RESTORE/package.json" ] || install_restore
}

install_pymongo() {
    find_python
    folder=${CAIRNDB_PYTHON%/bin/python}
    say "installing: PyMongo, by pip into $folder (about 40 MB)"
    rm -rf "$folder.$$"
    python3 -m venv "$folder.$$" >&2 || fail "'python3 -m venv' failed: see its message above"
    "$folder.$$/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        -r tests/clients/requirements.txt >&2 || fail_offline "$folder.$$" "'pip install pymongo'"
    mv "$folder.$$" "$folder" || fail "cannot create $folder"
}

# The source is downloaded and not installed: of it only tests are kept, with their data.
install_specifications() {
    folder=${CAIRNDB_SPECIFICATIONS%/test}
    say "installing: MongoDB's specification tests, by pip out of PyMongo's source into $folder (20 MB)"
    rm -rf "$folder.$$"
    mkdir -p "$folder.$$" || fail "cannot create $folder"
    "$CAIRNDB_PYTHON" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary pymongo --require-hashes \
        --dest "$folder.$$" -r tests/clients/specifications.txt >&2 || fail_offline "$folder.$$" "'pip download pymongo'"
    (cd "$folder.$$" && tar -xzf pymongo-*.tar.gz && mv pymongo-*/test test && mv test/client-side-encryption encryption &&
        mv encryption/spec/unified test/client-side-encryption && rm -rf encryption pymongo-*) ||
        fail "the source of PyMongo lacks test/client-side-encryption/spec/unified"
    mv "$folder.$$" "$folder" || fail "cannot create $folder"
}

install_mongosh() {
    find_node
    [ -f "$CAIRNDB_MONGOSH" ] || install_by_npm mongosh "mongosh" 125 "${CAIRNDB_MONGOSH%/node_modules/*}"
}

install_restore() {
    install_by_npm restore "a reader of dumps" 12 "${CAIRNDB_RESTORE%/node_modules/*}"
}

# install_by_npm NAME WORDS MEGABYTES FOLDER: what tests/clients/NAME pins.
install_by_npm() {
    say "installing: $2, by npm into $4 (about $3 MB)"
    rm -rf "$4.$$"
    mkdir -p "$4.$$" && cp "tests/clients/$1/package.json" "tests/clients/$1/package-lock.json" "$4.$$" ||
        fail "cannot create $4.$$"
    (cd "$4.$$" && npm ci --ignore-scripts --omit=optional --no-audit --no-fund --loglevel=error) >&2 ||
        fail_offline "$4.$$" "'npm ci' of $2"
    mv "$4.$$" "$4" || fail "cannot create $4"
}

# fail_offline FOLDER COMMAND
fail_offline() {
    rm -rf "$1"
    fail "$2 failed: see its message above. 'make test' runs MongoDB's clients, which it must be able to download once"
}

# pins FILE: a number that changes with the file.
pins() { cksum "$1" | cut -d ' ' -f 1; }

CAIRNDB_PYTHON="$CAIRNDB_CACHE/clients/pymongo-$(pins tests/clients/requirements.txt)/bin/python"
CAIRNDB_MONGOSH="$CAIRNDB_CACHE/clients/mongosh-$(pins tests/clients/mongosh/package-lock.json)/node_modules/mongosh/bin/mongosh.js"
CAIRNDB_RESTORE="$CAIRNDB_CACHE/clients/restore-$(pins tests/clients/restore/package-lock.json)/node_modules/@cdxoo/mongodb-restore"
CAIRNDB_SPECIFICATIONS="$CAIRNDB_CACHE/clients/specifications-$(pins tests/clients/specifications.txt)/test"
export CAIRNDB_PYTHON CAIRNDB_MONGOSH CAIRNDB_RESTORE CAIRNDB_SPECIFICATIONS
find_cache
find_compiler
find_cargo
find_rocksdb_tool
find_libclang
find_rocksdb
