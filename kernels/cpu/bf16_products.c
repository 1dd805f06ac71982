// kernels/cpu/bf16_products.c - matrix products and attention in bf16
// Shapes   as in gemm.c and attention.c
// Types    bf16 operands, f32 products and sums, one rounding of what is bf16
// Workspace the operands in f32: a batch entry of a GEMM at a time, all of an attention
// Order    that of the f32 kernels
// Errors   accepts() is false for GELU of a bf16 pre-activation: a product, then UNARY
#include "kernels/cpu/bf16.h"

// Allocates parts of the workspace, or computes its size if there is none.
typedef struct parts {
    char *base; // NULL: only counting
    size_t used_bytes;
} parts;

static float *take(parts *from, int64_t count)
{
    float *part = from->base ? (float *)(void *)(from->base + from->used_bytes) : NULL;
    from->used_bytes += ((size_t)count * sizeof(float) + 255) / 256 * 256;
    return part;
}

// ---- matrix products ---------------------------------------------------------------------------

bool bt_gemm_cpu_bf16_accepts(const bt_device *device, const void *args)
{
    const bt_gemm_args *given = args;
    bt_gemm_args op = *given;
    op.ab_dtype = op.d_dtype = BT_F32;
    const bool narrow = given->d_dtype == BT_BF16;
    return (given->d_dtype == BT_F32 || (narrow && given->epilogue != BT_EPILOGUE_BIAS_GELU)) &&
           bt_gemm_cpu_accepts(device, &op);
}

// Offsets of an entry's operands in f32; unneeded ones take no space.
typedef struct gemm_parts {
    float *a, *b, *bias, *d, *aux;
} gemm_parts;

static gemm_parts gemm_take(const bt_gemm_args *op, parts *from)
{
    const bool wide = op->d_dtype == BT_F32;
    gemm_parts got;
    got.a = take(from, op->m * op->k);
    got.b = take(from, op->k * op->n);
    got.bias = take(from, op->bias ? op->n : 0);
    got.d = take(from, wide ? 0 : op->m * op->n);
    got.aux = take(from, wide || !op->aux ? 0 : op->m * op->n);
    return got;
}

size_t bt_gemm_cpu_bf16_workspace(const bt_device *device, const void *args)
{
    (void)device;
    parts count = {0};
    (void)gemm_take(args, &count);
    return count.used_bytes;
}

// D and aux of an entry in bf16: through f32 in the workspace, c as d's contents.
static bt_status multiply_narrow(const bt_launch *launch, const bt_gemm_args *given, int64_t entry,
                                 const gemm_parts *at, bt_gemm_args *op)
{
    const int64_t m = op->m, n = op->n;
    void *d = bt_bf16_to(given->d, entry * given->stride_d);
    op->c = op->d = at->d;
    op->ldc = op->ldd = n;
    op->aux = at->aux;
    if (op->beta != 0) {
        const void *c = bt_bf16_at(given->c, entry * given->stride_c);
        bt_bf16_widen_rows(at->d, c, m, n, given->ldc);
    }
    if (given->epilogue == BT_EPILOGUE_DGELU) {
        const void *aux = bt_bf16_at(given->aux, entry * given->stride_d);
        bt_bf16_widen_rows(at->aux, aux, m, n, given->ldd);
    }
    BT_TRY(bt_gemm_cpu_f32(launch, op));
    bt_bf16_narrow_rows(d, given->ldd, at->d, m, n);
    return BT_OK;
}

bt_status bt_gemm_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_gemm_args *given = args;
    parts from = {launch->workspace, 0};
    const gemm_parts at = gemm_take(given, &from);
    const int64_t a_rows = given->trans_a ? given->k : given->m;
    const int64_t b_rows = given->trans_b ? given->n : given->k;
    bt_gemm_args op = *given;
    op.ab_dtype = op.d_dtype = BT_F32;
    op.batch = 1;
    op.lda = given->trans_a ? given->m : given->k;
    op.ldb = given->trans_b ? given->k : given->n;
    op.bias = given->bias ? bt_bf16_widen(at.bias, given->bias, given->n) : NULL;
    for (int64_t entry = 0; entry < given->batch; ++entry) {
        op.a = bt_bf16_widen_rows(at.a, bt_bf16_at(given->a, entry * given->stride_a), a_rows,
                                  op.lda, given->lda);
        op.b = bt_bf16_widen_rows(at.b, bt_bf16_at(given->b, entry * given->stride_b), b_rows,
                                  op.ldb, given->ldb);
        if (given->d_dtype == BT_BF16) {
            BT_TRY(multiply_narrow(launch, given, entry, &at, &op));
            continue;
        }
        op.c = given->c ? (const float *)given->c + entry * given->stride_c : NULL;
        op.d = (float *)given->d + entry * given->stride_d;
        op.aux = given->aux ? (float *)given->aux + entry * given->stride_d : NULL;
        BT_TRY(bt_gemm_cpu_f32(launch, &op));
    }
    return BT_OK;
}

// ---- attention ---------------------------------------------------------------------------------

// The shape of an operand.
typedef struct heads {
    int64_t batch, heads, tokens, head_dim;
} heads;

static heads queries_of(const bt_attention_shape *s)
{
    return (heads){s->batch, s->heads, s->q_tokens, s->head_dim};
}

static heads keys_of(const bt_attention_shape *s)
{
    return (heads){s->batch, s->kv_heads, s->kv_tokens, s->head_dim};
}

static int64_t count_of(const heads *shape)
{
    return shape->batch * shape->heads * shape->tokens * shape->head_dim;
}

// [batch, tokens, heads, head_dim] without gaps.
static bt_attention_view packed(const heads *shape, float *base)
{
    const int64_t token = shape->heads * shape->head_dim;
    return (bt_attention_view){base, shape->tokens * token, token, shape->head_dim};
}

static int64_t offset_of(const bt_attention_view *view, const heads *shape, int64_t row)
{
    return row / shape->tokens * view->batch_stride + row % shape->tokens * view->token_stride;
}

static bt_attention_view widen_view(const bt_attention_view *from, const heads *shape, float *to)
{
    const bt_attention_view view = packed(shape, to);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < shape->batch * shape->tokens; ++row) {
        const uint16_t *source = (const uint16_t *)from->base + offset_of(from, shape, row);
        for (int64_t h = 0; h < shape->heads; ++h) {
            for (int64_t i = 0; i < shape->head_dim; ++i) {
                to[row * view.token_stride + h * shape->head_dim + i] =
                    bt_bf16_to_f32(source[h * from->head_stride + i]);
            }
        }
    }
    return view;
}

// `from` NULL: nothing.
static void narrow_view(const bt_attention_view *to, const heads *shape, const float *from)
{
    const int64_t rows = from ? shape->batch * shape->tokens : 0;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
        uint16_t *target = (uint16_t *)to->base + offset_of(to, shape, row);
        const float *source = from + row * shape->heads * shape->head_dim;
        for (int64_t h = 0; h < shape->heads; ++h) {
            for (int64_t i = 0; i < shape->head_dim; ++i) {
                target[h * to->head_stride + i] = bt_f32_to_bf16(source[h * shape->head_dim + i]);
            }
        }
    }
}

// The launch for the f32 kernel: with the rest of the workspace.
static bt_launch rest_of(const bt_launch *launch, const parts *used)
{
    bt_launch inner = *launch;
    inner.workspace = used->base + used->used_bytes;
    inner.workspace_bytes = launch->workspace_bytes - used->used_bytes;
    return inner;
}

// A call without workspace for its operands is a bug of the caller.
static bt_status check_room(const bt_launch *launch)
{
    return launch->workspace ? BT_OK
                             : bt_error(BT_STATUS_INTERNAL, "attention: no workspace for operands");
}

// An output in f32: with its old contents if the call adds to it.
static bt_attention_view output_view(bool adds, const bt_attention_view *view, const heads *shape,
                                     float *to)
{
    if (!view->base) { // not wanted
        return *view;
    }
    return adds ? widen_view(view, shape, to) : packed(shape, to);
}

static bt_attention_args forward_f32(const bt_attention_args *given)
{
    bt_attention_args op = *given;
    op.dtype = BT_F32;
    return op;
}

size_t bt_attention_cpu_bf16_workspace(const bt_device *device, const void *args)
{
    const bt_attention_args op = forward_f32(args);
    const heads query = queries_of(&op.shape), key = keys_of(&op.shape);
    parts count = {0};
    for (int i = 0; i < 2; ++i) {
        (void)take(&count, count_of(&query));
        (void)take(&count, count_of(&key));
    }
    return count.used_bytes + bt_attention_cpu_workspace(device, &op);
}

bt_status bt_attention_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_attention_args *given = args;
    const heads query = queries_of(&given->shape), key = keys_of(&given->shape);
    const int64_t q_count = count_of(&query), k_count = count_of(&key);
    if (q_count == 0) {
        return BT_OK;
    }
    BT_TRY(check_room(launch));
    parts from = {launch->workspace, 0};
    bt_attention_args op = forward_f32(given);
    op.q = widen_view(&given->q, &query, take(&from, q_count));
    op.k = widen_view(&given->k, &key, take(&from, k_count));
    op.v = widen_view(&given->v, &key, take(&from, k_count));
    op.o = output_view(given->accumulate, &given->o, &query, take(&from, q_count));
    const bt_launch inner = rest_of(launch, &from);
    BT_TRY(bt_attention_cpu_f32(&inner, &op));
    narrow_view(&given->o, &query, op.o.base);
    return BT_OK;
}

static bt_attention_backward_args backward_f32(const bt_attention_backward_args *given)
{
    bt_attention_backward_args op = *given;
    op.dtype = BT_F32;
    return op;
}

size_t bt_attention_backward_cpu_bf16_workspace(const bt_device *device, const void *args)
{
    const bt_attention_backward_args op = backward_f32(args);
    const heads query = queries_of(&op.shape), key = keys_of(&op.shape);
    parts count = {0};
    for (int i = 0; i < 4; ++i) {
        (void)take(&count, count_of(&query));
        (void)take(&count, count_of(&key));
    }
    return count.used_bytes + bt_attention_backward_cpu_workspace(device, &op);
}

bt_status bt_attention_backward_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_attention_backward_args *given = args;
    const heads query = queries_of(&given->shape), key = keys_of(&given->shape);
    const int64_t q_count = count_of(&query), k_count = count_of(&key);
    if (q_count + k_count == 0) {
        return BT_OK;
    }
    BT_TRY(check_room(launch));
    parts from = {launch->workspace, 0};
    bt_attention_backward_args op = backward_f32(given);
    op.q = widen_view(&given->q, &query, take(&from, q_count));
    op.k = widen_view(&given->k, &key, take(&from, k_count));
    op.v = widen_view(&given->v, &key, take(&from, k_count));
    op.o = widen_view(&given->o, &query, take(&from, q_count));
    op.d_o = widen_view(&given->d_o, &query, take(&from, q_count));
    op.dq = output_view(given->accumulate_dq, &given->dq, &query, take(&from, q_count));
    op.dk = output_view(given->accumulate_dkv, &given->dk, &key, take(&from, k_count));
    op.dv = output_view(given->accumulate_dkv, &given->dv, &key, take(&from, k_count));
    const bt_launch inner = rest_of(launch, &from);
    BT_TRY(bt_attention_backward_cpu_f32(&inner, &op));
    narrow_view(&given->dq, &query, op.dq.base);
    narrow_view(&given->dk, &key, op.dk.base);
    narrow_view(&given->dv, &key, op.dv.base);
    return BT_OK;
}
