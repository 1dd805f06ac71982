// harness/run/peer.c - finds the programs of peers
#include "harness/run/peer.h"

#include <string.h>
#include <unistd.h>

#include "framework/base/scoped.h"
#include "harness/suite/suite.h"

// Sets *program to the program of harness/peers/NAME for the longest NAME that begins the system's
// name and ends before a '-' or at its end.
static bool find_program(const char *root, const char *system, bt_str *program)
{
    static const char *const files[] = {"peer.py", "peer.sh", "peer"};
    for (size_t length = strlen(system); length > 0; --length) {
        if (system[length] != '\0' && system[length] != '-') {
            continue;
        }
        for (size_t i = 0; i < sizeof files / sizeof files[0]; ++i) {
            bt_str_clear(program);
            bt_str_format(program, "%s/harness/peers/%.*s/%s", root, (int)length, system, files[i]);
            if (access(bt_str_text(program), X_OK) == 0) {
                return true;
            }
        }
    }
    return false;
}

// The folders in harness/peers that contain a program, separated by '|'. Others contain shared
// files.
static void list_peers(const char *root, const char *folder, bt_str *names)
{
    BT_SCOPED(bt_str) all = {0}, name = {0}, program = {0};
    bt_home_names(folder, "", &all);
    for (const char *at = bt_str_text(&all); *at; at += at[0] == '|') {
        const size_t length = strcspn(at, "|");
        bt_str_clear(&name);
        bt_str_append_bytes(&name, at, length);
        if (find_program(root, bt_str_text(&name), &program)) {
            bt_str_format(names, "%s%s", names->length_bytes > 0 ? "|" : "", bt_str_text(&name));
        }
        at += length;
    }
}

static bt_status no_system(const char *root, const char *given)
{
    BT_SCOPED(bt_str) folder = {0}, names = {0}, nearest = {0}, listed = {0};
    bt_str_format(&folder, "%s/harness/peers", root);
    list_peers(root, bt_str_text(&folder), &names);
    bt_home_hint(given, bt_str_text(&names), &nearest, &listed);
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "no system \"%s\"%s\nallowed: blutrain; a peer of %s (%s), alone or with more "
                    "after a dash, as in pytorch-eager; any other program by its path, as in "
                    "--system blutrain,./peer.py",
                    given, bt_str_text(&nearest), bt_str_text(&folder), bt_str_text(&listed));
}

// A file that exists and cannot be started needs another remedy than an unknown name.
static bt_status not_found(const char *root, const char *given)
{
    BT_FAIL_IF(strchr(given, '/') && access(given, F_OK) == 0, BT_STATUS_INVALID_ARGUMENT,
               "%s: exists but cannot be executed: run 'chmod +x %s'", given, given);
    BT_FAIL_IF(strchr(given, '/'), BT_STATUS_UNAVAILABLE,
               "%s: no such program; --system takes names "
               "of peers and paths of programs",
               given);
    return no_system(root, given);
}

static bt_status not_named(const char *path)
{
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "the suite names the program \"%s\", which needs permission; nothing was "
                    "started\nread the program, then add it to --system LIST, or add --trust to "
                    "start every program that the suite names",
                    path);
}

static bt_status find_peer(const char *system, bool trusted, bt_peer *out)
{
    const char *slash = strrchr(system, '/');
    BT_TRY(bt_mem_strdup(slash ? slash + 1 : system, &out->name));
    if (strcmp(system, "blutrain") == 0) {
        return BT_OK;
    }
    if (slash && !trusted) {
        return not_named(system);
    }
    BT_SCOPED(bt_str) root = {0}, program = {0};
    bool installed = bt_home_path(&root), found = false;
    if (slash) {
        bt_str_append(&program, system);
        found = access(system, X_OK) == 0;
    } else {
        found = installed && find_program(bt_str_text(&root), system, &program);
    }
    BT_TRY(bt_str_status(&program));
    if (!found) {
        BT_TRY(not_found(bt_str_text(&root), system));
    }
    return bt_str_take(&program, &out->program);
}

// The record stores rounds by system name, so that names must be unique.
static bt_status check_name_is_new(const cJSON *systems, const bt_peers *peers)
{
    const char *name = peers->items[peers->count - 1].name;
    for (int i = 0; i < (int)peers->count - 1; ++i) {
        BT_FAIL_IF(strcmp(peers->items[i].name, name) == 0, BT_STATUS_INVALID_ARGUMENT,
                   "the systems \"%s\" and \"%s\" have the same name, \"%s\", and nothing was "
                   "started: expected different names\ncopy one program to another file name; to "
                   "compare a build with itself or another: bt-bench ab BASE CANDIDATE SUITE",
                   cJSON_GetArrayItem(systems, i)->valuestring,
                   cJSON_GetArrayItem(systems, (int)peers->count - 1)->valuestring, name);
    }
    return BT_OK;
}

bt_status bt_peers_find(const cJSON *systems, bool trusted, bt_peers *out)
{
    int64_t count = systems ? cJSON_GetArraySize(systems) : 1;
    memset(out, 0, sizeof *out);
    BT_TRY(BT_MEM_ARRAY(count, &out->items));
    if (!systems) {
        out->count = 1;
        return find_peer("blutrain", trusted, &out->items[0]);
    }
    for (const cJSON *node = systems->child; node; node = node->next) {
        BT_TRY(find_peer(node->valuestring, trusted, &out->items[out->count++]));
        BT_TRY(check_name_is_new(systems, out));
    }
    return BT_OK;
}

void bt_peers_release(bt_peers *peers)
{
    for (int64_t i = 0; i < peers->count; ++i) {
        bt_mem_free(peers->items[i].name);
        bt_mem_free(peers->items[i].program);
    }
    bt_mem_free(peers->items);
    memset(peers, 0, sizeof *peers);
}
