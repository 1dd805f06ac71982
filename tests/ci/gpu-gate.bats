#!/usr/bin/env bats
# ci/gpu-gate.sh from start to end on CPU cases with builds that are fakes, and the workflow files

load ../support/cli

setup() {
    enter_scratch
    export BT_BENCH=$bench OMP_NUM_THREADS=1
    gelu_suite '["64x16", "4x5"]' >s.json
    mkdir old new
    cp "$root/tests/support/fake_build.sh" old/bt-bench
    cp "$root/tests/support/fake_build.sh" new/bt-bench
}

teardown() {
    leave_scratch
}

gate() { # option...
    run --separate-stderr "$root/ci/gpu-gate.sh" --suite s.json "$@"
}

@test "two equal builds: exit 0, and all that a job hands on is there" {
    gate --base ./old --candidate ./new --out results-of-job -- -q
    [ "$status" = 0 ]
    [[ $output == *"candidate 11111111 against base 11111111"*"PASS  2 cases: 2 same"*"exit 0"* ]]
    cd results-of-job
    [ "$(echo *)" = "gate.json junit.xml report.html run.tar.zst summary.md" ]
    head -n 1 summary.md | grep -qx '### bt-bench gate: PASS (exit 0)'
    python3 -c 'import xml.dom.minidom as x, json; x.parse("junit.xml"); json.load(open("gate.json"))'
    cd .. && "$BT_BENCH" verify results-of-job/run.tar.zst
}

@test "a slower candidate: exit 1, and the comment says which case and kernel" {
    printf 'SLOW_CASE=64x16 SLOW=3 KERNEL=other_v2' >new/says
    gate --base ./old --candidate ./new -- -q
    [ "$status" = 1 ]
    grep -q '^\*\*1 slower, 1 same\*\*' gate/summary.md
    grep -q '| gelu.forward.f32.64x16 | time | SLOWER | +3.00 % |.*same\\_v1 -\\> other\\_v2' gate/summary.md
    grep -q 'failures="1"' gate/junit.xml
}

@test "a policy decides: noise stays open and is let pass" {
    printf 'NS=1012000 SPREAD=60000' >new/says
    echo '{ "name": "x", "rounds": 8, "allow": "inconclusive" }' >p.json
    gate --base ./old --candidate ./new --policy p.json -- -q --filter 4x5
    [ "$status" = 0 ]
    grep -q '^\*\*1 inconclusive\*\*, of which the policy allows 1' gate/summary.md
}

@test "a candidate that is wrong: exit 5, still with a summary" {
    echo 'FAIL=wrong' >new/says
    gate --base ./old --candidate ./new -- -q --filter 4x5
    [ "$status" = 5 ]
    grep -q 'FAIL (exit 5)' gate/summary.md
    grep -q 'INVALID' gate/summary.md
}

@test "this very program against itself, on a real case" {
    echo '{ "name": "x", "rounds": 2, "overrides": [ { "case": "*", "gated": false, "reason": "two rounds" } ] }' >p.json
    gate --base "$BT_BENCH" --policy p.json -- -q --filter 4x5
    [ "$status" = 0 ]
    grep -q 'gelu.forward.f32.4x5' gate/summary.md
}

@test "against a recorded baseline" {
    "$BT_BENCH" run s.json --rounds 2 -q >/dev/null
    "$BT_BENCH" baseline set main 1 --reason test --accept-noise "a test" >/dev/null
    echo '{ "name": "x", "rounds": 2, "overrides": [ { "case": "*", "gated": false, "reason": "two rounds" } ] }' >p.json
    gate --baseline main --policy p.json -- -q
    [ "$status" = 0 ]
    [ -s gate/report.html ] && [ -s gate/run.tar.zst ] && [ -s gate/junit.xml ]
}

@test "exit 2 with a reason: options, builds, suites that are none" {
    gate --bsae ./old
    [ "$status" = 2 ]
    [[ $stderr == *"unknown option --bsae"* ]]
    gate --base
    [ "$status" = 2 ]
    gate --baseline main --base ./old
    [ "$status" = 2 ]
    [[ $stderr == *"cannot be combined with --base"* ]]
    gate --base ./nowhere -- -q
    [ "$status" = 2 ]
    [ ! -e gate/summary.md ]
    gate --base ./old --suite none.json
    [ "$status" = 2 ]
    run "$root/ci/gpu-gate.sh" --help
    [ "$status" = 0 ]
    [[ $output == *"--base REVISION|BUILD"*"Exit: the gate's."* ]]
}

@test "results of an earlier job do not pass for this one's" {
    mkdir gate
    touch gate/summary.md gate/junit.xml gate/gate.json gate/report.html gate/run.tar.zst
    gate --base ./old --candidate ./nowhere -- -q
    [ "$status" = 2 ]
    [ -z "$(ls gate)" ]
}

# A repository `repo` of its own with this script: a base, and on top of it a change of what judges.
# Its suite has two cases, of which the change drops the slower one; its policy lets everything pass;
# its harness says nothing and exits with 0. The base's program is the real one, with the fake build
# ./old in place of itself as a side.
change_of_judges() {
    mkdir -p repo/ci repo/suites/policies repo/harness
    cp "$root/ci/gpu-gate.sh" repo/ci/
    cp s.json repo/suites/
    cp "$root/suites/policies/default.json" repo/suites/policies/
    cat >repo/bt-bench <<SH
#!/bin/bash
echo "base \$1" >>"$dir/log"
[ "\$1 \$2" != "ab ." ] || set -- ab "$dir/old" "\${@:3}"
exec "$BT_BENCH" "\$@"
SH
    chmod +x repo/bt-bench
    echo /build/ >repo/.gitignore
    cd repo || exit
    git init -q
    git config user.email t@example.org
    git config user.name t
    git add -A && git commit -qm base
    gelu_suite '["4x5"]' >suites/s.json
    echo '{ "name": "x", "rounds": 2, "tolerance": { "kernel": 9 }, "allow": ["inconclusive"] }' >suites/policies/default.json
    printf '#!/bin/sh\necho "candidate $1" >>"%s/log"\n' "$dir" >bt-bench
    echo change >harness/file.c
    mkdir -p results/baselines
    echo '{}' >results/baselines/main.json
    git add -A && git commit -qm change
}

@test "a change of suite, policy and harness does not judge itself, and is listed" {
    change_of_judges
    mkdir -p build/bin
    cp "$root/tests/support/fake_build.sh" build/bin/bt-bench
    printf 'SLOW_CASE=64x16 SLOW=3' >build/bin/says
    BT_BENCH='' run --separate-stderr "$root/ci/gpu-gate.sh" --tree . --suite suites/s.json --base HEAD~1 -- -q
    [ "$status" = 1 ]
    [[ $stderr == *"the candidate changes files that judge it"*"harness/file.c"*"suites/policies/default.json"*"suites/s.json"* ]]
    grep -q '^\*\*1 slower, 1 same\*\*' gate/summary.md
    grep -q '^    suites/policies/default.json$' gate/summary.md
    grep -q '^    results/baselines/main.json$' gate/summary.md
    diff "$dir/log" - <<<$'candidate version\nbase ab\nbase gate\nbase report\nbase export'
}

@test "without a base revision this tree's own policy holds, and that is said" {
    change_of_judges
    run --separate-stderr ci/gpu-gate.sh --suite suites/s.json --base ../old --candidate ../new -- -q
    [ "$status" = 0 ]
    [[ $stderr == *"no base revision"* ]]
}

@test "a suite or policy that only the change has is refused" {
    change_of_judges
    cp suites/s.json suites/mine.json
    cp suites/policies/default.json suites/policies/mine.json
    for option in "--suite suites/mine.json" "--suite suites/s.json --policy mine" \
        "--suite suites/s.json --policy suites/policies/mine.json"; do
        # shellcheck disable=SC2086 # words
        run --separate-stderr ci/gpu-gate.sh $option --base HEAD~1 --candidate ../new
        [ "$status" = 2 ]
        [[ $stderr == *"must exist in the base"* ]]
    done
}

@test "the workflow files are YAML, call the script as it is, and name no host" {
    python3 - "$root" <<'PYTHON'
import subprocess, sys, yaml
root = sys.argv[1]
github = yaml.safe_load(open(f"{root}/ci/workflows/github-gpu-gate.yml"))
gitlab = yaml.safe_load(open(f"{root}/ci/workflows/gitlab-gpu-gate.yml"))
steps = github["jobs"]["gate"]["steps"]
scripts = [step["run"] for step in steps if "run" in step]
scripts += gitlab["gpu-gate"]["script"] + gitlab["gpu-gate"]["after_script"]
for script in scripts:
    subprocess.run(["bash", "-n", "-c", script], check=True)
calls = [script for script in scripts if "gpu-gate.sh" in script]
assert len(calls) == 2, calls
help = subprocess.run([f"{root}/ci/gpu-gate.sh", "--help"], capture_output=True, text=True).stdout
for call in (call for script in calls for call in script.splitlines() if "gpu-gate.sh" in call):
    for word in call.split():
        assert not word.startswith("--") or word in help, word
# Nothing of a pull request's own text may end up in a shell.
assert not any("${{" in script for script in scripts)
assert True in github or "on" in github  # YAML 1.1 reads `on` as true
assert gitlab["gpu-gate"]["artifacts"]["reports"]["junit"] == "gate/junit.xml"
for file in ("github", "gitlab"):
    text = open(f"{root}/ci/workflows/{file}-gpu-gate.yml").read()
    assert "://" not in text and "image:" not in text
PYTHON
}
