// framework/ops/table.c - the table of ops, from ops.inl
//
// Nothing but the table: it refers to every op, and ops call what reads it (op.c).
#include "framework/ops/table.h"

const bt_op bt_op_rows[BT_OP_COUNT] = {
#define TWICE(name) bt_op_##name##_recorded
#define ONCE(name)  NULL
#define ROLES(...)                                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define COUNT(...) (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))
#define BT_OP(id, name, attributes, inputs, optional, outputs, accumulates, flexible, wide, view,  \
              times)                                                                               \
    {#name,                                                                                        \
     &bt_attrs_##attributes,                                                                       \
     ROLES inputs,                                                                                 \
     ROLES outputs,                                                                                \
     COUNT inputs,                                                                                 \
     optional,                                                                                     \
     COUNT outputs,                                                                                \
     accumulates,                                                                                  \
     flexible,                                                                                     \
     wide,                                                                                         \
     view,                                                                                         \
     bt_op_##name##_infer,                                                                         \
     bt_op_##name##_forward,                                                                       \
     bt_op_##name##_backward,                                                                      \
     times(name)},
#include "framework/ops/ops.inl"
#undef BT_OP
#undef TWICE
#undef ONCE
#undef ROLES
#undef COUNT
};
