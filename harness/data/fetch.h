// harness/data/fetch.h - getting known corpora over HTTP
//
// A list (suites/data/corpora.json) names corpora and their shards: URL, split, bytes and SHA-256
// where these are known. Each file is fetched into <file>.part, continued from there after a
// failure or in a later run, checked, and renamed; dataset.json is written when all are there.
//
// What a server may do and what happens: stall (given up after stall_seconds without a byte),
// break off (continued), ignore a range (begun anew), send another range, another size, a page
// instead of a shard or other bytes than the digest says (thrown away); each counts as an attempt
// unless it brought new bytes. Between attempts the wait doubles. A file that runs out of attempts
// ends the call; what was fetched stays.
#ifndef BT_HARNESS_DATA_FETCH_H
#define BT_HARNESS_DATA_FETCH_H

#include <stdint.h>

#include "framework/base/status.h"
#include "framework/base/str.h"
#include "framework/data/dataset.h"
#include "harness/data/progress.h"

typedef struct bt_fetch_options {
    const char *list;    // path of corpora.json
    const char *name;    // of a corpus in it
    const char *out_dir; // made if it is not there
    int64_t max_files;   // fetch the first so many train shards only; 0: all
    int connections;     // 0: 4
    int attempts;        // without progress, per file; 0: 6
    int stall_seconds;   // 0: 30
    int backoff_ms;      // first wait; 0: 500
    bt_progress progress;
} bt_fetch_options;

// Fetches a corpus, or what is missing of it. *dataset may be NULL, otherwise it is the opened
// result.
// Errors  INVALID_ARGUMENT (unknown name: lists the known ones; options), CORRUPT_DATA (the list;
//         a file that stays wrong: URL, expected, got), UNAVAILABLE (no server to be reached), IO
//         (disk full, server errors), INTERRUPTED, OUT_OF_MEMORY
BT_CHECKED bt_status bt_data_fetch(const bt_fetch_options *options, bt_dataset *dataset);
// Appends a line "name<TAB>files<TAB>about" for each corpus of a list.
BT_CHECKED bt_status bt_data_fetch_names(const char *list, bt_str *lines);

#endif
