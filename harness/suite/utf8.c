// harness/suite/utf8.c - Unicode 15, table 3-7, well-formed byte sequences
#include "harness/suite/utf8.h"

size_t bt_utf8_length(const char *text)
{
    const unsigned char *b = (const unsigned char *)text;
    unsigned char low = 0x80, high = 0xbf;
    size_t length = b[0] < 0x80   ? 1
                    : b[0] < 0xc2 ? 0
                    : b[0] < 0xe0 ? 2
                    : b[0] < 0xf0 ? 3
                    : b[0] < 0xf5 ? 4
                                  : 0;
    if (b[0] == 0xe0) {
        low = 0xa0;
    } else if (b[0] == 0xed) {
        high = 0x9f;
    } else if (b[0] == 0xf0) {
        low = 0x90;
    } else if (b[0] == 0xf4) {
        high = 0x8f;
    }
    for (size_t i = 1; i < length; i++) {
        if (b[i] < (i == 1 ? low : 0x80) || b[i] > (i == 1 ? high : 0xbf)) {
            return 0;
        }
    }
    return length;
}
