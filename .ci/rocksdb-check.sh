# sh .ci/rocksdb-check.sh ARCHIVE CARGO_PACKAGES...: whether the archive that this project builds is RocksDB as its
# crate builds it. The crate's own build must define the same symbols, and every test must pass on it too.
# Called by `make rocksdb-check`, which has set up all that it needs.
set -eu

archive=$1
shift
unset ROCKSDB_LIB_DIR ROCKSDB_STATIC
target="$CAIRNDB_CACHE/rocksdb-check-target"
symbols="$CAIRNDB_CACHE/rocksdb-check-symbols"

# The same instructions, since they decide which functions of the checksum there are.
if grep -q pclmulqdq "$(dirname "$archive")/processor.txt"; then
    CXXFLAGS="${CXXFLAGS:-} -msse4.2 -mpclmul"
    export CXXFLAGS
fi
cargo build --release --locked -p librocksdb-sys --target-dir "$target"
own=$(find "$target/release/build" -path '*/librocksdb-sys-*/out/librocksdb.a' -exec ls -t {} + | head -n 1)
[ -n "$own" ] || { echo "rocksdb-check: the crate's own build left no archive below $target" >&2; exit 1; }

# Functions and variables of other files. Weak ones (V, W, u) are left out: the bodies of templates and of inline
# functions, of which a compiler keeps a copy only where it did not inline every call.
defined() { nm --defined-only --extern-only "$1" 2>/dev/null | awk 'NF == 3 && $2 !~ /[VWu]/ { print $3 }' | sort -u; }
defined "$archive" >"$symbols.ours"
defined "$own" >"$symbols.crate"
[ "$(wc -l <"$symbols.crate")" -gt 1000 ] || { echo "rocksdb-check: nm names too few symbols of $own" >&2; exit 1; }
diff "$symbols.crate" "$symbols.ours" >&2 || {
    echo "rocksdb-check: the archives differ: '<' only in the crate's own build, '>' only in ours" >&2
    exit 1
}
echo "rocksdb-check: both archives define the same $(wc -l <"$symbols.ours") symbols" >&2

cargo test --release --locked "$@" --target-dir "$target"
