// harness/cases/operands/chains.c - chains of ops (chain.h): their inputs and outputs, row by row
//
// A chain rounds to the storage type between its ops unless it is grouped: `rounded` is the sum of
// the rounded magnitudes.
#include <math.h>

#include "harness/cases/operands/make.h"

static void chain_args(const body *self, int64_t rows, void *const *at, bool wide, bool accumulate,
                       items *lists, any *out)
{
    (void)accumulate;
    (void)lists;
    out->chain = (bt_chain_args){.body = self, .rows = rows, .wide = wide};
    for (int i = 0; i < self->count; ++i) {
        out->chain.at[i] = at[i];
    }
}

static void chain_of(body *self)
{
    bt_operands_of(self, BT_KERNEL_COPY, self->shape.axes[0]);
    self->is_chain = true;
    self->args = chain_args;
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
    bt_operand_within(bt_operand_add(self, "y", BT_OPERAND_OUT, cols), 16, 8);
}

void bt_operands_chain_residual_rms_norm(body *self)
{
    const int64_t cols = self->shape.axes[1];
    chain_of(self);
    bt_operand_add(self, "x", BT_OPERAND_IN, cols);
    bt_operand_add(self, "residual", BT_OPERAND_IN, cols);
    add_weight(self, cols);
    bt_operand_within(bt_operand_add(self, "sum", BT_OPERAND_OUT, cols), 2, 0);
    bt_operand *y = bt_operand_add(self, "y", BT_OPERAND_OUT, cols);
    bt_operand_within(y, 16, 8);
    y->rounded = 8; // y follows the sum that was rounded to the storage type
}

void bt_operands_chain_swiglu(body *self)
{
    const int64_t cols = self->shape.axes[1];
    chain_of(self);
    bt_operand_add(self, "gate", BT_OPERAND_IN, cols);
    bt_operand_add(self, "up", BT_OPERAND_IN, cols);
    bt_operand_within(bt_operand_add(self, "y", BT_OPERAND_OUT, cols), 16, 1);
}

void bt_operands_chain_rope(body *self)
{
    const int64_t dim = self->shape.axes[2], cols = self->shape.axes[1] * dim;
    chain_of(self);
    bt_operand_add(self, "x", BT_OPERAND_IN, cols);
    bt_operand_filled(bt_operand_add(self, "cos", BT_OPERAND_IN, dim), BT_FILL_UNIFORM, -1, 1);
    bt_operand_filled(bt_operand_add(self, "sin", BT_OPERAND_IN, dim), BT_FILL_UNIFORM, -1, 1);
    bt_operand *y = bt_operand_add(self, "y", BT_OPERAND_OUT, cols);
    bt_operand_within(y, 2, 0);
    y->rounded = 5; // of the two products that are added
}

void bt_operands_chain_softmax(body *self)
{
    const int64_t cols = self->shape.axes[1];
    chain_of(self);
    bt_operand_add(self, "x", BT_OPERAND_IN, cols);
    bt_operand_within(bt_operand_add(self, "y", BT_OPERAND_OUT, cols), 32, 0);
}

void bt_operands_chain_scores(body *self)
{
    const int64_t *axes = self->shape.axes;
    chain_of(self);
    bt_operand_add(self, "q", BT_OPERAND_IN, axes[1] * axes[3]);
    bt_operand_add(self, "k", BT_OPERAND_IN, axes[2] * axes[3]);
    bt_operand_add_whole(self, "bias", BT_OPERAND_IN, axes[1] * axes[2]);
    bt_operand *scores = bt_operand_add(self, "scores", BT_OPERAND_OUT, axes[1] * axes[2]);
    bt_operand_within(scores, 32, 8 + sqrt((double)axes[3]));
    scores->rounded = 16; // of the product, of which each later op keeps the error
}

void bt_operands_chain_cross_entropy(body *self)
{
    const int64_t cols = self->shape.axes[1];
    chain_of(self);
    bt_operand_add(self, "logits", BT_OPERAND_IN, cols);
    bt_operand_filled(bt_operand_add(self, "p", BT_OPERAND_IN, cols), BT_FILL_UNIFORM, 0,
                      2.0 / (double)cols);
    bt_operand *loss = bt_operand_add(self, "loss", BT_OPERAND_OUT, 1);
    bt_operand_within(loss, 16, 16);
    loss->rounded = 12; // of the logarithm of the sum
}
