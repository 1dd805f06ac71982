// harness/cli/verb_env.c - env: facts about this machine, and differences between environments
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/cli/cli.h"
#include "harness/cli/run_name.h"
#include "harness/compare/compare.h"
#include "harness/env/blas.h"
#include "harness/env/facts.h"

// One side of a diff: a run of the record, or this machine.
typedef struct side {
    char name[32]; // "run 3", "here"
    bool here;
    bt_store_run run; // zero for here
    bt_facts facts;   // empty for a run
    bt_store_env env; // borrows from one of them
} side;

static bt_status gather_here(bool with_gpu, bt_facts *facts)
{
    bt_machine machine;
    bt_blas_advise_children(); // as a run does before it reads the facts
    BT_TRY(bt_machine_look(&machine));
    if (with_gpu && machine.has_cuda) {
        BT_TRY(bt_machine_open_cuda(&machine));
    }
    BT_TRY(bt_facts_gather(&machine, with_gpu, facts));
    return bt_facts_finish(facts);
}

static bt_status read_run(bt_store *store, const char *word, side *out)
{
    int64_t number = 0;
    BT_TRY(bt_cli_run_in(store, word, &number));
    (void)snprintf(out->name, sizeof out->name, "run %lld", (long long)number);
    BT_TRY(bt_store_run_read(store, number, &out->run));
    out->env = out->run.info.env;
    return BT_OK;
}

// A run without a GPU has no GPU facts; then those of this machine are ignored.
static bool knows_a_gpu(const side *other)
{
    return other->here || bt_fact_of(&other->env, "gpu.name") != NULL;
}

static bt_status read_sides(bt_cli_call *call, side sides[2])
{
    const char *const *words = call->arguments->words + 1;
    for (int i = 0; i < 2; ++i) {
        sides[i].here = strcmp(words[i], "here") == 0;
        (void)snprintf(sides[i].name, sizeof sides[i].name, "here");
    }
    if (!sides[0].here || !sides[1].here) {
        BT_TRY(bt_cli_open(call, BT_STORE_READ));
    }
    for (int i = 0; i < 2; ++i) {
        if (!sides[i].here) {
            BT_TRY(read_run(call->store, words[i], &sides[i]));
        }
    }
    for (int i = 0; i < 2; ++i) {
        bt_facts *facts = &sides[i].facts;
        if (sides[i].here) {
            BT_TRY(gather_here(knows_a_gpu(&sides[1 - i]), facts));
            sides[i].env = (bt_store_env){facts->digest, facts->rows, facts->count};
        }
    }
    return BT_OK;
}

static bt_status print_difference(bt_cli_call *call, const side sides[2], bool *hard_differs)
{
    BT_SCOPED(bt_arena) arena = {0};
    const bt_compare_item *items = NULL;
    int64_t count = 0;
    BT_TRY(bt_compare_environments(&sides[0].env, &sides[1].env, sides[0].here || sides[1].here,
                                   &arena, &items, &count, hard_differs));
    const char *left = sides[0].name, *right = sides[1].name;
    return call->json
               ? bt_compare_environments_json(items, count, *hard_differs, left, right, &call->out)
               : bt_compare_environments_text(items, count, *hard_differs, left, right,
                                              call->columns, &call->out);
}

static bt_status diff(bt_cli_call *call)
{
    side sides[2] = {0};
    bool hard_differs = false;
    bt_status status = read_sides(call, sides);
    BT_IF_OK(status, print_difference(call, sides, &hard_differs));
    for (int i = 0; i < 2; ++i) {
        bt_store_run_release(&sides[i].run);
        bt_facts_release(&sides[i].facts);
    }
    call->code = hard_differs ? bt_status_exit_code(BT_STATUS_UNAVAILABLE) : 0;
    return status;
}

static bt_status print_here(bt_cli_call *call)
{
    BT_SCOPED(bt_facts) facts = {0};
    bt_status status = gather_here(true, &facts);
    BT_IF_OK(status, call->json ? bt_facts_json(&facts, &call->out)
                                : bt_facts_text(&facts, call->columns, &call->out));
    bt_str_append(&call->out, call->json ? "" : "\nnext  bt-bench env diff RUN here\n");
    return status;
}

bt_status bt_verb_env(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    bool diffs = arguments->word_count == 3 && strcmp(arguments->words[0], "diff") == 0;
    BT_FAIL_IF(!diffs && arguments->word_count > 0, BT_STATUS_INVALID_ARGUMENT,
               "env %s: expected no argument, or diff and two of RUN, here", arguments->words[0]);
    return diffs ? diff(call) : print_here(call);
}
