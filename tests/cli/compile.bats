#!/usr/bin/env bats
# bt-bench compile: graphs of training steps, from a user's side

load ../support/cli

setup() {
    enter_scratch
    cat >s.json <<'JSON'
{ "name": "tiny", "dataset": "books",
  "train": { "model": { "layers": 2, "heads": 2, "width": 32, "vocab": 64, "context": 16 },
             "optimizer": { "lr": 1e-3 }, "seed": 1 },
  "profiles": { "cpu": { "device": "cpu",
    "train": { "precision": "fp32", "micro_batch": 2, "sequence": 16, "tokens_per_step": 32, "steps": 1 },
    "cases": [ { "name": "fp32", "kind": "train" },
               { "name": "less", "kind": "train", "train": { "recompute": "block" } } ] } } }
JSON
}

teardown() {
    leave_scratch
}

@test "a step is captured, simplified and fused; dumps are readable and the same each time" {
    run --separate-stderr "$bench" compile s.json --dump graph,simple,groups -o d
    [ "$status" = 0 ]
    [[ $output =~ case\ +calls\ +saved\ +simplified\ +groups\ +code\ +fused\ +before\ +after ]]
    [[ $output =~ fp32\ +[0-9]+ ]]
    [[ ${lines[-1]} =~ ^dumps\ +d:\ 6\ files,\ [0-9.]+\ KiB$ ]]
    grep -q '^value [0-9]* f32 8192 input "wte.weight"$' d/fp32.graph.txt
    grep -q '^node attention forward "attention" q.base=' d/fp32.graph.txt
    grep -q '^node layernorm_backward backward ' d/fp32.graph.txt
    # What is made again in the backward is there twice.
    [ "$(grep -c '^node layernorm ' d/less.graph.txt)" -gt "$(grep -c '^node layernorm ' d/fp32.graph.txt)" ]
    [ "$(grep -c '^node' d/fp32.simple.txt)" -lt "$(grep -c '^node' d/fp32.graph.txt)" ]
    grep -q 'gathers by ids' d/fp32.groups.txt
    "$bench" compile s.json --dump graph -o again >/dev/null
    cmp d/fp32.graph.txt again/fp32.graph.txt
}

@test "code for another target is generated ahead into the cache" {
    if "$bench" doctor | grep -q 'compiler: not built'; then
        skip "no compiler"
    fi
    export BT_CACHE_DIR=$PWD/cache
    sed -i 's/"layers"/"family": "llama", "hidden": 48, "layers"/' s.json
    run --separate-stderr "$bench" compile s.json --filter fp32 --target sm_90
    [ "$status" = 0 ]
    [ "$(find cache/code -type f | wc -l)" -gt 3 ]
    grep -rl 'target sm_90a' cache/code | grep -q .
    # There is code for every group.
    [[ $output =~ fp32\ +[0-9]+\ +[0-9]+\ +[0-9]+\ +([0-9]+)\ +([0-9]+)\  ]]
    [ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ]
    # A later architecture gets code of the last one that LLVM knows.
    run --separate-stderr "$bench" compile s.json --filter fp32 --target sm_120
    [ "$status" = 0 ]
    [ -z "$stderr" ]
    grep -rlE 'target sm_90$' cache/code | grep -q .
    run "$bench" compile s.json --filter fp32 --target sm90
    [ "$status" = 2 ]
    [[ $output == *'unknown target "sm90"'* ]]
}

@test "a library that is damaged or of another build: training runs eagerly, and says why" {
    local with words kind
    if "$bench" doctor | grep -q 'compiler: not built'; then
        skip "no compiler"
    fi
    sed -i 's/"layers"/"family": "llama", "hidden": 48, "layers"/; s/"vocab": 64/"vocab": 50304/' s.json
    sed -i 's/"steps": 1/"steps": 2, "compile": "on"/' s.json
    run --separate-stderr "$bench" run ./s.json --filter fp32 --db a.sqlite
    [ "$status" = 0 ]
    with=$(grep -o 'state:[0-9a-f]*' <<<"$output")
    [ -n "$with" ]
    mkdir alone
    cp "$bench" "$(dirname "$bench")/libblutrain.so" alone/
    export BT_CACHE_DIR=$PWD/empty
    for kind in cut text entry version; do
        case $kind in
        cut)
            head -c 20000 "$(dirname "$bench")/libbt_mlir.so" >alone/libbt_mlir.so
            words='libbt_mlir.so is not complete; build it again'
            ;;
        text)
            printf 'no library%070d' 0 >alone/libbt_mlir.so
            words='invalid ELF header'
            ;;
        entry)
            echo 'int nothing;' | gcc -shared -fPIC -x c -o alone/libbt_mlir.so -
            words='belongs to another build (interface 0'
            ;;
        version)
            gcc -shared -fPIC -I "$root" -x c -o alone/libbt_mlir.so - <<'C'
#include "framework/compiler/mlir/library.h"
const bt_mlir_library *bt_mlir_entry(void);
const bt_mlir_library *bt_mlir_entry(void)
{
    static const bt_mlir_library library = {BT_MLIR_ABI, "0.0.0", 0, 0, 0};
    return &library;
}
C
            words='belongs to another build (interface [0-9]* of MLIR 0.0.0'
            ;;
        esac
        run --separate-stderr env BT_ROOT="$root" LD_LIBRARY_PATH="$PWD/alone" alone/bt-bench run ./s.json --filter fp32 --db "$kind.sqlite"
        [ "$status" = 0 ]
        [ "$with" = "$(grep -o 'state:[0-9a-f]*' <<<"$output")" ]
        grep -q "note: compile: the step runs eagerly: compiler: .*$words" "$kind"-run-1/*.log
    done
}

@test "two processes that make the same code keep one copy of each kernel" {
    local first
    if "$bench" doctor | grep -q 'compiler: not built'; then
        skip "no compiler"
    fi
    sed -i 's/"layers"/"family": "llama", "hidden": 48, "layers"/' s.json
    BT_CACHE_DIR=$PWD/both "$bench" compile s.json --filter fp32 --target sm_90 >one &
    first=$!
    BT_CACHE_DIR=$PWD/both "$bench" compile s.json --filter fp32 --target sm_90 >two
    wait "$first"
    cmp one two
    BT_CACHE_DIR=$PWD/alone "$bench" compile s.json --filter fp32 --target sm_90 >/dev/null
    diff -r both/code alone/code
}

@test "training without the compiler runs eagerly, says so, and has the same bits" {
    local with without
    sed -i 's/"layers"/"family": "llama", "hidden": 48, "layers"/; s/"vocab": 64/"vocab": 50304/' s.json
    sed -i 's/"steps": 1/"steps": 6, "warmup_timing_steps": 1, "profile_steps": 1, "compile": "on"/; s/"tokens_per_step": 32/"tokens_per_step": 64/' s.json
    run --separate-stderr "$bench" run ./s.json --filter fp32 --db a.sqlite
    [ "$status" = 0 ]
    if ! "$bench" doctor | grep -q 'compiler: not built'; then
        [[ $stderr != *'runs eagerly'* ]]
    fi
    with=$(grep -o 'state:[0-9a-f]*' <<<"$output")
    mkdir alone
    cp "$bench" "$(dirname "$bench")/libblutrain.so" alone/
    export BT_CACHE_DIR=$PWD/empty
    run --separate-stderr env BT_ROOT="$root" LD_LIBRARY_PATH="$PWD/alone" alone/bt-bench run ./s.json --filter fp32 --db b.sqlite
    [ "$status" = 0 ]
    without=$(grep -o 'state:[0-9a-f]*' <<<"$output")
    [ -n "$with" ]
    [ "$with" = "$without" ]
    grep -q 'note: compile: the step runs eagerly: compiler: ' b-run-1/*.log
    # Both programs of a step of two micro-batches, the first and those that add, are one line.
    [ "$(grep -c 'note: compile: the step runs eagerly' b-run-1/*.log)" = 2 ]
    [ "$(grep -c '^compile   fp32: the step runs eagerly: compiler: ' <<<"$stderr")" = 1 ]
    [ "$(grep -c '^  compile      the step ran eagerly: compiler: ' <<<"$output")" = 1 ]
    grep -q '<p class=why>fp32: the step ran eagerly: compiler: ' b-run-1/report.html
    if ! "$bench" doctor | grep -q 'compiler: not built'; then
        grep -q 'note: compile: [0-9]* of [0-9]* kernel calls run as [0-9]* groups' a-run-1/*.log
    fi
    # How long it took, cold and from the cache, is a metric of the record.
    "$bench" report last --db a.sqlite -o a.json >/dev/null
    grep -q '"compile_time_ns"' a.json
    if ! "$bench" doctor | grep -q 'compiler: not built'; then # its kernels, also after a bundle
        "$bench" export last --db a.sqlite -o a.tar.zst
        "$bench" import a.tar.zst --db other.sqlite
        "$bench" report last --db other.sqlite -o other.json
        "$bench" show last --db other.sqlite | grep -q '^  compiled  .* instead of .*x$'
        python3 - <<'PY'
import json
cases = [json.load(open(name))["runs"][0]["cases"][0] for name in ("a.json", "other.json")]
first, second = (case["groups"] for case in cases)
assert first == second and any(row["kind"] == "row" for row in first), first
calls = cases[0]["group_calls"]
assert calls == cases[1]["group_calls"] and all(row["time_ns"] > 0 for row in calls), calls
assert [row["kernel"] for row in calls] == [row["kernel"] for row in first if row["kind"]], calls
assert all(row["bytes_after"] < row["bytes_before"] for row in first if row["kind"]), first
PY
    fi
}

@test "a kernel case runs generated code where there is some, and says so where there is none" {
    if "$bench" doctor | grep -q 'compiler: not built'; then
        skip "no compiler"
    fi
    export BT_CACHE_DIR=$PWD/cache
    gelu_suite '["64x16", "4x5"], "compile": "on", "direction": ["forward", "backward"]' >k.json
    run "$bench" run ./k.json --db a.sqlite -q
    [ "$status" = 0 ]
    [ "$(grep -c 'generated$' <<<"$output")" = 4 ]
    # A chain says how long its code took, cold and from the cache.
    sed 's/"gelu", "shape": \[[^]]*\]/"chain_swiglu", "shape": ["512x64"]/; s/, "direction": \[[^]]*\]//' k.json >c.json
    "$bench" run ./c.json --db c.sqlite -q
    "$bench" report last --db c.sqlite -o chain.json >/dev/null
    grep -q '"compile_time_ns"' chain.json
    grep -q '"load_time_ns"' chain.json
    sed 's/"gelu", "shape": .*\], "comp/"embedding", "shape": ["8x4x5"], "comp/; s/, "direction": \[[^]]*\]//' k.json >e.json
    run "$bench" run ./e.json --db a.sqlite -q
    [ "$status" != 0 ]
    [[ $output == *"no code is generated for this call: it gathers by ids"* ]]
    has_libdevice || return 0
    # Code of every kind for a GPU, ahead.
    run "$bench" compile compiler --profile gpu --target sm_90
    [ "$status" = 0 ]
    [ "$(grep '_generated' <<<"$output" | grep -vc '^chain')" = "$(grep -cE ' 1 +1 +1 +1 ' <<<"$output")" ]
    # Of a chain, forward or with backward: calls, saved, simplified, groups (1 to 4) and as many
    # with code.
    [ "$(grep -c '^chain' <<<"$output")" = 28 ]
    [ "$(grep -cE '^chain\S+ +[0-9]+ +[0-9]+ +[0-9]+ +([1-4]) +\1 ' <<<"$output")" = 28 ]
    [ "$(find cache/code -type f | wc -l)" -gt 6 ]
}

@test "code that cannot be kept is an error ahead, and a note of a run" {
    if "$bench" doctor | grep -q 'compiler: not built'; then
        skip "no compiler"
    fi
    sed -i 's/"layers"/"family": "llama", "hidden": 48, "layers"/; s/"vocab": 64/"vocab": 50304/' s.json
    sed -i 's/"steps": 1/"steps": 2, "compile": "on"/' s.json
    touch blocked # a file where the cache's folder would be
    BT_CACHE_DIR=$PWD/blocked run "$bench" compile s.json --filter fp32 --target sm_90
    [ "$status" = 4 ]
    [[ $output == *"generated code was not saved to the cache"*"$PWD/blocked"* ]]
    run env -u HOME -u XDG_CACHE_HOME -u BT_CACHE_DIR "$bench" compile s.json --filter fp32 --target sm_90
    [ "$status" = 4 ]
    [[ $output == *"there is no folder for generated code; set BT_CACHE_DIR or HOME"* ]]
    BT_CACHE_DIR=$PWD/blocked "$bench" run ./s.json --filter fp32 --db a.sqlite -q
    grep -q 'note: compile: code of [0-9]* kernels is not kept for the next run: .*/blocked' a-run-1/*.log
    # Damaged code is made again, and the run says so.
    BT_CACHE_DIR=$PWD/kept "$bench" run ./s.json --filter fp32 --db b.sqlite -q
    ! grep 'damaged\|not kept' b-run-1/*.log
    for file in kept/code/*; do
        printf 'x' | dd of="$file" bs=1 seek=200 conv=notrunc status=none
    done
    BT_CACHE_DIR=$PWD/kept "$bench" run ./s.json --filter fp32 --db b.sqlite -q
    grep -q 'note: compile: [0-9]* damaged files of generated code were made again' b-run-2/*.log
}

# Code for a GPU calls its functions.
has_libdevice() {
    compgen -G "${CUDA_HOME:-/usr/local/cuda}/nvvm/libdevice/libdevice*.bc" >/dev/null
}

@test "every case of suites/compiler can be dumped in every form" {
    if "$bench" doctor | grep -q 'compiler: not built'; then
        skip "no compiler"
    fi
    has_libdevice || skip "no libdevice of CUDA"
    export BT_CACHE_DIR=$PWD/cache
    local case form cases
    for profile in gpu:sm_90:ptx cpu:cpu:llvm; do
        IFS=: read -r profile target last <<<"$profile"
        forms="graph simple groups mlir llvm $last"
        "$bench" compile compiler --profile "$profile" --target "$target" --dump "${forms// /,}" -o "$profile" >table
        cases=$(grep -oE '^\S+_generated\S+' table)
        [ "$(wc -l <<<"$cases")" -gt 30 ]
        for case in $cases; do
            for form in $forms; do
                [ -s "$profile/$case.$form.txt" ]
            done
            grep -q '^node ' "$profile/$case.graph.txt"
            grep -q '^group ' "$profile/$case.groups.txt"
            grep -q 'llvm.func\|gpu.module\|func.func' "$profile/$case.mlir.txt"
            grep -q '^define ' "$profile/$case.llvm.txt"
            ! grep 'no code' "$profile/$case".*.txt
        done
    done
    # What else would fit the GPU, for groups on CUDA.
    grep -q '^tilings of group 0, elementwise: [0-9]* fit' gpu/chain_swiglu_generated.forward.bf16.*.groups.txt
    grep -q '  taken$' gpu/chain_swiglu_generated.forward.bf16.*.groups.txt
    grep -q "  taken: the rule's; no tiling" gpu/chain_swiglu_generated.forward.bf16.*.groups.txt
    ! grep '^tilings' cpu/*.groups.txt
    # What the backward recomputes.
    grep -qE '^copy of node [0-9]+ recomputes value [0-9]+ in the backward instead of (storing and )?loading [0-9]+ bytes$' gpu/chain_rms_norm_generated.backward.bf16.*.groups.txt
    grep -q '^.visible .entry kernel' gpu/chain_swiglu_generated.backward.bf16.*.ptx.txt
    [ "$(grep -hc '^node ' gpu/chain_swiglu_generated.forward.bf16.*.graph.txt)" = 2 ]
    grep -q '^group elementwise' gpu/chain_swiglu_generated.forward.bf16.*.groups.txt
    run "$bench" compile compiler --profile cpu --dump ptx -o none
    [ "$status" = 2 ]
    [[ $output == *"the target cpu has no PTX; use --target sm_80, sm_89 or sm_90"* ]]
    [ ! -e none ]
}

@test "the help lists the exit codes, and a target may be named as its code is" {
    [[ $("$bench" compile --help) == *"Exit codes: 0 done, 2 usage"*"4 no compiler"* ]]
    if ! "$bench" doctor | grep -q 'compiler: not built'; then
        export BT_CACHE_DIR=$PWD/cache
        run "$bench" compile s.json --filter fp32 --target sm_90a
        [ "$status" = 0 ]
    fi
    for target in sm_100a sm_89a sm_90b sm_a; do
        run "$bench" compile s.json --target "$target"
        [ "$status" = 2 ]
        [[ $output == *"unknown target \"$target\"; expected cpu, or sm_ and a number as in sm_90"* ]]
    done
}

@test "a dump without a folder, an unknown one and a suite without training are refused" {
    for folder in "" "-o ''"; do
        run bash -c "'$bench' compile s.json --dump graph $folder"
        [ "$status" = 2 ]
        [[ $output == *"-o DIR, the output folder, is missing"* ]]
    done
    run "$bench" compile s.json -o d
    [ "$status" = 2 ]
    [[ $output == *"-o d: --dump LIST, what to write there, is missing"* ]]
    run "$bench" compile s.json --dump "" -o d
    [ "$status" = 2 ]
    [[ $output == *'--dump "": expected a list of graph, simple, bt, groups, mlir, llvm, ptx'* ]]
    [ ! -e d ]
    run "$bench" compile s.json --dump graph,tree -o d
    [ "$status" = 2 ]
    [[ $output == *'unknown dump "tree"; expected graph, simple, bt, groups, mlir, llvm, ptx'* ]]
    cat >k.json <<'JSON'
{ "name": "k", "profiles": { "cpu": { "device": "cpu", "cases": [
    { "name": "gelu", "kind": "kernel", "kernel": { "op": "gelu", "shape": ["4x5"] } } ] } } }
JSON
    run "$bench" compile k.json
    [ "$status" = 2 ]
    [[ $output == *"no case trains"* ]]
}

@test "cases for a GPU are captured on the CPU, and those of several ranks are refused" {
    sed 's/"precision": "fp32"/"precision": "tf32"/; s/"device": "cpu"/"device": "cuda"/' s.json >tf32.json
    run --separate-stderr "$bench" compile tf32.json --profile cpu --dump groups -o d
    [ "$status" = 0 ]
    run "$bench" compile tf32.json --profile cpu --target cpu
    [ "$status" = 2 ]
    [[ $output == *"compile "*"precision tf32 needs a GPU"* ]]
    run "$bench" compile s.json --set train.mesh.tensor=2 --set train.mesh.invariant=0
    [ "$status" = 2 ]
    [[ $output == *"train.mesh.tensor: steps of several ranks run eagerly"* ]]
    run "$bench" compile s.json --target "sm_ 90"
    [ "$status" = 2 ]
    [[ $output == *'unknown target "sm_ 90"'* ]]
}

@test "the dump bt is the graph as MLIR, verified where the compiler is built" {
    run --separate-stderr "$bench" compile s.json --dump bt -o d
    [ "$status" = 0 ]
    grep -q '^func.func @step(' d/fp32.bt.mlir
    grep -q '"bt.attention"(.*!bt.value<f32, [0-9]* : i64>' d/fp32.bt.mlir
    sed -i 's/"layers"/"family": "llama", "hidden": 48, "layers"/' s.json
    run --separate-stderr "$bench" compile s.json --filter fp32 --dump bt -o llama
    [ "$status" = 0 ]
    grep -q '"bt.gemm"(' llama/fp32.bt.mlir
    if "$bench" doctor | grep -q 'compiler: not built'; then
        [[ $output == *"'bt' are not verified: compiler: not built"* ]]
    else
        [[ $output != *'not verified'* ]]
    fi
}
