// harness/cases/kernel_chain.c - a kernel case that is a chain of ops
//
// The chain's program replaces a kernel of the table: it is checked and timed in the same way.
#include <string.h>

#include "framework/base/clock.h"
#include "harness/cases/chain.h"
#include "harness/cases/kernel.h"

struct bt_kernel_chain {
    bt_kernel row; // that run->kernel points to
    bt_chain *chain;
    bt_code_cache cache;
    int64_t cold_ns, warm_ns;
};

// The current case: a worker runs one at a time, and a row's launch function has no self argument.
static const bt_kernel_chain *active;

static bt_status launch(const bt_launch *to, const void *args)
{
    const bt_kernel_args *call = args;
    (void)to;
    return bt_chain_run(active->chain, call->chain.at);
}

// Opens the chain and generates its code. cache NULL: without a cache.
static bt_status prepare(bt_kernel_chain *c, bt_context *context, const bt_chain_args *args,
                         bt_code_cache *cache, int64_t *time_ns)
{
    const bool cpu = context->device->backend->kind == BT_DEVICE_CPU;
    const int64_t start_ns = bt_clock_ns();
    bt_chain_close(c->chain);
    BT_TRY(bt_chain_open(context, args, true, cpu ? BT_TARGET_CPU : BT_TARGET_CUDA, &c->chain));
    BT_TRY(bt_chain_compile(c->chain, cache));
    *time_ns = bt_clock_ns() - start_ns;
    return BT_OK;
}

// First without a cache, then with it twice: the second time it has the code. Without a compiler,
// the cache alone may suffice.
static bt_status compile(bt_kernel_chain *c, bt_context *context, const bt_chain_args *args)
{
    int64_t filled_ns = 0;
    BT_TRY(bt_code_cache_from_environment(&c->cache));
    bt_error_quiet_begin();
    const bt_status cold = prepare(c, context, args, NULL, &c->cold_ns);
    bt_error_quiet_end();
    c->cold_ns = cold ? 0 : c->cold_ns;
    BT_TRY(prepare(c, context, args, &c->cache, &filled_ns));
    return prepare(c, context, args, &c->cache, &c->warm_ns);
}

bt_status bt_kernel_chain_make(const kernel_run *run, const bt_kernel_args *args,
                               bt_kernel_chain **out)
{
    bt_context context = {.device = run->device,
                          .pool = run->pool,
                          .stream = run->stream,
                          .compute = BT_COMPUTE_NATIVE,
                          .tuner = run->tuner};
    bt_kernel_chain *c = NULL;
    *out = NULL;
    BT_TRY(BT_MEM_ARRAY(1, &c));
    const bt_status status =
        run->generates ? compile(c, &context, &args->chain)
                       : bt_chain_open(&context, &args->chain, false, BT_TARGET_CPU, &c->chain);
    if (status) {
        bt_kernel_chain_release(c);
        return status;
    }
    static const char *const names[2][2] = {{"chain_cpu", "chain_cpu_generated"},
                                            {"chain_cuda", "chain_cuda_generated"}};
    const bt_device_kind kind = run->device->backend->kind;
    c->row = (bt_kernel){.device = kind,
                         .dtype = run->body.main,
                         .name = names[kind != BT_DEVICE_CPU][run->generates],
                         .launch = launch};
    *out = c;
    return BT_OK;
}

const bt_kernel *bt_kernel_chain_row(const bt_kernel_chain *chain)
{
    active = chain;
    return &chain->row;
}

void bt_kernel_chain_release(bt_kernel_chain *chain)
{
    if (chain) {
        bt_chain_close(chain->chain);
        bt_code_cache_close(&chain->cache);
        active = active == chain ? NULL : active;
        bt_mem_free(chain);
    }
}

int64_t bt_kernel_chain_cold_ns(const bt_kernel_chain *chain) { return chain->cold_ns; }

int64_t bt_kernel_chain_warm_ns(const bt_kernel_chain *chain) { return chain->warm_ns; }

static bool is_sum(const bt_operand *operand)
{
    return operand->role == BT_OPERAND_OUT && operand->per_row == 0;
}

// Runs the chain into new memory for its sums over rows, and adds these to the earlier ones.
static bt_status run_adding(bt_pool *pool, bt_chain *chain, const bt_chain_args *args)
{
    void *at[BT_OPERANDS_MAX];
    bt_status status = BT_OK;
    memcpy(at, args->at, sizeof at);
    for (int i = 0; i < args->body->count && status == BT_OK; ++i) {
        const bt_operand *operand = &args->body->operands[i];
        if (is_sum(operand)) {
            status = bt_pool_alloc(pool, (size_t)operand->whole * sizeof(double), NULL,
                                   operand->name, &at[i]);
        }
    }
    status = status ? status : bt_chain_run(chain, at);
    for (int i = 0; i < args->body->count; ++i) {
        double *sum = args->at[i];
        const double *part = at[i];
        for (int64_t k = 0; k < args->body->operands[i].whole && part != sum && !status; ++k) {
            sum[k] += part[k];
        }
        if (part != sum) {
            bt_pool_free(pool, at[i]);
        }
    }
    return status;
}

bt_status bt_kernel_chain_reference(bt_context *context, const bt_kernel_args *args)
{
    bt_chain *chain = NULL;
    BT_TRY(bt_chain_open(context, &args->chain, false, BT_TARGET_CPU, &chain));
    const bt_status status = args->chain.accumulate ? run_adding(context->pool, chain, &args->chain)
                                                    : bt_chain_run(chain, args->chain.at);
    bt_chain_close(chain);
    return status;
}
