// Collective cases: sizes, and that a wrong element is found.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "framework/dist/threads.h"
#include "harness/cases/collective.h"
#include "harness/plan/collective.h"
#include "tests/support/test.h"

enum { RANKS = 2, COUNT = 1000 };

static void sizes_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes; // -1: refused
    } rows[] = {{"1", 1},      {"4KiB", 4096}, {"25MiB", 26214400}, {"1GiB", 1 << 30},
                {"", -1},      {"0", -1},      {"-1", -1},          {"4KB", -1},
                {"4 KiB", -1}, {"KiB", -1},    {"1.5MiB", -1},      {"9999999GiB", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        int64_t bytes = -1;
        bool read = bt_collective_size_parse(rows[i].text, &bytes);
        assert_int_equal(read, rows[i].bytes > 0);
        assert_int_equal(bytes, rows[i].bytes);
    }
}

// A backend whose result has one wrong element on rank 1.
static const bt_group_backend *real;

static bt_status spoilt_all_reduce(bt_group *group, void *data, int64_t count, bt_dtype dtype,
                                   bt_reduction reduction, bt_stream stream)
{
    BT_TRY(real->all_reduce(group, data, count, dtype, reduction, stream));
    if (group->rank == 1) {
        ((float *)data)[617] += 1;
    }
    return BT_OK;
}

typedef struct one_rank {
    collective_rank rank;
    bt_status status;
    char message[256];
} one_rank;

static void *check(void *argument)
{
    one_rank *self = argument;
    self->status = bt_collective_check(&self->rank, 1);
    (void)strncpy(self->message, bt_error_message(), sizeof self->message - 1);
    if (self->status != BT_OK) {
        bt_group_abort(self->rank.meeting, "a wrong element");
    }
    return NULL;
}

static void run(const char *op, bool spoilt, one_rank *ranks)
{
    bt_group *groups[RANKS], *meetings[RANKS];
    pthread_t threads[RANKS];
    bt_group_backend backend;
    ASSERT_OK(bt_group_threads_create(RANKS, 5000000000, groups));
    ASSERT_OK(bt_group_threads_create(RANKS, 5000000000, meetings));
    real = groups[0]->backend;
    backend = *real;
    backend.all_reduce = spoilt_all_reduce;
    for (int i = 0; i < RANKS; ++i) {
        groups[i]->backend = spoilt ? &backend : real;
        memset(&ranks[i], 0, sizeof ranks[i]);
        collective_rank *rank = &ranks[i].rank;
        rank->group = groups[i];
        rank->meeting = meetings[i];
        ASSERT_OK(bt_device_open("cpu", 0, &rank->device));
        rank->call = bt_collective_call(op);
        rank->dtype = BT_F32;
        rank->count = COUNT;
        rank->part = COUNT / RANKS;
        rank->in = calloc(COUNT, 4);
        rank->out = calloc(COUNT, 4);
        assert_int_equal(pthread_create(&threads[i], NULL, check, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; ++i) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < RANKS; ++i) {
        groups[i]->backend = real;
        bt_group_destroy(groups[i]);
        bt_group_destroy(meetings[i]);
        free(ranks[i].rank.in);
        free(ranks[i].rank.out);
        bt_device_close(&ranks[i].rank.device);
    }
}

static void a_wrong_element_is_found(void **state)
{
    (void)state;
    static const char *const ops[] = {"all_reduce", "reduce_scatter", "all_gather",
                                      "all_to_all", "broadcast",      "send_recv"};
    one_rank ranks[RANKS];
    for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i) {
        run(ops[i], false, ranks);
        for (int rank = 0; rank < RANKS; ++rank) {
            assert_int_equal(ranks[rank].status, BT_OK);
        }
    }
    run("all_reduce", true, ranks);
    assert_int_equal(ranks[1].status, BT_STATUS_INTERNAL);
    assert_non_null(strstr(ranks[1].message, "all_reduce: rank 1 has "));
    assert_non_null(strstr(ranks[1].message, "at element 617"));
    assert_true(ranks[0].status != BT_OK);
    assert_null(bt_collective_call("all_reduced"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(a_wrong_element_is_found),
    };
    return cmocka_run_group_tests_name("harness.collective", tests, NULL, NULL);
}
