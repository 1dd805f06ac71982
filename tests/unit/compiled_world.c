// tests/unit/compiled_world.c - a small model whose step runs eagerly and compiled
#include "tests/unit/compiled_world.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"

enum { VOCAB = 40, TOKENS = 12 };

void compiled_world_open(compiled_world *w, const char *family, bt_dtype compute)
{
    compiled_world_open_on(w, "cpu", family, compute);
}

void compiled_world_open_on(compiled_world *w, const char *backend, const char *family,
                            bt_dtype compute)
{
    const bool llama = strcmp(family, "llama") == 0;
    const bt_model_config config = {.family = family,
                                    .layers = 2,
                                    .heads = 4,
                                    .kv_heads = llama ? 2 : 0,
                                    .width = 32,
                                    .hidden = llama ? 48 : 0,
                                    .vocab = VOCAB,
                                    .context = 16};
    ASSERT_OK(bt_session_open(backend, 0, 0, &w->f));
    bt_params_init(&w->params, &w->f.context, BT_F32, compute, 7);
    ASSERT_OK(bt_model_open(&w->params, &config, BT_RECOMPUTE_NONE, 0, &w->model));
    ASSERT_OK(
        bt_code_cache_open(&bt_file_ops_system, test_scratch_path("code"), 1 << 26, &w->cache));
}

void compiled_world_close(compiled_world *w)
{
    bt_code_cache_close(&w->cache);
    bt_model_close(&w->model);
    bt_params_release(&w->params);
    fixture_close(&w->f);
}

void compiled_world_tokens(compiled_world *w, int64_t rows, int seed, compiled_tokens *t)
{
    const int64_t count = rows * TOKENS, stride[] = {TOKENS, 1};
    int32_t values[2 * 8 * TOKENS];
    for (int64_t i = 0; i < 2 * count; ++i) {
        values[i] = (int32_t)((i * 7 + seed * 13 + i * i % 11) % VOCAB);
    }
    t->both = fixture_values(&w->f, BT_I32, BT_SHAPE(2, rows, TOKENS), values);
    ASSERT_OK(bt_tensor_view(t->both, BT_SHAPE(rows, TOKENS), stride, 0, &t->ids));
    ASSERT_OK(bt_tensor_view(t->both, BT_SHAPE(rows, TOKENS), stride, count, &t->targets));
    t->batch = (bt_batch){.count = 2, .items = {{"ids", t->ids}, {"targets", t->targets}}};
}

void compiled_world_release_tokens(compiled_tokens *t)
{
    bt_tensor_release(t->ids);
    bt_tensor_release(t->targets);
    bt_tensor_release(t->both);
}

unsigned char *compiled_world_take(compiled_world *w, const bt_tensor *loss, size_t *bytes)
{
    *bytes = sizeof(float);
    for (int64_t i = 0; i < w->params.count; ++i) {
        *bytes += bt_tensor_bytes(w->params.items[i].value->grad);
    }
    unsigned char *out = malloc(*bytes);
    size_t at = sizeof(float);
    memcpy(out, bt_tensor_data(loss), sizeof(float));
    for (int64_t i = 0; i < w->params.count; ++i) {
        const bt_tensor *grad = w->params.items[i].value->grad;
        memcpy(out + at, bt_tensor_data(grad), bt_tensor_bytes(grad));
        at += bt_tensor_bytes(grad);
    }
    bt_params_clear_grads(&w->params);
    return out;
}

unsigned char *compiled_world_run(compiled_world *w, bt_compiled_step *step, int64_t rows,
                                  int count, size_t *bytes)
{
    bt_tensor *loss = NULL;
    for (int i = 0; i < count; ++i) {
        compiled_tokens t;
        compiled_world_tokens(w, rows, i, &t);
        bt_tensor_release(loss);
        if (step) {
            ASSERT_OK(bt_compiled_step_run(step, &t.batch, &loss));
        } else {
            ASSERT_OK(bt_model_loss(&w->f.context, &w->model, &t.batch, &loss));
            ASSERT_OK(bt_backward(&w->f.context, loss, NULL));
        }
        compiled_world_release_tokens(&t);
    }
    unsigned char *out = compiled_world_take(w, loss, bytes);
    bt_tensor_release(loss);
    return out;
}

void compiled_world_same(compiled_world *w, bt_compiled_step *step, int64_t rows, int count)
{
    size_t bytes = 0, compiled_bytes = 0;
    unsigned char *eager = compiled_world_run(w, NULL, rows, count, &bytes);
    unsigned char *compiled = compiled_world_run(w, step, rows, count, &compiled_bytes);
    assert_int_equal(bytes, compiled_bytes);
    assert_memory_equal(eager, compiled, bytes);
    free(eager);
    free(compiled);
}
