// harness/cases/operands.c - the operands and the call of each operation of kernel_ops.inl
//
// Inputs of a backward kernel that a forward one would have made (statistics, log-sum-exp,
// probabilities) are drawn instead, in their usual range: a kernel is a function of what it is
// given, and is checked and timed as such.
#include "harness/cases/operands.h"

#include <math.h>
#include <string.h>

#define VOCABULARY_SHIFT 0.5 // log-sum-exp of n normal numbers is about log(n) + 1/2

typedef bt_kernel_body body;
typedef bt_kernel_args any;
typedef bt_kernel_items items;

static bt_dtype type_of(const body *self, bool wide) { return wide ? BT_F64 : self->dtype; }
// Statistics and gradients of parameters.
static bt_dtype sum_type(const body *self, bool wide)
{
    return wide || self->dtype == BT_F64 ? BT_F64 : BT_F32;
}

static bt_operand *add(body *self, const char *name, bt_operand_role role, int64_t per_row)
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

static bt_operand *add_whole(body *self, const char *name, bt_operand_role role, int64_t count)
{
    bt_operand *out = add(self, name, role, 0);
    out->whole = count;
    return out;
}

static void filled(bt_operand *operand, bt_operand_fill fill, double a, double b)
{
    operand->fill = fill;
    operand->a = a;
    operand->b = b;
}

static void within(bt_operand *operand, double relative, double terms)
{
    operand->relative = relative;
    operand->terms = terms;
}

static void set_op(body *self, bt_kernel_op op, int64_t rows)
{
    self->op = op;
    self->rows = rows;
    self->in_chunks = true;
}

// ---- copies and elementwise --------------------------------------------------------------------

static void copy_args(const body *self, int64_t rows, void *const *at, bool wide, bool accumulate,
                      items *lists, any *out)
{
    (void)accumulate;
    (void)lists;
    out->copy = (bt_copy_args){.rank = 1,
                               .shape = {rows},
                               .x = at[0],
                               .x_stride = {1},
                               .x_dtype = type_of(self, wide),
                               .y = at[1],
                               .y_stride = {1},
                               .y_dtype = wide ? BT_F64 : self->operands[1].dtype};
}

static void operands_copy(body *self)
{
    set_op(self, BT_KERNEL_COPY, self->shape.count);
    add(self, "x", BT_OPERAND_IN, 1);
    add(self, "y", BT_OPERAND_OUT, 1);
    self->args = copy_args;
}

static void operands_cast(body *self)
{
    operands_copy(self);
    self->operands[1].dtype = self->dtype == BT_BF16 ? BT_F32 : BT_BF16;
}

// y[r,c] = x[c,r]; the reference is one call, since a part of y's rows needs all of x.
static void transpose_args(const body *self, int64_t rows, void *const *at, bool wide,
                           bool accumulate, items *lists, any *out)
{
    (void)accumulate;
    (void)lists;
    int64_t cols = self->shape.axes[1];
    out->copy = (bt_copy_args){.rank = 2,
                               .shape = {rows, cols},
                               .x = at[0],
                               .x_stride = {1, rows},
                               .x_dtype = type_of(self, wide),
                               .y = at[1],
                               .y_stride = {cols, 1},
                               .y_dtype = type_of(self, wide)};
}

static void operands_transpose(body *self)
{
    set_op(self, BT_KERNEL_COPY, self->shape.axes[0]);
    self->in_chunks = false;
    add(self, "x", BT_OPERAND_IN, self->shape.axes[1]);
    add(self, "y", BT_OPERAND_OUT, self->shape.axes[1]);
    self->args = transpose_args;
}

static void gelu_args(const body *self, int64_t rows, void *const *at, bool wide, bool accumulate,
                      items *lists, any *out)
{
    (void)lists;
    if (self->backward) {
        out->unary_backward = (bt_unary_backward_args){.function = BT_UNARY_GELU,
                                                       .x = at[0],
                                                       .dy = at[1],
                                                       .dx = at[2],
                                                       .count = rows,
                                                       .dtype = type_of(self, wide)};
        return;
    }
    (void)accumulate;
    out->unary = (bt_unary_args){.function = BT_UNARY_GELU,
                                 .x = at[0],
                                 .y = at[1],
                                 .count = rows,
                                 .dtype = type_of(self, wide)};
}

static void operands_gelu(body *self)
{
    set_op(self, self->backward ? BT_KERNEL_UNARY_BACKWARD : BT_KERNEL_UNARY, self->shape.count);
    add(self, "x", BT_OPERAND_IN, 1);
    if (self->backward) {
        add(self, "dy", BT_OPERAND_IN, 1);
    }
    within(add(self, self->backward ? "dx" : "y", BT_OPERAND_OUT, 1), 16, 1);
    self->args = gelu_args;
}

static void bias_args(const body *self, int64_t rows, void *const *at, bool wide, bool accumulate,
                      items *lists, any *out)
{
    (void)accumulate;
    (void)lists;
    int64_t cols = self->shape.axes[1];
    out->binary = (bt_binary_args){.function = BT_BINARY_ADD,
                                   .rank = 2,
                                   .shape = {rows, cols},
                                   .a = at[0],
                                   .a_stride = {cols, 1},
                                   .b = at[1],
                                   .b_stride = {0, 1},
                                   .y = at[2],
                                   .dtype = type_of(self, wide)};
}

static void operands_bias(body *self)
{
    set_op(self, BT_KERNEL_BINARY, self->shape.axes[0]);
    add(self, "x", BT_OPERAND_IN, self->shape.axes[1]);
    add_whole(self, "bias", BT_OPERAND_IN, self->shape.axes[1]);
    within(add(self, "y", BT_OPERAND_OUT, self->shape.axes[1]), 2, 0);
    self->args = bias_args;
}

// ---- rows --------------------------------------------------------------------------------------

static void layernorm_args(const body *self, int64_t rows, void *const *at, bool wide,
                           bool accumulate, items *lists, any *out)
{
    (void)lists;
    int64_t cols = self->shape.axes[1];
    bt_dtype dtype = type_of(self, wide);
    if (self->backward) {
        out->layernorm_backward = (bt_layernorm_backward_args){.dy = at[0],
                                                               .s = at[1],
                                                               .gamma = at[2],
                                                               .mean = at[3],
                                                               .rstd = at[4],
                                                               .dx = at[5],
                                                               .dgamma = at[6],
                                                               .dbeta = at[7],
                                                               .rows = rows,
                                                               .cols = cols,
                                                               .accumulate_params = accumulate,
                                                               .dtype = dtype,
                                                               .param_dtype = dtype,
                                                               .grad_dtype = sum_type(self, wide)};
        return;
    }
    bool residual = self->count > 6;
    out->layernorm = (bt_layernorm_args){.x = at[0],
                                         .gamma = at[1],
                                         .beta = at[2],
                                         .y = at[3],
                                         .mean = at[4],
                                         .rstd = at[5],
                                         .residual = residual ? at[6] : NULL,
                                         .sum = residual ? at[7] : NULL,
                                         .rows = rows,
                                         .cols = cols,
                                         .epsilon = 1e-5,
                                         .dtype = dtype,
                                         .param_dtype = dtype};
}

static void operands_layernorm_backward(body *self)
{
    int64_t rows = self->shape.axes[0], cols = self->shape.axes[1];
    set_op(self, BT_KERNEL_LAYERNORM_BACKWARD, rows);
    add(self, "dy", BT_OPERAND_IN, cols);
    add(self, "s", BT_OPERAND_IN, cols);
    filled(add_whole(self, "gamma", BT_OPERAND_IN, cols), BT_FILL_UNIFORM, 0.5, 1.5);
    bt_operand *mean = add(self, "mean", BT_OPERAND_IN, 1);
    filled(mean, BT_FILL_NORMAL, 0, 0.1);
    bt_operand *rstd = add(self, "rstd", BT_OPERAND_IN, 1);
    filled(rstd, BT_FILL_UNIFORM, 0.8, 1.2);
    within(add(self, "dx", BT_OPERAND_OUT, cols), 16, 16);
    bt_operand *dgamma = add_whole(self, "dgamma", BT_OPERAND_OUT, cols);
    bt_operand *dbeta = add_whole(self, "dbeta", BT_OPERAND_OUT, cols);
    within(dgamma, 16, (double)rows);
    within(dbeta, 16, (double)rows);
    mean->dtype = rstd->dtype = dgamma->dtype = dbeta->dtype = sum_type(self, false);
    self->args = layernorm_args;
}

static void operands_layernorm(body *self)
{
    int64_t cols = self->shape.axes[1];
    if (self->backward) {
        operands_layernorm_backward(self);
        return;
    }
    set_op(self, BT_KERNEL_LAYERNORM, self->shape.axes[0]);
    add(self, "x", BT_OPERAND_IN, cols);
    filled(add_whole(self, "gamma", BT_OPERAND_IN, cols), BT_FILL_UNIFORM, 0.5, 1.5);
    add_whole(self, "beta", BT_OPERAND_IN, cols);
    within(add(self, "y", BT_OPERAND_OUT, cols), 16, 8);
    bt_operand *mean = add(self, "mean", BT_OPERAND_OUT, 1);
    within(mean, 16, 1);
    bt_operand *rstd = add(self, "rstd", BT_OPERAND_OUT, 1);
    within(rstd, 16, 2);
    mean->dtype = rstd->dtype = sum_type(self, false);
    self->args = layernorm_args;
}

static void operands_residual_layernorm(body *self)
{
    int64_t cols = self->shape.axes[1];
    operands_layernorm(self);
    self->operands[3].rounded = 8; // y follows the sum that was rounded to the storage type
    add(self, "residual", BT_OPERAND_IN, cols);
    within(add(self, "sum", BT_OPERAND_OUT, cols), 2, 0);
    self->operands[4].rounded = self->operands[5].rounded = 1;
}

static void softmax_args(const body *self, int64_t rows, void *const *at, bool wide,
                         bool accumulate, items *lists, any *out)
{
    (void)accumulate;
    (void)lists;
    int64_t cols = self->shape.axes[1];
    if (self->backward) {
        out->softmax_backward =
            (bt_softmax_backward_args){at[0], at[1], at[2], rows, cols, type_of(self, wide)};
    } else {
        out->softmax = (bt_softmax_args){at[0], at[1], rows, cols, type_of(self, wide)};
    }
}

static void operands_softmax(body *self)
{
    int64_t cols = self->shape.axes[1];
    set_op(self, self->backward ? BT_KERNEL_SOFTMAX_BACKWARD : BT_KERNEL_SOFTMAX,
           self->shape.axes[0]);
    bt_operand *first = add(self, self->backward ? "y" : "x", BT_OPERAND_IN, cols);
    if (self->backward) {
        filled(first, BT_FILL_UNIFORM, 0, 2.0 / (double)cols);
        add(self, "dy", BT_OPERAND_IN, cols);
    }
    within(add(self, self->backward ? "dx" : "y", BT_OPERAND_OUT, cols), 32,
           self->backward ? 8.0 / (double)cols : 0);
    self->args = softmax_args;
}

// ---- cross-entropy -----------------------------------------------------------------------------

static void cross_entropy_args(const body *self, int64_t rows, void *const *at, bool wide,
                               bool accumulate, items *lists, any *out)
{
    (void)accumulate;
    (void)lists;
    int64_t vocab = self->shape.axes[1];
    bt_dtype dtype = type_of(self, wide);
    if (self->backward) {
        out->cross_entropy_backward = (bt_cross_entropy_backward_args){.logits = at[0],
                                                                       .targets = at[1],
                                                                       .lse = at[2],
                                                                       .inv_count = at[3],
                                                                       .dmean = at[4],
                                                                       .dlogits = at[5],
                                                                       .rows = rows,
                                                                       .vocab = vocab,
                                                                       .logits_stride = vocab,
                                                                       .ignore = -100,
                                                                       .dtype = dtype};
        return;
    }
    out->cross_entropy = (bt_cross_entropy_args){.logits = at[0],
                                                 .targets = at[1],
                                                 .loss = at[2],
                                                 .lse = at[3],
                                                 .mean = at[4],
                                                 .inv_count = at[5],
                                                 .bad_row = at[6],
                                                 .rows = rows,
                                                 .vocab = vocab,
                                                 .logits_stride = vocab,
                                                 .ignore = -100,
                                                 .dtype = dtype};
}

static void operands_cross_entropy(body *self)
{
    int64_t rows = self->shape.axes[0], vocab = self->shape.axes[1];
    bt_dtype sums = sum_type(self, false);
    set_op(self, self->backward ? BT_KERNEL_CROSS_ENTROPY_BACKWARD : BT_KERNEL_CROSS_ENTROPY, rows);
    add(self, "logits", BT_OPERAND_IN, vocab);
    bt_operand *targets = add(self, "targets", BT_OPERAND_IN, 1);
    filled(targets, BT_FILL_BELOW, (double)vocab, 0);
    targets->dtype = BT_I32;
    if (self->backward) {
        bt_operand *lse = add(self, "lse", BT_OPERAND_IN, 1);
        filled(lse, BT_FILL_NORMAL, log((double)vocab) + VOCABULARY_SHIFT, 0.01);
        lse->dtype = sums;
        bt_operand *inv_count = add_whole(self, "inv_count", BT_OPERAND_IN, 1);
        filled(inv_count, BT_FILL_CONSTANT, 1.0 / (double)rows, 0);
        inv_count->dtype = sums;
        bt_operand *dmean = add_whole(self, "dmean", BT_OPERAND_IN, 1);
        filled(dmean, BT_FILL_CONSTANT, 1, 0);
        dmean->dtype = sums;
        within(add(self, "dlogits", BT_OPERAND_OUT, vocab), 64, 0);
    } else {
        static const char *const names[] = {"loss", "lse", "mean", "inv_count"};
        for (int i = 0; i < 4; ++i) {
            bt_operand *out = i < 2 ? add(self, names[i], BT_OPERAND_OUT, 1)
                                    : add_whole(self, names[i], BT_OPERAND_SPARE, 1);
            out->dtype = sums;
            within(out, 16, 16);
        }
        add_whole(self, "bad_row", BT_OPERAND_SPARE, 1)->dtype = BT_I64;
    }
    self->args = cross_entropy_args;
}

// ---- sums --------------------------------------------------------------------------------------

static void reduce_sum_args(const body *self, int64_t rows, void *const *at, bool wide,
                            bool accumulate, items *lists, any *out)
{
    (void)lists;
    bool over_rows = self->operands[1].per_row == 0;
    int64_t cols = self->shape.axes[1];
    out->reduce_sum = (bt_reduce_sum_args){.x = at[0],
                                           .y = at[1],
                                           .outer = over_rows ? 1 : rows,
                                           .reduce = over_rows ? rows : cols,
                                           .inner = over_rows ? cols : 1,
                                           .scale = 1,
                                           .accumulate = accumulate && over_rows,
                                           .dtype = type_of(self, wide),
                                           .y_dtype = sum_type(self, wide)};
}

static void operands_reduce_sum(body *self)
{
    set_op(self, BT_KERNEL_REDUCE_SUM, self->shape.axes[0]);
    add(self, "x", BT_OPERAND_IN, self->shape.axes[1]);
    bt_operand *y = add_whole(self, "y", BT_OPERAND_OUT, self->shape.axes[1]);
    within(y, 8, (double)self->shape.axes[0]);
    y->dtype = sum_type(self, false);
    self->args = reduce_sum_args;
}

static void operands_reduce_sum_rows(body *self)
{
    operands_reduce_sum(self);
    self->operands[1].per_row = 1;
    self->operands[1].whole = 0;
    self->operands[1].terms = (double)self->shape.axes[1];
}

// ---- embedding ---------------------------------------------------------------------------------

static void embedding_args(const body *self, int64_t rows, void *const *at, bool wide,
                           bool accumulate, items *lists, any *out)
{
    (void)lists;
    int64_t cols = self->shape.axes[1], vocab = self->shape.axes[2];
    if (self->backward) {
        out->embedding_backward = (bt_embedding_backward_args){.ids = at[0],
                                                               .dy = at[1],
                                                               .dtable = at[2],
                                                               .rows = rows,
                                                               .cols = cols,
                                                               .vocab = vocab,
                                                               .accumulate = accumulate,
                                                               .dtype = type_of(self, wide),
                                                               .grad_dtype = sum_type(self, wide)};
        return;
    }
    out->embedding = (bt_embedding_args){.ids = at[0],
                                         .table = at[1],
                                         .y = at[2],
                                         .rows = rows,
                                         .cols = cols,
                                         .vocab = vocab,
                                         .dtype = type_of(self, wide)};
}

static void operands_embedding(body *self)
{
    int64_t rows = self->shape.axes[0], cols = self->shape.axes[1], vocab = self->shape.axes[2];
    set_op(self, self->backward ? BT_KERNEL_EMBEDDING_BACKWARD : BT_KERNEL_EMBEDDING, rows);
    bt_operand *ids = add(self, "ids", BT_OPERAND_IN, 1);
    filled(ids, BT_FILL_BELOW, (double)vocab, 0);
    ids->dtype = BT_I32;
    if (self->backward) {
        add(self, "dy", BT_OPERAND_IN, cols);
        bt_operand *dtable = add_whole(self, "dtable", BT_OPERAND_OUT, vocab * cols);
        within(dtable, 8, 16 + (double)rows / (double)vocab);
        dtable->dtype = sum_type(self, false);
    } else {
        add_whole(self, "table", BT_OPERAND_IN, vocab * cols);
        add(self, "y", BT_OPERAND_OUT, cols);
    }
    self->args = embedding_args;
}

// ---- optimizer ---------------------------------------------------------------------------------

static void adamw_args(const body *self, int64_t rows, void *const *at, bool wide, bool accumulate,
                       items *lists, any *out)
{
    (void)accumulate;
    bt_dtype dtype = wide ? BT_F64 : self->operands[0].dtype;
    size_t size = bt_dtype_size(dtype), start = 0;
    int count = wide ? 1 : self->shape.tensor_count; // the update is elementwise
    bool copies = self->count > 5 && !wide;
    for (int i = 0; i < count; ++i) {
        int64_t elements = wide ? rows : self->shape.tensors[i];
        lists->adamw[i] = (bt_adamw_item){
            .param = (char *)at[0] + start * size,
            .grad = (char *)at[1] + start * size,
            .m = (char *)at[2] + start * size,
            .v = (char *)at[3] + start * size,
            .copy = copies ? (uint16_t *)at[5] + start : NULL,
            .count = elements,
            .decay = 0.1,
        };
        start += (size_t)elements;
    }
    out->adamw = (bt_adamw_args){.items = lists->adamw,
                                 .item_count = count,
                                 .lr = 6e-4,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .epsilon = 1e-8,
                                 .step = 10,
                                 .scale = at[4],
                                 .dtype = dtype};
}

static void operands_adamw(body *self)
{
    bool copies = self->dtype == BT_BF16; // of the weights, beside f32 masters
    set_op(self, BT_KERNEL_ADAMW, self->shape.count);
    bt_operand *param = add(self, "param", BT_OPERAND_INOUT, 1);
    filled(param, BT_FILL_NORMAL, 0, 0.02);
    within(param, 8, 0.01);
    filled(add(self, "grad", BT_OPERAND_IN, 1), BT_FILL_NORMAL, 0, 0.01);
    bt_operand *m = add(self, "m", BT_OPERAND_INOUT, 1);
    filled(m, BT_FILL_NORMAL, 0, 0.01);
    within(m, 16, 0.01);
    bt_operand *v = add(self, "v", BT_OPERAND_INOUT, 1);
    filled(v, BT_FILL_UNIFORM, 1e-6, 1e-4);
    within(v, 16, 1e-5);
    filled(add_whole(self, "scale", BT_OPERAND_IN, 1), BT_FILL_CONSTANT, 1, 0);
    for (int i = 0; copies && i < 5; ++i) {
        self->operands[i].dtype = BT_F32;
    }
    self->main = self->operands[0].dtype;
    if (copies) {
        add(self, "copy", BT_OPERAND_SPARE, 1);
    }
    self->args = adamw_args;
}

static void grad_norm_args(const body *self, int64_t rows, void *const *at, bool wide,
                           bool accumulate, items *lists, any *out)
{
    (void)rows;
    (void)accumulate;
    bt_dtype dtype = type_of(self, wide);
    size_t start = 0;
    for (int i = 0; i < self->shape.tensor_count; ++i) {
        lists->grad_norm[i] = (bt_grad_norm_item){(char *)at[0] + start, self->shape.tensors[i]};
        start += (size_t)self->shape.tensors[i] * bt_dtype_size(dtype);
    }
    out->grad_norm = (bt_grad_norm_args){.items = lists->grad_norm,
                                         .item_count = self->shape.tensor_count,
                                         .grad_scale = 1,
                                         .max_norm = 1,
                                         .norm = at[1],
                                         .scale = at[2],
                                         .dtype = dtype};
}

static void operands_grad_norm(body *self)
{
    set_op(self, BT_KERNEL_GRAD_NORM, self->shape.count);
    self->in_chunks = false;
    filled(add(self, "grad", BT_OPERAND_IN, 1), BT_FILL_NORMAL, 0, 0.01);
    within(add_whole(self, "norm", BT_OPERAND_OUT, 1), 64, 0);
    within(add_whole(self, "scale", BT_OPERAND_OUT, 1), 64, 0);
    self->args = grad_norm_args;
}

// ---- attention ---------------------------------------------------------------------------------

static bt_attention_view view_of(const body *self, void *base)
{
    int64_t heads = self->shape.axes[1], tokens = self->shape.axes[2], size = self->shape.axes[3];
    return (bt_attention_view){base, tokens * heads * size, heads * size, size};
}

static bool is_causal(const body *self) { return self->operands[0].name[0] == 'c'; }

static void attention_args(const body *self, int64_t rows, void *const *at, bool wide,
                           bool accumulate, items *lists, any *out)
{
    (void)accumulate;
    (void)lists;
    const int64_t *axes = self->shape.axes;
    bt_compute compute = self->tf32 && !wide ? BT_COMPUTE_TF32 : BT_COMPUTE_NATIVE;
    double scale = 1.0 / sqrt((double)axes[3]);
    bt_attention_view views[9];
    for (int i = 0; i < self->count && i < 9; ++i) {
        views[i] = view_of(self, at[i]);
    }
    if (self->backward) {
        out->attention_backward = (bt_attention_backward_args){.q = views[0],
                                                               .k = views[1],
                                                               .v = views[2],
                                                               .o = views[3],
                                                               .lse = at[4],
                                                               .d_o = views[5],
                                                               .dq = views[6],
                                                               .dk = views[7],
                                                               .dv = views[8],
                                                               .batch = rows,
                                                               .heads = axes[1],
                                                               .tokens = axes[2],
                                                               .head_dim = axes[3],
                                                               .scale = scale,
                                                               .causal = is_causal(self),
                                                               .compute = compute,
                                                               .dtype = type_of(self, wide)};
        return;
    }
    out->attention = (bt_attention_args){.q = views[0],
                                         .k = views[1],
                                         .v = views[2],
                                         .o = views[3],
                                         .lse = at[4],
                                         .batch = rows,
                                         .heads = axes[1],
                                         .tokens = axes[2],
                                         .head_dim = axes[3],
                                         .scale = scale,
                                         .causal = is_causal(self),
                                         .compute = compute,
                                         .dtype = type_of(self, wide)};
}

// Products of rounded operands (bf16, tf32) are off by their epsilon, sums by that of f32.
static void within_products(bt_operand *operand, double terms)
{
    within(operand, 32, terms);
    operand->rounded = terms;
}

static void operands_attention(body *self)
{
    const int64_t *axes = self->shape.axes;
    int64_t per_row = axes[1] * axes[2] * axes[3];
    set_op(self, self->backward ? BT_KERNEL_ATTENTION_BACKWARD : BT_KERNEL_ATTENTION, axes[0]);
    add(self, "q", BT_OPERAND_IN, per_row);
    add(self, "k", BT_OPERAND_IN, per_row);
    add(self, "v", BT_OPERAND_IN, per_row);
    bt_operand *o = add(self, "o", BT_OPERAND_OUT, per_row);
    within_products(o, 4);
    bt_operand *lse = add(self, "lse", BT_OPERAND_OUT, axes[1] * axes[2]);
    within_products(lse, 8);
    lse->dtype = sum_type(self, false);
    if (self->backward) {
        o->role = lse->role = BT_OPERAND_IN;
        filled(o, BT_FILL_NORMAL, 0, 0.1);
        filled(lse, BT_FILL_NORMAL, log((double)axes[2]) + VOCABULARY_SHIFT, 0.01);
        add(self, "do", BT_OPERAND_IN, per_row);
        within_products(add(self, "dq", BT_OPERAND_OUT, per_row), 16);
        within_products(add(self, "dk", BT_OPERAND_OUT, per_row), 16);
        within_products(add(self, "dv", BT_OPERAND_OUT, per_row), 16);
    }
    self->args = attention_args;
}

static void operands_attention_causal(body *self)
{
    operands_attention(self);
    self->operands[0].name = "causal q";
}

// ---- matrix products ---------------------------------------------------------------------------
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
    args->ab_dtype = type_of(self, wide);
    args->d_dtype = tn ? sum_type(self, wide) : args->ab_dtype;
    args->compute = self->tf32 && !wide ? BT_COMPUTE_TF32 : BT_COMPUTE_NATIVE;
}

// Operands of about 1 and 1/sqrt(k): D is about 1, its error that of a random walk over k products.
static void gemm_result(body *self, bt_operand *d)
{
    within(d, 32, 8 + sqrt((double)self->shape.axes[self->shape.rank - 1]));
    d->rounded = self->tf32 ? 4 : 0;
    self->args = gemm_args;
}

static void gemm_operands(body *self, const char *b_name)
{
    const int64_t *axes = &self->shape.axes[self->shape.rank - 3];
    const bool batched = is_batched(self);
    set_op(self, BT_KERNEL_GEMM, self->shape.axes[0]);
    add(self, "a", BT_OPERAND_IN, axes[2] * (batched ? axes[0] : 1));
    bt_operand *b = add(self, b_name, BT_OPERAND_IN, batched ? axes[1] * axes[2] : 0);
    b->whole = batched ? 0 : axes[1] * axes[2];
    filled(b, BT_FILL_NORMAL, 0, 1 / sqrt((double)axes[2]));
    gemm_result(self, add(self, "d", BT_OPERAND_OUT, axes[1] * (batched ? axes[0] : 1)));
}

static void operands_gemm_nt(body *self) { gemm_operands(self, "bt"); }
static void operands_gemm_nn(body *self) { gemm_operands(self, "bn"); }
static void operands_gemm_batched(body *self) { gemm_operands(self, "bt"); }

static void operands_gemm_tn(body *self)
{
    const int64_t *axes = self->shape.axes;
    set_op(self, BT_KERNEL_GEMM, axes[2]);
    add(self, "a", BT_OPERAND_IN, axes[0]);
    filled(add(self, "b", BT_OPERAND_IN, axes[1]), BT_FILL_NORMAL, 0, 1 / sqrt((double)axes[2]));
    bt_operand *d = add_whole(self, "d", BT_OPERAND_OUT, axes[0] * axes[1]);
    d->dtype = sum_type(self, false);
    gemm_result(self, d);
}

static void operands_gemm_bias(body *self)
{
    operands_gemm_nt(self);
    add_whole(self, "bias", BT_OPERAND_IN, self->shape.axes[1]);
}

static void operands_gemm_bias_gelu(body *self)
{
    operands_gemm_bias(self);
    bt_operand *aux = add(self, "aux", BT_OPERAND_OUT, self->shape.axes[1]);
    gemm_result(self, aux);
    // In bf16 GELU may be good to 2^-10 only (bt_gemm_args).
    self->operands[GEMM_D].terms += self->dtype == BT_BF16 ? 1024 : 0;
}

static void operands_gemm_bias_residual(body *self)
{
    operands_gemm_bias(self);
    add(self, "residual", BT_OPERAND_IN, self->shape.axes[1]);
}

static void operands_gemm_dgelu(body *self)
{
    operands_gemm_nn(self);
    add_whole(self, "none", BT_OPERAND_SPARE, 1); // in the bias's place
    add(self, "aux", BT_OPERAND_IN, self->shape.axes[1]);
    self->operands[GEMM_D].terms += self->dtype == BT_BF16 ? 1024 : 0;
}

// ---- the table ---------------------------------------------------------------------------------

static void (*const makers[BT_KERNEL_CASE_OP_COUNT])(body *) = {
#define BT_KERNEL_CASE_OP(name, min_rank, max_rank, axes, forward_bytes, backward_bytes,           \
                          forward_flops, backward_flops)                                           \
    operands_##name,
#include "harness/suite/kernel_ops.inl"
#undef BT_KERNEL_CASE_OP
};

static const char *text_of(const cJSON *kernel, const char *key)
{
    const cJSON *node = bt_json_get(kernel, key);
    return cJSON_IsString(node) ? node->valuestring : "";
}

bt_status bt_kernel_body_make(const cJSON *kernel, bt_kernel_body *out)
{
    memset(out, 0, sizeof *out);
    bt_kernel_case_op op;
    const char *dtype = text_of(kernel, "dtype");
    out->tf32 = strcmp(dtype, "tf32") == 0;
    out->backward = strcmp(text_of(kernel, "direction"), "backward") == 0;
    if (!bt_kernel_case_op_parse(text_of(kernel, "op"), &op) ||
        !bt_kernel_shape_parse(text_of(kernel, "shape"), &out->shape) ||
        !bt_dtype_parse(out->tf32 ? "f32" : dtype, &out->dtype) || !bt_dtype_is_float(out->dtype)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "a kernel case of op \"%s\", dtype \"%s\", shape \"%s\"",
                        text_of(kernel, "op"), dtype, text_of(kernel, "shape"));
    }
    out->main = out->dtype;
    makers[op](out);
    return BT_OK;
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
