// Results so large that they go past the cache (kernels/cpu/stream.h): each must equal, bit for
// bit, what the same kernel makes of parts that are small.
#include <stdlib.h>
#include <string.h>

#include "framework/base/rng.h"
#include "kernels/cpu/stream.h"
#include "tests/support/kernel.h"
#include "tests/support/test.h"

enum { ROWS = 5600, COLS = 771, COUNT = ROWS * COLS, PART = 40 }; // 17 MB of f32; PART rows

typedef struct operands {
    float *x, *other, *large, *small; // [ROWS, COLS]
    float gamma[COLS], statistics[4][ROWS];
} operands;

static bt_device cpu;
static char workspace[32 << 20];

static float *drawn(uint64_t seed)
{
    float *values = malloc(COUNT * sizeof *values);
    assert_non_null(values);
    bt_rng_uniform_fill((bt_rng){seed, 1}, values, COUNT, -3, 3);
    return values;
}

static void run(bt_kernel_op op, bt_dtype dtype, const void *args)
{
    const bt_kernel *kernel = NULL;
    assert_int_equal(bt_kernel_find(&cpu, op, dtype, args, &kernel), BT_OK);
    const bt_launch launch = {.device = &cpu,
                              .workspace = workspace,
                              .workspace_bytes =
                                  kernel->workspace ? kernel->workspace(&cpu, args) : 0};
    assert_true(launch.workspace_bytes <= sizeof workspace);
    assert_int_equal(kernel->launch(&launch, args), BT_OK);
}

// Makes rows [row, row + rows) of `out` from the same rows of the operands.
typedef void (*caller)(operands *with, int64_t row, int64_t rows, float *out);

static void call_unary(operands *with, int64_t row, int64_t rows, float *out)
{
    const bt_unary_args args = {
        BT_UNARY_GELU, 0, with->x + row * COLS, out + row * COLS, rows * COLS, BT_F32, false};
    run(BT_KERNEL_UNARY, BT_F32, &args);
}

static void call_unary_backward(operands *with, int64_t row, int64_t rows, float *out)
{
    const bt_unary_backward_args args = {.function = BT_UNARY_GELU,
                                         .x = with->x + row * COLS,
                                         .dy = with->other + row * COLS,
                                         .dx = out + row * COLS,
                                         .count = rows * COLS,
                                         .dtype = BT_F32};
    run(BT_KERNEL_UNARY_BACKWARD, BT_F32, &args);
}

static void call_bias(operands *with, int64_t row, int64_t rows, float *out)
{
    const bt_binary_args args = {.function = BT_BINARY_ADD,
                                 .rank = 2,
                                 .shape = {rows, COLS},
                                 .a = with->x + row * COLS,
                                 .a_stride = {COLS, 1},
                                 .b = with->gamma,
                                 .b_stride = {0, 1},
                                 .y = out + row * COLS,
                                 .dtype = BT_F32};
    run(BT_KERNEL_BINARY, BT_F32, &args);
}

static void call_softmax(operands *with, int64_t row, int64_t rows, float *out)
{
    const bt_softmax_args args = {with->x + row * COLS, out + row * COLS, rows, COLS, BT_F32};
    run(BT_KERNEL_SOFTMAX, BT_F32, &args);
}

static void call_softmax_backward(operands *with, int64_t row, int64_t rows, float *out)
{
    const bt_softmax_backward_args args = {
        with->x + row * COLS, with->other + row * COLS, out + row * COLS, rows, COLS, BT_F32};
    run(BT_KERNEL_SOFTMAX_BACKWARD, BT_F32, &args);
}

static void layernorm(operands *with, int64_t row, int64_t rows, float *sum, float *y)
{
    const bt_layernorm_args args = {.x = with->x + row * COLS,
                                    .residual = sum ? with->other + row * COLS : NULL,
                                    .sum = sum,
                                    .gamma = with->gamma,
                                    .beta = with->gamma,
                                    .y = y,
                                    .mean = with->statistics[0] + row,
                                    .rstd = with->statistics[1] + row,
                                    .rows = rows,
                                    .cols = COLS,
                                    .epsilon = 1e-5,
                                    .dtype = BT_F32,
                                    .param_dtype = BT_F32};
    run(BT_KERNEL_LAYERNORM, BT_F32, &args);
}

static void call_layernorm(operands *with, int64_t row, int64_t rows, float *out)
{
    layernorm(with, row, rows, NULL, out + row * COLS);
}

// The normalised sum; the sum itself is written to its place in its own block.
static void call_residual(operands *with, int64_t row, int64_t rows, float *out)
{
    static float sum[COUNT];
    layernorm(with, row, rows, sum + row * COLS, out + row * COLS);
    for (int64_t i = row * COLS; i < (row + rows) * COLS; ++i) {
        if (sum[i] != with->x[i] + with->other[i]) {
            fail_msg("sum %lld is wrong", (long long)i);
        }
    }
}

static void call_layernorm_backward(operands *with, int64_t row, int64_t rows, float *out)
{
    const bt_layernorm_backward_args args = {.dy = with->x + row * COLS,
                                             .s = with->other + row * COLS,
                                             .gamma = with->gamma,
                                             .mean = with->statistics[0] + row,
                                             .rstd = with->statistics[1] + row,
                                             .dx = out + row * COLS,
                                             .dgamma = with->statistics[2],
                                             .rows = rows,
                                             .cols = COLS,
                                             .dtype = BT_F32,
                                             .param_dtype = BT_F32,
                                             .grad_dtype = BT_F32};
    run(BT_KERNEL_LAYERNORM_BACKWARD, BT_F32, &args);
}

static void call_cross_entropy_backward(operands *with, int64_t row, int64_t rows, float *out)
{
    static int32_t targets[ROWS];
    static const float one = 1;
    for (int64_t r = row; r < row + rows; ++r) {
        targets[r] = r % 5 == 0 ? -100 : (int32_t)(r % COLS);
    }
    const bt_cross_entropy_backward_args args = {.logits = with->x + row * COLS,
                                                 .targets = targets + row,
                                                 .lse = with->statistics[0] + row,
                                                 .inv_count = &one,
                                                 .dmean = &one,
                                                 .dlogits = out + row * COLS,
                                                 .rows = rows,
                                                 .vocab = COLS,
                                                 .logits_stride = COLS,
                                                 .ignore = -100,
                                                 .dtype = BT_F32};
    run(BT_KERNEL_CROSS_ENTROPY_BACKWARD, BT_F32, &args);
}

static void call_embedding(operands *with, int64_t row, int64_t rows, float *out)
{
    static int32_t ids[ROWS];
    for (int64_t r = row; r < row + rows; ++r) {
        ids[r] = (int32_t)(r * 37 % ROWS);
    }
    const bt_embedding_args args = {.ids = ids + row,
                                    .table = with->x,
                                    .y = out + row * COLS,
                                    .rows = rows,
                                    .cols = COLS,
                                    .vocab = ROWS,
                                    .positions = 1,
                                    .dtype = BT_F32};
    run(BT_KERNEL_EMBEDDING, BT_F32, &args);
}

static void copy(const void *x, bt_dtype x_dtype, void *y, bt_dtype y_dtype, int64_t count)
{
    const bt_copy_args args = {.rank = 1,
                               .shape = {count},
                               .x = x,
                               .x_stride = {1},
                               .x_dtype = x_dtype,
                               .y = y,
                               .y_stride = {1},
                               .y_dtype = y_dtype};
    run(BT_KERNEL_COPY, x_dtype, &args);
}

static void call_copy(operands *with, int64_t row, int64_t rows, float *out)
{
    copy(with->x + row * COLS, BT_F32, out + row * COLS, BT_F32, rows * COLS);
}

// The operand's bits as bf16, of which there are enough for as many floats.
static void call_widen(operands *with, int64_t row, int64_t rows, float *out)
{
    const uint16_t *halves = (const uint16_t *)(const void *)with->x;
    copy(halves + row * COLS, BT_BF16, out + row * COLS, BT_F32, rows * COLS);
}

static void each(caller call, const char *what)
{
    static operands with;
    with = (operands){drawn(1), drawn(2), drawn(3), drawn(4), {0}, {{0}}};
    for (int64_t i = 0; i < ROWS; ++i) {
        with.gamma[i % COLS] = 0.5F + (float)(i % 7);
        with.statistics[0][i] = (float)(i % 3);
        with.statistics[1][i] = 0.5F + (float)(i % 5);
    }
    call(&with, 0, ROWS, with.large);
    for (int64_t row = 0; row < ROWS; row += PART) {
        call(&with, row, PART, with.small);
    }
    const unsigned char *large = (const void *)with.large, *small = (const void *)with.small;
    if (memcmp(large, small, COUNT * sizeof(float)) != 0) {
        fail_msg("%s: past the cache, other bits", what);
    }
    free(with.x);
    free(with.other);
    free(with.large);
    free(with.small);
}

// Every block comes once, whatever their number.
static void order_is_a_permutation(void **state)
{
    (void)state;
    for (int64_t count = 0; count <= 300; ++count) {
        int met[300] = {0};
        for (int64_t i = 0; i < count; ++i) {
            const int64_t block = bt_stream_order(i, count);
            assert_true(block >= 0 && block < count);
            ++met[block];
        }
        for (int64_t i = 0; i < count; ++i) {
            assert_int_equal(met[i], 1);
        }
    }
    assert_true(bt_stream_order(1, 64) == 16 && bt_stream_order(4, 64) == 1);
}

static void same_bits(void **state)
{
    (void)state;
    each(call_unary, "gelu");
    each(call_unary_backward, "gelu backward");
    each(call_bias, "bias");
    each(call_softmax, "softmax");
    each(call_softmax_backward, "softmax backward");
    each(call_layernorm, "layernorm");
    each(call_residual, "layernorm with residual");
    each(call_layernorm_backward, "layernorm backward");
    each(call_cross_entropy_backward, "cross-entropy backward");
    each(call_embedding, "embedding");
    each(call_copy, "copy");
    each(call_widen, "bf16 to f32");
}

// f32 to bf16, and a transpose, against loops.
static void rounded_and_transposed(void **state)
{
    (void)state;
    float *x = drawn(5), *y = malloc(2 * COUNT * sizeof *y);
    assert_non_null(y);
    uint16_t *halves = (uint16_t *)(void *)y;
    // Twice the elements, since a bf16 has half the bytes.
    float *twice = malloc(2 * COUNT * sizeof *twice);
    assert_non_null(twice);
    memcpy(twice, x, COUNT * sizeof *x);
    memcpy(twice + COUNT, x, COUNT * sizeof *x);
    copy(twice, BT_F32, halves, BT_BF16, 2 * (int64_t)COUNT);
    for (int64_t i = 0; i < 2 * (int64_t)COUNT; ++i) {
        if (halves[i] != bt_f32_to_bf16(twice[i])) {
            fail_msg("bf16 %lld is wrong", (long long)i);
        }
    }
    const bt_copy_args args = {.rank = 2,
                               .shape = {COLS, ROWS},
                               .x = x,
                               .x_stride = {1, COLS},
                               .x_dtype = BT_F32,
                               .y = y,
                               .y_stride = {ROWS, 1},
                               .y_dtype = BT_F32};
    run(BT_KERNEL_COPY, BT_F32, &args);
    for (int64_t r = 0; r < COLS; ++r) {
        for (int64_t c = 0; c < ROWS; ++c) {
            if (y[r * ROWS + c] != x[c * COLS + r]) {
                fail_msg("element [%lld, %lld] is not transposed", (long long)r, (long long)c);
            }
        }
    }
    free(x);
    free(y);
    free(twice);
}

// A transpose of elements of two bytes, beside the cache and past it, against a loop.
static void halves_transposed(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{7, 9}, {8, 8}, {16, 67}, {75, 130}, {COLS, 2 * ROWS}};
    uint16_t *x = (uint16_t *)(void *)drawn(8), *y = (uint16_t *)(void *)drawn(9);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        const int64_t rows = shapes[i][0], cols = shapes[i][1];
        const bt_copy_args args = {.rank = 2,
                                   .shape = {rows, cols},
                                   .x = x,
                                   .x_stride = {1, rows},
                                   .x_dtype = BT_BF16,
                                   .y = y,
                                   .y_stride = {cols, 1},
                                   .y_dtype = BT_BF16};
        run(BT_KERNEL_COPY, BT_BF16, &args);
        for (int64_t at = 0; at < rows * cols; ++at) {
            if (y[at] != x[at / cols + at % cols * rows]) {
                fail_msg("%lld x %lld: element %lld is wrong", (long long)rows, (long long)cols,
                         (long long)at);
            }
        }
    }
    free(x);
    free(y);
}

// A large table whose rows met 0, 2 or 3 times, against a loop.
static void embedding_backward(void **state)
{
    (void)state;
    enum { MET = 2000 };
    float *dy = drawn(6), *got = drawn(7), *expected = calloc(COUNT, sizeof *expected);
    static int32_t ids[ROWS];
    assert_non_null(expected);
    for (int64_t r = 0; r < ROWS; ++r) {
        ids[r] = (int32_t)(r * 37 % MET) * 2;
        for (int64_t c = 0; c < COLS; ++c) {
            expected[ids[r] * COLS + c] += dy[r * COLS + c];
        }
    }
    const bt_embedding_backward_args args = {.ids = ids,
                                             .dy = dy,
                                             .dtable = got,
                                             .rows = ROWS,
                                             .cols = COLS,
                                             .vocab = ROWS,
                                             .positions = 1,
                                             .dtype = BT_F32,
                                             .grad_dtype = BT_F32};
    run(BT_KERNEL_EMBEDDING_BACKWARD, BT_F32, &args);
    const unsigned char *left = (const void *)got, *right = (const void *)expected;
    assert_memory_equal(left, right, COUNT * sizeof *got);
    free(dy);
    free(got);
    free(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_a_permutation), cmocka_unit_test(same_bits),
        cmocka_unit_test(rounded_and_transposed), cmocka_unit_test(halves_transposed),
        cmocka_unit_test(embedding_backward),
    };
    if (bt_device_open("cpu", 0, &cpu) != BT_OK) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bt_device_close(&cpu);
    return failed;
}
