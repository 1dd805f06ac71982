// kernels/cuda/gemm/plan.cu - how the Hopper GEMM cuts a product: plans, ranked by a cost model
//
// The model counts SM cycles of the busiest block. With U units over P blocks it computes
// n = ceil(U / P) units, alternately by its two consumers:
//
//   start + multiply + (n - 1) max(multiply, (multiply + finish) / 2) + finish + turns
//
//   multiply   k-blocks of a unit times 4 TILE_N cycles (4096 FLOP a cycle), over an efficiency
//   finish     the ending, measured for 192 columns and scaled to the tile's
//   turns      splits of one tile that end together add one after the other
// and is not less than what the bytes need at the copy bandwidth. The constants are measured on an
// H200 (README.md has the table of predictions beside times).
//
// Deterministic: a plan is a function of the call's shape and kind and of the number of SMs.
#include "kernels/cuda/gemm/bf16_sm90.h"

namespace bt_gemm_sm90
{

static const struct {
    int tile_n;
    double efficiency; // of the multiplication alone
} widths[] = {{192, 0.98}, {128, 0.93}};

// Cycles of an ending for 128 x 192 values, alone.
static double finish_cycles(ending kind, int splits)
{
    switch (kind) {
    case ENDING_STORE:
        return 3000;
    case ENDING_ADD:
        return 5500;
    case ENDING_GELU:
    case ENDING_DGELU:
        return 9000;
    default: // additions at L2, some 2 TB/s for all SMs; a split waits for their end
        return splits > 1 ? 20000 : 10000;
    }
}

constexpr double START_CYCLES = 1000; // barriers, the first loads
constexpr double TURN_CYCLES = 10000; // adding 128 x 192 values and handing over
constexpr double SPLIT_CYCLES = 1000; // what a split costs otherwise
constexpr double BYTES_PER_CYCLE = 2600;
constexpr int SPLIT_BLOCKS_LEAST = 4; // k-blocks of a split
// Below this share of the tensor cores' rate, as estimated, the row above the kernel serves.
constexpr double EFFICIENCY_LEAST = 0.6, EFFICIENCY_LEAST_SPLIT = 0.75;
// Long runs of large products are bound by the power that the card may draw. There cuBLASLt's wider
// tiles, which move fewer bytes for a product, are 3 to 9 % faster where units are deep.
constexpr double LONG_FLOPS = 2e11;
constexpr int64_t DEEP_K = 1024;

ending ending_of(const bt_gemm_args *args)
{
    const bool adds = args->beta != 0;
    if (args->ab_dtype != BT_BF16) {
        return ENDING_COUNT;
    }
    if (args->d_dtype == BT_F32) {
        const bool in_place = args->beta == 1 && args->c == args->d && args->ldc == args->ldd &&
                              (args->batch == 1 || args->stride_c == args->stride_d);
        return args->epilogue == BT_EPILOGUE_NONE && (!adds || in_place) ? ENDING_F32
                                                                         : ENDING_COUNT;
    }
    switch (args->epilogue) {
    case BT_EPILOGUE_NONE:
    case BT_EPILOGUE_BIAS:
        return adds ? ENDING_ADD : ENDING_STORE;
    case BT_EPILOGUE_BIAS_GELU:
        return adds ? ENDING_COUNT : ENDING_GELU;
    case BT_EPILOGUE_DGELU:
        return adds ? ENDING_COUNT : ENDING_DGELU;
    default:
        return ENDING_COUNT;
    }
}

// Bytes that the call must move, each operand once.
static double bytes_of(const bt_gemm_args *args, ending kind)
{
    const double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    const double outputs = kind == ENDING_STORE ? 2 : kind == ENDING_F32 && args->beta != 0 ? 8 : 4;
    return (double)args->batch * (2 * m * k + 2 * n * k + outputs * m * n);
}

static double estimate(const bt_gemm_args *args, int processors, int tile_n, double efficiency,
                       int splits)
{
    const ending kind = ending_of(args);
    const int64_t tiles = bt_div_up(args->m, 128) * bt_div_up(args->n, tile_n) * args->batch;
    const int64_t rounds = bt_div_up(tiles * splits, processors);
    const double blocks = (double)bt_div_up(bt_div_up(args->k, 64), splits);
    const double multiply = blocks * 4 * tile_n / efficiency;
    const double finish = finish_cycles(kind, splits) * tile_n / 192;
    const double period = multiply > finish ? multiply : (multiply + finish) / 2;
    // How many splits of a tile are in the last round.
    const int64_t together = bt_min_i64(splits, bt_div_up(processors, tiles));
    const double turns =
        (double)(together - 1) * TURN_CYCLES * tile_n / 192 + (double)(splits - 1) * SPLIT_CYCLES;
    const double work = START_CYCLES + multiply + (double)(rounds - 1) * period + finish + turns;
    const double moving = START_CYCLES + bytes_of(args, kind) / BYTES_PER_CYCLE;
    return work > moving ? work : moving;
}

static int group_of(ending kind, int splits)
{
    return kind != ENDING_F32 ? 16 : splits > 1 ? 8 : 1;
}

int plans_of(const bt_gemm_args *args, int processors, plan plans[PLANS_MOST])
{
    const ending kind = ending_of(args);
    const int64_t blocks = bt_div_up(args->k, 64);
    int count = 0;
    for (const auto &width : widths) {
        for (int splits = 1; splits <= (kind == ENDING_F32 ? SPLITS_MOST : 1); ++splits) {
            if (splits > 1 && blocks < splits * SPLIT_BLOCKS_LEAST) {
                break;
            }
            const plan next = {width.tile_n, splits, group_of(kind, splits),
                               estimate(args, processors, width.tile_n, width.efficiency, splits)};
            int at = count++;
            for (; at > 0 && plans[at - 1].cycles > next.cycles; --at) {
                plans[at] = plans[at - 1];
            }
            plans[at] = next;
        }
    }
    return count;
}

plan plan_of(const bt_gemm_args *args, int processors)
{
    plan plans[PLANS_MOST];
    (void)plans_of(args, processors, plans);
    return plans[0];
}

bool is_worth_it(const bt_gemm_args *args, int processors)
{
    const double flops =
        2.0 * (double)args->batch * (double)args->m * (double)args->n * (double)args->k;
    const double ideal = flops / (4096.0 * processors);
    const plan best = plan_of(args, processors);
    if (flops > LONG_FLOPS && bt_div_up(args->k, best.splits) > DEEP_K) {
        return false;
    }
    return ideal >= (best.splits > 1 ? EFFICIENCY_LEAST_SPLIT : EFFICIENCY_LEAST) * best.cycles;
}

} // namespace bt_gemm_sm90
