// harness/cases/operands/make.h - how the files of this folder say what an operation works on
//
// A maker, bt_operands_<name>, adds the operands of a row of kernel_ops.inl to a body that has its
// shape, dtype and direction, and sets `args`, which puts them into the kernel's argument struct.
// Inputs of a backward kernel that a forward one would have made (statistics, log-sum-exp,
// probabilities) are drawn instead, in their usual range: a kernel is a function of what it is
// given, and is checked and timed as such.
#ifndef BT_HARNESS_CASES_OPERANDS_MAKE_H
#define BT_HARNESS_CASES_OPERANDS_MAKE_H

#include "harness/cases/operands.h"

typedef bt_kernel_body body;
typedef bt_kernel_args any;
typedef bt_kernel_items items;

#define VOCABULARY_SHIFT 0.5 // log-sum-exp of n normal numbers is about log(n) + 1/2

// The kernel, and the rows that it is called over; the reference goes through them in chunks.
void bt_operands_of(body *self, bt_kernel_op op, int64_t rows);
// An operand with so many elements a row, or once; of the case's dtype, standard normal, exact.
bt_operand *bt_operand_add(body *self, const char *name, bt_operand_role role, int64_t per_row);
bt_operand *bt_operand_add_whole(body *self, const char *name, bt_operand_role role, int64_t count);
void bt_operand_filled(bt_operand *operand, bt_operand_fill fill, double a, double b);
void bt_operand_within(bt_operand *operand, double relative, double terms);

// Storage of the call; of its statistics and gradients of parameters.
bt_dtype bt_operand_type(const body *self, bool wide);
bt_dtype bt_operand_sum_type(const body *self, bool wide);

// A maker a row.
#define BT_KERNEL_CASE_OP(name, min_rank, max_rank, axes, forward_bytes, backward_bytes,           \
                          forward_flops, backward_flops)                                           \
    void bt_operands_##name(body *self);
#include "harness/suite/kernel_ops.inl"
#undef BT_KERNEL_CASE_OP

#endif
