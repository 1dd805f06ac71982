// harness/gate/rule_read.h - a rule read from JSON; private to this folder
#ifndef BT_HARNESS_GATE_RULE_READ_H
#define BT_HARNESS_GATE_RULE_READ_H

#include "harness/gate/document.h"
#include "harness/gate/rule.h"

typedef struct bt_rule {
    int64_t version;
    const char *bench, *name, *candidate;
    const char *base; // other system of the run; "": values were recorded
    bt_gate_presence presence;
    bt_gate_metric metric; // BT_GATE_METRIC_COUNT: the case as a whole
    double clock_tolerance;
    bt_gate_calibration calibration;
    bt_decision_rule decision;     // of times and rates
    double memory_tolerance_bytes; // of the peak
    const char *tier;              // of the loss
    bt_loss_rule loss;
    const char *baseline_system; // of the recorded side; "": there is none, or see `values`
    bool other_card;
    // In rules of earlier versions: recorded values, digests of the environment and settings.
    const char *environment, *settings;
    double clock_mhz;     // NaN: not known
    const double *values; // [value_count]
    int64_t value_count;
    bt_gate_side recorded; // its curves only
} bt_rule;

BT_CHECKED bt_status bt_rule_read(bt_document *in, const cJSON *root, bt_rule *out);

#endif
