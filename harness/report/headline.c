// harness/report/headline.c - the sentence at the top: what ran, where, whether it passed, how fast
#include <math.h>
#include <string.h>

#include "framework/base/find.h"
#include "harness/report/internal.h"
#include "harness/report/marks.h"

static const char *const verbs[BT_RUN_STATUS_COUNT] = {
    [BT_RUN_RUNNING] = "is running",
    [BT_RUN_PASSED] = "passed",
    [BT_RUN_FAILED] = "failed",
    [BT_RUN_INTERRUPTED] = "was interrupted",
    [BT_RUN_UNAVAILABLE] = "could not run here",
    [BT_RUN_INVALID] = "was disturbed",
};

const char *bt_report_device(const report_set *set)
{
    for (int64_t i = 0; i < set->case_count; i++) {
        if (set->cases[i].round->shape.device[0]) {
            return set->cases[i].round->shape.device;
        }
    }
    return "this machine";
}

// "4 x " in front of a device, "" for one.
static bt_text gpus_text(const report_case *item)
{
    return item->gpus > 1 ? bt_textf("%lld x ", (long long)item->gpus) : (bt_text){""};
}

// ", on up to 2 x NVIDIA H200"
static void say_devices(const report_set *set, bt_str *out)
{
    const report_case *most = NULL;
    bool equal = true;
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *item = &set->cases[i];
        equal = equal && item->gpus == set->cases[0].gpus;
        most = !most || item->gpus > most->gpus ? item : most;
    }
    bt_str_format(out, ", on %s%s%s", equal ? "" : "up to ", most ? gpus_text(most).text : "",
                  bt_report_device(set));
}

const ratio_list *bt_report_main_list(const report_set *set)
{
    static const char *const kinds[] = {"gate", "ab", "replicate", "pairs"};
    int64_t at = -1;
    for (int k = 0; k < BT_COUNT(kinds) && at < 0; k++) {
        at = BT_FIND(set->ratios, set->ratio_count, kind, kinds[k]);
    }
    return at < 0 ? NULL : &set->ratios[at];
}

int64_t bt_report_verdict_count(const ratio_list *list, const char *verdict)
{
    int64_t found = 0;
    for (int64_t i = 0; i < list->count; i++) {
        found += !list->rows[i].repeated && strcmp(list->rows[i].verdict, verdict) == 0;
    }
    for (int64_t i = 0; i < list->rest_count; i++) {
        found += strcmp(list->rest[i].verdict, verdict) == 0;
    }
    return found;
}

// ---- what is compared --------------------------------------------------------------------------

static void say_changes(const report_set *set, const ratio_list *list, bt_str *out)
{
    int64_t all = list->count + list->rest_count;
    int64_t slower = bt_report_verdict_count(list, "SLOWER");
    int64_t open = bt_report_verdict_count(list, "INCONCLUSIVE");
    bt_str_format(out, "%s: %s is slower than %s in ", set->runs[0].info.suite.name, list->other,
                  list->base);
    if (slower == 0) {
        bt_str_format(out, "none of %lld checks", (long long)all);
    } else {
        bt_str_format(out, "%lld of %lld checks", (long long)slower, (long long)all);
    }
    if (open > 0) {
        bt_str_format(out, ", %lld open", (long long)open);
    }
    say_devices(set, out);
}

static void say_claims(const report_set *set, const ratio_list *list, bt_str *out)
{
    const struct {
        int64_t count;
        const char *words;
    } parts[] = {
        {bt_report_verdict_count(list, "REPLICATED"), "replicated"},
        {bt_report_verdict_count(list, "HIGHER") + bt_report_verdict_count(list, "EXCEEDED"),
         "higher"},
        {bt_report_verdict_count(list, "LOWER") + bt_report_verdict_count(list, "NOT REPLICATED"),
         "lower"},
        {bt_report_verdict_count(list, "INCONCLUSIVE"), "inconclusive"},
        {bt_report_verdict_count(list, "UNINFORMATIVE"), "uninformative"}};
    const char *comma = "";
    int64_t counted = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        counted += parts[i].count;
    }
    if (counted == 0) {
        bt_str_format(out, "None of the paper's claims could be tested on %s",
                      bt_report_device(set));
        return;
    }
    bt_str_format(out, "Of %s that the paper makes claims about, ",
                  bt_format_items(counted, "measurement").text);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].count > 0) {
            bt_str_format(out, "%s%lld %s", comma, (long long)parts[i].count, parts[i].words);
            comma = ", ";
        }
    }
    say_devices(set, out);
}

static void say_pairs(const report_set *set, const ratio_list *list, bt_str *out)
{
    const bt_store_run *run = list->run;
    int64_t ahead = 0, wide = 0;
    for (int64_t i = 0; i < list->count; i++) {
        ahead += list->rows[i].ratio > 1.0;
        wide += list->rows[i].wide;
    }
    bt_str_format(out, "%s (%s) %s: ", run->info.suite.name, run->info.suite.profile,
                  verbs[run->status]);
    if (list->count == 0) {
        bt_str_format(out, "%s and %s have no round in common", list->base, list->other);
    } else {
        bt_str_format(out, "%s is faster than %s in %lld of %lld cases, %s on average",
                      list->more_is_slower ? list->other : list->base,
                      list->more_is_slower ? list->base : list->other,
                      (long long)(list->more_is_slower ? list->count - ahead : ahead),
                      (long long)list->count,
                      bt_format_ratio(bt_ratios_mean(list->rows, list->count).value).text);
    }
    if (wide > 0) {
        bt_str_format(out, " (%lld of one round with a wide interval)", (long long)wide);
    }
    say_devices(set, out);
}

static const struct {
    const char *kind;
    void (*say)(const report_set *set, const ratio_list *list, bt_str *out);
} sayings[] = {
    {"gate", say_changes}, {"ab", say_changes}, {"replicate", say_claims}, {"pairs", say_pairs}};

// ---- what ran ----------------------------------------------------------------------------------

static void say_case(const report_case *item, bt_str *out)
{
    const bt_metric_value *metrics = item->summary.metrics;
    if (strcmp(item->round->what.system, "blutrain") != 0) {
        bt_str_format(out, " with %s", item->round->what.system);
    }
    if (metrics[BT_METRIC_LOSS_LAST].count > 0) {
        bt_str_format(out, ": loss %s \xe2\x86\x92 %s in %s steps",
                      bt_format_value(BT_UNIT_NATS, metrics[BT_METRIC_LOSS_FIRST].value).text,
                      bt_format_value(BT_UNIT_NATS, metrics[BT_METRIC_LOSS_LAST].value).text,
                      bt_format_count(item->round->step_count).text);
    }
    if (metrics[BT_METRIC_TOKENS_PER_S].count > 0) {
        bt_str_format(
            out, ", %s",
            bt_format_value(BT_UNIT_TOKENS_PER_S, metrics[BT_METRIC_TOKENS_PER_S].value).text);
    }
    if (item->round->shape.device[0]) {
        bt_str_format(out, ", %s%son %s%s", item->round->shape.precision,
                      item->round->shape.precision[0] ? " " : "", gpus_text(item).text,
                      item->round->shape.device);
    }
    bt_str_format(out, "%s%s", item->recompute[0] ? ", " : "", item->recompute);
}

// After the status of a single run, "passed" is not repeated.
static void say_passed(const report_set *set, bt_str *out)
{
    const int64_t passed = bt_report_count(set, bt_report_has_passed);
    if (set->run_count == 1 && set->runs[0].status == BT_RUN_PASSED && passed == set->case_count) {
        bt_str_format(out, ": all %lld cases", (long long)passed);
    } else {
        bt_str_format(out, ": %lld of %lld cases passed", (long long)passed,
                      (long long)set->case_count);
    }
}

static void say_fastest(const report_set *set, bt_str *out)
{
    const report_case *best = bt_report_best(set, BT_METRIC_TOKENS_PER_S);
    if (best) {
        double value = best->summary.metrics[BT_METRIC_TOKENS_PER_S].value;
        bt_str_format(out, ", fastest %s with %s on %s%s", best->label,
                      bt_format_value(BT_UNIT_TOKENS_PER_S, value).text, gpus_text(best).text,
                      bt_report_device(set));
    } else {
        say_devices(set, out);
    }
}

const report_case *bt_report_best(const report_set *set, bt_metric metric)
{
    bool higher = bt_metric_info(metric)->direction == BT_DIRECTION_HIGHER;
    const report_case *best = NULL;
    for (int64_t i = 0; i < set->case_count; i++) {
        const bt_metric_value *value = &set->cases[i].summary.metrics[metric];
        double known = best ? best->summary.metrics[metric].value : (double)NAN;
        if (value->count > 0 && isfinite(value->value) &&
            (!best || (higher ? value->value > known : value->value < known))) {
            best = &set->cases[i];
        }
    }
    return best;
}

void bt_report_headline(const report_set *set, bt_str *out)
{
    const bt_store_run *first = &set->runs[0];
    const ratio_list *list = set->run_count == 1 ? bt_report_main_list(set) : NULL;
    bt_str_append(out, set->draft ? "DRAFT: " : "");
    const int64_t at = list ? BT_FIND(sayings, BT_COUNT(sayings), kind, list->kind) : -1;
    if (at >= 0) {
        sayings[at].say(set, list, out);
        bt_str_append(out, ".");
        return;
    }
    if (set->run_count == 1) {
        bt_str_format(out, "%s (%s) %s", first->info.suite.name, first->info.suite.profile,
                      verbs[first->status]);
    } else {
        bool alike = true;
        for (int64_t i = 1; i < set->run_count; i++) {
            alike = alike && strcmp(set->runs[i].info.suite.name, first->info.suite.name) == 0;
        }
        bt_str_format(out, "%lld runs%s%s side by side", (long long)set->run_count,
                      alike ? " of " : "", alike ? first->info.suite.name : "");
    }
    if (set->case_count == 1) {
        say_case(&set->cases[0], out);
    } else {
        say_passed(set, out);
        say_fastest(set, out);
    }
    bt_str_append(out, ".");
}
