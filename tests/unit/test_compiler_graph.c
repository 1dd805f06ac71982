// tests/unit/test_compiler_graph.c - graphs of kernel calls: building, text, running, groups
#include <stdlib.h>
#include <string.h>

#include "framework/compiler/group.h"
#include "tests/support/random_dag.h"
#include "tests/support/test.h"

static void print(const bt_dag *graph, bt_str *text)
{
    bt_dag_print(graph, text);
    ASSERT_OK(bt_str_status(text));
}

static void a_call_makes_values(void **state)
{
    (void)state;
    bt_dag g = {0};
    int x = -1, y = -1, z = -1, results[3];
    ASSERT_OK(bt_dag_input(&g, BT_F32, 6, "x", &x));
    ASSERT_OK(bt_dag_unary(&g, BT_UNARY_GELU, 0, x, &y));
    // dx += dy gelu'(x): reads what was there
    const bt_unary_backward_args args = {
        .function = BT_UNARY_GELU, .count = 6, .dtype = BT_F32, .accumulate = true};
    ASSERT_OK(bt_dag_call(&g, BT_KERNEL_UNARY_BACKWARD, &args,
                          (bt_dag_binding[]){{.field = "x", .value = x},
                                             {.field = "dy", .value = y},
                                             {.field = "dx", .value = y}},
                          3, results));
    z = results[2];
    assert_int_equal(results[0], -1);
    assert_int_equal(g.values[z].base, y);
    assert_int_equal(g.nodes[1].operands[2].value, y);
    ASSERT_OK(bt_dag_output(&g, z));
    g.nodes[1].phase = BT_DAG_BACKWARD;
    assert_true(bt_dag_is_saved(&g, x));
    assert_false(bt_dag_is_saved(&g, z));
    int uses[3];
    bt_dag_uses(&g, uses);
    assert_int_equal(uses[0], 2);
    assert_int_equal(uses[1], 2);
    assert_int_equal(uses[2], 1);
    ASSERT_OK(bt_dag_check(&g));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no operand \"w\"",
                 bt_dag_call(&g, BT_KERNEL_UNARY, &(bt_unary_args){.count = 6, .dtype = BT_F32},
                             &(bt_dag_binding){.field = "w", .value = 0}, 1, results));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "adds to its memory",
                 bt_dag_call(&g, BT_KERNEL_UNARY_BACKWARD, &args,
                             &(bt_dag_binding){.field = "dx", .value = -1}, 1, results));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "value 0 has 24",
                 bt_dag_call(&g, BT_KERNEL_UNARY, &(bt_unary_args){.count = 7, .dtype = BT_F32},
                             &(bt_dag_binding){.field = "x", .value = 0}, 1, results));
    bt_dag_release(&g);
}

static void the_text_is_as_documented(void **state)
{
    (void)state;
    static const char text[] =
        "value 0 f32 84 input \"x\"\n"
        "value 1 f32 84 output \"\"\n"
        "node unary forward \"\" x=0 y=>1 function=relu count=21 dtype=f32\n";
    bt_dag g = {0};
    bt_str printed = {0};
    int x = -1, y = -1;
    ASSERT_OK(bt_dag_input(&g, BT_F32, 21, "x", &x));
    ASSERT_OK(bt_dag_unary(&g, BT_UNARY_RELU, 0, x, &y));
    ASSERT_OK(bt_dag_output(&g, y));
    print(&g, &printed);
    assert_string_equal(bt_str_text(&printed), text);
    bt_dag_release(&g);
    static const struct {
        const char *text, *words;
    } wrong[] = {
        {"value 1 f32 4 \"\"\n", "line 1: expected the next value's number"},
        {"value 0 f31 4 \"\"\n", "line 1: expected a type"},
        {"value 0 f32 84 \"\"\nnode adamw forward \"\"\n", "line 2: expected an op"},
        {"value 0 f32 84 \"\"\nnode unary sideways \"\"\n", "line 2: expected a phase"},
        {"value 0 f32 84 \"\"\nnode unary forward \"\" x=1\n", "line 2: expected FIELD="},
        {"value 0 f32 84 \"\"\nnode unary forward \"\" x=0 count=2x\n", "line 2: expected a value"},
        {"value 0 f32 84 \"\"\nnode unary forward \"\" w=0\n", "line 2: expected an operand"},
        {"value 0 f32 84 \"\"\nnode unary forward \"\" x=0 y=>0 count=22 dtype=f32\n",
         "smaller than the operand"},
        {"value 0 f32 84 \"\"\nvalue 1 f32 84 \"\"\n"
         "node unary forward \"\" x=1 y=>0 count=21 dtype=f32\n"
         "node unary forward \"\" x=0 y=>1 count=21 dtype=f32\n",
         "is produced later"},
        {"value 0 f32 84 \"\"\nnode binary forward \"\" a=0 rank=9 dtype=f32\n",
         "line 2: expected a value of the attribute, got \"rank=9\""},
        {"value 0 f32 84 \"\"\nnode binary forward \"\" rank=90000 a=0\n", "rank=90000"},
        {"value 0 f32 84 \"\"\nnode unary forward \"\" y=>0 count=21 dtype=f32\n",
         "node 0, unary: operand \"x\" is missing"},
        {"value 0 f32 84 \"\"\nnode unary forward \"\" function=99 x=0\n", "function=99"},
        {"value 0 f32 84 \"\"\nnode unary forward \"\" dtype=99 x=0\n", "dtype=99"},
        {"value 0 f32 84 \"\"\nnode gemm forward \"\" epilogue=99 a=0\n", "epilogue=99"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, wrong[i].words, bt_dag_parse(wrong[i].text, &g));
        assert_null(g.values);
    }
    bt_str_release(&printed);
}

static void random_graphs_survive_text(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; ++seed) {
        bt_dag g, parsed;
        bt_str first = {0}, second = {0};
        random_dag_make(seed, &g);
        print(&g, &first);
        ASSERT_OK(bt_dag_parse(bt_str_text(&first), &parsed));
        print(&parsed, &second);
        assert_string_equal(bt_str_text(&first), bt_str_text(&second));
        bt_str_release(&first), bt_str_release(&second);
        bt_dag_release(&g), bt_dag_release(&parsed);
    }
}

static void mark_empty(const bt_dag *graph, bool reads[BT_KERNEL_OP_COUNT])
{
    for (int i = 0; i < graph->node_count; ++i) {
        const bt_dag_node *node = &graph->nodes[i];
        for (int k = 0; k < node->operand_count; ++k) {
            const bt_dag_operand *x = &node->operands[k];
            const int value = x->value >= 0 ? x->value : x->result;
            reads[node->op] = reads[node->op] || graph->values[value].size_bytes == 0;
        }
    }
}

// Every op of the generator is called without elements in some graphs, and few graphs have such
// calls.
static void some_random_graphs_have_empty_values(void **state)
{
    static const bt_kernel_op drawn[] = {
        BT_KERNEL_UNARY,      BT_KERNEL_UNARY_BACKWARD, BT_KERNEL_BINARY,    BT_KERNEL_COPY,
        BT_KERNEL_REDUCE_SUM, BT_KERNEL_SOFTMAX,        BT_KERNEL_LAYERNORM, BT_KERNEL_FILL,
        BT_KERNEL_GEMM,       BT_KERNEL_DROPOUT};
    bool all[BT_KERNEL_OP_COUNT] = {false};
    int graphs = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 300; ++seed) {
        bool own[BT_KERNEL_OP_COUNT] = {false}, any = false;
        bt_dag g;
        random_dag_make(seed, &g);
        mark_empty(&g, own);
        for (int i = 0; i < BT_KERNEL_OP_COUNT; ++i) {
            all[i] = all[i] || own[i];
            any = any || own[i];
        }
        graphs += any;
        bt_dag_release(&g);
    }
    for (size_t i = 0; i < sizeof drawn / sizeof drawn[0]; ++i) {
        if (!all[drawn[i]]) {
            fail_msg("no call of %s without elements", bt_kernel_op_name(drawn[i]));
        }
    }
    assert_in_range(graphs, 10, 60);
}

// By hand: y = (x + row) written over in its last element, x itself must stay.
static void a_run_writes_no_input(void **state)
{
    (void)state;
    fixture f;
    bt_dag g = {0};
    int x = -1, y = -1, z = -1;
    float given[4] = {1, 2, 3, 4};
    fixture_open(&f, 0);
    ASSERT_OK(bt_dag_input(&g, BT_F32, 4, "x", &x));
    ASSERT_OK(bt_dag_unary(&g, BT_UNARY_SQUARE, 0, x, &y));
    ASSERT_OK(bt_dag_call(&g, BT_KERNEL_FILL,
                          &(bt_fill_args){.count = 1, .dtype = BT_F32, .value = 7},
                          &(bt_dag_binding){.field = "y", .value = x, .offset_bytes = 12}, 1, &z));
    ASSERT_OK(bt_dag_output(&g, y));
    ASSERT_OK(bt_dag_output(&g, z));
    void *memory[3] = {given};
    ASSERT_OK(bt_dag_run(&f.context, &g, memory));
    assert_memory_equal(given, ((float[]){1, 2, 3, 4}), sizeof given);
    assert_memory_equal(memory[y], ((float[]){1, 4, 9, 16}), sizeof given);
    assert_memory_equal(memory[z], ((float[]){1, 2, 3, 7}), sizeof given);
    bt_pool_free(f.context.pool, memory[y]);
    bt_pool_free(f.context.pool, memory[z]);
    void *missing[3] = {NULL};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "input 0, \"x\", has no memory",
                 bt_dag_run(&f.context, &g, missing));
    bt_dag_release(&g);
    fixture_close(&f);
}

static bool has_gelu(void *self, const bt_dag *graph)
{
    (void)self;
    for (int i = 0; i < graph->node_count; ++i) {
        const bt_unary_args *args = graph->nodes[i].args;
        if (graph->nodes[i].op == BT_KERNEL_UNARY && args->function == BT_UNARY_GELU) {
            return true;
        }
    }
    return false;
}

static void a_failure_shrinks(void **state)
{
    (void)state;
    int seen = 0;
    for (uint64_t seed = 1; seed <= 200; ++seed) {
        bt_dag g;
        random_dag_make(seed, &g);
        if (g.node_count > 3 && has_gelu(NULL, &g)) {
            random_dag_shrink(has_gelu, NULL, &g);
            assert_int_equal(g.node_count, 1);
            ++seen;
        }
        bt_dag_release(&g);
    }
    assert_true(seen > 5);
}

// ---- groups -------------------------------------------------------------------------------------

static void a_group_is_built_and_checked(void **state)
{
    (void)state;
    bt_fused g;
    ASSERT_OK(bt_fused_init(&g, BT_FUSED_ROW, (int64_t[]){2, 3, 5}, 3));
    bt_fused_builder b = {&g, BT_OK};
    const int x = bt_fused_operand_add(&b, BT_F32, NULL);
    const int scale = bt_fused_operand_add(&b, BT_F32, (int64_t[]){0, 0, 1});
    const int sums = bt_fused_operand_add(&b, BT_F32, (int64_t[]){3, 1, 0});
    const int full = bt_fused_load(&b, x), column = bt_fused_load(&b, scale);
    const int value = bt_fused_binary(&b, BT_FUSED_MUL, full, column);
    const int wide = bt_fused_cast(&b, value, BT_F64);
    const int sum =
        bt_fused_reduce(&b, BT_FUSED_ROW_SUM, wide, -1, bt_fused_lanes(BT_F64, 0, BT_F64));
    bt_fused_store(&b, sums, bt_fused_cast(&b, sum, BT_F32));
    assert_int_equal(b.status, BT_OK);
    ASSERT_OK(bt_fused_check(&g));
    assert_int_equal(g.code[sum].extent, BT_FUSED_PER_ROW);
    assert_int_equal(g.operands[x].count, 30);
    assert_int_equal(bt_fused_bytes(&g), 30 * 4 + 5 * 4 + 6 * 4);
    bt_fused_collapse(&g); // [6, 5]: the reduced axis stays alone
    assert_int_equal(g.rank, 2);
    assert_int_equal(g.shape[0], 6);
    assert_int_equal(g.shape[1], 5);
    assert_int_equal(g.operands[sums].stride[0], 1);
    ASSERT_OK(bt_fused_check(&g));
    bt_str text = {0};
    bt_fused_print(&g, &text);
    assert_string_equal(bt_str_text(&text),
                        "group row shape=6,5\n"
                        "  operand 0 f32 read stride=5,1\n"
                        "  operand 1 f32 read stride=0,1\n"
                        "  operand 2 f32 written stride=1,0\n"
                        "  %0 = load f32 operand=0 per=full\n"
                        "  %1 = load f32 operand=1 per=column\n"
                        "  %2 = mul f32 %0 %1 per=full\n"
                        "  %3 = cast f64 %2 per=full\n"
                        "  %4 = row_sum f64 %3 lanes=32 block=0 part=f64 sum=f64 per=row\n"
                        "  %5 = cast f32 %4 per=row\n"
                        "  %6 = store f32 %5 operand=2 per=row\n");
    bt_str_release(&text);
}

static void wrong_groups_are_refused(void **state)
{
    (void)state;
    bt_fused g;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "axis 1 of a group is 0",
                 bt_fused_init(&g, BT_FUSED_ROW, (int64_t[]){2, 0}, 2));
    ASSERT_OK(bt_fused_init(&g, BT_FUSED_ELEMENTWISE, (int64_t[]){4, 4}, 2));
    bt_fused_builder b = {&g, BT_OK};
    const int x = bt_fused_load(&b, bt_fused_operand_add(&b, BT_F32, NULL));
    const int row = bt_fused_operand_add(&b, BT_F32, (int64_t[]){1, 0});
    bt_fused_store(&b, row, x);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "stores a value per full to operand 1", b.status);
    b.status = BT_OK;
    (void)bt_fused_binary(&b, BT_FUSED_ADD, x, bt_fused_const(&b, BT_F64, 1));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "add f32, uses 1, f64", b.status);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "stores nothing", bt_fused_check(&g));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_makes_values),
        cmocka_unit_test(the_text_is_as_documented),
        cmocka_unit_test(random_graphs_survive_text),
        cmocka_unit_test(some_random_graphs_have_empty_values),
        cmocka_unit_test(a_run_writes_no_input),
        cmocka_unit_test(a_failure_shrinks),
        cmocka_unit_test(a_group_is_built_and_checked),
        cmocka_unit_test(wrong_groups_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
