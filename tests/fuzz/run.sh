#!/usr/bin/env bash
# tests/fuzz/run.sh BUILD SECONDS - runs every fuzz target of a build folder (preset fuzz) on its
# corpus, SECONDS of processor time in all, a target per processor at a time
#
# New inputs go to BUILD/fuzz/found/TARGET, inputs that crash to BUILD/fuzz/crashes; the corpus in
# tests/fuzz/corpus stays as it is. Exit 0 when nothing was found, 1 otherwise, 2 usage.
set -euo pipefail
if [ $# -ne 2 ] || ! [ -d "$1" ] || ! [ "$2" -gt 0 ] 2>/dev/null; then
    echo "usage: tests/fuzz/run.sh BUILD SECONDS" >&2
    exit 2
fi
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
build=$(CDPATH='' cd -- "$1" && pwd -P)
targets=()
for file in "$build"/fuzz/fuzz_*; do
    [ -f "$file" ] && targets+=("$file")
done
[ ${#targets[@]} -gt 0 ] || {
    echo "run.sh: no fuzz targets in $build (cmake --preset fuzz)" >&2
    exit 2
}
seconds=$(($2 / ${#targets[@]}))
[ "$seconds" -gt 0 ] || seconds=1
mkdir -p "$build/fuzz/crashes" "$build/fuzz/logs"
export here build seconds

fuzz_one() { # target
    local name found log corpus
    name=$(basename "$1")
    found=$build/fuzz/found/$name
    log=$build/fuzz/logs/$name
    corpus=$here/corpus/$name
    mkdir -p "$found" "$corpus"
    if "$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=8192 \
        -artifact_prefix="$build/fuzz/crashes/$name-" "$found" "$corpus" >"$log" 2>&1; then
        echo "$name: $(grep -E '^Done ' "$log" | tail -n 1 | tr 'D' 'd'), corpus $(find "$corpus" -type f | wc -l)"
    else
        echo "$name: failed"
        tail -n 30 "$log"
        return 1
    fi
}
export -f fuzz_one
printf '%s\0' "${targets[@]}" | xargs -0 -P "$(nproc)" -I {} bash -c 'fuzz_one "{}"' || exit 1
