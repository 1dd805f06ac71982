// framework/compiler/emit_reduce.c - the CPU's emitter: reductions in their specified order
//
// Reductions of one phase and one order share a pass over the row; the first pass of a phase also
// executes its stores. The row's length is known, so the text has a loop over whole blocks and
// unrolled code for the remainder.
#include <math.h>

#include "framework/compiler/emit_cpu.h"

enum { REDUCTIONS_MOST = 16, USUAL_BLOCK = 16 };

// Reductions that share a pass.
typedef struct walk {
    int count, at[REDUCTIONS_MOST]; // instructions
    int64_t block;                  // vectors of a part; 0: no parts
    bool tail, stores;              // stores: this pass executes the phase's stores
} walk;

static bt_fused_order order_of(const bt_emitter *e, int i)
{
    const bt_fused_instruction *x = &e->group->code[i];
    bt_fused_order order = x->order;
    if (x->op == BT_FUSED_ROW_MAX) {
        return (bt_fused_order){.lanes = e->lanes, .part = x->dtype, .sum = x->dtype};
    }
    if (order.lanes == 0) {
        order = (bt_fused_order){.lanes = e->lanes, .part = x->dtype, .sum = BT_F64};
        order.block = x->op == BT_FUSED_COLUMN_SUM ? 0 : USUAL_BLOCK;
    }
    return order;
}

static bt_ir_type part_type(const bt_emitter *e, int i)
{
    return bt_ir_make(bt_ir_kind_of(&e->ir, order_of(e, i).part), e->lanes);
}

bt_ir_type bt_emit_sum_type(const bt_emitter *e, int i)
{
    return bt_ir_make(bt_ir_kind_of(&e->ir, order_of(e, i).sum), e->lanes);
}

static int initial(bt_emitter *e, int i, bt_ir_type type)
{
    return bt_ir_float(&e->ir, type,
                       e->group->code[i].op == BT_FUSED_ROW_MAX ? (double)-INFINITY : 0);
}

// An argument of reduction i, as `type`; masked lanes are `neutral`.
static int term(bt_emitter *e, int i, int use, bt_dtype to, bt_ir_type type, double neutral)
{
    const bt_dtype from = e->group->code[i].dtype;
    const int value = bt_ir_cast(&e->ir, from, to, e->lanes, bt_emit_use(e, use, e->lanes));
    if (e->mask == BT_EMIT_NONE) {
        return value;
    }
    return bt_ir_select(&e->ir, type, e->mask, value, bt_ir_float(&e->ir, type, neutral));
}

static int add_term(bt_emitter *e, int i, bool to_part, int sum)
{
    const bt_fused_instruction *x = &e->group->code[i];
    const bt_fused_order order = order_of(e, i);
    const bt_dtype dtype = to_part ? order.part : order.sum;
    const bt_ir_type type = bt_ir_make(bt_ir_kind_of(&e->ir, dtype), e->lanes);
    const double neutral = x->op == BT_FUSED_ROW_MAX ? (double)-INFINITY : 0;
    const int a = term(e, i, x->a, dtype, type, neutral);
    if (x->op == BT_FUSED_ROW_MAX) {
        return bt_ir_select(&e->ir, type, bt_ir_compare(&e->ir, "cmpf ogt", type, a, sum), a, sum);
    }
    if (x->op == BT_FUSED_ROW_DOT) {
        return bt_ir_fma(&e->ir, type, a, term(e, i, x->b, dtype, type, 0), sum);
    }
    return bt_ir_two(&e->ir, "arith.addf", type, sum, a);
}

// The reductions' next accumulators at one place of the row.
static void step(bt_emitter *e, const walk *w, bool to_part, const int *in, int *out)
{
    bt_emit_forget(e);
    for (int k = 0; k < w->count; ++k) {
        out[k] = add_term(e, w->at[k], to_part, in[k]);
    }
    if (w->stores) {
        bt_emit_save(e, e->phase);
        bt_emit_stores(e, e->phase);
    }
}

static int constant(bt_emitter *e, int64_t value)
{
    return bt_ir_int(&e->ir, bt_emit_i64(), value);
}

// "%a, %b = scf.for %c = from to to step step iter_args(...)": writes the names of results to out
// and of arguments to in; returns the place.
static int loop_begin(bt_emitter *e, const walk *w, bool parts, int from, int to, int64_t by,
                      const int *init, int *in, int *out)
{
    const int stride = constant(e, by);
    bt_ir *ir = &e->ir;
    bt_str line = {0};
    for (int k = 0; k < w->count; ++k) {
        out[k] = ir->next++;
        bt_str_format(&line, "%s%%v%d", k ? ", " : "", out[k]);
    }
    const int at = ir->next++;
    bt_str_format(&line, "%sscf.for %%v%d = %%v%d to %%v%d step %%v%d", w->count ? " = " : "", at,
                  from, to, stride);
    for (int k = 0; k < w->count; ++k) {
        in[k] = ir->next++;
        bt_str_format(&line, "%s%%v%d = %%v%d", k ? ", " : " iter_args(", in[k], init[k]);
    }
    for (int k = 0; k < w->count; ++k) {
        const bt_ir_type type = parts ? part_type(e, w->at[k]) : bt_emit_sum_type(e, w->at[k]);
        bt_str_format(&line, "%s%s", k ? ", " : ") -> (", bt_ir_type_name(type).text);
    }
    bt_ir_line(ir, "%s%s : i64 {", bt_str_text(&line), w->count ? ")" : "");
    bt_ir_keep_failure(ir, &line);
    bt_str_release(&line);
    ++ir->depth;
    return at;
}

static void loop_end(bt_emitter *e, const walk *w, bool parts, const int *values)
{
    bt_str line = {0};
    for (int k = 0; k < w->count; ++k) {
        bt_str_format(&line, "%s%%v%d", k ? ", " : "scf.yield ", values[k]);
    }
    for (int k = 0; k < w->count; ++k) {
        const bt_ir_type type = parts ? part_type(e, w->at[k]) : bt_emit_sum_type(e, w->at[k]);
        bt_str_format(&line, "%s%s", k ? ", " : " : ", bt_ir_type_name(type).text);
    }
    if (w->count) {
        bt_ir_line(&e->ir, "%s", bt_str_text(&line));
    }
    bt_ir_keep_failure(&e->ir, &line);
    bt_str_release(&line);
    --e->ir.depth;
    bt_ir_line(&e->ir, "}");
    bt_emit_forget(e);
}

// Whole vectors of columns [from, to); values is in and out.
static void vectors(bt_emitter *e, const walk *w, bool parts, int from, int to, int *values)
{
    int in[REDUCTIONS_MOST], out[REDUCTIONS_MOST], next[REDUCTIONS_MOST];
    e->column = loop_begin(e, w, parts, from, to, e->lanes, values, in, out);
    e->mask = BT_EMIT_NONE;
    step(e, w, parts, in, next);
    loop_end(e, w, parts, next);
    for (int k = 0; k < w->count; ++k) {
        values[k] = out[k];
    }
}

static void begin_parts(bt_emitter *e, const walk *w, int *parts)
{
    for (int k = 0; k < w->count; ++k) {
        parts[k] = bt_ir_float(&e->ir, part_type(e, w->at[k]), 0);
    }
}

static void add_parts(bt_emitter *e, const walk *w, const int *parts, int *sums)
{
    for (int k = 0; k < w->count; ++k) {
        const bt_fused_order order = order_of(e, w->at[k]);
        const int wide = bt_ir_cast(&e->ir, order.part, order.sum, e->lanes, parts[k]);
        sums[k] = bt_ir_two(&e->ir, "arith.addf", bt_emit_sum_type(e, w->at[k]), sums[k], wide);
    }
}

// Whole blocks; returns the first column after them.
static int64_t whole_blocks(bt_emitter *e, const walk *w, int64_t cols, int *sums)
{
    const int64_t size = w->block * e->lanes, end = cols / size * size;
    int in[REDUCTIONS_MOST], out[REDUCTIONS_MOST], parts[REDUCTIONS_MOST];
    if (end == 0) {
        return 0;
    }
    const int at = loop_begin(e, w, false, constant(e, 0), constant(e, end), size, sums, in, out);
    const int to = bt_ir_two(&e->ir, "arith.addi", bt_emit_i64(), at, constant(e, size));
    begin_parts(e, w, parts);
    vectors(e, w, true, at, to, parts);
    add_parts(e, w, parts, in);
    loop_end(e, w, false, in);
    for (int k = 0; k < w->count; ++k) {
        sums[k] = out[k];
    }
    return end;
}

static void masked(bt_emitter *e, const walk *w, bool to_part, int64_t at, int64_t cols,
                   int *values)
{
    int next[REDUCTIONS_MOST];
    bt_emit_mask(e, constant(e, at), constant(e, cols));
    step(e, w, to_part, values, next);
    for (int k = 0; k < w->count; ++k) {
        values[k] = next[k];
    }
    bt_emit_forget(e);
}

static void walk_row(bt_emitter *e, const walk *w, int64_t cols)
{
    int sums[REDUCTIONS_MOST], parts[REDUCTIONS_MOST];
    for (int k = 0; k < w->count; ++k) {
        sums[k] = initial(e, w->at[k], bt_emit_sum_type(e, w->at[k]));
    }
    int64_t at = w->block ? whole_blocks(e, w, cols, sums) : 0;
    const int64_t end = cols / e->lanes * e->lanes;
    const bool odd_part = end < cols && w->block && !w->tail;
    int *values = w->block ? parts : sums;
    if (w->block && (at < end || odd_part)) {
        begin_parts(e, w, parts);
    }
    if (at < end) {
        vectors(e, w, w->block != 0, constant(e, at), constant(e, end), values);
    }
    if (odd_part) {
        masked(e, w, true, end, cols, parts);
    }
    if (w->block && (at < end || odd_part)) {
        add_parts(e, w, parts, sums);
    }
    if (end < cols && !odd_part) {
        masked(e, w, false, end, cols, sums);
    }
    for (int k = 0; k < w->count; ++k) {
        parts[k] = sums[k];
    }
    for (int k = 0; k < w->count; ++k) { // lanes, by halves
        const int i = w->at[k];
        const bt_fused_order order = order_of(e, i);
        const bool is_max = e->group->code[i].op == BT_FUSED_ROW_MAX;
        int value = sums[k];
        for (int lanes = e->lanes / 2; lanes >= 1; lanes /= 2) {
            const bt_ir_type from = bt_ir_make(bt_ir_kind_of(&e->ir, order.sum), 2 * lanes);
            const bt_ir_type type = bt_ir_make(from.kind, lanes > 1 ? lanes : 0);
            const int low = lanes > 1 ? bt_ir_slice(&e->ir, from, value, 0, lanes)
                                      : bt_ir_extract(&e->ir, from, value, 0);
            const int high = lanes > 1 ? bt_ir_slice(&e->ir, from, value, lanes, lanes)
                                       : bt_ir_extract(&e->ir, from, value, 1);
            value =
                is_max ? bt_ir_select(&e->ir, type,
                                      bt_ir_compare(&e->ir, "cmpf ogt", type, high, low), high, low)
                       : bt_ir_two(&e->ir, "arith.addf", type, low, high);
        }
        e->row_value[i] = bt_ir_cast(&e->ir, order.sum, e->group->code[i].dtype, 0, value);
    }
}

static bool is_row_reduction(bt_fused_op op)
{
    return bt_fused_op_reduces(op) && op != BT_FUSED_COLUMN_SUM;
}

// Adds to the pass the reductions that can share it with instruction `first`.
static void gather(bt_emitter *e, int first, int phase, bool *done, walk *w)
{
    const bt_fused_order order = order_of(e, first);
    w->block = order.block;
    w->tail = order.tail;
    for (int i = first; i < e->group->code_count; ++i) {
        const bt_fused_instruction *x = &e->group->code[i];
        if (!is_row_reduction(x->op) || e->ready[i] != phase + 1 || done[i]) {
            continue;
        }
        const bt_fused_order other = order_of(e, i);
        const bool floats = (other.part == BT_F32 || other.part == BT_F64) &&
                            (other.sum == BT_F32 || other.sum == BT_F64);
        if (other.lanes != e->lanes || !floats) {
            bt_emit_fail(e, i, "its order");
        } else if (other.block == w->block && other.tail == w->tail && w->count < REDUCTIONS_MOST) {
            w->at[w->count++] = i;
            done[i] = true;
        }
    }
}

static bool stores_anything(const bt_emitter *e, int phase)
{
    for (int i = 0; i < e->group->code_count; ++i) {
        if (e->ready[i] == phase && (e->kept[i] || bt_emit_is_store(e->group->code[i].op))) {
            return true;
        }
    }
    return false;
}

void bt_emit_row_phase(bt_emitter *e, int phase, int64_t cols)
{
    bool done[BT_FUSED_CODE_MOST] = {false};
    bool stores = stores_anything(e, phase);
    e->phase = phase;
    for (int i = 0; i < e->group->code_count && e->ir.out.status == BT_OK; ++i) {
        walk w = {.stores = stores};
        if (is_row_reduction(e->group->code[i].op) && e->ready[i] == phase + 1 && !done[i]) {
            gather(e, i, phase, done, &w);
            if (e->ir.out.status == BT_OK) {
                walk_row(e, &w, cols);
            }
            stores = false;
        }
    }
    if (stores && e->ir.out.status == BT_OK) {
        const walk w = {.stores = true};
        walk_row(e, &w, cols);
    }
}

int bt_emit_column_start(bt_emitter *e, int i)
{
    const bt_fused_order order = e->group->code[i].order;
    if (order.lanes > 1 || (order.lanes == 1 && order.block)) {
        bt_emit_fail(e, i, "its order");
    }
    return initial(e, i, bt_emit_sum_type(e, i));
}

int bt_emit_column_add(bt_emitter *e, int i, int sum) { return add_term(e, i, false, sum); }

int bt_emit_column_end(bt_emitter *e, int i, int sum)
{
    return bt_ir_cast(&e->ir, order_of(e, i).sum, e->group->code[i].dtype, e->lanes, sum);
}
