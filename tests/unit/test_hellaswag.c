// tests/unit/test_hellaswag.c - reading questions, and their score against bt_gpt2_loss
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/eval/hellaswag.h"
#include "framework/nn/gpt2.h"
#include "tests/support/corpus.h"
#include "tests/support/fixture.h"
#include "tests/support/scratch.h"

static const char two[] =
    "Cooking: he stirs the pot. he\n2\nsings.\nputs the lid on the pot.\nis.\n"
    "throws it.\nRunning: the\n0\nend\nother end of the long road\na\nbb\n";

static bt_tokenizer *tokenizer;
static bt_hellaswag questions;

static int setup(void **state)
{
    (void)state;
    (void)test_scratch_make();
    ASSERT_OK(bt_tokenizer_load(test_ranks_write("small.tiktoken"), true, &tokenizer));
    questions = (bt_hellaswag){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bt_hellaswag_release(&questions);
    bt_tokenizer_destroy(tokenizer);
    test_scratch_remove();
    assert_int_equal(bt_mem_live_count(), 0);
    return 0;
}

static bt_status parse(const char *text, int64_t limit)
{
    bt_hellaswag_release(&questions);
    return bt_hellaswag_parse("q.txt", text, strlen(text), tokenizer, limit, &questions);
}

static void check_row(int64_t index, const char *all, int64_t ending)
{
    const bt_hellaswag_row *row = &questions.rows[index];
    bt_str text = {0};
    ASSERT_OK(bt_tokenizer_decode(tokenizer, questions.tokens.ids + row->start, row->count, &text));
    assert_string_equal(bt_str_text(&text), all);
    bt_str_clear(&text);
    ASSERT_OK(bt_tokenizer_decode(tokenizer,
                                  questions.tokens.ids + row->start + row->count - row->ending,
                                  row->ending, &text));
    assert_int_equal((int64_t)text.length_bytes, ending);
    bt_str_release(&text);
}

static void read_questions(void **state)
{
    (void)state;
    const char *path = test_scratch_write("q.txt", two, sizeof two - 1);
    ASSERT_OK(bt_hellaswag_read(path, tokenizer, 0, &questions));
    assert_int_equal(questions.count, 2);
    assert_int_equal(questions.labels[0], 2);
    assert_int_equal(questions.labels[1], 0);
    check_row(0, "Cooking: he stirs the pot. he sings.", 7);
    check_row(1, "Cooking: he stirs the pot. he puts the lid on the pot.", 25);
    check_row(7, "Running: the bb", 3);
    assert_true(questions.longest == questions.rows[1].count);
    ASSERT_OK(parse(two, 1));
    assert_int_equal(questions.count, 1);
    ASSERT_OK(parse("a\r\n1\r\nb\r\nc\r\nd\r\ne\r\n", 0)); // Windows' line ends; none at the end
    check_row(3, "a e", 2);
    ASSERT_OK(parse("a\n1\nb\nc\nd\ne", 0));
    check_row(3, "a e", 2);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "q.txt contains no question"},
        {"a\n4\nb\nc\nd\ne\n", "q.txt:2: \"4\" is not the number of an ending, 0 to 3"},
        {"a\n01\nb\nc\nd\ne\n", "q.txt:2: \"01\""},
        {"a", "q.txt:2: \"\""},
        {"BZh91AY\n\n", "run bunzip2 first"},
        {"\n1\nb\nc\nd\ne\n", "q.txt:1: a context of 0 bytes"},
        {"a\n1\nb\nc\nd\n", "q.txt:6: an ending of 0 bytes"},
        {"a\n1\nb\n\nd\ne\n", "q.txt:4: an ending of 0 bytes"},
        {"a\n1\nb\nc\xff\nd\ne\n", "q.txt:4: "},
        {"\xff\n1\nb\nc\nd\ne\n", "q.txt:1: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, rows[i].message, parse(rows[i].text, 0));
    }
    bt_hellaswag_release(&questions);
    ASSERT_FAILS(BT_STATUS_IO, "none.txt",
                 bt_hellaswag_read(test_scratch_path("none.txt"), tokenizer, 0, &questions));
}

// ---- the score ----------------------------------------------------------------------------------

typedef struct world {
    fixture session;
    bt_params params;
    bt_model model;
} world;

static void open_world(world *w, int64_t context, int64_t vocab)
{
    const bt_model_config shape = {
        .layers = 2, .heads = 2, .width = 16, .vocab = vocab, .context = context};
    fixture_open(&w->session, 0);
    w->session.context.tape = NULL;
    bt_params_init(&w->params, &w->session.context, BT_F32, BT_F32, 11);
    ASSERT_OK(bt_model_open(&w->params, &shape, BT_RECOMPUTE_NONE, 0, &w->model));
    for (int64_t i = 0; i < 2; ++i) { // the tables, so that tokens differ
        bt_tensor *scaled = NULL;
        ASSERT_OK(bt_scale(&w->session.context, w->params.items[i].master, 30, &scaled));
        ASSERT_OK(bt_tensor_copy(&w->session.context, scaled, w->params.items[i].master));
        bt_tensor_release(scaled);
    }
}

static void close_world(world *w)
{
    bt_model_close(&w->model);
    bt_params_release(&w->params);
    fixture_close(&w->session);
}

// Sum over the ending by one forward pass of that row alone, from the mean that training has.
static double expected_loss(world *w, const bt_hellaswag_row *row)
{
    const int64_t context = w->model.context;
    const int64_t inputs = row->count - 1 < context ? row->count - 1 : context;
    const uint16_t *tokens = questions.tokens.ids + row->start + row->count - 1 - inputs;
    int32_t *ids = calloc((size_t)inputs, sizeof *ids);
    int32_t *targets = calloc((size_t)inputs, sizeof *targets);
    for (int64_t t = 0; t < inputs; ++t) {
        ids[t] = tokens[t];
        targets[t] = t < inputs - row->ending ? -100 : tokens[t + 1];
    }
    bt_tensor *in = fixture_values(&w->session, BT_I32, BT_SHAPE(1, inputs), ids);
    bt_tensor *out = fixture_values(&w->session, BT_I32, BT_SHAPE(1, inputs), targets);
    bt_tensor *loss = NULL;
    ASSERT_OK(bt_gpt2_loss(&w->session.context, w->model.self, in, out, &loss));
    double *value = fixture_read(&w->session, loss);
    const double sum = *value * (double)row->ending;
    free(value);
    free(ids);
    free(targets);
    bt_tensor_release(loss);
    bt_tensor_release(in);
    bt_tensor_release(out);
    return sum;
}

typedef struct checker {
    world *w;
    int64_t asked, right, normalised;
} checker;

static int32_t smallest(const double *values)
{
    int32_t at = 0;
    for (int32_t i = 1; i < 4; ++i) {
        at = values[i] < values[at] ? i : at;
    }
    return at;
}

static bt_status check_answer(void *self, int64_t question, const bt_hellaswag_answer *answer)
{
    checker *c = self;
    double sums[4], means[4];
    assert_int_equal(question, c->asked++);
    for (int i = 0; i < 4; ++i) {
        const bt_hellaswag_row *row = &questions.rows[4 * question + i];
        sums[i] = expected_loss(c->w, row);
        means[i] = sums[i] / (double)row->ending;
        assert_int_equal(answer->tokens[i], row->ending);
        // Sums over at most 60 tokens of losses near 10, of some 300 operations in a row each.
        assert_true(fabs(answer->loss[i] - sums[i]) <= 4e-5 * sums[i]);
    }
    assert_int_equal(answer->choice, smallest(sums));
    assert_int_equal(answer->normalised, smallest(means));
    c->right += answer->choice == answer->label;
    c->normalised += answer->normalised == answer->label;
    return BT_OK;
}

// Six questions of all lengths, two passes, in a context that holds them and in one that does not.
static void scored(void **state)
{
    (void)state;
    bt_str text = {0};
    for (int i = 0; i < 3; ++i) {
        bt_str_append(&text, two);
    }
    for (int64_t context = 200; context > 0; context -= 170) {
        world w;
        bt_hellaswag_score score;
        ASSERT_OK(parse(bt_str_text(&text), 0));
        open_world(&w, context, TEST_RANK_VOCAB);
        checker c = {.w = &w};
        ASSERT_OK(bt_hellaswag_run(&w.session.context, &w.model, &questions,
                                   (bt_hellaswag_listener){&c, check_answer}, &score));
        assert_int_equal(c.asked, 6);
        assert_int_equal(score.questions, 6);
        assert_int_equal(score.correct, c.right);
        assert_int_equal(score.normalised_correct, c.normalised);
        int64_t longer = 0;
        for (int64_t i = 0; i < 4 * questions.count; ++i) {
            longer += questions.rows[i].count > context + 1;
        }
        assert_int_equal(score.shortened, longer);
        assert_true((longer > 0) == (context < 200));
        close_world(&w);
    }
    bt_str_release(&text);
}

static bt_status never_right(void *self, int64_t question, const bt_hellaswag_answer *answer)
{
    (void)self;
    (void)question;
    assert_int_equal(answer->choice, -1);
    assert_int_equal(answer->normalised, -1);
    return BT_OK;
}

static void model_refused(void **state)
{
    (void)state;
    world w;
    bt_hellaswag_score score;
    const bt_hellaswag_listener none = {0};
    ASSERT_OK(parse(two, 0));
    open_world(&w, 12, TEST_RANK_VOCAB);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "the model's context 12",
                 bt_hellaswag_run(&w.session.context, &w.model, &questions, none, &score));
    close_world(&w);
    open_world(&w, 200, 100);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "the model's vocabulary ends at 99",
                 bt_hellaswag_run(&w.session.context, &w.model, &questions, none, &score));
    close_world(&w);
    open_world(&w, 200, TEST_RANK_VOCAB); // a model that broke: no answer is right
    ASSERT_OK(bt_tensor_fill(&w.session.context, w.params.items[0].master, (double)NAN));
    ASSERT_OK(bt_hellaswag_run(&w.session.context, &w.model, &questions,
                               (bt_hellaswag_listener){NULL, never_right}, &score));
    assert_int_equal(score.correct, 0);
    assert_int_equal(score.normalised_correct, 0);
    close_world(&w);
}

static void every_host_allocation_may_fail(void **state)
{
    (void)state;
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    int64_t n = 1;
    for (; status != BT_OK; ++n) {
        bt_hellaswag_release(&questions);
        const int64_t before = bt_mem_live_count();
        bt_mem_fail_at(n);
        status = bt_hellaswag_parse("q.txt", two, sizeof two - 1, tokenizer, 0, &questions);
        bt_mem_fail_at(0);
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
        bt_hellaswag_release(&questions);
        assert_int_equal(bt_mem_live_count(), before);
        assert_true(n < 2000);
    }
    assert_true(n > 5);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(read_questions),
        TEST(refused),
        TEST(scored),
        TEST(model_refused),
        TEST(every_host_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
