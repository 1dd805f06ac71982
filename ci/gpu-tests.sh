#!/usr/bin/env bash
# ci/gpu-tests.sh [-j N] [-o DIR] [-l LIMIT_S] [FOLDER] - every GPU test of a build, then under compute-sanitizer
#
#   FOLDER      output of `ci/portable.sh --tests`, or a build folder (default: build-ci)
#   -j N        parallel programs, default 6: they compare numbers and measure no times
#   -o DIR      folder for the logs, default gpu-tests
#   -l LIMIT_S  time limit of a program in seconds, default 600
#   --quick     without compute-sanitizer
#   --wide      also the wide sweeps of products and attention, an hour or more: with -l 7200
#
# Runs conformance_*, golden_*, gradient_twice, unit_overlap, harness_gpu_cheats and dist_gpu*, whose
# two ranks share the GPU of a machine that has one; the GEMM tests also with the sm_80 rows alone
# (BT_GEMM). memcheck runs on ranks and on every conformance test except those that take
# too long or measure time; racecheck and initcheck on those whose kernels use shared memory and
# finish in reasonable time: racecheck fails with an internal error in cuBLASLt's kernels and in our
# cluster kernels.
# API errors are not reported: a test of a full device causes them on purpose.
# Prints one row for each run. Exit 0 all passed, 1 a test or a check failed, 2 usage, 4 no GPU,
# no such folder, or compute-sanitizer is missing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
jobs=6 out=gpu-tests limit=600 sanitize=true wide=false folder=build-ci

usage() {
    echo "usage: ci/gpu-tests.sh [-j N] [-o DIR] [-l LIMIT_S] [--quick] [--wide] [FOLDER]" >&2
    exit 2
}

missing() { # message
    printf 'gpu-tests: %s\n' "$1" >&2
    exit 4
}

while [ $# -gt 0 ]; do
    case $1 in
    -j | -o | -l)
        [ $# -gt 1 ] || usage
        case $1 in
        -j) jobs=$2 ;;
        -o) out=$2 ;;
        -l) limit=$2 ;;
        esac
        shift
        ;;
    --quick) sanitize=false ;;
    --wide) wide=true ;;
    -*) usage ;;
    *) folder=$1 ;;
    esac
    shift
done
[[ $jobs =~ ^[1-9][0-9]*$ && $limit =~ ^[1-9][0-9]*$ ]] || usage
[ -d "$folder/tests" ] || missing "$folder has no tests: make them with ci/portable.sh --tests"
gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU' || true)
[ "$gpus" -gt 0 ] || missing 'no GPU here (nvidia-smi lists none)'
! $sanitize || command -v compute-sanitizer >/dev/null || missing 'compute-sanitizer is not in PATH; --quick does without'
tests=$(cd "$folder/tests" && pwd -P)
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
export limit out tests OMP_WAIT_POLICY=passive CUDA_MODULE_LOADING=EAGER NCCL_NVLS_ENABLE=0
[ ! -d "$tests/cache" ] || export BT_CACHE_DIR=$tests/cache # code of compiled steps

# One run: its row, and its name in $out/failed where it did not pass.
one() { # name command...
    local name=$1 start=$SECONDS code=0
    shift
    timeout -k 5 "$limit" "$@" >"$out/$name.log" 2>&1 || code=$?
    printf '%-36s %-6s %4d s  %s\n' "$name" "$([ $code = 0 ] && echo passed || echo "rc $code")" \
        $((SECONDS - start)) \
        "$(grep -aoE '(PASSED  \] [0-9]+|SUMMARY: .*|ERROR: .*)' "$out/$name.log" | tail -1 | cut -c 1-90)"
    [ $code = 0 ] || echo "$name" >>"$out/failed"
}
export -f one
rm -f "$out/failed"

# Names of the conformance tests, those that take longest first.
conformance() {
    {
        printf '%s\n' train train_resume attention gemm_values rows train_graph train_faults
        for test in "$tests"/conformance_*_test; do
            basename "$test" _test | sed 's/^conformance_//'
        done
    } | awk '!seen[$0]++' | while read -r name; do
        [ ! -e "$tests/conformance_${name}_test" ] || echo "$name"
    done
}

# Name and command of each run.
list() {
    local test name check='compute-sanitizer --report-api-errors no --error-exitcode 9 --tool'
    for name in $(conformance); do
        test=$tests/conformance_${name}_test
        # Under memcheck, tests of 2^31 elements and of many trainings exceed the limit (train covers
        # the kernels of a training step), and the tuner's times have no meaning.
        ! $sanitize || [[ $name =~ ^(huge|train_graph|train_resume|tune)$ ]] ||
            echo "memcheck_conformance_$name $check memcheck $test"
        echo "conformance_$name $test"
    done
    for name in gemm gemm_values; do
        echo "${name}_sm80 env BT_GEMM=sm80 $tests/conformance_${name}_test"
    done
    ! $wide || for name in gemm attention attention_features; do
        echo "wide_$name $tests/conformance_${name}_test wide"
    done
    for name in golden_gpt2 golden_llama gradient_twice; do
        echo "$name $tests/${name}_test"
    done
    ! $sanitize || for name in sums elementwise; do
        echo "racecheck_$name $check racecheck $tests/conformance_${name}_test"
        echo "initcheck_$name $check initcheck $tests/conformance_${name}_test"
    done
}
# Golden values lie at tests/golden, in the checkout as in a portable folder.
cd "$(dirname "$tests")"
if [ -d suites ]; then export BT_ROOT=$PWD; else cd "$root"; fi
list | xargs -P "$jobs" -L 1 bash -c 'one "$@"' _
for test in unit_overlap harness_gpu_cheats; do # take times: alone
    one "$test" "$tests/${test}_test"
done
for test in "$tests"/dist_gpu*_test; do
    one "$(basename "$test" _test)" "$test"
done
for case in each_path_once chunks_of_rows_repeat tied_tables_have_the_bits_of_one_rank; do
    test=$([ $case = each_path_once ] && echo dist_gpu || echo dist_gpu_train)
    ! $sanitize || one "memcheck_$case" compute-sanitizer --report-api-errors no \
        --error-exitcode 9 --target-processes all --tool memcheck "$tests/${test}_test" $case
done
if [ -e "$out/failed" ]; then
    echo "gpu-tests: failed: $(sort "$out/failed" | tr '\n' ' ')(logs in $out)"
    exit 1
fi
echo 'gpu-tests: all passed'
