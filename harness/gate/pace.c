// harness/gate/pace.c - how many rounds a case needs until its time is decided
#include "harness/gate/pace.h"

#include <math.h>

#include "framework/base/mem.h"

static bt_status decide(const bt_gate_pace *pace, bt_gate_metric metric,
                        const bt_decision_rule *rule, int64_t *next_rounds)
{
    const bt_gate_side *base = pace->base;
    void *base_block = NULL, *block = NULL;
    bt_status status = bt_mem_alloc((size_t)base->round_count, sizeof(double), &base_block);
    if (status == BT_OK) {
        status = bt_mem_alloc((size_t)pace->count, sizeof(double), &block);
    }
    if (status == BT_OK) {
        double *base_logs = base_block, *logs = block;
        int64_t base_count = bt_gate_side_values(base, metric, base_logs);
        for (int64_t i = 0; i < base_count; ++i) {
            base_logs[i] = log(base_logs[i]);
        }
        for (int64_t i = 0; i < pace->count; ++i) {
            logs[i] = log(pace->times_ns[i]);
        }
        *next_rounds =
            bt_decide_unpaired(rule, base_logs, base_count, logs, pace->count).next_rounds;
    }
    bt_mem_free(base_block);
    bt_mem_free(block);
    return status;
}

bt_status bt_gate_pace_rounds(const bt_gate_pace *pace, int64_t *rounds)
{
    const bt_gate_side *base = pace->base;
    bt_gate_rule rule = {0};
    double base_ns = 0;
    int64_t next_rounds = 0;
    if (!base) { // nothing to be decided: as many as a first look has
        *rounds = bt_gate_decision_rule(pace->policy, &rule, 1).looks[0];
        return BT_OK;
    }
    bool training = bt_gate_side_is_training(base);
    bt_gate_metric metric = training ? BT_GATE_STEP_TIME : BT_GATE_TIME;
    BT_TRY(bt_gate_side_median(base, metric, &base_ns));
    rule = bt_policy_rule(pace->policy, base->name, metric, training, base_ns);
    bt_decision_rule decision = bt_gate_decision_rule(pace->policy, &rule, pace->family);
    *rounds = decision.looks[0];
    if (base_ns > 0 && pace->count >= decision.looks[0]) {
        BT_TRY(decide(pace, metric, &decision, &next_rounds));
        *rounds = next_rounds > pace->count ? next_rounds : pace->count;
    }
    return BT_OK;
}
