// harness/compare/compare.c - pairs the cases of two runs and lists the differences
#include "harness/compare/compare.h"

#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/compare/items.h"
#include "harness/record/fields.h"
#include "harness/stats/loss.h"
#include "harness/stats/noise.h"

void bt_curve_compare(const bt_store_round *left, const bt_store_round *right,
                      bt_curve_difference *out)
{
    int64_t i = 0, j = 0;
    memset(out, 0, sizeof *out);
    out->first_step = out->max_step = -1;
    while (i < left->step_count && j < right->step_count) {
        const bt_store_step *a = &left->steps[i], *b = &right->steps[j];
        if (a->step != b->step) {
            i += a->step < b->step;
            j += b->step < a->step;
            continue;
        }
        out->shared++;
        if (bt_loss_bits(a->loss) != bt_loss_bits(b->loss)) {
            double difference = fabs((double)a->loss - (double)b->loss);
            out->first_step = out->first_step < 0 ? a->step : out->first_step;
            // A NaN counts as the largest difference.
            if (out->max_step < 0 ||
                (!isnan(out->max_difference) && !(difference <= out->max_difference))) {
                out->max_difference = difference;
                out->max_step = a->step;
            }
        }
        i++;
        j++;
    }
    out->bitwise_equal = out->shared > 0 && out->first_step < 0;
}

// ---- rounds of a case on a system --------------------------------------------------------------

static bool is_kept(const bt_store_round *round)
{
    return round->status != BT_RUN_INVALID && !round->superseded;
}

static bool is_same_case(const bt_store_round *a, const bt_store_round *b)
{
    return strcmp(a->what.name, b->what.name) == 0 && strcmp(a->what.bench, b->what.bench) == 0 &&
           strcmp(a->what.system, b->what.system) == 0;
}

// The round that represents its case and system: the first that passed, or the first. NULL: none
// was kept.
static const bt_store_round *first_of(const bt_store_run *run, const bt_store_round *round)
{
    const bt_store_round *first = NULL;
    BT_EACH(const bt_store_round, other, run->rounds, run->round_count) {
        if (!is_kept(other) || !is_same_case(other, round)) {
            continue;
        }
        if (other->status == BT_RUN_PASSED) {
            return other;
        }
        first = first ? first : other;
    }
    return first;
}

static bool stands_for_its_case(const bt_store_run *run, const bt_store_round *round)
{
    const bt_store_round *first = first_of(run, round);
    return first && first == round;
}

static bt_status summarise_side(const bt_store_run *run, const bt_store_round *first,
                                bt_arena *arena, bt_compare_side *side, bt_summary *out)
{
    BT_TRY(bt_arena_array(arena, (size_t)run->round_count, sizeof(void *), &side->rounds));
    BT_EACH(const bt_store_round, round, run->rounds, run->round_count) {
        bool counts = is_kept(round) && is_same_case(round, first) &&
                      (round == first || round->status == BT_RUN_PASSED);
        if (counts) {
            side->rounds[side->count++] = round;
            side->noisy += round->label && round->label[0];
        }
    }
    if (side->count == 1) {
        return bt_summary_of(first, out);
    }
    BT_SCOPED_MEM(bt_summary *) rounds = NULL;
    BT_TRY(BT_MEM_ARRAY(side->count, &rounds));
    for (int64_t i = 0; i < side->count; i++) {
        BT_TRY(bt_summary_of(side->rounds[i], &rounds[i]));
    }
    return bt_summary_over(rounds, side->count, out);
}

// ---- pairs -------------------------------------------------------------------------------------

// Criteria for a pair of rounds; each level allows more differences.
enum { LEVEL_SAME, LEVEL_NAME, LEVEL_ONLY, LEVEL_COUNT };

static bool matches(const bt_comparison *both, const bt_store_round *a, const bt_store_round *b,
                    int level)
{
    if (level == LEVEL_ONLY) {
        return both->left.round_count == 1 && both->right.round_count == 1;
    }
    bool same_name = strcmp(a->what.name, b->what.name) == 0;
    return same_name && (level == LEVEL_NAME || (strcmp(a->what.bench, b->what.bench) == 0 &&
                                                 strcmp(a->what.system, b->what.system) == 0));
}

static bt_status fill_pair(bt_comparison *both, bt_compare_pair *pair)
{
    const char *a = pair->left->params_digest, *b = pair->right->params_digest;
    pair->digests_known = bt_digests_comparable(a, b);
    pair->digests_equal = pair->digests_known && strcmp(a, b) == 0;
    bt_curve_compare(pair->left, pair->right, &pair->loss);
    BT_TRY(summarise_side(&both->left, pair->left, &both->arena, &pair->left_side,
                          &pair->left_summary));
    BT_TRY(summarise_side(&both->right, pair->right, &both->arena, &pair->right_side,
                          &pair->right_summary));
    return bt_telemetry_clocks_comparable(pair->left_side.rounds, pair->left_side.count,
                                          pair->right_side.rounds, pair->right_side.count,
                                          &pair->clocks_comparable, pair->clocks);
}

// chosen[i] becomes 1 + the right round of left round i, 0 without one. Both represent their cases;
// `stands` marks rounds that do, `used` those already paired.
static void choose(const bt_comparison *both, const bool *stands, int64_t *chosen, bool *used)
{
    for (int level = 0; level < LEVEL_COUNT; level++) {
        for (int64_t i = 0; i < both->left.round_count; i++) {
            for (int64_t j = 0; stands[i] && chosen[i] == 0 && j < both->right.round_count; j++) {
                if (!used[j] &&
                    matches(both, &both->left.rounds[i], &both->right.rounds[j], level)) {
                    chosen[i] = j + 1;
                    used[j] = true;
                }
            }
        }
    }
}

static bt_status pair_rounds(bt_comparison *both)
{
    int64_t left_count = both->left.round_count, right_count = both->right.round_count;
    int64_t *chosen = NULL;
    bool *used = NULL, *stands = NULL;
    bt_compare_pair *pairs = NULL;
    const bt_store_round **alone = NULL;
    bt_arena *arena = &both->arena;
    BT_TRY(BT_ARENA_ARRAY(arena, left_count, &chosen));
    BT_TRY(BT_ARENA_ARRAY(arena, right_count, &used));
    BT_TRY(BT_ARENA_ARRAY(arena, left_count, &stands));
    BT_TRY(BT_ARENA_ARRAY(arena, left_count, &pairs));
    BT_TRY(bt_arena_array(arena, (size_t)(left_count + right_count), sizeof(void *), &alone));
    for (int64_t i = 0; i < left_count; i++) {
        stands[i] = stands_for_its_case(&both->left, &both->left.rounds[i]);
    }
    for (int64_t j = 0; j < right_count; j++) {
        used[j] = !stands_for_its_case(&both->right, &both->right.rounds[j]);
    }
    choose(both, stands, chosen, used);
    for (int64_t i = 0; i < left_count; i++) {
        if (stands[i] && chosen[i] == 0) {
            alone[both->alone_count++] = &both->left.rounds[i];
        }
        if (chosen[i] == 0) {
            continue;
        }
        bt_compare_pair *pair = &pairs[both->pair_count++];
        pair->left = &both->left.rounds[i];
        pair->right = &both->right.rounds[chosen[i] - 1];
        BT_TRY(fill_pair(both, pair));
    }
    both->alone_left_count = both->alone_count;
    for (int64_t j = 0; j < right_count; j++) {
        if (!used[j]) {
            alone[both->alone_count++] = &both->right.rounds[j];
        }
    }
    both->pairs = pairs;
    both->alone = alone;
    return BT_OK;
}

static bt_status compare_builds(item_list *list, const bt_store_build *a, const bt_store_build *b)
{
    const bt_fields *fields = bt_fields_info(BT_FIELDS_BUILD);
    for (size_t i = 1; i < fields->count; i++) { // all but the digest of the others
        const bt_field *row = &fields->rows[i];
        const char *left = bt_field_text(row, a), *right = bt_field_text(row, b);
        BT_TRY(strcmp(left, right) == 0
                   ? BT_OK
                   : bt_items_add(list, "build", row->key, left, right, BT_FACT_INFO));
    }
    return BT_OK;
}

bt_status bt_compare_facts(const bt_store_run *left, const bt_store_run *right, bt_arena *arena,
                           const bt_compare_item **items, int64_t *count, bool *hard_differs)
{
    const bt_store_run_info *a = &left->info, *b = &right->info;
    item_list list = {.arena = arena};
    *hard_differs = false;
    BT_TRY(bt_items_add_plans(&list, a->suite.plan_json, b->suite.plan_json));
    BT_TRY(compare_builds(&list, &a->build, &b->build));
    BT_TRY(bt_items_add_facts(&list, &a->env, &b->env, false, hard_differs));
    *items = list.items;
    *count = list.count;
    return BT_OK;
}

static bt_status compare_all(bt_store *store, int64_t left, int64_t right, bt_comparison *out)
{
    BT_TRY(bt_store_run_read(store, left, &out->left));
    BT_TRY(bt_store_run_read(store, right, &out->right));
    BT_TRY(pair_rounds(out));
    return bt_compare_facts(&out->left, &out->right, &out->arena, &out->items, &out->item_count,
                            &out->hard_differs);
}

bt_status bt_compare_runs(bt_store *store, int64_t left, int64_t right, bt_comparison *out)
{
    memset(out, 0, sizeof *out);
    bt_status status = compare_all(store, left, right, out);
    if (status != BT_OK) {
        bt_comparison_release(out);
    }
    return status;
}

void bt_comparison_release(bt_comparison *comparison)
{
    bt_store_run_release(&comparison->left);
    bt_store_run_release(&comparison->right);
    bt_arena_release(&comparison->arena);
    memset(comparison, 0, sizeof *comparison);
}
