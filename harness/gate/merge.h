// harness/gate/merge.h - loss curves of further runs, into the sides of a baseline; private
//
// One run says what a curve is, several say how far it may be off. Of a further run only the curves
// of training cases are taken, never times or memory: it may have other kernels, another build.
//
// Invariants
//   1. A further run has every training case of the first, on the same data in the same hard
//      environment, with the same settings but for train.micro_batch and train.seed, and as many
//      steps of as many tokens. Anything else is refused: a wrong learning rate in one of them
//      would make the envelope so wide that it passes everywhere.
//   2. With the seed of the first, its curves are permuted reductions; with another one, its first
//      curve is that seed's. No seed but the first's is there twice.
#ifndef BT_HARNESS_GATE_MERGE_H
#define BT_HARNESS_GATE_MERGE_H

#include "harness/gate/side.h"

// Sides of runs[0] whose curves are those of all `count` runs.
// Owns    *out lies in the arena; borrows from the runs
// Errors  INVALID_ARGUMENT (a run that does not fit, with its number and why), OUT_OF_MEMORY
BT_CHECKED bt_status bt_gate_merge(const bt_store_run *const *runs, int64_t count, bt_arena *arena,
                                   bt_gate_sides *out);

#endif
