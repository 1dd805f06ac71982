// harness/data/fetch_file.c - the transfer of one file: what is written, what is believed
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "framework/data/shard.h"
#include "harness/data/fetch_internal.h"

enum { MAGIC_BYTES = 4, REDIRECTS = 10, CONNECT_SECONDS = 30, MAX_MESSAGE_URL = 400 };

// Notes what is wrong with the present attempt; the first reason stays.
static void blame(bt_fetch_file *file, bt_status status, const char *format, ...) BT_PRINTF(3, 4);

static void blame(bt_fetch_file *file, bt_status status, const char *format, ...)
{
    if (file->problem != BT_OK) {
        return;
    }
    file->problem = status;
    int length =
        snprintf(file->message, sizeof file->message, "%.*s: ", MAX_MESSAGE_URL, file->url);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(file->message + length, sizeof file->message - (size_t)length, format,
                    arguments);
    va_end(arguments);
}

static void close_part(bt_fetch_file *file)
{
    if (file->part >= 0) {
        close(file->part);
        file->part = -1;
    }
}

// Throws away what was fetched.
static void begin_anew(bt_fetch_file *file)
{
    if (file->part >= 0 && ftruncate(file->part, 0) != 0) {
        blame(file, BT_STATUS_IO, "cannot shorten %s: %s", file->part_path, strerror(errno));
        file->fatal = true;
    }
    file->have_bytes = 0;
}

// Is the finished file what it should be? Fills tokens and got; a digest that is `known` already
// is not computed again.
static bt_status check(bt_fetch_file *file, const char *path, const bt_digest *known)
{
    bt_shard shard;
    BT_TRY(bt_shard_open(path, &shard));
    bt_digest digest = known ? *known : bt_digest_bytes(shard.mapping, shard.mapping_bytes);
    int64_t size = (int64_t)shard.mapping_bytes;
    int64_t tokens = shard.count;
    bt_shard_close(&shard);
    BT_FAIL_IF(file->size_bytes != BT_FETCH_UNKNOWN && size != file->size_bytes,
               BT_STATUS_CORRUPT_DATA, "%s: expected %lld bytes, got %lld", path,
               (long long)file->size_bytes, (long long)size);
    BT_FAIL_IF(file->digest.hex[0] && strcmp(file->digest.hex, digest.hex) != 0,
               BT_STATUS_CORRUPT_DATA, "%s: expected sha256 %s, got %s", path, file->digest.hex,
               digest.hex);
    file->got = digest;
    file->tokens = tokens;
    file->have_bytes = size;
    return BT_OK;
}

static const bt_digest *known_digest(const bt_fetch_file *file, const bt_dataset *old)
{
    const bt_dataset_split *split = file->val ? &old->val : &old->train;
    for (int64_t i = 0; i < split->count; ++i) {
        if (strcmp(split->paths[i], file->path) == 0 && split->shards[i].digest.hex[0]) {
            return &split->shards[i].digest;
        }
    }
    return NULL;
}

bt_status bt_fetch_file_look(bt_fetch_file *file, const char *out_dir, const bt_dataset *old)
{
    BT_TRY(bt_path_join(out_dir, file->file, &file->path));
    BT_SCOPED(bt_str) part = {0};
    bt_str_format(&part, "%s.part", file->path);
    bt_status status = bt_str_take(&part, &file->part_path);
    BT_TRY(status);
    if (bt_file_exists(file->path)) {
        status = check(file, file->path, known_digest(file, old));
        if (status == BT_OK) {
            file->state = BT_FETCH_DONE;
            return BT_OK;
        }
        if (status != BT_STATUS_CORRUPT_DATA) {
            return status; // otherwise it is fetched again, and replaced when that is done
        }
    }
    struct stat info;
    if (stat(file->part_path, &info) == 0) {
        file->have_bytes = info.st_size;
        file->best_bytes = info.st_size;
    }
    return BT_OK;
}

// The first bytes of a shard are its magic number: a page in its place is seen at once.
static void check_magic(bt_fetch_file *file)
{
    int32_t magic = 0;
    if (file->magic_checked || file->have_bytes < MAGIC_BYTES) {
        return;
    }
    file->magic_checked = true;
    if (pread(file->part, &magic, sizeof magic, 0) != (ssize_t)sizeof magic ||
        magic != BT_SHARD_MAGIC) {
        blame(file, BT_STATUS_CORRUPT_DATA,
              "not a token shard: expected magic %d at byte 0, got %d", BT_SHARD_MAGIC, magic);
        begin_anew(file);
    }
}

// Judges a response at its first byte of body: false when nothing of it can be used.
static bool accept_response(bt_fetch_file *file)
{
    long code = 0;
    const char *type = NULL;
    (void)bt_curl.easy_getinfo(file->handle, CURLINFO_RESPONSE_CODE, &code);
    (void)bt_curl.easy_getinfo(file->handle, CURLINFO_CONTENT_TYPE, &type);
    if (code != 200 && code != 206) {
        return false; // bt_fetch_file_end names the code
    }
    if (type && strncasecmp(type, "text/html", 9) == 0) {
        blame(file, BT_STATUS_CORRUPT_DATA, "the server sent a web page (%s), not a token shard",
              type);
        return false;
    }
    curl_off_t length = -1;
    (void)bt_curl.easy_getinfo(file->handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (code == 200) {
        file->announced_bytes = length;
        begin_anew(file); // the range was ignored, or there was none
    } else if (file->range_start != file->have_bytes) {
        blame(file, BT_STATUS_CORRUPT_DATA, "requested bytes from %lld, the server sent from %lld",
              (long long)file->have_bytes, (long long)file->range_start);
        begin_anew(file);
        return false;
    }
    if (file->size_bytes != BT_FETCH_UNKNOWN && file->announced_bytes >= 0 &&
        file->announced_bytes != file->size_bytes) {
        blame(file, BT_STATUS_CORRUPT_DATA, "expected %lld bytes, the server announces %lld",
              (long long)file->size_bytes, (long long)file->announced_bytes);
        return false;
    }
    return true;
}

static size_t take_body(char *bytes, size_t one, size_t size_bytes, void *self)
{
    (void)one;
    bt_fetch_file *file = self;
    file->last_byte_ns = bt_clock_ns();
    if (!file->body_begun) {
        file->body_begun = true;
        if (!accept_response(file)) {
            return 0;
        }
    }
    for (size_t done = 0; done < size_bytes;) {
        ssize_t part = pwrite(file->part, bytes + done, size_bytes - done, file->have_bytes);
        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part < 0) {
            blame(file, BT_STATUS_IO, "cannot write %s: %s", file->part_path, strerror(errno));
            file->fatal = true;
            return 0;
        }
        done += (size_t)part;
        file->have_bytes += part;
    }
    if (file->size_bytes != BT_FETCH_UNKNOWN && file->have_bytes > file->size_bytes) {
        blame(file, BT_STATUS_CORRUPT_DATA, "expected %lld bytes, the server sends more",
              (long long)file->size_bytes);
        begin_anew(file);
    }
    check_magic(file);
    return file->problem == BT_OK ? size_bytes : 0;
}

// Reads "bytes 5512-11023/11024", after the header's name.
static void take_range(bt_fetch_file *file, const char *value)
{
    value += strspn(value, " ");
    if (strncasecmp(value, "bytes ", 6) != 0) {
        return;
    }
    char *end = NULL;
    file->range_start = strtoll(value + 6, &end, 10);
    const char *slash = strchr(end, '/');
    int64_t total = slash ? strtoll(slash + 1, NULL, 10) : 0; // "*", an unknown total, reads as 0
    file->announced_bytes = total > 0 ? total : BT_FETCH_UNKNOWN;
}

static size_t take_header(char *bytes, size_t one, size_t size_bytes, void *self)
{
    (void)one;
    static const char range_header[] = "content-range:";
    const size_t name_bytes = sizeof range_header - 1;
    bt_fetch_file *file = self;
    file->last_byte_ns = bt_clock_ns();
    char line[128];
    (void)snprintf(line, sizeof line, "%.*s", (int)(size_bytes < 127 ? size_bytes : 127), bytes);
    if (strncasecmp(line, "HTTP/", 5) == 0) { // also of each redirection
        file->range_start = BT_FETCH_UNKNOWN;
        file->announced_bytes = BT_FETCH_UNKNOWN;
    } else if (strncasecmp(line, range_header, name_bytes) == 0) {
        take_range(file, line + name_bytes);
    }
    return size_bytes;
}

static bt_status open_part(bt_fetch_file *file)
{
    file->part = open(file->part_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    BT_FAIL_IF(file->part < 0, BT_STATUS_IO, "cannot create %s: %s", file->part_path,
               strerror(errno));
    BT_FAIL_IF(flock(file->part, LOCK_EX | LOCK_NB) != 0, BT_STATUS_IO,
               "%s is being fetched by another process", file->part_path);
    struct stat info;
    BT_FAIL_IF(fstat(file->part, &info) != 0, BT_STATUS_IO, "cannot read %s: %s", file->part_path,
               strerror(errno));
    file->have_bytes = info.st_size;
    return BT_OK;
}

static bool set_options(bt_fetch_file *file)
{
    CURL *handle = file->handle;
    char range[32];
    (void)snprintf(range, sizeof range, "%lld-", (long long)file->have_bytes);
    bool fine =
        bt_curl.easy_setopt(handle, CURLOPT_URL, file->url) == CURLE_OK &&
        bt_curl.easy_setopt(handle, CURLOPT_PRIVATE, file) == CURLE_OK &&
        bt_curl.easy_setopt(handle, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
        bt_curl.easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 1L) == CURLE_OK &&
        bt_curl.easy_setopt(handle, CURLOPT_MAXREDIRS, (long)REDIRECTS) == CURLE_OK &&
        bt_curl.easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS) == CURLE_OK &&
        bt_curl.easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_body) == CURLE_OK &&
        bt_curl.easy_setopt(handle, CURLOPT_WRITEDATA, file) == CURLE_OK &&
        bt_curl.easy_setopt(handle, CURLOPT_HEADERFUNCTION, take_header) == CURLE_OK &&
        bt_curl.easy_setopt(handle, CURLOPT_HEADERDATA, file) == CURLE_OK;
#if LIBCURL_VERSION_NUM >= 0x075500
    fine = fine && bt_curl.easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
#else
    fine = fine && bt_curl.easy_setopt(handle, CURLOPT_PROTOCOLS,
                                       (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS)) == CURLE_OK;
#endif
    return fine &&
           (file->have_bytes == 0 || bt_curl.easy_setopt(handle, CURLOPT_RANGE, range) == CURLE_OK);
}

bt_status bt_fetch_file_start(bt_fetch_file *file, CURLM *multi)
{
    BT_TRY(open_part(file));
    file->problem = BT_OK;
    file->body_begun = false;
    file->magic_checked = false;
    file->announced_bytes = BT_FETCH_UNKNOWN;
    file->range_start = BT_FETCH_UNKNOWN;
    file->last_byte_ns = bt_clock_ns();
    file->handle = bt_curl.easy_init();
    if (!file->handle || !set_options(file) ||
        bt_curl.multi_add_handle(multi, file->handle) != CURLM_OK) {
        bt_curl.easy_cleanup(file->handle);
        file->handle = NULL;
        close_part(file);
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "no memory for a transfer");
    }
    file->state = BT_FETCH_RUNNING;
    return BT_OK;
}

void bt_fetch_file_stop(bt_fetch_file *file, CURLM *multi)
{
    if (file->handle) {
        (void)bt_curl.multi_remove_handle(multi, file->handle);
        bt_curl.easy_cleanup(file->handle);
        file->handle = NULL;
    }
    if (file->part >= 0 && file->have_bytes == 0) {
        (void)unlink(file->part_path); // nothing worth continuing
    }
    close_part(file);
    if (file->state == BT_FETCH_RUNNING) {
        file->state = BT_FETCH_WAITING;
    }
}

// Puts a complete part in its place.
static void finish(bt_fetch_file *file)
{
    bt_status status = check(file, file->part_path, NULL);
    if (status != BT_OK) {
        blame(file, status, "%s", bt_error_message());
        begin_anew(file);
        return;
    }
    if (fsync(file->part) != 0 || rename(file->part_path, file->path) != 0) {
        blame(file, BT_STATUS_IO, "cannot rename %s: %s", file->path, strerror(errno));
        file->fatal = true;
        return;
    }
    file->state = BT_FETCH_DONE;
}

static void judge(bt_fetch_file *file, CURLcode result, long code)
{
    int64_t expected =
        file->size_bytes != BT_FETCH_UNKNOWN ? file->size_bytes : file->announced_bytes;
    bool unreachable = result == CURLE_COULDNT_RESOLVE_HOST || result == CURLE_COULDNT_CONNECT ||
                       result == CURLE_COULDNT_RESOLVE_PROXY;
    if (file->problem != BT_OK) {
        return;
    }
    if (code == 416 && file->have_bytes > 0) {
        finish(file); // nothing behind what we have: it is complete, or of another file
        return;
    }
    if (code >= 400) {
        blame(file, BT_STATUS_IO, "the server answered with status %ld", code);
        file->fatal = code < 500 && code != 408 && code != 429;
    } else if (result == CURLE_OPERATION_TIMEDOUT) {
        blame(file, BT_STATUS_IO, "the server stalled at byte %lld", (long long)file->have_bytes);
    } else if (result != CURLE_OK) {
        blame(file, unreachable ? BT_STATUS_UNAVAILABLE : BT_STATUS_IO, "%s at byte %lld",
              bt_curl.easy_strerror(result), (long long)file->have_bytes);
    } else if (expected >= 0 && file->have_bytes < expected) {
        blame(file, BT_STATUS_IO, "the transfer ended at byte %lld of %lld",
              (long long)file->have_bytes, (long long)expected);
    } else {
        finish(file);
    }
}

void bt_fetch_file_end(bt_fetch_file *file, CURLM *multi, CURLcode result)
{
    long code = 0;
    (void)bt_curl.easy_getinfo(file->handle, CURLINFO_RESPONSE_CODE, &code);
    judge(file, result, code);
    bt_fetch_file_stop(file, multi);
    if (file->state != BT_FETCH_DONE) {
        bool progress = file->have_bytes > file->best_bytes;
        file->attempts = progress ? 1 : file->attempts + 1;
        file->best_bytes = progress ? file->have_bytes : file->best_bytes;
    }
}
