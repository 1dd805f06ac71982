#!/usr/bin/env bash
# ci/self-check.sh [--device cpu|cuda] [--bench PROGRAM] [--slowdown FRACTION] [--keep FOLDER] - tests
# the harness on this machine: an injected slowdown of a real case must be found, and a build must
# never be called slower than itself
#
#   cpu   (default) `calibrate` measures what can be detected; three times as much is injected
#   cuda  2 % is injected, and `calibrate` must report that this can be detected
#
# The policies are suites/policies/self_check*.json. How it can fail although the harness is
# correct: an equal build is called SLOWER with a chance of 1e-6, on a GPU 1e-3 (alpha of the
# policy; and it would have to differ by the tolerance, 25 % on a CPU, 1 % on a GPU). The slowdown
# is missed with a probability of less than a tenth if the machine is as noisy as during
# calibration, and three times what is needed is injected. On a CPU there are three attempts, each
# with four times the slowdown, the last with at least twelve times the time: that is detected while
# pairs of equal rounds differ by less than a factor of three (one sd), which is noisier than any
# machine we know; it is missed only if all three attempts fail.
# On a CPU one thread is used: waiting threads disturb each other more than anything else.
# Exit 0 correct, 1 not, 2 usage, else that of bt-bench.
set -euo pipefail
root=$(cd "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
device=cpu
bench=$root/build/bin/bt-bench
slowdown=0.02
folder=

usage() {
    echo "usage: ci/self-check.sh [--device cpu|cuda] [--bench PROGRAM] [--slowdown FRACTION] [--keep FOLDER]" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || usage
    case $1 in
    --device) device=$2 ;;
    --bench) bench=$(readlink -f -- "$2") ;;
    --slowdown) slowdown=$2 ;;
    --keep) folder=$2 ;;
    *) usage ;;
    esac
    shift 2
done
case $device in
cpu) profile=cpu policy=self_check tries=3 rounds=24 ;;
cuda) profile=gpu policy=self_check_gpu tries=1 rounds=24 ;;
*) usage ;;
esac
[ "$device" != cpu ] || export OMP_NUM_THREADS=1
if [ -z "$folder" ]; then
    folder=$(mktemp -d "${TMPDIR:-/tmp}/bt-self-check-XXXXXX")
    trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder"
folder=$(readlink -f -- "$folder")
suite=$root/suites/self_check
policy=$root/suites/policies/$policy.json
common=(--profile "$profile" --policy "$policy" --quiet --format json)

# Runs bt-bench in the folder; prints its JSON, keeps its exit code in $code. 0, 1, 3: verdicts.
measure() { # name, arguments...
    local name=$1
    shift
    code=0
    (cd "$folder" && "$bench" "$@" "${common[@]}" --db "$name.sqlite") \
        >"$folder/$name.json" || code=$?
    case $code in
    0 | 1 | 3) ;;
    *)
        echo "self-check: bt-bench $1 ended with code $code" >&2
        exit "$code"
        ;;
    esac
}

times() { # a share and a factor
    awk -v share="$1" -v factor="$2" 'BEGIN { printf "%.6g", share * factor }'
}

fail() {
    echo "self-check: $*" >&2
    exit 1
}

measure calibrate calibrate "$suite" --rounds "$rounds"
jq -r '.cases[] | "\(.case): pairs of equal builds differ by \(100 * .pair_deviation | . * 100 | round / 100) %, \(100 * (.smallest // 10) | . * 100 | round / 100) % is found nine times in ten"' \
    "$folder/calibrate.json"
if [ "$device" = cpu ]; then
    slowdown=$(times "$(jq '[.cases[] | .smallest_high // 10] | max' "$folder/calibrate.json")" 3)
elif ! jq -e --argjson share "$slowdown" 'all(.cases[]; (.smallest // 10) <= $share)' \
    "$folder/calibrate.json" >/dev/null; then
    fail "this machine is too noisy: a slowdown of $(times "$slowdown" 100) % is detected fewer than nine times in ten"
fi

for try in $(seq "$tries"); do
    measure "slowed-$try" ab . . "$suite" --inject-slowdown "$slowdown"
    found=$(jq '[.gate.verdicts[] | select(.metric == "time_ns")] | all(.verdict == "SLOWER")' \
        "$folder/slowed-$try.json")
    echo "slower by $(times "$slowdown" 100) %: found: $found"
    [ "$found" = false ] || break
    slowdown=$(times "$slowdown" 4)
done
[ "$found" = true ] || fail "an injected slowdown was not detected"

measure equal ab . . "$suite"
echo "equal builds: $(jq -r '[.gate.verdicts[] | select(.metric == "time_ns") | .verdict] | join(" ")' "$folder/equal.json")"
jq -e 'all(.gate.verdicts[].verdict; . != "SLOWER" and . != "LARGER")' "$folder/equal.json" >/dev/null ||
    fail "a build was judged slower than itself"
echo "self-check: sound"
