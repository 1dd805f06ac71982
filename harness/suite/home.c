// harness/suite/home.c - finds this installation, and lists its folders
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/environment.h"
#include "framework/base/scoped.h"
#include "harness/suite/suite.h"
#include "harness/suite/words.h"

bool bt_home_is_folder(const char *path)
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
        bool found = bt_home_is_folder(path);
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
    return end > 0 || bt_home_is_folder(bt_str_text(&path));
}

void bt_home_list(const char *folder, const char *ending, bt_str *out)
{
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; ++i) {
        size_t length = 0;
        if (is_asked(folder, entries[i]->d_name, ending, &length)) {
            bt_words_add(out, entries[i]->d_name, length);
        }
        free(entries[i]);
    }
    free(entries);
}

void bt_home_names(const char *folder, const char *ending, bt_str *out)
{
    bt_home_list(folder, ending, out);
    if (out->length_bytes == 0) {
        BT_SCOPED(bt_str) path = {0};
        bt_home_path(&path);
        bt_str_format(&path, "/%s", folder);
        bt_home_list(bt_str_text(&path), ending, out);
    }
}

void bt_home_hint(const char *given, const char *names, bt_str *nearest, bt_str *listed)
{
    bt_words_hint(given, names, nearest);
    bt_words_join(names, ", ", listed);
}
