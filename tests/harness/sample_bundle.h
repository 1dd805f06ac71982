// tests/harness/sample_bundle.h - three small runs and their bundles, for the tests of bundles
#ifndef BT_TESTS_HARNESS_SAMPLE_BUNDLE_H
#define BT_TESTS_HARNESS_SAMPLE_BUNDLE_H

#include <stddef.h>

#include "harness/bundle/bundle.h"
#include "harness/bundle/content.h"

typedef struct sample_bundle {
    void *bytes;
    size_t size_bytes;
} sample_bundle;

// Run 1: a training case with a loss that is NaN, and telemetry. Run 2: a kernel case and its copy,
// two rounds each, gated against itself. Run 3: the case on two systems, eight rounds each, with
// verdicts of 'ab' and 'replicate'. The commands name paths under /home/lovelace and /mnt.
extern sample_bundle sample_training, sample_kernels, sample_systems;

// For cmocka's group: records the runs in scratch_store (tests/harness/scratch_store.h), with
// programs of tests/support, and exports them.
int sample_bundles_make(void **state);
int sample_bundles_remove(void **state);
// Exports a run of scratch_store; *out is the caller's.
void sample_bundle_export(int64_t run, const bt_bundle_key *key, const char *path,
                          sample_bundle *out);
void sample_bundle_unpack(const sample_bundle *bundle, bt_files *files);

#endif
