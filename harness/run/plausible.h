// harness/run/plausible.h - can these times be? A worker may be any program, and take ms for ns
//
// Three things that the recorder knows by itself: how long a round took by its own clock, how far
// apart events arrived, and what this session's copy moved. Times that contradict them are refused
// whatever they are; times that are merely wrong by less cannot be told from here.
//
//   too long    the timed regions of a round take together at most the round (5 % and a second
//   more) too short   steps that arrive seconds apart take more than 0.5 % of that too fast    no
//   call moves memory 10 times as fast as the session's copy in its cache mode (100
//               times where the cache is hot), or faster than 100 TB/s, or computes more than
//               100 PFLOP/s; none takes less than a nanosecond
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

// Appends what cannot be, with both numbers and the likely mistake; nothing when all can.
void bt_plausible_check_kernel(const bt_plausible_kernel *seen, bt_str *out);

// Appends that a call took less time than its bytes or operations need at the session's ceilings;
// nothing when it did not. Slack: bytes 3 times the copy on a GPU and 5 times on a CPU (20 and 50
// times where the cache is hot); operations 1.5 and 4 times the large product.
void bt_plausible_check_floor(const bt_plausible_kernel *seen, bt_str *out);

// What the messages of rounds begin with that are invalid though nothing disturbed the machine.
#define BT_INVALID_BELOW_FLOOR "implausible timing: below the physical floor: "
#define BT_INVALID_UNJOINED    "work went on behind the clock: "
#define BT_INVALID_OUTPUTS     "wrong outputs were returned: "

// Whether a round's message is one of those: no sample of telemetry shows why it is invalid.
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
