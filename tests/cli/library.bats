# a library that is opened on demand: without it the program runs, and says what is missing

setup() {
    tree=$(mktemp -d /tmp/bt-library.XXXXXX)
    echo 'int bt_nothing; ' | gcc -shared -fPIC -x c -o "$tree/libcurl.so.4" -
}

teardown() {
    rm -rf "$tree"
}

@test "a libcurl without what we call: downloads are unavailable, the rest works" {
    LD_LIBRARY_PATH=$tree run "$BT_BENCH" data fetch fineweb-edu-10bt -o "$tree/out"
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"this libcurl is too old: it has no curl_easy_cleanup"* ]]
    LD_LIBRARY_PATH=$tree run "$BT_BENCH" --version
    [ "$status" -eq 0 ]
}
