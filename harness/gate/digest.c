// harness/gate/digest.c - XXH3-128 as hex digits
#include "harness/gate/digest.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

void bt_gate_digest(const char *text, char digest[33])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(text, strlen(text)));
    for (int i = 0; i < 16; ++i) {
        (void)snprintf(digest + 2 * (size_t)i, 3, "%02x", canonical.digest[i]);
    }
}
