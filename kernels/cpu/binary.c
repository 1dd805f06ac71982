// kernels/cpu/binary.c - y = a op b with broadcasting
// Shapes   any rank and strides for a and b, 0 broadcasts; y contiguous, may be a or b where that
//          operand is contiguous
// Types    f32, f64; one IEEE operation per element: exact to half an ulp
// Cost     bound by memory; unit strides and scalars have vectorised rows, others one by one
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/strided.h"
#include "kernels/cpu/vector.h"

#define BT_BODY "kernels/cpu/binary.inl"
#include "kernels/cpu/both.h"
