// harness/store/seal.c - a digest over all rows of a round
//
// SQLite detects damage to the structure of its file, but not to the values in it. So a completed
// round is sealed: XXH3-128 over type and bytes of every value of its row and of the rows that
// belong to it, except ids, which imports change. Reading a run checks the seals.
// Not covered: incomplete rounds, those of databases before version 13, rows of the run itself (its
// plan and environment have their own digests), and the loss of a whole round.
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "harness/store/internal.h"

static const int parts[] = {SQL_SEAL_ROUND,
                            SQL_LIST_OF(BT_FIELDS_STEP),
                            SQL_LIST_OF(BT_FIELDS_EVAL),
                            SQL_LIST_OF(BT_FIELDS_RANGE),
                            SQL_LIST_OF(BT_FIELDS_KERNEL),
                            SQL_LIST_OF(BT_FIELDS_FAULT),
                            SQL_LIST_OF(BT_FIELDS_MEMORY),
                            SQL_SEAL_VALUES,
                            SQL_TELEMETRY};
// Added later: without rows they contribute nothing, so that earlier seals stay valid.
static const int later_parts[] = {
    SQL_LIST_OF(BT_FIELDS_SCORE),  SQL_LIST_OF(BT_FIELDS_STATE),
    SQL_LIST_OF(BT_FIELDS_LAUNCH), SQL_LIST_OF(BT_FIELDS_TIMELINE),
    SQL_LIST_OF(BT_FIELDS_GROUP),  SQL_LIST_OF(BT_FIELDS_GROUP_CALLS)};

static void add_value(XXH3_state_t *hash, sqlite3_stmt *row, int column)
{
    const int type = sqlite3_column_type(row, column);
    const sqlite3_int64 integer = sqlite3_column_int64(row, column);
    const double real = sqlite3_column_double(row, column);
    const void *bytes = &integer;
    sqlite3_int64 size_bytes = type == SQLITE_NULL ? 0 : (sqlite3_int64)sizeof integer;
    if (type == SQLITE_FLOAT) {
        bytes = &real;
    } else if (type == SQLITE_TEXT || type == SQLITE_BLOB) {
        bytes = sqlite3_column_blob(row, column);
        size_bytes = sqlite3_column_bytes(row, column);
    }
    const sqlite3_int64 head[2] = {type, size_bytes};
    (void)XXH3_128bits_update(hash, head, sizeof head);
    if (size_bytes > 0) {
        (void)XXH3_128bits_update(hash, bytes, (size_t)size_bytes);
    }
}

static bt_status add_part(bt_store *store, int which, int64_t round, bool always,
                          XXH3_state_t *hash)
{
    bt_cursor rows = bt_sql_rows(store, which, "i", round);
    bool counts = always;
    for (; bt_cursor_next(&rows); counts = true) {
        for (int i = 0; i < sqlite3_column_count(rows.row); ++i) {
            add_value(hash, rows.row, i);
        }
        (void)XXH3_128bits_update(hash, "\n", 1);
    }
    if (counts) {
        (void)XXH3_128bits_update(hash, "\f", 1);
    }
    return bt_cursor_end(&rows);
}

static bt_status compute(bt_store *store, int64_t round, char digest[33])
{
    XXH3_state_t *hash = XXH3_createState();
    bt_status status =
        hash ? BT_OK : bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory: the state of a hash");
    if (hash) {
        (void)XXH3_128bits_reset(hash);
    }
    for (size_t i = 0; status == BT_OK && i < sizeof parts / sizeof parts[0]; ++i) {
        status = add_part(store, parts[i], round, true, hash);
    }
    for (size_t i = 0; status == BT_OK && i < sizeof later_parts / sizeof later_parts[0]; ++i) {
        status = add_part(store, later_parts[i], round, false, hash);
    }
    if (status == BT_OK) {
        const XXH128_hash_t value = XXH3_128bits_digest(hash);
        (void)snprintf(digest, 33, "%016llx%016llx", (unsigned long long)value.high64,
                       (unsigned long long)value.low64);
    }
    (void)XXH3_freeState(hash);
    return status;
}

bt_status bt_seal_write(bt_store *store, int64_t round)
{
    char digest[33];
    BT_TRY(compute(store, round, digest));
    return bt_sql_run(store, SQL_SEAL_SET, "ti", digest, round);
}

// The seal of a round, "" if it has none.
static bt_status read_seal(bt_store *store, int64_t round, char seal[64])
{
    bt_cursor rows = bt_sql_rows(store, SQL_SEAL_GET, "i", round);
    seal[0] = '\0';
    if (bt_cursor_next(&rows)) {
        const char *text = (const char *)sqlite3_column_text(rows.row, 0);
        (void)snprintf(seal, 64, "%s", text ? text : "");
    }
    return bt_cursor_end(&rows);
}

bt_status bt_seal_renew(bt_store *store, int64_t round)
{
    char seal[64];
    BT_TRY(read_seal(store, round, seal));
    return *seal ? bt_seal_write(store, round) : BT_OK;
}

bt_status bt_seal_check(bt_store *store, int64_t round)
{
    char seal[64], digest[33];
    BT_TRY(read_seal(store, round, seal));
    if (!*seal) {
        return BT_OK;
    }
    BT_TRY(compute(store, round, digest));
    return strcmp(seal, digest) == 0
               ? BT_OK
               : bt_error(BT_STATUS_CORRUPT_DATA,
                          "%s: round %lld was changed after it was recorded (expected digest %s, "
                          "got %s): the file was damaged or edited",
                          store->path, (long long)round, seal, digest);
}
