#!/usr/bin/env bats
# bt-bench checkpoint, sample, hellaswag: models from files, and files that are none

load ../support/cli

setup() {
    enter_scratch
    small=$root/tests/golden/safetensors/gpt2_small.safetensors # 2 layers, 2 heads, width 8
}

teardown() {
    leave_scratch
}

# A GPT-2 of one layer, one head and width 4 whose numbers are a fixed sequence.
byte_model() { # file
    python3 - "$1" <<'PY'
import json, struct, sys
shapes = {"wte.weight": [257, 4], "wpe.weight": [64, 4], "ln_f.weight": [4], "ln_f.bias": [4]}
for name, shape in (("ln_1.weight", [4]), ("ln_1.bias", [4]), ("attn.c_attn.weight", [4, 12]),
                    ("attn.c_attn.bias", [12]), ("attn.c_proj.weight", [4, 4]), ("attn.c_proj.bias", [4]),
                    ("ln_2.weight", [4]), ("ln_2.bias", [4]), ("mlp.c_fc.weight", [4, 16]),
                    ("mlp.c_fc.bias", [16]), ("mlp.c_proj.weight", [16, 4]), ("mlp.c_proj.bias", [4])):
    shapes["h.0." + name] = shape
header, data, state = {}, b"", 1
for name, shape in shapes.items():
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    begin = len(data)
    for _ in range(count):
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        data += struct.pack("<f", (state >> 40) / 2**23 - 1)
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + data)
PY
}

digest_of() { # store
    "$bench" checkpoint list "$1" --format json | grep -o '"digest":"[0-9a-f]*"'
}

@test "import, export and import again give the same digest, and the same file" {
    run --separate-stderr "$bench" checkpoint import "$small" -o a --heads 2
    [ "$status" = 0 ]
    [[ $output == *"a/step-00000000: 1,912 parameters"* ]]
    "$bench" checkpoint export a -o b >/dev/null
    "$bench" checkpoint import b -o c >/dev/null # config.json says how many heads
    [ "$(digest_of a)" = "$(digest_of c)" ]
    "$bench" checkpoint export c/step-00000000 -o d >/dev/null
    cmp b/model.safetensors d/model.safetensors
    grep -q '"n_head": 2' d/config.json
    grep -q '"vocab_size": 13' d/config.json
}

@test "list says what a store has" {
    "$bench" checkpoint import "$small" -o a --heads 2 >/dev/null
    run --separate-stderr "$bench" checkpoint list a
    [ "$status" = 0 ]
    [[ $output == "step"*"size"*"written"*"tensors"*"plan"*"build"*"valid"* ]]
    [[ ${lines[1]} == *"0"*"KiB"*"UTC"*"28"*"yes" ]]
    run --separate-stderr "$bench" checkpoint list a --quick
    [[ ${lines[1]} == *"not read" ]]
    mkdir empty
    run --separate-stderr "$bench" checkpoint list empty
    [ "$status" = 0 ]
    [ "$output" = "empty has no checkpoint" ]
    mkdir -p runs/run-1/checkpoints
    cp -r a runs/run-1/checkpoints/fp32-blutrain-0
    run --separate-stderr "$bench" checkpoint list runs
    [ "$status" = 0 ]
    [ "$output" = "runs has no checkpoint; these folders below it have some:
  runs/run-1/checkpoints/fp32-blutrain-0 (newest: step-00000000)" ]
    run --separate-stderr "$bench" checkpoint verify runs
    [ "$status" = 4 ]
    [[ $stderr == *"expected folders step-NNNNNNNN"* ]]
    run --separate-stderr "$bench" checkpoint list nowhere
    [ "$status" = 4 ]
    [ "$stderr" = "there is no folder nowhere" ]
}

@test "verify names the file and the place of a flipped bit" {
    "$bench" checkpoint import "$small" -o a --heads 2 >/dev/null
    run --separate-stderr "$bench" checkpoint verify a/step-00000000
    [ "$status" = 0 ]
    [[ $output == *"step-00000000: all 28 tensors"*"digest"* ]]
    printf 'x' | dd of=a/step-00000000/state-00001.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
    run --separate-stderr "$bench" checkpoint verify a/step-00000000
    [ "$status" = 5 ]
    [[ $stderr == *"state-00001.safetensors"*"byte"* ]]
    run --separate-stderr "$bench" checkpoint verify a
    [ "$status" = 5 ]
    [[ $output == *" no"*"state-00001.safetensors"* ]]
    [[ $stderr == *"1 of 1 checkpoints not valid"* ]]
    run --separate-stderr "$bench" checkpoint export a -o b
    [ "$status" = 5 ]
    [ ! -e b/model.safetensors ]
}

@test "list shows a damaged checkpoint and exits with 5" {
    "$bench" checkpoint import "$small" -o a --heads 2 >/dev/null
    cp -r a/step-00000000 a/step-00000001 # says that it is step 0
    run --separate-stderr "$bench" checkpoint list a
    [ "$status" = 5 ]
    [[ ${lines[1]} == *" yes" ]]
    [[ ${lines[2]} == *" no" ]]
    [ "${lines[3]}" = "a/step-00000001 contains step 0" ]
    [ "$stderr" = "a: 1 of 2 checkpoints not valid" ]
    run --separate-stderr "$bench" checkpoint list a --format json
    [ "$status" = 5 ]
    [ "$(jq -r 'map(.valid) | join(" ")' <<<"$output")" = "yes no" ]
    rm -r a/step-00000001
    printf 'x' | dd of=a/step-00000000/state-00001.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
    run --separate-stderr "$bench" checkpoint list a
    [ "$status" = 5 ]
    [[ $output == *" no"*"state-00001.safetensors"* ]]
    run "$bench" checkpoint list a --quick # reads no data
    [ "$status" = 0 ]
}

@test "what is no GPT-2 is refused with the reason" {
    run --separate-stderr "$bench" checkpoint import "$small" -o a
    [ "$status" = 2 ]
    [[ $stderr == *"does not store its number of heads"*"width 8"* ]]
    run --separate-stderr "$bench" checkpoint import "$small" -o a --heads 3
    [ "$status" = 2 ]
    [[ $stderr == *"3 heads; expected a divisor of the width 8"* ]]
    run --separate-stderr "$bench" checkpoint import "$root/tests/golden/safetensors/mixed.safetensors" -o a
    [ "$status" = 2 ]
    [[ $stderr == *"has no tensor wte.weight: it is not a GPT-2 model"* ]]
    head -c 3000 "$small" >cut.safetensors
    run --separate-stderr "$bench" checkpoint import cut.safetensors -o a --heads 2
    [ "$status" = 5 ]
    [[ $stderr == *"cut.safetensors"* ]]
    run --separate-stderr "$bench" checkpoint import nothing.safetensors -o a
    [ "$status" = 4 ]
    [[ $stderr == *"cannot open nothing.safetensors"* ]]
    mkdir empty
    run --separate-stderr "$bench" checkpoint export empty -o a
    [ "$status" = 2 ]
    [[ $stderr == *"neither a checkpoint (step-NNNNNNNN) nor model.safetensors" ]]
    [ ! -e a ]
    for run in 1 2 3 4 5; do
        mkdir -p "results/run-$run/checkpoints"
        "$bench" checkpoint import "$small" -o "results/run-$run/checkpoints/fp32-blutrain-0" --heads 2
    done
    run --separate-stderr "$bench" checkpoint export results -o a
    [ "$status" = 2 ]
    [[ $stderr == *"nor model.safetensors; give one of these folders below it, which do:"$'\n'"  $(pwd -P)/results/run-1/checkpoints/fp32-blutrain-0 (newest: step-00000000)"*"run-4/"*$'\n'"  and 1 more" ]]
    [[ $stderr != *"run-5/"* ]]
    run --separate-stderr "$bench" sample results
    [ "$status" = 2 ]
    [[ $stderr == *"unexpected argument: results; a model is given as --from results"* ]]
}

@test "config.json must be that of the tensors" {
    "$bench" checkpoint import "$small" -o a --heads 2 >/dev/null
    "$bench" checkpoint export a -o b >/dev/null
    cp b/config.json whole.json
    sed 's/"n_layer": 2/"n_layer": 3/' whole.json >b/config.json
    run --separate-stderr "$bench" checkpoint import b -o c
    [ "$status" = 2 ]
    [[ $stderr == *"config.json: n_layer is 3, but the tensors have 2"* ]]
    sed 's/gelu_new/relu/' whole.json >b/config.json
    run --separate-stderr "$bench" checkpoint import b -o c
    [ "$status" = 2 ]
    [[ $stderr == *'activation_function is "relu", expected gelu_new'* ]]
    sed 's/1e-05/1e-06/' whole.json >b/config.json
    run --separate-stderr "$bench" checkpoint import b -o c
    [ "$status" = 2 ]
    [[ $stderr == *"layer_norm_epsilon"*"expected 1e-05"* ]]
    echo '{"n_layer": 2' >b/config.json
    run --separate-stderr "$bench" checkpoint import b -o c
    [ "$status" = 5 ]
    [ ! -e c ]
}

@test "nothing that is there is replaced without a word" {
    "$bench" checkpoint import "$small" -o a --heads 2 >/dev/null
    run --separate-stderr "$bench" checkpoint import "$small" -o a --heads 2
    [ "$status" = 2 ]
    [[ $stderr == *"already has checkpoints"* ]]
    "$bench" checkpoint export a -o b >/dev/null
    run --separate-stderr "$bench" checkpoint export a -o b
    [ "$status" = 2 ]
    [[ $stderr == *"already exists; --force"* ]]
    "$bench" checkpoint export a -o b --force >/dev/null
    run --separate-stderr "$bench" checkpoint export a
    [ "$status" = 2 ]
    [[ $stderr == *"-o is missing"* ]]
    run --separate-stderr "$bench" checkpoint show a
    [ "$status" = 2 ]
    [[ $stderr == *"allowed: list, verify, export, import"* ]]
}

@test "sample: the same seed gives the same text, another one another" {
    byte_ranks r.tiktoken
    byte_model m.safetensors
    sample() { "$bench" sample --from m.safetensors --heads 1 --device cpu --ranks r.tiktoken --quiet "$@"; }
    sample --prompt hello --tokens 90 --seed 1 >a # longer than the context of 64
    sample --prompt hello --tokens 90 --seed 1 >b
    sample --prompt hello --tokens 90 --seed 2 >c
    cmp a b
    ! cmp -s a c
    [ "$(head -c 5 a)" = hello ]
    [ "$(wc -c <a)" -le 96 ]
    sample --greedy --tokens 20 --prompt hello >d
    sample --greedy --tokens 20 --prompt hello --seed 5 >e
    cmp d e
    sample --greedy --tokens 5 --prompt "$(printf 'long %.0s' $(seq 40))" >f # 200 tokens
    [ "$(wc -c <f)" -ge 200 ]
    sample --top-k 1 --tokens 20 --prompt hello >g
    cmp d g
    sample --tokens 3 >h # no prompt: as if after the end of a text
    [ "$(wc -c <h)" -ge 1 ]
}

@test "sample: mistakes" {
    byte_ranks r.tiktoken
    byte_model m.safetensors
    sample() { run --separate-stderr "$bench" sample --ranks r.tiktoken "$@"; }
    sample --prompt x
    [ "$status" = 2 ]
    [[ $stderr == *"--from is missing"* ]]
    sample --from m.safetensors --heads 1 --greedy --top-k 3
    [ "$status" = 2 ]
    [[ $stderr == *"--greedy does not sample"* ]]
    sample --from m.safetensors --heads 1 --temperature 0
    [ "$status" = 2 ]
    [[ $stderr == *"--temperature 0: expected a number above 0"* ]]
    sample --from m.safetensors --heads 1 --device gpu
    [ "$status" = 2 ]
    [[ $stderr == *"--device gpu: allowed: cpu, cuda, cuda:N"* ]]
    sample --from m.safetensors --heads 1 --device cpu --precision tf32
    [ "$status" = 2 ]
    [[ $stderr == *"tf32 needs a GPU"* ]]
    sample --from m.safetensors --heads 1 --device cpu --prompt "$(printf 'a\xff')"
    [ "$status" = 2 ]
    [[ $stderr == *"--prompt: invalid UTF-8 at byte 1"* ]]
    [ -z "$output" ]
    sample --from "$small" --heads 2 --device cpu --prompt x
    [ "$status" = 2 ]
    [[ $stderr == *"the model's vocabulary ends at 12"* ]]
}

@test "hellaswag scores a model and writes its answers" {
    byte_ranks r.tiktoken
    byte_model m.safetensors
    for i in 0 1 2 3; do
        printf 'Cooking: he stirs the pot, then he\n%s\nsings\nputs the lid on\nis\nthrows it\n' "$i"
    done >q.txt
    score() { run --separate-stderr "$bench" hellaswag --from m.safetensors --heads 1 --device cpu --ranks r.tiktoken "$@"; }
    score --questions q.txt --answers a.json
    [ "$status" = 0 ]
    # The same question with each of the labels: one of the four is right.
    [ "$output" = "4 questions: accuracy 0.2500, normalised by length 0.2500" ]
    [ "$(wc -l <a.json)" = 4 ]
    [ "$(cut -d, -f3- a.json | sort -u | wc -l)" = 1 ]
    score --questions q.txt --limit 2 --format json
    [ "$status" = 0 ]
    [[ $output == *'"questions":2'*'"accuracy":'*'"normalised_accuracy":'* ]]
    printf 'BZh9' >z.txt
    score --questions z.txt
    [ "$status" = 5 ]
    [[ $stderr == *"run bunzip2 first"* ]]
    BT_ROOT=$dir score
    [ "$status" = 4 ]
    [[ $stderr == *"HellaSwag's questions are missing"*"hellaswag_val_full.txt"* ]]
}
