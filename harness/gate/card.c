// harness/gate/card.c - the digest of a card
#include "harness/gate/card.h"

#include <sodium.h>
#include <string.h>

#define SALT "bt-bench card\n"

void bt_gate_card(const bt_store_env *env, char digest[33])
{
    const char *uuid = bt_fact_of(env, "gpu.uuid");
    unsigned char bytes[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    digest[0] = '\0';
    if (!uuid || !*uuid || uuid[0] == '(') { // "(left out)" of a published record
        return;
    }
    (void)crypto_hash_sha256_init(&state);
    (void)crypto_hash_sha256_update(&state, (const unsigned char *)SALT, sizeof SALT - 1);
    (void)crypto_hash_sha256_update(&state, (const unsigned char *)uuid, strlen(uuid));
    (void)crypto_hash_sha256_final(&state, bytes);
    (void)sodium_bin2hex(digest, 33, bytes, 16);
}

bool bt_gate_same_card(const bt_store_env *base, const char *base_card, const bt_store_env *env)
{
    char card[33];
    bt_gate_card(env, card);
    bool gpu = bt_fact_of(base, "gpu.name") || bt_fact_of(env, "gpu.name");
    return !gpu || (*card && strcmp(card, base_card) == 0);
}
