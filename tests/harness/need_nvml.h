// tests/harness/need_nvml.h - the made-up NVML of fake_nvml.c, which CTest puts in front of a test
#ifndef BT_TESTS_HARNESS_NEED_NVML_H
#define BT_TESTS_HARNESS_NEED_NVML_H

#include <stdbool.h>

// Skips the test when it is not there, as when the program is run by hand. Returns whether it is
// the one that lacks what old drivers lack.
bool need_fake_nvml(void);

#endif
