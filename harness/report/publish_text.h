// harness/report/publish_text.h - the requirements for a publication, and its text
#ifndef BT_HARNESS_REPORT_PUBLISH_TEXT_H
#define BT_HARNESS_REPORT_PUBLISH_TEXT_H

#include "harness/report/internal.h"
#include "harness/report/publish.h"

enum { PUBLISH_FILES_MAX = 64 };

typedef struct publish_file {
    char name[96];
    const char *what;
    char digest[65]; // SHA-256
} publish_file;

// Appends "; " and a reason for each rule that the run breaks: an unmodified tree of a known
// commit, an uninterrupted run, and the versions of every peer. Nothing if it satisfies all.
void bt_publish_faults(const bt_store_run *run, bt_str *out);
// README.md: sentence, verdicts, plots, numbers, deviations, environment, how to run it again,
// files [count] with their digests.
BT_CHECKED bt_status bt_publish_readme(const report_set *set, const bt_publication *publication,
                                       const publish_file *files, int count, bt_str *out);
// environment.json: build and facts of every run.
BT_CHECKED bt_status bt_publish_environment(const report_set *set, bt_str *out);

#endif
