// framework/base/idioms.h - checks, loops and arithmetic that recur, a line each
#ifndef BT_BASE_IDIOMS_H
#define BT_BASE_IDIOMS_H

#include <stdint.h>

#include "framework/base/status.h"

// Returns bt_error(status, format, ...) from the enclosing function where the condition holds.
#define BT_FAIL_IF(condition, ...)                                                                 \
    do {                                                                                           \
        if (condition) {                                                                           \
            return bt_error(__VA_ARGS__);                                                          \
        }                                                                                          \
    } while (0)

// Each of `count` items of an array: BT_EACH(const bt_store_fact, fact, env->facts, count) { ... }.
// `items` is evaluated once per item and once more, also when count is 0: it must have no side
// effects, and no pointer in the expression may be NULL (with env NULL, env->facts is undefined).
#define BT_EACH(type, item, items, count)                                                          \
    for (type *item = (items); item - (items) < (count); ++item)

// a / b, rounded up; a >= 0, b > 0.
static inline int64_t bt_div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
