// harness/watch/print.c - prints a watched run as lines, and as JSON
#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"
#include "harness/text/wrap.h"
#include "harness/watch/watch.h"

enum { BAR_MAX = 60, BAR_BESIDE = 42, LINES_BESIDE = 6, RANK_COLUMNS = 240, RANKS_SHOWN = 64 };

// ---- parts of lines ----------------------------------------------------------------------------

// "1:42", "2:05:09"
static void append_head(const bt_watch_view *view, bt_str *out)
{
    const bt_store_live *live = view->live;
    int64_t until_ns = live->ended_ns ? live->ended_ns : view->now_ns;
    bt_str_format(out, "run %lld %s   %s, profile %s", (long long)live->run,
                  bt_run_status_name(live->status), live->suite, live->profile);
    if (live->status == BT_RUN_RUNNING) {
        bt_str_format(out, "   process %lld", (long long)live->process_id);
    }
    if (live->ended_ns || live->status == BT_RUN_RUNNING) {
        bt_str_format(out, "   %s", bt_format_clock((double)(until_ns - live->started_ns)).text);
    }
}

// "case    3/42  gelu.f32 on blutrain, round 2/8   1:42 left"
static void append_where(const bt_watch_view *view, bt_str *out)
{
    const bt_store_live_round *round = view->current;
    bt_str_append(out, "case ");
    if (view->case_count > 0) {
        bt_str_format(out, "%4lld/%lld  ", (long long)view->case_index + 1,
                      (long long)view->case_count);
    }
    bt_str_format(out, "%s on %s, round %lld", round->name, round->system,
                  (long long)round->ordinal + 1);
    if (view->rounds_per_case > round->ordinal) {
        bt_str_format(out, "/%lld", (long long)view->rounds_per_case);
    }
    if (!isnan(view->left_ns)) {
        bt_str_format(out, "   %s left", bt_format_clock(view->left_ns).text);
    }
}

static void append_step(const bt_watch_view *view, bt_str *out)
{
    const bt_store_step *step = view->step;
    bt_str_format(out, "step %4lld", (long long)step->step + 1);
    if (view->current->steps > 0) {
        bt_str_format(out, "/%lld", (long long)view->current->steps);
    }
    bt_str_format(out, "  loss %.3f  norm %.2f  lr %.1e   %s   %s", (double)step->loss,
                  (double)step->grad_norm, step->lr,
                  bt_format_value(BT_UNIT_TOKENS_PER_S, view->rate_tok_s).text,
                  bt_format_value(BT_UNIT_BYTES, (double)view->memory_bytes).text);
}

static void append_bar(const bt_watch_view *view, int columns, bt_str *out)
{
    int width = columns - BAR_BESIDE < BAR_MAX ? columns - BAR_BESIDE : BAR_MAX;
    width = width < 1 ? 1 : width;
    int filled = (int)(view->share * width);
    bt_str_append(out, "          ");
    for (int i = 0; i < width; i++) {
        bt_str_append(out, i < filled ? "█" : "░");
    }
    bt_str_format(out, " %3d %%, %lld of %s", (int)(view->share * 100),
                  (long long)view->rounds_done,
                  bt_format_items(view->rounds_planned, "round").text);
}

// Cells of a completed round: case, system, round, status, measured value, duration.
static void add_ended(const bt_store_live_round *round, bt_table *table)
{
    const double took_ns = (double)(round->ended_ns - round->started_ns);
    bt_text measured = {""};
    if (!isnan(round->rate_tok_s)) {
        measured = bt_format_value(BT_UNIT_TOKENS_PER_S, round->rate_tok_s);
    } else if (!isnan(round->time_ns)) {
        measured = bt_format_value(BT_UNIT_NS, round->time_ns);
    }
    bt_table_cells(table, "%s|%s|round %lld|%s|%s|%s%s", round->name, round->system,
                   (long long)round->ordinal + 1, bt_run_status_name(round->status), measured.text,
                   round->ended_ns ? "in " : "",
                   round->ended_ns ? bt_format_value(BT_UNIT_NS, took_ns).text : "");
}

// The end of the first `columns` code points of a line; *cut: there are more.
static const char *line_end(const char *text, int columns, bool *cut)
{
    int shown = 0;
    for (; *text && *text != '\n'; text++) {
        bool starts = ((unsigned char)*text & 0xc0) != 0x80;
        if (starts && shown == columns) {
            break;
        }
        shown += starts;
    }
    *cut = *text && *text != '\n';
    return text;
}

// Truncates each line of text to that many code points, with a mark, and the text to that many
// lines.
static void append_cut(const char *text, int columns, int rows, bt_str *out)
{
    for (int row = 0; *text && row < rows; row++) {
        bool cut = false, shorter = false;
        const char *end = line_end(text, columns, &cut);
        const char *kept = cut ? line_end(text, columns - 1, &shorter) : end;
        bt_str_append_bytes(out, text, (size_t)(kept - text));
        bt_str_append(out, cut ? "…\n" : "\n");
        text = end + strcspn(end, "\n");
        text += *text == '\n';
    }
}

// ---- whole texts -------------------------------------------------------------------------------

static bt_status append_ended_table(const bt_watch_view *view, int rows, bt_str *out)
{
    const bt_store_live *live = view->live;
    bt_table table = {0};
    int64_t shown = 0;
    bt_table_heads(&table, "|||>||>");
    for (int64_t i = 0; i < live->round_count && shown < rows; i++) {
        if (live->rounds[i].status != BT_RUN_RUNNING) {
            add_ended(&live->rounds[i], &table);
            shown++;
        }
    }
    return bt_table_print(&table, 10, out);
}

bt_status bt_watch_block(const bt_watch_view *view, int columns, int rows, bt_str *out)
{
    BT_SCOPED(bt_str) text = {0};
    append_head(view, &text);
    if (view->current) {
        bt_str_append(&text, "\n");
        append_where(view, &text);
    }
    if (view->current && view->step) {
        bt_str_append(&text, "\n");
        append_step(view, &text);
    }
    bt_wrap_from(&text, 0, columns);
    if (!isnan(view->share)) {
        bt_str_append(&text, "\n");
        append_bar(view, columns, &text);
    }
    bt_str_append(&text, "\n");
    bt_watch_ranks(view, columns, rows - LINES_BESIDE, &text);
    BT_TRY(append_ended_table(view, rows - LINES_BESIDE, &text));
    BT_TRY(bt_str_status(&text));
    bt_text_make_printable(text.text);
    append_cut(text.text, columns, rows, out);
    return bt_str_status(out);
}

static bt_status finish_line(bt_str *out, size_t start)
{
    bt_str_append(out, "\n");
    return bt_text_end(out, start);
}

bt_status bt_watch_heading(const bt_watch_view *view, bt_str *out)
{
    size_t start = out->length_bytes;
    append_head(view, out);
    return finish_line(out, start);
}

bt_status bt_watch_ended(const bt_watch_view *view, int64_t *seen, bt_str *out)
{
    const bt_store_live *live = view->live;
    size_t start = out->length_bytes;
    bt_table table = {0};
    int64_t newest = *seen;
    bt_table_heads(&table, "|||>||>");
    for (int64_t i = live->round_count - 1; i >= 0; i--) {
        const bt_store_live_round *round = &live->rounds[i];
        if (round->id > *seen && round->status != BT_RUN_RUNNING) {
            add_ended(round, &table);
            newest = round->id > newest ? round->id : newest;
        }
    }
    *seen = newest;
    BT_TRY(bt_table_print(&table, 0, out));
    return bt_text_end(out, start);
}

bt_status bt_watch_line(const bt_watch_view *view, bt_str *out)
{
    size_t start = out->length_bytes;
    if (!view->current) {
        return BT_OK;
    }
    append_where(view, out);
    if (view->step) {
        bt_str_append(out, "   ");
        append_step(view, out);
    }
    bt_str_append(out, "\n");
    bt_watch_ranks(view, RANK_COLUMNS, RANKS_SHOWN, out);
    return bt_text_end(out, start);
}

bt_status bt_watch_end(const bt_watch_view *view, bt_str *out)
{
    const bt_store_live *live = view->live;
    size_t start = out->length_bytes;
    bt_str_format(out, "run %lld %s", (long long)live->run, bt_run_status_name(live->status));
    if (live->ended_ns) {
        bt_str_format(out, " in %s",
                      bt_format_clock((double)(live->ended_ns - live->started_ns)).text);
    }
    bt_str_format(out, ": %s passed", bt_format_items(live->counts[BT_RUN_PASSED], "round").text);
    for (int i = BT_RUN_PASSED + 1; i < BT_RUN_STATUS_COUNT; i++) {
        if (live->counts[i] > 0) {
            bt_str_format(out, ", %lld %s", (long long)live->counts[i],
                          bt_run_status_name((bt_run_status)i));
        }
    }
    if (live->message[0]) {
        bt_str_format(out, "\nmessage   %s", live->message);
    }
    if (live->status == BT_RUN_INTERRUPTED || view->resumable) {
        bt_str_format(out, "\nnext      bt-bench %s --resume %lld",
                      live->kind[0] ? live->kind : "run", (long long)live->run);
    } else {
        bt_str_format(out, "\nnext      bt-bench show %lld", (long long)live->run);
    }
    return finish_line(out, start);
}

// ---- JSON --------------------------------------------------------------------------------------

static void json_current(bt_json_writer *json, const bt_watch_view *view)
{
    const bt_store_live_round *round = view->current;
    if (!round) {
        bt_json_writer_null(json, "current");
        return;
    }
    bt_json_writer_open(json, "current", '{');
    BT_JSON(json, BT_KV("case", round->name), BT_OF(round, system), BT_OF(round, ordinal),
            BT_OF(round, started_ns));
    if (view->step) {
        BT_JSON(json, BT_OF(view->step, step), BT_OF(round, steps),
                BT_KV("loss", (double)view->step->loss), BT_KV("tokens_per_s", view->rate_tok_s),
                BT_OF(view, memory_bytes));
    }
    bt_json_writer_close(json, '}');
}

static void json_last(bt_json_writer *json, const bt_store_live *live)
{
    const bt_store_live_round *round = NULL;
    for (int64_t i = 0; i < live->round_count && !round; i++) {
        round = live->rounds[i].status != BT_RUN_RUNNING ? &live->rounds[i] : NULL;
    }
    if (!round) {
        bt_json_writer_null(json, "last");
        return;
    }
    BT_JSON_OBJECT(json, "last", BT_KV("case", round->name), BT_OF(round, system),
                   BT_OF(round, ordinal), BT_KV("status", bt_run_status_name(round->status)),
                   BT_OF(round, message), BT_OF(round, time_ns),
                   BT_KV("tokens_per_s", round->rate_tok_s));
}

bt_status bt_watch_json(const bt_watch_view *view, bt_str *out)
{
    const bt_store_live *live = view->live;
    bt_json_writer json = {.out = out};
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_OF(live, run), BT_KV("status", bt_run_status_name(live->status)),
            BT_OF(live, suite), BT_OF(live, profile), BT_OF(live, process_id),
            BT_OF(live, started_ns), BT_OF(live, ended_ns), BT_OF(view, rounds_done),
            BT_OF(view, rounds_planned));
    bt_json_writer_open(&json, "rounds", '{');
    for (int i = 0; i < BT_RUN_STATUS_COUNT; i++) {
        bt_json_writer_integer(&json, bt_run_status_name((bt_run_status)i), live->counts[i]);
    }
    bt_json_writer_close(&json, '}');
    bt_json_writer_real(&json, "left_s",
                        isnan(view->left_ns) ? view->left_ns : round(view->left_ns / 1e8) / 10);
    json_current(&json, view);
    json_last(&json, live);
    BT_SCOPED(bt_str) ranks = {0};
    bt_watch_ranks_json(view, &ranks);
    if (ranks.length_bytes > 0) {
        bt_str_append(out, ",\"ranks\":");
        bt_str_append(out, bt_str_text(&ranks));
    }
    return bt_json_writer_end(&json, '}');
}
