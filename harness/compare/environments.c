// harness/compare/environments.c - the differences between the facts of two environments
#include <stdlib.h>
#include <string.h>

#include "harness/compare/items.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"
#include "harness/text/wrap.h"

static bool is_left_out(const char *key, bool here)
{
    return strncmp(key, "build.", 6) == 0 || (here && strncmp(key, "data.", 5) == 0);
}

// Both lists are sorted by key and are merged.
bt_status bt_items_add_facts(item_list *list, const bt_store_env *a, const bt_store_env *b,
                             bool here, bool *hard_differs)
{
    static const bt_store_fact none = {"", "", BT_FACT_INFO};
    int64_t i = 0, j = 0;
    while (i < a->fact_count || j < b->fact_count) {
        const bt_store_fact *left = i < a->fact_count ? &a->facts[i] : &none;
        const bt_store_fact *right = j < b->fact_count ? &b->facts[j] : &none;
        int order = left == &none ? 1 : right == &none ? -1 : strcmp(left->key, right->key);
        left = order > 0 ? &none : left;
        right = order < 0 ? &none : right;
        const bt_store_fact *either = order <= 0 ? left : right;
        if (!is_left_out(either->key, here) && strcmp(left->value, right->value) != 0) {
            *hard_differs = *hard_differs || either->level == BT_FACT_HARD;
            BT_TRY(bt_items_add(list, "environment", either->key, left->value, right->value,
                                either->level));
        }
        i += order <= 0;
        j += order >= 0;
    }
    return BT_OK;
}

static int by_level(const void *left, const void *right)
{
    const bt_compare_item *a = left, *b = right;
    return a->level != b->level ? (int)a->level - (int)b->level : strcmp(a->key, b->key);
}

bt_status bt_compare_environments(const bt_store_env *left, const bt_store_env *right, bool here,
                                  bt_arena *arena, const bt_compare_item **items, int64_t *count,
                                  bool *hard_differs)
{
    item_list list = {.arena = arena};
    *hard_differs = false;
    BT_TRY(bt_items_add_facts(&list, left, right, here, hard_differs));
    if (list.count > 0) {
        qsort(list.items, (size_t)list.count, sizeof *list.items, by_level);
    }
    *items = list.items;
    *count = list.count;
    return BT_OK;
}

static int64_t count_level(const bt_compare_item *items, int64_t count, bt_fact_level level)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        found += items[i].level == level;
    }
    return found;
}

bt_status bt_compare_environments_text(const bt_compare_item *items, int64_t count,
                                       bool hard_differs, const char *left, const char *right,
                                       int columns, bt_str *out)
{
    bt_table table = {0};
    size_t start = out->length_bytes;
    long long hard = count_level(items, count, BT_FACT_HARD);
    if (count == 0) {
        bt_str_format(out, "the environments of %s and %s are the same\n", left, right);
        return bt_str_status(out);
    }
    bt_table_heads(&table, "weight|fact|<%s|<%s", left, right);
    bt_table_fit(&table, columns, "");
    for (int64_t i = 0; i < count; i++) {
        bt_table_cells(&table, "%s|%s|%s|%s", bt_fact_level_name(items[i].level), items[i].key,
                       items[i].left[0] ? items[i].left : "-",
                       items[i].right[0] ? items[i].right : "-");
    }
    bt_status status = bt_table_print(&table, 0, out);
    if (hard_differs) {
        bt_str_format(out, "\n%lld hard fact%s: speeds are not comparable\n", hard,
                      hard == 1 ? " differs" : "s differ");
    } else {
        bt_str_append(out, "\nthe hard facts are the same: speeds are comparable\n");
    }
    bt_wrap_from(out, start, columns);
    BT_IF_OK(status, bt_text_end(out, start));
    return status;
}

bt_status bt_compare_environments_json(const bt_compare_item *items, int64_t count,
                                       bool hard_differs, const char *left, const char *right,
                                       bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 1};
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("left", left), BT_KV("right", right),
            BT_FLAG("hard_facts_differ", hard_differs));
    BT_JSON_LIST(&json, "differs", i, count) {
        BT_JSON_OBJECT(&json, NULL, BT_OF(&items[i], key),
                       BT_KV("level", bt_fact_level_name(items[i].level)), BT_OF(&items[i], left),
                       BT_OF(&items[i], right));
    }
    return bt_json_writer_end(&json, '}');
}
