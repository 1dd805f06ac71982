// framework/dist/nccl.c - a group whose collectives NCCL moves
//
// A sum in the tree's order is an exchange (shard r of every rank into a slot of rank r), a fold of
// the slots, and for all_reduce an exchange of the sums; in pieces that fit the scratch memory.
#include "framework/dist/nccl.h"

#include <string.h>

#include "framework/base/environment.h"
#include "framework/base/mem.h"
#include "framework/dist/device_group.h"

enum { SCRATCH_BYTES = 64 << 20 };

typedef struct nccl_group {
    bt_device_group base;
    bt_nccl_comm *comm; // owned
    char *scratch;      // of the device [SCRATCH_BYTES], owned; NULL: NCCL sums
    void *word;         // of the device, owned: what a barrier sums
} nccl_group;

static nccl_group *self_of(bt_group *group) { return group->impl; }

static bt_status begin(nccl_group *self, bt_stream stream)
{
    BT_TRY(bt_device_group_check(&self->base.group));
    return bt_device_group_begin(&self->base, stream);
}

// Follows each NCCL call: a failure of the call fails the group.
static bt_status end(nccl_group *self, bt_status status, bt_stream stream)
{
    if (status != BT_OK) {
        bt_device_group_fail(&self->base, status, bt_error_message());
        return bt_device_group_check(&self->base.group);
    }
    return bt_device_group_end(&self->base, stream);
}

typedef struct nccl_legs {
    const void *out[BT_P2P_RANKS_MAX];
    void *in[BT_P2P_RANKS_MAX];
    int64_t out_bytes[BT_P2P_RANKS_MAX], in_bytes[BT_P2P_RANKS_MAX];
} nccl_legs;

static bt_status exchange(nccl_group *self, const nccl_legs *legs, bt_stream stream)
{
    return self->base.table->nccl_exchange(self->comm, legs->out, legs->out_bytes, legs->in,
                                           legs->in_bytes, stream);
}

static int64_t cut(int64_t begin, int64_t count) { return begin < count ? begin : count; }

// `own` elements at parts[rank] of every rank, summed into out; parts[r] has part_counts[r].
static bt_status sum_parts(nccl_group *self, const char *const *parts, const int64_t *part_counts,
                           void *out, bt_dtype dtype, bt_reduction reduction, bt_stream stream)
{
    const bt_group *group = &self->base.group;
    int64_t width = (int64_t)bt_dtype_size(dtype);
    int64_t own = part_counts[group->rank];
    int64_t slot_bytes = (own * width + 15) / 16 * 16;
    nccl_legs legs = {0};
    bt_p2p_sum fold = {.in_count = group->size,
                       .out_count = 1,
                       .out = {out},
                       .dtype = dtype,
                       .maximum = reduction == BT_REDUCE_MAX,
                       .count = own};
    for (int peer = 0; peer < group->size; ++peer) {
        fold.in[peer] = self->scratch + slot_bytes * peer;
        if (peer == group->rank) {
            fold.in[peer] = parts[peer];
            continue;
        }
        legs.out[peer] = parts[peer];
        legs.out_bytes[peer] = part_counts[peer] * width;
        legs.in[peer] = self->scratch + slot_bytes * peer;
        legs.in_bytes[peer] = own * width;
    }
    BT_TRY(exchange(self, &legs, stream));
    return own > 0 ? self->base.table->fold(self->base.device, stream, &fold) : BT_OK;
}

static bt_status all_reduce_piece(nccl_group *self, char *data, int64_t count, bt_dtype dtype,
                                  bt_reduction reduction, bt_stream stream)
{
    const bt_group *group = &self->base.group;
    int64_t width = (int64_t)bt_dtype_size(dtype);
    int64_t stride = (count + group->size - 1) / group->size;
    stride = (stride * width + 15) / 16 * 16 / width;
    const char *parts[BT_P2P_RANKS_MAX] = {0};
    int64_t counts[BT_P2P_RANKS_MAX] = {0};
    nccl_legs legs = {0};
    for (int peer = 0; peer < group->size; ++peer) {
        int64_t first = cut(stride * peer, count);
        counts[peer] = cut(stride * (peer + 1), count) - first;
        parts[peer] = data + first * width;
    }
    char *mine = data + cut(stride * group->rank, count) * width;
    BT_TRY(sum_parts(self, parts, counts, mine, dtype, reduction, stream));
    for (int peer = 0; peer < group->size; ++peer) {
        if (peer != group->rank) {
            legs.out[peer] = mine;
            legs.out_bytes[peer] = counts[group->rank] * width;
            legs.in[peer] = data + cut(stride * peer, count) * width;
            legs.in_bytes[peer] = counts[peer] * width;
        }
    }
    return exchange(self, &legs, stream);
}

static bt_status nccl_all_reduce(bt_group *group, void *data, int64_t count, bt_dtype dtype,
                                 bt_reduction reduction, bt_stream stream)
{
    nccl_group *self = self_of(group);
    int64_t width = (int64_t)bt_dtype_size(dtype);
    BT_TRY(begin(self, stream));
    bt_status status = BT_OK;
    if (self->scratch == NULL) {
        status = self->base.table->nccl_all_reduce(self->comm, data, count, dtype,
                                                   reduction == BT_REDUCE_MAX, stream);
        return end(self, status, stream);
    }
    int64_t piece = (SCRATCH_BYTES - 256) / width; // its shards, rounded up to 16 bytes, fit
    for (int64_t at = 0; at < count && status == BT_OK; at += piece) {
        int64_t length = count - at < piece ? count - at : piece;
        status =
            all_reduce_piece(self, (char *)data + at * width, length, dtype, reduction, stream);
    }
    return end(self, status, stream);
}

static bt_status nccl_reduce_scatter(bt_group *group, const void *in, void *out, int64_t count,
                                     bt_dtype dtype, bt_reduction reduction, bt_stream stream)
{
    nccl_group *self = self_of(group);
    int64_t width = (int64_t)bt_dtype_size(dtype);
    BT_TRY(begin(self, stream));
    bt_status status = BT_OK;
    if (self->scratch == NULL) {
        status = self->base.table->nccl_reduce_scatter(self->comm, in, out, count, dtype,
                                                       reduction == BT_REDUCE_MAX, stream);
        return end(self, status, stream);
    }
    int64_t piece = (SCRATCH_BYTES / group->size - 16) / width;
    for (int64_t at = 0; at < count && status == BT_OK; at += piece) {
        const char *parts[BT_P2P_RANKS_MAX] = {0};
        int64_t counts[BT_P2P_RANKS_MAX] = {0};
        for (int peer = 0; peer < group->size; ++peer) {
            parts[peer] = (const char *)in + (count * peer + at) * width;
            counts[peer] = count - at < piece ? count - at : piece;
        }
        status = sum_parts(self, parts, counts, (char *)out + at * width, dtype, reduction, stream);
    }
    return end(self, status, stream);
}

static bt_status nccl_all_gather(bt_group *group, const void *in, void *out, int64_t size_bytes,
                                 bt_stream stream)
{
    nccl_group *self = self_of(group);
    BT_TRY(begin(self, stream));
    bt_status status =
        size_bytes > 0 ? self->base.table->nccl_all_gather(self->comm, in, out, size_bytes, stream)
                       : BT_OK;
    return end(self, status, stream);
}

static bt_status copy(nccl_group *self, void *to, const void *from, int64_t size_bytes,
                      bt_stream stream)
{
    bt_device *device = self->base.device;
    return to == from ? BT_OK
                      : device->backend->copy(device, to, from, (size_t)size_bytes,
                                              BT_COPY_DEVICE_TO_DEVICE, stream);
}

static bt_status nccl_all_to_all(bt_group *group, const void *in, void *out, int64_t size_bytes,
                                 bt_stream stream)
{
    nccl_group *self = self_of(group);
    nccl_legs legs = {0};
    for (int peer = 0; peer < group->size && size_bytes > 0; ++peer) {
        if (peer != group->rank) {
            legs.out[peer] = (const char *)in + size_bytes * peer;
            legs.in[peer] = (char *)out + size_bytes * peer;
            legs.out_bytes[peer] = legs.in_bytes[peer] = size_bytes;
        }
    }
    int64_t own = size_bytes * group->rank;
    BT_TRY(begin(self, stream));
    bt_status status = exchange(self, &legs, stream);
    status =
        status ? status : copy(self, (char *)out + own, (const char *)in + own, size_bytes, stream);
    return end(self, status, stream);
}

static bt_status nccl_broadcast(bt_group *group, void *data, int64_t size_bytes, int root,
                                bt_stream stream)
{
    nccl_group *self = self_of(group);
    BT_TRY(begin(self, stream));
    bt_status status = size_bytes > 0 ? self->base.table->nccl_broadcast(self->comm, data,
                                                                         size_bytes, root, stream)
                                      : BT_OK;
    return end(self, status, stream);
}

static bt_status nccl_send_recv(bt_group *group, const void *out, int to, void *in, int from,
                                int64_t size_bytes, bt_stream stream)
{
    nccl_group *self = self_of(group);
    nccl_legs legs = {0};
    bool local = to == group->rank && from == group->rank;
    if (to >= 0 && !local && size_bytes > 0) {
        legs.out[to] = out;
        legs.out_bytes[to] = size_bytes;
    }
    if (from >= 0 && !local && size_bytes > 0) {
        legs.in[from] = in;
        legs.in_bytes[from] = size_bytes;
    }
    BT_TRY(begin(self, stream));
    bt_status status =
        local ? copy(self, in, out, size_bytes, stream) : exchange(self, &legs, stream);
    return end(self, status, stream);
}

static bt_status nccl_barrier(bt_group *group, bt_stream stream)
{
    nccl_group *self = self_of(group);
    BT_TRY(begin(self, stream));
    bt_status status =
        self->base.table->nccl_all_reduce(self->comm, self->word, 1, BT_I32, true, stream);
    return end(self, status, stream);
}

static bt_status ask_nccl(bt_device_group *group)
{
    return group->table->nccl_check(((nccl_group *)(void *)group)->comm);
}

static void give_up(bt_device_group *group)
{
    group->table->nccl_abort(((nccl_group *)(void *)group)->comm);
}

static void release(nccl_group *self, bool with_control)
{
    bt_device *device = self->base.device;
    if (self->comm != NULL) {
        self->base.table->nccl_leave(self->comm);
    }
    if (self->scratch != NULL) {
        device->backend->memory_free(device, self->scratch);
    }
    if (self->word != NULL) {
        device->backend->memory_free(device, self->word);
    }
    bt_device_group_release(&self->base, with_control);
    bt_mem_free(self);
}

static void nccl_destroy(bt_group *group)
{
    nccl_group *self = self_of(group);
    bt_device_group_finish(&self->base);
    release(self, true);
}

static bt_status nccl_split(bt_group *group, int colour, int key, bt_group **out)
{
    nccl_group *self = self_of(group);
    bt_group *control = NULL;
    const bt_nccl_options options = {.timeout_ns = self->base.timeout_ns,
                                     .own_order = self->scratch == NULL};
    BT_TRY(bt_device_group_split(&self->base, colour, key, &control));
    bt_status status =
        control != NULL ? bt_group_nccl_create(control, self->base.device, &options, out) : BT_OK;
    if (status != BT_OK) {
        bt_group_destroy(control);
    }
    return status;
}

static const bt_group_backend nccl_backend = {.name = "nccl",
                                              .all_reduce = nccl_all_reduce,
                                              .reduce_scatter = nccl_reduce_scatter,
                                              .all_gather = nccl_all_gather,
                                              .all_to_all = nccl_all_to_all,
                                              .broadcast = nccl_broadcast,
                                              .send_recv = nccl_send_recv,
                                              .barrier = nccl_barrier,
                                              .fold = bt_device_group_fold,
                                              .tell = bt_device_group_tell,
                                              .split = nccl_split,
                                              .check = bt_device_group_check,
                                              .abort = bt_device_group_abort,
                                              .destroy = nccl_destroy,
                                              .on_gpu = true};

static bt_status refuse(const bt_group *control, const bt_device_collectives *table,
                        const bt_nccl_options *options)
{
    int version = 0;
    int size = control->size;
    const char *nvls = bt_environment(BT_VARIABLE_NCCL_NVLS_ENABLE);
    if (nvls == NULL || strcmp(nvls, "0") != 0) {
        return bt_error(BT_STATUS_UNAVAILABLE,
                        "NCCL_NVLS_ENABLE is \"%s\"; start the process with NCCL_NVLS_ENABLE=0",
                        nvls != NULL ? nvls : "");
    }
    if (size > BT_P2P_RANKS_MAX || (!options->own_order && size != 2 && size != 4 && size != 8)) {
        return bt_error(BT_STATUS_UNSUPPORTED,
                        "sums in the tree's order over NCCL support 2, 4 or 8 ranks, NCCL's own "
                        "order at most %d; there are %d",
                        BT_P2P_RANKS_MAX, size);
    }
    return table->nccl_ready(&version);
}

static bt_status prepare(nccl_group *self, bt_group *control, bt_device *device,
                         const bt_nccl_options *options, char id[BT_NCCL_ID_BYTES])
{
    BT_TRY(bt_device_group_init(&self->base, &nccl_backend, control, device, options->timeout_ns));
    self->base.ask = ask_nccl;
    self->base.give_up = give_up;
    BT_TRY(refuse(control, self->base.table, options));
    BT_TRY(device->backend->memory_alloc(device, sizeof(int32_t), &self->word));
    BT_TRY(device->backend->fill(device, self->word, 0, sizeof(int32_t), NULL));
    if (!options->own_order) {
        void *scratch = NULL;
        BT_TRY(device->backend->memory_alloc(device, SCRATCH_BYTES, &scratch));
        self->scratch = scratch;
    }
    return control->rank == 0 ? self->base.table->nccl_id(id) : BT_OK;
}

bt_status bt_group_nccl_create(bt_group *control, bt_device *device, const bt_nccl_options *options,
                               bt_group **out)
{
    nccl_group *self;
    char id[BT_NCCL_ID_BYTES] = {0};
    BT_TRY(bt_mem_alloc(1, sizeof *self, (void **)&self));
    bt_status status = bt_device_group_agree(control, prepare(self, control, device, options, id));
    status = status ? status : bt_broadcast(control, id, sizeof id, 0, NULL);
    if (status == BT_OK) {
        status = self->base.table->nccl_join(device, id, control->rank, control->size,
                                             options->timeout_ns, &self->comm);
        status = bt_device_group_agree(control, status);
    }
    status = status ? status : bt_device_group_start(&self->base);
    if (status != BT_OK) {
        release(self, false);
        return status;
    }
    *out = &self->base.group;
    return BT_OK;
}
