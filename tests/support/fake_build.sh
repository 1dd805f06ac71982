#!/bin/bash
# tests/support/fake_build.sh - a build of bt-bench for `ab` that measures nothing
#
# A copy of it is the program; the file `says` beside it may set
#   NS=1000000        median of a round in which nothing is added
#   SPREAD=100        ns that rounds differ by: they are -1, 0, +1, 0 of it in turns
#   SLOW_CASE=        a part of a case's name: its rounds take SLOW percent longer
#   SLOW=3
#   COMMIT=, KERNEL=  what it was built from, what ran
#   FAIL=wrong        the result is wrong; unsupported: it cannot run the case; die: it is killed
here=$(dirname -- "$(readlink -f -- "$0")")
NS=1000000 SPREAD=100 SLOW_CASE='' SLOW=0 COMMIT=1111111111111111111111111111111111111111
KERNEL=same_v1 FAIL=''
# shellcheck disable=SC1091 # made by a test
[ ! -e "$here/says" ] || . "$here/says"
case $1 in
version)
    printf 'bt-bench 0.1.0\nrevision   %s\ncompiler   fake 1.0\nflags      -O3 (Release)\n' "$COMMIT"
    printf 'cuda       not built\n'
    exit 0
    ;;
worker) ;;
*) exit 2 ;;
esac
IFS= read -r task
round=${task#*\"round\":}
round=${round%%,*}
turns=(-1 0 1 0)
time_ns=$((NS + SPREAD * turns[round % 4]))
if [ -n "$SLOW_CASE" ] && [[ $task == *"$SLOW_CASE"* ]]; then
    time_ns=$((time_ns + time_ns * SLOW / 100))
fi
if [ "$FAIL" = unsupported ]; then
    echo '{"event":"error","status":"unsupported","message":"no such kernel in this build"}'
    exit 4
fi
echo '{"event":"start","protocol":1,"system":"blutrain","device":"no device"}'
echo "{\"event\":\"kernel\",\"op\":\"gelu\",\"kernel\":\"$KERNEL\"}"
case $FAIL in
wrong)
    echo '{"event":"error","status":"internal error","message":"gelu: element 3 is 0.5, not 0.7"}'
    exit 5
    ;;
die) kill -9 $$ ;;
esac
echo "{\"event\":\"samples\",\"times_ns\":[$time_ns,$time_ns,$time_ns]}"
echo '{"event":"measured","calls_per_sample":1,"error_share":0.5,"stop":"three samples"}'
echo '{"event":"result","steps_done":0}'
