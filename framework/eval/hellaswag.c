// framework/eval/hellaswag.c - losses of the endings, four questions per forward pass
//
// Rows of a pass are padded to the longest, rounded up to PAD tokens: attention is causal, so
// padding after a row's end does not affect the row.
#include "framework/eval/hellaswag.h"

#include <math.h>

#include "framework/base/mem.h"

enum {
    QUESTIONS = 4, // rows per pass: logits of 16 rows take 412 MB at 128 tokens of 50304 in f32
    ROWS = QUESTIONS * BT_HELLASWAG_ENDINGS,
    PAD = 32,
    IGNORE = -100
};

typedef struct scorer {
    bt_context *context;           // borrowed
    const bt_model *model;         // borrowed
    const bt_hellaswag *questions; // borrowed
    int32_t *ids, *targets;        // owned [ROWS, longest row, padded]
    float *losses;                 // owned, likewise
} scorer;

// ---- one pass -----------------------------------------------------------------------------------

static const bt_hellaswag_row *row_at(const scorer *s, int64_t first, int64_t r)
{
    return &s->questions->rows[first * BT_HELLASWAG_ENDINGS + r];
}

// Inputs of a row: all of its tokens except the last; the first ones are dropped if the model's
// context is shorter.
static int64_t inputs_of(const scorer *s, const bt_hellaswag_row *row)
{
    const int64_t context = s->model->context;
    return row->count - 1 < context ? row->count - 1 : context;
}

// Tokens per row of a pass: the longest row, padded.
static int64_t pass_length(const scorer *s, int64_t first, int64_t rows)
{
    int64_t length = 1;
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t inputs = inputs_of(s, row_at(s, first, r));
        length = inputs > length ? inputs : length;
    }
    length = (length + PAD - 1) / PAD * PAD;
    return length < s->model->context ? length : s->model->context;
}

static void fill(const scorer *s, int64_t first, int64_t rows, int64_t length)
{
    for (int64_t r = 0; r < rows; ++r) {
        const bt_hellaswag_row *row = row_at(s, first, r);
        const int64_t inputs = inputs_of(s, row);
        const uint16_t *tokens = s->questions->tokens.ids + row->start + row->count - 1 - inputs;
        for (int64_t t = 0; t < length; ++t) {
            const bool scored = t < inputs && t >= inputs - row->ending;
            s->ids[r * length + t] = t < inputs ? tokens[t] : 0;
            s->targets[r * length + t] = scored ? tokens[t + 1] : IGNORE;
        }
    }
}

// losses[r] = cross-entropy of each row of the logits; 0 if the target is IGNORE.
static bt_status row_losses(bt_context *context, const bt_tensor *logits, const bt_tensor *targets,
                            bt_tensor **losses)
{
    const int64_t rows = logits->shape.size[0];
    bt_tensor *lse = NULL;
    bt_tensor *mean = NULL;
    bt_tensor *bad = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_tensor_create(context, BT_F32, BT_SHAPE(rows), "row losses", losses), done);
    BT_TRY_GOTO(bt_tensor_create(context, BT_F32, BT_SHAPE(rows), "log-sum-exp", &lse), done);
    BT_TRY_GOTO(bt_tensor_create(context, BT_F32, BT_SHAPE(2), "mean and count", &mean), done);
    BT_TRY_GOTO(bt_tensor_create(context, BT_I64, BT_SHAPE(1), "bad row", &bad), done);
    const bt_cross_entropy_args args = {.logits = bt_tensor_data(logits),
                                        .targets = bt_tensor_data(targets),
                                        .loss = bt_tensor_data(*losses),
                                        .lse = bt_tensor_data(lse),
                                        .mean = bt_tensor_data(mean),
                                        .inv_count = (float *)bt_tensor_data(mean) + 1,
                                        .bad_row = bt_tensor_data(bad),
                                        .rows = rows,
                                        .vocab = logits->shape.size[1],
                                        .logits_stride = logits->shape.size[1],
                                        .ignore = IGNORE,
                                        .dtype = logits->dtype};
    BT_TRY_GOTO(bt_context_launch(context, BT_KERNEL_CROSS_ENTROPY, logits->dtype, &args), done);
done:
    bt_tensor_release(bad);
    bt_tensor_release(mean);
    bt_tensor_release(lse);
    return status;
}

// Computes s->losses [rows, length].
static bt_status run_pass(scorer *s, int64_t rows, int64_t length)
{
    bt_context *context = s->context;
    bt_tensor *ids = NULL;
    bt_tensor *targets = NULL;
    bt_tensor *logits = NULL;
    bt_tensor *losses = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_tensor_create(context, BT_I32, BT_SHAPE(rows, length), "ids", &ids), done);
    BT_TRY_GOTO(bt_tensor_create(context, BT_I32, BT_SHAPE(rows * length), "targets", &targets),
                done);
    BT_TRY_GOTO(bt_tensor_write(context, ids, s->ids), done);
    BT_TRY_GOTO(bt_tensor_write(context, targets, s->targets), done);
    BT_TRY_GOTO(s->model->logits(context, s->model->self, ids, &logits), done);
    BT_TRY_GOTO(row_losses(context, logits, targets, &losses), done);
    BT_TRY_GOTO(bt_tensor_read(context, losses, s->losses), done);
done:
    bt_tensor_release(losses);
    bt_tensor_release(logits);
    bt_tensor_release(targets);
    bt_tensor_release(ids);
    return status;
}

// ---- answers ------------------------------------------------------------------------------------

static int32_t smallest(const double *values)
{
    double best = (double)INFINITY;
    int32_t at = -1;
    for (int32_t i = 0; i < BT_HELLASWAG_ENDINGS; ++i) {
        if (values[i] < best) {
            best = values[i];
            at = i;
        }
    }
    return at;
}

// The answer to the question whose rows begin at `first_row` of the pass.
static bt_hellaswag_answer answer_of(const scorer *s, int64_t question, int64_t first_row,
                                     int64_t length)
{
    bt_hellaswag_answer answer = {.label = s->questions->labels[question]};
    double mean[BT_HELLASWAG_ENDINGS];
    for (int e = 0; e < BT_HELLASWAG_ENDINGS; ++e) {
        const float *losses = s->losses + (first_row + e) * length;
        for (int64_t t = 0; t < length; ++t) { // 0 where nothing is scored
            answer.loss[e] += (double)losses[t];
        }
        answer.tokens[e] = row_at(s, question, e)->ending;
        mean[e] = answer.loss[e] / (double)answer.tokens[e];
    }
    answer.choice = smallest(answer.loss);
    answer.normalised = smallest(mean);
    return answer;
}

static bt_status check(const bt_model *model, const bt_hellaswag *questions,
                       bt_hellaswag_score *score)
{
    if (questions->highest >= model->vocab) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "the questions contain the token %u; the model's vocabulary ends at %lld",
                        (unsigned)questions->highest, (long long)model->vocab - 1);
    }
    for (int64_t i = 0; i < questions->count * BT_HELLASWAG_ENDINGS; ++i) {
        const bt_hellaswag_row *row = &questions->rows[i];
        score->shortened += row->count - 1 > model->context;
        if (row->ending > model->context) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "an ending of question %lld has %lld tokens, the model's context %lld",
                            (long long)(i / BT_HELLASWAG_ENDINGS), (long long)row->ending,
                            (long long)model->context);
        }
    }
    return BT_OK;
}

static bt_status open_scorer(scorer *s)
{
    const int64_t longest = s->questions->longest + PAD;
    const size_t count = ROWS * (size_t)longest;
    void *block = NULL;
    BT_TRY(bt_mem_alloc(count, sizeof *s->ids, &block));
    s->ids = block;
    BT_TRY(bt_mem_alloc(count, sizeof *s->targets, &block));
    s->targets = block;
    BT_TRY(bt_mem_alloc(count, sizeof *s->losses, &block));
    s->losses = block;
    return BT_OK;
}

static bt_status run_all(scorer *s, bt_hellaswag_listener listener, bt_hellaswag_score *score)
{
    for (int64_t first = 0; first < s->questions->count; first += QUESTIONS) {
        const int64_t left = s->questions->count - first;
        const int64_t rows = (left < QUESTIONS ? left : QUESTIONS) * BT_HELLASWAG_ENDINGS;
        const int64_t length = pass_length(s, first, rows);
        fill(s, first, rows, length);
        BT_TRY(run_pass(s, rows, length));
        for (int64_t r = 0; r < rows; r += BT_HELLASWAG_ENDINGS) {
            const int64_t question = first + r / BT_HELLASWAG_ENDINGS;
            const bt_hellaswag_answer answer = answer_of(s, question, r, length);
            ++score->questions;
            score->correct += answer.choice == answer.label;
            score->normalised_correct += answer.normalised == answer.label;
            BT_TRY(listener.answer ? listener.answer(listener.self, question, &answer) : BT_OK);
        }
    }
    return BT_OK;
}

bt_status bt_hellaswag_run(bt_context *context, const bt_model *model,
                           const bt_hellaswag *questions, bt_hellaswag_listener listener,
                           bt_hellaswag_score *score)
{
    scorer s = {.context = context, .model = model, .questions = questions};
    *score = (bt_hellaswag_score){0};
    BT_TRY(check(model, questions, score));
    bt_status status = open_scorer(&s);
    if (status == BT_OK) {
        status = run_all(&s, listener, score);
    }
    bt_mem_free(s.ids);
    bt_mem_free(s.targets);
    bt_mem_free(s.losses);
    return status;
}
