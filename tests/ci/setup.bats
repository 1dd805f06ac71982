# ci/setup.sh against a fake apt and dpkg: what it asks for, and what it says when it may not

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    tree=$(mktemp -d "${TMPDIR:-/tmp}/bt-setup.XXXXXX")
    mkdir -p "$tree/bin" "$tree/repo/ci/data"
    cp "$root/ci/setup.sh" "$tree/repo/ci/"
    calls=$tree/calls
    : >"$calls"
    # What setup.sh calls, and nothing else of this machine.
    for tool in sh env cat sed awk grep tr head tail sort find dirname mkdir wc mktemp rm sleep; do
        ln -s "$(command -v $tool)" "$tree/bin/$tool"
    done
    fake id 'echo ${FAKE_UID:-0}'
    fake sudo 'exit 1'
    fake cmake 'echo "cmake version ${FAKE_CMAKE:-3.25.1}"'
    fake npm 'mkdir -p node_modules && : >node_modules/.package-lock.json'
    for tool in ninja gcc pkg-config git g++; do
        fake $tool ''
    done
    # Everything is installed but what FAKE_MISSING names; apt-get install makes it so.
    fake dpkg-query 'for p in "$@"; do case $p in -*|*\{*) ;; *) case " $FAKE_MISSING " in
        *" $p "*) grep -qs "^install.* $p" '"$tree"'/apt && printf "installed:%s " $p ;;
        *) printf "installed:%s " $p ;; esac ;; esac; done'
    # A package of FAKE_MISSING needs two others.
    fake apt-get 'case "$*" in
        *--dry-run*) for p in $FAKE_MISSING; do printf "Inst %s\n" $p $p-common $p-data; done ;;
        *install*) echo "install $*" >>'"$tree"'/apt
            echo "Get:1 http://deb.example a"; echo "Unpacking a (1.0) ..."; sleep ${FAKE_SLEEP:-0} ;;
        esac; exit ${FAKE_APT:-0}'
    fake apt-cache 'case " $FAKE_UNKNOWN " in *" $2 "*) ;; *) echo "  Candidate: 1.0" ;; esac'
}

teardown() {
    rm -rf "$tree"
}

fake() { # name body
    printf '#!/bin/sh\n[ %s = id ] || echo "%s $*" >>%s\n%s\n' "$1" "$1" "$calls" "$2" >"$tree/bin/$1"
    chmod +x "$tree/bin/$1"
}

lacks() { # file pattern
    if grep -e "$2" "$1"; then
        return 1
    fi
}

setup_sh() {
    run env -i PATH="$tree/bin" FAKE_MISSING="$FAKE_MISSING" FAKE_UNKNOWN="$FAKE_UNKNOWN" \
        FAKE_UID="${FAKE_UID:-0}" FAKE_SLEEP="${FAKE_SLEEP:-0}" FAKE_APT="${FAKE_APT:-0}" FAKE_CMAKE="${FAKE_CMAKE:-3.25.1}" \
        sh "$tree/repo/ci/setup.sh" "$@"
    echo "$output"
    cat "$calls"
}

@test "nothing missing: says nothing and asks apt nothing" {
    setup_sh run
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    lacks "$calls" 'apt'
}

@test "as root the missing packages are installed, without recommendations" {
    FAKE_MISSING="libcjson-dev libzstd-dev" setup_sh run
    [ "$status" -eq 0 ]
    grep -q '^install .*--no-install-recommends libcjson-dev libzstd-dev$' "$tree/apt"
}

@test "what is being done is said, with the number that apt installs; its own lines are not" {
    FAKE_MISSING="libcjson-dev libzstd-dev" setup_sh run
    [ "$status" -eq 0 ]
    [[ "$output" == "setup: apt-get update"$'\n'"setup: installing 2 packages and what they need, 6 in all" ]]
    FAKE_APT=100 FAKE_MISSING="libsodium-dev" setup_sh run
    [ "$status" -eq 4 ]
    [[ "$output" == *"Unpacking a (1.0) ..."*"apt-get could not install: libsodium-dev"* ]]
}

@test "progress: a line every few seconds, on a terminal one line that is drawn anew" {
    FAKE_SLEEP=6 FAKE_MISSING="libcjson-dev libzstd-dev" setup_sh run
    [[ "$output" == *$'\n'"setup: unpacking 1 of 6 packages" ]]
    rm "$tree/apt"
    run script -qec "env PATH=$tree/bin FAKE_SLEEP=2 \
        FAKE_MISSING='libcjson-dev libzstd-dev' sh $tree/repo/ci/setup.sh run" /dev/null
    [[ "$output" == *$'\r'"setup: unpacking 1 of 6 packages "* ]]
    [ "$(wc -l <<<"$output")" -eq 2 ] # apt-get update, apt-get install
}

@test "--missing lists and installs nothing" {
    FAKE_MISSING="libcjson-dev" setup_sh --missing run
    [ "$status" -eq 0 ]
    [ "$output" = "libcjson-dev" ]
    lacks "$calls" 'apt-get'
}

@test "without root and sudo it prints the command and exits 4" {
    FAKE_UID=1000 FAKE_MISSING="libcjson-dev libsodium-dev" setup_sh run
    [ "$status" -eq 4 ]
    [[ "$output" == *"sudo apt-get install --no-install-recommends libcjson-dev libsodium-dev"* ]]
    lacks "$calls" 'apt-get'
}

@test "with sudo that asks no password it installs through sudo" {
    fake sudo 'shift; exec "$@"'
    fake true ''
    FAKE_UID=1000 FAKE_MISSING="libcjson-dev" setup_sh run
    [ "$status" -eq 0 ]
    grep -q '^sudo -n env .*install' "$calls"
}

@test "a system that is no Debian: what is needed by name, exit 4" {
    rm "$tree/bin/dpkg-query"
    fake pkg-config '[ "$2" != libsodium ]'
    setup_sh run
    [ "$status" -eq 4 ]
    [[ "$output" == *"neither Debian nor Ubuntu"* ]]
    [[ "$output" == *": libsodium-dev "* ]]
}

@test "no Debian, but everything there: fine" {
    rm "$tree/bin/dpkg-query"
    setup_sh run
    [ "$status" -eq 0 ]
}

@test "an apt that fails is an error with the names" {
    FAKE_APT=100 FAKE_MISSING="libcjson-dev" setup_sh run
    [ "$status" -eq 4 ]
    [[ "$output" == *"apt-get could not install: libcjson-dev"* ]]
}

@test "alternatives: the first that apt knows" {
    FAKE_MISSING="libclang-rt-dev libclang-common-14-dev" FAKE_UNKNOWN="libclang-rt-dev" setup_sh test
    grep -q ' libclang-common-14-dev' "$tree/apt"
    lacks "$tree/apt" ' libclang-rt-dev'
}

@test "an optional package that apt lacks is left out, once and for all" {
    FAKE_MISSING="python3-torch" FAKE_UNKNOWN="python3-torch" setup_sh test
    [[ "$output" == *"python3-torch is not available here"* ]]
    : >"$calls"
    FAKE_MISSING="python3-torch" FAKE_UNKNOWN="python3-torch" setup_sh --missing test
    [[ "$output" != *python3-torch* ]]
}

@test "npm packages are fetched when their lock file is new, not otherwise" {
    echo '{}' >"$tree/repo/ci/data/package-lock.json"
    setup_sh run
    [ "$status" -eq 0 ]
    grep -q '^npm ci --ignore-scripts' "$calls"
    : >"$calls"
    setup_sh run
    lacks "$calls" '^npm '
}

@test "an npm that fails is an error" {
    echo '{}' >"$tree/repo/ci/data/package-lock.json"
    fake npm 'exit 1'
    setup_sh run
    [ "$status" -eq 4 ]
    [[ "$output" == *"ci/data/package-lock.json"* ]]
}

@test "a CMake that is too old comes from pip" {
    fake python3 'case "$*" in "-m venv "*/.cache/cmake)
        mkdir -p "$3/bin" && printf "#!/bin/sh\necho pip \$* >>'"$calls"'\n" >"$3/bin/pip" && /bin/chmod +x "$3/bin/pip" ;; esac'
    FAKE_CMAKE=3.22.1 setup_sh run
    [ "$status" -eq 0 ]
    grep -q '^pip install --quiet cmake==' "$calls"
}

@test "an unknown argument is a usage error" {
    setup_sh everything
    [ "$status" -eq 2 ]
    [[ "$output" == *"usage:"* ]]
}
