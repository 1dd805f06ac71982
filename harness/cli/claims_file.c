// harness/cli/claims_file.c - the claims that a verb judges or publishes
#include "harness/cli/claims_file.h"

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/suite/suite.h"

#define CLAIMS "/suites/claims/blutrain-2606.24780.json"

bt_status bt_cli_claims_read(const bt_cli_arguments *arguments, bt_json_doc *json)
{
    const char *given = bt_cli_value(arguments, "claims");
    BT_SCOPED(bt_str) path = {0};
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size_bytes = 0;
    if (given) {
        bt_str_append(&path, given);
    } else {
        bt_home_path(&path);
        bt_str_append(&path, CLAIMS);
    }
    BT_TRY(bt_str_status(&path));
    BT_TRY(bt_file_read(bt_str_text(&path), &bytes, &size_bytes));
    return bt_json_parse(bt_str_text(&path), bytes, size_bytes, json);
}
