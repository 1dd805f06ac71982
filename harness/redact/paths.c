// harness/redact/paths.c - shortens paths of the exporting machine
//
// A path that begins at the root, or with ~, keeps its last part: "/data/ada/x.bin" becomes
// ".../x.bin". In a home folder the owner's name is removed too, so that "/home/ada" alone is "~".
// Paths of the system (/usr, /opt, /dev ...) stay. The rule depends on the text alone, not on the
// machine: equal runs give equal bundles wherever they are exported.
#include "harness/redact/redact.h"
#include <string.h>

static bool is_path_byte(char byte)
{
    unsigned char value = (unsigned char)byte;
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || value >= 0x80 || (byte && strchr("._+@%~-/", byte));
}

// Length of the path that begins here, 0 if there is none.
static size_t path_at(const char *text, size_t at, size_t length)
{
    bool begins = at == 0 || !is_path_byte(text[at - 1]);
    bool home = text[at] == '~';
    size_t end = at;
    if (!begins || (text[at] != '/' && !home)) {
        return 0;
    }
    if (at > 0 && text[at - 1] == ':' && at + 1 < length && text[at + 1] == '/') {
        return 0; // after the colon of a URL
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

// Folders whose names are the same on every machine. Files in /dev/shm are those of users.
static bool is_of_the_system(const char *path, size_t size)
{
    static const char *const prefixes[] = {"/usr/", "/opt/",  "/lib/", "/lib64/", "/etc/",
                                           "/dev/", "/proc/", "/sys/", "/bin/",   "/sbin/"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (starts_with(path, size, prefixes[i])) {
            return !starts_with(path, size, "/dev/shm/");
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
    // If the last part is the owner of a home, or the home itself, nothing is kept.
    bool owner = (starts_with(path, size, "/home/") && last == 6) ||
                 (starts_with(path, size, "/Users/") && last == 7) || last <= 1;
    bt_str_append(out, owner ? "~" : ".../");
    if (!owner) {
        bt_str_append_bytes(out, path + last, size - last);
    }
}

bool bt_redact_shorten(const char *text, size_t length, bt_str *out)
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

bool bt_redact_is_short(const char *text)
{
    return strstr(text, ".../") || strchr(text, '~') || strstr(text, BT_REDACT_LEFT_OUT);
}
