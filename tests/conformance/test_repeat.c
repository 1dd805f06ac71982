// The same bits again and again at the shapes of a training step, where blocks of one launch run
// in another order each time: products with long sums, column sums, embedding, LayerNorm, loss.
#include <stdlib.h>
#include <string.h>

#include "framework/base/rng.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

enum { REPEATS = 12, ROWS = 8192, COLS = 768, HIDDEN = 3072, VOCAB = 5056, OUTPUTS = 3 };

typedef struct span {
    void *near;
    size_t size_bytes;
} span;

static void *blocks[32];
static int block_count;

static void *take(size_t size_bytes)
{
    bt_device *device = test_device();
    assert_true(block_count < 32);
    ASSERT_OK(device->backend->memory_alloc(device, size_bytes, &blocks[block_count]));
    return blocks[block_count++];
}

static void release(void)
{
    while (block_count > 0) {
        test_device()->backend->memory_free(test_device(), blocks[--block_count]);
    }
}

// bf16 in [-1, 1].
static void *take_random(int64_t count, uint64_t stream)
{
    bt_device *device = test_device();
    uint16_t *host = malloc((size_t)count * sizeof *host);
    void *near = take((size_t)count * sizeof *host);
    assert_non_null(host);
    for (int64_t i = 0; i < count; i += 4) {
        uint32_t words[4];
        bt_rng_block((bt_rng){11, stream}, (uint64_t)i, words);
        for (int64_t j = i; j < count && j < i + 4; ++j) {
            host[j] = bt_f32_to_bf16((float)(int32_t)words[j - i] * 0x1p-31F);
        }
    }
    ASSERT_OK(device->backend->copy(device, near, host, (size_t)count * sizeof *host,
                                    BT_COPY_HOST_TO_DEVICE, NULL));
    ASSERT_OK(device->backend->stream_synchronize(device, NULL));
    free(host);
    return near;
}

static int32_t *take_ids(int64_t count)
{
    bt_device *device = test_device();
    int32_t *host = malloc((size_t)count * sizeof *host);
    int32_t *near = take((size_t)count * sizeof *host);
    assert_non_null(host);
    for (int64_t i = 0; i < count; ++i) {
        double u = (double)bt_rng_uniform((bt_rng){12, 1}, (uint64_t)i);
        host[i] = (int32_t)(VOCAB * u * u * u);
    }
    ASSERT_OK(device->backend->copy(device, near, host, (size_t)count * sizeof *host,
                                    BT_COPY_HOST_TO_DEVICE, NULL));
    ASSERT_OK(device->backend->stream_synchronize(device, NULL));
    free(host);
    return near;
}

// Poisons the outputs and the workspace before each run; outputs that accumulate start at zero.
static void repeat(bt_kernel_op op, const void *args, const span *outputs, int count, uint8_t start)
{
    bt_device *device = test_device();
    const bt_backend *backend = device->backend;
    const bt_kernel *row = NULL;
    bt_launch launch = {.device = device};
    unsigned char *first[OUTPUTS] = {0};
    ASSERT_OK(bt_kernel_find(device, op, BT_BF16, args, &row));
    launch.workspace_bytes = row->workspace ? row->workspace(device, args) : 0;
    launch.workspace = take(launch.workspace_bytes + 1);
    for (int run = 0; run < REPEATS; ++run) {
        ASSERT_OK(backend->fill(device, launch.workspace, 0xff, launch.workspace_bytes, NULL));
        for (int i = 0; i < count; ++i) {
            ASSERT_OK(backend->fill(device, outputs[i].near, start, outputs[i].size_bytes, NULL));
        }
        ASSERT_OK(row->launch(&launch, args));
        for (int i = 0; i < count; ++i) {
            unsigned char *now = malloc(outputs[i].size_bytes);
            assert_non_null(now);
            ASSERT_OK(backend->copy(device, now, outputs[i].near, outputs[i].size_bytes,
                                    BT_COPY_DEVICE_TO_HOST, NULL));
            ASSERT_OK(backend->stream_synchronize(device, NULL));
            if (first[i] && memcmp(first[i], now, outputs[i].size_bytes) != 0) {
                fail_msg("%s, output %d: other bits in run %d", row->name, i, run);
            }
            free(first[i]);
            first[i] = now;
        }
    }
    for (int i = 0; i < count; ++i) {
        free(first[i]);
    }
    release();
}

static void product(int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b, bt_dtype d_dtype,
                    double beta)
{
    bt_gemm_args args = {.m = m, .n = n, .k = k, .batch = 1, .alpha = 1, .beta = beta};
    args.trans_a = trans_a;
    args.trans_b = trans_b;
    args.lda = trans_a ? m : k;
    args.ldb = trans_b ? k : n;
    args.ldc = args.ldd = n;
    args.ab_dtype = BT_BF16;
    args.d_dtype = d_dtype;
    args.a = take_random(m * k, 1);
    args.b = take_random(n * k, 2);
    span d = {.size_bytes = (size_t)(m * n) * bt_dtype_size(d_dtype)};
    d.near = take(d.size_bytes);
    args.c = args.d = d.near;
    repeat(BT_KERNEL_GEMM, &args, &d, 1, 0);
}

// Times GELU's slope, with sums of columns: two outputs of one launch and the launch after it.
static void column_sums_of_a_product(void **state)
{
    (void)state;
    bt_gemm_args args = {.m = ROWS, .n = HIDDEN, .k = COLS, .batch = 1, .alpha = 1};
    span outputs[2] = {{.size_bytes = (size_t)ROWS * HIDDEN * sizeof(uint16_t)},
                       {.size_bytes = HIDDEN * sizeof(float)}};
    args.epilogue = BT_EPILOGUE_DGELU;
    args.lda = COLS;
    args.ldb = args.ldc = args.ldd = HIDDEN;
    args.ab_dtype = args.d_dtype = BT_BF16;
    args.a = take_random((int64_t)ROWS * COLS, 1);
    args.b = take_random((int64_t)HIDDEN * COLS, 2);
    args.aux = take_random((int64_t)ROWS * HIDDEN, 3);
    args.d = outputs[0].near = take(outputs[0].size_bytes);
    const bt_kernel *row = NULL;
    args.dbias = outputs[1].near = take(outputs[1].size_bytes);
    args.dbias_dtype = BT_F32;
    if (bt_kernel_find(test_device(), BT_KERNEL_GEMM, BT_BF16, &args, &row) != BT_OK) {
        bt_error_clear(); // no row fuses them here
        release();
        skip();
    }
    repeat(BT_KERNEL_GEMM, &args, outputs, 2, 0);
}

static void products(void **state)
{
    (void)state;
    product(ROWS, HIDDEN, COLS, false, true, BT_BF16, 0);
    product(COLS, HIDDEN, ROWS, true, false, BT_F32, 1); // a weight gradient: long sums
    product(128, 128, ROWS, true, false, BT_F32, 1);
    product(128, 384, 128, false, true, BT_BF16, 0);
    product(VOCAB, COLS, ROWS, true, false, BT_F32, 1);
}

static void column_sums(void **state)
{
    (void)state;
    bt_reduce_sum_args args = {.outer = 1, .reduce = ROWS, .inner = HIDDEN, .scale = 1};
    span y = {take(HIDDEN * sizeof(float)), HIDDEN * sizeof(float)};
    args.x = take_random((int64_t)ROWS * HIDDEN, 3);
    args.y = y.near;
    args.dtype = BT_BF16;
    args.y_dtype = BT_F32;
    repeat(BT_KERNEL_REDUCE_SUM, &args, &y, 1, 0xff);
}

static void layernorm(void **state)
{
    (void)state;
    bt_layernorm_backward_args args = {.rows = ROWS, .cols = COLS, .dtype = BT_BF16};
    span outputs[OUTPUTS] = {{.size_bytes = (size_t)ROWS * COLS * sizeof(uint16_t)},
                             {.size_bytes = COLS * sizeof(float)},
                             {.size_bytes = COLS * sizeof(float)}};
    args.param_dtype = BT_BF16;
    args.grad_dtype = BT_F32;
    args.dy = take_random((int64_t)ROWS * COLS, 4);
    args.s = take_random((int64_t)ROWS * COLS, 5);
    args.gamma = take_random(COLS, 6);
    args.mean = take_random((int64_t)2 * ROWS, 7); // bits of two bf16 make a small f32
    args.rstd = take_random((int64_t)2 * ROWS, 8);
    for (int i = 0; i < OUTPUTS; ++i) {
        outputs[i].near = take(outputs[i].size_bytes);
    }
    args.dx = outputs[0].near;
    args.dgamma = outputs[1].near;
    args.dbeta = outputs[2].near;
    repeat(BT_KERNEL_LAYERNORM_BACKWARD, &args, outputs, OUTPUTS, 0xff);
}

static void embedding(void **state)
{
    (void)state;
    bt_embedding_backward_args args = {.rows = ROWS, .cols = COLS, .vocab = VOCAB};
    span outputs[2] = {{.size_bytes = (size_t)VOCAB * COLS * sizeof(float)},
                       {.size_bytes = (size_t)1024 * COLS * sizeof(float)}};
    args.positions = 1024;
    args.accumulate = true;
    args.accumulate_position = true;
    args.dtype = BT_BF16;
    args.grad_dtype = BT_F32;
    args.ids = take_ids(ROWS);
    args.dy = take_random((int64_t)ROWS * COLS, 9);
    outputs[0].near = take(outputs[0].size_bytes);
    outputs[1].near = take(outputs[1].size_bytes);
    args.dtable = outputs[0].near;
    args.dposition = outputs[1].near;
    repeat(BT_KERNEL_EMBEDDING_BACKWARD, &args, outputs, 2, 0);
}

static void loss(void **state)
{
    (void)state;
    bt_cross_entropy_args args = {.rows = ROWS, .vocab = VOCAB, .logits_stride = VOCAB};
    span outputs[OUTPUTS] = {{.size_bytes = ROWS * sizeof(float)},
                             {.size_bytes = ROWS * sizeof(float)},
                             {.size_bytes = sizeof(float)}};
    args.ignore = -100;
    args.dtype = BT_BF16;
    args.logits = take_random((int64_t)ROWS * VOCAB, 10);
    args.targets = take_ids(ROWS);
    for (int i = 0; i < OUTPUTS; ++i) {
        outputs[i].near = take(outputs[i].size_bytes);
    }
    args.loss = outputs[0].near;
    args.lse = outputs[1].near;
    args.mean = outputs[2].near;
    args.inv_count = take(sizeof(float));
    args.bad_row = take(sizeof(int64_t));
    repeat(BT_KERNEL_CROSS_ENTROPY, &args, outputs, OUTPUTS, 0xff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),    cmocka_unit_test(column_sums_of_a_product),
        cmocka_unit_test(column_sums), cmocka_unit_test(layernorm),
        cmocka_unit_test(embedding),   cmocka_unit_test(loss),
    };
    if (!test_device_open()) {
        return test_skip("no CUDA device");
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
