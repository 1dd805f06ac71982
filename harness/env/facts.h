// harness/env/facts.h - facts of the environment: a list with levels, and a digest of the hard ones
#ifndef BT_HARNESS_ENV_FACTS_H
#define BT_HARNESS_ENV_FACTS_H

#include "harness/env/machine.h"
#include "harness/record/record.h"

typedef struct bt_facts {
    bt_store_fact *rows; // owned, [count], sorted by key when finished; texts are in the arena
    int64_t count, capacity;
    char digest[33]; // over keys and values of hard facts: identifies the environment
    bt_arena arena;
} bt_facts;

// Gathers the facts of machine, system, libraries and program. Unreadable ones are omitted.
// `with_gpu`: also those of the GPU, through NVML if installed, or why there is none.
// Owns    *out: the caller, bt_facts_release
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_facts_gather(const bt_machine *machine, bool with_gpu, bt_facts *out);
// Adds a fact with the level that its key has in facts.inl; an empty value is ignored.
// Errors  INTERNAL for an unknown key
BT_CHECKED bt_status bt_facts_add(bt_facts *facts, const char *key, const char *value);
// The same with an explicit level, for recorded facts.
BT_CHECKED bt_status bt_facts_add_as(bt_facts *facts, const char *key, const char *value,
                                     bt_fact_level level);
// Adds the first line of a file; nothing if it cannot be read.
BT_CHECKED bt_status bt_facts_add_line(bt_facts *facts, const char *key, const char *path);
// Whether a fact identifies one machine or its user, so that it must not be published; unknown
// facts may not be published.
bool bt_fact_is_private(const char *key);
// Sorts the facts and computes the digest. Errors  INVALID_ARGUMENT for a key given twice
BT_CHECKED bt_status bt_facts_finish(bt_facts *facts);
void bt_facts_release(bt_facts *facts);

// Finished facts by level, hard first, fitted to `columns` of a terminal (0: any number); or one
// JSON object.
BT_CHECKED bt_status bt_facts_text(const bt_facts *facts, int columns, bt_str *out);
BT_CHECKED bt_status bt_facts_json(const bt_facts *facts, bt_str *out);

// The parts of bt_facts_gather.
BT_CHECKED bt_status bt_facts_add_host(bt_facts *facts, const bt_machine *machine);
BT_CHECKED bt_status bt_facts_add_software(bt_facts *facts);
BT_CHECKED bt_status bt_facts_add_gpu(bt_facts *facts, const bt_machine *machine);

#endif
