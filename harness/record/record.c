// harness/record/record.c - what a run says about itself
#include "harness/record/record.h"

#include <string.h>

// Only what did not pass is ever run again.
void bt_store_rounds_mark(bt_store_round *rounds, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        bt_store_round *round = &rounds[i];
        for (int64_t j = i + 1; round->status != BT_RUN_PASSED && j < count; j++) {
            const bt_store_case *a = &round->what, *b = &rounds[j].what;
            round->superseded =
                round->superseded ||
                (rounds[j].ordinal == round->ordinal && strcmp(a->name, b->name) == 0 &&
                 strcmp(a->system, b->system) == 0 && strcmp(a->axes_json, b->axes_json) == 0);
        }
    }
}

void bt_store_run_release(bt_store_run *run)
{
    bt_arena_release(&run->arena);
    memset(run, 0, sizeof *run);
}
