// harness/data/fetch_internal.h - the list of files, and one file's transfer; for this folder
#ifndef BT_HARNESS_DATA_FETCH_INTERNAL_H
#define BT_HARNESS_DATA_FETCH_INTERNAL_H

#include <stdbool.h>

#include "harness/data/curl.h"
#include "harness/data/fetch.h"

enum { BT_FETCH_UNKNOWN = -1 };

typedef enum bt_fetch_state {
    BT_FETCH_WAITING, // for a connection, or until not_before_ns
    BT_FETCH_RUNNING,
    BT_FETCH_DONE,
} bt_fetch_state;

typedef struct bt_fetch_file {
    // From the list.
    char *file, *url;   // owned
    bool val;           //
    int64_t size_bytes; // BT_FETCH_UNKNOWN where the list does not say
    bt_digest digest;   // "" where the list does not say
    // State.
    bt_fetch_state state;
    char *path, *part_path;  // owned: <out_dir>/<file> and the same with .part
    int part;                // its descriptor, -1 when closed
    CURL *handle;            // owned while running
    int64_t have_bytes;      // in the part, or in the file once done
    int64_t best_bytes;      // most that have_bytes ever was: more is progress
    int64_t announced_bytes; // of the whole file, by the response
    int64_t range_start;     // of the response, BT_FETCH_UNKNOWN without Content-Range
    bool body_begun, magic_checked;
    int64_t last_byte_ns;  // when the server last sent something
    int attempts;          // without progress
    int64_t not_before_ns; // of the next attempt
    bt_status problem;     // of the last attempt
    char message[640];     //
    bool fatal;            // no further attempt makes sense
    int64_t tokens;        // once done
    bt_digest got;         // once done
} bt_fetch_file;

typedef struct bt_fetch_corpus {
    char *name; // owned
    int64_t vocab;
    int64_t about_bytes;  // of a file whose size is unknown
    bt_fetch_file *files; // [count], owned
    int64_t count;
} bt_fetch_corpus;

// Reads one corpus of a list. Owns: the caller, bt_fetch_corpus_release.
BT_CHECKED bt_status bt_fetch_corpus_read(const char *list, const char *name, int64_t max_files,
                                          bt_fetch_corpus *corpus);
void bt_fetch_corpus_release(bt_fetch_corpus *corpus);

// Determines the state of a file: complete (state DONE), partial, or missing. A file that `old`,
// the folder's previous dataset, lists with a digest is checked by size and header only.
BT_CHECKED bt_status bt_fetch_file_look(bt_fetch_file *file, const char *out_dir,
                                        const bt_dataset *old);
// Opens the partial file and adds a transfer that continues it.
BT_CHECKED bt_status bt_fetch_file_start(bt_fetch_file *file, CURLM *multi);
// Ends a transfer and judges it: state becomes DONE, or WAITING with `problem` set.
void bt_fetch_file_end(bt_fetch_file *file, CURLM *multi, CURLcode result);
// Stops a transfer and keeps its partial file.
void bt_fetch_file_stop(bt_fetch_file *file, CURLM *multi);

#endif
