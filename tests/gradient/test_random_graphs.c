// tests/gradient/test_random_graphs.c - gradients of random graphs against dual numbers
//
//   gradient_random_graphs_test [graphs [first seed]]
// draws graphs of ops with broadcasts, views, writes in place, tensors that fill several inputs,
// leaves with and without gradients, recomputed bodies, modes of recomputation and several passes,
// and compares the gradient of every leaf with forward-mode differentiation (graph_oracle.c). A
// failure prints the seed and the smallest graph that still fails.
//
// Everything is f64. Values stay below 30 and away from poles; a gradient may err by ALLOWED times
// the largest one of the graph and 1, which is 10^6 roundings.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gradient/graph.h"
#include "tests/support/test.h"

static const double ALLOWED = 1e-10;
static int64_t graph_count = 1500;
static uint64_t first_seed = 1;

typedef struct verdict {
    bool failed;
    char why[256];
} verdict;

// How a checker's own test spoils what the tape answers.
typedef enum spoil { SPOIL_NOTHING, SPOIL_VALUE, SPOIL_MISSING } spoil;

typedef struct tally {
    int64_t answers[3], kinds[GRAPH_KIND_COUNT], recomputed;
} tally;

static bool check_leaf(const graph *g, int leaf, const double *grad, double *largest, verdict *v)
{
    double expected[GRAPH_ELEMENTS];
    const int64_t count = bt_shape_count(&g->nodes[leaf].shape);
    for (int i = 0; i < count; ++i) {
        expected[i] = g->passes * graph_derivative(g, leaf, i);
        *largest = fmax(*largest, fabs(expected[i]));
    }
    for (int i = 0; i < count; ++i) {
        const double got = grad ? grad[i] : 0;
        if (!(fabs(got - expected[i]) <= ALLOWED * (1 + *largest))) {
            v->failed = true;
            (void)snprintf(v->why, sizeof v->why, "leaf n%d [%d]: tape %.12g, oracle %.12g", leaf,
                           i, got, expected[i]);
        }
    }
    return !v->failed;
}

static void check_gradients(const graph *g, double *const *grads, verdict *v)
{
    double largest = 0;
    for (int n = g->count - 1; n >= 0; --n) { // the leaves first drawn have the largest
        if (g->nodes[n].kind != GRAPH_LEAF) {
            continue;
        }
        if (!g->nodes[n].trained && grads[n]) {
            v->failed = true;
            (void)snprintf(v->why, sizeof v->why, "constant n%d has a gradient", n);
        }
        if (g->nodes[n].trained && !check_leaf(g, n, grads[n], &largest, v)) {
            return;
        }
    }
}

// False where no gradient is there to spoil.
static bool spoil_gradients(const graph *g, double **grads, spoil how)
{
    for (int n = 0; n < g->count; ++n) {
        if (grads[n] && fabs(grads[n][0]) > 1e-3) {
            grads[n][0] *= how == SPOIL_VALUE ? 1 + 1e-3 : 0;
            return true;
        }
    }
    return false;
}

// Where something is made again, a written tensor may be one that is not kept, or one that is kept
// for that alone: the gradient is right or refused.
static bool may_differ(const graph *g, graph_answer expected)
{
    bool writes = false;
    for (int n = 0; n < g->count; ++n) {
        writes = writes || g->nodes[n].kind == GRAPH_WRITE;
    }
    return writes && g->recompute != BT_RECOMPUTE_NONE && expected != GRAPH_NO_GRADIENT;
}

static verdict check(fixture *f, const graph *g, spoil how)
{
    static const char *const messages[] = {"", "written in place afterwards",
                                           "depends on no tensor"};
    graph_answer expected = graph_expect(g);
    double *grads[GRAPH_NODES];
    verdict v = {.failed = false};
    const bt_status status = graph_run(f, g, grads);
    if (may_differ(g, expected)) {
        expected = status == BT_OK ? GRAPH_GRADIENTS : GRAPH_STALE;
    }
    if ((expected == GRAPH_GRADIENTS) != (status == BT_OK) ||
        (status != BT_OK && !strstr(bt_error_message(), messages[expected]))) {
        v.failed = true;
        (void)snprintf(v.why, sizeof v.why, "expected '%s', got '%s'", messages[expected],
                       status == BT_OK ? "" : bt_error_message());
    } else if (status == BT_OK && (how == SPOIL_NOTHING || spoil_gradients(g, grads, how))) {
        check_gradients(g, grads, &v);
    }
    for (int n = 0; n < g->count; ++n) {
        free(grads[n]);
    }
    return v;
}

// ---- shrinking ----------------------------------------------------------------------------------

static bool is_used(const graph *g, int n)
{
    bool used = g->in_loss[n];
    for (int k = 0; k < g->count; ++k) {
        for (int i = 0; i < GRAPH_INPUTS; ++i) {
            used = used || (g->nodes[k].kind != GRAPH_DROPPED && g->nodes[k].in[i] == n);
        }
    }
    for (int k = 0; k < g->segment_count; ++k) {
        for (int i = 0; i < g->segments[k].passed_count; ++i) {
            used = used || g->segments[k].passed[i] == n;
        }
        used = used || g->segments[k].last == n;
    }
    return used;
}

static bool in_any_segment(const graph *g, int n)
{
    for (int k = 0; k < g->segment_count; ++k) {
        if (n >= g->segments[k].first && n <= g->segments[k].last) {
            return true;
        }
    }
    return false;
}

static int loss_count(const graph *g)
{
    int count = 0;
    for (int n = 0; n < g->count; ++n) {
        count += g->in_loss[n];
    }
    return count;
}

static void drop(graph_node *n)
{
    n->kind = GRAPH_DROPPED;
    memset(n->in, -1, sizeof n->in);
}

// The change of this number to node n. False where there is none.
static bool change(graph *g, int n, int number)
{
    static dual values[GRAPH_NODES][GRAPH_ELEMENTS];
    graph_node *node = &g->nodes[n];
    const bool made = node->kind != GRAPH_LEAF && node->kind != GRAPH_WRITE &&
                      node->kind != GRAPH_DROPPED && node->kind != GRAPH_SECOND;
    switch (number) {
    case 0: // without it
        if (node->kind == GRAPH_DROPPED || node->kind == GRAPH_SECOND || is_used(g, n) ||
            (node->kind == GRAPH_ADD_LAYERNORM)) {
            return false;
        }
        drop(node);
        return true;
    case 1: // without it in the loss
        if (!g->in_loss[n] || loss_count(g) == 1) {
            return false;
        }
        g->in_loss[n] = false;
        return true;
    case 2: // a leaf of the same values
    case 3:
        if (!made || in_any_segment(g, n) || node->kind == GRAPH_ADD_LAYERNORM ||
            !graph_evaluate(g, n + 1, -1, 0, values)) {
            return false;
        }
        for (int i = 0; i < bt_shape_count(&node->shape); ++i) {
            node->values[i] = values[n][i].v;
        }
        node->kind = GRAPH_LEAF;
        node->trained = number == 3;
        memset(node->in, -1, sizeof node->in);
        return true;
    case 4: // a constant
        if (!node->trained) {
            return false;
        }
        node->trained = false;
        return true;
    default: // add_layernorm and its sum
        if (node->kind != GRAPH_ADD_LAYERNORM || is_used(g, n + 1) || g->in_loss[n]) {
            return false;
        }
        drop(&g->nodes[n + 1]);
        if (is_used(g, n)) {
            return false;
        }
        drop(node);
        return true;
    }
}

static bool change_segment(graph *g, int k)
{
    if (k >= g->segment_count) {
        return false;
    }
    g->segments[k] = g->segments[--g->segment_count];
    return true;
}

enum { CHANGES = 6 };

// Tries what makes the graph smaller until nothing keeps it failing.
static void shrink(fixture *f, graph *g, spoil how)
{
    static graph smaller;
    bool changed = true;
    while (changed) {
        changed = false;
        for (int i = 0; i < g->count * CHANGES + GRAPH_SEGMENTS + 1; ++i) {
            const int at = i - g->count * CHANGES;
            smaller = *g;
            bool differs = at < 0                ? change(&smaller, i / CHANGES, i % CHANGES)
                           : at < GRAPH_SEGMENTS ? change_segment(&smaller, at)
                                                 : smaller.passes > 1;
            smaller.passes = at == GRAPH_SEGMENTS ? 1 : smaller.passes;
            graph_lay_out(&smaller);
            if (differs && check(f, &smaller, how).failed) {
                *g = smaller;
                changed = true;
            }
        }
    }
}

static int node_count(const graph *g)
{
    int count = 0;
    for (int n = 0; n < g->count; ++n) {
        count += g->nodes[n].kind != GRAPH_DROPPED;
    }
    return count;
}

// ---- tests --------------------------------------------------------------------------------------

static void count_graph(tally *t, const graph *g)
{
    ++t->answers[graph_expect(g)];
    t->recomputed += g->segment_count > 0;
    for (int n = 0; n < g->count; ++n) {
        ++t->kinds[g->nodes[n].kind];
    }
}

static void random_graphs_have_right_gradients(void **state)
{
    (void)state;
    static graph g;
    fixture f;
    tally t = {0};
    fixture_open(&f, 0);
    for (int64_t i = 0; i < graph_count; ++i) {
        graph_make(&f, first_seed + (uint64_t)i, &g);
        count_graph(&t, &g);
        verdict v = check(&f, &g, SPOIL_NOTHING);
        if (v.failed) {
            shrink(&f, &g, SPOIL_NOTHING);
            (void)fprintf(stderr, "seed %llu: %s\nThe smallest graph that fails:\n",
                          (unsigned long long)g.seed, v.why);
            graph_print(&g);
            fail_msg("seed %llu: %s", (unsigned long long)g.seed, check(&f, &g, SPOIL_NOTHING).why);
        }
    }
    print_message("%lld graphs: %lld with gradients, %lld stale, %lld constant, %lld recomputed\n",
                  (long long)graph_count, (long long)t.answers[GRAPH_GRADIENTS],
                  (long long)t.answers[GRAPH_STALE], (long long)t.answers[GRAPH_NO_GRADIENT],
                  (long long)t.recomputed);
    if (graph_count >= 1000) { // each kind, and each answer, is met
        for (int kind = 0; kind < GRAPH_KIND_COUNT; ++kind) {
            assert_true(t.kinds[kind] >= 20 || kind == GRAPH_DROPPED);
        }
        assert_true(t.answers[GRAPH_GRADIENTS] > graph_count / 2);
        assert_true(t.answers[GRAPH_STALE] >= 20 && t.answers[GRAPH_NO_GRADIENT] >= 1);
        assert_true(t.recomputed > graph_count / 5);
    }
    fixture_close(&f);
}

// S, as graph_run_twice has it, from the oracle's first derivatives.
static double weighted_derivative(const graph *g)
{
    double sum = 0;
    for (int n = 0; n < g->count; ++n) {
        const bool counts = g->nodes[n].kind == GRAPH_LEAF && g->nodes[n].trained;
        for (int i = 0; counts && i < bt_shape_count(&g->nodes[n].shape); ++i) {
            sum += graph_weight(g, n, i) * graph_derivative(g, n, i);
        }
    }
    return sum;
}

// One element of each trained leaf against central differences of the oracle's derivatives, whose
// error is some 1e-16 |S| / step + step^2.
static void check_second(graph *g, double *const *second)
{
    const double step = 1e-5, around = fabs(weighted_derivative(g));
    for (int n = 0; n < g->count; ++n) {
        graph_node *leaf = &g->nodes[n];
        if (leaf->kind != GRAPH_LEAF || !leaf->trained || bt_shape_count(&leaf->shape) == 0) {
            continue;
        }
        const int i = (int)(g->seed % (uint64_t)bt_shape_count(&leaf->shape));
        const double kept = leaf->values[i];
        leaf->values[i] = kept + step;
        const double above = weighted_derivative(g);
        leaf->values[i] = kept - step;
        const double below = weighted_derivative(g);
        leaf->values[i] = kept;
        const double expected = (above - below) / (2 * step), got = second[n] ? second[n][i] : 0;
        if (!(fabs(got - expected) <= 1e-5 * (1 + around + fabs(expected)))) {
            graph_print(g);
            fail_msg("seed %llu, leaf n%d [%d]: twice %.12g, oracle %.12g",
                     (unsigned long long)g->seed, n, i, got, expected);
        }
    }
}

// Those that bt_backward_recorded does not refuse. Writes in place are for bt_backward's tests; a
// difference of derivatives includes detached paths.
static void random_graphs_have_right_second_gradients(void **state)
{
    (void)state;
    static graph g;
    fixture f;
    int64_t checked = 0, refused = 0;
    fixture_open(&f, 0);
    for (int64_t i = 0; i < graph_count; ++i) {
        double *second[GRAPH_NODES];
        bool fits = true;
        graph_make(&f, first_seed + (uint64_t)i, &g);
        g.segment_count = 0; // recompute is differentiable once
        for (int n = 0; n < g.count; ++n) {
            fits = fits && g.nodes[n].kind != GRAPH_WRITE && g.nodes[n].kind != GRAPH_DETACH;
        }
        if (!fits || graph_expect(&g) != GRAPH_GRADIENTS) {
            continue;
        }
        const bt_status status = graph_run_twice(&f, &g, second);
        if (status == BT_OK) {
            check_second(&g, second);
            ++checked;
        } else {
            assert_int_equal(status, BT_STATUS_UNSUPPORTED);
            assert_non_null(strstr(bt_error_message(), "is not twice differentiable"));
            ++refused;
        }
        for (int n = 0; n < g.count; ++n) {
            free(second[n]);
        }
    }
    print_message("%lld graphs, %lld with an op that is differentiable once\n", (long long)checked,
                  (long long)refused);
    assert_true(graph_count < 1000 || (checked >= 100 && refused > 20));
    fixture_close(&f);
}

// A gradient that is wrong by 0.1 %, or is lost, is found, and the graph shrinks to a leaf, or to
// one op (four nodes where that is add_layernorm, which has two outputs).
static void checker_finds_spoiled_gradients_and_shrinks(void **state)
{
    (void)state;
    static graph g;
    static const spoil ways[] = {SPOIL_VALUE, SPOIL_MISSING};
    int found = 0;
    fixture f;
    fixture_open(&f, 0);
    for (int i = 0; i < 60; ++i) {
        graph_make(&f, (uint64_t)i, &g);
        if (!check(&f, &g, ways[i % 2]).failed) {
            continue; // nothing to spoil
        }
        ++found;
        shrink(&f, &g, ways[i % 2]);
        assert_true(check(&f, &g, ways[i % 2]).failed);
        assert_true(node_count(&g) <= 4);
    }
    assert_true(found >= 30);
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checker_finds_spoiled_gradients_and_shrinks),
        cmocka_unit_test(random_graphs_have_right_gradients),
        cmocka_unit_test(random_graphs_have_right_second_gradients),
    };
    if (argc > 1) {
        graph_count = strtoll(argv[1], NULL, 10);
    }
    if (argc > 2) {
        first_seed = strtoull(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests_name("random graphs", tests, NULL, NULL);
}
