// framework/train/trainer.c - opens and closes a training run, and reports its kernels
#include "framework/train/trainer.h"

#include <string.h>

#include "framework/base/mem.h"
#include "framework/eval/pretrained.h"

// ---- kernels ------------------------------------------------------------------------------------

static bool is_seen(const bt_trainer *t, const bt_kernel *kernel, const char *label)
{
    for (int i = 0; i < t->seen_count; ++i) {
        const bt_seen_kernel *seen = &t->seen[i];
        if (seen->kernel == kernel && (!label || strcmp(seen->label, label) == 0)) {
            return true;
        }
    }
    return false;
}

static void on_kernel(void *self, const bt_kernel *kernel, const bt_kernel_plan *plan,
                      const void *args)
{
    bt_trainer *t = self;
    char label[sizeof t->seen[0].label];
    bt_step_graph_hear(t, kernel, args);
    if (t->seen_count == BT_TRAINER_KERNELS || (t->plans_seen && is_seen(t, kernel, NULL))) {
        return;
    }
    bt_kernel_label(&t->session.device, kernel, plan, args, label, sizeof label);
    if (!is_seen(t, kernel, label)) {
        bt_seen_kernel *seen = &t->seen[t->seen_count++];
        seen->kernel = kernel;
        memcpy(seen->label, label, sizeof label);
    }
}

bt_status bt_trainer_report_kernels(bt_trainer *t)
{
    for (; t->reported_count < t->seen_count && t->observer->kernel; ++t->reported_count) {
        const bt_seen_kernel *seen = &t->seen[t->reported_count];
        bt_train_kernel event = {bt_kernel_op_name(seen->kernel->op), seen->label};
        BT_TRY(t->observer->kernel(t->observer->self, &event));
    }
    const char *warning = t->session.tuner ? bt_gemm_tuner_warning(t->session.tuner) : "";
    if (!t->plans_seen && *warning && t->observer->note) {
        BT_TRY(t->observer->note(t->observer->self, warning));
    }
    t->plans_seen = true;
    return BT_OK;
}

// ---- opening and closing ------------------------------------------------------------------------

static bt_status open_loaders(bt_trainer *t)
{
    const bt_train_plan *plan = t->plan;
    const int sharing = bt_ranks_sharing(t), ranks = bt_ranks_count(t) / sharing;
    bt_loader_options options = {.shards = plan->train_shards,
                                 .shard_count = plan->train_shard_count,
                                 .micro_batch = plan->micro_batch,
                                 .sequence = plan->sequence,
                                 .vocab = plan->model.vocab,
                                 .rank = bt_ranks_own(t) / sharing,
                                 .world = ranks,
                                 .turn = ranks > 1 ? t->accumulation : 1,
                                 .shuffle = !plan->sequential,
                                 .seed = plan->seed};
    BT_TRY(bt_loader_create(&options, &t->train));
    if (plan->val_shard_count == 0 || plan->eval_every == 0) {
        return BT_OK;
    }
    options.shards = plan->val_shards;
    options.shard_count = plan->val_shard_count;
    options.shuffle = false;
    options.turn = 1;
    return bt_error_context(bt_loader_create(&options, &t->val), "validation data");
}

static bt_status open_marks(bt_trainer *t)
{
    bt_device *device = &t->session.device;
    bt_ranges *ranges = t->session.context.ranges;
    if (ranges->watched) {
        BT_TRY(device->backend->pinned_alloc(device, BT_RANGES_MARKS, &t->marks));
        memset(t->marks, 0, BT_RANGES_MARKS);
        bt_ranges_marks_keep(ranges, t->marks);
    }
    return BT_OK;
}

static void close_marks(bt_trainer *t)
{
    if (t->marks) {
        (void)!bt_context_synchronize(&t->session.context); // range marks of a failed step
        bt_ranges_marks_keep(t->session.context.ranges, NULL);
        t->session.device.backend->pinned_free(&t->session.device, t->marks);
    }
}

static bt_status open_device(bt_trainer *t)
{
    const bt_train_plan *plan = t->plan;
    const bt_device *given = plan->parallel.group ? plan->parallel.group->device : NULL;
    BT_TRY(given ? bt_session_open_on(given, plan->memory_limit_bytes, &t->session)
                 : bt_session_open(plan->device, plan->ordinal, plan->memory_limit_bytes,
                                   &t->session));
    t->session.context.compute =
        plan->precision == BT_PRECISION_TF32 ? BT_COMPUTE_TF32 : BT_COMPUTE_NATIVE;
    t->session.context.kernel_hook = (bt_kernel_hook){t, on_kernel};
    t->session.context.ranges = t->observer->ranges ? t->observer->ranges : &t->ranges;
    t->session.context.anomaly = plan->anomaly;
    BT_TRY(open_marks(t));
    BT_TRY(t->session.device.backend->event_create(&t->session.device, &t->step_start));
    return t->session.device.backend->event_create(&t->session.device, &t->step_stop);
}

// Loads weights from a file, whose model must match the plan's.
static bt_status load_weights(bt_trainer *t)
{
    const bt_model_config *planned = &t->plan->model;
    bt_pretrained from;
    BT_TRY(bt_pretrained_find(t->plan->init, planned->heads, &from));
    const struct {
        const char *name;
        int64_t given, planned;
    } rows[] = {{"layers", from.model.layers, planned->layers},
                {"width", from.model.width, planned->width},
                {"vocab", from.model.vocab, planned->vocab},
                {"context", from.model.context, planned->context}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        if (rows[i].given != rows[i].planned) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s has %s %lld, the plan's model %lld",
                            from.path, rows[i].name, (long long)rows[i].given,
                            (long long)rows[i].planned);
        }
    }
    return bt_pretrained_load(&t->session.context, &from, &t->params);
}

static bt_status open_model(bt_trainer *t)
{
    const bt_train_plan *plan = t->plan;
    const bt_train_optimizer *o = &plan->optimizer;
    bt_dtype compute = plan->precision == BT_PRECISION_BF16 ? BT_BF16 : BT_F32;
    bt_adamw_config config = {.beta1 = o->beta1,
                              .beta2 = o->beta2,
                              .epsilon = o->epsilon,
                              .weight_decay = o->weight_decay,
                              .clip = o->clip};
    bt_model_config model = plan->model;
    if (bt_ranks_sharing(t) > 1) {
        BT_TRY(bt_ranks_open_sharing(t));
        model.sharing = &t->sharing;
    }
    bt_params_init(&t->params, &t->session.context, BT_F32, compute, plan->seed);
    BT_TRY(bt_keep_expects(t, &t->params.uninitialised));
    model.tensor = t->mesh.tensor;
    model.sequence_parallel = t->mesh.tensor && plan->parallel.sequence_parallel;
    model.aside = t->aside;
    model.chunks = t->chunks;
    BT_TRY(bt_model_open(&t->params, &model, plan->recompute, plan->recompute_blocks, &t->model));
    if (plan->init) {
        BT_TRY(bt_error_context(load_weights(t), "init"));
    }
    t->schedule = (bt_schedule){.lr = o->lr,
                                .min_lr = o->min_lr,
                                .warmup_steps = o->warmup_steps,
                                .decay_steps = o->decay_steps ? o->decay_steps : plan->steps};
    return bt_ranks_open(t, &config);
}

bt_status bt_trainer_open(bt_trainer *t)
{
    const bt_train_plan *plan = t->plan;
    BT_TRY(bt_ranks_meet(t));
    t->micro_batches =
        plan->tokens_per_step / (plan->micro_batch * plan->sequence) * bt_ranks_sharing(t);
    t->accumulation = t->micro_batches / bt_ranks_count(t);
    void *losses = NULL;
    BT_TRY(bt_mem_alloc((size_t)t->micro_batches, sizeof *t->host_losses, &losses));
    t->host_losses = losses;
    BT_TRY(open_loaders(t)); // before the device: bad data is the more likely mistake
    BT_TRY(open_device(t));
    BT_TRY(open_model(t));
    BT_TRY(bt_tensor_create(&t->session.context, BT_F32, BT_SHAPE(t->accumulation), "losses",
                            &t->losses));
    if (bt_ranks_count(t) > 1) {
        BT_TRY(bt_tensor_create(&t->session.context, BT_F32, BT_SHAPE(t->micro_batches), "losses",
                                &t->all_losses));
    }
    BT_TRY(bt_feed_init(&t->session.context, t->train, t->accumulation, plan->micro_batch,
                        plan->sequence, &t->sharing, plan->steps, &t->feed));
    BT_TRY(bt_profile_create(&t->session.context, &t->profile));
    BT_TRY(bt_trainer_compile(t));
    return bt_keep_open(t);
}

void bt_trainer_close(bt_trainer *t)
{
    bt_error_quiet_begin();
    bt_keep_close(t); // waits for the save in flight
    bt_step_graph_drop(t);
    bt_faults_close(t);
    bt_profile_destroy(t->profile);
    bt_trace_release(&t->trace);
    bt_trainer_compile_close(t);
    bt_feed_release(&t->feed);
    bt_tensor_release(t->losses);
    bt_tensor_release(t->all_losses);
    bt_adamw_release(&t->optimizer);
    bt_mesh_state_close(t);
    bt_data_parallel_destroy(t->parallel);
    bt_model_close(&t->model);
    bt_params_release(&t->params);
    if (t->step_start) {
        t->session.device.backend->event_destroy(&t->session.device, t->step_start);
    }
    if (t->step_stop) {
        t->session.device.backend->event_destroy(&t->session.device, t->step_stop);
    }
    close_marks(t);
    bt_ranks_close_sharing(t);
    bt_mesh_release(&t->mesh);
    bt_session_close(&t->session);
    bt_loader_destroy(t->val);
    bt_loader_destroy(t->train);
    bt_mem_free(t->host_losses);
    bt_error_quiet_end();
}
