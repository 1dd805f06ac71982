// harness/cases/operands/attention.c - a row is a batch entry with all its heads
#include <math.h>

#include "harness/cases/operands/make.h"

static bt_attention_view view_of(const body *self, void *base)
{
    int64_t heads = self->shape.axes[1], tokens = self->shape.axes[2], size = self->shape.axes[3];
    return (bt_attention_view){base, tokens * heads * size, heads * size, size};
}

static bool is_causal(const body *self) { return self->what == BT_KERNEL_CASE_attention_causal; }

static void attention_args(const body *self, const asked *to, any *out)
{
    const int64_t *axes = self->shape.axes;
    bt_compute compute = self->tf32 && !to->wide ? BT_COMPUTE_TF32 : BT_COMPUTE_NATIVE;
    bt_attention_shape shape = {.batch = to->rows,
                                .heads = axes[1],
                                .kv_heads = axes[1],
                                .q_tokens = axes[2],
                                .kv_tokens = axes[2],
                                .head_dim = axes[3],
                                .scale = 1.0 / sqrt((double)axes[3]),
                                .causal = is_causal(self)};
    bt_attention_view views[9];
    for (int i = 0; i < self->count && i < 9; ++i) {
        views[i] = view_of(self, to->at[i]);
    }
    if (self->backward) {
        out->attention_backward =
            (bt_attention_backward_args){.q = views[0],
                                         .k = views[1],
                                         .v = views[2],
                                         .o = views[3],
                                         .lse = to->at[4],
                                         .d_o = views[5],
                                         .dq = views[6],
                                         .dk = views[7],
                                         .dv = views[8],
                                         .shape = shape,
                                         .compute = compute,
                                         .dtype = bt_operand_type(self, to->wide)};
        return;
    }
    out->attention = (bt_attention_args){.q = views[0],
                                         .k = views[1],
                                         .v = views[2],
                                         .o = views[3],
                                         .lse = to->at[4],
                                         .shape = shape,
                                         .compute = compute,
                                         .dtype = bt_operand_type(self, to->wide)};
}

// Output and log-sum-exp, as inputs of the backward call.
static void attention_saved(const body *self, int64_t rows, void *const *at, any *out)
{
    body forward = *self;
    forward.backward = false;
    attention_args(&forward, &(asked){.rows = rows, .at = at, .wide = true}, out);
}

// Products of rounded operands (bf16, tf32) have an error of their epsilon, sums that of f32.
static void within_products(bt_operand *operand, double terms)
{
    bt_operand_within(operand, 32, terms);
    operand->rounded = terms;
}

void bt_operands_attention(body *self)
{
    const int64_t *axes = self->shape.axes;
    int64_t per_row = axes[1] * axes[2] * axes[3];
    bt_operands_of(self, self->backward ? BT_KERNEL_ATTENTION_BACKWARD : BT_KERNEL_ATTENTION,
                   axes[0]);
    bt_operand_add(self, "q", BT_OPERAND_IN, per_row);
    bt_operand_add(self, "k", BT_OPERAND_IN, per_row);
    bt_operand_add(self, "v", BT_OPERAND_IN, per_row);
    bt_operand *o = bt_operand_add(self, "o", BT_OPERAND_OUT, per_row);
    within_products(o, 4);
    bt_operand *lse = bt_operand_add(self, "lse", BT_OPERAND_OUT, axes[1] * axes[2]);
    within_products(lse, 8);
    lse->dtype = bt_operand_sum_type(self, false);
    if (!self->backward && self->peer) {
        lse->role = BT_OPERAND_SPARE;
    }
    if (self->backward) {
        o->role = lse->role = self->peer ? BT_OPERAND_SAVED : BT_OPERAND_IN;
        self->saved_op = BT_KERNEL_ATTENTION;
        self->saved = self->peer ? attention_saved : NULL;
        bt_operand_filled(o, BT_FILL_NORMAL, 0, 0.1);
        bt_operand_filled(lse, BT_FILL_NORMAL, log((double)axes[2]) + VOCABULARY_SHIFT, 0.01);
        bt_operand_add(self, "do", BT_OPERAND_IN, per_row);
        within_products(bt_operand_add(self, "dq", BT_OPERAND_OUT, per_row), 16);
        within_products(bt_operand_add(self, "dk", BT_OPERAND_OUT, per_row), 16);
        within_products(bt_operand_add(self, "dv", BT_OPERAND_OUT, per_row), 16);
    }
    self->args = attention_args;
}

void bt_operands_attention_causal(body *self) { bt_operands_attention(self); }
