// tests/harness/test_diff_mesh.c - diff-run where a side trains on the ranks of a mesh: values put
// together, bounds, and the rank of a value that is over its bound
#include <stdio.h>
#include <string.h>

#include "harness/diff/diff.h"
#include "harness/diff/gather.h"
#include "tests/support/faulty_device.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

static const faulty_plan none = {.kind = FAULTY_NONE};

// Sequences of 16 tokens, 2 micro-batches of 4 sequences for each data parallel rank.
static bt_train_plan plan_of(bt_mesh_degrees mesh, int64_t data)
{
    bt_train_plan plan = small_train_plan();
    plan.eval_every = plan.profile_steps = plan.warmup_timing_steps = 0;
    plan.model.heads = 4;
    plan.micro_batch = 4;
    plan.tokens_per_step = 2 * data * plan.micro_batch * plan.sequence;
    plan.parallel.mesh = mesh;
    plan.parallel.bucket_mb = 0.25;
    return plan;
}

static int ranks_of(const bt_train_plan *plan)
{
    const bt_diff_mesh mesh = bt_diff_mesh_of(plan);
    return bt_diff_mesh_ranks(&mesh);
}

static void make_sides(const bt_train_plan plans[2], bt_diff_side sides[2])
{
    const bool same = bt_diff_same_order(&plans[0], &plans[1]);
    for (int i = 0; i < 2; ++i) {
        sides[i] = (bt_diff_side){
            .lockstep = {.name = i ? "B" : "A", .plan = &plans[i], .ranks = ranks_of(&plans[i])},
            .arithmetic = {.precision = plans[i].precision, .other_order = !same}};
    }
}

static int64_t rows_of(const bt_diff_result *result, bt_train_value_kind kind)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < result->row_count; ++i) {
        rows += result->rows[i].kind == kind;
    }
    return rows;
}

static void expect_within(const bt_train_plan plans[2], int64_t steps, bt_diff_result *result)
{
    bt_diff_side sides[2];
    make_sides(plans, sides);
    ASSERT_OK(bt_diff_run(sides, steps, result));
    assert_int_equal(result->step_count, steps);
    if (result->first_over >= 0) {
        const bt_diff_row *row = &result->rows[result->first_over];
        const bt_mesh_degrees *mesh = &plans[1].parallel.mesh;
        fail_msg("%d x %d x %d: %s differs by %g, bound %g", mesh->data, mesh->tensor,
                 mesh->context, row->name, row->difference.l2_relative, row->bound);
    }
}

// Of a block's 6 activations and 6 gradients of activations all are there, with the embedding, the
// last norm, its gradient and the head's; the loss, where one rank has a micro-batch's whole mean.
// With rows in chunks that are whole sequences, one op computes attention and projection: a block
// then lacks the attention's result and its gradient.
static void every_mesh_is_within_the_bound_of_one_rank(void **state)
{
    (void)state;
    static const struct {
        bt_mesh_degrees mesh;
        bt_sharding sharding;
        bool sequence_parallel;
        int64_t shared_heads;
        bool row_chunks;
    } rows[] = {{{1, 2, 1}, BT_SHARDING_ZERO1, false, 0, false},
                {{1, 3, 1}, BT_SHARDING_ZERO1, false, 0, false},
                {{1, 2, 1}, BT_SHARDING_ZERO1, true, 0, false},
                {{1, 4, 1}, BT_SHARDING_ZERO1, true, 0, false},
                {{2, 1, 1}, BT_SHARDING_DDP, false, 0, false},
                {{2, 1, 1}, BT_SHARDING_ZERO3, false, 0, false},
                {{1, 1, 2}, BT_SHARDING_DDP, false, 0, false},
                {{1, 1, 4}, BT_SHARDING_ZERO1, false, 0, false},
                {{1, 1, 2}, BT_SHARDING_DDP, false, 2, false},
                {{1, 1, 4}, BT_SHARDING_DDP, false, 2, false},
                {{2, 2, 1}, BT_SHARDING_DDP, true, 0, false},
                {{1, 2, 2}, BT_SHARDING_ZERO1, false, 0, false},
                {{2, 2, 2}, BT_SHARDING_ZERO1, true, 0, false},
                {{1, 2, 1}, BT_SHARDING_ZERO1, true, 0, true},
                {{1, 4, 1}, BT_SHARDING_ZERO1, true, 0, true},
                {{2, 2, 2}, BT_SHARDING_ZERO1, true, 0, true}};
    enum { STEPS = 2, LAYERS = 2 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const bt_mesh_degrees mesh = rows[i].mesh;
        bt_train_plan plans[2] = {plan_of((bt_mesh_degrees){0}, mesh.data),
                                  plan_of(mesh, mesh.data)};
        bt_diff_result result;
        plans[1].parallel.sharding = rows[i].sharding;
        plans[1].parallel.sequence_parallel = rows[i].sequence_parallel;
        plans[1].parallel.shared_heads = rows[i].shared_heads;
        plans[1].parallel.row_chunks = rows[i].row_chunks;
        expect_within(plans, STEPS, &result);
        const int64_t batches = (int64_t)STEPS * 2 * mesh.data;
        const bool gradients = mesh.data * mesh.context == 1 || rows[i].sharding == BT_SHARDING_DDP;
        assert_true(rows_of(&result, BT_TRAIN_VALUE_INPUT) == 2 * batches);
        const bool one_op = rows[i].row_chunks && mesh.context == 1 && mesh.tensor == 2 &&
                            plans[1].micro_batch % mesh.tensor == 0;
        const int64_t values = one_op ? 5 : 6;
        assert_true(rows_of(&result, BT_TRAIN_VALUE_FORWARD) ==
                    (values * LAYERS + 2 + (mesh.context == 1)) * batches);
        assert_true(rows_of(&result, BT_TRAIN_VALUE_BACKWARD) >= (values * LAYERS + 2) * batches);
        assert_true(rows_of(&result, BT_TRAIN_VALUE_INITIAL) == 12 * LAYERS + 4);
        assert_true(rows_of(&result, BT_TRAIN_VALUE_GRADIENT) ==
                    (gradients ? (12 * LAYERS + 4) * STEPS : 0));
        assert_true(rows_of(&result, BT_TRAIN_VALUE_STATE) == 3 * (12 * LAYERS + 4) * STEPS);
        bt_diff_result_release(&result);
    }
}

static void two_meshes_are_compared(void **state)
{
    (void)state;
    bt_train_plan plans[2] = {plan_of((bt_mesh_degrees){1, 2, 1}, 2),
                              plan_of((bt_mesh_degrees){2, 1, 2}, 2)};
    bt_diff_result result;
    expect_within(plans, 2, &result);
    bt_diff_result_release(&result);
    // With virtual shards any number of data parallel ranks has the same bits.
    for (int i = 0; i < 2; ++i) {
        plans[i] = plan_of((bt_mesh_degrees){1 << i, 2, 1}, 2);
        plans[i].parallel.invariant = 4;
        plans[i].parallel.sharding = BT_SHARDING_ZERO1;
    }
    expect_within(plans, 2, &result);
    for (int64_t i = 0; i < result.row_count; ++i) {
        assert_true(result.rows[i].bound <= 0 && result.rows[i].difference.differing == 0);
    }
    bt_diff_result_release(&result);
}

static void bf16_is_within_its_bound(void **state)
{
    (void)state;
    bt_train_plan plans[2] = {plan_of((bt_mesh_degrees){0}, 1),
                              plan_of((bt_mesh_degrees){1, 2, 1}, 1)};
    bt_diff_result result;
    plans[0].precision = plans[1].precision = BT_PRECISION_BF16;
    plans[1].parallel.sequence_parallel = true;
    expect_within(plans, 2, &result);
    bt_diff_result_release(&result);
}

// One product of one rank's shard with flipped bits: of five heads the second rank has two, whose
// queries, keys and values are the only product with 3 x 2 x 16 columns.
static void the_rank_of_a_wrong_shard_is_named(void **state)
{
    (void)state;
    enum { SECOND_LAYER = 2, HEAD = 16 };
    bt_train_plan plans[2] = {plan_of((bt_mesh_degrees){0}, 1),
                              plan_of((bt_mesh_degrees){1, 2, 1}, 1)};
    bt_diff_side sides[2];
    bt_diff_result result;
    bt_str text = {0};
    const faulty_plan once = {
        .kind = FAULTY_FLIP, .op = BT_KERNEL_GEMM, .from = SECOND_LAYER, .last = SECOND_LAYER};
    for (int i = 0; i < 2; ++i) {
        plans[i].model.heads = 5;
        plans[i].model.width = 5 * HEAD;
    }
    make_sides(plans, sides);
    faulty_device_plan(&once);
    faulty_device_columns(INT64_C(3) * 2 * HEAD);
    ASSERT_OK(bt_diff_run(sides, 1, &result));
    faulty_device_plan(&none);
    faulty_device_columns(0);
    const bt_diff_row *first = &result.rows[result.first_over];
    assert_string_equal(first->name, "forward.0.h.1.attn.c_attn.linear");
    assert_string_equal(first->layer, "h.1");
    assert_int_equal(first->rank[0], -1);
    assert_int_equal(first->rank[1], 1);
    ASSERT_OK(bt_diff_text(sides, &result, 0, &text));
    assert_non_null(strstr(bt_str_text(&text), "forward.0.h.1.attn.c_attn.linear, step 0: "));
    assert_non_null(strstr(bt_str_text(&text), "; the worst is of rank 1 of B"));
    bt_str_release(&text);
    bt_diff_result_release(&result);
}

static const bt_diff_missing *find_missing(const bt_diff_result *result, const char *name)
{
    for (int64_t i = 0; i < result->missing_count; ++i) {
        if (strcmp(result->missing[i].name, name) == 0) {
            return &result->missing[i];
        }
    }
    return NULL;
}

static void expect_text(bt_str *text, const char *expected)
{
    if (!strstr(bt_str_text(text), expected)) {
        fail_msg("no \"%s\" in %s", expected, bt_str_text(text));
    }
}

// Values that only one side has are the same whichever side is A; all forms name them.
static void values_of_one_side_are_named(void **state)
{
    (void)state;
    bt_train_plan plans[2] = {plan_of((bt_mesh_degrees){0}, 1),
                              plan_of((bt_mesh_degrees){1, 1, 2}, 1)};
    bt_train_plan swapped[2];
    bt_diff_side sides[2];
    bt_diff_result results[2];
    bt_str text = {0}, json = {0}, page = {0};
    plans[0].micro_batch = plans[1].micro_batch = 1; // rows of a position are those of a token
    plans[0].tokens_per_step = plans[1].tokens_per_step = 2 * plans[0].sequence;
    plans[1].parallel.sharding = BT_SHARDING_ZERO1;
    swapped[0] = plans[1];
    swapped[1] = plans[0];
    expect_within(swapped, 1, &results[1]);
    expect_within(plans, 1, &results[0]);
    make_sides(plans, sides);
    assert_int_equal(results[0].row_count, results[1].row_count);
    assert_int_equal(results[0].missing_count, results[1].missing_count);
    assert_int_equal(results[0].missing_count, results[0].steps[0].missing);
    for (int64_t i = 0; i < results[0].missing_count; ++i) {
        const bt_diff_missing *one = &results[0].missing[i];
        const bt_diff_missing *other = find_missing(&results[1], one->name);
        assert_non_null(other);
        assert_int_equal(other->side, 1 - one->side);
        assert_ptr_equal(other->why, one->why);
    }
    static const struct {
        const char *name, *why;
    } rows[] = {{"gradient.wte.weight", "with ZeRO no rank has the whole gradient"},
                {"backward.0.h.0.ln_1.layernorm.in1", "each rank has a part of a parameter's"},
                {"forward.1.wte.linear_cross_entropy", "the loss of its own tokens"}};
    ASSERT_OK(bt_diff_text(sides, &results[0], 0, &text));
    ASSERT_OK(bt_diff_json(sides, &results[0], &json));
    ASSERT_OK(bt_diff_page(sides, &results[0], &page));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const bt_diff_missing *row = find_missing(&results[0], rows[i].name);
        expect_text(&json, rows[i].name);
        assert_non_null(row);
        assert_int_equal(row->side, 0); // the mesh has no other values
        assert_non_null(strstr(row->why, rows[i].why));
        expect_text(&page, rows[i].name);
        expect_text(&text, rows[i].why);
    }
    char summary[128];
    (void)snprintf(summary, sizeof summary,
                   "all %lld compared values are within their bounds; %lld were not compared",
                   (long long)results[0].row_count, (long long)results[0].missing_count);
    expect_text(&text, summary);
    expect_text(&page, summary);
    for (int i = 0; i < 2; ++i) {
        bt_diff_result_release(&results[i]);
    }
    bt_str_release(&text);
    bt_str_release(&json);
    bt_str_release(&page);
}

// An update whose bound were its full size would hide all of these.
static void another_optimizer_is_seen_on_another_mesh(void **state)
{
    (void)state;
    for (int i = 0; i < 3; ++i) {
        bt_train_plan plans[2] = {plan_of((bt_mesh_degrees){0}, 1),
                                  plan_of((bt_mesh_degrees){1, 2, 1}, 1)};
        bt_diff_side sides[2];
        bt_diff_result result;
        bt_train_optimizer *optimizer = &plans[1].optimizer;
        optimizer->lr *= i == 0 ? 1.001 : 1;
        optimizer->epsilon *= i == 1 ? 100 : 1;
        optimizer->weight_decay *= i == 2 ? 1.1 : 1;
        make_sides(plans, sides);
        ASSERT_OK(bt_diff_run(sides, 1, &result));
        assert_int_equal(result.wide, 0);
        assert_true(result.first_over >= 0);
        assert_string_equal(result.rows[result.first_over].name, "state.wte.weight");
        bt_diff_result_release(&result);
    }
}

static void a_rank_that_fails_ends_both_sides(void **state)
{
    (void)state;
    bt_train_plan plans[2] = {plan_of((bt_mesh_degrees){0}, 1),
                              plan_of((bt_mesh_degrees){1, 2, 1}, 1)};
    bt_diff_side sides[2];
    bt_diff_result result;
    plans[1].parallel.half_batches = true;
    make_sides(plans, sides);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "train.mesh.half_batches",
                 bt_diff_run(sides, 1, &result));
    bt_diff_result_release(&result);
    plans[1].parallel.half_batches = false;
    plans[1].memory_limit_bytes = 100000;
    make_sides(plans, sides);
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "B: ", bt_diff_run(sides, 1, &result));
    bt_diff_result_release(&result);
}

// ---- copies -------------------------------------------------------------------------------------

static bt_status tell(bt_diff_values *values, const char *name, float *data, int64_t columns,
                      bt_diff_share share)
{
    bt_diff_value *row = NULL;
    void *block = NULL;
    BT_TRY(bt_diff_values_next(values, &row));
    *row = (bt_diff_value){
        .name = name,
        .layer = "h.0",
        .op = "linear",
        .kind = BT_TRAIN_VALUE_FORWARD,
        .dtype = BT_F32,
        .shape = BT_SHAPE(2, columns),
        .count = 2 * columns,
        .place = {.share = share, .columns = true, .repeats = 1, .tokens = true, .scale = 1}};
    BT_TRY(bt_mem_alloc((size_t)row->count, sizeof *data, &block));
    memcpy(block, data, (size_t)row->count * sizeof *data);
    row->data = block;
    ++values->count;
    return BT_OK;
}

// Of two ranks: a copy that differs is named, parts lie side by side, and terms are added.
static void values_are_put_together(void **state)
{
    (void)state;
    const bt_diff_mesh mesh = {
        .degrees = {1, 2, 1}, .shared_heads = 1, .batch = 1, .tokens = 2, .micro_batches = 1};
    float copy[4] = {1, 2, 3, 4}, wrong[4] = {1, 2, 3, 5}, left[2] = {1, 3},
          right[4] = {2, 5, 4, 6};
    static const float parts[] = {1, 2, 5, 3, 4, 6}, sum[] = {2, 4, 6, 9};
    bt_diff_values ranks[2] = {{0}}, whole = {0};
    ASSERT_OK(tell(&ranks[0], "copy", copy, 2, BT_DIFF_REPLICATED));
    ASSERT_OK(tell(&ranks[1], "copy", wrong, 2, BT_DIFF_REPLICATED));
    ASSERT_OK(tell(&ranks[0], "parts", left, 1, BT_DIFF_SHARDED));
    ASSERT_OK(tell(&ranks[1], "parts", right, 2, BT_DIFF_SHARDED));
    ASSERT_OK(tell(&ranks[0], "sum", copy, 2, BT_DIFF_PARTIAL));
    ASSERT_OK(tell(&ranks[1], "sum", wrong, 2, BT_DIFF_PARTIAL));
    ASSERT_OK(bt_diff_gather(&mesh, ranks, &whole));
    assert_int_equal(whole.count, 4);
    assert_memory_equal(whole.items[0].data, copy, sizeof copy);
    assert_ptr_equal(whole.items[1].copy_of, &ranks[0].items[0]);
    assert_int_equal(bt_diff_rank_of(&whole.items[1], 0), 1);
    assert_memory_equal(whole.items[2].data, parts, sizeof parts);
    static const int made[] = {0, 1, 1, 0, 1, 1};
    for (int i = 0; i < 6; ++i) {
        assert_int_equal(bt_diff_rank_of(&whole.items[2], i), made[i]);
    }
    assert_memory_equal(whole.items[3].data, sum, sizeof sum);
    assert_int_equal(bt_diff_rank_of(&whole.items[3], 0), -1);
    assert_true(bt_diff_values_find(&whole, "copy") == &whole.items[0]);
    for (int rank = 0; rank < 2; ++rank) {
        bt_diff_values_release(&ranks[rank]);
    }
    bt_diff_values_release(&whole);
}

static int set_up(void **state)
{
    faulty_device_add_as("cpu");
    return small_corpus_write(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_put_together),
        cmocka_unit_test(every_mesh_is_within_the_bound_of_one_rank),
        cmocka_unit_test(two_meshes_are_compared),
        cmocka_unit_test(bf16_is_within_its_bound),
        cmocka_unit_test(the_rank_of_a_wrong_shard_is_named),
        cmocka_unit_test(values_of_one_side_are_named),
        cmocka_unit_test(another_optimizer_is_seen_on_another_mesh),
        cmocka_unit_test(a_rank_that_fails_ends_both_sides),
    };
    return cmocka_run_group_tests_name("harness.diff_mesh", tests, set_up, small_corpus_remove);
}
