#!/bin/sh
# ci/unbuilt.sh [VERB ...] - what ./bt-bench prints before it is built: help, version, suites, and
# what is missing on the machine; installs and builds nothing
#
# The help is read from the table of verbs itself, harness/cli/verbs.c.
# Exit: 0; 2 for another verb; 4 if doctor finds that something is missing.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)

# The table's rows: name, usage, summary and details, a row a line, parted by tabs; \n stays \n.
verbs() {
    awk -v RS='\001' '{
        text = substr($0, index($0, "bt_cli_verbs[] = {") + 18)
        field = 1; row[1] = row[2] = row[3] = row[4] = ""; depth = 0
        for (at = 1; at <= length(text); ++at) {
            c = substr(text, at, 1)
            if (quoted) {
                if (c == "\\") { ++at; e = substr(text, at, 1); c = e == "n" ? "\\n" : e }
                else if (c == "\"") { quoted = 0; continue }
                if (field <= 4) row[field] = row[field] c
            } else if (c == "\"") quoted = 1
            else if (c == "{") { ++depth; field = 1; row[1] = row[2] = row[3] = row[4] = "" }
            else if (c == ",") ++field
            else if (c == "}") {
                if (--depth < 0) exit
                if (row[3] != "") print row[1] "\t" row[2] "\t" row[3] "\t" row[4]
            }
        }
    }' "$root/harness/cli/verbs.c"
}

overview() {
    printf 'bt-bench: train with BluTrain, measure it, look at the result\n\n'
    printf 'usage: bt-bench VERB [options]\n\n'
    verbs | awk -F '\t' '{ printf "  %-11s %s\n", $1, $3 }'
    printf '\n  '\''bt-bench VERB --help'\'' describes a verb, '\''bt-bench --version'\'' the build.\n'
    printf '  To begin: bt-bench run suites/gpt2_124m\n'
}

verb_help() { # verb
    verbs | awk -F '\t' -v verb="$1" '$1 == verb {
        found = 1
        printf "usage: bt-bench %s%s\n\n%s\n", $1, $2 == "" ? "" : " " $2, $3
        if ($4 != "") { gsub(/\\n/, "\n", $4); printf "\n%s\n", $4 }
        printf "\nIts options are shown after the program is built; the first run builds it.\n"
    } END { exit !found }' || overview
}

version() {
    number=$(sed -n 's/.*VERSION \([0-9.]*\).*LANGUAGES.*/\1/p' "$root/CMakeLists.txt")
    printf 'bt-bench %s, not built yet\n' "${number:-}"
    revision=$(git -C "$root" rev-parse HEAD 2>/dev/null) || return 0
    printf 'revision   %s\n' "$revision"
}

suites() {
    grep -lE '^  "(profiles|include)":' "$root"/suites/*/*.json | while read -r file; do
        name=${file#"$root"/}
        name=${name%/suite.json}
        printf '%-30s  %s\n' "${name%.json}" \
            "$(sed -n 's/^ *"description": "\(.*\)",$/\1/p' "$file" | head -n 1)"
    done | sort
}

doctor() {
    missing=$("$root/ci/setup.sh" --missing run)
    nvcc=$(command -v nvcc || { [ -x /usr/local/cuda/bin/nvcc ] && echo /usr/local/cuda/bin/nvcc; } || :)
    gpu=$(nvidia-smi -L 2>/dev/null | head -n 1) || :
    printf 'program    not built yet: any run builds it\n'
    printf 'packages   %s\n' "$([ -z "$missing" ] && echo "all installed" || echo "missing: $(echo "$missing" | tr '\n' ' ')")"
    printf 'nvcc       %s\n' "${nvcc:-not found: the CUDA backend will not be built}"
    printf 'GPU        %s\n' "${gpu:-not found}"
    [ -n "$missing" ] || return 0
    printf '\nci/setup.sh run installs what is missing\n'
    exit 4
}

case ${1:-} in
--version | version) version ;;
doctor) doctor ;;
list)
    case ${2:-suites} in
    suites) suites ;;
    runs) echo 'no runs: nothing is built yet' ;;
    *) verb_help list ;;
    esac
    ;;
'' | -h | --help) overview ;;
help) if [ $# -gt 1 ]; then verb_help "$2"; else overview; fi ;;
*)
    case " $* " in
    *' --help '* | *' -h '*) verb_help "$1" ;;
    *) exit 2 ;;
    esac
    ;;
esac
