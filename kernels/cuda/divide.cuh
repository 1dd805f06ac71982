// kernels/cuda/divide.cuh - division of indices by a number that the host knows
//
//   n / d = (high half of n * magic + n) >> shift, exactly, for 0 <= n < 2^31 and 1 <= d < 2^31
// A multiplication, an addition and a shift instead of some twenty instructions.
// Source  Granlund & Montgomery 1994, Division by Invariant Integers using Multiplication, fig. 4.1
#ifndef BT_KERNELS_CUDA_DIVIDE_CUH
#define BT_KERNELS_CUDA_DIVIDE_CUH

#include <cstdint>

constexpr int64_t DIVIDE_MOST = 0x7fffffff; // dividends and divisors

struct divisor {
    uint32_t by, magic, shift;

    static divisor make(int64_t by)
    {
        uint32_t shift = 0;
        while (((int64_t)1 << shift) < by) {
            ++shift;
        }
        const uint64_t rest = ((uint64_t)1 << shift) - (uint64_t)by;
        return {(uint32_t)by, (uint32_t)((rest << 32) / (uint64_t)by + 1), shift};
    }
    __device__ __forceinline__ uint32_t quotient(uint32_t n) const
    {
        return (__umulhi(n, magic) + n) >> shift;
    }
};

#endif
