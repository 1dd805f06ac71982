// tests/gradient/graph_make.c - drawing a graph from a seed
#include <stdio.h>
#include <string.h>

#include "tests/gradient/graph.h"
#include "tests/support/test.h"

typedef struct maker {
    fixture *f;
    graph *g;
    uint64_t state;
    bool hidden[GRAPH_NODES]; // of a closed segment
    bool too_large;           // what was drawn since this was cleared
    bool empties;             // some dimensions are 0
} maker;

enum { ANY = -1 }; // a size that fits all

// splitmix64
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int draw(maker *m, int most)
{
    m->state += 0x9e3779b97f4a7c15u;
    return (int)(mix(m->state) % (uint64_t)most);
}

static bool chance(maker *m, int percent) { return draw(m, 100) < percent; }

static double between(maker *m, double low, double high)
{
    return low + (high - low) * draw(m, 1 << 20) / (1 << 20);
}

double graph_weight(const graph *g, int node, int element)
{
    const uint64_t bits = mix(g->seed * 1000003 + (uint64_t)(node * 64 + element) + 1);
    return (double)(bits >> 11) * 0x1p-52 - 1;
}

static const struct {
    const char *name;
    bool contiguous;
} kinds[] = {
#define GRAPH_KIND_ROW(name, text, contiguous) {text, contiguous},
    GRAPH_KINDS(GRAPH_KIND_ROW)
#undef GRAPH_KIND_ROW
};

const char *graph_kind_name(graph_kind kind) { return kinds[kind].name; }

bool graph_is_view(graph_kind kind)
{
    return kind == GRAPH_RESHAPE || kind == GRAPH_PERMUTE || kind == GRAPH_NARROW ||
           kind == GRAPH_EXPAND || kind == GRAPH_DETACH;
}

// ---- memory -------------------------------------------------------------------------------------

// The element of its input that element i of a view is.
static int64_t source_of(const graph_node *n, const bt_shape *from, int64_t i)
{
    int64_t index[BT_MAX_RANK] = {0}, at = 0;
    if (n->kind == GRAPH_RESHAPE || n->kind == GRAPH_DETACH) {
        return i;
    }
    for (int axis = n->shape.rank - 1; axis >= 0; --axis) {
        const int64_t own = i % n->shape.size[axis];
        const int other = n->kind == GRAPH_PERMUTE  ? n->axes[axis]
                          : n->kind == GRAPH_EXPAND ? axis - (n->shape.rank - from->rank)
                                                    : axis;
        if (other >= 0) {
            index[other] = from->size[other] == 1 ? 0 : own;
            index[other] += n->kind == GRAPH_NARROW && axis == n->axis ? n->start : 0;
        }
        i /= n->shape.size[axis];
    }
    for (int axis = 0; axis < from->rank; ++axis) {
        at = at * from->size[axis] + index[axis];
    }
    return at;
}

void graph_lay_out(graph *g)
{
    for (int i = 0; i < g->count; ++i) {
        graph_node *n = &g->nodes[i];
        const graph_node *from = graph_is_view(n->kind) ? &g->nodes[n->in[0]] : NULL;
        n->storage = from ? from->storage : i;
        n->contiguous =
            !from || bt_shape_count(&n->shape) > 0; // strides count even of an empty one
        for (int k = 0; k < bt_shape_count(&n->shape); ++k) {
            n->place[k] = from ? from->place[source_of(n, &from->shape, k)] : k;
            n->contiguous = n->contiguous && n->place[k] == n->place[0] + k;
        }
    }
}

// ---- nodes --------------------------------------------------------------------------------------

static graph_node *append(maker *m, graph_kind kind, bt_shape shape)
{
    graph_node *n = &m->g->nodes[m->g->count++];
    memset(n, 0, sizeof *n);
    n->kind = kind;
    n->shape = bt_shape_count(&shape) <= GRAPH_ELEMENTS ? shape : BT_SHAPE(1, 1, 1);
    m->too_large = m->too_large || bt_shape_count(&shape) > GRAPH_ELEMENTS;
    for (int i = 0; i < GRAPH_INPUTS; ++i) {
        n->in[i] = -1;
    }
    m->hidden[m->g->count - 1] = false;
    return n;
}

static int leaf(maker *m, bt_shape shape)
{
    graph_node *n = append(m, GRAPH_LEAF, shape);
    n->trained = chance(m, 65);
    for (int i = 0; i < bt_shape_count(&n->shape); ++i) {
        n->values[i] = between(m, 0.3, 2) * (chance(m, 30) ? -1 : 1);
    }
    return m->g->count - 1;
}

static int64_t size(maker *m)
{
    if (m->empties && chance(m, 15)) {
        return 0;
    }
    return chance(m, 15) ? 1 : chance(m, 50) ? 2 : 3;
}

static bool is_tensor(const maker *m, int n)
{
    const graph_kind kind = m->g->nodes[n].kind;
    return !m->hidden[n] && kind != GRAPH_WRITE && kind != GRAPH_DROPPED;
}

// A tensor of least to most axes, likely a recent one; made where there is none.
static int pick(maker *m, int least, int most)
{
    for (int i = 0; i < 12; ++i) {
        const int back = draw(m, chance(m, 50) ? 4 : GRAPH_NODES) + 1, n = m->g->count - back;
        if (n >= 0 && is_tensor(m, n) && m->g->nodes[n].shape.rank >= least &&
            m->g->nodes[n].shape.rank <= most) {
            return n;
        }
    }
    bt_shape shape = {.rank = least + draw(m, most - least + 1)};
    for (int i = 0; i < shape.rank; ++i) {
        shape.size[i] = size(m);
    }
    return leaf(m, shape);
}

// A tensor of this shape (ANY: any size); `first` where that fits, often, so that one tensor fills
// several inputs; else another, or a new leaf.
static int fitting(maker *m, bt_shape shape, int first)
{
    for (int i = 0; i < 12; ++i) {
        const int n = i < 2 ? first : draw(m, m->g->count);
        const bt_shape *own = &m->g->nodes[n].shape;
        bool fits = is_tensor(m, n) && own->rank == shape.rank;
        for (int axis = 0; axis < shape.rank && fits; ++axis) {
            fits = shape.size[axis] == ANY || shape.size[axis] == own->size[axis];
        }
        if (fits) {
            return n;
        }
    }
    for (int axis = 0; axis < shape.rank; ++axis) {
        shape.size[axis] = shape.size[axis] == ANY ? size(m) : shape.size[axis];
    }
    return leaf(m, shape);
}

static int maybe_fitting(maker *m, bt_shape shape, int first)
{
    return chance(m, 50) ? fitting(m, shape, first) : -1;
}

// The node, or a contiguous copy of it.
static int contiguous(maker *m, int n)
{
    graph_lay_out(m->g);
    if (n < 0 || m->g->nodes[n].contiguous) {
        return n;
    }
    append(m, GRAPH_CONTIGUOUS, m->g->nodes[n].shape)->in[0] = n;
    return m->g->count - 1;
}

// Appends a node that uses these.
static graph_node *use(maker *m, graph_kind kind, bt_shape shape, const int *in, int count)
{
    int made[GRAPH_INPUTS] = {0};
    for (int i = 0; i < count; ++i) {
        made[i] = kinds[kind].contiguous ? contiguous(m, in[i]) : in[i];
    }
    graph_node *n = append(m, kind, shape);
    memcpy(n->in, made, (size_t)count * sizeof *made);
    return n;
}

static const bt_shape *shape_of(const maker *m, int n) { return &m->g->nodes[n].shape; }

static bool is_empty(const maker *m, int n) { return bt_shape_count(shape_of(m, n)) == 0; }

static int64_t last_of(const maker *m, int n)
{
    return shape_of(m, n)->size[shape_of(m, n)->rank - 1];
}

// ---- drawing an op ------------------------------------------------------------------------------

static void make_unary(maker *m)
{
    const int x = pick(m, 0, 3);
    graph_node *n = use(m, GRAPH_UNARY, *shape_of(m, x), &x, 1);
    n->function = draw(m, BT_UNARY_COUNT);
    n->alpha = between(m, -2, 2);
}

// A tensor that broadcasts with `with`, of at most its rank.
static int broadcasting(maker *m, int with)
{
    bt_shape shape = *shape_of(m, with);
    const int cut = draw(m, shape.rank + 1);
    if (chance(m, 30)) {
        return with;
    }
    shape.rank -= cut;
    memmove(shape.size, shape.size + cut, (size_t)shape.rank * sizeof shape.size[0]);
    for (int i = 0; i < shape.rank; ++i) {
        shape.size[i] = chance(m, 25) ? 1 : shape.size[i];
    }
    return fitting(m, shape, with);
}

static void make_binary(maker *m)
{
    int in[2];
    const int larger = draw(m, 2);
    in[larger] = pick(m, 0, 3);
    in[!larger] = broadcasting(m, in[larger]);
    use(m, GRAPH_BINARY, *shape_of(m, in[larger]), in, 2)->function = draw(m, BT_BINARY_COUNT);
}

static void make_sum(maker *m)
{
    const int x = pick(m, 1, 3), axis = draw(m, shape_of(m, x)->rank);
    bt_shape shape = {.rank = shape_of(m, x)->rank - 1};
    for (int i = 0; i < shape.rank; ++i) {
        shape.size[i] = shape_of(m, x)->size[i < axis ? i : i + 1];
    }
    use(m, GRAPH_SUM, shape, &x, 1)->axis = axis;
}

static void make_scalar(maker *m)
{
    int in[2] = {pick(m, 0, 3), -1};
    const int how = draw(m, 3);
    in[1] = how == 2 ? fitting(m, *shape_of(m, in[0]), draw(m, m->g->count)) : -1;
    (void)use(m,
              how == 0   ? GRAPH_SUM_ALL
              : how == 1 ? GRAPH_MEAN_ALL
                         : GRAPH_SQUARED_ERROR,
              BT_SCALAR, in, 2);
}

static void make_softmax(maker *m)
{
    const int x = pick(m, 1, 3);
    (void)use(m, GRAPH_SOFTMAX, *shape_of(m, x), &x, 1);
}

static void make_layernorm(maker *m)
{
    const int x = pick(m, 1, 3);
    const bt_shape row = BT_SHAPE(last_of(m, x));
    int in[4] = {x, fitting(m, row, x), -1, -1};
    in[2] = chance(m, 70) ? fitting(m, row, in[1]) : -1;
    if (chance(m, 50)) {
        (void)use(m, GRAPH_LAYERNORM, *shape_of(m, x), in, 3);
        return;
    }
    in[3] = fitting(m, *shape_of(m, x), x);
    (void)use(m, GRAPH_ADD_LAYERNORM, *shape_of(m, x), in, 4);
    const int made = m->g->count - 1;
    append(m, GRAPH_SECOND, *shape_of(m, x))->in[0] = made;
}

static void make_linear(maker *m)
{
    const int x = pick(m, 1, 3);
    int in[6] = {x, fitting(m, BT_SHAPE(ANY, last_of(m, x)), x), -1, -1, -1, -1};
    bt_shape shape = *shape_of(m, x);
    shape.size[shape.rank - 1] = shape_of(m, in[1])->size[0];
    in[2] = maybe_fitting(m, BT_SHAPE(shape.size[shape.rank - 1]), x);
    if (chance(m, 60)) {
        const bool gelu = chance(m, 30);
        in[3] = gelu ? -1 : maybe_fitting(m, shape, x);
        use(m, GRAPH_LINEAR, shape, in, 4)->trans_a = gelu;
        return;
    }
    in[3] = fitting(m, BT_SHAPE(ANY, shape.size[shape.rank - 1]), in[1]);
    shape.size[shape.rank - 1] = shape_of(m, in[3])->size[0];
    in[4] = maybe_fitting(m, BT_SHAPE(shape.size[shape.rank - 1]), in[2] < 0 ? x : in[2]);
    in[5] = maybe_fitting(m, shape, x);
    (void)use(m, GRAPH_FEED_FORWARD, shape, in, 6);
}

static void make_matmul(maker *m)
{
    const bool ta = chance(m, 40), tb = chance(m, 40);
    int in[2] = {pick(m, 2, 3), -1};
    bt_shape shape = *shape_of(m, in[0]), other = shape;
    const int rows = shape.rank - 2, cols = shape.rank - 1;
    other.size[tb ? cols : rows] = shape.size[ta ? rows : cols];
    other.size[tb ? rows : cols] = ANY;
    in[1] = fitting(m, other, in[0]);
    shape.size[rows] = shape.size[ta ? cols : rows];
    shape.size[cols] = shape_of(m, in[1])->size[tb ? rows : cols];
    graph_node *n = use(m, GRAPH_MATMUL, shape, in, 2);
    n->trans_a = ta;
    n->trans_b = tb;
}

static void make_embedding(maker *m)
{
    int in[2] = {pick(m, 2, 2), -1};
    if (is_empty(m, in[0])) {
        return;
    }
    const int64_t batch = size(m), tokens = size(m), cols = shape_of(m, in[0])->size[1];
    const bt_shape position = BT_SHAPE(tokens, cols);
    const bool itself = shape_of(m, in[0])->size[0] >= tokens && chance(m, 40);
    in[1] = itself ? in[0] : maybe_fitting(m, position, in[0]);
    const int vocab = (int)shape_of(m, in[0])->size[0];
    graph_node *n = use(m, GRAPH_EMBEDDING, BT_SHAPE(batch, tokens, cols), in, 2);
    for (int i = 0; i < batch * tokens; ++i) {
        n->values[i] = draw(m, vocab);
    }
}

static void make_attention(maker *m)
{
    const int64_t width = 1 + draw(m, 2), heads = width == 2 ? 1 + draw(m, 2) : 1;
    const int64_t kv_heads = heads == 2 ? 1 + draw(m, 2) : 1;
    const int64_t packed = width + 2 * kv_heads * (width / heads);
    const int x = fitting(m, BT_SHAPE(ANY, ANY, packed), draw(m, m->g->count));
    if (is_empty(m, x)) {
        return;
    }
    bt_shape shape = *shape_of(m, x);
    shape.size[2] = width;
    graph_node *n = use(m, GRAPH_ATTENTION, shape, &x, 1);
    n->start = heads;
    n->axes[0] = (int)kv_heads;
    n->axis = chance(m, 40) ? 1 + draw(m, 2) : 0;
    n->trans_a = chance(m, 60);
}

static void make_cross_entropy(maker *m)
{
    const int x = pick(m, 2, 2);
    if (is_empty(m, x)) {
        return;
    }
    const int rows = (int)shape_of(m, x)->size[0], cols = (int)shape_of(m, x)->size[1];
    graph_node *n = use(m, GRAPH_CROSS_ENTROPY, BT_SCALAR, &x, 1);
    for (int i = 0; i < rows; ++i) {
        n->values[i] = draw(m, cols);
    }
}

static void make_linear_cross_entropy(maker *m)
{
    const int x = pick(m, 1, 3);
    const int in[2] = {x, fitting(m, BT_SHAPE(ANY, last_of(m, x)), x)};
    if (is_empty(m, x) || is_empty(m, in[1])) {
        return;
    }
    const int rows = (int)(bt_shape_count(shape_of(m, x)) / last_of(m, x));
    const int vocab = (int)shape_of(m, in[1])->size[0];
    graph_node *n = use(m, GRAPH_LINEAR_CROSS_ENTROPY, BT_SCALAR, in, 2);
    n->start = draw(m, rows + 1); // 0: by the op's rule
    for (int i = 0; i < rows; ++i) {
        n->values[i] = draw(m, vocab);
    }
}

// Its factors are what the op makes of ones.
static void make_dropout(maker *m)
{
    const int x = pick(m, 0, 3);
    bt_context *context = &m->f->context;
    bt_tensor *ones = NULL, *made = NULL;
    graph_node *n = use(m, GRAPH_DROPOUT, *shape_of(m, x), &x, 1);
    n->alpha = 0.3;
    n->start = draw(m, 1000);
    ASSERT_OK(bt_tensor_create(context, BT_F64, n->shape, "ones", &ones));
    ASSERT_OK(bt_tensor_fill(context, ones, 1));
    ASSERT_OK(bt_dropout(context, ones, n->alpha, 42, (uint64_t)n->start, &made));
    ASSERT_OK(bt_tensor_read(context, made, n->values));
    bt_tensor_release(ones);
    bt_tensor_release(made);
}

static void make_copy(maker *m)
{
    const int x = pick(m, 0, 3);
    (void)use(m, chance(m, 50) ? GRAPH_CAST : GRAPH_CONTIGUOUS, *shape_of(m, x), &x, 1);
}

static void make_reshape(maker *m)
{
    const int x = pick(m, 0, 3);
    const int64_t count = bt_shape_count(shape_of(m, x));
    bt_shape shape = BT_SHAPE(count);
    for (int64_t part = 2; part <= 3; ++part) {
        if (count % part == 0 && chance(m, 60)) {
            shape = chance(m, 50) ? BT_SHAPE(part, count / part) : BT_SHAPE(count / part, part);
        }
    }
    (void)use(m, GRAPH_RESHAPE, shape, &x, 1);
}

static void make_permute(maker *m)
{
    const int x = pick(m, 2, 3), a = draw(m, shape_of(m, x)->rank),
              b = draw(m, shape_of(m, x)->rank);
    bt_shape shape = *shape_of(m, x);
    graph_node *n = use(m, GRAPH_PERMUTE, shape, &x, 1);
    for (int i = 0; i < shape.rank; ++i) {
        n->axes[i] = i == a ? b : i == b ? a : i;
        n->shape.size[i] = shape.size[n->axes[i]];
    }
}

static void make_narrow(maker *m)
{
    const int x = pick(m, 1, 3), axis = draw(m, shape_of(m, x)->rank);
    bt_shape shape = *shape_of(m, x);
    if (is_empty(m, x)) {
        return;
    }
    const int full = (int)shape.size[axis], length = 1 + draw(m, full);
    shape.size[axis] = length;
    graph_node *n = use(m, GRAPH_NARROW, shape, &x, 1);
    n->axis = axis;
    n->start = draw(m, full - length + 1);
}

static void make_expand(maker *m)
{
    const int x = pick(m, 0, 2);
    bt_shape shape = *shape_of(m, x);
    for (int i = 0; i < shape.rank; ++i) {
        shape.size[i] = shape.size[i] == 1 ? size(m) : shape.size[i];
    }
    if (chance(m, 60)) {
        memmove(shape.size + 1, shape.size, (size_t)shape.rank * sizeof shape.size[0]);
        shape.size[0] = size(m);
        ++shape.rank;
    }
    (void)use(m, GRAPH_EXPAND, shape, &x, 1);
}

static void make_detach(maker *m)
{
    const int x = pick(m, 0, 3);
    (void)use(m, GRAPH_DETACH, *shape_of(m, x), &x, 1);
}

static void (*const makers[])(maker *) = {
    make_unary,   make_unary,     make_unary,     make_binary,
    make_binary,  make_binary,    make_sum,       make_scalar,
    make_softmax, make_layernorm, make_layernorm, make_linear,
    make_linear,  make_linear,    make_matmul,    make_matmul,
    make_matmul,  make_embedding, make_attention, make_cross_entropy,
    make_dropout, make_copy,      make_reshape,   make_permute,
    make_narrow,  make_expand,    make_detach,    make_linear_cross_entropy};

// ---- the whole ----------------------------------------------------------------------------------

static bool is_good(maker *m)
{
    static dual values[GRAPH_NODES][GRAPH_ELEMENTS];
    if (m->too_large) {
        return false;
    }
    graph_lay_out(m->g);
    return graph_evaluate(m->g, m->g->count, -1, 0, values);
}

// Nodes, with room for everything else that an op may need.
enum { NODES_PER_STEP = 14 };

static void step(maker *m)
{
    for (int tries = 0; tries < 8 && m->g->count + NODES_PER_STEP <= GRAPH_NODES; ++tries) {
        const int before = m->g->count;
        m->too_large = false;
        makers[draw(m, (int)(sizeof makers / sizeof makers[0]))](m);
        if (is_good(m)) {
            return;
        }
        m->g->count = before;
    }
}

static bool ends_a_segment(const graph *g, int n)
{
    for (int i = 0; i < g->segment_count; ++i) {
        if (g->segments[i].last == n) {
            return true;
        }
    }
    return false;
}

static bool is_passed(const graph_segment *s, int n)
{
    for (int i = 0; i < s->passed_count; ++i) {
        if (s->passed[i] == n) {
            return true;
        }
    }
    return false;
}

// What the segment is given: some of what it uses.
static void choose_passed(maker *m, graph_segment *s)
{
    int candidate = -1;
    for (int n = s->first; n <= s->last; ++n) {
        for (int i = 0; i < GRAPH_INPUTS && m->g->nodes[n].kind != GRAPH_LEAF; ++i) {
            const int in = m->g->nodes[n].in[i];
            const bool outside = in >= 0 && (in < s->first || m->g->nodes[in].kind == GRAPH_LEAF);
            if (outside && !is_passed(s, in)) {
                candidate = in;
                if (s->passed_count < GRAPH_INPUTS && chance(m, 50)) {
                    s->passed[s->passed_count++] = in;
                }
            }
        }
    }
    if (s->passed_count == 0 && candidate >= 0) {
        s->passed[s->passed_count++] = candidate;
    }
}

static void segment(maker *m, int depth)
{
    graph *g = m->g;
    graph_segment s = {.first = g->count};
    for (int i = 2 + draw(m, 3); i > 0; --i) {
        if (depth > 0 && chance(m, 20)) {
            segment(m, depth - 1);
        } else {
            step(m);
        }
    }
    while (g->count > s.first && g->nodes[g->count - 1].kind == GRAPH_LEAF) {
        --g->count; // of no use
    }
    s.last = g->count - 1;
    if (s.last < s.first || g->nodes[s.last].kind == GRAPH_SECOND || ends_a_segment(g, s.last) ||
        g->segment_count == GRAPH_SEGMENTS) {
        return; // these are plain nodes, then
    }
    choose_passed(m, &s);
    if (s.passed_count == 0) {
        return;
    }
    g->segments[g->segment_count++] = s;
    for (int n = s.first; n < s.last; ++n) {
        m->hidden[n] = g->nodes[n].kind != GRAPH_LEAF;
    }
}

static void write_somewhere(maker *m)
{
    const int target = draw(m, m->g->count), before = m->g->count;
    if (!is_tensor(m, target) || before == GRAPH_NODES) {
        return;
    }
    graph_node *n = append(m, GRAPH_WRITE, *shape_of(m, target));
    n->in[0] = target;
    n->alpha = between(m, 0.4, 2);
    if (!is_good(m)) {
        m->g->count = before;
    }
}

static void choose_loss(maker *m)
{
    graph *g = m->g;
    bool used[GRAPH_NODES] = {false};
    for (int n = 0; n < g->count; ++n) {
        for (int i = 0; i < GRAPH_INPUTS; ++i) {
            if (g->nodes[n].in[i] >= 0 && g->nodes[n].kind != GRAPH_WRITE) {
                used[g->nodes[n].in[i]] = true;
            }
        }
    }
    for (int n = 0; n < g->count; ++n) {
        const bool end = !used[n] && g->nodes[n].kind != GRAPH_LEAF;
        g->in_loss[n] = is_tensor(m, n) && chance(m, end ? 90 : 15);
    }
    for (int n = g->count - 1; n >= 0; --n) {
        if (is_tensor(m, n)) {
            g->in_loss[n] = true;
            return;
        }
    }
}

void graph_make(fixture *f, uint64_t seed, graph *g)
{
    memset(g, 0, sizeof *g);
    maker m = {.f = f, .g = g, .state = mix(seed + 1), .empties = seed % 12 == 5};
    g->seed = seed;
    f->context.tape = NULL;
    (void)leaf(&m, BT_SHAPE(size(&m), size(&m)));
    const bool writes = chance(&m, 40);
    for (int steps = 3 + draw(&m, 10); steps > 0; --steps) {
        if (chance(&m, 12)) {
            segment(&m, 1);
        } else if (writes && chance(&m, 20)) {
            write_somewhere(&m);
        } else {
            step(&m);
        }
    }
    f->context.tape = f->tape;
    graph_lay_out(g);
    choose_loss(&m);
    g->passes = !writes && chance(&m, 25) ? 2 : 1;
    g->release_early = chance(&m, 50);
    g->recompute = (int)(seed % BT_RECOMPUTE_COUNT);
}

void graph_print(const graph *g)
{
    for (int n = 0; n < g->count; ++n) {
        const graph_node *node = &g->nodes[n];
        char text[BT_SHAPE_TEXT_BYTES];
        if (node->kind == GRAPH_DROPPED) {
            continue;
        }
        (void)fprintf(stderr, "  n%d = %s", n, graph_kind_name(node->kind));
        if (node->kind == GRAPH_UNARY) {
            (void)fprintf(stderr, " %s %g", bt_unary_name((bt_unary)node->function), node->alpha);
        } else if (node->kind == GRAPH_BINARY) {
            (void)fprintf(stderr, " %s", bt_binary_name((bt_binary)node->function));
        }
        for (int i = 0; i < GRAPH_INPUTS; ++i) {
            if (node->in[i] >= 0) {
                (void)fprintf(stderr, " [%d]=n%d", i, node->in[i]);
            }
        }
        (void)fprintf(stderr, " %s%s%s%s%s\n", bt_shape_text(&node->shape, text),
                      node->trained ? " trained" : "", node->trans_a ? " a" : "",
                      node->trans_b ? " b" : "", g->in_loss[n] ? " in the loss" : "");
    }
    for (int k = 0; k < g->segment_count; ++k) {
        const graph_segment *s = &g->segments[k];
        (void)fprintf(stderr, "  n%d to n%d are recomputed, given", s->first, s->last);
        for (int i = 0; i < s->passed_count; ++i) {
            (void)fprintf(stderr, " n%d", s->passed[i]);
        }
        (void)fprintf(stderr, "\n");
    }
}
