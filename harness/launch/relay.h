// harness/launch/relay.h - rank 0's events over several generations as one sequence
#ifndef BT_HARNESS_LAUNCH_RELAY_H
#define BT_HARNESS_LAUNCH_RELAY_H

#include "harness/run/event.h"

typedef struct bt_relay_list {
    bt_run_event *events; // owned [count]
    int64_t count, capacity;
} bt_relay_list;

typedef struct bt_relay {
    bt_status (*tell)(void *self, const bt_run_event *event);
    void *self;
    bool started;
    int64_t next_step;                // first step that has not been forwarded
    int64_t next[BT_RUN_EVENT_COUNT]; // the same of evaluations, scores and states, by type
    uint32_t *bits; // owned [bit_count]: bits of the forwarded losses, from first_step on
    int64_t bit_count, bit_capacity, first_step;
    int64_t replayed_to;  // steps below were forwarded by an earlier generation
    bt_str kernels;       // kernels already reported, a line each
    bt_relay_list ranges; // of a profiled step that is not forwarded yet
    bt_relay_list held;   // the launcher's events before the first start event
} bt_relay;

// Starts a new generation: events that it repeats are not forwarded again. same_bits: it must
// repeat the losses of forwarded steps; false: its sums have another order.
void bt_relay_restart(bt_relay *relay, bool same_bits);
// Errors  CORRUPT_DATA (a step that was done again has another loss), those of `tell`
BT_CHECKED bt_status bt_relay_take(bt_relay *relay, const bt_run_event *event);
// Forwards an event of the launcher itself. The first event must be start: an event that precedes
// it is held until then.
BT_CHECKED bt_status bt_relay_report(bt_relay *relay, const bt_run_event *event);
void bt_relay_release(bt_relay *relay);

#endif
