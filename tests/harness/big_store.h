// tests/harness/big_store.h - a database the size of years of use, made in seconds
#ifndef BT_TESTS_HARNESS_BIG_STORE_H
#define BT_TESTS_HARNESS_BIG_STORE_H

#include <stdint.h>

#include "framework/base/status.h"

enum {
    BIG_KERNEL_CASES = 20,
    BIG_ROUNDS = 4,
    BIG_FACTS = 40,    // of the environment, whose soft facts differ in each session
    BIG_SAMPLES = 110, // of a kernel round: 8,800 a session
    BIG_STEPS = 6000,  // of a training session: each a row and up to three samples
    BIG_SHIFT_AT = 600 // from this session on kernels take 3 % longer
};

// Fills a new database with `sessions` sessions (at least 10): nine of ten with 20 kernel cases of
// four rounds, each tenth with a training case, an hour apart, ten of each build. 1,000 of them
// hold 10 million samples and steps. Case i of the kernels is called "op<i>.f32".
//
// One session of each kind is recorded through the store, and copied by SQL with other numbers,
// times and values; so every row has the form that the store gives it.
// Errors  those of the store; INTERNAL when the copying fails
BT_CHECKED bt_status big_store_make(const char *path, int64_t sessions);
// Samples and steps in the database.
BT_CHECKED bt_status big_store_count(const char *path, int64_t *samples);

#endif
