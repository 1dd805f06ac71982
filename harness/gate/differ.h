// harness/gate/differ.h - the differences between two environments, as text; private to this folder
#ifndef BT_HARNESS_GATE_DIFFER_H
#define BT_HARNESS_GATE_DIFFER_H

#include "harness/gate/side.h"

// Number of facts shown; of the others only the count.
enum { BT_GATE_HARD_MAX = 6, BT_GATE_SOFT_MAX = 3 };

// Appends "key base -> now", after "; " if `out` is not empty; nothing for equal values. A missing
// value is "none"; long values are shown from where they differ.
void bt_gate_append_difference(const char *key, const char *base, const char *now, bt_str *out);

// Appends the facts of a level (HARD, SOFT) that differ: first those that both sides know, then the
// others; for another processor or GPU only its name. `side`: the case whose data are compared too,
// NULL for none. `whole`: all facts, for programs.
// Errors  OUT_OF_MEMORY, those of bt_plan_data_key_of
BT_CHECKED bt_status bt_gate_append_facts(const bt_store_env *base, const bt_store_env *env,
                                          bt_fact_level level, const bt_gate_side *side, bool whole,
                                          bt_str *out);

#endif
