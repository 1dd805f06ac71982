// framework/train/profile.c - events around ranges, summed by path
//
// A hook cannot return an error; the first failure is stored and reported by bt_profile_stop.
#include "framework/train/profile.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "framework/base/timeline.h"

enum { PATH_BYTES = 192, DEPTH = 16 };

typedef struct path_row {
    char path[PATH_BYTES];
    int64_t count, device_ns, host_ns;
} path_row;

typedef struct interval {
    int64_t row, parent;   // parent: its index in `intervals`; -1: outermost
    bt_timeline_work work; // by the kernels launched in it
    bool is_leaf;
    bt_event start, stop; // owned, reused from step to step
    int64_t start_ns, stop_ns;
} interval;

struct bt_profile {
    bt_context *context; // borrowed
    interval *intervals; // owned; `used` of the `made` events, array of `capacity`
    int64_t used, made, capacity;
    path_row *rows; // owned
    int64_t row_count, row_capacity;
    int64_t open[DEPTH];  // intervals not yet closed
    int depth;            // may exceed DEPTH: deeper ranges are not timed
    bt_kernel_hook outer; // the previous listener
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
    next->work = BT_TIMELINE_GAP;
    next->is_leaf = true;
    next->parent = profile->depth ? profile->open[profile->depth - 1] : -1;
    if (next->parent >= 0) {
        profile->intervals[next->parent].is_leaf = false;
    }
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

// Kinds of work have ascending priority: a product followed by sums counts as a product.
static void on_launched(void *self, const bt_kernel *kernel, const bt_kernel_plan *plan,
                        const void *args)
{
    static const struct {
        bt_kernel_op op;
        bt_timeline_work work;
    } rows[] = {{BT_KERNEL_GEMM, BT_TIMELINE_PRODUCTS},
                {BT_KERNEL_GEMM_GROUPED, BT_TIMELINE_PRODUCTS},
                {BT_KERNEL_GEMM_PIECES, BT_TIMELINE_PRODUCTS},
                {BT_KERNEL_LINEAR_EXPS, BT_TIMELINE_PRODUCTS},
                {BT_KERNEL_ATTENTION, BT_TIMELINE_ATTENTION},
                {BT_KERNEL_ATTENTION_BACKWARD, BT_TIMELINE_ATTENTION}};
    bt_profile *profile = self;
    bt_timeline_work work = BT_TIMELINE_OTHER;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        work = rows[i].op == kernel->op ? rows[i].work : work;
    }
    if (profile->depth > 0 && profile->status == BT_OK) {
        const int innermost = profile->depth < DEPTH ? profile->depth : DEPTH;
        interval *open = &profile->intervals[profile->open[innermost - 1]];
        open->work = work > open->work ? work : open->work;
    }
    if (profile->outer.launched) {
        profile->outer.launched(profile->outer.self, kernel, plan, args);
    }
}

void bt_profile_start(bt_profile *profile)
{
    profile->used = 0;
    profile->row_count = 0;
    profile->depth = 0;
    profile->status = BT_OK;
    profile->outer = profile->context->kernel_hook;
    profile->context->range_hook = (bt_range_hook){profile, on_push, on_pop};
    profile->context->kernel_hook = (bt_kernel_hook){profile, on_launched};
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
    profile->context->kernel_hook = profile->outer;
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

// ---- the timeline of a step ---------------------------------------------------------------------

static const char *name_of(const bt_profile *profile, const interval *taken)
{
    const char *path = profile->rows[taken->row].path, *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bt_timeline_phase phase_of(const bt_profile *profile, const interval *taken)
{
    static const char *const names[] = {
#define NAME(enumerator, letter, name) name,
        BT_TIMELINE_PHASE_LIST(NAME)
#undef NAME
    };
    int found = BT_TIMELINE_PHASE_NONE;
    for (int i = 1; i < BT_TIMELINE_PHASE_COUNT && taken->parent == 0; ++i) {
        found = strcmp(name_of(profile, taken), names[i]) == 0 ? i : found;
    }
    return (bt_timeline_phase)found;
}

// Everything inside an exchange belongs to it. A range without inner ranges and kernels copies, or
// runs generated code.
static bt_timeline_work work_of(const bt_profile *profile, const interval *taken,
                                const bt_timeline_interval *intervals)
{
    const bool inside =
        taken->parent >= 0 && intervals[taken->parent].work == BT_TIMELINE_COMMUNICATION;
    if (inside || strcmp(name_of(profile, taken), "communication") == 0) {
        return BT_TIMELINE_COMMUNICATION;
    }
    return taken->is_leaf && taken->work == BT_TIMELINE_GAP ? BT_TIMELINE_OTHER : taken->work;
}

static bt_status fill_intervals(const bt_profile *profile, bt_timeline_interval *out)
{
    bt_device *device = profile->context->device;
    for (int64_t i = 0; i < profile->used; ++i) {
        const interval *taken = &profile->intervals[i];
        bt_timeline_interval *row = &out[i];
        BT_TRY(device->backend->event_elapsed(device, profile->intervals[0].start, taken->start,
                                              &row->start_ns));
        BT_TRY(device->backend->event_elapsed(device, profile->intervals[0].start, taken->stop,
                                              &row->stop_ns));
        row->parent = taken->parent < 0 && i > 0 ? 0 : taken->parent; // an exchange after the step
        row->work = work_of(profile, taken, out);
        row->phase = phase_of(profile, taken);
        out[0].stop_ns = row->stop_ns > out[0].stop_ns ? row->stop_ns : out[0].stop_ns;
    }
    return BT_OK;
}

bt_status bt_profile_timeline(const bt_profile *profile, int64_t step,
                              const bt_train_observer *observer)
{
    bt_timeline_interval *intervals = NULL;
    bt_timeline line;
    if (!observer->timeline || profile->used == 0) {
        return BT_OK;
    }
    BT_TRY(BT_MEM_ARRAY(profile->used, &intervals));
    bt_status status = fill_intervals(profile, intervals);
    BT_IF_OK(status, bt_timeline_make(intervals, profile->used, &line));
    bt_mem_free(intervals);
    if (status == BT_OK) {
        const bt_train_timeline event = {
            .step = step, .start_ns = profile->intervals[0].start_ns, .line = &line};
        status = observer->timeline(observer->self, &event);
    }
    return status;
}

bt_status bt_profile_inside(const bt_profile *profile, const char *name, int64_t *times_ns,
                            int64_t capacity, int64_t *count)
{
    bt_device *device = profile->context->device;
    int64_t outer = -1;
    *count = 0;
    for (int64_t i = 0; i < profile->used; ++i) {
        outer = strcmp(name_of(profile, &profile->intervals[i]), name) == 0 ? i : outer;
    }
    for (int64_t i = outer + 1; i < profile->used && outer >= 0; ++i) {
        const interval *taken = &profile->intervals[i];
        if (taken->parent == outer && (*count)++ < capacity) {
            BT_TRY(device->backend->event_elapsed(device, taken->start, taken->stop,
                                                  &times_ns[*count - 1]));
        }
    }
    return BT_OK;
}
