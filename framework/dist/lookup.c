// framework/dist/lookup.c - the gradient of a tied embedding in two parts
//
// The backward of the head comes first and gives a dense gradient of the table; the backward of the
// lookup comes last and gives a sparse one. So the dense part is reduced during the backward like
// any other gradient. The sparse part has its own buffer: rows that any rank has looked up in the
// step are packed, summed over the ranks and added to the sum of the dense part. Before the last
// backward the ranks exchange on the host which rows these are.
//
// Invariants
//   1. Whether there are two parts depends only on the number of ids of a step and of rows of the
//      table, and the sums of both parts follow the shards' tree: the bits do not depend on the
//      ranks.
//   2. Rows that no rank looked up are not touched.
//   3. Workspace and packed rows have the same size in each step, however many rows there are.
#include <string.h>

#include "framework/base/mem.h"
#include "framework/dist/data_parallel_impl.h"
#include "kernels/kernels.h"

enum { ROWS_PER_ID = 2 }; // two parts if the table has at least this many rows per id

int64_t bt_lookup_param(const bt_params *params, const bt_data_parallel_options *options)
{
    const bt_tensor *tied = options->tied;
    if (!tied || options->lookups < 1 || tied->shape.rank != 2 ||
        tied->shape.size[0] / ROWS_PER_ID < options->lookups || params->master != BT_F32) {
        return -1;
    }
    for (int64_t i = 0; i < params->count; ++i) {
        if (params->items[i].value == tied) {
            return i;
        }
    }
    return -1;
}

// ---- two buffers --------------------------------------------------------------------------------

static void give_home(bt_tensor *leaf, bt_tensor *home, bool holds_sum)
{
    BT_TENSOR_RELEASE(leaf->grad);
    bt_tensor_release(leaf->home);
    leaf->home = bt_tensor_retain(home);
    leaf->grad = holds_sum ? bt_tensor_retain(home) : NULL;
}

static bt_tensor *leaf_of(const bt_data_parallel *p)
{
    return p->params->items[p->lookup->param].value;
}

// Whether this is not the first micro-batch of the current shard; ZERO2 has one shard here.
static bool goes_on(const bt_data_parallel *p)
{
    const bool one_shard = p->sharded && p->options.sharding == BT_SHARDING_ZERO2;
    return one_shard ? p->index > 0 : p->index % p->shard_batches != 0;
}

// The head's part is complete: the next gradient is that of the lookups.
static bt_status head_is_done(void *self, bt_context *context, bt_tensor *leaf)
{
    bt_data_parallel *p = self;
    bt_lookup *lookup = p->lookup;
    if (lookup->swapped) {
        return BT_OK;
    }
    lookup->swapped = true;
    bt_tensor *head = p->homes[bt_data_parallel_level(p) * p->params->count + lookup->param];
    give_home(leaf, lookup->homes[bt_data_parallel_level(p)], goes_on(p));
    return lookup->bucket.ready(lookup->bucket.self, context, head);
}

static bt_status all_is_done(void *self, bt_context *context, bt_tensor *grad)
{
    const bt_data_parallel *p = self;
    (void)context, (void)grad;
    return p->lookup->swapped
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "parameter %s is declared as tied, but only one op reads it",
                          p->params->items[p->lookup->param].name);
}

// ---- which rows ---------------------------------------------------------------------------------

static size_t mask_bytes(const bt_lookup *lookup) { return ((size_t)lookup->rows + 7) / 8; }

void bt_data_parallel_ids(bt_data_parallel *p, int64_t index, const int32_t *ids, int64_t count)
{
    bt_lookup *lookup = p->lookup;
    if (!lookup) {
        return;
    }
    if (index == 0) {
        memset(lookup->own_rows, 0, mask_bytes(lookup));
    }
    for (int64_t i = 0; i < count; ++i) { // the embedding reports ids outside of the table
        if (ids[i] >= 0 && ids[i] < lookup->rows) {
            lookup->own_rows[ids[i] / 8] |= (unsigned char)(1U << ids[i] % 8);
        }
    }
}

// Combines own_rows with the rows of all other ranks.
static bt_status share_rows(bt_data_parallel *p)
{
    bt_lookup *lookup = p->lookup;
    const size_t bytes = mask_bytes(lookup);
    void *block = NULL;
    if (p->ranks == 1) {
        return BT_OK;
    }
    BT_TRY(bt_mem_alloc(bytes, 1, &block));
    unsigned char *all = block;
    bt_status status = BT_OK;
    bt_range_push(p->context, BT_COMMUNICATION); // the host waits, and gives the device no work
    for (int rank = 0; rank < p->ranks && status == BT_OK; ++rank) {
        const bool mine = rank == p->rank;
        unsigned char *rows = mine ? lookup->own_rows : lookup->other_rows;
        status = bt_group_tell(p->options.group, rows, (int64_t)bytes, rank);
        for (size_t i = 0; i < bytes && status == BT_OK; ++i) {
            all[i] |= rows[i];
        }
    }
    bt_range_pop(p->context);
    memcpy(lookup->own_rows, all, bytes);
    bt_mem_free(all);
    return status;
}

static bt_status list_rows(bt_data_parallel *p)
{
    bt_lookup *lookup = p->lookup;
    BT_TRY(share_rows(p));
    lookup->count = 0;
    for (int64_t row = 0; row < lookup->rows; ++row) {
        if ((lookup->own_rows[row / 8] & 1U << row % 8) == 0) {
            continue;
        }
        if (lookup->count == lookup->most) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "a step has looked up more than the %lld rows that were planned",
                            (long long)lookup->most);
        }
        lookup->ids[lookup->count++] = (int32_t)row;
    }
    return bt_tensor_write(p->context, lookup->packed_ids, lookup->ids);
}

bt_status bt_lookup_begin(bt_data_parallel *p)
{
    if (!p->lookup) {
        return BT_OK;
    }
    const bt_bucket_slot *slot = &p->layout.slots[p->layout.items[0].first];
    const int level = bt_data_parallel_level(p);
    p->lookup->swapped = false;
    give_home(leaf_of(p), p->homes[level * p->params->count + slot->param],
              p->index % p->shard_batches != 0);
    return p->index + 1 == p->options.micro_batches ? list_rows(p) : BT_OK;
}

// ---- sums ---------------------------------------------------------------------------------------

bt_status bt_lookup_fold(bt_data_parallel *p)
{
    return p->lookup ? bt_data_parallel_fold(p, p->lookup->homes, p->lookup->rows * p->lookup->cols)
                     : BT_OK;
}

bt_status bt_lookup_send(bt_data_parallel *p)
{
    bt_lookup *lookup = p->lookup;
    bt_device *device = p->context->device;
    if (!lookup || lookup->count == 0) {
        return BT_OK;
    }
    const bt_embedding_args pack = {.ids = bt_tensor_data(lookup->packed_ids),
                                    .table = bt_tensor_data(lookup->homes[0]),
                                    .y = bt_tensor_data(lookup->packed),
                                    .rows = lookup->count,
                                    .cols = lookup->cols,
                                    .vocab = lookup->rows,
                                    .positions = lookup->count,
                                    .dtype = BT_F32};
    BT_TRY(bt_context_launch(p->context, BT_KERNEL_EMBEDDING, BT_F32, &pack));
    bt_tensor_touch(lookup->packed);
    if (p->ranks == 1) {
        return BT_OK;
    }
    BT_TRY(device->backend->event_record(device, p->produced, p->context->stream));
    BT_TRY(device->backend->event_wait(device, p->produced, p->stream));
    bt_range_push(p->context, BT_COMMUNICATION);
    const bt_status status =
        bt_all_reduce(p->options.group, bt_tensor_data(lookup->packed),
                      lookup->count * lookup->cols, BT_F32, BT_REDUCE_SUM, p->stream);
    bt_range_pop(p->context);
    return status;
}

// to[r, :] += packed[from + i, :], r = ids[i] of `rows`.
static bt_status add_rows(bt_data_parallel *p, float *to, int64_t rows, int64_t from, int64_t count)
{
    bt_lookup *lookup = p->lookup;
    const bt_kernel *kernel = NULL;
    bt_embedding_backward_args args = {.ids = bt_tensor_data(lookup->own_ids),
                                       .dy = (const float *)bt_tensor_data(lookup->packed) +
                                             from * lookup->cols,
                                       .dtable = to,
                                       .rows = lookup->most,
                                       .cols = lookup->cols,
                                       .vocab = rows,
                                       .positions = lookup->most,
                                       .accumulate = true,
                                       .dtype = BT_F32,
                                       .grad_dtype = BT_F32};
    bt_kernel_plan plan = {.number = 0};
    BT_TRY(
        bt_kernel_find(p->context->device, BT_KERNEL_EMBEDDING_BACKWARD, BT_F32, &args, &kernel));
    plan.workspace_bytes = kernel->workspace ? kernel->workspace(p->context->device, &args) : 0;
    args.rows = args.positions = count;
    const size_t needed = kernel->workspace ? kernel->workspace(p->context->device, &args) : 0;
    plan.workspace_bytes = needed > plan.workspace_bytes ? needed : plan.workspace_bytes;
    return bt_context_launch_row(p->context, kernel, &plan, &args);
}

// This rank's part of the flat table is [low, low + length), at element `at` of `sum`. A row that
// spans two ranks' parts is added in pieces.
static bt_status add_part(bt_data_parallel *p, bt_tensor *sum, int64_t low, int64_t length,
                          int64_t at)
{
    bt_lookup *lookup = p->lookup;
    const int64_t cols = lookup->cols, end = low + length;
    const int64_t first = (low + cols - 1) / cols, last = end / cols; // whole rows
    int64_t from = 0, count = 0;
    for (int64_t i = 0; i < lookup->count; ++i) {
        const int64_t row = lookup->ids[i], begin = row * cols > low ? row * cols : low;
        const int64_t stop = (row + 1) * cols < end ? (row + 1) * cols : end;
        if (row >= first && row < last) {
            from = count == 0 ? i : from;
            lookup->ids[count++] = (int32_t)(row - first); // entries before i have been read
        } else if (stop > begin) {
            BT_TRY(bt_flat_add(p->context, sum, at + begin - low, lookup->packed,
                               i * cols + begin - row * cols, stop - begin));
        }
    }
    if (count == 0) {
        return BT_OK;
    }
    BT_TRY(bt_tensor_write(p->context, lookup->own_ids, lookup->ids));
    bt_tensor_touch(sum);
    return add_rows(p, (float *)bt_tensor_data(sum) + at + first * cols - low, last - first, from,
                    count);
}

bt_status bt_lookup_add(bt_data_parallel *p)
{
    if (!p->lookup) {
        return BT_OK;
    }
    const bt_bucket_slot *slot = &p->layout.slots[p->layout.items[0].first];
    int64_t offset = 0, at = slot->offset, length = slot->count;
    if (p->sharded) {
        length = bt_bucket_slot_part(&p->layout, slot, p->rank, &offset, &at);
    }
    bt_tensor *sum = p->sharded ? p->buckets[0].reduced : p->buckets[0].grads[0];
    return length > 0 ? add_part(p, sum, offset, length, at) : BT_OK;
}

// ---- opening ------------------------------------------------------------------------------------

static bt_status create_tensors(bt_data_parallel *p, bt_lookup *lookup)
{
    bt_context *context = p->context;
    for (int level = 0; level < p->levels; ++level) {
        BT_TRY(bt_tensor_zeros(context, BT_F32, BT_SHAPE(lookup->rows, lookup->cols),
                               "gradients of lookups", &lookup->homes[level]));
    }
    BT_TRY(bt_tensor_zeros(context, BT_F32, BT_SHAPE(lookup->most, lookup->cols), "rows looked up",
                           &lookup->packed));
    BT_TRY(bt_tensor_zeros(context, BT_I32, BT_SHAPE(lookup->most), "rows looked up",
                           &lookup->packed_ids));
    return bt_tensor_zeros(context, BT_I32, BT_SHAPE(lookup->most), "rows looked up",
                           &lookup->own_ids);
}

bt_status bt_lookup_create(bt_data_parallel *p, int64_t param)
{
    void *block = NULL;
    if (param < 0) {
        return BT_OK;
    }
    bt_tensor *leaf = p->params->items[param].value;
    BT_TRY(bt_mem_alloc(1, sizeof *p->lookup, &block));
    bt_lookup *lookup = block;
    *lookup = (bt_lookup){.param = param,
                          .bucket = leaf->grad_hook,
                          .rows = leaf->shape.size[0],
                          .cols = leaf->shape.size[1],
                          .most = p->options.lookups};
    p->lookup = lookup;
    BT_TRY(bt_mem_alloc((size_t)lookup->most, sizeof *lookup->ids, &block));
    lookup->ids = block;
    BT_TRY(bt_mem_alloc(mask_bytes(lookup), 1, &block));
    lookup->own_rows = block;
    BT_TRY(bt_mem_alloc(mask_bytes(lookup), 1, &block));
    lookup->other_rows = block;
    leaf->grad_hook = (bt_grad_hook){p, all_is_done, head_is_done};
    return create_tensors(p, lookup);
}

void bt_lookup_release(bt_data_parallel *p)
{
    bt_lookup *lookup = p->lookup;
    if (!lookup) {
        return;
    }
    for (int level = 0; level < p->levels; ++level) {
        bt_tensor_release(lookup->homes[level]);
    }
    bt_tensor_release(lookup->packed);
    bt_tensor_release(lookup->packed_ids);
    bt_tensor_release(lookup->own_ids);
    bt_mem_free(lookup->ids);
    bt_mem_free(lookup->own_rows);
    bt_mem_free(lookup->other_rows);
    bt_mem_free(lookup);
    p->lookup = NULL;
}
