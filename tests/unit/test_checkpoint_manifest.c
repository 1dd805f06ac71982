// tests/unit/test_checkpoint_manifest.c - manifests whose hash is right and whose contents are not
//
// The hash guards against accidents; whoever writes a manifest on purpose makes it right.
#include "tests/support/test.h"

#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/manifest.h"
#include "tests/support/checkpoint_state.h"
#include "tests/support/fake_disk.h"

static const char manifest_path[] = "/store/step-00000007/manifest.json";

// The manifest of a saved checkpoint with one text replaced by another.
static const struct {
    const char *from, *to;
    bt_status status; // of bt_checkpoint_verify
    const char *words;
} rows[] = {
    {"blutrain-checkpoint-1", "blutrain-checkpoint-2", BT_STATUS_UNSUPPORTED,
     "expected format blutrain-checkpoint-1, got \"blutrain-checkpoint-2\""},
    {"\"format\"", "\"fermat\"", BT_STATUS_UNSUPPORTED, "got \"\""},
    {"\"step\":7", "\"step\":8", BT_STATUS_CORRUPT_DATA, "contains step 8"},
    {"\"step\":7", "\"step\":-7", BT_STATUS_CORRUPT_DATA, "values.step is -7"},
    {"\"step\":7", "\"step\":7.5", BT_STATUS_CORRUPT_DATA, "values.step is missing or invalid"},
    {"\"step\":7", "\"stop\":7", BT_STATUS_CORRUPT_DATA, "values.step is missing or invalid"},
    {"\"rng_index\":\"", "\"rng_index\":\"0", BT_STATUS_CORRUPT_DATA, "values.rng_index"},
    {"\"rng_index\":\"", "\"rng_index\":\"-", BT_STATUS_CORRUPT_DATA, "values.rng_index"},
    {"\"schedule_lr\":", "\"schedule_lr\":1e999,\"x\":", BT_STATUS_CORRUPT_DATA, "schedule_lr"},
    {"\"build\":\"\"", "\"build\":1", BT_STATUS_CORRUPT_DATA, "plan_hash or build"},
    {"{\"file\":\"state-00001", "{\"file\":\"../state-00001", BT_STATUS_CORRUPT_DATA, "file 0"},
    {"{\"file\":\"state-00001", "{\"file\":\"/state-00001", BT_STATUS_CORRUPT_DATA, "file 0"},
    {"{\"file\":\"state-00001", "{\"file\":\"state-00009", BT_STATUS_IO, "state-00009"},
    {"\"head_xxh3\":\"", "\"head_xxh3\":\"0", BT_STATUS_CORRUPT_DATA, "file 0"},
    {"\"file\":0", "\"file\":1", BT_STATUS_CORRUPT_DATA, "tensor 0"},
    {"\"dtype\":\"f32\"", "\"dtype\":\"f33\"", BT_STATUS_CORRUPT_DATA, "tensor"},
    {"\"shape\":[5,7]", "\"shape\":[7,5]", BT_STATUS_CORRUPT_DATA,
     "tensor h.0.weight differs from its entry in the manifest"},
    {"\"shape\":[5,7]", "\"shape\":[5,8]", BT_STATUS_CORRUPT_DATA, "tensor"},
    {"\"shape\":[5,7]", "\"shape\":[5,-7]", BT_STATUS_CORRUPT_DATA, "tensor"},
    {"\"shape\":[5,7]", "\"shape\":[1,1,1,1,1,1,1,5,7]", BT_STATUS_CORRUPT_DATA, "tensor"},
    {"\"name\":\"ids\"", "\"name\":\"idz\"", BT_STATUS_CORRUPT_DATA,
     "tensor idz differs from its entry in the manifest"},
    {"\"tensors\":[", "\"tensors\":[],\"others\":[", BT_STATUS_CORRUPT_DATA,
     "9 tensors, but the manifest has 0"},
    {"\"files\":[", "\"files\":[],\"others\":[", BT_STATUS_CORRUPT_DATA, "tensor 0"},
    {"\"xxh3\":\"", "\"xxh3\":\"x", BT_STATUS_CORRUPT_DATA,
     "does not begin with the header of a manifest"},
    {"]}\n", "]}x\n", BT_STATUS_CORRUPT_DATA, "bytes after the JSON object"},
    {"]}\n", "\n", BT_STATUS_CORRUPT_DATA, "not a JSON object"},
    {"\"build\":", "\"files\":[],\"build\":", BT_STATUS_CORRUPT_DATA, "\"files\" occurs twice"},
};

static void replace(const char *text, const char *from, const char *to, bt_str *out)
{
    const char *at = strstr(text, from);
    assert_non_null(at);
    bt_str_clear(out);
    bt_str_append_bytes(out, text, (size_t)(at - text));
    bt_str_append(out, to);
    bt_str_append(out, at + strlen(from));
    ASSERT_OK(bt_str_status(out));
    bt_manifest_seal(out);
}

// Another file in the place of one.
static void rewrite(const bt_file_ops *ops, const char *path, const bt_str *text)
{
    assert_int_equal(ops->remove_file(ops->self, path), 0);
    ASSERT_OK(bt_io_create(ops, path, text->text, text->length_bytes));
}

static void contents(void **state)
{
    (void)state;
    fixture session;
    test_state s;
    bt_checkpoint_info info;
    size_t size_bytes = 0;
    bt_str sound = {0};
    bt_str changed = {0};
    fake_disk *disk = fake_disk_make();
    const bt_file_ops *ops = fake_disk_ops(disk);
    const bt_checkpoint_store store = {.folder = "/store", .ops = ops};
    fixture_open(&session, 0);
    test_state_open(&s, &session.context, 1);
    test_state_fill(&s, 7);
    ASSERT_OK(bt_checkpoint_save(&session.context, &store, &(bt_checkpoint_options){0}, &s.state));
    const unsigned char *bytes = fake_disk_bytes(disk, manifest_path, &size_bytes);
    bt_str_append_bytes(&sound, bytes, size_bytes);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        replace(bt_str_text(&sound), rows[i].from, rows[i].to, &changed);
        rewrite(ops, manifest_path, &changed);
        bt_status status = bt_checkpoint_verify(&store, 7, &info);
        if (status != rows[i].status || !strstr(bt_error_message(), rows[i].words)) {
            fail_msg("%s -> %s: %s: %s", rows[i].from, rows[i].to, bt_status_text(status),
                     bt_error_message());
        }
    }
    rewrite(ops, manifest_path, &sound); // the way itself is sound
    ASSERT_OK(bt_checkpoint_verify(&store, 7, &info));
    bt_str_release(&changed);
    bt_str_release(&sound);
    test_state_close(&s);
    fixture_close(&session);
    fake_disk_free(disk);
    assert_int_equal(bt_mem_live_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(contents)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
