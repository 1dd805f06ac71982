// harness/cases/lab/lab.c - the kernel laboratory: times who can serve the kernel cases of a suite,
//   in one process, to tune kernels
//
// README.md has its options. Prints a line per case, and below it one per candidate: `*` where it
// is what the product takes, its name, the median time of a call in each mode with its part of a
// large copy's bandwidth (of STREAM's triad on the CPU; products and attention: TFLOP/s), its speed
// relative to `*`, the largest error as a part of the tolerance. The suite's cache mode is ignored.
// Exit 0, 2 usage, 5 a wrong result, whose candidate is not timed; 1 anything else.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/base/scoped.h"
#include "harness/cases/lab/lab.h"
#include "harness/plan/plan.h"

enum { SAMPLES_DEFAULT = 21, SAMPLES_LEAST = 3 };
// Calls up to these sizes are checked unless everything is: their references take some seconds.
#define CHEAP_FLOPS 4e9
#define CHEAP_BYTES 128e6

static const char *const mode_names[LAB_MODES] = {"cold", "dirty", "graph", "sustain"};

void lab_require(bt_status status)
{
    if (status != BT_OK) {
        (void)fprintf(stderr, "lab_kernels: %s: %s\n", bt_status_text(status), bt_error_message());
        exit(1);
    }
}

static _Noreturn void usage(void)
{
    (void)fprintf(stderr, "usage: lab_kernels SUITE [OPTION...] [WORD...]; "
                          "harness/cases/lab/README.md has the options\n");
    exit(2);
}

// ---- output ------------------------------------------------------------------------------------

// Whether arithmetic bounds it, so that its rate says more than its bandwidth.
static bool multiplies(const lab_work *work)
{
    const bt_kernel_body *body = &work->members[0].body;
    return lab_is_attention(work) || (!body->is_chain && body->op == BT_KERNEL_GEMM);
}

static void print_mode(const lab *self, const lab_work *work, lab_mode mode, double time_ns)
{
    printf("  %s %9.2f us", mode_names[mode], time_ns * 1e-3);
    if (multiplies(work)) {
        printf(" %6.1f TF", work->flops / time_ns * 1e-3);
    } else if (self->ceiling > 0) {
        printf(" %5.1f %%", 100 * work->bytes / time_ns / self->ceiling);
    }
}

static void print_candidate(const lab *self, const lab_work *work, const lab_candidate *of,
                            const lab_candidate *serving)
{
    printf("  %s %-52s", of->serves ? "*" : " ", of->name);
    double ratio = 0;
    for (int mode = 0; mode < LAB_MODES; ++mode) {
        if (lab_has_mode(self, work, (lab_mode)mode)) {
            const double time_ns = lab_median(self, of, (lab_mode)mode);
            print_mode(self, work, (lab_mode)mode, time_ns);
            if (serving && ratio <= 0) {
                ratio = lab_median(self, serving, (lab_mode)mode) / time_ns;
            }
        }
    }
    if (ratio > 0) {
        printf("  x%.3f", ratio);
    }
    if (of->error_share >= 0) {
        printf("  error %.2f", of->error_share);
    }
    printf("\n");
}

static lab_mode first_mode(const lab *self, const lab_work *work)
{
    int mode = 0;
    while (mode + 1 < LAB_MODES && !lab_has_mode(self, work, (lab_mode)mode)) {
        ++mode;
    }
    return (lab_mode)mode;
}

// ---- a case ------------------------------------------------------------------------------------

// Checks the candidates and removes those that are wrong; returns how many are left.
static int keep_right(lab *self, lab_work *work, lab_candidate *list, int count)
{
    const lab_options *options = &self->options;
    int kept = 0;
    if (options->add || work->restricted ||
        (!options->check && (work->flops > CHEAP_FLOPS || work->bytes > CHEAP_BYTES))) {
        return count;
    }
    for (int i = 0; i < count; ++i) {
        if (lab_check(self, work, &list[i]) == BT_OK) {
            list[kept++] = list[i];
        } else {
            self->wrong = true;
            printf("  %s %-52s  WRONG %s\n", list[i].serves ? "*" : " ", list[i].name,
                   bt_error_message());
            bt_error_clear();
        }
    }
    return kept;
}

static void release_candidates(const lab *self, lab_candidate *list, int count)
{
    for (int i = 0; i < count; ++i) {
        if (list[i].graph) {
            self->device->backend->graph_destroy(self->device, list[i].graph);
        }
        bt_mem_free(list[i].samples);
    }
}

static void run_once(lab *self, const lab_work *work, const lab_candidate *list, int count)
{
    for (int i = 0; i < count; ++i) {
        lab_require(lab_launch(self, work, &list[i], 0));
        lab_require(self->device->backend->stream_synchronize(self->device, self->stream));
        printf("  %s %s\n", list[i].serves ? "*" : " ", list[i].name);
    }
}

static void run_work(lab *self, const char *name, const cJSON *const *items, int item_count)
{
    static lab_work work;
    static lab_candidate list[LAB_CANDIDATES_MOST];
    const bool is_ceiling = bt_plan_kernel_is_ceiling(items[0]);
    lab_work_make(self, items, item_count, &work);
    int count = lab_candidates(self, &work, is_ceiling, list);
    printf("%s  %.1f MB", name, work.bytes * 1e-6);
    if (multiplies(&work)) {
        printf("  %.2f GFLOP", work.flops * 1e-9);
    }
    if (self->device->backend->kind == BT_DEVICE_CPU && !self->options.once) {
        self->ceiling =
            lab_triad(self->device); // again, since the load of a shared machine changes
        printf("  triad %.1f GB/s", self->ceiling);
    }
    printf("\n");
    if (self->options.once) {
        run_once(self, &work, list, count);
    } else {
        count = keep_right(self, &work, list, count);
        lab_time(self, &work, list, count);
        const lab_candidate *serving = NULL;
        for (int i = 0; i < count; ++i) {
            serving = list[i].serves ? &list[i] : serving;
        }
        if (self->ceiling <= 0 && count > 0 && bt_plan_kernel_is_copy(items[0])) {
            self->ceiling = work.bytes / lab_median(self, &list[0], first_mode(self, &work));
        }
        for (int i = 0; i < count; ++i) {
            print_candidate(self, &work, &list[i], serving);
        }
        release_candidates(self, list, count);
    }
    (void)fflush(stdout);
    lab_work_release(self, &work);
}

// ---- the suite ---------------------------------------------------------------------------------

static bool is_kernel(const cJSON *item)
{
    const cJSON *op = bt_json_get(bt_json_get(item, "kernel"), "op");
    bt_kernel_case_op which;
    return cJSON_IsString(op) && bt_kernel_case_op_parse(op->valuestring, &which);
}

static bool is_product(const cJSON *item)
{
    bt_kernel_body body;
    lab_require(bt_kernel_body_make(bt_json_get(item, "kernel"), &body));
    return !body.is_chain && body.op == BT_KERNEL_GEMM && !bt_plan_kernel_is_ceiling(item);
}

// Of the ceilings that a plan begins with, a copy on a GPU.
static bool is_wanted(const lab *self, const cJSON *item)
{
    return !bt_plan_kernel_is_ceiling(item) ||
           (bt_plan_kernel_is_copy(item) && !self->options.once && self->ceiling <= 0 &&
            self->device->backend->kind != BT_DEVICE_CPU);
}

static void run_suite(lab *self, const bt_plan *plan)
{
    const cJSON *members[LAB_MEMBERS_MOST];
    int member_count = 0;
    for (int64_t i = 0; i < plan->case_count; ++i) {
        const cJSON *item = bt_plan_case(plan, i);
        const bool kernel = is_kernel(item);
        if (kernel && self->options.group && is_product(item)) {
            if (member_count == LAB_MEMBERS_MOST) {
                (void)fprintf(stderr,
                              "lab_kernels: expected at most %d products in a group; select "
                              "some with --filter\n",
                              LAB_MEMBERS_MOST);
                exit(2);
            }
            members[member_count++] = item;
        } else if (kernel && !self->options.group && is_wanted(self, item)) {
            run_work(self, bt_json_get(item, "name")->valuestring, &item, 1);
        }
    }
    if (member_count > 0) {
        char name[64];
        (void)snprintf(name, sizeof name, "a group of %d products", member_count);
        run_work(self, name, members, member_count);
    }
}

// ---- the device --------------------------------------------------------------------------------

static void open_view(lab *self, const char *device, const char *gemm)
{
    if (self->view_count == LAB_VIEWS_MOST) {
        usage();
    }
    lab_view *view = &self->views[self->view_count++];
    (void)snprintf(view->gemm, sizeof view->gemm, "%s", gemm);
    if (*gemm && setenv("BT_GEMM", gemm, 1) != 0) {
        exit(1);
    }
    lab_require(bt_device_open(device, 0, &view->device));
}

static void open_device(lab *self, const char *device, char *gemm)
{
    char *rest = NULL;
    for (char *value = gemm ? strtok_r(gemm, ",", &rest) : NULL; value;
         value = strtok_r(NULL, ",", &rest)) {
        open_view(self, device, value);
    }
    if (self->view_count == 0) {
        open_view(self, device, "");
    }
    const bt_backend *backend = self->device->backend;
    lab_require(backend->stream_create(self->device, false, &self->stream));
    lab_require(bt_pool_create(self->device, 0, &self->pool));
    lab_require(backend->event_create(self->device, &self->start));
    lab_require(backend->event_create(self->device, &self->stop));
    self->scrub_bytes = 2 * (size_t)bt_kernel_cache_bytes(self->device);
    lab_require(bt_pool_alloc(self->pool, self->scrub_bytes, self->stream, "scrub", &self->scrub));
    lab_scrub(self, true);
    printf("%s\n", self->device->info.name);
}

static void close_device(lab *self)
{
    const bt_backend *backend = self->device->backend;
    backend->event_destroy(self->device, self->start);
    backend->event_destroy(self->device, self->stop);
    bt_pool_free(self->pool, self->scrub);
    bt_pool_destroy(self->pool);
    backend->stream_destroy(self->device, self->stream);
    for (int i = self->view_count - 1; i >= 0; --i) {
        bt_device_close(&self->views[i].device);
    }
}

// ---- options -----------------------------------------------------------------------------------

static int number_of(const char *text, int least, int most)
{
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    if (end == text || *end || value < least || value > most) {
        usage();
    }
    return (int)value;
}

static void read_modes(lab_options *options, char *list)
{
    char *rest = NULL;
    memset(options->mode, 0, sizeof options->mode);
    options->chosen = true;
    for (const char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        int mode = 0;
        while (mode < LAB_MODES && strcmp(name, mode_names[mode]) != 0) {
            ++mode;
        }
        if (mode < LAB_MODES) {
            options->mode[mode] = true;
        } else if (strcmp(name, "once") == 0) {
            options->once = true;
        } else {
            usage();
        }
    }
}

// An option is followed by its text or number; one whose number is 0 or 1 sets it alone.
typedef struct lab_option {
    const char *name;
    char **text;
    int *number, least, most;
} lab_option;

// Removes the options from argv and returns how many words are left.
static int read_options(int argc, char **argv, const lab_option *options)
{
    int words = 0;
    for (int i = 1; i < argc; ++i) {
        const lab_option *option = options;
        while (option->name && strcmp(option->name, argv[i]) != 0) {
            ++option;
        }
        if (!option->name && strncmp(argv[i], "--", 2) != 0) {
            argv[words++] = argv[i];
        } else if (option->name && option->number && option->most == 1) {
            *option->number = 1;
        } else if (option->name && i + 1 < argc && option->number) {
            *option->number = number_of(argv[++i], option->least, option->most);
        } else if (option->name && i + 1 < argc) {
            *option->text = argv[++i];
        } else {
            usage();
        }
    }
    return words;
}

int main(int argc, char **argv)
{
    enum { TOKENS_MOST = 1 << 20 };
    static lab self = {.device = &self.views[0].device,
                       .options.samples = SAMPLES_DEFAULT,
                       .options.mode = {[LAB_COLD] = true, [LAB_DIRTY] = true, [LAB_GRAPH] = true}};
    lab_options *to = &self.options;
    char *profile = NULL, *filter = NULL, *modes = NULL, *gemm = NULL;
    const lab_option options[] = {
        {"--profile", &profile, NULL, 0, 0},
        {"--filter", &filter, NULL, 0, 0},
        {"--modes", &modes, NULL, 0, 0},
        {"--gemm", &gemm, NULL, 0, 0},
        {"--plans", NULL, &to->plans, 0, LAB_PLANS_MOST},
        {"--samples", NULL, &to->samples, SAMPLES_LEAST, LAB_SAMPLES_MOST},
        {"--rest", NULL, &to->rest_ms, 0, 10000},
        {"--check", NULL, &to->check, 0, 1},
        {"--add", NULL, &to->add, 0, 1},
        {"--columns", NULL, &to->columns, 0, 1},
        {"--group", NULL, &to->group, 0, 1},
        {"--kv-heads", NULL, &to->attention.kv_heads, 1, TOKENS_MOST},
        {"--q-tokens", NULL, &to->attention.q_tokens, 1, TOKENS_MOST},
        {"--window", NULL, &to->attention.window, 1, TOKENS_MOST},
        {"--documents", NULL, &to->attention.documents, 1, TOKENS_MOST},
        {NULL, NULL, NULL, 0, 0}};
    const int words = read_options(argc, argv, options);
    if (words == 0) {
        usage();
    }
    if (modes) {
        read_modes(to, modes);
    }
    to->words = argv + 1;
    to->word_count = words - 1;
    BT_SCOPED(bt_suite) suite = {0};
    bt_machine machine;
    BT_SCOPED(bt_plan) plan = {0};
    const bt_plan_options wanted = {.profile = profile, .filter = filter, .seed = -1};
    lab_require(bt_suite_load(argv[0], &suite));
    lab_require(bt_machine_look(&machine));
    lab_require(bt_plan_make(&suite, &wanted, &machine, &plan));
    open_device(&self, plan.device, gemm);
    run_suite(&self, &plan);
    close_device(&self);
    return self.wrong ? 5 : 0;
}
