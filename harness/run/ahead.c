// harness/run/ahead.c - peers that are started ahead of their turn
#include "harness/run/ahead.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/mem.h"

static const bt_child no_child = {.input = -1, .output = -1, .errors = -1, .log = -1};

static void start(bt_ahead *ahead, const bt_peer *peer, int64_t system)
{
    if (bt_child_spawn(peer->program, false, bt_str_text(&ahead->logs[system]),
                       &ahead->children[system]) != BT_OK) {
        bt_error_clear(); // its round tries again and says why
        ahead->children[system] = no_child;
    }
}

bool bt_ahead_allowed(const bt_plan *plan)
{
    bool kernels = strcmp(plan->device, "cuda") == 0;
    for (int64_t i = 0; i < plan->case_count; i++) {
        kernels = kernels && bt_json_get(bt_plan_case(plan, i), "kernel");
    }
    return kernels;
}

bt_status bt_ahead_make(const bt_peer *systems, int64_t count, bool allowed, const char *folder,
                        bt_ahead *out)
{
    void *block = NULL;
    memset(out, 0, sizeof *out);
    if (!allowed) {
        return BT_OK;
    }
    BT_TRY(bt_mem_alloc((size_t)count, sizeof *out->children, &block));
    out->children = block;
    BT_TRY(bt_mem_alloc((size_t)count, sizeof *out->logs, &block));
    out->logs = block;
    out->count = count;
    for (int64_t i = 0; i < count; ++i) {
        out->children[i] = no_child;
    }
    for (int64_t i = 0; i < count; ++i) {
        if (systems[i].program && !systems[i].build) {
            bt_str_format(&out->logs[i], "%s/ahead-%lld.log", folder, (long long)i);
            BT_TRY(bt_str_status(&out->logs[i]));
            start(out, &systems[i], i);
        }
    }
    return BT_OK;
}

void bt_ahead_take(bt_ahead *ahead, const bt_peer *systems, int64_t system, const char *log_path,
                   bt_child *out)
{
    *out = no_child;
    if (system >= ahead->count || ahead->children[system].process == 0) {
        return;
    }
    *out = ahead->children[system];
    ahead->children[system] = no_child;
    (void)rename(bt_str_text(&ahead->logs[system]), log_path); // it is written through its file
    start(ahead, &systems[system], system);
}

void bt_ahead_release(bt_ahead *ahead)
{
    for (int64_t i = 0; i < ahead->count; ++i) {
        bool waits = ahead->children[i].process != 0;
        bt_child_release(&ahead->children[i]);
        if (waits) {
            (void)unlink(bt_str_text(&ahead->logs[i]));
        }
        bt_str_release(&ahead->logs[i]);
    }
    bt_mem_free(ahead->children);
    bt_mem_free(ahead->logs);
    memset(ahead, 0, sizeof *ahead);
}
