// tests/unit/test_cpu_attention.c - attention of the CPU, forward and backward
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/kernel.h"

static const bt_dtype reals[] = {BT_F32, BT_F64};

typedef struct attention_case {
    int64_t batch, heads, tokens, dim;
    bool causal;
} attention_case;

// Everything of one case as doubles, [B, H, T, D] and [B, H, T].
typedef struct attention_data {
    double *q, *k, *v, *o, *d_o, *dq, *dk, *dv, *lse;
    int64_t count, rows;
} attention_data;

static attention_data data_make(const attention_case *test)
{
    attention_data data = {.rows = test->batch * test->heads * test->tokens};
    data.count = data.rows * test->dim;
    double **const all[] = {&data.q,   &data.k,  &data.v,  &data.o,
                            &data.d_o, &data.dq, &data.dk, &data.dv};
    for (int i = 0; i < 8; ++i) {
        *all[i] = test_doubles(data.count);
        test_random(*all[i], data.count, (uint64_t)i, -2, 2);
    }
    data.lse = test_doubles(data.rows);
    return data;
}

static void data_release(attention_data *data)
{
    free(data->q), free(data->k), free(data->v), free(data->o), free(data->d_o);
    free(data->dq), free(data->dk), free(data->dv), free(data->lse);
}

static double dot(const double *x, const double *y, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
        sum += x[i] * y[i];
    }
    return sum;
}

// The definition, a head at a time, with the T x T probabilities written out.
static void reference(const attention_case *test, double scale, attention_data *data)
{
    const int64_t T = test->tokens, D = test->dim;
    double *p = test_doubles(T * T);
    memset(data->dk, 0, (size_t)data->count * sizeof(double));
    memset(data->dv, 0, (size_t)data->count * sizeof(double));
    memset(data->dq, 0, (size_t)data->count * sizeof(double));
    memset(data->o, 0, (size_t)data->count * sizeof(double));
    for (int64_t head = 0; head < test->batch * test->heads; ++head) {
        const int64_t at = head * T * D;
        for (int64_t i = 0; i < T; ++i) {
            const int64_t seen = test->causal ? i + 1 : T;
            double sum = 0;
            for (int64_t j = 0; j < seen; ++j) {
                p[i * T + j] = exp(scale * dot(data->q + at + i * D, data->k + at + j * D, D));
                sum += p[i * T + j];
            }
            data->lse[head * T + i] = sum > 0 ? log(sum) : -TEST_INFINITY;
            for (int64_t j = 0; j < seen; ++j) {
                p[i * T + j] /= sum;
                for (int64_t d = 0; d < D; ++d) {
                    data->o[at + i * D + d] += p[i * T + j] * data->v[at + j * D + d];
                }
            }
            const double delta = dot(data->o + at + i * D, data->d_o + at + i * D, D);
            for (int64_t j = 0; j < seen; ++j) {
                const double dp = dot(data->d_o + at + i * D, data->v + at + j * D, D);
                const double ds = scale * p[i * T + j] * (dp - delta);
                for (int64_t d = 0; d < D; ++d) {
                    data->dv[at + j * D + d] += p[i * T + j] * data->d_o[at + i * D + d];
                    data->dq[at + i * D + d] += ds * data->k[at + j * D + d];
                    data->dk[at + j * D + d] += ds * data->q[at + i * D + d];
                }
            }
        }
    }
    free(p);
}

// A view of part `part` of `parts` in a [B, T, parts, H, D] buffer.
static bt_attention_view view_of(const attention_case *test, const test_buffer *buffer, int part,
                                 int parts)
{
    const int64_t width = test->heads * test->dim, token = parts * width;
    char *base = (char *)buffer->data + (size_t)(part * width) * bt_dtype_size(buffer->dtype);
    return (bt_attention_view){base, test->tokens * token, token, test->dim};
}

// Moves between [B, H, T, D] doubles and a part of a buffer's doubles.
static void transfer(const attention_case *test, double *plain, double *laid, int part, int parts,
                     bool to_buffer)
{
    const int64_t width = test->heads * test->dim, T = test->tokens, D = test->dim;
    for (int64_t i = 0; i < test->batch * test->heads * T * D; ++i) {
        const int64_t d = i % D, t = i / D % T, h = i / D / T % test->heads;
        const int64_t b = i / D / T / test->heads;
        double *place = &laid[((b * T + t) * parts + part) * width + h * D + d];
        *(to_buffer ? place : &plain[i]) = to_buffer ? plain[i] : *place;
    }
}

static void compare_part(const attention_case *test, const test_buffer *buffer, int part, int parts,
                         const double *expected, double tolerance, const char *what)
{
    const int64_t count = buffer->count / parts;
    double *laid = test_doubles(buffer->count), *got = test_doubles(count);
    test_buffer_read(buffer, laid);
    transfer(test, got, laid, part, parts, false);
    test_assert_close(got, expected, count, tolerance, tolerance, what);
    free(laid), free(got);
}

static test_buffer lay_out(const attention_case *test, bt_dtype dtype, double **parts, int count,
                           int64_t each)
{
    double *laid = test_doubles(each * count);
    for (int i = 0; i < count; ++i) {
        transfer(test, parts[i], laid, i, count, true);
    }
    test_buffer buffer = test_buffer_make(dtype, laid, each * count);
    free(laid);
    return buffer;
}

static void check_attention(const attention_case *test, bt_dtype dtype)
{
    const double scale = 1 / sqrt((double)test->dim + 1e-9), eps = bt_dtype_epsilon(dtype);
    attention_data data = data_make(test);
    const int64_t count = data.count;
    test_buffer qkv = lay_out(test, dtype, (double *[]){data.q, data.k, data.v}, 3, count);
    test_buffer d_o = lay_out(test, dtype, &data.d_o, 1, count);
    test_buffer o = test_buffer_make(dtype, NULL, count);
    test_buffer lse = test_buffer_make(dtype, NULL, data.rows);
    test_buffer dqkv = test_buffer_make(dtype, NULL, 3 * count);
    bt_attention_args args = {.q = view_of(test, &qkv, 0, 3), .lse = lse.data};
    args.k = view_of(test, &qkv, 1, 3), args.v = view_of(test, &qkv, 2, 3);
    args.o = view_of(test, &o, 0, 1);
    args.shape = (bt_attention_shape){.batch = test->batch,
                                      .heads = test->heads,
                                      .kv_heads = test->heads,
                                      .q_tokens = test->tokens,
                                      .kv_tokens = test->tokens,
                                      .head_dim = test->dim,
                                      .scale = scale,
                                      .causal = test->causal};
    args.dtype = dtype;
    TEST_KERNEL(BT_KERNEL_ATTENTION, dtype, &args, &o, &lse);
    reference(test, scale, &data);
    // Scores of size up to 4 sqrt(D) are rounded before exp; then sums over D or T products.
    const double tolerance = 16 * eps * sqrt((double)(test->dim + test->tokens) + 16);
    double *got = test_doubles(data.rows);
    compare_part(test, &o, 0, 1, data.o, tolerance, "o");
    test_buffer_read(&lse, got);
    test_assert_close(got, data.lse, data.rows, tolerance, tolerance, "lse");

    bt_attention_backward_args back = {.q = args.q, .k = args.k, .v = args.v, .o = args.o};
    back.d_o = view_of(test, &d_o, 0, 1), back.lse = lse.data;
    back.dq = view_of(test, &dqkv, 0, 3), back.dk = view_of(test, &dqkv, 1, 3);
    back.dv = view_of(test, &dqkv, 2, 3);
    back.shape = args.shape, back.dtype = dtype;
    TEST_KERNEL(BT_KERNEL_ATTENTION_BACKWARD, dtype, &back, &dqkv);
    compare_part(test, &dqkv, 0, 3, data.dq, 8 * tolerance, "dq");
    compare_part(test, &dqkv, 1, 3, data.dk, 8 * tolerance, "dk");
    compare_part(test, &dqkv, 2, 3, data.dv, 8 * tolerance, "dv");
    free(got);
    data_release(&data);
    test_buffer_release(&qkv), test_buffer_release(&d_o), test_buffer_release(&o);
    test_buffer_release(&lse), test_buffer_release(&dqkv);
}

static void test_shapes(void **state)
{
    (void)state;
    const attention_case cases[] = {
        {1, 1, 1, 1, true},    {1, 1, 1, 8, false},  {2, 3, 5, 4, true},   {2, 3, 5, 4, false},
        {1, 2, 63, 16, true},  {1, 2, 64, 16, true}, {1, 2, 65, 16, true}, {2, 2, 150, 8, true},
        {2, 2, 130, 8, false}, {0, 2, 10, 8, true},  {2, 1, 0, 8, true},   {1, 4, 128, 64, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        check_attention(&cases[i], reals[0]);
        check_attention(&cases[i], reals[1]);
    }
}

// A NaN in query row 3 spoils that row alone; large scores neither overflow nor vanish.
static void test_nan_and_large_scores(void **state)
{
    (void)state;
    enum { T = 6, D = 2 };
    double q[T * D], k[T * D], v[T * D], o[T * D];
    for (int i = 0; i < T * D; ++i) {
        q[i] = 300, k[i] = i < 2 ? 300 : 1, v[i] = i;
    }
    q[3 * D] = TEST_NAN;
    test_buffer bq = test_buffer_make(BT_F32, q, T * D), bk = test_buffer_make(BT_F32, k, T * D);
    test_buffer bv = test_buffer_make(BT_F32, v, T * D);
    test_buffer bo = test_buffer_make(BT_F32, NULL, T * D);
    test_buffer lse = test_buffer_make(BT_F32, NULL, T);
    bt_attention_args args = {.q = {bq.data, T * D, D, D}, .k = {bk.data, T * D, D, D}};
    args.v = (bt_attention_view){bv.data, T * D, D, D};
    args.o = (bt_attention_view){bo.data, T * D, D, D}, args.lse = lse.data;
    args.shape = (bt_attention_shape){.batch = 1,
                                      .heads = 1,
                                      .kv_heads = 1,
                                      .q_tokens = T,
                                      .kv_tokens = T,
                                      .head_dim = D,
                                      .scale = 1,
                                      .causal = true};
    args.dtype = BT_F32;
    TEST_KERNEL(BT_KERNEL_ATTENTION, BT_F32, &args, &bo, &lse);
    test_buffer_read(&bo, o);
    for (int t = 0; t < T; ++t) {
        for (int d = 0; d < D; ++d) {
            assert_true(t == 3 ? isnan(o[t * D + d]) : o[t * D + d] == v[d]);
        }
    }
    args.compute = BT_COMPUTE_TF32;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "attention_cpu_f32",
                 test_kernel_status(BT_KERNEL_ATTENTION, BT_F32, &args));
    test_buffer_release(&bq), test_buffer_release(&bk), test_buffer_release(&bv);
    test_buffer_release(&bo), test_buffer_release(&lse);
}

// Without room for one tile the kernel refuses; with room for one it does with one thread.
static void test_workspace(void **state)
{
    (void)state;
    enum { T = 4 };
    float q[T] = {1, 2, 3, 4}, o[T], lse[T], space[64 * T];
    bt_attention_view view = {q, T, 1, 1}, out = {o, T, 1, 1};
    bt_attention_args args = {.q = view, .k = view, .v = view, .o = out, .lse = lse};
    args.shape = (bt_attention_shape){.batch = 1,
                                      .heads = 1,
                                      .kv_heads = 1,
                                      .q_tokens = T,
                                      .kv_tokens = T,
                                      .head_dim = 1,
                                      .scale = 1,
                                      .causal = true};
    bt_device device;
    const bt_kernel *kernel = NULL;
    args.dtype = BT_F32;
    ASSERT_OK(bt_device_open("cpu", 0, &device));
    ASSERT_OK(bt_kernel_find(&device, BT_KERNEL_ATTENTION, BT_F32, &args, &kernel));
    bt_launch launch = {&device, NULL, space, sizeof space - 1, 0};
    ASSERT_FAILS(BT_STATUS_INTERNAL, "workspace", kernel->launch(&launch, &args));
    launch.workspace_bytes = sizeof space;
    ASSERT_OK(kernel->launch(&launch, &args));
    assert_true(o[0] == 1);
    bt_device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_nan_and_large_scores),
        cmocka_unit_test(test_workspace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
