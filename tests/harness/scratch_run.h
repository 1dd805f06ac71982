// tests/harness/scratch_run.h - suites that fakes run, into the database of scratch_store.h
#ifndef BT_TESTS_HARNESS_SCRATCH_RUN_H
#define BT_TESTS_HARNESS_SCRATCH_RUN_H

#include "harness/run/run.h"

#define SCRATCH_KERNEL_PEER "tests/support/kernel_peer.sh" // measures nothing, at once

// A suite of gelu at these shapes, as in its JSON: "\"4x5\"".
#define SCRATCH_GELU_SUITE(shapes)                                                                 \
    "{\"name\": \"t\", \"profiles\": {\"cpu\": {\"device\": \"cpu\", \"cases\": ["                 \
    "{\"name\": \"gelu\", \"kind\": \"kernel\", \"kernel\": "                                      \
    "{\"op\": \"gelu\", \"cache\": \"cold\", \"shape\": " shapes "}}]}}}"

// Suite and plan of a suite's text on this machine. 0 rounds: the suite's number.
// Owns    *suite, *plan: the caller
BT_CHECKED bt_status scratch_plan_make(const char *text, int64_t rounds, const bt_machine *machine,
                                       bt_suite *suite, bt_plan *plan);
// To run the plan with this worker; files go to "out" in the scratch folder. Borrows everything.
bt_run_request scratch_run_request(const bt_suite *suite, const bt_plan *plan,
                                   const bt_machine *machine, const char *worker);

#endif
