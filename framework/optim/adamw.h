// framework/optim/adamw.h - AdamW with weight-decay groups and clipping by the global norm
//
// Source: Loshchilov & Hutter 2017, arXiv:1711.05101. Norm, clipping and update stay on the device:
// a step needs no round trip to the host.
#ifndef BT_OPTIM_ADAMW_H
#define BT_OPTIM_ADAMW_H

#include "framework/nn/param.h"

typedef struct bt_adamw_config {
    double beta1, beta2, epsilon;
    double weight_decay; // on parameters of rank >= 2; biases and normalisations do not decay
    double clip;         // largest global gradient norm; <= 0: no clipping
} bt_adamw_config;

// Elements [offset, offset + count) of a parameter, which one rank updates. A tensor, [count],
// takes the place of that part of the parameter's own; NULL: the parameter's own is used.
typedef struct bt_adamw_slice {
    int64_t param; // place in the list
    int64_t offset, count;
    bt_tensor *master; // retained by the optimizer
    bt_tensor *copy;   // likewise; the value's type, where it is not the master's
    bt_tensor *grad;   // likewise
} bt_adamw_slice;

typedef struct bt_adamw {
    bt_adamw_config config;
    bt_params *params;                    // borrowed
    int64_t param_count;                  // of the parameters when it was made
    bt_adamw_slice *slices;               // owned [count]
    int64_t count;                        // without slices: of the parameters, a slice each
    bt_tensor **m, **v;                   // owned [count], retained; zero at first
    struct bt_adamw_item *items;          // owned [count], scratch of a step
    struct bt_grad_norm_item *norm_items; // owned [count], likewise
    bt_tensor *norm, *scale;              // retained [1]
    int64_t step;                         // updates done
} bt_adamw;

// State for the parameters that the list has now; none may be added afterwards.
BT_CHECKED bt_status bt_adamw_init(bt_params *params, const bt_adamw_config *config,
                                   bt_adamw *optimizer);
// State for the slices alone, whose m[i] and v[i] are [slices[i].count].
// Errors  also INVALID_ARGUMENT for a slice that is no part of a parameter
BT_CHECKED bt_status bt_adamw_init_slices(bt_params *params, const bt_adamw_config *config,
                                          const bt_adamw_slice *slices, int64_t count,
                                          bt_adamw *optimizer);
void bt_adamw_release(bt_adamw *optimizer);
// Updates all parameters from their gradients times grad_scale (1 / micro-batches), then drops the
// gradients. optimizer->norm holds the norm before clipping (of the scaled gradient) afterwards; a
// norm that is not finite leaves the parameters as they are.
// Errors  INVALID_ARGUMENT when a parameter has no gradient or was added after bt_adamw_init,
// naming
//         it
BT_CHECKED bt_status bt_adamw_step(bt_context *context, bt_adamw *optimizer, double lr,
                                   double grad_scale);
// The two halves of a step, for callers that look at the norm in between: the norm, then the
// update; or, in its place, bt_adamw_skip, which counts the step and drops the gradients.
BT_CHECKED bt_status bt_adamw_measure(bt_context *context, bt_adamw *optimizer, double grad_scale);
BT_CHECKED bt_status bt_adamw_update(bt_context *context, bt_adamw *optimizer, double lr);
void bt_adamw_skip(bt_adamw *optimizer);
// bt_adamw_measure in two halves, for callers that have parts of the gradients and bring the
// partial sums together in between. A partial sum is that of BT_SQUARES_BLOCK elements of a
// parameter, whose slices begin at multiples of it; they lie in the order of the list.
// partials [at least bt_adamw_partial_count] f64; the first half writes those of its slices alone,
// and none of a parameter that is counted elsewhere.
int64_t bt_adamw_partial_count(const bt_adamw *optimizer);
BT_CHECKED bt_status bt_adamw_squares(bt_context *context, bt_adamw *optimizer,
                                      bt_tensor *partials);
BT_CHECKED bt_status bt_adamw_clip(bt_context *context, bt_adamw *optimizer,
                                   const bt_tensor *partials, double grad_scale);

#endif
