// framework/data/loader.c - sequences out of mapped shards, in order or permuted
//
// The permutation is a Feistel network over the smallest 4^k >= n, whose round function is Philox
// keyed by (seed, epoch, round); values >= n are permuted again until they are below n (cycle
// walking). So any sequence of any epoch is found in constant time and memory.
#include "framework/data/loader.h"

#include <string.h>

#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "framework/data/shard.h"

enum { FEISTEL_ROUNDS = 8 };
#define EPOCHS_MOST (INT64_C(1) << 40) // of a cursor to be checked

// Separates the shuffle's random streams from those of parameters, which count from 0.
static const uint64_t SHUFFLE_STREAM = (uint64_t)0x10ad << 48;

struct bt_loader {
    bt_shard *shards; // [shard_count], owned
    int64_t *first;   // [shard_count + 1], owned: index of a shard's first sequence
    int64_t shard_count;
    int64_t micro_batch, sequence, vocab, rank, world, turn;
    int64_t sequences, tokens; // in all shards
    bool shuffle;
    uint64_t seed;
    unsigned half_bits; // of the Feistel network
    bt_loader_cursor cursor;
};

static bt_status check_options(const bt_loader_options *options)
{
    const struct {
        const char *name;
        int64_t value, low, high;
    } ranges[] = {
        {"shard_count", options->shard_count, 1, INT32_MAX},
        {"micro_batch", options->micro_batch, 1, INT32_MAX},
        {"sequence", options->sequence, 1, INT32_MAX},
        {"vocab", options->vocab, 1, INT32_MAX},
        {"world", options->world, 0, INT32_MAX},
        {"rank", options->rank, 0, options->world > 0 ? options->world - 1 : 0},
        {"turn", options->turn, 0, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; ++i) {
        if (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "loader: %s is %lld, allowed: %lld to %lld",
                            ranges[i].name, (long long)ranges[i].value, (long long)ranges[i].low,
                            (long long)ranges[i].high);
        }
    }
    return BT_OK;
}

static int64_t batch_sequences(const bt_loader *loader)
{
    return loader->micro_batch * loader->world;
}

static bt_status open_shards(bt_loader *loader, const char *const *paths)
{
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)loader->shard_count, sizeof *loader->shards, &block));
    loader->shards = block;
    BT_TRY(bt_mem_alloc((size_t)loader->shard_count + 1, sizeof *loader->first, &block));
    loader->first = block;
    for (int64_t i = 0; i < loader->shard_count; ++i) {
        BT_TRY(bt_shard_open(paths[i], &loader->shards[i]));
        int64_t count = loader->shards[i].count;
        loader->tokens += count;
        loader->sequences += count > 0 ? (count - 1) / loader->sequence : 0;
        loader->first[i + 1] = loader->sequences;
    }
    if (loader->sequences < batch_sequences(loader)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s%s: too few tokens: %lld tokens give %lld sequences of %lld + 1 tokens, "
                        "one batch needs %lld (micro_batch %lld x world %lld)",
                        paths[0], loader->shard_count > 1 ? " and the other shards" : "",
                        (long long)loader->tokens, (long long)loader->sequences,
                        (long long)loader->sequence, (long long)batch_sequences(loader),
                        (long long)loader->micro_batch, (long long)loader->world);
    }
    return BT_OK;
}

bt_status bt_loader_create(const bt_loader_options *options, bt_loader **out)
{
    *out = NULL;
    BT_TRY(check_options(options));
    if (!options->shards) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "loader: the list of shards is missing");
    }
    void *block = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_loader), &block));
    bt_loader *loader = block;
    loader->shard_count = options->shard_count;
    loader->micro_batch = options->micro_batch;
    loader->sequence = options->sequence;
    loader->vocab = options->vocab;
    loader->rank = options->rank;
    loader->world = options->world > 0 ? options->world : 1;
    loader->turn = options->turn > 0 ? options->turn : 1;
    loader->shuffle = options->shuffle;
    loader->seed = options->seed;
    bt_status status = open_shards(loader, options->shards);
    if (status != BT_OK) {
        bt_loader_destroy(loader);
        return status;
    }
    loader->half_bits = 1;
    while (loader->half_bits < 31 && (int64_t)1 << (2 * loader->half_bits) < loader->sequences) {
        ++loader->half_bits;
    }
    *out = loader;
    return BT_OK;
}

void bt_loader_destroy(bt_loader *loader)
{
    if (!loader) {
        return;
    }
    for (int64_t i = 0; loader->shards && i < loader->shard_count; ++i) {
        bt_shard_close(&loader->shards[i]);
    }
    bt_mem_free(loader->shards);
    bt_mem_free(loader->first);
    bt_mem_free(loader);
}

static uint64_t feistel(const bt_loader *loader, uint64_t epoch, uint64_t value)
{
    uint64_t mask = ((uint64_t)1 << loader->half_bits) - 1;
    uint64_t left = value >> loader->half_bits;
    uint64_t right = value & mask;
    for (uint64_t round = 0; round < FEISTEL_ROUNDS; ++round) {
        uint32_t words[4];
        bt_rng rng = {loader->seed, SHUFFLE_STREAM + epoch * FEISTEL_ROUNDS + round};
        bt_rng_block(rng, right, words);
        uint64_t next = left ^ (words[0] & mask);
        left = right;
        right = next;
    }
    return left << loader->half_bits | right;
}

// The sequence at `position` of an epoch's order.
static int64_t sequence_at(const bt_loader *loader, int64_t epoch, int64_t position)
{
    if (!loader->shuffle) {
        return position;
    }
    uint64_t value = (uint64_t)position;
    do {
        value = feistel(loader, (uint64_t)epoch, value);
    } while (value >= (uint64_t)loader->sequences);
    return (int64_t)value;
}

// The shard s with first[s] <= index < first[s + 1].
static int64_t shard_of(const bt_loader *loader, int64_t index)
{
    int64_t low = 0;
    int64_t high = loader->shard_count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (loader->first[middle] <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static bt_status fill_sequence(const bt_loader *loader, int64_t index, int32_t *inputs,
                               int32_t *targets)
{
    int64_t at = shard_of(loader, index);
    const bt_shard *shard = &loader->shards[at];
    int64_t start = (index - loader->first[at]) * loader->sequence;
    const uint16_t *tokens = shard->tokens + start;
    uint16_t largest = tokens[loader->sequence];
    for (int64_t i = 0; i < loader->sequence; ++i) {
        largest = tokens[i] > largest ? tokens[i] : largest;
        inputs[i] = tokens[i];
        targets[i] = tokens[i + 1];
    }
    for (int64_t i = 0; largest >= loader->vocab && i <= loader->sequence; ++i) {
        if (tokens[i] >= loader->vocab) {
            return bt_shard_token_error(shard, start + i, loader->vocab);
        }
    }
    return BT_OK;
}

// The first position that many sequences after the start of the current turn; epochs follow each
// other without a gap.
static bt_loader_cursor moved(const bt_loader *loader, int64_t sequences)
{
    const int64_t position = loader->cursor.position + sequences;
    return (bt_loader_cursor){.epoch = loader->cursor.epoch + position / loader->sequences,
                              .position = position % loader->sequences};
}

bt_status bt_loader_next(bt_loader *loader, int32_t *inputs, int32_t *targets)
{
    const int64_t call = loader->rank * loader->turn + loader->cursor.within;
    const int64_t start = call * loader->micro_batch;
    for (int64_t row = 0; row < loader->micro_batch; ++row) {
        const bt_loader_cursor at = moved(loader, start + row);
        int64_t index = sequence_at(loader, at.epoch, at.position);
        BT_TRY(fill_sequence(loader, index, inputs + row * loader->sequence,
                             targets + row * loader->sequence));
    }
    if (++loader->cursor.within == loader->turn) {
        loader->cursor = moved(loader, batch_sequences(loader) * loader->turn);
    }
    return BT_OK;
}

bt_loader_cursor bt_loader_cursor_get(const bt_loader *loader) { return loader->cursor; }

bt_status bt_loader_cursor_set(bt_loader *loader, bt_loader_cursor cursor)
{
    if (cursor.epoch < 0 || cursor.epoch > EPOCHS_MOST || cursor.position < 0 ||
        cursor.position > loader->sequences || cursor.within < 0 || cursor.within >= loader->turn) {
        return bt_error(
            BT_STATUS_INVALID_ARGUMENT,
            "loader: a cursor at epoch %lld, position %lld, call %lld does not fit these shards: "
            "allowed are epochs 0 to 2^40, positions 0 to %lld, calls below %lld",
            (long long)cursor.epoch, (long long)cursor.position, (long long)cursor.within,
            (long long)loader->sequences, (long long)loader->turn);
    }
    loader->cursor = cursor;
    return BT_OK;
}

int64_t bt_loader_tokens(const bt_loader *loader) { return loader->tokens; }

int64_t bt_loader_batches(const bt_loader *loader)
{
    return loader->sequences / batch_sequences(loader);
}
