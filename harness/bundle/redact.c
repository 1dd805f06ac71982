// harness/bundle/redact.c - paths of the exporting machine out of what others will read
//
// A path that begins at the root, or with ~, keeps its last part: "/data/ada/x.bin" becomes
// ".../x.bin". What lies in someone's home loses the owner's name too, so that "/home/ada" alone is
// "~". Paths of the system (/usr, /opt, /dev ...) stay. The rule looks at the text alone, never at
// the machine: equal runs give equal bundles wherever they are exported.
#include <string.h>

#include "harness/bundle/content.h"
#include "harness/bundle/fields.h"

static bool is_path_byte(char byte)
{
    unsigned char value = (unsigned char)byte;
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || value >= 0x80 || (byte && strchr("._+@%~-/", byte));
}

// Length of the path that begins here, 0 where none does.
static size_t path_at(const char *text, size_t at, size_t length)
{
    bool begins = at == 0 || !is_path_byte(text[at - 1]);
    bool home = text[at] == '~';
    size_t end = at;
    if (!begins || (text[at] != '/' && !home)) {
        return 0;
    }
    if (at > 0 && text[at - 1] == ':' && at + 1 < length && text[at + 1] == '/') {
        return 0; // behind the colon of a URL
    }
    while (end < length && is_path_byte(text[end])) {
        end++;
    }
    size_t size = end - at;
    bool deep = size > 1 && memchr(text + at + 1, '/', size - 1) != NULL;
    return deep || (size == 5 && memcmp(text + at, "/root", 5) == 0) ? size : 0;
}

static bool starts_with(const char *path, size_t size, const char *prefix)
{
    size_t length = strlen(prefix);
    return size >= length && memcmp(path, prefix, length) == 0;
}

static bool is_of_the_system(const char *path, size_t size)
{
    static const char *const prefixes[] = {"/usr/", "/opt/",  "/lib/", "/lib64/", "/etc/",
                                           "/dev/", "/proc/", "/sys/", "/bin/",   "/sbin/"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (starts_with(path, size, prefixes[i])) {
            return true;
        }
    }
    return false;
}

static void append_short(const char *path, size_t size, bt_str *out)
{
    size_t last = size;
    while (last > 0 && path[last - 1] == '/') {
        last--; // "/a/b/" ends in b
    }
    size = last;
    while (last > 0 && path[last - 1] != '/') {
        last--;
    }
    // Where the last part is the owner of a home, or the home itself, there is nothing to keep.
    bool owner = (starts_with(path, size, "/home/") && last == 6) ||
                 (starts_with(path, size, "/Users/") && last == 7) || last <= 1;
    bt_str_append(out, owner ? "~" : ".../");
    if (!owner) {
        bt_str_append_bytes(out, path + last, size - last);
    }
}

bool bt_content_shorten(const char *text, size_t length, bt_str *out)
{
    bool changed = false;
    for (size_t at = 0; at < length;) {
        size_t size = path_at(text, at, length);
        if (size > 0 && !is_of_the_system(text + at, size)) {
            append_short(text + at, size, out);
            changed = true;
        } else {
            size = size ? size : 1;
            bt_str_append_bytes(out, text + at, size);
        }
        at += size;
    }
    return changed;
}

bool bt_content_is_short(const char *text) { return strstr(text, ".../") || strchr(text, '~'); }

typedef struct redaction {
    bt_arena *arena;
    bt_str text; // owned
    bt_str *kinds;
} redaction;

// Replaces *text when it holds a path; `kind` says what it is, once per kind.
static bt_status shorten(redaction *self, const char *kind, const char **text, int64_t *size_bytes)
{
    size_t length = size_bytes ? (size_t)*size_bytes : strlen(*text);
    bt_str_clear(&self->text);
    if (!bt_content_shorten(*text, length, &self->text)) {
        return bt_str_status(&self->text);
    }
    BT_TRY(bt_str_status(&self->text));
    if (!strstr(bt_str_text(self->kinds), kind)) {
        bt_str_format(self->kinds, "%s%s", self->kinds->length_bytes ? ", " : "", kind);
    }
    void *copy = NULL;
    BT_TRY(bt_arena_alloc(self->arena, self->text.length_bytes + 1, &copy));
    memcpy(copy, bt_str_text(&self->text), self->text.length_bytes);
    *text = copy;
    if (size_bytes) {
        *size_bytes = (int64_t)self->text.length_bytes;
    }
    return BT_OK;
}

// A list of the run as one that may be changed, in its arena.
static bt_status own_list(redaction *self, const void *list, int64_t count, size_t item_bytes,
                          void **out)
{
    BT_TRY(bt_arena_alloc(self->arena, (size_t)count * item_bytes + 1, out));
    if (count) {
        memcpy(*out, list, (size_t)count * item_bytes);
    }
    return BT_OK;
}

static bt_status redact_rounds(redaction *self, bt_store_run *run)
{
    void *block = NULL;
    BT_TRY(own_list(self, run->rounds, run->round_count, sizeof *run->rounds, &block));
    bt_store_round *rounds = block;
    run->rounds = rounds;
    for (int64_t i = 0; i < run->round_count; i++) {
        BT_TRY(shorten(self, "messages", &rounds[i].message, NULL));
        BT_TRY(shorten(self, "plan", &rounds[i].what.axes_json, NULL));
        BT_TRY(shorten(self, "plan", &rounds[i].shape.dataset, NULL));
    }
    return BT_OK;
}

static bt_status redact_lists(redaction *self, bt_store_run *run)
{
    void *block = NULL;
    BT_TRY(own_list(self, run->info.env.facts, run->info.env.fact_count, sizeof(bt_store_fact),
                    &block));
    bt_store_fact *facts = block;
    run->info.env.facts = facts;
    for (int64_t i = 0; i < run->info.env.fact_count; i++) {
        BT_TRY(shorten(self, "environment", &facts[i].value, NULL));
    }
    BT_TRY(own_list(self, run->schedule.systems, run->schedule.system_count,
                    sizeof *run->schedule.systems, &block));
    bt_store_system *systems = block;
    run->schedule.systems = systems;
    for (int64_t i = 0; i < run->schedule.system_count; i++) {
        BT_TRY(shorten(self, "systems", &systems[i].program, NULL));
        BT_TRY(shorten(self, "build", &systems[i].build.flags, NULL));
    }
    BT_TRY(shorten(self, "systems", &run->schedule.rule_json, NULL));
    BT_TRY(own_list(self, run->verdicts, run->verdict_count, sizeof *run->verdicts, &block));
    bt_store_verdict *verdicts = block;
    run->verdicts = verdicts;
    for (int64_t i = 0; i < run->verdict_count; i++) {
        BT_TRY(shorten(self, "verdicts", &verdicts[i].reason, NULL));
        BT_TRY(shorten(self, "verdicts", &verdicts[i].rule_json, NULL));
    }
    BT_TRY(own_list(self, run->files, run->file_count, sizeof *run->files, &block));
    bt_store_file *files = block;
    run->files = files;
    for (int64_t i = 0; i < run->file_count; i++) {
        BT_TRY(shorten(self, "files", &files[i].name, NULL));
        BT_TRY(shorten(self, "files", &files[i].bytes, &files[i].size_bytes));
    }
    return BT_OK;
}

static bt_status redact_all(redaction *self, bt_store_run *run)
{
    BT_TRY(shorten(self, "command", &run->info.command, NULL));
    BT_TRY(shorten(self, "suite", &run->info.suite.path, NULL));
    BT_TRY(shorten(self, "plan", &run->info.suite.plan_json, NULL));
    BT_TRY(shorten(self, "build", &run->info.build.flags, NULL));
    BT_TRY(shorten(self, "messages", &run->message, NULL));
    BT_TRY(redact_rounds(self, run));
    BT_TRY(redact_lists(self, run));
    return bt_str_status(self->kinds);
}

bt_status bt_content_redact(bt_store_run *run, bt_str *kinds)
{
    redaction self = {.arena = &run->arena, .kinds = kinds};
    bt_status status = redact_all(&self, run);
    bt_str_release(&self.text);
    return status;
}
