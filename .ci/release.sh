#!/usr/bin/env bash
# Makes cairn-VERSION-TARGET.tar.gz in the folder of the target: the tool, its man pages, completions, licenses, the list of the
# crates in it with theirs, and checksums. The same sources, compiler and archive of RocksDB make the same bytes, in whatever folders
# they lie: `make release-check` compares. Called by `make release`; CAIRN_BINARY names a tool that is built already, for a test of
# the rest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { printf 'release: %s\n' "$*" >&2; exit 1; }

# In bytes, stripped: it has 25,529,328 today. docs/building.md says what it is made of.
SIZE_MAX=$((26 << 20))

target=$(rustc -vV | sed -n 's/^host: //p')
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name="cairn-$version-$target"
out="${CARGO_TARGET_DIR:-target}/release-archives"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder="$work/$name"
mkdir -p "$folder/man" "$folder/completions" "$out"

built=${CAIRN_BINARY:-}
if [ -z "$built" ]; then
    # Panics and assertions name files. Of two folders of which one is in the other, the last that is named here holds.
    folders=("${HOME:-/nowhere}=/home" "$PWD=/cairndb" "$(rustc --print sysroot)=/rust" "${CARGO_HOME:-$HOME/.cargo}=/cargo" "$(cd "$out/.." && pwd)=/target")
    for renamed in "${folders[@]}"; do
        RUSTFLAGS="${RUSTFLAGS:+$RUSTFLAGS }--remap-path-prefix=$renamed"
        CFLAGS="${CFLAGS:+$CFLAGS }-ffile-prefix-map=$renamed"
    done
    export RUSTFLAGS CFLAGS
    cargo build --locked -q --profile dist -p cairndb-cli
    built="${CARGO_TARGET_DIR:-target}/dist/cairn"
fi
cp "$built" "$folder/cairn"
# The profile has the linker strip it; a tool that was named may be whole.
strip "$folder/cairn" 2>/dev/null || fail "strip (binutils) is not here, or does not know $built"
size=$(wc -c <"$folder/cairn")
[ -n "${CAIRN_BINARY:-}" ] || [ "$size" -le "$SIZE_MAX" ] || fail "the tool has $size bytes, more than $SIZE_MAX"
for machine in "$PWD" "${CARGO_HOME:-$HOME/.cargo}" "$(rustc --print sysroot)" "$(cd "$out/.." && pwd)"; do
    [ -n "${CAIRN_BINARY:-}" ] || ! grep -aqF "$machine/" "$folder/cairn" || fail "the tool names the folder $machine of this machine"
done
[ "$("$folder/cairn" --version)" = "cairn $version" ] || fail "$built is not version $version"

cairn="$folder/cairn"
"$cairn" man >"$folder/man/cairn.1"
for command in $("$cairn" completions fish | sed -n 's/.*"__fish_cairn_needs_command" -f -a "\([a-z-]*\)".*/\1/p' | sort -u); do
    [ "$command" = help ] || "$cairn" man "$command" >"$folder/man/cairn-$command.1"
done
[ "$(find "$folder/man" -name 'cairn-*.1' | wc -l)" -ge 15 ] || fail "the tool has fewer than 15 man pages: its commands were not found"
for shell in bash elvish fish powershell zsh; do "$cairn" completions "$shell" >"$folder/completions/cairn.$shell"; done
cp LICENSE-MIT LICENSE-APACHE "$folder"
cp cli/README.md "$folder/README.md"

# The crates that are linked, each with the license that it names, and the sources in other languages that some bring.
{
    cargo tree --locked -e normal --prefix none --format '{p} {l}' --target "$target" -p cairndb-cli |
        sed -e 's/ (\*)$//' -e 's, (/[^)]*),,' -e 's/ (proc-macro)//' | sort -u
    printf '\nWithin them, in C and C++: RocksDB (Apache-2.0), LZ4 (BSD-2-Clause), Zstandard (BSD-3-Clause), PCRE2 (BSD-3-Clause WITH\n'
    printf 'PCRE2-exception), QuickJS-NG (MIT).\n'
} >"$folder/CRATES.txt"
[ "$(wc -l <"$folder/CRATES.txt")" -gt 100 ] || fail "cargo tree lists too few crates"
if grep -n '^[^ ]* v[^ ]*  *$' "$folder/CRATES.txt"; then fail "a crate names no license"; fi

sums() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
(cd "$folder" && find . -type f ! -name SHA256SUMS | LC_ALL=C sort | sed 's,^\./,,' | while read -r file; do sums "$file"; done >SHA256SUMS)
chmod -R u=rwX,go=rX "$folder"

# pax or ustar, in the order of names, with no time, no owner and no name of a machine in it.
LC_ALL=C tar --sort=name --mtime='@0' --owner=0 --group=0 --numeric-owner --format=ustar -C "$work" -cf "$work/archive.tar" "$name" ||
    fail "GNU tar is needed"
gzip -9 -n <"$work/archive.tar" >"$out/$name.tar.gz"
printf 'release: %s, %s bytes; the tool has %s\n' "$out/$name.tar.gz" "$(wc -c <"$out/$name.tar.gz")" "$size" >&2
