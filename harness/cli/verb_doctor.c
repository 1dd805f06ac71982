// harness/cli/verb_doctor.c - doctor: checks this machine and names the packages to install
#include "framework/base/environment.h"
#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/cli/cli.h"
#include "harness/env/doctor.h"
#include "harness/store/store.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"

static const char *state_word(bt_check_state state)
{
    static const char *const words[] = {[BT_CHECK_GOOD] = "ok",
                                        [BT_CHECK_MISSING] = "missing",
                                        [BT_CHECK_NOISY] = "noisy",
                                        [BT_CHECK_BAD] = "BAD"};
    return words[state];
}

// Whether the database opens: detects damage, a newer version or another writer.
static void check_store(const char *path, bt_check *check)
{
    bt_store *store = NULL;
    bt_status status = bt_store_open(path, BT_STORE_READ, &store);
    BT_IF_OK(status, bt_store_close(store));
    if (status != BT_OK) {
        check->state = BT_CHECK_BAD;
        (void)snprintf(check->found, sizeof check->found, "%.250s", bt_error_message());
        (void)snprintf(check->advice, sizeof check->advice,
                       "move the file away, or use another with --db");
    }
}

static bt_status append_json(const bt_check *checks, int count, bt_str *out)
{
    bt_json_writer json = {.out = out};
    bt_json_writer_open(&json, NULL, '[');
    for (int i = 0; i < count; ++i) {
        BT_JSON_OBJECT(&json, NULL, BT_KV("check", checks[i].name),
                       BT_KV("state", state_word(checks[i].state)), BT_KV("found", checks[i].found),
                       BT_KV("advice", checks[i].advice));
    }
    return bt_json_writer_end(&json, ']');
}

// The environment variables that are read, with their values.
static bt_status print_environment(bool as_json, int columns, bt_str *out)
{
    bt_json_writer json = {.out = out};
    BT_SCOPED(bt_table) table = {0};
    if (as_json) {
        bt_json_writer_open(&json, NULL, '[');
    }
    bt_table_heads(&table, "|<");
    bt_table_fit(&table, columns, "");
    for (int i = 0; i < BT_VARIABLE_COUNT; ++i) {
        const bt_variable_row *row = bt_environment_row((bt_variable)i);
        const char *value = bt_environment_raw((bt_variable)i);
        if (as_json) {
            bt_json_writer_open(&json, NULL, '{');
            bt_json_writer_text(&json, "variable", row->name);
            bt_json_writer_text_or_null(&json, "value", value);
            BT_JSON(&json, BT_OF(row, allowed), BT_OF(row, meaning), BT_OF(row, reader));
            bt_json_writer_close(&json, '}');
        } else {
            bt_table_cells(&table, "%s|%s%s", row->name, value ? "= " : "not set",
                           value ? value : "");
            bt_table_cells(&table, "|%s; allowed: %s; read by %s", row->meaning, row->allowed,
                           row->reader);
        }
    }
    return as_json ? bt_json_writer_end(&json, ']') : bt_table_print(&table, 0, out);
}

// A row for each check, and one for its advice.
static bt_status append_text(const bt_check *checks, int count, int columns, bt_str *out)
{
    bt_table table = {0};
    bt_table_heads(&table, "||<");
    bt_table_fit(&table, columns, "");
    BT_EACH(const bt_check, check, checks, count) {
        bt_table_cells(&table, "%s|%s|%s", check->name, state_word(check->state), check->found);
        if (check->advice[0]) {
            bt_table_cells(&table, "||%s", check->advice);
        }
    }
    return bt_table_print(&table, 0, out);
}

bt_status bt_verb_doctor(bt_cli_call *call)
{
    bt_machine machine;
    bt_check checks[BT_CHECKS_MAX];
    const char *database = bt_cli_database(call->arguments);
    if (bt_cli_value(call->arguments, "env")) {
        return print_environment(call->json, call->columns, &call->out);
    }
    BT_TRY(bt_machine_look(&machine));
    if (machine.has_cuda) {
        BT_TRY(bt_machine_open_cuda(&machine));
    }
    int count = bt_doctor_look(&machine, database, checks);
    bt_check *last = &checks[count - 1]; // the database
    if (last->state == BT_CHECK_GOOD && bt_file_exists(database)) {
        check_store(database, last);
    }
    for (int i = 0; i < count; ++i) {
        if (checks[i].state == BT_CHECK_BAD) {
            call->code = bt_status_exit_code(BT_STATUS_UNAVAILABLE);
        }
    }
    return call->json ? append_json(checks, count, &call->out)
                      : append_text(checks, count, call->columns, &call->out);
}
