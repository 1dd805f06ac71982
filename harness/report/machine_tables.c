// harness/report/machine_tables.c - raw tables of memory by phase, and of the samples taken beside
// a round
#include <math.h>
#include <string.h>

#include "harness/report/internal.h"

enum { STILL_ROWS = 60 };

static void write_memory(const report_case *item, int64_t index, bt_str *out)
{
    for (int64_t i = 0; i < item->round->memory_count; i++) {
        const bt_store_memory *memory = &item->round->memory[i];
        bt_str_format(out, "<tr id=\"c%lld-memory-%lld\"><th scope=row>", (long long)index,
                      (long long)i);
        bt_html_tag(out, item);
        bt_html(out, "%s</th><td>%s", item->label, memory->phase);
        const int64_t values[] = {memory->peak_allocated_bytes, memory->peak_reserved_bytes,
                                  memory->device_used_bytes, memory->peak_resident_bytes};
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            bt_str_format(out, "<td class=n data-v=%lld>%s", (long long)values[v],
                          values[v] > 0 ? bt_format_value(BT_UNIT_BYTES, (double)values[v]).text
                                        : "-");
        }
        bt_str_append(out, "\n");
    }
}

void bt_page_memory(const report_set *set, bt_str *out)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        rows += bt_report_is_kernel(set->cases[i].round) ? 0 : set->cases[i].round->memory_count;
    }
    if (rows == 0) {
        return; // of a kernel case the metrics say it
    }
    bt_str_append(out, "<details><summary>Memory by phase</summary><div class=scroll><table "
                       "data-name=memory><thead><tr><th>case<th>phase<th class=n>peak of our "
                       "allocator<th class=n>peak held<th class=n>used on the device<th class=n>"
                       "peak resident</thead><tbody>\n");
    for (int64_t i = 0; i < set->case_count; i++) {
        if (!bt_report_is_kernel(set->cases[i].round)) {
            write_memory(&set->cases[i], i, out);
        }
    }
    bt_str_append(out, "</tbody></table></div></details>\n");
}

// ---- samples -----------------------------------------------------------------------------------

static bool has_samples(const report_case *item)
{
    return item->round->telemetry_count > 0 && item->round->step_count > 0;
}

static void write_sample(const report_case *item, int64_t index, int64_t at, bt_str *out)
{
    bt_str_format(out, "<tr id=\"c%lld-sample-%lld\"><th scope=row class=n>%lld</th>",
                  (long long)index, (long long)at, (long long)at);
    for (int c = 0; c < BT_TELEMETRY_COLUMNS; c++) {
        double value = bt_telemetry_value(&item->round->telemetry[at], c);
        bt_str_append(out, "<td class=n>");
        if (isfinite(value)) {
            bt_str_format(out, "%.6g", value);
        }
    }
    bt_str_append(out, "\n");
}

static void write_samples(const report_case *item, int64_t index, bt_str *out)
{
    int64_t count = item->round->telemetry_count, shown = count < STILL_ROWS ? count : STILL_ROWS;
    bt_str_append(out, "<details><summary>The machine beside ");
    bt_html_tag(out, item);
    bt_html_text(out, item->label);
    bt_str_format(out,
                  " <span class=muted>%s samples%s</span></summary><div class=scroll><table "
                  "data-name=\"samples-%s\" data-csv=\"csv-samples-%lld\"><thead><tr><th class=n>"
                  "sample",
                  bt_format_count(count).text, shown < count ? ", some of them shown" : "",
                  item->tag, (long long)index);
    for (int c = 0; c < BT_TELEMETRY_COLUMNS; c++) {
        const bt_telemetry_column *column = bt_telemetry_column_info(c);
        bt_str_format(out, "<th class=n title=\"%s\">%s", column->description, column->name);
    }
    bt_str_append(out, "</thead><tbody>\n");
    for (int64_t i = 0; i < shown; i++) {
        write_sample(item, index, shown > 1 ? i * (count - 1) / (shown - 1) : 0, out);
    }
    bt_str_append(out, "</tbody></table></div></details>\n");
}

void bt_page_samples(const report_set *set, bt_str *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        count += has_samples(&set->cases[i]);
    }
    bt_html_group_open(out, "The machine beside the cases", count);
    for (int64_t i = 0; i < set->case_count; i++) {
        if (has_samples(&set->cases[i])) {
            write_samples(&set->cases[i], i, out);
        }
    }
    bt_html_group_close(out, count);
}

enum { CSV_SAMPLES = 4000 };

void bt_page_samples_csv(const report_set *set, bt_str *out)
{
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *item = &set->cases[i];
        int64_t count = item->round->telemetry_count, stride = 1 + count / CSV_SAMPLES;
        if (!has_samples(item)) {
            continue;
        }
        bt_str_format(out, "<script type=\"text/csv\" id=\"csv-samples-%lld\">\nsample",
                      (long long)i);
        for (int c = 0; c < BT_TELEMETRY_COLUMNS; c++) {
            bt_str_format(out, ",%s", bt_telemetry_column_info(c)->name);
        }
        bt_str_append(out, "\n");
        for (int64_t j = 0; j < count; j += stride) {
            bt_str_format(out, "%lld", (long long)j);
            for (int c = 0; c < BT_TELEMETRY_COLUMNS; c++) {
                double value = bt_telemetry_value(&item->round->telemetry[j], c);
                bt_str_append(out, ",");
                if (isfinite(value)) {
                    bt_str_format(out, "%.6g", value);
                }
            }
            bt_str_append(out, "\n");
        }
        bt_str_append(out, "</script>\n");
    }
}
