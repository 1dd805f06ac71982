// framework/dist/split.c - bt_group_split on the CPU
//
// Two ranks share one channel in all of their groups; a message's signature contains the part that
// calls. So a part needs no memory or connection of its own, and a rank's failure fails the whole
// group.
#include "framework/base/mem.h"
#include "framework/dist/cpu_group.h"

typedef struct choice {
    int32_t colour, key;
} choice;

static const bt_group_backend part_backend = {.name = "part", BT_CPU_COLLECTIVES};

static bool is_before(const choice *all, int a, int b)
{
    const int32_t left = all[a].key, right = all[b].key;
    return left < right || (left == right && a < b);
}

// The ranks of one colour in the order of their keys. Shapes  members [count of the colour]
static int list_members(const choice *all, int size, int32_t colour, int *members)
{
    int count = 0;
    for (int rank = 0; rank < size; ++rank) {
        if (all[rank].colour != colour) {
            continue;
        }
        int at = count++;
        for (; at > 0 && is_before(all, rank, members[at - 1]); --at) {
            members[at] = members[at - 1];
        }
        members[at] = rank;
    }
    return count;
}

static int place_of(const int *members, int rank)
{
    int place = 0;
    while (members[place] != rank) {
        ++place;
    }
    return place;
}

static bt_status make_part(bt_cpu_group *group, const choice *all, bt_group **out)
{
    const int rank = group->group.rank, size = group->group.size;
    const int32_t colour = all[rank].colour;
    bt_cpu_group *whole = group->whole != NULL ? group->whole : group;
    bt_cpu_group *part = NULL;
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)size, sizeof(int), &block));
    int *members = block;
    const int count = list_members(all, size, colour, members);
    const int own = place_of(members, rank);
    bt_status status = bt_cpu_group_create(&part_backend, own, count, group->timeout_ns, &part);
    if (status != BT_OK) {
        bt_mem_free(members);
        return status;
    }
    for (int i = 0; i < count && group->whole != NULL; ++i) {
        members[i] = group->members[members[i]];
    }
    part->group.device = group->group.device;
    part->whole = whole;
    part->members = members;
    *out = &part->group;
    return BT_OK;
}

bt_status bt_cpu_split(bt_group *base, int colour, int key, bt_group **out)
{
    bt_cpu_group *group = base->impl;
    const choice mine = {.colour = colour, .key = key};
    void *all = NULL;
    BT_TRY(bt_mem_alloc((size_t)base->size, sizeof mine, &all));
    bt_status status = bt_cpu_all_gather(base, &mine, all, sizeof mine, NULL);
    if (status == BT_OK && colour >= 0) {
        status = make_part(group, all, out);
    }
    bt_mem_free(all);
    return status;
}
