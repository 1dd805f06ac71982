// harness/gate/print.c - a gate's result as text and as JSON
#include <inttypes.h>
#include <math.h>

#include "framework/base/scoped.h"
#include "harness/gate/gate.h"
#include "harness/stats/sessions.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"

// Verdicts in order of importance.
static const bt_gate_word by_weight[] = {
    BT_GATE_INVALID,        BT_GATE_DIFFERENT,    BT_GATE_SLOWER,   BT_GATE_LARGER,
    BT_GATE_NOT_COMPARABLE, BT_GATE_INCONCLUSIVE, BT_GATE_ADVISORY, BT_GATE_FASTER,
    BT_GATE_SMALLER,        BT_GATE_SAME};
enum { WORDS = (int)(sizeof by_weight / sizeof by_weight[0]) };

void bt_gate_counts(const bt_gate_result *result, bt_str *out)
{
    static const char *const names[BT_GATE_WORD_COUNT] = {
#define WORD_TEXT(name, word, text, exit_code) text,
        BT_GATE_WORD_LIST(WORD_TEXT)
#undef WORD_TEXT
    };
    const char *separator = "";
    for (int i = 0; i < WORDS; ++i) {
        if (result->words[by_weight[i]] > 0) {
            bt_str_format(out, "%s%" PRId64 " %s", separator, result->words[by_weight[i]],
                          names[by_weight[i]]);
            separator = ", ";
        }
    }
    if (!*separator) {
        bt_str_append(out, "nothing was judged");
    }
}

// ", candidate 5f2c9e71 and changes against base 03ab77d0": the builds of an 'ab' session.
static void append_builds(const bt_store_schedule *schedule, bt_str *out)
{
    static const char *const separators[] = {", ", " against "};
    for (int i = 0; i < 2; ++i) {
        const bt_store_system *system = &schedule->systems[1 - i];
        const bt_store_build *build = &system->build;
        bt_str_format(out, "%s%s", separators[i], system->name);
        if (build->git_commit && *build->git_commit) {
            bt_str_format(out, " %.8s%s", build->git_commit,
                          build->git_diff && *build->git_diff ? " and changes" : "");
        }
    }
}

void bt_gate_heading(const bt_gate_result *result, bt_str *out)
{
    const bt_store_run *run = result->request.run;
    const bt_baseline *baseline = result->request.baseline;
    bt_str_format(out, "run %" PRId64 " of %s", run->id, run->info.suite.name);
    if (baseline) {
        bt_str_format(out, " against baseline %s (%s, %s)", baseline->name, baseline->created,
                      baseline->machine);
    } else if (run->schedule.system_count == 2) {
        append_builds(&run->schedule, out);
    } else {
        bt_str_append(out, ", candidate compared with base");
    }
    bt_str_format(out, ", policy %s", result->request.policy->name);
}

const char *bt_gate_outcome(const bt_gate_result *result)
{
    static const char *const words[] = {"PASS",         "FAIL",           "FAIL",
                                        "INCONCLUSIVE", "NOT-COMPARABLE", "FAIL"};
    return words[result->exit_code];
}

// ---- text --------------------------------------------------------------------------------------

static void print_item(const bt_gate_item *item, bt_str *out)
{
    bool fails = item->verdict.exit_code == 1 || item->verdict.exit_code == 5 ||
                 item->verdict.word == BT_GATE_INVALID;
    const char *word = fails && !item->excused ? "FAIL" : bt_gate_word_name(item->verdict.word);
    bt_str_format(out, "%s  %s   %s%s\n", word, item->subject, item->sentence,
                  item->excused ? " (allowed by policy)" : "");
    if (*item->changes) {
        bt_str_format(out, "      %s\n", item->changes);
    }
    if (*item->rule.reason) {
        bt_str_format(out, "      policy: %s\n", item->rule.reason);
    }
}

// Other differences, which may be the reason of a change.
static bt_status print_besides(const bt_gate_result *result, bt_str *out)
{
    BT_SCOPED(bt_str) text = {0};
    BT_TRY(bt_gate_besides(result, false, &text));
    if (text.length_bytes > 0 && result->count > result->words[BT_GATE_SAME]) {
        bt_str_format(out, "besides  %s\n", bt_str_text(&text));
    }
    return BT_OK;
}

// A suggested next step: the first that applies.
void bt_gate_next(const bt_gate_result *result, bt_str *out)
{
    const bt_baseline *baseline = result->request.baseline;
    const char *database = result->request.database ? result->request.database : "";
    int64_t rounds = 0;
    for (int64_t i = 0; i < result->count; ++i) {
        const bt_gate_verdict *verdict = &result->items[i].verdict;
        bool open = verdict->word == BT_GATE_INCONCLUSIVE && verdict->next_rounds > rounds;
        rounds = open ? verdict->next_rounds : rounds;
    }
    if (result->exit_code == 0 && result->words[BT_GATE_FASTER] > 0 && baseline) {
        bt_str_format(
            out, "%" PRId64 " faster: bt-bench baseline set %s %" PRId64 " --reason \"...\"%s",
            result->words[BT_GATE_FASTER], baseline->name, result->request.run->id, database);
    } else if (result->words[BT_GATE_ADVISORY] > 0 && result->exit_code == 0 && baseline) {
        bt_str_format(out,
                      "speed was not judged: bt-bench baseline add %s RUN...%s, until it has %d "
                      "sessions of this card",
                      baseline->name, database, BT_SESSIONS_MIN);
    } else if (result->words[BT_GATE_INCONCLUSIVE] > 0 && baseline) {
        bt_str_format(out, "bt-bench baseline add %s RUN...%s, or pairs: bt-bench ab",
                      baseline->name, database);
    } else if (rounds > 0) {
        bt_str_format(out, "run again with %" PRId64 " rounds", rounds);
    }
}

// The limits of SAME, in a line: those of the SAME with the fewest rounds.
static void print_blind_spot(const bt_gate_result *result, bt_str *out)
{
    int64_t fewest = 0;
    for (int64_t i = 0; i < result->count; ++i) {
        const bt_gate_verdict *verdict = &result->items[i].verdict;
        if (!isnan(verdict->blind_share) && (fewest == 0 || verdict->rounds < fewest)) {
            fewest = verdict->rounds;
        }
    }
    if (fewest > 0 && bt_blind_share(fewest) < 1) {
        bt_str_format(out,
                      "note  SAME of %" PRId64 " rounds does not exclude a slowdown in fewer than "
                      "%.2g %% of the rounds\n",
                      fewest, 100 * bt_blind_share(fewest));
    } else if (fewest > 0) {
        bt_str_format(out,
                      "note  SAME of %" PRId64 " rounds does not exclude a slowdown in some of "
                      "them\n",
                      fewest);
    }
}

void bt_gate_notes(const bt_gate_result *result, bt_str *out)
{
    print_blind_spot(result, out);
    if (result->unreported > 0) {
        bt_str_format(out,
                      "memory is not compared in %s: only one of the two systems "
                      "reports it\n",
                      bt_format_items(result->unreported, "case").text);
    }
    if (*result->warning) {
        bt_str_format(out, "warning  %s\n", result->warning);
    }
}

bt_status bt_gate_text(const bt_gate_result *result, const char *report, bt_str *out)
{
    size_t start = out->length_bytes;
    bt_str_append(out, "gate  ");
    bt_gate_heading(result, out);
    bt_str_append(out, "\n\n");
    for (int i = 0; i < WORDS; ++i) {
        for (int64_t j = 0; j < result->count; ++j) {
            bool quiet = by_weight[i] == BT_GATE_SAME && !result->items[j].clocks_differ;
            if (result->items[j].verdict.word == by_weight[i] && !quiet) {
                print_item(&result->items[j], out);
            }
        }
    }
    BT_TRY(print_besides(result, out));
    bt_gate_notes(result, out);
    bt_str_format(out, "%s  %s: ", bt_gate_outcome(result),
                  bt_format_items(result->case_count, "case").text);
    bt_gate_counts(result, out);
    if (result->excused > 0) {
        bt_str_format(out, "; %" PRId64 " allowed by the policy", result->excused);
    }
    if (*report) {
        bt_str_format(out, "   report %s", report);
    }
    bt_str_format(out, "   exit %d\n", result->exit_code);
    BT_SCOPED(bt_str) next = {0};
    bt_gate_next(result, &next);
    if (next.length_bytes > 0) {
        bt_str_format(out, "next  %s\n", bt_str_text(&next));
    }
    return bt_text_end(out, start);
}

// ---- JSON --------------------------------------------------------------------------------------

static void write_item(const bt_gate_item *item, bt_json_writer *json)
{
    const bt_gate_verdict *verdict = &item->verdict;
    bool metric = item->metric < BT_GATE_METRIC_COUNT;
    BT_JSON_OBJECT(json, NULL, BT_OF(item, subject),
                   BT_KV("metric", metric ? bt_gate_metric_info(item->metric)->tag : ""),
                   BT_KV("verdict", bt_gate_word_name(verdict->word)), BT_OF(verdict, ratio),
                   BT_OF(verdict, low), BT_OF(verdict, high), BT_OF(verdict, base),
                   BT_OF(verdict, candidate), BT_OF(verdict, rounds), BT_OF(verdict, next_rounds),
                   BT_OF(verdict, blind_share), BT_OF(&item->rule, tolerance),
                   BT_OF(&item->rule, gated), BT_OF(item, excused), BT_KV("reason", item->sentence),
                   BT_OF(item, changes));
}

bt_status bt_gate_json(const bt_gate_result *result, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 2};
    const bt_baseline *baseline = result->request.baseline;
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("run", result->request.run->id),
            BT_KV("suite", result->request.run->info.suite.name));
    if (baseline) {
        BT_JSON_OBJECT(&json, "baseline", BT_OF(baseline, name), BT_OF(baseline, digest),
                       BT_OF(baseline, created), BT_OF(baseline, machine), BT_OF(baseline, reason),
                       BT_OF(&baseline->build, git_commit),
                       BT_KV("sessions", bt_baseline_sessions(baseline)));
    } else {
        bt_json_writer_null(&json, "baseline");
    }
    BT_JSON_OBJECT(&json, "policy", BT_OF(result->request.policy, name),
                   BT_OF(result->request.policy, digest));
    BT_SCOPED(bt_str) besides = {0};
    BT_TRY(bt_gate_besides(result, true, &besides));
    bt_json_writer_text(&json, "besides", bt_str_text(&besides));
    BT_JSON(&json, BT_OF(result, warning), BT_OF(result, exit_code),
            BT_KV("cases", result->case_count), BT_OF(result, excused));
    bt_json_writer_open(&json, "counts", '{');
    for (int i = 0; i < BT_GATE_WORD_COUNT; ++i) {
        bt_json_writer_integer(&json, bt_gate_word_name((bt_gate_word)i), result->words[i]);
    }
    bt_json_writer_close(&json, '}');
    BT_JSON_LIST(&json, "verdicts", i, result->count) {
        write_item(&result->items[i], &json);
    }
    return bt_json_writer_end(&json, '}');
}
