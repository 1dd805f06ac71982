// harness/report/machine.c - the machine's state during the rounds: lines of `show`, and JSON
#include <math.h>

#include "harness/report/internal.h"
#include "harness/stats/noise.h"

// The message of an invalid round has the reason; for other labels it is computed from the samples.
static void print_label(const bt_store_round *round, bt_str *out)
{
    bt_noise_verdict verdict;
    if (round->label[0]) {
        bt_noise_judge(round->telemetry, round->telemetry_count, &verdict);
        bt_str_format(out, "  noise        %s%s%s\n", round->label, verdict.reason[0] ? ": " : "",
                      verdict.reason);
    }
}

bt_status bt_show_machine(const bt_store_round *round, bt_str *out)
{
    bt_telemetry_summary summary;
    char words[160];
    print_label(round, out);
    BT_TRY(bt_telemetry_summary_of(round, &summary));
    if (summary.busy == 0) {
        return BT_OK;
    }
    bt_throttle_words(summary.throttle & ~(uint64_t)BT_THROTTLE_IDLE, words, sizeof words);
    bt_str_format(out, "  GPU          SM %.0f MHz, memory %.0f MHz, %.0f W, at most %.0f C%s%s",
                  summary.sm_clock_mhz, summary.memory_clock_mhz, summary.power_w,
                  summary.temperature_c, words[0] ? "; clocks reduced by " : "", words);
    if (summary.power_cap_share > 0) {
        bt_str_format(out, " (the power cap in %.0f %% of the busy samples)",
                      100 * summary.power_cap_share);
    }
    bt_str_append(out, "\n");
    return BT_OK;
}

void bt_show_noise(const bt_store_run *run, bt_str *out)
{
    int64_t counts[BT_NOISE_COUNT] = {0}, seen = 0, said = 0;
    for (int64_t i = 0; i < run->round_count; i++) {
        bt_noise noise = BT_NOISE_QUIET;
        seen += run->rounds[i].telemetry_count > 0;
        if (bt_noise_parse(run->rounds[i].label, &noise)) {
            counts[noise]++;
        }
    }
    for (int i = 0; i < BT_NOISE_COUNT; i++) {
        if (i != BT_NOISE_QUIET && counts[i] > 0) {
            bt_str_format(out, "%s%s%s in %lld", said++ ? ", " : "\nnoise          ",
                          bt_noise_name((bt_noise)i),
                          bt_noise_invalidates((bt_noise)i) ? " (invalid)" : "",
                          (long long)counts[i]);
        }
    }
    if (said > 0) {
        bt_str_format(out, " of %s\n", bt_format_items(seen, "round").text);
    }
}

bt_status bt_report_json_machine(bt_json_writer *json, const bt_store_round *round)
{
    bt_telemetry_summary summary;
    bt_noise_verdict verdict;
    char words[160];
    BT_TRY(bt_telemetry_summary_of(round, &summary));
    bt_noise_judge(round->telemetry, round->telemetry_count, &verdict);
    bt_throttle_words(summary.throttle, words, sizeof words);
    bt_json_writer_text(json, "label", round->label);
    BT_JSON_OBJECT(
        json, "machine", BT_KV("samples", round->telemetry_count), BT_KV("noise", verdict.reason),
        BT_OF(&summary, sm_clock_mhz), BT_OF(&summary, memory_clock_mhz), BT_OF(&summary, power_w),
        BT_OF(&summary, temperature_c), BT_KV("throttle", words), BT_OF(&summary, power_cap_share),
        BT_OF(&summary, other_cores), BT_OF(&summary, cost_share));
    return BT_OK;
}

void bt_report_json_telemetry(bt_json_writer *json, const bt_store_round *round)
{
    int indent = json->indent;
    json->indent = 0; // as the steps
    bt_json_writer_open(json, "telemetry_columns", '[');
    for (int i = 0; i < BT_TELEMETRY_COLUMNS; i++) {
        bt_json_writer_text(json, NULL, bt_telemetry_column_info(i)->name);
    }
    bt_json_writer_close(json, ']');
    BT_JSON_LIST(json, "telemetry_rows", i, round->telemetry_count) {
        bt_json_writer_open(json, NULL, '[');
        for (int column = 0; column < BT_TELEMETRY_COLUMNS; column++) {
            bt_json_writer_rounded(json, NULL, bt_telemetry_value(&round->telemetry[i], column), 9);
        }
        bt_json_writer_close(json, ']');
    }
    json->indent = indent;
}
