// harness/store/statements.inl - statements of the store that rows.c does not make: X(enumerator,
// SQL). {KIND} stands for the columns of a kind of record (harness/record/fields.h)
X(BEGIN, "BEGIN IMMEDIATE")
X(BEGIN_READ, "BEGIN")
X(COMMIT, "COMMIT")
X(ROLLBACK, "ROLLBACK")
X(USER_VERSION, "PRAGMA user_version")
X(APPLICATION_ID, "PRAGMA application_id")
X(TABLE_COUNT, "SELECT count(*) FROM sqlite_schema")

// Recording. 'OR IGNORE' then a look-up: the row is stored once, whichever process is first.
X(SUITE_ADD, "INSERT OR IGNORE INTO suite({SUITE}) VALUES({?SUITE})")
X(SUITE_ID, "SELECT id FROM suite WHERE plan_hash=?")
X(BUILD_ADD, "INSERT OR IGNORE INTO build({BUILD}) VALUES({?BUILD})")
X(BUILD_ID, "SELECT id FROM build WHERE digest=?")
X(ENV_ADD, "INSERT OR IGNORE INTO env(digest, facts_digest) VALUES(?,?)")
X(ENV_ID, "SELECT id FROM env WHERE facts_digest=?")
X(SESSION_ADD, "INSERT INTO session(suite_id, build_id, env_id, command, out_dir, seed, status,"
               " message, started_ns, ended_ns, pid, pid_started, boot_id)"
               " VALUES(?,?,?,?,?,?,0,'',?,0,?,?,?)")
X(SESSION_OUT_DIR, "UPDATE session SET out_dir=? WHERE id=?")
X(SESSION_RECORDED, "UPDATE session SET recorded_ns=? WHERE id=(SELECT session_id FROM round"
                    " WHERE id=?)")
X(SESSION_LABEL, "UPDATE session SET name=ifnull(?,name), note=ifnull(?,note) WHERE id=?")
X(SESSION_END, "UPDATE session SET status=?, message=?, ended_ns=? WHERE id=?")
X(BENCH_ADD, "INSERT OR IGNORE INTO bench(name, kind) VALUES(?,?)")
X(BENCH_ID, "SELECT id FROM bench WHERE name=? AND kind=?")
X(CASE_ADD, "INSERT OR IGNORE INTO bench_case(bench_id, name, axes_json) VALUES(?,?,?)")
X(CASE_ID, "SELECT id FROM bench_case WHERE bench_id=? AND name=? AND axes_json=?")
X(ROUND_ADD, "INSERT INTO round(session_id, case_id, system, ordinal, status, message, started_ns,"
             " ended_ns) VALUES(?,?,?,?,0,'',?,0)")
X(ROUND_DESCRIBE, "WITH owner(id) AS (VALUES(?)) UPDATE round SET ({SHAPE}) = ({?SHAPE})"
                  " WHERE id=(SELECT id FROM owner)")
X(ROUND_LABEL, "UPDATE round SET label=? WHERE id=?")
X(FAULT_EXTEND, "UPDATE fault SET action=action||' '||? WHERE id=(SELECT max(id) FROM fault"
                " WHERE round_id=? AND step=? AND kind=?)")
X(TELEMETRY_DROP, "DELETE FROM telemetry WHERE round_id=?")
X(TELEMETRY_ADD, "INSERT INTO telemetry(round_id, count, columns, data) VALUES(?,?,?,?)")
X(ROUND_END, "UPDATE round SET status=?, message=?, params_digest=?, ended_ns=COALESCE("
             "(SELECT started_ns + CAST(value AS INTEGER) FROM measurement WHERE round_id=round.id"
             " AND metric='wall_time_ns'), ?) WHERE id=?")
X(MEASUREMENT_DROP, "DELETE FROM measurement WHERE round_id=? AND metric=?")
X(MEASUREMENT_ADD, "INSERT INTO measurement(round_id, metric, value, low, high)"
                   " VALUES(?,?,?,?,?)")
X(SAMPLES_ADD, "INSERT INTO samples(measurement_id, count, unit, data) VALUES(?,?,?,?)")
X(SESSION_COUNT, "SELECT count(*) FROM session WHERE id=?")
X(VERDICTS_DROP, "DELETE FROM verdict WHERE session_id=? AND kind=?")
X(CONTENT_ADD, "INSERT OR IGNORE INTO content(digest, data) VALUES(?,?)")
X(FILE_SET, "INSERT OR REPLACE INTO session_file(session_id, kind, name, content_id)"
            " VALUES(?,?,?,(SELECT id FROM content WHERE digest=?))")

// Importing: rows with their original times and states.
X(SESSION_IMPORT, "INSERT INTO session(id, suite_id, build_id, env_id, command, out_dir, seed,"
                  " status, message, started_ns, ended_ns, pid, pid_started, boot_id)"
                  " VALUES(nullif(?,0),?,?,?,?,?,?,?,?,?,?,0,0,'')")
X(ROUND_IMPORT, "INSERT INTO round(session_id, case_id, system, ordinal, status, message,"
                " started_ns, ended_ns, params_digest) VALUES(?,?,?,?,?,?,?,?,?)")

// The run with this begin, plan, build and environment: an imported one keeps its times.
X(SESSION_SAME, "SELECT ifnull(min(s.id), 0) FROM session s JOIN suite ON suite.id=s.suite_id"
                " JOIN build ON build.id=s.build_id JOIN env ON env.id=s.env_id"
                " WHERE s.started_ns=? AND suite.plan_hash=? AND build.digest=? AND env.digest=?")

// Reading
X(RUNS_RANGE, "SELECT ifnull(max(id), 0) FROM session")
X(RUN_NAMED, "SELECT ifnull(max(id), 0) FROM session WHERE name=?")
// The newest run before this one with the same suite, profile, and a case on a system: both passed.
X(RUN_BEFORE,
  "SELECT ifnull(max(o.id), 0) FROM session s JOIN suite a ON a.id=s.suite_id"
  " JOIN suite b ON b.name=a.name AND b.profile=a.profile"
  " JOIN session o ON o.suite_id=b.id AND o.id<s.id AND o.status=1"
  " WHERE s.id=? AND s.status=1 AND EXISTS(SELECT 1 FROM round x"
  " JOIN bench_case c ON c.id=x.case_id AND c.name<>'ceiling' AND c.name NOT GLOB 'ceiling.*'"
  " JOIN round y ON y.session_id=o.id AND y.system=x.system AND y.status=1"
  " JOIN bench_case d ON d.id=y.case_id AND d.name=c.name"
  " WHERE x.session_id=s.id AND x.status=1)")
X(RUN_BACK, "SELECT ifnull((SELECT id FROM session ORDER BY id DESC LIMIT 1 OFFSET ?), 0)")
X(RUN_NAMES, "SELECT DISTINCT name FROM session WHERE name<>'' ORDER BY name")
// A round that was repeated counts once, with its last steps.
#define LAST_ROUNDS                                                                                \
    "(SELECT max(id) AS last FROM round WHERE session_id=s.id GROUP BY case_id, system, ordinal)"
X(RUNS,
  "SELECT s.id, s.status, s.pid, s.pid_started, s.boot_id, s.started_ns, s.ended_ns,"
  " (SELECT count(*) FROM " LAST_ROUNDS "),"
  // Steps count from 0 without a gap, so the last one gives their number.
  " (SELECT total(steps) FROM (SELECT (SELECT max(step)+1 FROM step WHERE round_id=last)"
  " AS steps FROM " LAST_ROUNDS ")), build.git_diff<>'',"
  " suite.name, suite.profile, s.name, s.note,"
  " ifnull((SELECT path FROM artifact WHERE session_id=s.id AND kind='report' ORDER BY id DESC"
  " LIMIT 1), ''), build.git_commit"
  " FROM session s JOIN suite ON suite.id=s.suite_id"
  " JOIN build ON build.id=s.build_id ORDER BY s.id DESC")
#undef LAST_ROUNDS
X(POINTS,
  "SELECT r.session_id, b.name, c.name, r.system, b.kind, m.value, c.id, env.digest"
  " FROM round r JOIN session s ON s.id=r.session_id JOIN env ON env.id=s.env_id"
  " JOIN bench_case c ON c.id=r.case_id JOIN bench b ON b.id=c.bench_id"
  " JOIN measurement m ON m.round_id=r.id WHERE r.status=1 AND m.value IS NOT NULL AND"
  " m.metric=CASE WHEN b.kind IN ('kernel','command') THEN 'time_ns' ELSE 'tokens_per_s' END"
  " ORDER BY b.name, c.name, c.id, r.system, env.digest, r.session_id, r.id")
X(SESSION, "SELECT s.pid, s.pid_started, s.boot_id, s.env_id, env.digest, s.out_dir, s.name,"
           " s.note, {RUN s},"
           " {SUITE suite}, {BUILD build} FROM session s JOIN suite ON suite.id=s.suite_id"
           " JOIN build ON build.id=s.build_id JOIN env ON env.id=s.env_id WHERE s.id=?")
X(ROUNDS, "SELECT r.id, {ROUND r}, {CASE}, {SHAPE r} FROM round r"
          " JOIN bench_case c ON c.id=r.case_id JOIN bench ON bench.id=c.bench_id"
          " WHERE r.session_id=? ORDER BY r.id")
// What the seal of a round covers: every value except ids.
X(SEAL_ROUND,
  "SELECT r.ordinal, b.name, b.kind, c.name, c.axes_json, r.system, r.status, r.message,"
  " r.started_ns, r.ended_ns, r.device, r.precision, r.dataset, r.parameters, r.tensors,"
  " r.accumulation, r.steps, r.train_tokens, r.val_tokens, r.params_digest, r.label"
  " FROM round r JOIN bench_case c ON c.id=r.case_id JOIN bench b ON b.id=c.bench_id"
  " WHERE r.id=?")
X(SEAL_VALUES, "SELECT m.metric, m.value, m.low, m.high, s.count, s.unit, s.data FROM measurement m"
               " LEFT JOIN samples s ON s.measurement_id=m.id WHERE m.round_id=? ORDER BY m.metric")
X(SEAL_SET, "UPDATE round SET seal=? WHERE id=?")
X(SEAL_GET, "SELECT seal FROM round WHERE id=?")
X(MEASUREMENTS, "SELECT m.metric, m.value, m.low, m.high, s.count, s.data FROM measurement m"
                " LEFT JOIN samples s ON s.measurement_id=m.id WHERE m.round_id=?"
                " ORDER BY m.metric")
X(TELEMETRY, "SELECT count, columns, data FROM telemetry WHERE round_id=?")
X(FILES, "SELECT f.kind, f.name, c.data FROM session_file f JOIN content c ON c.id=f.content_id"
         " WHERE f.session_id=? ORDER BY f.kind")
X(HISTORY,
  "SELECT s.id, s.started_ns, r.ordinal, m.value, m.low, m.high, s.env_id, suite.name,"
  " ifnull(b.git_commit, build.git_commit), ifnull(b.git_diff, build.git_diff),"
  " r.system, c.axes_json, c.name, EXISTS(SELECT 1 FROM measurement t WHERE t.round_id=r.id"
  " AND t.metric IN ('time_median_ns', 'step_time_median_ns'))"
  " FROM bench_case c CROSS JOIN round r ON r.case_id=c.id"
  " JOIN measurement m ON m.round_id=r.id AND m.metric=?1"
  " JOIN session s ON s.id=r.session_id JOIN suite ON suite.id=s.suite_id"
  " JOIN build ON build.id=s.build_id"
  " LEFT JOIN session_system y ON y.session_id=s.id AND y.name=r.system"
  " LEFT JOIN build b ON b.id=y.build_id"
  " WHERE (c.name=?2 OR substr(c.name, 1, length(?2)+1)=?2||'.'"
  " AND NOT EXISTS(SELECT 1 FROM bench_case WHERE name=?2))"
  " AND r.status=1 AND (?3='' OR r.system=?3)"
  " AND ifnull(y.inject_slowdown, 0)=0 ORDER BY s.id, r.id")
X(CASE_NAMES, "SELECT DISTINCT name FROM bench_case ORDER BY name")

// Removing a run. A baseline of another database may name another run by the same number.
#define IS_SESSION                                                                                 \
    "json_extract(value, '$.run')=?1 AND ifnull(json_extract(value, '$.started_ns'), '') IN ('',"  \
    " (SELECT CAST(started_ns AS TEXT) FROM session WHERE id=?1))"
X(RUN_BASELINES,
  "SELECT DISTINCT name, machine FROM baseline b WHERE run>0 AND (run=?1 OR"
  " json_valid(document) AND EXISTS(SELECT 1 FROM json_each(b.document, '$.sessions')"
  " WHERE " IS_SESSION ")) ORDER BY name, machine")
X(RUN_VERDICTS,
  "SELECT DISTINCT f.session_id FROM session_file f JOIN content c ON c.id=f.content_id"
  " WHERE f.kind='baseline' AND f.session_id<>?1 AND json_valid(CAST(c.data AS TEXT))"
  " AND EXISTS(SELECT 1 FROM json_each(CAST(c.data AS TEXT), '$.sessions')"
  " WHERE " IS_SESSION ") ORDER BY f.session_id")
#undef IS_SESSION
X(RUN_FOLDERS, "SELECT id, out_dir FROM session WHERE out_dir<>'' AND id<>? ORDER BY id")
X(CHILDREN, "SELECT m.name, f.\"from\" FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f"
            " WHERE m.type='table' AND f.\"table\"=? ORDER BY m.name")
X(PAGE_COUNT, "PRAGMA page_count")
X(PAGE_SIZE, "PRAGMA page_size")

// Resuming a run
// The last sign of a process that was killed: its last write, or by older programs a round's end or
// begin with its steps, without start-up and validation.
X(RESUME_LOOK, "SELECT status, ended_ns, pid, pid_started, boot_id, max(started_ns, recorded_ns,"
               " ifnull((SELECT max(CASE WHEN ended_ns>0 THEN ended_ns ELSE started_ns"
               " + (SELECT ifnull(sum(host_ns), 0) FROM step WHERE round_id=r.id AND warmup=0) END)"
               " FROM round r WHERE session_id=s.id), 0))"
               " FROM session s WHERE id=?")
X(RESUME_ROUNDS, "UPDATE round SET status=?, message=? WHERE session_id=? AND status=0")
X(RESUME_SESSION, "UPDATE session SET status=0, message='', ended_ns=0, recorded_ns=?, pid=?,"
                  " pid_started=?, boot_id=? WHERE id=?")

// Progress of a run
X(LIVE_RUNNING, "SELECT id, pid, pid_started, boot_id FROM session WHERE status=0 ORDER BY id DESC")
X(LIVE_SESSION, "SELECT s.status, s.started_ns, s.ended_ns, s.pid, s.pid_started, s.boot_id,"
                " s.message, s.out_dir, suite.name, suite.profile, suite.plan_json,"
                " ifnull(o.kind, '') FROM session s JOIN suite ON suite.id=s.suite_id"
                " LEFT JOIN session_schedule o ON o.session_id=s.id WHERE s.id=?")
X(LIVE_COUNTS, "SELECT status, count(*), avg(ended_ns-started_ns) FROM round WHERE session_id=?"
               " GROUP BY status")
X(LIVE_SYSTEMS, "SELECT count(*) FROM session_system WHERE session_id=?")
X(LIVE_ROUNDS, "SELECT r.id, r.ordinal, bench.kind, c.name, r.system, r.message, r.status,"
               " r.started_ns, r.ended_ns, r.steps,"
               " (SELECT value FROM measurement WHERE round_id=r.id AND metric='time_ns'),"
               " (SELECT value FROM measurement WHERE round_id=r.id AND metric='tokens_per_s')"
               " FROM round r JOIN bench_case c ON c.id=r.case_id"
               " JOIN bench ON bench.id=c.bench_id WHERE r.session_id=? ORDER BY r.id DESC LIMIT ?")
X(LIVE_DONE, "SELECT count(*) FROM step WHERE round_id=?")
X(LIVE_SPENT, "SELECT (SELECT ifnull(sum(host_ns), 0) FROM step WHERE round_id=?1)"
              " + (SELECT ifnull(sum(host_ns), 0) FROM eval WHERE round_id=?1 AND step>0)")
X(LIVE_STEPS, "SELECT {STEP} FROM step WHERE round_id=? ORDER BY step DESC LIMIT ?")

// Baselines
X(BASELINE_ADD, "INSERT INTO baseline(name, machine, reason, run, created_ns, document)"
                " VALUES(?,?,?,?,?,?)")
X(BASELINE, "SELECT id, document, {BASELINE} FROM baseline"
            " WHERE name=?1 AND (?2='' OR machine=?2) ORDER BY id DESC LIMIT 1")
X(BASELINES, "SELECT id, {BASELINE} FROM baseline"
             " WHERE ?1='' OR name=?1 ORDER BY name, id DESC")
X(SCHEDULE_DROP, "DELETE FROM session_schedule WHERE session_id=?")
X(SYSTEMS_DROP, "DELETE FROM session_system WHERE session_id=?")
X(SYSTEM_ADD, "INSERT INTO session_system(session_id, position, name, program, inject_slowdown,"
              " build_id) VALUES(?,?,?,?,?,?)")
X(SYSTEMS, "SELECT {SYSTEM s}, {BUILD b} FROM session_system s JOIN build b ON b.id=s.build_id"
           " WHERE s.session_id=? ORDER BY s.position")
X(CALIBRATIONS_DROP, "DELETE FROM calibration WHERE session_id=?")
X(CALIBRATION_ADD, "INSERT INTO calibration({CALIBRATION}) VALUES({?CALIBRATION})")
X(CALIBRATION, "SELECT {CALIBRATION} FROM calibration WHERE environment=? AND card=? AND bench=?"
               " AND name=? AND metric=? ORDER BY rule_json=? DESC, id DESC LIMIT 1")
X(CALIBRATIONS, "SELECT {CALIBRATION} FROM calibration ORDER BY bench, name, metric, id DESC")
X(CALIBRATIONS_GLOB_COUNT, "SELECT count(*) FROM calibration WHERE name GLOB ?")
X(CALIBRATIONS_GLOB_DROP, "DELETE FROM calibration WHERE name GLOB ?")
X(SESSIONS_OF_KIND, "SELECT s.id FROM session s JOIN session_schedule o ON o.session_id=s.id"
                    " WHERE o.kind=? AND s.status=1 AND s.started_ns>=? AND s.id<>?"
                    " ORDER BY s.id DESC LIMIT ?")
