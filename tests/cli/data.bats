#!/usr/bin/env bats
# bt-bench data verify: datasets that are whole, and ones that are not

load ../support/cli

setup() {
    enter_scratch
    byte_ranks ranks
    for part in one two three four; do
        printf 'The %s part of a text that is long enough.\n<|endoftext|>\n' "$part"
    done >text
    "$bench" data tokenize text -o set --val 0.25 --ranks ranks --quiet >/dev/null
    train=$(echo set/*train*.bin)
    [ -s "$train" ]
}

teardown() {
    leave_scratch
}

@test "a dataset that is whole passes, by its folder and by its name" {
    run --separate-stderr "$bench" data verify ./set
    [ "$status" = 0 ]
    [[ $output == *"training tokens in 1 shard,"* ]]
    mkdir data
    mv set data/mine
    run --separate-stderr "$bench" data verify mine --format json
    [ "$status" = 0 ]
    [[ $output == *'"digest":"'* ]]
}

@test "a dataset is replaced only by --force" {
    before=$(cat set/dataset.json)
    run --separate-stderr "$bench" data tokenize text -o set --ranks ranks --quiet
    [ "$status" = 2 ]
    [ "$stderr" = "set: already contains a dataset; not overwritten: choose another -o, or add --force to replace it" ]
    [ "$(cat set/dataset.json)" = "$before" ]
    "$bench" data tokenize text -o set --ranks ranks --quiet --force >/dev/null
    [ "$(cat set/dataset.json)" != "$before" ]
}

@test "a vocabulary smaller than the dataset's is refused before anything starts" {
    mkdir data
    mv set data/mine
    echo '{ "name": "small", "dataset": "mine", "profiles": { "cpu": { "device": "cpu", "cases": [ { "name": "a", "kind": "train" } ] } } }' >s.json
    vocab=$(jq .vocab data/mine/dataset.json)
    run --separate-stderr "$bench" run s.json --set train.model.vocab=$((vocab - 1))
    [ "$status" = 2 ]
    [[ $stderr == *"case a: train.model.vocab is $((vocab - 1)), but dataset mine has token ids up to $((vocab - 1)): expected a vocabulary of at least $vocab" ]]
    [ ! -e results/run-1 ]
}

@test "one flipped bit of a token is found, and the shard named" {
    size=$(stat -c %s "$train")
    byte=$(tail -c 2 "$train" | od -An -tu1 -N1)
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\x$(printf %x $((byte ^ 1)))" |
        dd of="$train" bs=1 seek=$((size - 2)) conv=notrunc status=none
    run --separate-stderr "$bench" data verify ./set
    [ "$status" = 5 ]
    [[ $stderr == *"$(basename "$train")"* ]]
    [ -z "$output" ]
}

@test "a shard that is not there is named" {
    rm "$train"
    run --separate-stderr "$bench" data verify ./set
    [ "$status" = 4 ]
    [[ $stderr == *"$(basename "$train")"* ]]
}

@test "a truncated shard is named" {
    truncate -s -2 "$train"
    run --separate-stderr "$bench" data verify ./set
    [ "$status" = 5 ]
    [[ $stderr == *"$(basename "$train")"* ]]
}

@test "a dataset that is not there, and no name" {
    run --separate-stderr "$bench" data verify ./nothing
    [ "$status" = 4 ]
    run --separate-stderr "$bench" data verify
    [ "$status" = 2 ]
    [[ $stderr == *"usage: bt-bench data"* ]]
}
