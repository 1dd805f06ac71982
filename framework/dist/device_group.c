#include "framework/dist/device_group.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "framework/base/plugin.h"

enum { POLL_NS = 2000000 };

static const bt_device_collectives *given_table;

void bt_device_group_use(const bt_device_collectives *table) { given_table = table; }

bt_status bt_device_group_table(const bt_device_collectives **out)
{
    void *symbol = NULL;
    bt_collectives_entry_fn entry = NULL;
    if (given_table != NULL) {
        *out = given_table;
        return BT_OK;
    }
    BT_TRY(bt_plugin_symbol("libbt_cuda.so", BT_COLLECTIVES_ENTRY, &symbol));
    memcpy(&entry, &symbol, sizeof entry); // as POSIX has it
    *out = entry();
    return (*out)->abi == BT_COLLECTIVES_ABI
               ? BT_OK
               : bt_error(BT_STATUS_UNAVAILABLE,
                          "libbt_cuda.so belongs to another build (collectives %d, expected %d)",
                          (*out)->abi, BT_COLLECTIVES_ABI);
}

typedef struct verdict {
    int32_t status;
    char text[252];
} verdict;

bt_status bt_device_group_agree(bt_group *control, bt_status mine)
{
    verdict said = {.status = (int32_t)mine};
    verdict *all = NULL;
    (void)snprintf(said.text, sizeof said.text, "%s", mine != BT_OK ? bt_error_message() : "");
    BT_TRY(bt_mem_alloc((size_t)control->size, sizeof *all, (void **)&all));
    bt_status status = bt_all_gather(control, &said, all, sizeof said, NULL);
    for (int rank = 0; rank < control->size && status == BT_OK; ++rank) {
        if (all[rank].status != BT_OK) {
            all[rank].text[sizeof all[rank].text - 1] = '\0';
            status = bt_error((bt_status)all[rank].status, "rank %d: %s", rank, all[rank].text);
        }
    }
    bt_mem_free(all);
    return status;
}

bt_status bt_device_group_init(bt_device_group *group, const bt_group_backend *backend,
                               bt_group *control, bt_device *device, int64_t timeout_ns)
{
    void *words = NULL;
    group->group = (bt_group){.backend = backend,
                              .rank = control->rank,
                              .size = control->size,
                              .impl = group,
                              .device = device};
    group->control = control;
    group->device = device;
    group->timeout_ns = timeout_ns;
    BT_TRY(bt_device_group_table(&group->table));
    BT_TRY(device->backend->pinned_alloc(device, sizeof *group->words, &words));
    memset(words, 0, sizeof *group->words);
    group->words = words;
    if (pthread_mutex_init(&group->lock, NULL) != 0) {
        bt_device_group_release(group, false);
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "cannot create a mutex for a group");
    }
    return BT_OK;
}

void bt_device_group_release(bt_device_group *group, bool with_control)
{
    if (group->words != NULL) {
        group->device->backend->pinned_free(group->device, group->words);
        (void)pthread_mutex_destroy(&group->lock);
        group->words = NULL;
    }
    if (with_control) {
        bt_group_destroy(group->control);
    }
}

void bt_device_group_fail(bt_device_group *group, bt_status status, const char *text)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&group->failing, &none, 1)) {
        return;
    }
    group->failed = status;
    (void)snprintf(group->failure, sizeof group->failure, "%s", text);
    group->give_up(group);
    atomic_store_explicit(&group->failing, 2, memory_order_release);
    bt_group_abort(group->control, text);
}

// Words that the device writes, or reads, at any time.
static uint32_t read_word(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

static void ask_fault(bt_device_group *group)
{
    uint32_t fault = read_word(&group->words->fault);
    int peer = (int)(fault & 0xff) - 1;
    char text[160];
    if ((fault & BT_P2P_FAULT_OTHER_CALL) != 0) {
        (void)snprintf(text, sizeof text,
                       "ranks diverge: rank %d and rank %d call different collectives",
                       group->group.rank, peer);
        bt_device_group_fail(group, BT_STATUS_INTERNAL, text);
    } else if (fault != 0) {
        (void)snprintf(
            text, sizeof text,
            "rank %d waited %.1f s for rank %d in a collective on its GPU, but received nothing",
            group->group.rank, (double)group->timeout_ns / 1e9, peer);
        bt_device_group_fail(group, BT_STATUS_UNAVAILABLE, text);
    }
}

static void ask_control(bt_device_group *group)
{
    if (pthread_mutex_trylock(&group->lock) != 0) {
        return; // the holder of the lock detects failures of the control group itself
    }
    bt_status status = bt_group_check(group->control);
    (void)pthread_mutex_unlock(&group->lock);
    if (status == BT_OK && group->ask != NULL) {
        status = group->ask(group);
    }
    if (status != BT_OK) {
        bt_device_group_fail(group, status, bt_error_message());
    }
}

// Detects a call that the stream has started and that does not finish within the timeout.
static void ask_marks(bt_device_group *group, uint32_t *seen, int64_t *since_ns)
{
    uint32_t begun = read_word(&group->words->begun);
    int64_t now_ns = bt_clock_ns();
    if (begun == read_word(&group->words->done) || begun != *seen) {
        *seen = begun;
        *since_ns = now_ns;
    } else if (now_ns - *since_ns > group->timeout_ns) {
        char text[160];
        (void)snprintf(text, sizeof text,
                       "rank %d waited %.1f s in a collective on its GPU, which did not end",
                       group->group.rank, (double)group->timeout_ns / 1e9);
        bt_device_group_fail(group, BT_STATUS_UNAVAILABLE, text);
    }
}

static void *monitor_main(void *argument)
{
    bt_device_group *group = argument;
    uint32_t seen = 0;
    int64_t since_ns = bt_clock_ns();
    while (!atomic_load(&group->stopping)) {
        if (atomic_load(&group->failing) == 0) {
            ask_fault(group);
            ask_marks(group, &seen, &since_ns);
            ask_control(group);
        } else if (atomic_load(&group->failing) == 2) {
            group->give_up(group); // streams may hold more waits
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    return NULL;
}

bt_status bt_device_group_start(bt_device_group *group)
{
    if (pthread_create(&group->monitor, NULL, monitor_main, group) != 0) {
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "cannot start the monitor thread of a group");
    }
    group->is_monitored = true;
    return BT_OK;
}

void bt_device_group_finish(bt_device_group *group)
{
    int64_t waited_ns;
    bt_error_quiet_begin();
    // The monitor is still running: it ends work that waits for a dead rank.
    bt_status status = group->device->backend->join(group->device, &waited_ns);
    atomic_store(&group->stopping, true);
    if (group->is_monitored) {
        (void)pthread_join(group->monitor, NULL);
    }
    if (status == BT_OK && atomic_load(&group->failing) == 0) {
        (void)!bt_barrier(group->control, NULL); // a failed rank reports its own failure
    }
    bt_error_quiet_end();
}

bool bt_device_group_is_capturing(const bt_device_group *group, bt_stream stream)
{
    const bt_backend *backend = group->device->backend;
    return backend->graph_capturing != NULL && backend->graph_capturing(group->device, stream);
}

bt_status bt_device_group_begin(bt_device_group *group, bt_stream stream)
{
    return bt_device_group_is_capturing(group, stream)
               ? BT_OK
               : group->table->mark(group->device, stream, &group->words->begun, ++group->issued);
}

bt_status bt_device_group_end(bt_device_group *group, bt_stream stream)
{
    return bt_device_group_is_capturing(group, stream)
               ? BT_OK
               : group->table->mark(group->device, stream, &group->words->done, group->issued);
}

bt_status bt_device_group_tell(bt_group *base, void *data, int64_t size_bytes, int root)
{
    bt_device_group *group = base->impl;
    BT_TRY(bt_device_group_check(base));
    (void)pthread_mutex_lock(&group->lock);
    bt_status status = bt_broadcast(group->control, data, size_bytes, root, NULL);
    (void)pthread_mutex_unlock(&group->lock);
    if (status != BT_OK) {
        bt_device_group_fail(group, status, bt_error_message());
        return bt_device_group_check(base);
    }
    return BT_OK;
}

bt_status bt_device_group_fold(bt_group *group, const void *const *in, const void *base, void *out,
                               int64_t count, bt_dtype dtype, bt_stream stream)
{
    bt_device_group *self = group->impl;
    bt_p2p_sum sum = {.base = base,
                      .in_count = group->size,
                      .out_count = 1,
                      .out = {out},
                      .dtype = dtype,
                      .count = count};
    BT_TRY(bt_device_group_check(group));
    if (group->size != 2 && group->size != 4 && group->size != 8) {
        return bt_error(BT_STATUS_UNSUPPORTED, "fold supports 2, 4 or 8 ranks, not %d",
                        group->size);
    }
    for (int peer = 0; peer < group->size; ++peer) {
        sum.in[peer] = in[peer];
    }
    return self->table->fold(self->device, stream, &sum);
}

bt_status bt_device_group_split(bt_device_group *group, int colour, int key, bt_group **control)
{
    BT_TRY(bt_device_group_check(&group->group));
    (void)pthread_mutex_lock(&group->lock);
    bt_status status = bt_group_split(group->control, colour, key, control);
    (void)pthread_mutex_unlock(&group->lock);
    return status;
}

bt_status bt_device_group_check(bt_group *base)
{
    bt_device_group *group = base->impl;
    if (atomic_load(&group->failing) == 0) {
        ask_fault(group);
    }
    if (atomic_load_explicit(&group->failing, memory_order_acquire) == 0) {
        return BT_OK;
    }
    while (atomic_load_explicit(&group->failing, memory_order_acquire) != 2) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); // being written
    }
    return bt_error(group->failed, "%s", group->failure);
}

void bt_device_group_abort(bt_group *base, const char *reason)
{
    bt_device_group_fail(base->impl, BT_STATUS_INTERRUPTED, reason);
}
