// framework/ops/op.h - the definition of an op: its row in ops.inl, a call, its gradients
//
// Users call ops.h; this header is for code that defines ops, iterates over the table or replays
// the tape. An op is a file with four functions and a row in ops.inl; README.md shows how to add
// one.
//
// Invariants
//   1. Parameter gradients are summed (+=), gradients of activations are written (=); the tape
//      decides, an op sees it in bt_grad.accumulate.
//   2. Gradients are contiguous and of their input's shape.
//   3. forward() saves exactly what backward() reads; the tape retains it and checks its version.
//      If context->recompute asks for it, forward() saves less, and backward() recomputes the rest;
//      or the whole call is run again (bt_op_call.remake).
#ifndef BT_OPS_OP_H
#define BT_OPS_OP_H

#include <stdalign.h>

#include "framework/ops/attrs.h"
#include "framework/ops/captures.h"
#include "framework/tensor/tensor.h"

enum { BT_OP_MAX_INPUTS = 6, BT_OP_MAX_OUTPUTS = 2, BT_OP_MAX_SAVED = 6 };

enum { BT_OP_ATTRS_BYTES = 96 }; // size of the largest struct of attributes, at least

typedef struct bt_op_spec {
    bt_dtype dtype;
    bt_shape shape;
} bt_op_spec;

// One call, forward.
typedef struct bt_op_call {
    const struct bt_op *op;
    const void *attrs; // borrowed, of the row's attrs; BT_ATTRS
    int in_count;
    bt_tensor *in[BT_OP_MAX_INPUTS]; // borrowed; an optional one may be NULL
    int out_count;
    bt_op_spec out_spec[BT_OP_MAX_OUTPUTS]; // infer() writes
    bt_tensor *out[BT_OP_MAX_OUTPUTS];      // allocated before forward(); a view: set by forward()
    bool recording;                         // a backward may follow: save what it needs (RECOMPUTE
                                            // sets it if its body captures a leaf)
    bool remake; // set by forward(): keep only the inputs of a recorded call, and run it again in
                 // the backward for its outputs and saved values
    bt_tensor *saved[BT_OP_MAX_SAVED]; // retained; forward() writes
    bt_captures captures;              // owned; of RECOMPUTE only; forward() writes
} bt_op_call;

// What context->tape points to: the first member of a tape (autograd/tape.h), so that ops can
// record themselves without including it.
typedef struct bt_recorder {
    // Keeps what the call's backward needs, takes over call->captures and makes the outputs require
    // a gradient.
    bt_status (*record)(bt_context *context, bt_op_call *call);
} bt_recorder;

// Where one input's gradient is written.
typedef struct bt_grad {
    bool wanted;
    bool accumulate;   // add to tensor's contents; only for inputs in the row's accumulates mask
    bt_op_spec spec;   // of the gradient that backward() writes
    bt_tensor *tensor; // retained; given when accumulating, and if the gradient has a fixed home,
                       // which is then overwritten; else set by backward()
    bt_tensor *leaf;   // borrowed; the leaf whose gradient may be deferred until after backward()
                       // (ops/weight_grads.h); NULL: may not be
} bt_grad;

// One call, backward.
typedef struct bt_op_backward {
    const struct bt_op *op;
    const void *attrs; // as in bt_op_call
    int in_count;
    bt_op_spec in_spec[BT_OP_MAX_INPUTS];
    bt_tensor *saved[BT_OP_MAX_SAVED]; // borrowed; an entry that the op sets to NULL belongs to the
                                       // op
    bt_captures *captures;             // borrowed; of RECOMPUTE only
    bt_tensor *dout[BT_OP_MAX_OUTPUTS]; // borrowed; NULL if that output was not used
    bt_grad din[BT_OP_MAX_INPUTS];
} bt_op_backward;

// The attributes of a call or backward whose row names bt_attrs_<name>.
#define BT_ATTRS(call, name) ((const bt_##name##_attrs *)(call)->attrs)

typedef struct bt_op {
    const char *name;
    const bt_op_attrs *attrs;
    const char *in_role[BT_OP_MAX_INPUTS], *out_role[BT_OP_MAX_OUTPUTS]; // "x", "gamma"
    int in_count;
    unsigned optional; // bit i: input i may be NULL
    int out_count;
    unsigned accumulates; // bit i: backward() can add to input i's gradient
    // If input i is bf16, backward() writes its gradient in bf16; with a bit in `flexible`, in bf16
    // or f32 as din[i].spec says; with one in `wide`, always in f32. The tape converts.
    unsigned flexible, wide;
    bool makes_outputs; // forward() creates the outputs: views, recompute
    // Checks inputs and attributes, fills out_spec. Errors  INVALID_ARGUMENT with both shapes
    bt_status (*infer)(bt_op_call *call);
    bt_status (*forward)(bt_context *context, bt_op_call *call);
    bt_status (*backward)(bt_context *context, bt_op_backward *call);
    // The same with recorded ops (expression.h); it does not accumulate and writes each gradient in
    // its input's type. NULL: the op is not twice differentiable
    bt_status (*recorded)(bt_context *context, bt_op_backward *call);
} bt_op;

typedef enum bt_op_id {
#define BT_OP(id, ...) BT_OP_##id,
#include "framework/ops/ops.inl"
#undef BT_OP
    BT_OP_COUNT
} bt_op_id;

const bt_op *bt_op_row(bt_op_id id);

// Infers, allocates and runs, without recording. The caller owns call->out and call->saved, also
// when this fails.
BT_CHECKED bt_status bt_op_run(bt_context *context, bt_op_call *call);
// Reports the outputs to the context's value hook, which must be set. bt_op_run does so, except for
// ops that make their outputs themselves.
BT_CHECKED bt_status bt_op_tell_outputs(bt_context *context, const bt_op_call *call);
// Infers, allocates, runs, records. attrs: the row's struct, NULL if it has none. out[] has the
// row's out_count entries; the caller owns each.
BT_CHECKED bt_status bt_op_apply(bt_context *context, bt_op_id id, const void *attrs,
                                 bt_tensor *const *in, int in_count, bt_tensor **out);

// ---- for ops ------------------------------------------------------------------------------------

// The tensor for input i's gradient: the given one when accumulating, else a new one.
BT_CHECKED bt_status bt_grad_target(bt_context *context, bt_op_backward *call, int i,
                                    bt_tensor **out);
// The same, but reuses dout[from]'s memory if it has no other reference and fits: for kernels whose
// dx may be dy.
BT_CHECKED bt_status bt_grad_target_reusing(bt_context *context, bt_op_backward *call, int i,
                                            int from, bt_tensor **out);
// Input i's gradient is dout[from] itself.
void bt_grad_pass(bt_op_backward *call, int i, int from);
// *out = grad summed over the axes along which a tensor of spec's shape was broadcast to grad's
// shape; grad itself (retained) if there are none. A bf16 gradient is summed in f32, also between
// axes; the result is f32 or bf16, and the tape converts it to spec's type.
BT_CHECKED bt_status bt_sum_to_shape(bt_context *context, bt_tensor *grad, const bt_op_spec *spec,
                                     bt_tensor **out);
// The strides of x viewed as a larger shape: 0 along axes that x lacks or that have size 1 in x.
void bt_broadcast_strides(const bt_tensor *x, const bt_shape *shape, int64_t *stride);
// Writes a new gradient although accumulation was requested: the tape adds it.
void bt_grad_decline(bt_grad *grad);
// "input 1 [4] f32 does not fit input 0 [2, 3] f32"
bt_status bt_op_mismatch(const bt_op_call *call, int a, int b);
// BT_OK if input i is contiguous and of a floating-point type.
BT_CHECKED bt_status bt_op_expect_float(const bt_op_call *call, int i);

// The functions and attributes that rows name.
#define BT_OP(id, name, attributes, ...)                                                           \
    extern const bt_op_attrs bt_attrs_##attributes;                                                \
    bt_status bt_op_##name##_infer(bt_op_call *call);                                              \
    bt_status bt_op_##name##_forward(bt_context *context, bt_op_call *call);                       \
    bt_status bt_op_##name##_backward(bt_context *context, bt_op_backward *call);                  \
    bt_status bt_op_##name##_recorded(bt_context *context, bt_op_backward *call);
#include "framework/ops/ops.inl"
#undef BT_OP

#endif
