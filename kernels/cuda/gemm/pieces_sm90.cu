// kernels/cuda/gemm/pieces_sm90.cu - the row gemm_pieces_bf16_sm90: a product whose rows arrive or
//   leave in pieces while it runs (bt_gemm_pieces_args)
//
// The kernel of bf16_sm90.cuh with other units: tiles in the order of the pieces. The producer
// waits for a piece's word before it loads the first slice of the piece; all blocks then go on, so
// the tensor cores wait at most once a piece. The thread that stores a tile counts it when its
// stores have landed; who counts the last tile of a piece sets its word. Words are set and awaited
// by streams of other ranks and of this one, by copy engines and stream memory operations that need
// no multiprocessor: this kernel takes all of them.
//
// Shapes   as gemm_bf16_sm90, rows untransposed; pieces of a multiple of 128 rows
// Bitwise  as gemm_bf16_sm90 without pieces
// Errors   accepts() is false for anything else
// Oracle   gemm_pieces_cpu in f64, tests/conformance/test_gemm_pieces.c
// Source   Chang et al. 2024, FLUX, arXiv:2406.06858, has the idea; PTX ISA, "Memory Consistency
//          Model", has the rules for words and for what TMA reads and writes
#include "kernels/cuda/gemm/bf16_block_sm90.cuh"
#include "kernels/cuda/overlap.h"

namespace bt_gemm_sm90
{

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

static __device__ __forceinline__ uint32_t load_word(const uint32_t *from)
{
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

static __device__ __forceinline__ void store_word(uint32_t *to, uint32_t value)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

// A block's units: every gridDim.x-th, from the first piece on.
template <class C> struct piece_units {
    const pieces &all;
    int u;
    int arrived = -1; // the last piece that was awaited

    __device__ __forceinline__ explicit piece_units(const pieces &of) : all(of), u((int)blockIdx.x)
    {
    }
    __device__ __forceinline__ bool more() const { return u < all.product.units; }
    __device__ __forceinline__ unit next()
    {
        unit t = unit_at<C>(all.product, u);
        t.m += all.first_m;
        t.m -= t.m >= all.product.m ? all.product.m : 0;
        u += (int)gridDim.x;
        return t;
    }
    __device__ __forceinline__ const problem &product() const { return all.product; }

    __device__ __forceinline__ bool is_own(const unit &t) const
    {
        return t.m >= all.own_begin && t.m < all.own_end;
    }
    __device__ __forceinline__ a_place rows_of(const problem &p, const unit &t)
    {
        if (is_own(t)) {
            return {&all.own, t.m - all.own_begin};
        }
        const int piece = t.m / all.rows;
        if (all.ready && piece != arrived) {
            while (load_word(&all.ready[piece]) == 0) {
            }
            fence_async_global();
            arrived = piece;
        }
        return {&p.a, t.m};
    }
    // The last block to end clears the words for the next product that waits for them.
    __device__ __forceinline__ void all_read()
    {
        if (!all.ready) {
            return;
        }
        __threadfence();
        if (atomicAdd(&all.count[all.number], 1u) == gridDim.x - 1) {
            for (int i = 0; i < all.number; ++i) {
                all.ready[i] = 0;
            }
            all.count[all.number] = 0;
        }
    }
    __device__ __forceinline__ void written(const unit &t)
    {
        if (!all.done || is_own(t)) {
            return;
        }
        const int piece = t.m / all.rows;
        const uint32_t tiles = (uint32_t)(all.rows / C::TILE_M * all.product.tiles_n);
        tma_store_wait<0>();
        fence_async_global();
        __threadfence();
        if (atomicAdd(&all.count[piece], 1u) == tiles - 1) {
            __threadfence(); // the other tiles of the piece come before the word
            all.count[piece] = 0;
            store_word(&all.done[piece], 1);
        }
    }
};

#endif

template <class C>
static __global__ void __launch_bounds__(THREADS, 1) pieces_kernel(const __grid_constant__ pieces p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    run_block<C>(piece_units<C>(p));
#endif
}

#define VARIANT(n, trans_b, kind)                                                                  \
    {                                                                                              \
        n, trans_b, kind, pieces_kernel<config<n, false, !(trans_b), kind>>,                       \
            config<n, false, !(trans_b), kind>::SHARED_BYTES                                       \
    }
#define BOTH_WIDTHS(trans_b, kind) VARIANT(128, trans_b, kind), VARIANT(192, trans_b, kind)
static const pieces_variant variants[] = {
    BOTH_WIDTHS(true, EPILOGUE_STORE), BOTH_WIDTHS(true, EPILOGUE_GELU),
    BOTH_WIDTHS(false, EPILOGUE_STORE), BOTH_WIDTHS(false, EPILOGUE_DGELU)};

// The kernel with the tiles of the plain product's plan; NULL: none.
static const pieces_variant *variant_of(const bt_gemm_args *product, const plan &chosen)
{
    for (const pieces_variant &v : variants) {
        if (v.kind == chosen.how->kind && v.tile_n == chosen.how->tile_n &&
            v.trans_b == product->trans_b && !chosen.how->cluster && chosen.splits == 1) {
            return &v;
        }
    }
    return NULL;
}

// Rows of tiles that are swept together: of one piece.
static int group_of(int wanted, int tiles)
{
    int group = wanted < tiles ? wanted : tiles;
    while (tiles % group != 0) {
        --group;
    }
    return group;
}

bt_status launch_pieces(const bt_launch *launch, const bt_gemm_pieces_args *args)
{
    const int processors = launch->device->info.processor_count;
    const bt_gemm_args *product = &args->product;
    const plan chosen = plan_of(family_bf16, product, processors);
    const pieces_variant *v = variant_of(product, chosen);
    pieces p = {};
    p.rows = (int)(product->m / args->pieces);
    p.number = (int)args->pieces;
    p.first_m = (int)args->first * p.rows;
    p.own_begin = (int)args->own_first * p.rows;
    p.own_end = p.own_begin + (int)args->own_count * p.rows;
    p.ready = args->ready;
    p.done = args->done;
    p.count = args->count;
    BT_TRY(make_problem(family_bf16, product, chosen, NULL, &p.product));
    p.product.group = group_of(chosen.group, p.rows / chosen.how->tile_m);
    if (args->own_count > 0) {
        bt_gemm_args own = *product;
        problem of_own;
        own.a = args->own;
        own.m = args->own_count * p.rows;
        BT_TRY(make_problem(family_bf16, &own, chosen, NULL, &of_own));
        p.own = of_own.a;
    }
    cudaLaunchConfig_t how = {};
    cudaLaunchAttribute early = {};
    how.gridDim = dim3((unsigned)bt_min_i64(p.product.units, processors));
    how.blockDim = dim3(THREADS);
    how.dynamicSmemBytes = (size_t)v->shared_bytes;
    how.stream = bt_cuda_stream(launch);
    how.attrs = &early;
    bt_cuda_overlap(launch->device, (const void *)v->kernel, &how);
    BT_TRY(bt_cuda_check(cudaFuncSetAttribute((const void *)v->kernel,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              v->shared_bytes),
                         "gemm_pieces_bf16_sm90"));
    BT_TRY(bt_cuda_check(cudaLaunchKernelEx(&how, v->kernel, p), "gemm_pieces_bf16_sm90"));
    return bt_cuda_launched("gemm_pieces_bf16_sm90");
}

} // namespace bt_gemm_sm90

bool bt_gemm_pieces_bf16_sm90_accepts(const bt_device *device, const void *call)
{
    using namespace bt_gemm_sm90;
    const bt_gemm_pieces_args *args = (const bt_gemm_pieces_args *)call;
    const bt_gemm_args *product = &args->product;
    return args->pieces > 0 && product->m % (args->pieces * 128) == 0 && product->batch == 1 &&
           !product->trans_a && !product->dbias && product->beta == 0.0 &&
           product->d_dtype == BT_BF16 && (args->own_count == 0 || bt_aligned_16(args->own)) &&
           accepts(family_bf16, device, product) &&
           variant_of(product, plan_of(family_bf16, product, device->info.processor_count));
}

bt_status bt_gemm_pieces_bf16_sm90(const bt_launch *launch, const void *args)
{
    return bt_gemm_sm90::launch_pieces(launch, (const bt_gemm_pieces_args *)args);
}
