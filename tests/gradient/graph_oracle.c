// tests/gradient/graph_oracle.c - forward-mode differentiation of a graph in dual numbers
//
// Each op is its textbook formula over dual numbers: no backward formulas, no tape, no kernels.
// Memory is modelled (storage and places), so that writes and views mean what they mean.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gradient/graph.h"

#define VALUE_MOST 30.0
#define POLE       0.2

typedef struct world {
    const graph *g;
    double memory[GRAPH_NODES][GRAPH_ELEMENTS]; // by the node that made it
    double d[GRAPH_NODES][GRAPH_ELEMENTS];      // derivative, by node
    bool good;
} world;

static dual add(dual a, dual b) { return (dual){a.v + b.v, a.d + b.d}; }
static dual sub(dual a, dual b) { return (dual){a.v - b.v, a.d - b.d}; }
static dual mul(dual a, dual b) { return (dual){a.v * b.v, a.d * b.v + a.v * b.d}; }
static dual scaled(dual a, double factor) { return (dual){a.v * factor, a.d * factor}; }
static dual quotient(dual a, dual b)
{
    return (dual){a.v / b.v, (a.d * b.v - a.v * b.d) / (b.v * b.v)};
}
static dual exponential(dual a) { return (dual){exp(a.v), exp(a.v) * a.d}; }
static dual logarithm(dual a) { return (dual){log(a.v), a.d / a.v}; }
static dual root(dual a) { return (dual){sqrt(a.v), a.d / (2 * sqrt(a.v))}; }
static dual tangent(dual a)
{
    const double t = tanh(a.v);
    return (dual){t, (1 - t * t) * a.d};
}
static dual logistic(dual a)
{
    const dual one = {1, 0};
    return quotient(one, add(one, exponential(scaled(a, -1))));
}

// The tanh form.
static dual gelu(dual x)
{
    const double c = 0.7978845608028654; // sqrt(2 / pi)
    const dual cube = mul(mul(x, x), x), one = {1, 0};
    return mul(scaled(x, 0.5), add(one, tangent(scaled(add(x, scaled(cube, 0.044715)), c))));
}

static dual unary(const graph_node *n, dual x)
{
    switch ((bt_unary)n->function) {
    case BT_UNARY_GELU:
        return gelu(x);
    case BT_UNARY_RELU:
        return x.v > 0 ? x : (dual){0, 0};
    case BT_UNARY_SILU:
        return mul(x, logistic(x));
    case BT_UNARY_TANH:
        return tangent(x);
    case BT_UNARY_SIGMOID:
        return logistic(x);
    case BT_UNARY_EXP:
        return exponential(x);
    case BT_UNARY_LOG:
        return x.v > POLE ? logarithm(x) : (dual){(double)NAN, 0};
    case BT_UNARY_SQRT:
        return x.v > POLE ? root(x) : (dual){(double)NAN, 0};
    case BT_UNARY_NEGATE:
        return scaled(x, -1);
    case BT_UNARY_SQUARE:
        return mul(x, x);
    case BT_UNARY_SCALE:
        return scaled(x, n->alpha);
    case BT_UNARY_SHIFT:
        return (dual){x.v + n->alpha, x.d};
    case BT_UNARY_COUNT:
        break;
    }
    return (dual){(double)NAN, 0};
}

// ---- reading ------------------------------------------------------------------------------------

static const graph_node *node(const world *w, int n) { return &w->g->nodes[n]; }

static dual get(const world *w, int n, int64_t element)
{
    const graph_node *from = node(w, n);
    return (dual){w->memory[from->storage][from->place[element]], w->d[n][element]};
}

static void set(world *w, int n, int64_t element, dual value)
{
    const graph_node *to = node(w, n);
    w->memory[to->storage][to->place[element]] = value.v;
    w->d[n][element] = value.d;
    w->good = w->good && fabs(value.v) <= VALUE_MOST;
}

static int64_t count_of(const world *w, int n) { return bt_shape_count(&node(w, n)->shape); }

static int64_t last_of(const world *w, int n)
{
    const bt_shape *shape = &node(w, n)->shape;
    return shape->size[shape->rank - 1];
}

// The product of all sizes but the last.
static int64_t rows_of(const world *w, int n)
{
    const bt_shape *shape = &node(w, n)->shape;
    int64_t rows = 1;
    for (int i = 0; i + 1 < shape->rank; ++i) {
        rows *= shape->size[i];
    }
    return rows;
}

// Element i of `shape` read in a tensor that is broadcast to it.
static int64_t broadcast(const bt_shape *shape, const bt_shape *from, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int axis = shape->rank - 1; axis >= shape->rank - from->rank; --axis) {
        const int64_t size = from->size[axis - (shape->rank - from->rank)];
        at += size == 1 ? 0 : i % shape->size[axis] * step;
        step *= size;
        i /= shape->size[axis];
    }
    return at;
}

static dual binary(const world *w, int n, int64_t i)
{
    const graph_node *self = node(w, n);
    const int a = self->in[0], b = self->in[1];
    const dual x = get(w, a, broadcast(&self->shape, &node(w, a)->shape, i));
    const dual y = get(w, b, broadcast(&self->shape, &node(w, b)->shape, i));
    switch ((bt_binary)self->function) {
    case BT_BINARY_ADD:
        return add(x, y);
    case BT_BINARY_SUB:
        return sub(x, y);
    case BT_BINARY_MUL:
        return mul(x, y);
    case BT_BINARY_DIV:
        return fabs(y.v) > POLE ? quotient(x, y) : (dual){(double)NAN, 0};
    case BT_BINARY_COUNT:
        break;
    }
    return (dual){(double)NAN, 0};
}

// ---- ops over rows ------------------------------------------------------------------------------

static void softmax(dual *row, int64_t cols)
{
    dual sum = {0, 0}, largest = row[0];
    for (int64_t c = 1; c < cols; ++c) {
        largest.v = fmax(largest.v, row[c].v);
    }
    largest.d = 0; // a constant that changes nothing but the exponentials' range
    for (int64_t c = 0; c < cols; ++c) {
        row[c] = exponential(sub(row[c], largest));
        sum = add(sum, row[c]);
    }
    for (int64_t c = 0; c < cols; ++c) {
        row[c] = quotient(row[c], sum);
    }
}

static void normalise(dual *row, int64_t cols)
{
    dual mean = {0, 0}, variance = {1e-5, 0};
    for (int64_t c = 0; c < cols; ++c) {
        mean = add(mean, scaled(row[c], 1.0 / (double)cols));
    }
    for (int64_t c = 0; c < cols; ++c) {
        row[c] = sub(row[c], mean);
        variance = add(variance, scaled(mul(row[c], row[c]), 1.0 / (double)cols));
    }
    for (int64_t c = 0; c < cols; ++c) {
        row[c] = quotient(row[c], root(variance));
    }
}

// Softmax, layer normalisation and that of a sum: of x's rows.
static void row_op(world *w, int n)
{
    const graph_node *self = node(w, n);
    const int64_t cols = last_of(w, n), rows = rows_of(w, n);
    const bool sums = self->kind == GRAPH_ADD_LAYERNORM;
    dual row[GRAPH_ELEMENTS];
    for (int64_t r = 0; r < rows; ++r) {
        double size = 0;
        for (int64_t c = 0; c < cols; ++c) {
            row[c] = get(w, self->in[0], r * cols + c);
            row[c] = sums ? add(row[c], get(w, self->in[3], r * cols + c)) : row[c];
            if (sums) {
                set(w, n + 1, r * cols + c, row[c]);
            }
            size = fmax(size, fabs(row[c].v - row[0].v));
        }
        if (self->kind == GRAPH_SOFTMAX) {
            softmax(row, cols);
        } else {
            w->good = w->good && size > POLE; // else the row's deviation is near its pole
            normalise(row, cols);
        }
        for (int64_t c = 0; c < cols; ++c) {
            if (self->kind != GRAPH_SOFTMAX) {
                row[c] = mul(row[c], get(w, self->in[1], c));
                row[c] = self->in[2] >= 0 ? add(row[c], get(w, self->in[2], c)) : row[c];
            }
            set(w, n, r * cols + c, row[c]);
        }
    }
}

static void cross_entropy(world *w, int n)
{
    const graph_node *self = node(w, n);
    const int64_t cols = last_of(w, self->in[0]), rows = rows_of(w, self->in[0]);
    dual row[GRAPH_ELEMENTS], mean = {0, 0};
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
            row[c] = get(w, self->in[0], r * cols + c);
        }
        softmax(row, cols);
        mean = sub(mean, scaled(logarithm(row[(int)self->values[r]]), 1.0 / (double)rows));
    }
    set(w, n, 0, mean);
}

// ---- products -----------------------------------------------------------------------------------

// sum_k x[row, k] weight[col, k] + bias[col]
static dual product_of(const world *w, const dual *x, int64_t inner, int weight, int bias,
                       int64_t col)
{
    dual sum = {0, 0};
    for (int64_t k = 0; k < inner; ++k) {
        sum = add(sum, mul(x[k], get(w, weight, col * inner + k)));
    }
    return bias >= 0 ? add(sum, get(w, bias, col)) : sum;
}

static void linear(world *w, int n)
{
    const graph_node *self = node(w, n);
    const bool mlp = self->kind == GRAPH_FEED_FORWARD;
    const int64_t inner = last_of(w, self->in[0]), rows = rows_of(w, self->in[0]);
    const int64_t hidden = node(w, self->in[1])->shape.size[0], out = last_of(w, n);
    const int residual = mlp ? self->in[5] : self->in[3];
    dual x[GRAPH_ELEMENTS], middle[GRAPH_ELEMENTS];
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t k = 0; k < inner; ++k) {
            x[k] = get(w, self->in[0], r * inner + k);
        }
        for (int64_t h = 0; h < hidden; ++h) {
            middle[h] = product_of(w, x, inner, self->in[1], self->in[2], h);
            middle[h] = mlp || self->trans_a ? gelu(middle[h]) : middle[h];
        }
        for (int64_t c = 0; c < out; ++c) {
            dual y = mlp ? product_of(w, middle, hidden, self->in[3], self->in[4], c) : middle[c];
            y = residual >= 0 ? add(y, get(w, residual, r * out + c)) : y;
            set(w, n, r * out + c, y);
        }
    }
}

static void linear_cross_entropy(world *w, int n)
{
    const graph_node *self = node(w, n);
    const int64_t inner = last_of(w, self->in[0]), rows = rows_of(w, self->in[0]);
    const int64_t vocab = node(w, self->in[1])->shape.size[0];
    dual x[GRAPH_ELEMENTS], row[GRAPH_ELEMENTS], mean = {0, 0};
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t k = 0; k < inner; ++k) {
            x[k] = get(w, self->in[0], r * inner + k);
        }
        for (int64_t c = 0; c < vocab; ++c) {
            row[c] = product_of(w, x, inner, self->in[1], -1, c);
        }
        softmax(row, vocab);
        mean = sub(mean, scaled(logarithm(row[(int)self->values[r]]), 1.0 / (double)rows));
    }
    set(w, n, 0, mean);
}

static void matmul(world *w, int n)
{
    const graph_node *self = node(w, n), *a = node(w, self->in[0]), *b = node(w, self->in[1]);
    const int rank = self->shape.rank;
    const int64_t rows = self->shape.size[rank - 2], cols = self->shape.size[rank - 1];
    const int64_t inner = a->shape.size[self->trans_a ? rank - 2 : rank - 1];
    const int64_t batches = count_of(w, n) ? count_of(w, n) / (rows * cols) : 0;
    for (int64_t i = 0; i < count_of(w, n); ++i) {
        const int64_t batch = i / (rows * cols), r = i / cols % rows, c = i % cols;
        dual sum = {0, 0};
        for (int64_t k = 0; k < inner && batch < batches; ++k) {
            const int64_t left = self->trans_a ? k * rows + r : r * inner + k;
            const int64_t right = self->trans_b ? c * inner + k : k * cols + c;
            sum = add(sum, mul(get(w, self->in[0], batch * rows * inner + left),
                               get(w, self->in[1], batch * inner * cols + right)));
        }
        set(w, n, i, sum);
    }
    (void)b;
}

// A token's row is its queries, keys and values side by side.
static void attention(world *w, int n)
{
    const graph_node *self = node(w, n);
    const int64_t tokens = self->shape.size[1], width = self->shape.size[2], heads = self->start;
    const int64_t size = width / heads, kv_heads = self->axes[0], window = self->axis;
    const int64_t row = width + 2 * kv_heads * size;
    dual score[GRAPH_ELEMENTS];
    for (int64_t i = 0; i < count_of(w, n); ++i) {
        const int64_t batch = i / (tokens * width), t = i / width % tokens, c = i % width;
        const int64_t base = batch * tokens * row,
                      key = width + c / size / (heads / kv_heads) * size;
        const int64_t query = base + t * row + c / size * size, value = key + kv_heads * size;
        int64_t seen = 0, first = 0;
        for (int64_t s = 0; s < tokens; ++s) {
            if ((self->trans_a && s > t) || (window > 0 && llabs(s - t) >= window)) {
                continue;
            }
            first = seen == 0 ? s : first;
            score[seen] = (dual){0, 0};
            for (int64_t k = 0; k < size; ++k) {
                score[seen] = add(score[seen], mul(get(w, self->in[0], query + k),
                                                   get(w, self->in[0], base + s * row + key + k)));
            }
            score[seen] = scaled(score[seen], 1 / sqrt((double)size));
            ++seen;
        }
        softmax(score, seen);
        dual sum = {0, 0};
        for (int64_t s = 0; s < seen; ++s) { // the keys in sight are neighbours
            const int64_t at = base + (first + s) * row + value + c % size;
            sum = add(sum, mul(score[s], get(w, self->in[0], at)));
        }
        set(w, n, i, sum);
    }
}

// ---- sums, copies, views ------------------------------------------------------------------------

static void sum_all(world *w, int n)
{
    const graph_node *self = node(w, n);
    const int64_t count = count_of(w, self->in[0]);
    dual sum = {0, 0};
    for (int64_t i = 0; i < count; ++i) {
        sum = add(sum, get(w, self->in[0], i));
    }
    set(w, n, 0, self->kind == GRAPH_MEAN_ALL ? scaled(sum, 1.0 / (double)count) : sum);
}

static void squared_error(world *w, int n)
{
    const int a = node(w, n)->in[0], b = node(w, n)->in[1];
    dual sum = {0, 0};
    for (int64_t i = 0; i < count_of(w, a); ++i) {
        const dual difference = sub(get(w, a, i), get(w, b, i));
        sum = add(sum, mul(difference, difference));
    }
    set(w, n, 0, scaled(sum, 1.0 / (double)count_of(w, a)));
}

static void sum_axis(world *w, int n)
{
    const graph_node *self = node(w, n);
    const bt_shape *from = &node(w, self->in[0])->shape;
    int64_t inner = 1;
    for (int i = self->axis + 1; i < from->rank; ++i) {
        inner *= from->size[i];
    }
    for (int64_t i = 0; i < count_of(w, n); ++i) {
        dual sum = {0, 0};
        for (int64_t k = 0; k < from->size[self->axis]; ++k) {
            const int64_t at = (i / inner * from->size[self->axis] + k) * inner + i % inner;
            sum = add(sum, get(w, self->in[0], at));
        }
        set(w, n, i, sum);
    }
}

static void embedding(world *w, int n)
{
    const graph_node *self = node(w, n);
    const int64_t cols = last_of(w, n), tokens = self->shape.size[1];
    for (int64_t i = 0; i < count_of(w, n); ++i) {
        const int64_t row = i / cols, id = (int64_t)self->values[row];
        dual y = get(w, self->in[0], id * cols + i % cols);
        if (self->in[1] >= 0) {
            y = add(y, get(w, self->in[1], row % tokens * cols + i % cols));
        }
        set(w, n, i, y);
    }
}

// A view has memory already: only its derivative is made. An element of the view is that element of
// its input at the same place.
static void view(world *w, int n)
{
    const graph_node *self = node(w, n), *from = node(w, self->in[0]);
    for (int64_t i = 0; i < count_of(w, n) && self->kind != GRAPH_DETACH; ++i) {
        int64_t at = i;
        if (self->kind == GRAPH_EXPAND) {
            at = broadcast(&self->shape, &from->shape, i);
        } else if (self->kind != GRAPH_RESHAPE) {
            int64_t rest = i, index[BT_MAX_RANK] = {0};
            for (int axis = self->shape.rank - 1; axis >= 0; --axis) {
                const bool permutes = self->kind == GRAPH_PERMUTE;
                index[permutes ? self->axes[axis] : axis] =
                    rest % self->shape.size[axis] +
                    (!permutes && axis == self->axis ? self->start : 0);
                rest /= self->shape.size[axis];
            }
            at = 0;
            for (int axis = 0; axis < from->shape.rank; ++axis) {
                at = at * from->shape.size[axis] + index[axis];
            }
        }
        w->d[n][i] = w->d[self->in[0]][at];
    }
}

static void elementwise(world *w, int n)
{
    const graph_node *self = node(w, n);
    for (int64_t i = 0; i < count_of(w, n); ++i) {
        const dual x = self->kind == GRAPH_BINARY ? (dual){0, 0} : get(w, self->in[0], i);
        set(w, n, i,
            self->kind == GRAPH_BINARY    ? binary(w, n, i)
            : self->kind == GRAPH_UNARY   ? unary(self, x)
            : self->kind == GRAPH_DROPOUT ? scaled(x, self->values[i])
                                          : x);
    }
}

static void write_memory(world *w, int n)
{
    const graph_node *self = node(w, n), *target = node(w, self->in[0]);
    for (int64_t i = 0; i < count_of(w, self->in[0]); ++i) {
        w->memory[target->storage][target->place[i]] = self->alpha;
    }
}

static void nothing(world *w, int n) { (void)w, (void)n; }

static void (*const rules[GRAPH_KIND_COUNT])(world *, int) = {
    [GRAPH_LEAF] = nothing,
    [GRAPH_DROPPED] = nothing,
    [GRAPH_SECOND] = nothing, // its add_layernorm made it
    [GRAPH_WRITE] = write_memory,
    [GRAPH_UNARY] = elementwise,
    [GRAPH_BINARY] = elementwise,
    [GRAPH_SUM] = sum_axis,
    [GRAPH_SUM_ALL] = sum_all,
    [GRAPH_MEAN_ALL] = sum_all,
    [GRAPH_SQUARED_ERROR] = squared_error,
    [GRAPH_SOFTMAX] = row_op,
    [GRAPH_LAYERNORM] = row_op,
    [GRAPH_ADD_LAYERNORM] = row_op,
    [GRAPH_LINEAR] = linear,
    [GRAPH_FEED_FORWARD] = linear,
    [GRAPH_MATMUL] = matmul,
    [GRAPH_EMBEDDING] = embedding,
    [GRAPH_ATTENTION] = attention,
    [GRAPH_CROSS_ENTROPY] = cross_entropy,
    [GRAPH_LINEAR_CROSS_ENTROPY] = linear_cross_entropy,
    [GRAPH_DROPOUT] = elementwise,
    [GRAPH_CAST] = elementwise,
    [GRAPH_CONTIGUOUS] = elementwise,
    [GRAPH_RESHAPE] = view,
    [GRAPH_PERMUTE] = view,
    [GRAPH_NARROW] = view,
    [GRAPH_EXPAND] = view,
    [GRAPH_DETACH] = view};

bool graph_evaluate(const graph *g, int count, int leaf, int element,
                    dual values[GRAPH_NODES][GRAPH_ELEMENTS])
{
    static world w; // large, and one thread
    memset(&w, 0, sizeof w);
    w.g = g;
    w.good = true;
    for (int n = 0; n < count; ++n) { // leaves are there from the start
        for (int64_t i = 0; g->nodes[n].kind == GRAPH_LEAF && i < count_of(&w, n); ++i) {
            set(&w, n, i, (dual){g->nodes[n].values[i], n == leaf && i == element});
        }
    }
    for (int n = 0; n < count; ++n) {
        rules[g->nodes[n].kind](&w, n);
    }
    for (int n = 0; n < count; ++n) {
        const bool has_value = g->nodes[n].kind != GRAPH_WRITE && g->nodes[n].kind != GRAPH_DROPPED;
        for (int64_t i = 0; has_value && i < count_of(&w, n); ++i) {
            values[n][i] = get(&w, n, i);
        }
    }
    return w.good;
}

double graph_derivative(const graph *g, int leaf, int element)
{
    static dual values[GRAPH_NODES][GRAPH_ELEMENTS];
    double sum = 0;
    (void)graph_evaluate(g, g->count, leaf, element, values);
    for (int n = 0; n < g->count; ++n) {
        for (int i = 0; g->in_loss[n] && i < bt_shape_count(&g->nodes[n].shape); ++i) {
            sum += graph_weight(g, n, i) * values[n][i].d;
        }
    }
    return sum;
}
