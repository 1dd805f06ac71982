#!/usr/bin/env bats
# Collective cases: ranks started, checked, timed, recorded with bus bandwidth

load ../support/cli

setup() {
    enter_scratch
}

teardown() {
    leave_scratch
}

suite() { # collective's values
    cat <<JSON
{ "name": "ranks", "profiles": { "cpu": { "device": "cpu", "cases": [
    { "name": "c", "kind": "collective", "collective": { "max_time_s": 0.05, $1 } } ] } } }
JSON
}

query() { # sql
    sqlite3 results/bt.sqlite "$1"
}

@test "every operation is correct and has a time and bus bandwidth" {
    suite '"op": ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "send_recv"],
           "dtype": ["f32", "bf16", "f64"], "size": "24KiB", "ranks": 3' >s.json
    run "$bench" run s.json
    [ "$status" = 0 ]
    [ "$(query "select count(*) from measurement where metric='time_ns' and value > 0")" = 18 ]
    # 2 (n - 1) / n x 24 KiB
    [ "$(query "select distinct value from measurement join round on round.id=round_id join bench_case c on c.id=case_id where metric='bytes_moved' and c.name like 'c.all_reduce.%'")" = 32768.0 ]
    run "$bench" show 1
    [[ $output == *'all_reduce, f32, 3 ranks over host'*' rate  kernel'* ]] # no empty 'of copy'
    run "$bench" compare 1 1
    [ "$status" = 0 ]
    "$bench" report 1 -o r.html
    grep -q '3 ranks over host' r.html || grep -q 'c.all_reduce.f32.24KiB.host' r.html
    "$bench" export 1 -o r.tar.zst >/dev/null
    run "$bench" verify r.tar.zst
    [ "$status" = 0 ]
}

@test "a size that ranks cannot share, a group that is not there, too few ranks: refused" {
    suite '"op": "all_reduce", "size": "10"' >s.json
    run "$bench" run s.json --dry-run
    [ "$status" = 2 ]
    [[ $output == *'collective.size is "10"'*'multiple of 8 bytes (an element for each of 2 ranks)'* ]]
    suite '"op": "all_reduce", "size": "4KiB", "group": "p2p"' >s.json
    run "$bench" run s.json
    [ "$status" != 0 ]
    [[ $output == *'no group p2p on the device cpu'* ]]
    suite '"op": "all_reduce", "size": "4KiB", "ranks": 1' >s.json
    run "$bench" run s.json --dry-run
    [ "$status" = 2 ]
    suite '"size": "4KiB"' >s.json
    run "$bench" run s.json --dry-run
    [ "$status" = 2 ]
    [[ $output == *'a collective case needs collective.op'* ]]
}

@test "ranks end with the worker" {
    suite '"op": "all_reduce", "size": "24KiB", "ranks": 3' | sed 's/0\.05/30/' >s.json
    "$bench" run s.json >out 2>&1 &
    run=$!
    for _ in $(seq 100); do
        worker=$(pgrep -P $run | head -n 1)
        ranks=$(pgrep -P "${worker:-1}" | head -n 3)
        [ -z "$worker" ] || [ "$(wc -w <<<"$ranks")" != 2 ] || break
        sleep 0.1
    done
    [ "$(wc -w <<<"$ranks")" = 2 ]
    kill -KILL "$worker"
    wait $run || true
    for rank in $ranks; do
        [ ! -d "/proc/$rank" ] || [ "$(awk '/^State/ { print $2 }' "/proc/$rank/status")" = Z ]
    done
}
