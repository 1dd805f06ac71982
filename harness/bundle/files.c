// harness/bundle/files.c - packs and unpacks named files
#include "harness/bundle/files.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/bundle/libarchive.h"

enum { LEVEL = 9, FOOTER_BYTES = 40, NAME_BYTES_MAX = 99 };

// A skippable zstd frame: its magic number, then 32 as the size of its contents.
static const unsigned char footer_head[8] = {0x5b, 0x2a, 0x4d, 0x18, 32, 0, 0, 0};
static const unsigned char frame_head[4] = {0x28, 0xb5, 0x2f, 0xfd};

// ---- the list ----------------------------------------------------------------------------------

static bt_status append_file(bt_files *files, const char *name, char *bytes, size_t size_bytes)
{
    BT_TRY(BT_MEM_GROW(files->count + 1, &files->capacity, &files->items));
    char *copy = NULL;
    BT_TRY(bt_mem_strdup(name, &copy));
    files->sorted = files->count == 0 ||
                    (files->sorted && strcmp(files->items[files->count - 1].name, name) < 0);
    files->items[files->count++] = (bt_file){copy, bytes, size_bytes};
    return BT_OK;
}

bt_status bt_files_add(bt_files *files, const char *name, bt_str *text)
{
    char *bytes = NULL;
    size_t size_bytes = text->length_bytes;
    bt_status status = bt_str_take(text, &bytes);
    BT_IF_OK(status, append_file(files, name, bytes, size_bytes));
    if (status != BT_OK) {
        bt_mem_free(bytes);
        bt_str_release(text);
    }
    return status;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const bt_file *)left)->name, ((const bt_file *)right)->name);
}

static bt_file *find(const bt_files *files, const char *name)
{
    if (files->sorted && files->count) {
        char *key = (char *)(uintptr_t)name; // bsearch only reads it
        const bt_file wanted = {.name = key};
        return bsearch(&wanted, files->items, (size_t)files->count, sizeof wanted, by_name);
    }
    const int64_t at = BT_FIND(files->items, files->count, name, name);
    return at < 0 ? NULL : &files->items[at];
}

const bt_file *bt_files_find(const bt_files *files, const char *name) { return find(files, name); }

void bt_files_remove(bt_files *files, const char *name)
{
    bt_file *file = find(files, name);
    if (file) {
        bt_mem_free(file->name);
        bt_mem_free(file->bytes);
        size_t behind = (size_t)(files->items + files->count - (file + 1));
        memmove(file, file + 1, behind * sizeof *file);
        files->count--;
    }
}

void bt_files_sort(bt_files *files)
{
    if (files->count && !files->sorted) {
        qsort(files->items, (size_t)files->count, sizeof *files->items, by_name);
    }
    files->sorted = true;
}

void bt_files_release(bt_files *files)
{
    for (int64_t i = 0; i < files->count; i++) {
        bt_mem_free(files->items[i].name);
        bt_mem_free(files->items[i].bytes);
    }
    bt_mem_free(files->items);
    memset(files, 0, sizeof *files);
}

void bt_files_digest(const void *bytes, size_t size_bytes, char digest[65])
{
    unsigned char raw[crypto_hash_sha256_BYTES];
    (void)crypto_hash_sha256(raw, bytes, size_bytes);
    (void)sodium_bin2hex(digest, 65, raw, sizeof raw);
}

// ---- packing -----------------------------------------------------------------------------------

// Does not report out-of-memory, which the text keeps: libarchive would then leak its block.
static la_ssize_t take_part(struct archive *tar, void *self, const void *bytes, size_t size_bytes)
{
    (void)tar;
    bt_str_append_bytes(self, bytes, size_bytes);
    return (la_ssize_t)size_bytes;
}

static bool write_entry(struct archive *tar, const bt_file *file)
{
    struct archive_entry *entry = bt_archive.entry_new();
    if (!entry) {
        return false;
    }
    bt_archive.entry_set_pathname(entry, file->name);
    bt_archive.entry_set_filetype(entry, AE_IFREG);
    bt_archive.entry_set_perm(entry, 0644);
    bt_archive.entry_set_mtime(entry, 0, 0);
    bt_archive.entry_set_size(entry, (la_int64_t)file->size_bytes);
    bool done =
        bt_archive.write_header(tar, entry) == ARCHIVE_OK &&
        bt_archive.write_data(tar, file->bytes, file->size_bytes) == (la_ssize_t)file->size_bytes;
    bt_archive.entry_free(entry);
    return done;
}

// The files in order, as a tar stream.
static bt_status write_tar(const bt_files *files, bt_str *out)
{
    BT_TRY(bt_archive_open());
    struct archive *tar = bt_archive.write_new();
    bool done = tar && bt_archive.write_set_format_ustar(tar) == ARCHIVE_OK &&
                bt_archive.write_set_bytes_per_block(tar, 512) == ARCHIVE_OK &&
                bt_archive.write_open(tar, out, NULL, take_part, NULL) == ARCHIVE_OK;
    for (int64_t i = 0; done && i < files->count; i++) {
        done = write_entry(tar, &files->items[i]);
    }
    done = done && bt_archive.write_close(tar) == ARCHIVE_OK;
    bt_archive.write_free(tar);
    BT_TRY(bt_str_status(out));
    return done ? BT_OK : bt_error(BT_STATUS_OUT_OF_MEMORY, "out of memory while packing a bundle");
}

static bt_status compress_with(ZSTD_CCtx *context, const bt_str *tar, bt_str *out)
{
    BT_SCOPED_MEM(void *) block = NULL;
    size_t capacity = ZSTD_compressBound(tar->length_bytes);
    BT_TRY(bt_mem_alloc(capacity, 1, &block));
    size_t done = ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, LEVEL);
    if (!ZSTD_isError(done)) {
        done = ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    }
    if (!ZSTD_isError(done)) {
        done = ZSTD_compress2(context, block, capacity, bt_str_text(tar), tar->length_bytes);
    }
    if (!ZSTD_isError(done)) {
        bt_str_append_bytes(out, block, done);
    }
    return ZSTD_isError(done)
               ? bt_error(BT_STATUS_OUT_OF_MEMORY, "packing a bundle: %s", ZSTD_getErrorName(done))
               : bt_str_status(out);
}

static void append_footer(bt_str *out)
{
    unsigned char footer[FOOTER_BYTES];
    memcpy(footer, footer_head, sizeof footer_head);
    (void)crypto_hash_sha256(footer + sizeof footer_head, (const unsigned char *)bt_str_text(out),
                             out->length_bytes);
    bt_str_append_bytes(out, footer, sizeof footer);
}

bt_status bt_files_pack(bt_files *files, bt_str *out)
{
    BT_SCOPED(bt_str) tar = {0};
    ZSTD_CCtx *context = ZSTD_createCCtx();
    bt_status status =
        context ? BT_OK : bt_error(BT_STATUS_OUT_OF_MEMORY, "out of memory while packing a bundle");
    bt_files_sort(files);
    BT_IF_OK(status, write_tar(files, &tar));
    BT_IF_OK(status, compress_with(context, &tar, out));
    ZSTD_freeCCtx(context);
    BT_TRY(status);
    append_footer(out);
    return bt_str_status(out);
}

// ---- unpacking ---------------------------------------------------------------------------------

static bt_status damaged(const char *what) { return bt_error(BT_STATUS_CORRUPT_DATA, "%s", what); }

static bt_status check_footer(const unsigned char *bytes, size_t size_bytes)
{
    if (size_bytes < sizeof frame_head || memcmp(bytes, frame_head, sizeof frame_head) != 0) {
        return damaged("not a bundle: it does not begin with the header of a tar.zst file");
    }
    if (size_bytes < FOOTER_BYTES + sizeof frame_head) {
        return damaged("not a bundle, or truncated: it is too short");
    }
    unsigned char digest[crypto_hash_sha256_BYTES];
    const unsigned char *footer = bytes + size_bytes - FOOTER_BYTES;
    if (memcmp(footer, footer_head, sizeof footer_head) != 0) {
        return damaged("the digest at its end is missing: it was truncated, extended, or packed by "
                       "another program than bt-bench");
    }
    (void)crypto_hash_sha256(digest, bytes, size_bytes - FOOTER_BYTES);
    if (sodium_memcmp(digest, footer + sizeof footer_head, sizeof digest) != 0) {
        return damaged("damaged: the digest at its end does not match its contents");
    }
    return BT_OK;
}

static bt_status decompress(const unsigned char *bytes, size_t size_bytes, void **tar,
                            size_t *tar_bytes)
{
    unsigned long long limit = (256ULL << 20) + 1024ULL * size_bytes;
    unsigned long long size = ZSTD_getFrameContentSize(bytes, size_bytes);
    if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR) {
        return damaged("the zstd frame does not declare its size");
    }
    BT_FAIL_IF(size > limit, BT_STATUS_CORRUPT_DATA,
               "it declares %llu bytes unpacked; allowed: at most %llu for %zu packed", size, limit,
               size_bytes);
    size_t frame = ZSTD_findFrameCompressedSize(bytes, size_bytes);
    if (ZSTD_isError(frame) || frame != size_bytes) {
        return damaged("it is not one zstd frame");
    }
    BT_TRY(bt_mem_alloc((size_t)size + 1, 1, tar));
    size_t got = ZSTD_decompress(*tar, (size_t)size, bytes, size_bytes);
    if (ZSTD_isError(got) || got != size) {
        return damaged(ZSTD_isError(got) ? ZSTD_getErrorName(got) : "a short zstd frame");
    }
    *tar_bytes = got;
    return BT_OK;
}

// Relative, plain characters only, no empty part and no part of only dots.
static bool is_plain_name(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > NAME_BYTES_MAX || name[length - 1] == '/') {
        return false;
    }
    for (const char *at = name; *at; at++) {
        bool plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                     (*at >= '0' && *at <= '9') || strchr("._-/", *at);
        bool begins = at == name || at[-1] == '/';
        if (!plain || (begins && (*at == '/' || *at == '.'))) {
            return false;
        }
    }
    return true;
}

static bt_status check_entry(const bt_files *files, struct archive_entry *entry, size_t tar_bytes)
{
    const char *name = bt_archive.entry_pathname(entry);
    BT_FAIL_IF(!name || !is_plain_name(name), BT_STATUS_CORRUPT_DATA,
               "\"%.120s\" is not a valid file name in a bundle", name ? name : "");
    BT_FAIL_IF(bt_archive.entry_filetype(entry) != AE_IFREG || bt_archive.entry_hardlink(entry) ||
                   bt_archive.entry_symlink(entry),
               BT_STATUS_CORRUPT_DATA, "%s is not a regular file", name);
    BT_FAIL_IF(bt_archive.entry_size(entry) < 0 ||
                   (uint64_t)bt_archive.entry_size(entry) > tar_bytes,
               BT_STATUS_CORRUPT_DATA, "%s declares %lld bytes, more than the whole archive", name,
               (long long)bt_archive.entry_size(entry));
    int order = files->count ? strcmp(files->items[files->count - 1].name, name) : -1;
    BT_FAIL_IF(order >= 0, BT_STATUS_CORRUPT_DATA,
               order ? "%s is not in order of names" : "%s occurs twice", name);
    return files->count < BT_FILES_COUNT_MAX ? BT_OK
                                             : damaged("more files than a bundle can contain");
}

static bt_status take_entry(struct archive *tar, struct archive_entry *entry, size_t tar_bytes,
                            bt_files *files)
{
    BT_TRY(check_entry(files, entry, tar_bytes));
    size_t size_bytes = (size_t)bt_archive.entry_size(entry);
    void *bytes = NULL;
    BT_TRY(bt_mem_alloc(size_bytes + 1, 1, &bytes));
    bt_status status = BT_OK;
    if (bt_archive.read_data(tar, bytes, size_bytes) != (la_ssize_t)size_bytes) {
        status = bt_error(BT_STATUS_CORRUPT_DATA, "%s: cut off", bt_archive.entry_pathname(entry));
    }
    BT_IF_OK(status, append_file(files, bt_archive.entry_pathname(entry), bytes, size_bytes));
    if (status != BT_OK) {
        bt_mem_free(bytes);
    }
    return status;
}

static bt_status read_tar(const void *bytes, size_t size_bytes, bt_files *files)
{
    BT_TRY(bt_archive_open());
    struct archive *tar = bt_archive.read_new();
    bool open = tar && bt_archive.read_support_format_tar(tar) == ARCHIVE_OK &&
                bt_archive.read_open_memory(tar, bytes, size_bytes) == ARCHIVE_OK;
    bt_status status = open ? BT_OK : damaged("not a tar archive");
    while (status == BT_OK) {
        struct archive_entry *entry = NULL;
        int code = bt_archive.read_next_header(tar, &entry);
        if (code == ARCHIVE_EOF) {
            break;
        }
        status = code == ARCHIVE_OK ? take_entry(tar, entry, size_bytes, files)
                                    : damaged("not a tar archive that bt-bench wrote");
    }
    bt_archive.read_free(tar);
    return status;
}

bt_status bt_files_unpack(const void *bytes, size_t size_bytes, bt_files *out)
{
    BT_SCOPED_MEM(void *) tar = NULL;
    size_t tar_bytes = 0;
    BT_SCOPED(bt_str) again = {0};
    memset(out, 0, sizeof *out);
    BT_TRY(check_footer(bytes, size_bytes));
    bt_status status = decompress(bytes, size_bytes - FOOTER_BYTES, &tar, &tar_bytes);
    BT_IF_OK(status, read_tar(tar, tar_bytes, out));
    BT_IF_OK(status, write_tar(out, &again));
    if (status == BT_OK &&
        (again.length_bytes != tar_bytes || memcmp(bt_str_text(&again), tar, tar_bytes) != 0)) {
        status = damaged("its tar headers differ from those that bt-bench writes");
    }
    if (status != BT_OK) {
        bt_files_release(out);
    }
    return status;
}
