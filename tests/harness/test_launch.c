// tests/harness/test_launch.c - ranks that are lost come back with the same result, and what cannot
// come back is named
//
// The ranks are this program under another name (launch_rank.h).
#include "harness/launch/launch.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "tests/harness/launch_rank.h"
#include "tests/harness/need_nvml.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

// A rank that the launcher kills after a step goes on for HOLD_STEPS, then waits for it: on a
// loaded machine it would otherwise be done before.
enum { STEPS = 60, HOLD_STEPS = 5 };

typedef struct seen {
    const char *act;
    int act_rank, act_step;
    bool spare;
    bool waits;                      // for the spares to join their group
    bool turns;                      // ranks share processors
    bool gpus;                       // each rank has one; which of them failed, FAKE_NVML_XID says
    int planned;                     // steps; 0: STEPS
    const bt_launch_fault *injected; // [fault_count], one per generation; set by run
    int64_t fault_count;
    int steps, recoveries, faults, stragglers, smallest;
    float last_loss;
    char digest[80], kind[32], message[1200], straggler[256], fault[256];
    int64_t detect_ns[256], group_ns[256], resume_ns[256];
    int64_t fault_step, repeated, caught_up_ns; // of the last recovery; 0: not caught up
    int64_t noticed_ns;                         // after the rank's action, in the last recovery
} seen;

// When a rank last did something wrong; 0: none did.
static int64_t acted_ns(void)
{
    char path[PATH_MAX];
    void *bytes = NULL;
    size_t size_bytes = 0;
    int64_t time_ns = 0;
    (void)snprintf(path, sizeof path, "%s/acted", test_scratch_path("."));
    if (bt_file_exists(path)) {
        ASSERT_OK(bt_file_read(path, &bytes, &size_bytes));
        assert_int_equal(sscanf(bytes, "%" SCNd64, &time_ns), 1);
        bt_mem_free(bytes);
    }
    return time_ns;
}

static bt_status write_task(const seen *what, const bt_rank_start *rank, int flight_fd,
                            const char *flag, bt_str *out)
{
    const int64_t at = rank->generation - 1;
    const bt_launch_fault *fault = at < what->fault_count ? &what->injected[at] : NULL;
    const bool holds = fault && fault->step != BT_LAUNCH_AT_START;
    bt_str_format(out,
                  "{\"folder\":\"%s\",\"act\":\"%s\",\"act_rank\":%d,\"act_step\":%d,"
                  "\"hold_rank\":%d,\"hold_step\":%d,\"steps\":%d,\"%s\":true,"
                  "\"ranks\":{\"rank\":%d,\"size\":%d,"
                  "\"generation\":%" PRId64 ",\"group_fd\":%d,\"flight_fd\":%d}}",
                  test_scratch_path("."), what->act ? what->act : "", what->act_rank,
                  what->act_step, holds ? fault->rank : -1,
                  holds ? (int)fault->step + HOLD_STEPS : -1, what->planned ? what->planned : STEPS,
                  flag, rank->rank, rank->size, rank->generation, rank->group_fd, flight_fd);
    return bt_str_status(out);
}

static bt_status make_task(void *self, const bt_rank_start *rank, int flight_fd, bt_str *out)
{
    return write_task(self, rank, flight_fd, ((seen *)self)->waits ? "waits" : "begins", out);
}

static bt_status make_preparation(void *self, const bt_rank_start *rank, int flight_fd, bt_str *out)
{
    return write_task(self, rank, flight_fd, "prepare", out);
}

static bool any_size(void *self, int size)
{
    (void)self;
    return size >= 1;
}

static bt_status on_event(void *self, const bt_run_event *event)
{
    seen *what = self;
    if (event->type == BT_RUN_EVENT_STEP) {
        assert_int_equal(event->as.step.step, what->steps); // each once, in order
        ++what->steps;
        what->last_loss = event->as.step.loss;
    } else if (event->type == BT_RUN_EVENT_RESULT) {
        (void)snprintf(what->digest, sizeof what->digest, "%s", event->as.result.params_digest);
    } else if (event->type == BT_RUN_EVENT_FAULT) {
        const bool slow = strcmp(event->as.fault.kind, "straggler") == 0;
        ++*(slow ? &what->stragglers : &what->faults);
        (void)snprintf(slow ? what->straggler : what->fault, sizeof what->fault, "%s: %s: %s",
                       event->as.fault.kind, event->as.fault.action, event->as.fault.message);
    }
    return BT_OK;
}

static bt_status on_recovered(void *self, const bt_launch_recovery *recovery)
{
    seen *what = self;
    if (what->recoveries < 256) {
        what->detect_ns[what->recoveries] = recovery->detect_ns;
        what->group_ns[what->recoveries] = recovery->group_ns;
        what->resume_ns[what->recoveries] = recovery->resume_ns;
    }
    ++what->recoveries;
    what->fault_step = recovery->step;
    what->repeated = recovery->step - recovery->from_step;
    what->caught_up_ns = 0;
    what->smallest = recovery->size;
    (void)snprintf(what->kind, sizeof what->kind, "%s",
                   bt_cause_row_of(recovery->cause->kind)->name);
    (void)snprintf(what->message, sizeof what->message, "%s", recovery->cause->message);
    what->noticed_ns = bt_clock_ns() - recovery->first_step_ns - acted_ns();
    assert_true(recovery->group_ns >= 0 && recovery->group_ns <= recovery->first_step_ns);
    assert_true(recovery->resume_ns >= 0 && recovery->resume_ns <= recovery->first_step_ns);
    return BT_OK;
}

static bt_status on_caught_up(void *self, const bt_launch_recovery *recovery)
{
    seen *what = self;
    assert_true(what->recoveries > 0 && what->caught_up_ns == 0);
    what->caught_up_ns = recovery->caught_up_ns;
    assert_true(recovery->caught_up_ns >=
                (what->repeated > 0 ? recovery->first_step_ns : recovery->resume_ns));
    return BT_OK;
}

static bool never(void *self)
{
    (void)self;
    return false;
}

static bt_status run(seen *what, int size, bool shrink, const bt_launch_fault *faults,
                     int64_t fault_count)
{
    char rank[PATH_MAX], own[PATH_MAX] = "";
    (void)snprintf(rank, sizeof rank, "%s", test_scratch_path("rank"));
    assert_true(readlink("/proc/self/exe", own, sizeof own - 1) > 0);
    (void)unlink(rank);
    assert_int_equal(symlink(own, rank), 0);
    static const bool usable[BT_LAUNCH_RANKS_MAX] = {true, true, true, true};
    static const char *const old[] = {"state", "spare-used0", "spare-joined0", "spare-joined1"};
    for (size_t i = 0; i < sizeof old / sizeof old[0]; ++i) {
        (void)unlink(test_scratch_path(old[i]));
    }
    what->injected = faults;
    what->fault_count = fault_count;
    bt_launch launch = {.size = size,
                        .program = rank,
                        .shrink = shrink,
                        .spare = what->spare,
                        .take_turns = what->turns,
                        .hang_s = what->act && strcmp(what->act, "halt") == 0 ? 20 : 2,
                        .steps = what->planned ? what->planned : STEPS,
                        .faults = faults,
                        .fault_count = fault_count,
                        .devices = what->gpus ? usable : NULL,
                        .listener = {.self = what,
                                     .task = make_task,
                                     .prepare = make_preparation,
                                     .fits = any_size,
                                     .event = on_event,
                                     .recovered = on_recovered,
                                     .caught_up = on_caught_up,
                                     .should_stop = never}};
    return bt_launch_run(&launch);
}

static void expect_same(const seen *undisturbed, const seen *what)
{
    assert_int_equal(what->steps, what->planned ? what->planned : STEPS);
    assert_string_equal(what->digest, undisturbed->digest);
}

static void print_times(const char *name, const int64_t *times_ns, int count)
{
    int64_t most = 0, sum = 0;
    for (int i = 0; i < count; ++i) {
        sum += times_ns[i];
        most = times_ns[i] > most ? times_ns[i] : most;
    }
    print_message("%s: mean %.1f ms, at most %.1f ms\n", name, (double)sum / 1e6 / count,
                  (double)most / 1e6);
}

// Every fault that ranks come back from: what causes it, what it is called, what the message says.
static void ranks_come_back(void **state)
{
    (void)state;
    static const struct {
        const char *act;
        int rank, step;
        const char *kind, *message;
        double noticed_s; // at most
    } rows[] = {
        {"exit", 1, 7, "rank_exit", "rank 1 ", 1.5},
        {"abort", 0, 9, "rank_killed", "rank 0 ", 1.5},
        {"spin", 1, 12, "rank_hang", "rank 1 did not enter all_reduce of 8 bytes f64", 6},
        {"halt", 1, 12, "rank_hang", "rank 1 ", 15}, // hang_s is 20 there
        {"internal", 1, 8, "rank_failed", "rank 1: a sum is impossible", 1.5},
        {"diverge", 1, 5, "divergent_collectives",
         "rank 1 left the common order of collectives: it called all_reduce of 16 bytes f32, call "
         "7, at launch_rank.c:",
         1.5},
    };
    seen undisturbed = {0};
    ASSERT_OK(run(&undisturbed, 2, false, NULL, 0));
    assert_int_equal(undisturbed.steps, STEPS);
    assert_int_equal(undisturbed.recoveries, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        seen what = {.act = rows[i].act, .act_rank = rows[i].rank, .act_step = rows[i].step};
        ASSERT_OK(run(&what, 2, false, NULL, 0));
        expect_same(&undisturbed, &what);
        assert_int_equal(what.recoveries, 1);
        assert_string_equal(what.kind, rows[i].kind);
        if (!strstr(what.message, rows[i].message)) {
            fail_msg("%s: %s", rows[i].act, what.message);
        }
        print_message("%s: noticed %.1f ms, group again %.1f ms, training again %.1f ms\n",
                      rows[i].kind, (double)what.noticed_ns / 1e6, (double)what.group_ns[0] / 1e6,
                      (double)what.resume_ns[0] / 1e6);
        assert_true(what.noticed_ns >= 0 && (double)what.noticed_ns / 1e9 < rows[i].noticed_s);
    }
}

static void faults_can_be_caused(void **state)
{
    (void)state;
    const bt_launch_fault faults[] = {
        {SIGKILL, 1, 5, 0}, {SIGKILL, 0, 20, 300000}, {SIGSTOP, 1, 35, 0}, {SIGSEGV, 0, 36, 0}};
    seen undisturbed = {0}, what = {0};
    ASSERT_OK(run(&undisturbed, 3, false, NULL, 0));
    ASSERT_OK(run(&what, 3, false, faults, 4));
    expect_same(&undisturbed, &what);
    assert_int_equal(what.recoveries, 4);
    for (int i = 0; i < 4; ++i) {
        assert_true(what.detect_ns[i] >= 0);
        assert_true(what.group_ns[i] >= what.detect_ns[i]);
    }
}

// The second rank is killed before the first step of the recovery from the first.
static void a_fault_of_a_recovery_is_told(void **state)
{
    (void)state;
    const bt_launch_fault faults[] = {{SIGKILL, 1, 5, 0}, {SIGKILL, 0, BT_LAUNCH_AT_START, 0}};
    seen undisturbed = {0}, what = {0};
    ASSERT_OK(run(&undisturbed, 2, false, NULL, 0));
    ASSERT_OK(run(&what, 2, false, faults, 2));
    expect_same(&undisturbed, &what);
    assert_int_equal(what.recoveries, 1);
    assert_int_equal(what.faults, 2);
    assert_memory_equal(what.fault, "rank_killed: restart with 2 ranks: rank 0 ", 42);
}

static void a_step_that_is_seen_before_the_start_is_behind_it(void **state)
{
    (void)state;
    const bt_launch_fault fault = {SIGKILL, 1, 5, 0};
    seen undisturbed = {0}, what = {.act = "always-late", .act_rank = 0, .act_step = -1};
    ASSERT_OK(run(&undisturbed, 2, false, NULL, 0));
    ASSERT_OK(run(&what, 2, false, &fault, 1));
    expect_same(&undisturbed, &what);
    assert_int_equal(what.recoveries, 1);
    // Of a state of each step, which rank 0 may have saved before the other rank had counted it.
    assert_true(what.repeated >= -1 && what.repeated <= 1);
}

// Without a state the ranks begin again, and are behind for as long as that takes.
static void repeated_steps_are_told(void **state)
{
    (void)state;
    const bt_launch_fault faults[] = {{SIGKILL, 1, 40, 0}, {SIGKILL, 0, 50, 0}};
    seen what = {.act = "forget"};
    ASSERT_OK(run(&what, 2, false, faults, 1));
    assert_int_equal(what.recoveries, 1);
    // Rank 0 may not have counted its 40th step when rank 1 is killed. A step takes 1 ms and more.
    assert_true(what.fault_step >= 39 && what.repeated == what.fault_step);
    assert_true(what.caught_up_ns > 39 * 1000000);
    seen twice = {.act = "forget"};
    ASSERT_OK(run(&twice, 2, false, faults, 2));
    assert_int_equal(twice.recoveries, 2);
    assert_true(twice.repeated >= 49 && twice.caught_up_ns > 0);
}

static void a_fault_that_comes_too_late_fails_the_run(void **state)
{
    (void)state;
    const bt_launch_fault faults[] = {{SIGKILL, 1, 5, 0}, {SIGKILL, 0, STEPS - 1, 60000000000}};
    seen what = {0};
    assert_int_equal(run(&what, 2, false, faults, 2), BT_STATUS_UNAVAILABLE);
    assert_non_null(strstr(bt_error_message(), "train.mesh.faults[1] did not occur: rank 0 had "));
    assert_int_equal(what.recoveries, 1);
}

// Rank 0 waits for rank 1 in a part of two, ranks 2 and 3 wait for both in the whole.
static void a_rank_that_waits_in_a_part_is_not_blamed(void **state)
{
    (void)state;
    seen undisturbed = {.act = "part-"}, what = {.act = "part-spin", .act_rank = 1, .act_step = 9};
    ASSERT_OK(run(&undisturbed, 4, false, NULL, 0));
    ASSERT_OK(run(&what, 4, false, NULL, 0));
    expect_same(&undisturbed, &what);
    assert_string_equal(what.kind, "rank_hang");
    if (!strstr(what.message, "; rank 1 did not enter all_reduce of 8 bytes f32, call 10, at "
                              "launch_rank.c:")) {
        fail_msg("%s", what.message);
    }
}

static void a_rank_that_is_stopped_is_named(void **state)
{
    (void)state;
    for (int64_t delay_ns = 0; delay_ns < 3000000; delay_ns += 700000) { // also inside of calls
        const bt_launch_fault fault = {SIGSTOP, 1, 5, delay_ns};
        seen what = {0};
        ASSERT_OK(run(&what, 3, false, &fault, 1));
        assert_string_equal(what.kind, "rank_hang");
        if (!strstr(what.message, "; rank 1 ")) {
            fail_msg("%s", what.message);
        }
    }
}

// Spares take over; where they died, or are of another number of ranks, processes are started.
static void spares_take_over(void **state)
{
    (void)state;
    static const struct {
        const char *act;
        bool spare, used;
    } rows[] = {{"exit", true, true}, {"exit", false, false}, {"spare-dies", true, false}};
    const bt_launch_fault fault = {SIGKILL, 0, 40, 0};
    seen undisturbed = {.spare = true};
    ASSERT_OK(run(&undisturbed, 2, false, NULL, 0));
    assert_false(bt_file_exists(test_scratch_path("spare-used0")));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        seen what = {.act = rows[i].act, .act_rank = 1, .act_step = 50, .spare = rows[i].spare};
        what.waits = rows[i].used;
        ASSERT_OK(run(&what, 2, false, &fault, 1));
        expect_same(&undisturbed, &what);
        assert_int_equal(what.recoveries, 1); // rank 1 exits in the first generation alone
        assert_int_equal(bt_file_exists(test_scratch_path("spare-used0")), rows[i].used);
        // The new group exists when the fault is detected.
        assert_int_equal(what.group_ns[0] == what.detect_ns[0], rows[i].used);
    }
}

// Spares hold memory of the GPUs: a rank that has too little gets theirs, once.
static void spares_give_their_memory(void **state)
{
    (void)state;
    seen undisturbed = {0};
    seen what = {
        .act = "memory", .act_rank = 1, .act_step = 40, .spare = true, .waits = true, .gpus = true};
    seen without = {.act = "memory", .act_rank = 1, .act_step = 40, .gpus = true};
    seen again = {.act = "always-memory",
                  .act_rank = 1,
                  .act_step = 40,
                  .spare = true,
                  .waits = true,
                  .gpus = true};
    if (need_fake_nvml()) {
        return;
    }
    ASSERT_OK(run(&undisturbed, 2, false, NULL, 0));
    ASSERT_OK(run(&what, 2, false, NULL, 0));
    expect_same(&undisturbed, &what);
    assert_string_equal(what.kind, "rank_out_of_memory");
    assert_false(bt_file_exists(test_scratch_path("spare-used0")));
    assert_int_equal(run(&without, 2, false, NULL, 0), BT_STATUS_OUT_OF_MEMORY);
    assert_int_equal(run(&again, 2, false, NULL, 0), BT_STATUS_OUT_OF_MEMORY);
}

static void soak(int kills)
{
    bt_launch_fault faults[256];
    seen undisturbed = {.planned = 40 * kills}, what = {.planned = 40 * kills, .spare = true};
    uint64_t random = 12345;
    for (int i = 0; i < kills; ++i) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        faults[i] = (bt_launch_fault){.signal = SIGKILL,
                                      .rank = (int)(random >> 33) % 2,
                                      .step = 30 * (int64_t)i,
                                      .delay_ns = (int64_t)((random >> 40) % 1500000)};
    }
    ASSERT_OK(run(&undisturbed, 2, false, NULL, 0));
    ASSERT_OK(run(&what, 2, false, faults, kills));
    expect_same(&undisturbed, &what);
    assert_int_equal(what.recoveries, kills);
    print_message("%d kills\n", what.recoveries);
    print_times("noticed", what.detect_ns, what.recoveries);
    print_times("group again", what.group_ns, what.recoveries);
    print_times("training again", what.resume_ns, what.recoveries);
}

static int kills_in_a_row = 20; // or the program's argument

static void many_kills_in_a_row(void **state)
{
    (void)state;
    soak(kills_in_a_row);
}

static void what_would_happen_again_ends_the_run(void **state)
{
    (void)state;
    static const struct {
        const char *act;
        int rank, step;
        bt_status status;
        const char *message;
    } rows[] = {
        {"memory", 1, 3, BT_STATUS_OUT_OF_MEMORY, "rank 1: no memory for a tensor"},
        {"always-exit", 1, 3, BT_STATUS_UNAVAILABLE, "the third fault in a row"},
        {"digest", 1, -1, BT_STATUS_CORRUPT_DATA, "rank 1 ended with the state"},
        {"build", 0, 0, BT_STATUS_INVALID_ARGUMENT, "ranks differ in their build: rank 1 on "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        seen what = {.act = rows[i].act, .act_rank = rows[i].rank, .act_step = rows[i].step};
        assert_int_equal(run(&what, 2, false, NULL, 0), rows[i].status);
        if (!strstr(bt_error_message(), rows[i].message)) {
            fail_msg("%s: %s", rows[i].act, bt_error_message());
        }
        if (acted_ns() > 0) {
            print_message("%s: the run has ended %.1f ms later\n", rows[i].act,
                          (double)(bt_clock_ns() - acted_ns()) / 1e6);
        }
        (void)unlink(test_scratch_path("acted"));
    }
    seen what = {0};
    assert_int_equal(run(&what, BT_LAUNCH_RANKS_MAX + 1, false, NULL, 0),
                     BT_STATUS_INVALID_ARGUMENT);
}

// Rank 1 of two can never take step 3, rank 0 alone can.
static void fewer_ranks_go_on(void **state)
{
    (void)state;
    seen what = {.act = "always-exit", .act_rank = 1, .act_step = 3, .spare = true};
    ASSERT_OK(run(&what, 2, true, NULL, 0));
    assert_int_equal(what.steps, STEPS);
    assert_int_equal(what.smallest, 1);
    assert_true(what.recoveries >= 1);
}

// An error of the program: the same GPUs again. An error of the memory: without this GPU.
static void errors_of_gpus_restart_or_leave_them_out(void **state)
{
    (void)state;
    seen undisturbed = {0}, restarted = {.gpus = true}, smaller = {.gpus = true},
         none = {.gpus = true};
    if (need_fake_nvml()) {
        return;
    }
    ASSERT_OK(run(&undisturbed, 2, false, NULL, 0));
    assert_int_equal(setenv("FAKE_NVML_XID", "0:31", 1), 0);
    ASSERT_OK(run(&restarted, 2, false, NULL, 0));
    expect_same(&undisturbed, &restarted);
    assert_int_equal(restarted.recoveries, 1);
    assert_string_equal(restarted.kind, "gpu_xid");
    assert_int_equal(setenv("FAKE_NVML_XID", "1:79", 1), 0);
    ASSERT_OK(run(&smaller, 2, true, NULL, 0));
    assert_int_equal(smaller.smallest, 1);
    assert_string_equal(smaller.kind, "gpu_lost");
    assert_non_null(strstr(smaller.message, "rank 1: the driver reports XID 79 for GPU 1: the GPU "
                                            "has fallen off the bus"));
    assert_int_equal(setenv("FAKE_NVML_XID", "1:95", 1), 0); // and none may be left out
    assert_int_equal(run(&none, 2, false, NULL, 0), BT_STATUS_UNAVAILABLE);
    assert_int_equal(unsetenv("FAKE_NVML_XID"), 0);
}

static void a_slow_rank_is_reported(void **state)
{
    (void)state;
    for (int slow = 0; slow < 4; ++slow) {
        // So that a window of 50 steps is complete even if the launcher sees the first ones late.
        seen what = {.act = "always-slow", .act_rank = slow, .act_step = -1, .planned = 100};
        char words[64];
        (void)snprintf(words, sizeof words, "straggler: report: rank %d computed ", slow);
        ASSERT_OK(run(&what, 4, false, NULL, 0));
        assert_int_equal(what.recoveries, 0);
        assert_true(what.stragglers >= 1);
        assert_memory_equal(what.straggler, words, strlen(words));
    }
    seen turns = {
        .act = "always-slow", .act_rank = 1, .act_step = -1, .planned = 100, .turns = true};
    ASSERT_OK(run(&turns, 4, false, NULL, 0));
    assert_int_equal(turns.stragglers, 0);
}

// Their hosts wait in few calls; the time of the others says nothing about the devices.
static void ranks_on_gpus_are_no_stragglers(void **state)
{
    (void)state;
    seen what = {.act = "always-slow", .act_rank = 1, .act_step = -1, .planned = 100, .gpus = true};
    if (need_fake_nvml()) {
        return;
    }
    ASSERT_OK(run(&what, 2, false, NULL, 0));
    assert_int_equal(what.stragglers, 0);
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    if (strcmp(slash ? slash + 1 : argv[0], "rank") == 0) {
        return launch_rank_main();
    }
    bt_interrupt_watch();
    if (argc == 2) {
        const struct CMUnitTest long_soak[] = {cmocka_unit_test(many_kills_in_a_row)};
        kills_in_a_row = (int)strtol(argv[1], NULL, 10) % 257;
        return cmocka_run_group_tests(long_soak, test_scratch_setup, test_scratch_teardown);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_come_back),
        cmocka_unit_test(faults_can_be_caused),
        cmocka_unit_test(a_fault_of_a_recovery_is_told),
        cmocka_unit_test(a_step_that_is_seen_before_the_start_is_behind_it),
        cmocka_unit_test(repeated_steps_are_told),
        cmocka_unit_test(a_fault_that_comes_too_late_fails_the_run),
        cmocka_unit_test(a_rank_that_waits_in_a_part_is_not_blamed),
        cmocka_unit_test(a_rank_that_is_stopped_is_named),
        cmocka_unit_test(what_would_happen_again_ends_the_run),
        cmocka_unit_test(fewer_ranks_go_on),
        cmocka_unit_test(spares_take_over),
        cmocka_unit_test(spares_give_their_memory),
        cmocka_unit_test(errors_of_gpus_restart_or_leave_them_out),
        cmocka_unit_test(a_slow_rank_is_reported),
        cmocka_unit_test(ranks_on_gpus_are_no_stragglers),
        cmocka_unit_test(many_kills_in_a_row),
    };
    return cmocka_run_group_tests(tests, test_scratch_setup, test_scratch_teardown);
}
