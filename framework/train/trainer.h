// framework/train/trainer.h - a training run that is open: what its files share
//
// For this folder only: train.h is what others call. trainer.c opens and closes, train.c runs the
// steps, keep.c keeps the training state: its list, its digest, checkpoints; ranks.c is for runs by
// several ranks.
#ifndef BT_TRAIN_TRAINER_H
#define BT_TRAIN_TRAINER_H

#include "framework/autograd/session.h"
#include "framework/checkpoint/writer.h"
#include "framework/compiler/step.h"
#include "framework/device/region.h"
#include "framework/dist/data_parallel.h"
#include "framework/optim/adamw.h"
#include "framework/optim/schedule.h"
#include "framework/train/feed.h"
#include "framework/train/guard.h"
#include "framework/train/profile.h"
#include "framework/train/trace.h"

enum { BT_TRAINER_KERNELS = 128 };
enum { BT_MEMORY_TRAINING, BT_MEMORY_EVALUATION }; // kinds of repeated steps that the pool plans

typedef struct bt_seen_kernel {
    const bt_kernel *kernel; // borrowed, a row
    char label[96];
} bt_seen_kernel;

// What is kept of a run, and the save in flight.
typedef struct bt_keep {
    bt_state state; // parameters, then moments; values are those of the last save or load
    char **names;   // owned [name_count], each owned: of the moments
    int64_t name_count;
    uint64_t size_bytes;          // of the tensors that a checkpoint holds
    bt_checkpoint_store store;    // folder NULL: no checkpoints
    bt_checkpoint_writer *writer; // owned; NULL: saved from the tensors' own memory, by a CPU
    int64_t given_step;           // of the newest save that was given, done or not; -1: none
    int64_t given_ns, blocked_ns; // when, and how long training waited for it to be given
    bool in_flight;               // the writer has it, and its end was not reported yet
    bt_checkpoint_info loaded;    // by the last load, in load_ns
    int64_t load_ns;
    bt_status failure; // of the last save that ended, with its message
    char failure_message[BT_ERROR_CAPACITY];
    int64_t clock_ns; // from here on the minutes until the next save count
} bt_keep;

// What watches over the steps.
typedef struct bt_faults {
    bt_guard guard;
    bt_loader_cursor from;  // where the data stood before the step
    bool nonfinite;         // the last step was
    int64_t refused;        // steps in a row that were skipped or rolled back
    bool alike;             // the run ends by values that all ranks have: nobody must be told
    char *snapshot;         // owned, of the pool: the state before the step; NULL: none
    bt_state_values values; // of the snapshot
} bt_faults;

// Gradients and norm of a step, captured (graph.c).
typedef struct bt_step_graph {
    bt_graph captured; // owned; NULL: none
    uint64_t frozen;   // names the memory by whose addresses it was captured
    int64_t kernels;   // that the capture launched
    int64_t capture_ns;
    bool capturing;
    bool draws;           // a kernel draws random numbers by a seed that the graph would repeat
    bool failed;          // a capture did; there is no other
    char why[160];        // of that
    bool told;            // a mode was
    bt_train_launch last; // that was told
} bt_step_graph;

// The state as a whole, where ranks have parts of parameters (mesh_state.c).
typedef struct bt_mesh_state {
    bt_param_part *parts; // owned [specs, ranks of tensor]
    bt_tensor **whole[3]; // owned [specs], retained; the first rank: masters, m, v of what ranks
                          // share, NULL of the rest
} bt_mesh_state;

typedef struct bt_trainer {
    const bt_train_plan *plan;         // borrowed
    const bt_train_observer *observer; // borrowed
    bt_session session;
    bt_mesh mesh; // owned
    bt_params params;
    bt_model model;
    bt_code_cache code;         // of generated kernels
    bt_compiled_step *compiled; // owned; NULL: steps run eagerly
    bt_adamw optimizer;
    bt_mesh_state mesh_state;
    bt_data_parallel *parallel; // owned; NULL: one rank, and no virtual shards
    bt_context_ring *ring;      // owned; NULL: each rank has whole sequences, or U is all of them
    struct bt_aside *aside;     // owned; of half-batches, NULL: there are none
    bt_group *ring_ranks, *head_ranks; // owned; of the ranks that share sequences, NULL likewise
    bt_nn_context sharing;             // of the model
    bt_tensor *positions;              // retained; of this rank's tokens, NULL likewise
    bt_schedule schedule;
    bt_loader *train, *val; // owned; val NULL: there is no evaluation
    bt_feed feed;
    bt_profile *profile;
    bt_tensor *losses;     // retained [accumulation] f32, losses of this rank's micro-batches
    bt_tensor *all_losses; // retained [micro_batches] f32, of all ranks; NULL on one rank
    float *host_losses;    // owned [micro_batches]
    bt_event step_start, step_stop;
    bt_region steps; // timed
    // Of a step: of all ranks, of this one. Where ranks share sequences, a rank's part of a
    // micro-batch counts as one.
    int64_t micro_batches, accumulation;
    int64_t first_step; // 0, or that of the checkpoint from which the run went on
    bt_keep keep;
    bt_faults faults;
    bt_trace trace;
    bt_step_graph graph;
    bt_ranges ranges;      // where the observer has none
    void *marks;           // owned, page-locked [BT_RANGES_MARKS] bytes; NULL: nobody watches
    float loss, grad_norm; // of the last step
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

// ---- compiled.c ---------------------------------------------------------------------------------

// Compiles the step where the plan asks for it. Needs model, feed and parallel.
// Errors  as bt_compiled_step_prepare: what cannot be compiled is none, it is reported
BT_CHECKED bt_status bt_trainer_compile(bt_trainer *t);
// Tells the observer what came of it.
BT_CHECKED bt_status bt_trainer_report_compiled(const bt_trainer *t);
// Behind a profiled step: the kernels of compiled steps, with their times in its last micro-batch.
BT_CHECKED bt_status bt_trainer_report_groups(const bt_trainer *t);
bool bt_trainer_runs_compiled(const bt_trainer *t);
// How long code for all kinds of steps took; 0: nothing is compiled.
int64_t bt_trainer_compile_ns(const bt_trainer *t);
void bt_trainer_compile_close(bt_trainer *t);

// ---- train.c ------------------------------------------------------------------------------------

// Forward and backward of all micro-batches of a step: gradients, losses on the device.
BT_CHECKED bt_status bt_step_gradients(bt_trainer *t);
// The same, their norm, and the update unless bt_faults_allow refuses it.
BT_CHECKED bt_status bt_step_work(bt_trainer *t, double lr, bt_train_launch launch);
// Norm and scale of the step's gradients, on the device.
BT_CHECKED bt_status bt_step_measure(bt_trainer *t);
// Waits for the step and reads its loss and gradient norm into t.
BT_CHECKED bt_status bt_step_read(bt_trainer *t);
// The step once more, with the pool's plan.
BT_CHECKED bt_status bt_step_again(bt_trainer *t, int64_t step);

// ---- graph.c ------------------------------------------------------------------------------------

// How the next step is to be launched.
bt_train_launch bt_step_graph_choose(const bt_trainer *t, bool profiled);
// Hears of every kernel that is launched.
void bt_step_graph_hear(bt_trainer *t, const bt_kernel *kernel, const void *args);
// Captures what `work` launches, which uses no stream but the context's. *captured false: that is
// impossible, nothing was launched, and gradients and tape are as before.
BT_CHECKED bt_status bt_step_graph_capture(bt_trainer *t, bt_status (*work)(bt_trainer *),
                                           bool *captured);
BT_CHECKED bt_status bt_step_graph_launch(bt_trainer *t);
// Reports how the step was launched, if that is news.
BT_CHECKED bt_status bt_step_graph_report(bt_trainer *t, int64_t step, bt_train_launch launch);
// The captured addresses, or what the optimizer knows of them, are no longer those of the next
// step.
void bt_step_graph_drop(bt_trainer *t);

// ---- ranks.c ------------------------------------------------------------------------------------

// Ranks with tokens of their own, and which one this is: data parallel, and in these context.
int bt_ranks_count(const bt_trainer *t);
int bt_ranks_own(const bt_trainer *t);
// How many of them share a sequence; what the model is told of these. Needs the device.
int bt_ranks_sharing(const bt_trainer *t);
BT_CHECKED bt_status bt_ranks_open_sharing(bt_trainer *t);
void bt_ranks_close_sharing(bt_trainer *t);
// All ranks, and whether this is rank 0 of them, which writes and reports.
int bt_ranks_world(const bt_trainer *t);
bool bt_ranks_is_first(const bt_trainer *t);
// Makes the mesh. Before all else.
BT_CHECKED bt_status bt_ranks_meet(bt_trainer *t);
// The optimizer, and what is between ranks. Errors  INVALID_ARGUMENT naming a rank that runs
// another plan
BT_CHECKED bt_status bt_ranks_open(bt_trainer *t, const bt_adamw_config *config);
// Tells the observer where the bits depend on the number of ranks.
BT_CHECKED bt_status bt_ranks_note(bt_trainer *t);
// Everybody's `data`, host memory, becomes rank 0's.
BT_CHECKED bt_status bt_ranks_share(bt_trainer *t, void *data, size_t size_bytes);
// The sum, in order, of `count` numbers, of which the i-th is own[i / ranks] of rank i % ranks.
// Shapes  own [rounds], rounds = ceil(count / ranks)
BT_CHECKED bt_status bt_ranks_sum_rounds(bt_trainer *t, const float *own, int64_t rounds,
                                         int64_t count, double *sum);
// host_losses = the losses of all micro-batches of the step, in order. Waits for the device.
BT_CHECKED bt_status bt_ranks_read_losses(bt_trainer *t);
// The run has failed here: the other ranks fail too, with this thread's error message.
void bt_ranks_fail(const bt_train_plan *plan);

// ---- mesh_state.c -------------------------------------------------------------------------------
// All of these do nothing where no parameter is shared. Needs parameters and optimizer.
BT_CHECKED bt_status bt_mesh_state_open(bt_trainer *t);
void bt_mesh_state_close(bt_trainer *t);
// The first rank: the tensor of a shared parameter as a whole. kind: 0 master, 1 m, 2 v
bt_tensor *bt_mesh_state_whole(const bt_trainer *t, int64_t spec, int kind);
// Brings the parts together on the first rank, from where data parallel ranks have theirs whole;
// and the reverse.
BT_CHECKED bt_status bt_mesh_state_collect(bt_trainer *t);
BT_CHECKED bt_status bt_mesh_state_spread(bt_trainer *t);

// ---- faults.c -----------------------------------------------------------------------------------

// Before a step: remembers what a replay needs.
BT_CHECKED bt_status bt_faults_begin(bt_trainer *t, int64_t step);
// Between gradients and update: whether the policy lets the update be applied. Waits for the device
// under every policy but CONTINUE.
BT_CHECKED bt_status bt_faults_allow(bt_trainer *t, bool *allowed);
// Behind a step that was done: judges its loss and norm, replays it if that is due, and does what
// the policy says.
// Errors  CORRUPT_DATA when the run must end
BT_CHECKED bt_status bt_faults_end(bt_trainer *t, int64_t step);
// A step that ended with `status`: reports it when anomaly mode ended it. Returns `status`.
bt_status bt_faults_failed(bt_trainer *t, int64_t step, bt_status status);
void bt_faults_close(bt_trainer *t);

// ---- verify.c -----------------------------------------------------------------------------------

// Whether the step is to be replayed.
bool bt_verify_due(const bt_trainer *t, int64_t step);
BT_CHECKED bt_status bt_verify_begin(bt_trainer *t, int64_t step);
// Replays the step and compares the bits of loss, norm and state. Message and *agree: whether the
// state is now one that two of three runs gave. Nothing is written for a step that repeats.
BT_CHECKED bt_status bt_verify_end(bt_trainer *t, int64_t step, bool *agree, char *message,
                                   size_t capacity);

// ---- keep.c -------------------------------------------------------------------------------------

// What is kept of parameter `item` of this rank's list: 0 master, 1 m, 2 v; whole over the data
// parallel ranks, where this rank has that.
bt_tensor *bt_keep_tensor(const bt_trainer *t, int64_t item, int kind);
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
// Reports that load.
BT_CHECKED bt_status bt_keep_report_load(const bt_trainer *t);
// Whether a save in flight still copies the state to the host.
bool bt_keep_copies(const bt_trainer *t);
// Begins a save behind `step` steps if one is due, and reports the end of the one in flight. A save
// that fails is reported and training goes on.
BT_CHECKED bt_status bt_keep_tick(bt_trainer *t, int64_t step);
// The run ends behind `step` steps: saves that state if the plan asks for it and it is not saved,
// and waits until it is durable.
// Errors  those of the save
BT_CHECKED bt_status bt_keep_finish(bt_trainer *t, int64_t step);
// What follows from masters and moments of the optimizer that were set to an earlier state: the
// weights that ops read, step, data position. All ranks call it.
BT_CHECKED bt_status bt_keep_take_masters(bt_trainer *t, const bt_state_values *values);
// The same of the state's list.
BT_CHECKED bt_status bt_keep_take_state(bt_trainer *t, const bt_state_values *values);
// Puts parameters and moments of the newest checkpoint in place of the present ones and goes on
// with the next batch and with step `step`. *from: the step of the checkpoint.
// Errors  UNAVAILABLE when there is no checkpoint, those of bt_keep_load
BT_CHECKED bt_status bt_keep_roll_back(bt_trainer *t, int64_t step, int64_t *from);
// The values and the digest of the state behind `step` steps.
void bt_keep_values(const bt_trainer *t, int64_t step, bt_state_values *values);
BT_CHECKED bt_status bt_keep_digest(bt_trainer *t, int64_t step, char digest[33]);
// Reports the digest of parameters and moments behind `step` steps where the plan asks for it.
BT_CHECKED bt_status bt_keep_report_state(bt_trainer *t, int64_t step);

#endif
