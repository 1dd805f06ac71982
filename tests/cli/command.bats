#!/usr/bin/env bats
# Command cases: any program, warmed up, timed, checked, recorded, compared

load ../support/cli

setup() {
    enter_scratch
    cat >s.json <<'JSON'
{ "name": "programs", "command": { "warmup": 2, "calls": 5, "max_time_s": 0.05 },
  "profiles": { "cpu": { "device": "cpu", "cases": [
    { "name": "line", "kind": "command", "command": { "run": "echo call >>calls; echo hello" } },
    { "name": "list", "kind": "command", "command": { "run": ["sleep", "0.02"] } } ] } } }
JSON
}

teardown() {
    leave_scratch
}

query() { # sql
    sqlite3 results/bt.sqlite "$1"
}

@test "a command is warmed up, called and measured: wall and processor time, memory" {
    run --separate-stderr "$bench" run s.json --trust
    [ "$status" = 0 ]
    [[ $output =~ line,\ blutrain\ +passed ]]
    [[ $output == *"  sampling     ended by time limit"* && $output != *"  message "* ]]
    [[ $output =~ time\ +[0-9.]+\ [mu]s.*mean\ of\ [0-9]+\ calls ]]
    [[ $output =~ processor\ +[0-9.]+\ [mu]s\ a\ call && $output =~ memory\ +peak\ [0-9.]+\ MiB\ resident ]]
    [[ $stderr == *'line  "echo call >>calls; echo hello"'*'list  ["sleep","0.02"]'* ]]
    timed=$(query "select count from samples natural join (select id as measurement_id, round_id from measurement where metric='time_ns') join round on round.id=round_id join bench_case c on c.id=case_id where c.name='line'")
    [ "$timed" -ge 5 ]
    [ "$(wc -l <calls)" = $((timed + 2)) ]
    # sleep takes its time without a processor
    [ "$(query "select min(value) > 2e7 from measurement join round on round.id=round_id join bench_case c on c.id=case_id where metric='time_ns' and c.name='list'")" = 1 ]
    [ "$(query "select max(value) < 2e7 from measurement join round on round.id=round_id join bench_case c on c.id=case_id where metric='cpu_time_ns' and c.name='list'")" = 1 ]
    run "$bench" report 1 -o r.md
    grep -q '| case | status | time | processor time | peak memory |' r.md
    grep -q '<h2>Commands</h2>' results/run-1/report.html
    "$bench" export 1 -o r.tar.zst >/dev/null
    run "$bench" verify r.tar.zst
    [ "$status" = 0 ]
}

@test "processor time and memory are those of the command and its children" {
    run "$bench" run s.json --trust -q --filter line --set command.warmup=0 --set command.calls=1 \
        --set 'command.run=python3 -c "
b = bytearray(100 << 20)
import time
while time.process_time() < 0.2: pass"'
    [ "$status" = 0 ]
    [ "$(query "select value between 1.9e8 and 4e9 from measurement where metric='cpu_time_ns'")" = 1 ]
    [ "$(query "select value between 104857600 and 200e6 from measurement where metric='peak_resident_bytes'")" = 1 ]
}

@test "the commands of a suite do not run unless they are allowed" {
    run --separate-stderr "$bench" run s.json
    [ "$status" = 2 ]
    [[ $stderr == *'case line runs the command "echo call >>calls; echo hello", which needs permission; nothing was started'*"add --trust"* ]]
    run --separate-stderr "$bench" run s.json --system blutrain
    [ "$status" = 2 ]
    [ ! -e calls ]
    [ ! -e results/bt.sqlite ]
    run --separate-stderr "$bench" run s.json --dry-run
    [ "$status" = 0 ]
}

@test "another exit code or output than expected fails the round, without a time" {
    fails() { # message --set...
        message=$1
        shift
        run "$bench" run s.json --trust -q --filter line "$@"
        [ "$status" = "${code:-5}" ]
        [[ $output == *"$message"* ]] || { echo "$output"; false; }
    }
    fails '"exit 3" ended with exit code 3; expected 0 (command.exit_code)' --set "command.run=exit 3"
    fails 'exit code 127, which a shell returns if it cannot find a command' \
        --set "command.run=no-such-program"
    fails '"kill -9 $$" was killed by signal 9; expected exit code 0' --set 'command.run=kill -9 $$'
    fails '6 bytes without "bye", which command.output requires; the output begins with "hello "' \
        --set command.output=bye
    fails 'command.prepare: "false" ended with exit code 1; expected 0' --set command.prepare=false
    code=4 fails 'cannot start "no-such-program": No such file' --set 'command.run=["no-such-program"]'
    code=4 fails 'cannot start "sh" in the folder nowhere: No such file' \
        --set 'command.run=["sh"]' --set command.folder=nowhere
    [ "$(query "select count(*) from measurement where metric='time_ns'")" = 0 ]
    run "$bench" run s.json --trust -q --filter line --set "command.run=exit 3" --set command.exit_code=3
    [ "$status" = 0 ]
    run "$bench" run s.json --trust -q --filter line --set command.output=hell
    [ "$status" = 0 ]
}

@test "a command that hangs is ended with its processes" {
    run "$bench" run s.json --trust -q --filter list --set command.timeout_s=1 \
        --set 'command.run=sleep 300.125; true'
    [ "$status" = 5 ]
    [[ $output == *"a call took longer than command.timeout_s, 1 s, and was stopped"* ]]
    [ -z "$(pgrep -f 'sleep 300.125')" ]
}

@test "what prepares a call is not timed; a folder is where it runs" {
    mkdir there
    run "$bench" run s.json --trust -q --filter line --set "command.prepare=sleep 0.05; touch mark" \
        --set "command.run=rm mark; pwd" --set command.folder=there --set command.output=/there
    [ "$status" = 0 ]
    [ "$(query "select value < 5e7 from measurement where metric='time_median_ns'")" = 1 ]
}

@test "two builds are compared by a command that runs the build's own program" {
    run "$bench" ab . . s.json --trust -q --rounds-max 2 --tolerance 9 --filter line \
        --set 'command.run=$BT_BENCH version' --set command.output=bt-bench
    [[ $output == *"candidate/base"*"line"* ]] || { echo "$output"; false; }
    [ "$status" = 0 ] || [ "$status" = 3 ]
    run "$bench" ab . . s.json -q --filter line
    [ "$status" = 2 ]
    [[ $output == *"add --trust"* ]]
}

@test "mistakes in a suite are named with their line" {
    sed 's/"run": \["sleep", "0.02"\]/"runs": "x"/' s.json >bad.json
    run "$bench" run bad.json --trust
    [ "$status" = 2 ]
    [[ $output == *'bad.json:4:'*'"runs" is not a key of command; did you mean "run"?'* ]]
    sed 's/"run": \["sleep", "0.02"\]//' s.json >bad.json
    run "$bench" run bad.json --trust
    [ "$status" = 2 ]
    [[ $output == *'case list: a command case needs command.run'* ]]
    for nothing in '""' '" "' '[""]'; do
        sed "s/\"run\": \[\"sleep\", \"0.02\"\]/\"run\": $nothing/" s.json >bad.json
        run "$bench" run bad.json --trust
        [ "$status" = 2 ]
        [[ $output == *'case list: a command case needs command.run'* ]]
    done
}
