// harness/data/corpus_encode.c - documents to shards: encoded in parallel, written in order
//
// The documents are split into items of about a megabyte: several small documents, or a part of a
// large one. A wave of items is encoded by a few threads, each taking the next free item; then the
// calling thread appends the results in order. So memory is bounded by a wave, and the output does
// not depend on the assignment of items to threads.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/scoped.h"
#include "framework/data/shard.h"
#include "framework/data/tokenizer.h"
#include "harness/data/corpus_internal.h"

enum { ITEM_BYTES = 1 << 20, ITEMS_PER_THREAD = 4, MAX_THREADS = 64, TRAIN = 0, VAL = 1 };

// A position in the text: a document and a byte of its source.
typedef struct place {
    int64_t document;
    size_t at;
} place;

typedef struct item {
    place begin, end;
    bt_tokens tokens[2]; // of TRAIN and VAL, owned
    bt_status status;
    char message[512]; // errors are per thread: stored for the calling thread
} item;

typedef struct wave {
    const bt_corpus_job *job;
    item *items; // [capacity], owned
    int64_t count, capacity;
    atomic_llong next; // item to take
} wave;

typedef struct worker {
    wave *shared;
    bt_encoder *encoder; // owned
    pthread_t thread;
    bool started;
} worker;

// One output split: the shard being written.
typedef struct sink {
    bt_shard_writer *writer; // owned; NULL between shards
    int64_t number;          // number of the shard that is written next
    char file[192];
} sink;

static place document_start(const bt_corpus_job *job, int64_t document)
{
    bool inside = document < job->document_count;
    return (place){.document = document, .at = inside ? job->documents[document].begin : 0};
}

// The position about ITEM_BYTES after `where`, in the same document or a later one.
static place advance(const bt_corpus_job *job, place where)
{
    size_t taken = 0;
    while (where.document < job->document_count && taken < ITEM_BYTES) {
        const bt_corpus_document *document = &job->documents[where.document];
        size_t rest = document->end - where.at;
        if (rest > ITEM_BYTES - taken) {
            size_t cut = bt_encoder_next_cut(document->source->text, document->end,
                                             where.at + (ITEM_BYTES - taken));
            if (cut < document->end) {
                return (place){.document = where.document, .at = cut};
            }
        }
        taken += rest;
        where = document_start(job, where.document + 1);
    }
    return where;
}

// Moves the tokens that begin at or after byte `limit` from TRAIN to VAL. TRAIN's tokens from index
// `first` on encode the text from byte `at` on.
static bt_status move_to_val(const bt_tokenizer *tokenizer, item *work, int64_t first, size_t at,
                             size_t limit)
{
    bt_tokens *train = &work->tokens[TRAIN];
    bt_tokens *val = &work->tokens[VAL];
    while (first < train->count && at < limit) {
        at += bt_tokenizer_token_bytes(tokenizer, train->ids[first++]);
    }
    int64_t count = train->count - first;
    if (count > 0) {
        BT_TRY(bt_tokens_reserve(val, count));
        memcpy(val->ids + val->count, train->ids + first, (size_t)count * sizeof *val->ids);
        val->count += count;
        train->count = first;
    }
    return BT_OK;
}

static bt_status encode_range(const bt_corpus_job *job, bt_encoder *encoder, item *work,
                              const bt_corpus_document *document, size_t begin, size_t end)
{
    bool is_val = document->val_from == document->begin || document->val_from <= begin;
    bt_tokens *tokens = &work->tokens[is_val ? VAL : TRAIN];
    if (begin == document->begin) {
        BT_TRY(bt_tokens_reserve(tokens, 1));
        tokens->ids[tokens->count++] = bt_tokenizer_end_of_text(job->tokenizer);
    }
    int64_t first = tokens->count;
    BT_TRY(bt_error_context(
        bt_encoder_encode_part(encoder, document->source->text, document->end, begin, end, tokens),
        "%s", document->source->path));
    if (!is_val && document->val_from < end) {
        return move_to_val(job->tokenizer, work, first, begin, document->val_from);
    }
    return BT_OK;
}

static bt_status encode_item(const bt_corpus_job *job, bt_encoder *encoder, item *work)
{
    work->tokens[TRAIN].count = 0;
    work->tokens[VAL].count = 0;
    place where = work->begin;
    for (; where.document < work->end.document; where = document_start(job, where.document + 1)) {
        const bt_corpus_document *document = &job->documents[where.document];
        BT_TRY(encode_range(job, encoder, work, document, where.at, document->end));
    }
    if (where.document < job->document_count && where.at < work->end.at) {
        const bt_corpus_document *document = &job->documents[where.document];
        BT_TRY(encode_range(job, encoder, work, document, where.at, work->end.at));
    }
    return BT_OK;
}

static void *work_on_wave(void *self)
{
    worker *one = self;
    wave *shared = one->shared;
    for (;;) {
        int64_t index = atomic_fetch_add(&shared->next, 1);
        if (index >= shared->count) {
            return NULL;
        }
        item *work = &shared->items[index];
        work->status = encode_item(shared->job, one->encoder, work);
        if (work->status != BT_OK) {
            (void)snprintf(work->message, sizeof work->message, "%s", bt_error_message());
        }
    }
}

// Encodes the items of a wave on all workers; the calling thread is the first of them. If a thread
// cannot be started, the others do its work.
static bt_status run_wave(wave *shared, worker *workers, int count)
{
    atomic_store(&shared->next, 0);
    for (int i = 1; i < count && i < shared->count; ++i) {
        workers[i].started =
            pthread_create(&workers[i].thread, NULL, work_on_wave, &workers[i]) == 0;
    }
    (void)work_on_wave(&workers[0]);
    for (int i = 1; i < count; ++i) {
        if (workers[i].started) {
            (void)pthread_join(workers[i].thread, NULL);
            workers[i].started = false;
        }
    }
    for (int64_t i = 0; i < shared->count; ++i) {
        BT_FAIL_IF(shared->items[i].status != BT_OK, shared->items[i].status, "%s",
                   shared->items[i].message);
    }
    return BT_OK;
}

static bt_status finish_shard(bt_corpus_job *job, sink *out, bool val)
{
    if (!out->writer) {
        return BT_OK;
    }
    int64_t tokens = bt_shard_writer_count(out->writer);
    bt_shard_writer *writer = out->writer;
    out->writer = NULL;
    BT_TRY(bt_shard_writer_finish(writer));
    BT_SCOPED_MEM(char *) path = NULL;
    bt_digest digest;
    BT_TRY(bt_path_join(job->staging, out->file, &path));
    BT_TRY(bt_digest_file(path, &digest));
    return bt_dataset_add_shard(&job->made, val, out->file, tokens, &digest);
}

static bt_status append(bt_corpus_job *job, sink *out, bool val, const bt_tokens *tokens)
{
    for (int64_t done = 0; done < tokens->count;) {
        if (!out->writer) {
            (void)snprintf(out->file, sizeof out->file, "%s_%s_%06lld.bin", job->name,
                           val ? "val" : "train", (long long)out->number++);
            char *path = NULL;
            BT_TRY(bt_path_join(job->staging, out->file, &path));
            bt_status status = bt_shard_writer_open(path, &out->writer);
            bt_mem_free(path);
            BT_TRY(status);
        }
        int64_t room = job->shard_tokens - bt_shard_writer_count(out->writer);
        int64_t part = tokens->count - done < room ? tokens->count - done : room;
        BT_TRY(bt_shard_writer_append(out->writer, tokens->ids + done, part));
        done += part;
        if (part == room) {
            BT_TRY(finish_shard(job, out, val));
        }
    }
    return BT_OK;
}

static bt_status encode_all(bt_corpus_job *job, wave *shared, worker *workers, int threads,
                            sink sinks[2])
{
    place where = document_start(job, 0);
    bt_progress_event event = {.what = "tokenize", .total_bytes = job->text_bytes};
    while (where.document < job->document_count) {
        for (shared->count = 0;
             shared->count < shared->capacity && where.document < job->document_count;
             ++shared->count) {
            item *work = &shared->items[shared->count];
            work->begin = where;
            where = advance(job, where);
            work->end = where;
        }
        BT_TRY(run_wave(shared, workers, threads));
        BT_EACH(const item, work, shared->items, shared->count) {
            BT_TRY(append(job, &sinks[TRAIN], false, &work->tokens[TRAIN]));
            BT_TRY(append(job, &sinks[VAL], true, &work->tokens[VAL]));
            event.tokens += work->tokens[TRAIN].count + work->tokens[VAL].count;
            for (int64_t d = work->begin.document; d < work->end.document; ++d) {
                const bt_corpus_document *document = &job->documents[d];
                event.done_bytes +=
                    document->end - (d == work->begin.document ? work->begin.at : document->begin);
            }
            if (work->end.document < job->document_count) {
                bool same = work->end.document == work->begin.document;
                size_t from = same ? work->begin.at : job->documents[work->end.document].begin;
                event.done_bytes += work->end.at - from;
            }
        }
        BT_FAIL_IF(!bt_progress_report(job->progress, &event), BT_STATUS_INTERRUPTED,
                   "tokenizing was stopped");
    }
    BT_TRY(finish_shard(job, &sinks[TRAIN], false));
    return finish_shard(job, &sinks[VAL], true);
}

bt_status bt_corpus_encode(bt_corpus_job *job)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int threads = job->threads > 0 ? job->threads : processors > 0 ? (int)processors : 1;
    threads = threads < MAX_THREADS ? threads : MAX_THREADS;
    wave shared = {.job = job, .capacity = (int64_t)threads * ITEMS_PER_THREAD};
    worker workers[MAX_THREADS] = {0};
    sink sinks[2] = {[TRAIN] = {.number = 1}, [VAL] = {.number = 0}};
    bt_status status = BT_MEM_ARRAY(shared.capacity, &shared.items);
    for (int i = 0; i < threads && status == BT_OK; ++i) {
        workers[i].shared = &shared;
        status = bt_encoder_create(job->tokenizer, &workers[i].encoder);
    }
    BT_IF_OK(status, encode_all(job, &shared, workers, threads, sinks));
    for (int i = 0; i < threads; ++i) {
        bt_encoder_destroy(workers[i].encoder);
    }
    for (int64_t i = 0; shared.items && i < shared.capacity; ++i) {
        bt_tokens_release(&shared.items[i].tokens[TRAIN]);
        bt_tokens_release(&shared.items[i].tokens[VAL]);
    }
    bt_mem_free(shared.items);
    bt_shard_writer_abort(sinks[TRAIN].writer);
    bt_shard_writer_abort(sinks[VAL].writer);
    return status;
}
