// kernels/cuda/gemm/grouped_sm90.cu - the row gemm_grouped_bf16_sm90: bf16 weight gradients of
//   several products in one launch, divided evenly among its blocks (stream-K)
//
// With T tiles and P blocks, T mod P tiles (or P more) are cut: their k-blocks are concatenated,
// and each of the first `sharers` blocks gets an equal range of them. Then every block takes the
// same number of whole tiles, all starting at k-block 0, so that concurrent blocks share operand
// slices in L2. Products of different depths have all of their tiles cut. Where all tiles are cut,
// each into the same number of parts, a tile's later parts are deeper than its first ones, because
// they wait for these.
//
// Types    bf16 operands, d f32, stored or added to (beta 1, c is d); TN, batched or not
// Bitwise  the cuts, hence the order of every sum, are functions of the shapes and of the number of
//          SMs; a tile's parts are added in ascending order of k
// Sync     blocks wait for each other where tiles are cut: such launches are cooperative
// Source   Osama et al. 2023, arXiv:2301.03598 (Stream-K)
#include <string.h>

#include "kernels/cuda/gemm/arch_sm90.h"
#include "kernels/cuda/gemm/bf16_block_sm90.cuh"
#include "kernels/cuda/overlap.h"

namespace bt_gemm_sm90
{

// ---- kernels ------------------------------------------------------------------------------------

template <class C>
static __global__ void __launch_bounds__(THREADS, 1) group_kernel(const __grid_constant__ group g)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    run_block<C>(group_share<C>(g));
#endif
}

#define GROUP_VARIANT(n, shared)                                                                   \
    {                                                                                              \
        config<n, true, true, EPILOGUE_F32, shared>::TILE_M, n,                                    \
            group_kernel<config<n, true, true, EPILOGUE_F32, shared>>,                             \
            config<n, true, true, EPILOGUE_F32, shared>::SHARED_BYTES, THREADS                     \
    }
static const group_variant group_variants[] = {GROUP_VARIANT(128, false), GROUP_VARIANT(192, false),
                                               GROUP_VARIANT(256, true)};
static const int group_variant_count = (int)(sizeof group_variants / sizeof group_variants[0]);

// ---- plans --------------------------------------------------------------------------------------

// The cost model of plan.cu for a block's whole share, in SM cycles.
constexpr double START_CYCLES = 1500;
constexpr double FINISH_CYCLES = 6000; // adding 128 x 192 values, when all blocks do
constexpr double TURN_CYCLES = 8500;   // one more part of a tile: waiting for its turn, adding
constexpr double UNEVEN_CYCLES = 8000; // parts that begin within a tile share fewer slices
constexpr double BYTES_PER_CYCLE = 2600;
constexpr double CACHE_BYTES = 40e6; // of L2: operands that fit are read from memory once
constexpr int PART_BLOCKS_LEAST = 4; // k-blocks of a part of a tile
constexpr int PARTS_MOST = 8;        // of a tile
// BT_GEMM=auto takes groups up to this depth: deeper products fill the GPU alone when K is split,
// and groups of them have not been measured.
constexpr int64_t AUTO_K_MOST = 8192;

static const family &of = family_bf16;

static int64_t tiles_of(const bt_gemm_args &product, const group_variant &how)
{
    return bt_div_up(product.m, how.tile_m) * bt_div_up(product.n, how.tile_n) * product.batch;
}

static int64_t k_blocks_of(const bt_gemm_args &product) { return bt_div_up(product.k, of.depth); }

bool group_is_legal(const bt_gemm_args *products, int64_t count)
{
    int64_t blocks = 0;
    for (int64_t i = 0; i < count; ++i) {
        const bt_gemm_args &p = products[i];
        if (!is_legal(of, &p) || epilogue_of(of, &p) != EPILOGUE_F32 || !p.trans_a || p.trans_b ||
            p.dbias) {
            return false;
        }
        blocks += bt_div_up(p.m, 128) * bt_div_up(p.n, 128) * p.batch * k_blocks_of(p);
    }
    return count >= 1 && blocks < INT32_MAX;
}

// Totals of a group for one tile size.
struct extent {
    int64_t tiles, blocks; // k-blocks of all tiles
    double bytes;          // of operands and results
    bool even;             // all products are equally deep
};

static extent extent_of(const bt_gemm_args *products, int count, const group_variant &how)
{
    extent all = {0, 0, 0, true};
    for (int i = 0; i < count; ++i) {
        const bt_gemm_args &p = products[i];
        const double results = (p.beta == 0 ? 4.0 : 8.0) * (double)p.m * (double)p.n;
        all.tiles += tiles_of(p, how);
        all.blocks += tiles_of(p, how) * k_blocks_of(p);
        all.bytes += (double)p.batch * (2.0 * (double)p.k * (double)(p.m + p.n) + results);
        all.even = all.even && k_blocks_of(p) == k_blocks_of(products[0]);
    }
    return all;
}

// The plan for a number of cut tiles and of blocks that share them.
static group_plan estimate(const group_variant &how, const extent &all, int processors,
                           int64_t cut_tiles, int64_t sharers)
{
    const double part = (double)how.tile_m * how.tile_n / (128 * 192);
    const bool shared = how.tile_n == 256;
    const double block = 2.0 * how.tile_m * how.tile_n * of.depth / of.flops_per_cycle /
                         (how.tile_n == 128 ? 0.93 : 0.98);
    const int64_t whole = all.tiles - cut_tiles;
    const double rounds = (double)bt_div_up(whole, processors);
    const double deep = (double)all.blocks / (double)all.tiles; // k-blocks of a tile
    const double share = cut_tiles ? deep * (double)cut_tiles / (double)sharers : 0;
    const bool aligned = cut_tiles && sharers % cut_tiles == 0;
    // Parts of a tile, at most; one more where parts begin within a tile.
    const double parts =
        cut_tiles ? (double)(bt_div_up(sharers, cut_tiles) + (aligned ? 0 : 1)) : 0;
    const double speed = shared ? 1.5 : 1; // both consumers write a shared tile
    group_plan plan = {&how,
                       (int)(whole ? bt_min_i64(processors, all.tiles) : sharers),
                       (int)cut_tiles,
                       (int)sharers,
                       0,
                       0};
    if (aligned && all.even && !whole && parts > 1) {
        const double turn = TURN_CYCLES / 2 * part / speed / block;
        const double most = 2 * (deep / parts - PART_BLOCKS_LEAST) / (parts - 1);
        plan.stagger = turn < most ? turn : most;
    }
    const double turns = parts > 1 ? (parts - 1) * TURN_CYCLES * part / speed : 0;
    // Epilogues that no multiplication hides: all of them, or the last.
    const double epilogues = shared ? (cut_tiles ? (aligned ? 1 : 1.5) : 0) + rounds : 1;
    double bytes = all.bytes;
    if (!aligned && cut_tiles && all.bytes > CACHE_BYTES) { // slices are evicted between reads
        bytes += 0.5 * share * (double)sharers * (how.tile_m + how.tile_n) * of.depth * 2;
    }
    const double work = START_CYCLES + (share + rounds * deep) * block +
                        epilogues * FINISH_CYCLES * part / speed + turns +
                        (aligned || !cut_tiles ? 0 : UNEVEN_CYCLES);
    const double moving = START_CYCLES + bytes / BYTES_PER_CYCLE;
    plan.cycles = work > moving ? work : moving;
    return plan;
}

static int insert(group_plan *plans, int count, const group_plan &next)
{
    int at = count;
    for (; at > 0 && plans[at - 1].cycles > next.cycles; --at) {
        plans[at] = plans[at - 1];
    }
    plans[at] = next;
    return count + 1;
}

int group_plans_of(const bt_gemm_args *products, int count, int processors,
                   group_plan plans[GROUP_PLANS_MOST])
{
    const int most = (int)bt_min_i64(processors, BLOCKS_MOST);
    int found = 0;
    for (int v = 0; v < group_variant_count; ++v) {
        const group_variant &how = group_variants[v];
        const extent all = extent_of(products, count, how);
        const int64_t rest = all.even ? all.tiles % most : all.tiles;
        const int64_t cuts[2] = {rest, rest + most};
        for (int i = 0; i < 2 && cuts[i] <= all.tiles; ++i) {
            const int64_t cut = cuts[i], deep = all.blocks / all.tiles;
            if (cut == 0) {
                found = insert(plans, found, estimate(how, all, most, 0, 0));
                continue;
            }
            for (int64_t parts = 1; parts <= PARTS_MOST && cut * parts <= most; ++parts) {
                if (parts == 1 || deep >= parts * PART_BLOCKS_LEAST) {
                    found = insert(plans, found, estimate(how, all, most, cut, cut * parts));
                }
            }
            const int64_t sharers = bt_min_i64(most, cut * PARTS_MOST);
            if (cut > most || (sharers % cut != 0 && deep * cut >= sharers * PART_BLOCKS_LEAST)) {
                found = insert(plans, found, estimate(how, all, most, cut, sharers));
            }
        }
    }
    return found;
}

// ---- cuts ---------------------------------------------------------------------------------------

// The k-block, in the run of all tiles, at which a tile begins, and how many it has.
static void find_tile(const group &g, int tile, int *begin, int *blocks)
{
    int i = 0;
    while (tile >= g.first_tile[i + 1]) {
        ++i;
    }
    *blocks = (int)bt_div_up(g.products[i].k, of.depth);
    *begin = g.first_block[i] + (tile - g.first_tile[i]) * *blocks;
}

// Where the part of block b begins. A part of too few k-blocks is given to a neighbour.
static int cut_at(const group &g, const group_plan &plan, int total, int b)
{
    int begin = 0, blocks = 0;
    if (b >= plan.sharers) {
        return total;
    }
    if (plan.sharers % plan.cut_tiles == 0) {
        const int parts = plan.sharers / plan.cut_tiles, j = b % parts;
        find_tile(g, b / parts, &begin, &blocks);
        return begin + (int)((double)blocks * j / parts - plan.stagger * j * (parts - j) / 2);
    }
    const int at = (int)((int64_t)total * b / plan.sharers);
    int tile = 0;
    do {
        find_tile(g, tile++, &begin, &blocks);
    } while (at >= begin + blocks);
    return at - begin < PART_BLOCKS_LEAST            ? begin
           : begin + blocks - at < PART_BLOCKS_LEAST ? begin + blocks
                                                     : at;
}

static void share_out(group *g, const group_plan &plan)
{
    int begin = 0, blocks = 0;
    if (plan.cut_tiles > 0) {
        find_tile(*g, plan.cut_tiles - 1, &begin, &blocks);
    }
    g->cut_tiles = plan.cut_tiles;
    for (int b = 0; b <= plan.blocks; ++b) {
        g->cuts[b] = cut_at(*g, plan, begin + blocks, b);
    }
}

static bt_status make_group(const bt_gemm_args *products, int count, const group_plan &chosen,
                            int *turns, group *g)
{
    const variant tile = {
        chosen.how->tile_m, chosen.how->tile_n, true, false, EPILOGUE_F32, NULL, 0, 0};
    const plan whole = {&tile, 1, 1, 0};
    int blocks = 0;
    memset(g, 0, sizeof *g);
    for (int i = 0; i < count; ++i) {
        BT_TRY(make_problem(of, &products[i], whole, NULL, &g->products[i]));
        g->products[i].turn = turns + g->tiles * TURNS_PER_TILE;
        g->first_tile[i] = g->tiles;
        g->first_block[i] = blocks;
        g->tiles += g->products[i].units;
        blocks += g->products[i].units * (int)k_blocks_of(products[i]);
    }
    for (int i = count; i <= GROUP_MOST; ++i) {
        g->first_tile[i] = g->tiles;
        g->first_block[i] = blocks;
    }
    share_out(g, chosen);
    return BT_OK;
}

// ---- launch -------------------------------------------------------------------------------------

size_t group_workspace_of(const bt_gemm_args *products, int count, const group_plan &chosen)
{
    const extent all = extent_of(products, count, *chosen.how);
    return chosen.sharers != chosen.cut_tiles // else no two blocks share a tile
               ? bt_align_256((size_t)all.tiles * TURNS_PER_TILE * sizeof(int))
               : 0;
}

bt_status group_launch_plan(const bt_launch *launch, const bt_gemm_args *products, int count,
                            const group_plan &chosen)
{
    const size_t flags_bytes = group_workspace_of(products, count, chosen);
    cudaStream_t stream = bt_cuda_stream(launch);
    cudaLaunchConfig_t how = {};
    cudaLaunchAttribute attribute = {};
    group g;
    if (flags_bytes > launch->workspace_bytes) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "grouped gemm: expected a workspace of %zu bytes, got %zu", flags_bytes,
                        launch->workspace_bytes);
    }
    BT_TRY(make_group(products, count, chosen, (int *)launch->workspace, &g));
    if (flags_bytes > 0) {
        BT_TRY(bt_cuda_check(cudaMemsetAsync(launch->workspace, 0, flags_bytes, stream), "flags"));
    }
    how.gridDim = dim3((unsigned)chosen.blocks);
    how.blockDim = dim3((unsigned)chosen.how->threads);
    how.dynamicSmemBytes = (size_t)chosen.how->shared_bytes;
    how.stream = stream;
    how.attrs = &attribute;
    if (flags_bytes > 0) { // parts of a tile wait for each other: all blocks must be resident
        attribute.id = cudaLaunchAttributeCooperative;
        attribute.val.cooperative = 1;
        how.numAttrs = 1;
    } else { // programmatic dependent launch: overlaps the end of the previous kernel
        bt_cuda_overlap(launch->device, (const void *)chosen.how->kernel, &how);
    }
    BT_TRY(bt_cuda_check(cudaFuncSetAttribute((const void *)chosen.how->kernel,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              chosen.how->shared_bytes),
                         "grouped gemm"));
    BT_TRY(bt_cuda_check(cudaLaunchKernelEx(&how, chosen.how->kernel, g), "grouped gemm"));
    return bt_cuda_launched("grouped gemm");
}

// Plan `number` of group_plans_of, counted from 1; 0: the best by the model, as 1.
// Errors  INVALID_ARGUMENT (there is no such plan)
static bt_status choose(const bt_gemm_args *products, int count, int processors, int number,
                        group_plan *chosen)
{
    group_plan plans[GROUP_PLANS_MOST];
    const int found = group_plans_of(products, count, processors, plans);
    if (number < 0 || number > found) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "grouped gemm: plan %d of %d is asked for",
                        number, found);
    }
    *chosen = plans[number > 0 ? number - 1 : 0];
    return BT_OK;
}

} // namespace bt_gemm_sm90

using namespace bt_gemm_sm90;

// ---- rows ---------------------------------------------------------------------------------------

bool bt_gemm_grouped_bf16_sm90_accepts(const bt_device *device, const void *call)
{
    const bt_gemm_grouped_args *args = (const bt_gemm_grouped_args *)call;
    const bt_cuda_gemm_choice choice = ((bt_cuda_device *)device->impl)->gemm_choice;
    bool worth_it = choice == BT_CUDA_GEMM_OWN || choice == BT_CUDA_GEMM_AUTO;
    for (int64_t i = 0; i < args->count && choice == BT_CUDA_GEMM_AUTO; ++i) {
        worth_it = worth_it && args->products[i].k <= AUTO_K_MOST;
    }
    return bt_sm90_code_runs(device->info.arch, BT_CUDA_SM90A) && worth_it &&
           group_is_legal(args->products, args->count);
}

size_t bt_gemm_grouped_bf16_sm90_workspace(const bt_device *device, const void *call)
{
    const bt_gemm_grouped_args *args = (const bt_gemm_grouped_args *)call;
    size_t most_bytes = 0;
    for (int64_t i = 0; i < args->count; i += GROUP_MOST) {
        const int count = (int)bt_min_i64(args->count - i, GROUP_MOST);
        group_plan best;
        if (choose(args->products + i, count, device->info.processor_count, 0, &best) == BT_OK) {
            const size_t bytes = group_workspace_of(args->products + i, count, best);
            most_bytes = bytes > most_bytes ? bytes : most_bytes;
        }
    }
    return most_bytes;
}

bt_status bt_gemm_grouped_bf16_sm90(const bt_launch *launch, const void *call)
{
    const bt_gemm_grouped_args *args = (const bt_gemm_grouped_args *)call;
    const int processors = launch->device->info.processor_count;
    for (int64_t i = 0; i < args->count; i += GROUP_MOST) {
        const int count = (int)bt_min_i64(args->count - i, GROUP_MOST);
        group_plan chosen;
        BT_TRY(choose(args->products + i, count, processors, launch->plan, &chosen));
        BT_TRY(group_launch_plan(launch, args->products + i, count, chosen));
    }
    return BT_OK;
}
