// Training by two ranks on GPUs: the bits of one rank under every sharding, and one rank's losses
// where ranks share matrices or sequences; a rank that dies. On a machine of one GPU both ranks use
// it; without a GPU they exchange memory of the host (fake_gpu.h).
#include <float.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "framework/base/clock.h"
#include "framework/dist/device_group.h"
#include "tests/dist/fake_gpu.h"
#include "tests/dist/gpu_body.h"
#include "tests/support/scratch.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { RANKS = 2, STEPS = 3, BATCHES = 4, RUNS_MAX = 8 };

static const int64_t timeout_ns = 120000000000;

typedef struct run {
    const char *name;
    bt_train_plan plan;
    float losses[STEPS], norms[STEPS]; // of rank 0
    uint64_t digest;
    bool pieces; // a product took rows in pieces
} run;

// Runs of one group of ranks, one after another. Shared memory: forked ranks write the results.
static run *runs;
static int run_count;
static const char *device;

static bt_train_plan base_plan(void)
{
    bt_train_plan plan = small_train_plan();
    plan.device = device;
    plan.model.width = 128; // two heads of 64
    plan.micro_batch = 2;
    plan.tokens_per_step = BATCHES * 2 * 16;
    plan.steps = STEPS;
    plan.profile_steps = 0;
    plan.eval_every = 2;
    plan.eval_batches = 2;
    plan.parallel.bucket_mb = 0.25;
    plan.parallel.invariant = BATCHES;
    return plan;
}

static run *add(const char *name)
{
    assert_true(run_count < RUNS_MAX);
    run *out = &runs[run_count++];
    *out = (run){.name = name, .plan = base_plan()};
    return out;
}

static bt_status keep_step(void *self, const bt_train_step *event)
{
    run *r = self;
    r->losses[event->step] = event->loss;
    r->norms[event->step] = event->grad_norm;
    return BT_OK;
}

static bt_status keep_kernel(void *self, const bt_train_kernel *event)
{
    run *r = self;
    r->pieces = r->pieces || strncmp(event->kernel, "gemm_pieces", 11) == 0;
    return BT_OK;
}

static bt_status train(bt_group *group, const run *from, run *out)
{
    bt_train_plan plan = from->plan;
    bt_train_result trained;
    run own = *from;
    const bt_train_observer observer = {.self = &own, .step = keep_step, .kernel = keep_kernel};
    plan.parallel.group = group;
    if (group == NULL) { // one rank has no mesh
        plan.parallel = (bt_train_parallel){.invariant = plan.parallel.invariant};
    }
    BT_TRY(bt_error_context(bt_train_run(&plan, &observer, &trained), "%s", from->name));
    own.digest = strtoull(trained.state_digest + 16, NULL, 16);
    *out = own;
    return BT_OK;
}

static bt_status train_all(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    omp_set_num_threads(1);
    for (int i = 0; i < run_count; ++i) {
        run own;
        BT_TRY(train(group, &runs[i], group == NULL || group->rank == 0 ? &runs[i] : &own));
    }
    return BT_OK;
}

static bt_status train_alone(bt_group *group, void *argument, rank_result *result)
{
    (void)group;
    return train_all(NULL, argument, result);
}

static void train_on(int ranks)
{
    rank_result results[RANKS_MAX];
    gpu_case what = {.device = device,
                     .timeout_ns = timeout_ns,
                     .engines = true,
                     .body = train_all,
                     .staging_bytes = 8 << 20};
    run_ranks(RANKS_MEMORY, ranks, timeout_ns, ranks == 1 ? train_alone : gpu_body, &what, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("rank %d of %d: %s", rank, ranks,
                     results[rank].ended ? "ended" : results[rank].message);
        }
    }
}

// Trains the runs that have been added by one rank and by two; `one` [run_count] are one rank's.
static void train_twice(run *one)
{
    train_on(1);
    memcpy(one, runs, (size_t)run_count * sizeof *one);
    train_on(RANKS);
}

// Saves beside the steps; what each of them has saved goes on to the state of a run without a stop.
// An update that does not wait for a save would change what is collected.
static void states_saved_beside_steps_are_whole(void **state)
{
    (void)state;
    static const bt_precision precisions[] = {BT_PRECISION_BF16, BT_PRECISION_FP32};
    static const char *const folders[] = {"bf16", "fp32"};
    uint64_t expected[2];
    (void)test_scratch_make();
    for (int p = 0; p < 2; ++p) {
        run *r = add(folders[p]);
        r->plan.precision = precisions[p];
        r->plan.parallel.sharding = BT_SHARDING_ZERO1;
        r->plan.model.vocab = 4096;
        r->plan.checkpoints = (bt_train_checkpoints){
            .folder = test_scratch_path(folders[p]), .every_steps = 1, .asynchronous = true};
    }
    train_on(RANKS);
    expected[0] = runs[0].digest;
    expected[1] = runs[1].digest;
    for (int64_t below = STEPS; below > 1; --below) {
        for (int p = 0; p < 2; ++p) {
            runs[p].plan.checkpoints.every_steps = 0;
            runs[p].plan.checkpoints.resume = true;
            runs[p].plan.checkpoints.resume_below = below;
            runs[p].digest = 0;
        }
        train_on(below % 2 ? 1 : RANKS);
        assert_true(runs[0].digest == expected[0] && runs[1].digest == expected[1]);
    }
    test_scratch_remove();
}

static int clear(void **state)
{
    (void)state;
    run_count = 0;
    return 0;
}

static void expect_bits_of_one_rank(void)
{
    run one[RUNS_MAX];
    train_twice(one);
    for (int i = 0; i < run_count; ++i) {
        bool equal = runs[i].digest == one[i].digest;
        for (int step = 0; step < STEPS; ++step) {
            equal = equal && runs[i].losses[step] == one[i].losses[step];
        }
        if (!equal) {
            fail_msg("%s: digest %016llx, one rank's %016llx", runs[i].name,
                     (unsigned long long)runs[i].digest, (unsigned long long)one[i].digest);
        }
    }
}

static void shardings_have_the_bits_of_one_rank(void **state)
{
    (void)state;
    static const bt_sharding modes[] = {BT_SHARDING_DDP, BT_SHARDING_ZERO1, BT_SHARDING_ZERO3};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m) {
        run *r = add(bt_sharding_name(modes[m]));
        r->plan.precision = BT_PRECISION_BF16;
        r->plan.parallel.sharding = modes[m];
    }
    run *r = add("zero1 without overlap");
    r->plan.precision = BT_PRECISION_BF16;
    r->plan.parallel.sharding = BT_SHARDING_ZERO1;
    r->plan.parallel.no_overlap = true;
    r = add("zero2, one micro-batch a rank");
    r->plan.precision = BT_PRECISION_BF16;
    r->plan.tokens_per_step = RANKS * 2 * 16;
    r->plan.parallel.invariant = RANKS;
    r->plan.parallel.sharding = BT_SHARDING_ZERO2;
    expect_bits_of_one_rank();
}

static void precisions_have_the_bits_of_one_rank(void **state)
{
    (void)state;
    add("zero1 fp32")->plan.parallel.sharding = BT_SHARDING_ZERO1;
    if (gpu_devices() > 0) { // the CPU has no tf32
        run *r = add("zero1 tf32");
        r->plan.precision = BT_PRECISION_TF32;
        r->plan.parallel.sharding = BT_SHARDING_ZERO1;
    }
    expect_bits_of_one_rank();
}

// A step looks up few rows of the table: its gradient has two parts.
static void tied_tables_have_the_bits_of_one_rank(void **state)
{
    (void)state;
    static const bt_sharding modes[] = {BT_SHARDING_DDP, BT_SHARDING_ZERO1, BT_SHARDING_ZERO3};
    static const bt_precision precisions[] = {BT_PRECISION_BF16, BT_PRECISION_FP32};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m) {
        for (size_t p = 0; p < sizeof precisions / sizeof *precisions; ++p) {
            run *r = add(bt_sharding_name(modes[m]));
            r->plan.precision = precisions[p];
            r->plan.model.vocab = 1000;
            r->plan.parallel.sharding = modes[m];
        }
    }
    expect_bits_of_one_rank();
}

// The bounds of dist.mesh_train: sums of a few hundred terms in another order, and what updates
// make of them.
enum { LOSS_ROUNDINGS = 512, NORM_ROUNDINGS = 8192 };

static void meshes_have_the_losses_of_one_rank(void **state)
{
    (void)state;
    static const bt_mesh_degrees tensor = {1, 2, 1}, context = {1, 1, 2};
    run one[RUNS_MAX];
    add("tensor parallel")->plan.parallel.mesh = tensor;
    run *r = add("sequence parallel");
    r->plan.parallel.mesh = tensor;
    r->plan.parallel.sequence_parallel = true;
    r = add("chunks of rows");
    r->plan.parallel.mesh = tensor;
    r->plan.parallel.sequence_parallel = r->plan.parallel.row_chunks = true;
    r = add("chunks of rows that are no sequences");
    r->plan.micro_batch = 3;
    r->plan.tokens_per_step = (int64_t)BATCHES * 3 * 16;
    r->plan.parallel.mesh = tensor;
    r->plan.parallel.sequence_parallel = r->plan.parallel.row_chunks = true;
    r = add("half-batches");
    r->plan.parallel.mesh = tensor;
    r->plan.parallel.half_batches = true;
    r = add("context parallel, ring");
    r->plan.parallel.mesh = context;
    r = add("context parallel, shared heads");
    r->plan.parallel.mesh = context;
    r->plan.parallel.shared_heads = 2;
    for (int i = 0; i < run_count; ++i) {
        runs[i].plan.parallel.invariant = 0;
    }
    train_twice(one);
    for (int i = 0; i < run_count; ++i) {
        for (int step = 0; step < STEPS; ++step) {
            const double loss = (double)one[i].losses[step], norm = (double)one[i].norms[step];
            const double got = (double)runs[i].losses[step], got_norm = (double)runs[i].norms[step];
            if (!(fabs(got - loss) <= LOSS_ROUNDINGS * (double)FLT_EPSILON * loss) ||
                !(fabs(got_norm - norm) <= NORM_ROUNDINGS * (double)FLT_EPSILON * norm)) {
                fail_msg("%s, step %d: loss %.9g and norm %.9g, one rank has %.9g and %.9g",
                         runs[i].name, step, got, got_norm, loss, norm);
            }
        }
    }
}

// A chunk that is read before it has arrived would change bits from run to run, as would a sum in
// the order of arrival. bf16 rounds to 2^-9 of a value; 2^-7 of the loss is far below the effect of
// a missing term.
static void chunks_of_rows_repeat(void **state)
{
    (void)state;
    static const bt_recompute_mode modes[] = {BT_RECOMPUTE_NONE, BT_RECOMPUTE_NONE,
                                              BT_RECOMPUTE_BLOCK};
    enum { MODES = sizeof modes / sizeof *modes };
    run one[RUNS_MAX];
    for (int i = 0; i < 2 * MODES; ++i) {
        run *r = add("chunks of rows");
        r->plan.precision = i < MODES ? BT_PRECISION_BF16 : BT_PRECISION_FP32;
        r->plan.recompute = modes[i % MODES];
        r->plan.parallel.invariant = 0;
        r->plan.parallel.mesh = (bt_mesh_degrees){1, 2, 1};
        r->plan.parallel.sequence_parallel = r->plan.parallel.row_chunks = true;
    }
    train_twice(one);
    for (int i = 0; i < run_count; ++i) {
        const run *first = &runs[i / MODES * MODES];
        if (runs[i].digest != first->digest) {
            fail_msg("%s, recompute %d: digest %016llx, first %016llx",
                     bt_precision_name(runs[i].plan.precision), (int)modes[i % MODES],
                     (unsigned long long)runs[i].digest, (unsigned long long)first->digest);
        }
        for (int step = 0; step < STEPS; ++step) {
            const double loss = (double)one[i].losses[step], got = (double)runs[i].losses[step];
            assert_true(fabs(got - loss) <= loss / 128);
        }
    }
}

// Rows enough for products that take them in pieces (GEMM_PIECES), which on a GPU our own rows do.
static void add_pieces(bt_recompute_mode mode)
{
    run *r = add("rows in pieces");
    r->plan.precision = BT_PRECISION_BF16;
    r->plan.recompute = mode;
    r->plan.model.context = r->plan.sequence = 128;
    r->plan.micro_batch = 8;
    r->plan.tokens_per_step = BATCHES * r->plan.micro_batch * r->plan.sequence;
    r->plan.parallel.invariant = 0;
    r->plan.parallel.mesh = (bt_mesh_degrees){1, 2, 1};
    r->plan.parallel.sequence_parallel = r->plan.parallel.row_chunks = true;
}

static void rows_in_pieces_have_the_losses_of_one_rank(void **state)
{
    (void)state;
    static const bt_recompute_mode modes[] = {BT_RECOMPUTE_NONE, BT_RECOMPUTE_BLOCK};
    run one[RUNS_MAX];
    for (int i = 0; i < 3; ++i) { // the first twice
        add_pieces(modes[i % 2]);
    }
    assert_int_equal(setenv("BT_GEMM", "own", 1), 0); // read when a rank opens its device
    train_twice(one);
    assert_int_equal(unsetenv("BT_GEMM"), 0);
    for (int i = 0; i < run_count; ++i) {
        assert_true(runs[i].pieces && !one[i].pieces);
        assert_true(runs[i].digest == runs[0].digest);
        for (int step = 0; step < STEPS; ++step) {
            const double loss = (double)one[i].losses[step], got = (double)runs[i].losses[step];
            assert_true(fabs(got - loss) <= loss / 128);
        }
    }
}

// Two heads and one, 320 and 256 columns of a feed forward, 25 and 24 ids: for one rank's products
// only there may be a row that takes pieces, which the other rank would not send. In the second run
// the feed forwards are even, and may.
static void uneven_parts_take_no_pieces(void **state)
{
    (void)state;
    run one[RUNS_MAX];
    for (int i = 0; i < 2; ++i) {
        add_pieces(BT_RECOMPUTE_NONE);
        runs[i].plan.model.heads = 3;
        runs[i].plan.model.width = i ? 192 : 144;
        runs[i].plan.model.vocab = 49;
    }
    assert_int_equal(setenv("BT_GEMM", "own", 1), 0);
    train_twice(one);
    assert_int_equal(unsetenv("BT_GEMM"), 0);
    assert_true(!runs[0].pieces && runs[1].pieces);
    for (int step = 0; step < 2 * STEPS; ++step) {
        const int i = step / STEPS, at = step % STEPS;
        const double loss = (double)one[i].losses[at], got = (double)runs[i].losses[at];
        assert_true(fabs(got - loss) <= loss / 128);
    }
}

static bt_status die_after_a_step(void *self, const bt_train_step *event)
{
    (void)self;
    return event->step > 0 ? BT_OK : (bt_status)raise(SIGKILL);
}

static bt_status train_until_death(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    bt_train_plan plan = runs[0].plan;
    bt_train_result trained;
    const bt_train_observer observer = {.step = group->rank == 1 ? die_after_a_step : NULL};
    omp_set_num_threads(1);
    plan.parallel.group = group;
    return bt_train_run(&plan, &observer, &trained);
}

// On a GPU the other rank's kernel waits for rows that never come.
static void a_lost_rank_ends_products_that_wait(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    gpu_case what = {.device = device,
                     .timeout_ns = timeout_ns,
                     .engines = true,
                     .body = train_until_death,
                     .staging_bytes = 8 << 20};
    add_pieces(BT_RECOMPUTE_NONE);
    assert_int_equal(setenv("BT_GEMM", "own", 1), 0);
    const int64_t start_ns = bt_clock_ns();
    run_ranks(RANKS_MEMORY, RANKS, timeout_ns, gpu_body, &what, results);
    assert_int_equal(unsetenv("BT_GEMM"), 0);
    assert_true(results[1].ended);
    assert_true(!results[0].ended && results[0].status != BT_OK);
    assert_non_null(strstr(results[0].message, "rank 1 ended"));
    assert_true(bt_clock_ns() - start_ns < timeout_ns / 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(shardings_have_the_bits_of_one_rank, clear),
        cmocka_unit_test_setup(precisions_have_the_bits_of_one_rank, clear),
        cmocka_unit_test_setup(tied_tables_have_the_bits_of_one_rank, clear),
        cmocka_unit_test_setup(states_saved_beside_steps_are_whole, clear),
        cmocka_unit_test_setup(chunks_of_rows_repeat, clear),
        cmocka_unit_test_setup(rows_in_pieces_have_the_losses_of_one_rank, clear),
        cmocka_unit_test_setup(uneven_parts_take_no_pieces, clear),
        cmocka_unit_test_setup(a_lost_rank_ends_products_that_wait, clear),
        cmocka_unit_test_setup(meshes_have_the_losses_of_one_rank, clear),
    };
    const size_t bytes = RUNS_MAX * sizeof *runs;
    device = gpu_prepare(argc, argv) ? "cuda" : "cpu";
    if (gpu_devices() == 0) {
        bt_device_group_use(fake_gpu_table(BT_OK));
    }
    runs = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(runs != MAP_FAILED);
    const int failed = cmocka_run_group_tests_name("dist.gpu_train", tests, small_corpus_write,
                                                   small_corpus_remove);
    (void)munmap(runs, bytes);
    return failed;
}
