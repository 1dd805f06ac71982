# ci/gpu-tests.sh over planted programs, with a GPU that only nvidia-smi knows

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    tree=$(mktemp -d "${TMPDIR:-/tmp}/bt-gpu-tests.XXXXXX")
    mkdir -p "$tree/bin" "$tree/build/tests"
    for name in conformance_{rows,attention,gemm,gemm_values,train_resume,attention_features,train,sums,elementwise,huge,tune} \
        golden_gpt2 golden_llama gradient_twice unit_overlap harness_gpu_cheats dist_gpu; do
        program "$tree/build/tests/${name}_test" "echo '[  PASSED  ] 3 test(s).'"
    done
    program "$tree/bin/nvidia-smi" 'echo "GPU 0: planted"'
    # the program under test is the first argument with a path
    program "$tree/bin/compute-sanitizer" "echo \"\$*\" >>'$tree/sanitized'; until [[ \$1 == /* ]]; do shift; done; \"\$@\"; echo 'ERROR SUMMARY: 0 errors'"
    PATH=$tree/bin:$PATH
}

teardown() {
    rm -rf "$tree"
}

program() { # file body
    printf '#!/bin/bash\n%s\n' "$2" >"$1"
    chmod +x "$1"
}

tests() {
    run "$root/ci/gpu-tests.sh" -o "$tree/out" "$@" "$tree/build"
    echo "$output"
}

@test "every program runs, alone and under the sanitizer" {
    tests -j 4
    [ "$status" -eq 0 ]
    [[ $output == *'all passed'* ]]
    for name in conformance_rows conformance_sums golden_llama gradient_twice unit_overlap harness_gpu_cheats gemm_sm80 gemm_values_sm80 \
        memcheck_conformance_rows memcheck_conformance_sums racecheck_sums initcheck_elementwise \
        dist_gpu memcheck_each_path_once memcheck_tied_tables_have_the_bits_of_one_rank; do
        [ "$(grep -cE "^$name +passed" <<<"$output")" -eq 1 ]
    done
    [ "$(grep -cE 'huge|tune' "$tree/sanitized")" -eq 0 ]
}

@test "a failure, a finding of the sanitizer and a hang are named, and the rest still runs" {
    program "$tree/build/tests/conformance_sums_test" 'exit 1'
    program "$tree/build/tests/golden_gpt2_test" 'sleep 60'
    program "$tree/bin/compute-sanitizer" "[[ \$* != *memcheck*conformance_rows* ]]"
    tests -l 1
    [ "$status" -eq 1 ]
    [[ $output == *'failed: conformance_sums golden_gpt2 memcheck_conformance_rows '* ]]
    [[ $output == *'conformance_elementwise '*passed* ]]
}

@test "--quick leaves the sanitizer out" {
    rm "$tree/bin/compute-sanitizer"
    tests --quick
    [ "$status" -eq 0 ]
    [[ $output == *'dist_gpu '*passed* ]]
    [[ $output != *memcheck* ]]
}

@test "--wide adds the wide sweeps" {
    program "$tree/build/tests/conformance_attention_test" '[ "$*" != wide ] || echo "[  PASSED  ] 99 test(s)."'
    tests --quick --wide
    [ "$status" -eq 0 ]
    [[ $output =~ wide_attention\ +passed.*99 ]]
    [[ $output == *wide_gemm* && $output == *wide_attention_features* ]]
    tests --quick
    [[ $output != *wide_* ]]
}

@test "no GPU, no tests and no sanitizer are exit 4, a wrong word is 2" {
    program "$tree/bin/nvidia-smi" 'exit 9'
    tests
    [ "$status" -eq 4 ]
    [[ $output == *'no GPU here'* ]]
    run "$root/ci/gpu-tests.sh" /nonexistent
    [ "$status" -eq 4 ]
    [[ $output == *'ci/portable.sh --tests'* ]]
    tests -j none
    [ "$status" -eq 2 ]
}
