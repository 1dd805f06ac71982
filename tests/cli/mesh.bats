#!/usr/bin/env bats
# bt-bench run with train.mesh: several ranks of this host, lost ranks, meshes that cannot be

load ../support/cli
load ../support/mesh

setup() {
    enter_mesh_scratch
}

teardown() {
    leave_scratch
}

@test "one, two and four ranks end with the same state under every sharding" {
    one=$(digest '{"data": 1}')
    [ -n "$one" ]
    for sharding in ddp zero1 zero3; do
        [ "$(digest "{\"data\": 2, \"sharding\": \"$sharding\"}")" = "$one" ]
    done
    [ "$(digest '{"data": 4}')" = "$one" ]
}

@test "ranks that are killed and stopped come back, and the state is the undisturbed one" {
    undisturbed=$(digest '{"data": 2}')
    faults='["kill rank 1 at step 3", "kill rank 0 at step 8", "segv rank 1 at step 12", "stop rank 0 at step 16"]'
    [ "$(digest "{\"data\": 2, \"faults\": $faults}")" = "$undisturbed" ]
    grep -q 'rank_killed, restart with 2 ranks: rank 1 .* was killed by SIGKILL after 3 steps' out.txt
    grep -q 'rank_hang, restart with 2 ranks: no rank has made progress for' out.txt
    "$bench" show last --db r.db --format json >shown.json
    grep -q '"recovery_ns"' shown.json
    grep -q '"recovery_detect_ns"' shown.json
    [ "$(grep -o '"rank":' out/ranks.json | wc -l)" = 2 ]
    grep -q '"generation":5' out/ranks.json
    # Nothing stays in memory.
    for folder in /dev/shm/bt-ranks-*; do # of other runs, which are going on
        [ ! -d "$folder" ] || fails flock -n "$folder" true
    done
}

@test "ranks that share a model end with one state whatever the data-parallel ranks, also after a kill" {
    heads=2
    two=$(digest '{"tensor": 2}')
    [ -n "$two" ]
    [ "$(digest '{"data": 2, "tensor": 2}')" = "$two" ]
    [ "$(digest '{"tensor": 2, "faults": ["kill rank 1 at step 3"]}')" = "$two" ]
    grep -q 'rank_killed, restart with 2 ranks' out.txt
    [ "$(digest '{"data": 2, "tensor": 2, "faults": ["stop rank 2 at step 3"]}')" = "$two" ]
    grep -Eq 'rank_hang, restart with 4 ranks: .*; rank 2 (is stopped|did not enter)' out.txt
    mesh_suite '{"tensor": 3}'
    run "$bench" run m.json --db r.db --out out2
    [ "$status" != 0 ]
    [[ $output == *"train.mesh.tensor is 3, but train.model.heads is 2"* ]]
}

@test "the newest checkpoint is gone on from where the case saves by itself" {
    undisturbed=$(digest '{"data": 2}')
    save='"checkpoint": { "every_steps": 5 },'
    [ "$(digest '{"data": 2, "faults": ["kill rank 1 at step 13"]}' "$save")" = "$undisturbed" ]
    grep -rq 'restart from the newest checkpoint' out/*.log
}

@test "steps that a restart repeats are said in every text of the run" {
    mesh_suite '{"data": 2, "faults": ["kill rank 1 at step 13"]}' '"checkpoint": { "every_steps": 1000 },'
    "$bench" run m.json --db r.db --out out >out.txt 2>&1
    "$bench" report last --db r.db -o r.json
    "$bench" report last --db r.db -o r.md
    python3 - <<'PY'
import json, re
case = json.load(open("r.json"))["runs"][0]["cases"][0]
step, how = case["faults"][0]["step"], case["faults"][0]["action"]
assert how == f"restart with 2 ranks from step 0, {step} steps repeated", how
metrics = case["metrics"]
assert metrics["recovery_repeated_steps"] == step >= 12, metrics # of the slower rank
assert metrics["recovery_caught_up_ns"] > metrics["recovery_step_ns"], metrics
text = open("out.txt").read()
assert re.search(rf"^restart   a from step 0, {step} steps repeated; first step after ", text, re.M), text
assert re.search(rf"^restart   a at step {step} again after ", text, re.M), text
assert f"step {step}: rank_killed, {how}: rank 1 " in text, text # show
assert re.search("first step after [^,]*, at the step of the fault again after [^,]*; mean of 1 fault", text), text
assert f"the first at step {step}: rank_killed, {how}. rank 1 " in open("out/report.html").read()
table = open("r.md").read()
assert "| first step | repeated | caught up |" in table and f"| {step} steps | " in table, table
PY
}

@test "a mesh that cannot be is refused with the key and what is allowed" {
    mesh_suite '{"data": 3}'
    run "$bench" run m.json --db r.db --out out
    [ "$status" = 2 ]
    [[ $output == *"case a: train.mesh.data is 3; it must divide the number of micro-batches of a step, 8 "* ]]
    mesh_suite '{"data": 65}'
    run "$bench" run m.json --db r.db --out out3
    [ "$status" = 2 ]
    [[ $output == *"data"*"64"* ]]
}

@test "a mesh of one key runs: the plan chooses virtual shards that the mesh allows" {
    heads=2
    for mesh in '"data": 2' '"tensor": 2' '"context": 2'; do
        mesh_suite "{$mesh}"
        "$bench" run m.json --db r.db --quiet --set train.tokens_per_step=64 --set train.steps=2
    done
}

@test "a wrong mesh is refused by the plan, starts no process and leaves no run" {
    refused() { # mesh message [more keys]
        mesh_suite "$1" "${3:-}"
        for option in --quiet --dry-run; do
            run "$bench" run m.json --db r.db --out out "$option"
            [ "$status" = 2 ]
            [[ $output == *"$2"* ]]
        done
        [ ! -e r.db ]
    }
    heads=4
    refused '{"tensor": 16}' 'train.mesh.tensor is 16, but train.model.heads is 4, and each rank needs a head; allowed: 1 to 4'
    refused '{"data": 4, "tensor": 4, "context": 8}' 'train.mesh: data x tensor x context is 128; one host'
    refused '{"context": 4, "shared_heads": 3, "invariant": 0}' 'train.mesh.shared_heads is 3'
    refused '{"context": 2, "invariant": 8}' 'train.mesh.invariant needs whole sequences on each rank'
    refused '{"context": 3, "invariant": 0}' 'with train.mesh.context 3 it must be a multiple of 6'
    # One text is a list of one; a fault that no step would cause is none.
    refused '{"data": 2, "faults": ["kill rank 2 at step 1"]}' 'R below 2, the number of ranks, got '
    refused '{"data": 2, "faults": "kill"}' "train.mesh.faults: expected"
    refused '{"data": 1, "faults": "boil rank 1"}' "m.json:5:"
    refused '{"data": 2, "faults": ["kill rank 1 at step 3", "kill rank 1 at step 200"]}' \
        "'kill rank 1 at step 200': the run's last step is 199"
    refused '{"data": 2, "invariant": 3}' 'train.mesh.invariant is 3; allowed: 0, 2, 4, 8 ('
    refused '{"tensor": 2, "half_batches": true}' 'half_batches needs an even train.micro_batch, which is 1'
    refused '{"tensor": 2, "row_chunks": true}' 'row_chunks needs train.mesh.sequence_parallel'
    mesh_suite '{"tensor": 2, "invariant": 0}'
    run "$bench" run m.json --db r.db --set train.model.family=llama
    [ "$status" = 2 ]
    [ "$output" = 'case a: train.mesh.tensor is 2, but models of family llama cannot be split; allowed: 1' ]
    run "$bench" run m.json --db r.db --set train.model.family=llama --set train.mesh.tensor=1 --set train.mesh.context=2
    [ "$output" = 'case a: train.mesh.context is 2, but sequences of family llama cannot be split; allowed: 1' ]
    run "$bench" run m.json --db r.db --set train.precision=tf32
    [ "$status" = 2 ]
    [ "$output" = 'case a: train.precision tf32 needs a GPU; on the CPU allowed: fp32, bf16' ]
    [ ! -e r.db ]
    # More ranks than cores are allowed, and noted.
    mesh_suite '{"data": 8}'
    run taskset -c "$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')" "$bench" run m.json --dry-run
    [ "$status" = 0 ]
    [[ $output == "8 ranks on 1 core: they take turns, so their speed is not that of 8 cores"* ]]
    mesh_suite '{"tensor": 3, "invariant": 0}' # of 4 heads
    run "$bench" run m.json --dry-run
    [ "$status" = 0 ]
    sed 's/"device": "cpu"/"device": "cuda"/' m.json >cuda.json
    run "$bench" run cuda.json --profile cpu --dry-run # its name
    [ "$status" = 2 ]
    [[ $output == *"case a: train.mesh: data x tensor x context is 3; on GPUs allowed: 1, 2, 4 or 8"* ]]
    # Keys without effect are only named.
    mesh_suite '{"data": 2, "sequence_parallel": true, "half_batches": true, "rotation": "all_to_all"}'
    run "$bench" run m.json --dry-run
    [ "$status" = 0 ]
    [[ $output == *"case a: train.mesh.sequence_parallel has no effect: train.mesh.tensor is 1"* ]]
    [[ $output == *"case a: train.mesh.half_batches has no effect: train.mesh.tensor is 1"* ]]
    [[ $output == *"case a: train.mesh.rotation has no effect: train.mesh.context is 1"* ]]
    mesh_suite '{"data": 1, "faults": "kill rank 0 at step 3"}'
    run "$bench" run m.json --dry-run
    [ "$status" = 0 ]
    [[ $output == *"case a: train.mesh.faults has no effect: train.mesh has one rank"* ]]
    mesh_suite '{"context": 2, "shared_heads": 2, "rotation": "all_to_all", "invariant": 0}'
    run "$bench" run m.json --dry-run
    [ "$status" = 0 ]
    [[ $output == *"case a: train.mesh.rotation has no effect: all 2 ranks that share a sequence share heads"* ]]
}

# The number before that of a TCP port that was free a moment ago: under torchrun rank 0 listens at
# MASTER_PORT + 1.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1] - 1)'
}

# Rank R of two, as torchrun would start it; its output goes to rR.txt.
torchrun_rank() { # rank port [options of run]
    local rank=$1 port=$2
    shift 2
    RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=${address:-127.0.0.1} \
        MASTER_PORT=$port "$bench" run m.json --db r.db "$@" >"r$rank.txt" 2>&1
}

# Both of them; prints the digest that rank R recorded.
torchrun_digests() { # port
    rm -rf r.db* out*
    torchrun_rank 1 "$1" &
    torchrun_rank 0 "$1"
    wait $!
    for database in r.db r.db.rank1; do
        "$bench" show last --db "$database" --format json | grep -o 'state:[0-9a-f]*' | head -1
    done
}

@test "ranks that torchrun, srun or mpirun starts train together" {
    own=$(digest '{"data": 2}')
    mkdir ranks.rank1
    echo old >ranks.rank1/report.html # of another run
    [ "$(torchrun_digests "$(free_port)" | uniq)" = "$own" ]
    [ "$(cat ranks.rank1/report.html)" = old ]
    [ -f ranks-2.rank1/report.html ]
    rm -rf r.db* out*
    for rank in 1 0; do
        SLURM_PROCID=$rank SLURM_LOCALID=$rank SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=$$ \
            SLURM_STEP_NODELIST='localhost' "$bench" run m.json --db r.db --out out >"s$rank.txt" 2>&1 &
    done
    wait
    [ "$("$bench" show last --db r.db --format json | grep -o 'state:[0-9a-f]*' | head -1)" = "$own" ]
    command -v mpirun >/dev/null || return 0
    rm -rf r.db* out*
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 2 \
        "$bench" run m.json --db r.db --out out >mpi.txt 2>&1
    [ "$("$bench" show last --db r.db --format json | grep -o 'state:[0-9a-f]*' | head -1)" = "$own" ]
}

@test "ranks of other plans or variables, missing ranks and addresses that are none are named, and nothing hangs" {
    mesh_suite '{"data": 2}' '"hang_s": 4, "verify_every": 0,'
    sed -i 's/"hang_s": 20, //' m.json
    port=$(free_port)
    torchrun_rank 1 "$port" --set train.seed=7 & # another plan
    fails torchrun_rank 0 "$port"
    fails wait $!
    grep -q 'ranks differ in their plan: rank 1 on .*; start all ranks with the same suite' r0.txt
    grep -q 'ranks differ in their plan: rank 1 on' r1.txt
    BT_GEMM_TUNE=1 torchrun_rank 1 "$port" &
    fails torchrun_rank 0 "$port"
    fails wait $!
    grep -q 'ranks differ in their BT_GEMM_TUNE: rank 1 on .* has 1, .* has 0; set it to the same value' r0.txt
    fails torchrun_rank 0 "$port" # rank 1 is missing
    grep -q 'rank 1 did not connect to rank 0 within 4 s' r0.txt
    fails torchrun_rank 1 "$port" # rank 0 is
    grep -q "rank 1 cannot reach rank 0 at 127.0.0.1 port $((port + 1)) within 4 s" r1.txt
    address=no.such.host.invalid fails torchrun_rank 1 "$port"
    grep -q "cannot resolve the host 'no.such.host.invalid'" r1.txt
    python3 -c '
import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
print(s.getsockname()[1] - 1, flush=True); time.sleep(60)' >taken.txt &
    other=$!
    for _ in $(seq 100); do
        [ -s taken.txt ] && break
        sleep 0.1
    done
    port=$(cat taken.txt)
    fails torchrun_rank 0 "$port"
    kill $other
    grep -q "rank 0 cannot listen at 127.0.0.1 port $((port + 1)): Address already in use" r0.txt
    NCCL_SOCKET_IFNAME=nosuch7 fails torchrun_rank 0 "$port"
    grep -q 'rank 0: NCCL_SOCKET_IFNAME is nosuch7, which no interface of this host has; it has .*lo' r0.txt
    mesh_suite '{"data": 4}'
    fails torchrun_rank 0 "$port"
    grep -q 'rank 0: train.mesh has 4 ranks, but torchrun started 2 ranks (WORLD_SIZE)' r0.txt
    fails env RANK=2 WORLD_SIZE=2 "$bench" run m.json --db r.db >r2.txt 2>&1
    grep -q 'torchrun: RANK is 2, expected 0 to 1' r2.txt
    fails env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 \
        OMPI_COMM_WORLD_LOCAL_SIZE=1 "$bench" run m.json --db r.db >r2.txt 2>&1
    grep -q 'Open MPI started 2 ranks on several hosts but does not give the host of rank 0: set MASTER_ADDR' r2.txt
}

@test "watch shows every rank" {
    mesh_suite '{"data": 2}' '"warmup_timing_steps": 0,'
    sed -i 's/"steps": 200/"steps": 4000/' m.json
    "$bench" run m.json --db r.db --out files >out 2>err &
    run_pid=$!
    # shellcheck disable=SC2016 # for the inner shell
    eventually bash -c '"$0" watch --once --db r.db | grep -q "^rank 1 .* steps  *silent .* waited "' "$bench"
    "$bench" watch --once --db r.db --format json | grep -q '"ranks":\[{.*"rank":1'
    kill -TERM $run_pid
    fails wait $run_pid
}

@test "a rank on a GPU does not start while NVLink multicast is allowed" {
    task='{"protocol":1,"device":"cuda","case":{"name":"a","kind":"train","train":{}},"ranks":{"rank":0,"size":2}}'
    for value in "" 1; do
        run env ${value:+NCCL_NVLS_ENABLE=$value} "$bench" worker <<<"$task"
        [ "$status" = 2 ]
        [[ $output == *"NCCL_NVLS_ENABLE is ${value:-not set}; ranks on GPUs need 0"* ]]
    done
}

@test "ranks whose GPU cannot be opened are named, with host and key" {
    [ ! -e /dev/nvidia0 ] || skip "this machine has a GPU"
    port=$(free_port)
    for rank in 1 0; do
        task='{"protocol":1,"device":"cuda","case":{"name":"a","kind":"train","train":{}},"ranks":{"rank":'$rank',"size":2,"slot":'$rank',"host":"127.0.0.1","port":'$((port + 1))',"job":"1"}}'
        NCCL_NVLS_ENABLE=0 "$bench" worker <<<"$task" >"w$rank.txt" 2>&1 &
    done
    wait
    grep -q "rank 0: train.mesh.data: GPU 0 of host $(hostname): " w0.txt
    grep -q "rank 0: train.mesh.data: GPU 0 of host $(hostname): " w1.txt
}
