// harness/launch/cause.h - root cause of a failure: which rank failed first, and why
//
// When one rank fails, the others fail as a consequence, with errors that name it. The cause is the
// rank that was killed, else the one whose error does not name another rank.
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
    int rank;         // the rank that failed first; -1: unknown
    bt_status status; // of the run, if it ends here
    char message[1200];
} bt_cause;

// Sets all members; the message is formatted.
void bt_cause_set(bt_cause *cause, bt_cause_kind kind, int rank, bt_status status,
                  const char *format, ...) BT_PRINTF(5, 6);
// Whether the cause is already known: a rank was killed, or failed with an error of its own rather
// than one that names another rank.
// Shapes  ranks [size]
bool bt_cause_is_known(const bt_rank *ranks, int size);
// Finds the cause from exit states, error events and flight recorders. `hang_s`: time without
// progress of any rank; 0: a rank has exited.
void bt_cause_find(const bt_rank *ranks, int size, double hang_s, bt_cause *out);

#endif
