// harness/compare/items.h - the growing list of differences; for this folder and the gate
#ifndef BT_HARNESS_COMPARE_ITEMS_H
#define BT_HARNESS_COMPARE_ITEMS_H

#include "harness/compare/compare.h"

typedef struct item_list {
    bt_arena *arena; // borrowed; owns items and their texts
    bt_compare_item *items;
    int64_t count, capacity;
} item_list;

// All texts are copied.
BT_CHECKED bt_status bt_items_add(item_list *list, const char *group, const char *key,
                                  const char *left, const char *right, bt_fact_level level);
// The differences between two JSON texts: one item of group "plan" per leaf, with its dotted path
// ("train.steps", "shards[2]"). Text that is not JSON is compared as a whole.
BT_CHECKED bt_status bt_items_add_plans(item_list *list, const char *left, const char *right);
// The differences between two lists of facts: one item of group "environment" each, sorted by key.
// Facts of the build are compared separately; with `here`, data are omitted.
BT_CHECKED bt_status bt_items_add_facts(item_list *list, const bt_store_env *left,
                                        const bt_store_env *right, bool here, bool *hard_differs);

#endif
