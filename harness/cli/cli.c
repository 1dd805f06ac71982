// harness/cli/cli.c - parses the command line: verbs, options, help, errors
#include "harness/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "framework/base/environment.h"
#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/cli/help.h"
#include "harness/run/child.h"
#include "harness/store/store.h"
#include "harness/suite/suite.h"
#include "harness/suite/words.h"
#include "harness/text/paint.h"
#include "harness/text/wrap.h"

#define OPTION_BASE 1000 // getopt codes of the verb's options

// ---- errors ------------------------------------------------------------------------------------

// The width of lines on a descriptor: COLUMNS, else that of its terminal, or 80 if the terminal
// does not report one. 0, any number, if the descriptor is not a terminal.
static int terminal_columns(int descriptor)
{
    enum { COLUMNS_UNKNOWN = 80, COLUMNS_MAX = 10000 };
    struct winsize size = {0};
    const char *given = bt_environment(BT_VARIABLE_COLUMNS);
    const long columns = given ? strtol(given, NULL, 10) : 0;
    if (columns > 0 && columns <= COLUMNS_MAX) {
        return (int)columns;
    }
    if (!isatty(descriptor)) {
        return 0;
    }
    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                        : COLUMNS_UNKNOWN;
}

// Tables and texts are fitted to this, in a pipe too if COLUMNS is set.
static int output_columns(void) { return terminal_columns(STDOUT_FILENO); }

// Prints this thread's message on standard error and returns the exit code of the status. Lines are
// broken only on a terminal, because programs read them elsewhere.
static int fail(bt_status status)
{
    BT_SCOPED(bt_str) lines = {0};
    const int columns = isatty(STDERR_FILENO) ? terminal_columns(STDERR_FILENO) : 0;
    const char *message = *bt_error_message() ? bt_error_message() : bt_status_text(status);
    bt_wrap_text(message, columns, BT_WRAP_LABEL, &lines);
    fprintf(stderr, "%s\n", lines.status == BT_OK ? bt_str_text(&lines) : message);
    return bt_status_exit_code(status);
}

// Whether standard output is a terminal with colour, and the format is text.
static bool is_painted(const bt_str *text)
{
    const char *terminal = bt_environment(BT_VARIABLE_TERM);
    const bool json = text->length_bytes > 0 && (text->text[0] == '{' || text->text[0] == '[');
    return !json && isatty(STDOUT_FILENO) && !bt_environment(BT_VARIABLE_NO_COLOR) && terminal &&
           strcmp(terminal, "dumb") != 0;
}

// Prints the help of a verb, or for NULL the list of verbs; returns the exit code.
static int print_help(const bt_cli_verb *verb, FILE *to)
{
    BT_SCOPED(bt_str) text = {0};
    if (verb) {
        bt_cli_help(verb, output_columns(), &text);
    } else {
        bt_cli_overview(output_columns(), &text);
    }
    fputs(bt_str_text(&text), to);
    const bt_status status = bt_str_status(&text);
    return status == BT_OK ? 0 : fail(status);
}

static void paint(bt_str *text)
{
    bt_str painted = {0};
    bt_paint_text(bt_str_text(text), output_columns(), &painted);
    bt_str_release(text);
    *text = painted;
}

// Prints data on standard output; returns the exit code, 4 if it cannot be written.
static int print(bt_str *text)
{
    bt_status status = bt_str_status(text);
    if (status == BT_OK && is_painted(text)) {
        paint(text);
        status = bt_str_status(text);
    }
    if (status == BT_OK) {
        const char *bytes = bt_str_text(text);
        size_t length = text->length_bytes;
        bool written = fwrite(bytes, 1, length, stdout) == length && fflush(stdout) == 0;
        // A reader that exits early, such as head, is not a failure, nor is a lost terminal.
        if (!written && errno != EPIPE && !bt_interrupt_hung_up()) {
            status = bt_error(BT_STATUS_IO, "cannot write to standard output: %s", strerror(errno));
        }
    }
    return status == BT_OK ? 0 : fail(status);
}

static int unknown_verb(const char *given)
{
    BT_SCOPED(bt_str) words = {0}, hint = {0}, listed = {0};
    BT_EACH(const bt_cli_verb, verb, bt_cli_verbs, bt_cli_verb_count) {
        if (verb->summary) {
            bt_words_add(&words, verb->name, strlen(verb->name));
        }
    }
    bt_words_hint(given, bt_str_text(&words), &hint);
    bt_words_join(bt_str_text(&words), " ", &listed);
    return fail(bt_error(BT_STATUS_INVALID_ARGUMENT, "bt-bench: unknown verb \"%s\"%s\nverbs: %s",
                         given, bt_str_text(&hint), bt_str_text(&listed)));
}

static int bad_option(const bt_cli_verb *verb, const char *given, bool needs_value)
{
    if (needs_value) {
        return fail(bt_error(BT_STATUS_INVALID_ARGUMENT, "bt-bench %s: %s needs a value",
                             verb->name, given));
    }
    BT_SCOPED(bt_str) words = {0}, hint = {0};
    for (const bt_cli_option *option = verb->options; option && option->name; ++option) {
        if (option->meaning) {
            bt_str_format(&words, "%s--%s", words.length_bytes ? "|" : "", option->name);
        }
    }
    char word[65];
    (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(given, "="), given);
    bt_words_hint(word, bt_str_text(&words), &hint);
    return fail(bt_error(BT_STATUS_INVALID_ARGUMENT,
                         "bt-bench %s: unknown option %s%s\nusage: bt-bench %s %s", verb->name,
                         given, bt_str_text(&hint), verb->name, verb->usage));
}

// ---- options -----------------------------------------------------------------------------------

// The row of a verb's option; -1: it has none of that name.
static int option_row(const bt_cli_verb *verb, const char *name)
{
    for (int i = 0; verb->options && verb->options[i].name; ++i) {
        if (strcmp(verb->options[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

const char *bt_cli_value(const bt_cli_arguments *arguments, const char *name)
{
    const int row = option_row(arguments->verb, name);
    return row >= 0 ? arguments->values[row] : NULL;
}

bt_status bt_cli_number(const bt_cli_arguments *arguments, const char *name, int64_t minimum,
                        int64_t maximum, int64_t fallback, int64_t *out)
{
    const char *text = bt_cli_value(arguments, name);
    *out = fallback;
    if (!text) {
        return BT_OK;
    }
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    BT_FAIL_IF(errno || end == text || *end || value < minimum || value > maximum,
               BT_STATUS_INVALID_ARGUMENT, "--%s %s: expected a whole number from %lld to %lld",
               name, text, (long long)minimum, (long long)maximum);
    *out = value;
    return BT_OK;
}

bt_status bt_cli_real(const bt_cli_arguments *arguments, const char *name, double minimum,
                      double maximum, double fallback, const char *expected, double *out)
{
    const char *text = bt_cli_value(arguments, name);
    char *end = NULL;
    *out = text ? strtod(text, &end) : fallback;
    BT_FAIL_IF(text && (end == text || *end || !(*out >= minimum && *out <= maximum)),
               BT_STATUS_INVALID_ARGUMENT, "--%s %s: expected %s", name, text, expected);
    return BT_OK;
}

// Whether --format is json. Errors  INVALID_ARGUMENT for other words than text and json
static bt_status read_format(const bt_cli_arguments *arguments, bool *json)
{
    const char *format = bt_cli_value(arguments, "format");
    *json = format && strcmp(format, "json") == 0;
    return *json || !format || strcmp(format, "text") == 0
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT, "--format %s: allowed: text, json", format);
}

bt_status bt_cli_path(const bt_cli_arguments *arguments, const char *name, const char *shipped,
                      bt_str *out)
{
    const char *given = bt_cli_value(arguments, name);
    if (given) {
        bt_str_append(out, given);
    } else {
        bt_home_path(out);
        bt_str_format(out, "/%s", shipped);
    }
    return bt_str_status(out);
}

bt_status bt_cli_claims_read(const bt_cli_arguments *arguments, bt_json_doc *json)
{
    BT_SCOPED(bt_str) path = {0};
    BT_TRY(bt_cli_path(arguments, "claims", "suites/claims/blutrain-2606.24780.json", &path));
    return bt_json_load(bt_str_text(&path), json);
}

// Fills getopt's tables from the verb's rows.
static void getopt_tables(const bt_cli_verb *verb, struct option *longs, char *shorts)
{
    size_t letters = 0;
    shorts[letters++] = ':';
    int count = 0;
    for (; verb->options && verb->options[count].name; ++count) {
        const bt_cli_option *row = &verb->options[count];
        longs[count] = (struct option){row->name, row->argument ? required_argument : no_argument,
                                       NULL, OPTION_BASE + count};
        if (row->letter) {
            shorts[letters++] = row->letter;
            if (row->argument) {
                shorts[letters++] = ':';
            }
        }
    }
    longs[count] = (struct option){0};
    shorts[letters] = '\0';
}

// The index of the row that a getopt code means, -1 for none.
static int row_of(const bt_cli_verb *verb, int code)
{
    if (code >= OPTION_BASE) {
        return code - OPTION_BASE;
    }
    for (int i = 0; verb->options && verb->options[i].name; ++i) {
        if (code && verb->options[i].letter == code) {
            return i;
        }
    }
    return -1;
}

static int parse(const bt_cli_verb *verb, int argc, char **argv, bt_cli_arguments *arguments)
{
    struct option longs[BT_CLI_OPTIONS_MAX + 1];
    char shorts[2 * BT_CLI_OPTIONS_MAX + 2];
    getopt_tables(verb, longs, shorts);
    opterr = 0;
    optind = 1;
    for (;;) {
        int current = optind;
        int code = getopt_long(argc, argv, shorts, longs, NULL);
        if (code == -1) {
            break;
        }
        int row = row_of(verb, code);
        if (row < 0) {
            int at = optind > current ? optind - 1 : optind;
            return bad_option(verb, argv[at < argc ? at : current], code == ':');
        }
        arguments->values[row] = optarg ? optarg : "";
        if (strcmp(verb->options[row].name, "set") == 0) {
            arguments->repeated[arguments->repeated_count++] = optarg;
        }
    }
    for (int i = optind; i < argc; ++i) {
        arguments->words[arguments->word_count++] = argv[i];
    }
    return 0;
}

bt_status bt_cli_open(bt_cli_call *call, bt_store_mode mode)
{
    return bt_store_open(bt_cli_database(call->arguments), mode, &call->store);
}

static int call_verb(const bt_cli_arguments *arguments)
{
    bt_cli_call call = {.arguments = arguments, .columns = output_columns()};
    bt_status status = read_format(arguments, &call.json);
    BT_IF_OK(status, arguments->verb->run(&call));
    bt_status closed = bt_store_close(call.store);
    BT_IF_OK(status, closed);
    int code = status == BT_OK || call.prints_always ? print(&call.out) : 0;
    bt_str_release(&call.out);
    return status != BT_OK ? fail(status) : code ? code : call.code;
}

static int run_verb(const bt_cli_verb *verb, int argc, char **argv, bt_cli_arguments *arguments)
{
    int bad = parse(verb, argc, argv, arguments);
    if (bad) {
        return bad;
    }
    if (bt_cli_value(arguments, "help")) {
        return print_help(verb, stdout);
    }
    if (arguments->word_count < verb->words_min || arguments->word_count > verb->words_max) {
        const char *extra =
            arguments->word_count > verb->words_max ? arguments->words[verb->words_max] : NULL;
        const bool is_model = extra && option_row(verb, "from") >= 0;
        return fail(bt_error(BT_STATUS_INVALID_ARGUMENT,
                             "bt-bench %s: %s%s%s%s\nusage: bt-bench %s %s", verb->name,
                             extra ? "unexpected argument: " : "an argument is missing",
                             extra ? extra : "", is_model ? "; a model is given as --from " : "",
                             is_model ? extra : "", verb->name, verb->usage));
    }
    return call_verb(arguments);
}

// Quotes a word for the shell if necessary.
static void append_word(const char *word, bt_str *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=.,:/@%^";
    if (*word && word[strspn(word, plain)] == '\0') {
        bt_str_append(out, word);
        return;
    }
    bt_str_append(out, "'");
    for (const char *at = word; *at; ++at) {
        if (*at == '\'') {
            bt_str_append(out, "'\\''");
        } else {
            bt_str_append_bytes(out, at, 1);
        }
    }
    bt_str_append(out, "'");
}

const char *bt_cli_database(const bt_cli_arguments *arguments)
{
    const char *path = bt_cli_value(arguments, "db");
    return path ? path : BT_CLI_DATABASE;
}

void bt_cli_append_database(const char *database, bt_str *out)
{
    if (strcmp(database, BT_CLI_DATABASE) != 0) {
        bt_str_append(out, " --db ");
        append_word(database, out);
    }
}

static int start_verb(const bt_cli_verb *verb, int argc, char **argv)
{
    bt_cli_arguments arguments = {.verb = verb};
    BT_SCOPED(bt_str) command = {0};
    for (int i = 0; i < argc; ++i) {
        bt_str_append(&command, i ? " " : "bt-bench ");
        append_word(argv[i], &command);
    }
    bt_status status = bt_str_status(&command);
    BT_IF_OK(status, BT_MEM_ARRAY(argc, &arguments.words));
    BT_IF_OK(status, BT_MEM_ARRAY(argc, &arguments.repeated));
    arguments.command = bt_str_text(&command);
    const int code = status == BT_OK ? run_verb(verb, argc, argv, &arguments) : fail(status);
    bt_mem_free((void *)arguments.words);
    bt_mem_free((void *)arguments.repeated);
    return code;
}

int bt_cli_main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        (void)print_help(NULL, stderr);
        return 2;
    }
    const char *name = argv[1];
    const bool helps = strcmp(name, "help") == 0;
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || (helps && argc == 2)) {
        return print_help(NULL, stdout);
    }
    name = helps ? argv[2] : strcmp(name, "--version") == 0 ? "version" : name;
    const int64_t at = BT_FIND(bt_cli_verbs, bt_cli_verb_count, name, name);
    if (helps && at >= 0) {
        return print_help(&bt_cli_verbs[at], stdout);
    }
    return at < 0 ? unknown_verb(name) : start_verb(&bt_cli_verbs[at], argc - 1, argv + 1);
}
