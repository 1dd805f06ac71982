// kernels/cuda/attention/accepts_sm90.cu - which calls the Hopper kernels support
//
// All: views of [B, T, H, D], but those of gradients that are not wanted, with strides of any
// order, positive and multiples of 16 bytes; at least one token; D a multiple of 8 (TMA fills
// columns past it with zeros); scale positive and finite; no dropout. The rest:
//   bf16     D <= 128, plain masks (mask_is_plain); backward: no grouped heads
//   general  bf16, D <= 256, backward 128
//   tf32     D <= 128
// A backward of bf16 for dk and dv alone is given delta. The plain rows leave a backward for one
// side to others where they fuse both.
#include <math.h>

#include "kernels/attention.h"
#include "kernels/cuda/attention/sm90.h"
#include "kernels/cuda/gemm/arch_sm90.h"

namespace bt_attention_sm90
{

static bool view_fits(const shape &s, side of, const bt_attention_view *view, bt_dtype dtype)
{
    const int64_t size = (int64_t)bt_dtype_size(dtype), most = (int64_t)1 << 40;
    auto fits = [&](int64_t count, int64_t stride) {
        return count <= 1 || (stride > 0 && stride < most / size && stride * size % 16 == 0);
    };
    return (uintptr_t)view->base % 16 == 0 &&
           fits(of == QUERIES ? s.q_tokens : s.kv_tokens, view->token_stride) &&
           fits(of == QUERIES ? s.heads : s.kv_heads, view->head_stride) &&
           fits(s.batch, view->batch_stride);
}

static bool tokens_fit(const shape &s, int64_t tokens)
{
    const int64_t most = (int64_t)1 << 29; // tiles, and three times as many blocks
    return tokens >= 1 && tokens <= (int64_t)1 << 28 &&
           (double)s.batch * (double)s.heads * (double)(tokens + BLOCK) <
               (double)BLOCK * (double)most;
}

static bool shape_fits(const bt_device *device, const shape &s, int64_t dim_most)
{
    const int64_t most = (int64_t)1 << 28;
    return bt_attention_valid(&s) && s.dropout == 0.0 &&
           bt_sm90_code_runs(device->info.arch, BT_CUDA_SM90A) &&
           device->info.shared_bytes >= SHARED_BYTES_MOST && s.batch >= 1 && s.batch <= most &&
           s.heads >= 1 && s.heads <= most && tokens_fit(s, s.q_tokens) &&
           tokens_fit(s, s.kv_tokens) && s.head_dim >= 8 && s.head_dim <= dim_most &&
           s.head_dim % 8 == 0 && s.scale > 0.0 && isfinite(s.scale) && s.q_first >= -most &&
           s.q_first <= most;
}

static bool forward_fits(const bt_device *device, const bt_attention_args *a, int64_t dim_most)
{
    const shape &s = a->shape;
    return shape_fits(device, s, dim_most) && view_fits(s, QUERIES, &a->q, a->dtype) &&
           view_fits(s, KEYS, &a->k, a->dtype) && view_fits(s, KEYS, &a->v, a->dtype) &&
           view_fits(s, QUERIES, &a->o, a->dtype);
}

static bool backward_fits(const bt_device *device, const bt_attention_backward_args *a,
                          int64_t dim_most)
{
    const shape &s = a->shape;
    const bt_attention_view *of_queries[] = {&a->q, &a->o, &a->d_o};
    const bt_attention_view *of_keys[] = {&a->k, &a->v, &a->dk, &a->dv};
    bool fits = shape_fits(device, s, dim_most) && bt_attention_outputs_valid(a) &&
                (!a->dq.base || view_fits(s, QUERIES, &a->dq, a->dtype));
    for (const bt_attention_view *view : of_queries) {
        fits = fits && view_fits(s, QUERIES, view, a->dtype);
    }
    for (const bt_attention_view *view : of_keys) {
        const bool unwanted = !a->dk.base && (view == &a->dk || view == &a->dv);
        fits = fits && (unwanted || view_fits(s, KEYS, view, a->dtype));
    }
    return fits;
}

static bool wants_both(const bt_attention_backward_args *a) { return a->dq.base && a->dk.base; }

// Without delta, the kernel of dk and dv needs what that of dq computes.
static bool statistics_known(const bt_attention_backward_args *a)
{
    return a->dq.base || a->delta_given;
}

} // namespace bt_attention_sm90

bool bt_attention_bf16_sm90_accepts(const bt_device *device, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_args *a = (const bt_attention_args *)args;
    return forward_fits(device, a, 2 * COLUMNS) && mask_is_plain(a->shape);
}

bool bt_attention_general_bf16_sm90_accepts(const bt_device *device, const void *args)
{
    using namespace bt_attention_sm90;
    return forward_fits(device, (const bt_attention_args *)args, 4 * COLUMNS);
}

bool bt_attention_tf32_sm90_accepts(const bt_device *device, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_args *a = (const bt_attention_args *)args;
    return a->compute == BT_COMPUTE_TF32 && forward_fits(device, a, 2 * COLUMNS);
}

bool bt_attention_backward_bf16_sm90_accepts(const bt_device *device, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_backward_args *a = (const bt_attention_backward_args *)args;
    return backward_fits(device, a, 2 * COLUMNS) && statistics_known(a) &&
           mask_is_plain(a->shape) && a->shape.heads == a->shape.kv_heads &&
           (wants_both(a) || !side_by_side_pays_bf16(a->shape, device->info.processor_count));
}

bool bt_attention_backward_general_bf16_sm90_accepts(const bt_device *device, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_backward_args *a = (const bt_attention_backward_args *)args;
    return backward_fits(device, a, 2 * COLUMNS) && statistics_known(a);
}

bool bt_attention_backward_tf32_sm90_accepts(const bt_device *device, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_backward_args *a = (const bt_attention_backward_args *)args;
    return a->compute == BT_COMPUTE_TF32 && backward_fits(device, a, 2 * COLUMNS) &&
           (wants_both(a) || !side_by_side_pays_tf32(a->shape, device->info.processor_count));
}
