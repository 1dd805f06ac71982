// harness/cli/verbs.c - the table of verbs and their options
#include "harness/cli/ab_session.h"
#include "harness/cli/cli.h"
#include "harness/cli/run_suite.h"
#include "harness/cli/weights.h"
#include "harness/stats/loss.h"

// clang-format off
#define DB_ROW     {"db", 0, "FILE", "database of runs (default: results/bt.sqlite)"}
#define FORMAT_ROW {"format", 0, "FORMAT", "text or json (default: text)"}
#define LAST_ROWS  {"help", 'h', NULL, "this text"}, {0}
#define DB_LAST_ROWS        DB_ROW, LAST_ROWS
#define FORMAT_LAST_ROWS    FORMAT_ROW, LAST_ROWS
#define DB_FORMAT_LAST_ROWS DB_ROW, FORMAT_ROW, LAST_ROWS
// clang-format on

// How a RUN is named, in the help of the verbs that look at runs.
#define BT_CLI_RUN_WORDS                                                                           \
    "RUN is a number, last (the newest run), last-1 (the one before it), @BASELINE (the newest\n"  \
    "run that made this baseline), or what the run was called with --name."

static const bt_cli_option run_options[] = {
    BT_CLI_RUN_OPTIONS,
    {"resume", 0, "RUN", "finish an interrupted run: what has ended is not run again"},
    DB_ROW,
    FORMAT_ROW,
    {"dry-run", 0, NULL, "print the plan and stop"},
    LAST_ROWS};

static const bt_cli_option look_options[] = {DB_FORMAT_LAST_ROWS};

static const bt_cli_option doctor_options[] = {
    {"env", 0, NULL, "list the environment variables that are read, with their values"},
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option label_options[] = {
    {"name", 0, "NAME", "what other verbs may call the run instead of its number"},
    {"note", 0, "TEXT", "kept with the run, for people"},
    DB_LAST_ROWS};

static const bt_cli_option rm_options[] = {
    {"files", 0, NULL, "also remove the files that the runs wrote"},
    {"force", 0, NULL, "also runs that a baseline refers to"},
    DB_LAST_ROWS};

static const bt_cli_option watch_options[] = {{"once", 0, NULL, "say where it is and stop"},
                                              DB_FORMAT_LAST_ROWS};

static const bt_cli_option history_options[] = {
    {"metric", 0, "NAME", "what to look at, such as peak_allocated_bytes (default: its time)"},
    {"system", 0, "NAME", "only of this system (default: all, a table each)"},
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option replicate_options[] = {
    {"claims", 0, "FILE", "claims to judge (default: suites/claims/blutrain-2606.24780.json)"},
    BT_CLI_RUN_OPTIONS,
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option ab_options[] = {
    {"system", 0, "A,B", "two systems in place of two builds, the base first"},
    {"inject-slowdown", 0, "SHARE", NULL},
    BT_CLI_AB_OPTIONS,
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option bisect_commits_options[] = {BT_CLI_AB_OPTIONS_NEW, DB_FORMAT_LAST_ROWS};

static const bt_cli_option calibrate_options[] = {
    {"slowdown", 0, "SHARE", "of the third system (default: 0.02, 2 %)"},
    {"rounds", 0, "N", "rounds per case and system (default: 24)"},
    BT_CLI_AB_OPTIONS,
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option gate_options[] = {
    {"baseline", 0, "NAME|FILE", "what the run is held against; not needed for a session of 'ab'"},
    {"policy", 0, "NAME|FILE", "what may pass (default: suites/policies/default.json)"},
    {"junit", 0, "FILE", "write the verdicts as JUnit XML"},
    {"markdown", 0, "FILE", "write a summary for a comment"},
    {"json", 0, "FILE", "write what --format json prints"},
    BT_CLI_RUN_OPTIONS,
    {"resume", 0, "RUN", "finish an interrupted gate of a suite, with its policy and baseline"},
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option baseline_options[] = {
    {"reason", 0, "TEXT", "set, add: why later runs are compared with this"},
    {"accept-noise", 0, "TEXT", "set, add: why disturbed rounds are taken; recorded"},
    {"output", 'o', "FILE", "export: where to (default: results/baselines/MACHINE/NAME.json)"},
    {"machine", 0, "TYPE", "show, export: the one of that type of machine"},
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option report_options[] = {
    {"output", 'o', "FILE",
     "where to; .html (one page), .md, .json, .csv (metrics), .steps.csv, .samples.csv"},
    {"publish", 0, "DIR",
     "a folder for others: page, Markdown, JSON, plots; a name alone lies under reports/"},
    {"bundle", 0, "FILE", "publish: a bundle of bt-bench export --public to put beside it"},
    {"claims", 0, "FILE",
     "publish: claims, for the paper's conditions (default: the shipped ones)"},
    {"force", 0, NULL, "publish: replace the publication that lies there"},
    {"draft", 0, NULL,
     "publish: a run that breaks the rules (modified tree, interrupted, no bundle), marked so"},
    DB_LAST_ROWS};

static const bt_cli_option index_options[] = {
    {"output", 'o', "FILE", "where to (default: index.html beside the database)"}, DB_LAST_ROWS};

static const bt_cli_option export_options[] = {
    {"output", 'o', "FILE", "where to, as in run-3.tar.zst"},
    {"sign", 0, "KEYFILE", "sign with this Ed25519 key (PEM, as 'bt-bench keygen' makes it)"},
    {"public", 0, NULL, "leave out what identifies the machine: GPU's UUID, kernel's release"},
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option verify_options[] = {
    {"key", 0, "PUBFILE", "it must be signed by this key (PEM)"}, FORMAT_LAST_ROWS};

static const bt_cli_option import_options[] = {
    {"key", 0, "PUBFILE", "it must be signed by this key (PEM)"}, DB_FORMAT_LAST_ROWS};

static const bt_cli_option keygen_options[] = {
    {"output", 'o', "NAME", "makes NAME.key and NAME.pub"}, LAST_ROWS};

static const bt_cli_option data_options[] = {
    {"output", 'o', "DIR", "where to (default: data/books, data/NAME)"},
    {"val", 0, "FRACTION", "tokenize: share of the documents held out (default: 0)"},
    {"ranks", 0, "FILE", "tokenize: another tokenizer's rank file"},
    {"force", 0, NULL, "tokenize: replace the dataset that is in -o DIR"},
    {"files", 0, "N", "fetch: only the first N training shards"},
    {"list", 0, "FILE", "fetch: another list of corpora"},
    {"quiet", 'q', NULL, "no progress"},
    FORMAT_LAST_ROWS};

static const bt_cli_option checkpoint_options[] = {
    {"output", 'o', "DIR", "export: where model.safetensors goes; import: a new folder"},
    {"heads", 0, "N", "attention heads, where the model does not say it"},
    {"quick", 0, NULL, "list: read no data, only what the checkpoints say of themselves"},
    {"force", 0, NULL, "export: replace the file that is there"},
    FORMAT_LAST_ROWS};

static const bt_cli_option compile_options[] = {
    {"profile", 0, "NAME", "profile of the suite (default: the best that this machine can run)"},
    {"filter", 0, "TEXT", "only cases whose name contains TEXT, or matches it as a glob"},
    {"set", 0, "KEY=VALUE", "set a key of every case, as in --set train.micro_batch=1; repeatable"},
    {"dump", 0, "LIST", "what to write: graph, simple, groups, or several with commas between"},
    {"output", 'o', "DIR", "where to: DIR/CASE.graph.txt and so on"},
    {"target", 0, "NAME", "also generate code for cpu or sm_80, sm_89, sm_90 into the cache"},
    LAST_ROWS};

static const bt_cli_option sample_options[] = {
    BT_CLI_WEIGHTS_OPTIONS,
    {"prompt", 0, "TEXT", "what the text begins with (default: nothing)"},
    {"tokens", 0, "N", "how many more, at most (default: 100)"},
    {"greedy", 0, NULL, "the likeliest token each time, nothing drawn"},
    {"temperature", 0, "X", "divides the logits (default: 1)"},
    {"top-k", 0, "K", "draw from the K likeliest; 0: from all (default: 50)"},
    {"seed", 0, "N", "of the draws (default: 0)"},
    {"quiet", 'q', NULL, "do not say what the model is"},
    LAST_ROWS};

static const bt_cli_option hellaswag_options[] = {
    BT_CLI_WEIGHTS_OPTIONS,
    {"questions", 0, "FILE", "six lines each (default: data/hellaswag.txt)"},
    {"limit", 0, "N", "only the first N questions"},
    {"answers", 0, "FILE", "write a line of JSON for each question"},
    {"quiet", 'q', NULL, "no progress"},
    FORMAT_LAST_ROWS};

static const bt_cli_option diff_options[] = {
    {"suite", 0, "SUITE", "whose first training case both sides train (default: gpt2_124m)"},
    {"filter", 0, "TEXT", "the case whose name contains TEXT, or matches it as a glob"},
    {"profile", 0, "NAME", "profile of the suite (default: the best that this machine can run)"},
    {"set", 0, "KEY=VALUE", "set a key on both sides, as in --set train.sequence=64; repeatable"},
    {"steps", 0, "N", "how many (default: 3)"},
    {"dump", 0, "DIR", "write the values of A, or of the side that trains, a file a step"},
    {"output", 'o', "FILE", "write a page with plots"},
    FORMAT_LAST_ROWS};

static const bt_cli_option bisect_options[] = {
    {"case", 0, "NAME", "which training case (default: the first with other bits at the end)"},
    {"device", 0, "NAME", "train again on cpu, cuda or cuda:N (default: that of the runs)"},
    DB_FORMAT_LAST_ROWS};

static const bt_cli_option plain_options[] = {LAST_ROWS};

// A line of the help is a line here.
// clang-format off
const bt_cli_verb bt_cli_verbs[] = {
    {"run", "SUITE [options] | --resume RUN", "run a suite, record it and write its report",
     "SUITE is a suite file, a folder with suite.json, or a name under suites/.\n"
     "Ctrl-C stops after the current step and keeps what was recorded; --resume goes on with it.\n"
     "The loss of its terminal does not stop it; 'bt-bench watch' shows it from another.\n"
     "Exit codes: 0 passed, 2 usage or suite, 4 device, peer, file or folder missing, 5 crash, 130 interrupted.",
     run_options, 0, 1, bt_verb_run},
    {"list", "[suites | cases SUITE | runs | kernels | schema [suite | policy]]",
     "list suites, cases, runs, kernels or a schema", NULL, look_options, 0, 2, bt_verb_list},
    {"watch", "[RUN]", "watch a run from another terminal (default: the newest)",
     "Reads the record; Ctrl-C ends watching and leaves the run alone. With --format json an object\n"
     "per change. The run goes on when its own terminal is lost; kill PROCESS stops it cleanly.\n"
     "Exit codes of the run when it ends: 0 passed, 4 unavailable, 5 failed, 130 interrupted.",
     watch_options, 0, 1, bt_verb_watch},
    {"show", "RUN", "show a recorded run", BT_CLI_RUN_WORDS, look_options, 1, 1,
     bt_verb_show},
    {"compare", "RUN RUN", "compare two runs", BT_CLI_RUN_WORDS, look_options, 2, 2,
     bt_verb_compare},
    {"history", "CASE", "show one case over all runs, and where it changed",
     "CASE is a name as in 'bt-bench list cases'. Runs of one system in one environment with the\n"
     "same settings are a series; a change is a shift of its level that lasts (p at most 0.01).",
     history_options, 1, 1, bt_verb_history},
    {"report", "RUN... -o FILE | --publish DIR",
     "write a report: HTML, Markdown, JSON or CSV, or a folder to publish", BT_CLI_RUN_WORDS,
     report_options, 1, 1000, bt_verb_report},
    {"index", "[-o FILE]", "write one page about all runs: a table with filters, each case over time",
     NULL, index_options, 0, 0, bt_verb_index},
    {"calibrate", "SUITE | list | rm CASE | --resume RUN",
     "measure the noise floor: false alarms, smallest detectable slowdown",
     "Runs this build against itself, and against itself made slower on purpose, interleaved. Per case:\n"
     "an upper bound of how often equal builds are called slower, and the smallest slowdown that is\n"
     "found nine times in ten. Pairs of earlier sessions of the same case on this machine are added.\n"
     "Recorded for gates of pairs: for this rule, tolerance and card, until it expires (policy).\n"
     "list     what is recorded\n"
     "rm CASE  removes the calibrations of a case, or of those that a glob takes\n"
     "Exit codes: 0 measured, 1 a case is refused: it misses the policy's rates, 2 usage or suite,\n"
     "4 a case has too few pairs, 5 a case crashed or was wrong, 130 interrupted.",
     calibrate_options, 0, 2, bt_verb_calibrate},
    {"ab", "BASE CANDIDATE SUITE | SUITE --system A,B | --resume RUN",
     "compare two builds or systems in interleaved rounds",
     "A build is a git revision, which is built under results/builds/ (once), a bt-bench program or\n"
     "a folder with one, or '.', this very program. Rounds in fresh processes, A B B A, until each\n"
     "case is decided: SAME, FASTER, SLOWER, or INCONCLUSIVE after the last pair.\n"
     "Exit codes: 0 nothing slower, 1 something is, 2 usage or suite, 3 something is inconclusive, 4 not\n"
     "comparable, 5 a case crashed or was wrong, or a build failed, 130 interrupted.",
     ab_options, 0, 3, bt_verb_ab},
    {"bisect", "GOOD BAD SUITE", "find the first commit that made a suite slower",
     "Compares commits between GOOD and BAD (first parents) with GOOD, each as 'bt-bench ab' does:\n"
     "built once under results/builds/, interleaved rounds, a recorded run. A commit that does not build\n"
     "or stays inconclusive is left out. Name the slow cases with --filter: fewer cases, less time.\n"
     "Exit codes: 0 found, 2 usage, 3 BAD is not slower, or only a range is known, 130 interrupted.",
     bisect_commits_options, 3, 3, bt_verb_bisect},
    {"replicate", "SUITE | RUN [options]", "test the claims of the paper: a verdict for each",
     "SUITE: those of its cases that claims are about run, interleaved with the systems that the paper\n"
     "compares with, in 4 rounds or --rounds. RUN: a recorded run that had those systems.\n"
     "Exit codes: 0 all that could be tested is REPLICATED, HIGHER or UNINFORMATIVE, 1 something is\n"
     "LOWER, 3 something is INCONCLUSIVE, 4 nothing could be tested; those of run.",
     replicate_options, 1, 1, bt_verb_replicate},
    {"gate", "SUITE | RUN | --resume RUN [options]",
     "fail if slower, using more memory, or computing different losses",
     "SUITE is run, in as many rounds as the sessions of --baseline have, and compared with it. RUN is\n"
     "a recorded run; one of 'bt-bench ab' is judged candidate against base, without a baseline.\n"
     "Exit codes: 0 nothing worse, 1 slower or larger, 2 usage, 3 inconclusive, 4 not comparable or\n"
     "disturbed, 5 crashed or wrong, 130 interrupted. Speed against a baseline of fewer than 5 sessions,\n"
     "or of another card, is ADVISORY: printed, and no reason to fail.",
     gate_options, 0, 1, bt_verb_gate},
    {"baseline",
     "set NAME RUN... --reason TEXT | add NAME RUN... | list | show NAME | history NAME | export NAME | import FILE",
     "manage the baselines that gate compares with",
     "set      makes runs the baseline NAME of their machine; earlier ones stay in its history. A run of\n"
     "         the first one's build and settings is one more session: speed is judged from 5 sessions\n"
     "         of one card on, before that it is advisory. Of other builds, micro-batches and seeds\n"
     "         only the loss curves are kept, for the tiers numeric and statistical\n"
     "add      adds sessions to the baseline NAME\n"
     "list     the current baselines; history: all of a name\n"
     "export   writes one as JSON, to be committed, without what identifies the machine; import reads\n"
     "         such a file",
     baseline_options, 1, 2 + BT_LOSS_RUNS_MAX, bt_verb_baseline},
    {"label", "RUN --name NAME | --note TEXT", "give a recorded run a name or a note",
     BT_CLI_RUN_WORDS, label_options, 1, 1, bt_verb_label},
    {"rm", "RUN...", "delete recorded runs",
     "Removes the runs with all that was recorded of them, verdicts and calibrations too, and says how\n"
     "much space that freed. Files under results/ stay unless --files is given. A run that a baseline\n"
     "refers to is refused without --force.",
     rm_options, 1, 1000, bt_verb_rm},
    {"export", "RUN -o FILE", "write a run as one file that others can verify",
     "Raw samples, environment, plan, verdicts and report, with a digest of each; the same run gives\n"
     "the same bytes. Paths of this machine are cut to their last part; GPU's UUID and kernel's release\n"
     "are evidence and stay, unless --public is given.",
     export_options, 1, 1, bt_verb_export},
    {"verify", "FILE", "check a bundle: digests, signature, and every number again",
     "Needs no GPU and no database. Medians, intervals and verdicts are worked out again from the\n"
     "raw samples and compared.\n"
     "Exit codes: 0 all holds, 1 something does not, 2 usage, 4 no such file, 5 damaged.",
     verify_options, 1, 1, bt_verb_verify},
    {"import", "FILE", "verify a bundle and import it", NULL, import_options, 1, 1,
     bt_verb_import},
    {"keygen", "-o NAME", "make a key pair to sign bundles", NULL, keygen_options, 0, 0,
     bt_verb_keygen},
    {"data", "prepare | tokenize FILE... -o DIR | fetch [NAME] | verify NAME",
     "make, fetch or verify training data",
     "prepare   makes the default corpus, books, from public-domain texts (18 books)\n"
     "tokenize  makes shards from text files; a line with only <|endoftext|> parts documents\n"
     "fetch     gets a known pre-tokenised corpus, or lists them; resumes where it was broken off\n"
     "verify    reads every shard of a dataset (or its folder, with a /) against its digest",
     data_options, 1, 1 << 20, bt_verb_data},
    {"checkpoint", "list STORE | verify PATH | export MODEL -o DIR | import MODEL -o STORE",
     "list, verify, export or import checkpoints",
     "A STORE is a folder of checkpoints, step-NNNNNNNN each. A MODEL is a checkpoint, a store (its\n"
     "newest that is valid), or GPT-2 as transformers keeps it: model.safetensors, or its folder.\n"
     "list    what a store has; each checkpoint is read and compared with its hashes\n"
     "verify  a checkpoint, or all of a store: every byte against its hash; names file and offset\n"
     "export  writes model.safetensors and config.json, which transformers opens\n"
     "import  makes a store with one checkpoint, step 0, of the weights alone\n"
     "Exit codes: 0 done or valid, 2 usage or no GPT-2, 4 not there, 5 damaged.",
     checkpoint_options, 2, 2, bt_verb_checkpoint},
    {"compile", "SUITE [--dump LIST -o DIR]", "show how the compiler groups a suite's training steps",
     "Captures one micro-batch of each training case, forward and backward, as a graph of kernel\n"
     "calls, without running a kernel; simplifies it; joins calls into groups. The table says how\n"
     "many calls there are, how many activations are saved for the backward, how many calls are in\n"
     "groups, and what those calls and the groups move. Dumps say the rest: 'groups' has a line for\n"
     "each decision with its reason. With --target the code of each group that compile: on would\n"
     "form is generated into the cache, also for a machine that has no compiler.\n"
     "  bt-bench compile suites/llama_124m --profile cpu --dump graph,groups -o compiled\n"
     "  bt-bench compile suites/llama_124m --profile gpu --filter bf16 --target sm_90",
     compile_options, 1, 1, bt_verb_compile},
    {"sample", "--from MODEL [--prompt TEXT]", "generate text from a model",
     "A MODEL is what 'bt-bench checkpoint' takes. The same build, device, model, prompt and seed give\n"
     "the same text. Of a prompt longer than the model's context the end is taken. The text ends where\n"
     "the model ends it, or after --tokens.",
     sample_options, 0, 0, bt_verb_sample},
    {"hellaswag", "--from MODEL", "score a model on HellaSwag",
     "Which of four endings is the likeliest: the share of right answers, by the endings' summed\n"
     "losses and, normalised, by their losses per token.",
     hellaswag_options, 0, 0, bt_verb_hellaswag},
    {"diff-run", "A B [--suite SUITE]", "train two modes in lockstep and compare every tensor",
     "A and B are words with commas between them: a precision (fp32, tf32, bf16), a device (cpu,\n"
     "cuda, cuda:N), a recomputation (none, gelu_ln, block, block_offload), KEY=VALUE as of --set;\n"
     "or a folder, with a / in it, where another program has written the same values\n"
     "(harness/diff/README.md). Both begin with the same parameters and see the same batches. For\n"
     "each step, activation, gradient and parameter: L2 and largest difference, and its bound.\n"
     "Exit codes: 0 all within their bounds, 1 not, 2 usage, 4 unavailable.",
     diff_options, 2, 2, bt_verb_diff_run},
    {"bisect-bits", "RUN RUN", "find the first step, op, tensor and element that differ between two runs",
     "Recorded are the bits of each step's loss and gradient norm, and of each checkpoint a digest of\n"
     "the state. They say between which steps the runs part; those are trained again by this build,\n"
     "both runs in lockstep from the last checkpoint that is the same in both, and every value is\n"
     "compared. A replay with other bits than its record: another build, or hardware that erred.\n"
     "Exit codes: 0 the same bits, 1 not, 2 usage, 4 unavailable.",
     bisect_options, 2, 2, bt_verb_bisect_bits},
    {"doctor", "", "check this machine: what works, what is missing, how to install it",
     "Exit code 4 when something is bad enough to keep runs from working.", doctor_options, 0, 0,
     bt_verb_doctor},
    {"env", "[diff RUN|here RUN|here]", "show facts about this machine, or the differences between two",
     "Without words: this machine's facts. Hard facts must be equal for speeds to be compared, soft ones\n"
     "may explain a difference, info is for reading. Of variables only those that matter are recorded.\n"
     "diff says only what differs, hard facts first; 'here' is this machine, now.\n"
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
