// framework/data/digest.c - libsodium's SHA-256
#include "framework/data/digest.h"

#include <sodium.h>

#include "framework/base/file.h"

bt_digest bt_digest_bytes(const void *bytes, size_t size_bytes)
{
    unsigned char raw[crypto_hash_sha256_BYTES];
    bt_digest digest;
    (void)crypto_hash_sha256(raw, bytes, size_bytes);
    (void)sodium_bin2hex(digest.hex, sizeof digest.hex, raw, sizeof raw);
    return digest;
}

bt_status bt_digest_file(const char *path, bt_digest *digest)
{
    const void *bytes = NULL;
    size_t size_bytes = 0;
    BT_TRY(bt_file_map(path, &bytes, &size_bytes));
    *digest = bt_digest_bytes(bytes, size_bytes);
    bt_file_unmap(bytes, size_bytes);
    return BT_OK;
}
