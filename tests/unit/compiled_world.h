// tests/unit/compiled_world.h - a small model whose step runs eagerly and compiled, on the CPU or a
// backend in its place
#ifndef BT_TESTS_UNIT_COMPILED_WORLD_H
#define BT_TESTS_UNIT_COMPILED_WORLD_H

#include "framework/compiler/step.h"
#include "tests/support/fixture.h"

typedef struct compiled_world {
    fixture f;
    bt_params params;
    bt_model model;
    bt_code_cache cache; // in the test's scratch folder
} compiled_world;

// family: "gpt2" or "llama", of two layers. On the CPU.
void compiled_world_open(compiled_world *w, const char *family, bt_dtype compute);
// On another backend whose memory is the host's.
void compiled_world_open_on(compiled_world *w, const char *backend, const char *family,
                            bt_dtype compute);
void compiled_world_close(compiled_world *w);

// Tokens drawn by seed, both tensors views of one, as the trainer's feed has them.
typedef struct compiled_tokens {
    bt_tensor *both, *ids, *targets;
    bt_batch batch;
} compiled_tokens;

void compiled_world_tokens(compiled_world *w, int64_t rows, int seed, compiled_tokens *t);
void compiled_world_release_tokens(compiled_tokens *t);

// The bytes of a loss and of all gradients, which are cleared; free() them.
unsigned char *compiled_world_take(compiled_world *w, const bt_tensor *loss, size_t *bytes);
// `count` batches of `rows` rows after each other, gradients added up; step NULL: eagerly.
unsigned char *compiled_world_run(compiled_world *w, bt_compiled_step *step, int64_t rows,
                                  int count, size_t *bytes);
// The test fails unless both have the same bits.
void compiled_world_same(compiled_world *w, bt_compiled_step *step, int64_t rows, int count);

#endif
