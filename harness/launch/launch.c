// harness/launch/launch.c - the loop: start, watch, judge, end, start again
#include "harness/launch/launch.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/dist/host.h"
#include "harness/launch/gang.h"

enum { WATCH_MS = 20, PEERS_MS = 300, END_MS = 5000 };

// ---- recovery -----------------------------------------------------------------------------------

static int64_t since(int64_t from_ns) { return bt_clock_ns() - from_ns; }

// Notes how far the new generation is; tells when its first step is done.
static bt_status note_recovery(bt_gang *gang)
{
    bt_launch_recovery *recovery = &gang->recovery;
    if (!gang->recovering) {
        return BT_OK;
    }
    bool joined = true, stepped = true;
    for (int i = 0; i < gang->size; ++i) {
        const bt_flight_board *board = gang->ranks[i].flight.board;
        joined = joined && atomic_load(&board->joined);
        stepped = stepped && atomic_load(&board->step_ns) > 0;
    }
    if (joined && recovery->group_ns < 0) {
        recovery->group_ns = since(gang->fault_ns);
    }
    if (gang->ranks[0].state.started && recovery->resume_ns < 0) {
        recovery->resume_ns = since(gang->fault_ns);
    }
    if (!stepped && !gang->ranks[0].state.done) {
        return BT_OK;
    }
    gang->recovering = false;
    recovery->first_step_ns = since(gang->fault_ns);
    // A step can be seen before what came before it.
    recovery->group_ns = recovery->group_ns < 0 ? recovery->first_step_ns : recovery->group_ns;
    recovery->resume_ns = recovery->resume_ns < 0 ? recovery->first_step_ns : recovery->resume_ns;
    return gang->launch->listener.recovered(gang->launch->listener.self, recovery);
}

// ---- watching -----------------------------------------------------------------------------------

static void take_error(bt_rank *rank, const bt_run_event *event)
{
    rank->said = bt_run_event_status(event->as.error.status);
    (void)snprintf(rank->message, sizeof rank->message, "%s", event->as.error.message);
}

static bt_status take_line(bt_gang *gang, bt_rank *rank, const char *line, size_t size_bytes)
{
    bt_run_event event;
    bt_status status = bt_run_event_parse(&rank->state, line, size_bytes, &event);
    if (status == BT_STATUS_CORRUPT_DATA) { // it breaks the protocol: as if it had said so
        rank->said = BT_STATUS_INTERNAL;
        (void)snprintf(rank->message, sizeof rank->message, "%s", bt_error_message());
        return BT_OK;
    }
    BT_TRY(status);
    if (event.type == BT_RUN_EVENT_ERROR) {
        take_error(rank, &event);
    } else if (event.type == BT_RUN_EVENT_RESULT) {
        (void)snprintf(rank->digest, sizeof rank->digest, "%s",
                       *event.as.result.params_digest ? event.as.result.params_digest : "none");
    }
    if (event.type == BT_RUN_EVENT_TIMELINE) {
        status = bt_gang_take_timeline(gang, rank->rank, line, size_bytes);
    } else if (rank->rank == 0 && event.type == BT_RUN_EVENT_RESULT) {
        status = bt_gang_keep_result(gang, line, size_bytes); // told when all ranks have theirs
    } else if (rank->rank == 0) {
        status = bt_relay_take(&gang->relay, &event);
    }
    bt_run_event_release(&event);
    return status;
}

// Takes what a rank says now, and its end.
static bt_status serve(bt_gang *gang, bt_rank *rank)
{
    bt_child_said said = BT_CHILD_LINE;
    bt_rank_drain(rank, false);
    while (!rank->over && said != BT_CHILD_NOTHING) {
        const char *line = NULL;
        size_t size_bytes = 0;
        bool complete = false;
        bt_status status = bt_child_listen(&rank->child, 0, BT_RUN_EVENT_LINE_BYTES_MAX, &said,
                                           &line, &size_bytes, &complete);
        BT_TRY(status);
        if (said == BT_CHILD_LINE && complete) {
            BT_TRY(take_line(gang, rank, line, size_bytes));
        } else if (said == BT_CHILD_END) {
            if (!bt_child_wait(&rank->child, 2000)) { // closed its output and lives on
                bt_child_kill(&rank->child);
                (void)bt_child_wait(&rank->child, 2000);
            }
            rank->over = true;
            rank->over_ns = bt_clock_ns();
            bt_rank_drain(rank, true);
        }
    }
    return BT_OK;
}

static void wait_for_any(const bt_gang *gang, int timeout_ms)
{
    struct pollfd watched[3 * BT_LAUNCH_RANKS_MAX];
    nfds_t count = 0;
    for (int i = 0; i < gang->size; ++i) {
        const bt_rank *rank = &gang->ranks[i];
        if (!rank->over) {
            watched[count++] = (struct pollfd){.fd = rank->child.output, .events = POLLIN};
            watched[count++] = (struct pollfd){.fd = rank->errors, .events = POLLIN};
            watched[count++] = (struct pollfd){.fd = rank->pidfd, .events = POLLIN};
        }
    }
    (void)poll(watched, count, timeout_ms);
}

static bool all_over(const bt_gang *gang, bool *bad)
{
    bool over = true;
    *bad = false;
    for (int i = 0; i < gang->size; ++i) {
        const bt_rank *rank = &gang->ranks[i];
        over = over && rank->over;
        *bad = *bad || (rank->over && (rank->said != BT_OK || !*rank->digest));
    }
    return over;
}

// Some rank has ended badly: gives the others a moment to say more, then judges.
static bt_status judge_end(bt_gang *gang, bt_cause *cause)
{
    const int64_t start_ns = bt_clock_ns();
    bool bad = false;
    while (!bt_cause_is_plain(gang->ranks, gang->size) && !all_over(gang, &bad) &&
           since(start_ns) < PEERS_MS * 1000000LL) {
        wait_for_any(gang, WATCH_MS);
        for (int i = 0; i < gang->size; ++i) {
            BT_TRY(serve(gang, &gang->ranks[i]));
        }
    }
    bt_cause_find(gang->ranks, gang->size, 0, cause);
    return BT_OK;
}

// Whether the rank has died without a word. What it said before is taken: lines come before death.
static bt_status find_lost(bt_gang *gang, int *lost)
{
    *lost = -1;
    for (int i = 0; i < gang->size && *lost < 0; ++i) {
        bt_rank *rank = &gang->ranks[i];
        if (rank->over || !bt_flight_is_orphan(&rank->flight)) {
            continue;
        }
        BT_TRY(serve(gang, rank));
        *lost = rank->said == BT_OK && !*rank->digest ? i : -1;
    }
    return BT_OK;
}

// The lost rank may take long to free its device. The others are ended at once beside it.
static bt_status judge_loss(bt_gang *gang, int lost, bt_cause *cause)
{
    const int64_t start_ns = bt_clock_ns();
    bt_rank *rank = &gang->ranks[lost];
    gang->noticed_ns = start_ns;
    for (int i = 0; i < gang->size; ++i) {
        if (i != lost && !gang->ranks[i].over && !bt_flight_is_orphan(&gang->ranks[i].flight)) {
            gang->ranks[i].replaced = true;
            bt_rank_kill(&gang->ranks[i]);
        }
    }
    while (!rank->over && since(start_ns) < END_MS * 1000000LL) {
        wait_for_any(gang, WATCH_MS);
        for (int i = 0; i < gang->size; ++i) {
            BT_TRY(serve(gang, &gang->ranks[i]));
        }
    }
    bt_cause_find(gang->ranks, gang->size, 0, cause);
    if (cause->kind == BT_CAUSE_NONE) {
        *cause = (bt_cause){.kind = BT_CAUSE_KILLED, .rank = lost, .status = BT_STATUS_UNAVAILABLE};
        (void)snprintf(cause->message, sizeof cause->message,
                       "rank %d (process %d) has died; its process has not ended in %d s", lost,
                       (int)rank->child.process, END_MS / 1000);
    }
    return BT_OK;
}

static bt_status replay_differs(bt_status status, bt_cause *cause)
{
    if (status == BT_STATUS_CORRUPT_DATA) {
        *cause = (bt_cause){.kind = BT_CAUSE_REPLAY, .rank = 0, .status = status};
        (void)snprintf(cause->message, sizeof cause->message, "%s", bt_error_message());
        return BT_OK;
    }
    return status;
}

// Until all ranks are over or a fault is there: *cause.
static bt_status watch(bt_gang *gang, bt_cause *cause)
{
    const bt_launch *launch = gang->launch;
    *cause = (bt_cause){.kind = BT_CAUSE_NONE, .rank = -1};
    for (;;) {
        bool bad = false;
        int lost = -1;
        wait_for_any(gang, WATCH_MS);
        for (int i = 0; i < gang->size; ++i) {
            BT_TRY(replay_differs(serve(gang, &gang->ranks[i]), cause));
            if (cause->kind != BT_CAUSE_NONE) {
                return BT_OK;
            }
        }
        BT_TRY(replay_differs(find_lost(gang, &lost), cause));
        BT_TRY(note_recovery(gang));
        bt_gang_note_steps(gang);
        if (cause->kind != BT_CAUSE_NONE || lost >= 0) {
            return lost >= 0 ? judge_loss(gang, lost, cause) : BT_OK;
        }
        bt_gang_cause_faults(gang);
        BT_TRY(bt_gang_note_stragglers(gang));
        bt_gang_write_status(gang, false);
        bt_gang_keep_spares(gang);
        const bool over = all_over(gang, &bad);
        if (bad) {
            return judge_end(gang, cause);
        }
        if (over) {
            return BT_OK;
        }
        if (!gang->stopping && launch->listener.should_stop(launch->listener.self)) {
            gang->stopping = true;
            bt_child_ask_stop(&gang->ranks[0].child);
        }
        if (bt_gang_look_for_xids(gang, cause)) {
            return BT_OK;
        }
        const double hang_s = bt_gang_silence_s(gang);
        if (hang_s > 0) {
            bt_cause_find(gang->ranks, gang->size, hang_s, cause);
            return BT_OK;
        }
    }
}

// ---- between generations ------------------------------------------------------------------------

// Whether the run goes on behind this fault; sets how many ranks go on.
static bool goes_on(bt_gang *gang, const bt_cause *cause)
{
    const bt_launch *launch = gang->launch;
    const bool progress = gang->steps > gang->steps_at_fault;
    gang->tries = progress ? 1 : gang->tries + 1;
    gang->same_rank = !progress && cause->rank == gang->last_rank ? gang->same_rank + 1 : 1;
    gang->last_rank = cause->rank;
    gang->steps_at_fault = gang->steps;
    if (cause->kind == BT_CAUSE_MEMORY && launch->devices && gang->spare_count > 0) {
        bt_gang_drop_spares(gang); // which hold memory of the same GPUs
        gang->without_spares = true;
        return !gang->stopping;
    }
    if (bt_cause_row_of(cause->kind)->action == BT_LAUNCH_END || gang->stopping) {
        return false;
    }
    const bool lost = cause->kind == BT_CAUSE_GPU_LOST || gang->same_rank >= 2;
    if (lost && launch->shrink && cause->rank >= 0) {
        for (int size = gang->size - 1; size >= 1; --size) {
            if (launch->listener.fits(launch->listener.self, size)) {
                gang->quarantined[gang->ranks[cause->rank].slot] = true;
                gang->next_size = size;
                gang->tries = gang->same_rank = 0;
                return true;
            }
        }
    }
    return gang->tries < BT_LAUNCH_TRIES && cause->kind != BT_CAUSE_GPU_LOST;
}

// The fault is told at once: another one may come before a step of the next generation is done.
// Such a fault begins the recovery anew.
static bt_status begin_recovery(bt_gang *gang, const bt_cause *cause)
{
    const bt_launch_listener *listener = &gang->launch->listener;
    const int64_t now_ns = gang->noticed_ns ? gang->noticed_ns : bt_clock_ns();
    char action[96];
    gang->cause = *cause;
    gang->recovering = true;
    gang->fault_ns = gang->caused_ns ? gang->caused_ns : now_ns;
    gang->recovery =
        (bt_launch_recovery){.cause = &gang->cause,
                             .generation = gang->generation + 1,
                             .step = gang->steps,
                             .size = gang->next_size,
                             .detect_ns = gang->caused_ns ? now_ns - gang->caused_ns : -1,
                             .group_ns = -1,
                             .resume_ns = -1,
                             .first_step_ns = -1};
    gang->caused_ns = 0;
    (void)snprintf(action, sizeof action, "restart with %d ranks", gang->next_size);
    const bt_run_event fault = {
        .type = BT_RUN_EVENT_FAULT,
        .as.fault = {gang->steps, bt_cause_row_of(cause->kind)->name, action, gang->cause.message}};
    return listener->event(listener->self, &fault);
}

// A generation ended without a fault: the ranks must agree about the state, then the result is
// told.
static bt_status finish(bt_gang *gang)
{
    for (int i = 1; i < gang->size; ++i) {
        if (strcmp(gang->ranks[i].digest, gang->ranks[0].digest) != 0) {
            return bt_error(BT_STATUS_CORRUPT_DATA,
                            "rank %d ended with the state %s, rank 0 with %s", i,
                            gang->ranks[i].digest, gang->ranks[0].digest);
        }
    }
    return bt_gang_tell_result(gang);
}

// Ends all ranks and hears them out: a state that rank 0 has saved must not be ahead of its events.
static bt_status end_generation(bt_gang *gang)
{
    bt_status status = BT_OK;
    for (int i = 0; i < gang->size; ++i) {
        bt_rank_kill(&gang->ranks[i]);
    }
    for (int i = 0; i < gang->size; ++i) {
        const int64_t start_ns = bt_clock_ns();
        while (!gang->ranks[i].over && status == BT_OK && since(start_ns) < END_MS * 1000000LL) {
            wait_for_any(gang, WATCH_MS);
            status = serve(gang, &gang->ranks[i]);
        }
    }
    bt_gang_end(gang);
    return status;
}

static bt_status run_generations(bt_gang *gang)
{
    for (;;) {
        bt_cause cause;
        BT_TRY(bt_gang_begin(gang));
        BT_TRY(watch(gang, &cause));
        if (cause.kind == BT_CAUSE_NONE) {
            return finish(gang);
        }
        const bool again = goes_on(gang, &cause);
        BT_TRY(again ? begin_recovery(gang, &cause) : BT_OK);
        BT_TRY(end_generation(gang));
        if (!again) {
            return bt_error(cause.status, "%s%s", cause.message,
                            gang->tries >= BT_LAUNCH_TRIES
                                ? "; the third fault in a row without a step between them"
                                : "");
        }
        (void)fprintf(stderr, "launcher: %s: %s; %d ranks go on as generation %lld\n",
                      bt_cause_row_of(cause.kind)->name, cause.message, gang->next_size,
                      (long long)gang->generation + 1);
    }
}

bt_status bt_launch_run(const bt_launch *launch)
{
    if (launch->size < 1 || launch->size > BT_LAUNCH_RANKS_MAX) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "train.mesh.data: a launcher starts 1 to %d ranks on a host, got %d",
                        BT_LAUNCH_RANKS_MAX, launch->size);
    }
    bt_gang gang;
    bt_gang_init(launch, &gang);
    bt_status status = run_generations(&gang);
    bt_gang_release(&gang);
    return status;
}
