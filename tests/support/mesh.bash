# tests/support/mesh.bash - what tests of train.mesh share: `load ../support/mesh` after cli
# shellcheck shell=bash disable=SC2154 # bench is of cli.bash

# A folder of the test's own with t.bin, a shard of 1,024 tokens below 64.
enter_mesh_scratch() {
    enter_scratch
    export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
    python3 - <<'PY'
import array
tokens = array.array("H", (i * i * 7 % 64 for i in range(1, 1025)))
header = array.array("i", [20240520, 1, len(tokens)] + [0] * 253)
open("t.bin", "wb").write(header.tobytes() + tokens.tobytes())
PY
}

fails() { # command...
    if "$@"; then
        echo "this should have failed: $*"
        return 1
    fi
}

# A suite of one case: 8 micro-batches a step, 200 steps. mesh: JSON; $heads of the model, 1
mesh_suite() { # mesh [more keys of train]
    cat >m.json <<JSON
{ "name": "m", "dataset": { "train": ["t.bin"] },
  "profiles": { "cpu": { "device": "cpu", "cases": [ { "name": "a", "kind": "train", "train": {
      "model": { "layers": 1, "heads": ${heads:-1}, "width": 16, "vocab": 64, "context": 16 },
      "micro_batch": 1, "sequence": 16, "tokens_per_step": 128, "steps": 200, "profile_steps": 0,
      "hang_s": 20, ${2:-} "mesh": $1 } } ] } } }
JSON
}

# Runs it and prints the digest of the state.
digest() { # mesh [more keys]
    mesh_suite "$@"
    rm -rf r.db out
    "$bench" run m.json --db r.db --out out >out.txt 2>&1 || {
        cat out.txt >&2
        return 1
    }
    "$bench" show last --db r.db --format json | grep -o 'state:[0-9a-f]*' | head -1
}
