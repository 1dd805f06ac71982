#include "tests/dist/ranks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/dist/host.h"
#include "framework/dist/threads.h"
#include "tests/support/test.h"

typedef struct rank_start {
    ranks_kind kind;
    int rank, size;
    int64_t timeout_ns;
    rank_body body;
    void *argument;
    bt_group *group; // threads
    int fd, port;    // processes
    rank_result *result;
} rank_start;

const char *ranks_kind_name(ranks_kind kind)
{
    static const char *const names[RANKS_KIND_COUNT] = {"threads", "memory", "tcp", "mixed"};
    return names[kind];
}

static void run_body(const rank_start *start)
{
    rank_result *result = start->result;
    int64_t begin_ns = bt_clock_ns();
    result->status = start->body(start->group, start->argument, result);
    result->time_ns = bt_clock_ns() - begin_ns;
    (void)snprintf(result->message, sizeof result->message, "%s",
                   result->status != BT_OK ? bt_error_message() : "");
    result->ended = false;
}

static void *thread_main(void *start)
{
    run_body(start);
    return NULL;
}

static void process_main(rank_start *start)
{
    bool tcp = start->kind == RANKS_TCP;
    bt_rendezvous who = {.rank = start->rank,
                         .size = start->size,
                         .host = "127.0.0.1",
                         .port = start->port,
                         .job = 42,
                         .machine = 1 + (uint64_t)(tcp ? start->rank : start->rank % 2),
                         .timeout_ns = 20000000000};
    bt_status status = start->kind == RANKS_MEMORY
                           ? bt_group_host_join(start->fd, start->rank, start->size,
                                                start->timeout_ns, &start->group)
                           : bt_group_host_connect(&who, start->timeout_ns, &start->group);
    if (status != BT_OK) {
        (void)fprintf(stderr, "rank %d: %s\n", start->rank, bt_error_message());
        _exit(3);
    }
    run_body(start);
    if (!start->result->took_group) {
        bt_group_destroy(start->group);
    }
    _exit(0);
}

static void run_threads(rank_start *starts, int size)
{
    pthread_t threads[RANKS_MAX];
    bt_group *groups[RANKS_MAX];
    ASSERT_OK(bt_group_threads_create(size, starts[0].timeout_ns, groups));
    for (int rank = 0; rank < size; ++rank) {
        starts[rank].group = groups[rank];
        assert_int_equal(pthread_create(&threads[rank], NULL, thread_main, &starts[rank]), 0);
    }
    for (int rank = 0; rank < size; ++rank) {
        assert_int_equal(pthread_join(threads[rank], NULL), 0);
    }
    for (int rank = 0; rank < size; ++rank) {
        bt_group_destroy(groups[rank]);
    }
}

static void run_processes(rank_start *starts, int size)
{
    pid_t pids[RANKS_MAX];
    int fd = -1;
    int port = free_port();
    if (starts[0].kind == RANKS_MEMORY) {
        ASSERT_OK(bt_group_host_memory(size, &fd));
    }
    for (int rank = 0; rank < size; ++rank) {
        starts[rank].fd = fd;
        starts[rank].port = port;
        pids[rank] = fork();
        assert_true(pids[rank] >= 0);
        if (pids[rank] == 0) {
            process_main(&starts[rank]);
        }
    }
    for (int rank = 0; rank < size; ++rank) {
        int status;
        assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
        bool joined = !WIFEXITED(status) || WEXITSTATUS(status) == 0;
        assert_true(joined);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

void run_ranks(ranks_kind kind, int size, int64_t timeout_ns, rank_body body, void *argument,
               rank_result *results)
{
    size_t bytes = (size_t)size * sizeof *results;
    rank_result *shared =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    rank_start starts[RANKS_MAX];
    for (int rank = 0; rank < size; ++rank) {
        shared[rank].ended = true;
        starts[rank] = (rank_start){.kind = kind,
                                    .rank = rank,
                                    .size = size,
                                    .timeout_ns = timeout_ns,
                                    .body = body,
                                    .argument = argument,
                                    .result = &shared[rank]};
    }
    if (kind == RANKS_THREADS) {
        run_threads(starts, size);
    } else {
        run_processes(starts, size);
    }
    memcpy(results, shared, bytes);
    (void)munmap(shared, bytes);
}

bool in_sweep(int ranks, int combination)
{
    return !TEST_SANITIZED || ranks == 2 || (ranks <= 4 && combination % 5 == 0);
}

int free_port(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof at;
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, bytes), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    (void)close(fd);
    return ntohs(at.sin_port);
}
