// harness/gate/merge.h - further runs, into the sides of a baseline; private
//
// A run whose case has the build and the settings of the first is one more session: its rounds and
// its loss curves are taken. A run of another build, another split into micro-batches or another
// seed only gives loss curves: it says how far a curve may be off, not how fast the build is.
//
// Invariants
//   1. A further run has every case of the first, in the same hard environment, on the same card
//      and data. What is no session must have a loss curve, with the same settings but for
//      train.micro_batch and train.seed, and as many steps of as many tokens. Anything else is
//      refused: a wrong learning rate would make the envelope so wide that it passes everywhere.
//   2. With the seed of the first, curves of a run that is no session are permuted reductions; with
//      another one, its first curve is that seed's. No seed but the first's is there twice.
#ifndef BT_HARNESS_GATE_MERGE_H
#define BT_HARNESS_GATE_MERGE_H

#include "harness/gate/baseline.h"

// The sides of a run that a baseline keeps: those with rounds enough (`few`: any); of a session of
// 'ab' the candidate's, under our system's name.
// Owns    in the arena; borrows from the run
BT_CHECKED bt_status bt_gate_kept_sides(const bt_store_run *run, bool few, bt_arena *arena,
                                        bt_gate_sides *out);
// The build whose times those are.
const bt_store_build *bt_gate_kept_build(const bt_store_run *run);

// A run as a session of a baseline.
// Owns    the texts lie in the arena
BT_CHECKED bt_status bt_gate_session_of(const bt_store_run *run, int64_t disturbed, bt_arena *arena,
                                        bt_baseline_session *out);

// Adds runs to into->sides, and those that are a session of any case to into->sessions. `what` is
// what messages call the baseline so far: "run 7".
// Owns    what is added lies in into->arena; borrows from the runs
// Errors  INVALID_ARGUMENT (a run that does not fit, with its number and why), OUT_OF_MEMORY
BT_CHECKED bt_status bt_gate_merge(const bt_store_run *const *runs, int64_t count, const char *what,
                                   bt_baseline *into);

#endif
