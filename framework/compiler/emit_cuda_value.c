// framework/compiler/emit_cuda_value.c - the CUDA emitter: accesses, instructions, reductions
#include "framework/compiler/emit_cuda.h"

#include <math.h>

#include "framework/compiler/emit_math.h"

static const bt_emit_functions functions = {bt_emit_unary_cuda, bt_emit_slope_cuda,
                                            bt_emit_softmax_exp_cuda};

int bt_cuda_math64(bt_cuda_emitter *e, const char *op, int a, int b)
{
    return bt_ir_two(&e->ir, op, bt_cuda_i64(), a, b);
}

static void refuse(bt_cuda_emitter *e, int i, const char *what)
{
    if (e->ir.out.status == BT_OK) {
        const bt_fused_instruction *x = &e->group->code[i];
        e->ir.out.status = bt_error(BT_STATUS_UNSUPPORTED,
                                    "no CUDA code is generated for instruction %d, %s %s: %s", i,
                                    bt_fused_op_text(x->op), bt_dtype_name(x->dtype), what);
    }
}

bt_ir_type bt_cuda_type(const bt_cuda_emitter *e, bt_dtype dtype, int lanes)
{
    return bt_ir_make(bt_ir_kind_of(&e->ir, dtype), lanes);
}

// ---- memory -------------------------------------------------------------------------------------

// Operand k is the kernel's argument %v<k>.
static int address(bt_cuda_emitter *e, int operand, int pack)
{
    int index = e->offset[operand];
    if (pack != BT_CUDA_NONE) {
        index = bt_cuda_math64(e, "arith.addi", index, e->column[pack]);
    }
    const int v = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir,
               "llvm.getelementptr inbounds %%v%d[%%v%d] : (!llvm.ptr<1>, i64) -> "
               "!llvm.ptr<1>, %s",
               operand, index,
               bt_ir_kind_name(bt_ir_kind_of(&e->ir, e->group->operands[operand].dtype)));
    return v;
}

static int alignment_of(const bt_cuda_emitter *e, int operand, int lanes)
{
    const int bytes = (int)bt_dtype_size(e->group->operands[operand].dtype) * (lanes ? lanes : 1);
    return bytes < 16 ? bytes : 16;
}

// Load of a pack that may lie past the row's end: zeros there.
static int load(bt_cuda_emitter *e, int operand, int lanes, int pack)
{
    const bt_dtype dtype = e->group->operands[operand].dtype;
    const bt_ir_type type = bt_cuda_type(e, dtype, lanes);
    const bt_ir_name name = bt_ir_type_name(type);
    const bool guarded = pack != BT_CUDA_NONE && e->inside[pack] != BT_CUDA_NONE;
    const int from = address(e, operand, pack);
    int none = BT_CUDA_NONE, all = BT_CUDA_NONE;
    if (guarded) {
        none = bt_ir_zero(&e->ir, type);
        all = bt_ir_begin(&e->ir);
        bt_ir_rest(&e->ir, "scf.if %%v%d -> (%s) {", e->inside[pack], name.text);
        ++e->ir.depth;
    }
    const int v = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir, "llvm.load %%v%d {alignment = %d : i64} : !llvm.ptr<1> -> %s", from,
               alignment_of(e, operand, lanes), name.text);
    if (!guarded) {
        return v;
    }
    bt_ir_line(&e->ir, "scf.yield %%v%d : %s", v, name.text);
    --e->ir.depth;
    bt_ir_line(&e->ir, "} else {");
    bt_ir_line(&e->ir, "  scf.yield %%v%d : %s", none, name.text);
    bt_ir_line(&e->ir, "}");
    return all;
}

static void store(bt_cuda_emitter *e, int operand, int lanes, int pack, int value)
{
    const bool guarded = pack != BT_CUDA_NONE && e->inside[pack] != BT_CUDA_NONE;
    const int to = address(e, operand, pack);
    if (guarded) {
        bt_ir_line(&e->ir, "scf.if %%v%d {", e->inside[pack]);
        ++e->ir.depth;
    }
    bt_ir_line(&e->ir, "llvm.store %%v%d, %%v%d {alignment = %d : i64} : %s, !llvm.ptr<1>", value,
               to, alignment_of(e, operand, lanes),
               bt_ir_type_name(bt_cuda_type(e, e->group->operands[operand].dtype, lanes)).text);
    if (guarded) {
        --e->ir.depth;
        bt_ir_line(&e->ir, "}");
    }
}

// ---- values -------------------------------------------------------------------------------------

static int place(bt_cuda_emitter *e, const bt_fused_instruction *x, int pack)
{
    const bt_ir_type type = bt_ir_make(BT_IR_I64, e->lanes);
    if (pack == BT_CUDA_NONE) {
        return e->axis_index[x->axis];
    }
    return bt_ir_two(&e->ir, "arith.addi", type, bt_ir_broadcast(&e->ir, type, e->column[pack]),
                     bt_ir_lane_numbers(&e->ir, type));
}

// The row-major indices of a pack's elements; a scalar has one per row.
static int element_numbers(bt_cuda_emitter *e, int pack)
{
    const bt_ir_type type = bt_ir_make(BT_IR_I64, e->lanes);
    const int cols = bt_ir_int(&e->ir, bt_cuda_i64(), e->group->shape[e->group->rank - 1]);
    const int before = bt_cuda_math64(e, "arith.muli", e->row, cols);
    if (pack == BT_CUDA_NONE) {
        return before;
    }
    const int first = bt_cuda_math64(e, "arith.addi", before, e->column[pack]);
    return bt_ir_two(&e->ir, "arith.addi", type, bt_ir_broadcast(&e->ir, type, first),
                     bt_ir_lane_numbers(&e->ir, type));
}

static int make(bt_cuda_emitter *e, int i, int pack)
{
    const bt_fused_instruction *x = &e->group->code[i];
    const int lanes = pack == BT_CUDA_NONE ? 0 : e->lanes;
    int uses[3];
    const int count = bt_emit_uses(x, uses);
    int in[3] = {BT_CUDA_NONE, BT_CUDA_NONE, BT_CUDA_NONE};
    if (x->op == BT_FUSED_LOAD) {
        return load(e, x->operand, lanes, pack);
    }
    if (x->op == BT_FUSED_INDEX) {
        return place(e, x, pack);
    }
    if (x->op == BT_FUSED_KEEP) {
        return bt_emit_keep(&e->ir, x, lanes, element_numbers(e, pack));
    }
    for (int k = 0; k < count; ++k) {
        in[k] = bt_cuda_use(e, uses[k], pack);
    }
    const int made = bt_emit_arithmetic(&e->ir, e->group, i, lanes, in, &functions);
    if (made == BT_CUDA_NONE) {
        refuse(e, i, "the op");
    }
    return made;
}

// pack BT_CUDA_NONE: a scalar.
int bt_cuda_use(bt_cuda_emitter *e, int i, int pack)
{
    int *memo = pack == BT_CUDA_NONE ? &e->scalar[i] : &e->vector[i][pack];
    if (e->ir.out.status) {
        return 0;
    }
    if (*memo == BT_CUDA_NONE) {
        if (pack != BT_CUDA_NONE && bt_cuda_is_scalar(e, i)) {
            const bt_ir_type type = bt_cuda_type(e, e->group->code[i].dtype, e->lanes);
            *memo = bt_ir_broadcast(&e->ir, type, bt_cuda_use(e, i, BT_CUDA_NONE));
        } else {
            *memo = make(e, i, pack);
        }
    }
    return *memo;
}

void bt_cuda_forget(bt_cuda_emitter *e)
{
    for (int i = 0; i < e->group->code_count; ++i) {
        e->scalar[i] = BT_CUDA_NONE;
        for (int k = 0; k < BT_CUDA_PACKS_MOST; ++k) {
            e->vector[i][k] = BT_CUDA_NONE;
        }
    }
}

void bt_cuda_store(bt_cuda_emitter *e, int i, int pack)
{
    const bt_fused_instruction *x = &e->group->code[i];
    const bt_dtype to = e->group->operands[x->operand].dtype;
    const int lanes = pack == BT_CUDA_NONE ? 0 : e->lanes;
    int value = bt_cuda_use(e, x->a, pack);
    if (x->op == BT_FUSED_STORE_ADD) {
        const int old = bt_ir_cast(&e->ir, to, x->dtype, lanes, load(e, x->operand, lanes, pack));
        value = bt_ir_two(&e->ir, "arith.addf", bt_cuda_type(e, x->dtype, lanes), old, value);
    }
    store(e, x->operand, lanes, pack, bt_ir_cast(&e->ir, x->dtype, to, lanes, value));
}

bool bt_cuda_stores_scalar(const bt_cuda_emitter *e, int i)
{
    return e->group->operands[e->group->code[i].operand].stride[e->group->rank - 1] == 0;
}

void bt_cuda_stores_of_pack(bt_cuda_emitter *e, int pack)
{
    for (int pass = 0; pass < 2; ++pass) { // values before stores: operands may be the same memory
        for (int i = 0; i < e->group->code_count; ++i) {
            if (bt_cuda_is_store(e->group->code[i].op) && !bt_cuda_stores_scalar(e, i)) {
                if (pass == 0) {
                    (void)bt_cuda_use(e, e->group->code[i].a, pack);
                } else {
                    bt_cuda_store(e, i, pack);
                }
            }
        }
    }
}

// ---- reductions ---------------------------------------------------------------------------------

static int join(bt_cuda_emitter *e, bool max, bt_ir_type type, int a, int b)
{
    return max ? bt_ir_two(&e->ir, "arith.maxnumf", type, a, b)
               : bt_ir_two(&e->ir, "arith.addf", type, a, b);
}

// The vector, or `neutral` where the pack lies past the row's end.
static int in_row(bt_cuda_emitter *e, int pack, bt_ir_type type, int a, double neutral)
{
    if (e->inside[pack] == BT_CUDA_NONE) {
        return a;
    }
    const int rest = bt_ir_float(&e->ir, type, neutral), v = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir, "arith.select %%v%d, %%v%d, %%v%d : %s", e->inside[pack], a, rest,
               bt_ir_type_name(type).text);
    return v;
}

// A thread's partial result: its elements, ascending.
static int thread_share(bt_cuda_emitter *e, int i, bt_dtype sum)
{
    const bt_fused_instruction *x = &e->group->code[i];
    const bool max = x->op == BT_FUSED_ROW_MAX;
    const bt_ir_type type = bt_cuda_type(e, sum, e->lanes), one = bt_cuda_type(e, sum, 0);
    const double neutral = max ? (double)-INFINITY : 0;
    int total = bt_ir_float(&e->ir, one, neutral);
    for (int pack = 0; pack < e->packs; ++pack) {
        int a = bt_ir_cast(&e->ir, x->dtype, sum, e->lanes, bt_cuda_use(e, x->a, pack)),
            b = BT_CUDA_NONE;
        a = in_row(e, pack, type, a, neutral);
        if (x->op == BT_FUSED_ROW_DOT) {
            b = bt_ir_cast(&e->ir, x->dtype, sum, e->lanes, bt_cuda_use(e, x->b, pack));
            b = in_row(e, pack, type, b, neutral);
        }
        for (int lane = 0; lane < e->lanes; ++lane) {
            const int p = bt_ir_extract(&e->ir, type, a, lane);
            total = b == BT_CUDA_NONE
                        ? join(e, max, one, total, p)
                        : bt_ir_fma(&e->ir, one, p, bt_ir_extract(&e->ir, type, b, lane), total);
        }
    }
    return total;
}

static int over_warp(bt_cuda_emitter *e, bool max, bt_ir_type type, int value)
{
    for (int distance = BT_CUDA_WARP / 2; distance > 0; distance /= 2) {
        const int step = bt_ir_int(&e->ir, bt_cuda_i32(), distance);
        const int width = bt_ir_int(&e->ir, bt_cuda_i32(), BT_CUDA_WARP);
        const int other = e->ir.next++, valid = e->ir.next++;
        bt_ir_line(&e->ir, "%%v%d, %%v%d = gpu.shuffle xor %%v%d, %%v%d, %%v%d : %s", other, valid,
                   value, step, width, bt_ir_type_name(type).text);
        value = join(e, max, type, value, other);
    }
    return value;
}

static int shared_address(bt_cuda_emitter *e, int i, const char *type, int index)
{
    const int base = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir, "llvm.mlir.addressof @shared%d : !llvm.ptr<3>", i);
    const int v = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir, "llvm.getelementptr %%v%d[%%v%d] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, %s",
               base, index, type);
    return v;
}

// Through shared memory, one slot per warp and one array per reduction, so that one barrier is
// enough.
static int over_block(bt_cuda_emitter *e, int i, bool max, bt_ir_type type, int value)
{
    const bt_ir_name name = bt_ir_type_name(type);
    const int last = bt_ir_int(&e->ir, bt_cuda_i32(), BT_CUDA_WARP - 1);
    const int five = bt_ir_int(&e->ir, bt_cuda_i32(), 5);
    const int lane = bt_ir_two(&e->ir, "arith.andi", bt_cuda_i32(), e->thread, last);
    const int warp = bt_ir_two(&e->ir, "arith.shrui", bt_cuda_i32(), e->thread, five);
    const int first =
        bt_ir_compare(&e->ir, "cmpi eq", bt_cuda_i32(), lane, bt_ir_int(&e->ir, bt_cuda_i32(), 0));
    const int mine = shared_address(e, i, name.text, warp);
    bt_ir_line(&e->ir, "scf.if %%v%d {", first);
    bt_ir_line(&e->ir, "  llvm.store %%v%d, %%v%d : %s, !llvm.ptr<3>", value, mine, name.text);
    bt_ir_line(&e->ir, "}");
    bt_ir_line(&e->ir, "gpu.barrier");
    int total = BT_CUDA_NONE;
    for (int w = 0; w < e->row_threads / BT_CUDA_WARP; ++w) {
        const int at = shared_address(e, i, name.text, bt_ir_int(&e->ir, bt_cuda_i32(), w));
        const int part = bt_ir_begin(&e->ir);
        bt_ir_rest(&e->ir, "llvm.load %%v%d : !llvm.ptr<3> -> %s", at, name.text);
        total = w ? join(e, max, type, total, part) : part;
    }
    return total;
}

// The accumulator type of a reduction.
bt_dtype bt_cuda_sum_dtype(const bt_cuda_emitter *e, int i)
{
    const bt_fused_instruction *x = &e->group->code[i];
    return x->op == BT_FUSED_ROW_MAX ? x->dtype : x->order.sum;
}

void bt_cuda_reduce(bt_cuda_emitter *e, int i)
{
    const bt_fused_instruction *x = &e->group->code[i];
    const bool max = x->op == BT_FUSED_ROW_MAX;
    const bt_dtype sum = bt_cuda_sum_dtype(e, i);
    const bt_ir_type type = bt_cuda_type(e, sum, 0);
    if ((x->order.lanes && !max) || (sum != BT_F32 && sum != BT_F64)) {
        refuse(e, i, "its order");
        return;
    }
    int value = over_warp(e, max, type, thread_share(e, i, sum));
    if (e->row_threads > BT_CUDA_WARP) {
        value = over_block(e, i, max, type, value);
    }
    e->scalar[i] = bt_ir_cast(&e->ir, sum, x->dtype, 0, value);
}
