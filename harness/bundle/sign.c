// harness/bundle/sign.c - keys and signatures, by libsodium
//
// Keys are the PEM files of openssl (RFC 8410): `openssl genpkey -algorithm ed25519` makes one that
// serves here, and `openssl pkeyutl -verify` checks what is signed here.
#include "harness/bundle/sign.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/bundle/files.h"
#include "harness/suite/json.h"
#include "harness/text/json_writer.h"

#define PAYLOAD_TYPE "application/vnd.in-toto+json"

// Prefix of the 32 bytes of a key in its DER form.
static const unsigned char secret_head[16] = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                                              0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};
static const unsigned char open_head[12] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                            0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
enum { KEY_BYTES = 32, DER_BYTES_MAX = 64 };

static bt_status start(void)
{
    return sodium_init() < 0 ? bt_error(BT_STATUS_INTERNAL, "cannot initialise libsodium") : BT_OK;
}

static void name_key(bt_bundle_key *key)
{
    unsigned char der[sizeof open_head + KEY_BYTES];
    memcpy(der, open_head, sizeof open_head);
    memcpy(der + sizeof open_head, key->open, KEY_BYTES);
    bt_files_digest(der, sizeof der, key->id);
}

void bt_bundle_key_forget(bt_bundle_key *key) { sodium_memzero(key, sizeof *key); }

// ---- key files ---------------------------------------------------------------------------------

static bt_status write_new(const char *path, const char *text, size_t size_bytes, mode_t mode)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file < 0) {
        return errno == EEXIST
                   ? bt_error(BT_STATUS_INVALID_ARGUMENT,
                              "%s already exists and is not overwritten; choose another name", path)
                   : bt_error(BT_STATUS_IO, "cannot create %s: %s", path, strerror(errno));
    }
    bool done = write(file, text, size_bytes) == (ssize_t)size_bytes;
    done = fsync(file) == 0 && done;
    done = close(file) == 0 && done;
    if (!done) {
        (void)unlink(path);
        return bt_error(BT_STATUS_IO, "cannot write %s", path);
    }
    return BT_OK;
}

static bt_status write_pem(const char *path, const char *label, const unsigned char *head,
                           size_t head_bytes, const unsigned char *key, mode_t mode)
{
    unsigned char der[DER_BYTES_MAX];
    char code[sodium_base64_ENCODED_LEN(DER_BYTES_MAX, sodium_base64_VARIANT_ORIGINAL)], text[256];
    memcpy(der, head, head_bytes);
    memcpy(der + head_bytes, key, KEY_BYTES);
    (void)sodium_bin2base64(code, sizeof code, der, head_bytes + KEY_BYTES,
                            sodium_base64_VARIANT_ORIGINAL);
    int length = snprintf(text, sizeof text, "-----BEGIN %s KEY-----\n%s\n-----END %s KEY-----\n",
                          label, code, label);
    bt_status status = write_new(path, text, (size_t)length, mode);
    sodium_memzero(der, sizeof der);
    sodium_memzero(code, sizeof code);
    sodium_memzero(text, sizeof text);
    return status;
}

bt_status bt_bundle_key_make(const char *secret_path, const char *open_path)
{
    unsigned char open_key[KEY_BYTES], secret[64];
    BT_TRY(start());
    BT_FAIL_IF(bt_file_exists(open_path), BT_STATUS_INVALID_ARGUMENT,
               "%s already exists and is not overwritten; choose another name", open_path);
    (void)crypto_sign_ed25519_keypair(open_key, secret);
    bt_status status =
        write_pem(secret_path, "PRIVATE", secret_head, sizeof secret_head, secret, 0600);
    BT_IF_OK(status, write_pem(open_path, "PUBLIC", open_head, sizeof open_head, open_key, 0644));
    sodium_memzero(secret, sizeof secret);
    return status;
}

// The bytes between the lines of a PEM file, 0 when there are none of this label.
static size_t read_pem(const char *text, const char *label, unsigned char der[DER_BYTES_MAX])
{
    char line[64];
    size_t size_bytes = 0;
    (void)snprintf(line, sizeof line, "-----BEGIN %s KEY-----", label);
    const char *from = strstr(text, line);
    (void)snprintf(line, sizeof line, "-----END %s KEY-----", label);
    const char *to = from ? strstr(from, line) : NULL;
    from = from ? strchr(from, '\n') : NULL;
    if (!from || !to || to < from ||
        sodium_base642bin(der, DER_BYTES_MAX, from, (size_t)(to - from), "\r\n ", &size_bytes, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0) {
        return 0;
    }
    return size_bytes;
}

static bool take_key(const char *text, bool need_secret, bt_bundle_key *out)
{
    unsigned char der[DER_BYTES_MAX];
    size_t size_bytes = read_pem(text, "PRIVATE", der);
    bool found = false;
    if (size_bytes == sizeof secret_head + KEY_BYTES &&
        memcmp(der, secret_head, sizeof secret_head) == 0) {
        (void)crypto_sign_ed25519_seed_keypair(out->open, out->secret, der + sizeof secret_head);
        out->has_secret = found = true;
    } else if (!need_secret) {
        size_bytes = read_pem(text, "PUBLIC", der);
        found = size_bytes == sizeof open_head + KEY_BYTES &&
                memcmp(der, open_head, sizeof open_head) == 0;
        memcpy(out->open, der + sizeof open_head, KEY_BYTES);
    }
    sodium_memzero(der, sizeof der);
    return found;
}

bt_status bt_bundle_key_read(const char *path, bool need_secret, bt_bundle_key *out)
{
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size_bytes = 0;
    memset(out, 0, sizeof *out);
    BT_TRY(start());
    BT_FAIL_IF(!bt_file_exists(path), BT_STATUS_IO,
               "%s: no such key; 'bt-bench keygen -o NAME' creates a pair of keys", path);
    BT_TRY(bt_file_read(path, &bytes, &size_bytes));
    bool found = take_key(bytes, need_secret, out);
    sodium_memzero(bytes, size_bytes);
    if (!found) {
        bt_bundle_key_forget(out);
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: not a %s Ed25519 key in PEM format", path,
                        need_secret ? "secret" : "public or secret");
    }
    name_key(out);
    return BT_OK;
}

// ---- envelopes ---------------------------------------------------------------------------------

// The signed data: the payload with its type and both lengths.
static void append_signed_form(const char *payload, size_t size_bytes, bt_str *out)
{
    bt_str_format(out, "DSSEv1 %zu %s %zu ", strlen(PAYLOAD_TYPE), PAYLOAD_TYPE, size_bytes);
    bt_str_append_bytes(out, payload, size_bytes);
}

static bt_status append_code(const void *bytes, size_t size_bytes, bt_str *out)
{
    BT_SCOPED_MEM(void *) block = NULL;
    size_t capacity = sodium_base64_encoded_len(size_bytes, sodium_base64_VARIANT_ORIGINAL);
    BT_TRY(bt_mem_alloc(capacity, 1, &block));
    (void)sodium_bin2base64(block, capacity, bytes, size_bytes, sodium_base64_VARIANT_ORIGINAL);
    bt_str_append(out, block);
    return bt_str_status(out);
}

static void write_envelope(const char *payload, const char *key_id, const char *code, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 1};
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("payloadType", PAYLOAD_TYPE), BT_KV("payload", payload));
    bt_json_writer_open(&json, "signatures", '[');
    BT_JSON_OBJECT(&json, NULL, BT_KV("keyid", key_id), BT_KV("sig", code));
    bt_json_writer_close(&json, ']');
    bt_json_writer_close(&json, '}');
    bt_str_append(out, "\n");
}

bt_status bt_sign_envelope(const bt_str *statement, const bt_bundle_key *key, bt_str *out)
{
    unsigned char signature[crypto_sign_ed25519_BYTES];
    BT_SCOPED(bt_str) form = {0}, payload = {0}, code = {0};
    append_signed_form(bt_str_text(statement), statement->length_bytes, &form);
    BT_TRY(bt_str_status(&form));
    (void)crypto_sign_ed25519_detached(signature, NULL, (const unsigned char *)bt_str_text(&form),
                                       form.length_bytes, key->secret);
    BT_TRY(append_code(bt_str_text(statement), statement->length_bytes, &payload));
    BT_TRY(append_code(signature, sizeof signature, &code));
    write_envelope(bt_str_text(&payload), key->id, bt_str_text(&code), out);
    return bt_str_status(out);
}

static bt_status decode(const char *code, bt_str *out)
{
    BT_SCOPED_MEM(void *) block = NULL;
    size_t size_bytes = 0, length = strlen(code);
    BT_TRY(bt_mem_alloc(length + 1, 1, &block));
    bool good = sodium_base642bin(block, length + 1, code, length, NULL, &size_bytes, NULL,
                                  sodium_base64_VARIANT_ORIGINAL) == 0;
    if (good) {
        bt_str_append_bytes(out, block, size_bytes);
    }
    return good ? bt_str_status(out) : bt_error(BT_STATUS_INVALID_ARGUMENT, "no base64");
}

// The parts of an envelope, borrowed from its tree.
typedef struct envelope {
    const char *payload, *key_id, *code;
    unsigned char signature[crypto_sign_ed25519_BYTES];
} envelope;

// An envelope in another form than ours is rejected, so that every byte is fixed.
static bt_status take_apart(const char *name, const bt_json_doc *json, size_t size_bytes,
                            envelope *out)
{
    const cJSON *list = bt_json_get(json->root, "signatures");
    const cJSON *first = cJSON_IsArray(list) ? list->child : NULL;
    BT_SCOPED(bt_str) again = {0};
    size_t length = 0;
    *out = (envelope){.payload = bt_json_text_of(json->root, "payload"),
                      .key_id = bt_json_text_of(first, "keyid"),
                      .code = bt_json_text_of(first, "sig")};
    write_envelope(out->payload, out->key_id, out->code, &again);
    BT_TRY(bt_str_status(&again));
    bool same = again.length_bytes == size_bytes &&
                memcmp(bt_str_text(&again), json->text, size_bytes) == 0;
    BT_FAIL_IF(!same || strlen(out->key_id) != 64 ||
                   sodium_base642bin(out->signature, sizeof out->signature, out->code,
                                     strlen(out->code), NULL, &length, NULL,
                                     sodium_base64_VARIANT_ORIGINAL) != 0 ||
                   length != sizeof out->signature,
               BT_STATUS_INVALID_ARGUMENT, "%s: not a DSSE envelope with one signature", name);
    return BT_OK;
}

static bt_status check_signature(const envelope *parts, const bt_bundle_key *key,
                                 const bt_str *statement, bool *holds)
{
    BT_SCOPED(bt_str) form = {0};
    append_signed_form(bt_str_text(statement), statement->length_bytes, &form);
    BT_TRY(bt_str_status(&form));
    *holds = crypto_sign_ed25519_verify_detached(parts->signature,
                                                 (const unsigned char *)bt_str_text(&form),
                                                 form.length_bytes, key->open) == 0;
    return BT_OK;
}

bt_status bt_sign_open(const char *name, const char *text, size_t size_bytes,
                       const bt_bundle_key *key, bt_str *statement, char key_id[65], bool *holds)
{
    BT_SCOPED(bt_json_doc) json = {0};
    envelope parts;
    *holds = false;
    BT_TRY(start());
    BT_TRY(bt_json_parse(name, text, size_bytes, &json));
    BT_TRY(take_apart(name, &json, size_bytes, &parts));
    memcpy(key_id, parts.key_id, 65);
    BT_TRY(bt_error_context(decode(parts.payload, statement), "%s: the payload", name));
    if (key) {
        BT_TRY(check_signature(&parts, key, statement, holds));
    }
    return BT_OK;
}
