// tests/harness/test_watch.c - what a watcher shows of runs that continue, end, or have lost their
// process
#include "tests/support/test.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "harness/watch/watch.h"
#include "tests/harness/sample_run.h"
#include "tests/harness/scratch_store.h"

static const char plan[] =
    "{\"cases\":[{\"kind\":\"kernel\",\"name\":\"a\"},{\"kind\":\"train\",\"name\":\"b\"}],"
    "\"device\":\"cpu\",\"profile\":\"cpu\",\"rounds\":2,\"suite\":\"tiny\",\"systems\":[\"x\","
    "\"y\"]}";

static int64_t begin_run_of(bt_store *into, const char *plan_json)
{
    int64_t run = 0;
    bt_store_run_info info = {.suite = {"cafe", "tiny", "cpu", "tiny.json", plan_json},
                              .build = {.digest = "b1"},
                              .env = {"e1", NULL, 0},
                              .command = "bt-bench run tiny",
                              .out_dir = "results/run-1"};
    ASSERT_OK(bt_store_run_begin(into, &info, &run));
    return run;
}

static int64_t begin_run(bt_store *into) { return begin_run_of(into, plan); }

static int64_t begin_round(int64_t run, const char *kind, const char *name, const char *system,
                           int64_t ordinal)
{
    int64_t round = 0;
    bt_store_case what = {"tiny", kind, name, "{}", system};
    ASSERT_OK(bt_store_round_begin(scratch_store, run, &what, ordinal, &round));
    return round;
}

static void pass_round(int64_t run, const char *name, const char *system, int64_t ordinal)
{
    int64_t round = begin_round(run, "kernel", name, system, ordinal);
    bt_store_measurement time = {BT_METRIC_TIME, 27100, 27000, 27200, NULL, 0};
    ASSERT_OK(bt_store_measure(scratch_store, round, &time));
    ASSERT_OK(bt_store_round_end(scratch_store, round, BT_RUN_PASSED, "", ""));
}

static void add_steps(int64_t round, int64_t count)
{
    bt_store_shape shape = {.device = "no device", .steps = 60};
    sample_run sample = sample_run_default();
    ASSERT_OK(bt_store_round_describe(scratch_store, round, &shape));
    for (int64_t i = 0; i < count; i++) {
        bt_store_step step = sample_step(&sample, i);
        ASSERT_OK(bt_store_step_add(scratch_store, round, &step));
    }
    ASSERT_OK(bt_store_flush(scratch_store));
}

static void look(int64_t run, int64_t after_ns, bt_store_live *live, bt_watch_view *view)
{
    ASSERT_OK(bt_store_live_read(scratch_store, run, live));
    int64_t from_ns = live->round_count > 0 ? live->rounds[0].started_ns : live->started_ns;
    ASSERT_OK(bt_watch_look(live, from_ns + after_ns, view));
}

static void a_training_round_says_step_and_time_left(void **state)
{
    (void)state;
    bt_store_live live;
    bt_watch_view view;
    int64_t run = begin_run(scratch_store), newest = 0;
    pass_round(run, "a", "x", 0);
    pass_round(run, "a", "y", 0);
    add_steps(begin_round(run, "train", "b", "x", 0), 15);
    ASSERT_OK(bt_store_newest_running(scratch_store, &newest));
    assert_int_equal(newest, run);
    look(run, 15000000000, &live, &view); // 15 steps in 15 s
    assert_int_equal(live.status, BT_RUN_RUNNING);
    assert_int_equal(live.process_id, getpid());
    assert_int_equal(view.rounds_done, 2);
    assert_int_equal(view.rounds_planned, 8);
    assert_int_equal(view.case_index, 1);
    assert_int_equal(view.case_count, 2);
    assert_int_equal(view.step->step, 14);
    assert_int_equal(view.memory_bytes, 2560LL << 20);
    assert_true(fabs(view.rate_tok_s - 2048) < 50);
    assert_true(fabs(view.share - 2.25 / 8) < 1e-9);
    // 45 steps of a quarter of a second, whatever the start took, and five rounds such as those
    // that passed: none took long here.
    assert_true(view.left_ns >= 11e9 && view.left_ns < 13e9);
    bt_str text = {0};
    ASSERT_OK(bt_watch_block(&view, 200, 14, &text));
    const char *const parts[] = {"run 1 running   tiny, profile cpu   process ",
                                 "\ncase    2/2  b on x, round 1/2   0:12 left\n",
                                 "\nstep   15/60  loss ",
                                 "2.50 GiB\n",
                                 " 28 %, 2 of 8 rounds\n",
                                 "a  y  round 1  passed  27.1 us "};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!strstr(bt_str_text(&text), parts[i])) {
            fail_msg("no \"%s\" in:\n%s", parts[i], bt_str_text(&text));
        }
    }
    bt_str_release(&text);
    bt_store_live_release(&live);
}

static int64_t planned_of(int64_t run)
{
    bt_store_live live;
    bt_watch_view view;
    look(run, 0, &live, &view);
    const int64_t planned = view.rounds_planned;
    bt_store_live_release(&live);
    return planned;
}

// As in the progress line of ab: two rounds of the case on each side, and one of the ceiling, which
// runs on a system that is not compared. Looked at when some systems have not run yet.
static void rounds_of_ab_are_those_of_its_sides(void **state)
{
    (void)state;
    static const char of_ab[] =
        "{\"cases\":[{\"kernel\":{\"op\":\"copy\"},\"kind\":\"kernel\",\"name\":\"ceiling.hot\"},"
        "{\"kernel\":{\"op\":\"gelu\"},\"kind\":\"kernel\",\"name\":\"a\"}],"
        "\"device\":\"cpu\",\"profile\":\"cpu\",\"rounds\":2,\"suite\":\"tiny\"}";
    const bt_store_build build = {"b1", "", "", "", "", "", "", ""};
    const bt_store_system sides[] = {{"base", "/old/bt-bench", 0, build},
                                     {"candidate", "/new/bt-bench", 0, build}};
    const bt_store_schedule schedule = {7, "ab", "{}", sides, 2};
    const int64_t run = begin_run_of(scratch_store, of_ab);
    ASSERT_OK(bt_store_schedule_set(scratch_store, run, &schedule));
    assert_int_equal(planned_of(run), 5);
    pass_round(run, "ceiling.hot", "blutrain", 0);
    assert_int_equal(planned_of(run), 5);
    pass_round(run, "a", "base", 0);
    pass_round(run, "a", "candidate", 0);
    assert_int_equal(planned_of(run), 5);
    pass_round(run, "a", "candidate", 1);
    pass_round(run, "a", "base", 1);
    assert_int_equal(planned_of(run), 5);
    (void)begin_round(run, "kernel", "a", "base", 2); // the case was not decided
    assert_int_equal(planned_of(run), 0);
}

// Characters of the longest line of text, and how many lines.
static int longest(const char *text, int *lines)
{
    int most = 0, now = 0;
    *lines = 0;
    for (; *text; text++) {
        now += ((unsigned char)*text & 0xc0) != 0x80 && *text != '\n';
        most = now > most ? now : most;
        *lines += *text == '\n';
        now = *text == '\n' ? 0 : now;
    }
    return most;
}

static void lines_fit_the_terminal(void **state)
{
    (void)state;
    bt_store_live live;
    bt_watch_view view;
    int64_t run = begin_run(scratch_store);
    for (int64_t i = 0; i < 20; i++) {
        pass_round(run, "a name of a case that is long, with \033[31m in it and ▁▂▃", "x", i);
    }
    add_steps(begin_round(run, "train", "b", "x", 0), 3);
    look(run, 1000000000, &live, &view);
    static const int sizes[][2] = {{1, 1}, {20, 3}, {39, 14}, {79, 14}, {139, 10}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bt_str text = {0};
        int lines = 0;
        ASSERT_OK(bt_watch_block(&view, sizes[i][0], sizes[i][1], &text));
        assert_true(longest(bt_str_text(&text), &lines) <= sizes[i][0]);
        assert_in_range(lines, 1, sizes[i][1]);
        assert_null(strchr(bt_str_text(&text), '\033'));
        assert_true(sizes[i][0] != 39 || strstr(bt_str_text(&text), "…"));
        assert_true(sizes[i][0] < 39 || strstr(bt_str_text(&text), "round 1/"));
        bt_str_release(&text);
    }
    bt_store_live_release(&live);
}

static void each_round_is_told_once(void **state)
{
    (void)state;
    bt_store_live live;
    bt_watch_view view;
    int64_t run = begin_run(scratch_store), seen = 0;
    bt_str text = {0};
    pass_round(run, "a", "x", 0);
    pass_round(run, "a", "y", 0);
    look(run, 0, &live, &view);
    bt_watch_mark before = bt_watch_mark_of(&view);
    ASSERT_OK(bt_watch_ended(&view, &seen, &text));
    char *first = strstr(bt_str_text(&text), "a  x  "),
         *second = strstr(bt_str_text(&text), "a  y  ");
    assert_true(first && second && first < second); // oldest first
    bt_str_clear(&text);
    ASSERT_OK(bt_watch_ended(&view, &seen, &text));
    assert_int_equal(text.length_bytes, 0);
    bt_store_live_release(&live);
    (void)begin_round(run, "kernel", "a", "x", 1);
    look(run, 0, &live, &view);
    bt_watch_mark after = bt_watch_mark_of(&view);
    assert_false(bt_watch_mark_equal(&before, &after));
    ASSERT_OK(bt_watch_ended(&view, &seen, &text));
    assert_int_equal(text.length_bytes, 0);
    bt_str_release(&text);
    bt_store_live_release(&live);
}

static void the_end_says_what_came_of_it(void **state)
{
    (void)state;
    bt_store_live live;
    bt_watch_view view;
    int64_t run = begin_run(scratch_store), newest = -1;
    pass_round(run, "a", "x", 0);
    int64_t round = begin_round(run, "kernel", "a", "y", 0);
    ASSERT_OK(bt_store_round_end(scratch_store, round, BT_RUN_FAILED, "wrong", ""));
    ASSERT_OK(bt_store_run_end(scratch_store, run, BT_RUN_FAILED, "a: wrong"));
    look(run, 0, &live, &view);
    bt_str text = {0};
    ASSERT_OK(bt_watch_end(&view, &text));
    assert_non_null(strstr(bt_str_text(&text), ": 1 round passed, 1 failed\n"));
    assert_non_null(strstr(bt_str_text(&text), "message   a: wrong\nnext      bt-bench show 1\n"));
    bt_str_release(&text);
    bt_store_live_release(&live);
    ASSERT_OK(bt_store_newest_running(scratch_store, &newest));
    assert_int_equal(newest, 0);
    assert_int_equal(bt_watch_exit_code(BT_RUN_PASSED), 0);
    assert_int_equal(bt_watch_exit_code(BT_RUN_FAILED), 5);
    assert_int_equal(bt_watch_exit_code(BT_RUN_INTERRUPTED), 130);
}

static void a_lost_process_is_an_interruption(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        bt_store *own = NULL;
        if (bt_store_open(scratch_database, BT_STORE_WRITE, &own) == BT_OK) {
            int64_t run = begin_run(own), round = 0;
            bt_store_case what = {"tiny", "kernel", "a", "{}", "x"};
            (void)!bt_store_round_begin(own, run, &what, 0, &round);
        }
        _exit(0); // without an end
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    bt_store_live live;
    bt_watch_view view;
    int64_t newest = -1;
    ASSERT_OK(bt_store_newest_running(scratch_store, &newest));
    assert_int_equal(newest, 0);
    look(1, 0, &live, &view);
    assert_int_equal(live.status, BT_RUN_INTERRUPTED);
    assert_int_equal(live.rounds[0].status, BT_RUN_INTERRUPTED);
    assert_null(view.current);
    bt_str text = {0};
    ASSERT_OK(bt_watch_end(&view, &text));
    assert_non_null(strstr(bt_str_text(&text), "run 1 interrupted: 0 rounds passed"));
    assert_non_null(strstr(bt_str_text(&text), "next      bt-bench run --resume 1\n"));
    bt_store_live_release(&live);
    bt_store_schedule schedule = {.seed = 7, .kind = "ab", .rule_json = "{}"};
    ASSERT_OK(bt_store_schedule_set(scratch_store, 1, &schedule));
    look(1, 0, &live, &view);
    ASSERT_OK(bt_watch_end(&view, &text));
    assert_non_null(strstr(bt_str_text(&text), "next      bt-bench ab --resume 1\n"));
    bt_str_release(&text);
    bt_store_live_release(&live);
}

static void json_is_an_object_a_line(void **state)
{
    (void)state;
    bt_store_live live;
    bt_watch_view view;
    int64_t run = begin_run(scratch_store);
    pass_round(run, "a", "x", 0);
    add_steps(begin_round(run, "train", "b", "x", 0), 3);
    look(run, 3000000000, &live, &view);
    bt_str text = {0};
    ASSERT_OK(bt_watch_json(&view, &text));
    assert_ptr_equal(strchr(bt_str_text(&text), '\n'), bt_str_text(&text) + text.length_bytes - 1);
    cJSON *root = cJSON_Parse(bt_str_text(&text));
    cJSON *current = cJSON_GetObjectItem(root, "current");
    assert_string_equal(cJSON_GetObjectItem(root, "status")->valuestring, "running");
    assert_string_equal(cJSON_GetObjectItem(current, "case")->valuestring, "b");
    assert_int_equal(cJSON_GetObjectItem(current, "step")->valueint, 2);
    assert_true(cJSON_GetObjectItem(cJSON_GetObjectItem(root, "last"), "time_ns")->valuedouble ==
                27100);
    assert_true(cJSON_GetObjectItem(root, "left_s")->valuedouble >= 14);
    cJSON_Delete(root);
    bt_str_release(&text);
    bt_store_live_release(&live);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no run 9; the newest is 1",
                 bt_store_live_read(scratch_store, 9, &live));
}

static void allocations_that_fail_leave_nothing(void **state)
{
    (void)state;
    int64_t run = begin_run(scratch_store);
    pass_round(run, "a", "x", 0);
    add_steps(begin_round(run, "train", "b", "x", 0), 3);
    int64_t before = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    for (int64_t n = 1; n < 500 && status != BT_OK; n++) {
        bt_store_live live;
        bt_watch_view view;
        bt_str text = {0};
        bt_mem_fail_at(n);
        status = bt_store_live_read(scratch_store, run, &live);
        if (status == BT_OK) {
            status = bt_watch_look(&live, bt_clock_wall_ns(), &view);
            if (status == BT_OK) {
                status = bt_watch_block(&view, 80, 14, &text);
            }
            bt_store_live_release(&live);
        }
        bt_mem_fail_at(0);
        // The plan's JSON is optional: without it there is no bar.
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
        TEST(a_training_round_says_step_and_time_left),
        TEST(rounds_of_ab_are_those_of_its_sides),
        TEST(lines_fit_the_terminal),
        TEST(each_round_is_told_once),
        TEST(the_end_says_what_came_of_it),
        TEST(a_lost_process_is_an_interruption),
        TEST(json_is_an_object_a_line),
        TEST(allocations_that_fail_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
