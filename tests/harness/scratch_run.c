// tests/harness/scratch_run.c - suites that fakes run, into the database of scratch_store.h
#include "tests/harness/scratch_run.h"
#include "harness/report/report.h"

#include <stdio.h>
#include <string.h>

#include "tests/harness/scratch_store.h"
#include "tests/support/scratch.h"

bt_status scratch_plan_make(const char *text, int64_t rounds, const bt_machine *machine,
                            bt_suite *suite, bt_plan *plan)
{
    const bt_plan_options options = {.seed = -1, .rounds = rounds};
    BT_TRY(bt_suite_parse("t.json", text, strlen(text), suite));
    return bt_plan_make(suite, &options, machine, plan);
}

bt_run_request scratch_run_request(const bt_suite *suite, const bt_plan *plan,
                                   const bt_machine *machine, const char *worker)
{
    static char out_dir[SCRATCH_DATABASE_CAPACITY];
    (void)snprintf(out_dir, sizeof out_dir, "%s", test_scratch_path("out"));
    return (bt_run_request){.suite = suite,
                            .plan = plan,
                            .machine = machine,
                            .database = scratch_database,
                            .out_dir = out_dir,
                            .worker = worker,
                            .command = "a test",
                            .report = bt_report_write,
                            .quiet = true,
                            .trusted = true};
}
