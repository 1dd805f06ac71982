// harness/cases/lab/attention.c - calls of attention that suites cannot express, made of those of a
//   case and over its operands: grouped heads, fewer queries, a window, documents
//
// With grouped heads the first heads of K and V are used, with fewer queries the first rows of Q,
// which stand for the last queries. Documents have unequal lengths. Such calls are timed, not
// checked: their tests are conformance.attention_features.
#include "framework/base/mem.h"
#include "framework/base/scoped.h"
#include "harness/cases/lab/lab.h"

bool lab_is_attention(const lab_work *work)
{
    const bt_kernel_body *body = &work->members[0].body;
    return !body->is_chain &&
           (body->op == BT_KERNEL_ATTENTION || body->op == BT_KERNEL_ATTENTION_BACKWARD);
}

static bt_attention_shape restricted(const lab_work *work, const lab_attention *by)
{
    const bt_kernel_body *body = &work->members[0].body;
    const bt_kernel_args *args = &work->members[0].calls[0].args;
    bt_attention_shape shape =
        body->backward ? args->attention_backward.shape : args->attention.shape;
    shape.kv_heads = by->kv_heads > 0 ? by->kv_heads : shape.kv_heads;
    shape.q_tokens = by->q_tokens > 0 ? by->q_tokens : shape.q_tokens;
    shape.q_first = shape.causal ? shape.kv_tokens - shape.q_tokens : 0;
    shape.window = by->window;
    shape.documents = by->documents;
    if (shape.heads % shape.kv_heads != 0 || shape.q_tokens > shape.kv_tokens) {
        lab_require(bt_error(BT_STATUS_INVALID_ARGUMENT,
                             "expected a divisor of %lld heads and at most %lld "
                             "queries, got %lld and %lld",
                             (long long)shape.heads, (long long)shape.kv_tokens,
                             (long long)shape.kv_heads, (long long)shape.q_tokens));
    }
    return shape;
}

static int64_t start_of(const bt_attention_shape *shape, int64_t document)
{
    const double part = (double)document / (double)shape->documents;
    return (int64_t)((double)shape->q_tokens * (0.3 * part + 0.7 * part * part));
}

// Pairs of a query and a key that it sees, of one head and entry; causal ones of a plain call as
// half of all, by custom.
static double pairs_of(const bt_attention_shape *shape)
{
    if (shape->documents == 0 && shape->window == 0 && shape->q_first == 0) {
        return (double)shape->q_tokens * (double)shape->kv_tokens / (shape->causal ? 2 : 1);
    }
    double pairs = 0;
    int64_t document = 0;
    for (int64_t i = 0; i < shape->q_tokens; ++i) {
        const int64_t at = shape->q_first + i;
        int64_t first = 0, end = shape->kv_tokens;
        if (shape->documents > 0) {
            while (start_of(shape, document + 1) <= i) {
                ++document;
            }
            first = start_of(shape, document);
            end = start_of(shape, document + 1);
        }
        const int64_t most = shape->causal ? at + 1 : shape->window ? at + shape->window : end;
        const int64_t least = shape->window ? at - shape->window + 1 : first;
        end = most < end ? most : end;
        first = least > first ? least : first;
        pairs += end > first ? (double)(end - first) : 0;
    }
    return pairs;
}

void lab_attention_restrict(lab *self, lab_work *work)
{
    const lab_attention *by = &self->options.attention;
    kernel_run *run = &work->members[0];
    if (!lab_is_attention(work) ||
        !(by->kv_heads || by->q_tokens || by->window || by->documents || self->options.add)) {
        return;
    }
    bt_attention_shape shape = restricted(work, by);
    if (by->documents > 0) {
        BT_SCOPED_MEM(int32_t *) starts = NULL;
        const size_t bytes = (size_t)(by->documents + 1) * sizeof *starts;
        lab_require(BT_MEM_ARRAY(by->documents + 1, &starts));
        for (int i = 0; i <= by->documents; ++i) {
            starts[i] = (int32_t)start_of(&shape, i);
        }
        lab_require(bt_pool_alloc(self->pool, bytes, self->stream, "starts", &work->extra));
        lab_require(self->device->backend->copy(self->device, work->extra, starts, bytes,
                                                BT_COPY_HOST_TO_DEVICE, self->stream));
        lab_require(self->device->backend->stream_synchronize(self->device, self->stream));
        shape.starts = work->extra;
    }
    for (int64_t i = 0; i < run->call_count; ++i) {
        bt_kernel_args *args = &run->calls[i].args;
        if (run->body.backward) {
            args->attention_backward.shape = shape;
            args->attention_backward.accumulate_dq = self->options.add != 0;
            args->attention_backward.accumulate_dkv = self->options.add != 0;
        } else {
            args->attention.shape = shape;
            args->attention.accumulate = self->options.add != 0;
        }
    }
    work->flops = (run->body.backward ? 10.0 : 4.0) * (double)(shape.batch * shape.heads) *
                  pairs_of(&shape) * (double)shape.head_dim;
    work->restricted = true;
}
