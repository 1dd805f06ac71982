// framework/optim/adamw.h - AdamW with weight-decay groups and clipping by the global norm
//
// Source: Loshchilov & Hutter 2017, arXiv:1711.05101. Norm, clipping and update stay on the device:
// a step needs no round trip to the host.
#ifndef BT_OPTIM_ADAMW_H
#define BT_OPTIM_ADAMW_H

#include "framework/nn/param.h"

typedef struct bt_adamw_config {
    double beta1, beta2, epsilon;
    double weight_decay; // for parameters of rank >= 2; biases and normalizations do not decay
    double clip;         // largest global gradient norm; <= 0: no clipping
} bt_adamw_config;

// Elements [offset, offset + count) of a parameter, which one rank updates. A tensor, [count],
// replaces that part of the parameter's; NULL: the parameter's tensor is used.
typedef struct bt_adamw_slice {
    int64_t param; // index in the list
    int64_t offset, count;
    bt_tensor *master; // retained by the optimizer
    bt_tensor *copy;   // likewise; of the value's type if that differs from the master's
    bt_tensor *grad;   // likewise
} bt_adamw_slice;

typedef struct bt_adamw {
    bt_adamw_config config;
    bt_params *params;                    // borrowed
    int64_t param_count;                  // number of parameters at initialization
    bt_adamw_slice *slices;               // owned [count]
    int64_t count;                        // number of slices; without slices one per parameter
    bt_tensor **m, **v;                   // owned [count], retained; initially zero
    struct bt_adamw_item *items;          // owned [count], scratch of a step
    struct bt_grad_norm_item *norm_items; // owned [count], likewise
    bt_tensor *norm, *scale;              // retained [1]
    int64_t step;                         // updates done
} bt_adamw;

// State for the parameters that the list has now; none may be added afterwards.
BT_CHECKED bt_status bt_adamw_init(bt_params *params, const bt_adamw_config *config,
                                   bt_adamw *optimizer);
// State for the slices alone, whose m[i] and v[i] are [slices[i].count].
// Errors  also INVALID_ARGUMENT for a slice outside of its parameter
BT_CHECKED bt_status bt_adamw_init_slices(bt_params *params, const bt_adamw_config *config,
                                          const bt_adamw_slice *slices, int64_t count,
                                          bt_adamw *optimizer);
void bt_adamw_release(bt_adamw *optimizer);
// Updates all parameters from their gradients times grad_scale (1 / micro-batches), then releases
// the gradients. optimizer->norm holds the norm before clipping (of the scaled gradient)
// afterwards; if the norm is not finite, the parameters do not change.
// Errors  INVALID_ARGUMENT if a parameter has no gradient or was added after bt_adamw_init, naming
//         it
BT_CHECKED bt_status bt_adamw_step(bt_context *context, bt_adamw *optimizer, double lr,
                                   double grad_scale);
// The two halves of a step, for callers that inspect the norm in between: bt_adamw_measure, then
// bt_adamw_apply; or bt_adamw_skip, which counts the step and releases the gradients.
BT_CHECKED bt_status bt_adamw_measure(bt_context *context, bt_adamw *optimizer, double grad_scale);
BT_CHECKED bt_status bt_adamw_update(bt_context *context, bt_adamw *optimizer, double lr);
void bt_adamw_skip(bt_adamw *optimizer);
// bt_adamw_measure in two halves, for callers that have parts of the gradients and gather the
// partial sums in between. A partial sum covers BT_SQUARES_BLOCK elements of a parameter, whose
// slices begin at multiples of it; partial sums are in the order of the list.
// partials [at least bt_adamw_partial_count] f64; the first half writes only those of its slices,
// and none for a parameter that another rank counts.
int64_t bt_adamw_partial_count(const bt_adamw *optimizer);
BT_CHECKED bt_status bt_adamw_squares(bt_context *context, bt_adamw *optimizer,
                                      bt_tensor *partials);
BT_CHECKED bt_status bt_adamw_clip(bt_context *context, bt_adamw *optimizer,
                                   const bt_tensor *partials, double grad_scale);

#endif
