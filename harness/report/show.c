// harness/report/show.c - a run on a terminal: text for people, one JSON object for programs
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/report/internal.h"
#include "harness/report/outputs.h"
#include "harness/report/report.h"
#include "harness/stats/loss.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"
#include "harness/text/record_json.h"
#include "harness/text/table.h"
#include "harness/text/wrap.h"

static void print_loss(const bt_store_round *round, const bt_summary *summary, bt_str *out)
{
    const bt_metric_value *metrics = summary->metrics;
    if (round->step_count == 0) {
        return;
    }
    bt_str_format(out, "  loss         %s -> %s",
                  bt_format_value(BT_UNIT_NATS, metrics[BT_METRIC_LOSS_FIRST].value).text,
                  bt_format_value(BT_UNIT_NATS, metrics[BT_METRIC_LOSS_LAST].value).text);
    if (metrics[BT_METRIC_VAL_LOSS].count > 0) {
        bt_str_format(out, "   validation %s",
                      bt_format_value(BT_UNIT_NATS, metrics[BT_METRIC_VAL_LOSS].value).text);
    }
    bt_str_format(out, "   (%s%slast step %lld of %lld)\n", round->shape.dataset,
                  round->shape.dataset[0] ? ", " : "",
                  (long long)round->steps[round->step_count - 1].step + 1,
                  (long long)round->shape.steps);
}

static void print_speed(const bt_summary *summary, bt_str *out)
{
    const bt_metric_value *rate = &summary->metrics[BT_METRIC_TOKENS_PER_S];
    const bt_metric_value *time = &summary->metrics[BT_METRIC_STEP_TIME];
    if (rate->count == 0) {
        return;
    }
    bt_text number, interval;
    bt_format_interval(BT_UNIT_TOKENS_PER_S, rate->value, rate->low, rate->high, &number,
                       &interval);
    bt_str_format(out, "  speed        %s %s   a step %s, mean of %lld\n", number.text,
                  interval.text, bt_format_value(BT_UNIT_NS, time->value).text,
                  (long long)rate->count);
}

// Of rounds with profiled steps. Where an external launcher started the ranks, each records its own
// timeline.
static void print_ranks(const bt_store_round *round, const bt_summary *summary, bt_str *out)
{
    const bt_metric_value *exposed = &summary->metrics[BT_METRIC_EXPOSED];
    char ranks[32] = "";
    if (round->timeline_count > 1) {
        (void)snprintf(ranks, sizeof ranks, "%lld   ", (long long)round->timeline_count);
    }
    if (exposed->count > 0) {
        bt_str_format(out,
                      "  ranks        %sexposed communication %s a step (rank 0, profiled steps)\n",
                      ranks, bt_format_value(BT_UNIT_NS, exposed->value).text);
    }
}

typedef struct named_time {
    bt_metric metric;
    const char *text;
} named_time;

// A line with those of the times [count] that were measured; they are means of at most `events`.
static void print_times(const bt_summary *summary, const char *title, const named_time *times,
                        int64_t count, const char *event, bt_str *out)
{
    int64_t events = 0;
    for (int64_t i = 0; i < count; i++) {
        const bt_metric_value *time = &summary->metrics[times[i].metric];
        if (time->count > 0) {
            bt_str_format(out, events > 0 ? "%s" : "  %-12s ", events > 0 ? ", " : title);
            // A difference of measured times may be below 0, a time is not.
            bt_str_format(out, "%s %s", times[i].text,
                          bt_format_value(BT_UNIT_NS, time->value > 0 ? time->value : 0).text);
            events = time->count > events ? time->count : events;
        }
    }
    if (events > 0) {
        bt_str_format(out, "; mean of %s\n", bt_format_items(events, event).text);
    }
}

// What suites of checkpoints and of recovery measure. Times of a recovery are from the loss of a
// rank on if that is known, as of faults that were caused on purpose; else from its detection.
static void print_interruptions(const bt_summary *summary, bt_str *out)
{
    static const char caught_up[] = "at the step of the fault again after";
    static const named_time saves[] = {{BT_METRIC_CHECKPOINT_STALL, "training stalls for"},
                                       {BT_METRIC_CHECKPOINT_SAVE, "durable after"},
                                       {BT_METRIC_CHECKPOINT_LOAD, "loaded in"}},
                            recoveries[] = {{BT_METRIC_RECOVERY_DETECT, "detected in"},
                                            {BT_METRIC_RECOVERY, "resumed in"},
                                            {BT_METRIC_RECOVERY_STEP, "first step after"},
                                            {BT_METRIC_RECOVERY_CAUGHT_UP, caught_up}},
                            since[] = {{BT_METRIC_RECOVERY, "resumed after detection in"},
                                       {BT_METRIC_RECOVERY_STEP, "first step after"},
                                       {BT_METRIC_RECOVERY_CAUGHT_UP, caught_up}};
    const bool known = summary->metrics[BT_METRIC_RECOVERY_DETECT].count > 0;
    const bool repeats = summary->metrics[BT_METRIC_RECOVERY_REPEATED].value > 0;
    print_times(summary, "checkpoint", saves, BT_COUNT(saves), "save", out);
    // If no step is repeated, all but the last.
    print_times(summary, "recovery", known ? recoveries : since,
                (known ? BT_COUNT(recoveries) : BT_COUNT(since)) - (repeats ? 0 : 1), "fault", out);
}

static void print_launches(const bt_store_round *round, const bt_summary *summary, bt_str *out)
{
    const bt_metric_value *time = &summary->metrics[BT_METRIC_LAUNCH_TIME];
    if (time->count > 0) {
        bt_str_format(out, "  launch       the host submits a step in %s, mean\n",
                      bt_format_value(BT_UNIT_NS, time->value).text);
    }
    BT_EACH(const bt_store_launch, launch, round->launches, round->launch_count) {
        if (strcmp(launch->way, "off") == 0) {
            continue; // as on every device without graphs
        }
        bt_str_format(out, "  launched     from step %lld on: %s; %s\n", (long long)launch->step,
                      launch->way, launch->message);
    }
}

static void print_calls(const bt_summary *summary, bt_str *out)
{
    const bt_metric_value *metrics = summary->metrics, *time = &metrics[BT_METRIC_TIME];
    bt_text number, interval;
    if (time->count == 0) {
        return;
    }
    bt_format_interval(BT_UNIT_NS, time->value, time->low, time->high, &number, &interval);
    bt_str_format(out, "  time         %s %s   mean of %lld calls; median %s", number.text,
                  interval.text, (long long)time->count,
                  bt_format_value(BT_UNIT_NS, metrics[BT_METRIC_TIME_MEDIAN].value).text);
    if (metrics[BT_METRIC_TIME_P95].count > 0) {
        bt_str_format(out, ", p95 %s",
                      bt_format_value(BT_UNIT_NS, metrics[BT_METRIC_TIME_P95].value).text);
    }
    bt_str_append(out, "\n");
    if (metrics[BT_METRIC_CPU_TIME].count > 0) {
        bt_str_format(out, "  processor    %s a call, user and system\n",
                      bt_format_value(BT_UNIT_NS, metrics[BT_METRIC_CPU_TIME].value).text);
    }
}

static bt_status print_memory(const bt_store_round *round, const bt_summary *summary, bt_str *out)
{
    char recompute[BT_REPORT_RECOMPUTE_BYTES];
    const bt_metric_value *ours = &summary->metrics[BT_METRIC_PEAK_ALLOCATED];
    const bt_metric_value *resident = &summary->metrics[BT_METRIC_PEAK_RESIDENT];
    if (ours->count == 0 && resident->count == 0) {
        return BT_OK;
    }
    if (ours->count == 0) {
        bt_str_format(out, "  memory       peak %s resident\n",
                      bt_format_value(BT_UNIT_BYTES, resident->value).text);
        return BT_OK;
    }
    BT_TRY(bt_report_recompute(round, recompute));
    bt_str_format(out, "  memory       peak %s allocated, %s resident%s%s\n",
                  bt_format_value(BT_UNIT_BYTES, ours->value).text,
                  bt_format_value(BT_UNIT_BYTES, resident->value).text, recompute[0] ? ", " : "",
                  recompute);
    return BT_OK;
}

static void print_score(const bt_store_round *round, bt_str *out)
{
    if (round->score_count > 0) {
        const bt_store_score *last = &round->scores[round->score_count - 1];
        bt_str_format(out,
                      "  hellaswag    %.4f normalised by length, %.4f not, after %lld steps; %lld "
                      "questions\n",
                      (double)last->normalised_correct / (double)last->questions,
                      (double)last->correct / (double)last->questions, (long long)last->step,
                      (long long)last->questions);
    }
}

static void print_faults(const bt_store_round *round, bt_str *out)
{
    BT_EACH(const bt_store_fault, fault, round->faults, round->fault_count) {
        bt_str_format(out, "  fault        step %lld: %s, %s%s%s\n", (long long)fault->step,
                      fault->kind, fault->action, fault->message[0] ? ": " : "", fault->message);
    }
}

static void print_eager(const bt_store_round *round, bt_str *out)
{
    const char *why = bt_report_eager(round);
    if (why) {
        bt_str_format(out, "  compile      the step ran eagerly: %s\n", why);
    }
}

// `numbered`: the run has several rounds of a case.
static bt_status print_round(const bt_store_round *round, bool numbered, bt_str *out)
{
    bt_summary summary;
    BT_TRY(bt_summary_of(round, &summary));
    bt_str_format(out, "\n%s, %s", round->what.name, round->what.system);
    if (numbered) {
        bt_str_format(out, ", round %lld", (long long)round->ordinal + 1);
    }
    bt_str_format(out, "  %s", bt_run_status_name(round->status));
    if (round->superseded) {
        const bool news = strcmp(round->message, bt_run_status_name(round->status)) != 0;
        bt_str_format(out, ", run again%s%s\n", news ? "   " : "", news ? round->message : "");
        return BT_OK;
    }
    if (round->shape.device[0]) {
        bt_str_format(out, "   %s %s", round->shape.precision, round->shape.device);
    }
    bt_str_append(out, "\n");
    if (round->message[0]) {
        // A command that passed has the reason why its sampling ended.
        const bool ended = bt_report_is_command(round) && round->status == BT_RUN_PASSED;
        bt_str_format(out, "  %s%s\n", ended ? "sampling     ended by " : "message      ",
                      round->message);
    }
    print_faults(round, out);
    print_eager(round, out);
    print_loss(round, &summary, out);
    print_score(round, out);
    print_speed(&summary, out);
    print_ranks(round, &summary, out);
    print_interruptions(&summary, out);
    print_launches(round, &summary, out);
    if (bt_report_is_command(round)) {
        print_calls(&summary, out);
    }
    BT_TRY(print_memory(round, &summary, out));
    BT_TRY(bt_show_machine(round, out));
    BT_TRY(bt_show_groups(round, out));
    if (round->params_digest[0]) {
        bt_str_format(out, "  bits         %s%s\n",
                      bt_digest_is_of_state(round->params_digest) ? "" : "parameters ",
                      round->params_digest);
    }
    return BT_OK;
}

const char *bt_run_report_path(const bt_store_run *run)
{
    for (int64_t i = run->artifact_count; i > 0; i--) {
        if (strcmp(run->artifacts[i - 1].kind, "report") == 0) {
            return run->artifacts[i - 1].path;
        }
    }
    return NULL;
}

void bt_report_gap(const bt_store_gap *gap, bt_str *out)
{
    const double time_ns = (double)(gap->resumed_ns - gap->stopped_ns);
    bt_str_format(out, "paused for %s from %s: %s, then resumed",
                  bt_format_value(BT_UNIT_NS, time_ns).text, bt_format_date(gap->stopped_ns).text,
                  bt_run_status_name(gap->status));
}

static void print_head(const bt_store_run *run, bt_str *out)
{
    const bt_store_suite *suite = &run->info.suite;
    bt_str_format(out, "run %lld %s   %s, profile %s   %s", (long long)run->id,
                  bt_run_status_name(run->status), suite->name, suite->profile,
                  bt_format_date(run->started_ns).text);
    if (run->ended_ns > 0) {
        double time_ns = (double)(run->ended_ns - run->started_ns);
        bt_str_format(out, "   %s", bt_format_value(BT_UNIT_NS, time_ns).text);
    }
    bt_str_format(out, "\nplan %.8s, environment %.8s, build %s %.8s%s, seed %llu\n",
                  suite->plan_hash, run->info.env.digest, run->info.build.version,
                  run->info.build.git_commit, run->info.build.git_diff[0] ? " modified" : "",
                  (unsigned long long)run->info.seed);
    if (run->name && run->name[0]) {
        bt_str_format(out, "name    %s\n", run->name);
    }
    if (run->note && run->note[0]) {
        bt_str_format(out, "note    %s\n", run->note);
    }
    if (run->message[0]) {
        bt_str_format(out, "message %s\n", run->message);
    }
    BT_EACH(const bt_store_gap, gap, run->gaps, run->gap_count) {
        bt_report_gap(gap, out);
        bt_str_append(out, "\n");
    }
}

// Whether a row is about a case that the tables of kernels do not have.
static bool is_own_row(const report_set *set, const ratio_row *row)
{
    const report_case *found = NULL;
    const size_t length = strcspn(row->name, ","); // of "case, against system"
    for (int64_t i = 0; i < set->case_count && !found; i++) {
        const char *name = set->cases[i].round->what.name;
        found =
            strlen(name) == length && strncmp(name, row->name, length) == 0 ? &set->cases[i] : NULL;
    }
    return found && !*found->kernel.group;
}

// Ratios of two builds or systems in training and command cases.
static bt_status print_ratios(const report_set *set, const ratio_list *list, int columns,
                              bt_str *out)
{
    int64_t shown = 0;
    bt_table table = {0};
    bt_table_heads(&table, "case||>ratio|95 %%|>pairs|verdict");
    bt_table_fit(&table, columns, "pairs");
    BT_EACH(const ratio_row, row, list->rows, list->count) {
        if (is_own_row(set, row)) {
            bt_table_cells(&table, "%s|%s|%s%s|%s|%lld|%s", row->name, row->metric,
                           row->wide ? "? " : "", bt_format_ratio(row->ratio).text,
                           bt_format_ratio_interval(row).text, (long long)row->rounds,
                           row->verdict);
            shown++;
        }
    }
    if (shown == 0) {
        bt_table_release(&table);
        return BT_OK;
    }
    bt_str_append(out, "\n");
    bt_ratio_note(list->other, list->base, out);
    return bt_table_print(&table, 2, out);
}

static bt_status print_all_ratios(const report_set *set, int columns, bt_str *out)
{
    BT_EACH(const ratio_list, list, set->ratios, set->ratio_count) {
        if (strcmp(list->kind, "ab") == 0 || strcmp(list->kind, "pairs") == 0) {
            BT_TRY(print_ratios(set, list, columns, out));
        }
    }
    return BT_OK;
}

static bt_status print_set(const report_set *set, int columns, bt_str *out)
{
    const bt_store_run *run = &set->runs[0];
    const char *report = bt_run_report_path(run);
    const size_t start = out->length_bytes;
    bool numbered = false;
    BT_EACH(const bt_store_round, round, run->rounds, run->round_count) {
        numbered = numbered || round->ordinal > 0;
    }
    print_head(run, out);
    BT_EACH(const bt_store_round, round, run->rounds, run->round_count) {
        if (!bt_report_is_kernel(round) || bt_report_is_command(round)) {
            BT_TRY(print_round(round, numbered, out));
        }
    }
    BT_TRY(print_all_ratios(set, columns, out));
    BT_TRY(bt_report_kernel_tables(set, columns, out));
    bt_show_noise(run, out);
    if (report) {
        bt_str_format(out, "\nreport         %s%s\n", report,
                      bt_file_exists(report) ? "" : " (not found)");
    }
    bt_wrap_from(out, start, columns);
    return bt_text_end(out, start);
}

bt_status bt_show_text(bt_store *store, int64_t id, int columns, bt_str *out)
{
    report_set set;
    BT_TRY(bt_report_set_read(store, &id, 1, NULL, &set));
    bt_status status = print_set(&set, columns, out);
    bt_report_set_release(&set);
    return status;
}

static void json_metrics(bt_json_writer *json, const bt_summary *summary)
{
    bt_json_writer_open(json, "metrics", '{');
    for (int i = 0; i < BT_METRIC_COUNT; i++) {
        if (summary->metrics[i].count > 0) {
            bt_json_writer_real(json, bt_metric_info((bt_metric)i)->tag, summary->metrics[i].value);
        }
    }
    bt_json_writer_close(json, '}');
    bt_json_writer_open(json, "intervals", '{');
    for (int i = 0; i < BT_METRIC_COUNT; i++) {
        const bt_metric_value *value = &summary->metrics[i];
        if (value->count > 0 && !isnan(value->low)) {
            bt_json_writer_open(json, bt_metric_info((bt_metric)i)->tag, '[');
            BT_JSON(json, BT_KV(NULL, value->low), BT_KV(NULL, value->high));
            bt_json_writer_close(json, ']');
        }
    }
    bt_json_writer_close(json, '}');
}

bt_status bt_report_json_case(bt_json_writer *json, const bt_store_round *round)
{
    bt_summary summary;
    BT_TRY(bt_summary_of(round, &summary));
    BT_JSON(json, BT_OF(&round->what, name), BT_OF(&round->what, system),
            BT_KV("status", bt_run_status_name(round->status)), BT_OF(round, message),
            BT_KV("outputs", bt_outputs_of(round)), BT_OF(&round->shape, device),
            BT_OF(&round->shape, precision), BT_KV("steps", round->step_count));
    json_metrics(json, &summary);
    bt_json_writer_text(json, "params_digest", round->params_digest);
    bt_fields_write_list(json, "faults", BT_FIELDS_FAULT, round->faults, round->fault_count);
    return bt_report_json_machine(json, round);
}

void bt_report_json_run(bt_json_writer *json, const bt_store_run *run)
{
    BT_JSON(json, BT_KV("run", run->id), BT_KV("status", bt_run_status_name(run->status)),
            BT_OF(run, message), BT_KV("name", run->name ? run->name : ""),
            BT_KV("note", run->note ? run->note : ""), BT_KV("suite", run->info.suite.name),
            BT_KV("profile", run->info.suite.profile),
            BT_KV("plan_hash", run->info.suite.plan_hash), BT_OF(run, started_ns),
            BT_OF(run, ended_ns));
    BT_JSON_LIST(json, "gaps", i, run->gap_count) {
        BT_JSON_OBJECT(json, NULL, BT_OF(&run->gaps[i], stopped_ns),
                       BT_OF(&run->gaps[i], resumed_ns),
                       BT_KV("status", bt_run_status_name(run->gaps[i].status)));
    }
    bt_json_writer_text_or_null(json, "report", bt_run_report_path(run));
}

bt_status bt_show_json(bt_store *store, int64_t id, bt_str *out)
{
    BT_SCOPED(bt_store_run) run = {0};
    bt_json_writer json = {.out = out, .indent = 2};
    BT_TRY(bt_store_run_read(store, id, &run));
    bt_json_writer_open(&json, NULL, '{');
    bt_report_json_run(&json, &run);
    BT_JSON_LIST(&json, "cases", i, run.round_count) {
        bt_json_writer_open(&json, NULL, '{');
        BT_TRY(bt_report_json_case(&json, &run.rounds[i]));
        bt_json_writer_close(&json, '}');
    }
    return bt_json_writer_end(&json, '}');
}

bt_status bt_show_list_text(bt_store *store, int columns, bt_str *out)
{
    BT_SCOPED(bt_store_run_list) list = {0};
    BT_TRY(bt_store_run_list_read(store, &list));
    bt_table table = {0};
    bool named = false, noted = false;
    for (int64_t i = 0; i < list.count; i++) {
        named = named || list.rows[i].name[0];
        noted = noted || list.rows[i].note[0];
    }
    bt_table_heads(&table, ">run|suite|profile|status|>rounds|>steps|started|%s|<%s",
                   named ? "name" : "", noted ? "note" : "");
    bt_table_fit(&table, columns, "steps|profile|rounds");
    BT_EACH(const bt_store_run_row, row, list.rows, list.count) {
        bt_table_cells(&table, "%lld|%s|%s|%s|%lld|%s|%s|%s|%s", (long long)row->id, row->suite,
                       row->profile, bt_run_status_name(row->status), (long long)row->round_count,
                       bt_format_count(row->step_count).text, bt_format_date(row->started_ns).text,
                       row->name, row->note);
    }
    size_t start = out->length_bytes;
    BT_TRY(bt_table_print(&table, 0, out));
    return bt_text_end(out, start);
}
