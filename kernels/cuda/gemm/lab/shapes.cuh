// kernels/cuda/gemm/lab/shapes.cuh - the calls that lab_gemm measures: the products of GPT-2 124M
#ifndef BT_KERNELS_CUDA_GEMM_LAB_SHAPES_CUH
#define BT_KERNELS_CUDA_GEMM_LAB_SHAPES_CUH

#include <string.h>

#include <string>
#include <vector>

#include "kernels/kernels.h"

struct precision {
    const char *name;
    bt_dtype dtype;
    bt_compute compute;
};
static const precision precisions[] = {{"bf16", BT_BF16, BT_COMPUTE_NATIVE},
                                       {"tf32", BT_F32, BT_COMPUTE_TF32},
                                       {"fp32", BT_F32, BT_COMPUTE_NATIVE}};

struct shape {
    std::string name;
    int64_t m, n, k;
    bool trans_a, trans_b;
    bt_epilogue epilogue;
    double beta;
    bool to_f32;
    bool biased;    // with GELU's slope: the sums of D's columns are wanted; TN, too: of A's
    bt_dtype dtype; // of the operands
    bt_compute compute;
};

// The products over m tokens.
static std::vector<shape> gpt2_shapes(int64_t m, const precision &with)
{
    static const struct {
        const char *name;
        int64_t out, in;
    } layers[] = {{"qkv", 2304, 768},
                  {"proj", 768, 768},
                  {"fc", 3072, 768},
                  {"fcproj", 768, 3072},
                  {"head", 50304, 768}};
    std::vector<shape> shapes;
    for (const auto &l : layers) {
        const std::string name = std::string(l.name) + " " + with.name + " M=" + std::to_string(m);
        const bool head = !strcmp(l.name, "head"), fc = !strcmp(l.name, "fc");
        const bool residual = l.out == 768;
        shapes.push_back({"fwd " + name, m, l.out, l.in, false, true, BT_EPILOGUE_NONE, 0, false,
                          false, with.dtype, with.compute});
        if (!head) {
            shapes.push_back({std::string("fwd ") +
                                  (fc         ? "bias gelu "
                                   : residual ? "bias resid "
                                              : "bias ") +
                                  name,
                              m, l.out, l.in, false, true,
                              fc ? BT_EPILOGUE_BIAS_GELU : BT_EPILOGUE_BIAS, residual ? 1.0 : 0.0,
                              false, true, with.dtype, with.compute});
        }
        shapes.push_back({"dgrad " + name, m, l.in, l.out, false, false, BT_EPILOGUE_NONE, 0, false,
                          false, with.dtype, with.compute});
        if (!strcmp(l.name, "fcproj")) {
            shapes.push_back({"dgrad dgelu " + name, m, l.in, l.out, false, false,
                              BT_EPILOGUE_DGELU, 0, false, false, with.dtype, with.compute});
            if (with.dtype == BT_BF16) {
                shapes.push_back({"dgrad dgelu columns " + name, m, l.in, l.out, false, false,
                                  BT_EPILOGUE_DGELU, 0, false, true, with.dtype, with.compute});
            }
        }
        shapes.push_back({"wgrad " + name, l.out, l.in, m, true, false, BT_EPILOGUE_NONE, 1, true,
                          false, with.dtype, with.compute});
    }
    return shapes;
}

#endif
