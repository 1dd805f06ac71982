// tests/fuzz/fuzz_bundle.c - any bytes as a bundle, and any bytes as a file of a sound bundle
//
// The digest at a bundle's end would keep almost every input outside. So a bundle is made of what
// the input says: "name<newline>bytes" replaces that file of a small sound bundle, with the
// manifest made anew; verify must find that, unless it is what was there before.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/bundle/content.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static void make_sound(bt_files *files)
{
    static const double samples[] = {3.0, 1.0, 2.0};
    static const bt_store_step steps[] = {{.step = 0, .loss = 2.5F, .tokens = 8, .host_ns = 10}};
    static const bt_store_eval evals[] = {{.step = 1, .loss = 2.25}};
    static const bt_store_range ranges[] = {{.step = 0, .path = "step", .count = 1}};
    static const bt_store_telemetry telemetry[] = {{.t_ns = 1.0}};
    static const bt_store_fact facts[] = {{"cpu.model", "x", BT_FACT_HARD}};
    static const bt_store_measurement measured[] = {{BT_METRIC_TIME, 2.0, 1.0, 3.0, samples, 3}};
    static const bt_store_round rounds[] = {
        {.what = {"b", "kernel", "k", "{\"kernel\":{}}", "blutrain"},
         .shape = {"d", "f32", "", 1, 1, 1, 1, 1, 1},
         .status = BT_RUN_PASSED,
         .message = "",
         .params_digest = "",
         .label = "",
         .started_ns = 1,
         .ended_ns = 2,
         .steps = steps,
         .step_count = 1,
         .evals = evals,
         .eval_count = 1,
         .ranges = ranges,
         .range_count = 1,
         .telemetry = telemetry,
         .telemetry_count = 1,
         .measurements = measured,
         .measurement_count = 1}};
    static const bt_store_run run = {.id = 1,
                                     .info = {.suite = {"h", "s", "p", "s.json", "{}"},
                                              .build = {"d", "1", "", "", "c", "f", "t", ""},
                                              .env = {"e", facts, 1},
                                              .command = "c",
                                              .out_dir = "",
                                              .seed = 1},
                                     .status = BT_RUN_PASSED,
                                     .message = "",
                                     .started_ns = 1,
                                     .ended_ns = 2,
                                     .rounds = rounds,
                                     .round_count = 1};
    if (bt_content_build(&run, NULL, files) != BT_OK) {
        abort();
    }
}

static void copy(const bt_files *from, bt_files *to)
{
    for (int64_t i = 0; i < from->count; i++) {
        bt_str text = {0};
        bt_str_append_bytes(&text, from->items[i].bytes, from->items[i].size_bytes);
        if (bt_files_add(to, from->items[i].name, &text) != BT_OK) {
            abort();
        }
    }
}

static void verify(const void *bytes, size_t size_bytes)
{
    bt_bundle_check check;
    bt_status status = bt_bundle_verify_bytes("fuzz", bytes, size_bytes, NULL, &check);
    if (status != BT_OK && !*bt_error_message()) {
        abort(); // refused without a word
    }
    if (status == BT_OK) {
        bt_bundle_check_release(&check);
    }
}

// Replaces the file that the input names, when the bundle has it.
static void verify_with(const bt_files *sound, const uint8_t *bytes, size_t size_bytes)
{
    char name[64];
    const uint8_t *newline = memchr(bytes, '\n', size_bytes);
    size_t length = newline ? (size_t)(newline - bytes) : sizeof name;
    bt_files files = {0};
    bt_str text = {0}, packed = {0};
    bt_content_maker maker;
    if (length >= sizeof name) {
        return;
    }
    memcpy(name, bytes, length);
    name[length] = '\0';
    if (!bt_files_find(sound, name)) {
        return;
    }
    copy(sound, &files);
    bt_files_remove(&files, name);
    bt_str_append_bytes(&text, newline + 1, size_bytes - length - 1);
    if (bt_files_add(&files, name, &text) != BT_OK || bt_content_maker_self(&maker) != BT_OK) {
        abort();
    }
    if (strcmp(name, "manifest.json") != 0) {
        bt_files_remove(&files, "manifest.json");
        if (bt_content_add_manifest(&maker, &files) != BT_OK) {
            abort();
        }
    }
    if (bt_files_pack(&files, &packed) != BT_OK) {
        abort();
    }
    verify(bt_str_text(&packed), packed.length_bytes);
    bt_str_release(&packed);
    bt_files_release(&files);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    static bt_files sound;
    if (sound.count == 0) {
        make_sound(&sound);
    }
    int64_t before = bt_mem_live_count();
    verify(bytes, size_bytes);
    verify_with(&sound, bytes, size_bytes);
    if (bt_mem_live_count() != before) {
        abort(); // something leaked
    }
    return 0;
}
