// harness/cases/operands/gemm.c - matrix products and what ends a linear layer
#include <math.h>

#include "harness/cases/operands/make.h"

// Rows are those of A and D, but for tn: there they are those of both operands, summed over. A
// whole operand is read by every row.

enum { GEMM_A, GEMM_B, GEMM_D, GEMM_BIAS, GEMM_OTHER }; // other: residual, aux

static bool sums_over_rows(const body *self) { return self->operands[GEMM_D].per_row == 0; }
static bool is_batched(const body *self) { return self->shape.rank == 4; }

static bt_epilogue epilogue_of(const body *self)
{
    bool other = self->count > GEMM_OTHER && self->operands[GEMM_OTHER].name[0] == 'a';
    return self->count <= GEMM_BIAS                             ? BT_EPILOGUE_NONE
           : self->operands[GEMM_BIAS].role == BT_OPERAND_SPARE ? BT_EPILOGUE_DGELU
           : other                                              ? BT_EPILOGUE_BIAS_GELU
                                                                : BT_EPILOGUE_BIAS;
}

static void gemm_args(const body *self, int64_t rows, void *const *at, bool wide, bool accumulate,
                      items *lists, any *out)
{
    (void)lists;
    const int64_t *axes = &self->shape.axes[is_batched(self)];
    const bool tn = sums_over_rows(self), nn = self->operands[GEMM_B].name[1] == 'n';
    const bt_epilogue epilogue = epilogue_of(self);
    const bool residual = epilogue == BT_EPILOGUE_BIAS && self->count > GEMM_OTHER;
    const int64_t m = tn || is_batched(self) ? axes[0] : rows, n = axes[1], k = tn ? rows : axes[2];
    bt_gemm_args *args = &out->gemm;
    *args = (bt_gemm_args){.m = m, .n = n, .k = k, .alpha = 1, .epilogue = epilogue};
    args->trans_a = tn;
    args->trans_b = !tn && !nn;
    args->a = at[GEMM_A];
    args->b = at[GEMM_B];
    args->d = at[GEMM_D];
    args->c = residual ? at[GEMM_OTHER] : args->d;
    args->bias = self->count > GEMM_BIAS && epilogue != BT_EPILOGUE_DGELU ? at[GEMM_BIAS] : NULL;
    args->aux = epilogue > BT_EPILOGUE_BIAS ? at[GEMM_OTHER] : NULL;
    args->beta = residual || (tn && accumulate) ? 1 : 0;
    args->lda = tn ? m : k;
    args->ldb = tn || nn ? n : k;
    args->ldc = args->ldd = n;
    args->batch = is_batched(self) ? rows : 1;
    args->stride_a = m * k;
    args->stride_b = n * k;
    args->stride_c = args->stride_d = m * n;
    args->ab_dtype = bt_operand_type(self, wide);
    args->d_dtype = tn ? bt_operand_sum_type(self, wide) : args->ab_dtype;
    args->compute = self->tf32 && !wide ? BT_COMPUTE_TF32 : BT_COMPUTE_NATIVE;
}

// Operands of about 1 and 1/sqrt(k): D is about 1, its error that of a random walk over k products.
static void gemm_result(body *self, bt_operand *d)
{
    bt_operand_within(d, 32, 8 + sqrt((double)self->shape.axes[self->shape.rank - 1]));
    d->rounded = self->tf32 ? 4 : 0;
    self->args = gemm_args;
}

static void gemm_operands(body *self, const char *b_name)
{
    const int64_t *axes = &self->shape.axes[self->shape.rank - 3];
    const bool batched = is_batched(self);
    bt_operands_of(self, BT_KERNEL_GEMM, self->shape.axes[0]);
    bt_operand_add(self, "a", BT_OPERAND_IN, axes[2] * (batched ? axes[0] : 1));
    bt_operand *b = bt_operand_add(self, b_name, BT_OPERAND_IN, batched ? axes[1] * axes[2] : 0);
    b->whole = batched ? 0 : axes[1] * axes[2];
    bt_operand_filled(b, BT_FILL_NORMAL, 0, 1 / sqrt((double)axes[2]));
    gemm_result(self, bt_operand_add(self, "d", BT_OPERAND_OUT, axes[1] * (batched ? axes[0] : 1)));
}

void bt_operands_gemm_nt(body *self) { gemm_operands(self, "bt"); }
void bt_operands_gemm_nn(body *self) { gemm_operands(self, "bn"); }
void bt_operands_gemm_batched(body *self) { gemm_operands(self, "bt"); }

void bt_operands_gemm_tn(body *self)
{
    const int64_t *axes = self->shape.axes;
    bt_operands_of(self, BT_KERNEL_GEMM, axes[2]);
    bt_operand_add(self, "a", BT_OPERAND_IN, axes[0]);
    bt_operand_filled(bt_operand_add(self, "b", BT_OPERAND_IN, axes[1]), BT_FILL_NORMAL, 0,
                      1 / sqrt((double)axes[2]));
    bt_operand *d = bt_operand_add_whole(self, "d", BT_OPERAND_OUT, axes[0] * axes[1]);
    d->dtype = bt_operand_sum_type(self, false);
    gemm_result(self, d);
}

void bt_operands_gemm_bias(body *self)
{
    bt_operands_gemm_nt(self);
    bt_operand_add_whole(self, "bias", BT_OPERAND_IN, self->shape.axes[1]);
}

void bt_operands_gemm_bias_gelu(body *self)
{
    bt_operands_gemm_bias(self);
    bt_operand *aux = bt_operand_add(self, "aux", BT_OPERAND_OUT, self->shape.axes[1]);
    gemm_result(self, aux);
    // In bf16 GELU may be good to 2^-10 only (bt_gemm_args).
    self->operands[GEMM_D].terms += self->dtype == BT_BF16 ? 1024 : 0;
}

void bt_operands_gemm_bias_residual(body *self)
{
    bt_operands_gemm_bias(self);
    bt_operand_add(self, "residual", BT_OPERAND_IN, self->shape.axes[1]);
}

void bt_operands_gemm_dgelu(body *self)
{
    bt_operands_gemm_nn(self);
    bt_operand_add_whole(self, "none", BT_OPERAND_SPARE, 1); // in the bias's place
    bt_operand_add(self, "aux", BT_OPERAND_IN, self->shape.axes[1]);
    self->operands[GEMM_D].terms += self->dtype == BT_BF16 ? 1024 : 0;
}
