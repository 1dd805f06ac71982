// framework/compiler/lower.c - MLIR text to machine code, through libbt_mlir.so and the cache
#include "framework/compiler/lower.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/checkpoint/hash.h"
#include "framework/compiler/mlir/library.h"

// ---- targets ------------------------------------------------------------------------------------

bt_status bt_target_host(bt_target *out)
{
    memset(out, 0, sizeof *out);
    out->kind = BT_TARGET_CPU;
#ifdef __x86_64__
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
    (void)snprintf(out->processor, sizeof out->processor, "x86-64%s", v4 ? "-v4" : v3 ? "-v3" : "");
    return BT_OK;
#else
    return bt_error(BT_STATUS_UNSUPPORTED, "generated code for the CPU needs x86-64");
#endif
}

// The latest processor of LLVM 19 whose PTX a GPU of this compute capability runs. PTX of sm_90a is
// for 9.0 alone.
static const char *cuda_processor(int arch)
{
    static const struct {
        int arch;
        const char *name;
    } known[] = {{91, "sm_90"}, {90, "sm_90a"}, {89, "sm_89"}, {87, "sm_87"}, {86, "sm_86"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
        if (arch >= known[i].arch) {
            return known[i].name;
        }
    }
    return "sm_80";
}

bt_status bt_target_cuda(int arch, bt_target *out)
{
    memset(out, 0, sizeof *out);
    out->kind = BT_TARGET_CUDA;
    if (arch < 80) {
        return bt_error(BT_STATUS_UNSUPPORTED,
                        "generated code for CUDA needs compute capability 8.0, got %d.%d",
                        arch / 10, arch % 10);
    }
    (void)snprintf(out->processor, sizeof out->processor, "%s", cuda_processor(arch));
    (void)snprintf(out->features, sizeof out->features, "+ptx%d", arch >= 90 ? 80 : 78);
    out->has_early_launch = arch >= 90;
    return BT_OK;
}

bt_status bt_target_parse(const char *name, bt_target *out)
{
    char *end = NULL;
    if (strcmp(name, "cpu") == 0) {
        return bt_target_host(out);
    }
    const bool numbered = strncmp(name, "sm_", 3) == 0 && name[3] >= '1' && name[3] <= '9';
    const long arch = numbered ? strtol(name + 3, &end, 10) : 0;
    const bool known = end && arch <= 999;
    const bool whole = known && (!*end || strcmp(name, cuda_processor((int)arch)) == 0); // sm_90a
    return whole ? bt_target_cuda((int)arch, out)
                 : bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "unknown target \"%s\"; expected cpu, or sm_ and a number as in sm_90",
                            name);
}

// ---- the library --------------------------------------------------------------------------------

static const bt_mlir_library *opened;       // set by open_library, once
static char reason[BT_PATH_CAPACITY + 256]; // why there is none

#ifdef BT_MLIR_VERSION
static const char version[] = BT_MLIR_VERSION;

// dlopen ends the process with SIGBUS where a library lost its end, as on a full disk. The headers
// of its sections come last. A file that cannot be read or is no library is left to dlopen.
static bool is_cut(const char *path)
{
    Elf64_Ehdr head = {0};
    FILE *file = fopen(path, "re");
    const bool read = file && fread(&head, sizeof head, 1, file) == 1 && !fseek(file, 0, SEEK_END);
    const int64_t size = read ? ftell(file) : 0;
    if (file) {
        (void)fclose(file);
    }
    return read && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
           (int64_t)head.e_shoff + (int64_t)head.e_shnum * head.e_shentsize > size;
}

// The library is in the folder of this shared object.
static void open_library(void)
{
    char path[BT_PATH_CAPACITY];
    Dl_info self;
    const char *slash = NULL;
    if (dladdr((const void *)version, &self) && self.dli_fname) {
        slash = strrchr(self.dli_fname, '/');
    }
    (void)snprintf(path, sizeof path, "%.*s/libbt_mlir.so",
                   slash ? (int)(slash - self.dli_fname) : 1, slash ? self.dli_fname : ".");
    if (is_cut(path)) {
        (void)snprintf(reason, sizeof reason, "compiler: %s is not complete; build it again", path);
        return;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        (void)snprintf(reason, sizeof reason, "compiler: %s", dlerror());
        return;
    }
    bt_mlir_entry_fn entry = NULL;
    void *symbol = dlsym(library, BT_MLIR_ENTRY); // as in device.c: POSIX says the copy works
    memcpy(&entry, &symbol, sizeof entry);
    const bt_mlir_library *found = entry ? entry() : NULL;
    if (!found || found->abi != BT_MLIR_ABI || strcmp(found->version, version) != 0) {
        (void)snprintf(
            reason, sizeof reason,
            "compiler: %s belongs to another build (interface %d of MLIR %s, expected %d of "
            "%s)",
            path, found ? found->abi : 0, found ? found->version : "?", BT_MLIR_ABI, version);
        return;
    }
    opened = found;
}
#else
static const char version[] = "none";

static void open_library(void)
{
    (void)snprintf(
        reason, sizeof reason,
        "compiler: not built (MLIR 19 was not installed; ci/setup.sh compiler installs it)");
}
#endif

bt_status bt_compiler_available(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, open_library);
    return opened ? BT_OK : bt_error(BT_STATUS_UNAVAILABLE, "%s", reason);
}

const bt_mlir_library *bt_lower_through(const bt_mlir_library *library)
{
    bt_error_quiet_begin();
    const bt_mlir_library *before = bt_compiler_available() ? NULL : opened;
    bt_error_quiet_end();
    opened = library;
    return before;
}

// ---- lowering -----------------------------------------------------------------------------------

// Paths where CUDA toolkits install libdevice.
static const char *libdevice_path(void)
{
    static const char *const places[] = {"/usr/local/cuda/nvvm/libdevice/libdevice.10.bc",
                                         "/usr/lib/cuda/nvvm/libdevice/libdevice.10.bc",
                                         "/usr/lib/nvidia-cuda-toolkit/libdevice/libdevice.10.bc",
                                         "/opt/cuda/nvvm/libdevice/libdevice.10.bc"};
    for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
        if (bt_file_exists(places[i])) {
            return places[i];
        }
    }
    return NULL;
}

// NULL if the file is missing or cannot be read: only texts that call its functions need it.
static void *read_libdevice(const bt_target *target, const bt_lower_options *options,
                            size_t *size_bytes)
{
    void *bytes = NULL;
    *size_bytes = 0;
    const char *path = options && options->libdevice ? options->libdevice : libdevice_path();
    if (target->kind == BT_TARGET_CUDA && path && bt_file_exists(path)) {
        bt_error_quiet_begin();
        if (bt_file_read(path, &bytes, size_bytes)) {
            bytes = NULL;
        }
        bt_error_quiet_end();
    }
    return bytes;
}

static bt_status explain(bt_mlir_status status, const char *message)
{
    switch (status) {
    case BT_MLIR_OK:
        return BT_OK;
    case BT_MLIR_BAD_TEXT:
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "MLIR text: %s", message);
    case BT_MLIR_UNSUPPORTED:
        return bt_error(BT_STATUS_UNSUPPORTED, "compiler: %s", message);
    case BT_MLIR_NO_MEMORY:
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "compiler: %s", message);
    case BT_MLIR_BROKEN:
    default:
        return bt_error(BT_STATUS_INTERNAL, "compiler: %s", message);
    }
}

bt_status bt_lower(const bt_target *target, const char *text, const bt_lower_options *options,
                   bt_code *code, char **llvm)
{
    bt_mlir_result result;
    bt_mlir_request request = {.text = text,
                               .target =
                                   target->kind == BT_TARGET_CUDA ? BT_MLIR_PTX : BT_MLIR_OBJECT,
                               .processor = target->processor,
                               .features = target->features,
                               .keep_llvm = llvm && options && options->keep_llvm};
    memset(code, 0, sizeof *code);
    if (llvm) {
        *llvm = NULL;
    }
    BT_TRY(bt_compiler_available());
    void *libdevice = read_libdevice(target, options, &request.libdevice_bytes);
    request.libdevice = libdevice;
    bt_status status = explain(opened->lower(&request, &result), result.message);
    bt_mem_free(libdevice);
    if (status == BT_OK) {
        status = bt_mem_alloc(result.size_bytes + 1, 1, &code->bytes);
    }
    if (status == BT_OK) {
        memcpy(code->bytes, result.bytes, result.size_bytes);
        code->size_bytes = result.size_bytes;
        status = result.llvm ? bt_mem_strdup(result.llvm, llvm) : BT_OK;
    }
    opened->release(&result);
    if (status) {
        bt_code_release(code);
    }
    return status;
}

bt_status bt_compiler_verify(const char *dialect, const char *text)
{
    bt_mlir_result result;
    BT_TRY(bt_compiler_available());
    const bt_status status = explain(opened->verify(dialect, text, &result), result.message);
    opened->release(&result);
    return status;
}

void bt_lower_key(const bt_target *target, const char *text, char key[BT_CODE_KEY_BYTES])
{
    char head[128];
    const int length = snprintf(head, sizeof head, "%d|%s|%s|%s|%d|", (int)target->kind,
                                target->processor, target->features, version, BT_MLIR_ABI);
    const XXH64_hash_t seed = XXH3_64bits(head, (size_t)length);
    bt_xxh3_text(XXH3_128bits_withSeed(text, strlen(text), seed), key);
}

bt_status bt_lower_cached(bt_code_cache *cache, const bt_target *target, const char *text,
                          bt_code *code)
{
    char key[BT_CODE_KEY_BYTES];
    bt_lower_key(target, text, key);
    if (bt_code_cache_take(cache, key, code)) {
        return BT_OK;
    }
    BT_TRY(bt_lower(target, text, NULL, code, NULL));
    if (bt_code_cache_add(cache, key, code->bytes, code->size_bytes)) {
        bt_error_clear(); // the cache keeps number and reason
    }
    return BT_OK;
}
