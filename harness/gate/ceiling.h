// harness/gate/ceiling.h - the machine's own speed in a run: copies of 256 MiB per cache mode,
// large products per type
//
// Never judged, since they are not our code; but a machine that was slower as a whole explains
// slower cases.
#ifndef BT_HARNESS_GATE_CEILING_H
#define BT_HARNESS_GATE_CEILING_H

#include "harness/gate/side.h"

#define BT_GATE_CEILING_PREFIX "ceiling."      // prefix of the names of such cases
#define BT_GATE_PRODUCT_PREFIX "ceiling.gemm." // prefix of those that are products

typedef struct bt_gate_ceiling {
    const char *name;    // "ceiling.hot", "ceiling.gemm.bf16"
    const double *rates; // of its rounds, [count]: bytes/s of a copy, FLOP/s of a product
    int64_t count;
} bt_gate_ceiling;

typedef struct bt_gate_ceilings {
    const bt_gate_ceiling *items; // [count], in order of occurrence
    int64_t count;
} bt_gate_ceilings;

bool bt_gate_is_ceiling(const bt_store_round *round);
// The ceilings of a run. Owns    in the arena; borrows names. Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_gate_ceilings_of_run(const bt_store_run *run, bt_arena *arena,
                                             bt_gate_ceilings *out);
// Medians of those that both have and that differ by more than 2 %, as text: "the machine's own
// copy, hot: 6.43 GB/s -> 5.90 GB/s", separated by "; ".
BT_CHECKED bt_status bt_gate_ceilings_differ(const bt_gate_ceilings *base,
                                             const bt_gate_ceilings *candidate, bt_str *out);

#endif
