// tests/unit/test_homes.c - gradients that have a place, and storages whose memory comes and goes
#include <string.h>

#include "framework/nn/gpt2.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"

enum { LAYERS = 2, MOST = 32 };

typedef struct gpt {
    fixture f;
    bt_params params;
    bt_gpt2 model;
    bt_tensor *ids, *targets, *flat;
} gpt;

static void open_gpt(gpt *g, bt_dtype compute, bt_recompute_mode recompute)
{
    const bt_gpt2_config config = {
        .layers = LAYERS, .heads = 2, .width = 8, .vocab = 11, .context = 6};
    *g = (gpt){0};
    fixture_open(&g->f, 0);
    bt_params_init(&g->params, &g->f.context, BT_F32, compute, 1337);
    ASSERT_OK(bt_gpt2_init(&g->params, &config, &g->model));
    assert_true(g->params.count <= MOST);
    g->model.recompute = recompute;
    g->ids = fixture_random(&g->f, BT_I32, BT_SHAPE(2, 6), 0, 11, 1);
    g->targets = fixture_random(&g->f, BT_I32, BT_SHAPE(12), 0, 11, 2);
}

static void close_gpt(gpt *g)
{
    bt_tensor_release(g->flat);
    bt_tensor_release(g->ids);
    bt_tensor_release(g->targets);
    bt_gpt2_release(&g->model);
    bt_params_release(&g->params);
    fixture_close(&g->f);
}

// One flat tensor, with an element of 1e30 before each home and after the last.
static void give_homes(gpt *g)
{
    const int64_t room = bt_params_element_count(&g->params) + g->params.count + 1;
    int64_t at = 1;
    ASSERT_OK(bt_tensor_create(&g->f.context, BT_F32, BT_SHAPE(room), "flat", &g->flat));
    ASSERT_OK(bt_tensor_fill(&g->f.context, g->flat, 1e30)); // what the backward must overwrite
    for (int64_t i = 0; i < g->params.count; ++i) {
        bt_tensor *leaf = g->params.items[i].value;
        int64_t stride[BT_MAX_RANK];
        bt_shape_strides(&leaf->shape, stride);
        ASSERT_OK(bt_tensor_view(g->flat, leaf->shape, stride, at, &leaf->home));
        at += bt_tensor_count(leaf) + 1;
    }
}

static void check_guards(const gpt *g)
{
    const float *flat = bt_tensor_data(g->flat);
    int64_t at = 0;
    for (int64_t i = 0; i <= g->params.count; ++i) {
        assert_true(flat[at] >= 1e30F && flat[at] <= 1e30F);
        at += i < g->params.count ? bt_tensor_count(g->params.items[i].value) + 1 : 0;
    }
}

static void backward(gpt *g)
{
    bt_tensor *loss = NULL;
    g->f.context.tape = g->f.tape;
    ASSERT_OK(bt_gpt2_loss(&g->f.context, &g->model, g->ids, g->targets, &loss));
    ASSERT_OK(bt_backward(&g->f.context, loss, NULL));
    g->f.context.tape = NULL;
    bt_tensor_release(loss);
}

// The same bits as in its own memory: written first, then added to, and written again once the
// gradients are dropped.
static void gradients_are_written_in_their_homes(void **state)
{
    (void)state;
    static const bt_dtype computes[] = {BT_F32, BT_BF16};
    for (int i = 0; i < 2 * BT_RECOMPUTE_COUNT; ++i) {
        gpt plain, homed;
        open_gpt(&plain, computes[i % 2], (bt_recompute_mode)(i / 2));
        open_gpt(&homed, computes[i % 2], (bt_recompute_mode)(i / 2));
        give_homes(&homed);
        for (int pass = 0; pass < 3; ++pass) {
            if (pass == 2) {
                bt_params_clear_grads(&plain.params);
                bt_params_clear_grads(&homed.params);
            }
            backward(&plain);
            backward(&homed);
            for (int64_t p = 0; p < homed.params.count; ++p) {
                const bt_tensor *grad = homed.params.items[p].value->grad;
                assert_ptr_equal(grad, homed.params.items[p].value->home);
                assert_memory_equal(bt_tensor_data(grad),
                                    bt_tensor_data(plain.params.items[p].value->grad),
                                    bt_tensor_bytes(grad));
            }
            check_guards(&homed);
        }
        close_gpt(&plain);
        close_gpt(&homed);
    }
}

// A leaf of another type than the op writes, and one that fills two inputs of an op.
static void what_an_op_cannot_write_there_is_copied(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    static const double twos[] = {2, 2, 2};
    bt_tensor *x = fixture_doubles(&f, BT_F32, BT_SHAPE(3), twos), *y = NULL, *sum = NULL;
    x->requires_grad = true;
    ASSERT_OK(bt_tensor_create(&f.context, BT_F32, BT_SHAPE(3), "home", &x->home));
    ASSERT_OK(bt_mul(&f.context, x, x, &y));
    ASSERT_OK(bt_sum_all(&f.context, y, &sum));
    ASSERT_OK(bt_backward(&f.context, sum, NULL));
    assert_ptr_equal(x->grad, x->home);
    for (int i = 0; i < 3; ++i) {
        const float slope = ((const float *)bt_tensor_data(x->home))[i];
        assert_true(slope >= 4 && slope <= 4);
    }
    bt_tensor_release(x);
    bt_tensor_release(y);
    bt_tensor_release(sum);
    fixture_close(&f);
}

typedef struct source {
    float kept[3]; // what fetch brings back
    int calls, filled;
} source;

static bt_status fetch(void *self, bt_context *context, bt_storage *storage)
{
    source *s = self;
    ++s->calls;
    if (storage->data) {
        return BT_OK;
    }
    BT_TRY(bt_storage_take_back(context, storage, "fetched"));
    memcpy(storage->data, s->kept, sizeof s->kept);
    ++s->filled;
    return BT_OK;
}

// An op's forward and its backward each bring back what they read.
static void memory_that_was_given_up_comes_back(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    static const double values[] = {1, 2, 3};
    source s = {.kept = {1, 2, 3}};
    bt_tensor *x = fixture_doubles(&f, BT_F32, BT_SHAPE(3), values);
    bt_tensor *w = fixture_doubles(&f, BT_F32, BT_SHAPE(3), values), *y = NULL, *sum = NULL;
    bt_pool_stats before, after;
    x->requires_grad = true;
    w->storage->source = (bt_storage_source){&s, fetch};
    bt_pool_stats_read(f.pool, &before);
    bt_storage_give_up(w->storage);
    bt_pool_stats_read(f.pool, &after);
    assert_int_equal(before.live_blocks - after.live_blocks, 1);
    ASSERT_OK(bt_mul(&f.context, x, w, &y));
    assert_int_equal(s.filled, 1);
    ASSERT_OK(bt_sum_all(&f.context, y, &sum));
    bt_storage_give_up(w->storage);
    ASSERT_OK(bt_backward(&f.context, sum, NULL));
    assert_int_equal(s.filled, 2);
    assert_memory_equal(bt_tensor_data(x->grad), s.kept, sizeof s.kept);
    bt_tensor_release(x);
    bt_tensor_release(w);
    bt_tensor_release(y);
    bt_tensor_release(sum);
    fixture_close(&f);
}

static void tensors_move_into_a_flat_one(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    static const double values[] = {1, 2, 3, 4};
    bt_tensor *x = fixture_doubles(&f, BT_F32, BT_SHAPE(2, 2), values), *flat = NULL;
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(6), "flat", &flat));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "cannot become a view from element 3 of \"flat\"",
                 bt_tensor_move_into(&f.context, x, flat, 3));
    ASSERT_OK(bt_tensor_move_into(&f.context, x, flat, 2));
    assert_ptr_equal(x->storage, flat->storage);
    const float *all = bt_tensor_data(flat);
    assert_ptr_equal(bt_tensor_data(x), all + 2);
    assert_true(all[0] <= 0 && all[2] >= 1 && all[5] >= 4);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "cannot become a view", // others refer to it
                 bt_tensor_move_into(&f.context, x, flat, 0));
    bt_tensor_release(flat);
    bt_tensor_release(x);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_written_in_their_homes),
        cmocka_unit_test(what_an_op_cannot_write_there_is_copied),
        cmocka_unit_test(memory_that_was_given_up_comes_back),
        cmocka_unit_test(tensors_move_into_a_flat_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
