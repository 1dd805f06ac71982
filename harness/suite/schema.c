// harness/suite/schema.c - the table of keys, and the check of a file against it
#include "harness/suite/schema.h"

#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"

#define WHOLE_MAX 9007199254740991.0 // 2^53 - 1: every whole number below is exact in JSON

#define TEXT_ROW(owner, key, required, meaning)                                                    \
    {                                                                                              \
        BT_SUITE_##owner, key, BT_SUITE_TEXT, 0, 0, NULL, 0, NULL, required, false, meaning        \
    }
#define NAME_ROW(owner, key, required, meaning)                                                    \
    {                                                                                              \
        BT_SUITE_##owner, key, BT_SUITE_NAME, 0, 0, NULL, 0, NULL, required, false, meaning        \
    }
#define CHOICE_ROW(owner, key, choices, fallback, required, settable, meaning)                     \
    {                                                                                              \
        BT_SUITE_##owner, key, BT_SUITE_CHOICE, 0, 0, choices, 0, fallback, required, settable,    \
            meaning                                                                                \
    }
#define WHOLE_ROW(owner, key, minimum, maximum, fallback, meaning)                                 \
    {                                                                                              \
        BT_SUITE_##owner, key, BT_SUITE_INTEGER, minimum, maximum, NULL, 0, fallback, false, true, \
            meaning                                                                                \
    }
#define REAL_ROW(owner, key, minimum, maximum, fallback, meaning)                                  \
    {                                                                                              \
        BT_SUITE_##owner, key, BT_SUITE_NUMBER, minimum, maximum, NULL, 0, fallback, false, true,  \
            meaning                                                                                \
    }
#define BOOL_ROW(owner, key, fallback, meaning)                                                    \
    {                                                                                              \
        BT_SUITE_##owner, key, BT_SUITE_BOOL, 0, 0, NULL, 0, fallback, false, false, meaning       \
    }
#define OBJECT_ROW(owner, key, type, object, fallback, required, settable, meaning)                \
    {                                                                                              \
        BT_SUITE_##owner, key, BT_SUITE_##type, 0, 0, NULL, BT_SUITE_##object, fallback, required, \
            settable, meaning                                                                      \
    }

// The operations of kernel cases: "gelu|layernorm|..."
#define KERNEL_OP_WORD(name, min_rank, max_rank, axes, forward_bytes, backward_bytes,              \
                       forward_flops, backward_flops)                                              \
    "|" #name
static const char kernel_ops[] =
#define BT_KERNEL_CASE_OP KERNEL_OP_WORD
#include "harness/suite/kernel_ops.inl"
#undef BT_KERNEL_CASE_OP
    ;

// Those of collective cases.
#define COLLECTIVE_OP_WORD(name, factor) "|" #name
static const char collective_ops[] =
#define BT_COLLECTIVE_CASE_OP COLLECTIVE_OP_WORD
#include "harness/suite/collective_ops.inl"
#undef BT_COLLECTIVE_CASE_OP
    ;

#define CHOICES_ROW(owner, key, choices, fallback, meaning)                                        \
    {                                                                                              \
        BT_SUITE_##owner, key, BT_SUITE_CHOICES, 0, 0, choices, 0, fallback, false, true, meaning  \
    }

const bt_suite_key bt_suite_keys[] = {
    TEXT_ROW(SUITE, "$schema", false, "Path of this schema, for editors."),
    NAME_ROW(SUITE, "name", true, "Name of the suite, as recorded."),
    TEXT_ROW(SUITE, "description", false, "Description in one or two sentences."),
    OBJECT_ROW(
        SUITE, "dataset", DATA, DATASET, NULL, false, false,
        "Dataset of all cases that do not set another: a name (see 'bt-bench data'), or shards."),
    OBJECT_ROW(SUITE, "train", GROUP, TRAIN, NULL, false, false,
               "Values of all training cases; a profile or a case may override them."),
    OBJECT_ROW(SUITE, "kernel", GROUP, KERNEL, NULL, false, false, "Values of all kernel cases."),
    OBJECT_ROW(SUITE, "collective", GROUP, COLLECTIVE, NULL, false, false,
               "Values of all collective cases."),
    OBJECT_ROW(SUITE, "command", GROUP, COMMAND, NULL, false, false,
               "Values of all command cases."),
    OBJECT_ROW(SUITE, "profiles", MAP, PROFILE, NULL, false, false,
               "Profiles by name, the best first: without --profile, the first one that this "
               "machine can run is selected."),
    {BT_SUITE_SUITE, "include", BT_SUITE_TEXTS, 0, 0, NULL, 0, NULL, false, false,
     "Instead of profiles: other suites, whose profiles and cases this suite combines; paths are "
     "relative to this file."},

    TEXT_ROW(PROFILE, "description", false, "Description in one or two sentences."),
    CHOICE_ROW(PROFILE, "device", "cpu|cuda", NULL, true, false,
               "The device on which the cases run."),
    {BT_SUITE_PROFILE, "automatic", BT_SUITE_BOOL, 0, 0, NULL, 0, "true", false, false,
     "Whether the profile may be selected without --profile."},
    WHOLE_ROW(PROFILE, "rounds", 1, 1000, "1", "Fresh processes per case."),
    OBJECT_ROW(PROFILE, "dataset", DATA, DATASET, NULL, false, false,
               "Dataset of the profile's cases; replaces the suite's."),
    OBJECT_ROW(PROFILE, "train", GROUP, TRAIN, NULL, false, false,
               "Values of this profile's training cases."),
    OBJECT_ROW(PROFILE, "kernel", GROUP, KERNEL, NULL, false, false,
               "Values of this profile's kernel cases."),
    OBJECT_ROW(PROFILE, "collective", GROUP, COLLECTIVE, NULL, false, false,
               "Values of this profile's collective cases."),
    OBJECT_ROW(PROFILE, "command", GROUP, COMMAND, NULL, false, false,
               "Values of this profile's command cases."),
    {BT_SUITE_PROFILE, "systems", BT_SUITE_TEXTS, 0, 0, NULL, 0, NULL, false, false,
     "Systems that run the cases, interleaved by rounds: blutrain, or peers (harness/peers); a "
     "program given by its path starts only with --trust; default: blutrain."},
    OBJECT_ROW(PROFILE, "cases", GROUPS, CASE, NULL, true, false,
               "The cases, in the order in which they run."),

    NAME_ROW(CASE, "name", true, "Name of the case, unique in its profile."),
    CHOICE_ROW(CASE, "kind", "train|kernel|collective|command", NULL, true, false,
               "Kind of the case."),
    TEXT_ROW(CASE, "description", false, "Description in one or two sentences."),
    {BT_SUITE_CASE, "systems", BT_SUITE_TEXTS, 0, 0, NULL, 0, NULL, false, false,
     "The systems of the run that run this case; default: all."},
    OBJECT_ROW(CASE, "dataset", DATA, DATASET, "\"books\"", false, true,
               "Dataset of the case; replaces the profile's."),
    OBJECT_ROW(CASE, "train", GROUP, TRAIN, "{}", false, true, "Values of this case."),
    OBJECT_ROW(
        CASE, "kernel", GROUP, KERNEL, NULL, false, true,
        "The kernel calls; each combination of the lists is a case NAME.DIRECTION.DTYPE.SHAPE."),
    OBJECT_ROW(
        CASE, "collective", GROUP, COLLECTIVE, NULL, false, true,
        "The collective calls; each combination of the lists is a case NAME.OP.DTYPE.SIZE.GROUP."),
    OBJECT_ROW(CASE, "command", GROUP, COMMAND, NULL, false, true,
               "The program to run and to time."),

    {BT_SUITE_DATASET, "train", BT_SUITE_TEXTS, 0, 0, NULL, 0, NULL, true, true,
     "Shards to train on; paths are relative to the suite file."},
    {BT_SUITE_DATASET, "val", BT_SUITE_TEXTS, 0, 0, NULL, 0, "[]", false, true,
     "Shards to evaluate on; without any there is no evaluation."},

    CHOICE_ROW(TRAIN, "precision", "fp32|tf32|bf16", "\"fp32\"", false, true,
               "Arithmetic and storage: fp32 (IEEE), tf32 (fp32 storage, tensor cores), bf16 "
               "(fp32 master weights)."),
    OBJECT_ROW(TRAIN, "model", GROUP, MODEL, "{}", false, true, "Shape of the model."),
    OBJECT_ROW(TRAIN, "optimizer", GROUP, OPTIMIZER, "{}", false, true,
               "Parameters of AdamW, clipping and learning rate."),
    OBJECT_ROW(TRAIN, "checkpoint", GROUP, CHECKPOINT, NULL, false, true,
               "When to save the training state; default: never. With every_steps or "
               "every_minutes, it is also saved when the run is stopped (SIGINT, SIGTERM)."),
    OBJECT_ROW(TRAIN, "mesh", GROUP, MESH, NULL, false, true,
               "Ranks (processes of this host) that train together; default: one rank."),
    {BT_SUITE_TRAIN, "micro_batch", BT_SUITE_COUNTS, 1, 65536, NULL, 0, "\"auto\"", false, true,
     "Sequences per forward pass: a number; a list, of which the first number that fits the "
     "device's memory is used; or \"auto\", the largest power of two up to 64 that fits."},
    WHOLE_ROW(TRAIN, "sequence", 1, 1048576, "1024", "Tokens per sequence, at most model.context."),
    WHOLE_ROW(TRAIN, "tokens_per_step", 1, 1e12, NULL,
              "Tokens per optimizer step, a multiple of micro_batch * sequence; default: "
              "micro_batch * sequence."),
    WHOLE_ROW(TRAIN, "steps", 1, 1e9, "60", "Optimizer steps."),
    WHOLE_ROW(TRAIN, "warmup_timing_steps", 0, 1e9, "3",
              "Number of first steps whose times are not used."),
    WHOLE_ROW(TRAIN, "eval_every", 0, 1e9, "0",
              "Evaluate at the start, after every N steps and at the end; 0: never."),
    WHOLE_ROW(TRAIN, "eval_batches", 1, 1e6, "20", "Micro-batches per evaluation."),
    WHOLE_ROW(
        TRAIN, "hellaswag_every", 0, 1e9, NULL,
        "Score HellaSwag at the start, after every N steps and at the end; 0 or absent: never."),
    WHOLE_ROW(TRAIN, "hellaswag_limit", 1, 1e6, NULL,
              "Number of questions, from the first; absent: all."),
    {BT_SUITE_TRAIN, "init", BT_SUITE_TEXT, 0, 0, NULL, 0, NULL, false, true,
     "Initial weights: a checkpoint, a folder of checkpoints, or GPT-2 as model.safetensors; "
     "relative to the working directory. Absent: random, from the seed."},
    WHOLE_ROW(TRAIN, "digest_every", 0, 1e9, NULL,
              "Record a digest of parameters and moments after every N steps, for bisect-bits; "
              "this reads all of them back. 0 or absent: never."),
    WHOLE_ROW(TRAIN, "profile_steps", 0, 1000, "2",
              "Steps on which NVTX ranges are timed; the times of these steps are not used."),
    CHOICE_ROW(
        TRAIN, "order", "shuffled|sequential", "\"shuffled\"", false, true,
        "Order of the sequences: a new random order in each epoch, from the seed (shuffled), "
        "or the order in the shards (sequential)."),
    CHOICE_ROW(TRAIN, "recompute", "none|gelu_ln|block|block_offload|auto", "\"none\"", false, true,
               "Activations that the backward recomputes instead of keeping them, with the same "
               "bits: none; outputs of GELU and LayerNorm; all of a block except its residual sums "
               "and the output of attention; the same, with these in host memory; auto: the "
               "cheapest mode that fits the device's memory."),
    WHOLE_ROW(TRAIN, "recompute_blocks", 0, 4096, "0",
              "Number of blocks, from the first, that use this mode; the others use the next "
              "cheaper mode. 0: all blocks."),
    CHOICE_ROW(TRAIN, "compile", "on|off", NULL, false, true,
               "on: the step is captured, and groups of its calls run as generated kernels where "
               "that moves fewer bytes; calls without generated code run as usual. Absent: off."),
    CHOICE_ROW(
        TRAIN, "graph", "auto|on|off", NULL, false, true,
        "Whether gradients and norm of a step are captured once as a CUDA graph, which is then "
        "launched at each step, with the same bits: where possible (on; auto, the default) or "
        "never (off). The record states which steps were captured, and why others were not."),
    WHOLE_ROW(TRAIN, "seed", 0, WHOLE_MAX, "1337", "Seed of initial values and data order."),
    CHOICE_ROW(TRAIN, "on_nonfinite", "continue|stop|skip|rollback", "\"continue\"", false, true,
               "What to do if the loss or the gradient norm is NaN or infinite: continue; stop "
               "with an error; skip the step's update; or roll back to the parameters of the "
               "newest checkpoint and continue with the next batches. Each such step is recorded "
               "as a fault; in all modes but continue, the message names the op."),
    {BT_SUITE_TRAIN, "anomaly", BT_SUITE_BOOL, 0, 0, NULL, 0, "false", false, true,
     "Stop at the op that produces the first NaN or infinity, and name the op, its range and its "
     "tensor. Every op is checked, so times are not meaningful."},
    WHOLE_ROW(TRAIN, "verify_every", 0, 1e9, "0",
              "Replay every N-th step from its start and compare the bits of loss, gradient norm "
              "and state: different bits mean a hardware fault; 0: never."),
    REAL_ROW(TRAIN, "hang_s", 0, 1e6, "300",
             "Timeout: if no range or kernel begins or ends for so many seconds, the worker "
             "reports the range in which it hangs, and exits; with several ranks, the launcher or "
             "another rank names the rank that hangs; 0: no timeout."),
    REAL_ROW(TRAIN, "timeout_s", 0.1, 1e6, "3600",
             "Timeout: if the worker prints nothing for so many seconds, the round fails and its "
             "process is stopped."),
    WHOLE_ROW(TRAIN, "memory_limit_bytes", 0, WHOLE_MAX, "0",
              "Limit of device memory; 0: all memory of the device."),

    CHOICE_ROW(KERNEL, "op", kernel_ops + 1, NULL, false, true, "The operation."),
    CHOICES_ROW(KERNEL, "direction", "forward|backward", "\"forward\"",
                "The forward or the backward kernel."),
    CHOICES_ROW(KERNEL, "dtype", "f32|tf32|bf16|f64", "\"f32\"",
                "Storage; tf32 is f32 with tensor cores, for attention and gemm."),
    CHOICES_ROW(KERNEL, "cache", "cold|rotating|hot", "\"cold\"",
                "State of the cache. cold: before each sample, a write of twice the cache size "
                "evicts the operands; rotating: calls cycle through copies of the operands that "
                "fill five times the cache; hot: all calls use the same operands."),
    {BT_SUITE_KERNEL, "shape", BT_SUITE_TEXTS, 0, 0, NULL, 0, NULL, false, true,
     "Lengths of the axes, as in 16384x768; for ops on a list of tensors also the names block and "
     "gpt2_124m."},
    CHOICE_ROW(KERNEL, "compile", "on|off", NULL, false, true,
               "on: generated code instead of the kernel that the table selects; absent: off."),
    WHOLE_ROW(KERNEL, "seed", 0, WHOLE_MAX, "1337", "Seed of the operands' values."),
    REAL_ROW(KERNEL, "max_time_s", 0.01, 3600, "10", "Limit of the time to measure one case."),
    REAL_ROW(KERNEL, "timeout_s", 0.1, 1e6, "600",
             "Timeout: if the worker prints nothing for so many seconds, the round fails and its "
             "process is stopped."),

    CHOICES_ROW(COLLECTIVE, "op", collective_ops + 1, NULL, "The operation."),
    CHOICES_ROW(COLLECTIVE, "dtype", "f32|bf16|f64", "\"f32\"", "Type of the elements."),
    {BT_SUITE_COLLECTIVE, "size", BT_SUITE_TEXTS, 0, 0, NULL, 0, NULL, false, true,
     "Size of a rank's largest operand: bytes, KiB or MiB, as in 25MiB."},
    WHOLE_ROW(COLLECTIVE, "ranks", 2, 64, "2", "Number of processes; on GPUs one per GPU."),
    CHOICES_ROW(COLLECTIVE, "group", "host|p2p|p2p_engines|nccl|nccl_tree", "\"host\"",
                "host: CPU ranks over shared memory; p2p: our collectives over GPU links; "
                "p2p_engines: these, always with copy engines; nccl: NCCL, with its own order of "
                "sums; nccl_tree: NCCL with our order of sums."),
    REAL_ROW(COLLECTIVE, "max_time_s", 0.01, 3600, "5", "Limit of the time to measure one case."),
    REAL_ROW(COLLECTIVE, "timeout_s", 0.1, 1e6, "300",
             "Timeout: if the worker prints nothing for so many seconds, the round fails and its "
             "process is stopped."),

    {BT_SUITE_COMMAND, "run", BT_SUITE_TEXTS, 0, 0, NULL, 0, NULL, false, true,
     "The program: a line for /bin/sh, or a list of the program and its arguments. It starts only "
     "with --trust."},
    {BT_SUITE_COMMAND, "prepare", BT_SUITE_TEXTS, 0, 0, NULL, 0, NULL, false, true,
     "Command that runs before each call and is not timed; its exit code must be 0."},
    {BT_SUITE_COMMAND, "folder", BT_SUITE_TEXT, 0, 0, NULL, 0, NULL, false, true,
     "Folder in which it runs; default: the working directory."},
    WHOLE_ROW(COMMAND, "warmup", 0, 1e6, "3",
              "Number of first calls, which are checked but not timed."),
    WHOLE_ROW(
        COMMAND, "calls", 1, 100000, "10",
        "Minimum number of calls, however long they take; more follow until the 95 % interval "
        "of the mean is within 1 %, or max_time_s has passed."),
    REAL_ROW(COMMAND, "max_time_s", 0, 1e6, "10",
             "No call starts after this time, except to reach the minimum number, \"calls\"."),
    WHOLE_ROW(COMMAND, "exit_code", 0, 255, "0", "Exit code that every call must return."),
    {BT_SUITE_COMMAND, "output", BT_SUITE_TEXT, 0, 0, NULL, 0, NULL, false, true,
     "A text that the standard output of every call must contain; absent: the output is not read."},
    REAL_ROW(COMMAND, "timeout_s", 0.1, 1e6, "600",
             "Timeout: if no call finishes for so many seconds, the round fails and its processes "
             "are stopped."),

    CHOICE_ROW(MODEL, "family", "gpt2|llama", NULL, false, true,
               "GPT-2 with a tied head, or a Llama-style decoder: RMSNorm, rotary positions, "
               "SwiGLU, a separate head; absent: gpt2."),
    WHOLE_ROW(MODEL, "layers", 1, 4096, "12", "Transformer blocks."),
    WHOLE_ROW(MODEL, "heads", 1, 4096, "12", "Attention heads; must divide width."),
    WHOLE_ROW(MODEL, "width", 1, 1048576, "768", "Channels of the residual stream."),
    WHOLE_ROW(MODEL, "vocab", 1, 65536, "50304", "Rows of the token embedding."),
    WHOLE_ROW(MODEL, "context", 1, 1048576, "1024", "Longest sequence."),
    WHOLE_ROW(MODEL, "kv_heads", 1, 4096, NULL,
              "llama: heads of keys and values; must divide heads; absent: heads."),
    WHOLE_ROW(MODEL, "hidden", 1, 1048576, NULL, "llama: width of the gated MLP."),

    WHOLE_ROW(CHECKPOINT, "every_steps", 0, 1e9, "0", "Save after every N steps; 0: not by steps."),
    REAL_ROW(CHECKPOINT, "every_minutes", 0, 1e6, "0",
             "Save after every N minutes; 0: not by time."),
    {BT_SUITE_CHECKPOINT, "at_end", BT_SUITE_BOOL, 0, 0, NULL, 0, "false", false, true,
     "Save after the last step, and when the run is stopped."},
    WHOLE_ROW(CHECKPOINT, "max_to_keep", 0, 1e6, "3",
              "Number of newest checkpoints to keep; 0: all."),
    {BT_SUITE_CHECKPOINT, "asynchronous", BT_SUITE_BOOL, 0, 0, NULL, 0, "true", false, true,
     "true: a thread writes a snapshot while training continues; a save that is due during a write "
     "is skipped. false: training waits."},
    CHOICE_ROW(CHECKPOINT, "snapshot", "device|host", "\"device\"", false, true,
               "Snapshot of asynchronous saves on a GPU. device: needs as much device memory as "
               "the state; host: training waits for the copy to the host."),
    CHOICE_ROW(CHECKPOINT, "content", "state|parameters", "\"state\"", false, true,
               "state: everything that a run needs to resume; parameters: only the parameters, for "
               "measurements."),
    {BT_SUITE_CHECKPOINT, "reload", BT_SUITE_BOOL, 0, 0, NULL, 0, "false", false, true,
     "Load the checkpoint of at_end again, to measure the time."},
    {BT_SUITE_CHECKPOINT, "folder", BT_SUITE_TEXT, 0, 0, NULL, 0, NULL, false, true,
     "Folder that contains a folder per round; default: the folder of the run's logs."},

    WHOLE_ROW(MESH, "data", 1, 64, "1", "Data-parallel ranks, which share each step's tokens."),
    WHOLE_ROW(
        MESH,
        "tensor", 1, 64, NULL,
        "Tensor-parallel ranks, which share each matrix, at most model.heads; default: 1. The "
        "ranks of a run are the product of data, tensor and context."),
    {BT_SUITE_MESH, "sequence_parallel", BT_SUITE_BOOL, 0, 0, NULL, 0, NULL, false, true,
     "Tensor-parallel ranks also split the rows of a micro-batch between the products "
     "(normalisations, residuals); their number must divide the number of rows; default: false."},
    {BT_SUITE_MESH, "half_batches", BT_SUITE_BOOL, 0, 0, NULL, 0, NULL, false, true,
     "Tensor-parallel ranks alternate between two halves of a micro-batch, so that the sums of one "
     "overlap the products of the other (AsyncTP); micro_batch must be even; cannot be combined "
     "with sequence_parallel; default: false."},
    {BT_SUITE_MESH, "row_chunks", BT_SUITE_BOOL, 0, 0, NULL, 0, NULL, false, true,
     "With sequence_parallel, products and attention work on the rows of one tensor-parallel rank "
     "after another, so that the exchange of one chunk of rows overlaps work on others (AsyncTP); "
     "default: false."},
    WHOLE_ROW(MESH, "context", 1, 64, NULL,
              "Context-parallel ranks, which share each sequence; default: 1."),
    CHOICE_ROW(MESH, "rotation", "all_gather|point_to_point|all_to_all", NULL, false, true,
               "How context-parallel ranks exchange keys and values; default: all_gather."),
    WHOLE_ROW(MESH, "shared_heads", 1, 64, NULL,
              "Number of consecutive context-parallel ranks that split the heads during attention "
              "(Ulysses); the groups of such ranks form a ring; must divide context; default: 1."),
    CHOICE_ROW(MESH, "sharding", "ddp|zero1|zero2|zero3", "\"zero1\"", false, true,
               "State of which each rank keeps only a part: none; optimizer state and master "
               "weights; also gradients; also the weights."),
    WHOLE_ROW(
        MESH,
        "invariant", 0, 1024, NULL,
        "Virtual shards of a step: every number of ranks that divides them gives the same "
        "bits. A power of 2 that divides the step's number of micro-batches and is a multiple "
        "of data; 0: the bits depend on the number of ranks, as they must if context is above "
        "1. Default: the largest allowed value up to 8; the plan has it."),
    REAL_ROW(MESH, "bucket_mb", 0.001, 65536, "25", "MiB of gradients per reduction."),
    {BT_SUITE_MESH, "shrink", BT_SUITE_BOOL, 0, 0, NULL, 0, "false", false, true,
     "Continue with fewer ranks if one is lost twice in a row or its GPU must not be used any "
     "more; otherwise the run fails."},
    {BT_SUITE_MESH, "spare", BT_SUITE_BOOL, 0, 0, NULL, 0, "true", false, true,
     "Keep a second process for each rank, with its GPU opened, that takes over when a rank is "
     "lost. On a GPU it uses some hundred MiB. false: processes are started when needed."},
    {BT_SUITE_MESH, "faults", BT_SUITE_TEXTS, 0, 0, NULL, 0, "[]", false, true,
     "Faults to inject, one after the other, to test and measure recovery: \"kill rank 1 at step "
     "20\", \"kill rank 1 at start\"; also stop and segv."},

    REAL_ROW(OPTIMIZER, "lr", 0, 100, "6e-4", "Peak learning rate."),
    REAL_ROW(OPTIMIZER, "min_lr", 0, 100, "6e-5",
             "Learning rate at the end of the cosine schedule."),
    WHOLE_ROW(OPTIMIZER, "warmup_steps", 0, 1e9, "0", "Steps of the linear warm-up to lr."),
    WHOLE_ROW(OPTIMIZER, "decay_steps", 0, 1e9, "0",
              "Step at which min_lr is reached; 0: the last."),
    REAL_ROW(OPTIMIZER, "beta1", 0, 0.999999999, "0.9", "Decay of the first moment."),
    REAL_ROW(OPTIMIZER, "beta2", 0, 0.999999999, "0.95", "Decay of the second moment."),
    REAL_ROW(OPTIMIZER, "epsilon", 1e-30, 1, "1e-8",
             "Epsilon, added to the root of the second moment."),
    REAL_ROW(OPTIMIZER, "weight_decay", 0, 100, "0.1",
             "Weight decay of tensors of rank 2 and more."),
    REAL_ROW(OPTIMIZER, "clip", 0, 1e30, "1",
             "Limit of the global gradient norm (clipping); 0: no limit."),

#include "harness/suite/policy_keys.inl"
};

const int bt_suite_key_count = (int)(sizeof bt_suite_keys / sizeof bt_suite_keys[0]);

const bt_suite_key *bt_suite_key_find(bt_suite_object owner, const char *key)
{
    for (int i = 0; i < bt_suite_key_count; ++i) {
        if (bt_suite_keys[i].owner == owner && strcmp(bt_suite_keys[i].key, key) == 0) {
            return &bt_suite_keys[i];
        }
    }
    return NULL;
}

const char *bt_suite_object_called(bt_suite_object object)
{
    static const char *const names[] = {
#define BT_SUITE_OBJECT_CALLED(name, text, called, meaning) called,
        BT_SUITE_OBJECT_LIST(BT_SUITE_OBJECT_CALLED)
#undef BT_SUITE_OBJECT_CALLED
    };
    return names[object];
}

// ---- the check ---------------------------------------------------------------------------------

void bt_suite_key_words(bt_suite_object owner, bool settable, bt_str *words)
{
    BT_EACH(const bt_suite_key, key, bt_suite_keys, bt_suite_key_count) {
        if (key->owner == owner && (key->settable || !settable)) {
            bt_words_add(words, key->key, strlen(key->key));
        }
    }
}

static bt_status unknown_key(const bt_json_doc *json, bt_suite_object kind, const cJSON *node)
{
    BT_SCOPED(bt_str) words = {0}, allowed = {0}, hint = {0};
    bt_suite_key_words(kind, false, &words);
    bt_words_join(bt_str_text(&words), ", ", &allowed);
    bt_words_hint(node->string, bt_str_text(&words), &hint);
    return bt_json_error(json, node, BT_JSON_KEY, "\"%s\" is not a key of %s%s\nallowed: %s",
                         node->string, bt_suite_object_called(kind), bt_str_text(&hint),
                         bt_str_text(&allowed));
}

static bt_status wrong_type(const bt_json_doc *json, const bt_suite_key *key, const cJSON *node,
                            const char *expected)
{
    BT_SCOPED(bt_str) given = {0};
    if (!cJSON_IsObject(node) && !cJSON_IsArray(node)) {
        bt_str_append(&given, " ");
        bt_json_write(node, &given);
    }
    return bt_json_error(json, node, BT_JSON_VALUE, "\"%s\" must be %s, not %s%s", key->key,
                         expected, bt_json_type_name(node), bt_str_text(&given));
}

static bt_status check_number(const bt_json_doc *json, const bt_suite_key *key, const cJSON *node)
{
    bool whole = key->type != BT_SUITE_NUMBER;
    double value = node->valuedouble;
    if (!cJSON_IsNumber(node) || (whole && (value > floor(value) || fabs(value) > WHOLE_MAX))) {
        return wrong_type(json, key, node, whole ? "a whole number" : "a number");
    }
    if (value >= key->minimum && value <= key->maximum) {
        return BT_OK;
    }
    BT_SCOPED(bt_str) numbers = {0};
    bt_json_number(value, &numbers);
    bt_str_append(&numbers, "; allowed: ");
    bt_json_number(key->minimum, &numbers);
    bt_str_append(&numbers, " to ");
    bt_json_number(key->maximum, &numbers);
    return bt_json_error(json, node, BT_JSON_VALUE, "\"%s\" is %s", key->key,
                         bt_str_text(&numbers));
}

static bt_status check_choice(const bt_json_doc *json, const bt_suite_key *key, const cJSON *node)
{
    if (!cJSON_IsString(node)) {
        return wrong_type(json, key, node, "a text");
    }
    if (bt_words_have(key->choices, node->valuestring)) {
        return BT_OK;
    }
    BT_SCOPED(bt_str) allowed = {0}, hint = {0};
    bt_words_join(key->choices, ", ", &allowed);
    bt_words_hint(node->valuestring, key->choices, &hint);
    return bt_json_error(json, node, BT_JSON_VALUE, "\"%s\" is \"%s\"%s\nallowed: %s", key->key,
                         node->valuestring, bt_str_text(&hint), bt_str_text(&allowed));
}

static bool is_name(const char *text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t length = strlen(text);
    return length > 0 && length <= BT_WORD_BYTES_MAX && strspn(text, allowed) == length &&
           text[0] != '.' && text[0] != '-';
}

static bt_status check_text(const bt_json_doc *json, const bt_suite_key *key, const cJSON *node)
{
    if (!cJSON_IsString(node)) {
        return wrong_type(json, key, node, "a text");
    }
    bool name = key->type == BT_SUITE_NAME || key->type == BT_SUITE_DATA;
    BT_JSON_FAIL_IF(name && !is_name(node->valuestring), json, node, BT_JSON_VALUE,
                    "\"%s\" is \"%s\"; a name has 1 to %d letters, digits, '-', '_' or "
                    "'.', and begins with a letter or digit",
                    key->key, node->valuestring, BT_WORD_BYTES_MAX);
    return BT_OK;
}

// One of the choices, or a list of them.
static bt_status check_choices(const bt_json_doc *json, const bt_suite_key *key, const cJSON *node)
{
    if (!cJSON_IsArray(node)) {
        return check_choice(json, key, node);
    }
    BT_JSON_FAIL_IF(!node->child, json, node, BT_JSON_VALUE, "\"%s\" is an empty list", key->key);
    for (const cJSON *item = node->child; item; item = item->next) {
        BT_TRY(check_choice(json, key, item));
    }
    return BT_OK;
}

static bt_status check_list(const bt_json_doc *json, const bt_suite_key *key, const cJSON *list)
{
    BT_JSON_FAIL_IF(!list->child && key->type != BT_SUITE_TEXTS, json, list, BT_JSON_VALUE,
                    "\"%s\" is an empty list", key->key);
    for (const cJSON *node = list->child; node; node = node->next) {
        if (key->type == BT_SUITE_TEXTS) {
            BT_TRY(check_text(json, key, node));
        } else if (key->type == BT_SUITE_COUNTS) {
            BT_TRY(check_number(json, key, node));
        } else if (!cJSON_IsObject(node)) {
            return wrong_type(json, key, node, "a list of objects");
        } else {
            BT_TRY(bt_suite_check(json, key->object, node));
        }
    }
    return BT_OK;
}

static bt_status check_map(const bt_json_doc *json, const bt_suite_key *key, const cJSON *map)
{
    if (!cJSON_IsObject(map) || !map->child) {
        return wrong_type(json, key, map, "an object with at least one member");
    }
    for (const cJSON *node = map->child; node; node = node->next) {
        BT_JSON_FAIL_IF(!is_name(node->string), json, node, BT_JSON_KEY,
                        "\"%s\" is not a valid name: expected letters, digits, '-', '_', '.'",
                        node->string);
        BT_JSON_FAIL_IF(!cJSON_IsObject(node), json, node, BT_JSON_VALUE,
                        "\"%s\" must be an object, not %s", node->string, bt_json_type_name(node));
        BT_TRY(bt_suite_check(json, key->object, node));
    }
    return BT_OK;
}

bt_status bt_suite_check_value(const bt_json_doc *json, const bt_suite_key *key, const cJSON *node)
{
    switch (key->type) {
    case BT_SUITE_TEXT:
    case BT_SUITE_NAME:
        return check_text(json, key, node);
    case BT_SUITE_CHOICE:
        return check_choice(json, key, node);
    case BT_SUITE_CHOICES:
        return check_choices(json, key, node);
    case BT_SUITE_INTEGER:
    case BT_SUITE_NUMBER:
        return check_number(json, key, node);
    case BT_SUITE_BOOL:
        return cJSON_IsBool(node) ? BT_OK : wrong_type(json, key, node, "true or false");
    case BT_SUITE_TEXTS:
        return cJSON_IsArray(node) ? check_list(json, key, node) : check_text(json, key, node);
    case BT_SUITE_COUNTS:
        if (cJSON_IsString(node) && strcmp(node->valuestring, "auto") == 0) {
            return BT_OK;
        }
        if (!cJSON_IsArray(node) && !cJSON_IsNumber(node)) {
            return wrong_type(json, key, node, "a whole number, a list of them, or \"auto\"");
        }
        return cJSON_IsArray(node) ? check_list(json, key, node) : check_number(json, key, node);
    case BT_SUITE_GROUP:
        return cJSON_IsObject(node) ? bt_suite_check(json, key->object, node)
                                    : wrong_type(json, key, node, "an object");
    case BT_SUITE_GROUPS:
        return cJSON_IsArray(node) ? check_list(json, key, node)
                                   : wrong_type(json, key, node, "a list of objects");
    case BT_SUITE_MAP:
        return check_map(json, key, node);
    case BT_SUITE_DATA:
        return cJSON_IsObject(node)   ? bt_suite_check(json, key->object, node)
               : cJSON_IsString(node) ? check_text(json, key, node)
                                      : wrong_type(json, key, node, "a name or an object");
    }
    return bt_error(BT_STATUS_INTERNAL, "suite key %s has no type", key->key);
}

bt_status bt_suite_check(const bt_json_doc *json, bt_suite_object kind, const cJSON *object)
{
    for (const cJSON *node = object->child; node; node = node->next) {
        const bt_suite_key *key = bt_suite_key_find(kind, node->string);
        if (!key) {
            return unknown_key(json, kind, node);
        }
        BT_TRY(bt_suite_check_value(json, key, node));
    }
    BT_EACH(const bt_suite_key, key, bt_suite_keys, bt_suite_key_count) {
        BT_JSON_FAIL_IF(key->owner == kind && key->required && !bt_json_get(object, key->key), json,
                        object, BT_JSON_VALUE, "%s needs the key \"%s\": %s",
                        bt_suite_object_called(kind), key->key, key->meaning);
    }
    return BT_OK;
}
