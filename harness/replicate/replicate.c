// harness/replicate/replicate.c - pairs of rounds, intervals, verdicts
#include "harness/replicate/replicate.h"

#include <math.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/record/keep.h"
#include "harness/stats/decide.h"
#include "harness/stats/summary.h"

#define PAIRS_MAX  1000
#define CONFIDENCE 0.95
#define OURS       "blutrain"

const char *bt_verdict_name(bt_verdict verdict)
{
    static const char *const names[] = {
#define BT_VERDICT_TEXT(name, word, text) word,
        BT_VERDICT_LIST(BT_VERDICT_TEXT)
#undef BT_VERDICT_TEXT
    };
    return (unsigned)verdict < BT_VERDICT_COUNT ? names[verdict] : "?";
}

// ---- judging -----------------------------------------------------------------------------------

void bt_replication_judge(const double *logs, int64_t count, bt_replication *out)
{
    double low = 0, high = 0;
    out->pairs = count;
    out->ratio = exp(bt_mean_interval(logs, count, CONFIDENCE, &low, &high));
    out->verdict = BT_VERDICT_INCONCLUSIVE;
    if (count < 2) {
        return;
    }
    out->low = exp(low);
    out->high = exp(high);
    const double least = out->claimed / (1 + out->margin), most = out->claimed * (1 + out->margin);
    const bool old = out->rule == 1, at_least = out->rule == BT_CLAIM_RULE_AT_LEAST;
    if (!old && !(out->margin <= BT_REPLICATION_MARGIN_MAX)) {
        out->verdict = BT_VERDICT_UNINFORMATIVE;
    } else if (out->low > most && !at_least) {
        out->verdict = old ? BT_VERDICT_EXCEEDED : BT_VERDICT_HIGHER;
    } else if (out->high < least) {
        out->verdict = old ? BT_VERDICT_NOT_REPLICATED : BT_VERDICT_LOWER;
    } else if (out->low >= least && (old || at_least || out->high <= most)) {
        out->verdict = BT_VERDICT_REPLICATED;
    }
}

// ---- rounds ------------------------------------------------------------------------------------

// A metric of a round, NaN if it did not pass or was not measured.
static bt_status value_of(const bt_store_round *round, bt_metric metric, double *value)
{
    bt_summary summary;
    *value = (double)NAN;
    if (round && round->status == BT_RUN_PASSED) {
        BT_TRY(bt_summary_of(round, &summary));
        *value = summary.metrics[metric].value;
    }
    return BT_OK;
}

static const bt_store_round *find_round(const bt_store_run *run, const char *name,
                                        const char *system, int64_t ordinal)
{
    BT_EACH(const bt_store_round, round, run->rounds, run->round_count) {
        if (round->status == BT_RUN_PASSED && round->ordinal == ordinal &&
            strcmp(round->what.name, name) == 0 && strcmp(round->what.system, system) == 0) {
            return round;
        }
    }
    return NULL;
}

// Logarithms of the advantage, for all rounds that both systems have measured.
static bt_status collect(const bt_store_run *run, const bt_replication *item, double *logs,
                         int64_t *count)
{
    bool higher = bt_metric_info(item->metric)->direction == BT_DIRECTION_HIGHER;
    *count = 0;
    for (int64_t i = 0; i < run->round_count && *count < PAIRS_MAX; ++i) {
        const bt_store_round *round = &run->rounds[i];
        if (strcmp(round->what.name, item->case_name) != 0 ||
            strcmp(round->what.system, OURS) != 0) {
            continue;
        }
        double ours = (double)NAN, theirs = (double)NAN;
        BT_TRY(value_of(round, item->metric, &ours));
        const char *other_case = *item->over ? item->over : item->case_name;
        BT_TRY(value_of(find_round(run, other_case, item->other, round->ordinal), item->metric,
                        &theirs));
        if (ours > 0 && theirs > 0) {
            logs[(*count)++] = higher ? log(ours / theirs) : log(theirs / ours);
        }
    }
    return BT_OK;
}

bt_status bt_replication_of_rounds(const bt_store_run *run, bt_replication *out)
{
    double logs[PAIRS_MAX];
    int64_t count = 0;
    out->ratio = out->low = out->high = (double)NAN;
    out->verdict = BT_VERDICT_NOT_TESTABLE;
    if (!*out->case_name) {
        return BT_OK;
    }
    BT_TRY(collect(run, out, logs, &count));
    if (count == 0) {
        out->reason = *out->over ? "the run has no rounds of both cases"
                                 : "the run has no rounds of the case on both systems";
        return BT_OK;
    }
    bt_replication_judge(logs, count, out);
    out->reason = count < 2 ? "only one pair of rounds; increase --rounds"
                  : out->verdict == BT_VERDICT_UNINFORMATIVE
                      ? "the rounding of the paper's numbers leaves a margin of more than 10 %"
                      : "";
    return BT_OK;
}

// ---- claims ------------------------------------------------------------------------------------

// "first; second" of a case's deviations.
static bt_status join_deviations(const cJSON *item, bt_arena *arena, const char **out)
{
    bt_str text = {0};
    const cJSON *each = NULL;
    cJSON_ArrayForEach(each, bt_json_get(item, "deviations")) {
        bt_str_format(&text, "%s%s", text.length_bytes ? "; " : "", each->valuestring);
    }
    return bt_keep_str(arena, &text, out);
}

static bt_status replicate_claim(const bt_claim *claim, const bt_store_run *run, bt_arena *arena,
                                 bt_replication *out)
{
    const bt_store_suite *suite = &run->info.suite;
    const cJSON *item = NULL;
    *out = (bt_replication){.subject = claim->subject,
                            .title = claim->title,
                            .rule = claim->rule,
                            .counted = true,
                            .case_name = "",
                            .other = claim->other,
                            .over = claim->over,
                            .metric = claim->metric,
                            .claimed = claim->claimed,
                            .margin = claim->margin,
                            .reason = claim->untested,
                            .deviations = ""};
    if (*claim->untested) {
        return bt_replication_of_rounds(run, out);
    }
    out->reason = "the run has no case that the claim refers to";
    for (int64_t i = 0; i < run->round_count && !item; ++i) {
        const char *name = run->rounds[i].what.name;
        item = bt_claim_case(claim, suite->name, suite->profile, name);
        out->case_name = item ? name : "";
    }
    BT_TRY(join_deviations(item, arena, &out->deviations));
    return bt_replication_of_rounds(run, out);
}

// Rate and time of a case are one measurement, whichever a claim refers to.
static bt_metric measurement_of(bt_metric metric)
{
    return metric == BT_METRIC_STEP_TIME ? BT_METRIC_TOKENS_PER_S : metric;
}

static bool is_same_measurement(const bt_replication *a, const bt_replication *b)
{
    return a->verdict != BT_VERDICT_NOT_TESTABLE && b->verdict != BT_VERDICT_NOT_TESTABLE &&
           measurement_of(a->metric) == measurement_of(b->metric) &&
           strcmp(a->case_name, b->case_name) == 0 && strcmp(a->over, b->over) == 0 &&
           strcmp(a->other, b->other) == 0;
}

// Of claims about one measurement, the first with the smallest margin counts.
static void count_once(bt_replications *all, int64_t index)
{
    bt_replication *item = &all->items[index];
    for (int64_t i = 0; i < all->count; ++i) {
        const bt_replication *other = &all->items[i];
        bool better = other->margin < item->margin || (other->margin <= item->margin && i < index);
        if (i != index && item->rule != 1 && better && is_same_measurement(item, other)) {
            item->counted = false;
        }
    }
    all->verdicts[item->verdict] += item->counted;
}

static bt_status replicate_all(const bt_claims *claims, const bt_store_run *run,
                               bt_replications *out)
{
    BT_TRY(BT_ARENA_ARRAY(&out->arena, claims->count, &out->items));
    for (; out->count < claims->count; ++out->count) {
        bt_replication *item = &out->items[out->count];
        BT_TRY(replicate_claim(&claims->items[out->count], run, &out->arena, item));
    }
    for (int64_t i = 0; i < out->count; ++i) {
        count_once(out, i);
    }
    return BT_OK;
}

bt_status bt_replicate(const bt_claims *claims, const bt_store_run *run, bt_replications *out)
{
    memset(out, 0, sizeof *out);
    bt_status status = replicate_all(claims, run, out);
    if (status != BT_OK) {
        bt_replications_release(out);
    }
    return status;
}

void bt_replications_release(bt_replications *replications)
{
    bt_arena_release(&replications->arena);
    memset(replications, 0, sizeof *replications);
}

int bt_replications_exit_code(const bt_replications *replications)
{
    const int64_t *verdicts = replications->verdicts;
    return verdicts[BT_VERDICT_LOWER]                                 ? 1
           : verdicts[BT_VERDICT_INCONCLUSIVE]                        ? 3
           : verdicts[BT_VERDICT_NOT_TESTABLE] == replications->count ? 4
                                                                      : 0;
}
