// framework/compiler/step_parts.h - parts of a compiled step; for step.c and step_capture.c
#ifndef BT_COMPILER_STEP_PARTS_H
#define BT_COMPILER_STEP_PARTS_H

#include "framework/compiler/capture.h"
#include "framework/compiler/form.h"
#include "framework/compiler/program.h"
#include "framework/compiler/step.h"

// Where a program finds the memory of an input.
typedef enum bt_step_source_kind {
    BT_STEP_BATCH,     // the storage of a batch tensor, by its index
    BT_STEP_PARAMETER, // of a parameter's value, by its index
    BT_STEP_GRADIENT,  // of a parameter's gradient, likewise
    BT_STEP_CONSTANT   // of a tensor to which the variant holds a reference
} bt_step_source_kind;

typedef struct bt_step_source {
    bt_step_source_kind kind;
    int value, place;
    bt_tensor *constant; // retained, else NULL
} bt_step_source;

// The layout of a batch tensor: what a program depends on besides the contents.
typedef struct bt_step_look {
    char name[32];
    bt_dtype dtype;
    bt_shape shape;
    int64_t stride[BT_MAX_RANK], offset; // elements
    int shares; // index of the first tensor of the batch in the same storage
} bt_step_look;

// A variant whose compilation failed keeps only what is compared, and kind.reason.
typedef struct bt_step_variant {
    bt_step_look looks[BT_BATCH_TENSORS];
    int look_count;
    bool adds;    // some gradient existed
    bool *had;    // owned [parameters]: whether its gradient existed
    bool *wanted; // owned [parameters]: whether it requires a gradient
    bt_compute compute;
    bt_compiled_kind kind;
    bt_dag graph;            // as bt_dag_form makes it
    int64_t *half_turns;     // owned [values as captured] (half_turn.h)
    bt_fusion_plan fusion;   // without groups that have no code
    bt_program *program;     // owned; NULL: the step runs eagerly
    bt_program *apart;       // owned; the same without groups; NULL: not needed yet
    bt_compiled **codes;     // owned [fusion.count], each owned by the compiler; NULL: left out
    bt_step_source *sources; // owned [source_count]
    int source_count;
    int loss;       // value
    int *gradients; // owned [parameters]: values, -1: none, or the step leaves it as it is
    void **memory;  // owned [graph.value_count], of the current run
} bt_step_variant;

struct bt_compiled_step {
    bt_context *context;   // borrowed
    const bt_model *model; // borrowed
    bt_compiler compiler;
    bt_step_variant **variants; // owned [count], each owned
    int count;
    bt_compiled_kind unkept; // the latest for whose variant there was no memory; "" as reason: none
};

// The first variant for such a batch, whichever gradients exist now; NULL: none yet.
bt_step_variant *bt_step_find(const bt_compiled_step *step, const bt_batch *batch, bool adds);
// A program of the variant's graph with these groups, NULL: none. Each gradient that is added to
// ends in its old memory.
BT_CHECKED bt_status bt_step_program(const bt_compiled_step *step, const bt_step_variant *variant,
                                     const bt_fusion_plan *fusion, bt_program **out);
// Sets memory[value] of the inputs.
void bt_step_bind(const bt_compiled_step *step, const bt_batch *batch,
                  const bt_step_variant *variant, void **memory);

// ---- step_capture.c -----------------------------------------------------------------------------
// Captures the step of a batch without launching a kernel and finds the sources of its inputs.
// Gradients are left as they were. If it cannot be captured, variant->kind.reason says why.
BT_CHECKED bt_status bt_step_capture(bt_compiled_step *step, const bt_batch *batch,
                                     bt_step_variant *variant);

#endif
