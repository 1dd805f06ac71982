// tests/unit/test_object.c - loading of object files: what the C compiler made, and damaged ones
//
// The files are made by the C compiler of the build, at test time: no generated binary is kept.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "framework/compiler/object.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

// The object file of a C source. Owns  the caller
static unsigned char *compiled(const char *source, size_t *size_bytes)
{
    char command[512];
    void *bytes = NULL;
    const char *from = test_scratch_write("source.c", source, strlen(source));
    const char *to = test_scratch_path("source.o");
    (void)snprintf(command, sizeof command,
                   "cc -O2 -fPIC -fno-stack-protector -fcf-protection=none -c %s -o %s", from, to);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): a fixed command
    ASSERT_OK(bt_file_read(to, &bytes, size_bytes));
    return bytes;
}

static const char *const square = "extern float expf(float);\n"
                                  "static const float table[4] = {1.5f, 2.5f, 3.5f, 4.5f};\n"
                                  "float pick(int i) { return table[i & 3]; }\n"
                                  "float grow(float x) { return expf(x) * pick(1) + 1; }\n"
                                  "void *where(void) { return (void *)expf; }\n";

static void test_runs(void **state)
{
    (void)state;
    size_t size = 0;
    unsigned char *bytes = compiled(square, &size);
    bt_object object;
    ASSERT_OK(bt_object_load(bytes, size, &object));
    void *address = NULL;
    float (*pick)(int) = NULL, (*grow)(float) = NULL;
    ASSERT_OK(bt_object_function(&object, "pick", &address));
    memcpy(&pick, &address, sizeof pick);
    ASSERT_OK(bt_object_function(&object, "grow", &address));
    memcpy(&grow, &address, sizeof grow);
    assert_true(pick(2) == 3.5F);
    assert_true(grow(0) == 3.5F);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no function shrink",
                 bt_object_function(&object, "shrink", &address));
    bt_object_release(&object);
    bt_mem_free(bytes);
}

static void test_refuses(void **state)
{
    (void)state;
    const struct {
        const char *source, *words;
        bt_status status;
    } cases[] = {
        {"int system(const char *); int f(void) { return system(\"true\"); }\n", "calls system",
         BT_STATUS_UNSUPPORTED},
        {"int counter = 3; int f(void) { return ++counter; }\n", "variables",
         BT_STATUS_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        size_t size = 0;
        unsigned char *bytes = compiled(cases[i].source, &size);
        bt_object object;
        ASSERT_FAILS(cases[i].status, cases[i].words, bt_object_load(bytes, size, &object));
        assert_null(object.memory);
        bt_mem_free(bytes);
    }
    bt_object object;
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "shorter", bt_object_load("", 0, &object));
    char text[128] = "no object file";
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "not a relocatable",
                 bt_object_load(text, sizeof text, &object));
}

// Cut anywhere, or with bytes changed, a file loads or is refused; nothing leaks or crashes.
static void test_damage(void **state)
{
    (void)state;
    size_t size = 0;
    unsigned char *bytes = compiled(square, &size);
    const int64_t live = bt_mem_live_count();
    bt_object object;
    for (size_t cut = 0; cut < size; cut += 7) {
        void *part = NULL;
        ASSERT_OK(bt_mem_alloc(cut, 1, &part)); // of that size: a sanitizer sees a step too far
        memcpy(part, bytes, cut);
        assert_int_not_equal(bt_object_load(part, cut, &object), BT_OK);
        bt_mem_free(part);
    }
    assert_true(size > 0);
    int refused = 0;
    for (uint64_t trial = 0; trial < 2000; ++trial) {
        void *changed = NULL;
        float where[4];
        ASSERT_OK(bt_mem_alloc(size, 1, &changed));
        memcpy(changed, bytes, size);
        bt_rng_uniform_fill((bt_rng){trial, 0}, where, 4, 0, 1);
        for (int i = 0; i < 4; ++i) {
            const uint32_t bits = (uint32_t)(where[i] * 16777216.0F);
            ((unsigned char *)changed)[bits % (size ? size : 1)] = (unsigned char)(bits >> 8);
        }
        if (bt_object_load(changed, size, &object) == BT_OK) {
            bt_object_release(&object);
        } else {
            ++refused;
        }
        bt_mem_free(changed);
    }
    assert_true(refused > 100);
    assert_int_equal(bt_mem_live_count(), live);
    bt_mem_free(bytes);
}

static void test_no_memory(void **state)
{
    (void)state;
    size_t size = 0;
    unsigned char *bytes = compiled(square, &size);
    const int64_t live = bt_mem_live_count();
    for (int64_t n = 1;; ++n) {
        bt_object object;
        bt_mem_fail_at(n);
        const bt_status status = bt_object_load(bytes, size, &object);
        const bool failed = !bt_mem_fail_pending();
        bt_mem_fail_at(0);
        if (!failed) {
            ASSERT_OK(status);
            bt_object_release(&object);
            break;
        }
        assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), live);
    }
    bt_mem_free(bytes);
}

int main(void)
{
#ifndef __x86_64__
    return test_skip("generated code for the CPU needs x86-64");
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, test_scratch_setup, test_scratch_teardown);
}
