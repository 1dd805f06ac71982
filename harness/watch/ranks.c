// harness/watch/ranks.c - the ranks of a mesh, from the file ranks.json of the run's folder
#include <stdio.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/suite/json.h"
#include "harness/watch/watch.h"

enum { STALE_S = 10 }; // the launcher writes once a second

static void append_rank(const cJSON *rank, int columns, bt_str *out)
{
    char line[512];
    const char *where = bt_json_text_of(rank, "in");
    const bool waits = cJSON_IsFalse(bt_json_get(rank, "call_done"));
    (void)snprintf(line, sizeof line,
                   "rank %-3.0f %6.0f steps   silent %5.1f s   waited %7.1f s   %s%s%s",
                   bt_json_number_of(rank, "rank"), bt_json_number_of(rank, "steps"),
                   bt_json_number_of(rank, "silent_s"), bt_json_number_of(rank, "waited_s"),
                   *where ? where : "outside of steps", waits ? ", waits in " : "",
                   waits ? bt_json_text_of(rank, "call") : "");
    bt_str_format(out, "%.*s\n", columns, line);
}

static void append_ranks(const cJSON *root, int64_t now_ns, int columns, int rows, bt_str *out)
{
    const double age_s = ((double)now_ns - bt_json_number_of(root, "time_ns")) / 1e9;
    const cJSON *rank = NULL;
    if (age_s > STALE_S) { // of a completed case
        return;
    }
    cJSON_ArrayForEach(rank, bt_json_get(root, "ranks")) {
        if (--rows < 0) {
            return;
        }
        append_rank(rank, columns, out);
    }
}

// Reads the file; false if there is none that can be read.
static bool read_file(const bt_watch_view *view, bt_json_doc *json)
{
    BT_SCOPED(bt_str) path = {0};
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size_bytes = 0;
    bt_str_format(&path, "%s/ranks.json", view->live->out_dir);
    bool found = view->current && bt_str_status(&path) == BT_OK &&
                 bt_file_exists(bt_str_text(&path)) &&
                 bt_file_read(bt_str_text(&path), &bytes, &size_bytes) == BT_OK &&
                 bt_json_parse("ranks.json", bytes, size_bytes, json) == BT_OK;
    if (!found) {
        bt_error_clear();
    }
    return found;
}

void bt_watch_ranks(const bt_watch_view *view, int columns, int rows, bt_str *out)
{
    BT_SCOPED(bt_json_doc) json = {0};
    if (read_file(view, &json)) {
        append_ranks(json.root, view->now_ns, columns, rows, out);
    }
}

void bt_watch_ranks_json(const bt_watch_view *view, bt_str *out)
{
    BT_SCOPED(bt_json_doc) json = {0};
    if (read_file(view, &json)) {
        bt_json_write(bt_json_get(json.root, "ranks"), out);
    }
}
