// tests/unit/test_compiler_product.c - which products are generated, and with which calls
#include <string.h>

#include "framework/compiler/fuse.h"
#include "framework/compiler/product.h"
#include "tests/support/test.h"

static bt_gemm_args product_of(int64_t m, int64_t n, int64_t k, int64_t batch)
{
    return (bt_gemm_args){.m = m,
                          .n = n,
                          .k = k,
                          .trans_b = true,
                          .lda = k,
                          .ldb = k,
                          .ldc = n,
                          .ldd = n,
                          .batch = batch,
                          .stride_a = m * k,
                          .stride_b = n * k,
                          .stride_c = m * n,
                          .stride_d = m * n,
                          .alpha = 1,
                          .ab_dtype = BT_BF16,
                          .d_dtype = BT_BF16};
}

// By multiply-adds of an entry and of all, k, and rows of 16 bytes.
static void products_have_classes(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n, k, batch;
        bt_product_class kind;
    } cases[] = {
        {64, 64, 64, 1, BT_PRODUCT_TINY},       {256, 256, 64, 1, BT_PRODUCT_TINY},
        {64, 64, 512, 1, BT_PRODUCT_SMALL},     {256, 256, 256, 1, BT_PRODUCT_SMALL},
        {256, 256, 64, 192, BT_PRODUCT_SMALL},  {512, 512, 256, 1, BT_PRODUCT_SMALL},
        {520, 512, 256, 1, BT_PRODUCT_LARGE},   {64, 64, 4096, 1, BT_PRODUCT_DEEP},
        {256, 256, 64, 1024, BT_PRODUCT_LARGE}, {16384, 768, 768, 1, BT_PRODUCT_LARGE},
        {300, 301, 302, 1, BT_PRODUCT_TINY},    {1000, 1001, 66, 1, BT_PRODUCT_SMALL},
        {255, 257, 65, 48, BT_PRODUCT_LARGE},   {8192, 50257, 768, 1, BT_PRODUCT_LARGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        const bt_gemm_args args = product_of(cases[i].m, cases[i].n, cases[i].k, cases[i].batch);
        assert_int_equal(bt_product_classify(&args), cases[i].kind);
    }
    bt_gemm_args padded = product_of(256, 256, 256, 1);
    padded.lda = 260; // 520 bytes
    assert_int_equal(bt_product_classify(&padded), BT_PRODUCT_TINY);
    bt_str text = {0};
    const bt_gemm_args heads = product_of(64, 48, 40, 48);
    bt_product_print(&heads, &text); // 2 64 48 40 flops, (64 40 + 48 40 + 64 48) 2 bytes
    assert_string_equal(bt_str_text(&text), "64x48x40 batch 48 bf16, 16.3 flops per byte: small: "
                                            "generated with the calls after it");
    bt_str_release(&text);
}

// relu(A B^T + bias + C), C and bias in the product's own epilogue; and the kinds of its groups.
static void small_products_take_the_calls_after_them(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n, k;
        int groups; // 1: with the relu; 0: BluBLAS
    } cases[] = {{256, 128, 256, 1}, {512, 512, 512, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        bt_gemm_args args = product_of(cases[i].m, cases[i].n, cases[i].k, 1);
        args.epilogue = BT_EPILOGUE_BIAS;
        args.beta = 1;
        args.alpha = 0.5;
        bt_dag g = {0};
        bt_fusion_plan plan;
        int v[4], results[5], y;
        const int64_t counts[] = {args.m * args.k, args.n * args.k, args.m * args.n, args.n};
        for (int k = 0; k < 4; ++k) {
            ASSERT_OK(bt_dag_input(&g, BT_BF16, counts[k], "input", &v[k]));
        }
        ASSERT_OK(bt_dag_call(&g, BT_KERNEL_GEMM, &args,
                              (bt_dag_binding[]){{.field = "a", .value = v[0]},
                                                 {.field = "b", .value = v[1]},
                                                 {.field = "c", .value = v[2]},
                                                 {.field = "d", .value = -1},
                                                 {.field = "bias", .value = v[3]}},
                              5, results));
        ASSERT_OK(bt_dag_unary(&g, BT_UNARY_RELU, 0, results[3], &y));
        ASSERT_OK(bt_dag_output(&g, y));
        const bt_fuse_options cuda = {.products = true, .any_order = true};
        ASSERT_OK(bt_dag_fuse(&g, &cuda, &plan));
        assert_int_equal(plan.count, cases[i].groups);
        assert_non_null(strstr(bt_str_text(&plan.decisions),
                               cases[i].groups ? "flops per byte: small: generated"
                                               : "flops per byte: large: BluBLAS"));
        if (plan.count) {
            assert_int_equal(plan.groups[0].group->kind, BT_FUSED_PRODUCT);
            assert_int_equal(plan.groups[0].node_count, 2);
            assert_int_equal(plan.groups[0].group->operand_count, 5);
            // a, b, bias, C and y, each moved once
            assert_int_equal(plan.groups[0].bytes_after,
                             2 * (counts[0] + counts[1] + counts[3] + 2 * counts[2]));
        } else {
            assert_non_null(strstr(bt_str_text(&plan.decisions), "BluBLAS computes such products"));
        }
        bt_fusion_plan_release(&plan);
        bt_dag_release(&g);
    }
}

// A tiny product is its own group; a small one is not: BluBLAS is as fast there.
static void tiny_products_are_generated_alone(void **state)
{
    (void)state;
    for (int tiny = 0; tiny < 2; ++tiny) {
        const bt_gemm_args args = product_of(128, 128, tiny ? 48 : 256, 2);
        bt_dag g = {0};
        bt_fusion_plan plan;
        int a, b, results[3];
        ASSERT_OK(bt_dag_input(&g, BT_BF16, 2 * args.m * args.k, "a", &a));
        ASSERT_OK(bt_dag_input(&g, BT_BF16, 2 * args.n * args.k, "b", &b));
        ASSERT_OK(bt_dag_call(&g, BT_KERNEL_GEMM, &args,
                              (bt_dag_binding[]){{.field = "a", .value = a},
                                                 {.field = "b", .value = b},
                                                 {.field = "d", .value = -1}},
                              3, results));
        ASSERT_OK(bt_dag_output(&g, results[2]));
        ASSERT_OK(bt_dag_fuse(&g, &(bt_fuse_options){.products = true}, &plan));
        assert_int_equal(plan.count, tiny);
        bt_fusion_plan_release(&plan);
        const unsigned others = 1U << BT_FUSED_ELEMENTWISE;
        ASSERT_OK(bt_dag_fuse(&g, &(bt_fuse_options){.products = true, .kinds = others}, &plan));
        assert_int_equal(plan.count, 0);
        bt_fusion_plan_release(&plan);
        bt_dag_release(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_have_classes),
        cmocka_unit_test(small_products_take_the_calls_after_them),
        cmocka_unit_test(tiny_products_are_generated_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
