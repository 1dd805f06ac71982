// harness/cases/operands/make.h - helpers of this folder to describe the operands of an operation
//
// A maker, bt_operands_<name>, adds the operands of a row of kernel_ops.inl to a body that has its
// shape, dtype and direction, and sets `args`, which fills the kernel's argument struct. Inputs of
// a backward kernel that the forward would compute (statistics, log-sum-exp, probabilities) are
// random instead, in their usual range: a kernel is a function of its arguments, and is checked and
// timed as such.
#ifndef BT_HARNESS_CASES_OPERANDS_MAKE_H
#define BT_HARNESS_CASES_OPERANDS_MAKE_H

#include "harness/cases/operands.h"

typedef bt_kernel_body body;
typedef bt_kernel_args any;
typedef bt_kernel_asked asked;

#define VOCABULARY_SHIFT 0.5 // log-sum-exp of n normal numbers is about log(n) + 1/2

// Sets the kernel and its number of rows; the reference processes them in chunks.
void bt_operands_of(body *self, bt_kernel_op op, int64_t rows);
// Adds an operand with this many elements per row, or once; of the case's dtype, standard normal,
// exact.
bt_operand *bt_operand_add(body *self, const char *name, bt_operand_role role, int64_t per_row);
bt_operand *bt_operand_add_whole(body *self, const char *name, bt_operand_role role, int64_t count);
void bt_operand_filled(bt_operand *operand, bt_operand_fill fill, double a, double b);
void bt_operand_within(bt_operand *operand, double relative, double terms);

// Storage type of the call; of its statistics and parameter gradients.
bt_dtype bt_operand_type(const body *self, bool wide);
bt_dtype bt_operand_sum_type(const body *self, bool wide);

// One maker per row.
#define BT_KERNEL_CASE_OP(name, min_rank, max_rank, axes, forward_bytes, backward_bytes,           \
                          forward_flops, backward_flops)                                           \
    void bt_operands_##name(body *self);
#include "harness/suite/kernel_ops.inl"
#undef BT_KERNEL_CASE_OP

#endif
