// tests/support/gemm_values.c - operands, their sums in long double, rows beside them
#include "tests/support/gemm_values.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/rng.h"
#include "tests/support/test.h"

enum { GUARD_BYTES = 256, GUARD = 0xA5, ARENA_BYTES = 48 << 20 };

typedef struct shape {
    int64_t m, n, k, batch;
    int64_t pad;    // elements at the end of every row
    int64_t offset; // of every matrix from alignment, in elements
} shape;

typedef struct epilogue {
    bt_epilogue epilogue;
    double alpha, beta;
    bool in_place; // c is d
} epilogue;

// A matrix on the device and its image on the host, between guard bands.
typedef struct matrix {
    bt_dtype dtype;
    int64_t rows, cols, ld, batch;
    size_t size_bytes, begin_bytes; // of all, before the first element
    unsigned char *image;           // owned
    char *memory;                   // inside of the arena
} matrix;

// What is known of an element before any epilogue.
typedef struct sums {
    long double sum, magnitude; // of a b, of |a| |b|
    long double sides;          // of |a| + |b|; not of f64
} sums;

typedef struct bench {
    bt_device *device;
    const gemm_precision *precision;
    gemm_values values;
    void *arena;
    size_t used_bytes;
    int served;
} bench;

typedef struct problem {
    shape size;
    bool trans_a, trans_b;
    epilogue end;
    matrix a, b, c, d, aux, bias;
    sums *sums; // owned, [batch, m, n]
} problem;

static const char *values_name(gemm_values values)
{
    static const char *const names[] = {
#define GEMM_VALUES_NAME(name, text) text,
        GEMM_VALUES_LIST(GEMM_VALUES_NAME)
#undef GEMM_VALUES_NAME
    };
    return names[values];
}

// ---- operands ----------------------------------------------------------------------------------

static matrix make_matrix(bench *on, bt_dtype dtype, int64_t rows, int64_t cols, const shape *size)
{
    matrix made = {.dtype = dtype, .rows = rows, .cols = cols, .batch = size->batch};
    made.ld = cols + size->pad;
    made.begin_bytes = GUARD_BYTES + (size_t)size->offset * bt_dtype_size(dtype);
    const size_t elements = (size_t)(made.batch * rows * made.ld) * bt_dtype_size(dtype);
    made.size_bytes = made.begin_bytes + elements + GUARD_BYTES;
    made.image = malloc(made.size_bytes);
    assert_non_null(made.image);
    memset(made.image, GUARD, made.size_bytes);
    memset(made.image + made.begin_bytes, 0xFF, elements); // NaN in every type
    made.memory = (char *)on->arena + on->used_bytes;
    on->used_bytes += (made.size_bytes + 255) / 256 * 256;
    assert_true(on->used_bytes <= ARENA_BYTES);
    return made;
}

static unsigned char *place_of(const matrix *in, unsigned char *image, int64_t z, int64_t row,
                               int64_t col)
{
    return image + in->begin_bytes +
           (size_t)((z * in->rows + row) * in->ld + col) * bt_dtype_size(in->dtype);
}

static void *address_of(const matrix *in) { return in->memory + in->begin_bytes; }

static double rounded(bt_dtype dtype, long double value)
{
    return dtype == BT_F64   ? (double)value
           : dtype == BT_F32 ? (double)(float)value
                             : (double)bt_bf16_to_f32(bt_f32_to_bf16((float)value));
}

static void put(bt_dtype dtype, unsigned char *place, double value)
{
    const float single = (float)value;
    const uint16_t half = bt_f32_to_bf16(single);
    const void *const from[] = {&value, &single, &half};
    memcpy(place, from[dtype == BT_F64 ? 0 : dtype == BT_F32 ? 1 : 2], bt_dtype_size(dtype));
}

static double get(bt_dtype dtype, const unsigned char *place)
{
    double value;
    float single;
    uint16_t half;
    if (dtype == BT_F64) {
        memcpy(&value, place, sizeof value);
        return value;
    }
    if (dtype == BT_F32) {
        memcpy(&single, place, sizeof single);
        return (double)single;
    }
    memcpy(&half, place, sizeof half);
    return (double)bt_bf16_to_f32(half);
}

// A NaN that a careless conversion makes 0 (all bits), or an infinity (the last bit alone).
static void put_nan_of_bits(bt_dtype dtype, unsigned char *place, bool all)
{
    const uint64_t wide = all ? UINT64_MAX >> 1 : UINT64_C(0x7ff0000000000001);
    const uint32_t single = all ? UINT32_MAX >> 1 : 0x7f800001U;
    const uint16_t half = all ? 0x7fff : 0x7f81;
    const void *const from[] = {&wide, &single, &half};
    memcpy(place, from[dtype == BT_F64 ? 0 : dtype == BT_F32 ? 1 : 2], bt_dtype_size(dtype));
}

// An element a[line, at] or b[at, line].
typedef struct spot {
    bool wide; // f64
    bool is_a;
    int64_t line, lines, at, k;
    double unit; // drawn from (0, 1)
} spot;

static double random_at(const spot *s) { return 2 * s->unit - 1; }

// Neighbours of a row of a differ in sign alone, those of a column of b only slightly.
static double cancelling_at(const spot *s)
{
    const int pair = (int)(s->at / 2 % 17);
    return s->is_a ? ldexp(s->at % 2 ? -1 : 1, pair - 8)
                   : ldexp(1 + 0.25 * s->unit, (pair * 7 + (int)(s->line % 17)) % 17 - 8);
}

static double denormal_at(const spot *s)
{
    return s->is_a ? ldexp(s->at % 2 ? -s->unit : s->unit, s->wide ? -1023 : -127)
                   : ldexp(0.5 + s->unit, s->line % 2 ? 30 : 0);
}

// Products of even lines of a and every third of b are too large, the others are not.
static double huge_at(const spot *s)
{
    const int of_a = s->wide ? 700 : 70, of_b = s->wide ? 400 : 60;
    const int exponent =
        s->is_a ? of_a - (s->line % 2 ? of_a / 2 : 0) : of_b - (s->line % 3 ? of_b : 0);
    return ldexp((s->line % 4 < 2 ? 1 : -1) * (1 + s->unit / 2), exponent);
}

static double nan_at(const spot *s)
{
    return s->line == s->lines / 2 && s->at == (s->is_a ? s->k - 1 : s->k / 2) ? (double)NAN
                                                                               : random_at(s);
}

static double infinite_at(const spot *s)
{
    const struct {
        bool is_a;
        int64_t line, at;
        double value;
    } marks[] = {{true, 0, 0, (double)INFINITY},
                 {true, s->lines - 1, s->k / 2, (double)-INFINITY},
                 {true, s->lines / 2, s->k / 3, (double)NAN},
                 {false, 0, s->k - 1, (double)INFINITY},
                 {false, s->lines - 1, 0, 0}};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; ++i) {
        if (marks[i].is_a == s->is_a && marks[i].line == s->line && marks[i].at == s->at) {
            return marks[i].value;
        }
    }
    return s->unit < 0.5 ? s->unit - 1 : s->unit;
}

static void draw(const bench *on, matrix *to, bool is_a, bool trans, int64_t k, uint64_t seed)
{
    static double (*const value_at[])(const spot *) = {
        [GEMM_VALUES_RANDOM] = random_at,     [GEMM_VALUES_CANCELLING] = cancelling_at,
        [GEMM_VALUES_DENORMAL] = denormal_at, [GEMM_VALUES_HUGE_VALUES] = huge_at,
        [GEMM_VALUES_NAN_ONLY] = nan_at,      [GEMM_VALUES_NAN_PAYLOADS] = nan_at,
        [GEMM_VALUES_INFINITE] = infinite_at};
    const bt_rng rng = {seed, 815};
    const bool by_rows = is_a != trans; // lines are the rows in memory
    const int64_t lines = by_rows ? to->rows : to->cols;
    for (int64_t i = 0; i < to->batch * to->rows * to->cols; ++i) {
        const int64_t z = i / (to->rows * to->cols), row = i / to->cols % to->rows,
                      col = i % to->cols;
        const spot at = {.wide = to->dtype == BT_F64,
                         .is_a = is_a,
                         .line = by_rows ? row : col,
                         .lines = lines,
                         .at = by_rows ? col : row,
                         .k = k,
                         .unit = (double)bt_rng_uniform(rng, (uint64_t)i)};
        const double value = value_at[on->values](&at);
        unsigned char *place = place_of(to, to->image, z, row, col);
        if (isnan(value) && on->values == GEMM_VALUES_NAN_PAYLOADS) {
            put_nan_of_bits(to->dtype, place, is_a);
        } else {
            put(to->dtype, place, value);
        }
    }
}

static void draw_random(matrix *to, uint64_t seed)
{
    const bt_rng rng = {seed, 816};
    for (int64_t i = 0; i < to->batch * to->rows * to->cols; ++i) {
        put(to->dtype,
            place_of(to, to->image, i / (to->rows * to->cols), i / to->cols % to->rows,
                     i % to->cols),
            2 * (double)bt_rng_uniform(rng, (uint64_t)i) - 1);
    }
}

// ---- what is expected --------------------------------------------------------------------------

// Of values of at most 24 bits, whose products are exact in double.
static sums sums_of(const double *x, const double *y, int64_t k)
{
    double sum = 0, magnitude = 0, sides = 0;
    for (int64_t at = 0; at < k; ++at) {
        const double term = x[at] * y[at];
        sum += term;
        magnitude += fabs(term);
        sides += fabs(x[at]) + fabs(y[at]);
    }
    return (sums){(long double)sum, (long double)magnitude, (long double)sides};
}

static sums sums_of_doubles(const double *x, const double *y, int64_t k)
{
    sums to = {0};
    for (int64_t at = 0; at < k; ++at) {
        const long double term = (long double)x[at] * (long double)y[at];
        to.sum += term;
        to.magnitude += fabsl(term);
    }
    return to;
}

static void add_up(problem *p)
{
    const shape *s = &p->size;
    double *a = malloc((size_t)(s->m * s->k) * sizeof *a);
    double *b = malloc((size_t)(s->n * s->k) * sizeof *b);
    p->sums = calloc((size_t)(s->batch * s->m * s->n), sizeof *p->sums);
    assert_true(a && b && p->sums);
    for (int64_t z = 0; z < s->batch; ++z) {
        for (int64_t i = 0; i < s->m * s->k; ++i) {
            const int64_t row = i / s->k, at = i % s->k;
            a[i] = get(p->a.dtype, place_of(&p->a, p->a.image, z, p->trans_a ? at : row,
                                            p->trans_a ? row : at));
        }
        for (int64_t i = 0; i < s->n * s->k; ++i) {
            const int64_t col = i / s->k, at = i % s->k;
            b[i] = get(p->b.dtype, place_of(&p->b, p->b.image, z, p->trans_b ? col : at,
                                            p->trans_b ? at : col));
        }
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < s->m * s->n; ++i) {
            const double *x = a + i / s->n * s->k, *y = b + i % s->n * s->k;
            p->sums[z * s->m * s->n + i] =
                p->a.dtype == BT_F64 ? sums_of_doubles(x, y, s->k) : sums_of(x, y, s->k);
        }
    }
    free(a);
    free(b);
}

static long double gelu_inner(long double x)
{
    return 0.7978845608028654L * (x + 0.044715L * x * x * x);
}

static long double gelu(long double x) { return 0.5L * x * (1 + tanhl(gelu_inner(x))); }

static long double gelu_slope(long double x)
{
    const long double t = tanhl(gelu_inner(x));
    return 0.5L * (1 + t) + 0.5L * x * (1 - t * t) * 0.7978845608028654L * (1 + 0.134145L * x * x);
}

// How far d may be from the element's value in exact arithmetic.
static void expect(const problem *p, const gemm_precision *with, bool ours, int64_t z, int64_t row,
                   int64_t col, long double *value, long double *bound)
{
    const epilogue *end = &p->end;
    const sums *s = &p->sums[(z * p->size.m + row) * p->size.n + col];
    const bool tf32 = with->compute == BT_COMPUTE_TF32, wide = with->ab == BT_F64;
    const bool biased = end->epilogue == BT_EPILOGUE_BIAS || end->epilogue == BT_EPILOGUE_BIAS_GELU;
    const long double bias =
        biased ? (long double)get(with->ab, place_of(&p->bias, p->bias.image, 0, 0, col)) : 0;
    const matrix *c = end->in_place ? &p->d : &p->c;
    const long double added =
        end->beta != 0
            ? (long double)(end->beta * get(c->dtype, place_of(c, c->image, z, row, col)))
            : 0;
    const long double alpha = fabsl((long double)end->alpha);
    const long double epsilon = wide ? 0x1p-52L : 0x1p-23L, least = wide ? 0x1p-1074L : 0x1p-149L;
    const long double inputs = !tf32 ? 0 : ours ? 0x1p-11L : 0x1p-10L;
    const long double terms = (long double)(p->size.k + 2);
    *value = (long double)end->alpha * s->sum + bias;
    *bound = 2 * terms * (epsilon * (alpha * s->magnitude + fabsl(bias) + fabsl(added)) + least) +
             alpha * (2.01L * inputs * s->magnitude + (tf32 ? 0x1p-136L : 0) * s->sides);
    if (!ours && with->d == BT_BF16) { // cuBLASLt rounds on the way
        *bound += 0x1p-8L * (alpha * fabsl(s->sum) + fabsl(bias) + fabsl(added));
    }
    if (end->epilogue == BT_EPILOGUE_BIAS_GELU) { // slopes up to 1.13, tanh good to 2^-10
        if (with->d == BT_BF16) {                 // GELU is taken of aux as it is stored
            *bound += (long double)bt_dtype_epsilon(BT_BF16) / 2 * fabsl(*value);
        }
        *bound = 1.13L * *bound + (wide ? 0 : 0x1p-10L) * fabsl(*value);
        *value = gelu(*value);
    } else if (end->epilogue == BT_EPILOGUE_DGELU) {
        const double aux = get(with->d, place_of(&p->aux, p->aux.image, z, row, col));
        *bound = 1.13L * *bound + (wide ? 0x1p-50L : 0x1p-9L) * fabsl(*value);
        *value *= gelu_slope((long double)aux);
    }
    *value += added;
    *bound += (long double)bt_dtype_epsilon(with->d) / 2 * fabsl(*value) +
              (with->d == BT_BF16 ? 0x1p-134L : least);
}

static void check_element(const bench *on, const problem *p, const bt_kernel *row, double got,
                          int64_t z, int64_t i, int64_t j)
{
    long double value, bound;
    expect(p, on->precision, strstr(row->name, "cublaslt") == NULL, z, i, j, &value, &bound);
    const double expected = rounded(on->precision->d, value);
    const bool same = isnan(expected)   ? isnan(got)
                      : isinf(expected) ? got == expected
                                        : fabsl((long double)got - value) <= bound;
    if (!same) {
        fail_msg("%s, %s: %s values, [%lld,%lld,%lld] x %lld, pad %lld, offset %lld, transposed "
                 "%d %d, epilogue %d, alpha %g, beta %g: d[%lld,%lld,%lld] is %.9g, expected %.9g, "
                 "error %.3Lg > %.3Lg",
                 row->name, bt_dtype_name(on->precision->d), values_name(on->values),
                 (long long)p->size.m, (long long)p->size.n, (long long)p->size.k,
                 (long long)p->size.batch, (long long)p->size.pad, (long long)p->size.offset,
                 p->trans_a, p->trans_b, (int)p->end.epilogue, p->end.alpha, p->end.beta,
                 (long long)z, (long long)i, (long long)j, got, expected,
                 fabsl((long double)got - value), bound);
    }
}

// ---- rows --------------------------------------------------------------------------------------

bool test_gemm_serves(const bt_device *device, const bt_kernel *row, const bt_gemm_args *args)
{
    return row->op == BT_KERNEL_GEMM && row->dtype == args->ab_dtype &&
           row->min_arch <= device->info.arch && (!row->accepts || row->accepts(device, args));
}

static void upload(const bench *on, const matrix *from)
{
    ASSERT_OK(on->device->backend->copy(on->device, from->memory, from->image, from->size_bytes,
                                        BT_COPY_HOST_TO_DEVICE, NULL));
}

// The matrix as the device has it; free() it.
static unsigned char *download(const bench *on, const matrix *from)
{
    unsigned char *image = malloc(from->size_bytes);
    assert_non_null(image);
    ASSERT_OK(on->device->backend->copy(on->device, image, from->memory, from->size_bytes,
                                        BT_COPY_DEVICE_TO_HOST, NULL));
    ASSERT_OK(on->device->backend->stream_synchronize(on->device, NULL));
    return image;
}

// Every element of D, and nothing but them.
static void check_row(const bench *on, const problem *p, const bt_kernel *row)
{
    const matrix *d = &p->d;
    unsigned char *image = download(on, d);
    const size_t size = bt_dtype_size(d->dtype);
    for (int64_t i = 0; i < d->batch * d->rows * d->cols; ++i) {
        const int64_t z = i / (d->rows * d->cols), r = i / d->cols % d->rows, c = i % d->cols;
        unsigned char *place = place_of(d, image, z, r, c);
        check_element(on, p, row, get(d->dtype, place), z, r, c);
        memcpy(place, place_of(d, d->image, z, r, c), size);
    }
    if (memcmp(image, d->image, d->size_bytes) != 0) {
        fail_msg("%s writes outside of D", row->name);
    }
    free(image);
}

static void run_row(bench *on, const problem *p, const bt_kernel *row, const bt_gemm_args *args)
{
    bt_launch launch = {.device = on->device};
    upload(on, &p->a);
    upload(on, &p->b);
    upload(on, &p->c);
    upload(on, &p->d);
    upload(on, &p->aux);
    upload(on, &p->bias);
    if (row->workspace) {
        launch.workspace_bytes = row->workspace(on->device, args);
        ASSERT_OK(on->device->backend->memory_alloc(on->device, launch.workspace_bytes,
                                                    &launch.workspace));
    }
    ASSERT_OK(row->launch(&launch, args));
    check_row(on, p, row);
    if (launch.workspace) {
        on->device->backend->memory_free(on->device, launch.workspace);
    }
    ++on->served;
}

static bt_gemm_args describe(const problem *p, const gemm_precision *with)
{
    const shape *s = &p->size;
    const matrix *c = p->end.in_place ? &p->d : &p->c;
    return (bt_gemm_args){.m = s->m,
                          .n = s->n,
                          .k = s->k,
                          .trans_a = p->trans_a,
                          .trans_b = p->trans_b,
                          .a = address_of(&p->a),
                          .b = address_of(&p->b),
                          .c = address_of(c),
                          .d = address_of(&p->d),
                          .lda = p->a.ld,
                          .ldb = p->b.ld,
                          .ldc = c->ld,
                          .ldd = p->d.ld,
                          .batch = s->batch,
                          .stride_a = p->a.rows * p->a.ld,
                          .stride_b = p->b.rows * p->b.ld,
                          .stride_c = c->rows * c->ld,
                          .stride_d = p->d.rows * p->d.ld,
                          .alpha = p->end.alpha,
                          .beta = p->end.beta,
                          .epilogue = p->end.epilogue,
                          .bias = address_of(&p->bias),
                          .aux = address_of(&p->aux),
                          .ab_dtype = with->ab,
                          .d_dtype = with->d,
                          .compute = with->compute};
}

// cuBLASLt gives tf32's tensor cores f32 as it is, of which they read the upper 19 bits: a NaN of
// lower bits alone becomes an infinity.
static bool excused(const bench *on, const bt_kernel *row)
{
    return on->values == GEMM_VALUES_NAN_PAYLOADS && on->precision->compute == BT_COMPUTE_TF32 &&
           strstr(row->name, "cublaslt");
}

// BT_TEST_ROWS, a part of rows' names, leaves the others out: for tools that are slow.
static bool wanted(const bt_kernel *row)
{
    const char *part = getenv("BT_TEST_ROWS");
    return !part || strstr(row->name, part);
}

static void run_epilogue(bench *on, problem *p)
{
    const gemm_precision *with = on->precision;
    const size_t used = on->used_bytes;
    int rows = 0;
    p->d = make_matrix(on, with->d, p->size.m, p->size.n, &p->size);
    p->c = make_matrix(on, with->d, p->size.m, p->size.n, &p->size);
    p->aux = make_matrix(on, with->d, p->size.m, p->size.n, &p->size);
    p->bias = make_matrix(on, with->ab, 1, p->size.n, &p->size);
    draw_random(&p->bias, 3);
    draw_random(&p->aux, 4);
    if (p->end.beta != 0) { // else what d and c hold, NaN, must not be read
        draw_random(p->end.in_place ? &p->d : &p->c, 5);
    }
    const bt_gemm_args args = describe(p, with);
    const bt_kernel *table = bt_kernel_table(on->device, &rows);
    for (const bt_kernel *row = table; row < table + rows; ++row) {
        if (wanted(row) && test_gemm_serves(on->device, row, &args) && !excused(on, row)) {
            run_row(on, p, row, &args);
        }
    }
    free(p->d.image), free(p->c.image), free(p->aux.image), free(p->bias.image);
    on->used_bytes = used;
}

// The operands of a shape in one of the four layouts, through epilogues.
static void run_shape(bench *on, const shape *size, int layout, const epilogue *epilogues,
                      int count)
{
    problem p = {.size = *size, .trans_a = layout & 1, .trans_b = layout & 2};
    const bt_dtype ab = on->precision->ab;
    p.a = make_matrix(on, ab, p.trans_a ? size->k : size->m, p.trans_a ? size->m : size->k, size);
    p.b = make_matrix(on, ab, p.trans_b ? size->n : size->k, p.trans_b ? size->k : size->n, size);
    draw(on, &p.a, true, p.trans_a, size->k, 1);
    draw(on, &p.b, false, p.trans_b, size->k, 2);
    add_up(&p);
    for (int i = 0; i < count; ++i) {
        p.end = epilogues[i];
        run_epilogue(on, &p);
    }
    free(p.a.image), free(p.b.image), free(p.sums);
    on->used_bytes = 0;
}

static bench open_bench(bt_device *device, const gemm_precision *precision, gemm_values values)
{
    bench on = {.device = device, .precision = precision, .values = values};
    if (device->backend->kind == BT_DEVICE_CPU) {
        omp_set_num_threads(1); // thousands of calls too short for more
    }
    ASSERT_OK(device->backend->memory_alloc(device, ARENA_BYTES, &on.arena));
    return on;
}

int test_gemm_values(bt_device *device, const gemm_precision *precision, gemm_values values)
{
    static const shape shapes[] = {
        {1, 1, 1, 1, 0, 0},     {2, 3, 5, 1, 0, 1},      {1, 17, 9, 1, 3, 0},
        {31, 1, 65, 1, 0, 0},   {7, 129, 3, 2, 1, 1},    {65, 66, 67, 1, 1, 1},
        {16, 16, 16, 1, 0, 0},  {130, 136, 72, 1, 8, 0}, {129, 40, 33, 1, 0, 0},
        {257, 8, 40, 2, 8, 0},  {24, 16, 2056, 1, 0, 0}, {8, 24, 4096, 1, 8, 0},
        {136, 200, 64, 1, 0, 0}};
    static const epilogue epilogues[] = {
        {BT_EPILOGUE_NONE, 1, 0, false},      {BT_EPILOGUE_BIAS, 0.75, 0, false},
        {BT_EPILOGUE_NONE, 1, 1, true},       {BT_EPILOGUE_BIAS, 1, -0.5, false},
        {BT_EPILOGUE_BIAS_GELU, 1, 0, false}, {BT_EPILOGUE_DGELU, 1, 0, false}};
    // How many of the epilogues a kind goes through: a bias would hide what is denormal, and GELU
    // of an infinity has no value that all agree on.
    static const int epilogue_count[] = {
        [GEMM_VALUES_RANDOM] = 6,      [GEMM_VALUES_CANCELLING] = 6, [GEMM_VALUES_DENORMAL] = 1,
        [GEMM_VALUES_HUGE_VALUES] = 2, [GEMM_VALUES_NAN_ONLY] = 6,   [GEMM_VALUES_NAN_PAYLOADS] = 4,
        [GEMM_VALUES_INFINITE] = 4};
    bench on = open_bench(device, precision, values);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; ++i) {
        for (int layout = 0; layout < 4; ++layout) {
            if (TEST_SANITIZED) { // the plain product, and the others in turn
                const int at = ((int)i + layout) % epilogue_count[values];
                const epilogue some[] = {epilogues[0], epilogues[at]};
                run_shape(&on, &shapes[i], layout, some, at > 0 ? 2 : 1);
            } else {
                run_shape(&on, &shapes[i], layout, epilogues, epilogue_count[values]);
            }
        }
    }
    device->backend->memory_free(device, on.arena);
    return on.served;
}

int test_gemm_small_sizes(bt_device *device, const gemm_precision *precision)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 8, 9};
    static const epilogue plain = {BT_EPILOGUE_NONE, 1, 0, false};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    bench on = open_bench(device, precision, GEMM_VALUES_RANDOM);
    for (int i = 0; i < COUNT * COUNT * COUNT; ++i) {
        const shape size = {
            sizes[i / COUNT / COUNT], sizes[i / COUNT % COUNT], sizes[i % COUNT], 1, 0, 0};
        for (int layout = 0; layout < 4; ++layout) {
            run_shape(&on, &size, layout, &plain, 1);
        }
    }
    device->backend->memory_free(device, on.arena);
    return on.served;
}
