// harness/ab/side.c - resolves a word to a program and its description
#include "harness/ab/side.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/scoped.h"
#include "harness/ab/build.h"
#include "harness/ab/command.h"
#include "harness/env/build.h"
#include "harness/record/keep.h"

// ---- description of a program ------------------------------------------------------------------

// The rest of the line that starts with `key`, "" if there is none.
static bt_status line_of(const char *text, const char *key, bt_arena *arena, const char **out)
{
    size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0) {
            line += length;
            line += strspn(line, " ");
            return bt_keep_part(arena, line, strcspn(line, "\n"), out);
        }
    }
    return bt_keep_part(arena, "", 0, out);
}

// Cuts `text` before its last `mark`; the rest goes to *rest, "" without a mark.
static void cut(const char **text, const char *mark, bool until_end_bracket, const char **rest)
{
    // The text is the arena's private copy.
    char *own = (char *)(uintptr_t)*text;
    char *found = NULL;
    for (char *next = strstr(own, mark); next; next = strstr(next + 1, mark)) {
        found = next;
    }
    *rest = "";
    if (found) {
        *found = '\0';
        *rest = found + strlen(mark);
        char *end = until_end_bracket ? strrchr(found + strlen(mark), ')') : NULL;
        if (end) {
            *end = '\0';
        }
    }
}

bt_status bt_ab_build_parse(const char *text, bt_arena *arena, bt_store_build *out)
{
    char digest[33];
    memset(out, 0, sizeof *out);
    BT_TRY(line_of(text, "bt-bench ", arena, &out->version));
    BT_TRY(line_of(text, "revision ", arena, &out->git_commit));
    BT_TRY(line_of(text, "compiler ", arena, &out->compiler));
    BT_TRY(line_of(text, "flags ", arena, &out->flags));
    BT_TRY(line_of(text, "cuda ", arena, &out->cuda));
    BT_FAIL_IF(!*out->version || !*out->compiler, BT_STATUS_CORRUPT_DATA,
               "expected the output of 'bt-bench version', got %.80s", text);
    cut(&out->git_commit, ", changed: ", false, &out->git_diff);
    cut(&out->flags, " (", true, &out->type);
    out->cuda = strcmp(out->cuda, "not built") == 0 ? "" : out->cuda;
    const bt_build build = {out->version, out->git_commit, out->git_diff, out->compiler,
                            out->flags,   out->type,       out->cuda};
    BT_TRY(bt_build_digest_of(&build, digest));
    return bt_keep_part(arena, digest, sizeof digest - 1, &out->digest);
}

static bt_status ask(const char *program, bt_ab_side *out)
{
    const char *const arguments[] = {program, "version", NULL};
    BT_SCOPED(bt_str) text = {0};
    int code = 0;
    BT_TRY(bt_command_run(arguments, NULL, &text, &code));
    BT_FAIL_IF(code != 0, BT_STATUS_INTERNAL, "'%s version' ended with code %d", program, code);
    return bt_error_context(bt_ab_build_parse(bt_str_text(&text), &out->arena, &out->build), "%s",
                            program);
}

static bt_status describe_self(bt_ab_side *out)
{
    BT_SCOPED(bt_str) text = {0};
    bt_build_describe(&text);
    BT_TRY(bt_str_status(&text));
    return bt_ab_build_parse(bt_str_text(&text), &out->arena, &out->build);
}

// ---- resolving a word --------------------------------------------------------------------------

static bool is_program(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

// The program at a path: the file, or one in the folder. False: none.
static bool find_program(const char *word, char found[PATH_MAX])
{
    static const char *const within[] = {"", "/bin/bt-bench", "/bt-bench"};
    for (int i = 0; i < 3; ++i) {
        BT_SCOPED(bt_str) path = {0};
        bt_str_format(&path, "%s%s", word, within[i]);
        if (is_program(bt_str_text(&path)) && realpath(bt_str_text(&path), found)) {
            return true;
        }
    }
    return false;
}

static bt_status build_revision(const char *word, bt_progress_view *view, bt_ab_side *out)
{
    BT_SCOPED(bt_str) commit = {0}, program = {0};
    BT_TRY(bt_build_commit(word, &commit));
    BT_TRY(bt_build_revision(bt_str_text(&commit), view, &program));
    return bt_str_take(&program, &out->program);
}

bt_status bt_ab_side_find(const char *word, bt_progress_view *view, bt_ab_side *out)
{
    char found[PATH_MAX];
    memset(out, 0, sizeof *out);
    BT_TRY(bt_mem_strdup(word, &out->word));
    if (strcmp(word, ".") == 0) {
        return describe_self(out);
    }
    BT_TRY(find_program(word, found) ? bt_mem_strdup(found, &out->program)
                                     : build_revision(word, view, out));
    return ask(out->program, out);
}

void bt_ab_side_release(bt_ab_side *side)
{
    bt_mem_free(side->program);
    bt_mem_free(side->word);
    bt_arena_release(&side->arena);
    memset(side, 0, sizeof *side);
}
