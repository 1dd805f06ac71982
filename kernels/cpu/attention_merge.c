// kernels/cpu/attention_merge.c - merges partial results of attention over keys, or sums partial
// gradients
//
// Shapes   views of kernels.h's kind: rows of head_dim contiguous elements
// Types    f32, f64 in that type; bf16 through f32, rounded once
// Order    parts in the order of the list: bits do not depend on the number of threads
// NaN      spreads to its row
#include <math.h>

#include "kernels/attention.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/math.h"

// Elements of a row that are summed at a time.
enum { MERGE_COLS = 64 };

static bool part_holds(const bt_attention_part *part, int64_t query)
{
    return query >= part->first && query < part->first + part->tokens;
}

// Offset of the row of a query and head, in elements.
static int64_t row_at(const bt_attention_view *view, int64_t batch, int64_t token, int64_t head)
{
    return batch * view->batch_stride + token * view->token_stride + head * view->head_stride;
}

#define REAL      float
#define ELEMENT   float
#define FN(name)  name##_f32
#define LOAD(x)   (x)
#define STORE(x)  (x)
#define EXPONENT  expf
#define LOGARITHM logf
#include "kernels/cpu/attention_merge.inl"
#undef ELEMENT
#undef FN
#undef LOAD
#undef STORE

#define ELEMENT  uint16_t
#define FN(name) name##_bf16
#define LOAD(x)  bt_bf16_to_f32(x)
#define STORE(x) bt_f32_to_bf16(x)
#include "kernels/cpu/attention_merge.inl"
#undef REAL
#undef ELEMENT
#undef FN
#undef LOAD
#undef STORE
#undef EXPONENT
#undef LOGARITHM

#define REAL      double
#define ELEMENT   double
#define FN(name)  name##_f64
#define LOAD(x)   (x)
#define STORE(x)  (x)
#define EXPONENT  exp
#define LOGARITHM log
#include "kernels/cpu/attention_merge.inl"
