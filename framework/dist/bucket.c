// framework/dist/bucket.c - the layout of buckets
#include "framework/dist/bucket.h"

#include "framework/base/mem.h"
#include "kernels/kernels.h"

static int64_t padded(int64_t count, int64_t multiple)
{
    return (count + multiple - 1) / multiple * multiple;
}

// The buckets whose last member comes first in the list are complete last.
static int64_t place(const bt_params *params, int64_t first, bool partial, const int64_t *bucket_of,
                     int64_t placed, int64_t *order)
{
    for (int64_t i = params->count - 1; i >= 0; --i) {
        bool last = i != first && params->items[i].partial == partial;
        for (int64_t k = 0; k < i && last; ++k) {
            last = bucket_of[k] != bucket_of[i];
        }
        if (last) {
            order[placed++] = bucket_of[i];
        }
    }
    return placed;
}

// Walks the list from its end and adds each parameter to the open bucket of its kind, or to a new
// one. bucket_of [params->count], order [params->count]: buckets in the order of their last member.
static int64_t assign(const bt_params *params, int64_t first, int64_t most, int64_t *bucket_of,
                      int64_t *order)
{
    enum { KINDS = 2 * BT_DTYPE_COUNT }; // types of values, of partial parameters and of others
    int64_t open[KINDS], filled[KINDS], count = 0, placed = 0;
    for (int i = 0; i < KINDS; ++i) {
        open[i] = -1;
    }
    if (first >= 0) {
        bucket_of[first] = count++;
        order[placed++] = bucket_of[first];
    }
    for (int64_t i = params->count - 1; i >= 0; --i) {
        const bt_tensor *value = params->items[i].value;
        if (i == first) {
            continue;
        }
        const int64_t room = padded(bt_tensor_count(value), BT_SQUARES_BLOCK);
        const int kind = 2 * (int)value->dtype + params->items[i].partial;
        if (open[kind] < 0 || filled[kind] + room > most) {
            open[kind] = count++;
            filled[kind] = 0;
        }
        bucket_of[i] = open[kind];
        filled[kind] += room;
    }
    placed = place(params, first, false, bucket_of, placed, order);
    (void)place(params, first, true, bucket_of, placed, order);
    return count;
}

static void fill_bucket(const bt_params *params, const int64_t *bucket_of, int64_t which,
                        int64_t at, bt_buckets *out)
{
    bt_bucket *bucket = &out->items[at];
    *bucket = (bt_bucket){.first = out->slot_count};
    for (int64_t i = params->count - 1; i >= 0; --i) {
        if (bucket_of[i] == which) {
            const bt_tensor *value = params->items[i].value;
            out->slots[out->slot_count++] = (bt_bucket_slot){
                .param = i, .bucket = at, .offset = bucket->count, .count = bt_tensor_count(value)};
            bucket->dtype = value->dtype;
            bucket->partial = params->items[i].partial;
            bucket->count += padded(bt_tensor_count(value), BT_SQUARES_BLOCK);
            ++bucket->slot_count;
        }
    }
    bucket->count = padded(bucket->count, (int64_t)out->ranks * BT_SQUARES_BLOCK);
    bucket->part = bucket->count / out->ranks;
}

bt_status bt_buckets_make(const bt_params *params, int ranks, int64_t first, int64_t size_bytes,
                          bt_buckets *out)
{
    const size_t count = (size_t)params->count;
    void *slots = NULL, *items = NULL, *bucket_of = NULL, *order = NULL;
    bt_status status = BT_OK;
    *out = (bt_buckets){.ranks = ranks};
    BT_TRY_GOTO(bt_mem_alloc(count, sizeof *out->slots, &slots), done);
    out->slots = slots;
    BT_TRY_GOTO(bt_mem_alloc(count, sizeof *out->items, &items), done);
    out->items = items;
    BT_TRY_GOTO(bt_mem_alloc(count, sizeof(int64_t), &bucket_of), done);
    BT_TRY_GOTO(bt_mem_alloc(count, sizeof(int64_t), &order), done);
    out->count = assign(params, first, size_bytes / (int64_t)sizeof(float), bucket_of, order);
    for (int64_t i = 0; i < out->count; ++i) {
        fill_bucket(params, bucket_of, ((const int64_t *)order)[i], i, out);
    }
done:
    bt_mem_free(bucket_of);
    bt_mem_free(order);
    if (status != BT_OK) {
        bt_buckets_release(out);
    }
    return status;
}

void bt_buckets_release(bt_buckets *buckets)
{
    bt_mem_free(buckets->items);
    bt_mem_free(buckets->slots);
    *buckets = (bt_buckets){0};
}

int64_t bt_bucket_slot_part(const bt_buckets *buckets, const bt_bucket_slot *slot, int rank,
                            int64_t *offset, int64_t *at)
{
    const int64_t part = buckets->items[slot->bucket].part, low = rank * part;
    const int64_t first = slot->offset > low ? slot->offset : low;
    const int64_t end =
        slot->offset + slot->count < low + part ? slot->offset + slot->count : low + part;
    *offset = first - slot->offset;
    *at = first - low;
    return end > first ? end - first : 0;
}
