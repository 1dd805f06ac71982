// framework/compiler/emit_cuda_tile.c - a product's tile: staging in shared memory, mma.sync
//
// Rows of op(A) and columns of op(B) are staged with k contiguous, in words of 32 bits: two bf16 or
// one tf32. In words, the operands of m16n8k16 (bf16) and m16n8k8 (tf32) have the same layout, so
// the types differ in the staging alone. While a step of k is multiplied, the next one is loaded
// into registers. Elements past an end are 0, and no address lies outside of the operands.
#include "framework/compiler/emit_cuda_tile.h"

int bt_tile_number(bt_tile *p, int64_t value) { return bt_ir_int(&p->e->ir, bt_cuda_i32(), value); }

int bt_tile_math(bt_tile *p, const char *op, int a, int b)
{
    return bt_ir_two(&p->e->ir, op, bt_cuda_i32(), a, b);
}

int bt_tile_wide(bt_tile *p, int a)
{
    return bt_ir_convert(&p->e->ir, "arith.extui", bt_cuda_i32(), bt_cuda_i64(), a);
}

static int math64(bt_tile *p, const char *op, int a, int b)
{
    return bt_cuda_math64(p->e, op, a, b);
}

int bt_tile_times(bt_tile *p, int a, int64_t factor)
{
    return factor == 1 ? a : math64(p, "arith.muli", a, bt_cuda_constant(p->e, factor));
}

// ---- staging ------------------------------------------------------------------------------------

// Elements of a vector: 16 bytes, fewer where rows or their strides are no multiple of that.
static int lanes_of(const bt_tile *p, const bt_tile_source *s)
{
    const int64_t contiguous = s->along_k ? p->args->k : s->rows;
    int lanes = 16 / (int)bt_dtype_size(p->args->ab_dtype);
    while (lanes > 1 &&
           (s->ld % lanes || contiguous % lanes || (p->args->batch > 1 && s->stride % lanes))) {
        lanes /= 2;
    }
    return lanes;
}

int bt_tile_inside(bt_tile *p, int a, int64_t end)
{
    return bt_ir_compare(&p->e->ir, "cmpi ult", bt_cuda_i64(), a, bt_cuda_constant(p->e, end));
}

// Neighbouring threads take neighbouring vectors of a row, or (k not contiguous) neighbouring k, so
// that what they store falls in different banks.
static void place_vectors(bt_tile *p, bt_tile_source *s)
{
    const int across = s->along_k ? p->step / s->lanes : p->step;
    s->count = BT_TILE_WORDS * (p->narrow ? 2 : 1) / (s->lanes * BT_TILE_THREADS);
    const int entry = bt_tile_times(p, p->entry, s->stride);
    for (int i = 0; i < s->count; ++i) {
        const int at = bt_tile_math(p, "arith.addi", p->thread,
                                    bt_tile_number(p, (int64_t)i * BT_TILE_THREADS));
        const int col = bt_tile_math(p, "arith.remui", at, bt_tile_number(p, across));
        const int line = bt_tile_math(p, "arith.divui", at, bt_tile_number(p, across));
        const int k =
            s->along_k ? bt_tile_math(p, "arith.muli", col, bt_tile_number(p, s->lanes)) : col;
        const int row =
            s->along_k ? line : bt_tile_math(p, "arith.muli", line, bt_tile_number(p, s->lanes));
        const int wide_row = math64(p, "arith.addi", s->origin, bt_tile_wide(p, row));
        s->k[i] = bt_tile_wide(p, k);
        s->inside[i] = bt_tile_inside(p, wide_row, s->rows);
        s->base[i] =
            math64(p, "arith.addi", entry,
                   math64(p, "arith.addi", bt_tile_times(p, wide_row, s->along_k ? s->ld : 1),
                          bt_tile_times(p, s->k[i], s->along_k ? 1 : s->ld)));
        s->to[i] =
            bt_tile_math(p, "arith.addi", k,
                         bt_tile_math(p, "arith.muli", row,
                                      bt_tile_number(p, p->row_words * (p->narrow ? 2 : 1))));
    }
}

void bt_tile_place(bt_tile *p)
{
    p->a.lanes = lanes_of(p, &p->a);
    p->b.lanes = lanes_of(p, &p->b);
    place_vectors(p, &p->a);
    place_vectors(p, &p->b);
}

static bt_ir_type vector_type(const bt_tile *p, const bt_tile_source *s)
{
    return bt_cuda_type(p->e, p->args->ab_dtype, s->lanes);
}

// Vector i at the step that begins at k `from`; zeros outside of the operand.
static int load(bt_tile *p, const bt_tile_source *s, int i, int from)
{
    bt_ir *ir = &p->e->ir;
    const bt_ir_type type = vector_type(p, s);
    const bt_ir_name name = bt_ir_type_name(type);
    const int in_k = bt_tile_inside(p, math64(p, "arith.addi", s->k[i], from), p->args->k);
    const int in = bt_ir_two(ir, "arith.andi", bt_ir_make(BT_IR_I1, 0), in_k, s->inside[i]);
    const int element =
        math64(p, "arith.addi", s->base[i], bt_tile_times(p, from, s->along_k ? 1 : s->ld));
    const int index = bt_ir_select(ir, bt_cuda_i64(), in, element, bt_cuda_constant(p->e, 0));
    const int address = bt_ir_begin(ir);
    bt_ir_rest(ir,
               "llvm.getelementptr inbounds %%v%d[%%v%d] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, %s",
               s->operand, index, bt_ir_kind_name(type.kind));
    const int none = bt_ir_zero(ir, type), v = bt_ir_begin(ir);
    bt_ir_rest(ir, "llvm.load %%v%d {alignment = %d : i64} : !llvm.ptr<1> -> %s", address,
               s->lanes * (int)bt_dtype_size(p->args->ab_dtype), name.text);
    const int made = bt_ir_begin(ir);
    bt_ir_rest(ir, "arith.select %%v%d, %%v%d, %%v%d : %s", in, v, none, name.text);
    return made;
}

static int shared_address(bt_tile *p, const char *array, const char *type, int index)
{
    const int base = bt_ir_begin(&p->e->ir);
    bt_ir_rest(&p->e->ir, "llvm.mlir.addressof @%s : !llvm.ptr<3>", array);
    const int v = bt_ir_begin(&p->e->ir);
    bt_ir_rest(&p->e->ir,
               "llvm.getelementptr %%v%d[%%v%d] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, %s", base,
               index, type);
    return v;
}

// The vector's words: f32 rounded to tf32.
static int rounded(bt_tile *p, const bt_tile_source *s, int vector)
{
    bt_ir *ir = &p->e->ir;
    const bt_ir_type from = vector_type(p, s), to = bt_ir_make(BT_IR_I32, s->lanes);
    int all = bt_ir_zero(ir, to);
    for (int lane = 0; lane < s->lanes; ++lane) {
        const int one = bt_ir_extract(ir, from, vector, lane), v = bt_ir_begin(ir);
        bt_ir_rest(ir, "llvm.call_intrinsic \"llvm.nvvm.f2tf32.rna\"(%%v%d) : (f32) -> i32", one);
        all = bt_ir_insert(ir, to, v, all, lane);
    }
    return all;
}

static void stage(bt_tile *p, const bt_tile_source *s, int i, int vector)
{
    bt_ir *ir = &p->e->ir;
    const bt_ir_kind kind = p->narrow ? BT_IR_BF16 : BT_IR_I32;
    const bt_ir_type type = bt_ir_make(kind, s->lanes);
    const int size = p->narrow ? 2 : 4, value = p->narrow ? vector : rounded(p, s, vector);
    if (s->along_k) {
        const int to = shared_address(p, s->array, bt_ir_kind_name(kind), s->to[i]);
        bt_ir_line(ir, "llvm.store %%v%d, %%v%d {alignment = %d : i64} : %s, !llvm.ptr<3>", value,
                   to, s->lanes * size, bt_ir_type_name(type).text);
        return;
    }
    for (int lane = 0; lane < s->lanes; ++lane) { // a row each
        const int row = bt_tile_number(p, (int64_t)lane * p->row_words * (p->narrow ? 2 : 1));
        const int to = shared_address(p, s->array, bt_ir_kind_name(kind),
                                      bt_tile_math(p, "arith.addi", s->to[i], row));
        const int one = bt_ir_extract(ir, type, value, lane);
        bt_ir_line(ir, "llvm.store %%v%d, %%v%d {alignment = %d : i64} : %s, !llvm.ptr<3>", one, to,
                   size, bt_ir_kind_name(kind));
    }
}

// ---- multiplying --------------------------------------------------------------------------------

// Loads a word of a fragment: `rows` rows and `words` words after the thread's first one.
static int fragment(bt_tile *p, const bt_tile_source *s, int place, int rows, int words)
{
    const int at =
        bt_tile_math(p, "arith.addi", place, bt_tile_number(p, rows * p->row_words + words));
    const int from = shared_address(p, s->array, "i32", at), v = bt_ir_begin(&p->e->ir);
    bt_ir_rest(&p->e->ir, "llvm.load %%v%d : !llvm.ptr<3> -> i32", from);
    return v;
}

static int place_in(bt_tile *p, int warp)
{
    const int row = bt_tile_math(p, "arith.addi", warp, p->lane_row);
    return bt_tile_math(p, "arith.addi", p->lane_col,
                        bt_tile_math(p, "arith.muli", row, bt_tile_number(p, p->row_words)));
}

static void multiply(bt_tile *p, const int *a, const int *b, int *sums)
{
    bt_ir *ir = &p->e->ir;
    const int made = bt_ir_begin(ir);
    bt_ir_rest(
        ir,
        "llvm.call_intrinsic \"llvm.nvvm.mma.%s\"(%%v%d, %%v%d, %%v%d, %%v%d, %%v%d, %%v%d, "
        "%%v%d, %%v%d, %%v%d, %%v%d) : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> "
        "!llvm.struct<(f32, f32, f32, f32)>",
        p->narrow ? "m16n8k16.row.col.bf16" : "m16n8k8.row.col.tf32", a[0], a[1], a[2], a[3], b[0],
        b[1], sums[0], sums[1], sums[2], sums[3]);
    for (int i = 0; i < BT_MMA_SUMS; ++i) {
        sums[i] = bt_ir_begin(ir);
        bt_ir_rest(ir, "llvm.extractvalue %%v%d[%d] : !llvm.struct<(f32, f32, f32, f32)>", made, i);
    }
}

static void multiply_step(bt_tile *p, int *sums)
{
    const int at_a = place_in(p, p->warp_row), at_b = place_in(p, p->warp_col);
    for (int word = 0; word < p->words; word += BT_MMA_WORDS) {
        int a[BT_TILE_FRAGMENTS_MOST][4], b[BT_TILE_FRAGMENTS_MOST][2];
        for (int i = 0; i < p->down; ++i) {
            for (int k = 0; k < 4; ++k) {
                a[i][k] = fragment(p, &p->a, at_a, i * BT_MMA_ROWS + k % 2 * BT_MMA_ROWS / 2,
                                   word + k / 2 * BT_MMA_WORDS / 2);
            }
        }
        for (int j = 0; j < p->across; ++j) {
            for (int k = 0; k < 2; ++k) {
                b[j][k] = fragment(p, &p->b, at_b, j * BT_MMA_COLS, word + k * BT_MMA_WORDS / 2);
            }
        }
        for (int i = 0; i < p->down; ++i) {
            for (int j = 0; j < p->across; ++j) {
                multiply(p, a[i], b[j], sums + (i * p->across + j) * BT_MMA_SUMS);
            }
        }
    }
}

// What a step hands to the next: sums, then the vectors that it has loaded of A and B.
enum { CARRIED_MOST = BT_TILE_SUMS_MOST + 2 * BT_TILE_VECTORS_MOST };

static int sum_count(const bt_tile *p) { return p->down * p->across * BT_MMA_SUMS; }

static int load_all(bt_tile *p, int from, int *vectors)
{
    int count = 0;
    for (int i = 0; i < p->a.count; ++i) {
        vectors[count++] = load(p, &p->a, i, from);
    }
    for (int i = 0; i < p->b.count; ++i) {
        vectors[count++] = load(p, &p->b, i, from);
    }
    return count;
}

// "%v1, %v2": carried values.
static void list_values(bt_tile *p, const int *values, int count)
{
    for (int i = 0; i < count; ++i) {
        bt_str_format(&p->e->ir.out, "%s%%v%d", i ? ", " : "", values[i]);
    }
}

// The types of carried values.
static void list_types(bt_tile *p, int count)
{
    for (int i = 0; i < count; ++i) {
        const int vector = i - sum_count(p);
        const bt_ir_type type = vector < 0            ? bt_ir_make(BT_IR_F32, 0)
                                : vector < p->a.count ? vector_type(p, &p->a)
                                                      : vector_type(p, &p->b);
        bt_str_append(&p->e->ir.out, i ? ", " : "");
        bt_str_append(&p->e->ir.out, bt_ir_type_name(type).text);
    }
}

// The sums over all of k. A line here may be longer than bt_ir_line's.
void bt_tile_multiply(bt_tile *p, int *sums)
{
    bt_cuda_emitter *e = p->e;
    bt_str *out = &e->ir.out;
    int first[CARRIED_MOST], in[CARRIED_MOST], made[CARRIED_MOST] = {0};
    const int zero = bt_ir_float(&e->ir, bt_ir_make(BT_IR_F32, 0), 0);
    const int from = bt_cuda_constant(e, 0), end = bt_cuda_constant(e, p->args->k);
    const int step = bt_cuda_constant(e, p->step);
    for (int i = 0; i < sum_count(p); ++i) {
        first[i] = zero;
    }
    const int count = sum_count(p) + load_all(p, from, first + sum_count(p));
    for (int i = 0; i < count; ++i) {
        made[i] = e->ir.next++;
        in[i] = e->ir.next++;
    }
    const int k = e->ir.next++;
    list_values(p, made, count);
    bt_str_format(out, " = scf.for %%v%d = %%v%d to %%v%d step %%v%d iter_args(", k, from, end,
                  step);
    for (int i = 0; i < count; ++i) {
        bt_str_format(out, "%s%%v%d = %%v%d", i ? ", " : "", in[i], first[i]);
    }
    bt_str_append(out, ") -> (");
    list_types(p, count);
    bt_str_append(out, ") : i64 {\n");
    ++e->ir.depth;
    for (int i = 0; i < p->a.count + p->b.count; ++i) {
        const bool of_a = i < p->a.count;
        stage(p, of_a ? &p->a : &p->b, of_a ? i : i - p->a.count, in[sum_count(p) + i]);
    }
    bt_ir_line(&e->ir, "gpu.barrier");
    (void)load_all(p, math64(p, "arith.addi", k, step), first + sum_count(p));
    multiply_step(p, in);
    for (int i = 0; i < sum_count(p); ++i) {
        first[i] = in[i];
        sums[i] = made[i];
    }
    bt_ir_line(&e->ir, "gpu.barrier");
    bt_str_append(out, "scf.yield ");
    list_values(p, first, count);
    bt_str_append(out, " : ");
    list_types(p, count);
    bt_str_append(out, "\n");
    --e->ir.depth;
    bt_ir_line(&e->ir, "}");
}
