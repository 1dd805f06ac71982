#include "framework/dist/reduce.h"

#include <assert.h>

enum { BLOCK = 256 }; // elements; a level of the tree holds one block on the stack

#define IDENTITY(x)      (x)
#define ADD(a, b)        ((a) + (b))
#define MAXIMUM(a, b)    ((a) > (b) || (a) != (a) ? (a) : (b))
#define ADD_WRAP64(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define ADD_WRAP32(a, b) ((int32_t)((uint32_t)(a) + (uint32_t)(b)))

// tree_NAME: out[i] = the reduction of parts[0..parts_count) at offset + i, i < length <= BLOCK.
// reduce_NAME: the same for any count, stored in the parts' type.
#define DEFINE_TREE(name, stored, held, load, store, combine)                                      \
    static void tree_##name(const void *const *parts, int parts_count, int64_t offset,             \
                            int64_t length, held *out)                                             \
    {                                                                                              \
        const stored *first = (const stored *)parts[0] + offset;                                   \
        if (parts_count == 1) {                                                                    \
            for (int64_t i = 0; i < length; ++i) {                                                 \
                out[i] = load(first[i]);                                                           \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        if (parts_count == 2) {                                                                    \
            const stored *second = (const stored *)parts[1] + offset;                              \
            for (int64_t i = 0; i < length; ++i) {                                                 \
                held a = load(first[i]), b = load(second[i]);                                      \
                out[i] = combine(a, b);                                                            \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        int middle = (parts_count + 1) / 2;                                                        \
        held right[BLOCK];                                                                         \
        tree_##name(parts, middle, offset, length, out);                                           \
        tree_##name(parts + middle, parts_count - middle, offset, length, right);                  \
        for (int64_t i = 0; i < length; ++i) {                                                     \
            out[i] = combine(out[i], right[i]);                                                    \
        }                                                                                          \
    }                                                                                              \
    static void reduce_##name(const void *const *parts, int parts_count, void *out, int64_t count) \
    {                                                                                              \
        held block[BLOCK];                                                                         \
        for (int64_t begin = 0; begin < count; begin += BLOCK) {                                   \
            int64_t length = count - begin < BLOCK ? count - begin : BLOCK;                        \
            tree_##name(parts, parts_count, begin, length, block);                                 \
            for (int64_t i = 0; i < length; ++i) {                                                 \
                ((stored *)out)[begin + i] = store(block[i]);                                      \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_TREE(f64_sum, double, double, IDENTITY, IDENTITY, ADD)
DEFINE_TREE(f32_sum, float, float, IDENTITY, IDENTITY, ADD)
DEFINE_TREE(bf16_sum, uint16_t, float, bt_bf16_to_f32, bt_f32_to_bf16, ADD)
DEFINE_TREE(i64_sum, int64_t, int64_t, IDENTITY, IDENTITY, ADD_WRAP64)
DEFINE_TREE(i32_sum, int32_t, int32_t, IDENTITY, IDENTITY, ADD_WRAP32)
DEFINE_TREE(f64_max, double, double, IDENTITY, IDENTITY, MAXIMUM)
DEFINE_TREE(f32_max, float, float, IDENTITY, IDENTITY, MAXIMUM)
DEFINE_TREE(bf16_max, uint16_t, float, bt_bf16_to_f32, bt_f32_to_bf16, MAXIMUM)
DEFINE_TREE(i64_max, int64_t, int64_t, IDENTITY, IDENTITY, MAXIMUM)
DEFINE_TREE(i32_max, int32_t, int32_t, IDENTITY, IDENTITY, MAXIMUM)

typedef void (*reduce_fn)(const void *const *parts, int parts_count, void *out, int64_t count);

static const reduce_fn reduce_table[BT_DTYPE_COUNT][BT_REDUCE_COUNT] = {
    [BT_F64] = {reduce_f64_sum, reduce_f64_max},    [BT_F32] = {reduce_f32_sum, reduce_f32_max},
    [BT_BF16] = {reduce_bf16_sum, reduce_bf16_max}, [BT_I64] = {reduce_i64_sum, reduce_i64_max},
    [BT_I32] = {reduce_i32_sum, reduce_i32_max},
};

bool bt_reduce_supports(bt_dtype dtype)
{
    return (unsigned)dtype < BT_DTYPE_COUNT && reduce_table[dtype][BT_REDUCE_SUM] != NULL;
}

void bt_reduce_tree(const void *const *parts, int parts_count, void *out, int64_t count,
                    bt_dtype dtype, bt_reduction reduction)
{
    assert(parts_count >= 1 && bt_reduce_supports(dtype));
    reduce_table[dtype][reduction](parts, parts_count, out, count);
}
