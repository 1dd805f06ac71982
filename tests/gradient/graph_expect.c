// tests/gradient/graph_expect.c - does a graph have gradients, and is what its backward reads
// intact?
//
// By the rules of ops.h: which nodes require a gradient, which of them the loss reaches, and which
// memory their backward reads. Memory that a node reads and that was written after it is stale.
#include "tests/gradient/graph.h"

typedef struct state {
    const graph *g;
    bool requires_grad[GRAPH_NODES]; // as later ops see it
    bool own[GRAPH_NODES];           // as the tape of its segment sees it
    bool reached[GRAPH_NODES];       // by the loss
    int outermost[GRAPH_NODES];      // segment of a node, or -1
} state;

static bool in_segment(const graph_segment *s, int n) { return n >= s->first && n <= s->last; }

static bool is_outside(const graph *g, const graph_segment *s, int n)
{
    return n >= 0 && (n < s->first || g->nodes[n].kind == GRAPH_LEAF);
}

static bool is_op(const graph_node *n)
{
    return n->kind != GRAPH_LEAF && n->kind != GRAPH_WRITE && n->kind != GRAPH_DROPPED &&
           n->kind != GRAPH_SECOND && n->kind != GRAPH_DETACH;
}

static bool input_requires(const state *s, int n, int i)
{
    const int in = s->g->nodes[n].in[i];
    return in >= 0 && s->requires_grad[in];
}

static bool body_requires(const state *s, const graph_segment *segment)
{
    for (int i = 0; i < segment->passed_count; ++i) {
        if (s->requires_grad[segment->passed[i]]) {
            return true;
        }
    }
    for (int n = segment->first; n <= segment->last; ++n) {
        for (int i = 0; i < GRAPH_INPUTS && is_op(&s->g->nodes[n]); ++i) {
            if (is_outside(s->g, segment, s->g->nodes[n].in[i]) && input_requires(s, n, i)) {
                return true;
            }
        }
    }
    for (int k = 0; k < s->g->segment_count; ++k) { // what inner ones are given
        const graph_segment *inner = &s->g->segments[k];
        for (int i = 0; i < inner->passed_count && in_segment(segment, inner->first); ++i) {
            const int given = inner->passed[i];
            if (is_outside(s->g, segment, given) && s->requires_grad[given]) {
                return true;
            }
        }
    }
    return false;
}

static const graph_segment *segment_of_last(const graph *g, int n)
{
    for (int i = 0; i < g->segment_count; ++i) {
        if (g->segments[i].last == n) {
            return &g->segments[i];
        }
    }
    return NULL;
}

static void find_required(state *s)
{
    for (int n = 0; n < s->g->count; ++n) {
        const graph_node *node = &s->g->nodes[n];
        for (int i = 0; i < GRAPH_INPUTS && node->kind != GRAPH_DETACH; ++i) {
            s->own[n] = s->own[n] || input_requires(s, n, i);
        }
        s->own[n] = node->kind == GRAPH_LEAF ? node->trained : s->own[n];
        const graph_segment *segment = segment_of_last(s->g, n);
        s->requires_grad[n] = segment ? body_requires(s, segment) : s->own[n];
        s->outermost[n] = -1;
        for (int k = 0; k < s->g->segment_count; ++k) {
            const graph_segment *around = &s->g->segments[k];
            const int best = s->outermost[n];
            if (in_segment(around, n) && node->kind != GRAPH_LEAF &&
                (best < 0 || in_segment(around, s->g->segments[best].first))) {
                s->outermost[n] = k;
            }
        }
    }
}

static void find_reached(state *s)
{
    for (int n = s->g->count - 1; n >= 0; --n) {
        const graph_segment *segment = segment_of_last(s->g, n);
        s->reached[n] = (s->reached[n] || s->g->in_loss[n]) && s->requires_grad[n];
        for (int i = 0; s->reached[n] && segment && i < segment->passed_count; ++i) {
            s->reached[segment->passed[i]] = true;
        }
        for (int i = 0; s->reached[n] && s->own[n] && i < GRAPH_INPUTS; ++i) {
            const int in = s->g->nodes[n].in[i];
            if (in >= 0) {
                s->reached[in] = true;
            }
        }
    }
}

// ---- what is read -------------------------------------------------------------------------------

static bool reads(const graph *g, int n, int storage)
{
    return n >= 0 && g->nodes[n].storage == storage;
}

// What the backward of an op reads: input i where one of the inputs in needed_by[i] requires a
// gradient; its output; its second output.
typedef struct rule {
    unsigned needed_by[GRAPH_INPUTS];
    bool output, second;
} rule;

static const rule rules[GRAPH_KIND_COUNT] = {
    [GRAPH_UNARY] = {{0x1}, false, false},
    [GRAPH_BINARY] = {{0x2, 0x3}, false, false}, // a quotient
    [GRAPH_SOFTMAX] = {{0}, true, false},
    [GRAPH_LAYERNORM] = {{0x7, 0x7}, false, false},
    [GRAPH_ADD_LAYERNORM] = {{0, 0xF}, false, true},
    [GRAPH_LINEAR] = {{0x2, 0x1}, false, false},
    [GRAPH_FEED_FORWARD] = {{0x2, 0x1, 0, 0x7}, false, false},
    [GRAPH_MATMUL] = {{0x2, 0x1}, false, false},
    [GRAPH_ATTENTION] = {{0x1}, true, false},
    [GRAPH_CROSS_ENTROPY] = {{0x1}, false, false}};
static const rule nothing, product = {{0x2, 0x1}, false, false};

static const rule *rule_of(const graph_node *n)
{
    if (n->kind == GRAPH_UNARY && (n->function == BT_UNARY_SCALE || n->function == BT_UNARY_SHIFT ||
                                   n->function == BT_UNARY_NEGATE)) {
        return &nothing;
    }
    if (n->kind == GRAPH_BINARY && n->function != BT_BINARY_DIV) {
        return n->function == BT_BINARY_MUL ? &product : &nothing;
    }
    return &rules[n->kind];
}

static bool node_reads(const state *s, int n, int storage)
{
    const graph *g = s->g;
    const rule *r = rule_of(&g->nodes[n]);
    unsigned wanted = 0;
    for (int i = 0; i < GRAPH_INPUTS; ++i) {
        wanted |= (unsigned)input_requires(s, n, i) << i;
    }
    for (int i = 0; i < GRAPH_INPUTS; ++i) {
        if ((r->needed_by[i] & wanted) && reads(g, g->nodes[n].in[i], storage)) {
            return true;
        }
    }
    return (r->output && reads(g, n, storage)) || (r->second && reads(g, n + 1, storage));
}

// A recomputed body reads what it is given, and all that its ops use and it did not make.
static bool body_reads(const graph *g, const graph_segment *segment, int storage)
{
    if (storage >= segment->first && g->nodes[storage].kind != GRAPH_LEAF) {
        return false;
    }
    for (int i = 0; i < segment->passed_count; ++i) {
        if (reads(g, segment->passed[i], storage)) {
            return true;
        }
    }
    for (int n = segment->first; n <= segment->last; ++n) {
        for (int i = 0; i < GRAPH_INPUTS && is_op(&g->nodes[n]); ++i) {
            if (reads(g, g->nodes[n].in[i], storage)) {
                return true;
            }
        }
    }
    for (int k = 0; k < g->segment_count; ++k) { // what inner ones are given
        const graph_segment *inner = &g->segments[k];
        for (int i = 0; i < inner->passed_count && in_segment(segment, inner->first); ++i) {
            if (reads(g, inner->passed[i], storage)) {
                return true;
            }
        }
    }
    return false;
}

static bool is_stale(const state *s, int write)
{
    const int storage = s->g->nodes[s->g->nodes[write].in[0]].storage;
    for (int n = 0; n < write; ++n) {
        const int k = s->outermost[n];
        if (k >= 0 && s->g->segments[k].last == n) {
            if (s->reached[n] && body_reads(s->g, &s->g->segments[k], storage)) {
                return true;
            }
        } else if (k < 0) {
            const bool second = s->g->nodes[n].kind == GRAPH_ADD_LAYERNORM && s->reached[n + 1];
            if ((s->reached[n] || second) && node_reads(s, n, storage)) {
                return true;
            }
        }
    }
    return false;
}

graph_answer graph_expect(const graph *g)
{
    state s = {.g = g};
    bool any = false;
    find_required(&s);
    find_reached(&s);
    for (int n = 0; n < g->count; ++n) {
        any = any || (g->in_loss[n] && s.requires_grad[n]);
        if (g->nodes[n].kind == GRAPH_WRITE && is_stale(&s, n)) {
            return GRAPH_STALE;
        }
    }
    return any ? GRAPH_GRADIENTS : GRAPH_NO_GRADIENT;
}
