// harness/launch/supervisor.c - the beginning and end of a generation
#include "harness/launch/supervisor.h"

#include <string.h>

#include "framework/base/scoped.h"
#include "framework/dist/host.h"

static bt_status tell(void *self, const bt_run_event *event)
{
    const bt_supervisor *supervisor = self;
    return supervisor->launch->listener.event(supervisor->launch->listener.self, event);
}

void bt_supervisor_init(const bt_launch *launch, bt_supervisor *supervisor)
{
    memset(supervisor, 0, sizeof *supervisor);
    supervisor->launch = launch;
    supervisor->next_size = launch->size;
    supervisor->group_fd = supervisor->spare_fd = -1;
    supervisor->last_rank = -1;
    supervisor->steps_at_fault = -1;
    supervisor->relay.tell = tell;
    supervisor->relay.self = supervisor;
    if (launch->devices) {
        bt_xid_watch_open(launch->size, &supervisor->xids);
    }
    for (int slot = 0; launch->devices && slot < launch->size; ++slot) {
        supervisor->quarantined[slot] = !launch->devices[slot];
    }
}

void bt_supervisor_end(bt_supervisor *supervisor)
{
    bt_supervisor_drop(supervisor->ranks, &supervisor->size, &supervisor->group_fd);
    bt_supervisor_drop_timelines(supervisor);
    if (supervisor->has_result) {
        bt_run_event_release(&supervisor->result);
        supervisor->has_result = false;
    }
}

void bt_supervisor_release(bt_supervisor *supervisor)
{
    bt_supervisor_end(supervisor);
    bt_supervisor_drop_spares(supervisor);
    bt_relay_release(&supervisor->relay);
    bt_xid_watch_close(&supervisor->xids);
}

static bt_status give_task(bt_supervisor *supervisor, int number)
{
    const bt_launch *launch = supervisor->launch;
    bt_rank *rank = &supervisor->ranks[number];
    const bt_rank_start start = {.rank = number,
                                 .size = supervisor->size,
                                 .slot = rank->slot,
                                 .generation = supervisor->generation,
                                 .group_fd = supervisor->group_fd};
    rank->state.limits = (bt_run_event_limits){
        .kind = "train",
        .steps = launch->steps,
        .first_step = supervisor->relay.next_step > launch->first_step ? supervisor->relay.next_step
                                                                       : launch->first_step,
        .lines = bt_run_event_lines_max(launch->steps)};
    BT_SCOPED(bt_str) task = {0};
    BT_TRY(launch->listener.task(launch->listener.self, &start, rank->flight_fd, &task));
    BT_TRY(bt_str_status(&task));
    return bt_child_give(&rank->child, bt_str_text(&task));
}

static bt_status start_ranks(bt_supervisor *supervisor)
{
    BT_TRY(bt_group_host_memory(supervisor->next_size, &supervisor->group_fd));
    while (supervisor->size < supervisor->next_size) {
        const int number = supervisor->size++;
        const bt_rank_start start = {.rank = number,
                                     .size = supervisor->next_size,
                                     .slot = bt_supervisor_slot_of(supervisor, number),
                                     .generation = supervisor->generation,
                                     .group_fd = supervisor->group_fd};
        BT_TRY(bt_supervisor_start_rank(supervisor, &start, &supervisor->ranks[number]));
    }
    return BT_OK;
}

bt_status bt_supervisor_begin(bt_supervisor *supervisor)
{
    ++supervisor->generation;
    bt_relay_restart(&supervisor->relay, supervisor->launch->invariant ||
                                             supervisor->last_size == supervisor->next_size);
    supervisor->last_size = supervisor->next_size;
    supervisor->window_ns = 0;
    supervisor->fault_due_ns = 0;
    supervisor->noticed_ns = 0;
    BT_TRY(bt_supervisor_take_spares(supervisor) ? BT_OK : start_ranks(supervisor));
    for (int i = 0; i < supervisor->size; ++i) {
        BT_TRY(give_task(supervisor, i));
    }
    bt_supervisor_write_status(supervisor, true);
    return BT_OK;
}
