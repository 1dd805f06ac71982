// Failures between ranks: ranks that end, diverge, abort, stay silent or never arrive.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "framework/dist/host.h"
#include "framework/dist/threads.h"
#include "tests/dist/ranks.h"
#include "tests/support/test.h"

static const int64_t second_ns = 1000000000;

static void expect_failure(ranks_kind kind, const rank_result *result, bt_status status,
                           const char *words, int64_t within_ns)
{
    if (result->ended || result->status != status || strstr(result->message, words) == NULL) {
        fail_msg("%s: expected '%s' with '%s', got '%s' with '%s'", ranks_kind_name(kind),
                 bt_status_text(status), words, bt_status_text(result->status), result->message);
    }
    if (result->time_ns > within_ns) {
        fail_msg("%s: '%s' took %.3f s", ranks_kind_name(kind), result->message,
                 (double)result->time_ns / 1e9);
    }
}

static bt_status dies_in_the_second_sum(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    float data[1000] = {0};
    BT_TRY(bt_all_reduce(group, data, 1000, BT_F32, BT_REDUCE_SUM, NULL));
    if (group->rank == 1) {
        (void)raise(SIGKILL);
    }
    return bt_all_reduce(group, data, 1000, BT_F32, BT_REDUCE_SUM, NULL);
}

static void a_killed_rank_is_named_at_once(void **state)
{
    (void)state;
    for (int kind = RANKS_MEMORY; kind < RANKS_KIND_COUNT; ++kind) {
        rank_result results[RANKS_MAX];
        bool named = false;
        run_ranks((ranks_kind)kind, 3, 60 * second_ns, dies_in_the_second_sum, NULL, results);
        assert_true(results[1].ended);
        for (int rank = 0; rank < 3;
             rank += 2) { // one detects it, the other may get the message from that one
            const rank_result *result = &results[rank];
            assert_false(result->ended);
            assert_true(result->status != BT_OK);
            assert_true(result->time_ns < second_ns);
            named = named || (result->status == BT_STATUS_UNAVAILABLE &&
                              strstr(result->message, "rank 1 ") != NULL &&
                              strstr(result->message, "all_reduce of 1000 f32") != NULL);
        }
        assert_true(named);
    }
}

static bt_status diverges(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    double data[64] = {0};
    BT_TRY(bt_barrier(group, NULL));
    return group->rank == 2 ? bt_broadcast(group, data, 64, 0, NULL)
                            : bt_all_reduce(group, data, 64, BT_F32, BT_REDUCE_SUM, NULL);
}

static bt_status gives_another_size(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    double data[64] = {0};
    return bt_all_reduce(group, data, group->rank == 1 ? 63 : 64, BT_F32, BT_REDUCE_SUM, NULL);
}

static void different_calls_are_named(void **state)
{
    (void)state;
    for (int kind = 0; kind < RANKS_KIND_COUNT; ++kind) {
        rank_result results[RANKS_MAX];
        bool named = false;
        run_ranks((ranks_kind)kind, 3, 60 * second_ns, diverges, NULL, results);
        for (int rank = 0; rank < 3; ++rank) {
            assert_true(results[rank].status != BT_OK);
            assert_true(results[rank].time_ns < second_ns);
            named = named || (strstr(results[rank].message, "ranks diverge") != NULL &&
                              strstr(results[rank].message, "all_reduce of 64 f32") != NULL &&
                              strstr(results[rank].message, "broadcast of 64 bytes from rank 0"));
        }
        assert_true(named);
        run_ranks((ranks_kind)kind, 2, 60 * second_ns, gives_another_size, NULL, results);
        named = false;
        for (int rank = 0; rank < 2; ++rank) {
            assert_true(results[rank].status != BT_OK);
            named = named || strstr(results[rank].message, "all_reduce of 63 f32") != NULL;
        }
        assert_true(named);
    }
}

static bt_status aborts(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    if (group->rank == 0) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        bt_group_abort(group, "the loss is NaN");
    }
    bt_status status = bt_barrier(group, NULL);
    bt_status again = bt_barrier(group, NULL);
    return again == status ? status : bt_error(BT_STATUS_INTERNAL, "the group works again");
}

static void an_abort_reaches_waiting_ranks(void **state)
{
    (void)state;
    for (int kind = 0; kind < RANKS_KIND_COUNT; ++kind) {
        rank_result results[RANKS_MAX];
        run_ranks((ranks_kind)kind, 3, 60 * second_ns, aborts, NULL, results);
        for (int rank = 0; rank < 3; ++rank) {
            // Over TCP a closed connection is all that other hosts see.
            bool told = rank == 0 || kind < RANKS_TCP || (kind == RANKS_MIXED && rank == 2);
            expect_failure((ranks_kind)kind, &results[rank],
                           told ? BT_STATUS_INTERRUPTED : BT_STATUS_UNAVAILABLE,
                           told ? "the loss is NaN" : "closed its connection", second_ns);
        }
    }
}

static bt_status is_silent(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    if (group->rank == 1) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 600000000}, NULL);
        return BT_OK;
    }
    return bt_barrier(group, NULL);
}

static void a_silent_rank_is_a_timeout(void **state)
{
    (void)state;
    for (int kind = 0; kind < RANKS_KIND_COUNT; ++kind) {
        rank_result results[RANKS_MAX];
        run_ranks((ranks_kind)kind, 2, 200000000, is_silent, NULL, results);
        expect_failure((ranks_kind)kind, &results[0], BT_STATUS_UNAVAILABLE,
                       "rank 0 waited 0.2 s in barrier of 0 bytes for rank 1", second_ns / 2);
    }
}

// A group is asked, without a collective, whether it still works.
static bt_status checks(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    BT_TRY(bt_barrier(group, NULL));
    BT_TRY(bt_group_check(group));
    BT_TRY(bt_barrier(group, NULL));
    if (group->rank == 1) {
        (void)raise(SIGKILL);
    }
    int64_t deadline_ns = bt_clock_ns() + second_ns;
    bt_status status = BT_OK;
    while (status == BT_OK && bt_clock_ns() < deadline_ns) {
        status = bt_group_check(group);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return status;
}

static void a_check_finds_a_killed_rank(void **state)
{
    (void)state;
    for (int kind = RANKS_MEMORY; kind < RANKS_KIND_COUNT; ++kind) {
        rank_result results[RANKS_MAX];
        bool named = false;
        run_ranks((ranks_kind)kind, 4, 60 * second_ns, checks, NULL, results);
        for (int rank = 0; rank < 4; ++rank) {
            assert_true(rank == 1 || results[rank].status != BT_OK);
            named = named || strstr(results[rank].message, "rank 1 ") != NULL;
        }
        assert_true(named);
    }
}

static bt_status leaves_early(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    unsigned char data[100000] = {0};
    // its sent data still arrive
    bt_status status = bt_broadcast(group, data, sizeof data, 1, NULL);
    if (status == BT_OK && group->rank == 0) {
        status = bt_barrier(group, NULL);
    }
    return status;
}

static void a_rank_that_left_is_named(void **state)
{
    (void)state;
    for (int kind = RANKS_MEMORY; kind < RANKS_KIND_COUNT; ++kind) {
        rank_result results[RANKS_MAX];
        run_ranks((ranks_kind)kind, 2, 60 * second_ns, leaves_early, NULL, results);
        assert_int_equal(results[1].status, BT_OK);
        expect_failure((ranks_kind)kind, &results[0], BT_STATUS_UNAVAILABLE, "rank 1 ", second_ns);
    }
}

// ---- meeting over TCP --------------------------------------------------------------------------

static bt_status meet(int rank, int size, int port, uint64_t job, int64_t timeout_ns)
{
    bt_rendezvous who = {.rank = rank,
                         .size = size,
                         .host = "127.0.0.1",
                         .port = port,
                         .job = job,
                         .timeout_ns = timeout_ns};
    bt_group *group;
    BT_TRY(bt_group_host_connect(&who, second_ns, &group));
    bt_group_destroy(group);
    return BT_OK;
}

typedef struct meeting_rank {
    int rank, size, port;
    uint64_t job;
    bt_status status;
    char message[512];
} meeting_rank;

static void *meet_main(void *argument)
{
    meeting_rank *self = argument;
    self->status = meet(self->rank, self->size, self->port, self->job, 3 * second_ns);
    (void)snprintf(self->message, sizeof self->message, "%s", bt_error_message());
    return NULL;
}

// Rank 0 of `size` connects to one other; both messages must contain the words.
static void expect_refusal(int size, meeting_rank other, const char *words)
{
    pthread_t threads[2];
    meeting_rank ranks[2] = {{.rank = 0, .size = size, .port = free_port(), .job = 1}, other};
    ranks[1].port = ranks[0].port;
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(pthread_create(&threads[i], NULL, meet_main, &ranks[i]), 0);
    }
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        if (ranks[i].status != BT_STATUS_INVALID_ARGUMENT ||
            strstr(ranks[i].message, words) == NULL) {
            fail_msg("rank %d: expected '%s', got '%s'", i, words, ranks[i].message);
        }
    }
}

static void wrong_ranks_are_refused(void **state)
{
    (void)state;
    expect_refusal(2, (meeting_rank){.rank = 1, .size = 3, .job = 1},
                   "rank 1 was started for 3 ranks, rank 0 for 2");
    expect_refusal(2, (meeting_rank){.rank = 1, .size = 2, .job = 2}, "another job");
}

static void two_processes_of_one_rank_are_refused(void **state)
{
    (void)state;
    pthread_t threads[3];
    meeting_rank ranks[3];
    int port = free_port();
    int refused = 0;
    for (int i = 0; i < 3; ++i) {
        ranks[i] = (meeting_rank){.rank = i > 0, .size = 3, .port = port, .job = 1};
        assert_int_equal(pthread_create(&threads[i], NULL, meet_main, &ranks[i]), 0);
    }
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        refused += strstr(ranks[i].message, "two processes were started as rank 1") != NULL;
    }
    assert_int_equal(refused, 3);
    int fd;
    bt_group *first;
    bt_group *second;
    ASSERT_OK(bt_group_host_memory(2, &fd));
    ASSERT_OK(bt_group_host_join(fd, 1, 2, second_ns, &first));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "two ranks have joined as rank 1",
                 bt_group_host_join(fd, 1, 2, second_ns, &second));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "is not the shared memory of a group of 3 ranks",
                 bt_group_host_join(fd, 0, 3, second_ns, &second));
    bt_group_destroy(first);
    (void)close(fd);
}

// A process that takes a rank which is taken, and ends: the others still watch the first one.
static void a_second_process_of_a_rank_does_no_harm(void **state)
{
    (void)state;
    int fd, status = 0;
    bt_group *groups[2], *none = NULL;
    ASSERT_OK(bt_group_host_memory(2, &fd));
    for (int rank = 0; rank < 2; ++rank) {
        ASSERT_OK(bt_group_host_join(fd, rank, 2, second_ns, &groups[rank]));
    }
    const pid_t second = fork();
    assert_true(second >= 0);
    if (second == 0) {
        _exit(bt_group_host_join(fd, 1, 2, second_ns, &none) == BT_STATUS_INVALID_ARGUMENT ? 0 : 1);
    }
    assert_int_equal(waitpid(second, &status, 0), second);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ASSERT_OK(bt_group_check(groups[0]));
    for (int rank = 0; rank < 2; ++rank) {
        bt_group_destroy(groups[rank]);
    }
    (void)close(fd);
}

// Where no process listens, a socket may connect to itself.
static void a_connection_to_itself_is_none(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)free_port()),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int own = socket(AF_INET, SOCK_STREAM, 0), pair[2];
    assert_int_equal(bind(own, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(connect(own, (struct sockaddr *)&at, sizeof at), 0);
    assert_true(bt_rendezvous_is_self(own));
    (void)close(own);
    at.sin_port = htons((uint16_t)free_port());
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    pair[1] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(pair[0], (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(pair[0], 1), 0);
    assert_int_equal(connect(pair[1], (struct sockaddr *)&at, sizeof at), 0);
    assert_false(bt_rendezvous_is_self(pair[1]));
    (void)close(pair[0]);
    (void)close(pair[1]);
}

static void a_missing_rank_is_named(void **state)
{
    (void)state;
    int port = free_port();
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "rank 1, 2 did not connect to rank 0 within 0 s",
                 meet(0, 3, port, 1, second_ns / 10));
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "rank 1 cannot reach rank 0 at 127.0.0.1 port",
                 meet(1, 2, port, 1, second_ns / 10));
}

static void a_port_in_use_is_named(void **state)
{
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof at;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, bytes), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "rank 0 cannot listen at 127.0.0.1 port",
                 meet(0, 2, ntohs(at.sin_port), 1, second_ns));
    (void)close(fd);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "port from 1 to 65535, got 0",
                 meet(0, 2, 0, 1, second_ns));
}

// A foreign process that connects and sends nothing, or nonsense, does not delay the ranks for
// long.
static void strangers_are_dropped(void **state)
{
    (void)state;
    int port = free_port();
    pthread_t threads[2];
    meeting_rank ranks[2] = {{.rank = 0, .size = 2, .port = port, .job = 1},
                             {.rank = 1, .size = 2, .port = port, .job = 1}};
    assert_int_equal(pthread_create(&threads[0], NULL, meet_main, &ranks[0]), 0);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int stranger = -1;
    for (int attempt = 0; attempt < 200 && stranger < 0; ++attempt) {
        stranger = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(stranger, (struct sockaddr *)&at, sizeof at) != 0) {
            (void)close(stranger);
            stranger = -1;
            (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        }
    }
    assert_true(stranger >= 0);
    assert_int_equal(send(stranger, "GET / HTTP/1.1\r\nHost: a.b.c.d\r\n\r\n", 34, 0), 34);
    assert_int_equal(pthread_create(&threads[1], NULL, meet_main, &ranks[1]), 0);
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        if (ranks[i].status != BT_OK) {
            fail_msg("rank %d: %s", i, ranks[i].message);
        }
    }
    (void)close(stranger);
}

static void every_failed_allocation_is_clean(void **state)
{
    (void)state;
    int64_t live = bt_mem_live_count();
    for (int64_t n = 1;; ++n) {
        bt_group *groups[3];
        bt_mem_fail_at(n);
        bt_status status = bt_group_threads_create(3, second_ns, groups);
        bt_mem_fail_at(0);
        if (status == BT_OK) {
            for (int rank = 0; rank < 3; ++rank) {
                bt_group_destroy(groups[rank]);
            }
            assert_true(n > 5);
            break;
        }
        assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), live);
    }
    assert_int_equal(bt_mem_live_count(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_is_named_at_once),
        cmocka_unit_test(different_calls_are_named),
        cmocka_unit_test(an_abort_reaches_waiting_ranks),
        cmocka_unit_test(a_silent_rank_is_a_timeout),
        cmocka_unit_test(a_check_finds_a_killed_rank),
        cmocka_unit_test(a_rank_that_left_is_named),
        cmocka_unit_test(wrong_ranks_are_refused),
        cmocka_unit_test(two_processes_of_one_rank_are_refused),
        cmocka_unit_test(a_second_process_of_a_rank_does_no_harm),
        cmocka_unit_test(a_connection_to_itself_is_none),
        cmocka_unit_test(a_missing_rank_is_named),
        cmocka_unit_test(a_port_in_use_is_named),
        cmocka_unit_test(strangers_are_dropped),
        cmocka_unit_test(every_failed_allocation_is_clean),
    };
    return cmocka_run_group_tests_name("dist.group_faults", tests, NULL, NULL);
}
