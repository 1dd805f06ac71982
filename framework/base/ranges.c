// framework/base/ranges.c - a stack protected by a version number (a sequence lock with one writer)
#include "framework/base/ranges.h"

#include <sched.h>
#include <stdio.h>

enum { TRIES = 1000 };

static void begin(bt_ranges *ranges)
{
    const unsigned long long moves = atomic_load_explicit(&ranges->moves, memory_order_relaxed);
    atomic_store_explicit(&ranges->moves, moves + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

static void end(bt_ranges *ranges)
{
    const unsigned long long moves = atomic_load_explicit(&ranges->moves, memory_order_relaxed);
    atomic_store_explicit(&ranges->moves, moves + 1, memory_order_release);
}

// The number of earlier ranges of that name in the enclosing range; counts one more.
static int count_name(bt_ranges *ranges, int depth, const char *name)
{
    for (int i = 0; i < ranges->seen_count[depth]; ++i) {
        if (ranges->seen[depth][i].name == name) {
            return ranges->seen[depth][i].count++;
        }
    }
    if (ranges->seen_count[depth] < BT_RANGES_NAMES) {
        const int fresh = ranges->seen_count[depth]++;
        ranges->seen[depth][fresh].name = name;
        ranges->seen[depth][fresh].count = 1;
    }
    return 0;
}

static void set_name(bt_range_name *at, const char *name, int nth)
{
    atomic_store_explicit(&at->name, name, memory_order_relaxed);
    atomic_store_explicit(&at->nth, nth, memory_order_relaxed);
}

void bt_ranges_push(bt_ranges *ranges, const char *name)
{
    if (!ranges) {
        return;
    }
    const int depth = atomic_load_explicit(&ranges->depth, memory_order_relaxed);
    begin(ranges);
    if (depth < BT_RANGES_DEPTH) {
        set_name(&ranges->open[depth], name, depth ? count_name(ranges, depth, name) : 0);
    }
    if (depth + 1 < BT_RANGES_DEPTH) {
        ranges->seen_count[depth + 1] = 0;
    }
    atomic_store_explicit(&ranges->depth, depth + 1, memory_order_relaxed);
    end(ranges);
}

void bt_ranges_pop(bt_ranges *ranges)
{
    if (!ranges) {
        return;
    }
    const int depth = atomic_load_explicit(&ranges->depth, memory_order_relaxed);
    begin(ranges);
    atomic_store_explicit(&ranges->depth, depth > 0 ? depth - 1 : 0, memory_order_relaxed);
    end(ranges);
}

void bt_ranges_note(bt_ranges *ranges, const char *note)
{
    if (!ranges) {
        return;
    }
    begin(ranges);
    ranges->kernels += note != NULL;
    atomic_store_explicit(&ranges->note, note, memory_order_relaxed);
    end(ranges);
}

uint64_t bt_ranges_moves(const bt_ranges *ranges)
{
    return atomic_load_explicit(&ranges->moves, memory_order_acquire);
}

static size_t write_path(const bt_range_name *names, int depth, char text[BT_RANGES_TEXT_BYTES])
{
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < depth && length < BT_RANGES_TEXT_BYTES; ++i) {
        const char *name = atomic_load_explicit(&names[i].name, memory_order_relaxed);
        const int nth = atomic_load_explicit(&names[i].nth, memory_order_relaxed);
        char number[16] = "";
        if (nth) {
            (void)snprintf(number, sizeof number, "[%d]", nth);
        }
        const int part = snprintf(text + length, BT_RANGES_TEXT_BYTES - length, "%s%s%s",
                                  i ? "/" : "", name ? name : "?", number);
        length += part > 0 ? (size_t)part : 0;
    }
    return length;
}

static void write_text(const bt_ranges *ranges, char text[BT_RANGES_TEXT_BYTES])
{
    const int depth = atomic_load_explicit(&ranges->depth, memory_order_relaxed);
    const char *note = atomic_load_explicit(&ranges->note, memory_order_relaxed);
    const size_t length =
        write_path(ranges->open, depth < BT_RANGES_DEPTH ? depth : BT_RANGES_DEPTH, text);
    if (note && length < BT_RANGES_TEXT_BYTES) {
        (void)snprintf(text + length, BT_RANGES_TEXT_BYTES - length, "%s(%s)", length ? " " : "",
                       note);
    }
}

const char *bt_ranges_text(const bt_ranges *ranges, char text[BT_RANGES_TEXT_BYTES])
{
    for (int i = 0; i < TRIES; ++i) {
        const uint64_t before = bt_ranges_moves(ranges);
        write_text(ranges, text);
        atomic_thread_fence(memory_order_acquire);
        if (before % 2 == 0 &&
            atomic_load_explicit(&ranges->moves, memory_order_relaxed) == before) {
            break;
        }
    }
    return text;
}

// ---- marks --------------------------------------------------------------------------------------

void bt_ranges_marks_keep(bt_ranges *ranges, unsigned char done[BT_RANGES_MARKS])
{
    atomic_store(&ranges->mark_count, 0);
    ranges->mark_kernels = BT_RANGES_MARK_KERNELS;
    atomic_store(&ranges->done, done);
    while (!done && atomic_load(&ranges->readers)) {
        (void)sched_yield();
    }
}

unsigned char *bt_ranges_marks_clear(bt_ranges *ranges)
{
    unsigned char *done = ranges ? atomic_load(&ranges->done) : NULL;
    if (!done || atomic_load_explicit(&ranges->depth, memory_order_relaxed) != 0) {
        return NULL;
    }
    if (atomic_load(&ranges->mark_count) == BT_RANGES_MARKS) {
        ranges->mark_kernels *= 2; // the last range was too long for marks at that distance
    }
    ranges->kernels = 0;
    atomic_store(&ranges->mark_count, 0);
    return done;
}

unsigned char *bt_ranges_mark(bt_ranges *ranges)
{
    unsigned char *done = ranges ? atomic_load(&ranges->done) : NULL;
    const int number = done ? atomic_load(&ranges->mark_count) : BT_RANGES_MARKS;
    if (number == BT_RANGES_MARKS || ranges->kernels < ranges->mark_kernels) {
        return NULL;
    }
    const int depth = atomic_load_explicit(&ranges->depth, memory_order_relaxed);
    begin(ranges);
    for (int i = 0; i < BT_RANGES_MARK_DEPTH; ++i) {
        const bt_range_name *from = &ranges->open[i];
        set_name(&ranges->mark[number][i],
                 i < depth ? atomic_load_explicit(&from->name, memory_order_relaxed) : NULL,
                 atomic_load_explicit(&from->nth, memory_order_relaxed));
    }
    atomic_store(&ranges->mark_count, number + 1);
    ranges->kernels = 0;
    end(ranges);
    return done + number;
}

static const char *mark_text(const bt_ranges *ranges, int number, char text[BT_RANGES_TEXT_BYTES])
{
    int depth = 0;
    while (depth < BT_RANGES_MARK_DEPTH && atomic_load(&ranges->mark[number][depth].name)) {
        ++depth;
    }
    (void)write_path(ranges->mark[number], depth, text);
    return text;
}

const char *bt_ranges_device_text(bt_ranges *ranges, char text[BT_RANGES_DEVICE_TEXT_BYTES])
{
    char last[BT_RANGES_TEXT_BYTES], next[BT_RANGES_TEXT_BYTES];
    int reached = 0;
    text[0] = '\0';
    atomic_fetch_add(&ranges->readers, 1);
    const volatile unsigned char *done = atomic_load(&ranges->done);
    const int count = done ? atomic_load(&ranges->mark_count) : 0;
    while (reached < count && done[reached]) {
        ++reached;
    }
    atomic_fetch_sub(&ranges->readers, 1);
    if (reached > 0 && reached < count) {
        (void)snprintf(text, BT_RANGES_DEVICE_TEXT_BYTES, "the device has completed %s, not %s",
                       mark_text(ranges, reached - 1, last), mark_text(ranges, reached, next));
    } else if (count > 0) {
        (void)snprintf(text, BT_RANGES_DEVICE_TEXT_BYTES,
                       reached ? "the device has completed everything up to %s"
                               : "the device has not completed %s",
                       mark_text(ranges, reached ? reached - 1 : 0, last));
    }
    return text;
}
