// tests/dist/test_flight.c - what a rank did is read from outside, also when it is dead; the first
// rank that leaves the common order is named
#include "framework/dist/flight.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/dist/ranks.h"
#include "tests/support/test.h"

enum { SIZE = 3 };

static bt_flight flights[RANKS_MAX];

static void make_flights(int size)
{
    for (int rank = 0; rank < size; ++rank) {
        int fd = -1;
        ASSERT_OK(bt_flight_create(rank, size, 1, &fd, &flights[rank]));
        (void)close(fd);
    }
}

static void drop_flights(int size)
{
    for (int rank = 0; rank < size; ++rank) {
        bt_flight_detach(&flights[rank]);
    }
}

static void call(int rank, const char *op, int64_t size_bytes, const char *site)
{
    ASSERT_OK(bt_flight_enter(&flights[rank], 0, op, BT_F32, size_bytes, site));
    bt_flight_leave(&flights[rank], 0, true);
}

static void call_all(const char *op, int64_t size_bytes)
{
    for (int rank = 0; rank < SIZE; ++rank) {
        call(rank, op, size_bytes, "a.c:1");
    }
}

static int compare(bt_str *text)
{
    int rank = -1;
    bt_str_clear(text);
    bt_flight_compare(flights, SIZE, &rank, text);
    return rank;
}

static void the_first_rank_with_another_call_is_named(void **state)
{
    (void)state;
    bt_str text = {0};
    make_flights(SIZE);
    for (int i = 0; i < 100; ++i) {
        call_all("all_reduce", 64);
    }
    assert_int_equal(compare(&text), -1);
    assert_string_equal(bt_str_text(&text), "");
    call(0, "all_reduce", 128, "a.c:2");
    call(1, "all_gather", 128, "a.c:3");
    call(2, "all_reduce", 128, "a.c:2");
    call(0, "barrier", 0, "a.c:4"); // later differences are of no interest
    assert_int_equal(compare(&text), 1);
    assert_string_equal(bt_str_text(&text),
                        "rank 1 left the common order of collectives: it called all_gather of 128 "
                        "bytes f32, call 101, at a.c:3; rank 0 called all_reduce of 128 bytes f32, "
                        "call 101, at a.c:2");
    bt_str_release(&text);
    drop_flights(SIZE);
}

static void another_size_or_place_counts_but_not_of_sends(void **state)
{
    (void)state;
    bt_str text = {0};
    make_flights(SIZE);
    call(0, "send", 8, "a.c:1");
    call(1, "recv", 8, "a.c:2");
    call(2, "send_recv", 16, "a.c:3");
    assert_int_equal(compare(&text), -1);
    call(0, "all_reduce", 64, "a.c:1");
    call(1, "all_reduce", 64, "a.c:1");
    call(2, "all_reduce", 64, "a.c:9"); // two products of equal size, swapped
    assert_int_equal(compare(&text), 2);
    assert_non_null(strstr(bt_str_text(&text), "a.c:9"));
    call(0, "all_reduce", 32, "a.c:1"); // an error for certain, it goes first
    call(1, "all_reduce", 64, "a.c:1");
    call(2, "all_reduce", 64, "a.c:1");
    assert_int_equal(compare(&text), 0);
    assert_non_null(strstr(bt_str_text(&text), "32 bytes"));
    bt_str_release(&text);
    drop_flights(SIZE);
}

// Rank 0 receives from both others, as it does for a checkpoint: the calls that follow keep their
// numbers.
static void numbers_of_calls_do_not_depend_on_sends(void **state)
{
    (void)state;
    bt_str text = {0};
    make_flights(SIZE);
    call_all("all_reduce", 64);
    for (int rank = 1; rank < SIZE; ++rank) {
        call(0, "recv", 8, "a.c:2");
        call(rank, "send", 8, "a.c:3");
    }
    call_all("all_gather", 32);
    call_all("all_reduce", 64);
    if (compare(&text) != -1) {
        fail_msg("%s", bt_str_text(&text));
    }
    ASSERT_OK(bt_flight_enter(&flights[0], 0, "barrier", -1, 0, "a.c:7"));
    ASSERT_OK(bt_flight_enter(&flights[1], 0, "barrier", -1, 0, "a.c:7"));
    if (compare(&text) != 2 ||
        !strstr(bt_str_text(&text), "rank 2 did not enter barrier of 0 bytes, call 4, at a.c:7")) {
        fail_msg("%s", bt_str_text(&text));
    }
    ASSERT_OK(bt_flight_enter(&flights[2], 0, "barrier", -1, 0, "a.c:7"));
    for (int rank = 0; rank < SIZE; ++rank) {
        bt_flight_leave(&flights[rank], 0, true);
    }
    ASSERT_OK(bt_flight_enter(&flights[2], 0, "barrier", -1, 0, "a.c:8"));
    ASSERT_OK(bt_flight_enter(&flights[0], 0, "recv", -1, 8, "a.c:9")); // it waits for rank 1
    assert_int_equal(compare(&text), 1);
    bt_str_release(&text);
    drop_flights(SIZE);
}

static void the_rank_that_is_waited_for_is_named(void **state)
{
    (void)state;
    bt_str text = {0};
    make_flights(SIZE);
    call_all("all_reduce", 64);
    bt_flight_beat(&flights[1], 1, "step/forward/block");
    ASSERT_OK(bt_flight_enter(&flights[0], 0, "barrier", -1, 0, "a.c:7"));
    ASSERT_OK(bt_flight_enter(&flights[2], 0, "barrier", -1, 0, "a.c:7"));
    assert_int_equal(compare(&text), 1);
    assert_non_null(strstr(bt_str_text(&text), "rank 1 did not enter barrier of 0 bytes, call 2, "
                                               "at a.c:7, in which rank"));
    assert_non_null(strstr(bt_str_text(&text), "it is in step/forward/block"));
    const uint64_t beats = atomic_load(&flights[1].board->beats);
    bt_flight_beat(&flights[1], 1, NULL); // of another thread: the path stays
    assert_int_equal(atomic_load(&flights[1].board->beats), beats + 1);
    assert_int_equal(compare(&text), 1);
    assert_non_null(strstr(bt_str_text(&text), "it is in step/forward/block"));
    bt_flight_leave(&flights[0], 0, true); // no rank waits: it is only slower
    bt_flight_leave(&flights[2], 0, true);
    assert_int_equal(compare(&text), -1);
    bt_str_release(&text);
    drop_flights(SIZE);
}

// Four ranks, two parts {0, 1} and {2, 3}. Rank 1 does not enter its part's third call, where rank
// 0 waits; rank 3 waits for both in the whole, rank 2 for rank 3 in their part.
static void the_rank_behind_all_is_found_over_parts(void **state)
{
    (void)state;
    bt_str text = {0};
    int parts[4], rank = -1;
    make_flights(4);
    for (int i = 0; i < 4; ++i) {
        parts[i] = bt_flight_open_part(&flights[i], i < 2 ? 7 : 8);
        assert_true(parts[i] > 0);
        for (int n = 0; n < 2; ++n) {
            ASSERT_OK(bt_flight_enter(&flights[i], parts[i], "all_gather", -1, 16, "m.c:1"));
            bt_flight_leave(&flights[i], parts[i], true);
        }
    }
    bt_flight_compare(flights, 4, &rank, &text);
    assert_int_equal(rank, -1); // no rank waits
    ASSERT_OK(bt_flight_enter(&flights[0], parts[0], "all_reduce", BT_F32, 64, "m.c:2"));
    bt_flight_compare(flights, 4, &rank, &text);
    assert_int_equal(rank, 1);
    ASSERT_OK(bt_flight_enter(&flights[3], 0, "barrier", -1, 0, "m.c:3"));
    ASSERT_OK(bt_flight_enter(&flights[2], parts[2], "all_reduce", BT_F32, 64, "m.c:2"));
    bt_str_clear(&text);
    bt_flight_compare(flights, 4, &rank, &text);
    if (rank != 1 || !strstr(bt_str_text(&text), "rank 1 did not enter all_reduce of 64 bytes f32, "
                                                 "call 3, at m.c:2 of a part, in which rank 0")) {
        fail_msg("%s", bt_str_text(&text));
    }
    bt_flight_fence(&flights[0]);
    bt_flight_leave(&flights[0], parts[0], true);
    assert_int_equal(bt_flight_enter(&flights[0], parts[0], "barrier", -1, 0, "m.c:4"),
                     BT_STATUS_INTERRUPTED);
    for (int i = 1; i < BT_FLIGHT_PARTS; ++i) {
        assert_true(bt_flight_open_part(&flights[0], 100) > 0);
    }
    assert_int_equal(bt_flight_open_part(&flights[0], 100), 0);
    bt_flight_close_part(&flights[0], parts[0]);
    assert_int_equal(bt_flight_open_part(&flights[0], 100), parts[0]);
    bt_str_release(&text);
    drop_flights(4);
}

static void it_is_read_behind_a_sigkill(void **state)
{
    (void)state;
    int fd = -1, status = 0;
    bt_flight outside;
    bt_flight_call last;
    ASSERT_OK(bt_flight_create(1, 2, 7, &fd, &outside));
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        bt_flight own;
        bool made = bt_flight_attach(fd, &own) == BT_OK;
        bt_flight_joined(&own);
        made = made && bt_flight_enter(&own, 0, "all_reduce", BT_BF16, 512, "b.c:5") == BT_OK;
        bt_flight_leave(&own, 0, false);
        bt_flight_step(&own, 4);
        made = made && bt_flight_enter(&own, 0, "broadcast", -1, 24, "b.c:6") == BT_OK;
        (void)(made && raise(SIGKILL));
        _exit(1);
    }
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFSIGNALED(status));
    const bt_flight_board *board = outside.board;
    assert_int_equal(board->generation, 7);
    assert_int_equal(atomic_load(&board->joined), 1);
    assert_int_equal(atomic_load(&board->steps), 4);
    assert_int_equal(atomic_load(&board->device_beats), 1);
    assert_int_equal(atomic_load(&board->beats), 4); // two calls, a return, a step
    assert_true(bt_flight_read(&outside, 1, &last));
    assert_int_equal(atomic_load(&last.state), BT_FLIGHT_DONE); // the device was waited for
    assert_true(bt_flight_read(&outside, 2, &last));
    assert_int_equal(atomic_load(&last.state), BT_FLIGHT_ENTERED);
    assert_string_equal(last.op, "broadcast");
    assert_string_equal(last.site, "b.c:6");
    assert_false(bt_flight_read(&outside, 3, &last));
    bt_flight_detach(&outside);
    (void)close(fd);
}

static bt_status reduce_recorded(bt_group *group, void *argument, rank_result *result)
{
    float x[4] = {1, 2, 3, 4};
    (void)argument;
    (void)result;
    group->flight = &flights[group->rank];
    BT_TRY(bt_all_reduce(group, x, 4, BT_F32, BT_REDUCE_SUM, NULL));
    if (group->rank == 1) {
        bt_flight_fence(&flights[1]);
    }
    return bt_barrier(group, NULL);
}

// Memory that was mapped before the fork: the processes of ranks.h share it.
static void calls_of_a_group_are_recorded_and_a_fence_stops_them(void **state)
{
    (void)state;
    rank_result results[2];
    for (int kind = 0; kind < 2; ++kind) {
        bt_flight_call seen;
        make_flights(2);
        run_ranks(kind ? RANKS_MEMORY : RANKS_THREADS, 2, 2000000000, reduce_recorded, NULL,
                  results);
        for (int rank = 0; rank < 2; ++rank) {
            assert_true(bt_flight_read(&flights[rank], 1, &seen));
            assert_string_equal(seen.op, "all_reduce");
            assert_int_equal(seen.size_bytes, 16);
            assert_int_equal(seen.dtype, BT_F32);
            assert_memory_equal(seen.site, "test_flight.c:", 14);
            assert_int_equal(atomic_load(&seen.state), BT_FLIGHT_DONE);
        }
        assert_int_equal(results[1].status, BT_STATUS_INTERRUPTED);
        assert_string_equal(results[1].message,
                            "rank 1 of generation 1 was replaced and may not call barrier");
        assert_int_not_equal(results[0].status, BT_OK); // its peer left
        drop_flights(2);
    }
}

// Rank 0 is late in both calls. No other rank can be early for what it reports.
static bt_status come_late(bt_group *group, void *argument, rank_result *result)
{
    const struct timespec late = {.tv_nsec = 200000000};
    float x[4] = {1, 2, 3, 4};
    char word[8] = "";
    (void)result;
    group->flight = &flights[group->rank];
    if (group->rank == 0) {
        (void)nanosleep(&late, NULL);
    }
    return *(const bool *)argument ? bt_group_tell(group, word, sizeof word, 0)
                                   : bt_all_reduce(group, x, 4, BT_F32, BT_REDUCE_SUM, NULL);
}

static void only_who_waits_for_all_has_waited(void **state)
{
    (void)state;
    rank_result results[2];
    for (int tells = 0; tells < 2; ++tells) {
        bool argument = tells;
        make_flights(2);
        run_ranks(RANKS_THREADS, 2, 20000000000, come_late, &argument, results);
        ASSERT_OK(results[0].status);
        ASSERT_OK(results[1].status);
        const uint64_t waited_ns = atomic_load(&flights[1].board->waited_ns);
        assert_true(tells ? waited_ns == 0 : waited_ns > 100000000);
        drop_flights(2);
    }
}

// A holder that dies leaves an orphan; one that releases it, or a recorder without a holder, does
// not.
static void a_dead_holder_is_seen(void **state)
{
    (void)state;
    for (int dies = 0; dies < 2; ++dies) {
        int fd = -1, status = 0, held[2], end[2];
        char byte = 0;
        bt_flight outside;
        ASSERT_OK(bt_flight_create(0, 1, 1, &fd, &outside));
        assert_false(bt_flight_is_orphan(&outside));
        assert_int_equal(pipe(held), 0);
        assert_int_equal(pipe(end), 0);
        const pid_t process = fork();
        assert_true(process >= 0);
        if (process == 0) {
            bt_flight own;
            bool fine = bt_flight_attach(fd, &own) == BT_OK;
            bt_flight_hold(&own);
            fine = fine && write(held[1], "h", 1) == 1 && read(end[0], &byte, 1) == 1;
            (void)(dies && raise(SIGKILL));
            bt_flight_detach(&own);
            _exit(fine ? 0 : 1);
        }
        assert_int_equal(read(held[0], &byte, 1), 1);
        assert_false(bt_flight_is_orphan(&outside));
        assert_int_equal(write(end[1], "e", 1), 1);
        assert_int_equal(waitpid(process, &status, 0), process);
        assert_int_equal(dies ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0,
                         1);
        assert_int_equal(bt_flight_is_orphan(&outside), dies);
        assert_int_equal(bt_flight_is_orphan(&outside), dies); // it stays one
        bt_flight_detach(&outside);
        const int ends[] = {fd, held[0], held[1], end[0], end[1]};
        for (int i = 0; i < 5; ++i) {
            (void)close(ends[i]);
        }
    }
}

static void something_else_is_refused(void **state)
{
    (void)state;
    bt_flight flight;
    assert_int_equal(bt_flight_attach(STDERR_FILENO, &flight), BT_STATUS_INVALID_ARGUMENT);
    assert_null(flight.board);
    ASSERT_OK(bt_flight_enter(&flight, 0, "barrier", -1, 0, NULL)); // no recorder: nothing happens
    bt_flight_leave(&flight, 0, true);
    bt_flight_step(NULL, 1);
    bt_flight_beat(NULL, 1, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_rank_with_another_call_is_named),
        cmocka_unit_test(another_size_or_place_counts_but_not_of_sends),
        cmocka_unit_test(numbers_of_calls_do_not_depend_on_sends),
        cmocka_unit_test(the_rank_that_is_waited_for_is_named),
        cmocka_unit_test(the_rank_behind_all_is_found_over_parts),
        cmocka_unit_test(it_is_read_behind_a_sigkill),
        cmocka_unit_test(calls_of_a_group_are_recorded_and_a_fence_stops_them),
        cmocka_unit_test(only_who_waits_for_all_has_waited),
        cmocka_unit_test(a_dead_holder_is_seen),
        cmocka_unit_test(something_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
