// harness/stats/loss_internal.h - declarations shared by loss.c and loss_seeds.c
#ifndef BT_HARNESS_STATS_LOSS_INTERNAL_H
#define BT_HARNESS_STATS_LOSS_INTERNAL_H

#include "harness/stats/loss.h"

// A verdict without value and bounds.
void bt_loss_say(bt_loss_verdict *out, bt_loss_word word, int64_t step, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// False, and sets `word` with the step, if a loss of the curve is not finite.
bool bt_loss_all_finite(const bt_loss_curve *curve, const char *whose, bt_loss_word word,
                        bt_loss_verdict *out);

#endif
