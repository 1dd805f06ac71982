// tests/unit/test_weight_grads.c - gradients with products that wait equal those without
//
// The device is the CPU with one row for groups, which computes what the CPU's does, can be taken
// away and can be told to fail. It counts calls, so that a test can check that there was a wait.
#include <stdlib.h>
#include <string.h>

#include "framework/nn/gpt2.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"

enum { ROWS_MOST = 128, GROUPS_MOST = 16, LAYERS = 3 };

static struct {
    bool serves;                // else the device has no row for groups
    int fail_at;                // the launch that fails, 1 is the first
    int launches;               // so far
    int64_t sizes[GROUPS_MOST]; // of the groups launched
    bt_kernel rows[ROWS_MOST];
    bt_kernel cpu; // the CPU's row
} group;

static bool accepts(const bt_device *device, const void *args)
{
    return group.serves && group.cpu.accepts(device, args);
}

static bt_status launch(const bt_launch *how, const void *args)
{
    const bt_gemm_grouped_args *call = args;
    if (group.launches < GROUPS_MOST) {
        group.sizes[group.launches] = call->count;
    }
    if (++group.launches == group.fail_at) {
        return bt_error(BT_STATUS_INTERNAL, "this group cannot start");
    }
    return group.cpu.launch(how, args);
}

static bt_backend backend;

static void open_device(fixture *f, bool serves)
{
    fixture_open(f, 0);
    int count = 0;
    const bt_kernel *rows = bt_kernel_table(&f->device, &count);
    assert_true(count <= ROWS_MOST);
    memset(&group, 0, sizeof group);
    group.serves = serves;
    for (int i = 0; i < count; ++i) {
        group.rows[i] = rows[i];
        if (rows[i].op == BT_KERNEL_GEMM_GROUPED) {
            group.cpu = rows[i];
            group.rows[i].accepts = accepts;
            group.rows[i].launch = launch;
        }
    }
    assert_non_null(group.cpu.launch);
    backend = bt_cpu_backend;
    backend.kind = BT_DEVICE_CUDA; // or the table would be the CPU's
    backend.kernels = group.rows;
    backend.kernel_count = count;
    f->device.backend = &backend;
}

static void close_device(fixture *f)
{
    f->device.backend = &bt_cpu_backend;
    fixture_close(f);
}

// ---- GPT-2 --------------------------------------------------------------------------------------

typedef struct gpt {
    fixture f;
    bt_params params;
    bt_gpt2 model;
    bt_tensor *ids, *targets;
} gpt;

static void open_gpt(gpt *g, bool serves)
{
    const bt_gpt2_config config = {
        .layers = LAYERS, .heads = 2, .width = 8, .vocab = 11, .context = 6};
    open_device(&g->f, serves);
    bt_params_init(&g->params, &g->f.context, BT_F32, BT_F32, 1337);
    ASSERT_OK(bt_gpt2_init(&g->params, &config, &g->model));
    g->ids = fixture_random(&g->f, BT_I32, BT_SHAPE(2, 6), 0, 11, 1);
    g->targets = fixture_random(&g->f, BT_I32, BT_SHAPE(12), 0, 11, 2);
}

static void close_gpt(gpt *g)
{
    bt_tensor_release(g->ids);
    bt_tensor_release(g->targets);
    bt_gpt2_release(&g->model);
    bt_params_release(&g->params);
    close_device(&g->f);
}

static bt_status backward(gpt *g)
{
    bt_tensor *loss = NULL;
    BT_TRY(bt_gpt2_loss(&g->f.context, &g->model, g->ids, g->targets, &loss));
    bt_status status = bt_backward(&g->f.context, loss, NULL);
    bt_tensor_release(loss);
    for (int64_t i = 0; i < g->params.count; ++i) {
        assert_int_equal(g->params.items[i].value->grad_pending, 0);
    }
    return status;
}

static void assert_same_grads(const gpt *a, const gpt *b)
{
    for (int64_t i = 0; i < a->params.count; ++i) {
        const bt_tensor *x = a->params.items[i].value->grad, *y = b->params.items[i].value->grad;
        assert_memory_equal(bt_tensor_data(x), bt_tensor_data(y), bt_tensor_bytes(x));
    }
}

static void assert_groups(int count)
{
    assert_int_equal(group.launches, count);
    for (int i = 0; i < count; ++i) {
        assert_int_equal(group.sizes[i], 4); // a block's: the tied head does not wait
    }
}

// Two micro-batches add up; with blocks that run again, and without.
static void a_block_is_a_group_with_the_same_bits(void **state)
{
    (void)state;
    for (int recompute = 0; recompute < BT_RECOMPUTE_COUNT; ++recompute) {
        gpt alone, grouped;
        open_gpt(&alone, false);
        alone.model.recompute = (bt_recompute_mode)recompute;
        ASSERT_OK(backward(&alone));
        ASSERT_OK(backward(&alone));
        assert_int_equal(group.launches, 0);
        open_gpt(&grouped, true);
        grouped.model.recompute = (bt_recompute_mode)recompute;
        ASSERT_OK(backward(&grouped));
        ASSERT_OK(backward(&grouped));
        assert_groups(2 * LAYERS);
        assert_same_grads(&alone, &grouped);
        close_gpt(&alone);
        close_gpt(&grouped);
    }
}

typedef struct announced {
    int calls;
    float first;
} announced;

static bt_status announce(void *self, bt_context *context, bt_tensor *grad)
{
    announced *a = self;
    (void)context;
    ++a->calls;
    a->first = *(const float *)bt_tensor_data(grad);
    return BT_OK;
}

// A hook sees its gradient complete, once; the groups are the same as without.
static void hooks_come_behind_the_group(void **state)
{
    (void)state;
    gpt plain, hooked;
    announced seen[16 * LAYERS] = {{0}};
    open_gpt(&plain, true);
    ASSERT_OK(backward(&plain));
    open_gpt(&hooked, true);
    assert_true(hooked.params.count <= 16 * LAYERS);
    for (int64_t i = 0; i < hooked.params.count; ++i) {
        ASSERT_OK(bt_tensor_set_grad_hook(&hooked.f.context, hooked.params.items[i].value,
                                          (bt_grad_hook){&seen[i], announce, NULL}));
    }
    ASSERT_OK(backward(&hooked));
    assert_groups(LAYERS);
    assert_same_grads(&plain, &hooked);
    for (int64_t i = 0; i < hooked.params.count; ++i) {
        assert_int_equal(seen[i].calls, 1);
        assert_memory_equal(&seen[i].first, bt_tensor_data(hooked.params.items[i].value->grad),
                            sizeof(float));
    }
    close_gpt(&plain);
    close_gpt(&hooked);
}

static void a_group_that_fails_is_named_and_dropped(void **state)
{
    (void)state;
    gpt right, failed;
    announced seen[2] = {{0}};
    open_gpt(&right, true);
    ASSERT_OK(backward(&right));
    open_gpt(&failed, true);
    for (int i = 0; i < 2; ++i) { // of the first group and of the second
        bt_tensor *weight = failed.model.blocks[LAYERS - 1 - i].mlp_proj.weight;
        ASSERT_OK(bt_tensor_set_grad_hook(&failed.f.context, weight,
                                          (bt_grad_hook){&seen[i], announce, NULL}));
    }
    group.fail_at = 2;
    ASSERT_FAILS(BT_STATUS_INTERNAL,
                 "weight gradients of \"h.1.mlp.c_proj.weight\" to \"h.1.attn.c_attn.weight\": "
                 "gemm_grouped_cpu: this group cannot start",
                 backward(&failed));
    assert_int_equal(group.launches, 2);
    assert_int_equal(seen[0].calls, 1);
    assert_int_equal(seen[1].calls, 0);
    bt_params_clear_grads(&failed.params);
    ASSERT_OK(backward(&failed));
    assert_same_grads(&right, &failed);
    close_gpt(&right);
    close_gpt(&failed);
}

static void anomaly_mode_lets_nothing_wait(void **state)
{
    (void)state;
    gpt g;
    open_gpt(&g, true);
    g.f.context.anomaly = true;
    ASSERT_OK(backward(&g));
    assert_int_equal(group.launches, 0);
    close_gpt(&g);
}

// ---- what could go wrong meanwhile --------------------------------------------------------------

enum { W, V, Z, LEAVES };

typedef struct setting {
    fixture f;
    bt_tensor *leaves[LEAVES]; // W, V [4, 4], Z [3, 4]
    bt_tensor *targets;        // [3]
} setting;

// Makes a scalar of the leaves.
typedef bt_status (*program)(setting *s, bt_tensor **out);

static bt_tensor *linear(setting *s, bt_tensor *x, bt_tensor *w, bt_tensor *residual)
{
    bt_tensor *y = NULL;
    ASSERT_OK(bt_linear(&s->f.context, x, w, NULL, residual, BT_ACTIVATION_NONE, &y));
    return y;
}

static void compare(program make, int least_launches)
{
    float *grads[2][LEAVES];
    for (int serves = 0; serves < 2; ++serves) {
        setting s;
        bt_tensor *out = NULL;
        open_device(&s.f, serves);
        for (int i = 0; i < LEAVES; ++i) {
            s.leaves[i] =
                fixture_random(&s.f, BT_F32, BT_SHAPE(i == Z ? 3 : 4, 4), -1, 1, (uint64_t)i);
            s.leaves[i]->requires_grad = true;
        }
        s.targets = fixture_random(&s.f, BT_I32, BT_SHAPE(3), 0, 4, 9);
        ASSERT_OK(make(&s, &out));
        ASSERT_OK(bt_backward(&s.f.context, out, NULL));
        for (int i = 0; i < LEAVES; ++i) {
            size_t size_bytes = bt_tensor_bytes(s.leaves[i]);
            grads[serves][i] = malloc(size_bytes);
            assert_non_null(grads[serves][i]);
            ASSERT_OK(bt_tensor_read(&s.f.context, s.leaves[i]->grad, grads[serves][i]));
            if (serves) {
                assert_memory_equal(grads[0][i], grads[1][i], size_bytes);
                free(grads[0][i]);
                free(grads[1][i]);
            }
            bt_tensor_release(s.leaves[i]);
        }
        assert_true(group.launches >= (serves ? least_launches : 0));
        bt_tensor_release(s.targets);
        bt_tensor_release(out);
        close_device(&s.f);
    }
}

static bt_status clear(void *self, bt_context *context, bt_tensor *grad)
{
    (void)self;
    return bt_tensor_fill(context, grad, 0);
}

// The gradient of the sum is an operand of W's product, that of r too: the hook must not clear it.
static bt_status sum_with_a_hook(setting *s, bt_tensor **out)
{
    bt_tensor *r = NULL;
    ASSERT_OK(bt_gelu(&s->f.context, s->leaves[Z], &r));
    ASSERT_OK(bt_tensor_set_grad_hook(&s->f.context, r, (bt_grad_hook){NULL, clear, NULL}));
    bt_tensor *x = linear(s, s->leaves[Z], s->leaves[V], NULL);
    bt_tensor *y = linear(s, x, s->leaves[W], r);
    bt_status status = bt_mean_all(&s->f.context, y, out);
    bt_tensor_release(r);
    bt_tensor_release(x);
    bt_tensor_release(y);
    return status;
}

static void a_hook_changes_no_operand(void **state)
{
    (void)state;
    compare(sum_with_a_hook, 1);
}

// W's product reads logits whose memory takes their gradient.
static bt_status logits_used_twice(setting *s, bt_tensor **out)
{
    bt_context *context = &s->f.context;
    bt_tensor *logits = linear(s, s->leaves[Z], s->leaves[V], NULL);
    bt_tensor *loss = NULL, *mean = NULL;
    ASSERT_OK(bt_cross_entropy(context, logits, s->targets, -100, true, &loss, NULL));
    bt_tensor *y = linear(s, logits, s->leaves[W], NULL);
    ASSERT_OK(bt_mean_all(context, y, &mean));
    bt_status status = bt_add(context, loss, mean, out);
    bt_tensor_release(logits);
    bt_tensor_release(loss);
    bt_tensor_release(mean);
    bt_tensor_release(y);
    return status;
}

static void logits_are_read_before_they_are_overwritten(void **state)
{
    (void)state;
    compare(logits_used_twice, 0); // V's and W's products run one by one
}

static bt_status body(bt_context *context, const void *self, bt_tensor *const *in, int in_count,
                      bt_tensor **out)
{
    const setting *s = self;
    (void)in_count;
    return bt_linear(context, in[0], s->leaves[W], NULL, NULL, BT_ACTIVATION_NONE, out);
}

// W behind a recomputed body, in it, and in another one before; V, a weight that the second is
// given.
static bt_status shared_with_recomputed(setting *s, bt_tensor **out)
{
    bt_context *context = &s->f.context;
    bt_tensor *a = NULL, *b = NULL;
    bt_tensor *x = linear(s, s->leaves[Z], s->leaves[V], NULL);
    ASSERT_OK(bt_recompute(context, body, s, &x, 1, &a));
    ASSERT_OK(bt_recompute(context, body, s, &a, 1, &b));
    bt_tensor *c = linear(s, b, s->leaves[W], b);
    bt_tensor *d = linear(s, c, s->leaves[V], b);
    bt_status status = bt_mean_all(context, d, out);
    bt_tensor *all[] = {a, b, c, d, x};
    for (int i = 0; i < 5; ++i) {
        bt_tensor_release(all[i]);
    }
    return status;
}

static void a_weight_may_be_shared(void **state)
{
    (void)state;
    compare(shared_with_recomputed, 0);
}

// 2^23 rows of two operands take 64 MiB, one more is too much.
static void large_operands_do_not_wait(void **state)
{
    (void)state;
    for (int more = 0; more < 2; ++more) {
        fixture f;
        bt_tensor *x = NULL, *w = NULL, *v = NULL, *y = NULL, *z = NULL, *sum = NULL, *out = NULL;
        open_device(&f, true);
        ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE((1 << 23) + more, 1), "x", &x));
        ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(1, 1), "w", &w));
        ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(1, 1), "v", &v));
        w->requires_grad = v->requires_grad = true;
        ASSERT_OK(bt_linear(&f.context, x, w, NULL, NULL, BT_ACTIVATION_NONE, &y));
        ASSERT_OK(bt_linear(&f.context, x, v, NULL, NULL, BT_ACTIVATION_NONE, &z));
        ASSERT_OK(bt_add(&f.context, y, z, &sum));
        ASSERT_OK(bt_mean_all(&f.context, sum, &out));
        ASSERT_OK(bt_backward(&f.context, out, NULL));
        assert_int_equal(group.launches, more ? 0 : 1);
        bt_tensor *all[] = {x, w, v, y, z, sum, out};
        for (int i = 0; i < 7; ++i) {
            bt_tensor_release(all[i]);
        }
        close_device(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_a_group_with_the_same_bits),
        cmocka_unit_test(hooks_come_behind_the_group),
        cmocka_unit_test(a_group_that_fails_is_named_and_dropped),
        cmocka_unit_test(anomaly_mode_lets_nothing_wait),
        cmocka_unit_test(a_hook_changes_no_operand),
        cmocka_unit_test(logits_are_read_before_they_are_overwritten),
        cmocka_unit_test(a_weight_may_be_shared),
        cmocka_unit_test(large_operands_do_not_wait),
    };
    return cmocka_run_group_tests_name("weight gradients", tests, NULL, NULL);
}
