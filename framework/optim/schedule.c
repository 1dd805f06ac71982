// framework/optim/schedule.c - warm-up and cosine
#include "framework/optim/schedule.h"

#include <math.h>

double bt_schedule_rate(const bt_schedule *schedule, int64_t step)
{
    const double pi = 3.141592653589793;
    if (step < schedule->warmup_steps) {
        return schedule->lr * (double)(step + 1) / (double)schedule->warmup_steps;
    }
    if (step >= schedule->decay_steps) {
        return schedule->min_lr;
    }
    double progress = (double)(step - schedule->warmup_steps) /
                      (double)(schedule->decay_steps - schedule->warmup_steps);
    return schedule->min_lr + 0.5 * (1 + cos(pi * progress)) * (schedule->lr - schedule->min_lr);
}
