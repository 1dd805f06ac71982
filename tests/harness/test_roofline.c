// tests/harness/test_roofline.c - a session's ceilings: the roof of each type, rates where
// computing dominates, and the gate's text about a machine that has become slower
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/gate/ceiling.h"
#include "harness/report/roofline.h"
#include "tests/harness/sample_run.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/test.h"

typedef struct made_case {
    const char *name, *op, *dtype;
    double bytes_per_s, flop_per_s; // flop_per_s 0: it computes nothing
} made_case;

static const made_case cases[] = {
    {"ceiling.cold", "copy", "f32", 4e12, 0},
    {"ceiling.gemm.bf16", "gemm_nt", "bf16", 0.3e12, 800e12},
    {"ceiling.gemm.f32", "gemm_nt", "f32", 0.02e12, 50e12},
    {"gelu.forward.f32.8x8", "gelu", "f32", 3e12, 3.75e12},
    {"wide.forward.bf16.8x8x8", "gemm_nt", "bf16", 0.6e12, 600e12},
    {"wide.forward.f32.8x8x8", "gemm_nt", "f32", 0.04e12, 40e12},
    {"wide.forward.tf32.8x8x8", "gemm_nt", "tf32", 0.4e12, 400e12},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void measure(int64_t round, bt_metric metric, double value)
{
    bt_store_measurement item = {metric, value, value, value, &value, 1};
    ASSERT_OK(bt_store_measure(scratch_store, round, &item));
}

// A run whose rates are those of the table, times `speed`.
static int64_t record(double speed)
{
    int64_t run = 0;
    bt_store_run_info info = {
        .suite = {"1", "kernels/x", "gpu", "x.json", "{}"},
        .build = {"1", "0.1.0", "1", "", "gcc 12.2.0", "-O3", "Release", "13.0"},
        .env = {"1", NULL, 0},
        .command = "bt-bench run x",
        .out_dir = "results/run-1"};
    ASSERT_OK(bt_store_run_begin(scratch_store, &info, &run));
    for (int i = 0; i < CASES; ++i) {
        char axes[200];
        int64_t round = 0;
        (void)snprintf(axes, sizeof axes,
                       "{\"kernel\":{\"op\":\"%s\",\"direction\":\"forward\",\"dtype\":\"%s\","
                       "\"shape\":\"8x8x8\",\"cache\":\"cold\"}}",
                       cases[i].op, cases[i].dtype);
        bt_store_case what = {"kernels/x", "kernel", cases[i].name, axes, "blutrain"};
        bt_store_shape shape = {.device = "a device", .precision = cases[i].dtype};
        ASSERT_OK(bt_store_round_begin(scratch_store, run, &what, 0, &round));
        ASSERT_OK(bt_store_round_describe(scratch_store, round, &shape));
        measure(round, BT_METRIC_TIME, 1000 / speed);
        measure(round, BT_METRIC_BANDWIDTH, cases[i].bytes_per_s * speed);
        if (cases[i].flop_per_s > 0) {
            measure(round, BT_METRIC_COMPUTE, cases[i].flop_per_s * speed);
        }
        ASSERT_OK(bt_store_round_end(scratch_store, round, BT_RUN_PASSED, "", ""));
    }
    ASSERT_OK(bt_store_run_end(scratch_store, run, BT_RUN_PASSED, ""));
    return run;
}

static const roofline_point *point_of(const roofline *self, const char *name)
{
    for (int64_t i = 0; i < self->count; ++i) {
        if (strcmp(self->points[i].item->round->what.name, name) == 0) {
            return &self->points[i];
        }
    }
    fail_msg("no point %s", name);
    return NULL;
}

// Every roof is within the picture, 1000 by 300; returns how many there are.
static int roofs_inside(const char *page)
{
    int count = 0;
    static const char begin[] = "class=\"roof\" d=\"";
    for (const char *at = strstr(page, begin); at; at = strstr(at + 1, begin)) {
        double x[2], y[2];
        assert_int_equal(sscanf(at + strlen(begin), "M%lf %lfL%lf %lf", &x[0], &y[0], &x[1], &y[1]),
                         4);
        for (int i = 0; i < 2; ++i) {
            assert_true(x[i] >= 0 && x[i] <= 1000 && y[i] >= 0 && y[i] <= 300);
        }
        assert_true(x[0] < x[1] && y[0] >= y[1]);
        count++;
    }
    return count;
}

// The flat roof is that of a case's own type; without one the slope alone holds.
static void roofs_by_type(void **state)
{
    (void)state;
    const int64_t run = record(1);
    const struct {
        const char *name;
        double roof;
    } expected[] = {{"gelu.forward.f32.8x8", 4e12 * 1.25},
                    {"wide.forward.bf16.8x8x8", 800e12},
                    {"wide.forward.f32.8x8x8", 50e12},
                    {"wide.forward.tf32.8x8x8", 4e12 * 1000}};
    report_set set;
    roofline self;
    bt_str page = {0};
    ASSERT_OK(bt_report_set_read(scratch_store, &run, 1, NULL, &set));
    ASSERT_OK(bt_roofline_make(&set, &self));
    assert_int_equal(self.count, 4);
    assert_int_equal(self.ceiling_count, 3);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; ++i) {
        const double roof = point_of(&self, expected[i].name)->roof;
        assert_true(fabs(roof / expected[i].roof - 1) < 1e-9);
    }
    bt_arena_release(&self.arena);
    ASSERT_OK(bt_page_roofline(&set, &page));
    assert_non_null(strstr(bt_str_text(&page), "gemm.bf16 800 TFLOP/s"));
    assert_non_null(strstr(bt_str_text(&page), "gemm.f32 50.0 TFLOP/s"));
    assert_non_null(strstr(bt_str_text(&page), "copy, cold 4.00 TB/s"));
    assert_int_equal(roofs_inside(bt_str_text(&page)), 3);
    bt_str_release(&page);
    bt_report_set_release(&set);
}

// The bottom of a name on the page, in percent of the plot's height.
static double bottom_of(const bt_str *page, const char *name)
{
    const char *at = strstr(bt_str_text(page), name);
    double bottom = 0;
    assert_non_null(at);
    while (strncmp(at, "bottom:", 7) != 0) {
        at--;
    }
    assert_int_equal(sscanf(at, "bottom:%lf", &bottom), 1);
    return bottom;
}

// The names of two roofs that are close together do not overlap.
static void names_of_roofs_are_a_line_apart(void **state)
{
    (void)state;
    report_set set;
    roofline self;
    const int64_t run = record(1);
    ASSERT_OK(bt_report_set_read(scratch_store, &run, 1, NULL, &set));
    ASSERT_OK(bt_roofline_make(&set, &self));
    static const double lower[] = {50e12, 500e12, 790e12};
    for (size_t i = 0; i < sizeof lower / sizeof lower[0]; ++i) {
        bt_str page = {0};
        picture to = {.out = &page};
        for (int c = 0; c < self.ceiling_count; ++c) {
            roofline_ceiling *item = &self.ceilings[c];
            item->value = strcmp(item->name, "gemm.f32") == 0 ? lower[i] : item->value;
        }
        bt_roofline_draw(&self, &to);
        assert_true(bottom_of(&page, "gemm.bf16 ") - bottom_of(&page, "gemm.f32 ") > 6.9);
        bt_str_release(&page);
    }
    bt_arena_release(&self.arena);
    bt_report_set_release(&set);
}

// On the terminal a product's rate is FLOP/s, without a share of a copy; a pass over memory keeps
// both.
static void rates_on_the_terminal(void **state)
{
    (void)state;
    const int64_t id = record(1);
    report_set set;
    bt_str out = {0};
    ASSERT_OK(bt_report_set_read(scratch_store, &id, 1, NULL, &set));
    ASSERT_OK(bt_report_kernel_tables(&set, 0, &out));
    const char *text = bt_str_text(&out);
    assert_non_null(strstr(text, "rate"));
    assert_non_null(strstr(text, "600 TFLOP/s"));
    assert_non_null(strstr(text, "40.0 TFLOP/s"));
    assert_non_null(strstr(text, "3.00 TB/s"));
    assert_non_null(strstr(text, "a time without a 95 % interval is the median of fewer than 6"));
    assert_null(strstr(text, "600 GB/s"));
    assert_null(strstr(text, "3.75 TFLOP/s"));
    bt_str_release(&out);
    bt_report_set_release(&set);
}

static void a_slower_machine_is_named(void **state)
{
    (void)state;
    const int64_t ids[] = {record(1), record(0.9)};
    bt_store_run runs[2];
    bt_gate_ceilings ceilings[2];
    bt_arena arena = {0};
    bt_str out = {0};
    for (int i = 0; i < 2; ++i) {
        ASSERT_OK(bt_store_run_read(scratch_store, ids[i], &runs[i]));
        ASSERT_OK(bt_gate_ceilings_of_run(&runs[i], &arena, &ceilings[i]));
        assert_int_equal(ceilings[i].count, 3);
    }
    ASSERT_OK(bt_gate_ceilings_differ(&ceilings[0], &ceilings[0], &out));
    assert_string_equal(bt_str_text(&out), "");
    ASSERT_OK(bt_gate_ceilings_differ(&ceilings[0], &ceilings[1], &out));
    assert_non_null(strstr(bt_str_text(&out), "machine's copy, cold: 4.00 TB/s -> 3.60 TB/s"));
    assert_non_null(
        strstr(bt_str_text(&out), "machine's product, bf16: 800 TFLOP/s -> 720 TFLOP/s"));
    bt_str_release(&out);
    bt_arena_release(&arena);
    for (int i = 0; i < 2; ++i) {
        bt_store_run_release(&runs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(roofs_by_type, scratch_store_open, scratch_store_close),
        cmocka_unit_test_setup_teardown(names_of_roofs_are_a_line_apart, scratch_store_open,
                                        scratch_store_close),
        cmocka_unit_test_setup_teardown(rates_on_the_terminal, scratch_store_open,
                                        scratch_store_close),
        cmocka_unit_test_setup_teardown(a_slower_machine_is_named, scratch_store_open,
                                        scratch_store_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
