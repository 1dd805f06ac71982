// harness/cli/ab_options.c - options that ab and calibrate share
#include "harness/cli/ab_options.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "harness/ab/ab.h"

#define SEED_MASK ((1ULL << 53) - 1) // JSON's whole numbers

bt_status bt_cli_share(const bt_cli_arguments *arguments, const char *name, double fallback,
                       double *share)
{
    const char *text = bt_cli_value(arguments, name);
    char *end = NULL;
    *share = text ? strtod(text, &end) : fallback;
    if (text && (end == text || *end || isnan(*share))) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "--%s %s: a share is wanted, 0.01 for 1 %%",
                        name, text);
    }
    return BT_OK;
}

bt_status bt_cli_order_seed(const bt_cli_arguments *arguments, uint64_t *seed)
{
    int64_t given = 0;
    BT_TRY(bt_cli_number(arguments, "seed", 1, (int64_t)SEED_MASK, 0, &given));
    uint64_t drawn = ((uint64_t)bt_clock_wall_ns() ^ ((uint64_t)getpid() << 32)) & SEED_MASK;
    *seed = given ? (uint64_t)given : drawn ? drawn : 1;
    return BT_OK;
}

bt_status bt_cli_ab_policy(const bt_cli_arguments *arguments, bt_policy *out)
{
    double tolerance = 0;
    int64_t rounds_max = 0;
    BT_TRY(bt_cli_share(arguments, "tolerance", (double)NAN, &tolerance));
    BT_TRY(bt_cli_number(arguments, "rounds-max", 2, 24, 0, &rounds_max));
    return bt_ab_policy(bt_cli_value(arguments, "policy"), tolerance, rounds_max, out);
}
