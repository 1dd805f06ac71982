// harness/record/fields.c - the table of all members
#include "harness/record/fields.h"

#include <string.h>

#include "harness/record/keep.h"

#define AS(record, type, member, key, column)                                                      \
    {                                                                                              \
        key, column, BT_FIELD_##type, offsetof(record, member)                                     \
    }
#define F(record, type, member)   AS(record, type, member, #member, #member)
#define SQL(record, type, member) AS(record, type, member, NULL, #member) // not in JSON

static const bt_field RUN_fields[] = {AS(bt_store_run, INTEGER, id, "run", "id"),
                                      F(bt_store_run, STATUS, status),
                                      F(bt_store_run, TEXT, message),
                                      AS(bt_store_run, TIME, started_ns, "started", "started_ns"),
                                      AS(bt_store_run, TIME, ended_ns, "ended", "ended_ns"),
                                      AS(bt_store_run, TEXT, info.command, "command", "command"),
                                      AS(bt_store_run, INTEGER, info.seed, "seed", "seed")};

static const bt_field SUITE_fields[] = {
    F(bt_store_suite, TEXT, name), F(bt_store_suite, TEXT, profile), F(bt_store_suite, TEXT, path),
    F(bt_store_suite, TEXT, plan_hash), SQL(bt_store_suite, TEXT, plan_json)};

static const bt_field BUILD_fields[] = {
    F(bt_store_build, TEXT, digest),     F(bt_store_build, TEXT, version),
    F(bt_store_build, TEXT, git_commit), F(bt_store_build, TEXT, git_diff),
    F(bt_store_build, TEXT, compiler),   F(bt_store_build, TEXT, flags),
    F(bt_store_build, TEXT, type),       F(bt_store_build, TEXT, cuda)};

static const bt_field SCHEDULE_fields[] = {F(bt_store_schedule, SEED, seed),
                                           F(bt_store_schedule, TEXT, kind),
                                           F(bt_store_schedule, TEXT, rule_json)};

static const bt_field GAP_fields[] = {AS(bt_store_gap, TIME, stopped_ns, "stopped", "stopped_ns"),
                                      AS(bt_store_gap, TIME, resumed_ns, "resumed", "resumed_ns"),
                                      F(bt_store_gap, STATUS, status)};

static const bt_field SYSTEM_fields[] = {F(bt_store_system, TEXT, name),
                                         F(bt_store_system, TEXT, program),
                                         F(bt_store_system, REAL, inject_slowdown)};

static const bt_field FACT_fields[] = {F(bt_store_fact, TEXT, key), F(bt_store_fact, TEXT, value),
                                       F(bt_store_fact, LEVEL, level)};

static const bt_field FILE_fields[] = {F(bt_store_file, TEXT, kind), F(bt_store_file, TEXT, name)};

static const bt_field VERDICT_fields[] = {
    F(bt_store_verdict, TEXT, kind),   F(bt_store_verdict, TEXT, subject),
    F(bt_store_verdict, TEXT, metric), F(bt_store_verdict, TEXT, verdict),
    F(bt_store_verdict, REAL, ratio),  F(bt_store_verdict, REAL, low),
    F(bt_store_verdict, REAL, high),   F(bt_store_verdict, INTEGER, rounds),
    F(bt_store_verdict, TEXT, reason), F(bt_store_verdict, TEXT, rule_json)};

static const bt_field ARTIFACT_fields[] = {
    SQL(bt_store_artifact, TEXT, kind), SQL(bt_store_artifact, TEXT, path),
    SQL(bt_store_artifact, INTEGER, size_bytes), SQL(bt_store_artifact, TEXT, digest)};

static const bt_field CALIBRATION_fields[] = {
    AS(bt_store_calibration, INTEGER, run, NULL, "session_id"),
    SQL(bt_store_calibration, TEXT, environment),
    SQL(bt_store_calibration, TEXT, card),
    SQL(bt_store_calibration, TEXT, bench),
    SQL(bt_store_calibration, TEXT, name),
    SQL(bt_store_calibration, TEXT, metric),
    SQL(bt_store_calibration, TEXT, rule_json),
    SQL(bt_store_calibration, INTEGER, pairs),
    SQL(bt_store_calibration, INTEGER, needed),
    SQL(bt_store_calibration, INTEGER, sessions),
    SQL(bt_store_calibration, INTEGER, made_ns),
    SQL(bt_store_calibration, REAL, false_alarm_rate),
    SQL(bt_store_calibration, REAL, false_alarm_high),
    SQL(bt_store_calibration, REAL, smallest),
    SQL(bt_store_calibration, REAL, smallest_high)};

// Without its number and, because lists omit it, its document.
static const bt_field BASELINE_fields[] = {
    SQL(bt_store_baseline, TEXT, name), SQL(bt_store_baseline, TEXT, machine),
    SQL(bt_store_baseline, TEXT, reason), SQL(bt_store_baseline, INTEGER, run),
    SQL(bt_store_baseline, INTEGER, created_ns)};

static const bt_field ROUND_fields[] = {
    F(bt_store_round, INTEGER, ordinal),
    F(bt_store_round, STATUS, status),
    F(bt_store_round, TEXT, message),
    F(bt_store_round, TEXT, params_digest),
    F(bt_store_round, TEXT, label),
    AS(bt_store_round, TIME, started_ns, "started", "started_ns"),
    AS(bt_store_round, TIME, ended_ns, "ended", "ended_ns")};

// Its members are in three tables, which every query names with these aliases.
static const bt_field CASE_fields[] = {
    AS(bt_store_case, TEXT, bench, "bench", "bench.name"),
    AS(bt_store_case, TEXT, kind, "kind", "bench.kind"),
    AS(bt_store_case, TEXT, name, "name", "c.name"),
    AS(bt_store_case, TEXT, axes_json, "axes_json", "c.axes_json"),
    AS(bt_store_case, TEXT, system, "system", "r.system")};

static const bt_field SHAPE_fields[] = {
    F(bt_store_shape, TEXT, device),       F(bt_store_shape, TEXT, precision),
    F(bt_store_shape, TEXT, dataset),      F(bt_store_shape, INTEGER, parameters),
    F(bt_store_shape, INTEGER, tensors),   F(bt_store_shape, INTEGER, accumulation),
    F(bt_store_shape, INTEGER, steps),     F(bt_store_shape, INTEGER, train_tokens),
    F(bt_store_shape, INTEGER, val_tokens)};

static const bt_field STEP_fields[] = {F(bt_store_step, INTEGER, step),
                                       F(bt_store_step, LOSS, loss),
                                       F(bt_store_step, FLOAT, grad_norm),
                                       F(bt_store_step, REAL, lr),
                                       F(bt_store_step, INTEGER, tokens),
                                       F(bt_store_step, INTEGER, host_ns),
                                       F(bt_store_step, INTEGER, device_ns),
                                       F(bt_store_step, INTEGER, allocated_bytes),
                                       F(bt_store_step, INTEGER, peak_allocated_bytes),
                                       F(bt_store_step, INTEGER, reserved_bytes),
                                       F(bt_store_step, INTEGER, resident_bytes),
                                       F(bt_store_step, BOOL, warmup),
                                       F(bt_store_step, BOOL, profiled)};

static const bt_field EVAL_fields[] = {
    F(bt_store_eval, INTEGER, step), F(bt_store_eval, REAL_LOSS, loss),
    F(bt_store_eval, INTEGER, tokens), F(bt_store_eval, INTEGER, host_ns)};

static const bt_field RANGE_fields[] = {
    F(bt_store_range, INTEGER, step), F(bt_store_range, TEXT, path),
    F(bt_store_range, INTEGER, count), F(bt_store_range, INTEGER, device_ns),
    F(bt_store_range, INTEGER, host_ns)};

static const bt_field KERNEL_fields[] = {F(bt_store_kernel, TEXT, op),
                                         F(bt_store_kernel, TEXT, kernel)};

static const bt_field SCORE_fields[] = {
    F(bt_store_score, INTEGER, step), F(bt_store_score, INTEGER, questions),
    F(bt_store_score, INTEGER, correct), F(bt_store_score, INTEGER, normalised_correct),
    F(bt_store_score, INTEGER, host_ns)};

static const bt_field STATE_fields[] = {F(bt_store_state, INTEGER, step),
                                        F(bt_store_state, TEXT, digest),
                                        F(bt_store_state, INTEGER, host_ns)};

static const bt_field LAUNCH_fields[] = {F(bt_store_launch, INTEGER, step),
                                         F(bt_store_launch, TEXT, way),
                                         F(bt_store_launch, TEXT, message)};

static const bt_field TIMELINE_fields[] = {
    F(bt_store_timeline, INTEGER, step),        F(bt_store_timeline, INTEGER, rank),
    F(bt_store_timeline, INTEGER, start_ns),    F(bt_store_timeline, INTEGER, time_ns),
    F(bt_store_timeline, INTEGER, products_ns), F(bt_store_timeline, INTEGER, attention_ns),
    F(bt_store_timeline, INTEGER, other_ns),    F(bt_store_timeline, INTEGER, communication_ns),
    F(bt_store_timeline, TEXT, work),           F(bt_store_timeline, TEXT, phases)};

static const bt_field GROUP_fields[] = {
    F(bt_store_group, TEXT, direction),       F(bt_store_group, TEXT, kind),
    F(bt_store_group, TEXT, kernel),          F(bt_store_group, TEXT, ops),
    F(bt_store_group, INTEGER, count),        F(bt_store_group, INTEGER, calls),
    F(bt_store_group, INTEGER, bytes_before), F(bt_store_group, INTEGER, bytes_after),
    F(bt_store_group, INTEGER, time_ns)};

static const bt_field GROUP_CALLS_fields[] = {F(bt_store_group_calls, TEXT, direction),
                                              F(bt_store_group_calls, TEXT, kernel),
                                              F(bt_store_group_calls, INTEGER, time_ns)};

static const bt_field FAULT_fields[] = {
    F(bt_store_fault, INTEGER, step), F(bt_store_fault, TEXT, kind),
    F(bt_store_fault, TEXT, action), F(bt_store_fault, TEXT, message)};

static const bt_field MEMORY_fields[] = {F(bt_store_memory, TEXT, phase),
                                         F(bt_store_memory, INTEGER, peak_allocated_bytes),
                                         F(bt_store_memory, INTEGER, peak_reserved_bytes),
                                         F(bt_store_memory, INTEGER, device_used_bytes),
                                         F(bt_store_memory, INTEGER, peak_resident_bytes)};

static const bt_field TELEMETRY_fields[] = {
#define SAMPLE(member, unit, description) F(bt_store_telemetry, REAL, member),
    BT_TELEMETRY_FIRST_LIST(SAMPLE)
#undef SAMPLE
#define SAMPLE(member, unit, description) F(bt_store_telemetry, KNOWN, member),
        BT_TELEMETRY_LATER_LIST(SAMPLE)
#undef SAMPLE
};

_Static_assert(sizeof(uint64_t) == sizeof(int64_t), "a seed is read as an int64_t");

const bt_fields *bt_fields_info(bt_fields_of kind)
{
    static const bt_fields kinds[BT_FIELDS_COUNT] = {
#define KIND(name, record)                                                                         \
    {name##_fields, sizeof name##_fields / sizeof name##_fields[0], sizeof(record)},
        BT_FIELDS_LIST(KIND)
#undef KIND
    };
    return &kinds[kind];
}

const bt_list *bt_round_lists(size_t *count)
{
#define LIST(kind, table, file, member, number)                                                    \
    {                                                                                              \
        BT_FIELDS_##kind, table, file, #member, offsetof(bt_store_round, member),                  \
            offsetof(bt_store_round, number)                                                       \
    }
    static const bt_list lists[] = {LIST(STEP, true, true, steps, step_count),
                                    LIST(EVAL, true, true, evals, eval_count),
                                    LIST(RANGE, true, true, ranges, range_count),
                                    LIST(KERNEL, true, false, kernels, kernel_count),
                                    LIST(SCORE, true, true, scores, score_count),
                                    LIST(STATE, true, true, states, state_count),
                                    LIST(LAUNCH, true, true, launches, launch_count),
                                    LIST(TIMELINE, true, true, timelines, timeline_count),
                                    LIST(GROUP, true, true, groups, group_count),
                                    LIST(GROUP_CALLS, true, true, group_calls, group_calls_count),
                                    LIST(FAULT, true, true, faults, fault_count),
                                    LIST(MEMORY, true, false, memory, memory_count),
                                    LIST(TELEMETRY, false, true, telemetry, telemetry_count)};
#undef LIST
    *count = sizeof lists / sizeof lists[0];
    return lists;
}

const void *bt_list_get(const bt_list *list, const bt_store_round *round, int64_t *count)
{
    const void *items = NULL;
    memcpy(&items, (const char *)round + list->items, sizeof items);
    memcpy(count, (const char *)round + list->count, sizeof *count);
    return items;
}

void bt_list_set(const bt_list *list, bt_store_round *round, const void *items, int64_t count)
{
    memcpy((char *)round + list->items, &items, sizeof items);
    memcpy((char *)round + list->count, &count, sizeof count);
}

bt_status bt_fields_keep(bt_arena *arena, bt_fields_of kind, void *item)
{
    const bt_fields *fields = bt_fields_info(kind);
    for (size_t i = 0; i < fields->count; i++) {
        if (fields->rows[i].type == BT_FIELD_TEXT) {
            const char **text = (const char **)((char *)item + fields->rows[i].offset);
            BT_TRY(bt_keep(arena, *text, text));
        }
    }
    return BT_OK;
}
