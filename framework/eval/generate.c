// framework/eval/generate.c - sampling from logits, and the sliding window of the model's input
#include "framework/eval/generate.h"

#include <math.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "framework/nn/gpt2_cache.h"

// ---- sampling -----------------------------------------------------------------------------------

// Whether token a is ordered before token b: the larger logit, then the lower id.
static bool comes_before(const float *logits, int32_t a, int32_t b)
{
    return logits[a] > logits[b] || (!(logits[a] < logits[b]) && a < b);
}

// Sifts the entry at `root` down the heap, whose first entry is the last of those kept.
static void sink(const float *logits, int32_t *heap, int64_t count, int64_t root)
{
    for (;;) {
        int64_t last = root;
        for (int64_t child = 2 * root + 1; child <= 2 * root + 2 && child < count; ++child) {
            last = comes_before(logits, heap[last], heap[child]) ? child : last;
        }
        if (last == root) {
            return;
        }
        const int32_t moved = heap[root];
        heap[root] = heap[last];
        heap[last] = moved;
        root = last;
    }
}

// The first `most` tokens in order, to order [most].
static void sort_best(const float *logits, int64_t vocab, int64_t most, int32_t *order)
{
    for (int64_t i = 0; i < most; ++i) {
        order[i] = (int32_t)i;
    }
    for (int64_t i = most / 2; i-- > 0;) {
        sink(logits, order, most, i);
    }
    for (int64_t i = most; i < vocab; ++i) {
        if (comes_before(logits, (int32_t)i, order[0])) {
            order[0] = (int32_t)i;
            sink(logits, order, most, 0);
        }
    }
    for (int64_t left = most - 1; left > 0; --left) {
        const int32_t last = order[0];
        order[0] = order[left];
        order[left] = last;
        sink(logits, order, left, 0);
    }
}

typedef struct draw {
    const float *logits;
    const int32_t *order;
    double temperature;
} draw;

// Weight of the i-th token in order relative to the first.
static double weight(const draw *d, int64_t i)
{
    return i == 0 ? 1
                  : exp(((double)d->logits[d->order[i]] - (double)d->logits[d->order[0]]) /
                        d->temperature);
}

bt_status bt_generate_choose(const float *logits, int64_t vocab, double temperature, int64_t top_k,
                             double uniform, int32_t *order, int32_t *id)
{
    for (int64_t i = 0; i < vocab; ++i) {
        if (!isfinite(logits[i])) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "the logit of token %lld is %g: the weights of the model are damaged",
                            (long long)i, (double)logits[i]);
        }
    }
    const draw d = {logits, order, temperature};
    const int64_t kept = temperature <= 0 ? 1 : top_k > 0 && top_k < vocab ? top_k : vocab;
    sort_best(logits, vocab, kept, order);
    double sum = 0;
    for (int64_t i = 0; i < kept; ++i) {
        sum += weight(&d, i);
    }
    double left = uniform * sum;
    *id = order[kept - 1]; // rounding may leave a remainder
    for (int64_t i = 0; i < kept; ++i) {
        left -= weight(&d, i);
        if (left < 0) {
            *id = order[i];
            break;
        }
    }
    return BT_OK;
}

// ---- generation ---------------------------------------------------------------------------------

typedef struct text {
    bt_context *context;                // borrowed
    const bt_gpt2 *model;               // borrowed
    const bt_generate_options *options; // borrowed
    bt_gpt2_cache cache;
    int32_t *window; // owned [context]: the model's input tokens
    int64_t count;   // of them
    float *logits;   // owned [vocab of the model]
    int32_t *order;  // owned [vocab of the model]
} text;

static bt_status check(const bt_gpt2 *model, const bt_generate_options *options,
                       const uint16_t *prompt, int64_t count)
{
    const int64_t vocab = model->config.vocab;
    if (options->tokens < 0 || count < 0 || options->vocab < 0 || options->top_k < 0 ||
        !(options->temperature >= 0 && isfinite(options->temperature))) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%lld tokens after a prompt of %lld, temperature %g, top-k %lld, "
                        "vocabulary %lld: none may be negative",
                        (long long)options->tokens, (long long)count, options->temperature,
                        (long long)options->top_k, (long long)options->vocab);
    }
    for (int64_t i = 0; i < count; ++i) {
        if (prompt[i] >= vocab) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "token %lld of the prompt is %u; the model's vocabulary ends at %lld",
                            (long long)i, (unsigned)prompt[i], (long long)vocab - 1);
        }
    }
    if (count == 0 && options->before >= vocab) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "the prompt is empty, and the token %u used instead is outside of the "
                        "model's vocabulary, which ends at %lld",
                        (unsigned)options->before, (long long)vocab - 1);
    }
    return BT_OK;
}

static bt_status open_text(text *t, const uint16_t *prompt, int64_t count)
{
    const bt_gpt2_config *config = &t->model->config;
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)config->context, sizeof *t->window, &block));
    t->window = block;
    BT_TRY(bt_mem_alloc((size_t)config->vocab, sizeof *t->logits, &block));
    t->logits = block;
    BT_TRY(bt_mem_alloc((size_t)config->vocab, sizeof *t->order, &block));
    t->order = block;
    const int64_t skipped = count > config->context ? count - config->context : 0;
    for (int64_t i = skipped; i < count; ++i) {
        t->window[t->count++] = prompt[i];
    }
    if (count == 0) {
        t->window[t->count++] = t->options->before;
    }
    return bt_gpt2_cache_init(t->context, t->model, &t->cache);
}

static void close_text(text *t)
{
    bt_gpt2_cache_release(&t->cache);
    bt_mem_free(t->window);
    bt_mem_free(t->logits);
    bt_mem_free(t->order);
}

// Runs the model on the new tokens of the window and reads the logits of the last one.
static bt_status read_logits(text *t)
{
    bt_tensor *ids = NULL;
    bt_tensor *logits = NULL;
    bt_tensor *wide = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(
        bt_tensor_create(t->context, BT_I32, BT_SHAPE(1, t->count - t->cache.used), "ids", &ids),
        done);
    BT_TRY_GOTO(bt_tensor_write(t->context, ids, t->window + t->cache.used), done);
    BT_TRY_GOTO(bt_gpt2_cache_extend(t->context, &t->cache, ids, &logits), done);
    BT_TRY_GOTO(bt_tensor_create(t->context, BT_F32, logits->shape, "logits", &wide), done);
    BT_TRY_GOTO(bt_tensor_copy(t->context, logits, wide), done);
    BT_TRY_GOTO(bt_tensor_read(t->context, wide, t->logits), done);
done:
    bt_tensor_release(wide);
    bt_tensor_release(logits);
    bt_tensor_release(ids);
    return status;
}

static void append(text *t, int32_t id)
{
    const int64_t context = t->model->config.context;
    if (t->count == context) { // positions are learned, so kept tokens must be processed again
        t->count = context / 2;
        memmove(t->window, t->window + context - t->count, (size_t)t->count * sizeof *t->window);
        t->cache.used = 0;
    }
    t->window[t->count++] = id;
}

// 53 bits in [0, 1).
static double uniform(uint64_t seed, int64_t index)
{
    uint32_t words[4];
    bt_rng_block((bt_rng){seed, 0}, (uint64_t)index, words);
    return (double)(((uint64_t)words[0] << 32 | words[1]) >> 11) * 0x1p-53;
}

static bt_status write_text(text *t, bt_generate_listener listener)
{
    const bt_generate_options *o = t->options;
    const int64_t most = t->model->config.vocab < 65536 ? t->model->config.vocab : 65536;
    const int64_t vocab = o->vocab > 0 && o->vocab < most ? o->vocab : most;
    for (int64_t i = 0; i < o->tokens; ++i) {
        int32_t id = 0;
        BT_TRY(read_logits(t));
        BT_TRY(bt_generate_choose(t->logits, vocab, o->temperature, o->top_k, uniform(o->seed, i),
                                  t->order, &id));
        if (id == o->end) {
            break;
        }
        BT_TRY(listener.token(listener.self, (uint16_t)id));
        append(t, id);
    }
    return BT_OK;
}

bt_status bt_generate(bt_context *context, const bt_gpt2 *model, const bt_generate_options *options,
                      const uint16_t *prompt, int64_t count, bt_generate_listener listener)
{
    text t = {.context = context, .model = model, .options = options};
    BT_TRY(check(model, options, prompt, count));
    bt_status status = open_text(&t, prompt, count);
    if (status == BT_OK) {
        status = write_text(&t, listener);
    }
    close_text(&t);
    return status;
}
