// harness/report/outputs.c - who checked the outputs of kernel cases
#include "harness/report/outputs.h"

#include <string.h>

#include "harness/report/internal.h"

const char *bt_outputs_of(const bt_store_round *round)
{
    if (round->status != BT_RUN_PASSED || !bt_report_is_kernel(round)) {
        return "";
    }
    for (int64_t i = 0; i < round->measurement_count; ++i) {
        if (round->measurements[i].metric == BT_METRIC_OUTPUT_ERROR_SHARE) {
            return "verified";
        }
    }
    return strcmp(round->what.system, "blutrain") == 0 ? "own" : "self-reported";
}

void bt_outputs_note(bt_outputs *self, const bt_store_round *round)
{
    const char *checked = bt_outputs_of(round);
    int row = 0;
    if (strcmp(checked, "") == 0 || strcmp(checked, "own") == 0) {
        return;
    }
    while (row < self->count && strcmp(self->rows[row].system, round->what.system) != 0) {
        ++row;
    }
    if (row == BT_OUTPUTS_SYSTEMS_MAX) {
        return;
    }
    self->count += row == self->count;
    self->rows[row].system = round->what.system;
    self->rows[row].verified += strcmp(checked, "verified") == 0;
    self->rows[row].self_reported += strcmp(checked, "self-reported") == 0;
}

void bt_outputs_write(const bt_outputs *self, const char *bullet, bt_str *out)
{
    for (int i = 0; i < self->count; ++i) {
        const int64_t verified = self->rows[i].verified;
        const int64_t other = self->rows[i].self_reported;
        bt_str_format(out, "%s%s: ", bullet, self->rows[i].system);
        if (verified > 0) {
            bt_str_format(out, "outputs of %s verified by bt-bench",
                          bt_format_items(verified, "round").text);
        }
        if (other > 0) {
            bt_str_format(out, "%s%s self-reported", verified > 0 ? ", of " : "outputs of ",
                          bt_format_items(other, "round").text);
        }
        bt_str_append(out, "\n");
    }
}
