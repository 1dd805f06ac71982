// harness/run/record.c - one round: rows as events arrive
#include "harness/run/record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/clock.h"
#include "framework/base/scoped.h"
#include "harness/stats/noise.h"

bt_status bt_recorder_begin(bt_store *store, int64_t run, const char *bench, const cJSON *item,
                            const char *system, int64_t ordinal, bt_recorder *out)
{
    memset(out, 0, sizeof *out);
    out->store = store;
    out->item = item;
    out->ours = strcmp(system, "blutrain") == 0;
    out->time_ns = out->rate_tok_s = out->energy_j = out->work_power_w = (double)NAN;
    out->output_error_share = (double)NAN;
    out->started_ns = bt_clock_ns();
    BT_SCOPED(bt_str) axes = {0};
    bt_json_write(item, &axes);
    bt_store_case what = {.bench = bench,
                          .kind = bt_json_get(item, "kind")->valuestring,
                          .name = bt_json_get(item, "name")->valuestring,
                          .axes_json = bt_str_text(&axes),
                          .system = system};
    BT_TRY(bt_str_status(&axes));
    return bt_store_round_begin(store, run, &what, ordinal, &out->round);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static void note_memory(bt_store_memory *peak, const bt_store_memory *memory)
{
    peak->peak_allocated_bytes = larger(peak->peak_allocated_bytes, memory->peak_allocated_bytes);
    peak->peak_reserved_bytes = larger(peak->peak_reserved_bytes, memory->peak_reserved_bytes);
    peak->peak_resident_bytes = larger(peak->peak_resident_bytes, memory->peak_resident_bytes);
}

static bt_status add_step(bt_recorder *self, const bt_store_step *step)
{
    BT_TRY(BT_MEM_GROW(self->step_count + 1, &self->step_capacity, &self->steps));
    self->steps[self->step_count++] = *step;
    note_memory(&self->memory,
                &(bt_store_memory){.peak_allocated_bytes = step->peak_allocated_bytes,
                                   .peak_reserved_bytes = step->reserved_bytes,
                                   .peak_resident_bytes = step->resident_bytes});
    return bt_store_step_add(self->store, self->round, step);
}

static bt_status add_eval(bt_recorder *self, const bt_store_eval *eval)
{
    BT_TRY(BT_MEM_GROW(self->eval_count + 1, &self->eval_capacity, &self->val_losses));
    self->val_losses[self->eval_count++] = eval->loss;
    return bt_store_eval_add(self->store, self->round, eval);
}

// A round resumed from a checkpoint begins with the steps of the previous round. Their times are
// not measurements of this process.
static bt_status take_before(bt_recorder *self, int64_t first_step)
{
    const bt_store_round *before = self->before;
    for (int64_t i = 0; i < first_step; ++i) {
        bt_store_step step = before->steps[i];
        step.warmup = true;
        BT_TRY(add_step(self, &step));
    }
    for (int64_t i = 0; before && i < before->eval_count; ++i) {
        if (before->evals[i].step < first_step) {
            BT_TRY(add_eval(self, &before->evals[i]));
        }
    }
    self->first_step = first_step;
    return BT_OK;
}

static bt_status take_start(bt_recorder *self, const bt_run_event_start *start)
{
    const cJSON *train = bt_json_get(self->item, "train");
    const cJSON *kernel = bt_json_get(self->item, "kernel");
    const char *dataset = bt_json_text_or_null(bt_json_get(self->item, "dataset"), "name");
    bt_store_shape shape = {.device = start->device,
                            .precision = kernel ? bt_json_text_of(kernel, "dtype")
                                                : bt_json_text_of(train, "precision"),
                            .dataset = dataset  ? dataset
                                       : !train ? ""
                                                : "shards by path",
                            .parameters = start->parameters,
                            .tensors = start->tensors,
                            .accumulation = start->accumulation,
                            .steps = (int64_t)bt_json_number_of(train, "steps"),
                            .train_tokens = start->train_tokens,
                            .val_tokens = start->val_tokens};
    self->compile_ns = start->compile_ns;
    BT_TRY(bt_store_round_describe(self->store, self->round, &shape));
    return take_before(self, start->first_step);
}

static bt_status take_step(bt_recorder *self, const bt_store_step *step)
{
    self->last_step_ns = bt_clock_ns();
    self->first_step_ns = self->first_step_ns ? self->first_step_ns : self->last_step_ns;
    return add_step(self, step);
}

static bt_status take_eval(bt_recorder *self, const bt_store_eval *eval)
{
    self->evals_ns += (double)eval->host_ns;
    return add_eval(self, eval);
}

// Events must be durable no later than the save: both are needed to resume.
static bt_status take_save(bt_recorder *self, const bt_run_event_save *save)
{
    self->saves_ns += (double)save->blocked_ns;
    if (strcmp(save->kind, "failed") == 0) {
        ++self->failed_saves;
        (void)snprintf(self->failed_save, sizeof self->failed_save, "%s", save->message);
    }
    if (strcmp(save->kind, "loaded") == 0) {
        self->load_ns = (double)save->host_ns;
    }
    if (strcmp(save->kind, "saved") != 0) {
        return BT_OK;
    }
    BT_TRY(BT_MEM_GROW(self->save_count + 1, &self->save_capacity, &self->saves));
    self->saves[self->save_count] = *save;
    self->saves[self->save_count].kind = self->saves[self->save_count].message = NULL;
    ++self->save_count;
    return bt_store_flush(self->store);
}

static bt_status take_samples(bt_recorder *self, const bt_run_event_samples *samples)
{
    BT_TRY(BT_MEM_GROW(self->time_count + samples->count, &self->time_capacity, &self->times_ns));
    memcpy(self->times_ns + self->time_count, samples->times_ns,
           (size_t)samples->count * sizeof(double));
    self->time_count += samples->count;
    return BT_OK;
}

static void take_measured(bt_recorder *self, const bt_run_event_measured *measured)
{
    self->measured = true;
    self->calls = *measured;
    self->calls.stop = NULL;
    for (int64_t i = 0; i < self->time_count; ++i) {
        self->total_ns += self->times_ns[i] *
                          (double)(measured->calls_per_sample ? measured->calls_per_sample : 1);
    }
    (void)snprintf(self->stop, sizeof self->stop, "%s", measured->stop);
}

static bt_status take_recovery(bt_recorder *self, const bt_run_event_recovery *recovery)
{
    BT_TRY(BT_MEM_GROW(self->recovery_count + 1, &self->recovery_capacity, &self->recoveries));
    self->recoveries[self->recovery_count] = (bt_recorder_recovery){
        .event = *recovery, .repeated_steps = bt_run_event_repeated(recovery)};
    self->recoveries[self->recovery_count++].event.kind = NULL;
    return bt_store_fault_extend(self->store, self->round, recovery->step, recovery->kind,
                                 bt_run_event_restart(recovery).text);
}

static void take_caught_up(bt_recorder *self, const bt_run_event_caught_up *caught_up)
{
    if (self->recovery_count > 0) {
        self->recoveries[self->recovery_count - 1].caught_up_ns = caught_up->time_ns;
    }
}

// Communication that computation waits for is "step/../communication", not a range within one.
static void note_range(bt_recorder *self, const bt_store_range *range)
{
    const char *name = strstr(range->path, "/communication");
    self->profiled_steps += strcmp(range->path, "step") == 0;
    if (name && strcmp(name, "/communication") == 0) {
        self->exposed_ns += (double)range->device_ns;
    }
}

// What a record adds to the sums of the round.
static void note(bt_recorder *self, const bt_run_event *event)
{
    if (event->type == BT_RUN_EVENT_RANGE) {
        note_range(self, &event->as.range);
    } else if (event->type == BT_RUN_EVENT_SCORE) {
        self->evals_ns += (double)event->as.score.host_ns;
    } else if (event->type == BT_RUN_EVENT_STATE) {
        self->evals_ns += (double)event->as.state.host_ns;
    } else if (event->type == BT_RUN_EVENT_MEMORY) {
        note_memory(&self->memory, &event->as.memory);
    }
}

bt_status bt_recorder_take(bt_recorder *self, const bt_run_event *event)
{
    bt_fields_of kind;
    switch ((int)event->type) {
    case BT_RUN_EVENT_START:
        return take_start(self, &event->as.start);
    case BT_RUN_EVENT_STEP:
        return take_step(self, &event->as.step);
    case BT_RUN_EVENT_EVAL:
        return take_eval(self, &event->as.eval);
    case BT_RUN_EVENT_SAMPLES:
        return take_samples(self, &event->as.samples);
    case BT_RUN_EVENT_MEASURED:
        take_measured(self, &event->as.measured);
        return BT_OK;
    case BT_RUN_EVENT_RESULT:
        (void)snprintf(self->params_digest, sizeof self->params_digest, "%s",
                       event->as.result.params_digest);
        return BT_OK;
    case BT_RUN_EVENT_SAVE:
        return take_save(self, &event->as.save);
    case BT_RUN_EVENT_RECOVERY:
        return take_recovery(self, &event->as.recovery);
    case BT_RUN_EVENT_CAUGHT_UP:
        take_caught_up(self, &event->as.caught_up);
        return BT_OK;
    default:
        note(self, event);
        return bt_run_event_is_record(event->type, &kind)
                   ? bt_store_record_add(self->store, self->round, kind, &event->as)
                   : BT_OK;
    }
}

bt_status bt_recorder_take_machine(bt_recorder *self, const bt_store_telemetry *samples,
                                   int64_t count)
{
    const bt_store_round round = {.steps = self->steps,
                                  .step_count = self->step_count,
                                  .telemetry = samples,
                                  .telemetry_count = count};
    bt_telemetry_summary summary;
    BT_TRY(bt_telemetry_summary_of(&round, &summary));
    self->energy_j = summary.energy_j;
    self->work_power_w = summary.work_power_w;
    return BT_OK;
}

bt_status bt_recorder_end(bt_recorder *self, bt_run_status status, const char *message)
{
    char saves[sizeof self->failed_save + 128];
    BT_TRY(bt_recorder_measure(self));
    if (!message[0] && self->stop[0]) {
        message = self->stop;
    }
    if (!message[0] && self->failed_saves > 0) {
        (void)snprintf(saves, sizeof saves,
                       "checkpoints that could not be saved: %lld; the last: %s",
                       (long long)self->failed_saves, self->failed_save);
        message = saves;
    }
    return bt_store_round_end(self->store, self->round, status, message, self->params_digest);
}

void bt_recorder_release(bt_recorder *self)
{
    bt_mem_free(self->steps);
    bt_mem_free(self->times_ns);
    bt_mem_free(self->val_losses);
    bt_mem_free(self->saves);
    bt_mem_free(self->recoveries);
    memset(self, 0, sizeof *self);
}
