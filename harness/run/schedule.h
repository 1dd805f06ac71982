// harness/run/schedule.h - which round comes next
//
// A session runs each case on each system some number of times; a round is (case, system, ordinal),
// a pass is one ordinal of every case. The schedule knows what is wanted and what became of the
// rounds that were run, and says what comes next. Nothing here runs, reads or writes anything.
//
// Invariants
//   1. What comes next is a function of seed, cases, systems, wanted rounds and the noted outcomes,
//      in whatever order they were noted: a session that was broken off goes on where it stopped.
//   2. Pass by pass, so that slow changes of the machine meet every case. In a pass the cases that
//      run alone come first (the machine's ceilings, which others are a share of), then the others:
//      as in the plan in the first pass, so that records read in that order, then shuffled anew
//      for each.
//   3. Of a case the systems follow each other at once, forwards or backwards as was drawn for the
//      case and the other way round in the next pass: A B, B A, A B, ... or B A, A B, ...
//   4. An invalid round is run again at once, under the same ordinal, BT_ROUND_ATTEMPTS times in
//      all. Then it is lost, and so is its pair.
// Seed 0 draws nothing: the plan's order, forwards first.
#ifndef BT_HARNESS_RUN_SCHEDULE_H
#define BT_HARNESS_RUN_SCHEDULE_H

#include "harness/plan/plan.h"
#include "harness/record/record.h"

#define BT_ROUND_ATTEMPTS 3

typedef enum bt_round_state {
    BT_ROUND_OPEN, // not run yet, or to be run again
    BT_ROUND_KEPT,
    BT_ROUND_LOST, // invalid every time
    BT_ROUND_FAILED,
    BT_ROUND_UNAVAILABLE, // the system cannot run it here
    BT_ROUND_EXCLUDED     // the case names other systems
} bt_round_state;

typedef struct bt_run_schedule_cell {
    bt_round_state state;
    int attempts;   // invalid ones so far
    double time_ns; // mean of a kept round; NaN: it has none
} bt_run_schedule_cell;

typedef struct bt_run_schedule {
    uint64_t seed;
    int64_t case_count, system_count, rounds_max;
    bool *alone;                 // owned, [case_count]: it runs once a pass, on our own worker
    int64_t *wanted;             // owned, [case_count]: ordinals below it
    int64_t *order;              // owned, [case_count]: of pass order_pass
    bt_run_schedule_cell *cells; // owned, [case_count, rounds_max, system_count]
    int64_t pass;                // every wanted round of the passes before it is settled
    int64_t order_pass;          // -1: no order yet
} bt_run_schedule;

typedef struct bt_run_schedule_round {
    int64_t case_index;
    int64_t system; // 0 for a case that runs alone
    int64_t ordinal;
    int attempt; // from 0
} bt_run_schedule_round;

// A schedule in which every case of the plan has `rounds` rounds on each of the systems, and may
// come to have rounds_max. A case that names systems runs only on those of the plan's systems;
// systems that do not come from the plan run every case.
// Owns    *out: the caller, bt_run_schedule_release, also after a failure
BT_CHECKED bt_status bt_run_schedule_make(const bt_plan *plan, int64_t system_count, int64_t rounds,
                                          int64_t rounds_max, uint64_t seed, bt_run_schedule *out);
void bt_run_schedule_release(bt_run_schedule *schedule);

// What comes next; false: nothing is open.
bool bt_run_schedule_next(bt_run_schedule *schedule, bt_run_schedule_round *out);
// How many rounds a case is to have, at most rounds_max. Fewer than before closes the open ones.
void bt_run_schedule_want(bt_run_schedule *schedule, int64_t case_index, int64_t rounds);
// What became of a round. An invalid one counts as an attempt; a settled one stays as it is.
void bt_run_schedule_note(bt_run_schedule *schedule, const bt_run_schedule_round *round,
                          bt_run_status status, double time_ns);
// Notes all rounds of a recorded run, found by the names of cases and systems [system_count];
// rounds that were broken off, and those that go on, count for nothing.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_run_schedule_note_run(bt_run_schedule *schedule, const bt_plan *plan,
                                              const char *const *systems, const bt_store_run *run);
// Whether a round that failed (a killed worker, a hang, a full disk) is run again by --resume, from
// its checkpoints: a training of ours that saves them on the way. Peers do not go on.
bool bt_run_schedule_goes_on(const bt_plan *plan, const bt_store_round *round);

// ---- what it knows -----------------------------------------------------------------------------

const bt_run_schedule_cell *bt_run_schedule_cell_of(const bt_run_schedule *schedule,
                                                    int64_t case_index, int64_t system,
                                                    int64_t ordinal);
// Is every wanted round of the case settled?
bool bt_run_schedule_settled(const bt_run_schedule *schedule, int64_t case_index);
// Wanted rounds of all cases, and how many of them are open.
void bt_run_schedule_count(const bt_run_schedule *schedule, int64_t *wanted, int64_t *open);
// log(time) of the rounds that were kept, in the order of their ordinals, NaN for the others, into
// logs [rounds_max].
void bt_run_schedule_logs(const bt_run_schedule *schedule, int64_t case_index, int64_t system,
                          double *logs);

#endif
