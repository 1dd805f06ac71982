// harness/store/statements.inl - every statement of the store: X(enumerator, SQL)
X(BEGIN, "BEGIN IMMEDIATE")
X(BEGIN_READ, "BEGIN")
X(COMMIT, "COMMIT")
X(ROLLBACK, "ROLLBACK")
X(USER_VERSION, "PRAGMA user_version")
X(APPLICATION_ID, "PRAGMA application_id")
X(TABLE_COUNT, "SELECT count(*) FROM sqlite_schema")

// Recording. 'OR IGNORE' then a look-up: the row is kept once, whoever came first.
X(SUITE_ADD, "INSERT OR IGNORE INTO suite(plan_hash, name, profile, path, plan_json)"
             " VALUES(?,?,?,?,?)")
X(SUITE_ID, "SELECT id FROM suite WHERE plan_hash=?")
X(BUILD_ADD, "INSERT OR IGNORE INTO build(digest, version, git_commit, git_diff, compiler, flags,"
             " type, cuda) VALUES(?,?,?,?,?,?,?,?)")
X(BUILD_ID, "SELECT id FROM build WHERE digest=?")
X(ENV_ADD, "INSERT OR IGNORE INTO env(digest, facts_digest) VALUES(?,?)")
X(ENV_ID, "SELECT id FROM env WHERE facts_digest=?")
X(FACT_ADD, "INSERT OR IGNORE INTO env_fact(env_id, key, value, level) VALUES(?,?,?,?)")
X(SESSION_ADD, "INSERT INTO session(suite_id, build_id, env_id, command, out_dir, seed, status,"
               " message, started_ns, ended_ns, pid, pid_started, boot_id)"
               " VALUES(?,?,?,?,?,?,0,'',?,0,?,?,?)")
X(SESSION_OUT_DIR, "UPDATE session SET out_dir=? WHERE id=?")
X(SESSION_END, "UPDATE session SET status=?, message=?, ended_ns=? WHERE id=?")
X(BENCH_ADD, "INSERT OR IGNORE INTO bench(name, kind) VALUES(?,?)")
X(BENCH_ID, "SELECT id FROM bench WHERE name=? AND kind=?")
X(CASE_ADD, "INSERT OR IGNORE INTO bench_case(bench_id, name, axes_json) VALUES(?,?,?)")
X(CASE_ID, "SELECT id FROM bench_case WHERE bench_id=? AND name=? AND axes_json=?")
X(ROUND_ADD, "INSERT INTO round(session_id, case_id, system, ordinal, status, message, started_ns,"
             " ended_ns) VALUES(?,?,?,?,0,'',?,0)")
X(ROUND_DESCRIBE, "UPDATE round SET device=?, precision=?, dataset=?, parameters=?, tensors=?,"
                  " accumulation=?, steps=?, train_tokens=?, val_tokens=? WHERE id=?")
X(ROUND_LABEL, "UPDATE round SET label=? WHERE id=?")
X(TELEMETRY_DROP, "DELETE FROM telemetry WHERE round_id=?")
X(TELEMETRY_ADD, "INSERT INTO telemetry(round_id, count, columns, data) VALUES(?,?,?,?)")
X(ROUND_END, "UPDATE round SET status=?, message=?, params_digest=?, ended_ns=COALESCE("
             "(SELECT started_ns + CAST(value AS INTEGER) FROM measurement WHERE round_id=round.id"
             " AND metric='wall_time_ns'), ?) WHERE id=?")
X(STEP_ADD, "INSERT INTO step(round_id, step, loss, loss_bits, grad_norm, lr, tokens, host_ns,"
            " device_ns, allocated_bytes, peak_allocated_bytes, reserved_bytes, resident_bytes,"
            " warmup, profiled) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
X(EVAL_ADD, "INSERT INTO eval(round_id, step, loss, tokens, host_ns) VALUES(?,?,?,?,?)")
X(RANGE_ADD, "INSERT INTO range_stat(round_id, step, path, count, device_ns, host_ns)"
             " VALUES(?,?,?,?,?,?) ON CONFLICT DO NOTHING")
X(KERNEL_ADD, "INSERT INTO kernel_use(round_id, op, kernel) VALUES(?,?,?)"
              " ON CONFLICT DO NOTHING")
X(SCORE_ADD, "INSERT INTO score(round_id, step, questions, correct, normalised_correct, host_ns) "
             "VALUES(?,?,?,?,?,?)")
X(FAULT_ADD, "INSERT INTO fault(round_id, step, kind, action, message) VALUES(?,?,?,?,?)")
X(MEMORY_ADD, "INSERT INTO memory(round_id, phase, peak_allocated_bytes, peak_reserved_bytes,"
              " device_used_bytes, peak_resident_bytes) VALUES(?,?,?,?,?,?)"
              " ON CONFLICT DO NOTHING")
X(MEASUREMENT_DROP, "DELETE FROM measurement WHERE round_id=? AND metric=?")
X(MEASUREMENT_ADD, "INSERT INTO measurement(round_id, metric, value, low, high)"
                   " VALUES(?,?,?,?,?)")
X(SAMPLES_ADD, "INSERT INTO samples(measurement_id, count, unit, data) VALUES(?,?,?,?)")
X(ARTIFACT_ADD, "INSERT INTO artifact(session_id, kind, path, size_bytes, digest)"
                " VALUES(?,?,?,?,?)")
X(SESSION_COUNT, "SELECT count(*) FROM session WHERE id=?")
X(VERDICTS_DROP, "DELETE FROM verdict WHERE session_id=? AND kind=?")
X(VERDICT_ADD, "INSERT INTO verdict(session_id, kind, subject, metric, verdict, ratio, low, high,"
               " rounds, reason, rule_json) VALUES(?,?,?,?,?,?,?,?,?,?,?)")
X(CONTENT_ADD, "INSERT OR IGNORE INTO content(digest, data) VALUES(?,?)")
X(FILE_SET, "INSERT OR REPLACE INTO session_file(session_id, kind, name, content_id)"
            " VALUES(?,?,?,(SELECT id FROM content WHERE digest=?))")

// Importing: rows with the times and states that they had.
X(SESSION_IMPORT, "INSERT INTO session(id, suite_id, build_id, env_id, command, out_dir, seed,"
                  " status, message, started_ns, ended_ns, pid, pid_started, boot_id)"
                  " VALUES(nullif(?,0),?,?,?,?,?,?,?,?,?,?,0,0,'')")
X(ROUND_IMPORT, "INSERT INTO round(session_id, case_id, system, ordinal, status, message,"
                " started_ns, ended_ns, params_digest) VALUES(?,?,?,?,?,?,?,?,?)")

// The run of this moment, plan, build and environment: an imported one keeps its times.
X(SESSION_SAME, "SELECT ifnull(min(s.id), 0) FROM session s JOIN suite ON suite.id=s.suite_id"
                " JOIN build ON build.id=s.build_id JOIN env ON env.id=s.env_id"
                " WHERE s.started_ns=? AND suite.plan_hash=? AND build.digest=? AND env.digest=?")

// Reading
X(RUNS_COUNT, "SELECT count(*) FROM session")
X(RUNS_RANGE, "SELECT ifnull(max(id), 0) FROM session")
X(RUNS, "SELECT s.id, suite.name, suite.profile, s.status, s.started_ns, s.ended_ns, s.pid,"
        " s.pid_started, s.boot_id, (SELECT count(*) FROM round WHERE session_id=s.id),"
        // Steps count from 0 without a gap, so the last one says how many there are.
        " (SELECT total(steps) FROM (SELECT (SELECT max(step)+1 FROM step WHERE round_id=round.id)"
        " AS steps FROM round WHERE session_id=s.id))"
        " FROM session s JOIN suite ON suite.id=s.suite_id ORDER BY s.id DESC")
X(SESSION, "SELECT s.status, s.message, s.started_ns, s.ended_ns, s.pid, s.pid_started, s.boot_id,"
           " s.command, s.out_dir, s.seed, s.env_id, suite.plan_hash, suite.name, suite.profile,"
           " suite.path, suite.plan_json, build.digest, build.version, build.git_commit,"
           " build.git_diff, build.compiler, build.flags, build.type, build.cuda, env.digest"
           " FROM session s JOIN suite ON suite.id=s.suite_id JOIN build ON build.id=s.build_id"
           " JOIN env ON env.id=s.env_id WHERE s.id=?")
X(FACTS_COUNT, "SELECT count(*) FROM env_fact WHERE env_id=?")
X(FACTS, "SELECT key, value, level FROM env_fact WHERE env_id=? ORDER BY key")
X(ROUNDS_COUNT, "SELECT count(*) FROM round WHERE session_id=?")
X(ROUNDS, "SELECT r.id, r.ordinal, bench.name, bench.kind, c.name, c.axes_json, r.system, r.device,"
          " r.precision, r.dataset, r.parameters, r.tensors, r.accumulation, r.steps,"
          " r.train_tokens, r.val_tokens, r.status, r.message, r.params_digest, r.started_ns,"
          " r.ended_ns, r.label FROM round r JOIN bench_case c ON c.id=r.case_id"
          " JOIN bench ON bench.id=c.bench_id WHERE r.session_id=? ORDER BY r.id")
// What the seal of a round covers: every value but ids.
X(SEAL_ROUND,
  "SELECT r.ordinal, b.name, b.kind, c.name, c.axes_json, r.system, r.status, r.message,"
  " r.started_ns, r.ended_ns, r.device, r.precision, r.dataset, r.parameters, r.tensors,"
  " r.accumulation, r.steps, r.train_tokens, r.val_tokens, r.params_digest, r.label"
  " FROM round r JOIN bench_case c ON c.id=r.case_id JOIN bench b ON b.id=c.bench_id"
  " WHERE r.id=?")
X(SEAL_STEPS, "SELECT step, loss, loss_bits, grad_norm, lr, tokens, host_ns, device_ns,"
              " allocated_bytes, peak_allocated_bytes, reserved_bytes, resident_bytes, warmup,"
              " profiled FROM step WHERE round_id=? ORDER BY step")
X(SEAL_EVALS, "SELECT step, loss, tokens, host_ns FROM eval WHERE round_id=? ORDER BY step")
X(SEAL_RANGES, "SELECT step, path, count, device_ns, host_ns FROM range_stat WHERE round_id=?"
               " ORDER BY id")
X(SEAL_KERNELS, "SELECT op, kernel FROM kernel_use WHERE round_id=? ORDER BY op, kernel")
X(SEAL_FAULTS, "SELECT step, kind, action, message FROM fault WHERE round_id=? ORDER BY id")
X(SEAL_SCORES, "SELECT step, questions, correct, normalised_correct, host_ns FROM score"
               " WHERE round_id=? ORDER BY step")
X(SEAL_MEMORY, "SELECT phase, peak_allocated_bytes, peak_reserved_bytes, device_used_bytes,"
               " peak_resident_bytes FROM memory WHERE round_id=? ORDER BY id")
X(SEAL_VALUES, "SELECT m.metric, m.value, m.low, m.high, s.count, s.unit, s.data FROM measurement m"
               " LEFT JOIN samples s ON s.measurement_id=m.id WHERE m.round_id=? ORDER BY m.metric")
X(SEAL_TELEMETRY, "SELECT count, columns, data FROM telemetry WHERE round_id=?")
X(SEAL_SET, "UPDATE round SET seal=? WHERE id=?")
X(SEAL_GET, "SELECT seal FROM round WHERE id=?")
X(STEPS_COUNT, "SELECT count(*) FROM step WHERE round_id=?")
X(STEPS, "SELECT step, loss_bits, grad_norm, lr, tokens, host_ns, device_ns, allocated_bytes,"
         " peak_allocated_bytes, reserved_bytes, resident_bytes, warmup, profiled FROM step"
         " WHERE round_id=? ORDER BY step")
X(EVALS_COUNT, "SELECT count(*) FROM eval WHERE round_id=?")
X(EVALS, "SELECT step, loss, tokens, host_ns FROM eval WHERE round_id=? ORDER BY step")
X(RANGES_COUNT, "SELECT count(*) FROM range_stat WHERE round_id=?")
X(RANGES, "SELECT step, path, count, device_ns, host_ns FROM range_stat WHERE round_id=?"
          " ORDER BY id")
X(KERNELS_COUNT, "SELECT count(*) FROM kernel_use WHERE round_id=?")
X(KERNELS, "SELECT op, kernel FROM kernel_use WHERE round_id=? ORDER BY op, kernel")
X(SCORES_COUNT, "SELECT count(*) FROM score WHERE round_id=?")
X(SCORES, "SELECT step, questions, correct, normalised_correct, host_ns FROM score WHERE "
          "round_id=? ORDER BY step")
X(FAULTS_COUNT, "SELECT count(*) FROM fault WHERE round_id=?")
X(FAULTS, "SELECT step, kind, action, message FROM fault WHERE round_id=? ORDER BY id")
X(MEMORIES_COUNT, "SELECT count(*) FROM memory WHERE round_id=?")
X(MEMORIES, "SELECT phase, peak_allocated_bytes, peak_reserved_bytes, device_used_bytes,"
            " peak_resident_bytes FROM memory WHERE round_id=? ORDER BY id")
X(MEASUREMENTS_COUNT, "SELECT count(*) FROM measurement WHERE round_id=?")
X(MEASUREMENTS, "SELECT m.metric, m.value, m.low, m.high, s.count, s.data FROM measurement m"
                " LEFT JOIN samples s ON s.measurement_id=m.id WHERE m.round_id=?"
                " ORDER BY m.metric")
X(TELEMETRY, "SELECT count, columns, data FROM telemetry WHERE round_id=?")
X(FILES_COUNT, "SELECT count(*) FROM session_file WHERE session_id=?")
X(FILES, "SELECT f.kind, f.name, c.data FROM session_file f JOIN content c ON c.id=f.content_id"
         " WHERE f.session_id=? ORDER BY f.kind")
X(ARTIFACTS_COUNT, "SELECT count(*) FROM artifact WHERE session_id=?")
X(ARTIFACTS, "SELECT kind, path, size_bytes, digest FROM artifact WHERE session_id=? ORDER BY id")
X(VERDICTS_COUNT, "SELECT count(*) FROM verdict WHERE session_id=?")
X(VERDICTS, "SELECT kind, subject, metric, verdict, reason, rule_json, ratio, low, high, rounds"
            " FROM verdict WHERE session_id=? ORDER BY kind, id")
#define HISTORY_FROM                                                                               \
    " FROM bench_case c CROSS JOIN round r ON r.case_id=c.id"                                      \
    " JOIN measurement m ON m.round_id=r.id AND m.metric=?"                                        \
    " JOIN session s ON s.id=r.session_id JOIN suite ON suite.id=s.suite_id"                       \
    " JOIN build ON build.id=s.build_id"                                                           \
    " LEFT JOIN session_system y ON y.session_id=s.id AND y.name=r.system"                         \
    " LEFT JOIN build b ON b.id=y.build_id"                                                        \
    " WHERE c.name=? AND r.status=1 AND (?='' OR r.system=?)"                                      \
    " AND ifnull(y.inject_slowdown, 0)=0"
X(HISTORY_COUNT, "SELECT count(*)" HISTORY_FROM)
X(HISTORY,
  "SELECT s.id, s.started_ns, r.ordinal, m.value, m.low, m.high, s.env_id, suite.name,"
  " ifnull(b.git_commit, build.git_commit), ifnull(b.git_diff, build.git_diff),"
  " r.system, c.axes_json, EXISTS(SELECT 1 FROM measurement t WHERE t.round_id=r.id"
  " AND t.metric IN ('time_median_ns', 'step_time_median_ns'))" HISTORY_FROM " ORDER BY s.id, r.id")
#undef HISTORY_FROM
X(CASE_NAMES, "SELECT DISTINCT name FROM bench_case ORDER BY name")

// Removing a run
X(RUN_BASELINES,
  "SELECT DISTINCT name, machine FROM baseline b WHERE run>0 AND (run=?1 OR"
  " json_valid(document) AND EXISTS(SELECT 1 FROM json_each(b.document, '$.sessions')"
  " WHERE json_extract(value, '$.run')=?1)) ORDER BY name, machine")
X(RUN_VERDICTS,
  "SELECT DISTINCT f.session_id FROM session_file f JOIN content c ON c.id=f.content_id"
  " WHERE f.kind='baseline' AND f.session_id<>?1 AND json_valid(CAST(c.data AS TEXT))"
  " AND EXISTS(SELECT 1 FROM json_each(CAST(c.data AS TEXT), '$.sessions')"
  " WHERE json_extract(value, '$.run')=?1) ORDER BY f.session_id")
X(REMOVE_SAMPLES, "DELETE FROM samples WHERE measurement_id IN (SELECT m.id FROM measurement m"
                  " JOIN round r ON r.id=m.round_id WHERE r.session_id=?)")
#define REMOVE_OF_ROUNDS(table)                                                                    \
    "DELETE FROM " table " WHERE round_id IN (SELECT id FROM round WHERE session_id=?)"
X(REMOVE_MEASUREMENTS, REMOVE_OF_ROUNDS("measurement"))
X(REMOVE_STEPS, REMOVE_OF_ROUNDS("step"))
X(REMOVE_EVALS, REMOVE_OF_ROUNDS("eval"))
X(REMOVE_RANGES, REMOVE_OF_ROUNDS("range_stat"))
X(REMOVE_KERNELS, REMOVE_OF_ROUNDS("kernel_use"))
X(REMOVE_SCORES, REMOVE_OF_ROUNDS("score"))
X(REMOVE_FAULTS, REMOVE_OF_ROUNDS("fault"))
X(REMOVE_MEMORY, REMOVE_OF_ROUNDS("memory"))
X(REMOVE_TELEMETRY, REMOVE_OF_ROUNDS("telemetry"))
#undef REMOVE_OF_ROUNDS
X(REMOVE_ROUNDS, "DELETE FROM round WHERE session_id=?")
X(REMOVE_ARTIFACTS, "DELETE FROM artifact WHERE session_id=?")
X(REMOVE_VERDICTS, "DELETE FROM verdict WHERE session_id=?")
X(REMOVE_FILES, "DELETE FROM session_file WHERE session_id=?")
X(REMOVE_SCHEDULE, "DELETE FROM session_schedule WHERE session_id=?")
X(REMOVE_SYSTEMS, "DELETE FROM session_system WHERE session_id=?")
X(REMOVE_GAPS, "DELETE FROM session_gap WHERE session_id=?")
X(REMOVE_CALIBRATIONS, "DELETE FROM calibration WHERE session_id=?")
X(REMOVE_SESSION, "DELETE FROM session WHERE id=?")
X(REMOVE_UNUSED_CONTENT,
  "DELETE FROM content WHERE id NOT IN (SELECT content_id FROM session_file)")
X(REMOVE_UNUSED_SUITES, "DELETE FROM suite WHERE id NOT IN (SELECT suite_id FROM session)")
X(REMOVE_UNUSED_BUILDS, "DELETE FROM build WHERE id NOT IN (SELECT build_id FROM session)"
                        " AND id NOT IN (SELECT build_id FROM session_system)")
X(REMOVE_UNUSED_FACTS, "DELETE FROM env_fact WHERE env_id NOT IN (SELECT env_id FROM session)")
X(REMOVE_UNUSED_ENVS, "DELETE FROM env WHERE id NOT IN (SELECT env_id FROM session)")
X(REMOVE_UNUSED_CASES, "DELETE FROM bench_case WHERE id NOT IN (SELECT case_id FROM round)")
X(PAGE_COUNT, "PRAGMA page_count")
X(PAGE_SIZE, "PRAGMA page_size")

// Taking up a run again
X(RESUME_LOOK,
  "SELECT status, ended_ns, pid, pid_started, boot_id, max(started_ns,"
  " ifnull((SELECT max(max(started_ns, ended_ns)) FROM round WHERE session_id=s.id), 0))"
  " FROM session s WHERE id=?")
X(RESUME_ROUNDS, "UPDATE round SET status=?, message=? WHERE session_id=? AND status=0")
X(RESUME_SESSION, "UPDATE session SET status=0, message='', ended_ns=0, pid=?, pid_started=?,"
                  " boot_id=? WHERE id=?")
X(GAP_ADD, "INSERT INTO session_gap(session_id, stopped_ns, resumed_ns, status) VALUES(?,?,?,?)")
X(GAPS_COUNT, "SELECT count(*) FROM session_gap WHERE session_id=?")
X(GAPS, "SELECT stopped_ns, resumed_ns, status FROM session_gap WHERE session_id=? ORDER BY id")

// How far a run is
X(LIVE_RUNNING, "SELECT id, pid, pid_started, boot_id FROM session WHERE status=0 ORDER BY id DESC")
X(LIVE_SESSION, "SELECT s.status, s.started_ns, s.ended_ns, s.pid, s.pid_started, s.boot_id,"
                " s.message, s.out_dir, suite.name, suite.profile, suite.plan_json,"
                " ifnull(o.kind, '') FROM session s JOIN suite ON suite.id=s.suite_id"
                " LEFT JOIN session_schedule o ON o.session_id=s.id WHERE s.id=?")
X(LIVE_COUNTS, "SELECT status, count(*), avg(ended_ns-started_ns) FROM round WHERE session_id=?"
               " GROUP BY status")
X(LIVE_SYSTEMS, "SELECT count(DISTINCT system) FROM round WHERE session_id=?")
X(LIVE_ROUNDS, "SELECT r.id, r.ordinal, bench.kind, c.name, r.system, r.message, r.status,"
               " r.started_ns, r.ended_ns, r.steps,"
               " (SELECT value FROM measurement WHERE round_id=r.id AND metric='time_ns'),"
               " (SELECT value FROM measurement WHERE round_id=r.id AND metric='tokens_per_s')"
               " FROM round r JOIN bench_case c ON c.id=r.case_id"
               " JOIN bench ON bench.id=c.bench_id WHERE r.session_id=? ORDER BY r.id DESC LIMIT ?")
X(LIVE_STEPS, "SELECT step, loss_bits, grad_norm, lr, tokens, host_ns, device_ns, allocated_bytes,"
              " peak_allocated_bytes, reserved_bytes, resident_bytes, warmup, profiled FROM step"
              " WHERE round_id=? ORDER BY step DESC LIMIT ?")

// Baselines
X(BASELINE_ADD, "INSERT INTO baseline(name, machine, reason, run, created_ns, document)"
                " VALUES(?,?,?,?,?,?)")
X(BASELINE, "SELECT name, machine, reason, document, id, run, created_ns FROM baseline"
            " WHERE name=?1 AND (?2='' OR machine=?2) ORDER BY id DESC LIMIT 1")
X(BASELINES_COUNT, "SELECT count(*) FROM baseline WHERE ?1='' OR name=?1")
X(BASELINES, "SELECT name, machine, reason, id, run, created_ns FROM baseline"
             " WHERE ?1='' OR name=?1 ORDER BY name, id DESC")
X(SCHEDULE_DROP, "DELETE FROM session_schedule WHERE session_id=?")
X(SYSTEMS_DROP, "DELETE FROM session_system WHERE session_id=?")
X(SCHEDULE_ADD, "INSERT INTO session_schedule(session_id, seed, kind, rule_json) VALUES(?,?,?,?)")
X(SYSTEM_ADD, "INSERT INTO session_system(session_id, position, name, program, inject_slowdown,"
              " build_id) VALUES(?,?,?,?,?,?)")
X(SCHEDULE, "SELECT seed, kind, rule_json FROM session_schedule WHERE session_id=?")
X(SYSTEMS_COUNT, "SELECT count(*) FROM session_system WHERE session_id=?")
X(SYSTEMS, "SELECT s.name, s.program, b.digest, b.version, b.git_commit, b.git_diff, b.compiler,"
           " b.flags, b.type, b.cuda, s.inject_slowdown FROM session_system s"
           " JOIN build b ON b.id=s.build_id WHERE s.session_id=? ORDER BY s.position")
X(CALIBRATIONS_DROP, "DELETE FROM calibration WHERE session_id=?")
X(CALIBRATION_ADD, "INSERT INTO calibration(session_id, environment, card, bench, name, metric,"
                   " rule_json, pairs, needed, sessions, made_ns, false_alarm_rate,"
                   " false_alarm_high, smallest, smallest_high)"
                   " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
#define CALIBRATION_COLUMNS                                                                        \
    "SELECT environment, card, bench, name, metric, rule_json, session_id, pairs, needed,"         \
    " sessions, made_ns, false_alarm_rate, false_alarm_high, smallest, smallest_high"              \
    " FROM calibration"
X(CALIBRATION, CALIBRATION_COLUMNS " WHERE environment=? AND card=? AND bench=? AND name=?"
                                   " AND metric=? ORDER BY rule_json=? DESC, id DESC LIMIT 1")
X(CALIBRATIONS_COUNT, "SELECT count(*) FROM calibration WHERE id>?")
X(CALIBRATIONS, CALIBRATION_COLUMNS " WHERE id>? ORDER BY bench, name, metric, id DESC")
#undef CALIBRATION_COLUMNS
X(CALIBRATIONS_GLOB_COUNT, "SELECT count(*) FROM calibration WHERE name GLOB ?")
X(CALIBRATIONS_GLOB_DROP, "DELETE FROM calibration WHERE name GLOB ?")
X(SESSIONS_OF_KIND, "SELECT s.id FROM session s JOIN session_schedule o ON o.session_id=s.id"
                    " WHERE o.kind=? AND s.status=1 AND s.started_ns>=? AND s.id<>?"
                    " ORDER BY s.id DESC LIMIT ?")
