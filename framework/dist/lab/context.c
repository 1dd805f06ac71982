// framework/dist/lab/context.c - attention over two GPUs beside the same calls without any
// exchange, and beside one GPU's attention of the whole sequence
//
//   lab_context bf16|tf32|f32 BATCH TOKENS [HEADS] [alone]     head size 64, causal
//
// alone: on one GPU, the calls of each rank in turn, without an exchange.
// Prints microseconds of a forward, and of forward and backward: the median over RUNS of the slower
// rank's time of CALLS calls in a row, by CALLS, ranks meeting before each run. What a rotation
// takes longer than `silent` is exposed communication.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/autograd/session.h"
#include "framework/base/clock.h"
#include "framework/dist/context_ring.h"
#include "framework/ops/ops.h"
#include "tests/dist/gpu_body.h"

enum { RANKS = 2, WARM = 3, RUNS = 12, CALLS = 8 };

static struct {
    bt_dtype dtype;
    bt_compute compute;
    int64_t batch, tokens, heads;
} shape;

// ---- a ring without an exchange: blocks are whatever lies in its memory -------------------------

typedef struct silent {
    bt_ring ring;
    void *blocks[3];
} silent;

static bt_status silent_begin(void *self, bt_context *context, int64_t block_bytes)
{
    silent *s = self;
    for (int i = 0; i < 3 && !s->blocks[i]; ++i) {
        BT_TRY(context->device->backend->memory_alloc(context->device, (size_t)block_bytes,
                                                      &s->blocks[i]));
    }
    return BT_OK;
}

static bt_status silent_send(void *self, bt_context *context, const bt_byte_rows *own)
{
    (void)self, (void)context, (void)own;
    return BT_OK;
}

static bt_status silent_fetch(void *self, bt_context *context, int step, const void **block)
{
    (void)context, (void)step;
    *block = ((silent *)self)->blocks[0];
    return BT_OK;
}

static bt_status silent_place(void *self, bt_context *context, int step, void **gradient)
{
    (void)context, (void)step;
    *gradient = ((silent *)self)->blocks[1];
    return BT_OK;
}

static bt_status silent_give(void *self, bt_context *context, int step)
{
    (void)self, (void)context, (void)step;
    return BT_OK;
}

static bt_status silent_take(void *self, bt_context *context, const bt_ring_copy *copies, int count)
{
    (void)self, (void)context, (void)copies, (void)count;
    return BT_OK;
}

static bt_status silent_collect(void *self, bt_context *context, const void **gradients)
{
    (void)context;
    for (int rank = 0; rank < RANKS; ++rank) {
        gradients[rank] = ((silent *)self)->blocks[1];
    }
    return BT_OK;
}

static silent make_silent(int rank)
{
    return (silent){.ring = {.rank = rank,
                             .size = RANKS,
                             .overlaps = true,
                             .begin = silent_begin,
                             .send = silent_send,
                             .fetch = silent_fetch,
                             .place = silent_place,
                             .give = silent_give,
                             .take = silent_take,
                             .collect = silent_collect}};
}

// ---- measuring ----------------------------------------------------------------------------------

typedef struct subject {
    bt_session *session;
    bt_group *group;
    const bt_ring *ring; // NULL: one GPU, the whole sequence
    bt_tensor *qkv, *seed;
} subject;

static bt_status run_once(const subject *s, bool backward)
{
    const bt_attention_options options = {.heads = shape.heads, .causal = true};
    bt_context *context = &s->session->context;
    bt_tensor *y = NULL;
    struct bt_tape *tape = context->tape;
    context->tape = backward ? tape : NULL;
    bt_status status = s->ring
                           ? bt_ring_attention(context, s->qkv, s->ring, shape.tokens, &options, &y)
                           : bt_attend(context, s->qkv, NULL, NULL, NULL, &options, &y);
    if (status == BT_OK && backward) {
        status = bt_backward(context, y, s->seed);
    }
    context->tape = tape;
    bt_tensor_release(y);
    BT_TENSOR_RELEASE(s->qkv->grad);
    return status;
}

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// The median time of a run in ns, of the slower rank.
static bt_status measure(const subject *s, bool backward, int64_t *median_ns)
{
    bt_context *context = &s->session->context;
    int64_t times[RUNS];
    for (int run = -WARM; run < RUNS; ++run) {
        BT_TRY(bt_barrier(s->group, context->stream));
        BT_TRY(bt_context_synchronize(context));
        const int64_t start_ns = bt_clock_ns();
        for (int call = 0; call < CALLS; ++call) {
            BT_TRY(run_once(s, backward));
        }
        BT_TRY(bt_context_synchronize(context));
        if (run >= 0) {
            times[run] = (bt_clock_ns() - start_ns) / CALLS;
        }
    }
    qsort(times, RUNS, sizeof times[0], compare_times);
    *median_ns = times[RUNS / 2];
    for (int rank = 0; rank < s->group->size; ++rank) {
        int64_t other_ns = *median_ns;
        BT_TRY(bt_group_tell(s->group, &other_ns, sizeof other_ns, rank));
        *median_ns = other_ns > *median_ns ? other_ns : *median_ns;
    }
    return BT_OK;
}

static bt_status report(const subject *s, const char *name)
{
    int64_t forward_ns = 0, both_ns = 0;
    BT_TRY(measure(s, false, &forward_ns));
    BT_TRY(measure(s, true, &both_ns));
    if (s->group->rank == 0) {
        printf("%-16s forward %9.1f us   forward and backward %9.1f us\n", name,
               (double)forward_ns / 1e3, (double)both_ns / 1e3);
        (void)fflush(stdout);
    }
    return BT_OK;
}

static bt_status make(subject *s, int64_t tokens)
{
    const int64_t width = shape.heads * 64;
    bt_context *context = &s->session->context;
    BT_TRY(bt_tensor_create(context, shape.dtype, BT_SHAPE(shape.batch, tokens, 3 * width), "qkv",
                            &s->qkv));
    BT_TRY(bt_tensor_create(context, shape.dtype, BT_SHAPE(shape.batch, tokens, width), "seed",
                            &s->seed));
    s->qkv->requires_grad = true;
    s->qkv->grad_dtype = shape.dtype;
    BT_TRY(bt_tensor_fill(context, s->qkv, 0.01));
    return bt_tensor_fill(context, s->seed, 0.01);
}

static void drop(subject *s)
{
    BT_TENSOR_RELEASE(s->qkv);
    BT_TENSOR_RELEASE(s->seed);
}

// What each rank computes, on one GPU.
static bt_status body_alone(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    bt_session session = {0};
    subject s = {.session = &session, .group = group};
    bt_status status = BT_OK;
    BT_TRY(bt_session_open("cuda", 0, 0, &session));
    session.context.compute = shape.compute;
    BT_TRY_GOTO(make(&s, shape.tokens), done);
    BT_TRY_GOTO(report(&s, "one GPU, whole"), done);
    drop(&s);
    BT_TRY_GOTO(make(&s, shape.tokens / RANKS), done);
    for (int rank = 0; rank < RANKS; ++rank) {
        silent nothing = make_silent(rank);
        nothing.ring.self = &nothing;
        s.ring = &nothing.ring;
        BT_TRY_GOTO(report(&s, rank == 0 ? "silent rank 0" : "silent rank 1"), done);
    }
done:
    drop(&s);
    bt_session_close(&session);
    return status;
}

static bt_status body(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    bt_session session = {0};
    subject s = {.session = &session, .group = group};
    silent nothing = make_silent(group->rank);
    bt_status status = BT_OK;
    BT_TRY(bt_session_open_on(group->device, 0, &session));
    session.context.compute = shape.compute;
    BT_TRY_GOTO(make(&s, shape.tokens), done);
    BT_TRY_GOTO(report(&s, "one GPU, whole"), done);
    drop(&s);
    BT_TRY_GOTO(make(&s, shape.tokens / RANKS), done);
    nothing.ring.self = &nothing;
    s.ring = &nothing.ring;
    BT_TRY_GOTO(report(&s, "silent"), done);
    for (int rotation = 0; rotation < BT_ROTATION_COUNT; ++rotation) {
        bt_context_ring *ring = NULL;
        BT_TRY_GOTO(bt_context_ring_create(group, (bt_rotation)rotation, &ring), done);
        s.ring = bt_context_ring_of(ring);
        status = report(&s, bt_rotation_name((bt_rotation)rotation));
        bt_context_ring_destroy(ring);
        BT_TRY_GOTO(status, done);
    }
    s.ring = &nothing.ring;
    BT_TRY_GOTO(report(&s, "silent"), done);
done:
    drop(&s);
    bt_session_close(&session);
    return status;
}

int main(int argc, char **argv)
{
    rank_result results[RANKS_MAX];
    const bool alone = argc > 1 && strcmp(argv[argc - 1], "alone") == 0;
    const int ranks = alone ? 1 : RANKS;
    gpu_case what = {.backend = GPU_P2P,
                     .device = "cuda",
                     .engines = true,
                     .timeout_ns = 60000000000,
                     .body = body};
    argc -= alone;
    if (argc < 4) {
        (void)fputs("usage: lab_context bf16|tf32|f32 BATCH TOKENS [HEADS] [alone]\n", stderr);
        return 2;
    }
    shape.dtype = strcmp(argv[1], "bf16") == 0 ? BT_BF16 : BT_F32;
    shape.compute = strcmp(argv[1], "tf32") == 0 ? BT_COMPUTE_TF32 : BT_COMPUTE_NATIVE;
    shape.batch = strtoll(argv[2], NULL, 10);
    shape.tokens = strtoll(argv[3], NULL, 10);
    shape.heads = argc > 4 ? strtoll(argv[4], NULL, 10) : 12;
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    (void)setenv("NCCL_NVLS_ENABLE", "0", 1);
    if (alone) {
        run_ranks(RANKS_MEMORY, 1, 120000000000, body_alone, NULL, results);
    } else {
        run_ranks(RANKS_MEMORY, RANKS, 120000000000, gpu_body, &what, results);
    }
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            (void)fprintf(stderr, "rank %d: %s\n", rank,
                          results[rank].ended ? "ended" : results[rank].message);
            return 1;
        }
    }
    return 0;
}
