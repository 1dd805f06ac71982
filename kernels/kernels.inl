// kernels/kernels.inl - every kernel, a row each. Rows lower down win over rows above that also
// serve a call. Include after defining
//   BT_KERNEL_CPU(op, dtype, name, accepts, workspace)
//   BT_KERNEL_CUDA(op, dtype, min_arch, name, accepts, workspace)
// A row's launch function is bt_<name>(const bt_launch *, const void *args); accepts and workspace
// are functions, or NULL.

// ---- CPU: references, f32 and f64 ---------------------------------------------------------------
BT_KERNEL_CPU(FILL, DTYPE_COUNT, fill_cpu, NULL, NULL)

// ---- CUDA ---------------------------------------------------------------------------------------
