// kernels/cuda/ptx_sm90.cuh - the PTX instructions of the Hopper kernels, a function each
//
// Names in brackets are sections of "PTX ISA", chapter "Instruction Set". Addresses of shared
// memory are 32 bits wide, in the shared window. Everything here needs sm_90a.
//
// Two proxies reach shared memory: ordinary loads and stores (generic proxy), and TMA and wgmma
// (async proxy). What the generic proxy wrote, the async proxy sees only after fence_async().
#ifndef BT_KERNELS_CUDA_PTX_SM90_CUH
#define BT_KERNELS_CUDA_PTX_SM90_CUH

#include <cuda.h>
#include <cuda_bf16.h>
#include <stdint.h>

#define BT_PTX static __device__ __forceinline__

BT_PTX uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

// ---- mbarrier: a phase ends when all arrivals and all announced bytes are in --------------------
// [Parallel Synchronization and Communication Instructions: mbarrier]
BT_PTX void mbarrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
// Makes initialised barriers visible to the async proxy.
BT_PTX void mbarrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
BT_PTX void mbarrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Predicated, not branched: after a branch on the lane ptxas takes the warp for diverged and keeps
// the descriptors of wgmma in ordinary registers, moved to uniform ones before each product.
BT_PTX void mbarrier_arrive_if(uint32_t barrier, bool arrives)
{
    asm volatile("{ .reg .pred p;\n"
                 "setp.ne.b32 p, %1, 0;\n"
                 "@p mbarrier.arrive.shared::cta.b64 _, [%0]; }" ::"r"(barrier),
                 "r"((int)arrives)
                 : "memory");
}
// Arrives, and announces bytes that TMA will count down.
BT_PTX void mbarrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
// Waits until the phase of that parity has ended. May lag the barrier by one phase, not by two.
// No limit with __trap() here: with a trap anywhere in the kernel ptxas 13.0 ignores setmaxnreg in
// its allocation and spills the accumulators.
BT_PTX void mbarrier_wait(uint32_t barrier, uint32_t parity)
{
    uint32_t done;
    do {
        asm volatile("{ .reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!done);
}

// ---- TMA: boxes of a tensor map between global and shared memory --------------------------------
// [Data Movement and Conversion Instructions: cp.async.bulk.tensor]. Coordinates in elements,
// innermost first; outside of the tensor loads give zeros and stores nothing.
BT_PTX void tma_prefetch(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
BT_PTX void tma_load(uint32_t to, const CUtensorMap *map, int x, int y, int z, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
                 : "memory");
}
BT_PTX void tma_load(uint32_t to, const CUtensorMap *map, int x, int y, int z, int w,
                     uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
                 : "memory");
}
// Brings the box to L2. [cp.async.bulk.prefetch.tensor]
BT_PTX void tma_fetch(const CUtensorMap *map, int x, int y, int z)
{
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z)
                 : "memory");
}
BT_PTX void tma_store(const CUtensorMap *map, uint32_t from, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
                 "[%0, {%1, %2, %3}], [%4];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z), "r"(from)
                 : "memory");
}
// No coordinate may be negative: a box wholly before the tensor is an illegal instruction.
BT_PTX void tma_store(const CUtensorMap *map, uint32_t from, int x, int y, int z, int w)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group "
                 "[%0, {%1, %2, %3, %4}], [%5];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z), "r"(w), "r"(from)
                 : "memory");
}
// Adds the box to memory at L2, in the map's type, rounded to nearest.
// [cp.reduce.async.bulk.tensor]
BT_PTX void tma_add(const CUtensorMap *map, uint32_t from, int x, int y, int z)
{
    asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group "
                 "[%0, {%1, %2, %3}], [%4];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z), "r"(from)
                 : "memory");
}
BT_PTX void tma_add(const CUtensorMap *map, uint32_t from, int x, int y, int z, int w)
{
    asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group "
                 "[%0, {%1, %2, %3, %4}], [%5];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z), "r"(w), "r"(from)
                 : "memory");
}
// Stores and additions of a thread are counted in groups; waits leave the newest N groups under
// way.
BT_PTX void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> BT_PTX void tma_store_wait_read() // until shared memory may be used again
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
template <int N> BT_PTX void tma_store_wait() // until it is written
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}
// [Parallel Synchronization and Communication Instructions: membar / fence]
BT_PTX void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Between the proxies' accesses to global memory.
BT_PTX void fence_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// ---- roles: registers and barriers of a part of the block ---------------------------------------
// [Miscellaneous Instructions: setmaxnreg]
template <int N> BT_PTX void registers_take()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> BT_PTX void registers_give()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
// [Parallel Synchronization and Communication Instructions: bar]
BT_PTX void barrier_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
BT_PTX void barrier_arrive(int id, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- clusters: blocks that see each other's shared memory --------------------------------------
// [Data Movement and Conversion Instructions: mapa], [Parallel Synchronization and Communication
// Instructions: barrier.cluster]
// The same place in the shared memory of the cluster's block of that rank.
BT_PTX uint32_t cluster_address(uint32_t address, int rank)
{
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}
BT_PTX float4 load_remote(uint32_t from)
{
    float4 v;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}
// A barrier of all threads of the cluster that have not exited: what a thread did before it
// arrives, the others see after their wait.
BT_PTX void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
BT_PTX void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }

// Until the kernels before this one in the stream are done, where the launch did not wait for them.
// [Parallel Synchronization and Communication Instructions: griddepcontrol]
BT_PTX void wait_for_predecessor() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// Lets the next kernel's blocks start, which then wait for this one.
BT_PTX void start_successor() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// ---- flags in global memory ---------------------------------------------------------------------
// [Data Movement and Conversion Instructions: ld, st], [Memory Consistency Model]
BT_PTX int load_acquire(const int *from)
{
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}
BT_PTX void store_release(int *to, int value)
{
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

// *from, or `otherwise` without reading; predicated, see mbarrier_arrive_if.
BT_PTX float load_if(bool reads, const float *from, float otherwise)
{
    float value;
    asm volatile("{ .reg .pred p;\n"
                 "setp.ne.b32 p, %2, 0;\n"
                 "mov.f32 %0, %3;\n"
                 "@p ld.global.f32 %0, [%1]; }"
                 : "=f"(value)
                 : "l"(from), "r"((int)reads), "f"(otherwise)
                 : "memory");
    return value;
}
BT_PTX void store_if(bool writes, float *to, float value)
{
    asm volatile("{ .reg .pred p;\n"
                 "setp.ne.b32 p, %2, 0;\n"
                 "@p st.global.f32 [%0], %1; }" ::"l"(to),
                 "f"(value), "r"((int)writes)
                 : "memory");
}

// ---- 8x8 matrices of 16-bit values between registers and shared memory --------------------------
// Lane l names row l % 8 of matrix l / 8, 16 bytes. [Warp Level Matrix Instructions: stmatrix,
// ldmatrix]
BT_PTX void store_matrices(uint32_t to, const uint32_t (&v)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                 : "memory");
}
BT_PTX void store_pair(uint32_t to, float x, float y)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x), "f"(y) : "memory");
}
BT_PTX float2 load_pair(uint32_t from)
{
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from) : "memory");
    return v;
}
BT_PTX uint4 load_four(uint32_t from)
{
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}
BT_PTX uint32_t load_word(uint32_t from)
{
    uint32_t v;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
    return v;
}
BT_PTX void store_word(uint32_t to, uint32_t v)
{
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(v) : "memory");
}
BT_PTX void store_four(uint32_t to, const float *v)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v[0]), "f"(v[1]),
                 "f"(v[2]), "f"(v[3])
                 : "memory");
}
BT_PTX void store_four(uint32_t to, const uint32_t (&v)[4])
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0]), "r"(v[1]),
                 "r"(v[2]), "r"(v[3])
                 : "memory");
}
BT_PTX void load_matrices(uint32_t from, uint32_t (&v)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(from)
                 : "memory");
}
// The same with each matrix transposed.
BT_PTX void load_transposed(uint32_t from, uint32_t (&v)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(from)
                 : "memory");
}
// sums += a times ones: 16 rows of 16 values, each row's sum in every column of the result.
// [Warp Level Matrix Instructions: mma.m16n8k16]
BT_PTX void multiply_ones(float (&sums)[4], const uint32_t (&a)[4])
{
    constexpr uint32_t ONES = 0x3f803f80u; // bf16
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %8}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(ONES));
}
// d += A[16, 16] B[8, 16]^T in bf16; d as a warp's part of wgmma's accumulators, 8 columns.
BT_PTX void multiply_warp(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Two floats as bf16, rounded to nearest even; `low` in the lower half.
BT_PTX uint32_t pack_bf16(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}
BT_PTX float low_bf16(uint32_t packed) { return __uint_as_float(packed << 16); }
BT_PTX float high_bf16(uint32_t packed) { return __uint_as_float(packed & 0xffff0000u); }
// Nearest tf32, ties to even; NaN stays NaN. [Data Movement and Conversion Instructions: cvt]
BT_PTX uint32_t round_tf32(uint32_t value)
{
    uint32_t rounded;
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(value)));
    return rounded;
}
// 2^x, log2 x and 1 / x, the first and last good to 2 ulp; results under 2^-126 are 0. [Floating
// Point Instructions]
BT_PTX float exp2_approximate(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Absolute error up to 2^-22, relative up to 2^-22 outside of (1/2, 2).
BT_PTX float log2_approximate(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
BT_PTX float reciprocal_approximate(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Relative error up to 2^-11. [Floating Point Instructions: tanh]
BT_PTX float tanh_approximate(float x)
{
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// ---- wgmma: the four warps of a warpgroup multiply tiles that lie in shared memory --------------
// [Asynchronous Warpgroup Level Matrix Instructions]
//
// Accumulators: thread t of the warpgroup holds, for j = 0 .. N/8 - 1, d[4j], d[4j+1] at row
// 16 (t / 32) + t % 32 / 4 and columns 8j + 2 (t % 4) + {0, 1}, and d[4j+2], d[4j+3] 8 rows below.
BT_PTX void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
BT_PTX void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> BT_PTX void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Where an operand lies ("Matrix Descriptor Format"), 128-byte swizzle, atoms of 8 rows of 128
// bytes that start at multiples of 1024. K-major: rows are of M or N, atoms follow each other.
// MN-major: rows are of K, 64 values of M or N wide; `chunk_bytes` from one 64-wide chunk to the
// next.
template <bool MN_MAJOR> BT_PTX uint64_t wgmma_operand(uint32_t address, uint32_t chunk_bytes)
{
    uint64_t leading = MN_MAJOR ? chunk_bytes : 16;
    return (uint64_t)((address & 0x3ffff) >> 4) | leading >> 4 << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}
// The step, in a descriptor, to the next 16 values of K.
template <bool MN_MAJOR> constexpr int WGMMA_K_STEP = (MN_MAJOR ? 16 * 128 : 16 * 2) / 16;

// d (+)= A[64, 16] B[N, 16]^T, bf16 to f32; `add` false starts from zero.
template <int N, bool A_MN, bool B_MN> struct wgmma_bf16;

#define BT_TEN(t)                                                                                  \
    "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define BT_SIXTY    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," BT_TEN(1) BT_TEN(2) BT_TEN(3) BT_TEN(4) BT_TEN(5)
#define BT_32_NAMES "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," BT_TEN(1) BT_TEN(2) "%30,%31"
#define BT_64_NAMES BT_SIXTY "%60,%61,%62,%63"
#define BT_96_NAMES BT_SIXTY BT_TEN(6) BT_TEN(7) BT_TEN(8) "%90,%91,%92,%93,%94,%95"
#define BT_128_NAMES                                                                               \
    BT_SIXTY BT_TEN(6) BT_TEN(7) BT_TEN(8) BT_TEN(9) BT_TEN(10)                                    \
        BT_TEN(11) "%120,%121,%122,%123,%124,%125,%126,%127"
#define BT_8_SUMS(i)                                                                               \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define BT_SUMS_32(i) BT_8_SUMS(i), BT_8_SUMS(i + 8), BT_8_SUMS(i + 16), BT_8_SUMS(i + 24)
#define BT_32_SUMS    BT_SUMS_32(0)
#define BT_64_SUMS    BT_32_SUMS, BT_SUMS_32(32)
#define BT_96_SUMS    BT_64_SUMS, BT_SUMS_32(64)
#define BT_128_SUMS   BT_96_SUMS, BT_SUMS_32(96)

// n columns, count = n / 2 sums of a thread; a, b, add, ta, tb are the operands' numbers after
// them.
#define BT_WGMMA(n, count, a, b, add, ta, tb)                                                      \
    template <bool A_MN, bool B_MN> struct wgmma_bf16<n, A_MN, B_MN> {                             \
        BT_PTX void multiply(float (&d)[count], uint64_t left, uint64_t right, bool adds)          \
        {                                                                                          \
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #add ", 0;\n"                          \
                         "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 "               \
                         "{" BT_##count##_NAMES "}, %" #a ", %" #b ", p, 1, 1, %" #ta ", %" #tb    \
                                                "; }"                                              \
                         : BT_##count##_SUMS                                                       \
                         : "l"(left), "l"(right), "r"((int)adds), "n"((int)A_MN), "n"((int)B_MN)); \
        }                                                                                          \
    };
BT_WGMMA(64, 32, 32, 33, 34, 35, 36)
BT_WGMMA(128, 64, 64, 65, 66, 67, 68)
BT_WGMMA(192, 96, 96, 97, 98, 99, 100)
BT_WGMMA(256, 128, 128, 129, 130, 131, 132)

// The same with A in registers, d (+)= A[64, 16] B[64, 16]^T: of thread t, with row
// r = 16 (t / 32) + t % 32 / 4 and column c = 2 (t % 4), a[0] (r, c), a[1] (r + 8, c),
// a[2] (r, c + 8), a[3] (r + 8, c + 8), each with the next column in its upper half. They must not
// change until the product is done: wgmma_settle keeps them.
template <bool B_MN>
BT_PTX void wgmma_bf16_registers(float (&d)[32], const uint32_t *left, uint64_t right, bool adds)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{" BT_32_NAMES "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38; }"
                 : BT_32_SUMS
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
                   "r"((int)adds), "n"((int)B_MN));
}
// d (+)= A[64, 8] B[64, 8]^T, tf32, both K-major in shared memory.
BT_PTX void wgmma_tf32_shared(float (&d)[32], uint64_t left, uint64_t right, bool adds)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
                 "{" BT_32_NAMES "}, %32, %33, p, 1, 1; }"
                 : BT_32_SUMS
                 : "l"(left), "l"(right), "r"((int)adds));
}

// d (+)= A[64, 8] B[N, 8]^T, tf32 to f32, B K-major in shared memory; the values must be rounded.
// A in registers: of thread t, with row r = 16 (t / 32) + t % 32 / 4 and c = t % 4,
// a[0] (r, c), a[1] (r + 8, c), a[2] (r, c + 4), a[3] (r + 8, c + 4). They must not change until
// the product is done: wgmma_settle keeps them.
template <int N> struct wgmma_tf32;

#define BT_WGMMA_TF32(n, count, a0, a1, a2, a3, b, add)                                            \
    template <> struct wgmma_tf32<n> {                                                             \
        BT_PTX void multiply(float (&d)[count], const uint32_t (&left)[4], uint64_t right,         \
                             bool adds)                                                            \
        {                                                                                          \
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #add ", 0;\n"                          \
                         "wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32 "                \
                         "{" BT_##count##_NAMES "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3          \
                                                "}, %" #b ", p, 1, 1; }"                           \
                         : BT_##count##_SUMS                                                       \
                         : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),     \
                           "r"((int)adds));                                                        \
        }                                                                                          \
    };
BT_WGMMA_TF32(64, 32, 32, 33, 34, 35, 36, 37)
BT_WGMMA_TF32(128, 64, 64, 65, 66, 67, 68, 69)
BT_WGMMA_TF32(192, 96, 96, 97, 98, 99, 100, 101)
BT_WGMMA_TF32(256, 128, 128, 129, 130, 131, 132, 133)

// After the last wgmma_wait: keeps the compiler from reading the sums earlier.
template <int COUNT> BT_PTX void wgmma_settle(float (&d)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        asm volatile("" : "+f"(d[i])::"memory");
    }
}
template <int COUNT> BT_PTX void wgmma_settle(uint32_t (&a)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        asm volatile("" : "+r"(a[i])::"memory");
    }
}

#endif
