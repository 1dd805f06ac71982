// harness/launch/launch.c - the loop: starts, watches, judges, ends and restarts the ranks
#include "harness/launch/launch.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/clock.h"
#include "framework/base/idioms.h"
#include "framework/dist/host.h"
#include "harness/launch/supervisor.h"

enum { WATCH_MS = 20, PEERS_MS = 300, END_MS = 5000 };

// ---- recovery -----------------------------------------------------------------------------------

static int64_t since(int64_t from_ns) { return bt_clock_ns() - from_ns; }

// Reports when the new generation has repeated the steps before the fault.
static bt_status note_repeated(bt_supervisor *supervisor)
{
    const bt_launch *launch = supervisor->launch;
    bt_launch_recovery *recovery = &supervisor->recovery;
    const bool repeats = recovery->from_step < recovery->step;
    if (!supervisor->behind) {
        return BT_OK;
    }
    for (int i = 0; i < supervisor->size && repeats; ++i) {
        if (atomic_load(&supervisor->ranks[i].flight.board->steps) < recovery->step) {
            return BT_OK;
        }
    }
    supervisor->behind = false;
    recovery->caught_up_ns = repeats ? since(supervisor->fault_ns) : recovery->resume_ns;
    return launch->listener.caught_up ? launch->listener.caught_up(launch->listener.self, recovery)
                                      : BT_OK;
}

// Records the progress of the new generation; reports when its first step is done.
static bt_status note_recovery(bt_supervisor *supervisor)
{
    bt_launch_recovery *recovery = &supervisor->recovery;
    if (!supervisor->recovering) {
        return note_repeated(supervisor);
    }
    bool joined = true, stepped = true;
    for (int i = 0; i < supervisor->size; ++i) {
        const bt_flight_board *board = supervisor->ranks[i].flight.board;
        joined = joined && atomic_load(&board->joined);
        stepped = stepped && atomic_load(&board->step_ns) > 0;
    }
    if (joined && recovery->group_ns < 0) {
        recovery->group_ns = since(supervisor->fault_ns);
    }
    if (supervisor->ranks[0].state.started && recovery->resume_ns < 0) {
        recovery->resume_ns = since(supervisor->fault_ns);
    }
    if ((!stepped && !supervisor->ranks[0].state.done) || !supervisor->ranks[0].state.started) {
        return BT_OK;
    }
    supervisor->recovering = false;
    supervisor->behind = true;
    recovery->first_step_ns = since(supervisor->fault_ns);
    // A step can be observed before the events that precede it.
    recovery->group_ns = recovery->group_ns < 0 ? recovery->first_step_ns : recovery->group_ns;
    recovery->resume_ns = recovery->resume_ns < 0 ? recovery->first_step_ns : recovery->resume_ns;
    BT_TRY(supervisor->launch->listener.recovered(supervisor->launch->listener.self, recovery));
    return note_repeated(supervisor);
}

// ---- watching -----------------------------------------------------------------------------------

static void take_error(bt_rank *rank, const bt_run_event *event)
{
    rank->said = bt_run_event_status(event->as.error.status);
    (void)snprintf(rank->message, sizeof rank->message, "%s", event->as.error.message);
}

static bt_status take_line(bt_supervisor *supervisor, bt_rank *rank, const bt_child_line *line)
{
    bt_run_event event;
    bt_status status = bt_run_event_parse(&rank->state, line->text, line->size_bytes, &event);
    if (status == BT_STATUS_CORRUPT_DATA) { // violates the protocol: handled like an error event
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
        status = bt_supervisor_take_timeline(supervisor, rank->rank, &event);
    } else if (rank->rank == 0 && event.type == BT_RUN_EVENT_RESULT) {
        // It is reported when all ranks have theirs.
        status = bt_run_event_copy(&event, &supervisor->result);
        supervisor->has_result = status == BT_OK;
    } else if (rank->rank == 0) {
        if (event.type == BT_RUN_EVENT_START) {
            supervisor->recovery.from_step = event.as.start.first_step;
        }
        status = bt_relay_take(&supervisor->relay, &event);
    }
    bt_run_event_release(&event);
    return status;
}

// Reads the rank's output, and detects its end.
static bt_status serve(bt_supervisor *supervisor, bt_rank *rank)
{
    bt_child_said said = BT_CHILD_LINE;
    while (!rank->over && said != BT_CHILD_NOTHING) {
        bt_child_line line;
        BT_TRY(bt_child_listen(&rank->child, 0, BT_RUN_EVENT_LINE_BYTES_MAX, &said, &line));
        if (said == BT_CHILD_LINE && line.complete) {
            BT_TRY(take_line(supervisor, rank, &line));
        } else if (said == BT_CHILD_END) {
            if (!bt_child_wait(&rank->child, 2000)) { // closed its output and still runs
                bt_child_kill(&rank->child);
                (void)bt_child_wait(&rank->child, 2000);
            }
            rank->over = true;
            rank->over_ns = bt_clock_ns();
        }
    }
    return BT_OK;
}

static void wait_for_any(const bt_supervisor *supervisor, int timeout_ms)
{
    struct pollfd watched[3 * BT_LAUNCH_RANKS_MAX];
    nfds_t count = 0;
    BT_EACH(const bt_rank, rank, supervisor->ranks, supervisor->size) {
        if (!rank->over) {
            watched[count++] = (struct pollfd){.fd = rank->child.output, .events = POLLIN};
            watched[count++] = (struct pollfd){.fd = rank->child.errors, .events = POLLIN};
            watched[count++] = (struct pollfd){.fd = rank->pidfd, .events = POLLIN};
        }
    }
    (void)poll(watched, count, timeout_ms);
}

static bool all_over(const bt_supervisor *supervisor, bool *bad)
{
    bool over = true;
    *bad = false;
    BT_EACH(const bt_rank, rank, supervisor->ranks, supervisor->size) {
        over = over && rank->over;
        *bad = *bad || (rank->over && (rank->said != BT_OK || !*rank->digest));
    }
    return over;
}

// A rank has failed: waits a moment for output of the others, then judges.
static bt_status judge_end(bt_supervisor *supervisor, bt_cause *cause)
{
    const int64_t start_ns = bt_clock_ns();
    bool bad = false;
    while (!bt_cause_is_known(supervisor->ranks, supervisor->size) && !all_over(supervisor, &bad) &&
           since(start_ns) < PEERS_MS * 1000000LL) {
        wait_for_any(supervisor, WATCH_MS);
        for (int i = 0; i < supervisor->size; ++i) {
            BT_TRY(serve(supervisor, &supervisor->ranks[i]));
        }
    }
    bt_cause_find(supervisor->ranks, supervisor->size, 0, cause);
    return BT_OK;
}

// Whether the rank has died without an error event. Its earlier output is read first.
static bt_status find_lost(bt_supervisor *supervisor, int *lost)
{
    *lost = -1;
    for (int i = 0; i < supervisor->size && *lost < 0; ++i) {
        bt_rank *rank = &supervisor->ranks[i];
        if (rank->over || !bt_flight_is_orphan(&rank->flight)) {
            continue;
        }
        BT_TRY(serve(supervisor, rank));
        *lost = rank->said == BT_OK && !*rank->digest ? i : -1;
    }
    return BT_OK;
}

// The failed rank may take long to free its device. The others are ended at the same time.
static bt_status judge_loss(bt_supervisor *supervisor, int lost, bt_cause *cause)
{
    const int64_t start_ns = bt_clock_ns();
    bt_rank *rank = &supervisor->ranks[lost];
    supervisor->noticed_ns = start_ns;
    for (int i = 0; i < supervisor->size; ++i) {
        if (i != lost && !supervisor->ranks[i].over &&
            !bt_flight_is_orphan(&supervisor->ranks[i].flight)) {
            supervisor->ranks[i].replaced = true;
            bt_rank_kill(&supervisor->ranks[i]);
        }
    }
    while (!rank->over && since(start_ns) < END_MS * 1000000LL) {
        wait_for_any(supervisor, WATCH_MS);
        for (int i = 0; i < supervisor->size; ++i) {
            BT_TRY(serve(supervisor, &supervisor->ranks[i]));
        }
    }
    bt_cause_find(supervisor->ranks, supervisor->size, 0, cause);
    if (cause->kind == BT_CAUSE_NONE) {
        bt_cause_set(cause, BT_CAUSE_KILLED, lost, BT_STATUS_UNAVAILABLE,
                     "rank %d (process %d) died, but its process did not exit within %d s", lost,
                     (int)rank->child.process, END_MS / 1000);
    }
    return BT_OK;
}

static bt_status replay_differs(bt_status status, bt_cause *cause)
{
    if (status == BT_STATUS_CORRUPT_DATA) {
        bt_cause_set(cause, BT_CAUSE_REPLAY, 0, status, "%s", bt_error_message());
        return BT_OK;
    }
    return status;
}

// Waits until all ranks have ended or there is a fault: *cause.
static bt_status watch(bt_supervisor *supervisor, bt_cause *cause)
{
    const bt_launch *launch = supervisor->launch;
    *cause = (bt_cause){.kind = BT_CAUSE_NONE, .rank = -1};
    for (;;) {
        bool bad = false;
        int lost = -1;
        wait_for_any(supervisor, WATCH_MS);
        for (int i = 0; i < supervisor->size; ++i) {
            BT_TRY(replay_differs(serve(supervisor, &supervisor->ranks[i]), cause));
            if (cause->kind != BT_CAUSE_NONE) {
                return BT_OK;
            }
        }
        BT_TRY(replay_differs(find_lost(supervisor, &lost), cause));
        BT_TRY(note_recovery(supervisor));
        bt_supervisor_note_steps(supervisor);
        if (cause->kind != BT_CAUSE_NONE || lost >= 0) {
            return lost >= 0 ? judge_loss(supervisor, lost, cause) : BT_OK;
        }
        bt_supervisor_cause_faults(supervisor);
        BT_TRY(bt_supervisor_note_stragglers(supervisor));
        bt_supervisor_write_status(supervisor, false);
        bt_supervisor_keep_spares(supervisor);
        const bool over = all_over(supervisor, &bad);
        if (bad) {
            return judge_end(supervisor, cause);
        }
        if (over) {
            return BT_OK;
        }
        if (!supervisor->stopping && launch->listener.should_stop(launch->listener.self)) {
            supervisor->stopping = true;
            bt_child_ask_stop(&supervisor->ranks[0].child);
        }
        if (bt_supervisor_look_for_xids(supervisor, cause)) {
            return BT_OK;
        }
        const double hang_s = bt_supervisor_silence_s(supervisor);
        if (hang_s > 0) {
            bt_cause_find(supervisor->ranks, supervisor->size, hang_s, cause);
            return BT_OK;
        }
    }
}

// ---- between generations ------------------------------------------------------------------------

// Whether the run continues after this fault; sets the number of ranks that continue.
static bool goes_on(bt_supervisor *supervisor, const bt_cause *cause)
{
    const bt_launch *launch = supervisor->launch;
    const bool progress = supervisor->steps > supervisor->steps_at_fault;
    supervisor->tries = progress ? 1 : supervisor->tries + 1;
    supervisor->same_rank =
        !progress && cause->rank == supervisor->last_rank ? supervisor->same_rank + 1 : 1;
    supervisor->last_rank = cause->rank;
    supervisor->steps_at_fault = supervisor->steps;
    if (cause->kind == BT_CAUSE_MEMORY && launch->devices && supervisor->spare_count > 0) {
        bt_supervisor_drop_spares(supervisor); // which use memory of the same GPUs
        supervisor->without_spares = true;
        return !supervisor->stopping;
    }
    if (bt_cause_row_of(cause->kind)->action == BT_LAUNCH_END || supervisor->stopping ||
        launch->ends) {
        return false;
    }
    const bool lost = cause->kind == BT_CAUSE_GPU_LOST || supervisor->same_rank >= 2;
    if (lost && launch->shrink && cause->rank >= 0) {
        for (int size = supervisor->size - 1; size >= 1; --size) {
            if (launch->listener.fits(launch->listener.self, size)) {
                supervisor->quarantined[supervisor->ranks[cause->rank].slot] = true;
                supervisor->next_size = size;
                supervisor->tries = supervisor->same_rank = 0;
                return true;
            }
        }
    }
    return supervisor->tries < BT_LAUNCH_TRIES && cause->kind != BT_CAUSE_GPU_LOST;
}

// Reports the fault at once: another one may follow before a step of the next generation is done.
// Such a fault restarts the recovery.
static bt_status begin_recovery(bt_supervisor *supervisor, const bt_cause *cause)
{
    const int64_t now_ns = supervisor->noticed_ns ? supervisor->noticed_ns : bt_clock_ns();
    char action[96];
    supervisor->cause = *cause;
    supervisor->recovering = true;
    supervisor->behind = false;
    supervisor->fault_ns = supervisor->caused_ns ? supervisor->caused_ns : now_ns;
    supervisor->recovery = (bt_launch_recovery){
        .cause = &supervisor->cause,
        .generation = supervisor->generation + 1,
        .step = supervisor->steps,
        .size = supervisor->next_size,
        .detect_ns = supervisor->caused_ns ? now_ns - supervisor->caused_ns : -1,
        .group_ns = bt_supervisor_spares_joined(supervisor) ? now_ns - supervisor->fault_ns : -1,
        .resume_ns = -1,
        .first_step_ns = -1,
        .caught_up_ns = -1};
    supervisor->caused_ns = 0;
    (void)snprintf(action, sizeof action, "restart with %d ranks", supervisor->next_size);
    const bt_run_event fault = {.type = BT_RUN_EVENT_FAULT,
                                .as.fault = {supervisor->steps, bt_cause_row_of(cause->kind)->name,
                                             action, supervisor->cause.message}};
    return bt_relay_report(&supervisor->relay, &fault);
}

// A run that was to recover from a fault shows nothing about recovery if its ranks were done first.
static bt_status check_faults(const bt_supervisor *supervisor)
{
    const bt_launch *launch = supervisor->launch;
    const int64_t unseen = supervisor->caused_ns ? 1 : 0; // sent to a rank that was done
    for (int64_t i = supervisor->next_fault - unseen; i < launch->fault_count; ++i) {
        const int rank = launch->faults[i].rank;
        BT_FAIL_IF(rank < supervisor->size && !supervisor->stopping, BT_STATUS_UNAVAILABLE,
                   "train.mesh.faults[%lld] did not occur: rank %d had done all steps before it "
                   "got the signal; inject the fault at an earlier step, or run again on a machine "
                   "that is less loaded",
                   (long long)i, rank);
    }
    return BT_OK;
}

// A generation ended without a fault: the ranks must agree about the state, then the result is
// reported.
static bt_status finish(bt_supervisor *supervisor)
{
    for (int i = 1; i < supervisor->size; ++i) {
        BT_FAIL_IF(strcmp(supervisor->ranks[i].digest, supervisor->ranks[0].digest) != 0,
                   BT_STATUS_CORRUPT_DATA, "rank %d ended with the state %s, rank 0 with %s", i,
                   supervisor->ranks[i].digest, supervisor->ranks[0].digest);
    }
    BT_TRY(check_faults(supervisor));
    return supervisor->has_result ? bt_relay_take(&supervisor->relay, &supervisor->result)
                                  : bt_error(BT_STATUS_INTERNAL, "rank 0 ended without a result");
}

// Ends all ranks and reads their remaining output: a state that rank 0 has saved must not be ahead
// of its events.
static bt_status end_generation(bt_supervisor *supervisor)
{
    bt_status status = BT_OK;
    for (int i = 0; i < supervisor->size; ++i) {
        bt_rank_kill(&supervisor->ranks[i]);
    }
    for (int i = 0; i < supervisor->size; ++i) {
        const int64_t start_ns = bt_clock_ns();
        while (!supervisor->ranks[i].over && status == BT_OK &&
               since(start_ns) < END_MS * 1000000LL) {
            wait_for_any(supervisor, WATCH_MS);
            status = serve(supervisor, &supervisor->ranks[i]);
        }
    }
    bt_supervisor_end(supervisor);
    return status;
}

static bt_status run_generations(bt_supervisor *supervisor)
{
    for (;;) {
        bt_cause cause;
        BT_TRY(bt_supervisor_begin(supervisor));
        BT_TRY(watch(supervisor, &cause));
        if (cause.kind == BT_CAUSE_NONE) {
            return finish(supervisor);
        }
        const bool again = goes_on(supervisor, &cause);
        BT_TRY(again ? begin_recovery(supervisor, &cause) : BT_OK);
        BT_TRY(end_generation(supervisor));
        BT_FAIL_IF(!again, cause.status, "%s%s", cause.message,
                   supervisor->tries >= BT_LAUNCH_TRIES
                       ? "; this is the third fault in a row without a completed step"
                       : "");
        (void)fprintf(stderr, "launcher: %s: %s; %d ranks continue as generation %lld\n",
                      bt_cause_row_of(cause.kind)->name, cause.message, supervisor->next_size,
                      (long long)supervisor->generation + 1);
    }
}

bt_status bt_launch_run(const bt_launch *launch)
{
    BT_FAIL_IF(launch->size < 1 || launch->size > BT_LAUNCH_RANKS_MAX, BT_STATUS_INVALID_ARGUMENT,
               "train.mesh: data x tensor x context is %d; one host starts 1 to %d ranks",
               launch->size, BT_LAUNCH_RANKS_MAX);
    bt_supervisor supervisor;
    bt_supervisor_init(launch, &supervisor);
    bt_status status = run_generations(&supervisor);
    bt_supervisor_release(&supervisor);
    return status;
}
