#!/bin/bash
# tests/support/hostile_peer.sh - a peer that means harm, or has been written in a hurry: $BT_HOSTILE
# says how. Without one of the words below it speaks the protocol of harness/run/PROTOCOL.md.
#
#   dead-start hang linger mute       says nothing; stops saying anything; does not end behind its
#                                     result; closes its output and stays. $BT_HOSTILE_PID: a file for
#                                     the numbers of itself and of a child that it leaves
#   die                               is killed behind $BT_HOSTILE_LINES lines
#   log steps lines line samples      floods: error output, steps, lines, one line, samples
#   binary utf8 deep huge             garbage
#   protocol behind twice again       another protocol; goes on behind its result; an evaluation
#                                     twice; kernel, range and memory twice (which is harmless)
#   wrong-kind                        events of the other kind of case
#   short long device                 steps in ms, in a finer unit, and so the device's
#   replay skip patched-timer         kernel times below the floor of the case's bytes, as a replayed
#   side-stream                       result, skipped work, a patched timer or a stream that the
#                                     clock does not wait for would give
#   unjoined                          says that work continued after its timed interval
#   wrong                             says that its error is 25 times its tolerance
#   seconds ms calls                  kernel times in s, in ms; more calls than there was time for
mode=${BT_HOSTILE:-sound}
IFS= read -r task
said=0 unjoined=0

say() { # line
    if [ "$mode" = die ] && [ "$said" = "${BT_HOSTILE_LINES:-0}" ]; then
        kill -9 $$
    fi
    said=$((said + 1))
    printf '%s\n' "$1"
}

stay() { # for ever, with a child
    trap '' TERM INT
    sleep 1000 &
    [ -z "$BT_HOSTILE_PID" ] || echo $$ $! >"$BT_HOSTILE_PID"
    wait
}

[ "$mode" != dead-start ] || stay
protocol=1
[ "$mode" != protocol ] || protocol=7
say '{"event":"start","protocol":'$protocol',"system":"hostile","device":"no device"}'
say '{"event":"kernel","op":"gemm","kernel":"none"}'
case $mode in
hang) stay ;;
log) head -c 50000000 /dev/zero | tr '\0' 'x' >&2 && printf '\nthe last words\n' >&2 ;;
lines) while :; do say '{"event":"range","step":0,"path":"step","count":1}'; done ;;
line) head -c 10000000 /dev/zero | tr '\0' 'x' ;;
binary) head -c 3000 /dev/urandom && echo ;;
utf8) printf '{"event":"kernel","op":"\xff\xfe","kernel":"\xc3"}\n' ;;
deep) head -c 60000 /dev/zero | tr '\0' '[' && echo ;;
huge) say '{"event":"memory","phase":"run","peak_allocated_bytes":1e999}' ;;
again)
    say '{"event":"kernel","op":"gemm","kernel":"none"}'
    for _ in 1 2; do
        say '{"event":"memory","phase":"run","peak_allocated_bytes":1}'
        say '{"event":"range","step":0,"path":"step","count":1,"host_ns":1}'
    done
    ;;
esac

if [[ $task == *'"kind":"kernel"'* ]]; then
    times=1000000 calls=1 error=0.5
    case $mode in
    seconds) times=0.001 ;;
    ms) times=1 ;;
    wrong) error=25 ;;
    replay | skip | patched-timer | side-stream) times=36000 ;;
    long) times=1e12 ;;
    calls) calls=1000000 ;;
    wrong-kind) say '{"event":"step","step":0,"loss":1,"tokens":1,"host_ns":1}' ;;
    samples)
        list=$(printf '1000,%.0s' {1..9000})1000
        while :; do say '{"event":"samples","times_ns":['"$list"']}'; done
        ;;
    esac
    say '{"event":"samples","times_ns":['$times,$times,$times']}'
    say '{"event":"measured","calls_per_sample":'$calls',"error_share":'$error',"stop":"three samples"}'
    [ "$mode" != behind ] || say '{"event":"samples","times_ns":[1]}'
    [ "$mode" != unjoined ] || unjoined=2000000
    say '{"event":"result","steps_done":0,"behind_ns":'$unjoined'}'
    exit
fi

[ "$mode" != wrong-kind ] || say '{"event":"samples","times_ns":[1]}'
for step in 0 1 2 3 4 5 6 7; do
    host=1000000 device=1000000
    case $mode in
    short) sleep 0.22 && host=300 ;;
    long) host=1000000000000 ;;
    device) device=1000000000000 ;;
    esac
    [ "$step" -lt 6 ] || [ "$mode" = steps ] || break
    say '{"event":"step","step":'$step',"loss":2.5,"tokens":512,"host_ns":'$host',"device_ns":'$device'}'
done
say '{"event":"eval","step":6,"loss":2.5}'
[ "$mode" != twice ] || say '{"event":"eval","step":6,"loss":2.5}'
[ "$mode" != mute ] || { exec 1>&- && stay; }
[ "$mode" != unjoined ] || unjoined=2000000
say '{"event":"result","steps_done":6,"behind_ns":'$unjoined'}'
[ "$mode" != behind ] || say '{"event":"step","step":6,"loss":2.5,"tokens":512,"host_ns":1}'
[ "$mode" != linger ] || stay
