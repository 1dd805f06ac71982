// framework/compiler/product.h - which products are generated and which BluBLAS computes
//
// A product with high arithmetic intensity, enough tiles and aligned rows runs at the rate of the
// tensor cores in BluBLAS: nothing that is generated gains on it. Of a small one, a launch of each
// call after it costs as much as the product: it is generated with these calls as its epilogue. A
// tiny one is generated also alone. Products with odd rows (that 16-byte accesses cannot walk) have
// limits of their own.
#ifndef BT_COMPILER_PRODUCT_H
#define BT_COMPILER_PRODUCT_H

#include "framework/base/str.h"
#include "kernels/kernels.h"

// X(enumerator, text)
#define BT_PRODUCT_CLASS_LIST(X)                                                                   \
    X(LARGE, "large: BluBLAS")                                                                     \
    X(DEEP, "deep, which BluBLAS splits along k: BluBLAS")                                         \
    X(SMALL, "small: generated with the calls after it")                                           \
    X(TINY, "tiny: generated")

typedef enum bt_product_class {
#define BT_PRODUCT_CLASS_ENUM(name, text) BT_PRODUCT_##name,
    BT_PRODUCT_CLASS_LIST(BT_PRODUCT_CLASS_ENUM)
#undef BT_PRODUCT_CLASS_ENUM
        BT_PRODUCT_CLASS_COUNT
} bt_product_class;

bt_product_class bt_product_classify(const bt_gemm_args *product);
bool bt_product_is_generated(bt_product_class kind);
// Flops of the product by bytes of its operands and result, each moved once.
double bt_product_intensity(const bt_gemm_args *product);
// "64x48x40 batch 12 bf16, 20.9 flops per byte: small: generated with the calls after it"
void bt_product_print(const bt_gemm_args *product, bt_str *out);

#endif
