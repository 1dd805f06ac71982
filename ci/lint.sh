#!/usr/bin/env bash
# ci/lint.sh [CHECK...] - static checks of the tree, must have no findings
#
#   format    clang-format 14 on C and CUDA      shell     shellcheck on scripts
#   layers    ci/layers.sh                       tidy      clang-tidy, see .clang-tidy
#   files     length, READMEs, unfinished words  cppcheck  see ci/cppcheck.txt
#   environment  variables are read through framework/base/environment.inl only
#
# No CHECK: all. tidy and cppcheck read build-clang/compile_commands.json and the headers that are
# generated there (`cmake --preset clang && cmake --build build-clang --target generated`), and do
# not check a file again whose content, headers, flags and checks are unchanged. They remember it in
# ${XDG_CACHE_HOME:-~/.cache}/blutrain: tidy for all clones, cppcheck for each folder.
# format and tidy need clang 14, cppcheck 2.10 (Debian 12's): other versions format and report
# differently, so with them the check is skipped with a message.
# Exit 0 clean, 1 findings (printed), 2 usage.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
jobs=$(nproc)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/blutrain

# Files of ours, committed or about to be: pattern...
ours() {
    git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
        [ -e "$file" ] && echo "$file"
    done || true
}

# Prints the command for a tool of that version; without one the check is skipped.
pinned() { # tool version
    if command -v "$1-$2"; then
        return
    elif "$1" --version 2>/dev/null | grep -qE "(version |Cppcheck )$2(\.|\$)"; then
        echo "$1"
    else
        echo "expected $1 $2, found $("$1" --version 2>&1 | grep -oE '[0-9]+\.[0-9.]+' | head -n 1)" >&2
        return 77
    fi
}

check_format() {
    local clang_format said
    clang_format=$(pinned clang-format 14) || return
    # Many files at once: to start the program takes longer than a file.
    said=$(ours '*.c' '*.h' '*.inl' '*.cu' '*.cuh' |
        xargs -r -P "$jobs" -n 50 "$clang_format" --dry-run -Werror 2>&1) && return
    grep -oE '^[^:]+:[0-9]+:[0-9]+: error: code should be' <<<"$said" | cut -d : -f 1 | sort -u |
        sed 's/.*/&: not formatted; clang-format -i &/' | grep . || echo "$said"
    return 1
}

check_layers() {
    ci/layers.sh
}

check_shell() {
    { ours '*.sh' '*.bash' && echo bt-bench && echo .ci/run; } | xargs shellcheck
}

# A README is a page. The root's is an overview of everything, the harness's has a glossary.
# Exempt: logs of measurements (lab/), published reports (reports/NAME/).
check_readmes() {
    local found=0 file words most
    while read -r file; do
        case $file in
        */lab/* | reports/*/*) continue ;;
        README.md) most=1500 ;;
        harness/README.md) most=900 ;;
        *) most=700 ;;
        esac
        words=$(wc -w <"$file")
        if [ "$words" -gt "$most" ]; then
            echo "$file: $words words, at most $most: move detail into header comments or files beside it"
            found=1
        fi
    done < <(ours '*README.md')
    return "$found"
}

# Rules of STYLE.md about files that a script can check.
check_files() {
    local found=0 file
    if ours '*.c' '*.h' '*.cu' '*.cuh' '*.sh' '*.bash' '*.js' '*.bats' | xargs wc -l |
        awk '$1 > 800 && $2 != "total" { print $2 ": over 800 lines" }' | grep .; then
        found=1
    fi
    while read -r file; do
        if [ ! -e "$file/README.md" ]; then
            echo "$file: has no README.md"
            found=1
        fi
    done < <(ours 'framework/*/*' 'kernels/*/*' 'harness/*/*' 'ci/*/*' | xargs dirname |
        grep -E '^(framework|kernels|harness)/[a-z0-9]+$|^ci/(data|web)$' | sort -u)
    check_readmes || found=1
    if ours '*.c' '*.h' '*.cu' '*.cuh' | xargs grep -HnE '\b(TODO|FIXME|XXX)\b' /dev/null; then
        found=1
    fi
    # Code without waits may not be launched early: overlap.h decides, of generated code its emitter.
    if ours 'kernels/*' | grep -vE '^kernels/cuda/(overlap\.h|generated\.cu)$' |
        xargs grep -HnE 'programmaticStreamSerializationAllowed|AttributeProgrammaticEvent' /dev/null; then
        echo "use bt_cuda_overlap of kernels/cuda/overlap.h"
        found=1
    fi
    # A NaN passes `if (error > tolerance) fail`.
    if ours 'tests/*.c' | xargs grep -HnE 'if *\( *[a-z_]*(diff|err|error)[a-z_]* *> ' /dev/null; then
        found=1
    fi
    return "$found"
}

# A switch read from the environment changes what a kernel computes without a trace in the record.
# Only framework/base/environment.c reads variables; a BT_ variable of a script has a row there too.
# Measuring programs (lab folders) are never linked into a product. A peer (harness/peers) is a
# program of its own, whose README names its variables.
check_environment() {
    local found=0 table=framework/base/environment.inl file name
    if ours 'kernels/*' 'framework/*' 'harness/*' | grep -vE "^framework/base/environment\.[ch]$|^harness/peers/|\.md$" |
        xargs grep -HnIwE '(secure_|__secure_)?getenv|_?_?environ' /dev/null; then
        echo "read it through bt_environment, with a row in $table"
        found=1
    fi
    while IFS=: read -r file name; do
        if ! grep -q "\"${name#"${name%%BT_*}"}\"" "$table" 2>/dev/null; then
            echo "$file: ${name#"${name%%BT_*}"} has no row in $table"
            found=1
        fi
    done < <({ ours '*.sh' '*.bash' '.ci/run' && ours bt-bench; } | grep -v '^tests/' | sort -u |
        xargs grep -HoE '\$\{?BT_[A-Z_]+|export BT_[A-Z_]+' /dev/null | sort -u)
    if ours '*CMakeLists.txt' | xargs grep -HnE '^[^#]*(add_library|target_sources).*/lab/' /dev/null; then
        echo "a laboratory is linked into the product"
        found=1
    fi
    return "$found"
}

need_compile_commands() {
    [ -e build-clang/compile_commands.json ] || {
        echo "build-clang/compile_commands.json is missing: cmake --preset clang" >&2
        return 1
    }
}

# Lists each file that is compiled with the key under which it is remembered when it is clean. The
# key is a hash of all that findings depend on, which is not where the clone lies: the tool, the
# checks, the command, and the content of the file and of its headers.
tidy_keys() { # scratch folder
    mkdir "$1/keys" &&
        { "$clang_tidy" --version && cat .clang-tidy tests/.clang-tidy; } | sha256sum >"$1/settings" ||
        return
    jq -r '.[] | .file + "\t" + .command' build-clang/compile_commands.json |
        sed "s|$root/||g" | grep -v '^build' >"$1/commands" || return
    # Rules as make has them, a line each: object, file, its headers.
    "$scan_deps" --compilation-database=build-clang/compile_commands.json -j "$jobs" |
        sed -z 's/ \\\n */ /g' | sed "s|${root// /\\\\ }/||g" >"$1/rules" || return
    cut -d ' ' -f 2- "$1/rules" | tr ' ' '\n' | sort -u | grep . | xargs sha256sum >"$1/contents" ||
        return
    awk -v folder="$1" '
        FILENAME ~ /settings$/ { settings = $0 }
        FILENAME ~ /commands$/ { split($0, part, "\t"); if (!(part[1] in command)) command[part[1]] = part[2] }
        FILENAME ~ /contents$/ { content[$2] = $1 }
        FILENAME ~ /rules$/ && $2 in command && !($2 in seen) {
            seen[$2] = 1
            to = sprintf("%s/keys/%05d", folder, ++count)
            print settings, command[$2] >to
            for (i = 2; i <= NF; ++i) print $i, content[$i] >to
            close(to)
            print $2
        }' "$1/settings" "$1/commands" "$1/contents" "$1/rules" >"$1/files" || return
    if [ "$(wc -l <"$1/files")" -ne "$(cut -f 1 "$1/commands" | sort -u | wc -l)" ]; then
        echo "clang-scan-deps does not list the headers of every file" >&2
        return 1
    fi
    paste "$1/files" <(cd "$1/keys" && sha256sum ./* | cut -d ' ' -f 1)
}

tidy_one() { # file key
    # "N warnings generated" also counts suppressed warnings.
    "$clang_tidy" --quiet -p build-clang "$1" 2> >(grep -vE 'warnings? generated' >&2) &&
        : >"$cache/tidy/$2"
}

check_tidy() {
    local clang_tidy scan_deps file key
    clang_tidy=$(pinned clang-tidy 14) && scan_deps=$(pinned clang-scan-deps 14) || return
    need_compile_commands || return 1
    mkdir -p "$cache/tidy"
    find "$cache/tidy" -type f -mtime +30 -delete
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    tidy_keys "$scratch" >"$scratch/list" || return 1
    export -f tidy_one
    export cache clang_tidy
    # shellcheck disable=SC2016 # the inner shell's
    while read -r file key; do
        [ -e "$cache/tidy/$key" ] || echo "$file $key"
    done <"$scratch/list" | xargs -r -P "$jobs" -L 1 bash -c 'tidy_one "$0" "$1"'
}

check_cppcheck() {
    pinned cppcheck 2.10 >/dev/null || return
    need_compile_commands || return 1
    local known
    known=$cache/cppcheck/$({ echo "$root" && cat ci/lint.sh ci/cppcheck.txt; } | sha256sum | cut -c 1-16)
    mkdir -p "$known"
    find "$cache/cppcheck" -type f -mtime +30 -delete
    cppcheck --quiet -j "$jobs" --project=build-clang/compile_commands.json \
        --cppcheck-build-dir="$known" --std=c17 \
        --enable=warning,performance,portability --inline-suppr --suppressions-list=ci/cppcheck.txt \
        --template='{file}:{line}: {severity}: {message} [{id}]' --error-exitcode=1
}

all=(format layers files shell environment tidy cppcheck)
[ $# -gt 0 ] || set -- "${all[@]}"
status=0
for check in "$@"; do
    case " ${all[*]} " in
    *" $check "*) ;;
    *)
        echo "usage: ci/lint.sh [${all[*]}]" >&2
        exit 2
        ;;
    esac
    code=0
    "check_$check" || code=$?
    case $code in
    0) echo "lint $check: clean" ;;
    77) echo "lint $check: skipped, see above" ;;
    *)
        echo "lint $check: findings, see above"
        status=1
        ;;
    esac
done
exit $status
