#include "harness/launch/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/environment.h"
#include "framework/base/idioms.h"

enum { FIRST_PORT = 20000, PORTS = 20000 };

// A row for each launcher. job and step: together they identify one start; nodes: a list of hosts,
// the first of which has rank 0. BT_VARIABLE_COUNT: no such variable.
static const struct {
    const char *name;
    bt_variable rank, size, local_rank, job, step, nodes, local_size;
    int port_step; // torchrun itself listens at MASTER_PORT
} launchers[] = {
    {"torchrun", BT_VARIABLE_RANK, BT_VARIABLE_WORLD_SIZE, BT_VARIABLE_LOCAL_RANK,
     BT_VARIABLE_TORCHELASTIC_RUN_ID, BT_VARIABLE_COUNT, BT_VARIABLE_COUNT,
     BT_VARIABLE_LOCAL_WORLD_SIZE, 1},
    {"SLURM", BT_VARIABLE_SLURM_PROCID, BT_VARIABLE_SLURM_STEP_NUM_TASKS, BT_VARIABLE_SLURM_LOCALID,
     BT_VARIABLE_SLURM_JOB_ID, BT_VARIABLE_SLURM_STEP_ID, BT_VARIABLE_SLURM_STEP_NODELIST,
     BT_VARIABLE_COUNT, 0},
    {"Open MPI", BT_VARIABLE_OMPI_COMM_WORLD_RANK, BT_VARIABLE_OMPI_COMM_WORLD_SIZE,
     BT_VARIABLE_OMPI_COMM_WORLD_LOCAL_RANK, BT_VARIABLE_PMIX_NAMESPACE, BT_VARIABLE_COUNT,
     BT_VARIABLE_COUNT, BT_VARIABLE_OMPI_COMM_WORLD_LOCAL_SIZE, 0},
};

static const char *value_of(bt_variable variable)
{
    return variable < BT_VARIABLE_COUNT ? bt_environment(variable) : NULL;
}

static bt_status read_number(bt_variable variable, long least, long most, int *out)
{
    const char *text = value_of(variable);
    char *end = NULL;
    const long value = text ? strtol(text, &end, 10) : -1;
    BT_FAIL_IF(!text || end == text || *end || value < least || value > most,
               BT_STATUS_INVALID_ARGUMENT, "%s is %s, expected %ld to %ld",
               bt_environment_row(variable)->name, text ? text : "not set", least, most);
    *out = (int)value;
    return BT_OK;
}

// Continues FNV-1a from `value`.
static uint64_t hash(uint64_t value, const char *text)
{
    for (; *text; ++text) {
        value = (value ^ (unsigned char)*text) * 0x100000001b3;
    }
    return value;
}

bool bt_world_first_host(const char *list, char *host, size_t capacity)
{
    const size_t name = strcspn(list, "[,");
    if (list[name] != '[') {
        return name > 0 && snprintf(host, capacity, "%.*s", (int)name, list) < (int)capacity;
    }
    const char *number = list + name + 1;
    const size_t digits = strcspn(number, "-,]");
    return digits > 0 && strchr(number, ']') != NULL &&
           snprintf(host, capacity, "%.*s%.*s", (int)name, list, (int)digits, number) <
               (int)capacity;
}

static bt_status find_host(size_t row, bt_world *out)
{
    const char *master = bt_environment(BT_VARIABLE_MASTER_ADDR);
    const char *nodes = value_of(launchers[row].nodes);
    int local_size = 0;
    if (master) {
        (void)snprintf(out->host, sizeof out->host, "%s", master);
        return BT_OK;
    }
    if (nodes && bt_world_first_host(nodes, out->host, sizeof out->host)) {
        return BT_OK;
    }
    if (value_of(launchers[row].local_size)) {
        BT_TRY(read_number(launchers[row].local_size, 1, 1024, &local_size));
    }
    if (local_size == out->size) {
        (void)snprintf(out->host, sizeof out->host, "127.0.0.1");
        return BT_OK;
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "%s started %d ranks on several hosts but does not give the host of rank 0: "
                    "set MASTER_ADDR to that host",
                    launchers[row].name, out->size);
}

static bt_status read_launcher(size_t row, bt_world *out)
{
    BT_TRY(read_number(launchers[row].size, 1, 1024, &out->size));
    if (out->size == 1) {
        return BT_OK;
    }
    BT_TRY(read_number(launchers[row].rank, 0, out->size - 1, &out->rank));
    BT_TRY(read_number(launchers[row].local_rank, 0, out->size - 1, &out->local_rank));
    BT_TRY(find_host(row, out));
    const char *job = value_of(launchers[row].job), *step = value_of(launchers[row].step);
    out->job = hash(hash(0xcbf29ce484222325, job ? job : out->host), step ? step : "");
    out->port = FIRST_PORT + (int)(out->job % PORTS);
    if (bt_environment(BT_VARIABLE_MASTER_PORT)) {
        BT_TRY(read_number(BT_VARIABLE_MASTER_PORT, 1, 65535 - 1, &out->port));
        out->port += launchers[row].port_step;
    }
    out->launcher = launchers[row].name;
    out->size_variable = bt_environment_row(launchers[row].size)->name;
    return BT_OK;
}

bt_status bt_world_read(bt_world *out)
{
    *out = (bt_world){.size = 1};
    for (size_t row = 0; row < sizeof launchers / sizeof launchers[0]; ++row) {
        if (value_of(launchers[row].rank) && value_of(launchers[row].size)) {
            return bt_error_context(read_launcher(row, out), "%s", launchers[row].name);
        }
    }
    return BT_OK;
}
