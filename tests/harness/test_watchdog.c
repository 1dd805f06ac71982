// tests/harness/test_watchdog.c - a worker that hangs reports where; a working one is not disturbed
#include "harness/run/watchdog.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/data/shard.h"
#include "harness/run/worker.h"
#include "tests/support/faulty_device.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static void sleep_ms(long ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    (void)nanosleep(&pause, NULL);
}

// ---- the watchdog alone ------------------------------------------------------------------------

typedef struct heard {
    atomic_int alarms;
    bool ends; // what the alarm answers
    char where[BT_RANGES_TEXT_BYTES], device[BT_RANGES_DEVICE_TEXT_BYTES];
} heard;

static bool hear(void *self, const char *where, const char *device)
{
    heard *h = self;
    (void)snprintf(h->device, sizeof h->device, "%s", device);
    (void)snprintf(h->where, sizeof h->where, "%s", where);
    atomic_fetch_add(&h->alarms, 1);
    return h->ends;
}

static void a_thread_that_stands_still_is_noticed(void **state)
{
    (void)state;
    bt_ranges ranges = {0};
    heard h = {.ends = true};
    bt_watchdog *dog = NULL;
    bt_ranges_push(&ranges, "step");
    bt_ranges_push(&ranges, "forward");
    bt_ranges_note(&ranges, "gemm_f32");
    ASSERT_OK(bt_watchdog_start(&ranges, 0.1, (bt_watchdog_alarm){hear, &h}, &dog));
    for (int i = 0; i < 200 && atomic_load(&h.alarms) == 0; ++i) {
        sleep_ms(50);
    }
    sleep_ms(300);
    bt_watchdog_stop(dog);
    assert_int_equal(h.alarms, 1); // reported once
    assert_string_equal(h.where, "step/forward (gemm_f32)");
    assert_string_equal(h.device, ""); // of which nothing is known
}

// ---- how far the device has come ----------------------------------------------------------------

// A range with so many kernels. Returns the byte that the device is to set after it.
static unsigned char *run_range(bt_ranges *ranges, const char *name, int kernels)
{
    bt_ranges_push(ranges, name);
    for (int i = 0; i < kernels; ++i) {
        bt_ranges_note(ranges, "kernel");
        bt_ranges_note(ranges, NULL);
    }
    unsigned char *mark = bt_ranges_mark(ranges);
    bt_ranges_pop(ranges);
    return mark;
}

static void marks_tell_how_far_the_device_has_come(void **state)
{
    (void)state;
    static bt_ranges ranges;
    unsigned char done[BT_RANGES_MARKS] = {0};
    char text[BT_RANGES_DEVICE_TEXT_BYTES];
    assert_null(bt_ranges_marks_clear(&ranges)); // without marks
    assert_null(run_range(&ranges, "step", 100));
    assert_string_equal(bt_ranges_device_text(&ranges, text), "");
    bt_ranges_marks_keep(&ranges, done);
    assert_ptr_equal(bt_ranges_marks_clear(&ranges), done);
    assert_string_equal(bt_ranges_device_text(&ranges, text), "");
    bt_ranges_push(&ranges, "step");
    assert_null(bt_ranges_marks_clear(&ranges));                              // not the outermost
    assert_null(run_range(&ranges, "embedding", BT_RANGES_MARK_KERNELS - 1)); // none is due
    for (int i = 0; i < 3; ++i) {
        assert_ptr_equal(run_range(&ranges, "block", BT_RANGES_MARK_KERNELS), done + i);
    }
    assert_string_equal(bt_ranges_device_text(&ranges, text),
                        "the device has not completed step/block");
    done[0] = 1;
    assert_string_equal(bt_ranges_device_text(&ranges, text),
                        "the device has completed step/block, not step/block[1]");
    done[1] = done[2] = 1;
    assert_string_equal(bt_ranges_device_text(&ranges, text),
                        "the device has completed everything up to step/block[2]");
    bt_ranges_marks_keep(&ranges, NULL);
    assert_string_equal(bt_ranges_device_text(&ranges, text), "");
}

// The marks of a range that has more than there are lie further apart the next time.
static void marks_spread_over_a_long_range(void **state)
{
    (void)state;
    static bt_ranges ranges;
    unsigned char done[BT_RANGES_MARKS] = {0};
    bt_ranges_marks_keep(&ranges, done);
    for (int turn = 0; turn < 2; ++turn) {
        int marks = 0;
        assert_non_null(bt_ranges_marks_clear(&ranges));
        bt_ranges_push(&ranges, "step");
        for (int i = 0; i < BT_RANGES_MARKS + 2; ++i) {
            const unsigned char *mark = run_range(&ranges, "block", BT_RANGES_MARK_KERNELS);
            assert_true(!mark || mark == done + marks);
            marks += mark != NULL;
        }
        bt_ranges_pop(&ranges);
        assert_int_equal(marks, turn ? BT_RANGES_MARKS / 2 + 1 : BT_RANGES_MARKS);
    }
    bt_ranges_marks_keep(&ranges, NULL);
}

static void signs_of_life_keep_it_quiet(void **state)
{
    (void)state;
    bt_ranges ranges = {0};
    heard h = {.ends = true};
    bt_watchdog *dog = NULL;
    ASSERT_OK(bt_watchdog_start(&ranges, 2, (bt_watchdog_alarm){hear, &h}, &dog));
    for (int i = 0; i < 30; ++i) { // 3 s: longer than the limit, with signs of both kinds
        sleep_ms(100);
        if (i % 2) {
            bt_watchdog_beat(dog);
        } else {
            bt_ranges_push(&ranges, "step");
            bt_ranges_pop(&ranges);
        }
    }
    bt_watchdog_stop(dog);
    assert_int_equal(h.alarms, 0);
    ASSERT_OK(bt_watchdog_start(&ranges, 0, (bt_watchdog_alarm){hear, &h}, &dog));
    assert_null(dog); // no watchdog
    bt_watchdog_beat(dog);
    bt_watchdog_stop(dog);
}

static void what_is_no_hang_is_counted_anew(void **state)
{
    (void)state;
    bt_ranges ranges = {0};
    heard h = {.ends = false};
    bt_watchdog *dog = NULL;
    ASSERT_OK(bt_watchdog_start(&ranges, 0.05, (bt_watchdog_alarm){hear, &h}, &dog));
    for (int i = 0; i < 200 && atomic_load(&h.alarms) < 3; ++i) {
        sleep_ms(50);
    }
    bt_watchdog_stop(dog);
    assert_true(h.alarms >= 3);
    assert_string_equal(h.where, "");
}

static void deep_and_unbalanced_ranges_are_survived(void **state)
{
    (void)state;
    bt_ranges ranges = {0};
    char text[BT_RANGES_TEXT_BYTES];
    bt_ranges_pop(&ranges);
    for (int i = 0; i < 3 * BT_RANGES_DEPTH; ++i) {
        bt_ranges_push(&ranges, "a range with a rather long name");
    }
    assert_true(strlen(bt_ranges_text(&ranges, text)) == BT_RANGES_TEXT_BYTES - 1);
    for (int i = 0; i < 3 * BT_RANGES_DEPTH - 1; ++i) {
        bt_ranges_pop(&ranges);
    }
    assert_string_equal(bt_ranges_text(&ranges, text), "a range with a rather long name");
}

// ---- in a worker -------------------------------------------------------------------------------

static char said[1 << 20];

// Runs a worker in its own process until its output ends; `stop_ms`: it stands still for so
// long on the way. Returns waitpid's status.
static int run_worker(const char *task, const faulty_plan *fault, long stop_ms)
{
    int in[2], out[2], state = 0;
    size_t length = 0;
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(in[1]);
        (void)close(out[0]);
        faulty_device_plan(fault);
        _exit(bt_worker_main(in[0], out[1]));
    }
    (void)close(in[0]);
    (void)close(out[1]);
    assert_true(write(in[1], task, strlen(task)) == (ssize_t)strlen(task));
    if (stop_ms) {
        sleep_ms(200);
        (void)kill(child, SIGSTOP);
        sleep_ms(stop_ms);
        (void)kill(child, SIGCONT);
    }
    for (ssize_t part = 1; part > 0 && length + 1 < sizeof said; length += (size_t)part) {
        part = read(out[0], said + length, sizeof said - 1 - length);
        assert_true(part >= 0);
    }
    said[length] = '\0';
    (void)close(in[1]);
    (void)close(out[0]);
    assert_int_equal(waitpid(child, &state, 0), child);
    return state;
}

static const char *task_of(double hang_s, int steps)
{
    static char task[2048];
    (void)snprintf(
        task, sizeof task,
        "{\"protocol\":1,\"device\":\"faulty\",\"ordinal\":0,\"case\":{\"name\":\"one\",\"kind\":"
        "\"train\",\"train\":{\"precision\":\"fp32\",\"model\":{\"layers\":2,\"heads\":2,"
        "\"width\":32,\"vocab\":64,\"context\":16},\"optimizer\":{\"lr\":0.001,\"min_lr\":0.0001,"
        "\"beta1\":0.9,\"beta2\":0.95,\"epsilon\":1e-8,\"clip\":1},\"micro_batch\":4,"
        "\"sequence\":16,\"tokens_per_step\":64,\"steps\":%d,\"order\":\"sequential\","
        "\"recompute\":\"none\","
        "\"seed\":1,\"hang_s\":%g}},\"shards\":{\"train\":[\"%s\"],\"val\":[]}}\n",
        steps, hang_s, test_scratch_path("t.bin"));
    return task;
}

static void a_worker_that_hangs_says_in_which_ranges(void **state)
{
    (void)state;
    const faulty_plan hang = {FAULTY_HANG, BT_KERNEL_ATTENTION, 4, 4}; // step 1, second block
    const int64_t start_ns = bt_clock_ns();
    const int ended = run_worker(task_of(1, 100), &hang, 0);
    assert_true(bt_clock_ns() - start_ns < 60 * (int64_t)1000000000);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), bt_status_exit_code(BT_STATUS_INTERNAL));
    assert_non_null(strstr(said, "\"event\":\"error\",\"status\":\"internal error\""));
    assert_non_null(strstr(said, "the worker hangs in "
                                 "step/forward/block[1]/attention/attention (attention_cpu_f32)"));
    assert_non_null(strstr(said, "\"step\":0,")); // earlier output is complete
    assert_non_null(strstr(said, "seconds; the device has completed everything up to "
                                 "step/forward/block/mlp/feed_forward"));
    const faulty_plan late = {FAULTY_HANG, BT_KERNEL_ADAMW, 3, 3};
    (void)run_worker(task_of(1, 100), &late, 0);
    assert_non_null(strstr(said, "hangs in step/optimizer"));
    assert_non_null(strstr(said, " (adamw_cpu_f32): no range began"));
}

// The host has enqueued the step and waits; the device hangs in the second block.
static void a_device_that_hangs_is_told_apart_from_the_host(void **state)
{
    (void)state;
    const faulty_plan stall = {FAULTY_STALL, BT_KERNEL_ATTENTION, 4, 4}; // step 1, second block
    const int ended = run_worker(task_of(1, 100), &stall, 0);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == bt_status_exit_code(BT_STATUS_INTERNAL));
    assert_non_null(strstr(said, "the worker hangs in step: "));
    assert_non_null(strstr(said, "; the device has completed step/forward/block/mlp/feed_forward, "
                                 "not step/forward/layernorm"));
}

static void a_worker_that_was_stopped_goes_on(void **state)
{
    (void)state;
    const faulty_plan none = {.kind = FAULTY_NONE};
    const int ended = run_worker(task_of(1.5, 400), &none, 4000);
    assert_null(strstr(said, "hangs"));
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    assert_non_null(strstr(said, "\"event\":\"result\""));
}

static int set_up(void **state)
{
    static uint16_t tokens[2000];
    (void)state;
    for (int i = 0; i < 2000; ++i) {
        tokens[i] = (uint16_t)(i * 7 % 64);
    }
    faulty_device_add();
    return !test_scratch_make() ||
           bt_shard_write(test_scratch_path("t.bin"), tokens, 2000) != BT_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_stands_still_is_noticed),
        cmocka_unit_test(marks_tell_how_far_the_device_has_come),
        cmocka_unit_test(marks_spread_over_a_long_range),
        cmocka_unit_test(signs_of_life_keep_it_quiet),
        cmocka_unit_test(what_is_no_hang_is_counted_anew),
        cmocka_unit_test(deep_and_unbalanced_ranges_are_survived),
        cmocka_unit_test(a_worker_that_hangs_says_in_which_ranges),
        cmocka_unit_test(a_device_that_hangs_is_told_apart_from_the_host),
        cmocka_unit_test(a_worker_that_was_stopped_goes_on),
    };
    return cmocka_run_group_tests_name("watchdog", tests, set_up, test_scratch_teardown);
}
