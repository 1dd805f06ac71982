// kernels/cuda/lab/bench.c - time of the CUDA kernels at training shapes, cold L2
//
// A line per case: median of SAMPLES single launches between events, the L2 scrubbed before each,
// and the bytes that the op must move (or its multiply-adds) over that time, beside the copy
// ceiling of the machine measured in the same process. Operands hold random numbers. Correctness
// is the conformance tests' business: run them first.
//   lab_bench [filter...]    cases in whose name or op any of the words is
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/rng.h"
#include "kernels/kernels.h"

enum { SAMPLES = 15, ROWS = 65536, COLS = 768, HIDDEN = 3072, VOCAB = 50304 };

static const size_t POOL_BYTES = (size_t)24 << 30;
static const size_t SCRUB_BYTES = (size_t)256 << 20;
static const size_t SEED_BYTES = (size_t)64 << 20;
static const int64_t PARAMS = 124475904;

typedef struct bench {
    bt_device device;
    unsigned char *pool, *scrub;
    size_t used_bytes;
    bt_event start, stop;
    const char *const *filters; // NULL at the end
    double ceiling;             // bytes per second of a copy
} bench;

static void check(bt_status status)
{
    if (status != BT_OK) {
        (void)fprintf(stderr, "lab_bench: %s: %s\n", bt_status_text(status), bt_error_message());
        exit(1);
    }
}

static void *take(bench *b, int64_t count, bt_dtype dtype)
{
    size_t size_bytes = ((size_t)count * bt_dtype_size(dtype) + 255) / 256 * 256;
    if (b->used_bytes + size_bytes > POOL_BYTES) {
        (void)fprintf(stderr, "lab_bench: pool too small\n");
        exit(1);
    }
    void *block = b->pool + b->used_bytes;
    b->used_bytes += size_bytes;
    return block;
}

static int by_time(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static int64_t median_ns(bench *b, const bt_kernel *row, const bt_launch *launch, const void *args)
{
    const bt_backend *backend = b->device.backend;
    int64_t times[SAMPLES];
    // Reading, not writing: dirty lines would be written back in the timed region.
    bt_count_nonfinite_args scrub = {.x = b->scrub, .dtype = BT_F32};
    const bt_kernel *scrubber = NULL;
    const bt_launch scrubbing = {.device = &b->device};
    scrub.count = (int64_t)(SCRUB_BYTES / sizeof(float)) - 64;
    scrub.result = (int64_t *)(void *)(b->scrub + SCRUB_BYTES - 256);
    check(bt_kernel_find(&b->device, BT_KERNEL_COUNT_NONFINITE, BT_F32, &scrub, &scrubber));
    for (int i = -2; i < SAMPLES; ++i) {
        check(scrubber->launch(&scrubbing, &scrub));
        check(backend->event_record(&b->device, b->start, NULL));
        check(row ? row->launch(launch, args)
                  : backend->copy(&b->device, b->pool, b->pool + ((size_t)4 << 30), (size_t)4 << 30,
                                  BT_COPY_DEVICE_TO_DEVICE, NULL));
        check(backend->event_record(&b->device, b->stop, NULL));
        check(backend->event_synchronize(&b->device, b->stop));
        check(backend->event_elapsed(&b->device, b->start, b->stop, &times[i < 0 ? 0 : i]));
    }
    qsort(times, SAMPLES, sizeof times[0], by_time);
    return times[SAMPLES / 2];
}

static bool wanted(const bench *b, const char *what, bt_kernel_op op)
{
    bool any = !b->filters[0];
    for (const char *const *word = b->filters; *word; ++word) {
        any = any || strstr(what, *word) || strstr(bt_kernel_op_name(op), *word);
    }
    return any;
}

// bytes moved, or, when flops is given, arithmetic done.
static void run(bench *b, const char *what, bt_kernel_op op, bt_dtype dtype, const void *args,
                double bytes, double flops)
{
    const bt_kernel *row = NULL;
    bt_launch launch = {.device = &b->device};
    if (wanted(b, what, op)) {
        check(bt_kernel_find(&b->device, op, dtype, args, &row));
        launch.workspace_bytes = row->workspace ? row->workspace(&b->device, args) : 0;
        launch.workspace = take(b, (int64_t)launch.workspace_bytes, BT_U8);
        double seconds = (double)median_ns(b, row, &launch, args) * 1e-9;
        if (flops > 0) {
            printf("%-34s %-36s %10.1f us %8.0f TFLOP/s\n", row->name, what, seconds * 1e6,
                   flops / seconds * 1e-12);
        } else {
            printf("%-34s %-36s %10.1f us %8.0f GB/s %4.0f %% of copy\n", row->name, what,
                   seconds * 1e6, bytes / seconds * 1e-9, 100 * bytes / seconds / b->ceiling);
        }
        (void)fflush(stdout);
    }
    b->used_bytes = 0;
}

// The pool holds numbers in [-1, 1] as f32 in its first half, as bf16 in its second.
static void fill_pool(bench *b)
{
    const bt_backend *backend = b->device.backend;
    float *values = malloc(SEED_BYTES);
    uint16_t *halves = malloc(SEED_BYTES);
    int64_t count = (int64_t)(SEED_BYTES / sizeof(float));
    if (!values || !halves) {
        exit(1);
    }
    bt_rng_uniform_fill((bt_rng){1, 2}, values, count, -1, 1);
    for (int64_t i = 0; i < 2 * count; ++i) {
        halves[i] = bt_f32_to_bf16(values[i % count]);
    }
    for (size_t at = 0; at < POOL_BYTES; at += SEED_BYTES) {
        const void *from = at < POOL_BYTES / 2 ? (const void *)values : (const void *)halves;
        if (at % (POOL_BYTES / 2) == 0) {
            check(backend->copy(&b->device, b->pool + at, from, SEED_BYTES, BT_COPY_HOST_TO_DEVICE,
                                NULL));
        } else {
            check(backend->copy(&b->device, b->pool + at, b->pool + at - SEED_BYTES, SEED_BYTES,
                                BT_COPY_DEVICE_TO_DEVICE, NULL));
        }
    }
    check(backend->stream_synchronize(&b->device, NULL));
    free(values);
    free(halves);
}

// Operands of a type come from its half of the pool.
static void begin(bench *b, bt_dtype dtype)
{
    b->used_bytes = dtype == BT_BF16 ? POOL_BYTES / 2 : 0;
}

// Ids as in text: the commonest word has about a twentieth of all.
static int32_t *take_ids(bench *b, int64_t count)
{
    int32_t *host = malloc((size_t)count * sizeof *host);
    int32_t *near = take(b, count, BT_I32);
    for (int64_t i = 0; host && i < count; ++i) {
        double u = (double)bt_rng_uniform((bt_rng){3, 4}, (uint64_t)i);
        host[i] = (int32_t)(VOCAB * u * u * u * u);
    }
    check(b->device.backend->copy(&b->device, near, host, (size_t)count * sizeof *host,
                                  BT_COPY_HOST_TO_DEVICE, NULL));
    check(b->device.backend->stream_synchronize(&b->device, NULL));
    free(host);
    return near;
}

static void bench_elementwise(bench *b, bt_dtype dtype)
{
    const double size = (double)bt_dtype_size(dtype);
    const int64_t wide = (int64_t)ROWS * HIDDEN;
    const int64_t narrow = (int64_t)ROWS * COLS;
    char what[64];
    (void)snprintf(what, sizeof what, "%s 65536 x 3072", bt_dtype_name(dtype));
    begin(b, dtype);
    bt_unary_args gelu = {.function = BT_UNARY_GELU, .count = wide, .dtype = dtype};
    gelu.x = take(b, wide, dtype);
    gelu.y = take(b, wide, dtype);
    run(b, what, BT_KERNEL_UNARY, dtype, &gelu, 2 * size * (double)wide, 0);
    begin(b, dtype);
    bt_unary_backward_args dgelu = {.function = BT_UNARY_GELU, .count = wide, .dtype = dtype};
    dgelu.x = take(b, wide, dtype);
    dgelu.dy = take(b, wide, dtype);
    dgelu.dx = take(b, wide, dtype);
    run(b, what, BT_KERNEL_UNARY_BACKWARD, dtype, &dgelu, 3 * size * (double)wide, 0);
    begin(b, dtype);
    bt_reduce_sum_args sum = {.outer = 1,
                              .reduce = ROWS,
                              .inner = HIDDEN,
                              .scale = 1.0,
                              .dtype = dtype,
                              .y_dtype = BT_F32};
    sum.x = take(b, wide, dtype);
    sum.y = take(b, HIDDEN, BT_F32);
    run(b, what, BT_KERNEL_REDUCE_SUM, dtype, &sum, size * (double)wide, 0);
    (void)snprintf(what, sizeof what, "%s 65536 x 768", bt_dtype_name(dtype));
    begin(b, dtype);
    sum.inner = COLS;
    sum.x = take(b, narrow, dtype);
    sum.y = take(b, COLS, BT_F32);
    run(b, what, BT_KERNEL_REDUCE_SUM, dtype, &sum, size * (double)narrow, 0);
    begin(b, dtype);
    bt_binary_args add = {.function = BT_BINARY_ADD, .rank = 1, .dtype = dtype};
    add.shape[0] = narrow;
    add.a_stride[0] = add.b_stride[0] = 1;
    add.a = take(b, narrow, dtype);
    add.b = take(b, narrow, dtype);
    add.y = take(b, narrow, dtype);
    run(b, what, BT_KERNEL_BINARY, dtype, &add, 3 * size * (double)narrow, 0);
    begin(b, dtype);
    bt_dropout_args drop = {.count = narrow, .rate = 0.1, .seed = 1, .dtype = dtype};
    drop.x = take(b, narrow, dtype);
    drop.y = take(b, narrow, dtype);
    run(b, what, BT_KERNEL_DROPOUT, dtype, &drop, 2 * size * (double)narrow, 0);
}

static void bench_layernorm(bench *b, bt_dtype dtype, int64_t rows, int64_t cols)
{
    const double size = (double)bt_dtype_size(dtype);
    const int64_t count = rows * cols;
    char what[64];
    (void)snprintf(what, sizeof what, "%s %lld x %lld", bt_dtype_name(dtype), (long long)rows,
                   (long long)cols);
    begin(b, dtype);
    bt_layernorm_args forward = {.rows = rows, .cols = cols, .epsilon = 1e-5, .dtype = dtype};
    forward.param_dtype = dtype;
    forward.x = take(b, count, dtype);
    forward.y = take(b, count, dtype);
    forward.gamma = take(b, cols, dtype);
    forward.beta = take(b, cols, dtype);
    forward.mean = take(b, rows, BT_F32);
    forward.rstd = take(b, rows, BT_F32);
    size_t kept = b->used_bytes;
    run(b, what, BT_KERNEL_LAYERNORM, dtype, &forward, 2 * size * (double)count, 0);
    b->used_bytes = kept;
    forward.residual = take(b, count, dtype);
    forward.sum = take(b, count, dtype);
    char with[80];
    (void)snprintf(with, sizeof with, "%s + residual", what);
    run(b, with, BT_KERNEL_LAYERNORM, dtype, &forward, 4 * size * (double)count, 0);
    begin(b, dtype);
    bt_layernorm_backward_args backward = {.rows = rows, .cols = cols, .dtype = dtype};
    backward.param_dtype = dtype;
    backward.grad_dtype = BT_F32;
    backward.dy = take(b, count, dtype);
    backward.s = take(b, count, dtype);
    backward.dx = take(b, count, dtype);
    backward.gamma = take(b, cols, dtype);
    backward.mean = take(b, rows, BT_F32);
    backward.rstd = take(b, rows, BT_F32);
    backward.dgamma = take(b, cols, BT_F32);
    backward.dbeta = take(b, cols, BT_F32);
    kept = b->used_bytes;
    run(b, what, BT_KERNEL_LAYERNORM_BACKWARD, dtype, &backward, 3 * size * (double)count, 0);
    b->used_bytes = kept;
    backward.accumulate = true;
    (void)snprintf(with, sizeof with, "%s, dx added", what);
    run(b, with, BT_KERNEL_LAYERNORM_BACKWARD, dtype, &backward, 4 * size * (double)count, 0);
}

static void bench_loss(bench *b, bt_dtype dtype, int64_t rows)
{
    const double size = (double)bt_dtype_size(dtype);
    const int64_t count = rows * VOCAB;
    char what[64];
    (void)snprintf(what, sizeof what, "%s %lld x %d", bt_dtype_name(dtype), (long long)rows, VOCAB);
    begin(b, dtype);
    bt_cross_entropy_args forward = {.rows = rows, .vocab = VOCAB, .ignore = -100, .dtype = dtype};
    forward.logits_stride = VOCAB;
    forward.logits = take(b, count, dtype);
    forward.targets = take_ids(b, rows);
    forward.loss = take(b, rows, BT_F32);
    forward.lse = take(b, rows, BT_F32);
    forward.mean = take(b, 1, BT_F32);
    forward.inv_count = take(b, 1, BT_F32);
    forward.bad_row = take(b, 1, BT_I64);
    bt_cross_entropy_backward_args backward = {
        .rows = rows, .vocab = VOCAB, .ignore = -100, .dtype = dtype};
    backward.logits_stride = VOCAB;
    backward.logits = forward.logits;
    backward.dlogits = (void *)(uintptr_t)forward.logits;
    backward.targets = forward.targets;
    backward.lse = forward.lse;
    backward.inv_count = forward.inv_count;
    backward.dmean = forward.inv_count;
    run(b, what, BT_KERNEL_CROSS_ENTROPY, dtype, &forward, size * (double)count, 0);
    run(b, what, BT_KERNEL_CROSS_ENTROPY_BACKWARD, dtype, &backward, 2 * size * (double)count, 0);
    fill_pool(b); // the logits were overwritten
}

static void bench_embedding(bench *b, bt_dtype dtype)
{
    const double size = (double)bt_dtype_size(dtype);
    const double count = (double)ROWS * COLS;
    char what[64];
    (void)snprintf(what, sizeof what, "%s 65536 x 768", bt_dtype_name(dtype));
    begin(b, dtype);
    bt_embedding_args forward = {.rows = ROWS, .cols = COLS, .vocab = VOCAB, .positions = 1024};
    forward.dtype = dtype;
    forward.ids = take_ids(b, ROWS);
    forward.table = take(b, (int64_t)VOCAB * COLS, dtype);
    forward.position = take(b, 1024 * COLS, dtype);
    forward.y = take(b, (int64_t)ROWS * COLS, dtype);
    bt_embedding_backward_args backward = {.rows = ROWS, .cols = COLS, .vocab = VOCAB};
    backward.positions = 1024;
    backward.accumulate = true;
    backward.dtype = dtype;
    backward.grad_dtype = BT_F32;
    backward.ids = forward.ids;
    backward.dy = take(b, (int64_t)ROWS * COLS, dtype);
    backward.dtable = take(b, (int64_t)VOCAB * COLS, BT_F32);
    backward.dposition = take(b, 1024 * COLS, BT_F32);
    size_t kept = b->used_bytes;
    run(b, what, BT_KERNEL_EMBEDDING, dtype, &forward, 2 * size * count, 0);
    b->used_bytes = kept;
    run(b, what, BT_KERNEL_EMBEDDING_BACKWARD, dtype, &backward, 2 * size * count, 0);
}

// The tensors of GPT-2 124M, as sizes: embedding, positions, and twelve layers' large and small.
static void bench_optimizer(bench *b)
{
    enum { TENSORS = 148 };
    static bt_adamw_item items[TENSORS];
    static bt_grad_norm_item grads[TENSORS];
    static const int64_t layer[12] = {768, 768, 768 * 2304, 2304, 768 * 768,  768,
                                      768, 768, 768 * 3072, 3072, 3072 * 768, 768};
    int count = 0;
    begin(b, BT_F32);
    for (int i = 0; i < TENSORS; ++i) {
        int64_t size = i == 0    ? (int64_t)VOCAB * COLS
                       : i == 1  ? 1024 * COLS
                       : i < 146 ? layer[(i - 2) % 12]
                                 : COLS;
        items[count].param = take(b, size, BT_F32);
        items[count].grad = take(b, size, BT_F32);
        items[count].m = take(b, size, BT_F32);
        items[count].v = take(b, size, BT_F32);
        items[count].copy = take(b, size, BT_BF16);
        items[count].count = size;
        grads[count].grad = items[count].grad;
        grads[count].count = size;
        ++count;
    }
    bt_grad_norm_args norm = {.items = grads, .item_count = count, .grad_scale = 1, .max_norm = 1};
    norm.norm = take(b, 1, BT_F32);
    norm.scale = take(b, 1, BT_F32);
    norm.dtype = BT_F32;
    bt_adamw_args adamw = {.items = items, .item_count = count, .lr = 1e-4, .beta1 = 0.9};
    adamw.beta2 = 0.95;
    adamw.epsilon = 1e-8;
    adamw.step = 10;
    adamw.scale = norm.scale;
    adamw.dtype = BT_F32;
    size_t kept = b->used_bytes;
    run(b, "f32 124M in 148", BT_KERNEL_GRAD_NORM, BT_F32, &norm, 4.0 * (double)PARAMS, 0);
    b->used_bytes = kept;
    run(b, "f32 124M in 148, bf16 copy", BT_KERNEL_ADAMW, BT_F32, &adamw, 30.0 * (double)PARAMS, 0);
    fill_pool(b);
}

typedef struct gemm_case {
    const char *what;
    int64_t m, n, k;
    bool trans_a, trans_b;
    bt_epilogue epilogue;
    bool to_f32;
} gemm_case;

static void bench_gemm(bench *b, bt_dtype dtype, bt_compute compute)
{
    static const gemm_case cases[] = {
        {"qkv 65536x2304x768 + bias", ROWS, 2304, 768, false, false, BT_EPILOGUE_BIAS, false},
        {"fc 65536x3072x768 + bias + gelu", ROWS, 3072, 768, false, false, BT_EPILOGUE_BIAS_GELU,
         false},
        {"fc 65536x3072x768", ROWS, 3072, 768, false, false, BT_EPILOGUE_NONE, false},
        {"dgelu 65536x3072x768", ROWS, 3072, 768, false, true, BT_EPILOGUE_DGELU, false},
        {"wgrad 768x3072x65536", 768, 3072, ROWS, true, false, BT_EPILOGUE_NONE, true},
        {"head 16384x50304x768", 16384, VOCAB, 768, false, true, BT_EPILOGUE_NONE, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const gemm_case *c = &cases[i];
        bt_dtype d_dtype = c->to_f32 ? BT_F32 : dtype;
        char what[80];
        const bt_kernel *row = NULL;
        begin(b, dtype);
        bt_gemm_args args = {.m = c->m, .n = c->n, .k = c->k, .batch = 1, .alpha = 1};
        args.trans_a = c->trans_a;
        args.trans_b = c->trans_b;
        args.a = take(b, c->m * c->k, dtype);
        args.b = take(b, c->k * c->n, dtype);
        args.d = take(b, c->m * c->n, d_dtype);
        args.aux = take(b, c->m * c->n, d_dtype);
        args.bias = c->epilogue == BT_EPILOGUE_DGELU ? NULL : take(b, c->n, dtype);
        args.lda = c->trans_a ? c->m : c->k;
        args.ldb = c->trans_b ? c->k : c->n;
        args.ldc = args.ldd = c->n;
        args.c = args.d;
        args.beta = c->to_f32 ? 1 : 0; // weight gradients accumulate
        args.epilogue = c->epilogue;
        args.ab_dtype = dtype;
        args.d_dtype = d_dtype;
        args.compute = compute;
        (void)snprintf(what, sizeof what, "%s %s",
                       compute == BT_COMPUTE_TF32 ? "tf32" : bt_dtype_name(dtype), c->what);
        if (bt_kernel_find(&b->device, BT_KERNEL_GEMM, dtype, &args, &row) != BT_OK) {
            printf("%-34s %-36s refused\n", "gemm", what);
            continue;
        }
        run(b, what, BT_KERNEL_GEMM, dtype, &args, 0,
            2.0 * (double)c->m * (double)c->n * (double)c->k);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    bench b = {.filters = (const char *const *)&argv[1]};
    check(bt_device_open("cuda", 0, &b.device));
    const bt_backend *backend = b.device.backend;
    void *block = NULL;
    check(backend->memory_alloc(&b.device, POOL_BYTES, &block));
    b.pool = block;
    check(backend->memory_alloc(&b.device, SCRUB_BYTES, &block));
    b.scrub = block;
    check(backend->fill(&b.device, b.scrub, 0, SCRUB_BYTES, NULL));
    check(backend->event_create(&b.device, &b.start));
    check(backend->event_create(&b.device, &b.stop));
    fill_pool(&b);
    double seconds = (double)median_ns(&b, NULL, NULL, NULL) * 1e-9;
    b.ceiling = 2.0 * 4294967296.0 / seconds;
    printf("%s, driver %s, %s; copy %.0f GB/s\n", b.device.info.name, b.device.info.driver,
           b.device.info.runtime, b.ceiling * 1e-9);
    static const bt_dtype dtypes[] = {BT_BF16, BT_F32};
    for (int i = 0; i < 2; ++i) {
        bench_elementwise(&b, dtypes[i]);
        bench_layernorm(&b, dtypes[i], ROWS, COLS);
        bench_layernorm(&b, dtypes[i], 16384, 4096);
        bench_embedding(&b, dtypes[i]);
        bench_loss(&b, dtypes[i], 32768);
    }
    bench_optimizer(&b);
    bench_gemm(&b, BT_BF16, BT_COMPUTE_NATIVE);
    bench_gemm(&b, BT_F32, BT_COMPUTE_TF32);
    bench_gemm(&b, BT_F32, BT_COMPUTE_NATIVE);
    backend->event_destroy(&b.device, b.start);
    backend->event_destroy(&b.device, b.stop);
    backend->memory_free(&b.device, b.pool);
    backend->memory_free(&b.device, b.scrub);
    bt_device_close(&b.device);
    return 0;
}
