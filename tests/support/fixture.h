// tests/support/fixture.h - a CPU context with a tape, and tensors of random numbers
#ifndef BT_TESTS_SUPPORT_FIXTURE_H
#define BT_TESTS_SUPPORT_FIXTURE_H

#include "framework/autograd/session.h"
#include "framework/ops/ops.h"

typedef bt_session fixture;

// Fails the test when anything is amiss. limit_bytes as for bt_pool_create.
void fixture_open(fixture *f, uint64_t limit_bytes);
// Checks that all tensors were released.
void fixture_close(fixture *f);

// Uniform in [low, high); integers are whole numbers of [low, high). Fails the test on error.
bt_tensor *fixture_random(fixture *f, bt_dtype dtype, bt_shape shape, double low, double high,
                          uint64_t seed);
bt_tensor *fixture_values(fixture *f, bt_dtype dtype, bt_shape shape, const void *values);
// A tensor of a float type from doubles, which are rounded to it.
bt_tensor *fixture_doubles(fixture *f, bt_dtype dtype, bt_shape shape, const double *values);
// The elements of a contiguous tensor of a float type as doubles; free() them.
double *fixture_read(fixture *f, const bt_tensor *tensor);

#endif
