// framework/compiler/form.c - runs the passes in order
#include "framework/compiler/form.h"

#include "framework/compiler/epilogue.h"
#include "framework/compiler/half_turn.h"
#include "framework/compiler/rematerialize.h"

bt_status bt_dag_form(bt_dag *graph, const int64_t *half_turns, const bt_fuse_options *options,
                      bt_fusion_plan *plan, bt_formed *formed)
{
    const int captured = graph->value_count; // before rules add values
    *plan = (bt_fusion_plan){0};
    *formed = (bt_formed){0};
    BT_TRY(bt_dag_simplify(graph, &formed->simplified));
    if (options->any_order && half_turns) {
        BT_TRY(bt_dag_expand_half_turns(graph, half_turns, captured, &formed->half_turns));
    }
    if (options->any_order) {
        BT_TRY(bt_dag_absorb_sums(graph, &formed->absorbed));
    }
    if (options->rematerialize) {
        BT_TRY(bt_dag_rematerialize(graph, bt_fuse_launch_bytes(options), &formed->copied));
    }
    BT_TRY(bt_dag_fuse(graph, options, plan));
    bt_dag_rematerialize_print(graph, &plan->decisions);
    return bt_str_status(&plan->decisions);
}
