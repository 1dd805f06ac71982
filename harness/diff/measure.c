// harness/diff/measure.c - norms of a difference, and its bound
#include "harness/diff/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- elements -----------------------------------------------------------------------------------

double bt_diff_element(const bt_diff_value *value, int64_t i)
{
    const char *at = (const char *)value->data + (size_t)i * bt_dtype_size(value->dtype);
    double f64 = 0;
    float f32 = 0;
    int64_t i64 = 0;
    int32_t i32 = 0;
    uint16_t u16 = 0;
    switch (value->dtype) {
    case BT_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case BT_F32:
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    case BT_BF16:
        memcpy(&u16, at, sizeof u16);
        return (double)bt_bf16_to_f32(u16);
    case BT_I64:
        memcpy(&i64, at, sizeof i64);
        return (double)i64;
    case BT_I32:
        memcpy(&i32, at, sizeof i32);
        return (double)i32;
    case BT_U16:
        memcpy(&u16, at, sizeof u16);
        return (double)u16;
    case BT_F16: // no op computes with it
    case BT_U8:
    case BT_BOOL:
    case BT_DTYPE_COUNT:
        break;
    }
    return (double)(unsigned char)*at;
}

static bool same_bits(const bt_diff_value *a, const bt_diff_value *b, int64_t i)
{
    const size_t size = bt_dtype_size(a->dtype), at = (size_t)i * size;
    return memcmp((const char *)a->data + at, (const char *)b->data + at, size) == 0;
}

static bool same_value(double x, double y)
{
    return (isnan(x) && isnan(y)) || !(x < y || x > y || isnan(x) || isnan(y));
}

// Sums over some elements, before the root.
typedef struct part {
    int64_t differing, first, worst; // first, worst: -1 if there is none
    double first_a, first_b, max, squares, norm, largest;
} part;

static void measure(const bt_diff_value *a, const bt_diff_value *b, int64_t begin, int64_t end,
                    part *out)
{
    *out = (part){.first = -1, .worst = -1};
    for (int64_t i = begin; i < end; ++i) {
        const double x = bt_diff_element(a, i), y = bt_diff_element(b, i);
        const bool same = same_value(x, y);
        const double gap = same ? 0 : isfinite(x - y) ? fabs(x - y) : (double)INFINITY;
        if (a->dtype == b->dtype ? !same_bits(a, b, i) : !same) {
            ++out->differing;
            if (out->first < 0) {
                out->first = i;
                out->first_a = x;
                out->first_b = y;
            }
        }
        if (gap > out->max) {
            out->max = gap;
            out->worst = i;
        }
        out->squares += gap * gap;
        out->norm += isfinite(x) ? x * x : 0;
        out->largest = isfinite(x) ? fmax(out->largest, fabs(x)) : out->largest;
    }
}

static void add_part(part *sum, const part *next)
{
    if (sum->first < 0) {
        sum->first = next->first;
        sum->first_a = next->first_a;
        sum->first_b = next->first_b;
    }
    if (next->max > sum->max) {
        sum->max = next->max;
        sum->worst = next->worst;
    }
    sum->differing += next->differing;
    sum->squares += next->squares;
    sum->norm += next->norm;
    sum->largest = fmax(sum->largest, next->largest);
}

// Pieces of a fixed size, added in order: the same sums for any number of threads.
void bt_difference_of(const bt_diff_value *a, const bt_diff_value *b, bt_difference *out)
{
    enum { PIECE = 1 << 15, PIECES = 64 };
    part sum = {.first = -1, .worst = -1};
    for (int64_t base = 0; base < a->count; base += (int64_t)PIECE * PIECES) {
        part parts[PIECES];
        const int64_t left = (a->count - base + PIECE - 1) / PIECE;
        const int pieces = left < PIECES ? (int)left : PIECES;
#pragma omp parallel for schedule(dynamic) if (pieces > 1)
        for (int i = 0; i < pieces; ++i) {
            const int64_t begin = base + (int64_t)i * PIECE;
            measure(a, b, begin, begin + PIECE < a->count ? begin + PIECE : a->count, &parts[i]);
        }
        for (int i = 0; i < pieces; ++i) {
            add_part(&sum, &parts[i]);
        }
    }
    *out = (bt_difference){.elements = a->count,
                           .differing = sum.differing,
                           .first = sum.first,
                           .first_a = sum.first_a,
                           .first_b = sum.first_b,
                           .max = sum.max,
                           .worst = sum.worst,
                           .l2 = sqrt(sum.squares),
                           .norm = sqrt(sum.norm)};
    out->l2_relative = out->l2 > 0 ? out->l2 / out->norm : 0;
    out->max_relative = out->max > 0 ? out->max / sum.largest : 0;
}

const char *bt_element_text(const bt_shape *shape, int64_t element, char text[64])
{
    int64_t index[BT_MAX_RANK] = {0};
    size_t at = 1;
    for (int i = shape->rank - 1; i >= 0; --i) {
        const int64_t size = shape->size[i] > 0 ? shape->size[i] : 1;
        index[i] = element % size;
        element /= size;
    }
    (void)snprintf(text, 64, "[");
    for (int i = 0; i < shape->rank && at < 60; ++i) {
        at += (size_t)snprintf(text + at, 64 - at, "%s%lld", i ? ", " : "", (long long)index[i]);
    }
    if (at < 63) {
        (void)snprintf(text + at, 64 - at, "]");
    }
    return text;
}

// ---- the bound ----------------------------------------------------------------------------------

static double rounding_of(bt_precision precision)
{
    static const double roundings[] = {[BT_PRECISION_FP32] = BT_DIFF_U_FP32,
                                       [BT_PRECISION_TF32] = 0x1p-11,
                                       [BT_PRECISION_BF16] = 0x1p-8};
    return roundings[precision];
}

bt_diff_bound bt_diff_bound_make(const bt_diff_arithmetic sides[2], double longest)
{
    const bool same = sides[0].precision == sides[1].precision && !sides[0].other_order &&
                      !sides[1].other_order && !sides[0].other_program && !sides[1].other_program;
    const double rounding = rounding_of(sides[0].precision) + rounding_of(sides[1].precision) +
                            BT_DIFF_U_FP32 * sqrt(longest);
    return (bt_diff_bound){.margin = BT_DIFF_MARGIN, .rounding = same ? 0 : rounding};
}

double bt_diff_bound_of(const bt_diff_bound *bound, const bt_diff_value *value,
                        const bt_difference *difference)
{
    const double error = bound->rounding + bound->drift;
    const double depth = value->depth > 0 ? (double)value->depth : 1;
    const char *moment = "state.adamw.";
    if (value->kind == BT_TRAIN_VALUE_INITIAL || value->kind == BT_TRAIN_VALUE_INPUT ||
        error <= 0) {
        return 0;
    }
    double limit = bound->margin * sqrt(depth) * error;
    if (value->kind != BT_TRAIN_VALUE_STATE) {
        return limit;
    }
    if (strncmp(value->name, moment, strlen(moment)) == 0) {
        return value->name[strlen(moment)] == 'v' ? 2 * limit : limit;
    }
    // A norm of 0 bounds nothing: any difference of such a parameter is infinite.
    return 2 * bound->travelled * sqrt((double)value->count) / difference->norm;
}
