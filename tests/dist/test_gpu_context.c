// tests/dist/test_gpu_context.c - attention over two ranks on GPUs: equal to one rank's in double,
// and the same bits by every rotation and over every kind of group. On a machine of one GPU both
// ranks use it, without NCCL.
#include <stdio.h>

#include "tests/dist/context_body.h"
#include "tests/dist/gpu_body.h"
#include "tests/support/test.h"

enum { RANKS = 2, CASES_MAX = 24, NAME_BYTES = 80 };

static const int64_t second_ns = 1000000000;

// The cases that one pair of processes runs, one after another.
static struct {
    gpu_case groups[CASES_MAX];
    context_case attention[CASES_MAX];
    char names[CASES_MAX][NAME_BYTES];
    int count;
} list;

static bt_status compare_body(bt_group *group, void *argument, rank_result *result)
{
    return context_compare(group, ((const sweep *)argument)->data, result);
}

// `same`: with the bits of the case before.
static void add(gpu_backend backend, bool engines, const context_case *c, bool same)
{
    assert_true(list.count < CASES_MAX);
    const int i = list.count++;
    list.attention[i] = *c;
    (void)snprintf(list.names[i], NAME_BYTES, "%lld tokens, %s%s, %s, group %d%s",
                   (long long)c->tokens, bt_dtype_name(c->dtype),
                   c->compute == BT_COMPUTE_TF32 ? " tf32" : "", bt_rotation_name(c->rotation),
                   (int)backend, engines ? " engines" : "");
    list.groups[i] = (gpu_case){.name = list.names[i],
                                .backend = backend,
                                .device = "cuda",
                                .engines = engines,
                                .timeout_ns = 60 * second_ns,
                                .body = compare_body,
                                .data = &list.attention[i],
                                .same = same};
}

static void expect_right(void)
{
    rank_result results[RANKS_MAX];
    gpu_list all = {list.groups, list.count};
    list.count = 0;
    run_ranks(RANKS_MEMORY, RANKS, 120 * second_ns, gpu_bodies, &all, results);
    for (int rank = 0; rank < RANKS; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("rank %d: %s", rank, results[rank].message);
        }
    }
}

static const struct {
    bt_dtype dtype;
    bt_compute compute;
} precisions[] = {
    {BT_BF16, BT_COMPUTE_NATIVE}, {BT_F32, BT_COMPUTE_TF32}, {BT_F32, BT_COMPUTE_NATIVE}};

static const context_case shapes[] = {
    {.batch = 2, .tokens = 512, .heads = 3, .kv_heads = 3, .dim = 64, .causal = true},
    {.batch = 1, .tokens = 391, .heads = 4, .kv_heads = 2, .dim = 64, .causal = true},
    {.batch = 1, .tokens = 256, .heads = 2, .kv_heads = 2, .dim = 64},
    {.batch = 1,
     .tokens = 640,
     .heads = 2,
     .kv_heads = 1,
     .dim = 64,
     .causal = true,
     .window = 200},
    {.batch = 2, // so many heads that kernels of both sides do not run at once
     .tokens = 768,
     .heads = 48,
     .kv_heads = 48,
     .dim = 64,
     .causal = true,
     .by_sides = true},
    {.batch = 1,
     .tokens = 300,
     .heads = 4,
     .kv_heads = 4,
     .dim = 128,
     .causal = true,
     .by_sides = true},
};

enum {
    PRECISIONS = sizeof precisions / sizeof precisions[0],
    SHAPES = sizeof shapes / sizeof shapes[0]
};

static void equals_one_rank(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; ++s) {
        for (int p = 0; p < PRECISIONS; ++p) {
            context_case c = shapes[s];
            c.dtype = precisions[p].dtype;
            c.compute = precisions[p].compute;
            c.repeats = 1;
            c.by_sides = c.by_sides && p < 2; // fp32 computes both sides at once
            add(GPU_P2P, true, &c, false);
        }
    }
    expect_right();
}

static void one_set_of_bits(void **state)
{
    (void)state;
    static const gpu_backend backends[] = {GPU_P2P, GPU_P2P, GPU_NCCL};
    for (int s = 0; s < 2; ++s) {
        context_case c = shapes[s];
        c.dtype = precisions[s].dtype;
        c.compute = precisions[s].compute;
        c.repeats = 2;
        add(GPU_P2P, false, &c, false);
        for (int rotation = 0; rotation < BT_ROTATION_COUNT; ++rotation) {
            for (int b = 0; b < (gpu_devices() < RANKS ? 2 : 3); ++b) {
                c.rotation = (bt_rotation)rotation;
                c.delay_seed = 1 + (unsigned)b;
                add(backends[b], b == 1, &c, true);
            }
        }
    }
    expect_right();
}

// What compute-sanitizer follows in a minute.
static void short_run(void **state)
{
    (void)state;
    context_case c = {
        .batch = 1, .tokens = 130, .heads = 2, .kv_heads = 2, .dim = 64, .causal = true};
    for (int p = 0; p < PRECISIONS; ++p) {
        c.dtype = precisions[p].dtype;
        c.compute = precisions[p].compute;
        c.rotation = (bt_rotation)p;
        add(GPU_P2P, p > 0, &c, false);
    }
    expect_right();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_one_rank),
        cmocka_unit_test(one_set_of_bits),
        cmocka_unit_test(short_run),
    };
    return gpu_prepare(argc, argv)
               ? cmocka_run_group_tests_name("dist.gpu_context", tests, NULL, NULL)
               : test_skip("a GPU is needed");
}
