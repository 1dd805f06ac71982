// tests/harness/test_diff.c - two trainings in lockstep: differences, bounds, the first that is
// over
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "harness/diff/diff.h"
#include "harness/diff/update.h"
#include "harness/suite/json.h"
#include "tests/support/faulty_device.h"
#include "tests/support/scratch.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

static const faulty_plan none = {.kind = FAULTY_NONE};

static bool near(double x, double y) { return fabs(x - y) <= 1e-12 * fabs(y); }

// ---- differences --------------------------------------------------------------------------------

static bt_diff_value value_of(bt_dtype dtype, int64_t count, const void *data)
{
    return (bt_diff_value){.name = "v",
                           .kind = BT_TRAIN_VALUE_FORWARD,
                           .dtype = dtype,
                           .shape = {.rank = 1, .size = {count}},
                           .count = count,
                           .data = data};
}

static void differences_are_what_they_are(void **state)
{
    (void)state;
    const float a[] = {3, 0, -4, 0}, b[] = {3, 0, -4.5F, 1};
    const bt_diff_value x = value_of(BT_F32, 4, a), y = value_of(BT_F32, 4, b);
    bt_difference d;
    bt_difference_of(&x, &y, &d);
    assert_true(near(d.l2, sqrt(1.25)) && near(d.norm, 5) && near(d.l2_relative, sqrt(1.25) / 5));
    assert_true(near(d.max, 1) && near(d.max_relative, 0.25));
    assert_int_equal(d.differing, 2);
    assert_int_equal(d.first, 2);
    assert_int_equal(d.worst, 3);
    assert_true(near(d.first_a, -4) && near(d.first_b, -4.5));
    bt_difference_of(&x, &x, &d);
    assert_true(d.l2 <= 0 && d.l2_relative <= 0 && d.differing == 0 && d.first == -1);
}

static void types_bits_and_values_that_are_no_numbers(void **state)
{
    (void)state;
    const uint16_t half[] = {bt_f32_to_bf16(1.5F), bt_f32_to_bf16(-2)};
    const float full[] = {1.5F, -2};
    const bt_diff_value narrow = value_of(BT_BF16, 2, half), wide = value_of(BT_F32, 2, full);
    bt_difference d;
    bt_difference_of(&wide, &narrow, &d);
    assert_true(d.l2 <= 0 && d.differing == 0); // the same numbers in another type
    const float plus[] = {0.0F, NAN}, minus[] = {-0.0F, NAN}, number[] = {0, 7};
    const bt_diff_value p = value_of(BT_F32, 2, plus), m = value_of(BT_F32, 2, minus);
    const bt_diff_value n = value_of(BT_F32, 2, number);
    bt_difference_of(&p, &m, &d);
    assert_true(d.l2 <= 0); // -0 is 0, NaN on both sides is not a difference
    assert_int_equal(d.differing, 1);
    assert_int_equal(d.first, 0); // but its bits are others
    bt_difference_of(&p, &n, &d);
    assert_true(isinf(d.l2) && isinf(d.l2_relative) && isinf(d.max) && d.worst == 1);
    // Of nothing, nothing.
    const bt_diff_value empty = value_of(BT_F32, 0, full);
    bt_difference_of(&empty, &empty, &d);
    assert_true(d.l2_relative <= 0 && d.differing == 0);
}

// A tensor of more than one turn of pieces: what is in each piece is found, with any number of
// threads.
static void large_tensors_are_measured_whole(void **state)
{
    (void)state;
    enum { COUNT = 64 * 32768 + 40000, GAPS = 4 };
    static const int64_t gaps[GAPS] = {32767, 32768, 64 * 32768, COUNT - 1};
    float *x = calloc(COUNT, sizeof *x), *y = calloc(COUNT, sizeof *y);
    bt_difference d;
    assert_true(x && y);
    for (int64_t i = 0; i < COUNT; ++i) {
        x[i] = y[i] = (float)(i % 3);
    }
    for (int i = 0; i < GAPS; ++i) {
        y[gaps[i]] += (float)(i + 1);
    }
    const bt_diff_value a = value_of(BT_F32, COUNT, x), b = value_of(BT_F32, COUNT, y);
    bt_difference_of(&a, &b, &d);
    assert_int_equal(d.differing, GAPS);
    assert_int_equal(d.first, gaps[0]);
    assert_int_equal(d.worst, gaps[GAPS - 1]);
    assert_true(near(d.max, 4) && near(d.l2 * d.l2, 1 + 4 + 9 + 16));
    double squares = 0;
    for (int64_t i = 0; i < COUNT; ++i) {
        squares += (double)x[i] * (double)x[i];
    }
    assert_true(near(d.norm * d.norm, squares));
    assert_true(near(d.max_relative, 2));
    free(x);
    free(y);
}

static void elements_are_named_by_their_index(void **state)
{
    (void)state;
    char text[64];
    const bt_shape shape = {.rank = 3, .size = {2, 3, 4}}, scalar = {.rank = 0};
    assert_string_equal(bt_element_text(&shape, 23, text), "[1, 2, 3]");
    assert_string_equal(bt_element_text(&shape, 5, text), "[0, 1, 1]");
    assert_string_equal(bt_element_text(&scalar, 0, text), "[]");
}

static void bounds_follow_precision_and_depth(void **state)
{
    (void)state;
    bt_diff_arithmetic sides[2] = {{.precision = BT_PRECISION_BF16}, {BT_PRECISION_BF16, 0, 0}};
    bt_diff_bound bound = bt_diff_bound_make(sides, 1024);
    const float zero[] = {0};
    bt_diff_value value = value_of(BT_F32, 1, zero);
    const bt_difference nothing = {.norm = 1};
    value.depth = 9;
    assert_true(bt_diff_bound_of(&bound, &value, &nothing) <= 0); // the same bits
    sides[0].precision = BT_PRECISION_FP32;
    bound = bt_diff_bound_make(sides, 1024);
    assert_true(near(bound.rounding, 0x1p-8 + 0x1p-24 + 32 * 0x1p-24));
    assert_true(near(bt_diff_bound_of(&bound, &value, &nothing), 4 * 3 * bound.rounding));
    bound.drift = bound.rounding;
    assert_true(near(bt_diff_bound_of(&bound, &value, &nothing), 8 * 3 * bound.rounding));
    value.kind = BT_TRAIN_VALUE_INITIAL; // they begin with the same parameters
    assert_true(bt_diff_bound_of(&bound, &value, &nothing) <= 0);
    value.kind = BT_TRAIN_VALUE_STATE;
    value.name = "state.wte.weight";
    value.count = 100;
    bound.travelled = 1e-3;
    assert_true(near(bt_diff_bound_of(&bound, &value, &nothing), 2 * 1e-3 * 10));
    value.name = "state.adamw.v.wte.weight";
    assert_true(near(bt_diff_bound_of(&bound, &value, &nothing), 2 * 8 * 3 * bound.rounding));
    // fp32 on another device: sums in another order.
    const bt_diff_arithmetic devices[2] = {{BT_PRECISION_FP32, true, false},
                                           {BT_PRECISION_FP32, true, false}};
    assert_true(near(bt_diff_bound_make(devices, 1024).rounding, 34 * 0x1p-24));
}

// By hand, with beta1 = beta2 = 0 and lr 1: the update is m / sqrt(v).
static void an_update_is_bounded_by_its_moments(void **state)
{
    (void)state;
    const float m[] = {1, -1}, other[] = {1, -0.5F}, v[] = {1, 1};
    const bt_diff_value m_a = value_of(BT_F32, 2, m), m_b = value_of(BT_F32, 2, other);
    const bt_diff_value v_a = value_of(BT_F32, 2, v);
    const bt_diff_value *same[2] = {&m_a, &m_a}, *differ[2] = {&m_a, &m_b}, *size[2] = {&v_a, &v_a};
    const bt_difference parameter = {.norm = 10};
    bt_diff_update update = {.lr = 1, .step = 1};
    const double rounding = 4 * 2 * 0x1p-24 * (10 + sqrt(2));
    assert_true(near(bt_diff_update_bound(&update, same, size, &parameter), rounding / 10));
    assert_true(
        near(bt_diff_update_bound(&update, differ, size, &parameter), (0.5 + rounding) / 10));
    update.before = 3;
    assert_true(
        near(bt_diff_update_bound(&update, differ, size, &parameter), (3.5 + rounding) / 10));
}

// ---- lockstep -----------------------------------------------------------------------------------

static bt_train_plan plan_on(const char *device)
{
    bt_train_plan plan = small_train_plan();
    plan.device = device;
    plan.eval_every = plan.profile_steps = plan.warmup_timing_steps = 0;
    return plan;
}

static void make_sides(const bt_train_plan plans[2], bt_diff_side sides[2])
{
    for (int i = 0; i < 2; ++i) {
        sides[i] = (bt_diff_side){.lockstep = {.name = i ? "B" : "A", .plan = &plans[i]},
                                  .arithmetic = {.precision = plans[i].precision}};
        (void)snprintf(sides[i].label, sizeof sides[i].label, "%s", plans[i].device);
    }
}

static void equal_sides_have_equal_bits(void **state)
{
    (void)state;
    bt_train_plan plans[2] = {plan_on("cpu"), plan_on("cpu")};
    bt_diff_side sides[2];
    bt_diff_result result;
    plans[1].recompute = BT_RECOMPUTE_BLOCK;
    make_sides(plans, sides);
    ASSERT_OK(bt_diff_run(sides, 3, &result));
    assert_int_equal(result.step_count, 3);
    assert_int_equal(result.first_over, -1);
    assert_true(result.row_count > 600);
    for (int64_t i = 0; i < result.row_count; ++i) {
        assert_int_equal(result.rows[i].difference.differing, 0);
    }
    assert_int_equal(result.steps[2].missing, 0);
    bt_diff_result_release(&result);
}

// One product of one step with flipped bits: it is named, with step and element.
static void the_first_value_over_its_bound_is_named(void **state)
{
    (void)state;
    const bt_train_plan plans[2] = {plan_on("cpu"), plan_on("faulty")};
    bt_diff_side sides[2];
    bt_diff_result result;
    bt_train_result trained;
    bt_str text = {0};
    const faulty_plan count = {FAULTY_FLIP, BT_KERNEL_GEMM, INT64_MAX, INT64_MAX};
    faulty_device_plan(&count);
    ASSERT_OK(bt_train_run(&plans[1], &(bt_train_observer){0}, &trained));
    const int64_t each = faulty_device_launches() / SMALL_STEPS;
    const faulty_plan once = {FAULTY_FLIP, BT_KERNEL_GEMM, 2 * each + 1, 2 * each + 1};
    faulty_device_plan(&once);
    make_sides(plans, sides);
    ASSERT_OK(bt_diff_run(sides, 4, &result));
    const bt_diff_row *first = &result.rows[result.first_over];
    assert_string_equal(first->name, "forward.0.h.0.attn.c_attn.linear");
    assert_int_equal(first->difference.first, 16); // faulty_device.c: element 16 of each 32
    assert_int_equal(result.steps[0].over + result.steps[1].over, 0);
    assert_true(result.first_over >= result.steps[2].first);
    ASSERT_OK(bt_diff_text(sides, &result, 0, &text));
    assert_non_null(strstr(bt_str_text(&text),
                           "first over   forward.0.h.0.attn.c_attn.linear, step 2: relative L2 "));
    assert_non_null(strstr(bt_str_text(&text), "the first is [0, 0, 16]: "));
    bt_str_release(&text);
    bt_diff_result_release(&result);
    faulty_device_plan(&none);
}

static void precisions_are_within_their_bounds(void **state)
{
    (void)state;
    bt_train_plan plans[2] = {plan_on("cpu"), plan_on("cpu")};
    bt_diff_side sides[2];
    bt_diff_result result;
    plans[1].precision = BT_PRECISION_BF16;
    make_sides(plans, sides);
    ASSERT_OK(bt_diff_run(sides, 6, &result));
    assert_int_equal(result.first_over, -1);
    assert_true(result.steps[5].drift > 0);
    bt_diff_result_release(&result);
    // A rate that is a tenth off shows although activations hardly move.
    plans[1].optimizer.beta2 = 0.99;
    ASSERT_OK(bt_diff_run(sides, 1, &result));
    assert_true(result.first_over >= 0);
    assert_string_equal(result.rows[result.first_over].name, "state.adamw.v.wte.weight");
    bt_diff_result_release(&result);
}

static void values_of_a_folder_stand_for_a_side(void **state)
{
    (void)state;
    const bt_train_plan plans[2] = {plan_on("cpu"), plan_on("cpu")};
    bt_diff_side sides[2];
    bt_diff_result result;
    char folder[256];
    (void)snprintf(folder, sizeof folder, "%s", test_scratch_path(""));
    make_sides(plans, sides);
    sides[1].dump = folder;
    ASSERT_OK(bt_diff_run(sides, 2, &result));
    bt_diff_result_release(&result);
    assert_int_equal(test_scratch_count(""), 2);
    sides[1].dump = NULL;
    sides[0].lockstep.plan = NULL;
    sides[0].lockstep.folder = folder;
    ASSERT_OK(bt_diff_run(sides, 5, &result)); // the folder has two
    assert_int_equal(result.step_count, 2);
    assert_int_equal(result.first_over, -1);
    assert_string_equal(result.rows[0].name, "initial.wte.weight"); // in the order of training
    assert_string_equal(result.rows[0].layer, "wte");
    bt_diff_result_release(&result);
    sides[0].lockstep.folder = "/nowhere";
    ASSERT_FAILS(BT_STATUS_IO, "step-00000000.safetensors", bt_diff_run(sides, 5, &result));
    bt_diff_result_release(&result);
    sides[1].lockstep = sides[0].lockstep;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "at least one side must train",
                 bt_diff_run(sides, 5, &result));
    bt_diff_result_release(&result);
}

static bool is_moment(const bt_diff_value *value)
{
    return strncmp(value->name, "state.adamw.", 12) == 0;
}

// Without the moments of a side another rate stays within the bound of an update: that is said.
static void a_bound_without_moments_is_called_wide(void **state)
{
    (void)state;
    bt_train_plan plans[2] = {plan_on("cpu"), plan_on("cpu")};
    bt_diff_side sides[2];
    bt_diff_result result;
    bt_diff_values values = {0};
    bt_str text = {0};
    char full[256], folder[280], path[300];
    (void)snprintf(full, sizeof full, "%s", test_scratch_path("full"));
    (void)snprintf(folder, sizeof folder, "%s", test_scratch_path("without"));
    ASSERT_OK(bt_dir_make(full));
    ASSERT_OK(bt_dir_make(folder));
    make_sides(plans, sides);
    sides[0].dump = full;
    ASSERT_OK(bt_diff_run(sides, 1, &result));
    bt_diff_result_release(&result);
    bt_diff_values_path(full, 0, path, sizeof path);
    ASSERT_OK(bt_diff_values_read(path, &values));
    int64_t kept = 0;
    for (int64_t i = 0; i < values.count; ++i) {
        if (!is_moment(&values.items[i])) {
            values.items[kept++] = values.items[i];
        }
    }
    values.count = kept;
    bt_diff_values_path(folder, 0, path, sizeof path);
    ASSERT_OK(bt_diff_values_write(&values, path));
    bt_diff_values_release(&values);
    plans[0].optimizer.lr *= 1.001;
    sides[0].dump = NULL;
    sides[1].lockstep = (bt_lockstep_side){.name = "B", .folder = full};
    sides[1].arithmetic.other_program = true;
    ASSERT_OK(bt_diff_run(sides, 1, &result));
    assert_int_equal(result.wide, 0);
    assert_true(result.steps[0].over > 0);
    bt_diff_result_release(&result);
    sides[1].lockstep.folder = folder;
    ASSERT_OK(bt_diff_run(sides, 1, &result));
    assert_int_equal(result.wide, 28);
    assert_int_equal(result.steps[0].over, 0);
    assert_int_equal(result.missing_count, 56);
    ASSERT_OK(bt_diff_text(sides, &result, 0, &text));
    assert_non_null(strstr(bt_str_text(&text), "the folder does not have it"));
    assert_non_null(strstr(bt_str_text(&text), "; of 28 the bound is twice the learning rate"));
    bt_str_release(&text);
    bt_diff_result_release(&result);
}

static void a_side_that_fails_ends_both(void **state)
{
    (void)state;
    bt_train_plan plans[2] = {plan_on("cpu"), plan_on("cpu")};
    bt_diff_side sides[2];
    bt_diff_result result;
    plans[1].memory_limit_bytes = 100000;
    make_sides(plans, sides);
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "B: ", bt_diff_run(sides, 2, &result));
    bt_diff_result_release(&result);
    plans[1] = plan_on("cpu");
    plans[1].model.width = 64;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "initial.wte.weight is [48, 32] in A, [48, 64] in B",
                 bt_diff_run(sides, 2, &result));
    bt_diff_result_release(&result);
}

static void json_and_page_are_whole(void **state)
{
    (void)state;
    bt_train_plan plans[2] = {plan_on("cpu"), plan_on("cpu")};
    bt_diff_side sides[2];
    bt_diff_result result;
    bt_str json = {0}, page = {0};
    plans[1].precision = BT_PRECISION_BF16;
    make_sides(plans, sides);
    (void)snprintf(sides[1].label, sizeof sides[1].label, "<b>");
    ASSERT_OK(bt_diff_run(sides, 2, &result));
    ASSERT_OK(bt_diff_json(sides, &result, &json));
    ASSERT_OK(bt_diff_page(sides, &result, &page));
    bt_json_doc doc = {0};
    ASSERT_OK(bt_json_parse("diff", bt_str_text(&json), json.length_bytes, &doc));
    const cJSON *steps = bt_json_get(doc.root, "steps");
    assert_int_equal(cJSON_GetArraySize(steps), 2);
    const cJSON *values = bt_json_get(steps->child, "values");
    assert_int_equal(cJSON_GetArraySize(values), result.steps[0].count);
    assert_true(bt_json_number_of(steps->child->next, "drift") > 0);
    bt_json_doc_release(&doc);
    const char *at = bt_str_text(&page);
    assert_non_null(strstr(at, "&lt;b&gt;"));
    assert_null(strstr(at, "<b>"));
    assert_non_null(strstr(at, "bound of step 1"));
    assert_non_null(strstr(at, "<title>Largest relative L2 difference by step</title>"));
    assert_null(strstr(at, "nan"));
    bt_str_release(&json);
    bt_str_release(&page);
    bt_diff_result_release(&result);
}

// The n-th allocation of either side or of the comparison fails: a clear error, both sides end and
// nothing is left. Every one of the first, then ever sparser: there are thousands.
static void allocations_may_fail(void **state)
{
    (void)state;
    const bt_train_plan plans[2] = {plan_on("cpu"), plan_on("cpu")};
    bt_diff_side sides[2];
    int64_t failures = 0;
    make_sides(plans, sides);
    for (int64_t n = 1;; n += 1 + n / 8) {
        bt_diff_result result;
        bt_str text = {0};
        const int64_t live = bt_mem_live_count();
        bt_mem_fail_at(n);
        bt_status status = bt_diff_run(sides, 1, &result);
        status = status == BT_OK ? bt_diff_page(sides, &result, &text) : status;
        const bool pending = bt_mem_fail_pending();
        bt_mem_fail_at(0);
        bt_str_release(&text);
        bt_diff_result_release(&result);
        assert_int_equal(bt_mem_live_count(), live);
        if (pending) {
            ASSERT_OK(status);
            break;
        }
        assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
        ++failures;
    }
    assert_true(failures > 40);
}

static int set_up(void **state)
{
    faulty_device_add();
    return test_scratch_setup(state) != 0 || small_corpus_write(state) != 0;
}

static int tear_down(void **state)
{
    return test_scratch_teardown(state) != 0 || small_corpus_remove(state) != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_are_what_they_are),
        cmocka_unit_test(types_bits_and_values_that_are_no_numbers),
        cmocka_unit_test(elements_are_named_by_their_index),
        cmocka_unit_test(bounds_follow_precision_and_depth),
        cmocka_unit_test(an_update_is_bounded_by_its_moments),
        cmocka_unit_test(equal_sides_have_equal_bits),
        cmocka_unit_test(the_first_value_over_its_bound_is_named),
        cmocka_unit_test(precisions_are_within_their_bounds),
        cmocka_unit_test(large_tensors_are_measured_whole),
        cmocka_unit_test(values_of_a_folder_stand_for_a_side),
        cmocka_unit_test(a_bound_without_moments_is_called_wide),
        cmocka_unit_test(a_side_that_fails_ends_both),
        cmocka_unit_test(json_and_page_are_whole),
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests_name("trainings in lockstep", tests, set_up, tear_down);
}
