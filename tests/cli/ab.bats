#!/usr/bin/env bats
# bt-bench ab from a user's side: builds that are fakes with known times, revisions that are built,
# systems; verdicts, exit codes, what is recorded

load ../support/cli

setup() {
    enter_scratch
    gelu_suite '["64x16", "4x5"]' >s.json
    mkdir old new
    worker=$root/tests/support/kernel_peer.sh
    cp "$root/tests/support/fake_build.sh" old/bt-bench
    cp "$root/tests/support/fake_build.sh" new/bt-bench
    export OMP_NUM_THREADS=1
}

teardown() {
    leave_scratch
}

ab() { # arguments after the two builds and the suite; the worker measures the copy
    run --separate-stderr "$bench" ab ./old ./new s.json --worker "$worker" "$@"
}

field() { # jq filter: of the run's JSON in $output
    jq -r "$1" <<<"$output"
}

@test "the same build twice: SAME after eight pairs, exit 0" {
    ab
    [ "$status" = 0 ]
    [[ $output == *"gelu.forward.f32.64x16"*"1.00 ms"*"1.00 ms"*"1.000"*" 8  SAME"* ]]
    [[ $output == *"2 cases: 2 same"*"report results/run-1/report.html   exit 0"* ]]
    [[ $stderr == *"8 to 24 pairs of rounds a case, until it is decided"*"recording to results/bt.sqlite as run 1"* ]]
    [[ $stderr == *"round    1/"* ]]
    [ -s results/run-1/report.html ]
}

@test "what to do next names the database" {
    ab --rounds-max 2 --db other.sqlite
    [[ $output == *"next           bt-bench show 1 --db other.sqlite"* ]]
}

@test "show and Markdown compare the candidate with the base, whichever ran first" {
    printf 'SLOW_CASE=64x16 SLOW=50 COMMIT=2%039d' 0 >new/says
    for seed in 1 2 3 4; do
        ab --seed $seed --rounds-max 2 -q
    done
    for run in 1 2 3 4; do
        run "$bench" show "$run"
        [[ $output =~ system\ +time\ +95\ %\ +/base\ +95\ % ]]
        [[ $output =~ 64x16\ +base\ +1\.00\ ms[^$'\n']*$'\n'\ +candidate\ +1\.50\ ms\ +[?\ ]*1\.50x\ +\[1\. ]]
        [[ $output == *"/base: from pairs of rounds; below 1 takes less."* ]]
        "$bench" report "$run" -o r.md
        grep -q '^Time of candidate divided by that of base: more than 1 is slower.$' r.md
    done
}

@test "one case slower by 3 %: SLOWER, the kernel that changed, exit 1; both builds on record" {
    printf 'SLOW_CASE=64x16 SLOW=3 KERNEL=other_v2 COMMIT=2%039d' 0 >new/says
    ab --seed 7 --format json
    [ "$status" = 1 ]
    [ "$(field .seed)" = 7 ]
    [ "$(field '.systems | map(.name) | join(" ")')" = "base candidate" ]
    [ "$(field '.systems[1].git_commit')" = "2$(printf %039d 0)" ]
    [ "$(field '.systems[0].build')" != "$(field '.systems[1].build')" ]
    [ "$(field '.gate.counts.SLOWER')" = 1 ]
    [ "$(field '.gate.counts.SAME')" = 1 ]
    slow='.gate.verdicts[] | select(.verdict == "SLOWER")'
    [ "$(field "$slow | .subject")" = gelu.forward.f32.64x16 ]
    [[ $(field "$slow | .reason") == "slower by 3.0 %"*"tolerance 1 %, 8 rounds; no 95th percentile"* ]]
    [[ $(field "$slow | .changes") == *"same_v1"*"other_v2"* ]]
    [ "$(sqlite3 results/bt.sqlite "select count(*) from verdict where kind='ab'")" = 2 ]
    [ "$(sqlite3 results/bt.sqlite "select seed, kind from session_schedule")" = "7|ab" ]
    # Pairs next to each other, the other way round each time.
    [ "$(sqlite3 results/bt.sqlite "select count(distinct ordinal) from round where system='base'")" = 8 ]
    run "$bench" gate 1 --format json
    [ "$status" = 1 ]
}

@test "a faster build is FASTER, exit 0; a larger tolerance makes it SAME" {
    echo 'NS=950000' >new/says
    ab
    [ "$status" = 0 ]
    [[ $output == *"2 faster"* ]]
    [[ $output == *"FASTER  gelu.forward.f32.4x5   faster by 5.0 %"* ]]
    ab --tolerance 0.2
    [ "$status" = 0 ]
    [[ $output == *"2 cases: 2 same"* ]]
}

@test "noise: more pairs for what is undecided, then INCONCLUSIVE, exit 3" {
    printf 'NS=1012000 SPREAD=60000' >new/says
    ab --format json --filter 4x5
    [ "$status" = 3 ]
    [ "$(field '.gate.counts.INCONCLUSIVE')" = 1 ]
    [ "$(field '.gate.verdicts[0].rounds')" = 24 ]
    printf 'NS=1012000 SPREAD=60000 SLOW_CASE=4x5 SLOW=90' >new/says
    ab --format json
    [ "$status" = 1 ]
    [ "$(field '.gate.verdicts | map([.verdict, .rounds] | join(" ")) | sort | join(",")')" = "INCONCLUSIVE 24,SLOWER 8" ]
}

@test "wrong or killed: INVALID, exit 5, and no more rounds; cannot run it: NOT-COMPARABLE, exit 4" {
    echo 'FAIL=wrong' >new/says
    ab --format json
    [ "$status" = 5 ]
    [ "$(field '.gate.counts.INVALID')" = 2 ]
    [[ $(field '.gate.verdicts[0].reason') == *"element 3 is 0.5, not 0.7"* ]]
    [ "$(sqlite3 results/bt.sqlite "select count(*) from round where system in ('base','candidate')")" = 4 ]
    echo 'FAIL=die' >new/says
    ab
    [ "$status" = 5 ]
    [[ $output == *"killed by SIGKILL"* ]]
    echo 'FAIL=unsupported' >new/says
    ab
    [ "$status" = 4 ]
    [[ $output == *"NOT-COMPARABLE"*"no such kernel in this build"* ]]
}

@test "two systems of the plan, by their names" {
    sed 's/1000000/5000000/g' "$worker" >slow_peer.sh
    chmod +x slow_peer.sh
    run --separate-stderr "$bench" ab s.json --system "$worker,./slow_peer.sh" --worker "$worker" --rounds-max 2 --format json
    [ "$status" = 1 ]
    [ "$(field '.systems | map(.name) | join(" ")')" = "kernel_peer.sh slow_peer.sh" ]
    [ "$(field '.gate.counts.SLOWER')" = 2 ]
    [ "$(field '.gate.verdicts[] | select(.metric == "time_ns") | .subject' | head -n 1)" = "gelu.forward.f32.64x16 slow_peer.sh" ]
}

@test "what a peer does not report is not judged" {
    run --separate-stderr "$bench" ab s.json --system "blutrain,$worker" --filter 4x5 --rounds-max 2 --tolerance 0.9
    [ "$status" != 4 ]
    [[ $output != *NOT-COMPARABLE* ]] || { echo "$output"; false; }
    [[ $output == *"memory is not compared in 1 case: only one of the two systems reports it"* ]]
    [[ $output == *"candidate/base"*"below 1 the candidate takes less"* ]]
    # Such a peer passes if it is faster.
    sed '/"event":"memory"/d' "$root/tests/support/timed_worker.sh" >fast.sh
    chmod +x fast.sh
    BT_TIMED_NS=100 run "$bench" ab s.json --system blutrain,./fast.sh --filter 4x5
    [ "$status" = 0 ]
    [[ $output == *"memory is not compared in 1 case"*"1 case: 1 faster"* ]]
}

@test "two builds run every case, whatever systems the suite names for it" {
    jq '.profiles.cpu.systems = ["blutrain", "pytorch-eager"] | .profiles.cpu.cases[0].systems = ["blutrain"]' s.json >t.json
    printf 'SLOW_CASE=64x16 SLOW=3' >new/says
    mv t.json s.json
    ab --format json
    [ "$status" = 1 ]
    [ "$(field '.gate.verdicts | map([.verdict, .rounds] | join(" ")) | join(",")')" = "SLOWER 8,SAME 8" ]
    # The recorded plan names no systems either, so a session that goes on uses the recorded builds.
    [ "$(sqlite3 results/bt.sqlite "select plan_json like '%systems%' from suite")" = 0 ]
}

@test "this very program against itself, for real" {
    run --separate-stderr "$bench" ab . . s.json --rounds-max 2 --tolerance 5 --filter 4x5
    [ "$status" = 0 ] || [ "$status" = 3 ]
    [[ $output == *"base"*", build "*"gelu.forward.f32.4x5"* ]]
    [ "$(sqlite3 results/bt.sqlite "select count(*) from round where system='blutrain'")" = 1 ] # the copy
}

@test "a revision is built once, and again when it is not ready" {
    command -v cmake ninja git
    unset BT_ROOT # it would name the repository in place of the working directory
    mkdir -p home/bin repo
    cp "$(dirname "$bench")"/* home/bin/ # no repository around it: that of the working directory
    cd repo
    cp -r ../old ../new .
    git init -q .
    git config user.email t@t
    git config user.name t
    cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.20)
project(fake LANGUAGES NONE)
add_custom_target(product COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/prog ${CMAKE_BINARY_DIR}/bin/bt-bench
                          COMMAND ${CMAKE_COMMAND} -E echo "built with ${BT_TESTS}")
CMAKE
    cp ../old/bt-bench prog
    git add CMakeLists.txt prog
    git commit -qm one
    git tag first
    sed -i 's/^NS=1000000/NS=1050000/' prog
    git commit -qam two
    run --separate-stderr ../home/bin/bt-bench ab first HEAD ../s.json --rounds-max 4 --worker "$worker"
    [ "$status" = 1 ]
    commit=$(git rev-parse first)
    [[ $stderr == *"build     ${commit:0:10} in "*"build     ${commit:0:10} done"* ]]
    [[ $output == *"SLOWER  gelu.forward.f32.4x5   slower by 5.0 %"* ]]
    grep -q "built with OFF" "results/builds/$commit/build.log"
    [ -z "$(git status --porcelain --untracked-files=no)" ]
    run --separate-stderr ../home/bin/bt-bench ab first HEAD ../s.json --rounds-max 4 --worker "$worker"
    [[ $stderr != *"build  "* ]]
    rm "results/builds/$commit/ready"
    run --separate-stderr ../home/bin/bt-bench ab first HEAD ../s.json --rounds-max 4 --worker "$worker"
    [[ $stderr == *"${commit:0:10} done"* ]]
    echo 'message(FATAL_ERROR "the moon is full")' >>CMakeLists.txt
    git commit -qam three
    run --separate-stderr ../home/bin/bt-bench ab first HEAD ../s.json --worker "$worker"
    [ "$status" = 5 ]
    [[ $stderr == *"configuring"*"failed; the end of"*"build.log:"*"the moon is full"* ]]
    [ -z "$output" ]
}

@test "an interrupted session goes on where it stopped, with the same rule and order" {
    printf 'SLOW_CASE=64x16 SLOW=3; sleep 0.1' >new/says
    "$bench" ab ./old ./new s.json --worker "$worker" --seed 6 --tolerance 0.02 >out 2>err &
    pid=$!
    eventually has_rounds 1 8
    kill -INT "$pid"
    code=0
    wait "$pid" || code=$?
    [ "$code" = 130 ]
    grep -q "resume it with 'bt-bench ab --resume 1'" err
    before=$(sqlite3 results/bt.sqlite "select count(*) from round where status=1")
    [ "$before" -lt 33 ]
    run --separate-stderr "$bench" run --resume 1 --worker "$worker"
    [ "$status" = 2 ]
    [[ $stderr == *"resume it with 'bt-bench ab --resume'"* ]]
    run --separate-stderr "$bench" ab --resume 1 --tolerance 0.1
    [ "$status" = 2 ]
    run --separate-stderr "$bench" ab --resume 1 --worker "$worker" --format json
    [ "$status" = 1 ]
    [ "$(field '[.run, .seed] | join(" ")')" = "1 6" ]
    [ "$(field '.gate.verdicts | map([.verdict, .rounds, .tolerance] | join(" ")) | join(",")')" = "SLOWER 8 0.02,SAME 8 0.02" ]
    [ "$(sqlite3 results/bt.sqlite "select count(*) from round where status=1")" = 33 ]
    echo 'COMMIT=3' >new/says
    sqlite3 results/bt.sqlite "update session set status=3"
    run --separate-stderr "$bench" ab --resume 1 --worker "$worker"
    [ "$status" = 4 ]
    [[ $stderr == *"was rebuilt"* ]]
}

@test "a session of builds whose recorded plan names systems goes on with the builds" {
    printf 'sleep 0.1' >new/says
    "$bench" ab ./old ./new s.json --worker "$worker" --seed 6 >out 2>err &
    pid=$!
    eventually has_rounds 1 4
    kill -INT "$pid"
    wait "$pid" || true
    # Such a plan, as this program records it for a run.
    jq '.profiles.cpu.systems = ["blutrain"]' s.json >t.json
    "$bench" run t.json --worker "$worker" >/dev/null
    sqlite3 results/bt.sqlite "update session set suite_id=(select suite_id from session where id=2) where id=1"
    run --separate-stderr "$bench" ab --resume 1 --worker "$worker" --format json
    [ "$status" = 0 ]
    [ "$(field '.gate.verdicts | map([.verdict, .rounds] | join(" ")) | join(",")')" = "SAME 8,SAME 8" ]
}

@test "mistakes are named, exit 2" {
    ab extra
    [ "$status" = 2 ]
    run --separate-stderr "$bench" ab ./old s.json
    [ "$status" = 2 ]
    [[ $stderr == *"expected two builds and a suite: ab BASE CANDIDATE SUITE"* ]]
    run --separate-stderr "$bench" ab ./old no-such-revision s.json
    [ "$status" = 2 ]
    [[ $stderr == *'"no-such-revision" is neither a bt-bench program, nor a folder with one, nor a git revision'* ]]
    run --separate-stderr "$bench" ab s.json --system blutrain
    [ "$status" = 2 ]
    [[ $stderr == *"expected two systems, the base first"* ]]
    for wrong in "--tolerance 1%" "--tolerance -1" "--rounds-max 1" "--seed 0" "--tolerance 0.1 --policy default"; do
        # shellcheck disable=SC2086 # two words
        ab $wrong
        [ "$status" = 2 ]
    done
    printf '#!/bin/sh\necho hello\n' >new/bt-bench
    ab
    [ "$status" = 5 ]
    [[ $stderr == *"expected the output of 'bt-bench version', got hello"* ]]
    [ ! -e results/bt.sqlite ]
}

@test "a session that is killed goes on where it stopped, and ends as if it had not been" {
    # A round takes its time until `go` is there.
    printf 'SLOW_CASE=64x16 SLOW=3\n[ -e "$here/go" ] || sleep 0.3\n' >new/says
    "$bench" ab ./old ./new s.json --seed 7 -q >/dev/null 2>err 3>&- &
    pid=$!
    eventually has_rounds 1 5
    touch new/go
    kill -9 "$pid"
    wait "$pid" || true
    run "$bench" run --resume 1
    [ "$status" = 2 ]
    [[ $output == *"started by 'bt-bench ab'"*"resume it with 'bt-bench ab --resume'" ]]
    last=$(sqlite3 results/bt.sqlite "select max(id) from round where status=1")
    kept="select id, ended_ns from round where status=1 and id<=$last order by id"
    sqlite3 results/bt.sqlite "$kept" >kept
    run --separate-stderr "$bench" ab --resume 1 --format json
    [ "$status" = 1 ]
    [ "$(field '.gate.counts.SLOWER')" = 1 ]
    [ "$(field '.gate.counts.SAME')" = 1 ]
    diff kept <(sqlite3 results/bt.sqlite "$kept")
    [ "$(sqlite3 results/bt.sqlite "select count(*) from (select 1 from round where status=1 group by case_id, system, ordinal having count(*)>1)")" = 0 ]
    [ "$(sqlite3 results/bt.sqlite "select count(*) from round where status=1 and system in ('base','candidate')")" = 32 ]
    [ "$(sqlite3 results/bt.sqlite "select count(*) from session_gap")" = 1 ]
    run "$bench" ab --resume 1
    [ "$status" = 2 ]
}

@test "a session does not go on with another build, nor with other rules" {
    "$bench" ab ./old ./new s.json -q >/dev/null
    sqlite3 results/bt.sqlite "update session set status=3; delete from verdict"
    echo "COMMIT=3$(printf %039d 0)" >new/says
    run "$bench" ab --resume 1
    [ "$status" = 4 ]
    [[ $output == "run 1 cannot be resumed: its candidate was rebuilt (digest was 11111111, is 30000000)" ]]
    run "$bench" ab --resume 1 --tolerance 0.1
    [ "$status" = 2 ]
    [[ $output == *"cannot be combined with --tolerance" ]]
    "$bench" run s.json -q --worker "$root/tests/support/kernel_peer.sh" >/dev/null
    run "$bench" ab --resume 2
    [ "$status" = 2 ]
    [ "$output" = "run 2 was started by 'bt-bench run', not by ab" ]
}
