#!/usr/bin/env bats
# bt-bench run and its neighbours, from a user's side: words, exit codes, interruption, kills

load ../support/cli

setup() {
    enter_scratch
    worker=$root/tests/support/fake_worker.sh
    tiny_shard t.bin
    cat >s.json <<'JSON'
{ "name": "tiny", "dataset": { "train": ["t.bin"] },
  "profiles": {
    "cpu": { "device": "cpu", "train": { "micro_batch": 1, "sequence": 16, "steps": 6 },
      "cases": [ { "name": "a", "kind": "train" }, { "name": "b", "kind": "train" } ] },
    "gpu": { "device": "cuda", "automatic": false, "cases": [ { "name": "g", "kind": "train" } ] } } }
JSON
}

teardown() {
    leave_scratch
}

fake() { # arguments of run
    run --separate-stderr "$bench" run s.json --worker "$worker" "$@"
}

is_gone() { ! kill -0 "$1"; }

@test "a run passes: result on stdout, progress on stderr, exit 0" {
    fake
    [ "$status" = 0 ]
    [[ $output == *"run 1 passed"* ]]
    [[ $output == *"next"*"bt-bench show 1"* ]]
    [[ $output != *"step "*"/6"* ]]
    [[ $stderr == *"plan      tiny, profile cpu"* ]]
    [[ $stderr == *"a        starting"*"validation 11.500; first step"*"step    1/6  loss "*"step    6/6  loss 950"* ]]
    [ -f results/bt.sqlite ]
    grep -q "a line of log" results/run-1/a-0.log
}

@test "--format json is one object with what is promised" {
    fake --format json --quiet
    [ "$status" = 0 ]
    [ -z "$stderr" ]
    for key in '"run": 1' '"status": "passed"' '"suite": "tiny"' '"profile": "cpu"' '"report":' \
        '"name": "a"' '"name": "b"' '"system": "fake_worker.sh"' '"metrics":' '"tokens_per_s":' \
        '"params_digest": "00112233445566778899aabbccddeeff"'; do
        [[ $output == *"$key"* ]] || { echo "lacks $key"; false; }
    done
}

@test "the time left stands where a terminal of 80 columns shows it" {
    BT_FAKE_WORKER=slow fake --filter a --set train.steps=6
    line=$(grep -m 1 "step    1/6" <<<"$stderr")
    [[ ${line:0:79} == *" 0:00 left"* ]] || { echo "$line"; false; }
    # From the second round of a case on, also the time of all rounds.
    fake --filter a --rounds 3
    [[ $stderr == *"a 2/3    starting: "*"  round 2/3"*"a 2/3    step    1/6  "*" left  0:0"[0-9]" in all"* ]]
    ! grep -E 'a [13]/3 .* in all' <<<"$stderr"
}

@test "--db, --out, --filter, --rounds, --seed, --set are heeded" {
    BT_FAKE_TASK_FILE=task.json fake --db x/y.sqlite --out z --filter b --rounds 2 --seed 7 \
        --set train.steps=6 --quiet
    [ "$status" = 0 ]
    [ -f x/y.sqlite ]
    [ -f z/b-0.log ]
    [ -f z/b-1.log ]
    [ ! -e z/a-0.log ]
    [ ! -e results ]
    grep -q '"seed":7,' task.json
    grep -q '"round":1,' task.json
}

@test "two databases share no folder of results, and the next command names the database" {
    fake --filter a --quiet
    before=$(sha256sum results/run-1/report.html)
    fake --filter b --quiet --db results/other.sqlite
    [[ $output == *"bt-bench show 1 --db results/other.sqlite"* ]]
    [ "$(sha256sum results/run-1/report.html)" = "$before" ]
    [ -s results/other-run-1/report.html ]
    fake --filter b --quiet --db elsewhere/bt.sqlite
    [ -s elsewhere/run-1/report.html ]
}

@test "a folder for --out that cannot be made leaves no run" {
    run "$bench" run s.json --out s.json
    [ "$status" = 4 ]
    [[ $output == *"s.json exists but is not a directory"* ]]
    [ ! -e results/bt.sqlite ]
}

@test "a folder for --metrics that cannot be used leaves no run" {
    run "$bench" run s.json --metrics s.json
    [ "$status" = 4 ]
    [[ $output == *"s.json exists but is not a directory"* ]]
    run "$bench" run s.json --metrics s.json/metrics
    [ "$status" = 4 ]
    [ ! -e results/bt.sqlite ]
    fake --quiet --filter a --metrics metrics
    [ "$status" = 0 ]
    grep -q '"run":1,"case":"a"' metrics/metrics.jsonl
}

@test "--out with the files of another run is refused before anything is measured" {
    fake --quiet --filter a --out z
    before=$(sha256sum z/report.html)
    fake --filter b --out "$PWD/z"
    [ "$status" = 2 ]
    [ "$stderr" = "--out $PWD/z: this folder has the files of run 1; they are not overwritten"$'\n'"choose another folder, or delete that run: bt-bench rm 1 --files" ]
    fake --filter b --out z --db other.sqlite
    [ "$status" = 2 ]
    [[ $stderr == "--out z: this folder has the report of a run that is not in other.sqlite; it is not overwritten"* ]]
    [ ! -e other.sqlite ]
    [ "$("$bench" list runs --format json | grep -o '"run":' | wc -l)" = 1 ]
    [ ! -e z/b-0.log ]
    [ "$(sha256sum z/report.html)" = "$before" ]
    "$bench" report 1 -o z/report.html 2>/dev/null
    rm -r z
    mkdir z
    fake --quiet --filter b --out z
    [ "$status" = 0 ]
}

@test "of runs that begin at once with the same --out, one gets the folder" {
    mkdir z
    exec 5<z
    flock -n 5
    fake --quiet --filter a --out z
    [ "$status" = 2 ]
    [ "$stderr" = "--out z: a run that has not ended writes to this folder; choose another folder" ]
    [ ! -e results/bt.sqlite ]
    exec 5<&-
    for i in 1 2 3 4 5 6; do
        { "$bench" run s.json --worker "$worker" -q --filter a --out z --db "$i.sqlite" >/dev/null 2>&1 &&
            echo "$i" >>passed; } 5<&- &
    done
    wait
    [ "$(wc -l <passed)" = 1 ]
    [ "$(find . -name '*.sqlite' | wc -l)" = 1 ]
}

@test "a new database does not write into the folders of a deleted one" {
    fake --quiet --filter a
    before=$(sha256sum results/run-1/*)
    rm results/bt.sqlite*
    fake --quiet --filter b
    [ "$status" = 0 ]
    [[ $output == *"report         results/run-1-2/report.html"* ]]
    [ "$(sha256sum results/run-1/*)" = "$before" ]
    rm results/bt.sqlite*
    fake --quiet --filter b
    [ "$("$bench" show 1 --format json | grep -o 'results/[^"]*report.html')" = results/run-1-3/report.html ]
    fake --quiet --filter b
    [ -e results/run-2/report.html ]
}

@test "the next comparison is with a run that passed, of the same case" {
    fake --quiet --filter a
    fake --quiet --filter b
    [[ ${lines[-1]} == "next           bt-bench show 2" ]]
    BT_FAKE_WORKER=error fake --quiet --filter a
    [ "$status" = 5 ]
    [[ ${lines[-1]} == "next           bt-bench show 3" ]]
    fake --quiet --filter a
    [[ ${lines[-1]} == "next           bt-bench show 4 · bt-bench compare 1 4" ]]
    cp "$worker" other.sh
    run --separate-stderr "$bench" run s.json --worker ./other.sh --quiet --filter a
    [[ ${lines[-1]} == "next           bt-bench show 5" ]] # of another system
}

@test "a suite is found by its name below suites/, and its last part is a hint" {
    run --separate-stderr "$bench" run kernels/softmax --profile cpu --dry-run
    [ "$status" = 0 ]
    [[ $output == *"plan      kernels_softmax, profile cpu"* ]]
    run --separate-stderr "$bench" run softmax --profile cpu --dry-run
    [ "$status" = 2 ]
    [[ $stderr == *'did you mean "suites/kernels/softmax"?'* ]]
    run --separate-stderr "$bench" run softmx
    [ "$status" = 2 ]
    [ "$stderr" = 'softmx: no such suite file or folder; did you mean "suites/kernels/softmax"?'$'\n'"'bt-bench list suites' lists the suites" ]
    mkdir empty
    run --separate-stderr "$bench" run ./empty
    [ "$status" = 2 ]
    [ "$stderr" = "./empty: this folder has no suite.json"$'\n'"'bt-bench list suites' lists the suites" ]
    BT_ROOT=$PWD/empty run --separate-stderr "$bench" list
    [ "$status" = 4 ]
    [ "$stderr" = "no suites in suites/ or $PWD/empty/suites/" ]
    run --separate-stderr "$bench" run recovery --dry-run
    [ "$status" = 2 ]
    [[ $stderr == *'did you mean "suites/distributed/recovery"?'* ]]
    for folder in suites/distributed distributed/; do
        run --separate-stderr "$bench" run $folder
        [ "$status" = 2 ]
        [[ $stderr == "$folder: this is a folder of suites; name one of them"$'\n'"allowed: "*"suites/distributed/recovery, "* ]]
    done
}

@test "the cases of a suite are a table, or JSON" {
    run --separate-stderr "$bench" list cases
    [ "$status" = 2 ]
    [[ $stderr == "bt-bench list cases: SUITE is missing"$'\n'"usage: bt-bench list "* ]]
    run --separate-stderr "$bench" list cases s.json
    [ "$status" = 0 ]
    [ "$output" = $'profile  device  case  kind\ncpu      cpu     a     train\ncpu      cpu     b     train\ngpu      cuda    g     train' ]
    run --separate-stderr "$bench" list cases s.json --format json
    [ "$(python3 -c 'import json, sys; print(json.load(sys.stdin)[2])' <<<"$output")" = \
        "{'profile': 'gpu', 'device': 'cuda', 'case': 'g', 'kind': 'train', 'mesh': ''}" ]
}

@test "a case of several ranks is listed and planned with its mesh" {
    run --separate-stderr "$bench" list cases distributed/mesh
    [ "$status" = 0 ]
    grep -Eq '^profile +device +case +kind +mesh$' <<<"$output"
    grep -Eq ' data2_tensor2_context2 +train +data 2 x tensor 2 x context 2$' <<<"$output"
    run --separate-stderr "$bench" run distributed/mesh --profile cpu --dry-run
    [ "$status" = 0 ]
    grep -Eq '^ +one .*, seed [0-9]+$' <<<"$output"
    grep -Eq '^ +tensor2_context2 .*, mesh tensor 2 x context 2, zero1, buckets of 25 MiB$' <<<"$output"
}

@test "every suite is listed, and nothing else" {
    run --separate-stderr "$bench" list
    [ "$status" = 0 ]
    [ "$(awk '{ print $1 }' <<<"$output")" = "$(cd "$root" && grep -lE '^  "(profiles|include)":' suites/*/*.json |
        sed 's/\.json$//; s:/suite$::' | sort)" ]
    mkdir -p suites/mine suites/more # a user's own, without "$schema"
    cp s.json suites/mine/suite.json
    cp s.json suites/more/small.json
    echo '{ "claims": [] }' >suites/more/claims.json
    run --separate-stderr "$bench" list
    [ "$(awk '{ print $1 }' <<<"$output")" = $'suites/mine\nsuites/more/small' ]
}

@test "files, folders and databases that are missing or cannot be used: exit 4" {
    run "$bench" show 1 --db none.sqlite
    [ "$status" = 4 ]
    fake --quiet --filter a --out /proc/none
    [ "$status" = 4 ]
    fake --quiet --filter a
    run "$bench" report 1 -o /proc/none/r.html
    [ "$status" = 4 ]
}

@test "--dry-run prints the plan, makes nothing" {
    run --separate-stderr "$bench" run s.json --dry-run --format json
    [ "$status" = 0 ]
    [[ $output == '{"cases":[{"dataset":{"train":["t.bin"],"val":[]},'* ]]
    [ ! -e results ]
}

@test "a suite with a wrong key: file, line, column, the nearest key, exit 2" {
    sed 's/"steps"/"stepps"/' s.json >wrong.json
    run "$bench" run wrong.json
    [ "$status" = 2 ]
    [[ ${lines[0]} == 'wrong.json:3:76: "stepps" is not a key of train; did you mean "steps"?' ]]
    [[ ${lines[1]} == 'allowed: precision, model,'* ]]
}

@test "mistakes of usage end with exit 2 and say what is allowed" {
    run "$bench" run nothing.json
    [ "$status" = 2 ]
    [[ $output == *"nothing.json: no such suite file or folder"* ]]
    run "$bench" run s.json --profile cpo
    [ "$status" = 2 ]
    [[ $output == *'no profile "cpo"; did you mean "cpu"?'*"profiles: cpu, gpu"* ]]
    run "$bench" run s.json --filter zz
    [ "$status" = 2 ]
    [[ $output == *"cases: a, b"* ]]
    run "$bench" run s.json --set train.steps=many
    [ "$status" = 2 ]
    [[ $output == *'--set train.steps=many: "steps" must be a whole number'* ]]
    run "$bench" run s.json --rounds 0
    [ "$status" = 2 ]
    [[ $output == *"--rounds 0: expected a whole number from 1 to 1000"* ]]
    run "$bench" run s.json --format xml
    [ "$status" = 2 ]
    run "$bench" run s.json --profil cpu --nothing
    [ "$status" = 2 ]
    [[ $output == *"unknown option --nothing"* ]]
    run "$bench" run s.json --set
    [ "$status" = 2 ]
    [[ $output == *"--set needs a value"* ]]
    run "$bench" run
    [ "$status" = 2 ]
    run "$bench" run s.json more
    [ "$status" = 2 ]
    [[ $output == *"unexpected argument: more"* ]]
    run "$bench" rum
    [ "$status" = 2 ]
    [[ $output == *'unknown verb "rum"; did you mean "run"?'* ]]
    run "$bench"
    [ "$status" = 2 ]
}

@test "every verb has help; --version names revision and compiler" {
    run "$bench" --help
    [ "$status" = 0 ]
    for verb in run watch list show compare history report data doctor; do
        [[ $output == *"  $verb "* ]]
        "$bench" $verb --help | grep -q "usage: bt-bench $verb"
    done
    run "$bench" --version
    [ "$status" = 0 ]
    [[ $output == "bt-bench "*compiler* ]]
}

@test "a GPU profile without a GPU: exit 4, and what to do" {
    "$bench" doctor --format json | grep -q '"check":"gpu","state":"ok"' && skip "there is a GPU"
    run "$bench" run s.json --profile gpu
    [ "$status" = 4 ]
    [[ $output == *"profile gpu needs a CUDA GPU"*"doctor"* ]]
    run "$bench" run s.json --profile gpu --dry-run
    [ "$status" = 0 ]
}

@test "missing, truncated and foreign shards are named before anything runs" {
    run "$bench" run s.json --set dataset.train=none.bin
    [ "$status" = 4 ]
    [[ $output == *"none.bin"* ]]
    head -c 1100 t.bin >short.bin
    run "$bench" run s.json --set dataset.train=short.bin
    [ "$status" = 5 ]
    [[ $output == *"short.bin"* ]]
    run "$bench" run s.json --set dataset.train=s.json
    [ "$status" = 5 ]
    [[ $output == *"s.json"* ]]
    run "$bench" run s.json --set dataset=unheard
    [ "$status" = 4 ]
    [[ $output == *'dataset "unheard" is missing'* ]]
    run --separate-stderr "$bench" list runs --format json
    [ "$output" = "[]" ]
}

@test "a dying worker costs its round; the others run, what was recorded stays" {
    BT_FAKE_WORKER=die fake
    [ "$status" = 5 ]
    [[ $stderr == *"a failed: the worker was killed by SIGKILL after 3 steps"* ]]
    [[ $stderr == *"b failed: "* ]]
    run "$bench" show 1
    [ "$status" = 0 ]
    [[ $output == *"run 1 failed"* ]]
    [[ $("$bench" list runs --format json) == *'"steps":6}'* ]]
}

@test "Ctrl-C stops after the step, exit 130, says what is kept" {
    BT_FAKE_WORKER=slow BT_FAKE_STEPS=10000 "$bench" run s.json --set train.steps=10000 \
        --worker "$worker" >out 2>err &
    pid=$!
    eventually has_steps
    kill -INT $pid
    code=0
    wait $pid || code=$?
    [ "$code" = 130 ]
    grep -q "stopping after this step" err
    grep -q "run 1 interrupted" out
    [[ $("$bench" list runs --format json) == *'"status":"interrupted"'* ]]
    # The second case was not begun.
    [ ! -e results/run-1/b-0.log ]
}

# One signal must end the run within the grace period, although nobody else heeds it: exit 130, the
# steps kept, no process left.
ends_at_one_signal() { # signal process
    started=$SECONDS
    kill "-$1" "$2"
    eventually is_gone_or_zombie "$2" || { kill -9 "$2" && false; }
    code=0
    wait "$2" || code=$?
    [ "$code" = 130 ]
    [ $((SECONDS - started)) -lt 30 ]
}

is_gone_or_zombie() { ! grep -qE '^State:\s+[^Z]' "/proc/$1/status" 2>/dev/null; }

@test "one SIGTERM or SIGINT ends a run whose worker hangs or ignores signals; its steps are kept" {
    for signal in TERM INT; do
        rm -rf results pid
        BT_FAKE_WORKER=deaf BT_FAKE_PID_FILE=$dir/pid setsid "$bench" run s.json \
            --set train.steps=100000 --worker "$worker" >out 2>err &
        pid=$!
        eventually has_steps
        ends_at_one_signal "$signal" "$pid"
        eventually is_gone "$(cat pid)"
        run "$bench" show 1
        [[ $output == *"run 1 interrupted"* ]]
        [ "$(sqlite3 results/bt.sqlite 'select count(*) > 0 from step')" = 1 ]
        [ "$(sqlite3 results/bt.sqlite 'select status from session')" = 3 ]
    done
}

@test "one SIGTERM ends a run whose peer ignores SIGTERM and leaves a child" {
    export BT_HOSTILE=hang BT_HOSTILE_PID=$dir/pids
    "$bench" run s.json --filter a --system "$root/tests/support/hostile_peer.sh" >out 2>err &
    pid=$!
    eventually test -s pids
    ends_at_one_signal TERM "$pid"
    for process in $(cat pids); do
        eventually is_gone_or_zombie "$process"
    done
    run "$bench" show 1
    [[ $output == *"run 1 interrupted"* ]]
}

@test "kill -9 of the recorder: the worker dies with it, show says interrupted" {
    BT_FAKE_WORKER=deaf BT_FAKE_PID_FILE=$dir/pid "$bench" run s.json --set train.steps=100000 --worker "$worker" >out 2>err &
    pid=$!
    eventually has_steps
    kill -9 $pid
    wait $pid || true
    eventually is_gone "$(cat pid)"
    run "$bench" show 1
    [ "$status" = 0 ]
    [[ $output == *"run 1 interrupted"* ]]
    # And the database serves the next run.
    fake --quiet
    [ "$status" = 0 ]
    [[ $output == *"run 2 passed"* ]]
}

@test "kill -9 of the worker is a failure that names the signal" {
    BT_FAKE_WORKER=deaf BT_FAKE_PID_FILE=$dir/pid "$bench" run s.json --filter a \
        --set train.steps=100000 --worker "$worker" >out 2>err &
    pid=$!
    eventually has_steps
    kill -9 "$(cat pid)"
    code=0
    wait $pid || code=$?
    [ "$code" = 5 ]
    grep -q "killed by SIGKILL" err
}

@test "a corrupt and a newer database are refused and left alone" {
    fake --quiet
    head -c 8192 /dev/urandom >corrupt.sqlite
    before=$(cksum <corrupt.sqlite)
    fake --quiet --db corrupt.sqlite
    [ "$status" = 4 ]
    [[ $stderr == *"corrupt.sqlite"* ]]
    [ "$before" = "$(cksum <corrupt.sqlite)" ]
    cp results/bt.sqlite newer.sqlite # the schema's version lies at byte 60
    printf '\0\0\3\347' | dd of=newer.sqlite bs=1 seek=60 conv=notrunc 2>/dev/null
    fake --quiet --db newer.sqlite
    [ "$status" = 2 ]
    [[ $stderr == *"newer.sqlite"*"version 999"* ]]
    fake --quiet --db /proc/no/such.sqlite
    [ "$status" = 4 ]
    run "$bench" show 1 --db none.sqlite
    [ "$status" != 0 ]
    [[ $output == *"none.sqlite"* ]]
}

@test "a full disk stops the run, says so, keeps the record" {
    [ "$(id -u)" = 0 ] || skip "needs to mount a small file system"
    mkdir small
    mount -t tmpfs -o size=400k none small 2>/dev/null || skip "no mount here"
    BT_FAKE_STEPS=20000 fake --quiet --db small/runs.sqlite --out out --set train.steps=20000
    code=$status
    said=$stderr
    "$bench" list runs --db small/runs.sqlite >listed 2>&1 || true
    umount small
    [ "$code" = 4 ]
    [[ $said == *"small/runs.sqlite: the disk is full, so the latest changes could not be written; free space, then 'bt-bench run --resume NAME' "* ]]
    [[ $said != *COMMIT* && $said != *INSERT* ]]
    [[ $(cat listed) == *"tiny"* ]]
}

@test "a disk that is full for the report only: the result first, then how to write it elsewhere" {
    [ "$(id -u)" = 0 ] || skip "needs to mount a small file system"
    mkdir small
    mount -t tmpfs -o size=32k none small 2>/dev/null || skip "no mount here"
    fake --quiet --db x.sqlite --out small/out
    umount small
    [ "$status" = 4 ]
    [[ $output == *"run 1 passed"*"next "* ]]
    [[ $stderr == *"report.html: No space left on device"*"run 1 is recorded; "*"bt-bench report 1 -o ELSEWHERE.html --db x.sqlite"* ]]
}

@test "a folder that takes no database is named with the reason" {
    as=()
    [ "$(id -u)" != 0 ] || as=(setpriv --reuid 65534 --clear-groups)
    chmod 755 .
    mkdir -m 555 ro
    "${as[@]}" "$bench" --version >/dev/null 2>&1 || skip "another user cannot run this build"
    run "${as[@]}" "$bench" run s.json --quiet --db ro/a.sqlite
    [ "$status" = 4 ]
    [[ $output == *"ro/a.sqlite: unable to open database file (Permission denied) while opening it"* ]]
}

@test "a database that only others may write is named, without a statement of SQL" {
    as=()
    [ "$(id -u)" != 0 ] || as=(setpriv --reuid 65534 --clear-groups)
    fake --quiet --db ro/a.sqlite
    "$bench" list runs --db ro/a.sqlite >/dev/null # the log is in the file
    chmod 444 ro/a.sqlite
    chmod 555 ro
    chmod 755 .
    "${as[@]}" "$bench" --version >/dev/null 2>&1 || skip "another user cannot run this build"
    run "${as[@]}" "$bench" label 1 --name x --db ro/a.sqlite
    chmod 755 ro
    [ "$status" = 4 ]
    [[ $output == *"ro/a.sqlite: the database cannot be written: it or its folder is read-only; make both writable, or choose another file with --db" ]]
    [[ $output != *PRAGMA* ]]
}

@test "a damaged database is named, without a statement of SQL" {
    fake --quiet --db d.sqlite
    "$bench" list runs --db d.sqlite >/dev/null # the log is in the file
    size=$(stat -c %s d.sqlite)
    head -c $((size - 8192)) /dev/zero | tr '\0' '\377' | dd of=d.sqlite bs=8192 seek=1 conv=notrunc status=none
    run --separate-stderr "$bench" show 1 --db d.sqlite
    [ "$status" != 0 ]
    [[ $stderr == *"d.sqlite: the file is damaged or not a database ("*"); move it away, or name another file"* ]]
    [[ $stderr != *SELECT* ]]
}

# Starts a run that takes seconds, and removes the database when it has made steps. Sets pid.
start_and_remove_database() {
    BT_FAKE_WORKER=slow BT_FAKE_STEPS=40 "$bench" run s.json --set train.steps=40 --worker "$worker" >out 2>err &
    pid=$!
    eventually has_steps
    rm -r results
}

@test "a run whose database was removed stops, and says that the data is lost" {
    start_and_remove_database
    code=0
    wait $pid || code=$?
    [ "$code" = 4 ]
    grep -q "run 1 stopped; the recorded data is lost, because the database was removed during the run: results/bt.sqlite" err
    run ! grep "kept in" err
    [ ! -e results/bt.sqlite ]
}

@test "a run whose database was removed and made again by another run does not pass for that one" {
    gelu_suite '"4x5"' >k.json
    cat >remover.sh <<SH
#!/bin/bash
rm -f results/bt.sqlite*
"$bench" run k.json --quiet --name other --worker "$root/tests/support/timed_worker.sh" </dev/null >/dev/null
exec "$root/tests/support/timed_worker.sh"
SH
    chmod +x remover.sh
    run --separate-stderr "$bench" run k.json --quiet --name first --worker ./remover.sh
    [ "$status" = 4 ]
    [ -z "$output" ]
    [[ $stderr == *"the recorded data is lost, because the database was removed during the run: results/bt.sqlite"* ]]
    [ "$("$bench" list runs | grep -c other)" = 1 ]
}

@test "an interrupted run whose database was removed is not offered for resumption" {
    start_and_remove_database
    kill -INT $pid
    code=0
    wait $pid || code=$?
    [ "$code" != 0 ]
    grep -q "the recorded data is lost, because the database was removed during the run: results/bt.sqlite" err
    run ! grep -E "kept in|--resume" err
}

@test "show and compare refuse runs that do not exist" {
    fake --quiet
    run "$bench" show 9
    [ "$status" = 2 ]
    run "$bench" show one
    [ "$status" = 2 ]
    [[ $output == *'no run "one"'* ]]
    run "$bench" compare 1 9
    [ "$status" = 2 ]
    fake --quiet
    run "$bench" compare 1 2
    [ "$status" = 0 ]
}

@test "compare of runs without a common case: the cases of each, exit 4" {
    fake --quiet
    sed 's/"name": "a"/"name": "c"/; s/"name": "b"/"name": "d"/' s.json >other.json
    "$bench" run other.json --worker "$worker" --quiet
    run --separate-stderr "$bench" compare 1 2
    [ "$status" = 4 ]
    [[ $output == *$'\n\n'"the runs have no case in common, so nothing is compared"$'\n'"run 1 has: a on fake_worker.sh, b on fake_worker.sh"$'\n'"run 2 has: c on fake_worker.sh, d on fake_worker.sh" ]]
    run --separate-stderr "$bench" compare 1 2 --format json
    [ "$status" = 4 ]
    [ "$(jq -c '[.cases, .left_only, .right_only]' <<<"$output")" = '[[],["a","b"],["c","d"]]' ]
}

@test "output that cannot be written is an error" {
    [ -e /dev/full ] || skip "no /dev/full"
    run bash -c "'$bench' list schema >/dev/full"
    [ "$status" = 4 ]
    [[ $output == *"cannot write to standard output"* ]]
}
