// kernels/accepts.inl - descriptions of the calls that the accepts() functions of kernels.inl allow
//   BT_ACCEPTS(function, text)
// A row without an accepts() function serves every call of its type. Plain attention is causal or
// full self-attention: one key head per query head, no window, documents, dropout or accumulation.
// For `bt-bench list kernels`.
BT_ACCEPTS(bt_copy_cuda_accepts, "equal types, f32 <-> bf16, f32 <-> i32, u16 to i32; any strides")
BT_ACCEPTS(bt_reduce_sum_cpu_accepts, "y of the same type")
BT_ACCEPTS(bt_reduce_sum_cpu_bf16_accepts, "y bf16 or f32")
BT_ACCEPTS(bt_reduce_sum_cuda_accepts, "y of the same type or f32")
BT_ACCEPTS(bt_sum_parts_cuda_accepts,
           "up to 64 parts; a batch of up to 65535, each of fewer than 2^31 elements")
BT_ACCEPTS(bt_layernorm_cpu_accepts, "gamma, beta of the same type")
BT_ACCEPTS(bt_layernorm_cpu_bf16_accepts, "gamma, beta bf16 or f32")
BT_ACCEPTS(bt_layernorm_cuda_accepts, "gamma, beta of the same type or f32")
BT_ACCEPTS(bt_layernorm_backward_cpu_accepts, "gamma and its gradient of the same type")
BT_ACCEPTS(bt_layernorm_backward_cpu_bf16_accepts, "gamma bf16 or f32, its gradient f32")
BT_ACCEPTS(bt_layernorm_backward_cuda_accepts, "gamma of the same type or f32, its gradient f32")
BT_ACCEPTS(bt_embedding_backward_cpu_accepts, "gradient of the same type")
BT_ACCEPTS(bt_embedding_backward_cpu_bf16_accepts, "gradient f32")
BT_ACCEPTS(bt_embedding_backward_cuda_accepts, "gradient f32; up to 2^31 - 1 rows and tokens")
BT_ACCEPTS(bt_attention_cpu_accepts,
           "native arithmetic; any head size, strides and tokens below 2^31")
BT_ACCEPTS(bt_attention_backward_cpu_accepts,
           "native arithmetic; any head size, strides and tokens below 2^31")
BT_ACCEPTS(bt_attention_general_accepts, "any call with a head size of 1 to 256")
BT_ACCEPTS(bt_attention_general_tf32_accepts, "tf32; any call with a head size of 1 to 256")
BT_ACCEPTS(bt_attention_backward_general_accepts, "any call with a head size of 1 to 256")
BT_ACCEPTS(bt_attention_backward_general_tf32_accepts,
           "tf32; any call with a head size of 1 to 256")
BT_ACCEPTS(bt_attention_bf16_accepts,
           "plain; head size a multiple of 8 up to 128, aligned to 16 bytes")
BT_ACCEPTS(bt_attention_f32_accepts,
           "plain; head size a multiple of 8 up to 128, aligned to 16 bytes")
BT_ACCEPTS(bt_attention_tf32_accepts,
           "plain; tf32; head size a multiple of 8 up to 128, aligned to 16 bytes")
BT_ACCEPTS(bt_attention_backward_bf16_accepts,
           "plain; head size a multiple of 8 up to 128, aligned to 16 bytes; all gradients wanted")
BT_ACCEPTS(bt_attention_backward_f32_accepts,
           "plain; head size a multiple of 8 up to 128, aligned to 16 bytes; all gradients wanted")
BT_ACCEPTS(
    bt_attention_backward_tf32_accepts,
    "plain; tf32; head size a multiple of 8 up to 128, aligned to 16 bytes; all gradients wanted")
BT_ACCEPTS(bt_attention_general_bf16_sm90_accepts,
           "compute capability 9.0; any mask, no dropout; head size a multiple of 8 up to 256; "
           "positive strides, aligned to 16 bytes")
BT_ACCEPTS(bt_attention_bf16_sm90_accepts,
           "compute capability 9.0; full, or causal with as many keys as queries; head size a "
           "multiple of 8 up to 128; positive strides, aligned to 16 bytes")
BT_ACCEPTS(bt_attention_backward_general_bf16_sm90_accepts,
           "compute capability 9.0; any mask, no dropout; head size a multiple of 8 up to 128; "
           "positive strides, aligned to 16 bytes")
BT_ACCEPTS(
    bt_attention_backward_bf16_sm90_accepts,
    "compute capability 9.0; full, or causal with as many keys as queries; no grouped heads; "
    "head size a multiple of 8 up to 128; positive strides, aligned to 16 bytes; all gradients "
    "wanted if heads are few")
BT_ACCEPTS(bt_attention_tf32_sm90_accepts,
           "tf32; compute capability 9.0; any mask, no dropout; head size a multiple of 8 up to "
           "128; positive strides, aligned to 16 bytes")
BT_ACCEPTS(bt_attention_backward_tf32_sm90_accepts,
           "tf32; compute capability 9.0; any mask, no dropout; head size a multiple of 8 up to "
           "128; positive strides, aligned to 16 bytes; all gradients wanted if heads are few")
BT_ACCEPTS(bt_cross_entropy_grad_sm90_f32_accepts,
           "compute capability 9.0; rows of 16 KB to 225 KB, aligned to 16 bytes, with a gradient")
BT_ACCEPTS(bt_cross_entropy_grad_sm90_bf16_accepts,
           "compute capability 9.0; rows of 16 KB to 225 KB, aligned to 16 bytes, with a gradient")
BT_ACCEPTS(bt_linear_exps_bf16_sm90_accepts,
           "compute capability 9.0, aligned to 16 bytes; vocabulary and width are multiples of 8; "
           "with BT_GEMM=auto where gemm_bf16_sm90 is expected to be faster than cuBLASLt")
BT_ACCEPTS(bt_gemm_cpu_accepts, "native arithmetic, d of the same type; strides below 2^31")
BT_ACCEPTS(bt_gemm_cpu_bf16_accepts, "d bf16 or f32; strides below 2^31")
BT_ACCEPTS(bt_gemm_grouped_cpu_accepts, "products that rows of gemm serve one by one")
BT_ACCEPTS(bt_gemm_pieces_cpu_accepts, "pieces of products that rows of gemm serve")
BT_ACCEPTS(bt_gemm_pieces_bf16_sm90_accepts,
           "products that gemm_bf16_sm90 serves, with untransposed rows, results in bf16 and no C; "
           "pieces of a multiple of 128 rows")
BT_ACCEPTS(bt_gemm_grouped_bf16_sm90_accepts,
           "bf16 weight gradients in f32 (op(A) transposed, stored or added to d), aligned to 16 "
           "bytes, n a multiple of 4; with BT_GEMM=auto of up to 8192 rows")
BT_ACCEPTS(bt_gemm_cublaslt_accepts,
           "calls for which cuBLASLt has a kernel; GELU epilogues in bf16, beta 0")
BT_ACCEPTS(bt_gemm_bf16_sm80_accepts,
           "any product with BT_GEMM=own or sm80; GELU with beta 0; calls that cuBLASLt lacks")
BT_ACCEPTS(
    bt_gemm_fp32_sm80_accepts,
    "native; any product with BT_GEMM=own or sm80; GELU with beta 0; calls that cuBLASLt lacks; "
    "with BT_GEMM=auto on 9.0 weight gradients of more than 768 x 768 and 4096 rows")
BT_ACCEPTS(
    bt_gemm_tf32_sm80_accepts,
    "tf32; any product with BT_GEMM=own or sm80; GELU with beta 0; calls that cuBLASLt lacks")
BT_ACCEPTS(
    bt_gemm_tf32_sm90_accepts,
    "tf32; aligned to 16 bytes, n a multiple of 4; with BT_GEMM=auto where it is expected to "
    "be faster")
BT_ACCEPTS(bt_gemm_bf16_sm90_accepts,
           "compute capability 9.0, aligned to 16 bytes; where it is faster")
