// tests/harness/test_hostile.c - peers that hang, flood, die, print garbage or report wrong units:
// each gets a clear message, and the rest of the session is kept
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/data/shard.h"
#include "harness/bundle/bundle.h"
#include "harness/bundle/content.h"
#include "harness/run/plausible.h"
#include "harness/run/run.h"
#include "tests/harness/scratch_run.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#define PEER "tests/support/hostile_peer.sh"

static bt_suite suite;
// Each case on our own (a fake) and on the hostile peer: twice; or once, where little silence is
// allowed. That little is enough for a sound program on a busy machine.
static bt_plan training, kernels, short_training, short_kernels;
static const bt_machine machine = {.host_memory_bytes = 8ULL << 30, .cuda_reason = "a test"};

static int set_up(void **state)
{
    static const char *const of_training = "train.timeout_s=1.5",
                             *of_kernels = "kernel.timeout_s=1.5";
    bt_plan_options options = {.seed = -1, .rounds = 2, .systems = "blutrain," PEER};
    char text[1024];
    uint16_t tokens[64] = {50256};
    assert_int_equal(scratch_database_name(state), 0);
    ASSERT_OK(bt_shard_write(test_scratch_path("t.bin"), tokens, 64));
    (void)snprintf(text, sizeof text,
                   "{\"name\":\"t\",\"dataset\":{\"train\":[\"%s\"]},\"profiles\":{"
                   "\"train\":{\"device\":\"cpu\",\"train\":{\"steps\":6,\"micro_batch\":1,"
                   "\"sequence\":16},\"cases\":[{\"name\":\"one\",\"kind\":\"train\"}]},"
                   "\"kernel\":{\"device\":\"cpu\",\"cases\":[{\"name\":\"gelu\",\"kind\":"
                   "\"kernel\",\"kernel\":{\"op\":\"gelu\",\"cache\":\"cold\",\"shape\":"
                   "\"16384x768\"}}]}}}",
                   test_scratch_path("t.bin"));
    ASSERT_OK(bt_suite_parse("s.json", text, strlen(text), &suite));
    options.profile = "train";
    ASSERT_OK(bt_plan_make(&suite, &options, &machine, &training));
    options.profile = "kernel";
    ASSERT_OK(bt_plan_make(&suite, &options, &machine, &kernels));
    options.rounds = options.set_count = 1;
    options.sets = &of_kernels;
    ASSERT_OK(bt_plan_make(&suite, &options, &machine, &short_kernels));
    options.profile = "train";
    options.sets = &of_training;
    ASSERT_OK(bt_plan_make(&suite, &options, &machine, &short_training));
    return 0;
}

static int tear_down(void **state)
{
    bt_plan_release(&training);
    bt_plan_release(&kernels);
    bt_plan_release(&short_training);
    bt_plan_release(&short_kernels);
    bt_suite_release(&suite);
    return scratch_database_remove(state);
}

static bool is_hostile(const bt_store_round *round)
{
    return strcmp(round->what.system, "hostile_peer.sh") == 0;
}

// Runs the plan with the peer in this mode. All rounds must be there, ours passed.
static void run_mode(const bt_plan *plan, const char *mode, bt_store_run *run)
{
    bool kernel = plan == &kernels || plan == &short_kernels;
    bt_run_request request = scratch_run_request(
        &suite, plan, &machine, kernel ? SCRATCH_KERNEL_PEER : "tests/support/fake_worker.sh");
    bt_run_outcome outcome;
    setenv("BT_HOSTILE", mode, 1);
    ASSERT_OK(bt_run_execute(&request, &outcome));
    *run = scratch_run_read(outcome.run);
    assert_int_equal(run->round_count, plan->rounds * (kernel ? 3 : 2)); // with the copy
    for (int64_t i = 0; i < run->round_count; i++) {
        const bt_store_round *round = &run->rounds[i];
        if (!is_hostile(round) && round->status != BT_RUN_PASSED) {
            fail_msg("%s beside a peer in mode %s: %s: %s", round->what.system, mode,
                     bt_run_status_name(round->status), round->message);
        }
    }
}

static void assert_mode(const bt_plan *plan, const char *mode, const char *words)
{
    bt_store_run run;
    run_mode(plan, mode, &run);
    for (int64_t i = 0; i < run.round_count; i++) {
        const bt_store_round *round = &run.rounds[i];
        if (is_hostile(round) &&
            (round->status != BT_RUN_FAILED || !strstr(round->message, words))) {
            fail_msg("%s: wanted %s\nbut %s: %s", mode, words, bt_run_status_name(round->status),
                     round->message);
        }
    }
    assert_int_equal(run.status, BT_RUN_FAILED);
    bt_store_run_release(&run);
}

// ---- one after the other -----------------------------------------------------------------------

static void sound_peer_passes(void **state)
{
    (void)state;
    static const char *const modes[] = {"sound", "again"};
    for (int i = 0; i < 4; i++) {
        bt_store_run run;
        run_mode(i % 2 ? &kernels : &training, modes[i / 2], &run);
        assert_int_equal(run.status, BT_RUN_PASSED);
        bt_store_run_release(&run);
    }
}

static void assert_gone(const char *path)
{
    void *bytes = NULL;
    size_t size_bytes = 0;
    int pids[2] = {0, 0};
    ASSERT_OK(bt_file_read(path, &bytes, &size_bytes));
    assert_int_equal(sscanf(bytes, "%d %d", &pids[0], &pids[1]), 2);
    bt_mem_free(bytes);
    for (int i = 0; i < 2; i++) {
        int64_t until = bt_clock_ns() + 5000000000LL; // a killed process may wait for its burial
        while (kill(pids[i], 0) == 0 && bt_clock_ns() < until) {
            char stat[64], line[256] = "";
            (void)snprintf(stat, sizeof stat, "/proc/%d/stat", pids[i]);
            FILE *file = fopen(stat, "r");
            bool zombie = !file || (fgets(line, sizeof line, file) && strstr(line, ") Z "));
            if (file) {
                fclose(file);
            }
            if (zombie) {
                break;
            }
            assert_true(bt_clock_ns() < until);
            usleep(10000);
        }
    }
}

static void hanging_peers_are_ended_with_their_children(void **state)
{
    (void)state;
    static const char *const modes[] = {"dead-start", "hang", "linger", "mute"};
    static const char *const words[] = {
        "printed nothing for 1.5 s and was stopped, after 0 lines; train.timeout_s is",
        "printed nothing for 1.5 s and was stopped, after 2 lines", "printed nothing for 1.5 s",
        "closed its output, did not exit and was killed by SIGKILL after 6 steps"};
    const char *path = test_scratch_path("pids");
    setenv("BT_HOSTILE_PID", path, 1);
    for (int i = 0; i < 4; i++) {
        int64_t from = bt_clock_ns();
        assert_mode(&short_training, modes[i], words[i]);
        assert_true(bt_clock_ns() - from < 60000000000LL);
        assert_gone(path);
    }
    assert_mode(&short_kernels, "hang", "kernel.timeout_s is the limit");
    unsetenv("BT_HOSTILE_PID");
}

static void floods_are_bounded(void **state)
{
    (void)state;
    uint64_t size_bytes = 0;
    void *bytes = NULL;
    size_t log_bytes = 0;
    assert_mode(&training, "steps", "more steps than the plan's 6");
    assert_mode(&training, "lines", "more lines than a correct worker prints: 32000");
    assert_mode(&training, "line", "a line of more than 65536 bytes");
    assert_mode(&kernels, "samples", "more samples than requested: 2000000");
    bt_store_run run;
    run_mode(&training, "log", &run);
    assert_int_equal(run.status, BT_RUN_PASSED);
    bt_store_run_release(&run);
    const char *log = test_scratch_path("out/one-hostile_peer.sh-0.log");
    ASSERT_OK(bt_file_size(log, &size_bytes));
    assert_true(size_bytes > 1 << 20 && size_bytes < (1 << 20) + 20000);
    ASSERT_OK(bt_file_read(log, &bytes, &log_bytes));
    assert_non_null(strstr(bytes, "bytes are omitted here ..."));
    assert_non_null(strstr(bytes, "\nthe last words\n"));
    bt_mem_free(bytes);
}

static void garbage_ends_the_peer_alone(void **state)
{
    (void)state;
    static const char *const modes[] = {"binary", "deep", "huge", "protocol"};
    static const char *const words[] = {"not a JSON object", "not a JSON object",
                                        "not a JSON object", "another protocol than 1"};
    for (int i = 0; i < 4; i++) {
        assert_mode(&training, modes[i], words[i]);
        assert_mode(&kernels, modes[i], words[i]);
    }
    assert_mode(&training, "utf8", "not a JSON object");
}

static void events_out_of_place_are_refused(void **state)
{
    (void)state;
    assert_mode(&training, "behind", "an event follows the result");
    assert_mode(&kernels, "behind", "an event of the measurement follows the event measured");
    assert_mode(&training, "twice",
                "an evaluation of a step that was not run, or that already has one");
    assert_mode(&training, "wrong-kind", "not an event of this kind of case: samples");
    assert_mode(&kernels, "wrong-kind", "not an event of this kind of case: step");
}

static void peers_may_die_behind_any_line(void **state)
{
    (void)state;
    for (int lines = 0; lines <= 9; lines++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", lines);
        setenv("BT_HOSTILE_LINES", text, 1);
        if (lines < 9) {
            assert_mode(&training, "die", "was killed by SIGKILL");
        }
        if (lines < 5) {
            assert_mode(&kernels, "die", "was killed by SIGKILL");
        }
    }
    bt_store_run run;
    setenv("BT_HOSTILE_LINES", "10", 1); // after its last
    run_mode(&training, "die", &run);
    assert_int_equal(run.status, BT_RUN_PASSED);
    bt_store_run_release(&run);
}

static void a_result_that_is_wrong_by_its_own_word_has_no_time(void **state)
{
    (void)state;
    assert_mode(&kernels, "wrong",
                "wrong result: the worker's largest error is 25 times its tolerance");
}

static void times_in_other_units_are_refused(void **state)
{
    (void)state;
    bt_store_run run;
    assert_mode(&training, "short",
                "implausible timing: 5 steps take 1.50 us in total, but were received within");
    assert_mode(&training, "long",
                "implausible timing: steps and evaluations take 1 h 40 min in total");
    assert_mode(&training, "device", "implausible timing: steps on the device take");
    assert_mode(&kernels, "seconds",
                "implausible timing: a call takes 0.001 ns; check that times_ns");
    assert_mode(&kernels, "ms", "times the rate of this session's copy");
    assert_mode(&kernels, "long",
                "implausible timing: the samples take 50 min 00 s in total, but the");
    assert_mode(&kernels, "calls", "implausible timing: the samples take 50 min 00 s in total");
    // They produce no measurement.
    run_mode(&kernels, "ms", &run);
    for (int64_t i = 0; i < run.round_count; i++) {
        for (int64_t j = 0; is_hostile(&run.rounds[i]) && j < run.rounds[i].measurement_count;
             j++) {
            assert_int_equal(run.rounds[i].measurements[j].metric, BT_METRIC_WALL_TIME);
        }
    }
    bt_store_run_release(&run);
}

// Who gets the run as a bundle can check it.
static void assert_verifies(const bt_store_run *run)
{
    bt_files files = {0};
    bt_str packed = {0};
    bt_bundle_check check;
    ASSERT_OK(bt_content_build(run, NULL, &files));
    ASSERT_OK(bt_files_pack(&files, &packed));
    ASSERT_OK(bt_bundle_verify_bytes("b", bt_str_text(&packed), packed.length_bytes, NULL, &check));
    assert_string_equal(bt_str_text(&check.findings), "");
    bt_bundle_check_release(&check);
    bt_str_release(&packed);
    bt_files_release(&files);
}

// ---- cheats ------------------------------------------------------------------------------------

// Those of records and bundles of earlier builds, too: 'bt-bench verify' judges them by this.
static void messages_of_invalid_rounds_are_recognised(void **state)
{
    (void)state;
    assert_true(bt_plausible_is_invalid(BT_INVALID_BELOW_FLOOR "1 GB/s"));
    assert_true(bt_plausible_is_invalid(BT_INVALID_UNJOINED "for 5 ns"));
    assert_true(bt_plausible_is_invalid("work went on behind the clock: for 5 ns"));
    assert_true(bt_plausible_is_invalid(BT_INVALID_OUTPUTS "y"));
    assert_false(bt_plausible_is_invalid("implausible timing: a call takes 0.001 ns"));
    assert_false(bt_plausible_is_invalid(""));
}

// Each known way to cheat that is visible in times only: a replayed result, work that is skipped, a
// patched timer, work on a stream that the clock does not wait for. Invalid every time, never kept.
static void times_below_the_floor_are_invalid(void **state)
{
    (void)state;
    static const char *const modes[] = {"replay", "skip", "patched-timer", "side-stream",
                                        "unjoined"};
    static const char *const words[] = {"implausible timing: below the physical floor",
                                        "work continued after the timed interval: for 2000000 ns"};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        bt_run_request request =
            scratch_run_request(&suite, &kernels, &machine, SCRATCH_KERNEL_PEER);
        bt_run_outcome outcome;
        int64_t caught = 0;
        setenv("BT_HOSTILE", modes[i], 1);
        ASSERT_OK(bt_run_execute(&request, &outcome));
        bt_store_run run = scratch_run_read(outcome.run);
        for (int64_t j = 0; j < run.round_count; j++) {
            const bt_store_round *round = &run.rounds[j];
            if (!is_hostile(round)) {
                continue;
            }
            if (round->status != BT_RUN_INVALID ||
                !strstr(round->message, words[strcmp(modes[i], "unjoined") == 0])) {
                fail_msg("%s: %s: %s", modes[i], bt_run_status_name(round->status), round->message);
            }
            for (int64_t m = 0; m < round->measurement_count; m++) {
                assert_int_equal(round->measurements[m].metric, BT_METRIC_WALL_TIME);
            }
            ++caught;
        }
        assert_int_equal(caught, kernels.rounds * 3); // each is given three attempts
        assert_verifies(&run);
        bt_store_run_release(&run);
    }
}

static void the_floor_is_where_it_is_said_to_be(void **state)
{
    (void)state;
    const bt_plausible_kernel of = {
        .median_ns = 1e5, .wall_ns = 1e9, .copy_bytes_per_s = 1e9, .product_flop_per_s = 1e9};
    static const struct {
        bool gpu, hot;
        double bytes, flops;
    } least[] = {{false, false, 5e5, 0}, {true, false, 3e5, 0},  {false, true, 5e6, 0},
                 {true, true, 2e6, 0},   {false, false, 0, 4e5}, {true, false, 0, 1.5e5}};
    for (size_t i = 0; i < 2 * sizeof least / sizeof least[0]; i++) {
        const bool below = i % 2;
        bt_plausible_kernel seen = of;
        bt_str out = {0};
        seen.gpu = least[i / 2].gpu;
        seen.hot = least[i / 2].hot;
        seen.bytes = least[i / 2].bytes * (below ? 1.01 : 0.99);
        seen.flops = least[i / 2].flops * (below ? 1.01 : 0.99);
        bt_plausible_check_floor(&seen, &out);
        if ((out.length_bytes > 0) != below) {
            fail_msg("row %zu: %s", i, bt_str_text(&out));
        }
        seen.copy_bytes_per_s = seen.product_flop_per_s = 0; // without ceilings there is no floor
        bt_str_clear(&out);
        bt_plausible_check_floor(&seen, &out);
        assert_int_equal(out.length_bytes, 0);
        bt_str_release(&out);
    }
}

// ---- the bounds --------------------------------------------------------------------------------

static void bounds_are_where_they_are_said_to_be(void **state)
{
    (void)state;
    const bt_plausible_kernel sound = {.median_ns = 1e6,
                                       .total_ns = 3e8,
                                       .wall_ns = 1e9,
                                       .bytes = 1e6,
                                       .flops = 1e9,
                                       .copy_bytes_per_s = 1e9};
    const struct {
        bt_plausible_kernel seen;
        bool holds;
    } rows[] = {
        {sound, true},
        {{.median_ns = 1e6, .total_ns = 2.04e9, .wall_ns = 1e9}, true},
        {{.median_ns = 1e6, .total_ns = 2.06e9, .wall_ns = 1e9}, false},
        {{.median_ns = 1.0, .wall_ns = 1e9}, true},
        {{.median_ns = 0.99, .wall_ns = 1e9}, false},
        {{.median_ns = (double)NAN, .wall_ns = 1e9}, false},
        {{.median_ns = 1e5, .wall_ns = 1e9, .bytes = 9.9e5, .copy_bytes_per_s = 1e9}, true},
        {{.median_ns = 1e5, .wall_ns = 1e9, .bytes = 1.01e6, .copy_bytes_per_s = 1e9}, false},
        {{.median_ns = 1e5, .wall_ns = 1e9, .bytes = 9e6, .copy_bytes_per_s = 1e9, .hot = true},
         true},
        {{.median_ns = 1e5, .wall_ns = 1e9, .bytes = 1.1e7, .copy_bytes_per_s = 1e9, .hot = true},
         false},
        {{.median_ns = 1e3, .wall_ns = 1e9, .bytes = 9e7}, true},
        {{.median_ns = 1e3, .wall_ns = 1e9, .bytes = 1.1e8}, false},
        {{.median_ns = 1e3, .wall_ns = 1e9, .flops = 1.1e11}, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bt_str out = {0};
        bt_plausible_check_kernel(&rows[i].seen, &out);
        if ((out.length_bytes == 0) != rows[i].holds) {
            fail_msg("row %zu: %s", i, bt_str_text(&out));
        }
        bt_str_release(&out);
    }
    bt_store_step steps[2] = {{.host_ns = 1000000000}, {.host_ns = 5000000}};
    bt_plausible_steps seen = {.steps = steps, .count = 2, .wall_ns = 3e9, .arrivals_ns = 1e9};
    bt_str out = {0};
    bt_plausible_check_steps(&seen, &out);
    assert_string_equal(bt_str_text(&out), "");
    steps[1].host_ns--;
    bt_plausible_check_steps(&seen, &out);
    assert_non_null(strstr(bt_str_text(&out), "1 steps take 5.00 ms in total"));
    bt_str_clear(&out);
    seen.evals_ns = 1.0; // an evaluation lies between them
    bt_plausible_check_steps(&seen, &out);
    assert_string_equal(bt_str_text(&out), "");
    bt_str_release(&out);
}

static void nothing_leaks(void **state)
{
    (void)state;
    int64_t before = bt_mem_live_count();
    static const char *const modes[] = {"hang", "log", "binary", "long"};
    for (int i = 0; i < 4; i++) {
        bt_store_run run;
        run_mode(&short_training, modes[i], &run);
        bt_store_run_release(&run);
        assert_int_equal(bt_mem_live_count(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_peer_passes),
        cmocka_unit_test(hanging_peers_are_ended_with_their_children),
        cmocka_unit_test(floods_are_bounded),
        cmocka_unit_test(garbage_ends_the_peer_alone),
        cmocka_unit_test(events_out_of_place_are_refused),
        cmocka_unit_test(peers_may_die_behind_any_line),
        cmocka_unit_test(a_result_that_is_wrong_by_its_own_word_has_no_time),
        cmocka_unit_test(times_in_other_units_are_refused),
        cmocka_unit_test(messages_of_invalid_rounds_are_recognised),
        cmocka_unit_test(times_below_the_floor_are_invalid),
        cmocka_unit_test(the_floor_is_where_it_is_said_to_be),
        cmocka_unit_test(bounds_are_where_they_are_said_to_be),
        cmocka_unit_test(nothing_leaks),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
