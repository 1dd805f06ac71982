// tests/fuzz/fuzz_event.c - any bytes as the lines of a worker: each an event, or refused with a
// message; what was taken is written and reads back
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/run/event.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

// An event that was accepted must be one that a worker could have written.
static void read_back(const bt_run_event *event)
{
    bt_run_event_state anywhere = {.started = event->type != BT_RUN_EVENT_START,
                                   .next_step = event->as.step.step};
    bt_run_event again;
    bt_str line = {0};
    if (event->type == BT_RUN_EVENT_EVAL || event->type == BT_RUN_EVENT_RESULT) {
        return; // whether they fit depends on the steps before
    }
    bt_run_event_write(event, &line);
    if (bt_run_event_parse(&anywhere, bt_str_text(&line), line.length_bytes - 1, &again) == BT_OK) {
        if (again.type != event->type) {
            abort();
        }
        bt_run_event_release(&again);
    } else if (line.length_bytes <= BT_RUN_EVENT_LINE_BYTES_MAX) {
        abort();
    }
    bt_str_release(&line);
}

static void read_lines(const char *text, size_t size_bytes, const char *kind)
{
    bt_run_event_state state = {.limits = {.kind = kind, .steps = 4, .lines = 64, .samples = 256}};
    for (size_t at = 0; at < size_bytes;) {
        const char *newline = memchr(text + at, '\n', size_bytes - at);
        size_t length = newline ? (size_t)(newline - (text + at)) : size_bytes - at;
        bt_run_event event;
        if (bt_run_event_parse(&state, text + at, length, &event) != BT_OK) {
            if (!*bt_error_message()) {
                abort(); // refused without a word
            }
            return; // as the recorder does
        }
        read_back(&event);
        bt_run_event_release(&event);
        at += length + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    int64_t before = bt_mem_live_count();
    read_lines((const char *)bytes, size_bytes, "train");
    read_lines((const char *)bytes, size_bytes, "kernel");
    if (bt_mem_live_count() != before) {
        abort(); // something leaked
    }
    return 0;
}
