// harness/report/publish_rules.c - the requirements for a publication
#include "harness/report/publish_rules.h"

#include <string.h>

#include "framework/base/find.h"
#include "framework/base/idioms.h"

bool bt_publish_has_peer(const bt_store_run *run)
{
    for (int64_t i = 0; i < run->round_count; i++) {
        if (strcmp(run->rounds[i].what.system, "blutrain") != 0) {
            return true;
        }
    }
    return false;
}

const bt_store_file *bt_publish_versions(const bt_store_run *run)
{
    const int64_t at = BT_FIND(run->files, run->file_count, kind, "versions");
    return at < 0 ? NULL : &run->files[at];
}

// `name`: the system that a build is, NULL for the recorder's.
static void build_faults(const bt_store_run *run, const char *name, const bt_store_build *build,
                         bt_str *out)
{
    const bool modified = build->git_diff[0] != '\0', unknown = build->git_commit[0] == '\0';
    if (modified || unknown) {
        bt_str_format(out, "; run %lld%s%s: %s", (long long)run->id, name ? ", " : "",
                      name ? name : "",
                      modified ? "it was built from a modified tree: commit, build and record again"
                               : "the commit that it was built from is not known");
    }
}

void bt_publish_faults(const bt_store_run *run, bt_str *out)
{
    const bool open = run->status == BT_RUN_INTERRUPTED || run->status == BT_RUN_RUNNING;
    const struct {
        bool broken;
        const char *reason;
    } rules[] = {
        {open, "it was interrupted: finish it with 'bt-bench run --resume'"},
        {bt_publish_has_peer(run) && !bt_publish_versions(run),
         "the versions of its peers were not recorded: record it again"},
    };
    build_faults(run, NULL, &run->info.build, out);
    BT_EACH(const bt_store_system, system, run->schedule.systems, run->schedule.system_count) {
        if (strcmp(system->build.digest, run->info.build.digest) != 0) {
            build_faults(run, system->name, &system->build, out);
        }
    }
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].broken) {
            bt_str_format(out, "; run %lld: %s", (long long)run->id, rules[i].reason);
        }
    }
}
