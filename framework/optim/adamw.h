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

typedef struct bt_adamw {
    bt_adamw_config config;
    bt_params *params;                    // borrowed
    int64_t count;                        // of the parameters when it was made
    bt_tensor **m, **v;                   // owned [count], retained; zero at first
    struct bt_adamw_item *items;          // owned [count], scratch of a step
    struct bt_grad_norm_item *norm_items; // owned [count], likewise
    bt_tensor *norm, *scale;              // retained [1]
    int64_t step;                         // updates done
} bt_adamw;

// State for the parameters that the list has now; none may be added afterwards.
BT_CHECKED bt_status bt_adamw_init(bt_params *params, const bt_adamw_config *config,
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

#endif
