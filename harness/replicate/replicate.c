// harness/replicate/replicate.c - pairs of rounds, intervals, verdicts
#include "harness/replicate/replicate.h"

#include <math.h>
#include <string.h>

#include "harness/stats/decide.h"
#include "harness/stats/summary.h"

#define PAIRS_MAX 1000

const char *bt_verdict_name(bt_verdict verdict)
{
    static const char *const names[] = {
#define BT_VERDICT_TEXT(name, word) word,
        BT_VERDICT_LIST(BT_VERDICT_TEXT)
#undef BT_VERDICT_TEXT
    };
    return (unsigned)verdict < BT_VERDICT_COUNT ? names[verdict] : "?";
}

// ---- judging -----------------------------------------------------------------------------------

void bt_replication_judge(const double *logs, int64_t count, bt_replication *out)
{
    double low = 0, high = 0;
    double mean = bt_mean_interval(logs, count, 0.95, &low, &high);
    out->pairs = count;
    out->ratio = exp(mean);
    out->verdict = BT_VERDICT_INCONCLUSIVE;
    if (count < 2) {
        return;
    }
    out->low = exp(low);
    out->high = exp(high);
    if (out->low > out->claimed * (1 + out->margin)) {
        out->verdict = BT_VERDICT_EXCEEDED;
    } else if (out->low >= out->claimed / (1 + out->margin)) {
        out->verdict = BT_VERDICT_REPLICATED;
    } else if (out->high < out->claimed / (1 + out->margin)) {
        out->verdict = BT_VERDICT_NOT_REPLICATED;
    }
}

// ---- one claim ---------------------------------------------------------------------------------

static const char *text_of(const cJSON *object, const char *key)
{
    const cJSON *node = bt_json_get(object, key);
    return cJSON_IsString(node) ? node->valuestring : "";
}

// The system here that stands for one of the paper.
static const char *stand_in(const cJSON *root, const char *name)
{
    const cJSON *alias = NULL;
    cJSON_ArrayForEach(alias, bt_json_get(root, "stands_for"))
    {
        if (strcmp(text_of(alias, "name"), name) == 0) {
            return text_of(alias, "system");
        }
    }
    return name;
}

// Median time of a round, NaN unless it passed and was timed.
static bt_status time_of(const bt_store_round *round, double *time_ns)
{
    bt_summary summary;
    *time_ns = (double)NAN;
    if (round->status == BT_RUN_PASSED) {
        BT_TRY(bt_summary_of(round, &summary));
        *time_ns = summary.metrics[BT_METRIC_TIME].value;
    }
    return BT_OK;
}

static const bt_store_round *find_round(const bt_store_run *run, const char *name,
                                        const char *system, int64_t ordinal)
{
    for (int64_t i = 0; i < run->round_count; ++i) {
        const bt_store_round *round = &run->rounds[i];
        if (round->ordinal == ordinal && strcmp(round->what.name, name) == 0 &&
            strcmp(round->what.system, system) == 0) {
            return round;
        }
    }
    return NULL;
}

// Logarithms of other time over our time, of all rounds in which both were timed.
static bt_status collect(const bt_store_run *run, const char *name, const char *other, double *logs,
                         int64_t *count)
{
    *count = 0;
    for (int64_t i = 0; i < run->round_count && *count < PAIRS_MAX; ++i) {
        const bt_store_round *ours = &run->rounds[i];
        if (strcmp(ours->what.name, name) != 0 || strcmp(ours->what.system, "blutrain") != 0) {
            continue;
        }
        const bt_store_round *theirs = find_round(run, name, other, ours->ordinal);
        double our_ns = (double)NAN, their_ns = (double)NAN;
        BT_TRY(time_of(ours, &our_ns));
        if (theirs) {
            BT_TRY(time_of(theirs, &their_ns));
        }
        if (our_ns > 0 && their_ns > 0) {
            logs[(*count)++] = log(their_ns / our_ns);
        }
    }
    return BT_OK;
}

static bool is_of_time(const char *metric)
{
    return strcmp(metric, "time") == 0 || strcmp(metric, "bandwidth") == 0 ||
           strcmp(metric, "compute") == 0;
}

// The two systems that a claim compares, and its advantage of ours over the other.
static bool understand(const cJSON *claim, const char **other, double *advantage)
{
    const cJSON *values = bt_json_get(claim, "values");
    double ours = (double)NAN, theirs = (double)NAN;
    *other = NULL;
    for (const cJSON *value = values ? values->child : NULL; value; value = value->next) {
        const char *system = text_of(value, "system");
        if (strcmp(system, "blutrain") == 0) {
            ours = bt_json_number_of(value, "value");
        } else if (!*other) {
            *other = system;
            theirs = bt_json_number_of(value, "value");
        }
    }
    bool lower = strcmp(text_of(claim, "better"), "lower") == 0;
    *advantage = lower ? theirs / ours : ours / theirs;
    return *other && *advantage > 0;
}

static bt_status replicate_claim(const cJSON *root, const cJSON *claim, const bt_store_run *run,
                                 bt_replication *out)
{
    double logs[PAIRS_MAX];
    int64_t count = 0;
    const char *other = NULL;
    const cJSON *item = bt_json_get(claim, "case");
    *out = (bt_replication){.id = text_of(claim, "id"),
                            .claimed = (double)NAN,
                            .margin = bt_json_number_of(claim, "margin"),
                            .ratio = (double)NAN,
                            .low = (double)NAN,
                            .high = (double)NAN,
                            .verdict = BT_VERDICT_NOT_TESTABLE,
                            .reason = text_of(claim, "untested")};
    bool pair = understand(claim, &other, &out->claimed);
    if (!item) {
        return BT_OK;
    }
    if (!pair || !is_of_time(text_of(claim, "metric"))) {
        out->reason = "no ratio of two times";
        return BT_OK;
    }
    BT_TRY(collect(run, text_of(item, "name"), stand_in(root, other), logs, &count));
    if (count == 0) {
        out->reason = "the run has no round of it on both systems";
        return BT_OK;
    }
    bt_replication_judge(logs, count, out);
    out->reason = out->pairs < 2 ? "one pair of rounds; see --rounds" : "";
    return BT_OK;
}

// ---- all claims --------------------------------------------------------------------------------

bt_status bt_replicate(const bt_json_doc *claims, const bt_store_run *run, bt_replications *out)
{
    const cJSON *list = bt_json_get(claims->root, "claims");
    void *block = NULL;
    memset(out, 0, sizeof *out);
    if (!cJSON_IsArray(list)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: no list \"claims\"", claims->name);
    }
    BT_TRY(bt_mem_alloc((size_t)cJSON_GetArraySize(list), sizeof *out->items, &block));
    out->items = block;
    for (const cJSON *claim = list->child; claim; claim = claim->next) {
        bt_replication *item = &out->items[out->count++];
        bt_status status = replicate_claim(claims->root, claim, run, item);
        if (status != BT_OK) {
            bt_replications_release(out);
            return status;
        }
        ++out->verdicts[item->verdict];
    }
    return BT_OK;
}

void bt_replications_release(bt_replications *replications)
{
    bt_mem_free(replications->items);
    memset(replications, 0, sizeof *replications);
}

int bt_replications_exit_code(const bt_replications *replications)
{
    const int64_t *verdicts = replications->verdicts;
    return verdicts[BT_VERDICT_NOT_REPLICATED]                        ? 1
           : verdicts[BT_VERDICT_INCONCLUSIVE]                        ? 3
           : verdicts[BT_VERDICT_NOT_TESTABLE] == replications->count ? 4
                                                                      : 0;
}
