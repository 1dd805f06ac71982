// harness/plan/describe.c - a plan as a few lines of text
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/plan/plan.h"
#include "harness/text/table.h"
#include "harness/text/wrap.h"

enum { KERNELS_SHOWN = 12, INDENT = 10 };

// 124475904 -> "124,475,904"
static void append_grouped(int64_t value, bt_str *out)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)value);
    for (int i = 0; i < length; ++i) {
        bt_str_format(out, "%s%c", i && (length - i) % 3 == 0 ? "," : "", digits[i]);
    }
}

static void add_training_case(const cJSON *item, bt_table *table)
{
    BT_SCOPED(bt_str) text = {0};
    bt_str *out = &text;
    const cJSON *train = bt_json_get(item, "train");
    int64_t micro_batch = (int64_t)bt_plan_number(train, "micro_batch");
    int64_t sequence = (int64_t)bt_plan_number(train, "sequence");
    int64_t tokens = (int64_t)bt_plan_number(train, "tokens_per_step");
    append_grouped(bt_plan_parameters(train), out);
    bt_str_format(out, " parameters, %s, ", bt_json_get(train, "precision")->valuestring);
    if (tokens != micro_batch * sequence) {
        append_grouped(tokens, out);
        bt_str_append(out, " tokens a step in micro-batches of ");
    }
    bt_str_format(out, "%lld x %lld%s, %s, seed %lld", (long long)micro_batch, (long long)sequence,
                  tokens != micro_batch * sequence ? "" : " tokens a step",
                  bt_format_items((int64_t)bt_plan_number(train, "steps"), "step").text,
                  (long long)bt_plan_number(train, "seed"));
    const bt_plan_recompute how = bt_plan_recompute_of(train);
    if (how.mode != BT_RECOMPUTE_NONE) {
        bt_str_format(out, ", recompute %s in %lld of %lld blocks",
                      bt_recompute_mode_name(how.mode), (long long)how.blocks,
                      (long long)bt_plan_number(train, "model.layers"));
    }
    if (strcmp(bt_json_text_of(train, "compile"), "on") == 0) {
        bt_str_append(out, ", compiled");
    }
    const bt_plan_mesh mesh = bt_plan_mesh_of(train);
    if (mesh.ranks > 1) {
        bt_str_format(out, ", mesh %s", bt_plan_mesh_text(train).text);
    }
    if (mesh.data * mesh.context > 1) { // ranks reduce gradients
        bt_str_format(out, ", %s, buckets of %g MiB",
                      bt_json_text_of(bt_json_get(train, "mesh"), "sharding"),
                      bt_plan_number(train, "mesh.bucket_mb"));
    }
    bt_table_cells(table, "%s|%s", bt_json_text_of(item, "name"), bt_str_text(out));
}

static void add_command_case(const cJSON *item, bt_table *table)
{
    BT_SCOPED(bt_str) words = {0};
    bt_json_write(bt_json_get(bt_json_get(item, "command"), "run"), &words);
    bt_table_cells(table, "%s|%s", bt_json_text_of(item, "name"), bt_str_text(&words));
}

static void add_kernel_case(const cJSON *item, bt_table *table)
{
    const cJSON *kernel = bt_json_get(item, "kernel");
    bt_table_cells(table, "%s|%s, %.3g MB", bt_json_text_of(item, "name"),
                   bt_json_text_of(kernel, "cache"), bt_json_number_of(kernel, "bytes") / 1e6);
}

// The cases of a plan, one a row; of the kernel cases the first KERNELS_SHOWN.
static bt_status append_cases(const bt_plan *plan, int columns, bt_str *out)
{
    bt_table table = {0};
    int64_t kernels = 0;
    bt_table_heads(&table, "|<");
    bt_table_fit(&table, columns, "");
    for (const cJSON *item = plan->cases->child; item; item = item->next) {
        if (bt_json_get(item, "kernel")) {
            if (++kernels <= KERNELS_SHOWN) {
                add_kernel_case(item, &table);
            }
        } else if (bt_json_get(item, "command")) {
            add_command_case(item, &table);
        } else {
            add_training_case(item, &table);
        }
    }
    BT_TRY(bt_table_print(&table, INDENT, out));
    if (kernels > KERNELS_SHOWN) {
        bt_str_format(out, "%*sand %lld more\n", INDENT, "", (long long)(kernels - KERNELS_SHOWN));
    }
    return BT_OK;
}

void bt_plan_describe(const bt_plan *plan, int columns, bt_str *out)
{
    const size_t start = out->length_bytes;
    bt_str_format(out, "plan      %s, profile %s", plan->suite, plan->profile);
    if (plan->chosen && plan->reason[0]) {
        bt_str_append(
            out,
            " (a better profile cannot run here, see bt-bench doctor; --profile selects another)");
    } else if (plan->chosen) {
        bt_str_append(out, " (the best for this machine; --profile selects another)");
    }
    bt_str_append(out, "\n");
    bt_wrap_from(out, start, columns);
    if (append_cases(plan, columns, out) != BT_OK) {
        return; // `out` has the status
    }
    const cJSON *system = NULL;
    cJSON_ArrayForEach(system, plan->systems) {
        bt_str_format(out, "%s%s", system == plan->systems->child ? "          systems " : ", ",
                      system->valuestring);
    }
    bt_str_append(out, plan->systems ? "\n" : "");
    bt_str_format(out, "          plan %.8s, %lld %s, %lld %s each\n", plan->hash,
                  (long long)plan->case_count, plan->case_count == 1 ? "case" : "cases",
                  (long long)plan->rounds, plan->rounds == 1 ? "round" : "rounds");
}
