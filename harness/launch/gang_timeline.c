// harness/launch/gang_timeline.c - the ranks' timelines of one step, told together
//
// Only timelines of one generation belong beside each other. Ranks are processes of one host, so
// that their clocks are one.
#include <string.h>

#include "harness/launch/gang.h"

void bt_gang_drop_timelines(bt_gang *gang)
{
    for (int i = 0; i < BT_LAUNCH_RANKS_MAX; ++i) {
        bt_run_event_release(&gang->timelines[i]);
        gang->timelines[i] = (bt_run_event){.type = BT_RUN_EVENT_COUNT};
    }
}

static bt_status tell_all(bt_gang *gang)
{
    int64_t first_ns = gang->timelines[0].as.timeline.start_ns;
    bt_status status = BT_OK;
    for (int i = 1; i < gang->size; ++i) {
        const int64_t start_ns = gang->timelines[i].as.timeline.start_ns;
        first_ns = start_ns < first_ns ? start_ns : first_ns;
    }
    for (int i = 0; i < gang->size && status == BT_OK; ++i) {
        gang->timelines[i].as.timeline.start_ns -= first_ns;
        status = bt_relay_take(&gang->relay, &gang->timelines[i]);
    }
    gang->timelines_told = true;
    bt_gang_drop_timelines(gang);
    return status;
}

bt_status bt_gang_take_timeline(bt_gang *gang, int rank, const char *line, size_t size_bytes)
{
    bt_run_event *kept = &gang->timelines[rank];
    bt_run_event_state state = {.started = true};
    bool complete = true;
    if (gang->timelines_told) {
        return BT_OK; // by an earlier generation, which did the step before
    }
    bt_run_event_release(kept);
    *kept = (bt_run_event){.type = BT_RUN_EVENT_COUNT};
    BT_TRY(bt_run_event_parse(&state, line, size_bytes, kept));
    kept->as.timeline.rank = rank;
    for (int i = 0; i < gang->size; ++i) {
        complete = complete && gang->timelines[i].type == BT_RUN_EVENT_TIMELINE &&
                   gang->timelines[i].as.timeline.step == kept->as.timeline.step;
    }
    return complete ? tell_all(gang) : BT_OK;
}
