// harness/launch/supervisor_timeline.c - collects the timelines of one step of all ranks
//
// All timelines are of one generation. Ranks are processes of one host, so their clocks are equal.

#include "harness/launch/supervisor.h"

void bt_supervisor_drop_timelines(bt_supervisor *supervisor)
{
    for (int i = 0; i < BT_LAUNCH_RANKS_MAX; ++i) {
        bt_run_event_release(&supervisor->timelines[i]);
        supervisor->timelines[i] = (bt_run_event){.type = BT_RUN_EVENT_COUNT};
    }
}

static bt_status tell_all(bt_supervisor *supervisor)
{
    int64_t first_ns = supervisor->timelines[0].as.timeline.start_ns;
    bt_status status = BT_OK;
    for (int i = 1; i < supervisor->size; ++i) {
        const int64_t start_ns = supervisor->timelines[i].as.timeline.start_ns;
        first_ns = start_ns < first_ns ? start_ns : first_ns;
    }
    for (int i = 0; i < supervisor->size && status == BT_OK; ++i) {
        supervisor->timelines[i].as.timeline.start_ns -= first_ns;
        status = bt_relay_take(&supervisor->relay, &supervisor->timelines[i]);
    }
    supervisor->timelines_told = true;
    bt_supervisor_drop_timelines(supervisor);
    return status;
}

bt_status bt_supervisor_take_timeline(bt_supervisor *supervisor, int rank,
                                      const bt_run_event *event)
{
    bt_run_event *kept = &supervisor->timelines[rank];
    bool complete = true;
    if (supervisor->timelines_told) {
        return BT_OK; // from an earlier generation, which did the step before
    }
    bt_run_event_release(kept);
    *kept = (bt_run_event){.type = BT_RUN_EVENT_COUNT};
    BT_TRY(bt_run_event_copy(event, kept));
    kept->as.timeline.rank = rank;
    for (int i = 0; i < supervisor->size; ++i) {
        complete = complete && supervisor->timelines[i].type == BT_RUN_EVENT_TIMELINE &&
                   supervisor->timelines[i].as.timeline.step == kept->as.timeline.step;
    }
    return complete ? tell_all(supervisor) : BT_OK;
}
