// framework/base/dtype.h - element types, and the conversions that C lacks
#ifndef BT_BASE_DTYPE_H
#define BT_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

// X(enumerator, name as written in files, size in bytes, is it a floating-point type). F16 is a
// storage type: files of weights, copies, casts and fills on the CPU; no kernel computes with it.
#define BT_DTYPE_LIST(X)                                                                           \
    X(F64, "f64", 8, true)                                                                         \
    X(F32, "f32", 4, true)                                                                         \
    X(BF16, "bf16", 2, true)                                                                       \
    X(F16, "f16", 2, true)                                                                         \
    X(I64, "i64", 8, false)                                                                        \
    X(I32, "i32", 4, false)                                                                        \
    X(U16, "u16", 2, false)                                                                        \
    X(U8, "u8", 1, false)                                                                          \
    X(BOOL, "bool", 1, false)

typedef enum bt_dtype {
#define BT_DTYPE_ENUM(name, text, size_bytes, floating) BT_##name,
    BT_DTYPE_LIST(BT_DTYPE_ENUM)
#undef BT_DTYPE_ENUM
        BT_DTYPE_COUNT
} bt_dtype;

size_t bt_dtype_size(bt_dtype dtype);
const char *bt_dtype_name(bt_dtype dtype);
bool bt_dtype_is_float(bt_dtype dtype);
// Distance from 1 to the next larger value: 2^-52, 2^-23, 2^-7, 2^-10; 0 for integers.
double bt_dtype_epsilon(bt_dtype dtype);
// False if the name is not in the list.
bool bt_dtype_parse(const char *name, bt_dtype *dtype);

// bf16 <-> f32, round to nearest even, NaN stays NaN (quiet).
static inline float bt_bf16_to_f32(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static inline uint16_t bt_f32_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffU) > 0x7f800000U) {
        return (uint16_t)((bits >> 16) | 0x40U);
    }
    return (uint16_t)((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

#ifdef __cplusplus
}
#endif
#endif
