// harness/run/record.h - writes the events of a round to the store, and its measurements at the end
#ifndef BT_HARNESS_RUN_RECORD_H
#define BT_HARNESS_RUN_RECORD_H

#include "harness/plan/plan.h"
#include "harness/run/event.h"
#include "harness/store/store.h"

typedef struct bt_recorder_recovery {
    bt_run_event_recovery event; // texts are gone
    int64_t repeated_steps;
    int64_t caught_up_ns; // 0: the repeated steps are not done
} bt_recorder_recovery;

typedef struct bt_recorder {
    bt_store *store; // borrowed
    int64_t round;
    const cJSON *item;    // borrowed: the case of the plan
    bt_store_step *steps; // owned, [step_count]: for the measurements
    int64_t step_count, step_capacity;
    double *times_ns; // owned, [time_count]: samples of a kernel case
    int64_t time_count, time_capacity;
    bool measured;                // the result was correct and all samples have arrived
    bt_run_event_measured calls;  // then; its text is `stop`
    char stop[64];                // why there are no more samples
    int64_t compile_ns;           // of a step; 0: nothing is compiled
    double output_error_share;    // of the outputs returned by a peer; NaN: none returned
    double total_ns;              // of all calls that were timed
    double evals_ns;              // of all evaluations
    double saves_ns;              // time between steps that training waited for checkpoints
    const bt_store_round *before; // borrowed: the interrupted round that this one resumes; NULL:
                                  // none
    int64_t first_step;           // number of its steps that were copied
    bt_run_event_save *saves;     // owned, [save_count]: of those that succeeded, texts are gone
    int64_t save_count, save_capacity;
    bt_recorder_recovery *recoveries; // owned, [recovery_count]
    int64_t recovery_count, recovery_capacity;
    bool ours;              // the system is our own trainer
    bool on_gpu;            // the plan's device
    int64_t profiled_steps; // with ranges
    double exposed_ns;      // of communication, in all of them
    double load_ns;         // 0: nothing was loaded
    int64_t failed_saves;
    char failed_save[256];               // why the last of them failed
    int64_t first_step_ns, last_step_ns; // when their events came, of this clock; 0: none yet
    double copy_bytes_per_s;             // reference of bandwidth fractions; 0: unknown
    double bandwidth_bytes_per_s;        // measured; 0: it was not
    double time_ns;                      // mean of a call or a step; NaN: it was not timed
    double rate_tok_s;                   // of the timed steps; NaN: none
    double energy_j, work_power_w;       // as in bt_telemetry_summary; NaN: not known
    double *val_losses;                  // owned, [eval_count]
    int64_t eval_count, eval_capacity;
    bt_store_memory memory; // the most so far
    int64_t started_ns;
    char params_digest[65];
} bt_recorder;

// Begins a round of a case in the store.
BT_CHECKED bt_status bt_recorder_begin(bt_store *store, int64_t run, const char *bench,
                                       const cJSON *item, const char *system, int64_t ordinal,
                                       bt_recorder *out);
// What the machine did meanwhile, for the energy; not called where nobody watched.
BT_CHECKED bt_status bt_recorder_take_machine(bt_recorder *recorder,
                                              const bt_store_telemetry *samples, int64_t count);
BT_CHECKED bt_status bt_recorder_take(bt_recorder *recorder, const bt_run_event *event);
// Writes the round's measurements and ends it.
BT_CHECKED bt_status bt_recorder_end(bt_recorder *recorder, bt_run_status status,
                                     const char *message);
void bt_recorder_release(bt_recorder *recorder);

// ---- record_measure.c --------------------------------------------------------------------------

// Writes all measurements of the round.
BT_CHECKED bt_status bt_recorder_measure(bt_recorder *recorder);

#endif
