// harness/cases/operands/make.c - helpers to describe operands
#include "harness/cases/operands/make.h"

bt_dtype bt_operand_type(const body *self, bool wide) { return wide ? BT_F64 : self->dtype; }

bt_dtype bt_operand_sum_type(const body *self, bool wide)
{
    // Frameworks return sums in the type of the operands.
    return wide || self->dtype == BT_F64 ? BT_F64 : self->peer ? self->dtype : BT_F32;
}

bt_operand *bt_operand_add(body *self, const char *name, bt_operand_role role, int64_t per_row)
{
    bt_operand *out = &self->operands[self->count++];
    *out = (bt_operand){.name = name,
                        .role = role,
                        .dtype = self->dtype,
                        .per_row = per_row,
                        .fill = BT_FILL_NORMAL,
                        .b = 1};
    return out;
}

bt_operand *bt_operand_add_whole(body *self, const char *name, bt_operand_role role, int64_t count)
{
    bt_operand *out = bt_operand_add(self, name, role, 0);
    out->whole = count;
    return out;
}

void bt_operand_filled(bt_operand *operand, bt_operand_fill fill, double a, double b)
{
    operand->fill = fill;
    operand->a = a;
    operand->b = b;
}

void bt_operand_within(bt_operand *operand, double relative, double terms)
{
    operand->relative = relative;
    operand->terms = terms;
}

void bt_operands_of(body *self, bt_kernel_op op, int64_t rows)
{
    self->op = op;
    self->rows = rows;
    self->in_chunks = true;
}
