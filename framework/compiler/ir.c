// framework/compiler/ir.c - writes MLIR text, one operation per call
#include "framework/compiler/ir.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[BT_IR_KIND_COUNT] = {"f32", "f64", "i1", "bf16",
                                                         "i16", "i32", "i64"};

const char *bt_ir_kind_name(bt_ir_kind kind) { return kind_names[kind]; }

bt_ir_kind bt_ir_kind_of(const bt_ir *ir, bt_dtype dtype)
{
    return dtype == BT_F32    ? BT_IR_F32
           : dtype == BT_F64  ? BT_IR_F64
           : dtype == BT_BF16 ? (ir->native_bf16 ? BT_IR_BF16 : BT_IR_I16)
           : dtype == BT_I32  ? BT_IR_I32
                              : BT_IR_I64;
}

bt_ir_name bt_ir_type_name(bt_ir_type type)
{
    bt_ir_name name;
    if (type.lanes) {
        (void)snprintf(name.text, sizeof name.text, "vector<%dx%s>", type.lanes,
                       kind_names[type.kind]);
    } else {
        (void)snprintf(name.text, sizeof name.text, "%s", kind_names[type.kind]);
    }
    return name;
}

static void append(bt_ir *ir, const char *format, va_list arguments) BT_PRINTF(2, 0);

static void append(bt_ir *ir, const char *format, va_list arguments)
{
    char line[1024];
    const int length = vsnprintf(line, sizeof line, format, arguments);
    if (length < 0 || (size_t)length >= sizeof line) {
        ir->out.status = ir->out.status
                             ? ir->out.status
                             : bt_error(BT_STATUS_INTERNAL, "a line of MLIR is too long");
        return;
    }
    bt_str_append(&ir->out, line);
    bt_str_append(&ir->out, "\n");
}

static void indent(bt_ir *ir)
{
    for (int i = 0; i < ir->depth; ++i) {
        bt_str_append(&ir->out, "  ");
    }
}

void bt_ir_line(bt_ir *ir, const char *format, ...)
{
    va_list arguments;
    indent(ir);
    va_start(arguments, format);
    append(ir, format, arguments);
    va_end(arguments);
}

int bt_ir_begin(bt_ir *ir)
{
    indent(ir);
    bt_str_format(&ir->out, "%%v%d = ", ir->next);
    return ir->next++;
}

void bt_ir_rest(bt_ir *ir, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append(ir, format, arguments);
    va_end(arguments);
}

void bt_ir_keep_failure(bt_ir *ir, const bt_str *part)
{
    BT_IF_OK(ir->out.status, bt_str_status(part));
}

// As a bit pattern, so that no digit is lost.
int bt_ir_float(bt_ir *ir, bt_ir_type type, double value)
{
    const float narrow = (float)value;
    uint64_t wide_bits;
    uint32_t bits;
    char text[32];
    memcpy(&wide_bits, &value, sizeof wide_bits);
    memcpy(&bits, &narrow, sizeof bits);
    if (type.kind == BT_IR_F64) {
        (void)snprintf(text, sizeof text, "0x%016llX", (unsigned long long)wide_bits);
    } else {
        (void)snprintf(text, sizeof text, "0x%08X", bits);
    }
    const int v = bt_ir_begin(ir);
    bt_ir_rest(ir, type.lanes ? "arith.constant dense<%s> : %s" : "arith.constant %s : %s", text,
               bt_ir_type_name(type).text);
    return v;
}

int bt_ir_int(bt_ir *ir, bt_ir_type type, int64_t value)
{
    const int v = bt_ir_begin(ir);
    bt_ir_rest(ir, type.lanes ? "arith.constant dense<%lld> : %s" : "arith.constant %lld : %s",
               (long long)value, bt_ir_type_name(type).text);
    return v;
}

int bt_ir_zero(bt_ir *ir, bt_ir_type type)
{
    if (type.kind == BT_IR_BF16) {
        const int v = bt_ir_begin(ir);
        bt_ir_rest(ir, type.lanes ? "arith.constant dense<0.0> : %s" : "arith.constant 0.0 : %s",
                   bt_ir_type_name(type).text);
        return v;
    }
    return type.kind == BT_IR_F32 || type.kind == BT_IR_F64 ? bt_ir_float(ir, type, 0)
                                                            : bt_ir_int(ir, type, 0);
}

int bt_ir_lane_numbers(bt_ir *ir, bt_ir_type type)
{
    const int v = bt_ir_begin(ir);
    bt_str_append(&ir->out, "arith.constant dense<[");
    for (int i = 0; i < type.lanes; ++i) {
        bt_str_format(&ir->out, "%s%d", i ? ", " : "", i);
    }
    bt_ir_rest(ir, "]> : %s", bt_ir_type_name(type).text);
    return v;
}

int bt_ir_one(bt_ir *ir, const char *op, bt_ir_type type, int a)
{
    const int v = bt_ir_begin(ir);
    bt_ir_rest(ir, "%s %%v%d : %s", op, a, bt_ir_type_name(type).text);
    return v;
}

int bt_ir_two(bt_ir *ir, const char *op, bt_ir_type type, int a, int b)
{
    const int v = bt_ir_begin(ir);
    bt_ir_rest(ir, "%s %%v%d, %%v%d : %s", op, a, b, bt_ir_type_name(type).text);
    return v;
}

int bt_ir_compare(bt_ir *ir, const char *predicate, bt_ir_type type, int a, int b)
{
    const int v = bt_ir_begin(ir);
    bt_ir_rest(ir, "arith.%s, %%v%d, %%v%d : %s", predicate, a, b, bt_ir_type_name(type).text);
    return v;
}

int bt_ir_select(bt_ir *ir, bt_ir_type type, int condition, int a, int b)
{
    const int v = bt_ir_begin(ir);
    const bt_ir_name name = bt_ir_type_name(type);
    if (type.lanes) {
        bt_ir_rest(ir, "arith.select %%v%d, %%v%d, %%v%d : vector<%dxi1>, %s", condition, a, b,
                   type.lanes, name.text);
    } else {
        bt_ir_rest(ir, "arith.select %%v%d, %%v%d, %%v%d : %s", condition, a, b, name.text);
    }
    return v;
}

int bt_ir_convert(bt_ir *ir, const char *op, bt_ir_type from, bt_ir_type to, int a)
{
    const int v = bt_ir_begin(ir);
    bt_ir_rest(ir, "%s %%v%d : %s to %s", op, a, bt_ir_type_name(from).text,
               bt_ir_type_name(to).text);
    return v;
}

int bt_ir_call(bt_ir *ir, const char *name, bt_ir_type type, int count, int a, int b, int c)
{
    const int v = bt_ir_begin(ir);
    const bt_ir_name t = bt_ir_type_name(type);
    if (count == 1) {
        bt_ir_rest(ir, "llvm.intr.%s(%%v%d) : (%s) -> %s", name, a, t.text, t.text);
    } else if (count == 2) {
        bt_ir_rest(ir, "llvm.intr.%s(%%v%d, %%v%d) : (%s, %s) -> %s", name, a, b, t.text, t.text,
                   t.text);
    } else {
        bt_ir_rest(ir, "llvm.intr.%s(%%v%d, %%v%d, %%v%d) : (%s, %s, %s) -> %s", name, a, b, c,
                   t.text, t.text, t.text, t.text);
    }
    return v;
}

int bt_ir_fma(bt_ir *ir, bt_ir_type type, int a, int b, int c)
{
    return bt_ir_call(ir, "fma", type, 3, a, b, c);
}

int bt_ir_broadcast(bt_ir *ir, bt_ir_type type, int scalar)
{
    if (!type.lanes) {
        return scalar;
    }
    return bt_ir_convert(ir, "vector.broadcast", bt_ir_make(type.kind, 0), type, scalar);
}

int bt_ir_insert(bt_ir *ir, bt_ir_type type, int scalar, int vector, int lane)
{
    const int v = bt_ir_begin(ir);
    bt_ir_rest(ir, "vector.insert %%v%d, %%v%d [%d] : %s into %s", scalar, vector, lane,
               kind_names[type.kind], bt_ir_type_name(type).text);
    return v;
}

int bt_ir_extract(bt_ir *ir, bt_ir_type type, int vector, int lane)
{
    const int v = bt_ir_begin(ir);
    bt_ir_rest(ir, "vector.extract %%v%d[%d] : %s from %s", vector, lane, kind_names[type.kind],
               bt_ir_type_name(type).text);
    return v;
}

int bt_ir_slice(bt_ir *ir, bt_ir_type type, int vector, int first, int count)
{
    const int v = bt_ir_begin(ir);
    const bt_ir_name name = bt_ir_type_name(type);
    bt_str_format(&ir->out, "vector.shuffle %%v%d, %%v%d [", vector, vector);
    for (int i = 0; i < count; ++i) {
        bt_str_format(&ir->out, "%s%d", i ? ", " : "", first + i);
    }
    bt_ir_rest(ir, "] : %s, %s", name.text, name.text);
    return v;
}

// ---- conversions --------------------------------------------------------------------------------

static int widen_bf16(bt_ir *ir, int lanes, int a)
{
    const bt_ir_type i32 = bt_ir_make(BT_IR_I32, lanes);
    const int wide = bt_ir_convert(ir, "arith.extui", bt_ir_make(BT_IR_I16, lanes), i32, a);
    const int bits = bt_ir_two(ir, "arith.shli", i32, wide, bt_ir_int(ir, i32, 16));
    return bt_ir_convert(ir, "arith.bitcast", i32, bt_ir_make(BT_IR_F32, lanes), bits);
}

// As bt_bf16_of on the CPU: to nearest even; a NaN keeps its upper bits and becomes quiet.
static int narrow_bf16(bt_ir *ir, int lanes, int a)
{
    const bt_ir_type f32 = bt_ir_make(BT_IR_F32, lanes), i32 = bt_ir_make(BT_IR_I32, lanes);
    const int bits = bt_ir_convert(ir, "arith.bitcast", f32, i32, a);
    const int sixteen = bt_ir_int(ir, i32, 16);
    const int upper = bt_ir_two(ir, "arith.shrui", i32, bits, sixteen);
    const int odd = bt_ir_two(ir, "arith.andi", i32, upper, bt_ir_int(ir, i32, 1));
    const int half = bt_ir_two(ir, "arith.addi", i32, odd, bt_ir_int(ir, i32, 0x7FFF));
    const int sum = bt_ir_two(ir, "arith.addi", i32, bits, half);
    const int rounded = bt_ir_two(ir, "arith.shrui", i32, sum, sixteen);
    const int quiet = bt_ir_two(ir, "arith.ori", i32, upper, bt_ir_int(ir, i32, 0x40));
    const int nan = bt_ir_compare(ir, "cmpf uno", f32, a, a);
    const int made = bt_ir_select(ir, i32, nan, quiet, rounded);
    return bt_ir_convert(ir, "arith.trunci", i32, bt_ir_make(BT_IR_I16, lanes), made);
}

static bool is_float(bt_dtype dtype)
{
    return dtype == BT_F32 || dtype == BT_F64 || dtype == BT_BF16;
}

int bt_ir_cast(bt_ir *ir, bt_dtype from, bt_dtype to, int lanes, int a)
{
    const bt_ir_type f = bt_ir_make(bt_ir_kind_of(ir, from), lanes);
    const bt_ir_type t = bt_ir_make(bt_ir_kind_of(ir, to), lanes);
    if (from == to) {
        return a;
    }
    if (ir->native_bf16 && (from == BT_BF16 || to == BT_BF16) && (from == BT_F32 || to == BT_F32)) {
        return bt_ir_convert(ir, from == BT_BF16 ? "arith.extf" : "arith.truncf", f, t, a);
    }
    if (from == BT_BF16 && !ir->native_bf16) {
        return bt_ir_cast(ir, BT_F32, to, lanes, widen_bf16(ir, lanes, a));
    }
    if (to == BT_BF16 && from == BT_F32) {
        return narrow_bf16(ir, lanes, a);
    }
    if (is_float(from) && is_float(to) && to != BT_BF16) {
        return bt_ir_convert(ir, to == BT_F64 ? "arith.extf" : "arith.truncf", f, t, a);
    }
    if (!is_float(from) && is_float(to) && to != BT_BF16) {
        return bt_ir_convert(ir, "arith.sitofp", f, t, a);
    }
    if (!is_float(from) && !is_float(to)) {
        return bt_ir_convert(ir, to == BT_I64 ? "arith.extsi" : "arith.trunci", f, t, a);
    }
    if (ir->out.status == BT_OK) {
        ir->out.status = bt_error(BT_STATUS_UNSUPPORTED, "no generated conversion of %s to %s",
                                  bt_dtype_name(from), bt_dtype_name(to));
    }
    return a;
}
