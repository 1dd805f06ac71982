// harness/run/plausible.h - rejects implausible times, such as ms reported as ns
//
// A worker may be any program. The recorder itself knows the duration of a round, the times between
// events, and the rate of this session's copy. Times that contradict these are rejected; smaller
// errors cannot be detected here.
//
//   too long    the timed regions of a round exceed the round by more than 5 % and a second
//   too short   the steps take less than 0.5 % of the time between their events
//   too fast    a call moves memory 10 times as fast as the session's copy in its cache mode (100
//               times if the cache is hot), or faster than 100 TB/s, or computes more than
//               100 PFLOP/s, or takes less than a nanosecond
#ifndef BT_HARNESS_RUN_PLAUSIBLE_H
#define BT_HARNESS_RUN_PLAUSIBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/str.h"
#include "harness/record/record.h"

typedef struct bt_plausible_kernel {
    double median_ns, total_ns; // of a call; of all calls that were timed
    double wall_ns;             // of the round, by the recorder's clock
    double bytes, flops;        // of a call
    double copy_bytes_per_s;    // of this session, 0: not known
    double product_flop_per_s;  // of this session's large product of the case's type, 0: not known
    bool hot;                   // cache mode
    bool gpu;
} bt_plausible_kernel;

// Appends the contradiction, with both numbers and the likely mistake; nothing if plausible.
void bt_plausible_check_kernel(const bt_plausible_kernel *seen, bt_str *out);

// Appends that a call took less time than its bytes or operations need at the session's ceilings;
// nothing if it did not. Allowed factors: bytes 3 times the copy on a GPU and 5 times on a CPU (20
// and 50 times if the cache is hot); operations 1.5 and 4 times the large product.
void bt_plausible_check_floor(const bt_plausible_kernel *seen, bt_str *out);

// Prefixes of the messages of rounds that are invalid although the machine was not disturbed.
#define BT_INVALID_BELOW_FLOOR "implausible timing: below the physical floor: "
#define BT_INVALID_UNJOINED    "work continued after the timed interval: "
#define BT_INVALID_OUTPUTS     "wrong outputs were returned: "
// The same as UNJOINED in records and bundles of earlier builds.
#define BT_INVALID_UNJOINED_OLD "work went on behind the clock: "

// Whether a round's message begins with one of these.
bool bt_plausible_is_invalid(const char *message);

typedef struct bt_plausible_steps {
    const bt_store_step *steps; // [count]
    int64_t count;
    double evals_ns;    // of all evaluations
    double wall_ns;     // of the round so far
    double arrivals_ns; // between the first step's event and the last one's; 0: not known
} bt_plausible_steps;

void bt_plausible_check_steps(const bt_plausible_steps *seen, bt_str *out);

#endif
