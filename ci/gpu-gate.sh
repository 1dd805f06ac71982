#!/usr/bin/env bash
# ci/gpu-gate.sh [option...] - is a change slower, larger or wrong? for CI on a machine with a GPU
#
#   --base REVISION|BUILD       what to hold it against (default: where HEAD left origin/main)
#   --candidate REVISION|BUILD  what is judged (default: '.', the working tree, as built here)
#   --baseline NAME|FILE        hold the working tree against a recorded baseline, not a base
#   --suite SUITE               what is run (default: suites/kernels/all)
#   --policy NAME|FILE          what may pass (default: suites/policies/default.json)
#   --out DIR                   where the results go (default: gate)
#   -- OPTION...                for `bt-bench ab` or `bt-bench gate`: --filter, --profile, --set ...
#
# Builds the tree (./bt-bench does), and a base revision once per machine and commit
# (results/builds/); runs both in turns (`bt-bench ab`) or the tree alone (`bt-bench gate`); judges.
# DIR then has summary.md (for a comment), junit.xml, gate.json, report.html and run.tar.zst, the
# bundle by which anybody can judge again. What is missing when it ends could not be made.
# $BT_BENCH: a built program to use in place of ./bt-bench.
#
# Exit: the gate's. 0 nothing worse, 1 slower or larger, 2 usage, 3 inconclusive, 4 not comparable
# or disturbed, 5 crashed, wrong, or does not build, 130 interrupted.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
bench=${BT_BENCH:-$root/bt-bench}
base='' candidate=. baseline='' suite=$root/suites/kernels/all policy=default out=gate

usage() { # message
    printf 'gpu-gate: %s\nusage: ci/gpu-gate.sh %s\n' "$1" \
        '[--base REV] [--candidate REV] [--baseline NAME] [--suite SUITE] [--policy NAME] [--out DIR] [-- OPTION...]' >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --base | --candidate | --baseline | --suite | --policy | --out)
        [ $# -gt 1 ] || usage "$1 needs a value"
        printf -v "${1#--}" %s "$2"
        shift 2
        ;;
    --)
        shift
        break
        ;;
    -h | --help)
        sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    *) usage "$1 is no option" ;;
    esac
done
[ -z "$baseline" ] || [ -z "$base$candidate" ] || [ "$base$candidate" = . ] ||
    usage "--baseline goes with the working tree alone, not with --base or --candidate"

if [ -z "$baseline$base" ]; then
    base=$(git -C "$root" merge-base HEAD origin/main 2>/dev/null) ||
        usage "no origin/main here to find a base in: name one with --base"
fi
mkdir -p "$out"
rm -f "$out"/{summary.md,junit.xml,gate.json,report.html,run.tar.zst,session.json}
files=(--policy "$policy" --junit "$out/junit.xml" --markdown "$out/summary.md" --json "$out/gate.json")

# The number of the run in a JSON object that begins with it, or says it in a line of its own.
run_of() { # file
    sed -n 's/.*"run": *\([0-9][0-9]*\).*/\1/p' "$1" | head -n 1
}

code=0
if [ -n "$baseline" ]; then
    "$bench" gate "$suite" --baseline "$baseline" "${files[@]}" "$@" || code=$?
    session=$out/gate.json
else
    session=$out/session.json
    "$bench" ab "$base" "$candidate" "$suite" --policy "$policy" --format json "$@" >"$session" || code=$?
fi
if [ ! -s "$session" ] || [ "$code" = 130 ]; then # no verdict; why has been said
    rm -f "$out/session.json"
    exit "$code"
fi
run=$(run_of "$session")
if [ -z "$baseline" ]; then
    code=0
    "$bench" gate "$run" "${files[@]}" || code=$?
    rm -f "$session"
fi
# These are for people; a judgement stands without them.
"$bench" report "$run" -o "$out/report.html" >&2 || echo "gpu-gate: no report" >&2
"$bench" export "$run" -o "$out/run.tar.zst" >&2 || echo "gpu-gate: no bundle" >&2
exit "$code"
