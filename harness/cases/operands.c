// harness/cases/operands.c - derives operands and call from a kernel case
#include <math.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/cases/operands/make.h"

// ---- the table ---------------------------------------------------------------------------------

static void (*const makers[BT_KERNEL_CASE_OP_COUNT])(body *) = {
#define BT_KERNEL_CASE_OP(name, min_rank, max_rank, axes, forward_bytes, backward_bytes,           \
                          forward_flops, backward_flops)                                           \
    bt_operands_##name,
#include "harness/suite/kernel_ops.inl"
#undef BT_KERNEL_CASE_OP
};

static bt_status make_body(const cJSON *kernel, bool peer, bt_kernel_body *out)
{
    memset(out, 0, sizeof *out);
    const char *dtype = bt_json_text_of(kernel, "dtype");
    out->tf32 = strcmp(dtype, "tf32") == 0;
    out->backward = strcmp(bt_json_text_of(kernel, "direction"), "backward") == 0;
    out->peer = peer;
    BT_FAIL_IF(!bt_kernel_case_op_parse(bt_json_text_of(kernel, "op"), &out->what) ||
                   !bt_kernel_shape_parse(bt_json_text_of(kernel, "shape"), &out->shape) ||
                   !bt_dtype_parse(out->tf32 ? "f32" : dtype, &out->dtype) ||
                   !bt_dtype_is_float(out->dtype),
               BT_STATUS_INVALID_ARGUMENT, "a kernel case of op \"%s\", dtype \"%s\", shape \"%s\"",
               bt_json_text_of(kernel, "op"), dtype, bt_json_text_of(kernel, "shape"));
    out->main = out->dtype;
    makers[out->what](out);
    return BT_OK;
}

bt_status bt_kernel_body_make(const cJSON *kernel, bt_kernel_body *out)
{
    return make_body(kernel, false, out);
}

bt_status bt_kernel_body_for_peer(const cJSON *kernel, bt_kernel_body *out)
{
    return make_body(kernel, true, out);
}

void bt_kernel_body_reshape(const bt_kernel_body *self, const bt_kernel_shape *shape,
                            bt_kernel_body *out)
{
    *out = (bt_kernel_body){.what = self->what,
                            .shape = *shape,
                            .dtype = self->dtype,
                            .tf32 = self->tf32,
                            .backward = self->backward,
                            .peer = self->peer,
                            .main = self->dtype};
    makers[out->what](out);
}

double bt_operand_tolerance(const bt_kernel_body *self, const bt_operand *operand, double expected)
{
    bt_dtype compute = self->tf32 ? BT_F16 : self->dtype; // tf32 has the mantissa of f16
    bt_dtype sums = self->dtype == BT_F64 ? BT_F64 : BT_F32;
    double size = fabs(expected);
    return operand->relative * bt_dtype_epsilon(sums) * size +
           2 * bt_dtype_epsilon(operand->dtype) * size +
           16 * bt_dtype_epsilon(sums) * operand->terms +
           2 * bt_dtype_epsilon(compute) * operand->rounded;
}

int64_t bt_operand_count(const bt_operand *operand, int64_t rows)
{
    return operand->per_row ? operand->per_row * rows : operand->whole;
}

bool bt_operand_is_input(const bt_operand *operand)
{
    return operand->role == BT_OPERAND_IN || operand->role == BT_OPERAND_INOUT;
}

bool bt_operand_is_output(const bt_operand *operand)
{
    return operand->role == BT_OPERAND_OUT || operand->role == BT_OPERAND_INOUT;
}
