#include "harness/launch/cause.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "framework/base/scoped.h"

const bt_cause_row *bt_cause_row_of(bt_cause_kind kind)
{
    static const bt_cause_row rows[] = {
#define X(name, text, action, description) {text, BT_LAUNCH_##action, description},
#include "harness/launch/faults.inl"
#undef X
    };
    static const bt_cause_row none = {"none", BT_LAUNCH_RESTART, "nothing happened"};
    return (unsigned)kind < BT_CAUSE_COUNT ? &rows[kind] : &none;
}

static bool was_killed(const bt_rank *rank)
{
    return rank->over && !rank->replaced && WIFSIGNALED(rank->child.state);
}

static bool has_succeeded(const bt_rank *rank)
{
    return rank->over && WIFEXITED(rank->child.state) && WEXITSTATUS(rank->child.state) == 0 &&
           rank->said == BT_OK && *rank->digest;
}

// Whether the rank's error is a consequence of another rank's failure.
static bool blames_another(const bt_rank *rank)
{
    return rank->said == BT_STATUS_INTERRUPTED || rank->said == BT_STATUS_UNAVAILABLE;
}

static bool failed_by_itself(const bt_rank *rank)
{
    return rank->over && !rank->replaced && !has_succeeded(rank) && !blames_another(rank);
}

bool bt_cause_is_known(const bt_rank *ranks, int size)
{
    for (int i = 0; i < size; ++i) {
        if (was_killed(&ranks[i]) || failed_by_itself(&ranks[i])) {
            return true;
        }
    }
    return false;
}

static bt_cause_kind kind_of_error(bt_status said)
{
    static const bt_cause_kind kinds[BT_STATUS_COUNT] = {
        [BT_STATUS_OK] = BT_CAUSE_EXIT,
        [BT_STATUS_INVALID_ARGUMENT] = BT_CAUSE_REFUSED,
        [BT_STATUS_UNSUPPORTED] = BT_CAUSE_REFUSED,
        [BT_STATUS_UNAVAILABLE] = BT_CAUSE_FAILED,
        [BT_STATUS_OUT_OF_MEMORY] = BT_CAUSE_MEMORY,
        [BT_STATUS_IO] = BT_CAUSE_FAILED,
        [BT_STATUS_CORRUPT_DATA] = BT_CAUSE_REFUSED,
        [BT_STATUS_INTERRUPTED] = BT_CAUSE_FAILED,
        [BT_STATUS_INTERNAL] = BT_CAUSE_FAILED,
    };
    return (unsigned)said < BT_STATUS_COUNT ? kinds[said] : BT_CAUSE_FAILED;
}

static void describe_end(const bt_rank *rank, bt_str *text)
{
    bt_str_format(text, "rank %d (process %d) ", rank->rank, (int)rank->child.process);
    bt_child_describe_end(&rank->child, text);
    if (rank->flight.board) {
        char path[BT_FLIGHT_PATH_BYTES] = "";
        bt_flight_path(&rank->flight, path);
        bt_str_format(text, " after %lld steps",
                      (long long)atomic_load(&rank->flight.board->steps));
        bt_str_format(text, *path ? ", in %s" : "%s", path);
    }
}

void bt_cause_set(bt_cause *cause, bt_cause_kind kind, int rank, bt_status status,
                  const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    *cause = (bt_cause){.kind = kind, .rank = rank, .status = status};
    (void)vsnprintf(cause->message, sizeof cause->message, format, arguments);
    va_end(arguments);
}

// The rank that ended first among those that `test` names; NULL: none.
static const bt_rank *first_of(const bt_rank *ranks, int size, bool (*test)(const bt_rank *))
{
    const bt_rank *first = NULL;
    for (int i = 0; i < size; ++i) {
        if (test(&ranks[i]) && (!first || ranks[i].over_ns < first->over_ns)) {
            first = &ranks[i];
        }
    }
    return first;
}

static bool has_said_internal(const bt_rank *rank) { return rank->said == BT_STATUS_INTERNAL; }

static bool has_ended_badly(const bt_rank *rank)
{
    return rank->over && !rank->replaced && !has_succeeded(rank);
}

// The rank that called another collective than the others, or did not enter one.
static bool find_blamed(const bt_rank *ranks, int size, int *rank, bt_str *text)
{
    bt_flight flights[BT_FLIGHT_CALLS] = {0};
    if (size > BT_FLIGHT_CALLS) {
        return false;
    }
    for (int i = 0; i < size; ++i) {
        flights[i] = ranks[i].flight;
    }
    bt_flight_compare(flights, size, rank, text);
    return *rank >= 0;
}

static bool is_divergence(const bt_str *why)
{
    return strstr(bt_str_text(why), "left the common order") != NULL;
}

static void judge_hang(const bt_rank *ranks, int size, double hang_s, bt_cause *out, bt_str *text)
{
    int rank = -1;
    BT_SCOPED(bt_str) why = {0};
    bool found = find_blamed(ranks, size, &rank, &why);
    const bool divergent = found && is_divergence(&why);
    int silent = 0;
    for (int i = 1; i < size; ++i) {
        if (atomic_load(&ranks[i].flight.board->beat_ns) <
            atomic_load(&ranks[silent].flight.board->beat_ns)) {
            silent = i;
        }
    }
    bool stopped = false;
    for (int i = 0; i < size && !stopped; ++i) {
        stopped = bt_rank_is_stopped(&ranks[i]);
        silent = stopped ? i : silent;
    }
    if (stopped && !divergent && rank != silent) {
        found = false;
    }
    rank = found ? rank : silent;
    char path[BT_FLIGHT_PATH_BYTES] = "";
    bt_flight_path(&ranks[rank].flight, path);
    bt_str_format(text, "no rank has made progress for %.3g s; ", hang_s);
    if (found) {
        bt_str_append(text, bt_str_text(&why));
    } else {
        bt_str_format(text, "rank %d %s%s%s", rank,
                      stopped ? "is stopped" : "was the first without progress",
                      *path ? ", in " : "", path);
    }
    bt_cause_set(out, divergent ? BT_CAUSE_DIVERGENT : BT_CAUSE_HANG, rank, BT_STATUS_UNAVAILABLE,
                 "%s", bt_str_text(text));
}

static void judge_end(const bt_rank *ranks, int size, bt_cause *out, bt_str *text)
{
    int rank = -1;
    const bt_rank *killed = first_of(ranks, size, was_killed);
    const bt_rank *internal = first_of(ranks, size, has_said_internal);
    if (killed) {
        describe_end(killed, text);
        bt_cause_set(out, BT_CAUSE_KILLED, killed->rank, BT_STATUS_UNAVAILABLE, "%s",
                     bt_str_text(text));
        return;
    }
    if (internal && find_blamed(ranks, size, &rank, text) && is_divergence(text)) {
        bt_cause_set(out, BT_CAUSE_DIVERGENT, rank, BT_STATUS_INTERNAL, "%s", bt_str_text(text));
        return;
    }
    bt_str_clear(text); // it does not explain an error that a rank did not enter a call
    const bt_rank *guilty = first_of(ranks, size, failed_by_itself);
    guilty = guilty ? guilty : first_of(ranks, size, has_ended_badly);
    if (!guilty) {
        return;
    }
    if (guilty->said != BT_OK) {
        bt_cause_set(out, kind_of_error(guilty->said), guilty->rank, guilty->said, "rank %d: %s",
                     guilty->rank, guilty->message);
    } else {
        describe_end(guilty, text);
        bt_str_append(text, ", without a result");
        bt_cause_set(out, BT_CAUSE_EXIT, guilty->rank, BT_STATUS_UNAVAILABLE, "%s",
                     bt_str_text(text));
    }
}

void bt_cause_find(const bt_rank *ranks, int size, double hang_s, bt_cause *out)
{
    BT_SCOPED(bt_str) text = {0};
    *out = (bt_cause){.kind = BT_CAUSE_NONE, .rank = -1};
    if (hang_s > 0) {
        judge_hang(ranks, size, hang_s, out, &text);
    } else {
        judge_end(ranks, size, out, &text);
    }
}
