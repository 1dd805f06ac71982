// harness/plan/memory.c - a training case's device memory, estimated
#include <math.h>
#include <omp.h>
#include <string.h>

#include "harness/plan/decoder.h"

static double larger_of(double a, double b) { return a > b ? a : b; }
static double smaller_of(double a, double b) { return a < b ? a : b; }

// Values per token and width of a block. Tensor parallel ranks have all that scales with the width,
// and a part of what scales with heads and the hidden layer. With sequence_parallel `dealt` is
// sharded by rows: the residual stream and its gradients, but not rows gathered for a product.
typedef struct block_values {
    double whole, dealt, shared;
} block_values;

// Kept for the backward: two residual sums, and (sharded) attention's output; (sharded) qkv and
// pre-activation; the outputs of both norms, and (sharded) GELU's.
static const block_values kept_of_block[BT_RECOMPUTE_COUNT] = {
    [BT_RECOMPUTE_NONE] = {2, 2, 12},
    [BT_RECOMPUTE_GELU_LN] = {0, 2, 8},
    [BT_RECOMPUTE_BLOCK] = {0, 2, 1},
    [BT_RECOMPUTE_BLOCK_OFFLOAD] = {0, 0, 0}}; // in host memory
// In addition during a block's backward: gradients (of the hidden layer 4, of input and output),
// and tensors that are recomputed, or in transfer from or to host memory (the 3 kept of this block,
// and 3 of the one before it).
static const block_values used_by_block[BT_RECOMPUTE_COUNT] = {
    [BT_RECOMPUTE_NONE] = {1, 2, 4},
    [BT_RECOMPUTE_GELU_LN] = {2, 2, 8},
    [BT_RECOMPUTE_BLOCK] = {3, 2, 13},
    [BT_RECOMPUTE_BLOCK_OFFLOAD] = {7, 2, 15}};

// For a Llama block: norms keep what they divide and multiply, in fp32, and their output; rotated
// queries and keys, values, attention's output; the gate before and after its function, the other
// half and their product.
static block_values llama_block(const cJSON *train, double width, bool narrow)
{
    const double keys = (double)bt_plan_keys_width(train) / width, norm = narrow ? 5 : 3;
    return (block_values){2 * norm, 0, 2 + 2 * keys + 4 * (double)bt_plan_hidden(train) / width};
}

// In addition during its backward: the gradients of its output and of three hidden layers, or as
// much as a GPT-2 block's.
static block_values used_by_llama_block(const cJSON *train, double width)
{
    block_values used = used_by_block[BT_RECOMPUTE_NONE];
    used.shared = larger_of(used.shared, 3 * (double)bt_plan_hidden(train) / width - 2);
    return used;
}

// rows: number of ranks over which rows of the residual stream are sharded.
static double on_rank(block_values values, double tensor, double rows)
{
    return values.whole + values.dealt / rows + values.shared / tensor;
}

// Kept for the backward of a block. Tensor parallel ranks do not recompute queries, keys and
// values, nor, with whole rows, the sum of the projection. With row_chunks (framework/ops) they
// gather rows again instead of keeping them.
static double kept_on_rank(bt_recompute_mode mode, double tensor, double rows, bool chunks)
{
    block_values kept = kept_of_block[mode];
    if (chunks) {
        kept.dealt += kept.whole;
        kept.whole = 0;
    }
    if (tensor > 1 && mode == BT_RECOMPUTE_BLOCK) {
        kept.shared += 3;
        kept.whole += rows > 1 ? 0 : 1;
    }
    return on_rank(kept, tensor, rows);
}

// Blocks of keys and values in a ring of context parallel ranks: three per rank of the ring. Ranks
// that share heads have blocks of more tokens and fewer heads, but are one in a ring.
static double ring_elements(const cJSON *train, double tokens, const bt_plan_mesh *mesh)
{
    const double heads = bt_json_number_of(bt_json_get(train, "mesh"), "shared_heads");
    const double ring = (double)mesh->context / (heads > 1 ? heads : 1);
    if (ring <= 1) {
        return 0;
    }
    return 3 * ring * 2 * tokens * (double)bt_plan_keys_width(train) / (double)mesh->tensor;
}

// Matrices [tokens, width] for the exchange of chunks (ops/row_chunks.h).
enum { CHUNK_AREAS = 4 };

// Maximum size of logits that exist at a time (bt_linear_cross_entropy_rows).
#define HEAD_LOGITS_BYTES (1.125 * 1024 * 1024 * 1024)

bt_plan_recompute bt_plan_recompute_of(const cJSON *train)
{
    const int64_t layers = (int64_t)bt_plan_number(train, "model.layers");
    const int64_t blocks = (int64_t)bt_plan_number(train, "recompute_blocks");
    const cJSON *mode = bt_json_get(train, "recompute");
    bt_plan_recompute how = {BT_RECOMPUTE_NONE, layers};
    if (cJSON_IsString(mode) && bt_recompute_mode_parse(mode->valuestring, &how.mode) && blocks) {
        how.blocks = blocks < layers ? blocks : layers;
    }
    return how;
}

// Values in fp32 that asynchronous saves copy within the GPU's memory: weights and two moments. Of
// several ranks without checkpoints the launcher keeps the state by such saves. Ranks that have
// parts of them gather them in the host's memory instead.
static double snapshot_bytes(const cJSON *train, double parameters, const bt_plan_mesh *mesh,
                             const bt_plan_ranks *ranks)
{
    const cJSON *keys = bt_json_get(train, "checkpoint");
    const bool in_parts =
        mesh->tensor > 1 || (ranks->ranks > 1 && ranks->sharding != BT_SHARDING_DDP);
    if (in_parts) {
        return 0;
    }
    if (ranks->ranks > 1 && !bt_plan_saves(train)) {
        return 12 * parameters;
    }
    if (!cJSON_IsTrue(bt_json_get(keys, "asynchronous")) ||
        bt_json_is_text(keys, "snapshot", "host")) {
        return 0;
    }
    return (bt_json_is_text(keys, "content", "parameters") ? 4 : 12) * parameters;
}

// Values per token and width that a rank holds of the blocks.
typedef struct held_values {
    double all;   // kept of all blocks
    double first; // kept of the blocks with the mode, which are the first
    double one;   // kept of one of these
    double used;  // in addition during its backward
    double used_by_last;
} held_values;

static held_values held_on_rank(const cJSON *train, bt_plan_recompute how, double tensor,
                                double rows, bool chunks, bool narrow)
{
    const double layers = bt_plan_number(train, "model.layers");
    const double width = bt_plan_number(train, "model.width"), blocks = (double)how.blocks;
    const double sums = tensor > 1; // on tensor parallel ranks: a sum in progress
    bt_recompute_mode cheaper = how.mode ? (bt_recompute_mode)(how.mode - 1) : BT_RECOMPUTE_NONE;
    held_values held;
    if (bt_plan_is_llama(train)) {
        held.one = on_rank(llama_block(train, width, narrow), tensor, rows);
        held.all = held.first = layers * held.one;
        held.used = held.used_by_last =
            on_rank(used_by_llama_block(train, width), tensor, rows) + sums;
        return held;
    }
    held.one = kept_on_rank(how.mode, tensor, rows, chunks);
    held.first = blocks * held.one;
    held.all = held.first + (layers - blocks) * kept_on_rank(cheaper, tensor, rows, chunks);
    held.used = on_rank(used_by_block[how.mode], tensor, rows) + sums;
    held.used_by_last =
        blocks < layers ? on_rank(used_by_block[cheaper], tensor, rows) + sums : held.used;
    return held;
}

// ---- what a CPU takes in addition --------------------------------------------------------------

// The largest workspaces of the kernels: in a block's forward, in the head, in a block's backward.
typedef struct workspaces {
    double forward, head, backward;
} workspaces;

// Elementwise kernels in bf16 have three buffers of fp32 values (kernels/cpu/bf16_elementwise.c).
#define ELEMENTWISE_BYTES (3.0 * 4 * (1 << 18))

// Products of bf16 operands are computed in fp32 (kernels/cpu/bf16_products.c). The largest of the
// head has its input, the embedding and the logits; of a block: the gradient of its output, the
// weight, the gradient of the hidden layer and the pre-activation. Llama blocks have elementwise
// kernels in the backward; a GPT-2 block only to recompute GELU, before the gradient of the hidden
// layer exists.
static workspaces bf16_workspaces(const cJSON *train, double tokens, double head_rows,
                                  double tensor, bool recomputes)
{
    const bool llama = bt_plan_is_llama(train);
    const double width = bt_plan_number(train, "model.width");
    const double vocab = bt_plan_number(train, "model.vocab") / tensor;
    const double hidden = (llama ? (double)bt_plan_hidden(train) : 4 * width) / tensor;
    const double recomputed = recomputes ? ELEMENTWISE_BYTES - 2 * tokens * hidden : 0;
    return (workspaces){
        .forward = ELEMENTWISE_BYTES,
        .head = 4 * (head_rows * (width + vocab) + vocab * width),
        .backward = larger_of(4 * (tokens * (width + 2 * hidden) + hidden * width),
                              llama ? ELEMENTWISE_BYTES : recomputed),
    };
}

// In attention's backward each thread has the scores of 64 queries and all keys, and their
// gradients (kernels/cpu/attention.c); in bf16, eight operands are widened.
static workspaces cpu_workspaces(const cJSON *train, double tokens, double head_rows, double tensor,
                                 bool narrow, bool recomputes)
{
    double attention = 2 * 4 * 64 * bt_plan_number(train, "sequence") * omp_get_max_threads();
    workspaces work = {0};
    if (narrow) {
        work = bf16_workspaces(train, tokens, head_rows, tensor, recomputes);
        attention += 8 * 4 * tokens * bt_plan_number(train, "model.width") / tensor;
    }
    work.backward = larger_of(work.backward, attention);
    return work;
}

// Bytes by which the pool rounds a block up (framework/memory/pool.c).
static double rounding_of(double bytes)
{
    const double step = bytes > 1 << 20 ? 1 << 16 : 256;
    return step * ceil(bytes / step) - bytes;
}

// What matters for tiny models only: token ids, the statistics of norms and attention, rotary
// tables; and the rounding of blocks: at most 256 bytes of small ones, at most 64 KiB of the arena
// of a step and of a workspace, and that of embeddings (`table`, its copies and gradients).
static double small_bytes(const cJSON *train, double tokens, double table, double peak, bool narrow)
{
    const bool llama = bt_plan_is_llama(train);
    const double layers = bt_plan_number(train, "model.layers");
    const double heads = larger_of(1, bt_plan_number(train, "model.heads"));
    const double width = bt_plan_number(train, "model.width");
    const double copies = narrow ? 4 : 3; // of parameters: weights, moments, and masters of bf16
    const double ids = 8 * bt_plan_number(train, "tokens_per_step");
    const double statistics = tokens * (layers * (16 + 4 * heads) + 32);
    const double rotary = llama ? 8 * bt_plan_number(train, "model.context") * width / heads : 0;
    const double blocks = bt_plan_tensors(train) * (copies + 1) + layers * 24 + 32;
    const double large = peak > 1 << 20 ? (narrow ? 2 : 1) : 0;
    const double tables = (llama ? 2 : 1) * (copies + 2);
    return ids + statistics + rotary + 256 * blocks + (1 << 16) * large +
           tables * rounding_of(table);
}

// ---- the estimate -------------------------------------------------------------------------------

uint64_t bt_plan_memory_bytes(const cJSON *train, int64_t micro_batch, bt_plan_recompute how,
                              bool on_gpu)
{
    const char *precision = bt_json_get(train, "precision")->valuestring;
    bool narrow = strcmp(precision, "bf16") == 0;
    double element_bytes = narrow ? 2 : 4;
    double width = bt_plan_number(train, "model.width");
    double vocab = bt_plan_number(train, "model.vocab");
    const bt_plan_mesh mesh = bt_plan_mesh_of(train);
    const double tensor = (double)mesh.tensor;
    const cJSON *options = bt_json_get(train, "mesh");
    const bool deals = cJSON_IsTrue(bt_json_get(options, "sequence_parallel"));
    const bool chunks = tensor > 1 && cJSON_IsTrue(bt_json_get(options, "row_chunks"));
    double batch_tokens = (double)micro_batch * bt_plan_number(train, "sequence");
    double tokens = batch_tokens / (double)mesh.context; // of this rank
    double parameters = (double)bt_plan_parameters(train);
    const bt_plan_ranks ranks = bt_plan_ranks_of(train);
    const double gradients = ranks.parallel ? ranks.gradients_bytes : parameters * 4;
    bool accumulates = ranks.parallel || bt_plan_number(train, "tokens_per_step") > batch_tokens;
    double unit = tokens * width * element_bytes;
    const held_values held = held_on_rank(train, how, tensor, deals ? tensor : 1, chunks, narrow);
    // The head: logits of some rows (of all rows if ranks share the vocabulary), whose memory their
    // gradient reuses (the fused head's buffers), the gradients of its input and of the tied
    // embedding, which is fp32; in a bucket of bf16 gradients it is accumulated in a separate
    // buffer.
    const double all_logits = tokens * vocab / tensor * element_bytes;
    double logits = tensor > 1 ? all_logits : smaller_of(all_logits, HEAD_LOGITS_BYTES);
    if (on_gpu && narrow && tensor <= 1) {
        logits *= 1 + width / vocab; // a chunk's rows, scaled (ops/linear_cross_entropy.c)
    }
    const double table = 4 * vocab / tensor * width; // gradient of the head's weight
    const double rows = smaller_of(tokens, logits / (vocab / tensor * element_bytes));
    workspaces work = {0};
    if (!on_gpu) {
        work = cpu_workspaces(train, tokens, rows, tensor, narrow, how.mode != BT_RECOMPUTE_NONE);
    }
    double head =
        logits + 3 * unit + table + larger_of(ranks.parallel && narrow ? table : 0, work.head);
    head = larger_of(head, work.forward); // of the last block
    // Weights, two moments in fp32, and the bf16 copy (ranks.c). Gradients exist from a block's
    // backward to the optimizer's step: without accumulation they replace activations, the head's
    // first and that of a separate embedding last. So most is held in the head, in the backward of
    // the last block, in that of the last block with the mode, or in that of the first block.
    const double made = accumulates ? 0 : table;
    const double rest = accumulates ? 0 : gradients - table * (bt_plan_is_llama(train) ? 2 : 1);
    const double later = 1 - (double)how.blocks / bt_plan_number(train, "model.layers");
    double peak =
        held.all * unit + larger_of(head, held.used_by_last * unit + work.backward + made);
    peak = larger_of(peak, (held.first + held.used) * unit + work.backward + made + later * rest);
    peak = larger_of(peak, (held.one + held.used) * unit + work.backward + made + rest);
    peak = larger_of(accumulates ? peak + gradients : peak, gradients);
    peak += ring_elements(train, tokens, &mesh) * element_bytes;
    peak += chunks ? CHUNK_AREAS * unit : 0;
    const double slots = on_gpu ? ranks.slots_bytes : 0;
    const double snapshot = on_gpu ? snapshot_bytes(train, parameters, &mesh, &ranks) : 0;
    const double small = on_gpu ? 0 : small_bytes(train, tokens, table, peak, narrow);
    return (uint64_t)(1.04 * (ranks.state_bytes + peak) + slots + snapshot + small);
}
