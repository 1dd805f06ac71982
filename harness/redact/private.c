// harness/redact/private.c - removes what identifies a machine
//
// The value of a private fact is removed, its key is kept; the same value in a command, a message
// or a file of the run is removed as well, and so is any text in the form of a UUID (GPUs, boot
// ids) or of a MAC address. Like the rule for paths this depends on the run alone, not on the
// machine.
#include "harness/redact/private.h"
#include "harness/redact/redact.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/idioms.h"

enum { WORD_BYTES_MIN = 8 }; // a shorter one ("Linux") occurs in unrelated texts

typedef struct bt_secret {
    const char *text;
    size_t size_bytes;
} bt_secret;

static int by_size(const void *left, const void *right)
{
    const bt_secret *a = left, *b = right;
    return (a->size_bytes < b->size_bytes) - (a->size_bytes > b->size_bytes);
}

static void keep(bt_secret *list, int64_t *count, const char *text, size_t size_bytes)
{
    if (size_bytes >= WORD_BYTES_MIN) {
        list[(*count)++] = (bt_secret){text, size_bytes};
    }
}

// The value as a whole, and each of its words.
static void keep_value(bt_secret *list, int64_t *count, const char *value)
{
    keep(list, count, value, strlen(value));
    if (!strchr(value, ' ')) {
        return;
    }
    for (const char *at = value; *at; at += strspn(at, " ")) {
        size_t size_bytes = strcspn(at, " ");
        keep(list, count, at, size_bytes);
        at += size_bytes;
    }
}

bt_status bt_secrets_gather(const bt_store_env *env, bt_arena *arena, bt_secrets *out)
{
    size_t room = 0;
    for (int64_t i = 0; i < env->fact_count; i++) {
        room += 2 + strlen(env->facts[i].value) / WORD_BYTES_MIN;
    }
    bt_secret *list = NULL;
    BT_TRY(BT_ARENA_ARRAY(arena, room, &list));
    *out = (bt_secrets){.words = list};
    for (int64_t i = 0; i < env->fact_count; i++) {
        if (bt_fact_is_private(env->facts[i].key)) {
            keep_value(list, &out->count, env->facts[i].value);
        }
    }
    qsort(list, (size_t)out->count, sizeof *list, by_size);
    return BT_OK;
}

// Length of the word of this form that begins here, 0 if there is none: 'x' is a hexadecimal digit,
// anything else itself.
static size_t form_at(const char *form, const char *text, size_t at, size_t length)
{
    size_t size_bytes = strlen(form);
    if (size_bytes > length - at || (at > 0 && isxdigit((unsigned char)text[at - 1])) ||
        (at + size_bytes < length && isxdigit((unsigned char)text[at + size_bytes]))) {
        return 0;
    }
    for (size_t i = 0; i < size_bytes; i++) {
        unsigned char byte = (unsigned char)text[at + i];
        if (form[i] == 'x' ? !isxdigit(byte) : byte != (unsigned char)form[i]) {
            return 0;
        }
    }
    return size_bytes;
}

static size_t secret_at(const bt_secrets *secrets, const char *text, size_t at, size_t length)
{
    static const char *const forms[] = {"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
                                        "xx:xx:xx:xx:xx:xx"};
    BT_EACH(const bt_secret, word, secrets->words, secrets->count) {
        if (word->size_bytes <= length - at &&
            memcmp(word->text, text + at, word->size_bytes) == 0) {
            return word->size_bytes;
        }
    }
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t size_bytes = form_at(forms[i], text, at, length);
        if (size_bytes > 0) {
            return size_bytes;
        }
    }
    return 0;
}

bool bt_secrets_mask(const bt_secrets *secrets, const char *text, size_t length, bt_str *out)
{
    bool changed = false;
    size_t kept = 0; // up to here the text has been copied to `out`
    for (size_t at = 0; at < length;) {
        size_t size_bytes = secret_at(secrets, text, at, length);
        if (size_bytes > 0) {
            bt_str_append_bytes(out, text + kept, at - kept);
            bt_str_append(out, BT_REDACT_LEFT_OUT);
            kept = at + size_bytes;
            changed = true;
        }
        at += size_bytes > 0 ? size_bytes : 1;
    }
    bt_str_append_bytes(out, text + kept, length - kept);
    return changed;
}
