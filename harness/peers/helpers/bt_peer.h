// harness/peers/helpers/bt_peer.h - helper for peers in C: protocol, operands, cache mode, timing,
// and returned outputs
//
//     #include "bt_peer.h"                // cc -O2 -I harness/peers/helpers peer.c -lcjson -lm
//
//     static const char *accept(const cJSON *kernel)
//     {
//         return bt_peer_is(kernel, "op", "copy") ? NULL : "only copies";
//     }
//     static void call(const bt_peer_call *call)
//     {
//         memcpy(bt_peer_data(call, "y"), bt_peer_data(call, "x"), bt_peer_bytes(call, "x"));
//     }
//     int main(void) { return bt_peer_main("memcpy", accept, call); }
//
// `accept` returns why a case is not supported, or NULL. `call` makes one call on the operands,
// which have the case's type; it is timed, and must wait for work that it starts elsewhere. One
// task per process; any failure ends it with a message on standard error.
#ifndef BT_PEER_H
#define BT_PEER_H

#include <cjson/cJSON.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BT_PEER_OPERANDS 16
#define BT_PEER_COPIES   256
#define BT_PEER_SAMPLES  65536
#define BT_PEER_CACHE_BYTES                                                                        \
    (128L << 20) // maximum per processor: virtual machines report a whole
                 // socket's

typedef struct bt_peer_operand {
    const char *name, *dtype;
    int64_t count;
    size_t size;          // of an element, bytes
    const cJSON *windows; // of an output; NULL: an input
    void *data;           // owned, [count]
} bt_peer_operand;

typedef struct bt_peer_call {
    const cJSON *kernel; // op, direction, dtype, shape, ...
    bt_peer_operand operands[BT_PEER_OPERANDS];
    int count;
} bt_peer_call;

typedef const char *(*bt_peer_accept)(const cJSON *kernel);
typedef void (*bt_peer_function)(const bt_peer_call *call);

static inline _Noreturn void bt_peer_fail(const char *what, const char *name)
{
    fprintf(stderr, "bt_peer: %s %s\n", what, name);
    exit(5);
}

static inline const cJSON *bt_peer_get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static inline double bt_peer_number(const cJSON *object, const char *key)
{
    const cJSON *node = bt_peer_get(object, key);
    return cJSON_IsNumber(node) ? node->valuedouble : 0;
}

static inline const char *bt_peer_text(const cJSON *object, const char *key)
{
    const cJSON *node = bt_peer_get(object, key);
    return cJSON_IsString(node) ? node->valuestring : "";
}

static inline bool bt_peer_is(const cJSON *object, const char *key, const char *text)
{
    return strcmp(bt_peer_text(object, key), text) == 0;
}

static inline const bt_peer_operand *bt_peer_find(const bt_peer_call *call, const char *name)
{
    for (int i = 0; i < call->count; ++i) {
        if (strcmp(call->operands[i].name, name) == 0) {
            return &call->operands[i];
        }
    }
    bt_peer_fail("no operand", name);
}

static inline void *bt_peer_data(const bt_peer_call *call, const char *name)
{
    return bt_peer_find(call, name)->data;
}

static inline int64_t bt_peer_count(const bt_peer_call *call, const char *name)
{
    return bt_peer_find(call, name)->count;
}

static inline size_t bt_peer_bytes(const bt_peer_call *call, const char *name)
{
    const bt_peer_operand *operand = bt_peer_find(call, name);
    return operand->size * (size_t)operand->count;
}

// ---- operands ----------------------------------------------------------------------------------

static inline FILE *bt_peer_open(const char *folder, const char *name, const char *ending,
                                 const char *mode)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s.%s", folder, name, ending);
    FILE *file = fopen(path, mode);
    if (!file) {
        bt_peer_fail("cannot open", path);
    }
    return file;
}

// Element i is element i modulo those of the file.
static inline void bt_peer_fill(bt_peer_operand *operand, const char *folder, const char *set)
{
    const size_t bytes = operand->size * (size_t)operand->count;
    FILE *file = bt_peer_open(folder, operand->name, set, "rb");
    const size_t tile = fread(operand->data, 1, bytes, file);
    (void)fclose(file);
    if (tile == 0) {
        bt_peer_fail("empty operand", operand->name);
    }
    for (size_t at = tile; at < bytes; at += tile) {
        memcpy((char *)operand->data + at, operand->data, bytes - at < tile ? bytes - at : tile);
    }
}

static inline void bt_peer_add(bt_peer_call *call, const cJSON *from, bool output)
{
    static const struct {
        const char *dtype;
        size_t size;
    } sizes[] = {{"f64", 8},  {"i64", 8}, {"f32", 4}, {"tf32", 4}, {"i32", 4},
                 {"bf16", 2}, {"u16", 2}, {"i16", 2}, {"u8", 1}};
    if (call->count == BT_PEER_OPERANDS) {
        bt_peer_fail("too many operands:", bt_peer_text(from, "name"));
    }
    bt_peer_operand *operand = &call->operands[call->count++];
    *operand = (bt_peer_operand){.name = bt_peer_text(from, "name"),
                                 .dtype = bt_peer_text(from, "dtype"),
                                 .count = (int64_t)bt_peer_number(from, "count"),
                                 .windows = output ? bt_peer_get(from, "windows") : NULL};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        operand->size = strcmp(sizes[i].dtype, operand->dtype) == 0 ? sizes[i].size : operand->size;
    }
    operand->data = operand->size ? calloc((size_t)operand->count, operand->size) : NULL;
    if (!operand->data) {
        bt_peer_fail("out of memory, or unknown type, for", operand->name);
    }
}

static inline void bt_peer_make(const cJSON *task, const char *set, bt_peer_call *call)
{
    const cJSON *returns = bt_peer_get(task, "returns"), *node = NULL;
    *call = (bt_peer_call){.kernel = bt_peer_get(bt_peer_get(task, "case"), "kernel")};
    cJSON_ArrayForEach(node, bt_peer_get(returns, "inputs")) {
        bt_peer_add(call, node, false);
        bt_peer_fill(&call->operands[call->count - 1], bt_peer_text(returns, "folder"), set);
    }
    cJSON_ArrayForEach(node, bt_peer_get(returns, "outputs")) {
        bt_peer_add(call, node, true);
    }
}

static inline void bt_peer_write(const cJSON *task, const bt_peer_call *call)
{
    const char *folder = bt_peer_text(bt_peer_get(task, "returns"), "folder");
    for (int i = 0; i < call->count; ++i) {
        const bt_peer_operand *operand = &call->operands[i];
        const cJSON *window = NULL;
        if (!operand->windows) {
            continue;
        }
        FILE *file = bt_peer_open(folder, operand->name, "out", "wb");
        cJSON_ArrayForEach(window, operand->windows) {
            double at[4];
            for (int k = 0; k < 4; ++k) {
                at[k] = cJSON_GetArrayItem(window, k)->valuedouble;
            }
            for (int64_t run = 0; run < (int64_t)at[1]; ++run) {
                const char *from = (const char *)operand->data +
                                   operand->size * (size_t)(at[0] + (double)run * at[2]);
                (void)fwrite(from, operand->size, (size_t)at[3], file);
            }
        }
        if (fclose(file) != 0) {
            bt_peer_fail("cannot write", operand->name);
        }
    }
}

// ---- timing ------------------------------------------------------------------------------------

static inline double bt_peer_clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline size_t bt_peer_cache_bytes(void)
{
    const long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    const long known = l3 > 0 ? l3 : l2 > 0 ? l2 : BT_PEER_CACHE_BYTES;
    const long share = BT_PEER_CACHE_BYTES * sysconf(_SC_NPROCESSORS_ONLN);
    return (size_t)(known < share ? known : share);
}

static inline int bt_peer_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Half the 95 % interval of the median, relative to the median.
static inline double bt_peer_interval(const double *samples, int64_t count)
{
    static double sorted[BT_PEER_SAMPLES];
    memcpy(sorted, samples, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, bt_peer_order);
    const int64_t away = (int64_t)(0.98 * sqrt((double)count)) + 1, middle = count / 2;
    const int64_t low = middle > away ? middle - away : 0;
    const int64_t high = middle + away < count ? middle + away : count - 1;
    return (sorted[high] - sorted[low]) / (2 * sorted[middle]);
}

// Times in ns by the rule of the harness's kernels; returns their number. *stop: why sampling
// ended.
static inline int64_t bt_peer_sample(const cJSON *rules, bt_peer_function function,
                                     bt_peer_call *calls, int64_t copies, double *samples,
                                     const char **stop)
{
    const bool cold = bt_peer_is(rules, "cache", "cold");
    const size_t scrub_bytes =
        cold ? (size_t)bt_peer_number(rules, "scrub_caches") * bt_peer_cache_bytes() : 0;
    char *scrub = cold ? malloc(scrub_bytes) : NULL;
    int64_t count = 0, look = (int64_t)bt_peer_number(rules, "samples_min");
    for (int64_t i = 0; i < (int64_t)bt_peer_number(rules, "warmup_calls"); ++i) {
        function(&calls[i % copies]);
    }
    const double began_ns = bt_peer_clock_ns();
    for (*stop = NULL; !*stop;) {
        if (scrub) {
            memset(scrub, (int)(count % 256), scrub_bytes);
            __asm__ volatile("" : : "r"(scrub) : "memory");
        }
        const double start_ns = bt_peer_clock_ns();
        function(&calls[count % copies]);
        const double sample_ns = bt_peer_clock_ns() - start_ns;
        samples[count++] = sample_ns > 1 ? sample_ns : 1;
        const double passed_s = (bt_peer_clock_ns() - began_ns) / 1e9;
        if (count == BT_PEER_SAMPLES ||
            (passed_s >= bt_peer_number(rules, "max_time_s") && count >= 3)) {
            *stop = count == BT_PEER_SAMPLES ? "sample limit" : "time limit";
        } else if (count >= look && passed_s >= bt_peer_number(rules, "time_min_s")) {
            look = count * 9 / 8 + 1;
            *stop = bt_peer_interval(samples, count) <= bt_peer_number(rules, "interval_share")
                        ? "interval reached"
                        : NULL;
        }
    }
    free(scrub);
    return count;
}

// ---- the task ----------------------------------------------------------------------------------

static inline int64_t bt_peer_copies(const cJSON *rules, const bt_peer_call *call)
{
    size_t bytes = 1;
    for (int i = 0; i < call->count; ++i) {
        bytes += call->operands[i].size * (size_t)call->operands[i].count;
    }
    const double copies =
        bt_peer_number(rules, "rotate_caches") * (double)bt_peer_cache_bytes() / (double)bytes + 1;
    return !bt_peer_is(rules, "cache", "rotating") ? 1
           : copies < BT_PEER_COPIES               ? (int64_t)copies
                                                   : BT_PEER_COPIES;
}

static inline void bt_peer_measure(const cJSON *task, bt_peer_function function)
{
    static bt_peer_call calls[BT_PEER_COPIES];
    static double samples[BT_PEER_SAMPLES];
    const cJSON *rules = bt_peer_get(task, "rules");
    const char *stop = NULL;
    bt_peer_call checked;
    bt_peer_make(task, "0", &calls[0]);
    const int64_t copies = bt_peer_copies(rules, &calls[0]);
    for (int64_t i = 1; i < copies; ++i) {
        bt_peer_make(task, "0", &calls[i]);
    }
    const int64_t count = bt_peer_sample(rules, function, calls, copies, samples, &stop);
    for (int64_t at = 0; at < count; ++at) {
        const bool last = at + 1 == count || at % 1000 == 999;
        printf("%s%.0f%s", at % 1000 ? "," : "{\"event\":\"samples\",\"times_ns\":[", samples[at],
               last ? "]}\n" : "");
    }
    printf("{\"event\":\"measured\",\"calls_per_sample\":1,\"stop\":\"%s\"}\n", stop);
    bt_peer_make(task, "1", &checked);
    function(&checked);
    bt_peer_write(task, &checked);
    printf("{\"event\":\"outputs\"}\n{\"event\":\"result\",\"steps_done\":0}\n");
}

// The whole program: `device` is the name of the device in the record. Returns the exit code.
static inline int bt_peer_main(const char *device, bt_peer_accept accept, bt_peer_function function)
{
    char *line = NULL;
    size_t capacity = 0;
    cJSON *task = getline(&line, &capacity, stdin) > 0 ? cJSON_Parse(line) : NULL;
    if (!task) {
        bt_peer_fail("no task", "on standard input");
    }
    const cJSON *kernel = bt_peer_get(bt_peer_get(task, "case"), "kernel");
    const char *refusal = !bt_peer_get(task, "returns") || !bt_peer_get(task, "rules")
                              ? "only kernel cases whose outputs the recorder can check"
                              : accept(kernel);
    if (refusal) {
        printf("{\"event\":\"error\",\"status\":\"unsupported\",\"message\":\"%s\"}\n", refusal);
        return 4;
    }
    printf("{\"event\":\"start\",\"protocol\":1,\"system\":\"%s\",\"device\":\"%s\"}\n",
           bt_peer_text(task, "system"), device);
    (void)fflush(stdout);
    bt_peer_measure(task, function);
    cJSON_Delete(task);
    free(line);
    return 0;
}

#endif
