// kernels/cpu/bf16_rows.c - softmax, layer normalisation, cross-entropy, embedding, sums in bf16
// Shapes   as in softmax.c, layernorm.c, cross_entropy.c, embedding.c, reduce_sum.c
// Types    bf16 operands, f32 statistics and parameter gradients; gamma and beta bf16 or f32.
//          LayerNorm normalizes the residual sum as stored, after rounding
// Order    blocks of rows one after the other, ascending, see bf16.h; sums over rows continue from
//          block to block in f32
#include <math.h>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/embedding.h"

static float *scratch_of(const bt_launch *launch) { return launch->workspace; }

// The launch for the f32 kernel: after the first `count` floats of the workspace.
static bt_launch behind(const bt_launch *launch, int64_t count)
{
    bt_launch inner = *launch;
    const size_t used_bytes = ((size_t)count * sizeof(float) + 255) / 256 * 256;
    inner.workspace = (char *)launch->workspace + used_bytes;
    inner.workspace_bytes = launch->workspace_bytes - used_bytes;
    return inner;
}

static size_t floats(int64_t count) { return ((size_t)count * sizeof(float) + 255) / 256 * 256; }

// Elements of a block of rows.
static int64_t block_of(int64_t rows, int64_t cols)
{
    return bt_bf16_least(rows, bt_bf16_block_rows(cols)) * cols;
}

// ---- softmax -----------------------------------------------------------------------------------

size_t bt_softmax_cpu_bf16_workspace(const bt_device *device, const void *args)
{
    (void)device;
    const bt_softmax_args *op = args;
    return floats(block_of(op->rows, op->cols));
}

bt_status bt_softmax_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_softmax_args *given = args;
    float *x = scratch_of(launch);
    bt_softmax_args op = *given;
    op.dtype = BT_F32;
    for (int64_t row = 0; row < given->rows; row += op.rows) {
        const int64_t at = row * given->cols;
        op.rows = bt_bf16_least(given->rows - row, bt_bf16_block_rows(given->cols));
        op.x = bt_bf16_widen(x, bt_bf16_at(given->x, at), op.rows * op.cols);
        op.y = x;
        BT_TRY(bt_softmax_cpu_f32(launch, &op));
        bt_bf16_narrow(bt_bf16_to(given->y, at), x, op.rows * op.cols);
    }
    return BT_OK;
}

size_t bt_softmax_backward_cpu_bf16_workspace(const bt_device *device, const void *args)
{
    (void)device;
    const bt_softmax_backward_args *op = args;
    return floats(2 * block_of(op->rows, op->cols));
}

bt_status bt_softmax_backward_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_softmax_backward_args *given = args;
    float *y = scratch_of(launch), *dy = y + block_of(given->rows, given->cols);
    bt_softmax_backward_args op = *given;
    op.dtype = BT_F32;
    for (int64_t row = 0; row < given->rows; row += op.rows) {
        const int64_t at = row * given->cols;
        op.rows = bt_bf16_least(given->rows - row, bt_bf16_block_rows(given->cols));
        op.y = bt_bf16_widen(y, bt_bf16_at(given->y, at), op.rows * op.cols);
        op.dy = bt_bf16_widen(dy, bt_bf16_at(given->dy, at), op.rows * op.cols);
        op.dx = dy;
        BT_TRY(bt_softmax_backward_cpu_f32(launch, &op));
        bt_bf16_narrow(bt_bf16_to(given->dx, at), dy, op.rows * op.cols);
    }
    return BT_OK;
}

// ---- layer normalization -----------------------------------------------------------------------

// gamma or beta in f32: unchanged, or widened. NULL stays NULL.
static const void *parameter(float *to, const void *from, int64_t cols, bt_dtype dtype)
{
    return !from || dtype == BT_F32 ? from : bt_bf16_widen(to, from, cols);
}

static bool is_parameter(bt_dtype dtype) { return dtype == BT_F32 || dtype == BT_BF16; }

bool bt_layernorm_cpu_bf16_accepts(const bt_device *device, const void *args)
{
    (void)device;
    return is_parameter(((const bt_layernorm_args *)args)->param_dtype);
}

size_t bt_layernorm_cpu_bf16_workspace(const bt_device *device, const void *args)
{
    (void)device;
    const bt_layernorm_args *op = args;
    return floats(2 * op->cols + 2 * block_of(op->rows, op->cols));
}

// s of a block of rows, as stored, widened.
static const float *residual_sum(const bt_layernorm_args *given, int64_t at, int64_t count,
                                 float *s, float *other)
{
    bt_bf16_widen(s, bt_bf16_at(given->x, at), count);
    if (given->residual) {
        bt_bf16_widen(other, bt_bf16_at(given->residual, at), count);
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < count; ++i) {
            s[i] += other[i];
        }
        bt_bf16_narrow(bt_bf16_to(given->sum, at), s, count);
        bt_bf16_widen(s, bt_bf16_at(given->sum, at), count);
    }
    return s;
}

bt_status bt_layernorm_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_layernorm_args *given = args;
    const int64_t cols = given->cols;
    float *gamma = scratch_of(launch), *beta = gamma + cols, *s = beta + cols;
    float *y = s + block_of(given->rows, cols);
    bt_layernorm_args op = *given;
    op.dtype = op.param_dtype = BT_F32;
    op.residual = op.sum = NULL;
    op.gamma = parameter(gamma, given->gamma, cols, given->param_dtype);
    op.beta = parameter(beta, given->beta, cols, given->param_dtype);
    for (int64_t row = 0; row < given->rows; row += op.rows) {
        const int64_t at = row * cols;
        op.rows = bt_bf16_least(given->rows - row, bt_bf16_block_rows(cols));
        op.x = residual_sum(given, at, op.rows * cols, s, y);
        op.y = y;
        op.mean = (float *)given->mean + row;
        op.rstd = (float *)given->rstd + row;
        BT_TRY(bt_layernorm_cpu_f32(launch, &op));
        bt_bf16_narrow(bt_bf16_to(given->y, at), y, op.rows * cols);
    }
    return BT_OK;
}

bool bt_layernorm_backward_cpu_bf16_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_layernorm_backward_args *op = args;
    return is_parameter(op->param_dtype) && op->grad_dtype == BT_F32;
}

// The f32 call of a block of rows.
static bt_layernorm_backward_args backward_block(const bt_layernorm_backward_args *given)
{
    bt_layernorm_backward_args op = *given;
    op.dtype = op.param_dtype = BT_F32;
    op.rows = bt_bf16_least(given->rows, bt_bf16_block_rows(given->cols));
    return op;
}

size_t bt_layernorm_backward_cpu_bf16_workspace(const bt_device *device, const void *args)
{
    const bt_layernorm_backward_args *given = args;
    const bt_layernorm_backward_args op = backward_block(given);
    return floats(given->cols + 3 * block_of(given->rows, given->cols)) +
           bt_layernorm_backward_cpu_workspace(device, &op);
}

bt_status bt_layernorm_backward_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_layernorm_backward_args *given = args;
    const int64_t cols = given->cols, block = block_of(given->rows, cols);
    float *gamma = scratch_of(launch), *dy = gamma + cols, *s = dy + block, *dx = s + block;
    const bt_launch inner = behind(launch, cols + 3 * block);
    bt_layernorm_backward_args op = backward_block(given);
    op.gamma = parameter(gamma, given->gamma, cols, given->param_dtype);
    if (given->rows == 0) {
        return bt_layernorm_backward_cpu_f32(&inner, &op); // zeroes the parameters' gradients
    }
    for (int64_t row = 0; row < given->rows; row += op.rows, op.accumulate_params = true) {
        const int64_t at = row * cols;
        op.rows = bt_bf16_least(given->rows - row, bt_bf16_block_rows(cols));
        op.dy = bt_bf16_widen(dy, bt_bf16_at(given->dy, at), op.rows * cols);
        op.s = bt_bf16_widen(s, bt_bf16_at(given->s, at), op.rows * cols);
        op.mean = (const float *)given->mean + row;
        op.rstd = (const float *)given->rstd + row;
        op.dx = dx;
        if (given->accumulate) {
            bt_bf16_widen(dx, bt_bf16_at(given->dx, at), op.rows * cols);
        }
        BT_TRY(bt_layernorm_backward_cpu_f32(&inner, &op));
        bt_bf16_narrow(bt_bf16_to(given->dx, at), dx, op.rows * cols);
    }
    return BT_OK;
}

// ---- cross-entropy -----------------------------------------------------------------------------

size_t bt_cross_entropy_cpu_bf16_workspace(const bt_device *device, const void *args)
{
    (void)device;
    const bt_cross_entropy_args *op = args;
    return floats(block_of(op->rows, op->vocab));
}

bt_status bt_cross_entropy_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_cross_entropy_args *given = args;
    float *logits = scratch_of(launch);
    bt_cross_entropy_args op = *given;
    op.dtype = BT_F32;
    op.logits_stride = op.vocab;
    for (int64_t row = 0; row < given->rows; row += op.rows) {
        op.rows = bt_bf16_least(given->rows - row, bt_bf16_block_rows(op.vocab));
        op.logits =
            bt_bf16_widen_rows(logits, bt_bf16_at(given->logits, row * given->logits_stride),
                               op.rows, op.vocab, given->logits_stride);
        op.targets = given->targets + row;
        op.loss = (float *)given->loss + row;
        op.lse = (float *)given->lse + row;
        BT_TRY(bt_cross_entropy_cpu_f32(launch, &op));
    }
    const bt_cross_entropy_mean_args mean = bt_cross_entropy_mean_of(given); // not a block's own
    return bt_cross_entropy_mean_cpu_f32(launch, &mean);
}

size_t bt_cross_entropy_backward_cpu_bf16_workspace(const bt_device *device, const void *args)
{
    (void)device;
    const bt_cross_entropy_backward_args *op = args;
    return floats(block_of(op->rows, op->vocab));
}

bt_status bt_cross_entropy_backward_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_cross_entropy_backward_args *given = args;
    const int64_t stride = given->logits_stride;
    float *logits = scratch_of(launch);
    bt_cross_entropy_backward_args op = *given;
    op.dtype = BT_F32;
    op.logits_stride = op.vocab;
    op.dlogits = logits;
    for (int64_t row = 0; row < given->rows; row += op.rows) {
        op.rows = bt_bf16_least(given->rows - row, bt_bf16_block_rows(op.vocab));
        op.logits = bt_bf16_widen_rows(logits, bt_bf16_at(given->logits, row * stride), op.rows,
                                       op.vocab, stride);
        op.targets = given->targets + row;
        op.lse = (const float *)given->lse + row;
        BT_TRY(bt_cross_entropy_backward_cpu_f32(launch, &op));
        bt_bf16_narrow_rows(bt_bf16_to(given->dlogits, row * stride), stride, logits, op.rows,
                            op.vocab);
    }
    return BT_OK;
}

size_t bt_cross_entropy_grad_cpu_bf16_workspace(const bt_device *device, const void *args)
{
    (void)device;
    const bt_cross_entropy_grad_args *op = args;
    return floats(block_of(op->rows, op->vocab));
}

bt_status bt_cross_entropy_grad_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_cross_entropy_grad_args *given = args;
    const int64_t stride = given->logits_stride;
    float *logits = scratch_of(launch);
    bt_cross_entropy_grad_args op = *given;
    op.dtype = BT_F32;
    op.logits_stride = op.vocab;
    op.dlogits = given->dlogits ? logits : NULL;
    for (int64_t row = 0; row < given->rows; row += op.rows) {
        op.rows = bt_bf16_least(given->rows - row, bt_bf16_block_rows(op.vocab));
        op.logits = bt_bf16_widen_rows(logits, bt_bf16_at(given->logits, row * stride), op.rows,
                                       op.vocab, stride);
        op.targets = given->targets + row;
        op.loss = (float *)given->loss + row;
        BT_TRY(bt_cross_entropy_grad_cpu_f32(launch, &op));
        if (given->dlogits) {
            bt_bf16_narrow_rows(bt_bf16_to(given->dlogits, row * stride), stride, logits, op.rows,
                                op.vocab);
        }
    }
    return BT_OK;
}

// ---- embedding ---------------------------------------------------------------------------------

bt_status bt_embedding_cpu_bf16(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_embedding_args *op = args;
    const int64_t cols = op->cols;
    const uint16_t *table = op->table, *positions = op->position;
    uint16_t *y = op->y;
    int64_t bad = INT64_MAX;
#pragma omp parallel for schedule(static) reduction(min : bad)
    for (int64_t r = 0; r < op->rows; ++r) {
        const int32_t id = bt_embedding_id(op, r, &bad);
        const uint16_t *token = table + id * cols;
        const uint16_t *position = positions ? positions + r % op->positions * cols : NULL;
        const uint16_t nan = bt_f32_to_bf16((float)NAN);
        for (int64_t c = 0; c < cols; ++c) {
            y[r * cols + c] =
                id != op->ids[r] ? nan
                : position ? bt_f32_to_bf16(bt_bf16_to_f32(token[c]) + bt_bf16_to_f32(position[c]))
                           : token[c];
        }
    }
    bt_embedding_report(op, bad);
    return BT_OK;
}

bool bt_embedding_backward_cpu_bf16_accepts(const bt_device *device, const void *args)
{
    (void)device;
    return ((const bt_embedding_backward_args *)args)->grad_dtype == BT_F32;
}

// Rows of a block: a multiple of the number of positions, so that each block begins at the first.
static int64_t embedding_rows(const bt_embedding_backward_args *op)
{
    const int64_t rows = bt_bf16_block_rows(op->cols);
    if (!op->dposition || op->positions <= 0) {
        return rows;
    }
    return rows < op->positions ? op->positions : rows / op->positions * op->positions;
}

size_t bt_embedding_backward_cpu_bf16_workspace(const bt_device *device, const void *args)
{
    (void)device;
    bt_embedding_backward_args op = *(const bt_embedding_backward_args *)args;
    op.rows = bt_bf16_least(op.rows, embedding_rows(&op));
    return bt_embedding_backward_cpu_workspace(device, &op) + floats(op.rows * op.cols);
}

bt_status bt_embedding_backward_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_embedding_backward_args *given = args;
    bt_embedding_backward_args op = *given;
    op.dtype = BT_F32;
    op.rows = bt_bf16_least(given->rows, embedding_rows(given));
    // The f32 kernel's operands come first.
    const size_t links_bytes = bt_embedding_backward_cpu_workspace(launch->device, &op);
    float *dy = (float *)(void *)((char *)launch->workspace + links_bytes);
    int64_t row = 0;
    do { // also without rows: outputs that are not accumulated become zero
        op.rows = bt_bf16_least(given->rows - row, embedding_rows(given));
        op.ids = given->ids + row;
        op.dy = bt_bf16_widen(dy, bt_bf16_at(given->dy, row * op.cols), op.rows * op.cols);
        BT_TRY(bt_embedding_backward_cpu_f32(launch, &op));
        op.accumulate = op.accumulate_position = true;
        row += op.rows;
    } while (row < given->rows);
    return BT_OK;
}

// ---- sums --------------------------------------------------------------------------------------

bool bt_reduce_sum_cpu_bf16_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_reduce_sum_args *op = args;
    return op->y_dtype == BT_F32 || op->y_dtype == BT_BF16;
}

// Number of whole entries of `outer` that are summed at once; 0: one does not fit a block, so its
// rows are split.
static int64_t entries_of(const bt_reduce_sum_args *op)
{
    const int64_t size = op->reduce * op->inner;
    return size < BT_BF16_BLOCK ? bt_bf16_least(op->outer, bt_bf16_block_rows(size)) : 0;
}

// Sums in f32, then x, then what the f32 kernel wants: [entries, inner] and [entries, reduce,
// inner], or [inner] and a block of rows.
static int64_t sums_of(const bt_reduce_sum_args *op)
{
    const int64_t entries = entries_of(op);
    return op->inner * (entries ? entries : 1);
}

static int64_t values_of(const bt_reduce_sum_args *op)
{
    const int64_t entries = entries_of(op);
    return entries ? entries * op->reduce * op->inner : block_of(op->reduce, op->inner);
}

size_t bt_reduce_sum_cpu_bf16_workspace(const bt_device *device, const void *args)
{
    const bt_reduce_sum_args *op = args;
    const int64_t entries = entries_of(op);
    bt_reduce_sum_args largest = *op; // f32 call
    largest.outer = entries ? entries : 1;
    largest.reduce =
        entries ? op->reduce : bt_bf16_least(op->reduce, bt_bf16_block_rows(op->inner));
    return floats(sums_of(op) + values_of(op)) + bt_reduce_sum_cpu_workspace(device, &largest);
}

// y [entries, inner] of entries starting at `outer`; rows in blocks, ascending, if they are split.
static bt_status sum_entries(const bt_launch *launch, const bt_reduce_sum_args *given,
                             int64_t outer, int64_t entries, float *y, float *x)
{
    bt_reduce_sum_args op = *given;
    const bool cut = entries_of(given) == 0;
    op.dtype = op.y_dtype = BT_F32;
    op.outer = entries;
    op.y = y;
    int64_t row = 0;
    do { // also over nothing: the sum is then zero
        const int64_t at = (outer * given->reduce + row) * given->inner;
        op.reduce = cut ? bt_bf16_least(given->reduce - row, bt_bf16_block_rows(given->inner))
                        : given->reduce;
        op.x = bt_bf16_widen(x, bt_bf16_at(given->x, at), entries * op.reduce * op.inner);
        BT_TRY(bt_reduce_sum_cpu_f32(launch, &op));
        op.accumulate = true;
        row += op.reduce;
    } while (row < given->reduce);
    return BT_OK;
}

bt_status bt_reduce_sum_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_reduce_sum_args *given = args;
    const int64_t inner = given->inner, whole = entries_of(given), step = whole ? whole : 1;
    float *own = scratch_of(launch), *x = own + sums_of(given);
    const bt_launch within = behind(launch, sums_of(given) + values_of(given));
    for (int64_t outer = 0; outer < given->outer; outer += step) {
        const int64_t entries = bt_bf16_least(given->outer - outer, step);
        if (given->y_dtype == BT_F32) {
            float *y = (float *)given->y + outer * inner;
            BT_TRY(sum_entries(&within, given, outer, entries, y, x));
            continue;
        }
        void *y = bt_bf16_to(given->y, outer * inner);
        if (given->accumulate) {
            bt_bf16_widen(own, y, entries * inner);
        }
        BT_TRY(sum_entries(&within, given, outer, entries, own, x));
        bt_bf16_narrow(y, own, entries * inner);
    }
    return BT_OK;
}
