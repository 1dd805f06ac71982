// framework/eval/hellaswag_read.c - reads questions of six lines each, checks and tokenizes them
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/eval/hellaswag.h"

enum { LINES = 6, ENDING_BYTES_MOST = 1 << 16 };

typedef struct reader {
    const char *name;        // of the file; borrowed
    const char *text, *stop; // bytes left
    int64_t line;            // number of the next line, from 1
    bt_encoder *encoder;     // owned
    bt_str spaced;           // " ending"
    int64_t capacity;        // capacity of *out in questions
    bt_hellaswag *out;
} reader;

typedef struct line {
    const char *text; // borrowed, not terminated
    size_t length;
    int64_t number;
} line;

static line next_line(reader *r)
{
    const char *end = memchr(r->text, '\n', (size_t)(r->stop - r->text));
    line out = {r->text, (size_t)((end ? end : r->stop) - r->text), r->line++};
    r->text = end ? end + 1 : r->stop;
    out.length -= out.length > 0 && out.text[out.length - 1] == '\r';
    return out;
}

static bt_status encode(reader *r, const line *from, const char *text, size_t length)
{
    return bt_error_context(bt_encoder_encode(r->encoder, text, length, &r->out->tokens), "%s:%lld",
                            r->name, (long long)from->number);
}

static bt_status check_length(const reader *r, const line *l, const char *what)
{
    if (l->length == 0 || l->length > ENDING_BYTES_MOST) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s:%lld: %s of %zu bytes, expected 1 to %d",
                        r->name, (long long)l->number, what, l->length, ENDING_BYTES_MOST);
    }
    return BT_OK;
}

// Appends one row: the context's tokens, copied from the question's first row, and the ending's.
static bt_status add_row(reader *r, int64_t context_start, int64_t context_count,
                         const line *ending, bt_hellaswag_row *row)
{
    bt_tokens *tokens = &r->out->tokens;
    BT_TRY(check_length(r, ending, "an ending"));
    row->start = tokens->count;
    BT_TRY(bt_tokens_reserve(tokens, context_count));
    memcpy(tokens->ids + tokens->count, tokens->ids + context_start,
           (size_t)context_count * sizeof *tokens->ids);
    tokens->count += context_count;
    bt_str_clear(&r->spaced);
    bt_str_append(&r->spaced, " ");
    bt_str_append_bytes(&r->spaced, ending->text, ending->length);
    BT_TRY(bt_str_status(&r->spaced));
    BT_TRY(encode(r, ending, bt_str_text(&r->spaced), r->spaced.length_bytes));
    row->count = tokens->count - row->start;
    row->ending = row->count - context_count;
    r->out->longest = row->count > r->out->longest ? row->count : r->out->longest;
    return BT_OK;
}

static bt_status make_room(reader *r)
{
    if (r->out->count < r->capacity) {
        return BT_OK;
    }
    const int64_t capacity = r->capacity ? 2 * r->capacity : 64;
    void *rows = r->out->rows;
    void *labels = r->out->labels;
    BT_TRY(bt_mem_resize(&rows, (size_t)capacity * BT_HELLASWAG_ENDINGS, sizeof *r->out->rows));
    r->out->rows = rows;
    BT_TRY(bt_mem_resize(&labels, (size_t)capacity, sizeof *r->out->labels));
    r->out->labels = labels;
    r->capacity = capacity;
    return BT_OK;
}

static bt_status read_question(reader *r)
{
    const line context = next_line(r);
    const line label = next_line(r);
    if (label.length != 1 || *label.text < '0' || *label.text > '3') {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "%s:%lld: \"%.*s\" is not the number of an ending, 0 to 3%s", r->name,
                        (long long)label.number, (int)(label.length < 40 ? label.length : 40),
                        label.text,
                        context.length >= 3 && memcmp(context.text, "BZh", 3) == 0
                            ? "; if the file is compressed, run bunzip2 first"
                            : "");
    }
    BT_TRY(check_length(r, &context, "a context"));
    BT_TRY(make_room(r));
    const int64_t start = r->out->tokens.count;
    BT_TRY(encode(r, &context, context.text, context.length));
    const int64_t count = r->out->tokens.count - start;
    for (int i = 0; i < BT_HELLASWAG_ENDINGS; ++i) {
        const line ending = next_line(r);
        BT_TRY(add_row(r, start, count, &ending,
                       &r->out->rows[r->out->count * BT_HELLASWAG_ENDINGS + i]));
    }
    r->out->labels[r->out->count++] = *label.text - '0';
    return BT_OK;
}

bt_status bt_hellaswag_parse(const char *name, const char *text, size_t size_bytes,
                             const bt_tokenizer *tokenizer, int64_t limit, bt_hellaswag *out)
{
    reader r = {.name = name, .text = text, .stop = text + size_bytes, .line = 1, .out = out};
    *out = (bt_hellaswag){0};
    bt_status status = bt_encoder_create(tokenizer, &r.encoder);
    while (status == BT_OK && r.text < r.stop && (limit == 0 || out->count < limit)) {
        status = read_question(&r);
    }
    if (status == BT_OK && out->count == 0) {
        status = bt_error(BT_STATUS_CORRUPT_DATA, "%s contains no question", name);
    }
    for (int64_t i = 0; i < out->tokens.count; ++i) {
        out->highest = out->tokens.ids[i] > out->highest ? out->tokens.ids[i] : out->highest;
    }
    bt_encoder_destroy(r.encoder);
    bt_str_release(&r.spaced);
    return status;
}

bt_status bt_hellaswag_read(const char *path, const bt_tokenizer *tokenizer, int64_t limit,
                            bt_hellaswag *out)
{
    void *bytes = NULL;
    size_t size_bytes = 0;
    *out = (bt_hellaswag){0};
    BT_TRY(bt_file_read(path, &bytes, &size_bytes));
    bt_status status = bt_hellaswag_parse(path, bytes, size_bytes, tokenizer, limit, out);
    bt_mem_free(bytes);
    return status;
}

void bt_hellaswag_release(bt_hellaswag *questions)
{
    bt_tokens_release(&questions->tokens);
    bt_mem_free(questions->rows);
    bt_mem_free(questions->labels);
    *questions = (bt_hellaswag){0};
}
