// Groups over the links of GPUs, with processes and descriptors but without GPUs (fake_gpu.h).
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/autograd/session.h"
#include "framework/dist/context_ring.h"
#include "framework/dist/device_group.h"
#include "framework/dist/host.h"
#include "framework/dist/p2p.h"
#include "framework/ops/row_chunks.h"
#include "tests/dist/fake_gpu.h"
#include "tests/dist/gpu_body.h"
#include "tests/support/test.h"

static const int64_t second_ns = 1000000000;

static void run_case(gpu_case what, int ranks, rank_result *results)
{
    bt_device_group_use(fake_gpu_table(BT_OK));
    what.device = "cpu";
    what.timeout_ns = what.timeout_ns > 0 ? what.timeout_ns : 20 * second_ns;
    run_ranks(RANKS_MEMORY, ranks, 20 * second_ns, gpu_body, &what, results);
}

// One case after another by the same processes.
static void expect_right(gpu_case *cases, int count, int ranks)
{
    rank_result results[RANKS_MAX];
    gpu_list list = {cases, count};
    bt_device_group_use(fake_gpu_table(BT_OK));
    for (int i = 0; i < count; ++i) {
        cases[i].device = "cpu";
        cases[i].timeout_ns = 20 * second_ns;
    }
    run_ranks(RANKS_MEMORY, ranks, 60 * second_ns, gpu_bodies, &list, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("rank %d of %d: %s", rank, ranks, results[rank].message);
        }
    }
}

static void ranks_agree_with_the_oracle(void **state)
{
    (void)state;
    gpu_case cases[] = {
        {.name = "staged", .body = sweep_all},
        {.name = "staged in pieces", .body = sweep_all, .staging_bytes = 4096},
        {.name = "in memory of the group", .body = sweep_all, .in_memory = true},
        {.name = "not aligned", .body = sweep_all, .in_memory = true, .shift = 1},
        {.name = "engines", .body = sweep_all, .in_memory = true, .engines = true},
        {.name = "engines in pieces",
         .body = sweep_all,
         .in_memory = true,
         .engines = true,
         .staging_bytes = 4096},
        {.name = "the smallest pieces", .body = sweep_all, .staging_bytes = 1},
        {.name = "engines in the smallest pieces",
         .body = sweep_all,
         .in_memory = true,
         .engines = true,
         .staging_bytes = 1},
        {.name = "large", .body = sweep_large, .staging_bytes = 1 << 20},
        {.name = "large, engines",
         .body = sweep_large,
         .in_memory = true,
         .engines = true,
         .staging_bytes = 1 << 20},
        {.name = "short", .body = sweep_short, .in_memory = true},
        {.name = "two streams", .body = gpu_two_streams, .in_memory = true, .engines = true},
        {.name = "in parts", .body = gpu_in_parts, .engines = true},
        {.name = "stress", .body = gpu_stress, .in_memory = true},
        {.name = "parts", .body = gpu_split},
    };
    for (int ranks = 2; ranks <= 8; ranks *= 2) {
        gpu_case wanted[sizeof cases / sizeof *cases];
        int count = 0;
        for (int i = 0; i < (ranks == 8 ? 1 : (int)(sizeof cases / sizeof *cases)); ++i) {
            if (in_sweep(ranks, i)) {
                wanted[count++] = cases[i];
            }
        }
        expect_right(wanted, count, ranks);
    }
}

static bt_status counted(bt_group *group, void *argument, rank_result *result)
{
    static uint64_t calls;
    (void)group, (void)argument;
    result->digest = ++calls;
    return BT_OK;
}

static void a_list_finds_other_bits(void **state)
{
    (void)state;
    static const gpu_case cases[] = {
        {.name = "first", .device = "cpu", .timeout_ns = 20000000000, .body = counted},
        {.name = "second",
         .device = "cpu",
         .timeout_ns = 20000000000,
         .body = counted,
         .same = true}};
    gpu_list list = {cases, 2};
    rank_result results[RANKS_MAX];
    bt_device_group_use(fake_gpu_table(BT_OK));
    run_ranks(RANKS_MEMORY, 2, 20 * second_ns, gpu_bodies, &list, results);
    for (int rank = 0; rank < 2; ++rank) {
        assert_int_equal(results[rank].status, BT_STATUS_INTERNAL);
        assert_non_null(strstr(results[rank].message, "second: other bits"));
    }
}

static void expect_words(gpu_case what, int ranks, const char *words)
{
    rank_result results[RANKS_MAX];
    bool said = false;
    run_case(what, ranks, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (!results[rank].ended && results[rank].status != BT_OK) {
            said = said || strstr(results[rank].message, words) != NULL;
        }
    }
    if (!said) {
        fail_msg("%s: nobody says '%s', but '%s'", what.name, words, results[0].message);
    }
}

static void failures_are_named(void **state)
{
    (void)state;
    expect_words((gpu_case){.name = "diverges", .body = gpu_diverges, .in_memory = true}, 2,
                 "call different collectives");
    expect_words((gpu_case){.name = "diverges, staged", .body = gpu_diverges}, 2,
                 "call different collectives");
    expect_words((gpu_case){.name = "silent", .body = gpu_is_silent, .timeout_ns = second_ns}, 2,
                 "rank 0 waited 1.0 s for rank 1 in a collective on its GPU");
    expect_words((gpu_case){.name = "silent, engines",
                            .body = gpu_is_silent,
                            .in_memory = true,
                            .engines = true,
                            .timeout_ns = second_ns},
                 2, "rank 0 waited 1.0 s in a collective on its GPU, which did not end");
    expect_words((gpu_case){.name = "aborts", .body = gpu_aborts}, 4, "the loss is NaN");
}

static void a_killed_rank_is_named_at_once(void **state)
{
    (void)state;
    for (int engines = 0; engines < 2; ++engines) {
        rank_result results[RANKS_MAX];
        bool named = false;
        run_case((gpu_case){.name = "killed",
                            .body = gpu_is_killed,
                            .in_memory = true,
                            .engines = engines != 0},
                 4, results);
        for (int rank = 0; rank < 4; ++rank) {
            assert_true(rank == 1 || (results[rank].status != BT_OK && !results[rank].ended));
            assert_true(rank == 1 || results[rank].time_ns < 2 * second_ns);
            named = named || strstr(results[rank].message, "rank 1 ended") != NULL;
        }
        assert_true(named);
    }
}

// ---- what is refused ---------------------------------------------------------------------------

static bt_status falls_back(bt_group *control, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    bt_device device;
    bt_group *group;
    char note[512];
    bt_p2p_options options = {.timeout_ns = second_ns};
    BT_TRY(bt_device_open("cpu", 0, &device));
    bt_status status = bt_group_gpu_create(control, &device, &options, note, sizeof note, &group);
    bt_device_close(&device);
    return status;
}

static void what_is_missing_is_said(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    bt_device_group_use(fake_gpu_table(BT_STATUS_UNAVAILABLE));
    (void)setenv("NCCL_NVLS_ENABLE", "1", 1);
    run_ranks(RANKS_MEMORY, 2, 20 * second_ns, falls_back, NULL, results);
    for (int rank = 0; rank < 2; ++rank) {
        assert_int_equal(results[rank].status, BT_STATUS_UNAVAILABLE);
        assert_non_null(strstr(results[rank].message,
                               "collectives use NCCL: rank 0: this GPU shares no memory"));
        assert_non_null(strstr(results[rank].message, "start the process with NCCL_NVLS_ENABLE=0"));
    }
    (void)setenv("NCCL_NVLS_ENABLE", "0", 1);
    run_ranks(RANKS_MEMORY, 2, 20 * second_ns, falls_back, NULL, results);
    assert_non_null(strstr(results[1].message, "no NCCL: this is not a GPU"));
    bt_device_group_use(fake_gpu_table(BT_OK));
    run_ranks(RANKS_MEMORY, 3, 20 * second_ns, falls_back, NULL, results);
    assert_int_equal(results[2].status, BT_STATUS_UNSUPPORTED);
    assert_non_null(strstr(results[2].message, "support 2, 4 or 8 ranks, but there are 3"));
}

// Descriptors of windows; threads of the group open others at any time.
static int open_windows(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char target[64] = "";
        (void)!readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        count += strstr(target, "memfd:window") != NULL;
    }
    (void)closedir(folder);
    return count;
}

// Rank 1 has no memory for a block: the others give theirs back, of which a descriptor would keep
// the memory allocated.
static bt_status one_has_no_memory(bt_group *group, void *argument, rank_result *result)
{
    void *memory = NULL;
    (void)argument, (void)result;
    if (group->rank == 1) {
        fake_gpu_exhaust();
    }
    const bt_status status = bt_group_memory(group, 4096, &memory);
    return open_windows() == 0
               ? status
               : bt_error(BT_STATUS_INTERNAL, "%d descriptors were left open", open_windows());
}

static void a_failed_block_leaves_no_descriptor(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    run_case((gpu_case){.body = one_has_no_memory}, 2, results);
    for (int rank = 0; rank < 2; ++rank) {
        if (results[rank].status != BT_STATUS_OUT_OF_MEMORY ||
            !strstr(results[rank].message, "rank 1: no memory for a window")) {
            fail_msg("rank %d: %s", rank, results[rank].message);
        }
    }
}

// Rank 1 fails to map the first window that arrives, with those of two more ranks behind it. The
// next block must not be mapped from these.
static bt_status tries_again(bt_group *group, void *argument, rank_result *result)
{
    void *memory = NULL;
    (void)argument, (void)result;
    if (group->rank == 1) {
        fake_gpu_fail_import();
    }
    if (bt_group_memory(group, 4096, &memory) != BT_STATUS_UNAVAILABLE) {
        return bt_error(BT_STATUS_INTERNAL, "the first block was made");
    }
    BT_TRY(bt_group_memory(group, 4096, &memory));
    int *all = memory;
    BT_TRY(bt_all_gather(group, &group->rank, all, sizeof *all, NULL));
    for (int rank = 0; rank < group->size; ++rank) {
        if (all[rank] != rank) {
            return bt_error(BT_STATUS_INTERNAL, "rank %d sent %d", rank, all[rank]);
        }
    }
    return BT_OK;
}

static void a_block_is_not_made_of_an_earlier_ones_windows(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    run_case((gpu_case){.body = tries_again}, 4, results);
    for (int rank = 0; rank < 4; ++rank) {
        if (results[rank].status != BT_OK) {
            fail_msg("rank %d: %s", rank, results[rank].message);
        }
    }
}

static bt_status asks_for_memory(bt_group *control, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    void *memory = result;
    BT_TRY(bt_group_memory(control, 4096, &memory));
    return memory == NULL ? BT_OK : bt_error(BT_STATUS_INTERNAL, "the host group has memory");
}

static void other_groups_have_no_such_memory(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    run_ranks(RANKS_MEMORY, 2, 20 * second_ns, asks_for_memory, NULL, results);
    if (results[0].status != BT_OK) {
        fail_msg("%s", results[0].message);
    }
}

// The only byte of this rank's block arrives at the other, and the memory grows less often than the
// blocks.
static bt_status grow_ring(bt_context *context, const bt_context_ring *owner, int64_t block_bytes)
{
    const bt_ring *ring = bt_context_ring_of(owner);
    const unsigned char own = (unsigned char)(1 + ring->rank), other = 3 - own;
    const bt_byte_rows sent = bt_byte_block(&own, 1);
    const void *block = NULL;
    BT_TRY(ring->begin(ring->self, context, block_bytes));
    BT_TRY(ring->send(ring->self, context, &sent));
    BT_TRY(ring->fetch(ring->self, context, 1, &block));
    return *(const unsigned char *)block == other
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL, "%lld bytes: another block has arrived",
                          (long long)block_bytes);
}

static bt_status grow_buffers(bt_session *session, bt_context_ring *ring, bt_row_chunks *chunks)
{
    enum { GROWTHS = 40, STEP_BYTES = 256 };
    for (int64_t i = 1; i <= GROWTHS; ++i) {
        BT_TRY(bt_row_chunks_open(chunks, &session->context, i * STEP_BYTES));
        BT_TRY(grow_ring(&session->context, ring, i * STEP_BYTES));
    }
    return BT_OK;
}

static bt_status grows_often(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    bt_session session = {0};
    bt_context_ring *ring = NULL;
    bt_row_chunks *chunks = NULL;
    bt_status status = bt_session_open_on(group->device, 0, &session);
    status = status ? status : bt_context_ring_create(group, BT_ROTATION_POINT_TO_POINT, &ring);
    status = status ? status : bt_row_chunks_create(group, &chunks);
    status = status ? status : grow_buffers(&session, ring, chunks);
    bt_row_chunks_destroy(chunks);
    bt_context_ring_destroy(ring);
    bt_session_close(&session);
    return status;
}

// A group has 15 blocks of memory, and frees none.
static void buffers_may_grow_often(void **state)
{
    (void)state;
    gpu_case cases[] = {{.name = "growing buffers", .body = grows_often},
                        {.name = "growing buffers, engines", .body = grows_often, .engines = true}};
    expect_right(cases, 2, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_agree_with_the_oracle),
        cmocka_unit_test(a_list_finds_other_bits),
        cmocka_unit_test(failures_are_named),
        cmocka_unit_test(a_killed_rank_is_named_at_once),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(a_failed_block_leaves_no_descriptor),
        cmocka_unit_test(a_block_is_not_made_of_an_earlier_ones_windows),
        cmocka_unit_test(other_groups_have_no_such_memory),
        cmocka_unit_test(buffers_may_grow_often),
    };
    return cmocka_run_group_tests_name("dist.p2p", tests, NULL, NULL);
}
