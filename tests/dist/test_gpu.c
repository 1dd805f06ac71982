// Two ranks on GPUs: over peer memory and over NCCL, against the oracle, in graphs, and failing.
// On a machine of one GPU both ranks use it, without NCCL.
#include <stdlib.h>
#include <string.h>

#include "tests/dist/gpu_body.h"
#include "tests/support/test.h"

enum { RANKS = 2 };

static const int64_t second_ns = 1000000000;

static void run_case(gpu_case what, rank_result *results)
{
    what.device = "cuda";
    what.timeout_ns = what.timeout_ns > 0 ? what.timeout_ns : 30 * second_ns;
    run_ranks(RANKS_MEMORY, RANKS, 60 * second_ns, gpu_body, &what, results);
}

// By one pair of processes, one case after another.
static void expect_right(const gpu_case *cases, int count)
{
    enum { CASES_MAX = 16 };
    gpu_case filled[CASES_MAX];
    rank_result results[RANKS_MAX];
    assert_true(count <= CASES_MAX);
    for (int i = 0; i < count; ++i) {
        filled[i] = cases[i];
        filled[i].device = "cuda";
        filled[i].timeout_ns = 30 * second_ns;
    }
    gpu_list list = {filled, count};
    run_ranks(RANKS_MEMORY, RANKS, 60 * second_ns, gpu_bodies, &list, results);
    for (int rank = 0; rank < RANKS; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("rank %d: %s", rank, results[rank].message);
        }
    }
}

#define EXPECT_RIGHT(cases) expect_right(cases, (int)(sizeof(cases) / sizeof *(cases)))

// Sums of several sizes, captured once and launched three times on other values.
static bt_status captured(bt_group *group, void *argument, rank_result *result)
{
    (void)result;
    static const int64_t counts[] = {257, 60000, 1310984, 4194304};
    sweep *how = argument;
    const bt_backend *backend = how->device->backend;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c) {
        int64_t count = counts[c];
        size_t bytes = (size_t)count * sizeof(float);
        float *host = malloc(bytes);
        bt_graph graph = NULL;
        bt_status status = backend->graph_begin(how->device, how->stream);
        bt_status given =
            bt_all_reduce(group, how->memory, count, BT_F32, BT_REDUCE_SUM, how->stream);
        status = status ? status : backend->graph_end(how->device, how->stream, &graph);
        status = given ? given : status;
        for (int launch = 0; launch < 3 && status == BT_OK; ++launch) {
            for (int64_t i = 0; i < count; ++i) {
                host[i] = (float)(i % 977 + launch * 3 + group->rank);
            }
            status = backend->copy(how->device, how->memory, host, bytes, BT_COPY_HOST_TO_DEVICE,
                                   how->stream);
            status = status ? status : backend->graph_launch(how->device, graph, how->stream);
            status = status ? status
                            : backend->copy(how->device, host, how->memory, bytes,
                                            BT_COPY_DEVICE_TO_HOST, how->stream);
            status = status ? status : backend->stream_synchronize(how->device, how->stream);
            for (int64_t i = 0; i < count && status == BT_OK; ++i) {
                if (host[i] != (float)(2 * (i % 977 + launch * 3) + 1)) {
                    status = bt_error(BT_STATUS_INTERNAL, "%lld elements, launch %d, wrong at %lld",
                                      (long long)count, launch, (long long)i);
                }
            }
        }
        if (graph != NULL) {
            backend->graph_destroy(how->device, graph);
        }
        free(host);
        BT_TRY(status);
    }
    return BT_OK;
}

static void links_agree_with_the_oracle(void **state)
{
    (void)state;
    static const gpu_case cases[] = {
        {.name = "staged", .body = sweep_all},
        {.name = "pieces", .body = sweep_all, .staging_bytes = 4096},
        {.name = "memory", .body = sweep_all, .in_memory = true},
        {.name = "not aligned", .body = sweep_all, .in_memory = true, .shift = 1},
        {.name = "engines", .body = sweep_all, .in_memory = true, .engines = true},
        {.name = "large", .body = sweep_large, .in_memory = true},
        {.name = "large, engines",
         .body = sweep_large,
         .in_memory = true,
         .engines = true,
         .staging_bytes = 1 << 20},
        {.name = "stress", .body = gpu_stress, .in_memory = true},
        {.name = "stress, staged", .body = gpu_stress},
        {.name = "parts", .body = gpu_split},
        {.name = "two streams", .body = gpu_two_streams, .in_memory = true},
        {.name = "two streams, engines",
         .body = gpu_two_streams,
         .in_memory = true,
         .engines = true},
        {.name = "two streams, staged", .body = gpu_two_streams},
        {.name = "in parts", .body = gpu_in_parts, .engines = true}};
    EXPECT_RIGHT(cases);
}

// What compute-sanitizer follows in a minute.
static void each_path_once(void **state)
{
    (void)state;
    static const gpu_case cases[] = {
        {.name = "staged, short", .body = sweep_short},
        {.name = "memory, short", .body = sweep_short, .in_memory = true},
        {.name = "engines, short", .body = sweep_short, .in_memory = true, .engines = true}};
    EXPECT_RIGHT(cases);
}

static void graphs_replay(void **state)
{
    (void)state;
    static const gpu_case cases[] = {
        {.name = "graphs", .body = captured, .in_memory = true},
        {.name = "graphs, staged", .body = captured},
        {.name = "graphs, engines", .body = captured, .in_memory = true, .engines = true}};
    EXPECT_RIGHT(cases);
}

static void need_two_gpus(void)
{
    if (gpu_devices() < RANKS) {
        skip();
    }
}

static void graphs_of_nccl_replay(void **state)
{
    (void)state;
    need_two_gpus();
    static const gpu_case cases[] = {
        {.name = "graphs, NCCL", .backend = GPU_NCCL, .body = captured},
        {.name = "graphs, NCCL, tree", .backend = GPU_NCCL_TREE, .body = captured}};
    EXPECT_RIGHT(cases);
}

static void nccl_agrees_with_the_oracle(void **state)
{
    (void)state;
    need_two_gpus();
    static const gpu_case cases[] = {
        {.name = "NCCL", .backend = GPU_NCCL, .body = sweep_all},
        {.name = "NCCL, tree", .backend = GPU_NCCL_TREE, .body = sweep_all},
        {.name = "NCCL, parts", .backend = GPU_NCCL_TREE, .body = gpu_split},
        {.name = "NCCL, large", .backend = GPU_NCCL_TREE, .body = sweep_large},
        {.name = "NCCL, stress", .backend = GPU_NCCL, .body = gpu_stress}};
    EXPECT_RIGHT(cases);
}

static void expect_words(gpu_case what, const char *words, int64_t within_ns)
{
    rank_result results[RANKS_MAX];
    run_case(what, results);
    const rank_result *first = &results[0];
    if (first->ended || first->status == BT_OK || strstr(first->message, words) == NULL) {
        fail_msg("%s: expected '%s', got '%s'", what.name, words, first->message);
    }
    if (first->time_ns > within_ns) {
        fail_msg("%s: took %.3f s", what.name, (double)first->time_ns / 1e9);
    }
}

static void failures_are_named(void **state)
{
    (void)state;
    expect_words((gpu_case){.name = "diverges", .body = gpu_diverges, .in_memory = true},
                 "different collectives", 10 * second_ns);
    expect_words((gpu_case){.name = "silent", .body = gpu_is_silent, .timeout_ns = second_ns},
                 "for rank 1 in a collective on its GPU", 10 * second_ns);
    expect_words((gpu_case){.name = "silent, engines",
                            .body = gpu_is_silent,
                            .in_memory = true,
                            .engines = true,
                            .timeout_ns = second_ns},
                 "which did not end", 10 * second_ns);
    expect_words((gpu_case){.name = "killed", .body = gpu_is_killed}, "rank 1 ended",
                 10 * second_ns);
    expect_words(
        (gpu_case){
            .name = "killed, engines", .body = gpu_is_killed, .in_memory = true, .engines = true},
        "rank 1 ended", 10 * second_ns);
    expect_words((gpu_case){.name = "aborts", .body = gpu_aborts}, "the loss is NaN",
                 10 * second_ns);
    expect_words(
        (gpu_case){.name = "aborts a queue", .body = gpu_aborts_a_queue, .in_memory = true},
        "the loss is NaN", 10 * second_ns);
}

static void failures_of_nccl_are_named(void **state)
{
    (void)state;
    need_two_gpus();
    expect_words((gpu_case){.name = "killed, NCCL", .backend = GPU_NCCL, .body = gpu_is_killed},
                 "rank 1 ended", 20 * second_ns);
    expect_words((gpu_case){.name = "silent, NCCL",
                            .backend = GPU_NCCL,
                            .body = gpu_is_silent,
                            .timeout_ns = 2 * second_ns},
                 "which did not end", 20 * second_ns);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_agree_with_the_oracle),
        cmocka_unit_test(each_path_once),
        cmocka_unit_test(graphs_replay),
        cmocka_unit_test(graphs_of_nccl_replay),
        cmocka_unit_test(nccl_agrees_with_the_oracle),
        cmocka_unit_test(failures_are_named),
        cmocka_unit_test(failures_of_nccl_are_named),
    };
    return gpu_prepare(argc, argv) ? cmocka_run_group_tests_name("dist.gpu", tests, NULL, NULL)
                                   : test_skip("a GPU is needed");
}
