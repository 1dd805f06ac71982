// framework/base/find.h - the row of a table that has a given text
#ifndef BT_BASE_FIND_H
#define BT_BASE_FIND_H

#include <stddef.h>
#include <stdint.h>

// Number of elements of an array (not of a pointer).
#define BT_COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

// Index of the first of `count` structs whose member, a pointer to text, equals `word`; -1: none,
// also when word is NULL. BT_FIND(rows, BT_COUNT(rows), name, "fp32"). `rows` may be NULL when
// count is 0.
#define BT_FIND(rows, count, member, word)                                                         \
    bt_find((rows), (count), sizeof(rows)[0],                                                      \
            offsetof(__typeof__((rows)[0]), member) *                                              \
                _Generic(&(rows)[0].member, const char ** : 1, const char *const * : 1,            \
                         char ** : 1, char *const * : 1),                                          \
            (word))
// The same for an array of texts.
#define BT_FIND_WORD(words, count, word) bt_find((words), (count), sizeof(words)[0], 0, (word))

int64_t bt_find(const void *rows, int64_t count, size_t row_bytes, size_t text_offset,
                const char *word);

#endif
