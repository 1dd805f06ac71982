// tests/support/corpus.h - a small rank file of our own, and the optional text folder
#ifndef BT_TESTS_SUPPORT_CORPUS_H
#define BT_TESTS_SUPPORT_CORPUS_H

#include <stddef.h>

// The tokens after the 256 bytes in the small rank file, in rank order; NULL ends it.
extern const char *const test_rank_merges[];
enum { TEST_RANK_MERGES = 15, TEST_RANK_VOCAB = 256 + TEST_RANK_MERGES + 1 };

// Writes the small rank file (ranks 0 to 255 are the bytes in order) into the scratch folder.
const char *test_ranks_write(const char *name);
// Path of a file of the optional text folder ($BT_SHARED_DATA, ../shared/data), or NULL where it
// is absent. Valid until the next call.
const char *test_shared_data(const char *name);
// GPT-2's rank file: of the text folder, or of ci/data/node_modules once it is installed;
// NULL where neither is there.
const char *test_gpt2_ranks(void);

#endif
