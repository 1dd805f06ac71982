// kernels/cuda/gemm/cublaslt.cu - D = epilogue(alpha op(A) op(B)) + beta C through cuBLASLt
//
// cuBLASLt is column-major and sees a row-major matrix as its transpose. So the call computes
// D^T = op(B)^T op(A)^T, with A and B exchanged, m and n exchanged, and the bias (one per column of
// D) passed as cuBLASLt's bias (one per row of D^T).
//
// Invariants
//   1. A plan (descriptors and algorithm) depends on shapes, types, strides and pointer alignment
//      alone, and is made once per device: the same call runs the same algorithm every time.
//   2. The algorithm is the heuristic's first, without timing. BT_GEMM=cublaslt-best instead times
//      the heuristic's first CANDIDATES and takes the fastest, which may differ between processes:
//      it is a peer to compare with. Reduction schemes whose order of sums depends on timing are
//      excluded, so results repeat bit for bit.
//   3. accepts() is true where the heuristic returns an algorithm.
// Types    NATIVE f32 is CUBLAS_COMPUTE_32F (IEEE products and sums); TF32 uses fp32 operands
//          unchanged and the tensor core reads their upper 19 bits; bf16 sums in f32
// GELU     the derivative only for bf16: for f32 operands a product followed by our own pass is
//          faster. GELU itself only for bf16 and only with BT_GEMM=cublaslt or cublaslt-best, as a
//          peer to compare with: cuBLASLt's is approximate (tanh good to 2^-10) and differs from
//          UNARY of aux
// Errors   accepts() is false for GELU or its derivative except as above, and with beta != 0
//          (cuBLASLt adds C first), for k = 0 with an epilogue, and where the heuristic has no
//          algorithm
#include <cublasLt.h>
#include <pthread.h>
#include <string.h>

#include "framework/base/mem.h"
#include "kernels/cuda/cuda.cuh"

enum { BUCKETS = 256, CANDIDATES = 8, TRIALS = 5 };

struct gemm_key {
    int64_t m, n, k, lda, ldb, ldc, ldd, batch, stride_a, stride_b, stride_c, stride_d;
    int32_t trans_a, trans_b, accumulates, epilogue, has_bias, ab_dtype, d_dtype, compute;
    int32_t align_a, align_b, align_c, align_d, align_aux, align_bias;
};

struct gemm_plan {
    gemm_key key;
    struct gemm_plan *next; // owned, same bucket
    bool usable;
    cublasLtMatmulDesc_t product;      // owned, like the layouts
    cublasLtMatrixLayout_t a, b, c, d; // in cuBLASLt's places
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
};

typedef struct bt_cuda_gemm {
    cublasLtHandle_t handle;
    pthread_mutex_t lock; // guards the plans and the pointers inside their descriptors
    gemm_plan *buckets[BUCKETS];
} bt_cuda_gemm;

static bt_status check(cublasStatus_t result, const char *what)
{
    if (result == CUBLAS_STATUS_SUCCESS) {
        return BT_OK;
    }
    bt_status status = result == CUBLAS_STATUS_ALLOC_FAILED      ? BT_STATUS_OUT_OF_MEMORY
                       : result == CUBLAS_STATUS_NOT_SUPPORTED   ? BT_STATUS_UNSUPPORTED
                       : result == CUBLAS_STATUS_NOT_INITIALIZED ? BT_STATUS_UNAVAILABLE
                                                                 : BT_STATUS_INTERNAL;
    return bt_error(status, "cuBLASLt, %s: %s", what, cublasLtGetStatusString(result));
}

bt_status bt_cuda_gemm_create(struct bt_cuda_gemm **out)
{
    void *block = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_cuda_gemm), &block));
    bt_cuda_gemm *gemm = (bt_cuda_gemm *)block;
    bt_status status = check(cublasLtCreate(&gemm->handle), "creating a handle");
    if (status != BT_OK) {
        bt_mem_free(block);
        return status;
    }
    (void)pthread_mutex_init(&gemm->lock, NULL);
    *out = gemm;
    return BT_OK;
}

static void plan_free(gemm_plan *plan)
{
    cublasLtMatrixLayout_t layouts[] = {plan->a, plan->b, plan->c, plan->d};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; ++i) {
        if (layouts[i]) {
            (void)cublasLtMatrixLayoutDestroy(layouts[i]);
        }
    }
    if (plan->product) {
        (void)cublasLtMatmulDescDestroy(plan->product);
    }
    bt_mem_free(plan);
}

void bt_cuda_gemm_destroy(struct bt_cuda_gemm *gemm)
{
    if (!gemm) {
        return;
    }
    for (int i = 0; i < BUCKETS; ++i) {
        for (gemm_plan *plan = gemm->buckets[i]; plan;) {
            gemm_plan *next = plan->next;
            plan_free(plan);
            plan = next;
        }
    }
    (void)pthread_mutex_destroy(&gemm->lock);
    (void)cublasLtDestroy(gemm->handle);
    bt_mem_free(gemm);
}

// The largest power of two up to 256 that divides the address.
static int32_t alignment_of(const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    int32_t alignment = 1;
    while (alignment < 256 && (address & (uintptr_t)alignment) == 0) {
        alignment *= 2;
    }
    return alignment;
}

static gemm_key make_key(const bt_gemm_args *args)
{
    gemm_key key;
    bool batched = args->batch > 1;
    bool accumulates = args->beta != 0;
    bool aux = args->epilogue == BT_EPILOGUE_BIAS_GELU || args->epilogue == BT_EPILOGUE_DGELU;
    bool biased = args->bias &&
                  (args->epilogue == BT_EPILOGUE_BIAS || args->epilogue == BT_EPILOGUE_BIAS_GELU);
    memset(&key, 0, sizeof key);
    key.m = args->m;
    key.n = args->n;
    key.k = args->k;
    key.lda = args->lda;
    key.ldb = args->ldb;
    key.ldc = accumulates ? args->ldc : args->ldd;
    key.ldd = args->ldd;
    key.batch = args->batch;
    key.stride_a = batched ? args->stride_a : 0;
    key.stride_b = batched ? args->stride_b : 0;
    key.stride_c = batched ? (accumulates ? args->stride_c : args->stride_d) : 0;
    key.stride_d = batched ? args->stride_d : 0;
    key.trans_a = args->trans_a;
    key.trans_b = args->trans_b;
    key.accumulates = accumulates;
    key.epilogue = (int32_t)args->epilogue;
    key.has_bias = biased;
    key.ab_dtype = (int32_t)args->ab_dtype;
    key.d_dtype = (int32_t)args->d_dtype;
    key.compute = (int32_t)args->compute;
    key.align_a = alignment_of(args->a);
    key.align_b = alignment_of(args->b);
    key.align_c = alignment_of(accumulates ? args->c : args->d);
    key.align_d = alignment_of(args->d);
    key.align_aux = aux ? alignment_of(args->aux) : 0;
    key.align_bias = biased ? alignment_of(args->bias) : 0;
    return key;
}

static unsigned hash_key(const gemm_key *key)
{
    const unsigned char *bytes = (const unsigned char *)key;
    uint64_t hash = 14695981039346656037ULL; // FNV-1a
    for (size_t i = 0; i < sizeof *key; ++i) {
        hash = (hash ^ bytes[i]) * 1099511628211ULL;
    }
    return (unsigned)((hash ^ (hash >> 32)) % BUCKETS);
}

static cudaDataType_t type_of(int32_t dtype) { return dtype == BT_F32 ? CUDA_R_32F : CUDA_R_16BF; }

// A row-major [rows, cols] matrix as cuBLASLt sees it.
static bt_status make_layout(int32_t dtype, int64_t rows, int64_t cols, int64_t ld, int64_t batch,
                             int64_t stride, cublasLtMatrixLayout_t *out)
{
    int32_t count = (int32_t)batch;
    BT_TRY(
        check(cublasLtMatrixLayoutCreate(out, type_of(dtype), (uint64_t)cols, (uint64_t)rows, ld),
              "describing a matrix"));
    if (batch > 1) {
        BT_TRY(check(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                      &count, sizeof count),
                     "batch count"));
        BT_TRY(check(cublasLtMatrixLayoutSetAttribute(
                         *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
                     "batch stride"));
    }
    return BT_OK;
}

static cublasLtEpilogue_t epilogue_of(const gemm_key *key)
{
    switch (key->epilogue) {
    case BT_EPILOGUE_BIAS:
        return key->has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case BT_EPILOGUE_BIAS_GELU:
        return key->has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case BT_EPILOGUE_DGELU:
        return CUBLASLT_EPILOGUE_DGELU;
    default:
        return CUBLASLT_EPILOGUE_DEFAULT;
    }
}

static bt_status set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute,
                     const void *value, size_t size_bytes)
{
    return check(cublasLtMatmulDescSetAttribute(product, attribute, value, size_bytes),
                 "describing a product");
}

static bt_status set_pointers(const gemm_plan *plan, const bt_gemm_args *args)
{
    if (plan->key.has_bias) {
        BT_TRY(
            set(plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &args->bias, sizeof args->bias));
    }
    if (plan->key.align_aux) {
        BT_TRY(set(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &args->aux,
                   sizeof args->aux));
    }
    return BT_OK;
}

static bt_status describe_product(gemm_plan *plan, const bt_gemm_args *args)
{
    const gemm_key *key = &plan->key;
    cublasComputeType_t compute = key->ab_dtype == BT_F32 && key->compute == BT_COMPUTE_TF32
                                      ? CUBLAS_COMPUTE_32F_FAST_TF32
                                      : CUBLAS_COMPUTE_32F;
    cublasOperation_t first = key->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = key->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(key);
    int32_t bias_type = (int32_t)type_of(key->ab_dtype);
    int32_t aux_type = (int32_t)type_of(key->d_dtype);
    BT_TRY(check(cublasLtMatmulDescCreate(&plan->product, compute, CUDA_R_32F),
                 "describing a product"));
    BT_TRY(set(plan->product, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    BT_TRY(set(plan->product, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    BT_TRY(set(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    if (key->has_bias) {
        BT_TRY(
            set(plan->product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, sizeof bias_type));
    }
    if (key->align_aux) {
        BT_TRY(
            set(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &key->ldd, sizeof key->ldd));
        BT_TRY(set(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, &aux_type,
                   sizeof aux_type));
        if (key->batch > 1) {
            BT_TRY(set(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE,
                       &key->stride_d, sizeof key->stride_d));
        }
    }
    return set_pointers(plan, args);
}

static bt_status prefer(cublasLtMatmulPreference_t preference, size_t workspace_bytes,
                        const gemm_key *key)
{
    struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        uint32_t value;
    } const wishes[] = {
        // Sums of partial products in f32, in their order; never in place by order of arrival.
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)key->align_b},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)key->align_a},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)key->align_c},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)key->align_d},
    };
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; ++i) {
        BT_TRY(check(cublasLtMatmulPreferenceSetAttribute(preference, wishes[i].attribute,
                                                          &wishes[i].value, sizeof(uint32_t)),
                     "preferences"));
    }
    return check(cublasLtMatmulPreferenceSetAttribute(preference,
                                                      CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &workspace_bytes, sizeof workspace_bytes),
                 "preferences");
}

// Time of TRIALS products after one warm-up product; d is written to `scratch`, followed by the
// workspace.
static bt_status time_algorithm(cublasLtHandle_t handle, const gemm_plan *plan,
                                const bt_gemm_args *args, cudaStream_t stream, void *scratch,
                                size_t scratch_bytes,
                                const cublasLtMatmulHeuristicResult_t *candidate,
                                cudaEvent_t events[2], float *time_ms)
{
    const float alpha = (float)args->alpha, beta = (float)args->beta;
    for (int i = 0; i <= TRIALS; ++i) {
        if (i == 1) {
            BT_TRY(bt_cuda_check(cudaEventRecord(events[0], stream), "timing cuBLASLt"));
        }
        BT_TRY(
            check(cublasLtMatmul(handle, plan->product, &alpha, args->b, plan->a, args->a, plan->b,
                                 &beta, plan->key.accumulates ? args->c : scratch, plan->c, scratch,
                                 plan->d, &candidate->algo, (char *)scratch + scratch_bytes,
                                 candidate->workspaceSize, stream),
                  "timing"));
    }
    BT_TRY(bt_cuda_check(cudaEventRecord(events[1], stream), "timing cuBLASLt"));
    BT_TRY(bt_cuda_check(cudaEventSynchronize(events[1]), "timing cuBLASLt"));
    return bt_cuda_check(cudaEventElapsedTime(time_ms, events[0], events[1]), "timing cuBLASLt");
}

// The fastest of `count` candidates; a candidate that fails is skipped.
static bt_status choose_fastest(const bt_device *device, cublasLtHandle_t handle,
                                const gemm_plan *plan, const bt_gemm_args *args,
                                const cublasLtMatmulHeuristicResult_t *found, int count,
                                size_t workspace_bytes, int *best)
{
    cudaStream_t stream = bt_cuda_stream_of(device, NULL);
    const size_t d_bytes = bt_align_256(
        (size_t)((args->batch > 1 ? args->stride_d * (args->batch - 1) : 0) + args->ldd * args->m) *
        bt_dtype_size(args->d_dtype));
    cudaEvent_t events[2] = {NULL, NULL};
    void *scratch = NULL;
    float least_ms = 0;
    *best = 0;
    bt_status status = bt_cuda_check(cudaMalloc(&scratch, d_bytes + workspace_bytes),
                                     "allocating memory to time cuBLASLt");
    for (int i = 0; i < 2 && status == BT_OK; ++i) {
        status = bt_cuda_check(cudaEventCreate(&events[i]), "timing cuBLASLt");
    }
    for (int i = 0; i < count && status == BT_OK; ++i) {
        float time_ms = 0;
        bt_error_quiet_begin(); // a candidate that fails is skipped
        const bt_status timed = time_algorithm(handle, plan, args, stream, scratch, d_bytes,
                                               &found[i], events, &time_ms);
        bt_error_quiet_end();
        if (timed != BT_OK) {
            continue;
        }
        if (least_ms == 0 || time_ms < least_ms) {
            least_ms = time_ms;
            *best = i;
        }
    }
    for (int i = 0; i < 2; ++i) {
        if (events[i]) {
            (void)cudaEventDestroy(events[i]);
        }
    }
    (void)cudaFree(scratch);
    return status;
}

static bt_status choose_algorithm(const bt_device *device, cublasLtHandle_t handle,
                                  const bt_gemm_args *args, gemm_plan *plan)
{
    const bool best_of =
        ((bt_cuda_device *)device->impl)->gemm_choice == BT_CUDA_GEMM_CUBLASLT_BEST;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    int count = 0, chosen = 0;
    size_t limit = device->info.arch >= 90 ? (size_t)64 << 20 : (size_t)32 << 20;
    BT_TRY(check(cublasLtMatmulPreferenceCreate(&preference), "preferences"));
    bt_status status = prefer(preference, limit, &plan->key);
    if (status == BT_OK) {
        status = check(cublasLtMatmulAlgoGetHeuristic(handle, plan->product, plan->a, plan->b,
                                                      plan->c, plan->d, preference,
                                                      best_of ? CANDIDATES : 1, found, &count),
                       "choosing an algorithm");
    }
    (void)cublasLtMatmulPreferenceDestroy(preference);
    if (status == BT_OK && best_of && count > 1) {
        status = choose_fastest(device, handle, plan, args, found, count, limit, &chosen);
    }
    if (status == BT_OK && count > 0 && found[chosen].state == CUBLAS_STATUS_SUCCESS) {
        plan->algorithm = found[chosen].algo;
        plan->workspace_bytes = found[chosen].workspaceSize;
        plan->usable = true;
    }
    return status;
}

static bt_status make_plan(const bt_device *device, cublasLtHandle_t handle,
                           const bt_gemm_args *args, gemm_plan *plan)
{
    const gemm_key *key = &plan->key;
    BT_TRY(describe_product(plan, args));
    BT_TRY(make_layout(key->ab_dtype, key->trans_b ? key->n : key->k,
                       key->trans_b ? key->k : key->n, key->ldb, key->batch, key->stride_b,
                       &plan->a));
    BT_TRY(make_layout(key->ab_dtype, key->trans_a ? key->k : key->m,
                       key->trans_a ? key->m : key->k, key->lda, key->batch, key->stride_a,
                       &plan->b));
    BT_TRY(
        make_layout(key->d_dtype, key->m, key->n, key->ldc, key->batch, key->stride_c, &plan->c));
    BT_TRY(
        make_layout(key->d_dtype, key->m, key->n, key->ldd, key->batch, key->stride_d, &plan->d));
    return choose_algorithm(device, handle, args, plan);
}

// The plan of a call, created on first use; NULL when out of memory. A call that cuBLASLt does not
// support has a plan that is not usable. The caller holds the lock.
static gemm_plan *find_plan(const bt_device *device, const bt_gemm_args *args)
{
    bt_cuda_gemm *gemm = ((bt_cuda_device *)device->impl)->gemm;
    gemm_key key = make_key(args);
    gemm_plan **bucket = &gemm->buckets[hash_key(&key)];
    for (gemm_plan *plan = *bucket; plan; plan = plan->next) {
        if (memcmp(&plan->key, &key, sizeof key) == 0) {
            return plan;
        }
    }
    void *block = NULL;
    bt_error_quiet_begin(); // an unsupported call is not an error: its plan is kept as not usable
    if (bt_mem_alloc(1, sizeof(gemm_plan), &block) != BT_OK) {
        bt_error_quiet_end();
        return NULL;
    }
    gemm_plan *plan = (gemm_plan *)block;
    plan->key = key;
    (void)bt_cuda_stream_of(device, NULL);
    plan->usable = make_plan(device, gemm->handle, args, plan) == BT_OK && plan->usable;
    bt_error_quiet_end();
    plan->next = *bucket;
    *bucket = plan;
    return plan;
}

static bool is_empty(const bt_gemm_args *args)
{
    return args->m == 0 || args->n == 0 || args->batch == 0;
}

bool bt_gemm_cublaslt_accepts(const bt_device *device, const void *call)
{
    const bt_gemm_args *args = (const bt_gemm_args *)call;
    const bt_cuda_gemm_choice choice = ((bt_cuda_device *)device->impl)->gemm_choice;
    const bool as_peer = choice == BT_CUDA_GEMM_CUBLASLT || choice == BT_CUDA_GEMM_CUBLASLT_BEST;
    const bool gelu =
        args->epilogue == BT_EPILOGUE_BIAS_GELU || args->epilogue == BT_EPILOGUE_DGELU;
    bool types =
        (args->ab_dtype == BT_F32 && args->d_dtype == BT_F32) ||
        (args->ab_dtype == BT_BF16 && (args->d_dtype == BT_BF16 || args->d_dtype == BT_F32));
    if (!types || args->dbias || (gelu && (args->ab_dtype == BT_F32 || args->beta != 0)) ||
        (args->epilogue == BT_EPILOGUE_BIAS_GELU && !as_peer)) {
        return false;
    }
    if (is_empty(args)) {
        return true;
    }
    if (args->k == 0) {
        return args->epilogue == BT_EPILOGUE_NONE;
    }
    bt_cuda_gemm *gemm = ((bt_cuda_device *)device->impl)->gemm;
    (void)pthread_mutex_lock(&gemm->lock);
    const gemm_plan *plan = find_plan(device, args);
    bool usable = plan && plan->usable;
    (void)pthread_mutex_unlock(&gemm->lock);
    return usable;
}

size_t bt_gemm_cublaslt_workspace(const bt_device *device, const void *call)
{
    const bt_gemm_args *args = (const bt_gemm_args *)call;
    if (is_empty(args) || args->k == 0) {
        return 0;
    }
    bt_cuda_gemm *gemm = ((bt_cuda_device *)device->impl)->gemm;
    (void)pthread_mutex_lock(&gemm->lock);
    const gemm_plan *plan = find_plan(device, args);
    size_t size_bytes = plan ? plan->workspace_bytes : 0;
    (void)pthread_mutex_unlock(&gemm->lock);
    return size_bytes;
}

// d = beta c, the result for k = 0.
template <typename T> static __global__ void scale_kernel(const T *c, T *d, bt_gemm_args args)
{
    int64_t per_batch = args.m * args.n;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < args.batch * per_batch;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t batch = i / per_batch;
        int64_t row = i % per_batch / args.n;
        int64_t col = i % args.n;
        float old = args.beta == 0 ? 0.0f
                                   : (float)args.beta *
                                         to_float(c[batch * args.stride_c + row * args.ldc + col]);
        d[batch * args.stride_d + row * args.ldd + col] = from_float<T>(old);
    }
}

static bt_status scale(const bt_launch *launch, const bt_gemm_args *args)
{
    cudaStream_t stream = bt_cuda_stream(launch);
    unsigned grid =
        bt_cuda_grid(launch->device, bt_div_up(args->batch * args->m * args->n, 256), 8);
    if (args->d_dtype == BT_F32) {
        scale_kernel<float>
            <<<grid, 256, 0, stream>>>((const float *)args->c, (float *)args->d, *args);
    } else {
        scale_kernel<bf16><<<grid, 256, 0, stream>>>((const bf16 *)args->c, (bf16 *)args->d, *args);
    }
    return bt_cuda_launched("gemm_cublaslt of depth 0");
}

static bt_status multiply(const bt_launch *launch, const bt_gemm_args *args)
{
    bt_cuda_gemm *gemm = ((bt_cuda_device *)launch->device->impl)->gemm;
    gemm_plan *plan = find_plan(launch->device, args);
    if (!plan || !plan->usable) {
        return bt_error(BT_STATUS_UNSUPPORTED, "cuBLASLt has no algorithm for this product");
    }
    if (plan->workspace_bytes > launch->workspace_bytes) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "cuBLASLt: expected a workspace of %zu bytes, got %zu",
                        plan->workspace_bytes, launch->workspace_bytes);
    }
    float alpha = (float)args->alpha;
    float beta = (float)args->beta;
    BT_TRY(set_pointers(plan, args));
    return check(cublasLtMatmul(gemm->handle, plan->product, &alpha, args->b, plan->a, args->a,
                                plan->b, &beta, plan->key.accumulates ? args->c : args->d, plan->c,
                                args->d, plan->d, &plan->algorithm, launch->workspace,
                                plan->workspace_bytes, bt_cuda_stream(launch)),
                 "product");
}

static bt_status run(const bt_launch *launch, const void *call)
{
    const bt_gemm_args *args = (const bt_gemm_args *)call;
    if (is_empty(args)) {
        return BT_OK;
    }
    if (args->k == 0) {
        return scale(launch, args);
    }
    bt_cuda_gemm *gemm = ((bt_cuda_device *)launch->device->impl)->gemm;
    (void)pthread_mutex_lock(&gemm->lock);
    bt_status status = multiply(launch, args);
    (void)pthread_mutex_unlock(&gemm->lock);
    return bt_error_context(status, "gemm of [%lld,%lld] by [%lld,%lld]", (long long)args->m,
                            (long long)args->k, (long long)args->k, (long long)args->n);
}

bt_status bt_gemm_cublaslt_f32(const bt_launch *launch, const void *args)
{
    return run(launch, args);
}

bt_status bt_gemm_cublaslt_bf16(const bt_launch *launch, const void *args)
{
    return run(launch, args);
}
