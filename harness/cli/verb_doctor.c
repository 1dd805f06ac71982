// harness/cli/verb_doctor.c - what works here, what is missing and how to get it
#include "framework/base/environment.h"
#include "framework/base/file.h"
#include "harness/cli/cli.h"
#include "harness/env/doctor.h"
#include "harness/store/store.h"
#include "harness/suite/json.h"

static const char *state_word(bt_check_state state)
{
    static const char *const words[] = {[BT_CHECK_GOOD] = "ok",
                                        [BT_CHECK_MISSING] = "missing",
                                        [BT_CHECK_NOISY] = "noisy",
                                        [BT_CHECK_BAD] = "BAD"};
    return words[state];
}

// Whether the database opens: damage, a newer version or another writer show here.
static void check_store(const char *path, bt_check *check)
{
    bt_store *store = NULL;
    bt_status status = bt_store_open(path, BT_STORE_READ, &store);
    BT_IF_OK(status, bt_store_close(store));
    if (status != BT_OK) {
        check->state = BT_CHECK_BAD;
        (void)snprintf(check->found, sizeof check->found, "%.250s", bt_error_message());
        (void)snprintf(check->advice, sizeof check->advice, "move it away, or use --db");
    }
}

static void append_json(const bt_check *checks, int count, bt_str *out)
{
    bt_str_append(out, "[");
    for (int i = 0; i < count; ++i) {
        bt_str_format(out, "%s{\"check\":\"%s\",\"state\":\"%s\",\"found\":", i ? "," : "",
                      checks[i].name, state_word(checks[i].state));
        bt_json_string(checks[i].found, out);
        bt_str_append(out, ",\"advice\":");
        bt_json_string(checks[i].advice, out);
        bt_str_append(out, "}");
    }
    bt_str_append(out, "]\n");
}

// The variables that are read, and what is set now.
static int print_environment(bool json)
{
    bt_str out = {0};
    bt_str_append(&out, json ? "[" : "");
    for (int i = 0; i < BT_VARIABLE_COUNT; ++i) {
        const bt_variable_row *row = bt_environment_row((bt_variable)i);
        const char *value = bt_environment_raw((bt_variable)i);
        if (json) {
            bt_str_format(&out, "%s{\"variable\":\"%s\",\"value\":", i ? "," : "", row->name);
            value ? bt_json_string(value, &out) : bt_str_append(&out, "null");
            bt_str_append(&out, ",\"allowed\":");
            bt_json_string(row->allowed, &out);
            bt_str_append(&out, ",\"meaning\":");
            bt_json_string(row->meaning, &out);
            bt_str_append(&out, ",\"reader\":");
            bt_json_string(row->reader, &out);
            bt_str_append(&out, "}");
        } else {
            bt_str_format(&out, "%-21s %s%s\n", row->name, value ? "= " : "not set",
                          value ? value : "");
            bt_str_format(&out, "    %s; allowed: %s; read by %s\n", row->meaning, row->allowed,
                          row->reader);
        }
    }
    bt_str_append(&out, json ? "]\n" : "");
    return bt_cli_print(&out);
}

int bt_verb_doctor(const bt_cli_arguments *arguments)
{
    bool json = false;
    bt_machine machine;
    bt_check checks[BT_CHECKS_MAX];
    const char *given = bt_cli_value(arguments, "db");
    const char *database = given ? given : BT_CLI_DATABASE;
    bt_status status = bt_cli_wants_json(arguments, &json);
    if (status == BT_OK && bt_cli_value(arguments, "env")) {
        return print_environment(json);
    }
    BT_IF_OK(status, bt_machine_look(&machine));
    if (status == BT_OK && machine.has_cuda) {
        status = bt_machine_open_cuda(&machine);
    }
    if (status != BT_OK) {
        return bt_cli_fail(status);
    }
    int count = bt_doctor_look(&machine, database, checks);
    bt_check *last = &checks[count - 1]; // the database
    if (last->state == BT_CHECK_GOOD && bt_file_exists(database)) {
        check_store(database, last);
    }
    bt_str out = {0};
    bool bad = false;
    for (int i = 0; i < count; ++i) {
        bad = bad || checks[i].state == BT_CHECK_BAD;
        if (!json) {
            bt_str_format(&out, "%-9s %-8s %s\n", checks[i].name, state_word(checks[i].state),
                          checks[i].found);
        }
        if (!json && checks[i].advice[0]) {
            bt_str_format(&out, "                   %s\n", checks[i].advice);
        }
    }
    if (json) {
        append_json(checks, count, &out);
    }
    int code = bt_cli_print(&out);
    return code ? code : bad ? bt_status_exit_code(BT_STATUS_UNAVAILABLE) : 0;
}
