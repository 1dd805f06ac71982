#!/usr/bin/env bats
# What the host needs to give work to the device, of steps and of kernels, and how steps were
# launched: recorded, shown, taken along in bundles

load ../support/cli

setup() {
    enter_scratch
    tiny_shard t.bin
    training_suite >s.json
}

teardown() {
    leave_scratch
}

@test "how steps were launched, and the host's time for it, are recorded and part of a bundle" {
    BT_FAKE_WORKER=launch "$bench" run s.json --worker "$root/tests/support/fake_worker.sh" -q >/dev/null
    run --separate-stderr "$bench" show 1
    [[ $output == *"launch       the host submits a step in 2.00 ms, mean"* ]]
    [[ $output == *"launched     from step 0 on: memory; kernel by kernel: not yet"* ]]
    [[ $output == *"launched     from step 2 on: graph; one launch"* ]]
    # The first step is warm-up: the mean is of steps 1 to 5.
    "$bench" report 1 -o r.json >/dev/null
    grep -q '"launch_time_ns": *2000003' r.json
    grep -q '"way": *"graph"' r.json
    run --separate-stderr "$bench" export 1 -o a.tar.zst
    [ "$status" = 0 ]
    run --separate-stderr "$bench" verify a.tar.zst
    [ "$status" = 0 ]
    "$bench" import a.tar.zst --db other.sqlite >/dev/null
    run --separate-stderr "$bench" show 1 --db other.sqlite
    [[ $output == *"launched     from step 2 on: graph; one launch"* ]]
}

@test "a device without graphs launches as ever, and only the record says so" {
    "$bench" run s.json --set train.graph=on -q >/dev/null
    run --separate-stderr "$bench" show 1
    [[ $output == *"launched     from step 0 on: device; kernel by kernel: the device does not support graphs"* ]]
    "$bench" run s.json -q >/dev/null
    run --separate-stderr "$bench" show 2
    [[ $output != *"launched"* && $output != *"launch  "* ]]
    # The bits are those of any other launch: no other identity.
    run --separate-stderr "$bench" compare 1 2
    [[ $output == *"bitwise"* ]]
    run --separate-stderr "$bench" run s.json --set train.graph=sometimes
    [ "$status" = 2 ]
    [[ $stderr == *"auto, on, off"* || $stderr == *"auto|on|off"* ]]
}

@test "a kernel's launch time stands beside its time" {
    cat >k.json <<'JSON'
{ "name": "tiny", "profiles": { "cpu": { "device": "cpu", "cases": [
    { "name": "gelu", "kind": "kernel",
      "kernel": { "op": "gelu", "shape": ["4x5"], "cache": "hot", "max_time_s": 0.01 } } ] } } }
JSON
    BT_KERNEL_PEER=launch run --separate-stderr "$bench" run k.json --system "$root/tests/support/kernel_peer.sh"
    [ "$status" = 0 ]
    run --separate-stderr "$bench" show 1
    [[ $output =~ of\ copy\ +launch\ +kernel ]]
    [[ $output =~ 96.0\ kB/s\ +4.20\ us\ +sleep ]]
    "$bench" report 1 -o r.md >/dev/null
    grep -q '| launch |' r.md
    run --separate-stderr "$bench" export 1 -o a.tar.zst
    run --separate-stderr "$bench" verify a.tar.zst
    [ "$status" = 0 ]
    # A CPU does a call itself: nothing is said.
    run --separate-stderr "$bench" run k.json
    run --separate-stderr "$bench" show 2
    [[ $output == *"of copy  kernel"* ]]
}
