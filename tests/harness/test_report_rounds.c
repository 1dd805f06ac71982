// tests/harness/test_report_rounds.c - reports of cases whose rounds do not all count, of many
// cases, and of fractions above that of a copy
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/report/curves.h"
#include "harness/report/internal.h"
#include "harness/report/ratios.h"
#include "harness/report/report.h"
#include "tests/harness/sample_kernels.h"
#include "tests/harness/scratch_store.h"

static void assert_has(const char *text, const char *words)
{
    if (!text || !strstr(text, words)) {
        fail_msg("no '%s' in:\n%.2000s", words, text ? text : "");
    }
}

static void assert_lacks(const char *text, const char *words)
{
    const char *found = strstr(text, words);
    if (found) {
        fail_msg("'%s' in: %.200s", words, found);
    }
}

static int64_t begin_run(void)
{
    int64_t run = 0;
    bt_store_run_info info = {.suite = {"1", "tiny", "cpu", "tiny.json", "{}"},
                              .build = {"1", "0.1.0", "1", "", "gcc 12.2.0", "-O3", "Release", ""},
                              .env = {"1", NULL, 0},
                              .command = "bt-bench run tiny",
                              .out_dir = "results/run-1"};
    ASSERT_OK(bt_store_run_begin(scratch_store, &info, &run));
    return run;
}

// A round of the training case "a" with steps of about 10 ms, all of one loss.
static void add_training(int64_t run, int64_t ordinal, int64_t steps, double loss,
                         bt_run_status status)
{
    int64_t round = 0;
    const bt_store_case what = {"tiny", "training", "a", "{}", "blutrain"};
    ASSERT_OK(bt_store_round_begin(scratch_store, run, &what, ordinal, &round));
    for (int64_t i = 0; i < steps; i++) {
        const bt_store_step step = {.step = i,
                                    .loss = (float)loss,
                                    .tokens = 512,
                                    .host_ns = 10000000 + 1000 * (i * 7 % 10)};
        ASSERT_OK(bt_store_step_add(scratch_store, round, &step));
    }
    ASSERT_OK(bt_store_round_end(scratch_store, round, status, "", ""));
}

// A round of a training case on ranks with a rate, and a noise label if the machine was loaded.
static void add_ranks(int64_t run, const char *name, int ranks, double rate_tok_s, bool loaded)
{
    int64_t round = 0;
    char axes[96];
    (void)snprintf(axes, sizeof axes, "{\"train\":{\"tokens_per_step\":64,\"mesh\":{\"data\":%d}}}",
                   ranks);
    const bt_store_case what = {"tiny", "train", name, axes, "blutrain"};
    const bt_store_measurement values[] = {
        {BT_METRIC_TOKENS_PER_S, rate_tok_s, (double)NAN, (double)NAN, NULL, 0},
        {BT_METRIC_STEP_TIME, 2e6, (double)NAN, (double)NAN, NULL, 0},
        {BT_METRIC_EXPOSED, 1e6, (double)NAN, (double)NAN, NULL, 0}};
    ASSERT_OK(bt_store_round_begin(scratch_store, run, &what, 0, &round));
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        ASSERT_OK(bt_store_measure(scratch_store, round, &values[i]));
    }
    ASSERT_OK(
        bt_store_telemetry_set(scratch_store, round, loaded ? "loaded machine" : "", NULL, 0));
    ASSERT_OK(bt_store_round_end(scratch_store, round, BT_RUN_PASSED, "", ""));
}

// A kernel case in a round: its bandwidth as a fraction of a copy's, and FLOP per byte.
static void add_kernel(int64_t run, const char *name, double share, double intensity)
{
    enum { METRICS = 4 };
    int64_t round = 0;
    const bt_store_case what = {"tiny", "kernel", name,
                                "{\"kernel\":{\"op\":\"gelu\",\"direction\":\"forward\",\"dtype\":"
                                "\"f32\",\"shape\":\"4x5\",\"cache\":\"cold\"}}",
                                "blutrain"};
    const bt_metric metrics[METRICS] = {BT_METRIC_TIME, BT_METRIC_BANDWIDTH, BT_METRIC_COPY_SHARE,
                                        BT_METRIC_COMPUTE};
    const double values[METRICS] = {1e3, share * 1e12, share, share * 1e12 * intensity};
    ASSERT_OK(bt_store_round_begin(scratch_store, run, &what, 0, &round));
    for (int i = 0; i < METRICS; i++) {
        const bt_store_measurement item = {metrics[i], values[i],  values[i],
                                           values[i],  &values[i], 1};
        ASSERT_OK(bt_store_measure(scratch_store, round, &item));
    }
    ASSERT_OK(bt_store_round_end(scratch_store, round, BT_RUN_PASSED, "", ""));
}

// A run of one round that was killed in its fifth step, and resumed.
static int64_t record_resumed(void)
{
    const int64_t run = begin_run();
    add_training(run, 0, 5, 1000, BT_RUN_INTERRUPTED);
    add_training(run, 0, 60, 1000, BT_RUN_PASSED);
    ASSERT_OK(bt_store_run_end(scratch_store, run, BT_RUN_PASSED, ""));
    scratch_execute("UPDATE round SET ended_ns=0, seal='' WHERE id=1");
    return run;
}

static void a_resumed_round_has_the_numbers_of_one_round(void **state)
{
    (void)state;
    const int64_t run = record_resumed();
    report_set set;
    ASSERT_OK(bt_report_set_read(scratch_store, &run, 1, NULL, &set));
    assert_int_equal(set.case_count, 1);
    const report_case *item = &set.cases[0];
    assert_int_equal(item->round_count, 2);
    assert_int_equal(bt_report_counted(item), 1);
    assert_true(isfinite(item->summary.metrics[BT_METRIC_TOKENS_PER_S].low));
    assert_memory_equal(&item->summary, &item->summaries[1], sizeof item->summary);
    bt_report_set_release(&set);
    bt_str out = {0};
    ASSERT_OK(bt_report_html(scratch_store, &run, 1, &out));
    assert_has(bt_str_text(&out), "mean of 60; 95 % interval");
    assert_lacks(bt_str_text(&out), "of 1 rounds");
    bt_str_clear(&out);
    ASSERT_OK(bt_report_markdown(scratch_store, &run, 1, &out));
    assert_has(bt_str_text(&out), "| a | passed | 51.177K tok/s [");
    bt_str_release(&out);
}

// The list of cases, and the ratio of two runs, of which the later was resumed.
static void a_repeated_round_is_counted_once(void **state)
{
    (void)state;
    int64_t runs[2] = {begin_run(), 0};
    add_training(runs[0], 0, 60, 1000, BT_RUN_PASSED);
    ASSERT_OK(bt_store_run_end(scratch_store, runs[0], BT_RUN_PASSED, ""));
    runs[1] = begin_run();
    add_training(runs[1], 0, 5, 1000, BT_RUN_INTERRUPTED);
    add_training(runs[1], 0, 60, 1000, BT_RUN_PASSED);
    ASSERT_OK(bt_store_run_end(scratch_store, runs[1], BT_RUN_PASSED, ""));
    report_set set;
    ratio_list ratios = {0};
    ASSERT_OK(bt_report_set_read(scratch_store, runs, 2, NULL, &set));
    ASSERT_OK(bt_ratios_of_runs(&set, &ratios));
    assert_int_equal(ratios.count, 1);
    assert_int_equal(ratios.rows[0].rounds, 1);
    bt_report_set_release(&set);
    bt_str out = {0};
    ASSERT_OK(bt_report_html(scratch_store, runs, 2, &out));
    const char *row = strstr(bt_str_text(&out), "<tr id=\"c1-row\">");
    assert_non_null(row);
    const char *end = strchr(row, '\n');
    assert_non_null(end);
    assert_memory_equal(end - strlen("<td class=n>1"), "<td class=n>1", strlen("<td class=n>1"));
    bt_str_release(&out);
}

// "1 of 1 round has", "1 of 3 rounds has", "2 of 3 rounds have"; also on a terminal.
static void disturbed_rounds_are_counted_in_words(void **state)
{
    (void)state;
    const int64_t run = begin_run();
    bt_str out = {0};
    const bt_store_telemetry sample = {.t_ns = 1};
    add_training(run, 0, 60, 1000, BT_RUN_PASSED);
    ASSERT_OK(bt_store_telemetry_set(scratch_store, 1, "loaded machine", &sample, 1));
    ASSERT_OK(bt_report_html(scratch_store, &run, 1, &out));
    assert_has(bt_str_text(&out), "1 of 1 round has a noise label (loaded machine in 1); none");
    bt_str_clear(&out);
    ASSERT_OK(bt_show_text(scratch_store, run, 0, &out));
    assert_has(bt_str_text(&out), "loaded machine in 1 of 1 round\n");
    bt_str_clear(&out);
    add_training(run, 1, 60, 1000, BT_RUN_PASSED);
    add_training(run, 2, 60, 1000, BT_RUN_PASSED);
    ASSERT_OK(bt_report_html(scratch_store, &run, 1, &out));
    assert_has(bt_str_text(&out), "1 of 3 rounds has a noise label (loaded machine in 1); none");
    bt_str_clear(&out);
    ASSERT_OK(bt_store_telemetry_set(scratch_store, 2, "loaded machine", NULL, 0));
    ASSERT_OK(bt_report_html(scratch_store, &run, 1, &out));
    assert_has(bt_str_text(&out), "2 of 3 rounds have a noise label (loaded machine in 2); none");
    bt_str_release(&out);
}

static void a_killed_round_has_empty_cells(void **state)
{
    (void)state;
    const int64_t run = begin_run();
    bt_str out = {0};
    add_training(run, 0, 0, 0, BT_RUN_INTERRUPTED);
    add_training(run, 0, 60, 1000, BT_RUN_PASSED);
    scratch_execute("UPDATE round SET ended_ns=0, seal='' WHERE id=1");
    ASSERT_OK(bt_report_html(scratch_store, &run, 1, &out));
    assert_has(bt_str_text(&out), "<summary>Rounds");
    assert_lacks(bt_str_text(&out), ">nan");
    assert_lacks(bt_str_text(&out), ",nan");
    bt_str_release(&out);
}

// Makes the chart of losses of a run of one case. Owned: `drawn`, the caller.
static void draw_losses(int64_t run, report_set *set, chart *drawn)
{
    ASSERT_OK(bt_report_set_read(scratch_store, &run, 1, NULL, set));
    assert_int_equal(set->case_count, 1);
    ASSERT_OK(bt_chart_make(set, &bt_chart_kinds[0], 100, drawn));
}

static void assert_flat(const curve *line, double y)
{
    assert_true(line->count > 0);
    for (int64_t i = 0; i < line->count; i++) {
        assert_true(line->y[i] == y);
        assert_true(!line->high || line->high[i] == y);
    }
}

static void a_band_is_of_the_rounds_that_count(void **state)
{
    (void)state;
    enum { ROUNDS = 8 };
    const int64_t run = begin_run();
    report_set set;
    chart drawn;
    add_training(run, 0, 90, 2000, BT_RUN_FAILED); // the longest, and the first
    for (int64_t i = 1; i <= ROUNDS; i++) {
        add_training(run, i, 60, 1000, BT_RUN_PASSED);
    }
    draw_losses(run, &set, &drawn);
    assert_int_equal(drawn.count, 2);
    assert_int_equal(drawn.curves[0].shape, CURVE_BAND);
    assert_int_equal(drawn.curves[1].shape, CURVE_LINE);
    assert_flat(&drawn.curves[0], 1000);
    assert_flat(&drawn.curves[1], 1000);
    assert_true(drawn.x_max == 59);
    bt_arena_release(&drawn.arena);
    bt_report_set_release(&set);
}

static void one_round_that_counts_is_a_line(void **state)
{
    (void)state;
    const int64_t run = begin_run();
    report_set set;
    chart drawn;
    add_training(run, 0, 0, 0, BT_RUN_FAILED); // the representative one, without steps
    add_training(run, 1, 60, 1000, BT_RUN_PASSED);
    add_training(run, 2, 90, 2000, BT_RUN_FAILED);
    draw_losses(run, &set, &drawn);
    assert_int_equal(drawn.count, 1);
    assert_int_equal(drawn.curves[0].shape, CURVE_LINE);
    assert_flat(&drawn.curves[0], 1000);
    assert_true(drawn.x_max == 59);
    bt_arena_release(&drawn.arena);
    bt_report_set_release(&set);
}

static void a_failed_round_is_drawn_if_none_counts(void **state)
{
    (void)state;
    const int64_t run = begin_run();
    report_set set;
    chart drawn;
    add_training(run, 0, 60, 2000, BT_RUN_FAILED);
    add_training(run, 1, 90, 3000, BT_RUN_FAILED);
    draw_losses(run, &set, &drawn);
    assert_int_equal(drawn.count, 1);
    assert_flat(&drawn.curves[0], 2000);
    assert_true(drawn.x_max == 59);
    bt_arena_release(&drawn.arena);
    bt_report_set_release(&set);
}

static void tables_of_many_cases_are_open(void **state)
{
    (void)state;
    static const char section[] = "<section id=kernel-cases><h2>Kernel cases</h2>\n";
    static const struct {
        int cases;
        const char *start;
    } rows[] = {{40, "<div class=scroll><table"},
                {41, "<details open><summary>All cases <span class=muted>41</span></summary>\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bt_str out = {0};
        int64_t run = 0;
        sample_kernels sample = sample_kernels_default();
        sample.cases = rows[i].cases;
        ASSERT_OK(sample_kernels_record(scratch_store, &sample, &run));
        ASSERT_OK(bt_report_html(scratch_store, &run, 1, &out));
        const char *at = strstr(bt_str_text(&out), section);
        assert_non_null(at);
        at += strlen(section);
        if (strncmp(at, rows[i].start, strlen(rows[i].start)) != 0) {
            fail_msg("expected %s, got %.100s", rows[i].start, at);
        }
        bt_str_release(&out);
    }
}

static void fractions_above_a_copy_are_explained(void **state)
{
    (void)state;
    static const char note[] = "a fraction \"of copy\" above 100 %: ";
    static const struct {
        const char *name;
        double share, intensity;
        bool noted;
    } rows[] = {{"gelu", 0.93, 1, false},        {"gelu", 1.004, 1, false}, // shown as 100 %
                {"gelu", 1.3, 100, false},       // shown in FLOP/s, without a fraction
                {"ceiling.cold", 1.3, 1, false}, // the copy itself
                {"gelu", 1.006, 1, true},        {"gelu", 1.3, 1, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bt_str out = {0};
        const int64_t run = begin_run();
        add_kernel(run, rows[i].name, rows[i].share, rows[i].intensity);
        add_kernel(run, "other", 0.5, 1);
        ASSERT_OK(bt_show_text(scratch_store, run, 0, &out));
        if ((strstr(bt_str_text(&out), note) != NULL) != rows[i].noted) {
            fail_msg("row %d: %s", (int)i, bt_str_text(&out));
        }
        bt_str_release(&out);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_store_open, scratch_store_close)

static void values_of_loaded_machines_are_marked(void **state)
{
    (void)state;
    static const struct {
        bool one, two; // whether the machine was loaded
        const char *efficiency, *bound;
    } rows[] = {{false, false, "| 1.200 |", "| 480 tok/s |"},
                {true, false, "| 1.200 \xe2\x96\xb3 |", "| 480 tok/s |"},
                {false, true, "| 1.200 \xe2\x96\xb3 |", "| 480 tok/s \xe2\x96\xb3 |"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int64_t run = begin_run();
        report_set set;
        bt_str text = {0};
        add_ranks(run, "one", 1, 100, rows[i].one);
        add_ranks(run, "two", 2, 240, rows[i].two);
        ASSERT_OK(bt_store_run_end(scratch_store, run, BT_RUN_PASSED, ""));
        ASSERT_OK(bt_report_set_read(scratch_store, &run, 1, NULL, &set));
        ASSERT_OK(bt_markdown_ranks(&set, &text));
        assert_has(bt_str_text(&text), rows[i].efficiency);
        assert_has(bt_str_text(&text), rows[i].bound);
        assert_int_equal(strstr(bt_str_text(&text), "has a noise label") != NULL, i > 0);
        bt_report_set_release(&set);
        bt_str_release(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_resumed_round_has_the_numbers_of_one_round),
        TEST(a_repeated_round_is_counted_once),
        TEST(disturbed_rounds_are_counted_in_words),
        TEST(a_killed_round_has_empty_cells),
        TEST(a_band_is_of_the_rounds_that_count),
        TEST(one_round_that_counts_is_a_line),
        TEST(a_failed_round_is_drawn_if_none_counts),
        TEST(tables_of_many_cases_are_open),
        TEST(fractions_above_a_copy_are_explained),
        TEST(values_of_loaded_machines_are_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
