// tests/harness/test_plan_memory.c - the planned memory of a mesh beside what its ranks take
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "harness/plan/plan.h"
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

static uint64_t planned_bytes(const bt_train_plan *p)
{
    const bt_mesh_degrees *mesh = &p->parallel.mesh;
    char text[640];
    bt_json_doc doc = {0};
    const int length = snprintf(
        text, sizeof text,
        "{\"precision\":\"%s\",\"recompute\":\"%s\",\"sequence\":%lld,\"micro_batch\":%lld,"
        "\"tokens_per_step\":%lld,\"model\":{\"layers\":%lld,\"heads\":%lld,\"width\":%lld,"
        "\"vocab\":%lld,\"context\":%lld},\"mesh\":{\"data\":%d,\"tensor\":%d,\"context\":%d,"
        "\"sharding\":\"%s\",\"sequence_parallel\":%s,\"invariant\":0,\"bucket_mb\":%g}}",
        bt_precision_name(p->precision), bt_recompute_mode_name(p->recompute),
        (long long)p->sequence, (long long)p->micro_batch, (long long)p->tokens_per_step,
        (long long)p->model.layers, (long long)p->model.heads, (long long)p->model.width,
        (long long)p->model.vocab, (long long)p->model.context, mesh->data, mesh->tensor,
        mesh->context, bt_sharding_name(p->parallel.sharding),
        p->parallel.sequence_parallel ? "true" : "false", p->parallel.bucket_mb);
    ASSERT_OK(bt_json_parse("train", text, (size_t)length, &doc));
    const uint64_t bytes =
        bt_plan_memory_bytes(doc.root, p->micro_batch, bt_plan_recompute_of(doc.root), true);
    bt_json_doc_release(&doc);
    return bytes;
}

// What is planned is what the fullest rank takes: at most 2 % less, and no tenth more. bf16: 4 %
// less, because the CPU's kernels have a workspace of fp32 operands.
static void ranks_of_a_mesh_take_what_is_planned(void **state)
{
    (void)state;
    static const struct {
        bt_mesh_degrees mesh;
        bt_precision precision;
        int64_t layers, vocab;
        bool sequence_parallel;
        bt_recompute_mode recompute;
    } rows[] = {{{2, 1, 1}, BT_PRECISION_FP32, 2, 4096, false, BT_RECOMPUTE_NONE},
                {{1, 2, 1}, BT_PRECISION_FP32, 2, 4096, false, BT_RECOMPUTE_NONE},
                {{1, 4, 1}, BT_PRECISION_FP32, 4, 512, false, BT_RECOMPUTE_NONE},
                {{1, 1, 4}, BT_PRECISION_FP32, 2, 4096, false, BT_RECOMPUTE_NONE},
                {{1, 1, 2}, BT_PRECISION_FP32, 4, 512, false, BT_RECOMPUTE_NONE},
                {{1, 2, 2}, BT_PRECISION_FP32, 4, 512, false, BT_RECOMPUTE_NONE},
                {{2, 2, 1}, BT_PRECISION_FP32, 2, 4096, false, BT_RECOMPUTE_NONE},
                {{1, 2, 1}, BT_PRECISION_BF16, 4, 512, false, BT_RECOMPUTE_NONE},
                {{1, 1, 2}, BT_PRECISION_BF16, 4, 512, false, BT_RECOMPUTE_NONE},
                {{1, 2, 1}, BT_PRECISION_FP32, 4, 512, true, BT_RECOMPUTE_NONE},
                {{1, 4, 1}, BT_PRECISION_FP32, 8, 512, true, BT_RECOMPUTE_NONE},
                {{1, 4, 1}, BT_PRECISION_BF16, 8, 512, true, BT_RECOMPUTE_NONE},
                {{2, 2, 1}, BT_PRECISION_FP32, 4, 512, true, BT_RECOMPUTE_GELU_LN},
                {{1, 4, 1}, BT_PRECISION_FP32, 8, 512, false, BT_RECOMPUTE_BLOCK},
                {{2, 1, 1}, BT_PRECISION_FP32, 8, 512, false, BT_RECOMPUTE_BLOCK},
                {{1, 4, 1}, BT_PRECISION_FP32, 8, 512, true, BT_RECOMPUTE_BLOCK}};
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
        r.plan.parallel.mesh = mesh;
        r.plan.parallel.sequence_parallel = rows[i].sequence_parallel;
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
        const double share = (double)planned_bytes(&r.plan) / (double)peak_bytes;
        print_message("%d x %d x %d%s, %s: planned %.3f of the peak\n", mesh.data, mesh.tensor,
                      mesh.context, rows[i].sequence_parallel ? " by rows" : "",
                      bt_recompute_mode_name(rows[i].recompute), share);
        assert_true(share >= (rows[i].precision == BT_PRECISION_BF16 ? 0.96 : 0.98));
        assert_true(share <= 1.1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_of_a_mesh_take_what_is_planned)};
    return cmocka_run_group_tests(tests, small_corpus_write, small_corpus_remove);
}
