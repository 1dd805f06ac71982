// tests/harness/test_escape.c - text of the record in Markdown and CSV is text, and nothing else
#include "harness/text/escape.h"

#include "tests/support/test.h"

#define WJ "\xe2\x81\xa0" // U+2060

typedef void (*escape)(bt_str *out, const char *text);

static void expect(escape function, const char *text, const char *wanted)
{
    bt_str out = {0};
    function(&out, text);
    assert_int_equal(bt_str_status(&out), BT_OK);
    assert_string_equal(bt_str_text(&out), wanted);
    bt_str_release(&out);
}

static void markdown_has_no_markup(void **state)
{
    (void)state;
    expect(bt_markdown_text, "gelu.forward.f32.4x5", "gelu.forward.f32.4x5");
    expect(bt_markdown_text, "same_v1 -> other_v2", "same\\_v1 -\\> other\\_v2");
    expect(bt_markdown_text, "a|b`c`*d*", "a\\|b\\`c\\`\\*d\\*");
    expect(bt_markdown_text, "![x](y) <b> {z}", "\\!\\[x\\](y) \\<b\\> \\{z\\}");
    expect(bt_markdown_text, "a\nb\rc\td\x7f", "a b c d ");
    expect(bt_markdown_text, "- item", "\\- item");
    expect(bt_markdown_text, "---", "\\---");
    expect(bt_markdown_text, "+3.00 %", "+3.00 %");
    expect(bt_markdown_text, "3.0 % [1, 2]", "3.0 % \\[1, 2\\]");
    expect(bt_markdown_text, "", "");
}

static void markdown_mentions_nobody(void **state)
{
    (void)state;
    expect(bt_markdown_text, "@team", "@" WJ "team");
    expect(bt_markdown_text, "x@org/team y", "x@" WJ "org/team y");
    expect(bt_markdown_text, "fixes #12", "fixes \\#" WJ "12");
    expect(bt_markdown_text, "!7 &3 ~bug $9", "\\!" WJ "7 \\&" WJ "3 \\~" WJ "bug \\$" WJ "9");
    expect(bt_markdown_text, "%\"9.1\"", "%" WJ "\"9.1\"");
    expect(bt_markdown_text, "see https://a.b", "see https:" WJ "//a.b");
    expect(bt_markdown_text, "www.a.b", "www" WJ ".a.b");
    expect(bt_markdown_text, "a @ b", "a @ b");
    expect(bt_markdown_text, "ends with @", "ends with @");
}

static void a_format_escapes_its_texts_alone(void **state)
{
    (void)state;
    bt_str out = {0};
    bt_markdown(&out, "| %s | %lld | %.2f %% | %d%s |", "a|b", 1LL << 40, 1.5, -3, "");
    bt_markdown(&out, "%s", "@x%s");
    bt_markdown(&out, " %zu %.3g %.1e", (size_t)7, 0.12345, 25000.0);
    assert_int_equal(bt_str_status(&out), BT_OK);
    assert_string_equal(bt_str_text(&out),
                        "| a\\|b | 1099511627776 | 1.50 % | -3 |@" WJ "x%" WJ "s 7 0.123 2.5e+04");
    bt_str_release(&out);
}

static void csv_has_no_formula(void **state)
{
    (void)state;
    expect(bt_csv_text, "gelu.forward", "gelu.forward");
    expect(bt_csv_text, "=HYPERLINK(\"x\",\"y\")", "'=HYPERLINK(_x___y_)");
    expect(bt_csv_text, "+1", "'+1");
    expect(bt_csv_text, "-1+cmd", "'-1+cmd");
    expect(bt_csv_text, "@SUM(A1)", "'@SUM(A1)");
    expect(bt_csv_text, "\t=1", "_=1");
    expect(bt_csv_text, "\r=1\n</script>", "_=1__/script>");
    expect(bt_csv_text, "a=b", "a=b");
    expect(bt_csv_text, "", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markdown_has_no_markup),
        cmocka_unit_test(markdown_mentions_nobody),
        cmocka_unit_test(a_format_escapes_its_texts_alone),
        cmocka_unit_test(csv_has_no_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
