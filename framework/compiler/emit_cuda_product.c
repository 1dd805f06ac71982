// framework/compiler/emit_cuda_product.c - small and odd products on tensor cores, with the group's
// program as epilogue
//
// A block of 128 threads makes a square tile of D, its 2 x 2 warps a quarter each, by mma.sync.
// Rows of op(A) and columns of op(B) are staged in shared memory with k contiguous, in words of 32
// bits: two bf16 or one tf32. In words, the operands of m16n8k16 (bf16) and m16n8k8 (tf32) lie
// alike, so the two types differ in the staging alone. While a step of k is multiplied the next one
// is loaded into registers. Elements past an end are 0: addresses stay inside of the operands.
//
// Order  steps of k ascending in f32, within a step the tensor core's; nothing is split, so the
// bits
//        are the same at every launch
// Access as wide as strides and the contiguous extent allow, 2 to 16 bytes
#include "framework/compiler/emit_cuda.h"

enum {
    THREADS = 128,
    WARPS = 2,     // along each side of the tile
    PAD_WORDS = 4, // behind a row in shared memory: its 8 rows of a fragment fall in other banks
    MMA_ROWS = 16,
    MMA_COLS = 8,
    MMA_WORDS = 8,
    MMA_SUMS = 4,                             // of a thread
    STAGED_WORDS = 1024,                      // of each operand: side * words
    BLOCKS_WANTED = 264,                      // blocks of the larger tile; below, tiles are small
    FRAGMENTS_MOST = 4,                       // along a side of a warp's part
    VECTORS_MOST = STAGED_WORDS * 2 / THREADS // of one element of bf16 each, of a thread
};

// One of A and B. `rows` are those of op(A), or the columns of op(B).
typedef struct source {
    int operand, lanes, count; // lanes of a vector, vectors of a thread
    bool along_k;              // k is contiguous in memory
    int64_t rows, ld, stride;
    int origin;               // value: the tile's first row
    int base[VECTORS_MOST];   // values: a vector's first element at k 0
    int k[VECTORS_MOST];      // values: its k in the step
    int inside[VECTORS_MOST]; // values: is its row one of the operand's?
    int to[VECTORS_MOST];     // values: its element in shared memory, i32
    const char *array;
} source;

typedef struct product {
    bt_cuda_emitter *e;
    const bt_gemm_args *args;
    bool narrow;                      // bf16
    int side, words, row_words, step; // step: elements of k
    int down, across;                 // fragments of a warp
    int entry, thread;                // values
    int lane_row, lane_col;           // values, i32: of a thread in a fragment
    int warp_row, warp_col;           // values, i32
    source a, b;
} product;

static bt_ir_type i32(void) { return bt_ir_make(BT_IR_I32, 0); }

static int number(product *p, int64_t value) { return bt_ir_int(&p->e->ir, i32(), value); }

static int math(product *p, const char *op, int a, int b)
{
    return bt_ir_two(&p->e->ir, op, i32(), a, b);
}

static int wide(product *p, int a)
{
    return bt_ir_convert(&p->e->ir, "arith.extui", i32(), bt_cuda_i64(), a);
}

static int math64(product *p, const char *op, int a, int b)
{
    return bt_cuda_math64(p->e, op, a, b);
}

static int times(product *p, int a, int64_t factor)
{
    return factor == 1 ? a : math64(p, "arith.muli", a, bt_cuda_constant(p->e, factor));
}

static bool is_narrow(const bt_gemm_args *args) { return args->ab_dtype == BT_BF16; }

// ---- shape --------------------------------------------------------------------------------------

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int bt_cuda_product_side(const bt_fused *group)
{
    const bt_gemm_args *p = &group->product;
    enum { LARGE = 64, SMALL = 32 };
    const int64_t blocks = p->batch * divide_up(p->m, LARGE) * divide_up(p->n, LARGE);
    return p->m > SMALL && p->n > SMALL && blocks >= BLOCKS_WANTED ? LARGE : SMALL;
}

int64_t bt_cuda_product_blocks(const bt_fused *group)
{
    const bt_gemm_args *p = &group->product;
    const int side = bt_cuda_product_side(group);
    return p->batch * divide_up(p->m, side) * divide_up(p->n, side);
}

const char *bt_cuda_product_refuses(const bt_fused *group)
{
    const bt_gemm_args *p = &group->product;
    const bool tf32 = p->ab_dtype == BT_F32 && p->compute == BT_COMPUTE_TF32;
    if (!is_narrow(p) && !tf32) {
        return "products are generated in bf16 and tf32";
    }
    if (p->d_dtype != BT_F32 || p->alpha != 1 || p->k < 1 || p->n < 2) {
        return "no CUDA code is generated for such a product";
    }
    for (int i = 0; i < group->code_count; ++i) {
        if (group->code[i].op == BT_FUSED_RESULT && group->code[i].order.lanes) {
            return "tensor cores add up in an order of their own";
        }
    }
    return NULL;
}

// ---- staging ------------------------------------------------------------------------------------

// Elements of a vector: 16 bytes, fewer where rows or their strides are no multiple of that.
static int lanes_of(const product *p, const source *s)
{
    const int64_t contiguous = s->along_k ? p->args->k : s->rows;
    int lanes = 16 / (int)bt_dtype_size(p->args->ab_dtype);
    while (lanes > 1 &&
           (s->ld % lanes || contiguous % lanes || (p->args->batch > 1 && s->stride % lanes))) {
        lanes /= 2;
    }
    return lanes;
}

static int inside(product *p, int a, int64_t end)
{
    return bt_ir_compare(&p->e->ir, "cmpi ult", bt_cuda_i64(), a, bt_cuda_constant(p->e, end));
}

// Neighbouring threads take neighbouring vectors of a row, or (k not contiguous) neighbouring k, so
// that what they store falls in different banks.
static void place_vectors(product *p, source *s)
{
    const int across = s->along_k ? p->step / s->lanes : p->step;
    s->count = STAGED_WORDS * (p->narrow ? 2 : 1) / (s->lanes * THREADS);
    const int entry = times(p, p->entry, s->stride);
    for (int i = 0; i < s->count; ++i) {
        const int at = math(p, "arith.addi", p->thread, number(p, (int64_t)i * THREADS));
        const int col = math(p, "arith.remui", at, number(p, across));
        const int line = math(p, "arith.divui", at, number(p, across));
        const int k = s->along_k ? math(p, "arith.muli", col, number(p, s->lanes)) : col;
        const int row = s->along_k ? line : math(p, "arith.muli", line, number(p, s->lanes));
        const int wide_row = math64(p, "arith.addi", s->origin, wide(p, row));
        s->k[i] = wide(p, k);
        s->inside[i] = inside(p, wide_row, s->rows);
        s->base[i] = math64(p, "arith.addi", entry,
                            math64(p, "arith.addi", times(p, wide_row, s->along_k ? s->ld : 1),
                                   times(p, s->k[i], s->along_k ? 1 : s->ld)));
        s->to[i] = math(p, "arith.addi", k,
                        math(p, "arith.muli", row, number(p, p->row_words * (p->narrow ? 2 : 1))));
    }
}

static bt_ir_type vector_type(const product *p, const source *s)
{
    return bt_cuda_type(p->e, p->args->ab_dtype, s->lanes);
}

// Vector i at the step that begins at k `from`; zeros outside of the operand.
static int load(product *p, const source *s, int i, int from)
{
    bt_ir *ir = &p->e->ir;
    const bt_ir_type type = vector_type(p, s);
    const bt_ir_name name = bt_ir_type_name(type);
    const int in_k = inside(p, math64(p, "arith.addi", s->k[i], from), p->args->k);
    const int in = bt_ir_two(ir, "arith.andi", bt_ir_make(BT_IR_I1, 0), in_k, s->inside[i]);
    const int element = math64(p, "arith.addi", s->base[i], times(p, from, s->along_k ? 1 : s->ld));
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

static int shared_address(product *p, const char *array, const char *type, int index)
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
static int rounded(product *p, const source *s, int vector)
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

static void stage(product *p, const source *s, int i, int vector)
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
        const int row = number(p, (int64_t)lane * p->row_words * (p->narrow ? 2 : 1));
        const int to = shared_address(p, s->array, bt_ir_kind_name(kind),
                                      math(p, "arith.addi", s->to[i], row));
        const int one = bt_ir_extract(ir, type, value, lane);
        bt_ir_line(ir, "llvm.store %%v%d, %%v%d {alignment = %d : i64} : %s, !llvm.ptr<3>", one, to,
                   size, bt_ir_kind_name(kind));
    }
}

// ---- multiplying --------------------------------------------------------------------------------

// A word of a fragment: `rows` and `words` behind the thread's own place.
static int fragment(product *p, const source *s, int place, int rows, int words)
{
    const int at = math(p, "arith.addi", place, number(p, rows * p->row_words + words));
    const int from = shared_address(p, s->array, "i32", at), v = bt_ir_begin(&p->e->ir);
    bt_ir_rest(&p->e->ir, "llvm.load %%v%d : !llvm.ptr<3> -> i32", from);
    return v;
}

static int place_in(product *p, int warp)
{
    const int row = math(p, "arith.addi", warp, p->lane_row);
    return math(p, "arith.addi", p->lane_col, math(p, "arith.muli", row, number(p, p->row_words)));
}

static void multiply(product *p, const int *a, const int *b, int *sums)
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
    for (int i = 0; i < MMA_SUMS; ++i) {
        sums[i] = bt_ir_begin(ir);
        bt_ir_rest(ir, "llvm.extractvalue %%v%d[%d] : !llvm.struct<(f32, f32, f32, f32)>", made, i);
    }
}

static void multiply_step(product *p, int *sums)
{
    const int at_a = place_in(p, p->warp_row), at_b = place_in(p, p->warp_col);
    for (int word = 0; word < p->words; word += MMA_WORDS) {
        int a[FRAGMENTS_MOST][4], b[FRAGMENTS_MOST][2];
        for (int i = 0; i < p->down; ++i) {
            for (int k = 0; k < 4; ++k) {
                a[i][k] = fragment(p, &p->a, at_a, i * MMA_ROWS + k % 2 * MMA_ROWS / 2,
                                   word + k / 2 * MMA_WORDS / 2);
            }
        }
        for (int j = 0; j < p->across; ++j) {
            for (int k = 0; k < 2; ++k) {
                b[j][k] = fragment(p, &p->b, at_b, j * MMA_COLS, word + k * MMA_WORDS / 2);
            }
        }
        for (int i = 0; i < p->down; ++i) {
            for (int j = 0; j < p->across; ++j) {
                multiply(p, a[i], b[j], sums + (i * p->across + j) * MMA_SUMS);
            }
        }
    }
}

// What a step hands to the next: sums, then the vectors that it has loaded of A and B.
enum { CARRIED_MOST = FRAGMENTS_MOST * FRAGMENTS_MOST * MMA_SUMS + 2 * VECTORS_MOST };

static int sum_count(const product *p) { return p->down * p->across * MMA_SUMS; }

static int load_all(product *p, int from, int *vectors)
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

// ", %v1, %v2" or the types of carried values.
static void list(product *p, const int *values, int count, bool types)
{
    for (int i = 0; i < count; ++i) {
        const int vector = i - sum_count(p);
        bt_str_append(&p->e->ir.out, i ? ", " : "");
        if (!types) {
            bt_str_format(&p->e->ir.out, "%%v%d", values[i]);
        } else {
            const bt_ir_type type = vector < 0            ? bt_ir_make(BT_IR_F32, 0)
                                    : vector < p->a.count ? vector_type(p, &p->a)
                                                          : vector_type(p, &p->b);
            bt_str_append(&p->e->ir.out, bt_ir_type_name(type).text);
        }
    }
}

// The sums over all of k. A line here may be longer than bt_ir_line's.
static void multiply_all(product *p, int *sums)
{
    bt_cuda_emitter *e = p->e;
    bt_str *out = &e->ir.out;
    int first[CARRIED_MOST], in[CARRIED_MOST], made[CARRIED_MOST];
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
    list(p, made, count, false);
    bt_str_format(out, " = scf.for %%v%d = %%v%d to %%v%d step %%v%d iter_args(", k, from, end,
                  step);
    for (int i = 0; i < count; ++i) {
        bt_str_format(out, "%s%%v%d = %%v%d", i ? ", " : "", in[i], first[i]);
    }
    bt_str_append(out, ") -> (");
    list(p, NULL, count, true);
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
    list(p, first, count, false);
    bt_str_append(out, " : ");
    list(p, NULL, count, true);
    bt_str_append(out, "\n");
    --e->ir.depth;
    bt_ir_line(&e->ir, "}");
}

// ---- the epilogue -------------------------------------------------------------------------------

static int result_of(const bt_fused *g)
{
    int i = 0;
    while (g->code[i].op != BT_FUSED_RESULT) {
        ++i;
    }
    return i;
}

// One row of a fragment: 2 neighbouring columns in each of `across` places.
static void epilogue_row(product *p, int i, int half, const int *sums)
{
    bt_cuda_emitter *e = p->e;
    const bt_fused *g = e->group;
    const int result = result_of(g), pair = 2 / e->lanes;
    const bt_ir_type type = bt_cuda_type(e, BT_F32, e->lanes);
    const int local = math(p, "arith.addi", math(p, "arith.addi", p->warp_row, p->lane_row),
                           number(p, i * MMA_ROWS + half * MMA_ROWS / 2));
    const int row = math64(p, "arith.addi", p->a.origin, wide(p, local));
    const int last = bt_cuda_constant(e, p->args->m - 1), in_row = inside(p, row, p->args->m);
    const int first = times(p, p->entry, p->args->m);
    bt_cuda_forget(e);
    bt_cuda_enter_row(e, math64(p, "arith.addi", first, math64(p, "arith.minui", row, last)));
    for (int pack = 0; pack < p->across * pair; ++pack) {
        const int j = pack / pair;
        const int twice = math(p, "arith.addi", p->lane_col, p->lane_col);
        const int col = math(p, "arith.addi", math(p, "arith.addi", p->warp_col, twice),
                             number(p, j * MMA_COLS + pack % pair));
        e->column[pack] = math64(p, "arith.addi", p->b.origin, wide(p, col));
        e->inside[pack] = bt_ir_two(&e->ir, "arith.andi", bt_ir_make(BT_IR_I1, 0), in_row,
                                    inside(p, e->column[pack], p->args->n));
        int made = bt_ir_zero(&e->ir, type);
        for (int lane = 0; lane < e->lanes; ++lane) {
            const int sum = sums[(i * p->across + j) * MMA_SUMS + half * 2 + pack % pair + lane];
            made = bt_ir_insert(&e->ir, type, sum, made, lane);
        }
        e->vector[result][pack] = made;
        bt_cuda_stores_of_pack(e, pack);
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

void bt_cuda_product_arrays(bt_cuda_emitter *e)
{
    const int side = bt_cuda_product_side(e->group);
    for (int i = 0; i < 2; ++i) {
        bt_ir_line(&e->ir,
                   "llvm.mlir.global internal @staged_%s() {addr_space = 3 : i32, alignment = 16 : "
                   "i64} : !llvm.array<%d x i32>",
                   i ? "b" : "a", STAGED_WORDS + side * PAD_WORDS);
    }
}

int bt_cuda_product_threads(void) { return THREADS; }

static void find_place(product *p)
{
    bt_cuda_emitter *e = p->e;
    const int block = bt_cuda_number(e, "block_id");
    const int across = bt_cuda_constant(e, divide_up(p->args->n, p->side));
    const int down = bt_cuda_constant(e, divide_up(p->args->m, p->side));
    const int line = bt_cuda_divide(e, "arith.divui", block, across);
    p->b.origin = times(p, bt_cuda_divide(e, "arith.remui", block, across), p->side);
    p->a.origin = times(p, bt_cuda_divide(e, "arith.remui", line, down), p->side);
    p->entry = bt_cuda_divide(e, "arith.divui", line, down);
    p->thread =
        bt_ir_convert(&e->ir, "arith.trunci", bt_cuda_i64(), i32(), bt_cuda_number(e, "thread_id"));
    const int lane = math(p, "arith.remui", p->thread, number(p, BT_CUDA_WARP));
    const int warp = math(p, "arith.divui", p->thread, number(p, BT_CUDA_WARP));
    const int part = number(p, p->side / WARPS);
    p->lane_row = math(p, "arith.divui", lane, number(p, 4));
    p->lane_col = math(p, "arith.remui", lane, number(p, 4));
    p->warp_row = math(p, "arith.muli", math(p, "arith.divui", warp, number(p, WARPS)), part);
    p->warp_col = math(p, "arith.muli", math(p, "arith.remui", warp, number(p, WARPS)), part);
}

void bt_cuda_product_kernel(bt_cuda_emitter *e)
{
    const bt_gemm_args *args = &e->group->product;
    product p = {.e = e, .args = args, .narrow = is_narrow(args)};
    int sums[FRAGMENTS_MOST * FRAGMENTS_MOST * MMA_SUMS];
    p.side = bt_cuda_product_side(e->group);
    p.words = STAGED_WORDS / p.side;
    p.row_words = p.words + PAD_WORDS;
    p.step = p.words * (p.narrow ? 2 : 1);
    p.down = p.side / WARPS / MMA_ROWS;
    p.across = p.side / WARPS / MMA_COLS;
    p.a = (source){.operand = e->group->call_operand[0],
                   .along_k = !args->trans_a,
                   .rows = args->m,
                   .ld = args->lda,
                   .stride = args->stride_a,
                   .array = "staged_a"};
    p.b = (source){.operand = e->group->call_operand[1],
                   .along_k = args->trans_b,
                   .rows = args->n,
                   .ld = args->ldb,
                   .stride = args->stride_b,
                   .array = "staged_b"};
    p.a.lanes = lanes_of(&p, &p.a);
    p.b.lanes = lanes_of(&p, &p.b);
    find_place(&p);
    place_vectors(&p, &p.a);
    place_vectors(&p, &p.b);
    multiply_all(&p, sums);
    for (int i = 0; i < p.down; ++i) {
        for (int half = 0; half < 2; ++half) {
            epilogue_row(&p, i, half, sums);
        }
    }
}
