#!/usr/bin/env bash
# Builds all test programs and runs them side by side, one for each core: `bash .ci/tests.sh CARGO_TEST...`, or `make test`.
# Each program runs as cargo would start it, in the folder of its package. Examples in documentation are one more of them.
# The output of a program that fails is printed whole; of the others the lines that are not about single tests. The end is a
# table of seconds, longest first, and the sums. LANES says how many programs run at once; CAIRNDB_TEST_TIMES names a file for
# the seconds of every single test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command=("$@")
lanes=${LANES:-$(nproc 2>/dev/null || sysctl -n hw.ncpu)}
out=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || :; rm -rf "$out"' EXIT

# Programs that run longest are started first, so that the end is not a wait for one of them.
longest='faults cairn-suite api oracle clients examples-in-documentation wire cairndb query-suite sequence-suite'

start=$SECONDS
"${command[@]}" --tests --no-run --message-format=json-render-diagnostics >"$out/built.json"
built=$((SECONDS - start))

# NAME FOLDER PROGRAM, a line each. Suites of one name are told apart by their packages.
sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"name":"\([^"]*\)","src_path".*"test":true},"features".*"executable":"\([^"]*\)".*/\2 \1 \3/p' \
    "$out/built.json" | awk '{
        count = split($2, part, "/"); folder = part[count]
        name = $1 == "suite" ? folder "-suite" : $1
        print name, $2, $3
    }' | sed 's/^cli-suite /cairn-suite /' >"$out/programs"
[ -s "$out/programs" ] || { echo "tests: cargo named no test programs" >&2; exit 1; }
echo "examples-in-documentation . -" >>"$out/programs"

# The named ones first, then the rest.
{
    for name in $longest; do grep "^$name " "$out/programs" || :; done
    grep -vE "^($(echo "$longest" | tr ' ' '|')) " "$out/programs"
} >"$out/order"

# The examples of base and store use the engine, which includes and runs them.
documented=()
for word in "${command[@]}"; do
    case $word in cairndb-base | cairndb-store) unset 'documented[-1]' ;; *) documented+=("$word") ;; esac
done

# The seconds of single tests are printed under an unstable flag.
timed=(env ${CAIRNDB_TEST_TIMES:+RUSTC_BOOTSTRAP=1})
run() { # run NAME FOLDER PROGRAM
    local began=$SECONDS status=0
    if [ "$3" = - ]; then
        "${documented[@]}" --doc --no-fail-fast >"$out/$1.txt" 2>&1 || status=$?
    else
        (cd "$2" && CARGO_MANIFEST_DIR=$2 exec "${timed[@]}" "$3" ${CAIRNDB_TEST_TIMES:+-Zunstable-options --report-time}) \
            >"$out/$1.txt" 2>&1 </dev/null || status=$?
    fi
    echo "$((SECONDS - began)) $1 $status" >"$out/$1.done"
    {
        printf -- '-- %s: %s in %d s\n' "$1" "$([ "$status" = 0 ] && echo passed || echo "FAILED ($status)")" $((SECONDS - began))
        if [ "$status" = 0 ]; then
            grep -avE '^(test .* (ok|ignored.*)|running [0-9]+ tests?|test result: ok.*|all doctests ran in .*|)$|^ *(Doc-tests|Finished|Compiling) |<[0-9.]+s>$' \
                "$out/$1.txt" || :
        else
            cat "$out/$1.txt"
        fi
    } >"$out/$1.said"
    cat "$out/$1.said"
}

began=$SECONDS
while read -r name folder program; do
    while [ "$(jobs -rp | wc -l)" -ge "$lanes" ]; do wait -n || :; done
    run "$name" "$folder" "$program" &
done <"$out/order"
wait

printf '\n== seconds, longest first; compiling took %d, running %d\n' "$built" $((SECONDS - began))
cat "$out"/*.done | sort -rn | awk '{ printf "%6d  %s%s\n", $1, $2, $3 == 0 ? "" : "  FAILED" }'
if [ -n "${CAIRNDB_TEST_TIMES:-}" ]; then
    for said in "$out"/*.txt; do
        sed -nE "s/^test (.*) \.\.\. ok <([0-9.]+)s>$/\2 $(basename "$said" .txt) \1/p" "$said"
    done | sort -rn >"$CAIRNDB_TEST_TIMES"
fi
wrong=$(awk '$3 != 0 { print $2 }' "$out"/*.done)
for name in $wrong; do
    sed -n "s/^test \(.*\) \.\.\. FAILED.*/failed: $name: \1/p" "$out/$name.txt"
done
cat "$out"/*.txt | awk -v wrong="$(echo $wrong | wc -w)" '
    /^test result: / { passed += $4; failed += $6; ignored += $8 }
    # A program that died has no line of results, and has failed all the same.
    END { if (wrong > 0 && failed == 0) failed = wrong; printf "%d passed, %d failed\n", passed, failed }'
[ -z "$wrong" ]
