// tests/harness/test_noise.c - labels of rounds, and whether two sides had the same clocks
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/stats/noise.h"
#include "tests/support/test.h"

enum { SAMPLES = 40 };

static void quiet_samples(bt_store_telemetry *samples)
{
    for (int i = 0; i < SAMPLES; i++) {
        samples[i] = (bt_store_telemetry){.t_ns = 1e8 * i,
                                          .sm_clock_mhz = 1980.0,
                                          .memory_clock_mhz = 3201.0,
                                          .power_w = 400.0,
                                          .temperature_c = 50.0,
                                          .cpu_clock_mhz = (double)NAN,
                                          .load = 1.0,
                                          .other_cores = 0.05,
                                          .idle_cores = 7.0};
    }
}

static void set_bits(bt_store_telemetry *samples, int first, int count, uint64_t bits)
{
    for (int i = first; i < first + count; i++) {
        samples[i].throttle = (double)bits;
    }
}

static void expect(bt_noise noise, const char *words, const bt_store_telemetry *samples)
{
    bt_noise_verdict verdict;
    bt_noise_judge(samples, SAMPLES, &verdict);
    if (verdict.noise != noise || !strstr(verdict.reason, words) ||
        (noise == BT_NOISE_QUIET) != (verdict.reason[0] == '\0')) {
        fail_msg("expected '%s' (%s), got '%s' (%s)", bt_noise_name(noise), words,
                 bt_noise_name(verdict.noise), verdict.reason);
    }
}

static void throttled_rounds_are_labelled(void **state)
{
    (void)state;
    static const struct {
        uint64_t bits;
        bt_noise noise;
        const char *words;
    } cases[] = {{0x8, BT_NOISE_THROTTLED, "hardware slowdown in 1 of 40 samples"},
                 {0x20, BT_NOISE_THROTTLED, "software thermal slowdown in 1 of 40"},
                 {0x40, BT_NOISE_THROTTLED, "hardware thermal slowdown in 1 of 40"},
                 {0x80, BT_NOISE_THROTTLED, "power brake in 1 of 40"},
                 {0x8 | 0x4 | 0x40, BT_NOISE_THROTTLED, "hardware slowdown"},
                 {0x4, BT_NOISE_QUIET, ""}, // once in forty
                 {0x1, BT_NOISE_QUIET, ""},
                 {0x2, BT_NOISE_QUIET, ""},
                 {0x10, BT_NOISE_QUIET, ""},
                 {0x100, BT_NOISE_QUIET, ""},
                 {1ULL << 40, BT_NOISE_QUIET, ""}}; // a reason that this program does not know
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bt_store_telemetry samples[SAMPLES];
        quiet_samples(samples);
        set_bits(samples, 17, 1, cases[i].bits);
        expect(cases[i].noise, cases[i].words, samples);
    }
}

static bt_status summary_of(const bt_store_telemetry *samples, int64_t count,
                            bt_telemetry_summary *out)
{
    const bt_store_round round = {.telemetry = samples, .telemetry_count = count};
    return bt_telemetry_summary_of(&round, out);
}

// A data-centre GPU under full load: its power limit holds clocks down all the time.
static void the_power_cap_is_shown_and_no_noise(void **state)
{
    (void)state;
    bt_store_telemetry samples[SAMPLES];
    bt_telemetry_summary summary;
    bt_noise noise;
    quiet_samples(samples);
    set_bits(samples, 0, SAMPLES, BT_THROTTLE_POWER_CAP);
    expect(BT_NOISE_QUIET, "", samples);
    ASSERT_OK(summary_of(samples, SAMPLES, &summary));
    assert_true(summary.power_cap_share == 1.0);
    samples[SAMPLES - 1].throttle = (double)NAN; // of the CPU alone
    ASSERT_OK(summary_of(samples, SAMPLES, &summary));
    assert_true(summary.power_cap_share == 1.0);
    set_bits(samples, 20, 20, BT_THROTTLE_IDLE);
    set_bits(samples, 5, 15, 0); // 5 of the 20 in which the GPU works
    ASSERT_OK(summary_of(samples, SAMPLES, &summary));
    assert_true(summary.power_cap_share == 0.25);
    samples[7].throttle = BT_THROTTLE_POWER_CAP | BT_THROTTLE_HARDWARE;
    expect(BT_NOISE_THROTTLED, "hardware slowdown in 1 of 40", samples);
    assert_false(bt_noise_parse("power cap", &noise)); // the label of older records
}

static void energy_is_that_of_the_work(void **state)
{
    (void)state;
    bt_store_telemetry samples[SAMPLES];
    bt_telemetry_summary summary;
    quiet_samples(samples);
    for (int i = 0; i < SAMPLES; i++) { // idles at 100 W, works at 500 W from 10 to 29
        int work = i < 10 ? 0 : i < 30 ? i - 10 : 19;
        samples[i].t_ns = 1e8 * i;
        samples[i].energy_j = 10.0 * i + 40.0 * work;
        samples[i].throttle = i < 10 || i >= 30 ? BT_THROTTLE_IDLE : 0;
    }
    ASSERT_OK(summary_of(samples, SAMPLES, &summary));
    assert_true(fabs(summary.work_power_w - 500.0) < 1e-9);
    assert_true(summary.energy_j == 10.0 * 39 + 40.0 * 19);
    ASSERT_OK(summary_of(samples, 12, &summary)); // 0.1 s of work are too short
    assert_true(isnan(summary.work_power_w));
    samples[39].energy_j = (double)NAN;
    ASSERT_OK(summary_of(samples, SAMPLES, &summary));
    assert_true(summary.energy_j == 10.0 * 38 + 40.0 * 19);
}

// A GPU with a context runs at full clocks without work. The worker compiles for 1 s, warms up for
// a step of 0.5 s, trains two steps of 0.5 s, and validates for 1 s.
static void clocks_and_energy_are_those_of_the_timed_steps(void **state)
{
    (void)state;
    bt_store_telemetry samples[SAMPLES];
    bt_telemetry_summary summary;
    bt_store_step steps[3] = {
        {.host_ns = 500000000, .warmup = true}, {.host_ns = 500000000}, {.host_ns = 500000000}};
    bt_store_round round = {
        .steps = steps, .step_count = 3, .telemetry = samples, .telemetry_count = SAMPLES};
    quiet_samples(samples);
    for (int i = 0; i < SAMPLES; i++) {
        const int ended = i < 15 ? 0 : i < 20 ? 1 : i < 25 ? 2 : 3;
        samples[i].t_ns = 1e8 * i + 1e7;
        samples[i].throttle = 0;
        samples[i].power_w = i >= 15 && i < 25 ? 600.0 : 117.0;
        samples[i].energy_j = 11.7 * i + 48.3 * (i < 15 ? 0 : i < 25 ? i - 15 : 10);
        samples[i].steps = ended > 0 ? ended : (double)NAN;
        samples[i].step_ended_ns = ended > 0 ? 1e9 + 5e8 * ended : (double)NAN;
    }
    ASSERT_OK(bt_telemetry_summary_of(&round, &summary));
    assert_true(fabs(summary.work_power_w - 600.0) < 1e-9);
    assert_true(summary.power_w == 600.0);
    assert_int_equal(summary.busy, 10);
    double begin_ns = 0, end_ns = 0;
    assert_true(bt_telemetry_window(&round, &begin_ns, &end_ns));
    assert_true(begin_ns == 1.5e9 && end_ns == 2.5e9);
    steps[2].profiled = true;
    assert_true(bt_telemetry_window(&round, &begin_ns, &end_ns));
    assert_true(begin_ns == 1.5e9 && end_ns == 2e9);
    steps[1].warmup = true; // none is timed
    assert_true(bt_telemetry_window(&round, &begin_ns, &end_ns));
    assert_true(begin_ns == 1e9 && end_ns == 2.5e9);
    for (int i = 10; i < 15; i++) {
        samples[i].steps = 1; // copied from an interrupted round
    }
    for (int i = 15; i < 20; i++) {
        samples[i].step_ended_ns = (double)NAN;
    }
    assert_true(bt_telemetry_window(&round, &begin_ns, &end_ns));
    assert_true(begin_ns == 1.5e9 && end_ns == 2.5e9);
    // No sample between two steps: the evaluation between them is not part of the window.
    bt_store_eval eval = {.step = 2, .host_ns = 200000000};
    for (int i = 0; i < 3; i++) {
        steps[i] = (bt_store_step){.step = i, .host_ns = 500000000, .warmup = i == 0};
    }
    round.evals = &eval;
    round.eval_count = 1;
    for (int i = 0; i < SAMPLES; i++) {
        samples[i].steps = i < 27 ? (double)NAN : 3;
        samples[i].step_ended_ns = i < 27 ? (double)NAN : 2.7e9;
    }
    assert_true(bt_telemetry_window(&round, &begin_ns, &end_ns));
    assert_true(begin_ns == 1.5e9 && end_ns == 2.7e9);
    for (int i = 0; i < SAMPLES; i++) {
        samples[i].steps = samples[i].step_ended_ns = (double)NAN; // an earlier version
    }
    assert_false(bt_telemetry_window(&round, &begin_ns, &end_ns));
    ASSERT_OK(bt_telemetry_summary_of(&round, &summary));
    assert_int_equal(summary.busy, SAMPLES);
}

static void foreign_processes_are_labelled(void **state)
{
    (void)state;
    bt_store_telemetry samples[SAMPLES];
    quiet_samples(samples);
    samples[3].other_processes = 1.0;
    samples[4].other_processes = 2.0;
    expect(BT_NOISE_FOREIGN_PROCESS, "2 other processes on the GPU in 2 of 40", samples);
    samples[9].throttle = BT_THROTTLE_HARDWARE; // the graver word
    expect(BT_NOISE_THROTTLED, "hardware", samples);
}

static void loaded_machines_are_labelled(void **state)
{
    (void)state;
    bt_store_telemetry samples[SAMPLES];
    quiet_samples(samples);
    samples[0].other_cores = 40.0; // 1 core on the mean, but there are idle ones
    expect(BT_NOISE_QUIET, "", samples);
    for (int i = 0; i < SAMPLES; i++) {
        samples[i].idle_cores = i % 10 ? (double)NAN : 0.5; // asked once a second
    }
    expect(BT_NOISE_LOADED, "other processes kept 1.0 cores busy, 0.5 cores were idle", samples);
    quiet_samples(samples);
    samples[7].steal_share = 0.5;
    expect(BT_NOISE_LOADED, "the hypervisor took 1.2 %", samples);
    quiet_samples(samples);
    samples[7].held_share = 0.6;
    expect(BT_NOISE_LOADED, "stopped threads for 1.5 %", samples);
}

static void nothing_known_is_quiet(void **state)
{
    (void)state;
    bt_store_telemetry samples[SAMPLES];
    bt_telemetry_summary summary;
    for (int i = 0; i < SAMPLES * BT_TELEMETRY_COLUMNS; i++) {
        ((double *)samples)[i] = (double)NAN;
    }
    expect(BT_NOISE_QUIET, "", samples);
    ASSERT_OK(summary_of(samples, SAMPLES, &summary));
    assert_true(isnan(summary.sm_clock_mhz) && isnan(summary.power_w));
    ASSERT_OK(summary_of(NULL, 0, &summary));
    assert_true(isnan(summary.sm_clock_mhz) && summary.busy == 0);
}

static void summary_leaves_idle_samples_out_of_the_clocks(void **state)
{
    (void)state;
    bt_store_telemetry samples[SAMPLES];
    bt_telemetry_summary summary;
    quiet_samples(samples);
    for (int i = 0; i < 30; i++) { // most of the time it starts up
        samples[i].sm_clock_mhz = 345.0;
        samples[i].power_w = 70.0;
        samples[i].throttle = BT_THROTTLE_IDLE;
    }
    samples[35].sm_clock_mhz = 1200.0;
    samples[36].temperature_c = 81.0;
    samples[37].throttle = BT_THROTTLE_POWER_CAP;
    ASSERT_OK(summary_of(samples, SAMPLES, &summary));
    assert_true(summary.sm_clock_mhz == 1980.0 && summary.memory_clock_mhz == 3201.0);
    assert_true(summary.power_w == 400.0 && summary.temperature_c == 81.0);
    assert_int_equal(summary.busy, 10);
    assert_int_equal(summary.throttle, BT_THROTTLE_IDLE | BT_THROTTLE_POWER_CAP);
    char words[64];
    bt_throttle_words(summary.throttle, words, sizeof words);
    assert_string_equal(words, "idle, power cap");
    bt_throttle_words(0x1ff, words, 12);
    assert_string_equal(words, "idle, appli");
}

// ---- two sides ---------------------------------------------------------------------------------

typedef struct side {
    bt_store_telemetry samples[3][SAMPLES];
    bt_store_round rounds[3];
    const bt_store_round *list[3];
} side;

static void make_side(side *self, double sm_mhz, double memory_mhz)
{
    for (int i = 0; i < 3; i++) {
        quiet_samples(self->samples[i]);
        for (int j = 0; j < SAMPLES; j++) {
            self->samples[i][j].sm_clock_mhz = sm_mhz;
            self->samples[i][j].memory_clock_mhz = memory_mhz;
        }
        self->rounds[i] =
            (bt_store_round){.telemetry = self->samples[i], .telemetry_count = SAMPLES};
        self->list[i] = &self->rounds[i];
    }
}

static void sides_with_other_clocks_are_not_comparable(void **state)
{
    (void)state;
    static const struct {
        double sm, memory;
        bool comparable;
        const char *words;
    } cases[] = {{1980.0, 3201.0, true, ""},
                 {1962.0, 3201.0, true, ""}, // 0.9 %
                 {1950.0, 3201.0, false, "median SM clocks are 1.5 % apart: 1980 and 1950 MHz"},
                 {1980.0, 2619.0, false, "median memory clocks are 22.2 % apart"}};
    static side left, right;
    bool comparable = false;
    char reason[160];
    make_side(&left, 1980.0, 3201.0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make_side(&right, cases[i].sm, cases[i].memory);
        ASSERT_OK(bt_telemetry_clocks_comparable(left.list, 3, right.list, 3, &comparable, reason));
        if (comparable != cases[i].comparable || !strstr(reason, cases[i].words) ||
            comparable != (reason[0] == '\0')) {
            fail_msg("%g, %g MHz: %s", cases[i].sm, cases[i].memory, reason);
        }
    }
    // One round of three at another clock does not move the median; no clocks say nothing.
    make_side(&right, 1980.0, 3201.0);
    for (int i = 0; i < SAMPLES; i++) {
        right.samples[0][i].sm_clock_mhz = 1200.0;
    }
    ASSERT_OK(bt_telemetry_clocks_comparable(left.list, 3, right.list, 3, &comparable, reason));
    assert_true(comparable);
    make_side(&right, (double)NAN, (double)NAN);
    ASSERT_OK(bt_telemetry_clocks_comparable(left.list, 3, right.list, 3, &comparable, reason));
    assert_true(comparable);
    ASSERT_OK(bt_telemetry_clocks_comparable(left.list, 3, right.list, 0, &comparable, reason));
    assert_true(comparable);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    static side left, right;
    bool comparable = false;
    char reason[160];
    int64_t before = bt_mem_live_count();
    make_side(&left, 1980.0, 3201.0);
    make_side(&right, 1980.0, 3201.0);
    for (int64_t n = 1;; n++) {
        bt_mem_fail_at(n);
        bt_status status =
            bt_telemetry_clocks_comparable(left.list, 3, right.list, 3, &comparable, reason);
        bt_mem_fail_at(0);
        assert_int_equal(bt_mem_live_count(), before);
        if (status == BT_OK) {
            break;
        }
        assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(throttled_rounds_are_labelled),
        cmocka_unit_test(the_power_cap_is_shown_and_no_noise),
        cmocka_unit_test(energy_is_that_of_the_work),
        cmocka_unit_test(clocks_and_energy_are_those_of_the_timed_steps),
        cmocka_unit_test(foreign_processes_are_labelled),
        cmocka_unit_test(loaded_machines_are_labelled),
        cmocka_unit_test(nothing_known_is_quiet),
        cmocka_unit_test(summary_leaves_idle_samples_out_of_the_clocks),
        cmocka_unit_test(sides_with_other_clocks_are_not_comparable),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
