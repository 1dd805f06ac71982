// A rank under an MPI launcher: mpirun -n RANKS dist_mpi_ranks
// all|split|slow|large|diverge|abort|silent Exits 0 when its part went as expected.
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "framework/dist/mpi.h"
#include "tests/dist/sweep.h"

static bt_status all(bt_group *group)
{
    sweep how = {0};
    return sweep_all(group, &how, NULL);
}

static bt_status slow(bt_group *group)
{
    sweep how = {.delay_seed = 3, .slow_seed = 17};
    return sweep_all(group, &how, NULL);
}

static bt_status large(bt_group *group)
{
    sweep how = {0};
    return sweep_large(group, &how, NULL);
}

static bt_status expect(bt_status got, const char *words)
{
    if (got != BT_OK && strstr(bt_error_message(), words) != NULL) {
        return BT_OK;
    }
    return bt_error(BT_STATUS_INTERNAL, "expected '%s', got '%s'", words, bt_error_message());
}

static bt_status split(bt_group *group)
{
    sweep how = {0};
    rank_result result = {0};
    bt_group *part = NULL;
    BT_TRY(bt_group_split(group, group->rank % 2, -group->rank, &part));
    bt_status status = sweep_short(part, &how, &result);
    bt_group_destroy(part);
    return status ? status : sweep_short(group, &how, &result);
}

// The rank that detects it first names both calls; the others detect that this rank left.
static bt_status diverge(bt_group *group)
{
    double data[64] = {0};
    BT_TRY(bt_barrier(group, NULL));
    bt_status status = group->rank == 2
                           ? bt_broadcast(group, data, 64, 0, NULL)
                           : bt_all_reduce(group, data, 64, BT_F32, BT_REDUCE_SUM, NULL);
    bool named = strstr(bt_error_message(), "ranks diverge") != NULL &&
                 strstr(bt_error_message(), "broadcast of 64 bytes from rank 0") != NULL;
    return status != BT_OK && named ? BT_OK : expect(status, "closed its connection");
}

static bt_status abort_all(bt_group *group)
{
    if (group->rank == 0) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        bt_group_abort(group, "the loss is NaN");
    }
    bt_status status = bt_barrier(group, NULL);
    return expect(status, group->rank == 0 ? "the loss is NaN" : "closed its connection");
}

static bt_status silent(bt_group *group)
{
    if (group->rank == 1) {
        (void)nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
        return BT_OK;
    }
    return expect(bt_barrier(group, NULL),
                  "in barrier of 0 bytes for rank 1, but received nothing");
}

static const struct {
    const char *name;
    bt_status (*run)(bt_group *group);
    int64_t timeout_ns;
} bodies[] = {
    {"all", all, 20000000000},         {"slow", slow, 20000000000},
    {"split", split, 20000000000},     {"large", large, 20000000000},
    {"diverge", diverge, 20000000000}, {"abort", abort_all, 20000000000},
    {"silent", silent, 1000000000},
};

static bt_status run(const char *name)
{
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; ++i) {
        if (strcmp(bodies[i].name, name) == 0) {
            bt_group *group;
            bt_group *second;
            BT_TRY(bt_group_mpi_join(bodies[i].timeout_ns, &group));
            bt_status twice = bt_group_mpi_join(bodies[i].timeout_ns, &second);
            bt_status status = expect(twice, "has joined its MPI group before");
            status = status ? status : bodies[i].run(group);
            bt_group_destroy(group);
            return status;
        }
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT, "unknown test '%s'", name);
}

int main(int argc, char **argv)
{
    int level = 0;
    // Initialised and finalised here, so that ranks whose group failed still end in order.
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
        return 1;
    }
    bt_status status = run(argc == 2 ? argv[1] : "");
    if (status != BT_OK) {
        (void)fprintf(stderr, "%s: %s\n", argc == 2 ? argv[1] : "", bt_error_message());
    }
    (void)MPI_Finalize();
    return status != BT_OK;
}
