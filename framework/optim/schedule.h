// framework/optim/schedule.h - learning rate: linear warm-up, then cosine
#ifndef BT_OPTIM_SCHEDULE_H
#define BT_OPTIM_SCHEDULE_H

#include <stdint.h>

typedef struct bt_schedule {
    double lr, min_lr;    // peak and end
    int64_t warmup_steps; // lr (step + 1) / warmup_steps during these
    int64_t decay_steps;  // min_lr from this step on
} bt_schedule;

// The rate of 0-based `step`.
double bt_schedule_rate(const bt_schedule *schedule, int64_t step);

#endif
