// framework/base/idioms.h - checks and loops that recur, a line each
#ifndef BT_BASE_IDIOMS_H
#define BT_BASE_IDIOMS_H

#include "framework/base/status.h"

// Returns bt_error(status, format, ...) from the enclosing function where the condition holds.
#define BT_FAIL_IF(condition, ...)                                                                 \
    do {                                                                                           \
        if (condition) {                                                                           \
            return bt_error(__VA_ARGS__);                                                          \
        }                                                                                          \
    } while (0)

// Each of `count` items of an array: BT_EACH(const bt_store_fact, fact, env->facts, count) { ... }.
#define BT_EACH(type, item, items, count)                                                          \
    for (type *item = (items); item - (items) < (count); ++item)

#endif
