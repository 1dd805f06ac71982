#!/bin/sh
# ci/setup.sh [--missing] [run|compiler|test] - installs what building and running (run), the
# compiler of fused kernels (compiler, which includes run; 185 MB) or testing (test, which includes
# both) needs on Debian 12 and 13, Ubuntu 22.04 and 24.04
#
#   Nothing missing: prints nothing, does not call apt, takes about 20 ms.
#   Otherwise: says on stderr what it does, on a terminal in one line that changes every second, else
#   in a line every 5 seconds. What apt, pip and npm print is shown only if they fail.
#   --missing: prints what is missing, one item a line, and installs nothing.
#   Not allowed to install, or not a Debian: prints exactly what is needed.
#   Exit 0 nothing is missing, 2 usage, 4 something is missing and could not be installed.
#
# Packages come from apt, the npm packages of ci/*/package-lock.json from `npm ci` (no scripts run),
# and if the distribution's CMake is older than 3.25, CMake from pip into .cache/cmake.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cmake_minimum=3.25
cmake_pip=3.31.6
unavailable_list=$root/.cache/setup-unavailable # optional packages that apt does not know here

# group  packages (a|b: the first that apt knows; ?: optional)  what proves it without dpkg:
# a command, a pkg-config module, or - (dpkg alone knows)
needs() {
    cat <<'TABLE'
run   ca-certificates           -
run   cmake                     command:cmake
run   ninja-build               command:ninja
run   gcc                       command:gcc
run   libc6-dev                 -
run   pkg-config|pkgconf        command:pkg-config
run   git                       command:git
run   libcjson-dev              module:libcjson
run   libsqlite3-dev            module:sqlite3
run   libpcre2-dev              module:libpcre2-8
run   libzstd-dev               module:libzstd
run   libxxhash-dev             module:libxxhash
run   libsodium-dev             module:libsodium
run   libarchive-dev            module:libarchive
run   libopenblas-openmp-dev    module:openblas
run   libcurl4-openssl-dev      module:libcurl
npm   npm                       command:npm
cuda  g++                       command:g++
compiler ?libmlir-19-dev        -
compiler ?llvm-19-dev           -
test  ccache                    command:ccache
test  clang                     command:clang
test  libomp-dev                -
test  libclang-rt-dev|libclang-common-14-dev -
test  clang-format-14|clang-format -
test  clang-tidy-14|clang-tidy  -
test  cppcheck                  command:cppcheck
test  shellcheck                command:shellcheck
test  bats                      command:bats
test  libcmocka-dev             module:cmocka
test  libopenmpi-dev            module:ompi-c
test  openmpi-bin               command:mpirun
test  jq                        command:jq
test  openssl                   command:openssl
test  patchelf                  command:patchelf
test  zstd                      command:zstd
test  sqlite3                   command:sqlite3
test  python3                   command:python3
test  python3-yaml              -
test  ?chromium                 command:chromium
test  ?python3-torch            -
TABLE
}

# Is version $1 at least $2?
at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

cmake_is_new_enough() {
    version=$("$1" --version 2>/dev/null | sed -n '1s/^cmake version //p')
    [ -n "$version" ] && at_least "$version" "$cmake_minimum"
}

find_nvcc() {
    command -v nvcc || { [ -x /usr/local/cuda/bin/nvcc ] && echo /usr/local/cuda/bin/nvcc; }
}

# The lock files whose packages are not installed.
missing_locks() {
    for lock in "$root"/ci/*/package-lock.json; do
        [ -e "$lock" ] || continue
        installed=$(dirname "$lock")/node_modules/.package-lock.json
        if [ ! -e "$installed" ] || [ -n "$(find "$lock" -newer "$installed")" ]; then
            echo "$lock"
        fi
    done
}

# Rows of the wanted groups: "packages proof".
wanted_rows() {
    groups=" run "
    [ "$group" = compiler ] && groups="$groups compiler "
    [ "$group" = test ] && groups="$groups compiler test "
    [ -n "$(find_nvcc)" ] && groups="$groups cuda "
    [ -n "$(missing_locks)" ] && groups="$groups npm "
    needs | while read -r row_group packages proof; do
        case $groups in *" $row_group "*) echo "$packages $proof" ;; esac
    done
}

is_proved() { # proof
    case $1 in
    command:*) command -v "${1#command:}" >/dev/null ;;
    module:*) ! $has_dpkg && pkg-config --exists "${1#module:}" 2>/dev/null ;;
    *) ! $has_dpkg ;; # nothing to check without dpkg: the build will tell
    esac
}

# Prints the rows' packages that are not there.
missing_packages() {
    rows=$(wanted_rows)
    installed=" "
    if $has_dpkg; then
        # shellcheck disable=SC2046 # a word is a package
        installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' \
            $(echo "$rows" | sed 's/ .*//; s/^?//' | tr '|' ' ') 2>/dev/null || true)"
    fi
    echo "$rows" | while read -r packages proof; do
        is_proved "$proof" && continue
        found=false
        for package in $(echo "${packages#\?}" | tr '|' ' '); do
            case $installed in *" installed:$package "*) found=true ;; esac
        done
        case $packages in
        \?*) grep -qsxF "$packages" "$unavailable_list" && found=true ;;
        esac
        $found || echo "$packages"
    done
}

missing_cmake() {
    if command -v cmake >/dev/null && ! cmake_is_new_enough cmake &&
        ! cmake_is_new_enough "$root/.cache/cmake/bin/cmake"; then
        echo "cmake>=$cmake_minimum"
    fi
}

missing_all() {
    missing_packages | sed 's/^?//; s/|.*//'
    missing_cmake
    missing_locks | sed "s|^$root/|npm packages of |"
}

# Runs a command as root; false when that is not possible.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

may_install() {
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null
}

# What apt is doing, counted in the log of the step: "unpacking 17 of 438 packages".
apt_progress() { # packages
    awk -v of="$1" '
    /^Get:/ { word = "downloading"; ++downloaded; count = downloaded }
    /^Unpacking / { word = "unpacking"; ++unpacked; count = unpacked }
    /^Setting up / { word = "configuring"; ++configured; count = configured }
    END { if (word != "") print word " " (count < of ? count : of) " of " of " packages" }' "$log"
}

# Says every few seconds how far a step is, until the step ends it.
report_progress() { # text packages
    pause=5
    [ ! -t 2 ] || pause=1
    waited=0
    while sleep $pause >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        waited=$((waited + pause))
        progress=
        [ "$2" = 0 ] || progress=$(apt_progress "$2")
        if [ -t 2 ]; then
            printf '\r%-78s' "setup: ${progress:-$1, $waited s}" >&2
        else
            echo "setup: ${progress:-$1, $waited s}" >&2
        fi
    done
}

# Runs a step. If it fails, prints its output: on a terminal the end of it.
step() { # text packages command...
    text=$1 count=$2
    shift 2
    if [ -t 2 ]; then
        printf '\r%-78s' "setup: $text" >&2
    else
        echo "setup: $text" >&2
    fi
    report_progress "$text" "$count" 3>&- 9>&- & # without the lock of bt-bench
    reporter=$!
    code=0
    "$@" >"$log" 2>&1 </dev/null || code=$?
    kill $reporter 2>/dev/null || :
    wait $reporter 2>/dev/null || :
    [ ! -t 2 ] || printf '\r%-78s\n' "setup: $text" >&2
    if [ $code != 0 ] && [ -t 2 ]; then
        tail -n 25 "$log" >&2
    elif [ $code != 0 ]; then
        cat "$log" >&2
    fi
    return $code
}

apt_get() {
    as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 \
        -o Acquire::Retries=3 "$@"
}

apt_knows() {
    apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'
}

# Chooses among alternatives; an optional package that apt does not know is noted and left out.
resolve_packages() {
    while read -r packages; do
        chosen=
        for package in $(echo "${packages#\?}" | tr '|' ' '); do
            if apt_knows "$package"; then
                chosen=$package
                break
            fi
        done
        case $packages in
        \?*)
            if [ -z "$chosen" ]; then
                mkdir -p "$root/.cache"
                echo "$packages" >>"$unavailable_list"
                echo "setup: ${packages#\?} is not available here; everything that needs it will be skipped" >&2
                continue
            fi
            ;;
        esac
        echo "${chosen:-${packages%%|*}}"
    done
}

explain_and_exit() { # reason
    packages=$(missing_packages | sed 's/^?//; s/|.*//' | tr '\n' ' ')
    {
        echo "setup: some packages that bt-bench needs are not installed, and $1."
        if [ -n "$packages" ] && $has_dpkg; then
            echo "An administrator can install it with"
            echo
            echo "    sudo apt-get install --no-install-recommends $packages"
        elif [ -n "$packages" ]; then
            echo "Needed (names as Debian has them): $packages"
        fi
        [ -z "$(missing_cmake)" ] || echo "CMake $cmake_minimum or newer is needed; found $(cmake --version | head -n 1)."
    } >&2
    exit 4
}

install_packages() {
    [ -n "$(missing_packages)" ] || return 0
    $has_dpkg || explain_and_exit "this is neither Debian nor Ubuntu, so setup cannot install it"
    may_install || explain_and_exit "this user may not install packages (neither root nor sudo without a password)"
    step "apt-get update" 0 apt_get update || echo "setup: apt-get update failed; continuing with the existing lists" >&2
    packages=$(missing_packages | resolve_packages)
    [ -n "$packages" ] || return 0
    # shellcheck disable=SC2086 # a word is a package
    count=$(apt_get install --no-install-recommends --dry-run $packages 2>/dev/null | grep -c '^Inst ' || :)
    # shellcheck disable=SC2086
    step "installing $(echo "$packages" | wc -l | tr -d ' ') packages and what they need, $count in all" \
        "$count" apt_get install --no-install-recommends $packages || {
        echo "setup: apt-get could not install: $(echo "$packages" | tr '\n' ' ')" >&2
        exit 4
    }
}

install_cmake() {
    [ -n "$(missing_cmake)" ] || return 0
    if ! python3 -m venv --help >/dev/null 2>&1 || ! python3 -c 'import ensurepip' 2>/dev/null; then
        if ! $has_dpkg || ! may_install; then
            explain_and_exit "CMake can only come from pip, which is missing too"
        fi
        step "installing python3-venv" 0 apt_get install --no-install-recommends python3-venv || exit 4
    fi
    python3 -m venv "$root/.cache/cmake"
    step "installing CMake $cmake_pip with pip" 0 \
        "$root/.cache/cmake/bin/pip" install --quiet "cmake==$cmake_pip" || exit 4
}

install_npm() {
    missing_locks | while read -r lock; do
        (cd "$(dirname "$lock")" && step "installing the npm packages of ${lock#"$root/"}" 0 \
            npm ci --ignore-scripts --no-audit --no-fund) || {
            echo "setup: npm could not fetch the packages of $lock (this needs a network once)" >&2
            exit 4
        }
    done
}

only_list=false
group=run
for argument in "$@"; do
    case $argument in
    --missing) only_list=true ;;
    run | compiler | test) group=$argument ;;
    *)
        echo "usage: ci/setup.sh [--missing] [run|compiler|test]" >&2
        exit 2
        ;;
    esac
done
has_dpkg=false
command -v dpkg-query >/dev/null && command -v apt-get >/dev/null && has_dpkg=true

if $only_list; then
    missing_all
    exit 0
fi
log=$(mktemp "${TMPDIR:-/tmp}/bt-setup.XXXXXX")
reporter=
trap 'rm -f "$log"; [ -z "$reporter" ] || kill "$reporter" 2>/dev/null || :' EXIT
trap 'exit 130' INT TERM
install_packages
install_cmake
install_npm
