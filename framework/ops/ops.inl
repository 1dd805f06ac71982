// framework/ops/ops.inl - every op, one row each. Include after defining
//   BT_OP(ID, name, attributes, roles of inputs, optional mask, roles of outputs, accumulates mask,
//         flexible mask, wide mask, makes outputs, differentiable TWICE or ONCE)
// attributes: the table bt_attrs_<attributes>, in the op's source (attrs.h). Row functions are
// bt_op_<name>_infer, _forward, _backward, and with TWICE also _recorded; masks
// are bt_op's (op.h).
BT_OP(UNARY, unary, unary, ("x"), 0, ("y"), 0x1, 0, 0, false, TWICE)
BT_OP(BINARY, binary, binary, ("a", "b"), 0, ("y"), 0, 0x3, 0, false, TWICE)
BT_OP(SUM, sum, sum, ("x"), 0, ("y"), 0, 0x1, 0, false, TWICE)
BT_OP(SOFTMAX, softmax, none, ("x"), 0, ("y"), 0, 0, 0, false, TWICE)
BT_OP(LAYERNORM, layernorm, layernorm, ("x", "gamma", "beta"), 0x4, ("y"), 0x7, 0, 0x6, false,
      TWICE)
BT_OP(ADD_LAYERNORM, add_layernorm, layernorm, ("x", "gamma", "beta", "residual"), 0x4,
      ("y", "sum"), 0x6, 0, 0x6, false, TWICE)
BT_OP(LINEAR, linear, linear, ("x", "w", "bias", "residual"), 0xC, ("y"), 0x7, 0x7, 0, false, TWICE)
BT_OP(FEED_FORWARD, feed_forward, none, ("x", "w", "b", "v", "c", "residual"), 0x34, ("y"), 0x1F,
      0x1F, 0, false, ONCE)
BT_OP(MATMUL, matmul, matmul, ("a", "b"), 0, ("y"), 0x3, 0x3, 0, false, TWICE)
BT_OP(EMBEDDING, embedding, none, ("ids", "table", "position"), 0x4, ("y", "bad_row"), 0x6, 0, 0x6,
      false, ONCE)
BT_OP(ATTENTION, attention, attention, ("q", "k", "v", "starts"), 0xE, ("y"), 0, 0, 0, false, ONCE)
BT_OP(SHARE_HEADS, share_heads, head_exchange, ("x"), 0, ("y"), 0, 0, 0, false, ONCE)
BT_OP(SHARE_TOKENS, share_tokens, head_exchange, ("x"), 0, ("y"), 0, 0, 0, false, ONCE)
BT_OP(RING_ATTENTION, ring_attention, ring_attention, ("qkv"), 0, ("y"), 0, 0, 0, false, ONCE)
BT_OP(CROSS_ENTROPY, cross_entropy, cross_entropy, ("logits", "targets"), 0, ("loss", "bad_row"), 0,
      0, 0, false, ONCE)
BT_OP(LINEAR_CROSS_ENTROPY, linear_cross_entropy, linear_cross_entropy, ("x", "w", "targets"), 0,
      ("loss", "bad_row"), 0x3, 0, 0x2, false, ONCE)
BT_OP(DROPOUT, dropout, dropout, ("x"), 0, ("y"), 0x1, 0, 0, false, TWICE)
BT_OP(CAST, cast, cast, ("x"), 0, ("y"), 0, 0x1, 0, false, TWICE)
BT_OP(CONTIGUOUS, contiguous, none, ("x"), 0, ("y"), 0, 0, 0, false, TWICE)
BT_OP(RESHAPE, reshape, view, ("x"), 0, ("y"), 0, 0, 0, true, TWICE)
BT_OP(PERMUTE, permute, permute, ("x"), 0, ("y"), 0, 0x1, 0, true, TWICE)
BT_OP(NARROW, narrow, narrow, ("x"), 0, ("y"), 0, 0x1, 0, true, ONCE)
BT_OP(EXPAND, expand, view, ("x"), 0, ("y"), 0, 0x1, 0, true, TWICE)
BT_OP(ALL_REDUCE, all_reduce, collective, ("x"), 0, ("y"), 0, 0, 0, true, ONCE)
BT_OP(REPLICATE, replicate, collective, ("x"), 0, ("y"), 0, 0, 0, true, ONCE)
BT_OP(ALL_GATHER, all_gather, collective, ("x"), 0, ("y"), 0, 0, 0, false, ONCE)
BT_OP(REDUCE_SCATTER, reduce_scatter, collective, ("x"), 0, ("y"), 0, 0, 0, false, ONCE)
BT_OP(GATHER_LINEAR, gather_linear, row_chunks, ("x", "w", "bias"), 0x4, ("y"), 0x6, 0x6, 0, false,
      ONCE)
BT_OP(LINEAR_SCATTER, linear_scatter, row_chunks, ("x", "w", "bias", "residual"), 0xC, ("y"), 0x7,
      0x7, 0, false, ONCE)
BT_OP(FEED_FORWARD_CHUNKS, feed_forward_chunks, row_chunks, ("x", "w", "b", "v", "c", "residual"),
      0x34, ("y"), 0x1E, 0x1E, 0, false, ONCE)
BT_OP(ATTENTION_SCATTER, attention_scatter, attention_scatter, ("qkv", "w", "bias", "residual"),
      0xC, ("y"), 0x6, 0x6, 0, false, ONCE)
BT_OP(RECOMPUTE, recompute, recompute, ("a", "b", "c", "d", "e", "f"), 0x3E, ("y"), 0, 0x3F, 0,
      true, ONCE)
