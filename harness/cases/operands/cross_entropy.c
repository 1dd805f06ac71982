// harness/cases/operands/cross_entropy.c - loss and gradient of the last layer
#include <math.h>

#include "harness/cases/operands/make.h"

static void cross_entropy_args(const body *self, const asked *to, any *out)
{
    int64_t vocab = self->shape.axes[1];
    bt_dtype dtype = bt_operand_type(self, to->wide);
    if (self->backward) {
        out->cross_entropy_backward = (bt_cross_entropy_backward_args){.logits = to->at[0],
                                                                       .targets = to->at[1],
                                                                       .lse = to->at[2],
                                                                       .inv_count = to->at[3],
                                                                       .dmean = to->at[4],
                                                                       .dlogits = to->at[5],
                                                                       .rows = to->rows,
                                                                       .vocab = vocab,
                                                                       .logits_stride = vocab,
                                                                       .ignore = -100,
                                                                       .dtype = dtype};
        return;
    }
    out->cross_entropy = (bt_cross_entropy_args){.logits = to->at[0],
                                                 .targets = to->at[1],
                                                 .loss = to->at[2],
                                                 .lse = to->at[3],
                                                 .mean = to->at[4],
                                                 .inv_count = to->at[5],
                                                 .bad_row = to->at[6],
                                                 .rows = to->rows,
                                                 .vocab = vocab,
                                                 .logits_stride = vocab,
                                                 .ignore = -100,
                                                 .dtype = dtype};
}

// The log-sum-exp, an input of the backward call; the rest is written where the gradient comes
// later.
static void cross_entropy_saved(const body *self, int64_t rows, void *const *at, any *out)
{
    double *free = at[5];
    body forward = *self;
    forward.backward = false;
    void *const places[] = {at[0],       at[1],           free,           at[2],
                            free + rows, free + rows + 1, free + rows + 2};
    cross_entropy_args(&forward, &(asked){.rows = rows, .at = places, .wide = true}, out);
}

void bt_operands_cross_entropy(body *self)
{
    int64_t rows = self->shape.axes[0], vocab = self->shape.axes[1];
    bt_dtype sums = bt_operand_sum_type(self, false);
    bt_operands_of(
        self, self->backward ? BT_KERNEL_CROSS_ENTROPY_BACKWARD : BT_KERNEL_CROSS_ENTROPY, rows);
    bt_operand_add(self, "logits", BT_OPERAND_IN, vocab);
    bt_operand *targets = bt_operand_add(self, "targets", BT_OPERAND_IN, 1);
    bt_operand_filled(targets, BT_FILL_BELOW, (double)vocab, 0);
    targets->dtype = BT_I32;
    if (self->backward) {
        bt_operand *lse = bt_operand_add(self, "lse", BT_OPERAND_IN, 1);
        bt_operand_filled(lse, BT_FILL_NORMAL, log((double)vocab) + VOCABULARY_SHIFT, 0.01);
        lse->dtype = sums;
        lse->role = self->peer ? BT_OPERAND_SAVED : BT_OPERAND_IN;
        self->saved_op = BT_KERNEL_CROSS_ENTROPY;
        self->saved = self->peer ? cross_entropy_saved : NULL;
        bt_operand *inv_count = bt_operand_add_whole(self, "inv_count", BT_OPERAND_IN, 1);
        bt_operand_filled(inv_count, BT_FILL_CONSTANT, 1.0 / (double)rows, 0);
        inv_count->dtype = sums;
        bt_operand *dmean = bt_operand_add_whole(self, "dmean", BT_OPERAND_IN, 1);
        bt_operand_filled(dmean, BT_FILL_CONSTANT, 1, 0);
        dmean->dtype = sums;
        bt_operand_within(bt_operand_add(self, "dlogits", BT_OPERAND_OUT, vocab), 64, 0);
    } else {
        static const char *const names[] = {"loss", "lse", "mean", "inv_count"};
        for (int i = 0; i < 4; ++i) {
            bt_operand *out = i < 2 ? bt_operand_add(self, names[i], BT_OPERAND_OUT, 1)
                                    : bt_operand_add_whole(self, names[i], BT_OPERAND_SPARE, 1);
            out->dtype = sums;
            bt_operand_within(out, 16, 16);
            if (self->peer) { // it returns only the mean
                out->role = i == 2 ? BT_OPERAND_OUT : BT_OPERAND_SPARE;
                out->mean = i == 2;
            }
        }
        bt_operand_add_whole(self, "bad_row", BT_OPERAND_SPARE, 1)->dtype = BT_I64;
    }
    self->args = cross_entropy_args;
}
