// harness/store/telemetry.c - telemetry samples, one row per round, and the round's label
#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/store/internal.h"

#define COLUMN_NAME(member, unit, description) #member " "
static const char column_names[] = BT_TELEMETRY_LIST(COLUMN_NAME);
#undef COLUMN_NAME

// ---- writing -----------------------------------------------------------------------------------

// The samples column by column: values of a column change little, and compress well.
static bt_status pack(const bt_store_telemetry *samples, int64_t count, void **blob,
                      int64_t *size_bytes)
{
    BT_SCOPED_MEM(double *) values = NULL;
    BT_TRY(BT_MEM_ARRAY(count * BT_TELEMETRY_COLUMNS, &values));
    for (int column = 0; column < BT_TELEMETRY_COLUMNS; column++) {
        for (int64_t i = 0; i < count; i++) {
            values[column * count + i] = bt_telemetry_value(&samples[i], column);
        }
    }
    return bt_samples_pack(values, count * BT_TELEMETRY_COLUMNS, blob, size_bytes);
}

bt_status bt_telemetry_row_write(bt_store *store, int64_t round, const char *label,
                                 const bt_store_telemetry *samples, int64_t count)
{
    BT_SCOPED_MEM(void *) blob = NULL;
    int64_t size_bytes = 0;
    BT_TRY(bt_sql_run(store, SQL_ROUND_LABEL, "ti", label, round));
    BT_FAIL_IF(sqlite3_changes(store->db) != 1, BT_STATUS_INVALID_ARGUMENT, "%s: no round %lld",
               store->path, (long long)round);
    BT_TRY(bt_sql_run(store, SQL_TELEMETRY_DROP, "i", round));
    if (count == 0) {
        return BT_OK;
    }
    BT_TRY(pack(samples, count, &blob, &size_bytes));
    return bt_sql_run(store, SQL_TELEMETRY_ADD, "iitb", round, count, column_names, blob,
                      size_bytes);
}

bt_status bt_store_telemetry_set(bt_store *store, int64_t round, const char *label,
                                 const bt_store_telemetry *samples, int64_t count)
{
    BT_FAIL_IF(count < 0, BT_STATUS_INVALID_ARGUMENT, "%lld samples of telemetry",
               (long long)count);
    BT_TRY(bt_sql_begin(store));
    bt_status status = bt_telemetry_row_write(store, round, label, samples, count);
    return bt_sql_end(store, status == BT_OK ? bt_seal_renew(store, round) : status);
}

// ---- reading -----------------------------------------------------------------------------------

// The column of this name, -1 if unknown: one of a later version.
static int column_of(const char *name, size_t length)
{
    for (int i = 0; i < BT_TELEMETRY_COLUMNS; i++) {
        const char *known = bt_telemetry_column_info(i)->name;
        if (strlen(known) == length && strncmp(known, name, length) == 0) {
            return i;
        }
    }
    return -1;
}

static void unpack_column(const double *values, int64_t count, int column,
                          bt_store_telemetry *samples)
{
    for (int64_t i = 0; i < count; i++) {
        memcpy((char *)&samples[i] + (size_t)column * sizeof(double), &values[i], sizeof(double));
    }
}

static bt_status take_telemetry(bt_reader *in, sqlite3_stmt *row, bt_store_round *round)
{
    int64_t count = sqlite3_column_int64(row, 0);
    const void *names_column = sqlite3_column_text(row, 1);
    const char *names = names_column ? names_column : "";
    int64_t stored = 0;
    const double *values = NULL;
    for (const char *at = names; *at; at++) {
        stored += *at == ' ';
    }
    BT_FAIL_IF(count < 0 || count > INT64_MAX / 4096 || stored > 4096, BT_STATUS_UNAVAILABLE,
               "%s: telemetry of %lld samples", in->store->path, (long long)count);
    BT_TRY(bt_error_context(bt_samples_unpack(sqlite3_column_blob(row, 2),
                                              sqlite3_column_bytes(row, 2), count * stored,
                                              in->arena, &values),
                            "%s: telemetry of round %lld", in->store->path, (long long)round->id));
    bt_store_telemetry *samples = NULL;
    BT_TRY(BT_ARENA_ARRAY(in->arena, count, &samples));
    for (int64_t i = 0; i < count * BT_TELEMETRY_COLUMNS; i++) {
        ((double *)samples)[i] = (double)NAN;
    }
    for (int64_t i = 0; i < stored; i++) {
        size_t length = strcspn(names, " ");
        int column = column_of(names, length);
        if (column >= 0) {
            unpack_column(values + i * count, count, column, samples);
        }
        names += length + 1;
    }
    round->telemetry = samples;
    round->telemetry_count = count;
    return BT_OK;
}

bt_status bt_store_telemetry_read(bt_reader *in, bt_store_round *round)
{
    bt_cursor rows = bt_sql_rows(in->store, SQL_TELEMETRY, "i", round->id);
    if (bt_cursor_next(&rows)) {
        rows.status = take_telemetry(in, rows.row, round);
    }
    return bt_cursor_end(&rows);
}
