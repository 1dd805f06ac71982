// kernels/cpu/fill.c - y[i] = value, any element type
// Types    all; the value is converted once, as C does (bf16 and f16 through f32, to nearest even)
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/vector.h"

#define FILL(type, value)                                                                          \
    do {                                                                                           \
        type *y = fill->y;                                                                         \
        const type with = (type)(value);                                                           \
        _Pragma(                                                                                   \
            "omp parallel for schedule(static) if (fill->count > BT_CHUNK)") for (int64_t i = 0;   \
                                                                                  i < fill->count; \
                                                                                  ++i)             \
        {                                                                                          \
            y[i] = with;                                                                           \
        }                                                                                          \
    } while (0)

bt_status bt_fill_cpu(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_fill_args *fill = args;
    switch (fill->dtype) {
    case BT_F64:
        FILL(double, fill->value);
        return BT_OK;
    case BT_F32:
        FILL(float, fill->value);
        return BT_OK;
    case BT_BF16:
        FILL(uint16_t, bt_f32_to_bf16((float)fill->value));
        return BT_OK;
    case BT_F16:
        FILL(uint16_t, bt_f32_to_f16((float)fill->value));
        return BT_OK;
    case BT_I64:
        FILL(int64_t, fill->value);
        return BT_OK;
    case BT_I32:
        FILL(int32_t, fill->value);
        return BT_OK;
    case BT_U16:
        FILL(uint16_t, fill->value);
        return BT_OK;
    case BT_U8:
    case BT_BOOL:
        FILL(uint8_t, fill->value);
        return BT_OK;
    case BT_DTYPE_COUNT:
    default:
        return bt_error(BT_STATUS_UNSUPPORTED, "fill of %s", bt_dtype_name(fill->dtype));
    }
}
