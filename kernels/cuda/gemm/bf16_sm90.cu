// kernels/cuda/gemm/bf16_sm90.cu - the row gemm_bf16_sm90: D = epilogue(alpha op(A) op(B)) + beta C
//   The pipeline is explained in bf16_sm90.cuh, the endings in endings_sm90.cuh, the choice of tile
//   and splits in plan.cu.
// Shapes   any m, k >= 1 and any batch; matrices at multiples of 16 bytes, with row and batch
//          strides that are too; n a multiple of 16 bytes of D
// Types    bf16 operands and bias; d, c, aux bf16, or d f32 in the layout of weight gradients
//          (trans_a, not trans_b, no epilogue, beta 0, or 1 and c is d); sums f32
// Bitwise  every sum's order is fixed by shape, plan and number of SMs; splits add in turn
// NaN      of an operand makes its row or column of D NaN
// Errors   accepts() is false on anything but compute capability 9.0 and, unless BT_GEMM=own, where
//          the model of plan.cu expects little of the kernel: the row above serves
// Oracle   the product in float64, tests/conformance/test_gemm.c
#include <cudaTypedefs.h>
#include <string.h>

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/gemm/endings_sm90.cuh"

namespace bt_gemm_sm90
{

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <class C>
static __device__ __forceinline__ void consume(const problem &p, const shared_map<C> &shared,
                                               unsigned char *memory, int index)
{
    const consumer me(index);
    const uint32_t boxes = shared.boxes(index);
    float *bias = shared.bias(memory, index);
    int position = 0, turn = 0, used = 0;
    tile_sums<C> sums;
    for (int u = (int)blockIdx.x; u < p.units; u += (int)gridDim.x) {
        const unit t = unit_at<C>(p, u);
        const int begin = position;
        position += t.k_end - t.k_begin;
        if ((turn++ & 1) != index) {
            continue;
        }
        if (turn > 1) {
            barrier_sync(ORDER + index, CONSUMERS * GROUP_THREADS);
        }
        if constexpr (C::ENDING == ENDING_ADD || C::ENDING == ENDING_DGELU) {
            begin_boxes<C>(p, t, me, shared, used);
        }
        if (C::ENDING != ENDING_F32 && C::ENDING != ENDING_DGELU) {
            load_bias<C>(p, t, me, bias);
        }
        const bool last = u + (int)gridDim.x >= p.units;
        multiply<C>(sums, shared, begin, t.k_end - t.k_begin, 1 - index, !last);
        if constexpr (C::ENDING == ENDING_F32) {
            finish_f32<C>(p, t, me, sums, boxes, used);
        } else if constexpr (C::ENDING == ENDING_ADD || C::ENDING == ENDING_DGELU) {
            finish_with_input<C>(p, t, me, sums, bias, shared, used);
        } else {
            finish_store<C>(p, t, me, sums, bias, boxes, used);
        }
    }
    if (me.leads()) {
        tma_store_wait<0>(); // shared memory must outlive its reading
    }
}
#endif

template <class C>
static __global__ void __launch_bounds__(THREADS, 1) gemm_kernel(const __grid_constant__ problem p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    const shared_map<C> shared(memory);
    // The role, the same for the whole warp: ptxas must see that it is.
    const int role = __shfl_sync(ALL_LANES, (int)threadIdx.x / GROUP_THREADS, 0);
    if (threadIdx.x == 0) {
        for (int i = 0; i < C::STAGES; ++i) {
            mbarrier_init(shared.full(i), 1);
            mbarrier_init(shared.empty(i), 1);
        }
        for (int i = 0; i < CONSUMERS * C::BOXES; ++i) {
            mbarrier_init(shared.loaded(0, i), 1);
        }
        mbarrier_init_fence();
        tma_prefetch(&p.a);
        tma_prefetch(&p.b);
    }
    __syncthreads();
    wait_for_predecessor();
    if (role == 0) {
        registers_give<40>();
        if (threadIdx.x == 0) {
            produce<C>(p, shared);
        }
    } else {
        registers_take<232>();
        consume<C>(p, shared, memory, role - 1);
    }
#endif
}

// ---- host ---------------------------------------------------------------------------------------

static PFN_cuTensorMapEncodeTiled_v12000 find_encoder()
{
    void *function = NULL;
    cudaDriverEntryPointQueryResult found;
    cudaError_t result = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                          12000, cudaEnableDefault, &found);
    return result == cudaSuccess && found == cudaDriverEntryPointSuccess
               ? (PFN_cuTensorMapEncodeTiled_v12000)function
               : NULL;
}

// A [batch, rows, cols] matrix that TMA moves in boxes of box_rows rows of 128 bytes.
static bt_status make_map(const void *matrix, bt_dtype dtype, int64_t rows, int64_t cols,
                          int64_t ld, int64_t batch, int64_t stride, int box_rows, CUtensorMap *map)
{
    static const PFN_cuTensorMapEncodeTiled_v12000 encode = find_encoder();
    if (!encode) {
        return bt_error(BT_STATUS_UNAVAILABLE, "the driver has no cuTensorMapEncodeTiled");
    }
    const bool wide = dtype == BT_F32;
    const cuuint64_t bytes = wide ? 4 : 2;
    const cuuint64_t size[3] = {(cuuint64_t)cols, (cuuint64_t)rows, (cuuint64_t)batch};
    const cuuint64_t strides[2] = {(cuuint64_t)ld * bytes,
                                   (cuuint64_t)(batch > 1 ? stride : ld) * bytes};
    const cuuint32_t box[3] = {wide ? 32u : 64u, (cuuint32_t)box_rows, 1};
    const cuuint32_t step[3] = {1, 1, 1};
    CUresult result =
        encode(map, wide ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3,
               (void *)matrix, size, strides, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
               CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL,
                          "tensor map of [%lld,%lld] with rows of %lld: CUDA error %d",
                          (long long)rows, (long long)cols, (long long)ld, (int)result);
}

// An operand: K-major boxes are as high as the tile, MN-major ones as deep as a k-block.
static bt_status make_operand(const void *matrix, bool mn_major, int64_t span, int64_t k,
                              int64_t ld, int64_t batch, int64_t stride, int tile, CUtensorMap *map)
{
    return mn_major ? make_map(matrix, BT_BF16, k, span, ld, batch, stride, DEPTH, map)
                    : make_map(matrix, BT_BF16, span, k, ld, batch, stride, tile, map);
}

static bt_status make_outputs(const bt_gemm_args *args, ending kind, problem *p)
{
    BT_TRY(make_map(args->d, args->d_dtype, args->m, args->n, args->ldd, args->batch,
                    args->stride_d, 64, &p->d));
    if (kind == ENDING_ADD) {
        return make_map(args->c, BT_BF16, args->m, args->n, args->ldc, args->batch, args->stride_c,
                        64, &p->other);
    }
    if (kind == ENDING_GELU || kind == ENDING_DGELU) {
        return make_map(args->aux, BT_BF16, args->m, args->n, args->ldd, args->batch,
                        args->stride_d, 64, &p->other);
    }
    return BT_OK;
}

static bt_status make_problem(const bt_gemm_args *args, const plan &chosen, problem *p)
{
    const ending kind = ending_of(args);
    bool biased = args->epilogue == BT_EPILOGUE_BIAS || args->epilogue == BT_EPILOGUE_BIAS_GELU;
    memset(p, 0, sizeof *p);
    p->bias = biased ? (const __nv_bfloat16 *)args->bias : NULL;
    p->alpha = (float)args->alpha;
    p->beta = (float)args->beta;
    p->m = (int)args->m;
    p->n = (int)args->n;
    p->k = (int)args->k;
    p->batch = (int)args->batch;
    p->tiles_m = (int)bt_div_up(args->m, TILE_M);
    p->tiles_n = (int)bt_div_up(args->n, chosen.tile_n);
    p->splits = chosen.splits;
    p->units = p->tiles_m * p->tiles_n * p->batch * p->splits;
    p->group = chosen.group;
    BT_TRY(make_operand(args->a, args->trans_a, args->m, args->k, args->lda, args->batch,
                        args->stride_a, TILE_M, &p->a));
    BT_TRY(make_operand(args->b, !args->trans_b, args->n, args->k, args->ldb, args->batch,
                        args->stride_b, chosen.tile_n, &p->b));
    return make_outputs(args, kind, p);
}

typedef void (*kernel_fn)(const problem);
struct variant {
    int tile_n;
    bool trans_a, trans_b;
    ending kind;
    kernel_fn kernel;
    int shared_bytes;
};

// Every kernel there is.
#define VARIANT(n, trans_a, trans_b, kind)                                                         \
    {                                                                                              \
        n, trans_a, trans_b, kind, gemm_kernel<config<n, trans_a, !(trans_b), kind>>,              \
            config<n, trans_a, !(trans_b), kind>::SHARED_BYTES                                     \
    }
#define BOTH_WIDTHS(trans_a, trans_b, kind)                                                        \
    VARIANT(128, trans_a, trans_b, kind), VARIANT(192, trans_a, trans_b, kind)
static const variant variants[] = {
    BOTH_WIDTHS(false, true, ENDING_STORE), BOTH_WIDTHS(false, true, ENDING_ADD),
    BOTH_WIDTHS(false, true, ENDING_GELU),  BOTH_WIDTHS(false, false, ENDING_STORE),
    BOTH_WIDTHS(false, false, ENDING_ADD),  BOTH_WIDTHS(false, false, ENDING_DGELU),
    BOTH_WIDTHS(true, false, ENDING_F32),
};

static const variant *find_variant(const bt_gemm_args *args, int tile_n)
{
    for (const variant &v : variants) {
        if (v.tile_n == tile_n && v.trans_a == args->trans_a && v.trans_b == args->trans_b &&
            v.kind == ending_of(args)) {
            return &v;
        }
    }
    return NULL;
}

// What TMA asks for: addresses and strides, in elements of `size` bytes, at multiples of 16 bytes.
static bool aligned(const void *matrix, int64_t ld, int64_t stride, int64_t batch, int size)
{
    return (uintptr_t)matrix % 16 == 0 && ld * size % 16 == 0 &&
           (batch == 1 || stride * size % 16 == 0);
}

static bool fits(const bt_gemm_args *args)
{
    const int64_t most = INT64_C(1) << 30;
    return args->m >= 1 && args->n >= 1 && args->k >= 1 && args->batch >= 1 && args->m <= most &&
           args->n <= most && args->k <= most && args->batch <= 65535 &&
           bt_div_up(args->m, TILE_M) * bt_div_up(args->n, 128) <= most / SPLITS_MOST / args->batch;
}

bool is_legal(const bt_gemm_args *args)
{
    const ending kind = ending_of(args);
    if (kind == ENDING_COUNT || !fits(args) || !find_variant(args, 128) ||
        !aligned(args->a, args->lda, args->stride_a, args->batch, 2) ||
        !aligned(args->b, args->ldb, args->stride_b, args->batch, 2)) {
        return false;
    }
    // A store of a part of 16 bytes would change the rest.
    const int size = kind == ENDING_F32 ? 4 : 2;
    const bool aux = kind == ENDING_GELU || kind == ENDING_DGELU;
    return args->n * size % 16 == 0 &&
           aligned(args->d, args->ldd, args->stride_d, args->batch, size) &&
           (kind != ENDING_ADD || aligned(args->c, args->ldc, args->stride_c, args->batch, size)) &&
           (!aux || (args->aux && (uintptr_t)args->aux % 16 == 0));
}

size_t workspace_of(const bt_gemm_args *args, const plan &chosen)
{
    int64_t tiles = bt_div_up(args->m, TILE_M) * bt_div_up(args->n, chosen.tile_n) * args->batch;
    return chosen.splits > 1 ? bt_align_256((size_t)tiles * sizeof(int)) : 0;
}

static bt_status start(const variant *v, const problem &p, unsigned blocks, cudaStream_t stream)
{
    cudaLaunchConfig_t how = {};
    cudaLaunchAttribute attribute = {};
    how.gridDim = dim3(blocks);
    how.blockDim = dim3(THREADS);
    how.dynamicSmemBytes = (size_t)v->shared_bytes;
    how.stream = stream;
    how.attrs = &attribute;
    how.numAttrs = 1;
    if (p.splits > 1) { // splits wait for each other: all blocks must be there
        attribute.id = cudaLaunchAttributeCooperative;
        attribute.val.cooperative = 1;
    } else { // the launch overlaps the end of the kernel before, which the kernel then waits for
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
    }
    BT_TRY(bt_cuda_check(cudaFuncSetAttribute((const void *)v->kernel,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              v->shared_bytes),
                         "gemm_bf16_sm90, shared memory"));
    BT_TRY(bt_cuda_check(cudaLaunchKernelEx(&how, v->kernel, p), "gemm_bf16_sm90"));
    return bt_cuda_launched("gemm_bf16_sm90");
}

bt_status launch_plan(const bt_launch *launch, const bt_gemm_args *args, const plan &chosen)
{
    const variant *v = find_variant(args, chosen.tile_n);
    const size_t flags_bytes = workspace_of(args, chosen);
    cudaStream_t stream = bt_cuda_stream(launch);
    problem p;
    if (!v || flags_bytes > launch->workspace_bytes) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "no variant of tile %d, or a workspace of %zu bytes where %zu are needed",
                        chosen.tile_n, launch->workspace_bytes, flags_bytes);
    }
    BT_TRY(make_problem(args, chosen, &p));
    if (chosen.splits > 1) {
        p.turn = (int *)launch->workspace;
        BT_TRY(bt_cuda_check(cudaMemsetAsync(p.turn, 0, flags_bytes, stream), "split flags"));
    }
    return start(v, p, (unsigned)bt_min_i64(p.units, launch->device->info.processor_count), stream);
}

} // namespace bt_gemm_sm90

bool bt_gemm_bf16_sm90_accepts(const bt_device *device, const void *call)
{
    const bt_gemm_args *args = (const bt_gemm_args *)call;
    const bt_cuda_gemm_choice choice = ((bt_cuda_device *)device->impl)->gemm_choice;
    return device->info.arch == 90 && choice != BT_CUDA_GEMM_CUBLASLT &&
           bt_gemm_sm90::is_legal(args) &&
           (choice == BT_CUDA_GEMM_OWN ||
            bt_gemm_sm90::is_worth_it(args, device->info.processor_count));
}

size_t bt_gemm_bf16_sm90_workspace(const bt_device *device, const void *call)
{
    const bt_gemm_args *args = (const bt_gemm_args *)call;
    return bt_gemm_sm90::workspace_of(args,
                                      bt_gemm_sm90::plan_of(args, device->info.processor_count));
}

bt_status bt_gemm_bf16_sm90(const bt_launch *launch, const void *call)
{
    const bt_gemm_args *args = (const bt_gemm_args *)call;
    bt_status status = bt_gemm_sm90::launch_plan(
        launch, args, bt_gemm_sm90::plan_of(args, launch->device->info.processor_count));
    return bt_error_context(status, "gemm of [%lld,%lld] by [%lld,%lld]", (long long)args->m,
                            (long long)args->k, (long long)args->k, (long long)args->n);
}
