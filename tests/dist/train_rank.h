// tests/dist/train_rank.h - trains by a plan as one rank of a group
#ifndef BT_TESTS_DIST_TRAIN_RANK_H
#define BT_TESTS_DIST_TRAIN_RANK_H

#include "tests/dist/ranks.h"

// A rank_body; argument: a const bt_train_plan *. result->digest: of the state after the last
// step.
bt_status train_rank(bt_group *group, void *argument, rank_result *result);

#endif
