// framework/train/trace.h - names for the values of a training step
//
// If the observer has a value callback (bt_train_observer.value), each value that a step makes is
// reported as soon as it exists. Names are the same on every device, in every precision and in
// every mode of recomputation:
//   initial.PARAMETER     a master before the first step of the run
//   input.M.ids, .targets of micro-batch M
//   forward.M.CALL        output of the call of an op; a second output: CALL.out1
//   backward.M.CALL.inI   gradient of the call's input I; of a parameter the sum so far; of an
//                         input that is also a residual the sum of both
//   gradient.PARAMETER    sum over the micro-batches, neither scaled nor clipped, so with context
//                         parallelism C times one rank's: each rank's loss is the mean of its own
//                         tokens; not reported with ZeRO, where ranks have shards of buckets
//   state.TENSOR          training state after the update: PARAMETER, adamw.m.*, adamw.v.*
// CALL is MODULE.OP, as in "h.3.attn.c_attn.linear": the module is that of the parameters which the
// op reads, or the layer of the previous call ("h.3.attention"). A second call with the same name
// in a micro-batch ends in "#2".
//
// Invariants
//   1. Forward calls recomputed in a backward are not reported.
//   2. A backward visits the forward's calls from newest to oldest, so a gradient belongs to the
//      newest unvisited call of its op. Recomputation keeps that order.
//   3. Observing does not change the computation. So a deferred weight gradient
//      (ops/weight_grads.h) is reported only as gradient.PARAMETER.
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
    int64_t open;        // calls that the backward has not visited
    int64_t walked;      // the call whose gradients are being reported, or -1
    const void *walking; // its identity in the backward; borrowed, only compared
    int input;           // number of its gradients reported last
    bool begun;          // initial values have been reported
} bt_trace;

// These functions do nothing unless the observer has a value callback. `params` and `state` are the
// run's; `masters` is the part of the state that holds the parameters; `kept` is the context of the
// state's tensors.

// Before a step's first micro-batch: starts listening to the context's ops.
BT_CHECKED bt_status bt_trace_begin(bt_trace *trace, const bt_train_observer *observer,
                                    bt_context *context, bt_context *kept, const bt_state *masters,
                                    int64_t step);
BT_CHECKED bt_status bt_trace_micro(bt_trace *trace, bt_context *context, int64_t micro,
                                    const bt_tensor *ids, const bt_tensor *targets);
// After the last backward of the step.
BT_CHECKED bt_status bt_trace_gradients(bt_trace *trace, bt_context *context,
                                        const bt_params *params);
// After the update: reports the state and stops listening.
BT_CHECKED bt_status bt_trace_end(bt_trace *trace, bt_context *context, bt_context *kept,
                                  const bt_state *state);
void bt_trace_release(bt_trace *trace);

#endif
