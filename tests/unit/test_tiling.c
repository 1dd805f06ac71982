// tests/unit/test_tiling.c - tilings of generated CUDA kernels: what fits, how it is ranked, what
// is emitted, and that the model does not disagree with the emitter's measured rules
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/compiler/tiling.h"
#include "tests/support/test.h"
#include "tests/unit/compiled_group.h"

static const int archs[] = {80, 86, 87, 89, 90, 120};

// The list obeys the limits, is sorted, and has the rule's tiling once.
static void expect_valid(const bt_gpu_limits *m, const bt_tilings *all, const char *what)
{
    int rules = 0;
    for (int i = 0; i < all->count; ++i) {
        const bt_tiling *t = &all->items[i];
        rules += t->is_rule;
        assert_true(t->keeps_bits || !t->is_rule);
        assert_true(t->resident > 0 && t->resident <= m->blocks);
        assert_true(t->resident * t->threads <= m->threads && t->threads <= m->block_threads);
        assert_true(t->is_rule || !t->may_spill);
        assert_true(t->may_spill || t->resident * t->threads * t->registers <= m->registers);
        assert_true(t->may_spill || t->registers <= m->thread_registers);
        assert_true(t->shared_bytes <= m->block_shared);
        assert_true(t->resident * t->shared_bytes <= m->shared);
        assert_true(t->blocks > 0 && isfinite(t->time_us) && t->time_us > 2);
        assert_true(i == 0 || t->time_us >= all->items[i - 1].time_us);
    }
    if (rules != 1 || all->taken < 0) {
        fail_msg("%s: %d tilings of %d are the rule's, %d is taken", what, rules, all->count,
                 all->taken);
    }
}

static bt_fused group_of(int kind, bt_dtype dtype, int64_t rows, int64_t cols)
{
    const product_sizes sizes = {rows, 64, 64, cols, false, true, 0};
    switch (kind) {
    case 0:
        return group_softmax(dtype, rows, cols, BT_F32);
    case 1:
        return group_layernorm(dtype, rows, cols, 1e-5, BT_F32);
    case 2:
        return group_rmsnorm(dtype, rows, cols, 1e-5, BT_F32);
    case 3:
        return group_cross_entropy(dtype, rows, cols, BT_F32);
    case 4:
        return group_column(dtype, rows, cols, BT_F32);
    case 5:
        return group_unary(dtype, rows * cols, BT_UNARY_GELU, 0);
    default:
        return group_product(dtype, &sizes, false);
    }
}

enum { KINDS = 7 };

// Every group that has code has the rule's tiling among those that fit, on every target.
static void the_rule_fits(void **state)
{
    static const int64_t cols[] = {1,    31,   64,   256,  257,  768,  1000,
                                   1024, 1500, 2048, 3072, 4096, 8192, 16384};
    static const int64_t rows[] = {1, 7, 300, 65536};
    (void)state;
    for (int kind = 0; kind < KINDS; ++kind) {
        for (size_t c = 0; c < sizeof cols / sizeof *cols; ++c) {
            for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
                const bt_fused group =
                    group_of(kind, (c + r) % 2 ? BT_F32 : BT_BF16, rows[r], cols[c]);
                for (size_t a = 0; a < sizeof archs / sizeof *archs; ++a) {
                    const bt_gpu_limits *m = bt_gpu_limits_of(archs[a]);
                    bt_tilings all;
                    char what[96];
                    ASSERT_OK(bt_tilings_find(&group, m, &all));
                    (void)snprintf(what, sizeof what, "kind %d, %lld x %lld, sm_%d", kind,
                                   (long long)rows[r], (long long)cols[c], archs[a]);
                    expect_valid(m, &all, what);
                }
            }
        }
    }
}

// The shapes that framework/compiler/lab/README.md measured on an H200: the model keeps the rule.
static void measured_shapes_keep_their_tilings(void **state)
{
    static const struct {
        int kind;
        bt_dtype dtype;
        int64_t rows, cols;
    } measured[] = {
        {0, BT_F32, 8192, 1024},   {1, BT_F32, 8192, 1024},   {2, BT_F32, 8192, 1024},
        {3, BT_F32, 8192, 1024},   {5, BT_F32, 8192, 1024},   {0, BT_BF16, 16384, 2048},
        {2, BT_BF16, 16384, 2048}, {3, BT_BF16, 16384, 2048}, {5, BT_BF16, 16384, 2048},
        {4, BT_BF16, 16384, 2048}, {2, BT_BF16, 16384, 768},  {4, BT_BF16, 16384, 768},
        {2, BT_F32, 16384, 768},   {4, BT_F32, 16384, 768},   {5, BT_BF16, 16384, 768},
        {0, BT_F32, 24576, 128},   {0, BT_F32, 50176, 49},
    };
    const bt_gpu_limits *m = bt_gpu_limits_of(90);
    (void)state;
    for (size_t i = 0; i < sizeof measured / sizeof *measured; ++i) {
        bt_tilings all;
        const bt_fused group =
            group_of(measured[i].kind, measured[i].dtype, measured[i].rows, measured[i].cols);
        ASSERT_OK(bt_tilings_find(&group, m, &all));
        const bt_tiling *taken = &all.items[all.taken];
        if (!taken->is_rule) {
            fail_msg("shape %zu: the model prefers %d threads, %g us", i, taken->threads,
                     taken->time_us);
        }
    }
}

// More bytes, a slower memory or fewer multiprocessors take longer; few resident threads as well.
static void the_model_follows_its_terms(void **state)
{
    (void)state;
    bt_gpu_limits m = *bt_gpu_limits_of(90);
    bt_tilings base, all;
    const bt_fused group = group_softmax(BT_F32, 65536, 1024, BT_F32);
    const bt_fused half = group_softmax(BT_F32, 32768, 1024, BT_F32);
    ASSERT_OK(bt_tilings_find(&group, &m, &base));
    ASSERT_OK(bt_tilings_find(&half, &m, &all));
    assert_true(all.items[0].time_us < 0.6 * base.items[0].time_us);
    m.rate_gb_s /= 2;
    ASSERT_OK(bt_tilings_find(&group, &m, &all));
    assert_true(all.items[0].time_us > 1.8 * base.items[0].time_us);
    m = *bt_gpu_limits_of(90);
    m.multiprocessors = 1; // each wave waits for memory
    ASSERT_OK(bt_tilings_find(&group, &m, &all));
    assert_true(all.items[0].time_us > 10 * base.items[0].time_us);
    m = *bt_gpu_limits_of(90);
    m.thread_registers = 40; // wide rows per thread do not fit
    ASSERT_OK(bt_tilings_find(&group, &m, &all));
    assert_true(all.infeasible > base.infeasible && all.count < base.count);
    m.block_threads = 16; // nothing does
    ASSERT_OK(bt_tilings_find(&group, &m, &all));
    assert_int_equal(all.count, 0);
    assert_int_equal(all.taken, -1);
}

// A device that holds one block at a time prefers large blocks. A group of any number of rows keeps
// the rule's order of sums, the others take the best.
static void the_best_is_taken_where_it_may_be(void **state)
{
    static const struct {
        bt_dtype dtype;
        bool dynamic;
        int threads, rows;
    } expected[] = {
        {BT_F32, false, 256, 8},  // in place of 128 threads for a row
        {BT_F32, true, 128, 1},   // the rule's
        {BT_BF16, false, 256, 8}, // in place of 4 rows of 32 threads
        {BT_BF16, true, 256, 8},  // the same: a row has 32 threads as well
    };
    bt_gpu_limits m = *bt_gpu_limits_of(90);
    (void)state;
    m.blocks = 1;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; ++i) {
        bt_tilings all;
        bt_fused group = group_softmax(expected[i].dtype, 16384, 1024, BT_F32);
        group.dynamic_rows = expected[i].dynamic;
        ASSERT_OK(bt_tilings_find(&group, &m, &all));
        assert_int_equal(all.items[all.taken].threads, expected[i].threads);
        assert_int_equal(all.items[all.taken].rows, expected[i].rows);
        assert_true(all.items[all.taken].keeps_bits || !group.dynamic_rows);
    }
}

// A small gain is within the model's uncertainty: without a limit of blocks the best tilings differ
// by less, and the rule's is taken although another one is first.
static void a_small_gain_changes_nothing(void **state)
{
    (void)state;
    bt_tilings all;
    const bt_fused group = group_cross_entropy(BT_BF16, 16384, 1024, BT_F32);
    ASSERT_OK(bt_tilings_find(&group, bt_gpu_limits_of(90), &all));
    assert_true(all.taken > 0 && all.items[all.taken].is_rule);
    assert_true(all.items[0].time_us < all.items[all.taken].time_us);
}

// Every tiling of the list has code of its blocks; others are refused.
static void every_tiling_has_code(void **state)
{
    static const int64_t cols[] = {1, 100, 768, 1001, 4096};
    static const bt_cuda_tiling wrong[] = {{0, 1},   {48, 1},  {2048, 1}, {128, 0},
                                           {128, 2}, {128, 3}, {32, 16},  {-32, 1}};
    (void)state;
    for (int kind = 0; kind < KINDS; ++kind) {
        for (size_t c = 0; c < sizeof cols / sizeof *cols; ++c) {
            const bt_fused group = group_of(kind, c % 2 ? BT_F32 : BT_BF16, 300, cols[c]);
            bt_emitted_cuda emitted;
            bt_tilings all;
            ASSERT_OK(bt_tilings_find(&group, bt_gpu_limits_of(90), &all));
            for (int i = 0; i < all.count; ++i) {
                const bt_tiling *t = &all.items[i];
                const bt_cuda_tiling tiling = {t->threads, t->rows};
                ASSERT_OK(bt_emit_cuda(&group, &tiling, false, &emitted));
                assert_int_equal(emitted.threads, t->threads);
                assert_int_equal(bt_emit_blocks(&group, &emitted, group.shape[0]), t->blocks);
                bt_str_release(&emitted.text);
            }
            for (size_t i = 0; kind == 0 && i < sizeof wrong / sizeof *wrong; ++i) {
                ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "such a tiling",
                             bt_emit_cuda(&group, &wrong[i], false, &emitted));
                bt_str_release(&emitted.text);
            }
        }
    }
    const bt_fused column = group_column(BT_BF16, 300, 768, BT_F32);
    bt_emitted_cuda emitted;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "number of warps",
                 bt_emit_cuda(&column, &(bt_cuda_tiling){128, 4}, false, &emitted));
    bt_str_release(&emitted.text);
}

// A product of 200 large tiles: the rule wants 264 of them, and the model predicts that four times
// as many small ones take a second wave. The text that is emitted is that of the tiling that the
// list marks.
static void what_is_taken_is_emitted(void **state)
{
    static const product_sizes sizes = {200, 33, 33, 16, false, true, 0};
    const bt_fused odd = group_product(BT_BF16, &sizes, false);
    const bt_fused usual = group_softmax(BT_F32, 8192, 1024, BT_F32);
    bt_target target;
    bt_emitted_cuda rule, taken, given;
    bt_str text = {0};
    (void)state;
    ASSERT_OK(bt_target_cuda(90, &target));
    ASSERT_OK(bt_emit_cuda(&odd, NULL, true, &rule));
    ASSERT_OK(bt_tilings_emit(&target, &odd, &taken));
    ASSERT_OK(bt_emit_cuda(&odd, &(bt_cuda_tiling){128, 64}, true, &given));
    assert_int_equal(rule.tile_side, 32);
    assert_int_equal(taken.tile_side, 64);
    assert_true(taken.is_early);
    assert_string_equal(bt_str_text(&taken.text), bt_str_text(&given.text));
    assert_string_not_equal(bt_str_text(&taken.text), bt_str_text(&rule.text));
    ASSERT_OK(bt_tilings_print(&target, &odd, 0, &text));
    assert_non_null(strstr(bt_str_text(&text), "  taken\n"));
    assert_non_null(strstr(bt_str_text(&text), "  the rule's\n"));
    assert_non_null(strstr(bt_str_text(&text), "% less time than the rule's\n"));
    bt_str_release(&text);
    bt_str_release(&rule.text);
    bt_str_release(&taken.text);
    bt_str_release(&given.text);
    ASSERT_OK(bt_emit_cuda(&usual, NULL, true, &rule));
    ASSERT_OK(bt_tilings_emit(&target, &usual, &taken));
    assert_string_equal(bt_str_text(&taken.text), bt_str_text(&rule.text));
    bt_str_release(&rule.text);
    bt_str_release(&taken.text);
    const bt_fused refused = group_softmax(BT_F32, 8, 1024, BT_F64);
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "no CUDA code", bt_tilings_emit(&target, &refused, &taken));
    bt_str_release(&taken.text);
}

static void as_text(void **state)
{
    (void)state;
    bt_target target;
    bt_str text = {0};
    const bt_fused group = group_softmax(BT_F32, 8192, 1024, BT_F32);
    ASSERT_OK(bt_target_cuda(90, &target));
    ASSERT_OK(bt_tilings_print(&target, &group, 3, &text));
    assert_non_null(strstr(bt_str_text(&text), "tilings of group 3, row: "));
    assert_non_null(strstr(bt_str_text(&text), "  taken\n"));
    assert_non_null(strstr(bt_str_text(&text),
                           "the rule's; no tiling is predicted to be more than 10 % faster"));
    bt_str_clear(&text);
    const bt_fused refused = group_softmax(BT_F32, 8, 1024, BT_F64);
    ASSERT_OK(bt_tilings_print(&target, &refused, 0, &text));
    assert_non_null(strstr(bt_str_text(&text), "tilings of group 0: none: no CUDA code"));
    bt_str_clear(&text);
    ASSERT_OK(bt_target_host(&target));
    ASSERT_OK(bt_tilings_print(&target, &group, 0, &text));
    assert_string_equal(bt_str_text(&text), "");
    bt_str_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rule_fits),
        cmocka_unit_test(measured_shapes_keep_their_tilings),
        cmocka_unit_test(the_model_follows_its_terms),
        cmocka_unit_test(the_best_is_taken_where_it_may_be),
        cmocka_unit_test(a_small_gain_changes_nothing),
        cmocka_unit_test(every_tiling_has_code),
        cmocka_unit_test(what_is_taken_is_emitted),
        cmocka_unit_test(as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
