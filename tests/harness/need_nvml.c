// tests/harness/need_nvml.c - known by the version of its driver
#include "tests/harness/need_nvml.h"

#include <string.h>

#include "harness/env/nvml.h"
#include "tests/support/test.h"

bool need_fake_nvml(void)
{
    bt_nvml nvml;
    int error = 0;
    char driver[32] = "";
    if (bt_nvml_open(&nvml, &error)) {
        (void)nvml.driver(driver, sizeof driver);
        bt_nvml_close(&nvml);
    }
    bool old = strcmp(driver, "450.0") == 0;
    if (!old && strcmp(driver, "580.1") != 0) {
        skip();
    }
    return old;
}
