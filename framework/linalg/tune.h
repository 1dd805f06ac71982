// framework/linalg/tune.h - measured choices among the kernels of a matrix product
//
// Opt-in: with the environment variable BT_GEMM_TUNE=1 a session has a tuner. When a call (shape,
// layout, types, epilogue, strides, alignment) occurs for the first time outside of a graph's
// capture, the first plans that the backend lists (bt_backend.plans; with cuBLASLt if BT_GEMM is
// auto) are timed, interleaved, on the call's operands, and the fastest serves the call from then
// on. The default row stays unless another is more than 2 % faster.
//
// Invariants
//   1. Measuring changes no operand: D and GELU's pre-activation are written to memory of the
//      tuner; if C is D, it is copied there first.
//   2. A call's choice never changes within a process. Choices are kept in
//      $BT_CACHE_DIR, else $XDG_CACHE_HOME/blutrain, else ~/.cache/blutrain, a file per device
//      and tensor parallel rank; they hold for one build of the backend and one version of
//      cuBLASLt.
//   3. Plans differ in the order of sums. With a tuner a result's bits are a function of the
//      operands and the stored choices; the same file gives the same bits, another measurement may
//      not. Records name the plan of every call (bt_kernel_label).
//   4. Memory for measuring comes from the pool, within its limit and counted in its peak. If there
//      is none, the call is served as without a tuner.
#ifndef BT_LINALG_TUNE_H
#define BT_LINALG_TUNE_H

#include "framework/memory/pool.h"
#include "kernels/kernels.h"

typedef struct bt_gemm_tuner bt_gemm_tuner;

// `folder`: folder of the file, created when needed; NULL: no file.
// Owns    the caller, bt_gemm_tuner_close before pool and device, which are borrowed
// Errors  OUT_OF_MEMORY, or the device's own
BT_CHECKED bt_status bt_gemm_tuner_open(bt_device *device, bt_pool *pool, const char *folder,
                                        bt_gemm_tuner **out);
// Opens a tuner if the environment enables it; else NULL.
// Errors  also INVALID_ARGUMENT (BT_GEMM_TUNE is neither 0 nor 1)
BT_CHECKED bt_status bt_gemm_tuner_from_environment(bt_device *device, bt_pool *pool,
                                                    bt_gemm_tuner **out);
void bt_gemm_tuner_close(bt_gemm_tuner *tuner);

// Several ranks that make the same calls in the same order: one measures, all use its choices.
typedef struct bt_gemm_agreement {
    void *self;    // borrowed, outlives the tuner
    bool measures; // true on one rank
    // Broadcasts `data` of the measuring rank. NULL: no other rank makes these calls
    bt_status (*share)(void *self, void *data, size_t size_bytes);
    int part; // tensor parallel rank: each makes calls of its own, so those above 0 keep their
              // choices in other files
} bt_gemm_agreement;

// Enables sharing; call it before the first choice.
// Errors  OUT_OF_MEMORY. Of a choice then also INTERNAL, if a rank lacks the chosen kernel: another
//         build or device
BT_CHECKED bt_status bt_gemm_tuner_agree(bt_gemm_tuner *tuner, bt_gemm_agreement agreement);

// The row and plan for a call whose operands are ready on `stream`, measured if necessary. *plan is
// borrowed until the next call; NULL: the row's default.
// Sync    waits for the stream if it measures
// Errors  UNSUPPORTED (no row serves the call), INVALID_ARGUMENT (bt_gemm_check), faults of the
//         stream
BT_CHECKED bt_status bt_gemm_tuner_choose(bt_gemm_tuner *tuner, bt_stream stream,
                                          const bt_gemm_args *args, const bt_kernel **kernel,
                                          const bt_kernel_plan **plan);
// Calls measured by this tuner so far.
int64_t bt_gemm_tuner_measured(const bt_gemm_tuner *tuner);
// The last warning about the file; "" if there was none.
const char *bt_gemm_tuner_warning(const bt_gemm_tuner *tuner);

#endif
