#!/usr/bin/env bash
# Runs the suites that choose at random in turns, each time with other seeds, for MINUTES or until one fails:
# `make campaign MINUTES=120`, which says in SUITES how suites are built. A failure names the seed that replays it. At the end
# the numbers of all runs are added up.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
minutes=$1
suites=(power crash histories indexes model interleavings)
unset CAIRNDB_SEED
# About five minutes of each suite on two cores.
export CAIRNDB_CUTS=3000 CAIRNDB_FAULTS=1200 CAIRNDB_DEATHS_EACH=2 CAIRNDB_KILLS=1000
export CAIRNDB_HISTORIES=500 CAIRNDB_INDEX_RUNS=250 CAIRNDB_MODEL_RUNS=1000
said=$(mktemp)
trap 'rm -f "$said"' EXIT

# The interleavings are a build of their own.
build() {
    $SUITES -q --no-run --test faults --test oracle
    make -s interleavings SCHEDULES=1
}

run() {
    if [ "$1" = interleavings ]; then
        make -s interleavings SCHEDULES=4000
    else
        case $1 in power | crash) program=faults ;; *) program=oracle ;; esac
        $SUITES -q --test $program -- "$1::" --nocapture
    fi
}

# What a suite tells of its work, among all that it and the harness say.
told() { grep -oE '(power|crash|numbered|transacting|spending|torn|expiring|replacing|uploading|damage|histories|histories of transactions|indexes|model|interleavings): .*|skipped: .*'; }

# Lines that differ in nothing but their numbers become one with the sums. Times, seeds and where deaths fell are left out.
add_up() {
    told <"$said" | grep -vE 'planted|as known' |
        sed -E 's/,? in [0-9]+ s//; s/[;,]? CAIRNDB_SEED=[0-9]+//; s/^(power: deaths: [^:]*):.*/\1/' | awk '
        {
            form = $0; gsub(/[0-9]+/, "#", form)
            if (!(form in runs)) order[++forms] = form
            runs[form]++
            for (n = 1; match($0, /[0-9]+/); n++) {
                sum[form, n] += substr($0, RSTART, RLENGTH)
                $0 = substr($0, RSTART + RLENGTH)
            }
        }
        END {
            for (f = 1; f <= forms; f++) {
                line = order[f]
                for (n = 1; (order[f], n) in sum; n++) sub(/#/, sprintf("%.0f", sum[order[f], n]), line)
                printf "campaign: in %d runs: %s\n", runs[order[f]], line
            }
        }'
}

# Building is not part of the time.
build >/dev/null
began=$SECONDS
runs=0
while [ $((SECONDS - began)) -lt $((minutes * 60)) ]; do
    suite=${suites[$((runs % ${#suites[@]}))]}
    printf 'campaign: %s, %d s after the beginning\n' "$suite" $((SECONDS - began))
    start=$(($(wc -l <"$said") + 1))
    if ! run "$suite" >>"$said" 2>&1; then
        tail -n +"$start" "$said" >&2
        printf 'campaign: %s failed, after %d runs of suites that passed\n' "$suite" "$runs" >&2
        exit 1
    fi
    tail -n +"$start" "$said" | told || true
    runs=$((runs + 1))
done
add_up
printf 'campaign: %d runs of suites in %d s, nothing failed\n' "$runs" $((SECONDS - began))
