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
    bt_str root;          // the repository
    bt_str folder, log;   // results/builds/<commit>, its build.log
    bt_str source, build; // file in that folder
    bt_str chosen;        // one -DKEY=VALUE per line: contents of `ready`
} building;

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
    bt_status status = bt_build_root(&root);
    bt_str_format(&wanted, "%s^{commit}", revision);
    const char *const arguments[] = {
        "git",      "-C",      bt_str_text(&root), "rev-parse",
        "--verify", "--quiet", "--end-of-options", bt_str_text(&wanted),
        NULL};
    BT_IF_OK(status, bt_command_run(arguments, NULL, commit, &code));
    if (status == BT_OK && (code != 0 || commit->length_bytes < 40)) {
        status = bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "\"%s\" is neither a bt-bench program, nor a folder with one, nor a git "
                          "revision of the repository %s",
                          revision, bt_str_text(&root));
    }
    if (status == BT_OK) {
        commit->text[40] = '\0';
        commit->length_bytes = 40;
    }
    return status;
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
    if (bt_file_read(bt_str_text(&self->log), &bytes, &size_bytes) == BT_OK) {
        const char *text = bytes;
        end = text + size_bytes;
        for (int lines = 0; end > text && lines <= LOG_LINES; lines += *end == '\n') {
            --end;
        }
    }
    return bt_error(BT_STATUS_INTERNAL, "%s %.*s failed; the end of %s:\n%.1500s", doing,
                    SHORT_COMMIT, self->commit, bt_str_text(&self->log), end);
}

static bt_status step(const building *self, const char *doing, const char *const *arguments)
{
    int code = 0;
    BT_TRY(bt_command_run(arguments, bt_str_text(&self->log), NULL, &code));
    return code == 0 ? BT_OK : failed(self, doing);
}

static bt_status get_source(const building *self)
{
    const char *source = bt_str_text(&self->source);
    const char *const clear[] = {"rm", "-rf", "--", source, bt_str_text(&self->build), NULL};
    const char *const clone[] = {
        "git",  "clone", "--quiet", "--shared", "--no-checkout", bt_str_text(&self->root),
        source, NULL};
    const char *const checkout[] = {"git",     "-C",       source,       "checkout",
                                    "--quiet", "--detach", self->commit, NULL};
    BT_TRY(step(self, "clearing", clear));
    BT_TRY(step(self, "cloning", clone));
    return step(self, "checking out", checkout);
}

static bt_status compile(building *self)
{
    const char *arguments[ARGUMENTS_MAX] = {
        "cmake", "-G", "Ninja", "-S", bt_str_text(&self->source), "-B", bt_str_text(&self->build)};
    int count = 7;
    BT_SCOPED_MEM(char *) text = NULL;
    BT_TRY(bt_mem_strdup(bt_str_text(&self->chosen), &text));
    for (char *line = text, *end; (end = strchr(line, '\n')) && count < ARGUMENTS_MAX - 1;
         line = end + 1) {
        *end = '\0';
        arguments[count++] = line;
    }
    bt_status status = step(self, "configuring", arguments);
    BT_TRY(status);
    const char *const build[] = {"cmake",    "--build", bt_str_text(&self->build),
                                 "--target", "product", NULL};
    return step(self, "building", build);
}

// ---- the whole ---------------------------------------------------------------------------------

static bool is_ready(const building *self, const char *program)
{
    BT_SCOPED(bt_str) path = {0};
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size_bytes = 0;
    bt_str_format(&path, "%s/ready", bt_str_text(&self->folder));
    bool ready = access(program, X_OK) == 0 && bt_file_exists(bt_str_text(&path)) &&
                 bt_file_read(bt_str_text(&path), &bytes, &size_bytes) == BT_OK &&
                 strcmp(bytes, bt_str_text(&self->chosen)) == 0;
    return ready;
}

static bt_status mark_ready(const building *self)
{
    BT_SCOPED(bt_str) path = {0};
    bt_str_format(&path, "%s/ready", bt_str_text(&self->folder));
    BT_TRY(bt_str_status(&path));
    return bt_file_write(bt_str_text(&path), bt_str_text(&self->chosen), self->chosen.length_bytes);
}

static bt_status make(building *self, const char *program)
{
    int64_t started_ns = bt_clock_ns();
    if (is_ready(self, program)) {
        return BT_OK;
    }
    bt_progress_say(self->view, "build     %.*s in %s\n", SHORT_COMMIT, self->commit,
                    bt_str_text(&self->folder));
    (void)unlink(bt_str_text(&self->log));
    BT_TRY(get_source(self));
    BT_TRY(compile(self));
    BT_FAIL_IF(access(program, X_OK) != 0, BT_STATUS_INTERNAL, "%.*s was built, but has no %s",
               SHORT_COMMIT, self->commit, program);
    BT_TRY(mark_ready(self));
    bt_progress_say(self->view, "build     %.*s done  %lld s\n", SHORT_COMMIT, self->commit,
                    (long long)((bt_clock_ns() - started_ns) / NS_PER_S));
    return BT_OK;
}

// One process at a time builds a commit; the others wait for it.
static bt_status make_locked(building *self, const char *program)
{
    BT_SCOPED(bt_str) path = {0};
    BT_TRY(bt_dir_make(bt_str_text(&self->folder)));
    bt_str_format(&path, "%s/lock", bt_str_text(&self->folder));
    BT_TRY(bt_str_status(&path));
    int lock = open(bt_str_text(&path), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0 || flock(lock, LOCK_EX) != 0) {
        bt_status status = bt_error(BT_STATUS_IO, "cannot lock %s: %s", bt_str_text(&self->folder),
                                    strerror(errno));
        if (lock >= 0) {
            close(lock);
        }
        return status;
    }
    bt_status status = make(self, program);
    close(lock);
    return status;
}

static bt_status name_paths(building *self, bt_str *program)
{
    char here[PATH_MAX];
    BT_FAIL_IF(!getcwd(here, sizeof here), BT_STATUS_IO,
               "cannot determine the working directory: %s", strerror(errno));
    bt_str_format(&self->folder, "%s/" BUILDS "/%s", here, self->commit);
    const char *folder = bt_str_text(&self->folder);
    bt_str_format(&self->log, "%s/build.log", folder);
    bt_str_format(&self->source, "%s/source", folder);
    bt_str_format(&self->build, "%s/build", folder);
    bt_str_format(program, "%s/build/bin/bt-bench", folder);
    BT_TRY(bt_str_status(&self->folder));
    BT_TRY(bt_str_status(&self->log));
    BT_TRY(bt_str_status(&self->source));
    BT_TRY(bt_str_status(&self->build));
    return bt_str_status(program);
}

bt_status bt_build_revision(const char *commit, bt_progress_view *view, bt_str *program)
{
    building self = {.commit = commit, .view = view};
    bt_status status = bt_build_root(&self.root);
    BT_IF_OK(status, name_paths(&self, program));
    BT_IF_OK(status, choose(&self));
    BT_IF_OK(status, make_locked(&self, bt_str_text(program)));
    bt_str *const texts[] = {&self.root,   &self.folder, &self.log,
                             &self.source, &self.build,  &self.chosen};
    for (int i = 0; i < 6; ++i) {
        bt_str_release(texts[i]);
    }
    return status;
}
