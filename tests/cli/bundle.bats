#!/usr/bin/env bats
# bt-bench export, verify, import, keygen, from a user's side; what is in a bundle read by others

load ../support/cli

setup() {
    enter_scratch
    tiny_shard t.bin
    training_suite >s.json
    "$bench" run s.json --worker "$root/tests/support/fake_worker.sh" --rounds 2 --quiet >/dev/null
}

teardown() {
    leave_scratch
}

export_run() { # arguments
    run --separate-stderr "$bench" export 1 "$@"
    [ "$status" = 0 ] || { echo "$stderr"; false; }
}

@test "export, verify, import: words, notes, exit 0, the same bytes again" {
    export_run -o a.tar.zst
    [[ $output == "bundle    a.tar.zst, "*" bytes"*"next      bt-bench verify a.tar.zst" ]]
    [[ $stderr == *"the run has no verdicts"*"paths of this machine were shortened in: command"* ]]
    cp results/bt.sqlite elsewhere.sqlite
    "$bench" run s.json --worker "$root/tests/support/fake_worker.sh" --quiet >/dev/null
    export_run -o b.tar.zst --db elsewhere.sqlite
    cmp a.tar.zst b.tar.zst
    export_run -o b.tar.zst
    cmp a.tar.zst b.tar.zst
    mkdir empty
    cd empty
    run --separate-stderr "$bench" verify ../a.tar.zst
    [ "$status" = 0 ]
    [[ $output == "PASS      ../a.tar.zst: run 1 of tiny"*" files, 2 rounds; 20 measurements"* ]]
    [ -z "$stderr" ]
    [ -z "$(ls -A)" ]
    run --separate-stderr "$bench" import ../a.tar.zst
    [ "$status" = 0 ]
    [[ $output == "imported  as run 1"*"next      bt-bench show 1"* ]]
    "$bench" show 1 | grep -q "run 1 passed   tiny"
    export_run -o c.tar.zst
    cmp ../a.tar.zst c.tar.zst
}

@test "the help of verify and import lists the exit codes" {
    for verb in verify import; do
        [[ $("$bench" $verb --help) == *"Exit codes: 0 "*"5 damaged"* ]]
    done
}

@test "a bundle is imported once, hints name the database, and its file ends in .tar.zst" {
    export_run -o a.tar.zst
    run "$bench" import a.tar.zst --db new.sqlite
    [[ $output == "imported  as run 1"*"bt-bench show 1 --db new.sqlite" ]]
    run "$bench" import a.tar.zst --db new.sqlite
    [ "$status" = 0 ]
    [[ $output == "imported  before, as run 1; nothing was added"* ]]
    run "$bench" list runs --db new.sqlite
    [ "${#lines[@]}" = 2 ]
    run "$bench" export 1 -o a.zip
    [ "$status" = 2 ]
    [[ $output == *"-o a.zip"*"expected a name that ends in .tar.zst"* ]]
    [ ! -e a.zip ]
}

@test "a bundle that may not be published leaves no folder behind" {
    export_run -o private.tar.zst
    export_run --public -o public.tar.zst
    run "$bench" report 1 --publish ./out --draft --bundle private.tar.zst
    [ "$status" = 2 ]
    [ ! -e out ]
    "$bench" report 1 --publish ./out --draft --bundle public.tar.zst
    # The commands work where publications are written: in the root of the repository.
    grep -qx "tar --zstd -xf ./out/bundle.tar.zst from/suite.json" out/README.md
    tar --zstd -xf ./out/bundle.tar.zst from/suite.json
    cmp from/suite.json s.json
    grep -qx "./bt-bench verify ./out/bundle.tar.zst" out/README.md
    "$bench" verify ./out/bundle.tar.zst
}

@test "verify --format json has what is promised" {
    export_run -o a.tar.zst --format json
    [ "$(jq -r .bundle <<<"$output")" = a.tar.zst ]
    [ "$(jq .size_bytes <<<"$output")" = "$(stat -c %s a.tar.zst)" ]
    run --separate-stderr "$bench" verify a.tar.zst --format json
    [ "$status" = 0 ]
    [ "$(jq -c '[.passed, .finding_count, .findings, .rounds, .measurements, .signed]' <<<"$output")" = \
        '[true,0,[],2,20,false]' ]
}

@test "a bundle that was taken apart, changed and packed again is refused, 5; a damaged one, 5" {
    export_run -o a.tar.zst
    mkdir in
    tar --zstd -xf a.tar.zst -C in
    sed -i 's/"loss": 9/"loss": 8/' in/rounds/0000/steps.ndjson
    tar --zstd -cf b.tar.zst -C in .
    run --separate-stderr "$bench" verify b.tar.zst
    [ "$status" = 5 ]
    [[ $stderr == *"b.tar.zst: the digest at its end is missing"* ]]
    head -c 5000 a.tar.zst >cut.tar.zst
    run --separate-stderr "$bench" verify cut.tar.zst
    [ "$status" = 5 ]
    run --separate-stderr "$bench" verify s.json
    [ "$status" = 5 ]
    [[ $stderr == *"not a bundle"* ]]
}

@test "mistakes of usage end with exit 2, missing files with 4, and say what is missing" {
    run "$bench" export 1
    [ "$status" = 2 ]
    [[ $output == *"-o FILE is missing"* ]]
    run "$bench" export 7 -o x.tar.zst
    [ "$status" = 2 ]
    [[ $output == *"no run 7; the newest is 1"* ]]
    run "$bench" export 1 -o x.tar.zst --sign nothing
    [ "$status" = 4 ]
    [[ $output == *"no such key; 'bt-bench keygen"* ]]
    run "$bench" verify nothing
    [ "$status" = 4 ]
    [[ $output == *"nothing: no such file"* ]]
    run "$bench" keygen
    [ "$status" = 2 ]
    [ ! -e x.tar.zst ]
}

@test "signed: holds by its key, not by another; the signature is one that openssl checks" {
    "$bench" keygen -o mine | grep -q "secret    mine.key"
    "$bench" keygen -o other >/dev/null
    [ "$(stat -c %a mine.key)" = 600 ]
    export_run -o a.tar.zst --sign mine.key
    run "$bench" verify a.tar.zst --key mine.pub
    [ "$status" = 0 ]
    [[ $output == *"signature valid, by the key "* ]]
    run "$bench" verify a.tar.zst
    [ "$status" = 0 ]
    [[ $output == *"not verified"*"--key FILE checks the signature"* ]]
    run "$bench" verify a.tar.zst --key other.pub
    [ "$status" = 1 ]
    [[ $output == *"FAIL"*"1 check failed"*"signed by the key"* ]]
    run "$bench" import a.tar.zst --key other.pub --db new.sqlite
    [ "$status" = 1 ]
    [[ $output == *"nothing was imported"* ]]
    [ ! -e new.sqlite ]
    command -v openssl >/dev/null || skip "no openssl"
    tar --zstd -xf a.tar.zst
    jq -r .payload statement.dsse.json | base64 -d >payload
    jq -r '.signatures[0].sig' statement.dsse.json | base64 -d >sig
    printf 'DSSEv1 28 application/vnd.in-toto+json %s ' "$(stat -c %s payload)" | cat - payload >signed
    openssl pkeyutl -verify -pubin -inkey mine.pub -rawin -in signed -sigfile sig
    [ "$(jq -r '.subject[0].digest.sha256' payload)" = "$(sha256sum <manifest.json | cut -d' ' -f1)" ]
    openssl genpkey -algorithm ed25519 -out theirs.key
    openssl pkey -in theirs.key -pubout -out theirs.pub
    export_run -o b.tar.zst --sign theirs.key
    "$bench" verify b.tar.zst --key theirs.pub >/dev/null
}

@test "the ten lines of Python in FORMAT.md read medians and losses" {
    export_run -o a.tar.zst
    mkdir in
    tar --zstd -xf a.tar.zst -C in
    cmp in/FORMAT.md "$root/harness/bundle/FORMAT.md"
    sed -n '/^```python$/,/^```$/p' in/FORMAT.md | grep -v '^```' >read.py
    cd in
    run python3 ../read.py
    [ "$status" = 0 ]
    [[ $output == *"a step_device_time_ns 9000000.0 ns"* ]]
    [[ $output == *"a step_time_ns 10000003.0 ns"* ]]
    [[ $output == *"a val_loss 10.875 nats"* ]]
    [ "${lines[5]}" = 1000.0 ]
    [ "${#lines[@]}" = 22 ]
    jq -r '.files[] | "\(.sha256)  \(.name)"' manifest.json | sha256sum -c --quiet
    [ "$(jq '.files | length' manifest.json)" = "$(($(find . -type f | wc -l) - 2))" ]
}

@test "verdicts of ab, of a gate and of replicate follow from their bundles" {
    cat >k.json <<'JSON'
{ "name": "kernels_tiny", "profiles": { "cpu": { "device": "cpu", "cases": [
    { "name": "gelu", "kind": "kernel",
      "kernel": { "op": "gelu", "shape": "4x5", "cache": "hot", "max_time_s": 0.05 } } ] } } }
JSON
    cat >claims.json <<'JSON'
{ "paper": "a paper", "stands_for": [ { "name": "torch", "system": "pytorch-eager" } ], "claims": [
  { "id": "mild", "metric": "time", "better": "lower", "margin": 0.02,
    "case": { "suite": "kernels/tiny", "profile": "cpu", "name": "gelu.forward.f32.4x5" },
    "values": [ { "system": "blutrain", "value": 1 }, { "system": "torch", "value": 2 } ] } ] }
JSON
    ln -s "$root/tests/support/kernel_peer.sh" pytorch-eager
    mkdir old new
    cp "$root/tests/support/fake_build.sh" old/bt-bench
    cp "$root/tests/support/fake_build.sh" new/bt-bench
    printf 'SLOW_CASE=4x5 SLOW=3' >new/says
    "$bench" ab ./old ./new k.json -q >/dev/null || [ $? = 1 ]
    run --separate-stderr "$bench" export 2 -o ab.tar.zst
    run "$bench" verify ab.tar.zst
    [ "$status" = 0 ] || { echo "$output"; false; }
    [[ $output == *" 1 verdict follow"* ]]
    OMP_NUM_THREADS=1 "$bench" run k.json -q --rounds 4 --system blutrain,./pytorch-eager >/dev/null
    "$bench" replicate 3 --claims claims.json >/dev/null || [ $? = 1 ]
    "$bench" baseline set main 3 --reason "a test" --accept-noise "a test" >/dev/null
    "$bench" gate 3 --baseline main >/dev/null || true
    [ "$(sqlite3 results/bt.sqlite "select count(distinct kind) from verdict where session_id=3")" = 2 ]
    run --separate-stderr "$bench" export 3 -o three.tar.zst
    [ "$status" = 0 ]
    [[ $stderr != *"no verdicts"* ]]
    run "$bench" verify three.tar.zst
    [ "$status" = 0 ] || { echo "$output"; false; }
    tar --zstd -xf three.tar.zst
    cmp claims.json from/claims.json
    cmp k.json from/suite.json
    [ "$(jq -r '.[].kind' verdicts.json | sort -u | tr '\n' ' ')" = "gate replicate " ]
}
