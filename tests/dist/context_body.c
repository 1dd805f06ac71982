#include "tests/dist/context_body.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "framework/autograd/session.h"
#include "framework/base/rng.h"
#include "framework/ops/ops.h"
#include "tests/dist/slow.h"

// Values that every type holds exactly: k / 128 with |k| <= 128.
static double value_at(uint64_t seed, int64_t i)
{
    return floor((double)bt_rng_uniform((bt_rng){seed, 0}, (uint64_t)i) * 257 - 128) / 128;
}

static int64_t qkv_width(const context_case *c) { return (c->heads + 2 * c->kv_heads) * c->dim; }

static bt_attention_options options_of(const context_case *c)
{
    return (bt_attention_options){
        .heads = c->heads, .kv_heads = c->kv_heads, .causal = c->causal, .window = c->window};
}

// The place in the sequence of a rank's token.
static int64_t place_of(const context_case *c, const bt_group *group, int64_t token)
{
    const int64_t low = bt_ring_low(c->tokens, group->size, group->rank);
    return token < low ? bt_ring_chunk(c->tokens, group->size, group->rank) + token
                       : bt_ring_chunk(c->tokens, group->size, 2 * group->size - 1 - group->rank) +
                             token - low;
}

static int64_t tokens_of(const context_case *c, const bt_group *group)
{
    return bt_ring_low(c->tokens, group->size, group->rank) +
           bt_ring_high(c->tokens, group->size, group->rank);
}

// A tensor of doubles, in its type; they are exact there.
static bt_status make(bt_context *context, bt_dtype dtype, bt_shape shape, const double *values,
                      bt_tensor **out)
{
    const int64_t count = bt_shape_count(&shape);
    unsigned char *block = malloc((size_t)count * 8 + 8);
    for (int64_t i = 0; i < count; ++i) {
        const float narrow = (float)values[i];
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        if (dtype == BT_F64) {
            ((double *)(void *)block)[i] = values[i];
        } else if (dtype == BT_F32) {
            ((float *)(void *)block)[i] = narrow;
        } else {
            ((uint16_t *)(void *)block)[i] = (uint16_t)(bits >> 16);
        }
    }
    bt_status status = bt_tensor_create(context, dtype, shape, "test", out);
    status = status ? status : bt_tensor_write(context, *out, block);
    free(block);
    return status;
}

// The elements as doubles, free() them; their bits go into the digest.
static bt_status take(bt_context *context, const bt_tensor *tensor, double **out, uint64_t *digest)
{
    const int64_t count = bt_tensor_count(tensor);
    const size_t bytes = bt_tensor_bytes(tensor);
    unsigned char *block = malloc(bytes + 8);
    bt_status status = bt_tensor_read(context, tensor, block);
    for (size_t i = 0; i < bytes; ++i) { // FNV-1a
        *digest = (*digest ^ block[i]) * 0x100000001b3;
    }
    *out = malloc((size_t)count * sizeof **out + 8);
    for (int64_t i = 0; i < count; ++i) {
        uint32_t bits =
            tensor->dtype == BT_BF16 ? (uint32_t)((uint16_t *)(void *)block)[i] << 16 : 0;
        float narrow;
        memcpy(&narrow, &bits, sizeof narrow);
        narrow = tensor->dtype == BT_F32 ? ((float *)(void *)block)[i] : narrow;
        (*out)[i] = tensor->dtype == BT_F64 ? ((double *)(void *)block)[i] : (double)narrow;
    }
    free(block);
    return status;
}

// The inputs of all tokens, and what one rank makes of them.
typedef struct oracle {
    double *qkv, *seed, *y, *grad; // [B, T, width], [B, T, H D] twice, as qkv
} oracle;

static void drop_oracle(oracle *o) { free(o->qkv), free(o->seed), free(o->y), free(o->grad); }

static bt_status run_oracle(bt_session *session, const context_case *c, oracle *o)
{
    const bt_attention_options options = options_of(c);
    const bt_shape in = BT_SHAPE(c->batch, c->tokens, qkv_width(c));
    const bt_shape out = BT_SHAPE(c->batch, c->tokens, c->heads * c->dim);
    bt_tensor *qkv = NULL, *seed = NULL, *y = NULL;
    uint64_t digest = 0;
    bt_status status = BT_OK;
    o->qkv = malloc((size_t)bt_shape_count(&in) * sizeof(double) + 8);
    o->seed = malloc((size_t)bt_shape_count(&out) * sizeof(double) + 8);
    for (int64_t i = 0; i < bt_shape_count(&in); ++i) {
        o->qkv[i] = value_at(1, i);
    }
    for (int64_t i = 0; i < bt_shape_count(&out); ++i) {
        o->seed[i] = value_at(2, i);
    }
    BT_TRY_GOTO(make(&session->context, BT_F64, in, o->qkv, &qkv), done);
    BT_TRY_GOTO(make(&session->context, BT_F64, out, o->seed, &seed), done);
    qkv->requires_grad = true;
    qkv->grad_dtype = BT_F64;
    BT_TRY_GOTO(bt_attend(&session->context, qkv, NULL, NULL, NULL, &options, &y), done);
    BT_TRY_GOTO(take(&session->context, y, &o->y, &digest), done);
    BT_TRY_GOTO(bt_backward(&session->context, y, seed), done);
    BT_TRY_GOTO(take(&session->context, qkv->grad, &o->grad, &digest), done);
done:
    bt_tensor_release(qkv);
    bt_tensor_release(seed);
    bt_tensor_release(y);
    return status;
}

// [B, own tokens, width] of [B, T, width]; free() it.
static double *own_rows(const context_case *c, const bt_group *group, const double *all,
                        int64_t width)
{
    const int64_t tokens = tokens_of(c, group);
    double *own = malloc((size_t)(c->batch * tokens * width) * sizeof *own + 8);
    for (int64_t row = 0; row < c->batch * tokens; ++row) {
        const int64_t from = row / tokens * c->tokens + place_of(c, group, row % tokens);
        memcpy(own + row * width, all + from * width, (size_t)width * sizeof *own);
    }
    return own;
}

static double largest(const double *x, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; ++i) {
        most = fabs(x[i]) > most ? fabs(x[i]) : most;
    }
    return most;
}

// Of an element of y, where operands are at most 1. Products of D terms are scores of at most
// sqrt(D), whose error is that of the operands, twice, and of a sum of D terms in fp32 (f64); a
// weight has the same relative error, and y is a mean by weights, of up to T terms. Stored values:
// the weights, each partial result, the result. A gradient passes through twice as many products,
// and through shares of at most the number of ranks; it is measured by its largest element.
static double bound(const context_case *c, bool gradient, int ranks)
{
    const double dim = (double)c->dim, tokens = (double)c->tokens;
    const double accumulated = c->dtype == BT_F64 ? 0x1p-53 : 0x1p-24;
    const double stored = c->dtype == BT_BF16 ? 0x1p-9 : accumulated;
    const double product = c->compute == BT_COMPUTE_TF32 ? 0x1p-11 : 0;
    const double forward =
        4 * stored + 4 * sqrt(dim) * product + 4 * (sqrt(dim) + sqrt(tokens)) * accumulated;
    return gradient ? (4 + (double)ranks) * forward : forward;
}

static bt_status compare(const context_case *c, const bt_group *group, const char *what,
                         const double *got, const double *all, int64_t width, bool gradient)
{
    const int64_t count = c->batch * tokens_of(c, group) * width;
    double *expected = own_rows(c, group, all, width);
    const double most = gradient ? 1 + largest(all, c->batch * c->tokens * width) : 1;
    const double allowed = bound(c, gradient, group->size) * most;
    bt_status status = BT_OK;
    for (int64_t i = 0; i < count && status == BT_OK; ++i) {
        if (!(fabs(got[i] - expected[i]) <= allowed)) {
            status = bt_error(BT_STATUS_INTERNAL,
                              "%s of rank %d, token %lld, column %lld: %.17g, expected %.17g "
                              "within %g",
                              what, group->rank, (long long)(i / width), (long long)(i % width),
                              got[i], expected[i], allowed);
        }
    }
    free(expected);
    return status;
}

// The op as this rank: its input and output belong to the caller.
static bt_status run_op(bt_context *context, const bt_ring *ring, const context_case *c,
                        const double *own, bt_tensor **qkv, bt_tensor **y)
{
    const bt_attention_options options = options_of(c);
    const int64_t tokens = bt_ring_low(c->tokens, ring->size, ring->rank) +
                           bt_ring_high(c->tokens, ring->size, ring->rank);
    BT_TRY(make(context, c->dtype, BT_SHAPE(c->batch, tokens, qkv_width(c)), own, qkv));
    (*qkv)->requires_grad = true;
    (*qkv)->grad_dtype = c->dtype == BT_F64 ? BT_F64 : BT_F32;
    return bt_ring_attention(context, *qkv, ring, c->tokens, &options, y);
}

// Counts the backward calls without dk and dv.
static void count_sides(void *self, const bt_kernel *kernel, const bt_kernel_plan *plan,
                        const void *args)
{
    (void)plan;
    *(int *)self += kernel->op == BT_KERNEL_ATTENTION_BACKWARD &&
                    !((const bt_attention_backward_args *)args)->dk.base;
}

// Counts what is taken.
static _Thread_local struct {
    bt_status (*take)(void *self, bt_context *context, const bt_ring_copy *copies, int count);
    int count;
} taken;

static bt_status count_take(void *self, bt_context *context, const bt_ring_copy *copies, int count)
{
    ++taken.count;
    return taken.take(self, context, copies, count);
}

static bt_status check_sides(const context_case *c, const bt_group *group, const bt_device *device,
                             int sides)
{
    const bool expected = c->by_sides && group->backend->on_gpu &&
                          (device->backend->kind == BT_DEVICE_CPU || device->info.arch >= 90);
    if (expected && sides == 0) {
        return bt_error(BT_STATUS_INTERNAL, "no call of the backward is for one side");
    }
    return expected && taken.take && taken.count == 0
               ? bt_error(BT_STATUS_INTERNAL, "no gradients were taken")
               : BT_OK;
}

static bt_status run_once(bt_session *session, const bt_ring *of, const context_case *c,
                          const bt_group *group, const oracle *o, rank_result *result)
{
    bt_context *context = &session->context;
    bt_ring counted = *of;
    const bt_ring *ring = &counted;
    int sides = 0;
    taken.take = of->take;
    taken.count = 0;
    counted.take = of->take ? count_take : NULL;
    context->kernel_hook = (bt_kernel_hook){&sides, count_sides};
    const int64_t width = c->heads * c->dim;
    double *own = own_rows(c, group, o->qkv, qkv_width(c)),
           *own_seed = own_rows(c, group, o->seed, width);
    double *got = NULL, *grad = NULL;
    bt_tensor *qkv = NULL, *y = NULL, *seed = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(run_op(context, ring, c, own, &qkv, &y), done);
    BT_TRY_GOTO(make(context, c->dtype, y->shape, own_seed, &seed), done);
    BT_TRY_GOTO(take(context, y, &got, &result->digest), done);
    BT_TRY_GOTO(bt_backward(context, y, seed), done);
    BT_TRY_GOTO(take(context, qkv->grad, &grad, &result->digest), done);
    BT_TRY_GOTO(compare(c, group, "output", got, o->y, width, false), done);
    BT_TRY_GOTO(compare(c, group, "gradient", grad, o->grad, qkv_width(c), true), done);
    status = check_sides(c, group, context->device, sides);
done:
    context->kernel_hook = (bt_kernel_hook){0};
    bt_tape_reset(session->tape);
    bt_tensor_release(qkv);
    bt_tensor_release(y);
    bt_tensor_release(seed);
    free(own), free(own_seed), free(got), free(grad);
    return status;
}

// A session where the group's memory is, and a ring.
static bt_status open_rank(bt_group *group, const context_case *c, bt_session *session,
                           bt_context_ring **ring)
{
    const bool near = group->device && group->device->backend->kind == BT_DEVICE_CUDA;
    BT_TRY(near ? bt_session_open_on(group->device, 0, session)
                : bt_session_open("cpu", 0, 0, session));
    session->context.compute = c->compute;
    if (c->delay_seed && !near) {
        slow_transport(group, c->delay_seed + (unsigned)group->rank);
    }
    return bt_context_ring_create(group, c->rotation, ring);
}

bt_status context_compare(bt_group *group, const context_case *c, rank_result *result)
{
    bt_session session = {0}, host = {0};
    bt_context_ring *ring = NULL;
    oracle o = {0};
    bt_status status = BT_OK;
    BT_TRY_GOTO(open_rank(group, c, &session, &ring), done);
    BT_TRY_GOTO(bt_session_open("cpu", 0, 0, &host), done);
    BT_TRY_GOTO(run_oracle(&host, c, &o), done);
    for (int run = 0; run <= c->repeats; ++run) {
        const long late =
            c->delay_seed
                ? (long)(c->delay_seed * 37 + (unsigned)(run + group->rank) * 7919) % 3000000
                : 0;
        (void)nanosleep(&(struct timespec){.tv_nsec = late}, NULL);
        BT_TRY_GOTO(run_once(&session, bt_context_ring_of(ring), c, group, &o, result), done);
    }
done:
    drop_oracle(&o);
    bt_context_ring_destroy(ring);
    bt_session_close(&host);
    bt_session_close(&session);
    return status;
}

// The sum over all ranks of output * seed, with this rank's input as given.
static bt_status loss_of(bt_group *group, bt_session *session, const bt_ring *ring,
                         const context_case *c, const double *own, const double *seed, double *out)
{
    bt_tensor *qkv = NULL, *y = NULL;
    double *got = NULL;
    uint64_t digest = 0;
    bt_status status = BT_OK;
    *out = 0;
    BT_TRY_GOTO(run_op(&session->context, ring, c, own, &qkv, &y), done);
    BT_TRY_GOTO(take(&session->context, y, &got, &digest), done);
    for (int64_t i = 0; i < bt_tensor_count(y); ++i) {
        *out += got[i] * seed[i];
    }
    BT_TRY_GOTO(bt_all_reduce(group, out, 1, BT_F64, BT_REDUCE_SUM, NULL), done);
done:
    bt_tape_reset(session->tape);
    bt_tensor_release(qkv);
    bt_tensor_release(y);
    free(got);
    return status;
}

// With a step of 1e-5 differences of sums of some 100 terms err by 1e-8; ten times that is allowed.
static bt_status differ(bt_group *group, bt_session *session, const bt_ring *ring,
                        const context_case *c, double *own, const double *seed, const double *grad,
                        int64_t count)
{
    const double step = 1e-5;
    enum { ELEMENTS = 10 };
    for (int owner = 0; owner < group->size; ++owner) {
        for (int e = 0; e < ELEMENTS; ++e) {
            const int64_t at = count > 0 ? (int64_t)(e * 7919 + owner * 31) % count : 0;
            const bool mine = owner == group->rank && count > 0;
            const double value = count > 0 ? own[at] : 0;
            double high = 0, low = 0;
            if (mine) {
                own[at] = value + step;
            }
            BT_TRY(loss_of(group, session, ring, c, own, seed, &high));
            if (mine) {
                own[at] = value - step;
            }
            BT_TRY(loss_of(group, session, ring, c, own, seed, &low));
            if (mine) {
                own[at] = value;
                const double difference = (high - low) / (2 * step);
                if (!(fabs(difference - grad[at]) <= 1e-7)) {
                    return bt_error(BT_STATUS_INTERNAL, "rank %d, element %lld: %g, differences %g",
                                    owner, (long long)at, grad[at], difference);
                }
            }
        }
    }
    return BT_OK;
}

bt_status context_differences(bt_group *group, const context_case *c, rank_result *result)
{
    bt_session session = {0};
    bt_context_ring *ring = NULL;
    const int64_t rows = c->batch * tokens_of(c, group), count = rows * qkv_width(c);
    double *own = malloc((size_t)count * sizeof *own + 8), *grad = NULL;
    double *seed = malloc((size_t)(rows * c->heads * c->dim) * sizeof *seed + 8);
    bt_tensor *qkv = NULL, *y = NULL, *d_y = NULL;
    bt_status status = BT_OK;
    for (int64_t i = 0; i < count; ++i) {
        own[i] = value_at(11 + (uint64_t)group->rank, i);
    }
    for (int64_t i = 0; i < rows * c->heads * c->dim; ++i) {
        seed[i] = value_at(51 + (uint64_t)group->rank, i);
    }
    BT_TRY_GOTO(open_rank(group, c, &session, &ring), done);
    BT_TRY_GOTO(run_op(&session.context, bt_context_ring_of(ring), c, own, &qkv, &y), done);
    BT_TRY_GOTO(make(&session.context, BT_F64, y->shape, seed, &d_y), done);
    BT_TRY_GOTO(bt_backward(&session.context, y, d_y), done);
    BT_TRY_GOTO(take(&session.context, qkv->grad, &grad, &result->digest), done);
    BT_TRY_GOTO(differ(group, &session, bt_context_ring_of(ring), c, own, seed, grad, count), done);
done:
    if (session.tape) {
        bt_tape_reset(session.tape);
    }
    bt_tensor_release(qkv);
    bt_tensor_release(y);
    bt_tensor_release(d_y);
    free(own), free(seed), free(grad);
    bt_context_ring_destroy(ring);
    bt_session_close(&session);
    return status;
}
