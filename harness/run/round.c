// harness/run/round.c - reads a worker's events, records them, judges the end
#include "harness/run/round.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/cases/returned.h"
#include "harness/plan/kernel.h"
#include "harness/run/plausible.h"
#include "harness/run/record.h"
#include "harness/stats/noise.h"
#include "harness/stats/stats.h"
#include "harness/text/format.h"

#define LISTEN_MS 100
#define BURY_S    60 // maximum between a worker's last event and its exit
#define NS_PER_S  1000000000LL

typedef struct listening {
    const bt_round_request *request;
    bt_running *run; // of the request
    bt_child child;
    bt_recorder recorder;
    bt_run_event_state state;
    double timeout_s;      // of silence
    int64_t heard_ns;      // when the last event came
    bool stopped;          // the result reports that it was asked to stop
    int64_t behind_ns;     // the reported work after the end of timed regions
    bt_str folder;         // owned: folder of returned outputs; "": not requested
    bool returned;         // it reports that the outputs are written
    char precision[16];    // its reported precision; "": the case's
    bool killed;           // killed because it did not exit after its last event
    int interrupts_heeded; // 0: none; 1: the worker was asked to stop; 2: it was killed
    int64_t asked_ns;      // when it was asked to stop
    bt_round_outcome *outcome;
} listening;

// ---- the task ----------------------------------------------------------------------------------

static void append_paths(const char *key, const char *const *paths, int64_t count, bt_str *out)
{
    bt_str_format(out, "\"%s\":[", key);
    for (int64_t i = 0; i < count; ++i) {
        bt_str_append(out, i ? "," : "");
        bt_json_string(paths[i], out);
    }
    bt_str_append(out, "]");
}

// Requirements for a peer's times to be comparable with ours (cases/kernel_time.c): cache mode,
// warm-up, stopping rule, data, tolerance. The cache mode, bound and seed are those of the case.
static void append_rules(const cJSON *kernel, bt_str *out)
{
    const char *cache = bt_json_text_or_null(kernel, "cache");
    if (!cache) {
        return;
    }
    bt_str_append(out, ",\"rules\":{\"cache\":");
    bt_json_string(cache, out);
    bt_str_format(out,
                  ",\"scrub_caches\":2,\"rotate_caches\":5,\"warmup_calls\":3,\"samples_min\":30,"
                  "\"time_min_s\":0.3,\"interval_share\":0.0025,\"max_time_s\":%g,"
                  "\"data\":{\"distribution\":\"normal\",\"mean\":0,\"deviation\":1,\"seed\":%.0f},"
                  "\"tolerance\":{\"epsilons\":32,\"times\":\"sqrt(length)\",\"of\":\"largest "
                  "value\"},\"check\":\"before the timed loop, and after it on other values\"}",
                  bt_json_number_of(kernel, "max_time_s"), bt_json_number_of(kernel, "seed"));
}

// Number of steps of the resumed round: a checkpoint of a later step would leave a gap.
static int64_t recorded_steps(const bt_round_request *request)
{
    return request->before ? request->before->step_count : 0;
}

// The address where this rank meets the others, which an external launcher has started.
static void append_world(const bt_world *world, const cJSON *train, bt_str *out)
{
    const double hang_s = bt_json_number_of(train, "hang_s");
    bt_str_format(out,
                  ",\"ranks\":{\"rank\":%d,\"size\":%d,\"slot\":%d,\"port\":%d,"
                  "\"timeout_s\":%.17g,\"job\":\"%016llx\",\"host\":",
                  world->rank, world->size, world->local_rank, world->port,
                  hang_s > 0 ? hang_s : 86400, (unsigned long long)world->job);
    bt_json_string(world->host, out);
    bt_str_append(out, "}");
}

static void append_mesh(const bt_round_request *request, bt_str *out)
{
    const cJSON *train = bt_json_get(request->item, "train");
    const bt_world *world = request->run->request->world;
    if (bt_plan_mesh_of(train).ranks > 1) {
        bt_str_append(out, ",\"ranks_file\":");
        bt_json_string(request->ranks_path, out);
        if (world && world->launcher) {
            append_world(world, train, out);
        }
    }
}

// Without the closing brace.
static void append_task(const bt_round_request *request, bt_str *out)
{
    const bt_run_data *data = &request->run->data[request->what->case_index];
    bt_str_format(out, "{\"protocol\":%d,\"system\":", BT_RUN_EVENT_PROTOCOL);
    bt_json_string(request->system, out);
    bt_str_format(out, ",\"round\":%lld,\"device\":\"%s\",\"ordinal\":0,\"case\":",
                  (long long)request->what->ordinal, request->run->request->plan->device);
    bt_json_write(request->item, out);
    bt_str_append(out, ",\"shards\":{");
    append_paths("train", data->train, data->train_count, out);
    bt_str_append(out, ",");
    append_paths("val", data->val, data->val_count, out);
    bt_str_append(out, "}");
    if (data->questions) {
        bt_str_append(out, ",\"hellaswag\":{\"questions\":");
        bt_json_string(data->questions, out);
        bt_str_append(out, ",\"ranks\":");
        bt_json_string(data->ranks, out);
        bt_str_append(out, "}");
    }
    if (request->peer->program) {
        append_rules(bt_json_get(request->item, "kernel"), out);
    }
    if (request->checkpoints) {
        bt_str_append(out, ",\"checkpoints\":{\"folder\":");
        bt_json_string(request->checkpoints, out);
        bt_str_format(out, ",\"resume\":%s,\"below\":%lld}", request->resume ? "true" : "false",
                      request->resume ? (long long)recorded_steps(request) + 1 : 0LL);
    }
    append_mesh(request, out);
    if (request->peer->inject_slowdown > 0) {
        bt_str_format(out, ",\"inject_slowdown\":%.17g", request->peer->inject_slowdown);
    }
    if (request->peer->program && !bt_versions_know(&request->run->versions, request->system)) {
        bt_str_append(out, ",\"versions\":true");
    }
}

BT_PRINTF(4, 5)
static void judge(listening *self, bt_run_status status, bt_status reason, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    self->outcome->status = status;
    self->outcome->reason = reason;
    (void)vsnprintf(self->outcome->message, sizeof self->outcome->message, format, arguments);
    va_end(arguments);
}

// ---- telemetry ---------------------------------------------------------------------------------

// Records the samples; a round that passed and was disturbed is invalid. Samples are dropped when
// out of memory.
static bt_status judge_noise(listening *self)
{
    bt_noise_verdict verdict;
    int64_t count = 0;
    bt_round_outcome *outcome = self->outcome;
    bt_store *store = self->run->store;
    const bt_store_telemetry *samples = bt_telemetry_samples(self->run->telemetry, &count);
    bt_noise_judge(samples, count, &verdict);
    outcome->noise = verdict.noise;
    if (outcome->status == BT_RUN_PASSED && bt_noise_invalidates(verdict.noise)) {
        judge(self, BT_RUN_INVALID, BT_STATUS_UNAVAILABLE, "%s", verdict.reason);
    }
    BT_TRY(bt_recorder_take_machine(&self->recorder, samples, count));
    const char *label = bt_noise_name(verdict.noise);
    bt_status status = bt_store_telemetry_set(store, self->recorder.round, label, samples, count);
    if (status == BT_STATUS_OUT_OF_MEMORY) {
        bt_error_clear();
        status = bt_store_telemetry_set(store, self->recorder.round, label, NULL, 0);
    }
    return status;
}

// ---- listening ---------------------------------------------------------------------------------

// Reports events of checkpoints that matter to the user.
static void say_save(const listening *self, const bt_run_event_save *save)
{
    bt_progress_view *view = &self->run->view;
    const char *folder = self->request->checkpoints ? self->request->checkpoints : "";
    if (strcmp(save->kind, "loaded") == 0) {
        bt_progress_say(view, "resumed   from the checkpoint of step %lld in %s\n",
                        (long long)save->step, folder);
    } else if (strcmp(save->kind, "skipped") == 0) {
        bt_progress_say(view, "skipped   %s that %s; the newest: %s\n",
                        bt_format_items(save->step, "newer checkpoint").text,
                        save->step == 1 ? "does not verify" : "do not verify", save->message);
    } else if (strcmp(save->kind, "none") == 0 && self->request->before) {
        bt_progress_say(view, "resumed   from the beginning: %s has no checkpoint\n", folder);
    } else if (strcmp(save->kind, "failed") == 0) {
        bt_progress_say(view, "checkpoint of step %lld not saved: %s\n", (long long)save->step,
                        save->message);
    }
}

static bt_status take_event(listening *self, const bt_run_event *event)
{
    if (event->type == BT_RUN_EVENT_ERROR) {
        bt_status reason = bt_run_event_status(event->as.error.status);
        bool cannot = self->request->peer->program &&
                      (reason == BT_STATUS_UNAVAILABLE || reason == BT_STATUS_UNSUPPORTED);
        judge(self,
              reason == BT_STATUS_INTERRUPTED ? BT_RUN_INTERRUPTED
              : cannot                        ? BT_RUN_UNAVAILABLE
                                              : BT_RUN_FAILED,
              reason, "%s", event->as.error.message);
    } else if (event->type == BT_RUN_EVENT_RESULT) {
        self->stopped = event->as.result.stopped;
        self->behind_ns = event->as.result.behind_ns;
    } else if (event->type == BT_RUN_EVENT_OUTPUTS) {
        self->returned = true;
        (void)snprintf(self->precision, sizeof self->precision, "%s", event->as.outputs.precision);
    } else if (event->type == BT_RUN_EVENT_SAVE) {
        say_save(self, &event->as.save);
    } else if (event->type == BT_RUN_EVENT_VERSIONS) {
        BT_TRY(bt_versions_note(&self->run->versions, self->request->system,
                                event->as.versions.packages));
    }
    bt_progress_event_seen(&self->run->view, event);
    bt_metrics_event(self->run->metrics, event);
    BT_TRY(bt_recorder_take(&self->recorder, event));
    if (event->type == BT_RUN_EVENT_START || event->type == BT_RUN_EVENT_STEP) {
        bt_telemetry_steps(self->run->telemetry, self->recorder.step_count,
                           event->type == BT_RUN_EVENT_STEP);
    }
    return BT_OK;
}

// Handles a line of the worker. An invalid line ends it: *mistaken.
static bt_status take_line(listening *self, const bt_child_line *line, bool *mistaken)
{
    bt_run_event event;
    bt_status status = bt_run_event_parse(&self->state, line->text, line->size_bytes, &event);
    if (status == BT_OK) {
        self->heard_ns = bt_clock_ns();
        status = take_event(self, &event);
        bt_run_event_release(&event);
        return status;
    }
    if (status == BT_STATUS_CORRUPT_DATA) {
        // An incomplete line comes from a killed worker, whose exit status is more specific.
        *mistaken = line->complete;
        if (line->complete) {
            judge(self, BT_RUN_FAILED, status, "%s", bt_error_message());
        }
        return BT_OK;
    }
    return status;
}

static int grace_s(const listening *self)
{
    return self->request->checkpoints ? BT_ROUND_SAVE_GRACE_S : BT_ROUND_GRACE_S;
}

// The first signal asks the worker to stop; a second one, or the end of the grace period, kills it
// with its process group: a worker that hangs must not keep the recorder alive.
static void heed_interrupts(listening *self)
{
    int count = bt_interrupt_count();
    if (count > 0 && self->interrupts_heeded == 0) {
        bt_progress_say(&self->run->view,
                        "stopping after this step%s, or in %d s; again (Ctrl-C) to stop at once\n",
                        self->request->checkpoints ? " and a checkpoint" : "", grace_s(self));
        bt_child_ask_stop(&self->child);
        self->asked_ns = bt_clock_ns();
        self->interrupts_heeded = 1;
    }
    bool over = bt_clock_ns() - self->asked_ns >= grace_s(self) * NS_PER_S;
    if (self->interrupts_heeded == 1 && (count > 1 || over)) {
        bt_child_kill(&self->child);
        self->interrupts_heeded = 2;
    }
}

static const char *kind_of(const listening *self)
{
    return bt_json_get(self->request->item, "kind")->valuestring;
}

// Gives up a worker that has been silent for longer than the plan allows: true. A hang is a failure
// of the measured program, as a crash is, hence INTERNAL (exit code 5).
static bool give_up(listening *self)
{
    double silent_s = (double)(bt_clock_ns() - self->heard_ns) / 1e9;
    if (self->timeout_s <= 0 || silent_s < self->timeout_s) {
        return false;
    }
    if (strcmp(kind_of(self), "command") == 0) {
        judge(self, BT_RUN_FAILED, BT_STATUS_INTERNAL,
              "a call took longer than command.timeout_s, %.4g s, and was stopped",
              self->timeout_s);
    } else {
        judge(self, BT_RUN_FAILED, BT_STATUS_INTERNAL,
              "the worker printed nothing for %.4g s and was stopped, after %lld lines; "
              "%s.timeout_s is the limit",
              self->timeout_s, (long long)self->state.line, kind_of(self));
    }
    return true;
}

static bt_status listen_to_end(listening *self)
{
    for (;;) {
        bt_child_said said = BT_CHILD_NOTHING;
        bt_child_line line;
        bool mistaken = false;
        heed_interrupts(self);
        bt_telemetry_tick(self->run->telemetry);
        bt_status status =
            bt_child_listen(&self->child, bt_telemetry_wait_ms(self->run->telemetry, LISTEN_MS),
                            BT_RUN_EVENT_LINE_BYTES_MAX, &said, &line);
        if (status == BT_STATUS_CORRUPT_DATA) {
            judge(self, BT_RUN_FAILED, status, "%s", bt_error_message());
            return BT_OK;
        }
        BT_TRY(status);
        if (said == BT_CHILD_END) {
            return BT_OK;
        }
        if (said == BT_CHILD_LINE) {
            BT_TRY(take_line(self, &line, &mistaken));
        } else {
            bt_progress_silence(&self->run->view);
            bt_metrics_tick(self->run->metrics);
        }
        if (mistaken || give_up(self)) {
            return BT_OK;
        }
        BT_TRY(bt_store_tick(self->run->store));
    }
}

// ---- the exit ----------------------------------------------------------------------------------

// A note or a line of the launcher, of this process or of a rank ("rank 0: note: ..."): not an
// error.
static bool is_note(const char *line)
{
    const size_t digits = strncmp(line, "rank ", 5) == 0 ? strspn(line + 5, "0123456789") : 0;
    line += digits > 0 && strncmp(line + 5 + digits, ": ", 2) == 0 ? 7 + digits : 0;
    return strncmp(line, "note: ", 6) == 0 || strncmp(line, "launcher: ", 10) == 0;
}

// Quotes the last line of the worker's log that is neither empty nor a note, if there is one. A
// killed worker could not say anything about its end.
static void append_last_words(const bt_child *child, const char *log_path, bt_str *out)
{
    void *bytes = NULL;
    size_t size_bytes = 0;
    if (WIFSIGNALED(child->state) && WTERMSIG(child->state) == SIGKILL) {
        return;
    }
    if (bt_file_read(log_path, &bytes, &size_bytes) != BT_OK) {
        bt_error_clear();
        return;
    }
    char *text = bytes;
    const char *last = NULL;
    for (bool more = true; more;) {
        char *newline = strrchr(text, '\n');
        last = newline ? newline + 1 : text;
        more = newline && (last[strspn(last, " ")] == '\0' || is_note(last));
        if (more) {
            *newline = '\0';
        }
    }
    if (last[strspn(last, " ")] && !is_note(last)) {
        bt_str_format(out, "; it said: %.300s", last);
    }
    bt_mem_free(bytes);
}

// The reason for a worker that died, or exited without result or error.
static void judge_silent_end(listening *self)
{
    BT_SCOPED(bt_str) message = {0};
    const bt_child *child = &self->child;
    if (self->interrupts_heeded) {
        judge(self, BT_RUN_INTERRUPTED, BT_STATUS_INTERRUPTED, "interrupted");
        return;
    }
    bt_str_append(&message, "the worker ");
    if (self->killed) {
        bt_str_append(&message, "closed its output, did not exit and ");
    }
    bt_child_describe_end(child, &message);
    bt_str_format(&message, " after %lld steps%s", (long long)self->recorder.step_count,
                  self->state.done ? ", after its result" : ", without a result");
    if (WIFSIGNALED(child->state) && WTERMSIG(child->state) == 9 && !self->killed) {
        bt_str_append(&message, " (the system sends this signal when memory runs out)");
    }
    append_last_words(child, self->request->log_path, &message);
    judge(self, BT_RUN_FAILED, BT_STATUS_INTERNAL, "%s", bt_str_text(&message));
}

// A round with a wrong or impossible result has no measurements.
static void reject(listening *self, bt_run_status status, const char *message)
{
    judge(self, status, BT_STATUS_CORRUPT_DATA, "%s", message);
    self->recorder.measured = false;
}

// Implausible times fail a round that has otherwise passed.
static void judge_times(listening *self, const bt_str *wrong)
{
    if (bt_str_status(wrong) != BT_OK || wrong->length_bytes) {
        reject(self, BT_RUN_FAILED, wrong->length_bytes ? bt_str_text(wrong) : bt_error_message());
    }
}

static double wall_ns(const listening *self)
{
    return (double)(bt_clock_ns() - self->recorder.started_ns);
}

// A measured rate of this run, to which the case is compared; 0: none, or it is one itself.
static double ceiling_of(const listening *self, double *(*of)(bt_running *, const cJSON *))
{
    const cJSON *item = self->request->item;
    const bool compared = bt_running_copy_of(self->run, item) && !bt_plan_kernel_is_ceiling(item);
    const double *rate = compared ? of(self->run, item) : NULL;
    return rate ? *rate : 0;
}

static void judge_call_times(listening *self)
{
    const cJSON *kernel = bt_json_get(self->request->item, "kernel");
    bt_recorder *recorder = &self->recorder;
    bt_stats time;
    BT_SCOPED(bt_str) wrong = {0};
    if (bt_stats_of(recorder->times_ns, recorder->time_count, &time) == BT_OK) {
        bt_plausible_kernel seen = {.median_ns = time.median,
                                    .total_ns = recorder->total_ns,
                                    .wall_ns = wall_ns(self),
                                    .bytes = bt_json_number_of(kernel, "bytes"),
                                    .flops = bt_json_number_of(kernel, "flops"),
                                    .copy_bytes_per_s = recorder->copy_bytes_per_s,
                                    .product_flop_per_s = ceiling_of(self, bt_running_product_of),
                                    .hot = bt_json_is_text(kernel, "cache", "hot"),
                                    .gpu = strcmp(self->run->request->plan->device, "cpu") != 0};
        bt_plausible_check_kernel(&seen, &wrong);
        judge_times(self, &wrong);
        if (self->outcome->status == BT_RUN_PASSED) {
            bt_plausible_check_floor(&seen, &wrong);
            if (wrong.length_bytes) { // below the physical minimum: the round is repeated
                reject(self, BT_RUN_INVALID, bt_str_text(&wrong));
            }
        }
    } else {
        judge(self, BT_RUN_FAILED, BT_STATUS_OUT_OF_MEMORY, "%s", bt_error_message());
    }
}

static void judge_step_times(listening *self)
{
    const bt_recorder *recorder = &self->recorder;
    BT_SCOPED(bt_str) wrong = {0};
    // If ranks were lost, an unknown time passed without steps.
    const bool gaps = recorder->recovery_count > 0;
    bt_plausible_steps seen = {
        .steps = recorder->steps + recorder->first_step,
        .count = recorder->step_count - recorder->first_step,
        .evals_ns = recorder->evals_ns + recorder->saves_ns,
        .wall_ns = wall_ns(self),
        .arrivals_ns = gaps ? 0 : (double)(recorder->last_step_ns - recorder->first_step_ns)};
    bt_plausible_check_steps(&seen, &wrong);
    judge_times(self, &wrong);
}

// There must be timed calls.
static void judge_measured(listening *self)
{
    bt_recorder *recorder = &self->recorder;
    if (recorder->measured && recorder->calls.error_share > 1) {
        judge(self, BT_RUN_FAILED, BT_STATUS_INTERNAL,
              "wrong result: the worker's largest error is %.3g times its tolerance",
              recorder->calls.error_share);
        recorder->measured = false; // a wrong result has no time
    } else if (recorder->measured && recorder->time_count > 0) {
        judge(self, BT_RUN_PASSED, BT_OK, "%s", "");
        judge_call_times(self);
    } else {
        judge(self, BT_RUN_FAILED, BT_STATUS_INTERNAL,
              "the worker ended without the events samples and measured");
    }
}

// A worker that exited successfully must have done all steps of the plan.
static void judge_good_end(listening *self)
{
    if (bt_plan_times_calls(self->request->item)) {
        judge_measured(self);
        return;
    }
    int64_t planned = (int64_t)bt_plan_number(self->request->item, "train.steps");
    if (self->recorder.step_count == planned) {
        judge(self, BT_RUN_PASSED, BT_OK, "%s", "");
        judge_step_times(self);
    } else {
        judge(self, BT_RUN_FAILED, BT_STATUS_INTERNAL, "the worker ended after %lld of %lld steps",
              (long long)self->recorder.step_count, (long long)planned);
    }
}

// Untimed work makes a round invalid that has otherwise passed.
static void judge_behind(listening *self)
{
    if (self->outcome->status == BT_RUN_PASSED && self->behind_ns > 0) {
        judge(self, BT_RUN_INVALID, BT_STATUS_CORRUPT_DATA,
              BT_INVALID_UNJOINED "for %lld ns, on streams that the timed region does not join",
              (long long)self->behind_ns);
        self->recorder.measured = false;
    }
}

// If a peer returned outputs, they must be correct, or the round is invalid. If it returned none,
// its own check is accepted.
static void judge_returned(listening *self)
{
    const cJSON *kernel = bt_json_get(self->request->item, "kernel");
    double worst = 0;
    if (self->outcome->status != BT_RUN_PASSED || !self->returned ||
        self->folder.length_bytes == 0) {
        return;
    }
    if (bt_returned_check(kernel, bt_str_text(&self->folder), self->precision, &worst) == BT_OK) {
        self->recorder.output_error_share = worst;
        return;
    }
    judge(self, BT_RUN_INVALID, BT_STATUS_CORRUPT_DATA, BT_INVALID_OUTPUTS "%.800s",
          bt_error_message());
    self->recorder.measured = false; // a wrong result has no time
}

// Waits for the process to exit after its last event.
static void bury(listening *self, bool at_once)
{
    double limit_s =
        self->timeout_s > 0 && self->timeout_s < BURY_S ? self->timeout_s : (double)BURY_S;
    int64_t from_ns = bt_clock_ns();
    if (at_once) {
        bt_child_kill(&self->child);
    }
    while (!bt_child_wait(&self->child, LISTEN_MS)) {
        heed_interrupts(self);
        bt_progress_silence(&self->run->view);
        if ((double)(bt_clock_ns() - from_ns) > limit_s * 1e9 && !self->killed) {
            self->killed = true;
            bt_child_kill(&self->child);
        }
    }
}

// The key "returns" of a peer's task.
static bt_status ask_for_outputs(listening *self, bt_str *task)
{
    const bt_round_request *request = self->request;
    const cJSON *kernel = bt_json_get(request->item, "kernel");
    if (!request->peer->program || request->peer->build || !kernel || !bt_returned_can(kernel)) {
        return BT_OK;
    }
    bt_str_format(&self->folder, "%s.returns", request->log_path);
    BT_TRY(bt_str_status(&self->folder));
    return bt_returned_ask(kernel, bt_str_text(&self->folder), task);
}

static bt_status run_worker(listening *self)
{
    const bt_round_request *request = self->request;
    BT_SCOPED(bt_str) task = {0};
    append_task(request, &task);
    BT_TRY(ask_for_outputs(self, &task));
    bt_str_append(&task, "}");
    BT_TRY(bt_str_status(&task));
    BT_TRY(self->child.process ? BT_OK
                               : bt_child_spawn(request->worker, request->peer->build,
                                                request->log_path, &self->child));
    BT_TRY(bt_child_give(&self->child, bt_str_text(&task)));
    judge(self, BT_RUN_RUNNING, BT_OK, "%s", "");
    self->heard_ns = bt_clock_ns();
    bt_telemetry_begin(self->run->telemetry, self->child.process,
                       self->run->request->world ? 1 : bt_running_gpus_of(request->item));
    const bt_status status = listen_to_end(self);
    bt_telemetry_end(self->run->telemetry);
    bury(self, status != BT_OK || (self->outcome->status == BT_RUN_FAILED && !self->state.failed));
    BT_TRY(status);
    if (self->outcome->status != BT_RUN_RUNNING) {
        return BT_OK;
    }
    if (self->state.done && self->stopped) {
        judge(self, BT_RUN_INTERRUPTED, BT_STATUS_INTERRUPTED, "interrupted");
    } else if (!self->state.done || !WIFEXITED(self->child.state) ||
               WEXITSTATUS(self->child.state) != 0) {
        judge_silent_end(self);
    } else {
        judge_good_end(self);
        judge_behind(self);
        judge_returned(self);
    }
    return BT_OK;
}

static void set_limits(listening *self)
{
    const cJSON *item = self->request->item;
    int64_t steps = (int64_t)bt_plan_number(item, "train.steps");
    const cJSON *kernel = bt_json_get(item, "kernel"); // for collective cases, too
    self->timeout_s =
        bt_plan_number(kernel ? kernel : bt_json_get(item, kind_of(self)), "timeout_s");
    self->state.limits = (bt_run_event_limits){.kind = kind_of(self),
                                               .steps = steps,
                                               .first_step = recorded_steps(self->request),
                                               .lines = bt_run_event_lines_max(steps),
                                               .samples = BT_RUN_EVENT_SAMPLES_MAX};
}

static bt_status run_round(listening *self)
{
    const bt_round_request *request = self->request;
    const bt_running *run = self->run;
    bt_recorder *recorder = &self->recorder;
    BT_TRY(bt_recorder_begin(run->store, run->outcome->run, run->request->plan->suite,
                             request->item, request->system, request->what->ordinal, recorder));
    recorder->on_gpu = strcmp(run->request->plan->device, "cuda") == 0;
    recorder->copy_bytes_per_s = ceiling_of(self, bt_running_copy_of);
    recorder->before = request->before;
    set_limits(self);
    BT_TRY(run_worker(self));
    BT_TRY(judge_noise(self));
    BT_TRY(bt_recorder_end(recorder, self->outcome->status, self->outcome->message));
    self->outcome->bandwidth_bytes_per_s = recorder->bandwidth_bytes_per_s;
    self->outcome->time_ns = recorder->time_ns;
    return BT_OK;
}

bt_status bt_round_run(const bt_round_request *request, bt_round_outcome *outcome)
{
    listening self = {
        .request = request, .run = request->run, .outcome = outcome, .child = request->started};
    *outcome = (bt_round_outcome){.noise = BT_NOISE_QUIET};
    bt_status status = run_round(&self);
    if (self.folder.length_bytes > 0) {
        bt_returned_remove(bt_str_text(&self.folder));
    }
    bt_str_release(&self.folder);
    bt_child_release(&self.child);
    bt_recorder_release(&self.recorder);
    return status;
}
