// Embedding and cross-entropy of a vocabulary that is dealt out to ranks, against one rank's.
//
// f64, values of size 1: loss and gradients are sums of at most VOCAB + ROWS terms in another
// order, each rounded a few times on the way: TERMS * eps bounds the difference.
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/autograd/session.h"
#include "framework/ops/ops.h"
#include "framework/ops/shard.h"
#include "tests/dist/ranks.h"
#include "tests/dist/slow.h"
#include "tests/support/test.h"

static const int64_t timeout_ns = 60000000000;

enum { VOCAB = 37, WIDTH = 6, BATCH = 2, TOKENS = 9, ROWS = BATCH * TOKENS, TERMS = 64 };

typedef struct how {
    int32_t ignore;
    int bad_id, bad_target; // places; -1: none
    bool in_place;
    unsigned slow_seed;
} how;

typedef struct model {
    bt_session session;
    bt_group *group; // NULL: one rank has all
    bt_tensor *ids, *targets, *table, *position, *loss;
    int64_t first, rows; // of the table
} model;

static void draw(double *values, int64_t count, double seed)
{
    for (int64_t i = 0; i < count; ++i) {
        values[i] = sin(seed + 0.731 * (double)i);
    }
}

static bt_status leaf(model *m, bt_shape shape, const double *values, bt_tensor **out)
{
    BT_TRY(bt_tensor_create(&m->session.context, BT_F64, shape, "leaf", out));
    (*out)->requires_grad = true;
    (*out)->grad_dtype = BT_F64;
    return bt_tensor_write(&m->session.context, *out, values);
}

static bt_status run(model *m, const how *with)
{
    bt_context *context = &m->session.context;
    bt_tensor *own = NULL, *token = NULL, *x = NULL, *shared = NULL, *flat = NULL, *logits = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_embedding_shard(context, m->group, m->ids, m->table, VOCAB, &own), done);
    BT_TRY_GOTO(bt_group_all_reduce(context, m->group, own, false, &token), done);
    BT_TRY_GOTO(bt_add(context, token, m->position, &x), done);
    BT_TRY_GOTO(bt_group_replicate(context, m->group, x, &shared), done);
    BT_TRY_GOTO(bt_reshape(context, shared, BT_SHAPE(ROWS, WIDTH), &flat), done);
    BT_TRY_GOTO(bt_linear(context, flat, m->table, NULL, NULL, BT_ACTIVATION_NONE, &logits), done);
    BT_TRY_GOTO(bt_cross_entropy_shard(context, m->group, logits, VOCAB, m->targets, with->ignore,
                                       with->in_place, &m->loss),
                done);
    status = bt_backward(context, m->loss, NULL);
done:
    bt_tensor_release(own);
    bt_tensor_release(token);
    bt_tensor_release(x);
    bt_tensor_release(shared);
    bt_tensor_release(flat);
    bt_tensor_release(logits);
    return status;
}

static bt_status open_model(model *m, const how *with)
{
    double table[VOCAB * WIDTH], position[TOKENS * WIDTH];
    int32_t ids[ROWS], targets[ROWS];
    bt_context *context = &m->session.context;
    m->rows = bt_shard_rows(VOCAB, m->group ? m->group->size : 1, m->group ? m->group->rank : 0,
                            &m->first);
    draw(table, VOCAB * WIDTH, 1);
    draw(position, TOKENS * WIDTH, 2);
    for (int i = 0; i < ROWS; ++i) {
        ids[i] = i == with->bad_id ? -1 : i * 11 % VOCAB;
        targets[i] = i == with->bad_target ? VOCAB : i % 5 == 4 ? with->ignore : i * 17 % VOCAB;
    }
    BT_TRY(bt_session_open("cpu", 0, 0, &m->session));
    BT_TRY(bt_tensor_create(context, BT_I32, BT_SHAPE(BATCH, TOKENS), "ids", &m->ids));
    BT_TRY(bt_tensor_write(context, m->ids, ids));
    BT_TRY(bt_tensor_create(context, BT_I32, BT_SHAPE(ROWS), "targets", &m->targets));
    BT_TRY(bt_tensor_write(context, m->targets, targets));
    BT_TRY(leaf(m, BT_SHAPE(m->rows, WIDTH), table + m->first * WIDTH, &m->table));
    return leaf(m, BT_SHAPE(TOKENS, WIDTH), position, &m->position);
}

static void close_model(model *m)
{
    bt_tensor_release(m->ids);
    bt_tensor_release(m->targets);
    bt_tensor_release(m->table);
    bt_tensor_release(m->position);
    bt_tensor_release(m->loss);
    bt_session_close(&m->session);
}

static bt_status compare(const char *what, const double *got, const double *expected, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        if (!(fabs(got[i] - expected[i]) <= TERMS * DBL_EPSILON)) {
            return bt_error(BT_STATUS_INTERNAL, "%s, element %lld: %.17g, one rank has %.17g", what,
                            (long long)i, got[i], expected[i]);
        }
    }
    return BT_OK;
}

static bt_status compare_models(model *part, model *whole)
{
    double got[VOCAB * WIDTH], expected[VOCAB * WIDTH];
    BT_TRY(bt_tensor_read(&part->session.context, part->loss, got));
    BT_TRY(bt_tensor_read(&whole->session.context, whole->loss, expected));
    BT_TRY(compare("loss", got, expected, 1));
    BT_TRY(bt_tensor_read(&part->session.context, part->table->grad, got));
    BT_TRY(bt_tensor_read(&whole->session.context, whole->table->grad, expected));
    BT_TRY(compare("table", got, expected + part->first * WIDTH, part->rows * WIDTH));
    BT_TRY(bt_tensor_read(&part->session.context, part->position->grad, got));
    BT_TRY(bt_tensor_read(&whole->session.context, whole->position->grad, expected));
    return compare("positions", got, expected, TOKENS * WIDTH);
}

static bt_status agrees(bt_group *group, void *argument, rank_result *result)
{
    const how *with = argument;
    model part = {.group = group}, whole = {.group = NULL};
    (void)result;
    if (with->slow_seed) {
        slow_transport(group, with->slow_seed);
    }
    bt_status status = open_model(&part, with);
    status = status ? status : open_model(&whole, with);
    status = status ? status : run(&part, with);
    status = status ? status : run(&whole, with);
    status = status ? status : compare_models(&part, &whole);
    close_model(&part);
    close_model(&whole);
    return status;
}

static void run_all(rank_body body, how with, int ranks)
{
    rank_result results[RANKS_MAX];
    run_ranks(RANKS_THREADS, ranks, timeout_ns, body, &with, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("rank %d of %d: %s", rank, ranks, results[rank].message);
        }
    }
}

static void shards_agree_with_one_rank(void **state)
{
    (void)state;
    static const int32_t ignored[] = {-100, -1, 0, 2, 36};
    for (int ranks = 1; ranks <= 6; ++ranks) {
        for (size_t i = 0; i < sizeof ignored / sizeof *ignored; ++i) {
            run_all(agrees, (how){.ignore = ignored[i], .bad_id = -1, .bad_target = -1}, ranks);
        }
        run_all(agrees,
                (how){.ignore = -100,
                      .bad_id = -1,
                      .bad_target = -1,
                      .in_place = true,
                      .slow_seed = (unsigned)ranks},
                ranks);
    }
}

static bt_status is_nan(bt_group *group, void *argument, rank_result *result)
{
    model part = {.group = group};
    double loss = 0;
    (void)result;
    bt_status status = open_model(&part, argument);
    status = status ? status : run(&part, argument);
    status = status ? status : bt_tensor_read(&part.session.context, part.loss, &loss);
    close_model(&part);
    if (status == BT_OK && !isnan(loss)) {
        status = bt_error(BT_STATUS_INTERNAL, "the loss is %g", loss);
    }
    return status;
}

static void ids_of_no_shard_make_the_loss_nan(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ++ranks) {
        run_all(is_nan, (how){.ignore = -100, .bad_id = 7, .bad_target = -1}, ranks);
        run_all(is_nan, (how){.ignore = -100, .bad_id = -1, .bad_target = 8}, ranks);
    }
}

static void the_vocabulary_is_dealt_out(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 8; ++ranks) {
        int64_t next = 0, first = 0;
        for (int rank = 0; rank < ranks; ++rank) {
            const int64_t rows = bt_shard_rows(VOCAB, ranks, rank, &first);
            assert_true(rows == 0 || first == next);
            next += rows;
        }
        assert_int_equal(next, VOCAB);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_agree_with_one_rank),
        cmocka_unit_test(ids_of_no_shard_make_the_loss_nan),
        cmocka_unit_test(the_vocabulary_is_dealt_out),
    };
    return cmocka_run_group_tests_name("dist.shard_ops", tests, NULL, NULL);
}
