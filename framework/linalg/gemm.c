// framework/linalg/gemm.c - a fused row if there is one, else product and elementwise kernels
#include "framework/linalg/gemm.h"

#include "framework/base/status.h"
#include "framework/linalg/tune.h"

static bt_status add_bias(bt_context *context, const bt_gemm_args *args)
{
    bt_binary_args add = {.function = BT_BINARY_ADD,
                          .rank = 2,
                          .shape = {args->m, args->n},
                          .a = args->d,
                          .a_stride = {args->ldd, 1},
                          .b = args->bias,
                          .b_stride = {0, 1},
                          .y = args->d,
                          .dtype = args->d_dtype};
    return bt_context_launch(context, BT_KERNEL_BINARY, args->d_dtype, &add);
}

// dbias (+)= column sums of a matrix (D, or A if it is [k, m]), over rows in the order of the
// column-sum kernel
static bt_status multiply_then_sum(bt_context *context, const bt_gemm_args *args)
{
    const bool of_a = args->dbias_of_a;
    const int64_t rows = of_a ? args->k : args->m, cols = of_a ? args->m : args->n;
    const int64_t stride = of_a ? args->lda : args->ldd;
    const bt_dtype dtype = of_a ? args->ab_dtype : args->d_dtype;
    bt_gemm_args plain = *args;
    plain.dbias = NULL;
    if (stride != cols || args->batch != 1 || (of_a && !args->trans_a)) {
        return bt_error(BT_STATUS_UNSUPPORTED,
                        "gemm: no kernel sums columns of a batch, of rows of %lld with stride "
                        "%lld, or of A^T",
                        (long long)cols, (long long)stride);
    }
    BT_TRY(bt_gemm(context, &plain));
    bt_reduce_sum_args sum = {.x = of_a ? args->a : args->d,
                              .y = args->dbias,
                              .outer = 1,
                              .reduce = rows,
                              .inner = cols,
                              .scale = 1,
                              .accumulate = args->dbias_accumulate,
                              .dtype = dtype,
                              .y_dtype = args->dbias_dtype};
    return bt_context_launch(context, BT_KERNEL_REDUCE_SUM, dtype, &sum);
}

static bt_status decompose(bt_context *context, const bt_gemm_args *args)
{
    int64_t count = args->m * args->n;
    bt_gemm_args plain = *args;
    plain.epilogue = BT_EPILOGUE_NONE;
    if (args->epilogue == BT_EPILOGUE_NONE || args->ldd != args->n || args->batch != 1 ||
        (args->beta != 0 && args->epilogue != BT_EPILOGUE_BIAS) ||
        (args->bias && args->d_dtype != args->ab_dtype)) {
        return bt_error(BT_STATUS_UNSUPPORTED, "gemm: no kernel fuses epilogue %d for this call",
                        (int)args->epilogue);
    }
    if (args->epilogue == BT_EPILOGUE_BIAS_GELU) {
        plain.d = args->aux;
        plain.epilogue = args->bias ? BT_EPILOGUE_BIAS : BT_EPILOGUE_NONE;
        BT_TRY(bt_gemm(context, &plain));
        bt_unary_args gelu = {.function = BT_UNARY_GELU,
                              .x = args->aux,
                              .y = args->d,
                              .count = count,
                              .dtype = args->d_dtype,
                              .as_epilogue = true};
        return bt_context_launch(context, BT_KERNEL_UNARY, args->d_dtype, &gelu);
    }
    BT_TRY(bt_gemm(context, &plain));
    if (args->epilogue == BT_EPILOGUE_BIAS) {
        return add_bias(context, args);
    }
    bt_unary_backward_args dgelu = {.function = BT_UNARY_GELU,
                                    .x = args->aux,
                                    .dy = args->d,
                                    .dx = args->d,
                                    .count = count,
                                    .dtype = args->d_dtype};
    return bt_context_launch(context, BT_KERNEL_UNARY_BACKWARD, args->d_dtype, &dgelu);
}

bt_status bt_gemm(bt_context *context, const bt_gemm_args *args)
{
    BT_TRY(bt_gemm_check(args));
    const bt_kernel_plan *plan = NULL;
    const bt_kernel *kernel =
        bt_kernel_lookup(context->device, BT_KERNEL_GEMM, args->ab_dtype, args);
    if (!kernel && args->dbias) {
        return multiply_then_sum(context, args);
    }
    if (!kernel && args->epilogue != BT_EPILOGUE_NONE) {
        return decompose(context, args);
    }
    if (!kernel) { // for its message
        return bt_kernel_find(context->device, BT_KERNEL_GEMM, args->ab_dtype, args, &kernel);
    }
    if (context->tuner) {
        BT_TRY(bt_gemm_tuner_choose(context->tuner, context->stream, args, &kernel, &plan));
    }
    return bt_context_launch_row(context, kernel, plan, args);
}

bt_status bt_gemm_grouped(bt_context *context, const bt_gemm_args *products, int64_t count)
{
    if (count < 0 || (count > 0 && !products)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "gemm: a group of %lld products at %p",
                        (long long)count, (const void *)products);
    }
    if (count <= 1) { // a single product is not faster as a group
        return count ? bt_gemm(context, products) : BT_OK;
    }
    bt_gemm_grouped_args group = {products, count};
    for (int64_t i = 0; i < count; ++i) {
        BT_TRY(bt_error_context(bt_gemm_check(&products[i]), "product %lld of %lld", (long long)i,
                                (long long)count));
    }
    if (bt_kernel_lookup(context->device, BT_KERNEL_GEMM_GROUPED, products[0].ab_dtype, &group)) {
        return bt_context_launch(context, BT_KERNEL_GEMM_GROUPED, products[0].ab_dtype, &group);
    }
    for (int64_t i = 0; i < count; ++i) {
        BT_TRY(bt_error_context(bt_gemm(context, &products[i]), "product %lld of %lld",
                                (long long)i, (long long)count));
    }
    return BT_OK;
}
