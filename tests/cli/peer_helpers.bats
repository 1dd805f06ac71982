#!/usr/bin/env bats
# Peers of twenty lines, in Python and C, by harness/peers/helpers: checked by the recorder

load ../support/cli

setup() {
    enter_scratch
    export OMP_NUM_THREADS=1 PYTHONPATH=$root/harness/peers/helpers
    cat >s.json <<'JSON'
{ "name": "copies", "profiles": { "cpu": { "device": "cpu", "cases": [
    { "name": "copy", "kind": "kernel",
      "kernel": { "op": "copy", "shape": "1000x100", "cache": ["cold", "rotating", "hot"], "max_time_s": 0.05 } },
    { "name": "gelu", "kind": "kernel",
      "kernel": { "op": "gelu", "shape": "64x16", "cache": "hot", "max_time_s": 0.05 } } ] } } }
JSON
}

teardown() {
    leave_scratch
}

python_peer() { # what is written to y
    cat >peer.py <<PY
#!/usr/bin/env python3
import bt_peer

def make(kernel, inputs, outputs):
    if kernel["op"] != "copy":
        raise bt_peer.Unsupported("only copies")
    x, y = inputs["x"], outputs["y"]
    def call():
        y[:] = $1
    return call

bt_peer.main(make, device="bytearray")
PY
    chmod +x peer.py
}

c_peer() { # what is copied
    cat >peer.c <<C
#include "bt_peer.h"
static const char *accept(const cJSON *kernel)
{
    return bt_peer_is(kernel, "op", "copy") ? NULL : "only copies";
}
static void call(const bt_peer_call *call)
{
    memcpy(bt_peer_data(call, "y"), bt_peer_data(call, "x"), $1);
}
int main(void) { return bt_peer_main("memcpy", accept, call); }
C
    gcc -std=gnu17 -O2 -Wall -Wextra -Werror -I "$root/harness/peers/helpers" peer.c -o peer -lcjson -lm
}

errors() { # system: rounds whose outputs the recorder found right
    sqlite3 results/bt.sqlite "select count(*) from measurement m join round r on r.id=m.round_id where metric='output_error_share' and value=0 and r.status=1 and r.system='$1'"
}

@test "a peer in Python is timed in every cache mode, and its outputs are verified" {
    python_peer x
    run --separate-stderr "$bench" run s.json -q --system ./peer.py
    # On a machine that others load, times of one mode may be refused as implausible.
    [ "$(errors peer.py)" -ge 2 ] || { echo "$output$stderr"; false; }
    [[ $output == *"only copies"* ]]
}

@test "a peer in C likewise, in the twenty lines of its header's example" {
    c_peer 'bt_peer_bytes(call, "x")'
    run --separate-stderr "$bench" run s.json -q --system ./peer
    # On a machine that others load, times of one mode may be refused as implausible.
    [ "$(errors peer)" -ge 2 ] || { echo "$output$stderr"; false; }
    [[ $output == *"only copies"* ]]
}

@test "wrong outputs make their rounds invalid" {
    python_peer 'bytes(len(x))'
    "$bench" run s.json -q --filter hot --system ./peer.py || true
    c_peer 'bt_peer_bytes(call, "x") - 4'
    "$bench" run s.json -q --filter hot --system ./peer || true
    [ "$(errors peer.py)" = 0 ]
    [ "$(errors peer)" = 0 ]
    [ "$(sqlite3 results/bt.sqlite "select count(*) > 0 from round where system='peer' and message like '%wrong%'")" = 1 ]
}
