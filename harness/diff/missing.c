// harness/diff/missing.c - reasons for values that one side lacks; the README explains each
#include "harness/diff/missing.h"

const char *bt_diff_missing_why(const bt_diff_value *value, const bt_lockstep_side *lacking)
{
    if (!lacking->plan) {
        return "the folder does not have it";
    }
    const bt_diff_mesh mesh = bt_diff_mesh_of(lacking->plan);
    const bool several = lacking->ranks > 1;
    const bool sharded = lacking->plan->parallel.sharding != BT_SHARDING_DDP &&
                         mesh.degrees.data * mesh.degrees.context > 1;
    if (value->kind == BT_TRAIN_VALUE_GRADIENT && several && sharded) {
        return "with ZeRO no rank has the whole gradient; state.adamw.m.* shows the same";
    }
    if (value->so_far && several) {
        return "each rank has a part of a parameter's gradient; gradient.* or state.adamw.m.* has "
               "the sum";
    }
    if (value->kind == BT_TRAIN_VALUE_FORWARD && value->count == 1 && mesh.degrees.context > 1) {
        return "each context parallel rank has the loss of its own tokens";
    }
    return several ? "the ranks compute it by another op or in parts"
                   : "the other side computes it by another op";
}
