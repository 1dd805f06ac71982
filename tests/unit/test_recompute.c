// tests/unit/test_recompute.c - recomputed bodies give the gradients that recorded ones give
#include <stdlib.h>

#include "framework/base/mem.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"

// Everything is [3, 3] f64. W and V are leaves, h = 2 V an activation, mask a constant.
enum { X, W, V, LEAVES };

typedef struct setting {
    fixture f;
    bt_tensor *leaves[LEAVES];
    bt_tensor *h, *mask;
} setting;

static void open_setting(setting *s, bool trains_x)
{
    static const char *const names[] = {"x", "w", "v"};
    fixture_open(&s->f, 0);
    for (int i = 0; i < LEAVES; ++i) {
        s->leaves[i] = fixture_random(&s->f, BT_F64, BT_SHAPE(3, 3), -1, 1, (uint64_t)i);
        s->leaves[i]->requires_grad = i != X || trains_x;
        s->leaves[i]->name = names[i];
    }
    s->mask = fixture_random(&s->f, BT_F64, BT_SHAPE(3, 3), -1, 1, 9);
    s->mask->name = "mask";
    ASSERT_OK(bt_scale(&s->f.context, s->leaves[V], 2, &s->h));
}

static void close_setting(setting *s)
{
    for (int i = 0; i < LEAVES; ++i) {
        assert_int_equal(s->leaves[i]->grad_pending, 0);
        bt_tensor_release(s->leaves[i]);
    }
    bt_tensor_release(s->h);
    bt_tensor_release(s->mask);
    fixture_close(&s->f);
}

// ---- bodies -------------------------------------------------------------------------------------

static bt_status use_weight(bt_context *context, const void *self, bt_tensor *const *in,
                            int in_count, bt_tensor **out)
{
    const setting *s = self;
    (void)in_count;
    return bt_linear(context, in[0], s->leaves[W], NULL, NULL, BT_ACTIVATION_GELU, out);
}

static bt_status use_activation(bt_context *context, const void *self, bt_tensor *const *in,
                                int in_count, bt_tensor **out)
{
    const setting *s = self;
    (void)in_count;
    return bt_linear(context, s->h, in[0], NULL, s->h, BT_ACTIVATION_NONE, out);
}

static bt_status use_mask(bt_context *context, const void *self, bt_tensor *const *in, int in_count,
                          bt_tensor **out)
{
    const setting *s = self;
    (void)in_count;
    return bt_mul(context, in[0], s->mask, out);
}

static bt_status use_everything(bt_context *context, const void *self, bt_tensor *const *in,
                                int in_count, bt_tensor **out)
{
    const setting *s = self;
    bt_tensor *product = NULL;
    (void)in_count;
    BT_TRY(bt_matmul(context, s->h, false, s->h, true, &product));
    bt_status status =
        bt_linear(context, in[0], s->leaves[W], NULL, product, BT_ACTIVATION_NONE, out);
    bt_tensor_release(product);
    return status;
}

static bt_status return_transposed(bt_context *context, const void *self, bt_tensor *const *in,
                                   int in_count, bt_tensor **out)
{
    (void)self, (void)in_count;
    return bt_transpose(context, in[0], 0, 1, out);
}

static bt_status return_input(bt_context *context, const void *self, bt_tensor *const *in,
                              int in_count, bt_tensor **out)
{
    (void)context, (void)self, (void)in_count;
    *out = bt_tensor_retain(in[0]);
    return BT_OK;
}

static bt_status return_leaf(bt_context *context, const void *self, bt_tensor *const *in,
                             int in_count, bt_tensor **out)
{
    const setting *s = self;
    (void)in_count;
    bt_tensor *unused = NULL;
    BT_TRY(bt_mul(context, in[0], s->leaves[W], &unused)); // what no op uses is not captured
    bt_tensor_release(unused);
    *out = bt_tensor_retain(s->leaves[W]);
    return BT_OK;
}

static bt_status return_activation(bt_context *context, const void *self, bt_tensor *const *in,
                                   int in_count, bt_tensor **out)
{
    const setting *s = self;
    (void)in_count;
    bt_tensor *unused = NULL;
    BT_TRY(bt_mul(context, in[0], s->h, &unused));
    bt_tensor_release(unused);
    *out = bt_tensor_retain(s->h);
    return BT_OK;
}

static bt_status return_constant(bt_context *context, const void *self, bt_tensor *const *in,
                                 int in_count, bt_tensor **out)
{
    const setting *s = self;
    (void)context, (void)in, (void)in_count;
    *out = bt_tensor_retain(s->mask);
    return BT_OK;
}

static bt_status nest(bt_context *context, const void *self, bt_tensor *const *in, int in_count,
                      bt_tensor **out)
{
    bt_tensor *inner = NULL;
    BT_TRY(bt_recompute(context, use_everything, self, in, in_count, &inner));
    bt_status status = bt_recompute(context, use_activation, self, &inner, 1, out);
    bt_tensor_release(inner);
    return status;
}

static const struct {
    const char *name;
    bt_recompute_body body;
} bodies[] = {{"use_weight", use_weight},
              {"use_activation", use_activation},
              {"use_mask", use_mask},
              {"use_everything", use_everything},
              {"return_transposed", return_transposed},
              {"return_input", return_input},
              {"return_leaf", return_leaf},
              {"return_activation", return_activation},
              {"return_constant", return_constant},
              {"nest", nest}};
enum { BODIES = sizeof bodies / sizeof bodies[0] };

// loss = sum over y^2 + y h, where y is what the body makes of x, twice over.
static bt_status make_loss(setting *s, bt_recompute_body body, bool recompute, bt_tensor **loss)
{
    bt_context *context = &s->f.context;
    bt_tensor *in = bt_tensor_retain(s->leaves[X]), *y = NULL, *a = NULL, *b = NULL, *sum = NULL;
    bt_status status = BT_OK;
    for (int i = 0; i < 2; ++i) {
        BT_TRY_GOTO(recompute ? bt_recompute(context, body, s, &in, 1, &y)
                              : body(context, s, &in, 1, &y),
                    done);
        bt_tensor_release(in);
        in = y;
        y = NULL;
    }
    BT_TRY_GOTO(bt_mul(context, in, in, &a), done);
    BT_TRY_GOTO(bt_mul(context, in, s->h, &b), done);
    BT_TRY_GOTO(bt_add(context, a, b, &sum), done);
    BT_TRY_GOTO(bt_sum_all(context, sum, loss), done);
done:
    bt_tensor_release(in);
    bt_tensor_release(a);
    bt_tensor_release(b);
    bt_tensor_release(sum);
    return status;
}

static void recomputed_bodies_give_the_same_gradients(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * BODIES; ++i) {
        double *grads[2][LEAVES];
        for (int recompute = 0; recompute < 2; ++recompute) {
            setting s;
            bt_tensor *loss = NULL;
            open_setting(&s, i % 2);
            ASSERT_OK(make_loss(&s, bodies[i / 2].body, recompute, &loss));
            ASSERT_OK(bt_backward(&s.f.context, loss, NULL));
            for (int k = 0; k < LEAVES; ++k) {
                const bt_tensor *grad = s.leaves[k]->grad;
                grads[recompute][k] = grad ? fixture_read(&s.f, grad) : calloc(9, sizeof(double));
            }
            bt_tensor_release(loss);
            close_setting(&s);
        }
        for (int k = 0; k < LEAVES; ++k) {
            test_assert_close(grads[1][k], grads[0][k], 9, 1e-13, 1e-13, bodies[i / 2].name);
            free(grads[0][k]);
            free(grads[1][k]);
        }
    }
}

// ---- what may not change meanwhile --------------------------------------------------------------

static void a_captured_tensor_written_meanwhile_is_named(void **state)
{
    (void)state;
    static const struct {
        bt_recompute_body body;
        int leaf; // -1: the mask
        const char *message;
    } cases[] = {{use_weight, W, "recompute: the tensor \"w\", saved for backward"},
                 {use_mask, -1, "recompute: the tensor \"mask\", saved for backward"},
                 {nest, W, "recompute: the tensor \"w\", saved for backward"},
                 {use_mask, X, "recompute: the tensor \"x\", saved for backward"}};
    for (int i = 0; i < 4; ++i) {
        setting s;
        bt_tensor *y = NULL, *sum = NULL;
        open_setting(&s, true);
        bt_tensor *in[] = {s.leaves[X]};
        ASSERT_OK(bt_recompute(&s.f.context, cases[i].body, &s, in, 1, &y));
        ASSERT_OK(bt_sum_all(&s.f.context, y, &sum));
        ASSERT_OK(bt_tensor_fill(&s.f.context, cases[i].leaf < 0 ? s.mask : s.leaves[cases[i].leaf],
                                 100));
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, cases[i].message,
                     bt_backward(&s.f.context, sum, NULL));
        bt_tensor_release(y);
        bt_tensor_release(sum);
        close_setting(&s);
    }
}

// h is on a tape that was reset: the body cannot feed it.
static void a_captured_spent_tensor_is_refused_at_forward_time(void **state)
{
    (void)state;
    setting s;
    bt_tensor *y = NULL;
    open_setting(&s, true);
    bt_tape_reset(s.f.tape);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "was reset",
                 bt_recompute(&s.f.context, use_activation, &s, &s.leaves[X], 1, &y));
    assert_null(y);
    close_setting(&s);
}

// ---- hooks --------------------------------------------------------------------------------------

typedef struct announced {
    int calls;
    double first;
} announced;

static bt_status announce(void *self, bt_context *context, bt_tensor *grad)
{
    announced *a = self;
    (void)context;
    ++a->calls;
    a->first = *(const double *)bt_tensor_data(grad);
    return BT_OK;
}

// Two bodies, and an op outside of them, feed w: its hook sees the whole gradient, once.
static void a_leaf_is_announced_once(void **state)
{
    (void)state;
    static const bt_recompute_body users[] = {use_weight, use_everything, nest, return_leaf};
    for (int i = 0; i < 8; ++i) {
        setting s;
        announced seen = {0}, activation = {0};
        bt_tensor *loss = NULL, *more = NULL, *sum = NULL, *both = NULL;
        bt_context *context = &s.f.context;
        open_setting(&s, false);
        ASSERT_OK(
            bt_tensor_set_grad_hook(context, s.leaves[W], (bt_grad_hook){&seen, announce, NULL}));
        ASSERT_OK(
            bt_tensor_set_grad_hook(context, s.h, (bt_grad_hook){&activation, announce, NULL}));
        ASSERT_OK(make_loss(&s, users[i / 2], true, &loss));
        if (i % 2) {
            ASSERT_OK(bt_gelu(context, s.leaves[W], &more));
            ASSERT_OK(bt_sum_all(context, more, &sum));
            ASSERT_OK(bt_add(context, loss, sum, &both));
        }
        ASSERT_OK(bt_backward(context, both ? both : loss, NULL));
        assert_int_equal(seen.calls, 1);
        assert_int_equal(activation.calls, 1);
        assert_true(seen.first == *(const double *)bt_tensor_data(s.leaves[W]->grad));
        bt_tensor *all[] = {loss, more, sum, both};
        for (int k = 0; k < 4; ++k) {
            bt_tensor_release(all[k]);
        }
        close_setting(&s);
    }
}

// ---- failures -----------------------------------------------------------------------------------

static bt_status run_all(setting *s)
{
    bt_tensor *loss = NULL;
    bt_status status = make_loss(s, nest, true, &loss);
    if (status == BT_OK) {
        status = bt_backward(&s->f.context, loss, NULL);
    }
    bt_tensor_release(loss);
    return status;
}

// The n-th allocation fails, on the host and on the device: nothing leaks, and nothing is left
// pending (close_setting checks both).
static void failing_allocations_leak_nothing(void **state)
{
    (void)state;
    for (int where = 0; where < 2; ++where) {
        int64_t failures = 0;
        for (int64_t n = 1; n < 2000; ++n) {
            setting s;
            open_setting(&s, true);
            if (where == 0) {
                bt_mem_fail_at(n);
            } else {
                bt_pool_fail_at(s.f.pool, n);
            }
            bt_status status = run_all(&s);
            bt_mem_fail_at(0);
            bt_pool_fail_at(s.f.pool, 0);
            close_setting(&s);
            if (status == BT_OK) {
                break;
            }
            assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
            ++failures;
        }
        assert_true(failures > 20);
        assert_true(failures < 1990);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recomputed_bodies_give_the_same_gradients),
        cmocka_unit_test(a_captured_tensor_written_meanwhile_is_named),
        cmocka_unit_test(a_captured_spent_tensor_is_refused_at_forward_time),
        cmocka_unit_test(a_leaf_is_announced_once),
        cmocka_unit_test(failing_allocations_leak_nothing),
    };
    return cmocka_run_group_tests_name("recompute", tests, NULL, NULL);
}
