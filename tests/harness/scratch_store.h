// tests/harness/scratch_store.h - a database of a test's own, in a scratch folder
#ifndef BT_TESTS_HARNESS_SCRATCH_STORE_H
#define BT_TESTS_HARNESS_SCRATCH_STORE_H

#include "harness/store/store.h"

enum { SCRATCH_DATABASE_CAPACITY = 160 };

extern char scratch_database[SCRATCH_DATABASE_CAPACITY]; // the file of the test that runs
extern bt_store *scratch_store;                          // it, after scratch_store_open

// For cmocka: a fresh scratch folder (tests/support/scratch.h) in which the database, and its own
// folder, are still to be made; all of it is removed again, which fails when memory is left.
int scratch_database_name(void **state);
int scratch_database_remove(void **state);
// The same, with the database made and open for writing.
int scratch_store_open(void **state);
int scratch_store_close(void **state);

// Also opens the database, which must succeed.
// Owns    the store: the caller, bt_store_close
bt_store *scratch_open(bt_store_mode mode);
// A run as it is recorded.
// Owns    the run: the caller, bt_store_run_release
bt_store_run scratch_run_read(int64_t id);
// Runs SQL on the file itself, past the store.
void scratch_execute(const char *sql);
// Likewise; the first column of the first row, a whole number.
int64_t scratch_query(const char *sql);

#endif
