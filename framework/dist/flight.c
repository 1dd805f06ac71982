#include "framework/dist/flight.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/clock.h"

static const uint64_t layout_magic = 0x6274666c69676834; // "btfligh4"

static bt_status map_board(int fd, bt_flight *flight)
{
    void *memory = mmap(NULL, sizeof(bt_flight_board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        return bt_error(BT_STATUS_UNAVAILABLE, "cannot map a flight recorder: %s", strerror(errno));
    }
    flight->board = memory;
    return BT_OK;
}

static bool make_life(pthread_mutex_t *life)
{
    pthread_mutexattr_t how;
    if (pthread_mutexattr_init(&how) != 0) {
        return false;
    }
    const bool made = pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED) == 0 &&
                      pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST) == 0 &&
                      pthread_mutex_init(life, &how) == 0;
    (void)pthread_mutexattr_destroy(&how);
    return made;
}

bt_status bt_flight_create(int rank, int size, int64_t generation, int *fd, bt_flight *flight)
{
    *flight = (bt_flight){0};
    *fd = memfd_create("bt-flight", MFD_CLOEXEC);
    bt_status status = BT_OK;
    if (*fd < 0 || ftruncate(*fd, (off_t)sizeof(bt_flight_board)) != 0) {
        status = bt_error(BT_STATUS_UNAVAILABLE, "cannot allocate a flight recorder: %s",
                          strerror(errno));
    }
    status = status == BT_OK ? map_board(*fd, flight) : status;
    if (status == BT_OK && !make_life(&flight->board->life)) {
        status =
            bt_error(BT_STATUS_UNAVAILABLE, "cannot create a robust mutex for a flight recorder");
        bt_flight_detach(flight);
    }
    if (status != BT_OK) {
        if (*fd >= 0) {
            (void)close(*fd);
        }
        *fd = -1;
        return status;
    }
    flight->board->rank = rank;
    flight->board->size = size;
    flight->board->generation = generation;
    flight->board->magic = layout_magic;
    return BT_OK;
}

bt_status bt_flight_attach(int fd, bt_flight *flight)
{
    struct stat about;
    *flight = (bt_flight){0};
    if (fstat(fd, &about) != 0 || about.st_size != (off_t)sizeof(bt_flight_board)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "descriptor %d is not a flight recorder", fd);
    }
    BT_TRY(map_board(fd, flight));
    if (flight->board->magic != layout_magic) {
        bt_flight_detach(flight);
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "descriptor %d is a flight recorder of another build", fd);
    }
    return BT_OK;
}

void bt_flight_detach(bt_flight *flight)
{
    if (flight->held) {
        (void)pthread_mutex_unlock(&flight->board->life);
    }
    if (flight->board) {
        (void)munmap(flight->board, sizeof *flight->board);
    }
    *flight = (bt_flight){0};
}

// ---- the rank's side ----------------------------------------------------------------------------

static bt_flight_call *slot_of(bt_flight_board *board, uint64_t sequence)
{
    return &board->ring[(sequence - 1) % BT_FLIGHT_CALLS];
}

static void host_beat(bt_flight_board *board)
{
    atomic_store(&board->beat_ns, bt_clock_ns());
    (void)atomic_fetch_add(&board->beats, 1);
}

int bt_flight_open_part(bt_flight *flight, uint64_t id)
{
    int part = flight && flight->board ? BT_FLIGHT_PARTS : 0;
    while (part > 0 && atomic_load(&flight->board->parts[part - 1].id) != 0) {
        --part;
    }
    if (part > 0) {
        atomic_store(&flight->board->parts[part - 1].calls, 0);
        atomic_store(&flight->board->parts[part - 1].last.sequence, 0);
        atomic_store(&flight->board->parts[part - 1].id, id);
    }
    return part;
}

void bt_flight_close_part(bt_flight *flight, int part)
{
    if (part > 0 && flight && flight->board) {
        atomic_store(&flight->board->parts[part - 1].id, 0);
    }
}

static _Atomic uint64_t *calls_of(bt_flight_board *board, int part)
{
    return part > 0 ? &board->parts[part - 1].calls : &board->calls;
}

static bt_flight_call *call_of(bt_flight_board *board, int part, uint64_t sequence)
{
    return part > 0 ? &board->parts[part - 1].last : slot_of(board, sequence);
}

static bool is_among(const char *op, const char *const *ops, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count && !found; ++i) {
        found = strcmp(op, ops[i]) == 0;
    }
    return found;
}

static bool is_message(const char *op)
{
    static const char *const ops[] = {"send", "recv", "send_recv"};
    return is_among(op, ops, sizeof ops / sizeof ops[0]);
}

bt_status bt_flight_enter(bt_flight *flight, int part, const char *op, int dtype,
                          int64_t size_bytes, const char *site)
{
    if (!flight || !flight->board) {
        return BT_OK;
    }
    bt_flight_board *board = flight->board;
    if (atomic_load(&board->fence)) {
        return bt_error(BT_STATUS_INTERRUPTED,
                        "rank %d of generation %lld was replaced and may not call %s", board->rank,
                        (long long)board->generation, op);
    }
    const bool numbered = !is_message(op);
    const uint64_t sequence = numbered ? atomic_load(calls_of(board, part)) + 1 : 1;
    bt_flight_call *call = numbered ? call_of(board, part, sequence) : &board->message;
    atomic_store(&call->sequence, 0);
    atomic_store(&call->state, BT_FLIGHT_ENTERED);
    call->dtype = dtype;
    call->size_bytes = size_bytes;
    call->entered_ns = bt_clock_ns();
    (void)snprintf(call->op, sizeof call->op, "%s", op);
    (void)snprintf(call->site, sizeof call->site, "%s", site ? site : "");
    atomic_store(&call->sequence, sequence);
    if (numbered) {
        atomic_store(calls_of(board, part), sequence);
    }
    host_beat(board);
    return BT_OK;
}

// Whether some ranks never wait in such a call: its time on the others says nothing about them.
static bool is_one_way(const char *op)
{
    static const char *const ops[] = {"tell", "broadcast"};
    return is_message(op) || is_among(op, ops, sizeof ops / sizeof ops[0]);
}

bool bt_flight_in_message(const bt_flight *flight)
{
    return flight->board && atomic_load(&flight->board->message.sequence) != 0 &&
           atomic_load(&flight->board->message.state) == BT_FLIGHT_ENTERED;
}

void bt_flight_leave(bt_flight *flight, int part, bool finished)
{
    if (!flight || !flight->board) {
        return;
    }
    bt_flight_board *board = flight->board;
    bt_flight_call *call = bt_flight_in_message(flight)
                               ? &board->message
                               : call_of(board, part, atomic_load(calls_of(board, part)));
    const int64_t waited_ns = bt_clock_ns() - call->entered_ns;
    if (waited_ns > 0 && !is_one_way(call->op)) {
        (void)atomic_fetch_add(&board->waited_ns, (uint64_t)waited_ns);
    }
    atomic_store(&call->state, finished ? BT_FLIGHT_DONE : BT_FLIGHT_QUEUED);
    host_beat(board);
}

void bt_flight_hold(bt_flight *flight)
{
    flight->held = flight->board && pthread_mutex_lock(&flight->board->life) == 0;
}

void bt_flight_joined(bt_flight *flight)
{
    if (flight && flight->board) {
        atomic_store(&flight->board->joined, 1);
    }
}

void bt_flight_step(bt_flight *flight, int64_t steps)
{
    if (!flight || !flight->board) {
        return;
    }
    bt_flight_board *board = flight->board;
    const int64_t now_ns = bt_clock_ns();
    for (int i = 0; i < BT_FLIGHT_CALLS + BT_FLIGHT_PARTS; ++i) {
        int queued = BT_FLIGHT_QUEUED;
        bt_flight_call *call =
            i < BT_FLIGHT_CALLS ? &board->ring[i] : &board->parts[i - BT_FLIGHT_CALLS].last;
        (void)atomic_compare_exchange_strong(&call->state, &queued, BT_FLIGHT_DONE);
    }
    atomic_store(&board->step_ns, now_ns);
    atomic_store(&board->steps, steps);
    atomic_store(&board->device_beat_ns, now_ns);
    (void)atomic_fetch_add(&board->device_beats, 1);
    host_beat(board);
}

void bt_flight_beat(bt_flight *flight, uint64_t moves, const char *path)
{
    if (!flight || !flight->board) {
        return;
    }
    bt_flight_board *board = flight->board;
    if (path) {
        (void)atomic_fetch_add(&board->path_version, 1);
        (void)snprintf(board->path, sizeof board->path, "%s", path);
        (void)atomic_fetch_add(&board->path_version, 1);
    }
    if (moves) {
        host_beat(board);
    }
}

// ---- the launcher's side ------------------------------------------------------------------------

void bt_flight_fence(bt_flight *flight)
{
    if (flight && flight->board) {
        atomic_store(&flight->board->fence, 1);
    }
}

bool bt_flight_is_orphan(const bt_flight *flight)
{
    const int taken = flight->board ? pthread_mutex_trylock(&flight->board->life) : EBUSY;
    if (taken == 0 || taken == EOWNERDEAD) { // unlocked without repair: nobody can take it again
        (void)pthread_mutex_unlock(&flight->board->life);
    }
    return taken == EOWNERDEAD || taken == ENOTRECOVERABLE;
}

static bool read_call(bt_flight_call *call, uint64_t sequence, bt_flight_call *out)
{
    if (sequence == 0 || atomic_load(&call->sequence) != sequence) {
        return false;
    }
    memcpy(out, call, sizeof *out);
    out->op[sizeof out->op - 1] = out->site[sizeof out->site - 1] = '\0';
    return atomic_load(&call->sequence) == sequence;
}

bool bt_flight_read(const bt_flight *flight, uint64_t sequence, bt_flight_call *out)
{
    return sequence != 0 && read_call(slot_of(flight->board, sequence), sequence, out);
}

bool bt_flight_read_part(const bt_flight *flight, int part, bt_flight_call *out)
{
    bt_flight_part *of = &flight->board->parts[part - 1];
    return read_call(&of->last, atomic_load(&of->calls), out);
}

void bt_flight_path(const bt_flight *flight, char path[BT_FLIGHT_PATH_BYTES])
{
    for (int tries = 0; tries < 100; ++tries) {
        const uint32_t version = atomic_load(&flight->board->path_version);
        memcpy(path, flight->board->path, BT_FLIGHT_PATH_BYTES);
        path[BT_FLIGHT_PATH_BYTES - 1] = '\0';
        if (version % 2 == 0 && atomic_load(&flight->board->path_version) == version) {
            return;
        }
    }
}

void bt_flight_describe(const bt_flight_call *call, bt_str *out)
{
    bt_str_format(out, "%s of %lld bytes", call->op, (long long)call->size_bytes);
    if (call->dtype >= 0) {
        bt_str_format(out, " %s", bt_dtype_name((bt_dtype)call->dtype));
    }
    bt_str_format(out, ", call %llu", (unsigned long long)atomic_load(&call->sequence));
    bt_str_format(out, *call->site ? ", at %s" : "%s", call->site);
}
