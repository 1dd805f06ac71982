// harness/gate/merge.h - adds further runs to the sides of a baseline; private
//
// A run whose case has the build and the settings of the first is a further session: its rounds and
// its loss curves are added. A run of another build, another split into micro-batches or another
// seed only contributes loss curves: it shows how much curves vary, not how fast the build is.
//
// Invariants
//   1. A further run has every case of the first, in the same hard environment, on the same card
//      and data. A run that is not a session must have a loss curve, with the same settings except
//      train.micro_batch and train.seed, and the same number of steps and tokens. Anything else is
//      refused: a wrong learning rate would make the envelope so wide that everything passes.
//   2. With the seed of the first, curves of a run that is not a session are permuted reductions;
//      with another seed, its first curve represents that seed. Only the first run's seed may occur
//      twice.
#ifndef BT_HARNESS_GATE_MERGE_H
#define BT_HARNESS_GATE_MERGE_H

#include "harness/gate/baseline.h"

// The sides of a run that a baseline keeps: those with enough rounds (`few`: any); for an 'ab'
// session the candidate's, under our system's name.
// Owns    in the arena; borrows from the run
BT_CHECKED bt_status bt_gate_kept_sides(const bt_store_run *run, bool few, bt_arena *arena,
                                        bt_gate_sides *out);
// The build that made those times.
const bt_store_build *bt_gate_kept_build(const bt_store_run *run);

// A run with these sides as a session of a baseline.
// Owns    the texts are in the arena
BT_CHECKED bt_status bt_gate_session_of(const bt_store_run *run, const bt_gate_sides *sides,
                                        bt_arena *arena, bt_baseline_session *out);

// Adds runs to into->sides, and those that are a session of any case to into->sessions. `what`
// names the baseline so far in messages: "run 7".
// Owns    additions are in into->arena; borrows from the runs
// Errors  INVALID_ARGUMENT (a run that does not match, with its number and the reason),
//         OUT_OF_MEMORY
BT_CHECKED bt_status bt_gate_merge(const bt_store_run *const *runs, int64_t count, const char *what,
                                   bt_baseline *into);

#endif
