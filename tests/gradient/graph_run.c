// tests/gradient/graph_run.c - a graph as calls of ops.h
#include <stdlib.h>
#include <string.h>

#include "tests/gradient/graph.h"
#include "tests/support/test.h"

graph_listener graph_listening;

typedef struct closure closure;

typedef struct runner {
    fixture *f;
    const graph *g;
    closure *closures; // owned; live until the end, as what they point to is captured
} runner;

// What a body finds when it runs: the tensors of the nodes before it.
struct closure {
    closure *next;
    runner *r;
    int segment;
    bt_tensor *nodes[GRAPH_NODES]; // retained
};

static void run_range(runner *r, bt_tensor **nodes, int first, int last, int within);

// A call of ops.h: in[i] is NULL where the node has no input i; out[1] is a second output.
typedef bt_status (*call)(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out);

static bt_status run_unary(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    return bt_unary_op(&r->f->context, (bt_unary)n->function, n->alpha, in[0], out);
}

static bt_status run_binary(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    return bt_binary_op(&r->f->context, (bt_binary)n->function, in[0], in[1], out);
}

static bt_status run_sum(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    return bt_sum(&r->f->context, in[0], n->axis, out);
}

static bt_status run_sum_all(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    (void)n;
    return bt_sum_all(&r->f->context, in[0], out);
}

static bt_status run_mean_all(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    (void)n;
    return bt_mean_all(&r->f->context, in[0], out);
}

static bt_status run_squared_error(runner *r, const graph_node *n, bt_tensor *const *in,
                                   bt_tensor **out)
{
    (void)n;
    return bt_mean_squared_error(&r->f->context, in[0], in[1], out);
}

static bt_status run_softmax(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    (void)n;
    return bt_softmax(&r->f->context, in[0], out);
}

static bt_status run_layernorm(runner *r, const graph_node *n, bt_tensor *const *in,
                               bt_tensor **out)
{
    (void)n;
    return bt_layernorm(&r->f->context, in[0], in[1], in[2], 1e-5, out);
}

static bt_status run_add_layernorm(runner *r, const graph_node *n, bt_tensor *const *in,
                                   bt_tensor **out)
{
    (void)n;
    return bt_add_layernorm(&r->f->context, in[0], in[3], in[1], in[2], 1e-5, out, out + 1);
}

static bt_status run_linear(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    return bt_linear(&r->f->context, in[0], in[1], in[2], in[3],
                     n->trans_a ? BT_ACTIVATION_GELU : BT_ACTIVATION_NONE, out);
}

static bt_status run_feed_forward(runner *r, const graph_node *n, bt_tensor *const *in,
                                  bt_tensor **out)
{
    (void)n;
    return bt_feed_forward(&r->f->context, in[0], in[1], in[2], in[3], in[4], in[5], out);
}

static bt_status run_matmul(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    return bt_matmul(&r->f->context, in[0], n->trans_a, in[1], n->trans_b, out);
}

static bt_status run_attention(runner *r, const graph_node *n, bt_tensor *const *in,
                               bt_tensor **out)
{
    const bt_attention_options options = {
        .heads = n->start, .kv_heads = n->axes[0], .causal = n->trans_a, .window = n->axis};
    return bt_attend(&r->f->context, in[0], NULL, NULL, NULL, &options, out);
}

static bt_status run_dropout(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    return bt_dropout(&r->f->context, in[0], n->alpha, 42, (uint64_t)n->start, out);
}

static bt_status run_cast(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    (void)n;
    return bt_cast(&r->f->context, in[0], BT_F64, out);
}

static bt_status run_contiguous(runner *r, const graph_node *n, bt_tensor *const *in,
                                bt_tensor **out)
{
    (void)n;
    return bt_contiguous(&r->f->context, in[0], out);
}

static bt_status run_reshape(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    return bt_reshape(&r->f->context, in[0], n->shape, out);
}

static bt_status run_permute(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    return bt_permute(&r->f->context, in[0], n->axes, out);
}

static bt_status run_narrow(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    return bt_narrow(&r->f->context, in[0], n->axis, n->start, n->shape.size[n->axis], out);
}

static bt_status run_expand(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    return bt_expand(&r->f->context, in[0], n->shape, out);
}

static bt_status run_detach(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    (void)r, (void)n;
    return bt_detach(in[0], out);
}

static bt_tensor *integers(runner *r, const graph_node *n, bt_shape shape)
{
    int32_t ids[GRAPH_ELEMENTS];
    for (int64_t i = 0; i < bt_shape_count(&shape); ++i) {
        ids[i] = (int32_t)n->values[i];
    }
    return fixture_values(r->f, BT_I32, shape, ids);
}

static bt_status run_embedding(runner *r, const graph_node *n, bt_tensor *const *in,
                               bt_tensor **out)
{
    bt_tensor *ids = integers(r, n, BT_SHAPE(n->shape.size[0], n->shape.size[1]));
    bt_status status = bt_embedding(&r->f->context, ids, in[0], in[1], out, NULL);
    bt_tensor_release(ids);
    return status;
}

static bt_status run_cross_entropy(runner *r, const graph_node *n, bt_tensor *const *in,
                                   bt_tensor **out)
{
    bt_tensor *targets = integers(r, n, BT_SHAPE(in[0]->shape.size[0]));
    bt_status status = bt_cross_entropy(&r->f->context, in[0], targets, -100, false, out, NULL);
    bt_tensor_release(targets);
    return status;
}

static bt_status run_linear_cross_entropy(runner *r, const graph_node *n, bt_tensor *const *in,
                                          bt_tensor **out)
{
    const int64_t inner = in[1]->shape.size[1];
    bt_tensor *targets = integers(r, n, BT_SHAPE(bt_tensor_count(in[0]) / inner));
    bt_status status =
        bt_linear_cross_entropy(&r->f->context, in[0], in[1], targets, -100, n->start, out, NULL);
    bt_tensor_release(targets);
    return status;
}

static bt_status run_write(runner *r, const graph_node *n, bt_tensor *const *in, bt_tensor **out)
{
    bt_context *context = &r->f->context;
    bt_tensor *from = NULL;
    (void)out;
    BT_TRY(bt_tensor_create(context, BT_F64, in[0]->shape, "written", &from));
    bt_status status = bt_tensor_fill(context, from, n->alpha);
    if (status == BT_OK) { // of any strides
        status = bt_tensor_copy(context, from, in[0]);
    }
    bt_tensor_release(from);
    return status;
}

static const call calls[GRAPH_KIND_COUNT] = {[GRAPH_UNARY] = run_unary,
                                             [GRAPH_BINARY] = run_binary,
                                             [GRAPH_SUM] = run_sum,
                                             [GRAPH_SUM_ALL] = run_sum_all,
                                             [GRAPH_MEAN_ALL] = run_mean_all,
                                             [GRAPH_SQUARED_ERROR] = run_squared_error,
                                             [GRAPH_SOFTMAX] = run_softmax,
                                             [GRAPH_LAYERNORM] = run_layernorm,
                                             [GRAPH_ADD_LAYERNORM] = run_add_layernorm,
                                             [GRAPH_LINEAR] = run_linear,
                                             [GRAPH_FEED_FORWARD] = run_feed_forward,
                                             [GRAPH_MATMUL] = run_matmul,
                                             [GRAPH_ATTENTION] = run_attention,
                                             [GRAPH_DROPOUT] = run_dropout,
                                             [GRAPH_CAST] = run_cast,
                                             [GRAPH_CONTIGUOUS] = run_contiguous,
                                             [GRAPH_RESHAPE] = run_reshape,
                                             [GRAPH_PERMUTE] = run_permute,
                                             [GRAPH_NARROW] = run_narrow,
                                             [GRAPH_EXPAND] = run_expand,
                                             [GRAPH_DETACH] = run_detach,
                                             [GRAPH_EMBEDDING] = run_embedding,
                                             [GRAPH_CROSS_ENTROPY] = run_cross_entropy,
                                             [GRAPH_LINEAR_CROSS_ENTROPY] =
                                                 run_linear_cross_entropy,
                                             [GRAPH_WRITE] = run_write};

static void run_node(runner *r, bt_tensor **nodes, int n)
{
    const graph_node *node = &r->g->nodes[n];
    bt_tensor *in[GRAPH_INPUTS];
    for (int i = 0; i < GRAPH_INPUTS; ++i) {
        in[i] = node->in[i] >= 0 ? nodes[node->in[i]] : NULL;
    }
    if (calls[node->kind]) { // not of leaves, second outputs and what was dropped
        ASSERT_OK(calls[node->kind](r, node, in, &nodes[n]));
    }
}

// ---- segments -----------------------------------------------------------------------------------

static closure *make_closure(runner *r, bt_tensor *const *nodes, int segment)
{
    closure *made = calloc(1, sizeof *made);
    assert_non_null(made);
    *made = (closure){.next = r->closures, .r = r, .segment = segment};
    for (int n = 0; n < r->g->count; ++n) {
        made->nodes[n] = bt_tensor_retain(nodes[n]);
    }
    r->closures = made;
    return made;
}

static bt_status body(bt_context *context, const void *self, bt_tensor *const *in, int in_count,
                      bt_tensor **out)
{
    const closure *around = self;
    const graph_segment *segment = &around->r->g->segments[around->segment];
    bt_tensor *nodes[GRAPH_NODES];
    (void)context;
    memcpy(nodes, around->nodes, sizeof nodes);
    for (int i = 0; i < in_count; ++i) {
        nodes[segment->passed[i]] = in[i];
    }
    run_range(around->r, nodes, segment->first, segment->last, around->segment);
    *out = bt_tensor_retain(nodes[segment->last]);
    for (int n = segment->first; n <= segment->last; ++n) {
        if (around->r->g->nodes[n].kind != GRAPH_LEAF) {
            bt_tensor_release(nodes[n]);
        }
    }
    return BT_OK;
}

// The largest segment that begins at node n inside of `within` (-1: the graph); -1: none.
static int segment_at(const graph *g, int n, int within)
{
    int best = -1;
    for (int k = 0; k < g->segment_count; ++k) {
        const graph_segment *s = &g->segments[k];
        const bool inside = within < 0 || (k != within && s->last < g->segments[within].last);
        if (s->first == n && inside && (best < 0 || s->last > g->segments[best].last)) {
            best = k;
        }
    }
    return best;
}

static void run_range(runner *r, bt_tensor **nodes, int first, int last, int within)
{
    for (int n = first; n <= last; ++n) {
        const int k = segment_at(r->g, n, within);
        if (k < 0) {
            run_node(r, nodes, n);
            continue;
        }
        const graph_segment *s = &r->g->segments[k];
        bt_tensor *in[GRAPH_INPUTS];
        for (int i = 0; i < s->passed_count; ++i) {
            in[i] = nodes[s->passed[i]];
        }
        ASSERT_OK(bt_recompute(&r->f->context, body, make_closure(r, nodes, k), in, s->passed_count,
                               &nodes[s->last]));
        n = s->last;
    }
}

// ---- the whole ----------------------------------------------------------------------------------

static void make_leaves(runner *r, bt_tensor **nodes)
{
    for (int n = 0; n < r->g->count; ++n) {
        const graph_node *node = &r->g->nodes[n];
        if (node->kind == GRAPH_LEAF) {
            nodes[n] = fixture_values(r->f, BT_F64, node->shape, node->values);
            nodes[n]->requires_grad = node->trained;
        }
    }
}

// The sum of graph_weight times the tensors that are there and, unless `all`, in the loss.
static bt_tensor *weighted_sum(runner *r, bt_tensor *const *nodes, bool all)
{
    bt_context *c = &r->f->context;
    bt_tensor *loss = NULL;
    for (int n = 0; n < r->g->count; ++n) {
        if (!nodes[n] || !(all || r->g->in_loss[n])) {
            continue;
        }
        double weights[GRAPH_ELEMENTS];
        bt_tensor *product = NULL, *sum = NULL, *both = NULL;
        for (int i = 0; i < bt_tensor_count(nodes[n]); ++i) {
            weights[i] = graph_weight(r->g, n, i);
        }
        bt_tensor *weight = fixture_values(r->f, BT_F64, nodes[n]->shape, weights);
        ASSERT_OK(bt_mul(c, nodes[n], weight, &product));
        ASSERT_OK(bt_sum_all(c, product, &sum));
        if (loss) {
            ASSERT_OK(bt_add(c, loss, sum, &both));
            bt_tensor_release(loss);
            bt_tensor_release(sum);
            sum = both;
        }
        loss = sum;
        bt_tensor_release(weight);
        bt_tensor_release(product);
    }
    return loss;
}

static void release_made(const graph *g, bt_tensor **nodes)
{
    for (int n = 0; n < g->count; ++n) {
        if (g->nodes[n].kind != GRAPH_LEAF) {
            BT_TENSOR_RELEASE(nodes[n]);
        }
    }
}

static void release_closures(runner *r)
{
    while (r->closures) {
        closure *next = r->closures->next;
        for (int n = 0; n < r->g->count; ++n) {
            bt_tensor_release(r->closures->nodes[n]);
        }
        free(r->closures);
        r->closures = next;
    }
}

static bt_status run_pass(runner *r, bt_tensor **nodes)
{
    r->f->context.recompute = (bt_recompute_mode)r->g->recompute;
    run_range(r, nodes, 0, r->g->count - 1, -1);
    r->f->context.recompute = BT_RECOMPUTE_NONE;
    bt_tensor *loss = weighted_sum(r, nodes, false);
    if (r->g->release_early) {
        release_made(r->g, nodes);
    }
    bt_status status = bt_backward(&r->f->context, loss, NULL);
    bt_tensor_release(loss);
    release_made(r->g, nodes);
    release_closures(r);
    bt_tape_reset(r->f->tape);
    return status;
}

// Reads and releases the leaves.
static void take_grads(runner *r, bt_tensor **nodes, double *grads[GRAPH_NODES])
{
    bt_pool_stats stats;
    for (int n = 0; n < r->g->count; ++n) {
        grads[n] = NULL;
        if (nodes[n]) {
            assert_int_equal(nodes[n]->grad_pending, 0);
            if (nodes[n]->grad && graph_listening.gradient) {
                graph_listening.gradient(graph_listening.self, nodes[n]->grad);
            }
            grads[n] = nodes[n]->grad ? fixture_read(r->f, nodes[n]->grad) : NULL;
            bt_tensor_release(nodes[n]);
        }
    }
    bt_pool_stats_read(r->f->pool, &stats);
    assert_true(stats.live_blocks == 0 || graph_listening.gradient); // who listens may keep copies
}

static bt_status backward_twice(runner *r, bt_tensor *loss, bt_tensor *const *nodes)
{
    bt_tensor *of[GRAPH_NODES], *grads[GRAPH_NODES], *first[GRAPH_NODES] = {NULL};
    int count = 0, places[GRAPH_NODES];
    for (int n = 0; n < r->g->count; ++n) {
        if (r->g->nodes[n].kind == GRAPH_LEAF && r->g->nodes[n].trained) {
            places[count] = n;
            of[count++] = nodes[n];
        }
    }
    BT_TRY(bt_backward_recorded(&r->f->context, loss, NULL, of, count, grads));
    for (int i = 0; i < count; ++i) {
        first[places[i]] = grads[i];
    }
    bt_tensor *sum = weighted_sum(r, first, true);
    bt_status status = sum->requires_grad ? bt_backward(&r->f->context, sum, NULL) : BT_OK;
    bt_tensor_release(sum);
    for (int i = 0; i < count; ++i) {
        bt_tensor_release(grads[i]);
    }
    return status;
}

bt_status graph_run_twice(fixture *f, const graph *g, double *grads[GRAPH_NODES])
{
    runner r = {.f = f, .g = g};
    bt_tensor *nodes[GRAPH_NODES] = {NULL};
    make_leaves(&r, nodes);
    f->context.recompute = (bt_recompute_mode)g->recompute;
    run_range(&r, nodes, 0, g->count - 1, -1);
    f->context.recompute = BT_RECOMPUTE_NONE;
    bt_tensor *loss = weighted_sum(&r, nodes, false);
    bt_status status = backward_twice(&r, loss, nodes);
    bt_tensor_release(loss);
    release_made(g, nodes);
    release_closures(&r);
    bt_tape_reset(f->tape);
    take_grads(&r, nodes, grads);
    return status;
}

bt_status graph_run(fixture *f, const graph *g, double *grads[GRAPH_NODES])
{
    runner r = {.f = f, .g = g};
    bt_tensor *nodes[GRAPH_NODES] = {NULL};
    bt_status status = BT_OK;
    make_leaves(&r, nodes);
    for (int pass = 0; pass < g->passes && status == BT_OK; ++pass) {
        status = run_pass(&r, nodes);
    }
    take_grads(&r, nodes, grads);
    return status;
}
