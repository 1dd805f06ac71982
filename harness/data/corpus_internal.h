// harness/data/corpus_internal.h - the steps of making a dataset; internal to this folder
//
// sources (texts in memory) -> documents (ranges of them, train or val) -> tokens in order ->
// shards in a staging folder -> manifest -> all moved into place.
#ifndef BT_HARNESS_DATA_CORPUS_INTERNAL_H
#define BT_HARNESS_DATA_CORPUS_INTERNAL_H

#include "framework/data/tokenizer.h"
#include "harness/data/corpus.h"

typedef struct bt_corpus_source {
    const char *path; // borrowed
    const char *text; // [size_bytes], borrowed or mapped
    bool mapped;      // the text is a mapping to be unmapped
    size_t size_bytes;
    bool val; // held out as a whole (if the caller chooses the split)
} bt_corpus_source;

typedef struct bt_corpus_document {
    const bt_corpus_source *source;
    size_t begin, end; // bytes of the source
    size_t val_from;   // tokens that begin here or later are validation: begin, end, or between
} bt_corpus_document;

typedef struct bt_corpus_job {
    const char *name, *out_dir; // borrowed
    const bt_tokenizer *tokenizer;
    bt_corpus_source *sources; // [source_count], borrowed
    int64_t source_count;
    bt_corpus_document *documents; // [document_count], owned
    int64_t document_count, document_capacity;
    uint64_t text_bytes; // of all documents
    int64_t shard_tokens;
    int threads;
    bt_progress progress;
    const char *digest; // borrowed: the required digest of the dataset; NULL: any
    char *staging;      // owned: where shards are made
    bt_dataset made;    // owned; its paths are those in out_dir
} bt_corpus_job;

// Finds the documents of all sources. Owns: job->documents.
BT_CHECKED bt_status bt_corpus_find_documents(bt_corpus_job *job);
// Chooses what is validation: sources marked val, or else `fraction` of the text.
void bt_corpus_split(bt_corpus_job *job, double fraction);
// Encodes all documents into shards in job->staging and lists them in job->made.
BT_CHECKED bt_status bt_corpus_encode(bt_corpus_job *job);
// All steps, from sources to the dataset in out_dir.
BT_CHECKED bt_status bt_corpus_make(bt_corpus_job *job, double fraction);

#endif
