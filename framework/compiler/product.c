// framework/compiler/product.c - the classes of products
#include "framework/compiler/product.h"

static const char *const texts[BT_PRODUCT_CLASS_COUNT] = {
#define TEXT(name, text) text,
    BT_PRODUCT_CLASS_LIST(TEXT)
#undef TEXT
};

enum { DEEP_K = 512, DEEP_MACS = 1 << 24 };

typedef enum rows_of { ANY, ALIGNED, ODD } rows_of;

// The first row whose limits hold gives the class. Rates of 59 shapes beside BluBLAS and cuBLASLt
// are in lab/README.md.
static const struct {
    bt_product_class kind;
    rows_of rows;
    int64_t entry_macs; // multiply-adds of a batch entry, at most
    int64_t macs;       // of all entries, at most
    int64_t k;          // at most: a longer k is not split, so it costs a longer wait
} limits[] = {
    {BT_PRODUCT_TINY, ANY, INT64_C(1) << 22, INT64_C(1) << 22, 256},
    {BT_PRODUCT_TINY, ODD, INT64_C(1) << 25, INT64_C(1) << 25, DEEP_K},
    {BT_PRODUCT_SMALL, ODD, INT64_C(1) << 26, INT64_C(1) << 27, DEEP_K},
    {BT_PRODUCT_SMALL, ALIGNED, INT64_C(1) << 26, INT64_C(1) << 30, DEEP_K},
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
    const rows_of own = is_odd(p) ? ODD : ALIGNED;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; ++i) {
        if ((limits[i].rows == ANY || limits[i].rows == own) && entry <= limits[i].entry_macs &&
            entry * p->batch <= limits[i].macs && p->k <= limits[i].k) {
            return limits[i].kind;
        }
    }
    return p->k > DEEP_K && entry <= DEEP_MACS ? BT_PRODUCT_DEEP : BT_PRODUCT_LARGE;
}

bool bt_product_is_generated(bt_product_class kind)
{
    return kind == BT_PRODUCT_SMALL || kind == BT_PRODUCT_TINY;
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
