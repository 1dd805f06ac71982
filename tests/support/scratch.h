// tests/support/scratch.h - a folder of a test's own, and small files in it
#ifndef BT_TESTS_SUPPORT_SCRATCH_H
#define BT_TESTS_SUPPORT_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

enum { TEST_FOLDER_CAPACITY = 128 };

// Makes a fresh folder $TMPDIR/<name>-XXXXXX, or in /tmp; false if that fails.
bool test_folder_make(const char *name, char path[TEST_FOLDER_CAPACITY]);
// Makes the test's own folder. The text is valid until the next call; a failure fails the test.
const char *test_scratch_make(void);
// Removes the folder and everything in it.
void test_scratch_remove(void);
// The same as the set-up and tear-down of a group of tests.
int test_scratch_setup(void **state);
int test_scratch_teardown(void **state);
// "<scratch>/<name>", in one of 16 buffers that are used in turn.
const char *test_scratch_path(const char *name);
// Writes a file into the scratch folder and returns its path.
const char *test_scratch_write(const char *name, const void *bytes, size_t size_bytes);
// Files in a folder of the scratch folder ("" is itself), without . and ..; -1: no such folder.
int test_scratch_count(const char *folder);

#endif
