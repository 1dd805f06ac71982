// framework/dist/p2p_sum.c - reductions over peer memory
//
// Size and location of the operands select the algorithm, never a measurement. All algorithms sum
// in the tree's order, so the choice does not change the result.
//   small sum   up to 256 KiB of f32 or f64: data and flag in one store (small_sum.cu)
//   two-shot    a rank sums its shard from all windows and stores it into all (sum.cu)
//   engines     larger data, or all data with `engines`: copy engines copy the parts of a shard
//               into slots, a kernel sums them, copy engines copy the sum to the others
// Operands outside of group memory are copied through the staging memory, in pieces.
#include "framework/dist/p2p_group.h"

enum { TWO_SHOT_BYTES = 100 << 20 }; // up to here the kernel is faster than copy engines

enum { CALL_ALL_REDUCE = 1, CALL_REDUCE_SCATTER };

static bt_p2p_group *self_of(bt_group *group) { return group->impl; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Rounds to a multiple of 16 bytes, so that every part of the staging memory is aligned.
static int64_t whole_vectors(int64_t count, int64_t width)
{
    return (count * width + 15) / 16 * 16 / width;
}

// Arguments of a reduction of `count` elements.
typedef struct reduction {
    bt_p2p_group *group;
    bt_dtype dtype;
    bt_reduction kind;
    int64_t width;
    uint32_t call;
    bt_stream stream;
} reduction;

static bt_p2p_sum sum_of(const reduction *how, int64_t count, int64_t shared_count)
{
    return (bt_p2p_sum){.in_count = how->group->base.group.size,
                        .out_count = 1,
                        .dtype = how->dtype,
                        .maximum = how->kind == BT_REDUCE_MAX,
                        .count = count,
                        .blocks = bt_p2p_blocks(shared_count * how->width),
                        .call = how->call};
}

// ---- two-shot ----------------------------------------------------------------------------------

// data[r]: the operand of rank r, as mapped here.
static bt_status two_shot(const reduction *how, char *const *data, int64_t count)
{
    const bt_device_group *base = &how->group->base;
    int64_t stride = whole_vectors((count + base->group.size - 1) / base->group.size, how->width);
    int64_t first = least(stride * base->group.rank, count);
    bt_p2p_sum args = sum_of(how, least(first + stride, count) - first, stride);
    args.out_count = base->group.size;
    for (int peer = 0; peer < base->group.size; ++peer) {
        args.in[peer] = args.out[peer] = data[peer] + first * how->width;
    }
    return base->table->sum(base->device, how->stream, &how->group->view, &args);
}

// ---- engines -----------------------------------------------------------------------------------

typedef struct engine_sum {
    char *in[BT_P2P_RANKS_MAX];  // this rank's shard in each rank's operand
    char *out;                   // destination of its sum
    char *all[BT_P2P_RANKS_MAX]; // copies of the sum at each rank; NULL: none
    int64_t count;
} engine_sum;

// Copies the parts [at, at + count) of the shard into slots of one half of the staging memory.
static bt_status pull_piece(const reduction *how, const engine_sum *sum, int64_t at, int64_t count,
                            int half, bt_p2p_sum *fold)
{
    bt_p2p_group *group = how->group;
    int rank = group->base.group.rank;
    int size = group->base.group.size;
    int64_t slot = group->options.staging_bytes / BT_P2P_PIECES / size / 16 * 16;
    char *slots = bt_p2p_staging(group, rank) + half * slot * size;
    for (int step = 0; step < size; ++step) { // each rank begins with another peer
        int peer = (rank + step) % size;
        char *from = sum->in[peer] + at * how->width;
        fold->in[peer] = peer == rank ? from : slots + slot * peer;
        if (peer != rank) {
            BT_TRY(bt_p2p_copy(group, slots + slot * peer, from, count * how->width, group->pull));
        }
    }
    return BT_OK;
}

static bt_status push_piece(const reduction *how, const engine_sum *sum, int64_t at, int64_t count)
{
    bt_p2p_group *group = how->group;
    int size = group->base.group.size;
    for (int step = 1; step < size; ++step) {
        int peer = (group->base.group.rank + step) % size;
        if (sum->all[peer] != NULL) {
            BT_TRY(bt_p2p_copy(group, sum->all[peer] + at * how->width, sum->out + at * how->width,
                               count * how->width, group->push));
        }
    }
    return BT_OK;
}

static bt_status run_pieces(const reduction *how, const engine_sum *sum)
{
    bt_p2p_group *group = how->group;
    bt_device *device = group->base.device;
    const bt_backend *backend = device->backend;
    int64_t piece = group->options.staging_bytes / BT_P2P_PIECES / group->base.group.size / 16 *
                    16 / how->width;
    int64_t index = 0;
    for (int64_t at = 0; at < sum->count; at += piece, ++index) {
        int half = (int)(index % BT_P2P_PIECES);
        int64_t count = least(piece, sum->count - at);
        bt_p2p_sum fold = sum_of(how, count, count);
        fold.out[0] = sum->out + at * how->width;
        if (index >= BT_P2P_PIECES) { // the slots are free
            BT_TRY(backend->event_wait(device, group->folded[half], group->pull));
        }
        BT_TRY(pull_piece(how, sum, at, count, half, &fold));
        BT_TRY(backend->event_record(device, group->pulled[half], group->pull));
        BT_TRY(backend->event_wait(device, group->pulled[half], how->stream));
        BT_TRY(group->base.table->fold(device, how->stream, &fold));
        BT_TRY(backend->event_record(device, group->folded[half], how->stream));
        BT_TRY(backend->event_wait(device, group->folded[half], group->push));
        BT_TRY(push_piece(how, sum, at, count));
    }
    return BT_OK;
}

static bt_status by_engines(const reduction *how, const engine_sum *sum)
{
    bt_p2p_group *group = how->group;
    bt_device *device = group->base.device;
    const bt_backend *backend = device->backend;
    BT_TRY(bt_p2p_enter(group, &group->kernels, how->stream)); // for the staging memory
    BT_TRY(bt_p2p_copies_begin(group, how->stream));
    BT_TRY(backend->event_record(device, group->begun, how->stream));
    BT_TRY(backend->event_wait(device, group->begun, group->pull));
    BT_TRY(backend->event_wait(device, group->begun, group->push));
    BT_TRY(run_pieces(how, sum));
    // Joins the streams even without a piece: a captured graph must not leave a stream unjoined.
    BT_TRY(backend->event_record(device, group->pushed, group->push));
    BT_TRY(backend->event_wait(device, group->pushed, how->stream));
    BT_TRY(backend->event_record(device, group->begun, group->pull));
    BT_TRY(backend->event_wait(device, group->begun, how->stream));
    BT_TRY(bt_p2p_copies_end(group, how->stream));
    return bt_p2p_leave(group, &group->kernels, how->stream);
}

static bt_status all_reduce_by_engines(const reduction *how, char *const *data, int64_t count)
{
    const bt_group *base = &how->group->base.group;
    int64_t stride = whole_vectors((count + base->size - 1) / base->size, how->width);
    int64_t first = least(stride * base->rank, count);
    engine_sum sum = {.out = data[base->rank] + first * how->width,
                      .count = least(first + stride, count) - first};
    for (int peer = 0; peer < base->size; ++peer) {
        sum.in[peer] = sum.all[peer] = data[peer] + first * how->width;
    }
    return by_engines(how, &sum);
}

// ---- through the staging memory ----------------------------------------------------------------

static bt_status all_reduce_staged(const reduction *how, char *data, int64_t count)
{
    bt_p2p_group *group = how->group;
    int rank = group->base.group.rank;
    int64_t piece = group->options.staging_bytes / how->width;
    char *staging[BT_P2P_RANKS_MAX] = {0};
    for (int peer = 0; peer < group->base.group.size; ++peer) {
        staging[peer] = bt_p2p_staging(group, peer);
    }
    for (int64_t at = 0; at < count; at += piece) {
        int64_t length = least(piece, count - at);
        char *part = data + at * how->width;
        BT_TRY(bt_p2p_copy(group, staging[rank], part, length * how->width, how->stream));
        BT_TRY(two_shot(how, staging, length));
        BT_TRY(bt_p2p_copy(group, part, staging[rank], length * how->width, how->stream));
    }
    return BT_OK;
}

static bt_status reduce_scatter_staged(const reduction *how, const char *in, char *out,
                                       int64_t count)
{
    bt_p2p_group *group = how->group;
    const bt_device_group *base = &group->base;
    int rank = base->group.rank;
    int64_t slot = group->options.staging_bytes / base->group.size / 16 * 16;
    int64_t piece = slot / how->width;
    for (int64_t at = 0; at < count; at += piece) {
        int64_t length = least(piece, count - at);
        bt_p2p_sum args = sum_of(how, length, length);
        args.out[0] = out + at * how->width;
        for (int peer = 0; peer < base->group.size; ++peer) {
            BT_TRY(bt_p2p_copy(group, bt_p2p_staging(group, rank) + slot * peer,
                               in + (count * peer + at) * how->width, length * how->width,
                               how->stream));
            args.in[peer] = bt_p2p_staging(group, peer) + slot * rank;
        }
        BT_TRY(base->table->sum(base->device, how->stream, &group->view, &args));
    }
    return BT_OK;
}

// ---- the calls ---------------------------------------------------------------------------------

static reduction reduction_of(bt_p2p_group *group, int call, int64_t count, bt_dtype dtype,
                              bt_reduction kind, bt_stream stream)
{
    return (reduction){.group = group,
                       .dtype = dtype,
                       .kind = kind,
                       .width = (int64_t)bt_dtype_size(dtype),
                       .call = bt_p2p_call(call, count, (int)dtype, (int)kind, -1),
                       .stream = stream};
}

static bt_status small_sum(const reduction *how, void *data, int64_t count)
{
    const bt_device_group *base = &how->group->base;
    int64_t blocks = (count * how->width / 8 + 511) / 512; // of 512 threads, 8 bytes each
    bt_p2p_small_sum args = {data, count, how->dtype,
                             blocks < 1    ? 1
                             : blocks > 32 ? 32
                                           : (int32_t)blocks};
    return base->table->small_sum(base->device, how->stream, &how->group->view, &args);
}

bt_status bt_p2p_all_reduce(bt_group *base, void *data, int64_t count, bt_dtype dtype,
                            bt_reduction kind, bt_stream stream)
{
    bt_p2p_group *group = self_of(base);
    BT_TRY(bt_device_group_check(base));
    if (count == 0) {
        return bt_p2p_barrier(base, stream);
    }
    reduction how = reduction_of(group, CALL_ALL_REDUCE, count, dtype, kind, stream);
    int64_t size_bytes = count * how.width;
    bool small = kind == BT_REDUCE_SUM && (dtype == BT_F32 || dtype == BT_F64) &&
                 size_bytes <= BT_P2P_LOW_LATENCY_BYTES;
    const bt_p2p_region *region = bt_p2p_region_find(group, data, size_bytes);
    char *at[BT_P2P_RANKS_MAX] = {0};
    for (int peer = 0; peer < base->size && region != NULL; ++peer) {
        at[peer] = bt_p2p_region_at(group, region, data, peer);
    }
    if (!small && region != NULL && (group->options.engines || size_bytes > TWO_SHOT_BYTES)) {
        return all_reduce_by_engines(&how, at, count);
    }
    BT_TRY(bt_p2p_enter(group, &group->kernels, stream));
    BT_TRY(small            ? small_sum(&how, data, count)
           : region == NULL ? all_reduce_staged(&how, data, count)
                            : two_shot(&how, at, count));
    return bt_p2p_leave(group, &group->kernels, stream);
}

bt_status bt_p2p_reduce_scatter(bt_group *base, const void *in, void *out, int64_t count,
                                bt_dtype dtype, bt_reduction kind, bt_stream stream)
{
    bt_p2p_group *group = self_of(base);
    BT_TRY(bt_device_group_check(base));
    if (count == 0) {
        return bt_p2p_barrier(base, stream);
    }
    reduction how = reduction_of(group, CALL_REDUCE_SCATTER, count, dtype, kind, stream);
    int64_t shard_bytes = count * how.width;
    const bt_p2p_region *region = bt_p2p_region_find(group, in, shard_bytes * base->size);
    if (region == NULL) {
        BT_TRY(bt_p2p_enter(group, &group->kernels, stream));
        BT_TRY(reduce_scatter_staged(&how, in, out, count));
        return bt_p2p_leave(group, &group->kernels, stream);
    }
    const char *mine = (const char *)in + shard_bytes * base->rank;
    engine_sum sum = {.out = out, .count = count};
    bt_p2p_sum args = sum_of(&how, count, count);
    args.out[0] = out;
    for (int peer = 0; peer < base->size; ++peer) {
        args.in[peer] = sum.in[peer] = bt_p2p_region_at(group, region, mine, peer);
    }
    if (group->options.engines) {
        return by_engines(&how, &sum);
    }
    BT_TRY(bt_p2p_enter(group, &group->kernels, stream));
    BT_TRY(group->base.table->sum(group->base.device, stream, &group->view, &args));
    return bt_p2p_leave(group, &group->kernels, stream);
}
