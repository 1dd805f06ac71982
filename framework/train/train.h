// framework/train/train.h - trains a model: takes a plan, reports events
//
// bt_train_run is a plain loop: batches, forward, backward, accumulate, clip, AdamW, report. It
// does not print and writes no files except checkpoints; it reports everything through the
// observer, in order, on the calling thread.
//
// Invariants
//   1. The same build, device and plan give the same bits: every loss, and the digest of the
//      training state, for any number of threads. A run resumed from a checkpoint has the bits of
//      an uninterrupted one.
//   2. A profiled step (ranges timed) computes the same; its event is marked, and its time is not a
//      measurement.
//   3. Evaluation and checkpoints never change parameters, data order or random state.
#ifndef BT_TRAIN_TRAIN_H
#define BT_TRAIN_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/sharding.h"
#include "framework/base/status.h"
#include "framework/base/timeline.h"
#include "framework/device/device.h"
#include "framework/dist/context_ring.h"
#include "framework/dist/mesh.h"
#include "framework/eval/hellaswag.h"
#include "framework/nn/model.h"

// X(enumerator, name, what it means)
#define BT_PRECISION_LIST(X)                                                                       \
    X(FP32, "fp32", "fp32 storage, IEEE fp32 arithmetic")                                          \
    X(TF32, "tf32", "fp32 storage, matrix products on tensor cores with tf32 operands")            \
    X(BF16, "bf16", "bf16 weights and activations, fp32 master weights, gradients and sums")

typedef enum bt_precision {
#define BT_PRECISION_ENUM(name, text, meaning) BT_PRECISION_##name,
    BT_PRECISION_LIST(BT_PRECISION_ENUM)
#undef BT_PRECISION_ENUM
        BT_PRECISION_COUNT
} bt_precision;

const char *bt_precision_name(bt_precision precision);
bool bt_precision_parse(const char *name, bt_precision *precision);

typedef struct bt_train_optimizer {
    double lr, min_lr;    // peak
    int64_t warmup_steps; // linear from lr / warmup_steps
    int64_t decay_steps;  // step at which min_lr is reached; 0: the plan's steps
    double beta1, beta2, epsilon;
    double weight_decay; // on tensors of rank >= 2
    double clip;         // global norm; <= 0: none
} bt_train_optimizer;

// Saving and resuming. Without every_steps, every_minutes and at_end, stopping a run does not save
// it either.
typedef struct bt_train_checkpoints {
    const char *folder;    // of this run alone; NULL: no checkpoints
    int64_t every_steps;   // 0: not by steps
    double every_minutes;  // of wall time; 0: not by time
    bool at_end;           // save after the last step
    int64_t max_to_keep;   // checkpoints to keep, the highest steps; 0: all
    bool asynchronous;     // a thread writes while training goes on; else training waits
    bool host_snapshot;    // asynchronous on a GPU: no copy in device memory, which takes as much
                           // as the state; training waits for the copy to the host
    bool parameters_only;  // omit the moments; such a checkpoint cannot be resumed
    bool reload;           // load the checkpoint of at_end again, to measure the time
    bool resume;           // resume from the newest checkpoint that verifies; if false, there must
                           // be none
    int64_t resume_below;  // only from steps below this; higher ones are removed; 0: any
    const char *plan_hash; // hash of everything that determines the bits; a different one is
                           // refused. NULL: not checked
    const char *build;     // build that writes them, at most 255 bytes; NULL: none
} bt_train_checkpoints;

// Data parallel: this process or thread is one of several ranks, and each calls bt_train_run with
// the same plan except for device ordinal and group. Losses, scores, result and digest are the same
// on every rank; only rank 0 writes, reads and reports checkpoints. A rank that fails aborts the
// group: the others fail with its reason. Only rank 0's should_stop is called. See
// framework/dist/README.md.
typedef struct bt_train_parallel {
    bt_group *group;        // borrowed, this rank's; NULL: one rank. Training runs on its device,
                            // if it has one
    bt_mesh_degrees mesh;   // mesh of the group's ranks; zeros: all are data parallel and divide
                            // the step's micro-batches evenly
    bool sequence_parallel; // sequence parallel: tensor parallel ranks have part of the rows
                            // between the products; they divide the rows of a micro-batch
    bool half_batches;    // tensor parallel ranks process two halves of a micro-batch alternately,
                          // overlapping the sums of one with the products of the other; not with
                          // sequence_parallel
    bool row_chunks;      // with sequence_parallel, overlap the exchange of rows with products and
                          // attention, chunk by chunk (ops/row_chunks.h)
    bt_rotation rotation; // how keys and values are exchanged between context parallel ranks (twice
                          // their number divides the sequence); does not affect any bit
    int64_t shared_heads; // this many consecutive context ranks share heads during attention
                          // (Ulysses), and such groups form a ring; a divisor, at most the heads of
                          // a rank. 0: 1
    bt_sharding sharding; // no effect on one rank
    double bucket_mb;     // size of the buckets in which gradients are reduced, MiB; 0: 25
    int64_t invariant;    // S, virtual shards of a step: the bits are those of any number of ranks
                          // that divides S. A power of 2 that divides the step's micro-batches; 0:
                          // the bits depend on the number of ranks
    bool no_overlap;      // reduce after the backward instead of overlapping it; the bits are the
                          // same
} bt_train_parallel;

// X(enumerator, name, behavior when a loss or a gradient norm is not finite)
#define BT_TRAIN_POLICY_LIST(X)                                                                    \
    X(CONTINUE, "continue",                                                                        \
      "the run continues; at a non-finite norm the parameters are not updated")                    \
    X(STOP, "stop", "the run stops with an error, before the update")                              \
    X(SKIP, "skip", "the step's update is not applied")                                            \
    X(ROLLBACK, "rollback",                                                                        \
      "parameters and moments are restored from the newest checkpoint; training continues with "   \
      "the next batches")

typedef enum bt_train_policy {
#define BT_TRAIN_POLICY_ENUM(name, text, meaning) BT_TRAIN_POLICY_##name,
    BT_TRAIN_POLICY_LIST(BT_TRAIN_POLICY_ENUM)
#undef BT_TRAIN_POLICY_ENUM
        BT_TRAIN_POLICY_COUNT
} bt_train_policy;

const char *bt_train_policy_name(bt_train_policy policy);
bool bt_train_policy_parse(const char *name, bt_train_policy *policy);

// Limit of consecutive skipped or rolled back steps; the next one ends the run.
enum { BT_TRAIN_REFUSALS_MAX = 10 };

// X(enumerator, name, when gradients and norm of a step are launched as one device graph)
#define BT_TRAIN_GRAPH_LIST(X)                                                                     \
    X(AUTO, "auto", "on, because that is faster (lab/README.md)")                                  \
    X(ON, "on", "where possible")                                                                  \
    X(OFF, "off", "never: every kernel is launched by the host")

typedef enum bt_train_graph {
#define BT_TRAIN_GRAPH_ENUM(name, text, meaning) BT_TRAIN_GRAPH_##name,
    BT_TRAIN_GRAPH_LIST(BT_TRAIN_GRAPH_ENUM)
#undef BT_TRAIN_GRAPH_ENUM
        BT_TRAIN_GRAPH_COUNT
} bt_train_graph;

bool bt_train_graph_parse(const char *name, bt_train_graph *graph);

typedef struct bt_train_plan {
    const char *device; // "cpu", "cuda"
    int ordinal;
    bt_precision precision;
    bt_model_config model;
    bt_train_optimizer optimizer;
    const char *const *train_shards; // [train_shard_count] paths of 20240520 shards, in order
    int64_t train_shard_count;
    const char *const *val_shards; // may be empty: no evaluation
    int64_t val_shard_count;
    int64_t micro_batch;     // sequences per forward pass, B
    int64_t sequence;        // tokens per sequence, T <= model.context
    int64_t tokens_per_step; // a multiple of micro_batch * sequence
    int64_t steps;
    int64_t warmup_timing_steps; // first steps whose times are not measurements
    int64_t eval_every;    // evaluate before step 0, every this many steps and at the end; 0: never
    int64_t eval_batches;  // micro-batches per evaluation
    int64_t profile_steps; // number of steps, spread over the run, whose NVTX ranges are timed
    bt_recompute_mode recompute; // what blocks keep for the backward: less memory, more time
    int64_t recompute_blocks;    // number of blocks, from the first; 0: all
    bool compile;                // run steps compiled (compiler/step.h) where that pays
    bool sequential;             // training data in file order; else shuffled by the seed
    uint64_t seed;
    uint64_t memory_limit_bytes; // limit of the device pool; 0: none
    double slowdown; // slow steps down by this fraction, to test measuring tools; 0: none
    bt_train_checkpoints checkpoints;
    const char *init;              // initial weights (eval/pretrained.h); NULL: random
    const bt_hellaswag *hellaswag; // borrowed; questions to score, NULL: none
    int64_t hellaswag_every;       // before step 0, every this many steps and at the end; 0: never
    bt_train_policy on_nonfinite;  // other than CONTINUE: the host waits before each update
    bool anomaly;                  // name the op that makes the first NaN or infinity: slow
    int64_t digest_every;          // report a digest of the state every this many steps; 0: never
    int64_t verify_every;          // replay a step every this many steps and compare bits; 0: never
    bt_train_parallel parallel;
    bt_train_graph graph; // does not affect any bit
} bt_train_plan;

typedef struct bt_train_start {
    const bt_device_info *device;
    int64_t parameters, tensors; // 124,475,904 in 148 for d12 with vocab 50304
    int64_t accumulation;        // micro-batches per step and rank
    int64_t train_tokens, val_tokens;
    int64_t first_step; // 0, or the step of the checkpoint that was resumed
    int64_t compile_ns; // time to compile the step; 0: not compiled
} bt_train_start;

// X(enumerator, name, how a step's gradients and norm are launched, and why)
#define BT_TRAIN_LAUNCH_LIST(X)                                                                    \
    X(GRAPH, "graph", "one launch of a captured graph")                                            \
    X(CAPTURE, "capture",                                                                          \
      "captured as a graph, which was then launched: the host time includes the capture")          \
    X(OFF, "off", "kernel by kernel: the plan switches graphs off")                                \
    X(DEVICE, "device", "kernel by kernel: the device does not support graphs")                    \
    X(RANKS, "ranks", "kernel by kernel: gradients are reduced in buckets, or by several ranks")   \
    X(HOST, "host",                                                                                \
      "kernel by kernel: the step needs the host (anomaly, reported values, tensors in host "      \
      "memory)")                                                                                   \
    X(PROFILED, "profiled", "kernel by kernel: ranges are timed")                                  \
    X(MEMORY, "memory", "kernel by kernel: the step's addresses may still change")                 \
    X(FAILED, "failed", "kernel by kernel: a capture failed")

typedef enum bt_train_launch {
#define BT_TRAIN_LAUNCH_ENUM(name, text, meaning) BT_TRAIN_LAUNCH_##name,
    BT_TRAIN_LAUNCH_LIST(BT_TRAIN_LAUNCH_ENUM)
#undef BT_TRAIN_LAUNCH_ENUM
        BT_TRAIN_LAUNCH_COUNT
} bt_train_launch;

const char *bt_train_launch_name(bt_train_launch launch);

typedef struct bt_train_step {
    int64_t step;    // 0-based
    float loss;      // mean over the step's tokens; recorded bit for bit
    float grad_norm; // before clipping
    double lr;
    int64_t tokens;
    int64_t host_ns;   // wall time of the step, synchronized at its end
    int64_t device_ns; // between device events around the step
    uint64_t allocated_bytes, peak_allocated_bytes, reserved_bytes; // device pool
    uint64_t resident_bytes;                                        // host RSS
    bool warmup;   // time is not a measurement: warm-up
    bool profiled; // time is not a measurement: ranges were timed
    bt_train_launch launch;
    int64_t enqueue_ns; // of host_ns, until all work of the step was launched; 0 on the CPU, which
                        // executes it meanwhile
} bt_train_step;

typedef struct bt_train_eval {
    int64_t step; // after this number of steps
    double loss;  // mean over the batches
    int64_t tokens;
    int64_t host_ns;
} bt_train_eval;

// A score on HellaSwag. Its time is not part of any step's.
typedef struct bt_train_score {
    int64_t step; // after this number of steps
    bt_hellaswag_score score;
    int64_t host_ns;
} bt_train_score;

// Digest of parameters and moments (bt_state_tensors_digest). Its time is not part of any step's.
typedef struct bt_train_state {
    int64_t step; // after this number of steps
    char digest[33];
    int64_t host_ns;
} bt_train_state;

// One NVTX range, aggregated over one profiled step. The path is slash-separated, outermost first:
// "step/forward/block/attention".
typedef struct bt_train_range {
    int64_t step;
    const char *path;
    int64_t count;
    int64_t device_ns; // total, 0 on a backend without events
    int64_t host_ns;
} bt_train_range;

// A kernel of a compiled step, with all groups that it runs in one micro-batch; or, if `kind` is
// "", the kernel calls in no group. Reported after the last profiled step.
typedef struct bt_train_group {
    const char *direction, *kind, *kernel, *ops; // bt_compiled_unit
    int64_t count;                               // groups; launches of ungrouped calls
    int64_t calls, bytes_before, bytes_after;    // of all of them
    int64_t time_ns;                             // device, of all of them in that step
    int64_t apart_ns; // of the groups' calls run one by one on the same batch; 0: not measured
} bt_train_group;

// The timeline of the last profiled step, if the observer has the callback.
typedef struct bt_train_timeline {
    int64_t step;
    int64_t start_ns;        // host's monotonic clock when the device was idle
    const bt_timeline *line; // device times
} bt_train_timeline;

// A kernel that served at least one call, reported once; in the first step once for each of its
// plans.
typedef struct bt_train_kernel {
    const char *op, *kernel; // kernel: bt_kernel_label, "gemm_bf16_sm90 128x192x64 split 4"
} bt_train_kernel;

// X(enumerator, name, what happened)
#define BT_TRAIN_SAVE_LIST(X)                                                                      \
    X(LOADED, "loaded", "the run resumes from this step")                                          \
    X(SKIPPED, "skipped", "newer checkpoints are invalid; message: the newest of them")            \
    X(NONE, "none", "the run should resume, but there is no checkpoint: it starts at step 0")      \
    X(SAVED, "saved", "the checkpoint is durable")                                                 \
    X(FAILED, "failed", "a save failed; training continues; message: the reason")

typedef enum bt_train_save_kind {
#define BT_TRAIN_SAVE_ENUM(name, text, meaning) BT_TRAIN_SAVE_##name,
    BT_TRAIN_SAVE_LIST(BT_TRAIN_SAVE_ENUM)
#undef BT_TRAIN_SAVE_ENUM
        BT_TRAIN_SAVE_COUNT
} bt_train_save_kind;

const char *bt_train_save_name(bt_train_save_kind kind);

// An event of a checkpoint, reported between steps.
typedef struct bt_train_save {
    bt_train_save_kind kind;
    int64_t step;        // of the checkpoint; SKIPPED: how many there are
    int64_t seen_step;   // steps completed when this was noticed
    int64_t host_ns;     // LOADED: the load; SAVED, FAILED: from the beginning until it was noticed
    int64_t blocked_ns;  // part of it for which training waited
    int64_t size_bytes;  // of the tensors
    const char *message; // "" if there is nothing to report
} bt_train_save;

// X(enumerator, name, what happened)
#define BT_TRAIN_FAULT_LIST(X)                                                                     \
    X(NONFINITE, "nonfinite_loss", "loss or gradient norm is NaN or infinite")                     \
    X(ANOMALY, "anomaly", "anomaly mode found the op that produced the first such value")          \
    X(SPIKE, "loss_spike", "the loss is far above the last ones (guard.h)")                        \
    X(EXPLOSION, "gradient_explosion", "the gradient norm is far above the last ones (guard.h)")   \
    X(CORRUPTION, "silent_corruption", "a replay of the step gave different bits")

typedef enum bt_train_fault_kind {
#define BT_TRAIN_FAULT_ENUM(name, text, meaning) BT_TRAIN_FAULT_##name,
    BT_TRAIN_FAULT_LIST(BT_TRAIN_FAULT_ENUM)
#undef BT_TRAIN_FAULT_ENUM
        BT_TRAIN_FAULT_COUNT
} bt_train_fault_kind;

const char *bt_train_fault_name(bt_train_fault_kind kind);

// Reported after the step's own event.
typedef struct bt_train_fault {
    int64_t step;
    bt_train_fault_kind kind;
    const char *action;  // a policy's name; "corrected"
    const char *message; // what was observed, and what that means
} bt_train_fault;

// From this step on, steps are launched differently. Reported after the step's own event.
typedef struct bt_train_mode {
    int64_t step;
    bt_train_launch launch;
    const char *message; // the launch's meaning, with the result of a capture
} bt_train_mode;

// X(enumerator, name, what it is)
#define BT_TRAIN_VALUE_LIST(X)                                                                     \
    X(INITIAL, "initial", "a parameter before the first step of the run")                          \
    X(INPUT, "input", "tokens of a micro-batch")                                                   \
    X(FORWARD, "forward", "output of an op")                                                       \
    X(BACKWARD, "backward", "gradient of an op's input")                                           \
    X(GRADIENT, "gradient", "of a parameter, summed over the micro-batches")                       \
    X(STATE, "state", "parameter or moment after the update")

typedef enum bt_train_value_kind {
#define BT_TRAIN_VALUE_ENUM(name, text, meaning) BT_TRAIN_VALUE_##name,
    BT_TRAIN_VALUE_LIST(BT_TRAIN_VALUE_ENUM)
#undef BT_TRAIN_VALUE_ENUM
        BT_TRAIN_VALUE_COUNT
} bt_train_value_kind;

const char *bt_train_value_name(bt_train_value_kind kind);

// A tensor that a step has made. Texts and tensor are borrowed during the call only.
typedef struct bt_train_value {
    int64_t step;
    bt_train_value_kind kind;
    const char *name;        // unique in the step (trace.h)
    const char *layer, *op;  // "h.3", "linear"; op: "" if no op made it
    int64_t depth;           // calls of ops before it in its micro-batch, including itself
    const bt_tensor *tensor; // contiguous
    bool so_far; // backward: a parameter's gradient, summed since the shard's first micro-batch
    const struct bt_param_spec *spec; // gradient of a parameter of which this rank has a part;
                                      // NULL: the whole
} bt_train_value;

typedef struct bt_train_result {
    int64_t steps_done;    // counted from step 0, also by a resumed run
    bool stopped;          // should_stop ended the run; everything before is valid
    char state_digest[33]; // bt_state_digest: parameters, moments, data position, schedule, seed
    double val_loss;       // last evaluation, NaN if there was none
    uint64_t peak_allocated_bytes, peak_reserved_bytes;
    int64_t behind_ns; // work after the end of a step's time, see bt_region_behind_ns
} bt_train_result;

// Any callback may be NULL. A status other than BT_OK ends the run with it.
typedef struct bt_train_observer {
    void *self;
    bt_status (*start)(void *self, const bt_train_start *event);
    bt_status (*step)(void *self, const bt_train_step *event);
    bt_status (*eval)(void *self, const bt_train_eval *event);
    bt_status (*score)(void *self, const bt_train_score *event);
    bt_status (*state)(void *self, const bt_train_state *event);
    bt_status (*range)(void *self, const bt_train_range *event);
    bt_status (*kernel)(void *self, const bt_train_kernel *event);
    bt_status (*group)(void *self, const bt_train_group *event);
    bt_status (*timeline)(void *self, const bt_train_timeline *event); // NULL: not wanted
    bool (*should_stop)(void *self);                                   // called between steps
    bt_status (*note)(void *self,
                      const char *text); // a warning for the log
    bt_status (*save)(void *self, const bt_train_save *event);
    bt_status (*fault)(void *self, const bt_train_fault *event);
    bt_status (*mode)(void *self, const bt_train_mode *event);
    // Every value of every step, in the order made (trace.h); reading one waits for the device.
    // Each of several ranks reports its own values, and rank 0 the gathered state; all ranks have
    // this callback, or none. Slow: NULL unless needed.
    bt_status (*value)(void *self, bt_context *context, const bt_train_value *event);
    bt_ranges *ranges; // borrowed; where open ranges are published for a watching thread, or NULL
} bt_train_observer;

// Checks a plan without accessing a device or a file: shapes, divisibility, ranges of numbers.
// Errors  INVALID_ARGUMENT, naming the field, what was given and what is allowed
BT_CHECKED bt_status bt_train_check(const bt_train_plan *plan);
// The part of it that concerns the model, the sizes of a step and the mesh, for this number of
// ranks: a group of them need not exist yet.
BT_CHECKED bt_status bt_train_check_mesh(const bt_train_plan *plan, int ranks);
// Errors  also UNAVAILABLE (device), OUT_OF_MEMORY (with the pool's report), IO and CORRUPT_DATA
//         (shards and checkpoints; names file and offset; a loss that is not finite under the
//         policy STOP; anomaly mode; replays that never agree), INTERNAL. A failed save is reported
//         and is not an error, except for the last one, after the last step or when the run is
//         stopped.
BT_CHECKED bt_status bt_train_run(const bt_train_plan *plan, const bt_train_observer *observer,
                                  bt_train_result *result);

#endif
