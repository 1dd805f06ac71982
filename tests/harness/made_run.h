// tests/harness/made_run.h - runs in memory, made round by round, for the tests of the gate
#ifndef BT_TESTS_HARNESS_MADE_RUN_H
#define BT_TESTS_HARNESS_MADE_RUN_H

#include "harness/store/store.h"

enum { MADE_ROUNDS_MAX = 512 };

typedef struct made_run {
    bt_store_run run; // rounds and facts point into the rest
    bt_store_round rounds[MADE_ROUNDS_MAX];
    bt_store_fact facts[5];
    bt_arena arena;
} made_run;

// A passed run without rounds: suite "made", run 7, hard facts cpu.model, data.tiny and gpu.name,
// soft gpu.uuid and os.kernel, in this order.
void made_run_init(made_run *made);
void made_run_release(made_run *made);
// A round of a kernel case that passed: its ordinal follows those of case and system.
bt_store_round *made_kernel_round(made_run *made, const char *name, const char *system,
                                  double time_ns, const char *kernel);
// A round of the machine's copy that passed: "ceiling.hot".
void made_ceiling_round(made_run *made, double bytes_per_s);
// A round of a training case of `steps` steps of `step_ns`, peak_bytes allocated at most, whose
// loss falls from 11 by a tenth a step; from step `shift_at` on every loss is larger by `shift`.
bt_store_round *made_train_round(made_run *made, const char *name, const char *system,
                                 double step_ns, int64_t peak_bytes, int64_t steps,
                                 int64_t shift_at, float shift);
// The round's ranks were lost and restored: `detect_ns` until the loss was detected, `recovery_ns`
// until training went on.
void made_recovery(made_run *made, bt_store_round *round, double detect_ns, double recovery_ns);
// The i-th of a fixed series of numbers about 1 with a spread of `spread`.
double made_noise(int64_t i, double spread);

#endif
