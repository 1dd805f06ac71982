// harness/cases/kernel_parts.c - selects the parts of a call that its check computes
//
// A call of up to ELEMENTS_ALL elements (rows times the longest row) and FLOPS_SAMPLE operations is
// checked in full, some rows at a time. For a larger one a sample is checked: the first part, the
// last, and one random part of each of equal strata in between; ELEMENTS_SAMPLE elements or
// FLOPS_SAMPLE operations in total. A part is
//   attention          a head of a batch entry
//   batched products   a block of D with its rows of A and of B
//   anything else      a block of rows
// If outputs are sums over rows, every row is computed and those sums are compared in full; only
// the rows of the other outputs are sampled. A transpose, and a norm over tensors, which are one
// call, are always checked in full.
#include "framework/base/rng.h"
#include "harness/cases/kernel.h"

#define ELEMENTS_ALL    (1LL << 24)
#define ELEMENTS_SAMPLE (1LL << 22)
#define FLOPS_SAMPLE    ((double)(1LL << 32))
#define CHUNK_ELEMENTS  (1LL << 22) // of the operand with the longest rows
#define SAMPLE_PARTS    16          // of rows
#define SAMPLE_CHUNKS   4           // used if all rows are computed
#define SAMPLE_LEAST    2           // the first and the last
#define BLOCK_SIDE      64          // of a product's D
#define STREAM_PARTS    0x70617274U // random streams: separate from those of operands

int64_t bt_kernel_window_count(const kernel_window *window)
{
    return window->runs * window->length;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t between(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static bool is_attention(const bt_kernel_body *body)
{
    return body->what == BT_KERNEL_CASE_attention || body->what == BT_KERNEL_CASE_attention_causal;
}

static bool is_batched(const bt_kernel_body *body)
{
    return body->what == BT_KERNEL_CASE_gemm_batched;
}

static int64_t longest_row(const bt_kernel_body *body)
{
    int64_t longest = 1;
    for (int i = 0; i < body->count; ++i) {
        longest = body->operands[i].per_row > longest ? body->operands[i].per_row : longest;
    }
    return longest;
}

static bool sums_over_rows(const bt_kernel_body *body)
{
    for (int i = 0; i < body->count; ++i) {
        if (bt_operand_is_output(&body->operands[i]) && body->operands[i].per_row == 0) {
            return true;
        }
    }
    return false;
}

// The number of parts of this size in a sample.
static int64_t affordable(double part_elements, double part_flops)
{
    double by_elements = (double)ELEMENTS_SAMPLE / part_elements;
    double by_flops = part_flops > 0 ? FLOPS_SAMPLE / part_flops : by_elements;
    double count = by_elements < by_flops ? by_elements : by_flops;
    return count < SAMPLE_LEAST ? SAMPLE_LEAST : (int64_t)count;
}

void bt_kernel_parts_make(const bt_kernel_body *body, uint64_t seed, kernel_parts *out)
{
    const int64_t longest = longest_row(body), rows = body->rows;
    const int64_t *axes = body->shape.axes;
    const double flops = bt_kernel_flops(body->what, body->backward, &body->shape);
    const bool large = (double)rows * (double)longest > (double)ELEMENTS_ALL ||
                       (flops > FLOPS_SAMPLE && !sums_over_rows(body));
    *out = (kernel_parts){.body = body, .seed = seed};
    out->sampled = large && body->in_chunks;
    out->all_rows = sums_over_rows(body);
    if (!out->sampled || out->all_rows) {
        out->rows = body->in_chunks ? between(CHUNK_ELEMENTS / longest, 1, rows) : rows;
        out->count = out->rows > 0 ? (rows + out->rows - 1) / out->rows : 0;
    } else if (is_attention(body)) {
        const double heads = (double)axes[0] * (double)axes[1];
        out->count =
            least(axes[0] * axes[1], affordable((double)axes[2] * (double)axes[3], flops / heads));
    } else if (is_batched(body)) {
        const double m = (double)least(axes[1], BLOCK_SIDE), n = (double)least(axes[2], BLOCK_SIDE);
        out->count = affordable((m + n) * (double)axes[3], 2 * m * n * (double)axes[3]);
    } else {
        int64_t sample = affordable((double)longest, flops / (double)rows);
        out->count = least(SAMPLE_PARTS, least(sample, rows));
        out->rows = sample / out->count;
    }
}

// The position of the part among `places`: 0 for the first part, the last for the last one, a
// random one of its stratum for the others. `draw` distinguishes random numbers of one part.
static int64_t place_of(const kernel_parts *parts, int64_t index, int draw, int64_t places)
{
    const int64_t low = places * index / parts->count, high = places * (index + 1) / parts->count;
    const bt_rng rng = {parts->seed, STREAM_PARTS + (uint64_t)draw};
    if (index == 0 || high <= low) {
        return index == 0 ? 0 : low < places ? low : places - 1;
    }
    return index == parts->count - 1
               ? places - 1
               : low + (int64_t)bt_rng_below(rng, (uint64_t)index, (uint64_t)(high - low));
}

// The same, from all places: for an axis that strata do not divide.
static int64_t anywhere(const kernel_parts *parts, int64_t index, int draw, int64_t places)
{
    const bt_rng rng = {parts->seed, STREAM_PARTS + (uint64_t)draw};
    return index == 0 ? 0
           : index == parts->count - 1
               ? places - 1
               : (int64_t)bt_rng_below(rng, (uint64_t)index, (uint64_t)places);
}

static void rows_part(const kernel_parts *parts, int64_t index, kernel_part *out)
{
    const bt_kernel_body *body = parts->body;
    const bool all = !parts->sampled || parts->all_rows;
    const int64_t start =
        all ? index * parts->rows : place_of(parts, index, 0, body->rows - parts->rows + 1);
    const int64_t rows = least(parts->rows, body->rows - start);
    const int64_t some = least(SAMPLE_CHUNKS, parts->count);
    out->body.rows = rows;
    out->compared = !parts->sampled || !parts->all_rows;
    const kernel_parts chosen = {.seed = parts->seed, .count = some};
    for (int64_t i = 0; i < some && !out->compared; ++i) {
        out->compared = place_of(&chosen, i, 0, parts->count) == index;
    }
    for (int i = 0; i < body->count; ++i) {
        const bt_operand *operand = &body->operands[i];
        out->windows[i] =
            (kernel_window){operand->per_row * start, 1, 0, bt_operand_count(operand, rows)};
    }
}

// A head: token-major operands have strided rows, the others (lse) contiguous ones.
static void head_part(const kernel_parts *parts, int64_t index, kernel_part *out)
{
    const bt_kernel_body *body = parts->body;
    const int64_t *axes = body->shape.axes;
    const int64_t heads = axes[1], tokens = axes[2], size = axes[3];
    const int64_t place = place_of(parts, index, 0, axes[0] * heads);
    bt_kernel_shape shape = body->shape;
    shape.axes[0] = shape.axes[1] = 1;
    shape.count = tokens * size;
    bt_kernel_body_reshape(body, &shape, &out->body);
    for (int i = 0; i < body->count; ++i) {
        const bool rows = body->operands[i].per_row == heads * tokens * size;
        const int64_t first = place / heads * body->operands[i].per_row;
        out->windows[i] =
            rows ? (kernel_window){first + place % heads * size, tokens, heads * size, size}
                 : (kernel_window){first + place % heads * tokens, 1, 0, tokens};
    }
    out->compared = true;
}

// A block of D [m, n] = A [m, k] B [n, k]^T of one batch entry.
static void block_part(const kernel_parts *parts, int64_t index, kernel_part *out)
{
    const bt_kernel_body *body = parts->body;
    const int64_t m = body->shape.axes[1], n = body->shape.axes[2], k = body->shape.axes[3];
    const int64_t height = least(m, BLOCK_SIDE), width = least(n, BLOCK_SIDE);
    const int64_t entry = place_of(parts, index, 0, body->shape.axes[0]);
    const int64_t row = anywhere(parts, index, 1, m - height + 1);
    const int64_t col = anywhere(parts, index, 2, n - width + 1);
    bt_kernel_shape shape = body->shape;
    shape.axes[0] = 1;
    shape.axes[1] = height;
    shape.axes[2] = width;
    shape.count = height * width * k;
    bt_kernel_body_reshape(body, &shape, &out->body);
    out->windows[0] = (kernel_window){(entry * m + row) * k, 1, 0, height * k};
    out->windows[1] = (kernel_window){(entry * n + col) * k, 1, 0, width * k};
    out->windows[2] = (kernel_window){(entry * m + row) * n + col, height, n, width};
    out->compared = true;
}

void bt_kernel_part_at(const kernel_parts *parts, int64_t index, kernel_part *out)
{
    const bool some = parts->sampled && !parts->all_rows;
    out->body = *parts->body;
    out->first = index == 0;
    out->last = index == parts->count - 1;
    if (some && is_attention(parts->body)) {
        head_part(parts, index, out);
    } else if (some && is_batched(parts->body)) {
        block_part(parts, index, out);
    } else {
        rows_part(parts, index, out);
    }
}
