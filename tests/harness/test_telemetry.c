// tests/harness/test_telemetry.c - samples of the machine beside a round: recorded, read, judged
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "harness/compare/compare.h"
#include "harness/report/report.h"
#include "harness/run/record.h"
#include "harness/run/run.h"
#include "harness/run/telemetry_internal.h"
#include "harness/stats/noise.h"
#include "harness/stats/summary.h"
#include "harness/store/internal.h"
#include "tests/harness/need_nvml.h"
#include "tests/harness/sample_run.h"
#include "tests/harness/scratch_run.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/test.h"

static void forget_variables(void)
{
    static const char *const names[] = {"FAKE_NVML_THROTTLE",
                                        "FAKE_NVML_CLOCK",
                                        "FAKE_NVML_PIDS",
                                        "FAKE_NVML_LOST",
                                        "FAKE_NVML_SLOW",
                                        "BT_FAKE_WORKER",
                                        "FAKE_NVML_THROTTLE_SECOND",
                                        "FAKE_NVML_CLOCK_SECOND"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
}

static int set_up(void **state)
{
    forget_variables();
    return scratch_database_name(state);
}

static int tear_down(void **state)
{
    forget_variables();
    return scratch_database_remove(state);
}

// ---- the record --------------------------------------------------------------------------------

enum { SAMPLES = 700 };

static bt_store_telemetry sample(int i)
{
    return (bt_store_telemetry){.t_ns = 1e8 * i,
                                .sm_clock_mhz = 1980.0 - i % 7,
                                .memory_clock_mhz = 3201.0,
                                .power_w = 312.125 + i,
                                .temperature_c = i % 3 ? 51.0 : (double)NAN,
                                .throttle = BT_THROTTLE_POWER_CAP,
                                .other_processes = 0.0,
                                .cpu_clock_mhz = (double)NAN,
                                .load = 1.5,
                                .other_cores = 0.25,
                                .idle_cores = 1.5,
                                .steal_share = 0.0,
                                .held_share = 0.0,
                                .switches_per_s = 1000.0 + i,
                                .cost_ns = 90000.0};
}

// Run and round of a fresh database, still going on.
static int64_t begin_round(bt_store *store, int64_t *run)
{
    sample_run made = sample_run_default();
    made.steps = 3;
    ASSERT_OK(sample_run_record(store, &made, run));
    const bt_store_case what = {
        .bench = "b", .kind = "kernel", .name = "c", .axes_json = "{}", .system = "blutrain"};
    int64_t round = 0;
    ASSERT_OK(bt_store_round_begin(store, *run, &what, 0, &round));
    return round;
}

static void telemetry_comes_back(void **state)
{
    (void)state;
    static bt_store_telemetry samples[SAMPLES];
    int64_t run_id = 0;
    bt_store *store = scratch_open(BT_STORE_WRITE);
    int64_t round = begin_round(store, &run_id);
    for (int i = 0; i < SAMPLES; i++) {
        samples[i] = sample(i);
    }
    ASSERT_OK(bt_store_telemetry_set(store, round, "throttled", samples, 3));
    ASSERT_OK(bt_store_telemetry_set(store, round, "loaded machine", samples, SAMPLES)); // replaces
    bt_store_run run;
    ASSERT_OK(bt_store_run_read(store, run_id, &run));
    assert_string_equal(run.rounds[0].label, ""); // what was never looked at
    assert_int_equal(run.rounds[0].telemetry_count, 0);
    const bt_store_round *read = &run.rounds[run.round_count - 1];
    assert_int_equal(read->id, round);
    assert_string_equal(read->label, "loaded machine");
    assert_int_equal(read->telemetry_count, SAMPLES);
    assert_memory_equal(read->telemetry, samples, sizeof samples);
    bt_store_run_release(&run);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no round 999",
                 bt_store_telemetry_set(store, 999, "", samples, 1));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "-1 samples",
                 bt_store_telemetry_set(store, round, "", samples, -1));
    ASSERT_OK(bt_store_close(store));
}

static void an_invalid_round_is_run_again_and_passes_once(void **state)
{
    (void)state;
    int64_t run_id = 0, again = 0;
    bt_store *store = scratch_open(BT_STORE_WRITE);
    int64_t round = begin_round(store, &run_id);
    const bt_store_case what = {
        .bench = "b", .kind = "kernel", .name = "c", .axes_json = "{}", .system = "blutrain"};
    ASSERT_OK(bt_store_round_end(store, round, BT_RUN_INVALID, "throttled", ""));
    ASSERT_OK(bt_store_round_begin(store, run_id, &what, 0, &again));
    ASSERT_OK(bt_store_round_end(store, again, BT_RUN_PASSED, "", ""));
    ASSERT_OK(bt_store_round_begin(store, run_id, &what, 0, &again));
    bt_status status = bt_store_round_end(store, again, BT_RUN_PASSED, "", "");
    assert_int_equal(status, BT_STATUS_INVALID_ARGUMENT);
    bt_store_run run;
    ASSERT_OK(bt_store_run_read(store, run_id, &run));
    assert_int_equal(run.round_count, 4);
    assert_int_equal(run.rounds[1].status, BT_RUN_INVALID);
    assert_string_equal(bt_run_status_name(run.rounds[1].status), "invalid");
    assert_int_equal(run.rounds[2].status, BT_RUN_PASSED);
    bt_store_run_release(&run);
    ASSERT_OK(bt_store_close(store));
}

static void columns_of_other_versions_are_read_by_name(void **state)
{
    (void)state;
    const bt_store_telemetry samples[2] = {sample(1), sample(2)};
    int64_t run_id = 0;
    bt_store *store = scratch_open(BT_STORE_WRITE);
    int64_t round = begin_round(store, &run_id);
    ASSERT_OK(bt_store_telemetry_set(store, round, "", samples, 2));
    ASSERT_OK(bt_store_close(store));
    // As if power had not been known and another column had stood in its place.
    scratch_execute("UPDATE telemetry SET columns=replace(columns, 'power_w', 'fan_speed');"
                    "UPDATE round SET seal=''");
    store = scratch_open(BT_STORE_WRITE);
    bt_store_run run;
    ASSERT_OK(bt_store_run_read(store, run_id, &run));
    const bt_store_round *read = &run.rounds[run.round_count - 1];
    assert_true(isnan(read->telemetry[1].power_w));
    assert_true(read->telemetry[1].sm_clock_mhz == samples[1].sm_clock_mhz);
    assert_true(read->telemetry[1].switches_per_s == samples[1].switches_per_s);
    bt_store_run_release(&run);
    ASSERT_OK(bt_store_close(store));
    scratch_execute(
        "UPDATE telemetry SET count=3; UPDATE round SET seal=''"); // more than the blob holds
    store = scratch_open(BT_STORE_WRITE);
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "telemetry", bt_store_run_read(store, run_id, &run));
    ASSERT_OK(bt_store_close(store));
}

static void columns_have_names(void **state)
{
    (void)state;
    const bt_store_telemetry one = sample(4);
    assert_string_equal(bt_telemetry_column_info(0)->name, "t_ns");
    assert_true(bt_telemetry_value(&one, 0) == one.t_ns);
    assert_string_equal(bt_telemetry_column_info(BT_TELEMETRY_COLUMNS - 1)->name, "step_ended_ns");
    assert_true(bt_telemetry_value(&one, BT_TELEMETRY_COLUMNS - 1) == one.step_ended_ns);
    assert_string_equal(bt_noise_name(BT_NOISE_QUIET), "");
    assert_true(bt_noise_invalidates(BT_NOISE_FOREIGN_PROCESS));
    assert_false(bt_noise_invalidates(BT_NOISE_LOADED));
    for (int i = 0; i < BT_NOISE_COUNT; i++) {
        bt_noise noise = BT_NOISE_COUNT;
        assert_true(bt_noise_parse(bt_noise_name((bt_noise)i), &noise));
        assert_int_equal(noise, i);
    }
    bt_noise noise = BT_NOISE_COUNT;
    assert_false(bt_noise_parse("hot", &noise));
}

static void every_failed_allocation_of_writing_is_reported(void **state)
{
    (void)state;
    const bt_store_telemetry samples[2] = {sample(1), sample(2)};
    int64_t run_id = 0;
    bt_store *store = scratch_open(BT_STORE_WRITE);
    int64_t round = begin_round(store, &run_id);
    int64_t before = bt_mem_live_count();
    for (int64_t n = 1;; n++) {
        bt_mem_fail_at(n);
        bt_status status = bt_store_telemetry_set(store, round, "", samples, 2);
        bt_mem_fail_at(0);
        if (status == BT_OK) {
            break;
        }
        assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), before);
    }
    ASSERT_OK(bt_store_close(store));
}

// ---- the sampler, with a made-up NVML ----------------------------------------------------------

static double begin_s; // how long the last bt_telemetry_begin took

// The made-up GPUs draw a constant power. Their counters are read after the clock, at the beginning
// and in the sample: on a busy machine any time later within both.
static bool is_energy(const bt_store_telemetry *last, double power_w)
{
    const double late_s = begin_s + last->cost_ns / 1e9;
    return fabs(last->energy_j - power_w * last->t_ns / 1e9) <= power_w * late_s + 0.01;
}

// Listens as the recorder does: for so long, or until there are so many samples. A machine that has
// no time for us makes samples slow, and pauses longer.
static const bt_store_telemetry *watch_gpus(bt_telemetry *telemetry, int gpus, int ms,
                                            int64_t wanted, int64_t *count)
{
    const int64_t begin_ns = bt_clock_ns(), until = begin_ns + (int64_t)ms * 1000000;
    bt_telemetry_begin(telemetry, getpid(), gpus);
    begin_s = (double)(bt_clock_ns() - begin_ns) / 1e9;
    *count = 0;
    while (bt_clock_ns() < until && *count < wanted) {
        int wait_ms = bt_telemetry_wait_ms(telemetry, 10);
        const struct timespec pause = {0, (long)wait_ms * 1000000};
        assert_true(wait_ms >= 0 && wait_ms <= 10);
        (void)nanosleep(&pause, NULL);
        bt_telemetry_tick(telemetry);
        (void)bt_telemetry_samples(telemetry, count);
    }
    bt_telemetry_end(telemetry);
    return bt_telemetry_samples(telemetry, count);
}

static const bt_store_telemetry *watch(bt_telemetry *telemetry, int ms, int64_t wanted,
                                       int64_t *count)
{
    return watch_gpus(telemetry, 1, ms, wanted, count);
}

static void gpu_is_sampled(void **state)
{
    (void)state;
    bool old = need_fake_nvml();
    int64_t count = 0;
    bt_telemetry *telemetry = NULL;
    setenv("FAKE_NVML_THROTTLE", "0x44", 1);
    ASSERT_OK(bt_telemetry_open("GPU-2222", &telemetry));
    const bt_store_telemetry *samples = watch(telemetry, 20000, 3, &count);
    assert_int_equal(count, 4); // and the last
    for (int64_t i = 0; i + 1 < count; i++) {
        assert_true(samples[i].t_ns > 0.0 && samples[i].t_ns < samples[i + 1].t_ns);
        assert_true(samples[i].sm_clock_mhz == 1755.0 && samples[i].memory_clock_mhz == 3201.0);
        assert_true(samples[i].power_w == 312.5 && samples[i].temperature_c == 51.0);
        assert_true(samples[i].cost_ns > 0.0 && samples[i].cost_ns < 1e9);
        assert_true(samples[i].throttle == 68.0); // an old driver reports it under the old name
        assert_true(old ? isnan(samples[i].other_processes) : samples[i].other_processes == 0.0);
    }
    assert_true(isnan(samples[count - 1].sm_clock_mhz)); // the CPU's
    assert_true(old ? isnan(samples[count - 1].energy_j) : is_energy(&samples[count - 1], 300.0));
    bool of_cpu = false;
    for (int64_t i = 0; i < count; i++) { // once a second, and at the end
        const bt_store_telemetry *sample = &samples[i];
        of_cpu = of_cpu || (sample->idle_cores >= 0.0 && sample->steal_share >= 0.0 &&
                            sample->load >= 0.0 && sample->switches_per_s > 0.0);
    }
    assert_true(of_cpu);
    watch(telemetry, 20000, 1, &count); // the next round starts anew
    assert_int_equal(count, 2);
    bt_telemetry_close(telemetry);
    bt_telemetry_close(NULL);
}

// A round on two GPUs: the values of both count, and the next on one is of the first alone.
static void all_gpus_of_a_round_are_sampled(void **state)
{
    (void)state;
    const bool old = need_fake_nvml();
    static const struct {
        const char *first, *second;
        double both;
    } rows[] = {{"0x4", "0x40", 68.0}, {"0x1", "0x0", 0.0}, {"0x1", "0x9", 9.0}};
    bt_telemetry *telemetry = NULL;
    setenv("FAKE_NVML_CLOCK_SECOND", "1500", 1);
    ASSERT_OK(bt_telemetry_open("GPU-1111", &telemetry));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        int64_t count = 0;
        setenv("FAKE_NVML_THROTTLE", rows[i].first, 1);
        setenv("FAKE_NVML_THROTTLE_SECOND", rows[i].second, 1);
        const bt_store_telemetry *samples = watch_gpus(telemetry, 2, 20000, 1, &count);
        assert_int_equal(count, 2);
        assert_true(samples[0].sm_clock_mhz == 1500.0 && samples[0].memory_clock_mhz == 3201.0);
        assert_true(samples[0].power_w == 625.0 && samples[0].temperature_c == 51.0);
        assert_true(samples[0].throttle == rows[i].both);
        assert_true(old ? isnan(samples[1].energy_j) : is_energy(&samples[1], 600.0));
        samples = watch_gpus(telemetry, 1, 20000, 1, &count);
        assert_true(samples[0].sm_clock_mhz == 1755.0 && samples[0].power_w == 312.5);
    }
    bt_telemetry_close(telemetry);
}

static void processes_of_others_are_found(void **state)
{
    (void)state;
    if (need_fake_nvml()) {
        skip();
    }
    int64_t count = 0;
    char text[64];
    bt_telemetry *telemetry = NULL;
    ASSERT_OK(bt_telemetry_open("GPU-1111", &telemetry));
    // There before the round: foreign in any namespace; without memory: no matter.
    (void)snprintf(text, sizeof text, "%d,1:0", (int)getppid());
    setenv("FAKE_NVML_PIDS", text, 1);
    const bt_store_telemetry *samples = watch(telemetry, 20000, 1, &count);
    assert_true(count == 2 && samples[0].other_processes == 1.0);
    // Ourselves, the worker here, and one that does not exist any more.
    (void)snprintf(text, sizeof text, "%d,4194303", (int)getpid());
    bt_telemetry_begin(telemetry, getpgid(0), 1);
    setenv("FAKE_NVML_PIDS", text, 1);
    const struct timespec pause = {0, 20000000};
    for (count = 0; count < 3; samples = bt_telemetry_samples(telemetry, &count)) {
        (void)nanosleep(&pause, NULL);
        bt_telemetry_tick(telemetry);
    }
    assert_true(samples[count - 1].other_processes == 0.0);
    bt_telemetry_close(telemetry);
}

// A rank has its own process group.
static void descendants_of_the_worker_are_its_own(void **state)
{
    (void)state;
    if (need_fake_nvml()) {
        skip();
    }
    int64_t count = 0;
    char text[64];
    bt_telemetry *telemetry = NULL;
    const pid_t rank = fork();
    if (rank == 0) {
        (void)setpgid(0, 0);
        (void)pause();
        _exit(0);
    }
    (void)setpgid(rank, rank);
    ASSERT_OK(bt_telemetry_open("GPU-1111", &telemetry));
    (void)snprintf(text, sizeof text, "%d", (int)getpid()); // the recorder, which is not a worker
                                                            // here
    setenv("FAKE_NVML_PIDS", text, 1);
    bt_telemetry_begin(telemetry, getpid(), 1);
    (void)snprintf(text, sizeof text, "%d", (int)rank);
    setenv("FAKE_NVML_PIDS", text, 1);
    const bt_store_telemetry *samples = NULL;
    const struct timespec wait = {0, 20000000};
    do {
        (void)nanosleep(&wait, NULL);
        bt_telemetry_tick(telemetry);
        samples = bt_telemetry_samples(telemetry, &count);
    } while (count < 60);
    for (int64_t i = 0; i < count; ++i) {
        assert_true(samples[i].other_processes == 0.0);
    }
    bt_telemetry_close(telemetry);
    (void)kill(rank, SIGKILL);
    (void)waitpid(rank, NULL, 0);
}

static void a_lost_device_is_asked_no_more(void **state)
{
    (void)state;
    bool old = need_fake_nvml();
    int64_t count = 0;
    bt_telemetry *telemetry = NULL;
    ASSERT_OK(bt_telemetry_open("GPU-1111", &telemetry));
    setenv("FAKE_NVML_LOST", old ? "6" : "8", 1); // in the middle of the second sample
    const bt_store_telemetry *samples = watch(telemetry, 20000, 3, &count);
    assert_int_equal(count, 4);
    assert_true(samples[0].sm_clock_mhz == 1755.0 && samples[0].power_w == 312.5);
    assert_true(isnan(samples[1].power_w));
    assert_true(isnan(samples[2].sm_clock_mhz) && isnan(samples[2].throttle));
    bt_noise_verdict verdict;
    bt_noise_judge(samples, count, &verdict);
    assert_false(bt_noise_invalidates(verdict.noise));
    bt_telemetry_close(telemetry);
}

static void a_slow_driver_is_asked_less_often(void **state)
{
    (void)state;
    (void)need_fake_nvml();
    int64_t count = 0;
    bt_telemetry *telemetry = NULL;
    setenv("FAKE_NVML_SLOW", "60", 1);
    ASSERT_OK(bt_telemetry_open("GPU-1111", &telemetry));
    watch(telemetry, 600, 100, &count);
    assert_int_equal(count, 2); // one that takes 60 ms, then a pause of 1.2 s; and the last
    bt_telemetry_close(telemetry);
}

static void a_device_that_is_not_there_is_not_watched(void **state)
{
    (void)state;
    static const char *const uuids[] = {NULL, "", "GPU-9999"};
    for (int i = 0; i < 3; i++) {
        int64_t count = 0;
        bt_telemetry *telemetry = NULL;
        ASSERT_OK(bt_telemetry_open(uuids[i], &telemetry));
        const bt_store_telemetry *samples = watch(telemetry, 30, 100, &count);
        assert_int_equal(count, 1);
        assert_true(isnan(samples[0].sm_clock_mhz) && samples[0].load >= 0.0);
        bt_telemetry_close(telemetry);
    }
}

static void thinning_keeps_what_counts_against_the_round(void **state)
{
    (void)state;
    bt_store_telemetry samples[5];
    for (int i = 0; i < 5; i++) {
        samples[i] = sample(i);
        samples[i].throttle = i == 1 ? (double)BT_THROTTLE_HARDWARE : (double)NAN;
        samples[i].other_processes = i == 3 ? 2.0 : 0.0;
    }
    samples[2].throttle = BT_THROTTLE_POWER_CAP;
    assert_int_equal(bt_telemetry_thin(samples, 5), 3);
    assert_true(samples[0].throttle == (double)BT_THROTTLE_HARDWARE);
    assert_true(samples[1].throttle == (double)BT_THROTTLE_POWER_CAP);
    assert_true(samples[1].other_processes == 2.0 && samples[1].t_ns == 2e8);
    assert_true(isnan(samples[2].throttle) && samples[2].t_ns == 4e8);
    assert_int_equal(bt_telemetry_thin(samples, 0), 0);
}

// A failed allocation costs the sample, no more.
static void samples_without_memory_are_left_out(void **state)
{
    (void)state;
    int64_t count = 0, before = bt_mem_live_count();
    bt_telemetry *telemetry = NULL;
    bt_mem_fail_at(1);
    bt_status status = bt_telemetry_open(NULL, &telemetry);
    bt_mem_fail_at(0);
    assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
    ASSERT_OK(bt_telemetry_open(NULL, &telemetry));
    bt_telemetry_begin(telemetry, getpid(), 1);
    bt_mem_fail_at(1);
    bt_telemetry_end(telemetry);
    bt_mem_fail_at(0);
    bt_telemetry_samples(telemetry, &count);
    assert_int_equal(count, 0);
    bt_telemetry_end(telemetry);
    bt_telemetry_samples(telemetry, &count);
    assert_int_equal(count, 1);
    bt_telemetry_close(telemetry);
    assert_int_equal(bt_mem_live_count(), before);
}

// ---- rounds ------------------------------------------------------------------------------------

static const char gpu_suite[] =
    "{\"name\": \"t\", \"profiles\": {\"gpu\": {\"device\": \"cuda\", \"cases\": ["
    "{\"name\": \"one\", \"kind\": \"kernel\", \"kernel\": {\"op\": \"layernorm\","
    " \"shape\": \"64x64\", \"direction\": \"forward\", \"dtype\": \"f32\"}}]}}}";

// Runs one kernel case on a made-up GPU, with a worker that measures nothing.
static void run_on_gpu(bt_run_outcome *outcome, bt_store_run *run)
{
    const bt_machine machine = {.host_memory_bytes = 8ULL << 30,
                                .has_cuda = true,
                                .cuda = {.name = "First", .uuid = "GPU-1111", .arch = 90},
                                .cuda_free_bytes = 1ULL << 33};
    bt_suite suite;
    bt_plan plan;
    ASSERT_OK(scratch_plan_make(gpu_suite, 1, &machine, &suite, &plan));
    bt_run_request request = scratch_run_request(&suite, &plan, &machine, SCRATCH_KERNEL_PEER);
    ASSERT_OK(bt_run_execute(&request, outcome));
    *run = scratch_run_read(outcome->run);
    bt_plan_release(&plan);
    bt_suite_release(&suite);
}

static void disturbed_rounds_are_kept_and_run_again(void **state)
{
    (void)state;
    bool old = need_fake_nvml();
    static const struct {
        const char *throttle, *pids, *label, *words; // no words: the round passes
    } cases[] = {{"0x80", "", "throttled", "power brake"},
                 {"0x4", "", "", NULL},
                 {"0", "1", "foreign process", "1 other process on the GPU"}};
    for (int k = 0; k < (old ? 2 : 3); k++) { // an old driver does not list processes
        bt_run_outcome outcome;
        bt_store_run run;
        setenv("FAKE_NVML_THROTTLE", cases[k].throttle, 1);
        setenv("FAKE_NVML_PIDS", cases[k].pids, 1);
        run_on_gpu(&outcome, &run);
        assert_int_equal(outcome.status, cases[k].words ? BT_RUN_INVALID : BT_RUN_PASSED);
        assert_int_equal(bt_run_exit_code(&outcome), cases[k].words ? 4 : 0);
        int64_t seen = 0;
        for (int64_t i = 0; i < run.round_count; i++) {
            const bt_store_round *round = &run.rounds[i];
            if (strcmp(round->what.name, "one.forward.f32.64x64") != 0 &&
                strcmp(round->what.name, "one") != 0) {
                continue;
            }
            seen++;
            if (cases[k].words) {
                assert_string_equal(round->label, cases[k].label);
            } else { // a busy machine is labelled too
                assert_true(!*round->label || strcmp(round->label, "loaded machine") == 0);
            }
            assert_true(round->telemetry_count >= 1);
            assert_int_equal(round->status, cases[k].words ? BT_RUN_INVALID : BT_RUN_PASSED);
            if (cases[k].words && !strstr(round->message, cases[k].words)) {
                fail_msg("%s", round->message);
            }
            assert_int_equal(round->ordinal, 0);
            assert_true(round->measurement_count > 0); // kept, and marked
        }
        assert_int_equal(seen, cases[k].words ? 3 : 1); // run again twice
        bt_store_run_release(&run);
    }
}

// The made-up GPU draws 300 W all the time, and the peer reports calls of 1, 1 and 3 ms.
static void energy_is_recorded_for_every_round(void **state)
{
    (void)state;
    bool old = need_fake_nvml();
    bt_run_outcome outcome;
    bt_store_run run;
    setenv("BT_KERNEL_PEER_SLEEP_S", "0.6", 1);
    run_on_gpu(&outcome, &run);
    unsetenv("BT_KERNEL_PEER_SLEEP_S");
    assert_int_equal(outcome.status, BT_RUN_PASSED);
    for (int64_t i = 0; i < run.round_count; i++) {
        bt_summary summary;
        ASSERT_OK(bt_summary_of(&run.rounds[i], &summary));
        const bt_metric_value *round = &summary.metrics[BT_METRIC_ENERGY];
        const bt_metric_value *call = &summary.metrics[BT_METRIC_ENERGY_PER_CALL];
        assert_int_equal(round->count, old ? 0 : 1);
        assert_int_equal(summary.metrics[BT_METRIC_ENERGY_PER_TOKEN].count, 0);
        if (!old) {
            double joules = 300.0 * summary.metrics[BT_METRIC_TIME].value / 1e9; // of a call
            assert_true(round->value > 300.0 * 0.6);
            assert_true(!(fabs(call->value - joules) > 0.1 * joules));
        }
    }
    bt_store_run_release(&run);
}

static void take_step(bt_recorder *recorder, int64_t step, int64_t time_ms, bool warmup)
{
    bt_run_event event = {
        .type = BT_RUN_EVENT_STEP,
        .as.step = {.step = step, .tokens = 1000, .host_ns = time_ms * 1000000, .warmup = warmup}};
    ASSERT_OK(bt_recorder_take(recorder, &event));
}

// The GPU draws 400 J in the second in which it works, and 20 J when it is idle. Two timed steps
// train 2,000 tokens in 0.5 s: 400 W / 4,000 tokens/s = 0.1 J.
static void energy_per_token_by_hand(void **state)
{
    (void)state;
    enum { COUNT = 13 };
    static const char text[] = "{\"kind\": \"train\", \"name\": \"c\", \"train\": {}}";
    bt_store_telemetry samples[COUNT];
    for (int i = 0; i < COUNT; i++) {
        const bool idle = i == 0 || i == COUNT - 1;
        samples[i] = sample(i);
        samples[i].throttle = idle ? BT_THROTTLE_IDLE : 0;
        samples[i].energy_j = i == 0 ? 0.0 : idle ? 420.0 : 10.0 + 40.0 * (i - 1);
    }
    bt_json_doc item;
    bt_recorder recorder;
    bt_summary summary;
    int64_t run_id = 0;
    bt_store *store = scratch_open(BT_STORE_WRITE);
    sample_run made = sample_run_default();
    ASSERT_OK(sample_run_record(store, &made, &run_id));
    ASSERT_OK(bt_json_parse("case", text, sizeof text - 1, &item));
    ASSERT_OK(bt_recorder_begin(store, run_id, "b", item.root, "peer", 0, &recorder));
    take_step(&recorder, 0, 9000, true);
    take_step(&recorder, 1, 200, false);
    take_step(&recorder, 2, 300, false);
    ASSERT_OK(bt_recorder_take_machine(&recorder, samples, COUNT));
    ASSERT_OK(bt_recorder_end(&recorder, BT_RUN_PASSED, ""));
    bt_recorder_release(&recorder);
    ASSERT_OK(bt_store_close(store));
    bt_store_run run = scratch_run_read(run_id);
    ASSERT_OK(bt_summary_of(&run.rounds[run.round_count - 1], &summary));
    const bt_metric_value *round = &summary.metrics[BT_METRIC_ENERGY];
    const bt_metric_value *token = &summary.metrics[BT_METRIC_ENERGY_PER_TOKEN];
    assert_int_equal(round->count, 1);
    assert_true(round->value == 420.0);
    assert_int_equal(token->count, 1);
    assert_true(fabs(token->value - 0.1) < 1e-12);
    assert_int_equal(summary.metrics[BT_METRIC_ENERGY_PER_CALL].count, 0);
    bt_store_run_release(&run);
    bt_json_doc_release(&item);
}

static void expect_words(const bt_str *text, const char *words)
{
    if (!strstr(bt_str_text(text), words)) {
        fail_msg("lacks \"%s\": %s", words, bt_str_text(text));
    }
}

static void labels_and_clocks_are_shown(void **state)
{
    (void)state;
    (void)need_fake_nvml();
    bt_run_outcome first, second;
    bt_store_run run;
    bt_str text = {0};
    setenv("FAKE_NVML_THROTTLE", "0x4", 1);
    run_on_gpu(&first, &run);
    bt_store_run_release(&run);
    setenv("FAKE_NVML_THROTTLE", "0x40", 1);
    setenv("FAKE_NVML_CLOCK", "1500", 1);
    run_on_gpu(&second, &run);
    bt_store_run_release(&run);
    bt_store *store = scratch_open(BT_STORE_READ);
    ASSERT_OK(bt_show_text(store, first.run, 0, &text));
    assert_null(strstr(bt_str_text(&text), "throttled")); // normal under full load
    bt_str_release(&text);
    ASSERT_OK(bt_show_text(store, second.run, 0, &text));
    expect_words(&text, "throttled (invalid) in 6 of 6 rounds");
    bt_str_release(&text);
    ASSERT_OK(bt_show_json(store, first.run, &text));
    expect_words(&text, "\"power_cap_share\": 1");
    expect_words(&text, "\"sm_clock_mhz\": 1755");
    expect_words(&text, "\"throttle\": \"power cap\"");
    bt_str_release(&text);
    ASSERT_OK(bt_report_json(store, &first.run, 1, &text));
    expect_words(&text, "\"telemetry_columns\":[\"t_ns\",\"sm_clock_mhz\"");
    bt_str_release(&text);
    setenv("FAKE_NVML_THROTTLE", "0", 1);
    run_on_gpu(&second, &run); // not throttled, at another clock
    bt_store_run_release(&run);
    ASSERT_OK(bt_compare_text(store, first.run, second.run, 0, &text, NULL));
    expect_words(&text, "median SM clocks are 17.0 % apart: 1755 and 1500 MHz: speeds are not");
    bt_str_release(&text);
    ASSERT_OK(bt_compare_json(store, first.run, second.run, &text, NULL));
    expect_words(&text, "\"clocks_comparable\": false");
    bt_str_release(&text);
    ASSERT_OK(bt_store_close(store));
}

// Neither a device that is lost nor one that does not answer keeps a round from passing.
static void a_lost_device_fails_no_round(void **state)
{
    (void)state;
    (void)need_fake_nvml();
    bt_run_outcome outcome;
    bt_store_run run;
    setenv("FAKE_NVML_LOST", "0", 1);
    run_on_gpu(&outcome, &run);
    assert_int_equal(outcome.status, BT_RUN_PASSED);
    for (int64_t i = 0; i < run.round_count; i++) {
        assert_int_equal(run.rounds[i].status, BT_RUN_PASSED);
        assert_false(strcmp(run.rounds[i].label, "throttled") == 0);
    }
    bt_store_run_release(&run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(telemetry_comes_back),
        TEST(an_invalid_round_is_run_again_and_passes_once),
        TEST(columns_of_other_versions_are_read_by_name),
        TEST(columns_have_names),
        TEST(every_failed_allocation_of_writing_is_reported),
        TEST(gpu_is_sampled),
        TEST(all_gpus_of_a_round_are_sampled),
        TEST(processes_of_others_are_found),
        TEST(descendants_of_the_worker_are_its_own),
        TEST(a_lost_device_is_asked_no_more),
        TEST(a_slow_driver_is_asked_less_often),
        TEST(a_device_that_is_not_there_is_not_watched),
        TEST(thinning_keeps_what_counts_against_the_round),
        TEST(samples_without_memory_are_left_out),
        TEST(disturbed_rounds_are_kept_and_run_again),
        TEST(energy_is_recorded_for_every_round),
        TEST(energy_per_token_by_hand),
        TEST(labels_and_clocks_are_shown),
        TEST(a_lost_device_fails_no_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
