// harness/store/samples.c - raw samples as compressed blobs
#include <zstd.h>

#include "framework/base/idioms.h"
#include "harness/store/internal.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "blobs are little-endian");

enum { LEVEL = 3 };

bt_status bt_samples_pack(const double *samples, int64_t count, void **blob, int64_t *size_bytes)
{
    size_t raw_bytes = (size_t)count * sizeof *samples;
    size_t capacity = ZSTD_compressBound(raw_bytes);
    BT_TRY(bt_mem_alloc(capacity, 1, blob));
    size_t packed = ZSTD_compress(*blob, capacity, samples, raw_bytes, LEVEL);
    if (ZSTD_isError(packed)) {
        BT_MEM_FREE(*blob);
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "compressing %lld samples: %s", (long long)count,
                        ZSTD_getErrorName(packed));
    }
    *size_bytes = (int64_t)packed;
    return BT_OK;
}

bt_status bt_samples_unpack(const void *blob, int64_t size_bytes, int64_t count, bt_arena *arena,
                            const double **samples)
{
    // The count is checked against the frame first, so that a damaged row cannot ask for memory.
    unsigned long long raw_bytes = ZSTD_getFrameContentSize(blob, (size_t)size_bytes);
    BT_FAIL_IF(count < 0 || raw_bytes == ZSTD_CONTENTSIZE_UNKNOWN ||
                   raw_bytes == ZSTD_CONTENTSIZE_ERROR ||
                   raw_bytes / sizeof(double) != (uint64_t)count || raw_bytes % sizeof(double) != 0,
               BT_STATUS_UNAVAILABLE, "samples: a blob of %lld bytes is not %lld doubles",
               (long long)size_bytes, (long long)count);
    void *out = NULL;
    BT_TRY(bt_arena_alloc(arena, (size_t)raw_bytes, &out));
    size_t got = ZSTD_decompress(out, (size_t)raw_bytes, blob, (size_t)size_bytes);
    BT_FAIL_IF(ZSTD_isError(got) || got != raw_bytes, BT_STATUS_UNAVAILABLE, "samples: %s",
               ZSTD_isError(got) ? ZSTD_getErrorName(got) : "a short blob");
    *samples = out;
    return BT_OK;
}
