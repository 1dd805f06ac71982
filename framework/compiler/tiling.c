// framework/compiler/tiling.c - the feasible tilings of a group's CUDA kernel, ranked by a cost
// model
#include "framework/compiler/tiling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "framework/compiler/emit_cuda_tile.h"

static const bt_gpu_limits known[] = {
    // arch, card, multiprocessors, GB/s, threads, blocks, registers, shared; block; thread
    {80, "A100 80GB", 108, 1529, 2048, 32, 65536, 164 << 10, 1024, BT_CUDA_SHARED_MOST, 255},
    {86, "RTX A6000", 84, 576, 1536, 16, 65536, 100 << 10, 1024, BT_CUDA_SHARED_MOST, 255},
    {87, "Jetson AGX Orin", 16, 153, 1536, 16, 65536, 164 << 10, 1024, BT_CUDA_SHARED_MOST, 255},
    {89, "RTX 6000 Ada", 142, 720, 1536, 24, 65536, 100 << 10, 1024, BT_CUDA_SHARED_MOST, 255},
    {90, "H200", 132, 3600, 2048, 32, 65536, 228 << 10, 1024, BT_CUDA_SHARED_MOST, 255},
};

// Times of the model.
static const double launch_us = 2, memory_us = 0.7, butterfly_us = 0.07, barrier_us = 0.1;

enum {
    FIXED_REGISTERS = 24,    // indices, counters, what the compiler keeps
    ADDRESS_REGISTERS = 2,   // of an operand
    COLUMN_ROWS = 4,         // of a warp whose loads are in flight together (emit_cuda_column.c)
    PRODUCT_REGISTERS = 128, // of a product, whatever its epilogue
    REGISTER_UNIT = 8,       // registers of a thread are allotted in such units
    BLOCK_SHARED_FIXED = 1 << 10 // that the driver takes of each block
};

const bt_gpu_limits *bt_gpu_limits_of(int arch)
{
    const bt_gpu_limits *found = &known[0];
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
        found = known[i].arch <= arch ? &known[i] : found;
    }
    return found;
}

// ---- needs --------------------------------------------------------------------------------------

// 32-bit registers for one element of every vector that is loaded, and for one result of it.
// Integers (indices that are compared) do not stay in registers.
static double element_registers(const bt_fused *g)
{
    double sum = 0, largest = 1;
    for (int i = 0; i < g->code_count; ++i) {
        const bt_fused_instruction *x = &g->code[i];
        const double words = (double)bt_dtype_size(x->dtype) / 4;
        const bool vector = x->extent == BT_FUSED_FULL || x->extent == BT_FUSED_PER_COLUMN;
        sum += x->op == BT_FUSED_LOAD && vector ? words : 0;
        largest = vector && x->dtype == BT_F64 ? words : largest;
    }
    return sum + largest;
}

static int count_reductions(const bt_fused *g)
{
    int count = 0;
    for (int i = 0; i < g->code_count; ++i) {
        count += bt_fused_op_reduces(g->code[i].op) && g->code[i].op != BT_FUSED_COLUMN_SUM;
    }
    return count;
}

static int registers_of(const bt_fused *g, const bt_tiling *t)
{
    const double element = element_registers(g);
    const int fixed = FIXED_REGISTERS + ADDRESS_REGISTERS * g->operand_count;
    if (g->kind == BT_FUSED_PRODUCT) {
        return PRODUCT_REGISTERS;
    }
    if (g->kind == BT_FUSED_COLUMN) { // the totals, up to two registers each
        return fixed +
               (int)ceil(t->lanes * (COLUMN_ROWS * element + 2.0 * bt_cuda_column_sums(g, NULL)));
    }
    return fixed + (int)ceil(t->packs * t->lanes * element);
}

// Bytes of the sums of one column.
static int column_bytes(const bt_fused *g)
{
    int bytes = 0;
    for (int i = 0; i < g->code_count; ++i) {
        const bt_fused_instruction *x = &g->code[i];
        bytes += x->op == BT_FUSED_COLUMN_SUM ? (int)bt_dtype_size(x->order.sum) : 0;
    }
    return bytes;
}

static int shared_of(const bt_fused *g, const bt_tiling *t)
{
    const int row_warps = g->kind == BT_FUSED_ROW ? t->threads / t->rows / BT_CUDA_WARP : 1;
    if (g->kind == BT_FUSED_PRODUCT) {
        return 2 * (BT_TILE_WORDS + t->rows * BT_TILE_PAD_WORDS) * 4; // of A and B
    }
    if (g->kind == BT_FUSED_COLUMN) {
        return column_bytes(g) * t->threads * t->lanes;
    }
    return row_warps > 1 ? count_reductions(g) * row_warps * (int)sizeof(double) : 0;
}

static int smaller(int a, int b) { return a < b ? a : b; }

// Registers that a thread of such a block can have.
static int registers_at_most(const bt_gpu_limits *m, const bt_tiling *t)
{
    const int share = m->registers / t->threads / REGISTER_UNIT * REGISTER_UNIT;
    return smaller(share, m->thread_registers);
}

// Blocks that a multiprocessor holds at once; 0: the block does not fit.
static int resident_of(const bt_gpu_limits *m, const bt_tiling *t)
{
    const int needed = smaller(t->registers, registers_at_most(m, t));
    const int registers = (needed + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
    if (t->threads > m->block_threads || t->shared_bytes > m->block_shared) {
        return 0;
    }
    int most = smaller(m->blocks, m->threads / t->threads);
    most = smaller(most, m->registers / (registers * t->threads));
    return smaller(most, m->shared / (t->shared_bytes + BLOCK_SHARED_FIXED));
}

// ---- cost ---------------------------------------------------------------------------------------

static int64_t outer_elements(const bt_fused *g)
{
    int64_t count = 1;
    for (int i = 0; i + 1 < g->rank; ++i) {
        count *= g->shape[i];
    }
    return count;
}

static int64_t blocks_of(const bt_fused *g, const bt_tiling *t)
{
    const int64_t outer = outer_elements(g), cols = g->shape[g->rank - 1];
    const bt_gemm_args *p = &g->product;
    switch ((int)g->kind) {
    case BT_FUSED_ROW:
        return bt_div_up(outer, t->rows);
    case BT_FUSED_COLUMN:
        return bt_div_up(outer, BT_CUDA_CHUNK) * bt_div_up(cols, (int64_t)BT_CUDA_WARP * t->lanes);
    case BT_FUSED_PRODUCT:
        return p->batch * bt_div_up(p->m, t->rows) * bt_div_up(p->n, t->rows);
    default:
        return bt_div_up(outer * cols, (int64_t)t->threads * t->lanes);
    }
}

static double predict_us(const bt_fused *g, const bt_gpu_limits *m, const bt_tiling *t)
{
    const bool column = g->kind == BT_FUSED_COLUMN, row = g->kind == BT_FUSED_ROW;
    const bool between_warps = column || (row && t->threads / t->rows > BT_CUDA_WARP);
    const double reductions = column ? 1 : row ? count_reductions(g) : 0;
    const double latency = memory_us + reductions * (butterfly_us + between_warps * barrier_us);
    const double bytes =
        (double)bt_fused_bytes(g) + 2 * (double)bt_emit_parts_bytes(g, g->shape[0]);
    const double each_us = bytes / (double)t->blocks / (m->rate_gb_s * 1e3); // of a block
    const int64_t slots = (int64_t)t->resident * m->multiprocessors;
    const int64_t full = t->blocks / slots, rest = t->blocks % slots;
    const double wave_us = fmax(latency, (double)slots * each_us);
    const double rest_us = rest ? fmax(latency, (double)rest * each_us) : 0;
    return (column ? 2 : 1) * launch_us + (double)full * wave_us + rest_us;
}

// ---- enumeration --------------------------------------------------------------------------------

// Do the sums of both have the same order?
static bool same_order(const bt_fused *g, const bt_tiling *a, const bt_tiling *b)
{
    return g->kind == BT_FUSED_ROW      ? a->threads / a->rows == b->threads / b->rows
           : g->kind == BT_FUSED_COLUMN ? a->threads == b->threads
                                        : true;
}

static void add(const bt_fused *g, const bt_gpu_limits *m, const bt_tiling *rule, bt_tiling t,
                bt_tilings *out)
{
    const bool narrow = g->kind == BT_FUSED_COLUMN && t.rows < t.lanes; // has a thread per column
    t.registers = registers_of(g, &t);
    t.shared_bytes = shared_of(g, &t);
    t.resident = resident_of(m, &t);
    t.is_rule = t.threads == rule->threads && t.rows == rule->rows;
    t.keeps_bits = same_order(g, &t, rule);
    t.may_spill = t.registers > registers_at_most(m, &t);
    if (t.resident == 0 || (t.may_spill && !t.is_rule) || t.packs > BT_CUDA_PACKS_MOST || narrow ||
        out->count == BT_TILINGS_MOST) {
        out->infeasible += 1;
        return;
    }
    t.blocks = blocks_of(g, &t);
    t.time_us = predict_us(g, m, &t);
    out->items[out->count++] = t;
}

static void add_rows(const bt_fused *g, const bt_gpu_limits *m, const bt_tiling *rule,
                     bt_tilings *out)
{
    static const int widths[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
    const int64_t cols = g->shape[g->rank - 1];
    for (size_t i = 0; i < sizeof widths / sizeof *widths; ++i) {
        const int64_t span = (int64_t)widths[i] * rule->lanes;
        bt_tiling t = {.lanes = rule->lanes, .packs = (int)bt_div_up(cols, span)};
        // Rows share a block only if a warp has a row: else a barrier would be for all of them.
        for (int rows = 1; rows <= (widths[i] == BT_CUDA_WARP ? 8 : 1); rows *= 2) {
            t.rows = rows;
            t.threads = widths[i] * rows;
            add(g, m, rule, t, out);
        }
    }
}

static void add_all(const bt_fused *g, const bt_gpu_limits *m, const bt_tiling *rule,
                    bt_tilings *out)
{
    bt_tiling t = {.lanes = rule->lanes, .packs = 1};
    if (g->kind == BT_FUSED_ROW) {
        add_rows(g, m, rule, out);
    } else if (g->kind == BT_FUSED_COLUMN) {
        for (t.rows = 4; t.rows <= 32; t.rows *= 2) {
            t.threads = t.rows * BT_CUDA_WARP;
            add(g, m, rule, t, out);
        }
    } else if (g->kind == BT_FUSED_PRODUCT) {
        t.threads = bt_cuda_product_threads();
        for (t.rows = 32; t.rows <= 64; t.rows *= 2) {
            add(g, m, rule, t, out);
        }
    } else {
        for (t.threads = 32; t.threads <= 1024; t.threads *= 2) {
            add(g, m, rule, t, out);
        }
    }
}

static int by_time(const void *left, const void *right)
{
    const bt_tiling *a = left, *b = right;
    if (a->time_us < b->time_us || a->time_us > b->time_us) {
        return a->time_us < b->time_us ? -1 : 1;
    }
    return a->is_rule != b->is_rule ? (a->is_rule ? -1 : 1) : a->threads - b->threads;
}

static bt_tiling tiling_of_rule(const bt_fused *g)
{
    bt_emitted_cuda rule;
    bt_emit_cuda_rule(g, &rule);
    const int64_t width = g->kind == BT_FUSED_COLUMN ? BT_CUDA_WARP : rule.threads;
    bt_tiling out = {.threads = rule.threads};
    out.rows = g->kind == BT_FUSED_ROW       ? (int)rule.block_rows
               : g->kind == BT_FUSED_COLUMN  ? rule.threads / BT_CUDA_WARP
               : g->kind == BT_FUSED_PRODUCT ? (int)rule.tile_side
                                             : 0;
    out.lanes =
        (int)((g->kind == BT_FUSED_COLUMN ? rule.tile_columns : rule.block_elements) / width);
    return out;
}

// The rule's, or the first one that may replace it and is faster by more than the margin.
static int choose(const bt_fused *g, const bt_tilings *all)
{
    int rule = all->count - 1, best = 0;
    while (rule >= 0 && !all->items[rule].is_rule) {
        --rule;
    }
    while (best < rule && g->dynamic_rows && !all->items[best].keeps_bits) {
        ++best;
    }
    return rule >= 0 && all->items[best].time_us < all->items[rule].time_us * (1 - BT_TILING_MARGIN)
               ? best
               : rule;
}

static void list(const bt_fused *g, const bt_gpu_limits *m, bt_tilings *out)
{
    const bt_tiling rule = tiling_of_rule(g);
    *out = (bt_tilings){.count = 0};
    add_all(g, m, &rule, out);
    qsort(out->items, (size_t)out->count, sizeof *out->items, by_time);
    out->taken = choose(g, out);
}

bt_status bt_tilings_find(const bt_fused *group, const bt_gpu_limits *limits, bt_tilings *out)
{
    bt_emitted_cuda emitted;
    *out = (bt_tilings){.taken = -1};
    const bt_status status = bt_emit_cuda(group, NULL, false, &emitted);
    bt_str_release(&emitted.text);
    BT_TRY(status);
    list(group, limits, out);
    return BT_OK;
}

static const bt_gpu_limits *limits_of(const bt_target *target)
{
    return bt_gpu_limits_of(atoi(target->processor + strlen("sm_")));
}

bt_status bt_tilings_emit(const bt_target *target, const bt_fused *group, bt_emitted_cuda *out)
{
    bt_tilings all = {.taken = -1};
    bt_cuda_tiling tiling = {0};
    if (!bt_emit_cuda_refuses(group)) {
        list(group, limits_of(target), &all);
    }
    const bt_tiling *taken = all.taken >= 0 ? &all.items[all.taken] : NULL;
    if (taken) {
        tiling = (bt_cuda_tiling){taken->threads, taken->rows};
    }
    return bt_emit_cuda(group, taken && !taken->is_rule ? &tiling : NULL, target->has_early_launch,
                        out);
}

// ---- text ---------------------------------------------------------------------------------------

static void print_tiling(const bt_gpu_limits *m, const bt_tiling *t, bool taken, bt_str *out)
{
    const double waves = (double)t->blocks / ((double)t->resident * m->multiprocessors);
    bt_str_format(out, "  %9.2f  %7d  %4d  %5d  %5d  %9d  %6d  %8d  %8lld  %7.2f%s%s%s\n",
                  t->time_us, t->threads, t->rows, t->packs, t->lanes, t->registers,
                  t->shared_bytes, t->resident, (long long)t->blocks, waves, taken ? "  taken" : "",
                  t->is_rule && !taken ? "  the rule's" : "",
                  t->may_spill ? ", may spill registers" : "");
}

// Why the tiling is taken.
static void print_reason(const bt_fused *group, const bt_tilings *all, bt_str *out)
{
    const bt_tiling *taken = &all->items[all->taken], *fastest = &all->items[0], *rule = fastest;
    if (!taken->is_rule) {
        while (!rule->is_rule) {
            ++rule;
        }
        bt_str_format(out, "  taken: predicted to take %.0f %% less time than the rule's\n",
                      100 * (1 - taken->time_us / rule->time_us));
    } else if (group->dynamic_rows && !fastest->keeps_bits &&
               fastest->time_us < taken->time_us * (1 - BT_TILING_MARGIN)) {
        bt_str_format(out,
                      "  taken: the rule's; %d threads would sum in another order, and the order "
                      "must be the same for any number of rows\n",
                      fastest->threads);
    } else {
        bt_str_format(
            out, "  taken: the rule's; no tiling is predicted to be more than %.0f %% faster\n",
            100 * BT_TILING_MARGIN);
    }
}

static const char *unit_of_rows(bt_fused_kind kind)
{
    return kind == BT_FUSED_COLUMN ? "warps" : kind == BT_FUSED_PRODUCT ? "side" : "rows";
}

bt_status bt_tilings_print(const bt_target *target, const bt_fused *group, int number, bt_str *out)
{
    bt_tilings all;
    if (target->kind != BT_TARGET_CUDA) {
        return BT_OK;
    }
    const bt_gpu_limits *m = limits_of(target);
    const bt_status status = bt_tilings_find(group, m, &all);
    if (status == BT_STATUS_UNSUPPORTED) {
        bt_str_format(out, "tilings of group %d: none: %s\n", number, bt_error_message());
        bt_error_clear();
        return bt_str_status(out);
    }
    BT_TRY(status);
    bt_str_format(out, "tilings of group %d, %s: %d fit, %d do not; predicted for an %s\n", number,
                  bt_fused_kind_text(group->kind), all.count, all.infeasible, m->card);
    bt_str_format(out, "  %9s  %7s  %4s  %5s  %5s  %9s  %6s  %8s  %8s  %7s\n", "us", "threads",
                  unit_of_rows(group->kind), "packs", "lanes", "registers", "shared", "resident",
                  "blocks", "waves");
    for (int i = 0; i < all.count; ++i) {
        print_tiling(m, &all.items[i], i == all.taken, out);
    }
    if (all.taken >= 0) {
        print_reason(group, &all, out);
    }
    return bt_str_status(out);
}
