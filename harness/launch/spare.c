// harness/launch/spare.c - standby processes for the ranks of the next generation
//
// A spare is a process that has opened its device, has joined the group of the next generation and
// waits for its task. When a rank fails, all ranks are killed and the spares get the tasks of the
// next generation, which saves the time to start processes, to open devices and to map the memory
// of other ranks.
//
// Invariants
//   1. There is a spare for every rank of the next generation, or none.
//   2. Spares that do not match the number of ranks or the slots of the next generation are killed.
//   3. If a spare exits, the run continues without spares.
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "framework/dist/host.h"
#include "harness/launch/supervisor.h"

void bt_supervisor_drop_spares(bt_supervisor *supervisor)
{
    bt_supervisor_drop(supervisor->spares, &supervisor->spare_count, &supervisor->spare_fd);
}

static bt_status begin_spare(bt_supervisor *supervisor, int number)
{
    const bt_launch_listener *listener = &supervisor->launch->listener;
    const bt_rank_start start = {.rank = number,
                                 .size = supervisor->size,
                                 .slot = supervisor->ranks[number].slot,
                                 .generation = supervisor->generation + 1,
                                 .group_fd = supervisor->spare_fd};
    bt_rank *rank = &supervisor->spares[number];
    BT_SCOPED(bt_str) words = {0};
    ++supervisor->spare_count;
    BT_TRY(bt_supervisor_start_rank(supervisor, &start, rank));
    if (!listener->prepare) {
        return BT_OK;
    }
    BT_TRY(listener->prepare(listener->self, &start, rank->flight_fd, &words));
    BT_TRY(bt_str_status(&words));
    return bt_child_give(&rank->child, bt_str_text(&words));
}

static bool is_training(const bt_supervisor *supervisor)
{
    bool joined = !supervisor->recovering && !supervisor->stopping;
    for (int i = 0; i < supervisor->size && joined; ++i) {
        joined =
            !supervisor->ranks[i].over && atomic_load(&supervisor->ranks[i].flight.board->joined);
    }
    return joined;
}

static void begin_spares(bt_supervisor *supervisor)
{
    bt_status status = bt_group_host_memory(supervisor->size, &supervisor->spare_fd);
    supervisor->spares_of = supervisor->generation;
    for (int i = 0; i < supervisor->size && status == BT_OK; ++i) {
        status = begin_spare(supervisor, i);
    }
    if (status != BT_OK) {
        (void)fprintf(stderr, "launcher: no spare ranks: %s\n", bt_error_message());
        bt_error_clear();
        bt_supervisor_drop_spares(supervisor);
    }
}

// Whether a spare has exited. Before its task it produces no output.
static bool has_ended(bt_rank *rank)
{
    bt_child_said said = BT_CHILD_NOTHING;
    bt_child_line line;
    if (bt_child_listen(&rank->child, 0, BT_RUN_EVENT_LINE_BYTES_MAX, &said, &line) != BT_OK) {
        bt_error_clear();
        return true;
    }
    if (said == BT_CHILD_LINE) {
        (void)fprintf(stderr, "launcher: a spare of rank %d reports %.*s\n", rank->rank,
                      (int)line.size_bytes, line.text);
    }
    return said != BT_CHILD_NOTHING;
}

void bt_supervisor_keep_spares(bt_supervisor *supervisor)
{
    const bool wanted = supervisor->launch->spare && !supervisor->without_spares;
    if (wanted && supervisor->spares_of != supervisor->generation && is_training(supervisor)) {
        begin_spares(supervisor);
    }
    for (int i = 0; i < supervisor->spare_count; ++i) {
        if (has_ended(&supervisor->spares[i])) {
            (void)fprintf(stderr, "launcher: continuing without spare ranks\n");
            bt_supervisor_drop_spares(supervisor);
        }
    }
}

static bool fit(const bt_supervisor *supervisor)
{
    bool same = supervisor->spare_count > 0 && supervisor->spare_count == supervisor->next_size;
    for (int i = 0; i < supervisor->spare_count && same; ++i) {
        same = supervisor->spares[i].slot == bt_supervisor_slot_of(supervisor, i);
    }
    return same;
}

bool bt_supervisor_spares_joined(const bt_supervisor *supervisor)
{
    bool joined = fit(supervisor);
    for (int i = 0; i < supervisor->spare_count && joined; ++i) {
        joined = atomic_load(&supervisor->spares[i].flight.board->joined);
    }
    return joined;
}

bool bt_supervisor_take_spares(bt_supervisor *supervisor)
{
    bool usable = fit(supervisor);
    for (int i = 0; i < supervisor->spare_count && usable; ++i) {
        usable = !has_ended(&supervisor->spares[i]);
    }
    if (!usable) {
        supervisor->recovery.group_ns = -1; // new processes have yet to join
        bt_supervisor_drop_spares(supervisor);
        return false;
    }
    memcpy(supervisor->ranks, supervisor->spares,
           (size_t)supervisor->next_size * sizeof *supervisor->ranks);
    supervisor->size = supervisor->next_size;
    supervisor->group_fd = supervisor->spare_fd;
    supervisor->spare_fd = -1;
    supervisor->spare_count = 0;
    return true;
}
