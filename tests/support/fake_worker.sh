#!/bin/bash
# tests/support/fake_worker.sh - a worker without a trainer: speaks the protocol of
# harness/run/PROTOCOL.md, or breaks it in the way that $BT_FAKE_WORKER says
#
#   ok slow nan                passes; slow takes 50 ms a step and heeds a request to stop
#   deaf                       takes 50 ms a step for ever, heeds nothing
#   hellaswag                  has a score before the first and after the last step
#   launch                     says how long its host needed, and how steps were launched
#   fault                      says that something went wrong in step 2, and goes on
#   error die exit silent      says why it fails; is killed; exits with 3; exits with 0 too early
#   garbage half gap late flood early   breaks the protocol
#   short crash                ends well after 4 steps; ends with 7 after its result
#   closed orphan              closes its input at once; leaves a child that holds its output
# $BT_FAKE_STEPS (6) steps.
mode=${BT_FAKE_WORKER:-ok}
steps=${BT_FAKE_STEPS:-6}
[ -z "$BT_FAKE_PID_FILE" ] || echo $$ >"$BT_FAKE_PID_FILE"
IFS= read -r task
[ -z "$BT_FAKE_TASK_FILE" ] || printf '%s\n' "$task" >"$BT_FAKE_TASK_FILE"
[ "$mode" != closed ] || exec 0<&-
echo "a line of log" >&2

start='{"event":"start","protocol":1,"system":"fake","device":"no device","parameters":1000,"tensors":4,"accumulation":1,"train_tokens":5000,"val_tokens":500}'
[ "$mode" = early ] || echo "$start"
echo '{"event":"kernel","op":"gemm","kernel":"gemm_fake"}'
echo '{"event":"eval","step":0,"loss":11.5,"tokens":512,"host_ns":1000000}'
score() { # step right
    [ "$mode" != hellaswag ] ||
        echo '{"event":"hellaswag","step":'"$1"',"questions":40,"correct":9,"normalised_correct":'"$2"',"host_ns":1000000}'
}
score 0 10
stopped=false
step=0
while [ "$step" -lt "$steps" ] || [ "$mode" = deaf ]; do
    loss=$((1000 - 10 * step)).$step
    [ "$mode" != nan ] || loss='null,"loss_bits":"7fc00000"'
    warmup=false
    [ "$step" != 0 ] || warmup=true
    printf '{"event":"step","step":%s,"loss":%s,"grad_norm":1.5,"lr":0.0006,"tokens":512,' "$step" "$loss"
    printf '"host_ns":%s,"device_ns":9000000,"allocated_bytes":1000,' $((10000000 + step))
    printf '"peak_allocated_bytes":2000,"reserved_bytes":4096,"resident_bytes":8192,'
    [ "$mode" != launch ] || printf '"launch_ns":%s,' $((2000000 + step))
    printf '"warmup":%s,"profiled":false}\n' "$warmup"
    case $mode:$step in
    launch:0) echo '{"event":"launch","step":0,"way":"memory","message":"kernel by kernel: not yet"}' ;;
    launch:2) echo '{"event":"launch","step":2,"way":"graph","message":"one launch"}' ;;
    esac
    step=$((step + 1))
    case $mode in
    slow)
        if IFS= read -r -t 0.05 _ || [ $? -le 128 ]; then
            stopped=true
            break
        fi
        ;;
    deaf) sleep 0.05 ;;
    esac
    [ "$mode:$step" != short:4 ] || break
    [ "$step" = 3 ] || continue
    case $mode in
    fault)
        echo '{"event":"fault","step":2,"kind":"loss_spike","action":"continue","message":"loss 980, \"usually\" 1"}'
        ;;
    error)
        echo '{"event":"error","status":"out of memory","message":"asked 9 GiB, limit 8 GiB"}'
        exit 5
        ;;
    die)
        echo "note: that is not why it ends" >&2
        kill -9 $$
        ;;
    exit)
        echo "segments of fault" >&2
        printf '%s\n' "rank 0: note: other bits" "launcher: lost ranks restart" "note: odd" "" >&2
        exit 3
        ;;
    silent)
        echo "rank 11: note: other bits" >&2
        exit 0
        ;;
    garbage) echo 'Hello from a library that prints' ;;
    half)
        printf '{"event":"step","step":3,"lo'
        kill -9 $$
        ;;
    gap) step=5 ;;
    late)
        echo '{"event":"result","steps_done":3}'
        ;;
    flood) head -c 200000 /dev/zero | tr '\0' 'x' ;;
    orphan)
        sleep 30 &
        kill -9 $$
        ;;
    esac
done
echo '{"event":"range","step":2,"path":"step/forward","count":1,"device_ns":3000,"host_ns":4000}'
echo '{"event":"eval","step":'$step',"loss":10.25,"tokens":512,"host_ns":1000000}'
score $step 14
echo '{"event":"memory","phase":"run","peak_allocated_bytes":2000,"peak_reserved_bytes":4096,"peak_resident_bytes":8192}'
echo '{"event":"result","steps_done":'$step',"stopped":'$stopped',"params_digest":"00112233445566778899aabbccddeeff","val_loss":10.25}'
[ "$mode" != crash ] || exit 7
