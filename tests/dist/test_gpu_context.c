// tests/dist/test_gpu_context.c - attention over two ranks on GPUs: equal to one rank's in double,
// and the same bits by every rotation and over every kind of group. On a machine of one GPU both
// ranks use it, without NCCL.
#include "tests/dist/context_body.h"
#include "tests/dist/gpu_body.h"
#include "tests/support/test.h"

enum { RANKS = 2 };

static const int64_t second_ns = 1000000000;
static context_case current; // of the ranks that are forked next

static bt_status compare_body(bt_group *group, void *argument, rank_result *result)
{
    (void)argument; // a sweep
    return context_compare(group, &current, result);
}

static void run(gpu_backend backend, bool engines, const context_case *c, rank_result *results)
{
    gpu_case what = {.backend = backend,
                     .device = "cuda",
                     .engines = engines,
                     .timeout_ns = 60 * second_ns,
                     .body = compare_body};
    current = *c;
    run_ranks(RANKS_MEMORY, RANKS, 120 * second_ns, gpu_body, &what, results);
    for (int rank = 0; rank < RANKS; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("%lld tokens, %s%s, %s, group %d%s, rank %d: %s", (long long)c->tokens,
                     bt_dtype_name(c->dtype), c->compute == BT_COMPUTE_TF32 ? " tf32" : "",
                     bt_rotation_name(c->rotation), (int)backend, engines ? " engines" : "", rank,
                     results[rank].ended ? "ended" : results[rank].message);
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
            rank_result results[RANKS_MAX];
            context_case c = shapes[s];
            c.dtype = precisions[p].dtype;
            c.compute = precisions[p].compute;
            c.repeats = 1;
            run(GPU_P2P, true, &c, results);
        }
    }
}

static void one_set_of_bits(void **state)
{
    (void)state;
    static const gpu_backend backends[] = {GPU_P2P, GPU_P2P, GPU_NCCL};
    rank_result first[RANKS_MAX], other[RANKS_MAX];
    for (int s = 0; s < 2; ++s) {
        context_case c = shapes[s];
        c.dtype = precisions[s].dtype;
        c.compute = precisions[s].compute;
        c.repeats = 2;
        run(GPU_P2P, false, &c, first);
        for (int rotation = 0; rotation < BT_ROTATION_COUNT; ++rotation) {
            for (int b = 0; b < (gpu_devices() < RANKS ? 2 : 3); ++b) {
                c.rotation = (bt_rotation)rotation;
                c.delay_seed = 1 + (unsigned)b;
                run(backends[b], b == 1, &c, other);
                for (int rank = 0; rank < RANKS; ++rank) {
                    assert_int_equal(other[rank].digest, first[rank].digest);
                }
            }
        }
    }
}

// What compute-sanitizer follows in a minute.
static void short_run(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    context_case c = {
        .batch = 1, .tokens = 130, .heads = 2, .kv_heads = 2, .dim = 64, .causal = true};
    for (int p = 0; p < PRECISIONS; ++p) {
        c.dtype = precisions[p].dtype;
        c.compute = precisions[p].compute;
        c.rotation = (bt_rotation)p;
        run(GPU_P2P, p > 0, &c, results);
    }
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
