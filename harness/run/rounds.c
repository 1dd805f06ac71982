// harness/run/rounds.c - runs the rounds in the order of the schedule
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "framework/base/clock.h"
#include "framework/base/scoped.h"
#include "harness/plan/kernel.h"
#include "harness/run/child.h"
#include "harness/run/round.h"
#include "harness/run/running.h"

bt_status bt_running_artifact(const bt_running *self, const char *kind, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return BT_OK;
    }
    bt_store_artifact artifact = {
        .kind = kind, .path = path, .size_bytes = (int64_t)info.st_size, .digest = ""};
    return bt_store_artifact_add(self->store, self->outcome->run, &artifact);
}

// The effect of a round's end on the run: other rounds follow, unless it was interrupted.
static void take_outcome(bt_running *self, const char *name, const bt_round_outcome *round)
{
    if (round->status == BT_RUN_PASSED) {
        return;
    }
    const bool says_more = strcmp(round->message, bt_run_status_name(round->status)) != 0;
    bt_progress_say(&self->view, "%s %s%s%s\n", name, bt_run_status_name(round->status),
                    says_more ? ": " : "", says_more ? round->message : "");
    if (round->status == BT_RUN_UNAVAILABLE || round->status == BT_RUN_INVALID) {
        return;
    }
    if (self->outcome->status == BT_RUN_PASSED || round->status == BT_RUN_INTERRUPTED) {
        self->outcome->status = round->status;
        self->outcome->reason = round->reason;
        (void)snprintf(self->outcome->message, sizeof self->outcome->message, "%s%s%.900s", name,
                       round->status == BT_RUN_INTERRUPTED ? " " : ": ", round->message);
    }
}

// ---- one round ---------------------------------------------------------------------------------

// "layernorm pytorch-eager 2/8", and the log's path: "<dir>/layernorm-pytorch-eager-1.log", with
// ".1" after the ordinal for the second attempt, ".resumed-1" in a run that was resumed once.
static bt_status name_round(const bt_running *self, const bt_run_schedule_round *what,
                            const char *name, const bt_peer *peer, bt_str *label, bt_str *log)
{
    const int64_t wanted = self->schedule.wanted[what->case_index];
    const bool named = bt_running_is_named(self, peer);
    const char *system = named ? peer->name : "";
    bt_str_format(label, "%s%s%s", name, named ? " " : "", system);
    if (wanted > 1) {
        bt_str_format(label, " %lld/%lld", (long long)what->ordinal + 1, (long long)wanted);
    }
    bt_str_format(log, "%s/%s%s%s-%lld", bt_str_text(&self->out_dir), name, named ? "-" : "",
                  system, (long long)what->ordinal);
    if (what->attempt > 0) {
        bt_str_format(log, ".%d", what->attempt);
    }
    if (self->record) {
        bt_str_format(log, ".resumed-%lld", (long long)self->record->gap_count + 1);
    }
    bt_str_append(log, ".log");
    BT_TRY(bt_str_status(label));
    return bt_str_status(log);
}

// The last round of this case, system and ordinal in a resumed run, NULL if there is none.
static const bt_store_round *round_before(const bt_running *self, const bt_run_schedule_round *what,
                                          const char *name, const char *system)
{
    const bt_store_round *found = NULL;
    for (int64_t i = 0; self->record && i < self->record->round_count; ++i) {
        const bt_store_round *round = &self->record->rounds[i];
        if (round->ordinal == what->ordinal && strcmp(round->what.name, name) == 0 &&
            strcmp(round->what.system, system) == 0) {
            found = round;
        }
    }
    return found;
}

// Checkpoints of a round are in FOLDER/CASE-SYSTEM-ORDINAL. Another attempt of a round, or the same
// one after an interruption, resumes from those of the previous one, as far as the record goes, or
// starts from the beginning. Peers always start from the beginning.
static bt_status find_checkpoints(bt_round_request *request, bt_str *folder)
{
    const bt_running *self = request->run;
    const bt_run_schedule_round *what = request->what;
    const cJSON *keys = bt_json_get(bt_json_get(request->item, "train"), "checkpoint");
    const char *given = bt_json_text_or_null(keys, "folder");
    const char *name = bt_json_get(request->item, "name")->valuestring;
    if (!keys) {
        return BT_OK;
    }
    bt_str_format(folder, "%s%s/%s-%s-%lld", given ? given : bt_str_text(&self->out_dir),
                  given ? "" : "/checkpoints", name, request->system, (long long)what->ordinal);
    BT_TRY(bt_str_status(folder));
    const bt_store_round *before = round_before(self, what, name, request->system);
    request->checkpoints = bt_str_text(folder);
    request->resume = !request->peer->program && (what->attempt > 0 || self->record);
    // A round that completed but was disturbed is repeated from its beginning.
    request->before = before && before->status != BT_RUN_INVALID ? before : NULL;
    return BT_OK;
}

static void show_round(bt_running *self, int64_t case_index, const cJSON *item, const char *label)
{
    const bt_run_wish *wish = self->request->wish;
    bt_run_left left;
    bt_run_schedule_left(&self->schedule, wish ? wish->rounds_last : 0, &left);
    const bt_progress_place place = {.done = left.wanted - left.open,
                                     .total = left.wanted,
                                     .cases = self->schedule.case_count,
                                     .left_ns = left.left_ns,
                                     .left_most_ns = left.left_most_ns};
    if (bt_plan_times_calls(item)) {
        bt_progress_case(&self->view, label, &place);
        return;
    }
    const double mean_ns = bt_run_schedule_mean_ns(&self->schedule, case_index);
    bt_progress_round(&self->view, label, (int64_t)bt_plan_number(item, "train.steps"),
                      bt_plan_number(item, "train.eval_every") > 0, &place,
                      left.known ? left.left_ns - mean_ns : (double)NAN);
}

static bt_status run_named(bt_running *self, bt_round_request *request, const char *label)
{
    const cJSON *item = request->item;
    const bt_run_schedule_round *what = request->what;
    const bool alone = self->schedule.alone[what->case_index];
    bt_round_outcome round = {0};
    BT_SCOPED(bt_str) folder = {0}, ranks = {0};
    show_round(self, what->case_index, item, label);
    const int64_t began_ns = bt_clock_ns();
    const bt_metrics_round watched = {self->outcome->run, bt_json_get(item, "name")->valuestring,
                                      request->system, what->ordinal,
                                      (int64_t)bt_plan_number(item, "train.steps")};
    bt_metrics_round_begin(self->metrics, &watched);
    bt_ahead_take(&self->ahead, self->systems, alone ? self->system_count : what->system,
                  request->log_path, &request->started);
    bt_str_format(&ranks, "%s/ranks.json", bt_str_text(&self->out_dir));
    request->ranks_path = bt_str_text(&ranks);
    bt_status status = bt_str_status(&ranks);
    BT_IF_OK(status, find_checkpoints(request, &folder));
    BT_IF_OK(status, bt_round_run(request, &round));
    bt_metrics_round_end(self->metrics, bt_run_status_name(round.status),
                         status == BT_OK ? round.message : bt_error_message());
    BT_TRY(status);
    BT_TRY(bt_versions_save(&self->versions, self->store, self->outcome->run));
    if (!bt_plan_times_calls(item)) {
        bt_progress_pause(&self->view); // lines of cases that time calls replace each other
    }
    bt_running_take_ceiling(self, item, round.bandwidth_bytes_per_s, round.time_ns);
    bt_run_schedule_took(&self->schedule, what->case_index, (double)(bt_clock_ns() - began_ns));
    bt_run_schedule_note(&self->schedule, what, round.status, round.time_ns);
    take_outcome(self, label, &round);
    const bt_store_round ended = {.status = round.status,
                                  .what = {.name = watched.name, .system = request->system}};
    self->outcome->resumable =
        self->outcome->resumable || bt_run_schedule_goes_on(self->request->plan, &ended);
    return bt_running_artifact(self, "log", request->log_path);
}

static bt_status run_round(bt_running *self, const bt_run_schedule_round *what)
{
    const bt_peer ours = {0};
    const cJSON *item = bt_plan_case(self->request->plan, what->case_index);
    const bool alone = self->schedule.alone[what->case_index];
    const bt_peer *peer = alone ? &ours : &self->systems[what->system];
    BT_SCOPED(bt_str) log = {0}, label = {0};
    BT_TRY(name_round(self, what, bt_json_get(item, "name")->valuestring, peer, &label, &log));
    bt_round_request request = {.run = self,
                                .what = what,
                                .item = item,
                                .peer = peer,
                                .worker = bt_running_worker_of(self, peer),
                                .system = bt_running_name_of(self, peer),
                                .log_path = bt_str_text(&log)};
    return run_named(self, &request, bt_str_text(&label));
}

// ---- all rounds --------------------------------------------------------------------------------

// Queries again if all requested rounds exist, as in a resumed run.
static bt_status wish(bt_running *self, int64_t case_index)
{
    const bt_run_wish *wish = self->request->wish;
    const int64_t *wanted = &self->schedule.wanted[case_index];
    int64_t rounds = 0, before = -1;
    while (wish && *wanted > before &&
           (before < 0 || bt_run_schedule_settled(&self->schedule, case_index))) {
        before = *wanted;
        BT_TRY(wish->rounds(wish->self, &self->schedule, case_index, &rounds));
        bt_run_schedule_want(&self->schedule, case_index, rounds);
    }
    return BT_OK;
}

bt_status bt_running_schedule(bt_running *self)
{
    const bt_run_request *request = self->request;
    if (self->schedule.cells) {
        return BT_OK;
    }
    self->outcome->status = BT_RUN_PASSED;
    const int64_t rounds_max = request->wish ? request->wish->rounds_max : 0;
    BT_TRY(bt_run_schedule_make(request->plan, self->system_count, request->plan->rounds,
                                rounds_max, request->schedule_seed, &self->schedule));
    BT_TRY(bt_running_note_record(self));
    for (int64_t i = 0; i < request->plan->case_count; ++i) {
        BT_TRY(wish(self, i));
    }
    return BT_OK;
}

enum { STATES = BT_ROUND_EXCLUDED + 1 };

// Counts the rounds of a case by their state.
static void count_states(const bt_running *self, int64_t case_index, int64_t counts[STATES])
{
    const bt_run_schedule *schedule = &self->schedule;
    const int64_t systems = schedule->alone[case_index] ? 1 : self->system_count;
    for (int64_t system = 0; system < systems; ++system) {
        for (int64_t ordinal = 0; ordinal < schedule->wanted[case_index]; ++ordinal) {
            ++counts[bt_run_schedule_cell_of(schedule, case_index, system, ordinal)->state];
        }
    }
}

// The run reports that a case was not measured because it was disturbed in every attempt, or that
// nothing was measured because no system could run any case. Ceilings do not count for the latter.
static void judge_run(bt_running *self)
{
    const bt_plan *plan = self->request->plan;
    bt_run_outcome *outcome = self->outcome;
    int64_t kept = 0, unavailable = 0;
    for (int64_t i = 0; i < plan->case_count; ++i) {
        int64_t counts[STATES] = {0};
        count_states(self, i, counts);
        kept += self->schedule.alone[i] ? 0 : counts[BT_ROUND_KEPT];
        unavailable += self->schedule.alone[i] ? 0 : counts[BT_ROUND_UNAVAILABLE];
        if (counts[BT_ROUND_LOST] > 0 && counts[BT_ROUND_KEPT] == 0 &&
            outcome->status == BT_RUN_PASSED) {
            outcome->status = BT_RUN_INVALID;
            outcome->reason = BT_STATUS_UNAVAILABLE;
            (void)snprintf(outcome->message, sizeof outcome->message,
                           "%s: all rounds were disturbed, in each of %d attempts; 'bt-bench show "
                           "%lld' shows the causes",
                           bt_json_get(bt_plan_case(plan, i), "name")->valuestring,
                           BT_ROUND_ATTEMPTS, (long long)outcome->run);
        }
    }
    if (unavailable > 0 && kept == 0 && outcome->status == BT_RUN_PASSED) {
        outcome->status = BT_RUN_UNAVAILABLE;
        outcome->reason = BT_STATUS_UNAVAILABLE;
        (void)snprintf(outcome->message, sizeof outcome->message,
                       "nothing was measured: %s could not run any case here; 'bt-bench show %lld' "
                       "shows the reasons",
                       self->system_count == 1 ? self->systems[0].name : "the systems",
                       (long long)outcome->run);
    }
}

bt_status bt_running_rounds(bt_running *self)
{
    bt_run_schedule_round next;
    BT_TRY(bt_running_schedule(self));
    BT_TRY(bt_ahead_make(self->systems, self->system_count, bt_ahead_allowed(self->request->plan),
                         bt_str_text(&self->out_dir), &self->ahead));
    while (bt_run_schedule_next(&self->schedule, &next)) {
        if (bt_interrupt_count() > 0) {
            self->outcome->status = BT_RUN_INTERRUPTED;
            self->outcome->reason = BT_STATUS_INTERRUPTED;
        }
        if (self->outcome->status == BT_RUN_INTERRUPTED) {
            return BT_OK;
        }
        BT_TRY(run_round(self, &next));
        BT_TRY(wish(self, next.case_index));
    }
    judge_run(self);
    return BT_OK;
}
