// harness/text/escape.c - escapes text for Markdown, HTML and CSV
#include "harness/text/escape.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/suite/utf8.h"

// A backslash keeps a character from being markup, but mentions and references are searched in the
// remaining text: U+2060, which has no width and no break, separates the sign from the name.
#define WORD_JOINER "\xe2\x81\xa0"

static bool is_control(char byte)
{
    unsigned char code = (unsigned char)byte;
    return code < 0x20 || code == 0x7f;
}

// Whether the sign begins a mention or a reference (@user #1 !1 ~label %milestone &epic $snippet).
static bool is_reference(const char *at)
{
    return strchr("@#!~%&$", at[0]) && (isalnum((unsigned char)at[1]) || strchr("_\"-", at[1])) &&
           at[1];
}

// Whether the character would be markup here: at the start also a list, a rule or an underline.
static bool needs_backslash(const char *text, const char *at)
{
    bool starts_block = at == text && strchr("+-=", *at) && !isalnum((unsigned char)at[1]);
    return strchr("\\`*_{}[]<>|#&~!$", *at) || starts_block;
}

void bt_markdown_text(bt_str *out, const char *text)
{
    for (const char *at = text; *at; at++) {
        if (is_control(*at)) {
            bt_str_append(out, " ");
            continue;
        }
        bt_str_append(out, needs_backslash(text, at) ? "\\" : "");
        bt_str_append_bytes(out, at, 1);
        bool url = *at == ':' && at[1] == '/' && at[2] == '/';
        bool site = at - text >= 2 && strncasecmp(at - 2, "www.", 4) == 0;
        bt_str_append(out, is_reference(at) || url || site ? WORD_JOINER : "");
    }
}

void bt_csv_text(bt_str *out, const char *text)
{
    bt_str_append(out, *text && strchr("=+-@", *text) ? "'" : "");
    for (; *text; text++) {
        bool ends = is_control(*text) || strchr("<\",", *text);
        bt_str_append_bytes(out, ends ? "_" : text, 1);
    }
}

enum { CUT_BYTES = 256 }; // the part of a text that "%.20s" prints

// Appends the next argument as a conversion of this length specifies.
static void append_number(bt_str *out, const char *conversion, size_t length, va_list *arguments)
{
    const char *point = memchr(conversion, '.', length);
    const int digits = point ? atoi(point + 1) : -1; // -1: none
    switch (conversion[length - 1]) {
    case 'e':
        bt_str_format(out, "%.*e", digits, va_arg(*arguments, double));
        break;
    case 'f':
        bt_str_format(out, "%.*f", digits, va_arg(*arguments, double));
        break;
    case 'g':
        bt_str_format(out, "%.*g", digits, va_arg(*arguments, double));
        break;
    case 'u':
        bt_str_format(out, "%zu", va_arg(*arguments, size_t));
        break;
    default:
        if (memchr(conversion, 'l', length)) {
            bt_str_format(out, "%lld", va_arg(*arguments, long long));
        } else {
            bt_str_format(out, "%d", va_arg(*arguments, int));
        }
    }
}

void bt_escape_format(bt_str *out, void (*escape)(bt_str *out, const char *text),
                      const char *format, va_list arguments)
{
    va_list rest;
    va_copy(rest, arguments);
    while (*format) {
        size_t plain = strcspn(format, "%");
        bt_str_append_bytes(out, format, plain);
        format += plain;
        if (format[0] == '%' && format[1] == '%') {
            bt_str_append(out, "%");
            format += 2;
        } else if (format[0] == '%' && format[1] == 's') {
            escape(out, va_arg(rest, const char *));
            format += 2;
        } else if (format[0] == '%' && format[strcspn(format, "dufegs")] == 's') { // "%.8s"
            char cut[CUT_BYTES];
            (void)snprintf(cut, sizeof cut, "%.*s", atoi(format + 2), va_arg(rest, const char *));
            escape(out, cut);
            format += strcspn(format, "s") + 1;
        } else if (format[0] == '%') {
            size_t length = strcspn(format, "dufeg") + 1;
            append_number(out, format, length, &rest);
            format += length;
        }
    }
    va_end(rest);
}

void bt_markdown(bt_str *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bt_escape_format(out, bt_markdown_text, format, arguments);
    va_end(arguments);
}

// Writes the first character of a text; returns its length in bytes.
static size_t write_character(bt_str *out, const char *text)
{
    const size_t length = bt_utf8_length(text);
    const unsigned char first = (unsigned char)*text;
    const char *named = first == '&'    ? "&amp;"
                        : first == '<'  ? "&lt;"
                        : first == '>'  ? "&gt;"
                        : first == '"'  ? "&quot;"
                        : first == '\'' ? "&#39;"
                                        : NULL;
    if (length == 0 || (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f) {
        bt_str_append(out, "\xef\xbf\xbd"); // not a valid character of a page
        return 1;
    }
    if (named) {
        bt_str_append(out, named);
    } else {
        bt_str_append_bytes(out, text, length);
    }
    return length;
}

void bt_html_text(bt_str *out, const char *text)
{
    while (text && *text) {
        text += write_character(out, text);
    }
}

void bt_html_name(bt_str *out, const char *text)
{
    while (*text) {
        const bool breaks = strchr("._", *text) && isalnum((unsigned char)text[1]);
        text += write_character(out, text);
        bt_str_append(out, breaks ? "<wbr>" : "");
    }
}

void bt_html(bt_str *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bt_escape_format(out, bt_html_text, format, arguments);
    va_end(arguments);
}
