// tests/support/test.c - shared checks
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void test_assert_fails(bt_status expected, const char *words, bt_status got, const char *expression,
                       const char *file, int line)
{
    if (got != expected) {
        print_error("%s: expected '%s', got '%s' (%s)\n", expression, bt_status_text(expected),
                    bt_status_text(got), bt_error_message());
        _fail(file, line);
    }
    if (!strstr(bt_error_message(), words)) {
        print_error("%s: the message lacks \"%s\": %s\n", expression, words, bt_error_message());
        _fail(file, line);
    }
}

void test_assert_close(const double *actual, const double *expected, int64_t count, double absolute,
                       double relative, const char *what)
{
    for (int64_t i = 0; i < count; ++i) {
        double error = fabs(actual[i] - expected[i]);
        if (actual[i] == expected[i] || (isnan(actual[i]) && isnan(expected[i]))) {
            continue;
        }
        if (!(error <= absolute + relative * fabs(expected[i]))) {
            fail_msg("%s[%lld]: got %.17g, expected %.17g, error %.3g > %.3g", what, (long long)i,
                     actual[i], expected[i], error, absolute + relative * fabs(expected[i]));
        }
    }
}

bool test_same_value(double actual, double expected)
{
    if (isnan(expected)) {
        return isnan(actual);
    }
    return actual == expected && signbit(actual) == signbit(expected);
}

int test_skip(const char *reason)
{
    printf("skipped: %s\n", reason);
    return 77;
}
