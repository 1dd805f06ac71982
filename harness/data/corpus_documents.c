// harness/data/corpus_documents.c - finds the documents, and selects the held-out ones
#include <stdbool.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "framework/base/mem.h"
#include "harness/data/corpus_internal.h"

static const char separator[] = "<|endoftext|>";

enum { SEPARATOR_BYTES = sizeof separator - 1 };

static bt_status add_document(bt_corpus_job *job, const bt_corpus_source *source, size_t begin,
                              size_t end)
{
    if (begin >= end) {
        return BT_OK;
    }
    if (job->document_count == job->document_capacity) {
        int64_t capacity = job->document_capacity ? 2 * job->document_capacity : 64;
        void *block = job->documents;
        BT_TRY(bt_mem_resize(&block, (size_t)capacity, sizeof *job->documents));
        job->documents = block;
        job->document_capacity = capacity;
    }
    job->documents[job->document_count++] =
        (bt_corpus_document){.source = source, .begin = begin, .end = end, .val_from = end};
    job->text_bytes += end - begin;
    return BT_OK;
}

// Is a separator at `at` alone on its line?
static bool is_whole_line(const bt_corpus_source *source, size_t at)
{
    size_t behind = at + SEPARATOR_BYTES;
    return (at == 0 || source->text[at - 1] == '\n') &&
           (behind == source->size_bytes || source->text[behind] == '\n');
}

static bt_status find_in_source(bt_corpus_job *job, const bt_corpus_source *source)
{
    size_t begin = 0;
    size_t from = 0;
    while (from < source->size_bytes) {
        const char *found =
            memmem(source->text + from, source->size_bytes - from, separator, SEPARATOR_BYTES);
        if (!found) {
            break;
        }
        size_t at = (size_t)(found - source->text);
        from = at + SEPARATOR_BYTES;
        if (is_whole_line(source, at)) {
            BT_TRY(add_document(job, source, begin, at > begin ? at - 1 : at));
            begin = from + 1;
        }
    }
    return add_document(job, source, begin, source->size_bytes);
}

bt_status bt_corpus_find_documents(bt_corpus_job *job)
{
    for (int64_t i = 0; i < job->source_count; ++i) {
        BT_TRY(find_in_source(job, &job->sources[i]));
    }
    BT_FAIL_IF(job->document_count == 0, BT_STATUS_INVALID_ARGUMENT, "%s%s: no text to tokenize",
               job->source_count > 0 ? job->sources[0].path : "no files",
               job->source_count > 1 ? " and the other files" : "");
    return BT_OK;
}

// Holds out whole documents such that at every point the held-out part is as near as possible to
// the fraction; returns its bytes.
static uint64_t hold_out_documents(bt_corpus_job *job, double fraction)
{
    double seen = 0;
    double held_out = 0;
    BT_EACH(bt_corpus_document, document, job->documents, job->document_count) {
        double size = (double)(document->end - document->begin);
        seen += size;
        bool nearer = held_out + size / 2 < fraction * seen;
        document->val_from = nearer ? document->begin : document->end;
        held_out += nearer ? size : 0;
    }
    return (uint64_t)held_out;
}

// Splits the text once, `val_bytes` before its end.
static void cut_once(bt_corpus_job *job, uint64_t val_bytes)
{
    uint64_t train_bytes = job->text_bytes - val_bytes;
    BT_EACH(bt_corpus_document, document, job->documents, job->document_count) {
        uint64_t size = document->end - document->begin;
        uint64_t train = size < train_bytes ? size : train_bytes;
        document->val_from = document->begin + (size_t)train;
        train_bytes -= train;
    }
}

void bt_corpus_split(bt_corpus_job *job, double fraction)
{
    bool chosen = false;
    BT_EACH(bt_corpus_document, document, job->documents, job->document_count) {
        document->val_from = document->source->val ? document->begin : document->end;
        chosen = chosen || document->source->val;
    }
    if (chosen || fraction <= 0) {
        return;
    }
    double wanted = fraction * (double)job->text_bytes;
    double held_out = (double)hold_out_documents(job, fraction);
    if (held_out < wanted / 2 || held_out > wanted * 2 || held_out >= (double)job->text_bytes) {
        cut_once(job, (uint64_t)wanted);
    }
}
