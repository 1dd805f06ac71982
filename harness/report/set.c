// harness/report/set.c - the runs of a report, read once, and the labels of their cases
#include <stdio.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/record/keep.h"
#include "harness/report/internal.h"

// A case without a system's name is of our own program.
static bool has_other_system(const report_set *set)
{
    for (int64_t i = 0; i < set->case_count; i++) {
        if (strcmp(set->cases[i].round->what.system, "blutrain") != 0) {
            return true;
        }
    }
    return false;
}

static bt_status make_label(report_set *set, report_case *item, bool with_system)
{
    char text[256];
    const bt_store_case *what = &item->round->what;
    int length = 0;
    if (set->run_count > 1) {
        length = snprintf(text, sizeof text, "run %lld, ", (long long)item->run->id);
    }
    (void)snprintf(text + length, sizeof text - (size_t)length, "%s%s%s", what->name,
                   with_system ? ", " : "", with_system ? what->system : "");
    return bt_keep(&set->arena, text, &item->label);
}

static void make_tag(report_case *item, int64_t index)
{
    item->tag[0] = (char)('A' + index % 26);
    if (index >= 26) {
        item->tag[1] = (char)('0' + index / 26 % 10);
    }
}

static bool same_case(const bt_store_round *left, const bt_store_round *right)
{
    return strcmp(left->what.name, right->what.name) == 0 &&
           strcmp(left->what.system, right->what.system) == 0 &&
           strcmp(left->what.bench, right->what.bench) == 0 &&
           strcmp(left->what.axes_json, right->what.axes_json) == 0;
}

// The case of the run that a round belongs to; a new one for the first round of a case.
static report_case *find_case(report_set *set, int64_t first, const bt_store_run *run,
                              const bt_store_round *round)
{
    for (int64_t i = set->case_count; i > first; i--) {
        if (same_case(set->cases[i - 1].round, round)) {
            return &set->cases[i - 1];
        }
    }
    report_case *item = &set->cases[set->case_count++];
    *item = (report_case){.run = run, .round = round};
    return item;
}

// Severity of a round's state among several of a case: the worst one counts, except repeated
// rounds.
static int weight_of(const bt_store_round *round)
{
    static const int weights[BT_RUN_STATUS_COUNT] = {
        [BT_RUN_INVALID] = -1, // it was repeated
        [BT_RUN_PASSED] = 0,      [BT_RUN_UNAVAILABLE] = 1, [BT_RUN_RUNNING] = 2,
        [BT_RUN_INTERRUPTED] = 3, [BT_RUN_FAILED] = 4};
    return round->superseded ? -1 : weights[round->status];
}

static bt_status gather_rounds(report_set *set, int64_t first, const bt_store_run *run)
{
    for (int64_t i = 0; i < run->round_count; i++) {
        find_case(set, first, run, &run->rounds[i])->round_count++;
    }
    for (int64_t i = first; i < set->case_count; i++) {
        report_case *item = &set->cases[i];
        BT_TRY(
            bt_arena_array(&set->arena, (size_t)item->round_count, sizeof(void *), &item->rounds));
        item->round_count = 0;
    }
    BT_EACH(const bt_store_round, round, run->rounds, run->round_count) {
        report_case *item = find_case(set, first, run, round);
        BT_FAIL_IF(!item->rounds, BT_STATUS_INTERNAL, "a round of a case that was not counted");
        item->rounds[item->round_count++] = round;
        item->noisy += bt_noise_of(round)[0] != '\0';
        if (item->round_count == 1 || weight_of(round) > weight_of(item->round)) {
            item->round = round;
        }
    }
    return BT_OK;
}

static bt_status read_cases(report_set *set)
{
    int64_t total = 0, tagged = 0;
    for (int64_t i = 0; i < set->run_count; i++) {
        total += set->runs[i].round_count;
    }
    BT_TRY(BT_ARENA_ARRAY(&set->arena, total, &set->cases));
    for (int64_t i = 0; i < set->run_count; i++) {
        BT_TRY(gather_rounds(set, set->case_count, &set->runs[i]));
    }
    bool with_system = has_other_system(set);
    BT_EACH(report_case, item, set->cases, set->case_count) {
        if (!bt_report_is_kernel(item->round)) {
            make_tag(item, tagged++);
        }
        BT_TRY(bt_case_summarise(item, &set->arena));
        BT_TRY(make_label(set, item, with_system));
    }
    return bt_ratios_read(set);
}

static bt_status read_all(bt_store *store, const int64_t *runs, int64_t count, report_edit edit,
                          report_set *out)
{
    BT_TRY(BT_ARENA_ARRAY(&out->arena, count, &out->runs));
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < i; j++) {
            BT_FAIL_IF(runs[i] == runs[j], BT_STATUS_INVALID_ARGUMENT, "run %lld is given twice",
                       (long long)runs[i]);
        }
        BT_TRY(bt_store_run_read(store, runs[i], &out->runs[i]));
        out->run_count++;
        BT_TRY(edit ? edit(&out->runs[i]) : BT_OK);
    }
    return read_cases(out);
}

bt_status bt_report_set_read(bt_store *store, const int64_t *runs, int64_t count, report_edit edit,
                             report_set *out)
{
    memset(out, 0, sizeof *out);
    BT_FAIL_IF(count < 1, BT_STATUS_INVALID_ARGUMENT, "a report needs at least one run");
    bt_status status = read_all(store, runs, count, edit, out);
    if (status != BT_OK) {
        bt_report_set_release(out);
    }
    return status;
}

void bt_report_set_release(report_set *set)
{
    bt_trends_release(set);
    for (int64_t i = 0; i < set->run_count; i++) {
        bt_store_run_release(&set->runs[i]);
    }
    bt_arena_release(&set->arena);
    memset(set, 0, sizeof *set);
}
