// framework/train/lab/context.c - training of GPT-2 124M on two context parallel GPUs, compared
// with one
//
//   lab_context_train bf16|tf32|fp32 BATCH SEQUENCE [LAYERS]
//
// Prints tokens a second of the median step: for one GPU (the slower of two that run at the same
// time), then for both with each rotation: the rate as a fraction of twice one GPU's, the largest
// difference of the losses to one GPU's, and the exposed communication of a profiled step.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/rng.h"
#include "framework/data/shard.h"
#include "framework/train/train.h"
#include "tests/dist/gpu_body.h"

enum { RANKS = 2, STEPS = 24, WARM = 8, TOKENS = 4000000, VOCAB = 50257 };

static char shard[] = "/tmp/bt-lab-context-XXXXXX";
static const char *const shards[] = {shard};
static bt_train_plan plan;

typedef struct seen {
    int64_t times_ns[STEPS], exposed_ns;
    int timed;
    double losses[STEPS];
} seen;

static bt_status keep_step(void *self, const bt_train_step *event)
{
    seen *s = self;
    s->losses[event->step] = (double)event->loss;
    if (!event->warmup && !event->profiled) {
        s->times_ns[s->timed++] = event->host_ns;
    }
    return BT_OK;
}

static bt_status keep_range(void *self, const bt_train_range *event)
{
    const char *name = strrchr(event->path, '/');
    ((seen *)self)->exposed_ns +=
        name && strcmp(name, "/communication") == 0 ? event->device_ns : 0;
    return BT_OK;
}

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bt_status train(bt_group *group, bool shares, bt_rotation rotation, seen *s)
{
    bt_train_plan mine = plan;
    bt_train_result result;
    const bt_train_observer observer = {.self = s, .step = keep_step, .range = keep_range};
    *s = (seen){.timed = 0};
    mine.ordinal = group->rank;
    if (shares) {
        mine.parallel = (bt_train_parallel){.group = group,
                                            .mesh = {.context = RANKS},
                                            .rotation = rotation,
                                            .sharding = BT_SHARDING_ZERO1};
    }
    BT_TRY(bt_train_run(&mine, &observer, &result));
    qsort(s->times_ns, (size_t)s->timed, sizeof s->times_ns[0], compare_times);
    return BT_OK;
}

// Tokens a second of the slower rank.
static bt_status rate_of(bt_group *group, const seen *s, double *rate)
{
    int64_t slowest_ns = 0;
    for (int rank = 0; rank < RANKS; ++rank) {
        int64_t time_ns = s->times_ns[s->timed / 2];
        BT_TRY(bt_group_tell(group, &time_ns, sizeof time_ns, rank));
        slowest_ns = time_ns > slowest_ns ? time_ns : slowest_ns;
    }
    *rate = (double)plan.tokens_per_step * 1e9 / (double)slowest_ns;
    return BT_OK;
}

static bt_status body(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    seen alone, shared;
    double single = 0, rate = 0;
    BT_TRY(train(group, false, BT_ROTATION_ALL_GATHER, &alone));
    BT_TRY(rate_of(group, &alone, &single));
    if (group->rank == 0) {
        printf("%-16s %9.0f tok/s\n", "one GPU", single);
    }
    bt_status status = BT_OK;
    for (int rotation = 0; rotation < BT_ROTATION_COUNT && status == BT_OK; ++rotation) {
        double difference = 0;
        status = train(group, true, (bt_rotation)rotation, &shared);
        status = status ? status : rate_of(group, &shared, &rate);
        for (int i = 0; i < STEPS; ++i) {
            difference = fmax(difference, fabs(shared.losses[i] - alone.losses[i]));
        }
        if (group->rank == 0 && status == BT_OK) {
            printf("%-16s %9.0f tok/s  %.3f of two  exposed %.3f ms  losses within %.2g\n",
                   bt_rotation_name((bt_rotation)rotation), rate, rate / (2 * single),
                   (double)shared.exposed_ns / 1e6, difference);
            (void)fflush(stdout);
        }
    }
    return status;
}

static bt_status write_shard(void)
{
    uint16_t *tokens = malloc(TOKENS * sizeof *tokens);
    const int file = mkstemp(shard);
    for (uint64_t i = 0; i < TOKENS; ++i) {
        tokens[i] = (uint16_t)bt_rng_below((bt_rng){7, 1}, i, VOCAB);
    }
    bt_status status = file >= 0 ? bt_shard_write(shard, tokens, TOKENS) : BT_STATUS_IO;
    free(tokens);
    (void)close(file);
    return status;
}

static bt_train_plan plan_of(char **argv, int64_t layers)
{
    const int64_t batch = strtoll(argv[2], NULL, 10), sequence = strtoll(argv[3], NULL, 10);
    bt_train_plan p = {
        .device = "cuda",
        .model = {.layers = layers, .heads = 12, .width = 768, .vocab = 50304, .context = sequence},
        .optimizer = {.lr = 6e-4,
                      .min_lr = 6e-5,
                      .warmup_steps = 5,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .epsilon = 1e-8,
                      .weight_decay = 0.1,
                      .clip = 1.0},
        .train_shards = shards,
        .train_shard_count = 1,
        .micro_batch = batch,
        .sequence = sequence,
        .tokens_per_step = batch * sequence,
        .steps = STEPS,
        .warmup_timing_steps = WARM,
        .profile_steps = 1,
        .seed = 1337};
    (void)bt_precision_parse(argv[1], &p.precision);
    return p;
}

int main(int argc, char **argv)
{
    rank_result results[RANKS_MAX];
    gpu_case what = {.backend = GPU_P2P,
                     .device = "cuda",
                     .engines = true,
                     .timeout_ns = 60000000000,
                     .body = body};
    if (argc < 4) {
        (void)fputs("usage: lab_context_train bf16|tf32|fp32 BATCH SEQUENCE [LAYERS]\n", stderr);
        return 2;
    }
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    (void)setenv("NCCL_NVLS_ENABLE", "0", 1);
    if (write_shard() != BT_OK) {
        (void)fprintf(stderr, "%s\n", bt_error_message());
        return 1;
    }
    plan = plan_of(argv, argc > 4 ? strtoll(argv[4], NULL, 10) : 12);
    run_ranks(RANKS_MEMORY, RANKS, 300000000000, gpu_body, &what, results);
    (void)unlink(shard);
    for (int rank = 0; rank < RANKS; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            (void)fprintf(stderr, "rank %d: %s\n", rank,
                          results[rank].ended ? "ended" : results[rank].message);
            return 1;
        }
    }
    return 0;
}
