// tests/support/scratch.c - mkdtemp, nftw
#include "tests/support/scratch.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/environment.h"
#include "framework/base/file.h"
#include "tests/support/test.h"

enum { PATH_CAPACITY = 512, PATH_COUNT = 16 };

static char scratch[TEST_FOLDER_CAPACITY];

bool test_folder_make(const char *name, char path[TEST_FOLDER_CAPACITY])
{
    const char *parent = bt_environment(BT_VARIABLE_TMPDIR);
    int length =
        snprintf(path, TEST_FOLDER_CAPACITY, "%s/%s-XXXXXX", parent ? parent : "/tmp", name);
    return length < TEST_FOLDER_CAPACITY && mkdtemp(path);
}

const char *test_scratch_make(void)
{
    assert_true(test_folder_make("bt-test", scratch));
    return scratch;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

void test_scratch_remove(void)
{
    if (scratch[0]) {
        (void)nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        scratch[0] = '\0';
    }
}

int test_scratch_setup(void **state)
{
    (void)state;
    return test_scratch_make() ? 0 : 1;
}

int test_scratch_teardown(void **state)
{
    (void)state;
    test_scratch_remove();
    return 0;
}

const char *test_scratch_path(const char *name)
{
    static char paths[PATH_COUNT][PATH_CAPACITY];
    static int next;
    char *path = paths[next++ % PATH_COUNT];
    int length = snprintf(path, PATH_CAPACITY, "%s/%s", scratch, name);
    assert_true(length > 0 && length < PATH_CAPACITY);
    return path;
}

const char *test_scratch_write(const char *name, const void *bytes, size_t size_bytes)
{
    const char *path = test_scratch_path(name);
    ASSERT_OK(bt_file_write(path, bytes, size_bytes));
    return path;
}

int test_scratch_count(const char *folder)
{
    DIR *handle = opendir(test_scratch_path(folder));
    if (!handle) {
        return -1;
    }
    int count = 0;
    for (const struct dirent *entry = readdir(handle); entry; entry = readdir(handle)) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    (void)closedir(handle);
    return count;
}
