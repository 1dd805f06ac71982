// tests/golden/test_llama.c - a tiny Llama-style decoder against numbers of make_llama.py
//
// In float64 both sides round differently only: sums of up to 24 terms through two blocks keep
// 1e-11 relative to the largest gradient. In float32, 1e-4.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cJSON.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/compiler/capture.h"
#include "framework/compiler/form.h"
#include "framework/compiler/half_turn.h"
#include "framework/compiler/step.h"
#include "framework/nn/llama.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"

enum { BATCH = 2, TOKENS = 5 };

static const bt_llama_config config = {
    .layers = 2, .heads = 4, .kv_heads = 2, .width = 16, .hidden = 24, .vocab = 11, .context = 6};

typedef struct llama {
    fixture f;
    bt_params params;
    bt_llama model;
    bt_tensor *ids, *targets;
} llama;

// The formulas of make_llama.py.
static void write_weights(llama *l)
{
    for (int64_t p = 0; p < l->params.count; ++p) {
        bt_param *param = &l->params.items[p];
        const int64_t count = bt_tensor_count(param->master);
        double *wide = malloc((size_t)count * sizeof *wide);
        float *narrow = malloc((size_t)count * sizeof *narrow);
        for (int64_t i = 0; i < count; ++i) {
            const double place = (double)p, at = (double)i;
            wide[i] = (param->master->shape.rank == 1 ? 1.0 : 0.0) +
                      0.3 * sin(1.7 * place + 0.61 * at + 0.002 * at * at);
            narrow[i] = (float)wide[i];
        }
        ASSERT_OK(bt_param_write(&l->params, param,
                                 l->params.master == BT_F64 ? (void *)wide : (void *)narrow));
        free(wide);
        free(narrow);
    }
}

static void open_llama(llama *l, bt_dtype dtype)
{
    int32_t ids[BATCH * TOKENS], targets[BATCH * TOKENS];
    for (int b = 0; b < BATCH; ++b) {
        for (int t = 0; t < TOKENS; ++t) {
            ids[b * TOKENS + t] = (7 * b + 3 * t + b * t) % 11;
            targets[b * TOKENS + t] = (5 * b + 2 * t + 1) % 11;
        }
    }
    fixture_open(&l->f, 0);
    bt_params_init(&l->params, &l->f.context, dtype, dtype, 1);
    ASSERT_OK(bt_llama_init(&l->params, &config, &l->model));
    write_weights(l);
    l->ids = fixture_values(&l->f, BT_I32, BT_SHAPE(BATCH, TOKENS), ids);
    l->targets = fixture_values(&l->f, BT_I32, BT_SHAPE(BATCH, TOKENS), targets);
}

static void close_llama(llama *l)
{
    bt_tensor_release(l->ids), bt_tensor_release(l->targets);
    bt_llama_release(&l->model);
    bt_params_release(&l->params);
    fixture_close(&l->f);
}

static bt_tensor *run(llama *l)
{
    const bt_model model = bt_llama_model(&l->model, &l->params);
    const bt_batch batch = {.count = 2, .items = {{"ids", l->ids}, {"targets", l->targets}}};
    bt_tensor *loss = NULL;
    ASSERT_OK(bt_model_loss(&l->f.context, &model, &batch, &loss));
    return loss;
}

static void check(bt_dtype dtype, double tolerance)
{
    llama l = {0};
    void *text = NULL;
    size_t size = 0;
    ASSERT_OK(bt_file_read("tests/golden/llama_small.json", &text, &size));
    cJSON *json = cJSON_ParseWithLength(text, size);
    const cJSON *row = NULL;
    assert_non_null(json);
    open_llama(&l, dtype);
    bt_tensor *loss = run(&l);
    ASSERT_OK(bt_backward(&l.f.context, loss, NULL));
    double *value = fixture_read(&l.f, loss);
    const double expected = cJSON_GetObjectItemCaseSensitive(json, "loss")->valuedouble;
    test_assert_close(value, &expected, 1, tolerance, tolerance, "loss");
    free(value);
    int rows = 0;
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(json, "gradients")) {
        const char *name = cJSON_GetObjectItemCaseSensitive(row, "name")->valuestring;
        const bt_param *param = bt_params_find(&l.params, name);
        const int element = cJSON_GetObjectItemCaseSensitive(row, "element")->valueint;
        const double slope = cJSON_GetObjectItemCaseSensitive(row, "value")->valuedouble;
        assert_non_null(param);
        double *gradient = fixture_read(&l.f, param->value->grad);
        test_assert_close(&gradient[element], &slope, 1, tolerance, tolerance, name);
        free(gradient);
        ++rows;
    }
    assert_int_equal(rows, 2 * l.params.count);
    bt_tensor_release(loss);
    close_llama(&l);
    cJSON_Delete(json);
    bt_mem_free(text);
}

static void float64_agrees(void **state)
{
    (void)state;
    check(BT_F64, 1e-11);
}

static void float32_agrees(void **state)
{
    (void)state;
    check(BT_F32, 1e-4);
}

// The gradient has the bits of the step's, or differs by less than `bound` of its largest element.
static void assert_gradient(const bt_tensor *grad, const void *got, double bound)
{
    const float *expected = bt_tensor_data(grad), *made = got;
    const int64_t count = bt_tensor_count(grad);
    double largest = 0, error = 0;
    if (bound == 0) {
        assert_memory_equal(got, expected, bt_tensor_bytes(grad));
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        const double wrong = fabs((double)made[i] - (double)expected[i]);
        largest = fmax(largest, fabs((double)expected[i]));
        error = !(wrong <= error) ? wrong : error;
    }
    if (!(error <= bound * largest)) {
        fail_msg("%s: error %g of at most %g", grad->name, error, largest);
    }
}

// Runs the step as groups, interpreted.
static void check_groups(const bt_fuse_options *options, double bound, bt_formed *formed,
                         int *kinds)
{
    llama l = {0};
    bt_dag_capture capture;
    bt_dag g;
    bt_fusion_plan plan;
    int64_t *half_turns = NULL;
    int values[32] = {0};
    int64_t offsets[32] = {0};
    open_llama(&l, BT_F32);
    ASSERT_OK(bt_dag_capture_begin(&l.f.context, true, &capture));
    bt_tensor *loss = run(&l);
    ASSERT_OK(bt_backward(&l.f.context, loss, NULL));
    for (int64_t i = 0; i < l.params.count; ++i) {
        const bt_tensor *grad = l.params.items[i].value->grad;
        ASSERT_OK(bt_dag_capture_output(&capture, grad));
        values[i] = bt_dag_capture_value(&capture, grad, &offsets[i]);
    }
    ASSERT_OK(bt_dag_capture_end(&capture, &g));
    ASSERT_OK(bt_dag_find_half_turns(&capture, &g, &half_turns));
    ASSERT_OK(bt_dag_form(&g, half_turns, options, &plan, formed));
    ASSERT_OK(bt_dag_check(&g));
    int fused = 0;
    for (int i = 0; i < plan.count; ++i) {
        fused += plan.groups[i].node_count;
        kinds[plan.groups[i].group->kind] += 1;
    }
    assert_true(fused > g.node_count / 2);
    void **memory = calloc((size_t)g.value_count, sizeof *memory);
    for (int i = 0; i < g.value_count; ++i) {
        memory[i] = g.values[i].producer == -1 ? bt_dag_capture_input(&capture, i) : NULL;
    }
    ASSERT_OK(bt_dag_run_fused(&l.f.context, &g, &plan, bt_fused_interpret, NULL, memory));
    for (int64_t i = 0; i < l.params.count; ++i) {
        assert_gradient(l.params.items[i].value->grad, (char *)memory[values[i]] + offsets[i],
                        bound);
    }
    for (int i = 0; i < g.value_count; ++i) {
        if (g.values[i].is_output && g.values[i].producer >= 0) {
            bt_pool_free(l.f.context.pool, memory[i]);
        }
    }
    free(memory);
    free(half_turns);
    bt_fusion_plan_release(&plan);
    bt_dag_release(&g);
    bt_dag_capture_release(&capture);
    bt_tensor_release(loss);
    close_llama(&l);
}

// Nothing of it has a dedicated kernel, so it tests the compiler as well: the step as groups
// has the step's bits.
static void its_step_fuses_and_keeps_its_bits(void **state)
{
    (void)state;
    const unsigned ordered =
        1U << BT_FUSED_ELEMENTWISE | 1U << BT_FUSED_ROW | 1U << BT_FUSED_PRODUCT;
    int kinds[BT_FUSED_KIND_COUNT] = {0};
    bt_formed formed;
    check_groups(&(bt_fuse_options){.kinds = ordered}, 0, &formed, kinds);
    assert_true(formed.simplified.nodes_after < formed.simplified.nodes_before);
    assert_int_equal(formed.copied, 0);
    // With cheap values made again, the same.
    check_groups(&(bt_fuse_options){.kinds = ordered, .rematerialize = true, .launch_bytes = 64}, 0,
                 &formed, kinds);
    assert_true(formed.copied > 0);
}

// As a GPU would run it: sums in any order, rotations as views, sums of columns as groups.
static void its_step_as_a_gpu_fuses_it_is_close(void **state)
{
    (void)state;
    int kinds[BT_FUSED_KIND_COUNT] = {0};
    bt_formed formed;
    bt_fuse_options options = bt_compiled_step_options(BT_TARGET_CUDA);
    options.launch_bytes = 64; // its values are small
    check_groups(&options, 1e-5, &formed, kinds);
    assert_int_equal(formed.half_turns % 4, 0); // q and k, forward and backward
    assert_true(formed.half_turns > 0);
    assert_true(formed.copied > 0);
    assert_true(kinds[BT_FUSED_COLUMN] > 0);
}

static void impossible_models_and_batches_are_refused(void **state)
{
    (void)state;
    llama l = {0};
    bt_tensor *loss = NULL;
    bt_params params;
    bt_llama model;
    open_llama(&l, BT_F32);
    const bt_model of = bt_llama_model(&l.model, &l.params);
    const bt_batch batch = {.count = 1, .items = {{"ids", l.ids}}};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "llama: the batch has no \"targets\"; it has: ids",
                 bt_model_loss(&l.f.context, &of, &batch, &loss));
    bt_llama_config wrong = config;
    wrong.kv_heads = 3;
    bt_params_init(&params, &l.f.context, BT_F32, BT_F32, 1);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "model.heads is 4, allowed from 1 and divisible by 3",
                 bt_llama_init(&params, &wrong, &model));
    bt_params_release(&params);
    close_llama(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float64_agrees),
        cmocka_unit_test(float32_agrees),
        cmocka_unit_test(its_step_fuses_and_keeps_its_bits),
        cmocka_unit_test(its_step_as_a_gpu_fuses_it_is_close),
        cmocka_unit_test(impossible_models_and_batches_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
