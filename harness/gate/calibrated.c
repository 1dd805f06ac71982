// harness/gate/calibrated.c - what calibrate found out about a case, for a gate
#include "harness/gate/gate.h"

bt_status bt_gate_calibration_find(void *context, const bt_gate_side *side, bt_gate_metric metric,
                                   bt_gate_calibration *out)
{
    bt_arena arena = {0};
    bt_store_calibration found;
    bool known = false;
    bt_status status =
        bt_store_calibration_find(context, side->environment, side->bench, side->name,
                                  bt_gate_metric_info(metric)->tag, &arena, &found, &known);
    if (status == BT_OK && known) {
        out->known = true;
        out->false_alarm_rate = found.false_alarm_low;
        out->smallest = found.smallest_low;
    }
    bt_arena_release(&arena);
    return status;
}
