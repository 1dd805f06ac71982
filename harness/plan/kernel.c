// harness/plan/kernel.c - kernel cases: expands lists, computes costs
#include "harness/plan/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/idioms.h"

#define CEILING_SHAPE "67108864"           // elements of f32: 256 MiB
#define CEILING_BYTES (2.0 * 4 * 67108864) // bytes that one copy of them moves

typedef struct op_row {
    const char *name, *axes;
    int min_rank, max_rank;
} op_row;

static const op_row rows[BT_KERNEL_CASE_OP_COUNT] = {
#define BT_KERNEL_CASE_OP(name, min_rank, max_rank, axes, forward_bytes, backward_bytes,           \
                          forward_flops, backward_flops)                                           \
    {#name, axes, min_rank, max_rank},
#include "harness/suite/kernel_ops.inl"
#undef BT_KERNEL_CASE_OP
};

const char *bt_kernel_case_op_name(bt_kernel_case_op op) { return rows[op].name; }

bool bt_kernel_case_op_parse(const char *name, bt_kernel_case_op *op)
{
    const int64_t at = BT_FIND(rows, BT_KERNEL_CASE_OP_COUNT, name, name);
    if (at >= 0) {
        *op = (bt_kernel_case_op)at;
    }
    return at >= 0;
}

// ---- shapes and costs --------------------------------------------------------------------------

static void add_tensor(bt_kernel_shape *shape, int64_t count)
{
    shape->tensors[shape->tensor_count++] = count;
    shape->count += count;
}

// Weights and biases of one block of width 768: norms, qkv, projection, the two of the MLP.
static void add_block(bt_kernel_shape *shape)
{
    static const int64_t counts[] = {768, 768, 768 * 2304, 2304, 768 * 768,  768,
                                     768, 768, 768 * 3072, 3072, 3072 * 768, 768};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
        add_tensor(shape, counts[i]);
    }
}

static bool parse_named(const char *text, bt_kernel_shape *out)
{
    if (strcmp(text, "block") == 0) {
        add_block(out);
    } else if (strcmp(text, "gpt2_124m") == 0) {
        add_tensor(out, 50304 * 768);
        add_tensor(out, 1024 * 768);
        for (int i = 0; i < 12; ++i) {
            add_block(out);
        }
        add_tensor(out, 768);
        add_tensor(out, 768);
    } else {
        return false;
    }
    out->rank = 1;
    out->axes[0] = out->count;
    return true;
}

bool bt_kernel_shape_parse(const char *text, bt_kernel_shape *out)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < BT_KERNEL_AXES_MAX; ++i) {
        out->axes[i] = 1;
    }
    if (parse_named(text, out)) {
        return true;
    }
    int64_t count = 1;
    while (out->rank < BT_KERNEL_AXES_MAX) {
        char *end = NULL;
        long long axis = text[0] >= '1' && text[0] <= '9' ? strtoll(text, &end, 10) : 0;
        if (axis < 1 || axis > (1LL << 50) || count > (1LL << 50) / axis) {
            return false;
        }
        out->axes[out->rank++] = axis;
        count *= axis;
        if (*end == '\0') {
            add_tensor(out, count);
            return true;
        }
        if (*end != 'x') {
            return false;
        }
        text = end + 1;
    }
    return false;
}

double bt_kernel_bytes(bt_kernel_case_op op, bool backward, const bt_kernel_shape *shape,
                       int element_bytes)
{
    double n = (double)shape->count, e = element_bytes, d[BT_KERNEL_AXES_MAX];
    for (int i = 0; i < BT_KERNEL_AXES_MAX; ++i) {
        d[i] = (double)shape->axes[i];
    }
    const double bytes[BT_KERNEL_CASE_OP_COUNT][2] = {
#define BT_KERNEL_CASE_OP(name, min_rank, max_rank, axes, forward_bytes, backward_bytes,           \
                          forward_flops, backward_flops)                                           \
    {forward_bytes, backward_bytes},
#include "harness/suite/kernel_ops.inl"
#undef BT_KERNEL_CASE_OP
    };
    return bytes[op][backward];
}

double bt_kernel_flops(bt_kernel_case_op op, bool backward, const bt_kernel_shape *shape)
{
    double n = (double)shape->count, d[BT_KERNEL_AXES_MAX];
    for (int i = 0; i < BT_KERNEL_AXES_MAX; ++i) {
        d[i] = (double)shape->axes[i];
    }
    const double flops[BT_KERNEL_CASE_OP_COUNT][2] = {
#define BT_KERNEL_CASE_OP(name, min_rank, max_rank, axes, forward_bytes, backward_bytes,           \
                          forward_flops, backward_flops)                                           \
    {forward_flops, backward_flops},
#include "harness/suite/kernel_ops.inl"
#undef BT_KERNEL_CASE_OP
    };
    return flops[op][backward];
}

// ---- one combination ---------------------------------------------------------------------------

const char *bt_plan_text_at(const cJSON *values, int index)
{
    if (cJSON_IsArray(values)) {
        const cJSON *item = cJSON_GetArrayItem(values, index);
        return item ? item->valuestring : NULL;
    }
    return index == 0 && values ? values->valuestring : NULL;
}

bt_status bt_plan_combine(const bt_plan_expansion *self, const cJSON *object,
                          const char *const keys[BT_PLAN_LISTS],
                          bt_status (*add)(const bt_plan_expansion *self,
                                           const char *const values[BT_PLAN_LISTS]))
{
    int at[BT_PLAN_LISTS] = {0};
    for (int axis = 0; axis >= 0;) {
        const char *values[BT_PLAN_LISTS];
        for (int i = 0; i < BT_PLAN_LISTS; ++i) {
            values[i] = bt_plan_text_at(bt_json_get(object, keys[i]), at[i]);
        }
        BT_TRY(add(self, values));
        axis = BT_PLAN_LISTS - 1;
        while (axis >= 0 && !bt_plan_text_at(bt_json_get(object, keys[axis]), ++at[axis])) {
            at[axis--] = 0;
        }
    }
    return BT_OK;
}

bt_status bt_plan_case_add(const bt_plan_expansion *self, const char *name, const char *kind,
                           const bt_plan_member *members, int count)
{
    const cJSON *systems = bt_json_get(self->item, "systems");
    if (self->selects && !self->selects(name, self->by)) {
        return BT_OK;
    }
    cJSON *item = cJSON_CreateObject();
    cJSON *kernel = item ? cJSON_AddObjectToObject(item, "kernel") : NULL;
    bool made = kernel && cJSON_AddStringToObject(item, "name", name) &&
                cJSON_AddStringToObject(item, "kind", kind);
    for (int i = 0; made && i < count; ++i) {
        const bt_plan_member *member = &members[i];
        made =
            (member->text ? cJSON_AddStringToObject(kernel, member->key, member->text)
                          : cJSON_AddNumberToObject(kernel, member->key, member->number)) != NULL;
    }
    made =
        made && (!systems || cJSON_AddItemToObject(item, "systems", cJSON_Duplicate(systems, 1)));
    if (!made) {
        cJSON_Delete(item);
    }
    return bt_json_put(self->cases, NULL, made ? item : NULL, "the plan");
}

static bool does_multiply(const char *op)
{
    return strncmp(op, "gemm", 4) == 0 || strncmp(op, "attention", 9) == 0;
}

static bt_status check_combination(const bt_plan_expansion *self, bt_kernel_case_op op,
                                   const char *shape, bt_kernel_shape *parsed, bool backward,
                                   const char *dtype)
{
    const char *name = bt_json_get(self->item, "name")->valuestring;
    const op_row *row = &rows[op];
    bool tensors = op == BT_KERNEL_CASE_adamw || op == BT_KERNEL_CASE_grad_norm;
    BT_JSON_FAIL_IF(!bt_kernel_shape_parse(shape, parsed) || parsed->rank < row->min_rank ||
                        parsed->rank > row->max_rank || (parsed->tensor_count > 1 && !tensors),
                    self->json, self->node, BT_JSON_VALUE,
                    "case %s: kernel.shape is \"%s\"; allowed for %s: %s, as in 16384x768", name,
                    shape, row->name, row->axes);
    BT_JSON_FAIL_IF(!(bt_kernel_bytes(op, backward, parsed, 4) > 0), self->json, self->node,
                    BT_JSON_VALUE, "case %s: kernel.direction is \"backward\"; %s has no backward",
                    name, row->name);
    BT_JSON_FAIL_IF(strcmp(dtype, "tf32") == 0 && !does_multiply(row->name), self->json, self->node,
                    BT_JSON_VALUE,
                    "case %s: kernel.dtype is \"tf32\"; only attention and gemm have it", name);
    return BT_OK;
}

// The case of one call; its seed and times are those of `from`.
static bt_status add_call(const bt_plan_expansion *self, const char *name, bt_kernel_case_op op,
                          const char *const values[BT_PLAN_LISTS], const bt_kernel_shape *shape,
                          const char *compile, const cJSON *from)
{
    const char *dtype = values[1];
    const bool backward = strcmp(values[0], "backward") == 0;
    const int element_bytes = strcmp(dtype, "f64") == 0 ? 8 : strcmp(dtype, "bf16") == 0 ? 2 : 4;
    const bt_plan_member members[] = {
        {.key = "op", .text = rows[op].name},
        {.key = "direction", .text = values[0]},
        {.key = "dtype", .text = dtype},
        {.key = "cache", .text = values[2]},
        {.key = "shape", .text = values[3]},
        {.key = "compile", .text = compile},
        {.key = "seed", .number = bt_json_number_of(from, "seed")},
        {.key = "max_time_s", .number = bt_json_number_of(from, "max_time_s")},
        {.key = "timeout_s", .number = bt_json_number_of(from, "timeout_s")},
        {.key = "bytes", .number = bt_kernel_bytes(op, backward, shape, element_bytes)},
        {.key = "flops", .number = bt_kernel_flops(op, backward, shape)}};
    return bt_plan_case_add(self, name, "kernel", members, (int)BT_COUNT(members));
}

static bt_status add_case(const bt_plan_expansion *self, const char *const values[BT_PLAN_LISTS])
{
    const char *direction = values[0], *dtype = values[1], *cache = values[2], *shape = values[3];
    const cJSON *from = bt_json_get(self->item, "kernel");
    const bool names_cache = bt_plan_text_at(bt_json_get(from, "cache"), 1) != NULL;
    bt_kernel_case_op op = (bt_kernel_case_op)0;
    bt_kernel_shape parsed;
    (void)bt_kernel_case_op_parse(bt_json_get(from, "op")->valuestring, &op); // checked before
    BT_TRY(check_combination(self, op, shape, &parsed, strcmp(direction, "backward") == 0, dtype));
    char name[160];
    (void)snprintf(name, sizeof name, "%s.%s.%s.%s%s%s",
                   bt_json_get(self->item, "name")->valuestring, direction, dtype, shape,
                   names_cache ? "." : "", names_cache ? cache : "");
    return add_call(self, name, op, values, &parsed, bt_json_text_of(from, "compile"), from);
}

bt_status bt_plan_kernel_expand(const bt_plan_expansion *self)
{
    static const char *const keys[BT_PLAN_LISTS] = {"direction", "dtype", "cache", "shape"};
    const cJSON *kernel = bt_json_get(self->item, "kernel");
    const cJSON *op_node = bt_json_get(kernel, "op");
    bt_kernel_case_op op;
    BT_JSON_FAIL_IF(!cJSON_IsString(op_node) ||
                        !bt_kernel_case_op_parse(op_node->valuestring, &op) ||
                        !bt_plan_text_at(bt_json_get(kernel, "shape"), 0),
                    self->json, self->node, BT_JSON_VALUE,
                    "case %s: a kernel case needs kernel.op and kernel.shape",
                    bt_json_get(self->item, "name")->valuestring);
    return bt_plan_combine(self, kernel, keys, add_case);
}

// ---- ceilings ----------------------------------------------------------------------------------

// The first product of a type. NULL: none.
static const cJSON *first_product(const cJSON *cases, const char *dtype)
{
    const cJSON *found = NULL;
    for (const cJSON *item = cases->child; item && !found; item = item->next) {
        const cJSON *kernel = bt_json_get(item, "kernel");
        const bool multiplies = kernel && does_multiply(bt_json_text_of(kernel, "op"));
        found = multiplies && bt_json_is_text(kernel, "dtype", dtype) ? item : NULL;
    }
    return found;
}

// The first case of a cache mode that refers to its copy: for the fraction of its bandwidth, or for
// the slope of the roofline, where only cases with FLOP have a point. NULL: none.
static const cJSON *first_compared(const cJSON *cases, const char *cache)
{
    const cJSON *found = NULL;
    for (const cJSON *item = cases->child; item && !found; item = item->next) {
        const cJSON *kernel = bt_json_get(item, "kernel");
        const bool compared =
            kernel && (bt_plan_kernel_has_share(kernel) || bt_json_number_of(kernel, "flops") > 0);
        found = compared && bt_json_is_text(kernel, "cache", cache) ? item : NULL;
    }
    return found;
}

typedef struct ceiling {
    const char *name, *op, *dtype, *cache, *shape;
    const cJSON *like; // a case whose seed and times it copies; NULL: not needed
} ceiling;

// Inserts a ceiling as the first case.
static bt_status add_ceiling(const ceiling *what, cJSON *cases)
{
    const char *const values[] = {"forward", what->dtype, what->cache, what->shape};
    const bt_plan_expansion all = {.cases = cases};
    bt_kernel_case_op op = (bt_kernel_case_op)0;
    bt_kernel_shape shape;
    (void)bt_kernel_case_op_parse(what->op, &op);
    (void)bt_kernel_shape_parse(what->shape, &shape);
    BT_TRY(add_call(&all, what->name, op, values, &shape, "", bt_json_get(what->like, "kernel")));
    cJSON *added = cJSON_DetachItemFromArray(cases, cJSON_GetArraySize(cases) - 1);
    BT_FAIL_IF(!cJSON_InsertItemInArray(cases, 0, added), BT_STATUS_INTERNAL,
               "the ceiling %s cannot be inserted into the plan", what->name);
    return BT_OK;
}

bt_status bt_plan_kernel_ceilings(const char *device, cJSON *cases)
{
    const bool gpu = strcmp(device, "cpu") != 0;
    // A large product: several ms on a GPU, a few hundredths of a second on a CPU.
    const char *product = gpu ? "8192x8192x4096" : "1024x1024x1024";
    ceiling wanted[] = {{"ceiling.gemm.f64", "gemm_nt", "f64", "hot", product, NULL},
                        {"ceiling.gemm.f32", "gemm_nt", "f32", "hot", product, NULL},
                        {"ceiling.gemm.tf32", "gemm_nt", "tf32", "hot", product, NULL},
                        {"ceiling.gemm.bf16", "gemm_nt", "bf16", "hot", product, NULL},
                        {"ceiling.hot", "copy", "f32", "hot", CEILING_SHAPE, NULL},
                        {"ceiling.rotating", "copy", "f32", "rotating", CEILING_SHAPE, NULL},
                        {"ceiling.cold", "copy", "f32", "cold", CEILING_SHAPE, NULL}};
    const int count = (int)(sizeof wanted / sizeof wanted[0]);
    for (int i = 0; i < count; ++i) { // before any is among the cases
        const bool multiplies = strcmp(wanted[i].op, "copy") != 0;
        wanted[i].like = multiplies ? first_product(cases, wanted[i].dtype)
                                    : first_compared(cases, wanted[i].cache);
    }
    for (int i = 0; i < count; ++i) {
        if (wanted[i].like) {
            BT_TRY(add_ceiling(&wanted[i], cases));
        }
    }
    return BT_OK;
}

bool bt_plan_kernel_has_share(const cJSON *kernel)
{
    return !bt_json_is_text(kernel, "cache", "hot") ||
           bt_json_number_of(kernel, "bytes") >= CEILING_BYTES / 2;
}

bool bt_plan_kernel_is_copy(const cJSON *item)
{
    return bt_plan_kernel_is_ceiling(item) &&
           strcmp(bt_json_get(bt_json_get(item, "kernel"), "op")->valuestring, "copy") == 0;
}

bool bt_plan_kernel_is_ceiling(const cJSON *item)
{
    return strncmp(bt_json_get(item, "name")->valuestring, "ceiling.", 8) == 0 &&
           bt_json_get(item, "kernel");
}
