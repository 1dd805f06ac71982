#!/usr/bin/env bats
# The kernel laboratory on the CPU: candidates of a case, modes, selections, wrong words

load ../support/cli

setup() {
    enter_scratch
    lab=${BT_BUILD:-$root/build}/bin/lab_kernels
    cat >s.json <<'JSON'
{ "name": "tiny", "profiles": { "cpu": { "device": "cpu", "cases": [
    { "name": "gelu", "kind": "kernel", "kernel": { "op": "gelu", "shape": "64x16" } },
    { "name": "wgrad", "kind": "kernel", "kernel": { "op": "gemm_tn", "shape": ["8x16x24", "16x8x24"] } },
    { "name": "seen", "kind": "kernel", "kernel": { "op": "attention_causal", "direction": ["forward", "backward"],
      "shape": "1x4x32x8" } } ] } } }
JSON
}

teardown() {
    leave_scratch
}

@test "every row that serves a case is checked and timed in each mode" {
    run "$lab" s.json --filter gelu --samples 3
    [ "$status" = 0 ]
    [[ $output == *"gelu.forward.f32.64x16  0.0 MB  triad "*" GB/s"* ]]
    [[ $output =~ \*\ unary_cpu_f32\ +cold\ +[0-9.]+\ us\ +[0-9.]+\ %\ +dirty\ .*\ graph\ .*\ x1\.000\ +error\ [01]\.[0-9]+ ]]
    run "$lab" s.json --filter wgrad --samples 3 --modes sustain
    [[ $output =~ \*\ gemm_cpu_f32\ +sustain\ +[0-9.]+\ us\ +[0-9.]+\ TF ]]
    [[ $output != *cold* ]]
}

@test "words select candidates, once launches them, a group is one call" {
    run "$lab" s.json --filter gelu --samples 3 nothing
    [ "$status" = 0 ]
    [[ $output != *"64x16"*unary_cpu_f32* ]]
    run "$lab" s.json --filter wgrad --modes once
    [[ $output != *" us"* && $output != *ceiling* ]]
    [ "$(grep -c '^  \* gemm_cpu_f32$' <<<"$output")" = 2 ]
    run "$lab" s.json --filter wgrad --samples 3 --modes cold --group
    [ "$status" = 0 ]
    [[ $output == *"a group of 2 products"*"one after the other "*"gemm_grouped_cpu "*error* ]]
}

@test "attention with grouped heads, fewer queries, a window, documents" {
    run "$lab" s.json --filter seen --samples 3 --modes cold
    [[ $output =~ forward.*0.00\ GFLOP.*\*\ attention_cpu_f32.*error.*backward.*\*\ attention_backward_cpu_f32.*error ]]
    run "$lab" s.json --filter seen --samples 3 --modes cold --kv-heads 2 --q-tokens 8 --window 4
    [[ $output =~ forward.*\*\ attention_cpu_f32.*backward.*\*\ attention_backward_cpu_f32 ]]
    [[ $output != *error* ]]
    run "$lab" s.json --filter seen --samples 3 --modes cold --documents 3 --add
    [[ $output == *"* attention_cpu_f32"* ]]
    run "$lab" s.json --filter seen --samples 3 --modes cold --kv-heads 3
    [ "$status" = 1 ]
    [[ $output == *"expected a divisor of 4 heads and at most 32 queries, got 3 and 32"* ]]
}

@test "a wrong word is exit 2" {
    for words in '' '--modes warm s.json' 's.json --samples 2' 's.json --plans' 's.json --nothing 1'; do
        # shellcheck disable=SC2086 # words
        run "$lab" $words
        [ "$status" = 2 ]
        [[ $output == *"usage: lab_kernels SUITE"* ]]
    done
}
