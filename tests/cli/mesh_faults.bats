#!/usr/bin/env bats
# What goes wrong with several ranks that train: each fault is caused, noticed, named and survived or
# refused. Kills and stops are in mesh.bats, every kind of cause in tests/harness/test_launch.c.

load ../support/cli
load ../support/mesh

setup() {
    enter_mesh_scratch
}

teardown() {
    leave_scratch
}

@test "with shrink fewer ranks go on when one is lost again and again, to the same state" {
    undisturbed=$(digest '{"data": 4}')
    faults='["kill rank 2 at step 5", "kill rank 2 at start"]'
    [ "$(digest "{\"data\": 4, \"shrink\": true, \"faults\": $faults}")" = "$undisturbed" ]
    grep -q 'rank_killed: rank 2 .* was killed by SIGKILL .*; 4 ranks continue as generation 2' out/*.log
    grep -q 'rank_killed: rank 2 .* was killed by SIGKILL .*; 2 ranks continue as generation 3' out/*.log
    grep -q '"size":2' out/ranks.json
}

@test "a rank that is killed before the first event is named, and the run goes on or fails by its name" {
    undisturbed=$(digest '{"data": 2}')
    [ "$(digest '{"data": 2, "faults": ["kill rank 1 at start"]}')" = "$undisturbed" ]
    grep -q 'rank_killed, restart with 2 ranks: rank 1 .* was killed by SIGKILL' out.txt
    mesh_suite '{"data": 2, "faults": ["kill rank 1 at start", "kill rank 1 at start", "kill rank 1 at start"]}'
    run "$bench" run m.json --db f.db --out f
    [ "$status" = 4 ]
    [[ $output == *"rank 1 "*" was killed by SIGKILL"*"third fault in a row without a completed step"* ]]
}

@test "a lost rank ends a run whose checkpoints have only parameters" {
    mesh_suite '{"data": 2, "faults": ["kill rank 1 at step 5"]}' \
        '"checkpoint": { "at_end": true, "content": "parameters" },'
    run "$bench" run m.json --db f.db --out f
    [ "$status" = 4 ]
    [[ $output == *"rank 1 "*" was killed by SIGKILL"* ]]
    [[ $output != *"restart with"* && $output != *"cannot continue from checkpoints"* ]]
    grep -q 'a lost rank ends the run, because its checkpoints have only parameters' f/*.log
}

@test "a torn state is passed over for the one before it" {
    save='"checkpoint": { "every_steps": 5, "asynchronous": false },'
    undisturbed=$(digest '{"data": 2}' "$save")
    # While a stopped rank has not been noticed yet, half of the newest checkpoint is lost.
    mesh_suite '{"data": 2, "faults": ["stop rank 1 at step 13"]}' "$save"
    rm -rf r.db out
    "$bench" run m.json --db r.db --out out >out.txt 2>&1 &
    run_pid=$!
    stopped() { pgrep -r T -g "$(pgrep -P "$run_pid" -o)" || pgrep -r T -P "$(pgrep -P "$run_pid" -o)"; }
    eventually stopped
    newest=$(ls -d out/checkpoints/*/step-* | sort -V | tail -1)
    find "$newest" -type f -size +1k -exec truncate -s 1000 {} +
    wait $run_pid
    [ "$("$bench" show last --db r.db --format json | grep -o 'state:[0-9a-f]*' | head -1)" = "$undisturbed" ]
    cat out.txt >&2
    grep -q 'skipped .* 1 newer checkpoint' out.txt
}

@test "ranks that are told to stop save their state and go on from it" {
    save='"checkpoint": { "at_end": true },'
    long() {
        mesh_suite '{"data": 2}' "$save"
        sed -i 's/"steps": 200/"steps": 600/' m.json
    }
    long
    "$bench" run m.json --db u.db --out u >out.txt 2>&1
    long
    "$bench" run m.json --db r.db --out out >out.txt 2>&1 &
    run_pid=$!
    # shellcheck disable=SC2016 # for the inner shell
    eventually bash -c '"$0" watch --once --db r.db --format json | grep -q "\"step\":[1-9]"' "$bench"
    kill -TERM $run_pid
    fails wait $run_pid
    stopped=$(basename out/checkpoints/a-blutrain-0/step-*)
    "$bench" run --resume last --db r.db >out.txt 2>&1
    grep -q "resumed   from the checkpoint of step $((10#${stopped#step-})) in " out.txt
    [ -d u/checkpoints/a-blutrain-0/step-00000600 ]
    [ -d out/checkpoints/a-blutrain-0/step-00000600 ]
    for database in u.db r.db; do
        "$bench" show last --db $database --format json | grep -o 'state:[0-9a-f]*' | tail -1
    done >states
    [ "$(wc -l <states)" = 2 ]
    [ "$(sort -u states | wc -l)" = 1 ]
}

@test "a rank without memory is named with what it wanted" {
    mesh_suite '{"data": 2}' '"memory_limit_bytes": 300000,'
    fails "$bench" run m.json --db r.db --out out >out.txt 2>&1
    grep -Eq 'rank [01]: cpu: requested .* for ".*"; limit 293.0 KiB, allocated .* largest live blocks' out.txt
    [ "$(grep -c 'continue as generation' out/*.log)" = 0 ] # it would happen again
}

@test "ranks of another build are named" {
    [[ $("$bench" --version) == *revision* ]] || skip "built outside of a repository"
    # The same program with another revision in it.
    python3 - "$bench" <<'PY'
import re, subprocess, sys
commit = re.search(r"revision +([0-9a-f]{8,40})", subprocess.run([sys.argv[1], "--version"], capture_output=True, text=True, check=True).stdout)[1].encode()
program = open(sys.argv[1], "rb").read()
assert commit in program
open("other", "wb").write(program.replace(commit, commit[::-1]))
PY
    chmod +x other
    export LD_LIBRARY_PATH=$(dirname "$bench")
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1] - 1)')
    mesh_suite '{"data": 2}'
    export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port BT_ROOT=$root
    RANK=1 LOCAL_RANK=1 ./other run m.json --db r1.db --out out1 >r1.txt 2>&1 &
    fails env RANK=0 LOCAL_RANK=0 "$bench" run m.json --db r.db --out out >r0.txt 2>&1
    fails wait $!
    grep -q 'ranks differ in their build: rank 1 on .*; install the same build on all hosts' r0.txt
}

@test "a network that swallows everything ends the run by name and in time" {
    unshare --pid --fork true 2>/dev/null || skip "no namespace for another host"
    mesh_suite '{"data": 2}' '"warmup_timing_steps": 0,'
    sed -i 's/"steps": 200/"steps": 100000/; s/"hang_s": 20/"hang_s": 3/' m.json
    # Another process namespace is another machine: these ranks talk over TCP, through this program.
    cat >proxy.py <<'PY'
import os, select, socket
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
target = socket.socket()
target.bind(("127.0.0.1", 0))
port = target.getsockname()[1]
target.close()
print(listener.getsockname()[1], port, flush=True)
inner = listener.accept()[0]
outer = socket.create_connection(("127.0.0.1", port))
while not os.path.exists("cut"):
    for end in select.select([inner, outer], [], [], 0.05)[0]:
        data = end.recv(65536)
        if not data:
            raise SystemExit
        (outer if end is inner else inner).sendall(data)
select.select([], [], [], 60)  # both connections stay, and nothing passes
PY
    python3 proxy.py >ports &
    proxy=$!
    eventually grep -q ' ' ports
    read -r through behind <ports
    export WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 TORCHELASTIC_RUN_ID=partition
    RANK=0 LOCAL_RANK=0 MASTER_PORT=$((behind - 1)) "$bench" run m.json --db r.db --out out >r0.txt 2>&1 &
    zero=$!
    sleep 0.5 # the proxy connects once
    RANK=1 LOCAL_RANK=0 MASTER_PORT=$((through - 1)) unshare --pid --fork --kill-child \
        "$bench" run m.json --db r1.db --out out1 >r1.txt 2>&1 &
    one=$!
    # shellcheck disable=SC2016 # for the inner shell
    eventually bash -c '"$0" watch --once --db r.db --format json | grep -q "\"step\":[1-9]"' "$bench"
    touch cut
    started=$SECONDS
    fails wait $zero
    fails wait $one
    [ $((SECONDS - started)) -lt 40 ]
    kill $proxy
    grep -q 'rank 0 waited .* for rank 1, but received nothing' r0.txt
    grep -q 'rank 1 waited .* for rank 0, but received nothing' r1.txt
}
