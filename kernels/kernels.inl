// kernels/kernels.inl - every kernel, a row each. Rows lower down win over rows above that also
// serve a call. Include after defining
//   BT_KERNEL_CPU(op, dtype, name, accepts, workspace)
//   BT_KERNEL_CUDA(op, dtype, min_arch, name, accepts, workspace)
// A row's launch function is bt_<name>(const bt_launch *, const void *args); accepts and workspace
// are functions, or NULL.

// ---- CPU: references, f32 and f64; bf16 through f32
// ---------------------------------------------------------------
BT_KERNEL_CPU(FILL, DTYPE_COUNT, fill_cpu, NULL, NULL)
BT_KERNEL_CPU(COPY, DTYPE_COUNT, copy_cpu, NULL, NULL)
BT_KERNEL_CPU(UNARY, F32, unary_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(UNARY, F64, unary_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(UNARY_BACKWARD, F32, unary_backward_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(UNARY_BACKWARD, F64, unary_backward_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(SCALE, F32, scale_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(SCALE, F64, scale_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(BINARY, F32, binary_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(BINARY, F64, binary_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(REDUCE_SUM, F32, reduce_sum_cpu_f32, bt_reduce_sum_cpu_accepts,
              bt_reduce_sum_cpu_workspace)
BT_KERNEL_CPU(REDUCE_SUM, F64, reduce_sum_cpu_f64, bt_reduce_sum_cpu_accepts,
              bt_reduce_sum_cpu_workspace)
BT_KERNEL_CPU(SUM_PARTS, F32, sum_parts_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(SUM_PARTS, F64, sum_parts_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(SOFTMAX, F32, softmax_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(SOFTMAX, F64, softmax_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(SOFTMAX_BACKWARD, F32, softmax_backward_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(SOFTMAX_BACKWARD, F64, softmax_backward_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(LAYERNORM, F32, layernorm_cpu_f32, bt_layernorm_cpu_accepts, NULL)
BT_KERNEL_CPU(LAYERNORM, F64, layernorm_cpu_f64, bt_layernorm_cpu_accepts, NULL)
BT_KERNEL_CPU(LAYERNORM_BACKWARD, F32, layernorm_backward_cpu_f32,
              bt_layernorm_backward_cpu_accepts, bt_layernorm_backward_cpu_workspace)
BT_KERNEL_CPU(LAYERNORM_BACKWARD, F64, layernorm_backward_cpu_f64,
              bt_layernorm_backward_cpu_accepts, bt_layernorm_backward_cpu_workspace)
BT_KERNEL_CPU(EMBEDDING, F32, embedding_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(EMBEDDING, F64, embedding_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(EMBEDDING_BACKWARD, F32, embedding_backward_cpu_f32,
              bt_embedding_backward_cpu_accepts, bt_embedding_backward_cpu_workspace)
BT_KERNEL_CPU(EMBEDDING_BACKWARD, F64, embedding_backward_cpu_f64,
              bt_embedding_backward_cpu_accepts, bt_embedding_backward_cpu_workspace)
BT_KERNEL_CPU(ATTENTION, F32, attention_cpu_f32, bt_attention_cpu_accepts,
              bt_attention_cpu_workspace)
BT_KERNEL_CPU(ATTENTION, F64, attention_cpu_f64, bt_attention_cpu_accepts,
              bt_attention_cpu_workspace)
BT_KERNEL_CPU(ATTENTION_BACKWARD, F32, attention_backward_cpu_f32,
              bt_attention_backward_cpu_accepts, bt_attention_backward_cpu_workspace)
BT_KERNEL_CPU(ATTENTION_BACKWARD, F64, attention_backward_cpu_f64,
              bt_attention_backward_cpu_accepts, bt_attention_backward_cpu_workspace)
BT_KERNEL_CPU(CROSS_ENTROPY, F32, cross_entropy_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(CROSS_ENTROPY, F64, cross_entropy_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(CROSS_ENTROPY_BACKWARD, F32, cross_entropy_backward_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(CROSS_ENTROPY_BACKWARD, F64, cross_entropy_backward_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(CROSS_ENTROPY_MEAN, F32, cross_entropy_mean_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(CROSS_ENTROPY_MEAN, F64, cross_entropy_mean_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(CROSS_ENTROPY_GRAD, F32, cross_entropy_grad_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(CROSS_ENTROPY_GRAD, F64, cross_entropy_grad_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(LINEAR_EXPS, F32, linear_exps_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(LINEAR_EXPS, F64, linear_exps_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(SHARD_IDS, DTYPE_COUNT, shard_ids_cpu, NULL, NULL)
BT_KERNEL_CPU(SHARD_TARGETS, DTYPE_COUNT, shard_targets_cpu, NULL, NULL)
BT_KERNEL_CPU(DROPOUT, F32, dropout_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(DROPOUT, F64, dropout_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(GEMM, F32, gemm_cpu_f32, bt_gemm_cpu_accepts, NULL)
BT_KERNEL_CPU(GEMM, F64, gemm_cpu_f64, bt_gemm_cpu_accepts, NULL)
BT_KERNEL_CPU(GEMM_GROUPED, DTYPE_COUNT, gemm_grouped_cpu, bt_gemm_grouped_cpu_accepts,
              bt_gemm_grouped_cpu_workspace)
BT_KERNEL_CPU(GEMM_PIECES, DTYPE_COUNT, gemm_pieces_cpu, bt_gemm_pieces_cpu_accepts,
              bt_gemm_pieces_cpu_workspace)
BT_KERNEL_CPU(GRAD_NORM, F32, grad_norm_cpu_f32, NULL, bt_grad_norm_cpu_workspace)
BT_KERNEL_CPU(GRAD_NORM, F64, grad_norm_cpu_f64, NULL, bt_grad_norm_cpu_workspace)
BT_KERNEL_CPU(SUM_SQUARES, F32, sum_squares_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(SUM_SQUARES, F64, sum_squares_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(CLIP_SCALE, F32, clip_scale_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(CLIP_SCALE, F64, clip_scale_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(ADAMW, F32, adamw_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(ADAMW, F64, adamw_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(COUNT_NONFINITE, F32, count_nonfinite_cpu_f32, NULL, NULL)
BT_KERNEL_CPU(COUNT_NONFINITE, F64, count_nonfinite_cpu_f64, NULL, NULL)
BT_KERNEL_CPU(UNARY, BF16, unary_cpu_bf16, NULL, bt_elementwise_cpu_bf16_workspace)
BT_KERNEL_CPU(UNARY_BACKWARD, BF16, unary_backward_cpu_bf16, NULL,
              bt_elementwise_cpu_bf16_workspace)
BT_KERNEL_CPU(SCALE, BF16, scale_cpu_bf16, NULL, NULL)
BT_KERNEL_CPU(BINARY, BF16, binary_cpu_bf16, NULL, NULL)
BT_KERNEL_CPU(REDUCE_SUM, BF16, reduce_sum_cpu_bf16, bt_reduce_sum_cpu_bf16_accepts,
              bt_reduce_sum_cpu_bf16_workspace)
BT_KERNEL_CPU(SUM_PARTS, BF16, sum_parts_cpu_bf16, NULL, NULL)
BT_KERNEL_CPU(SOFTMAX, BF16, softmax_cpu_bf16, NULL, bt_softmax_cpu_bf16_workspace)
BT_KERNEL_CPU(SOFTMAX_BACKWARD, BF16, softmax_backward_cpu_bf16, NULL,
              bt_softmax_backward_cpu_bf16_workspace)
BT_KERNEL_CPU(LAYERNORM, BF16, layernorm_cpu_bf16, bt_layernorm_cpu_bf16_accepts,
              bt_layernorm_cpu_bf16_workspace)
BT_KERNEL_CPU(LAYERNORM_BACKWARD, BF16, layernorm_backward_cpu_bf16,
              bt_layernorm_backward_cpu_bf16_accepts, bt_layernorm_backward_cpu_bf16_workspace)
BT_KERNEL_CPU(EMBEDDING, BF16, embedding_cpu_bf16, NULL, NULL)
BT_KERNEL_CPU(EMBEDDING_BACKWARD, BF16, embedding_backward_cpu_bf16,
              bt_embedding_backward_cpu_bf16_accepts, bt_embedding_backward_cpu_bf16_workspace)
BT_KERNEL_CPU(ATTENTION, BF16, attention_cpu_bf16, bt_attention_cpu_accepts,
              bt_attention_cpu_bf16_workspace)
BT_KERNEL_CPU(ATTENTION_BACKWARD, BF16, attention_backward_cpu_bf16,
              bt_attention_backward_cpu_accepts, bt_attention_backward_cpu_bf16_workspace)
BT_KERNEL_CPU(CROSS_ENTROPY, BF16, cross_entropy_cpu_bf16, NULL,
              bt_cross_entropy_cpu_bf16_workspace)
BT_KERNEL_CPU(CROSS_ENTROPY_BACKWARD, BF16, cross_entropy_backward_cpu_bf16, NULL,
              bt_cross_entropy_backward_cpu_bf16_workspace)
BT_KERNEL_CPU(CROSS_ENTROPY_GRAD, BF16, cross_entropy_grad_cpu_bf16, NULL,
              bt_cross_entropy_grad_cpu_bf16_workspace)
BT_KERNEL_CPU(DROPOUT, BF16, dropout_cpu_bf16, NULL, NULL)
BT_KERNEL_CPU(GEMM, BF16, gemm_cpu_bf16, bt_gemm_cpu_bf16_accepts, bt_gemm_cpu_bf16_workspace)
BT_KERNEL_CPU(COUNT_NONFINITE, BF16, count_nonfinite_cpu_bf16, NULL,
              bt_elementwise_cpu_bf16_workspace)

// ---- CUDA ---------------------------------------------------------------------------------------
BT_KERNEL_CUDA(FILL, DTYPE_COUNT, 80, fill_cuda, NULL, NULL)
BT_KERNEL_CUDA(COPY, DTYPE_COUNT, 80, copy_cuda, bt_copy_cuda_accepts, NULL)
BT_KERNEL_CUDA(UNARY, F32, 80, unary_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(UNARY, BF16, 80, unary_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(UNARY_BACKWARD, F32, 80, unary_backward_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(UNARY_BACKWARD, BF16, 80, unary_backward_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(GEMM, F32, 80, gemm_cublaslt_f32, bt_gemm_cublaslt_accepts,
               bt_gemm_cublaslt_workspace)
BT_KERNEL_CUDA(GEMM, BF16, 80, gemm_cublaslt_bf16, bt_gemm_cublaslt_accepts,
               bt_gemm_cublaslt_workspace)
BT_KERNEL_CUDA(GEMM, BF16, 80, gemm_bf16_sm80, bt_gemm_bf16_sm80_accepts,
               bt_gemm_bf16_sm80_workspace)
BT_KERNEL_CUDA(GEMM, BF16, 90, gemm_bf16_sm90, bt_gemm_bf16_sm90_accepts,
               bt_gemm_bf16_sm90_workspace)
BT_KERNEL_CUDA(GEMM_GROUPED, BF16, 90, gemm_grouped_bf16_sm90, bt_gemm_grouped_bf16_sm90_accepts,
               bt_gemm_grouped_bf16_sm90_workspace)
BT_KERNEL_CUDA(GEMM_PIECES, BF16, 90, gemm_pieces_bf16_sm90, bt_gemm_pieces_bf16_sm90_accepts, NULL)
BT_KERNEL_CUDA(GEMM, F32, 80, gemm_fp32_sm80, bt_gemm_fp32_sm80_accepts,
               bt_gemm_fp32_sm80_workspace)
BT_KERNEL_CUDA(GEMM, F32, 80, gemm_tf32_sm80, bt_gemm_tf32_sm80_accepts,
               bt_gemm_tf32_sm80_workspace)
BT_KERNEL_CUDA(GEMM, F32, 90, gemm_tf32_sm90, bt_gemm_tf32_sm90_accepts,
               bt_gemm_tf32_sm90_workspace)
BT_KERNEL_CUDA(LAYERNORM, F32, 80, layernorm_cuda_f32, bt_layernorm_cuda_accepts, NULL)
BT_KERNEL_CUDA(LAYERNORM, BF16, 80, layernorm_cuda_bf16, bt_layernorm_cuda_accepts, NULL)
BT_KERNEL_CUDA(LAYERNORM_BACKWARD, F32, 80, layernorm_backward_cuda_f32,
               bt_layernorm_backward_cuda_accepts, bt_layernorm_backward_cuda_workspace)
BT_KERNEL_CUDA(LAYERNORM_BACKWARD, BF16, 80, layernorm_backward_cuda_bf16,
               bt_layernorm_backward_cuda_accepts, bt_layernorm_backward_cuda_workspace)
BT_KERNEL_CUDA(CROSS_ENTROPY, F32, 80, cross_entropy_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(CROSS_ENTROPY, BF16, 80, cross_entropy_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(CROSS_ENTROPY_BACKWARD, F32, 80, cross_entropy_backward_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(CROSS_ENTROPY_BACKWARD, BF16, 80, cross_entropy_backward_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(CROSS_ENTROPY_MEAN, F32, 80, cross_entropy_mean_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(CROSS_ENTROPY_GRAD, F32, 80, cross_entropy_grad_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(CROSS_ENTROPY_GRAD, BF16, 80, cross_entropy_grad_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(CROSS_ENTROPY_GRAD, F32, 90, cross_entropy_grad_sm90_f32,
               bt_cross_entropy_grad_sm90_f32_accepts, NULL)
BT_KERNEL_CUDA(CROSS_ENTROPY_GRAD, BF16, 90, cross_entropy_grad_sm90_bf16,
               bt_cross_entropy_grad_sm90_bf16_accepts, NULL)
BT_KERNEL_CUDA(LINEAR_EXPS, BF16, 90, linear_exps_bf16_sm90, bt_linear_exps_bf16_sm90_accepts,
               bt_linear_exps_bf16_sm90_workspace)
BT_KERNEL_CUDA(SCALE, F32, 80, scale_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(SCALE, BF16, 80, scale_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(GRAD_NORM, F32, 80, grad_norm_cuda_f32, NULL, bt_grad_norm_cuda_f32_workspace)
BT_KERNEL_CUDA(SUM_SQUARES, F32, 80, sum_squares_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(CLIP_SCALE, F32, 80, clip_scale_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(ADAMW, F32, 80, adamw_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(REDUCE_SUM, F32, 80, reduce_sum_cuda_f32, bt_reduce_sum_cuda_accepts,
               bt_reduce_sum_cuda_workspace)
BT_KERNEL_CUDA(REDUCE_SUM, BF16, 80, reduce_sum_cuda_bf16, bt_reduce_sum_cuda_accepts,
               bt_reduce_sum_cuda_workspace)
BT_KERNEL_CUDA(SUM_PARTS, F32, 80, sum_parts_cuda_f32, bt_sum_parts_cuda_accepts, NULL)
BT_KERNEL_CUDA(SUM_PARTS, BF16, 80, sum_parts_cuda_bf16, bt_sum_parts_cuda_accepts, NULL)
BT_KERNEL_CUDA(EMBEDDING, F32, 80, embedding_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(EMBEDDING, BF16, 80, embedding_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(EMBEDDING_BACKWARD, F32, 80, embedding_backward_cuda_f32,
               bt_embedding_backward_cuda_accepts, bt_embedding_backward_cuda_workspace)
BT_KERNEL_CUDA(EMBEDDING_BACKWARD, BF16, 80, embedding_backward_cuda_bf16,
               bt_embedding_backward_cuda_accepts, bt_embedding_backward_cuda_workspace)
BT_KERNEL_CUDA(BINARY, F32, 80, binary_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(BINARY, BF16, 80, binary_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(SOFTMAX, F32, 80, softmax_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(SOFTMAX, BF16, 80, softmax_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(SOFTMAX_BACKWARD, F32, 80, softmax_backward_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(SOFTMAX_BACKWARD, BF16, 80, softmax_backward_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(SHARD_IDS, F32, 80, shard_ids_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(SHARD_IDS, BF16, 80, shard_ids_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(SHARD_TARGETS, DTYPE_COUNT, 80, shard_targets_cuda, NULL, NULL)
BT_KERNEL_CUDA(DROPOUT, F32, 80, dropout_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(DROPOUT, BF16, 80, dropout_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(COUNT_NONFINITE, F32, 80, count_nonfinite_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(COUNT_NONFINITE, BF16, 80, count_nonfinite_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(ATTENTION, BF16, 80, attention_general_bf16_sm80, bt_attention_general_accepts, NULL)
BT_KERNEL_CUDA(ATTENTION, F32, 80, attention_general_f32_sm80, bt_attention_general_accepts, NULL)
BT_KERNEL_CUDA(ATTENTION, F32, 80, attention_general_tf32_sm80, bt_attention_general_tf32_accepts,
               NULL)
BT_KERNEL_CUDA(ATTENTION, BF16, 80, attention_bf16_sm80, bt_attention_bf16_accepts, NULL)
BT_KERNEL_CUDA(ATTENTION, BF16, 90, attention_general_bf16_sm90,
               bt_attention_general_bf16_sm90_accepts, bt_attention_general_bf16_sm90_workspace)
BT_KERNEL_CUDA(ATTENTION, BF16, 90, attention_bf16_sm90, bt_attention_bf16_sm90_accepts, NULL)
BT_KERNEL_CUDA(ATTENTION, F32, 80, attention_f32_sm80, bt_attention_f32_accepts, NULL)
BT_KERNEL_CUDA(ATTENTION, F32, 80, attention_tf32_sm80, bt_attention_tf32_accepts, NULL)
BT_KERNEL_CUDA(ATTENTION, F32, 90, attention_tf32_sm90, bt_attention_tf32_sm90_accepts,
               bt_attention_tf32_sm90_workspace)
BT_KERNEL_CUDA(ATTENTION_BACKWARD, BF16, 80, attention_backward_general_bf16_sm80,
               bt_attention_backward_general_accepts, bt_attention_backward_general_workspace)
BT_KERNEL_CUDA(ATTENTION_BACKWARD, F32, 80, attention_backward_general_f32_sm80,
               bt_attention_backward_general_accepts, bt_attention_backward_general_workspace)
BT_KERNEL_CUDA(ATTENTION_BACKWARD, F32, 80, attention_backward_general_tf32_sm80,
               bt_attention_backward_general_tf32_accepts, bt_attention_backward_general_workspace)
BT_KERNEL_CUDA(ATTENTION_BACKWARD, BF16, 80, attention_backward_bf16_sm80,
               bt_attention_backward_bf16_accepts, bt_attention_backward_bf16_workspace)
BT_KERNEL_CUDA(ATTENTION_BACKWARD, BF16, 90, attention_backward_general_bf16_sm90,
               bt_attention_backward_general_bf16_sm90_accepts,
               bt_attention_backward_general_bf16_sm90_workspace)
BT_KERNEL_CUDA(ATTENTION_BACKWARD, BF16, 90, attention_backward_bf16_sm90,
               bt_attention_backward_bf16_sm90_accepts, bt_attention_backward_bf16_sm90_workspace)
BT_KERNEL_CUDA(ATTENTION_BACKWARD, F32, 80, attention_backward_f32_sm80,
               bt_attention_backward_f32_accepts, bt_attention_backward_f32_workspace)
BT_KERNEL_CUDA(ATTENTION_BACKWARD, F32, 80, attention_backward_tf32_sm80,
               bt_attention_backward_tf32_accepts, bt_attention_backward_tf32_workspace)
BT_KERNEL_CUDA(ATTENTION_BACKWARD, F32, 90, attention_backward_tf32_sm90,
               bt_attention_backward_tf32_sm90_accepts, bt_attention_backward_tf32_sm90_workspace)
