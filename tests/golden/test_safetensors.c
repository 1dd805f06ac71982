// tests/golden/test_safetensors.c - files of make_safetensors.py: read, and written byte for byte
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/checkpoint/safetensors.h"

enum { MOST = 16 };

typedef struct golden {
    const char *file;
    const char *metadata[3];
    int64_t count;
    bt_safetensors_entry entries[MOST]; // in the file's order
} golden;

static const golden files[] = {
    {"tests/golden/safetensors/mixed.safetensors",
     {"format", "pt", NULL},
     11,
     {{.name = "long", .dtype = BT_I64, .shape = {1, {1}}},
      {.name = "wide", .dtype = BT_F64, .shape = {1, {2}}},
      {.name = "ids", .dtype = BT_I32, .shape = {1, {4}}},
      {.name = "none", .dtype = BT_F32, .shape = {2, {0, 3}}},
      {.name = "scalar", .dtype = BT_F32},
      {.name = "w", .dtype = BT_F32, .shape = {2, {3, 5}}},
      {.name = "bias", .dtype = BT_BF16, .shape = {1, {7}}},
      {.name = "half", .dtype = BT_F16, .shape = {2, {1, 3}}},
      {.name = "short", .dtype = BT_U16, .shape = {1, {3}}},
      {.name = "bytes", .dtype = BT_U8, .shape = {1, {5}}},
      {.name = "mask", .dtype = BT_BOOL, .shape = {2, {2, 2}}}}},
    {"tests/golden/safetensors/plain.safetensors",
     {NULL},
     2,
     {{.name = "a", .dtype = BT_F32, .shape = {1, {2}}},
      {.name = "\xc3\xa9", .dtype = BT_F32, .shape = {1, {1}}}}},
    {"tests/golden/safetensors/empty.safetensors", {NULL}, 0, {{0}}},
};

// Element j of the i-th tensor, from its bytes. f16 values of the golden files are exact halves.
static double element(bt_dtype dtype, const unsigned char *bytes)
{
    union {
        double f64;
        float f32;
        uint16_t u16;
        int64_t i64;
        int32_t i32;
    } value = {0};
    memcpy(&value, bytes, bt_dtype_size(dtype));
    if (dtype == BT_F16) {
        int exponent = value.u16 >> 10 & 31;
        double fraction = (double)(value.u16 & 1023) / 1024;
        double size = exponent ? ldexp(1 + fraction, exponent - 15) : ldexp(fraction, -14);
        return value.u16 >> 15 ? -size : size;
    }
    const double values[BT_DTYPE_COUNT] = {[BT_F64] = value.f64,
                                           [BT_F32] = (double)value.f32,
                                           [BT_BF16] = (double)bt_bf16_to_f32(value.u16),
                                           [BT_I64] = (double)value.i64,
                                           [BT_I32] = (double)value.i32,
                                           [BT_U16] = (double)value.u16,
                                           [BT_U8] = (double)bytes[0],
                                           [BT_BOOL] = (double)bytes[0]};
    return values[dtype];
}

static double expected(bt_dtype dtype, int64_t i, int64_t j)
{
    int64_t number = (j * 37 + i * 11) % 101 - 50;
    if (dtype == BT_BOOL) {
        return (double)(number & 1);
    }
    if (bt_dtype_is_float(dtype)) {
        return (double)number / 2;
    }
    return (double)(number + (dtype == BT_U8 || dtype == BT_U16 ? 50 : 0));
}

static void read_golden(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof files / sizeof *files; ++f) {
        void *bytes = NULL;
        size_t size_bytes = 0;
        bt_safetensors file;
        ASSERT_OK(bt_file_read(files[f].file, &bytes, &size_bytes));
        ASSERT_OK(bt_safetensors_parse(files[f].file, bytes, size_bytes, size_bytes, &file));
        assert_int_equal(file.count, files[f].count);
        for (int64_t i = 0; i < file.count; ++i) {
            const bt_safetensors_entry *wanted = &files[f].entries[i];
            const bt_safetensors_entry *got = bt_safetensors_find(&file, wanted->name);
            assert_non_null(got);
            assert_int_equal(got->dtype, wanted->dtype);
            assert_true(bt_shape_equal(&got->shape, &wanted->shape));
            size_t step = bt_dtype_size(got->dtype);
            for (int64_t j = 0; j < bt_shape_count(&got->shape); ++j) {
                const unsigned char *at =
                    (const unsigned char *)bytes + got->offset_bytes + (size_t)j * step;
                double error = element(got->dtype, at) - expected(got->dtype, i, j);
                assert_true(error == 0); // exact
            }
        }
        assert_null(bt_safetensors_find(&file, "absent"));
        bt_safetensors_release(&file);
        bt_mem_free(bytes);
    }
    assert_int_equal(bt_mem_live_count(), 0);
}

static void write_golden(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof files / sizeof *files; ++f) {
        void *bytes = NULL;
        size_t size_bytes = 0;
        bt_str head = {0};
        uint64_t file_bytes = 0;
        bt_safetensors_entry entries[MOST];
        memcpy(entries, files[f].entries, sizeof entries);
        ASSERT_OK(bt_file_read(files[f].file, &bytes, &size_bytes));
        ASSERT_OK(bt_safetensors_head(entries, files[f].count,
                                      files[f].metadata[0] ? files[f].metadata : NULL, 8, &head,
                                      &file_bytes));
        assert_int_equal(file_bytes, size_bytes);
        assert_true(head.length_bytes <= size_bytes);
        assert_memory_equal(head.text, bytes, head.length_bytes);
        bt_str_release(&head);
        bt_mem_free(bytes);
    }
    assert_int_equal(bt_mem_live_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(read_golden),
                                       cmocka_unit_test(write_golden)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
