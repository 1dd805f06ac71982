// kernels/cpu/half.h - f16 <-> f32 (IEEE 754 binary16), for machines without the type
//
// Round to nearest even, subnormals included; overflow gives infinity; NaN stays NaN (quiet).
#ifndef BT_KERNELS_CPU_HALF_H
#define BT_KERNELS_CPU_HALF_H

#include <stdint.h>
#include <string.h>

static inline float bt_f16_to_f32(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000U) << 16;
    const uint32_t exponent = (bits >> 10) & 31U, fraction = bits & 1023U;
    float value;
    if (exponent == 0) {
        value = (float)fraction * 0x1p-24F;
        return sign ? -value : value;
    }
    const uint32_t wide = (exponent == 31 ? 255U : exponent + 112U) << 23 | fraction << 13 | sign;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static inline uint16_t bt_f32_to_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000U;
    bits &= 0x7fffffffU;
    if (bits > 0x7f800000U) {
        return (uint16_t)(sign | 0x7e00U);
    }
    if (bits >= 0x477ff000U) { // rounds to 65536 or more
        return (uint16_t)(sign | 0x7c00U);
    }
    if (bits < 0x38800000U) { // below 2^-14: adding 0.5 leaves the fraction, rounded, in the bits
        float size;
        memcpy(&size, &bits, sizeof size);
        size += 0.5F;
        memcpy(&bits, &size, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000U));
    }
    bits += 0xfffU + (bits >> 13 & 1U);
    return (uint16_t)(sign | ((bits >> 13) - (112U << 10)));
}

#endif
