// framework/dist/p2p.c - creates and destroys groups over peer memory
#include "framework/dist/p2p.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/dist/nccl.h"
#include "framework/dist/p2p_group.h"
#include "framework/dist/rendezvous.h"

static bt_p2p_group *self_of(bt_device_group *group) { return (bt_p2p_group *)(void *)group; }

// Waiting kernels read the abort word; streams that wait for flags get these flags set.
static void give_up(bt_device_group *base)
{
    bt_p2p_group *group = self_of(base);
    __atomic_store_n(&base->words->abort, 1, __ATOMIC_RELEASE);
    base->table->handshake_release(base->device, group->rescue, &group->view);
}

static void release_queues(bt_p2p_group *group)
{
    enum { EVENTS = 4 + 2 * BT_P2P_PIECES, STREAMS = 3 };
    bt_device *device = group->base.device;
    const bt_backend *backend = device->backend;
    bt_event events[EVENTS] = {group->begun,        group->pushed,           group->pulled[0],
                               group->pulled[1],    group->folded[0],        group->folded[1],
                               group->kernels.done, group->engine_calls.done};
    bt_stream streams[STREAMS] = {group->pull, group->push, group->rescue};
    for (int i = 0; i < EVENTS; ++i) {
        if (events[i] != NULL) {
            backend->event_destroy(device, events[i]);
        }
    }
    for (int i = 0; i < STREAMS; ++i) {
        if (streams[i] != NULL) {
            backend->stream_destroy(device, streams[i]);
        }
    }
}

static void release(bt_p2p_group *group, bool with_control)
{
    bt_device *device = group->base.device;
    release_queues(group);
    for (int i = 0; i < group->region_count; ++i) {
        bt_p2p_region_destroy(group, &group->regions[i]);
    }
    if (group->state != NULL) {
        device->backend->memory_free(device, group->state);
    }
    bt_mailbox_close(&group->mailbox);
    bt_device_group_release(&group->base, with_control);
    bt_mem_free(group);
}

static void p2p_destroy(bt_group *group)
{
    bt_p2p_group *self = group->impl;
    bt_device_group_finish(&self->base);
    release(self, true);
}

static bt_status p2p_memory(bt_group *group, int64_t size_bytes, void **out)
{
    bt_p2p_group *self = group->impl;
    BT_TRY(bt_device_group_check(group));
    BT_TRY(bt_p2p_region_create(self, size_bytes));
    *out = self->regions[self->region_count - 1].of[group->rank].base;
    return BT_OK;
}

static uint32_t *first_word(const bt_p2p_group *group)
{
    char *head = group->regions[0].of[group->base.group.rank].base;
    return (uint32_t *)(void *)(head + BT_P2P_WORDS_OFFSET);
}

static uint32_t *p2p_words(bt_group *group, int count)
{
    bt_p2p_group *self = group->impl;
    int free = 0; // words up to here
    for (int i = 0; self->options.engines && i < BT_P2P_WORDS; ++i) {
        free = self->words_taken[i] ? 0 : free + 1;
        if (free == count) {
            memset(&self->words_taken[i + 1 - count], true, (size_t)count);
            return first_word(self) + i + 1 - count;
        }
    }
    return NULL;
}

static void p2p_words_free(bt_group *group, const uint32_t *words, int count)
{
    bt_p2p_group *self = group->impl;
    memset(&self->words_taken[words - first_word(self)], false, (size_t)count);
}

static bt_status p2p_split(bt_group *group, int colour, int key, bt_group **out)
{
    bt_p2p_group *self = group->impl;
    bt_group *control = NULL;
    BT_TRY(bt_device_group_split(&self->base, colour, key, &control));
    bt_status status = control != NULL
                           ? bt_group_p2p_create(control, self->base.device, &self->options, out)
                           : BT_OK;
    if (status != BT_OK) {
        bt_group_destroy(control);
    }
    return status;
}

static const bt_group_backend p2p_backend = {.name = "p2p",
                                             .all_reduce = bt_p2p_all_reduce,
                                             .reduce_scatter = bt_p2p_reduce_scatter,
                                             .all_gather = bt_p2p_all_gather,
                                             .all_gather_rows = bt_p2p_all_gather_rows,
                                             .all_to_all = bt_p2p_all_to_all,
                                             .all_to_others = bt_p2p_all_to_others,
                                             .broadcast = bt_p2p_broadcast,
                                             .send_recv = bt_p2p_send_recv,
                                             .barrier = bt_p2p_barrier,
                                             .exchange_step = bt_p2p_exchange_step,
                                             .read_rows = bt_p2p_read_rows,
                                             .fold = bt_device_group_fold,
                                             .tell = bt_device_group_tell,
                                             .check = bt_device_group_check,
                                             .abort = bt_device_group_abort,
                                             .destroy = p2p_destroy,
                                             .memory = p2p_memory,
                                             .words = p2p_words,
                                             .words_free = p2p_words_free,
                                             .split = p2p_split,
                                             .on_gpu = true};

static bt_status create_queues(bt_p2p_group *group)
{
    bt_device *device = group->base.device;
    const bt_backend *backend = device->backend;
    BT_TRY(backend->stream_create(device, true, &group->pull));
    BT_TRY(backend->stream_create(device, true, &group->push));
    BT_TRY(backend->stream_create(device, true, &group->rescue));
    BT_TRY(backend->event_create(device, &group->begun));
    BT_TRY(backend->event_create(device, &group->pushed));
    BT_TRY(backend->event_create(device, &group->kernels.done));
    BT_TRY(backend->event_create(device, &group->engine_calls.done));
    for (int i = 0; i < BT_P2P_PIECES; ++i) {
        BT_TRY(backend->event_create(device, &group->pulled[i]));
        BT_TRY(backend->event_create(device, &group->folded[i]));
    }
    BT_TRY(backend->memory_alloc(device, BT_P2P_STATE_BYTES, &group->state));
    BT_TRY(backend->fill(device, group->state, 0, BT_P2P_STATE_BYTES, NULL));
    return backend->stream_synchronize(device, NULL);
}

static bt_status prepare(bt_p2p_group *group, bt_group *control, bt_device *device,
                         const bt_p2p_options *options)
{
    group->options = *options;
    group->mailbox.socket = -1;
    if (group->options.staging_bytes <= 0) {
        group->options.staging_bytes = 128 << 20;
    }
    const int64_t least = 16 * BT_P2P_PIECES * (int64_t)control->size; // or pieces would be empty
    if (group->options.staging_bytes < least) {
        group->options.staging_bytes = least;
    }
    BT_TRY(bt_device_group_init(&group->base, &p2p_backend, control, device, options->timeout_ns));
    group->base.give_up = give_up;
    if (!bt_group_gpu_supports(control->size)) {
        return bt_error(BT_STATUS_UNSUPPORTED,
                        "collectives over GPU links support 2, 4 or 8 ranks, but there are %d",
                        control->size);
    }
    BT_TRY(group->base.table->p2p_ready(device));
    BT_TRY(bt_mailbox_open(&group->mailbox));
    return create_queues(group);
}

// Exchanges the ranks' hosts and mailbox names.
static bt_status meet(bt_p2p_group *group)
{
    bt_group *control = group->base.control;
    bt_place mine = {.machine = bt_rendezvous_machine(), .mailbox = group->mailbox.name};
    bt_place places[BT_P2P_RANKS_MAX];
    BT_TRY(bt_all_gather(control, &mine, places, sizeof mine, NULL));
    for (int rank = 0; rank < control->size; ++rank) {
        if (places[rank].machine != places[0].machine) { // all ranks see the same
            return bt_error(BT_STATUS_UNAVAILABLE, "rank %d is on another host than rank 0", rank);
        }
        group->mailboxes[rank] = places[rank].mailbox;
    }
    return BT_OK;
}

static bt_status join(bt_p2p_group *group)
{
    bt_device_group *base = &group->base;
    BT_TRY(meet(group));
    BT_TRY(bt_p2p_region_create(group, BT_P2P_STAGING_OFFSET + group->options.staging_bytes));
    group->view = (bt_p2p_view){.rank = base->group.rank,
                                .size = base->group.size,
                                .state = group->state,
                                .abort_word = &base->words->abort,
                                .fault = &base->words->fault,
                                .patience_ns = (uint64_t)base->timeout_ns};
    for (int peer = 0; peer < base->group.size; ++peer) {
        group->view.window[peer] = group->regions[0].of[peer].base;
    }
    (void)pthread_mutex_lock(&base->lock); // the monitor asks the control group, too
    bt_status status = bt_device_group_agree(base->control, bt_device_group_start(base));
    (void)pthread_mutex_unlock(&base->lock);
    return status;
}

bt_status bt_group_p2p_create(bt_group *control, bt_device *device, const bt_p2p_options *options,
                              bt_group **out)
{
    bt_p2p_group *group;
    BT_TRY(bt_mem_alloc(1, sizeof *group, (void **)&group));
    bt_status status = bt_device_group_agree(control, prepare(group, control, device, options));
    status = status ? status : join(group);
    if (status != BT_OK) {
        if (group->base.is_monitored) { // another rank has no monitor
            atomic_store(&group->base.stopping, true);
            (void)pthread_join(group->base.monitor, NULL);
        }
        release(group, false);
        return status;
    }
    *out = &group->base.group;
    return BT_OK;
}

bool bt_group_gpu_supports(int ranks) { return ranks == 2 || ranks == 4 || ranks == 8; }

bt_status bt_group_gpu_create(bt_group *control, bt_device *device, const bt_p2p_options *options,
                              char *note, size_t note_capacity, bt_group **out)
{
    (void)snprintf(note, note_capacity, "%s", "");
    if (bt_group_p2p_create(control, device, options, out) == BT_OK) {
        return BT_OK;
    }
    (void)snprintf(note, note_capacity, "collectives use NCCL: %s", bt_error_message());
    bt_nccl_options over = {.timeout_ns = options->timeout_ns};
    return bt_error_context(bt_group_nccl_create(control, device, &over, out), "%s", note);
}
