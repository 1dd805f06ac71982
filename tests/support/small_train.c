// tests/support/small_train.c - token shards with a pattern, and a plan that learns it
#include "tests/support/small_train.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "framework/base/rng.h"
#include "framework/data/shard.h"
#include "tests/support/scratch.h"

static char folder[TEST_FOLDER_CAPACITY];
static char train_path[TEST_FOLDER_CAPACITY + 16], val_path[TEST_FOLDER_CAPACITY + 16];
static const char *const train_shards[] = {train_path};
static const char *const val_shards[] = {val_path};

// Token i+1 is 5 times token i plus noise of 0 to 2, modulo the vocabulary: learnable, not trivial.
static bt_status write_shard(const char *path, uint64_t stream)
{
    static uint16_t tokens[SMALL_TOKENS];
    for (uint64_t i = 1; i < SMALL_TOKENS; ++i) {
        uint64_t noise = bt_rng_below((bt_rng){7, stream}, i, 3);
        tokens[i] = (uint16_t)((5U * tokens[i - 1] + noise) % SMALL_VOCAB);
    }
    return bt_shard_write(path, tokens, SMALL_TOKENS);
}

int small_corpus_write(void **state)
{
    (void)state;
    if (!test_folder_make("bt-test-train", folder)) {
        return 1;
    }
    (void)snprintf(train_path, sizeof train_path, "%s/train.bin", folder);
    (void)snprintf(val_path, sizeof val_path, "%s/val.bin", folder);
    return write_shard(train_path, 0) != BT_OK || write_shard(val_path, 1) != BT_OK;
}

int small_corpus_remove(void **state)
{
    (void)state;
    (void)unlink(train_path);
    (void)unlink(val_path);
    return rmdir(folder);
}

bt_train_plan small_train_plan(void)
{
    return (bt_train_plan){
        .device = "cpu",
        .precision = BT_PRECISION_FP32,
        .model = {.layers = 2, .heads = 2, .width = 32, .vocab = SMALL_VOCAB, .context = 16},
        .optimizer = {.lr = 3e-3,
                      .min_lr = 3e-4,
                      .warmup_steps = 2,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .epsilon = 1e-8,
                      .weight_decay = 0.1,
                      .clip = 1.0},
        .train_shards = train_shards,
        .train_shard_count = 1,
        .val_shards = val_shards,
        .val_shard_count = 1,
        .micro_batch = 8,
        .sequence = 16,
        .tokens_per_step = 256,
        .steps = SMALL_STEPS,
        .warmup_timing_steps = 2,
        .eval_every = 6,
        .eval_batches = 2,
        .profile_steps = 2,
        .seed = 1337};
}
