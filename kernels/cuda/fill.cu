// kernels/cuda/fill.cu - y[i] = value, any element type
//   Cost    writes count elements; bound by HBM
//   Errors  UNSUPPORTED for f16 and f64
#include "kernels/cuda/cuda.cuh"

constexpr int THREADS = 256;

// The pattern repeats every 16 bytes; head and tail of a misaligned span go byte by byte.
static __global__ void __launch_bounds__(THREADS)
    fill_kernel(unsigned char *y, int64_t head, int64_t wide, int64_t size_bytes, uint4 pattern)
{
    int64_t thread = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t threads = (int64_t)gridDim.x * THREADS;
    uint4 *body = reinterpret_cast<uint4 *>(y + head);
    for (int64_t i = thread; i < wide; i += threads) {
        body[i] = pattern;
    }
    const unsigned words[4] = {pattern.x, pattern.y, pattern.z, pattern.w};
    int64_t tail = head + 16 * wide;
    for (int64_t i = thread; i < head + size_bytes - tail; i += threads) {
        int64_t at = i < head ? i : tail + i - head;
        // The element size divides 16 and y is aligned to it, so a byte's place in the pattern is
        // its address modulo 16 seen from the aligned body.
        unsigned place = (unsigned)((at - head) & 15);
        y[at] = (unsigned char)(words[place / 4] >> (8 * (place % 4)));
    }
}

static bool make_pattern(const bt_fill_args *fill, uint4 *pattern)
{
    unsigned char bytes[16];
    size_t size = bt_dtype_size(fill->dtype);
    union {
        float f32;
        uint16_t bits16;
        int64_t i64;
        int32_t i32;
        uint8_t u8;
        unsigned char bytes[8];
    } element;
    memset(&element, 0, sizeof element);
    switch (fill->dtype) {
    case BT_F32:
        element.f32 = (float)fill->value;
        break;
    case BT_BF16:
        element.bits16 = bt_f32_to_bf16((float)fill->value);
        break;
    case BT_I64:
        element.i64 = (int64_t)fill->value;
        break;
    case BT_I32:
        element.i32 = (int32_t)fill->value;
        break;
    case BT_U16:
        element.bits16 = (uint16_t)fill->value;
        break;
    case BT_U8:
    case BT_BOOL:
        element.u8 = (uint8_t)fill->value;
        break;
    default:
        return false;
    }
    for (size_t i = 0; i < sizeof bytes; ++i) {
        bytes[i] = element.bytes[i % size];
    }
    memcpy(pattern, bytes, sizeof bytes);
    return true;
}

bt_status bt_fill_cuda(const bt_launch *launch, const void *args)
{
    const bt_fill_args *fill = (const bt_fill_args *)args;
    uint4 pattern;
    if (!make_pattern(fill, &pattern)) {
        return bt_error(BT_STATUS_UNSUPPORTED, "fill: type %s is not supported",
                        bt_dtype_name(fill->dtype));
    }
    int64_t size_bytes = fill->count * (int64_t)bt_dtype_size(fill->dtype);
    if (size_bytes == 0) {
        return BT_OK;
    }
    int64_t head = bt_min_i64((int64_t)(-(uintptr_t)fill->y & 15), size_bytes);
    int64_t wide = (size_bytes - head) / 16;
    cudaStream_t stream = bt_cuda_stream(launch);
    unsigned grid = bt_cuda_grid(launch->device, bt_div_up(wide + 1, THREADS), 16);
    fill_kernel<<<grid, THREADS, 0, stream>>>((unsigned char *)fill->y, head, wide, size_bytes,
                                              pattern);
    return bt_cuda_launched("fill_cuda");
}
