// framework/base/ranges.c - a stack behind a version number (a sequence lock with one writer)
#include "framework/base/ranges.h"

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

void bt_ranges_push(bt_ranges *ranges, const char *name)
{
    if (!ranges) {
        return;
    }
    const int depth = atomic_load_explicit(&ranges->depth, memory_order_relaxed);
    begin(ranges);
    if (depth < BT_RANGES_DEPTH) {
        atomic_store_explicit(&ranges->name[depth], name, memory_order_relaxed);
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
    atomic_store_explicit(&ranges->note, note, memory_order_relaxed);
    end(ranges);
}

uint64_t bt_ranges_moves(const bt_ranges *ranges)
{
    return atomic_load_explicit(&ranges->moves, memory_order_acquire);
}

static void write_text(const bt_ranges *ranges, char text[BT_RANGES_TEXT_BYTES])
{
    size_t length = 0;
    const int depth = atomic_load_explicit(&ranges->depth, memory_order_relaxed);
    const char *note = atomic_load_explicit(&ranges->note, memory_order_relaxed);
    text[0] = '\0';
    for (int i = 0; i < depth && i < BT_RANGES_DEPTH && length < BT_RANGES_TEXT_BYTES; ++i) {
        const char *name = atomic_load_explicit(&ranges->name[i], memory_order_relaxed);
        int part = snprintf(text + length, BT_RANGES_TEXT_BYTES - length, "%s%s", i ? "/" : "",
                            name ? name : "?");
        length += part > 0 ? (size_t)part : 0;
    }
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
