// harness/gate/differ.h - what differs between two environments, as text; private to this folder
#ifndef BT_HARNESS_GATE_DIFFER_H
#define BT_HARNESS_GATE_DIFFER_H

#include "harness/gate/side.h"

// Facts that a reader is told of; of the others how many there are.
enum { BT_GATE_HARD_MAX = 6, BT_GATE_SOFT_MAX = 3 };

// Appends "key base -> now", after "; " where `out` has text; nothing for equal values. A missing
// value is "none", a long one begins where the two part.
void bt_gate_append_difference(const char *key, const char *base, const char *now, bt_str *out);

// Appends the facts of a level (HARD, SOFT) that differ: what both sides know before what one
// knows; of a processor or GPU that is another one only that it is. `side`: the case whose data
// count too, NULL for none. `whole`: all of them, for programs.
// Errors  OUT_OF_MEMORY, those of bt_plan_data_key_of
BT_CHECKED bt_status bt_gate_append_facts(const bt_store_env *base, const bt_store_env *env,
                                          bt_fact_level level, const bt_gate_side *side, bool whole,
                                          bt_str *out);

#endif
