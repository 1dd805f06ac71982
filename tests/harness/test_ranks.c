// tests/harness/test_ranks.c - what ranks compare when they meet
#include "harness/run/ranks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/harness/need_nvml.h"
#include "tests/support/test.h"

enum { RANKS = 2 };

typedef struct one_rank {
    int rank, port;
    char message[512]; // of its failure
} one_rank;

static int free_port(void)
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

static void *join(void *argument)
{
    one_rank *self = argument;
    char text[512];
    bt_ranks *ranks = NULL;
    (void)snprintf(text, sizeof text,
                   "{\"device\": \"cuda\", \"case\": {\"name\": \"a\", \"kind\": \"train\", "
                   "\"train\": {}}, \"ranks\": {\"rank\": %d, \"size\": %d, \"slot\": %d, "
                   "\"host\": \"127.0.0.1\", \"port\": %d, \"job\": \"7\", \"timeout_s\": 20}}",
                   self->rank, RANKS, self->rank, self->port);
    cJSON *task = cJSON_Parse(text);
    if (bt_ranks_join(task, NULL, &ranks) != BT_OK) {
        (void)snprintf(self->message, sizeof self->message, "%s", bt_error_message());
    }
    bt_ranks_leave(ranks);
    cJSON_Delete(task);
    return NULL;
}

// Two ranks connect, each with the GPU that `visible` shows in its slot. There are no such GPUs:
// both fail, and each reports why.
static void meet(const char *visible, one_rank ranks[RANKS])
{
    pthread_t threads[RANKS];
    const int port = free_port();
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", visible, 1), 0);
    assert_int_equal(setenv("NCCL_NVLS_ENABLE", "0", 1), 0);
    for (int rank = 0; rank < RANKS; ++rank) {
        ranks[rank] = (one_rank){.rank = rank, .port = port};
        assert_int_equal(pthread_create(&threads[rank], NULL, join, &ranks[rank]), 0);
    }
    for (int rank = 0; rank < RANKS; ++rank) {
        assert_int_equal(pthread_join(threads[rank], NULL), 0);
        assert_true(*ranks[rank].message);
    }
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
}

// The driver's device 0 is a First, its device 1 a Second.
static void models_are_those_that_cuda_shows(void **state)
{
    (void)state;
    one_rank ranks[RANKS];
    if (need_fake_nvml()) {
        return;
    }
    meet("1,GPU-2222", ranks);
    for (int rank = 0; rank < RANKS; ++rank) {
        if (strstr(ranks[rank].message, "GPU model")) {
            fail_msg("rank %d: %s", rank, ranks[rank].message);
        }
    }
    meet("1,0", ranks);
    for (int rank = 0; rank < RANKS; ++rank) {
        const char *message = ranks[rank].message;
        if (!strstr(message, "ranks differ in their GPU model: rank 1 on ") ||
            !strstr(message, " has First, rank 0 on ") || !strstr(message, " has Second")) {
            fail_msg("rank %d: %s", rank, message);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(models_are_those_that_cuda_shows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
