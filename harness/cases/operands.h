// harness/cases/operands.h - the operands of a kernel case, and the call over them
//
// A body describes one call: its operands (how they are filled, the tolerance of a result) and how
// they become the argument struct of kernels.h. The same body makes the call on the device over all
// rows and, some rows at a time, the reference call in f64 on the CPU.
//
// Invariants
//   1. An operand has `per_row` elements for each of `rows` rows, or `whole` elements once.
//   2. Element i of an input is element i % BT_OPERAND_TILE of its random sequence, rounded to the
//      operand's type; the reference uses the rounded value.
//   3. The call over rows [a, b) with the operands' rows [a, b) gives those rows of the result;
//      whole outputs are sums over rows, which `accumulate` adds to.
#ifndef BT_HARNESS_CASES_OPERANDS_H
#define BT_HARNESS_CASES_OPERANDS_H

#include "harness/plan/kernel.h"
#include "kernels/kernels.h"

#define BT_OPERAND_TILE  1048573 // a prime: rows of round lengths differ
#define BT_OPERANDS_MAX  12
#define BT_OPERAND_SLACK 8 // elements after each operand of the reference that may be written

typedef enum bt_operand_role {
    BT_OPERAND_IN,
    BT_OPERAND_OUT,   // checked
    BT_OPERAND_INOUT, // filled, then checked
    BT_OPERAND_SAVED, // of a peer's reference: computed by the forward call
    BT_OPERAND_SPARE  // written, not checked
} bt_operand_role;

typedef enum bt_operand_fill {
    BT_FILL_NORMAL,  // mean a, deviation b
    BT_FILL_UNIFORM, // in (a, b)
    BT_FILL_CONSTANT,
    BT_FILL_BELOW // integers in [0, a), for I32
} bt_operand_fill;

typedef struct bt_operand {
    const char *name;
    bt_operand_role role;
    bt_dtype dtype;  // on the device; the reference has F64 for floats
    int64_t per_row; // elements; 0: a whole operand
    int64_t whole;   // elements of a whole operand
    bt_operand_fill fill;
    double a, b;
    // |error| <= relative * eps(f32) * |expected| + 2 eps(dtype) |expected|
    //            + 16 eps(f32) * terms + eps(compute) * rounded
    // terms: the sum of the magnitudes that cancel or are summed; rounded: the same for operands
    // that the kernel rounds to the compute type.
    double relative, terms, rounded;
    bool mean; // a whole output that is a mean over the rows, not their sum
} bt_operand;

// Makes a chain of ops (chain.h) over `rows` rows; wide: in f64; accumulate: the reference adds to
// whole outputs.
typedef struct bt_chain_args {
    const struct bt_kernel_body *body;
    int64_t rows;
    bool wide, accumulate;
    void *at[BT_OPERANDS_MAX];
} bt_chain_args;

typedef union bt_kernel_args {
    bt_chain_args chain;
    bt_copy_args copy;
    bt_unary_args unary;
    bt_unary_backward_args unary_backward;
    bt_binary_args binary;
    bt_reduce_sum_args reduce_sum;
    bt_softmax_args softmax;
    bt_softmax_backward_args softmax_backward;
    bt_layernorm_args layernorm;
    bt_layernorm_backward_args layernorm_backward;
    bt_embedding_args embedding;
    bt_embedding_backward_args embedding_backward;
    bt_attention_args attention;
    bt_attention_backward_args attention_backward;
    bt_cross_entropy_args cross_entropy;
    bt_cross_entropy_backward_args cross_entropy_backward;
    bt_grad_norm_args grad_norm;
    bt_adamw_args adamw;
    bt_gemm_args gemm;
} bt_kernel_args;

typedef union bt_kernel_items {
    bt_adamw_item adamw[BT_KERNEL_TENSORS_MAX];
    bt_grad_norm_item grad_norm[BT_KERNEL_TENSORS_MAX];
} bt_kernel_items;

// A call of a body.
typedef struct bt_kernel_asked {
    int64_t rows;
    void *const *at;        // [count of operands]
    bool wide;              // in f64
    bool accumulate;        // whole outputs are added to
    bt_kernel_items *items; // for lists of tensors; lives as long as the call
} bt_kernel_asked;

typedef struct bt_kernel_body {
    bt_kernel_case_op what; // the operation, a row of kernel_ops.inl
    bt_kernel_shape shape;
    bt_dtype dtype; // storage on the device
    bool tf32;      // compute
    bool backward;
    bool peer;       // see bt_kernel_body_for_peer
    bool in_chunks;  // false: the reference is one call over all rows
    bool is_chain;   // a chain of ops (chain.h), without a single kernel
    bt_kernel_op op; // the kernel, unless it is a chain
    bt_dtype main;   // the request for bt_kernel_find
    int64_t rows;
    bt_operand operands[BT_OPERANDS_MAX];
    int count;
    void (*args)(const struct bt_kernel_body *self, const bt_kernel_asked *to, bt_kernel_args *out);
    // The call in f64 that computes the inputs of role SAVED from the others. NULL: there are none
    bt_kernel_op saved_op;
    void (*saved)(const struct bt_kernel_body *self, int64_t rows, void *const *at,
                  bt_kernel_args *out);
} bt_kernel_body;

// Errors  INVALID_ARGUMENT (a case that the plan would reject)
BT_CHECKED bt_status bt_kernel_body_make(const cJSON *kernel, bt_kernel_body *out);
// The body of a case as frameworks define it: a backward call gets the statistics of its forward
// call (role SAVED, never given to a peer), only results that frameworks return are outputs, and a
// loss is the mean over all rows.
BT_CHECKED bt_status bt_kernel_body_for_peer(const cJSON *kernel, bt_kernel_body *out);
// The body of the same operation over another shape of the same rank.
void bt_kernel_body_reshape(const bt_kernel_body *self, const bt_kernel_shape *shape,
                            bt_kernel_body *out);
// The tolerance of a result.
double bt_operand_tolerance(const bt_kernel_body *self, const bt_operand *operand, double expected);
// Whether a call reads it, or writes it.
bool bt_operand_is_input(const bt_operand *operand);
bool bt_operand_is_output(const bt_operand *operand);
// Elements of an operand over `rows` rows.
int64_t bt_operand_count(const bt_operand *operand, int64_t rows);

#endif
