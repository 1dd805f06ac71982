# ci/two-gpus.sh over planted programs, with GPUs that only nvidia-smi knows

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    tree=$(mktemp -d "${TMPDIR:-/tmp}/bt-two-gpus.XXXXXX")
    mkdir -p "$tree/programs" "$tree/folder/bin" "$tree/folder/tests"
    for name in dist_gpu dist_gpu_train dist_gpu_context; do
        program "$tree/folder/tests/${name}_test" 'exit 0'
    done
    program "$tree/folder/bin/bt-bench" "echo \"\$*\" >>'$tree/calls'"
    program "$tree/programs/nvidia-smi" 'echo "GPU 0: planted"; echo "GPU 1: planted"'
    program "$tree/programs/compute-sanitizer" 'exit 0'
    PATH=$tree/programs:$PATH
}

teardown() {
    rm -rf "$tree"
}

program() { # file body
    printf '#!/bin/bash\n%s\n' "$2" >"$1"
    chmod +x "$1"
}

two() {
    run "$root/ci/two-gpus.sh" -o "$tree/out" "$@" "$tree/folder"
    echo "$output"
}

@test "every part runs and every suite is published" {
    two -p
    [ "$status" -eq 0 ]
    [[ $output == *'all passed'* ]]
    [ "$(grep -c ' passed ' <<<"$output")" -eq 16 ]
    [ "$(grep -c '^report ' "$tree/calls")" -eq 11 ]
    [ "$(grep -c 'training.*--system blutrain,pytorch-compile' "$tree/calls")" -eq 1 ]
    for file in $(grep -oE 'suites/distributed/[a-z]+' "$tree/calls"); do
        [ -e "$root/$file.json" ]
    done
}

@test "a part that fails is named, one that does not fit is left out, and the rest still runs" {
    program "$tree/folder/tests/dist_gpu_train_test" 'exit 1'
    two -l 130
    [ "$status" -eq 1 ]
    [[ $output == *'dist_gpu_train       rc 1'* ]]
    [[ $output == *'all_reduce           left out'* ]]
    [[ $output == *'failed or left out: dist_gpu_train all_reduce training others (logs in '* ]]
}

@test "fewer than two GPUs and no folder are exit 4, a wrong word is 2" {
    program "$tree/programs/nvidia-smi" 'echo "GPU 0: planted"'
    two
    [ "$status" -eq 4 ]
    run "$root/ci/two-gpus.sh" /nonexistent
    [ "$status" -eq 4 ]
    two -l soon
    [ "$status" -eq 2 ]
}
