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

void bt_relay_restart(bt_relay *relay, bool same_bits)
{
    relay->replayed_to = relay->next_step;
    if (!same_bits) {
        forget_bits(relay, relay->next_step);
    }
    bt_str_clear(&relay->ranges);
}

void bt_relay_release(bt_relay *relay)
{
    bt_mem_free(relay->bits);
    bt_str_release(&relay->kernels);
    bt_str_release(&relay->ranges);
}

static bt_status take_start(bt_relay *relay, const bt_run_event *event)
{
    if (relay->started) {
        return BT_OK;
    }
    relay->started = true;
    relay->first_step = relay->next_step = relay->next_eval = relay->next_score =
        relay->next_state = relay->replayed_to = event->as.start.first_step;
    return relay->tell(relay->self, event);
}

static bt_status keep_bits(bt_relay *relay, uint32_t bits)
{
    BT_TRY(BT_MEM_GROW(relay->bit_count + 1, &relay->bit_capacity, &relay->bits));
    relay->bits[relay->bit_count++] = bits;
    return BT_OK;
}

// Ranges of a step come before it. They are reported with it, so that a lost step leaves none.
static bt_status tell_ranges(bt_relay *relay)
{
    const char *at = bt_str_text(&relay->ranges);
    bt_status status = bt_str_status(&relay->ranges);
    for (const char *end = strchr(at, '\n'); end && status == BT_OK; end = strchr(at, '\n')) {
        bt_run_event event = {.type = BT_RUN_EVENT_RANGE};
        status = bt_json_parse("range", at, (size_t)(end - at), &event.json);
        if (status == BT_OK) {
            const cJSON *path = bt_json_get(event.json.root, "path");
            event.as.range = (bt_store_range){
                .step = (int64_t)bt_json_number_of(event.json.root, "step"),
                .path = path->valuestring,
                .count = (int64_t)bt_json_number_of(event.json.root, "count"),
                .device_ns = (int64_t)bt_json_number_of(event.json.root, "device_ns"),
                .host_ns = (int64_t)bt_json_number_of(event.json.root, "host_ns")};
            status = relay->tell(relay->self, &event);
        }
        bt_run_event_release(&event);
        at = end + 1;
    }
    bt_str_clear(&relay->ranges);
    return status;
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
        BT_TRY(tell_ranges(relay));
        relay->next_step = step->step + 1;
        return relay->tell(relay->self, event);
    }
    bt_str_clear(&relay->ranges);
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

static bt_status take_counted(bt_relay *relay, const bt_run_event *event, int64_t step,
                              int64_t *next)
{
    if (step < *next) {
        return BT_OK;
    }
    *next = step + 1;
    return relay->tell(relay->self, event);
}

bt_status bt_relay_take(bt_relay *relay, const bt_run_event *event)
{
    switch (event->type) {
    case BT_RUN_EVENT_START:
        return take_start(relay, event);
    case BT_RUN_EVENT_STEP:
        return take_step(relay, event);
    case BT_RUN_EVENT_EVAL:
        return take_counted(relay, event, event->as.eval.step, &relay->next_eval);
    case BT_RUN_EVENT_SCORE:
        return take_counted(relay, event, event->as.score.step, &relay->next_score);
    case BT_RUN_EVENT_STATE:
        return take_counted(relay, event, event->as.state.step, &relay->next_state);
    case BT_RUN_EVENT_RANGE:
        bt_run_event_write(event, &relay->ranges);
        return bt_str_status(&relay->ranges);
    case BT_RUN_EVENT_KERNEL:
        return take_kernel(relay, event);
    case BT_RUN_EVENT_LAUNCH:
        return event->as.launch.step < relay->replayed_to ? BT_OK : relay->tell(relay->self, event);
    case BT_RUN_EVENT_FAULT:
        return event->as.fault.step < relay->replayed_to ? BT_OK : relay->tell(relay->self, event);
    case BT_RUN_EVENT_ERROR: // the launcher reports the result of the run
        return BT_OK;
    case BT_RUN_EVENT_SAMPLES:
    case BT_RUN_EVENT_MEASURED:
    case BT_RUN_EVENT_GROUP:
    case BT_RUN_EVENT_GROUP_CALLS:
    case BT_RUN_EVENT_TIMELINE:
    case BT_RUN_EVENT_MEMORY:
    case BT_RUN_EVENT_RESULT:
    case BT_RUN_EVENT_VERSIONS:
    case BT_RUN_EVENT_OUTPUTS:
    case BT_RUN_EVENT_SAVE:
    case BT_RUN_EVENT_RECOVERY:
    case BT_RUN_EVENT_COUNT:
        break;
    }
    return relay->tell(relay->self, event);
}
