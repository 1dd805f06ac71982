// harness/suite/kernel_ops.inl - the operations of kernel cases, one row each
//   BT_KERNEL_CASE_OP(name, fewest axes, most axes, names of the axes,
//                     forward bytes, backward bytes, forward flops, backward flops)
// Costs are expressions in n (product of the axes), d[0..3] (the axes), e (bytes of an element).
// Bytes are what the operation must move, as the paper counts them, independent of a kernel's
// actual traffic. No backward: 0 bytes. Each row has bt_operands_<name> in harness/cases/operands.
BT_KERNEL_CASE_OP(copy, 1, 4, "any", 2 * n * e, 0, 0, 0)
BT_KERNEL_CASE_OP(cast, 1, 4, "any; f32 to bf16", n * 6, 0, 0, 0)
BT_KERNEL_CASE_OP(transpose, 2, 2, "rows x cols of the result", 2 * n * e, 0, 0, 0)
BT_KERNEL_CASE_OP(gelu, 1, 4, "any", 2 * n * e, 3 * n * e, 10 * n, 18 * n)
BT_KERNEL_CASE_OP(bias, 2, 2, "rows x cols", 2 * n * e, 0, n, 0)
BT_KERNEL_CASE_OP(layernorm, 2, 2, "rows x cols", 2 * n * e, 3 * n * e, 8 * n, 14 * n)
BT_KERNEL_CASE_OP(residual_layernorm, 2, 2, "rows x cols", 4 * n * e, 0, 9 * n, 0)
BT_KERNEL_CASE_OP(softmax, 2, 2, "rows x cols", 2 * n * e, 3 * n * e, 4 * n, 4 * n)
// Chains of ops, as users compose them. cross_entropy: against probabilities of the classes.
// Backward: forward and backward in one call.
BT_KERNEL_CASE_OP(chain_rms_norm, 2, 2, "rows x cols", 2 * n * e, 5 * n * e, 5 * n, 15 * n)
BT_KERNEL_CASE_OP(chain_residual_rms_norm, 2, 2, "rows x cols", 4 * n * e, 7 * n * e, 6 * n, 16 * n)
BT_KERNEL_CASE_OP(chain_swiglu, 2, 2, "rows x cols", 3 * n * e, 8 * n * e, 6 * n, 16 * n)
BT_KERNEL_CASE_OP(chain_rope, 3, 3, "tokens x heads x head size", n *(2 + 2 / d[1]) * e,
                  n *(4 + 4 / d[1]) * e, 3 * n, 6 * n)
BT_KERNEL_CASE_OP(chain_softmax, 2, 2, "rows x cols", 2 * n * e, 5 * n * e, 3 * n, 8 * n)
BT_KERNEL_CASE_OP(chain_cross_entropy, 2, 2, "rows x vocabulary", 2 * n * e, 5 * n * e, 5 * n,
                  9 * n)
BT_KERNEL_CASE_OP(chain_scores, 4, 4, "entries x queries x keys x head size",
                  n *(1 / d[1] + 1 / d[2] + 1 / d[3]) * e, n *(3 / d[1] + 3 / d[2] + 2 / d[3]) * e,
                  2 * n, 6 * n)
BT_KERNEL_CASE_OP(cross_entropy, 2, 2, "rows x vocabulary", n *e, 2 * n * e, 3 * n, 4 * n)
BT_KERNEL_CASE_OP(reduce_sum, 2, 2, "rows x cols, over the rows", n *e, 0, n, 0)
BT_KERNEL_CASE_OP(reduce_sum_rows, 2, 2, "rows x cols, over each row", n *e, 0, n, 0)
BT_KERNEL_CASE_OP(embedding, 3, 3, "rows x cols x vocabulary", 2 * d[0] * d[1] * e,
                  d[0] * d[1] * e + d[1] * d[2] * 4, 0, d[0] * d[1])
BT_KERNEL_CASE_OP(adamw, 1, 4, "a tensor, or block, gpt2_124m", n *(e < 4 ? 30 : 28), 0, 15 * n, 0)
BT_KERNEL_CASE_OP(grad_norm, 1, 4, "a tensor, or block, gpt2_124m", n *e, 0, 2 * n, 0)
BT_KERNEL_CASE_OP(attention, 4, 4, "batch x heads x tokens x head size", 4 * n * e, 8 * n * e,
                  4 * n * d[2], 10 * n * d[2])
BT_KERNEL_CASE_OP(attention_causal, 4, 4, "batch x heads x tokens x head size", 4 * n * e,
                  8 * n * e, 2 * n * d[2], 5 * n * d[2])
// D = op(A) op(B): nt is a linear layer's forward, nn its input gradient, tn its weight gradient,
// which is f32 whatever the operands. The others are epilogues of a linear layer: bias; bias and
// GELU, with the pre-activation kept; bias and residual; the input gradient times GELU's slope.
BT_KERNEL_CASE_OP(gemm_nt, 3, 3, "m x n x k", n *(1 / d[0] + 1 / d[1] + 1 / d[2]) * e, 0, 2 * n, 0)
BT_KERNEL_CASE_OP(gemm_nn, 3, 3, "m x n x k", n *(1 / d[0] + 1 / d[1] + 1 / d[2]) * e, 0, 2 * n, 0)
BT_KERNEL_CASE_OP(gemm_tn, 3, 3, "m x n x k", n *((1 / d[0] + 1 / d[1]) * e + 4 / d[2]), 0, 2 * n,
                  0)
BT_KERNEL_CASE_OP(gemm_batched, 4, 4, "batch x m x n x k", n *(1 / d[1] + 1 / d[2] + 1 / d[3]) * e,
                  0, 2 * n, 0)
BT_KERNEL_CASE_OP(gemm_bias, 3, 3, "m x n x k", n *(1 / d[0] + 1 / d[1] + 1 / d[2]) * e, 0, 2 * n,
                  0)
BT_KERNEL_CASE_OP(gemm_bias_gelu, 3, 3, "m x n x k", n *(1 / d[0] + 1 / d[1] + 2 / d[2]) * e, 0,
                  2 * n, 0)
BT_KERNEL_CASE_OP(gemm_bias_residual, 3, 3, "m x n x k", n *(1 / d[0] + 1 / d[1] + 2 / d[2]) * e, 0,
                  2 * n, 0)
BT_KERNEL_CASE_OP(gemm_dgelu, 3, 3, "m x n x k", n *(1 / d[0] + 1 / d[1] + 2 / d[2]) * e, 0, 2 * n,
                  0)
