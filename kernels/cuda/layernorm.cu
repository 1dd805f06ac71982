// kernels/cuda/layernorm.cu - LayerNorm forward, with the residual sum in the same pass
//   s = x + residual (as stored, rounded); y = (s - mean) rstd gamma + beta
// Two kernels: rows of up to 16384 columns stay in registers (one pass over memory, variance from
// the registers in a second pass); any other shape or alignment rereads its row. A third kernel,
// for rows of medium length, is in layernorm_warps.cu.
//   Types  f32, bf16; gamma and beta of either the same type or f32; mean and rstd f32
//   Cost   reads x (and residual), writes y (and sum) once; bound by HBM
//   NaN    a NaN or an infinity makes its row NaN
//   Approximate: rsqrtf (2 ulp)
#include "kernels/cuda/layernorm_forward.cuh"
#include "kernels/cuda/rows.cuh"

constexpr int ANY_THREADS = 256;

template <typename T, typename P> using forward_operands = layernorm_forward_operands<T, P>;

// s as stored: x, or the rounded sum with the residual, which is written. 0 past the end.
template <typename T, typename P, typename C, bool RESIDUAL>
static __device__ __forceinline__ void read_row(const forward_operands<T, P> &with, int64_t base,
                                                int cols, float (&held)[row_span<T, C>::N][WIDE<T>])
{
    using span = row_span<T, C>;
    constexpr int V = span::V;
    uint4 raw[span::N];
    span::read(with.x + base, cols, raw);
    if (RESIDUAL) {
        uint4 other[span::N];
        span::read(with.residual + base, cols, other);
#pragma unroll
        for (int i = 0; i < span::N; ++i) {
            float x[V];
            float more[V];
            unpack<T>(raw[i], x);
            unpack<T>(other[i], more);
#pragma unroll
            for (int j = 0; j < V; ++j) {
                x[j] += more[j];
            }
            store<V>(reinterpret_cast<T *>(&raw[i]), x);
            if (span::column(i) < cols) {
                *reinterpret_cast<uint4 *>(with.sum + base + span::column(i)) = raw[i];
            }
        }
    }
#pragma unroll
    for (int i = 0; i < span::N; ++i) {
        unpack<T>(raw[i], held[i]);
    }
}

// Gamma and beta of a pack of x, not yet converted.
template <typename P, int V> struct param_packs {
    static constexpr int WORDS = V / WIDE<P>;
    uint4 gamma[WORDS], beta[WORDS];

    __device__ __forceinline__ void fetch(const P *gamma_at, const P *beta_at)
    {
#pragma unroll
        for (int word = 0; word < WORDS; ++word) {
            gamma[word] = ::fetch<P, WIDE<P>>(gamma_at + word * WIDE<P>);
            beta[word] = beta_at ? ::fetch<P, WIDE<P>>(beta_at + word * WIDE<P>) : uint4{};
        }
    }
    // (held rstd) gamma + beta
    __device__ __forceinline__ void apply(float rstd, float (&held)[V]) const
    {
#pragma unroll
        for (int word = 0; word < WORDS; ++word) {
            float scale[WIDE<P>];
            float shift[WIDE<P>];
            unpack<P>(gamma[word], scale);
            unpack<P>(beta[word], shift);
#pragma unroll
            for (int j = 0; j < WIDE<P>; ++j) {
                float &value = held[word * WIDE<P> + j];
                value = value * rstd * scale[j] + shift[j];
            }
        }
    }
};

// EARLY: gamma and beta are loaded together with the row instead of before their use: lower
// latency, but fewer rows in flight.
template <typename T, typename P, typename C, bool RESIDUAL, bool EARLY>
static __global__ void __launch_bounds__(C::BLOCK, sizeof(P) == 2 ? C::RESIDENT : C::ROOMY)
    forward_rows_kernel(const __grid_constant__ forward_operands<T, P> with)
{
    using span = row_span<T, C>;
    constexpr int V = span::V;
    constexpr int N = span::N;
    __shared__ float shared[2][C::WARPS];
    const int64_t row = row_index<C>();
    const bool inside = row < with.rows;
    const int cols = inside ? (int)with.cols : 0;
    const int64_t base = row * with.cols;
    const float inverse = 1.0f / (float)with.cols;
    wait_for_previous();
    allow_next();
    // Gamma and beta are used after two reductions; the prefetch spares the first rows that
    // latency.
    for (int64_t c = threadIdx.x * 32; !EARLY && blockIdx.x == 0 && c < with.cols;
         c += C::BLOCK * 32) {
        prefetch(with.gamma + c);
        prefetch((with.beta ? with.beta : with.gamma) + c);
    }
    float held[N][V];
    param_packs<P, V> params[N];
    const auto fetch_params = [&](int i) {
        const int col = span::column(i);
        params[i].fetch(with.gamma + col, with.beta ? with.beta + col : nullptr);
    };
    read_row<T, P, C, RESIDUAL>(with, base, cols, held);
#pragma unroll
    for (int i = 0; EARLY && i < N; ++i) {
        if (span::column(i) < cols) {
            fetch_params(i);
        }
    }
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
            total += held[i][j];
        }
    }
    const float mean = row_sum<C>(total, shared[0]) * inverse;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if (span::column(i) < cols) {
#pragma unroll
            for (int j = 0; j < V; ++j) {
                held[i][j] -= mean;
                squares += held[i][j] * held[i][j];
            }
        }
    }
    const float rstd = rsqrtf(row_sum<C>(squares, shared[1]) * inverse + with.epsilon);
    if (inside && span::column(0) == 0) {
        with.mean[row] = mean;
        with.rstd[row] = rstd;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if (span::column(i) < cols) {
            if (!EARLY) {
                fetch_params(i);
            }
            params[i].apply(rstd, held[i]);
            store<V>(with.y + base + span::column(i), held[i]);
        }
    }
}

// Any length and alignment: a block per row, which is read again for each pass.
template <typename T, typename P>
static __global__ void __launch_bounds__(ANY_THREADS)
    forward_any_kernel(const __grid_constant__ forward_operands<T, P> with)
{
    __shared__ float shared[2][ANY_THREADS / WARP];
    const T *s = with.residual ? with.sum : with.x;
    for (int64_t row = blockIdx.x; row < with.rows; row += gridDim.x) {
        const int64_t base = row * with.cols;
        float total = 0.0f;
        for (int64_t c = threadIdx.x; c < with.cols; c += ANY_THREADS) {
            float value = to_float(with.x[base + c]);
            if (with.residual) {
                T rounded = from_float<T>(value + to_float(with.residual[base + c]));
                with.sum[base + c] = rounded;
                value = to_float(rounded);
            }
            total += value;
        }
        const float mean = block_sum<ANY_THREADS / WARP>(total, shared[0]) / (float)with.cols;
        float squares = 0.0f;
        for (int64_t c = threadIdx.x; c < with.cols; c += ANY_THREADS) {
            float distance = to_float(s[base + c]) - mean;
            squares += distance * distance;
        }
        squares = block_sum<ANY_THREADS / WARP>(squares, shared[1]);
        const float rstd = rsqrtf(squares / (float)with.cols + with.epsilon);
        if (threadIdx.x == 0) {
            with.mean[row] = mean;
            with.rstd[row] = rstd;
        }
        for (int64_t c = threadIdx.x; c < with.cols; c += ANY_THREADS) {
            float beta = with.beta ? to_float(with.beta[c]) : 0.0f;
            float value = (to_float(s[base + c]) - mean) * rstd * to_float(with.gamma[c]) + beta;
            with.y[base + c] = from_float<T>(value);
        }
    }
}

template <typename T, typename P, typename C, bool EARLY>
static void launch_rows(const bt_launch *launch, const forward_operands<T, P> &with)
{
    cudaStream_t stream = bt_cuda_stream(launch);
    row_launches<C>(with.rows, [&](int64_t first, int64_t rows, unsigned blocks) {
        const forward_operands<T, P> part = with.part(first, rows);
        auto kernel = with.residual ? forward_rows_kernel<T, P, C, true, EARLY>
                                    : forward_rows_kernel<T, P, C, false, EARLY>;
        launch_after(launch->device, kernel, blocks, C::BLOCK, 0, stream, part);
    });
}

// Launches rows of 513 to 1024 bf16 columns, a warp each, in smaller blocks. False: other length.
template <typename P>
static bool launch_halves(const bt_launch *launch, const forward_operands<bf16, P> &with)
{
    using at_once = row_config<24, WARP, 896, 128>; // of as many rows as are resident together
    const int64_t resident = (int64_t)launch->device->info.processor_count * at_once::RESIDENT;
    if (with.cols <= 512 || with.cols > 1024) {
        return false;
    } else if (with.cols > 768) {
        launch_rows<bf16, P, row_config<32, WARP, 1024, 64>, false>(launch, with);
    } else if (with.rows <= resident * at_once::ROWS) {
        launch_rows<bf16, P, at_once, true>(launch, with);
    } else if (with.residual) {
        launch_rows<bf16, P, row_config<24, WARP, 1024, 64>, false>(launch, with);
    } else {
        launch_rows<bf16, P, row_config<24, WARP, 1280, 128>, false>(launch, with);
    }
    return true;
}

template <typename T, typename P>
static bool launch_in_registers(const bt_launch *launch, const forward_operands<T, P> &with)
{
    if constexpr (sizeof(T) == 2) {
        if (launch_halves(launch, with)) {
            return true;
        }
    }
    return with_row_config<T>(
        with.cols, [&](auto config) { launch_rows<T, P, decltype(config), false>(launch, with); });
}

template <typename T, typename P>
static bt_status run(const bt_launch *launch, const bt_layernorm_args *args)
{
    if (args->rows == 0 || args->cols == 0) {
        return BT_OK;
    }
    const forward_operands<T, P> with = {
        (const T *)args->x,  (const T *)args->residual, (T *)args->sum,
        (T *)args->y,        (const P *)args->gamma,    (const P *)args->beta,
        (float *)args->mean, (float *)args->rstd,       args->rows,
        args->cols,          (float)args->epsilon,
    };
    bool wide = args->cols % WIDE<T> == 0 && bt_aligned_16(with.x) &&
                bt_aligned_16(with.residual) && bt_aligned_16(with.sum) && bt_aligned_16(with.y) &&
                bt_aligned_16(with.gamma) && bt_aligned_16(with.beta);
    wide = wide && (layernorm_forward_warps(launch, with) || launch_in_registers(launch, with));
    if (!wide) {
        const unsigned grid = (unsigned)bt_min_i64(args->rows, ROW_MOST_BLOCKS);
        forward_any_kernel<T, P><<<grid, ANY_THREADS, 0, bt_cuda_stream(launch)>>>(with);
    }
    return bt_cuda_launched("layernorm_cuda");
}

bool bt_layernorm_cuda_accepts(const bt_device *device, const void *call)
{
    (void)device;
    const bt_layernorm_args *args = (const bt_layernorm_args *)call;
    return args->param_dtype == BT_F32 || args->param_dtype == args->dtype;
}

bt_status bt_layernorm_cuda_f32(const bt_launch *launch, const void *args)
{
    return run<float, float>(launch, (const bt_layernorm_args *)args);
}

bt_status bt_layernorm_cuda_bf16(const bt_launch *launch, const void *call)
{
    const bt_layernorm_args *args = (const bt_layernorm_args *)call;
    return args->param_dtype == BT_F32 ? run<bf16, float>(launch, args)
                                       : run<bf16, bf16>(launch, args);
}
