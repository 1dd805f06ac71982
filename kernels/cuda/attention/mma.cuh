// kernels/cuda/attention/mma.cuh - PTX instructions of the sm_80 attention kernels
//
// Thin wrappers, one instruction each, all available from sm_80 on.
// Within a warp, with g = lane / 4 and t = lane % 4, the fragments are (PTX ISA 9.7.14, "Warp Level
// Matrix Multiply-Accumulate"):
//   m16n8k16 bf16   A: a0 (g, 2t..2t+1)  a1 (g+8, 2t..)  a2 (g, 2t+8..)  a3 (g+8, 2t+8..)
//                   B: b0 (k 2t..2t+1, n g)  b1 (k 2t+8.., n g)
//   m16n8k8 tf32    A: a0 (g, t)  a1 (g+8, t)  a2 (g, t+4)  a3 (g+8, t+4)
//                   B: b0 (k t, n g)  b1 (k t+4, n g)
//   both            C: c0 (g, 2t)  c1 (g, 2t+1)  c2 (g+8, 2t)  c3 (g+8, 2t+1)
// The order of the k index is free as long as A and B agree; the tf32 kernels use that to feed C of
// one product as operand of the next: k = t stands for 2t, k = t+4 for 2t+1. An operand's registers
// must be neighbours, so they make C's pairs (c0, c1) and (c2, c3) the B fragments of a transposed
// product; fed as A they would have to be moved first.
#ifndef BT_KERNELS_CUDA_ATTENTION_MMA_CUH
#define BT_KERNELS_CUDA_ATTENTION_MMA_CUH

#include <stdint.h>

#define BT_INLINE static __device__ __forceinline__

// Generic pointer -> shared-window address.
BT_INLINE uint32_t shared_address(const void *pointer)
{
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

// Asynchronous 16-byte copy global -> shared past L1; writes zeros and reads nothing when `valid`
// is false. Source  PTX ISA 9.7.9.25, cp.async with src-size
BT_INLINE void cp_async16(uint32_t target, const void *source, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
                 "r"(valid ? 16 : 0)
                 : "memory");
}

BT_INLINE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for all but this thread's last PENDING groups.
template <int PENDING> BT_INLINE void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Four 8x8 matrices of 16-bit elements (equally: 8 rows of 4 words); lane l names row l % 8 of
// matrix l / 8 and receives word l % 4 of row l / 4 of each. Source  PTX ISA 9.7.14.5.15, ldmatrix
BT_INLINE void ldmatrix(uint32_t (&r)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// The same with each 8x8 matrix transposed.
BT_INLINE void ldmatrix_trans(uint32_t (&r)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// c += a b, bf16 operands, fp32 sums. Source  PTX ISA 9.7.14.5.14, mma.m16n8k16
BT_INLINE void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// c += a b, tf32 operands (already rounded), fp32 sums. Source  PTX ISA 9.7.14.5.14, mma.m16n8k8
BT_INLINE void mma_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// {low, high} rounded to nearest even bf16.
BT_INLINE uint32_t pack_bf16(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

// Nearest tf32; ties go to even where that is one instruction (sm_90), else away from zero.
// Source  PTX ISA 9.7.9.21, cvt.rn.tf32 and cvt.rna.tf32
BT_INLINE float round_tf32(float value)
{
    uint32_t bits;
#if __CUDA_ARCH__ >= 900
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
#else
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
#endif
    return __uint_as_float(bits);
}

// The same for x >= 0 or NaN in two plain instructions (conversions run at a quarter of their
// rate); ties go away from zero.
BT_INLINE float round_tf32_positive(float x)
{
    const uint32_t bits = __float_as_uint(x) + 0x1000U; // half of the last place that stays
    return __uint_as_float(min(bits, 0x7fffffffU) & 0xffffe000U);
}

// 2^x, relative error 2^-22; 0 for -inf, NaN for NaN. Source  PTX ISA 9.7.3.21, ex2.approx
BT_INLINE float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Maximum and sum over the four lanes that share a fragment row; every lane gets the result.
BT_INLINE float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}

BT_INLINE float quad_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffU, x, 1);
    return x + __shfl_xor_sync(0xffffffffU, x, 2);
}

#endif
