// harness/suite/home.c - finds this installation, and lists its folders
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/environment.h"
#include "framework/base/scoped.h"
#include "harness/suite/schema.h"
#include "harness/suite/suite.h"

static bool is_dir(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool bt_home_path(bt_str *out)
{
    const char *given = bt_environment(BT_VARIABLE_ROOT);
    if (given) {
        bt_str_append(out, given);
        return true;
    }
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof "/suites");
    path[length < 0 ? 0 : length] = '\0';
    for (char *slash = strrchr(path, '/'); slash && slash != path; slash = strrchr(path, '/')) {
        memcpy(slash, "/suites", sizeof "/suites");
        bool found = is_dir(path);
        *slash = '\0';
        if (found) {
            bt_str_append(out, path);
            return true;
        }
    }
    bt_str_append(out, ".");
    return false;
}

// Whether an entry matches; *length: of its name without the extension.
static bool is_asked(const char *folder, const char *name, const char *ending, size_t *length)
{
    size_t size_bytes = strlen(name), end = strlen(ending);
    *length = size_bytes - (end < size_bytes ? end : 0);
    if (name[0] == '.' || strcmp(name + *length, ending) != 0) {
        return false;
    }
    BT_SCOPED(bt_str) path = {0};
    bt_str_format(&path, "%s/%s", folder, name);
    bool asked = end > 0 || is_dir(bt_str_text(&path));
    return asked;
}

static int by_text(const void *left, const void *right)
{
    const char *const *a = left;
    const char *const *b = right;
    return strcmp(*a, *b);
}

#define NAMES_MAX 64

static void list_folder(const char *folder, const char *ending, bt_str *out)
{
    char *names[NAMES_MAX];
    size_t count = 0, length = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry && count < NAMES_MAX;
         entry = readdir(dir)) {
        if (is_asked(folder, entry->d_name, ending, &length) &&
            bt_mem_strdup(entry->d_name, &names[count]) == BT_OK) {
            names[count++][length] = '\0';
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    if (count > 0) {
        qsort(names, count, sizeof names[0], by_text);
    }
    for (size_t i = 0; i < count; ++i) {
        bt_str_format(out, "%s%s", out->length_bytes ? "|" : "", names[i]);
        bt_mem_free(names[i]);
    }
}

void bt_home_names(const char *folder, const char *ending, bt_str *out)
{
    list_folder(folder, ending, out);
    if (out->length_bytes == 0) {
        bt_str path = {0};
        bt_home_path(&path);
        bt_str_format(&path, "/%s", folder);
        list_folder(bt_str_text(&path), ending, out);
        bt_str_release(&path);
    }
}

void bt_home_hint(const char *given, const char *names, bt_str *nearest, bt_str *listed)
{
    BT_SCOPED(bt_str) near = {0};
    bt_suite_nearest(given, names, &near);
    if (near.length_bytes > 0) {
        bt_str_format(nearest, "; did you mean \"%s\"?", bt_str_text(&near));
    }
    for (const char *at = names; *at; ++at) {
        bt_str_append_bytes(listed, *at == '|' ? ", " : at, *at == '|' ? 2 : 1);
    }
}
