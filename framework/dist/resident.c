// framework/dist/resident.c - ZERO3: gathers weights before ops read them, and releases them
//
// Each forward, and each backward, gathers the same buckets in the same order. The order of the
// last pass is recorded: when an op reads a bucket, the next ones of that order are prefetched. A
// pass that deviates is recorded again and costs only time. All ranks run the same ops, so they
// gather in the same order.
//
// Invariants
//   1. At most BT_RESIDENT_BUCKETS buckets that were read are resident (least recently read is
//      released first), and at most BT_AHEAD_BUCKETS prefetched ones in addition.
//   2. Memory is released on the context's stream after the gather that wrote it.
//   3. All gathers are submitted to the group's stream, in one order with the reduction of
//   gradients.
#include "framework/base/mem.h"
#include "framework/dist/data_parallel_impl.h"

enum { NOT_READ = 0 };

static bool is_there(const bt_bucket_memory *memory) { return memory->values->storage->data; }

static bt_status let_go(bt_bucket_memory *memory)
{
    BT_TRY(bt_bucket_await(memory));
    bt_storage_give_up(memory->values->storage);
    return BT_OK;
}

// Counts the resident buckets that were read, or those that were not.
static int64_t count_there(const bt_data_parallel *p, bool were_read)
{
    int64_t count = 0;
    for (int64_t b = 0; b < p->layout.count; ++b) {
        const bt_bucket_memory *memory = &p->buckets[b];
        count += is_there(memory) && (memory->used != NOT_READ) == were_read;
    }
    return count;
}

// Makes room for one more bucket that is read.
static bt_status make_room(bt_data_parallel *p)
{
    bt_bucket_memory *oldest = NULL;
    if (count_there(p, true) < BT_RESIDENT_BUCKETS) {
        return BT_OK;
    }
    for (int64_t b = 0; b < p->layout.count; ++b) {
        bt_bucket_memory *memory = &p->buckets[b];
        const bool candidate = is_there(memory) && memory->used != NOT_READ;
        oldest = candidate && (!oldest || memory->used < oldest->used) ? memory : oldest;
    }
    return oldest ? let_go(oldest) : BT_OK;
}

// Releases the prefetched buckets, whose order is out of date.
static bt_status drop_ahead(bt_data_parallel *p)
{
    for (int64_t b = 0; b < p->layout.count; ++b) {
        bt_bucket_memory *memory = &p->buckets[b];
        BT_TRY(is_there(memory) && memory->used == NOT_READ ? let_go(memory) : BT_OK);
    }
    return BT_OK;
}

static bt_status begin_gather(bt_data_parallel *p, bt_bucket_memory *memory)
{
    memory->used = NOT_READ;
    BT_TRY(bt_storage_take_back(p->context, memory->values->storage, "weights"));
    return bt_bucket_gather(memory);
}

static bt_status gather_ahead(bt_data_parallel *p)
{
    bt_walk *walk = &p->walks[p->walk];
    while (!p->options.no_overlap && walk->next < walk->count &&
           count_there(p, false) < BT_AHEAD_BUCKETS) {
        bt_bucket_memory *memory = &p->buckets[walk->order[walk->next]];
        if (is_there(memory)) { // wait until it is read or released
            break;
        }
        ++walk->next;
        BT_TRY(begin_gather(p, memory));
    }
    return BT_OK;
}

// Records that this pass reads a bucket, which is `there` or was not prefetched. A pass may find a
// bucket resident that the last pass had to gather, depending on what was resident at its start.
static bt_status follow(bt_data_parallel *p, int64_t bucket, bool there)
{
    bt_walk *walk = &p->walks[p->walk];
    int64_t at = walk->next;
    while (!there && at < walk->count && walk->order[at] != bucket) {
        ++at;
    }
    if (at < walk->count && walk->order[at] == bucket) {
        walk->next = at + 1;
        return BT_OK;
    }
    for (at = 0; at < walk->next && walk->order[at] != bucket; ++at) {
    }
    if (there || (at < walk->next && walk->next < walk->count)) { // it was released since
        return BT_OK;
    }
    if (walk->next == walk->capacity) { // several passes without a call of bt_resident_walk
        walk->next = 0;
    }
    walk->order[walk->next++] = bucket; // the order has changed
    walk->count = walk->next;
    return drop_ahead(p);
}

bt_status bt_resident_fetch(void *self, bt_context *context, bt_storage *storage)
{
    bt_bucket_memory *memory = self;
    bt_data_parallel *p = memory->owner;
    const bool there = storage->data != NULL;
    (void)context;
    BT_TRY(follow(p, memory - p->buckets, there));
    if (!there || memory->used == NOT_READ) {
        BT_TRY(make_room(p));
    }
    if (!there) {
        ++p->late;
        BT_TRY(begin_gather(p, memory));
    }
    memory->used = ++p->clock;
    BT_TRY(bt_bucket_await(memory));
    return gather_ahead(p);
}

bt_status bt_resident_walk(bt_data_parallel *p, int walk, bool ahead)
{
    if (!p->walks[walk].order) {
        return BT_OK;
    }
    BT_TRY(drop_ahead(p));
    p->walk = walk;
    p->walks[walk].next = 0;
    return ahead ? gather_ahead(p) : BT_OK;
}

bt_status bt_resident_drop(bt_data_parallel *p)
{
    for (int64_t b = 0; b < p->layout.count; ++b) {
        BT_TRY(let_go(&p->buckets[b]));
    }
    return BT_OK;
}

bt_status bt_resident_create(bt_data_parallel *p)
{
    for (int i = 0; i < BT_WALKS; ++i) {
        void *block = NULL;
        const int64_t capacity = 4 * p->layout.count;
        BT_TRY(bt_mem_alloc((size_t)capacity, sizeof(int64_t), &block));
        p->walks[i] = (bt_walk){.order = block, .capacity = capacity};
    }
    return BT_OK;
}

void bt_resident_release(bt_data_parallel *p)
{
    for (int i = 0; i < BT_WALKS; ++i) {
        bt_mem_free(p->walks[i].order);
    }
}
