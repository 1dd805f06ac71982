// harness/launch/cause.h - what went wrong in a set of ranks, and which rank began it
//
// When one rank fails, the others fail behind it, with messages that blame it. The cause is the
// rank that was killed, else the one whose error blames nobody else.
#ifndef BT_HARNESS_LAUNCH_CAUSE_H
#define BT_HARNESS_LAUNCH_CAUSE_H

#include "harness/launch/rank.h"

typedef enum bt_launch_action { BT_LAUNCH_RESTART, BT_LAUNCH_END } bt_launch_action;

typedef enum bt_cause_kind {
#define X(name, text, action, description) BT_CAUSE_##name,
#include "harness/launch/faults.inl"
#undef X
    BT_CAUSE_COUNT,
    BT_CAUSE_NONE = BT_CAUSE_COUNT
} bt_cause_kind;

typedef struct bt_cause_row {
    const char *name;
    bt_launch_action action;
    const char *description;
} bt_cause_row;

const bt_cause_row *bt_cause_row_of(bt_cause_kind kind);

typedef struct bt_cause {
    bt_cause_kind kind;
    int rank;         // who began it; -1: not known
    bt_status status; // for the run, if it ends here
    char message[1200];
} bt_cause;

// Whether the ends of these ranks tell the cause: some rank was killed, or failed by itself.
// Ranks whose errors only blame others do not.
// Shapes  ranks [size]
bool bt_cause_is_plain(const bt_rank *ranks, int size);
// What went wrong, from how ranks ended, what they said and their collectives. `hang_s`: nobody has
// moved for so long; 0: some rank has ended.
void bt_cause_find(const bt_rank *ranks, int size, double hang_s, bt_cause *out);

#endif
