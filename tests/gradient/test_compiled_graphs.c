// tests/gradient/test_compiled_graphs.c - random graphs of ops, compiled, against eager execution
//
//   gradient_compiled_graphs_test [graphs [first seed]]
// Forward and backward of random graphs of ops (graph.h: views, writes in place, casts, reuse,
// recomputation) are captured, simplified and fused as for a step on the CPU. Their groups are
// interpreted, in every GENERATED_EACH-th graph run as generated kernels, on the graph's own inputs
// and on inputs with NaN, infinities, negative zero and subnormal numbers. Both must make the bits
// of the captured calls, except for sign and payload of a NaN.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/compiler/capture.h"
#include "framework/compiler/form.h"
#include "framework/compiler/step.h"
#include "tests/gradient/graph.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

enum { GENERATED_EACH = 32 };

static int64_t graph_count = 600;
static uint64_t first_seed = 1;

typedef struct checker {
    fixture f;
    bt_code_cache cache;
    bt_compiler compiler;
    int64_t outputs, groups; // compared values; groups of all graphs
    int64_t nans, empty;     // values with a NaN; graphs with a value without elements
    bool spoil;              // the checker's own test
} checker;

// ---- capture ------------------------------------------------------------------------------------

static int missing; // gradients that no captured call made: after a backward that failed

static void mark_output(void *self, const bt_tensor *grad)
{
    missing += bt_dag_capture_output(self, grad) != BT_OK;
}

// False where the graph's backward is an error: such gradients are not written.
static bool capture(fixture *f, uint64_t seed, graph *g, bt_dag_capture *capture, bt_dag *dag)
{
    double *grads[GRAPH_NODES] = {NULL};
    graph_make(f, seed, g);
    if (g->recompute == BT_RECOMPUTE_BLOCK_OFFLOAD) { // is not captured
        g->recompute = BT_RECOMPUTE_BLOCK;
    }
    missing = 0;
    ASSERT_OK(bt_dag_capture_begin(&f->context, true, capture));
    graph_listening = (graph_listener){capture, mark_output};
    const bt_status status = graph_run(f, g, grads);
    graph_listening = (graph_listener){0};
    const bt_status captured = bt_dag_capture_end(capture, dag);
    for (int n = 0; n < g->count; ++n) {
        free(grads[n]);
    }
    if (status == BT_OK) {
        ASSERT_OK(captured);
        assert_int_equal(missing, 0);
    }
    return status == BT_OK;
}

// ---- values -------------------------------------------------------------------------------------

static double read_number(const bt_dag_value *value, const void *memory, int64_t i)
{
    return value->dtype == BT_F64   ? ((const double *)memory)[i]
           : value->dtype == BT_F32 ? (double)((const float *)memory)[i]
                                    : (double)bt_bf16_to_f32(((const uint16_t *)memory)[i]);
}

static void write_number(const bt_dag_value *value, void *memory, int64_t i, double number)
{
    if (value->dtype == BT_F64) {
        ((double *)memory)[i] = number;
    } else if (value->dtype == BT_F32) {
        ((float *)memory)[i] = (float)number;
    } else {
        ((uint16_t *)memory)[i] = bt_f32_to_bf16((float)number);
    }
}

static bool is_float(bt_dtype dtype)
{
    return dtype == BT_F64 || dtype == BT_F32 || dtype == BT_BF16;
}

// Every seventh number of the inputs, from `start` on, becomes a special one.
static void make_special(const bt_dag_value *value, void *memory, uint64_t start)
{
    static const double special[] = {
        (double)NAN,     -0.0,   (double)INFINITY, 1e-40, 0.0, -1.0, 1.0, -(double)INFINITY,
        (double)FLT_MAX, -1e-42, DBL_MIN / 16,     1e-300};
    const uint64_t count = sizeof special / sizeof *special;
    for (uint64_t i = start % 7; i < (uint64_t)bt_dag_value_count(value); i += 7) {
        write_number(value, memory, (int64_t)i, special[(start + i) % count]);
    }
}

// The memory of inputs; those of outputs are NULL. Release it with drop().
static void **inputs_of(const bt_dag_capture *capture, const bt_dag *dag, uint64_t special)
{
    void **memory = calloc((size_t)dag->value_count + 1, sizeof *memory);
    for (int i = 0; i < dag->value_count; ++i) {
        const bt_dag_value *value = &dag->values[i];
        const void *from = bt_dag_capture_input(capture, i);
        if (value->producer < 0 && from) {
            memory[i] = malloc((size_t)value->size_bytes + 1);
            memcpy(memory[i], from, (size_t)value->size_bytes);
            if (special && is_float(value->dtype)) {
                make_special(value, memory[i], special + (uint64_t)i);
            }
        }
    }
    return memory;
}

static void drop(fixture *f, const bt_dag *dag, void **memory)
{
    for (int i = 0; i < dag->value_count; ++i) {
        if (dag->values[i].producer < 0) {
            free(memory[i]);
        } else if (memory[i]) {
            bt_pool_free(f->context.pool, memory[i]);
        }
    }
    free(memory);
}

// True where both are the same bits, or NaN.
static bool same(checker *c, const bt_dag_value *value, const void *got, const void *expected)
{
    const int64_t count = bt_dag_value_count(value);
    const size_t size = bt_dtype_size(value->dtype);
    bool has_nan = false, equal = true;
    for (int64_t i = 0; i < count && equal; ++i) {
        const size_t at = (size_t)i * size;
        const bool nan = is_float(value->dtype) && isnan(read_number(value, expected, i));
        has_nan = has_nan || nan;
        equal = nan ? isnan(read_number(value, got, i))
                    : memcmp((const char *)got + at, (const char *)expected + at, size) == 0;
    }
    c->nans += has_nan;
    c->outputs += 1;
    return equal;
}

// ---- the comparison -----------------------------------------------------------------------------

static bool spoiled;

static bt_status interpret(void *self, bt_context *context, const bt_fused *group, void *const *at)
{
    bt_fused given = *group;
    for (int i = 0; spoiled && i < given.code_count; ++i) {
        given.code[i].op = given.code[i].op == BT_FUSED_MUL ? BT_FUSED_ADD : given.code[i].op;
    }
    return bt_fused_interpret(self, context, &given, at);
}

// The first output that differs; -1: none.
static int differs(checker *c, const bt_dag_capture *capture, const bt_dag *dag, uint64_t special,
                   bool generated)
{
    const bt_fuse_options options = bt_compiled_step_options(BT_TARGET_CPU);
    bt_dag formed_graph;
    bt_fusion_plan plan;
    bt_formed formed;
    int found = -1;
    void **expected = inputs_of(capture, dag, special);
    ASSERT_OK(bt_dag_run(&c->f.context, dag, expected));
    ASSERT_OK(bt_dag_copy(dag, &formed_graph));
    ASSERT_OK(bt_dag_form(&formed_graph, NULL, &options, &plan, &formed));
    void **got = inputs_of(capture, &formed_graph, special);
    spoiled = c->spoil;
    ASSERT_OK(bt_dag_run_fused(&c->f.context, &formed_graph, &plan,
                               generated ? bt_compiler_launch : interpret, &c->compiler, got));
    for (int i = 0; i < dag->value_count && found < 0; ++i) {
        if (dag->values[i].is_output && dag->values[i].producer >= 0) {
            assert_true(formed_graph.values[i].is_output);
            found = same(c, &dag->values[i], got[i], expected[i]) ? -1 : i;
        }
    }
    c->groups += plan.count;
    drop(&c->f, dag, expected);
    drop(&c->f, &formed_graph, got);
    bt_fusion_plan_release(&plan);
    bt_dag_release(&formed_graph);
    return found;
}

static bool has_empty(const bt_dag *dag)
{
    for (int i = 0; i < dag->value_count; ++i) {
        if (dag->values[i].size_bytes == 0) {
            return true;
        }
    }
    return false;
}

static bool check_seed(checker *c, uint64_t seed, bool generated)
{
    static graph g;
    bt_dag_capture held;
    bt_dag dag;
    bool good = true;
    if (capture(&c->f, seed, &g, &held, &dag)) {
        c->empty += has_empty(&dag);
        for (uint64_t special = 0; special < 3 && good; ++special) {
            const uint64_t start = special ? special * 5 + seed : 0;
            const int value = differs(c, &held, &dag, start, generated);
            good = value < 0;
            if (!good && !c->spoil) {
                bt_str text = {0};
                bt_dag_print(&dag, &text);
                (void)fprintf(stderr, "seed %llu, special %llu, %s: value %d has other bits\n%s",
                              (unsigned long long)seed, (unsigned long long)start,
                              generated ? "generated" : "interpreted", value, bt_str_text(&text));
                bt_str_release(&text);
            }
        }
    }
    bt_dag_release(&dag);
    bt_dag_capture_release(&held);
    return good;
}

static void open_checker(checker *c, bool spoil)
{
    *c = (checker){.spoil = spoil};
    fixture_open(&c->f, 0);
    ASSERT_OK(
        bt_code_cache_open(&bt_file_ops_system, test_scratch_path("code"), 1 << 26, &c->cache));
    bt_compiler_init(&c->compiler, &c->cache);
}

static void close_checker(checker *c)
{
    bt_compiler_release(&c->compiler);
    bt_code_cache_close(&c->cache);
    fixture_close(&c->f);
}

static void random_graphs_keep_their_bits(void **state)
{
    (void)state;
    checker c;
    const bool compiler = bt_compiler_available() == BT_OK;
    int wrong = 0;
    open_checker(&c, false);
    for (uint64_t seed = first_seed; seed < first_seed + (uint64_t)graph_count; ++seed) {
        wrong += !check_seed(&c, seed, compiler && seed % GENERATED_EACH == 0);
    }
    print_message("%lld groups, %lld values, %lld with a NaN, %lld graphs with empty ones, "
                  "%d kernels, %d graphs wrong\n",
                  (long long)c.groups, (long long)c.outputs, (long long)c.nans, (long long)c.empty,
                  c.compiler.count, wrong);
    assert_int_equal(wrong, 0);
    assert_int_equal(c.compiler.fallbacks, 0);
    assert_true(c.outputs > graph_count && c.groups > graph_count && c.nans > graph_count / 4);
    assert_true(graph_count < 100 || c.empty > graph_count / 50);
    close_checker(&c);
}

static void a_wrong_group_is_found(void **state)
{
    (void)state;
    checker c;
    int found = 0;
    open_checker(&c, true);
    for (uint64_t seed = 1; seed <= 40; ++seed) {
        found += !check_seed(&c, seed, false);
    }
    assert_true(found > 4);
    close_checker(&c);
}

int main(int argc, char **argv)
{
    graph_count = argc > 1 ? strtoll(argv[1], NULL, 10) : graph_count;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_keep_their_bits),
        cmocka_unit_test(a_wrong_group_is_found),
    };
    return cmocka_run_group_tests(tests, test_scratch_setup, test_scratch_teardown);
}
