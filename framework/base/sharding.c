// framework/base/sharding.c - sharding modes by name
#include "framework/base/sharding.h"

#include <string.h>

static const char *const sharding_names[BT_SHARDING_COUNT] = {
#define BT_SHARDING_NAME(name, text, meaning) text,
    BT_SHARDING_LIST(BT_SHARDING_NAME)
#undef BT_SHARDING_NAME
};

const char *bt_sharding_name(bt_sharding sharding)
{
    return (unsigned)sharding < BT_SHARDING_COUNT ? sharding_names[sharding] : "unknown";
}

bool bt_sharding_parse(const char *name, bt_sharding *sharding)
{
    for (int i = 0; i < BT_SHARDING_COUNT; ++i) {
        if (strcmp(name, sharding_names[i]) == 0) {
            *sharding = (bt_sharding)i;
            return true;
        }
    }
    return false;
}
