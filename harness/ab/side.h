// harness/ab/side.h - one side of a comparison: a program, and what it was built from
#ifndef BT_HARNESS_AB_SIDE_H
#define BT_HARNESS_AB_SIDE_H

#include "framework/base/mem.h"
#include "harness/record/record.h"
#include "harness/run/progress.h"

typedef struct bt_ab_side {
    char *program;        // owned; NULL: this program
    char *word;           // owned, as given: "main~3", "./old/bt-bench"
    bt_store_build build; // texts in the arena
    bt_arena arena;
} bt_ab_side;

// Resolves a word, in this order: "." this program; a bt-bench program; a folder that contains
// bin/bt-bench or bt-bench; a git revision, which is built.
// Owns    *out: the caller, bt_ab_side_release, also after a failure
// Errors  INVALID_ARGUMENT (none of these), INTERNAL (it does not build, or does not run)
BT_CHECKED bt_status bt_ab_side_find(const char *word, bt_progress_view *view, bt_ab_side *out);
// A zeroed side is allowed.
void bt_ab_side_release(bt_ab_side *side);

// Parses the output of `bt-bench version`; texts and digest go into the arena.
// Errors  CORRUPT_DATA (not such output), OUT_OF_MEMORY
BT_CHECKED bt_status bt_ab_build_parse(const char *text, bt_arena *arena, bt_store_build *out);

#endif
