// tests/harness/test_plan_memory.c - the planned memory of a rank, and of a mesh's, beside what
// they take
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "harness/plan/plan.h"
#include "kernels/kernels.h"
#include "tests/dist/ranks.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

static const int64_t timeout_ns = 60000000000;

typedef struct run {
    bt_train_plan plan;
    uint64_t peak_bytes[RANKS_MAX];
} run;

static bt_status train(bt_group *group, void *argument, rank_result *result)
{
    run *r = argument;
    bt_train_plan plan = r->plan;
    bt_train_result trained;
    (void)result;
    omp_set_num_threads(1);
    plan.parallel.group = group;
    BT_TRY(bt_train_run(&plan, &(bt_train_observer){0}, &trained));
    r->peak_bytes[group->rank] = trained.peak_allocated_bytes;
    return BT_OK;
}

static uint64_t planned_bytes(const bt_train_plan *p, bool on_gpu)
{
    const bt_mesh_degrees *mesh = &p->parallel.mesh;
    char text[768], more[96] = "";
    bt_json_doc doc = {0};
    if (p->model.family) {
        (void)snprintf(more, sizeof more, ",\"family\":\"%s\",\"kv_heads\":%lld,\"hidden\":%lld",
                       p->model.family, (long long)p->model.kv_heads, (long long)p->model.hidden);
    }
    const int length = snprintf(
        text, sizeof text,
        "{\"precision\":\"%s\",\"recompute\":\"%s\",\"recompute_blocks\":%lld,\"sequence\":%lld,"
        "\"micro_batch\":%lld,"
        "\"tokens_per_step\":%lld,\"model\":{\"layers\":%lld,\"heads\":%lld,\"width\":%lld,"
        "\"vocab\":%lld,\"context\":%lld%s},\"mesh\":{\"data\":%d,\"tensor\":%d,\"context\":%d,"
        "\"sharding\":\"%s\",\"sequence_parallel\":%s,\"row_chunks\":%s,\"shared_heads\":%d,"
        "\"invariant\":0,\"bucket_mb\":%g},"
        "\"checkpoint\":{\"asynchronous\":%s}}",
        bt_precision_name(p->precision), bt_recompute_mode_name(p->recompute),
        (long long)p->recompute_blocks, (long long)p->sequence, (long long)p->micro_batch,
        (long long)p->tokens_per_step, (long long)p->model.layers, (long long)p->model.heads,
        (long long)p->model.width, (long long)p->model.vocab, (long long)p->model.context, more,
        mesh->data, mesh->tensor, mesh->context, bt_sharding_name(p->parallel.sharding),
        p->parallel.sequence_parallel ? "true" : "false", p->parallel.row_chunks ? "true" : "false",
        (int)p->parallel.shared_heads, p->parallel.bucket_mb,
        p->checkpoints.asynchronous ? "true" : "false");
    ASSERT_OK(bt_json_parse("train", text, (size_t)length, &doc));
    const uint64_t bytes =
        bt_plan_memory_bytes(doc.root, p->micro_batch, bt_plan_recompute_of(doc.root), on_gpu);
    bt_json_doc_release(&doc);
    return bytes;
}

#define BY_ROWS                                                                                    \
    {                                                                                              \
        .sequence_parallel = true                                                                  \
    }
#define CHUNKS                                                                                     \
    {                                                                                              \
        .sequence_parallel = true, .row_chunks = true                                              \
    }

// What is planned is what the fullest rank takes: no less, and no tenth more.
static void ranks_of_a_mesh_take_what_is_planned(void **state)
{
    (void)state;
    static const struct {
        bt_mesh_degrees mesh;
        bt_precision precision;
        int64_t layers, vocab;
        bt_train_parallel with;
        bt_recompute_mode recompute;
    } rows[] = {{{2, 1, 1}, BT_PRECISION_FP32, 2, 4096, {0}, BT_RECOMPUTE_NONE},
                {{1, 2, 1}, BT_PRECISION_FP32, 2, 4096, {0}, BT_RECOMPUTE_NONE},
                {{1, 4, 1}, BT_PRECISION_FP32, 4, 512, {0}, BT_RECOMPUTE_NONE},
                {{1, 1, 4}, BT_PRECISION_FP32, 2, 4096, {0}, BT_RECOMPUTE_NONE},
                {{1, 1, 2}, BT_PRECISION_FP32, 4, 512, {0}, BT_RECOMPUTE_NONE},
                {{1, 2, 2}, BT_PRECISION_FP32, 4, 512, {0}, BT_RECOMPUTE_NONE},
                {{2, 2, 1}, BT_PRECISION_FP32, 2, 4096, {0}, BT_RECOMPUTE_NONE},
                {{1, 2, 1}, BT_PRECISION_BF16, 4, 512, {0}, BT_RECOMPUTE_NONE},
                {{1, 1, 2}, BT_PRECISION_BF16, 4, 512, {0}, BT_RECOMPUTE_NONE},
                {{2, 1, 1}, BT_PRECISION_BF16, 2, 4096, {0}, BT_RECOMPUTE_NONE},
                {{1, 1, 4}, BT_PRECISION_BF16, 2, 4096, {0}, BT_RECOMPUTE_NONE},
                {{1, 1, 2}, BT_PRECISION_BF16, 2, 16384, {0}, BT_RECOMPUTE_NONE},
                {{1, 2, 1}, BT_PRECISION_BF16, 2, 4096, {0}, BT_RECOMPUTE_NONE},
                {{1, 2, 1}, BT_PRECISION_FP32, 4, 512, BY_ROWS, BT_RECOMPUTE_NONE},
                {{1, 4, 1}, BT_PRECISION_FP32, 8, 512, BY_ROWS, BT_RECOMPUTE_NONE},
                {{1, 4, 1}, BT_PRECISION_BF16, 8, 512, BY_ROWS, BT_RECOMPUTE_NONE},
                {{2, 2, 1}, BT_PRECISION_FP32, 4, 512, BY_ROWS, BT_RECOMPUTE_GELU_LN},
                {{1, 4, 1}, BT_PRECISION_FP32, 8, 512, {0}, BT_RECOMPUTE_BLOCK},
                {{2, 1, 1}, BT_PRECISION_FP32, 8, 512, {0}, BT_RECOMPUTE_BLOCK},
                {{2, 1, 1}, BT_PRECISION_FP32, 8, 512, {0}, BT_RECOMPUTE_BLOCK_OFFLOAD},
                {{1, 4, 1}, BT_PRECISION_FP32, 8, 512, BY_ROWS, BT_RECOMPUTE_BLOCK},
                {{1, 1, 2}, BT_PRECISION_FP32, 1, 512, {0}, BT_RECOMPUTE_NONE},
                {{1, 1, 4}, BT_PRECISION_FP32, 1, 512, {.shared_heads = 4}, BT_RECOMPUTE_NONE},
                {{1, 1, 4}, BT_PRECISION_FP32, 1, 512, {.shared_heads = 2}, BT_RECOMPUTE_NONE},
                {{1, 2, 1}, BT_PRECISION_FP32, 4, 512, CHUNKS, BT_RECOMPUTE_NONE},
                {{1, 4, 1}, BT_PRECISION_FP32, 8, 512, CHUNKS, BT_RECOMPUTE_NONE},
                {{1, 4, 1}, BT_PRECISION_FP32, 8, 512, CHUNKS, BT_RECOMPUTE_BLOCK}};
    // Under sanitizers every fourth: they are slow, and all rows run in the other builds.
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i += TEST_SANITIZED ? 4 : 1) {
        rank_result results[RANKS_MAX] = {{0}};
        run r = {.plan = small_train_plan()};
        const bt_mesh_degrees mesh = rows[i].mesh;
        const int ranks = mesh.data * mesh.tensor * mesh.context;
        r.plan.precision = rows[i].precision;
        r.plan.model = (bt_model_config){.layers = rows[i].layers,
                                         .heads = 4,
                                         .width = 256,
                                         .vocab = rows[i].vocab,
                                         .context = 128};
        r.plan.sequence = 128;
        r.plan.micro_batch = 4;
        r.plan.tokens_per_step = 2 * mesh.data * r.plan.sequence * r.plan.micro_batch;
        r.plan.steps = 1;
        r.plan.eval_every = r.plan.profile_steps = r.plan.warmup_timing_steps = 0;
        r.plan.parallel = rows[i].with;
        r.plan.parallel.mesh = mesh;
        r.plan.recompute = rows[i].recompute;
        r.plan.parallel.bucket_mb = 1;
        run_ranks(RANKS_THREADS, ranks, timeout_ns, train, &r, results);
        uint64_t peak_bytes = 0;
        for (int rank = 0; rank < ranks; ++rank) {
            if (results[rank].status != BT_OK) {
                fail_msg("rank %d: %s", rank, results[rank].message);
            }
            peak_bytes = r.peak_bytes[rank] > peak_bytes ? r.peak_bytes[rank] : peak_bytes;
        }
        const double share = (double)planned_bytes(&r.plan, false) / (double)peak_bytes;
        print_message("%d x %d x %d%s%s, %d share heads, %s: planned %.3f of the peak\n", mesh.data,
                      mesh.tensor, mesh.context, rows[i].with.sequence_parallel ? " by rows" : "",
                      rows[i].with.row_chunks ? " in chunks" : "", (int)rows[i].with.shared_heads,
                      bt_recompute_mode_name(rows[i].recompute), share);
        assert_true(share >= 1 && share <= 1.1);
    }
}

// What is planned is what one rank takes: no less, and no tenth more. With few parameters
// beside the activations, which without accumulation the gradients replace.
static void one_rank_takes_what_is_planned(void **state)
{
    (void)state;
    static const struct {
        const char *family;
        int64_t layers, kv_heads, hidden;
        bool accumulates;
        bt_recompute_mode recompute;
        int64_t blocks;
        bool narrow;
    } rows[] = {{NULL, 4, 0, 0, false, BT_RECOMPUTE_NONE, 0, false},
                {NULL, 4, 0, 0, false, BT_RECOMPUTE_GELU_LN, 0, false},
                {NULL, 4, 0, 0, false, BT_RECOMPUTE_BLOCK, 0, false},
                {NULL, 4, 0, 0, true, BT_RECOMPUTE_BLOCK, 0, false},
                {NULL, 4, 0, 0, false, BT_RECOMPUTE_BLOCK, 2, false},
                {NULL, 1, 0, 0, false, BT_RECOMPUTE_BLOCK, 0, false},
                {NULL, 4, 0, 0, false, BT_RECOMPUTE_BLOCK_OFFLOAD, 0, false},
                {NULL, 4, 0, 0, true, BT_RECOMPUTE_BLOCK_OFFLOAD, 0, false},
                {"llama", 4, 4, 128, false, BT_RECOMPUTE_NONE, 0, false},
                {"llama", 4, 1, 256, false, BT_RECOMPUTE_NONE, 0, false},
                {"llama", 2, 2, 512, true, BT_RECOMPUTE_NONE, 0, false},
                {NULL, 4, 0, 0, false, BT_RECOMPUTE_NONE, 0, true},
                {NULL, 1, 0, 0, true, BT_RECOMPUTE_NONE, 0, true},
                {NULL, 4, 0, 0, false, BT_RECOMPUTE_BLOCK, 0, true},
                {"llama", 4, 1, 256, false, BT_RECOMPUTE_NONE, 0, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i += TEST_SANITIZED ? 4 : 1) {
        bt_train_plan plan = small_train_plan();
        bt_train_result result;
        plan.model = (bt_model_config){.family = rows[i].family,
                                       .layers = rows[i].layers,
                                       .heads = 4,
                                       .width = 64,
                                       .vocab = 512,
                                       .context = 32,
                                       .kv_heads = rows[i].kv_heads,
                                       .hidden = rows[i].hidden};
        plan.parallel.mesh = (bt_mesh_degrees){1, 1, 1};
        plan.sequence = 32;
        plan.micro_batch = 32;
        plan.tokens_per_step = plan.sequence * plan.micro_batch * (rows[i].accumulates ? 2 : 1);
        plan.steps = 1;
        plan.eval_every = plan.profile_steps = plan.warmup_timing_steps = 0;
        plan.recompute = rows[i].recompute;
        plan.recompute_blocks = rows[i].blocks;
        plan.precision = rows[i].narrow ? BT_PRECISION_BF16 : BT_PRECISION_FP32;
        ASSERT_OK(bt_train_run(&plan, &(bt_train_observer){0}, &result));
        const double share =
            (double)planned_bytes(&plan, false) / (double)result.peak_allocated_bytes;
        print_message("%s of %lld blocks, %s, %s: planned %.3f of the peak\n",
                      rows[i].family ? rows[i].family : "gpt2", (long long)rows[i].layers,
                      bt_precision_name(plan.precision), bt_recompute_mode_name(rows[i].recompute),
                      share);
        assert_true(share >= 1 && share <= 1.1);
    }
}

// What is planned for tiny models, in which the rounding of blocks and workspaces count: no less
// than they take, and no tenth and 64 KiB a thread more.
static void tiny_models_take_no_more_than_planned(void **state)
{
    (void)state;
    static const struct {
        const char *family;
        int64_t layers, width, vocab, sequence, micro_batch;
        bool accumulates, narrow, recomputes;
        int threads;
    } rows[] = {{NULL, 1, 8, 48, 8, 1, false, false, false, 1},
                {NULL, 1, 8, 48, 128, 1, false, false, false, 1},
                {NULL, 1, 8, 48, 128, 1, false, false, false, 4},
                {NULL, 4, 12, 100, 16, 2, true, false, false, 1},
                {NULL, 2, 32, 257, 32, 4, false, false, false, 2},
                {NULL, 1, 66, 4001, 16, 2, false, false, false, 1}, // an embedding above 1 MiB
                {NULL, 1, 8, 48, 8, 1, false, true, false, 1},
                {NULL, 2, 16, 1000, 8, 4, true, true, false, 2},
                {NULL, 4, 48, 100, 128, 5, false, true, true, 64},
                {"llama", 1, 8, 48, 8, 1, false, false, false, 1},
                {"llama", 2, 16, 48, 128, 1, true, false, false, 4},
                {"llama", 2, 8, 257, 8, 2, false, true, false, 1},
                {"llama", 2, 32, 1000, 32, 4, true, true, false, 2}};
    const int threads = omp_get_max_threads();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i += TEST_SANITIZED ? 3 : 1) {
        bt_train_plan plan = small_train_plan();
        bt_train_result result;
        plan.model = (bt_model_config){.family = rows[i].family,
                                       .layers = rows[i].layers,
                                       .heads = 2,
                                       .width = rows[i].width,
                                       .vocab = rows[i].vocab,
                                       .context = rows[i].sequence,
                                       .kv_heads = rows[i].family ? 2 : 0,
                                       .hidden = rows[i].family ? 3 * rows[i].width : 0};
        plan.parallel.mesh = (bt_mesh_degrees){1, 1, 1};
        plan.sequence = rows[i].sequence;
        plan.micro_batch = rows[i].micro_batch;
        plan.tokens_per_step = plan.sequence * plan.micro_batch * (rows[i].accumulates ? 3 : 1);
        plan.steps = 2;
        plan.eval_every = plan.profile_steps = plan.warmup_timing_steps = 0;
        plan.precision = rows[i].narrow ? BT_PRECISION_BF16 : BT_PRECISION_FP32;
        plan.recompute = rows[i].recomputes ? BT_RECOMPUTE_BLOCK : BT_RECOMPUTE_NONE;
        omp_set_num_threads(rows[i].threads);
        ASSERT_OK(bt_train_run(&plan, &(bt_train_observer){0}, &result));
        const double planned = (double)planned_bytes(&plan, false);
        const double peak = (double)result.peak_allocated_bytes;
        if (!(planned >= peak && planned <= 1.1 * peak + 65536 * rows[i].threads)) {
            fail_msg("row %zu: planned %.0f bytes, took %.0f", i, planned, peak);
        }
    }
    omp_set_num_threads(threads);
}

static bt_train_plan plan_of(bt_mesh_degrees mesh, bt_sharding sharding)
{
    bt_train_plan plan = small_train_plan();
    plan.model =
        (bt_model_config){.layers = 2, .heads = 4, .width = 256, .vocab = 50000, .context = 1024};
    plan.sequence = 1024;
    plan.micro_batch = 16;
    plan.tokens_per_step = mesh.data * plan.sequence * plan.micro_batch;
    plan.parallel.mesh = mesh;
    plan.parallel.sharding = sharding;
    plan.parallel.bucket_mb = 25;
    return plan;
}

// What a GPU has more than a CPU rank: slots for the gradients of other ranks, 4 bytes a parameter,
// and the state that an asynchronous save copies, 12 bytes, unless ranks have parts of it; the
// launcher of several ranks without checkpoints keeps it so. A CPU rank has a little that is
// planned for CPUs only.
static void ranks_on_gpus_have_slots_and_snapshots(void **state)
{
    (void)state;
    static const struct {
        bt_mesh_degrees mesh;
        bt_sharding sharding;
        bool asynchronous;
        double bytes_a_parameter;
    } rows[] = {{{1, 1, 1}, BT_SHARDING_ZERO1, false, 0}, {{1, 1, 1}, BT_SHARDING_ZERO1, true, 12},
                {{2, 1, 1}, BT_SHARDING_ZERO1, true, 4},  {{1, 1, 2}, BT_SHARDING_ZERO3, true, 4},
                {{2, 1, 1}, BT_SHARDING_DDP, true, 16},   {{2, 1, 1}, BT_SHARDING_DDP, false, 16},
                {{2, 1, 1}, BT_SHARDING_ZERO2, true, 0},  {{3, 1, 1}, BT_SHARDING_ZERO1, true, 0},
                {{1, 2, 1}, BT_SHARDING_ZERO1, true, 0},  {{2, 2, 1}, BT_SHARDING_ZERO1, false, 2}};
    const double positions = 1024 * 256;
    const double padding = 4.0 * 28 * BT_SQUARES_BLOCK / 2; // half a block for each of 28 tensors
    const double of_cpu = 3 << 20;
    const double parameters = 2 * (12 * 256 * 256 + 13 * 256) + 50000 * 256 + positions + 512;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        bt_train_plan plan = plan_of(rows[i].mesh, rows[i].sharding);
        plan.checkpoints.asynchronous = rows[i].asynchronous;
        const double more =
            (double)planned_bytes(&plan, true) - (double)planned_bytes(&plan, false);
        // The first of two tensor parallel ranks has all positions.
        const double held = parameters + (rows[i].mesh.tensor > 1 ? positions : 0);
        const double expected = rows[i].bytes_a_parameter * held;
        if (!(more >= expected - of_cpu && more <= expected + padding)) {
            fail_msg("row %zu: %.0f bytes more on a GPU, expected %.0f", i, more, expected);
        }
    }
}

// Ranks that share a vocabulary have the logits of all rows at once; one rank has some at a time.
static void shared_logits_are_planned_whole(void **state)
{
    (void)state;
    uint64_t bytes[2][2]; // by degree and micro-batch
    for (int shared = 0; shared < 2; ++shared) {
        for (int doubled = 0; doubled < 2; ++doubled) {
            const bt_mesh_degrees mesh = {1, 1 + shared, 1};
            bt_train_plan plan = plan_of(mesh, BT_SHARDING_ZERO1);
            plan.micro_batch *= 2 * (1 + doubled);
            plan.tokens_per_step = plan.sequence * plan.micro_batch;
            bytes[shared][doubled] = planned_bytes(&plan, false);
        }
    }
    const double logits = 4.0 * 32 * 1024 * 50000 / 2; // of the rows that come in addition
    assert_true((double)(bytes[1][1] - bytes[1][0]) > logits);
    assert_true((double)(bytes[0][1] - bytes[0][0]) < logits);
}

int main(void)
{
    omp_set_num_threads(1); // as ranks have
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_takes_what_is_planned),
        cmocka_unit_test(tiny_models_take_no_more_than_planned),
        cmocka_unit_test(ranks_of_a_mesh_take_what_is_planned),
        cmocka_unit_test(ranks_on_gpus_have_slots_and_snapshots),
        cmocka_unit_test(shared_logits_are_planned_whole),
    };
    return cmocka_run_group_tests(tests, small_corpus_write, small_corpus_remove);
}
