// harness/cases/operands/chains.c - chains of ops (chain.h): their inputs and outputs, row by row
//
// A chain rounds to the storage type between its ops unless it is grouped: `rounded` is the sum of
// the rounded magnitudes. Backward: the call computes the outputs, then for dy, the gradient of the
// last one, the gradient d<input> of each input that has such an operand.
#include <math.h>

#include "harness/cases/operands/make.h"

#define SOFTMAX_MOST                                                                               \
    220.0 // largest probability of normal logits times a dy of 4, times the columns

static void chain_args(const body *self, const asked *to, any *out)
{
    out->chain = (bt_chain_args){
        .body = self, .rows = to->rows, .wide = to->wide, .accumulate = to->accumulate};
    for (int i = 0; i < self->count; ++i) {
        out->chain.at[i] = to->at[i];
    }
}

static void chain_of(body *self)
{
    bt_operands_of(self, BT_KERNEL_COPY, self->shape.axes[0]);
    self->is_chain = true;
    self->args = chain_args;
}

// dy, after the other inputs; `cols`: of the last output.
static void add_dy(body *self, int64_t cols)
{
    if (self->backward) {
        bt_operand_add(self, "dy", BT_OPERAND_IN, cols);
    }
}

static void add_gradient(body *self, const char *name, int64_t cols, double terms, double rounded)
{
    if (self->backward) {
        bt_operand *gradient = bt_operand_add(self, name, BT_OPERAND_OUT, cols);
        bt_operand_within(gradient, 16, terms);
        gradient->rounded = rounded;
    }
}

// A sum over the rows. Rounding errors of the summands are independent.
static void add_sum_gradient(body *self, const char *name, int64_t count, bt_dtype dtype)
{
    if (self->backward) {
        bt_operand *gradient = bt_operand_add_whole(self, name, BT_OPERAND_OUT, count);
        bt_operand_within(gradient, 16, (double)self->rows);
        gradient->rounded = 4 * sqrt((double)self->rows);
        gradient->dtype = dtype;
    }
}

static void add_weight(body *self, int64_t cols)
{
    bt_operand *weight = bt_operand_add_whole(self, "w", BT_OPERAND_IN, cols);
    bt_operand_filled(weight, BT_FILL_UNIFORM, 0.5, 1.5);
    weight->dtype = bt_operand_sum_type(self, false);
}

void bt_operands_chain_rms_norm(body *self)
{
    const int64_t cols = self->shape.axes[1];
    chain_of(self);
    bt_operand_add(self, "x", BT_OPERAND_IN, cols);
    add_weight(self, cols);
    add_dy(self, cols);
    bt_operand_within(bt_operand_add(self, "y", BT_OPERAND_OUT, cols), 16, 8);
    add_gradient(self, "dx", cols, 16, 0);
    add_sum_gradient(self, "dw", cols, bt_operand_sum_type(self, false));
}

void bt_operands_chain_residual_rms_norm(body *self)
{
    const int64_t cols = self->shape.axes[1];
    chain_of(self);
    bt_operand_add(self, "x", BT_OPERAND_IN, cols);
    bt_operand_add(self, "residual", BT_OPERAND_IN, cols);
    add_weight(self, cols);
    add_dy(self, cols);
    bt_operand_within(bt_operand_add(self, "sum", BT_OPERAND_OUT, cols), 2, 0);
    bt_operand *y = bt_operand_add(self, "y", BT_OPERAND_OUT, cols);
    bt_operand_within(y, 16, 8);
    y->rounded = 8;                        // y follows the sum that was rounded to the storage type
    add_gradient(self, "dx", cols, 16, 8); // and is that of the residual
    add_sum_gradient(self, "dw", cols, bt_operand_sum_type(self, false));
}

void bt_operands_chain_swiglu(body *self)
{
    const int64_t cols = self->shape.axes[1];
    chain_of(self);
    bt_operand_add(self, "gate", BT_OPERAND_IN, cols);
    bt_operand_add(self, "up", BT_OPERAND_IN, cols);
    add_dy(self, cols);
    bt_operand_within(bt_operand_add(self, "y", BT_OPERAND_OUT, cols), 16, 1);
    add_gradient(self, "dgate", cols, 1, 1);
    add_gradient(self, "dup", cols, 1, 1);
}

void bt_operands_chain_rope(body *self)
{
    const int64_t dim = self->shape.axes[2], cols = self->shape.axes[1] * dim;
    chain_of(self);
    bt_operand_add(self, "x", BT_OPERAND_IN, cols);
    bt_operand_filled(bt_operand_add(self, "cos", BT_OPERAND_IN, dim), BT_FILL_UNIFORM, -1, 1);
    bt_operand_filled(bt_operand_add(self, "sin", BT_OPERAND_IN, dim), BT_FILL_UNIFORM, -1, 1);
    add_dy(self, cols);
    bt_operand *y = bt_operand_add(self, "y", BT_OPERAND_OUT, cols);
    bt_operand_within(y, 2, 0);
    y->rounded = 5; // of the two products that are added
    add_gradient(self, "dx", cols, 5, 5);
}

void bt_operands_chain_softmax(body *self)
{
    const int64_t cols = self->shape.axes[1];
    chain_of(self);
    bt_operand_add(self, "x", BT_OPERAND_IN, cols);
    add_dy(self, cols);
    bt_operand_within(bt_operand_add(self, "y", BT_OPERAND_OUT, cols), 32, 0);
    add_gradient(self, "dx", cols, SOFTMAX_MOST / (double)cols, 2 * SOFTMAX_MOST / (double)cols);
}

void bt_operands_chain_scores(body *self)
{
    const int64_t *axes = self->shape.axes;
    chain_of(self);
    bt_operand_add(self, "q", BT_OPERAND_IN, axes[1] * axes[3]);
    bt_operand_add(self, "k", BT_OPERAND_IN, axes[2] * axes[3]);
    bt_operand_add_whole(self, "bias", BT_OPERAND_IN, axes[1] * axes[2]);
    add_dy(self, axes[1] * axes[2]);
    bt_operand *scores = bt_operand_add(self, "scores", BT_OPERAND_OUT, axes[1] * axes[2]);
    bt_operand_within(scores, 32, 8 + sqrt((double)axes[3]));
    scores->rounded = 16; // of the product, of which each later op keeps the error
    add_gradient(self, "dq", axes[1] * axes[3], 8 + sqrt((double)axes[2]), 8);
    add_gradient(self, "dk", axes[2] * axes[3], 8 + sqrt((double)axes[1]), 8);
    add_sum_gradient(self, "dbias", axes[1] * axes[2], self->dtype);
}

void bt_operands_chain_cross_entropy(body *self)
{
    const int64_t cols = self->shape.axes[1];
    chain_of(self);
    bt_operand_add(self, "logits", BT_OPERAND_IN, cols);
    bt_operand_filled(bt_operand_add(self, "p", BT_OPERAND_IN, cols), BT_FILL_UNIFORM, 0,
                      2.0 / (double)cols);
    add_dy(self, 1);
    bt_operand *loss = bt_operand_add(self, "loss", BT_OPERAND_OUT, 1);
    bt_operand_within(loss, 16, 16);
    loss->rounded = 12; // of the logarithm of the sum
    add_gradient(self, "dlogits", cols, SOFTMAX_MOST / (double)cols,
                 2 * SOFTMAX_MOST / (double)cols);
}
