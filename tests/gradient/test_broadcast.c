// tests/gradient/test_broadcast.c - gradients of a parameter that is broadcast, against plain loops
//
// y = f(x, p) or f(p, x) with a parameter p whose shape is smaller than x's. The gradient of an
// element of p is a sum of terms t over the elements of y that it was broadcast to, which the test
// adds up in long double. Allowed is
//   (log2 n + 8) u_sum S + r u S
// where S = sum |t|, n is the number of terms and u_sum the unit roundoff of the type in which a
// parameter's gradient is summed (f32 at bf16; kernels sum in parts, so the error grows with the
// logarithm), u that of the type of x and p, and r how often f's backward rounds a term (0 for
// add and sub: there nothing but the sum rounds).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fixture.h"
#include "tests/support/test.h"

static const bt_shape x_shape = {3, {67, 5, 61}};
static const bt_shape p_shapes[] = {
    {1, {61}},        {2, {5, 61}},    {2, {5, 1}},    {1, {1}},        {0, {0}},
    {3, {67, 1, 61}}, {3, {67, 1, 1}}, {3, {1, 5, 1}}, {3, {67, 5, 1}}, {3, {67, 5, 61}}};

typedef struct broadcast_case {
    bt_binary function;
    bool p_first;
    bt_shape p_shape;
    bt_dtype dtype;
    bool recompute;
} broadcast_case;

typedef struct setting {
    fixture f;
    const broadcast_case *c;
    bt_tensor *x, *p, *seed;
} setting;

static double to_bf16(double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    bits &= 0xFFFF0000u;
    memcpy(&narrow, &bits, sizeof bits);
    return (double)narrow;
}

// Positive, so that S is the size of the sum itself, and exact in every type.
static bt_tensor *draw(fixture *f, bt_dtype dtype, bt_shape shape, uint64_t seed, double **values)
{
    bt_tensor *drawn = fixture_random(f, BT_F64, shape, 0.5, 2, seed);
    *values = fixture_read(f, drawn);
    for (int64_t i = 0; i < bt_tensor_count(drawn); ++i) {
        (*values)[i] = to_bf16((*values)[i]);
    }
    bt_tensor *tensor = fixture_doubles(f, dtype, shape, *values);
    bt_tensor_release(drawn);
    return tensor;
}

static bt_status body(bt_context *context, const void *self, bt_tensor *const *in, int in_count,
                      bt_tensor **out)
{
    const setting *s = self;
    (void)in_count;
    return s->c->p_first ? bt_binary_op(context, s->c->function, s->p, in[0], out)
                         : bt_binary_op(context, s->c->function, in[0], s->p, out);
}

// Which element of p element i of x meets.
static int64_t element_of(const bt_shape *p_shape, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int axis = x_shape.rank - 1; axis >= 0; --axis) {
        const int own = axis - (x_shape.rank - p_shape->rank);
        const int64_t index = i % x_shape.size[axis];
        i /= x_shape.size[axis];
        if (own >= 0) {
            at += p_shape->size[own] == 1 ? 0 : index * step;
            step *= p_shape->size[own];
        }
    }
    return at;
}

static double term_of(const broadcast_case *c, double x, double p, double w)
{
    switch (c->function) {
    case BT_BINARY_ADD:
        return w;
    case BT_BINARY_SUB:
        return c->p_first ? w : -w;
    case BT_BINARY_MUL:
        return w * x;
    case BT_BINARY_DIV:
        return c->p_first ? w / x : -w * x / (p * p);
    case BT_BINARY_COUNT:
        break;
    }
    fail_msg("function %d", (int)c->function);
    return 0;
}

static double unit_roundoff(bt_dtype dtype)
{
    return dtype == BT_BF16 ? 0x1p-8 : dtype == BT_F32 ? 0x1p-24 : 0x1p-53;
}

static double allowed(const broadcast_case *c, double count, double size)
{
    const bt_dtype sums = c->dtype == BT_BF16 ? BT_F32 : c->dtype;
    const double roundings = c->function == BT_BINARY_MUL   ? 1
                             : c->function == BT_BINARY_DIV ? (c->p_first ? 1 : 4)
                                                            : 0;
    return ((log2(count) + 8) * unit_roundoff(sums) + roundings * unit_roundoff(c->dtype)) * size;
}

// The first element of p whose gradient is wrong, or -1.
static int64_t first_wrong(const broadcast_case *c, const double *x, const double *p,
                           const double *w, const double *grad)
{
    const int64_t count = bt_shape_count(&c->p_shape), total = bt_shape_count(&x_shape);
    long double *sum = calloc((size_t)count, sizeof *sum); // its own rounding is not to count
    double *size = calloc((size_t)count, sizeof *size);
    int64_t wrong = -1;
    for (int64_t i = 0; i < total; ++i) {
        const int64_t at = element_of(&c->p_shape, i);
        const double term = term_of(c, x[i], p[at], w[i]);
        sum[at] += (long double)term;
        size[at] += fabs(term);
    }
    for (int64_t k = count - 1; k >= 0; --k) {
        const double terms = (double)total / (double)count;
        wrong = !(fabs(grad[k] - (double)sum[k]) <= allowed(c, terms, size[k])) ? k : wrong;
    }
    free(sum);
    free(size);
    return wrong;
}

static void check(const broadcast_case *c, bool corrupt)
{
    setting s = {.c = c};
    double *x, *p, *w;
    bt_tensor *y = NULL;
    fixture_open(&s.f, 0);
    s.x = draw(&s.f, c->dtype, x_shape, 1, &x);
    s.p = draw(&s.f, c->dtype, c->p_shape, 2, &p);
    s.seed = draw(&s.f, c->dtype, x_shape, 3, &w);
    s.p->requires_grad = true;
    s.p->grad_dtype = c->dtype == BT_F64 ? BT_F64 : BT_F32;
    ASSERT_OK(c->recompute ? bt_recompute(&s.f.context, body, &s, &s.x, 1, &y)
                           : body(&s.f.context, &s, &s.x, 1, &y));
    ASSERT_OK(bt_backward(&s.f.context, y, s.seed));
    double *grad = fixture_read(&s.f, s.p->grad);
    if (corrupt) { // as if the sum were rounded to bf16
        grad[0] = to_bf16(grad[0] * (1 - 0x1p-12));
    }
    const int64_t wrong = first_wrong(c, x, p, w, grad);
    if (wrong != (corrupt ? 0 : -1)) {
        char text[BT_SHAPE_TEXT_BYTES];
        fail_msg("%s, parameter %s %s%s, %s: element %lld is wrong: %.12g",
                 bt_binary_name(c->function), bt_shape_text(&c->p_shape, text),
                 c->p_first ? "first" : "second", c->recompute ? ", recomputed" : "",
                 bt_dtype_name(c->dtype), (long long)wrong, grad[wrong < 0 ? 0 : wrong]);
    }
    bt_tensor *all[] = {s.x, s.p, s.seed, y};
    double *values[] = {x, p, w, grad};
    for (int i = 0; i < 4; ++i) {
        bt_tensor_release(all[i]);
        free(values[i]);
    }
    fixture_close(&s.f);
}

static void broadcast_parameters_have_right_gradients(void **state)
{
    (void)state;
    static const bt_dtype dtypes[] = {BT_F64, BT_F32, BT_BF16};
    for (size_t shape = 0; shape < sizeof p_shapes / sizeof p_shapes[0]; ++shape) {
        for (int how = 0; how < 3 * 2 * 2 * BT_BINARY_COUNT; ++how) {
            check(&(broadcast_case){.function = (bt_binary)(how / 12),
                                    .p_first = how / 6 % 2,
                                    .p_shape = p_shapes[shape],
                                    .dtype = dtypes[how % 3],
                                    .recompute = how / 3 % 2},
                  false);
        }
    }
}

static void checker_finds_a_sum_rounded_to_bf16(void **state)
{
    (void)state;
    check(&(broadcast_case){.function = BT_BINARY_ADD, .p_shape = {1, {61}}, .dtype = BT_BF16},
          true);
    check(&(broadcast_case){.function = BT_BINARY_MUL, .p_shape = {1, {61}}, .dtype = BT_F32},
          true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broadcast_parameters_have_right_gradients),
        cmocka_unit_test(checker_finds_a_sum_rounded_to_bf16),
    };
    return cmocka_run_group_tests_name("gradient of broadcast parameters", tests, NULL, NULL);
}
