// harness/report/publish_text.c - the requirements for a publication, and its text
#include "harness/report/publish_text.h"

#include <string.h>

#include "framework/base/find.h"
#include "framework/base/idioms.h"
#include "framework/base/scoped.h"
#include "harness/redact/redact.h"
#include "harness/report/marks.h"
#include "harness/stats/loss.h"

// ---- the requirements for a publication --------------------------------------------------------

static bool has_peer(const bt_store_run *run)
{
    for (int64_t i = 0; i < run->round_count; i++) {
        if (strcmp(run->rounds[i].what.system, "blutrain") != 0) {
            return true;
        }
    }
    return false;
}

static const bt_store_file *versions_of(const bt_store_run *run)
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
        {has_peer(run) && !versions_of(run),
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

// ---- results -----------------------------------------------------------------------------------

static void write_origin(const report_set *set, bt_str *out)
{
    bt_str_format(out, "\nMeasured by bt-bench on %s, in run%s", bt_report_device(set),
                  set->run_count > 1 ? "s" : "");
    for (int64_t i = 0; i < set->run_count; i++) {
        const bt_store_run *run = &set->runs[i];
        bt_str_format(out, "%s %lld (", i ? "," : "", (long long)run->id);
        bt_markdown(out, "%s, profile %s", run->info.suite.name, run->info.suite.profile);
        bt_str_format(out, ", %s)", bt_format_date(run->started_ns).text);
    }
    bt_str_append(out,
                  ". The page `index.html` contains everything below and more, and works offline. "
                  "Written by `bt-bench report --publish`, never by hand.\n");
}

static void write_gaps(const report_set *set, bt_str *out)
{
    BT_EACH(const bt_store_run, run, set->runs, set->run_count) {
        for (int64_t i = 0; i < run->gap_count; i++) {
            bt_str_format(out, "\nRun %lld was ", (long long)run->id);
            bt_report_gap(&run->gaps[i], out);
            bt_str_append(out, ".\n");
        }
    }
}

static bool is_judged(const ratio_list *list)
{
    return (list->count > 0 ? list->rows : list->rest)->verdict[0] != '\0';
}

static void write_verdicts(const report_set *set, bt_str *out)
{
    BT_EACH(const ratio_list, list, set->ratios, set->ratio_count) {
        if (is_judged(list)) {
            bt_table table = {0};
            bt_str_append(out, "\n");
            bt_table_heads(&table, "verdict|>count");
            bt_marks_rows(list, &table);
            bt_table_markdown(&table, out);
        }
    }
}

static bool has_file(const publish_file *files, int count, const char *start)
{
    for (int i = 0; i < count; i++) {
        if (strncmp(files[i].name, start, strlen(start)) == 0) {
            return true;
        }
    }
    return false;
}

static void write_plots(const publish_file *files, int count, bt_str *out)
{
    for (int i = 0; i < count; i++) {
        size_t length = strlen(files[i].name);
        if (length > 4 && strcmp(files[i].name + length - 4, ".svg") == 0) {
            bt_str_format(out, "\n![%s](%s)\n", files[i].what, files[i].name);
        }
    }
}

// ---- environment and rerun ---------------------------------------------------------------------

// Lists what was removed; nothing if nothing was.
static void write_left_out(const bt_store_run *run, bt_str *out)
{
    const char *before = " Facts that identify this machine were omitted: ";
    BT_EACH(const bt_store_fact, fact, run->info.env.facts, run->info.env.fact_count) {
        if (strcmp(fact->value, BT_REDACT_LEFT_OUT) == 0) {
            bt_str_append(out, before);
            bt_markdown_text(out, fact->key);
            before = ", ";
        }
    }
    bt_str_append(out, before[0] == ',' ? ".\n" : "\n");
}

static void write_environment(const bt_store_run *run, bt_str *out)
{
    bt_str_format(out,
                  "\n## Environment of run %lld\n\nHard and soft facts; all of them are in "
                  "[environment.json](environment.json).",
                  (long long)run->id);
    write_left_out(run, out);
    bt_str_append(out, "\n");
    bt_markdown_facts(run, BT_FACT_SOFT, out);
}

// In earlier records words are not quoted, and contain globs that a shell would expand.
static bool is_bare_glob(const char *word, size_t length)
{
    bool quoted = memchr(word, '\'', length) != NULL;
    return !quoted &&
           (memchr(word, '*', length) || memchr(word, '?', length) || memchr(word, '[', length));
}

// The length of a word of a command and the space before it; a quoted word may contain spaces.
static size_t word_length(const char *rest)
{
    size_t length = 1;
    for (bool quoted = false; rest[length] && (quoted || rest[length] != ' '); length++) {
        quoted = quoted != (rest[length] == '\'');
    }
    return length;
}

// The length of the options at `rest` with result paths of the recorder's machine: they do not
// affect measurements.
static size_t places_length(const char *rest)
{
    static const char *const options[] = {" --db", " --out"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        size_t length = strlen(options[i]);
        if (strncmp(rest, options[i], length) == 0) {
            const char *value = rest + length;
            return *value == '=' || *value == ' ' ? length + word_length(value) : 0;
        }
    }
    return 0;
}

// The words after the program's name, without newlines: they are inside a code block.
static void write_command(const char *command, bt_str *out)
{
    const char *rest = strchr(command, ' ');
    bt_str_append(out, "./bt-bench");
    while (rest && *rest) {
        size_t places = places_length(rest);
        if (places > 0) {
            rest += places;
            continue;
        }
        size_t length = word_length(rest);
        bool glob = is_bare_glob(rest + 1, length - 1);
        bt_str_append(out, glob ? " '" : " ");
        for (size_t i = 1; i < length; i++) {
            bt_str_append_bytes(out, strchr("\r\n`", rest[i]) ? " " : rest + i, 1);
        }
        bt_str_append(out, glob ? "'" : "");
        rest += length;
    }
    bt_str_append(out, "\n");
}

static void write_digests(const report_set *set, const bt_store_run *run, bt_str *out)
{
    bt_table table = {0};
    bt_str_append(out, "\nPlan and data are the same on every machine. Parameters and training "
                       "state have the same bits on one machine with one build.\n\n");
    bt_table_heads(&table, "part|digest");
    bt_table_cells(&table, "plan|%s|build|%s|environment|%s", run->info.suite.plan_hash,
                   run->info.build.digest, run->info.env.digest);
    BT_EACH(const bt_store_fact, fact, run->info.env.facts, run->info.env.fact_count) {
        if (strncmp(fact->key, "data.", 5) == 0) {
            bt_table_cells(&table, "%s|%s", fact->key, fact->value);
        }
    }
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        const char *digest = item->round->params_digest;
        if (item->run == run && digest[0]) {
            bt_table_cells(&table, "%s of %s|%s",
                           bt_digest_is_of_state(digest) ? "training state" : "parameters",
                           item->label, digest);
        }
    }
    bt_table_markdown(&table, out);
}

// The packages of each peer, collapsed; the record has them as the peers reported them.
static void write_versions(const bt_store_run *run, bt_str *out)
{
    const bt_store_file *file = versions_of(run);
    cJSON *said = file ? cJSON_ParseWithLength(file->bytes, (size_t)file->size_bytes) : NULL;
    const cJSON *system = NULL;
    if (!has_peer(run)) {
        return;
    }
    bt_str_format(out, "\n## Versions of the peers, run %lld\n", (long long)run->id);
    cJSON_ArrayForEach(system, said) {
        bt_markdown(out, "\n<details><summary>%s</summary>\n\n```\n", system->string);
        for (const char *at = cJSON_IsString(system) ? system->valuestring : ""; *at; at++) {
            bt_str_append_bytes(out, *at == '`' ? "'" : at, 1);
        }
        bt_str_append(out, "\n```\n\n</details>\n");
    }
    bt_str_append(out, said ? "" : "\nNot recorded.\n");
    cJSON_Delete(said);
}

// A user's own suite file is not in a clone. bundle: its path in a clone, NULL: there is none.
static void write_own_suite(const bt_store_run *run, const char *bundle, bt_str *out)
{
    static const char shipped[] = "suites/";
    const char *path = run->info.suite.path ? run->info.suite.path : "";
    if (!*path || strncmp(path, shipped, strlen(shipped)) == 0) {
        return;
    }
    bt_markdown(out, "\nThe suite file %s", path);
    bt_str_append(out, " is not part of the repository.");
    if (bundle) {
        bt_str_format(out,
                      " The bundle contains a copy:\n\n```\n"
                      "tar --zstd -xf %s from/suite.json\n```",
                      bundle);
    }
    bt_str_append(out, "\n");
}

static void write_rerun(const report_set *set, const char *bundle, bt_str *out)
{
    bt_str_append(out, "\n## How to run it again\n");
    BT_EACH(const bt_store_run, run, set->runs, set->run_count) {
        const char *commit = run->info.build.git_commit;
        bt_str_format(out, "\nRun %lld, in a clone of this repository:\n\n```\n",
                      (long long)run->id);
        if (commit[0]) {
            bt_str_format(out, "git checkout %s\n", commit);
        }
        write_command(run->info.command, out);
        bt_str_append(out, "```\n");
        write_own_suite(run, bundle, out);
        if (run->info.build.git_diff[0]) {
            bt_markdown(
                out, "\nThe build had changes that are not in that commit; their digest is %s.\n",
                run->info.build.git_diff);
        }
        write_digests(set, run, out);
    }
    if (bundle) {
        bt_str_format(out,
                      "\nEvery verdict can be recomputed from the raw samples, without a GPU:"
                      "\n\n```\n./bt-bench verify %s\n```\n",
                      bundle);
    }
}

static void write_files(const publish_file *files, int count, bt_str *out)
{
    bt_str_append(out, "\n## Files\n\n| file | what | SHA-256 |\n|---|---|---|\n");
    for (int i = 0; i < count; i++) {
        bt_str_format(out, "| [%s](%s) | %s | `%s` |\n", files[i].name, files[i].name,
                      files[i].what, files[i].digest);
    }
}

bt_status bt_publish_readme(const report_set *set, const bt_publication *publication,
                            const publish_file *files, int count, bt_str *out)
{
    // As the commands: from the root of a clone, without folders of this machine.
    BT_SCOPED(bt_str) path = {0}, bundle = {0};
    bt_str_format(&path, "%s/bundle.tar.zst", publication->folder);
    bt_redact_shorten(bt_str_text(&path), path.length_bytes, &bundle);
    BT_TRY(bt_str_status(&path));
    BT_TRY(bt_str_status(&bundle));
    bt_markdown_headline(set, out);
    if (set->draft) {
        bt_markdown(out, "\n**This is a draft, not to be relied on**: %s.\n", set->draft);
    }
    write_origin(set, out);
    write_gaps(set, out);
    write_verdicts(set, out);
    write_plots(files, count, out);
    BT_TRY(bt_markdown_deviations(set, out));
    bt_markdown_ratios(set, out);
    bt_str_append(out, "\n## Cases\n");
    BT_TRY(bt_markdown_cases(set, out));
    BT_TRY(bt_markdown_ranks(set, out));
    bt_markdown_timelines(set, out);
    BT_TRY(bt_markdown_ranges(set, out));
    for (int64_t i = 0; i < set->run_count; i++) {
        write_environment(&set->runs[i], out);
        write_versions(&set->runs[i], out);
    }
    write_rerun(set, has_file(files, count, "bundle.") ? bt_str_text(&bundle) : NULL, out);
    write_files(files, count, out);
    return bt_str_status(out);
}

bt_status bt_publish_environment(const report_set *set, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 1};
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_text(&json, "format", "bt-bench environment 1");
    if (set->draft) {
        bt_json_writer_text(&json, "draft", set->draft);
    }
    BT_JSON_LIST(&json, "runs", i, set->run_count) {
        bt_json_writer_open(&json, NULL, '{');
        BT_JSON(&json, BT_KV("run", set->runs[i].id), BT_OF(&set->runs[i].info.env, digest));
        bt_json_write_setting(&json, &set->runs[i]);
        bt_json_writer_close(&json, '}');
    }
    return bt_json_writer_end(&json, '}');
}
