#!/bin/sh
# ci/layers.sh [FOLDER] - includes point one way only
#
#   base -> memory, device -> kernels -> tensor -> ops, linalg -> autograd
#     -> nn, optim, data, checkpoint, dist, compiler -> eval -> train -> harness
#
# A header may have its own rank: framework/dist/group.h, the interface of process groups, has
# that of devices, so that ops can exchange data.
#
# Checks every #include of framework, kernels and harness under FOLDER (default: the repository):
# a file may include its own layer, its own rank's and lower ones. The folders of the harness are
# ranked too, and there a folder may include lower ones only:
#
#   record, suite, data -> text -> env, stats -> plan, store -> redact, compare, history, replicate, cases,
#     launch -> run, report -> gate, watch -> ab -> bundle, diff -> cli
#
# Also: sqlite3.h only in harness/store, framework layers above base only in harness/run and
# harness/cases, C++ only in .cu and .cuh files, no include by a path with "..". Exceptions are in
# the table below, each with its reason. Circles between single files are refused by the test
# layers.circles (tests/support/no_circles.sh), which reads the object files.
# Exit 0 clean, 1 with one line a finding: file:line: what is wrong.
set -eu
cd "${1:-$(dirname -- "$0")/..}"

# file prefix  may include prefix  reason
exceptions() {
    cat <<'TABLE'
harness/cli/verb_data  framework/data/  it prints what a dataset has
harness/data      framework/data/       corpora become shards by the library's tokenizer and writer
harness/cli/weights         framework/  sample and hellaswag are thin verbs likewise
harness/cli/verb_sample     framework/  likewise
harness/cli/verb_hellaswag  framework/  likewise
harness/cli/verb_checkpoint framework/  likewise
harness/diff      framework/            diff-run and bisect-bits train two sides at once
harness/env       framework/device/     the environment record names the devices
harness/launch    harness/run/child  ranks are children that speak the protocol of workers
harness/launch    harness/run/event  likewise
harness/env/doctor framework/compiler/  the doctor says whether kernels can be generated
TABLE
}

files=$(find framework kernels harness -type f \( -name '*.c' -o -name '*.h' -o -name '*.inl' \
    -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | sort)
[ -n "$files" ] || {
    echo "layers: no sources under $PWD" >&2
    exit 1
}
stray=$(find framework kernels harness tests -type f \( -name '*.cpp' -o -name '*.cc' -o -name '*.cxx' \
    -o -name '*.hpp' -o -name '*.hh' \) 2>/dev/null | sed 's/$/: C++ belongs in .cu files/')
status=0
[ -z "$stray" ] || {
    echo "$stray"
    status=1
}

# shellcheck disable=SC2086 # a word is a file
exceptions | awk '
BEGIN {
    split("base:0 memory:1 device:1 tensor:3 ops:4 linalg:4 autograd:5 nn:6 optim:6 data:6" \
          " checkpoint:6 dist:6 compiler:6 eval:7 train:8", pairs, " ")
    for (i in pairs) {
        split(pairs[i], pair, ":")
        rank["framework/" pair[1]] = pair[2]
    }
    rank["kernels"] = 2
    rank["framework/dist/group.h"] = 1
    rank["harness"] = 9
    split("record:1 suite:1 data:1 text:2 env:3 stats:3 plan:4 store:4 redact:5 compare:5 history:5" \
          " replicate:5 cases:5 launch:5 run:6 report:6 gate:7 watch:7 ab:8 bundle:9 diff:9 cli:10", pairs, " ")
    for (i in pairs) {
        split(pairs[i], pair, ":")
        inner["harness/" pair[1]] = pair[2]
    }
}

function layer_of(path, parts) {
    split(path, parts, "/")
    if (path in rank) {
        return path
    }
    return parts[1] == "framework" ? parts[1] "/" parts[2] : parts[1]
}

function say(what) {
    printf "%s:%d: %s\n", FILENAME, FNR, what
    found = 1
}

function is_excepted(file, target, i) {
    for (i = 1; i <= exception_count; i++) {
        if (index(file, from[i]) == 1 && index(target, to[i]) == 1) {
            return 1
        }
    }
    return 0
}

function folder_of(path, parts) {
    split(path, parts, "/")
    return parts[1] "/" parts[2]
}

function check_folders(mine, theirs, target) {
    if (mine == theirs) {
        return
    }
    if (!(mine in inner)) {
        say("the folder " mine " has no rank among those of the harness")
    } else if ((!(theirs in inner) || inner[theirs] >= inner[mine]) &&
               !is_excepted(FILENAME, target)) {
        say(mine " may not include " target ": " theirs " is not below it")
    }
}

function check_ours(target, mine, theirs) {
    if (target ~ /\.\./) {
        say("include by the path from the root, not by \"..\"")
        return
    }
    mine = layer_of(FILENAME)
    theirs = layer_of(target)
    if (!(theirs in rank)) {
        return # beside the file, generated, or a library
    }
    if (!(mine in rank)) {
        say("the folder " mine " has no place in the layer order")
        return
    }
    if (rank[theirs] > rank[mine]) {
        say(mine " may not include " target ": " theirs " is a layer above it")
    }
    if (mine == "harness" && theirs == "harness") {
        check_folders(folder_of(FILENAME), folder_of(target), target)
    }
    if (mine == "harness" && theirs != "harness" && theirs != "framework/base" &&
        FILENAME !~ /^harness\/(run|cases|launch)\// && !is_excepted(FILENAME, target)) {
        say("only harness/run, harness/cases and harness/launch call the framework, not this file: " target)
    }
}

FILENAME == "-" {
    exception_count++
    from[exception_count] = $1
    to[exception_count] = $2
    next
}

/^[ \t]*#[ \t]*include[ \t]*["<]/ {
    target = $0
    sub(/^[ \t]*#[ \t]*include[ \t]*["<]/, "", target)
    sub(/[">].*/, "", target)
    check_ours(target)
    if (target == "sqlite3.h" && FILENAME !~ /^harness\/store\//) {
        say("only harness/store includes sqlite3.h")
    }
    if (FILENAME !~ /\.cuh?$/ && target !~ /\./) {
        say("<" target "> is C++, which belongs in .cu files")
    }
}

END {
    exit found
}
' - $files || status=1
exit $status
