// framework/base/dtype.c - the element type table
#include "framework/base/dtype.h"

static const struct {
    const char *name;
    size_t size_bytes;
    bool is_float;
} rows[] = {
#define BT_DTYPE_ROW(name, text, size_bytes, floating) {text, size_bytes, floating},
    BT_DTYPE_LIST(BT_DTYPE_ROW)
#undef BT_DTYPE_ROW
};

size_t bt_dtype_size(bt_dtype dtype) { return rows[dtype].size_bytes; }

const char *bt_dtype_name(bt_dtype dtype)
{
    return (unsigned)dtype < BT_DTYPE_COUNT ? rows[dtype].name : "unknown";
}

bool bt_dtype_is_float(bt_dtype dtype) { return rows[dtype].is_float; }

double bt_dtype_epsilon(bt_dtype dtype)
{
    static const double epsilons[BT_DTYPE_COUNT] = {
        [BT_F64] = 0x1p-52, [BT_F32] = 0x1p-23, [BT_BF16] = 0x1p-7, [BT_F16] = 0x1p-10};
    return epsilons[dtype];
}

bool bt_dtype_parse(const char *name, bt_dtype *dtype)
{
    for (int i = 0; i < BT_DTYPE_COUNT; ++i) {
        if (strcmp(rows[i].name, name) == 0) {
            *dtype = (bt_dtype)i;
            return true;
        }
    }
    return false;
}
