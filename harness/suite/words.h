// harness/suite/words.h - lists of words in one text, separated by '|', and 'did you mean'
#ifndef BT_HARNESS_SUITE_WORDS_H
#define BT_HARNESS_SUITE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "framework/base/str.h"

// Longer words are never near to others.
enum { BT_WORD_BYTES_MAX = 64 };

typedef struct bt_word {
    const char *text; // in the list, not terminated
    size_t length;
} bt_word;

// The next word of a list; false: there are no more.
//   bt_word word;
//   for (const char *rest = words; bt_words_next(&rest, &word);) { ... }
bool bt_words_next(const char **rest, bt_word *word);
// Appends a word to a list.
void bt_words_add(bt_str *words, const char *word, size_t length);
bool bt_words_have(const char *words, const char *word);
// Appends the words with `separator` between them.
void bt_words_join(const char *words, const char *separator, bt_str *out);
// Appends the word that is nearest to `given`; nothing if none is near.
void bt_words_nearest(const char *given, const char *words, bt_str *out);
// For a message, at the end of its line: appends `; did you mean "nearest"?`; nothing for "".
void bt_words_suggest(const char *nearest, bt_str *out);
// The same for the word that is nearest to `given`, if one is near.
void bt_words_hint(const char *given, const char *words, bt_str *out);

#endif
