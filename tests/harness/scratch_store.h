// tests/harness/scratch_store.h - a database of a test's own, in a scratch folder
#ifndef BT_TESTS_HARNESS_SCRATCH_STORE_H
#define BT_TESTS_HARNESS_SCRATCH_STORE_H

#include "harness/store/store.h"

extern bt_store *scratch_store; // of the test that runs

// For cmocka: "bt.sqlite" in a fresh scratch folder (tests/support/scratch.h), open for writing;
// closed and removed again, which fails when memory is left.
int scratch_store_open(void **state);
int scratch_store_close(void **state);

#endif
