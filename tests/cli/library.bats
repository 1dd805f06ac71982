#!/usr/bin/env bats
# a library that is opened on demand: without it the program runs, and says what is missing

load ../support/cli

setup() {
    enter_scratch
    echo 'int bt_nothing; ' | gcc -shared -fPIC -x c -o libcurl.so.4 -
}

teardown() {
    leave_scratch
}

@test "a libcurl without what we call: downloads are unavailable, the rest works" {
    LD_LIBRARY_PATH=$dir run "$bench" data fetch fineweb-edu-10bt -o out
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"this libcurl is too old: it has no curl_easy_cleanup"* ]]
    LD_LIBRARY_PATH=$dir run "$bench" --version
    [ "$status" -eq 0 ]
}
