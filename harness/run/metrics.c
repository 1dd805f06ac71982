// harness/run/metrics.c - converts events to lines, and to one value per metric
#include "harness/run/metrics.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/scoped.h"

enum { KINDS = 16, KIND_BYTES = 48, WRITE_EVERY_NS = 1000000000 };

// X(enumerator, name after "bt_bench_", type, help)
#define METRIC_LIST(X)                                                                             \
    X(UP, "up", "gauge", "1 while a round runs, 0 when it has ended.")                             \
    X(STEPS_DONE, "steps_done", "gauge", "Optimizer steps done in this round.")                    \
    X(STEPS_PLANNED, "steps_planned", "gauge", "Optimizer steps of this round.")                   \
    X(TOKENS, "tokens_total", "counter", "Tokens trained on in this round.")                       \
    X(LOSS, "loss", "gauge", "Training loss of the last step, nats per token; may be NaN.")        \
    X(VAL_LOSS, "val_loss", "gauge", "Loss of the last evaluation, nats per token; may be NaN.")   \
    X(GRAD_NORM, "grad_norm", "gauge", "Global gradient norm of the last step before clipping.")   \
    X(LEARNING_RATE, "learning_rate", "gauge", "Learning rate of the last step.")                  \
    X(STEP_SECONDS, "step_seconds", "gauge", "Host time of the last step.")                        \
    X(TOKENS_PER_SECOND, "tokens_per_second", "gauge", "Tokens of the last step over its time.")   \
    X(ALLOCATED, "memory_allocated_bytes", "gauge", "Device pool: live blocks.")                   \
    X(PEAK_ALLOCATED, "memory_peak_allocated_bytes", "gauge", "Device pool: most live so far.")    \
    X(RESERVED, "memory_reserved_bytes", "gauge", "Device pool: held from the device.")            \
    X(RESIDENT, "memory_resident_bytes", "gauge", "Host memory of the worker.")                    \
    X(CHECKPOINT_STEP, "checkpoint_step", "gauge", "Step of the newest durable checkpoint.")       \
    X(CHECKPOINT_AGE, "checkpoint_age_seconds", "gauge", "Time since it became durable.")          \
    X(SILENCE, "silence_seconds", "gauge", "Time since the last output of the worker.")            \
    X(FAULTS, "faults_total", "counter", "Faults of this round, by kind.")

typedef enum metric {
#define METRIC_ENUM(id, name, type, help) METRIC_##id,
    METRIC_LIST(METRIC_ENUM)
#undef METRIC_ENUM
        METRIC_COUNT
} metric;

static const struct {
    const char *name, *type, *help;
} rows[METRIC_COUNT] = {
#define METRIC_ROW(id, name, type, help) {"bt_bench_" name, type, help},
    METRIC_LIST(METRIC_ROW)
#undef METRIC_ROW
};

const char *bt_metrics_name(int index)
{
    return index >= 0 && index < METRIC_COUNT ? rows[index].name : NULL;
}

typedef struct fault_count {
    char kind[KIND_BYTES];
    int64_t count;
} fault_count;

struct bt_metrics {
    FILE *log;           // owned; NULL after a failure
    bt_str path, beside; // of the state file, and of its temporary name
    bt_str text;         // scratch
    bt_metrics_round round;
    double value[METRIC_COUNT];
    bool known[METRIC_COUNT];
    fault_count faults[KINDS]; // ranks above the limit are counted with the last
    int fault_kinds;
    int64_t fault_total;
    int64_t heard_ns, saved_ns, written_ns; // monotonic; saved_ns 0: no checkpoint
    char failure[256];
};

// ---- values ------------------------------------------------------------------------------------

static void set(bt_metrics *self, metric which, double value)
{
    self->value[which] = value;
    self->known[which] = true;
}

static void set_bytes(bt_metrics *self, metric which, int64_t value)
{
    if (value > 0) {
        set(self, which, (double)value);
    }
}

static void take_step(bt_metrics *self, const bt_store_step *step)
{
    const double seconds = (double)step->host_ns / 1e9;
    set(self, METRIC_STEPS_DONE, (double)step->step + 1);
    set(self, METRIC_TOKENS,
        (self->known[METRIC_TOKENS] ? self->value[METRIC_TOKENS] : 0) + (double)step->tokens);
    set(self, METRIC_LOSS, (double)step->loss);
    set(self, METRIC_GRAD_NORM, (double)step->grad_norm);
    set(self, METRIC_LEARNING_RATE, step->lr);
    if (seconds > 0) {
        set(self, METRIC_STEP_SECONDS, seconds);
        set(self, METRIC_TOKENS_PER_SECOND, (double)step->tokens / seconds);
    }
    set_bytes(self, METRIC_ALLOCATED, step->allocated_bytes);
    set_bytes(self, METRIC_PEAK_ALLOCATED, step->peak_allocated_bytes);
    set_bytes(self, METRIC_RESERVED, step->reserved_bytes);
    set_bytes(self, METRIC_RESIDENT, step->resident_bytes);
}

static void take_fault(bt_metrics *self, const bt_store_fault *fault)
{
    int at = 0;
    ++self->fault_total;
    while (at < self->fault_kinds && strcmp(self->faults[at].kind, fault->kind) != 0) {
        ++at;
    }
    if (at == self->fault_kinds && at < KINDS) {
        (void)snprintf(self->faults[at].kind, KIND_BYTES, "%s", fault->kind);
        ++self->fault_kinds;
    }
    ++self->faults[at < KINDS ? at : KINDS - 1].count;
}

// The age of the checkpoint from which the round was resumed is unknown.
static void take_save(bt_metrics *self, const bt_run_event_save *save)
{
    const bool saved = strcmp(save->kind, "saved") == 0;
    if (saved || strcmp(save->kind, "loaded") == 0) {
        set(self, METRIC_CHECKPOINT_STEP, (double)save->step);
        self->saved_ns = saved ? bt_clock_ns() : self->saved_ns;
    }
}

static void take(bt_metrics *self, const bt_run_event *event)
{
    switch ((int)event->type) {
    case BT_RUN_EVENT_STEP:
        take_step(self, &event->as.step);
        break;
    case BT_RUN_EVENT_EVAL:
        set(self, METRIC_VAL_LOSS, event->as.eval.loss);
        break;
    case BT_RUN_EVENT_FAULT:
        take_fault(self, &event->as.fault);
        break;
    case BT_RUN_EVENT_SAVE:
        take_save(self, &event->as.save);
        break;
    default:
        break;
    }
}

// ---- the log -----------------------------------------------------------------------------------

static void fail(bt_metrics *self, const char *what)
{
    if (!*self->failure) {
        (void)snprintf(self->failure, sizeof self->failure, "cannot write %s: %s", what,
                       strerror(errno));
    }
    if (self->log) {
        (void)fclose(self->log);
        self->log = NULL;
    }
}

static void begin_line(bt_metrics *self)
{
    bt_str_clear(&self->text);
    bt_str_format(&self->text,
                  "{\"time_s\":%.3f,\"run\":%lld,\"case\":", (double)bt_clock_wall_ns() / 1e9,
                  (long long)self->round.run);
    bt_json_string(self->round.name, &self->text);
    bt_str_append(&self->text, ",\"system\":");
    bt_json_string(self->round.system, &self->text);
    bt_str_format(&self->text, ",\"round\":%lld,", (long long)self->round.ordinal);
}

static double age_s(int64_t since_ns) { return (double)(bt_clock_ns() - since_ns) / 1e9; }

static void end_line(bt_metrics *self)
{
    if (self->saved_ns) {
        bt_str_format(&self->text, ",\"checkpoint_age_s\":%.3f", age_s(self->saved_ns));
    }
    bt_str_format(&self->text, ",\"faults\":%lld}\n", (long long)self->fault_total);
    errno = ENOMEM;
    if (self->log && (bt_str_status(&self->text) != BT_OK ||
                      fwrite(self->text.text, self->text.length_bytes, 1, self->log) != 1 ||
                      fflush(self->log) != 0)) {
        fail(self, "metrics.jsonl");
    }
}

// Writes a worker's event unchanged, except ranges, kernels and samples, which are too many, and
// start, for which round_begin is written.
static bool is_logged(bt_run_event_type type)
{
    return type != BT_RUN_EVENT_START && type != BT_RUN_EVENT_RANGE &&
           type != BT_RUN_EVENT_KERNEL && type != BT_RUN_EVENT_SAMPLES &&
           type != BT_RUN_EVENT_VERSIONS;
}

static void log_event(bt_metrics *self, const bt_run_event *event)
{
    BT_SCOPED(bt_str) said = {0};
    bt_run_event_write(event, &said); // "{...}\n"
    begin_line(self);
    if (bt_str_status(&said) == BT_OK && said.length_bytes > 3) {
        bt_str_append_bytes(&self->text, said.text + 1, said.length_bytes - 3);
        if (event->type == BT_RUN_EVENT_STEP && self->known[METRIC_TOKENS_PER_SECOND]) {
            bt_str_format(&self->text, ",\"tokens_per_s\":%.6g",
                          self->value[METRIC_TOKENS_PER_SECOND]);
        }
        end_line(self);
    }
}

// ---- the state ---------------------------------------------------------------------------------

static void append_label(bt_str *out, const char *key, const char *value)
{
    bt_str_format(out, "%s=\"", key);
    for (const char *at = value; *at; ++at) {
        const char *escaped = *at == '\\'   ? "\\\\"
                              : *at == '"'  ? "\\\""
                              : *at == '\n' ? "\\n"
                                            : NULL;
        bt_str_append_bytes(out, escaped ? escaped : at, escaped ? 2 : 1);
    }
    bt_str_append(out, "\"");
}

static void append_value(bt_metrics *self, metric which, const char *kind, double value)
{
    bt_str *out = &self->text;
    bt_str_format(out, "%s{run=\"%lld\",", rows[which].name, (long long)self->round.run);
    append_label(out, "case", self->round.name);
    bt_str_append(out, ",");
    append_label(out, "system", self->round.system);
    bt_str_format(out, ",round=\"%lld\"", (long long)self->round.ordinal);
    if (kind) {
        bt_str_append(out, ",");
        append_label(out, "kind", kind);
    }
    if (isfinite(value)) {
        bt_str_format(out, "} %.9g\n", value);
    } else {
        bt_str_format(out, "} %s\n", isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
    }
}

static void append_state(bt_metrics *self)
{
    bt_str_clear(&self->text);
    set(self, METRIC_SILENCE, age_s(self->heard_ns));
    if (self->saved_ns) {
        set(self, METRIC_CHECKPOINT_AGE, age_s(self->saved_ns));
    }
    for (int i = 0; i < METRIC_COUNT; ++i) {
        const bool any = i == METRIC_FAULTS ? self->fault_kinds > 0 : self->known[i];
        if (any) {
            bt_str_format(&self->text, "# HELP %s %s\n# TYPE %s %s\n", rows[i].name, rows[i].help,
                          rows[i].name, rows[i].type);
        }
        if (any && i != METRIC_FAULTS) {
            append_value(self, (metric)i, NULL, self->value[i]);
        }
    }
    for (int i = 0; i < self->fault_kinds; ++i) {
        append_value(self, METRIC_FAULTS, self->faults[i].kind, (double)self->faults[i].count);
    }
}

// Renamed but not synced: after a power failure at most a second is lost.
static void write_state(bt_metrics *self)
{
    if (*self->failure || !self->round.name) {
        return;
    }
    append_state(self);
    self->written_ns = bt_clock_ns();
    errno = ENOMEM;
    FILE *file =
        bt_str_status(&self->text) == BT_OK ? fopen(bt_str_text(&self->beside), "we") : NULL;
    bool ok = file && fwrite(self->text.text, self->text.length_bytes, 1, file) == 1;
    ok = file && fclose(file) == 0 && ok;
    if (!ok || rename(bt_str_text(&self->beside), bt_str_text(&self->path)) != 0) {
        fail(self, bt_str_text(&self->path));
    }
}

// ---- a run -------------------------------------------------------------------------------------

static bt_status open_files(bt_metrics *self, const char *folder)
{
    BT_SCOPED(bt_str) log = {0};
    BT_TRY(bt_dir_make(folder));
    bt_str_format(&self->path, "%s/bt_bench.prom", folder);
    bt_str_format(&self->beside, "%s/.bt_bench.prom.new", folder);
    bt_str_format(&log, "%s/metrics.jsonl", folder);
    BT_TRY(bt_str_status(&log));
    BT_TRY(bt_str_status(&self->path));
    BT_TRY(bt_str_status(&self->beside));
    self->log = fopen(bt_str_text(&log), "ae");
    return self->log
               ? BT_OK
               : bt_error(BT_STATUS_IO, "cannot write %s: %s", bt_str_text(&log), strerror(errno));
}

bt_status bt_metrics_open(const char *folder, bt_metrics **out)
{
    *out = NULL;
    if (!folder) {
        return BT_OK;
    }
    bt_metrics *self = NULL;
    BT_TRY(BT_MEM_ARRAY(1, &self));
    bt_status status = open_files(self, folder);
    if (status != BT_OK) {
        bt_metrics_close(self);
        return status;
    }
    *out = self;
    return BT_OK;
}

void bt_metrics_round_begin(bt_metrics *self, const bt_metrics_round *round)
{
    if (!self) {
        return;
    }
    self->round = *round;
    memset(self->known, 0, sizeof self->known);
    self->fault_kinds = 0;
    self->fault_total = self->saved_ns = 0;
    self->heard_ns = bt_clock_ns();
    set(self, METRIC_UP, 1);
    if (round->steps > 0) {
        set(self, METRIC_STEPS_PLANNED, (double)round->steps);
    }
    begin_line(self);
    bt_str_append(&self->text, "\"event\":\"round_begin\"");
    end_line(self);
    write_state(self);
}

void bt_metrics_event(bt_metrics *self, const bt_run_event *event)
{
    if (!self || !self->round.name) {
        return;
    }
    self->heard_ns = bt_clock_ns();
    take(self, event);
    if (is_logged(event->type)) {
        log_event(self, event);
    }
    bt_metrics_tick(self);
}

void bt_metrics_tick(bt_metrics *self)
{
    if (self && bt_clock_ns() - self->written_ns >= WRITE_EVERY_NS) {
        write_state(self);
    }
}

void bt_metrics_round_end(bt_metrics *self, const char *status, const char *message)
{
    if (!self || !self->round.name) {
        return;
    }
    set(self, METRIC_UP, 0);
    begin_line(self);
    bt_str_append(&self->text, "\"event\":\"round_end\",\"status\":");
    bt_json_string(status, &self->text);
    bt_str_append(&self->text, ",\"message\":");
    bt_json_string(message, &self->text);
    end_line(self);
    write_state(self);
    self->round = (bt_metrics_round){0};
}

const char *bt_metrics_failure(const bt_metrics *self) { return self ? self->failure : ""; }

void bt_metrics_close(bt_metrics *self)
{
    if (!self) {
        return;
    }
    if (self->log) {
        (void)fclose(self->log);
    }
    bt_str_release(&self->path);
    bt_str_release(&self->beside);
    bt_str_release(&self->text);
    bt_mem_free(self);
}
