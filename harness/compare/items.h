// harness/compare/items.h - the growing list of what differs; for this folder and the gate
#ifndef BT_HARNESS_COMPARE_ITEMS_H
#define BT_HARNESS_COMPARE_ITEMS_H

#include "harness/compare/compare.h"

typedef struct item_list {
    bt_arena *arena; // borrowed; holds items and their texts
    bt_compare_item *items;
    int64_t count, capacity;
} item_list;

// All texts are copied.
BT_CHECKED bt_status bt_items_add(item_list *list, const char *group, const char *key,
                                  const char *left, const char *right, bt_fact_level level);
// What differs between two JSON texts, an item of group "plan" per leaf, under their dotted paths
// ("train.steps", "shards[2]"). Text that is no JSON is compared as a whole.
BT_CHECKED bt_status bt_items_add_plans(item_list *list, const char *left, const char *right);
// What differs between two lists of facts, an item of group "environment" each, in the order of
// their keys. What is known of the build is compared as such, not here; `here`: nor the data.
BT_CHECKED bt_status bt_items_add_facts(item_list *list, const bt_store_env *left,
                                        const bt_store_env *right, bool here, bool *hard_differs);

#endif
