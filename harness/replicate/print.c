// harness/replicate/print.c - verdicts as text and as JSON
#include <math.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/replicate/replicate.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"
#include "harness/text/wrap.h"

enum { UNTESTED_SHOWN = 8 };

static const char *device_of(const bt_store_run *run)
{
    for (int64_t i = 0; i < run->round_count; ++i) {
        if (run->rounds[i].shape.device && run->rounds[i].shape.device[0]) {
            return run->rounds[i].shape.device;
        }
    }
    return "an unknown device";
}

// Tested claims, one row each; ratios are our advantages.
static bt_status print_tested(const bt_replications *replications, int columns, bt_str *out)
{
    bt_table table = {0};
    bt_table_heads(&table, "claim|<|>paper|>here~95 %%|verdict|<");
    bt_table_fit(&table, columns, "");
    BT_EACH(const bt_replication, item, replications->items, replications->count) {
        if (item->verdict == BT_VERDICT_NOT_TESTABLE) {
            continue;
        }
        bt_table_cells(&table, "%s|%s|%s|%s~%s|%s|%s%s%s", item->subject, item->title,
                       bt_format_ratio(item->claimed).text, bt_format_ratio(item->ratio).text,
                       isnan(item->low) ? "" : bt_textf("[%.3f, %.3f]", item->low, item->high).text,
                       bt_verdict_name(item->verdict), *item->deviations ? "* " : "", item->reason,
                       item->counted   ? ""
                       : *item->reason ? "; not counted"
                                       : "not counted");
    }
    return bt_table_print(&table, 2, out);
}

// Deviations of the marked claims' cases, each text once.
static void print_deviations(const bt_replications *replications, bt_str *out)
{
    for (int64_t i = 0; i < replications->count; ++i) {
        const bt_replication *item = &replications->items[i];
        bool first = *item->deviations && item->verdict != BT_VERDICT_NOT_TESTABLE;
        for (int64_t j = 0; j < i && first; ++j) {
            const bt_replication *other = &replications->items[j];
            first = other->verdict == BT_VERDICT_NOT_TESTABLE ||
                    strcmp(other->deviations, item->deviations) != 0;
        }
        if (first) {
            bt_str_format(out, "\n  * deviates from the paper: %s\n", item->deviations);
        }
    }
}

// The first claims of the run's suite that could not be tested for this reason.
static void name_untested(const bt_claims *claims, const bt_store_run *run,
                          const bt_replications *replications, const char *reason, bt_str *out)
{
    const char *suite = run->info.suite.name ? run->info.suite.name : "";
    int64_t named = 0;
    for (int64_t i = 0; i < replications->count; ++i) {
        const bt_replication *item = &replications->items[i];
        if (item->verdict == BT_VERDICT_NOT_TESTABLE && strcmp(item->reason, reason) == 0 &&
            bt_claim_is_of_suite(&claims->items[i], suite) && ++named <= UNTESTED_SHOWN) {
            bt_str_format(out, "%s%s", named == 1 ? "       of this suite: " : ", ", item->subject);
        }
    }
    if (named > UNTESTED_SHOWN) {
        bt_str_format(out, ", and %lld more (--format json lists all)",
                      (long long)(named - UNTESTED_SHOWN));
    }
    bt_str_append(out, named ? "\n" : "");
}

// Number of claims that could not be tested, by reason.
static void print_untested(const bt_claims *claims, const bt_store_run *run,
                           const bt_replications *replications, bt_str *out)
{
    for (int64_t i = 0; i < replications->count; ++i) {
        const bt_replication *item = &replications->items[i];
        int64_t count = 0;
        bool first = item->verdict == BT_VERDICT_NOT_TESTABLE;
        for (int64_t j = 0; j < replications->count && first; ++j) {
            const bt_replication *other = &replications->items[j];
            bool same = other->verdict == BT_VERDICT_NOT_TESTABLE &&
                        strcmp(other->reason, item->reason) == 0;
            first = !(same && j < i);
            count += same;
        }
        if (first) {
            bt_str_format(out, "  %4lld not testable here: %s\n", (long long)count, item->reason);
            name_untested(claims, run, replications, item->reason, out);
        }
    }
}

bt_status bt_replications_text(const bt_claims *claims, const bt_store_run *run,
                               const bt_replications *replications, int columns, bt_str *out)
{
    size_t start = out->length_bytes;
    const int64_t *verdicts = replications->verdicts;
    bt_str_format(out, "%s on %s, run %lld (the paper measured kernels on one RTX 6000 Ada)\n",
                  bt_json_text_of(claims->json->root, "paper"), device_of(run), (long long)run->id);
    if (verdicts[BT_VERDICT_NOT_TESTABLE] < replications->count) {
        bt_str_append(out, "ratios are advantages: more than 1 where BluTrain is better\n\n");
        BT_TRY(print_tested(replications, columns, out));
        print_deviations(replications, out);
    }
    bt_str_append(out, "\n");
    print_untested(claims, run, replications, out);
    static const char *const words[] = {
#define VERDICT_WORDS(name, word, text) text,
        BT_VERDICT_LIST(VERDICT_WORDS)
#undef VERDICT_WORDS
    };
    for (int i = 0; i <= BT_VERDICT_NOT_TESTABLE; ++i) { // the others only in old records
        bt_str_format(out, "%s%lld %s", i ? " \xc2\xb7 " : "\n", (long long)verdicts[i], words[i]);
    }
    bt_str_append(out, "; claims about one measurement count once\n");
    bt_wrap_from(out, start, columns);
    return bt_text_end(out, start);
}

bt_status bt_replications_json(const bt_claims *claims, const bt_store_run *run,
                               const bt_replications *replications, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 2};
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("paper", bt_json_text_of(claims->json->root, "paper")),
            BT_KV("url", bt_json_text_of(claims->json->root, "url")), BT_KV("run", run->id),
            BT_KV("device", device_of(run)));
    BT_JSON_LIST(&json, "claims", i, replications->count) {
        const bt_replication *item = &replications->items[i];
        BT_JSON_OBJECT(&json, NULL, BT_KV("id", item->subject), BT_OF(item, title),
                       BT_OF(item, counted), BT_KV("case", item->case_name), BT_OF(item, other),
                       BT_KV("metric", bt_metric_info(item->metric)->tag),
                       BT_KV("verdict", bt_verdict_name(item->verdict)), BT_OF(item, claimed),
                       BT_OF(item, margin), BT_OF(item, ratio), BT_OF(item, low), BT_OF(item, high),
                       BT_OF(item, pairs), BT_OF(item, reason), BT_OF(item, deviations));
    }
    return bt_json_writer_end(&json, '}');
}
