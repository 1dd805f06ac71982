// harness/data/fetch_list.c - corpora.json
#include <cjson/cJSON.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/data/fetch_internal.h"

static const char list_format[] = "blutrain-corpora-1";
static const char number_mark[] = "{number}";

enum { MAX_FILES = 100000 };

static bt_status bad(const char *list, const char *corpus, const char *expected)
{
    return bt_error(BT_STATUS_CORRUPT_DATA, "%s: corpus %s: expected %s", list,
                    corpus ? corpus : "without name", expected);
}

static const char *text_of(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

// A nonnegative integer; BT_FETCH_UNKNOWN if absent or null; -2 for anything else.
static int64_t count_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!item || cJSON_IsNull(item)) {
        return BT_FETCH_UNKNOWN;
    }
    bool fine = cJSON_IsNumber(item) && item->valuedouble >= 0 &&
                item->valuedouble <= 9007199254740992.0; // 2^53
    return fine ? (int64_t)item->valuedouble : -2;
}

static bt_status parse(const char *list, cJSON **root)
{
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size = 0;
    *root = NULL;
    BT_TRY(bt_file_read(list, &bytes, &size));
    const char *stop = NULL; // the text ends at the zero byte that bt_file_read adds
    *root = cJSON_ParseWithLengthOpts(bytes, size + 1, &stop, true);
    BT_FAIL_IF(!*root, BT_STATUS_CORRUPT_DATA, "%s: not JSON at byte %td", list,
               stop ? stop - (const char *)bytes : 0);
    const char *format = *root ? text_of(*root, "format") : NULL;
    BT_FAIL_IF(*root && (!format || strcmp(format, list_format) != 0), BT_STATUS_CORRUPT_DATA,
               "%s: expected format %s, got %s", list, list_format, format ? format : "none");
    return BT_OK;
}

void bt_fetch_corpus_release(bt_fetch_corpus *corpus)
{
    BT_EACH(bt_fetch_file, file, corpus->files, corpus->count) {
        bt_mem_free(file->file);
        bt_mem_free(file->url);
        bt_mem_free(file->path);
        bt_mem_free(file->part_path);
    }
    bt_mem_free(corpus->files);
    bt_mem_free(corpus->name);
    memset(corpus, 0, sizeof *corpus);
}

// The file name of row `name` for `number`.
static bt_status expand(const char *name, int64_t number, char **file)
{
    BT_SCOPED(bt_str) text = {0};
    const char *mark = strstr(name, number_mark);
    if (mark) {
        bt_str_append_bytes(&text, name, (size_t)(mark - name));
        bt_str_format(&text, "%06lld%s", (long long)number, mark + sizeof number_mark - 1);
    } else {
        bt_str_append(&text, name);
    }
    return bt_str_take(&text, file);
}

static bt_status add_file(bt_fetch_corpus *corpus, const char *base_url, const bt_fetch_file *row,
                          const char *name, int64_t number)
{
    void *block = corpus->files;
    BT_TRY(bt_mem_resize(&block, (size_t)corpus->count + 1, sizeof *corpus->files));
    corpus->files = block;
    bt_fetch_file *file = &corpus->files[corpus->count];
    *file = *row;
    ++corpus->count;
    BT_TRY(expand(name, number, &file->file));
    BT_SCOPED(bt_str) url = {0};
    bt_str_format(&url, "%s%s", base_url, file->file);
    return bt_str_take(&url, &file->url);
}

static bt_status read_row(const char *list, const cJSON *object, const char *base_url,
                          int64_t max_files, bt_fetch_corpus *corpus)
{
    const char *name = text_of(object, "file");
    const char *split = text_of(object, "split");
    const char *digest = text_of(object, "sha256");
    if (!name || name[0] == '.' || strchr(name, '/')) {
        return bad(list, corpus->name, "\"file\" to be a name without '/'");
    }
    bool val = split && strcmp(split, "val") == 0;
    if (!split || (!val && strcmp(split, "train") != 0)) {
        return bad(list, corpus->name, "\"split\" to be \"train\" or \"val\"");
    }
    bt_fetch_file row = {.val = val, .part = -1, .size_bytes = count_of(object, "bytes")};
    if (row.size_bytes < BT_FETCH_UNKNOWN) {
        return bad(list, corpus->name, "\"bytes\" to be a whole number or null");
    }
    if (digest) {
        if (strlen(digest) != 64 || strspn(digest, "0123456789abcdef") != 64) {
            return bad(list, corpus->name, "\"sha256\" to be 64 hexadecimal digits or null");
        }
        memcpy(row.digest.hex, digest, sizeof row.digest.hex);
    }
    const cJSON *range = cJSON_GetObjectItemCaseSensitive(object, "range");
    double first = 0;
    double last = 0;
    if (range) {
        first = cJSON_GetNumberValue(cJSON_GetArrayItem(range, 0));
        last = cJSON_GetNumberValue(cJSON_GetArrayItem(range, 1));
        if (!(first >= 0 && last >= first && last - first < MAX_FILES && last < 1e6) ||
            !strstr(name, number_mark)) {
            return bad(list, corpus->name, "\"range\" to be [first, last] of a {number}");
        }
    }
    for (int64_t number = (int64_t)first; number <= (int64_t)last; ++number) {
        if (!val && max_files > 0 && max_files-- == 1) {
            last = (double)number;
        }
        BT_TRY(add_file(corpus, base_url, &row, name, number));
    }
    return BT_OK;
}

static int64_t count_train(const bt_fetch_corpus *corpus)
{
    int64_t count = 0;
    for (int64_t i = 0; i < corpus->count; ++i) {
        count += !corpus->files[i].val;
    }
    return count;
}

static bt_status read_corpus(const char *list, const cJSON *object, int64_t max_files,
                             bt_fetch_corpus *corpus)
{
    const char *base_url = text_of(object, "base_url");
    const cJSON *files = cJSON_GetObjectItemCaseSensitive(object, "files");
    BT_TRY(bt_mem_strdup(text_of(object, "name"), &corpus->name));
    corpus->vocab = count_of(object, "vocab");
    corpus->about_bytes = count_of(object, "about_bytes");
    if (!base_url || !cJSON_IsArray(files)) {
        return bad(list, corpus->name, "\"base_url\", a text, and \"files\", an array");
    }
    if (corpus->vocab < 1 || corpus->about_bytes < BT_FETCH_UNKNOWN) {
        return bad(list, corpus->name, "\"vocab\" and \"about_bytes\" to be whole numbers");
    }
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, files) {
        bool is_val = text_of(row, "split") && strcmp(text_of(row, "split"), "val") == 0;
        int64_t left = max_files > 0 ? max_files - count_train(corpus) : 0;
        if (is_val || max_files == 0 || left > 0) {
            BT_TRY(read_row(list, row, base_url, left, corpus));
        }
    }
    return corpus->count > 0 ? BT_OK : bad(list, corpus->name, "at least one file");
}

bt_status bt_data_fetch_names(const char *list, bt_str *lines)
{
    cJSON *root = NULL;
    bt_status status = parse(list, &root);
    const cJSON *object = NULL;
    cJSON_ArrayForEach(object, cJSON_GetObjectItemCaseSensitive(root, "corpora")) {
        const char *name = text_of(object, "name");
        const char *about = text_of(object, "about");
        bt_fetch_corpus corpus = {0};
        BT_IF_OK(status, name && about ? read_corpus(list, object, 0, &corpus)
                                       : bad(list, name, "\"name\" and \"about\" to be texts"));
        if (status == BT_OK) {
            bt_str_format(lines, "%s\t%lld\t%s\n", name, (long long)corpus.count, about);
        }
        bt_fetch_corpus_release(&corpus);
    }
    cJSON_Delete(root);
    return status == BT_OK ? bt_str_status(lines) : status;
}

bt_status bt_fetch_corpus_read(const char *list, const char *name, int64_t max_files,
                               bt_fetch_corpus *corpus)
{
    memset(corpus, 0, sizeof *corpus);
    cJSON *root = NULL;
    BT_SCOPED(bt_str) known = {0};
    bt_status status = parse(list, &root);
    const cJSON *found = NULL;
    const cJSON *object = NULL;
    cJSON_ArrayForEach(object, cJSON_GetObjectItemCaseSensitive(root, "corpora")) {
        const char *its_name = text_of(object, "name");
        bt_str_format(&known, "%s%s", known.length_bytes ? ", " : "", its_name ? its_name : "?");
        found = its_name && strcmp(its_name, name) == 0 ? object : found;
    }
    if (status == BT_OK && !found) {
        status = bt_error(BT_STATUS_INVALID_ARGUMENT, "\"%s\" is not a corpus of %s; allowed: %s",
                          name, list, bt_str_text(&known));
    }
    BT_IF_OK(status, bt_str_status(&known));
    BT_IF_OK(status, read_corpus(list, found, max_files, corpus));
    cJSON_Delete(root);
    if (status != BT_OK) {
        bt_fetch_corpus_release(corpus);
    }
    return status;
}
