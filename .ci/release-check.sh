#!/usr/bin/env bash
# Makes the archive of `make release` twice, each time from a copy of the checkout in another folder and from nothing, compares the
# bytes, and uses what is in it. Twenty minutes of processor time. Called by `make release-check`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'release-check: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

work="$CAIRNDB_CACHE/release-check"
rm -rf "$work"
# Of different lengths, so that what depends on them differs. Both are copied first: the checkout may change meanwhile.
copies=("$work/one" "$work/another/folder/two")
for copy in "${copies[@]}"; do
    mkdir -p "$copy"
    git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- -cf - | tar -xf - -C "$copy"
done
diff -r "${copies[@]}" || fail "the checkout was changed while it was copied"
for copy in "${copies[@]}"; do
    (cd "$copy" && env -u CARGO_TARGET_DIR bash .ci/release.sh)
    rm -rf "$copy/target/dist"
done
archives=()
for copy in "${copies[@]}"; do archives+=("$copy"/target/release-archives/cairn-*.tar.gz); done
cmp "${archives[0]}" "${archives[1]}" || fail "two builds of the same sources differ"

mkdir "$work/used"
tar -xzf "${archives[0]}" -C "$work/used"
cd "$work"/used/cairn-*
sha256sum --quiet -c SHA256SUMS || fail "the checksums are others"
printf '{"_id": 1, "name": "Ada"}\n' | ./cairn import store demo.people - --format ndjson --quiet
said=$(./cairn query store -c people '{name: /^A/}')
[ "$said" = '{"_id":1,"name":"Ada"}' ] || fail "the tool says '$said'"
./cairn verify store --quiet || fail "the tool's own store does not verify"
said=$(printf '%s %s' "$(wc -c <cairn)" "$(wc -c <"${archives[0]}")")
cd "$work"
rm -rf "$work"
say "the same bytes twice, and they run: tool and archive have $said bytes"
