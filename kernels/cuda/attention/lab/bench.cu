// kernels/cuda/attention/lab/bench.cu - checks and times the attention kernels by themselves
//
//   bench check   every kernel against float64 on small shapes, three runs bit for bit, guard
//                 bands, NaN, large scores
//   bench general masks, grouped heads, counts and accumulation of the general Hopper kernels;
//                 with a second argument fewer cases, printed
//   bench time    medians of CUDA events, cold L2 (a buffer of 256 MiB is written between samples);
//                 a third argument pauses 30 ms before each sample
//   bench profile one launch each, for ncu
//   bench small   a few tiny cases only, for compute-sanitizer
//   bench sweep   the Hopper kernels at every token count up to 300 and around edges of tiles
//   bench soak    20 launches, each with another schedule: all bits equal
// A second argument selects kernels: `hopper`, or a part of their names below. Exit code 0 when
// everything checked is right. Not part of the product; see README.md.
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "kernels/cuda/attention/lab/reference.cuh"

cudaStream_t bt_cuda_stream_of(const bt_device *, bt_stream stream) { return (cudaStream_t)stream; }

bt_status bt_cuda_check(cudaError_t result, const char *what)
{
    return result == cudaSuccess
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL, "%s: %s", what, cudaGetErrorString(result));
}

bt_status bt_cuda_launched(const char *kernel) { return bt_cuda_check(cudaGetLastError(), kernel); }

#define GENERAL_ROWS(x)                                                                            \
    bt_attention_##x##_sm80, bt_attention_backward_##x##_sm80, bt_attention_##x##_accepts,         \
        bt_attention_backward_##x##_accepts, bt_attention_backward_##x##_workspace
#define HOPPER_ROWS(x)                                                                             \
    bt_attention_##x##_sm90, bt_attention_backward_##x##_sm90, bt_attention_##x##_sm90_accepts,    \
        bt_attention_backward_##x##_sm90_accepts, bt_attention_backward_##x##_sm90_workspace

static const kind kinds[] = {
    {"bf16", BT_BF16, BT_COMPUTE_NATIVE, GENERAL_ROWS(bf16), 1e-2, nullptr, 128, false},
    {"tf32", BT_F32, BT_COMPUTE_TF32, GENERAL_ROWS(tf32), 1e-3, nullptr, 128, false},
    {"f32", BT_F32, BT_COMPUTE_NATIVE, GENERAL_ROWS(f32), 3e-6, nullptr, 128, false},
    {"bf16 sm90", BT_BF16, BT_COMPUTE_NATIVE, HOPPER_ROWS(bf16), 1e-2, nullptr, 128, true},
    {"tf32 sm90", BT_F32, BT_COMPUTE_TF32, HOPPER_ROWS(tf32), 1e-3,
     bt_attention_tf32_sm90_workspace, 128, true},
    {"bf16 any", BT_BF16, BT_COMPUTE_NATIVE, HOPPER_ROWS(general_bf16), 1e-2,
     bt_attention_general_bf16_sm90_workspace, 128, true},
    {"tf32 any", BT_F32, BT_COMPUTE_TF32, bt_attention_general_tf32_sm80,
     bt_attention_backward_general_tf32_sm80, bt_attention_general_tf32_accepts,
     bt_attention_backward_general_tf32_accepts, bt_attention_backward_general_workspace, 1e-3,
     nullptr, 128, false},
};
enum { TF32_HOPPER = 4, GENERAL_BF16 = 5 };
static const int of_any_mask[] = {GENERAL_BF16, TF32_HOPPER}; // kinds that `general` checks

static bool selected(const kind &k, const char *names) // NULL: all
{
    return !names || (strcmp(names, "hopper") == 0 ? k.hopper : strstr(k.name, names) != nullptr);
}

static bool rested; // the card rests between samples, so that power does not limit its clock
static bool quiet;  // print failures alone
static int passed;  // cases

// The reference on the device: o, dq, dk, dv, lse, in this order, as doubles.
template <typename T> static std::vector<double> reference_of(const problem &p)
{
    const size_t rows = p.rows();
    double *o = (double *)device_alloc((2 * p.q_count + 2 * p.kv_count + 2 * rows) * 8);
    double *dq = o + p.q_count, *dk = dq + p.q_count, *dv = dk + p.kv_count, *lse = dv + p.kv_count;
    double *delta = lse + rows;
    const size_t keys = p.kv_count / p.s.dim;
    reference_rows<T><<<(int)((rows + 63) / 64), 64>>>(p.backward, o, lse, delta, dq);
    reference_keys<T><<<(int)((keys + 63) / 64), 64>>>(p.backward, lse, delta, dk, dv);
    std::vector<double> host(2 * p.q_count + 2 * p.kv_count + rows);
    CHECK(cudaMemcpy(host.data(), o, host.size() * 8, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(o));
    return host;
}

// `forward_only`: no kernel of the kind has this backward.
static bool check_shape(const shape &s, const kind *k, int repeats, bool forward_only = false)
{
    problem p = problem_make(s, k);
    bool good = k->accepts(&device, &p.forward) &&
                (forward_only || k->backward_accepts(&device, &p.backward));
    std::vector<char> first;
    const int sms = device.info.processor_count;
    for (int run = 0; good && run < repeats; ++run) {
        device.info.processor_count = k->hopper && run > 0 ? 1 + (run * 37 + 4) % sms : sms;
        poison(p);
        launch(p, false);
        if (!forward_only) {
            launch(p, true);
        }
        CHECK(cudaDeviceSynchronize());
        std::vector<char> now = outputs_of(p);
        good = !now.empty() && (run == 0 || now == first);
        first = run == 0 ? now : first;
    }
    device.info.processor_count = sms;
    const char *same = good ? "" : "  NOT REPEATABLE, REFUSED OR OVERRUN";
    const std::vector<double> host =
        k->dtype == BT_BF16 ? reference_of<__nv_bfloat16>(p) : reference_of<float>(p);
    const double *lse = host.data() + 2 * p.q_count + 2 * p.kv_count;
    std::vector<float> lse_got(p.rows());
    CHECK(cudaMemcpy(lse_got.data(), p.lse, p.rows() * 4, cudaMemcpyDeviceToHost));
    const bool steep = s.spread > 1.0f;       // lse in float leaves 2^-24 |lse| in every exponent
    const double few = s.tokens < 16 ? 4 : 1; // errors of few terms do not average out
    const double limit = std::max(few * k->norm_limit, steep ? 1e-2 : 0.0);
    double lse_worst = 0;
    for (size_t i = 0; i < p.rows(); ++i) {
        const double e = lse_got[i] == lse[i] ? 0 : fabs(lse_got[i] - lse[i]) / (1 + fabs(lse[i]));
        lse_worst = !(e <= lse_worst) ? e : lse_worst;
    }
    good = good && lse_worst <= 4 * limit;
    std::string line(512, '\0');
    int length = snprintf(
        &line[0], line.size(),
        "%-9s %2dx%2d(%d)x%4d(%d)x%3d %s %s sms %3d spread %3.0f first %d window %d docs %d%s  lse "
        "%.1e",
        k->name, s.batch, s.heads, s.more.kv_heads, s.tokens, s.more.kv_tokens, s.dim,
        s.causal ? "causal" : "full  ", s.packed ? "packed" : "flat  ", device.info.processor_count,
        s.spread, s.more.q_first, s.more.window, s.more.documents, s.more.accumulate ? " +=" : "",
        lse_worst);
    const bt_attention_view views[4] = {p.forward.o, p.backward.dq, p.backward.dk, p.backward.dv};
    const char *names[4] = {"o", "dq", "dk", "dv"};
    const double *want = host.data();
    for (int i = 0; i < (forward_only ? 1 : 4); ++i) {
        const size_t count = i < 2 ? p.q_count : p.kv_count;
        const gap g = compare(p, views[i], i ? p.grads : p.o, i ? p.inputs_count() : p.q_count,
                              i ? p.old_grads : nullptr, want, i < 2 ? s.heads : kv_heads_of(s),
                              i < 2 ? s.tokens : kv_tokens_of(s));
        want += count;
        // A query that sees one key: dq and dk are zero but for rounding, so compare with 1.
        const bool alone = s.tokens == 1 || kv_tokens_of(s) == 1 || s.more.window == 1;
        const double least = alone ? 1.0 : 1e-3;
        const double norm = sqrt(g.error2 / std::max(g.reference2, least * (double)count));
        const double most = g.worst / std::max(g.largest, least == 1.0 ? 1.0 : 0.1);
        // One-hot rows: dq and dk are differences of equals, judged only as finite.
        const bool judged = !steep || i == 0 || i == 3;
        good = good && (judged ? norm <= limit && most <= 4 * limit : std::isfinite(norm));
        length +=
            snprintf(&line[length], line.size() - length, "  %s %.1e %.1e", names[i], norm, most);
    }
    if (!quiet || !good) {
        printf("%s%s%s\n", line.c_str(), same, good ? "" : "  FAILED");
    }
    passed += good;
    problem_free(p);
    return good;
}

// A NaN in a query row, and in v of a key: the rows that see it are NaN, rows of other heads not.
static bool check_nan(const kind *k)
{
    bool good = true;
    for (int which = 0; which < 3; which += 2) {
        const int dim = 64, token = 150;
        problem p = problem_make({1, 2, 200, dim, true, false, 1.0f, {}}, k);
        const size_t at = which * p.q_count + (size_t)token * 2 * dim + 5; // head 0
        CHECK(cudaMemset(p.inputs + at * p.size, 0xff, p.size));
        poison(p);
        launch(p, false);
        launch(p, true);
        std::vector<char> host(p.q_count * p.size);
        CHECK(cudaMemcpy(host.data(), p.o, host.size(), cudaMemcpyDeviceToHost));
        for (int t = 0; t < 200; ++t) {
            for (int h = 0; h < 2; ++h) {
                const size_t i = (size_t)(t * 2 + h) * dim + 5;
                const float x = p.size == 2 ? bt_bf16_to_f32(((uint16_t *)host.data())[i])
                                            : ((float *)host.data())[i];
                const bool must = h == 0 && (which == 0 ? t == token : t >= token);
                const bool may = must || (h == 0 && which == 2 && t >= 128);
                good = good && (must ? std::isnan(x) : may || !std::isnan(x));
            }
        }
        CHECK(cudaDeviceSynchronize());
        problem_free(p);
    }
    printf("%-9s NaN %s\n", k->name, good ? "reaches the rows that see it" : "FAILED");
    return good;
}

static bool check_all(bool small, const char *names)
{
    static const int sizes[][4] = {{2, 3, 1, 64},   {1, 2, 7, 64},   {2, 2, 63, 64},
                                   {1, 3, 64, 64},  {1, 2, 65, 32},  {1, 2, 129, 64},
                                   {1, 2, 257, 64}, {1, 2, 200, 40}, {2, 2, 333, 128},
                                   {2, 2, 130, 96}, {2, 3, 384, 64}, {1, 2, 577, 64}};
    static const int tiny[][4] = {{1, 2, 1, 64}, {1, 2, 150, 64}, {1, 2, 70, 128}, {1, 1, 130, 40}};
    const int(*list)[4] = small ? tiny : sizes;
    const int count = small ? 4 : 12, sms = device.info.processor_count;
    bool good = true;
    for (const kind &k : kinds) {
        if (!selected(k, names)) {
            continue;
        }
        for (int i = 0; i < count * 4; ++i) {
            const int *z = list[i / 4];
            if (z[3] <= k.head_dim_most) {
                device.info.processor_count = i & 2 ? 2 : sms; // one block a head, or several
                good &= check_shape({z[0], z[1], z[2], z[3], (i & 1) != 0, (i & 2) != 0, 1, {}}, &k,
                                    small ? 1 : 3);
            }
        }
        device.info.processor_count = sms;
        for (int dim = 64; !small && dim <= k.head_dim_most; dim += 64) {
            good &= check_shape({1, 2, 300, dim, true, true, 100, {}}, &k, 3);
            good &= check_shape({12, 12, 320, dim, true, true, 1, {}}, &k, 3);
        }
        good &= small || check_nan(&k);
    }
    return good;
}

// Each feature alone, then random combinations.
static bool check_general(const kind *k, int count)
{
    static const shape alone[] = {
        {2, 8, 200, 64, true, true, 1, {2, 0, 0, 0, 0, false}},
        {1, 8, 200, 128, false, false, 1, {1, 0, 0, 0, 0, false}},
        {1, 2, 130, 64, false, false, 1, {0, 333, 0, 0, 0, false}},
        {1, 2, 130, 64, true, false, 1, {0, 333, 203, 0, 0, false}},
        {1, 2, 200, 64, true, false, 1, {0, 200, -100, 0, 0, false}}, // some see no key
        {1, 2, 200, 128, true, false, 1, {0, 64, -300, 0, 0, false}}, // none does
        {1, 2, 100, 64, true, false, 1, {0, 100, 5000, 50, 0, false}},
        {1, 2, 700, 64, true, true, 1, {0, 0, 0, 1, 0, false}},
        {1, 2, 700, 64, true, true, 1, {0, 0, 0, 100, 0, false}},
        {1, 2, 700, 128, false, true, 1, {0, 0, 0, 64, 0, false}},
        {1, 3, 700, 64, true, true, 1, {0, 0, 0, 0, 1, false}},
        {1, 3, 700, 64, true, true, 1, {0, 0, 0, 0, 9, false}},
        {1, 3, 700, 128, false, true, 1, {0, 0, 0, 0, 40, false}},
        {1, 4, 700, 64, true, true, 1, {2, 0, 0, 40, 20, true}},
        {2, 2, 150, 64, true, false, 1, {0, 0, 0, 0, 0, true}},
        {2, 2, 150, 120, true, true, 1, {0, 0, 0, 0, 0, true}},
        {1, 2, 400, 64, true, true, 100, {0, 0, 0, 90, 0, false}},
        {1, 2, 400, 128, true, false, 100, {0, 400, 37, 0, 0, false}},
    };
    bool good = true;
    for (const shape &s : alone) {
        good &= check_shape(s, k, 3);
    }
    for (int dim = 136; k == &kinds[GENERAL_BF16] && dim <= 256; dim += 40) {
        good &= check_shape({1, 2, 200, dim, dim == 176, true, 1, {}}, k, 2, true);
        good &=
            check_shape({1, 4, 150, dim, true, false, 1, {2, 300, 120, 70, 0, false}}, k, 2, true);
        good &= check_shape({1, 2, 300, dim, true, true, 1, {0, 0, 0, 0, 5, false}}, k, 2, true);
    }
    srand(7);
    for (int i = 0; i < count; ++i) {
        const bool packs = rand() % 3 == 0;
        const int group = 1 << rand() % 3, kv_heads = 1 + rand() % 2, tokens = 1 + rand() % 330;
        shape s = {packs ? 1 : 1 + rand() % 2,
                   group * kv_heads,
                   tokens,
                   8 * (1 + rand() % 16),
                   rand() % 2 == 0,
                   rand() % 2 == 0,
                   1,
                   {kv_heads, 0, 0, 0, 0, rand() % 2 == 0}};
        s.more.window = rand() % 2 ? 1 + rand() % 200 : 0;
        if (packs) {
            s.more.documents = 1 + rand() % 12;
        } else if (!s.packed) {
            s.more.kv_tokens = 1 + rand() % 330;
            s.more.q_first = rand() % 500 - 150;
        }
        good &= check_shape(s, k, 2);
    }
    return good;
}

// Prints only what failed, and how many passed.
static bool sweep(const char *names)
{
    static const int edges[] = {319, 320, 321, 383, 384, 385,  447,  448,
                                449, 511, 513, 577, 639, 1023, 1024, 1025};
    bool good = true;
    const int sms = device.info.processor_count;
    for (const kind &k : kinds) {
        if (!k.hopper || !selected(k, names)) {
            continue;
        }
        for (int wide = 64; wide <= k.head_dim_most; wide += 64) {
            for (int few = 1; few <= 4; ++few) { // many rounds of items
                device.info.processor_count = few;
                good &= check_shape({2, 3, 400 + 61 * few, wide, few % 2 == 0, true, 1, {}}, &k, 3);
                device.info.processor_count = sms;
            }
            for (int i = 0; i < 2 * (300 + 16); ++i) {
                const int tokens = 1 + i / 2, t = tokens <= 300 ? tokens : edges[tokens - 301];
                const int dim = wide - (tokens % 29 == 0 ? 24 : tokens % 31 == 0 ? 32 : 0);
                // Every fourth with heads enough for the bf16 kernels of many items.
                const int heads =
                    tokens % 4 || t > 300 ? 1 + tokens % 3 : 264 / ((t + 63) / 64) + 1;
                good &=
                    check_shape({1, heads, t, dim, i % 2 == 0, (tokens + i) % 8 < 4, 1, {}}, &k, 2);
            }
            for (int i = 0; i < 2; ++i) {
                good &= check_shape({3, 37, 200, wide, i == 0, true, 1, {}}, &k, 3);
                good &= check_shape({1, 3, 300, wide, i == 0, true, 100, {}}, &k, 3);
                good &= check_shape({1, 53, 300, wide, i == 0, true, 100, {}}, &k, 3);
            }
        }
        good &= check_nan(&k);
    }
    return good;
}

static bool soak(const char *names)
{
    static const shape shapes[] = {
        {4, 12, 1024, 64, true, true, 1, {}},
        {1, 12, 1024, 64, true, true, 1, {}},
        {4, 12, 1000, 64, false, true, 1, {}},
        {3, 5, 1990, 64, true, false, 1, {}},
        {4, 12, 1024, 128, true, true, 1, {}},
        {4, 12, 1024, 64, true, true, 1, {4, 0, 0, 0, 0, true}},
        {1, 12, 3000, 64, true, true, 1, {3, 0, 0, 300, 11, false}},
    };
    const int sms = device.info.processor_count;
    bool good = true;
    for (const kind &k : kinds) {
        for (const shape &s : shapes) {
            const int index = (int)(&k - kinds);
            const bool any = std::count(std::begin(of_any_mask), std::end(of_any_mask), index);
            if (!k.hopper || !selected(k, names) || s.dim > k.head_dim_most ||
                (s.more.kv_heads && !any)) {
                continue;
            }
            problem p = problem_make(s, &k);
            std::vector<char> first;
            int differ = 0;
            for (int run = 0; run < 20; ++run) {
                device.info.processor_count = sms - run * 5;
                poison(p);
                launch(p, false);
                launch(p, true);
                CHECK(cudaDeviceSynchronize());
                std::vector<char> now = outputs_of(p);
                differ += run > 0 && now != first;
                first = run == 0 ? now : first;
            }
            device.info.processor_count = sms;
            problem_free(p);
            printf("%-9s 20 launches of %dx%dx%dx%d: %d differ from the first\n", k.name, s.batch,
                   s.heads, s.tokens, s.dim, differ);
            good = good && differ == 0;
        }
    }
    return good;
}

// Pairs of a query and a key that it sees, of one head and batch entry; causal ones without extras
// as tokens^2 / 2, by custom.
static double pairs_of(const problem &p)
{
    const bt_attention_shape &s = p.forward.shape;
    if (!s.starts && s.window == 0 && s.q_first == 0) {
        return (double)s.q_tokens * (double)s.kv_tokens / (s.causal ? 2 : 1);
    }
    std::vector<int32_t> starts((size_t)s.documents + 1);
    if (s.starts) {
        CHECK(cudaMemcpy(starts.data(), s.starts, starts.size() * 4, cudaMemcpyDeviceToHost));
    }
    double pairs = 0;
    size_t document = 0;
    for (int64_t i = 0; i < s.q_tokens; ++i) {
        const int64_t at = s.q_first + i;
        int64_t first = 0, end = s.kv_tokens;
        if (s.starts) {
            for (; starts[document + 1] <= i; ++document) {
            }
            first = starts[document], end = starts[document + 1];
        }
        end = s.causal ? std::min(end, at + 1) : s.window ? std::min(end, at + s.window) : end;
        first = s.window ? std::max(first, at - s.window + 1) : first;
        pairs += (double)std::max<int64_t>(end - first, 0);
    }
    return pairs;
}

static double median_ms(const problem &p, bool backward, char *scrub, size_t scrub_bytes)
{
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    std::vector<float> times;
    for (int i = 0; i < 18; ++i) {
        if (rested) {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
        }
        CHECK(cudaMemsetAsync(scrub, i, scrub_bytes));
        CHECK(cudaEventRecord(start));
        launch(p, backward);
        CHECK(cudaEventRecord(stop));
        CHECK(cudaEventSynchronize(stop));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, start, stop));
        if (i >= 3) {
            times.push_back(ms);
        }
    }
    std::sort(times.begin(), times.end());
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    return times[times.size() / 2];
}

static void time_all(const char *names)
{
    struct timed {
        int kind;
        shape s;
    };
    static const timed list[] = {
        {0, {64, 12, 1024, 64, true, true, 1, {}}},
        {0, {4, 12, 1024, 64, true, true, 1, {}}},
        {0, {4, 32, 2048, 128, true, true, 1, {}}},
        {0, {2, 12, 16384, 64, true, true, 1, {}}},
        {1, {32, 12, 1024, 64, true, true, 1, {}}},
        {1, {4, 32, 2048, 128, true, true, 1, {}}},
        {2, {32, 12, 1024, 64, true, true, 1, {}}},
        {2, {4, 32, 2048, 128, true, true, 1, {}}},
        {3, {64, 12, 1024, 64, true, true, 1, {}}},
        {3, {64, 12, 1024, 64, false, true, 1, {}}},
        {3, {32, 12, 1024, 64, true, true, 1, {}}},
        {3, {4, 12, 1024, 64, true, true, 1, {}}},
        {3, {2, 12, 16384, 64, true, true, 1, {}}},
        {3, {4, 32, 2048, 128, true, true, 1, {}}},
        {3, {4, 32, 2048, 128, false, true, 1, {}}},
        {3, {1, 32, 2048, 128, true, true, 1, {}}},
        {3, {1, 12, 256, 64, true, true, 1, {}}},
        {3, {1, 12, 512, 64, true, true, 1, {}}},
        {3, {1, 12, 512, 64, false, true, 1, {}}},
        {3, {1, 12, 1024, 64, true, true, 1, {}}},
        {3, {1, 12, 1024, 64, false, true, 1, {}}},
        {3, {2, 12, 1024, 64, true, true, 1, {}}},
        {3, {1, 16, 2048, 64, true, true, 1, {}}},
        {3, {1, 16, 2048, 64, false, true, 1, {}}},
        {3, {1, 4, 4096, 64, true, true, 1, {}}},
        {4, {64, 12, 1024, 64, true, true, 1, {}}},
        {4, {32, 12, 1024, 64, true, true, 1, {}}},
        {4, {4, 12, 1024, 64, true, true, 1, {}}},
        {4, {2, 12, 16384, 64, true, true, 1, {}}},
        {4, {1, 12, 512, 64, true, true, 1, {}}},
        {4, {1, 12, 1024, 64, true, true, 1, {}}},
        {4, {1, 12, 1024, 64, false, true, 1, {}}},
        {4, {8, 16, 1024, 64, true, true, 1, {}}},
        {4, {16, 12, 1024, 64, true, true, 1, {}}},
        {4, {1, 16, 2048, 64, true, true, 1, {}}},
        {4, {1, 32, 2048, 128, true, true, 1, {}}},
        {4, {4, 32, 2048, 128, true, true, 1, {}}},
        {4, {16, 12, 1024, 64, true, true, 1, {4, 0, 0, 0, 0, false}}},
        {4, {4, 12, 4096, 64, true, false, 1, {4, 8192, 4096, 0, 0, true}}},
        {4, {4, 12, 2048, 64, false, false, 1, {4, 6144, 0, 0, 0, true}}},
        {4, {2, 12, 16384, 64, true, true, 1, {0, 0, 0, 1024, 0, false}}},
        {4, {1, 24, 16384, 64, true, true, 1, {0, 0, 0, 0, 24, false}}},
        {4, {4, 32, 2048, 128, false, true, 1, {}}},
        {4, {4, 32, 2048, 128, true, true, 1, {8, 0, 0, 0, 0, false}}},
        {6, {4, 32, 2048, 128, true, true, 1, {8, 0, 0, 0, 0, false}}},
        {6, {16, 12, 1024, 64, true, true, 1, {4, 0, 0, 0, 0, false}}},
        {6, {4, 12, 4096, 64, true, false, 1, {4, 8192, 4096, 0, 0, true}}},
        {6, {4, 12, 2048, 64, false, false, 1, {4, 6144, 0, 0, 0, true}}},
        {6, {2, 12, 16384, 64, true, true, 1, {0, 0, 0, 1024, 0, false}}},
        {6, {1, 24, 16384, 64, true, true, 1, {0, 0, 0, 0, 24, false}}},
        {5, {64, 12, 1024, 64, true, true, 1, {}}},
        {5, {2, 12, 16384, 64, true, true, 1, {}}},
        {5, {4, 32, 2048, 128, true, true, 1, {}}},
        {5, {4, 32, 2048, 128, true, true, 1, {8, 0, 0, 0, 0, false}}},
        {5, {2, 12, 16384, 64, true, true, 1, {0, 0, 0, 1024, 0, false}}},
        {5, {1, 24, 16384, 64, true, true, 1, {0, 0, 0, 0, 24, false}}},
        {5, {4, 12, 1024, 64, true, true, 1, {0, 0, 0, 0, 0, true}}},
    };
    const size_t scrub_bytes = (size_t)256 << 20;
    char *scrub = device_alloc(scrub_bytes);
    printf("                              forward ms  TFLOP/s   backward ms  TFLOP/s   workspace "
           "MiB\n");
    for (const timed &t : list) {
        if (!selected(kinds[t.kind], names)) {
            continue;
        }
        problem p = problem_make(t.s, &kinds[t.kind]);
        poison(p);
        launch(p, false);
        const double flop = 4.0 * t.s.batch * t.s.heads * pairs_of(p) * t.s.dim;
        const double fwd = median_ms(p, false, scrub, scrub_bytes);
        const bool both = p.k->backward_accepts(&device, &p.backward);
        const double bwd = both ? median_ms(p, true, scrub, scrub_bytes) : INFINITY;
        printf("%-9s %2dx%2d(%d)x%5d(%d)x%3d %s window %d docs %d%s  %9.4f %8.1f   %11.4f %8.1f   "
               "%8.1f\n",
               p.k->name, t.s.batch, t.s.heads, kv_heads_of(t.s), t.s.tokens, kv_tokens_of(t.s),
               t.s.dim, t.s.causal ? "causal" : "full  ", t.s.more.window, t.s.more.documents,
               t.s.more.accumulate ? " +=" : "", fwd, flop / fwd * 1e-9, bwd,
               2.5 * flop / bwd * 1e-9, p.workspace_bytes / 1048576.0);
        problem_free(p);
    }
    CHECK(cudaFree(scrub));
}

// One launch of each direction at the shape that matters, for a profiler.
static void profile_all()
{
    const shape s = {64, 12, 1024, 64, true, true, 1, {}};
    for (const kind &k : kinds) {
        problem p = problem_make(s, &k);
        launch(p, false);
        launch(p, true);
        CHECK(cudaDeviceSynchronize());
        problem_free(p);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "check", *names = argc > 2 ? argv[2] : nullptr;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    device.info.processor_count = properties.multiProcessorCount;
    device.info.shared_bytes = properties.sharedMemPerBlockOptin;
    device.info.arch = properties.major * 10 + properties.minor;
    printf("%s, %d SMs\n", properties.name, properties.multiProcessorCount);
    bool good = true;
    if (strcmp(what, "check") == 0 || strcmp(what, "small") == 0) {
        good = check_all(strcmp(what, "small") == 0, names);
        printf("%s\n", good ? "ALL CHECKS PASSED" : "SOME CHECKS FAILED");
    }
    if (strcmp(what, "general") == 0) {
        quiet = argc <= 2;
        for (int index : of_any_mask) {
            good &= check_general(&kinds[index], argc > 2 ? 4 : 300);
        }
        printf("%d cases passed: %s\n", passed, good ? "ALL CHECKS PASSED" : "SOME CHECKS FAILED");
    }
    if (strcmp(what, "time") == 0) {
        rested = argc > 3;
        time_all(names);
    }
    if (strcmp(what, "sweep") == 0) {
        quiet = true;
        good = sweep(names);
        printf("%d cases passed: %s\n", passed, good ? "ALL CHECKS PASSED" : "SOME CHECKS FAILED");
    }
    if (strcmp(what, "soak") == 0) {
        good = soak(names);
    }
    if (strcmp(what, "profile") == 0) {
        profile_all();
    }
    return good ? 0 : 1;
}
