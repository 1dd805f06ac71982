// kernels/operands.inl - what each field of an op's operand struct is: memory or attribute
//
// Include after defining (undefined here):
//   BT_OPERAND(OP, field, reads, writes, dtype, count, span)
//     a pointer of the struct `o`
//   BT_OPERAND_OF(OP, list, field, reads, writes, dtype, count)
//     a pointer of each item `i` of a list
//   BT_ATTRIBUTE(OP, field, type)
//     any other field
//
// reads, writes: expressions; a kernel that adds to an operand does both. count: elements that are
// touched; span: from the first to the last of them, both included. A NULL pointer is no operand,
// whatever the row says. type: BOOL, INT (enums too), I32, I64, U64, F64, AXES (i64 [BT_MAX_RANK]).
#ifndef BT_OPERAND
#define BT_OPERAND(...)
#endif
#ifndef BT_OPERAND_OF
#define BT_OPERAND_OF(...)
#endif
#ifndef BT_ATTRIBUTE
#define BT_ATTRIBUTE(...)
#endif
#define WIDE(dtype) ((dtype) == BT_F64 ? BT_F64 : BT_F32)

BT_OPERAND(FILL, y, false, true, o->dtype, o->count, o->count)
BT_ATTRIBUTE(FILL, count, I64)
BT_ATTRIBUTE(FILL, dtype, INT)
BT_ATTRIBUTE(FILL, value, F64)

BT_OPERAND(COPY, x, true, false, o->x_dtype, distinct_of(o->rank, o->shape, o->x_stride),
           span_of(o->rank, o->shape, o->x_stride))
BT_OPERAND(COPY, y, false, true, o->y_dtype, distinct_of(o->rank, o->shape, o->y_stride),
           span_of(o->rank, o->shape, o->y_stride))
BT_ATTRIBUTE(COPY, rank, INT)
BT_ATTRIBUTE(COPY, shape, AXES)
BT_ATTRIBUTE(COPY, x_stride, AXES)
BT_ATTRIBUTE(COPY, x_dtype, INT)
BT_ATTRIBUTE(COPY, y_stride, AXES)
BT_ATTRIBUTE(COPY, y_dtype, INT)

BT_OPERAND(UNARY, x, true, false, o->dtype, o->count, o->count)
BT_OPERAND(UNARY, y, false, true, o->dtype, o->count, o->count)
BT_ATTRIBUTE(UNARY, function, INT)
BT_ATTRIBUTE(UNARY, alpha, F64)
BT_ATTRIBUTE(UNARY, count, I64)
BT_ATTRIBUTE(UNARY, dtype, INT)
BT_ATTRIBUTE(UNARY, as_epilogue, BOOL)

BT_OPERAND(UNARY_BACKWARD, x, true, false, o->dtype, o->count, o->count)
BT_OPERAND(UNARY_BACKWARD, dy, true, false, o->dtype, o->count, o->count)
BT_OPERAND(UNARY_BACKWARD, dx, o->accumulate, true, o->dtype, o->count, o->count)
BT_ATTRIBUTE(UNARY_BACKWARD, function, INT)
BT_ATTRIBUTE(UNARY_BACKWARD, alpha, F64)
BT_ATTRIBUTE(UNARY_BACKWARD, count, I64)
BT_ATTRIBUTE(UNARY_BACKWARD, dtype, INT)
BT_ATTRIBUTE(UNARY_BACKWARD, accumulate, BOOL)

// Where the factor is 1 and y is x, neither is touched.
BT_OPERAND(SCALE, x, true, false, o->dtype, o->count, o->count)
BT_OPERAND(SCALE, factor, true, false, WIDE(o->dtype), o->group ? o->count / o->group : 1,
           o->group ? o->count / o->group : 1)
BT_OPERAND(SCALE, y, o->accumulate, true, o->dtype, o->count, o->count)
BT_ATTRIBUTE(SCALE, count, I64)
BT_ATTRIBUTE(SCALE, accumulate, BOOL)
BT_ATTRIBUTE(SCALE, dtype, INT)
BT_ATTRIBUTE(SCALE, group, I64)

BT_OPERAND(BINARY, a, true, false, o->dtype, distinct_of(o->rank, o->shape, o->a_stride),
           span_of(o->rank, o->shape, o->a_stride))
BT_OPERAND(BINARY, b, true, false, o->dtype, distinct_of(o->rank, o->shape, o->b_stride),
           span_of(o->rank, o->shape, o->b_stride))
BT_OPERAND(BINARY, y, false, true, o->dtype, product_of(o->rank, o->shape),
           product_of(o->rank, o->shape))
BT_ATTRIBUTE(BINARY, function, INT)
BT_ATTRIBUTE(BINARY, rank, INT)
BT_ATTRIBUTE(BINARY, shape, AXES)
BT_ATTRIBUTE(BINARY, a_stride, AXES)
BT_ATTRIBUTE(BINARY, b_stride, AXES)
BT_ATTRIBUTE(BINARY, dtype, INT)

BT_OPERAND(REDUCE_SUM, x, true, false, o->dtype, o->outer * o->reduce * o->inner,
           o->outer * o->reduce * o->inner)
BT_OPERAND(REDUCE_SUM, y, o->accumulate, true, o->y_dtype, o->outer * o->inner, o->outer * o->inner)
BT_ATTRIBUTE(REDUCE_SUM, outer, I64)
BT_ATTRIBUTE(REDUCE_SUM, reduce, I64)
BT_ATTRIBUTE(REDUCE_SUM, inner, I64)
BT_ATTRIBUTE(REDUCE_SUM, scale, F64)
BT_ATTRIBUTE(REDUCE_SUM, accumulate, BOOL)
BT_ATTRIBUTE(REDUCE_SUM, dtype, INT)
BT_ATTRIBUTE(REDUCE_SUM, y_dtype, INT)

BT_OPERAND_OF(SUM_PARTS, items, x, true, false, o->dtype,
              batch_span_of(o->batch, i->batch_stride, i->rows, o->width, i->row_stride))
BT_OPERAND(SUM_PARTS, y, false, true, o->dtype, o->batch * o->rows * o->width,
           batch_span_of(o->batch, o->y_batch_stride, o->rows, o->width, o->y_row_stride))
BT_ATTRIBUTE(SUM_PARTS, item_count, I64)
BT_ATTRIBUTE(SUM_PARTS, y_batch_stride, I64)
BT_ATTRIBUTE(SUM_PARTS, y_row_stride, I64)
BT_ATTRIBUTE(SUM_PARTS, batch, I64)
BT_ATTRIBUTE(SUM_PARTS, rows, I64)
BT_ATTRIBUTE(SUM_PARTS, width, I64)
BT_ATTRIBUTE(SUM_PARTS, dtype, INT)

BT_OPERAND(SOFTMAX, x, true, false, o->dtype, o->rows * o->cols, o->rows * o->cols)
BT_OPERAND(SOFTMAX, y, false, true, o->dtype, o->rows * o->cols, o->rows * o->cols)
BT_ATTRIBUTE(SOFTMAX, rows, I64)
BT_ATTRIBUTE(SOFTMAX, cols, I64)
BT_ATTRIBUTE(SOFTMAX, dtype, INT)

BT_OPERAND(SOFTMAX_BACKWARD, y, true, false, o->dtype, o->rows * o->cols, o->rows * o->cols)
BT_OPERAND(SOFTMAX_BACKWARD, dy, true, false, o->dtype, o->rows * o->cols, o->rows * o->cols)
BT_OPERAND(SOFTMAX_BACKWARD, dx, false, true, o->dtype, o->rows * o->cols, o->rows * o->cols)
BT_ATTRIBUTE(SOFTMAX_BACKWARD, rows, I64)
BT_ATTRIBUTE(SOFTMAX_BACKWARD, cols, I64)
BT_ATTRIBUTE(SOFTMAX_BACKWARD, dtype, INT)

BT_OPERAND(LAYERNORM, x, true, false, o->dtype, o->rows * o->cols, o->rows * o->cols)
BT_OPERAND(LAYERNORM, residual, true, false, o->dtype, o->rows * o->cols, o->rows * o->cols)
BT_OPERAND(LAYERNORM, sum, false, true, o->dtype, o->rows * o->cols, o->rows * o->cols)
BT_OPERAND(LAYERNORM, gamma, true, false, o->param_dtype, o->cols, o->cols)
BT_OPERAND(LAYERNORM, beta, true, false, o->param_dtype, o->cols, o->cols)
BT_OPERAND(LAYERNORM, y, false, true, o->dtype, o->rows * o->cols, o->rows * o->cols)
BT_OPERAND(LAYERNORM, mean, false, true, WIDE(o->dtype), o->rows, o->rows)
BT_OPERAND(LAYERNORM, rstd, false, true, WIDE(o->dtype), o->rows, o->rows)
BT_ATTRIBUTE(LAYERNORM, rows, I64)
BT_ATTRIBUTE(LAYERNORM, cols, I64)
BT_ATTRIBUTE(LAYERNORM, epsilon, F64)
BT_ATTRIBUTE(LAYERNORM, dtype, INT)
BT_ATTRIBUTE(LAYERNORM, param_dtype, INT)

BT_OPERAND(LAYERNORM_BACKWARD, dy, true, false, o->dtype, o->rows * o->cols, o->rows * o->cols)
BT_OPERAND(LAYERNORM_BACKWARD, s, true, false, o->dtype, o->rows * o->cols, o->rows * o->cols)
BT_OPERAND(LAYERNORM_BACKWARD, gamma, true, false, o->param_dtype, o->cols, o->cols)
BT_OPERAND(LAYERNORM_BACKWARD, mean, true, false, WIDE(o->dtype), o->rows, o->rows)
BT_OPERAND(LAYERNORM_BACKWARD, rstd, true, false, WIDE(o->dtype), o->rows, o->rows)
BT_OPERAND(LAYERNORM_BACKWARD, dx, o->accumulate, true, o->dtype, o->rows * o->cols,
           o->rows * o->cols)
BT_OPERAND(LAYERNORM_BACKWARD, dgamma, o->accumulate_params, true, o->grad_dtype, o->cols, o->cols)
BT_OPERAND(LAYERNORM_BACKWARD, dbeta, o->accumulate_params, true, o->grad_dtype, o->cols, o->cols)
BT_ATTRIBUTE(LAYERNORM_BACKWARD, rows, I64)
BT_ATTRIBUTE(LAYERNORM_BACKWARD, cols, I64)
BT_ATTRIBUTE(LAYERNORM_BACKWARD, accumulate, BOOL)
BT_ATTRIBUTE(LAYERNORM_BACKWARD, accumulate_params, BOOL)
BT_ATTRIBUTE(LAYERNORM_BACKWARD, dtype, INT)
BT_ATTRIBUTE(LAYERNORM_BACKWARD, param_dtype, INT)
BT_ATTRIBUTE(LAYERNORM_BACKWARD, grad_dtype, INT)

BT_OPERAND(EMBEDDING, ids, true, false, BT_I32, o->rows, o->rows)
BT_OPERAND(EMBEDDING, table, true, false, o->dtype, o->vocab * o->cols, o->vocab * o->cols)
BT_OPERAND(EMBEDDING, position, true, false, o->dtype, o->positions * o->cols,
           o->positions * o->cols)
BT_OPERAND(EMBEDDING, y, false, true, o->dtype, o->rows * o->cols, o->rows * o->cols)
BT_OPERAND(EMBEDDING, good_ids, false, true, BT_I32, o->rows, o->rows)
BT_OPERAND(EMBEDDING, bad_row, false, true, BT_I64, 1, 1)
BT_ATTRIBUTE(EMBEDDING, rows, I64)
BT_ATTRIBUTE(EMBEDDING, cols, I64)
BT_ATTRIBUTE(EMBEDDING, vocab, I64)
BT_ATTRIBUTE(EMBEDDING, positions, I64)
BT_ATTRIBUTE(EMBEDDING, dtype, INT)

BT_OPERAND(EMBEDDING_BACKWARD, ids, true, false, BT_I32, o->rows, o->rows)
BT_OPERAND(EMBEDDING_BACKWARD, dy, true, false, o->dtype, o->rows * o->cols, o->rows * o->cols)
BT_OPERAND(EMBEDDING_BACKWARD, dtable, o->accumulate, true, o->grad_dtype, o->vocab * o->cols,
           o->vocab * o->cols)
BT_OPERAND(EMBEDDING_BACKWARD, dposition, o->accumulate_position, true, o->grad_dtype,
           o->positions * o->cols, o->positions * o->cols)
BT_ATTRIBUTE(EMBEDDING_BACKWARD, rows, I64)
BT_ATTRIBUTE(EMBEDDING_BACKWARD, cols, I64)
BT_ATTRIBUTE(EMBEDDING_BACKWARD, vocab, I64)
BT_ATTRIBUTE(EMBEDDING_BACKWARD, positions, I64)
BT_ATTRIBUTE(EMBEDDING_BACKWARD, accumulate, BOOL)
BT_ATTRIBUTE(EMBEDDING_BACKWARD, accumulate_position, BOOL)
BT_ATTRIBUTE(EMBEDDING_BACKWARD, dtype, INT)
BT_ATTRIBUTE(EMBEDDING_BACKWARD, grad_dtype, INT)

#define Q_OPERAND(OP, view, reads, writes)                                                         \
    BT_OPERAND(OP, view.base, reads, writes, o->dtype,                                             \
               o->shape.batch * o->shape.q_tokens * o->shape.heads * o->shape.head_dim,            \
               view_span_of(&o->view, o->shape.batch, o->shape.q_tokens, o->shape.heads,           \
                            o->shape.head_dim))                                                    \
    BT_ATTRIBUTE(OP, view.batch_stride, I64)                                                       \
    BT_ATTRIBUTE(OP, view.token_stride, I64)                                                       \
    BT_ATTRIBUTE(OP, view.head_stride, I64)
#define KV_OPERAND(OP, view, reads, writes)                                                        \
    BT_OPERAND(OP, view.base, reads, writes, o->dtype,                                             \
               o->shape.batch * o->shape.kv_tokens * o->shape.kv_heads * o->shape.head_dim,        \
               view_span_of(&o->view, o->shape.batch, o->shape.kv_tokens, o->shape.kv_heads,       \
                            o->shape.head_dim))                                                    \
    BT_ATTRIBUTE(OP, view.batch_stride, I64)                                                       \
    BT_ATTRIBUTE(OP, view.token_stride, I64)                                                       \
    BT_ATTRIBUTE(OP, view.head_stride, I64)
#define ATTENTION_SHAPE(OP)                                                                        \
    BT_OPERAND(OP, shape.starts, true, false, BT_I32, o->shape.documents + 1,                      \
               o->shape.documents + 1)                                                             \
    BT_ATTRIBUTE(OP, shape.batch, I64)                                                             \
    BT_ATTRIBUTE(OP, shape.heads, I64)                                                             \
    BT_ATTRIBUTE(OP, shape.kv_heads, I64)                                                          \
    BT_ATTRIBUTE(OP, shape.q_tokens, I64)                                                          \
    BT_ATTRIBUTE(OP, shape.kv_tokens, I64)                                                         \
    BT_ATTRIBUTE(OP, shape.head_dim, I64)                                                          \
    BT_ATTRIBUTE(OP, shape.q_first, I64)                                                           \
    BT_ATTRIBUTE(OP, shape.window, I64)                                                            \
    BT_ATTRIBUTE(OP, shape.documents, I64)                                                         \
    BT_ATTRIBUTE(OP, shape.scale, F64)                                                             \
    BT_ATTRIBUTE(OP, shape.causal, BOOL)                                                           \
    BT_ATTRIBUTE(OP, shape.dropout, F64)                                                           \
    BT_ATTRIBUTE(OP, shape.seed, U64)                                                              \
    BT_ATTRIBUTE(OP, shape.stream, U64)                                                            \
    BT_ATTRIBUTE(OP, compute, INT)                                                                 \
    BT_ATTRIBUTE(OP, dtype, INT)

Q_OPERAND(ATTENTION, q, true, false)
Q_OPERAND(ATTENTION, o, o->accumulate, true)
KV_OPERAND(ATTENTION, k, true, false)
KV_OPERAND(ATTENTION, v, true, false)
BT_OPERAND(ATTENTION, lse, o->accumulate, true, WIDE(o->dtype),
           o->shape.batch * o->shape.heads * o->shape.q_tokens,
           o->shape.batch * o->shape.heads * o->shape.q_tokens)
ATTENTION_SHAPE(ATTENTION)
BT_ATTRIBUTE(ATTENTION, accumulate, BOOL)

Q_OPERAND(ATTENTION_BACKWARD, q, true, false)
Q_OPERAND(ATTENTION_BACKWARD, o, true, false)
Q_OPERAND(ATTENTION_BACKWARD, d_o, true, false)
KV_OPERAND(ATTENTION_BACKWARD, k, true, false)
KV_OPERAND(ATTENTION_BACKWARD, v, true, false)
BT_OPERAND(ATTENTION_BACKWARD, lse, true, false, WIDE(o->dtype),
           o->shape.batch * o->shape.heads * o->shape.q_tokens,
           o->shape.batch * o->shape.heads * o->shape.q_tokens)
Q_OPERAND(ATTENTION_BACKWARD, dq, o->accumulate_dq, true)
KV_OPERAND(ATTENTION_BACKWARD, dk, o->accumulate_dkv, true)
KV_OPERAND(ATTENTION_BACKWARD, dv, o->accumulate_dkv, true)
BT_OPERAND(ATTENTION_BACKWARD, delta, o->delta_given, !o->delta_given, WIDE(o->dtype),
           o->shape.batch * o->shape.heads * o->shape.q_tokens,
           o->shape.batch * o->shape.heads * o->shape.q_tokens)
ATTENTION_SHAPE(ATTENTION_BACKWARD)
BT_ATTRIBUTE(ATTENTION_BACKWARD, accumulate_dq, BOOL)
BT_ATTRIBUTE(ATTENTION_BACKWARD, accumulate_dkv, BOOL)
BT_ATTRIBUTE(ATTENTION_BACKWARD, delta_given, BOOL)
#undef Q_OPERAND
#undef KV_OPERAND
#undef ATTENTION_SHAPE

BT_OPERAND(CROSS_ENTROPY, logits, true, false, o->dtype, o->rows * o->vocab,
           rows_span_of(o->rows, o->vocab, o->logits_stride))
BT_OPERAND(CROSS_ENTROPY, targets, true, false, BT_I32, o->rows, o->rows)
BT_OPERAND(CROSS_ENTROPY, loss, false, true, WIDE(o->dtype), o->rows, o->rows)
BT_OPERAND(CROSS_ENTROPY, lse, false, true, WIDE(o->dtype), o->rows, o->rows)
BT_OPERAND(CROSS_ENTROPY, mean, false, true, WIDE(o->dtype), 1, 1)
BT_OPERAND(CROSS_ENTROPY, inv_count, false, true, WIDE(o->dtype), 1, 1)
BT_OPERAND(CROSS_ENTROPY, bad_row, false, true, BT_I64, 1, 1)
BT_ATTRIBUTE(CROSS_ENTROPY, rows, I64)
BT_ATTRIBUTE(CROSS_ENTROPY, vocab, I64)
BT_ATTRIBUTE(CROSS_ENTROPY, logits_stride, I64)
BT_ATTRIBUTE(CROSS_ENTROPY, ignore, I32)
BT_ATTRIBUTE(CROSS_ENTROPY, dtype, INT)

BT_OPERAND(CROSS_ENTROPY_BACKWARD, logits, true, false, o->dtype, o->rows * o->vocab,
           rows_span_of(o->rows, o->vocab, o->logits_stride))
BT_OPERAND(CROSS_ENTROPY_BACKWARD, targets, true, false, BT_I32, o->rows, o->rows)
BT_OPERAND(CROSS_ENTROPY_BACKWARD, lse, true, false, WIDE(o->dtype), o->rows, o->rows)
BT_OPERAND(CROSS_ENTROPY_BACKWARD, inv_count, true, false, WIDE(o->dtype), 1, 1)
BT_OPERAND(CROSS_ENTROPY_BACKWARD, dmean, true, false, WIDE(o->dtype), 1, 1)
BT_OPERAND(CROSS_ENTROPY_BACKWARD, dlogits, false, true, o->dtype, o->rows * o->vocab,
           rows_span_of(o->rows, o->vocab, o->logits_stride))
BT_ATTRIBUTE(CROSS_ENTROPY_BACKWARD, rows, I64)
BT_ATTRIBUTE(CROSS_ENTROPY_BACKWARD, vocab, I64)
BT_ATTRIBUTE(CROSS_ENTROPY_BACKWARD, logits_stride, I64)
BT_ATTRIBUTE(CROSS_ENTROPY_BACKWARD, ignore, I32)
BT_ATTRIBUTE(CROSS_ENTROPY_BACKWARD, dtype, INT)

BT_OPERAND(CROSS_ENTROPY_MEAN, targets, true, false, BT_I32, o->rows, o->rows)
BT_OPERAND(CROSS_ENTROPY_MEAN, loss, true, false, o->dtype, o->rows, o->rows)
BT_OPERAND(CROSS_ENTROPY_MEAN, mean, false, true, o->dtype, 1, 1)
BT_OPERAND(CROSS_ENTROPY_MEAN, inv_count, false, true, o->dtype, 1, 1)
BT_OPERAND(CROSS_ENTROPY_MEAN, bad_row, false, true, BT_I64, 1, 1)
BT_ATTRIBUTE(CROSS_ENTROPY_MEAN, rows, I64)
BT_ATTRIBUTE(CROSS_ENTROPY_MEAN, vocab, I64)
BT_ATTRIBUTE(CROSS_ENTROPY_MEAN, ignore, I32)
BT_ATTRIBUTE(CROSS_ENTROPY_MEAN, dtype, INT)

BT_OPERAND(CROSS_ENTROPY_GRAD, logits, true, false, o->dtype, o->rows * o->vocab,
           rows_span_of(o->rows, o->vocab, o->logits_stride))
BT_OPERAND(CROSS_ENTROPY_GRAD, targets, true, false, BT_I32, o->rows, o->rows)
BT_OPERAND(CROSS_ENTROPY_GRAD, inv_count, o->dlogits != NULL, false, WIDE(o->dtype), 1, 1)
BT_OPERAND(CROSS_ENTROPY_GRAD, loss, false, true, WIDE(o->dtype), o->rows, o->rows)
BT_OPERAND(CROSS_ENTROPY_GRAD, dlogits, false, true, o->dtype, o->rows * o->vocab,
           rows_span_of(o->rows, o->vocab, o->logits_stride))
BT_ATTRIBUTE(CROSS_ENTROPY_GRAD, rows, I64)
BT_ATTRIBUTE(CROSS_ENTROPY_GRAD, vocab, I64)
BT_ATTRIBUTE(CROSS_ENTROPY_GRAD, logits_stride, I64)
BT_ATTRIBUTE(CROSS_ENTROPY_GRAD, ignore, I32)
BT_ATTRIBUTE(CROSS_ENTROPY_GRAD, dtype, INT)

BT_OPERAND(LINEAR_EXPS, x, true, false, o->dtype, o->rows * o->width, o->rows * o->width)
BT_OPERAND(LINEAR_EXPS, w, true, false, o->dtype, o->vocab * o->width, o->vocab * o->width)
BT_OPERAND(LINEAR_EXPS, targets, true, false, BT_I32, o->rows, o->rows)
BT_OPERAND(LINEAR_EXPS, inv_count, true, false, WIDE(o->dtype), 1, 1)
BT_OPERAND(LINEAR_EXPS, exps, false, true, o->dtype, o->rows * o->vocab, o->rows * o->vocab)
BT_OPERAND(LINEAR_EXPS, scaled_x, false, true, o->dtype, o->rows * o->width, o->rows * o->width)
BT_OPERAND(LINEAR_EXPS, scale, false, true, WIDE(o->dtype), o->rows, o->rows)
BT_OPERAND(LINEAR_EXPS, loss, false, true, WIDE(o->dtype), o->rows, o->rows)
BT_ATTRIBUTE(LINEAR_EXPS, rows, I64)
BT_ATTRIBUTE(LINEAR_EXPS, vocab, I64)
BT_ATTRIBUTE(LINEAR_EXPS, width, I64)
BT_ATTRIBUTE(LINEAR_EXPS, ignore, I32)
BT_ATTRIBUTE(LINEAR_EXPS, dtype, INT)

BT_OPERAND(SHARD_IDS, ids, true, false, BT_I32, o->count, o->count)
BT_OPERAND(SHARD_IDS, own, false, true, BT_I32, o->count, o->count)
BT_OPERAND(SHARD_IDS, mask, false, true, o->dtype, o->count, o->count)
BT_ATTRIBUTE(SHARD_IDS, count, I64)
BT_ATTRIBUTE(SHARD_IDS, first, I64)
BT_ATTRIBUTE(SHARD_IDS, rows, I64)
BT_ATTRIBUTE(SHARD_IDS, vocab, I64)
BT_ATTRIBUTE(SHARD_IDS, dtype, INT)

BT_OPERAND(SHARD_TARGETS, targets, true, false, BT_I32, o->count, o->count)
BT_OPERAND(SHARD_TARGETS, own, false, true, BT_I32, o->count, o->count)
BT_OPERAND(SHARD_TARGETS, column, false, true, BT_I32, o->count, o->count)
BT_OPERAND(SHARD_TARGETS, owner, false, true, BT_I32, o->count, o->count)
BT_ATTRIBUTE(SHARD_TARGETS, count, I64)
BT_ATTRIBUTE(SHARD_TARGETS, first, I64)
BT_ATTRIBUTE(SHARD_TARGETS, rows, I64)
BT_ATTRIBUTE(SHARD_TARGETS, vocab, I64)
BT_ATTRIBUTE(SHARD_TARGETS, each, I64)
BT_ATTRIBUTE(SHARD_TARGETS, ignore, I32)

BT_OPERAND(DROPOUT, x, true, false, o->dtype, o->count, o->count)
BT_OPERAND(DROPOUT, y, o->accumulate, true, o->dtype, o->count, o->count)
BT_ATTRIBUTE(DROPOUT, count, I64)
BT_ATTRIBUTE(DROPOUT, rate, F64)
BT_ATTRIBUTE(DROPOUT, seed, U64)
BT_ATTRIBUTE(DROPOUT, stream, U64)
BT_ATTRIBUTE(DROPOUT, accumulate, BOOL)
BT_ATTRIBUTE(DROPOUT, dtype, INT)

// Rows and columns of A and B as they lie in memory.
#define A_ROWS      (o->trans_a ? o->k : o->m)
#define A_COLS      (o->trans_a ? o->m : o->k)
#define B_ROWS      (o->trans_b ? o->n : o->k)
#define B_COLS      (o->trans_b ? o->k : o->n)
#define DBIAS_COUNT (o->dbias_of_a ? o->m : o->n)
BT_OPERAND(GEMM, a, true, false, o->ab_dtype, o->batch * o->m * o->k,
           batch_span_of(o->batch, o->stride_a, A_ROWS, A_COLS, o->lda))
BT_OPERAND(GEMM, b, true, false, o->ab_dtype, o->batch * o->k * o->n,
           batch_span_of(o->batch, o->stride_b, B_ROWS, B_COLS, o->ldb))
BT_OPERAND(GEMM, c, o->beta != 0, false, o->d_dtype, o->batch * o->m * o->n,
           batch_span_of(o->batch, o->stride_c, o->m, o->n, o->ldc))
BT_OPERAND(GEMM, d, false, true, o->d_dtype, o->batch * o->m * o->n,
           batch_span_of(o->batch, o->stride_d, o->m, o->n, o->ldd))
BT_OPERAND(GEMM, bias, o->epilogue == BT_EPILOGUE_BIAS || o->epilogue == BT_EPILOGUE_BIAS_GELU,
           false, o->ab_dtype, o->n, o->n)
BT_OPERAND(GEMM, aux, o->epilogue == BT_EPILOGUE_DGELU, o->epilogue == BT_EPILOGUE_BIAS_GELU,
           o->d_dtype, o->batch * o->m * o->n,
           batch_span_of(o->batch, o->stride_d, o->m, o->n, o->ldd))
BT_OPERAND(GEMM, dbias, o->dbias_accumulate, true, o->dbias_dtype, DBIAS_COUNT, DBIAS_COUNT)
#undef A_ROWS
#undef A_COLS
#undef B_ROWS
#undef B_COLS
#undef DBIAS_COUNT
BT_ATTRIBUTE(GEMM, m, I64)
BT_ATTRIBUTE(GEMM, n, I64)
BT_ATTRIBUTE(GEMM, k, I64)
BT_ATTRIBUTE(GEMM, trans_a, BOOL)
BT_ATTRIBUTE(GEMM, trans_b, BOOL)
BT_ATTRIBUTE(GEMM, lda, I64)
BT_ATTRIBUTE(GEMM, ldb, I64)
BT_ATTRIBUTE(GEMM, ldc, I64)
BT_ATTRIBUTE(GEMM, ldd, I64)
BT_ATTRIBUTE(GEMM, batch, I64)
BT_ATTRIBUTE(GEMM, stride_a, I64)
BT_ATTRIBUTE(GEMM, stride_b, I64)
BT_ATTRIBUTE(GEMM, stride_c, I64)
BT_ATTRIBUTE(GEMM, stride_d, I64)
BT_ATTRIBUTE(GEMM, alpha, F64)
BT_ATTRIBUTE(GEMM, beta, F64)
BT_ATTRIBUTE(GEMM, epilogue, INT)
BT_ATTRIBUTE(GEMM, ab_dtype, INT)
BT_ATTRIBUTE(GEMM, d_dtype, INT)
BT_ATTRIBUTE(GEMM, compute, INT)
BT_ATTRIBUTE(GEMM, dbias_dtype, INT)
BT_ATTRIBUTE(GEMM, dbias_accumulate, BOOL)
BT_ATTRIBUTE(GEMM, dbias_of_a, BOOL)

// GEMM_PIECES has no batch.
#define OWN_ROWS (o->pieces ? o->own_count * (o->product.m / o->pieces) : 0)
BT_OPERAND(GEMM_PIECES, product.a, o->own_count < o->pieces, false, o->product.ab_dtype,
           o->product.m * o->product.k, rows_span_of(o->product.m, o->product.k, o->product.lda))
BT_OPERAND(GEMM_PIECES, product.b, true, false, o->product.ab_dtype, o->product.k * o->product.n,
           rows_span_of(o->product.trans_b ? o->product.n : o->product.k,
                        o->product.trans_b ? o->product.k : o->product.n, o->product.ldb))
BT_OPERAND(GEMM_PIECES, product.c, o->product.beta != 0, false, o->product.d_dtype,
           o->product.m * o->product.n, rows_span_of(o->product.m, o->product.n, o->product.ldc))
BT_OPERAND(GEMM_PIECES, product.d, false, true, o->product.d_dtype, o->product.m * o->product.n,
           rows_span_of(o->product.m, o->product.n, o->product.ldd))
BT_OPERAND(GEMM_PIECES, product.bias,
           o->product.epilogue == BT_EPILOGUE_BIAS || o->product.epilogue == BT_EPILOGUE_BIAS_GELU,
           false, o->product.ab_dtype, o->product.n, o->product.n)
BT_OPERAND(GEMM_PIECES, product.aux, o->product.epilogue == BT_EPILOGUE_DGELU,
           o->product.epilogue == BT_EPILOGUE_BIAS_GELU, o->product.d_dtype,
           o->product.m * o->product.n, rows_span_of(o->product.m, o->product.n, o->product.ldd))
BT_OPERAND(GEMM_PIECES, product.dbias, false, false, o->product.dbias_dtype, 0, 0)
BT_OPERAND(GEMM_PIECES, own, true, false, o->product.ab_dtype, OWN_ROWS * o->product.k,
           rows_span_of(OWN_ROWS, o->product.k, o->product.lda))
#undef OWN_ROWS
BT_OPERAND(GEMM_PIECES, ready, true, true, BT_I32, o->pieces, o->pieces)
BT_OPERAND(GEMM_PIECES, done, false, true, BT_I32, o->pieces, o->pieces)
BT_OPERAND(GEMM_PIECES, count, true, true, BT_I32, o->pieces + 1, o->pieces + 1)
BT_ATTRIBUTE(GEMM_PIECES, product.m, I64)
BT_ATTRIBUTE(GEMM_PIECES, product.n, I64)
BT_ATTRIBUTE(GEMM_PIECES, product.k, I64)
BT_ATTRIBUTE(GEMM_PIECES, product.trans_a, BOOL)
BT_ATTRIBUTE(GEMM_PIECES, product.trans_b, BOOL)
BT_ATTRIBUTE(GEMM_PIECES, product.lda, I64)
BT_ATTRIBUTE(GEMM_PIECES, product.ldb, I64)
BT_ATTRIBUTE(GEMM_PIECES, product.ldc, I64)
BT_ATTRIBUTE(GEMM_PIECES, product.ldd, I64)
BT_ATTRIBUTE(GEMM_PIECES, product.batch, I64)
BT_ATTRIBUTE(GEMM_PIECES, product.stride_a, I64)
BT_ATTRIBUTE(GEMM_PIECES, product.stride_b, I64)
BT_ATTRIBUTE(GEMM_PIECES, product.stride_c, I64)
BT_ATTRIBUTE(GEMM_PIECES, product.stride_d, I64)
BT_ATTRIBUTE(GEMM_PIECES, product.alpha, F64)
BT_ATTRIBUTE(GEMM_PIECES, product.beta, F64)
BT_ATTRIBUTE(GEMM_PIECES, product.epilogue, INT)
BT_ATTRIBUTE(GEMM_PIECES, product.ab_dtype, INT)
BT_ATTRIBUTE(GEMM_PIECES, product.d_dtype, INT)
BT_ATTRIBUTE(GEMM_PIECES, product.compute, INT)
BT_ATTRIBUTE(GEMM_PIECES, product.dbias_dtype, INT)
BT_ATTRIBUTE(GEMM_PIECES, product.dbias_accumulate, BOOL)
BT_ATTRIBUTE(GEMM_PIECES, product.dbias_of_a, BOOL)
BT_ATTRIBUTE(GEMM_PIECES, pieces, I64)
BT_ATTRIBUTE(GEMM_PIECES, first, I64)
BT_ATTRIBUTE(GEMM_PIECES, own_first, I64)
BT_ATTRIBUTE(GEMM_PIECES, own_count, I64)

// GEMM_GROUPED has no rows: each product is an operand struct of GEMM.

BT_OPERAND_OF(GRAD_NORM, items, grad, true, false, o->dtype, i->count)
BT_OPERAND(GRAD_NORM, norm, false, true, o->dtype, 1, 1)
BT_OPERAND(GRAD_NORM, scale, false, true, o->dtype, 1, 1)
BT_ATTRIBUTE(GRAD_NORM, item_count, I64)
BT_ATTRIBUTE(GRAD_NORM, grad_scale, F64)
BT_ATTRIBUTE(GRAD_NORM, max_norm, F64)
BT_ATTRIBUTE(GRAD_NORM, dtype, INT)

BT_OPERAND_OF(SUM_SQUARES, items, x, true, false, o->dtype, i->count)
BT_OPERAND_OF(SUM_SQUARES, items, partials, false, true, BT_F64,
              (i->count + BT_SQUARES_BLOCK - 1) / BT_SQUARES_BLOCK)
BT_ATTRIBUTE(SUM_SQUARES, item_count, I64)
BT_ATTRIBUTE(SUM_SQUARES, dtype, INT)

BT_OPERAND(CLIP_SCALE, partials, true, false, BT_F64, o->count, o->count)
BT_OPERAND(CLIP_SCALE, norm, false, true, o->dtype, 1, 1)
BT_OPERAND(CLIP_SCALE, scale, false, true, o->dtype, 1, 1)
BT_ATTRIBUTE(CLIP_SCALE, count, I64)
BT_ATTRIBUTE(CLIP_SCALE, grad_scale, F64)
BT_ATTRIBUTE(CLIP_SCALE, max_norm, F64)
BT_ATTRIBUTE(CLIP_SCALE, dtype, INT)

BT_OPERAND_OF(ADAMW, items, param, true, true, o->dtype, i->count)
BT_OPERAND_OF(ADAMW, items, copy, false, true, BT_BF16, i->count)
BT_OPERAND_OF(ADAMW, items, grad, true, false, o->dtype, i->count)
BT_OPERAND_OF(ADAMW, items, m, true, true, o->dtype, i->count)
BT_OPERAND_OF(ADAMW, items, v, true, true, o->dtype, i->count)
BT_OPERAND(ADAMW, scale, true, false, o->dtype, 1, 1)
BT_ATTRIBUTE(ADAMW, item_count, I64)
BT_ATTRIBUTE(ADAMW, lr, F64)
BT_ATTRIBUTE(ADAMW, beta1, F64)
BT_ATTRIBUTE(ADAMW, beta2, F64)
BT_ATTRIBUTE(ADAMW, epsilon, F64)
BT_ATTRIBUTE(ADAMW, step, I64)
BT_ATTRIBUTE(ADAMW, dtype, INT)

BT_OPERAND(COUNT_NONFINITE, x, true, false, o->dtype, o->count, o->count)
BT_OPERAND(COUNT_NONFINITE, result, false, true, BT_I64, 1, 1)
BT_ATTRIBUTE(COUNT_NONFINITE, count, I64)
BT_ATTRIBUTE(COUNT_NONFINITE, dtype, INT)

#undef WIDE
#undef BT_OPERAND
#undef BT_OPERAND_OF
#undef BT_ATTRIBUTE
