// harness/store/statements.c - texts of statements
//
// A text of statements.inl contains the members of a kind of record as "{STEP}", or "{BUILD b}" if
// the table has an alias; "{?STEP}" is a question mark for each. Kinds with their own table need no
// text.
#include <stdio.h>
#include <string.h>

#include "harness/store/internal.h"

static const char *const texts[SQL_COUNT] = {
#define X(name, text) [SQL_##name] = text,
#include "harness/store/statements.inl"
#undef X
};

// Tables whose rows belong to a run or a round and contain a record each.
static const struct {
    bt_fields_of kind;
    const char *name, *owner, *order, *conflict;
} tables[] = {
    {BT_FIELDS_FACT, "env_fact", "env_id", "key", " ON CONFLICT DO NOTHING"},
    {BT_FIELDS_GAP, "session_gap", "session_id", "id", ""},
    {BT_FIELDS_SCHEDULE, "session_schedule", "session_id", "session_id", ""},
    {BT_FIELDS_VERDICT, "verdict", "session_id", "kind, id", ""},
    {BT_FIELDS_ARTIFACT, "artifact", "session_id", "id", ""},
    {BT_FIELDS_STEP, "step", "round_id", "step", ""},
    {BT_FIELDS_EVAL, "eval", "round_id", "step", ""},
    {BT_FIELDS_RANGE, "range_stat", "round_id", "id", " ON CONFLICT DO NOTHING"},
    {BT_FIELDS_KERNEL, "kernel_use", "round_id", "op, kernel", " ON CONFLICT DO NOTHING"},
    {BT_FIELDS_SCORE, "score", "round_id", "step", ""},
    {BT_FIELDS_STATE, "state", "round_id", "step", ""},
    {BT_FIELDS_LAUNCH, "launch", "round_id", "id", ""},
    {BT_FIELDS_TIMELINE, "timeline", "round_id", "rank", " ON CONFLICT DO NOTHING"},
    {BT_FIELDS_GROUP, "fused_group", "round_id", "id", ""},
    {BT_FIELDS_GROUP_CALLS, "group_calls", "round_id", "id", ""},
    {BT_FIELDS_FAULT, "fault", "round_id", "id", ""},
    {BT_FIELDS_MEMORY, "memory", "round_id", "id", " ON CONFLICT DO NOTHING"},
};

// ---- texts of statements -----------------------------------------------------------------------

static void append_columns(bt_fields_of kind, const char *alias, bool marks, bt_str *out)
{
    const bt_fields *fields = bt_fields_info(kind);
    const char *comma = "", *dot = *alias ? "." : "";
    for (size_t i = 0; i < fields->count; i++) {
        const bt_field *row = &fields->rows[i];
        bool loss = row->type == BT_FIELD_LOSS;
        if (row->column && marks) {
            bt_str_format(out, "%s?%s", comma, loss ? ",?" : "");
        } else if (row->column) {
            bt_str_format(out, "%s%s%s%s", comma, alias, dot, row->column);
            if (loss) {
                bt_str_format(out, ", %s%s%s_bits", alias, dot, row->column);
            }
        }
        comma = row->column ? ", " : comma;
    }
}

// "{?KIND alias}", of which `at` points after the brace: appends the columns. Returns its end.
static const char *expand(const char *at, bt_str *out)
{
    static const char *const names[] = {
#define KIND_NAME(name, record) #name,
        BT_FIELDS_LIST(KIND_NAME)
#undef KIND_NAME
    };
    char alias[16] = "";
    bool marks = *at == '?';
    at += marks;
    size_t length = strcspn(at, " }"), rest = strcspn(at, "}");
    if (at[length] == ' ') {
        (void)snprintf(alias, sizeof alias, "%.*s", (int)(rest - length - 1), at + length + 1);
    }
    for (int i = 0; i < BT_FIELDS_COUNT; i++) {
        if (strlen(names[i]) == length && strncmp(names[i], at, length) == 0) {
            append_columns((bt_fields_of)i, alias, marks, out);
        }
    }
    return at + rest + 1;
}

static void expand_all(const char *text, bt_str *out)
{
    while (*text) {
        size_t length = strcspn(text, "{");
        bt_str_append_bytes(out, text, length);
        text += length;
        text = *text ? expand(text + 1, out) : text;
    }
}

static void text_of_rows(bt_fields_of kind, bool adds, bt_str *out)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (tables[i].kind != kind) {
            continue;
        }
        bt_str_format(out, adds ? "INSERT INTO %s(%s, " : "SELECT ", tables[i].name,
                      tables[i].owner);
        append_columns(kind, "", false, out);
        if (adds) {
            bt_str_append(out, ") VALUES(?, ");
            append_columns(kind, "", true, out);
            bt_str_format(out, ")%s", tables[i].conflict);
        } else {
            bt_str_format(out, " FROM %s WHERE %s=? ORDER BY %s", tables[i].name, tables[i].owner,
                          tables[i].order);
        }
    }
}

void bt_sql_text(int which, bt_str *out)
{
    if (which >= SQL_COUNT_OF(0)) {
        bt_str_append(out, "SELECT count(*) FROM (");
        bt_sql_text(which - SQL_COUNT_OF(0), out);
        bt_str_append(out, ")");
    } else if (which >= SQL_ADD_OF(0)) {
        bool adds = which < SQL_LIST_OF(0);
        int kind = which - (adds ? SQL_ADD_OF(0) : SQL_LIST_OF(0));
        text_of_rows((bt_fields_of)kind, adds, out);
    } else {
        expand_all(texts[which], out);
    }
}
