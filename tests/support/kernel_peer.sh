#!/bin/bash
# tests/support/kernel_peer.sh - a peer for kernel cases that measures nothing: speaks the protocol
# of harness/run/PROTOCOL.md as $BT_KERNEL_PEER says
#   ok            two lines of samples, 1 ms and 3 ms, and the end
#   launch        the same, and what the host needed for a call
#   unavailable   says that its framework is missing
#   unmeasured    ends well without having said `measured`: a wrong result has no time
#   negative      a time that is none
# $BT_KERNEL_PEER_SLEEP_S: seconds that it works before it says so.
# $BT_KERNEL_PEER_TASKS: a file to which each task is appended.
IFS= read -r task
[ -z "$BT_KERNEL_PEER_TASKS" ] || printf '%s\n' "$task" >>"$BT_KERNEL_PEER_TASKS"
case ${BT_KERNEL_PEER:-ok} in
unavailable)
    echo '{"event":"error","status":"unavailable","message":"no framework of that name here"}'
    exit 4
    ;;
esac
[ "$BT_KERNEL_PEER" != launch ] || launch=',"launch_time_ns":4200.5'
sleep "${BT_KERNEL_PEER_SLEEP_S:-0}"
echo '{"event":"start","protocol":1,"system":"test","device":"no device"}'
echo '{"event":"kernel","op":"any","kernel":"sleep"}'
[ "$BT_KERNEL_PEER" != negative ] || echo '{"event":"samples","times_ns":[5,-1]}'
echo '{"event":"samples","times_ns":[1000000,1000000.5]}'
echo '{"event":"samples","times_ns":[3000000]}'
[ "$BT_KERNEL_PEER" = unmeasured ] ||
    echo '{"event":"measured","calls_per_sample":1,"error_share":0.5,"stop":"three samples"'"${launch:-}"'}'
echo '{"event":"result","steps_done":0}'
