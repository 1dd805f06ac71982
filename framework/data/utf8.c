// framework/data/utf8.c - the table of well-formed sequences (Unicode, table 3-7)
#include "framework/data/utf8.h"

#include <stdint.h>
#include <string.h>

// Bytes of the well-formed sequence at `at`, 0 if there is none.
static size_t sequence_length(const unsigned char *at, size_t room)
{
    unsigned char lead = at[0];
    if (lead < 0x80) {
        return 1;
    }
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || length > room) {
        return 0;
    }
    unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (at[1] < low || at[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < length; ++i) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

size_t bt_utf8_valid_prefix(const void *bytes, size_t size_bytes)
{
    const unsigned char *text = bytes;
    size_t at = 0;
    while (at < size_bytes) {
        uint64_t word;
        if (size_bytes - at >= sizeof word) {
            memcpy(&word, text + at, sizeof word);
            if (!(word & 0x8080808080808080U)) {
                at += sizeof word;
                continue;
            }
        }
        size_t length = sequence_length(text + at, size_bytes - at);
        if (length == 0) {
            return at;
        }
        at += length;
    }
    return at;
}

// Windows-1252 0x80-0x9f; 0 if undefined. Above, it equals Unicode.
static const uint16_t code_points[32] = {
    0x20ac, 0,      0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
    0x2039, 0x0152, 0,      0x017d, 0,      0,      0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0,      0x017e, 0x0178};

bt_status bt_utf8_from_windows_1252(const void *bytes, size_t size_bytes, bt_str *text)
{
    const unsigned char *source = bytes;
    for (size_t i = 0; i < size_bytes; ++i) {
        unsigned code = source[i];
        if (code >= 0x80 && code < 0xa0) {
            code = code_points[code - 0x80];
            if (code == 0) {
                return bt_error(BT_STATUS_CORRUPT_DATA,
                                "byte %zu is 0x%02x, which Windows-1252 does not define", i,
                                source[i]);
            }
        }
        unsigned char utf8[3];
        size_t length = 1;
        if (code < 0x80) {
            utf8[0] = (unsigned char)code;
        } else if (code < 0x800) {
            utf8[0] = (unsigned char)(0xc0 | code >> 6);
            utf8[1] = (unsigned char)(0x80 | (code & 0x3f));
            length = 2;
        } else {
            utf8[0] = (unsigned char)(0xe0 | code >> 12);
            utf8[1] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
            utf8[2] = (unsigned char)(0x80 | (code & 0x3f));
            length = 3;
        }
        bt_str_append_bytes(text, utf8, length);
    }
    return bt_str_status(text);
}
