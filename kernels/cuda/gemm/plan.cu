// kernels/cuda/gemm/plan.cu - how the Hopper GEMM cuts a product: plans, ranked by a cost model
//
// The model counts SM cycles of the busiest block. With U units over P blocks it computes
// n = ceil(U / P) units, alternately by its two consumers:
//
//   start + multiply + (n - 1) max(multiply, (multiply + finish) / 2) + finish + turns
//
//   multiply   k-blocks of a unit times 4 TILE_N cycles (4096 FLOP a cycle), divided by an
//   efficiency finish     the epilogue, measured for 192 columns and scaled to the tile's turns
//   splits of one tile that finish together add to D one after the other
//
// Without ping-pong a unit costs multiply + finish. The time is at least that of the bytes at copy
// bandwidth. A pass that rounds B is added. A cluster computes one tile and exchanges its parts,
// round after round. The constants were measured on an H200 (lab/README.md).
//
// Deterministic: a plan is a function of the call's shape and kind and of the number of SMs.
#include "kernels/cuda/gemm/sm90.h"

namespace bt_gemm_sm90
{

// Efficiency of the multiplication alone; narrow tiles read more bytes per FLOP, and sums of A's
// columns read A once more.
static double efficiency_of(const family &of, const bt_gemm_args *args, const variant &how)
{
    const bool sums = args->dbias && args->dbias_of_a;
    if (how.cluster > 0) { // narrow tiles are bound by shared memory
        return how.tile_n == 192 ? 0.985 : 0.74;
    }
    if (of.dtype == BT_BF16) {
        return how.tile_n == 192 ? (sums ? 0.94 : 0.98) : (sums ? 0.79 : 0.93);
    }
    if (how.rounds_b && how.trans_a) {
        return 0.92;
    }
    if (how.rounds_b) {
        return how.tile_m == 256 ? 0.85 : how.tile_n == 192 ? 0.82 : 0.67;
    }
    return how.tile_m == 256 ? 0.6 : 0.44;
}

// Cycles of an epilogue for 128 x 192 values, alone.
static double finish_cycles(const family &of, const variant &how, int splits)
{
    if (how.rounds_b && !how.trans_a && splits > 1) {
        return 20000;
    }
    if (how.rounds_b && !how.trans_a && !how.ping_pong) {
        return 4000;
    }
    if (of.dtype == BT_F32) { // no ping-pong: only the k-blocks in the ring overlap the epilogue
        return how.kind == EPILOGUE_F32 ? (splits > 1 ? 5000 : 2500) : 5000;
    }
    switch (how.kind) {
    case EPILOGUE_STORE:
        return 3000;
    case EPILOGUE_ADD:
        return 5500;
    case EPILOGUE_GELU:
    case EPILOGUE_DGELU:
        return 9000;
    default: // additions in L2, some 2 TB/s for all SMs; a split waits until they are done
        return splits > 1 ? 20000 : 10000;
    }
}

constexpr double START_CYCLES = 1000; // barriers, the first loads
// Adding 128 x 192 values and signalling the next split; that of tf32's weight gradients.
constexpr double TURN_CYCLES = 10000, TURN_CYCLES_TF32 = 6500;
constexpr double SPLIT_CYCLES = 1000; // fixed cost of a split
constexpr double BYTES_PER_CYCLE = 2600;
constexpr double ROUND_CYCLES = 3000; // a pass over B, besides its bytes
constexpr int SPLIT_BLOCKS_LEAST = 4; // k-blocks of a split
// Clusters: cycles of barriers and latencies; bytes a cycle that an SM reads from other SMs' shared
// memory.
constexpr double CLUSTER_CYCLES = 3000, CLUSTER_BYTES_PER_CYCLE = 11;
// Below this fraction of the tensor cores' peak, by the model, the row above the kernel serves.
constexpr double EFFICIENCY_LEAST = 0.6, EFFICIENCY_LEAST_SPLIT = 0.75;
// The same for tf32, where cuBLASLt is faster for plain forward products (lab/README.md). cuBLASLt
// has no fused GELU for tf32.
constexpr double EFFICIENCY_LEAST_TF32 = 0.4;
// Long sequences of large products are limited by the card's power. There cuBLASLt's wider tiles,
// which move fewer bytes per FLOP, are faster where units are deep. Column sums are mma.sync
// products, which wait for the other consumer's wgmmas: beyond this size a separate pass is faster
// (lab/README.md).
constexpr double LONG_FLOPS = 2e11;
constexpr int64_t DEEP_K = 1024;
// What the power limit costs weight gradients in tiles of 128 x 192 and 128 x 128, relative to
// 192 x 192.
constexpr double LONG_COST = 1.03;

epilogue epilogue_of(const family &of, const bt_gemm_args *args)
{
    const bool adds = args->beta != 0;
    const bool in_place = args->beta == 1 && args->c == args->d && args->ldc == args->ldd &&
                          (args->batch == 1 || args->stride_c == args->stride_d);
    epilogue kind = EPILOGUE_COUNT;
    if (args->ab_dtype != of.dtype || (of.dtype == BT_F32 && args->compute != of.compute)) {
        return EPILOGUE_COUNT;
    }
    switch (args->epilogue) {
    case BT_EPILOGUE_NONE:
    case BT_EPILOGUE_BIAS:
        kind = args->d_dtype == BT_F32 && (!adds || in_place) ? EPILOGUE_F32
               : adds                                         ? EPILOGUE_ADD
                                                              : EPILOGUE_STORE;
        break;
    case BT_EPILOGUE_BIAS_GELU:
        kind = adds ? EPILOGUE_COUNT : EPILOGUE_GELU;
        break;
    case BT_EPILOGUE_DGELU:
        kind = adds ? EPILOGUE_COUNT : EPILOGUE_DGELU;
        break;
    default:
        return EPILOGUE_COUNT;
    }
    // bf16 operands: only the epilogue F32 writes f32, and weight gradients have no bias.
    if (of.dtype == BT_BF16 && args->d_dtype == BT_F32 &&
        (kind != EPILOGUE_F32 || (args->trans_a && args->epilogue != BT_EPILOGUE_NONE))) {
        return EPILOGUE_COUNT;
    }
    // Column sums of D: only bf16 with DGELU. Column sums of A: every kernel with an MN-major A.
    const bool sums_d = of.dtype == BT_BF16 && kind == EPILOGUE_DGELU;
    const bool sums_a = args->trans_a && !args->trans_b && kind == EPILOGUE_F32;
    if (args->dbias && (!(args->dbias_of_a ? sums_a : sums_d) || args->batch != 1)) {
        return EPILOGUE_COUNT;
    }
    for (int i = 0; i < of.variant_count; ++i) {
        const variant &v = of.variants[i];
        if (v.kind == kind && v.trans_a == args->trans_a && v.trans_b == args->trans_b) {
            return kind;
        }
    }
    return EPILOGUE_COUNT;
}

// Bytes of the call's operands and results, each counted once.
static double bytes_of(const bt_gemm_args *args, epilogue kind)
{
    const double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    const double in = (double)bt_dtype_size(args->ab_dtype);
    const double out = (double)bt_dtype_size(args->d_dtype);
    const bool once = kind == EPILOGUE_STORE || (kind == EPILOGUE_F32 && args->beta == 0);
    return (double)args->batch * (in * k * (m + n) + (once ? out : 2 * out) * m * n);
}

static double flops_of(const bt_gemm_args *args)
{
    return 2.0 * (double)args->batch * (double)args->m * (double)args->n * (double)args->k;
}

static int64_t tiles_of(const bt_gemm_args *args, const variant &how)
{
    return bt_div_up(args->m, how.tile_m) * bt_div_up(args->n, how.tile_n) * args->batch;
}

// Rows of the operand that a pass rounds, and its size in bytes after rounding.
static int64_t rounded_rows_of(const bt_gemm_args *args, const variant &how)
{
    return how.exchanged ? args->m : args->n;
}

static double rounded_bytes_of(const bt_gemm_args *args, const variant &how)
{
    return (double)args->batch * (double)rounded_rows_of(args, how) * (double)rounded_ld(args) *
           sizeof(float);
}

// How many clusters of that size fit on the device: a cluster lies within one GPC, so some SMs are
// unused (counts for an H200 of 132 SMs: lab/README.md).
static int64_t clusters_of(int processors, int size)
{
    return bt_max_i64(size < 3 ? processors / size : processors * 9 / 10 / size, 1);
}

static double estimate_cluster(const family &of, const bt_gemm_args *args, int processors,
                               const variant &how)
{
    const double bytes = 4.0 * how.tile_m * how.tile_n;
    const double others = bytes * (how.cluster - 1) / how.cluster;
    const double blocks = (double)bt_div_up(bt_div_up(args->k, of.depth), how.cluster);
    const double block = 2.0 * how.tile_m * how.tile_n * of.depth / of.flops_per_cycle;
    const double multiply = blocks * block / efficiency_of(of, args, how);
    const double exchange = how.cluster > 1 ? CLUSTER_CYCLES + others / CLUSTER_BYTES_PER_CYCLE : 0;
    const double finish = finish_cycles(of, how, 1) * bytes / (4 * 128 * 192) / how.cluster;
    const int64_t rounds = bt_div_up(tiles_of(args, how), clusters_of(processors, how.cluster));
    const double work = (double)rounds * (START_CYCLES + multiply + exchange + finish);
    const double moving = START_CYCLES + bytes_of(args, how.kind) / BYTES_PER_CYCLE;
    return work > moving ? work : moving;
}

static double estimate(const family &of, const bt_gemm_args *args, int processors,
                       const variant &how, int splits)
{
    if (how.cluster > 0) {
        return estimate_cluster(of, args, processors, how);
    }
    const double part = (double)how.tile_m * how.tile_n / (128 * 192);
    const int64_t tiles = tiles_of(args, how);
    const int64_t rounds = bt_div_up(tiles * splits, processors);
    const double blocks = (double)bt_div_up(bt_div_up(args->k, of.depth), splits);
    const double block = 2.0 * how.tile_m * how.tile_n * of.depth / of.flops_per_cycle;
    const double multiply = blocks * block / efficiency_of(of, args, how);
    const double finish = finish_cycles(of, how, splits) * part;
    const double overlapped = multiply > finish ? multiply : (multiply + finish) / 2;
    const double period = how.ping_pong ? overlapped : multiply + finish;
    // Splits of a tile in the last round.
    const int64_t together = bt_min_i64(splits, bt_div_up(processors, tiles));
    const double turn = of.dtype == BT_F32 && how.trans_a ? TURN_CYCLES_TF32 : TURN_CYCLES;
    const double turns = (double)(together - 1) * turn * part + (double)(splits - 1) * SPLIT_CYCLES;
    const double work = START_CYCLES + multiply + (double)(rounds - 1) * period + finish + turns;
    const double moving = START_CYCLES + bytes_of(args, how.kind) / BYTES_PER_CYCLE;
    const bool long_gradient = how.kind == EPILOGUE_F32 && how.trans_a && of.dtype == BT_BF16 &&
                               flops_of(args) > LONG_FLOPS;
    const double rounding =
        how.rounds_b ? ROUND_CYCLES + 2 * rounded_bytes_of(args, how) / BYTES_PER_CYCLE : 0;
    return rounding + (work > moving ? work : moving) * (long_gradient ? LONG_COST : 1);
}

static int group_of(const bt_gemm_args *args, int splits)
{
    return !args->trans_a ? 16 : splits > 1 ? 8 : 1;
}

// The pass before a weight gradient rounds the smaller operand.
static bool can_round(const bt_gemm_args *args, const variant &how)
{
    return !how.rounds_b || (rounded_rows_of(args, how) <= ROUNDED_N_MOST &&
                             (!how.trans_a || how.exchanged == (args->m < args->n)) &&
                             (!how.exchanged || args->epilogue == BT_EPILOGUE_NONE));
}

int plans_of(const family &of, const bt_gemm_args *args, int processors, plan plans[PLANS_MOST])
{
    const epilogue kind = epilogue_of(of, args);
    const int64_t blocks = bt_div_up(args->k, of.depth);
    const int splits_most = kind == EPILOGUE_F32 ? SPLITS_MOST : 1;
    int count = 0;
    for (int v = 0; v < of.variant_count; ++v) {
        const variant &how = of.variants[v];
        if (how.kind != kind || how.trans_a != args->trans_a || how.trans_b != args->trans_b ||
            !can_round(args, how)) {
            continue;
        }
        for (int splits = 1; splits <= splits_most; ++splits) {
            if (blocks < how.cluster || (how.cluster > 0 && splits > 1)) {
                break; // every block of a cluster has a part of K
            }
            if (splits > 1 && (blocks < splits * SPLIT_BLOCKS_LEAST ||
                               (how.rounds_b && !how.trans_a &&
                                tiles_of(args, how) * (splits - 1) >= processors))) {
                break; // short K: splitting pays only where SMs would be idle
            }
            const plan next = {&how, splits, group_of(args, splits),
                               estimate(of, args, processors, how, splits)};
            int at = count++;
            for (; at > 0 && plans[at - 1].cycles > next.cycles; --at) {
                plans[at] = plans[at - 1];
            }
            plans[at] = next;
        }
    }
    return count;
}

plan plan_of(const family &of, const bt_gemm_args *args, int processors)
{
    plan plans[PLANS_MOST];
    (void)plans_of(of, args, processors, plans);
    return plans[0];
}

plan plan_at(const family &of, const bt_gemm_args *args, int number)
{
    const int variant = number / PLAN_NUMBERS, splits = number % PLAN_NUMBERS;
    const bool there = variant >= 0 && variant < of.variant_count && splits >= 1;
    return {there ? &of.variants[variant] : NULL, splits, group_of(args, splits), 0};
}

int number_of(const family &of, const plan &chosen)
{
    return (int)(chosen.how - of.variants) * PLAN_NUMBERS + chosen.splits;
}

// Whether our kernel is faster for this kind of call, regardless of how well it fills the SMs.
static bool is_faster_in_tf32(const bt_gemm_args *args, const plan &best, double flops)
{
    const epilogue kind = best.how->kind;
    if (args->trans_a) {
        return !args->trans_b;
    }
    const double held = 4.0 * (double)args->batch * (double)args->m * (double)(args->k + args->n);
    const bool small =
        rounded_bytes_of(args, *best.how) <= held / 2; // limits the workspace relative to A and D
    const bool saves_a_pass = kind == EPILOGUE_GELU || kind == EPILOGUE_DGELU;
    return small &&
           (saves_a_pass || ((kind == EPILOGUE_ADD || !args->trans_b) && flops <= LONG_FLOPS));
}

// Cycles of the pass that sums the columns of a weight gradient's A unless our kernel does.
static double sums_cycles(const bt_gemm_args *args)
{
    return args->dbias && args->dbias_of_a
               ? (double)args->m * (double)args->k * (double)bt_dtype_size(args->ab_dtype) /
                     BYTES_PER_CYCLE
               : 0;
}

bool is_worth_it(const family &of, const bt_gemm_args *args, int processors)
{
    const double flops = flops_of(args);
    const double ideal = flops / ((double)of.flops_per_cycle * processors);
    const plan best = plan_of(of, args, processors);
    const double cycles = best.cycles - sums_cycles(args); // of the product alone
    if (of.dtype == BT_F32) {
        return is_faster_in_tf32(args, best, flops) && ideal >= EFFICIENCY_LEAST_TF32 * cycles;
    }
    const bool gradient = best.how->kind == EPILOGUE_F32 && best.how->trans_a;
    const bool deep = bt_div_up(args->k, best.splits) > DEEP_K && !gradient &&
                      best.how->kind != EPILOGUE_GELU; // which cuBLASLt does not have
    if (flops > LONG_FLOPS && ((args->dbias && !args->dbias_of_a) || deep)) {
        return false;
    }
    return ideal >=
           (best.splits > 1 || best.how->cluster > 1 ? EFFICIENCY_LEAST_SPLIT : EFFICIENCY_LEAST) *
               cycles;
}

} // namespace bt_gemm_sm90
