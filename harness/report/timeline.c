// harness/report/timeline.c - one step of each rank: what it did, and what it waited for
//
// Drawn for cases of several ranks. Computation is drawn above a line, products highest, and
// exposed communication below it, so that the kinds differ in shape as well as in colour. Figures
// are the recorded ones, which are exact; the drawing has a width of BT_TIMELINE_PARTS parts.
#include <math.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "framework/base/timeline.h"
#include "harness/report/internal.h"

enum { WIDTH = 1000, HEIGHT = 44, LINE = 30 }; // of a rank's drawing

static const struct {
    char letter;
    const char *name;
} kinds[] = {
#define KIND(enumerator, letter, name) {letter, name},
    BT_TIMELINE_WORK_LIST(KIND)
#undef KIND
};

// Height of the bars; negative: below the line; 0: not drawn.
static const int tall[BT_TIMELINE_WORK_COUNT] = {[BT_TIMELINE_OTHER] = 12,
                                                 [BT_TIMELINE_ATTENTION] = 20,
                                                 [BT_TIMELINE_PRODUCTS] = 28,
                                                 [BT_TIMELINE_COMMUNICATION] = -14};

static double gap_of(const bt_store_timeline *line)
{
    const int64_t said =
        line->products_ns + line->attention_ns + line->other_ns + line->communication_ns;
    return (double)(line->time_ns - said);
}

// ---- figures ------------------------------------------------------------------------------------

typedef struct timeline_column {
    const char *title;
    size_t offset; // of an int64_t in ns; 0: between ops
} timeline_column;

// The first two are visible on a phone without scrolling.
static const timeline_column columns[] = {
    {"step", offsetof(bt_store_timeline, time_ns)},
    {"exposed communication", offsetof(bt_store_timeline, communication_ns)},
    {"products", offsetof(bt_store_timeline, products_ns)},
    {"attention", offsetof(bt_store_timeline, attention_ns)},
    {"other ops", offsetof(bt_store_timeline, other_ns)},
    {"between ops", 0},
};

enum { COLUMNS = (int)(sizeof columns / sizeof columns[0]) };

static double figure(const bt_store_timeline *line, const timeline_column *column)
{
    int64_t value = 0;
    if (!column->offset) {
        return gap_of(line);
    }
    memcpy(&value, (const char *)line + column->offset, sizeof value);
    return (double)value;
}

static const char explained[] =
    "The last profiled step. Exposed communication: the rank computes nothing and waits for other "
    "ranks or for data. This includes the wait for a slower rank: the rank that waits least shows "
    "what communication costs at most. Communication that overlaps computation is not included. "
    "Between ops: no kernel was running.";

// "step 42 takes 12.1 ms; exposed communication 1.9 ms on average, 2.2 ms at most (rank 1)"
static void write_sum(const bt_store_round *round, bt_str *out)
{
    const bt_store_timeline *most = &round->timelines[0];
    double sum_ns = 0, step_ns = 0;
    BT_EACH(const bt_store_timeline, line, round->timelines, round->timeline_count) {
        sum_ns += (double)line->communication_ns;
        step_ns = fmax(step_ns, (double)line->time_ns);
        most = line->communication_ns > most->communication_ns ? line : most;
    }
    bt_str_format(
        out, "step %lld takes %s; exposed communication %s on average, %s at most (rank %lld)",
        (long long)most->step, bt_format_value(BT_UNIT_NS, step_ns).text,
        bt_format_value(BT_UNIT_NS, sum_ns / (double)round->timeline_count).text,
        bt_format_value(BT_UNIT_NS, (double)most->communication_ns).text, (long long)most->rank);
}

// ---- the drawing --------------------------------------------------------------------------------

// The end of all ranks' drawings, ns after the first rank's start.
static double end_of(const bt_store_round *round)
{
    double end_ns = 1;
    BT_EACH(const bt_store_timeline, line, round->timelines, round->timeline_count) {
        end_ns = fmax(end_ns, (double)line->start_ns + (double)line->time_ns);
    }
    return end_ns;
}

typedef void (*run_writer)(double from, double until, char letter, bt_str *out);

// Calls `write` for each run of equal letters in the list; positions are relative to the whole
// width.
static void each_run(const bt_store_timeline *line, const char *letters, double end_ns,
                     run_writer write, char only, bt_str *out)
{
    const int64_t count = (int64_t)strlen(letters);
    const double first = WIDTH * (double)line->start_ns / end_ns;
    const double wide = count ? WIDTH * (double)line->time_ns / end_ns / (double)count : 0;
    for (int64_t from = 0, until = 0; from < count; from = until) {
        while (until < count && letters[until] == letters[from]) {
            ++until;
        }
        if (!only || letters[from] == only) {
            write(first + wide * (double)from, first + wide * (double)until, letters[from], out);
        }
    }
}

static void write_bar(double from, double until, char letter, bt_str *out)
{
    int high = 0;
    for (int i = 0; i < BT_TIMELINE_WORK_COUNT; i++) {
        high = kinds[i].letter == letter ? tall[i] : high;
    }
    bt_str_format(out, "M%.1f %dh%.1fv%dh%.1fz", from, LINE, until - from, -high, from - until);
}

static void write_rank(const bt_store_timeline *line, double end_ns, bt_str *out)
{
    bt_str_format(out,
                  "<div class=rank><span class=muted>rank %lld</span><div role=img "
                  "aria-label=\"rank %lld:",
                  (long long)line->rank, (long long)line->rank);
    for (int c = 0; c < COLUMNS; c++) {
        bt_str_format(out, "%s %s %s", c ? "," : "", columns[c].title,
                      bt_format_value(BT_UNIT_NS, figure(line, &columns[c])).text);
    }
    bt_str_format(out, "\"><svg aria-hidden=true viewBox=\"0 0 %d %d\" preserveAspectRatio=none>",
                  WIDTH, HEIGHT);
    for (int i = 0; i < BT_TIMELINE_WORK_COUNT; i++) {
        if (tall[i] && strchr(line->work, kinds[i].letter)) {
            bt_str_format(out, "<path class=work-%c d=\"", kinds[i].letter);
            each_run(line, line->work, end_ns, write_bar, kinds[i].letter, out);
            bt_str_append(out, "\"/>");
        }
    }
    bt_str_format(out, "<path class=base d=\"M%.1f %dh%.1f\"/></svg></div></div>\n",
                  WIDTH * (double)line->start_ns / end_ns, LINE,
                  WIDTH * (double)line->time_ns / end_ns);
}

enum { PHASE_WORD = 95 }; // of the width: narrower phases have a mark without a word

static void write_phase(double from, double until, char letter, bt_str *out)
{
    static const struct {
        char letter;
        const char *name;
    } phases[] = {
#define PHASE(enumerator, letter, name) {letter, name},
        BT_TIMELINE_PHASE_LIST(PHASE)
#undef PHASE
    };
    const char *name = "";
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        name = phases[i].letter == letter ? phases[i].name : name;
    }
    if (*name) {
        bt_str_format(out, "<i title=\"%s\" style=\"left:%.2f%%;width:%.2f%%\">%s</i>", name,
                      100 * from / WIDTH, 100 * (until - from) / WIDTH,
                      until - from < PHASE_WORD ? "" : name);
    }
}

static void write_legend(bt_str *out)
{
    bt_str_append(out, "<ul class=\"legend works\">");
    for (int i = BT_TIMELINE_WORK_COUNT - 1; i >= 0; i--) {
        if (tall[i]) {
            bt_str_format(out,
                          "<li><svg class=swatch aria-hidden=true viewBox=\"0 0 30 %d\">"
                          "<path class=work-%c d=\"M0 %dh30v%dh-30z\"/><path class=base d=\"M0 "
                          "%dh30\"/></svg>%s",
                          HEIGHT, kinds[i].letter, LINE, -tall[i], LINE, kinds[i].name);
        }
    }
    bt_str_append(out, "</ul>\n");
}

static bt_table table_of(const report_case *item)
{
    bt_table table = {.name = bt_textf("timeline-%s", item->tag)};
    bt_table_heads(&table, ">rank");
    for (int c = 0; c < COLUMNS; c++) {
        bt_table_heads(&table, ">%s", columns[c].title);
    }
    for (int64_t i = 0; i < item->round->timeline_count; i++) {
        bt_table_cells(&table, "%lld", (long long)item->round->timelines[i].rank);
        for (int c = 0; c < COLUMNS; c++) {
            bt_table_number(&table, BT_UNIT_NS, figure(&item->round->timelines[i], &columns[c]));
        }
    }
    return table;
}

static bt_status write_case(const report_set *set, int64_t index, bool open, bt_str *out)
{
    const report_case *item = &set->cases[index];
    const bt_store_round *round = item->round;
    const double end_ns = end_of(round);
    bt_table table = table_of(item);
    bt_html_open_case(item, open, out);
    write_sum(round, out);
    bt_str_append(out, "</span></summary>\n<figure class=timeline>");
    write_legend(out);
    bt_str_append(out,
                  "<div class=rank><span></span><div class=\"phases muted\" aria-hidden=true>");
    each_run(&round->timelines[0], round->timelines[0].phases, end_ns, write_phase, '\0', out);
    bt_str_append(out, "</div></div>\n");
    for (int64_t i = 0; i < round->timeline_count; i++) {
        write_rank(&round->timelines[i], end_ns, out);
    }
    bt_str_format(out,
                  "<div class=rank><span></span><div class=\"ends muted\"><span>0</span>"
                  "<span>%s</span></div></div>\n",
                  bt_format_value(BT_UNIT_NS, end_ns).text);
    bt_table_html(&table, out);
    bt_str_append(out, "</figure></details>\n");
    return BT_OK;
}

static bool has_timelines(const report_case *item) { return item->round->timeline_count > 0; }

bt_status bt_page_timelines(const report_set *set, bt_str *out)
{
    static const report_section section = {.id = "timelines",
                                           .title = "One step of each rank",
                                           .note = explained,
                                           .has = has_timelines,
                                           .write = write_case};
    return bt_html_section(&section, set, out);
}

// ---- Markdown -----------------------------------------------------------------------------------

void bt_markdown_timelines(const report_set *set, bt_str *out)
{
    const char *note = explained; // once, under the first heading
    for (int64_t at = 0; at < set->case_count; at++) {
        const bt_store_round *round = set->cases[at].round;
        if (round->timeline_count == 0) {
            continue;
        }
        bt_markdown(out, "\n## One step of each rank: %s\n\n", set->cases[at].label);
        bt_str_format(out, "%s%s", note, *note ? "\n\n" : "");
        note = "";
        write_sum(round, out);
        bt_str_append(out, ".\n\n");
        bt_table table = table_of(&set->cases[at]);
        bt_table_markdown(&table, out);
    }
}
