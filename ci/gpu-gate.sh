#!/usr/bin/env bash
# ci/gpu-gate.sh [option...] - fails if a change is slower, uses more memory or computes
# different results; for CI on a machine with a GPU
#
#   --base REVISION|BUILD       what it is compared with (default: where HEAD left origin/main)
#   --candidate REVISION|BUILD  what is tested (default: '.', the working tree, as built here)
#   --baseline NAME|FILE        compare the working tree with a recorded baseline instead of a base
#   --tree DIR                  the checkout of the change (default: this script's own); a CI job runs
#                               the base's copy of this script on it
#   --suite SUITE               what is run (default: suites/kernels/all)
#   --policy NAME|FILE          what may pass (default: suites/policies/default.json)
#   --out DIR                   where the results go (default: gate)
#   -- OPTION...                for `bt-bench ab` or `bt-bench gate`: --filter, --profile, --set ...
#
# A change is not judged by its own code: harness, suite and policy are those of the base revision
# (of where HEAD left origin/main with --baseline), taken into results/builds/judge-COMMIT and built
# there once. Files of the harness, the suites, the committed baselines and this script that the
# candidate changes are listed, in summary.md as well. A base that is a build has no sources:
# harness, suite and policy are then this tree's.
# `bt-bench ab` of the base runs both sides in interleaved rounds and judges them; with --baseline
# the tree runs (`bt-bench gate`), and the base judges the recorded run again.
# DIR then has summary.md (for a comment), junit.xml, gate.json, report.html and run.tar.zst, the
# bundle from which the verdict can be recomputed. Files missing at the end could not be made.
# $BT_BENCH: a built program that is trusted to judge, in place of the base's ./bt-bench.
#
# Exit: the gate's. 0 nothing worse, 1 slower or larger, 2 usage, 3 inconclusive, 4 not comparable
# or disturbed, 5 crashed, wrong, or does not build, 130 interrupted.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
base='' candidate=. baseline='' tree=$root suite='' policy=default out=gate

usage() { # message
    printf 'gpu-gate: %s\nusage: ci/gpu-gate.sh %s\n' "$1" \
        '[--base REV] [--candidate REV] [--baseline NAME] [--tree DIR] [--suite SUITE] [--policy NAME] [--out DIR] [-- OPTION...]' >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --base | --candidate | --baseline | --tree | --suite | --policy | --out)
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
    *) usage "unknown option $1" ;;
    esac
done
[ -z "$baseline" ] || [ -z "$base$candidate" ] || [ "$base$candidate" = . ] ||
    usage "--baseline cannot be combined with --base or --candidate"

root=$(readlink -e -- "$tree") || usage "--tree: no such folder"
suite=${suite:-$root/suites/kernels/all}
left_main=$(git -C "$root" merge-base HEAD origin/main 2>/dev/null) || left_main=''
if [ -z "$baseline$base" ]; then
    [ -n "$left_main" ] || usage "the repository has no origin/main to determine the base: give it with --base"
    base=$left_main
fi

# ---- who judges --------------------------------------------------------------------------------

judge_root=$root commit=''
if [ ! -e "${base:-$root/none}" ]; then
    commit=$(git -C "$root" rev-parse --verify --quiet "${base:-$left_main}^{commit}") || commit=''
fi
if [ -n "$commit" ]; then
    judge_root=$PWD/results/builds/judge-$commit
    [ -e "$judge_root/.git" ] || git clone --quiet --shared --no-checkout -- "$root" "$judge_root"
    git -C "$judge_root" checkout --quiet --force --detach "$commit"
else
    echo "gpu-gate: no base revision: harness, suite and policy of this tree are used" >&2
fi
judge=${BT_BENCH:-$judge_root/bt-bench}
tree=${BT_BENCH:-$root/bt-bench}

# The base's file of that name where the given one lies in this tree; files elsewhere are the caller's.
of_base() { # path
    local path
    path=$(readlink -m -- "$1")
    case $path in
    "$judge_root" | "$judge_root"/*) printf %s "$path" ;;
    "$root"/*) printf %s "$judge_root${path#"$root"}" ;;
    *) printf %s "$1" ;;
    esac
}

[ -e "$suite" ] || [ -e "$root/suites/$suite" ] || usage "no such suite: $suite"
[ -e "$suite" ] || suite=$root/suites/$suite
suite=$(of_base "$suite")
case $policy in
*/* | *.json) policy=$(of_base "$policy") ;;
*) policy=$judge_root/suites/policies/$policy.json ;;
esac
case $baseline in
*/* | *.json) baseline=$(of_base "$baseline") ;;
esac
for path in "$suite" "$policy"; do
    [ -e "$path" ] || usage "the base has no $path: suite and policy must exist in the base"
done

changed=''
if [ -n "$commit" ]; then
    against=()
    if [ ! -e "$candidate" ]; then
        candidate=$(git -C "$root" rev-parse --verify --quiet "$candidate^{commit}") ||
            usage "--candidate: expected a build or a revision"
        against=("$candidate")
    fi
    changed=$(git -C "$root" diff --name-only "$commit" "${against[@]}" -- harness suites results/baselines ci/gpu-gate.sh bt-bench)
fi
if [ -n "$changed" ]; then
    printf 'gpu-gate: the candidate changes files that judge it; those of the base are used (%.8s):\n%s\n' \
        "$commit" "${changed//$'\n'/$'\n'  }" | sed '2s/^/  /' >&2
fi

# The sides, as the judge sees them: its own build is the base's, the tree's is beside the tree.
if [ -n "$commit" ] && [ -z "${BT_BENCH:-}" ] && [ -z "$baseline" ]; then
    base=.
    if [ "$candidate" = . ]; then
        "$tree" version >/dev/null
        candidate=$root/build/bin/bt-bench
    fi
fi

mkdir -p "$out"
out=$(readlink -f -- "$out")
rm -f "$out"/{summary.md,junit.xml,gate.json,report.html,run.tar.zst,session.json}
files=(--policy "$policy" --junit "$out/junit.xml" --markdown "$out/summary.md" --json "$out/gate.json")

# The number of the run in a JSON object that begins with it, or says it in a line of its own.
run_of() { # file
    sed -n 's/.*"run": *\([0-9][0-9]*\).*/\1/p' "$1" | head -n 1
}

code=0
if [ -n "$baseline" ]; then
    "$tree" gate "$suite" --baseline "$baseline" "${files[@]}" "$@" || code=$?
    session=$out/gate.json
else
    session=$out/session.json
    "$judge" ab "$base" "$candidate" "$suite" --policy "$policy" --format json "$@" >"$session" || code=$?
fi
if [ ! -s "$session" ] || [ "$code" = 130 ]; then # no verdict; ab has printed the reason
    rm -f "$out/session.json"
    exit "$code"
fi
run=$(run_of "$session")
if [ -z "$baseline" ]; then
    code=0
    "$judge" gate "$run" "${files[@]}" || code=$?
    rm -f "$session"
elif [ "$judge" != "$tree" ]; then
    code=0 # the exit code of the tree's own build does not count
    rm -f "$out"/{summary.md,junit.xml,gate.json}
    "$judge" gate "$run" --baseline "$baseline" "${files[@]}" || code=$?
fi
if [ -n "$changed" ] && [ -e "$out/summary.md" ]; then
    # Names of files are data of the change: indented, Markdown shows them as they are.
    printf '\nThe candidate changes harness, suite or policy. Those of %.8s were used. Changed files:\n\n%s\n' \
        "$commit" "    ${changed//$'\n'/$'\n'    }" >>"$out/summary.md"
fi
# These are for people; a judgement stands without them.
"$judge" report "$run" -o "$out/report.html" >&2 || echo "gpu-gate: the report could not be written" >&2
"$judge" export "$run" -o "$out/run.tar.zst" >&2 || echo "gpu-gate: the bundle could not be written" >&2
exit "$code"
