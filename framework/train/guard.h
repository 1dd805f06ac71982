// framework/train/guard.h - the rule by which losses and gradient norms are flagged
//
// A window holds the last 64 finite losses and norms. From the 32nd step on:
//   loss spike          loss > median + max(8 sigma, 0.1 |median|), sigma = 1.4826 MAD: what the
//                       standard deviation of normal noise would be
//   gradient explosion  norm > 10 medians
// A falling curve lies below its median, so learning raises no alarm; tests/unit/test_train_guard.c
// measures false alarms. Of several flagged steps in a row only the first is reported: a level that
// stays becomes the median. The window is no part of a checkpoint: a resumed run flags nothing in
// its first 32 steps.
#ifndef BT_TRAIN_GUARD_H
#define BT_TRAIN_GUARD_H

#include <stdbool.h>
#include <stdint.h>

enum { BT_GUARD_WINDOW = 64, BT_GUARD_LEAST = 32 };

typedef struct bt_guard_series {
    double value[BT_GUARD_WINDOW]; // a ring
    int64_t count;                 // seen so far
    bool flagged;                  // the last one was
} bt_guard_series;

typedef struct bt_guard {
    bt_guard_series loss, norm; // zero at first
} bt_guard;

typedef struct bt_guard_flag {
    bool raised;   // new: the step before was not flagged
    double median; // of the window
    double limit;  // that was exceeded
} bt_guard_flag;

// Judges one step by those before it, then adds it to them. Both values are finite.
void bt_guard_look(bt_guard *guard, double loss, double norm, bt_guard_flag *spike,
                   bt_guard_flag *explosion);

#endif
