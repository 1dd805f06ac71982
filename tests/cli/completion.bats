#!/usr/bin/env bats
# Completion of a shell, made from the table of verbs

load ../support/cli

setup() {
    enter_scratch
    export BT_ROOT=$root OMP_NUM_THREADS=1
}

teardown() {
    leave_scratch
}

complete_words() { # words, the last one to be completed
    COMP_WORDS=("$bench" "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _bt_bench
    echo "${COMPREPLY[*]}"
}

@test "bash completes verbs, options, suites and runs, and no value of an option" {
    gelu_suite '"4x5"' >s.json
    "$bench" run s.json -q --name before --worker "$root/tests/support/timed_worker.sh" >/dev/null
    eval "$("$bench" completion bash)"
    [ "$(complete_words ba)" = baseline ]
    [ "$(complete_words run --prof)" = --profile ]
    [ "$(complete_words show be)" = before ]
    [ "$(complete_words show la)" = last ]
    [[ $(complete_words run suites/gpt) == *suites/gpt2_124m* ]]
    [ "$(complete_words run --profile suites/gpt)" = "" ]
    [ "$(complete_words run s.js)" = s.json ]
    [ "$(complete_words worker --)" = "" ]
}

@test "every verb of the help is completed with every option of its help" {
    eval "$("$bench" completion bash)"
    verbs=$("$bench" --help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p' | grep -v '^bt-bench$')
    [ "$(wc -w <<<"$verbs")" -ge 20 ]
    for verb in $verbs; do
        [[ " $(complete_words "") " == *" $verb "* ]] || { echo "$verb"; false; }
        for option in $("$bench" "$verb" --help | grep -o '^ *\(-., \)\?--[a-z-]*' | grep -o -- '--[a-z-]*'); do
            [[ " $(complete_words "$verb" --) " == *" $option "* ]] || { echo "$verb $option"; false; }
        done
    done
}

@test "zsh reads its own" {
    command -v zsh >/dev/null || skip "zsh is not installed"
    "$bench" completion zsh >c.zsh
    run zsh -f -c 'autoload -Uz compinit; compinit -D; source ./c.zsh; echo ${_comps[bt-bench]}'
    [[ $output == *bt_bench* ]]
}

@test "another shell is refused" {
    run "$bench" completion fish
    [ "$status" = 2 ]
    [[ $output == *'unknown shell "fish"; expected bash or zsh'* ]]
}
