#include "harness/launch/gang.h"

#include <string.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/dist/host.h"

static bt_status tell(void *self, const bt_run_event *event)
{
    const bt_gang *gang = self;
    return gang->launch->listener.event(gang->launch->listener.self, event);
}

void bt_gang_init(const bt_launch *launch, bt_gang *gang)
{
    memset(gang, 0, sizeof *gang);
    gang->launch = launch;
    gang->next_size = launch->size;
    gang->group_fd = gang->spare_fd = -1;
    gang->last_rank = -1;
    gang->steps_at_fault = -1;
    gang->relay.tell = tell;
    gang->relay.self = gang;
    if (launch->devices) {
        bt_xid_watch_open(launch->size, &gang->xids);
    }
    for (int slot = 0; launch->devices && slot < launch->size; ++slot) {
        gang->quarantined[slot] = !launch->devices[slot];
    }
}

void bt_gang_end(bt_gang *gang)
{
    for (int i = 0; i < gang->size; ++i) {
        bt_rank_kill(&gang->ranks[i]); // all at once, then one by one
    }
    for (int i = 0; i < gang->size; ++i) {
        bt_rank_release(&gang->ranks[i]);
    }
    gang->size = 0;
    bt_gang_drop_timelines(gang);
    if (gang->group_fd >= 0) {
        (void)close(gang->group_fd);
    }
    gang->group_fd = -1;
    if (gang->has_result) {
        bt_run_event_release(&gang->result);
        gang->has_result = false;
    }
}

void bt_gang_release(bt_gang *gang)
{
    bt_gang_end(gang);
    bt_gang_drop_spares(gang);
    bt_relay_release(&gang->relay);
    bt_xid_watch_close(&gang->xids);
}

static bt_status give_task(bt_gang *gang, int number)
{
    const bt_launch *launch = gang->launch;
    bt_rank *rank = &gang->ranks[number];
    const bt_rank_start start = {.rank = number,
                                 .size = gang->size,
                                 .slot = rank->slot,
                                 .generation = gang->generation,
                                 .group_fd = gang->group_fd};
    rank->state.limits = (bt_run_event_limits){
        .kind = "train",
        .steps = launch->steps,
        .first_step =
            gang->relay.next_step > launch->first_step ? gang->relay.next_step : launch->first_step,
        .lines = bt_run_event_lines_max(launch->steps)};
    bt_str task = {0};
    bt_status status = launch->listener.task(launch->listener.self, &start, rank->flight_fd, &task);
    status = status == BT_OK ? bt_str_status(&task) : status;
    status = status == BT_OK ? bt_child_give(&rank->child, bt_str_text(&task)) : status;
    bt_str_release(&task);
    return status;
}

static bt_status start_ranks(bt_gang *gang)
{
    BT_TRY(bt_group_host_memory(gang->next_size, &gang->group_fd));
    while (gang->size < gang->next_size) {
        const int number = gang->size++;
        const bt_rank_start start = {.rank = number,
                                     .size = gang->next_size,
                                     .slot = bt_gang_slot_of(gang, number),
                                     .generation = gang->generation,
                                     .group_fd = gang->group_fd};
        BT_TRY(bt_gang_start_rank(gang, &start, &gang->ranks[number]));
    }
    return BT_OK;
}

bt_status bt_gang_begin(bt_gang *gang)
{
    ++gang->generation;
    bt_relay_restart(&gang->relay);
    gang->window_ns = 0;
    gang->fault_due_ns = 0;
    gang->noticed_ns = 0;
    BT_TRY(bt_gang_take_spares(gang) ? BT_OK : start_ranks(gang));
    for (int i = 0; i < gang->size; ++i) {
        BT_TRY(give_task(gang, i));
    }
    bt_gang_write_status(gang, true);
    return BT_OK;
}

bt_status bt_gang_keep_result(bt_gang *gang, const char *line, size_t size_bytes)
{
    bt_run_event_state state = {.started = true, .next_step = gang->ranks[0].state.next_step};
    BT_TRY(bt_run_event_parse(&state, line, size_bytes, &gang->result));
    gang->has_result = true;
    return BT_OK;
}

bt_status bt_gang_tell_result(bt_gang *gang)
{
    return gang->has_result ? bt_relay_take(&gang->relay, &gang->result)
                            : bt_error(BT_STATUS_INTERNAL, "rank 0 ended without a result");
}
