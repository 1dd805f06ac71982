// harness/bundle/judge.c - every verdict again, by the function that made it
//
// A row of the table is a kind of verdicts. Its function judges the run anew from rounds, files and
// the rules that the recorded verdicts hold, and gives all verdicts that there must be. A kind
// without a row cannot be checked, and a bundle with one does not pass.
#include <string.h>

#include "harness/bundle/recompute.h"
#include "harness/gate/rule.h"

typedef struct verdict_list {
    const bt_store_verdict *items; // in the arena
    int64_t count;
} verdict_list;

typedef bt_status (*judge_again)(const bt_store_run *run, const verdict_list *recorded,
                                 bt_arena *arena, verdict_list *out);

// Verdicts of a gate and of 'ab' hold their rule each; the reason is for people and says besides
// what changed since a baseline that is not in the bundle.
static bt_status judge_gate(const bt_store_run *run, const verdict_list *recorded, bt_arena *arena,
                            verdict_list *out)
{
    bt_gate_sides sides;
    void *block = NULL;
    BT_TRY(bt_gate_sides_of_run(run, arena, &sides));
    BT_TRY(bt_arena_alloc(arena, (size_t)recorded->count * sizeof *recorded->items, &block));
    bt_store_verdict *again = block;
    for (int64_t i = 0; i < recorded->count; i++) {
        bt_gate_verdict verdict;
        again[i] = recorded->items[i];
        BT_TRY(bt_gate_judge(&sides, again[i].rule_json, &verdict));
        again[i].verdict = bt_gate_word_name(verdict.word);
        again[i].ratio = verdict.ratio;
        again[i].low = verdict.low;
        again[i].high = verdict.high;
        again[i].rounds = verdict.rounds;
    }
    *out = (verdict_list){again, recorded->count};
    return BT_OK;
}

static const struct {
    const char *kind;
    judge_again judge;
} judges[] = {
    {"ab", judge_gate},
    {"gate", judge_gate},
};

static void compare_number(const bt_store_verdict *item, const char *what, double recorded,
                           double follows, bt_bundle_check *check)
{
    if (!bt_recompute_same(recorded, follows)) {
        bt_bundle_find(check, "%s, %s %s: %s is recorded as %.17g, follows as %.17g", item->kind,
                       item->subject, item->metric, what, recorded, follows);
    }
}

static void compare_text(const bt_store_verdict *item, const char *what, const char *recorded,
                         const char *follows, bt_bundle_check *check)
{
    if (strcmp(recorded, follows) != 0) {
        bt_bundle_find(check, "%s, %s %s: %s is recorded as %s, follows as %s", item->kind,
                       item->subject, item->metric, what, recorded, follows);
    }
}

static const bt_store_verdict *find_verdict(const verdict_list *list, const bt_store_verdict *like)
{
    for (int64_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].subject, like->subject) == 0 &&
            strcmp(list->items[i].metric, like->metric) == 0) {
            return &list->items[i];
        }
    }
    return NULL;
}

static void compare_lists(const verdict_list *recorded, const verdict_list *follows,
                          bt_bundle_check *check)
{
    for (int64_t i = 0; i < recorded->count; i++) {
        const bt_store_verdict *item = &recorded->items[i];
        const bt_store_verdict *again = find_verdict(follows, item);
        if (!again) {
            bt_bundle_find(check, "%s, %s %s: the verdict %s does not follow from the run",
                           item->kind, item->subject, item->metric, item->verdict);
            continue;
        }
        compare_text(item, "the verdict", item->verdict, again->verdict, check);
        compare_number(item, "the ratio", item->ratio, again->ratio, check);
        compare_number(item, "low", item->low, again->low, check);
        compare_number(item, "high", item->high, again->high, check);
        compare_number(item, "rounds", (double)item->rounds, (double)again->rounds, check);
        compare_text(item, "the reason", item->reason, again->reason, check);
    }
    for (int64_t i = 0; i < follows->count; i++) {
        if (!find_verdict(recorded, &follows->items[i])) {
            bt_bundle_find(check, "%s, %s %s: the verdict %s follows and is not recorded",
                           follows->items[i].kind, follows->items[i].subject,
                           follows->items[i].metric, follows->items[i].verdict);
        }
    }
}

static judge_again find_judge(const char *kind)
{
    for (size_t i = 0; i < sizeof judges / sizeof judges[0]; i++) {
        if (strcmp(judges[i].kind, kind) == 0) {
            return judges[i].judge;
        }
    }
    return NULL;
}

bt_status bt_recompute_verdicts(const bt_store_run *run, bt_bundle_check *check)
{
    for (int64_t i = 0; i < run->verdict_count;) {
        const char *kind = run->verdicts[i].kind;
        verdict_list recorded = {&run->verdicts[i], 0}, follows = {0};
        bt_arena arena = {0};
        while (i < run->verdict_count && strcmp(run->verdicts[i].kind, kind) == 0) {
            recorded.count++;
            i++;
        }
        judge_again judge = find_judge(kind);
        if (!judge) {
            bt_bundle_find(check, "verdicts of the kind \"%s\" are not known to this program",
                           kind);
            continue;
        }
        bt_status status = judge(run, &recorded, &arena, &follows);
        if (status == BT_OK) {
            compare_lists(&recorded, &follows, check);
            check->verdict_count += recorded.count;
        }
        bt_arena_release(&arena);
        BT_TRY(status);
    }
    return BT_OK;
}
