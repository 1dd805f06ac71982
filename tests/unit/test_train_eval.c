// tests/unit/test_train_eval.c - what training also does: scores on HellaSwag, given weights
#include "tests/support/test.h"

#include <string.h>

#include "framework/base/mem.h"
#include "tests/support/scratch.h"
#include "tests/support/small_train.h"

enum { STEPS = SMALL_STEPS, QUESTIONS = 3, ROW = 9 };

typedef struct record {
    float loss[STEPS];
    int64_t steps, scores, score_step[STEPS];
    bt_hellaswag_score score[STEPS];
    double first_eval;
    int64_t evals;
} record;

static uint16_t tokens[QUESTIONS * BT_HELLASWAG_ENDINGS * ROW];
static bt_hellaswag_row rows[QUESTIONS * BT_HELLASWAG_ENDINGS];
static int32_t labels[QUESTIONS];
static bt_hellaswag questions;

// The right ending follows the rule of the shards: token i+1 is 5 times token i plus 1. The others
// are the tokens in front of it again.
static int setup(void **state)
{
    for (int q = 0; q < QUESTIONS; ++q) {
        labels[q] = (q + 1) % BT_HELLASWAG_ENDINGS;
        for (int e = 0; e < BT_HELLASWAG_ENDINGS; ++e) {
            const int at = q * BT_HELLASWAG_ENDINGS + e;
            uint16_t *row = tokens + at * ROW;
            rows[at] = (bt_hellaswag_row){(int64_t)at * ROW, ROW, 4};
            row[0] = (uint16_t)(q + 2);
            for (int i = 1; i < ROW; ++i) {
                const bool follows = i < ROW - 4 || e == labels[q];
                row[i] =
                    (uint16_t)(follows ? (5U * row[i - 1] + 1U) % SMALL_VOCAB : row[i - 1 - e % 2]);
            }
        }
    }
    questions = (bt_hellaswag){.tokens = {tokens, sizeof tokens / sizeof *tokens, 0},
                               .rows = rows,
                               .labels = labels,
                               .count = QUESTIONS,
                               .longest = ROW,
                               .highest = SMALL_VOCAB - 1};
    (void)test_scratch_make();
    return small_corpus_write(state);
}

static int teardown(void **state)
{
    test_scratch_remove();
    return small_corpus_remove(state);
}

static bt_status on_step(void *self, const bt_train_step *event)
{
    record *r = self;
    r->loss[r->steps++ % STEPS] = event->loss;
    return BT_OK;
}

static bt_status on_eval(void *self, const bt_train_eval *event)
{
    record *r = self;
    r->first_eval = r->evals++ == 0 ? event->loss : r->first_eval;
    return BT_OK;
}

static bt_status on_score(void *self, const bt_train_score *event)
{
    record *r = self;
    assert_true(event->host_ns > 0);
    r->score_step[r->scores] = event->step;
    r->score[r->scores++] = event->score;
    return BT_OK;
}

static bt_status train(const bt_train_plan *plan, record *r, bt_train_result *result)
{
    *r = (record){0};
    const bt_train_observer observer = {
        .self = r, .step = on_step, .eval = on_eval, .score = on_score};
    return bt_train_run(plan, &observer, result);
}

// At the start, every 5 steps and at the end; the training has the same bits as without.
static void scores(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    bt_train_result plain_result, result;
    record plain, r;
    ASSERT_OK(train(&plan, &plain, &plain_result));
    assert_int_equal(plain.scores, 0);
    plan.hellaswag = &questions;
    plan.hellaswag_every = 5;
    ASSERT_OK(train(&plan, &r, &result));
    assert_int_equal(r.scores, STEPS / 5 + 1 + (STEPS % 5 != 0));
    for (int64_t i = 0; i < r.scores; ++i) {
        assert_int_equal(r.score_step[i], i + 1 < r.scores ? 5 * i : STEPS);
        assert_int_equal(r.score[i].questions, QUESTIONS);
        assert_int_equal(r.score[i].shortened, 0);
    }
    assert_memory_equal(r.loss, plain.loss, sizeof r.loss);
    assert_string_equal(result.state_digest, plain_result.state_digest);
}

// Trained long enough, the model takes the ending that follows the rule.
static void a_trained_model_is_right(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    bt_train_result result;
    record r;
    plan.hellaswag = &questions;
    plan.steps = 100;
    plan.hellaswag_every = plan.steps;
    plan.eval_every = 0;
    plan.optimizer.lr = 1e-2;
    ASSERT_OK(train(&plan, &r, &result));
    assert_int_equal(r.scores, 2);
    assert_int_equal(r.score[1].correct, QUESTIONS);
    assert_int_equal(r.score[1].normalised_correct, QUESTIONS);
    assert_true(r.score[0].correct < QUESTIONS);
}

// What one run saved at its end is where the next begins.
static void begins_with_weights(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    bt_train_result result;
    record r;
    plan.checkpoints = (bt_train_checkpoints){.folder = test_scratch_path("store"), .at_end = true};
    ASSERT_OK(train(&plan, &r, &result));
    const double last_loss = result.val_loss;
    plan.checkpoints = (bt_train_checkpoints){0};
    plan.init = test_scratch_path("store");
    ASSERT_OK(train(&plan, &r, &result));
    assert_true(r.first_eval >= last_loss && r.first_eval <= last_loss);
    plan.precision = BT_PRECISION_BF16; // the copies are made from what was loaded
    ASSERT_OK(train(&plan, &r, &result));
    assert_true(r.first_eval > last_loss - 0.02 && r.first_eval < last_loss + 0.02);
}

static void refused(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    bt_train_result result;
    record r;
    plan.hellaswag_every = 5;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "there are no questions", train(&plan, &r, &result));
    plan.hellaswag_every = -1;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "hellaswag_every is -1", train(&plan, &r, &result));
    plan.hellaswag_every = 5;
    questions.highest = SMALL_VOCAB;
    plan.hellaswag = &questions;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "hellaswag: the questions contain the token",
                 train(&plan, &r, &result));
    questions.highest = SMALL_VOCAB - 1;
    plan.hellaswag_every = 0;
    plan.init = test_scratch_path("nothing");
    ASSERT_FAILS(BT_STATUS_IO, "init: cannot open", train(&plan, &r, &result));
    plan.init = NULL;
    plan.checkpoints = (bt_train_checkpoints){.folder = test_scratch_path("other"), .at_end = true};
    ASSERT_OK(train(&plan, &r, &result));
    plan.checkpoints = (bt_train_checkpoints){0};
    plan.init = test_scratch_path("other");
    plan.model.context = 32;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "has context 16, the plan's model 32",
                 train(&plan, &r, &result));
    plan.model.context = 16;
    plan.model.heads = 4;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "has 2 heads, not 4", train(&plan, &r, &result));
    assert_int_equal(bt_mem_live_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores),
        cmocka_unit_test(a_trained_model_is_right),
        cmocka_unit_test(begins_with_weights),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
