// harness/cli/verb_report.c - report: runs as a file, or as a folder to publish
#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/bundle/bundle.h"
#include "harness/cli/cli.h"
#include "harness/cli/run_name.h"
#include "harness/report/publish.h"
#include "harness/report/report.h"
#include "harness/suite/suite.h"

// A plain name is a folder under reports/.
static bt_status publish(const bt_cli_arguments *arguments, bt_store *store, const int64_t *runs)
{
    const char *name = bt_cli_value(arguments, "publish");
    BT_SCOPED(bt_str) folder = {0};
    BT_SCOPED(bt_json_doc) claims = {0};
    bt_str_format(&folder, "%s%s", strchr(name, '/') || name[0] == '.' ? "" : "reports/", name);
    BT_TRY(bt_str_status(&folder));
    BT_TRY(bt_cli_claims_read(arguments, &claims));
    bt_publication publication = {.folder = bt_str_text(&folder),
                                  .bundle = bt_cli_value(arguments, "bundle"),
                                  .check_bundle = bt_bundle_check_public,
                                  .claims = &claims,
                                  .force = bt_cli_value(arguments, "force") != NULL,
                                  .draft = bt_cli_value(arguments, "draft") != NULL};
    BT_TRY(bt_report_publish(store, runs, arguments->word_count, &publication));
    (void)fprintf(stderr, "published      %s/README.md\n", bt_str_text(&folder));
    return BT_OK;
}

// Rejects options that do not go together.
static bt_status check(const bt_cli_arguments *arguments)
{
    static const char *const of_publish[] = {"bundle", "claims", "force", "draft"};
    bool publishes = bt_cli_value(arguments, "publish") != NULL;
    BT_FAIL_IF(!publishes && !bt_cli_value(arguments, "output"), BT_STATUS_INVALID_ARGUMENT,
               "bt-bench report: -o FILE is missing (its extension selects the format: .html, .md, "
               ".json or .csv), or --publish DIR");
    for (size_t i = 0; i < sizeof of_publish / sizeof of_publish[0]; i++) {
        BT_FAIL_IF(!publishes && bt_cli_value(arguments, of_publish[i]), BT_STATUS_INVALID_ARGUMENT,
                   "bt-bench report: --%s needs --publish", of_publish[i]);
    }
    return BT_OK;
}

bt_status bt_verb_report(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    const char *path = bt_cli_value(arguments, "output");
    BT_SCOPED_MEM(int64_t *) runs = NULL;
    BT_TRY(check(arguments));
    BT_TRY(BT_MEM_ARRAY(arguments->word_count, &runs));
    BT_TRY(bt_cli_open_runs(call, BT_STORE_READ, 0, arguments->word_count, runs));
    if (path) {
        BT_TRY(bt_report_write(call->store, runs, arguments->word_count, path));
        (void)fprintf(stderr, "report         %s\n", path);
    }
    return bt_cli_value(arguments, "publish") ? publish(arguments, call->store, runs) : BT_OK;
}
