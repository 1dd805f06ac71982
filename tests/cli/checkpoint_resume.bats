#!/usr/bin/env bats
# Training that saves checkpoints, is broken off and goes on with the same bits, from a user's side
load ../support/cli

setup() {
    enter_scratch
    "$root/tests/support/small_shard.sh" t.bin
    cat >s.json <<'JSON'
{ "name": "tiny", "dataset": { "train": ["t.bin"], "val": ["t.bin"] },
  "profiles": { "cpu": { "device": "cpu",
    "train": { "model": { "layers": 1, "heads": 2, "width": 16, "vocab": 64, "context": 16 },
      "micro_batch": 2, "sequence": 16, "tokens_per_step": 64, "steps": 4000, "eval_every": 1000,
      "eval_batches": 2, "optimizer": { "lr": 0.01, "min_lr": 0.001 },
      "checkpoint": { "every_steps": 50, "max_to_keep": 2 } },
    "cases": [ { "name": "fp32", "kind": "train" } ] } } }
JSON
    export OMP_NUM_THREADS=1
}

teardown() {
    leave_scratch
}

value() { # key: of JSON on standard input
    sed -n "s/.*\"$1\": \"\{0,1\}\([^\",]*\).*/\1/p" | head -n 1
}

last() { # key: of the last round in it
    sed -n "s/.*\"$1\": \"\{0,1\}\([^\",]*\).*/\1/p" | tail -n 1
}

has_checkpoint() { # folder
    [ -n "$(ls -d "$1"/step-* 2>/dev/null)" ]
}

# For `eventually`: the worker of a killed run, which dies with it, writes nothing any more.
is_quiet() {
    local before
    before=$(ls kept/fp32-blutrain-0)
    sleep 0.5
    [ "$before" = "$(ls kept/fp32-blutrain-0)" ]
}

# Run 1 of s.json, broken off by a signal after its first checkpoint. Sets code.
break_off() { # signal option...
    local signal=$1 pid
    shift
    "$bench" run s.json "$@" >out 2>err 3>&- &
    pid=$!
    eventually has_checkpoint "${folder:-results/run-1/checkpoints}/fp32-blutrain-0"
    kill "-$signal" "$pid"
    code=0
    wait "$pid" || code=$?
}

# Run 1 goes on; what it says is in out2 and err2. Its bits are those of a run that went through.
expect_same_bits() {
    "$bench" run --resume 1 --format json >out2 2>err2
    "$bench" run s.json --set train.checkpoint.every_steps=0 --format json --quiet >whole
    [ "$(value status <out2)" = passed ]
    [[ $(last params_digest <whole) == state:* ]]
    [ "$(last params_digest <out2)" = "$(last params_digest <whole)" ]
    [ "$(last loss_last <out2)" = "$(last loss_last <whole)" ]
    [ "$(last loss_first <out2)" = "$(last loss_first <whole)" ]
    run "$bench" compare 1 2 --format json
    output=$(tr -d ' \n' <<<"$output")
    [[ $output == *'"shared_steps":4000,"bitwise_equal":true'* ]]
    [[ $output == *'"params_digest_equal":true'* ]]
}

@test "Ctrl-C saves a checkpoint, says how to go on, and the run goes on with the same bits" {
    break_off INT
    [ "$code" = 130 ]
    grep -q "stopping after this step and a checkpoint" err
    grep -q "resume it with 'bt-bench run --resume 1'" err
    stopped=$(ls -d results/run-1/checkpoints/fp32-blutrain-0/step-* | tail -n 1 | sed 's/.*step-0*//')
    [ "$(ls -d results/run-1/checkpoints/fp32-blutrain-0/step-* | wc -l)" -le 2 ]
    expect_same_bits
    grep -q "^resumed   from the checkpoint of step $stopped in results/run-1/checkpoints/fp32-blutrain-0" err2
}

@test "SIGTERM does the same" {
    break_off TERM
    [ "$code" = 130 ]
    expect_same_bits
    grep -q "^resumed   from the checkpoint of step" err2
}

@test "a killed run goes on from its newest checkpoint that is recorded" {
    folder=$dir/kept
    break_off KILL --set "train.checkpoint.folder=$folder" --set train.checkpoint.asynchronous=false
    eventually is_quiet
    expect_same_bits
    grep -q "^resumed   from " err2
}

@test "a run whose worker was killed goes on from its newest checkpoint, and passes" {
    "$bench" run s.json --quiet >out 2>err 3>&- &
    pid=$!
    eventually has_checkpoint results/run-1/checkpoints/fp32-blutrain-0
    pkill -KILL -P "$pid"
    code=0
    wait "$pid" || code=$?
    [ "$code" = 5 ]
    grep -q "the worker was killed by SIGKILL" out
    grep -q "^next  *bt-bench run --resume 1$" out
    run "$bench" watch 1
    [[ $output == *"next      bt-bench run --resume 1" ]]
    expect_same_bits
    grep -q "^resumed   from " err2
    run "$bench" run --resume 1
    [ "$status" = 2 ]
    [[ $output == *"run 1 has passed: it has no rounds left to run"* ]]
}

@test "damaged checkpoints are left out and named" {
    folder=$dir/kept
    break_off INT --set "train.checkpoint.folder=$folder"
    newest=$(ls -d kept/fp32-blutrain-0/step-* | tail -n 1)
    printf 'x' | dd of="$newest/state-00001.safetensors" bs=1 seek=5000 conv=notrunc 2>/dev/null
    expect_same_bits
    grep -q "^skipped   1 newer checkpoint that does not verify; the newest: .*${newest##*/}" err2
    grep -q "^resumed   from the checkpoint of step" err2
}

@test "another plan's checkpoints are refused, with the keys that differ" {
    folder=$dir/kept
    break_off INT --set "train.checkpoint.folder=$folder"
    run "$bench" run s.json --set "train.checkpoint.folder=$folder"
    [ "$status" = 2 ]
    [[ $output == *"already contains checkpoints, the newest of step "*"resume from them, or choose a folder without checkpoints"* ]]
    run "$bench" run s.json --set "train.checkpoint.folder=$folder" --set train.optimizer.lr=0.02 --set train.eval_every=0
    [ "$status" = 2 ]
    [[ $output == *"the checkpoints in $folder/fp32-blutrain-0 belong to another plan:"*"train.optimizer.lr: was 0.01, is 0.02"* ]]
    [[ $output != *eval_every* ]]
    sed -i 's/"lr":0.01/"lr":0.03/' "$folder/fp32-blutrain-0/plan.json"
    run "$bench" run --resume 1
    [ "$status" = 2 ]
    [[ $output == *"train.optimizer.lr: was 0.03, is 0.01"* ]]
}

@test "checkpoints that cannot be saved are said, and the run's message says so; the last must be saved" {
    sed -i 's/"steps": 4000/"steps": 200/' s.json
    touch taken
    run "$bench" run s.json --set train.checkpoint.folder=taken
    [ "$status" != 0 ]
    [[ $output == *taken* ]]
    run "$bench" run s.json --set train.checkpoint.every_steps=-1
    [ "$status" = 2 ]
    [[ $output == *'"every_steps" is -1; allowed: 0 to 1000000000'* ]]
}

@test "what checkpoints cost is measured; parameters alone are no state to go on from" {
    sed -i 's/"steps": 4000/"steps": 200/' s.json
    "$bench" run s.json --set train.checkpoint.at_end=true --set train.checkpoint.reload=true \
        --set train.checkpoint.asynchronous=false --format json --quiet >out
    for metric in checkpoint_stall_ns checkpoint_save_ns checkpoint_load_ns; do
        awk "BEGIN { exit !($(value "$metric" <out) > 0) }"
    done
    whole=$(stat -c %s results/run-1/checkpoints/fp32-blutrain-0/step-00000200/state-00001.safetensors)
    "$bench" run s.json --set train.checkpoint.at_end=true --set train.checkpoint.content=parameters \
        --format json --quiet >out2
    [ "$(value params_digest <out)" = "$(value params_digest <out2)" ] # of all state, in both
    part=$(stat -c %s results/run-2/checkpoints/fp32-blutrain-0/step-00000200/state-00001.safetensors)
    [ "$part" -lt $((whole / 2)) ]
    sed -i 's/"steps": 200/"steps": 4000/' s.json
    folder=$dir/kept
    break_off INT --set train.checkpoint.content=parameters --set "train.checkpoint.folder=$dir/kept"
    run "$bench" run --resume 3
    [ "$status" = 2 ]
    [[ $output == *"training cannot continue from checkpoints of only the parameters"* ]]
}

@test "a checkpoint's stall is the call, and what the steps while it is written take longer" {
    cat >w.sh <<'SH'
#!/usr/bin/env bash
read -r _
echo '{"event":"start","protocol":1,"system":"w","device":"d"}'
for step in 0 1 2 3 4 5 6 7 8 9; do
    time=1000
    [ "$step" != 4 ] || time=3000
    [ "$step" != 5 ] || time=1500
    echo '{"event":"step","step":'$step',"loss":1,"tokens":64,"host_ns":'$time'}'
    [ "$step" != 5 ] || echo '{"event":"save","kind":"saved","step":4,"seen_step":5,"blocked_ns":700,"host_ns":9000}'
done
echo '{"event":"save","kind":"loaded","step":4,"host_ns":5000}'
echo '{"event":"result","steps_done":10}'
SH
    chmod +x w.sh
    "$bench" run s.json --set train.steps=10 --set train.eval_every=0 --worker ./w.sh --format json --quiet >out
    [ "$(value checkpoint_stall_ns <out)" = 3200 ]
    [ "$(value checkpoint_save_ns <out)" = 9000 ]
    [ "$(value checkpoint_load_ns <out)" = 5000 ]
    run "$bench" show 1
    [[ $output == *"  checkpoint   training stalls for 3.20 us, durable after 9.00 us, loaded in 5.00 us; mean of 1 save"* ]]
}
