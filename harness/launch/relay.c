#include "harness/launch/relay.h"

#include <string.h>

#include "framework/base/scoped.h"

// If an earlier generation's steps are repeated with another order of sums, losses are not
// compared.
static void forget_bits(bt_relay *relay, int64_t next_step)
{
    relay->first_step = next_step;
    relay->bit_count = 0;
}

static void drop(bt_relay_list *list)
{
    while (list->count > 0) {
        bt_run_event_release(&list->events[--list->count]);
    }
}

static bt_status keep(const bt_run_event *event, bt_relay_list *list)
{
    BT_TRY(BT_MEM_GROW(list->count + 1, &list->capacity, &list->events));
    BT_TRY(bt_run_event_copy(event, &list->events[list->count]));
    ++list->count;
    return BT_OK;
}

static bt_status tell_list(bt_relay *relay, bt_relay_list *list)
{
    bt_status status = BT_OK;
    for (int64_t i = 0; i < list->count && status == BT_OK; ++i) {
        status = relay->tell(relay->self, &list->events[i]);
    }
    drop(list);
    return status;
}

void bt_relay_restart(bt_relay *relay, bool same_bits)
{
    relay->replayed_to = relay->next_step;
    if (!same_bits) {
        forget_bits(relay, relay->next_step);
    }
    drop(&relay->ranges);
}

void bt_relay_release(bt_relay *relay)
{
    drop(&relay->ranges);
    drop(&relay->held);
    bt_mem_free(relay->ranges.events);
    bt_mem_free(relay->held.events);
    bt_mem_free(relay->bits);
    bt_str_release(&relay->kernels);
}

static bt_status take_start(bt_relay *relay, const bt_run_event *event)
{
    if (relay->started) {
        return BT_OK;
    }
    relay->started = true;
    const int64_t first = event->as.start.first_step;
    relay->first_step = relay->next_step = relay->replayed_to = first;
    relay->next[BT_RUN_EVENT_EVAL] = relay->next[BT_RUN_EVENT_SCORE] =
        relay->next[BT_RUN_EVENT_STATE] = first;
    BT_TRY(relay->tell(relay->self, event));
    return tell_list(relay, &relay->held);
}

static bt_status keep_bits(bt_relay *relay, uint32_t bits)
{
    BT_TRY(BT_MEM_GROW(relay->bit_count + 1, &relay->bit_capacity, &relay->bits));
    relay->bits[relay->bit_count++] = bits;
    return BT_OK;
}

static bt_status take_step(bt_relay *relay, const bt_run_event *event)
{
    const bt_store_step *step = &event->as.step;
    uint32_t bits;
    memcpy(&bits, &step->loss, sizeof bits);
    if (step->step >= relay->next_step) {
        if (step->step > relay->next_step) { // a gap: what came before it is not compared again
            forget_bits(relay, step->step);
        }
        BT_TRY(keep_bits(relay, bits));
        BT_TRY(tell_list(relay, &relay->ranges));
        relay->next_step = step->step + 1;
        return relay->tell(relay->self, event);
    }
    drop(&relay->ranges);
    if (step->step < relay->first_step) { // the ranks resumed from an older state than the first
        return BT_OK;
    }
    const uint32_t before = relay->bits[step->step - relay->first_step];
    return before == bits
               ? BT_OK
               : bt_error(
                     BT_STATUS_CORRUPT_DATA,
                     "step %lld was repeated and has the loss bits %08x; before they were %08x",
                     (long long)step->step, bits, before);
}

static bt_status take_kernel(bt_relay *relay, const bt_run_event *event)
{
    BT_SCOPED(bt_str) line = {0};
    bt_str_format(&line, "\n%s\t%s\n", event->as.kernel.op, event->as.kernel.kernel);
    bt_status status = bt_str_status(&line);
    const bool known = status != BT_OK || strstr(bt_str_text(&relay->kernels), bt_str_text(&line));
    bt_str_append(&relay->kernels, known ? "" : bt_str_text(&line));
    BT_TRY(status);
    return known ? BT_OK : relay->tell(relay->self, event);
}

static bt_status take_counted(bt_relay *relay, const bt_run_event *event, int64_t step)
{
    if (step < relay->next[event->type]) {
        return BT_OK;
    }
    relay->next[event->type] = step + 1;
    return relay->tell(relay->self, event);
}

bt_status bt_relay_take(bt_relay *relay, const bt_run_event *event)
{
    switch ((int)event->type) {
    case BT_RUN_EVENT_START:
        return take_start(relay, event);
    case BT_RUN_EVENT_STEP:
        return take_step(relay, event);
    case BT_RUN_EVENT_EVAL:
        return take_counted(relay, event, event->as.eval.step);
    case BT_RUN_EVENT_SCORE:
        return take_counted(relay, event, event->as.score.step);
    case BT_RUN_EVENT_STATE:
        return take_counted(relay, event, event->as.state.step);
    case BT_RUN_EVENT_RANGE: // comes before its step; reported with it, so that a lost step has
                             // none
        return keep(event, &relay->ranges);
    case BT_RUN_EVENT_KERNEL:
        return take_kernel(relay, event);
    case BT_RUN_EVENT_LAUNCH:
        return event->as.launch.step < relay->replayed_to ? BT_OK : relay->tell(relay->self, event);
    case BT_RUN_EVENT_FAULT:
        return event->as.fault.step < relay->replayed_to ? BT_OK : relay->tell(relay->self, event);
    case BT_RUN_EVENT_ERROR: // the launcher reports the result of the run
        return BT_OK;
    default: // forwarded as it comes
        return relay->tell(relay->self, event);
    }
}

bt_status bt_relay_report(bt_relay *relay, const bt_run_event *event)
{
    return relay->started ? relay->tell(relay->self, event) : keep(event, &relay->held);
}
