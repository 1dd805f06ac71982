#!/usr/bin/env bats
# Kernel cases from a user's side: the table, peers that take turns, peers that are missing

load ../support/cli

setup() {
    enter_scratch
    peer=$root/tests/support/kernel_peer.sh
    cat >s.json <<'JSON'
{ "name": "tiny", "profiles": { "cpu": { "device": "cpu", "cases": [
    { "name": "gelu", "kind": "kernel",
      "kernel": { "op": "gelu", "shape": ["64x16", "4x5"], "cache": "hot", "max_time_s": 0.01 } } ] } } }
JSON
}

teardown() {
    leave_scratch
}

@test "kernel cases are a table: time, bandwidth, fraction of a copy, the kernel that ran" {
    run --separate-stderr "$bench" run s.json
    [ "$status" = 0 ]
    [[ $output == *"gelu forward, f32, hot cache"* ]]
    # A hot case of a few KiB stays in a cache, which the copy of 256 MiB does not: no fraction.
    [[ $output =~ 64x16\ +[0-9.]+\ [nu]s\ +(\[.*\]\ +)?[0-9.]+\ [MG]B/s\ +unary_cpu_f32 ]]
    [[ $output == *"hot cases that move less than 256 MiB have no fraction"* ]]
    [[ $stderr == *"plan      tiny, profile cpu"*"gelu.forward.f32.64x16"*"case    1/3  ceiling.hot"* ]]
    run "$bench" show 1 --format json
    [[ $output == *'"name": "gelu.forward.f32.4x5"'*'"time_ns"'* ]]
    [[ $output != *'"copy_share"'* ]]
    sed 's/"hot"/"cold"/' s.json >cold.json
    run --separate-stderr "$bench" run cold.json --db cold.sqlite --out cold --rounds 2
    [[ $output =~ 64x16\ +[0-9.]+\ [nu]s\ +(\[.*\]\ +)?[0-9.]+\ [MG]B/s\ +[0-9.]+\ %\ +unary_cpu_f32 ]]
    [[ $output != *"have no fraction"* ]]
    [[ $output =~ \ 67108864\ +[0-9.]+\ ms\ +(\[.*\]\ +)?([0-9.]+\ [MG]B/s) ]]
    copy=${BASH_REMATCH[2]} # the page has the same number
    [[ $(sed 's/<[^>]*>//g' cold/report.html | tr -d '\n') == *"Copy on this machine$copy"* ]]
    run "$bench" report 1 -o r.md --db cold.sqlite
    grep -q "| time | bandwidth |.* of copy |" r.md
    grep -q "gelu.forward.f32.64x16" results/run-1/report.html
    "$bench" run s.json -q >/dev/null
    run "$bench" compare 1 2
    [ "$status" = 0 ]
    [[ $output == *"run 2/run 1"*"time_ns"* ]]
    [[ $output != *"loss curve"* ]]
}

@test "a product's rate is in FLOP/s, and a product of its type is measured as the machine's own" {
    cat >p.json <<'JSON'
{ "name": "products", "description": "One.", "profiles": { "cpu": { "device": "cpu", "cases": [
    { "name": "square", "kind": "kernel",
      "kernel": { "op": "gemm_nt", "shape": "64x64x64", "cache": "hot", "max_time_s": 0.01 } } ] } } }
JSON
    run --separate-stderr "$bench" run p.json
    [ "$status" = 0 ]
    [[ $output == *"gemm_nt forward, f32, hot cache"* ]]
    [[ $output =~ 1024x1024x1024\ .*FLOP/s ]]
    [[ $output =~ \ 64x64x64\ +[0-9.]+\ [num]s\ +(\[.*\]\ +)?[0-9.]+\ [MG]FLOP/s\ +gemm_cpu_f32 ]]
    [[ $stderr == *"ceiling.gemm.f32"* ]]
}

@test "a filter keeps the copy that shares are of" {
    run --separate-stderr "$bench" run s.json --filter 4x5 --dry-run --format json
    [ "$status" = 0 ]
    [[ $output == *'"name":"ceiling.hot"'* && $output == *'"name":"gelu.forward.f32.4x5"'* ]]
    [[ $output != *64x16* ]]
}

@test "systems take turns, round by round the other way round; ratios are shown" {
    export BT_KERNEL_PEER_TASKS=$dir/tasks
    ln -s "$peer" other-peer.sh
    run --separate-stderr "$bench" run s.json --filter 4x5 --rounds 2 --system "blutrain,$peer,./other-peer.sh"
    [ "$status" = 0 ]
    interval='(\[|wide open)' # of two pairs
    [[ $output =~ 4x5\ +blutrain\ .*kernel_peer.sh\ +1.67\ ms\ +[0-9.]+x\ +$interval.*other-peer.sh\ +1.67\ ms\ +[0-9.]+x\ +$interval ]]
    grep -o '"system":"[^"]*"' tasks | sed 's/.*:"\(.*\)"/\1/' >order
    diff order - <<<$'kernel_peer.sh\nother-peer.sh\nother-peer.sh\nkernel_peer.sh'
    grep -q '"op":"gelu"' tasks
    run "$bench" show 1 --format json
    [[ $output == *'"system": "kernel_peer.sh"'*'"time_median_ns": 1000000.5'* ]]
}

@test "a peer that is missing here says so, and the run passes" {
    BT_KERNEL_PEER=unavailable run --separate-stderr "$bench" run s.json --system "blutrain,$peer"
    [ "$status" = 0 ]
    [[ $output == *"run 1 passed"*"unavailable"*"no framework of that name here"* ]]
    [[ $output == *"unary_cpu_f32"* ]]
}

@test "a run in which no system could run a case is unavailable, exit 4" {
    BT_KERNEL_PEER=unavailable run --separate-stderr "$bench" run s.json --filter 4x5 --system "$peer"
    [ "$status" = 4 ]
    [[ $output == *"run 1 unavailable"*"nothing was measured: kernel_peer.sh could not run any case here"* ]]
    run "$bench" list runs
    [[ $output == *"unavailable"* ]]
}

@test "two systems of one name are refused before anything is recorded" {
    mkdir other
    ln -s "$peer" other/kernel_peer.sh
    for list in "$peer,other/kernel_peer.sh" "$peer,$peer" blutrain,blutrain; do
        run --separate-stderr "$bench" run s.json --filter 4x5 --system "$list"
        [ "$status" = 2 ]
        [[ $stderr == *"have the same name"*"nothing was started"*"bt-bench ab BASE CANDIDATE SUITE"* ]]
        run --separate-stderr "$bench" ab s.json --filter 4x5 --system "$list"
        [ "$status" = 2 ]
    done
    [ ! -e results ]
}

@test "a peer without a measurement, or with an impossible one, has failed" {
    BT_KERNEL_PEER=unmeasured run --separate-stderr "$bench" run s.json --filter 4x5 --system "$peer"
    [ "$status" = 5 ]
    [[ $output == *"without the events samples and measured"* ]]
    run "$bench" show 1 --format json
    [[ $output != *'"system": "kernel_peer.sh"'*'"time_median_ns": 1000000.5'* ]]
    BT_KERNEL_PEER=negative run --separate-stderr "$bench" run s.json --filter 4x5 --system "$peer"
    [ "$status" = 5 ]
    [[ $output == *"wrong type or range of times_ns"* ]]
}

@test "an unknown system is refused with what there is" {
    run --separate-stderr "$bench" run s.json --system blutrain,tinygrad
    [ "$status" = 2 ]
    [[ $stderr == *'no system "tinygrad"'*'allowed: blutrain; a peer of '*'harness/peers (cublaslt, hyperkernels, pytorch)'* ]]
    run --separate-stderr "$bench" run s.json --system blutrain,./absent.py
    [ "$status" = 4 ]
    [[ $stderr == "./absent.py: no such program"* ]]
}

@test "PyTorch's peer without PyTorch is unavailable, not failed" {
    command -v python3 >/dev/null || skip "no python3"
    mkdir shadow
    echo 'raise ImportError("hidden by the test")' >shadow/torch.py
    PYTHONPATH=$dir/shadow BT_ROOT=$root run --separate-stderr "$bench" run s.json --filter 4x5 --system blutrain,pytorch-eager
    [ "$status" = 0 ]
    [[ $output == *"pytorch-eager"*"PyTorch cannot be imported: hidden by the test"* ]]
}

@test "the twenty lines of the README are a peer" {
    command -v python3 >/dev/null || skip "no python3"
    sed -n '/^```python$/,/^```$/p' "$root/harness/peers/README.md" | sed '1d;$d' >mine.py
    [ "$(wc -l <mine.py)" -le 26 ]
    chmod +x mine.py
    sed -i 's/"gelu", "shape": \["64x16", "4x5"\]/"copy", "shape": "64x16"/' s.json
    run --separate-stderr "$bench" run s.json --system blutrain,./mine.py
    [ "$status" = 0 ]
    [[ $output == *"64x16"*"mine.py"* ]]
}

@test "every kernel suite expands on its profiles" {
    for suite in "$root"/suites/kernels/*.json; do
        profiles="cpu gpu"
        [[ $suite != */publish.json ]] || profiles=publish
        [[ $suite != */attention_peers.json ]] || profiles="gpu step"
        for profile in $profiles; do
            run --separate-stderr "$bench" run "$suite" --profile $profile --dry-run --format json
            [ "$status" = 0 ] || { echo "$suite $profile: $stderr"; false; }
            [ "$(grep -o '"name":"[^"]*"' <<<"$output" | sort | uniq -d | wc -l)" = 0 ]
        done
    done
    run "$bench" list suites
    [[ $output == *"suites/kernels/layernorm"* && $output == *"suites/distributed/training"* ]]
    [[ $output != *"suites/claims"* && $output != *"suites/policies"* ]]
}

@test "replicate gives a verdict per claim, and its exit code" {
    ln -s "$peer" pytorch-eager
    cat >claims.json <<'JSON'
{ "paper": "a paper", "stands_for": [ { "name": "pytorch", "system": "pytorch-eager" } ], "claims": [
  { "id": "mild", "metric": "time", "better": "lower", "case": { "suite": "kernels/tiny", "profile": "cpu", "name": "gelu.forward.f32.4x5" },
    "values": [ { "system": "blutrain", "value": 1, "printed": "1.00" }, { "system": "pytorch", "value": 2, "printed": "2.00" } ] },
  { "id": "wild", "metric": "time", "better": "lower", "case": { "suite": "kernels/tiny", "profile": "cpu", "name": "gelu.forward.f32.64x16" },
    "values": [ { "system": "blutrain", "value": 1, "printed": "1.00" }, { "system": "pytorch", "value": 1e12, "printed": "1000000000000.00" } ] },
  { "id": "other", "metric": "time", "better": "lower", "untested": "no such case",
    "values": [ { "system": "blutrain", "value": 1, "printed": "1.00" } ] } ] }
JSON
    "$bench" run s.json -q --rounds 3 --system blutrain,./pytorch-eager >/dev/null
    run --separate-stderr "$bench" replicate 1 --claims claims.json
    [ "$status" = 1 ]
    [[ $output == *"mild"*"2.00x"*"HIGHER"*"wild"*"LOWER"*"1 not testable here: no such case"* ]]
    run --separate-stderr "$bench" replicate 1 --format json
    [ "$status" = 4 ]
    [[ $output == *'"paper": "arXiv 2606.24780"'*'"verdict": "NOT TESTABLE HERE"'* ]]
    run --separate-stderr "$bench" replicate 1 --claims nothing.json
    [ "$status" = 4 ]
}

@test "replicate SUITE runs the cases that claims are about, beside the systems they name" {
    mkdir -p home/harness/peers/other home/suites/claims
    cp "$peer" home/harness/peers/other/peer.sh
    cat >home/suites/claims/blutrain-2606.24780.json <<'JSON'
{ "paper": "a paper", "stands_for": [ { "name": "torch", "system": "other-fast" } ], "claims": [
  { "id": "mild", "metric": "time", "better": "lower",
    "case": { "suite": "kernels/tiny", "profile": "cpu", "name": "gelu.forward.f32.4x5" },
    "values": [ { "system": "blutrain", "value": 1, "printed": "1.00" }, { "system": "torch", "value": 2, "printed": "2.00" } ] } ] }
JSON
    sed -i 's/"name": "tiny"/"name": "kernels_tiny"/' s.json
    BT_ROOT=$dir/home run --separate-stderr "$bench" replicate s.json
    echo "$output $stderr"
    [ "$status" = 0 ]
    [[ $stderr == *"systems blutrain, other-fast"*"4 rounds each"* && $stderr != *"64x16"* ]]
    [[ $output == *"mild"*"HIGHER"*"0 replicated"*"1 higher"* ]]
    [ "$(sqlite3 results/bt.sqlite "select kind || subject || verdict || rounds from verdict")" = replicatemildHIGHER4 ]
    grep -q HIGHER results/run-1/report.html || skip "the page does not show verdicts yet"
}

@test "replicate names the profiles that have cases of claims" {
    run --separate-stderr "$bench" replicate "$root/suites/distributed/context.json" --profile cpu \
        --claims "$root/suites/claims/blutrain-2606.24780.json"
    [ "$status" = 2 ]
    [[ $stderr == "profile cpu of suite distributed_context has no case that a claim refers to; "* ]]
    [[ $stderr == *"; expected --profile gpu or e5" ]]
    # A suite without claims: a suite that has some.
    sed 's/"name": "tiny"/"name": "other"/' s.json >other.json
    run --separate-stderr "$bench" replicate other.json --profile cpu
    [ "$status" = 2 ]
    [[ $stderr == *"; expected cases such as those of suites/kernels/all" ]]
}

@test "HyperKernels says what it needs where there is no checkout of it" {
    unset BT_HYPERKERNELS
    task='{"system":"hyperkernels","device":"cuda","case":{"kind":"kernel","kernel":{"op":"gelu","dtype":"f32"}}}'
    run python3 "$root/harness/peers/hyperkernels/peer.py" <<<"$task"
    [ "$status" = 4 ]
    [[ $output == *'"status": "unavailable", "message": "set BT_HYPERKERNELS to a checkout'* ]]
    BT_HYPERKERNELS=$dir run python3 "$root/harness/peers/hyperkernels/peer.py" <<<"$task"
    [ "$status" = 4 ]
    [[ $output == *"BT_HYPERKERNELS=$dir: no folder 'kernels' there"* ]]
}

@test "a peer is asked for its versions once, and the run keeps them" {
    cat >versioned.py <<'PY'
#!/usr/bin/env python3
import json, sys
task = json.loads(sys.stdin.readline())
print(json.dumps({"event": "start", "protocol": 1, "system": task["system"], "device": "CPU"}))
if task.get("versions"):
    print(json.dumps({"event": "versions", "packages": "python==3\ntorch==9"}))
print(json.dumps({"event": "samples", "times_ns": [1000.0] * 3}))
print(json.dumps({"event": "measured"}))
print(json.dumps({"event": "result", "steps_done": 0}))
with open("asked", "a") as log:
    print(task.get("versions", False), file=log)
PY
    chmod +x versioned.py
    run --separate-stderr "$bench" run s.json -q --rounds 2 --system blutrain,./versioned.py
    [ "$status" = 0 ]
    [ "$(sort asked | uniq -c | tr -s ' ' | tr '\n' ';')" = " 3 False; 1 True;" ]
    said=$(sqlite3 results/bt.sqlite \
        "select data from content join session_file on content.id = content_id where kind = 'versions'")
    [ "$said" = '{"versioned.py":"python==3\ntorch==9"}' ]
}

@test "a run's command can be pasted: what a shell would expand is quoted" {
    "$bench" run s.json -q --filter 'gelu.*4x5' >/dev/null
    [ "$(sqlite3 results/bt.sqlite "select command from session")" = "bt-bench run s.json -q --filter 'gelu.*4x5'" ]
}

@test "a peer is told the rules that our own measurements keep" {
    BT_KERNEL_PEER_TASKS=$dir/tasks "$bench" run s.json -q --system blutrain,"$peer" >/dev/null
    grep -q '"rules":{"cache":"hot","scrub_caches":2,.*"warmup_calls":3,.*"distribution":"normal",.*"seed":1337},"tolerance":{"epsilons":32' tasks
}
