#include "tests/dist/ring_order.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"

// out[i] = the sum over ranks of parts [size, count], beginning after the rank that owns the chunk.
static void sum_around(const float *parts, int size, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; ++i) {
        const int first = (int)(i * size / count) + 1;
        float sum = parts[first % size * count + i];
        for (int k = 1; k < size; ++k) {
            sum += parts[(first + k) % size * count + i];
        }
        out[i] = sum;
    }
}

static bt_status all_reduce(bt_group *group, void *data, int64_t count, bt_dtype dtype,
                            bt_reduction reduction, bt_stream stream)
{
    bt_group *inner = group->impl;
    void *parts = NULL;
    if (dtype != BT_F32 || reduction != BT_REDUCE_SUM) {
        return bt_all_reduce(inner, data, count, dtype, reduction, stream);
    }
    BT_TRY(bt_mem_alloc((size_t)(group->size * count), sizeof(float), &parts));
    bt_status status = bt_all_gather(inner, data, parts, count * 4, stream);
    if (status == BT_OK) {
        sum_around(parts, group->size, count, data);
    }
    bt_mem_free(parts);
    return status;
}

static bt_status reduce_scatter(bt_group *group, const void *in, void *out, int64_t count,
                                bt_dtype dtype, bt_reduction reduction, bt_stream stream)
{
    const int64_t all = group->size * count;
    void *sums = NULL;
    BT_TRY(bt_mem_alloc((size_t)all, sizeof(float), &sums));
    memcpy(sums, in, (size_t)all * sizeof(float));
    bt_status status = all_reduce(group, sums, all, dtype, reduction, stream);
    memcpy(out, (const float *)sums + group->rank * count, (size_t)count * sizeof(float));
    bt_mem_free(sums);
    return status;
}

static bt_status all_gather(bt_group *group, const void *in, void *out, int64_t size_bytes,
                            bt_stream stream)
{
    return bt_all_gather(group->impl, in, out, size_bytes, stream);
}

static bt_status broadcast(bt_group *group, void *data, int64_t size_bytes, int root,
                           bt_stream stream)
{
    return bt_broadcast(group->impl, data, size_bytes, root, stream);
}

static void abort_group(bt_group *group, const char *reason)
{
    bt_group_abort(group->impl, reason);
}

static const bt_group_backend backend = {.name = "ring order",
                                         .all_reduce = all_reduce,
                                         .reduce_scatter = reduce_scatter,
                                         .all_gather = all_gather,
                                         .broadcast = broadcast,
                                         .abort = abort_group};

void ring_order_group(bt_group *group, bt_group *out)
{
    *out = (bt_group){.backend = &backend, .rank = group->rank, .size = group->size, .impl = group};
}
