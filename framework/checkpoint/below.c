// framework/checkpoint/below.c - finds the stores in the folders below one, for messages
#include "framework/base/mem.h"
#include "framework/base/scoped.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/file_ops.h"

// results/run-1/checkpoints/fp32-blutrain-0 is three levels below results.
enum { LEVELS = 3, SHOWN = 4 };

typedef struct search {
    bt_str *out;
    int64_t found;
} search;

static bt_status visit(search *s, const char *folder, int levels);

// Adds the folder if it is a store. Errors  OUT_OF_MEMORY
static bt_status add_store(search *s, const char *folder, bool *is_store)
{
    const bt_checkpoint_store store = {.folder = folder};
    BT_SCOPED_MEM(int64_t *) steps = NULL;
    int64_t count = 0;
    bt_error_quiet_begin();
    const bt_status status = bt_checkpoint_list(&store, &steps, &count);
    bt_error_quiet_end();
    *is_store = status == BT_OK && count > 0;
    if (*is_store && ++s->found <= SHOWN) {
        bt_str_format(s->out, "\n  %s (newest: step-%08lld)", folder, (long long)steps[count - 1]);
    }
    return status == BT_STATUS_OUT_OF_MEMORY ? status : bt_str_status(s->out);
}

static bt_status visit_names(search *s, const char *folder, const bt_io_names *names, int levels)
{
    char path[BT_PATH_CAPACITY];
    for (int64_t i = 0; i < names->count; ++i) {
        bt_error_quiet_begin();
        const bool fits = bt_io_path(folder, names->items[i], path) == BT_OK;
        bt_error_quiet_end();
        bool is_store = false;
        if (fits) {
            BT_TRY(add_store(s, path, &is_store));
        }
        if (fits && !is_store && levels > 1) {
            BT_TRY(visit(s, path, levels - 1));
        }
    }
    return BT_OK;
}

// What is not a folder, or cannot be read, has no stores.
static bt_status visit(search *s, const char *folder, int levels)
{
    bt_io_names names;
    bt_error_quiet_begin();
    bt_status status = bt_io_list(&bt_file_ops_system, folder, &names);
    bt_error_quiet_end();
    if (status == BT_OK) {
        status = visit_names(s, folder, &names, levels);
    } else if (status != BT_STATUS_OUT_OF_MEMORY) {
        status = BT_OK;
    }
    bt_io_names_release(&names);
    return status;
}

bt_status bt_checkpoint_stores_below(const char *folder, bt_str *out, int64_t *count)
{
    search s = {.out = out};
    BT_TRY(visit(&s, folder, LEVELS));
    if (s.found > SHOWN) {
        bt_str_format(out, "\n  and %lld more", (long long)(s.found - SHOWN));
    }
    *count = s.found;
    return bt_str_status(out);
}
