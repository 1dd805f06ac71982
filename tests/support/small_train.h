// tests/support/small_train.h - a plan for a GPT-2 that trains in a second, and text it can learn
#ifndef BT_TESTS_SUPPORT_SMALL_TRAIN_H
#define BT_TESTS_SUPPORT_SMALL_TRAIN_H

#include "framework/train/train.h"

enum { SMALL_STEPS = 12, SMALL_VOCAB = 48, SMALL_TOKENS = 4000 };

// Group set-up and tear-down of cmocka: shards in a folder of their own under /tmp.
int small_corpus_write(void **state);
int small_corpus_remove(void **state);
// CPU, fp32, 2 layers of width 32, 12 steps of 2 micro-batches of 8 x 16 tokens.
bt_train_plan small_train_plan(void);

#endif
