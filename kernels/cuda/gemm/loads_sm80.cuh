// kernels/cuda/gemm/loads_sm80.cuh - loads operands into shared memory by cp.async, from sm_80 on
//
// A stage of the ring holds a k-block: of each operand SPAN rows of M or N by DEPTH values of K, as
// SPAN lines of DEPTH values (K-major) or as DEPTH lines of SPAN values (MN-major). Threads copy
// chunks of lines by cp.async, some of them in each step of the multiplication.
//
// Invariants
//   1. The ring continues across units (units_sm80.cuh): while a block multiplies and writes the
//      end of one unit, it loads the first k-blocks of the next.
//   2. A stage is reloaded after the barrier that follows its last read.
// Edges      values outside of A and B are zeros. Chunks at an edge are copied in part. Matrices
//            that are not aligned to 16 bytes are copied value by value, a whole k-block at once
// Source     PTX ISA, cp.async
#ifndef BT_KERNELS_CUDA_GEMM_LOADS_SM80_CUH
#define BT_KERNELS_CUDA_GEMM_LOADS_SM80_CUH

#include "kernels/cuda/attention/mma.cuh"
#include "kernels/cuda/gemm/units_sm80.cuh"

namespace bt_gemm_sm80
{

// One copy of BYTES, 16 (bypassing L1) or 4. A predicate instead of a branch keeps the surrounding
// steps one basic block for the compiler's scheduler.
template <int BYTES>
static __device__ __forceinline__ void copy_if(bool go, uint32_t to, const char *from)
{
    if constexpr (BYTES == 16) {
        asm volatile("{\n.reg .pred go;\nsetp.ne.b32 go, %2, 0;\n"
                     "@go cp.async.cg.shared.global [%0], [%1], 16;\n}" ::"r"(to),
                     "l"(from), "r"((int)go)
                     : "memory");
    } else {
        asm volatile("{\n.reg .pred go;\nsetp.ne.b32 go, %2, 0;\n"
                     "@go cp.async.ca.shared.global [%0], [%1], 4;\n}" ::"r"(to),
                     "l"(from), "r"((int)go)
                     : "memory");
    }
}

// `bytes` of the BYTES; zeros for the rest. Source  PTX ISA, cp.async with src-size
template <int BYTES>
static __device__ __forceinline__ void copy_part(uint32_t to, const void *from, int bytes)
{
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                     "r"(bytes)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
                     : "memory");
    }
}

// A thread's copies of an operand: COUNT lines, STEP apart, PER chunks of each, ACROSS apart. L
// describes the operand's part of a stage:
//   VALUE, MN_MAJOR, SPAN, DEPTH, BYTES
//   CHUNK            values that a copy moves
//   PER
//   at(line, chunk)  where a chunk lies; STEP lines and ACROSS chunks are always as far
template <class L, int THREADS> struct operand_loader {
    using VALUE = typename L::VALUE;
    static constexpr int CHUNK = L::CHUNK, CHUNK_BYTES = CHUNK * (int)sizeof(VALUE), PER = L::PER;
    static constexpr int LINES = L::MN_MAJOR ? L::DEPTH : L::SPAN;
    static constexpr int ACROSS = (L::MN_MAJOR ? L::SPAN : L::DEPTH) / CHUNK / PER;
    static constexpr int STEP = THREADS / ACROSS, COUNT = LINES / STEP;
    static_assert(THREADS % ACROSS == 0 && LINES % STEP == 0,
                  "every thread must load equally many chunks");

    const char *from;     // the next chunk
    int64_t step, rewind; // bytes from a line to the next, from behind the last to the next k-block
    int inside;           // rows (M) or columns (N) of the tile that are inside

    static __device__ __forceinline__ int line() { return (int)threadIdx.x / ACROSS; }
    static __device__ __forceinline__ int chunk() { return (int)threadIdx.x % ACROSS; }
    __device__ __forceinline__ operand_loader(int64_t ld)
        : from(NULL), step(STEP * ld * (int64_t)sizeof(VALUE)),
          rewind(L::MN_MAJOR ? 0 : (int64_t)sizeof(VALUE) * L::DEPTH - COUNT * step), inside(0)
    {
    }
    __device__ __forceinline__ void aim(const void *matrix, int64_t offset, int64_t ld, int first,
                                        int64_t end, int k)
    {
        from = (const char *)((const VALUE *)matrix + offset +
                              ((L::MN_MAJOR ? k : first) + line()) * ld +
                              (L::MN_MAJOR ? first : k) + chunk() * CHUNK);
        inside = (int)min((int64_t)L::SPAN, end - first);
    }
    // Starts copying part `part` of PARTS of a k-block that is all inside, or skips it.
    template <int PARTS> __device__ __forceinline__ void copy(bool go, uint32_t stage, int part)
    {
        constexpr bool EVEN = COUNT % PARTS == 0; // then `part` need not be known when compiling
        const int begin = EVEN ? part * (COUNT / PARTS) : part * COUNT / PARTS;
        const int count = EVEN ? COUNT / PARTS : (part + 1) * COUNT / PARTS - begin;
        const uint32_t to = stage + L::at(line(), chunk()) + (uint32_t)(begin * L::at(STEP, 0));
#pragma unroll
        for (int i = 0; i < count; ++i) {
#pragma unroll
            for (int j = 0; j < PER; ++j) {
                copy_if<CHUNK_BYTES>(go, to + i * L::at(STEP, 0) + j * L::at(0, ACROSS),
                                     from + j * ACROSS * CHUNK_BYTES);
            }
            from += step;
        }
        from += part == PARTS - 1 ? rewind : 0;
    }
    // Copies a k-block of which `left` values of K are inside; the next chunk stays the same.
    __device__ __forceinline__ void copy_edge(unsigned char *memory, int stage, int left,
                                              bool wide) const
    {
        const int lines = L::MN_MAJOR ? left : inside, values = L::MN_MAJOR ? inside : left;
#pragma unroll 1
        for (int i = 0; i < COUNT * PER; ++i) {
            const int at_line = line() + i / PER * STEP, at_chunk = chunk() + i % PER * ACROSS;
            const int count = at_line < lines ? values - at_chunk * CHUNK : 0;
            const char *source = from + i / PER * step + i % PER * ACROSS * CHUNK_BYTES;
            unsigned char *to = memory + stage + L::at(at_line, at_chunk);
            if (wide) {
                copy_part<CHUNK_BYTES>(shared_address(to), count > 0 ? source : from,
                                       max(0, min(count, CHUNK)) * (int)sizeof(VALUE));
            } else {
                for (int e = 0; e < CHUNK; ++e) {
                    ((VALUE *)to)[e] =
                        e < count ? ((const VALUE *)source)[e] : from_float<VALUE>(0);
                }
            }
        }
    }
};

// Prefetches the k-blocks of all of a block's units, STAGES - 1 ahead of their use.
//   C  A, B (layouts of the operands), STAGES, THREADS, TILE_M, TILE_N, DEPTH
template <class C> struct feed {
    static constexpr int STAGE_BYTES = C::A::BYTES + C::B::BYTES;
    operand_loader<typename C::A, C::THREADS> a;
    operand_loader<typename C::B, C::THREADS> b;
    course<C> units;
    int left;  // values of K of the unit from the next k-block on
    int stage; // its destination: bytes from the ring's start
    bool go;   // it is copied in parts

    __device__ __forceinline__ feed(const problem &p)
        : a(p.call.lda), b(p.call.ldb), units(p), left(0), stage(0), go(false)
    {
    }
    __device__ __forceinline__ void begin(const problem &p, unsigned char *memory)
    {
        const bt_gemm_args &call = p.call;
        unit t;
        if (left <= 0 && units.next(p, t)) {
            a.aim(call.a, t.batch * call.stride_a, call.lda, t.m, call.m, t.k_begin);
            b.aim(call.b, t.batch * call.stride_b, call.ldb, t.n, call.n, t.k_begin);
            left = t.k_end - t.k_begin;
        }
        const bool wide_a = p.wide_a || C::A::CHUNK == 1, wide_b = p.wide_b || C::B::CHUNK == 1;
        go = left >= C::DEPTH && wide_a && wide_b && a.inside == C::TILE_M && b.inside == C::TILE_N;
        if (!go && left > 0) {
            a.copy_edge(memory, stage, left, wide_a);
            b.copy_edge(memory, stage + C::A::BYTES, left, wide_b);
        }
    }
    template <int PARTS> __device__ __forceinline__ void copy(uint32_t ring, int part)
    {
        a.template copy<PARTS>(go, ring + stage, part);
        b.template copy<PARTS>(go, ring + stage + C::A::BYTES, part);
    }
    __device__ __forceinline__ void end()
    {
        cp_async_commit();
        left -= C::DEPTH;
        stage = stage + STAGE_BYTES == C::STAGES * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
    }
    // The first STAGES - 1 k-blocks.
    __device__ __forceinline__ void start(const problem &p, unsigned char *memory)
    {
#pragma unroll 1
        for (int i = 0; i < C::STAGES - 1; ++i) {
            begin(p, memory);
            copy<1>(shared_address(memory), 0);
            end();
        }
    }
};

} // namespace bt_gemm_sm80

#endif
