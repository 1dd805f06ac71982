// harness/store/history.c - one case over all runs
#include <string.h>

#include "harness/store/internal.h"

// Environments found so far, by their numbers in the database.
typedef struct gathering {
    bt_reader in;
    bt_store_history *history;
    bt_store_history_row *rows; // [capacity]
    int64_t capacity;
    bt_store_env *envs; // [capacity]
    int64_t *env_ids;   // [capacity]
} gathering;

// The index of the environment with this number, added if necessary. Its facts are read later,
// since only one statement is active at a time.
static int64_t index_of_env(gathering *self, int64_t id)
{
    bt_store_history *history = self->history;
    for (int64_t i = history->env_count - 1; i >= 0; i--) {
        if (self->env_ids[i] == id) {
            return i;
        }
    }
    self->env_ids[history->env_count] = id;
    self->envs[history->env_count].digest = "";
    return history->env_count++;
}

// The texts of a row, shared with the previous row if equal, as most are.
static bt_status take_texts(gathering *self, sqlite3_stmt *row, bt_store_history_row *item)
{
    const bt_store_history_row *last = self->history->count > 0 ? item - 1 : NULL;
    const char **const places[] = {&item->suite,  &item->git_commit, &item->git_diff,
                                   &item->system, &item->axes_json,  &item->name};
    const char *const known[] = {last ? last->suite : NULL,     last ? last->git_commit : NULL,
                                 last ? last->git_diff : NULL,  last ? last->system : NULL,
                                 last ? last->axes_json : NULL, last ? last->name : NULL};
    for (int i = 0; i < 6; i++) {
        const void *text = sqlite3_column_text(row, 7 + i);
        if (known[i] && text && strcmp(known[i], text) == 0) {
            *places[i] = known[i];
        } else {
            BT_TRY(bt_reader_text(&self->in, row, 7 + i, places[i]));
        }
    }
    return BT_OK;
}

static bt_status take_row(gathering *self, sqlite3_stmt *row)
{
    bt_store_history_row *item = &self->rows[self->history->count];
    BT_TRY(bt_reader_scan(&self->in, row, 0, "iiirrr", &item->run, &item->started_ns,
                          &item->ordinal, &item->value, &item->low, &item->high));
    item->env = index_of_env(self, sqlite3_column_int64(row, 6));
    item->total = sqlite3_column_int64(row, 13) != 0;
    BT_TRY(take_texts(self, row, item));
    self->history->count++;
    return BT_OK;
}

static bt_status allocate(gathering *self)
{
    BT_TRY(BT_ARENA_ARRAY(self->in.arena, self->capacity, &self->rows));
    BT_TRY(BT_ARENA_ARRAY(self->in.arena, self->capacity, &self->envs));
    BT_TRY(BT_ARENA_ARRAY(self->in.arena, self->capacity, &self->env_ids));
    self->history->rows = self->rows;
    self->history->envs = self->envs;
    return BT_OK;
}

static bt_status read_history(gathering *self, const char *name, const char *metric,
                              const char *system)
{
    bt_store *store = self->in.store;
    BT_TRY(bt_sql_integer(store, SQL_COUNT_OF(SQL_HISTORY), &self->capacity, "ttt", metric, name,
                          system));
    BT_TRY(allocate(self));
    bt_cursor rows = bt_sql_rows(store, SQL_HISTORY, "ttt", metric, name, system);
    while (self->history->count < self->capacity && bt_cursor_next(&rows)) {
        rows.status = take_row(self, rows.row);
    }
    BT_TRY(bt_cursor_end(&rows));
    for (int64_t i = 0; i < self->history->env_count; i++) {
        BT_READER_RECORDS(&self->in, BT_FIELDS_FACT, self->env_ids[i], self->envs[i].facts,
                          self->envs[i].fact_count);
    }
    return BT_OK;
}

bt_status bt_store_history_read(bt_store *store, const char *name, bt_metric metric,
                                const char *system, bt_store_history *out)
{
    memset(out, 0, sizeof *out);
    gathering self = {.in = {store, &out->arena}, .history = out};
    BT_TRY(bt_sql_run(store, SQL_BEGIN_READ, ""));
    bt_status status =
        bt_sql_end(store, read_history(&self, name, bt_metric_info(metric)->tag, system));
    if (status != BT_OK) {
        bt_store_history_release(out);
    }
    return status;
}

bt_status bt_store_case_names(bt_store *store, bt_str *out)
{
    return bt_reader_names(store, SQL_CASE_NAMES, out);
}
