// harness/gate/explain.h - explains a verdict; private to this folder
#ifndef BT_HARNESS_GATE_EXPLAIN_H
#define BT_HARNESS_GATE_EXPLAIN_H

#include "harness/gate/gate.h"

// A sentence about one verdict: how much, how certain, with which tolerance.
void bt_gate_sentence(const bt_gate_item *item, const bt_policy *policy, bt_str *out);

// Other changes: clocks, power, kernels; for a verdict NOT-COMPARABLE the facts and settings that
// differ. base_env, env: environments; NULL for two sides of one run.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_gate_changes(const bt_gate_side *base, const bt_gate_side *candidate,
                                     const bt_store_env *base_env, const bt_store_env *env,
                                     bt_arena *arena, bt_str *out);

#endif
