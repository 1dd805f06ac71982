// framework/compiler/fuse_space.c - index spaces of calls, and of groups of them
#include <string.h>

#include "framework/compiler/fuse_build.h"

int64_t bt_fuse_elements(int rank, const int64_t *shape)
{
    int64_t count = 1;
    for (int i = 0; i < rank; ++i) {
        count *= shape[i];
    }
    return count;
}

static void set(int *rank, int64_t *shape, int count, int64_t a, int64_t b)
{
    *rank = count;
    shape[0] = a;
    shape[1] = b;
}

const char *bt_fuse_space_of(const bt_dag_node *node, bt_fused_kind *kind, int *rank,
                             int64_t *shape)
{
    *kind = BT_FUSED_ELEMENTWISE;
    switch (node->op) {
    case BT_KERNEL_FILL:
        set(rank, shape, 1, ((const bt_fill_args *)node->args)->count, 0);
        return NULL;
    case BT_KERNEL_UNARY:
        set(rank, shape, 1, ((const bt_unary_args *)node->args)->count, 0);
        return NULL;
    case BT_KERNEL_UNARY_BACKWARD:
        set(rank, shape, 1, ((const bt_unary_backward_args *)node->args)->count, 0);
        return NULL;
    case BT_KERNEL_DROPOUT:
        set(rank, shape, 1, ((const bt_dropout_args *)node->args)->count, 0);
        return NULL;
    case BT_KERNEL_COPY: {
        const bt_copy_args *args = node->args;
        *rank = args->rank;
        memcpy(shape, args->shape, sizeof args->shape);
        return NULL;
    }
    case BT_KERNEL_BINARY: {
        const bt_binary_args *args = node->args;
        *rank = args->rank;
        memcpy(shape, args->shape, sizeof args->shape);
        return NULL;
    }
    case BT_KERNEL_REDUCE_SUM: {
        const bt_reduce_sum_args *args = node->args;
        *kind = args->inner == 1 ? BT_FUSED_ROW : BT_FUSED_COLUMN;
        set(rank, shape, 2, args->inner == 1 ? args->outer : args->reduce,
            args->inner == 1 ? args->reduce : args->inner);
        return args->inner == 1 || args->outer == 1 ? NULL : "it sums a middle axis";
    }
    case BT_KERNEL_SOFTMAX: {
        const bt_softmax_args *args = node->args;
        *kind = BT_FUSED_ROW;
        set(rank, shape, 2, args->rows, args->cols);
        return NULL;
    }
    case BT_KERNEL_SOFTMAX_BACKWARD: {
        const bt_softmax_backward_args *args = node->args;
        *kind = BT_FUSED_ROW;
        set(rank, shape, 2, args->rows, args->cols);
        return NULL;
    }
    case BT_KERNEL_LAYERNORM: {
        const bt_layernorm_args *args = node->args;
        *kind = BT_FUSED_ROW;
        set(rank, shape, 2, args->rows, args->cols);
        return NULL;
    }
    case BT_KERNEL_GEMM: {
        const bt_gemm_args *args = node->args;
        *kind = BT_FUSED_PRODUCT;
        set(rank, shape, 2, args->batch * args->m, args->n);
        return args->ldd != args->n || (args->batch > 1 && args->stride_d != args->m * args->n)
                   ? "its result is not dense"
                   : NULL;
    }
    case BT_KERNEL_ATTENTION: {
        const bt_attention_args *args = node->args;
        const bt_attention_shape *s = &args->shape;
        *kind = BT_FUSED_ATTENTION;
        *rank = 4;
        memcpy(shape, (int64_t[]){s->batch, s->q_tokens, s->heads, s->head_dim}, 4 * sizeof *shape);
        return args->o.head_stride != s->head_dim ||
                       args->o.token_stride != s->heads * s->head_dim ||
                       args->o.batch_stride != s->q_tokens * args->o.token_stride
                   ? "its result is not dense"
                   : NULL;
    }
    case BT_KERNEL_LAYERNORM_BACKWARD:
        return "it reduces rows and columns";
    case BT_KERNEL_EMBEDDING:
    case BT_KERNEL_EMBEDDING_BACKWARD:
    case BT_KERNEL_SHARD_IDS:
        return "it gathers by ids";
    case BT_KERNEL_CROSS_ENTROPY:
    case BT_KERNEL_CROSS_ENTROPY_BACKWARD:
    case BT_KERNEL_CROSS_ENTROPY_MEAN:
    case BT_KERNEL_CROSS_ENTROPY_GRAD:
    case BT_KERNEL_LINEAR_EXPS:
    case BT_KERNEL_SHARD_TARGETS:
        return "it picks targets";
    case BT_KERNEL_ATTENTION_BACKWARD:
    case BT_KERNEL_SUM_PARTS:
        return "it is always a separate kernel";
    case BT_KERNEL_SCALE:
        return "its factor is on the device";
    case BT_KERNEL_GEMM_GROUPED:
    case BT_KERNEL_GEMM_PIECES:
    case BT_KERNEL_GRAD_NORM:
    case BT_KERNEL_SUM_SQUARES:
    case BT_KERNEL_CLIP_SCALE:
    case BT_KERNEL_ADAMW:
    case BT_KERNEL_COUNT_NONFINITE:
    case BT_KERNEL_OP_COUNT:
        break;
    }
    return "it is not a call of a model";
}

// Splits axis i in two, the inner one of size `inner`.
static bool split(int *rank, int64_t *space, int i, int64_t inner)
{
    if (*rank == BT_MAX_RANK || space[i] % inner != 0) {
        return false;
    }
    memmove(space + i + 1, space + i, (size_t)(*rank - i) * sizeof *space);
    space[i] /= inner;
    space[i + 1] = inner;
    *rank += 1;
    return true;
}

bool bt_fuse_refine(int *rank, int64_t *space, int shape_rank, const int64_t *shape)
{
    int at = *rank - 1;
    int64_t rest = 0; // remaining elements of the current axis of the shape
    for (int i = shape_rank - 1; i >= 0; --i) {
        rest = shape[i];
        while (rest > 1) {
            while (at >= 0 && space[at] == 1) {
                --at;
            }
            if (at < 0) {
                return false;
            }
            if (space[at] > rest) {
                if (!split(rank, space, at, rest)) {
                    return false;
                }
                ++at;
            }
            if (rest % space[at] != 0) {
                return false;
            }
            rest /= space[at--];
        }
    }
    return true;
}

void bt_fuse_strides(int rank, const int64_t *space, int shape_rank, const int64_t *shape,
                     const int64_t *stride, int64_t *out)
{
    int at = rank - 1;
    for (int i = 0; i < rank; ++i) {
        out[i] = 0;
    }
    for (int i = shape_rank - 1; i >= 0; --i) {
        int64_t rest = shape[i], step = stride[i];
        while (rest > 1 && at >= 0) {
            out[at] = space[at] > 1 ? step : 0;
            step *= space[at];
            rest /= space[at--];
        }
    }
}
