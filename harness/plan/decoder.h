// harness/plan/decoder.h - sizes of the model of a training case
#ifndef BT_HARNESS_PLAN_DECODER_H
#define BT_HARNESS_PLAN_DECODER_H

#include "harness/plan/plan.h"

bool bt_plan_is_llama(const cJSON *train);
// Width of the MLP of a Llama-style decoder.
int64_t bt_plan_hidden(const cJSON *train);
// Width of all keys of a token, and of all values.
int64_t bt_plan_keys_width(const cJSON *train);
// Number of parameter tensors.
double bt_plan_tensors(const cJSON *train);

#endif
