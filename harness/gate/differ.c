// harness/gate/differ.c - the differences between two environments, as text
#include "harness/gate/differ.h"

#include <inttypes.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/compare/compare.h"
#include "harness/env/facts.h"
#include "harness/plan/plan.h"

enum {
    VALUE_BYTES = 60,
    BEFORE_BYTES = 12
}; // characters of a value that are shown; of the equal
   // part

typedef struct differences {
    const bt_compare_item *items; // [count], by key
    int64_t count;
    bt_fact_level level; // requested level
    const char *name;
    char data_key[BT_PLAN_DATA_KEY_BYTES]; // of the case
    bool whole;
} differences;

// Start of the excerpts of two long values, such that the difference is visible; 0 for short ones.
static size_t start_of(const char *left, const char *right)
{
    size_t equal = 0;
    while (left[equal] && left[equal] == right[equal]) {
        ++equal;
    }
    return equal > VALUE_BYTES / 2 ? equal - BEFORE_BYTES : 0;
}

void bt_gate_append_difference(const char *key, const char *base, const char *now, bt_str *out)
{
    const char *left = base && *base ? base : "none", *right = now && *now ? now : "none";
    if (strcmp(left, right) != 0) {
        size_t start = start_of(left, right);
        const char *gap = start > 0 ? "..." : "";
        bt_str_format(out, "%s%s %s%.*s -> %s%.*s", out->length_bytes ? "; " : "", key, gap,
                      VALUE_BYTES, left + start, gap, VALUE_BYTES, right + start);
    }
}

static bool differs(const differences *all, const char *key)
{
    return BT_FIND(all->items, all->count, key, key) >= 0;
}

// If the processor or GPU is another one, only its name is shown.
static bool follows(const differences *all, const char *key)
{
    static const char *const names[] = {"cpu.model", "gpu.name"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        size_t part = (size_t)(strchr(names[i], '.') - names[i]) + 1;
        if (strncmp(key, names[i], part) == 0 && strcmp(key, names[i]) != 0) {
            return differs(all, names[i]);
        }
    }
    return false;
}

static bool is_asked_for(const differences *all, const bt_compare_item *item)
{
    const bt_store_fact hard = {item->key, item->left, BT_FACT_HARD};
    // A committed baseline lacks the facts that identify its machine.
    const bool kept_back = !*item->left && bt_fact_is_private(item->key);
    return item->level == all->level && !kept_back &&
           (all->level != BT_FACT_HARD || bt_plan_fact_concerns(&hard, all->name, all->data_key)) &&
           (all->whole || !follows(all, item->key));
}

// Appends the facts that both sides know, or those that one side knows; at most *room facts, the
// others are counted in *untold.
static void append_known(const differences *all, bool by_both, int64_t *room, int64_t *untold,
                         bt_str *out)
{
    BT_EACH(const bt_compare_item, item, all->items, all->count) {
        if (!is_asked_for(all, item) || (*item->left && *item->right) != by_both) {
            continue;
        }
        if (*room > 0) {
            --*room;
            bt_gate_append_difference(item->key, item->left, item->right, out);
        } else {
            ++*untold;
        }
    }
}

bt_status bt_gate_append_facts(const bt_store_env *base, const bt_store_env *env,
                               bt_fact_level level, const bt_gate_side *side, bool whole,
                               bt_str *out)
{
    differences all = {.level = level, .name = side ? side->name : "", .whole = whole};
    int64_t most = level == BT_FACT_HARD ? BT_GATE_HARD_MAX : BT_GATE_SOFT_MAX;
    int64_t room = whole ? INT64_MAX : most, untold = 0;
    bool hard_differs = false;
    BT_SCOPED(bt_arena) arena = {0};
    BT_TRY(bt_plan_data_key_of(side ? side->axes_json : "", all.data_key));
    BT_TRY(
        bt_compare_environments(base, env, false, &arena, &all.items, &all.count, &hard_differs));
    append_known(&all, true, &room, &untold, out);
    append_known(&all, false, &room, &untold, out);
    if (untold > 0) {
        bt_str_format(out, "; and %" PRId64 " more %s fact%s", untold, bt_fact_level_name(level),
                      untold == 1 ? "" : "s");
    }
    return bt_str_status(out);
}
