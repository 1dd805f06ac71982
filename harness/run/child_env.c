// harness/run/child_env.c - the environment variables of a worker
//
// A peer is a program of somebody else, and a build of `ab` is a revision proposed by somebody
// else: neither gets the tokens of the shell or the CI job that started the recorder. Our own
// worker gets the same variables, so that all systems of a run have equal environments.
#include <string.h>

#include "framework/base/environment.h"
#include "framework/base/mem.h"
#include "harness/run/child.h"

// Names; a name that ends with '*' is a prefix.
static const char *const allowed[] = {
    // the user and the system
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_CACHE_HOME",
    "LD_LIBRARY_PATH",
    // compilers, for revisions that are built and peers that compile
    "CC", "CXX", "CUDACXX", "CUDAHOSTCXX", "CMAKE_*", "CCACHE_*", "PKG_CONFIG_*", "CPATH",
    "LIBRARY_PATH", "XDG_CONFIG_HOME",
    // devices and threads
    "CUDA_*", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NCCL_*", "OMP_*", "GOMP_*",
    "KMP_*", "MKL_*", "OPENBLAS_*", "MALLOC_*",
    // Python and its frameworks
    "PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "TORCH_*", "TORCHINDUCTOR_*", "PYTORCH_*", "TRITON_*",
    // sanitizers and coverage of our own builds
    "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "GCOV_*",
    // ours; settings of peers may use the prefix as well
    "BT_*"};

static const char *const secrets[] = {"TOKEN",  "SECRET",     "PASSWORD",
                                      "PASSWD", "CREDENTIAL", "_KEY"};

static bool is_allowed(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; ++i) {
        size_t size = strlen(allowed[i]);
        bool prefix = allowed[i][size - 1] == '*';
        size -= prefix;
        if (strncmp(name, allowed[i], size) == 0 && (prefix ? length >= size : length == size)) {
            return true;
        }
    }
    return false;
}

static bool passes(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; ++i) {
        if (memmem(name, length, secrets[i], strlen(secrets[i]))) {
            return false;
        }
    }
    return is_allowed(name, length);
}

static bool names(const char *entry, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

// A thread of libgomp looks 300,000 times for its team before it sleeps. Where other programs use
// the cores as well, that takes time from the thread that it waits for: beside a build, a small
// model trained at 2,563 and 4,275 tokens per second, with 10,000 looks at 4,760 and 4,795.
static const char waits_briefly[] = "GOMP_SPINCOUNT=10000";

bt_status bt_child_env_make(const char ***out)
{
    size_t count = 0, kept = 0;
    bool chosen = false; // how threads wait
    char **all = bt_environment_all();
    while (all && all[count]) {
        ++count;
    }
    const char **entries = NULL;
    BT_TRY(BT_MEM_ARRAY(count + 2, &entries));
    for (size_t i = 0; i < count; ++i) {
        if (passes(all[i], strcspn(all[i], "="))) {
            entries[kept++] = all[i];
            chosen = chosen || names(all[i], "GOMP_SPINCOUNT") || names(all[i], "OMP_WAIT_POLICY");
        }
    }
    if (!chosen) {
        entries[kept++] = waits_briefly;
    }
    entries[kept] = NULL;
    *out = entries;
    return BT_OK;
}
