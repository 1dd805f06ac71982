// framework/dist/resident.c - ZERO3: weights that are gathered for the ops that read them, and go
//
// A walk over the weights (a forward, a backward) gathers the same buckets in the same order each
// time. The last walk's order is kept: when an op reads a bucket, the next ones of that order are
// gathered beside it. A walk that turns out otherwise is recorded anew and loses nothing but time.
// All ranks run the same ops, so they gather in the same order.
//
// Invariants
//   1. At most BT_RESIDENT_BUCKETS buckets that were read are there: the one that was read longest
//      ago goes when another is read. At most BT_AHEAD_BUCKETS that were not read are there
//      besides.
//   2. Memory is given up on the context's stream behind the gather that wrote it.
//   3. All gathers are given to the group's stream, in one order with the gradients' reduction.
#include "framework/base/mem.h"
#include "framework/dist/data_parallel_impl.h"

enum { NOT_READ = 0 };

static bool is_there(const bt_bucket_memory *memory) { return memory->values->storage->data; }

static bt_status let_go(bt_bucket_memory *memory)
{
    BT_TRY(bt_sharded_await(memory));
    bt_storage_give_up(memory->values->storage);
    return BT_OK;
}

// Counts the buckets that are there: those that were read, or those that were not.
static int64_t count_there(const bt_data_parallel *p, bool were_read)
{
    int64_t count = 0;
    for (int64_t b = 0; b < p->layout.count; ++b) {
        const bt_bucket_memory *memory = &p->buckets[b];
        count += is_there(memory) && (memory->used != NOT_READ) == were_read;
    }
    return count;
}

// Room for one more bucket that is read.
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

// Those that were gathered for another walk than this one turned out to be.
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
    return bt_sharded_gather_bucket(memory);
}

static bt_status gather_ahead(bt_data_parallel *p)
{
    bt_walk *walk = &p->walks[p->walk];
    while (!p->options.no_overlap && walk->next < walk->count &&
           count_there(p, false) < BT_AHEAD_BUCKETS) {
        bt_bucket_memory *memory = &p->buckets[walk->order[walk->next]];
        if (is_there(memory)) { // it is read again before it goes, or goes before
            break;
        }
        ++walk->next;
        BT_TRY(begin_gather(p, memory));
    }
    return BT_OK;
}

// This walk reads a bucket that is `there`, or was not gathered in time. What a walk gathers
// depends on what was there when it began, too: it may read what the last one had to gather.
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
    if (there || (at < walk->next && walk->next < walk->count)) { // it has gone once more
        return BT_OK;
    }
    if (walk->next == walk->capacity) { // several walks without a word between them
        walk->next = 0;
    }
    walk->order[walk->next++] = bucket; // another walk
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
    BT_TRY(bt_sharded_await(memory));
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
