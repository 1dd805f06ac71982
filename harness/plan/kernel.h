// harness/plan/kernel.h - kernel cases: expands lists, computes costs
#ifndef BT_HARNESS_PLAN_KERNEL_H
#define BT_HARNESS_PLAN_KERNEL_H

#include <stdbool.h>

#include "harness/suite/json.h"

#define BT_KERNEL_AXES_MAX    4
#define BT_KERNEL_TENSORS_MAX 160

// X(enumerator, name) of the table harness/suite/kernel_ops.inl
typedef enum bt_kernel_case_op {
#define BT_KERNEL_CASE_OP(name, min_rank, max_rank, axes, forward_bytes, backward_bytes,           \
                          forward_flops, backward_flops)                                           \
    BT_KERNEL_CASE_##name,
#include "harness/suite/kernel_ops.inl"
#undef BT_KERNEL_CASE_OP
    BT_KERNEL_CASE_OP_COUNT
} bt_kernel_case_op;

typedef struct bt_kernel_shape {
    int rank;
    int64_t axes[BT_KERNEL_AXES_MAX]; // 1 beyond rank
    int64_t count;                    // of elements
    int64_t tensors[BT_KERNEL_TENSORS_MAX];
    int tensor_count; // 1, or those of a named set of tensors, whose rank is 1
} bt_kernel_shape;

const char *bt_kernel_case_op_name(bt_kernel_case_op op);
bool bt_kernel_case_op_parse(const char *name, bt_kernel_case_op *op);
// "16384x768", "block" (the 12 tensors of a block of GPT-2 124M), "gpt2_124m" (all 148). False if
// it is neither, or has more than 2^50 elements.
bool bt_kernel_shape_parse(const char *text, bt_kernel_shape *out);

// Bytes and flops of one call; 0 bytes: there is no such direction.
double bt_kernel_bytes(bt_kernel_case_op op, bool backward, const bt_kernel_shape *shape,
                       int element_bytes);
double bt_kernel_flops(bt_kernel_case_op op, bool backward, const bt_kernel_shape *shape);

// Whether a case of this name is selected; `by` belongs to the caller.
typedef bool (*bt_plan_selects)(const char *name, const void *by);

// An item of a suite whose lists expand to several cases of a plan.
typedef struct bt_plan_expansion {
    const bt_json_doc *json;
    const cJSON *node;       // position for messages
    const cJSON *item;       // {name, kind, systems, and the object with the lists}
    bt_plan_selects selects; // NULL: all
    const void *by;
    cJSON *cases; // of the plan; appended to
} bt_plan_expansion;

enum { BT_PLAN_LISTS = 4 };

// A member of a case's object: a text ("": omitted), or a number if that is NULL.
typedef struct bt_plan_member {
    const char *key, *text;
    double number;
} bt_plan_member;

// Calls `add` for each combination of the texts, or lists of texts, under the keys of an object;
// the last key varies fastest.
BT_CHECKED bt_status bt_plan_combine(const bt_plan_expansion *self, const cJSON *object,
                                     const char *const keys[BT_PLAN_LISTS],
                                     bt_status (*add)(const bt_plan_expansion *self,
                                                      const char *const values[BT_PLAN_LISTS]));
// The index-th value of a text or a list of texts, NULL past the last.
const char *bt_plan_text_at(const cJSON *values, int index);
// Appends the case {name, kind, systems, kernel: members [count]} if it is selected.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_plan_case_add(const bt_plan_expansion *self, const char *name,
                                      const char *kind, const bt_plan_member *members, int count);

// The cases of kernel: {op, direction, dtype, cache, shape, ...}.
// Errors  INVALID_ARGUMENT (a shape or direction that the operation does not have), OUT_OF_MEMORY
BT_CHECKED bt_status bt_plan_kernel_expand(const bt_plan_expansion *self);
// Inserts the ceilings that a case is compared with before the cases: a copy of 256 MiB,
// "ceiling.<cache>", for each cache mode with a case that has a bandwidth fraction or a point in
// the roofline; and a large product, "ceiling.gemm.<dtype>", for each type of products. `device`:
// "cpu", "cuda".
BT_CHECKED bt_status bt_plan_kernel_ceilings(const char *device, cJSON *cases);
// Whether the bandwidth of a kernel case can be compared with the run's copy in its cache mode. Hot
// cases qualify only if they move at least half of what the copy moves: smaller ones fit a cache
// that the copy does not fit, and would have fractions of several hundred percent.
bool bt_plan_kernel_has_share(const cJSON *kernel);
// Whether a case is a ceiling; a copy.
bool bt_plan_kernel_is_ceiling(const cJSON *item);
bool bt_plan_kernel_is_copy(const cJSON *item);

#endif
