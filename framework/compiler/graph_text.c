// framework/compiler/graph_text.c - graphs as text: printed and parsed
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/compiler/graph.h"

enum { WORD_BYTES = 256 };

static const char *const phases[BT_DAG_PHASE_COUNT] = {"forward", "backward", "accumulate"};

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

const char *bt_dag_phase_name(bt_dag_phase phase) { return phases[phase]; }

bool bt_dag_attribute_has_names(const bt_kernel_attribute *attribute)
{
    return ends_with(attribute->name, "dtype") || strcmp(attribute->name, "function") == 0;
}

const char *bt_dag_attribute_word(const bt_kernel_attribute *attribute, int value)
{
    const bool function = strcmp(attribute->name, "function") == 0;
    if (ends_with(attribute->name, "dtype")) {
        return value >= 0 && value < BT_DTYPE_COUNT ? bt_dtype_name((bt_dtype)value) : NULL;
    }
    if (function && attribute->op == BT_KERNEL_BINARY) {
        return value >= 0 && value < BT_BINARY_COUNT ? bt_binary_name((bt_binary)value) : NULL;
    }
    return function && value >= 0 && value < BT_UNARY_COUNT ? bt_unary_name((bt_unary)value) : NULL;
}

// ---- print --------------------------------------------------------------------------------------

static void print_name(const char *name, bt_str *out)
{
    bt_str_append(out, " \"");
    for (const char *c = name; *c; ++c) {
        const char safe = *c == '"' || *c < ' ' ? '_' : *c;
        bt_str_append_bytes(out, &safe, 1);
    }
    bt_str_append(out, "\"");
}

static void print_value(const bt_dag_value *value, int number, bt_str *out)
{
    bt_str_format(out, "value %d %s %" PRId64, number, bt_dtype_name(value->dtype),
                  value->size_bytes);
    if (value->base >= 0) {
        bt_str_format(out, " base=%d", value->base);
    }
    bt_str_append(out, value->producer == BT_DAG_REMOVED ? " removed"
                       : value->producer < 0             ? " input"
                                                         : "");
    bt_str_append(out, value->is_output ? " output" : "");
    print_name(value->name, out);
    bt_str_append(out, "\n");
}

static void print_axes(const int64_t *axes, bt_str *out)
{
    int count = BT_MAX_RANK;
    while (count > 1 && axes[count - 1] == 0) {
        --count;
    }
    for (int i = 0; i < count; ++i) {
        bt_str_format(out, "%s%" PRId64, i ? "," : "", axes[i]);
    }
}

static bool is_zero(const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        if (((const unsigned char *)bytes)[i]) {
            return false;
        }
    }
    return true;
}

static size_t bytes_of(bt_kernel_attribute_type type)
{
    return type == BT_KERNEL_ATTRIBUTE_AXES   ? BT_MAX_RANK * sizeof(int64_t)
           : type == BT_KERNEL_ATTRIBUTE_BOOL ? sizeof(bool)
           : type == BT_KERNEL_ATTRIBUTE_INT || type == BT_KERNEL_ATTRIBUTE_I32 ? sizeof(int)
                                                                                : sizeof(int64_t);
}

static void print_attribute(const bt_kernel_attribute *attribute, const void *at, bt_str *out)
{
    const bool is_type = ends_with(attribute->name, "dtype");
    const char *name = NULL;
    int64_t wide = 0;
    uint64_t bits = 0;
    double real = 0;
    int number = 0;
    if (!is_type && is_zero(at, bytes_of(attribute->type))) {
        return;
    }
    bt_str_format(out, " %s=", attribute->name);
    switch (attribute->type) {
    case BT_KERNEL_ATTRIBUTE_BOOL:
        bt_str_append(out, "1");
        break;
    case BT_KERNEL_ATTRIBUTE_INT:
    case BT_KERNEL_ATTRIBUTE_I32:
        memcpy(&number, at, sizeof number);
        name = bt_dag_attribute_word(attribute, number);
        if (name) {
            bt_str_append(out, name);
        } else {
            bt_str_format(out, "%d", number);
        }
        break;
    case BT_KERNEL_ATTRIBUTE_I64:
        memcpy(&wide, at, sizeof wide);
        bt_str_format(out, "%" PRId64, wide);
        break;
    case BT_KERNEL_ATTRIBUTE_U64:
        memcpy(&bits, at, sizeof bits);
        bt_str_format(out, "%" PRIu64, bits);
        break;
    case BT_KERNEL_ATTRIBUTE_F64:
        memcpy(&real, at, sizeof real);
        bt_str_format(out, "%a", real);
        break;
    case BT_KERNEL_ATTRIBUTE_AXES:
        print_axes(at, out);
        break;
    }
}

static void print_node(const bt_dag_node *node, bt_str *out)
{
    const bt_kernel_attribute *attribute = NULL;
    bt_kernel_operand fields[BT_KERNEL_OPERANDS_MOST];
    (void)bt_kernel_operands_of(node->op, node->args, fields);
    bt_str_format(out, "node %s %s", bt_kernel_op_name(node->op), phases[node->phase]);
    print_name(node->origin, out);
    if (node->list) {
        bt_str_format(out, " list=%d", node->list);
    }
    for (int i = 0; i < node->operand_count; ++i) {
        const bt_dag_operand *x = &node->operands[i];
        bt_str_format(out, " %s=", fields[x->field].name);
        if (x->value >= 0) {
            bt_str_format(out, "%d", x->value);
        }
        if (x->result >= 0) {
            bt_str_format(out, ">%d", x->result);
        }
        if (x->offset_bytes) {
            bt_str_format(out, "+%" PRId64, x->offset_bytes);
        }
    }
    for (int i = 0; (attribute = bt_kernel_attribute_at(node->op, i)); ++i) {
        print_attribute(attribute, (const char *)node->args + attribute->offset, out);
    }
    bt_str_append(out, "\n");
}

void bt_dag_print(const bt_dag *graph, bt_str *out)
{
    for (int i = 0; i < graph->value_count; ++i) {
        print_value(&graph->values[i], i, out);
    }
    for (int i = 0; i < graph->node_count; ++i) {
        print_node(&graph->nodes[i], out);
    }
}

// ---- parse --------------------------------------------------------------------------------------

typedef struct reader {
    const char *at;
    char word[WORD_BYTES];
} reader;

// The next word of the line, without its quotes; false at the end of the line or if too long.
static bool next(reader *r)
{
    size_t length = 0;
    while (*r->at == ' ') {
        ++r->at;
    }
    const char stop = *r->at == '"' ? '"' : ' ';
    const bool quoted = stop == '"';
    r->at += quoted;
    if (!quoted && (*r->at == '\n' || *r->at == '\0')) {
        return false;
    }
    while (*r->at && *r->at != '\n' && *r->at != stop) {
        if (length + 1 == WORD_BYTES) {
            return false;
        }
        r->word[length++] = *r->at++;
    }
    r->word[length] = '\0';
    r->at += quoted && *r->at == '"';
    return true;
}

static bool read_i64(const char **at, int64_t *out)
{
    char *end = NULL;
    *out = strtoll(*at, &end, 10);
    const bool read = end != *at;
    *at = end;
    return read;
}

static bool read_whole(const char *text, int64_t *out)
{
    return read_i64(&text, out) && *text == '\0';
}

static bt_status bad(const char *what, const char *word)
{
    return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s, got \"%s\"", what, word);
}

static bt_status parse_value(reader *r, bt_dag *graph)
{
    bt_dag_value made = {.producer = -1, .base = -1};
    int64_t number = 0;
    int made_number = 0;
    if (!next(r) || !read_whole(r->word, &number) || number != graph->value_count) {
        return bad("expected the next value's number", r->word);
    }
    if (!next(r) || !bt_dtype_parse(r->word, &made.dtype)) {
        return bad("expected a type", r->word);
    }
    if (!next(r) || !read_whole(r->word, &made.size_bytes) || made.size_bytes < 0) {
        return bad("expected a size in bytes", r->word);
    }
    while (next(r)) {
        const bool last = r->at[-1] == '"';
        if (last) {
            (void)snprintf(made.name, sizeof made.name, "%.47s", r->word);
            break;
        } else if (strncmp(r->word, "base=", 5) == 0 && read_whole(r->word + 5, &number) &&
                   number >= 0 && number < graph->value_count) {
            made.base = (int)number;
        } else if (strcmp(r->word, "output") == 0) {
            made.is_output = true;
        } else if (strcmp(r->word, "removed") == 0) {
            made.producer = BT_DAG_REMOVED;
        } else if (strcmp(r->word, "input") != 0) {
            return bad("expected base=VALUE, input, output or a quoted name", r->word);
        }
    }
    return bt_dag_value_append(graph, &made, &made_number);
}

static bool parse_operand(const char *text, int values, bt_dag_operand *out)
{
    int64_t number = -1;
    if (*text != '>' && *text != '+') {
        if (!read_i64(&text, &number) || number < 0 || number >= values) {
            return false;
        }
        out->value = (int)number;
    }
    if (*text == '>') {
        ++text;
        if (!read_i64(&text, &number) || number < 0 || number >= values) {
            return false;
        }
        out->result = (int)number;
    }
    if (*text == '+') {
        ++text;
        return read_i64(&text, &out->offset_bytes) && *text == '\0' && out->offset_bytes >= 0;
    }
    return *text == '\0';
}

static bool parse_axes(const char *text, void *at)
{
    int64_t axes[BT_MAX_RANK] = {0};
    for (int i = 0; i < BT_MAX_RANK; ++i) {
        if (!read_i64(&text, &axes[i])) {
            return false;
        }
        if (*text == '\0') {
            memcpy(at, axes, sizeof axes);
            return true;
        }
        ++text;
    }
    return false;
}

// Whether a number is one of those that the attribute can have: the sizes of arrays and tables.
static bool is_possible(const bt_kernel_attribute *attribute, int64_t number)
{
    static const struct {
        const char *name;
        int count;
    } limits[] = {
        {"rank", BT_MAX_RANK + 1}, {"epilogue", BT_EPILOGUE_COUNT}, {"compute", BT_COMPUTE_COUNT}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; ++i) {
        if (strcmp(attribute->name, limits[i].name) == 0) {
            return number >= 0 && number < limits[i].count;
        }
    }
    return !bt_dag_attribute_word(attribute, 0) && number >= INT32_MIN && number <= INT32_MAX;
}

static bool parse_named(const bt_kernel_attribute *attribute, const char *text, void *at)
{
    int64_t number = 0;
    int value = 0;
    for (const char *name = ""; name; ++value) {
        name = bt_dag_attribute_word(attribute, value);
        if (name && strcmp(name, text) == 0) {
            memcpy(at, &value, sizeof value);
            return true;
        }
    }
    value = 0;
    if (!read_whole(text, &number) || !is_possible(attribute, number)) {
        return false;
    }
    value = (int)number;
    memcpy(at, &value, sizeof value);
    return true;
}

static bool parse_attribute(const bt_kernel_attribute *attribute, const char *text, void *at)
{
    char *end = NULL;
    int64_t wide = 0;
    const bool one = strcmp(text, "1") == 0;
    switch (attribute->type) {
    case BT_KERNEL_ATTRIBUTE_BOOL:
        memcpy(at, &one, sizeof one);
        return one || strcmp(text, "0") == 0;
    case BT_KERNEL_ATTRIBUTE_INT:
    case BT_KERNEL_ATTRIBUTE_I32:
        return parse_named(attribute, text, at);
    case BT_KERNEL_ATTRIBUTE_I64:
        if (!read_whole(text, &wide)) {
            return false;
        }
        memcpy(at, &wide, sizeof wide);
        return true;
    case BT_KERNEL_ATTRIBUTE_U64: {
        const uint64_t bits = strtoull(text, &end, 10);
        memcpy(at, &bits, sizeof bits);
        return end != text && *end == '\0';
    }
    case BT_KERNEL_ATTRIBUTE_F64: {
        const double real = strtod(text, &end);
        memcpy(at, &real, sizeof real);
        return end != text && *end == '\0';
    }
    case BT_KERNEL_ATTRIBUTE_AXES:
        return parse_axes(text, at);
    }
    return false;
}

// FIELD=..., an operand or an attribute.
static bt_status parse_field(const reader *r, const bt_dag *graph, bt_dag_node *node)
{
    char *text = strchr(r->word, '=');
    const bt_kernel_attribute *attribute = NULL;
    bt_kernel_operand fields[BT_KERNEL_OPERANDS_MOST];
    const int count = bt_kernel_operands_of(node->op, node->args, fields);
    const size_t length = text ? (size_t)(text - r->word) : 0;
    int64_t list = 0;
    if (strncmp(r->word, "list=", 5) == 0) {
        if (!read_whole(r->word + 5, &list) || list < 1 || list > INT32_MAX) {
            return bad("expected the number of a list", r->word);
        }
        node->list = (int)list;
        return BT_OK;
    }
    for (int i = 0; i < count && text; ++i) {
        if (strlen(fields[i].name) == length && strncmp(fields[i].name, r->word, length) == 0) {
            bt_dag_operand operand = {i, -1, -1, 0};
            if (!parse_operand(text + 1, graph->value_count, &operand) ||
                node->operand_count == BT_KERNEL_OPERANDS_MOST) {
                return bad("expected FIELD=READ>WRITTEN+OFFSET of values above", r->word);
            }
            node->operands[node->operand_count++] = operand;
            return BT_OK;
        }
    }
    for (int i = 0; text && (attribute = bt_kernel_attribute_at(node->op, i)); ++i) {
        if (strlen(attribute->name) == length && strncmp(attribute->name, r->word, length) == 0) {
            return parse_attribute(attribute, text + 1, (char *)node->args + attribute->offset)
                       ? BT_OK
                       : bad("expected a value of the attribute", r->word);
        }
    }
    return bad("expected an operand or attribute of the op", r->word);
}

static bt_status parse_op(reader *r, bt_dag_node *node)
{
    if (!next(r)) {
        return bad("expected an op", "");
    }
    for (int op = 0; op < BT_KERNEL_OP_COUNT; ++op) {
        if (strcmp(bt_kernel_op_name((bt_kernel_op)op), r->word) == 0 &&
            !bt_kernel_operands_has_items((bt_kernel_op)op)) {
            node->op = (bt_kernel_op)op;
            return bt_mem_alloc(1, bt_kernel_operands_struct_bytes(node->op), &node->args);
        }
    }
    return bad("expected an op of single calls", r->word);
}

static bt_status parse_node(reader *r, bt_dag *graph)
{
    bt_dag_node node = {0};
    bool known = false;
    BT_TRY(parse_op(r, &node));
    bt_status status = next(r) ? BT_OK : bad("expected a phase", "");
    for (int i = 0; i < BT_DAG_PHASE_COUNT && status == BT_OK; ++i) {
        if (strcmp(phases[i], r->word) == 0) {
            node.phase = (bt_dag_phase)i;
            known = true;
        }
    }
    if (status == BT_OK && (!known || !next(r))) {
        status = bad("expected a phase and an origin", r->word);
    }
    if (status == BT_OK) {
        (void)snprintf(node.origin, sizeof node.origin, "%.31s", r->word);
    }
    while (status == BT_OK && next(r)) {
        status = parse_field(r, graph, &node);
    }
    status = status == BT_OK ? bt_dag_node_append(graph, &node) : status;
    bt_mem_free(node.args);
    return status;
}

bt_status bt_dag_parse(const char *text, bt_dag *graph)
{
    reader r = {.at = text};
    bt_status status = BT_OK;
    *graph = (bt_dag){0};
    for (int line = 1; *r.at && status == BT_OK; ++line) {
        if (next(&r)) {
            status = strcmp(r.word, "value") == 0  ? parse_value(&r, graph)
                     : strcmp(r.word, "node") == 0 ? parse_node(&r, graph)
                                                   : bad("expected value or node", r.word);
        }
        status = status == BT_OK && *r.at && *r.at != '\n' ? bad("expected the line's end", r.at)
                                                           : status;
        r.at += status == BT_OK && *r.at == '\n';
        status = bt_error_context(status, "line %d", line);
    }
    status = status == BT_OK ? bt_dag_check(graph) : status;
    if (status) {
        bt_dag_release(graph);
    }
    return status;
}
