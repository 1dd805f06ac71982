// harness/bundle/write.c - writes a run as files
#include <stdio.h>

#include "framework/base/idioms.h"
#include "harness/bundle/bundle.h"
#include "harness/bundle/content.h"
#include "harness/text/record_json.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "samples are little-endian");

static void write_object(bt_json_writer *json, const char *key, bt_fields_of kind, const void *item)
{
    bt_json_writer_open(json, key, '{');
    bt_fields_write(json, kind, item);
    bt_json_writer_close(json, '}');
}

static bt_status add_text(bt_files *files, const char *name, bt_str *text)
{
    bt_str_append(text, "\n");
    return bt_files_add(files, name, text);
}

static void write_schedule(bt_json_writer *json, const bt_store_schedule *schedule)
{
    bt_json_writer_open(json, "schedule", '{');
    bt_fields_write(json, BT_FIELDS_SCHEDULE, schedule);
    BT_JSON_LIST(json, "systems", i, schedule->system_count) {
        bt_json_writer_open(json, NULL, '{');
        bt_fields_write(json, BT_FIELDS_SYSTEM, &schedule->systems[i]);
        write_object(json, "build", BT_FIELDS_BUILD, &schedule->systems[i].build);
        bt_json_writer_close(json, '}');
    }
    bt_json_writer_close(json, '}');
}

static bt_status add_run(const bt_store_run *run, bt_files *files)
{
    bt_str text = {0};
    bt_json_writer json = {.out = &text, .indent = 1};
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_text(&json, "format", BT_BUNDLE_FORMAT);
    bt_fields_write(&json, BT_FIELDS_RUN, run);
    write_object(&json, "suite", BT_FIELDS_SUITE, &run->info.suite);
    write_object(&json, "build", BT_FIELDS_BUILD, &run->info.build);
    write_schedule(&json, &run->schedule);
    bt_fields_write_list(&json, "gaps", BT_FIELDS_GAP, run->gaps, run->gap_count);
    bt_json_writer_integer(&json, "rounds", run->round_count);
    bt_fields_write_list(&json, "files", BT_FIELDS_FILE, run->files, run->file_count);
    bt_json_writer_close(&json, '}');
    return add_text(files, "run.json", &text);
}

static bt_status add_environment(const bt_store_env *env, bt_files *files)
{
    bt_str text = {0};
    bt_json_writer json = {.out = &text, .indent = 1};
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_text(&json, "digest", env->digest);
    bt_fields_write_list(&json, "facts", BT_FIELDS_FACT, env->facts, env->fact_count);
    bt_json_writer_close(&json, '}');
    return add_text(files, "environment.json", &text);
}

static bt_status add_verdicts(const bt_store_run *run, bt_files *files)
{
    bt_str text = {0};
    bt_json_writer json = {.out = &text, .indent = 1};
    bt_fields_write_list(&json, NULL, BT_FIELDS_VERDICT, run->verdicts, run->verdict_count);
    return add_text(files, "verdicts.json", &text);
}

// One object per line, in a separate file; no file if there are none.
static bt_status add_series(const char *folder, const bt_list *list, const bt_store_round *round,
                            bt_files *files)
{
    bt_str text = {0};
    char path[64];
    int64_t count = 0;
    const char *items = bt_list_get(list, round, &count);
    for (int64_t i = 0; i < count; i++) {
        bt_json_writer json = {.out = &text};
        write_object(&json, NULL, list->kind,
                     items + (size_t)i * bt_fields_info(list->kind)->item_bytes);
        bt_str_append(&text, "\n");
    }
    (void)snprintf(path, sizeof path, "%s/%s.ndjson", folder, list->key);
    return count > 0 ? bt_files_add(files, path, &text) : BT_OK;
}

static void write_measurements(bt_json_writer *json, const bt_store_round *round)
{
    BT_JSON_LIST(json, "measurements", i, round->measurement_count) {
        const bt_store_measurement *item = &round->measurements[i];
        const bt_metric_row *metric = bt_metric_info(item->metric);
        bt_json_writer_open(json, NULL, '{');
        BT_JSON(json, BT_KV("metric", metric->tag), BT_KV("unit", bt_unit_name(metric->unit)));
        bt_fields_write_real(json, "value", item->value);
        bt_fields_write_real(json, "low", item->low);
        bt_fields_write_real(json, "high", item->high);
        if (item->samples) {
            bt_json_writer_integer(json, "samples", item->sample_count);
        } else {
            bt_json_writer_null(json, "samples");
        }
        bt_json_writer_close(json, '}');
    }
}

static bt_status add_samples(const char *folder, const bt_store_round *round, bt_files *files)
{
    BT_EACH(const bt_store_measurement, item, round->measurements, round->measurement_count) {
        bt_str bytes = {0};
        char path[96];
        if (!item->samples) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s.f64", folder, bt_metric_info(item->metric)->tag);
        bt_str_append_bytes(&bytes, item->samples, (size_t)item->sample_count * sizeof(double));
        BT_TRY(bt_files_add(files, path, &bytes));
    }
    return BT_OK;
}

static bt_status add_round(const bt_store_round *round, int64_t index, bt_files *files)
{
    bt_str text = {0};
    char folder[32], path[48];
    bt_json_writer json = {.out = &text, .indent = 1};
    size_t list_count = 0;
    const bt_list *lists = bt_round_lists(&list_count);
    (void)snprintf(folder, sizeof folder, "rounds/%04lld", (long long)index);
    (void)snprintf(path, sizeof path, "%s/round.json", folder);
    bt_json_writer_open(&json, NULL, '{');
    write_object(&json, "case", BT_FIELDS_CASE, &round->what);
    bt_fields_write(&json, BT_FIELDS_ROUND, round);
    write_object(&json, "shape", BT_FIELDS_SHAPE, &round->shape);
    for (size_t i = 0; i < list_count; i++) {
        int64_t count = 0;
        const void *items = bt_list_get(&lists[i], round, &count);
        if (!lists[i].is_file) {
            bt_fields_write_list(&json, lists[i].key, lists[i].kind, items, count);
        }
    }
    write_measurements(&json, round);
    bt_json_writer_close(&json, '}');
    BT_TRY(add_text(files, path, &text));
    for (size_t i = 0; i < list_count; i++) {
        BT_TRY(lists[i].is_file ? add_series(folder, &lists[i], round, files) : BT_OK);
    }
    return add_samples(folder, round, files);
}

bt_status bt_content_write(const bt_store_run *run, bt_files *files)
{
    bt_str plan = {0};
    bt_str_append(&plan, run->info.suite.plan_json);
    BT_TRY(bt_files_add(files, "plan.json", &plan));
    BT_TRY(add_run(run, files));
    BT_TRY(add_environment(&run->info.env, files));
    BT_TRY(add_verdicts(run, files));
    BT_EACH(const bt_store_file, file, run->files, run->file_count) {
        bt_str bytes = {0};
        char name[80];
        (void)snprintf(name, sizeof name, "from/%.64s.json", file->kind);
        bt_str_append_bytes(&bytes, file->bytes, (size_t)file->size_bytes);
        BT_TRY(bt_files_add(files, name, &bytes));
    }
    for (int64_t i = 0; i < run->round_count; i++) {
        BT_TRY(add_round(&run->rounds[i], i, files));
    }
    return BT_OK;
}
