// tests/gradient/test_capture.c - captured graphs, run again, against the steps they were made of
//
//   gradient_capture_test [graphs [first seed]]
// captures forward and backward of random graphs of ops (graph.h) and of a small GPT-2, runs what
// was captured on the inputs as they were, and expects the gradients' bits.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/compiler/capture.h"
#include "framework/nn/gpt2.h"
#include "tests/gradient/graph.h"
#include "tests/support/test.h"

static int64_t graph_count = 1000;
static uint64_t first_seed = 1;

enum { TAKEN_MOST = 160 };

// Gradients as the step left them, and the values that they are.
typedef struct taken {
    bt_dag_capture capture;
    int count, missing; // missing: nothing captured made them
    int value[TAKEN_MOST];
    int64_t offset_bytes[TAKEN_MOST];
    size_t bytes[TAKEN_MOST];
    void *data[TAKEN_MOST]; // owned
} taken;

static void take(taken *t, const bt_tensor *tensor)
{
    assert_true(t->count < TAKEN_MOST);
    const int n = t->count++;
    t->bytes[n] = bt_tensor_bytes(tensor);
    t->data[n] = malloc(t->bytes[n] + 1);
    memcpy(t->data[n], bt_tensor_data(tensor), t->bytes[n]);
    t->value[n] = bt_dag_capture_value(&t->capture, tensor, &t->offset_bytes[n]);
    t->missing += bt_dag_capture_output(&t->capture, tensor) != BT_OK;
}

static void take_gradient(void *self, const bt_tensor *grad) { take(self, grad); }

// Runs the graph; returns how many of what was taken has other bits.
static int run_again(fixture *f, const taken *t, const bt_dag *g)
{
    void **memory = calloc((size_t)g->value_count + 1, sizeof *memory);
    int different = 0;
    for (int i = 0; i < g->value_count; ++i) {
        memory[i] = bt_dag_capture_input(&t->capture, i);
        assert_true((g->values[i].producer < 0) == (memory[i] != NULL));
    }
    ASSERT_OK(bt_dag_run(&f->context, g, memory));
    for (int n = 0; n < t->count; ++n) {
        const char *at = (const char *)memory[t->value[n]] + t->offset_bytes[n];
        different += memcmp(at, t->data[n], t->bytes[n]) != 0;
    }
    for (int i = 0; i < g->value_count; ++i) {
        if (g->values[i].is_output && g->values[i].producer >= 0) {
            bt_pool_free(f->context.pool, memory[i]);
        }
    }
    free(memory);
    return different;
}

static void release(taken *t, bt_dag *g)
{
    for (int n = 0; n < t->count; ++n) {
        free(t->data[n]);
    }
    bt_dag_release(g);
    bt_dag_capture_release(&t->capture);
}

// ---- random graphs of ops -----------------------------------------------------------------------

// The comparison for a captured random graph: its gradients' bits.
static void check_seed(fixture *f, uint64_t seed, int64_t *gradients)
{
    static graph g;
    double *grads[GRAPH_NODES];
    taken t = {.count = 0};
    bt_dag dag;
    graph_make(f, seed, &g);
    if (g.recompute == BT_RECOMPUTE_BLOCK_OFFLOAD) { // is not captured
        g.recompute = BT_RECOMPUTE_BLOCK;
    }
    ASSERT_OK(bt_dag_capture_begin(&f->context, true, &t.capture));
    graph_listening = (graph_listener){&t, take_gradient};
    const bt_status status = graph_run(f, &g, grads);
    graph_listening = (graph_listener){0};
    const bt_status captured = bt_dag_capture_end(&t.capture, &dag);
    if (status == BT_OK) { // a backward that fails leaves gradients that nothing has written
        ASSERT_OK(captured);
        assert_int_equal(t.missing, 0);
        if (run_again(f, &t, &dag) != 0) {
            graph_print(&g);
            fail_msg("seed %llu: other bits", (unsigned long long)seed);
        }
        *gradients += t.count;
    }
    for (int n = 0; n < g.count; ++n) {
        free(grads[n]);
    }
    release(&t, &dag);
}

static void random_graphs_keep_their_bits(void **state)
{
    (void)state;
    fixture f;
    int64_t gradients = 0;
    fixture_open(&f, 0);
    for (uint64_t seed = first_seed; seed < first_seed + (uint64_t)graph_count; ++seed) {
        check_seed(&f, seed, &gradients);
    }
    assert_true(gradients > graph_count / 2);
    fixture_close(&f);
}

// ---- GPT-2 --------------------------------------------------------------------------------------

typedef struct gpt {
    fixture f;
    bt_params params;
    bt_gpt2 model;
    bt_tensor *ids, *targets;
} gpt;

static void open_gpt(gpt *g)
{
    const bt_gpt2_config config = {.layers = 2, .heads = 2, .width = 16, .vocab = 40, .context = 8};
    fixture_open(&g->f, 0);
    bt_params_init(&g->params, &g->f.context, BT_F32, BT_F32, 7);
    ASSERT_OK(bt_gpt2_init(&g->params, &config, &g->model));
    g->ids = fixture_random(&g->f, BT_I32, BT_SHAPE(3, 8), 0, 40, 1);
    g->targets = fixture_random(&g->f, BT_I32, BT_SHAPE(3, 8), 0, 40, 2);
}

static void close_gpt(gpt *g)
{
    bt_tensor_release(g->ids), bt_tensor_release(g->targets);
    bt_gpt2_release(&g->model);
    bt_params_release(&g->params);
    fixture_close(&g->f);
}

// `steps` micro-batches, whose gradients add up.
static void step(gpt *g, taken *t, int steps, bt_dag *dag)
{
    bt_tensor *loss = NULL;
    ASSERT_OK(bt_dag_capture_begin(&g->f.context, true, &t->capture));
    for (int i = 0; i < steps; ++i) {
        ASSERT_OK(bt_gpt2_loss(&g->f.context, &g->model, g->ids, g->targets, &loss));
        if (i + 1 == steps) {
            take(t, loss);
        }
        ASSERT_OK(bt_backward(&g->f.context, loss, NULL));
        BT_TENSOR_RELEASE(loss);
    }
    for (int64_t i = 0; i < g->params.count; ++i) {
        take(t, g->params.items[i].value->grad);
    }
    ASSERT_OK(bt_dag_capture_end(&t->capture, dag));
    bt_params_clear_grads(&g->params);
}

static int count_phase(const bt_dag *dag, bt_dag_phase phase)
{
    int count = 0;
    for (int i = 0; i < dag->node_count; ++i) {
        count += dag->nodes[i].phase == phase;
    }
    return count;
}

static void a_training_step_keeps_its_bits(void **state)
{
    (void)state;
    static const bt_recompute_mode modes[] = {BT_RECOMPUTE_NONE, BT_RECOMPUTE_GELU_LN,
                                              BT_RECOMPUTE_BLOCK};
    for (int i = 0; i < 6; ++i) {
        gpt g = {0};
        taken t = {.count = 0};
        bt_dag dag;
        open_gpt(&g);
        g.model.recompute = modes[i % 3];
        step(&g, &t, 1 + i / 3, &dag);
        assert_int_equal(t.count, 1 + g.params.count);
        assert_int_equal(t.missing, 0);
        assert_int_equal(run_again(&g.f, &t, &dag), 0);
        assert_true(count_phase(&dag, BT_DAG_FORWARD) > 10);
        assert_true(count_phase(&dag, BT_DAG_BACKWARD) > 20);
        release(&t, &dag);
        close_gpt(&g);
    }
}

// The checker's own test, and what the text keeps.
static void another_input_makes_other_bits(void **state)
{
    (void)state;
    gpt g = {0};
    taken t = {.count = 0};
    bt_dag dag, parsed;
    bt_str text = {0};
    open_gpt(&g);
    step(&g, &t, 1, &dag);
    bt_dag_print(&dag, &text);
    ASSERT_OK(bt_dag_parse(bt_str_text(&text), &parsed));
    assert_int_equal(run_again(&g.f, &t, &parsed), 0);
    for (int i = 0; i < dag.value_count; ++i) {
        if (strcmp(dag.values[i].name, "wte.weight") == 0 && dag.values[i].producer < 0) {
            float *table = bt_dag_capture_input(&t.capture, i);
            for (int k = 0; k < 40 * 16; ++k) {
                table[k] += 0.25F;
            }
        }
    }
    assert_true(run_again(&g.f, &t, &dag) > 2);
    bt_str_release(&text);
    bt_dag_release(&parsed);
    release(&t, &dag);
    close_gpt(&g);
}

static void saved_activations_are_told(void **state)
{
    (void)state;
    gpt g = {0};
    taken t = {.count = 0};
    bt_dag dag;
    int saved = 0;
    open_gpt(&g);
    step(&g, &t, 1, &dag);
    for (int i = 0; i < dag.value_count; ++i) {
        saved += dag.values[i].producer >= 0 && bt_dag_is_saved(&dag, i);
    }
    assert_true(saved >= 2 * 6); // of each block at least what its products read
    release(&t, &dag);
    close_gpt(&g);
}

static void what_cannot_be_captured_is_an_error(void **state)
{
    (void)state;
    gpt g = {0};
    bt_dag_capture capture, second;
    bt_dag dag;
    bt_tensor *x = NULL, *y = NULL;
    open_gpt(&g);
    ASSERT_OK(bt_dag_capture_begin(&g.f.context, true, &capture));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "already has a listener",
                 bt_dag_capture_begin(&g.f.context, true, &second));
    ASSERT_OK(bt_tensor_create(&g.f.context, BT_F32, BT_SHAPE(4), "x", &x)); // never written
    memset(bt_tensor_data(x), 0, 16);
    ASSERT_OK(bt_gelu(&g.f.context, x, &y));
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "unary: operand \"x\" reads memory that no captured call",
                 bt_dag_capture_end(&capture, &dag));
    bt_dag_capture_release(&capture);
    bt_tensor_release(x), bt_tensor_release(y);
    close_gpt(&g);
}

int main(int argc, char **argv)
{
    graph_count = argc > 1 ? strtoll(argv[1], NULL, 10) : graph_count;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_step_keeps_its_bits),
        cmocka_unit_test(another_input_makes_other_bits),
        cmocka_unit_test(saved_activations_are_told),
        cmocka_unit_test(what_cannot_be_captured_is_an_error),
        cmocka_unit_test(random_graphs_keep_their_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
