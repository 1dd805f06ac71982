// harness/env/doctor.h - what works on this machine, what does not, and how to install it
#ifndef BT_HARNESS_ENV_DOCTOR_H
#define BT_HARNESS_ENV_DOCTOR_H

#include "harness/env/machine.h"

typedef enum bt_check_state {
    BT_CHECK_GOOD,
    BT_CHECK_MISSING, // something optional is missing
    BT_CHECK_NOISY,   // it works, but times will vary
    BT_CHECK_BAD      // a run will not work
} bt_check_state;

typedef struct bt_check {
    const char *name; // "gpu"
    bt_check_state state;
    char found[256];
    char advice[384]; // "" if the check passed
} bt_check;

#define BT_CHECKS_MAX 16

// Runs all checks. Returns their number.
int bt_doctor_look(const bt_machine *machine, const char *database, bt_check checks[BT_CHECKS_MAX]);

#endif
