// harness/ab/side.h - one of two things that are compared: a program, and what it was built from
#ifndef BT_HARNESS_AB_SIDE_H
#define BT_HARNESS_AB_SIDE_H

#include "framework/base/mem.h"
#include "harness/record/record.h"
#include "harness/run/progress.h"

typedef struct bt_ab_side {
    char *program;        // owned; NULL: this very program
    char *word;           // owned, as given: "main~3", "./old/bt-bench"
    bt_store_build build; // texts in the arena
    bt_arena arena;
} bt_ab_side;

// What a word stands for, in this order: "." this very program; a bt-bench program; a folder with
// bin/bt-bench, or bt-bench, in it; a git revision, which is built.
// Owns    *out: the caller, bt_ab_side_release, also after a failure
// Errors  INVALID_ARGUMENT (none of these), INTERNAL (it does not build, or does not run)
BT_CHECKED bt_status bt_ab_side_find(const char *word, bt_progress_view *view, bt_ab_side *out);
// A zeroed side is fine.
void bt_ab_side_release(bt_ab_side *side);

// Reads what `bt-bench version` prints; texts into the arena, the digest too.
// Errors  CORRUPT_DATA (that is not it), OUT_OF_MEMORY
BT_CHECKED bt_status bt_ab_build_parse(const char *text, bt_arena *arena, bt_store_build *out);

#endif
