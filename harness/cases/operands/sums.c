// harness/cases/operands/sums.c - sums over rows or along them, and rows of a table
#include "harness/cases/operands/make.h"

static void reduce_sum_args(const body *self, const asked *to, any *out)
{
    bool over_rows = self->operands[1].per_row == 0;
    int64_t cols = self->shape.axes[1];
    out->reduce_sum = (bt_reduce_sum_args){.x = to->at[0],
                                           .y = to->at[1],
                                           .outer = over_rows ? 1 : to->rows,
                                           .reduce = over_rows ? to->rows : cols,
                                           .inner = over_rows ? cols : 1,
                                           .scale = 1,
                                           .accumulate = to->accumulate && over_rows,
                                           .dtype = bt_operand_type(self, to->wide),
                                           .y_dtype = bt_operand_sum_type(self, to->wide)};
}

void bt_operands_reduce_sum(body *self)
{
    bt_operands_of(self, BT_KERNEL_REDUCE_SUM, self->shape.axes[0]);
    bt_operand_add(self, "x", BT_OPERAND_IN, self->shape.axes[1]);
    bt_operand *y = bt_operand_add_whole(self, "y", BT_OPERAND_OUT, self->shape.axes[1]);
    bt_operand_within(y, 8, (double)self->shape.axes[0]);
    y->dtype = bt_operand_sum_type(self, false);
    self->args = reduce_sum_args;
}

void bt_operands_reduce_sum_rows(body *self)
{
    bt_operands_reduce_sum(self);
    self->operands[1].per_row = 1;
    self->operands[1].whole = 0;
    self->operands[1].terms = (double)self->shape.axes[1];
}

static void embedding_args(const body *self, const asked *to, any *out)
{
    int64_t cols = self->shape.axes[1], vocab = self->shape.axes[2];
    if (self->backward) {
        out->embedding_backward =
            (bt_embedding_backward_args){.ids = to->at[0],
                                         .dy = to->at[1],
                                         .dtable = to->at[2],
                                         .rows = to->rows,
                                         .cols = cols,
                                         .vocab = vocab,
                                         .accumulate = to->accumulate,
                                         .dtype = bt_operand_type(self, to->wide),
                                         .grad_dtype = bt_operand_sum_type(self, to->wide)};
        return;
    }
    out->embedding = (bt_embedding_args){.ids = to->at[0],
                                         .table = to->at[1],
                                         .y = to->at[2],
                                         .rows = to->rows,
                                         .cols = cols,
                                         .vocab = vocab,
                                         .dtype = bt_operand_type(self, to->wide)};
}

void bt_operands_embedding(body *self)
{
    int64_t rows = self->shape.axes[0], cols = self->shape.axes[1], vocab = self->shape.axes[2];
    bt_operands_of(self, self->backward ? BT_KERNEL_EMBEDDING_BACKWARD : BT_KERNEL_EMBEDDING, rows);
    bt_operand *ids = bt_operand_add(self, "ids", BT_OPERAND_IN, 1);
    bt_operand_filled(ids, BT_FILL_BELOW, (double)vocab, 0);
    ids->dtype = BT_I32;
    if (self->backward) {
        bt_operand_add(self, "dy", BT_OPERAND_IN, cols);
        bt_operand *dtable = bt_operand_add_whole(self, "dtable", BT_OPERAND_OUT, vocab * cols);
        bt_operand_within(dtable, 8, 16 + (double)rows / (double)vocab);
        dtable->dtype = bt_operand_sum_type(self, false);
    } else {
        bt_operand_add_whole(self, "table", BT_OPERAND_IN, vocab * cols);
        bt_operand_add(self, "y", BT_OPERAND_OUT, cols);
    }
    self->args = embedding_args;
}
