// kernels/cpu/dropout.c - y[i] (+)= x[i] / (1 - rate) where kept, else 0
//   kept iff the uniform number of word i % 4 of Philox block i / 4 is at least `rate`
// Shapes   contiguous [count]; y may be x
// Types    f32, f64
// Cost     bound by Philox: ten rounds for four elements
// NaN      a dropped element is 0 whatever it was
#include "framework/base/rng.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

enum { WORDS = 4 }; // of a Philox block; BT_CHUNK is a multiple

// bt_rng_uniform's number, from a word.
static float uniform_of(uint32_t word) { return (float)(((word >> 8) + 0.5) * 0x1p-24); }

static bt_status check_rate(double rate)
{
    return rate >= 0 && rate < 1 ? BT_OK
                                 : bt_error(BT_STATUS_INVALID_ARGUMENT,
                                            "dropout rate %g; allowed: 0 <= rate < 1", rate);
}

#define BT_BODY "kernels/cpu/dropout.inl"
#include "kernels/cpu/both.h"
