// framework/compiler/lab/ptx.c - writes the PTX of some groups, for an emulator or a GPU to run
//
//   write_ptx FOLDER ARCH ROWS [tilings]
//
// NAME.ptx per case, and FOLDER/cases: a line per case with name kind dtype rows cols blocks
// threads, of a second kernel blocks and bytes of memory between the two, of products batch, k,
// trans_a, trans_b, pad, and the name of an earlier case with the same bits, else "-". What a kind
// computes and its operands are tests/unit/compiled_group.h's. ROWS: of the row cases; elementwise
// cases have ROWS * 1024 + 3 elements. With `tilings`, some of the cases only, by every feasible
// tiling (tiling.h), the emitter's first.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/compiler/fuse.h"
#include "framework/compiler/tiling.h"
#include "tests/unit/compiled_group.h"

typedef struct ptx_case {
    const char *kind;
    bt_dtype dtype;
    int64_t cols;
    product_sizes product;
    bool tilings;
} ptx_case;

static const ptx_case cases[] = {
    {"gelu", BT_F32, 0, {0}, true},
    {"gelu", BT_BF16, 0, {0}, false},
    {"silu", BT_F32, 0, {0}, false},
    {"softmax", BT_F32, 100, {0}, true},
    {"softmax", BT_F32, 1024, {0}, false},
    {"softmax", BT_BF16, 1024, {0}, false},
    {"softmax", BT_F32, 4096, {0}, false},
    {"layernorm", BT_F32, 768, {0}, false},
    {"layernorm", BT_BF16, 768, {0}, true},
    {"layernorm", BT_F32, 1024, {0}, false},
    {"rmsnorm", BT_F32, 1024, {0}, false},
    {"rmsnorm", BT_BF16, 1024, {0}, false},
    {"cross_entropy", BT_F32, 1000, {0}, false},
    {"cross_entropy", BT_BF16, 1024, {0}, false},
    {"quotient", BT_F32, 100, {0}, false},
    {"column", BT_F32, 100, {0}, true},
    {"column", BT_BF16, 768, {0}, false},
    {"column_of_rows", BT_F32, 36, {0}, false},
    {"product", BT_BF16, 24, {2, 16, 24, 72, false, true, 0}, false},
    {"product", BT_BF16, 33, {1, 35, 33, 41, true, false, 0}, false},
    {"product", BT_BF16, 34, {1, 20, 34, 66, false, false, 3}, true},
    {"product", BT_F32, 20, {2, 12, 20, 40, true, true, 0}, true},
    {"product", BT_F32, 9, {1, 18, 9, 37, false, false, 0}, false},
};

// Operands x, divisor [rows], y: y = x / divisor, as fuse writes it where a bound is enough.
static bt_status group_quotient(int64_t rows, int64_t cols, bt_fused *group)
{
    const int64_t shape[] = {rows, cols}, dense[] = {cols, 1}, per_row[] = {1, 0};
    const bt_fuse_options options = {.any_order = true};
    const int node = 0;
    const char *why = NULL;
    bt_dag g = {0};
    int x = 0, divisor = 0, y = 0;
    bt_status status = bt_dag_input(&g, BT_F32, rows * cols, "x", &x);
    status = status ? status : bt_dag_input(&g, BT_F32, rows, "divisor", &divisor);
    status = status ? status
                    : bt_dag_binary(&g, BT_BINARY_DIV, 2, shape, x, dense, divisor, per_row, &y);
    status = status ? status : bt_dag_output(&g, y);
    if (status == BT_OK) {
        bt_fused_of_nodes(&g, &options, &node, 1, group, &why);
        status = why ? bt_error(BT_STATUS_INTERNAL, "no group of a quotient: %s", why) : BT_OK;
    }
    bt_dag_release(&g);
    return status;
}

static bt_fused group_of(const ptx_case *c, int64_t rows)
{
    if (strcmp(c->kind, "softmax") == 0) {
        return group_softmax(c->dtype, rows, c->cols, BT_F32);
    }
    if (strcmp(c->kind, "layernorm") == 0) {
        return group_layernorm(c->dtype, rows, c->cols, 1e-5, BT_F32);
    }
    if (strcmp(c->kind, "rmsnorm") == 0) {
        return group_rmsnorm(c->dtype, rows, c->cols, 1e-5, BT_F32);
    }
    if (strcmp(c->kind, "cross_entropy") == 0) {
        return group_cross_entropy(c->dtype, rows, c->cols, BT_F32);
    }
    if (strcmp(c->kind, "column") == 0) { // more than one chunk, and a part of one
        return group_column(c->dtype, BT_CUDA_CHUNK + rows, c->cols, BT_F32);
    }
    if (strcmp(c->kind, "column_of_rows") == 0) {
        return group_column_of_rows(BT_CUDA_CHUNK + rows, c->cols);
    }
    if (strcmp(c->kind, "product") == 0) {
        return group_product(c->dtype, &c->product, false);
    }
    return group_unary(c->dtype, rows * 1024 + 3,
                       strcmp(c->kind, "silu") == 0 ? BT_UNARY_SILU : BT_UNARY_GELU, 0);
}

// One line of the list and one file. tiling NULL: the emitter's rule.
static bt_status write_code(const char *folder, const bt_target *target, const ptx_case *c,
                            const bt_fused *group, const bt_cuda_tiling *tiling, const char *name,
                            const char *same, bt_str *list)
{
    char path[4096];
    bt_emitted_cuda emitted;
    bt_code ptx = {0};
    const int64_t cols = group->shape[group->rank - 1], all = group->rank > 1 ? group->shape[0] : 1;
    (void)snprintf(path, sizeof path, "%s/%s.ptx", folder, name);
    bt_status status = bt_emit_cuda(group, tiling, target->has_early_launch, &emitted);
    status = status ? status : bt_lower(target, bt_str_text(&emitted.text), NULL, &ptx, NULL);
    status = status ? status : bt_file_write(path, ptx.bytes, ptx.size_bytes);
    bt_str_format(list, "%s %s %s %lld %lld %lld %d %lld %lld %lld %lld %d %d %lld %s\n", name,
                  c->kind, bt_dtype_name(c->dtype), (long long)all, (long long)cols,
                  (long long)bt_emit_blocks(group, &emitted, all), emitted.threads,
                  (long long)bt_emit_finish_blocks(group),
                  (long long)bt_emit_parts_bytes(group, all), (long long)c->product.batch,
                  (long long)c->product.k, c->product.trans_a, c->product.trans_b,
                  (long long)c->product.pad, same);
    bt_code_release(&ptx);
    bt_str_release(&emitted.text);
    return bt_error_context(status, "%s", name);
}

static bt_status write_case(const char *folder, const bt_target *target, const ptx_case *c,
                            int64_t rows, bool tilings, bt_str *list)
{
    char name[64], other[96];
    bt_tilings all;
    bt_fused group;
    if (strcmp(c->kind, "quotient") == 0) {
        BT_TRY(group_quotient(rows, c->cols, &group));
    } else {
        group = group_of(c, rows);
    }
    (void)snprintf(name, sizeof name, "%s_%s_%lld", c->kind, bt_dtype_name(c->dtype),
                   (long long)group.shape[group.rank - 1]);
    BT_TRY(write_code(folder, target, c, &group, NULL, name, "-", list));
    if (!tilings) {
        return BT_OK;
    }
    BT_TRY(bt_tilings_find(&group, bt_gpu_limits_of(90), &all));
    for (int i = 0; i < all.count; ++i) {
        const bt_tiling *t = &all.items[i];
        const bt_cuda_tiling tiling = {t->threads, t->rows};
        (void)snprintf(other, sizeof other, "%s_%dx%d", name, t->threads, t->rows);
        if (!t->is_rule) {
            BT_TRY(write_code(folder, target, c, &group, &tiling, other, t->keeps_bits ? name : "-",
                              list));
        }
    }
    return BT_OK;
}

int main(int count, char **arguments)
{
    const bool tilings = count == 5 && strcmp(arguments[4], "tilings") == 0;
    if (count != 4 && !tilings) {
        (void)fprintf(stderr, "usage: write_ptx FOLDER ARCH ROWS [tilings]\n");
        return 2;
    }
    bt_target target;
    bt_str list = {0};
    char path[4096];
    const int64_t rows = strtoll(arguments[3], NULL, 10);
    bt_status status = bt_compiler_available();
    if (status == BT_STATUS_UNAVAILABLE) {
        printf("skipped: %s\n", bt_error_message());
        return 77;
    }
    status = bt_target_cuda((int)strtol(arguments[2], NULL, 10), &target);
    status = status ? status : bt_dir_make(arguments[1]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases && status == BT_OK; ++i) {
        if (!tilings || cases[i].tilings) {
            status = write_case(arguments[1], &target, &cases[i], rows, tilings, &list);
        }
    }
    (void)snprintf(path, sizeof path, "%s/cases", arguments[1]);
    status = status ? status : bt_str_status(&list);
    status = status ? status : bt_file_write(path, bt_str_text(&list), list.length_bytes);
    bt_str_release(&list);
    if (status) {
        (void)fprintf(stderr, "%s: %s\n", bt_status_text(status), bt_error_message());
        return 1;
    }
    return 0;
}
