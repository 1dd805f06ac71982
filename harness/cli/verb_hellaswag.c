// harness/cli/verb_hellaswag.c - the score of a model on HellaSwag
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "framework/eval/hellaswag.h"
#include "harness/cli/weights.h"
#include "harness/run/data.h"
#include "harness/text/json_writer.h"

typedef struct scoring {
    FILE *answers; // owned; NULL: not requested
    bool shows_progress;
    int64_t questions;
    int64_t correct; // so far
} scoring;

static bt_status write_answer(scoring *self, int64_t question, const bt_hellaswag_answer *answer)
{
    BT_SCOPED(bt_str) line = {0};
    bt_json_writer json = {.out = &line};
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("question", question), BT_OF(answer, label), BT_OF(answer, choice),
            BT_OF(answer, normalised));
    bt_json_writer_open(&json, "loss", '[');
    for (int i = 0; i < BT_HELLASWAG_ENDINGS; ++i) {
        bt_json_writer_real(&json, NULL, answer->loss[i]);
    }
    bt_json_writer_close(&json, ']');
    bt_json_writer_open(&json, "tokens", '[');
    for (int i = 0; i < BT_HELLASWAG_ENDINGS; ++i) {
        bt_json_writer_integer(&json, NULL, answer->tokens[i]);
    }
    bt_json_writer_close(&json, ']');
    BT_TRY(bt_json_writer_end(&json, '}'));
    BT_FAIL_IF(fputs(bt_str_text(&line), self->answers) == EOF, BT_STATUS_IO, "--answers: %s",
               strerror(errno));
    return BT_OK;
}

static bt_status on_answer(void *context, int64_t question, const bt_hellaswag_answer *answer)
{
    scoring *self = context;
    const int64_t done = question + 1;
    self->correct += answer->normalised == answer->label;
    if (self->shows_progress && (done % 20 == 0 || done == self->questions)) {
        fprintf(stderr, "\r%lld of %lld questions, %.1f %% correct%s", (long long)done,
                (long long)self->questions, 100.0 * (double)self->correct / (double)done,
                done == self->questions ? "\n" : "\033[K");
    }
    return self->answers ? write_answer(self, question, answer) : BT_OK;
}

static double share(int64_t part, int64_t whole) { return (double)part / (double)whole; }

static bt_status print_score(const bt_pretrained *from, const bt_hellaswag_score *score,
                             bool as_json, bt_str *out)
{
    const double plain = share(score->correct, score->questions);
    const double normalised = share(score->normalised_correct, score->questions);
    bt_json_writer json = {.out = out};
    if (as_json) {
        bt_json_writer_open(&json, NULL, '{');
        BT_JSON(&json, BT_KV("from", from->path), BT_OF(score, questions), BT_OF(score, correct),
                BT_OF(score, normalised_correct), BT_KV("accuracy", plain),
                BT_KV("normalised_accuracy", normalised),
                BT_KV("shortened_rows", score->shortened));
        return bt_json_writer_end(&json, '}');
    }
    bt_str_format(out, "%lld questions: accuracy %.4f, normalised by length %.4f\n",
                  (long long)score->questions, plain, normalised);
    if (score->shortened) {
        bt_str_format(out, "%lld of %lld rows are longer than the model's context of %lld\n",
                      (long long)score->shortened,
                      (long long)score->questions * BT_HELLASWAG_ENDINGS,
                      (long long)from->model.context);
    }
    return BT_OK;
}

static bt_status open_answers(const bt_cli_arguments *arguments, scoring *self)
{
    const char *path = bt_cli_value(arguments, "answers");
    self->answers = path ? fopen(path, "we") : NULL;
    return path && !self->answers
               ? bt_error(BT_STATUS_IO, "cannot create %s: %s", path, strerror(errno))
               : BT_OK;
}

static bt_status close_answers(scoring *self, bt_status status)
{
    BT_FAIL_IF(self->answers && fclose(self->answers) != 0 && status == BT_OK, BT_STATUS_IO,
               "--answers: %s", strerror(errno));
    return status;
}

bt_status bt_verb_hellaswag(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    int64_t limit = 0;
    bt_hellaswag_score score;
    BT_SCOPED(bt_str) path = {0};
    BT_SCOPED(bt_cli_weights) weights = {0};
    BT_SCOPED(bt_hellaswag) questions = {0};
    scoring self = {.shows_progress = isatty(STDERR_FILENO) && !bt_cli_value(arguments, "quiet")};
    BT_TRY(bt_cli_number(arguments, "limit", 1, 1000000000, 0, &limit));
    BT_TRY(bt_cli_weights_check(arguments));
    BT_TRY(bt_run_data_questions(bt_cli_value(arguments, "questions"), &path));
    BT_TRY(bt_cli_weights_open(arguments, &weights));
    BT_TRY(bt_hellaswag_read(bt_str_text(&path), weights.tokenizer, limit, &questions));
    self.questions = questions.count;
    BT_TRY(open_answers(arguments, &self));
    const bt_model model = bt_gpt2_model(&weights.model, &weights.params);
    bt_status status = bt_hellaswag_run(&weights.session.context, &model, &questions,
                                        (bt_hellaswag_listener){&self, on_answer}, &score);
    BT_TRY(close_answers(&self, status));
    return print_score(&weights.from, &score, call->json, &call->out);
}
