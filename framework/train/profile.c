// framework/train/profile.c - events around ranges, summed by path
//
// A hook cannot fail; the first failure is kept and reported by bt_profile_stop.
#include "framework/train/profile.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"

enum { PATH_BYTES = 192, DEPTH = 16 };

typedef struct path_row {
    char path[PATH_BYTES];
    int64_t count, device_ns, host_ns;
} path_row;

typedef struct interval {
    int64_t row;
    bt_event start, stop; // owned, reused from step to step
    int64_t start_ns, stop_ns;
} interval;

struct bt_profile {
    bt_context *context; // borrowed
    interval *intervals; // owned; used of `made` with events of `capacity`
    int64_t used, made, capacity;
    path_row *rows; // owned
    int64_t row_count, row_capacity;
    int64_t open[DEPTH]; // intervals not yet closed
    int depth;           // may exceed DEPTH: deeper ranges are not timed
    bt_status status;
};

bt_status bt_profile_create(bt_context *context, bt_profile **out)
{
    void *block = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_profile), &block));
    *out = block;
    (*out)->context = context;
    return BT_OK;
}

void bt_profile_destroy(bt_profile *profile)
{
    if (!profile) {
        return;
    }
    bt_device *device = profile->context->device;
    for (int64_t i = 0; i < profile->made; ++i) {
        if (profile->intervals[i].start) {
            device->backend->event_destroy(device, profile->intervals[i].start);
        }
        if (profile->intervals[i].stop) {
            device->backend->event_destroy(device, profile->intervals[i].stop);
        }
    }
    bt_mem_free(profile->intervals);
    bt_mem_free(profile->rows);
    bt_mem_free(profile);
}

static bt_status grow(void **block, int64_t *capacity, size_t item_bytes)
{
    int64_t larger = *capacity ? 2 * *capacity : 64;
    BT_TRY(bt_mem_resize(block, (size_t)larger, item_bytes));
    *capacity = larger;
    return BT_OK;
}

static bt_status find_row(bt_profile *profile, const char *name, int64_t *out)
{
    char path[PATH_BYTES];
    const char *parent =
        profile->depth
            ? profile->rows[profile->intervals[profile->open[profile->depth - 1]].row].path
            : "";
    if (snprintf(path, sizeof path, "%s%s%s", parent, *parent ? "/" : "", name) >= PATH_BYTES) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "range path %s... is too long", path);
    }
    for (int64_t i = 0; i < profile->row_count; ++i) {
        if (strcmp(profile->rows[i].path, path) == 0) {
            *out = i;
            return BT_OK;
        }
    }
    if (profile->row_count == profile->row_capacity) {
        void *rows = profile->rows;
        BT_TRY(grow(&rows, &profile->row_capacity, sizeof *profile->rows));
        profile->rows = rows;
    }
    path_row *row = &profile->rows[profile->row_count];
    *row = (path_row){{0}, 0, 0, 0};
    memcpy(row->path, path, sizeof path);
    *out = profile->row_count++;
    return BT_OK;
}

static bt_status open_interval(bt_profile *profile, const char *name)
{
    bt_device *device = profile->context->device;
    if (profile->used == profile->made) {
        if (profile->made == profile->capacity) {
            void *intervals = profile->intervals;
            BT_TRY(grow(&intervals, &profile->capacity, sizeof *profile->intervals));
            profile->intervals = intervals;
        }
        interval *fresh = &profile->intervals[profile->made++];
        memset(fresh, 0, sizeof *fresh);
        BT_TRY(device->backend->event_create(device, &fresh->start));
        BT_TRY(device->backend->event_create(device, &fresh->stop));
    }
    interval *next = &profile->intervals[profile->used];
    BT_TRY(find_row(profile, name, &next->row));
    BT_TRY(device->backend->event_record(device, next->start, profile->context->stream));
    next->start_ns = bt_clock_ns();
    profile->open[profile->depth] = profile->used++;
    return BT_OK;
}

static void on_push(void *self, const char *name)
{
    bt_profile *profile = self;
    if (profile->status == BT_OK && profile->depth < DEPTH) {
        profile->status = open_interval(profile, name);
    }
    ++profile->depth;
}

static void on_pop(void *self)
{
    bt_profile *profile = self;
    --profile->depth;
    if (profile->status == BT_OK && profile->depth >= 0 && profile->depth < DEPTH) {
        interval *closing = &profile->intervals[profile->open[profile->depth]];
        closing->stop_ns = bt_clock_ns();
        profile->status = profile->context->device->backend->event_record(
            profile->context->device, closing->stop, profile->context->stream);
    }
}

void bt_profile_start(bt_profile *profile)
{
    profile->used = 0;
    profile->row_count = 0;
    profile->depth = 0;
    profile->status = BT_OK;
    profile->context->range_hook = (bt_range_hook){profile, on_push, on_pop};
}

static bt_status sum_intervals(bt_profile *profile)
{
    bt_device *device = profile->context->device;
    for (int64_t i = 0; i < profile->used; ++i) {
        const interval *taken = &profile->intervals[i];
        path_row *row = &profile->rows[taken->row];
        int64_t time_ns = 0;
        BT_TRY(device->backend->event_elapsed(device, taken->start, taken->stop, &time_ns));
        row->device_ns += time_ns;
        row->host_ns += taken->stop_ns - taken->start_ns;
        ++row->count;
    }
    return BT_OK;
}

bt_status bt_profile_stop(bt_profile *profile, int64_t step, const bt_train_observer *observer)
{
    profile->context->range_hook = (bt_range_hook){0};
    BT_TRY(bt_error_context(profile->status, "timing ranges"));
    BT_TRY(bt_context_synchronize(profile->context));
    BT_TRY(sum_intervals(profile));
    for (int64_t i = 0; i < profile->row_count && observer->range; ++i) {
        const path_row *row = &profile->rows[i];
        bt_train_range event = {.step = step,
                                .path = row->path,
                                .count = row->count,
                                .device_ns = row->device_ns,
                                .host_ns = row->host_ns};
        BT_TRY(observer->range(observer->self, &event));
    }
    return BT_OK;
}
