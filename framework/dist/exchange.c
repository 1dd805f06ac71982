// framework/dist/exchange.c - sends and receives messages of all peers at once; detects failures
//
// Invariants
//   1. The loop returns when all messages are transferred, or with an error. While nothing moves it
//      checks the abort words, whether peers have exited, and the clock.
//   2. Bytes that a peer sent before it exited are still received.
//   3. The first failure is kept: it aborts the group for the others, and later calls return it.
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/dist/cpu_group.h"

static const uint64_t signature_magic = 0x6274636f6c6c3031; // "btcoll01"

enum { HEAD_BYTES = sizeof(bt_signature) };

static const char *call_name(int32_t call)
{
    static const char *const names[BT_CALL_COUNT] = {
#define BT_CALL_NAME(name, text) [BT_CALL_##name] = (text),
        BT_CALL_LIST(BT_CALL_NAME)
#undef BT_CALL_NAME
    };
    return call >= 0 && call < BT_CALL_COUNT ? names[call] : "an unknown call";
}

static void describe(const bt_signature *signature, char *text, size_t capacity)
{
    bool typed = signature->dtype >= 0 && signature->dtype < BT_DTYPE_COUNT;
    (void)snprintf(text, capacity, "%s of %" PRId64 " %s%s", call_name(signature->call),
                   signature->size, typed ? bt_dtype_name((bt_dtype)signature->dtype) : "bytes",
                   signature->reduction == BT_REDUCE_MAX ? " (maximum)" : "");
    size_t length = strlen(text);
    if (signature->root >= 0) {
        (void)snprintf(text + length, capacity - length, " from rank %d", signature->root);
        length = strlen(text);
    }
    if (signature->part != 0) {
        (void)snprintf(text + length, capacity - length, " in the group of colour %d",
                       (int)(signature->part & 0xffff));
    }
}

// Records the failure and makes the calls of the other ranks fail.
static bt_status fail(bt_cpu_group *group, bt_status status, const char *text)
{
    group->failed = status;
    (void)snprintf(group->failure, sizeof group->failure, "%s", text);
    bt_cpu_group_abort(&group->group, text);
    return bt_error(status, "%s", group->failure);
}

static bt_status fail_aborted(bt_cpu_group *group)
{
    char text[BT_REGION_REASON_BYTES + 64];
    if (atomic_load_explicit(&group->aborting, memory_order_acquire) == 2) {
        (void)snprintf(text, sizeof text, "%s", group->abort_reason);
    } else {
        (void)snprintf(text, sizeof text, "rank %d aborted: %s", group->region->head->abort_rank,
                       group->region->head->reason);
    }
    return fail(group, BT_STATUS_INTERRUPTED, text);
}

static bool is_aborted(const bt_cpu_group *group)
{
    return atomic_load_explicit(&group->aborting, memory_order_acquire) == 2 ||
           (group->region != NULL && bt_region_aborted(group->region));
}

static bool leg_is_done(const bt_leg *leg)
{
    return (leg->out_bytes < 0 || leg->out_done == HEAD_BYTES + leg->out_bytes) &&
           (leg->in_bytes < 0 || leg->in_done == HEAD_BYTES + leg->in_bytes);
}

static bt_status fail_gone(bt_cpu_group *group, int peer, const char *how)
{
    char call[96];
    char text[BT_REGION_REASON_BYTES];
    if (is_aborted(group)) { // the cause of the peer's exit
        return fail_aborted(group);
    }
    describe(&group->legs[peer].out_head, call, sizeof call);
    (void)snprintf(text, sizeof text, "rank %d %s while rank %d waited for it in %s", peer, how,
                   group->group.rank, call);
    return fail(group, BT_STATUS_UNAVAILABLE, text);
}

static bt_status check_signature(bt_cpu_group *group, int peer, const bt_signature *mine)
{
    const bt_signature *theirs = &group->legs[peer].in_head;
    if (theirs->magic != signature_magic) {
        char text[96];
        (void)snprintf(text, sizeof text, "rank %d sent data that is not a message of this build",
                       peer);
        return fail(group, BT_STATUS_INTERNAL, text);
    }
    bt_signature expected = *mine;
    expected.sequence = group->peers[peer].received;
    if (memcmp(theirs, &expected, sizeof expected) == 0) {
        return BT_OK;
    }
    char ours[96];
    char other[96];
    char text[BT_REGION_REASON_BYTES];
    describe(mine, ours, sizeof ours);
    describe(theirs, other, sizeof other);
    (void)snprintf(text, sizeof text,
                   "ranks diverge: rank %d calls %s, rank %d calls %s (message %" PRIu64
                   " between them)",
                   group->group.rank, ours, peer, other, theirs->sequence + 1);
    return fail(group, BT_STATUS_INTERNAL, text);
}

static bt_status move_out(bt_cpu_group *group, int peer, int64_t *moved)
{
    bt_leg *leg = &group->legs[peer];
    bt_channel *channel = &group->peers[peer].channel;
    while (leg->out_bytes >= 0 && leg->out_done < HEAD_BYTES + leg->out_bytes) {
        bool head = leg->out_done < HEAD_BYTES;
        const char *from = head ? (const char *)&leg->out_head + leg->out_done
                                : (const char *)leg->out + (leg->out_done - HEAD_BYTES);
        int64_t left = (head ? HEAD_BYTES : HEAD_BYTES + leg->out_bytes) - leg->out_done;
        int64_t done = 0;
        BT_TRY(channel->ops->write(channel->impl, from, left, &done));
        leg->out_done += done;
        *moved += done;
        if (done < left) {
            break;
        }
    }
    return BT_OK;
}

static bt_status move_in(bt_cpu_group *group, int peer, int64_t *moved, bool *head_came)
{
    bt_leg *leg = &group->legs[peer];
    bt_channel *channel = &group->peers[peer].channel;
    while (leg->in_bytes >= 0 && leg->in_done < HEAD_BYTES + leg->in_bytes) {
        bool head = leg->in_done < HEAD_BYTES;
        char *to = head ? (char *)&leg->in_head + leg->in_done
                        : (char *)leg->in + (leg->in_done - HEAD_BYTES);
        int64_t left = (head ? HEAD_BYTES : HEAD_BYTES + leg->in_bytes) - leg->in_done;
        int64_t done = 0;
        BT_TRY(channel->ops->read(channel->impl, to, left, &done));
        leg->in_done += done;
        *moved += done;
        if (head && leg->in_done == HEAD_BYTES) {
            *head_came = true; // the caller checks it before reading the data
            break;
        }
        if (done < left) {
            break;
        }
    }
    return BT_OK;
}

// Makes progress with every peer once; *moved: bytes.
static bt_status move_all(bt_cpu_group *group, const bt_signature *call, int64_t *moved,
                          bool *pending)
{
    *moved = 0;
    *pending = false;
    for (int step = 1; step < group->group.size; ++step) {
        int peer = (group->group.rank + step) % group->group.size;
        bool head_came = false;
        bt_error_quiet_begin();
        bt_status status = move_out(group, peer, moved);
        status = status != BT_OK ? status : move_in(group, peer, moved, &head_came);
        bt_error_quiet_end();
        if (status != BT_OK) {
            return fail_gone(group, peer, "closed its connection");
        }
        if (head_came) {
            BT_TRY(check_signature(group, peer, call));
        }
        *pending = *pending || !leg_is_done(&group->legs[peer]);
    }
    return BT_OK;
}

static bool process_ended(bt_peer *peer, int pid)
{
    if (peer->pidfd < 0) {
        peer->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (peer->pidfd < 0) {
            return errno == ESRCH;
        }
    }
    struct pollfd poll_pid = {.fd = peer->pidfd, .events = POLLIN};
    return poll(&poll_pid, 1, 0) == 1;
}

// How a peer of the region exited; NULL: it has not, according to the region.
static const char *how_ended(bt_cpu_group *group, int peer)
{
    if (group->region == NULL || peer == group->group.rank) {
        return NULL;
    }
    bt_member *member = &group->region->members[peer];
    int state = atomic_load(&member->state);
    int pid = atomic_load(&member->pid);
    if (state == BT_MEMBER_LEFT) {
        return "left the group";
    }
    bool ended =
        state == BT_MEMBER_JOINED && pid != getpid() && process_ended(&group->peers[peer], pid);
    return ended ? "ended" : NULL;
}

// A rank that this one waits for and that has exited or left; -1: none.
static int find_ended(bt_cpu_group *group, const char **how)
{
    for (int peer = 0; peer < group->group.size; ++peer) {
        *how = leg_is_done(&group->legs[peer]) ? NULL : how_ended(group, peer);
        if (*how != NULL) {
            return peer;
        }
    }
    return -1;
}

static bt_status fail_silent(bt_cpu_group *group, const bt_signature *call)
{
    char ranks[96] = "";
    size_t length = 0;
    for (int peer = 0; peer < group->group.size && length + 8 < sizeof ranks; ++peer) {
        if (peer != group->group.rank && !leg_is_done(&group->legs[peer])) {
            int wrote = snprintf(ranks + length, sizeof ranks - length, "%s%d",
                                 length > 0 ? ", " : "", peer);
            length += wrote > 0 ? (size_t)wrote : 0;
        }
    }
    char ours[96];
    char text[BT_REGION_REASON_BYTES];
    describe(call, ours, sizeof ours);
    (void)snprintf(text, sizeof text,
                   "rank %d waited %.1f s in %s for rank %s, but received nothing",
                   group->group.rank, (double)group->timeout_ns / 1e9, ours, ranks);
    return fail(group, BT_STATUS_UNAVAILABLE, text);
}

// Spins, then yields, then sleeps: ranks may share a processor.
static void pause_for(int64_t idle_ns)
{
    if (idle_ns < 100000) {
        (void)sched_yield();
        return;
    }
    struct timespec time = {.tv_nsec = idle_ns < 5000000 ? 20000 : 200000};
    (void)nanosleep(&time, NULL);
}

static bt_status wait_all(bt_cpu_group *group, const bt_signature *call)
{
    enum { LOOK_NS = 2000000 }; // interval of the check for exited peers
    int64_t last_ns = bt_clock_ns();
    int64_t looked_ns = last_ns;
    bool ended = false; // a peer has exited; its last data may not have been read yet
    for (;;) {
        int64_t moved;
        bool pending;
        BT_TRY(move_all(group, call, &moved, &pending));
        if (!pending) {
            return BT_OK;
        }
        if (is_aborted(group)) {
            return fail_aborted(group);
        }
        int64_t now_ns = bt_clock_ns();
        if (moved > 0) {
            last_ns = now_ns;
            ended = false;
            continue;
        }
        if (now_ns - last_ns > group->timeout_ns) {
            return fail_silent(group, call);
        }
        if (ended || now_ns - looked_ns > LOOK_NS) {
            const char *how = NULL;
            int peer = find_ended(group, &how);
            if (peer >= 0 && ended) {
                return fail_gone(group, peer, how);
            }
            ended = peer >= 0;
            looked_ns = now_ns;
        }
        pause_for(now_ns - last_ns);
    }
}

static bt_status exchange(bt_cpu_group *group, const bt_signature *call)
{
    if (group->failed != BT_OK) {
        return bt_error(group->failed, "%s", group->failure);
    }
    if (is_aborted(group)) {
        return fail_aborted(group);
    }
    bt_signature mine = *call;
    mine.magic = signature_magic;
    for (int peer = 0; peer < group->group.size; ++peer) {
        bt_leg *leg = &group->legs[peer];
        leg->out_head = mine;
        leg->out_head.sequence = group->peers[peer].sent;
        leg->out_done = leg->in_done = 0;
        if (peer == group->group.rank) { // the collective copies its own part
            leg->out_bytes = leg->in_bytes = -1;
        }
    }
    BT_TRY(wait_all(group, &mine));
    for (int peer = 0; peer < group->group.size; ++peer) {
        group->peers[peer].sent += group->legs[peer].out_bytes >= 0 ? 1 : 0;
        group->peers[peer].received += group->legs[peer].in_bytes >= 0 ? 1 : 0;
    }
    return BT_OK;
}

// Translates a part's messages to those of the whole.
static void give_legs(bt_cpu_group *part)
{
    bt_cpu_group *whole = part->whole;
    for (int peer = 0; peer < whole->group.size; ++peer) {
        whole->legs[peer] = (bt_leg){.out_bytes = -1, .in_bytes = -1};
    }
    for (int peer = 0; peer < part->group.size; ++peer) {
        whole->legs[part->members[peer]] = part->legs[peer];
    }
}

bt_status bt_exchange(bt_cpu_group *group, const bt_signature *call)
{
    bt_cpu_group *whole = group->whole != NULL ? group->whole : group;
    bt_signature mine = *call;
    mine.part = group->group.part;
    (void)pthread_mutex_lock(&whole->lock);
    if (group != whole) {
        give_legs(group);
    }
    bt_status status = exchange(whole, &mine);
    (void)pthread_mutex_unlock(&whole->lock);
    return status;
}

static bt_status check(bt_cpu_group *group)
{
    if (group->failed != BT_OK) {
        return bt_error(group->failed, "%s", group->failure);
    }
    if (is_aborted(group)) {
        return fail_aborted(group);
    }
    for (int peer = 0; peer < group->group.size; ++peer) {
        bt_channel *channel = &group->peers[peer].channel;
        const char *how = how_ended(group, peer);
        if (how == NULL && channel->ops != NULL && channel->ops->closed(channel->impl)) {
            how = "closed its connection";
        }
        if (how != NULL) {
            char text[96];
            (void)snprintf(text, sizeof text, "rank %d %s", peer, how);
            return fail(group, BT_STATUS_UNAVAILABLE, text);
        }
    }
    return BT_OK;
}

bt_status bt_cpu_check(bt_group *base)
{
    bt_cpu_group *group = base->impl;
    bt_cpu_group *whole = group->whole != NULL ? group->whole : group;
    if (pthread_mutex_trylock(&whole->lock) != 0) {
        return BT_OK; // the thread in the exchange detects failures itself
    }
    bt_status status = check(whole);
    (void)pthread_mutex_unlock(&whole->lock);
    return status;
}
