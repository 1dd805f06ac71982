#!/usr/bin/env bats
# bt-bench bisect on a repository whose commits are builds with known times

load ../support/cli

setup() {
    enter_scratch
    command -v cmake ninja git >/dev/null
    unset BT_ROOT
    export OMP_NUM_THREADS=1
    gelu_suite '["64x16", "4x5"]' >s.json
    worker=$root/tests/support/kernel_peer.sh
    mkdir -p home/bin repo
    cp "$(dirname "$bench")"/* home/bin/ # no repository around it: that of the working directory
    cd repo
    git init -q -b main .
    git config user.email t@t
    git config user.name t
    cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.20)
project(fake LANGUAGES NONE)
add_custom_target(product COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/prog ${CMAKE_BINARY_DIR}/bin/bt-bench)
CMAKE
    commit 1000000 one
    git tag good
}

teardown() {
    leave_scratch
}

commit() { # ns subject
    sed "s/^NS=1000000/NS=$1/; \$a # $2" "$root/tests/support/fake_build.sh" >prog
    chmod +x prog
    git add -A .
    git commit -qm "$2"
}

bisect() { # arguments
    run --separate-stderr ../home/bin/bt-bench bisect "$@" ../s.json --rounds-max 4 --filter 4x5 -q --worker "$worker"
}

@test "the first slower commit of six is found in four comparisons" {
    for subject in two three four; do commit 1000000 "$subject"; done
    commit 1050000 "the slow one"
    slow=$(git rev-parse HEAD)
    commit 1050000 six
    bisect good HEAD
    [ "$status" = 0 ] || { echo "$output$stderr"; false; }
    [[ $output == *"first slower commit: $slow"*"the slow one" ]]
    [ "$(grep -c '^bisect .* commits are left' <<<"$stderr")" -le 4 ]
    [ "$(sqlite3 results/bt.sqlite "select count(*) from session")" -le 4 ]
    bisect good HEAD --format json --out files # a folder for each comparison
    [ "$(jq -r .first_slower <<<"$output")" = "$slow" ]
    [ "$(jq -r '.commits[-1].verdict' <<<"$output")" = SLOWER ]
    [ -s "files/${slow:0:10}/report.html" ]
}

@test "a commit that does not build is left out; beside the slow one the answer is a range" {
    commit 1000000 two
    echo 'message(FATAL_ERROR "broken")' >>CMakeLists.txt
    commit 1000000 broken
    broken=$(git rev-parse HEAD)
    sed -i '$d' CMakeLists.txt
    commit 1050000 slow
    slow=$(git rev-parse HEAD)
    bisect good HEAD
    [ "$status" = 3 ]
    [[ $output == *"${broken:0:10}  cannot be judged"*"the first slower commit is one of 2, up to $slow; the others cannot be judged" ]]
}

@test "nothing to find, no such commit, the wrong way round" {
    commit 1000000 two
    bisect good HEAD
    [ "$status" = 3 ]
    [[ $output == *"no slower commit: HEAD is not slower than good" ]]
    bisect HEAD good
    [ "$status" = 2 ]
    [[ $stderr == *"is not an ancestor of"* ]]
    bisect good nowhere
    [ "$status" = 2 ]
    [[ $stderr == *'"nowhere" is neither'* ]]
    run --separate-stderr ../home/bin/bt-bench bisect good HEAD ../s.json --filter nothing --worker "$worker"
    [ "$status" = 2 ]
    [[ $stderr == *"no case of profile cpu matches"* ]]
}
