// tests/support/test.h - cmocka with what it needs, and the checks that our tests share
#ifndef BT_TESTS_SUPPORT_TEST_H
#define BT_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "framework/base/status.h"

// 1 in a build under the address or thread sanitizer of gcc or clang, which is slow and needs its
// own address space. What it finds depends on paths and threads: where a test repeats a path with
// other sizes or numbers of ranks, it repeats it less often there. Other builds run every
// repetition.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

// The call must succeed; its message is shown when it does not.
#define ASSERT_OK(expression)                                                                      \
    do {                                                                                           \
        bt_status assert_ok_status = (expression);                                                 \
        if (assert_ok_status != BT_OK) {                                                           \
            fail_msg("%s: %s: %s", #expression, bt_status_text(assert_ok_status),                  \
                     bt_error_message());                                                          \
        }                                                                                          \
    } while (0)

// The call must fail with this status, and its message must contain `words`.
#define ASSERT_FAILS(expected, words, expression)                                                  \
    test_assert_fails(expected, words, expression, #expression, __FILE__, __LINE__)

void test_assert_fails(bt_status expected, const char *words, bt_status got, const char *expression,
                       const char *file, int line);

// Elementwise equal, or |actual - expected| <= absolute + relative * |expected|; NaN fails unless
// both are.
void test_assert_close(const double *actual, const double *expected, int64_t count, double absolute,
                       double relative, const char *what);

// Equal, zeros also in sign, or both NaN.
bool test_same_value(double actual, double expected);

// What a test program returns when it cannot run here; prints why on standard output.
int test_skip(const char *reason);

#endif
