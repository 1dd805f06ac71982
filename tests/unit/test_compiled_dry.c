// tests/unit/test_compiled_dry.c - a Llama's step captured on the CUDA backend's kernel table
// without a GPU
//
// Rows of matrix products ask cuBLAS, so those take any call here. Memory is the host's, nothing is
// launched: what is tested is that a kernel serves every call of the step, and that code which was
// made ahead (bt_case_compile) is of the groups that the GPU's own capture forms.
#include <string.h>

#include "framework/autograd/session.h"
#include "framework/compiler/capture.h"
#include "framework/compiler/form.h"
#include "framework/compiler/half_turn.h"
#include "framework/compiler/step.h"
#include "tests/support/test.h"

static bt_backend dry; // the host's memory, CUDA's rows
static bt_kernel rows[1024];
// What rows read of the CUDA backend's own state: a device on which no limit was raised, so that
// rows which need large shared memory are not chosen, but the general ones.
static _Alignas(64) char own_state[1 << 16];

static bt_status open_dry(int ordinal, bt_device *device)
{
    bt_backend const *cpu = NULL;
    BT_TRY(bt_device_backend("cpu", &cpu));
    BT_TRY(cpu->device_open(ordinal, device));
    device->backend = &dry;
    device->impl = own_state;
    device->info.arch = 90;
    device->info.processor_count = 132;
    device->info.l2_bytes = 50 << 20;
    device->info.shared_bytes = 227 << 10;
    return BT_OK;
}

static void close_dry(bt_device *device) { device->impl = NULL; }

static void make_dry(const bt_backend *cuda)
{
    const bt_backend *cpu = NULL;
    ASSERT_OK(bt_device_backend("cpu", &cpu));
    dry = *cpu;
    dry.name = "dry";
    dry.kind = BT_DEVICE_CUDA;
    dry.device_open = open_dry;
    dry.device_close = close_dry;
    assert_true(cuda->kernel_count < (int)(sizeof rows / sizeof *rows));
    memcpy(rows, cuda->kernels, (size_t)cuda->kernel_count * sizeof *rows);
    for (int i = 0; i < cuda->kernel_count; ++i) {
        const bool product = rows[i].op == BT_KERNEL_GEMM || rows[i].op == BT_KERNEL_GEMM_GROUPED;
        rows[i].accepts = product ? NULL : rows[i].accepts;
    }
    dry.kernels = rows;
    dry.kernel_count = cuda->kernel_count;
    ASSERT_OK(bt_device_add(&dry));
}

// The groups' texts of a step that is captured on the backend.
static void groups_on(const char *backend, bt_dtype compute, bt_str *out, int *groups)
{
    const bt_model_config config = {.family = "llama",
                                    .layers = 2,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .width = 256,
                                    .hidden = 512,
                                    .vocab = 512,
                                    .context = 64};
    const bt_fuse_options options = bt_compiled_step_options(BT_TARGET_CUDA);
    bt_session session;
    bt_params params;
    bt_model model;
    bt_dag_capture capture;
    bt_dag graph;
    bt_fusion_plan plan;
    bt_formed formed;
    int64_t *half_turns = NULL;
    bt_tensor *ids = NULL, *targets = NULL, *loss = NULL;
    ASSERT_OK(bt_session_open(backend, 0, 0, &session));
    session.context.dry = true;
    bt_params_init(&params, &session.context, BT_F32, compute, 7);
    ASSERT_OK(bt_model_open(&params, &config, BT_RECOMPUTE_NONE, 0, &model));
    ASSERT_OK(bt_tensor_create(&session.context, BT_I32, BT_SHAPE(2, 64), "ids", &ids));
    ASSERT_OK(bt_tensor_create(&session.context, BT_I32, BT_SHAPE(2, 64), "targets", &targets));
    const bt_batch batch = {.count = 2, .items = {{"ids", ids}, {"targets", targets}}};
    ASSERT_OK(bt_dag_capture_begin(&session.context, false, &capture));
    ASSERT_OK(bt_model_loss(&session.context, &model, &batch, &loss));
    ASSERT_OK(bt_dag_capture_output(&capture, loss));
    ASSERT_OK(bt_backward(&session.context, loss, NULL));
    for (int64_t i = 0; i < params.count; ++i) {
        ASSERT_OK(bt_dag_capture_output(&capture, params.items[i].value->grad));
    }
    ASSERT_OK(bt_dag_capture_end(&capture, &graph));
    ASSERT_OK(bt_dag_find_half_turns(&capture, &graph, &half_turns));
    ASSERT_OK(bt_dag_form(&graph, half_turns, &options, &plan, &formed));
    assert_int_equal(formed.half_turns, 8); // q and k, forward and backward, of two layers
    bt_mem_free(half_turns);
    *groups = plan.count;
    for (int i = 0; i < plan.count; ++i) {
        bt_fused_print(plan.groups[i].group, out);
    }
    ASSERT_OK(bt_str_status(out));
    bt_fusion_plan_release(&plan);
    bt_dag_release(&graph);
    bt_dag_capture_release(&capture);
    bt_tensor_release(loss);
    bt_tensor_release(ids);
    bt_tensor_release(targets);
    bt_params_clear_grads(&params);
    bt_model_close(&model);
    bt_params_release(&params);
    bt_session_close(&session);
}

static void cuda_serves_every_call_and_forms_the_same_groups(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; ++wide) {
        bt_str cpu = {0}, cuda = {0};
        int cpu_groups = 0, cuda_groups = 0;
        groups_on("cpu", wide ? BT_F32 : BT_BF16, &cpu, &cpu_groups);
        groups_on("dry", wide ? BT_F32 : BT_BF16, &cuda, &cuda_groups);
        assert_true(cpu_groups > 10);
        assert_int_equal(cpu_groups, cuda_groups);
        assert_string_equal(bt_str_text(&cpu), bt_str_text(&cuda));
        bt_str_release(&cpu);
        bt_str_release(&cuda);
    }
}

int main(void)
{
    const bt_backend *cuda = NULL;
    if (bt_device_backend("cuda", &cuda) != BT_OK) {
        return test_skip(bt_error_message());
    }
    make_dry(cuda);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuda_serves_every_call_and_forms_the_same_groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
