#!/bin/sh
# ci/unbuilt.sh [VERB ...] - what ./bt-bench prints before it is built: help, version, suites, cases,
# schemas, and what is missing on the machine; installs and builds nothing
#
# The help is read from the table of verbs itself, harness/cli/verbs.c; suites and cases from the files
# of suites/. Output fits the terminal (or COLUMNS), as that of the program does (harness/text/wrap.c).
# Exit: 0; 2 for another verb or no such suite; 4 if doctor finds that something is missing, or if only
# the program can answer.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)

# Columns of the terminal, 80 if it does not tell; 0, any number, if the output goes elsewhere.
case ${COLUMNS:-} in
'' | *[!0-9]* | 0*)
    width=0
    [ ! -t 1 ] || { width=$(stty size <&3 2>/dev/null | cut -d ' ' -f 2); } 3>&1
    [ ! -t 1 ] || [ "${width:-0}" -gt 0 ] || width=80
    ;;
*) width=$COLUMNS ;;
esac
help_width=$((width < 100 ? width : 100)) # longer lines are hard to read

# Breaks lines at words. A line continues below the text of its label, as in "note    TEXT" and
# "run: TEXT", or after LABEL columns, if that is given.
fit() { # width [label]
    awk -v width="$1" -v label="${2:-0}" '
    function text_at(line, margin, gap) {
        if (label > 0) return label
        match(line, /^ */)
        margin = RLENGTH
        gap = index(substr(line, margin + 1), "  ")
        if (gap > 0 && margin + gap - 1 < int(width / 2)) {
            match(substr(line, margin + gap), /^ */)
            return margin + gap - 1 + RLENGTH
        }
        gap = index(substr(line, margin + 1), ": ")
        return gap > 0 && margin + gap - 1 < 16 ? margin + gap + 1 : margin
    }
    width == 0 || length($0) <= width { print; next }
    {
        margin = text_at($0)
        head = substr($0, 1, margin)
        for (rest = substr($0, margin + 1); rest != ""; sub(/^ */, "", rest)) {
            taken = length(rest)
            if (taken > width - margin) {
                for (taken = width - margin; taken > 0 && substr(rest, taken + 1, 1) != " "; --taken);
                if (taken <= 0) taken = index(rest " ", " ") - 1
            }
            print head substr(rest, 1, taken)
            rest = substr(rest, taken + 1)
            head = sprintf("%" margin "s", "")
        }
    }'
}

# The table's rows: name, usage, summary and details, a row a line, parted by tabs; \n stays \n.
verbs() {
    awk -v RS='\001' '{
        words = substr($0, index($0, "#define RUN_WORDS") + 17) # of several verbs
        words = substr(words, 1, match(words, /"[ ]*\n/))
        parts = split(substr($0, index($0, "bt_cli_verbs[] = {") + 18), part, "RUN_WORDS")
        text = part[1]
        for (p = 2; p <= parts; ++p) text = text words part[p]
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
    fit "$help_width" <<'TEXT'
bt-bench: train with BluTrain, measure it, look at the result

usage: bt-bench VERB [options]

TEXT
    verbs | awk -F '\t' '{ printf "  %-11s %s\n", $1, $3 }' | fit "$help_width" 14
    fit "$help_width" <<'TEXT'

  'bt-bench VERB --help' describes a verb, 'bt-bench --version' the build.
  To begin: bt-bench run suites/gpt2_124m
TEXT
}

# For a terminal, joins the lines of a sentence, as harness/cli/help.c does.
verb_help() { # verb
    found=$(verbs | awk -F '\t' -v verb="$1" -v width="$width" '
    function begins_item(line, gap) {
        gap = index(line, "  ")
        return line ~ /^  [^ ]/ || line ~ /^Exit code/ || gap > 1 && gap <= 12
    }
    function print_sentences(text, lines, count, i, ends) {
        count = split(text, lines, "\n")
        for (i = 1; i <= count; ++i) {
            ends = width == 0 || lines[i] == "" || lines[i] ~ /\.$/ || i == count || begins_item(lines[i + 1])
            printf "%s%s", lines[i], ends ? "\n" : " "
            if (!ends) sub(/^ */, "", lines[i + 1])
        }
    }
    $1 == verb {
        printf "usage: bt-bench %s%s\n\n%s\n", $1, $2 == "" ? "" : " " $2, $3
        if ($4 != "") { gsub(/\\n/, "\n", $4); print ""; print_sentences($4) }
        printf "\nIts options are shown after the program is built; the first run builds it.\n"
    }')
    if [ -n "$found" ]; then printf '%s\n' "$found" | fit "$help_width"; else overview; fi
}

version() {
    number=$(sed -n 's/.*VERSION \([0-9.]*\).*LANGUAGES.*/\1/p' "$root/CMakeLists.txt")
    printf 'bt-bench %s, not built yet\n' "${number:-}"
    revision=$(git -C "$root" rev-parse HEAD 2>/dev/null) || return 0
    printf 'revision   %s\n' "$revision"
}

# Prints lines of words parted by tabs as aligned columns.
columns() {
    awk -F '\t' '{
        for (c = 1; c <= NF; ++c) {
            cell[NR, c] = $c
            if (length($c) > width[c]) width[c] = length($c)
        }
        cells[NR] = NF
    } END {
        for (r = 1; r <= NR; ++r) {
            line = ""
            for (c = 1; c < cells[r]; ++c) line = line sprintf("%-" width[c] "s  ", cell[r, c])
            print line cell[r, cells[r]]
        }
    }'
}

suites() {
    found=$(grep -lE '^  "(profiles|include)":' "$root"/suites/*/*.json | while read -r file; do
        name=${file#"$root"/}
        name=${name%/suite.json}
        printf '%s\t%s\n' "${name%.json}" \
            "$(sed -n 's/^ *"description": "\(.*\)",$/\1/p' "$file" | head -n 1)"
    done | sort)
    label=$(echo "$found" | awk -F '\t' 'length($1) > most { most = length($1) } END { print most + 2 }')
    echo "$found" | columns | fit "$width" "$label"
}

# The file of a suite, given as a file, a folder, or a name under suites/; nothing if there is none.
suite_file() { # suite
    for folder in "$1" "$root/$1" "$root/suites/$1"; do
        for file in "$folder" "$folder.json" "$folder/suite.json"; do
            [ ! -f "$file" ] || { echo "$file" && return 0; }
        done
    done
}

# Every value of a JSON file that is a text or a number, a line each: keys and indexes to it, a tab,
# the value.
values() { # file
    awk -v RS='\001' '
    function path(depth,   d, to) {
        to = key[1]
        for (d = 2; d <= depth; ++d) to = to "/" key[d]
        return to
    } {
        for (at = 1; at <= length($0); ++at) {
            c = substr($0, at, 1)
            if (c == "{" || c == "[") { kind[++depth] = c; key[depth] = c == "[" ? 0 : "" }
            else if (c == "}" || c == "]") --depth
            else if (c == "," && kind[depth] == "[") ++key[depth]
            else if (c == "\"") {
                text = ""
                while ((c = substr($0, ++at, 1)) != "\"" && c != "") {
                    if (c == "\\") c = substr($0, ++at, 1)
                    text = text c
                }
                rest = substr($0, at + 1)
                if (kind[depth] == "{" && match(rest, /^[ \t\r\n]*:/)) key[depth] = text
                else print path(depth) "\t" text
            }
            else if (match(substr($0, at), /^-?[0-9][-+.0-9eE]*/)) {
                print path(depth) "\t" substr($0, at, RLENGTH)
                at += RLENGTH - 1
            }
        }
    }' "$1"
}

# The cases of a suite file and of those that it includes: profile, device, case, kind, and the mesh of
# several ranks; separated by tabs. Includes may be four deep, as in the program.
suite_cases() { # file depth
    [ "$2" -le 4 ] || {
        echo "$1: includes are more than 4 deep" >&2
        return 2
    }
    values "$1" | awk -F '\t' '{
        parts = split($1, part, "/")
        if (parts == 3 && $1 ~ /^train\/mesh\//) degree[part[3]] = $2
        if (part[1] != "profiles") next
        if (parts == 5 && part[3] == "train" && part[4] == "mesh") degree[part[2], part[5]] = $2
        if (parts == 7 && part[5] == "train" && part[6] == "mesh") {
            degree[part[2], part[4], part[7]] = $2
        }
        if (parts == 3 && part[3] == "device") device[part[2]] = $2
        if (parts == 5 && part[3] == "cases" && (part[5] == "name" || part[5] == "kind")) {
            row = part[2] "\t" part[4]
            if (!(row in seen)) { seen[row] = 1; rows[++count] = row }
            value[row, part[5]] = $2
        }
    } END {
        for (r = 1; r <= count; ++r) {
            split(rows[r], part, "\t")
            kind = value[rows[r], "kind"]
            mesh = ""
            for (i = split("data tensor context", word, " "); i >= 1 && kind == "train"; --i) {
                of = degree[word[i]]
                if ((part[1], word[i]) in degree) of = degree[part[1], word[i]]
                if ((part[1], part[2], word[i]) in degree) of = degree[part[1], part[2], word[i]]
                if (of > 1) mesh = word[i] " " of (mesh ? " x " mesh : "")
            }
            print part[1] "\t" device[part[1]] "\t" value[rows[r], "name"] "\t" kind \
                (mesh ? "\t" mesh : "")
        }
    }'
    values "$1" | sed -n 's|^include\(/[0-9]*\)\{0,1\}\t||p' | while read -r included; do
        file=$(suite_file "$(dirname "$1")/$included")
        [ -n "$file" ] || file=$(suite_file "$included")
        [ -n "$file" ] || {
            echo "$1: the included suite $included does not exist" >&2
            exit 2
        }
        suite_cases "$file" $(($2 + 1)) || exit 2
    done
}

# As the program lists them: grouped by profile, in the order in which profiles first occur.
cases() { # suite
    file=$(suite_file "$1")
    [ -n "$file" ] || {
        printf "%s: no such suite file or folder\n'bt-bench list suites' lists the suites\n" "$1" >&2
        exit 2
    }
    listed=$(suite_cases "$file" 0) || exit 2
    {
        printf 'profile\tdevice\tcase\tkind%s\n' "$(printf '%s\n' "$listed" |
            awk -F '\t' 'NF > 4 { printf "\tmesh"; exit }')"
        printf '%s\n' "$listed" | awk -F '\t' '{
            if (!($1 in lines)) profile[++count] = $1
            lines[$1] = lines[$1] $0 "\n"
        } END { for (p = 1; p <= count; ++p) printf "%s", lines[profile[p]] }'
    } | columns
}

needs_program() { # words
    echo "bt-bench $*: only the program can answer, and it is not built yet; any run builds it," \
        "for example ./bt-bench run suites/gpt2_124m --dry-run" >&2
    exit 4
}

doctor() {
    missing=$("$root/ci/setup.sh" --missing run)
    nvcc=$(command -v nvcc || { [ -x /usr/local/cuda/bin/nvcc ] && echo /usr/local/cuda/bin/nvcc; } || :)
    gpu=$(nvidia-smi -L 2>/dev/null | head -n 1) || :
    {
        printf 'program    not built yet: any run builds it\n'
        printf 'packages   %s\n' "$([ -z "$missing" ] && echo "all installed" || echo "missing: $(echo "$missing" | paste -sd, | sed 's/,/, /g')")"
        printf 'nvcc       %s\n' "${nvcc:-not found: the CUDA backend will not be built}"
        printf 'GPU        %s\n' "${gpu:-not found}"
        [ -z "$missing" ] || printf '\nci/setup.sh run installs what is missing\n'
    } | fit "$width"
    [ -n "$missing" ] || return 0
    exit 4
}

case ${1:-} in
--version | version) version ;;
doctor) doctor ;;
list)
    case "$*" in
    *' --help'* | *' -h'*) verb_help list ;;
    list | 'list suites') suites ;;
    'list cases')
        echo 'bt-bench list cases: SUITE is missing' >&2
        verbs | awk -F '\t' '$1 == "list" { print "usage: bt-bench list " $2 }' >&2
        exit 2
        ;;
    'list cases '[!-]*)
        [ $# = 3 ] || needs_program "$@"
        cases "$3"
        ;;
    'list runs') echo 'no runs: nothing is built yet' ;;
    'list schema' | 'list schema suite') cat "$root/suites/schema/suite.schema.json" ;;
    'list schema policy') cat "$root/suites/schema/policy.schema.json" ;;
    *) needs_program "$@" ;;
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
