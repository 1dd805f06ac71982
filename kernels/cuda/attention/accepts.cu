// kernels/cuda/attention/accepts.cu - which calls the attention kernels support
//
// sm80: head_dim a multiple of 8 up to 128, bases and strides multiples of 16 bytes, scale positive
// and finite, at most 2^30 tokens, 99 KiB of shared memory per block. Causal or not, any token
// count. bf16 and f32 serve either compute type (f32 is the more precise of the two), tf32 only
// TF32. general: any valid shape with a head_dim of 1 to 256 and a finite scale, any alignment; at
// most 2^30 tokens, 99 KiB of shared memory per block. sm90: see accepts_sm90.cu.
#include <math.h>

#include "kernels/attention.h"
#include "kernels/cuda/attention/tile.cuh"

static bool view_fits(const bt_attention_view *view, bt_dtype dtype)
{
    const int64_t chunk = 16 / (int64_t)bt_dtype_size(dtype);
    return (uintptr_t)view->base % 16 == 0 && view->batch_stride % chunk == 0 &&
           view->token_stride % chunk == 0 && view->head_stride % chunk == 0;
}

static bool shape_fits(const bt_device *device, const bt_attention_shape *s)
{
    const int64_t batch = s->batch, heads = s->heads, tokens = s->q_tokens;
    // A grid has at most one block per 64 rows of a head, and per 32 rows of statistics.
    const int64_t most_rows = (int64_t)1 << 30;
    return bt_attention_plain(s) && device->info.shared_bytes >= SHARED_LIMIT &&
           tokens <= most_rows && batch <= most_rows && heads <= most_rows &&
           (double)batch * (double)heads * (double)(tokens + 64) < 32.0 * 0x7fffffff &&
           s->head_dim >= 8 && s->head_dim <= 128 && s->head_dim % 8 == 0 && s->scale > 0.0 &&
           isfinite(s->scale);
}

static bool forward_fits(const bt_device *device, const bt_attention_args *a)
{
    return shape_fits(device, &a->shape) && view_fits(&a->q, a->dtype) &&
           view_fits(&a->k, a->dtype) && view_fits(&a->v, a->dtype) && view_fits(&a->o, a->dtype);
}

static bool backward_fits(const bt_device *device, const bt_attention_backward_args *a)
{
    return shape_fits(device, &a->shape) && view_fits(&a->q, a->dtype) &&
           view_fits(&a->k, a->dtype) && view_fits(&a->v, a->dtype) && view_fits(&a->o, a->dtype) &&
           view_fits(&a->d_o, a->dtype) && view_fits(&a->dq, a->dtype) &&
           view_fits(&a->dk, a->dtype) && view_fits(&a->dv, a->dtype) && bt_attention_wants_all(a);
}

static bool general_fits(const bt_device *device, const bt_attention_shape *s)
{
    const int64_t most_rows = (int64_t)1 << 30;
    // A grid has a block for 64 rows of a head at most, for 32 where head_dim is above 128 and then
    // two of them, and for 8 rows of statistics.
    return bt_attention_valid(s) && device->info.shared_bytes >= SHARED_LIMIT &&
           s->q_tokens <= most_rows && s->kv_tokens <= most_rows && s->batch <= most_rows &&
           s->heads <= most_rows &&
           (double)s->batch * (double)s->heads * (double)(s->q_tokens + s->kv_tokens + 64) <
               8.0 * 0x7fffffff &&
           s->head_dim >= 1 && s->head_dim <= 256 && isfinite(s->scale);
}

bool bt_attention_general_accepts(const bt_device *device, const void *args)
{
    return general_fits(device, &((const bt_attention_args *)args)->shape);
}

bool bt_attention_general_tf32_accepts(const bt_device *device, const void *args)
{
    return ((const bt_attention_args *)args)->compute == BT_COMPUTE_TF32 &&
           bt_attention_general_accepts(device, args);
}

bool bt_attention_backward_general_accepts(const bt_device *device, const void *args)
{
    const bt_attention_backward_args *a = (const bt_attention_backward_args *)args;
    return general_fits(device, &a->shape) && bt_attention_outputs_valid(a);
}

bool bt_attention_backward_general_tf32_accepts(const bt_device *device, const void *args)
{
    return ((const bt_attention_backward_args *)args)->compute == BT_COMPUTE_TF32 &&
           bt_attention_backward_general_accepts(device, args);
}

bool bt_attention_bf16_accepts(const bt_device *device, const void *args)
{
    return forward_fits(device, (const bt_attention_args *)args);
}

bool bt_attention_f32_accepts(const bt_device *device, const void *args)
{
    return forward_fits(device, (const bt_attention_args *)args);
}

bool bt_attention_tf32_accepts(const bt_device *device, const void *args)
{
    return ((const bt_attention_args *)args)->compute == BT_COMPUTE_TF32 &&
           forward_fits(device, (const bt_attention_args *)args);
}

bool bt_attention_backward_bf16_accepts(const bt_device *device, const void *args)
{
    return backward_fits(device, (const bt_attention_backward_args *)args);
}

bool bt_attention_backward_f32_accepts(const bt_device *device, const void *args)
{
    return backward_fits(device, (const bt_attention_backward_args *)args);
}

bool bt_attention_backward_tf32_accepts(const bt_device *device, const void *args)
{
    return ((const bt_attention_backward_args *)args)->compute == BT_COMPUTE_TF32 &&
           backward_fits(device, (const bt_attention_backward_args *)args);
}
