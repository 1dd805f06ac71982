// kernels/operands.h - the memory that a kernel call touches, and its attributes; from operands.inl
#ifndef BT_KERNELS_OPERANDS_H
#define BT_KERNELS_OPERANDS_H

#include "kernels/kernels.h"

enum { BT_KERNEL_OPERANDS_MOST = 12 };

typedef struct bt_kernel_operand {
    const char *name; // of the field: "x", "q.base"; of an item: "grad"
    const void *pointer;
    bool reads, writes; // both false where the pointer is NULL, or the call does not touch it
    bt_dtype dtype;
    int64_t count; // elements that are touched
    int64_t span;  // elements from the first to the last of them, both included
} bt_kernel_operand;

typedef enum bt_kernel_attribute_type {
    BT_KERNEL_ATTRIBUTE_BOOL,
    BT_KERNEL_ATTRIBUTE_INT,
    BT_KERNEL_ATTRIBUTE_I32,
    BT_KERNEL_ATTRIBUTE_I64,
    BT_KERNEL_ATTRIBUTE_U64,
    BT_KERNEL_ATTRIBUTE_F64,
    BT_KERNEL_ATTRIBUTE_AXES // int64_t [BT_MAX_RANK]
} bt_kernel_attribute_type;

typedef struct bt_kernel_attribute {
    bt_kernel_op op;
    const char *name;
    size_t offset; // in the struct
    bt_kernel_attribute_type type;
} bt_kernel_attribute;

// Size of the op's operand struct in bytes.
size_t bt_kernel_operands_struct_bytes(bt_kernel_op op);
// The struct's own pointers, in the table's order: the n-th is the same field in each call of the
// op. Returns how many the op has; out has room for BT_KERNEL_OPERANDS_MOST.
int bt_kernel_operands_of(bt_kernel_op op, const void *args, bt_kernel_operand *out);
// Where field n is in the struct.
void **bt_kernel_operand_slot(bt_kernel_op op, void *args, int n);
// Of ops that take lists (ADAMW, GEMM_GROUPED and others): how many items, and the pointers of one.
int64_t bt_kernel_operands_item_count(bt_kernel_op op, const void *args);
int bt_kernel_operands_of_item(bt_kernel_op op, const void *args, int64_t item,
                               bt_kernel_operand *out);
bool bt_kernel_operands_has_items(bt_kernel_op op);

// The type by which the call's row is looked up (bt_kernel_find): its struct's first one.
bt_dtype bt_kernel_main_dtype(bt_kernel_op op, const void *args);

// The op's n-th attribute, NULL past the last.
const bt_kernel_attribute *bt_kernel_attribute_at(bt_kernel_op op, int n);

#endif
