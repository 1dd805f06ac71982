// tests/harness/test_kernels.c - kernel cases: plan, operands, check, time, table
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "harness/cases/kernel.h"
#include "harness/plan/kernel.h"
#include "harness/plan/plan.h"
#include "harness/stats/stats.h"
#include "tests/support/test.h"

#define SUITE(cases)                                                                               \
    "{\"name\":\"k\",\"profiles\":{\"cpu\":{\"device\":\"cpu\",\"kernel\":{\"max_time_s\":0.01},"  \
    "\"cases\":[" cases "]}}}"
#define KERNEL(members) "{\"name\":\"a\",\"kind\":\"kernel\",\"kernel\":{" members "}}"

static bt_status plan_of(const char *text, const bt_plan_options *options, bt_plan *plan)
{
    bt_suite suite;
    bt_machine machine = {0};
    BT_TRY(bt_suite_parse("s.json", text, strlen(text), &suite));
    bt_status status = bt_plan_make(&suite, options, &machine, plan);
    bt_suite_release(&suite);
    return status;
}

static const char *name_at(const bt_plan *plan, int index)
{
    return bt_json_get(bt_plan_case(plan, index), "name")->valuestring;
}

// ---- the plan ----------------------------------------------------------------------------------

static void lists_are_multiplied_out(void **state)
{
    (void)state;
    bt_plan plan;
    bt_plan_options options = {.seed = -1};
    ASSERT_OK(plan_of(SUITE(KERNEL("\"op\":\"layernorm\",\"shape\":[\"16384x768\",\"8x4\"],"
                                   "\"direction\":[\"forward\",\"backward\"],\"dtype\":\"f32\"")),
                      &options, &plan));
    assert_int_equal(plan.case_count, 5);
    assert_string_equal(name_at(&plan, 0), "ceiling.cold");
    assert_string_equal(name_at(&plan, 1), "a.forward.f32.16384x768");
    assert_string_equal(name_at(&plan, 4), "a.backward.f32.8x4");
    const cJSON *forward = bt_plan_case(&plan, 1), *backward = bt_plan_case(&plan, 3);
    assert_true(fabs(bt_plan_number(forward, "kernel.bytes") - 2.0 * 16384 * 768 * 4) < 1);
    assert_true(fabs(bt_plan_number(backward, "kernel.bytes") - 3.0 * 16384 * 768 * 4) < 1);
    assert_true(fabs(bt_plan_number(forward, "kernel.max_time_s") - 0.01) < 1e-9);
    assert_null(bt_json_get(forward, "train"));
    assert_null(bt_json_get(forward, "dataset"));
    bt_plan_release(&plan);
}

static void options_act_on_combinations(void **state)
{
    (void)state;
    const char *sets[] = {"kernel.dtype=f64", "kernel.cache=[\"hot\",\"cold\"]"};
    bt_plan plan;
    bt_plan_options options = {
        .seed = 7, .filter = "*.8x4.*", .sets = sets, .set_count = 2, .systems = "blutrain,x"};
    ASSERT_OK(
        plan_of(SUITE(KERNEL("\"op\":\"gelu\",\"shape\":[\"16x4\",\"8x4\"]")), &options, &plan));
    assert_int_equal(plan.case_count, 4);
    assert_string_equal(name_at(&plan, 0), "ceiling.cold");
    assert_string_equal(name_at(&plan, 1), "ceiling.hot");
    assert_string_equal(name_at(&plan, 2), "a.forward.f64.8x4.hot");
    assert_true(fabs(bt_plan_number(bt_plan_case(&plan, 2), "kernel.seed") - 7) < 1e-9);
    assert_int_equal(cJSON_GetArraySize(plan.systems), 2);
    bt_plan_release(&plan);
}

// The copy of 256 MiB does not fit a cache; a hot case that does is not compared with it.
static void small_hot_cases_have_no_share(void **state)
{
    (void)state;
    const char *sets[] = {"kernel.cache=[\"hot\",\"cold\",\"rotating\"]"};
    bt_plan plan;
    bt_plan_options options = {.seed = -1, .filter = "a.*", .sets = sets, .set_count = 1};
    ASSERT_OK(plan_of(SUITE(KERNEL("\"op\":\"copy\",\"shape\":[\"4096\",\"67108864\"]")), &options,
                      &plan));
    int hot_shares = 0, others = 0;
    for (int64_t i = 0; i < plan.case_count; ++i) {
        const cJSON *kernel = bt_json_get(bt_plan_case(&plan, i), "kernel");
        bool hot = strcmp(bt_json_get(kernel, "cache")->valuestring, "hot") == 0;
        bool small = bt_json_number_of(kernel, "bytes") < 1e6;
        assert_true(bt_plan_kernel_has_share(kernel) == !(hot && small));
        hot_shares += hot && !small;
        others += !hot;
    }
    assert_true(hot_shares >= 1 && others >= 4);
    bt_plan_release(&plan);
}

// A copy for each cache mode with a case that has a fraction of it, or a point in the roofline.
static void copies_are_planned_for_cases_that_refer_to_them(void **state)
{
    (void)state;
    static const struct {
        const char *text, *copies[3]; // up to NULL
    } suites[] = {
        {SUITE(KERNEL("\"op\":\"copy\",\"shape\":\"4096\",\"cache\":\"hot\"")), {NULL}},
        {SUITE(KERNEL("\"op\":\"copy\",\"shape\":\"67108864\",\"cache\":\"hot\"")),
         {"ceiling.hot"}},
        {SUITE(KERNEL("\"op\":\"gelu\",\"shape\":\"8x4\",\"cache\":\"hot\"")), {"ceiling.hot"}},
        {SUITE(KERNEL("\"op\":\"copy\",\"shape\":\"4096\",\"cache\":\"cold\"")), {"ceiling.cold"}},
        {SUITE(KERNEL("\"op\":\"copy\",\"shape\":\"4096\",\"cache\":[\"hot\",\"rotating\"]")),
         {"ceiling.rotating"}},
        {SUITE(KERNEL("\"op\":\"gelu\",\"shape\":\"8x4\",\"cache\":[\"hot\",\"cold\"]")),
         {"ceiling.cold", "ceiling.hot"}},
    };
    const bt_plan_options options = {.seed = -1};
    for (size_t i = 0; i < sizeof suites / sizeof suites[0]; ++i) {
        bt_plan plan;
        int copies = 0;
        ASSERT_OK(plan_of(suites[i].text, &options, &plan));
        for (; suites[i].copies[copies]; ++copies) {
            assert_string_equal(name_at(&plan, copies), suites[i].copies[copies]);
        }
        assert_false(bt_plan_kernel_is_ceiling(bt_plan_case(&plan, copies)));
        bt_plan_release(&plan);
    }
}

// A product for each type that is multiplied, after the copies; none for other operations.
static void ceilings_of_products(void **state)
{
    (void)state;
    bt_plan plan;
    bt_plan_options options = {.seed = -1};
    ASSERT_OK(plan_of(SUITE(KERNEL("\"op\":\"gemm_nn\",\"shape\":\"8x4x4\","
                                   "\"cache\":\"cold\",\"dtype\":[\"f32\",\"bf16\"]")),
                      &options, &plan));
    const char *const names[] = {"ceiling.cold", "ceiling.gemm.bf16", "ceiling.gemm.f32",
                                 "a.forward.f32.8x4x4", "a.forward.bf16.8x4x4"};
    assert_int_equal(plan.case_count, 5);
    for (int i = 0; i < 5; ++i) {
        const cJSON *item = bt_plan_case(&plan, i);
        assert_string_equal(name_at(&plan, i), names[i]);
        assert_int_equal(bt_plan_kernel_is_ceiling(item), i < 3);
        assert_int_equal(bt_plan_kernel_is_copy(item), i < 1);
    }
    const cJSON *product = bt_plan_case(&plan, 1);
    assert_string_equal(bt_json_get(bt_json_get(product, "kernel"), "dtype")->valuestring, "bf16");
    assert_true(bt_plan_number(product, "kernel.flops") > 1e9);
    assert_true(fabs(bt_plan_number(product, "kernel.max_time_s") - 0.01) < 1e-9);
    bt_plan_release(&plan);
}

static void impossible_cases_are_refused(void **state)
{
    (void)state;
    const struct {
        const char *text, *words;
    } cases[] = {
        {SUITE(KERNEL("\"op\":\"gelu\"")), "needs kernel.op and kernel.shape"},
        {SUITE(KERNEL("\"shape\":\"8x4\"")), "needs kernel.op and kernel.shape"},
        {SUITE(KERNEL("\"op\":\"gleu\",\"shape\":\"8x4\"")), "did you mean \"gelu\"?"},
        {SUITE(KERNEL("\"op\":\"gelu\",\"shape\":\"8x\"")), "kernel.shape is \"8x\""},
        {SUITE(KERNEL("\"op\":\"gelu\",\"shape\":\"0x3\"")), "kernel.shape is \"0x3\""},
        {SUITE(KERNEL("\"op\":\"gelu\",\"shape\":\"block\"")), "allowed for gelu: any"},
        {SUITE(KERNEL("\"op\":\"layernorm\",\"shape\":\"8\"")),
         "allowed for layernorm: rows x cols"},
        {SUITE(KERNEL("\"op\":\"layernorm\",\"shape\":\"8x4x2\"")), "s.json:1:"},
        {SUITE(KERNEL("\"op\":\"adamw\",\"shape\":\"8\",\"direction\":\"backward\"")),
         "adamw has no backward"},
        {SUITE(KERNEL("\"op\":\"gelu\",\"shape\":\"8\",\"dtype\":\"tf32\"")), "only attention"},
        {SUITE(KERNEL("\"op\":\"gelu\",\"shape\":\"8\",\"cache\":\"warm\"")),
         "allowed: cold, rotating, hot"},
        {SUITE(KERNEL("\"op\":\"gelu\",\"shape\":\"8\",\"cache\":[]")), "is an empty list"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        bt_plan plan = {0};
        bt_plan_options options = {.seed = -1};
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, cases[i].words,
                     plan_of(cases[i].text, &options, &plan));
    }
}

static void named_tensors_are_those_of_the_model(void **state)
{
    (void)state;
    bt_kernel_shape shape;
    assert_true(bt_kernel_shape_parse("gpt2_124m", &shape));
    assert_int_equal(shape.tensor_count, 148);
    assert_int_equal(shape.count, 124475904);
    assert_true(bt_kernel_shape_parse("block", &shape));
    assert_int_equal(shape.count, 7087872);
    static const char *const bad[] = {"", "x", "8x-1", "8x04x", "1x2x3x4x5", "99999999x99999999x9"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        assert_false(bt_kernel_shape_parse(bad[i], &shape));
    }
}

// ---- running a case ----------------------------------------------------------------------------

typedef struct heard {
    int64_t samples, starts, kernels, measured;
    double error_share, load_time_ns;
    bool stop_at_once;
} heard;

static bt_status on_start(void *self, const bt_train_start *start)
{
    assert_non_null(start->device);
    ++((heard *)self)->starts;
    return BT_OK;
}

static bt_status on_kernel(void *self, const bt_train_kernel *kernel)
{
    assert_non_null(strstr(kernel->kernel, "cpu"));
    ++((heard *)self)->kernels;
    return BT_OK;
}

static bt_status on_samples(void *self, const double *times_ns, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        assert_true(times_ns[i] > 0);
    }
    ((heard *)self)->samples += count;
    return BT_OK;
}

static bt_status on_measured(void *self, const bt_case_measured *event)
{
    ++((heard *)self)->measured;
    ((heard *)self)->error_share = event->error_share;
    ((heard *)self)->load_time_ns = event->load_time_ns;
    return BT_OK;
}

static bool should_stop(void *self) { return ((heard *)self)->stop_at_once; }

static bt_case_listener listen(heard *self)
{
    return (bt_case_listener){
        .train = {.self = self, .start = on_start, .kernel = on_kernel, .should_stop = should_stop},
        .samples = on_samples,
        .measured = on_measured};
}

static double slowdown; // injected into the cases that follow

static bt_status run_case(const char *op, const char *direction, const char *dtype,
                          const char *cache, const char *shape, heard *out)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{\"kind\":\"kernel\",\"kernel\":{\"op\":\"%s\",\"direction\":\"%s\",\"dtype\":"
                   "\"%s\",\"cache\":\"%s\",\"shape\":\"%s\",\"seed\":5,\"max_time_s\":0.02}}",
                   op, direction, dtype, cache, shape);
    bt_json_doc json;
    ASSERT_OK(bt_json_parse("case", text, strlen(text), &json));
    bt_case_work work = {.item = json.root, .device = "cpu", .inject_slowdown = slowdown};
    bt_train_result result = {0};
    *out = (heard){.stop_at_once = out->stop_at_once};
    bt_case_listener listener = listen(out);
    bt_status status = bt_case_run(&work, &listener, &result);
    bt_json_doc_release(&json);
    return status;
}

static const char *const small_shapes[BT_KERNEL_CASE_OP_COUNT] = {
    [BT_KERNEL_CASE_copy] = "7x11",
    [BT_KERNEL_CASE_cast] = "1000",
    [BT_KERNEL_CASE_transpose] = "70x100",
    [BT_KERNEL_CASE_gelu] = "3x5x7",
    [BT_KERNEL_CASE_bias] = "9x33",
    [BT_KERNEL_CASE_layernorm] = "17x65",
    [BT_KERNEL_CASE_residual_layernorm] = "17x65",
    [BT_KERNEL_CASE_softmax] = "5x100",
    [BT_KERNEL_CASE_chain_rms_norm] = "7x100",
    [BT_KERNEL_CASE_chain_residual_rms_norm] = "7x100",
    [BT_KERNEL_CASE_chain_swiglu] = "5x33",
    [BT_KERNEL_CASE_chain_rope] = "9x3x16",
    [BT_KERNEL_CASE_chain_softmax] = "5x100",
    [BT_KERNEL_CASE_chain_cross_entropy] = "6x501",
    [BT_KERNEL_CASE_chain_scores] = "6x33x17x40",
    [BT_KERNEL_CASE_cross_entropy] = "6x501",
    [BT_KERNEL_CASE_reduce_sum] = "129x7",
    [BT_KERNEL_CASE_reduce_sum_rows] = "7x129",
    [BT_KERNEL_CASE_embedding] = "40x8x13",
    [BT_KERNEL_CASE_adamw] = "1001",
    [BT_KERNEL_CASE_grad_norm] = "1001",
    [BT_KERNEL_CASE_attention] = "2x2x33x16",
    [BT_KERNEL_CASE_attention_causal] = "2x2x33x16",
    [BT_KERNEL_CASE_gemm_nt] = "33x17x40",
    [BT_KERNEL_CASE_gemm_nn] = "33x17x40",
    [BT_KERNEL_CASE_gemm_tn] = "33x17x4000",
    [BT_KERNEL_CASE_gemm_batched] = "3x33x17x40",
    [BT_KERNEL_CASE_gemm_bias] = "33x17x40",
    [BT_KERNEL_CASE_gemm_bias_gelu] = "33x17x40",
    [BT_KERNEL_CASE_gemm_bias_residual] = "33x17x40",
    [BT_KERNEL_CASE_gemm_dgelu] = "33x17x40",
};

static void every_op_runs_and_is_correct(void **state)
{
    (void)state;
    for (int op = 0; op < BT_KERNEL_CASE_OP_COUNT; ++op) {
        bt_kernel_shape shape;
        assert_non_null(small_shapes[op]);
        assert_true(bt_kernel_shape_parse(small_shapes[op], &shape));
        for (int backward = 0; backward < 2; ++backward) {
            heard got = {0};
            if (!(bt_kernel_bytes((bt_kernel_case_op)op, backward, &shape, 4) > 0)) {
                continue;
            }
            ASSERT_OK(run_case(bt_kernel_case_op_name((bt_kernel_case_op)op),
                               backward ? "backward" : "forward", "f32", "hot", small_shapes[op],
                               &got));
            assert_int_equal(got.starts, 1);
            assert_int_equal(got.kernels, 1);
            assert_int_equal(got.measured, 1);
            assert_true(got.samples >= 3);
            assert_true(got.error_share <= 1);
        }
    }
}

// Chains call by call, and in groups, forward alone and with backward, against the same reference.
static void chains_are_correct_in_groups(void **state)
{
    static const char *const dtypes[] = {"f32\",\"compile\":\"on", "bf16",
                                         "bf16\",\"compile\":\"on", "f64"};
    (void)state;
    for (int op = BT_KERNEL_CASE_chain_rms_norm; op <= BT_KERNEL_CASE_chain_scores; ++op) {
        for (int i = 0; i < 8; ++i) {
            if (TEST_SANITIZED && (op + i) % 3) { // slow: all of them run in the other builds
                continue;
            }
            const char *dtype = dtypes[i / 2];
            const bool grouped = strstr(dtype, "compile") != NULL;
            heard got = {0};
            const bt_status status = run_case(bt_kernel_case_op_name((bt_kernel_case_op)op),
                                              i % 2 ? "backward" : "forward", dtype, "hot",
                                              op == BT_KERNEL_CASE_chain_rope     ? "512x4x64"
                                              : op == BT_KERNEL_CASE_chain_scores ? "64x49x49x32"
                                                                                  : "512x256",
                                              &got);
            if (status == BT_STATUS_UNAVAILABLE) {
                assert_true(grouped);
                continue; // no MLIR here
            }
            ASSERT_OK(status);
            assert_true(got.error_share <= 1);
            assert_int_equal(got.load_time_ns > 0, grouped);
        }
    }
}

static void cache_modes_and_stopping(void **state)
{
    (void)state;
    heard got = {0};
    ASSERT_OK(run_case("gelu", "forward", "f32", "cold", "1000", &got));
    assert_true(got.samples >= 3);
    ASSERT_OK(run_case("gelu", "forward", "f32", "rotating", "100000", &got));
    assert_true(got.samples >= 3);
    got.stop_at_once = true;
    ASSERT_OK(run_case("gelu", "forward", "f32", "hot", "1000", &got));
    assert_int_equal(got.samples, 1);
    got.stop_at_once = false;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "no grad_norm kernel for bf16",
                 run_case("grad_norm", "forward", "bf16", "hot", "8x8", &got));
    assert_int_equal(got.measured, 0);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "shape \"8xx\"",
                 run_case("layernorm", "forward", "f32", "hot", "8xx", &got));
}

// On the CPU what has passed is multiplied, whatever the machine does meanwhile. That a case's
// samples are lengthened is seen in tests/ci/self-check.bats.
static void a_slowdown_is_injected(void **state)
{
    (void)state;
    bt_device device;
    heard got = {0};
    kernel_slowdown slow = {0};
    ASSERT_OK(bt_device_open("cpu", 0, &device));
    kernel_run run = {.device = &device};
    ASSERT_OK(bt_kernel_slowdown_make(&run, 9, NULL, NULL, &slow));
    int64_t started_ns = bt_clock_ns(), before_ns = 0;
    while (before_ns < 100000) {
        before_ns = bt_clock_ns() - started_ns;
    }
    ASSERT_OK(bt_kernel_slowdown_apply(&run, &slow, started_ns));
    assert_true(bt_clock_ns() - started_ns >= 10 * before_ns - 10);
    bt_kernel_slowdown_release(&run, &slow);
    bt_device_close(&device);
    slowdown = 0.5;
    bt_status status = run_case("gelu", "forward", "f32", "hot", "20000", &got);
    slowdown = 0;
    ASSERT_OK(status);
    assert_int_equal(got.measured, 1);
}

// A fill takes 1500 ns and 1 ns for 3000 bytes more.
static bt_status fill_time(void *self, uint64_t bytes, double *added_ns)
{
    *added_ns = 1500 + (double)bytes / 3000;
    ++*(int *)self;
    return BT_OK;
}

static void the_fill_of_a_slowdown_is_found(void **state)
{
    (void)state;
    int calls = 0;
    uint64_t bytes = 0;
    ASSERT_OK(bt_kernel_fill_search(fill_time, &calls, 20000, &bytes));
    double added_ns = 0;
    ASSERT_OK(fill_time(&calls, bytes, &added_ns));
    assert_true(fabs(added_ns - 20000) <= 200);
    assert_in_range(calls, 10, 60);
    ASSERT_OK(bt_kernel_fill_search(fill_time, &calls, 1400, &bytes)); // near enough to the least
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "the minimum is 1500 ns",
                 bt_kernel_fill_search(fill_time, &calls, 1000, &bytes));
    ASSERT_OK(bt_kernel_fill_search(fill_time, &calls, 1e12, &bytes)); // as much as there is
}

static void failing_memory_leaks_nothing(void **state)
{
    (void)state;
    int64_t before = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    for (int64_t n = 1; status != BT_OK && n < 500; ++n) {
        char text[] = "{\"kind\":\"kernel\",\"kernel\":{\"op\":\"layernorm\",\"direction\":"
                      "\"backward\",\"dtype\":\"f32\",\"cache\":\"hot\",\"shape\":\"5x7\",\"seed\":"
                      "5,\"max_time_s\":0.01}}";
        bt_json_doc json;
        ASSERT_OK(bt_json_parse("case", text, strlen(text), &json));
        bt_case_work work = {.item = json.root, .device = "cpu"};
        bt_train_result result = {0};
        heard got = {0};
        bt_case_listener listener = listen(&got);
        bt_mem_fail_at(n);
        status = bt_case_run(&work, &listener, &result);
        bt_mem_fail_at(0);
        bt_json_doc_release(&json);
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), before);
    }
    assert_int_equal(status, BT_OK);
}

// ---- the check can fail ------------------------------------------------------------------------

// A call of a case that has run, whose outputs can be spoiled and checked.
typedef struct spoiling {
    bt_json_doc json;
    bt_device device;
    kernel_run run;
    kernel_call call;
} spoiling;

static void spoiling_begin(const char *text, spoiling *self)
{
    *self = (spoiling){.run.seed = 9};
    ASSERT_OK(bt_json_parse("case", text, strlen(text), &self->json));
    ASSERT_OK(bt_kernel_body_make(self->json.root, &self->run.body));
    ASSERT_OK(bt_device_open("cpu", 0, &self->device));
    self->run.device = &self->device;
    ASSERT_OK(bt_pool_create(&self->device, 0, &self->run.pool));
    ASSERT_OK(bt_kernel_call_make(&self->run, &self->call));
    ASSERT_OK(self->run.kernel->launch(&self->call.launch, &self->call.args));
}

static void spoiling_end(spoiling *self)
{
    bt_kernel_call_release(&self->run, &self->call);
    bt_pool_destroy(self->run.pool);
    bt_device_close(&self->device);
    bt_json_doc_release(&self->json);
}

// Checks with one element of one output changed, which is put back.
static bt_status check_spoiled(spoiling *self, const char *name, int64_t index, double factor)
{
    double worst = 0;
    float *element = NULL;
    for (int i = 0; i < self->run.body.count; ++i) {
        if (strcmp(self->run.body.operands[i].name, name) == 0) {
            element = (float *)self->call.at[i] + index;
        }
    }
    assert_non_null(element);
    const float was = *element;
    *element *= (float)factor;
    bt_status status = bt_kernel_check(&self->run, &self->call, &worst);
    assert_true(status == BT_OK ? worst <= 1 : !(worst <= 1));
    *element = was;
    return status;
}

static void a_wrong_element_is_found(void **state)
{
    (void)state;
    spoiling made;
    // 6,000,000 elements: the reference takes several chunks, and sums go over all of them.
    spoiling_begin("{\"op\":\"layernorm\",\"direction\":\"backward\",\"dtype\":\"f32\",\"shape\":"
                   "\"300x20000\"}",
                   &made);
    ASSERT_OK(check_spoiled(&made, "dx", 0, 1));
    ASSERT_FAILS(BT_STATUS_INTERNAL, "wrong result of layernorm_backward_cpu_f32: dx[5999999] is",
                 check_spoiled(&made, "dx", 5999999, 1.01));
    ASSERT_FAILS(BT_STATUS_INTERNAL, "dgamma[19999] is",
                 check_spoiled(&made, "dgamma", 19999, 1.01));
    ASSERT_FAILS(BT_STATUS_INTERNAL, "dbeta[3] is nan",
                 check_spoiled(&made, "dbeta", 3, (double)NAN));
    spoiling_end(&made);
}

// Of calls that are too large to be checked in full the first and the last part always are, and all
// sums over rows.
static void large_results_are_sampled(void **state)
{
    (void)state;
    static const struct {
        const char *text, *first, *last;
        int64_t index; // of the last element
        const char *sum;
    } cases[] = {
        {"{\"op\":\"gelu\",\"dtype\":\"f32\",\"shape\":\"17000001\"}", "y", "y", 17000000, NULL},
        {"{\"op\":\"layernorm\",\"direction\":\"backward\",\"dtype\":\"f32\",\"shape\":"
         "\"1700x10000\"}",
         "dx", "dx", 16999999, "dgamma"},
        {"{\"op\":\"attention\",\"dtype\":\"f32\",\"shape\":\"2x4x2050x32\"}", "o", "lse",
         2 * 4 * 2050 - 1, NULL},
        {"{\"op\":\"gemm_batched\",\"dtype\":\"f32\",\"shape\":\"3x1000x800x1000\"}", "d", "d",
         3 * 1000 * 800 - 1, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char words[64];
        spoiling made;
        spoiling_begin(cases[i].text, &made);
        ASSERT_OK(check_spoiled(&made, cases[i].first, 0, 1));
        ASSERT_FAILS(BT_STATUS_INTERNAL, "[0] is", check_spoiled(&made, cases[i].first, 0, 1.1));
        (void)snprintf(words, sizeof words, "%s[%lld] is", cases[i].last,
                       (long long)cases[i].index);
        ASSERT_FAILS(BT_STATUS_INTERNAL, words,
                     check_spoiled(&made, cases[i].last, cases[i].index, 1.1));
        if (cases[i].sum) {
            ASSERT_FAILS(BT_STATUS_INTERNAL, "[5000] is",
                         check_spoiled(&made, cases[i].sum, 5000, 1.01));
        }
        spoiling_end(&made);
    }
}

// Every window lies within its operand; another seed takes another sample; the same the same.
static void parts_of_a_sample(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "{\"op\":\"gelu\",\"dtype\":\"f32\",\"shape\":\"16x1024x16384\"}",
        "{\"op\":\"cross_entropy\",\"dtype\":\"f32\",\"direction\":\"backward\",\"shape\":"
        "\"16384x128256\"}",
        "{\"op\":\"reduce_sum\",\"dtype\":\"f32\",\"shape\":\"16384x50304\"}",
        "{\"op\":\"adamw\",\"dtype\":\"f32\",\"shape\":\"gpt2_124m\"}",
        "{\"op\":\"attention_causal\",\"dtype\":\"tf32\",\"direction\":\"backward\",\"shape\":"
        "\"4x32x2048x128\"}",
        "{\"op\":\"gemm_batched\",\"dtype\":\"bf16\",\"shape\":\"8x8192x8192x8192\"}",
        "{\"op\":\"gemm_batched\",\"dtype\":\"bf16\",\"shape\":\"1x16384x16384x16384\"}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        bt_json_doc json;
        bt_kernel_body body;
        kernel_parts parts, others;
        kernel_part part, other;
        int64_t differ = 0;
        ASSERT_OK(bt_json_parse("case", cases[i], strlen(cases[i]), &json));
        ASSERT_OK(bt_kernel_body_make(json.root, &body));
        bt_kernel_parts_make(&body, 5, &parts);
        bt_kernel_parts_make(&body, 6, &others);
        assert_true(parts.sampled && parts.count >= 2 && parts.count == others.count);
        for (int64_t p = 0; p < parts.count; ++p) {
            bt_kernel_part_at(&parts, p, &part);
            bt_kernel_part_at(&others, p, &other);
            assert_true(part.first == (p == 0) && part.last == (p == parts.count - 1));
            assert_true(!(part.first || part.last) || part.compared);
            for (int o = 0; o < body.count; ++o) {
                const kernel_window *window = &part.windows[o];
                assert_true(window->first >= 0 && window->runs > 0 && window->length > 0);
                assert_true(window->first + (window->runs - 1) * window->stride + window->length <=
                            bt_operand_count(&body.operands[o], body.rows));
                assert_int_equal(bt_kernel_window_count(window),
                                 bt_operand_count(&part.body.operands[o], part.body.rows));
                differ += window->first != other.windows[o].first;
            }
            differ += part.compared != other.compared;
        }
        assert_true(differ > 0 || parts.count == 2 || (parts.all_rows && body.count == 2));
        bt_json_doc_release(&json);
    }
}

static void operands_are_drawn_and_rounded(void **state)
{
    (void)state;
    kernel_run run = {.seed = 3};
    run.body.count = 2;
    run.body.operands[0] = (bt_operand){.dtype = BT_BF16, .fill = BT_FILL_NORMAL, .b = 1};
    run.body.operands[1] = (bt_operand){.dtype = BT_I32, .fill = BT_FILL_BELOW, .a = 10};
    enum { COUNT = 10000 };
    static double values[COUNT], again[COUNT];
    ASSERT_OK(bt_kernel_tile(&run.body, run.seed, 0, values, COUNT));
    ASSERT_OK(bt_kernel_tile(&run.body, run.seed, 0, again, COUNT));
    double sum = 0, squares = 0;
    for (int i = 0; i < COUNT; ++i) {
        float single = (float)values[i];
        assert_true(fabs(values[i] - (double)bt_bf16_to_f32(bt_f32_to_bf16(single))) <= 0);
        assert_true(fabs(values[i] - again[i]) <= 0);
        sum += values[i];
        squares += values[i] * values[i];
    }
    assert_true(fabs(sum / COUNT) < 0.05 && fabs(squares / COUNT - 1) < 0.05);
    ASSERT_OK(bt_kernel_tile(&run.body, run.seed, 1, values, COUNT));
    for (int i = 0; i < COUNT; ++i) {
        assert_true(values[i] >= 0 && values[i] <= 9);
    }
}

// Every accepts() function of the table is described, and nothing else is.
static void what_rows_accept_is_said(void **state)
{
    (void)state;
    static const char *const named[] = {
#define BT_KERNEL_CPU(op, dtype, name, accepts, workspace)            #accepts,
#define BT_KERNEL_CUDA(op, dtype, min_arch, name, accepts, workspace) #accepts,
#include "kernels/kernels.inl"
#undef BT_KERNEL_CPU
#undef BT_KERNEL_CUDA
    };
    static const char *const described[] = {
#define BT_ACCEPTS(function, text) #function,
#include "kernels/accepts.inl"
#undef BT_ACCEPTS
    };
    for (size_t i = 0; i < sizeof named / sizeof named[0]; ++i) {
        bool any = strcmp(bt_kernel_accepts_text(named[i]), "any call") == 0;
        if (any != (strcmp(named[i], "NULL") == 0)) {
            fail_msg("%s: say in kernels/accepts.inl what it lets through", named[i]);
        }
    }
    for (size_t i = 0; i < sizeof described / sizeof described[0]; ++i) {
        bool used = false;
        for (size_t j = 0; j < sizeof named / sizeof named[0] && !used; ++j) {
            used = strcmp(named[j], described[i]) == 0;
        }
        if (!used) {
            fail_msg("kernels/accepts.inl: no row names %s", described[i]);
        }
    }
}

// One sample of 31 that was interrupted leaves the mean unknown, [0, 116]: the reason names the
// median, whose interval ended the sampling.
static void the_reason_to_stop_names_the_median(void **state)
{
    (void)state;
    kernel_times times = {0};
    bt_stats stats;
    const char *why = NULL;
    for (int i = 0; i < 31; ++i) {
        assert_int_equal(bt_kernel_times_keep(&times, i == 7 ? 1000 : 20), BT_OK);
    }
    assert_int_equal(bt_stats_of(times.samples, times.count, &stats), BT_OK);
    assert_true(stats.mean_low < 0 && stats.mean_high > 100);
    assert_int_equal(bt_kernel_times_stop(&times, 1000000000, 5, &why), BT_OK);
    assert_string_equal(why, "interval of the median within 0.25 %");
    bt_mem_free(times.samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_multiplied_out),
        cmocka_unit_test(options_act_on_combinations),
        cmocka_unit_test(small_hot_cases_have_no_share),
        cmocka_unit_test(copies_are_planned_for_cases_that_refer_to_them),
        cmocka_unit_test(ceilings_of_products),
        cmocka_unit_test(impossible_cases_are_refused),
        cmocka_unit_test(named_tensors_are_those_of_the_model),
        cmocka_unit_test(every_op_runs_and_is_correct),
        cmocka_unit_test(chains_are_correct_in_groups),
        cmocka_unit_test(cache_modes_and_stopping),
        cmocka_unit_test(the_reason_to_stop_names_the_median),
        cmocka_unit_test(a_slowdown_is_injected),
        cmocka_unit_test(the_fill_of_a_slowdown_is_found),
        cmocka_unit_test(failing_memory_leaks_nothing),
        cmocka_unit_test(a_wrong_element_is_found),
        cmocka_unit_test(large_results_are_sampled),
        cmocka_unit_test(parts_of_a_sample),
        cmocka_unit_test(operands_are_drawn_and_rounded),
        cmocka_unit_test(what_rows_accept_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
