// harness/report/ratios.c - ratios out of verdicts, out of pairs of rounds, out of several runs
#include "harness/report/ratios.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/internal.h"
#include "harness/suite/json.h"

static bt_status copy_text(bt_arena *arena, const char *text, size_t length, const char **out)
{
    void *block = NULL;
    BT_TRY(bt_arena_alloc(arena, length + 1, &block));
    memcpy(block, text, length);
    *out = block;
    return BT_OK;
}

// ---- groups and order --------------------------------------------------------------------------

// "layernorm" of "layernorm.forward.f32.4096x768"; "B.7" of "B.7.16384x50304.time": up to the first
// point, or the second where a letter alone stands before the first.
static size_t group_length(const char *name)
{
    const char *point = strchr(name, '.');
    const char *second = point ? strchr(point + 1, '.') : NULL;
    if (!point) {
        return 0;
    }
    return (size_t)((point == name + 1 && second ? second : point) - name);
}

// Text order in which 9 comes before 10.
static int natural_order(const char *left, const char *right)
{
    while (*left && *right) {
        bool digits = *left >= '0' && *left <= '9' && *right >= '0' && *right <= '9';
        if (digits) {
            char *left_end = NULL, *right_end = NULL;
            unsigned long long a = strtoull(left, &left_end, 10);
            unsigned long long b = strtoull(right, &right_end, 10);
            if (a != b) {
                return a < b ? -1 : 1;
            }
            left = left_end;
            right = right_end;
        } else if (*left != *right) {
            return (unsigned char)*left < (unsigned char)*right ? -1 : 1;
        } else {
            left++;
            right++;
        }
    }
    return (*left != 0) - (*right != 0);
}

static int by_group(const ratio_row *left, const ratio_row *right)
{
    return natural_order(left->group, right->group);
}

static int by_name(const ratio_row *left, const ratio_row *right)
{
    int order = natural_order(left->name, right->name);
    return order ? order : strcmp(left->metric, right->metric);
}

static int slowest_first(const void *left, const void *right)
{
    const ratio_row *a = left, *b = right;
    int order = by_group(a, b);
    return order ? order : a->ratio != b->ratio ? (a->ratio > b->ratio ? -1 : 1) : by_name(a, b);
}

static int smallest_first(const void *left, const void *right)
{
    const ratio_row *a = left, *b = right;
    int order = by_group(a, b);
    return order ? order : a->ratio != b->ratio ? (a->ratio < b->ratio ? -1 : 1) : by_name(a, b);
}

// Puts rows with a ratio into `rows`, the others into `rest`, both in order.
static bt_status sort_rows(bt_arena *arena, ratio_row *all, int64_t count, ratio_list *list)
{
    void *block = NULL;
    BT_TRY(bt_arena_alloc(arena, (size_t)count * sizeof *all, &block));
    list->rows = all;
    list->rest = block;
    for (int64_t i = 0; i < count; i++) {
        BT_TRY(copy_text(arena, all[i].name, group_length(all[i].name), &all[i].group));
        if (all[i].ratio > 0.0 && isfinite(all[i].ratio)) {
            list->rows[list->count++] = all[i];
        } else {
            list->rest[list->rest_count++] = all[i];
        }
    }
    qsort(list->rows, (size_t)list->count, sizeof *list->rows,
          list->more_is_slower ? slowest_first : smallest_first);
    return BT_OK;
}

// ---- verdicts of the store ---------------------------------------------------------------------

// What the rule adds to the picture: the paper's ratio, and the band of what counts as alike.
static bt_status read_rule(const bt_store_verdict *verdict, bt_arena *arena, ratio_row *row)
{
    bt_json_doc rule;
    const char *text = verdict->rule_json;
    bt_status status = bt_json_parse("rule", text, strlen(text), &rule);
    if (status == BT_STATUS_INVALID_ARGUMENT) {
        return BT_OK; // nothing to draw
    }
    BT_TRY(status);
    double claimed = bt_json_number_of(rule.root, "claimed");
    double share = bt_json_number_of(rule.root, claimed > 0.0 ? "margin" : "tolerance");
    double middle = claimed > 0.0 ? claimed : 1.0;
    row->mark = claimed > 0.0 ? claimed : (double)NAN;
    if (share > 0.0) {
        row->band_low = middle / (1.0 + share);
        row->band_high = middle * (1.0 + share);
    }
    const cJSON *deviations = bt_json_get(rule.root, "deviations");
    if (cJSON_IsString(deviations)) {
        status = copy_text(arena, deviations->valuestring, strlen(deviations->valuestring),
                           &row->deviations);
    }
    bt_json_release(&rule);
    return status;
}

// Rounds of a case, on any system, that have a noise label.
static int64_t noisy_rounds(const report_set *set, const bt_store_run *run, const char *name)
{
    int64_t count = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *item = &set->cases[i];
        if (item->run == run && strcmp(item->round->what.name, name) == 0) {
            count += item->noisy;
        }
    }
    return count;
}

// The two sides as the rule of a verdict names them: builds or systems, or a baseline.
static bt_status read_sides(const bt_store_verdict *verdict, bt_arena *arena, ratio_list *list)
{
    bt_json_doc rule;
    const char *text = verdict->rule_json;
    bt_status status = bt_json_parse("rule", text, strlen(text), &rule);
    if (status == BT_STATUS_INVALID_ARGUMENT) {
        return BT_OK;
    }
    BT_TRY(status);
    const cJSON *base = bt_json_get(rule.root, "base"),
                *other = bt_json_get(rule.root, "candidate");
    const cJSON *baseline = bt_json_get(rule.root, "baseline");
    if (cJSON_IsString(base) && cJSON_IsString(other)) {
        status = copy_text(arena, base->valuestring, strlen(base->valuestring), &list->base);
        if (status == BT_OK) {
            status = copy_text(arena, other->valuestring, strlen(other->valuestring), &list->other);
        }
    } else if (cJSON_IsString(baseline)) {
        bt_str name = {0};
        bt_str_format(&name, "baseline %s", baseline->valuestring);
        status = bt_str_status(&name);
        if (status == BT_OK) {
            status = copy_text(arena, bt_str_text(&name), name.length_bytes, &list->base);
        }
        bt_str_release(&name);
    }
    bt_json_release(&rule);
    return status;
}

static bt_status read_verdicts(report_set *set, const bt_store_run *run, const char *kind,
                               ratio_list *list)
{
    void *block = NULL;
    int64_t count = 0;
    BT_TRY(bt_arena_alloc(&set->arena, (size_t)run->verdict_count * sizeof(ratio_row), &block));
    ratio_row *rows = block;
    for (int64_t i = 0; i < run->verdict_count; i++) {
        const bt_store_verdict *verdict = &run->verdicts[i];
        if (strcmp(verdict->kind, kind) != 0) {
            continue;
        }
        bt_metric metric;
        bool known = bt_metric_parse(verdict->metric, &metric);
        if (count == 0 && list->more_is_slower) {
            BT_TRY(read_sides(verdict, &set->arena, list));
        }
        ratio_row *row = &rows[count++];
        *row = (ratio_row){.name = verdict->subject,
                           .metric = known && metric == BT_METRIC_TIME ? "" : verdict->metric,
                           .ratio = verdict->ratio,
                           .low = verdict->low,
                           .high = verdict->high,
                           .mark = (double)NAN,
                           .band_low = (double)NAN,
                           .band_high = (double)NAN,
                           .verdict = verdict->verdict,
                           .reason = verdict->reason,
                           .deviations = "",
                           .pairs = verdict->rounds};
        row->noisy = noisy_rounds(set, run, row->name);
        BT_TRY(read_rule(verdict, &set->arena, row));
    }
    return sort_rows(&set->arena, rows, count, list);
}

// ---- pairs of rounds ---------------------------------------------------------------------------

static bt_metric time_metric(const report_case *item)
{
    return bt_report_is_kernel(item->round) ? BT_METRIC_TIME : BT_METRIC_STEP_TIME;
}

// The median over the rounds that both have of the other's time by the base's.
static bt_status pair_ratio(const report_case *base, const report_case *other, double *ratios,
                            ratio_row *row)
{
    bt_metric metric = time_metric(base);
    for (int64_t i = 0; i < base->round_count; i++) {
        for (int64_t j = 0; j < other->round_count; j++) {
            double ours = base->summaries[i].metrics[metric].value;
            double theirs = other->summaries[j].metrics[metric].value;
            bool pair = base->rounds[i]->ordinal == other->rounds[j]->ordinal &&
                        bt_round_counts(base, i) && bt_round_counts(other, j);
            if (pair && ours > 0.0 && theirs > 0.0 && isfinite(theirs / ours)) {
                ratios[row->pairs++] = theirs / ours;
            }
        }
    }
    if (row->pairs == 0) {
        return BT_OK;
    }
    bt_stats stats;
    BT_TRY(bt_stats_of(ratios, row->pairs, &stats));
    row->ratio = stats.median;
    row->low = row->pairs > 1 ? stats.low : (double)NAN;
    row->high = row->pairs > 1 ? stats.high : (double)NAN;
    return BT_OK;
}

static const report_case *counterpart(const report_set *set, const report_case *item,
                                      const char *system)
{
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *other = &set->cases[i];
        if (other->run == item->run && strcmp(other->round->what.system, system) == 0 &&
            strcmp(other->round->what.name, item->round->what.name) == 0) {
            return other;
        }
    }
    return NULL;
}

// A row of a case on the two systems; `named`: its name says which the other is.
static bt_status add_pair(report_set *set, const report_case *base, const report_case *other,
                          bool named, ratio_row *row)
{
    void *ratios = NULL;
    *row = (ratio_row){.name = base->round->what.name,
                       .metric = "",
                       .ratio = (double)NAN,
                       .low = (double)NAN,
                       .high = (double)NAN,
                       .mark = (double)NAN,
                       .band_low = (double)NAN,
                       .band_high = (double)NAN,
                       .verdict = "",
                       .reason = "",
                       .deviations = "",
                       .noisy = base->noisy + other->noisy};
    if (named) {
        bt_str text = {0};
        bt_str_format(&text, "%s, against %s", row->name, other->round->what.system);
        bt_status status = bt_str_status(&text);
        if (status == BT_OK) {
            status = copy_text(&set->arena, bt_str_text(&text), text.length_bytes, &row->name);
        }
        bt_str_release(&text);
        BT_TRY(status);
    }
    size_t most = (size_t)(base->round_count * other->round_count);
    BT_TRY(bt_mem_alloc(most, sizeof(double), &ratios));
    bt_status status = pair_ratio(base, other, ratios, row);
    bt_mem_free(ratios);
    return status;
}

// The cases of the list's run on its base and on each of `others` [count].
static bt_status read_pairs(report_set *set, ratio_list *list, const char *const *others, int count)
{
    void *block = NULL;
    int64_t found = 0;
    BT_TRY(bt_arena_alloc(&set->arena, (size_t)set->case_count * (size_t)count * sizeof(ratio_row),
                          &block));
    ratio_row *rows = block;
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *base = &set->cases[i];
        if (base->run != list->run || base->kernel.ceiling ||
            strcmp(base->round->what.system, list->base) != 0) {
            continue;
        }
        for (int s = 0; s < count; s++) {
            const report_case *other = counterpart(set, base, others[s]);
            if (other) {
                BT_TRY(add_pair(set, base, other, count > 1, &rows[found++]));
            }
        }
    }
    return sort_rows(&set->arena, rows, found, list);
}

// ---- several runs ------------------------------------------------------------------------------

// Each later run against the first: the time of the same case there by its own.
static bt_status read_runs(report_set *set, ratio_list *list)
{
    void *block = NULL;
    int64_t count = 0;
    BT_TRY(bt_arena_alloc(&set->arena, (size_t)set->case_count * sizeof(ratio_row), &block));
    ratio_row *rows = block;
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *mine = &set->cases[i], *base = NULL;
        bool later = mine->run != set->runs && !mine->kernel.ceiling;
        for (int64_t j = 0; j < set->case_count && !base && later; j++) {
            const report_case *other = &set->cases[j];
            if (other->run == set->runs &&
                strcmp(other->round->what.name, mine->round->what.name) == 0 &&
                strcmp(other->round->what.system, mine->round->what.system) == 0) {
                base = other;
            }
        }
        if (!base) {
            continue;
        }
        bt_metric metric = time_metric(mine);
        const bt_metric_value *now = &mine->summary.metrics[metric];
        const bt_metric_value *was = &base->summary.metrics[metric];
        rows[count++] = (ratio_row){.name = mine->label,
                                    .metric = "",
                                    .ratio = was->value / now->value,
                                    .low = was->low / now->high,
                                    .high = was->high / now->low,
                                    .mark = (double)NAN,
                                    .band_low = (double)NAN,
                                    .band_high = (double)NAN,
                                    .verdict = "",
                                    .reason = "",
                                    .deviations = "",
                                    .noisy = base->noisy + mine->noisy,
                                    .pairs = mine->round_count};
    }
    return sort_rows(&set->arena, rows, count, list);
}

// ---- which lists there are ---------------------------------------------------------------------

enum { LISTS_PER_RUN = 12, SYSTEMS_MAX = 8, TOGETHER_UP_TO = 6 };

static bool has_verdicts(const bt_store_run *run, const char *kind)
{
    for (int64_t i = 0; i < run->verdict_count; i++) {
        if (strcmp(run->verdicts[i].kind, kind) == 0) {
            return true;
        }
    }
    return false;
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
    for (int s = 1; s < count; s++) {
        if (strcmp(systems[s], "blutrain") == 0 || strcmp(systems[s], "base") == 0) {
            const char *first = systems[0];
            systems[0] = systems[s];
            systems[s] = first;
        }
    }
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

// Every other system against the first: a list each, or one for all where there are few cases.
static bt_status read_systems(report_set *set, const bt_store_run *run)
{
    const char *systems[SYSTEMS_MAX] = {NULL};
    int count = systems_of(set, run, systems), lists = count - 1;
    int64_t cases = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *item = &set->cases[i];
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
        BT_TRY(read_pairs(set, list, &systems[1 + s], together ? lists : 1));
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
    void *block = NULL;
    size_t most = (size_t)set->run_count * LISTS_PER_RUN + 1;
    BT_TRY(bt_arena_alloc(&set->arena, most * sizeof *set->ratios, &block));
    set->ratios = block;
    for (int64_t i = 0; i < set->run_count; i++) {
        BT_TRY(read_run(set, &set->runs[i]));
    }
    if (set->run_count > 1) {
        ratio_list *list = new_list(set, NULL, "runs");
        list->base = "the first run";
        list->other = "the others";
        BT_TRY(read_runs(set, list));
        keep_list(set, list);
    }
    return BT_OK;
}

bt_text bt_format_ratio_interval(const ratio_row *row)
{
    static const double open = 100.0; // so far apart that digits would only distract
    bt_text out = {"-"};
    if (isfinite(row->low) && isfinite(row->high)) {
        bool wide = row->high > open * row->low;
        if (wide) {
            (void)snprintf(out.text, sizeof out.text, "wide open");
        } else {
            (void)snprintf(out.text, sizeof out.text, "[%.3f, %.3f]", row->low, row->high);
        }
    } else if (row->pairs == 1) {
        (void)snprintf(out.text, sizeof out.text, "one pair");
    }
    return out;
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

ratio_mean bt_ratios_mean(const ratio_row *rows, int64_t count)
{
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < count; i++) {
        double reach = 0.5 * log(rows[i].high / rows[i].low);
        sum += log(rows[i].ratio);
        squares += reach * reach;
    }
    double mean = sum / (double)count, reach = sqrt(squares) / (double)count;
    return (ratio_mean){exp(mean), exp(mean - reach), exp(mean + reach)};
}
