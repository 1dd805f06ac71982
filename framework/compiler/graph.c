// framework/compiler/graph.c - building and checking graphs of kernel calls
#include "framework/compiler/graph.h"

#include <stdio.h>
#include <string.h>

void bt_dag_release(bt_dag *graph)
{
    for (int i = 0; i < graph->node_count; ++i) {
        bt_mem_free(graph->nodes[i].args);
    }
    bt_mem_free(graph->nodes);
    bt_mem_free(graph->values);
    *graph = (bt_dag){0};
}

bt_status bt_dag_copy(const bt_dag *graph, bt_dag *to)
{
    bt_status status = BT_OK;
    int number = 0;
    *to = (bt_dag){0};
    for (int i = 0; i < graph->value_count && status == BT_OK; ++i) {
        status = bt_dag_value_append(to, &graph->values[i], &number);
    }
    for (int i = 0; i < graph->node_count && status == BT_OK; ++i) {
        status = bt_dag_node_append(to, &graph->nodes[i]);
    }
    if (status) {
        bt_dag_release(to);
    }
    return status;
}

// Grows items by one element of item_bytes.
static bt_status grow(void **items, int count, int *capacity, size_t item_bytes)
{
    if (count < *capacity) {
        return BT_OK;
    }
    const int larger = *capacity ? 2 * *capacity : 32;
    BT_TRY(bt_mem_resize(items, (size_t)larger, item_bytes));
    *capacity = larger;
    return BT_OK;
}

bt_status bt_dag_value_append(bt_dag *graph, const bt_dag_value *value, int *number)
{
    void *items = graph->values;
    BT_TRY(grow(&items, graph->value_count, &graph->value_capacity, sizeof *value));
    graph->values = items;
    *number = graph->value_count;
    graph->values[graph->value_count++] = *value;
    return BT_OK;
}

bt_status bt_dag_node_append(bt_dag *graph, const bt_dag_node *node)
{
    const size_t bytes = bt_kernel_operands_struct_bytes(node->op);
    void *items = graph->nodes, *args = NULL;
    BT_TRY(grow(&items, graph->node_count, &graph->node_capacity, sizeof *node));
    graph->nodes = items;
    BT_TRY(bt_mem_alloc(1, bytes, &args));
    memcpy(args, node->args, bytes);
    graph->nodes[graph->node_count] = *node;
    graph->nodes[graph->node_count].args = args;
    for (int i = 0; i < node->operand_count; ++i) {
        void **slot = bt_kernel_operand_slot(node->op, args, node->operands[i].field);
        if (slot) {
            *slot = NULL;
        }
        if (node->operands[i].result >= 0) {
            graph->values[node->operands[i].result].producer = graph->node_count;
        }
    }
    graph->node_count += 1;
    return BT_OK;
}

int64_t bt_dag_value_count(const bt_dag_value *value)
{
    return value->size_bytes / (int64_t)bt_dtype_size(value->dtype);
}

bt_status bt_dag_input(bt_dag *graph, bt_dtype dtype, int64_t count, const char *name, int *value)
{
    bt_dag_value made = {.dtype = dtype,
                         .size_bytes = count * (int64_t)bt_dtype_size(dtype),
                         .producer = -1,
                         .base = -1};
    (void)snprintf(made.name, sizeof made.name, "%s", name);
    return bt_dag_value_append(graph, &made, value);
}

bt_status bt_dag_output(bt_dag *graph, int value)
{
    if (value < 0 || value >= graph->value_count) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "output %d of a graph of %d values", value,
                        graph->value_count);
    }
    graph->values[value].is_output = true;
    return BT_OK;
}

// ---- calls --------------------------------------------------------------------------------------

static const bt_dag_binding *binding_of(const bt_dag_binding *bindings, int count, const char *name,
                                        int *place)
{
    for (*place = 0; *place < count; ++*place) {
        if (strcmp(bindings[*place].field, name) == 0) {
            return &bindings[*place];
        }
    }
    return NULL;
}

static bt_status check_names(bt_kernel_op op, const bt_kernel_operand *fields, int field_count,
                             const bt_dag_binding *bindings, int count)
{
    for (int i = 0; i < count; ++i) {
        bool known = false;
        for (int k = 0; k < field_count; ++k) {
            known = known || strcmp(fields[k].name, bindings[i].field) == 0;
        }
        if (!known) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s has no operand \"%s\"",
                            bt_kernel_op_name(op), bindings[i].field);
        }
    }
    return BT_OK;
}

// The value that the field writes: a new one, or the next version of its base.
static bt_status make_result(bt_dag *graph, const bt_kernel_operand *field,
                             const bt_dag_binding *binding, bt_dag_operand *operand)
{
    const int64_t size = (int64_t)bt_dtype_size(field->dtype);
    const bool given = binding->value >= 0;
    bt_dag_value made = {.dtype = field->dtype,
                         .size_bytes = field->span * size,
                         .producer = -1,
                         .base = binding->value};
    if (given) {
        made = graph->values[binding->value];
        made.base = binding->value;
        made.is_output = false;
    } else if (field->reads || field->span != field->count) {
        return bt_error(
            BT_STATUS_INVALID_ARGUMENT,
            "operand \"%s\" adds to its memory or writes only a part of it: expected a value",
            field->name);
    }
    const bool covers = !field->reads && field->count * size == made.size_bytes;
    operand->value = given && !covers ? binding->value : -1;
    return bt_dag_value_append(graph, &made, &operand->result);
}

static bt_status bind(bt_dag *graph, bt_kernel_op op, const bt_kernel_operand *field, int number,
                      const bt_dag_binding *binding, bt_dag_node *node)
{
    bt_dag_operand *operand = &node->operands[node->operand_count];
    *operand = (bt_dag_operand){number, binding->value, -1, binding->offset_bytes};
    if (binding->value >= graph->value_count || (binding->value < 0 && !field->writes)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: operand \"%s\" is value %d of %d",
                        bt_kernel_op_name(op), field->name, binding->value, graph->value_count);
    }
    if (binding->value >= 0) {
        const bt_dag_value *value = &graph->values[binding->value];
        const int64_t end =
            binding->offset_bytes + field->span * (int64_t)bt_dtype_size(field->dtype);
        if (value->dtype != field->dtype || binding->offset_bytes < 0 || end > value->size_bytes) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "%s: operand \"%s\" is %lld bytes of %s, value %d has %lld of %s",
                            bt_kernel_op_name(op), field->name, (long long)end,
                            bt_dtype_name(field->dtype), binding->value,
                            (long long)value->size_bytes, bt_dtype_name(value->dtype));
        }
    }
    node->operand_count += 1;
    return field->writes ? make_result(graph, field, binding, operand) : BT_OK;
}

bt_status bt_dag_call(bt_dag *graph, bt_kernel_op op, const void *args,
                      const bt_dag_binding *bindings, int count, int *results)
{
    static char somewhere;
    bt_kernel_operand fields[BT_KERNEL_OPERANDS_MOST];
    const size_t bytes = bt_kernel_operands_struct_bytes(op);
    bt_dag_node node = {.op = op};
    int place = 0;
    BT_TRY(bt_mem_alloc(1, bytes, &node.args));
    memcpy(node.args, args, bytes);
    const int field_count = bt_kernel_operands_of(op, node.args, fields);
    bt_status status = check_names(op, fields, field_count, bindings, count);
    for (int i = 0; i < field_count; ++i) { // what is read depends on which operands are present
        const bool bound = binding_of(bindings, count, fields[i].name, &place) != NULL;
        *bt_kernel_operand_slot(op, node.args, i) = bound ? &somewhere : NULL;
    }
    (void)bt_kernel_operands_of(op, node.args, fields);
    for (int i = 0; i < field_count && status == BT_OK; ++i) {
        const bt_dag_binding *binding = binding_of(bindings, count, fields[i].name, &place);
        if (!binding) {
            continue;
        }
        results[place] = -1;
        if (fields[i].reads || fields[i].writes) {
            status = bind(graph, op, &fields[i], i, binding, &node);
            if (status == BT_OK) {
                results[place] = node.operands[node.operand_count - 1].result;
            }
        }
    }
    status = status == BT_OK ? bt_dag_node_append(graph, &node) : status;
    bt_mem_free(node.args);
    return status;
}

bt_status bt_dag_unary(bt_dag *graph, bt_unary function, double alpha, int x, int *y)
{
    const bt_dag_value *value = x >= 0 && x < graph->value_count ? &graph->values[x] : NULL;
    const bt_unary_args args = {.function = function,
                                .alpha = alpha,
                                .count = value ? bt_dag_value_count(value) : 0,
                                .dtype = value ? value->dtype : BT_F32};
    int results[2] = {-1, -1};
    bt_status status = bt_dag_call(
        graph, BT_KERNEL_UNARY, &args,
        (bt_dag_binding[]){{.field = "x", .value = x}, {.field = "y", .value = -1}}, 2, results);
    *y = results[1];
    return status;
}

bt_status bt_dag_binary(bt_dag *graph, bt_binary function, int rank, const int64_t *shape, int a,
                        const int64_t *a_stride, int b, const int64_t *b_stride, int *y)
{
    bt_binary_args args = {.function = function, .rank = rank};
    int results[3] = {-1, -1, -1};
    args.dtype = a >= 0 && a < graph->value_count ? graph->values[a].dtype : BT_F32;
    for (int i = 0; i < rank; ++i) {
        args.shape[i] = shape[i];
        args.a_stride[i] = a_stride[i];
        args.b_stride[i] = b_stride[i];
    }
    bt_status status = bt_dag_call(graph, BT_KERNEL_BINARY, &args,
                                   (bt_dag_binding[]){{.field = "a", .value = a},
                                                      {.field = "b", .value = b},
                                                      {.field = "y", .value = -1}},
                                   3, results);
    *y = results[2];
    return status;
}

bt_status bt_dag_copy_of(bt_dag *graph, int rank, const int64_t *shape, int x,
                         const int64_t *x_stride, bt_dtype dtype, int *y)
{
    bt_copy_args args = {.rank = rank, .y_dtype = dtype};
    int results[2] = {-1, -1};
    int64_t step = 1;
    args.x_dtype = x >= 0 && x < graph->value_count ? graph->values[x].dtype : BT_F32;
    for (int i = rank - 1; i >= 0; --i) {
        args.shape[i] = shape[i];
        args.x_stride[i] = x_stride[i];
        args.y_stride[i] = step;
        step *= shape[i];
    }
    bt_status status = bt_dag_call(
        graph, BT_KERNEL_COPY, &args,
        (bt_dag_binding[]){{.field = "x", .value = x}, {.field = "y", .value = -1}}, 2, results);
    *y = results[1];
    return status;
}

bt_status bt_dag_fill(bt_dag *graph, bt_dtype dtype, int64_t count, double value, int *y)
{
    const bt_fill_args args = {.count = count, .dtype = dtype, .value = value};
    *y = -1;
    return bt_dag_call(graph, BT_KERNEL_FILL, &args, &(bt_dag_binding){.field = "y", .value = -1},
                       1, y);
}

bt_status bt_dag_sum(bt_dag *graph, int x, int64_t outer, int64_t reduce, int64_t inner,
                     double scale, int *y)
{
    const bt_dtype dtype = x >= 0 && x < graph->value_count ? graph->values[x].dtype : BT_F32;
    const bt_reduce_sum_args args = {.outer = outer,
                                     .reduce = reduce,
                                     .inner = inner,
                                     .scale = scale,
                                     .dtype = dtype,
                                     .y_dtype = dtype};
    int results[2] = {-1, -1};
    bt_status status = bt_dag_call(
        graph, BT_KERNEL_REDUCE_SUM, &args,
        (bt_dag_binding[]){{.field = "x", .value = x}, {.field = "y", .value = -1}}, 2, results);
    *y = results[1];
    return status;
}

// ---- queries ------------------------------------------------------------------------------------

void bt_dag_uses(const bt_dag *graph, int *uses)
{
    for (int i = 0; i < graph->value_count; ++i) {
        uses[i] = graph->values[i].is_output;
    }
    for (int i = 0; i < graph->node_count; ++i) {
        const bt_dag_node *node = &graph->nodes[i];
        for (int k = 0; k < node->operand_count; ++k) {
            if (node->operands[k].value >= 0) {
                uses[node->operands[k].value] += 1;
            }
        }
    }
}

bool bt_dag_is_saved(const bt_dag *graph, int value)
{
    const int producer = graph->values[value].producer;
    if (producer >= 0 && graph->nodes[producer].phase != BT_DAG_FORWARD) {
        return false;
    }
    for (int i = 0; i < graph->node_count; ++i) {
        const bt_dag_node *node = &graph->nodes[i];
        for (int k = 0; k < node->operand_count && node->phase != BT_DAG_FORWARD; ++k) {
            if (node->operands[k].value == value) {
                return true;
            }
        }
    }
    return false;
}

static bt_status wrong(const bt_dag *graph, int at, const char *what, int value)
{
    return bt_error(BT_STATUS_INVALID_ARGUMENT, "node %d, %s: value %d %s", at,
                    bt_kernel_op_name(graph->nodes[at].op), value, what);
}

static bt_status check_operand(const bt_dag *graph, int at, const bt_dag_operand *operand,
                               const bt_kernel_operand *field)
{
    const int64_t end = operand->offset_bytes + field->span * (int64_t)bt_dtype_size(field->dtype);
    const int values[2] = {operand->value, operand->result};
    for (int i = 0; i < 2; ++i) {
        if (values[i] >= graph->value_count) {
            return wrong(graph, at, "does not exist", values[i]);
        }
        if (values[i] >= 0 &&
            (operand->offset_bytes < 0 || end > graph->values[values[i]].size_bytes)) {
            return wrong(graph, at, "is smaller than the operand", values[i]);
        }
    }
    if (operand->value >= 0 && graph->values[operand->value].producer >= at) {
        return wrong(graph, at, "is produced later", operand->value);
    }
    if (operand->result >= 0 && graph->values[operand->result].producer != at) {
        return wrong(graph, at, "has another producer", operand->result);
    }
    if (field->writes != (operand->result >= 0) || (field->reads && operand->value < 0)) {
        return wrong(graph, at, "is not what the operand reads and writes", operand->value);
    }
    return BT_OK;
}

// Checks the numbers that index tables or arrays.
static bt_status check_attributes(const bt_dag_node *node, int at)
{
    const bt_kernel_attribute *attribute = NULL;
    for (int i = 0; (attribute = bt_kernel_attribute_at(node->op, i)); ++i) {
        const size_t length = strlen(attribute->name);
        const bool rank = strcmp(attribute->name, "rank") == 0;
        const bool dtype = length >= 5 && strcmp(attribute->name + length - 5, "dtype") == 0;
        int value = 0;
        if (!rank && !dtype) {
            continue;
        }
        memcpy(&value, (const char *)node->args + attribute->offset, sizeof value);
        if (value < 0 || value > (rank ? BT_MAX_RANK : BT_DTYPE_COUNT - 1)) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "node %d, %s: %s is %d", at,
                            bt_kernel_op_name(node->op), attribute->name, value);
        }
    }
    return BT_OK;
}

// Operands that the passes rely on.
static bt_status check_present(const bt_dag_node *node, int at, const bt_kernel_operand *fields,
                               int count)
{
    static const struct {
        bt_kernel_op op;
        const char *fields[4];
    } needed[] = {{BT_KERNEL_FILL, {"y"}},
                  {BT_KERNEL_COPY, {"x", "y"}},
                  {BT_KERNEL_UNARY, {"x", "y"}},
                  {BT_KERNEL_UNARY_BACKWARD, {"x", "dy", "dx"}},
                  {BT_KERNEL_BINARY, {"a", "b", "y"}},
                  {BT_KERNEL_REDUCE_SUM, {"x", "y"}},
                  {BT_KERNEL_SOFTMAX, {"x", "y"}},
                  {BT_KERNEL_LAYERNORM, {"x", "y"}},
                  {BT_KERNEL_GEMM, {"a", "b", "d"}}};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; ++i) {
        for (int k = 0; k < 4 && needed[i].op == node->op && needed[i].fields[k]; ++k) {
            bool present = false;
            for (int f = 0; f < count; ++f) {
                present = present ||
                          (fields[f].pointer && strcmp(fields[f].name, needed[i].fields[k]) == 0);
            }
            if (!present) {
                return bt_error(BT_STATUS_INVALID_ARGUMENT,
                                "node %d, %s: operand \"%s\" is missing", at,
                                bt_kernel_op_name(node->op), needed[i].fields[k]);
            }
        }
    }
    return BT_OK;
}

static bt_status check_node(const bt_dag *graph, int at)
{
    static char somewhere;
    const bt_dag_node *node = &graph->nodes[at];
    bt_kernel_operand fields[BT_KERNEL_OPERANDS_MOST];
    void *args = NULL;
    const size_t bytes = bt_kernel_operands_struct_bytes(node->op);
    BT_TRY(check_attributes(node, at));
    const int count = bt_kernel_operands_of(node->op, node->args, fields);
    BT_TRY(bt_mem_alloc(1, bytes, &args));
    memcpy(args, node->args, bytes);
    bt_status status = BT_OK;
    for (int i = 0; i < count && status == BT_OK; ++i) {
        if (fields[i].pointer) {
            status = bt_error(BT_STATUS_INVALID_ARGUMENT, "node %d keeps the pointer \"%s\"", at,
                              fields[i].name);
        }
    }
    for (int i = 0; i < node->operand_count && status == BT_OK; ++i) {
        void **slot = bt_kernel_operand_slot(node->op, args, node->operands[i].field);
        if (slot) {
            *slot = &somewhere;
        } else {
            status = wrong(graph, at, "is of no operand", node->operands[i].value);
        }
    }
    (void)bt_kernel_operands_of(node->op, args, fields);
    BT_IF_OK(status, check_present(node, at, fields, count));
    for (int i = 0; i < node->operand_count && status == BT_OK; ++i) {
        status = check_operand(graph, at, &node->operands[i], &fields[node->operands[i].field]);
    }
    bt_mem_free(args);
    return status;
}

bt_status bt_dag_check(const bt_dag *graph)
{
    for (int i = 0; i < graph->node_count; ++i) {
        BT_TRY(check_node(graph, i));
    }
    for (int i = 0; i < graph->value_count; ++i) {
        const bt_dag_value *value = &graph->values[i];
        if (value->producer >= graph->node_count || value->base >= i) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "value %d has producer %d and base %d", i,
                            value->producer, value->base);
        }
    }
    return BT_OK;
}
