#!/usr/bin/env bats
# HellaSwag during training: asked for by a suite, recorded, shown, taken along in bundles; and
# training that begins with given weights

load ../support/cli

setup() {
    enter_scratch
    worker=$root/tests/support/fake_worker.sh
    tiny_shard t.bin
    training_suite >s.json
    data=ci/data/node_modules/gpt-tokenizer/data/r50k_base.tiktoken
}

teardown() {
    leave_scratch
}

# A suite of a small GPT-2, whose tokens are all of the tokenizer's.
small_suite() {
    "$root/tests/support/small_shard.sh" t.bin
    cat <<'JSON'
{ "name": "tiny", "dataset": { "train": ["t.bin"], "val": ["t.bin"] },
  "profiles": { "cpu": { "device": "cpu",
    "train": { "model": { "layers": 1, "heads": 2, "width": 8, "vocab": 50304, "context": 64 },
      "micro_batch": 1, "sequence": 16, "steps": 4, "eval_every": 4, "eval_batches": 1 },
    "cases": [ { "name": "fp32", "kind": "train" } ] } } }
JSON
}

@test "a score is recorded, shown, and part of a bundle" {
    BT_FAKE_WORKER=hellaswag "$bench" run s.json --worker "$worker" --quiet >/dev/null
    run --separate-stderr "$bench" show 1
    [[ $output == *"hellaswag    0.3500 normalised by length, 0.2250 not, after 6 steps; 40 questions"* ]]
    "$bench" report 1 -o r.json >/dev/null
    grep -q '"normalised_correct": *10' r.json
    grep -q '"normalised_correct": *14' r.json
    "$bench" report 1 -o r.html >/dev/null
    grep -q 'HellaSwag of' r.html
    grep -q 'fraction of correct answers, by loss per token' r.html
    "$bench" export 1 -o b.tar.zst >/dev/null
    "$bench" verify b.tar.zst
    "$bench" import b.tar.zst --db other.sqlite >/dev/null
    "$bench" report 1 -o r2.json --db other.sqlite >/dev/null
    grep -q '"normalised_correct": *14' r2.json
    "$bench" rm 1 >/dev/null
}

@test "a run without scores has neither curve nor table of them" {
    "$bench" run s.json --worker "$worker" --quiet >/dev/null
    "$bench" report 1 -o r.html >/dev/null
    ! grep -q 'HellaSwag' r.html
}

@test "without questions or a tokenizer the run does not begin, and says how to get them" {
    run --separate-stderr env BT_ROOT="$dir" "$bench" run s.json --worker "$worker" --quiet --set train.hellaswag_every=2
    [ "$status" = 4 ]
    [[ $stderr == *"case a: HellaSwag's questions are missing: data/hellaswag.txt"* ]]
    mkdir data
    echo q >data/hellaswag.txt
    run --separate-stderr env BT_ROOT="$dir" "$bench" run s.json --worker "$worker" --quiet --set train.hellaswag_every=2
    [ "$status" = 4 ]
    [[ $stderr == *"GPT-2's tokenizer is missing"*"bt-bench data prepare"* ]]
}

@test "the worker is told where questions and ranks are" {
    mkdir -p data "${data%/*}"
    touch data/hellaswag.txt "$data"
    BT_ROOT=$dir BT_FAKE_TASK_FILE=task "$bench" run s.json --worker "$worker" --quiet --set train.hellaswag_every=2 >/dev/null
    grep -q '"hellaswag":{"questions":"[^"]*data/hellaswag.txt","ranks":"[^"]*r50k_base.tiktoken"}' task
    BT_FAKE_TASK_FILE=task "$bench" run s.json --worker "$worker" --quiet >/dev/null
    ! grep -q '"hellaswag"' task
}

@test "the trainer scores at the start, every so many steps and at the end, and keeps its bits" {
    [ -f "$root/$data" ] || skip "GPT-2's tokenizer is not installed"
    small_suite >s.json
    mkdir data
    for i in 0 1 2 3; do
        printf 'Cooking: he stirs the pot, then he\n%s\nsings\nputs the lid on\nis\nthrows it\n' "$i"
    done >data/hellaswag.txt
    BT_ROOT=$root "$bench" run s.json --quiet --set train.hellaswag_every=3 >/dev/null
    "$bench" report 1 -o r.json >/dev/null
    [ "$(grep -o '"normalised_correct": *1' r.json | wc -l)" = 3 ] # before 0, before 3, after 3
    "$bench" run s.json --quiet >/dev/null
    [ "$("$bench" show 1 | grep bits)" = "$("$bench" show 2 | grep bits)" ]
}

@test "PyTorch gives every ending the same loss" {
    [ -f "$root/$data" ] || skip "GPT-2's tokenizer is not installed"
    python=
    for p in python3 /usr/bin/python3; do
        "$p" -c 'import importlib.util as i; exit(not i.find_spec("torch"))' && python=$p && break
    done
    [ -n "$python" ] || skip "no PyTorch"
    for i in 0 1 2 3; do
        printf 'Cooking: A man stirs the pot, then he\n%s\nsings a song.\nputs the lid on.\nis 3 years old\nthrows it\n' "$i"
    done >q.txt
    "$python" "$root/tests/golden/hellaswag_torch.py" make m 2 2 16
    BT_ROOT=$root "$bench" hellaswag --from m --device cpu --questions q.txt --answers a.json --quiet >/dev/null
    "$python" "$root/tests/golden/hellaswag_torch.py" score m q.txt "$root/$data" a.json
}

@test "training begins with given weights, and says what does not fit" {
    small_suite >s.json
    python3 - <<'PY'
import json, struct
C, L = 8, 1
shapes = {"wte.weight": [50304, C], "wpe.weight": [64, C], "ln_f.weight": [C], "ln_f.bias": [C]}
for name, shape in (("ln_1", [C]), ("ln_2", [C]), ("attn.c_attn", [C, 3 * C]), ("attn.c_proj", [C, C]),
                    ("mlp.c_fc", [C, 4 * C]), ("mlp.c_proj", [4 * C, C])):
    shapes[f"h.0.{name}.weight"] = shape
    shapes[f"h.0.{name}.bias"] = shape[-1:]
header, at = {}, 0
for name, shape in shapes.items():
    size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
    at += size
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open("zero.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(at))
PY
    "$bench" run s.json --quiet --set train.init=zero.safetensors >/dev/null
    # All logits are 0: the loss of the first step is that of drawing from 50304 tokens, ln 50304.
    "$bench" report 1 -o r.json >/dev/null
    grep -q '10\.8258' r.json
    run --separate-stderr "$bench" run s.json --quiet --set train.init=zero.safetensors --set train.model.width=16
    [ "$status" != 0 ]
    [[ $output$stderr == *"zero.safetensors has width 8, the plan's model 16"* ]]
    run --separate-stderr "$bench" run s.json --quiet --set train.init=none.safetensors
    [ "$status" != 0 ]
    [[ $output$stderr == *"init: cannot open none.safetensors"* ]]
}
