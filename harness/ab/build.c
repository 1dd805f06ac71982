// harness/ab/build.c - clones, configures and builds a revision
#include "harness/ab/build.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/ab/command.h"
#include "harness/record/keep.h"
#include "harness/suite/suite.h"

#define BUILDS        "results/builds"
#define LOG_LINES     12
#define ARGUMENTS_MAX 32
#define SHORT_COMMIT  10
#define NS_PER_S      1000000000

// Options that a build copies from this program's build, if its cache has them.
static const char *const options[] = {
    "CMAKE_BUILD_TYPE",    "CMAKE_C_COMPILER", "CMAKE_C_FLAGS", "CMAKE_C_FLAGS_RELEASE",
    "CMAKE_CUDA_COMPILER", "BT_CUDA",          "BT_CUDA_ARCHS", "BT_SANITIZE"};
enum { OPTIONS = (int)(sizeof options / sizeof options[0]) };

typedef struct building {
    const char *commit;
    bt_progress_view *view;
    const char *folder; // results/builds/<commit>; its files:
    const char *log, *source, *build, *ready, *lock, *program;
    bt_arena arena; // of these
    bt_str root;    // the repository
    bt_str chosen;  // one -DKEY=VALUE per line: contents of `ready`
} building;

static void building_release(building *self)
{
    bt_arena_release(&self->arena);
    bt_str_release(&self->root);
    bt_str_release(&self->chosen);
}

// ---- the repository ----------------------------------------------------------------------------

// The sources: the installation if it is a repository, else the working directory.
bt_status bt_build_root(bt_str *root)
{
    BT_SCOPED(bt_str) git = {0};
    bt_home_path(root);
    bt_str_format(&git, "%s/.git", bt_str_text(root));
    if (!bt_file_exists(bt_str_text(&git))) {
        bt_str_clear(root);
        bt_str_append(root, ".");
    }
    return bt_str_status(root);
}

bt_status bt_build_commit(const char *revision, bt_str *commit)
{
    BT_SCOPED(bt_str) root = {0}, wanted = {0};
    int code = 0;
    BT_TRY(bt_build_root(&root));
    bt_str_format(&wanted, "%s^{commit}", revision);
    const char *const arguments[] = {
        "git",      "-C",      bt_str_text(&root), "rev-parse",
        "--verify", "--quiet", "--end-of-options", bt_str_text(&wanted),
        NULL};
    BT_TRY(bt_str_status(&wanted));
    BT_TRY(bt_command_run(arguments, NULL, commit, &code));
    BT_FAIL_IF(code != 0 || commit->length_bytes < 40, BT_STATUS_INVALID_ARGUMENT,
               "\"%s\" is neither a bt-bench program, nor a folder with one, nor a git revision of "
               "the repository %s",
               revision, bt_str_text(&root));
    commit->text[40] = '\0';
    commit->length_bytes = 40;
    return BT_OK;
}

// ---- options -----------------------------------------------------------------------------------

// The cache of this program's build: .../build/bin/bt-bench has .../build/CMakeCache.txt.
static bt_status read_cache(void **text)
{
    char program[PATH_MAX];
    BT_SCOPED(bt_str) path = {0};
    size_t size_bytes = 0;
    *text = NULL;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    for (int up = 0; up < 2; ++up) {
        char *slash = strrchr(program, '/');
        if (!slash) {
            return BT_OK;
        }
        *slash = '\0';
    }
    bt_str_format(&path, "%s/CMakeCache.txt", program);
    BT_TRY(bt_str_status(&path));
    if (bt_file_exists(bt_str_text(&path))) {
        BT_TRY(bt_file_read(bt_str_text(&path), text, &size_bytes));
    }
    return BT_OK;
}

static void append_option(const char *cache, const char *key, bt_str *out)
{
    size_t length = strlen(key);
    for (const char *line = cache; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *value = strchr(line, '=');
        if (strncmp(line, key, length) == 0 && line[length] == ':' && value) {
            size_t value_length = strcspn(value + 1, "\n");
            bt_str_format(out, "-D%s=", key);
            bt_str_append_bytes(out, value + 1, value_length);
            bt_str_append(out, "\n");
            return;
        }
    }
}

static bt_status choose(building *self)
{
    BT_SCOPED_MEM(void *) cache = NULL;
    BT_TRY(read_cache(&cache));
    for (int i = 0; cache && i < OPTIONS; ++i) {
        append_option(cache, options[i], &self->chosen);
    }
    bt_str_append(&self->chosen, "-DBT_TESTS=OFF\n-DBT_WERROR=OFF\n");
    return bt_str_status(&self->chosen);
}

// ---- steps -------------------------------------------------------------------------------------

// The end of the log, for a message.
static bt_status failed(const building *self, const char *doing)
{
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size_bytes = 0;
    const char *end = "";
    if (bt_file_read(self->log, &bytes, &size_bytes) == BT_OK) {
        const char *text = bytes;
        end = text + size_bytes;
        for (int lines = 0; end > text && lines <= LOG_LINES; lines += *end == '\n') {
            --end;
        }
    }
    return bt_error(BT_STATUS_INTERNAL, "%s %.*s failed; the end of %s:\n%.1500s", doing,
                    SHORT_COMMIT, self->commit, self->log, end);
}

static bt_status step(const building *self, const char *doing, const char *const *arguments)
{
    int code = 0;
    BT_TRY(bt_command_run(arguments, self->log, NULL, &code));
    return code == 0 ? BT_OK : failed(self, doing);
}

static bt_status get_source(const building *self)
{
    const char *const clear[] = {"rm", "-rf", "--", self->source, self->build, NULL};
    const char *const clone[] = {
        "git",        "clone", "--quiet", "--shared", "--no-checkout", bt_str_text(&self->root),
        self->source, NULL};
    const char *const checkout[] = {"git",     "-C",       self->source, "checkout",
                                    "--quiet", "--detach", self->commit, NULL};
    BT_TRY(step(self, "clearing", clear));
    BT_TRY(step(self, "cloning", clone));
    return step(self, "checking out", checkout);
}

static bt_status compile(building *self)
{
    const char *arguments[ARGUMENTS_MAX] = {"cmake",      "-G", "Ninja",    "-S",
                                            self->source, "-B", self->build};
    int count = 7;
    BT_SCOPED_MEM(char *) text = NULL;
    BT_TRY(bt_mem_strdup(bt_str_text(&self->chosen), &text));
    for (char *line = text, *end; (end = strchr(line, '\n')) && count < ARGUMENTS_MAX - 1;
         line = end + 1) {
        *end = '\0';
        arguments[count++] = line;
    }
    BT_TRY(step(self, "configuring", arguments));
    const char *const build[] = {"cmake", "--build", self->build, "--target", "product", NULL};
    return step(self, "building", build);
}

// ---- the whole ---------------------------------------------------------------------------------

static bool is_ready(const building *self)
{
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size_bytes = 0;
    return access(self->program, X_OK) == 0 && bt_file_exists(self->ready) &&
           bt_file_read(self->ready, &bytes, &size_bytes) == BT_OK &&
           strcmp(bytes, bt_str_text(&self->chosen)) == 0;
}

static bt_status make(building *self)
{
    int64_t started_ns = bt_clock_ns();
    if (is_ready(self)) {
        return BT_OK;
    }
    bt_progress_say(self->view, "build     %.*s in %s\n", SHORT_COMMIT, self->commit, self->folder);
    (void)unlink(self->log);
    BT_TRY(get_source(self));
    BT_TRY(compile(self));
    BT_FAIL_IF(access(self->program, X_OK) != 0, BT_STATUS_INTERNAL,
               "%.*s was built, but has no %s", SHORT_COMMIT, self->commit, self->program);
    BT_TRY(bt_file_write(self->ready, bt_str_text(&self->chosen), self->chosen.length_bytes));
    bt_progress_say(self->view, "build     %.*s done  %lld s\n", SHORT_COMMIT, self->commit,
                    (long long)((bt_clock_ns() - started_ns) / NS_PER_S));
    return BT_OK;
}

// One process at a time builds a commit; the others wait for it.
static bt_status make_locked(building *self)
{
    BT_TRY(bt_dir_make(self->folder));
    int lock = open(self->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    bt_status status =
        lock >= 0 && flock(lock, LOCK_EX) == 0
            ? make(self)
            : bt_error(BT_STATUS_IO, "cannot lock %s: %s", self->folder, strerror(errno));
    if (lock >= 0) {
        close(lock);
    }
    return status;
}

static bt_status name_paths(building *self)
{
    char here[PATH_MAX];
    bt_arena *arena = &self->arena;
    BT_FAIL_IF(!getcwd(here, sizeof here), BT_STATUS_IO,
               "cannot determine the working directory: %s", strerror(errno));
    BT_TRY(bt_keep_format(arena, &self->folder, "%s/" BUILDS "/%s", here, self->commit));
    BT_TRY(bt_keep_format(arena, &self->log, "%s/build.log", self->folder));
    BT_TRY(bt_keep_format(arena, &self->source, "%s/source", self->folder));
    BT_TRY(bt_keep_format(arena, &self->build, "%s/build", self->folder));
    BT_TRY(bt_keep_format(arena, &self->ready, "%s/ready", self->folder));
    BT_TRY(bt_keep_format(arena, &self->lock, "%s/lock", self->folder));
    return bt_keep_format(arena, &self->program, "%s/bin/bt-bench", self->build);
}

bt_status bt_build_revision(const char *commit, bt_progress_view *view, bt_str *program)
{
    BT_SCOPED(building) self = {.commit = commit, .view = view};
    BT_TRY(bt_build_root(&self.root));
    BT_TRY(name_paths(&self));
    BT_TRY(choose(&self));
    BT_TRY(make_locked(&self));
    bt_str_append(program, self.program);
    return bt_str_status(program);
}
