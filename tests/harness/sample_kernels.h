// tests/harness/sample_kernels.h - made-up sessions of kernel cases, with pairs of rounds and
// verdicts
#ifndef BT_TESTS_HARNESS_SAMPLE_KERNELS_H
#define BT_TESTS_HARNESS_SAMPLE_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/store/store.h"

typedef struct sample_kernels {
    int cases;              // 1..158, over ten operations
    int rounds;             // of each case and system
    const char *kind;       // of the verdicts: "ab", "gate", "replicate"; "" for none
    const char *systems[3]; // up to NULL; the first is the base
    double slowdown;        // of the second system over the first; 0.01 is one percent
    bool noisy;             // some rounds throttled and run again, some on a loaded machine
    double drift;           // of every time, over what it is otherwise
    double reach;           // of a round's interval, as a share of its time; 0: three samples, none
    const char *deviations; // of the case of every fourth claim, as JSON text; NULL: none
    const char *commit;
} sample_kernels;

// Thirty cases of one system, a round each, no verdicts.
sample_kernels sample_kernels_default(void);
// Records the whole session; the same for the same sample. Fails as the store does.
BT_CHECKED bt_status sample_kernels_record(bt_store *store, const sample_kernels *sample,
                                           int64_t *run);

#endif
