// tests/dist/test_resident.c - ZERO3: which weights are there when, and what is gathered ahead;
// ZERO2: which gradients are there, and what waits for their reduction
#include <string.h>

#include "framework/dist/data_parallel_impl.h"
#include "framework/nn/gpt2.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"

enum { VOCAB = 700, MICRO_BATCHES = 2, STEPS = 3 };

typedef struct gpt {
    fixture f;
    bt_params params;
    bt_gpt2 model;
    bt_tensor *ids, *targets;
    bt_data_parallel *parallel;
    bt_adamw optimizer;
} gpt;

// ---- a group of two, of which one is here -------------------------------------------------------

static gpt *watched;
static int64_t gathers, most_read, most_ahead;

static void count_there(void)
{
    const bt_data_parallel *p = watched->parallel;
    int64_t read = 0, ahead = 0;
    for (int64_t b = 0; b < p->layout.count; ++b) {
        const bt_bucket_memory *memory = &p->buckets[b];
        const bool there = memory->values->storage->data != NULL;
        read += there && memory->used != 0;
        ahead += there && memory->used == 0;
    }
    most_read = read > most_read ? read : most_read;
    most_ahead = ahead > most_ahead ? ahead : most_ahead;
}

// The other rank's part is as this one's.
static bt_status all_gather(bt_group *group, const void *in, void *out, int64_t size_bytes,
                            bt_stream stream)
{
    for (int rank = 0; rank < group->size; ++rank) {
        memmove((char *)out + rank * size_bytes, in, (size_t)size_bytes);
    }
    if (size_bytes >= BT_SQUARES_BLOCK) {
        assert_ptr_equal(stream, watched->parallel->stream); // one order of all collectives
        ++gathers;
        count_there();
    }
    return BT_OK;
}

static int64_t launches, reduced_at, most_flat;
static bool in_end;

static bt_status reduce_scatter(bt_group *group, const void *in, void *out, int64_t count,
                                bt_dtype dtype, bt_reduction reduction, bt_stream stream)
{
    const bt_data_parallel *p = watched->parallel;
    (void)group, (void)in, (void)out, (void)count, (void)dtype, (void)reduction;
    int64_t flat = 0;
    for (int64_t b = 0; b <= p->next; ++b) { // of buckets that are complete
        flat += p->buckets[b].grads[0]->storage->data != NULL;
    }
    most_flat = flat > most_flat ? flat : most_flat;
    assert_ptr_equal(stream, p->stream);
    reduced_at = launches;
    return BT_OK; // out is this rank's part of in
}

static void count_launch(void *self, const bt_kernel *kernel, const bt_kernel_plan *plan,
                         const void *args)
{
    (void)self, (void)kernel, (void)plan, (void)args;
    ++launches;
}

static const bt_backend *real;
static int64_t waits, waits_beside;

// How often the backward has done something between a reduction and waiting for it: not where one
// op completes two buckets.
static bt_status event_wait(bt_device *device, bt_event event, bt_stream stream)
{
    const gpt *g = watched;
    if (stream == g->f.context.stream && event == g->parallel->reduced && !in_end) {
        waits_beside += launches > reduced_at + 1; // the first one is the reduction's own
        ++waits;
    }
    return real->event_wait(device, event, stream);
}

static bt_status all_reduce(bt_group *group, void *data, int64_t count, bt_dtype dtype,
                            bt_reduction reduction, bt_stream stream)
{
    (void)group, (void)data, (void)count, (void)dtype, (void)reduction, (void)stream;
    return BT_OK;
}

static const bt_group_backend backend = {.name = "half",
                                         .all_reduce = all_reduce,
                                         .reduce_scatter = reduce_scatter,
                                         .all_gather = all_gather};
static bt_group half = {.backend = &backend, .size = 2};

// ---- steps --------------------------------------------------------------------------------------

static void open_gpt(gpt *g, bt_dtype compute, bt_sharding sharding, bool no_overlap)
{
    const bt_gpt2_config config = {
        .layers = 6, .heads = 2, .width = 64, .vocab = VOCAB, .context = 16};
    const bool gathers_all = sharding == BT_SHARDING_ZERO3;
    const bt_data_parallel_options options = {.group = &half,
                                              .sharding = sharding,
                                              .bucket_mb =
                                                  gathers_all ? 0.1 : 0.7, // a matrix, a block
                                              .micro_batches = MICRO_BATCHES,
                                              .no_overlap = no_overlap};
    const bt_adamw_config adamw = {0.9, 0.99, 1e-8, 0.1, 1};
    fixture_open(&g->f, 0);
    bt_params_init(&g->params, &g->f.context, BT_F32, compute, 1337);
    ASSERT_OK(bt_gpt2_init(&g->params, &config, &g->model));
    g->ids = fixture_random(&g->f, BT_I32, BT_SHAPE(2, 16), 0, VOCAB, 1);
    g->targets = fixture_random(&g->f, BT_I32, BT_SHAPE(32), 0, VOCAB, 2);
    watched = g;
    gathers = most_read = most_ahead = 0;
    ASSERT_OK(bt_data_parallel_create(&g->params, &options, &g->parallel));
    ASSERT_OK(bt_data_parallel_optimizer(g->parallel, &adamw, &g->optimizer));
    assert_true(!gathers_all ||
                g->parallel->layout.count > 2 * (BT_RESIDENT_BUCKETS + BT_AHEAD_BUCKETS));
}

static void close_gpt(gpt *g)
{
    bt_adamw_release(&g->optimizer);
    bt_data_parallel_destroy(g->parallel);
    bt_tensor_release(g->ids);
    bt_tensor_release(g->targets);
    bt_gpt2_release(&g->model);
    bt_params_release(&g->params);
    fixture_close(&g->f);
}

static void forward(gpt *g, bt_tensor **loss)
{
    ASSERT_OK(bt_gpt2_loss(&g->f.context, &g->model, g->ids, g->targets, loss));
}

static void step(gpt *g)
{
    for (int64_t i = 0; i < MICRO_BATCHES; ++i) {
        bt_tensor *loss = NULL;
        g->f.context.tape = g->f.tape;
        forward(g, &loss);
        ASSERT_OK(bt_data_parallel_begin(g->parallel, i));
        ASSERT_OK(bt_backward(&g->f.context, loss, NULL));
        g->f.context.tape = NULL;
        in_end = true;
        ASSERT_OK(bt_data_parallel_end(g->parallel));
        in_end = false;
        bt_tensor_release(loss);
    }
    ASSERT_OK(bt_data_parallel_measure(g->parallel, &g->optimizer, 1.0 / MICRO_BATCHES));
    ASSERT_OK(bt_data_parallel_update(g->parallel, &g->optimizer, 1e-3));
}

static void evaluate(gpt *g)
{
    bt_tensor *loss = NULL;
    ASSERT_OK(bt_data_parallel_forward(g->parallel));
    forward(g, &loss);
    bt_tensor_release(loss);
}

// The gathers of the last step, and those of them for which an op had to wait from their start.
static void last_step(bt_dtype compute, bool no_overlap, int64_t *all, int64_t *late)
{
    gpt g = {.parallel = NULL};
    open_gpt(&g, compute, BT_SHARDING_ZERO3, no_overlap);
    for (int i = 0; i < STEPS; ++i) {
        *all = gathers;
        *late = g.parallel->late;
        step(&g);
    }
    *all = gathers - *all;
    *late = g.parallel->late - *late;
    assert_true(most_read <= BT_RESIDENT_BUCKETS && most_ahead <= BT_AHEAD_BUCKETS);
    assert_true((most_ahead == BT_AHEAD_BUCKETS) == !no_overlap);
    close_gpt(&g);
}

// From the second step on only the first weights after an update are late, and nothing is
// gathered that would not be without.
static void the_next_weights_are_gathered_ahead(void **state)
{
    (void)state;
    static const bt_dtype computes[] = {BT_F32, BT_BF16};
    for (int c = 0; c < 2; ++c) {
        int64_t all = 0, late = 0, plain = 0, plain_late = 0;
        last_step(computes[c], false, &all, &late);
        last_step(computes[c], true, &plain, &plain_late);
        print_message("%s: %lld gathers, %lld late\n", bt_dtype_name(computes[c]), (long long)all,
                      (long long)late);
        assert_int_equal(all, plain);
        assert_int_equal(plain, plain_late);
        assert_true(late > 0 && late <= 2);
    }
}

// Walks that differ, as those of an evaluation, cost gathers and change no weight.
static void another_walk_is_recorded_anew(void **state)
{
    (void)state;
    gpt g = {.parallel = NULL};
    open_gpt(&g, BT_F32, BT_SHARDING_ZERO3, false);
    for (int i = 0; i < STEPS; ++i) {
        step(&g);
        for (int k = 0; k < 7 * i; ++k) {
            evaluate(&g);
        }
    }
    int64_t late = g.parallel->late;
    evaluate(&g); // as the ones before it
    assert_true(g.parallel->late - late <= 2);
    bt_tensor *loss = NULL;
    for (int i = 0; i < 9; ++i) { // without a call that begins another one
        forward(&g, &loss);
        BT_TENSOR_RELEASE(loss);
    }
    step(&g);
    late = g.parallel->late;
    step(&g);
    step(&g);
    assert_true(g.parallel->late - late <= 4 * MICRO_BATCHES);
    assert_true(most_read <= BT_RESIDENT_BUCKETS && most_ahead <= BT_AHEAD_BUCKETS);
    close_gpt(&g);
}

// ZERO2 reduces each micro-batch's gradients beside the backward that makes the next ones. One
// bucket is on its way, so two that are complete have memory at most.
static void gradients_are_reduced_beside_the_backward(void **state)
{
    (void)state;
    gpt g = {.parallel = NULL};
    launches = reduced_at = most_flat = waits = waits_beside = 0;
    open_gpt(&g, BT_BF16, BT_SHARDING_ZERO2, false);
    bt_backend counted = *g.f.device.backend;
    real = g.f.device.backend;
    counted.event_wait = event_wait;
    g.f.device.backend = &counted;
    g.f.context.kernel_hook = (bt_kernel_hook){NULL, count_launch};
    for (int i = 0; i < STEPS; ++i) {
        step(&g);
        for (int64_t b = 0; b < g.parallel->layout.count; ++b) {
            assert_null(g.parallel->buckets[b].grads[0]->storage->data);
        }
    }
    assert_int_equal(most_flat, 1);
    print_message("%lld waits, %lld beside the backward\n", (long long)waits,
                  (long long)waits_beside);
    assert_true(waits_beside > waits / 2);
    g.f.device.backend = real;
    close_gpt(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_weights_are_gathered_ahead),
        cmocka_unit_test(another_walk_is_recorded_anew),
        cmocka_unit_test(gradients_are_reduced_beside_the_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
