// harness/cases/operands/rows.c - LayerNorm and softmax, row by row
#include "harness/cases/operands/make.h"

static void layernorm_args(const body *self, const asked *to, any *out)
{
    int64_t cols = self->shape.axes[1];
    bt_dtype dtype = bt_operand_type(self, to->wide);
    if (self->backward) {
        out->layernorm_backward =
            (bt_layernorm_backward_args){.dy = to->at[0],
                                         .s = to->at[1],
                                         .gamma = to->at[2],
                                         .mean = to->at[3],
                                         .rstd = to->at[4],
                                         .dx = to->at[5],
                                         .dgamma = to->at[6],
                                         .dbeta = to->at[7],
                                         .rows = to->rows,
                                         .cols = cols,
                                         .accumulate_params = to->accumulate,
                                         .dtype = dtype,
                                         .param_dtype = dtype,
                                         .grad_dtype = bt_operand_sum_type(self, to->wide)};
        return;
    }
    bool residual = self->what == BT_KERNEL_CASE_residual_layernorm;
    out->layernorm = (bt_layernorm_args){.x = to->at[0],
                                         .gamma = to->at[1],
                                         .beta = to->at[2],
                                         .y = to->at[3],
                                         .mean = to->at[4],
                                         .rstd = to->at[5],
                                         .residual = residual ? to->at[6] : NULL,
                                         .sum = residual ? to->at[7] : NULL,
                                         .rows = to->rows,
                                         .cols = cols,
                                         .epsilon = 1e-5,
                                         .dtype = dtype,
                                         .param_dtype = dtype};
}

// Mean and deviation, inputs of the backward call; the result is written where dx comes later.
static void layernorm_saved(const body *self, int64_t rows, void *const *at, any *out)
{
    body forward = *self;
    forward.backward = false;
    void *const places[8] = {at[1], at[2], at[2], at[5], at[3], at[4]};
    layernorm_args(&forward, &(asked){.rows = rows, .at = places, .wide = true}, out);
}

static void operands_layernorm_backward(body *self)
{
    int64_t rows = self->shape.axes[0], cols = self->shape.axes[1];
    bt_operands_of(self, BT_KERNEL_LAYERNORM_BACKWARD, rows);
    bt_operand_add(self, "dy", BT_OPERAND_IN, cols);
    bt_operand_add(self, "s", BT_OPERAND_IN, cols);
    bt_operand_filled(bt_operand_add_whole(self, "gamma", BT_OPERAND_IN, cols), BT_FILL_UNIFORM,
                      0.5, 1.5);
    bt_operand *mean = bt_operand_add(self, "mean", BT_OPERAND_IN, 1);
    bt_operand_filled(mean, BT_FILL_NORMAL, 0, 0.1);
    bt_operand *rstd = bt_operand_add(self, "rstd", BT_OPERAND_IN, 1);
    bt_operand_filled(rstd, BT_FILL_UNIFORM, 0.8, 1.2);
    mean->role = rstd->role = self->peer ? BT_OPERAND_SAVED : BT_OPERAND_IN;
    self->saved_op = BT_KERNEL_LAYERNORM;
    self->saved = self->peer ? layernorm_saved : NULL;
    bt_operand_within(bt_operand_add(self, "dx", BT_OPERAND_OUT, cols), 16, 16);
    bt_operand *dgamma = bt_operand_add_whole(self, "dgamma", BT_OPERAND_OUT, cols);
    bt_operand *dbeta = bt_operand_add_whole(self, "dbeta", BT_OPERAND_OUT, cols);
    bt_operand_within(dgamma, 16, (double)rows);
    bt_operand_within(dbeta, 16, (double)rows);
    mean->dtype = rstd->dtype = dgamma->dtype = dbeta->dtype = bt_operand_sum_type(self, false);
    self->args = layernorm_args;
}

void bt_operands_layernorm(body *self)
{
    int64_t cols = self->shape.axes[1];
    if (self->backward) {
        operands_layernorm_backward(self);
        return;
    }
    bt_operands_of(self, BT_KERNEL_LAYERNORM, self->shape.axes[0]);
    bt_operand_add(self, "x", BT_OPERAND_IN, cols);
    bt_operand_filled(bt_operand_add_whole(self, "gamma", BT_OPERAND_IN, cols), BT_FILL_UNIFORM,
                      0.5, 1.5);
    bt_operand_add_whole(self, "beta", BT_OPERAND_IN, cols);
    bt_operand_within(bt_operand_add(self, "y", BT_OPERAND_OUT, cols), 16, 8);
    bt_operand *mean = bt_operand_add(self, "mean", BT_OPERAND_OUT, 1);
    bt_operand_within(mean, 16, 1);
    bt_operand *rstd = bt_operand_add(self, "rstd", BT_OPERAND_OUT, 1);
    bt_operand_within(rstd, 16, 2);
    mean->dtype = rstd->dtype = bt_operand_sum_type(self, false);
    mean->role = rstd->role = self->peer ? BT_OPERAND_SPARE : BT_OPERAND_OUT;
    self->args = layernorm_args;
}

void bt_operands_residual_layernorm(body *self)
{
    int64_t cols = self->shape.axes[1];
    bt_operands_layernorm(self);
    self->operands[3].rounded = 8; // y follows the sum that was rounded to the storage type
    bt_operand_add(self, "residual", BT_OPERAND_IN, cols);
    bt_operand_within(bt_operand_add(self, "sum", BT_OPERAND_OUT, cols), 2, 0);
    self->operands[4].rounded = self->operands[5].rounded = 1;
}

static void softmax_args(const body *self, const asked *to, any *out)
{
    int64_t cols = self->shape.axes[1];
    if (self->backward) {
        out->softmax_backward = (bt_softmax_backward_args){
            to->at[0], to->at[1], to->at[2], to->rows, cols, bt_operand_type(self, to->wide)};
    } else {
        out->softmax = (bt_softmax_args){to->at[0], to->at[1], to->rows, cols,
                                         bt_operand_type(self, to->wide)};
    }
}

void bt_operands_softmax(body *self)
{
    int64_t cols = self->shape.axes[1];
    bt_operands_of(self, self->backward ? BT_KERNEL_SOFTMAX_BACKWARD : BT_KERNEL_SOFTMAX,
                   self->shape.axes[0]);
    bt_operand *first = bt_operand_add(self, self->backward ? "y" : "x", BT_OPERAND_IN, cols);
    if (self->backward) {
        bt_operand_filled(first, BT_FILL_UNIFORM, 0, 2.0 / (double)cols);
        bt_operand_add(self, "dy", BT_OPERAND_IN, cols);
    }
    bt_operand_within(bt_operand_add(self, self->backward ? "dx" : "y", BT_OPERAND_OUT, cols), 32,
                      self->backward ? 8.0 / (double)cols : 0);
    self->args = softmax_args;
}
