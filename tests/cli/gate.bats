#!/usr/bin/env bats
# bt-bench gate and baseline from start to end: every exit code, every file, every bad input
load ../support/cli

# Measured once, for every test that starts from a baseline: a baseline of five sessions, recorded
# elsewhere, and run 1; told times. The machine of a test is seldom quiet.
setup_file() {
    setup
    for _ in 1 2 3 4 5; do measure "${sessions[@]}"; done
    "$bench" baseline set main 1 2 3 4 5 --reason "first measurement" --accept-noise "a test" \
        "${sessions[@]}" >/dev/null
    "$bench" baseline export main -o main-1.json "${sessions[@]}" >/dev/null
    measure
    "$bench" baseline import main-1.json >/dev/null
    cp -r . "$BATS_FILE_TMPDIR/main"
    teardown
}

setup() {
    enter_scratch
    worker=$root/tests/support/timed_worker.sh
    gelu_suite '["64x16", "4x5"]' >s.json
    export OMP_NUM_THREADS=1
}

teardown() {
    leave_scratch
}

sessions=(--db sessions.sqlite)

measure() { # option...
    "$bench" run s.json --filter 4x5 --rounds 8 -q --worker "$worker" "$@" >/dev/null
}

set_main() {
    cp -r "$BATS_FILE_TMPDIR/main/." .
}

gate() { # option...
    run --separate-stderr "$bench" gate s.json --filter 4x5 -q --worker "$worker" --baseline main "$@"
}

@test "exit 0: the same again, and the verdicts are on record" {
    set_main
    gate
    [ "$status" = 0 ]
    [[ $output == *"run 2 of tiny against baseline main"*"policy default"* ]]
    [[ $output == *"PASS  1 case: 2 same   report results/run-2/report.html   exit 0"* ]]
    run "$bench" gate 2 --baseline main --format json
    [ "$status" = 0 ]
    [[ $output == *'"exit_code": 0'*'"verdict": "SAME"'* ]]
    [ -e results/run-2/report.html ]
}

@test "exit 1: slower, and what changed is said, in every format" {
    set_main
    BT_TIMED_KERNEL=timed_v2 BT_TIMED_NS=1050000 gate --junit j.xml --markdown m.md --json g.json
    [ "$status" = 1 ]
    [[ $output == *"FAIL  gelu.forward.f32.4x5 timed_worker.sh   slower by 5.0 % ["*", tolerance 1 %, 8 rounds"* ]]
    [[ $output == *"the kernel that ran changed: timed_v1 -> timed_v2"* ]]
    [[ $output == *"FAIL  1 case: 1 slower, 1 same"*"exit 1"* ]]
    grep -q 'failures="1" errors="0" skipped="0"' j.xml
    grep -q '<failure message="SLOWER: slower by 5.0 %' j.xml
    head -n 1 m.md | grep -qx '### bt-bench gate: FAIL (exit 1)'
    grep -q '<details><summary>1 same</summary>' m.md
    grep -q '"verdict": "SLOWER"' g.json
    if command -v python3; then
        python3 -c 'import xml.dom.minidom as x, json; x.parse("j.xml"); json.load(open("g.json"))'
    fi
}

@test "exit 1: one byte more than the tolerance of memory" {
    set_main
    BT_TIMED_MEMORY=$((2000 + 1048576)) gate
    [ "$status" = 0 ]
    BT_TIMED_MEMORY=$((2000 + 1048577)) gate
    [ "$status" = 1 ]
    [[ $output == *"peak memory: more by 1.00 MiB"* ]]
}

@test "exit 2 or 4: no baseline, no policy, no run, no such option" {
    run --separate-stderr "$bench" gate s.json -q
    [ "$status" = 2 ]
    [[ $stderr == *"--baseline is missing"* ]]
    gate
    [ "$status" = 2 ]
    [[ $stderr == *'no baseline "main"'*"bt-bench baseline set main RUN"* ]]
    [ ! -e results/bt.sqlite ] # found out before anything ran
    set_main
    gate --baseline other
    [ "$status" = 2 ]
    [[ $stderr == *'no baseline "other" in the database (there: main)'* ]]
    gate --baseline no/such.json
    [ "$status" = 4 ]
    [[ $stderr == *"no/such.json: no such file"* ]]
    gate --policy strict
    [ "$status" = 2 ]
    [[ $stderr == *'no policy "strict"'*"available: default, self_check, "* ]]
    gate --policy defualt
    [[ $stderr == *'did you mean "default"?'* ]]
    run --separate-stderr "$bench" gate 9 --baseline main
    [ "$status" = 2 ]
    [[ $stderr == *"no run 9"* ]]
    run --separate-stderr "$bench" gate 1
    [ "$status" = 2 ]
    [[ $stderr == *"needs a baseline"* ]]
    run --separate-stderr "$bench" gate 1 --basline main
    [ "$status" = 2 ]
    [[ $stderr == *'unknown option --basline; did you mean "--baseline"?'* ]]
}

@test "exit 2: a policy with mistakes is refused with file, line and column" {
    set_main
    printf '{ "name": "x",\n  "tolerence": {} }\n' >p.json
    gate --policy p.json
    [ "$status" = 2 ]
    [[ $stderr == *'p.json:2:3: "tolerence" is not a key of a policy; did you mean "tolerance"?'* ]]
    head -c 20 p.json >cut.json
    gate --policy ./cut.json
    [ "$status" = 2 ]
    [[ $stderr == *"cut.json:2:"* ]]
    echo '{ "name": "x", "rounds": 100 }' >p.json
    gate --policy p.json
    [ "$status" = 2 ]
    [[ $stderr == *'"rounds" is 100; allowed: 2 to 24'* ]]
}

@test "a gate that was killed goes on with its looks, its policy and its baseline" {
    set_main
    echo '{ "name": "x", "memory_tolerance_bytes": 7 }' >p.json
    export BT_TIMED_SPREAD_PPM=30000
    BT_TIMED_SLEEP_S=0.1 "$bench" gate s.json --filter 4x5 -q --worker "$worker" --baseline main \
        --policy p.json >/dev/null 2>&1 3>&- &
    pid=$!
    eventually has_rounds 2 3
    kill -9 "$pid"
    wait "$pid" || true
    [ "$(rounds_done 2)" -lt 8 ]
    run "$bench" watch 2
    [[ ${lines[-1]} == "next      bt-bench gate --resume 2" ]]
    run "$bench" run --resume 2
    [ "$status" = 2 ]
    [[ $output == *"resume it with 'bt-bench gate --resume'"* ]]
    run "$bench" gate --resume 2 --baseline main
    [ "$status" = 2 ]
    [ "$output" = "--resume uses the recorded plan and cannot be combined with --baseline" ]
    run --separate-stderr "$bench" gate --resume 2 --worker "$worker" -q
    [ "$status" = 3 ]
    [[ $output == *"policy x"* ]]
    resumed=$(grep INCONCLUSIVE <<<"$output" | head -n 1)
    [[ $resumed == *"tolerance 1 %, 8 rounds"* ]]
    gate --policy p.json # the same, not broken off
    [ "$status" = 3 ]
    [ "$(grep INCONCLUSIVE <<<"$output" | head -n 1)" = "$resumed" ]
    # Of a number of rounds that was given there are no more after it goes on.
    BT_TIMED_SLEEP_S=0.1 "$bench" gate s.json --filter 4x5 -q --worker "$worker" --baseline main \
        --rounds 5 >/dev/null 2>&1 3>&- &
    pid=$!
    eventually has_rounds 4 1
    kill -9 "$pid"
    wait "$pid" || true
    run --separate-stderr "$bench" gate --resume 4 --worker "$worker" -q
    [ "$status" = 3 ]
    [[ $output == *"5 rounds"* ]]
}

@test "a gate does not go on against another baseline, nor with another kind of run" {
    set_main
    BT_TIMED_SLEEP_S=0.1 "$bench" gate s.json --filter 4x5 -q --worker "$worker" --baseline main \
        >/dev/null 2>&1 3>&- &
    pid=$!
    eventually has_rounds 2 2
    kill -9 "$pid"
    wait "$pid" || true
    "$bench" run s.json --filter 4x5 --rounds 3 -q --worker "$worker" >/dev/null
    "$bench" baseline set main 3 --reason "another" --accept-noise "a test"
    run "$bench" gate --resume 2 --worker "$worker" -q
    [ "$status" = 4 ]
    [[ $output == "run 2 cannot be resumed: baseline main was changed after the run started"*"bt-bench gate 2 --baseline main"* ]]
    run "$bench" gate --resume 1 --worker "$worker" -q
    [ "$status" = 2 ]
    [ "$output" = "run 1 was started by 'bt-bench run', not by gate" ]
    run "$bench" gate
    [ "$status" = 2 ]
    [[ $output == *"is missing"*"usage: bt-bench gate SUITE | RUN"* ]]
}

@test "exit 3: too noisy to tell" {
    set_main
    BT_TIMED_SPREAD_PPM=30000 gate
    [ "$status" = 3 ]
    [[ $output == *"INCONCLUSIVE  gelu.forward.f32.4x5"*"8 rounds; add sessions to the baseline, or compare pairs"*"next  bt-bench baseline add main RUN"* ]]
    echo '{ "name": "x", "allow": "inconclusive" }' >p.json
    BT_TIMED_SPREAD_PPM=30000 gate --policy p.json
    [ "$status" = 0 ]
    [[ $output == *"(allowed by policy)"*"1 allowed by the policy"* ]]
}

@test "exit 4: a baseline of another machine, other settings, a case too many or too few" {
    set_main
    "$bench" baseline export main -o main.json
    sed 's/"cpu.model": "[^"]*"/"cpu.model": "Zuse Z1"/' main.json >other.json
    gate --baseline ./other.json
    [ "$status" = 4 ]
    [[ $output == *"NOT-COMPARABLE  gelu.forward.f32.4x5"*"hard facts of the environments differ"*"cpu.model Zuse Z1 -> "* ]]
    [[ $output == *"NOT-COMPARABLE  1 case"*"exit 4"* ]]
    gate --set kernel.seed=7
    [ "$status" = 4 ]
    [[ $output == *"the settings of the case differ"*"kernel.seed 1337 -> 7"* ]]
    "$bench" run s.json --rounds 8 -q --worker "$worker" >/dev/null
    new=$("$bench" list runs --format json | sed 's/^\[{"run":\([0-9]*\).*/\1/')
    run "$bench" gate "$new" --baseline main
    [ "$status" = 4 ]
    [[ $output == *"gelu.forward.f32.64x16"*"new: the baseline has no such case"* ]]
    "$bench" baseline set both "$new" --reason "two cases" --accept-noise "a test" >/dev/null
    run "$bench" gate 1 --baseline both
    [ "$status" = 4 ]
    [[ $output == *"gelu.forward.f32.64x16"*"missing: the run has no such case"* ]]
    run "$bench" gate 1 --baseline both --filter 4x5
    [ "$status" = 0 ]
    [[ $output == *"ADVISORY"*"the baseline has 1 session of the 5 that a verdict needs"* ]]
}

@test "exit 4: a gate that must be calibrated and is not" {
    set_main
    echo '{ "name": "x", "calibration": { "required": true } }' >p.json
    gate --policy p.json
    [ "$status" = 4 ]
    [[ $output == *"the policy requires a calibration: a calibration of pairs does not apply to a gate against a baseline"*"bt-bench ab"* ]]
}

@test "exit 5: it crashes, it is wrong; exit 4: there is nothing to compare with" {
    set_main
    BT_TIMED_MODE=die gate
    [ "$status" = 5 ]
    [[ $output == *"FAIL  gelu.forward.f32.4x5"*"8 of 8 rounds failed"* ]]
    BT_TIMED_MODE=wrong gate
    [ "$status" = 5 ]
    [[ $output == *"element 3 is 7, not 8"* ]]
}

@test "an improvement proposes a baseline and sets none" {
    set_main
    BT_TIMED_NS=900000 gate
    [ "$status" = 0 ]
    [[ $output == *"FASTER  gelu.forward.f32.4x5"*"faster by 10.0 % ["* ]]
    [[ $output == *'next  1 faster: bt-bench baseline set main 2 --reason "..."'* ]]
    run "$bench" baseline history main
    [ "${#lines[@]}" = 2 ]
}

@test "what to do next names the database, and a damaged one is exit 4" {
    for _ in 1 2; do measure "${sessions[@]}"; done
    run "$bench" baseline set main 1 --reason "one day" --accept-noise "a test" "${sessions[@]}"
    [[ $output == *"--baseline main --db sessions.sqlite   bt-bench baseline add main RUN --db sessions.sqlite   bt-bench baseline export main --db sessions.sqlite"* ]]
    run --separate-stderr "$bench" gate 2 --baseline main "${sessions[@]}"
    [[ $output == *"bt-bench baseline add main RUN... --db sessions.sqlite"* ]]
    head -c 5000 /dev/zero >bad.sqlite
    run "$bench" show 1 --db bad.sqlite
    [ "$status" = 4 ]
    [[ $output == *"bad.sqlite: the file is damaged or not a database"* ]]
}

@test "sessions are added until speed is judged" {
    measure
    BT_TIMED_NS=1200000 measure
    "$bench" baseline set main 1 --reason "one day" --accept-noise "a test"
    run "$bench" gate 2 --baseline main
    [ "$status" = 0 ] # slower by 20 %, and not enough sessions to say so
    [[ $output == *"ADVISORY  gelu.forward.f32.4x5"*"+20.0 %"*"1 session of the 5"* ]]
    [[ $output == *"next  speed was not judged: bt-bench baseline add main RUN"* ]]
    for _ in 3 4 5 6; do measure; done
    run "$bench" baseline add main 3 4 5 6 --accept-noise "a test"
    [ "$status" = 0 ]
    [[ $output == *"has 5 sessions now: run 1, 3, 4, 5, 6"* ]]
    run "$bench" gate 2 --baseline main
    [ "$status" = 1 ]
    [[ $output == *"FAIL  gelu.forward.f32.4x5"*"slower by 20.0 %"* ]]
    run "$bench" baseline add main 4
    [ "$status" = 2 ]
    # The same session under another number, in another database.
    "$bench" baseline export main -o main.json
    "$bench" export 4 -o four.tar.zst
    measure --db elsewhere.sqlite
    "$bench" import four.tar.zst --db elsewhere.sqlite
    "$bench" baseline import main.json --db elsewhere.sqlite
    run "$bench" baseline add main 2 --db elsewhere.sqlite --accept-noise "a test"
    [ "$status" = 2 ]
    [[ $output == *"is a session of the baseline already"* ]]
    run "$bench" export 2 -o two.tar.zst
    run "$bench" verify two.tar.zst
    [ "$status" = 0 ] || { echo "$output"; false; }
    # The rules name the baseline; its document lies beside them once.
    [ "$(sqlite3 results/bt.sqlite "select max(length(rule_json)) < 2000 from verdict")" = 1 ]
    tar --zstd -xf two.tar.zst
    [ "$(jq '.cases[0].metrics.time_ns | length' from/baseline.json)" = 5 ]
    sed -i '0,/1000000/s//1400000/' from/baseline.json
    tar --zstd -cf forged.tar.zst --exclude '*.tar.zst' manifest.json from
    run "$bench" verify forged.tar.zst
    [ "$status" != 0 ]
}

@test "disturbed rounds make no baseline unless they are accepted, with a reason on record" {
    measure
    sqlite3 results/bt.sqlite "update round set label='', seal=''"
    sqlite3 results/bt.sqlite "update round set label='loaded machine' where ordinal=3"
    run --separate-stderr "$bench" baseline set main 1 --reason "a day"
    [ "$status" = 2 ]
    [[ $stderr == *"disturbed in 1 round, first in round 4 of gelu.forward.f32.4x5 (loaded machine)"*"--accept-noise REASON"* ]]
    run "$bench" baseline set main 1 --reason "a day" --accept-noise "all days are like that"
    [ "$status" = 0 ]
    [[ $output == *"disturbed rounds were accepted: all days are like that"* ]]
    run "$bench" baseline show main --format json
    [[ $output == *'"noise_accepted": "all days are like that"'*'"disturbed": 1'* ]]
}

@test "baselines are kept with reason and history, and leave and come back as files" {
    run --separate-stderr "$bench" baseline list
    [ "$status" = 4 ]
    [[ $stderr == *"no such database"* ]]
    set_main
    run --separate-stderr "$bench" baseline set main 1
    [ "$status" = 2 ]
    [[ $stderr == *"--reason TEXT is missing"* ]]
    run --separate-stderr "$bench" baseline set main 9 --reason x
    [ "$status" = 2 ]
    run --separate-stderr "$bench" baseline set ../x 1 --reason x
    [ "$status" = 2 ]
    [[ $stderr == *"is not a valid baseline name"* ]]
    "$bench" run s.json --filter 4x5 -q --worker "$worker" >/dev/null
    run --separate-stderr "$bench" baseline set main 2 --reason x --accept-noise "a test"
    [ "$status" = 2 ]
    [[ $stderr == *"no case with 2 rounds or more"* ]]
    "$bench" run s.json --filter 4x5 --rounds 3 -q --worker "$worker" >/dev/null
    "$bench" baseline set main 3 --reason "second measurement" --accept-noise "a test"
    run "$bench" baseline list
    [[ $output == *"second measurement"* && $output != *"first measurement"* ]]
    run "$bench" baseline history main
    [[ $output == *"second measurement"*"first measurement"* ]]
    run "$bench" baseline show main
    [[ $output == *"reason  second measurement"*"sessions  1: run 3"*"timed_worker.sh"*"1.00 ms"*"cpu.model"* ]]
    "$bench" baseline export main
    cp results/baselines/*/main.json one.json
    "$bench" baseline show main --format json | cmp - one.json
    "$bench" baseline export main -o two.json
    cmp one.json two.json
    "$bench" baseline import one.json --db other.sqlite
    "$bench" baseline export main -o three.json --db other.sqlite
    cmp one.json three.json
    run "$bench" baseline list --db other.sqlite --format json
    [[ $output == *'"name": "main"'*'"run": 0'*'"reason": "second measurement"'*'"current": true'* ]]
    rm results/bt.sqlite # the committed file serves a machine without a record
    gate
    [ "$status" = 0 ]
}

@test "a file that is no baseline is refused with its place" {
    set_main
    "$bench" baseline export main -o main.json
    head -c 700 main.json >cut.json
    echo '{"format":"bt-bench baseline 9"}' >later.json
    echo 'no JSON' >text.json
    for file in cut later text; do
        run --separate-stderr "$bench" baseline import $file.json
        [ "$status" = 2 ]
        [[ $stderr == "$file.json:"[0-9]*":"* ]]
        gate --baseline ./$file.json
        [ "$status" = 2 ]
    done
    # A document of an earlier version, whose build has no version.
    jq 'del(.build.version) | .cases[0].kind = 5' main.json >kind.json
    line=$(grep -n '"kind": 5' kind.json | cut -d : -f 1)
    run --separate-stderr "$bench" baseline import kind.json
    [[ $stderr == "kind.json:$line:"*'"kind" must be a text, not a number'* ]]
    run --separate-stderr "$bench" baseline import none.json
    [ "$status" = 4 ]
    run --separate-stderr "$bench" baseline frobnicate
    [ "$status" = 2 ]
    [[ $stderr == *'unknown command "frobnicate"; expected set, add, list, show'* ]]
    run --separate-stderr "$bench" baseline export main extra
    [ "$status" = 2 ]
    [[ $stderr == *"usage: bt-bench baseline export NAME"* ]]
}

# A training case and a kernel, real ones.
train_suite() {
    "$root/tests/support/small_shard.sh" t.bin
    cat >r.json <<'JSON'
{ "name": "real", "dataset": { "train": ["t.bin"] }, "profiles": { "cpu": { "device": "cpu",
    "train": { "model": { "layers": 1, "heads": 2, "width": 16, "vocab": 64, "context": 16 },
      "micro_batch": 2, "sequence": 16, "tokens_per_step": 64, "steps": 12 },
    "cases": [ { "name": "fp32", "kind": "train" },
      { "name": "gelu", "kind": "kernel", "kernel": { "op": "gelu", "shape": "64x16",
        "cache": "hot", "max_time_s": 0.01 } } ] } } }
JSON
}

@test "the real thing: kernels and a training case, gated with the policy for shared machines" {
    train_suite
    "$bench" run r.json --rounds 2 -q >/dev/null
    "$bench" baseline set main 1 --reason "real" --accept-noise "a test"
    jq -n '{ name: "x", rounds: 2, loss: "bitwise", overrides: [ "time_ns", "time_p95_ns",
      "step_time_ns", "step_time_p95_ns" | { case: "*", metric: ., gated: false,
      reason: "two rounds" } ] }' >p.json
    run --separate-stderr "$bench" gate r.json --baseline main --policy p.json -q --json g.json
    [ "$status" = 0 ]
    grep -q '"metric": "loss"' g.json
    grep -q '"metric": "step_time_ns"' g.json
    grep -q ' tok/s -> ' g.json # the rate is shown, and does not decide
    [ "$(grep -c '"metric": "tokens_per_s"' g.json)" = 0 ]
    grep -q '"metric": "peak_allocated_bytes"' g.json
    # Anyone can judge again, from the bundle alone.
    "$bench" export 2 -o run.tar.zst
    run --separate-stderr "$bench" verify run.tar.zst
    [ "$status" = 0 ]
    [[ $output == *"verdicts"* ]]
    # Another seed: other bits. The case's settings say so first.
    run --separate-stderr "$bench" gate r.json --baseline main --policy p.json -q --seed 7 --filter fp32
    [ "$status" = 4 ]
    [[ $output == *"train.seed 1337 -> 7"* ]]
}

# Changes the losses of run 5's first round by what python's EXPRESSION makes of the list x, and
# judges it against BASELINE.
judge_changed() { # baseline expression
    python3 - "$2" <<'PY'
import sqlite3, struct, sys
nan, inf = float("nan"), float("inf")
base = sqlite3.connect("results/bt.sqlite")
round, = base.execute("SELECT min(id) FROM round WHERE session_id=5").fetchone()
base.execute("CREATE TABLE IF NOT EXISTS kept AS SELECT loss FROM step WHERE round_id=? ORDER BY step", (round,))
x = [row[0] for row in base.execute("SELECT loss FROM kept")]
for step, loss in enumerate(eval(sys.argv[1])):
    bits, = struct.unpack("<I", struct.pack("<f", loss))
    real = None if loss != loss else struct.unpack("<f", struct.pack("<f", loss))[0]
    base.execute("UPDATE step SET loss=?, loss_bits=? WHERE round_id=? AND step=?", (real, bits, round, step))
base.execute("UPDATE round SET seal='' WHERE id=?", (round,))
base.commit()
PY
    run --separate-stderr "$bench" gate 5 --baseline "$1" --policy p.json
}

@test "several trainings make an envelope: rounding passes, every corrupted curve is found" {
    command -v python3 >/dev/null || skip "no python3"
    train_suite
    "$bench" run r.json --filter fp32 --rounds 2 -q >/dev/null                # 1
    for split in 1 4; do                                                        # 2, 3: other sums
        "$bench" run r.json --filter fp32 --set train.micro_batch=$split -q >/dev/null
    done
    "$bench" run r.json --filter fp32 --set train.optimizer.lr=0.002 -q >/dev/null # 4: a mistake
    run "$bench" baseline set main 1 2 3 --reason "permuted" --accept-noise "a test"
    [ "$status" = 0 ]
    [[ ${lines[0]} == *"has 1 session now: run 1, with the loss curves of 2, 3" ]]
    run "$bench" baseline show main
    [[ $output == *"1 + 2 permuted"* ]]
    run "$bench" baseline set main 1 4 --reason "wide" --accept-noise "a test"
    [ "$status" = 2 ]
    [[ $output == "run 4 cannot be combined with run 1, case fp32: its settings differ in more than"* ]]
    run "$bench" baseline set main 1 2 2 --reason "twice" --accept-noise "a test"
    [ "$status" = 2 ]
    [ "$output" = "run 2 is given twice" ]
    run "$bench" baseline set main 1 9 --reason "none"
    [ "$status" = 2 ]
    "$bench" baseline set single 1 --reason "one run" --accept-noise "a test"
    "$bench" run r.json --filter fp32 --rounds 2 -q >/dev/null # 5: what is judged
    echo '{ "name": "n", "rounds": 2, "loss": "numeric", "overrides": [
      { "case": "*", "metric": "step_time_ns", "gated": false, "reason": "only the loss" },
      { "case": "*", "metric": "step_time_p95_ns", "gated": false, "reason": "only the loss" } ] }' >p.json
    for same in "x" "[v + 4.8e-7 for v in x]"; do
        judge_changed main "$same"
        [ "$status" = 0 ]
    done
    for broken in "[v + (2e-5 if i == 11 else 0) for i, v in enumerate(x)]" \
        "[v + (nan if i == 3 else 0) for i, v in enumerate(x)]" \
        "x[:4] + [x[5], x[4]] + x[6:]" "x[1:] + x[:1]" "[v * 1.00001 for v in x]"; do
        judge_changed main "$broken"
        [ "$status" = 5 ]
        [[ $output == *"FAIL  fp32   loss: numeric: "* ]]
    done
    # One run alone would have let the first of these pass.
    judge_changed single "[v + (2e-5 if i == 11 else 0) for i, v in enumerate(x)]"
    [ "$status" = 0 ]
    # The envelope is in the verdict and in the committed file.
    "$bench" baseline export main -o main.json
    [ "$(grep -c '"of": "permuted"' main.json)" = 2 ]
    judge_changed ./main.json "[v + (2e-5 if i == 11 else 0) for i, v in enumerate(x)]"
    [ "$status" = 5 ]
}

@test "trainings of other seeds say how far training may differ" {
    train_suite
    "$bench" run r.json --filter fp32 --rounds 2 -q >/dev/null
    for seed in 7 8 8; do
        "$bench" run r.json --filter fp32 --seed $seed -q >/dev/null
    done
    "$bench" baseline set main 1 2 3 --reason "seeds" --accept-noise "a test"
    run "$bench" baseline show main
    [[ $output == *"1 + 2 seeds"* ]]
    run "$bench" baseline set main 1 2 3 4 --reason "one seed twice" --accept-noise "a test"
    [ "$status" = 2 ]
    [[ $output == "run 4 cannot be combined with run 1, case fp32: another run already has the same seed"* ]]
    echo '{ "name": "s", "rounds": 2, "loss": "statistical", "tolerance": { "train": 9 } }' >p.json
    run --separate-stderr "$bench" gate 1 --baseline main --policy p.json --json g.json
    [ "$status" = 0 ]
    grep -q 'statistical: ' g.json
}
