// tests/harness/test_compare.c - two runs side by side; how numbers and tables look
#include "tests/support/test.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/compare/compare.h"
#include "harness/suite/utf8.h"
#include "harness/text/escape.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"
#include "harness/text/wrap.h"
#include "tests/harness/sample_run.h"
#include "tests/harness/scratch_store.h"

static int64_t record(const sample_run *sample)
{
    int64_t run = 0;
    ASSERT_OK(sample_run_record(scratch_store, sample, &run));
    return run;
}

static void equal_runs_are_bitwise_equal(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    int64_t left = record(&sample), right = record(&sample);
    bt_comparison both;
    ASSERT_OK(bt_compare_runs(scratch_store, left, right, &both));
    assert_int_equal(both.pair_count, 1);
    assert_int_equal(both.alone_count, 0);
    assert_int_equal(both.item_count, 0);
    assert_false(both.hard_differs);
    assert_int_equal(both.pairs[0].loss.shared, 60);
    assert_true(both.pairs[0].loss.bitwise_equal);
    assert_int_equal(both.pairs[0].loss.first_step, -1);
    assert_true(both.pairs[0].digests_equal);
    bt_comparison_release(&both);
    bt_str text = {0};
    ASSERT_OK(bt_compare_text(scratch_store, left, right, 0, &text, NULL));
    assert_non_null(strstr(bt_str_text(&text), "bitwise equal over 60 steps"));
    assert_non_null(strstr(bt_str_text(&text), "plan, build and environment are the same"));
    bt_str_release(&text);
}

static void differences_are_found_and_named(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    sample.cases[1] = "bf16";
    int64_t left = record(&sample);
    sample.cases[1] = "tf32";
    sample.loss_shift = 0.25;
    sample.step_ms = 125.0;
    sample.steps = 40;
    sample.fact = "570.1";
    sample.device = "another machine";
    sample.plan_json =
        "{\"train\":{\"steps\":40,\"seed\":1337},\"model\":{\"layers\":12},\"x\":[1]}";
    int64_t right = record(&sample);
    bt_comparison both;
    ASSERT_OK(bt_compare_runs(scratch_store, left, right, &both));
    assert_int_equal(both.pair_count, 1);
    assert_int_equal(both.alone_count, 2);
    const bt_compare_pair *pair = &both.pairs[0];
    assert_string_equal(pair->left->what.name, "fp32");
    assert_int_equal(pair->loss.shared, 40);
    assert_false(pair->loss.bitwise_equal);
    assert_int_equal(pair->loss.first_step, 1); // another length bends the curve from there on
    assert_false(pair->digests_equal);
    assert_true(both.hard_differs);
    static const char *const keys[] = {"train.steps", "model.width", "x", "cpu.model",
                                       "gpu.driver"};
    assert_int_equal(both.item_count, 5);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(both.items[i].key, keys[i]);
    }
    assert_string_equal(both.items[0].left, "60");
    assert_string_equal(both.items[0].right, "40");
    assert_string_equal(both.items[1].right, "");
    double left_time = pair->left_summary.metrics[BT_METRIC_STEP_TIME].value;
    double right_time = pair->right_summary.metrics[BT_METRIC_STEP_TIME].value;
    assert_true(fabs(right_time / left_time - 0.5) <= 0.01);
    bt_comparison_release(&both);
    bt_str text = {0};
    ASSERT_OK(bt_compare_text(scratch_store, left, right, 0, &text, NULL));
    assert_null(strstr(bt_str_text(&text), "better")); // one round a side shows no tendency
    assert_non_null(strstr(bt_str_text(&text), "speeds are not comparable"));
    assert_non_null(strstr(bt_str_text(&text), "\nonly in run 1: bf16\n"));
    assert_non_null(strstr(bt_str_text(&text), "\nonly in run 2: tf32\n"));
    bt_str_clear(&text);
    ASSERT_OK(bt_compare_json(scratch_store, left, right, &text, NULL));
    cJSON *json = cJSON_Parse(bt_str_text(&text));
    assert_non_null(json);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "differs")), 5);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(json, "hard_facts_differ")));
    cJSON_Delete(json);
    bt_str_release(&text);
    bt_comparison none;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no run 9",
                 bt_compare_runs(scratch_store, left, 9, &none));
}

static void rounds_of_a_case_are_one_pair(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    sample.rounds = 8;
    int64_t left = record(&sample);
    sample.step_ms = 125.0;
    sample.rounds = 6;
    int64_t right = record(&sample);
    bt_comparison both;
    ASSERT_OK(bt_compare_runs(scratch_store, left, right, &both));
    assert_int_equal(both.pair_count, 1);
    assert_int_equal(both.alone_count, 0);
    const bt_compare_pair *pair = &both.pairs[0];
    assert_int_equal(pair->left_side.count, 8);
    assert_int_equal(pair->right_side.count, 6);
    const bt_metric_value *time = &pair->left_summary.metrics[BT_METRIC_STEP_TIME];
    assert_int_equal(time->count, 8);
    // The middle of the rounds, not the first of them.
    double values[8];
    for (int i = 0; i < 8; ++i) {
        ASSERT_OK(bt_summary_time(pair->left_side.rounds[i], &values[i]));
    }
    bt_stats stats;
    ASSERT_OK(bt_stats_of(values, 8, &stats));
    assert_true(time->value == stats.median && time->low == stats.low);
    bt_comparison_release(&both);
    bt_str text = {0};
    ASSERT_OK(bt_compare_text(scratch_store, left, right, 0, &text, NULL));
    assert_non_null(strstr(bt_str_text(&text), "better"));
    assert_non_null(strstr(bt_str_text(&text), "rounds                8, 0 disturbed / 6, 0"));
    assert_null(strstr(bt_str_text(&text), "only in run"));
    bt_str_release(&text);
}

static void plans_that_are_no_json_are_compared_whole(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    int64_t left = record(&sample);
    sample.steps = 61; // another plan, so another hash
    sample.plan_json = "steps: 61";
    int64_t right = record(&sample);
    bt_comparison both;
    ASSERT_OK(bt_compare_runs(scratch_store, left, right, &both));
    assert_int_equal(both.item_count, 1);
    assert_string_equal(both.items[0].key, "text");
    assert_string_equal(both.items[0].right, "steps: 61");
    bt_comparison_release(&both);
}

static void cases_of_plans_are_compared_by_name(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    sample.plan_json =
        "{\"cases\":[{\"name\":\"a\",\"steps\":[1,2]},{\"name\":\"b\",\"steps\":3}]}";
    int64_t left = record(&sample);
    sample.steps = 61; // another plan, so another hash
    sample.plan_json = "{\"cases\":[{\"name\":\"b\",\"steps\":4},{\"name\":\"c\"},"
                       "{\"name\":\"a\",\"steps\":[1,5]}]}";
    int64_t right = record(&sample);
    static const char *const expected[][3] = {{"cases[a].steps[1]", "2", "5"},
                                              {"cases[b].steps", "3", "4"},
                                              {"cases[c]", "", "{\"name\":\"c\"}"}};
    bt_comparison both;
    ASSERT_OK(bt_compare_runs(scratch_store, left, right, &both));
    assert_int_equal(both.item_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(both.items[i].key, expected[i][0]);
        assert_string_equal(both.items[i].left, expected[i][1]);
        assert_string_equal(both.items[i].right, expected[i][2]);
    }
    bt_comparison_release(&both);
}

static void curves_by_hand(void **state)
{
    (void)state;
    bt_store_step a[] = {{.step = 0, .loss = 3.0F},
                         {.step = 1, .loss = 2.0F},
                         {.step = 2, .loss = 1.0F},
                         {.step = 5, .loss = 0.0F}};
    bt_store_step b[] = {{.step = 1, .loss = 2.5F},
                         {.step = 2, .loss = 1.0F},
                         {.step = 3, .loss = 1.0F},
                         {.step = 5, .loss = -0.0F}};
    bt_store_round left = {.steps = a, .step_count = 4}, right = {.steps = b, .step_count = 4};
    bt_curve_difference found;
    bt_curve_compare(&left, &right, &found);
    assert_int_equal(found.shared, 3);
    assert_int_equal(found.first_step, 1);
    assert_int_equal(found.max_step, 1);
    assert_true(found.max_difference == 0.5);
    b[1].loss = NAN; // one side only: as far apart as can be
    b[3].loss = 100.0F;
    bt_curve_compare(&left, &right, &found);
    assert_true(isnan(found.max_difference));
    assert_int_equal(found.max_step, 2);
    a[2].loss = b[1].loss; // the same NaN on both sides is equal
    a[1].loss = b[0].loss;
    a[3].loss = 0.0F;
    b[3].loss = -0.0F; // equal in value, not in bits
    bt_curve_compare(&left, &right, &found);
    assert_false(found.bitwise_equal);
    assert_int_equal(found.first_step, 5);
    assert_true(found.max_difference == 0.0);
    right.step_count = 0;
    bt_curve_compare(&left, &right, &found);
    assert_false(found.bitwise_equal); // nothing in common is not equality
}

static void numbers_have_three_digits_and_a_unit(void **state)
{
    (void)state;
    static const struct {
        bt_unit unit;
        double value;
        const char *text;
    } rows[] = {
        {BT_UNIT_NS, 27140.0, "27.1 us"},
        {BT_UNIT_NS, 999960.0, "1.00 ms"},
        {BT_UNIT_NS, 1.9e9, "1.90 s"},
        {BT_UNIT_NS, 312e9, "5 min 12 s"},
        {BT_UNIT_NS, 7500e9, "2 h 05 min"},
        {BT_UNIT_NS, 1e300, "2.78e+287 h"}, // no integer holds its seconds
        {BT_UNIT_NS, 0.0, "0 ns"},
        {BT_UNIT_BYTES, 2576980378.0, "2.40 GiB"},
        {BT_UNIT_BYTES, 17.0, "17.0 B"},
        {BT_UNIT_TOKENS_PER_S, 213.4, "213 tok/s"},
        {BT_UNIT_TOKENS_PER_S, 9870.0, "9870 tok/s"},
        {BT_UNIT_TOKENS_PER_S, 412345.0, "412K tok/s"},
        {BT_UNIT_BYTES_PER_S, 3.71e12, "3.71 TB/s"},
        {BT_UNIT_FLOP_PER_S, 799e12, "799 TFLOP/s"},
        {BT_UNIT_NATS, 10.9912, "10.991"},
        {BT_UNIT_NATS, (double)NAN, "-"},
        {BT_UNIT_NATS, (double)INFINITY, "inf"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(bt_format_value(rows[i].unit, rows[i].value).text, rows[i].text);
    }
    bt_text number, interval;
    bt_format_interval(BT_UNIT_TOKENS_PER_S, 213.41, 212.83, 213.94, &number, &interval);
    assert_string_equal(number.text, "213.4 tok/s");
    assert_string_equal(interval.text, "[212.8, 213.9]");
    bt_format_interval(BT_UNIT_TOKENS_PER_S, 213.4, 100.0, 300.0, &number, &interval);
    assert_string_equal(number.text, "213 tok/s");
    assert_string_equal(interval.text, "[100, 300]");
    bt_format_interval(BT_UNIT_NS, 1e6, (double)NAN, 2e6, &number, &interval);
    assert_string_equal(interval.text, "");
    assert_string_equal(bt_format_count(124475904).text, "124,475,904");
    assert_string_equal(bt_format_count(-1234).text, "-1,234");
    assert_string_equal(bt_format_count(12).text, "12");
    assert_string_equal(bt_format_ratio(1.0034).text, "1.003x");
    assert_string_equal(bt_format_ratio(3.2612).text, "3.26x");
    assert_string_equal(bt_format_ratio((double)NAN).text, "-");
    assert_string_equal(bt_format_date(1795191845000000000).text, "2026-11-20 16:24:05 UTC");
}

static void fill(bt_table *table)
{
    *table = (bt_table){.name = {"n<"}, .row_id = {"r-"}, .shown = 2};
    bt_table_heads(table, "name|>µs~95 %%|");
    bt_table_cells(table, "%s|%.2s~%s|%s", "x|~", "1000", "[1, 2]", "note*");
    bt_table_cells(table, "y|2|");
    bt_html(bt_table_part(table, BT_CELL_MARKUP), "<b>%s</b>", "<");
    bt_table_cells(table, "z");
    bt_table_interval(table, BT_UNIT_NS, 1500, 1400, 1600);
    bt_table_cells(table, "=1+1");
}

static void a_table_is_written_in_each_form(void **state)
{
    (void)state;
    bt_table table;
    bt_str out = {0};
    fill(&table);
    ASSERT_OK(bt_table_print(&table, 2, &out));
    assert_string_equal(bt_str_text(&out), "  name       µs  95 %\n"
                                           "  x|~        10  [1, 2]        note*\n"
                                           "  y           2\n"
                                           "  z     1.50 us  [1.40, 1.60]  =1+1\n");
    bt_str_clear(&out);
    fill(&table);
    bt_table_markdown(&table, &out);
    assert_string_equal(bt_str_text(&out), "| name | µs |  |\n|---|--:|---|\n"
                                           "| x\\|\\~ | 10 [1, 2] | note\\* |\n| y | 2 |  |\n"
                                           "| z | 1.50 us [1.40, 1.60] | =1+1 |\n");
    bt_str_clear(&out);
    fill(&table);
    bt_table_html(&table, &out);
    assert_string_equal(
        bt_str_text(&out),
        "<div class=scroll><table data-name=\"n&lt;\" data-csv=\"csv-n&lt;\" data-rows=\"r-\">"
        "<thead><tr><th>name<th class=n>µs<th class=n>95 %<th></thead><tbody>\n"
        "<tr id=\"r-x|~\"><th scope=row><a href=\"#r-x|~\">x|~</a></th><td class=n>10"
        "<td class=n>[1, 2]<td>note*\n"
        "<tr id=\"r-z\"><th scope=row><a href=\"#r-z\">z</a></th><td class=n data-v=\"1500\">"
        "1.50 us<td class=n>[1.40, 1.60]<td>=1+1\n"
        "</tbody></table></div>\n<script type=\"text/csv\" id=\"csv-n&lt;\">\n"
        "name,µs,\nx|~,10,note*\ny,2,\nz,1.50 us,'=1+1\n</script>\n");
    bt_str_release(&out);
}

// The table of fill() with another column, printed in a terminal of this width.
static void assert_fitted(int width, const char *least, const char *expected)
{
    bt_table table = {0};
    bt_str out = {0};
    bt_table_heads(&table, "case|>time~95 %%|>rate|kernel");
    bt_table_fit(&table, width, least);
    bt_table_cells(&table, "layernorm|10 us~[9, 11]|3 GB/s|cpu_f32");
    bt_table_cells(&table, "|12 us~[9, 15]||"); // as of a second system
    ASSERT_OK(bt_table_print(&table, 2, &out));
    assert_string_equal(bt_str_text(&out), expected);
    bt_str_release(&out);
}

static void a_table_is_fitted_to_the_terminal(void **state)
{
    (void)state;
    const char *all = "  case        time  95 %       rate  kernel\n"
                      "  layernorm  10 us  [9, 11]  3 GB/s  cpu_f32\n"
                      "             12 us  [9, 15]\n";
    assert_fitted(0, "kernel|rate", all);
    assert_fitted(44, "kernel|rate", all);
    assert_fitted(43, "kernel|rate",
                  "  case        time  95 %       rate\n"
                  "  layernorm  10 us  [9, 11]  3 GB/s\n"
                  "             12 us  [9, 15]\n");
    assert_fitted(30, "kernel|rate",
                  "  case        time  95 %\n"
                  "  layernorm  10 us  [9, 11]\n"
                  "             12 us  [9, 15]\n");
    // Times and intervals stay, on lines of their own.
    assert_fitted(26, "kernel|rate",
                  "  case\n"
                  "     time  95 %\n"
                  "  layernorm\n"
                  "    10 us  [9, 11]\n"
                  "    12 us  [9, 15]\n");
    assert_fitted(40, "",
                  "  case\n"
                  "     time  95 %       rate  kernel\n"
                  "  layernorm\n"
                  "    10 us  [9, 11]  3 GB/s  cpu_f32\n"
                  "    12 us  [9, 15]\n");
    // Each cell has a line.
    assert_fitted(26, "rate",
                  "  case  layernorm\n"
                  "    time    10 us  [9, 11]\n"
                  "    kernel  cpu_f32\n"
                  "    time    12 us  [9, 15]\n");
}

// Two texts in a terminal of this width.
static void assert_folded(int width, const char *least, const char *expected)
{
    bt_table table = {0};
    bt_str out = {0};
    bt_table_heads(&table, ">run|<note|status|<reason");
    bt_table_fit(&table, width, least);
    bt_table_cells(&table, "%d|without the fused epilogue|passed|%s", 12, "fast \xc2\xb5s");
    bt_table_cells(&table, "%d||failed|%s", 3, "abcdefghijklmnopqrstuvwxyz123");
    ASSERT_OK(bt_table_print(&table, 0, &out));
    assert_string_equal(bt_str_text(&out), expected);
    bt_str_release(&out);
}

static void texts_of_a_table_continue_on_further_lines(void **state)
{
    (void)state;
    const char *all = "run  note                        status  reason\n"
                      " 12  without the fused epilogue  passed  fast \xc2\xb5s\n"
                      "  3                              failed  abcdefghijklmnopqrstuvwxyz123\n";
    assert_folded(0, "status", all);
    assert_folded(70, "status", all);
    assert_folded(60, "status",
                  "run  note                   status  reason\n"
                  " 12  without the fused      passed  fast \xc2\xb5s\n"
                  "     epilogue\n"
                  "  3                         failed  abcdefghijklmnopqrstuvwx\n"
                  "                                    yz123\n");
    // A column has to go.
    assert_folded(48, "status",
                  "run  note               reason\n"
                  " 12  without the fused  fast \xc2\xb5s\n"
                  "     epilogue\n"
                  "  3                     abcdefghijklmnopqrstuvwx\n"
                  "                        yz123\n");
    // Nor does this suffice.
    assert_folded(30, "status",
                  "run  12\n"
                  "  note    without the fused\n"
                  "          epilogue\n"
                  "  reason  fast \xc2\xb5s\n"
                  "run  3\n"
                  "  reason\n"
                  " abcdefghijklmnopqrstuvwxyz123\n");
}

// A newline would make what follows look like another cell.
static void lines_of_a_cell_are_joined_in_a_list(void **state)
{
    (void)state;
    bt_table table = {0};
    bt_str out = {0};
    bt_table_heads(&table, "run|<note|host");
    bt_table_fit(&table, 30, "");
    bt_table_cells(&table, "12|%s|%s", "first\nsecond, which is long enough",
                   "a-host-name-of-26-letters-");
    ASSERT_OK(bt_table_print(&table, 0, &out));
    assert_string_equal(bt_str_text(&out), "run  12\n"
                                           "  note  first second, which is\n"
                                           "        long enough\n"
                                           "  host\n"
                                           "    a-host-name-of-26-letters-\n");
    bt_str_release(&out);
}

static void assert_wrapped(const char *text, int columns, int indent, const char *expected)
{
    bt_str out = {0};
    bt_wrap_text(text, columns, indent, &out);
    ASSERT_OK(bt_str_status(&out));
    assert_string_equal(bt_str_text(&out), expected);
    bt_str_release(&out);
}

static void lines_are_broken_at_words(void **state)
{
    (void)state;
    assert_wrapped("one two three\n\nfour", 0, BT_WRAP_LABEL, "one two three\n\nfour");
    assert_wrapped("one two three\n\nfour", 8, BT_WRAP_LABEL, "one two\nthree\n\nfour");
    assert_wrapped("one two three", 13, BT_WRAP_LABEL, "one two three");
    assert_wrapped("  note    one two three\n", 20, BT_WRAP_LABEL,
                   "  note    one two\n          three\n");
    assert_wrapped("usage: one two three\n", 16, BT_WRAP_LABEL, "usage: one two\n       three\n");
    assert_wrapped("  one two three\n", 10, BT_WRAP_LABEL, "  one two\n  three\n");
    assert_wrapped("-a one two three\n", 11, 3, "-a one two\n   three\n");
    // A path or a hash stays whole.
    assert_wrapped("report results/run-1/report.html there\n", 12, BT_WRAP_LABEL,
                   "report\nresults/run-1/report.html\nthere\n");
    assert_wrapped("bits    state:0123456789abcdef  there\n", 24, BT_WRAP_LABEL,
                   "bits\n  state:0123456789abcdef\n        there\n");
    // Nor does it touch its label, where exactly that much room is left.
    assert_wrapped("bits    state:0123456789abcd  there\n", 24, BT_WRAP_LABEL,
                   "bits\n    state:0123456789abcd\n        there\n");
    assert_wrapped("bits    state:0123456789abc  there\n", 24, BT_WRAP_LABEL,
                   "bits state:0123456789abc\n        there\n");
    assert_wrapped("  0123456789ab there\n", 12, BT_WRAP_LABEL, "0123456789ab\n  there\n");
    assert_wrapped("one  two   three\n", 8, 0, "one  two\nthree\n"); // no space ends a line
    assert_wrapped("\xc2\xb5s \xc2\xb5s \xc2\xb5s", 5, BT_WRAP_LABEL,
                   "\xc2\xb5s \xc2\xb5s\n\xc2\xb5s");
}

// All of the differences of two runs are in the table of each width.
static void differences_fit_the_terminal(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    int64_t left = record(&sample);
    sample.fact = "570.124.06 of a distribution with a long name";
    sample.plan_json =
        "{\"train\":{\"steps\":40,\"seed\":1337,\"dataset\":\"some books in English\"}}";
    int64_t right = record(&sample);
    for (int columns = 40; columns <= 120; columns += 20) {
        bt_str text = {0};
        ASSERT_OK(bt_compare_text(scratch_store, left, right, columns, &text, NULL));
        for (const char *line = bt_str_text(&text); *line; line += strcspn(line, "\n") + 1) {
            assert_true(bt_wrap_width(line, strcspn(line, "\n")) <= columns);
        }
        assert_non_null(strstr(bt_str_text(&text), "distribution"));
        bt_str_release(&text);
    }
}

static void json_is_read_back(void **state)
{
    (void)state;
    bt_str out = {0};
    bt_json_writer json = {.out = &out};
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_text(&json, "a\"b", "</script>\n\x01\xff\xc3\xa4\\");
    bt_json_writer_open(&json, "list", '[');
    bt_json_writer_real(&json, NULL, 0.1);
    bt_json_writer_real(&json, NULL, 1.0 / 3.0);
    bt_json_writer_real(&json, NULL, (double)NAN);
    bt_json_writer_rounded(&json, NULL, 1.0 / 3.0, 3);
    bt_json_writer_integer(&json, NULL, INT64_MIN);
    bt_json_writer_close(&json, ']');
    bt_json_writer_bool(&json, "yes", true);
    bt_json_writer_null(&json, "none");
    bt_json_writer_close(&json, '}');
    assert_string_equal(
        bt_str_text(&out),
        "{\"a\\\"b\":\"\\u003c/script>\\n\\u0001\xef\xbf\xbd\xc3\xa4\\\\\",\"list\":"
        "[0.1,0.33333333333333331,null,0.333,-9223372036854775808],\"yes\":true,"
        "\"none\":null}");
    bt_str_release(&out);
    assert_int_equal(bt_utf8_length("\xe2\x82\xac"), 3);
    assert_int_equal(bt_utf8_length("\xed\xa0\x80"), 0); // a surrogate
    assert_int_equal(bt_utf8_length("\xc0\x80"), 0);     // overlong
    assert_int_equal(bt_utf8_length("\xf4\x90\x80\x80"), 0);
    assert_int_equal(bt_utf8_length("\xe2\x82"), 0); // cut short
}

static void failing_allocations_are_reported(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    int64_t left = record(&sample);
    sample.fact = "other";
    sample.plan_json = "{\"train\":1}";
    int64_t right = record(&sample);
    int64_t live = bt_mem_live_count(), n = 0;
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    while (status != BT_OK) {
        bt_str out = {0};
        bt_mem_fail_at(++n);
        status = bt_compare_text(scratch_store, left, right, 0, &out, NULL);
        if (status == BT_OK) {
            status = bt_compare_json(scratch_store, left, right, &out, NULL);
        }
        bt_mem_fail_at(0);
        bt_str_release(&out);
        if (status != BT_OK) {
            assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
        }
        assert_int_equal(bt_mem_live_count(), live);
        assert_true(n < 1000);
    }
    assert_true(n > 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_store_open, scratch_store_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(equal_runs_are_bitwise_equal),
        TEST(differences_are_found_and_named),
        TEST(rounds_of_a_case_are_one_pair),
        TEST(plans_that_are_no_json_are_compared_whole),
        TEST(cases_of_plans_are_compared_by_name),
        cmocka_unit_test(curves_by_hand),
        cmocka_unit_test(numbers_have_three_digits_and_a_unit),
        cmocka_unit_test(a_table_is_written_in_each_form),
        cmocka_unit_test(a_table_is_fitted_to_the_terminal),
        cmocka_unit_test(texts_of_a_table_continue_on_further_lines),
        cmocka_unit_test(lines_of_a_cell_are_joined_in_a_list),
        cmocka_unit_test(lines_are_broken_at_words),
        TEST(differences_fit_the_terminal),
        cmocka_unit_test(json_is_read_back),
        TEST(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
