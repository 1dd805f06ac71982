// framework/dist/flight_compare.c - which rank left the common order of collectives, and where
#include <string.h>

#include "framework/base/clock.h"
#include "framework/dist/flight.h"

static bool same(const bt_flight_call *a, const bt_flight_call *b, bool sites)
{
    return strcmp(a->op, b->op) == 0 && a->dtype == b->dtype && a->size_bytes == b->size_bytes &&
           (!sites || strcmp(a->site, b->site) == 0);
}

static uint64_t calls_of(const bt_flight *flight)
{
    return flight->board ? atomic_load(&flight->board->calls) : 0;
}

// UINT64_MAX: the rank is not in the part.
static uint64_t calls_of_part(const bt_flight *flight, uint64_t id)
{
    for (int i = 0; i < BT_FLIGHT_PARTS && flight->board; ++i) {
        if (atomic_load(&flight->board->parts[i].id) == id) {
            return atomic_load(&flight->board->parts[i].calls);
        }
    }
    return UINT64_MAX;
}

// How many ranks called the same as `rank`; 0: its call is not known.
static int count_same(const bt_flight *flights, int size, int rank, uint64_t sequence, bool sites)
{
    bt_flight_call mine, other;
    if (!flights[rank].board || !bt_flight_read(&flights[rank], sequence, &mine)) {
        return 0;
    }
    int count = 0;
    for (int i = 0; i < size; ++i) {
        count += flights[i].board && bt_flight_read(&flights[i], sequence, &other) &&
                 same(&mine, &other, sites);
    }
    return count;
}

// The rank whose call has the fewest equals, and one whose call has the most; false: all are equal.
static bool find_odd(const bt_flight *flights, int size, uint64_t sequence, bool sites, int *odd,
                     int *usual)
{
    int fewest = size + 1, most = 0;
    for (int rank = 0; rank < size; ++rank) {
        const int count = count_same(flights, size, rank, sequence, sites);
        if (count > most) {
            most = count;
            *usual = rank;
        }
        if (count > 0 && count <= fewest) { // of equals the highest rank
            fewest = count;
            *odd = rank;
        }
    }
    if (most > 0 && fewest == most && *odd != *usual) { // a tie, or all are equal
        bt_flight_call a, b;
        return bt_flight_read(&flights[*odd], sequence, &a) &&
               bt_flight_read(&flights[*usual], sequence, &b) && !same(&a, &b, sites);
    }
    return most > 0 && fewest < most;
}

static void say_divergent(const bt_flight *flights, uint64_t sequence, int odd, int usual,
                          bt_str *out)
{
    bt_flight_call a, b;
    if (bt_flight_read(&flights[odd], sequence, &a) &&
        bt_flight_read(&flights[usual], sequence, &b)) {
        bt_str_format(out, "rank %d left the common order of collectives: it called ", odd);
        bt_flight_describe(&a, out);
        bt_str_format(out, "; rank %d called ", usual);
        bt_flight_describe(&b, out);
    }
}

// A rank that is waited for: some rank is in a call that this one has not entered.
static int find_missing(const bt_flight *flights, int size, int *waiting)
{
    uint64_t most = 0, fewest = UINT64_MAX;
    int missing = -1;
    for (int rank = 0; rank < size; ++rank) {
        const uint64_t calls = calls_of(&flights[rank]);
        if (calls > most) {
            most = calls;
            *waiting = rank;
        }
        if (calls < fewest && !bt_flight_in_message(&flights[rank])) {
            fewest = calls;
            missing = rank;
        }
    }
    bt_flight_call call;
    return fewest < most && bt_flight_read(&flights[*waiting], most, &call) &&
                   atomic_load(&call.state) != BT_FLIGHT_DONE
               ? missing
               : -1;
}

// The rank that is farthest behind in a part in which `rank` is in a call; -1: none is. *at: the
// part's place in the recorder of `rank`.
static int find_missing_of_part(const bt_flight *flights, int size, int rank, int *at)
{
    bt_flight_call call;
    int missing = -1;
    for (int part = 1; part <= BT_FLIGHT_PARTS && flights[rank].board; ++part) {
        const uint64_t id = atomic_load(&flights[rank].board->parts[part - 1].id);
        if (id == 0 || !bt_flight_read_part(&flights[rank], part, &call) ||
            atomic_load(&call.state) == BT_FLIGHT_DONE) {
            continue;
        }
        uint64_t fewest = atomic_load(&call.sequence);
        for (int other = 0; other < size; ++other) {
            const uint64_t calls = calls_of_part(&flights[other], id);
            if (calls < fewest && !bt_flight_in_message(&flights[other])) {
                fewest = calls;
                missing = other;
                *at = part;
            }
        }
    }
    return missing;
}

// The rank that all others wait for, over the parts in which they do. *missing: on entry a rank
// that is missing in the whole, or -1; *waiting: who waits for it. Returns the part's place in the
// recorder of *waiting; 0: the whole.
static int follow_parts(const bt_flight *flights, int size, int *missing, int *waiting)
{
    int part = 0, at = 0;
    for (int rank = 0; rank < size && *missing < 0; ++rank) {
        *missing = find_missing_of_part(flights, size, rank, &at) >= 0 ? rank : -1;
    }
    for (int i = 0; i < size && *missing >= 0; ++i) {
        const int next = find_missing_of_part(flights, size, *missing, &at);
        if (next < 0) {
            break;
        }
        *waiting = *missing;
        *missing = next;
        part = at;
    }
    return part;
}

// `part`: its place in the recorder of `waiting`; 0: the whole.
static void say_missing(const bt_flight *flights, int missing, int waiting, int part, bt_str *out)
{
    bt_flight_call call;
    const uint64_t sequence = calls_of(&flights[missing]) + 1;
    bt_str_format(out, "rank %d did not enter ", missing);
    if (part > 0 ? bt_flight_read_part(&flights[waiting], part, &call)
                 : bt_flight_read(&flights[waiting], sequence, &call)) {
        bt_flight_describe(&call, out);
        bt_str_append(out, part > 0 ? " of a part" : "");
        bt_str_format(out, ", in which rank %d waits since %.3g s", waiting,
                      (double)(bt_clock_ns() - call.entered_ns) / 1e9);
    } else {
        bt_str_format(out, "call %llu", (unsigned long long)sequence);
    }
    if (!flights[missing].board) {
        return;
    }
    char path[BT_FLIGHT_PATH_BYTES] = "";
    bt_flight_path(&flights[missing], path);
    bt_str_format(out, *path ? "; it is in %s" : "%s", path);
}

// Appends the first call that is not the same everywhere; returns the rank that is alone with it.
static int compare_calls(const bt_flight *flights, int size, bool sites, bt_str *out)
{
    uint64_t most = 0;
    for (int i = 0; i < size; ++i) {
        const uint64_t calls = calls_of(&flights[i]);
        most = calls > most ? calls : most;
    }
    const uint64_t first = most > BT_FLIGHT_CALLS ? most - BT_FLIGHT_CALLS + 1 : 1;
    for (uint64_t sequence = first; sequence <= most; ++sequence) {
        int odd = 0, usual = 0;
        if (find_odd(flights, size, sequence, sites, &odd, &usual)) {
            say_divergent(flights, sequence, odd, usual, out);
            return odd;
        }
    }
    return -1;
}

void bt_flight_compare(const bt_flight *flights, int size, int *rank, bt_str *out)
{
    int waiting = 0;
    *rank = compare_calls(flights, size, false, out);
    if (*rank >= 0) {
        return;
    }
    *rank = find_missing(flights, size, &waiting);
    const int part = follow_parts(flights, size, rank, &waiting);
    if (*rank >= 0) {
        say_missing(flights, *rank, waiting, part, out);
        return;
    }
    *rank = compare_calls(flights, size, true, out);
}
