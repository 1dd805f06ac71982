// kernels/cpu/both.h - compiles a kernel's body, BT_BODY, once for f32 and once for f64
//
// The body uses
//   REAL      float or double
//   REAL_TYPE BT_F32 or BT_F64
//   FN(name)  name_f32 or name_f64: every function of the body is declared with it
//   R(value)  a constant of that type
// No include guard: a file includes it once per body.
#define R(value) ((REAL)(value))

#define REAL      float
#define REAL_TYPE BT_F32
#define FN(name)  name##_f32
#include BT_BODY
#undef REAL
#undef REAL_TYPE
#undef FN

#define REAL      double
#define REAL_TYPE BT_F64
#define FN(name)  name##_f64
#include BT_BODY
#undef REAL
#undef REAL_TYPE
#undef FN

#undef R
#undef BT_BODY
