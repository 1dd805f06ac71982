// tests/harness/test_ratios.c - what a report compares: verdicts, pairs, runs; axes and bands; the
// parts of the page that are made of them
#include "tests/support/test.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/compare/compare.h"
#include "harness/history/history.h"
#include "harness/report/axis.h"
#include "harness/report/curves.h"
#include "harness/report/marks.h"
#include "harness/report/report.h"
#include "tests/harness/sample_kernels.h"
#include "tests/harness/sample_run.h"
#include "tests/harness/scratch_store.h"

static sample_kernels made(const char *kind, const char *second, int rounds)
{
    sample_kernels sample = sample_kernels_default();
    sample.kind = kind;
    sample.systems[0] = strcmp(second, "candidate") == 0 ? "base" : "blutrain";
    sample.systems[1] = second;
    sample.rounds = rounds;
    return sample;
}

static void read_set(const sample_kernels *sample, report_set *set)
{
    int64_t run = 0;
    ASSERT_OK(sample_kernels_record(scratch_store, sample, &run));
    ASSERT_OK(bt_report_set_read(scratch_store, &run, 1, NULL, set));
}

static const ratio_row *find_row(const ratio_list *list, const char *name)
{
    for (int64_t i = 0; i < list->count; i++) {
        if (strcmp(list->rows[i].name, name) == 0) {
            return &list->rows[i];
        }
    }
    fail_msg("no row '%s'", name);
    return NULL;
}

// Rows of a group are adjacent, and in it the ratios are in the order that the list asks for.
static void assert_ordered(const ratio_list *list)
{
    for (int64_t i = 1; i < list->count; i++) {
        const ratio_row *above = &list->rows[i - 1], *row = &list->rows[i];
        if (strcmp(above->group, row->group) == 0) {
            assert_true(list->more_is_slower ? above->ratio >= row->ratio
                                             : above->ratio <= row->ratio);
        }
        for (int64_t j = 0; j + 1 < i; j++) {
            assert_true(strcmp(list->rows[j].group, row->group) != 0 ||
                        strcmp(above->group, row->group) == 0);
        }
    }
}

static void verdicts_become_rows_with_their_band(void **state)
{
    (void)state;
    report_set set;
    sample_kernels sample = made("ab", "candidate", 3);
    read_set(&sample, &set);
    assert_int_equal(set.case_count, 60);
    assert_int_equal(set.ratio_count, 1); // with verdicts of the pairs there is no list of pairs
    const ratio_list *list = &set.ratios[0];
    assert_int_equal(list->count, 30);
    assert_true(list->more_is_slower);
    assert_ordered(list);
    const ratio_row *row = find_row(list, "softmax.forward.f32.1024x768");
    assert_string_equal(row->verdict, "SLOWER");
    assert_string_equal(row->group, "softmax");
    assert_string_equal(row->metric, ""); // time is the default
    assert_true(fabs(row->ratio - 1.031) < 1e-9);
    assert_true(fabs(row->band_high - 1.01) < 1e-9 && fabs(row->band_low - 1 / 1.01) < 1e-9);
    assert_true(isnan(row->mark));
    assert_int_equal(bt_report_verdict_count(list, "SLOWER"), 1);
    bt_report_set_release(&set);
}

static void claims_have_the_papers_ratio_and_those_untested_no_row(void **state)
{
    (void)state;
    report_set set;
    sample_kernels sample = made("replicate", "pytorch-eager", 2);
    read_set(&sample, &set);
    const ratio_list *list = bt_report_main_list(&set);
    assert_string_equal(list->kind, "replicate");
    assert_int_equal(list->count, 27);
    assert_int_equal(list->rest_count, 3);
    assert_string_equal(list->rest[0].reason, "needs two GPUs");
    assert_ordered(list);
    for (int64_t i = 0; i < list->count; i++) {
        const ratio_row *row = &list->rows[i];
        assert_true(row->mark > 0 && row->band_low < row->mark && row->mark < row->band_high);
        assert_memory_equal(row->group, "B.", 2);
        assert_null(strchr(row->group + 2, '.'));
    }
    // B.10 comes after B.9.
    assert_string_equal(list->rows[0].group, "B.1");
    assert_string_equal(list->rows[list->count - 1].group, "B.10");
    bt_report_set_release(&set);
}

static void pairs_are_means_over_rounds_that_both_passed(void **state)
{
    (void)state;
    report_set set;
    sample_kernels sample = made("", "pytorch-eager", 6);
    sample.noisy = true; // some rounds invalid and a fifth slower, then run again
    read_set(&sample, &set);
    const ratio_list *list = &set.ratios[0];
    int64_t noisy = 0;
    assert_string_equal(list->kind, "pairs");
    assert_int_equal(list->count, 30);
    assert_ordered(list);
    for (int64_t i = 0; i < list->count; i++) {
        const ratio_row *row = &list->rows[i];
        assert_int_equal(row->rounds, 6); // the invalid ones make no pair
        assert_true(row->low <= row->ratio && row->ratio <= row->high);
        assert_true(row->high / row->low < 1.02); // nor do they widen the interval
        assert_true(row->ratio > 1.0);
        noisy += row->noisy;
    }
    assert_true(noisy > 3);
    bt_report_set_release(&set);
}

static void few_cases_against_several_systems_are_one_list(void **state)
{
    (void)state;
    report_set set;
    sample_kernels sample = made("", "pytorch-eager", 1);
    sample.systems[2] = "pytorch-compile";
    sample.cases = 2;
    read_set(&sample, &set);
    assert_int_equal(set.ratio_count, 1);
    assert_int_equal(set.ratios[0].count, 4);
    const ratio_row *row =
        find_row(&set.ratios[0], "gelu.forward.f32.1024x768, against pytorch-compile");
    assert_true(isnan(row->low)); // one round has no interval
    assert_string_equal(bt_format_ratio_interval(row).text, "one round");
    bt_report_set_release(&set);
    sample.cases = 20; // many: a list each
    read_set(&sample, &set);
    assert_int_equal(set.ratio_count, 2);
    assert_string_equal(set.ratios[1].other, "pytorch-compile");
    bt_report_set_release(&set);
}

// The page, Markdown and terminal of one round of two systems, whose intervals reach this far.
static void write_pair(double reach, bt_str *page, bt_str *markdown, bt_str *text)
{
    int64_t run = 0;
    report_set set;
    sample_kernels sample = made("", "pytorch-eager", 1);
    sample.cases = 2;
    sample.reach = reach;
    ASSERT_OK(sample_kernels_record(scratch_store, &sample, &run));
    ASSERT_OK(bt_report_html(scratch_store, &run, 1, page));
    ASSERT_OK(bt_report_markdown(scratch_store, &run, 1, markdown));
    ASSERT_OK(bt_report_set_read(scratch_store, &run, 1, NULL, &set));
    ASSERT_OK(bt_report_kernel_tables(&set, 0, text));
    bt_report_set_release(&set);
}

// A ratio of one round is drawn without an interval; it has a warning if its samples do not bound
// it.
static void a_ratio_of_one_wide_round_carries_a_warning(void **state)
{
    (void)state;
    static const struct {
        double reach;
        const char *warning; // NULL: none
    } rounds[] = {{0.05, NULL},
                  {0.06, ": run more rounds"},
                  {0.55, ": run more rounds"},
                  {1.2, "to any ratio: run more rounds"}};
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        bt_str page = {0}, markdown = {0}, text = {0};
        const bool wide = rounds[i].warning != NULL;
        write_pair(rounds[i].reach, &page, &markdown, &text);
        const struct {
            const bt_str *in;
            const char *words;
        } places[] = {{&page, "<span class=noise>\xe2\x96\xb3 wide</span>"},
                      {&page, wide ? rounds[i].warning : ": run more rounds"},
                      {&page, "(2 of one round with a wide interval)"},
                      {&page, ": one round with a wide interval</small>"},
                      {&markdown, wide ? rounds[i].warning : ": run more rounds"},
                      {&text, "? 1."},
                      {&text, "?  the intervals of the two times allow ratios"}};
        for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
            const bool found = strstr(bt_str_text(places[p].in), places[p].words) != NULL;
            if (found != wide) {
                fail_msg("reach %g: '%s' is %s", rounds[i].reach, places[p].words,
                         found ? "there" : "missing");
            }
        }
        bt_str_release(&page);
        bt_str_release(&markdown);
        bt_str_release(&text);
    }
}

// The line of the terminal's tables for the first case on the second system.
static void second_line(const report_set *set, bt_str *line, bt_str *text)
{
    ASSERT_OK(bt_report_kernel_tables(set, 0, text));
    const char *at = strstr(bt_str_text(text), set->cases[0].kernel.shape);
    assert_non_null(at);
    at = strchr(at, '\n') + 1;
    bt_str_append_bytes(line, at, strcspn(at, "\n"));
}

// The terminal shows the ratio of the page with its interval, not the quotient of the medians.
static void the_terminal_shows_ratios_of_pairs(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *other, *base;
    } sessions[] = {{"", "pytorch-eager", "/blutrain"}, {"ab", "candidate", "/base"}};
    for (size_t i = 0; i < sizeof sessions / sizeof sessions[0]; i++) {
        report_set set;
        bt_str line = {0}, text = {0};
        sample_kernels sample = made(sessions[i].kind, sessions[i].other, 6);
        read_set(&sample, &set);
        const ratio_row *row = find_row(&set.ratios[0], set.cases[0].round->what.name);
        second_line(&set, &line, &text);
        assert_non_null(strstr(bt_str_text(&line), sessions[i].other));
        assert_non_null(strstr(bt_str_text(&line), bt_format_ratio(row->ratio).text));
        assert_true(row->low < row->high);
        assert_non_null(strstr(bt_str_text(&line), bt_format_ratio_interval(row).text));
        assert_non_null(strstr(bt_str_text(&text), sessions[i].base));
        assert_non_null(strstr(bt_str_text(&text), ": from pairs of rounds; below 1 takes less"));
        bt_str_release(&line);
        bt_str_release(&text);
        bt_report_set_release(&set);
    }
}

// Tables of the terminal whose systems differ also differ in the system that ratios refer to.
static void the_terminal_names_every_base(void **state)
{
    (void)state;
    report_set set;
    bt_str text = {0};
    sample_kernels sample = made("", "pytorch-eager", 2);
    sample.systems[0] = "cublaslt";
    sample.systems[2] = "pytorch-compile";
    read_set(&sample, &set);
    const char *first = set.cases[0].kernel.group;
    int64_t kept = 0;
    for (int64_t i = 0; i < set.case_count; i++) {
        if (strcmp(set.cases[i].kernel.group, first) == 0 ||
            strcmp(set.cases[i].round->what.system, "cublaslt") != 0) {
            set.cases[kept++] = set.cases[i];
        }
    }
    assert_true(kept < set.case_count);
    set.case_count = kept;
    ASSERT_OK(bt_report_kernel_tables(&set, 0, &text));
    assert_non_null(
        strstr(bt_str_text(&text), "\n/cublaslt, /pytorch-eager: from pairs of rounds"));
    bt_str_release(&text);
    bt_report_set_release(&set);
}

static const cJSON *member(const cJSON *object, const char *key)
{
    const cJSON *found = cJSON_GetObjectItem(object, key);
    assert_non_null(found);
    return found;
}

// The first item of the list `key` of a JSON text, which is the caller's.
static cJSON *parse(const bt_str *text, const char *key, const cJSON **first)
{
    cJSON *json = cJSON_Parse(bt_str_text(text));
    assert_non_null(json);
    *first = cJSON_GetArrayItem(member(json, key), 0);
    assert_non_null(*first);
    return json;
}

// Each form of the times of a run, in which the computed lower bounds are below 0.
static void write_times(bt_str forms[6])
{
    int64_t runs[2] = {0};
    bt_history history;
    sample_kernels sample = sample_kernels_default();
    sample.cases = 2;
    sample.reach = 1.2;
    ASSERT_OK(sample_kernels_record(scratch_store, &sample, &runs[0]));
    ASSERT_OK(sample_kernels_record(scratch_store, &sample, &runs[1]));
    ASSERT_OK(bt_report_html(scratch_store, runs, 1, &forms[0]));
    ASSERT_OK(bt_report_markdown(scratch_store, runs, 1, &forms[1]));
    ASSERT_OK(bt_show_text(scratch_store, runs[0], 0, &forms[2]));
    ASSERT_OK(bt_compare_text(scratch_store, runs[0], runs[1], 0, &forms[3], NULL));
    ASSERT_OK(bt_history_read(scratch_store, "gelu.forward.f32.1024x768", NULL, NULL, &history));
    ASSERT_OK(bt_history_text(&history, 0, &forms[4]));
    bt_history_release(&history);
    ASSERT_OK(bt_report_csv(scratch_store, runs, 1, &forms[5]));
}

static void times_are_shown_from_zero_on(void **state)
{
    (void)state;
    bt_str forms[6] = {{0}}, json = {0};
    const cJSON *item = NULL;
    write_times(forms);
    for (int i = 0; i < 6; i++) {
        const char *text = bt_str_text(&forms[i]);
        assert_non_null(strstr(text, i == 5 ? ",time_ns,ns," : "[0.0"));
        for (const char *at = text; (at = strpbrk(at, "[,")); at++) {
            if (at[1] == '-' && isdigit((unsigned char)at[2])) {
                fail_msg("form %d: %.60s", i, at);
            }
        }
        bt_str_release(&forms[i]);
    }
    ASSERT_OK(bt_show_json(scratch_store, 1, &json));
    cJSON *root = parse(&json, "cases", &item);
    const cJSON *interval = member(member(item, "intervals"), "time_ns");
    assert_true(cJSON_GetArrayItem(interval, 0)->valuedouble == 0.0);
    cJSON_Delete(root);
    bt_str_clear(&json);
    ASSERT_OK(bt_compare_json(scratch_store, 1, 2, &json, NULL));
    root = parse(&json, "cases", &item);
    item = member(member(member(item, "metrics"), "time_ns"), "left");
    assert_true(member(item, "low")->valuedouble == 0.0 && member(item, "high")->valuedouble > 0.0);
    cJSON_Delete(root);
    bt_str_release(&json);
}

static void ranges_of_ratios_are_never_negative(void **state)
{
    (void)state;
    const bt_metric_value sharp = {100.0, 99.0, 101.0, 9}, wide = {377.0, 169.0, 586.0, 9},
                          open = {100.0, 0.0, 220.0, 9},
                          none = {100.0, (double)NAN, (double)NAN, 1};
    assert_false(bt_ratio_is_wide(bt_ratio_range(&sharp, &sharp)));
    assert_true(bt_ratio_is_wide(bt_ratio_range(&wide, &sharp)));
    assert_true(bt_ratio_is_wide(bt_ratio_range(&sharp, &wide)));
    assert_true(bt_ratio_range(&open, &sharp).low == 0.0);
    assert_true(isinf(bt_ratio_range(&sharp, &open).high));
    assert_true(bt_ratio_is_wide(bt_ratio_range(&open, &open)));
    assert_false(bt_ratio_is_wide(bt_ratio_range(&none, &sharp)));
    assert_false(bt_ratio_is_wide(bt_ratio_range(&sharp, &none)));
}

// Whatever is compared, the page counts rounds: a gate has no pairs.
static void the_page_counts_rounds(void **state)
{
    (void)state;
    static const char *const kinds[] = {"gate", "ab"};
    for (int i = 0; i < 2; i++) {
        report_set set;
        bt_str page = {0};
        sample_kernels sample = made(kinds[i], "candidate", 3);
        read_set(&sample, &set);
        assert_string_equal(set.ratios[0].kind, kinds[i]);
        ASSERT_OK(bt_page_forest(&set, &page));
        assert_non_null(strstr(bt_str_text(&page), "<th class=n>rounds</thead>"));
        assert_null(strstr(bt_str_text(&page), ">pairs<"));
        bt_str_release(&page);
        bt_report_set_release(&set);
    }
}

static void runs_stand_against_the_first(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    int64_t runs[2];
    report_set set;
    ASSERT_OK(sample_run_record(scratch_store, &sample, &runs[0]));
    sample.step_ms = 125.0;
    ASSERT_OK(sample_run_record(scratch_store, &sample, &runs[1]));
    ASSERT_OK(bt_report_set_read(scratch_store, runs, 2, NULL, &set));
    assert_int_equal(set.ratio_count, 1);
    assert_int_equal(set.ratios[0].count, 1);
    assert_true(fabs(set.ratios[0].rows[0].ratio - 0.5) < 1e-6);
    bt_report_set_release(&set);
}

static void the_mean_is_geometric(void **state)
{
    (void)state;
    const ratio_row rows[] = {{.ratio = 2.0, .low = 1.0, .high = 4.0},
                              {.ratio = 0.5, .low = 0.25, .high = 1.0}};
    ratio_mean mean = bt_ratios_mean(rows, 2);
    assert_true(fabs(mean.value - 1.0) < 1e-12);
    // Each reaches log 2 to both sides; of the mean of two that is log 2 / sqrt 2.
    assert_true(fabs(log(mean.high) - log(2.0) / sqrt(2.0)) < 1e-12);
    assert_true(fabs(mean.low * mean.high - 1.0) < 1e-12);
    // Memory and the 95th percentile are not speeds; they count if there is nothing else.
    const ratio_row mixed[] = {{.ratio = 4.0, .low = 2.0, .high = 8.0, .metric = ""},
                               {.ratio = 1.0, .metric = "peak_allocated_bytes"},
                               {.ratio = 9.0, .metric = "time_p95_ns"},
                               {.ratio = 1.0, .metric = "step_time_ns", .low = 0.5, .high = 2.0}};
    mean = bt_ratios_mean(mixed, 4);
    assert_true(fabs(mean.value - 2.0) < 1e-12);
    assert_int_equal(mean.count, 2);
    assert_false(bt_ratios_counts(mixed, 4, &mixed[1]));
    assert_int_equal(bt_ratios_mean(&mixed[1], 1).count, 1);
    // Two claims about one measurement, as its time and its rate, count once; so does memory.
    const ratio_row twice[] = {{.ratio = 2.0, .metric = "step_time_ns", .repeated = true},
                               {.ratio = 2.0, .metric = "tokens_per_s"},
                               {.ratio = 8.0, .metric = "tokens_per_s"},
                               {.ratio = 5.0, .metric = "peak_allocated_bytes", .repeated = true},
                               {.ratio = 3.0, .metric = "peak_allocated_bytes"}};
    mean = bt_ratios_mean(twice, 5);
    assert_true(fabs(mean.value - 4.0) < 1e-12);
    assert_int_equal(mean.count, 2);
    assert_false(bt_ratios_counts(twice, 5, &twice[0]));
    assert_int_equal(bt_ratios_mean(twice, 1).count, 1);
    assert_true(fabs(bt_ratios_mean(&twice[3], 2).value - 3.0) < 1e-12);
    const ratio_row open[] = {{.ratio = 3.0, .low = (double)NAN, .high = (double)NAN}};
    mean = bt_ratios_mean(open, 1);
    assert_true(fabs(mean.value - 3.0) < 1e-12 && isnan(mean.low));
}

static ratio_axis axis_of(double low, double high)
{
    ratio_row rows[2] = {{.ratio = low}, {.ratio = high}};
    for (int i = 0; i < 2; i++) {
        rows[i].mark = rows[i].low = rows[i].high = (double)NAN;
        rows[i].band_low = rows[i].band_high = (double)NAN;
    }
    ratio_list list = {.rows = rows, .count = 2};
    return bt_axis_of(&list);
}

static void axes_hold_one_and_have_ticks(void **state)
{
    (void)state;
    static const double ends[][2] = {{0.999, 1.001}, {0.97, 1.05}, {1.1, 2.4},      {0.4, 3.9},
                                     {1.0, 1.0},     {3.0, 90.0},  {1e-5, 20000.0}, {0.5, 0.6}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        ratio_axis on = axis_of(ends[i][0], ends[i][1]);
        assert_true(on.low < 1.0 && on.high > 1.0);
        assert_true(on.low < ends[i][0] && on.high > ends[i][1]);
        assert_true(on.tick_count >= 2 && on.tick_count <= RATIO_TICKS_MAX);
        double one = bt_axis_place(&on, 1.0);
        assert_true(one > 0.0 && one < 100.0);
        assert_true(bt_axis_place(&on, on.low) == 0.0);
        assert_true(bt_axis_place(&on, 1e300) == 100.0);
    }
    // Equal factors are equal distances.
    ratio_axis on = axis_of(0.25, 4.0);
    double left = bt_axis_place(&on, 1.0) - bt_axis_place(&on, 0.5);
    double right = bt_axis_place(&on, 2.0) - bt_axis_place(&on, 1.0);
    assert_true(fabs(left - right) < 1e-9);
}

static double clock_of(const bt_store_telemetry *sample) { return sample->sm_clock_mhz; }

static void samples_stand_at_the_steps_they_were_taken_in(void **state)
{
    (void)state;
    // Two seconds of set-up, then four steps of a second, an evaluation of a second after step 1.
    bt_store_step steps[4] = {{.step = 0}, {.step = 1}, {.step = 2}, {.step = 3}};
    bt_store_eval evals[1] = {{.step = 2, .host_ns = 1000000000}};
    bt_store_telemetry samples[9];
    double x[9], y[9];
    for (int i = 0; i < 4; i++) {
        steps[i].host_ns = 1000000000;
    }
    for (int i = 0; i < 9; i++) {
        samples[i] = (bt_store_telemetry){.t_ns = 1e9 * i + 5e8, .sm_clock_mhz = 1000.0 + i};
    }
    samples[3].sm_clock_mhz = (double)NAN;
    bt_store_round round = {.steps = steps,
                            .step_count = 4,
                            .evals = evals,
                            .eval_count = 1,
                            .telemetry = samples,
                            .telemetry_count = 9,
                            .started_ns = 1,
                            .ended_ns = 7000000001};
    // 0.5 and 1.5 s lie in the set-up, 7.5 and 8.5 s after the end, 3.5 s is not known.
    assert_int_equal(bt_curve_of_samples(&round, clock_of, x, y), 4);
    static const double wanted[4][2] = {
        {0.5, 1002.0}, {2.25, 1004.0}, {2.75, 1005.0}, {3.5, 1006.0}};
    for (int i = 0; i < 4; i++) {
        if (!(fabs(x[i] - wanted[i][0]) < 0.011 && y[i] == wanted[i][1])) {
            fail_msg("sample %d at %g with %g", i, x[i], y[i]);
        }
    }
    // The same with the ends of steps: the worker runs on for 2 s after the last.
    static const double ends_s[9] = {0, 0, 0, 3, 4, 4, 6, 7, 7};
    static const int ended[9] = {0, 0, 0, 1, 2, 2, 3, 4, 4};
    for (int i = 0; i < 9; i++) {
        samples[i].steps = ended[i] > 0 ? ended[i] : (double)NAN;
        samples[i].step_ended_ns = ended[i] > 0 ? 1e9 * ends_s[i] : (double)NAN;
    }
    round.ended_ns += 2000000000;
    assert_int_equal(bt_curve_of_samples(&round, clock_of, x, y), 4);
    for (int i = 0; i < 4; i++) {
        assert_true(fabs(x[i] - wanted[i][0]) < 0.011 && y[i] == wanted[i][1]);
    }
    round.step_count = 0;
    assert_int_equal(bt_curve_of_samples(&round, clock_of, x, y), 0);
}

static void bands_keep_their_extremes(void **state)
{
    (void)state;
    double x[6] = {0, 1, 2, 3, 4, 5}, middle[6] = {5, 1, 3, 7, 9, 8};
    double low[6] = {4, 0, 2, 6, -3, 7}, high[6] = {6, 2, 40, 8, 10, 9};
    assert_int_equal(bt_curve_medians(x, middle, low, high, 6, 2), 2);
    assert_true(low[0] == 0 && high[0] == 40 && middle[0] == 3 && x[0] == 1);
    assert_true(low[1] == -3 && high[1] == 10 && middle[1] == 8 && x[1] == 4);
    double flat_x[5] = {0, 1, 2, 3, 4}, flat_y[5] = {7, 7, 7, 7, 8};
    assert_int_equal(bt_curve_flatten(flat_x, flat_y, 5), 3);
    assert_true(flat_x[1] == 3 && flat_y[2] == 8);
}

static void every_known_word_has_a_shape(void **state)
{
    (void)state;
    static const char *const words[] = {"SAME",         "FASTER",         "SLOWER",
                                        "INCONCLUSIVE", "NOT-COMPARABLE", "INVALID",
                                        "REPLICATED",   "EXCEEDED",       "NOT REPLICATED",
                                        "passed",       "failed",         "NOT TESTABLE HERE",
                                        "HIGHER",       "LOWER",          "UNINFORMATIVE"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_string_equal(bt_mark_of(words[i])->word, words[i]);
        assert_true(bt_mark_of(words[i])->shape[0] != '\0');
    }
    for (int s = 0; s < BT_RUN_STATUS_COUNT; s++) {
        assert_string_equal(bt_mark_of(bt_run_status_name((bt_run_status)s))->word,
                            bt_run_status_name((bt_run_status)s));
    }
    bt_str out = {0};
    bt_mark_write("<b>new", &out); // a word of tomorrow is shown as it is
    assert_non_null(strstr(bt_str_text(&out), "&lt;b&gt;new"));
    bt_str_release(&out);
}

static void failing_allocations_are_reported(void **state)
{
    (void)state;
    int64_t runs[2] = {0};
    sample_kernels sample = made("replicate", "pytorch-eager", 2);
    sample.cases = 4;
    ASSERT_OK(sample_kernels_record(scratch_store, &sample, &runs[0]));
    sample_run training = sample_run_default();
    training.steps = 12;
    training.rounds = 2;
    training.telemetry = true;
    ASSERT_OK(sample_run_record(scratch_store, &training, &runs[1]));
    int64_t live = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    int64_t n = 0;
    while (status != BT_OK) {
        bt_str out = {0};
        bt_mem_fail_at(++n);
        status = bt_report_html(scratch_store, runs, 2, &out);
        bt_mem_fail_at(0);
        bt_str_release(&out);
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), live);
        assert_true(n < 4000);
    }
    assert_true(n > 50);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_store_open, scratch_store_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(verdicts_become_rows_with_their_band),
        TEST(claims_have_the_papers_ratio_and_those_untested_no_row),
        TEST(pairs_are_means_over_rounds_that_both_passed),
        TEST(few_cases_against_several_systems_are_one_list),
        TEST(a_ratio_of_one_wide_round_carries_a_warning),
        TEST(the_terminal_shows_ratios_of_pairs),
        TEST(the_terminal_names_every_base),
        TEST(times_are_shown_from_zero_on),
        cmocka_unit_test(ranges_of_ratios_are_never_negative),
        TEST(the_page_counts_rounds),
        TEST(runs_stand_against_the_first),
        cmocka_unit_test(the_mean_is_geometric),
        cmocka_unit_test(axes_hold_one_and_have_ticks),
        cmocka_unit_test(samples_stand_at_the_steps_they_were_taken_in),
        cmocka_unit_test(bands_keep_their_extremes),
        cmocka_unit_test(every_known_word_has_a_shape),
        TEST(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
