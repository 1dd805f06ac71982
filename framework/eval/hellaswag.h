// framework/eval/hellaswag.h - HellaSwag: chooses the most likely of four endings
//
// The questions are a text file of six lines each: "activity: context", the number of the right
// ending (0 to 3), four endings. An ending's loss is the sum of the cross-entropies of the tokens
// of " ending" after those of the context; no token is prepended. The model answers with the ending
// of the smallest loss (accuracy), and with that of the smallest loss per token (normalized
// accuracy); ties go to the first. NaN is never the smallest loss.
// Source  Zellers et al. 2019, arXiv:1905.07830; scored as for GPT-2 and GPT-3
//
// Invariant: scoring does not modify the model.
#ifndef BT_EVAL_HELLASWAG_H
#define BT_EVAL_HELLASWAG_H

#include "framework/data/tokenizer.h"
#include "framework/nn/model.h"

enum { BT_HELLASWAG_ENDINGS = 4 };

typedef struct bt_hellaswag_row {
    int64_t start, count; // of bt_hellaswag.tokens: context and ending
    int64_t ending;       // length of the ending, at the end of these; 1 to count - 1
} bt_hellaswag_row;

typedef struct bt_hellaswag {
    bt_tokens tokens;       // owned
    bt_hellaswag_row *rows; // owned [4 count]
    int32_t *labels;        // owned [count], 0 to 3
    int64_t count;          // questions
    int64_t longest;        // tokens of a row
    uint16_t highest;       // token
} bt_hellaswag;

// Reads the first `limit` questions of a file; 0: all.
// Owns    *out: the caller, until bt_hellaswag_release, also when this fails
// Errors  IO, CORRUPT_DATA (file and line), OUT_OF_MEMORY
BT_CHECKED bt_status bt_hellaswag_read(const char *path, const bt_tokenizer *tokenizer,
                                       int64_t limit, bt_hellaswag *out);
// The same from memory; `name` is used in messages.
BT_CHECKED bt_status bt_hellaswag_parse(const char *name, const char *text, size_t size_bytes,
                                        const bt_tokenizer *tokenizer, int64_t limit,
                                        bt_hellaswag *out);
void bt_hellaswag_release(bt_hellaswag *questions);

typedef struct bt_hellaswag_answer {
    double loss[BT_HELLASWAG_ENDINGS]; // sums, in nats
    int64_t tokens[BT_HELLASWAG_ENDINGS];
    int32_t label, choice, normalised; // chosen ending: the correct one; by loss; by loss per
                                       // token; -1: none
} bt_hellaswag_answer;

typedef struct bt_hellaswag_score {
    int64_t questions, correct, normalised_correct;
    int64_t shortened; // rows longer than the model's context, whose first tokens were dropped
} bt_hellaswag_score;

// Called for every question, in order; a status other than BT_OK ends the scoring with it.
// `answer` may be NULL.
typedef struct bt_hellaswag_listener {
    void *self; // borrowed
    bt_status (*answer)(void *self, int64_t question, const bt_hellaswag_answer *answer);
} bt_hellaswag_listener;

// Scores all questions. The context must have no tape.
// Errors  INVALID_ARGUMENT (a token beyond the model's vocabulary; an ending as long as the model's
//         context), OUT_OF_MEMORY, the listener's
BT_CHECKED bt_status bt_hellaswag_run(bt_context *context, const bt_model *model,
                                      const bt_hellaswag *questions, bt_hellaswag_listener listener,
                                      bt_hellaswag_score *score);

#endif
