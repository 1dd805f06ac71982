// framework/compiler/emit_cpu.c - the CPU's emitter: functions, tasks, loops
#include "framework/compiler/emit_cpu.h"
#include "framework/compiler/emit_math.h"

#include <string.h>

#include "framework/base/mem.h"

enum {
    TASK_ELEMENTS = 16384, // of an elementwise task, as BT_CHUNK
    ELEMENT_LANES = 16,
    ROW_LANES = 32,
    COLUMN_LANES = 64,
    KEEP_ABOVE = 6,  // cost from which a value is stored for later phases instead of recomputed
    COST_MOST = 1000 // so that sums do not overflow
};

static int own_cost(const bt_fused_instruction *x)
{
    const bool cheap = x->function == BT_UNARY_RELU || x->function >= BT_UNARY_NEGATE;
    switch ((int)x->op) {
    case BT_FUSED_CONST:
        return 0;
    case BT_FUSED_UNARY:
    case BT_FUSED_SLOPE:
        return cheap ? 1 : 20;
    case BT_FUSED_DIV:
        return 8;
    default:
        return 1;
    }
}

static void set_phases(bt_emitter *e)
{
    const bt_fused *g = e->group;
    for (int i = 0; i < g->code_count; ++i) {
        const bt_fused_instruction *x = &g->code[i];
        int uses[3];
        const int count = bt_emit_uses(x, uses);
        int ready = 0;
        for (int k = 0; k < count; ++k) {
            ready = e->ready[uses[k]] > ready ? e->ready[uses[k]] : ready;
        }
        e->ready[i] = ready + bt_fused_op_reduces(x->op);
        e->phases = e->ready[i] + 1 > e->phases ? e->ready[i] + 1 : e->phases;
    }
}

// Selects the vectors to store in scratch: those that a later phase needs and that cost more than
// reading them back, and loads of memory that the group overwrites. needs[i]: bit p: phase p needs
// i.
static void set_kept(bt_emitter *e, int64_t cols)
{
    const bt_fused *g = e->group;
    uint64_t needs[BT_FUSED_CODE_MOST] = {0};
    int cost[BT_FUSED_CODE_MOST] = {0};
    const int64_t padded = (cols + ROW_LANES - 1) / ROW_LANES * ROW_LANES;
    for (int i = 0; i < g->code_count; ++i) {
        const bt_fused_instruction *x = &g->code[i];
        int uses[3];
        const int count = bt_emit_uses(x, uses);
        cost[i] = own_cost(x);
        for (int k = 0; k < count; ++k) {
            cost[i] += bt_emit_is_scalar(e, uses[k]) ? 0 : cost[uses[k]];
        }
        cost[i] = cost[i] < COST_MOST ? cost[i] : COST_MOST;
    }
    for (int i = g->code_count - 1; i >= 0; --i) {
        const bt_fused_instruction *x = &g->code[i];
        int uses[3];
        const int count = bt_emit_uses(x, uses);
        const uint64_t now = (uint64_t)1 << (e->ready[i] & 63);
        const bool reduces = bt_fused_op_reduces(x->op);
        if (bt_emit_is_store(x->op)) {
            needs[i] = now;
        } else if (reduces) {
            needs[i] = now >> 1;
        } else if (bt_emit_is_scalar(e, i)) {
            continue;
        } else if (needs[i] & ~(2 * now - 1)) { // a later phase
            const bool overwritten = x->op == BT_FUSED_LOAD && g->operands[x->operand].is_written;
            e->kept[i] = overwritten || cost[i] > KEEP_ABOVE;
        }
        if (e->kept[i]) {
            needs[i] = now;
            e->kept_bytes[i] = e->scratch_bytes;
            e->scratch_bytes += (padded * (int64_t)bt_dtype_size(x->dtype) + 63) / 64 * 64;
        }
        for (int k = 0; k < count; ++k) {
            needs[uses[k]] |= needs[i];
        }
    }
}

// ---- pieces of a function -----------------------------------------------------------------------

static int constant(bt_emitter *e, int64_t value)
{
    return bt_ir_int(&e->ir, bt_emit_i64(), value);
}

static int i64(bt_emitter *e, const char *op, int a, int b)
{
    return bt_ir_two(&e->ir, op, bt_emit_i64(), a, b);
}

static void load_pointers(bt_emitter *e)
{
    for (int k = 0; k < e->group->operand_count; ++k) {
        const int at = bt_ir_begin(&e->ir);
        bt_ir_rest(&e->ir,
                   "llvm.getelementptr inbounds %%v0[%d] : (!llvm.ptr) -> !llvm.ptr, "
                   "!llvm.ptr",
                   k);
        e->pointer[k] = bt_ir_begin(&e->ir);
        bt_ir_rest(&e->ir, "llvm.load %%v%d : !llvm.ptr -> !llvm.ptr", at);
    }
}

// Sets axis_index and offset for a row, the row-major number over all axes but the last; row NONE:
// all zero. Clears the scalars of the previous row.
static void enter_row(bt_emitter *e, int row)
{
    const bt_fused *g = e->group;
    int rest = row;
    e->row = row == BT_EMIT_NONE ? constant(e, 0) : row;
    for (int i = g->rank - 2; i >= 0 && row != BT_EMIT_NONE; --i) {
        const int size = i ? constant(e, g->shape[i]) : BT_EMIT_NONE;
        e->axis_index[i] = i ? i64(e, "arith.remui", rest, size) : rest;
        rest = i ? i64(e, "arith.divui", rest, size) : rest;
    }
    for (int k = 0; k < g->operand_count; ++k) {
        int offset = constant(e, 0);
        for (int i = 0; i + 1 < g->rank && row != BT_EMIT_NONE; ++i) {
            if (g->operands[k].stride[i]) {
                offset = i64(
                    e, "arith.addi", offset,
                    i64(e, "arith.muli", e->axis_index[i], constant(e, g->operands[k].stride[i])));
            }
        }
        e->offset[k] = offset;
    }
    for (int i = 0; i < g->code_count; ++i) {
        e->row_value[i] = BT_EMIT_NONE;
    }
    bt_emit_forget(e);
}

static int for_begin(bt_emitter *e, int from, int to, int step)
{
    const int at = e->ir.next++;
    bt_ir_line(&e->ir, "scf.for %%v%d = %%v%d to %%v%d step %%v%d : i64 {", at, from, to, step);
    ++e->ir.depth;
    return at;
}

static void region_end(bt_emitter *e, const char *text)
{
    --e->ir.depth;
    bt_ir_line(&e->ir, "%s", text);
    bt_emit_forget(e);
}

// ---- the kinds ----------------------------------------------------------------------------------

static void elementwise_task(bt_emitter *e, int task, int64_t task_elements)
{
    const bt_fused *g = e->group;
    const int64_t cols = g->shape[g->rank - 1];
    const bool flat = g->rank == 1;
    const int chunks = constant(e, (cols + task_elements - 1) / task_elements);
    const int all = flat && g->dynamic_rows ? e->rows : constant(e, cols);
    const int chunk = flat ? task : i64(e, "arith.remui", task, chunks);
    enter_row(e, flat ? BT_EMIT_NONE : i64(e, "arith.divui", task, chunks));
    const int from = i64(e, "arith.muli", chunk, constant(e, task_elements));
    const int to =
        i64(e, "arith.minui", all, i64(e, "arith.addi", from, constant(e, task_elements)));
    const int lanes = constant(e, e->lanes);
    const int odd = i64(e, "arith.remui", i64(e, "arith.subi", to, from), lanes);
    const int whole = i64(e, "arith.subi", to, odd);
    e->phase = 0;
    bt_emit_row_values(e, 0);
    e->column = for_begin(e, from, whole, lanes);
    e->mask = BT_EMIT_NONE;
    bt_emit_stores(e, 0);
    region_end(e, "}");
    const int rest = bt_ir_compare(&e->ir, "cmpi ult", bt_emit_i64(), whole, to);
    bt_ir_line(&e->ir, "scf.if %%v%d {", rest);
    ++e->ir.depth;
    bt_emit_mask(e, whole, to);
    bt_emit_stores(e, 0);
    region_end(e, "}");
}

static void row_task(bt_emitter *e, int task)
{
    const bt_fused *g = e->group;
    enter_row(e, g->rank == 1 ? BT_EMIT_NONE : task);
    for (int phase = 0; phase < e->phases; ++phase) {
        e->phase = phase;
        bt_emit_row_values(e, phase);
        bt_emit_row_phase(e, phase, g->shape[g->rank - 1]);
    }
}

// One pass over the rows, which adds to every column sum and executes the single-element stores.
static void walk_rows(bt_emitter *e, int *sums, const int *at, int count)
{
    const bt_fused *g = e->group;
    int in[BT_FUSED_OPERANDS_MOST], out[BT_FUSED_OPERANDS_MOST];
    int rows = g->dynamic_rows ? e->rows : constant(e, g->shape[0]);
    for (int i = 1; i + 1 < g->rank; ++i) {
        rows = i64(e, "arith.muli", rows, constant(e, g->shape[i]));
    }
    const int zero = constant(e, 0), one = constant(e, 1);
    const int column = e->column, mask = e->mask;
    bt_str line = {0};
    for (int k = 0; k < count; ++k) {
        out[k] = e->ir.next++;
        bt_str_format(&line, "%s%%v%d", k ? ", " : "", out[k]);
    }
    const int row = e->ir.next++;
    bt_str_format(&line, " = scf.for %%v%d = %%v%d to %%v%d step %%v%d", row, zero, rows, one);
    for (int k = 0; k < count; ++k) {
        in[k] = e->ir.next++;
        bt_str_format(&line, "%s%%v%d = %%v%d", k ? ", " : " iter_args(", in[k], sums[k]);
    }
    for (int k = 0; k < count; ++k) {
        bt_str_format(&line, "%s%s", k ? ", " : ") -> (",
                      bt_ir_type_name(bt_emit_sum_type(e, at[k])).text);
    }
    bt_ir_line(&e->ir, "%s) : i64 {", bt_str_text(&line));
    ++e->ir.depth;
    bt_ir_keep_failure(&e->ir, &line);
    bt_str_clear(&line);
    enter_row(e, row);
    e->column = column, e->mask = mask;
    bt_emit_row_values(e, 0);
    for (int k = 0; k < count; ++k) {
        const int next = bt_emit_column_add(e, at[k], in[k]);
        bt_str_format(&line, "%s%%v%d", k ? ", " : "scf.yield ", next);
        sums[k] = out[k];
    }
    bt_emit_stores(e, 0);
    for (int k = 0; k < count; ++k) {
        bt_str_format(&line, "%s%s", k ? ", " : " : ",
                      bt_ir_type_name(bt_emit_sum_type(e, at[k])).text);
    }
    bt_ir_line(&e->ir, "%s", bt_str_text(&line));
    bt_ir_keep_failure(&e->ir, &line);
    bt_str_release(&line);
    region_end(e, "}");
}

// The columns from e->column on, under e->mask.
static void column_block(bt_emitter *e)
{
    const bt_fused *g = e->group;
    int at[BT_FUSED_OPERANDS_MOST], sums[BT_FUSED_OPERANDS_MOST], count = 0;
    for (int i = 0; i < g->code_count; ++i) {
        if (g->code[i].op == BT_FUSED_COLUMN_SUM && count < BT_FUSED_OPERANDS_MOST) {
            at[count] = i;
            sums[count++] = bt_emit_column_start(e, i);
        }
    }
    e->phase = 0;
    walk_rows(e, sums, at, count);
    enter_row(e, BT_EMIT_NONE);
    for (int k = 0; k < count; ++k) {
        e->loop_value[at[k]] = bt_emit_column_end(e, at[k], sums[k]);
    }
    e->phase = 1;
    bt_emit_row_values(e, 1);
    bt_emit_stores(e, 1);
    bt_emit_forget(e);
}

static void column_task(bt_emitter *e, int task)
{
    const int64_t cols = e->group->shape[e->group->rank - 1];
    const int column = i64(e, "arith.muli", task, constant(e, COLUMN_LANES));
    e->column = column;
    e->mask = BT_EMIT_NONE;
    if (cols % COLUMN_LANES == 0) {
        column_block(e);
        return;
    }
    const int last = constant(e, cols / COLUMN_LANES);
    const int whole = bt_ir_compare(&e->ir, "cmpi ult", bt_emit_i64(), task, last);
    bt_ir_line(&e->ir, "scf.if %%v%d {", whole);
    ++e->ir.depth;
    column_block(e);
    region_end(e, "} else {");
    ++e->ir.depth;
    bt_emit_mask(e, column, constant(e, cols));
    column_block(e);
    region_end(e, "}");
}

// ---- the text -----------------------------------------------------------------------------------

static void function(bt_emitter *e, const char *name, int64_t task_elements)
{
    e->ir.next = 0;
    e->ir.depth = 1;
    bt_str_format(&e->ir.out,
                  "func.func @%s(%%v0: !llvm.ptr, %%v1: i64, %%v2: i64, %%v3: i64, %%v4: "
                  "!llvm.ptr) {\n",
                  name);
    e->rows = 1, e->begin = 2, e->end = 3, e->scratch = 4, e->ir.next = 5;
    load_pointers(e);
    const int one = constant(e, 1);
    const int task = for_begin(e, e->begin, e->end, one);
    if (e->group->kind == BT_FUSED_ELEMENTWISE || e->group->kind == BT_FUSED_PRODUCT) {
        elementwise_task(e, task, task_elements);
    } else if (e->group->kind == BT_FUSED_ROW) {
        row_task(e, task);
    } else {
        column_task(e, task);
    }
    region_end(e, "}");
    bt_ir_line(&e->ir, "return");
    bt_str_append(&e->ir.out, "}\n");
}

// Can every element be written by non-temporal stores of whole cache lines?
static bool may_go_past(const bt_fused *g)
{
    for (int i = 0; i < g->code_count; ++i) {
        const bt_fused_instruction *x = &g->code[i];
        if (!bt_emit_is_store(x->op)) {
            continue;
        }
        const bt_fused_operand *o = &g->operands[x->operand];
        const int64_t inner = o->stride[g->rank - 1], size = (int64_t)bt_dtype_size(o->dtype);
        if (inner == 0) {
            continue; // one per row: a plain store
        }
        if (inner != 1 || x->op == BT_FUSED_STORE_ADD || o->is_read) {
            return false;
        }
        for (int k = 0; k + 1 < g->rank; ++k) {
            if (o->stride[k] * size % 64 != 0) {
                return false;
            }
        }
    }
    return g->kind != BT_FUSED_COLUMN;
}

static bt_status check_kind(const bt_emitter *e)
{
    const bt_fused *g = e->group;
    if (g->kind > BT_FUSED_PRODUCT) {
        return bt_error(BT_STATUS_UNSUPPORTED, "no code is generated for groups of kind %s",
                        bt_fused_kind_text(g->kind));
    }
    if (g->rank == 1 && g->dynamic_rows && g->kind != BT_FUSED_ELEMENTWISE) {
        return bt_error(BT_STATUS_UNSUPPORTED, "a reduction over an axis of changing size");
    }
    for (int i = 0; i < g->code_count; ++i) {
        const bt_fused_instruction *x = &g->code[i];
        const bool column = x->op == BT_FUSED_COLUMN_SUM;
        if (x->op == BT_FUSED_RESULT && x->order.lanes != 1) {
            return bt_error(BT_STATUS_UNSUPPORTED, "a product in an order that is not given");
        }
        const bool late =
            g->kind == BT_FUSED_COLUMN && e->ready[i] > 0 &&
            (x->extent == BT_FUSED_FULL || x->extent == BT_FUSED_PER_ROW || e->ready[i] > 1);
        if (late || (bt_fused_op_reduces(x->op) && column != (g->kind == BT_FUSED_COLUMN)) ||
            (g->kind == BT_FUSED_COLUMN && g->rank == 1)) {
            return bt_error(BT_STATUS_UNSUPPORTED,
                            "no code is generated for instruction %d, %s, in a group of kind %s", i,
                            bt_fused_op_text(x->op), bt_fused_kind_text(g->kind));
        }
    }
    return BT_OK;
}

static bool stores_one_a_row(const bt_fused *g)
{
    for (int i = 0; i < g->code_count; ++i) {
        if (bt_emit_is_store(g->code[i].op) &&
            g->operands[g->code[i].operand].stride[g->rank - 1] == 0) {
            return true;
        }
    }
    return false;
}

bt_status bt_emit_cpu(const bt_fused *group, bt_emitted *out)
{
    void *block = NULL;
    const int64_t cols = group->shape[group->rank - 1];
    memset(out, 0, sizeof *out);
    BT_TRY(bt_fused_check(group));
    BT_TRY(bt_mem_alloc(1, sizeof(bt_emitter), &block));
    bt_emitter *e = block;
    e->group = group;
    e->lanes = group->kind == BT_FUSED_ROW      ? ROW_LANES
               : group->kind == BT_FUSED_COLUMN ? COLUMN_LANES
                                                : ELEMENT_LANES;
    set_phases(e);
    if (group->kind == BT_FUSED_ROW) {
        set_kept(e, cols);
    }
    bt_status status = check_kind(e);
    // Per-row stores must be executed once, so one task has the whole row.
    out->task_elements = group->kind == BT_FUSED_COLUMN ? COLUMN_LANES
                         : stores_one_a_row(group)      ? cols
                                                        : TASK_ELEMENTS;
    out->past = may_go_past(group);
    if (status == BT_OK) {
        function(e, "kernel", out->task_elements);
        e->past = true;
        if (out->past) {
            function(e, "kernel_past", out->task_elements);
        }
        status = bt_str_status(&e->ir.out);
    }
    out->scratch_bytes = e->scratch_bytes;
    out->text = e->ir.out;
    bt_mem_free(e);
    return status;
}

void bt_emitted_release(bt_emitted *emitted) { bt_str_release(&emitted->text); }

int64_t bt_emit_tasks(const bt_fused *group, const bt_emitted *emitted, int64_t rows)
{
    const int64_t cols =
        group->rank == 1 && group->dynamic_rows ? rows : group->shape[group->rank - 1];
    int64_t outer = 1;
    for (int i = 0; i + 1 < group->rank; ++i) {
        outer *= i == 0 && group->dynamic_rows ? rows : group->shape[i];
    }
    const int64_t chunks = (cols + emitted->task_elements - 1) / emitted->task_elements;
    return group->kind == BT_FUSED_ROW      ? outer
           : group->kind == BT_FUSED_COLUMN ? chunks
                                            : outer * chunks;
}
