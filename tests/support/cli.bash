# tests/support/cli.bash - what tests of the program share: `load ../support/cli`
# shellcheck shell=bash
bats_require_minimum_version 1.5.0 # run --separate-stderr

# A folder of the test's own to work in. Sets root (the repository), bench (the program, $BT_BENCH or
# that of build/) and dir (the folder).
enter_scratch() {
    root=$(readlink -f "$BATS_TEST_DIRNAME/../..")
    bench=$(readlink -m "${BT_BENCH:-$root/build/bin/bt-bench}")
    dir=$(mktemp -d "${TMPDIR:-/tmp}/bt-cli-XXXXXX")
    unset COLUMNS "${!BT_FAKE_@}" "${!BT_KERNEL_PEER@}" "${!BT_TIMED_@}" # which the fakes of this folder heed
    cd "$dir" || exit
}

leave_scratch() {
    cd /
    [ -z "${dir:-}" ] || rm -rf "$dir"
}

# A shard of 64 tokens, all 0: 256 header words (magic, version, count), then tokens.
tiny_shard() { # file
    { printf '\x88\xd8\x34\x01\x01\0\0\0\x40\0\0\0'; head -c 1012 /dev/zero; head -c 128 /dev/zero; } >"$1"
}

# Ranks of a tokenizer whose tokens are the 256 bytes.
byte_ranks() { # file
    python3 -c 'import base64
for byte in range(256):
    print(base64.b64encode(bytes([byte])).decode(), byte)' >"$1"
}

# A suite of gelu at these shapes, as in its JSON: "4x5", ["64x16", "4x5"].
gelu_suite() { # shapes
    cat <<JSON
{ "name": "tiny", "profiles": { "cpu": { "device": "cpu", "cases": [
    { "name": "gelu", "kind": "kernel",
      "kernel": { "op": "gelu", "shape": $1, "cache": "hot", "max_time_s": 0.01 } } ] } } }
JSON
}

# A suite of one training case, which fake_worker.sh ends in its six steps, on the shard t.bin.
training_suite() {
    cat <<'JSON'
{ "name": "tiny", "dataset": { "train": ["t.bin"] },
  "profiles": {
    "cpu": { "device": "cpu", "train": { "micro_batch": 1, "sequence": 16, "steps": 6 },
      "cases": [ { "name": "a", "kind": "train" } ] } } }
JSON
}

# Waits until the command holds, at most a minute; says what a program in the background said (to
# the files out and err) when it never does.
eventually() { # command...
    for _ in $(seq 1200); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.05
    done
    echo "never: $*"
    cat out err || true
    "$bench" list runs || true
    return 1
}

# For `eventually`: a run is going on whose training has made steps.
has_steps() {
    "$bench" watch --once --format json | grep -q '"step":[1-9]'
}

# Rounds of a run that have ended.
rounds_done() { # run
    "$bench" watch "$1" --once --format json | grep -o '"rounds_done":[0-9]*' | cut -d: -f2
}

# For `eventually`: so many of a run's rounds have ended.
has_rounds() { # run count
    [ "$(rounds_done "$1")" -ge "$2" ]
}
