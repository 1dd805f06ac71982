// tests/harness/test_history.c - rounds of many runs become series, sessions and changes
#include "tests/support/test.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/history/history.h"
#include "harness/text/wrap.h"
#include "tests/harness/scratch_store.h"

// What differs between the runs of these tests.
typedef struct recipe {
    const char *name, *system, *axes_json, *cpu, *other_data, *git_diff;
    double times_ns[5]; // a round each, up to 0
    bt_run_status status;
    bool older; // from before the mean decided: a round's time is its median
} recipe;

static const recipe plain = {"copy.f32", "blutrain", "{}",          "a CPU", "one",
                             "",         {1000},     BT_RUN_PASSED, false};

static void add_round(int64_t run, const recipe *what, int64_t ordinal)
{
    int64_t round = 0;
    double time_ns = what->times_ns[ordinal];
    bt_store_case item = {"kernels", "kernel", what->name, what->axes_json, what->system};
    bt_store_measurement time = {BT_METRIC_TIME, time_ns, time_ns - 5, time_ns + 5, &time_ns, 1};
    bt_store_measurement peak = {BT_METRIC_PEAK_ALLOCATED, 4096, (double)NAN, (double)NAN, NULL, 0};
    ASSERT_OK(bt_store_round_begin(scratch_store, run, &item, ordinal, &round));
    ASSERT_OK(bt_store_measure(scratch_store, round, &time));
    ASSERT_OK(bt_store_measure(scratch_store, round, &peak));
    if (!what->older) {
        time.metric = BT_METRIC_TIME_MEDIAN;
        time.sample_count = 0;
        ASSERT_OK(bt_store_measure(scratch_store, round, &time));
    }
    ASSERT_OK(bt_store_round_end(scratch_store, round, what->status, "", ""));
}

static int64_t record(const recipe *what)
{
    int64_t run = 0;
    char env[128];
    bt_store_fact facts[] = {{"cpu.model", what->cpu, BT_FACT_HARD},
                             {"data.other", what->other_data, BT_FACT_HARD},
                             {"os.kernel", "6.1", BT_FACT_SOFT}};
    (void)snprintf(env, sizeof env, "%s %s", what->cpu, what->other_data);
    bt_store_run_info info = {.suite = {"cafe", "kernels", "cpu", "kernels.json", "{}"},
                              .build = {.digest = *what->git_diff ? "b2" : "b1",
                                        .git_commit = "3f50b31c77",
                                        .git_diff = what->git_diff},
                              .env = {env, facts, 3},
                              .command = "bt-bench run kernels"};
    ASSERT_OK(bt_store_run_begin(scratch_store, &info, &run));
    for (int64_t i = 0; i < 5 && what->times_ns[i] > 0; i++) {
        add_round(run, what, i);
    }
    ASSERT_OK(bt_store_run_end(scratch_store, run, what->status, ""));
    return run;
}

static bt_history read_history(const char *metric, const char *system)
{
    bt_history history;
    ASSERT_OK(bt_history_read(scratch_store, "copy.f32", metric, system, &history));
    return history;
}

static void a_session_is_the_median_of_its_rounds(void **state)
{
    (void)state;
    recipe what = plain;
    memcpy(what.times_ns, (double[]){1000, 3000, 1200}, 3 * sizeof(double));
    int64_t first = record(&what);
    recipe single = plain;
    single.git_diff = "changed";
    int64_t second = record(&single);
    bt_history history = read_history(NULL, NULL);
    assert_int_equal(history.metric, BT_METRIC_TIME);
    assert_int_equal(history.series_count, 1);
    const bt_history_series *series = &history.series[0];
    assert_int_equal(series->session_count, 2);
    assert_int_equal(series->sessions[0].run, first);
    assert_int_equal(series->sessions[0].rounds, 3);
    assert_true(series->sessions[0].median == 1200);
    assert_true(isnan(series->sessions[0].low) && isnan(series->sessions[0].high)); // of 3 rounds
    assert_string_equal(series->sessions[0].git_commit, "3f50b31c77");
    assert_false(series->sessions[0].modified);
    assert_int_equal(series->sessions[1].run, second);
    assert_true(series->sessions[1].modified);
    assert_true(series->sessions[1].low == 995 && series->sessions[1].high == 1005);
    assert_int_equal(series->change_count, 0);
    bt_history_release(&history);
}

static void medians_of_before_are_no_means(void **state)
{
    (void)state;
    recipe before = plain, since = plain;
    before.older = true;
    since.times_ns[0] = 1300; // the mean, of the same build
    for (int i = 0; i < 8; i++) {
        (void)record(i < 4 ? &before : &since);
    }
    bt_history history = read_history("time_ns", NULL);
    assert_int_equal(history.series_count, 2);
    assert_true(history.series[0].total && !history.series[1].total);
    assert_int_equal(history.series[0].session_count, 4);
    assert_int_equal(history.series[0].change_count + history.series[1].change_count, 0);
    bt_history_release(&history);
    history = read_history("peak_allocated_bytes", NULL);
    assert_int_equal(history.series_count, 1);
    assert_int_equal(history.series[0].session_count, 8);
    bt_history_release(&history);
}

static void only_comparable_sessions_share_a_series(void **state)
{
    (void)state;
    recipe other = plain;
    (void)record(&plain);
    other.system = "pytorch-eager";
    (void)record(&other);
    other = plain;
    other.axes_json = "{\"shape\":\"4x5\"}";
    (void)record(&other);
    other = plain;
    other.cpu = "another CPU";
    (void)record(&other);
    other = plain;
    other.other_data = "two"; // of a case that this is not
    int64_t last = record(&other);
    other = plain;
    other.status = BT_RUN_FAILED;
    (void)record(&other);
    bt_history history = read_history(NULL, NULL);
    assert_int_equal(history.series_count, 4);
    assert_int_equal(history.series[0].session_count, 2); // the newest session's is first
    assert_int_equal(history.series[0].sessions[1].run, last);
    assert_string_equal(history.series[1].env->facts[0].value, "another CPU");
    assert_string_equal(history.series[2].axes_json, "{\"shape\":\"4x5\"}");
    assert_string_equal(history.series[3].system, "pytorch-eager");
    bt_history_release(&history);
    history = read_history(NULL, "pytorch-eager");
    assert_int_equal(history.series_count, 1);
    bt_history_release(&history);
    history = read_history("peak_allocated_bytes", "blutrain");
    assert_int_equal(history.series_count, 3);
    assert_true(history.series[0].sessions[0].median == 4096);
    assert_true(isnan(history.series[0].sessions[0].low));
    bt_history_release(&history);
}

// 12 runs about 1 us, then 8 about 1.1 us.
static void record_change(void)
{
    for (int i = 0; i < 20; i++) {
        recipe what = plain;
        what.times_ns[0] = (i < 12 ? 1000 : 1100) + i * 7 % 5;
        (void)record(&what);
    }
}

static void changes_are_marked_in_text_and_json(void **state)
{
    (void)state;
    record_change();
    bt_history history = read_history(NULL, NULL);
    bt_str text = {0}, json = {0}, line = {0};
    assert_int_equal(history.series[0].change_count, 1);
    assert_int_equal(history.series[0].changes[0].index, 12);
    ASSERT_OK(bt_history_text(&history, 0, &text));
    assert_non_null(strstr(bt_str_text(&text), "copy.f32, blutrain   time_ns, lower is better\n"));
    assert_non_null(strstr(bt_str_text(&text), "20 sessions"));
    assert_non_null(
        strstr(bt_str_text(&text), "<- slower by 10 %: 1.00 us -> 1.10 us (p 0.0005)\n"));
    ASSERT_OK(bt_history_sparkline(&history.series[0], 10, &line));
    assert_string_equal(bt_str_text(&line), "▁▁▁▁▁▁████");
    ASSERT_OK(bt_history_json(&history, &json));
    cJSON *root = cJSON_Parse(bt_str_text(&json));
    cJSON *series = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "series"), 0);
    cJSON *change = cJSON_GetArrayItem(cJSON_GetObjectItem(series, "changes"), 0);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(series, "sessions")), 20);
    assert_string_equal(cJSON_GetObjectItem(change, "change")->valuestring, "slower");
    assert_true(cJSON_GetObjectItem(change, "run")->valueint == 13);
    cJSON_Delete(root);
    bt_str_release(&text);
    bt_str_release(&json);
    bt_str_release(&line);
    bt_history_release(&history);
}

// What a change says continues on further lines, without the number of rounds.
static void a_terminal_of_80_columns_shows_changes(void **state)
{
    (void)state;
    record_change();
    bt_history history = read_history(NULL, NULL);
    bt_str text = {0};
    ASSERT_OK(bt_history_text(&history, 80, &text));
    for (const char *line = bt_str_text(&text); *line;) {
        const size_t length = strcspn(line, "\n");
        assert_in_range(bt_wrap_width(line, length), 0, 80);
        line += length + (line[length] == '\n');
    }
    assert_non_null(strstr(bt_str_text(&text), "<- slower by"));
    assert_null(strstr(bt_str_text(&text), "<- slower by 10 %: 1.00 us -> 1.10 us (p 0.0005)"));
    assert_non_null(strstr(bt_str_text(&text), "0.0005)\n"));
    assert_null(strstr(bt_str_text(&text), "rounds"));
    bt_str_release(&text);
    bt_history_release(&history);
}

static void words_say_which_way(void **state)
{
    (void)state;
    bt_change more = {0, 1, 2, 0.001}, less = {0, 2, 1, 0.001};
    assert_string_equal(bt_history_change_word(BT_METRIC_STEP_TIME, &more), "slower");
    assert_string_equal(bt_history_change_word(BT_METRIC_STEP_TIME, &less), "faster");
    assert_string_equal(bt_history_change_word(BT_METRIC_TOKENS_PER_S, &more), "faster");
    assert_string_equal(bt_history_change_word(BT_METRIC_TOKENS_PER_S, &less), "slower");
    assert_string_equal(bt_history_change_word(BT_METRIC_PEAK_ALLOCATED, &more), "higher");
    assert_string_equal(bt_history_change_word(BT_METRIC_VAL_LOSS, &less), "lower");
}

static void what_is_not_there_is_said(void **state)
{
    (void)state;
    bt_history history;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no case \"copy.f32\" has been recorded",
                 bt_history_read(scratch_store, "copy.f32", NULL, NULL, &history));
    (void)record(&plain);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "did you mean \"copy.f32\"?",
                 bt_history_read(scratch_store, "copy.f16", NULL, NULL, &history));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "has no passed round with a time on fake",
                 bt_history_read(scratch_store, "copy.f32", NULL, "fake", &history));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "has no passed round with val_loss",
                 bt_history_read(scratch_store, "copy.f32", "val_loss", NULL, &history));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no metric \"los\"; expected one of: ",
                 bt_history_read(scratch_store, "copy.f32", "los", NULL, &history));
}

static void an_interval_of_a_time_begins_at_0_at_the_earliest(void **state)
{
    (void)state;
    recipe what = plain;
    what.times_ns[0] = 2; // [-3, 7] as recorded
    (void)record(&what);
    bt_history history = read_history(NULL, NULL);
    bt_str text = {0};
    ASSERT_OK(bt_history_text(&history, 0, &text));
    assert_non_null(strstr(bt_str_text(&text), "2.00 ns  [0.00, 7.00]"));
    bt_str_release(&text);
    bt_history_release(&history);
}

static void allocations_that_fail_leave_nothing(void **state)
{
    (void)state;
    record_change();
    bt_history history = read_history(NULL, NULL); // statements are prepared
    bt_history_release(&history);
    int64_t before = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    for (int64_t n = 1; n < 200 && status != BT_OK; n++) {
        bt_str text = {0};
        bt_mem_fail_at(n);
        status = bt_history_read(scratch_store, "copy.f32", NULL, NULL, &history);
        if (status == BT_OK) {
            status = bt_history_text(&history, 0, &text);
            bt_history_release(&history);
        }
        bt_mem_fail_at(0);
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
        bt_str_release(&text);
        assert_int_equal(bt_mem_live_count(), before);
    }
    assert_int_equal(status, BT_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_store_open, scratch_store_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_session_is_the_median_of_its_rounds),
        TEST(medians_of_before_are_no_means),
        TEST(only_comparable_sessions_share_a_series),
        TEST(changes_are_marked_in_text_and_json),
        TEST(a_terminal_of_80_columns_shows_changes),
        TEST(words_say_which_way),
        TEST(what_is_not_there_is_said),
        TEST(an_interval_of_a_time_begins_at_0_at_the_earliest),
        TEST(allocations_that_fail_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
