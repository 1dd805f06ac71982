// harness/report/ratios.c - selects and orders ratios; those of verdicts
#include "harness/report/ratios.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/record/keep.h"
#include "harness/report/internal.h"
#include "harness/suite/json.h"

// ---- verdicts of the store ---------------------------------------------------------------------

// Values that the rule adds to the picture: the paper's ratio, and the band of the tolerance.
static bt_status read_rule(const cJSON *rule, bt_arena *arena, ratio_row *row)
{
    const double claimed = bt_json_number_of(rule, "claimed");
    const double share = bt_json_number_of(rule, claimed > 0.0 ? "margin" : "tolerance");
    const double middle = claimed > 0.0 ? claimed : 1.0;
    row->mark = claimed > 0.0 ? claimed : (double)NAN;
    if (share > 0.0) {
        row->band_low = middle / (1.0 + share);
        row->band_high = middle * (1.0 + share);
    }
    row->repeated = cJSON_IsFalse(bt_json_get(rule, "counted"));
    BT_TRY(bt_keep(arena, bt_json_text_of(rule, "deviations"), &row->deviations));
    return bt_keep(arena, bt_json_text_of(rule, "title"), &row->title);
}

// Rounds of a case, on any system, that have a noise label.
static int64_t noisy_rounds(const report_set *set, const bt_store_run *run, const char *name)
{
    int64_t count = 0;
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        if (item->run == run && strcmp(item->round->what.name, name) == 0) {
            count += item->noisy;
        }
    }
    return count;
}

// The two sides according to the rule of a verdict: builds or systems, or a baseline.
static bt_status read_sides(const cJSON *rule, bt_arena *arena, ratio_list *list)
{
    const char *base = bt_json_text_or_null(rule, "base"),
               *other = bt_json_text_or_null(rule, "candidate"),
               *baseline = bt_json_text_or_null(rule, "baseline");
    if (base && other) {
        BT_TRY(bt_keep(arena, other, &list->other));
        return bt_keep(arena, base, &list->base);
    }
    return baseline ? bt_keep(arena, bt_textf("baseline %s", baseline).text, &list->base) : BT_OK;
}

static bt_status read_verdicts(report_set *set, const bt_store_run *run, const char *kind,
                               ratio_list *list)
{
    int64_t count = 0;
    ratio_row *rows = NULL;
    BT_TRY(BT_ARENA_ARRAY(&set->arena, run->verdict_count, &rows));
    BT_EACH(const bt_store_verdict, verdict, run->verdicts, run->verdict_count) {
        if (strcmp(verdict->kind, kind) != 0) {
            continue;
        }
        bt_metric metric;
        bool known = bt_metric_parse(verdict->metric, &metric);
        BT_SCOPED(bt_json_doc) rule = {0};
        bt_status status =
            bt_json_parse("rule", verdict->rule_json, strlen(verdict->rule_json), &rule);
        BT_TRY(status == BT_STATUS_INVALID_ARGUMENT ? BT_OK : status); // there may be none
        if (count == 0 && list->more_is_slower) {
            BT_TRY(read_sides(rule.root, &set->arena, list));
        }
        ratio_row *row = &rows[count++];
        *row = bt_ratio_unknown;
        row->name = verdict->subject;
        row->metric = known && metric == BT_METRIC_TIME ? "" : verdict->metric;
        row->ratio = verdict->ratio;
        row->low = verdict->low;
        row->high = verdict->high;
        row->verdict = verdict->verdict;
        row->reason = verdict->reason;
        row->rounds = verdict->rounds;
        row->noisy = noisy_rounds(set, run, row->name);
        BT_TRY(read_rule(rule.root, &set->arena, row));
    }
    return bt_ratios_sort(&set->arena, rows, count, list);
}

// ---- selection of lists ------------------------------------------------------------------------

enum { LISTS_PER_RUN = 12, SYSTEMS_MAX = 8, TOGETHER_UP_TO = 6 };

static bool has_verdicts(const bt_store_run *run, const char *kind)
{
    return BT_FIND(run->verdicts, run->verdict_count, kind, kind) >= 0;
}

void bt_ratios_base_first(const char **systems, int count)
{
    static const char *const bases[] = {"blutrain", "base"}; // the last one found is the first
    for (size_t b = 0; b < sizeof bases / sizeof bases[0]; b++) {
        const int64_t at = BT_FIND_WORD(systems, count, bases[b]);
        if (at > 0) {
            const char *first = systems[0];
            systems[0] = systems[at];
            systems[at] = first;
        }
    }
}

// The systems of a run in the order in which they appear, ours or the base first.
static int systems_of(const report_set *set, const bt_store_run *run, const char **systems)
{
    int count = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        const char *system = set->cases[i].round->what.system;
        bool known = set->cases[i].run != run || count == SYSTEMS_MAX;
        for (int s = 0; s < count && !known; s++) {
            known = strcmp(systems[s], system) == 0;
        }
        if (!known) {
            systems[count++] = system;
        }
    }
    bt_ratios_base_first(systems, count);
    return count;
}

static ratio_list *new_list(report_set *set, const bt_store_run *run, const char *kind)
{
    ratio_list *list = &set->ratios[set->ratio_count];
    *list = (ratio_list){.kind = kind, .run = run, .base = "base", .other = "candidate"};
    (void)snprintf(list->id, sizeof list->id, "%s-%lld", kind, run ? (long long)run->id : 0LL);
    return list;
}

static void keep_list(report_set *set, const ratio_list *list)
{
    set->ratio_count += list->count + list->rest_count > 0;
}

// Every other system relative to the first: one list each, or one for all if there are few cases.
static bt_status read_systems(report_set *set, const bt_store_run *run)
{
    const char *systems[SYSTEMS_MAX] = {NULL};
    int count = systems_of(set, run, systems), lists = count - 1;
    int64_t cases = 0;
    if (count < 2) {
        return BT_OK;
    }
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        cases += item->run == run && !item->kernel.ceiling &&
                 strcmp(item->round->what.system, systems[0]) == 0;
    }
    bool together = count > 2 && cases <= TOGETHER_UP_TO;
    for (int s = 0; s < (together ? 1 : lists); s++) {
        ratio_list *list = new_list(set, run, "pairs");
        list->base = systems[0];
        list->other = together ? "the others" : systems[1 + s];
        list->more_is_slower = strcmp(systems[0], "base") == 0;
        (void)snprintf(list->id, sizeof list->id, "pairs-%lld-%d", (long long)run->id, 1 + s);
        BT_TRY(bt_ratios_of_systems(set, list, &systems[1 + s], together ? lists : 1));
        keep_list(set, list);
    }
    return BT_OK;
}

static bt_status read_run(report_set *set, const bt_store_run *run)
{
    static const struct {
        const char *kind, *base, *other;
        bool more_is_slower;
    } kinds[] = {{"ab", "base", "candidate", true},
                 {"gate", "the baseline", "this run", true},
                 {"replicate", "blutrain", "the other system", false}};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (has_verdicts(run, kinds[k].kind)) {
            ratio_list *list = new_list(set, run, kinds[k].kind);
            list->base = kinds[k].base;
            list->other = kinds[k].other;
            list->more_is_slower = kinds[k].more_is_slower;
            BT_TRY(read_verdicts(set, run, kinds[k].kind, list));
            keep_list(set, list);
        }
    }
    return has_verdicts(run, "ab") ? BT_OK : read_systems(set, run);
}

bt_status bt_ratios_read(report_set *set)
{
    BT_TRY(BT_ARENA_ARRAY(&set->arena, set->run_count * LISTS_PER_RUN + 1, &set->ratios));
    for (int64_t i = 0; i < set->run_count; i++) {
        BT_TRY(read_run(set, &set->runs[i]));
    }
    if (set->run_count > 1) {
        ratio_list *list = new_list(set, NULL, "runs");
        list->base = "the first run";
        list->other = "later runs";
        list->more_is_slower = true;
        BT_TRY(bt_ratios_of_runs(set, list));
        keep_list(set, list);
    }
    return BT_OK;
}

bt_text bt_format_ratio_interval(const ratio_row *row)
{
    static const double open = 100.0; // so far apart that more digits are pointless
    if (isnan(row->low) || isnan(row->high)) {
        return bt_textf("%s", row->rounds == 1 ? "one round" : "-");
    }
    return row->high > open * row->low ? bt_textf("wide open")
                                       : bt_textf("[%.3f, %.3f]", row->low, row->high);
}

void bt_ratio_note(const char *other, const char *base, bt_str *out)
{
    bt_str_format(
        out,
        "%s/%s: from pairs of rounds; below 1 takes less. It may differ from the quotient "
        "of the two values\n",
        other, base);
}

static bool is_of_claims(const ratio_list *list) { return strcmp(list->kind, "replicate") == 0; }

const char *bt_ratios_less(const ratio_list *list)
{
    return is_of_claims(list) ? "behind" : list->more_is_slower ? "faster" : "slower";
}

const char *bt_ratios_more(const ratio_list *list)
{
    return is_of_claims(list) ? "ahead" : list->more_is_slower ? "slower" : "faster";
}

static bool is_speed(const ratio_row *row)
{
    bt_metric metric;
    if (!row->metric || !row->metric[0] || !bt_metric_parse(row->metric, &metric)) {
        return true;
    }
    return bt_metric_info(metric)->unit != BT_UNIT_BYTES && metric != BT_METRIC_TIME_P95 &&
           metric != BT_METRIC_STEP_TIME_P95;
}

// Rows of the largest weight in a list count, others do not.
static int weight_of(const ratio_row *row) { return 2 * is_speed(row) + !row->repeated; }

bool bt_ratios_counts(const ratio_row *rows, int64_t count, const ratio_row *row)
{
    int largest = 0;
    for (int64_t i = 0; i < count; i++) {
        const int weight = weight_of(&rows[i]);
        largest = weight > largest ? weight : largest;
    }
    return weight_of(row) == largest;
}

ratio_mean bt_ratios_mean(const ratio_row *rows, int64_t count)
{
    double sum = 0.0, squares = 0.0;
    int64_t counted = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!bt_ratios_counts(rows, count, &rows[i])) {
            continue;
        }
        counted++;
        double reach = 0.5 * log(rows[i].high / rows[i].low);
        sum += log(rows[i].ratio);
        squares += reach * reach;
    }
    double mean = sum / (double)counted, reach = sqrt(squares) / (double)counted;
    return (ratio_mean){exp(mean), exp(mean - reach), exp(mean + reach), counted};
}
