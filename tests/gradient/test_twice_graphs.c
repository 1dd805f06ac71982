// tests/gradient/test_twice_graphs.c - gradients of gradients through random graphs
//
// As tests/gradient/test_twice.c, where each op stands alone: L is the sum of w x of the last
// value, S = sum over leaves of v dL/dx. The gradient of S, by bt_backward_recorded and
// bt_backward, is compared with central differences of S. Values are used by several ops and leaves
// by several values, so second gradients are summed over several paths.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fixture.h"
#include "tests/support/test.h"

enum { SIDE = 3, COUNT = SIDE * SIDE, LEAVES = 3, NODES_MOST = 8, GRAPHS = 500 };

static const double step = 1e-5, tolerance = 1e-6;

typedef struct graph {
    fixture f;
    uint64_t seed;
    double values[LEAVES][COUNT];
    bt_tensor *weight[LEAVES + 1]; // of the leaves' gradients; of the last value
    bt_tensor *leaf[LEAVES];
    bt_tensor *row[2]; // LayerNorm's scale and shift, constants [SIDE]
} graph;

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (*state >> 33) % below;
}

static void apply(graph *g, uint64_t what, uint64_t more, bt_tensor *a, bt_tensor *b,
                  bt_tensor **out)
{
    bt_context *context = &g->f.context;
    bt_tensor *between = NULL;
    switch (what) {
    case 0:
        ASSERT_OK(bt_add(context, a, b, out));
        break;
    case 1:
        ASSERT_OK(bt_sub(context, a, b, out));
        break;
    case 2:
        ASSERT_OK(bt_mul(context, a, b, out));
        break;
    case 3:
        ASSERT_OK(bt_matmul(context, a, more & 1U, b, more & 2U, out));
        break;
    case 4:
        ASSERT_OK(bt_softmax(context, a, out));
        break;
    case 5:
        ASSERT_OK(bt_layernorm(context, a, g->row[0], g->row[1], 1e-2, out));
        break;
    case 6:
        ASSERT_OK(bt_scale(context, a, 0.5 + (double)more, out));
        break;
    case 7: // a view
        ASSERT_OK(bt_transpose(context, a, 0, 1, &between));
        ASSERT_OK(bt_contiguous(context, between, out));
        break;
    default: // sums, spread again
        ASSERT_OK(bt_sum(context, a, (int)(more & 1U), &between));
        ASSERT_OK(bt_mul(context, b, between, out));
        break;
    }
    bt_tensor_release(between);
}

static void make_leaves(graph *g)
{
    for (int i = 0; i < LEAVES; ++i) {
        g->leaf[i] = fixture_values(&g->f, BT_F64, BT_SHAPE(SIDE, SIDE), g->values[i]);
        g->leaf[i]->requires_grad = true;
    }
}

static void release_leaves(graph *g)
{
    for (int i = 0; i < LEAVES; ++i) {
        bt_tensor_release(g->leaf[i]);
    }
}

// Every leaf is used: the last value is added to all of them.
static bt_tensor *make_loss(graph *g)
{
    bt_context *context = &g->f.context;
    bt_tensor *values[LEAVES + NODES_MOST], *loss = NULL;
    uint64_t state = g->seed;
    int count = LEAVES;
    memcpy(values, g->leaf, sizeof g->leaf);
    const int nodes = 2 + (int)draw(&state, NODES_MOST - 1);
    for (int i = 0; i < nodes; ++i) {
        bt_tensor *a = values[draw(&state, (uint64_t)count)];
        bt_tensor *b = i < LEAVES ? values[i] : values[draw(&state, (uint64_t)count)];
        const uint64_t what = draw(&state, 9), more = draw(&state, 4);
        apply(g, what, more, a, b, &values[count++]);
    }
    bt_tensor *last = bt_tensor_retain(values[count - 1]);
    for (int i = 0; i < LEAVES; ++i) {
        bt_tensor *product = NULL, *sum = NULL;
        ASSERT_OK(bt_mul(context, last, g->leaf[i], &product));
        ASSERT_OK(bt_add(context, last, product, &sum));
        bt_tensor_release(product);
        bt_tensor_release(last);
        last = sum;
    }
    bt_tensor *weighted = NULL;
    ASSERT_OK(bt_mul(context, last, g->weight[LEAVES], &weighted));
    ASSERT_OK(bt_sum_all(context, weighted, &loss));
    bt_tensor_release(weighted);
    bt_tensor_release(last);
    for (int i = LEAVES; i < count; ++i) {
        bt_tensor_release(values[i]);
    }
    return loss;
}

// S from first gradients by bt_backward.
static double evaluate(graph *g)
{
    double sum = 0;
    make_leaves(g);
    bt_tensor *loss = make_loss(g);
    ASSERT_OK(bt_backward(&g->f.context, loss, NULL));
    for (int i = 0; i < LEAVES; ++i) {
        double *grad = fixture_read(&g->f, g->leaf[i]->grad);
        double *weight = fixture_read(&g->f, g->weight[i]);
        for (int k = 0; k < COUNT; ++k) {
            sum += weight[k] * grad[k];
        }
        free(grad);
        free(weight);
    }
    bt_tensor_release(loss);
    release_leaves(g);
    return sum;
}

// S from recorded gradients, and its own gradients in the leaves.
static void differentiate(graph *g, double got[LEAVES][COUNT])
{
    bt_context *context = &g->f.context;
    bt_tensor *grads[LEAVES], *total = NULL;
    make_leaves(g);
    bt_tensor *loss = make_loss(g);
    ASSERT_OK(bt_backward_recorded(context, loss, NULL, g->leaf, LEAVES, grads));
    for (int i = 0; i < LEAVES; ++i) {
        bt_tensor *product = NULL, *sum = NULL, *both = NULL;
        ASSERT_OK(bt_mul(context, grads[i], g->weight[i], &product));
        ASSERT_OK(bt_sum_all(context, product, &sum));
        if (total) {
            ASSERT_OK(bt_add(context, total, sum, &both));
            bt_tensor_release(total);
            bt_tensor_release(sum);
            sum = both;
        }
        total = sum;
        bt_tensor_release(product);
        bt_tensor_release(grads[i]);
    }
    ASSERT_OK(bt_backward(context, total, NULL));
    for (int i = 0; i < LEAVES; ++i) {
        double *grad = fixture_read(&g->f, g->leaf[i]->grad);
        memcpy(got[i], grad, sizeof got[i]);
        free(grad);
    }
    bt_tensor_release(total);
    bt_tensor_release(loss);
    release_leaves(g);
}

static double check_graph(uint64_t seed)
{
    graph g = {.seed = seed};
    double got[LEAVES][COUNT], expected[LEAVES][COUNT], largest = 1, worst = 0;
    fixture_open(&g.f, 0);
    for (uint64_t i = 0; i < LEAVES; ++i) {
        bt_tensor *drawn =
            fixture_random(&g.f, BT_F64, BT_SHAPE(SIDE, SIDE), -1, 1, 1000 * seed + i);
        double *values = fixture_read(&g.f, drawn);
        memcpy(g.values[i], values, sizeof g.values[i]);
        free(values);
        bt_tensor_release(drawn);
    }
    for (uint64_t i = 0; i <= LEAVES; ++i) {
        g.weight[i] =
            fixture_random(&g.f, BT_F64, BT_SHAPE(SIDE, SIDE), -1, 1, 1000 * seed + 100 + i);
    }
    for (uint64_t i = 0; i < 2; ++i) {
        g.row[i] = fixture_random(&g.f, BT_F64, BT_SHAPE(SIDE), 0.5, 1.5, 1000 * seed + 200 + i);
    }
    differentiate(&g, got);
    for (int i = 0; i < LEAVES; ++i) {
        for (int k = 0; k < COUNT; ++k) {
            const double value = g.values[i][k];
            g.values[i][k] = value + step;
            const double above = evaluate(&g);
            g.values[i][k] = value - step;
            const double below = evaluate(&g);
            g.values[i][k] = value;
            expected[i][k] = (above - below) / (2 * step);
            largest = fmax(largest, fabs(expected[i][k]));
        }
    }
    for (int i = 0; i < LEAVES; ++i) {
        for (int k = 0; k < COUNT; ++k) {
            const double error = fabs(got[i][k] - expected[i][k]) / largest;
            if (!(error <= tolerance)) {
                fail_msg("graph %llu, leaf %d, element %d: got %.12g, expected %.12g of at most %g",
                         (unsigned long long)seed, i, k, got[i][k], expected[i][k], largest);
            }
            worst = fmax(worst, error);
        }
    }
    for (int i = 0; i <= LEAVES; ++i) {
        bt_tensor_release(g.weight[i]);
    }
    bt_tensor_release(g.row[0]);
    bt_tensor_release(g.row[1]);
    fixture_close(&g.f);
    return worst;
}

static void graphs_have_right_second_gradients(void **state)
{
    (void)state;
    double worst = 0;
    for (uint64_t seed = 1; seed <= GRAPHS; ++seed) {
        worst = fmax(worst, check_graph(seed));
    }
    print_message("%d graphs, largest error %.2g of the largest gradient\n", (int)GRAPHS, worst);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(graphs_have_right_second_gradients)};
    return cmocka_run_group_tests_name("gradients of gradients of graphs", tests, NULL, NULL);
}
