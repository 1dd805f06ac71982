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
# not check a file again whose content, headers, flags and checks are unchanged; tidy keeps
# this cache in ${XDG_CACHE_HOME:-~/.cache}/blutrain, for all clones.
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

format_one() { # file
    "$clang_format" --dry-run -Werror "$1" 2>/dev/null || {
        echo "$1: not formatted; clang-format -i $1"
        return 1
    }
}

check_format() {
    clang_format=$(pinned clang-format 14) || return
    export clang_format
    export -f format_one
    ours '*.c' '*.h' '*.inl' '*.cu' '*.cuh' | xargs -r -P "$jobs" -I {} bash -c 'format_one {}'
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
    while read -r file; do
        if [ "$(wc -l <"$file")" -gt 800 ]; then
            echo "$file: over 800 lines"
            found=1
        fi
    done < <(ours '*.c' '*.h' '*.cu' '*.cuh' '*.sh' '*.bash' '*.js' '*.bats')
    while read -r file; do
        if [ ! -e "$file/README.md" ]; then
            echo "$file: has no README.md"
            found=1
        fi
    done < <(ours 'framework/*/*' 'kernels/*/*' 'harness/*/*' 'ci/*/*' | xargs -n 1 dirname |
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

# The key under which a clean file is remembered: all that its findings depend on, which is not
# where the clone lies.
tidy_key() { # file, compile command
    {
        "$clang_tidy" --version
        cat .clang-tidy tests/.clang-tidy
        echo "$2"
        cd build-clang && eval "$2"
    } | sed "s|$root/||g" | sha256sum | cut -d ' ' -f 1
}

tidy_one() { # file
    set -euo pipefail
    local key command
    command=$(jq -r --arg file "$root/$1" '[.[] | select(.file == $file) | .command][0]' \
        build-clang/compile_commands.json | sed -E 's/ -o [^ ]+ -c / -E -C /; s/^[^ ]*ccache //')
    key=$(tidy_key "$1" "$command")
    [ ! -e "$cache/tidy/$key" ] || return 0
    # "N warnings generated" also counts suppressed warnings.
    "$clang_tidy" --quiet -p build-clang "$1" 2> >(grep -vE 'warnings? generated' >&2)
    : >"$cache/tidy/$key"
}

check_tidy() {
    clang_tidy=$(pinned clang-tidy 14) || return
    need_compile_commands || return 1
    mkdir -p "$cache/tidy"
    find "$cache/tidy" -type f -mtime +30 -delete
    export -f tidy_one tidy_key
    export root cache clang_tidy
    jq -r '.[].file' build-clang/compile_commands.json | sed "s|^$root/||" | grep -v '^build' |
        sort -u | xargs -r -P "$jobs" -I {} bash -c 'tidy_one {}'
}

check_cppcheck() {
    pinned cppcheck 2.10 >/dev/null || return
    need_compile_commands || return 1
    mkdir -p build-clang/cppcheck
    cppcheck --quiet -j "$jobs" --project=build-clang/compile_commands.json \
        --cppcheck-build-dir=build-clang/cppcheck --std=c17 \
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
