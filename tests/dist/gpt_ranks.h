// tests/dist/gpt_ranks.h - a GPT-2 whose matrices ranks share, and its comparison with one rank's
#ifndef BT_TESTS_DIST_GPT_RANKS_H
#define BT_TESTS_DIST_GPT_RANKS_H

#include "framework/autograd/session.h"
#include "framework/nn/gpt2.h"
#include "framework/ops/aside.h"
#include "framework/ops/row_chunks.h"
#include "tests/dist/ranks.h"

enum { GPT_VOCAB = 61, GPT_CONTEXT = 8, GPT_LAYERS = 3, GPT_BATCH = 2, GPT_BATCH_MAX = 8 };
typedef struct how {
    int64_t heads, width;
    bt_dtype master, compute;
    bt_recompute_mode recompute;
    unsigned slow_seed;
    int64_t tokens;    // of a sequence; 0: 7
    int64_t sequences; // 0: GPT_BATCH
    bool sequence_parallel, half_batches, row_chunks;
} how;

typedef struct gpt {
    bt_session session;
    bt_params params;
    bt_gpt2 model;
    bt_tensor *loss;
    bt_aside *aside;
    bt_row_chunks *chunks;
    int64_t tokens, sequences;
} gpt;

extern const int64_t gpt_timeout_ns;

// Token ids, another sequence for every factor.
bt_status gpt_ids(gpt *g, int factor, bt_tensor **out);
// group NULL: one rank has all.
bt_status gpt_open(gpt *g, const how *with, bt_group *group);
// One pass: loss and gradients.
bt_status gpt_pass(gpt *g);
// Two passes, whose gradients add up. With sequence_parallel the ranks' terms of what all have are
// summed after them.
bt_status gpt_run(gpt *g);
void gpt_close(gpt *g);
// Fails the test where loss, gradients or initial values of the ranks are not one rank's.
void gpt_expect_one_rank(how with, int ranks);

#endif
