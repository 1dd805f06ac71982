// framework/compiler/dialect.c - a graph as MLIR: the `bt` dialect, for dumps and verification
#include "framework/compiler/dialect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "framework/compiler/lower.h"

typedef struct field {
    bt_kernel_op op;
    const char *name, *reads, *writes, *dtype; // the expressions of operands.inl
} field;

static const field fields[] = {
#define BT_OPERAND(OP, field, reads, writes, dtype, ...)                                           \
    {BT_KERNEL_##OP, #field, #reads, #writes, #dtype},
#include "kernels/operands.inl"
};

enum { FIELD_COUNT = sizeof fields / sizeof *fields };

// Pointers that may be NULL (kernels.h), though operands.inl reads or writes them always.
static const struct {
    bt_kernel_op op;
    const char *name;
} nullable[] = {
    {BT_KERNEL_LAYERNORM, "residual"},
    {BT_KERNEL_LAYERNORM, "sum"},
    {BT_KERNEL_LAYERNORM, "beta"},
    {BT_KERNEL_LAYERNORM_BACKWARD, "dbeta"},
    {BT_KERNEL_EMBEDDING, "position"},
    {BT_KERNEL_EMBEDDING, "good_ids"},
    {BT_KERNEL_EMBEDDING, "bad_row"},
    {BT_KERNEL_EMBEDDING_BACKWARD, "dposition"},
    {BT_KERNEL_ATTENTION, "shape.starts"},
    {BT_KERNEL_ATTENTION_BACKWARD, "shape.starts"},
    {BT_KERNEL_ATTENTION_BACKWARD, "dq.base"},
    {BT_KERNEL_ATTENTION_BACKWARD, "dk.base"},
    {BT_KERNEL_ATTENTION_BACKWARD, "dv.base"},
    {BT_KERNEL_ATTENTION_BACKWARD, "delta"},
    {BT_KERNEL_CROSS_ENTROPY_MEAN, "loss"},
    {BT_KERNEL_CROSS_ENTROPY_MEAN, "mean"},
    {BT_KERNEL_CROSS_ENTROPY_GRAD, "dlogits"},
    {BT_KERNEL_GEMM, "dbias"},
};

static bool may_write(const field *f) { return strcmp(f->writes, "false") != 0; }

// when: f->reads or f->writes.
static bool is_always(const field *f, const char *when)
{
    for (size_t i = 0; i < sizeof nullable / sizeof *nullable; ++i) {
        if (nullable[i].op == f->op && strcmp(nullable[i].name, f->name) == 0) {
            return false;
        }
    }
    return strcmp(when, "true") == 0;
}

// The first row of an op; its rows are consecutive.
static const field *fields_of(bt_kernel_op op, int *count)
{
    int first = 0;
    while (first < FIELD_COUNT && fields[first].op != op) {
        ++first;
    }
    *count = 0;
    while (first + *count < FIELD_COUNT && fields[first + *count].op == op) {
        ++*count;
    }
    return fields + first;
}

// ---- the dialect --------------------------------------------------------------------------------

// A builtin type for each data type. Signless, but for bytes and words, which are never negative.
static const char *type_of(bt_dtype dtype)
{
    return dtype == BT_BOOL  ? "i1"
           : dtype == BT_U8  ? "ui8"
           : dtype == BT_U16 ? "ui16"
                             : bt_dtype_name(dtype);
}

static bool is_dtype(const bt_kernel_attribute *attribute)
{
    return attribute->type == BT_KERNEL_ATTRIBUTE_INT && bt_dag_attribute_has_names(attribute) &&
           strcmp(attribute->name, "function") != 0;
}

static const char *constraint_of(const bt_kernel_attribute *attribute)
{
    switch (attribute->type) {
    case BT_KERNEL_ATTRIBUTE_F64:
        return "float";
    case BT_KERNEL_ATTRIBUTE_AXES:
        return "dense_array";
    case BT_KERNEL_ATTRIBUTE_INT:
        return bt_dag_attribute_has_names(attribute) ? "string" : "integer";
    case BT_KERNEL_ATTRIBUTE_BOOL:
    case BT_KERNEL_ATTRIBUTE_I32:
    case BT_KERNEL_ATTRIBUTE_I64:
    case BT_KERNEL_ATTRIBUTE_U64:
    default:
        return "integer";
    }
}

#define DTYPE_WORD(name, ...)        #name,
#define DTYPE_VALUE(name, text, ...) ", %" text
static const char *const dtype_words[] = {BT_DTYPE_LIST(DTYPE_WORD)};
static const char dtype_values[] = BT_DTYPE_LIST(DTYPE_VALUE); // of print_constraints
#undef DTYPE_WORD
#undef DTYPE_VALUE

static void print_any_dtype(bt_str *out) { bt_str_format(out, "any_of(%s)\n", dtype_values + 2); }

// A name with a dot would belong to a dialect.
static void print_attribute_name(const char *name, bt_str *out)
{
    for (const char *c = name; *c; ++c) {
        bt_str_append_bytes(out, *c == '.' ? "_" : c, 1);
    }
}

// The first field of that data type; -1: none.
static int find_dtype(const field *f, int count, const char *dtype)
{
    int i = 0;
    while (i < count && strcmp(f[i].dtype, dtype) != 0) {
        ++i;
    }
    return i < count ? i : -1;
}

// The field whose elements have the type that a type attribute names; -1: none.
static int dtype_field(const bt_kernel_attribute *attribute, const field *f, int count)
{
    char expression[64];
    (void)snprintf(expression, sizeof expression, "o->%s", attribute->name);
    return is_dtype(attribute) ? find_dtype(f, count, expression) : -1;
}

// "%t2 = " and what the expression of a data type allows: BT_I32, WIDE(o->dtype), o->dtype.
static void print_element(int number, const char *dtype, bt_str *out)
{
    bt_str_format(out, "    %%t%d = irdl.", number);
    for (int i = 0; i < BT_DTYPE_COUNT && strncmp(dtype, "BT_", 3) == 0; ++i) {
        if (strcmp(dtype + 3, dtype_words[i]) == 0) {
            bt_str_format(out, "is %s\n", type_of((bt_dtype)i));
        }
    }
    if (strncmp(dtype, "WIDE", 4) == 0) {
        bt_str_append(out, "any_of(%f32, %f64)\n");
    } else if (strncmp(dtype, "o->", 3) == 0) {
        print_any_dtype(out);
    }
}

// Uses of one constraint must be equal. So fields whose data types are the same expression have the
// same elements; a type attribute that the expression names is that type; and what is written in
// place keeps its type.
static void print_constraints(bt_kernel_op op, int field_count, const field *f, bt_str *out)
{
    const bt_kernel_attribute *attribute = NULL;
    for (int i = 0; i < BT_DTYPE_COUNT; ++i) {
        bt_str_format(out, "    %%%s = irdl.is %s\n", bt_dtype_name((bt_dtype)i),
                      type_of((bt_dtype)i));
    }
    for (int i = 0; i < field_count; ++i) {
        const int element = find_dtype(f, field_count, f[i].dtype);
        if (element == i) {
            print_element(i, f[i].dtype, out);
        }
        bt_str_format(out,
                      "    %%n%d = irdl.any\n"
                      "    %%o%d = irdl.parametric @bt::@value<%%t%d, %%n%d>\n",
                      i, i, element, i);
    }
    for (int i = 0; (attribute = bt_kernel_attribute_at(op, i)); ++i) {
        if (!is_dtype(attribute)) {
            bt_str_format(out, "    %%a%d = irdl.base \"#builtin.%s\"\n", i,
                          constraint_of(attribute));
        } else if (dtype_field(attribute, f, field_count) < 0) {
            bt_str_format(out, "    %%a%d = irdl.", i);
            print_any_dtype(out);
        }
    }
    bt_str_append(out, "    %phase = irdl.base \"#builtin.string\"\n"
                       "    %origin = irdl.base \"#builtin.string\"\n"
                       "    %list = irdl.base \"#builtin.integer\"\n"
                       "    %offset = irdl.base \"#builtin.dense_array\"\n");
}

static void print_operation(bt_kernel_op op, bt_str *out)
{
    const bt_kernel_attribute *attribute = NULL;
    const char *between = "";
    int count = 0, writers = 0;
    const field *f = fields_of(op, &count);
    for (int i = 0; i < count; ++i) {
        writers += may_write(&f[i]);
    }
    bt_str_format(out, "  irdl.operation @%s {\n", bt_kernel_op_name(op));
    print_constraints(op, count, f, out);
    bt_str_append(out, "    irdl.operands(");
    for (int i = 0; i < count; ++i) {
        bt_str_format(out, "%s%s%%o%d", i ? ", " : "",
                      is_always(&f[i], f[i].reads) ? "" : "optional ", i);
    }
    bt_str_append(out, ")\n    irdl.results(");
    for (int i = 0; i < count; ++i) {
        if (may_write(&f[i])) { // of several fields, two may share a storage, and so a result
            const bool always = writers == 1 && is_always(&f[i], f[i].writes);
            bt_str_format(out, "%s%s%%o%d", between, always ? "" : "optional ", i);
            between = ", ";
        }
    }
    bt_str_append(out, ")\n    irdl.attributes {\"phase\" = %phase, \"origin\" = %origin, "
                       "\"list\" = %list, \"offset_bytes\" = %offset");
    for (int i = 0; (attribute = bt_kernel_attribute_at(op, i)); ++i) {
        bt_str_append(out, ", \"");
        print_attribute_name(attribute->name, out);
        const int element = dtype_field(attribute, f, count);
        bt_str_format(out, "\" = %%%s%d", element < 0 ? "a" : "t", element < 0 ? i : element);
    }
    bt_str_append(out, "}\n  }\n");
}

void bt_dialect_print(bt_str *out)
{
    bt_str_append(out, "irdl.dialect @bt {\n"
                       "  irdl.type @value {\n"
                       "    %element = irdl.any\n"
                       "    %count = irdl.base \"#builtin.integer\"\n"
                       "    irdl.parameters(%element, %count)\n"
                       "  }\n");
    for (int op = 0; op < BT_KERNEL_OP_COUNT; ++op) {
        if (!bt_kernel_operands_has_items((bt_kernel_op)op)) {
            print_operation((bt_kernel_op)op, out);
        }
    }
    bt_str_append(out, "}\n");
}

// ---- a graph ------------------------------------------------------------------------------------

static void print_string(const char *text, bt_str *out)
{
    bt_str_append(out, "\"");
    for (const char *c = text; *c; ++c) {
        bt_str_append_bytes(out, *c == '"' || *c == '\\' || *c < ' ' ? "_" : c, 1);
    }
    bt_str_append(out, "\"");
}

static void print_type(const bt_dag_value *value, bt_str *out)
{
    bt_str_format(out, "!bt.value<%s, %" PRId64 " : i64>", type_of(value->dtype),
                  bt_dag_value_count(value));
}

static void print_real(double real, bt_str *out)
{
    uint64_t bits = 0;
    memcpy(&bits, &real, sizeof bits);
    if (real - real == 0) {
        bt_str_format(out, "%.16e : f64", real);
    } else { // infinite, or not a number
        bt_str_format(out, "0x%016" PRIX64 " : f64", bits);
    }
}

static void print_integer(const bt_kernel_attribute *attribute, const void *at, bt_str *out)
{
    const char *name = NULL;
    int number = 0;
    memcpy(&number, at, sizeof number);
    if (attribute->type != BT_KERNEL_ATTRIBUTE_INT || !bt_dag_attribute_has_names(attribute)) {
        bt_str_format(out, "%d : i32", number);
        return;
    }
    name = bt_dag_attribute_word(attribute, number);
    if (is_dtype(attribute)) {
        bt_str_append(out, name ? type_of((bt_dtype)number) : "none");
    } else if (name) {
        print_string(name, out);
    } else {
        bt_str_format(out, "\"%d\"", number);
    }
}

static void print_axes(const int64_t *axes, int count, bt_str *out)
{
    bt_str_append(out, "array<i64");
    for (int i = 0; i < count; ++i) {
        bt_str_format(out, "%s%" PRId64, i ? ", " : ": ", axes[i]);
    }
    bt_str_append(out, ">");
}

static void print_attribute(const bt_kernel_attribute *attribute, const void *at, bt_str *out)
{
    int64_t wide = 0;
    uint64_t bits = 0;
    double real = 0;
    bool flag = false;
    bt_str_append(out, ", ");
    print_attribute_name(attribute->name, out);
    bt_str_append(out, " = ");
    switch (attribute->type) {
    case BT_KERNEL_ATTRIBUTE_BOOL:
        memcpy(&flag, at, sizeof flag);
        bt_str_append(out, flag ? "true" : "false");
        break;
    case BT_KERNEL_ATTRIBUTE_INT:
    case BT_KERNEL_ATTRIBUTE_I32:
        print_integer(attribute, at, out);
        break;
    case BT_KERNEL_ATTRIBUTE_I64:
        memcpy(&wide, at, sizeof wide);
        bt_str_format(out, "%" PRId64 " : i64", wide);
        break;
    case BT_KERNEL_ATTRIBUTE_U64:
        memcpy(&bits, at, sizeof bits);
        bt_str_format(out, "%" PRIu64 " : ui64", bits);
        break;
    case BT_KERNEL_ATTRIBUTE_F64:
        memcpy(&real, at, sizeof real);
        print_real(real, out);
        break;
    case BT_KERNEL_ATTRIBUTE_AXES:
        print_axes(at, BT_MAX_RANK, out);
        break;
    }
}

// A node's values by field. Of two fields that write one storage, the first has the result.
typedef struct places {
    int reads[BT_KERNEL_OPERANDS_MOST], results[BT_KERNEL_OPERANDS_MOST];
    int64_t offsets[BT_KERNEL_OPERANDS_MOST];
} places;

static bool has(const int *values, int count, int value)
{
    for (int i = 0; i < count; ++i) {
        if (values[i] == value) {
            return true;
        }
    }
    return false;
}

static void find_places(const bt_dag_node *node, places *p)
{
    for (int i = 0; i < BT_KERNEL_OPERANDS_MOST; ++i) {
        p->reads[i] = p->results[i] = -1;
        p->offsets[i] = 0;
    }
    for (int i = 0; i < node->operand_count; ++i) {
        const bt_dag_operand *x = &node->operands[i];
        p->reads[x->field] = x->value;
        p->offsets[x->field] = x->offset_bytes;
        if (x->result >= 0 && !has(p->results, BT_KERNEL_OPERANDS_MOST, x->result)) {
            p->results[x->field] = x->result;
        }
    }
}

static void print_values(const int *values, int count, bt_str *out)
{
    const char *between = "";
    for (int i = 0; i < count; ++i) {
        if (values[i] >= 0) {
            bt_str_format(out, "%s%%v%d", between, values[i]);
            between = ", ";
        }
    }
}

static void print_types(const bt_dag *graph, const int *values, int count, bt_str *out)
{
    const char *between = "";
    for (int i = 0; i < count; ++i) {
        if (values[i] >= 0) {
            bt_str_append(out, between);
            print_type(&graph->values[values[i]], out);
            between = ", ";
        }
    }
}

// Fields that no call writes have no segment among the results.
static void print_segments(const field *f, const places *p, int count, bt_str *out)
{
    const char *between = ": ";
    bt_str_append(out, "operand_segment_sizes = array<i32");
    for (int i = 0; i < count; ++i) {
        bt_str_format(out, "%s%d", i ? ", " : ": ", p->reads[i] >= 0);
    }
    bt_str_append(out, ">, result_segment_sizes = array<i32");
    for (int i = 0; i < count; ++i) {
        if (may_write(&f[i])) {
            bt_str_format(out, "%s%d", between, p->results[i] >= 0);
            between = ", ";
        }
    }
    bt_str_append(out, ">");
}

static void print_node(const bt_dag *graph, const bt_dag_node *node, bt_str *out)
{
    const bt_kernel_attribute *attribute = NULL;
    places p;
    bool any = false; // results
    int count = 0;
    const field *f = fields_of(node->op, &count);
    find_places(node, &p);
    bt_str_append(out, "  ");
    print_values(p.results, count, out);
    for (int i = 0; i < count; ++i) {
        any |= p.results[i] >= 0;
    }
    bt_str_format(out, "%s\"bt.%s\"(", any ? " = " : "", bt_kernel_op_name(node->op));
    print_values(p.reads, count, out);
    bt_str_format(out, ") {phase = \"%s\", origin = ", bt_dag_phase_name(node->phase));
    print_string(node->origin, out);
    bt_str_format(out, ", list = %d : i32, offset_bytes = ", node->list);
    print_axes(p.offsets, count, out);
    bt_str_append(out, ", ");
    print_segments(f, &p, count, out);
    for (int i = 0; (attribute = bt_kernel_attribute_at(node->op, i)); ++i) {
        print_attribute(attribute, (const char *)node->args + attribute->offset, out);
    }
    bt_str_append(out, "} : (");
    print_types(graph, p.reads, count, out);
    bt_str_append(out, ") -> (");
    print_types(graph, p.results, count, out);
    bt_str_append(out, ")\n");
}

static void print_outputs(const bt_dag *graph, bool types, bt_str *out)
{
    const char *between = "";
    for (int i = 0; i < graph->value_count; ++i) {
        if (graph->values[i].is_output && graph->values[i].producer != BT_DAG_REMOVED) {
            bt_str_append(out, between);
            if (types) {
                print_type(&graph->values[i], out);
            } else {
                bt_str_format(out, "%%v%d", i);
            }
            between = ", ";
        }
    }
}

void bt_dialect_print_graph(const bt_dag *graph, bt_str *out)
{
    const char *between = "";
    bt_str_append(out, "func.func @step(");
    for (int i = 0; i < graph->value_count; ++i) {
        if (graph->values[i].producer == -1) {
            bt_str_format(out, "%s\n    %%v%d: ", between, i);
            print_type(&graph->values[i], out);
            bt_str_append(out, " {bt.name = ");
            print_string(graph->values[i].name, out);
            bt_str_append(out, "}");
            between = ",";
        }
    }
    bt_str_append(out, ") -> (");
    print_outputs(graph, true, out);
    bt_str_append(out, ") {\n");
    for (int i = 0; i < graph->node_count; ++i) {
        print_node(graph, &graph->nodes[i], out);
    }
    bt_str_append(out, "  \"func.return\"(");
    print_outputs(graph, false, out);
    bt_str_append(out, ") : (");
    print_outputs(graph, true, out);
    bt_str_append(out, ") -> ()\n}\n");
}

bt_status bt_dialect_verify(const char *text)
{
    BT_SCOPED(bt_str) dialect = {0};
    bt_dialect_print(&dialect);
    BT_TRY(bt_str_status(&dialect));
    return bt_compiler_verify(bt_str_text(&dialect), text);
}
