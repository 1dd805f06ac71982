// framework/compiler/step.h - the step of a model, forward and backward, run compiled
//
//   bt_compiled_step_create(&context, &model, &cache, &step);
//   bt_compiled_step_run(step, &batch, &loss); // in place of bt_model_loss and bt_backward
//
// At the first call of a kind (shapes and strides of the batch; which parameters require a
// gradient, and which have one to add to) the step is captured without launching a kernel,
// simplified and fused, and its groups are compiled. Later calls run the program (program.h):
// generated kernels for groups, the kernels of eager execution for the other calls, with a fixed
// order and a fixed sequence of allocations. A batch of another size gets another program with the
// same kernels, which serve any number of rows. The loss may depend on the batch, on parameters,
// and on tensors that stay, whose values may change; anything else is as it was at the first call
// of a kind.
//
// Invariants
//   1. A step that cannot be compiled runs eagerly, and `reason` says why: the graph cannot be
//      captured, dropout (its random numbers would repeat), gradients with homes or hooks, several
//      leaves that share a gradient, no group that can be compiled, or a failure of the compiler
//      (memory, a pass, LLVM, the driver, the cache). If the model is at fault (a wrong argument),
//      the eager step fails too, and that is an error.
//   2. On the CPU the bits are those of eager execution. On CUDA, row sums are accumulated in
//      another order, within the bound of a sum in their type (emit.h).
#ifndef BT_COMPILER_STEP_H
#define BT_COMPILER_STEP_H

#include "framework/compiler/run.h"
#include "framework/nn/model.h"

typedef struct bt_compiled_step bt_compiled_step;

// The outcome for a kind of call.
typedef struct bt_compiled_kind {
    bool compiled;
    char reason[256];        // eager: why. Compiled: why some groups have no code, "" if all have
    int calls;               // kernel calls of the captured step
    int groups, group_calls; // compiled groups, and the calls in them
    int left_out;            // groups for which there is no code
    int64_t bytes_before, bytes_after; // bytes moved by the calls of the groups, by the groups
    int64_t compile_ns;
} bt_compiled_kind;

// The groups that a compiled step forms on such a device.
bt_fuse_options bt_compiled_step_options(bt_target_kind kind);
// context, model and cache are borrowed and outlive the step. cache NULL: no cache on disk. Only
// the model's parameters require a gradient.
// Owns    the caller, bt_compiled_step_destroy
BT_CHECKED bt_status bt_compiled_step_create(bt_context *context, const bt_model *model,
                                             bt_code_cache *cache, bt_compiled_step **out);
void bt_compiled_step_destroy(bt_compiled_step *step);
// Compiles for a batch of these shapes, whose contents are not read, with gradients to add to
// (adds) or without. The context has a tape. Parameters have no gradients before and after.
// Errors  OUT_OF_MEMORY for the gradients. A step that cannot be compiled is not an error
BT_CHECKED bt_status bt_compiled_step_prepare(bt_compiled_step *step, const bt_batch *batch,
                                              bool adds);
// Computes the loss of the batch and adds its gradients to those of the parameters.
// Owns    *loss: the caller
// Errors  as bt_model_loss, bt_backward, and the launches'
BT_CHECKED bt_status bt_compiled_step_run(bt_compiled_step *step, const bt_batch *batch,
                                          bt_tensor **loss);
// The i-th kind, in order of first use; NULL past the last.
const bt_compiled_kind *bt_compiled_step_kind(const bt_compiled_step *step, int i);

// One launch of a compiled step: a group, or ungrouped calls.
typedef struct bt_compiled_unit {
    const char *direction; // "forward", "backward", "forward and backward"
    const char *kind;      // of the group; "": calls as before
    char kernel[40];       // "row-3f2a91bc": equal kernels have the same name; "": ungrouped calls
    char ops[160];         // of a group: "square, reduce_sum, mul x2"
    int calls;             // kernel calls that it replaces
    int64_t bytes_before, bytes_after; // bytes moved by the group's calls, by the group
} bt_compiled_unit;

// The number of units of the compiled step that adds to gradients, or of the one with none to add
// to, in execution order, each inside its own range within the range "compiled"; 0: it is not
// compiled. With several batch sizes, the latest is used.
int bt_compiled_step_units(const bt_compiled_step *step, bool adds);
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_compiled_step_unit(const bt_compiled_step *step, bool adds, int i,
                                           bt_compiled_unit *out);
// Runs the calls of the compiled step for this batch one by one, without groups, so that they can
// be timed: twice, the second time inside the range "apart", each call inside its own. Results are
// dropped; parameters and gradients stay as they are. Uses memory of its own, for activations and
// gradients; it is freed afterwards.
// Errors  as bt_compiled_step_run; INVALID_ARGUMENT: the step is not compiled for such a batch
BT_CHECKED bt_status bt_compiled_step_run_apart(bt_compiled_step *step, const bt_batch *batch,
                                                bool adds);
// The number of ranges inside "apart"; 0: that was not run.
int bt_compiled_step_apart_calls(const bt_compiled_step *step, const bt_batch *batch, bool adds);
// From the times of those ranges: for each unit (bt_compiled_step_units) the time of its calls. A
// value that is recomputed in several groups counts once, in the group that comes first.
// Shapes  apart_ns [apart calls], times_ns [units]
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_compiled_step_apart_times(const bt_compiled_step *step,
                                                  const bt_batch *batch, bool adds,
                                                  const int64_t *apart_ns, int64_t *times_ns);
// One line about the kind, for a log.
void bt_compiled_kind_print(const bt_compiled_kind *kind, bt_str *out);

#endif
