#!/usr/bin/env bats
# suites/distributed on CPU ranks: each suite runs, and its report says what the ranks cost

load ../support/cli

setup() {
    enter_scratch
    export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
}

teardown() {
    leave_scratch
}

# Runs cases of a suite and writes its report in both forms.
measure() { # suite [options of run]
    local suite=$1
    shift
    "$bench" run "$root/suites/distributed/$suite" --profile cpu --db r.db --out out -q "$@" >out.txt 2>&1 || {
        cat out.txt
        return 1
    }
    "$bench" show last --db r.db --format json >run.json
    "$bench" report last --db r.db -o r.md
    "$bench" report last --db r.db -o r.html
}

# A column of the table of ranks, by its title; a line a case.
column() { # title
    python3 - "$1" <<'PY'
import sys
lines = open("r.md").read().split("## Several ranks")[1].split("\n\n")[2].splitlines()
cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
at = cells[0].index(sys.argv[1])
print("\n".join(row[at] for row in cells[2:]))
PY
}

@test "two ranks stand beside one: rate, exposed communication, what the bytes take at the bus rate" {
    measure training
    [ "$(column case | xargs)" = "data1 data2" ]
    [ "$(column ranks | xargs)" = "1 2" ]
    [[ $(column 'efficiency' | tail -1) == 0.* || $(column 'efficiency' | tail -1) == 1.* ]]
    [[ $(column exposed | tail -1) == *s ]]
    [ -z "$(column exposed | head -1)" ] # one rank waits for nobody
    [ -z "$(column bound | head -1)" ]
    column bound | tail -1 >bound.txt
    python3 - <<'PY'
import json, re
of = next(c for c in json.load(open("run.json"))["cases"] if c["name"] == "data2")["metrics"]
step, exposed = of["step_time_ns"], of["exposed_communication_ns"]
if exposed < step: # of other steps, which may be slower
    number, prefix = re.match(r"([0-9.]+)([KM]?) tok/s", open("bound.txt").read()).groups()
    shown = float(number) * {"": 1, "K": 1e3, "M": 1e6}[prefix]
    bound = of["tokens_per_s"] * step / (step - exposed)
    assert abs(shown / bound - 1) < 0.01, (shown, bound)
PY
    grep -q 'this includes the wait for a slower rank' r.md
    run "$bench" show last --db r.db
    [ "$(grep -cE '^  ranks        2   exposed communication [0-9.]+ [mun]?s a step \(rank 0, profiled steps\)$' <<<"$output")" = 1 ]
    [[ $(column 'transfer' | tail -1) == *s ]]
    grep -q '<section id=ranks><h2>Several ranks' r.html
    # Half of 4 bytes of gradient and of 4 bytes of weight of each parameter, and the rows that ids
    # look up, to be summed and given to all.
    python3 - <<'PY'
import json
case = next(c for c in json.load(open("run.json"))["cases"] if c["name"] == "data2")
parameters = (50304 + 64) * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 2 * 32
assert case["metrics"]["sent_bytes"] == 4 * parameters + 4 * 256 * 32, case["metrics"]
PY
}

@test "ranks that share sequences stand beside one, and end with its loss by every rotation" {
    measure context
    [ "$(column case | xargs)" = "context1 context2_all_gather context2_point_to_point context2_all_to_all context2_ulysses data2_context2" ]
    [ "$(column ranks | xargs)" = "1 2 2 2 2 4" ]
    [ "$(column mesh | tail -1)" = "data 2 x context 2" ]
    python3 - <<'PY'
import json
cases = json.load(open("run.json"))["cases"]
losses = [case["metrics"]["loss_last"] for case in cases]
assert max(losses) - min(losses) < 1e-4 * losses[0], losses
assert len({case["params_digest"] for case in cases[1:4]}) == 1, cases
PY
}

@test "ranks that share a model stand beside one, and end with its loss" {
    measure tensor --set train.profile_steps=1
    [ "$(column case | xargs)" = "tensor1 tensor2 tensor2_sequence tensor2_chunks tensor2_halves data2_tensor2" ]
    [ "$(column ranks | xargs)" = "1 2 2 2 2 4" ]
    python3 - <<'PY'
import json
cases = json.load(open("run.json"))["cases"]
losses = [case["metrics"]["loss_last"] for case in cases]
assert max(losses) - min(losses) < 1e-4 * losses[0], losses
digests = {case["name"]: case["params_digest"] for case in cases}
assert digests["tensor2"] == digests["data2_tensor2"], digests
PY
    # A timeline of each rank; what rank 0 waits is what its ranges say of the same step.
    "$bench" report last --db r.db -o r.json
    grep -q '<h2>One step of each rank' r.html
    python3 - <<'PY'
import json
cases = json.load(open("r.json"))["runs"][0]["cases"]
assert [len(case["timelines"]) for case in cases] == [0, 2, 2, 2, 2, 4], cases
for case in cases[1:]:
    lines = case["timelines"]
    assert [line["rank"] for line in lines] == list(range(len(lines)))
    assert min(line["start_ns"] for line in lines) == 0
    exposed = case["metrics"]["exposed_communication_ns"]
    assert abs(lines[0]["communication_ns"] - exposed) <= 1e-3 * exposed, (lines[0], exposed)
    for line in lines:
        known = sum(line[key] for key in ("products_ns", "attention_ns", "other_ns", "communication_ns"))
        assert 0.5 * line["time_ns"] < known <= line["time_ns"], line
        assert min(line[key] for key in ("products_ns", "attention_ns", "other_ns")) > 0, line
        drawn = line["work"].count("c") / len(line["work"])
        assert abs(drawn - line["communication_ns"] / line["time_ns"]) < 0.1, line
        phases = line["phases"] # it begins with '.' where the batch took a part of the step to load
        assert phases.lstrip(".")[0] == "f" and {"f", "b"} <= set(phases) <= set("fbru."), phases
PY
    # They go with the run.
    "$bench" export last --db r.db -o b.tar.zst
    "$bench" verify b.tar.zst
    "$bench" import b.tar.zst --db other.db
    "$bench" report last --db other.db -o other.json
    python3 -c 'import json
a, b = ([c["timelines"] for c in json.load(open(n))["runs"][0]["cases"]] for n in ("r.json", "other.json"))
assert a == b'
}

@test "a sweep over bucket sizes has a row for each" {
    measure buckets --filter '*5*' --set train.steps=4
    [ "$(column bucket | xargs)" = "0.05 MiB 0.25 MiB 0.5 MiB" ]
}

@test "memory of a rank under each sharding is what the arithmetic says" {
    measure memory
    python3 - <<'PY'
import json
cases = {c["name"]: c["metrics"] for c in json.load(open("run.json"))["cases"]}
assert list(cases) == ["one", "ddp", "zero1", "zero2", "zero3"], cases
for name, metrics in cases.items():
    peak, planned = metrics["peak_allocated_bytes"], metrics["planned_memory_bytes"]
    assert 0.95 * peak <= planned <= 1.15 * peak, (name, peak, planned)
PY
    [ "$(column sharding | xargs)" = "ddp zero1 zero2 zero3" ]
}

@test "collectives: every operation and size has a time and bus bandwidth" {
    measure collectives --set collective.max_time_s=0.01
    python3 - <<'PY'
import json
cases = {c["name"]: c["metrics"] for c in json.load(open("run.json"))["cases"]}
assert len(cases) == 20 + 20 + 3, len(cases)
for op in ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "send_recv"]:
    for size in ["4KiB", "64KiB", "1MiB", "16MiB", "64MiB"]:
        found = [m for name, m in cases.items() if f".{op}.f32.{size}." in name]
        assert found and all(m["time_ns"] > 0 and m["bandwidth_bytes_per_s"] > 0 for m in found), (op, size)
PY
}

@test "recovery: killed and stopped ranks come back, and nothing of the training changes" {
    measure recovery
    python3 - <<'PY'
import json
cases = {c["name"]: c for c in json.load(open("run.json"))["cases"]}
assert list(cases) == ["undisturbed", "kill", "hang"], list(cases)
assert len({c["params_digest"] for c in cases.values()}) == 1, cases
assert len({c["metrics"]["loss_last"] for c in cases.values()}) == 1, cases
for name in ["kill", "hang"]:
    metrics = cases[name]["metrics"]
    assert 0 < metrics["recovery_detect_ns"] < metrics["recovery_ns"] < metrics["recovery_step_ns"], (name, metrics)
    assert metrics["recovery_detect_ns"] <= metrics["recovery_group_ns"] < metrics["recovery_ns"], (name, metrics)
assert "recovery_ns" not in cases["undisturbed"]["metrics"]
PY
    run "$bench" show last --db r.db # what the suite measures, of the two cases that lose ranks
    [ "$(grep -cE '^  recovery     detected in [0-9.]+ [mun]?s, resumed in [0-9.]+ [mun]?s, first step after [0-9.]+ [mun]?s(, at the step of the fault again after [0-9.]+ [mun]?s)?; mean of [0-9]+ faults?$' <<<"$output")" = 2 ]
    for title in detection group recovery 'first step'; do
        [ -z "$(column "$title" | head -1)" ]
        [[ $(column "$title" | tail -1) == *s ]]
    done
}

@test "a report of one rank alone has no section about ranks" {
    measure training --filter data1
    [[ $(<r.md) != *"Several ranks"* ]]
    [[ $(<r.html) != *"id=ranks"* ]]
}
