// harness/report/write.c - the report as a file of any format, or appended to a string
#include <string.h>

#include "framework/base/file.h"
#include "harness/report/internal.h"
#include "harness/report/report.h"

static bt_status write_set(bt_store *store, const int64_t *runs, int64_t count, bool trends,
                           report_part write, bt_str *out)
{
    report_set set;
    BT_TRY(bt_report_set_read(store, runs, count, NULL, &set));
    bt_status status = trends ? bt_trends_read(store, &set) : BT_OK;
    BT_IF_OK(status, write(&set, out));
    bt_report_set_release(&set);
    return status;
}

bt_status bt_report_html(bt_store *store, const int64_t *runs, int64_t count, bt_str *out)
{
    return write_set(store, runs, count, true, bt_page_write, out);
}

bt_status bt_report_markdown(bt_store *store, const int64_t *runs, int64_t count, bt_str *out)
{
    return write_set(store, runs, count, false, bt_markdown_write, out);
}

bt_status bt_report_json(bt_store *store, const int64_t *runs, int64_t count, bt_str *out)
{
    return write_set(store, runs, count, false, bt_json_write_report, out);
}

static const struct {
    const char *ending;
    bt_status (*write)(bt_store *store, const int64_t *runs, int64_t count, bt_str *out);
} formats[] = {{".html", bt_report_html},
               {".md", bt_report_markdown},
               {".json", bt_report_json},
               {".steps.csv", bt_report_steps_csv},
               {".samples.csv", bt_report_samples_csv},
               {".csv", bt_report_csv}};

static bool ends_with(const char *path, const char *ending)
{
    const size_t length = strlen(path), part = strlen(ending);
    return length >= part && strcmp(path + length - part, ending) == 0;
}

bt_status bt_report_write(bt_store *store, const int64_t *runs, int64_t count, const char *path)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (!ends_with(path, formats[i].ending)) {
            continue;
        }
        bt_str text = {0};
        bt_status status = formats[i].write(store, runs, count, &text);
        BT_IF_OK(status, bt_file_write(path, bt_str_text(&text), text.length_bytes));
        bt_str_release(&text);
        return status;
    }
    return bt_error(
        BT_STATUS_INVALID_ARGUMENT,
        "report '%s': the extension selects the format; expected .html, .md, .json, .csv, "
        ".steps.csv or .samples.csv",
        path);
}
