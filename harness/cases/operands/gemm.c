// harness/cases/operands/gemm.c - matrix products and the epilogues of a linear layer
#include <math.h>

#include "harness/cases/operands/make.h"

// Rows are those of A and D; if A is transposed, those of both operands, which are summed; for
// batched products the batch entries. A whole operand is read by every row.

enum { GEMM_A, GEMM_B, GEMM_D, GEMM_BIAS, GEMM_OTHER }; // other: residual, aux

typedef struct gemm_facts {
    bool trans_a, trans_b;
    bool batched;
    bool residual; // added to D
    bt_epilogue epilogue;
} gemm_facts;

static const gemm_facts table[BT_KERNEL_CASE_OP_COUNT] = {
    [BT_KERNEL_CASE_gemm_nt] = {.trans_b = true},
    [BT_KERNEL_CASE_gemm_nn] = {0},
    [BT_KERNEL_CASE_gemm_tn] = {.trans_a = true},
    [BT_KERNEL_CASE_gemm_batched] = {.trans_b = true, .batched = true},
    [BT_KERNEL_CASE_gemm_bias] = {.trans_b = true, .epilogue = BT_EPILOGUE_BIAS},
    [BT_KERNEL_CASE_gemm_bias_gelu] = {.trans_b = true, .epilogue = BT_EPILOGUE_BIAS_GELU},
    [BT_KERNEL_CASE_gemm_bias_residual] = {.trans_b = true,
                                           .residual = true,
                                           .epilogue = BT_EPILOGUE_BIAS},
    [BT_KERNEL_CASE_gemm_dgelu] = {.epilogue = BT_EPILOGUE_DGELU},
};

static const gemm_facts *facts_of(const body *self) { return &table[self->what]; }

static bool has_bias(const gemm_facts *facts)
{
    return facts->epilogue == BT_EPILOGUE_BIAS || facts->epilogue == BT_EPILOGUE_BIAS_GELU;
}

static bool has_gelu(const gemm_facts *facts)
{
    return facts->epilogue == BT_EPILOGUE_BIAS_GELU || facts->epilogue == BT_EPILOGUE_DGELU;
}

static void gemm_args(const body *self, const asked *to, any *out)
{
    const gemm_facts *facts = facts_of(self);
    const bool tn = facts->trans_a;
    const int64_t *axes = &self->shape.axes[facts->batched];
    const int64_t m = tn || facts->batched ? axes[0] : to->rows, n = axes[1],
                  k = tn ? to->rows : axes[2];
    bt_gemm_args *args = &out->gemm;
    *args = (bt_gemm_args){.m = m, .n = n, .k = k, .alpha = 1, .epilogue = facts->epilogue};
    args->trans_a = tn;
    args->trans_b = facts->trans_b;
    args->a = to->at[GEMM_A];
    args->b = to->at[GEMM_B];
    args->d = to->at[GEMM_D];
    args->c = facts->residual ? to->at[GEMM_OTHER] : args->d;
    args->bias = has_bias(facts) ? to->at[GEMM_BIAS] : NULL;
    args->aux = has_gelu(facts) ? to->at[GEMM_OTHER] : NULL;
    args->beta = facts->residual || (tn && to->accumulate) ? 1 : 0;
    args->lda = tn ? m : k;
    args->ldb = facts->trans_b ? k : n;
    args->ldc = args->ldd = n;
    args->batch = facts->batched ? to->rows : 1;
    args->stride_a = m * k;
    args->stride_b = n * k;
    args->stride_c = args->stride_d = m * n;
    args->ab_dtype = bt_operand_type(self, to->wide);
    args->d_dtype = tn ? bt_operand_sum_type(self, to->wide) : args->ab_dtype;
    args->compute = self->tf32 && !to->wide ? BT_COMPUTE_TF32 : BT_COMPUTE_NATIVE;
}

// Operands of magnitude about 1 and 1/sqrt(k): D is about 1, its error that of a random walk over k
// products.
static void gemm_result(body *self, bt_operand *d)
{
    bt_operand_within(d, 32, 8 + sqrt((double)self->shape.axes[self->shape.rank - 1]));
    d->rounded = self->tf32 ? 4 : 0;
    self->args = gemm_args;
}

static void product_operands(body *self, const gemm_facts *facts)
{
    const int64_t *axes = &self->shape.axes[facts->batched];
    const int64_t m = axes[0], n = axes[1], k = axes[2], batch = self->shape.axes[0];
    const bool sums = facts->trans_a, batched = facts->batched;
    bt_operands_of(self, BT_KERNEL_GEMM, sums ? k : batch);
    bt_operand_add(self, "a", BT_OPERAND_IN, sums ? m : batched ? m * k : k);
    bt_operand *b = sums || batched ? bt_operand_add(self, "b", BT_OPERAND_IN, sums ? n : n * k)
                                    : bt_operand_add_whole(self, "b", BT_OPERAND_IN, n * k);
    bt_operand_filled(b, BT_FILL_NORMAL, 0, 1 / sqrt((double)k));
    bt_operand *d = sums ? bt_operand_add_whole(self, "d", BT_OPERAND_OUT, m * n)
                         : bt_operand_add(self, "d", BT_OPERAND_OUT, batched ? m * n : n);
    d->dtype = sums ? bt_operand_sum_type(self, false) : d->dtype;
    gemm_result(self, d);
}

static void epilogue_operands(body *self, const gemm_facts *facts)
{
    const int64_t n = self->shape.axes[1];
    bt_operand_add_whole(self, "bias", has_bias(facts) ? BT_OPERAND_IN : BT_OPERAND_SPARE,
                         has_bias(facts) ? n : 1);
    if (facts->residual) {
        bt_operand_add(self, "residual", BT_OPERAND_IN, n);
    } else if (facts->epilogue == BT_EPILOGUE_DGELU) {
        bt_operand_add(self, "aux", BT_OPERAND_IN, n);
    } else if (facts->epilogue == BT_EPILOGUE_BIAS_GELU) {
        gemm_result(self, bt_operand_add(self, "aux", BT_OPERAND_OUT, n));
    }
    // In bf16 GELU may have an error of 2^-10 (bt_gemm_args).
    self->operands[GEMM_D].terms += has_gelu(facts) && self->dtype == BT_BF16 ? 1024 : 0;
}

static void gemm_operands(body *self)
{
    const gemm_facts *facts = facts_of(self);
    product_operands(self, facts);
    if (facts->epilogue != BT_EPILOGUE_NONE) {
        epilogue_operands(self, facts);
    }
}

void bt_operands_gemm_nt(body *self) { gemm_operands(self); }
void bt_operands_gemm_nn(body *self) { gemm_operands(self); }
void bt_operands_gemm_tn(body *self) { gemm_operands(self); }
void bt_operands_gemm_batched(body *self) { gemm_operands(self); }
void bt_operands_gemm_bias(body *self) { gemm_operands(self); }
void bt_operands_gemm_bias_gelu(body *self) { gemm_operands(self); }
void bt_operands_gemm_bias_residual(body *self) { gemm_operands(self); }
void bt_operands_gemm_dgelu(body *self) { gemm_operands(self); }
