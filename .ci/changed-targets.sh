#!/usr/bin/env bash
# Prints the fuzz targets of the crates whose sources a change touches. The change begins after the commit CAIRNDB_SINCE; else
# after the last commit that passed here, which .ci/run remembers in the cache; else it is what was committed in the twelve
# hours before the newest commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

since=${CAIRNDB_SINCE:-$(cat "$CAIRNDB_CACHE/passed-commit" 2>/dev/null || :)}
if [ -z "$since" ] || ! git merge-base --is-ancestor "$since" HEAD 2>/dev/null; then
    newest=$(git log -1 --format=%ct)
    since=$(git rev-list -1 --before="$((newest - 12 * 3600))" HEAD)
fi
if [ -n "$since" ]; then files=$(git diff --name-only "$since" HEAD); else files=$(git ls-files); fi

touches() { grep -qE "^($1)/(src|fuzz_targets|Cargo\.)" <<<"$files"; }
targets=()
if touches 'index|fuzz'; then targets+=(key_order key_round_trip path validate); fi
if touches 'sequence|fuzz'; then targets+=(object_id); fi
if touches 'query|pcre|fuzz'; then targets+=(filter projection update expression pipeline describe_apply); fi
if touches 'rocksfile|fuzz'; then targets+=(rocksfile); fi
if touches 'formats|fuzz'; then targets+=(formats dump); fi
if touches 'base|store|engine|fuzz'; then targets+=(operations budgets indexes rows resume_token); fi
if touches 'server|fuzz'; then targets+=(frame dispatch); fi
echo "${targets[*]:-}"
