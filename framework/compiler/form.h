// framework/compiler/form.h - a captured graph prepared to run: every pass before code generation
#ifndef BT_COMPILER_FORM_H
#define BT_COMPILER_FORM_H

#include "framework/compiler/fuse.h"
#include "framework/compiler/simplify.h"

typedef struct bt_formed {
    bt_dag_simplified simplified;
    int half_turns; // products replaced by views (half_turn.h)
    int absorbed;   // additions absorbed as epilogues (epilogue.h)
    int copied;     // recomputed calls (rematerialize.h)
} bt_formed;

// Simplifies the graph; if options->any_order, replaces half turns and absorbs additions into
// products; if options->rematerialize, duplicates cheap calls; then forms groups.
// half_turns  [graph->value_count] of bt_dag_find_half_turns; NULL: none
// Owns        the caller: plan, until bt_fusion_plan_release, also after a failure
// Errors      OUT_OF_MEMORY: the graph can only be released
BT_CHECKED bt_status bt_dag_form(bt_dag *graph, const int64_t *half_turns,
                                 const bt_fuse_options *options, bt_fusion_plan *plan,
                                 bt_formed *formed);

#endif
