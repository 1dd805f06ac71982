// harness/ab/calibrate_print.c - a calibration as a table, and as JSON
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "harness/ab/calibrate.h"
#include "harness/stats/decide_json.h"
#include "harness/text/format.h"
#include "harness/text/table.h"

// ---- text --------------------------------------------------------------------------------------

// "1.9 %"; "-" where it is not known.
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
    bt_table table = {.align = "lrrrrrrrrrlr"};
    static const char *const heads[] = {"case",    "time",         "pairs",   "pairs differ",
                                        "b to a",  "false alarms", "at most", "finds 9 in 10",
                                        "at most", "slowed, seen", "",        "found"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; ++i) {
        bt_table_cell(&table, "%s", heads[i]);
    }
    for (int64_t i = 0; i < result->count; ++i) {
        const bt_calibrated_case *item = &result->items[i];
        const bt_noise_rates *rates = &item->rates;
        bt_table_cell(&table, "%s", item->name);
        bt_table_cell(&table, "%s", bt_format_value(BT_UNIT_NS, item->base_ns).text);
        bt_table_cell(&table, "%" PRId64, rates->pairs);
        bt_table_cell(&table, "%s", percent(rates->deviation).text);
        bt_table_cell(&table, "%s", percent(expm1(rates->bias)).text);
        bt_table_cell(&table, "%s", percent(rates->false_alarm_rate).text);
        bt_table_cell(&table, "%s", percent(rates->false_alarm_high).text);
        bt_table_cell(&table, "%s", percent(rates->smallest).text);
        bt_table_cell(&table, "%s", percent(rates->smallest_high).text);
        bt_table_cell(&table, "%s", percent(item->seen).text);
        bt_table_cell(&table, "%s", interval(item->seen_low, item->seen_high).text);
        bt_table_cell(&table, "%s", percent(item->found).text);
    }
    bt_status status = bt_table_print(&table, 0, out);
    bt_table_release(&table);
    return status;
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
        bt_str_format(
            out,
            "\n%s   refused: it cannot be excluded that %s of equal builds are called "
            "slower or faster; declared: at most %s (b to a %s on the mean, %s from block "
            "to block)\n",
            item->name, percent(rates->false_alarm_high).text, percent(item->rule.alpha).text,
            percent(expm1(rates->bias)).text, percent(rates->block_deviation).text);
    } else if (item->coarse) {
        bt_str_format(out,
                      "\n%s   refused: it is not sure to find a slowdown below %s nine times in "
                      "ten; the tolerance is %s\n",
                      item->name, percent(rates->smallest_high).text,
                      percent(item->rule.tolerance).text);
    }
}

// What to do: more pairs where there are too few, another machine or tolerance where it is refused.
static void print_advice(const bt_calibration_result *result, bt_str *out)
{
    bool few = false, refused = false;
    for (int64_t i = 0; i < result->count; ++i) {
        few = few || isnan(result->items[i].rates.false_alarm_rate);
        refused = refused || result->items[i].misses || result->items[i].coarse;
        print_finding(&result->items[i], out);
    }
    bt_str_format(out,
                  "\n%" PRId64 " case%s, recorded for gates of pairs on this machine   exit %d\n",
                  result->count, result->count == 1 ? "" : "s", bt_calibration_exit_code(result));
    const char *suite = result->run->info.suite.path;
    if (few) {
        bt_str_format(out, "next  bt-bench calibrate %s   (its pairs are added)\n", suite);
    } else if (refused) {
        bt_str_format(out,
                      "next  bt-bench calibrate %s   on other days, its pairs are added; else find "
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
    BT_TRY(bt_str_status(out));
    bt_text_make_printable(out->text + start);
    return BT_OK;
}

// ---- JSON --------------------------------------------------------------------------------------

// JSON has no infinity: what is not found at all is null, with "found_by_none" saying so.
static void write_item(const bt_calibrated_case *item, bt_json_writer *json)
{
    const bt_noise_rates *rates = &item->rates;
    bt_json_writer_open(json, NULL, '{');
    bt_json_writer_text(json, "bench", item->bench);
    bt_json_writer_text(json, "case", item->name);
    bt_json_writer_real(json, "time_ns", item->base_ns);
    bt_json_writer_integer(json, "pairs", rates->pairs);
    bt_json_writer_integer(json, "pairs_needed", rates->needed);
    bt_json_writer_integer(json, "sessions", rates->sessions);
    bt_json_writer_real(json, "pair_deviation", rates->deviation);
    bt_json_writer_real(json, "bias", rates->bias);
    bt_json_writer_real(json, "block_deviation", rates->block_deviation);
    bt_json_writer_real(json, "false_alarm_rate", rates->false_alarm_rate);
    bt_json_writer_real(json, "false_alarm_high", rates->false_alarm_high);
    bt_json_writer_real(json, "smallest", rates->smallest);
    bt_json_writer_real(json, "smallest_high", rates->smallest_high);
    bt_json_writer_bool(json, "found_by_none", isinf(rates->smallest) != 0);
    bt_json_writer_real(json, "injected", item->injected);
    bt_json_writer_real(json, "seen", item->seen);
    bt_json_writer_real(json, "seen_low", item->seen_low);
    bt_json_writer_real(json, "seen_high", item->seen_high);
    bt_json_writer_real(json, "found", item->found);
    bt_json_writer_bool(json, "misses", item->misses);
    bt_json_writer_bool(json, "coarse", item->coarse);
    bt_json_writer_bool(json, "failed", item->failed);
    bt_json_writer_text(json, "message", item->message);
    bt_json_writer_open(json, "rule", '{');
    bt_decision_rule_write(&item->rule, json);
    bt_json_writer_close(json, '}');
    bt_json_writer_close(json, '}');
}

bt_status bt_calibration_json(const bt_calibration_result *result, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 2};
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_integer(&json, "run", result->run->id);
    bt_json_writer_text(&json, "suite", result->run->info.suite.name);
    bt_json_writer_integer(&json, "seed", (int64_t)result->run->schedule.seed);
    bt_json_writer_integer(&json, "exit_code", bt_calibration_exit_code(result));
    bt_json_writer_open(&json, "cases", '[');
    for (int64_t i = 0; i < result->count; ++i) {
        write_item(&result->items[i], &json);
    }
    bt_json_writer_close(&json, ']');
    return bt_json_writer_end(&json, '}');
}
