#!/usr/bin/env bash
# ci/two-gpus.sh [-o DIR] [-l LIMIT_S] [-p] [FOLDER] - everything that needs two GPUs of one host
#
#   FOLDER      output of `ci/portable.sh --tests --data data/books`, default build-portable/bt-bench
#   -o DIR      folder for logs, the database two.sqlite and reports, default two-gpus
#   -l LIMIT_S  time limit in seconds, default 1700; a part that may not fit is left out
#   -p          also PyTorch, in the environment that `python3` is of
#
# In this order: tests of ranks, tensor parallel, context parallel (-p: PyTorch's after ours),
# all-reduce from 4 KiB to 475 MiB beside NCCL, data parallel training (64 x 1024 and 4 x 1024; -p:
# beside PyTorch's DistributedDataParallel), recovery, memcheck of the collectives and of chunks of
# rows, four rounds with and without virtual shards, memory, sizes of buckets, the other collectives.
# The other suites run one round. Each publishes a draft of its own in DIR, so that a run that is cut
# off keeps what is done.
# Prints one row for each part. Exit 0 all passed, 1 a part failed or was left out, 2 usage, 4 fewer
# than two GPUs or no such folder.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
out=two-gpus limit=1700 folder=$root/build-portable/bt-bench systems=blutrain peer=false

usage() {
    echo "usage: ci/two-gpus.sh [-o DIR] [-l LIMIT_S] [-p] [FOLDER]" >&2
    exit 2
}

missing() { # message
    printf 'two-gpus: %s\n' "$1" >&2
    exit 4
}

while [ $# -gt 0 ]; do
    case $1 in
    -o | -l)
        [ $# -gt 1 ] || usage
        case $1 in
        -o) out=$2 ;;
        -l) limit=$2 ;;
        esac
        shift
        ;;
    -p) systems=blutrain,pytorch-compile peer=true ;;
    -*) usage ;;
    *) folder=$1 ;;
    esac
    shift
done
[[ $limit =~ ^[1-9][0-9]*$ ]] || usage
[ -x "$folder/bin/bt-bench" ] || missing "$folder has no bin/bt-bench: make it with ci/portable.sh --tests"
[ "$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU')" -ge 2 ] || missing 'fewer than two GPUs here'
folder=$(cd "$folder" && pwd -P)
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
cd "$folder"
export CUDA_MODULE_LOADING=EAGER NCCL_NVLS_ENABLE=0 OMP_WAIT_POLICY=passive
failed=

part() { # name seconds command...
    local name=$1 seconds=$2 start=$SECONDS code=0
    shift 2
    if [ $((SECONDS + seconds)) -gt "$limit" ]; then
        printf '%-20s left out: %d s of %d s are used\n' "$name" "$SECONDS" "$limit"
        failed+=" $name"
        return
    fi
    timeout -k 5 $((seconds * 3 / 2 + 30)) "$@" >"$out/$name.txt" 2>&1 || code=$?
    printf '%-20s %-6s %4d s\n' "$name" "$([ $code = 0 ] && echo passed || echo "rc $code")" $((SECONDS - start))
    [ $code = 0 ] || failed+=" $name"
}

suite() { # name seconds rounds suite option...
    local name=$1 seconds=$2 rounds=$3 which=$4
    shift 4
    part "$name" "$seconds" bin/bt-bench run "suites/distributed/$which" --profile gpu \
        --rounds "$rounds" --name "$name" --db "$out/two.sqlite" -q "$@"
    bin/bt-bench report "$name" --publish "$out/report-$name" --draft --db "$out/two.sqlite" \
        >"$out/report-$name.txt" 2>&1 || true # a part that was left out has none
}

memcheck() { # name seconds test case
    part "$1" "$2" compute-sanitizer --report-api-errors no --error-exitcode 9 \
        --target-processes all --tool memcheck "tests/${3}_test" "$4"
}

part dist_gpu 60 tests/dist_gpu_test
part dist_gpu_train 50 tests/dist_gpu_train_test
part dist_gpu_context 20 tests/dist_gpu_context_test
suite tensor 80 1 tensor
suite context 80 1 context
if $peer; then
    suite tensor_pytorch 190 1 tensor --system pytorch-compile --filter '*_tensor2'
    suite context_pytorch 190 1 context --system pytorch-compile --filter '*_all_gather'
fi
suite all_reduce 190 1 collectives --filter '[bc]*' # critical, beside
suite training 300 1 training --system "$systems"
suite recovery 90 1 recovery
memcheck memcheck_group 30 dist_gpu each_path_once
memcheck memcheck_chunks 50 dist_gpu_train chunks_of_rows_repeat
suite invariant 80 4 training --system blutrain --filter 'bf16_data2*'
suite memory 90 1 memory
suite buckets 60 1 buckets
suite others 160 1 collectives --filter '[ho]*' # others, half
[ -z "$failed" ] || {
    echo "two-gpus: failed or left out:$failed (logs in $out)"
    exit 1
}
echo 'two-gpus: all passed'
