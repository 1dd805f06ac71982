#!/usr/bin/env bash
# ci/fresh.sh [run|test|shell] [-k] [-s SUITE] [-d FOLDER] - tests the README's two commands in a
# fresh Debian root made by debootstrap, from a clone of the committed state
#
#   run    ./bt-bench run suites/gpt2_124m, 3 steps, twice: the second start must be quick
#   test   ci/test.sh
#   shell  a shell in the fresh root instead
#   (none) run, then test in the same root
#   -k  keep the root afterwards   -s  suite, default bookworm; Ubuntu's too   -d  the root's folder
#
# Needs root, debootstrap, a Debian mirror and 6 GB of disk under /var/tmp. Nothing outside the
# root's folder changes: mounts are in a separate mount namespace. This machine's CA
# certificates and proxy settings are copied, for networks that need them; ../shared, if it
# exists, is mounted read-only beside the clone.
# Exit 0 both work, 1 one does not, 2 usage, 4 this machine cannot do it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
debian=bookworm
keep=false
folder=
what=

usage() {
    echo "usage: ci/fresh.sh [run|test|shell] [-k] [-s SUITE] [-d FOLDER]" >&2
    exit 2
}

parse() {
    while [ $# -gt 0 ]; do
        case $1 in
        run | test | shell) what=$1 ;;
        -k) keep=true ;;
        -s | -d)
            [ $# -ge 2 ] || usage
            if [ "$1" = -s ]; then debian=$2; else folder=$2; fi
            shift
            ;;
        *) usage ;;
        esac
        shift
    done
}

check_machine() {
    if [ "$(id -u)" != 0 ]; then
        echo "fresh: creating a Debian root needs root privileges" >&2
        exit 4
    fi
    command -v debootstrap >/dev/null || {
        echo "fresh: debootstrap is missing: apt-get install debootstrap" >&2
        exit 4
    }
}

# Runs a step quietly; its output when it fails.
step() { # text command...
    local text=$1 begin=$SECONDS log
    shift
    log=$(mktemp)
    printf '%-60s' "$text"
    if "$@" >"$log" 2>&1; then
        printf '%5d s\n' $((SECONDS - begin))
        rm -f "$log"
    else
        printf 'FAILED\n'
        tail -n 40 "$log"
        rm -f "$log"
        return 1
    fi
}

clean_up() {
    for mount in home/shared sys dev proc; do
        if mountpoint -q "$folder/$mount"; then umount --recursive --lazy "$folder/$mount"; fi
    done
    if $keep; then
        echo "kept: $folder"
    else
        rm -rf --one-file-system "$folder"
    fi
}

make_root() {
    local newer=()
    # A suite younger than this debootstrap is taken for an Ubuntu, whose scripts are all the same.
    [ -e "/usr/share/debootstrap/scripts/$debian" ] ||
        newer=(http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/gutsy)
    debootstrap --variant=minbase "$debian" "$folder" "${newer[@]}"
}

# What any container of such a machine would have: DNS, /proc, /dev, trusted certificates.
furnish_root() {
    cp -L /etc/resolv.conf /etc/hosts "$folder/etc/"
    mount -t proc proc "$folder/proc"
    mount --rbind /dev "$folder/dev"
    mount --rbind /sys "$folder/sys"
    mount --make-rslave "$folder/dev" && mount --make-rslave "$folder/sys"
    # Ubuntu keeps in `universe` what Debian has in `main`.
    if grep -q ubuntu "$folder/etc/apt/sources.list"; then
        sed -i 's/ main$/ main universe/' "$folder/etc/apt/sources.list"
    fi
    # Packages other than git, to clone with, and the certificates are the scripts' to install.
    in_root apt-get -q update
    in_root apt-get -q -y install --no-install-recommends ca-certificates git
    if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
        cp /usr/local/share/ca-certificates/*.crt "$folder/usr/local/share/ca-certificates/"
        in_root update-ca-certificates
    fi
    # --no-local: a real clone, without links into this repository's objects.
    git clone -q --no-local "$root" "$folder/home/blutrain-bench"
    if [ -d "$root/../shared" ]; then
        mkdir "$folder/home/shared"
        mount --bind -o ro "$root/../shared" "$folder/home/shared"
    fi
}

in_root() { # command...
    chroot "$folder" env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 CI=true \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        ${BT_CMAKE_ARGS:+BT_CMAKE_ARGS="$BT_CMAKE_ARGS"} "$@"
}

in_clone() { # command line
    in_root sh -c "cd /home/blutrain-bench && $1"
}

prove_run() {
    local begin=$SECONDS
    echo "== ./bt-bench run suites/gpt2_124m --set train.steps=3"
    in_clone './bt-bench run suites/gpt2_124m --set train.steps=3' </dev/null || return 1
    echo "== from a bare system to a report: $((SECONDS - begin)) s"
    # shellcheck disable=SC2016 # expands in the fresh root
    in_clone 'begin=$(date +%s%N); ./bt-bench --version && end=$(date +%s%N) &&
        echo "== the second start: $(((end - begin) / 1000000)) ms" &&
        [ $((end - begin)) -lt 100000000 ]'
}

prove_test() {
    local begin=$SECONDS
    echo "== ci/test.sh"
    in_clone 'ci/test.sh' </dev/null || return 1
    echo "== $((SECONDS - begin)) s"
}

parse "$@"
check_machine
# Mounts of ours must be seen by nobody else, and go when this process does.
if [ "${BT_FRESH_NAMESPACE:-}" != "$PPID" ]; then
    BT_FRESH_NAMESPACE=$$ unshare --mount --propagation private "${BASH_SOURCE[0]}" "$@"
    exit
fi
folder=${folder:-$(mktemp -d /var/tmp/bt-fresh.XXXXXX)}
mkdir -p "$folder"
chmod 0755 "$folder" # ordinary users of the new root pass through it
trap clean_up EXIT
trap 'exit 130' INT TERM
step "debootstrap $debian" make_root
step "certificates, git, a clone" furnish_root
status=0
case $what in
shell) in_clone 'exec bash -i' || status=1 ;;
run) prove_run || status=1 ;;
test) prove_test || status=1 ;;
*)
    prove_run || status=1
    prove_test || status=1
    ;;
esac
exit $status
