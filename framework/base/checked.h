// framework/base/checked.h - overflow-checked arithmetic on sizes from outside
//
// A function returns false if a product or sum overflows; the caller then rejects the size. Public
// entry points check their arguments with these functions before they compute with them.
#ifndef BT_BASE_CHECKED_H
#define BT_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

// The largest size of a buffer, such that twice the bytes of two of them fit in 64 bits.
#define BT_ELEMENTS_MOST (INT64_C(1) << 56)

static inline bool bt_checked_multiply(int64_t a, int64_t b, int64_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

static inline bool bt_checked_add(int64_t a, int64_t b, int64_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

// a * b for sizes from 0 to BT_ELEMENTS_MOST; *product is in that range too.
static inline bool bt_checked_count(int64_t a, int64_t b, int64_t *product)
{
    return a >= 0 && b >= 0 && bt_checked_multiply(a, b, product) && *product <= BT_ELEMENTS_MOST;
}

#endif
