// tests/harness/test_paint.c - colour and bars of a terminal
#include "harness/text/paint.h"

#include <string.h>

#include "tests/support/test.h"

static void assert_painted(const char *text, const char *expected)
{
    bt_str out = {0};
    bt_paint_text(text, 0, &out);
    assert_string_equal(bt_str_text(&out), expected);
    bt_str_release(&out);
}

static void verdicts_and_states_are_coloured(void **state)
{
    (void)state;
    assert_painted("SLOWER  gelu   slower by 3 %\n",
                   "\033[31mSLOWER\033[0m  gelu   slower by 3 %\n");
    assert_painted("NOT-COMPARABLE x", "\033[33mNOT-COMPARABLE\033[0m x");
    assert_painted("run 1 passed   gelu\n", "run 1 \033[32mpassed\033[0m   gelu\n");
    assert_painted("a, b  failed", "a, b  \033[31mfailed\033[0m");
}

static void other_words_stay(void **state)
{
    (void)state;
    static const char *const texts[] = {"2 cases passed of 3", "NOTSAME",     "SAMENESS",
                                        "two-failed  x",       "bypassed  x", ""};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        assert_painted(texts[i], texts[i]);
    }
}

#define FULL       "\xe2\x96\x88"
#define REST       "\xe2\x96\x91"
#define FIVE(cell) cell cell cell cell cell

static void shares_are_bars_in_their_table_alone(void **state)
{
    (void)state;
    assert_painted("shape    of copy  kernel\n"
                   "64x16     75.0 %  a\n"
                   "4x5                b\n"
                   "9x9        126 %\n"
                   "\n"
                   "none      75.0 %\n",
                   "shape    of copy  kernel\n"
                   "64x16     75.0 %  a  \033[2m" FIVE(FULL) FIVE(FULL) FIVE(FULL)
                       FIVE(REST) "\033[0m\n"
                                  "4x5                b\n"
                                  "9x9        126 %  \033[2m" FIVE(FULL) FIVE(FULL) FIVE(FULL)
                                      FIVE(FULL) "+\033[0m\n"
                                                 "\n"
                                                 "none      75.0 %\n");
}

static void bars_that_do_not_fit_are_omitted(void **state)
{
    (void)state;
    const char *text = "shape    of copy  kernel\n64x16     75.0 %  a\n";
    const int needed = 24 + 2 + 20 + 1; // the longest line, a gap, the bar and its '+'
    for (int columns = needed - 1; columns <= needed; ++columns) {
        bt_str out = {0};
        bt_paint_text(text, columns, &out);
        assert_int_equal(strstr(bt_str_text(&out), FULL) != NULL, columns == needed);
        bt_str_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_and_states_are_coloured),
        cmocka_unit_test(other_words_stay),
        cmocka_unit_test(shares_are_bars_in_their_table_alone),
        cmocka_unit_test(bars_that_do_not_fit_are_omitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
