// harness/ab/calibrate_print.c - a calibration as a table, and as JSON
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "framework/base/idioms.h"
#include "harness/ab/calibrate.h"
#include "harness/stats/decide_json.h"
#include "harness/text/format.h"
#include "harness/text/table.h"

// ---- text --------------------------------------------------------------------------------------

// "1.9 %"; "-" if unknown.
static bt_text percent(double share)
{
    bt_text out;
    double value = 100 * share;
    if (isnan(value)) {
        (void)snprintf(out.text, sizeof out.text, "-");
    } else if (isinf(value)) {
        (void)snprintf(out.text, sizeof out.text, "over 1000 %%");
    } else {
        int digits = fabs(value) < 1 ? 2 : fabs(value) < 20 ? 1 : 0;
        (void)snprintf(out.text, sizeof out.text, "%.*f %%", digits, value);
    }
    return out;
}

static bt_text interval(double low, double high)
{
    bt_text out = {""};
    if (!isnan(low)) {
        (void)snprintf(out.text, sizeof out.text, "[%.30s, %.30s]", percent(low).text,
                       percent(high).text);
    }
    return out;
}

static bt_status print_table(const bt_calibration_result *result, bt_str *out)
{
    bt_table table = {0};
    bt_table_heads(&table, "case|>time|>pairs|>pairs differ|>b to a|>false alarms|>at "
                           "most|>detects 9 in 10|>at most|>slowed, seen||>detected");
    BT_EACH(const bt_calibrated_case, item, result->items, result->count) {
        const bt_noise_rates *rates = &item->rates;
        bt_table_cells(&table, "%s|%s|%lld|%s|%s|%s|%s|%s|%s|%s|%s|%s", item->name,
                       bt_format_value(BT_UNIT_NS, item->base_ns).text, (long long)rates->pairs,
                       percent(rates->deviation).text, percent(expm1(rates->bias)).text,
                       percent(rates->false_alarm_rate).text, percent(rates->false_alarm_high).text,
                       percent(rates->smallest).text, percent(rates->smallest_high).text,
                       percent(item->seen).text, interval(item->seen_low, item->seen_high).text,
                       percent(item->found).text);
    }
    return bt_table_print(&table, 0, out);
}

static void print_finding(const bt_calibrated_case *item, bt_str *out)
{
    const bt_noise_rates *rates = &item->rates;
    if (item->failed || isnan(rates->false_alarm_rate)) {
        bt_str_format(out,
                      "\n%s   not calibrated (%" PRId64 " of %" PRId64
                      " pairs, in sessions of %" PRId64 " or more)%s%s\n",
                      item->name, rates->pairs, rates->needed, item->rule.looks[0],
                      *item->message ? ": " : "", item->message);
    } else if (item->misses) {
        bt_str_format(out,
                      "\n%s   refused: up to %s of equal builds may be judged slower or faster; "
                      "the policy allows %s (b to a %s on the mean, %s from block to block)\n",
                      item->name, percent(rates->false_alarm_high).text,
                      percent(item->rule.alpha).text, percent(expm1(rates->bias)).text,
                      percent(rates->block_deviation).text);
    } else if (item->coarse) {
        bt_str_format(out,
                      "\n%s   refused: a slowdown below %s may be detected fewer than nine times "
                      "in ten; the tolerance is %s\n",
                      item->name, percent(rates->smallest_high).text,
                      percent(item->rule.tolerance).text);
    }
}

// A suggested next step: more pairs if there are too few, another machine or tolerance if refused.
static void print_advice(const bt_calibration_result *result, bt_str *out)
{
    bool few = false, refused = false;
    for (int64_t i = 0; i < result->count; ++i) {
        few = few || isnan(result->items[i].rates.false_alarm_rate);
        refused = refused || result->items[i].misses || result->items[i].coarse;
        print_finding(&result->items[i], out);
    }
    bt_str_format(out, "\n%s, recorded for gates of pairs on this machine   exit %d\n",
                  bt_format_items(result->count, "case").text, bt_calibration_exit_code(result));
    const char *suite = result->run->info.suite.path;
    if (few) {
        bt_str_format(out, "next  bt-bench calibrate %s   (its pairs are added)\n", suite);
    } else if (refused) {
        bt_str_format(out,
                      "next  bt-bench calibrate %s   on other days, its pairs are added; or find "
                      "what disturbs this machine, or widen the tolerance\n",
                      suite);
    } else {
        bt_str_format(out, "next  bt-bench ab REVISION . %s\n", suite);
    }
}

bt_status bt_calibration_text(const bt_calibration_result *result, bt_str *out)
{
    const bt_store_run *run = result->run;
    size_t start = out->length_bytes;
    bt_str_format(out,
                  "run %" PRId64 " of %s: this build against itself, and against itself made "
                  "slower by %s; seed %" PRIu64 "\n\n",
                  run->id, run->info.suite.name,
                  percent(result->count ? result->items[0].injected : (double)NAN).text,
                  run->schedule.seed);
    BT_TRY(print_table(result, out));
    print_advice(result, out);
    return bt_text_end(out, start);
}

// ---- JSON --------------------------------------------------------------------------------------

// JSON has no infinity: if nothing is detected, the value is null and "found_by_none" is set.
static void write_item(const bt_calibrated_case *item, bt_json_writer *json)
{
    const bt_noise_rates *rates = &item->rates;
    bt_json_writer_open(json, NULL, '{');
    BT_JSON(json, BT_OF(item, bench), BT_KV("case", item->name), BT_KV("time_ns", item->base_ns),
            BT_OF(rates, pairs), BT_KV("pairs_needed", rates->needed), BT_OF(rates, sessions),
            BT_KV("pair_deviation", rates->deviation), BT_OF(rates, bias),
            BT_OF(rates, block_deviation), BT_OF(rates, false_alarm_rate),
            BT_OF(rates, false_alarm_high), BT_OF(rates, smallest), BT_OF(rates, smallest_high),
            BT_FLAG("found_by_none", isinf(rates->smallest) != 0), BT_OF(item, injected),
            BT_OF(item, seen), BT_OF(item, seen_low), BT_OF(item, seen_high), BT_OF(item, found),
            BT_OF(item, misses), BT_OF(item, coarse), BT_OF(item, failed), BT_OF(item, message));
    bt_json_writer_open(json, "rule", '{');
    bt_decision_rule_write(&item->rule, json);
    bt_json_writer_close(json, '}');
    bt_json_writer_close(json, '}');
}

bt_status bt_calibration_json(const bt_calibration_result *result, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 2};
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("run", result->run->id), BT_KV("suite", result->run->info.suite.name),
            BT_KV("seed", (int64_t)result->run->schedule.seed),
            BT_KV("exit_code", bt_calibration_exit_code(result)));
    BT_JSON_LIST(&json, "cases", i, result->count) {
        write_item(&result->items[i], &json);
    }
    return bt_json_writer_end(&json, '}');
}
