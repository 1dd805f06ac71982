// harness/run/schedule.h - selects the next round
//
// A session runs each case on each system several times; a round is (case, system, ordinal), a pass
// is one ordinal of every case. The schedule contains the requested rounds and the outcomes of
// completed ones, and selects the next. Nothing here runs, reads or writes anything.
//
// Invariants
//   1. The next round is a function of seed, cases, systems, requested rounds and outcomes,
//      whatever the order in which outcomes were added: an interrupted session continues where it
//      stopped.
//   2. Rounds are ordered by passes, so that slow changes of the machine affect every case. In a
//      pass the cases that run alone come first (the machine's ceilings, the reference of others),
//      then the others: in the plan's order in the first pass, then shuffled in each pass.
//   3. The systems of a case run directly after each other, in an initial order drawn per case that
//      is reversed in each pass: A B, B A, A B, ... or B A, A B, ...
//   4. An invalid round is repeated at once, under the same ordinal, BT_ROUND_ATTEMPTS times in
//      all. Then it is lost, and so is its pair.
// Seed 0 draws nothing: the plan's order, forwards first.
#ifndef BT_HARNESS_RUN_SCHEDULE_H
#define BT_HARNESS_RUN_SCHEDULE_H

#include "harness/plan/plan.h"
#include "harness/record/record.h"

#define BT_ROUND_ATTEMPTS 3

typedef enum bt_round_state {
    BT_ROUND_OPEN, // not run yet, or to be repeated
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

// Rounds of a case that have run, also disturbed ones, and their duration.
typedef struct bt_run_spent {
    int64_t count;
    double ns;
} bt_run_spent;

// What remains of a run. A case without rounds so far is estimated to take as long as the others do
// on average; the machine's ceilings are not among them.
typedef struct bt_run_left {
    int64_t wanted, open; // requested rounds of all cases, and how many of them are open
    double left_ns;       // of open rounds; NaN: unknown
    double left_most_ns;  // if each case continues to its last; likewise
    bool known;           // left_ns is from rounds of the same cases
} bt_run_left;

typedef struct bt_run_schedule {
    uint64_t seed;
    int64_t case_count, system_count, rounds_max;
    bool *alone;                 // owned, [case_count]: it runs once a pass, on our own worker
    int64_t *wanted;             // owned, [case_count]: number of requested rounds
    bt_run_spent *spent;         // owned, [case_count]: duration of its rounds so far
    int64_t *order;              // owned, [case_count]: of pass order_pass
    bt_run_schedule_cell *cells; // owned, [case_count, rounds_max, system_count]
    int64_t pass;                // all requested rounds of earlier passes are settled
    int64_t order_pass;          // -1: no order yet
} bt_run_schedule;

typedef struct bt_run_schedule_round {
    int64_t case_index;
    int64_t system; // 0 for a case that runs alone
    int64_t ordinal;
    int attempt; // from 0
} bt_run_schedule_round;

// A schedule in which every case of the plan has `rounds` rounds on each system, to be increased up
// to rounds_max. A case that names systems runs only on those of the plan's systems; systems that
// are not from the plan run every case.
// Owns    *out: the caller, bt_run_schedule_release, also after a failure
BT_CHECKED bt_status bt_run_schedule_make(const bt_plan *plan, int64_t system_count, int64_t rounds,
                                          int64_t rounds_max, uint64_t seed, bt_run_schedule *out);
void bt_run_schedule_release(bt_run_schedule *schedule);

// The next round; false: no round is open.
bool bt_run_schedule_next(bt_run_schedule *schedule, bt_run_schedule_round *out);
// Sets the number of rounds of a case, at most rounds_max. A smaller number closes open rounds.
void bt_run_schedule_want(bt_run_schedule *schedule, int64_t case_index, int64_t rounds);
// Adds the outcome of a round. An invalid one counts as an attempt; a settled one is not changed.
void bt_run_schedule_note(bt_run_schedule *schedule, const bt_run_schedule_round *round,
                          bt_run_status status, double time_ns);
// Adds all rounds of a recorded run, matched by the names of cases and systems [system_count];
// interrupted rounds, and failed ones that are resumed, are ignored.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_run_schedule_note_run(bt_run_schedule *schedule, const bt_plan *plan,
                                              const char *const *systems, const bt_store_run *run);
// Whether --resume repeats a failed round (a killed worker, a hang, a full disk) from its
// checkpoints: only our own trainings that save them during the run, not peers.
bool bt_run_schedule_goes_on(const bt_plan *plan, const bt_store_round *round);

// Adds the duration of a round of a case, for bt_run_schedule_left.
void bt_run_schedule_took(bt_run_schedule *schedule, int64_t case_index, double took_ns);

// ---- queries -----------------------------------------------------------------------------------

const bt_run_schedule_cell *bt_run_schedule_cell_of(const bt_run_schedule *schedule,
                                                    int64_t case_index, int64_t system,
                                                    int64_t ordinal);
// Whether every requested round of the case is settled.
bool bt_run_schedule_settled(const bt_run_schedule *schedule, int64_t case_index);
// Requested rounds of all cases, and how many of them are open.
void bt_run_schedule_count(const bt_run_schedule *schedule, int64_t *wanted, int64_t *open);
// last: the number of rounds that a case with open rounds may be increased to; 0: none.
void bt_run_schedule_left(const bt_run_schedule *schedule, int64_t last, bt_run_left *out);
// Mean duration of a case's rounds so far; NaN: it has none.
double bt_run_schedule_mean_ns(const bt_run_schedule *schedule, int64_t case_index);
// log(time) of the rounds that were kept, in order of their ordinals, NaN for the others, to logs
// [rounds_max].
void bt_run_schedule_logs(const bt_run_schedule *schedule, int64_t case_index, int64_t system,
                          double *logs);

#endif
