// framework/train/keep.c - the training state: its list, its digest, checkpoints
//
// The state's tensors are each parameter's master under the parameter's name and its moments as
// adamw.m.NAME and adamw.v.NAME; bf16 copies are recomputed after a load. The data position is that
// of the data trained on, without what the feed has read ahead.
#include <stdio.h>
#include <string.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "framework/train/trainer.h"

static const struct {
    const char *name;
} kinds[] = {
#define BT_TRAIN_SAVE_ROW(name, text, meaning) {text},
    BT_TRAIN_SAVE_LIST(BT_TRAIN_SAVE_ROW)
#undef BT_TRAIN_SAVE_ROW
};

const char *bt_train_save_name(bt_train_save_kind kind)
{
    return (unsigned)kind < BT_TRAIN_SAVE_COUNT ? kinds[kind].name : "unknown";
}

// ---- the list -----------------------------------------------------------------------------------

bt_context *bt_keep_context(bt_trainer *t)
{
    return t->keep.in_host ? &t->keep.host : &t->session.context;
}

// The state of a parameter of the whole model, on the rank that has the list.
static bt_tensor *kept_tensor(const bt_trainer *t, int64_t spec, int kind)
{
    bt_tensor *whole = bt_mesh_state_whole(t, spec, kind);
    return whole ? whole : bt_ranks_state(t, t->params.specs[spec].item, kind);
}

// On the context's stream.
static bt_status collect(bt_trainer *t)
{
    BT_TRY(t->parallel ? bt_data_parallel_collect(t->parallel, &t->optimizer) : BT_OK);
    return bt_mesh_state_collect(t);
}

// On a GPU a collective whose group has failed ends without data, after the call has returned: such
// a state must not be saved. On the CPU the call itself fails. Any thread.
static bt_status check_groups(void *self)
{
    const bt_trainer *t = self;
    bt_group *const groups[] = {t->mesh.world, t->mesh.replicas, t->mesh.tensor};
    const bool on_cpu = t->session.device.backend->kind == BT_DEVICE_CPU;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0] && !on_cpu; ++i) {
        BT_TRY(groups[i] ? bt_group_check(groups[i]) : BT_OK);
    }
    return BT_OK;
}

bt_status bt_keep_await(bt_trainer *t)
{
    bt_device *device = &t->session.device;
    if (!t->keep.collecting) {
        return BT_OK;
    }
    t->keep.collecting = false;
    return device->backend->event_wait(device, t->keep.collected, t->session.context.stream);
}

bt_status bt_keep_collect(bt_trainer *t)
{
    BT_TRY(bt_keep_await(t));
    if (t->keep.in_host) {
        bt_checkpoint_settle(t->keep.writer); // which reads the tensors
    }
    BT_TRY(collect(t));
    if (!t->keep.in_host || !bt_ranks_is_first(t)) {
        return BT_OK;
    }
    BT_TRY(bt_context_synchronize(&t->session.context));
    return check_groups(t);
}

static bt_status add_moment(bt_keep *keep, const char *prefix, const char *name, bt_tensor *tensor)
{
    bt_str text = {0};
    bt_str_format(&text, "%s%s", prefix, name);
    bt_status status = bt_str_take(&text, &keep->names[keep->name_count]);
    bt_str_release(&text);
    BT_TRY(status);
    return bt_state_add(&keep->state, keep->names[keep->name_count++], tensor);
}

// The contents of a checkpoint: the whole list, or only the parameters, which come first. Borrowed.
static bt_state saved_part(const bt_trainer *t)
{
    bt_state part = t->keep.state;
    part.count = t->plan->checkpoints.parameters_only ? t->params.spec_count : part.count;
    return part;
}

static bt_status list_state(bt_trainer *t)
{
    bt_keep *keep = &t->keep;
    const bt_params *params = &t->params;
    void *names = NULL;
    if (t->parallel) {
        BT_TRY(bt_data_parallel_open_state(t->parallel));
        BT_TRY(bt_mesh_state_open(t));
        keep->in_host = bt_data_parallel_is_sharded(t->parallel) || t->mesh.tensor;
        if (keep->in_host && !bt_ranks_is_first(t)) {
            return BT_OK; // rank 0 has the list
        }
    }
    if (keep->in_host) {
        BT_TRY(bt_device_open("cpu", 0, &keep->cpu));
        keep->host = (bt_context){.device = &keep->cpu};
    }
    BT_TRY(bt_mem_alloc(2 * (size_t)params->spec_count, sizeof *keep->names, &names));
    keep->names = names;
    for (int64_t i = 0; i < params->spec_count; ++i) {
        BT_TRY(
            bt_state_add(&keep->state, params->specs[i].name, kept_tensor(t, i, BT_STATE_MASTER)));
    }
    for (int64_t i = 0; i < params->spec_count; ++i) {
        const char *name = params->specs[i].name;
        BT_TRY(add_moment(keep, "adamw.m.", name, kept_tensor(t, i, BT_STATE_FIRST_MOMENT)));
        BT_TRY(add_moment(keep, "adamw.v.", name, kept_tensor(t, i, BT_STATE_SECOND_MOMENT)));
    }
    const bt_state part = saved_part(t);
    for (int64_t i = 0; i < part.count; ++i) {
        keep->size_bytes += bt_tensor_bytes(part.tensors[i].tensor);
    }
    return BT_OK;
}

static bt_checkpoint_options save_options(const bt_train_plan *plan)
{
    return (bt_checkpoint_options){.max_to_keep = plan->checkpoints.max_to_keep,
                                   .plan_hash = plan->checkpoints.plan_hash,
                                   .build = plan->checkpoints.build};
}

// A store must not mix checkpoints of different runs.
static bt_status expect_empty(const bt_checkpoint_store *store)
{
    int64_t *steps = NULL;
    int64_t count = 0;
    BT_TRY(bt_checkpoint_list(store, &steps, &count));
    const int64_t last = count > 0 ? steps[count - 1] : 0;
    bt_mem_free(steps);
    return count == 0 ? BT_OK
                      : bt_error(BT_STATUS_INVALID_ARGUMENT,
                                 "%s already contains checkpoints, the newest of step %lld; resume "
                                 "from them, or choose a folder without checkpoints",
                                 store->folder, (long long)last);
}

bt_status bt_keep_expects(bt_trainer *t, bool *expects)
{
    const bt_train_checkpoints *plan = &t->plan->checkpoints;
    *expects = false;
    if (!plan->folder || !plan->resume) {
        return BT_OK;
    }
    if (bt_ranks_is_first(t)) {
        const bt_checkpoint_store store = {.folder = plan->folder};
        int64_t *steps = NULL;
        int64_t count = 0;
        BT_TRY(bt_checkpoint_list(&store, &steps, &count));
        *expects = count > 0 && (plan->resume_below <= 0 || steps[0] < plan->resume_below);
        bt_mem_free(steps);
    }
    return bt_ranks_share(t, expects, sizeof *expects);
}

static bt_status open_stream(bt_trainer *t)
{
    bt_device *device = &t->session.device;
    BT_TRY(device->backend->stream_create(device, false, &t->keep.stream));
    return device->backend->event_create(device, &t->keep.collected);
}

static void close_stream(bt_trainer *t)
{
    bt_device *device = &t->session.device;
    if (t->keep.collected) {
        device->backend->event_destroy(device, t->keep.collected);
    }
    if (t->keep.stream) {
        const bt_status status = bt_pool_retire_stream(t->session.pool, t->keep.stream);
        (void)status; // a device fault is reported at the context's next synchronization
        device->backend->stream_destroy(device, t->keep.stream);
    }
}

static bt_status open_writer(bt_trainer *t)
{
    const bt_train_checkpoints *plan = &t->plan->checkpoints;
    const bool on_cpu = t->session.device.backend->kind == BT_DEVICE_CPU;
    const bt_checkpoint_writer_options options = {.checkpoint = save_options(t->plan),
                                                  .skip_when_busy = true,
                                                  .device_snapshot =
                                                      plan->asynchronous && !plan->host_snapshot,
                                                  .in_place = t->keep.in_host,
                                                  .check = t->keep.in_host ? check_groups : NULL,
                                                  .self = t};
    const bt_state part = saved_part(t);
    return plan->asynchronous || (!on_cpu && !t->keep.in_host)
               ? bt_checkpoint_writer_create(&t->session.context, &t->keep.store, &options, &part,
                                             &t->keep.writer)
               : BT_OK;
}

bt_status bt_keep_open(bt_trainer *t)
{
    const bt_train_checkpoints *plan = &t->plan->checkpoints;
    bt_keep *keep = &t->keep;
    keep->store.folder = plan->folder;
    keep->given_step = -1;
    BT_TRY(list_state(t));
    if (!plan->folder) {
        return BT_OK;
    }
    if (plan->resume) {
        BT_TRY(bt_keep_load(t, plan->resume_below, &t->first_step));
    }
    if (t->params.uninitialised && keep->given_step < 0) {
        return bt_error(BT_STATUS_IO, "the checkpoints in %s were removed while the run started",
                        plan->folder);
    }
    const bool saves = plan->every_steps > 0 || plan->every_minutes > 0 || plan->at_end;
    BT_TRY(saves && keep->in_host && plan->asynchronous ? open_stream(t) : BT_OK);
    if (!bt_ranks_is_first(t)) {
        return BT_OK; // rank 0 writes
    }
    BT_TRY(plan->resume ? BT_OK : expect_empty(&keep->store));
    BT_TRY(saves ? open_writer(t) : BT_OK);
    keep->clock_ns = bt_clock_ns();
    return BT_OK;
}

void bt_keep_close(bt_trainer *t)
{
    bt_keep *keep = &t->keep;
    bt_checkpoint_writer_destroy(keep->writer);
    close_stream(t);
    bt_state_release(&keep->state);
    for (int64_t i = 0; i < keep->name_count; ++i) {
        bt_mem_free(keep->names[i]);
    }
    bt_mem_free(keep->names);
    *keep = (bt_keep){0};
}

// ---- values and digest --------------------------------------------------------------------------

void bt_keep_values(const bt_trainer *t, int64_t step, bt_state_values *values)
{
    const bt_loader_cursor cursor = bt_feed_cursor(&t->feed);
    *values = (bt_state_values){.step = step,
                                .epoch = cursor.epoch,
                                .position = cursor.position,
                                .rng = {t->plan->seed, 0},
                                .lr = t->schedule.lr,
                                .min_lr = t->schedule.min_lr,
                                .warmup_steps = t->schedule.warmup_steps,
                                .decay_steps = t->schedule.decay_steps,
                                .heads = t->plan->model.heads};
}

bt_status bt_keep_digest(bt_trainer *t, int64_t step, char digest[33])
{
    bt_keep_values(t, step, &t->keep.state.values);
    BT_TRY(bt_keep_collect(t));
    if (bt_ranks_is_first(t)) {
        BT_TRY(bt_state_digest(bt_keep_context(t), &t->keep.state, digest));
    }
    return bt_ranks_share(t, digest, 33);
}

bt_status bt_keep_report_state(bt_trainer *t, int64_t step)
{
    const int64_t every = t->plan->digest_every;
    bt_train_state event = {.step = step};
    if (every == 0 || step % every != 0) {
        return BT_OK;
    }
    const int64_t start_ns = bt_clock_ns();
    BT_TRY(bt_keep_collect(t));
    if (!bt_ranks_is_first(t) || !t->observer->state) {
        return BT_OK;
    }
    BT_TRY(bt_state_tensors_digest(bt_keep_context(t), &t->keep.state, event.digest));
    event.host_ns = bt_clock_ns() - start_ns;
    return t->observer->state(t->observer->self, &event);
}

// ---- loading ------------------------------------------------------------------------------------

static bt_status report(const bt_trainer *t, const bt_train_save *event)
{
    const bool hears = t->observer->save && bt_ranks_is_first(t);
    return hears ? t->observer->save(t->observer->self, event) : BT_OK;
}

// The values that must equal the plan's; the plan's hash covers more, if there is one.
static bt_status check_values(const bt_trainer *t, const bt_state_values *loaded)
{
    bt_state_values own;
    bt_keep_values(t, loaded->step, &own);
    const struct {
        const char *name;
        double saved, planned;
    } rows[] = {
        {"optimizer.lr", loaded->lr, own.lr},
        {"optimizer.min_lr", loaded->min_lr, own.min_lr},
        {"optimizer.warmup_steps", (double)loaded->warmup_steps, (double)own.warmup_steps},
        {"optimizer.decay_steps", (double)loaded->decay_steps, (double)own.decay_steps},
        {"seed", (double)loaded->rng.seed, (double)own.rng.seed},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        if (rows[i].saved < rows[i].planned || rows[i].saved > rows[i].planned) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "the checkpoint of step %lld has %s %.17g, the plan %.17g",
                            (long long)loaded->step, rows[i].name, rows[i].saved, rows[i].planned);
        }
    }
    return loaded->step <= t->plan->steps
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "the checkpoint is of step %lld, but the plan has only %lld steps",
                          (long long)loaded->step, (long long)t->plan->steps);
}

// Updates what depends on the masters and moments of this rank, and on the values.
bt_status bt_keep_take_masters(bt_trainer *t, const bt_state_values *values)
{
    if (t->parallel) {
        BT_TRY(bt_data_parallel_refresh(t->parallel));
    }
    for (int64_t i = 0; i < t->params.count && !t->parallel; ++i) {
        const bt_param *param = &t->params.items[i];
        if (param->value != param->master) {
            BT_TRY(bt_tensor_copy(&t->session.context, param->master, param->value));
        }
    }
    t->optimizer.step = values->step;
    return bt_feed_seek(&t->feed, (bt_loader_cursor){values->epoch, values->position, 0},
                        t->plan->steps - values->step);
}

// Updates what depends on the state's tensors, which rank 0 has, and the values.
bt_status bt_keep_take_state(bt_trainer *t, const bt_state_values *values)
{
    if (t->parallel) {
        BT_TRY(bt_mesh_state_spread(t));
        BT_TRY(bt_data_parallel_spread(t->parallel, &t->optimizer));
    }
    return bt_keep_take_masters(t, values);
}

// Removes checkpoints from step `from` on, which were excluded by choice.
static bt_status remove_newer(const bt_keep *keep, int64_t from)
{
    int64_t *steps = NULL;
    int64_t count = 0;
    bt_status status = bt_checkpoint_list(&keep->store, &steps, &count);
    for (int64_t i = 0; i < count && status == BT_OK; ++i) {
        status = steps[i] >= from ? bt_checkpoint_remove(&keep->store, steps[i]) : BT_OK;
    }
    bt_mem_free(steps);
    return status;
}

bt_status bt_keep_report_load(const bt_trainer *t)
{
    const bt_checkpoint_info *info = &t->keep.loaded;
    const bool none = info->step < 0;
    if (info->skipped > 0) {
        BT_TRY(report(t, &(bt_train_save){.kind = BT_TRAIN_SAVE_SKIPPED,
                                          .step = info->skipped,
                                          .message = info->skip_reason}));
    }
    return report(t, &(bt_train_save){.kind = none ? BT_TRAIN_SAVE_NONE : BT_TRAIN_SAVE_LOADED,
                                      .step = none ? 0 : info->step,
                                      .seen_step = none ? 0 : info->step,
                                      .host_ns = t->keep.load_ns,
                                      .size_bytes = none ? 0 : (int64_t)info->size_bytes,
                                      .message = ""});
}

bt_status bt_keep_load(bt_trainer *t, int64_t below, int64_t *step)
{
    bt_keep *keep = &t->keep;
    bt_checkpoint_info *info = &keep->loaded;
    const bt_checkpoint_load_options options = {.plan_hash = t->plan->checkpoints.plan_hash,
                                                .below = below};
    const int64_t start_ns = bt_clock_ns();
    *step = 0;
    BT_TRY(bt_keep_await(t));
    bt_state part = saved_part(t);
    if (bt_ranks_is_first(t)) {
        BT_TRY(bt_checkpoint_load_newest(bt_keep_context(t), &keep->store, &options, &part, info));
        BT_TRY(info->step >= 0 ? check_values(t, &info->values) : BT_OK);
    }
    BT_TRY(bt_ranks_share(t, &info->step, sizeof info->step));
    BT_TRY(bt_ranks_share(t, &info->values, sizeof info->values));
    if (info->step >= 0) {
        BT_TRY(bt_keep_take_state(t, &info->values));
        BT_TRY(bt_context_synchronize(&t->session.context));
        *step = info->step;
    }
    keep->load_ns = bt_clock_ns() - start_ns;
    keep->given_step = info->step;
    return below > 0 && bt_ranks_is_first(t) ? remove_newer(keep, below) : BT_OK;
}

// ---- saving -------------------------------------------------------------------------------------

// `status` of the last save; its message is bt_error_message().
static bt_status report_end(bt_trainer *t, int64_t seen_step, bt_status status)
{
    bt_keep *keep = &t->keep;
    (void)snprintf(keep->failure_message, sizeof keep->failure_message, "%s",
                   status == BT_OK ? "" : bt_error_message());
    keep->failure = status;
    keep->in_flight = false;
    const bt_train_save event = {.kind =
                                     status == BT_OK ? BT_TRAIN_SAVE_SAVED : BT_TRAIN_SAVE_FAILED,
                                 .step = keep->given_step,
                                 .seen_step = seen_step,
                                 .host_ns = bt_clock_ns() - keep->given_ns,
                                 .blocked_ns = keep->blocked_ns,
                                 .size_bytes = (int64_t)keep->size_bytes,
                                 .message = keep->failure_message};
    if (status != BT_OK) {
        keep->given_step = -1; // not saved
    }
    return report(t, &event);
}

// Passes the state to the writer, or saves it here. On a GPU the writer's page-locked memory is
// used for synchronous saves as well.
static bt_status begin_save(bt_trainer *t, int64_t step)
{
    bt_keep *keep = &t->keep;
    bool started = false;
    const int64_t start_ns = bt_clock_ns();
    bt_keep_values(t, step, &keep->state.values);
    bt_status status = BT_OK;
    if (keep->writer) {
        BT_TRY(bt_checkpoint_start(keep->writer, &keep->state.values, &started));
        if (!started) {
            return BT_OK; // one is in flight: this one is skipped
        }
    } else {
        const bt_checkpoint_options options = save_options(t->plan);
        const bt_state part = saved_part(t);
        status = bt_checkpoint_save(bt_keep_context(t), &keep->store, &options, &part);
    }
    keep->given_step = step;
    keep->given_ns = keep->clock_ns = start_ns;
    if (keep->writer && !t->plan->checkpoints.asynchronous) {
        status = bt_checkpoint_wait(keep->writer);
    }
    keep->blocked_ns = bt_clock_ns() - start_ns;
    keep->in_flight = t->plan->checkpoints.asynchronous;
    return keep->in_flight ? BT_OK : report_end(t, step, status);
}

static bool is_due(const bt_trainer *t, int64_t step)
{
    const bt_train_checkpoints *plan = &t->plan->checkpoints;
    const double minutes = (double)(bt_clock_ns() - t->keep.clock_ns) / 60e9;
    return (plan->every_steps > 0 && step % plan->every_steps == 0) ||
           (plan->every_minutes > 0 && minutes >= plan->every_minutes);
}

// Collects the state on a stream of its own, beside the next step, and passes it to the writer. The
// update of that step waits.
static bt_status save_beside(bt_trainer *t, int64_t step)
{
    bt_context *context = &t->session.context;
    bt_device *device = context->device;
    const bt_stream training = context->stream;
    BT_TRY(device->backend->event_record(device, t->keep.collected, training));
    BT_TRY(device->backend->event_wait(device, t->keep.collected, t->keep.stream));
    context->stream = t->keep.stream;
    bt_status status = collect(t);
    if (status == BT_OK && bt_ranks_is_first(t)) {
        status = begin_save(t, step);
    }
    if (status == BT_OK) {
        status = device->backend->event_record(device, t->keep.collected, t->keep.stream);
    }
    context->stream = training;
    t->keep.collecting = status == BT_OK;
    return status;
}

// Whether all ranks save now. Rank 0's clock decides; only it knows whether its writer still reads
// the tensors in which the state would be collected.
static bt_status agree_on_save(bt_trainer *t, int64_t step, bool *due)
{
    const bt_train_checkpoints *plan = &t->plan->checkpoints;
    *due = is_due(t, step);
    const bool may_be_busy = t->keep.in_host && plan->asynchronous;
    const bool asks = plan->every_minutes > 0 || (*due && may_be_busy);
    *due = *due && !(may_be_busy && t->keep.in_flight);
    return asks ? bt_ranks_share(t, due, sizeof *due) : BT_OK;
}

bt_status bt_keep_tick(bt_trainer *t, int64_t step)
{
    bt_keep *keep = &t->keep;
    if (!keep->store.folder) {
        return BT_OK;
    }
    if (keep->in_flight && !bt_checkpoint_is_busy(keep->writer)) {
        BT_TRY(report_end(t, step, bt_checkpoint_wait(keep->writer)));
    }
    bool due = false;
    BT_TRY(agree_on_save(t, step, &due));
    if (!due || t->keep.stream) {
        return due ? save_beside(t, step) : BT_OK;
    }
    BT_TRY(bt_keep_collect(t));
    return bt_ranks_is_first(t) ? begin_save(t, step) : BT_OK;
}

bool bt_keep_copies(const bt_trainer *t)
{
    return t->keep.collecting || (t->keep.in_flight && bt_checkpoint_is_copying(t->keep.writer));
}

static bt_status end_save(bt_trainer *t, int64_t step)
{
    return t->keep.in_flight ? report_end(t, step, bt_checkpoint_wait(t->keep.writer)) : BT_OK;
}

static bt_status reload(bt_trainer *t)
{
    int64_t step = 0;
    BT_TRY(bt_keep_load(t, 0, &step));
    return bt_keep_report_load(t);
}

bt_status bt_keep_finish(bt_trainer *t, int64_t step)
{
    bt_keep *keep = &t->keep;
    const bt_train_checkpoints *plan = &t->plan->checkpoints;
    const bool stopped = step < t->plan->steps;
    const bool periodic = plan->every_steps > 0 || plan->every_minutes > 0;
    if (!keep->store.folder) {
        return BT_OK;
    }
    BT_TRY(end_save(t, step));
    if (!plan->at_end && !(stopped && periodic)) {
        return BT_OK;
    }
    BT_TRY(bt_keep_collect(t));
    const bool writes = bt_ranks_is_first(t);
    if (writes && keep->given_step != step) {
        BT_TRY(begin_save(t, step));
        BT_TRY(end_save(t, step));
    }
    if (writes && keep->given_step != step) {
        return bt_error(keep->failure, "the state after step %lld was not saved: %s",
                        (long long)step, keep->failure_message);
    }
    return plan->reload && !stopped ? reload(t) : BT_OK;
}

bt_status bt_keep_roll_back(bt_trainer *t, int64_t step, int64_t *from)
{
    const bt_loader_cursor next = bt_feed_cursor(&t->feed);
    *from = 0;
    if (t->keep.store.folder) {
        BT_TRY(end_save(t, step));
        BT_TRY(bt_keep_load(t, 0, from));
        BT_TRY(bt_keep_report_load(t));
    }
    if (!t->keep.store.folder || t->keep.given_step < 0) {
        return bt_error(BT_STATUS_UNAVAILABLE, "there is no checkpoint to roll back to");
    }
    t->optimizer.step = step;
    return bt_feed_seek(&t->feed, next, t->plan->steps - step);
}
