// framework/ops/attrs.h - the attributes of an op: a struct, and the table of its fields
//
// The parameters of a call other than tensors are in a struct that the op's source or header
// declares. The op's row names the table of the struct's fields, so that the tape, error messages
// and traces can handle attributes without knowing their types.
//
//   typedef struct bt_sum_attrs { int axis; } bt_sum_attrs;
//   static const bt_attr_field fields[] = {BT_ATTR(bt_sum_attrs, axis, INT)};
//   const bt_op_attrs bt_attrs_sum = BT_OP_ATTRS(bt_sum_attrs, fields);
#ifndef BT_OPS_ATTRS_H
#define BT_OPS_ATTRS_H

#include <stdbool.h>
#include <stddef.h>

#include "framework/base/str.h"

typedef enum bt_attr_kind {
    BT_ATTR_BOOL,
    BT_ATTR_INT,
    BT_ATTR_I32,
    BT_ATTR_I64,
    BT_ATTR_U64,
    BT_ATTR_REAL, // double
    BT_ATTR_UNARY,
    BT_ATTR_BINARY,
    BT_ATTR_ACTIVATION,
    BT_ATTR_DTYPE,
    BT_ATTR_SHAPE,
    BT_ATTR_POINTER, // borrowed, of data or of a function; NULL: none
    BT_ATTR_KIND_COUNT
} bt_attr_kind;

// A field of one value, or an array of them.
typedef struct bt_attr_field {
    const char *name;
    bt_attr_kind kind;
    size_t offset, size_bytes;
} bt_attr_field;

typedef struct bt_op_attrs {
    size_t size_bytes; // of the struct; 0: the op has no attributes
    int field_count;
    const bt_attr_field *fields; // [field_count]
} bt_op_attrs;

#define BT_ATTR(type, member, kind)                                                                \
    {                                                                                              \
#member, BT_ATTR_##kind, offsetof(type, member), sizeof((type *)0)->member                 \
    }
#define BT_OP_ATTRS(type, fields)                                                                  \
    {                                                                                              \
        sizeof(type), (int)(sizeof(fields) / sizeof(fields)[0]), fields                            \
    }

// For ops without attributes.
extern const bt_op_attrs bt_attrs_none;

// Bytes of one value of a kind.
size_t bt_attr_size(bt_attr_kind kind);
// Appends "function log, alpha 0"; nothing if there are no fields.
void bt_op_attrs_print(const bt_op_attrs *attrs, const void *values, bt_str *out);

#endif
