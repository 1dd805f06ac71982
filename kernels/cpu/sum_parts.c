// kernels/cpu/sum_parts.c - y[b,r,:] = sum of row r of the parts that hold it
//
// Shapes   [batch, rows, width], rows of contiguous elements
// Types    f32, f64 in that type; bf16 through f32, rounded once
// Order    parts in the order of the list: bits do not depend on the number of threads
// Cost     bound by memory
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

#define REAL     float
#define ELEMENT  float
#define FN(name) name##_f32
#define LOAD(x)  (x)
#define STORE(x) (x)
#include "kernels/cpu/sum_parts.inl"
#undef ELEMENT
#undef FN
#undef LOAD
#undef STORE

#define ELEMENT  uint16_t
#define FN(name) name##_bf16
#define LOAD(x)  bt_bf16_to_f32(x)
#define STORE(x) bt_f32_to_bf16(x)
#include "kernels/cpu/sum_parts.inl"
#undef REAL
#undef ELEMENT
#undef FN
#undef LOAD
#undef STORE

#define REAL     double
#define ELEMENT  double
#define FN(name) name##_f64
#define LOAD(x)  (x)
#define STORE(x) (x)
#include "kernels/cpu/sum_parts.inl"
