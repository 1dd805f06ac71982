// harness/cli/help.c - the program's help, from the table of verbs
#include "harness/cli/help.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/text/wrap.h"

enum { COLUMNS_MAX = 100 }; // longer lines are hard to read

// Whether a line of the table of verbs begins an item of a list, "list     the baselines", or the
// exit codes, or is an example, which two spaces indent.
static bool begins_item(const char *line)
{
    enum { WORD_MAX = 12, EXAMPLE_INDENT = 2 };
    const size_t margin = strspn(line, " ");
    const char *gap = strstr(line + margin, "  ");
    return margin == EXAMPLE_INDENT || (margin == 0 && gap && gap - line < WORD_MAX) ||
           strncmp(line, "Exit code", strlen("Exit code")) == 0;
}

// Appends a text with a newline at its end. For a terminal, joins the lines of a sentence, which
// the table of verbs breaks for its own width.
static void append_sentences(const char *text, int columns, bt_str *out)
{
    for (const char *line = text; *line;) {
        const size_t length = strcspn(line, "\n");
        const char *next = line + length + (line[length] == '\n');
        bt_str_append_bytes(out, line, length);
        const bool ends =
            columns == 0 || length == 0 || line[length - 1] == '.' || !*next || begins_item(next);
        bt_str_append(out, ends ? "\n" : " ");
        line = next + (ends ? 0 : strspn(next, " "));
    }
}

static int width_of(int columns) { return columns < COLUMNS_MAX ? columns : COLUMNS_MAX; }

void bt_cli_overview(int columns, bt_str *out)
{
    columns = width_of(columns);
    bt_wrap_text("bt-bench: train with BluTrain, measure it, look at the result\n\n"
                 "usage: bt-bench VERB [options]\n\n",
                 columns, BT_WRAP_LABEL, out);
    for (int i = 0; i < bt_cli_verb_count; ++i) {
        if (bt_cli_verbs[i].summary) {
            char name[32];
            const int indent = snprintf(name, sizeof name, "  %-11s ", bt_cli_verbs[i].name);
            BT_SCOPED(bt_str) line = {0};
            bt_str_format(&line, "%s%s\n", name, bt_cli_verbs[i].summary);
            bt_wrap_text(bt_str_text(&line), columns, indent, out);
        }
    }
    bt_wrap_text("\n  'bt-bench VERB --help' describes a verb, 'bt-bench --version' the build.\n"
                 "  To begin: bt-bench run suites/gpt2_124m\n",
                 columns, BT_WRAP_LABEL, out);
}

static void append_option(const bt_cli_option *option, int columns, bt_str *out)
{
    char spelled[64], head[96], letter[8] = "    ";
    BT_SCOPED(bt_str) line = {0};
    (void)snprintf(spelled, sizeof spelled, "--%s%s%s", option->name, option->argument ? " " : "",
                   option->argument ? option->argument : "");
    if (option->letter) {
        (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
    }
    const int indent = snprintf(head, sizeof head, "  %s%-20s ", letter, spelled);
    bt_str_append(&line, head);
    append_sentences(option->meaning, columns, &line);
    bt_wrap_text(bt_str_text(&line), columns, indent, out);
}

void bt_cli_help(const bt_cli_verb *verb, int columns, bt_str *out)
{
    BT_SCOPED(bt_str) head = {0};
    columns = width_of(columns);
    bt_str_format(&head, "usage: bt-bench %s%s%s\n\n%s\n", verb->name, *verb->usage ? " " : "",
                  verb->usage, verb->summary ? verb->summary : "internal");
    bt_wrap_text(bt_str_text(&head), columns, BT_WRAP_LABEL, out);
    if (verb->details) {
        BT_SCOPED(bt_str) details = {0};
        append_sentences(verb->details, columns, &details);
        bt_str_append(out, "\n");
        bt_wrap_text(bt_str_text(&details), columns, BT_WRAP_LABEL, out);
    }
    bt_str_append(out, "\noptions\n");
    for (const bt_cli_option *option = verb->options; option && option->name; ++option) {
        if (option->meaning) {
            append_option(option, columns, out);
        }
    }
}
