// harness/record/metrics.c - rows of metrics.inl, and words of the record
#include "harness/record/metrics.h"

#include "framework/base/find.h"
#include "harness/record/record.h"

static const bt_metric_row rows[BT_METRIC_COUNT] = {
#define X(name, tag, unit, direction, description)                                                 \
    [BT_METRIC_##name] = {tag, BT_UNIT_##unit, BT_DIRECTION_##direction, description},
#include "harness/record/metrics.inl"
#undef X
};

const bt_metric_row *bt_metric_info(bt_metric metric)
{
    return &rows[metric >= 0 && metric < BT_METRIC_COUNT ? metric : 0];
}

bool bt_metric_parse(const char *tag, bt_metric *metric)
{
    const int64_t at = BT_FIND(rows, BT_METRIC_COUNT, tag, tag);
    if (at >= 0) {
        *metric = (bt_metric)at;
    }
    return at >= 0;
}

const char *bt_unit_name(bt_unit unit)
{
    static const char *const names[BT_UNIT_COUNT] = {
#define UNIT_TEXT(name, text) text,
        BT_UNIT_LIST(UNIT_TEXT)
#undef UNIT_TEXT
    };
    return (int)unit >= 0 && unit < BT_UNIT_COUNT ? names[unit] : "?";
}

const char *bt_run_status_name(bt_run_status status)
{
    static const char *const names[BT_RUN_STATUS_COUNT] = {
#define STATUS_TEXT(name, word) word,
        BT_RUN_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    };
    return (int)status >= 0 && status < BT_RUN_STATUS_COUNT ? names[status] : "?";
}

const char *bt_fact_level_name(bt_fact_level level)
{
    static const char *const names[BT_FACT_LEVEL_COUNT] = {
#define LEVEL_TEXT(name, word) word,
        BT_FACT_LEVEL_LIST(LEVEL_TEXT)
#undef LEVEL_TEXT
    };
    return (int)level >= 0 && level < BT_FACT_LEVEL_COUNT ? names[level] : "?";
}
