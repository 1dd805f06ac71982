// framework/data/digest.h - SHA-256 as 64 hexadecimal digits
#ifndef BT_DATA_DIGEST_H
#define BT_DATA_DIGEST_H

#include <stddef.h>

#include "framework/base/status.h"

typedef struct bt_digest {
    char hex[65];
} bt_digest;

bt_digest bt_digest_bytes(const void *bytes, size_t size_bytes);
// Errors  IO
BT_CHECKED bt_status bt_digest_file(const char *path, bt_digest *digest);

#endif
