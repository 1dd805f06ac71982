// harness/launch/spare.c - ranks of the next generation that are started before they are needed
//
// A spare is a process that has opened its device and waits for its task. When a rank is lost, all
// ranks are ended and the spares get the tasks of the next generation: nobody waits for a program
// to start or for a device to be opened.
//
// Invariants
//   1. Spares are all ranks of the next generation, or there are none.
//   2. Spares of another number of ranks or other slots than the next generation has are ended.
//   3. A spare that ends by itself costs the run nothing but the spares.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/dist/host.h"
#include "harness/launch/gang.h"

void bt_gang_drop_spares(bt_gang *gang)
{
    for (int i = 0; i < gang->spare_count; ++i) {
        bt_rank_kill(&gang->spares[i]); // all at once, then one by one
    }
    for (int i = 0; i < gang->spare_count; ++i) {
        bt_rank_release(&gang->spares[i]);
    }
    gang->spare_count = 0;
    if (gang->spare_fd >= 0) {
        (void)close(gang->spare_fd);
    }
    gang->spare_fd = -1;
}

static bt_status begin_spare(bt_gang *gang, int number)
{
    const bt_launch_listener *listener = &gang->launch->listener;
    const bt_rank_start start = {.rank = number,
                                 .size = gang->size,
                                 .slot = gang->ranks[number].slot,
                                 .generation = gang->generation + 1,
                                 .group_fd = gang->spare_fd};
    bt_rank *rank = &gang->spares[number];
    bt_str words = {0};
    ++gang->spare_count;
    BT_TRY(bt_gang_start_rank(gang, &start, rank));
    if (!listener->prepare) {
        return BT_OK;
    }
    bt_status status = listener->prepare(listener->self, &start, &words);
    status = status == BT_OK ? bt_str_status(&words) : status;
    status = status == BT_OK ? bt_child_give(&rank->child, bt_str_text(&words)) : status;
    bt_str_release(&words);
    return status;
}

static bool is_training(const bt_gang *gang)
{
    bool joined = !gang->recovering && !gang->stopping;
    for (int i = 0; i < gang->size && joined; ++i) {
        joined = !gang->ranks[i].over && atomic_load(&gang->ranks[i].flight.board->joined);
    }
    return joined;
}

static void begin_spares(bt_gang *gang)
{
    bt_status status = bt_group_host_memory(gang->size, &gang->spare_fd);
    gang->spares_of = gang->generation;
    for (int i = 0; i < gang->size && status == BT_OK; ++i) {
        status = begin_spare(gang, i);
    }
    if (status != BT_OK) {
        (void)fprintf(stderr, "launcher: no spare ranks: %s\n", bt_error_message());
        bt_error_clear();
        bt_gang_drop_spares(gang);
    }
}

// Whether a spare has ended, which is the only thing that it can say before its task.
static bool has_ended(bt_rank *rank)
{
    bt_child_said said = BT_CHILD_NOTHING;
    const char *line = NULL;
    size_t size_bytes = 0;
    bool complete = false;
    bt_rank_drain(rank, false);
    if (bt_child_listen(&rank->child, 0, BT_RUN_EVENT_LINE_BYTES_MAX, &said, &line, &size_bytes,
                        &complete) != BT_OK) {
        bt_error_clear();
        return true;
    }
    if (said == BT_CHILD_LINE) {
        (void)fprintf(stderr, "launcher: a spare of rank %d says %.*s\n", rank->rank,
                      (int)size_bytes, line);
    }
    return said != BT_CHILD_NOTHING;
}

void bt_gang_keep_spares(bt_gang *gang)
{
    const bool wanted = gang->launch->spare && !gang->without_spares;
    if (wanted && gang->spares_of != gang->generation && is_training(gang)) {
        begin_spares(gang);
    }
    for (int i = 0; i < gang->spare_count; ++i) {
        if (has_ended(&gang->spares[i])) {
            (void)fprintf(stderr, "launcher: goes on without spare ranks\n");
            bt_gang_drop_spares(gang);
        }
    }
}

bool bt_gang_take_spares(bt_gang *gang)
{
    bool fit = gang->spare_count > 0 && gang->spare_count == gang->next_size;
    for (int i = 0; i < gang->spare_count && fit; ++i) {
        fit = gang->spares[i].slot == bt_gang_slot_of(gang, i) && !has_ended(&gang->spares[i]);
    }
    if (!fit) {
        bt_gang_drop_spares(gang);
        return false;
    }
    memcpy(gang->ranks, gang->spares, (size_t)gang->next_size * sizeof *gang->ranks);
    gang->size = gang->next_size;
    gang->group_fd = gang->spare_fd;
    gang->spare_fd = -1;
    gang->spare_count = 0;
    return true;
}
