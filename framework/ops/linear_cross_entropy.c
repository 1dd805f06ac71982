// framework/ops/linear_cross_entropy.c - the last layer and its loss, in chunks of rows
//
// The logits of all rows are the largest tensor of a language model's step. Here only those of one
// chunk exist at a time: product, loss and dlogits (in place), then dx of these rows and dw +=. So
// the gradients are computed in the forward, for dmean = 1: the number of rows that count is known
// from the targets. The backward multiplies by dmean; for dmean = 1 that costs only a launch.
//
// In bf16, where a kernel serves it (LINEAR_EXPS), there is no pass over the logits: the product
// stores exponentials instead. dlogits are these times a scale per row, with which x is multiplied
// before dw, and dx after the last chunk.
//
// If nothing is recorded, no gradients are computed.
#include "framework/linalg/gemm.h"
#include "framework/ops/linear.h"
#include "framework/ops/loss.h"

static const bt_attr_field linear_cross_entropy_fields[] = {
    BT_ATTR(bt_linear_cross_entropy_attrs, ignore, I32),
    BT_ATTR(bt_linear_cross_entropy_attrs, chunk_rows, I64)};
const bt_op_attrs bt_attrs_linear_cross_entropy =
    BT_OP_ATTRS(bt_linear_cross_entropy_attrs, linear_cross_entropy_fields);

// inputs x [.., in], w [vocab, in], targets [rows]; outputs mean (scalar), bad_row [1]
// saved  dx, dw (f32 where w is bf16), each where its input requires a gradient
enum { X, W, TARGETS };
enum { MEAN, BAD_ROW };
enum { SAVED_DX, SAVED_DW };

// State shared by the steps of one call.
typedef struct head {
    bt_tensor *x, *w, *targets; // borrowed
    bt_tensor *logits;          // owned; [chunk, vocab]; also dlogits, or exps of LINEAR_EXPS
    bt_tensor *loss;            // owned; [rows], loss_dtype
    bt_tensor *inv_count;       // owned; [1], loss_dtype
    bt_tensor *dx, *dw;         // borrowed; NULL if not needed
    bt_tensor *scaled_x;        // owned; [chunk, width], of LINEAR_EXPS; NULL: it is not used
    bt_tensor *scale;           // owned; [rows], loss_dtype, likewise
    int64_t rows, vocab, chunk; // chunk: rows per chunk, at least 1
    int32_t ignore;
    bt_dtype loss_dtype;
} head;

int64_t bt_linear_cross_entropy_rows(const bt_device *device, int64_t vocab, int64_t width,
                                     bt_dtype dtype)
{
    const int64_t most_bytes = (int64_t)9 << 27; // 1.125 GiB
    const int64_t tile_rows = 128, tile_cols = 256;
    const int64_t across = (width + tile_cols - 1) / tile_cols;
    const int64_t row_bytes = vocab * (int64_t)bt_dtype_size(dtype);
    const int64_t most = row_bytes > 0 ? most_bytes / row_bytes : most_bytes;
    const int64_t down = across > 0 ? device->info.processor_count / across : 0;
    const int64_t wave = (down > 1 ? down : 1) * tile_rows;
    if (most >= wave) {
        return most / wave * wave;
    }
    return most >= tile_rows ? most / tile_rows * tile_rows : tile_rows;
}

bt_status bt_op_linear_cross_entropy_infer(bt_op_call *call)
{
    const bt_tensor *x = call->in[X], *w = call->in[W];
    BT_TRY(bt_op_expect_float(call, X));
    BT_TRY(bt_op_expect_float(call, W));
    BT_TRY(bt_tensor_expect(call->in[TARGETS], BT_I32, "input 2"));
    if (x->dtype != w->dtype || x->shape.rank < 1 || w->shape.rank != 2 ||
        x->shape.size[x->shape.rank - 1] != w->shape.size[1]) {
        return bt_op_mismatch(call, X, W);
    }
    if (w->shape.size[1] < 1 ||
        bt_tensor_count(call->in[TARGETS]) * w->shape.size[1] != bt_tensor_count(x)) {
        return bt_op_mismatch(call, X, TARGETS);
    }
    if (BT_ATTRS(call, linear_cross_entropy)->chunk_rows < 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "chunks of %lld rows, allowed from 1 (0: any)",
                        (long long)BT_ATTRS(call, linear_cross_entropy)->chunk_rows);
    }
    call->out_spec[MEAN] = (bt_op_spec){bt_loss_dtype(x->dtype), BT_SCALAR};
    call->out_spec[BAD_ROW] = (bt_op_spec){BT_I64, BT_SHAPE(1)};
    return BT_OK;
}

static void *row_of(const bt_tensor *x, int64_t row, int64_t cols)
{
    return (char *)bt_tensor_data(x) + (size_t)(row * cols) * bt_dtype_size(x->dtype);
}

static void head_release(head *h)
{
    bt_tensor_release(h->logits);
    bt_tensor_release(h->loss);
    bt_tensor_release(h->inv_count);
    bt_tensor_release(h->scaled_x);
    bt_tensor_release(h->scale);
}

static bt_status make_grads(bt_context *context, bt_op_call *call, head *h)
{
    if (call->recording && h->x->requires_grad) {
        BT_TRY(
            bt_tensor_create(context, h->x->dtype, h->x->shape, "head dx", &call->saved[SAVED_DX]));
    }
    if (call->recording && h->w->requires_grad) {
        BT_TRY(bt_tensor_create(context, h->loss_dtype, h->w->shape, "head dw",
                                &call->saved[SAVED_DW]));
        BT_TRY(h->rows ? BT_OK : bt_tensor_fill(context, call->saved[SAVED_DW], 0));
    }
    h->dx = call->saved[SAVED_DX];
    h->dw = call->saved[SAVED_DW];
    return BT_OK;
}

// The call that takes the place of product and loss for `count` rows starting at `first`.
static bt_linear_exps_args exps_args(const head *h, int64_t first, int64_t count)
{
    const int64_t width = h->w->shape.size[1];
    return (bt_linear_exps_args){.x = row_of(h->x, first, width),
                                 .w = bt_tensor_data(h->w),
                                 .targets = (const int32_t *)bt_tensor_data(h->targets) + first,
                                 .inv_count = bt_tensor_data(h->inv_count),
                                 .exps = bt_tensor_data(h->logits),
                                 .scaled_x = bt_tensor_data(h->scaled_x),
                                 .scale = row_of(h->scale, first, 1),
                                 .loss = row_of(h->loss, first, 1),
                                 .rows = count,
                                 .vocab = h->vocab,
                                 .width = width,
                                 .ignore = h->ignore,
                                 .dtype = h->x->dtype};
}

static bool is_served(const bt_context *context, const head *h, int64_t count)
{
    const bt_linear_exps_args args = exps_args(h, 0, count);
    const bt_kernel *kernel = NULL;
    bt_error_quiet_begin();
    const bool found = bt_kernel_find(context->device, BT_KERNEL_LINEAR_EXPS, h->x->dtype, &args,
                                      &kernel) == BT_OK;
    bt_error_quiet_end();
    return found;
}

// Makes what LINEAR_EXPS needs, if a kernel serves it for whole chunks and for a shorter last one.
// Only in bf16: the kernels of f32 and f64, on the CPU, are slow references.
static bt_status make_exps(bt_context *context, head *h)
{
    if ((!h->dx && !h->dw) || h->rows == 0 || h->x->dtype != BT_BF16) {
        return BT_OK;
    }
    const int64_t width = h->w->shape.size[1], last = h->rows % h->chunk;
    BT_TRY(bt_tensor_create(context, h->x->dtype, BT_SHAPE(h->chunk, width), "scaled rows",
                            &h->scaled_x));
    BT_TRY(bt_tensor_create(context, h->loss_dtype, BT_SHAPE(h->rows), "loss scales", &h->scale));
    if (!is_served(context, h, h->chunk) || (last > 0 && !is_served(context, h, last))) {
        BT_TENSOR_RELEASE(h->scaled_x);
        BT_TENSOR_RELEASE(h->scale);
    }
    return BT_OK;
}

static bt_status head_init(bt_context *context, bt_op_call *call, head *h)
{
    *h = (head){.x = call->in[X], .w = call->in[W], .targets = call->in[TARGETS]};
    h->rows = bt_tensor_count(h->targets);
    h->vocab = h->w->shape.size[0];
    h->ignore = BT_ATTRS(call, linear_cross_entropy)->ignore;
    h->loss_dtype = call->out_spec[MEAN].dtype;
    h->chunk = BT_ATTRS(call, linear_cross_entropy)->chunk_rows;
    if (h->chunk == 0) {
        h->chunk = bt_linear_cross_entropy_rows(context->device, h->vocab, h->w->shape.size[1],
                                                h->x->dtype);
    }
    h->chunk = h->chunk < h->rows ? h->chunk : h->rows;
    BT_TRY(make_grads(context, call, h));
    BT_TRY(bt_tensor_create(context, h->loss_dtype, BT_SHAPE(h->rows), "loss rows", &h->loss));
    BT_TRY(bt_tensor_create(context, h->loss_dtype, BT_SHAPE(1), "loss count", &h->inv_count));
    BT_TRY(
        bt_tensor_create(context, h->x->dtype, BT_SHAPE(h->chunk, h->vocab), "logits", &h->logits));
    return make_exps(context, h);
}

// Count, bad row and, with `mean`, the mean of the losses.
static bt_status launch_mean(bt_context *context, const head *h, bt_tensor *mean,
                             bt_tensor *bad_row)
{
    bt_cross_entropy_mean_args args = {.targets = bt_tensor_data(h->targets),
                                       .loss = mean ? bt_tensor_data(h->loss) : NULL,
                                       .mean = mean ? bt_tensor_data(mean) : NULL,
                                       .inv_count = bt_tensor_data(h->inv_count),
                                       .bad_row = bt_tensor_data(bad_row),
                                       .rows = h->rows,
                                       .vocab = h->vocab,
                                       .ignore = h->ignore,
                                       .dtype = h->loss_dtype};
    return bt_context_launch(context, BT_KERNEL_CROSS_ENTROPY_MEAN, h->loss_dtype, &args);
}

// Losses of `count` rows starting at `first`; their dlogits if a gradient is needed, or exps.
static bt_status chunk_loss(bt_context *context, const head *h, int64_t first, int64_t count)
{
    if (h->scaled_x) {
        const bt_linear_exps_args args = exps_args(h, first, count);
        bt_range_push(context, "logits");
        const bt_status status =
            bt_context_launch(context, BT_KERNEL_LINEAR_EXPS, h->x->dtype, &args);
        bt_range_pop(context);
        return status;
    }
    bt_gemm_args product = bt_linear_args(context, h->x, h->w, NULL, h->logits);
    product.m = count;
    product.a = row_of(h->x, first, product.k);
    bt_range_push(context, "logits");
    bt_status status = bt_gemm(context, &product);
    bt_range_pop(context);
    bt_cross_entropy_grad_args args = {.logits = bt_tensor_data(h->logits),
                                       .targets =
                                           (const int32_t *)bt_tensor_data(h->targets) + first,
                                       .inv_count = bt_tensor_data(h->inv_count),
                                       .loss = row_of(h->loss, first, 1),
                                       .dlogits = h->dx || h->dw ? bt_tensor_data(h->logits) : NULL,
                                       .rows = count,
                                       .vocab = h->vocab,
                                       .logits_stride = h->vocab,
                                       .ignore = h->ignore,
                                       .dtype = h->x->dtype};
    if (status == BT_OK) {
        bt_range_push(context, "cross_entropy");
        status = bt_context_launch(context, BT_KERNEL_CROSS_ENTROPY_GRAD, h->x->dtype, &args);
        bt_range_pop(context);
    }
    return status;
}

// dx of these rows, with exps still to be scaled, and their contribution to dw.
static bt_status chunk_grads(bt_context *context, const head *h, int64_t first, int64_t count)
{
    bt_status status = BT_OK;
    bt_range_push(context, "linear_backward");
    if (h->dx) {
        bt_gemm_args args = bt_linear_dx_args(context, h->logits, h->w, h->dx);
        args.m = count;
        args.c = args.d = row_of(h->dx, first, args.n);
        status = bt_gemm(context, &args);
    }
    if (h->dw && status == BT_OK) {
        bt_gemm_args args = bt_linear_dw_args(context, h->logits, h->x, h->dw);
        args.k = count;
        args.b = h->scaled_x ? bt_tensor_data(h->scaled_x) : row_of(h->x, first, args.n);
        args.beta = first > 0 ? 1 : 0;
        status = bt_gemm(context, &args);
    }
    bt_range_pop(context);
    return status;
}

static bt_status scale_dx(bt_context *context, const head *h)
{
    const bt_scale_args args = {.x = bt_tensor_data(h->dx),
                                .factor = bt_tensor_data(h->scale),
                                .y = bt_tensor_data(h->dx),
                                .count = bt_tensor_count(h->dx),
                                .dtype = h->dx->dtype,
                                .group = h->w->shape.size[1]};
    return bt_context_launch(context, BT_KERNEL_SCALE, h->dx->dtype, &args);
}

bt_status bt_op_linear_cross_entropy_forward(bt_context *context, bt_op_call *call)
{
    head h;
    bt_status status = BT_OK;
    BT_TRY_GOTO(head_init(context, call, &h), done);
    BT_TRY_GOTO(launch_mean(context, &h, NULL, call->out[BAD_ROW]), done);
    for (int64_t first = 0; first < h.rows; first += h.chunk) {
        const int64_t rest = h.rows - first;
        const int64_t count = rest < h.chunk ? rest : h.chunk;
        BT_TRY_GOTO(chunk_loss(context, &h, first, count), done);
        BT_TRY_GOTO(chunk_grads(context, &h, first, count), done);
    }
    if (h.scaled_x && h.dx) {
        BT_TRY_GOTO(scale_dx(context, &h), done);
    }
    BT_TRY_GOTO(launch_mean(context, &h, call->out[MEAN], call->out[BAD_ROW]), done);
    if (context->anomaly) {
        status = bt_check_ids(context, h.targets, h.vocab, call->out[BAD_ROW]);
    }
done:
    head_release(&h);
    return status;
}

// din (+)= dmean times the saved gradient, whose memory din reuses if it has none.
static bt_status hand_out(bt_context *context, bt_op_backward *call, int input, int saved)
{
    bt_grad *din = &call->din[input];
    if (!din->wanted) {
        return BT_OK;
    }
    bt_tensor *made = call->saved[saved];
    const bool accumulate = din->accumulate;
    if (!din->tensor) {
        din->tensor = made;
        call->saved[saved] = NULL;
    }
    bt_tensor_touch(din->tensor);
    bt_scale_args args = {.x = bt_tensor_data(made),
                          .factor = bt_tensor_data(call->dout[MEAN]),
                          .y = bt_tensor_data(din->tensor),
                          .count = bt_tensor_count(made),
                          .accumulate = accumulate,
                          .dtype = made->dtype};
    return bt_context_launch(context, BT_KERNEL_SCALE, made->dtype, &args);
}

bt_status bt_op_linear_cross_entropy_backward(bt_context *context, bt_op_backward *call)
{
    BT_TRY(hand_out(context, call, X, SAVED_DX));
    return hand_out(context, call, W, SAVED_DW);
}

bt_status bt_linear_cross_entropy(bt_context *context, bt_tensor *x, bt_tensor *w,
                                  bt_tensor *targets, int32_t ignore, int64_t chunk_rows,
                                  bt_tensor **out, bt_tensor **bad_row)
{
    const bt_linear_cross_entropy_attrs attrs = {ignore, chunk_rows};
    bt_tensor *in[] = {x, w, targets};
    bt_tensor *outputs[2];
    bt_status status = bt_op_apply(context, BT_OP_LINEAR_CROSS_ENTROPY, &attrs, in, 3, outputs);
    *out = outputs[MEAN];
    if (bad_row) {
        *bad_row = outputs[BAD_ROW];
    } else {
        bt_tensor_release(outputs[BAD_ROW]);
    }
    return status;
}
