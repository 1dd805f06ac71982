// framework/checkpoint/manifest.h - the contents of a checkpoint's folder, as a struct and as JSON
//
// The JSON's first member is the XXH3-128 of all bytes after it, so that a change of any bit is
// detected. It contains the XXH3-128 of each file's header and of each tensor's bytes: together
// they cover every byte of the folder.
#ifndef BT_CHECKPOINT_MANIFEST_H
#define BT_CHECKPOINT_MANIFEST_H

#include "framework/checkpoint/safetensors.h"
#include "framework/checkpoint/state.h"

struct cJSON;

#define BT_MANIFEST_FORMAT "blutrain-checkpoint-1"
#define BT_MANIFEST_NAME   "manifest.json"

enum {
    BT_MANIFEST_LIMIT = 64 << 20, // bytes
    BT_MANIFEST_TEXT_LIMIT = 256  // bytes of plan hash and build, with the zero
};

typedef struct bt_manifest_file {
    char name[64];
    uint64_t size_bytes;
    char head_xxh3[33];
} bt_manifest_file;

typedef struct bt_manifest_tensor {
    char *name; // owned
    bt_dtype dtype;
    bt_shape shape;
    int64_t file;          // index
    uint64_t offset_bytes; // in the file
    uint64_t size_bytes;
    char xxh3[33];
} bt_manifest_tensor;

typedef struct bt_manifest {
    bt_state_values values;
    char plan_hash[BT_MANIFEST_TEXT_LIMIT];
    char build[BT_MANIFEST_TEXT_LIMIT];
    bt_manifest_file *files;     // owned [file_count]
    bt_manifest_tensor *tensors; // owned [tensor_count], by file and offset
    int64_t file_count, tensor_count;
} bt_manifest;

void bt_manifest_release(bt_manifest *manifest);
// XXH3-128 of names, types, shapes, tensors' hashes and optionally values: with values it equals
// bt_state_digest of the same state.
BT_CHECKED bt_status bt_manifest_digest(const bt_manifest *manifest, bool values, char digest[33]);
// Errors  OUT_OF_MEMORY, INVALID_ARGUMENT (a value that JSON cannot represent exactly)
BT_CHECKED bt_status bt_manifest_print(const bt_manifest *manifest, bt_str *json);
// Writes the hash of the following bytes into a manifest's JSON.
void bt_manifest_seal(bt_str *json);
// Owns    *out: the caller, until bt_manifest_release, also when this fails
// Errors  CORRUPT_DATA, UNSUPPORTED (another format version), OUT_OF_MEMORY
BT_CHECKED bt_status bt_manifest_parse(const char *path, const char *text, size_t size_bytes,
                                       bt_manifest *out);

// Converts the values to JSON members and back. state_values.c
void bt_state_values_print(const bt_state_values *values, bt_str *json);
BT_CHECKED bt_status bt_state_values_parse(const char *path, const struct cJSON *object,
                                           bt_state_values *out);

#endif
