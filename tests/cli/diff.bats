#!/usr/bin/env bats
# bt-bench diff-run: modes against each other, and against values that another program wrote;
# bisect-bits: where two runs part

load ../support/cli

setup() {
    enter_scratch
    tiny_shard t.bin
    cat >s.json <<'JSON'
{ "name": "tiny", "dataset": { "train": ["t.bin"] },
  "profiles": { "cpu": { "device": "cpu",
      "train": { "steps": 4, "micro_batch": 1, "sequence": 4, "tokens_per_step": 8,
        "model": { "layers": 1, "heads": 2, "width": 8, "vocab": 16, "context": 4 } },
      "cases": [ { "name": "a", "kind": "train", "train": { "precision": "fp32" } } ] } } }
JSON
}

teardown() {
    leave_scratch
}

@test "recomputation gives the same bits: bound 0, exit 0" {
    run --separate-stderr "$bench" diff-run fp32 block --suite ./s.json
    [ "$status" = 0 ]
    [[ $output == *"bound        0: both sides must give the same bits"* ]]
    [[ $output == *"compared values are within their bounds" ]] # and none was not compared
}

@test "another optimizer is over the bound, and its tensor is named: exit 1" {
    run --separate-stderr "$bench" diff-run fp32 train.optimizer.beta2=0.5 --suite ./s.json --steps 1
    [ "$status" = 1 ]
    [[ $output == *"first over   state.wte.weight, step 0: relative L2 difference "* ]]
}

@test "80 columns of a terminal: no line is longer, the verdict is first, columns are explained" {
    sed -i 's/"layers": 1/"layers": 12/' s.json
    COLUMNS=80 run --separate-stderr "$bench" diff-run fp32 bf16 --suite ./s.json --steps 2
    [ "$status" = 0 ]
    [ -z "$(awk 'length($0) > 80' <<<"$output")" ]
    [ "${lines[2]}" = "verdict      within the bounds" ]
    grep -Eq '^layer +over  worst +rel. L2 +bound$' <<<"$output"
    grep -Eq '^h.11 +0  backward.0.h.11.+ [0-9.e+-]{8}  [0-9.e+-]{8}$' <<<"$output"
    for word in depth: drift: missing:; do
        grep -q "$word" <<<"$output"
    done
    [[ $output == *"compared values are within their bounds" ]]
    COLUMNS=80 run --separate-stderr "$bench" diff-run fp32 train.optimizer.beta2=0.5 --suite ./s.json --steps 1
    [ "$status" = 1 ]
    [ "${lines[2]}" = "verdict      over the bounds, first in state.wte.weight, step 0" ]
    [ -z "$(awk 'length($0) > 80' <<<"$output")" ]
}

@test "json and page" {
    run --separate-stderr "$bench" diff-run fp32 bf16 --suite ./s.json --steps 2 --format json -o p.html
    [ "$status" = 0 ]
    printf %s "$output" >found.json
    python3 <<'PY'
import json
found = json.load(open("found.json"))
assert found["first_over"] is None and len(found["steps"]) == 2
kinds = {value["kind"] for value in found["steps"][0]["values"]}
assert kinds == {"initial", "input", "forward", "backward", "gradient", "state"}, kinds
assert all(value["l2_relative"] <= value["bound"] for value in found["steps"][1]["values"])
PY
    [[ $(<p.html) == *"Relative L2 difference by depth: forward, then backward"* ]]
}

# A program that is not ours computes embedding, layer normalisation and the first product of the
# same step in double precision: names, shapes and numbers are what the README says.
@test "values of another program stand for a side" {
    "$bench" diff-run fp32 fp32 --suite ./s.json --steps 1 --dump ours >/dev/null
    [ -s ours/case.json ]
    mkdir theirs
    cat >other.py <<'PY'
import math, struct, sys
sys.path.insert(0, sys.argv[1])
import safetensors_file
given = safetensors_file.read("ours/step-00000000.safetensors")
def numbers(name, letter):
    _, shape, data = given[name]
    flat = struct.unpack(f"<{len(data) // 4}{letter}", data)
    return [flat[i:i + shape[-1]] for i in range(0, len(flat), shape[-1])]
def parameter(name):
    return numbers("initial." + name, "f")
out = {}
def put(name, rows, shape):
    flat = [x for row in rows for x in row]
    out[name] = ("F32", shape, struct.pack(f"<{len(flat)}f", *flat))
ids = [i for row in numbers("input.0.ids", "i") for i in row]
wte, wpe = parameter("wte.weight"), parameter("wpe.weight")
x = [[a + b for a, b in zip(wte[i], wpe[t])] for t, i in enumerate(ids)]
put("forward.0.wte.embedding", x, [1, 4, 8])
g, b = parameter("h.0.ln_1.weight")[0], parameter("h.0.ln_1.bias")[0]
normed = []
for row in x:
    mean = sum(row) / 8
    scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in row) / 8 + 1e-5)
    normed.append([(v - mean) * scale * s + o for v, s, o in zip(row, g, b)])
put("forward.0.h.0.ln_1.layernorm", normed, [1, 4, 8])
w, c = parameter("h.0.attn.c_attn.weight"), parameter("h.0.attn.c_attn.bias")[0]
qkv = [[sum(v * u for v, u in zip(row, line)) + o for line, o in zip(w, c)] for row in normed]
if len(sys.argv) > 2:
    qkv[2][5] *= 1.001
put("forward.0.h.0.attn.c_attn.linear", qkv, [1, 4, 24])
safetensors_file.write("theirs/step-00000000.safetensors", out)
PY
    python3 other.py "$root/harness/peers/pytorch"
    run --separate-stderr "$bench" diff-run fp32 ./theirs --suite ./s.json
    [ "$status" = 0 ]
    [[ $output == *"B            values in ./theirs"* ]]
    [[ $output != *nan* ]] # its loss is not known
    [[ $output == *"forward  h.0         2     0  "* ]]
    # One element that is a thousandth off is over the bound of fp32.
    python3 other.py "$root/harness/peers/pytorch" spoilt
    run --separate-stderr "$bench" diff-run fp32 ./theirs --suite ./s.json
    [ "$status" = 1 ]
    [[ $output == *"first over   forward.0.h.0.attn.c_attn.linear, step 0: relative L2 difference "* ]]
}

@test "what is wrong with a side is said" {
    run --separate-stderr "$bench" diff-run fp32 fp8 --suite ./s.json
    [ "$status" = 2 ]
    [[ $stderr == *"fp8: expected a precision (fp32, tf32, bf16), a device"* ]]
    run --separate-stderr "$bench" diff-run fp32 ./nothing --suite ./s.json
    [ "$status" = 4 ]
    [[ $stderr == *"nothing/step-00000000.safetensors"* ]]
    run --separate-stderr "$bench" diff-run ./a ./b --suite ./s.json
    [ "$status" = 2 ]
    [[ $stderr == *"at least one side must train"* ]]
}

@test "values of diff-run: PyTorch's activations, gradients and updates are ours" {
    python=
    for p in python3 /usr/bin/python3; do
        "$p" -c 'import importlib.util as i; exit(not i.find_spec("torch"))' && python=$p && break
    done
    [ -n "$python" ] || skip "no PyTorch"
    cat >s.json <<'JSON'
{ "name": "tiny", "dataset": { "train": ["train.bin"] },
  "profiles": { "cpu": { "device": "cpu",
      "train": { "steps": 4, "micro_batch": 2, "sequence": 16, "tokens_per_step": 64,
        "model": { "layers": 2, "heads": 2, "width": 32, "vocab": 64, "context": 16 } },
      "cases": [ { "name": "a", "kind": "train", "train": { "precision": "fp32" } } ] } } }
JSON
    "$root"/tests/support/small_shard.sh train.bin
    for precision in fp32 bf16; do
        "$bench" diff-run $precision $precision --suite ./s.json --dump ours-$precision >/dev/null
        "$python" "$root/harness/peers/pytorch/values.py" ours-$precision theirs-$precision --precision $precision
        run --separate-stderr "$bench" diff-run $precision ./theirs-$precision --suite ./s.json
        [ "$status" = 0 ]
        [[ $output == *"backward  h.1         6     0  "* ]]
        [[ $output == *"gradient  h.0        12     0  "* ]]
        [[ $output == *"state     wte         2     0  "* ]]
    done
    # The bound of fp32 does not take bf16 for it.
    run --separate-stderr "$bench" diff-run fp32 ./theirs-bf16 --suite ./s.json
    [ "$status" = 1 ]
    [[ $output == *"first over   forward.0."* ]]
}

# ---- bisect-bits --------------------------------------------------------------------------------

record() { # option...
    "$bench" run ./s.json --db r.sqlite --quiet --set train.steps=6 --set train.eval_every=0 "$@" >/dev/null
}

@test "two runs of the same bits" {
    record
    record --set train.recompute=block
    run --separate-stderr "$bench" bisect-bits 1 2 --db r.sqlite
    [ "$status" = 0 ]
    [[ $output == *"run 1 and run 2 have the same bits"* ]]
}

@test "two runs that part: step, op, tensor and element" {
    record --set train.checkpoint.every_steps=2
    # The rate of the schedule's end matters from the first step after the warm-up on.
    record --set train.checkpoint.every_steps=2 --set train.optimizer.warmup_steps=3 \
        --set train.optimizer.min_lr=0.0001
    record --set train.checkpoint.every_steps=2 --set train.optimizer.warmup_steps=3 \
        --set train.optimizer.min_lr=0.0002
    run --separate-stderr "$bench" bisect-bits 2 3 --db r.sqlite
    [ "$status" = 1 ]
    [[ $output == *"from the checkpoint of step "*", which is the same in run 2 and run 3"* ]]
    [[ $output == *": op adamw, layer "* ]]
    [[ $output == *"record       run 2: the replay has the recorded bits"* ]]
    run --separate-stderr "$bench" bisect-bits 1 2 --db r.sqlite --format json
    [ "$status" = 1 ]
    [[ $output == *'"replayed_from": 0'* ]]
    [[ $output == *'"step": 0'* ]]
}

@test "runs that cannot be compared" {
    record
    run --separate-stderr "$bench" bisect-bits 1 7 --db r.sqlite
    [ "$status" = 2 ]
    run --separate-stderr "$bench" bisect-bits 1 1 --db r.sqlite --case nothing
    [ "$status" = 2 ]
    [[ $stderr == *"no training case nothing in common that BluTrain ran"* ]]
}

@test "recorded digests of the state show what no loss shows yet" {
    record --set train.digest_every=1 --set train.optimizer.weight_decay=0.1
    record --set train.digest_every=1 --set train.optimizer.weight_decay=0.1000001
    run --separate-stderr "$bench" bisect-bits 1 2 --db r.sqlite --format json
    [ "$status" = 1 ]
    [[ $output == *'"differs": "state"'* ]]
    [[ $output == *'"last_step": '[01]','* ]]
    [[ $output == *'"op": "adamw"'* ]]
    "$bench" export 1 -o a.tar.zst --db r.sqlite >/dev/null
    "$bench" verify a.tar.zst >/dev/null
    "$bench" import a.tar.zst --db other.sqlite >/dev/null
    [ "$(sqlite3 other.sqlite 'SELECT count(*) FROM state')" = 6 ]
}

@test "the values of tensor parallel ranks are within the bound of one rank" {
    export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
    mesh=fp32,train.mesh.tensor=2
    run --separate-stderr "$bench" diff-run fp32 "$mesh" --suite ./s.json
    [ "$status" = 0 ]
    [[ $output == *"recompute none, mesh tensor 2"* ]]
    [[ $output =~ all\ [0-9]+\ compared\ values\ are\ within\ their\ bounds\;\ [0-9]+\ were\ not\ compared ]]
    run --separate-stderr "$bench" diff-run fp32 "$mesh,train.optimizer.beta2=0.9" --suite ./s.json
    [ "$status" = 1 ]
    [[ $output == *"first over   state.adamw.v."* ]]
}

# Side A, which has no memory to train, would fail with another error and code.
@test "a mesh of side B that cannot be is refused before side A trains" {
    run --separate-stderr "$bench" diff-run fp32 fp32,train.mesh.tensor=2,train.mesh.invariant=8 \
        --suite ./s.json --set train.memory_limit_bytes=1
    [ "$status" = 2 ]
    [[ $stderr == "B: train.mesh.invariant is 8; allowed: 0, 1, 2 ("* ]]
}

# A mesh's values are those of one rank, where the bits do not depend on the ranks.
@test "runs on several ranks are compared by one rank that has their bits" {
    export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
    mesh=(--set train.mesh.data=2 --set train.mesh.invariant=2)
    record --set train.mesh.data=1 --set train.mesh.invariant=2
    record "${mesh[@]}" --set train.mesh.sharding=zero1
    record "${mesh[@]}" --set train.mesh.sharding=zero3 --set train.optimizer.beta2=0.9
    run --separate-stderr "$bench" bisect-bits 1 2 --db r.sqlite
    [ "$status" = 0 ]
    run --separate-stderr "$bench" bisect-bits 2 3 --db r.sqlite
    [ "$status" = 1 ]
    [[ $output == *": op adamw, layer "* ]]
    [[ $output == *"record       run 2: the replay has the recorded bits"* ]]
    record --set train.mesh.data=2 --set train.mesh.invariant=0
    run --separate-stderr "$bench" bisect-bits 2 4 --db r.sqlite
    [ "$status" = 2 ]
    [[ $stderr == *"train.mesh.invariant is 0: such a recorded run cannot be replayed; in a new run set it, or train.mesh.data to 1"* ]]
    record --set train.mesh.tensor=2
    run --separate-stderr "$bench" bisect-bits 2 5 --db r.sqlite
    [ "$status" = 2 ]
    [[ $stderr == "run 5: "*"train.mesh.tensor 2: such a recorded run cannot be replayed; 'bt-bench diff-run' trains and compares such meshes"* ]]
}
