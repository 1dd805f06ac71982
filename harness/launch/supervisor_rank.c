// harness/launch/supervisor_rank.c - device and processors of a rank, starting and ending ranks and
// spares
#include "harness/launch/affinity.h"
#include "harness/launch/supervisor.h"

// The n-th slot that is not quarantined.
int bt_supervisor_slot_of(const bt_supervisor *supervisor, int rank)
{
    int left = rank;
    for (int slot = 0; slot < supervisor->launch->size; ++slot) {
        if (!supervisor->quarantined[slot] && left-- == 0) {
            return slot;
        }
    }
    return rank;
}

bt_status bt_supervisor_start_rank(const bt_supervisor *supervisor, const bt_rank_start *start,
                                   bt_rank *rank)
{
    const bt_launch *launch = supervisor->launch;
    cpu_set_t processors;
    bt_rank_start how = *start;
    how.program = launch->program;
    if (bt_affinity_of(start->slot, launch->size, launch->devices != NULL, &processors)) {
        how.processors = &processors;
    }
    return bt_rank_begin(&how, rank);
}

void bt_supervisor_drop(bt_rank *ranks, int *count, int *group_fd)
{
    for (int i = 0; i < *count; ++i) {
        bt_rank_kill(&ranks[i]); // all at once, then one by one
    }
    for (int i = 0; i < *count; ++i) {
        bt_rank_release(&ranks[i]);
    }
    *count = 0;
    bt_child_close(group_fd);
}
