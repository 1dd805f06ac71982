#include "harness/launch/inject.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/idioms.h"

static const struct {
    const char *word;
    int signal;
} kinds[] = {{"kill", SIGKILL}, {"stop", SIGSTOP}, {"segv", SIGSEGV}};

bt_status bt_launch_fault_parse(const char *text, int size, bt_launch_fault *out)
{
    char word[16] = "";
    long long rank = -1, step = -1;
    int end = 0;
    *out = (bt_launch_fault){0};
    bool said = sscanf(text, "%15s rank %lld at step %lld%n", word, &rank, &step, &end) == 3;
    said = said && step >= 0;
    if (!said) {
        step = BT_LAUNCH_AT_START;
        end = 0;
        said = sscanf(text, "%15s rank %lld at start%n", word, &rank, &end) == 2 && end > 0;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
        if (strcmp(word, kinds[i].word) == 0) {
            out->signal = kinds[i].signal;
        }
    }
    BT_FAIL_IF(!said || text[end] != '\0' || !out->signal || rank < 0 || rank >= size,
               BT_STATUS_INVALID_ARGUMENT,
               "train.mesh.faults: expected '(kill, stop or segv) rank R at (step S or "
               "start)' with R below %d ranks, got '%s'",
               size, text);
    out->rank = (int)rank;
    out->step = step;
    return BT_OK;
}
