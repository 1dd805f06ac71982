// framework/train/trace.h - names for the values of a training step
//
// While the observer asks for values (bt_train_observer.value), each value that a step makes is
// told to it as soon as it is there. Names are the same on every device, in every precision and in
// every mode of recomputation:
//   initial.PARAMETER     a master before the first step of the run
//   input.M.ids, .targets of micro-batch M
//   forward.M.CALL        output of the call of an op; a second output: CALL.out1
//   backward.M.CALL.inI   gradient of the call's input I; of a parameter the sum so far
//   gradient.PARAMETER    sum over the micro-batches, neither scaled nor clipped
//   state.TENSOR          training state behind the update: PARAMETER, adamw.m.*, adamw.v.*
// CALL is MODULE.OP, as in "h.3.attn.c_attn.linear": the module is that of the parameters which the
// op reads, or the layer of the call before it ("h.3.attention"). A second call of a name in a
// micro-batch ends in "#2".
//
// Invariants
//   1. Forward calls that a backward makes again are not told.
//   2. A backward walks the forward's calls from the newest to the oldest, so a gradient belongs to
//      the newest call of its op that has not been walked. Recomputation keeps that order.
//   3. Nothing is computed otherwise than without an observer of values. So a weight's gradient
//   that
//      waits for others (ops/weight_grads.h) is told as gradient.PARAMETER alone.
#ifndef BT_TRAIN_TRACE_H
#define BT_TRAIN_TRACE_H

#include "framework/checkpoint/state.h"
#include "framework/nn/param.h"
#include "framework/train/train.h"

enum { BT_TRACE_NAME_BYTES = 160, BT_TRACE_LAYER_BYTES = 48 };

// A call of an op in the forward of a micro-batch.
typedef struct bt_trace_call {
    char name[BT_TRACE_NAME_BYTES], layer[BT_TRACE_LAYER_BYTES];
    const char *op; // borrowed, of its row
} bt_trace_call;

typedef struct bt_trace {
    const bt_train_observer *observer; // borrowed
    int64_t step, micro;
    bt_trace_call *calls; // owned [capacity]; of this micro-batch, in order
    int64_t count, capacity;
    int64_t open;        // calls that the backward has not walked
    int64_t walked;      // the call whose gradients come now, or -1
    const void *walking; // and its identity in the backward; borrowed, only compared
    int input;           // of it that was told last
    bool begun;          // initial values have been told
} bt_trace;

// Nothing of this does anything where the observer asks for no values. `params` and `state` are the
// run's.

// Before a step's first micro-batch: listens to the context's ops from now on.
BT_CHECKED bt_status bt_trace_begin(bt_trace *trace, const bt_train_observer *observer,
                                    bt_context *context, const bt_params *params, int64_t step);
BT_CHECKED bt_status bt_trace_micro(bt_trace *trace, bt_context *context, int64_t micro,
                                    const bt_tensor *ids, const bt_tensor *targets);
// Behind the last backward of the step.
BT_CHECKED bt_status bt_trace_gradients(bt_trace *trace, bt_context *context,
                                        const bt_params *params);
// Behind the update: tells the state and listens no longer.
BT_CHECKED bt_status bt_trace_end(bt_trace *trace, bt_context *context, const bt_state *state);
void bt_trace_release(bt_trace *trace);

#endif
