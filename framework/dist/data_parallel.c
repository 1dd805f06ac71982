// framework/dist/data_parallel.c - gradient memory, sums of gradients over shards and ranks
//
// Level k of a bucket holds a partial sum of shards that waits for its sibling in the tree: shard s
// is written at level popcount(s), and then as many pairs of levels are added as s + 1 has trailing
// zeros. So level 0 ends up with the tree over all shards of the rank, and log2(shards) + 1 levels
// are enough.
#include "framework/base/mem.h"
#include "framework/dist/data_parallel_impl.h"

enum { DEFAULT_BUCKET_MB = 25 };

// ---- opening ------------------------------------------------------------------------------------

static bt_status check(const bt_data_parallel_options *options, int ranks)
{
    const int64_t shards = options->shards ? options->shards : ranks;
    if ((options->shards & (options->shards - 1)) != 0 || shards < ranks || shards % ranks != 0 ||
        options->micro_batches < 1 || options->micro_batches % (shards / ranks) != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%lld virtual shards of steps of %lld micro-batches on each of %d ranks: "
                        "shards must be a power of 2, a multiple of the ranks, and share the "
                        "micro-batches evenly",
                        (long long)options->shards, (long long)options->micro_batches, ranks);
    }
    return BT_OK;
}

static int levels_of(int64_t shards)
{
    int levels = 1;
    for (; shards > 1; shards /= 2) {
        ++levels;
    }
    return levels;
}

static bt_status fetch_zeros(void *self, bt_context *context, bt_storage *storage)
{
    (void)self;
    if (storage->data) {
        return BT_OK;
    }
    BT_TRY(bt_storage_take_back(context, storage, "gradients"));
    return context->device->backend->fill(context->device, storage->data, 0, storage->size_bytes,
                                          context->stream);
}

// The flat gradients of a bucket, and each leaf's view of them at each level.
static bt_status open_gradients(bt_data_parallel *p, int64_t b)
{
    const bt_bucket *layout = &p->layout.items[b];
    bt_bucket_memory *memory = &p->buckets[b];
    memory->owner = p;
    for (int level = 0; level < p->levels; ++level) {
        BT_TRY(level == 0
                   ? bt_bucket_tensor(p, BT_F32, layout->count, "gradients", &memory->grads[level])
                   : bt_tensor_zeros(p->context, BT_F32, BT_SHAPE(layout->count), "gradients",
                                     &memory->grads[level]));
        for (int64_t s = 0; s < layout->slot_count; ++s) {
            const bt_bucket_slot *slot = &p->layout.slots[layout->first + s];
            const bt_tensor *leaf = p->params->items[slot->param].value;
            int64_t stride[BT_MAX_RANK];
            bt_shape_strides(&leaf->shape, stride);
            BT_TRY(bt_tensor_view(memory->grads[level], leaf->shape, stride, slot->offset,
                                  &p->homes[level * p->params->count + slot->param]));
        }
    }
    if (p->window) {
        BT_TRY(bt_bucket_tensor(p, BT_F32, layout->count, "slots", &memory->slots));
        BT_TRY(p->context->device->backend->event_create(p->context->device, &memory->arrived));
    }
    if (!p->sharded) {
        return BT_OK;
    }
    if (p->options.sharding == BT_SHARDING_ZERO2) { // flat gradients exist while they are written
        memory->grads[0]->storage->source.fetch = fetch_zeros;
        bt_storage_give_up(memory->grads[0]->storage);
        return bt_tensor_zeros(p->context, BT_F32, BT_SHAPE(layout->part), "gradients",
                               &memory->reduced);
    }
    return memory->slots ? bt_flat_view(memory->slots, 0, layout->part, &memory->reduced)
                         : bt_flat_view(memory->grads[0], p->rank * layout->part, layout->part,
                                        &memory->reduced);
}

static bt_status ready(void *self, bt_context *context, bt_tensor *grad);

static bt_status open(bt_data_parallel *p)
{
    const bt_backend *backend = p->context->device->backend;
    const double mb = p->options.bucket_mb > 0 ? p->options.bucket_mb : DEFAULT_BUCKET_MB;
    void *block = NULL;
    const int64_t tied = bt_lookup_param(p->params, &p->options);
    BT_TRY(bt_buckets_make(p->params, p->ranks, tied, (int64_t)(mb * (1 << 20)), &p->layout));
    BT_TRY(bt_mem_alloc((size_t)p->layout.count, sizeof *p->buckets, &block));
    p->buckets = block;
    BT_TRY(bt_mem_alloc((size_t)p->params->count * (size_t)p->levels, sizeof(bt_tensor *), &block));
    p->homes = block;
    BT_TRY(bt_bucket_slots_open(p));
    BT_TRY(backend->stream_create(p->context->device, true, &p->stream));
    BT_TRY(backend->event_create(p->context->device, &p->produced));
    BT_TRY(backend->event_create(p->context->device, &p->reduced));
    if (p->sharded) {
        BT_TRY(bt_sharded_create(p));
    }
    for (int64_t b = 0; b < p->layout.count; ++b) {
        BT_TRY(open_gradients(p, b));
    }
    for (int64_t i = 0; i < p->layout.slot_count; ++i) {
        const bt_bucket_slot *slot = &p->layout.slots[i];
        p->params->items[slot->param].value->grad_hook =
            (bt_grad_hook){.self = &p->buckets[slot->bucket], .ready = ready};
    }
    return bt_lookup_create(p, tied);
}

bt_status bt_data_parallel_create(bt_params *params, const bt_data_parallel_options *options,
                                  bt_data_parallel **out)
{
    const int ranks = options->group ? options->group->size : 1;
    void *block = NULL;
    *out = NULL;
    BT_TRY(check(options, ranks));
    BT_TRY(bt_mem_alloc(1, sizeof(bt_data_parallel), &block));
    bt_data_parallel *p = block;
    *p = (bt_data_parallel){.context = params->context,
                            .params = params,
                            .options = *options,
                            .rank = options->group ? options->group->rank : 0,
                            .ranks = ranks,
                            .under_way = -1,
                            .sharded = ranks > 1 && options->sharding != BT_SHARDING_DDP};
    const bool each = p->sharded && options->sharding == BT_SHARDING_ZERO2;
    const int64_t shards = each              ? options->micro_batches
                           : options->shards ? options->shards / ranks
                                             : 1;
    p->levels = each ? 1 : levels_of(shards);
    p->shard_batches = options->micro_batches / shards;
    bt_status status = open(p);
    if (status != BT_OK) {
        bt_data_parallel_destroy(p);
        return status;
    }
    *out = p;
    return BT_OK;
}

void bt_data_parallel_destroy(bt_data_parallel *p)
{
    if (!p) {
        return;
    }
    const bt_backend *backend = p->context->device->backend;
    for (int64_t i = 0; i < p->params->count; ++i) {
        bt_tensor *leaf = p->params->items[i].value;
        leaf->grad_hook = (bt_grad_hook){0};
        BT_TENSOR_RELEASE(leaf->grad);
        BT_TENSOR_RELEASE(leaf->home);
    }
    for (int64_t i = 0; p->homes && i < p->levels * p->params->count; ++i) {
        bt_tensor_release(p->homes[i]);
    }
    for (int64_t b = 0; p->buckets && b < p->layout.count; ++b) {
        for (int level = 0; level < p->levels; ++level) {
            bt_tensor_release(p->buckets[b].grads[level]);
        }
        bt_tensor_release(p->buckets[b].slots);
        if (p->buckets[b].arrived) {
            backend->event_destroy(p->context->device, p->buckets[b].arrived);
        }
        bt_tensor_release(p->buckets[b].reduced);
    }
    bt_sharded_release(p);
    bt_lookup_release(p);
    bt_tensor_release(p->partials);
    bt_tensor_release(p->tensor_partials);
    if (p->produced) {
        backend->event_destroy(p->context->device, p->produced);
    }
    if (p->reduced) {
        backend->event_destroy(p->context->device, p->reduced);
    }
    if (p->stream) {
        (void)!bt_pool_retire_stream(p->context->pool, p->stream);
        backend->stream_destroy(p->context->device, p->stream);
    }
    bt_mem_free(p->homes);
    bt_mem_free(p->buckets);
    bt_buckets_release(&p->layout);
    bt_mem_free(p);
}

bool bt_data_parallel_runs_ahead(const bt_data_parallel *p)
{
    return p->sharded && !p->options.no_overlap && p->options.sharding != BT_SHARDING_ZERO3;
}

bt_status bt_data_parallel_catch_up(bt_data_parallel *p)
{
    return bt_data_parallel_runs_ahead(p) ? bt_data_parallel_join(p) : BT_OK;
}

bool bt_data_parallel_is_sharded(const bt_data_parallel *p) { return p->sharded; }

// ---- sums ---------------------------------------------------------------------------------------

static bool is_last(const bt_data_parallel *p) { return p->index + 1 == p->options.micro_batches; }

static bt_status reduce(bt_data_parallel *p, int64_t b)
{
    const bt_bucket *layout = &p->layout.items[b];
    void *data = bt_tensor_data(p->buckets[b].grads[0]);
    if (p->window) {
        return bt_bucket_slots_send(p, b);
    }
    if (p->sharded) {
        char *own = (char *)data + (size_t)(p->rank * layout->part) * sizeof(float);
        return bt_reduce_scatter(p->options.group, data, own, layout->part, BT_F32, BT_REDUCE_SUM,
                                 p->stream);
    }
    return bt_all_reduce(p->options.group, data, layout->count, BT_F32, BT_REDUCE_SUM, p->stream);
}

// ZERO2: releases the flat gradients of the bucket being reduced, once it is reduced.
static bt_status settle(bt_data_parallel *p)
{
    if (p->under_way < 0) {
        return BT_OK;
    }
    bt_storage *flat = p->buckets[p->under_way].grads[0]->storage;
    p->under_way = -1;
    bt_status status = bt_communication_await(p->context, p->reduced);
    bt_storage_give_up(flat);
    return status;
}

// ZERO2: adds this rank's part of the sum over ranks to that of earlier micro-batches, overlapping
// the backward. One bucket is reduced at a time.
static bt_status keep_part(bt_data_parallel *p, int64_t b)
{
    const bt_bucket *layout = &p->layout.items[b];
    const bt_bucket_memory *memory = &p->buckets[b];
    const int64_t own = p->rank * layout->part;
    bt_device *device = p->context->device;
    const bt_stream around = p->context->stream;
    p->context->stream = p->stream;
    bt_status status =
        p->index == 0
            ? bt_flat_copy(p->context, memory->grads[0], own, memory->reduced, 0, layout->part)
            : bt_flat_add(p->context, memory->reduced, 0, memory->grads[0], own, layout->part);
    p->context->stream = around;
    BT_TRY(status);
    p->under_way = b;
    return device->backend->event_record(device, p->reduced, p->stream);
}

// The shard's gradients of a partial bucket, of which each tensor parallel rank has a term.
static bt_status sum_terms(bt_data_parallel *p, int64_t b)
{
    bt_tensor *grads = p->buckets[b].grads[bt_data_parallel_level(p)];
    if (!p->layout.items[b].partial || !p->options.tensor) {
        return BT_OK;
    }
    bt_tensor_touch(grads);
    bt_range_push(p->context, BT_COMMUNICATION);
    const bt_status status =
        bt_all_reduce(p->options.tensor, bt_tensor_data(grads), p->layout.items[b].count, BT_F32,
                      BT_REDUCE_SUM, p->context->stream);
    bt_range_pop(p->context);
    return status;
}

// Called when all gradients of the bucket are complete.
static bt_status finish(bt_data_parallel *p, int64_t b)
{
    bt_device *device = p->context->device;
    BT_TRY(sum_terms(p, b));
    BT_TRY(bt_data_parallel_fold(p, p->buckets[b].grads, p->layout.items[b].count));
    if (p->ranks == 1 || (!is_last(p) && !bt_data_parallel_sends_each(p))) {
        return BT_OK;
    }
    BT_TRY(settle(p));
    BT_TRY(device->backend->event_record(device, p->produced, p->context->stream));
    BT_TRY(device->backend->event_wait(device, p->produced, p->stream));
    bt_range_push(p->context, BT_COMMUNICATION);
    const bt_status status = reduce(p, b);
    bt_range_pop(p->context);
    BT_TRY(status);
    return bt_data_parallel_sends_each(p) ? keep_part(p, b) : BT_OK;
}

// Reduces buckets in index order, so that all ranks use the same order whatever completes first.
// Partial ones wait for the end of the backward: tensor parallel ranks have other buckets, so
// theirs are complete at other times.
static bt_status finish_complete(bt_data_parallel *p, bool in_backward)
{
    for (; p->next < p->layout.count && p->buckets[p->next].pending == 0; ++p->next) {
        if (in_backward && p->layout.items[p->next].partial) {
            break;
        }
        BT_TRY(finish(p, p->next));
    }
    return BT_OK;
}

static bool ends_shard(const bt_data_parallel *p) { return (p->index + 1) % p->shard_batches == 0; }

// A gradient of the bucket is complete.
static bt_status ready(void *self, bt_context *context, bt_tensor *grad)
{
    bt_bucket_memory *bucket = self;
    bt_data_parallel *p = bucket->owner;
    (void)context, (void)grad;
    --bucket->pending;
    return ends_shard(p) && !p->options.no_overlap ? finish_complete(p, true) : BT_OK;
}

static void give_homes(bt_data_parallel *p, int level, bool as_gradients)
{
    for (int64_t i = 0; i < p->params->count; ++i) {
        bt_tensor *leaf = p->params->items[i].value;
        bt_tensor *home = p->homes[level * p->params->count + i];
        BT_TENSOR_RELEASE(leaf->grad);
        bt_tensor_release(leaf->home);
        leaf->home = bt_tensor_retain(home);
        leaf->grad = as_gradients ? bt_tensor_retain(home) : NULL;
    }
}

bt_status bt_data_parallel_begin(bt_data_parallel *p, int64_t index)
{
    BT_TRY(settle(p));
    p->index = index;
    p->next = 0;
    for (int64_t b = 0; b < p->layout.count; ++b) {
        p->buckets[b].pending = p->layout.items[b].slot_count;
    }
    if (index % p->shard_batches == 0) {
        give_homes(p, bt_data_parallel_level_of(p, index / p->shard_batches), false);
    }
    BT_TRY(bt_lookup_begin(p));
    return bt_resident_walk(p, 1, true);
}

bt_status bt_data_parallel_forward(bt_data_parallel *p) { return bt_resident_walk(p, 0, false); }

static bt_status expect_all(const bt_data_parallel *p)
{
    for (int64_t i = 0; i < p->params->count; ++i) {
        if (!p->params->items[i].value->grad) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "parameter %s got no gradient: the model does not use it",
                            p->params->items[i].name);
        }
    }
    return BT_OK;
}

bt_status bt_data_parallel_end(bt_data_parallel *p)
{
    BT_TRY(expect_all(p));
    if (ends_shard(p)) {
        BT_TRY(finish_complete(p, false));
        BT_TRY(bt_lookup_fold(p));
    }
    BT_TRY(bt_resident_walk(p, 0, !is_last(p)));
    if (!is_last(p)) {
        return BT_OK;
    }
    BT_TRY(settle(p));
    give_homes(p, 0, true);
    BT_TRY(bt_lookup_send(p));
    BT_TRY(p->window ? bt_bucket_slots_sum(p) : BT_OK);
    BT_TRY(p->ranks > 1 ? bt_data_parallel_join(p) : BT_OK);
    return bt_lookup_add(p);
}

// ---- update -------------------------------------------------------------------------------------

// The partial sums of all parts of the parameters.
static bt_status gather_partials(bt_data_parallel *p, const bt_tensor **all)
{
    *all = p->partials;
    if (!p->tensor_partials) {
        return BT_OK;
    }
    *all = p->tensor_partials;
    bt_range_push(p->context, BT_COMMUNICATION);
    const bt_status status = bt_all_gather(
        p->options.tensor, bt_tensor_data(p->partials), bt_tensor_data(p->tensor_partials),
        (int64_t)bt_tensor_bytes(p->partials), p->context->stream);
    bt_range_pop(p->context);
    bt_tensor_touch(p->tensor_partials);
    return status;
}

bt_status bt_data_parallel_measure(bt_data_parallel *p, bt_adamw *optimizer, double grad_scale)
{
    bt_device *device = p->context->device;
    const bt_tensor *all = NULL;
    if (p->sharded) { // a sum with zeros is exact
        BT_TRY(device->backend->fill(device, bt_tensor_data(p->partials), 0,
                                     bt_tensor_bytes(p->partials), p->context->stream));
    }
    BT_TRY(bt_adamw_squares(p->context, optimizer, p->partials));
    if (p->sharded) {
        bt_range_push(p->context, BT_COMMUNICATION);
        const bt_status status =
            bt_all_reduce(p->options.group, bt_tensor_data(p->partials),
                          bt_tensor_count(p->partials), BT_F64, BT_REDUCE_SUM, p->context->stream);
        bt_range_pop(p->context);
        BT_TRY(status);
    }
    BT_TRY(gather_partials(p, &all));
    return bt_adamw_clip(p->context, optimizer, all, grad_scale);
}

bt_status bt_data_parallel_update(bt_data_parallel *p, bt_adamw *optimizer, double lr)
{
    BT_TRY(bt_adamw_update(p->context, optimizer, lr));
    return p->sharded ? bt_sharded_gather(p) : BT_OK;
}
