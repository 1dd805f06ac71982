// framework/compiler/product.c - the classes of products
#include "framework/compiler/product.h"

static const char *const texts[BT_PRODUCT_CLASS_COUNT] = {
#define TEXT(name, text) text,
    BT_PRODUCT_CLASS_LIST(TEXT)
#undef TEXT
};

// The first row whose limits hold gives the class; rates and dates are in lab/README.md.
static const struct {
    bt_product_class kind;
    bool odd;           // of odd products only
    int64_t entry_macs; // multiply-adds of a batch entry, at most
    int64_t macs;       // of all entries, at most
    int64_t k;          // at most: without more blocks a longer k is a longer wait
} rows[] = {
    {BT_PRODUCT_ODD, true, INT64_C(1) << 28, INT64_C(1) << 30, 2048},
    {BT_PRODUCT_SMALL, false, INT64_C(1) << 24, INT64_C(1) << 30, 512},
    {BT_PRODUCT_DEEP, false, INT64_C(1) << 24, INT64_C(1) << 30, INT64_MAX},
};

// Rows that 16-byte accesses cannot walk.
static bool is_odd(const bt_gemm_args *p)
{
    const int64_t line = 16 / (int64_t)bt_dtype_size(p->ab_dtype);
    const bool strides = p->batch > 1 && (p->stride_a % line || p->stride_b % line);
    return p->lda % line || p->ldb % line || p->n % line || p->k % line || strides;
}

bt_product_class bt_product_classify(const bt_gemm_args *p)
{
    const int64_t entry = p->m * p->n * p->k;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        if ((!rows[i].odd || is_odd(p)) && entry <= rows[i].entry_macs &&
            entry * p->batch <= rows[i].macs && p->k <= rows[i].k) {
            return rows[i].kind;
        }
    }
    return BT_PRODUCT_LARGE;
}

bool bt_product_is_generated(bt_product_class kind)
{
    return kind == BT_PRODUCT_SMALL || kind == BT_PRODUCT_ODD;
}

double bt_product_intensity(const bt_gemm_args *p)
{
    const double operands =
        (double)(p->m + p->n) * (double)p->k * (double)bt_dtype_size(p->ab_dtype);
    const double result = (double)p->m * (double)p->n * (double)bt_dtype_size(p->d_dtype);
    return 2 * (double)p->m * (double)p->n * (double)p->k / (operands + result);
}

void bt_product_print(const bt_gemm_args *p, bt_str *out)
{
    bt_str_format(out, "%lldx%lldx%lld", (long long)p->m, (long long)p->n, (long long)p->k);
    if (p->batch > 1) {
        bt_str_format(out, " batch %lld", (long long)p->batch);
    }
    bt_str_format(out, " %s, %.1f flops per byte: %s", bt_dtype_name(p->ab_dtype),
                  bt_product_intensity(p), texts[bt_product_classify(p)]);
}
