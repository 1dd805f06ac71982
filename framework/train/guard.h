// framework/train/guard.h - the rule by which losses and gradient norms are flagged
//
// A window holds the last 64 finite losses and norms. From the 32nd step on:
//   loss spike          loss > median + max(8 sigma, 0.1 |median|), sigma = 1.4826 MAD, which
//                       estimates the standard deviation of normal noise
//   gradient explosion  norm > 10 medians
// A falling curve is below its median, so learning raises no alarm; tests/unit/test_train_guard.c
// measures the false alarm rate. Of consecutive flagged steps only the first is reported: a new
// level becomes the median. The window is not saved in checkpoints: a resumed run flags nothing in
// its first 32 steps.
#ifndef BT_TRAIN_GUARD_H
#define BT_TRAIN_GUARD_H

#include <stdbool.h>
#include <stdint.h>

enum { BT_GUARD_WINDOW = 64, BT_GUARD_LEAST = 32 };

typedef struct bt_guard_series {
    double value[BT_GUARD_WINDOW]; // ring buffers
    int64_t count;                 // seen so far
    bool flagged;                  // the last step was flagged
} bt_guard_series;

typedef struct bt_guard {
    bt_guard_series loss, norm; // initialize with zeros
} bt_guard;

typedef struct bt_guard_flag {
    bool raised;   // new: the previous step was not flagged
    double median; // of the window
    double limit;  // that was exceeded
} bt_guard_flag;

// Judges a step by the previous ones, then adds it to the window. Both values are finite.
void bt_guard_look(bt_guard *guard, double loss, double norm, bt_guard_flag *spike,
                   bt_guard_flag *explosion);

#endif
