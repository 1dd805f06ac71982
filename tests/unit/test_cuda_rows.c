// tests/unit/test_cuda_rows.c - which CUDA rows serve a call, for a GPU that is only described
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "framework/device/device.h"
#include "kernels/kernels.h"
#include "tests/support/test.h"

enum { SMS = 132, SHARED_BYTES = 232448 }; // of an H200

static bt_device device;

static bool load_plugin(void)
{
#ifdef BT_TEST_PLUGIN
    void *plugin = dlopen(BT_TEST_PLUGIN, RTLD_NOW);
    bt_backend_entry_fn entry = NULL;
    if (plugin) { // a pointer to a function cannot be cast to one to data
        *(void **)(void *)&entry = dlsym(plugin, BT_BACKEND_ENTRY);
    }
    device.backend = entry ? entry() : NULL;
#endif
    device.info.shared_bytes = SHARED_BYTES;
    device.info.processor_count = SMS;
    return device.backend != NULL;
}

typedef struct shape {
    bt_dtype dtype;
    bt_compute compute;
    int64_t batch, tokens, heads, kv_heads, dim;
} shape;

// A packed call for all gradients; its memory is not read.
static bt_attention_backward_args call_of(const shape *s)
{
    static char memory[16] __attribute__((aligned(16)));
    const int64_t width = (s->heads + 2 * s->kv_heads) * s->dim;
    const bt_attention_view packed = {memory, s->tokens * width, width, s->dim};
    const bt_attention_view output = {memory, s->tokens * s->heads * s->dim, s->heads * s->dim,
                                      s->dim};
    return (bt_attention_backward_args){.q = packed,
                                        .k = packed,
                                        .v = packed,
                                        .o = output,
                                        .d_o = output,
                                        .lse = memory,
                                        .dq = packed,
                                        .dk = packed,
                                        .dv = packed,
                                        .shape = {.batch = s->batch,
                                                  .heads = s->heads,
                                                  .kv_heads = s->kv_heads,
                                                  .q_tokens = s->tokens,
                                                  .kv_tokens = s->tokens,
                                                  .head_dim = s->dim,
                                                  .scale = 0.125,
                                                  .causal = true},
                                        .compute = s->compute,
                                        .dtype = s->dtype};
}

static const char *row_of(const bt_attention_backward_args *args)
{
    const bt_kernel *row =
        bt_kernel_lookup(&device, BT_KERNEL_ATTENTION_BACKWARD, args->dtype, args);
    return row ? row->name : "none";
}

// Rows for all gradients, for dq alone, and for dk and dv alone with delta.
static void expect_rows(const shape *s, int arch, const char *all, const char *side)
{
    const bt_attention_view none = {NULL, 0, 0, 0};
    char delta = 0;
    const bt_attention_backward_args both = call_of(s);
    bt_attention_backward_args queries = both, keys = both;
    device.info.arch = arch;
    queries.dk = queries.dv = none;
    queries.delta = &delta;
    keys.dq = none;
    keys.delta = &delta;
    keys.delta_given = true;
    assert_string_equal(row_of(&both), all);
    assert_string_equal(row_of(&queries), side);
    assert_string_equal(row_of(&keys), side);
}

// Where a row computes each side by a kernel of its own, it serves calls for one of them too.
static void sides_of_attention_backward(void **state)
{
    (void)state;
    static const struct {
        shape shape;
        int arch;
        const char *all, *side;
    } rows[] = {
        {{BT_BF16, BT_COMPUTE_NATIVE, 4, 4096, 12, 12, 64},
         90,
         "attention_backward_bf16_sm90",
         "attention_backward_bf16_sm90"},
        {{BT_BF16, BT_COMPUTE_NATIVE, 4, 4096, 12, 4, 128},
         90,
         "attention_backward_general_bf16_sm90",
         "attention_backward_general_bf16_sm90"},
        {{BT_F32, BT_COMPUTE_TF32, 4, 4096, 12, 12, 64},
         90,
         "attention_backward_tf32_sm90",
         "attention_backward_tf32_sm90"},
        {{BT_F32, BT_COMPUTE_TF32, 4, 4096, 12, 12, 128},
         90,
         "attention_backward_tf32_sm90",
         "attention_backward_tf32_sm90"},
        // of few heads both sides at once
        {{BT_BF16, BT_COMPUTE_NATIVE, 1, 512, 4, 4, 64},
         90,
         "attention_backward_bf16_sm90",
         "attention_backward_general_bf16_sm90"},
        {{BT_F32, BT_COMPUTE_TF32, 1, 512, 4, 4, 64},
         90,
         "attention_backward_tf32_sm90",
         "attention_backward_general_tf32_sm80"},
        // kernels that always fuse them
        {{BT_F32, BT_COMPUTE_NATIVE, 4, 4096, 12, 12, 64},
         90,
         "attention_backward_f32_sm80",
         "attention_backward_general_f32_sm80"},
        {{BT_BF16, BT_COMPUTE_NATIVE, 4, 4096, 12, 12, 64},
         80,
         "attention_backward_bf16_sm80",
         "attention_backward_general_bf16_sm80"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        expect_rows(&rows[i].shape, rows[i].arch, rows[i].all, rows[i].side);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sides_of_attention_backward)};
    if (!load_plugin()) {
        return test_skip("this build has no CUDA plugin");
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
