// harness/bundle/content.h - converts a run to files and back, in the format of FORMAT.md
//
// Writing defines the format: reading takes what it needs; to check that the files contain nothing
// else, write the run again and compare.
#ifndef BT_HARNESS_BUNDLE_CONTENT_H
#define BT_HARNESS_BUNDLE_CONTENT_H

#include <stdbool.h>

#include "harness/bundle/bundle.h"
#include "harness/bundle/files.h"
#include "harness/record/record.h"

// Adds the files that describe a run.
BT_CHECKED bt_status bt_content_write(const bt_store_run *run, bt_files *files);
// Reads them back; rounds are numbered from 1.
// Owns    *run: the caller, bt_store_run_release
// Errors  INVALID_ARGUMENT (naming file and key), UNSUPPORTED (another format), OUT_OF_MEMORY
BT_CHECKED bt_status bt_content_read(const bt_files *files, bt_store_run *run);

// The packer of a bundle: what its generated files depend on besides the run.
typedef struct bt_content_maker {
    char version[64], git_commit[64], git_diff[64], zstd[32];
    char page[65]; // digest of the report page's style and scripts
} bt_content_maker;

BT_CHECKED bt_status bt_content_maker_self(bt_content_maker *out);

// Adds derived files: report.html and FORMAT.md (they depend on the packer's build),
// ro-crate-metadata.json, and manifest.json over all of them.
BT_CHECKED bt_status bt_content_add_report(const bt_store_run *run, bt_files *files);
BT_CHECKED bt_status bt_content_add_crate(const bt_store_run *run, const bt_content_maker *maker,
                                          bt_files *files);
BT_CHECKED bt_status bt_content_add_manifest(const bt_content_maker *maker, bt_files *files);
// The packer according to the manifest. Errors  INVALID_ARGUMENT
BT_CHECKED bt_status bt_content_read_maker(const bt_files *files, bt_content_maker *out);
// The in-toto statement over the manifest, as text.
BT_CHECKED bt_status bt_content_statement(const bt_store_run *run, const bt_files *files,
                                          bt_str *out);
// All files of a bundle for a run with shortened paths; `key` NULL: not signed.
BT_CHECKED bt_status bt_content_build(const bt_store_run *run, const bt_bundle_key *key,
                                      bt_files *files);

#endif
