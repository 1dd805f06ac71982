// harness/env/gather.c - all facts of this machine
#include <string.h>

#include "harness/env/facts.h"

bt_status bt_facts_gather(const bt_machine *machine, bool with_gpu, bt_facts *out)
{
    memset(out, 0, sizeof *out);
    bt_status status = bt_facts_add_host(out, machine);
    BT_IF_OK(status, bt_facts_add_software(out));
    if (status == BT_OK && with_gpu) {
        status = machine->has_cuda ? bt_facts_add_gpu(out, machine)
                                   : bt_facts_add(out, "gpu.unavailable", machine->cuda_reason);
    }
    if (status != BT_OK) {
        bt_facts_release(out);
    }
    return status;
}
