// harness/record/telemetry.c - columns of a sample, and words for rounds
#include "harness/record/telemetry.h"

#include <string.h>

#include "framework/base/find.h"

// A sample is its columns, one after the other.
_Static_assert(sizeof(bt_store_telemetry) == BT_TELEMETRY_COLUMNS * sizeof(double),
               "a telemetry sample has other members than numbers");

static const bt_telemetry_column columns[] = {
#define COLUMN(member, unit, description) {#member, unit, description},
    BT_TELEMETRY_LIST(COLUMN)
#undef COLUMN
};

const bt_telemetry_column *bt_telemetry_column_info(int index) { return &columns[index]; }

double bt_telemetry_value(const bt_store_telemetry *sample, int index)
{
    double value = 0.0;
    memcpy(&value, (const char *)sample + (size_t)index * sizeof value, sizeof value);
    return value;
}

static const struct {
    const char *word;
    bool invalidates;
} noises[] = {
#define NOISE(name, word, invalidates) {word, invalidates},
    BT_NOISE_LIST(NOISE)
#undef NOISE
};

const char *bt_noise_name(bt_noise noise) { return noises[noise].word; }

bool bt_noise_parse(const char *word, bt_noise *noise)
{
    const int64_t at = BT_FIND(noises, BT_NOISE_COUNT, word, word);
    if (at >= 0) {
        *noise = (bt_noise)at;
    }
    return at >= 0;
}

bool bt_noise_invalidates(bt_noise noise) { return noises[noise].invalidates; }
