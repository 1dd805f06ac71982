// harness/cli/claims_file.h - the claims that a verb judges or publishes
#ifndef BT_HARNESS_CLI_CLAIMS_FILE_H
#define BT_HARNESS_CLI_CLAIMS_FILE_H

#include "harness/cli/cli.h"
#include "harness/suite/json.h"

// The file of --claims, or the one that is shipped.
// Owns    *json: the caller, bt_json_doc_release
// Errors  IO, INVALID_ARGUMENT (no JSON)
BT_CHECKED bt_status bt_cli_claims_read(const bt_cli_arguments *arguments, bt_json_doc *json);

#endif
