// harness/record/metrics.h - the table of metrics, as enumerators and rows
#ifndef BT_HARNESS_RECORD_METRICS_H
#define BT_HARNESS_RECORD_METRICS_H

#include <stdbool.h>

// X(enumerator, text printed after a number)
#define BT_UNIT_LIST(X)                                                                            \
    X(NS, "ns")                                                                                    \
    X(BYTES, "B")                                                                                  \
    X(TOKENS_PER_S, "tok/s")                                                                       \
    X(BYTES_PER_S, "B/s")                                                                          \
    X(FLOP_PER_S, "FLOP/s")                                                                        \
    X(SHARE, "%")                                                                                  \
    X(NATS, "nats")                                                                                \
    X(JOULES, "J")                                                                                 \
    X(STEPS, "steps")

typedef enum bt_unit {
#define BT_UNIT_ENUM(name, text) BT_UNIT_##name,
    BT_UNIT_LIST(BT_UNIT_ENUM)
#undef BT_UNIT_ENUM
        BT_UNIT_COUNT
} bt_unit;

const char *bt_unit_name(bt_unit unit);

typedef enum bt_direction {
    BT_DIRECTION_NEITHER,
    BT_DIRECTION_LOWER, // lower is better
    BT_DIRECTION_HIGHER
} bt_direction;

typedef enum bt_metric {
#define X(name, tag, unit, direction, description) BT_METRIC_##name,
#include "harness/record/metrics.inl"
#undef X
    BT_METRIC_COUNT
} bt_metric;

typedef struct bt_metric_row {
    const char *tag;
    bt_unit unit;
    bt_direction direction;
    const char *description;
} bt_metric_row;

// The row of a metric; never NULL.
const bt_metric_row *bt_metric_info(bt_metric metric);
// False if no metric has this tag.
bool bt_metric_parse(const char *tag, bt_metric *metric);

#endif
