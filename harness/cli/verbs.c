// harness/cli/verbs.c - the table of verbs and their options
#include "harness/cli/cli.h"
#include "harness/stats/loss.h"

// Rows of several verbs.
// clang-format off
#define PROFILE_ROW {"profile", 0, "NAME", "profile of the suite (default: the best that this machine can run)"}
#define FILTER_ROW  {"filter", 0, "TEXT", "the case TEXT; if there is none, cases whose name contains TEXT or matches it as a glob"}
#define QUIET_ROW   {"quiet", 'q', NULL, "no progress"}
#define NAME_ROW    {"name", 0, "NAME", "a name that other verbs accept in place of the run's number"}
#define HEADS_ROW   {"heads", 0, "N", "attention heads, if the model does not store their number"}
#define KEY_ROW     {"key", 0, "PUBFILE", "require a signature by this key (PEM)"}
#define DB_ROW      {"db", 0, "FILE", "database of runs (default: results/bt.sqlite)"}
#define FORMAT_ROW  {"format", 0, "FORMAT", "text or json (default: text)"}
#define LAST_ROWS   {"help", 'h', NULL, "this text"}, {0}
#define DB_LAST_ROWS        DB_ROW, LAST_ROWS
#define FORMAT_LAST_ROWS    FORMAT_ROW, LAST_ROWS
#define DB_FORMAT_LAST_ROWS DB_ROW, FORMAT_ROW, LAST_ROWS
#define SET_ROWS                                                                                   \
    {"set", 0, "KEY=VALUE",                                                                        \
     "set a key of every case that has it, as in --set train.steps=3; repeatable. A list, as in\n" \
     "                           train.optimizer.lr=[3e-4,6e-4], makes a case for each value"}
#define TRUST_ROW   {"trust", 0, NULL, "start programs that the suite or an imported run names by path"}
#define RECORD_ROWS                                                                                \
    NAME_ROW,                                                                                      \
    {"note", 0, "TEXT", "a remark, stored with the run"},                                          \
    {"out", 0, "DIR", "folder of the run's files, not of another run (default: run-N next to the database)"}

// Of verbs that run a suite once, as bt_cli_suite_plan reads them.
#define RUN_ROWS                                                                                   \
    PROFILE_ROW, FILTER_ROW, SET_ROWS,                                                             \
    {"seed", 0, "N", "random seed of all training and kernel cases"},                              \
    {"system", 0, "LIST",                                                                          \
     "systems that run the cases: blutrain, pytorch-eager, pytorch-compile, a peer's program"},    \
    {"rounds", 0, "N", "rounds (fresh processes) per case (default: the profile's)"},              \
    TRUST_ROW, RECORD_ROWS,                                                                        \
    {"metrics", 0, "DIR", "write metrics.jsonl and bt_bench.prom (Prometheus) to DIR"},            \
    QUIET_ROW,                                                                                     \
    {"worker", 0, "PROGRAM", NULL}

// Of verbs that compare systems in interleaved rounds.
#define AB_ROWS                                                                                    \
    {"tolerance", 0, "FRACTION",                                                                   \
     "a larger slowdown is SLOWER (default: 0.01; 0.02 below 20 us; 0.005 for training steps)"},   \
    {"rounds-max", 0, "N", "maximum number of pairs of rounds per case (default: 24)"},            \
    {"policy", 0, "NAME|FILE", "a gate's policy, in place of --tolerance and --rounds-max"},       \
    {"seed", 0, "N", "seed of the order of rounds (default: random, recorded)"},                   \
    PROFILE_ROW, FILTER_ROW, SET_ROWS, TRUST_ROW, RECORD_ROWS, QUIET_ROW,                          \
    {"worker", 0, "PROGRAM", NULL}
#define AB_RESUME_ROW                                                                              \
    {"resume", 0, "RUN", "finish an interrupted session: completed rounds are not repeated"}

// Of verbs that use a model.
#define WEIGHTS_ROWS                                                                               \
    {"from", 0, "PATH",                                                                            \
     "the model: a checkpoint, a folder of checkpoints, or GPT-2 as model.safetensors"},           \
    HEADS_ROW,                                                                                     \
    {"device", 0, "NAME", "cpu, cuda or cuda:N (default: cuda if available)"},                     \
    {"precision", 0, "MODE", "fp32, tf32 or bf16 (default: fp32)"},                                \
    {"ranks", 0, "FILE", "another tokenizer's rank file (default: GPT-2's)"}
// clang-format on

// How a RUN is named, in the help of verbs that take runs.
#define RUN_WORDS                                                                                  \
    "RUN is a number, last (the newest run), last-1 (the one before it), @BASELINE (the newest\n"  \
    "run of this baseline), or a name given with --name."

static const bt_cli_option run_options[] = {
    RUN_ROWS,
    {"resume", 0, "RUN",
     "finish an interrupted run: completed rounds are not repeated; a training that saved a "
     "checkpoint goes on from it, others begin again"},
    DB_ROW,
    FORMAT_ROW,
    {"dry-run", 0, NULL, "print the plan and stop"},
    LAST_ROWS};

static const bt_cli_option look_options[] = {DB_FORMAT_LAST_ROWS};

static const bt_cli_option doctor_options[] = {
    {"env", 0, NULL, "list the environment variables that are read, with their values"},
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option label_options[] = {
    NAME_ROW, {"note", 0, "TEXT", "a remark, stored with the run"}, DB_LAST_ROWS};

static const bt_cli_option rm_options[] = {
    {"files", 0, NULL, "also remove the files that the runs wrote"},
    {"force", 0, NULL, "also delete runs that a baseline refers to"},
    DB_LAST_ROWS};

static const bt_cli_option watch_options[] = {{"once", 0, NULL, "print the current state and exit"},
                                              DB_FORMAT_LAST_ROWS};

static const bt_cli_option history_options[] = {
    {"metric", 0, "NAME", "the metric to show, such as peak_allocated_bytes (default: its time)"},
    {"system", 0, "NAME", "only this system (default: all, a table each)"},
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option replicate_options[] = {
    {"claims", 0, "FILE", "claims to judge (default: suites/claims/blutrain-2606.24780.json)"},
    RUN_ROWS,
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option ab_options[] = {
    {"system", 0, "A,B", "two systems in place of two builds, the base first"},
    {"inject-slowdown", 0, "FRACTION", NULL},
    AB_RESUME_ROW,
    AB_ROWS,
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option bisect_commits_options[] = {AB_ROWS, DB_FORMAT_LAST_ROWS};

static const bt_cli_option calibrate_options[] = {
    {"slowdown", 0, "FRACTION", "slowdown of the third system (default: 0.02, 2 %)"},
    {"rounds", 0, "N", "rounds per case and system (default: 24)"},
    AB_RESUME_ROW,
    AB_ROWS,
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option gate_options[] = {
    {"baseline", 0, "NAME|FILE", "the baseline to compare with; not needed for a session of 'ab'"},
    {"policy", 0, "NAME|FILE", "tolerances (default: suites/policies/default.json)"},
    {"junit", 0, "FILE", "write the verdicts as JUnit XML"},
    {"markdown", 0, "FILE", "write a summary for a comment"},
    {"json", 0, "FILE", "write the output of --format json to a file"},
    RUN_ROWS,
    {"resume", 0, "RUN", "finish an interrupted gate of a suite, with its policy and baseline"},
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option baseline_options[] = {
    {"reason", 0, "TEXT", "set, add: the reason for this baseline; recorded"},
    {"accept-noise", 0, "TEXT", "set, add: the reason to accept disturbed rounds; recorded"},
    {"output", 'o', "FILE", "export: output file (default: results/baselines/MACHINE/NAME.json)"},
    {"machine", 0, "TYPE", "show, export: the baseline of that type of machine"},
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option report_options[] = {
    {"output", 'o', "FILE",
     "output file; .html (one page), .md, .json, .csv (metrics), .steps.csv, .samples.csv"},
    {"publish", 0, "DIR",
     "a folder to publish: page, Markdown, JSON, plots; a plain name is under reports/"},
    {"bundle", 0, "FILE", "publish: include this bundle of bt-bench export --public"},
    {"claims", 0, "FILE",
     "publish: claims, for the paper's conditions, if the run has none (default: the shipped)"},
    {"force", 0, NULL, "publish: replace an existing publication"},
    {"draft", 0, NULL,
     "publish: allow a modified tree, an interrupted run or no bundle; marked as a draft"},
    DB_LAST_ROWS};

static const bt_cli_option index_options[] = {
    {"output", 'o', "FILE", "output file, .html (default: index.html next to the database)"},
    DB_LAST_ROWS};

static const bt_cli_option export_options[] = {
    {"output", 'o', "FILE", "output file, as in run-3.tar.zst"},
    {"sign", 0, "KEYFILE", "sign with this Ed25519 key (PEM, as 'bt-bench keygen' makes it)"},
    {"public", 0, NULL, "omit the facts that identify the machine: GPU's UUID, kernel's release"},
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option verify_options[] = {KEY_ROW, FORMAT_LAST_ROWS};

static const bt_cli_option import_options[] = {KEY_ROW, DB_FORMAT_LAST_ROWS};

static const bt_cli_option keygen_options[] = {
    {"output", 'o', "NAME", "write NAME.key and NAME.pub"}, LAST_ROWS};

static const bt_cli_option data_options[] = {
    {"output", 'o', "DIR", "output folder (default: data/books, data/NAME)"},
    {"val", 0, "FRACTION", "tokenize: fraction of the documents held out (default: 0)"},
    {"ranks", 0, "FILE", "tokenize: another tokenizer's rank file"},
    {"force", 0, NULL, "tokenize: replace the dataset in -o DIR"},
    {"files", 0, "N", "fetch: only the first N training shards"},
    {"list", 0, "FILE", "fetch: another list of corpora"},
    QUIET_ROW,
    FORMAT_LAST_ROWS};

static const bt_cli_option checkpoint_options[] = {
    {"output", 'o', "DIR", "export: folder of model.safetensors; import: a new folder"},
    HEADS_ROW,
    {"quick", 0, NULL, "list: read only manifests, without verifying data"},
    {"force", 0, NULL, "export: replace an existing file"},
    FORMAT_LAST_ROWS};

static const bt_cli_option compile_options[] = {
    PROFILE_ROW,
    FILTER_ROW,
    {"set", 0, "KEY=VALUE", "set a key of every case, as in --set train.micro_batch=1; repeatable"},
    {"dump", 0, "LIST", "as in groups,ptx, of graph, simple, bt, groups, mlir, llvm, ptx"},
    {"output", 'o', "DIR", "output folder of dumps: DIR/CASE.graph.txt and so on"},
    {"target", 0, "NAME", "also generate code for cpu or sm_80, sm_89, sm_90 into the cache"},
    LAST_ROWS};

static const bt_cli_option sample_options[] = {
    WEIGHTS_ROWS,
    {"prompt", 0, "TEXT", "start of the text (default: empty)"},
    {"tokens", 0, "N", "maximum number of tokens to generate (default: 100)"},
    {"greedy", 0, NULL, "always take the most likely token"},
    {"temperature", 0, "X", "divides the logits (default: 1)"},
    {"top-k", 0, "K", "sample from the K most likely tokens; 0: from all (default: 50)"},
    {"seed", 0, "N", "random seed (default: 0)"},
    {"quiet", 'q', NULL, "do not describe the model"},
    LAST_ROWS};

static const bt_cli_option hellaswag_options[] = {
    WEIGHTS_ROWS,
    {"questions", 0, "FILE", "questions of six lines each (default: data/hellaswag.txt)"},
    {"limit", 0, "N", "only the first N questions"},
    {"answers", 0, "FILE", "write a line of JSON for each question"},
    QUIET_ROW,
    FORMAT_LAST_ROWS};

static const bt_cli_option diff_options[] = {
    {"suite", 0, "SUITE", "both sides train its first training case (default: gpt2_124m)"},
    {"filter", 0, "TEXT", "the case TEXT, or whose name contains TEXT or matches it as a glob"},
    PROFILE_ROW,
    {"set", 0, "KEY=VALUE", "set a key on both sides, as in --set train.sequence=64; repeatable"},
    {"steps", 0, "N", "number of steps (default: 3)"},
    {"dump", 0, "DIR", "write the values of A, or of the side that trains, one file per step"},
    {"output", 'o', "FILE", "also write a page with plots"},
    FORMAT_LAST_ROWS};

static const bt_cli_option bisect_options[] = {
    {"case", 0, "NAME", "the training case (default: the first whose final bits differ)"},
    {"device", 0, "NAME", "replay on cpu, cuda or cuda:N (default: the device of the runs)"},
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option plain_options[] = {LAST_ROWS};

// A line of the help is a line here.
// clang-format off
const bt_cli_verb bt_cli_verbs[] = {
    {"run", "SUITE [options] | --resume RUN", "run a suite, record it and write its report",
     "SUITE is a suite file, a folder with suite.json, or a name under suites/.\n"
     "--set KEY=[A,B] makes a case for each value, if the key takes a number, a word or a dataset. The\n"
     "lists of train.micro_batch, command.run and command.prepare are one value, those of kernel.dtype,\n"
     "direction, cache and shape a case for each combination.\n"
     "Ctrl-C stops after the current step and keeps the recorded data; --resume continues the run.\n"
     "A run continues when its terminal is closed; 'bt-bench watch' shows it from another.\n"
     "Exit codes: 0 passed, 2 usage or suite, 4 device, peer, file or folder missing,\n"
     "5 crash, timeout or wrong output, 130 interrupted.",
     run_options, 0, 1, bt_verb_run},
    {"list", "[suites | cases SUITE | runs | kernels | schema [suite | policy]]",
     "list suites, cases, runs, kernels or a schema", NULL, look_options, 0, 2, bt_verb_list},
    {"watch", "[RUN]", "watch a run from another terminal (default: the newest)",
     "Reads the record; Ctrl-C stops watching, not the run. With --format json prints an object per\n"
     "change. The run continues when its own terminal is closed; kill PROCESS stops it cleanly.\n"
     "Exit codes of the run when it ends: 0 passed, 4 unavailable, 5 failed, 130 interrupted.",
     watch_options, 0, 1, bt_verb_watch},
    {"show", "RUN", "show a recorded run", RUN_WORDS, look_options, 1, 1,
     bt_verb_show},
    {"compare", "RUN RUN", "compare two runs",
     "Exit codes: 0 the hard facts are the same, 4 not comparable: they differ, but all is printed; or\n"
     "the runs have no case in common.\n"
     RUN_WORDS, look_options, 2, 2, bt_verb_compare},
    {"history", "CASE", "show one case over all runs, and where it changed",
     "CASE is a name as in 'bt-bench list cases SUITE', for all its shapes, directions and types, or\n"
     "that of one of them, such as gelu.forward.f32.4096x768. Runs of one system in one environment\n"
     "with the same settings form a series; a change is a lasting shift of its level (p at most 0.01).",
     history_options, 1, 1, bt_verb_history},
    {"report", "RUN... -o FILE | --publish DIR",
     "write a report: HTML, Markdown, JSON or CSV, or a folder to publish", RUN_WORDS,
     report_options, 1, 1000, bt_verb_report},
    {"index", "[-o FILE]", "write one page about all runs: a table with filters, each case over time",
     NULL, index_options, 0, 0, bt_verb_index},
    {"calibrate", "SUITE | list | rm CASE | --resume RUN",
     "measure the noise floor: false alarms, smallest detectable slowdown",
     "Runs this build against itself, and against itself made slower on purpose, interleaved. Per case:\n"
     "an upper bound of the false-alarm rate for equal builds, and the smallest slowdown that is\n"
     "detected nine times in ten. Pairs of earlier sessions of the same case on this machine are added.\n"
     "gate uses the result for this rule, tolerance and card, until it expires (policy).\n"
     "list     the recorded calibrations\n"
     "rm CASE  removes the calibrations of a case, or of all that match a glob\n"
     "Exit codes: 0 measured, 1 a case misses the policy's error rates, 2 usage or suite,\n"
     "4 a case has too few pairs, 5 a case crashed or was wrong, 130 interrupted.",
     calibrate_options, 0, 2, bt_verb_calibrate},
    {"ab", "BASE CANDIDATE SUITE | SUITE --system A,B | --resume RUN",
     "compare two builds or systems in interleaved rounds",
     "A build is a git revision (built once under results/builds/), a bt-bench program or a folder\n"
     "with one, or '.', this program. Runs rounds in fresh processes, A B B A, until each case is\n"
     "decided: SAME, FASTER, SLOWER, or INCONCLUSIVE after the last pair.\n"
     "Exit codes: 0 no case slower, 1 a case is slower, 2 usage or suite, 3 a case is inconclusive, 4 not\n"
     "comparable, 5 a case crashed or was wrong, or a build failed, 130 interrupted.",
     ab_options, 0, 3, bt_verb_ab},
    {"bisect", "GOOD BAD SUITE", "find the first commit that made a suite slower",
     "Compares commits between GOOD and BAD (first parents) with GOOD, each as 'bt-bench ab' does:\n"
     "built once under results/builds/, interleaved rounds, a recorded run. A commit that does not build\n"
     "or stays inconclusive is skipped. Select the slow cases with --filter to save time. With --out\n"
     "DIR the files of a comparison are in DIR/COMMIT.\n"
     "Exit codes: 0 found, 2 usage, 3 BAD is not slower, or only a range is known, 130 interrupted.",
     bisect_commits_options, 3, 3, bt_verb_bisect},
    {"replicate", "SUITE | RUN [options]", "test the claims of the paper: a verdict for each",
     "SUITE: runs the cases that claims refer to, interleaved with the systems that the paper compares\n"
     "with, in 4 rounds or --rounds. RUN: a recorded run with those systems.\n"
     "Exit codes: 0 every tested claim is REPLICATED, HIGHER or UNINFORMATIVE, 1 a claim is LOWER,\n"
     "3 a claim is INCONCLUSIVE, 4 no claim could be tested; and those of run.",
     replicate_options, 1, 1, bt_verb_replicate},
    {"gate", "SUITE | RUN | --resume RUN [options]",
     "fail if slower, using more memory, or computing different losses",
     "SUITE is run, with as many rounds as the sessions of --baseline have, and compared with it. RUN is\n"
     "a recorded run; for one of 'bt-bench ab' the candidate is compared with the base.\n"
     "Exit codes: 0 no regression, 1 slower or more memory, 2 usage, 3 inconclusive, 4 not comparable or\n"
     "disturbed, 5 crashed or wrong, 130 interrupted. Speed relative to a baseline of fewer than 5\n"
     "sessions, or of another card, is ADVISORY: printed, but never a failure.",
     gate_options, 0, 1, bt_verb_gate},
    {"baseline",
     "set NAME RUN... --reason TEXT | add NAME RUN... | list | show NAME | history NAME | export NAME | import FILE",
     "manage the baselines that gate compares with",
     "set      makes runs the baseline NAME of their machine; earlier versions stay in its history. Each\n"
     "         run with the build and settings of the first is a session: speed is judged from 5\n"
     "         sessions of one card on, before that it is advisory. Runs of other builds, micro-batches\n"
     "         and seeds add only loss curves, for the tiers numeric and statistical\n"
     "add      adds sessions to the baseline NAME\n"
     "list     the current baselines; history: all versions of a name\n"
     "export   writes a baseline as JSON for a commit, without the machine's identity; import reads\n"
     "         such a file",
     baseline_options, 1, 2 + BT_LOSS_RUNS_MAX, bt_verb_baseline},
    {"label", "RUN --name NAME | --note TEXT", "give a recorded run a name or a note",
     RUN_WORDS, label_options, 1, 1, bt_verb_label},
    {"rm", "RUN...", "delete recorded runs",
     "Deletes the runs with all recorded data, including verdicts and calibrations, and prints how\n"
     "much space was freed. Files under results/ are kept unless --files is given. A run that a\n"
     "baseline refers to needs --force.",
     rm_options, 1, 1000, bt_verb_rm},
    {"export", "RUN -o FILE", "write a run as one file that others can verify",
     "Contains raw samples, environment, plan, verdicts and report, with a digest of each; the same run\n"
     "gives the same bytes. Paths of this machine are cut to their last part. The GPU's UUID and the\n"
     "kernel's release are included unless --public is given.",
     export_options, 1, 1, bt_verb_export},
    {"verify", "FILE", "check a bundle: digests, signature, recomputed numbers",
     "Needs no GPU and no database. Recomputes medians, intervals and verdicts from the raw samples\n"
     "and compares them.\n"
     "Exit codes: 0 verified, 1 a check failed, 2 usage, 4 no such file, 5 damaged.",
     verify_options, 1, 1, bt_verb_verify},
    {"import", "FILE", "verify a bundle and import it",
     "A bundle that was imported before is not added again.\n"
     "Exit codes: 0 imported, 1 a check failed and nothing was imported, 2 usage, 4 no such file or\n"
     "database that cannot be written, 5 damaged or not a bundle.",
     import_options, 1, 1, bt_verb_import},
    {"keygen", "-o NAME", "make a key pair to sign bundles", NULL, keygen_options, 0, 0,
     bt_verb_keygen},
    {"data", "prepare | tokenize FILE... -o DIR | fetch [NAME] | verify NAME",
     "make, fetch or verify training data",
     "prepare   makes the default corpus, books, from public-domain texts (18 books)\n"
     "tokenize  makes shards from text files; a line with only <|endoftext|> separates documents\n"
     "fetch     downloads a known pre-tokenized corpus, or lists them; resumes interrupted downloads\n"
     "verify    compares every shard of a dataset (or its folder, with a /) with its digest",
     data_options, 1, 1 << 20, bt_verb_data},
    {"checkpoint", "list STORE | verify PATH | export MODEL -o DIR | import MODEL -o STORE",
     "list, verify, export or import checkpoints",
     "A STORE is a folder of checkpoints, each step-NNNNNNNN. A MODEL is a checkpoint, a store (its\n"
     "newest valid one), or GPT-2 in the format of transformers: model.safetensors, or its folder.\n"
     "list    checkpoints of a store; each is read and compared with its hashes\n"
     "verify  a checkpoint, or all of a store: every byte against its hash; names file and offset\n"
     "export  writes model.safetensors and config.json, which transformers can open\n"
     "import  makes a store with one checkpoint, step 0, of the weights only\n"
     "Exit codes: 0 done or valid, 2 usage or not GPT-2, 4 not found, 5 damaged. list and verify\n"
     "exit with 5 if any checkpoint of the store is damaged.",
     checkpoint_options, 2, 2, bt_verb_checkpoint},
    {"compile", "SUITE [--dump LIST -o DIR]", "show how the compiler groups a suite's training steps",
     "Captures one micro-batch of each training case, forward and backward, as a graph of kernel\n"
     "calls, without running a kernel; simplifies it; fuses calls into groups. The table shows the\n"
     "numbers of calls, of activations saved for the backward and of calls in groups, and the bytes\n"
     "moved by those calls and by the groups. The dump 'groups' has a line for each decision with its\n"
     "reason; 'bt' is the graph as MLIR, verified; 'mlir', 'llvm' and 'ptx' are the code of each group.\n"
     "With --target, generates the code of each group that train.compile would form into the cache,\n"
     "also for machines without the compiler.\n"
     "  bt-bench compile suites/llama_124m --profile cpu --dump graph,groups -o compiled\n"
     "  bt-bench compile suites/llama_124m --profile gpu --filter bf16 --target sm_90\n"
     "Exit codes: 0 done, 2 usage or nothing to compile, 4 no compiler, or code or dumps that cannot be\n"
     "written, 5 out of memory or an internal error.",
     compile_options, 1, 1, bt_verb_compile},
    {"sample", "--from MODEL [--prompt TEXT]", "generate text from a model",
     "A MODEL is as in 'bt-bench checkpoint'. The same build, device, model, prompt and seed give the\n"
     "same text. Only the end of a prompt longer than the model's context is used. The text ends at\n"
     "the model's end-of-text token, or after --tokens.",
     sample_options, 0, 0, bt_verb_sample},
    {"hellaswag", "--from MODEL", "score a model on HellaSwag",
     "The model selects the most likely of four endings. Prints the fraction of correct answers, by the\n"
     "endings' summed losses and, normalised, by their losses per token.",
     hellaswag_options, 0, 0, bt_verb_hellaswag},
    {"diff-run", "A B [--suite SUITE]", "train two modes in lockstep and compare every tensor",
     "A and B are lists separated by commas: a precision (fp32, tf32, bf16), a device (cpu, cuda,\n"
     "cuda:N), a recomputation (none, gelu_ln, block, block_offload), KEY=VALUE as for --set; or a\n"
     "folder, with a / in it, with the same values written by another program\n"
     "(harness/diff/README.md). Both start with the same parameters and get the same batches. For\n"
     "each step, activation, gradient and parameter: L2 and largest difference, and its bound.\n"
     "Exit codes: 0 all within their bounds, 1 a bound is exceeded, 2 usage, 4 unavailable.",
     diff_options, 2, 2, bt_verb_diff_run},
    {"bisect-bits", "RUN RUN", "find the first step, op, tensor and element that differ between two runs",
     "Each step's loss and gradient norm are recorded bit by bit, and each checkpoint has a digest of\n"
     "the state. These give the range of steps in which the runs diverge. This build trains that range\n"
     "again, both runs in lockstep from the last checkpoint that is equal in both, and compares every\n"
     "value. A replay whose bits differ from its record means another build or a hardware error.\n"
     "The replay runs on one rank: runs of tensor or context parallel ranks, of several ranks under\n"
     "zero2 or with train.mesh.invariant 0 cannot be replayed, because their bits are others.\n"
     "Exit codes: 0 the same bits, 1 different bits, 2 usage, 4 unavailable.",
     bisect_options, 2, 2, bt_verb_bisect_bits},
    {"doctor", "", "check this machine: what works, what is missing, how to install it",
     "Exit code 4 if a problem prevents runs from working.", doctor_options, 0, 0,
     bt_verb_doctor},
    {"env", "[diff RUN|here RUN|here]", "show facts about this machine, or the differences between two",
     "Without arguments: the facts of this machine. Hard facts must be equal for speeds to be comparable,\n"
     "soft ones may explain a difference, info is informative. Only relevant variables are recorded.\n"
     "diff prints only differences, hard facts first; 'here' is this machine, now.\n"
     "Exit codes of diff: 0 the hard facts are the same, 4 not comparable.",
     look_options, 0, 3, bt_verb_env},
    {"completion", "bash | zsh", "print completion for bash or zsh",
     "For bash:  eval \"$(bt-bench completion bash)\"   in ~/.bashrc\n"
     "For zsh:   eval \"$(bt-bench completion zsh)\"    in ~/.zshrc",
     plain_options, 1, 1, bt_verb_completion},
    {"version", "", NULL, NULL, plain_options, 0, 0, bt_verb_version},
    {"worker", "", NULL, NULL, plain_options, 0, 0, bt_verb_worker},
    {"probe", "", NULL, NULL, plain_options, 0, 0, bt_verb_probe},
};
// clang-format on

const int bt_cli_verb_count = (int)(sizeof bt_cli_verbs / sizeof bt_cli_verbs[0]);
