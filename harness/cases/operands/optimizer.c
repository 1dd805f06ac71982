// harness/cases/operands/optimizer.c - updates and norms over lists of tensors
#include "harness/cases/operands/make.h"

static void adamw_args(const body *self, const asked *to, any *out)
{
    bt_dtype dtype = to->wide ? BT_F64 : self->operands[0].dtype;
    size_t size = bt_dtype_size(dtype), start = 0;
    int count = to->wide ? 1 : self->shape.tensor_count; // the update is elementwise
    bool copies = self->count > 5 && !to->wide;
    for (int i = 0; i < count; ++i) {
        int64_t elements = to->wide ? to->rows : self->shape.tensors[i];
        to->items->adamw[i] = (bt_adamw_item){
            .param = (char *)to->at[0] + start * size,
            .grad = (char *)to->at[1] + start * size,
            .m = (char *)to->at[2] + start * size,
            .v = (char *)to->at[3] + start * size,
            .copy = copies ? (uint16_t *)to->at[5] + start : NULL,
            .count = elements,
            .decay = 0.1,
        };
        start += (size_t)elements;
    }
    out->adamw = (bt_adamw_args){.items = to->items->adamw,
                                 .item_count = count,
                                 .lr = 6e-4,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .epsilon = 1e-8,
                                 .step = 10,
                                 .scale = to->at[4],
                                 .dtype = dtype};
}

void bt_operands_adamw(body *self)
{
    bool copies = self->dtype == BT_BF16; // copy of the weights, beside f32 masters
    bt_operands_of(self, BT_KERNEL_ADAMW, self->shape.count);
    bt_operand *param = bt_operand_add(self, "param", BT_OPERAND_INOUT, 1);
    bt_operand_filled(param, BT_FILL_NORMAL, 0, 0.02);
    bt_operand_within(param, 8, 0.01);
    bt_operand_filled(bt_operand_add(self, "grad", BT_OPERAND_IN, 1), BT_FILL_NORMAL, 0, 0.01);
    bt_operand *m = bt_operand_add(self, "m", BT_OPERAND_INOUT, 1);
    bt_operand_filled(m, BT_FILL_NORMAL, 0, 0.01);
    bt_operand_within(m, 16, 0.01);
    bt_operand *v = bt_operand_add(self, "v", BT_OPERAND_INOUT, 1);
    bt_operand_filled(v, BT_FILL_UNIFORM, 1e-6, 1e-4);
    bt_operand_within(v, 16, 1e-5);
    bt_operand_filled(bt_operand_add_whole(self, "scale", BT_OPERAND_IN, 1), BT_FILL_CONSTANT, 1,
                      0);
    for (int i = 0; copies && i < 5; ++i) {
        self->operands[i].dtype = BT_F32;
    }
    self->main = self->operands[0].dtype;
    if (copies) {
        bt_operand_add(self, "copy", BT_OPERAND_SPARE, 1);
    }
    self->args = adamw_args;
}

static void grad_norm_args(const body *self, const asked *to, any *out)
{
    bt_dtype dtype = bt_operand_type(self, to->wide);
    size_t start = 0;
    for (int i = 0; i < self->shape.tensor_count; ++i) {
        to->items->grad_norm[i] =
            (bt_grad_norm_item){(char *)to->at[0] + start, self->shape.tensors[i]};
        start += (size_t)self->shape.tensors[i] * bt_dtype_size(dtype);
    }
    out->grad_norm = (bt_grad_norm_args){.items = to->items->grad_norm,
                                         .item_count = self->shape.tensor_count,
                                         .grad_scale = 1,
                                         .max_norm = 1,
                                         .norm = to->at[1],
                                         .scale = to->at[2],
                                         .dtype = dtype};
}

void bt_operands_grad_norm(body *self)
{
    bt_operands_of(self, BT_KERNEL_GRAD_NORM, self->shape.count);
    self->in_chunks = false;
    bt_operand_filled(bt_operand_add(self, "grad", BT_OPERAND_IN, 1), BT_FILL_NORMAL, 0, 0.01);
    bt_operand_within(bt_operand_add_whole(self, "norm", BT_OPERAND_OUT, 1), 64, 0);
    bt_operand_within(bt_operand_add_whole(self, "scale", BT_OPERAND_OUT, 1), 64, 0);
    self->args = grad_norm_args;
}
