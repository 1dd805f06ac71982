// harness/bundle/read.c - reads a run from the files of a bundle
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/bundle/bundle.h"
#include "harness/bundle/content.h"
#include "harness/record/keep.h"
#include "harness/text/record_json.h"

enum { ROUNDS_MAX = 100000 };

typedef struct content_reader {
    const bt_files *files;
    bt_store_run *run;
    bt_arena *arena; // the run's
} content_reader;

static bt_status find_file(const content_reader *in, const char *name, const bt_file **out)
{
    *out = bt_files_find(in->files, name);
    return *out ? BT_OK : bt_error(BT_STATUS_INVALID_ARGUMENT, "%s is missing", name);
}

static bt_status parse_file(const content_reader *in, const char *name, bt_json_doc *out)
{
    const bt_file *file = NULL;
    BT_TRY(find_file(in, name, &file));
    return bt_json_parse(name, file->bytes, file->size_bytes, out);
}

// ---- lists -------------------------------------------------------------------------------------

// Reads a list of records; `items` is the address of a pointer to them, which are in the arena.
static bt_status read_list(const content_reader *in, const cJSON *list, const char *place,
                           bt_fields_of kind, void *items, int64_t *count)
{
    const size_t item_bytes = bt_fields_info(kind)->item_bytes;
    char *item = NULL;
    BT_FAIL_IF(!cJSON_IsArray(list), BT_STATUS_INVALID_ARGUMENT, "%s: a list is missing", place);
    *count = cJSON_GetArraySize(list);
    BT_TRY(bt_arena_array(in->arena, (size_t)*count, item_bytes, &item));
    memcpy(items, &item, sizeof item);
    for (const cJSON *node = list->child; node; node = node->next, item += item_bytes) {
        BT_TRY(bt_fields_read(node, place, kind, in->arena, item));
    }
    return BT_OK;
}

static bt_status read_line(const content_reader *in, const char *place, const char *line,
                           size_t size_bytes, bt_fields_of kind, void *item)
{
    BT_SCOPED(bt_json_doc) json = {0};
    BT_TRY(bt_json_parse(place, line, size_bytes, &json));
    return bt_fields_read(json.root, place, kind, in->arena, item);
}

// One object per line. A missing file is an empty list.
static bt_status read_series(const content_reader *in, const char *folder, const bt_list *list,
                             void **items, int64_t *count)
{
    char path[64], place[96];
    const size_t item_bytes = bt_fields_info(list->kind)->item_bytes;
    (void)snprintf(path, sizeof path, "%s/%s.ndjson", folder, list->key);
    const bt_file *file = bt_files_find(in->files, path);
    const char *begin = file ? file->bytes : "", *end = begin + (file ? file->size_bytes : 0);
    int64_t lines = 1; // at most
    for (const char *at = begin; at < end; at++) {
        lines += *at == '\n';
    }
    BT_TRY(bt_arena_array(in->arena, (size_t)lines, item_bytes, items));
    for (const char *at = begin; at < end; ++*count) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        (void)snprintf(place, sizeof place, "%s, line %lld", path, (long long)*count + 1);
        BT_TRY(read_line(in, place, at, (size_t)(stop - at), list->kind,
                         (char *)*items + (size_t)*count * item_bytes));
        at = newline ? newline + 1 : end;
    }
    return BT_OK;
}

// ---- rounds ------------------------------------------------------------------------------------

static bt_status read_samples(const content_reader *in, const char *folder, double count,
                              bt_store_measurement *item)
{
    char path[96];
    const bt_file *file = NULL;
    (void)snprintf(path, sizeof path, "%s/%s.f64", folder, bt_metric_info(item->metric)->tag);
    BT_TRY(find_file(in, path, &file));
    size_t samples = file->size_bytes / sizeof(double);
    BT_FAIL_IF(file->size_bytes % sizeof(double) != 0 || !(count == (double)samples),
               BT_STATUS_INVALID_ARGUMENT, "%s: %zu bytes are not %.0f samples of 8 bytes", path,
               file->size_bytes, count);
    double *copy = NULL;
    BT_TRY(BT_ARENA_ARRAY(in->arena, samples, &copy));
    memcpy(copy, file->bytes, file->size_bytes);
    item->samples = copy;
    item->sample_count = (int64_t)samples;
    return BT_OK;
}

static bt_status read_measurement(const content_reader *in, const char *folder, const char *place,
                                  const cJSON *node, bt_store_measurement *item)
{
    const cJSON *metric = bt_json_get(node, "metric");
    const cJSON *samples = bt_json_get(node, "samples");
    BT_FAIL_IF(!cJSON_IsString(metric) || !bt_metric_parse(metric->valuestring, &item->metric),
               BT_STATUS_INVALID_ARGUMENT, "%s: a measurement of an unknown metric", place);
    BT_TRY(bt_fields_real(node, place, "value", &item->value));
    BT_TRY(bt_fields_real(node, place, "low", &item->low));
    BT_TRY(bt_fields_real(node, place, "high", &item->high));
    if (!cJSON_IsNumber(samples)) {
        return BT_OK;
    }
    return read_samples(in, folder, samples->valuedouble, item);
}

static bt_status read_measurements(const content_reader *in, const char *folder, const char *place,
                                   const cJSON *list, bt_store_round *round)
{
    size_t count = cJSON_IsArray(list) ? (size_t)cJSON_GetArraySize(list) : 0;
    BT_FAIL_IF(!cJSON_IsArray(list), BT_STATUS_INVALID_ARGUMENT, "%s: \"measurements\" is missing",
               place);
    bt_store_measurement *items = NULL;
    BT_TRY(BT_ARENA_ARRAY(in->arena, count, &items));
    round->measurements = items;
    for (const cJSON *node = list->child; node; node = node->next) {
        BT_TRY(read_measurement(in, folder, place, node, &items[round->measurement_count++]));
    }
    return BT_OK;
}

static bt_status read_round_object(const content_reader *in, const char *folder, const char *place,
                                   const cJSON *json, bt_store_round *round)
{
    BT_TRY(
        bt_fields_read(bt_json_get(json, "case"), place, BT_FIELDS_CASE, in->arena, &round->what));
    BT_TRY(bt_fields_read(json, place, BT_FIELDS_ROUND, in->arena, round));
    BT_TRY(bt_fields_read(bt_json_get(json, "shape"), place, BT_FIELDS_SHAPE, in->arena,
                          &round->shape));
    size_t count = 0;
    const bt_list *lists = bt_round_lists(&count);
    for (size_t i = 0; i < count; i++) {
        const bt_list *list = &lists[i];
        void *items = NULL;
        int64_t found = 0;
        BT_TRY(list->is_file ? read_series(in, folder, list, &items, &found)
                             : read_list(in, bt_json_get(json, list->key), place, list->kind,
                                         &items, &found));
        bt_list_set(list, round, items, found);
    }
    return read_measurements(in, folder, place, bt_json_get(json, "measurements"), round);
}

static bt_status read_round(const content_reader *in, int64_t index, bt_store_round *round)
{
    char folder[32], path[48];
    BT_SCOPED(bt_json_doc) json = {0};
    (void)snprintf(folder, sizeof folder, "rounds/%04lld", (long long)index);
    (void)snprintf(path, sizeof path, "%s/round.json", folder);
    round->id = index + 1;
    BT_TRY(parse_file(in, path, &json));
    return read_round_object(in, folder, path, json.root, round);
}

// ---- the run -----------------------------------------------------------------------------------

static bt_status check_format(const cJSON *json)
{
    const char *text = bt_json_text_of(json, "format");
    if (strcmp(text, BT_BUNDLE_FORMAT) == 0) {
        return BT_OK;
    }
    return bt_error(strncmp(text, "bt-bench bundle ", 16) == 0 ? BT_STATUS_UNSUPPORTED
                                                               : BT_STATUS_INVALID_ARGUMENT,
                    "run.json: the format is \"%.40s\"; this program supports \"%s\"", text,
                    BT_BUNDLE_FORMAT);
}

// Builds of systems are inside the systems, so their list is read a second time.
static bt_status read_schedule(const content_reader *in, const cJSON *json)
{
    static const char place[] = "run.json, schedule";
    bt_store_schedule *schedule = &in->run->schedule;
    const cJSON *list = bt_json_get(json, "systems");
    bt_store_system *systems = NULL;
    BT_TRY(bt_fields_read(json, place, BT_FIELDS_SCHEDULE, in->arena, schedule));
    BT_TRY(read_list(in, list, place, BT_FIELDS_SYSTEM, &systems, &schedule->system_count));
    schedule->systems = systems;
    for (const cJSON *node = list->child; node; node = node->next) {
        BT_TRY(bt_fields_read(bt_json_get(node, "build"), place, BT_FIELDS_BUILD, in->arena,
                              &systems++->build));
    }
    return BT_OK;
}

// The files that the run was made from, whose list has been read.
static bt_status read_origins(const content_reader *in, bt_store_file *items, int64_t count)
{
    BT_EACH(bt_store_file, item, items, count) {
        char name[80];
        const bt_file *file = NULL;
        (void)snprintf(name, sizeof name, "from/%.64s.json", item->kind);
        BT_TRY(find_file(in, name, &file));
        BT_TRY(bt_keep_part(in->arena, file->bytes, file->size_bytes, &item->bytes));
        item->size_bytes = (int64_t)file->size_bytes;
    }
    return BT_OK;
}

static bt_status read_run_object(const content_reader *in, const cJSON *json)
{
    bt_store_run *run = in->run;
    bt_store_file *files = NULL;
    const cJSON *count = bt_json_get(json, "rounds");
    BT_TRY(check_format(json));
    BT_TRY(bt_fields_read(json, "run.json", BT_FIELDS_RUN, in->arena, run));
    BT_TRY(bt_fields_read(bt_json_get(json, "suite"), "run.json, suite", BT_FIELDS_SUITE, in->arena,
                          &run->info.suite));
    BT_TRY(bt_fields_read(bt_json_get(json, "build"), "run.json, build", BT_FIELDS_BUILD, in->arena,
                          &run->info.build));
    BT_TRY(read_schedule(in, bt_json_get(json, "schedule")));
    BT_TRY(read_list(in, bt_json_get(json, "gaps"), "run.json, gaps", BT_FIELDS_GAP, &run->gaps,
                     &run->gap_count));
    BT_TRY(read_list(in, bt_json_get(json, "files"), "run.json, files", BT_FIELDS_FILE, &files,
                     &run->file_count));
    run->files = files;
    BT_TRY(read_origins(in, files, run->file_count));
    BT_FAIL_IF(!cJSON_IsNumber(count) ||
                   !(count->valuedouble >= 0 && count->valuedouble <= ROUNDS_MAX),
               BT_STATUS_INVALID_ARGUMENT, "run.json: \"rounds\" is missing or invalid");
    run->round_count = (int64_t)count->valuedouble;
    return BT_OK;
}

static bt_status read_environment(const content_reader *in, const cJSON *json)
{
    bt_store_env *env = &in->run->info.env;
    const cJSON *digest = bt_json_get(json, "digest");
    BT_FAIL_IF(!cJSON_IsString(digest), BT_STATUS_INVALID_ARGUMENT,
               "environment.json: \"digest\" is missing");
    BT_TRY(bt_keep(in->arena, digest->valuestring, &env->digest));
    return read_list(in, bt_json_get(json, "facts"), "environment.json", BT_FIELDS_FACT,
                     &env->facts, &env->fact_count);
}

static bt_status read_verdicts(const content_reader *in, const cJSON *json)
{
    return read_list(in, json, "verdicts.json", BT_FIELDS_VERDICT, &in->run->verdicts,
                     &in->run->verdict_count);
}

// Reads a file of JSON.
static bt_status read_json(const content_reader *in, const char *name,
                           bt_status (*read)(const content_reader *in, const cJSON *json))
{
    BT_SCOPED(bt_json_doc) json = {0};
    BT_TRY(parse_file(in, name, &json));
    return read(in, json.root);
}

static bt_status read_all(const content_reader *in)
{
    bt_store_run *run = in->run;
    const bt_file *plan = NULL;
    BT_TRY(read_json(in, "run.json", read_run_object));
    BT_TRY(find_file(in, "plan.json", &plan));
    BT_TRY(bt_keep(in->arena, plan->bytes, &run->info.suite.plan_json));
    run->info.out_dir = "";
    BT_TRY(read_json(in, "environment.json", read_environment));
    BT_TRY(read_json(in, "verdicts.json", read_verdicts));
    bt_store_round *rounds = NULL;
    BT_TRY(BT_ARENA_ARRAY(in->arena, run->round_count, &rounds));
    run->rounds = rounds;
    for (int64_t i = 0; i < run->round_count; i++) {
        BT_TRY(read_round(in, i, &rounds[i]));
    }
    bt_store_rounds_mark(rounds, run->round_count);
    return BT_OK;
}

bt_status bt_content_read(const bt_files *files, bt_store_run *run)
{
    memset(run, 0, sizeof *run);
    content_reader in = {files, run, &run->arena};
    bt_status status = read_all(&in);
    if (status != BT_OK) {
        bt_store_run_release(run);
    }
    return status;
}
