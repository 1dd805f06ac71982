// harness/data/progress.h - progress and cancellation of data work
#ifndef BT_HARNESS_DATA_PROGRESS_H
#define BT_HARNESS_DATA_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bt_progress_event {
    const char *what; // "tokenize", "fetch", ...
    uint64_t done_bytes, total_bytes;
    int64_t tokens;   // so far, if known; otherwise 0
    const char *note; // a message for the user (a retry, a file done), or NULL
} bt_progress_event;

// `report` may be NULL. It is called on the thread that began the work, at least a few times a
// second; false stops the work, which then ends with BT_STATUS_INTERRUPTED and cleans up.
typedef struct bt_progress {
    bool (*report)(void *self, const bt_progress_event *event);
    void *self;
} bt_progress;

static inline bool bt_progress_report(bt_progress progress, const bt_progress_event *event)
{
    return !progress.report || progress.report(progress.self, event);
}

#endif
