// harness/run/ahead.c - peers that are started before their round
#include "harness/run/ahead.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/idioms.h"
#include "framework/base/mem.h"

static const bt_child no_child = {.input = -1, .output = -1, .errors = -1, .log = -1};

static void start(const bt_peer *peer, bt_ahead_process *process)
{
    if (bt_child_spawn(peer->program, false, bt_str_text(&process->log), &process->child) !=
        BT_OK) {
        bt_error_clear(); // its round tries again and reports the error
        process->child = no_child;
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
    memset(out, 0, sizeof *out);
    if (!allowed) {
        return BT_OK;
    }
    const int64_t all = count * BT_AHEAD_DEPTH;
    BT_TRY(BT_MEM_ARRAY(count, &out->next));
    memset(out->next, 0, (size_t)count * sizeof *out->next);
    BT_TRY(BT_MEM_ARRAY(all, &out->processes));
    out->count = count;
    for (int64_t i = 0; i < all; ++i) {
        out->processes[i] = (bt_ahead_process){.child = no_child};
    }
    for (int64_t i = 0; i < all; ++i) {
        const bt_peer *peer = &systems[i / BT_AHEAD_DEPTH];
        if (peer->program && !peer->build) {
            bt_ahead_process *process = &out->processes[i];
            bt_str_format(&process->log, "%s/ahead-%lld.log", folder, (long long)i);
            BT_TRY(bt_str_status(&process->log));
            start(peer, process);
        }
    }
    return BT_OK;
}

void bt_ahead_take(bt_ahead *ahead, const bt_peer *systems, int64_t system, const char *log_path,
                   bt_child *out)
{
    *out = no_child;
    if (system >= ahead->count) {
        return;
    }
    int64_t *next = &ahead->next[system];
    bt_ahead_process *process = &ahead->processes[system * BT_AHEAD_DEPTH + *next];
    if (process->child.process == 0) {
        if (process->log.length_bytes > 0) {
            start(&systems[system], process); // it could not be started early
        }
        return;
    }
    *out = process->child;
    process->child = no_child;
    (void)rename(bt_str_text(&process->log), log_path); // its log is written through its file
    start(&systems[system], process);
    *next = (*next + 1) % BT_AHEAD_DEPTH;
}

void bt_ahead_release(bt_ahead *ahead)
{
    BT_EACH(bt_ahead_process, process, ahead->processes, ahead->count * BT_AHEAD_DEPTH) {
        bool waits = process->child.process != 0;
        bt_child_release(&process->child);
        if (waits) {
            (void)unlink(bt_str_text(&process->log));
        }
        bt_str_release(&process->log);
    }
    bt_mem_free(ahead->processes);
    bt_mem_free(ahead->next);
    memset(ahead, 0, sizeof *ahead);
}
