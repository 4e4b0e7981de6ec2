#!/bin/sh
# The example of cairndb-counters in both forms: in a folder, and, after `cairn migrate`, in what stands for a cluster. The
# numbers go on. Called by `make counters`, which has set RocksDB up and says in SUITES how suites are built.
set -eu

folder=$(mktemp -d)
server=
# The server writes to its folder until it has ended.
trap 'test -z "$server" || { kill "$server"; wait "$server" || :; }; rm -rf "$folder"' EXIT
target=${CARGO_TARGET_DIR:-target}
# The tool and both programs as the suites have them, which are built already where those have run. That the second does
# without the engine is checked only.
cargo build ${SUITES#cargo test} -q --bin cairn --example numbers --example numbers_in_a_cluster
cargo check --locked -q -p cairndb-counters --example numbers_in_a_cluster --no-default-features --features mongodb
cp "$target/debug/examples/numbers" "$folder/in-a-folder"
cp "$target/debug/examples/numbers_in_a_cluster" "$folder/in-a-cluster"
cairn=$(cd "$(dirname "$target/debug/cairn")" && pwd)/cairn
cd "$folder"

expect() { # expect WORDS COMMAND...
    words=$1
    shift
    said=$("$@")
    [ "$said" = "$words" ] || { echo "counters: $* said '$said' and not '$words'" >&2; exit 1; }
}

expect 'order 1, ticket 1000
order 2, ticket 1001' ./in-a-folder numbers-data
expect 'order 3, ticket 1002
order 4, ticket 1003' ./in-a-folder numbers-data
"$cairn" serve cluster-data --port 0 --unix-socket cluster.sock --log-level off >cluster.log &
server=$!
until [ -S cluster.sock ]; do kill -0 "$server"; sleep 0.1; done
"$cairn" migrate numbers-data --to cluster.sock --quiet
uri="mongodb://$(printf '%s' "$folder/cluster.sock" | sed 's,/,%2F,g')/"
expect 'order 5, ticket 1004
order 6, ticket 1005' ./in-a-cluster "$uri"
echo "counters: numbers go on from a folder in a cluster"
