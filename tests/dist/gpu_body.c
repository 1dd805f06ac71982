#include "tests/dist/gpu_body.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/dist/nccl.h"
#include "framework/dist/p2p.h"
#include "kernels/collectives.h"
#include "tests/support/test.h"

static int devices; // 0: not counted; inherited by forked ranks

int gpu_devices(void) { return devices; }

// Asked in a child process: ranks are forked, and CUDA does not survive a fork.
static int count_devices(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        int count = 0;
        _exit(bt_device_count("cuda", &count) == BT_OK ? count : 0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : 0;
}

bool gpu_prepare(int argc, char **argv)
{
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    (void)setenv("NCCL_NVLS_ENABLE", "0", 1);
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    devices = count_devices();
    return devices > 0;
}

int gpu_ordinal(const char *device, int rank)
{
    return strcmp(device, "cpu") == 0 || devices == 1 ? 0 : rank;
}

static bt_status create(const gpu_case *what, bt_group *control, bt_device *device, bt_group **out)
{
    if (what->backend == GPU_P2P) {
        bt_p2p_options options = {.timeout_ns = what->timeout_ns,
                                  .staging_bytes = what->staging_bytes,
                                  .engines = what->engines};
        return bt_group_p2p_create(control, device, &options, out);
    }
    bt_nccl_options options = {.timeout_ns = what->timeout_ns,
                               .own_order = what->backend == GPU_NCCL};
    return bt_group_nccl_create(control, device, &options, out);
}

static bt_status run(const gpu_case *what, bt_group *group, bt_device *device, rank_result *result)
{
    void *memory = NULL;
    sweep how = {.device = device,
                 .shift = what->shift,
                 .in_memory = what->in_memory,
                 .any_order = what->backend == GPU_NCCL,
                 .data = what->data};
    BT_TRY(device->backend->stream_create(device, true, &how.stream));
    bt_status status = what->in_memory
                           ? bt_group_memory(group, SWEEP_MEMORY_BYTES, &memory)
                           : device->backend->memory_alloc(device, SWEEP_MEMORY_BYTES, &memory);
    how.memory = memory;
    status = status ? status : what->body(group, &how, result);
    if (!what->in_memory && memory != NULL) {
        (void)!device->backend->stream_synchronize(device, how.stream);
        device->backend->memory_free(device, memory);
    }
    device->backend->stream_destroy(device, how.stream);
    return status;
}

// *took: the group on GPUs was made, and has been destroyed with its control group.
static bt_status run_on(const gpu_case *what, bt_group *control, bt_device *device,
                        rank_result *result, bool *took)
{
    bt_group *group;
    BT_TRY(create(what, control, device, &group));
    *took = true;
    const bt_status status = run(what, group, device, result);
    bt_error_quiet_begin();
    bt_group_destroy(group);
    bt_error_quiet_end();
    return status;
}

static void close_device(bt_device *device)
{
    bt_error_quiet_begin();
    bt_device_close(device);
    bt_error_quiet_end();
}

bt_status gpu_body(bt_group *control, void *argument, rank_result *result)
{
    const gpu_case *what = argument;
    bt_device device;
    BT_TRY(bt_device_open(what->device, gpu_ordinal(what->device, control->rank), &device));
    const bt_status status = run_on(what, control, &device, result, &result->took_group);
    close_device(&device);
    return status;
}

// `digest`: on entry of the case before, on exit of this one.
static bt_status run_listed(const gpu_case *what, bt_group *control, bt_device *device,
                            rank_result *result, uint64_t *digest)
{
    bt_group *part = NULL;
    bool took = false;
    BT_TRY(bt_group_split(control, 0, control->rank, &part));
    result->digest = 0;
    const bt_status status = run_on(what, part, device, result, &took);
    if (!took) {
        bt_group_destroy(part);
    }
    BT_TRY(status);
    if (what->same && result->digest != *digest) {
        return bt_error(BT_STATUS_INTERNAL, "other bits than those of the case before");
    }
    *digest = result->digest;
    return BT_OK;
}

bt_status gpu_bodies(bt_group *control, void *argument, rank_result *result)
{
    const gpu_list *list = argument;
    const char *name = list->cases[0].device;
    bt_device device;
    bt_status status = BT_OK;
    uint64_t digest = 0;
    BT_TRY(bt_device_open(name, gpu_ordinal(name, control->rank), &device));
    for (int i = 0; i < list->count && status == BT_OK; ++i) {
        const gpu_case *what = &list->cases[i];
        (void)snprintf(result->message, sizeof result->message, "%s: ended", what->name);
        status = run_listed(what, control, &device, result, &digest);
        status = bt_error_context(status, "%s", what->name);
    }
    close_device(&device);
    return status;
}

// The work ends, then the group reports its status.
static bt_status outcome(bt_group *group, const sweep *how, bt_status given)
{
    bt_status status = how->device->backend->stream_synchronize(how->device, how->stream);
    for (int i = 0; i < 500 && given == BT_OK && status == BT_OK; ++i) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        status = bt_group_check(group);
    }
    return given != BT_OK ? given : status;
}

enum { COUNT = 1 << 20 }; // f32: no small sum

bt_status gpu_diverges(bt_group *group, void *argument, rank_result *result)
{
    (void)result;
    sweep *how = argument;
    bt_status given = bt_barrier(group, how->stream);
    given = given ? given
                  : bt_all_reduce(group, how->memory, group->rank == 1 ? COUNT - 1 : COUNT, BT_F32,
                                  BT_REDUCE_SUM, how->stream);
    return outcome(group, how, given);
}

bt_status gpu_is_silent(bt_group *group, void *argument, rank_result *result)
{
    (void)result;
    sweep *how = argument;
    bt_status given = bt_barrier(group, how->stream); // NCCL connects in its first call
    if (group->rank == 1) {
        (void)!how->device->backend->stream_synchronize(how->device, how->stream);
        (void)nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
        return given;
    }
    given = given ? given
                  : bt_all_reduce(group, how->memory, COUNT, BT_F32, BT_REDUCE_SUM, how->stream);
    return outcome(group, how, given);
}

bt_status gpu_is_killed(bt_group *group, void *argument, rank_result *result)
{
    (void)result;
    sweep *how = argument;
    bt_status given = bt_all_reduce(group, how->memory, COUNT, BT_F32, BT_REDUCE_SUM, how->stream);
    given = given ? given : how->device->backend->stream_synchronize(how->device, how->stream);
    if (group->rank == 1) {
        (void)raise(SIGKILL);
    }
    for (int call = 0; call < 6 && given == BT_OK; ++call) { // all of which wait for the dead rank
        given = bt_all_reduce(group, how->memory, COUNT, BT_F32, BT_REDUCE_SUM, how->stream);
    }
    return outcome(group, how, given);
}

bt_status gpu_aborts(bt_group *group, void *argument, rank_result *result)
{
    (void)result;
    sweep *how = argument;
    if (group->rank == 0) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        bt_group_abort(group, "the loss is NaN");
        return bt_barrier(group, how->stream);
    }
    return outcome(group, how, bt_barrier(group, how->stream));
}

bt_status gpu_aborts_a_queue(bt_group *group, void *argument, rank_result *result)
{
    (void)result;
    enum { CALLS = 600 }; // a wait reads the abort word every 2 ms: 1.2 s if each call did
    const int64_t limit_ns = 600000000;
    sweep *how = argument;
    bt_status given = bt_barrier(group, how->stream);
    if (group->rank == 1) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        bt_group_abort(group, "the loss is NaN");
        return outcome(group, how, given);
    }
    const int64_t begin_ns = bt_clock_ns();
    for (int call = 0; call < CALLS && given == BT_OK; ++call) {
        given = bt_all_reduce(group, how->memory, COUNT, BT_F32, BT_REDUCE_SUM, how->stream);
    }
    const bt_status ended = how->device->backend->stream_synchronize(how->device, how->stream);
    const int64_t took_ns = bt_clock_ns() - begin_ns;
    if (took_ns > limit_ns) {
        return bt_error(BT_STATUS_INTERNAL, "the queue took %.3f s to end", (double)took_ns / 1e9);
    }
    return outcome(group, how, given != BT_OK ? given : ended);
}

bt_status gpu_stress(bt_group *group, void *argument, rank_result *result)
{
    (void)result;
    enum { CALLS = 40, SUMMED = 1310984 };
    sweep *how = argument;
    const bt_backend *backend = how->device->backend;
    float *host = malloc(SUMMED * sizeof *host);
    unsigned state = (unsigned)group->rank + 1;
    bt_status status = BT_OK;
    for (int call = 0; call < CALLS && status == BT_OK; ++call) {
        for (int i = 0; i < SUMMED; ++i) {
            host[i] = (float)((i + call) % 1000 + group->rank);
        }
        status = backend->copy(how->device, how->memory, host, SUMMED * sizeof *host,
                               BT_COPY_HOST_TO_DEVICE, how->stream);
        state = state * 1664525 + 1013904223;
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)(state >> 8) % 300000}, NULL);
        status =
            status ? status
                   : bt_all_reduce(group, how->memory, SUMMED, BT_F32, BT_REDUCE_SUM, how->stream);
        status = status ? status
                        : backend->copy(how->device, host, how->memory, SUMMED * sizeof *host,
                                        BT_COPY_DEVICE_TO_HOST, how->stream);
        status = status ? status : backend->stream_synchronize(how->device, how->stream);
        int ranks = group->size;
        for (int i = 0; i < SUMMED && status == BT_OK; ++i) {
            int expected = (i + call) % 1000 * ranks + ranks * (ranks - 1) / 2;
            if (host[i] != (float)expected) {
                status = bt_error(BT_STATUS_INTERNAL, "call %d is wrong at %d", call, i);
            }
        }
    }
    free(host);
    return status;
}

// Two arrays, summed in turn: after r rounds each element is r - 1 times multiplied by the ranks.
static bt_status sum_in_turn(bt_group *group, const sweep *how, bt_stream other, float *host)
{
    enum { ROUNDS = 8 };
    const bt_backend *backend = how->device->backend;
    const size_t bytes = COUNT * sizeof *host;
    float expected = (float)(group->size * (group->size + 1)) / 2;
    for (int i = 0; i < COUNT; ++i) {
        host[i] = (float)group->rank + 1;
    }
    for (int half = 0; half < 2; ++half) {
        BT_TRY(backend->copy(how->device, how->memory + (size_t)half * bytes, host, bytes,
                             BT_COPY_HOST_TO_DEVICE, how->stream));
    }
    BT_TRY(backend->stream_synchronize(how->device, how->stream));
    for (int call = 0; call < 2 * ROUNDS; ++call) {
        BT_TRY(bt_all_reduce(group, how->memory + (size_t)(call % 2) * bytes, COUNT, BT_F32,
                             BT_REDUCE_SUM, call % 2 ? other : how->stream));
        expected *= call > 0 && call < ROUNDS ? (float)group->size : 1;
    }
    BT_TRY(backend->stream_synchronize(how->device, other));
    for (int half = 0; half < 2; ++half) {
        BT_TRY(backend->copy(how->device, host, how->memory + (size_t)half * bytes, bytes,
                             BT_COPY_DEVICE_TO_HOST, how->stream));
        BT_TRY(backend->stream_synchronize(how->device, how->stream));
        for (int i = 0; i < COUNT; ++i) {
            if (host[i] < expected || host[i] > expected) {
                return bt_error(BT_STATUS_INTERNAL, "stream %d, element %d: expected %g, got %g",
                                half, i, (double)expected, (double)host[i]);
            }
        }
    }
    return BT_OK;
}

bt_status gpu_two_streams(bt_group *group, void *argument, rank_result *result)
{
    (void)result;
    const sweep *how = argument;
    bt_stream other = NULL;
    BT_TRY(how->device->backend->stream_create(how->device, false, &other));
    float *host = malloc(COUNT * sizeof *host);
    bt_status status = sum_in_turn(group, how, other, host);
    how->device->backend->stream_destroy(how->device, other);
    free(host);
    return status;
}

bt_status gpu_split(bt_group *group, void *argument, rank_result *result)
{
    bt_group *part = NULL;
    BT_TRY(bt_group_split(group, group->rank / 2, -group->rank, &part));
    bt_status status = part->size == 2 && part->rank == 1 - group->rank % 2
                           ? BT_OK
                           : bt_error(BT_STATUS_INTERNAL, "rank %d became rank %d of %d",
                                      group->rank, part->rank, part->size);
    for (int turn = 0; turn < 2 && status == BT_OK; ++turn) {
        status = sweep_short(part, argument, result);
        status = status ? status : sweep_short(group, argument, result);
    }
    bt_group_destroy(part);
    return status;
}

enum { PARTS = 4, PART_WORDS = 48, SENT = PARTS * PART_WORDS }; // of 4 bytes

// What a rank sends in a turn.
static uint32_t sent_word(int rank, int turn, int i)
{
    return (uint32_t)(rank * 1000 + turn * 7 + i);
}

typedef struct parted {
    bt_group *group;
    const sweep *how;
    bt_stream other;     // of the thread that produces
    uint32_t *words;     // [size, PARTS] that say what arrived, then [PARTS] that are awaited
    uint32_t *out, *own; // [size, SENT] in memory of the group; [SENT]
    uint32_t data[SENT]; // of this turn
} parted;

static bt_status to_host(const parted *p, uint32_t *to, const uint32_t *from, int count)
{
    const bt_backend *backend = p->how->device->backend;
    BT_TRY(backend->copy(p->how->device, to, from, (size_t)count * sizeof *to,
                         BT_COPY_DEVICE_TO_HOST, p->how->stream));
    return backend->stream_synchronize(p->how->device, p->how->stream);
}

static bt_status to_device(const parted *p, uint32_t *to, const uint32_t *from, int count,
                           bt_stream stream)
{
    const bt_backend *backend = p->how->device->backend;
    BT_TRY(backend->copy(p->how->device, to, from, (size_t)count * sizeof *to,
                         BT_COPY_HOST_TO_DEVICE, stream));
    return backend->stream_synchronize(p->how->device, stream);
}

// memmove may store a word twice, the second time when it has been awaited and is 0 again.
static bt_status say_produced(const parted *p, int part)
{
    static const uint32_t one = 1;
    uint32_t *word = p->words + p->group->size * PARTS + part;
    if (p->how->device->backend->kind == BT_DEVICE_CPU) {
        __atomic_store_n(word, one, __ATOMIC_RELEASE);
        return BT_OK;
    }
    return to_device(p, word, &one, 1, p->other);
}

// Writes the data and says so, part by part, when the exchange waits for it.
static void *produce_parts(void *argument)
{
    const parted *p = argument;
    for (int part = 0; part < PARTS; ++part) {
        const struct timespec pause = {.tv_nsec = 5000000};
        (void)nanosleep(&pause, NULL);
        if (to_device(p, p->own + part * PART_WORDS, p->data + part * PART_WORDS, PART_WORDS,
                      p->other) != BT_OK ||
            say_produced(p, part) != BT_OK) {
            return argument;
        }
    }
    return NULL;
}

static bt_status check_parts(const parted *p, int turn, int from)
{
    uint32_t got[SENT], words[(BT_P2P_RANKS_MAX + 1) * PARTS];
    const int count = (p->group->size + 1) * PARTS;
    BT_TRY(to_host(p, got, p->out + from * SENT, SENT));
    BT_TRY(to_host(p, words, p->words, count));
    for (int i = 0; i < SENT; ++i) {
        if (got[i] != sent_word(from, turn, i)) {
            return bt_error(BT_STATUS_INTERNAL, "word %d of rank %d's block is %u", i, from,
                            got[i]);
        }
    }
    for (int i = 0; i < count; ++i) {
        if (words[i] != (i / PARTS == from ? 1U : 0U)) {
            return bt_error(BT_STATUS_INTERNAL, "rank %d's block came, and word %d is %u", from, i,
                            words[i]);
        }
    }
    return BT_OK;
}

static bt_status exchange_parts(parted *p, int turn)
{
    static const uint32_t zeros[PARTS] = {0};
    bt_group *group = p->group;
    const int distance = 1 + turn % (group->size - 1);
    const int from = (group->rank - distance + group->size) % group->size;
    const bt_group_step step = {.distance = distance,
                                .data = bt_byte_block(p->own, sizeof p->data),
                                .parts = PARTS,
                                .produced = p->words + group->size * PARTS,
                                .arrived = p->words + group->rank * PARTS};
    pthread_t producer;
    void *failed = NULL;
    for (int i = 0; i < SENT; ++i) {
        p->data[i] = sent_word(group->rank, turn, i);
    }
    if (pthread_create(&producer, NULL, produce_parts, p) != 0) {
        return bt_error(BT_STATUS_INTERNAL, "no thread produces the parts");
    }
    const bt_status status = bt_exchange_step(group, &step, p->out, sizeof p->data, p->how->stream);
    (void)pthread_join(producer, &failed);
    BT_TRY(status);
    BT_TRY(failed ? bt_error(BT_STATUS_INTERNAL, "the parts were not produced") : BT_OK);
    BT_TRY(check_parts(p, turn, from));
    return to_device(p, p->words + from * PARTS, zeros, PARTS, p->how->stream);
}

bt_status gpu_in_parts(bt_group *group, void *argument, rank_result *result)
{
    (void)result;
    const sweep *how = argument;
    const int count = (group->size + 1) * PARTS;
    parted p = {.group = group, .how = how, .words = bt_group_words(group, count)};
    void *memory = NULL, *own = NULL;
    if (!p.words || bt_group_words(group, BT_P2P_WORDS) != NULL) {
        return bt_error(BT_STATUS_INTERNAL, "there are no words, or too many");
    }
    BT_TRY(bt_group_memory(group, group->size * SENT * (int64_t)sizeof *p.out, &memory));
    BT_TRY(how->device->backend->memory_alloc(how->device, SENT * sizeof *p.own, &own));
    p.out = memory;
    p.own = own;
    bt_status status = how->device->backend->stream_create(how->device, true, &p.other);
    for (int turn = 0; turn < 8 && status == BT_OK; ++turn) {
        status = exchange_parts(&p, turn);
    }
    if (p.other) {
        how->device->backend->stream_destroy(how->device, p.other);
    }
    how->device->backend->memory_free(how->device, own);
    bt_group_words_free(group, p.words, count);
    BT_TRY(status);
    return bt_group_words(group, BT_P2P_WORDS) == p.words
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL, "words that were freed are not taken again");
}
