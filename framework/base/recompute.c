// framework/base/recompute.c - recompute modes by name
#include "framework/base/recompute.h"

#include <string.h>

static const char *const recompute_names[BT_RECOMPUTE_COUNT] = {
#define BT_RECOMPUTE_NAME(name, text, meaning) text,
    BT_RECOMPUTE_LIST(BT_RECOMPUTE_NAME)
#undef BT_RECOMPUTE_NAME
};

const char *bt_recompute_mode_name(bt_recompute_mode mode) { return recompute_names[mode]; }

bool bt_recompute_mode_parse(const char *name, bt_recompute_mode *mode)
{
    for (int i = 0; i < BT_RECOMPUTE_COUNT; ++i) {
        if (strcmp(name, recompute_names[i]) == 0) {
            *mode = (bt_recompute_mode)i;
            return true;
        }
    }
    return false;
}
