#!/usr/bin/env bats
# Which programs a run starts, and what they get to see: a suite is data that somebody else wrote

load ../support/cli

setup() {
    enter_scratch
    export BT_ROOT=$root OMP_NUM_THREADS=1
    gelu_suite '"4x5"' >s.json
    sed 's|"device": "cpu",|"device": "cpu", "systems": ["blutrain", "./evil.sh"],|' s.json >evil.json
    peer_of_marker evil.sh
}

teardown() {
    leave_scratch
}

# A peer that leaves a file `started` and its environment in `environment`.
peer_of_marker() { # file
    cat >"$1" <<SH
#!/bin/bash
touch "$dir/started"
env >"$dir/environment"
exec "$root/tests/support/kernel_peer.sh"
SH
    chmod +x "$1"
}

@test "a program that may not be executed is named as such" {
    echo '#!/bin/sh' >peer.sh
    run --separate-stderr "$bench" run s.json --system ./peer.sh
    [ "$status" = 2 ]
    [ "$stderr" = "./peer.sh: exists but cannot be executed: run 'chmod +x ./peer.sh'" ]
}

@test "a program that the suite names by path does not start, and the message says what to type" {
    run --separate-stderr "$bench" run evil.json -q
    [ "$status" = 2 ]
    [ ! -e started ]
    [[ $stderr == *'names the program "./evil.sh"'*"--system"*"--trust"* ]]
}

@test "the same program starts when it is named, or with --trust" {
    run --separate-stderr "$bench" run evil.json -q --system blutrain,./evil.sh
    [ "$status" = 0 ]
    [ -e started ]
    rm started
    run --separate-stderr "$bench" run evil.json -q --trust
    [ "$status" = 0 ]
    [ -e started ]
}

@test "a path of more than 64 characters is not cut" {
    long=$(printf 'd%.0s' {1..90})
    mkdir "$long"
    peer_of_marker "$long/peer.sh"
    run --separate-stderr "$bench" run s.json -q --system "blutrain,./$long/peer.sh"
    [ "$status" = 0 ]
    [ -e started ]
}

@test "a peer by name is the installed one, whatever the working directory holds" {
    mkdir -p harness/peers/pytorch harness/peers/mine shadow
    peer_of_marker harness/peers/pytorch/peer.py
    peer_of_marker harness/peers/mine/peer.sh
    echo 'raise ImportError("hidden by the test")' >shadow/torch.py
    PYTHONPATH=$dir/shadow run --separate-stderr "$bench" run s.json -q --system blutrain,pytorch-eager
    [ ! -e started ]
    [[ $output == *"hidden by the test"* ]]
    for trust in "" --trust; do
        # shellcheck disable=SC2086 # no word without it
        run --separate-stderr "$bench" run s.json -q --system mine $trust
        [ "$status" = 2 ]
        [[ $stderr == *'no system "mine"'*"by its path"* && $stderr != *", mine"* ]]
    done
    [ ! -e started ]
}

@test "a peer gets the variables of the list and no secrets" {
    export AWS_SECRET_ACCESS_KEY=s3cret-1 GITHUB_TOKEN=s3cret-2 MY_VARIABLE=s3cret-3 \
        OMP_API_TOKEN=s3cret-4 LD_PRELOAD_X=s3cret-5 SSH_AUTH_SOCK=s3cret-6
    export CUDA_VISIBLE_DEVICES=none NCCL_DEBUG=WARN PYTHONPATH=/p VIRTUAL_ENV=/v LC_ALL=C BT_MINE=1
    run --separate-stderr "$bench" run s.json -q --system blutrain,./evil.sh
    [ "$status" = 0 ]
    for name in PATH HOME OMP_NUM_THREADS CUDA_VISIBLE_DEVICES NCCL_DEBUG PYTHONPATH VIRTUAL_ENV \
        LC_ALL BT_MINE; do
        grep -q "^$name=" environment || { echo "lacks $name"; false; }
    done
    ! grep s3cret environment
}

@test "an imported session does not start the programs of its record" {
    mkdir base candidate
    cp "$root/tests/support/fake_build.sh" base/bt-bench
    cp "$root/tests/support/fake_build.sh" candidate/bt-bench
    "$bench" ab ./base ./candidate s.json -q >/dev/null
    sqlite3 results/bt.sqlite "update session set status=3; delete from verdict"
    "$bench" export 1 -o x.tar.zst
    "$bench" import x.tar.zst --db other.sqlite
    sqlite3 other.sqlite "update session_system set program='$dir/' || name || '/bt-bench' where program<>''"
    printf 'touch "%s/started"\n' "$dir" >candidate/says
    cp candidate/says base/says
    run --separate-stderr "$bench" ab --resume 1 --db other.sqlite
    [ "$status" = 2 ]
    [ ! -e started ]
    [[ $stderr == *"was imported and names the program"*"--trust"* ]]
    run --separate-stderr "$bench" ab --resume 1 --db other.sqlite --trust
    [ -e started ]
}
