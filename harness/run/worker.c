// harness/run/worker.c - reads a task, runs its case, writes events
#include "harness/run/worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "framework/base/scoped.h"
#include "harness/cases/cases.h"
#include "harness/plan/plan.h"
#include "harness/run/event.h"
#include "harness/run/ranks.h"
#include "harness/run/watchdog.h"
#include "harness/stats/loss.h"

#define TASK_BYTES_MAX (BT_JSON_SIZE_BYTES_MAX)
// With several ranks, the launcher ends a hang after train.hang_s and the group after at most twice
// that. They know which rank is waited for, so the watchdog of a rank is the last.
#define RANK_HANG_LIMITS 3

typedef struct worker {
    int input, output;
    bt_str line;   // of the event being written
    bool stopping; // asked to, or the recorder is gone
    bt_json_doc task;
    const char **shards; // owned, train and then val
    bt_ranges ranges;    // of the current case
    bt_watchdog *watchdog;
    bt_ranks *ranks;             // owned; NULL: the only rank
    int64_t peak_resident_bytes; // of the processes of a command; 0: this process is measured
    pthread_mutex_t speaking;    // held while a line is written
} worker;

// ---- events ------------------------------------------------------------------------------------

static bt_status write_event(worker *self, const bt_run_event *event)
{
    bt_str_clear(&self->line);
    bt_run_event_write(event, &self->line);
    BT_TRY(bt_str_status(&self->line));
    const char *text = bt_str_text(&self->line);
    for (size_t left = self->line.length_bytes; left;) {
        ssize_t part = write(self->output, text, left);
        BT_FAIL_IF(part < 0 && errno != EINTR, BT_STATUS_IO, "the recorder closed its pipe: %s",
                   strerror(errno));
        text += part > 0 ? part : 0;
        left -= part > 0 ? (size_t)part : 0;
    }
    return BT_OK;
}

static bt_status say(worker *self, const bt_run_event *event)
{
    (void)pthread_mutex_lock(&self->speaking);
    bt_status status = write_event(self, event);
    (void)pthread_mutex_unlock(&self->speaking);
    bt_watchdog_beat(self->watchdog);
    return status;
}

// Writes an event; the arguments after its type and union member initialize that member.
#define SAY(self, TYPE, member, ...)                                                               \
    say(self, &(bt_run_event){.type = BT_RUN_EVENT_##TYPE, .as.member = {__VA_ARGS__}})

// Runs on the watching thread. A thread in the middle of writing a line waits for the recorder: not
// a hang.
static bool hangs(void *context, const char *where, const char *device)
{
    worker *self = context;
    char message[BT_RANGES_TEXT_BYTES + BT_RANGES_DEVICE_TEXT_BYTES + 160];
    if (pthread_mutex_trylock(&self->speaking) != 0) {
        return false;
    }
    (void)snprintf(message, sizeof message,
                   "the worker hangs in %s: no range began or ended for train.hang_s seconds"
                   "%s%s",
                   *where ? where : "no range (opening the device, model or data)",
                   *device ? "; " : "", device);
    const bt_run_event event = {.type = BT_RUN_EVENT_ERROR,
                                .as.error = {bt_status_text(BT_STATUS_INTERNAL), message}};
    (void)!write_event(self, &event);
    (void)fprintf(stderr, "%s\n", message);
    (void)fflush(stderr);
    _exit(bt_status_exit_code(BT_STATUS_INTERNAL)); // a hanging thread cannot be ended
}

static bt_status on_start(void *context, const bt_train_start *start)
{
    return SAY(context, START, start, BT_RUN_EVENT_PROTOCOL, "blutrain", start->device->name,
               start->parameters, start->tensors, start->accumulation, start->train_tokens,
               start->val_tokens, start->first_step, start->compile_ns);
}

static bt_status on_step(void *context, const bt_train_step *step)
{
    worker *self = context;
    bt_ranks_step(self->ranks, step->step + 1);
    return SAY(self, STEP, step, .step = step->step, .loss = step->loss,
               .grad_norm = step->grad_norm, .lr = step->lr, .tokens = step->tokens,
               .host_ns = step->host_ns, .device_ns = step->device_ns,
               .allocated_bytes = (int64_t)step->allocated_bytes,
               .peak_allocated_bytes = (int64_t)step->peak_allocated_bytes,
               .reserved_bytes = (int64_t)step->reserved_bytes,
               .resident_bytes = (int64_t)step->resident_bytes, .warmup = step->warmup,
               .profiled = step->profiled, .launch_ns = step->enqueue_ns);
}

static bt_status on_eval(void *context, const bt_train_eval *eval)
{
    return SAY(context, EVAL, eval, eval->step, eval->loss, eval->tokens, eval->host_ns);
}

static bt_status on_score(void *context, const bt_train_score *score)
{
    return SAY(context, SCORE, score, score->step, score->score.questions, score->score.correct,
               score->score.normalised_correct, score->host_ns);
}

static bt_status on_mode(void *context, const bt_train_mode *mode)
{
    return SAY(context, LAUNCH, launch, mode->step, bt_train_launch_name(mode->launch),
               mode->message);
}

static bt_status on_state(void *context, const bt_train_state *state)
{
    return SAY(context, STATE, state, state->step, state->digest, state->host_ns);
}

static bt_status on_range(void *context, const bt_train_range *range)
{
    return SAY(context, RANGE, range, range->step, range->path, range->count, range->device_ns,
               range->host_ns);
}

static bt_status on_group(void *context, const bt_train_group *group)
{
    BT_TRY(SAY(context, GROUP, group, group->direction, group->kind, group->kernel, group->ops,
               group->count, group->calls, group->bytes_before, group->bytes_after,
               group->time_ns));
    return group->apart_ns > 0 ? SAY(context, GROUP_CALLS, group_calls, group->direction,
                                     group->kernel, group->apart_ns)
                               : BT_OK;
}

// Timeline of one rank of several; the launcher makes the starts relative
// (launch/supervisor_timeline.c).
static bt_status on_timeline(void *context, const bt_train_timeline *timeline)
{
    const worker *self = context;
    const bt_timeline *line = timeline->line;
    const int64_t *work_ns = line->work_ns;
    return SAY(context, TIMELINE, timeline, .step = timeline->step,
               .rank = bt_ranks_group(self->ranks)->rank,
               .start_ns = bt_ranks_launched(self->ranks) ? timeline->start_ns : 0,
               .time_ns = line->time_ns, .products_ns = work_ns[BT_TIMELINE_PRODUCTS],
               .attention_ns = work_ns[BT_TIMELINE_ATTENTION],
               .other_ns = work_ns[BT_TIMELINE_OTHER],
               .communication_ns = work_ns[BT_TIMELINE_COMMUNICATION], .work = line->work,
               .phases = line->phases);
}

static bt_status on_kernel(void *context, const bt_train_kernel *kernel)
{
    return SAY(context, KERNEL, kernel, kernel->op, kernel->kernel);
}

static bt_status on_fault(void *context, const bt_train_fault *fault)
{
    return SAY(context, FAULT, fault, fault->step, bt_train_fault_name(fault->kind), fault->action,
               fault->message);
}

static bt_status on_note(void *context, const char *text) // goes to the round's log
{
    (void)context;
    (void)fprintf(stderr, "note: %s\n", text);
    return BT_OK;
}

static bt_status on_save(void *context, const bt_train_save *save)
{
    return SAY(context, SAVE, save, bt_train_save_name(save->kind), save->step, save->seen_step,
               save->host_ns, save->blocked_ns, save->size_bytes, save->message);
}

#define SAMPLES_PER_LINE 1024 // at most 25 bytes each

static bt_status on_samples(void *context, const double *times_ns, int64_t count)
{
    for (int64_t at = 0; at < count; at += SAMPLES_PER_LINE) {
        int64_t part = count - at < SAMPLES_PER_LINE ? count - at : SAMPLES_PER_LINE;
        BT_TRY(SAY(context, SAMPLES, samples, times_ns + at, part));
    }
    return BT_OK;
}

static bt_status on_measured(void *context, const bt_case_measured *measured)
{
    worker *self = context;
    self->peak_resident_bytes = measured->peak_resident_bytes;
    return SAY(self, MEASURED, measured, measured->calls_per_sample, measured->error_share,
               measured->stop, measured->cpu_time_ns, measured->launch_time_ns,
               measured->compile_time_ns, measured->load_time_ns);
}

// Any line on the input means 'stop', and so does its end: the recorder is gone.
static bool should_stop(void *context)
{
    worker *self = context;
    struct pollfd watched = {.fd = self->input, .events = POLLIN};
    if (!self->stopping && poll(&watched, 1, 0) > 0) {
        self->stopping = true;
    }
    return self->stopping;
}

// ---- the task ----------------------------------------------------------------------------------

// The first line of the input. The rest stays unread: bytes are read one by one at the end.
static bt_status read_task(int input, bt_str *line)
{
    char byte = 0;
    for (;;) {
        ssize_t part = read(input, &byte, 1);
        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part <= 0 || byte == '\n') {
            break;
        }
        bt_str_append_bytes(line, &byte, 1);
        BT_FAIL_IF(line->length_bytes > TASK_BYTES_MAX, BT_STATUS_INVALID_ARGUMENT,
                   "the task is longer than %d bytes", TASK_BYTES_MAX);
    }
    return bt_str_status(line);
}

static int64_t copy_paths(const cJSON *list, const char **paths)
{
    int64_t count = 0;
    const cJSON *node = NULL;
    cJSON_ArrayForEach(node, list) {
        if (cJSON_IsString(node)) {
            paths[count++] = node->valuestring;
        }
    }
    return count;
}

static bt_status understand(worker *self, bt_case_work *work)
{
    const cJSON *root = self->task.root;
    const cJSON *device = bt_json_get(root, "device");
    const cJSON *shards = bt_json_get(root, "shards");
    const cJSON *train = bt_json_get(shards, "train");
    const cJSON *val = bt_json_get(shards, "val");
    work->item = bt_json_get(root, "case");
    BT_FAIL_IF(
        !work->item || !cJSON_IsString(device) || !cJSON_IsArray(train) || !cJSON_IsArray(val),
        BT_STATUS_INVALID_ARGUMENT, "the task needs the keys case, device and shards {train, val}");
    size_t count = (size_t)cJSON_GetArraySize(train) + (size_t)cJSON_GetArraySize(val);
    BT_TRY(BT_MEM_ARRAY(count, &self->shards));
    work->device = device->valuestring;
    work->group = bt_ranks_group(self->ranks);
    const bool on_cpu = strcmp(device->valuestring, "cpu") == 0; // there is only one
    work->ordinal =
        (int)bt_json_number_of(root, "ordinal") + (on_cpu ? 0 : bt_ranks_slot(self->ranks));
    work->inject_slowdown = bt_json_number_of(root, "inject_slowdown");
    const cJSON *checkpoints = bt_json_get(root, "checkpoints");
    work->checkpoints = bt_json_text_or_null(checkpoints, "folder");
    work->memory_state = cJSON_IsTrue(bt_json_get(checkpoints, "memory"));
    work->resume = cJSON_IsTrue(bt_json_get(checkpoints, "resume"));
    work->resume_below = (int64_t)bt_json_number_of(checkpoints, "below");
    work->questions = bt_json_text_or_null(bt_json_get(root, "hellaswag"), "questions");
    work->ranks = bt_json_text_or_null(bt_json_get(root, "hellaswag"), "ranks");
    work->train_shards = self->shards;
    work->train_shard_count = copy_paths(train, self->shards);
    work->val_shards = self->shards + work->train_shard_count;
    work->val_shard_count = copy_paths(val, self->shards + work->train_shard_count);
    return BT_OK;
}

static bt_status say_memory(worker *self, const bt_train_result *result)
{
    struct rusage usage;
    bool known = getrusage(RUSAGE_SELF, &usage) == 0;
    return SAY(self, MEMORY, memory, .phase = "run",
               .peak_allocated_bytes = (int64_t)result->peak_allocated_bytes,
               .peak_reserved_bytes = (int64_t)result->peak_reserved_bytes,
               .peak_resident_bytes = self->peak_resident_bytes ? self->peak_resident_bytes
                                      : known                   ? (int64_t)usage.ru_maxrss * 1024
                                                                : 0);
}

static bt_status run_case(worker *self)
{
    bt_case_work work = {0};
    bt_train_result result = {0};
    bt_case_listener listener = {.train = {.self = self,
                                           .start = on_start,
                                           .step = on_step,
                                           .eval = on_eval,
                                           .score = on_score,
                                           .state = on_state,
                                           .range = on_range,
                                           .kernel = on_kernel,
                                           .should_stop = should_stop,
                                           .note = on_note,
                                           .mode = on_mode,
                                           .save = on_save,
                                           .fault = on_fault,
                                           .group = on_group,
                                           .timeline = self->ranks ? on_timeline : NULL,
                                           .ranges = &self->ranges},
                                 .samples = on_samples,
                                 .measured = on_measured};
    BT_TRY(understand(self, &work));
    const double hang_s = bt_plan_number(work.item, "train.hang_s");
    const double limit_s = self->ranks ? RANK_HANG_LIMITS * hang_s : hang_s;
    BT_TRY(bt_watchdog_start(&self->ranges, limit_s, (bt_watchdog_alarm){hangs, self},
                             &self->watchdog));
    bt_status status = bt_case_run(&work, &listener, &result);
    bt_watchdog_stop(self->watchdog);
    self->watchdog = NULL;
    BT_TRY(status);
    BT_TRY(say_memory(self, &result));
    char digest[sizeof BT_STATE_DIGEST_PREFIX + sizeof result.state_digest] = "";
    if (*result.state_digest) {
        (void)snprintf(digest, sizeof digest, "%s%s", BT_STATE_DIGEST_PREFIX, result.state_digest);
    }
    return SAY(self, RESULT, result, result.steps_done, result.stopped, digest, result.val_loss,
               result.behind_ns);
}

static bt_status take_line(worker *self)
{
    BT_SCOPED(bt_str) line = {0};
    bt_json_doc_release(&self->task);
    BT_TRY(read_task(self->input, &line));
    return bt_json_parse("task", bt_str_text(&line), line.length_bytes, &self->task);
}

// A spare rank gets its task twice: first with the key "prepare", to open its device and join its
// group, then when it shall begin.
static bt_status take_task(worker *self)
{
    BT_TRY(take_line(self));
    if (cJSON_IsTrue(bt_json_get(self->task.root, "prepare"))) {
        BT_TRY(bt_ranks_prepare(self->task.root, &self->ranges, &self->ranks));
        BT_TRY(take_line(self));
    }
    return BT_OK;
}

static bt_status pass_on(void *context, const bt_run_event *event) { return say(context, event); }

static bt_status work_on(worker *self)
{
    BT_TRY(take_task(self));
    if (bt_ranks_wanted(self->task.root)) {
        const bt_ranks_listener listener = {self, pass_on, should_stop};
        return bt_ranks_launch(self->task.root, NULL, &listener);
    }
    BT_TRY(bt_ranks_join(self->task.root, &self->ranges, &self->ranks));
    const bt_status status = run_case(self);
    if (status != BT_OK && self->ranks) {
        bt_group_abort(bt_ranks_group(self->ranks), bt_error_message());
    }
    return status;
}

int bt_worker_main(int input, int output)
{
    worker self = {.input = input, .output = output, .speaking = PTHREAD_MUTEX_INITIALIZER};
    bt_status status = work_on(&self);
    int code = bt_status_exit_code(status);
    if (status != BT_OK) {
        // If the reader of the error is gone, the exit code remains.
        (void)!SAY(&self, ERROR, error, bt_status_text(status), bt_error_message());
    }
    bt_ranks_leave(self.ranks);
    bt_str_release(&self.line);
    bt_json_doc_release(&self.task);
    bt_mem_free(self.shards);
    return code;
}
