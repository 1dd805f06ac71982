// harness/cli/verb_completion.c - completion for bash and zsh, generated from the table of verbs
//
// The script contains verbs and options; it queries suites, names of runs and baselines from the
// program when a word is completed, since they change.
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/cli/cli.h"

// "run list watch", the verbs that the help shows.
static void append_verbs(bt_str *out)
{
    for (int i = 0; i < bt_cli_verb_count; ++i) {
        if (bt_cli_verbs[i].summary) {
            bt_str_format(out, "%s%s", i ? " " : "", bt_cli_verbs[i].name);
        }
    }
}

// The options that the verb's help shows: "--profile --filter". With `valued` only those that take
// a value, separated by '|' for a shell's case statement.
static void append_options(const bt_cli_verb *verb, bool valued, bt_str *out)
{
    const size_t start = out->length_bytes;
    for (const bt_cli_option *row = verb->options; row && row->name; ++row) {
        if (row->meaning && (!valued || row->argument)) {
            bt_str_format(out, "%s--%s",
                          out->length_bytes == start ? ""
                          : valued                   ? "|"
                                                     : " ",
                          row->name);
            if (valued && row->letter) {
                bt_str_format(out, "|-%c", row->letter);
            }
        }
    }
}

static bool takes(const bt_cli_verb *verb, const char *word)
{
    return strstr(verb->usage, word) != NULL;
}

// Candidates for a word that is not an option: suites, names of runs, files.
static void append_case(const bt_cli_verb *verb, bt_str *out)
{
    bt_str_format(out, "    %s)\n        options='", verb->name);
    append_options(verb, false, out);
    bt_str_append(out, "'\n        valued='");
    append_options(verb, true, out);
    bt_str_append(out, "'\n        words='");
    bt_str_append(out, takes(verb, "SUITE") ? "suites " : "");
    bt_str_append(out, takes(verb, "RUN") ? "runs" : "");
    bt_str_append(out, "'\n        ;;\n");
}

static void append_function(bt_str *out)
{
    bt_str_append(out, "# bash and zsh completion of bt-bench, made by 'bt-bench completion'\n"
                       "_bt_bench() {\n"
                       "    local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]}\n"
                       "    local before=${COMP_WORDS[COMP_CWORD-1]} options='' valued='' words='' "
                       "found=''\n"
                       "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
                       "        COMPREPLY=($(compgen -W '");
    append_verbs(out);
    bt_str_append(out, "' -- \"$word\"))\n"
                       "        return\n"
                       "    fi\n"
                       "    case ${COMP_WORDS[1]} in\n");
    for (int i = 0; i < bt_cli_verb_count; ++i) {
        if (bt_cli_verbs[i].summary) {
            append_case(&bt_cli_verbs[i], out);
        }
    }
    bt_str_append(out,
                  "    esac\n"
                  "    case \"|$valued|\" in\n"
                  "    *\"|$before|\"*) ;; # a value: a file, or the user's own\n"
                  "    *)\n"
                  "        case $word in\n"
                  "        -*) found=$options ;;\n"
                  "        *)\n"
                  "            case $words in *suites*)\n"
                  "                found=$(COLUMNS= \"$program\" list suites 2>/dev/null |"
                  " awk '{print $1}') ;; esac\n"
                  "            case $words in *runs*) found=\"$found last $(\"$program\" list runs "
                  "--format json 2>/dev/null | grep -o '\"name\":\"[^\"]*' | cut -c 9-)\" ;; esac\n"
                  "            ;;\n"
                  "        esac\n"
                  "        ;;\n"
                  "    esac\n"
                  "    COMPREPLY=($(compgen -W \"$found\" -- \"$word\"))\n"
                  "    case $word in -*) ;; *) COMPREPLY+=($(compgen -f -- \"$word\")) ;; esac\n"
                  "}\n");
}

bt_status bt_verb_completion(bt_cli_call *call)
{
    const char *shell = call->arguments->words[0];
    const bool zsh = strcmp(shell, "zsh") == 0;
    BT_FAIL_IF(!zsh && strcmp(shell, "bash") != 0, BT_STATUS_INVALID_ARGUMENT,
               "bt-bench completion: unknown shell \"%s\"; expected bash or zsh", shell);
    bt_str_append(&call->out, zsh ? "autoload -U +X bashcompinit && bashcompinit\n" : "");
    append_function(&call->out);
    bt_str_append(&call->out, "complete -o filenames -F _bt_bench bt-bench ./bt-bench\n");
    return BT_OK;
}
