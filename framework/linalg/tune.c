// framework/linalg/tune.c - measured choices among the kernels of a matrix product
#include "framework/linalg/tune.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "framework/base/environment.h"
#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "framework/linalg/gemm.h"
#include "framework/linalg/plan_cache.h"

enum {
    PER_ROW = 3,       // plans tried per row
    CANDIDATES = 16,   // of all rows
    PASSES = 3,        // passes over all candidates; each one's best time counts
    CALLS_MOST = 20,   // consecutive calls
    PASS_NS = 300000,  // approximate duration of a candidate's pass
    ALIGNMENT = 256,   // minimum amount of memory
    ALIGNMENT_KEY = 16 // maximum workspace of kernels
};
#define BETTER_BY 0.98 // of the time of the default row

// The key of a choice. No padding: compared as bytes.
typedef struct gemm_key {
    int64_t m, n, k, batch, lda, ldb, ldc, ldd, stride_a, stride_b, stride_c, stride_d;
    int32_t trans_a, trans_b, beta, epilogue, has_bias, ab_dtype, d_dtype, compute, alignment;
    int32_t unused;
} gemm_key;

typedef struct candidate {
    const bt_kernel *kernel; // borrowed, a row
    bt_kernel_plan plan;
    int64_t time_ns; // of a call; INT64_MAX: it failed
} candidate;

typedef struct choice {
    gemm_key key;
    const bt_kernel *kernel;
    bt_kernel_plan plan;
} choice;

struct bt_gemm_tuner {
    bt_device *device;    // borrowed
    bt_pool *pool;        // borrowed
    bt_str folder;        // of the file; empty: no file
    bt_plan_cache *cache; // owned
    choice *choices;      // owned, [count]
    int64_t count, capacity, measured;
    bt_event start, stop;        // owned
    bt_gemm_agreement agreement; // share NULL: this rank decides alone
};

// ---- opening and closing -----------------------------------------------------------------------

// Hash of the backend's shared library: a choice is valid for one build. Errors  IO, INTERNAL
static bt_status describe_build(const bt_device *device, bt_str *out)
{
    Dl_info library;
    const void *bytes = NULL;
    size_t size_bytes = 0;
    int rows = 0;
    if (dladdr(bt_kernel_table(device, &rows), &library) == 0 || !library.dli_fname) {
        return bt_error(BT_STATUS_INTERNAL, "the file of the %s backend is unknown",
                        device->backend->name);
    }
    BT_TRY(bt_file_map(library.dli_fname, &bytes, &size_bytes));
    bt_str_format(out, "%016llx, %s", (unsigned long long)XXH3_64bits(bytes, size_bytes),
                  device->info.runtime);
    bt_file_unmap(bytes, size_bytes);
    return bt_str_status(out);
}

static bt_status open_cache(bt_gemm_tuner *tuner, int part)
{
    const bt_device_info *info = &tuner->device->info;
    bt_str build = {0}, device = {0}, path = {0};
    bt_status status = describe_build(tuner->device, &build);
    bt_str_format(&device, "%s, compute capability %d.%d, %d SMs", info->name, info->arch / 10,
                  info->arch % 10, info->processor_count);
    const bool stores = tuner->folder.length_bytes > 0;
    if (stores) {
        bt_str_format(&path, "%s/gemm-plans-", bt_str_text(&tuner->folder));
        for (const char *c = info->name; *c; ++c) {
            const bool plain =
                (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
            bt_str_append_bytes(&path, plain ? c : "-", 1);
        }
        bt_str_format(&path, "-%d-%d", info->arch, info->processor_count);
        if (part > 0) {
            bt_str_format(&path, "-part-%d", part);
        }
        bt_str_append(&path, ".json");
    }
    status = status == BT_OK ? bt_str_status(&device) : status;
    status = status == BT_OK ? bt_str_status(&path) : status;
    if (status == BT_OK) {
        status = bt_plan_cache_open(stores ? bt_str_text(&path) : NULL, bt_str_text(&build),
                                    bt_str_text(&device), &tuner->cache);
    }
    bt_str_release(&build);
    bt_str_release(&device);
    bt_str_release(&path);
    return status;
}

bt_status bt_gemm_tuner_open(bt_device *device, bt_pool *pool, const char *folder,
                             bt_gemm_tuner **out)
{
    void *block = NULL;
    *out = NULL;
    if (folder && bt_dir_make(folder) != BT_OK) {
        bt_error_clear(); // the error of writing the file says why
    }
    BT_TRY(bt_mem_alloc(1, sizeof(bt_gemm_tuner), &block));
    bt_gemm_tuner *tuner = block;
    tuner->device = device;
    tuner->pool = pool;
    bt_str_append(&tuner->folder, folder ? folder : "");
    bt_status status = bt_str_status(&tuner->folder);
    status = status == BT_OK ? open_cache(tuner, 0) : status;
    status = status == BT_OK ? device->backend->event_create(device, &tuner->start) : status;
    status = status == BT_OK ? device->backend->event_create(device, &tuner->stop) : status;
    if (status != BT_OK) {
        bt_gemm_tuner_close(tuner);
        return bt_error_context(status, "measured plans");
    }
    *out = tuner;
    return BT_OK;
}

bt_status bt_gemm_tuner_from_environment(bt_device *device, bt_pool *pool, bt_gemm_tuner **out)
{
    const char *wish = bt_environment(BT_VARIABLE_GEMM_TUNE);
    const char *folder = bt_environment(BT_VARIABLE_CACHE_DIR);
    const char *cache = bt_environment(BT_VARIABLE_XDG_CACHE_HOME);
    const char *home = bt_environment(BT_VARIABLE_HOME);
    bt_str path = {0};
    *out = NULL;
    if (!wish || strcmp(wish, "0") == 0) {
        return BT_OK;
    }
    if (strcmp(wish, "1") != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "BT_GEMM_TUNE is \"%s\"; allowed: 0, 1", wish);
    }
    if (folder) {
        bt_str_append(&path, folder);
    } else if (cache) {
        bt_str_format(&path, "%s/blutrain", cache);
    } else if (home) {
        bt_str_format(&path, "%s/.cache/blutrain", home);
    }
    bt_status status = bt_str_status(&path);
    if (status == BT_OK) {
        status =
            bt_gemm_tuner_open(device, pool, path.length_bytes ? bt_str_text(&path) : NULL, out);
    }
    bt_str_release(&path);
    return status;
}

void bt_gemm_tuner_close(bt_gemm_tuner *tuner)
{
    if (tuner) {
        tuner->device->backend->event_destroy(tuner->device, tuner->start);
        tuner->device->backend->event_destroy(tuner->device, tuner->stop);
        bt_plan_cache_close(tuner->cache);
        bt_str_release(&tuner->folder);
        bt_mem_free(tuner->choices);
        bt_mem_free(tuner);
    }
}

int64_t bt_gemm_tuner_measured(const bt_gemm_tuner *tuner) { return tuner->measured; }

const char *bt_gemm_tuner_warning(const bt_gemm_tuner *tuner)
{
    return bt_plan_cache_warning(tuner->cache);
}

// ---- keys --------------------------------------------------------------------------------------

static bool keeps_aux(const bt_gemm_args *args) { return args->epilogue == BT_EPILOGUE_BIAS_GELU; }

static bool has_aux(const bt_gemm_args *args)
{
    return keeps_aux(args) || args->epilogue == BT_EPILOGUE_DGELU;
}

static bool is_biased(const bt_gemm_args *args)
{
    return args->bias && (args->epilogue == BT_EPILOGUE_BIAS || keeps_aux(args));
}

enum { BETA_ZERO, BETA_IN_PLACE, BETA_OTHER };

static gemm_key key_of(const bt_gemm_args *args)
{
    gemm_key key;
    const bool batched = args->batch > 1, adds = args->beta != 0;
    memset(&key, 0, sizeof key);
    key.m = args->m, key.n = args->n, key.k = args->k, key.batch = args->batch;
    key.lda = args->lda, key.ldb = args->ldb, key.ldd = args->ldd;
    key.ldc = adds ? args->ldc : 0;
    key.stride_a = batched ? args->stride_a : 0, key.stride_b = batched ? args->stride_b : 0;
    key.stride_c = batched && adds ? args->stride_c : 0;
    key.stride_d = batched ? args->stride_d : 0;
    key.trans_a = args->trans_a, key.trans_b = args->trans_b;
    key.beta = !adds                                   ? BETA_ZERO
               : args->beta == 1 && args->c == args->d ? BETA_IN_PLACE
                                                       : BETA_OTHER;
    key.epilogue = (int32_t)args->epilogue, key.has_bias = is_biased(args);
    key.ab_dtype = (int32_t)args->ab_dtype, key.d_dtype = (int32_t)args->d_dtype;
    key.compute = (int32_t)args->compute;
    const uintptr_t bits = (uintptr_t)args->a | (uintptr_t)args->b | (uintptr_t)args->d |
                           (adds ? (uintptr_t)args->c : 0) |
                           (is_biased(args) ? (uintptr_t)args->bias : 0) |
                           (has_aux(args) ? (uintptr_t)args->aux : 0);
    key.alignment = 1;
    while (key.alignment < ALIGNMENT_KEY && !(bits & (uintptr_t)key.alignment)) {
        key.alignment *= 2;
    }
    return key;
}

static bt_status write_key(const gemm_key *key, bt_str *out)
{
    static const char *const epilogues[BT_EPILOGUE_COUNT] = {"none", "bias", "bias_gelu", "dgelu"};
    static const char *const betas[] = {"0", "1 in place", "any"};
    const char *mode = bt_environment(BT_VARIABLE_GEMM);
    bt_str_format(out, "%s: %c%c %s -> %s%s, ", mode ? mode : "auto", key->trans_a ? 't' : 'n',
                  key->trans_b ? 't' : 'n', bt_dtype_name((bt_dtype)key->ab_dtype),
                  bt_dtype_name((bt_dtype)key->d_dtype),
                  key->compute == BT_COMPUTE_TF32 ? " by tf32" : "");
    bt_str_format(out, "%lldx%lldx%lld batch %lld, ld %lld %lld %lld %lld, ", (long long)key->m,
                  (long long)key->n, (long long)key->k, (long long)key->batch, (long long)key->lda,
                  (long long)key->ldb, (long long)key->ldc, (long long)key->ldd);
    bt_str_format(out, "stride %lld %lld %lld %lld, %s%s, beta %s, aligned %d",
                  (long long)key->stride_a, (long long)key->stride_b, (long long)key->stride_c,
                  (long long)key->stride_d, epilogues[key->epilogue], key->has_bias ? " bias" : "",
                  betas[key->beta], key->alignment);
    return bt_str_status(out);
}

// ---- candidates --------------------------------------------------------------------------------

// Fills list[CANDIDATES]; the default choice of `kernel`, which serves the call otherwise, comes
// first.
static int find_candidates(const bt_gemm_tuner *tuner, const bt_gemm_args *args,
                           const bt_kernel *kernel, candidate *list)
{
    const bt_device *device = tuner->device;
    int rows = 0, count = 0;
    const bt_kernel *table = bt_kernel_table(device, &rows);
    for (int pass = 0; pass < 2; ++pass) {
        for (const bt_kernel *row = table; row < table + rows; ++row) {
            bt_kernel_plan plans[PER_ROW];
            if ((row == kernel) != (pass == 0) || row->op != BT_KERNEL_GEMM ||
                row->dtype != args->ab_dtype || row->min_arch > device->info.arch) {
                continue;
            }
            const int found = device->backend->plans(device, row, args, plans, PER_ROW);
            for (int i = 0; i < found && count < CANDIDATES; ++i) {
                list[count++] = (candidate){row, plans[i], INT64_MAX};
            }
        }
    }
    return count > 0 && list[0].kernel == kernel ? count : 0;
}

// ---- measuring ---------------------------------------------------------------------------------

typedef struct trial {
    bt_gemm_args args; // with outputs in `memory`
    bt_stream stream;
    void *memory; // owned, of the pool: workspace, d, aux
} trial;

static bt_status trial_make(bt_gemm_tuner *tuner, bt_stream stream, const bt_gemm_args *args,
                            const candidate *list, int count, trial *out)
{
    const size_t size = bt_dtype_size(args->d_dtype);
    const size_t elements =
        (size_t)((args->batch - 1) * args->stride_d + (args->m - 1) * args->ldd + args->n);
    const size_t output = (elements * size + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t off_d = (uintptr_t)args->d % ALIGNMENT, off_aux = (uintptr_t)args->aux % ALIGNMENT;
    size_t workspace = 0;
    for (int i = 0; i < count; ++i) {
        const size_t wanted = list[i].plan.workspace_bytes;
        workspace = wanted > workspace ? wanted : workspace;
    }
    workspace = (workspace + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const bt_backend *backend = tuner->device->backend;
    BT_TRY(bt_pool_alloc_aside(tuner->pool, workspace + (keeps_aux(args) ? 2 : 1) * output, stream,
                               "measuring a matrix product", &out->memory));
    out->args = *args;
    out->stream = stream;
    out->args.d = (char *)out->memory + workspace + off_d;
    if (keeps_aux(args)) {
        out->args.aux = (char *)out->memory + workspace + output + off_aux;
    }
    if (args->beta != 0 && args->c == args->d) {
        out->args.c = out->args.d;
        return backend->copy(tuner->device, out->args.d, args->d, elements * size,
                             BT_COPY_DEVICE_TO_DEVICE, stream);
    }
    return BT_OK;
}

// Time per call over `calls` calls. A refused launch gives INT64_MAX.
static bt_status time_calls(bt_gemm_tuner *tuner, const trial *on, const candidate *of, int calls,
                            int64_t *time_ns)
{
    bt_device *device = tuner->device;
    const bt_backend *backend = device->backend;
    const bt_launch launch = {device, on->stream, on->memory, of->plan.workspace_bytes,
                              of->plan.number};
    int64_t all_ns = 0;
    BT_TRY(backend->event_record(device, tuner->start, on->stream));
    for (int i = 0; i < calls; ++i) {
        if (of->kernel->launch(&launch, &on->args) != BT_OK) {
            bt_error_clear();
            *time_ns = INT64_MAX;
            return BT_OK;
        }
    }
    BT_TRY(backend->event_record(device, tuner->stop, on->stream));
    BT_TRY(backend->event_synchronize(device, tuner->stop));
    BT_TRY(backend->event_elapsed(device, tuner->start, tuner->stop, &all_ns));
    *time_ns = all_ns / calls;
    return BT_OK;
}

// Warms each candidate up, then times them interleaved, so that drift affects all equally.
static bt_status time_all(bt_gemm_tuner *tuner, const trial *on, candidate *list, int count)
{
    int calls[CANDIDATES];
    for (int i = 0; i < count; ++i) {
        int64_t once_ns = 0;
        BT_TRY(time_calls(tuner, on, &list[i], 1, &once_ns));
        BT_TRY(time_calls(tuner, on, &list[i], 1, &once_ns));
        const int64_t wanted = PASS_NS / (once_ns > 0 ? once_ns : 1);
        calls[i] = wanted > CALLS_MOST ? CALLS_MOST : wanted < 1 ? 1 : (int)wanted;
    }
    for (int pass = 0; pass < PASSES; ++pass) {
        for (int i = 0; i < count; ++i) {
            int64_t time_ns = 0;
            BT_TRY(time_calls(tuner, on, &list[i], calls[i], &time_ns));
            list[i].time_ns = time_ns < list[i].time_ns ? time_ns : list[i].time_ns;
        }
    }
    return BT_OK;
}

static int fastest(const candidate *list, int count)
{
    int best = 0;
    for (int i = 1; i < count; ++i) {
        const bool better = best == 0
                                ? (double)list[i].time_ns < BETTER_BY * (double)list[0].time_ns
                                : list[i].time_ns < list[best].time_ns;
        best = better ? i : best;
    }
    return best;
}

// *best: the index of the choice; 0, without times, if there is no memory for measuring.
static bt_status measure(bt_gemm_tuner *tuner, bt_stream stream, const bt_gemm_args *args,
                         candidate *list, int count, int *best)
{
    trial on = {0};
    *best = 0;
    bt_status status = trial_make(tuner, stream, args, list, count, &on);
    if (status == BT_OK) {
        status = time_all(tuner, &on, list, count);
        *best = fastest(list, count);
        ++tuner->measured;
    } else if (status == BT_STATUS_OUT_OF_MEMORY) {
        bt_error_clear();
        status = BT_OK;
    }
    bt_pool_free(tuner->pool, on.memory);
    return bt_error_context(status, "measuring a matrix product");
}

// ---- choosing ----------------------------------------------------------------------------------

static const choice *recall(const bt_gemm_tuner *tuner, const gemm_key *key)
{
    for (int64_t i = 0; i < tuner->count; ++i) {
        if (memcmp(&tuner->choices[i].key, key, sizeof *key) == 0) {
            return &tuner->choices[i];
        }
    }
    return NULL;
}

static bt_status remember(bt_gemm_tuner *tuner, const gemm_key *key, const candidate *what)
{
    if (tuner->count == tuner->capacity) {
        const int64_t capacity = tuner->capacity ? 2 * tuner->capacity : 32;
        void *block = tuner->choices;
        BT_TRY(bt_mem_resize(&block, (size_t)capacity, sizeof *tuner->choices));
        tuner->choices = block;
        tuner->capacity = capacity;
    }
    tuner->choices[tuner->count++] = (choice){*key, what->kernel, what->plan};
    return BT_OK;
}

// The candidate that the file names; -1 if there is none, or if it no longer exists.
static int find_kept(const bt_gemm_tuner *tuner, const char *key, const candidate *list, int count)
{
    bt_planned kept;
    if (bt_plan_cache_find(tuner->cache, key, &kept)) {
        for (int i = 0; i < count; ++i) {
            if (strcmp(list[i].kernel->name, kept.kernel) == 0 &&
                strcmp(list[i].plan.name, kept.plan) == 0) {
                return i;
            }
        }
    }
    return -1;
}

bt_status bt_gemm_tuner_agree(bt_gemm_tuner *tuner, bt_gemm_agreement agreement)
{
    tuner->agreement = agreement;
    if (agreement.part == 0) {
        return BT_OK;
    }
    bt_plan_cache *first = tuner->cache;
    const bt_status status = open_cache(tuner, agreement.part);
    if (status == BT_OK) {
        bt_plan_cache_close(first);
    } else {
        tuner->cache = first;
    }
    return status;
}

// Found by name: ranks may list candidates in different orders.
typedef struct agreed {
    char kernel[64], plan[sizeof((bt_kernel_plan *)NULL)->name];
} agreed;

// Sets *best to the choice of the measuring rank.
static bt_status agree(const bt_gemm_tuner *tuner, const candidate *list, int count, int *best)
{
    const bt_gemm_agreement *with = &tuner->agreement;
    agreed chosen = {"", ""};
    if (with->measures) {
        (void)snprintf(chosen.kernel, sizeof chosen.kernel, "%s", list[*best].kernel->name);
        (void)snprintf(chosen.plan, sizeof chosen.plan, "%s", list[*best].plan.name);
    }
    BT_TRY(with->share(with->self, &chosen, sizeof chosen));
    for (int i = 0; i < count; ++i) {
        if (strcmp(list[i].kernel->name, chosen.kernel) == 0 &&
            strcmp(list[i].plan.name, chosen.plan) == 0) {
            *best = i;
            return BT_OK;
        }
    }
    return bt_error(BT_STATUS_INTERNAL,
                    "the measuring rank selected \"%s %s\" for a product, which this rank does not "
                    "have: all ranks need one build and one kind of device",
                    chosen.kernel, chosen.plan);
}

// The choice in the file, else the fastest now.
static bt_status find_best(bt_gemm_tuner *tuner, bt_stream stream, const bt_gemm_args *args,
                           const gemm_key *key, candidate *list, int count, int *out)
{
    bt_str text = {0};
    bt_status status = write_key(key, &text);
    int best = status == BT_OK ? find_kept(tuner, bt_str_text(&text), list, count) : 0;
    if (status == BT_OK && best < 0) {
        status = measure(tuner, stream, args, list, count, &best);
        if (status == BT_OK && list[best].time_ns < INT64_MAX) {
            const bt_planned made = {list[best].kernel->name, list[best].plan.name,
                                     list[best].time_ns};
            status = bt_plan_cache_add(tuner->cache, bt_str_text(&text), &made);
        }
    }
    bt_str_release(&text);
    *out = best;
    return status;
}

static bt_status decide(bt_gemm_tuner *tuner, bt_stream stream, const bt_gemm_args *args,
                        const gemm_key *key, candidate *list, int count)
{
    const bt_gemm_agreement *with = &tuner->agreement;
    int best = 0;
    if (!with->share || with->measures) {
        BT_TRY(find_best(tuner, stream, args, key, list, count, &best));
    }
    BT_TRY(with->share ? agree(tuner, list, count, &best) : BT_OK);
    return remember(tuner, key, &list[best]);
}

static bool is_capturing(const bt_gemm_tuner *tuner, bt_stream stream)
{
    const bt_backend *backend = tuner->device->backend;
    return backend->graph_capturing && backend->graph_capturing(tuner->device, stream);
}

bt_status bt_gemm_tuner_choose(bt_gemm_tuner *tuner, bt_stream stream, const bt_gemm_args *args,
                               const bt_kernel **kernel, const bt_kernel_plan **plan)
{
    candidate list[CANDIDATES];
    *kernel = NULL;
    *plan = NULL;
    BT_TRY(bt_gemm_check(args));
    const gemm_key key = key_of(args);
    const bool plain = !args->dbias; // its candidates lack products followed by sums
    const choice *known = plain ? recall(tuner, &key) : NULL;
    if (!known) {
        BT_TRY(bt_kernel_find(tuner->device, BT_KERNEL_GEMM, args->ab_dtype, args, kernel));
        const bool empty = args->m == 0 || args->n == 0 || args->k == 0 || args->batch == 0;
        const bool settled = !tuner->device->backend->plans || !plain || empty;
        const int count = settled || is_capturing(tuner, stream)
                              ? 0
                              : find_candidates(tuner, args, *kernel, list);
        if (count < 2) {
            return BT_OK;
        }
        BT_TRY(decide(tuner, stream, args, &key, list, count));
        known = &tuner->choices[tuner->count - 1];
    }
    *kernel = known->kernel;
    *plan = known->plan.number ? &known->plan : NULL;
    return BT_OK;
}
