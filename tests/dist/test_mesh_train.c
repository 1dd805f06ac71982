// Training on meshes of data and tensor parallel ranks: losses of one rank, one set of bits for
// every number of data parallel ranks, checkpoints that any mesh loads.
#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/dist/flight.h"
#include "tests/dist/ranks.h"
#include "tests/support/scratch.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { STEPS = TEST_SANITIZED ? 3 : 4, BATCHES = TEST_SANITIZED ? 4 : 8 };
static const int64_t timeout_ns = 60000000000;

// A loss is a mean of sums of a few hundred terms in another order: LOSS_ROUNDINGS eps. The norm is
// that of gradients whose elements differ so much each, and after an update also by how often a
// gradient near zero changed its sign, which moves a weight by 2 lr: NORM_ROUNDINGS eps.
enum { LOSS_ROUNDINGS = 512, NORM_ROUNDINGS = 8192 };

typedef struct run {
    bt_train_plan plan;
    float losses[STEPS], norms[STEPS]; // of the last rank that ended: all have the same
    int64_t parameters, tensors, first_step;
    char digest[33];
} run;

static bt_train_plan base_plan(void)
{
    bt_train_plan plan = small_train_plan();
    plan.model.heads = 4;
    plan.micro_batch = 2;
    plan.tokens_per_step = BATCHES * 2 * 16;
    plan.steps = STEPS;
    plan.profile_steps = 0;
    plan.eval_every = 0;
    plan.parallel.bucket_mb = 0.25;
    plan.parallel.invariant = BATCHES;
    return plan;
}

static bt_status keep_step(void *self, const bt_train_step *event)
{
    run *r = self;
    r->losses[event->step] = event->loss;
    r->norms[event->step] = event->grad_norm;
    return BT_OK;
}

static bt_status keep_start(void *self, const bt_train_start *event)
{
    run *r = self;
    r->parameters = event->parameters;
    r->tensors = event->tensors;
    r->first_step = event->first_step;
    return BT_OK;
}

static bt_status train(bt_group *group, void *argument, rank_result *result)
{
    run r = *(const run *)argument;
    bt_train_result trained;
    const bt_train_observer observer = {.self = &r, .step = keep_step, .start = keep_start};
    omp_set_num_threads(1);
    r.plan.parallel.group = group;
    BT_TRY(bt_train_run(&r.plan, &observer, &trained));
    (void)snprintf(r.digest, sizeof r.digest, "%s", trained.state_digest);
    if (!group || group->rank == group->size - 1) {
        *(run *)argument = r;
    }
    result->digest = 0xcbf29ce484222325;
    for (const char *c = trained.state_digest; *c; ++c) {
        result->digest = (result->digest ^ (unsigned char)*c) * 0x100000001b3;
    }
    return BT_OK;
}

static void train_by(run *r, bt_mesh_degrees mesh)
{
    rank_result results[RANKS_MAX] = {{0}};
    const int ranks = mesh.data * mesh.tensor * mesh.context;
    r->plan.parallel.mesh = mesh;
    if (ranks == 1) {
        ASSERT_OK(train(NULL, r, results));
        return;
    }
    run_ranks(RANKS_THREADS, ranks, timeout_ns, train, r, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].status != BT_OK) {
            fail_msg("rank %d of %d x %d x %d: %s", rank, mesh.data, mesh.tensor, mesh.context,
                     results[rank].message);
        }
        assert_true(results[rank].digest == results[0].digest);
    }
}

static void train_on(run *r, int data, int tensor)
{
    train_by(r, (bt_mesh_degrees){.data = data, .tensor = tensor, .context = 1});
}

static void expect_close(const run *one, const run *other, double loss_bound, double norm_bound)
{
    for (int step = 0; step < STEPS; ++step) {
        const double loss = (double)one->losses[step], norm = (double)one->norms[step];
        assert_true(fabs((double)other->losses[step] - loss) <= loss_bound * loss);
        assert_true(fabs((double)other->norms[step] - norm) <= norm_bound * norm);
    }
}

// ---- losses -------------------------------------------------------------------------------------

static void every_mesh_has_the_losses_of_one_rank(void **state)
{
    (void)state;
    static const struct {
        int data, tensor;
        bt_sharding sharding;
    } rows[] = {{1, 2, BT_SHARDING_ZERO1}, {1, 4, BT_SHARDING_ZERO1}, {1, 3, BT_SHARDING_DDP},
                {2, 2, BT_SHARDING_DDP},   {2, 2, BT_SHARDING_ZERO1}, {2, 2, BT_SHARDING_ZERO2},
                {2, 2, BT_SHARDING_ZERO3}};
    run one = {.plan = base_plan()};
    train_on(&one, 1, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        run mesh = {.plan = base_plan()};
        mesh.plan.parallel.sharding = rows[i].sharding;
        train_on(&mesh, rows[i].data, rows[i].tensor);
        assert_int_equal(mesh.parameters, one.parameters);
        assert_int_equal(mesh.tensors, one.tensors);
        expect_close(&one, &mesh, LOSS_ROUNDINGS * (double)FLT_EPSILON,
                     NORM_ROUNDINGS * (double)FLT_EPSILON);
    }
}

// Ranks that share sequences beside those that share matrices; there are no virtual shards then.
static void sequences_and_matrices_are_shared_together(void **state)
{
    (void)state;
    static const bt_mesh_degrees rows[] = {{1, 1, 2}, {1, 2, 2}, {2, 2, 2}};
    run one = {.plan = base_plan()};
    one.plan.parallel.invariant = 0;
    train_on(&one, 1, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        run mesh = {.plan = one.plan};
        mesh.plan.parallel.sharding = BT_SHARDING_ZERO1;
        train_by(&mesh, rows[i]);
        expect_close(&one, &mesh, LOSS_ROUNDINGS * (double)FLT_EPSILON,
                     NORM_ROUNDINGS * (double)FLT_EPSILON);
    }
}

// Rows of the residual stream that tensor parallel ranks share, in every kind of mesh. In front of
// the first update the loss is that of tensor parallel alone, to the bit.
static void rows_are_shared_in_every_mesh(void **state)
{
    (void)state;
    static const struct {
        bt_mesh_degrees mesh;
        bt_sharding sharding;
        bt_precision precision;
    } rows[] = {{{1, 2, 1}, BT_SHARDING_ZERO1, BT_PRECISION_FP32},
                {{1, 4, 1}, BT_SHARDING_DDP, BT_PRECISION_FP32},
                {{2, 2, 1}, BT_SHARDING_ZERO2, BT_PRECISION_FP32},
                {{2, 2, 1}, BT_SHARDING_ZERO3, BT_PRECISION_FP32},
                {{1, 2, 2}, BT_SHARDING_ZERO1, BT_PRECISION_FP32},
                {{2, 2, 2}, BT_SHARDING_ZERO1, BT_PRECISION_FP32},
                {{1, 2, 1}, BT_SHARDING_ZERO1, BT_PRECISION_BF16}};
    run one = {.plan = base_plan()};
    one.plan.parallel.invariant = 0;
    train_on(&one, 1, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        run whole = {.plan = one.plan}, dealt = {.plan = one.plan};
        whole.plan.precision = dealt.plan.precision = rows[i].precision;
        whole.plan.parallel.sharding = dealt.plan.parallel.sharding = rows[i].sharding;
        dealt.plan.parallel.sequence_parallel = true;
        train_by(&whole, rows[i].mesh);
        train_by(&dealt, rows[i].mesh);
        assert_memory_equal(&dealt.losses[0], &whole.losses[0], sizeof dealt.losses[0]);
        if (rows[i].precision == BT_PRECISION_FP32) { // bf16 is bounded in dist.tensor_parallel
            expect_close(&one, &dealt, LOSS_ROUNDINGS * (double)FLT_EPSILON,
                         NORM_ROUNDINGS * (double)FLT_EPSILON);
        }
    }
}

static void half_batches_have_the_losses_of_one_rank(void **state)
{
    (void)state;
    static const bt_mesh_degrees rows[] = {{1, 2, 1}, {2, 2, 1}, {1, 2, 2}};
    run one = {.plan = base_plan()};
    one.plan.parallel.invariant = 0;
    train_on(&one, 1, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        run mesh = {.plan = one.plan};
        mesh.plan.parallel.half_batches = true;
        train_by(&mesh, rows[i]);
        expect_close(&one, &mesh, LOSS_ROUNDINGS * (double)FLT_EPSILON,
                     NORM_ROUNDINGS * (double)FLT_EPSILON);
    }
}

// The losses of one rank in every kind of mesh; in front of the first update the loss of sequence
// parallel up to the rounding of products, whose rows BLAS may round by where they are.
static void chunks_have_the_losses_of_one_rank(void **state)
{
    (void)state;
    static const struct {
        bt_mesh_degrees mesh;
        bt_sharding sharding;
        bt_recompute_mode recompute;
    } rows[] = {{{1, 2, 1}, BT_SHARDING_ZERO1, BT_RECOMPUTE_NONE},
                {{1, 4, 1}, BT_SHARDING_DDP, BT_RECOMPUTE_GELU_LN},
                {{2, 2, 1}, BT_SHARDING_ZERO3, BT_RECOMPUTE_NONE},
                {{1, 2, 2}, BT_SHARDING_ZERO1, BT_RECOMPUTE_BLOCK}};
    run one = {.plan = base_plan()};
    one.plan.parallel.invariant = 0;
    train_on(&one, 1, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        run mesh = {.plan = one.plan}, again = {.plan = one.plan};
        mesh.plan.recompute = rows[i].recompute;
        mesh.plan.parallel.sharding = rows[i].sharding;
        mesh.plan.parallel.sequence_parallel = mesh.plan.parallel.row_chunks = true;
        again.plan = mesh.plan;
        train_by(&mesh, rows[i].mesh);
        train_by(&again, rows[i].mesh);
        expect_close(&one, &mesh, LOSS_ROUNDINGS * (double)FLT_EPSILON,
                     NORM_ROUNDINGS * (double)FLT_EPSILON);
        assert_memory_equal(again.losses, mesh.losses, sizeof mesh.losses);
        assert_memory_equal(again.norms, mesh.norms, sizeof mesh.norms);
    }
}

// Collectives of the first of two tensor parallel ranks that share rows.
static bt_status count_calls(bt_group *group, void *argument, rank_result *result)
{
    bt_flight flight;
    int fd = -1;
    BT_TRY(bt_flight_create(group->rank, group->size, 0, &fd, &flight));
    group->flight = &flight;
    bt_status status = train(group, argument, result);
    result->digest = atomic_load(&flight.board->calls);
    group->flight = NULL;
    bt_flight_detach(&flight);
    (void)close(fd);
    return status;
}

static uint64_t calls_of(int64_t layers, int64_t steps)
{
    rank_result results[2];
    run r = {.plan = base_plan()};
    r.plan.model.layers = layers;
    r.plan.steps = steps;
    r.plan.parallel.bucket_mb = 4; // all normalisations
    r.plan.parallel.mesh = (bt_mesh_degrees){.data = 1, .tensor = 2, .context = 1};
    r.plan.parallel.sequence_parallel = true;
    run_ranks(RANKS_THREADS, 2, timeout_ns, count_calls, &r, results);
    for (int rank = 0; rank < 2; ++rank) {
        assert_int_equal(results[rank].status, BT_OK);
    }
    return results[0].digest;
}

// A layer's exchanges are those of rows alone, four in each direction: gradients of all
// normalisations are summed together, after the backward.
static void normalisations_add_no_exchange(void **state)
{
    (void)state;
    enum { EXCHANGES = 8 };
    const uint64_t three = calls_of(3, 2) - calls_of(3, 1), two = calls_of(2, 2) - calls_of(2, 1);
    assert_int_equal(three - two, EXCHANGES * BATCHES);
}

// The control of the bounds: another seed is far outside of them.
static void another_model_is_told_apart(void **state)
{
    (void)state;
    run one = {.plan = base_plan()}, other = {.plan = base_plan()};
    other.plan.seed += 1;
    train_on(&one, 1, 1);
    train_on(&other, 1, 2);
    const double loss = (double)one.losses[0];
    assert_false(fabs((double)other.losses[0] - loss) <=
                 LOSS_ROUNDINGS * (double)FLT_EPSILON * loss);
}

// ---- bits ---------------------------------------------------------------------------------------

static void expect_bits_of_any_data_ranks(bool sequence_parallel)
{
    static const struct {
        int data;
        bt_sharding sharding;
    } rows[] = {{2, BT_SHARDING_DDP}, {4, BT_SHARDING_ZERO1}, {2, BT_SHARDING_ZERO3}};
    static const bt_precision precisions[] = {BT_PRECISION_FP32, BT_PRECISION_BF16};
    for (int p = 0; p < 2; ++p) {
        run first = {.plan = base_plan()};
        first.plan.precision = precisions[p];
        first.plan.parallel.sequence_parallel = sequence_parallel;
        train_on(&first, 1, 2);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
            run next = {.plan = base_plan()};
            next.plan.precision = precisions[p];
            next.plan.parallel.sharding = rows[i].sharding;
            next.plan.parallel.sequence_parallel = sequence_parallel;
            train_on(&next, rows[i].data, 2);
            assert_string_equal(next.digest, first.digest);
            assert_memory_equal(next.losses, first.losses, sizeof first.losses);
            assert_memory_equal(next.norms, first.norms, sizeof first.norms);
        }
    }
}

static void bits_do_not_depend_on_data_parallel_ranks(void **state)
{
    (void)state;
    expect_bits_of_any_data_ranks(false);
    expect_bits_of_any_data_ranks(true);
}

// ---- checkpoints --------------------------------------------------------------------------------

enum { SAVED_STEP = 2 };

static void save_on(const char *folder, int data, int tensor, run *r)
{
    *r = (run){.plan = base_plan()};
    r->plan.steps = SAVED_STEP;
    r->plan.optimizer.decay_steps = STEPS;
    r->plan.parallel.sharding = BT_SHARDING_ZERO1;
    r->plan.parallel.sequence_parallel = tensor == 2;
    r->plan.checkpoints = (bt_train_checkpoints){.folder = folder, .at_end = true};
    train_on(r, data, tensor);
}

// A run that has nothing left to do has the state that it loaded.
static void expect_same_state(const char *folder, int data, int tensor, const run *saved)
{
    run same = *saved;
    same.plan.checkpoints = (bt_train_checkpoints){.folder = folder, .resume = true};
    train_on(&same, data, tensor);
    assert_int_equal(same.first_step, SAVED_STEP);
    assert_string_equal(same.digest, saved->digest);
}

// A resumed run has the losses of the run that was not stopped.
static void go_on(const char *folder, int data, int tensor, const run *whole)
{
    run longer = *whole;
    longer.plan.checkpoints = (bt_train_checkpoints){.folder = folder, .resume = true};
    longer.plan.parallel.sharding = BT_SHARDING_ZERO1;
    longer.plan.parallel.sequence_parallel = !whole->plan.parallel.sequence_parallel;
    train_on(&longer, data, tensor);
    expect_close(whole, &longer, LOSS_ROUNDINGS * (double)FLT_EPSILON,
                 NORM_ROUNDINGS * (double)FLT_EPSILON);
}

static void checkpoints_move_between_meshes(void **state)
{
    (void)state;
    static const int from[][2] = {{1, 1}, {2, 2}, {1, 3}}, to[][2] = {{1, 1}, {1, 2}, {2, 2}},
                     next[][2] = {{1, 2}, {1, 4}, {2, 1}};
    run whole = {.plan = base_plan()};
    whole.plan.optimizer.decay_steps = STEPS;
    train_on(&whole, 1, 1);
    for (size_t i = 0; i < sizeof from / sizeof *from; ++i) {
        run saved;
        const char *folder = test_scratch_make();
        save_on(folder, from[i][0], from[i][1], &saved);
        for (size_t j = 0; j < sizeof to / sizeof *to; ++j) {
            expect_same_state(folder, to[j][0], to[j][1], &saved);
        }
        go_on(folder, next[i][0], next[i][1], &whole);
        test_scratch_remove();
    }
}

// ---- what is refused ----------------------------------------------------------------------------

static void what_a_mesh_cannot_do_is_named(void **state)
{
    (void)state;
    const bt_group_backend host = {.name = "host"};
    bt_group group = {.backend = &host, .size = 4};
    bt_train_plan plan = base_plan();
    plan.parallel.group = &group;
    plan.parallel.mesh = (bt_mesh_degrees){.data = 3, .tensor = 2};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "train.mesh is data 3 x tensor 2 x context 1",
                 bt_train_check(&plan));
    plan.parallel.mesh = (bt_mesh_degrees){.tensor = 4};
    plan.compile = true;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                 "train.compile needs the whole model on each rank, but train.mesh.tensor is 4",
                 bt_train_check(&plan));
    plan.compile = false;
    plan.model.heads = 2;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "train.mesh.tensor is 4, but train.model.heads is 2",
                 bt_train_check(&plan));
    plan.model.heads = 4;
    ASSERT_OK(bt_train_check(&plan));
    const int64_t vocab = plan.model.vocab;
    plan.model.vocab = 6; // two rows on each of the first three ranks
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "train.mesh.tensor is 4, and train.model.vocab is 6",
                 bt_train_check(&plan));
    plan.model.vocab = 7;
    ASSERT_OK(bt_train_check(&plan));
    plan.model.vocab = vocab;
    plan.model.family = "llama";
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                 "train.mesh.tensor is 4, but models of family llama cannot be split",
                 bt_train_check(&plan));
    plan.parallel.mesh = (bt_mesh_degrees){.context = 4};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                 "train.mesh.context is 4, but sequences of family llama cannot be split",
                 bt_train_check(&plan));
    plan.parallel.mesh = (bt_mesh_degrees){.data = 4};
    ASSERT_OK(bt_train_check(&plan));
    plan.model.family = NULL;
    plan.parallel.mesh = (bt_mesh_degrees){.tensor = 4};
    plan.parallel.sequence_parallel = true;
    ASSERT_OK(bt_train_check(&plan)); // 2 x 16 rows
    plan.parallel.half_batches = true;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                 "half_batches cannot be combined with train.mesh.sequence_parallel: set one",
                 bt_train_check(&plan));
    plan.parallel.sequence_parallel = false;
    plan.micro_batch = 1;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                 "train.mesh.half_batches needs an even train.micro_batch, which is 1",
                 bt_train_check(&plan));
    plan.micro_batch = 2;
    plan.parallel.sequence_parallel = true;
    plan.parallel.half_batches = false;
    plan.parallel.mesh = (bt_mesh_degrees){.tensor = 3};
    group.size = 3;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                 "train.mesh.sequence_parallel splits the 32 tokens of a micro-batch on a rank "
                 "(micro_batch 2 x 16), which must be a multiple of train.mesh.tensor, 3; change",
                 bt_train_check(&plan));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mesh_has_the_losses_of_one_rank),
        cmocka_unit_test(sequences_and_matrices_are_shared_together),
        cmocka_unit_test(rows_are_shared_in_every_mesh),
        cmocka_unit_test(normalisations_add_no_exchange),
        cmocka_unit_test(half_batches_have_the_losses_of_one_rank),
        cmocka_unit_test(chunks_have_the_losses_of_one_rank),
        cmocka_unit_test(another_model_is_told_apart),
        cmocka_unit_test(bits_do_not_depend_on_data_parallel_ranks),
        cmocka_unit_test(checkpoints_move_between_meshes),
        cmocka_unit_test(what_a_mesh_cannot_do_is_named),
    };
    return cmocka_run_group_tests_name("dist.mesh_train", tests, small_corpus_write,
                                       small_corpus_remove);
}
