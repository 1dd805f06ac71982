// harness/env/print.c - facts for people and as JSON
#include "harness/env/facts.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"

bt_status bt_facts_text(const bt_facts *facts, int columns, bt_str *out)
{
    static const char *const titles[BT_FACT_LEVEL_COUNT] = {
        [BT_FACT_HARD] = "hard: must be equal for speeds to be compared",
        [BT_FACT_SOFT] = "soft: may explain a difference",
        [BT_FACT_INFO] = "info",
    };
    size_t start = out->length_bytes;
    bt_status status = BT_OK;
    bt_str_format(out, "environment %s\n", facts->digest);
    for (int level = 0; level < BT_FACT_LEVEL_COUNT && status == BT_OK; ++level) {
        bt_table table = {0};
        bt_str_format(out, "\n%s\n", titles[level]);
        bt_table_heads(&table, "|<");
        bt_table_fit(&table, columns, "");
        for (int64_t i = 0; i < facts->count; ++i) {
            if ((int)facts->rows[i].level == level) {
                bt_table_cells(&table, "%s|%s", facts->rows[i].key, facts->rows[i].value);
            }
        }
        status = bt_table_print(&table, 2, out);
    }
    BT_TRY(status);
    return bt_text_end(out, start);
}

bt_status bt_facts_json(const bt_facts *facts, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 1};
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_text(&json, "environment", facts->digest);
    BT_JSON_LIST(&json, "facts", i, facts->count) {
        BT_JSON_OBJECT(&json, NULL, BT_OF(&facts->rows[i], key), BT_OF(&facts->rows[i], value),
                       BT_KV("level", bt_fact_level_name(facts->rows[i].level)));
    }
    return bt_json_writer_end(&json, '}');
}
