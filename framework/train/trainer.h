// framework/train/trainer.h - the state of an open training run, shared by the files of this folder
//
// Internal to this folder: the interface is train.h. trainer.c opens and closes, train.c runs the
// steps, keep.c keeps the training state: its list, its digest, checkpoints; ranks.c is for runs on
// several ranks.
#ifndef BT_TRAIN_TRAINER_H
#define BT_TRAIN_TRAINER_H

#include "framework/autograd/session.h"
#include "framework/checkpoint/writer.h"
#include "framework/compiler/step.h"
#include "framework/device/region.h"
#include "framework/dist/data_parallel.h"
#include "framework/dist/host_tensors.h"
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

// The saved state of a run, and the save in flight.
typedef struct bt_keep {
    bt_state state; // parameters, then moments; values of the last save or load
    // Ranks have parts of the state: the list's tensors, on rank 0, are in host memory, and work
    // with them takes place on the CPU.
    bool in_host;
    bt_device cpu;
    bt_context host;    // of these tensors
    bt_stream stream;   // owned; collects the state beside a step; NULL: no asynchronous saves
    bt_event collected; // owned; when that has ended
    bool collecting;    // the next update must wait for it
    char **names;       // owned [name_count], each owned: of the moments
    int64_t name_count;
    uint64_t size_bytes;          // number of tensors in a checkpoint
    bt_checkpoint_store store;    // folder NULL: no checkpoints
    bt_checkpoint_writer *writer; // owned; NULL: saved directly from the tensors' memory, on a CPU
    int64_t given_step;           // step of the newest save that was started, complete or not; -1:
                                  // none
    int64_t given_ns, blocked_ns; // when it was started, and how long training waited for that
    bool in_flight;               // the writer has it, and its end was not reported yet
    bt_checkpoint_info loaded;    // time of the last load
    int64_t load_ns;
    bt_status failure; // of the last completed save, with its message
    char failure_message[BT_ERROR_CAPACITY];
    int64_t clock_ns; // start of the interval until the next save by time
} bt_keep;

// State of the checks of steps.
typedef struct bt_faults {
    bt_guard guard;
    bt_loader_cursor from;  // data position before the step
    bool nonfinite;         // the last step was flagged
    int64_t refused;        // consecutive steps that were skipped or rolled back
    bool alike;             // the run ends by values that all ranks have: no abort is needed
    char *snapshot;         // owned, from the pool: the state before the step; NULL: none
    bt_state_values values; // of the snapshot
} bt_faults;

// Gradients and norm of a step, captured (graph.c).
typedef struct bt_step_graph {
    bt_graph captured; // owned; NULL: none
    uint64_t frozen;   // identifies the memory whose addresses were captured
    int64_t kernels;   // of the kernel table that the capture launched
    int64_t capture_ns;
    bool capturing;
    bool draws;           // a kernel takes a random seed, which the graph would repeat
    bool failed;          // a capture failed; there will be no other
    char why[160];        // reason of the failure
    bool told;            // a mode was reported
    bt_train_launch last; // the mode reported last
} bt_step_graph;

// The tensors that the training state has of each parameter.
enum { BT_STATE_MASTER, BT_STATE_FIRST_MOMENT, BT_STATE_SECOND_MOMENT, BT_STATE_KINDS };

// The whole state, if ranks have parts of parameters (mesh_state.c).
typedef struct bt_mesh_state {
    bt_param_part *parts;  // owned [specs, ranks of tensor]
    bt_host_tensors whole; // owned [BT_STATE_KINDS, specs]; of the first rank
} bt_mesh_state;

typedef struct bt_trainer {
    const bt_train_plan *plan;         // borrowed
    const bt_train_observer *observer; // borrowed
    bt_session session;
    bt_mesh mesh; // owned
    bt_params params;
    bt_model model;
    bt_code_cache code;         // cache of generated kernels
    bt_compiled_step *compiled; // owned; NULL: steps run eagerly
    bt_adamw optimizer;
    bt_mesh_state mesh_state;
    bt_data_parallel *parallel;   // owned; NULL: one rank, and no virtual shards
    bt_context_ring *ring;        // owned; NULL: each rank has whole sequences, or U is all of them
    struct bt_aside *aside;       // owned; for half-batches; NULL: none
    struct bt_row_chunks *chunks; // owned; for row_chunks; NULL: none
    bt_group *ring_ranks, *head_ranks; // owned; the context parallel ranks; NULL likewise
    bt_nn_context sharing;             // of the model
    bt_tensor *positions;              // retained; of this rank's tokens, NULL likewise
    bt_schedule schedule;
    bt_loader *train, *val; // owned; val NULL: no evaluation
    bt_feed feed;
    bt_profile *profile;
    bt_tensor *losses;     // retained [accumulation] f32, losses of this rank's micro-batches
    bt_tensor *all_losses; // retained [micro_batches] f32, of all ranks; NULL on one rank
    float *host_losses;    // owned [micro_batches]
    bt_event step_start, step_stop;
    bt_region steps; // timed
    // Micro-batches of a step: of all ranks, of this one. With context parallelism, a rank's part
    // of a micro-batch counts as one.
    int64_t micro_batches, accumulation;
    int64_t first_step; // 0, or the step of the checkpoint that was resumed
    bt_keep keep;
    bt_faults faults;
    bt_trace trace;
    bt_step_graph graph;
    bt_ranges ranges;      // used if the observer has none
    void *marks;           // owned, page-locked [BT_RANGES_MARKS] bytes; NULL: no watcher
    float loss, grad_norm; // of the last step
    bt_seen_kernel seen[BT_TRAINER_KERNELS]; // each was reported once
    int seen_count, reported_count;
    bool plans_seen; // a training step is complete: kernels already reported are not reported again
} bt_trainer;

// ---- trainer.c ----------------------------------------------------------------------------------

// Opens what the plan names and resumes from a checkpoint if the plan says so.
// Owns    *t: the caller, until bt_trainer_close, also when this fails. Initialize it with plan and
//         observer.
BT_CHECKED bt_status bt_trainer_open(bt_trainer *t);
void bt_trainer_close(bt_trainer *t);
// Reports kernels used for the first time, and a warning of the tuner. Called after a training
// step, when every plan of a step is known.
BT_CHECKED bt_status bt_trainer_report_kernels(bt_trainer *t);

// ---- compiled.c ---------------------------------------------------------------------------------

// Compiles the step if the plan says so. Needs model, feed and parallel.
// Errors  as bt_compiled_step_prepare; a step that cannot be compiled is reported, not an error
BT_CHECKED bt_status bt_trainer_compile(bt_trainer *t);
// Reports the result to the observer.
BT_CHECKED bt_status bt_trainer_report_compiled(const bt_trainer *t);
// After a profiled step: reports the kernels of compiled steps, with their times in its last
// micro-batch.
BT_CHECKED bt_status bt_trainer_report_groups(const bt_trainer *t);
bool bt_trainer_runs_compiled(const bt_trainer *t);
// Steps run generated kernels; false also where a step was not compiled, or forms no groups.
bool bt_trainer_has_groups(const bt_trainer *t);
// Time to generate the code for all kinds of steps; 0: not compiled.
int64_t bt_trainer_compile_ns(const bt_trainer *t);
void bt_trainer_compile_close(bt_trainer *t);

// ---- step.c -------------------------------------------------------------------------------------

// The model's inputs of micro-batch i.
bt_batch bt_step_batch(const bt_trainer *t, const bt_feed *feed, int64_t i);
// Forward and backward of all micro-batches of a step: gradients, losses on the device.
BT_CHECKED bt_status bt_step_gradients(bt_trainer *t);
// The same, their norm, and the update unless the policy for non-finite steps refuses it.
BT_CHECKED bt_status bt_step_work(bt_trainer *t, double lr, bt_train_launch launch);
// Norm and scale of the step's gradients, on the device.
BT_CHECKED bt_status bt_step_measure(bt_trainer *t);
// Waits for the step and reads its loss and gradient norm into t.
BT_CHECKED bt_status bt_step_read(bt_trainer *t);
// Whether the loss and the gradient norm that were read are finite.
bool bt_step_is_finite(const bt_trainer *t);
// Repeats the step, with the pool's plan.
BT_CHECKED bt_status bt_step_again(bt_trainer *t, int64_t step);

// ---- graph.c ------------------------------------------------------------------------------------

// How the next step is launched.
bt_train_launch bt_step_graph_choose(const bt_trainer *t, bool profiled);
// Called for every kernel launch.
void bt_step_graph_hear(bt_trainer *t, const bt_kernel *kernel, const void *args);
// Captures what `work` launches on the context's stream, the only one it may use. *captured false:
// capture is impossible, nothing was launched, and gradients and tape are unchanged.
BT_CHECKED bt_status bt_step_graph_capture(bt_trainer *t, bt_status (*work)(bt_trainer *),
                                           bool *captured);
BT_CHECKED bt_status bt_step_graph_launch(bt_trainer *t);
// Reports how the step was launched, if that changed.
BT_CHECKED bt_status bt_step_graph_report(bt_trainer *t, int64_t step, bt_train_launch launch);
// Drops the graph: its addresses, or the optimizer's list of gradients, are no longer valid.
void bt_step_graph_drop(bt_trainer *t);

// ---- ranks.c ------------------------------------------------------------------------------------

// The number of ranks with tokens of their own, and this rank's index among them: data parallel
// times context parallel.
int bt_ranks_count(const bt_trainer *t);
int bt_ranks_own(const bt_trainer *t);
// The number of ranks that share a sequence; their description for the model. Needs the device.
int bt_ranks_sharing(const bt_trainer *t);
BT_CHECKED bt_status bt_ranks_open_sharing(bt_trainer *t);
void bt_ranks_close_sharing(bt_trainer *t);
// The number of all ranks, and whether this is rank 0, which writes and reports.
int bt_ranks_world(const bt_trainer *t);
bool bt_ranks_is_first(const bt_trainer *t);
// Creates the mesh. Call it first.
BT_CHECKED bt_status bt_ranks_meet(bt_trainer *t);
// Creates the optimizer and the communication between ranks.
// Errors  INVALID_ARGUMENT naming a rank that runs another plan
BT_CHECKED bt_status bt_ranks_open(bt_trainer *t, const bt_adamw_config *config);
// Reports if the bits depend on the number of ranks.
BT_CHECKED bt_status bt_ranks_note(bt_trainer *t);
// Broadcasts rank 0's `data`, host memory.
BT_CHECKED bt_status bt_ranks_share(bt_trainer *t, void *data, size_t size_bytes);
// The sum, in order, of `count` numbers, of which the i-th is own[i / ranks] of rank i % ranks.
// Shapes  own [rounds], rounds = ceil(count / ranks)
BT_CHECKED bt_status bt_ranks_sum_rounds(bt_trainer *t, const float *own, int64_t rounds,
                                         int64_t count, double *sum);
// host_losses = the losses of all micro-batches of the step, in order. Waits for the device.
BT_CHECKED bt_status bt_ranks_read_losses(bt_trainer *t);
// The state of parameter `item` of this rank's list: BT_STATE_MASTER etc.; gathered over the data
// parallel ranks in host memory, if this rank has it.
bt_tensor *bt_ranks_state(const bt_trainer *t, int64_t item, int kind);
// The run has failed on this rank: aborts the others with this thread's error message.
void bt_ranks_fail(const bt_train_plan *plan);

// ---- mesh_state.c -------------------------------------------------------------------------------
// These functions do nothing without tensor parallelism. They need parameters and optimizer.
BT_CHECKED bt_status bt_mesh_state_open(bt_trainer *t);
void bt_mesh_state_close(bt_trainer *t);
// On the first rank: the whole tensor of a parameter, in host memory. kind: BT_STATE_MASTER
// etc.
bt_tensor *bt_mesh_state_whole(const bt_trainer *t, int64_t spec, int kind);
// Gathers the parts on the first rank, from data parallel ranks that have whole parts; and the
// reverse.
BT_CHECKED bt_status bt_mesh_state_collect(bt_trainer *t);
BT_CHECKED bt_status bt_mesh_state_spread(bt_trainer *t);

// ---- faults.c -----------------------------------------------------------------------------------

// Before a step: saves what a replay needs.
BT_CHECKED bt_status bt_faults_begin(bt_trainer *t, int64_t step);
// After a completed step: judges its loss and norm, replays it if that is due, and applies the
// policy.
// Errors  CORRUPT_DATA if the run must end
BT_CHECKED bt_status bt_faults_end(bt_trainer *t, int64_t step);
// A step that failed with `status`: reports it if anomaly mode ended it. Returns `status`.
bt_status bt_faults_failed(bt_trainer *t, int64_t step, bt_status status);
void bt_faults_close(bt_trainer *t);

// ---- verify.c -----------------------------------------------------------------------------------

// Whether the step is to be replayed.
bool bt_verify_due(const bt_trainer *t, int64_t step);
BT_CHECKED bt_status bt_verify_begin(bt_trainer *t, int64_t step);
// Replays the step and compares the bits of loss, norm and state. *agree: whether the state is now
// one that two of three runs gave, with a message. Nothing is reported for a step that repeats
// exactly.
BT_CHECKED bt_status bt_verify_end(bt_trainer *t, int64_t step, bool *agree, char *message,
                                   size_t capacity);

// ---- keep.c -------------------------------------------------------------------------------------

// The context of the list's tensors: the session's, or the host's.
bt_context *bt_keep_context(bt_trainer *t);
// Whether a checkpoint will be loaded, so that the model needs no initial values; collective.
BT_CHECKED bt_status bt_keep_expects(bt_trainer *t, bool *expects);
// Creates the list of the state and the writer, and resumes from a checkpoint if the plan says so.
// Needs model, optimizer and feed. Errors: INVALID_ARGUMENT if there are checkpoints but the plan
// does not resume
BT_CHECKED bt_status bt_keep_open(bt_trainer *t);
void bt_keep_close(bt_trainer *t);
// Gathers the state of all ranks in the tensors of rank 0's list, and waits for it; collective.
BT_CHECKED bt_status bt_keep_collect(bt_trainer *t);
// Before masters and moments change: the stream waits until an asynchronous save has collected
// them.
BT_CHECKED bt_status bt_keep_await(bt_trainer *t);
// Loads the newest checkpoint that verifies, of a step below `below` (0: any), and restores
// everything that depends on it: bf16 copies, the optimizer's step, the data position. *step is its
// step; if there is none, 0, and the state is unchanged. Newer checkpoints excluded by choice are
// removed.
// Errors  as bt_checkpoint_load_newest; INVALID_ARGUMENT for a checkpoint of another schedule or
//         seed, naming the value
BT_CHECKED bt_status bt_keep_load(bt_trainer *t, int64_t below, int64_t *step);
// Reports that load.
BT_CHECKED bt_status bt_keep_report_load(const bt_trainer *t);
// Whether a save still collects the state, or copies it to the host.
bool bt_keep_copies(const bt_trainer *t);
// Begins a save after `step` steps if one is due, and reports the end of the one in flight. A
// failed save is reported and training continues.
BT_CHECKED bt_status bt_keep_tick(bt_trainer *t, int64_t step);
// The run ends after `step` steps: saves that state if the plan says so and it is not saved, and
// waits until it is durable.
// Errors  those of the save
BT_CHECKED bt_status bt_keep_finish(bt_trainer *t, int64_t step);
// Restores what depends on the optimizer's masters and moments after these were set to an earlier
// state: the weights that ops read, step, data position. All ranks call it.
BT_CHECKED bt_status bt_keep_take_masters(bt_trainer *t, const bt_state_values *values);
// The same for the state's list.
BT_CHECKED bt_status bt_keep_take_state(bt_trainer *t, const bt_state_values *values);
// Replaces parameters and moments by those of the newest checkpoint and continues with the next
// batch and with step `step`. *from: the step of the checkpoint.
// Errors  UNAVAILABLE if there is no checkpoint, those of bt_keep_load
BT_CHECKED bt_status bt_keep_roll_back(bt_trainer *t, int64_t step, int64_t *from);
// The values and the digest of the state after `step` steps.
void bt_keep_values(const bt_trainer *t, int64_t step, bt_state_values *values);
BT_CHECKED bt_status bt_keep_digest(bt_trainer *t, int64_t step, char digest[33]);
// Reports the digest of parameters and moments after `step` steps if the plan says so.
BT_CHECKED bt_status bt_keep_report_state(bt_trainer *t, int64_t step);

#endif
