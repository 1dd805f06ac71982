// framework/train/trainer.h - a training run that is open: what its files share
//
// For this folder only: train.h is what others call. trainer.c opens and closes, train.c runs the
// steps, keep.c keeps the training state: its list, its digest, checkpoints.
#ifndef BT_TRAIN_TRAINER_H
#define BT_TRAIN_TRAINER_H

#include "framework/autograd/session.h"
#include "framework/checkpoint/writer.h"
#include "framework/device/region.h"
#include "framework/optim/adamw.h"
#include "framework/optim/schedule.h"
#include "framework/train/feed.h"
#include "framework/train/profile.h"

enum { BT_TRAINER_KERNELS = 128 };

typedef struct bt_seen_kernel {
    const bt_kernel *kernel; // borrowed, a row
    char label[96];
} bt_seen_kernel;

// What is kept of a run, and the save in flight.
typedef struct bt_keep {
    bt_state state; // parameters, then moments; values are those of the last save or load
    char **names;   // owned [name_count], each owned: of the moments
    int64_t name_count;
    uint64_t size_bytes;          // of the tensors
    bt_checkpoint_store store;    // folder NULL: no checkpoints
    bt_checkpoint_writer *writer; // owned; NULL: saved from the tensors' own memory, by a CPU
    int64_t given_step;           // of the newest save that was given, done or not; -1: none
    int64_t given_ns, blocked_ns; // when, and how long training waited for it to be given
    bool in_flight;               // the writer has it, and its end was not reported yet
    bt_status failure;            // of the last save that ended, with its message
    char failure_message[BT_ERROR_CAPACITY];
    int64_t clock_ns; // from here on the minutes until the next save count
} bt_keep;

typedef struct bt_trainer {
    const bt_train_plan *plan;         // borrowed
    const bt_train_observer *observer; // borrowed
    bt_session session;
    bt_params params;
    bt_gpt2 model;
    bt_adamw optimizer;
    bt_schedule schedule;
    bt_loader *train, *val; // owned; val NULL: there is no evaluation
    bt_feed feed;
    bt_profile *profile;
    bt_tensor *losses; // retained [accumulation] f32, a step's micro-batch losses
    float *host_losses;
    bt_event step_start, step_stop;
    bt_region steps; // timed
    int64_t accumulation;
    int64_t first_step; // 0, or that of the checkpoint from which the run went on
    bt_keep keep;
    bt_seen_kernel seen[BT_TRAINER_KERNELS]; // reported once each
    int seen_count, reported_count;
    bool plans_seen; // a training step is done: from now on a row that is known has no news
} bt_trainer;

// ---- trainer.c ----------------------------------------------------------------------------------

// Opens what the plan names and goes on from a checkpoint where the plan asks for it.
// Owns    *t: the caller, until bt_trainer_close, also when this fails. It begins as plan and
// observer.
BT_CHECKED bt_status bt_trainer_open(bt_trainer *t);
void bt_trainer_close(bt_trainer *t);
// Reports kernels that have come up since the last time, and a warning of the tuner. Called behind
// a training step, so every plan of a step is known.
BT_CHECKED bt_status bt_trainer_report_kernels(bt_trainer *t);

// ---- keep.c -------------------------------------------------------------------------------------

// Makes the list of the state and the writer, and goes on from a checkpoint where the plan asks for
// it. Needs model, optimizer and feed. Errors  INVALID_ARGUMENT when there are checkpoints but the
// plan does not go on from them
BT_CHECKED bt_status bt_keep_open(bt_trainer *t);
void bt_keep_close(bt_trainer *t);
// Loads the newest checkpoint that verifies, of a step below `below` (0: any), and sets everything
// that follows from it: bf16 copies, the optimizer's step, the data position. *step is its step, or
// 0, and the state as it was, when there is none. Newer checkpoints that were left out by choice
// are removed.
// Errors  as bt_checkpoint_load_newest; INVALID_ARGUMENT for a checkpoint of another schedule or
//         seed, naming the value
BT_CHECKED bt_status bt_keep_load(bt_trainer *t, int64_t below, int64_t *step);
// Begins a save behind `step` steps if one is due, and reports the end of the one in flight. A save
// that fails is reported and training goes on.
BT_CHECKED bt_status bt_keep_tick(bt_trainer *t, int64_t step);
// The run ends behind `step` steps: saves that state if the plan asks for it and it is not saved,
// and waits until it is durable.
// Errors  those of the save
BT_CHECKED bt_status bt_keep_finish(bt_trainer *t, int64_t step);
// The values and the digest of the state behind `step` steps.
void bt_keep_values(const bt_trainer *t, int64_t step, bt_state_values *values);
BT_CHECKED bt_status bt_keep_digest(bt_trainer *t, int64_t step, char digest[33]);

#endif
