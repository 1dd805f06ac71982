// framework/compiler/lab/speed.c - speed of generated kernels and fused chains against the CPU
// kernels
//
//   lab_compiler_speed    a table: milliseconds, the ratio, and how long compiling took
// Medians of interleaved calls on memory that exceeds the caches.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/clock.h"
#include "tests/support/test.h"
#include "tests/unit/compiled_group.h"

enum { ROWS = 8192, COLS = 1024, CALLS = 9, CHAIN_MOST = 8 };

typedef struct call { // of a kernel
    bt_kernel_op op;
    const void *args;
} call;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *times)
{
    qsort(times, CALLS, sizeof *times, by_value);
    return times[CALLS / 2];
}

static double seconds(void) { return (double)bt_clock_ns() * 1e-9; }

static void compare(const char *name, const call *eager, int calls, bt_dtype dtype,
                    const bt_fused *group, void *const *operands)
{
    bt_compiled *compiled = NULL;
    double own[CALLS], made[CALLS];
    const double start = seconds();
    ASSERT_OK(bt_compile(group, NULL, &compiled));
    const double compile_s = seconds() - start;
    for (int n = -2; n < CALLS; ++n) {
        double at = seconds();
        for (int i = 0; i < calls; ++i) {
            ASSERT_OK(test_kernel_status(eager[i].op, dtype, eager[i].args));
        }
        own[n < 0 ? 0 : n] = seconds() - at;
        at = seconds();
        ASSERT_OK(bt_compiled_run(compiled, NULL, group->shape[0], operands, NULL));
        made[n < 0 ? 0 : n] = seconds() - at;
    }
    const double a = median(own), b = median(made);
    printf("| %s | %.2f | %.2f | %.2f | %.0f |\n", name, a * 1e3, b * 1e3, a / b, compile_s * 1e3);
    bt_compiled_release(compiled);
}

// n operands of COUNT floats, each 64-byte aligned.
static float *memory(int64_t count, double low, double high)
{
    float *block = aligned_alloc(64, (size_t)(count + 15) / 16 * 64);
    assert_non_null(block);
    for (int64_t i = 0; i < count; ++i) {
        block[i] = (float)(low + (high - low) * (double)(i * 2654435761 % 20011) / 20011);
    }
    return block;
}

static void rows_table(void)
{
    const int64_t count = (int64_t)ROWS * COLS;
    float *x = memory(count, -3, 3), *y = memory(count, 0, 1), *r = memory(count, -1, 1);
    float *s = memory(count, 0, 1), *gamma = memory(COLS, 0.5, 1.5), *beta = memory(COLS, -1, 1);
    float *mean = memory(ROWS, 0, 1), *rstd = memory(ROWS, 0, 1);
    const bt_softmax_args softmax = {.x = x, .y = y, .rows = ROWS, .cols = COLS, .dtype = BT_F32};
    bt_fused group = group_softmax(BT_F32, ROWS, COLS, BT_F64);
    compare("softmax", &(call){BT_KERNEL_SOFTMAX, &softmax}, 1, BT_F32, &group, (void *[]){x, y});
    const bt_layernorm_args norm = {.x = x,
                                    .gamma = gamma,
                                    .beta = beta,
                                    .y = y,
                                    .mean = mean,
                                    .rstd = rstd,
                                    .rows = ROWS,
                                    .cols = COLS,
                                    .epsilon = 1e-5,
                                    .dtype = BT_F32,
                                    .param_dtype = BT_F32};
    group = group_layernorm(BT_F32, ROWS, COLS, 1e-5, BT_F64);
    compare("LayerNorm", &(call){BT_KERNEL_LAYERNORM, &norm}, 1, BT_F32, &group,
            (void *[]){x, gamma, beta, y, mean, rstd});
    bt_layernorm_args added = norm;
    added.residual = r;
    added.sum = s;
    group = group_rmsnorm(BT_F32, ROWS, COLS, 1e-5, BT_F64);
    compare("residual + RMSNorm; eager: residual + LayerNorm", &(call){BT_KERNEL_LAYERNORM, &added},
            1, BT_F32, &group, (void *[]){x, r, gamma, s, y});
    int32_t *targets = calloc(ROWS, sizeof *targets);
    int64_t bad = 0;
    assert_non_null(targets);
    const bt_cross_entropy_args loss = {.logits = x,
                                        .targets = targets,
                                        .loss = mean,
                                        .lse = rstd,
                                        .mean = gamma,
                                        .inv_count = beta,
                                        .bad_row = &bad,
                                        .rows = ROWS,
                                        .vocab = COLS,
                                        .logits_stride = COLS,
                                        .ignore = -100,
                                        .dtype = BT_F32};
    group = group_cross_entropy(BT_F32, ROWS, COLS, BT_F64);
    compare("cross-entropy", &(call){BT_KERNEL_CROSS_ENTROPY, &loss}, 1, BT_F32, &group,
            (void *[]){x, targets, mean});
    const bt_unary_args gelu = {
        .function = BT_UNARY_GELU, .x = x, .y = y, .count = count, .dtype = BT_F32};
    bt_fused_builder b = {&group, BT_OK};
    ASSERT_OK(bt_fused_init(&group, BT_FUSED_ELEMENTWISE, &count, 1));
    const int in = bt_fused_load(&b, bt_fused_operand_add(&b, BT_F32, NULL));
    bt_fused_store(&b, bt_fused_operand_add(&b, BT_F32, NULL),
                   bt_fused_unary(&b, BT_UNARY_GELU, 0, in));
    ASSERT_OK(b.status);
    compare("GELU", &(call){BT_KERNEL_UNARY, &gelu}, 1, BT_F32, &group, (void *[]){x, y});
    free(x), free(y), free(r), free(s), free(gamma), free(beta), free(mean), free(rstd);
    free(targets);
}

static bt_binary_args binary(bt_binary function, const float *a, const float *b, float *y)
{
    return (bt_binary_args){.function = function,
                            .rank = 1,
                            .shape = {(int64_t)ROWS * COLS},
                            .a = a,
                            .a_stride = {1},
                            .b = b,
                            .b_stride = {1},
                            .y = y,
                            .dtype = BT_F32};
}

// y = silu(a) b, and y = gelu(a + b) c - a: chains that a user may compose from our ops.
static void chains_table(void)
{
    const int64_t count = (int64_t)ROWS * COLS;
    float *a = memory(count, -3, 3), *b = memory(count, -1, 1), *c = memory(count, 0, 1);
    float *t = memory(count, 0, 1), *u = memory(count, 0, 1), *y = memory(count, 0, 1);
    bt_fused group;
    bt_fused_builder g = {&group, BT_OK};
    const bt_unary_args silu = {
        .function = BT_UNARY_SILU, .x = a, .y = t, .count = count, .dtype = BT_F32};
    const bt_binary_args gate = binary(BT_BINARY_MUL, t, b, y);
    ASSERT_OK(bt_fused_init(&group, BT_FUSED_ELEMENTWISE, &count, 1));
    int in[3];
    for (int i = 0; i < 2; ++i) {
        in[i] = bt_fused_load(&g, bt_fused_operand_add(&g, BT_F32, NULL));
    }
    bt_fused_store(
        &g, bt_fused_operand_add(&g, BT_F32, NULL),
        bt_fused_binary(&g, BT_FUSED_MUL, bt_fused_unary(&g, BT_UNARY_SILU, 0, in[0]), in[1]));
    ASSERT_OK(g.status);
    const call gated[] = {{BT_KERNEL_UNARY, &silu}, {BT_KERNEL_BINARY, &gate}};
    compare("chain of 2: silu(a) b", gated, 2, BT_F32, &group, (void *[]){a, b, y});

    const bt_binary_args add = binary(BT_BINARY_ADD, a, b, t),
                         times = binary(BT_BINARY_MUL, u, c, t);
    const bt_binary_args minus = binary(BT_BINARY_SUB, t, a, y);
    const bt_unary_args gelu = {
        .function = BT_UNARY_GELU, .x = t, .y = u, .count = count, .dtype = BT_F32};
    ASSERT_OK(bt_fused_init(&group, BT_FUSED_ELEMENTWISE, &count, 1));
    for (int i = 0; i < 3; ++i) {
        in[i] = bt_fused_load(&g, bt_fused_operand_add(&g, BT_F32, NULL));
    }
    const int sum = bt_fused_binary(&g, BT_FUSED_ADD, in[0], in[1]);
    const int product =
        bt_fused_binary(&g, BT_FUSED_MUL, bt_fused_unary(&g, BT_UNARY_GELU, 0, sum), in[2]);
    bt_fused_store(&g, bt_fused_operand_add(&g, BT_F32, NULL),
                   bt_fused_binary(&g, BT_FUSED_SUB, product, in[0]));
    ASSERT_OK(g.status);
    const call chain[] = {{BT_KERNEL_BINARY, &add},
                          {BT_KERNEL_UNARY, &gelu},
                          {BT_KERNEL_BINARY, &times},
                          {BT_KERNEL_BINARY, &minus}};
    compare("chain of 4: gelu(a + b) c - a", chain, 4, BT_F32, &group, (void *[]){a, b, c, y});
    free(a), free(b), free(c), free(t), free(u), free(y);
}

int main(void)
{
    if (bt_compiler_available() != BT_OK) {
        return test_skip(bt_error_message());
    }
    printf("| f32 %dx%d | eager ms | generated ms | ratio | compile ms |\n|---|---|---|---|---|\n",
           ROWS, COLS);
    rows_table();
    chains_table();
    return 0;
}
