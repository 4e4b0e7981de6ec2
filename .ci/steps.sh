# Steps with their seconds and results, for .ci/run and `make weekly`. Sourced (bash).

passed=0
failed=()
skipped=()
times=()
said=$(mktemp)
failures=$(mktemp)
trap 'rm -f "$said" "$failures"' EXIT

# Where root has the device, the suites have all that they need, and must run.
has_all=
if [ "$(id -u)" -eq 0 ] && [ -c /dev/fuse ]; then has_all=yes; fi

# step HEADING COMMAND...: goes on after a failure, so that one run shows all that is wrong; the end repeats which
# tests failed and their messages. A step that skipped something, for want of root or of a device, has failed where both are there.
step() {
    local heading=$1 start=$SECONDS result=passed reason
    shift
    # Each step begins with what has failed so far: a run that is ended from outside has told it by then.
    head -40 "$failures"
    printf '\n== %s, after %d s\n' "$heading" "$SECONDS"
    if ! "$@" 2>&1 | tee "$said"; then
        result=FAILED
        { printf '%s:\n' "$heading"
          grep -aE -A 4 '^failed: |^test .*(FAILED|failed)$|panicked at|^error' "$said" | cut -c 1-600 | head -60
        } >>"$failures" || true
    else
        reason=$(grep -a -m 1 '^skipped: no ' "$said" || true)
        if [ -n "$reason" ] && [ -n "$has_all" ]; then
            result="FAILED: NOT ALL RUN: $reason"
            printf '%s: NOT ALL RUN, though root has /dev/fuse here: %s\n' "$heading" "$reason" >>"$failures"
        elif [ -n "$reason" ]; then
            skipped+=("a part of '$heading', $reason")
        fi
    fi
    if [ "$result" = passed ]; then passed=$((passed + 1)); else failed+=("$heading"); fi
    times+=("$((SECONDS - start)) $heading: $result")
    printf -- '-- %s: %s in %d s\n' "$heading" "$result" $((SECONDS - start))
}

# The seconds of the steps, longest first, then what failed; the status is that of the whole.
report_steps() {
    local heading
    printf '\n== steps and their seconds, %d in all\n' "$SECONDS"
    printf '%s\n' "${times[@]}" | sort -rn | sed 's/^\([0-9]*\) /\1\t/'
    printf '\n'
    cat "$failures"
    for heading in ${failed[@]+"${failed[@]}"}; do printf 'failed: %s\n' "$heading"; done
    for heading in ${skipped[@]+"${skipped[@]}"}; do printf 'not run: %s\n' "$heading"; done
    printf 'steps: %d passed, %d failed; %d of the first had a part that was not run\n' "$passed" "${#failed[@]}" "${#skipped[@]}"
    [ "${#failed[@]}" -eq 0 ]
}
