// harness/report/set.c - the runs of a report, read once, with the names they go by
#include <stdio.h>
#include <string.h>

#include "harness/report/internal.h"

static bool systems_differ(const report_set *set)
{
    for (int64_t i = 1; i < set->case_count; i++) {
        const char *first = set->cases[0].round->what.system;
        if (strcmp(first, set->cases[i].round->what.system) != 0) {
            return true;
        }
    }
    return false;
}

static bt_status make_label(report_set *set, report_case *item, bool with_system)
{
    char text[256];
    void *copy = NULL;
    const bt_store_case *what = &item->round->what;
    int length = 0;
    if (set->run_count > 1) {
        length = snprintf(text, sizeof text, "run %lld, ", (long long)item->run->id);
    }
    (void)snprintf(text + length, sizeof text - (size_t)length, "%s%s%s", what->name,
                   with_system ? ", " : "", with_system ? what->system : "");
    BT_TRY(bt_arena_alloc(&set->arena, strlen(text) + 1, &copy));
    memcpy(copy, text, strlen(text) + 1);
    item->label = copy;
    return BT_OK;
}

static void make_tag(report_case *item, int64_t index)
{
    item->tag[0] = (char)('A' + index % 26);
    if (index >= 26) {
        item->tag[1] = (char)('0' + index / 26 % 10);
    }
}

static bt_status read_cases(report_set *set)
{
    void *block = NULL;
    int64_t total = 0;
    for (int64_t i = 0; i < set->run_count; i++) {
        total += set->runs[i].round_count;
    }
    BT_TRY(bt_arena_alloc(&set->arena, (size_t)total * sizeof *set->cases, &block));
    set->cases = block;
    for (int64_t i = 0; i < set->run_count; i++) {
        for (int64_t j = 0; j < set->runs[i].round_count; j++) {
            report_case *item = &set->cases[set->case_count];
            item->run = &set->runs[i];
            item->round = &set->runs[i].rounds[j];
            make_tag(item, set->case_count++);
            BT_TRY(bt_summary_of(item->round, &item->summary));
        }
    }
    bool with_system = systems_differ(set);
    for (int64_t i = 0; i < set->case_count; i++) {
        BT_TRY(make_label(set, &set->cases[i], with_system));
    }
    return BT_OK;
}

static bt_status read_all(bt_store *store, const int64_t *runs, int64_t count, report_set *out)
{
    void *block = NULL;
    BT_TRY(bt_arena_alloc(&out->arena, (size_t)count * sizeof *out->runs, &block));
    out->runs = block;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < i; j++) {
            if (runs[i] == runs[j]) {
                return bt_error(BT_STATUS_INVALID_ARGUMENT, "run %lld is named twice",
                                (long long)runs[i]);
            }
        }
        BT_TRY(bt_store_run_read(store, runs[i], &out->runs[i]));
        out->run_count++;
    }
    return read_cases(out);
}

bt_status bt_report_set_read(bt_store *store, const int64_t *runs, int64_t count, report_set *out)
{
    memset(out, 0, sizeof *out);
    if (count < 1) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "a report needs at least one run");
    }
    bt_status status = read_all(store, runs, count, out);
    if (status != BT_OK) {
        bt_report_set_release(out);
    }
    return status;
}

void bt_report_set_release(report_set *set)
{
    for (int64_t i = 0; i < set->run_count; i++) {
        bt_store_run_release(&set->runs[i]);
    }
    bt_arena_release(&set->arena);
    memset(set, 0, sizeof *set);
}

static void headline_of_case(const report_case *item, bt_str *out)
{
    const bt_metric_value *metrics = item->summary.metrics;
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
        bt_str_format(out, ", %s on %s", item->round->shape.precision, item->round->shape.device);
    }
}

// The fastest of several, with what it ran on.
static void headline_of_fastest(const report_set *set, bt_str *out)
{
    const report_case *best = NULL;
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *item = &set->cases[i];
        const bt_metric_value *rate = &item->summary.metrics[BT_METRIC_TOKENS_PER_S];
        if (rate->count > 0 &&
            (!best || rate->value > best->summary.metrics[BT_METRIC_TOKENS_PER_S].value)) {
            best = item;
        }
    }
    if (best) {
        double value = best->summary.metrics[BT_METRIC_TOKENS_PER_S].value;
        bt_str_format(out, ", fastest %s with %s on %s", best->label,
                      bt_format_value(BT_UNIT_TOKENS_PER_S, value).text,
                      best->round->shape.device[0] ? best->round->shape.device : "this machine");
    }
}

void bt_report_headline(const report_set *set, bt_str *out)
{
    static const char *const verbs[BT_RUN_STATUS_COUNT] = {
        [BT_RUN_RUNNING] = "is running",
        [BT_RUN_PASSED] = "passed",
        [BT_RUN_FAILED] = "failed",
        [BT_RUN_INTERRUPTED] = "was interrupted",
        [BT_RUN_UNAVAILABLE] = "could not run here",
        [BT_RUN_INVALID] = "was disturbed",
    };
    const bt_store_run *first = &set->runs[0];
    int64_t passed = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        passed += set->cases[i].round->status == BT_RUN_PASSED;
    }
    if (set->run_count == 1) {
        bt_str_format(out, "%s (%s) %s", first->info.suite.name, first->info.suite.profile,
                      verbs[first->status]);
    } else {
        bt_str_format(out, "%lld runs of %s side by side", (long long)set->run_count,
                      first->info.suite.name);
    }
    if (set->case_count == 1) {
        headline_of_case(&set->cases[0], out);
    } else {
        bt_str_format(out, ": %lld of %lld cases passed", (long long)passed,
                      (long long)set->case_count);
        headline_of_fastest(set, out);
    }
    bt_str_append(out, ".");
}
