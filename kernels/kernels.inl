// kernels/kernels.inl - every kernel, a row each. Rows lower down win over rows above that also
// serve a call. Include after defining
//   BT_KERNEL_CPU(op, dtype, name, accepts, workspace)
//   BT_KERNEL_CUDA(op, dtype, min_arch, name, accepts, workspace)
// A row's launch function is bt_<name>(const bt_launch *, const void *args); accepts and workspace
// are functions, or NULL.

// ---- CPU: references, f32 and f64 ---------------------------------------------------------------
BT_KERNEL_CPU(FILL, DTYPE_COUNT, fill_cpu, NULL, NULL)

// ---- CUDA ---------------------------------------------------------------------------------------
BT_KERNEL_CUDA(FILL, DTYPE_COUNT, 80, fill_cuda, NULL, NULL)
BT_KERNEL_CUDA(COPY, DTYPE_COUNT, 80, copy_cuda, bt_copy_cuda_accepts, NULL)
BT_KERNEL_CUDA(UNARY, F32, 80, unary_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(UNARY, BF16, 80, unary_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(UNARY_BACKWARD, F32, 80, unary_backward_cuda_f32, NULL, NULL)
BT_KERNEL_CUDA(UNARY_BACKWARD, BF16, 80, unary_backward_cuda_bf16, NULL, NULL)
BT_KERNEL_CUDA(GEMM, F32, 80, gemm_cublaslt_f32, bt_gemm_cublaslt_accepts, bt_gemm_cublaslt_workspace)
BT_KERNEL_CUDA(GEMM, BF16, 80, gemm_cublaslt_bf16, bt_gemm_cublaslt_accepts, bt_gemm_cublaslt_workspace)
