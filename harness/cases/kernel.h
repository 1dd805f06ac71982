// harness/cases/kernel.h - declarations shared by the files of a kernel case; private
#ifndef BT_HARNESS_CASES_KERNEL_H
#define BT_HARNESS_CASES_KERNEL_H

#include "framework/compiler/graph.h"
#include "framework/compiler/group.h"
#include "framework/compiler/lower.h"
#include "framework/device/region.h"
#include "framework/linalg/tune.h"
#include "framework/memory/pool.h"
#include "harness/cases/cases.h"
#include "harness/cases/operands.h"

typedef struct bt_kernel_generated bt_kernel_generated;
typedef struct bt_kernel_chain bt_kernel_chain;

typedef struct kernel_call {
    void *at[BT_OPERANDS_MAX]; // blocks of the pool
    void *workspace;           // likewise, NULL: none
    bt_kernel_items items;     // what args points to
    bt_kernel_args args;
    bt_launch launch;
} kernel_call;

typedef struct kernel_run {
    bt_kernel_body body;
    uint64_t seed;
    bt_device *device;
    bt_pool *pool;
    bt_stream stream;
    bt_gemm_tuner *tuner;           // NULL: kernels of matrix products are chosen by estimates
    bool generates;                 // generated code serves the call instead of the table
    bt_kernel_generated *generated; // owned; NULL: not yet created, or not needed
    bt_kernel_chain *chain;         // the same for a chain
    const bt_kernel *kernel;        // the row that serves the call
    bt_kernel_plan plan;            // its plan; number 0: the row's default
    kernel_call *calls;             // [call_count]: one, or rotating copies
    int64_t call_count;
    double inject_slowdown; // fraction by which samples are made longer; 0: none
} kernel_run;

// ---- kernel_convert.c --------------------------------------------------------------------------

// Converts f64 values to an operand's type, and back.
void bt_kernel_narrow(bt_dtype dtype, const double *values, int64_t count, void *out);
void bt_kernel_widen(bt_dtype dtype, const void *from, int64_t count, double *values);

// ---- kernel_memory.c ---------------------------------------------------------------------------

// `values` [count <= BT_OPERAND_TILE]: the random sequence of operand `index` as f64, rounded to
// its type.
BT_CHECKED bt_status bt_kernel_tile(const bt_kernel_body *body, uint64_t seed, int index,
                                    double *values, int64_t count);
// Generates the inputs of a call from the run's seed and fills its outputs with NaN.
BT_CHECKED bt_status bt_kernel_call_fill(kernel_run *run, kernel_call *call);
// Allocates and fills the operands of a call, finds its kernel and workspace.
// Owns    *call: the caller, bt_kernel_call_release, also after a failure
BT_CHECKED bt_status bt_kernel_call_make(kernel_run *run, kernel_call *call);
void bt_kernel_call_release(const kernel_run *run, kernel_call *call);

// ---- kernel_generated.c ------------------------------------------------------------------------

// Code for the call on the device, from the user's cache or generated now.
// Owns    the caller, bt_kernel_generated_release
// Errors  UNSUPPORTED (no code is generated for such a call), UNAVAILABLE (no compiler)
BT_CHECKED bt_status bt_kernel_generated_make(const bt_device *device, bt_kernel_op op,
                                              bt_dtype dtype, const void *args,
                                              bt_kernel_generated **out);
// The row that launches it; one at a time in a process. Borrowed.
const bt_kernel *bt_kernel_generated_row(const bt_kernel_generated *generated);
void bt_kernel_generated_release(bt_kernel_generated *generated);
// The call's graph, and its group for a target. field_of [BT_FUSED_OPERANDS_MOST]: the op struct's
// field of each operand.
// Owns    *graph: the caller (bt_dag_release), also after a failure
BT_CHECKED bt_status bt_kernel_generated_group(bt_kernel_op op, const void *args,
                                               bt_target_kind kind, bt_dag *graph, bt_fused *group,
                                               int *field_of);

// ---- kernel_chain.c ----------------------------------------------------------------------------

// The chain of a case on the run's device; run->generates: with groups as generated kernels.
// Owns    the caller, bt_kernel_chain_release
// Errors  as bt_chain_open, bt_chain_compile
BT_CHECKED bt_status bt_kernel_chain_make(const kernel_run *run, const bt_kernel_args *args,
                                          bt_kernel_chain **out);
// As bt_kernel_generated_row.
const bt_kernel *bt_kernel_chain_row(const bt_kernel_chain *chain);
void bt_kernel_chain_release(bt_kernel_chain *chain);
// Time to capture, group and compile the chain without a cache, and with its code in the cache.
// Units  ns; 0: nothing was compiled
int64_t bt_kernel_chain_cold_ns(const bt_kernel_chain *chain);
int64_t bt_kernel_chain_warm_ns(const bt_kernel_chain *chain);
// Runs the call once, with the kernels of eager execution, on the CPU of `context`.
BT_CHECKED bt_status bt_kernel_chain_reference(bt_context *context, const bt_kernel_args *args);

// ---- kernel_parts.c ----------------------------------------------------------------------------

// Elements of an operand: `runs` runs of `length` elements each, the first at `first`, the others
// `stride` apart.
typedef struct kernel_window {
    int64_t first, runs, stride, length;
} kernel_window;

// A part of a call whose results do not depend on other parts, except for sums over rows.
typedef struct kernel_part {
    bt_kernel_body body;                    // the call over the part alone
    kernel_window windows[BT_OPERANDS_MAX]; // of the whole call's operands
    bool first;                             // first part: sums begin with it
    bool last;                              // sums over rows are complete after it
    bool compared;                          // false: it only adds to sums
} kernel_part;

// The parts of a call that its check computes: all, or a sample if that is too much (README.md). A
// function of body and seed.
typedef struct kernel_parts {
    const bt_kernel_body *body; // borrowed
    uint64_t seed;              // selects the sample
    int64_t count;
    int64_t rows;  // of a part that is made of rows
    bool sampled;  // not every element of every output is compared
    bool all_rows; // sums over rows: every part is computed, a sample of them compared
} kernel_parts;

void bt_kernel_parts_make(const bt_kernel_body *body, uint64_t seed, kernel_parts *out);
// Part `index` of `count`.
void bt_kernel_part_at(const kernel_parts *parts, int64_t index, kernel_part *out);
int64_t bt_kernel_window_count(const kernel_window *window);

// ---- kernel_check.c ----------------------------------------------------------------------------

// Source of the outputs to be checked: reads a window of operand `index` into `out`, its elements
// in order, in the operand's type.
typedef struct kernel_outputs {
    void *self;
    bt_status (*read)(void *self, int index, const kernel_window *window, void *out);
} kernel_outputs;

// Compares outputs of a call over the inputs of `seed` with the reference in f64 on the CPU, part
// by part. *worst is the largest error as a fraction of its tolerance. `name`: the system that made
// the outputs.
// Errors  INTERNAL, naming the worst element, if it is more than 1 or not a number; those of read
BT_CHECKED bt_status bt_kernel_check_outputs(const bt_kernel_body *body, uint64_t seed,
                                             const kernel_outputs *outputs, const char *name,
                                             double *worst);
// The same for what a call left in its outputs.
BT_CHECKED bt_status bt_kernel_check(kernel_run *run, kernel_call *call, double *worst);

// ---- kernel_slow.c -----------------------------------------------------------------------------

typedef struct kernel_slowdown {
    double share;        // time to wait on the host; 0: none
    void *block;         // of the pool; NULL: none
    uint64_t fill_bytes; // filled on the stream
} kernel_slowdown;

// Determines how to make what `sample` measures longer by a fraction; `sample` must apply *out.
// Owns    *out: the caller, bt_kernel_slowdown_release, also after a failure
// Errors  UNSUPPORTED (the added time would be shorter than the minimum)
BT_CHECKED bt_status bt_kernel_slowdown_make(kernel_run *run, double share,
                                             bt_status (*sample)(void *timing, double *sample_ns),
                                             void *timing, kernel_slowdown *out);
// Call inside the timed region, after the calls, which began at started_ns.
BT_CHECKED bt_status bt_kernel_slowdown_apply(const kernel_run *run,
                                              const kernel_slowdown *slowdown, int64_t started_ns);
void bt_kernel_slowdown_release(const kernel_run *run, kernel_slowdown *slowdown);
// The bytes whose fill adds wanted_ns; `added` measures the time that a number of bytes adds, and
// is increasing.
BT_CHECKED bt_status bt_kernel_fill_search(bt_status (*added)(void *self, uint64_t bytes,
                                                              double *added_ns),
                                           void *self, double wanted_ns, uint64_t *bytes);

// ---- kernel_time.c -----------------------------------------------------------------------------

typedef enum kernel_cache { CACHE_COLD, CACHE_ROTATING, CACHE_HOT } kernel_cache;

typedef struct kernel_times {
    double *samples; // owned, [count], ns per call
    int64_t count, capacity;
    int64_t calls_per_sample;
    double launch_ns;  // host time to launch a call on an idle device, mean; 0: not measured
    const char *stop;  // why sampling ended
    bool stopped;      // it was asked to stop
    int64_t behind_ns; // work after the end of the timed region, see bt_region_behind_ns
} kernel_times;

// The size of the cache that the cache mode refers to: L2 on a GPU. On the CPU the last-level
// cache, but at most 128 MiB per processor: virtual machines report the cache of the whole socket.
uint64_t bt_kernel_cache_bytes(const bt_device *device);
// Adds a sample.
BT_CHECKED bt_status bt_kernel_times_keep(kernel_times *times, double sample_ns);
// Why sampling may end now; NULL: it may not. Units  passed_ns: since the start
BT_CHECKED bt_status bt_kernel_times_stop(const kernel_times *times, int64_t passed_ns,
                                          double max_time_s, const char **why);
// Samples by the rule of METHOD: at least 30 and 0.3 s, until the interval of the median is within
// 0.25 % or max_time_s has passed.
BT_CHECKED bt_status bt_kernel_time(kernel_run *run, kernel_cache cache, double max_time_s,
                                    const bt_case_listener *listener, kernel_times *out);

#endif
