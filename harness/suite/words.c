// harness/suite/words.c - lists of words, and the nearest one
#include "harness/suite/words.h"

#include <string.h>

#include "framework/base/scoped.h"

bool bt_words_next(const char **rest, bt_word *word)
{
    const bool more = **rest != '\0';
    *word = (bt_word){*rest, strcspn(*rest, "|")};
    *rest += word->length + ((*rest)[word->length] == '|');
    return more;
}

void bt_words_add(bt_str *words, const char *word, size_t length)
{
    bt_str_append(words, words->length_bytes ? "|" : "");
    bt_str_append_bytes(words, word, length);
}

bool bt_words_have(const char *words, const char *word)
{
    bt_word one;
    for (const char *rest = words; bt_words_next(&rest, &one);) {
        if (strlen(word) == one.length && strncmp(word, one.text, one.length) == 0) {
            return true;
        }
    }
    return false;
}

void bt_words_join(const char *words, const char *separator, bt_str *out)
{
    bt_word word;
    for (const char *rest = words; bt_words_next(&rest, &word);) {
        bt_str_append(out, word.text == words ? "" : separator);
        bt_str_append_bytes(out, word.text, word.length);
    }
}

static int minimum_of(int a, int b) { return a < b ? a : b; }

// Edits (insert, delete, replace, swap of neighbours) from one word to another of `length` bytes.
static int edit_distance(const char *from, const char *to, size_t to_length)
{
    int rows[3][BT_WORD_BYTES_MAX + 1];
    size_t from_length = strlen(from);
    if (from_length > BT_WORD_BYTES_MAX || to_length > BT_WORD_BYTES_MAX) {
        return BT_WORD_BYTES_MAX;
    }
    int *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= to_length; ++j) {
        before[j] = above[j] = (int)j;
    }
    for (size_t i = 1; i <= from_length; ++i) {
        row[0] = (int)i;
        for (size_t j = 1; j <= to_length; ++j) {
            int cost = above[j - 1] + (from[i - 1] != to[j - 1]);
            cost = minimum_of(cost, minimum_of(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
                cost = minimum_of(cost, before[j - 2] + 1);
            }
            row[j] = cost;
        }
        int *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[to_length];
}

void bt_words_nearest(const char *given, const char *words, bt_str *out)
{
    int best = (int)(strlen(given) / 3) + 2; // a larger distance is no help
    bt_word word, nearest = {"", 0};
    for (const char *rest = words; bt_words_next(&rest, &word);) {
        const int distance = edit_distance(given, word.text, word.length);
        if (distance < best && distance < (int)word.length) {
            best = distance;
            nearest = word;
        }
    }
    bt_str_append_bytes(out, nearest.text, nearest.length);
}

void bt_words_suggest(const char *nearest, bt_str *out)
{
    if (*nearest) {
        bt_str_format(out, "; did you mean \"%s\"?", nearest);
    }
}

void bt_words_hint(const char *given, const char *words, bt_str *out)
{
    BT_SCOPED(bt_str) nearest = {0};
    bt_words_nearest(given, words, &nearest);
    bt_words_suggest(bt_str_text(&nearest), out);
}
