// harness/launch/gang_rank.c - where a rank runs, and its start: of a set, and of its spares
#include "harness/launch/gang.h"
#include "harness/launch/places.h"

// The n-th slot that is not quarantined.
int bt_gang_slot_of(const bt_gang *gang, int rank)
{
    int left = rank;
    for (int slot = 0; slot < gang->launch->size; ++slot) {
        if (!gang->quarantined[slot] && left-- == 0) {
            return slot;
        }
    }
    return rank;
}

bt_status bt_gang_start_rank(const bt_gang *gang, const bt_rank_start *start, bt_rank *rank)
{
    const bt_launch *launch = gang->launch;
    cpu_set_t processors;
    bt_rank_start how = *start;
    how.program = launch->program;
    if (bt_places_of(start->slot, launch->size, launch->devices != NULL, &processors)) {
        how.processors = &processors;
    }
    return bt_rank_begin(&how, rank);
}
