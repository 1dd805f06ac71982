// harness/cases/operands/elementwise.c - copies, casts, transposes, GELU, bias
#include "harness/cases/operands/make.h"

static void copy_args(const body *self, const asked *to, any *out)
{
    out->copy = (bt_copy_args){.rank = 1,
                               .shape = {to->rows},
                               .x = to->at[0],
                               .x_stride = {1},
                               .x_dtype = bt_operand_type(self, to->wide),
                               .y = to->at[1],
                               .y_stride = {1},
                               .y_dtype = to->wide ? BT_F64 : self->operands[1].dtype};
}

void bt_operands_copy(body *self)
{
    bt_operands_of(self, BT_KERNEL_COPY, self->shape.count);
    bt_operand_add(self, "x", BT_OPERAND_IN, 1);
    bt_operand_add(self, "y", BT_OPERAND_OUT, 1);
    self->args = copy_args;
}

void bt_operands_cast(body *self)
{
    bt_operands_copy(self);
    self->operands[1].dtype = self->dtype == BT_BF16 ? BT_F32 : BT_BF16;
}

// y[r,c] = x[c,r]; the reference is one call, since a part of y's rows needs the whole x.
static void transpose_args(const body *self, const asked *to, any *out)
{
    int64_t cols = self->shape.axes[1];
    out->copy = (bt_copy_args){.rank = 2,
                               .shape = {to->rows, cols},
                               .x = to->at[0],
                               .x_stride = {1, to->rows},
                               .x_dtype = bt_operand_type(self, to->wide),
                               .y = to->at[1],
                               .y_stride = {cols, 1},
                               .y_dtype = bt_operand_type(self, to->wide)};
}

void bt_operands_transpose(body *self)
{
    bt_operands_of(self, BT_KERNEL_COPY, self->shape.axes[0]);
    self->in_chunks = false;
    bt_operand_add(self, "x", BT_OPERAND_IN, self->shape.axes[1]);
    bt_operand_add(self, "y", BT_OPERAND_OUT, self->shape.axes[1]);
    self->args = transpose_args;
}

static void gelu_args(const body *self, const asked *to, any *out)
{
    if (self->backward) {
        out->unary_backward = (bt_unary_backward_args){.function = BT_UNARY_GELU,
                                                       .x = to->at[0],
                                                       .dy = to->at[1],
                                                       .dx = to->at[2],
                                                       .count = to->rows,
                                                       .dtype = bt_operand_type(self, to->wide)};
        return;
    }
    out->unary = (bt_unary_args){.function = BT_UNARY_GELU,
                                 .x = to->at[0],
                                 .y = to->at[1],
                                 .count = to->rows,
                                 .dtype = bt_operand_type(self, to->wide)};
}

void bt_operands_gelu(body *self)
{
    bt_operands_of(self, self->backward ? BT_KERNEL_UNARY_BACKWARD : BT_KERNEL_UNARY,
                   self->shape.count);
    bt_operand_add(self, "x", BT_OPERAND_IN, 1);
    if (self->backward) {
        bt_operand_add(self, "dy", BT_OPERAND_IN, 1);
    }
    bt_operand_within(bt_operand_add(self, self->backward ? "dx" : "y", BT_OPERAND_OUT, 1), 16, 1);
    self->args = gelu_args;
}

static void bias_args(const body *self, const asked *to, any *out)
{
    int64_t cols = self->shape.axes[1];
    out->binary = (bt_binary_args){.function = BT_BINARY_ADD,
                                   .rank = 2,
                                   .shape = {to->rows, cols},
                                   .a = to->at[0],
                                   .a_stride = {cols, 1},
                                   .b = to->at[1],
                                   .b_stride = {0, 1},
                                   .y = to->at[2],
                                   .dtype = bt_operand_type(self, to->wide)};
}

void bt_operands_bias(body *self)
{
    bt_operands_of(self, BT_KERNEL_BINARY, self->shape.axes[0]);
    bt_operand_add(self, "x", BT_OPERAND_IN, self->shape.axes[1]);
    bt_operand_add_whole(self, "bias", BT_OPERAND_IN, self->shape.axes[1]);
    bt_operand_within(bt_operand_add(self, "y", BT_OPERAND_OUT, self->shape.axes[1]), 2, 0);
    self->args = bias_args;
}
