#!/usr/bin/env bash
# Runs what takes longer than a change can wait, each part after the other, and prints their seconds and results:
# `make weekly`, before a release. Hours on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

. .ci/setup.sh
. .ci/steps.sh
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$CAIRNDB_CACHE/target}"

step "killed processes, and damaged files" make crash KILLS=2000 DAMAGE=50000
step "power failures, failed operations, deaths" make power CUTS=6000 FAULTS=2500 DEATHS_EACH=1
step "histories of several threads" make histories HISTORIES=1000
step "collections handed over to change streams" make handovers RUNS=1000
step "questions with indexes and without" make indexes QUERIES=100000
step "the tool beside a writer, and killed" make tool SECONDS=60 KILLS=40
step "many connections" make soak SECONDS=120 CONNECTIONS=200
step "interleavings of threads, 20,000 schedules" make interleavings SCHEDULES=20000
step "runners of the comparison, and their tests" make compare-build
step "databases in memory" make in-memory
step "every access to memory, under valgrind" make valgrind RUNS=1
step "coverage of the crates that everything stands on" make coverage MINIMUM=95 \
    COVERED="-p cairndb-index -p cairndb-sequence -p cairndb-rocksfile --features cairndb-index/collation"
step "documentation where RocksDB is not" make docs-without-rocksdb
step "packages, outside of the checkout" make package
step "the release, twice the same bytes" make release-check
step "the tool without its features" make features
step "counters in a folder and in a cluster" make counters
step "fuzzing, 60 seconds a target" make fuzz SECONDS_EACH=60
report_steps
