// harness/plan/plan.c - expands a suite into a plan
#include "harness/plan/plan.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "framework/base/scoped.h"
#include "harness/plan/collective.h"
#include "harness/plan/sweep.h"
#include "harness/suite/schema.h"

enum { CASE_NAME_BYTES = 512 };

// The sources of a case's values, the most specific first, for messages.
typedef struct expansion {
    const bt_suite *suite;
    const bt_plan_options *options;
    const bt_machine *machine;
    const cJSON *profile;    // member of profiles
    const cJSON *source;     // the case in the file
    cJSON *item;             // the case being expanded
    cJSON *train;            // its member
    const char *const *sets; // [set_count] of --set, for this case
    int64_t set_count;
    char name[CASE_NAME_BYTES]; // in the file, with the suffix of a sweep
    bool shards_given;          // the suite or --set has train.mesh.invariant
    bool does_not_fit;          // not even the smallest micro-batch fits the device
    bool by_name;               // --filter is tried as the name of a case
} expansion;

#define PLAN "the plan" // in messages

static bt_status no_memory(void)
{
    return bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory for " PLAN);
}

// ---- choosing the profile ----------------------------------------------------------------------

static bool can_run(const cJSON *profile, const bt_machine *machine)
{
    return strcmp(bt_json_get(profile, "device")->valuestring, "cuda") != 0 || machine->has_cuda;
}

static bt_status unknown_profile(const bt_suite *suite, const cJSON *profiles, const char *given)
{
    BT_SCOPED(bt_str) words = {0}, listed = {0}, hint = {0};
    for (const cJSON *profile = profiles->child; profile; profile = profile->next) {
        bt_words_add(&words, profile->string, strlen(profile->string));
    }
    bt_words_join(bt_str_text(&words), ", ", &listed);
    bt_words_hint(given, bt_str_text(&words), &hint);
    return bt_json_error(&suite->json, profiles, BT_JSON_KEY,
                         "there is no profile \"%s\"%s\nprofiles: %s", given, bt_str_text(&hint),
                         bt_str_text(&listed));
}

// `passed` is the automatic profile that was tried last and did not fit, or NULL.
static bt_status choose_profile(const expansion *expand, bt_plan *plan, const cJSON *passed,
                                const cJSON **chosen)
{
    const cJSON *profiles = bt_json_get(expand->suite->json.root, "profiles");
    const char *given = expand->options->profile;
    *chosen = given ? bt_json_get(profiles, given) : NULL;
    if (given) {
        return *chosen ? BT_OK : unknown_profile(expand->suite, profiles, given);
    }
    plan->chosen = true;
    for (const cJSON *profile = passed ? passed->next : profiles->child; profile;
         profile = profile->next) {
        if (cJSON_IsFalse(bt_json_get(profile, "automatic"))) {
            continue;
        }
        if (can_run(profile, expand->machine)) {
            *chosen = profile;
            return BT_OK;
        }
        (void)snprintf(plan->reason, sizeof plan->reason, "%s", expand->machine->cuda_reason);
    }
    return bt_error(BT_STATUS_UNAVAILABLE,
                    "%s: no profile can be selected automatically on this machine (%s); select one "
                    "with --profile",
                    expand->suite->json.name,
                    plan->reason[0] ? plan->reason : "none is marked automatic");
}

// ---- merging -----------------------------------------------------------------------------------

static bt_status replace(cJSON *object, const char *key, cJSON *node)
{
    return bt_json_put(object, key, node, PLAN);
}

// The dataset as an object: {"name": ...} or {"train": [paths], "val": [paths]}, with the paths of
// a file relative to the suite made relative to the working directory.
static bt_status join_paths(const char *suite_path, cJSON *dataset, const char *key)
{
    cJSON *list = bt_json_get(dataset, key);
    cJSON *joined = cJSON_CreateArray();
    const char *slash = strrchr(suite_path, '/');
    for (const cJSON *node = cJSON_IsArray(list) ? list->child : list; joined && node;
         node = cJSON_IsArray(list) ? node->next : NULL) {
        BT_SCOPED(bt_str) path = {0};
        if (suite_path[0] && slash && node->valuestring[0] != '/') {
            bt_str_append_bytes(&path, suite_path, (size_t)(slash - suite_path) + 1);
        }
        bt_str_append(&path, node->valuestring);
        cJSON *text = path.status == BT_OK ? cJSON_CreateString(bt_str_text(&path)) : NULL;
        bt_status status = bt_json_put(joined, NULL, text, PLAN);
        if (status != BT_OK) {
            cJSON_Delete(joined);
            return status;
        }
    }
    return replace(dataset, key, joined);
}

static const cJSON *dataset_in_file(const expansion *expand)
{
    const cJSON *levels[] = {expand->source, expand->profile, expand->suite->json.root};
    for (int i = 0; i < 3; ++i) {
        const cJSON *node = bt_json_get(levels[i], "dataset");
        if (node) {
            return node;
        }
    }
    return NULL;
}

static bt_status merge_dataset(const expansion *expand)
{
    const cJSON *node = dataset_in_file(expand);
    if (!node) {
        return BT_OK;
    }
    BT_TRY(replace(expand->item, "dataset", cJSON_Duplicate(node, 1)));
    cJSON *dataset = bt_json_get(expand->item, "dataset");
    if (cJSON_IsObject(dataset)) {
        BT_TRY(join_paths(expand->suite->json.name, dataset, "train"));
        BT_TRY(join_paths(expand->suite->json.name, dataset, "val"));
    }
    return BT_OK;
}

static bt_status normalise_dataset(const expansion *expand)
{
    cJSON *dataset = bt_json_get(expand->item, "dataset");
    if (cJSON_IsObject(dataset)) {
        BT_FAIL_IF(!bt_json_get(dataset, "train"), BT_STATUS_INVALID_ARGUMENT,
                   "case %s: dataset.val is given without dataset.train",
                   bt_json_get(expand->item, "name")->valuestring);
        BT_TRY(join_paths("", dataset, "train")); // a single path of --set becomes a list
        return join_paths("", dataset, "val");
    }
    cJSON *object = cJSON_CreateObject();
    if (!object || !cJSON_AddStringToObject(object, "name", dataset->valuestring)) {
        cJSON_Delete(object);
        return no_memory();
    }
    return replace(expand->item, "dataset", object);
}

// ---- checks of the merged case -----------------------------------------------------------------

// Where a value comes from, for messages: the --set, or a position in the file.
typedef struct origin {
    bt_json_doc json;  // borrows all
    const cJSON *node; // in json, NULL: none
    char set[256];     // the name of json, if it is a --set
} origin;

// The origin of train.[group.]key; of a value that nothing sets, the case.
static void find_origin(const expansion *expand, const char *group, const char *key, origin *out)
{
    const cJSON *levels[] = {expand->source, expand->profile, expand->suite->json.root};
    char path[128];
    const int length =
        snprintf(path, sizeof path, "train.%s%s%s=", group ? group : "", group ? "." : "", key);
    *out = (origin){.json = expand->suite->json, .node = expand->source};
    for (int64_t i = expand->set_count; i-- > 0;) {
        if (strncmp(expand->sets[i], path, (size_t)length) == 0) {
            (void)snprintf(out->set, sizeof out->set, "--set %s", expand->sets[i]);
            out->json = (bt_json_doc){.name = out->set};
            out->node = NULL;
            return;
        }
    }
    for (int i = 0; i < 3; ++i) {
        const cJSON *node = bt_json_get(levels[i], "train");
        node = group && node ? bt_json_get(node, group) : node;
        node = node ? bt_json_get(node, key) : NULL;
        if (node) {
            out->node = node;
            return;
        }
    }
}

// Returns the error from the enclosing function, with the origin of train.[group.]key.
#define REFUSE_IF(condition, expand, group, key, ...)                                              \
    do {                                                                                           \
        if (condition) {                                                                           \
            origin from;                                                                           \
            find_origin(expand, group, key, &from);                                                \
            return bt_json_error(&from.json, from.node, BT_JSON_VALUE, __VA_ARGS__);               \
        }                                                                                          \
    } while (0)

static bt_status check_shape(const expansion *expand)
{
    const char *name = bt_json_get(expand->item, "name")->valuestring;
    int64_t width = (int64_t)bt_plan_number(expand->train, "model.width");
    int64_t heads = (int64_t)bt_plan_number(expand->train, "model.heads");
    int64_t context = (int64_t)bt_plan_number(expand->train, "model.context");
    int64_t sequence = (int64_t)bt_plan_number(expand->train, "sequence");
    REFUSE_IF(width % heads != 0, expand, "model", "heads",
              "case %s: model.heads is %" PRId64 "; it must divide model.width, %" PRId64, name,
              heads, width);
    REFUSE_IF(sequence > context, expand, NULL, "sequence",
              "case %s: sequence is %" PRId64 "; allowed: up to model.context, %" PRId64, name,
              sequence, context);
    double lr = bt_plan_number(expand->train, "optimizer.lr");
    double min_lr = bt_plan_number(expand->train, "optimizer.min_lr");
    REFUSE_IF(min_lr > lr, expand, "optimizer", "min_lr",
              "case %s: optimizer.min_lr is %g; allowed: up to optimizer.lr, %g", name, min_lr, lr);
    return BT_OK;
}

static bt_status check_faults(const expansion *expand)
{
    bt_plan_fault faults[BT_PLAN_FAULTS_MAX];
    char message[BT_ERROR_CAPACITY];
    int64_t count = 0;
    const bt_status status = bt_plan_faults_read(expand->train, faults, &count);
    (void)snprintf(message, sizeof message, "%s", status == BT_OK ? "" : bt_error_message());
    REFUSE_IF(status != BT_OK, expand, "mesh", "faults", "case %s: %s",
              bt_json_get(expand->item, "name")->valuestring, message);
    return BT_OK;
}

static bool divides(const expansion *expand, int64_t micro_batch)
{
    int64_t sequence = (int64_t)bt_plan_number(expand->train, "sequence");
    int64_t tokens = (int64_t)bt_plan_number(expand->train, "tokens_per_step");
    return tokens == 0 || tokens % (micro_batch * sequence) == 0;
}

static bool is_auto(const cJSON *recompute)
{
    return cJSON_IsString(recompute) && strcmp(recompute->valuestring, "auto") == 0;
}

static bt_status nothing_fits(expansion *expand, int64_t smallest, uint64_t available, bool cuda)
{
    const bool chooses = is_auto(bt_json_get(expand->train, "recompute"));
    const bt_plan_recompute least =
        chooses ? (bt_plan_recompute){BT_RECOMPUTE_BLOCK,
                                      (int64_t)bt_plan_number(expand->train, "model.layers")}
                : bt_plan_recompute_of(expand->train);
    const char *name = bt_json_get(expand->item, "name")->valuestring;
    int64_t tokens = (int64_t)bt_plan_number(expand->train, "tokens_per_step");
    int64_t sequence = (int64_t)bt_plan_number(expand->train, "sequence");
    const cJSON *micro_batch = bt_json_get(expand->train, "micro_batch");
    char given[48] = "";
    if (cJSON_IsNumber(micro_batch)) {
        (void)snprintf(given, sizeof given, ", micro_batch is %" PRId64,
                       (int64_t)micro_batch->valuedouble);
    }
    REFUSE_IF(smallest == 0, expand, NULL, "tokens_per_step",
              "case %s: tokens_per_step is %" PRId64
              "; it must be a multiple of micro_batch * sequence (sequence is "
              "%" PRId64 "%s)",
              name, tokens, sequence, given);
    expand->does_not_fit = true;
    return bt_error(BT_STATUS_OUT_OF_MEMORY,
                    "case %s: a micro-batch of %" PRId64 " x %" PRId64
                    " tokens needs about %.1f GiB, the device has %.1f GiB; reduce the model, "
                    "sequence or micro_batch",
                    name, smallest, sequence,
                    (double)bt_plan_memory_bytes(expand->train, smallest, least, cuda) /
                        1073741824.0,
                    (double)available / 1073741824.0);
}

#define CANDIDATES_MAX 64

// The candidate micro-batches, in order of preference.
static int64_t candidates_of(const cJSON *given, int64_t candidates[CANDIDATES_MAX])
{
    int64_t count = 0;
    if (cJSON_IsNumber(given)) {
        candidates[count++] = (int64_t)given->valuedouble;
    } else if (cJSON_IsString(given)) {
        for (int64_t power = 64; power; power /= 2) {
            candidates[count++] = power;
        }
    } else {
        for (const cJSON *node = given->child; node && count < CANDIDATES_MAX; node = node->next) {
            candidates[count++] = (int64_t)node->valuedouble;
        }
    }
    return count;
}

// Does the case fit at this micro-batch? For "auto", *how becomes the cheapest recomputation that
// does: fewer blocks of a mode are cheaper than more, and any number is cheaper than the next mode.
static bool fits(const expansion *expand, int64_t micro_batch, uint64_t available, bool cuda,
                 bt_plan_recompute *how)
{
    const int64_t layers = (int64_t)bt_plan_number(expand->train, "model.layers");
    if (!is_auto(bt_json_get(expand->train, "recompute"))) {
        *how = bt_plan_recompute_of(expand->train);
        return !available ||
               bt_plan_memory_bytes(expand->train, micro_batch, *how, cuda) <= available;
    }
    *how = (bt_plan_recompute){BT_RECOMPUTE_NONE, layers};
    while (available && bt_plan_memory_bytes(expand->train, micro_batch, *how, cuda) > available) {
        if (how->mode != BT_RECOMPUTE_NONE && how->blocks < layers) {
            ++how->blocks;
        } else if (how->mode + 1 < BT_RECOMPUTE_COUNT) {
            *how = (bt_plan_recompute){(bt_recompute_mode)(how->mode + 1), 1};
        } else {
            return false;
        }
    }
    return true;
}

static bt_status set_recompute(expansion *expand, bt_plan_recompute how)
{
    const bool none = how.mode == BT_RECOMPUTE_NONE;
    if (!is_auto(bt_json_get(expand->train, "recompute"))) {
        return BT_OK;
    }
    BT_TRY(
        replace(expand->train, "recompute", cJSON_CreateString(bt_recompute_mode_name(how.mode))));
    return replace(expand->train, "recompute_blocks",
                   cJSON_CreateNumber(none ? 0 : (double)how.blocks));
}

// Whether a case exceeds the host's memory by more than any error of the estimate.
static bool exceeds_host(const expansion *expand, int64_t micro_batch)
{
    const uint64_t host = expand->machine->host_memory_bytes;
    const bt_plan_recompute least = {BT_RECOMPUTE_BLOCK,
                                     (int64_t)bt_plan_number(expand->train, "model.layers")};
    return host && bt_plan_memory_bytes(expand->train, micro_batch, least, false) / 2 > host;
}

// The default of train.mesh.invariant follows from the micro-batch, and the memory from both.
static bt_status set_shards(const expansion *expand, int64_t micro_batch)
{
    cJSON *mesh = bt_json_get(expand->train, "mesh");
    if (!mesh || expand->shards_given) {
        return BT_OK;
    }
    return replace(mesh, "invariant",
                   cJSON_CreateNumber((double)bt_plan_default_shards(expand->train, micro_batch)));
}

// Takes the first candidate that divides the step and fits the device. A single number is used as
// given, since the estimate may be wrong, except if it exceeds the host's memory by far: it would
// swap. If the device is unknown, the first is taken.
static bt_status resolve_memory(expansion *expand, bool cuda)
{
    int64_t candidates[CANDIDATES_MAX];
    int64_t count = candidates_of(bt_json_get(expand->train, "micro_batch"), candidates);
    uint64_t available =
        cuda ? expand->machine->cuda_free_bytes : expand->machine->host_memory_bytes;
    uint64_t limit = (uint64_t)bt_plan_number(expand->train, "memory_limit_bytes");
    available = limit && (!available || limit < available) ? limit : available;
    bt_plan_recompute how;
    int64_t taken = 0, smallest = 0;
    expand->shards_given = bt_json_get(bt_json_get(expand->train, "mesh"), "invariant") != NULL;
    for (int64_t i = 0; i < count && !taken; ++i) {
        if (divides(expand, candidates[i])) {
            smallest = !smallest || candidates[i] < smallest ? candidates[i] : smallest;
            BT_TRY(set_shards(expand, candidates[i]));
            const bool given = count == 1 && (cuda || !exceeds_host(expand, candidates[i]));
            taken = fits(expand, candidates[i], available, cuda, &how) || given ? candidates[i] : 0;
        }
    }
    if (!taken) {
        return nothing_fits(expand, smallest, available, cuda);
    }
    int64_t sequence = (int64_t)bt_plan_number(expand->train, "sequence");
    if (!bt_json_get(expand->train, "tokens_per_step")) {
        BT_TRY(replace(expand->train, "tokens_per_step",
                       cJSON_CreateNumber((double)(taken * sequence))));
    }
    BT_TRY(set_recompute(expand, how));
    return replace(expand->train, "micro_batch", cJSON_CreateNumber((double)taken));
}

// With few steps, warm-up and profiled steps get at most a third each.
static bt_status bound_untimed_steps(cJSON *train)
{
    static const char *const keys[] = {"warmup_timing_steps", "profile_steps"};
    int64_t third = (int64_t)bt_plan_number(train, "steps") / 3;
    for (int i = 0; i < 2; ++i) {
        if (bt_plan_number(train, keys[i]) > (double)third) {
            BT_TRY(replace(train, keys[i], cJSON_CreateNumber((double)third)));
        }
    }
    return BT_OK;
}

// ---- one case, all cases -----------------------------------------------------------------------

// Name, kind, and the group of that name merged from all levels and --set.
static bt_status merge_case(expansion *expand, const char *group)
{
    const cJSON *levels[] = {expand->suite->json.root, expand->profile, expand->source};
    static const char *const copied[] = {"name", "kind", "systems"};
    const int copied_count = expand->options->builds ? 2 : 3;
    for (int i = 0; i < copied_count; ++i) {
        const cJSON *node = bt_json_get(expand->source, copied[i]);
        if (node) {
            BT_TRY(replace(expand->item, copied[i], cJSON_Duplicate(node, 1)));
        }
    }
    cJSON *values = cJSON_AddObjectToObject(expand->item, group);
    if (!values) {
        return no_memory();
    }
    for (int i = 0; i < 3; ++i) {
        BT_TRY(bt_json_merge(values, bt_json_get(levels[i], group), PLAN));
    }
    for (int64_t i = 0; i < expand->set_count; ++i) {
        BT_TRY(bt_plan_set(expand->sets[i], expand->item));
    }
    return replace(expand->item, "name", cJSON_CreateString(expand->name));
}

// Drops the keys of other kinds of cases, which --set may have added.
static void drop_others(cJSON *item, const char *kind)
{
    static const char *const groups[] = {"train", "dataset", "kernel", "collective", "command"};
    const int own = strcmp(kind, "train") == 0 ? 2 : 0;
    for (size_t i = (size_t)own; i < sizeof groups / sizeof groups[0]; ++i) {
        if (strcmp(groups[i], kind) != 0) {
            cJSON_DeleteItemFromObjectCaseSensitive(item, groups[i]);
        }
    }
}

static bt_status expand_train(expansion *expand)
{
    BT_TRY(merge_dataset(expand));
    BT_TRY(merge_case(expand, "train"));
    drop_others(expand->item, "train");
    expand->train = bt_json_get(expand->item, "train");
    if (expand->options->seed >= 0) {
        BT_TRY(replace(expand->train, "seed", cJSON_CreateNumber((double)expand->options->seed)));
    }
    BT_TRY(bt_suite_fill_defaults(BT_SUITE_CASE, expand->item));
    BT_TRY(normalise_dataset(expand));
    BT_TRY(check_shape(expand));
    BT_TRY(check_faults(expand));
    BT_TRY(bound_untimed_steps(expand->train));
    bool cuda = strcmp(bt_json_get(expand->profile, "device")->valuestring, "cuda") == 0;
    return resolve_memory(expand, cuda);
}

static bool selected(const char *name, const void *by)
{
    const expansion *expand = by;
    const bt_plan_options *options = expand->options;
    const char *filter = options->filter;
    const char *written = bt_json_text_of(expand->source, "name"); // in the suite
    const bool fits = !filter           ? true
                      : expand->by_name ? strcmp(name, filter) == 0 || strcmp(written, filter) == 0
                                        : strstr(name, filter) || fnmatch(filter, name, 0) == 0;
    return fits && (!options->wants || options->wants(name, options->wants_by));
}

static bt_status no_case(const expansion *expand)
{
    BT_SCOPED(bt_str) names = {0};
    BT_FAIL_IF(!expand->options->filter, BT_STATUS_INVALID_ARGUMENT,
               "profile %s of suite %s has no case that a claim refers to; %s",
               expand->profile->string, expand->suite->name, expand->options->wants_else);
    for (const cJSON *item = bt_json_get(expand->profile, "cases")->child; item;
         item = item->next) {
        bt_str_format(&names, "%s%s", names.length_bytes ? ", " : "",
                      bt_json_get(item, "name")->valuestring);
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "--filter %s: no case of profile %s matches\ncases: %s",
                    expand->options->filter, expand->profile->string, bt_str_text(&names));
}

// The case as an empty item of the plan, which owns it; NULL if it is not selected.
static bt_status begin_case(expansion *expand, cJSON *cases)
{
    expand->item = NULL;
    if (!selected(expand->name, expand)) {
        return BT_OK;
    }
    expand->item = cJSON_CreateObject();
    return bt_json_put(cases, NULL, expand->item, PLAN);
}

// A training case becomes one case of the plan, if selected.
static bt_status add_train(expansion *expand, cJSON *cases)
{
    BT_TRY(begin_case(expand, cases));
    return expand->item ? expand_train(expand) : BT_OK;
}

// A kernel or collective case becomes one case per combination of its lists.
static bt_status add_calls(expansion *expand, const char *kind, cJSON *cases)
{
    const bool is_kernel = strcmp(kind, "kernel") == 0;
    expand->item = cJSON_CreateObject();
    bt_status status = expand->item ? merge_case(expand, kind) : no_memory();
    cJSON *keys = bt_json_get(expand->item, kind);
    BT_IF_OK(status,
             bt_suite_fill_defaults(is_kernel ? BT_SUITE_KERNEL : BT_SUITE_COLLECTIVE, keys));
    if (status == BT_OK && is_kernel && expand->options->seed >= 0) {
        status = replace(keys, "seed", cJSON_CreateNumber((double)expand->options->seed));
    }
    const bt_plan_expansion lists = {
        &expand->suite->json, expand->source, expand->item, selected, expand, cases};
    BT_IF_OK(status, (is_kernel ? bt_plan_kernel_expand : bt_plan_collective_expand)(&lists));
    cJSON_Delete(expand->item);
    expand->item = NULL;
    return status;
}

// A command case becomes one case of the plan, if selected.
// `run` is a command line or a list of words.
static bool runs_nothing(const cJSON *run)
{
    const cJSON *first = cJSON_IsArray(run) ? run->child : run;
    return !first || !first->valuestring[strspn(first->valuestring, " \t\n")];
}

static bt_status add_command(expansion *expand, cJSON *cases)
{
    BT_TRY(begin_case(expand, cases));
    if (!expand->item) {
        return BT_OK;
    }
    BT_TRY(merge_case(expand, "command"));
    cJSON *command = bt_json_get(expand->item, "command");
    BT_JSON_FAIL_IF(runs_nothing(bt_json_get(command, "run")), &expand->suite->json, expand->source,
                    BT_JSON_VALUE,
                    "case %s: a command case needs command.run, as in \"run\": \"sort "
                    "words.txt\"",
                    expand->name);
    drop_others(expand->item, "command");
    return bt_suite_fill_defaults(BT_SUITE_COMMAND, command);
}

// The cases of a case in the file: one, or one for each combination of the lists of --set.
static bt_status add_cases(expansion *expand, cJSON *cases)
{
    BT_SCOPED(bt_plan_sweep) sweep = {0};
    const bt_plan_options *options = expand->options;
    const char *kind = bt_json_get(expand->source, "kind")->valuestring;
    BT_TRY(bt_plan_sweep_make(options->sets, options->set_count, kind, &sweep));
    for (int64_t i = 0; i < sweep.combinations; ++i) {
        BT_SCOPED(bt_str) suffix = {0};
        BT_TRY(bt_plan_sweep_at(&sweep, i, &suffix));
        expand->sets = sweep.sets;
        expand->set_count = sweep.set_count;
        (void)snprintf(expand->name, sizeof expand->name, "%s%s",
                       bt_json_get(expand->source, "name")->valuestring, bt_str_text(&suffix));
        BT_TRY(strcmp(kind, "command") == 0 ? add_command(expand, cases)
               : strcmp(kind, "train") == 0 ? add_train(expand, cases)
                                            : add_calls(expand, kind, cases));
    }
    return BT_OK;
}

// Cases of a suite that share a name must differ in their axes.
static bt_status check_names(const expansion *expand, const cJSON *cases, const cJSON *first)
{
    for (const cJSON *added = first; added; added = added->next) {
        const char *name = bt_json_get(added, "name")->valuestring;
        for (const cJSON *other = cases->child; other != added; other = other->next) {
            BT_JSON_FAIL_IF(strcmp(bt_json_get(other, "name")->valuestring, name) == 0,
                            &expand->suite->json, bt_json_get(expand->source, "name"),
                            BT_JSON_VALUE, "profile %s has two cases named \"%s\"",
                            expand->profile->string, name);
        }
    }
    return BT_OK;
}

static bt_status add_selected(expansion *expand, cJSON *cases)
{
    for (const cJSON *source = bt_json_get(expand->profile, "cases")->child; source;
         source = source->next) {
        expand->source = source;
        const cJSON *last = cases->child ? cases->child->prev : NULL;
        BT_TRY(add_cases(expand, cases));
        BT_TRY(check_names(expand, cases, last ? last->next : cases->child));
    }
    return BT_OK;
}

// A filter that is the name of a case, in the plan or in the suite, selects it alone, also where
// other names contain it.
static bt_status expand_cases(expansion *expand, cJSON *cases)
{
    expand->by_name = expand->options->filter != NULL;
    BT_TRY(add_selected(expand, cases));
    if (expand->by_name && !cases->child) {
        expand->by_name = false;
        BT_TRY(add_selected(expand, cases));
    }
    const char *device = bt_json_get(expand->profile, "device")->valuestring;
    BT_TRY(cases->child ? BT_OK : no_case(expand));
    BT_TRY(bt_plan_set_check(expand->options->sets, expand->options->set_count, cases));
    return bt_plan_kernel_ceilings(device, cases);
}

// The systems that run the cases, unless that is only ours: --system, or the profile.
static bt_status add_systems(const expansion *expand, cJSON *root)
{
    const cJSON *listed = bt_json_get(expand->profile, "systems");
    const char *given = expand->options->systems;
    if (expand->options->builds || (!given && !listed)) {
        return BT_OK;
    }
    cJSON *systems = cJSON_AddArrayToObject(root, "systems");
    const cJSON *next = cJSON_IsArray(listed) ? listed->child : listed;
    while (systems && (given ? *given != '\0' : next != NULL)) {
        size_t length = given ? strcspn(given, ",") : strlen(next->valuestring);
        BT_SCOPED(bt_str) name = {0};
        bt_str_append_bytes(&name, given ? given : next->valuestring, length);
        cJSON *text = bt_str_status(&name) == BT_OK ? cJSON_CreateString(bt_str_text(&name)) : NULL;
        BT_TRY(bt_json_put(systems, NULL, text, PLAN));
        given = given ? given + length + (given[length] == ',') : NULL;
        next = !given && next ? next->next : next;
    }
    return systems ? BT_OK : no_memory();
}

static bt_status build_profile(expansion *expand, bt_plan *plan)
{
    int64_t rounds = (int64_t)bt_plan_number(expand->profile, "rounds");
    rounds = expand->options->rounds ? expand->options->rounds : rounds;
    plan->rounds = rounds ? rounds : 1;
    const char *device = bt_json_get(expand->profile, "device")->valuestring;
    plan->root = cJSON_CreateObject();
    cJSON *root = plan->root;
    // choose_profile() fails rather than leave it NULL.
    if (!root || !cJSON_AddNumberToObject(root, "version", 1) ||
        !cJSON_AddStringToObject(root, "suite", expand->suite->name) ||
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
        !cJSON_AddStringToObject(root, "profile", expand->profile->string) ||
        !cJSON_AddStringToObject(root, "device", device) ||
        !cJSON_AddNumberToObject(root, "rounds", (double)plan->rounds) ||
        !cJSON_AddArrayToObject(root, "cases")) {
        return no_memory();
    }
    BT_TRY(add_systems(expand, root));
    return expand_cases(expand, bt_json_get(root, "cases"));
}

// Expands the requested profile, or the first automatic one that fits the machine.
static bt_status build(expansion *expand, bt_plan *plan)
{
    const cJSON *passed = NULL;
    bt_status status;
    do {
        BT_TRY(choose_profile(expand, plan, passed, &expand->profile));
        passed = expand->profile;
        expand->does_not_fit = false;
        status = build_profile(expand, plan);
        if (expand->does_not_fit) {
            (void)snprintf(plan->reason, sizeof plan->reason, "%.500s", bt_error_message());
        }
        if (status != BT_OK) {
            cJSON_Delete(plan->root);
            plan->root = NULL;
        }
    } while (expand->does_not_fit && plan->chosen && passed->next);
    BT_TRY(status);
    BT_SCOPED(bt_str) text = {0};
    bt_json_write(plan->root, &text);
    return bt_str_take(&text, &plan->text);
}

bt_status bt_plan_make(const bt_suite *suite, const bt_plan_options *options,
                       const bt_machine *machine, bt_plan *out)
{
    memset(out, 0, sizeof *out);
    expansion expand = {.suite = suite, .options = options, .machine = machine};
    bt_status status = build(&expand, out);
    BT_IF_OK(status, bt_plan_index(out));
    if (status != BT_OK) {
        bt_plan_release(out);
    }
    return status;
}
