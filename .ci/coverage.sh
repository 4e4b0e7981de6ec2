#!/usr/bin/env bash
# Which lines and branches the tests run: `bash .ci/coverage.sh MINIMUM CARGO_ARGUMENTS...`, or `make coverage`. It builds the
# tests of packages with counters, runs them, and prints a line for each folder of sources, for each crate and for all of them.
# It fails when a test fails, or when fewer than MINIMUM percent of all lines are run. In the cache it leaves coverage/files.txt
# (by file) and coverage/missed.txt (the lines that nothing runs). Code for tests alone is not counted. Examples in
# documentation are not run, and what a process ran that was killed, or ended by `_exit`, is not known.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
minimum=$1
shift
packages=("$@")
# All tests but those in documentation, unless some are chosen.
case " $* " in *" --lib "* | *" --test "* | *" --tests "*) ;; *) packages+=(--tests) ;; esac
out=$CAIRNDB_CACHE/coverage
rm -rf "$out"
mkdir -p "$out/raw"
llvm() { if command -v "llvm-$1-19" >/dev/null; then "llvm-$1-19" "${@:2}"; else "llvm-$1" "${@:2}"; fi; }

# Rust counts branches, but not yet under a stable flag, so the compiler must be told to take one that is not.
export RUSTC_BOOTSTRAP=1 RUSTFLAGS='-Cinstrument-coverage -Zcoverage-options=branch'
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR="$CAIRNDB_CACHE/coverage-target"
# Build scripts have counters too. What they count is not kept.
LLVM_PROFILE_FILE=/dev/null cargo test --locked --no-run --message-format=json "${packages[@]}" |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | sort -u >"$out/programs.txt"
failed=0
# Eight files for each program, which its processes add to: some suites start thousands.
LLVM_PROFILE_FILE="$out/raw/%8m.profraw" cargo test --locked -q --no-fail-fast "${packages[@]}" >"$out/tests.txt" 2>&1 ||
    failed=1

llvm profdata merge -sparse "$out"/raw/*.profraw -o "$out/all.profdata"
objects=()
while read -r program; do objects+=(-object "$program"); done <"$out/programs.txt"
llvm cov export -format=lcov "${objects[@]}" -instr-profile="$out/all.profdata" \
    -ignore-filename-regex='/\.cargo/|/rustc/' >"$out/all.lcov"

# Modules for tests alone, by name where they have a file; in a file they end with a brace in the first column.
tests=$(grep -rhA1 --include='*.rs' '^#\[cfg(.*test' -- */src | sed -nE 's/^(pub(\([a-z]+\))? )?mod ([a-z_]+);.*/\3/p' |
    sort -u | paste -sd'|' -)
awk -F'[:,]' -v root="$PWD/" -v out="$out" -v minimum="$minimum" -v tests="/($tests)(\\\\.rs$|/)" '
    function read_source(   line, number, in_tests) {
        delete source; delete skipped
        number = in_tests = 0
        while ((getline line < path) > 0) {
            source[++number] = line
            if (line ~ /^#\[cfg\((all\()?test/) in_tests = 1
            if (in_tests) skipped[number] = 1
            if (line ~ /^(}|.*;$)/ && line !~ /^[ #]/) in_tests = 0
        }
        close(path)
    }
    function add(what) {
        lines[what] += all; run[what] += all - none; ways[what] += sides; taken[what] += sides - untaken
    }
    function percent(part, whole) { return whole ? sprintf("%5.1f %%", 100 * part / whole) : "      -" }
    function report(what, name) {
        return sprintf("%s of %6d lines, %s of %6d branches: %s", percent(run[what], lines[what]), lines[what],
            percent(taken[what], ways[what]), ways[what], name)
    }
    /^SF:/ {
        path = substr($0, 4); file = substr(path, length(root) + 1)
        ours = index(path, root) == 1 && file ~ /^[a-z]+\/src\// && file !~ /^tests\// && file !~ tests
        if (ours) read_source()
        all = none = sides = untaken = 0
    }
    ours && /^DA:/ && !($2 in skipped) {
        all++
        if ($3 == 0) { none++; printf "%s:%d:%s\n", file, $2, source[$2] > (out "/missed.txt") }
    }
    ours && /^BRDA:/ && !($2 in skipped) { sides++; if ($5 == "-" || $5 == 0) untaken++ }
    all && /^end_of_record/ {
        folder = file; sub(/\/[^\/]*$/, "", folder)
        crate = file; sub(/\/.*/, "", crate)
        add("file " file); add("folder " folder); add("crate " crate); add("all")
        print report("file " file, file) > (out "/files.txt")
    }
    END {
        by_name = "sort | cut -f2"
        for (what in lines) if (what ~ /^folder /) print what "\tcoverage: " report(what, substr(what, 8)) | by_name
        close(by_name)
        for (what in lines) if (what ~ /^crate /) print what "\tcoverage: " report(what, what) | by_name
        close(by_name)
        print "coverage: " report("all", "all")
        if (100 * run["all"] < minimum * lines["all"]) {
            printf "coverage: fewer than %s %% of lines are run; %s/missed.txt has those that are not\n", minimum, out > "/dev/stderr"
            exit 1
        }
    }' "$out/all.lcov" || failed=2
if [ "$failed" = 1 ]; then
    grep -E 'FAILED|panicked at|^error' "$out/tests.txt" >&2 || true
    printf 'coverage: tests failed, so less is counted than is tested; see %s/tests.txt\n' "$out" >&2
fi
[ "$failed" = 0 ]
