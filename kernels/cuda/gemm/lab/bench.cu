// kernels/cuda/gemm/lab/bench.cu - the Hopper GEMM's plans: are they right, how fast beside
// cuBLASLt
//
//   lab_gemm check [WORD..]   every legal plan of odd shapes in every layout and epilogue (those
//                             whose name, "bf16 tn f32 130 x 200 x 65, batch 1 by 192x192c4/1",
//                             holds one of the WORDs), each element against float64, repeats bit
//                             for bit, with other work beside them, nothing written beside the
//                             output
//   lab_gemm time [WORD..]    GPT-2's products (likewise): a sample against float64, then the row
//                             cuBLASLt has, the planner's choice, and the best of the other plans,
//                             launched in turn over two sets of operands; medians
//   lab_gemm plans [WORD..]   the same, every plan
//   lab_gemm once [WORD..]    one launch of the best plan of each tile, for a profiler
//   lab_gemm group [WORD..]   the four weight gradients of a block of GPT-2 (4096, 32768, 65536
//                             tokens: likewise), one launch beside one after the other
//   lab_gemm sustain [WORD..] as time, but each version by itself at the speed to which the card
//                             settles
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/gemm/lab/reference.cuh"
#include "kernels/cuda/gemm/lab/shapes.cuh"
#include "kernels/cuda/gemm/sm80.h"
#include "kernels/cuda/gemm/sm90.h"

extern "C" const bt_backend *bt_backend_entry(void);

static bt_device device;

static void require(bt_status status)
{
    if (status != BT_OK) {
        (void)fprintf(stderr, "lab_gemm: %s: %s\n", bt_status_text(status), bt_error_message());
        exit(1);
    }
}

// Who computes a call: cuBLASLt (no family), or one of our kernels by a plan of it. `share` is a
// plan for a group: of the call, and of `beside` if there are any.
struct candidate {
    const bt_gemm_sm90::family *sm90;
    const bt_gemm_sm80::family *sm80;
    bt_gemm_sm90::plan plan90;
    bt_gemm_sm80::plan plan80;
    bt_gemm_sm90::group_plan share;
    const std::vector<bt_gemm_args> *beside;

    bool ours() const { return sm90 || sm80 || share.how; }
    double cycles() const
    {
        return share.how ? share.cycles : sm90 ? plan90.cycles : plan80.cycles;
    }
    int splits() const
    {
        return share.how ? (share.sharers != share.cut_tiles ? 2 : 1)
               : sm90    ? plan90.splits
               : sm80    ? plan80.splits
                         : 0;
    }
    int cluster() const { return sm90 ? plan90.how->cluster : 0; }
    std::string name() const
    {
        if (share.how) {
            return "stream " + std::to_string(share.how->tile_m) + "x" +
                   std::to_string(share.how->tile_n) + "/" + std::to_string(share.cut_tiles) + ":" +
                   std::to_string(share.sharers);
        }
        const int m = sm90 ? plan90.how->tile_m : sm80 ? plan80.how->tile_m : 0;
        const int n = sm90 ? plan90.how->tile_n : sm80 ? plan80.how->tile_n : 0;
        return !ours() ? "cuBLASLt"
                       : std::string(sm90 ? "" : "sm80 ") + std::to_string(m) + "x" +
                             std::to_string(n) +
                             (cluster() > 0 ? "c" + std::to_string(cluster()) : "") +
                             (sm80 ? "d" + std::to_string(plan80.how->depth) : "") + "/" +
                             std::to_string(splits());
    }
};

static void require(cudaError_t result) { require(bt_cuda_check(result, "lab_gemm")); }

// ---- operands -----------------------------------------------------------------------------------

static std::vector<void *> blocks;

static void *take(size_t size_bytes)
{
    void *block = NULL;
    require(cudaMalloc(&block, size_bytes + 256));
    blocks.push_back(block);
    return block;
}

static void release_all()
{
    for (void *block : blocks) {
        require(cudaFree(block));
    }
    blocks.clear();
}

static void *numbers(bt_dtype dtype, int64_t count, float scale)
{
    static uint64_t seed = 1;
    void *to = take((size_t)count * bt_dtype_size(dtype));
    if (dtype == BT_F32) {
        fill<<<1024, 256>>>((float *)to, count, scale, seed++);
    } else {
        fill<<<1024, 256>>>((bf16 *)to, count, scale, seed++);
    }
    require(cudaGetLastError());
    return to;
}

// Operands of a call; row strides are `pad` elements longer than rows.
static bt_gemm_args make_args(const shape &s, int64_t pad, int64_t batch, double alpha)
{
    bt_gemm_args args = {};
    const bt_dtype d = s.to_f32 ? BT_F32 : s.dtype;
    args.m = s.m;
    args.n = s.n;
    args.k = s.k;
    args.trans_a = s.trans_a;
    args.trans_b = s.trans_b;
    args.lda = (s.trans_a ? s.m : s.k) + pad;
    args.ldb = (s.trans_b ? s.k : s.n) + pad;
    args.ldc = args.ldd = s.n + pad;
    if (pad == 8) { // odd shapes: rows still start at multiples of 16 bytes
        args.lda = (args.lda + 7) / 8 * 8;
        args.ldb = (args.ldb + 7) / 8 * 8;
        args.ldc = args.ldd = (args.ldd + 7) / 8 * 8;
    }
    args.batch = batch;
    args.stride_a = args.lda * (s.trans_a ? s.k : s.m);
    args.stride_b = args.ldb * (s.trans_b ? s.n : s.k);
    args.stride_c = args.stride_d = args.ldd * s.m;
    args.a = numbers(s.dtype, args.stride_a * batch, 1);
    args.b = numbers(s.dtype, args.stride_b * batch, 3 / sqrtf((float)s.k));
    args.d = numbers(d, args.stride_d * batch, 1);
    args.c = s.to_f32 && s.beta == 1 && s.trans_a ? args.d : numbers(d, args.stride_d * batch, 1);
    args.aux = s.epilogue >= BT_EPILOGUE_BIAS_GELU ? numbers(d, args.stride_d * batch, 2) : NULL;
    if (s.biased && (s.epilogue == BT_EPILOGUE_DGELU || (s.trans_a && !s.trans_b))) {
        args.dbias_of_a = s.trans_a;
        args.dbias = numbers(BT_F32, s.trans_a ? s.m : s.n, 1);
        args.dbias_dtype = BT_F32;
    } else if (s.biased) {
        args.bias = numbers(s.dtype, s.n, 1);
    }
    args.alpha = alpha;
    args.beta = s.beta;
    args.epilogue = s.epilogue;
    args.ab_dtype = s.dtype;
    args.compute = s.compute;
    args.d_dtype = d;
    return args;
}

// ---- running ------------------------------------------------------------------------------------

static void *workspace;
static void *busy; // for work that runs beside the calls under test
static const size_t WORKSPACE_BYTES = (size_t)320 << 20, BUSY_BYTES = (size_t)16 << 20;
static unsigned long long *counts; // [3]: wrong, other bits, padding

// The call without the sums of columns.
static bt_gemm_args product_of(bt_gemm_args args)
{
    args.dbias = NULL;
    return args;
}

static void run(const bt_gemm_args &args, const candidate &by)
{
    bt_launch launch = {&device, NULL, workspace, WORKSPACE_BYTES, 0};
    if (by.share.how) {
        std::vector<bt_gemm_args> all = {args};
        if (by.beside) {
            all.insert(all.end(), by.beside->begin(), by.beside->end());
        }
        require(bt_gemm_sm90::group_launch_plan(&launch, all.data(), (int)all.size(), by.share));
    } else if (by.sm90) {
        require(bt_gemm_sm90::launch_plan(&launch, *by.sm90, &args, by.plan90));
    } else if (by.sm80) {
        require(bt_gemm_sm80::launch_plan(&launch, *by.sm80, &args, by.plan80));
    } else {
        const bt_gemm_args plain = product_of(args);
        require(args.ab_dtype == BT_F32 ? bt_gemm_cublaslt_f32(&launch, &plain)
                                        : bt_gemm_cublaslt_bf16(&launch, &plain));
        if (args.dbias) {
            const bool of_a = args.dbias_of_a;
            const bt_dtype dtype = of_a ? args.ab_dtype : args.d_dtype;
            const bt_reduce_sum_args sums = {of_a ? args.a : args.d,
                                             args.dbias,
                                             1,
                                             of_a ? args.k : args.m,
                                             of_a ? args.m : args.n,
                                             1,
                                             false,
                                             dtype,
                                             BT_F32};
            require(dtype == BT_BF16 ? bt_reduce_sum_cuda_bf16(&launch, &sums)
                                     : bt_reduce_sum_cuda_f32(&launch, &sums));
        }
    }
}

static void add_shares(const std::vector<bt_gemm_args> &calls, std::vector<candidate> *all)
{
    bt_gemm_sm90::group_plan plans[bt_gemm_sm90::GROUP_PLANS_MOST];
    if (bt_gemm_sm90::group_is_legal(calls.data(), (int64_t)calls.size())) {
        const int count = bt_gemm_sm90::group_plans_of(calls.data(), (int)calls.size(),
                                                       device.info.processor_count, plans);
        for (int i = 0; i < count; ++i) {
            all->push_back({NULL, NULL, {}, {}, plans[i], NULL});
        }
    }
}

// Every plan of every family that can compute the call; each family's best first.
static std::vector<candidate> candidates_of(const bt_gemm_args &args)
{
    static const bt_gemm_sm90::family *const families90[] = {&bt_gemm_sm90::family_bf16,
                                                             &bt_gemm_sm90::family_tf32};
    static const bt_gemm_sm80::family *const families80[] = {
        &bt_gemm_sm80::family_bf16, &bt_gemm_sm80::family_tf32, &bt_gemm_sm80::family_fp32};
    const int processors = device.info.processor_count;
    std::vector<candidate> all;
    for (const auto *of : families90) {
        bt_gemm_sm90::plan plans[bt_gemm_sm90::PLANS_MOST];
        if (bt_gemm_sm90::is_legal(*of, &args)) {
            const int count = bt_gemm_sm90::plans_of(*of, &args, processors, plans);
            for (int i = 0; i < count; ++i) {
                all.push_back({of, NULL, plans[i], {}, {}, NULL});
            }
        }
    }
    add_shares({args}, &all);
    for (const auto *of : families80) {
        bt_gemm_sm80::plan plans[bt_gemm_sm80::PLANS_MOST];
        if (bt_gemm_sm80::is_legal(*of, &args)) {
            const int count = bt_gemm_sm80::plans_of(*of, &args, device.info, plans);
            for (int i = 0; i < count; ++i) {
                all.push_back({NULL, of, {}, plans[i], {}, NULL});
            }
        }
    }
    return all;
}

// Does the name hold one of the words? There is none: yes.
static bool is_asked_for(const std::string &name, char **words)
{
    bool found = !*words;
    for (; *words; ++words) {
        found |= name.find(*words) != std::string::npos;
    }
    return found;
}

static int64_t dbias_count(const bt_gemm_args &args) { return args.dbias_of_a ? args.m : args.n; }

static cudaStream_t stream() { return ((bt_cuda_device *)device.impl)->stream; }

template <typename IN, typename T>
static bool is_right(bt_gemm_args args, const candidate &by, int64_t samples, int repeats,
                     const char *what)
{
    const size_t d_bytes = (size_t)(args.stride_d * args.batch) * sizeof(T);
    const bool writes_aux = args.epilogue == BT_EPILOGUE_BIAS_GELU;
    const int64_t words = (int64_t)(d_bytes / 4);
    void *was = take(d_bytes), *first = take(d_bytes), *aux = take(d_bytes);
    const before old = {args.c == args.d ? was : args.c, aux, was};
    unsigned long long found[3];
    float worst = 0;
    float *worst_at = (float *)(counts + 3);
    require(cudaMemcpy(was, args.d, d_bytes, cudaMemcpyDeviceToDevice));
    if (args.aux) {
        require(cudaMemcpy(aux, args.aux, d_bytes, cudaMemcpyDeviceToDevice));
    }
    require(cudaMemset(counts, 0, 4 * sizeof *counts));
    for (int i = 0; i < repeats; ++i) {
        require(cudaDeviceSynchronize());
        require(cudaMemcpyAsync(args.d, was, d_bytes, cudaMemcpyDeviceToDevice, stream()));
        require(cudaMemsetAsync(workspace, 0xff, 1 << 20, stream()));
        if (args.dbias) {
            require(cudaMemsetAsync(args.dbias, 0xff, (size_t)dbias_count(args) * sizeof(float),
                                    stream()));
        }
        if (i > 0) { // other work on the device, beside the call
            fill<<<(unsigned)(64 * i), 256>>>((float *)busy, (int64_t)BUSY_BYTES / 4, 1, 1);
        }
        run(args, by);
        require(cudaStreamSynchronize(stream()));
        if (i == 0) {
            require(cudaMemcpy(first, args.d, d_bytes, cudaMemcpyDeviceToDevice));
        }
        differ<<<1024, 256>>>((unsigned *)first, (unsigned *)args.d, words, counts + 1);
    }
    padding<<<1024, 256>>>((const T *)args.d, (const T *)was, args.batch * args.m, args.n, args.ldd,
                           counts + 2);
    if (writes_aux) {
        padding<<<1024, 256>>>((const T *)args.aux, (const T *)aux, args.batch * args.m, args.n,
                               args.ldd, counts + 2);
    }
    samples = std::min(samples, args.batch * args.m * args.n);
    verify<IN, T>
        <<<(unsigned)bt_div_up(samples, 4), 128>>>(args, by.ours(), old, samples, counts, worst_at);
    if (args.dbias_of_a) {
        verify_columns<<<(unsigned)bt_div_up(args.m, 128), 128>>>(args, (const IN *)args.a, args.k,
                                                                  args.m, args.lda, counts);
    } else if (args.dbias) {
        verify_columns<<<(unsigned)bt_div_up(args.n, 128), 128>>>(args, (const T *)args.d, args.m,
                                                                  args.n, args.ldd, counts);
    }
    require(cudaMemcpy(found, counts, sizeof found, cudaMemcpyDeviceToHost));
    require(cudaMemcpy(&worst, worst_at, sizeof worst, cudaMemcpyDeviceToHost));
    require(cudaMemcpy(args.d, was, d_bytes, cudaMemcpyDeviceToDevice));
    if (args.aux) {
        require(cudaMemcpy(args.aux, aux, d_bytes, cudaMemcpyDeviceToDevice));
    }
    for (int i = 0; i < 3; ++i) {
        require(cudaFree(blocks.back()));
        blocks.pop_back();
    }
    bool good = found[0] == 0 && found[1] == 0 && found[2] == 0;
    if (!good) {
        printf("WRONG %s by %s: %llu wrong (worst %g of the bound), %llu other bits, %llu in the "
               "padding\n",
               what, by.name().c_str(), found[0], (double)worst, found[1], found[2]);
    }
    return good;
}

static bool is_right(const bt_gemm_args &args, const candidate &by, int64_t samples, int repeats,
                     const char *what)
{
    return args.ab_dtype == BT_F32  ? is_right<float, float>(args, by, samples, repeats, what)
           : args.d_dtype == BT_F32 ? is_right<bf16, float>(args, by, samples, repeats, what)
                                    : is_right<bf16, bf16>(args, by, samples, repeats, what);
}

// ---- check --------------------------------------------------------------------------------------

static int check_call(const bt_gemm_args &args, const char *what, char **words, int *calls,
                      int *refused)
{
    const std::vector<candidate> all = candidates_of(args);
    int wrong = 0;
    for (size_t i = 0; i < all.size(); ++i) {
        // Of many splits a few: the first ones, and every fifth.
        if (is_asked_for(what + (" by " + all[i].name()), words) &&
            (all[i].splits() < 4 || all[i].splits() % 5 == 0)) {
            const bool meets = all[i].splits() > 1 || all[i].cluster() > 1; // others on its tile
            wrong += !is_right(args, all[i], INT64_MAX, meets ? 20 : 4, what);
            ++*calls;
        }
    }
    *refused += all.empty();
    return wrong;
}

static shape weight_gradient(const std::string &name, int64_t m, int64_t n, int64_t k, double beta)
{
    return {name,
            m,
            n,
            k,
            true,
            false,
            BT_EPILOGUE_NONE,
            beta,
            true,
            false,
            BT_BF16,
            BT_COMPUTE_NATIVE};
}

// Every plan of groups: products of one depth and of several, one that is a part of a tile.
static int check_groups(char **words, int *calls)
{
    static const int64_t groups[][5][3] = {
        {{130, 200, 640}, {768, 384, 640}, {8, 8, 640}, {264, 1032, 640}, {128, 192, 640}},
        {{1024, 3072, 512}, {256, 1024, 64}, {520, 136, 4096}, {1000, 40, 8}, {768, 768, 1000}},
    };
    int wrong = 0;
    for (const auto &sizes : groups) {
        std::vector<bt_gemm_args> products;
        char what[80];
        for (const auto &size : sizes) {
            const double beta = products.size() % 2;
            products.push_back(make_args(weight_gradient("", size[0], size[1], size[2], beta), 8,
                                         1 + (int64_t)products.size() % 2, 0.75));
        }
        for (size_t i = 0; i < products.size() && is_asked_for("bf16 group", words); ++i) {
            std::vector<bt_gemm_args> beside = products;
            std::vector<candidate> all;
            std::swap(beside[0], beside[i]);
            add_shares(beside, &all);
            beside.erase(beside.begin());
            (void)snprintf(what, sizeof what, "group with %lld x %lld x %lld first",
                           (long long)products[i].m, (long long)products[i].n,
                           (long long)products[i].k);
            for (candidate &by : all) {
                by.beside = &beside;
                wrong += !is_right(products[i], by, INT64_MAX, by.splits() > 1 ? 20 : 4, what);
                ++*calls;
            }
        }
        release_all();
    }
    return wrong;
}

static int check_all(char **words)
{
    static const struct {
        const char *name;
        bool trans_a, trans_b;
        bt_epilogue epilogue;
        double beta;
        bool to_f32, biased;
    } kinds[] = {
        {"nt", false, true, BT_EPILOGUE_NONE, 0, false, false},
        {"nt + bias", false, true, BT_EPILOGUE_BIAS, 0, false, true},
        {"nt + bias + c", false, true, BT_EPILOGUE_BIAS, 1, false, true},
        {"nt - c/2", false, true, BT_EPILOGUE_NONE, -0.5, false, false},
        {"nt + bias, gelu", false, true, BT_EPILOGUE_BIAS_GELU, 0, false, true},
        {"nt, gelu", false, true, BT_EPILOGUE_BIAS_GELU, 0, false, false},
        {"nn", false, false, BT_EPILOGUE_NONE, 0, false, false},
        {"nn + c", false, false, BT_EPILOGUE_NONE, 1, false, false},
        {"nn, dgelu", false, false, BT_EPILOGUE_DGELU, 0, false, false},
        {"nn, dgelu, columns", false, false, BT_EPILOGUE_DGELU, 0, false, true},
        {"nt f32 + bias", false, true, BT_EPILOGUE_BIAS, 0, true, true},
        {"nn f32", false, false, BT_EPILOGUE_NONE, 0, true, false},
        {"tn f32", true, false, BT_EPILOGUE_NONE, 0, true, false},
        {"tn f32 + d", true, false, BT_EPILOGUE_NONE, 1, true, false},
        {"tn f32 + d, columns", true, false, BT_EPILOGUE_NONE, 1, true, true},
        {"tt", true, true, BT_EPILOGUE_NONE, 0, false, false},
    };
    static const int64_t sizes[][3] = {
        {1, 8, 1},        {64, 64, 64},     {130, 200, 65},  {128, 192, 4096}, {257, 96, 200},
        {1008, 776, 840}, {1000, 1544, 72}, {9, 2056, 1111}, {513, 260, 33},   {33, 17, 129},
        {1, 1, 1},        {7, 129, 2},      {200, 40, 1500}, {577, 392, 2060}};
    int calls = 0, wrong = 0, refused = 0;
    for (const precision &with : precisions) {
        for (const auto &kind : kinds) {
            for (const auto &size : sizes) {
                for (int64_t batch = 1; batch <= 4; ++batch) {
                    const int64_t pad = batch % 2 ? 8 : 1; // 1: nothing is aligned
                    const std::string name = std::string(with.name) + " " + kind.name;
                    const shape s = {name,         size[0],      size[1],       size[2],
                                     kind.trans_a, kind.trans_b, kind.epilogue, kind.beta,
                                     kind.to_f32,  kind.biased,  with.dtype,    with.compute};
                    char what[120];
                    (void)snprintf(what, sizeof what, "%s %lld x %lld x %lld, batch %lld",
                                   name.c_str(), (long long)s.m, (long long)s.n, (long long)s.k,
                                   (long long)batch);
                    wrong += check_call(make_args(s, pad, (batch + 1) / 2, batch == 1 ? 1 : 0.75),
                                        what, words, &calls, &refused);
                    release_all();
                }
            }
        }
    }
    wrong += check_groups(words, &calls);
    printf("check: %d plans of odd shapes, %d wrong; %d calls that none serves\n", calls, wrong,
           refused);
    return wrong != 0;
}

// ---- time ---------------------------------------------------------------------------------------

struct entry {
    candidate by;
    std::vector<float> ms, sustained_ms;
    float median()
    {
        std::sort(ms.begin(), ms.end());
        return ms.empty() ? 0 : ms[ms.size() / 2];
    }
};

static void time_entries(const bt_gemm_args sets[2], std::vector<entry> &entries, double flops)
{
    cudaEvent_t start, stop;
    const int rounds = flops > 2e12 ? 6 : 16;
    const int launches = flops > 2e12 ? 2 : flops < 2e11 ? 20 : 4;
    require(cudaEventCreate(&start));
    require(cudaEventCreate(&stop));
    std::vector<size_t> order(entries.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(1);
    for (int round = 0; round < rounds; ++round) {
        // Whoever runs before leaves the card warm: nobody has the same neighbour every time.
        std::shuffle(order.begin(), order.end(), random);
        for (size_t at : order) {
            entry &e = entries[at];
            float ms = 0;
            run(sets[0], e.by);
            require(cudaEventRecord(start, stream()));
            for (int j = 0; j < launches; ++j) {
                run(sets[(j + 1) % 2], e.by);
            }
            require(cudaEventRecord(stop, stream()));
            require(cudaEventSynchronize(stop));
            require(cudaEventElapsedTime(&ms, start, stop));
            e.ms.push_back(ms / (float)launches);
        }
    }
    require(cudaEventDestroy(start));
    require(cudaEventDestroy(stop));
}

// Each version by itself, for so long that the card settles at the power it may draw: what counts
// inside of a long training step.
static void sustain_entries(const bt_gemm_args sets[2], std::vector<entry> &entries)
{
    constexpr float SETTLE_MS = 70;
    cudaEvent_t start, stop;
    require(cudaEventCreate(&start));
    require(cudaEventCreate(&stop));
    for (int round = 0; round < 3; ++round) {
        for (entry &e : entries) {
            float ms = 0;
            const int launches = (int)(SETTLE_MS / e.median()) + 1;
            for (int i = 0; i < 2 * launches; ++i) {
                if (i == launches) {
                    require(cudaEventRecord(start, stream()));
                }
                run(sets[i % 2], e.by);
            }
            require(cudaEventRecord(stop, stream()));
            require(cudaEventSynchronize(stop));
            require(cudaEventElapsedTime(&ms, start, stop));
            e.sustained_ms.push_back(ms / (float)launches);
        }
    }
    for (entry &e : entries) {
        e.ms = e.sustained_ms;
    }
    require(cudaEventDestroy(start));
    require(cudaEventDestroy(stop));
}

static void time_shape(const shape &s, bool every, bool sustained)
{
    const bt_gemm_args sets[2] = {make_args(s, 0, 1, 1), make_args(s, 0, 1, 1)};
    const double flops = 2.0 * (double)s.m * (double)s.n * (double)s.k;
    const double peak = s.dtype == BT_BF16             ? 4096
                        : s.compute == BT_COMPUTE_TF32 ? 2048
                                                       : 256; // a cycle and SM
    std::vector<entry> entries;
    const bt_gemm_args plain = product_of(sets[0]);
    if (bt_gemm_cublaslt_accepts(&device, &plain) &&
        is_right(sets[0], {}, 2048, 1, s.name.c_str())) {
        entries.push_back({{}, {}, {}});
    }
    // Of each tile the best few plans.
    std::vector<std::pair<std::string, int>> seen;
    for (const candidate &by : candidates_of(sets[0])) {
        const std::string tile = by.name().substr(0, by.name().find('/'));
        auto at = std::find_if(seen.begin(), seen.end(), [&](auto &x) { return x.first == tile; });
        if (at == seen.end()) {
            at = seen.insert(seen.end(), {tile, 0});
        }
        if ((every || ++at->second <= (sustained ? 1 : 2)) &&
            is_right(sets[0], by, 2048, 3, s.name.c_str())) {
            entries.push_back({by, {}, {}});
        }
    }
    time_entries(sets, entries, flops);
    if (sustained) {
        sustain_entries(sets, entries);
    }
    const float library = entries.empty() || entries[0].by.ours() ? 0 : entries[0].median();
    printf("%-36s cuBLASLt %8.4f ms %4.0f TF", s.name.c_str(), library,
           library > 0 ? flops / library * 1e-9 : 0);
    for (entry &e : entries) {
        if (e.by.ours()) {
            printf(" | %s %.4f %5.3fx %.0f TF m%.2f", e.by.name().c_str(), e.median(),
                   library / e.median(), flops / e.median() * 1e-9,
                   flops / (peak * device.info.processor_count) / e.by.cycles());
        }
    }
    printf("\n");
    (void)fflush(stdout);
    release_all();
}

// ---- groups -------------------------------------------------------------------------------------

// The weight gradients of a block of GPT-2 over m tokens: all by each way in turn.
struct group_way {
    const char *name;
    std::vector<candidate> by; // of each product; one alone: all in one launch
    std::vector<float> ms;
};

static void run_way(const std::vector<bt_gemm_args> &products, const group_way &way)
{
    if (way.by.size() == 1) {
        candidate by = way.by[0];
        const std::vector<bt_gemm_args> beside(products.begin() + 1, products.end());
        by.beside = &beside;
        run(products[0], by);
        return;
    }
    for (size_t i = 0; i < products.size(); ++i) {
        run(products[i], way.by[i]);
    }
}

static float time_way(const std::vector<bt_gemm_args> sets[2], const group_way &way, int launches)
{
    cudaEvent_t start, stop;
    float ms = 0;
    require(cudaEventCreate(&start));
    require(cudaEventCreate(&stop));
    run_way(sets[0], way);
    require(cudaEventRecord(start, stream()));
    for (int j = 0; j < launches; ++j) {
        run_way(sets[(j + 1) % 2], way);
    }
    require(cudaEventRecord(stop, stream()));
    require(cudaEventSynchronize(stop));
    require(cudaEventElapsedTime(&ms, start, stop));
    require(cudaEventDestroy(start));
    require(cudaEventDestroy(stop));
    return ms / (float)launches;
}

static void time_group(int64_t m)
{
    static const int64_t layers[][2] = {{768, 768}, {2304, 768}, {3072, 768}, {768, 3072}};
    std::vector<bt_gemm_args> sets[2];
    for (auto &set : sets) {
        for (const auto &layer : layers) {
            set.push_back(make_args(weight_gradient("", layer[0], layer[1], m, 1), 0, 1, 1));
        }
    }
    std::vector<group_way> ways = {
        {"cuBLASLt", {{}, {}, {}, {}}, {}}, {"ours", {}, {}}, {"stream", {}, {}}};
    for (const bt_gemm_args &product : sets[0]) {
        std::vector<candidate> alone;
        add_shares({product}, &alone);
        ways[1].by.push_back(candidates_of(product)[0]);
        ways[2].by.push_back(alone[0]);
    }
    std::vector<candidate> shares;
    const std::vector<bt_gemm_args> beside(sets[0].begin() + 1, sets[0].end());
    add_shares(sets[0], &shares);
    for (candidate &by : shares) {
        by.beside = &beside;
        if (is_right(sets[0][0], by, 2048, 3, "group")) {
            ways.push_back({"group", {by}, {}});
        }
    }
    std::mt19937 random(1);
    std::vector<size_t> order(ways.size());
    std::iota(order.begin(), order.end(), 0);
    const int launches = m > 16384 ? 2 : 8;
    for (int round = 0; round < (m > 16384 ? 6 : 12); ++round) {
        std::shuffle(order.begin(), order.end(), random);
        for (size_t at : order) {
            ways[at].ms.push_back(time_way(sets, ways[at], launches));
        }
    }
    for (group_way &way : ways) {
        std::sort(way.ms.begin(), way.ms.end());
        const float ms = way.ms[way.ms.size() / 2];
        const double flops = 2.0 * (double)m * 768 * 768 * (1 + 3 + 4 + 4);
        printf("wgrad of a block, M=%lld: %s %s %.4f ms %.0f TF m%.2f\n", (long long)m, way.name,
               way.by.size() == 1 ? way.by[0].name().c_str() : "", ms, flops / ms * 1e-9,
               way.by.size() == 1
                   ? flops / (4096.0 * device.info.processor_count) / way.by[0].cycles()
                   : 0);
    }
    (void)fflush(stdout);
    release_all();
}

// Runs the best plan of each tile once, for a profiler to look at.
static void run_once(const shape &s)
{
    const bt_gemm_args args = make_args(s, 0, 1, 1);
    std::string last;
    for (const candidate &by : candidates_of(args)) {
        const std::string tile = by.name().substr(0, by.name().find('/'));
        if (by.sm90 && by.splits() == 1) {
            run(args, by);
            last += " " + tile;
        }
    }
    require(cudaDeviceSynchronize());
    printf("%s:%s\n", s.name.c_str(), last.c_str());
    release_all();
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "check";
    char **words = argv + (argc > 2 ? 2 : argc); // argv ends with NULL
    device.backend = bt_backend_entry();
    require(device.backend->device_open(0, &device));
    require(cudaMalloc(&workspace, WORKSPACE_BYTES));
    require(cudaMalloc(&busy, BUSY_BYTES));
    require(cudaMalloc((void **)&counts, 4 * sizeof *counts));
    if (!strcmp(verb, "check")) {
        return check_all(words);
    }
    if (!strcmp(verb, "group")) {
        for (int64_t m : {4096, 32768, 65536}) {
            if (is_asked_for(std::to_string(m), words)) {
                time_group(m);
            }
        }
        return 0;
    }
    std::vector<shape> shapes;
    for (const precision &with : precisions) {
        for (int64_t m : {65536, 32768, 4096}) {
            for (const shape &s : gpt2_shapes(m, with)) {
                shapes.push_back(s);
            }
        }
        for (int64_t n : {4096, 8192}) {
            shapes.push_back({std::string("square ") + with.name + " " + std::to_string(n), n, n, n,
                              false, true, BT_EPILOGUE_NONE, 0, false, false, with.dtype,
                              with.compute});
        }
    }
    for (const shape &s : shapes) {
        if (is_asked_for(s.name, words)) {
            if (!strcmp(verb, "once")) {
                run_once(s);
                continue;
            }
            time_shape(s, !strcmp(verb, "plans"), !strcmp(verb, "sustain"));
        }
    }
    return 0;
}
