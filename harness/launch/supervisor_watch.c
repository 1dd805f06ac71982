#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/clock.h"
#include "framework/base/idioms.h"
#include "harness/launch/supervisor.h"

enum { STRAGGLER_STEPS = 50, STRAGGLER_PERCENT = 5, HANG_STEPS = 5, KNOWN_STEPS = 3 };

static const int64_t second_ns = 1000000000;

void bt_supervisor_note_steps(bt_supervisor *supervisor)
{
    int64_t fewest = INT64_MAX;
    BT_EACH(bt_rank, rank, supervisor->ranks, supervisor->size) {
        const int64_t step_ns = atomic_load(&rank->flight.board->step_ns);
        const int64_t steps = atomic_load(&rank->flight.board->steps);
        if (rank->seen_step_ns > 0 && steps == rank->seen_steps + 1) {
            const int64_t took_ns = step_ns - rank->seen_step_ns;
            rank->step_max_ns = took_ns > rank->step_max_ns ? took_ns : rank->step_max_ns;
            ++rank->known_steps;
        }
        rank->seen_steps = steps;
        rank->seen_step_ns = step_ns;
        fewest = steps < fewest ? steps : fewest;
    }
    supervisor->steps = fewest > supervisor->steps ? fewest : supervisor->steps;
}

// In a training step, or in a call that waits for a rank in a step.
static bool is_in_step(const bt_rank *rank)
{
    char path[BT_FLIGHT_PATH_BYTES] = "";
    bt_flight_call call;
    bt_flight_path(&rank->flight, path);
    return strncmp(path, "step", 4) == 0 ||
           (bt_flight_read(&rank->flight, atomic_load(&rank->flight.board->calls), &call) &&
            atomic_load(&call.state) == BT_FLIGHT_ENTERED);
}

// A stopped process makes no progress, wherever it is.
static bool some_is_stopped(const bt_supervisor *supervisor)
{
    bool stopped = false;
    for (int i = 0; i < supervisor->size && !stopped; ++i) {
        stopped = bt_rank_is_stopped(&supervisor->ranks[i]);
    }
    return stopped;
}

double bt_supervisor_silence_s(const bt_supervisor *supervisor)
{
    int64_t last_ns = 0, longest_ns = 0;
    bool in_steps = true;
    BT_EACH(const bt_rank, rank, supervisor->ranks, supervisor->size) {
        const int64_t beat_ns = atomic_load(&rank->flight.board->beat_ns);
        last_ns = beat_ns > last_ns ? beat_ns : last_ns;
        longest_ns = rank->step_max_ns > longest_ns ? rank->step_max_ns : longest_ns;
        in_steps = in_steps && rank->known_steps >= KNOWN_STEPS && is_in_step(rank);
    }
    const double hang_s = supervisor->launch->hang_s;
    const double steps_s = 1 + HANG_STEPS * (double)longest_ns / 1e9;
    const double silent_s = (double)(bt_clock_ns() - last_ns) / 1e9;
    in_steps = in_steps || (silent_s > steps_s && last_ns > 0 && some_is_stopped(supervisor));
    const double limit_s = in_steps && (hang_s <= 0 || steps_s < hang_s) ? steps_s : hang_s;
    return last_ns > 0 && limit_s > 0 && silent_s > limit_s ? silent_s : 0;
}

bool bt_supervisor_look_for_xids(bt_supervisor *supervisor, bt_cause *cause)
{
    int gpu = -1;
    unsigned long long xid = 0;
    const int64_t now_ns = bt_clock_ns();
    if (!supervisor->xids.open || now_ns - supervisor->xids_ns < second_ns / 10) {
        return false;
    }
    supervisor->xids_ns = now_ns;
    while (bt_xid_watch_next(&supervisor->xids, &gpu, &xid)) {
        const char *meaning = "";
        const bt_xid_action action = bt_xid_action_of(xid, &meaning);
        for (int i = 0; i < supervisor->size && action != BT_XID_NONE; ++i) {
            if (supervisor->ranks[i].slot == gpu) {
                bt_cause_set(cause, action == BT_XID_QUARANTINE ? BT_CAUSE_GPU_LOST : BT_CAUSE_XID,
                             i, BT_STATUS_UNAVAILABLE,
                             "rank %d: the driver reports XID %llu for GPU %d: %s", i, xid, gpu,
                             meaning);
                return true;
            }
        }
    }
    return false;
}

void bt_supervisor_cause_faults(bt_supervisor *supervisor)
{
    const bt_launch *launch = supervisor->launch;
    if (supervisor->caused_ns || supervisor->next_fault >= launch->fault_count) {
        return;
    }
    const bt_launch_fault *fault = &launch->faults[supervisor->next_fault];
    const bool at_start = fault->step == BT_LAUNCH_AT_START;
    if (supervisor->recovering && !at_start) {
        return;
    }
    if (fault->rank >= supervisor->size) { // the number of ranks has decreased
        ++supervisor->next_fault;
        return;
    }
    const bt_rank *rank = &supervisor->ranks[fault->rank];
    const bt_flight_board *board = rank->flight.board;
    const bool stepped =
        atomic_load(&board->step_ns) > 0 && atomic_load(&board->steps) >= fault->step;
    if (rank->over || !(stepped || at_start)) {
        return;
    }
    const int64_t now_ns = bt_clock_ns();
    supervisor->fault_due_ns =
        supervisor->fault_due_ns ? supervisor->fault_due_ns : now_ns + fault->delay_ns;
    if (now_ns >= supervisor->fault_due_ns) {
        supervisor->caused_ns = now_ns;
        supervisor->fault_due_ns = 0;
        ++supervisor->next_fault;
        (void)kill(rank->child.process, fault->signal);
    }
}

// ---- stragglers ---------------------------------------------------------------------------------

static int compare_ns(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static int64_t waited_ns(const bt_rank *rank)
{
    return (int64_t)atomic_load(&rank->flight.board->waited_ns);
}

// The recorded waits are those of a rank's host. Ranks on GPUs wait on their devices, ranks that
// share processors also for the turns of others.
static bool judges_stragglers(const bt_launch *launch)
{
    return !launch->devices && !launch->take_turns;
}

static bt_status report_straggler(bt_supervisor *supervisor, int rank, double share)
{
    char message[256];
    (void)snprintf(message, sizeof message,
                   "rank %d computed longer than the median rank in the last %d steps, by %.1f %% "
                   "of their time; the other ranks waited for it",
                   rank, STRAGGLER_STEPS, 100 * share);
    const bt_run_event event = {
        .type = BT_RUN_EVENT_FAULT,
        .as.fault = {supervisor->relay.next_step, "straggler", "report", message}};
    (void)fprintf(stderr, "launcher: %s\n", message);
    return bt_relay_report(&supervisor->relay, &event);
}

static void open_window(bt_supervisor *supervisor)
{
    supervisor->window_ns = bt_clock_ns();
    supervisor->straggler_step = supervisor->steps;
    for (int i = 0; i < supervisor->size; ++i) {
        supervisor->waited_ns[i] = waited_ns(&supervisor->ranks[i]);
    }
}

bt_status bt_supervisor_note_stragglers(bt_supervisor *supervisor)
{
    int64_t worked_ns[BT_LAUNCH_RANKS_MAX], sorted_ns[BT_LAUNCH_RANKS_MAX];
    if (supervisor->window_ns == 0 && supervisor->ranks[0].known_steps >= KNOWN_STEPS) {
        open_window(supervisor);
    }
    if (!judges_stragglers(supervisor->launch) || supervisor->window_ns == 0 ||
        supervisor->size < 2 || supervisor->steps - supervisor->straggler_step < STRAGGLER_STEPS) {
        return BT_OK;
    }
    const int64_t passed_ns = bt_clock_ns() - supervisor->window_ns;
    int slowest = 0;
    for (int i = 0; i < supervisor->size; ++i) {
        worked_ns[i] = passed_ns - (waited_ns(&supervisor->ranks[i]) - supervisor->waited_ns[i]);
        sorted_ns[i] = worked_ns[i];
        slowest = worked_ns[i] > worked_ns[slowest] ? i : slowest;
    }
    qsort(sorted_ns, (size_t)supervisor->size, sizeof *sorted_ns, compare_ns);
    // for two ranks, the faster one
    const int64_t median_ns = sorted_ns[(supervisor->size - 1) / 2];
    open_window(supervisor);
    // Relative to passed_ns, so that ranks that nearly always wait are not stragglers of each
    // other.
    const double share = (double)(worked_ns[slowest] - median_ns) / (double)passed_ns;
    return passed_ns > second_ns / 10 && share > STRAGGLER_PERCENT / 100.0
               ? report_straggler(supervisor, slowest, share)
               : BT_OK;
}
