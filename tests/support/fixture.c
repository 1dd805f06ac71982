// tests/support/fixture.c - contexts and tensors for tests
#include "tests/support/fixture.h"

#include <stdlib.h>

#include "framework/base/rng.h"
#include "tests/support/test.h"

void fixture_open(fixture *f, uint64_t limit_bytes)
{
    ASSERT_OK(bt_session_open("cpu", 0, limit_bytes, f));
}

void fixture_close(fixture *f)
{
    bt_pool_stats stats;
    bt_tape_reset(f->tape);
    bt_pool_stats_read(f->pool, &stats);
    assert_int_equal(stats.live_blocks, 0);
    bt_session_close(f);
}

bt_tensor *fixture_values(fixture *f, bt_dtype dtype, bt_shape shape, const void *values)
{
    bt_tensor *tensor = NULL;
    ASSERT_OK(bt_tensor_create(&f->context, dtype, shape, "test", &tensor));
    ASSERT_OK(bt_tensor_write(&f->context, tensor, values));
    return tensor;
}

bt_tensor *fixture_random(fixture *f, bt_dtype dtype, bt_shape shape, double low, double high,
                          uint64_t seed)
{
    int64_t count = bt_shape_count(&shape);
    void *values = malloc((size_t)count * 8 + 8);
    for (int64_t i = 0; i < count; ++i) {
        double unit = (double)bt_rng_uniform((bt_rng){seed, 0}, (uint64_t)i);
        double value = low + (high - low) * unit;
        if (dtype == BT_F64) {
            ((double *)values)[i] = value;
        } else if (dtype == BT_F32) {
            ((float *)values)[i] = (float)value;
        } else {
            assert_int_equal(dtype, BT_I32);
            ((int32_t *)values)[i] = (int32_t)value;
        }
    }
    bt_tensor *tensor = fixture_values(f, dtype, shape, values);
    free(values);
    return tensor;
}

// The tensor in another type.
static bt_tensor *converted(fixture *f, const bt_tensor *tensor, bt_dtype dtype)
{
    bt_tensor *out = NULL;
    ASSERT_OK(bt_tensor_create(&f->context, dtype, tensor->shape, "test", &out));
    ASSERT_OK(bt_tensor_copy(&f->context, tensor, out));
    return out;
}

bt_tensor *fixture_doubles(fixture *f, bt_dtype dtype, bt_shape shape, const double *values)
{
    bt_tensor *wide = fixture_values(f, BT_F64, shape, values);
    bt_tensor *tensor = converted(f, wide, dtype);
    bt_tensor_release(wide);
    return tensor;
}

double *fixture_read(fixture *f, const bt_tensor *tensor)
{
    double *values = malloc((size_t)bt_tensor_count(tensor) * sizeof *values + 8);
    bt_tensor *wide = converted(f, tensor, BT_F64);
    ASSERT_OK(bt_tensor_read(&f->context, wide, values));
    bt_tensor_release(wide);
    return values;
}
