// harness/cases/compile_dump.c - writes graphs, groups and code of a case as text
#include "harness/cases/compile_dump.h"

#include <string.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "framework/compiler/dialect.h"
#include "framework/compiler/run.h"
#include "framework/compiler/tiling.h"

static const char *const words[BT_COMPILE_DUMP_COUNT] = {
#define WORD(name, word, text) word,
    BT_COMPILE_DUMP_LIST(WORD)
#undef WORD
};

#define WORDS "graph, simple, bt, groups, mlir, llvm, ptx"

bt_status bt_compile_dumps_parse(const char *list, unsigned *dumps)
{
    *dumps = 0;
    BT_FAIL_IF(!*list, BT_STATUS_INVALID_ARGUMENT, "--dump \"\": expected a list of " WORDS);
    for (const char *at = list; *at;) {
        const size_t length = strcspn(at, ",");
        unsigned found = 0;
        for (unsigned i = 0; i < BT_COMPILE_DUMP_COUNT; ++i) {
            found |= strlen(words[i]) == length && strncmp(words[i], at, length) == 0 ? 1U << i : 0;
        }
        BT_FAIL_IF(!found, BT_STATUS_INVALID_ARGUMENT,
                   "--dump %s: unknown dump \"%.*s\"; expected " WORDS, list, (int)length, at);
        *dumps |= found;
        at += length + (at[length] == ',');
    }
    return BT_OK;
}

static bool is_wanted(const bt_compile_dumper *d, bt_compile_dump which)
{
    return d->dumps >> which & 1U;
}

static bt_status write_text(const bt_compile_dumper *d, bt_compile_dump which, bt_str *text)
{
    BT_SCOPED(bt_str) path = {0};
    bt_str_format(&path, "%s/%s.%s.%s", d->folder, d->name, words[which],
                  which == BT_COMPILE_DUMP_BT ? "mlir" : "txt");
    BT_TRY(bt_str_status(text));
    BT_TRY(bt_str_status(&path));
    BT_TRY(bt_file_write(bt_str_text(&path), bt_str_text(text), text->length_bytes));
    d->out->dump_files += 1;
    d->out->dump_bytes += (int64_t)text->length_bytes;
    return BT_OK;
}

bt_status bt_compile_dump_graph(const bt_compile_dumper *d, bt_compile_dump which,
                                const bt_dag *graph)
{
    BT_SCOPED(bt_str) text = {0};
    if (!is_wanted(d, which)) {
        return BT_OK;
    }
    bt_dag_print(graph, &text);
    return write_text(d, which, &text);
}

bt_status bt_compile_verifier(void) { return bt_compiler_available(); }

bt_status bt_compile_dump_dialect(const bt_compile_dumper *d, const bt_dag *graph)
{
    BT_SCOPED(bt_str) text = {0};
    if (!is_wanted(d, BT_COMPILE_DUMP_BT)) {
        return BT_OK;
    }
    bt_dialect_print_graph(graph, &text);
    BT_TRY(write_text(d, BT_COMPILE_DUMP_BT, &text));
    if (bt_compiler_available()) {
        bt_error_clear();
        return BT_OK;
    }
    return bt_dialect_verify(bt_str_text(&text));
}

// A group without code is named with the reason.
static bt_status append_code(const bt_compile_dumper *d, const bt_fused *group, int number,
                             bt_code_form form, bt_str *out)
{
    BT_SCOPED(bt_str) text = {0};
    const bt_status status = bt_compile_text(d->target, group, form, &text);
    if (status && status != BT_STATUS_UNSUPPORTED) {
        return status;
    }
    bt_str_format(out, "// group %d\n", number);
    if (status) {
        bt_str_format(out, "// no code: %s\n", bt_error_message());
        bt_error_clear();
    } else {
        bt_str_append(out, bt_str_text(&text));
    }
    return bt_str_status(out);
}

static bt_status dump_code(const bt_compile_dumper *d, const bt_fusion_plan *fusion)
{
    static const struct {
        bt_compile_dump which;
        bt_code_form form;
    } rows[] = {{BT_COMPILE_DUMP_MLIR, BT_CODE_MLIR},
                {BT_COMPILE_DUMP_LLVM, BT_CODE_LLVM},
                {BT_COMPILE_DUMP_PTX, BT_CODE_PTX}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        BT_SCOPED(bt_str) text = {0};
        if (is_wanted(d, rows[i].which)) {
            for (int g = 0; g < fusion->count; ++g) {
                BT_TRY(append_code(d, fusion->groups[g].group, g, rows[i].form, &text));
            }
            BT_TRY(write_text(d, rows[i].which, &text));
        }
    }
    return BT_OK;
}

bt_status bt_compile_dump_groups(const bt_compile_dumper *d, const bt_dag *graph,
                                 const bt_fusion_plan *fusion)
{
    BT_SCOPED(bt_str) text = {0};
    if (is_wanted(d, BT_COMPILE_DUMP_GROUPS)) {
        bt_fusion_plan_print(graph, fusion, &text);
        bt_str_append(&text, bt_str_text(&fusion->decisions));
        for (int i = 0; i < fusion->count; ++i) {
            BT_TRY(bt_tilings_print(d->target, fusion->groups[i].group, i, &text));
        }
        BT_TRY(write_text(d, BT_COMPILE_DUMP_GROUPS, &text));
    }
    return dump_code(d, fusion);
}

bt_status bt_compile_dump_group(const bt_compile_dumper *d, const bt_dag *graph,
                                const bt_fused *group)
{
    bt_fused copy = *group;
    int node = 0;
    bt_fusion only = {.group = &copy,
                      .nodes = &node,
                      .node_count = 1,
                      .bytes_before = bt_fused_bytes(group),
                      .bytes_after = bt_fused_bytes(group)};
    const bt_fusion_plan plan = {.groups = &only, .count = 1};
    return bt_compile_dump_groups(d, graph, &plan);
}
