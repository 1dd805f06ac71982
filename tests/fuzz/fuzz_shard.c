// tests/fuzz/fuzz_shard.c - any bytes as a shard file: read by a loader, or refused with a message
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "framework/base/mem.h"
#include "framework/data/loader.h"
#include "framework/data/shard.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

enum { MAX_SEQUENCE = 64, BATCHES = 40 };

static void demand(int holds)
{
    if (!holds) {
        abort();
    }
}

// Every sequence a loader delivers must be a piece of the shard, below the vocabulary.
static void load(const bt_shard *shard, const char *path, uint32_t choice)
{
    const bt_loader_options options = {.shards = &path,
                                       .shard_count = 1,
                                       .micro_batch = 1,
                                       .sequence = 1 + choice % MAX_SEQUENCE,
                                       .vocab = 1 + (choice >> 8) % 65536,
                                       .shuffle = choice & 128,
                                       .seed = choice};
    bt_loader *loader = NULL;
    if (bt_loader_create(&options, &loader) != BT_OK) {
        demand(shard->count <= options.sequence && *bt_error_message());
        return;
    }
    demand(bt_loader_tokens(loader) == shard->count);
    for (int i = 0; i < BATCHES; ++i) {
        int32_t inputs[MAX_SEQUENCE];
        int32_t targets[MAX_SEQUENCE];
        if (bt_loader_next(loader, inputs, targets) != BT_OK) {
            demand(bt_shard_scan(shard, options.vocab) != BT_OK);
            break;
        }
        for (int64_t t = 0; t < options.sequence; ++t) {
            demand(inputs[t] < options.vocab && targets[t] < options.vocab);
            demand(t == 0 || inputs[t] == targets[t - 1]);
        }
    }
    bt_loader_destroy(loader);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    int64_t before = bt_mem_live_count();
    int file = memfd_create("shard", 0);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    demand(file >= 0 && write(file, bytes, size_bytes) == (ssize_t)size_bytes);
    bt_shard shard;
    if (bt_shard_open(path, &shard) == BT_OK) {
        demand((size_t)shard.count * 2 + BT_SHARD_HEADER_BYTES == size_bytes);
        const uint8_t *unused = bytes + 12; // header words that mean nothing choose the options
        load(&shard, path, (uint32_t)unused[0] << 16 | (uint32_t)unused[1] << 8 | unused[2]);
        bt_shard_close(&shard);
    } else {
        demand(*bt_error_message());
    }
    close(file);
    demand(bt_mem_live_count() == before);
    return 0;
}
