// framework/compiler/group_op.c - instructions of groups: their texts, uses and kinds
#include "framework/compiler/group.h"

static const char *const op_texts[] = {
#define TEXT(name, text, uses) text,
    BT_FUSED_OP_LIST(TEXT)
#undef TEXT
};

static const char *const kind_texts[] = {
#define TEXT(name, text) text,
    BT_FUSED_KIND_LIST(TEXT)
#undef TEXT
};

static const char *const extent_texts[] = {"scalar", "row", "column", "full"};

static const int op_uses[] = {
#define USES(name, text, uses) uses,
    BT_FUSED_OP_LIST(USES)
#undef USES
};

const char *bt_fused_op_text(bt_fused_op op) { return op_texts[op]; }

const char *bt_fused_kind_text(bt_fused_kind kind) { return kind_texts[kind]; }

const char *bt_fused_extent_text(bt_fused_extent extent) { return extent_texts[extent]; }

int bt_fused_op_uses(bt_fused_op op) { return op_uses[op]; }

bool bt_fused_op_reduces(bt_fused_op op)
{
    return op == BT_FUSED_ROW_SUM || op == BT_FUSED_ROW_DOT || op == BT_FUSED_ROW_MAX ||
           op == BT_FUSED_COLUMN_SUM;
}
