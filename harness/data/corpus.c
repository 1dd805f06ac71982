// harness/data/corpus.c - makes a dataset: runs all steps, and moves the result into place
#include "harness/data/corpus.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "framework/data/shard.h"
#include "harness/data/corpus_internal.h"

enum { SHARD_TOKENS = 100000000, MAX_NAME_BYTES = 100 };

static const char staging_prefix[] = ".making-"; // and the process that makes it

static bt_status check_space(const bt_corpus_job *job)
{
    // English text needs half a byte of shard per byte, other languages up to two.
    uint64_t needed = BT_SHARD_HEADER_BYTES * 2;
    uint64_t available = 0;
    for (int64_t i = 0; i < job->source_count; ++i) {
        needed += job->sources[i].size_bytes;
    }
    BT_TRY(bt_disk_free(job->out_dir, &available));
    BT_FAIL_IF(available < needed, BT_STATUS_IO,
               "%s: not enough space: the shards need up to %llu MiB, %llu "
               "MiB are free",
               job->out_dir, (unsigned long long)(needed >> 20) + 1,
               (unsigned long long)(available >> 20));
    return BT_OK;
}

// Removes a folder of files; missing files are no error.
static void remove_folder(const char *folder)
{
    DIR *handle = opendir(folder);
    if (!handle) {
        return;
    }
    for (const struct dirent *entry = readdir(handle); entry; entry = readdir(handle)) {
        (void)unlinkat(dirfd(handle), entry->d_name, 0);
    }
    (void)closedir(handle);
    (void)rmdir(folder);
}

// Removes unfinished files of processes that no longer run.
static void remove_leftovers(const char *folder)
{
    DIR *handle = opendir(folder);
    const size_t prefix_bytes = sizeof staging_prefix - 1;
    if (!handle) {
        return;
    }
    for (const struct dirent *entry = readdir(handle); entry; entry = readdir(handle)) {
        if (strncmp(entry->d_name, staging_prefix, prefix_bytes) == 0) {
            long maker = strtol(entry->d_name + prefix_bytes, NULL, 10);
            char *path = NULL;
            if (maker > 0 && kill((pid_t)maker, 0) != 0 && errno == ESRCH &&
                bt_path_join(folder, entry->d_name, &path) == BT_OK) {
                remove_folder(path);
            }
            bt_mem_free(path);
        }
    }
    (void)closedir(handle);
}

static void remove_files(const bt_dataset_split *split)
{
    for (int64_t i = 0; i < split->count; ++i) {
        (void)unlink(split->shards[i].path);
    }
}

// Removes the folder's dataset, if any: the manifest first, so that it is never wrong.
static bt_status remove_old(const char *folder)
{
    BT_SCOPED_MEM(char *) manifest = NULL;
    BT_TRY(bt_path_join(folder, BT_DATASET_MANIFEST, &manifest));
    BT_SCOPED(bt_dataset) old = {0};
    bool there = bt_file_exists(manifest);
    bool readable = there && bt_dataset_open(folder, &old) == BT_OK;
    BT_FAIL_IF(there && unlink(manifest) != 0, BT_STATUS_IO, "cannot replace %s: %s", manifest,
               strerror(errno));
    if (readable) {
        remove_files(&old.train);
        remove_files(&old.val);
    }
    return BT_OK;
}

// Uses folder handles: nothing is allocated between removing the old dataset and moving the new
// one.
static bt_status move_file(const bt_corpus_job *job, int from, int to, const char *file)
{
    BT_FAIL_IF(renameat(from, file, to, file) != 0, BT_STATUS_IO, "cannot move %s to %s: %s", file,
               job->out_dir, strerror(errno));
    return BT_OK;
}

static bt_status move_split(const bt_corpus_job *job, int from, int to,
                            const bt_dataset_split *split)
{
    for (int64_t i = 0; i < split->count; ++i) {
        BT_TRY(move_file(job, from, to, strrchr(split->paths[i], '/') + 1));
    }
    return BT_OK;
}

static bt_status put_in_place(const bt_corpus_job *job)
{
    bt_status status = BT_OK;
    int from = open(job->staging, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int to = open(job->out_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from < 0 || to < 0) {
        status =
            bt_error(BT_STATUS_IO, "cannot open the folder %s: %s", job->out_dir, strerror(errno));
    }
    BT_IF_OK(status, remove_old(job->out_dir));
    if (status == BT_OK) {
        status = move_split(job, from, to, &job->made.train);
        BT_IF_OK(status, move_split(job, from, to, &job->made.val));
        BT_IF_OK(status, move_file(job, from, to, BT_DATASET_MANIFEST));
        if (status != BT_OK) {
            remove_files(&job->made.train);
            remove_files(&job->made.val);
        } else if (fsync(to) != 0) {
            status = bt_error(BT_STATUS_IO, "cannot flush the folder %s: %s", job->out_dir,
                              strerror(errno));
        }
    }
    if (from >= 0) {
        close(from);
    }
    if (to >= 0) {
        close(to);
    }
    return status;
}

static bt_status describe(bt_corpus_job *job)
{
    bt_dataset *made = &job->made;
    BT_TRY(bt_mem_strdup(job->out_dir, &made->folder));
    BT_TRY(bt_mem_strdup(job->name, &made->name));
    (void)snprintf(made->tokenizer.hex, sizeof made->tokenizer.hex, "%s",
                   bt_tokenizer_digest(job->tokenizer));
    made->vocab = bt_tokenizer_vocab(job->tokenizer);
    BT_EACH(const bt_corpus_document, document, job->documents, job->document_count) {
        ++(document->val_from == document->begin ? &made->val : &made->train)->documents;
    }
    BT_TRY(BT_MEM_ARRAY(job->source_count, &made->sources));
    for (int64_t i = 0; i < job->source_count; ++i) {
        const bt_corpus_source *source = &job->sources[i];
        BT_TRY(bt_mem_strdup(source->path, &made->sources[i].path));
        made->source_count = i + 1;
        made->sources[i].size_bytes = source->size_bytes;
        made->sources[i].digest = bt_digest_bytes(source->text, source->size_bytes);
    }
    return BT_OK;
}

static bt_status stage(bt_corpus_job *job, double fraction)
{
    BT_TRY(bt_corpus_find_documents(job));
    bt_corpus_split(job, fraction);
    BT_TRY(describe(job));
    BT_TRY(bt_dir_make(job->staging));
    BT_TRY(bt_corpus_encode(job));
    BT_TRY(bt_dataset_write(&job->made, job->staging));
    BT_FAIL_IF(job->digest && strcmp(job->made.digest.hex, job->digest) != 0,
               BT_STATUS_CORRUPT_DATA, "%s: the texts give dataset %s, expected %s", job->out_dir,
               job->made.digest.hex, job->digest);
    return BT_OK;
}

bt_status bt_corpus_make(bt_corpus_job *job, double fraction)
{
    bt_str staging = {0};
    BT_TRY(bt_dir_make(job->out_dir));
    remove_leftovers(job->out_dir);
    BT_TRY(check_space(job));
    bt_str_format(&staging, "%s/%s%ld", job->out_dir, staging_prefix, (long)getpid());
    bt_status status = bt_str_take(&staging, &job->staging);
    bt_str_release(&staging);
    BT_IF_OK(status, stage(job, fraction));
    BT_IF_OK(status, put_in_place(job));
    if (job->staging) {
        remove_folder(job->staging);
    }
    BT_MEM_FREE(job->staging);
    BT_MEM_FREE(job->documents);
    bt_dataset_release(&job->made);
    return status;
}

static bt_status check_options(const bt_tokenize_options *options)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (options->name) {
        size_t length = strlen(options->name);
        BT_FAIL_IF(length == 0 || length > MAX_NAME_BYTES ||
                       strspn(options->name, allowed) != length,
                   BT_STATUS_INVALID_ARGUMENT,
                   "dataset name \"%s\": allowed are 1 to %d letters, digits, . _ and -",
                   options->name, MAX_NAME_BYTES);
    }
    BT_FAIL_IF(!(options->val_fraction >= 0 && options->val_fraction < 1),
               BT_STATUS_INVALID_ARGUMENT, "validation fraction is %g, allowed: 0 to below 1",
               options->val_fraction);
    BT_FAIL_IF(options->shard_tokens < 0 || options->shard_tokens > INT32_MAX,
               BT_STATUS_INVALID_ARGUMENT, "tokens per shard are %lld, allowed: 1 to %d (0: %d)",
               (long long)options->shard_tokens, INT32_MAX, SHARD_TOKENS);
    BT_FAIL_IF(options->file_count < 1, BT_STATUS_INVALID_ARGUMENT, "no files to tokenize");
    return BT_OK;
}

// Maps the files, after checking that there is space for the result.
static bt_status map_sources(const bt_tokenize_options *options, bt_corpus_job *job)
{
    BT_TRY(BT_MEM_ARRAY(options->file_count, &job->sources));
    for (int64_t i = 0; i < options->file_count; ++i) {
        uint64_t size_bytes = 0;
        BT_TRY(bt_file_size(options->files[i], &size_bytes));
        job->sources[i] = (bt_corpus_source){
            .path = options->files[i], .text = "", .size_bytes = (size_t)size_bytes};
    }
    job->source_count = options->file_count;
    BT_TRY(bt_dir_make(options->out_dir));
    BT_TRY(check_space(job));
    for (int64_t i = 0; i < options->file_count; ++i) {
        const void *bytes = NULL;
        BT_TRY(bt_file_map(options->files[i], &bytes, &job->sources[i].size_bytes));
        job->sources[i].text = bytes ? bytes : "";
        job->sources[i].mapped = bytes != NULL;
    }
    return BT_OK;
}

bt_status bt_data_tokenize(const bt_tokenize_options *options, bt_dataset *dataset)
{
    BT_TRY(check_options(options));
    bt_corpus_job job = {
        .name = options->name ? options->name : "text",
        .out_dir = options->out_dir,
        .shard_tokens = options->shard_tokens > 0 ? options->shard_tokens : SHARD_TOKENS,
        .threads = options->threads,
        .progress = options->progress,
    };
    bt_tokenizer *tokenizer = NULL;
    bt_status status = map_sources(options, &job);
    if (status == BT_OK) {
        status = bt_tokenizer_load(options->ranks, options->any_ranks, &tokenizer);
        job.tokenizer = tokenizer;
    }
    BT_IF_OK(status, bt_corpus_make(&job, options->val_fraction));
    for (int64_t i = 0; i < job.source_count; ++i) {
        if (job.sources[i].mapped) {
            bt_file_unmap(job.sources[i].text, job.sources[i].size_bytes);
        }
    }
    bt_mem_free(job.sources);
    bt_tokenizer_destroy(tokenizer);
    if (status == BT_OK && dataset) {
        status = bt_dataset_open(options->out_dir, dataset);
    }
    return status;
}
