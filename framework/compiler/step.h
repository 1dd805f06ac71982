// framework/compiler/step.h - the step of a model, forward and backward, run compiled
//
//   bt_compiled_step_create(&context, &model, &cache, &step);
//   bt_compiled_step_run(step, &batch, &loss); // in place of bt_model_loss and bt_backward
//
// At the first call of a kind (shapes of the batch; with or without gradients to add to) the step
// is captured without launching a kernel, simplified, fused, and its groups are compiled; from then
// on the program (program.h) runs: generated kernels for groups, the kernels of eager execution for
// the other calls, in one order and with one sequence of allocations. A batch of another size is
// another program of the same kernels, which serve any number of rows.
//
// Invariants
//   1. What a program cannot do runs eagerly, and `reason` says why: a graph that cannot be
//      captured, dropout (its numbers would repeat), gradients with homes or hooks, several leaves
//      of one gradient, and a graph of which no group can be compiled.
//   2. On the CPU the bits are those of eager execution. On CUDA sums of rows are made in another
//      order, within the bound of a sum in their type (emit.h).
#ifndef BT_COMPILER_STEP_H
#define BT_COMPILER_STEP_H

#include "framework/compiler/run.h"
#include "framework/nn/model.h"

typedef struct bt_compiled_step bt_compiled_step;

// What became of a kind of call.
typedef struct bt_compiled_kind {
    bool compiled;
    char reason[256];        // eager: why. Compiled: why some groups are not, "" where all are
    int calls;               // kernel calls of the captured step
    int groups, group_calls; // compiled groups, and the calls in them
    int left_out;            // groups for which there is no code
    int64_t bytes_before, bytes_after; // moved by the calls of the groups, by the groups
    int64_t compile_ns;
} bt_compiled_kind;

// The groups that a compiled step forms on such a device.
bt_fuse_options bt_compiled_step_options(bt_target_kind kind);
// context, model and cache are borrowed and outlive the step. cache NULL: nothing is kept on disk.
// The model's parameters are all that requires a gradient.
// Owns    the caller, bt_compiled_step_destroy
BT_CHECKED bt_status bt_compiled_step_create(bt_context *context, const bt_model *model,
                                             bt_code_cache *cache, bt_compiled_step **out);
void bt_compiled_step_destroy(bt_compiled_step *step);
// Compiles for a batch of these shapes, whose contents are not read, with gradients to add to
// (adds) or without. The context has a tape. Parameters have no gradients, before and behind.
// Errors  as bt_model_loss, bt_backward; OUT_OF_MEMORY. What cannot be compiled is none
BT_CHECKED bt_status bt_compiled_step_prepare(bt_compiled_step *step, const bt_batch *batch,
                                              bool adds);
// The loss of the batch, and its gradients added to those of the parameters.
// Owns    *loss: the caller
// Errors  as above, and the launches'
BT_CHECKED bt_status bt_compiled_step_run(bt_compiled_step *step, const bt_batch *batch,
                                          bt_tensor **loss);
// The i-th kind, in the order in which they came up; NULL past the last.
const bt_compiled_kind *bt_compiled_step_kind(const bt_compiled_step *step, int i);

// What a compiled step launches as one: a group, or calls that are in none.
typedef struct bt_compiled_unit {
    const char *direction; // "forward", "backward", "forward and backward"
    const char *kind;      // of the group; "": calls as before
    char kernel[40];       // "row-3f2a91bc": equal kernels have one name; "": calls as before
    char ops[160];         // of a group: "square, reduce_sum, mul x2"
    int calls;             // kernel calls that it stands for
    int64_t bytes_before, bytes_after; // that the calls of a group moved, that the group moves
} bt_compiled_unit;

// How many units the compiled step has that adds to gradients, or that has none to add to, in the
// order in which they run, each in a range of its own inside the range "compiled"; 0: it is not
// compiled. Of several batch sizes the latest counts.
int bt_compiled_step_units(const bt_compiled_step *step, bool adds);
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_compiled_step_unit(const bt_compiled_step *step, bool adds, int i,
                                           bt_compiled_unit *out);
// One line on the kind, for a log.
void bt_compiled_kind_print(const bt_compiled_kind *kind, bt_str *out);

#endif
