// kernels/cuda/gemm/launch_sm90.cu - host code of the Hopper GEMMs: conditions of a call, tensor
//   maps, launch
// Shapes   any m, k >= 1 and any batch; matrices at multiples of 16 bytes, with row and batch
//          strides that are too; n a multiple of 16 bytes of D
// Sync     a launch encodes its maps on the host. Launches whose splits of K add to D one after the
//          other are cooperative; all others, also those that split K within clusters, overlap the
//          end of the previous kernel (programmatic dependent launch)
// Errors   INVALID_ARGUMENT for a plan of other shape or type, or too small a workspace
#include <string.h>

#include "kernels/cuda/gemm/arch_sm90.h"
#include "kernels/cuda/gemm/sm90.h"
#include "kernels/cuda/overlap.h"
#include "kernels/cuda/tensor_map.h"

namespace bt_gemm_sm90
{

// A [batch, rows, cols] matrix that TMA moves in boxes of box_rows rows of 128 bytes.
static bt_status make_map(const void *matrix, bt_dtype dtype, int64_t rows, int64_t cols,
                          int64_t ld, int64_t batch, int64_t stride, int box_rows, CUtensorMap *map)
{
    const bool wide = dtype == BT_F32;
    const cuuint64_t bytes = wide ? 4 : 2;
    const bt_tensor_map_shape shape = {
        wide ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        CU_TENSOR_MAP_SWIZZLE_128B,
        3,
        {(cuuint64_t)cols, (cuuint64_t)rows, (cuuint64_t)batch},
        {(cuuint64_t)ld * bytes, (cuuint64_t)(batch > 1 ? stride : ld) * bytes},
        {wide ? 32u : 64u, (cuuint32_t)box_rows, 1}};
    return bt_tensor_map_make(matrix, &shape, map);
}

// An operand: K-major boxes are as high as the tile, MN-major ones as deep as a k-block.
static bt_status make_operand(const family &of, const void *matrix, bool mn_major, int64_t span,
                              int64_t k, int64_t ld, int64_t batch, int64_t stride, int tile,
                              CUtensorMap *map)
{
    return mn_major ? make_map(matrix, of.dtype, k, span, ld, batch, stride, of.depth, map)
                    : make_map(matrix, of.dtype, span, k, ld, batch, stride, tile, map);
}

static bt_status make_outputs(const bt_gemm_args *args, epilogue kind, problem *p)
{
    BT_TRY(make_map(args->d, args->d_dtype, args->m, args->n, args->ldd, args->batch,
                    args->stride_d, 64, &p->d));
    if (kind == EPILOGUE_ADD) {
        return make_map(args->c, args->d_dtype, args->m, args->n, args->ldc, args->batch,
                        args->stride_c, 64, &p->other);
    }
    if (kind == EPILOGUE_GELU || kind == EPILOGUE_DGELU) {
        return make_map(args->aux, args->d_dtype, args->m, args->n, args->ldd, args->batch,
                        args->stride_d, 64, &p->other);
    }
    return BT_OK;
}

bt_gemm_args roles_of(const bt_gemm_args *call, const variant &how)
{
    bt_gemm_args args = *call;
    if (how.exchanged) { // op(A)^T is [k, m], as op(B) is [k, n]: no layout changes
        args.a = call->b;
        args.b = call->a;
        args.lda = call->ldb;
        args.ldb = call->lda;
        args.stride_a = call->stride_b;
        args.stride_b = call->stride_a;
        args.m = call->n;
        args.n = call->m;
    }
    return args;
}

bt_status make_problem(const family &of, const bt_gemm_args *call, const plan &chosen,
                       const float *rounded, problem *p)
{
    const bool exchanged = chosen.how->exchanged;
    const bt_gemm_args roles = roles_of(call, *chosen.how), *const args = &roles;
    const int tile_m = exchanged ? chosen.how->tile_n : chosen.how->tile_m;
    const int tile_n = exchanged ? chosen.how->tile_m : chosen.how->tile_n;
    bool biased = args->epilogue == BT_EPILOGUE_BIAS || args->epilogue == BT_EPILOGUE_BIAS_GELU;
    memset(p, 0, sizeof *p);
    p->bias = biased ? args->bias : NULL;
    p->alpha = (float)args->alpha;
    p->beta = (float)args->beta;
    p->out = args->d_dtype == BT_F32 ? (float *)args->d : NULL;
    p->ld_out = args->ldd;
    p->stride_out = args->batch > 1 ? args->stride_d : 0;
    p->m = (int)args->m;
    p->n = (int)args->n;
    p->k = (int)args->k;
    p->batch = (int)args->batch;
    p->tiles_m = (int)bt_div_up(args->m, tile_m);
    p->tiles_n = (int)bt_div_up(args->n, tile_n);
    p->splits = chosen.splits;
    p->units = p->tiles_m * p->tiles_n * p->batch * p->splits;
    p->group = chosen.group;
    BT_TRY(make_operand(of, args->a, args->trans_a, args->m, args->k, args->lda, args->batch,
                        args->stride_a, tile_m, &p->a));
    if (chosen.how->rounds_b) {
        const int64_t ld = rounded_ld(args);
        BT_TRY(make_operand(of, rounded, false, args->n, args->trans_a ? ld : args->k, ld,
                            args->batch, args->n * ld, tile_n, &p->b));
    } else if (of.dtype == BT_F32) {
        p->b_values = (const float *)args->b;
        p->ldb = args->ldb;
        p->stride_b = args->stride_b;
    } else {
        BT_TRY(make_operand(of, args->b, !args->trans_b, args->n, args->k, args->ldb, args->batch,
                            args->stride_b, tile_n, &p->b));
    }
    return make_outputs(call, chosen.how->kind, p);
}

// TMA requires addresses and strides at multiples of 16 bytes; strides are in elements of `size`
// bytes.
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
           bt_div_up(args->m, 128) * bt_div_up(args->n, 128) <= most / SPLITS_MOST / args->batch;
}

bool is_legal(const family &of, const bt_gemm_args *args)
{
    const epilogue kind = epilogue_of(of, args);
    const int in = (int)bt_dtype_size(args->ab_dtype), size = (int)bt_dtype_size(args->d_dtype);
    if (kind == EPILOGUE_COUNT || !fits(args) ||
        !aligned(args->a, args->lda, args->stride_a, args->batch, in) ||
        !aligned(args->b, args->ldb, args->stride_b, args->batch, in) ||
        (of.dtype == BT_F32 && !args->trans_a && args->n > ROUNDED_N_MOST)) {
        return false;
    }
    // TMA stores whole 16-byte pieces: a partial one would overwrite its neighbours.
    const bool aux = kind == EPILOGUE_GELU || kind == EPILOGUE_DGELU;
    return args->n * size % 16 == 0 &&
           aligned(args->d, args->ldd, args->stride_d, args->batch, size) &&
           (kind != EPILOGUE_ADD ||
            aligned(args->c, args->ldc, args->stride_c, args->batch, size)) &&
           (!aux || (args->aux && (uintptr_t)args->aux % 16 == 0));
}

// Workspace: B rounded by round_b, then the flags of splits, then partial sums of dbias: a row of
// D's column sums for each row of tiles, or of A's column sums for each part of K. No call needs
// all three.
static size_t rounded_bytes(const bt_gemm_args *args, const plan &chosen)
{
    const int64_t rows = chosen.how->exchanged ? args->m : args->n;
    const size_t values = (size_t)args->batch * (size_t)rows * (size_t)rounded_ld(args);
    return chosen.how->rounds_b ? bt_align_256(values * sizeof(float)) : 0;
}

static size_t flags_bytes(const bt_gemm_args *args, const plan &chosen)
{
    const int64_t tiles = bt_div_up(args->m, chosen.how->tile_m) *
                          bt_div_up(args->n, chosen.how->tile_n) * args->batch;
    return chosen.splits > 1 ? bt_align_256((size_t)tiles * TURNS_PER_TILE * sizeof(int)) : 0;
}

static int64_t dbias_count(const bt_gemm_args *args)
{
    return args->dbias_of_a ? args->m : args->n;
}

// In bf16 the tiles that read the same rows of op(A) divide its k-blocks among them
// (bf16_sm90.cuh). In tf32 the first of these tiles sums all of them, unless the pass that rounds A
// does.
static int64_t dbias_parts(const bt_gemm_args *args, const plan &chosen)
{
    const int64_t splits = bt_max_i64(chosen.splits, chosen.how->cluster);
    return !args->dbias_of_a           ? bt_div_up(args->m, chosen.how->tile_m)
           : chosen.how->exchanged     ? rounded_parts(args)
           : args->ab_dtype == BT_BF16 ? splits * bt_div_up(args->n, chosen.how->tile_n)
                                       : splits;
}

static size_t dbias_bytes(const bt_gemm_args *args, const plan &chosen)
{
    const int64_t sums = args->dbias ? dbias_parts(args, chosen) * dbias_count(args) : 0;
    return bt_align_256((size_t)sums * sizeof(float));
}

size_t workspace_of(const bt_gemm_args *args, const plan &chosen)
{
    return rounded_bytes(args, chosen) + flags_bytes(args, chosen) + dbias_bytes(args, chosen);
}

static bt_status start(const bt_device *device, const char *name, const variant *v,
                       const problem &p, unsigned blocks, cudaStream_t stream)
{
    cudaLaunchConfig_t how = {};
    cudaLaunchAttribute attributes[2] = {};
    how.gridDim = dim3(blocks);
    how.blockDim = dim3((unsigned)v->threads);
    how.dynamicSmemBytes = (size_t)v->shared_bytes;
    how.stream = stream;
    how.attrs = attributes;
    if (v->cluster > 1) {
        attributes[0].id = cudaLaunchAttributeClusterDimension;
        attributes[0].val.clusterDim = {(unsigned)v->cluster, 1, 1};
        how.numAttrs = 1;
    }
    if (p.splits > 1) { // splits wait for each other: all blocks must be resident
        attributes[how.numAttrs].id = cudaLaunchAttributeCooperative;
        attributes[how.numAttrs++].val.cooperative = 1;
    } else { // programmatic dependent launch: overlaps the end of the previous kernel
        bt_cuda_overlap(device, (const void *)v->kernel, &how);
    }
    BT_TRY(bt_cuda_check(cudaFuncSetAttribute((const void *)v->kernel,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              v->shared_bytes),
                         name));
    BT_TRY(bt_cuda_check(cudaLaunchKernelEx(&how, v->kernel, p), name));
    return bt_cuda_launched(name);
}

// As many as there are units or SMs; in clusters every tile has blocks of its own.
static unsigned blocks_of(const variant &v, const problem &p, int processors)
{
    return v.cluster > 0 ? (unsigned)(p.units * v.cluster)
                         : (unsigned)bt_min_i64(p.units, processors);
}

bt_status launch_plan(const bt_launch *launch, const family &of, const bt_gemm_args *args,
                      const plan &chosen)
{
    const bool fitting =
        chosen.how &&
        bt_div_up(args->k, of.depth) >= bt_max_i64(chosen.splits, chosen.how->cluster) &&
        chosen.how->kind == epilogue_of(of, args) && chosen.how->trans_a == args->trans_a &&
        chosen.how->trans_b == args->trans_b &&
        (chosen.splits == 1 || (chosen.how->kind == EPILOGUE_F32 && chosen.how->cluster == 0));
    const size_t needed = fitting ? workspace_of(args, chosen) : 0;
    cudaStream_t stream = bt_cuda_stream(launch);
    problem p;
    if (!fitting || needed > launch->workspace_bytes) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s: the plan is of another call, or the workspace is too small: expected "
                        "%zu bytes, got %zu",
                        of.name, needed, launch->workspace_bytes);
    }
    char *const flags = (char *)launch->workspace + rounded_bytes(args, chosen);
    float *const rounded = (float *)launch->workspace;
    BT_TRY(make_problem(of, args, chosen, rounded, &p));
    if (chosen.splits > 1) {
        p.turn = (int *)flags;
        BT_TRY(bt_cuda_check(cudaMemsetAsync(flags, 0, flags_bytes(args, chosen), stream),
                             "split flags"));
    }
    float *const parts = (float *)(flags + flags_bytes(args, chosen));
    const bool sums_before = args->dbias && chosen.how->exchanged; // by the pass that rounds A
    if (args->dbias && !sums_before) {
        (args->dbias_of_a ? p.a_sums : p.column_sums) = parts;
    }
    if (chosen.how->rounds_b) {
        const bt_gemm_args roles = roles_of(args, *chosen.how);
        BT_TRY(round_b(launch, &roles, rounded, sums_before ? parts : NULL));
    }
    BT_TRY(start(launch->device, of.name, chosen.how, p,
                 blocks_of(*chosen.how, p, launch->device->info.processor_count), stream));
    return args->dbias
               ? add_column_sums(launch, args, parts, dbias_parts(args, chosen), dbias_count(args))
               : BT_OK;
}

// The plan of the plain call with EXP in place of STORE. Its cost model takes EXP to be as fast,
// which makes no difference where both epilogues are shorter than a multiplication.
static plan exps_plan(const family &of, const bt_gemm_args *args, int processors)
{
    plan chosen = plan_of(of, args, processors);
    for (int i = 0; i < of.variant_count; ++i) {
        const variant &v = of.variants[i];
        if (v.kind == EPILOGUE_EXP && v.tile_n == chosen.how->tile_n) {
            chosen.how = &v;
            break;
        }
    }
    return chosen;
}

int64_t exps_parts(const family &of, const bt_gemm_args *args, int processors)
{
    return bt_div_up(args->n, exps_plan(of, args, processors).how->tile_n);
}

bt_status launch_exps(const bt_launch *launch, const family &of, const bt_gemm_args *args,
                      const float *reference, const int *targets, float *row_sums)
{
    const int processors = launch->device->info.processor_count;
    const plan chosen = exps_plan(of, args, processors);
    problem p;
    if (chosen.how->kind != EPILOGUE_EXP) {
        return bt_error(BT_STATUS_UNSUPPORTED, "%s has no exponentials for tiles %d wide", of.name,
                        chosen.how->tile_n);
    }
    BT_TRY(make_problem(of, args, chosen, NULL, &p));
    p.reference = reference;
    p.targets = targets;
    p.row_sums = row_sums;
    return start(launch->device, "linear_exps_bf16_sm90", chosen.how, p,
                 blocks_of(*chosen.how, p, processors), bt_cuda_stream(launch));
}

bool accepts(const family &of, const bt_device *device, const bt_gemm_args *args)
{
    const bt_cuda_gemm_choice choice = ((bt_cuda_device *)device->impl)->gemm_choice;
    return bt_sm90_code_runs(device->info.arch, BT_CUDA_SM90A) && is_legal(of, args) &&
           (choice == BT_CUDA_GEMM_OWN ||
            (choice == BT_CUDA_GEMM_AUTO && is_worth_it(of, args, device->info.processor_count)));
}

bt_status run(const family &of, const bt_launch *launch, const bt_gemm_args *args)
{
    const plan chosen = launch->plan ? plan_at(of, args, launch->plan)
                                     : plan_of(of, args, launch->device->info.processor_count);
    return bt_error_context(launch_plan(launch, of, args, chosen),
                            "gemm of [%lld,%lld] by [%lld,%lld]", (long long)args->m,
                            (long long)args->k, (long long)args->k, (long long)args->n);
}

} // namespace bt_gemm_sm90
