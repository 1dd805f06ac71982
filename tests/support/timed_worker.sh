#!/bin/bash
# tests/support/timed_worker.sh - a worker for kernel cases that says the times it is told, so that
# what is decided from them is known beforehand: speaks the protocol of harness/run/PROTOCOL.md
#   $BT_TIMED_NS      time of a call (1000000); round i has it times 1 + $BT_TIMED_SPREAD_PPM (500) times
#                  the i-th of some fixed deviates, in millionths
#   $BT_TIMED_KERNEL  the kernel that ran (timed_v1)
#   $BT_TIMED_SLEEP_S seconds that a round takes besides (0)
#   $BT_TIMED_MODE    ok; die (killed), wrong (says that the result is wrong), unmeasured
IFS= read -r task
deviates=(3 -11 8 -2 14 -7 1 -5 9 -13 4 6 -9 11 -4 -1 2 -6 7 -3 5 -8 10 -10)
round=${task#*\"round\":}
round=${round%%[^0-9]*}
echo '{"event":"start","protocol":1,"system":"timed","device":"no device"}'
printf '{"event":"kernel","op":"gelu","kernel":"%s"}\n' "${BT_TIMED_KERNEL:-timed_v1}"
sleep "${BT_TIMED_SLEEP_S:-0}"
case ${BT_TIMED_MODE:-ok} in
die) kill -9 $$ ;;
wrong)
    echo '{"event":"error","status":"internal error","message":"element 3 is 7, not 8"}'
    exit 5
    ;;
esac
time=${BT_TIMED_NS:-1000000}
time=$((time + time * ${BT_TIMED_SPREAD_PPM:-500} * deviates[round % 24] / 10000000))
printf '{"event":"samples","times_ns":[%s,%s,%s]}\n' "$time" "$time" "$time"
echo '{"event":"measured","calls_per_sample":1,"error_share":0.5,"stop":"three samples"}'
echo '{"event":"memory","phase":"run","peak_allocated_bytes":'"${BT_TIMED_MEMORY:-2000}"'}'
echo '{"event":"result","steps_done":0}'
