// harness/ab/bisect.c - commits between two revisions, and which one to test next
#include "harness/ab/bisect.h"

#include <string.h>

#include "framework/base/scoped.h"
#include "harness/record/keep.h"

#include "harness/ab/build.h"
#include "harness/ab/command.h"

enum { HASH_BYTES = 40 };

// Each line is "HASH subject".
static bt_status read_lines(const char *text, bt_bisect *out)
{
    for (const char *at = text; *at; ++at) {
        out->count += *at == '\n';
    }
    BT_TRY(BT_ARENA_ARRAY(&out->arena, out->count, &out->commits));
    BT_EACH(bt_bisect_commit, commit, out->commits, out->count) {
        const size_t length = strcspn(text, "\n");
        const size_t subject = length > HASH_BYTES + 1 ? length - HASH_BYTES - 1 : 0;
        BT_TRY(bt_keep_part(&out->arena, text + length - subject, subject, &commit->subject));
        memcpy(commit->hash, text, length < HASH_BYTES ? length : HASH_BYTES);
        text += length + 1;
    }
    return BT_OK;
}

static bt_status list_commits(const char *root, const char *good, const char *bad, bt_bisect *out)
{
    BT_SCOPED(bt_str) range = {0}, text = {0};
    int code = 0, ancestor = 0;
    bt_str_format(&range, "%s..%s", good, bad);
    const char *const is_ancestor[] = {"git",           "-C", root, "merge-base",
                                       "--is-ancestor", good, bad,  (char *)NULL};
    const char *const log[] = {"git",
                               "-C",
                               root,
                               "log",
                               "--first-parent",
                               "--reverse",
                               "--no-decorate",
                               "--format=%H %s",
                               bt_str_text(&range),
                               NULL};
    BT_TRY(bt_str_status(&range));
    BT_TRY(bt_command_run(is_ancestor, NULL, &text, &ancestor));
    bt_str_clear(&text);
    BT_TRY(bt_command_run(log, NULL, &text, &code));
    BT_FAIL_IF(
        ancestor != 0 || code != 0 || text.length_bytes == 0, BT_STATUS_INVALID_ARGUMENT,
        "GOOD must be an ancestor of BAD: %.10s is not an ancestor of %.10s, or is the same commit",
        good, bad);
    return read_lines(bt_str_text(&text), out);
}

bt_status bt_bisect_open(const char *good, const char *bad, bt_bisect *out)
{
    BT_SCOPED(bt_str) root = {0}, first = {0}, last = {0};
    memset(out, 0, sizeof *out);
    BT_TRY(bt_build_root(&root));
    BT_TRY(bt_build_commit(good, &first));
    BT_TRY(bt_build_commit(bad, &last));
    bt_status status =
        list_commits(bt_str_text(&root), bt_str_text(&first), bt_str_text(&last), out);
    out->low = -1;
    out->high = out->count - 1;
    if (status != BT_OK) {
        bt_bisect_release(out);
    }
    return status;
}

void bt_bisect_release(bt_bisect *bisect)
{
    bt_arena_release(&bisect->arena);
    memset(bisect, 0, sizeof *bisect);
}

int64_t bt_bisect_next(const bt_bisect *bisect)
{
    const int64_t last = bisect->count - 1, middle = bisect->low + (bisect->high - bisect->low) / 2;
    if (bisect->commits[last].verdict != BT_BISECT_SLOWER) {
        return bisect->commits[last].verdict == BT_BISECT_OPEN ? last : -1;
    }
    for (int64_t away = 0; away < bisect->count; ++away) {
        const int64_t around[] = {middle - away, middle + away};
        for (int i = 0; i < 2; ++i) {
            if (around[i] > bisect->low && around[i] < bisect->high &&
                bisect->commits[around[i]].verdict == BT_BISECT_OPEN) {
                return around[i];
            }
        }
    }
    return -1;
}

void bt_bisect_take(bt_bisect *bisect, int64_t index, bt_bisect_verdict verdict)
{
    bisect->commits[index].verdict = verdict;
    if (verdict == BT_BISECT_SLOWER) {
        bisect->high = index;
    } else if (verdict == BT_BISECT_SAME) {
        bisect->low = index;
    }
}
