// Operands of more than 2^31 elements on CUDA. The input repeats a tile whose length is a whole
// number of rows, so the result repeats as well: it must equal, bit for bit, what the same kernel
// makes of one tile, at the start, where the index passes 2^31, and at the end. Sums over all rows
// are compared with a multiple. Skipped where the GPU has too little memory.
#include <stdlib.h>
#include <string.h>

#include "framework/base/rng.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

enum { WINDOW = 4096, WORKSPACE = 64 << 20 };

static const int64_t LEAST = ((int64_t)1 << 31) + 4096; // elements, at least

typedef struct huge {
    bt_device *device;
    void *x, *y, *tile_x, *tile_y, *workspace;
    int64_t tile, count; // elements
    size_t size;         // bytes of an element of x and of y
} huge;

static void *take(bt_device *device, size_t size_bytes)
{
    void *block = NULL;
    return device->backend->memory_alloc(device, size_bytes, &block) == BT_OK ? block : NULL;
}

// Copies, and waits for it.
static void copy_to(const huge *self, void *to, const void *from, size_t size_bytes,
                    bt_copy_kind kind)
{
    const bt_backend *backend = self->device->backend;
    assert_int_equal(backend->copy(self->device, to, from, size_bytes, kind, NULL), BT_OK);
    assert_int_equal(backend->stream_synchronize(self->device, NULL), BT_OK);
}

// x holds copies of a random tile of `tile` elements. False when memory is short.
static bool huge_make(huge *self, bt_dtype dtype, int64_t tile)
{
    *self = (huge){.device = test_device(), .tile = tile, .size = bt_dtype_size(dtype)};
    const bt_backend *backend = self->device->backend;
    const size_t tile_bytes = (size_t)tile * self->size;
    self->count = (LEAST + tile - 1) / tile * tile;
    const size_t bytes = (size_t)self->count * self->size;
    self->x = take(self->device, bytes);
    self->y = take(self->device, bytes);
    self->tile_x = take(self->device, tile_bytes);
    self->tile_y = take(self->device, tile_bytes);
    self->workspace = take(self->device, WORKSPACE);
    unsigned char *host = malloc(tile_bytes);
    float *drawn = malloc((size_t)tile * sizeof *drawn);
    if (!self->x || !self->y || !self->tile_x || !self->tile_y || !self->workspace || !host ||
        !drawn) {
        free(host);
        free(drawn);
        return false;
    }
    bt_rng_uniform_fill((bt_rng){7, 8}, drawn, tile, -2, 2);
    for (int64_t i = 0; i < tile; ++i) {
        const uint16_t half = bt_f32_to_bf16(drawn[i]);
        if (dtype == BT_BF16) {
            memcpy(host + (size_t)i * sizeof half, &half, sizeof half);
        } else {
            host[i] = (unsigned char)(half >> 3);
        }
    }
    assert_int_equal(
        backend->copy(self->device, self->tile_x, host, tile_bytes, BT_COPY_HOST_TO_DEVICE, NULL),
        BT_OK);
    assert_int_equal(
        backend->copy(self->device, self->x, host, tile_bytes, BT_COPY_HOST_TO_DEVICE, NULL),
        BT_OK);
    for (size_t done = tile_bytes; done < bytes;) { // doubles what is there
        const size_t part = done < bytes - done ? done : bytes - done;
        copy_to(self, (char *)self->x + done, self->x, part, BT_COPY_DEVICE_TO_DEVICE);
        done += part;
    }
    assert_int_equal(backend->fill(self->device, self->y, 0xff, bytes, NULL), BT_OK);
    assert_int_equal(backend->fill(self->device, self->tile_y, 0xff, tile_bytes, NULL), BT_OK);
    assert_int_equal(backend->stream_synchronize(self->device, NULL), BT_OK);
    free(host);
    free(drawn);
    return true;
}

static void huge_release(huge *self)
{
    void *const blocks[] = {self->x, self->y, self->tile_x, self->tile_y, self->workspace};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; ++i) {
        if (blocks[i]) {
            self->device->backend->memory_free(self->device, blocks[i]);
        }
    }
}

static void run(const huge *self, bt_kernel_op op, bt_dtype dtype, const void *args)
{
    const bt_kernel *kernel = NULL;
    assert_int_equal(bt_kernel_find(self->device, op, dtype, args, &kernel), BT_OK);
    bt_launch launch = {.device = self->device, .workspace = self->workspace};
    launch.workspace_bytes = kernel->workspace ? kernel->workspace(self->device, args) : 0;
    assert_true(launch.workspace_bytes <= WORKSPACE);
    assert_int_equal(kernel->launch(&launch, args), BT_OK);
    assert_int_equal(self->device->backend->stream_synchronize(self->device, NULL), BT_OK);
}

static void read(const huge *self, const void *from, int64_t at, void *to)
{
    assert_int_equal(
        self->device->backend->copy(self->device, to, (const char *)from + (size_t)at * self->size,
                                    (size_t)WINDOW * self->size, BT_COPY_DEVICE_TO_HOST, NULL),
        BT_OK);
    assert_int_equal(self->device->backend->stream_synchronize(self->device, NULL), BT_OK);
}

// y[at .. at + WINDOW) against the tile's result.
static void same_at(const huge *self, int64_t at, const char *what)
{
    unsigned char got[WINDOW * 2], expected[WINDOW * 2];
    const int64_t begin = at % self->tile;
    const int64_t start = begin + WINDOW <= self->tile ? begin : self->tile - WINDOW;
    read(self, self->y, at + start - begin, got);
    read(self, self->tile_y, start, expected);
    for (size_t i = 0; i < (size_t)WINDOW * self->size; ++i) {
        if (got[i] != expected[i]) {
            fail_msg("%s: element %lld is not as in the first tile", what,
                     (long long)(at + start - begin + (int64_t)(i / self->size)));
        }
    }
}

static void same(const huge *self, const char *what)
{
    same_at(self, 0, what);
    same_at(self, ((int64_t)1 << 30) + 77, what);
    same_at(self, ((int64_t)1 << 31) - WINDOW / 2, what);
    same_at(self, self->count - WINDOW, what);
}

// Each function makes the call over `count` elements from x to y.
typedef void (*caller)(const huge *self, const void *x, void *y, int64_t count);

static void each(const huge *self, caller call, const char *what)
{
    call(self, self->tile_x, self->tile_y, self->tile);
    call(self, self->x, self->y, self->count);
    same(self, what);
}

// Rows of a tile: enough for the same kernel to serve it that serves them all.
enum { COLS = 768, TILE_ROWS_MANY = 32768 };

static void call_unary(const huge *self, const void *x, void *y, int64_t count)
{
    const bt_unary_args args = {BT_UNARY_GELU, 0, x, y, count, BT_BF16, false};
    run(self, BT_KERNEL_UNARY, BT_BF16, &args);
}

static void call_unary_backward(const huge *self, const void *x, void *y, int64_t count)
{
    const bt_unary_backward_args args = {BT_UNARY_GELU, 0, x, x, y, count, BT_BF16, false};
    run(self, BT_KERNEL_UNARY_BACKWARD, BT_BF16, &args);
}

static void call_bias(const huge *self, const void *x, void *y, int64_t count)
{
    const bt_binary_args args = {.function = BT_BINARY_ADD,
                                 .rank = 2,
                                 .shape = {count / COLS, COLS},
                                 .a = x,
                                 .a_stride = {COLS, 1},
                                 .b = self->tile_x,
                                 .b_stride = {0, 1},
                                 .y = y,
                                 .dtype = BT_BF16};
    run(self, BT_KERNEL_BINARY, BT_BF16, &args);
}

// The same with an operand that is off alignment: more than 2^31 packs.
static void call_bias_single(const huge *self, const void *x, void *y, int64_t count)
{
    const bt_binary_args args = {.function = BT_BINARY_ADD,
                                 .rank = 2,
                                 .shape = {count / COLS, COLS},
                                 .a = x,
                                 .a_stride = {COLS, 1},
                                 .b = (const char *)self->tile_x + sizeof(uint16_t),
                                 .b_stride = {0, 1},
                                 .y = y,
                                 .dtype = BT_BF16};
    run(self, BT_KERNEL_BINARY, BT_BF16, &args);
}

static void call_softmax(const huge *self, const void *x, void *y, int64_t count)
{
    const bt_softmax_args args = {x, y, count / COLS, COLS, BT_BF16};
    run(self, BT_KERNEL_SOFTMAX, BT_BF16, &args);
}

static void call_softmax_backward(const huge *self, const void *x, void *y, int64_t count)
{
    const bt_softmax_backward_args args = {x, x, y, count / COLS, COLS, BT_BF16};
    run(self, BT_KERNEL_SOFTMAX_BACKWARD, BT_BF16, &args);
}

// Statistics go to the end of the workspace, 16 MiB each.
static void *statistics(const huge *self, int index)
{
    return (char *)self->workspace + WORKSPACE - (size_t)(index + 1) * (16 << 20);
}

static void call_layernorm(const huge *self, const void *x, void *y, int64_t count)
{
    const bt_layernorm_args args = {.x = x,
                                    .gamma = self->tile_x,
                                    .beta = self->tile_x,
                                    .y = y,
                                    .mean = statistics(self, 0),
                                    .rstd = statistics(self, 1),
                                    .rows = count / COLS,
                                    .cols = COLS,
                                    .epsilon = 1e-5,
                                    .dtype = BT_BF16,
                                    .param_dtype = BT_BF16};
    run(self, BT_KERNEL_LAYERNORM, BT_BF16, &args);
}

// Means and rstds are those that call_layernorm left.
static void call_layernorm_backward(const huge *self, const void *x, void *y, int64_t count)
{
    const bt_layernorm_backward_args args = {.dy = x,
                                             .s = x,
                                             .gamma = self->tile_x,
                                             .mean = statistics(self, 0),
                                             .rstd = statistics(self, 1),
                                             .dx = y,
                                             .dgamma = statistics(self, 2),
                                             .rows = count / COLS,
                                             .cols = COLS,
                                             .dtype = BT_BF16,
                                             .param_dtype = BT_BF16,
                                             .grad_dtype = BT_F32};
    run(self, BT_KERNEL_LAYERNORM_BACKWARD, BT_BF16, &args);
}

static void call_dropout(const huge *self, const void *x, void *y, int64_t count)
{
    const bt_dropout_args args = {x, y, count, 0, 1, 2, false, BT_BF16};
    run(self, BT_KERNEL_DROPOUT, BT_BF16, &args);
}

static const struct {
    caller call;
    const char *what;
} calls[] = {{call_unary, "gelu"},
             {call_unary_backward, "gelu backward"},
             {call_bias, "bias"},
             {call_bias_single, "bias off alignment"},
             {call_softmax, "softmax"},
             {call_softmax_backward, "softmax backward"},
             {call_layernorm, "layernorm"},
             {call_layernorm_backward, "layernorm backward"},
             {call_dropout, "dropout that keeps all"}};

static void elementwise_and_rows(void **state)
{
    (void)state;
    huge self;
    if (huge_make(&self, BT_BF16, (int64_t)COLS * TILE_ROWS_MANY)) {
        for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
            each(&self, calls[i].call, calls[i].what);
        }
    } else {
        print_message("too little memory: skipped\n");
    }
    huge_release(&self);
}

static float value_at(const huge *self, const void *from, int64_t at)
{
    float value = 0;
    copy_to(self, &value, (const float *)from + at, sizeof value, BT_COPY_DEVICE_TO_HOST);
    return value;
}

// Sums of x[outer, reduce, inner]: each against that of a tile, so many times.
static void sums_match(const huge *self, int64_t inner, double times, double tolerance)
{
    bt_reduce_sum_args args = {.x = self->tile_x,
                               .y = statistics(self, 0),
                               .outer = 1,
                               .reduce = self->tile / inner,
                               .inner = inner,
                               .scale = 1,
                               .dtype = BT_BF16,
                               .y_dtype = BT_F32};
    run(self, BT_KERNEL_REDUCE_SUM, BT_BF16, &args);
    args.x = self->x;
    args.y = statistics(self, 1);
    args.reduce = self->count / inner;
    run(self, BT_KERNEL_REDUCE_SUM, BT_BF16, &args);
    for (int64_t at = 0; at<inner; at += inner> 8 ? inner / 8 : 1) {
        const double expected = times * (double)value_at(self, statistics(self, 0), at);
        const double got = (double)value_at(self, statistics(self, 1), at);
        if (!(got - expected <= tolerance && expected - got <= tolerance)) {
            fail_msg("sum %lld is %g, expected %g", (long long)at, got, expected);
        }
    }
}

static void sums_and_counts(void **state)
{
    (void)state;
    huge self;
    if (huge_make(&self, BT_BF16, (int64_t)COLS * TILE_ROWS_MANY)) {
        const int64_t tiles = self.count / self.tile;
        const double times = (double)tiles;
        // Terms up to 2: the error of a float sum in a tree of parts, relative to the terms.
        const double terms = 2.0 * 0x1p-23 * (double)self.count;
        sums_match(&self, COLS, times, 4 * terms / COLS + 1e-6 * times);
        sums_match(&self, 1, times, 4 * terms);
        bt_count_nonfinite_args count = {self.x, self.count, statistics(&self, 0), BT_BF16};
        run(&self, BT_KERNEL_COUNT_NONFINITE, BT_BF16, &count);
        int64_t found = -1;
        copy_to(&self, &found, statistics(&self, 0), sizeof found, BT_COPY_DEVICE_TO_HOST);
        assert_int_equal(found, 0);
    } else {
        print_message("too little memory: skipped\n");
    }
    huge_release(&self);
}

// Bytes: contiguous, off alignment (more than 2^31 packs), and as a transpose there and back.
static void copies(void **state)
{
    (void)state;
    huge self;
    if (huge_make(&self, BT_U8, 65536)) {
        bt_copy_args args = {.rank = 1,
                             .shape = {self.count},
                             .x = self.x,
                             .x_stride = {1},
                             .x_dtype = BT_U8,
                             .y = self.y,
                             .y_stride = {1},
                             .y_dtype = BT_U8};
        const size_t bytes = (size_t)self.count;
        copy_to(&self, self.tile_y, self.tile_x, (size_t)self.tile, BT_COPY_DEVICE_TO_DEVICE);
        run(&self, BT_KERNEL_COPY, BT_U8, &args);
        same(&self, "copy");
        assert_int_equal(self.device->backend->fill(self.device, self.y, 0xff, bytes, NULL), BT_OK);
        args.rank = 2;
        args.shape[0] = self.count / 65536;
        args.shape[1] = 65535; // odd: element by element
        args.x_stride[0] = args.y_stride[0] = 65536;
        args.x_stride[1] = args.y_stride[1] = 1;
        run(&self, BT_KERNEL_COPY, BT_U8, &args);
        same_at(&self, ((int64_t)1 << 31) - 65536, "copy off alignment");
        // Its transpose, [65536, rows], and back again into x's place.
        const int64_t rows = self.count / 65536;
        args.shape[0] = 65536;
        args.shape[1] = rows;
        args.x_stride[0] = 1;
        args.x_stride[1] = 65536;
        args.y_stride[0] = rows;
        args.y_stride[1] = 1;
        run(&self, BT_KERNEL_COPY, BT_U8, &args);
        args.x = self.y;
        args.y = self.x;
        args.shape[0] = rows;
        args.shape[1] = 65536;
        args.x_stride[0] = 1;
        args.x_stride[1] = rows;
        args.y_stride[0] = 65536;
        args.y_stride[1] = 1;
        assert_int_equal(self.device->backend->fill(self.device, self.x, 0xff, bytes, NULL), BT_OK);
        run(&self, BT_KERNEL_COPY, BT_U8, &args);
        void *y = self.y;
        self.y = self.x;
        same(&self, "transpose, twice");
        self.y = y;
    } else {
        print_message("too little memory: skipped\n");
    }
    huge_release(&self);
}

// Logits of more than 2^31 elements: losses repeat with the tile, and so do gradients.
static void cross_entropy(void **state)
{
    (void)state;
    enum { VOCAB = 4096, TILE_ROWS = 16 };
    huge self;
    int32_t *targets = calloc(1 << 20, sizeof *targets);
    if (targets && huge_make(&self, BT_BF16, (int64_t)VOCAB * TILE_ROWS)) {
        const int64_t rows = self.count / VOCAB;
        for (int64_t i = 0; i < rows; ++i) {
            targets[i] = (int32_t)(i % TILE_ROWS * 255);
        }
        copy_to(&self, statistics(&self, 0), targets, (size_t)rows * sizeof *targets,
                BT_COPY_HOST_TO_DEVICE);
        float *sums = statistics(&self, 1);
        bt_cross_entropy_args args = {.logits = self.x,
                                      .targets = statistics(&self, 0),
                                      .loss = sums,
                                      .lse = sums + (1 << 20),
                                      .mean = sums + (2 << 20),
                                      .inv_count = sums + (2 << 20) + 1,
                                      .bad_row = statistics(&self, 2),
                                      .rows = rows,
                                      .vocab = VOCAB,
                                      .logits_stride = VOCAB,
                                      .ignore = -100,
                                      .dtype = BT_BF16};
        run(&self, BT_KERNEL_CROSS_ENTROPY, BT_BF16, &args);
        for (int64_t row = rows - TILE_ROWS; row < rows; ++row) {
            assert_true(value_at(&self, args.loss, row) ==
                        value_at(&self, args.loss, row % TILE_ROWS));
        }
        bt_cross_entropy_backward_args back = {.logits = self.x,
                                               .targets = args.targets,
                                               .lse = args.lse,
                                               .inv_count = args.inv_count,
                                               .dmean = args.inv_count,
                                               .dlogits = self.y,
                                               .rows = rows,
                                               .vocab = VOCAB,
                                               .logits_stride = VOCAB,
                                               .ignore = -100,
                                               .dtype = BT_BF16};
        run(&self, BT_KERNEL_CROSS_ENTROPY_BACKWARD, BT_BF16, &back);
        back.logits = self.tile_x;
        back.dlogits = self.tile_y;
        back.rows = TILE_ROWS;
        run(&self, BT_KERNEL_CROSS_ENTROPY_BACKWARD, BT_BF16, &back);
        same(&self, "cross-entropy backward");
        huge_release(&self);
    } else {
        print_message("too little memory: skipped\n");
    }
    free(targets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_and_rows),
        cmocka_unit_test(sums_and_counts),
        cmocka_unit_test(copies),
        cmocka_unit_test(cross_entropy),
    };
    if (!test_device_open()) {
        return test_skip("no CUDA device");
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
