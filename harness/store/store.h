// harness/store/store.h - the record of every run, in SQLite
//
// A run is a row of `session`; it has rounds (one worker process, one case), and a round has steps,
// evaluations, ranges, kernels, memory and measurements. Suites, builds and environments are stored
// once per digest. No other folder contains SQL.
//
// Invariants
//   1. A row is either completely in the database or not at all; flushed rows survive a kill.
//   2. The write lock is held only while a flush runs (milliseconds), so several runs record into
//      one database at once.
//   3. Rows of one round reach the database in the order in which they were given.
//   4. A run whose process ended without recording its end reads as 'interrupted', and so do its
//      rounds.
//   5. Losses are read with their recorded bits, including NaN.
//
// Text arguments are UTF-8 and copied; NULL counts as "". A handle belongs to
// one thread. Every fallible call's message names the database file.
// Errors common to all calls that touch the file: IO (missing, unwritable, disk full),
// UNAVAILABLE (locked for longer than the timeout, or damaged: exit code 4), OUT_OF_MEMORY.
#ifndef BT_HARNESS_STORE_STORE_H
#define BT_HARNESS_STORE_STORE_H

#include "harness/record/fields.h"

typedef struct bt_store bt_store;

// What a read fills in is in its arena; type_release frees it.
#define BT_STORE_RELEASED(type)                                                                    \
    static inline void type##_release(type *read)                                                  \
    {                                                                                              \
        bt_arena_release(&read->arena);                                                            \
        *read = (type){0};                                                                         \
    }

// ---- open and close ----------------------------------------------------------------------------

typedef enum bt_store_mode {
    BT_STORE_READ,  // the file must exist and is not changed, even if it is of an older version
    BT_STORE_AMEND, // the file must exist; verdicts and similar rows are added
    BT_STORE_WRITE  // created if missing, with its folder
} bt_store_mode;

// Owns    the caller, until bt_store_close
// Errors  UNSUPPORTED: "database is of version N, this program knows up to M";
//         UNAVAILABLE: damaged, or not a database of bt-bench
BT_CHECKED bt_status bt_store_open(const char *path, bt_store_mode mode, bt_store **out);
// Flushes and closes; the handle is freed in any case. NULL is allowed.
BT_CHECKED bt_status bt_store_close(bt_store *store);
// A store that is open for reading, as a local that is closed where its block ends:
// BT_SCOPED(bt_store_reader) store = NULL. It has nothing to write, so closing it cannot fail.
typedef bt_store *bt_store_reader;
void bt_store_reader_release(bt_store_reader *store);
// How long a call waits for another writer; 10 s initially.
void bt_store_set_timeout(bt_store *store, int timeout_ms);
// The path it was opened with; borrowed, lives as long as the store.
const char *bt_store_path(const bt_store *store);
// Whether the file was removed or replaced after it was opened: what is recorded is lost on close.
bool bt_store_is_removed(const bt_store *store);

// ---- recording ---------------------------------------------------------------------------------
// begin, end, describe, measure and artifact are in the database when they return. step, eval,
// range, kernel and memory (of which the first of its kind counts) are queued and written together:
// when the last flush is half a second old, when 512 rows are queued, and before any of the former.
// A failed flush keeps its rows for the next one; a call fails if the queue is full and cannot be
// written.

// Starts a run, owned by the calling process.
BT_CHECKED bt_status bt_store_run_begin(bt_store *store, const bt_store_run_info *info,
                                        int64_t *run);
// Sets the folder of its files, after the run's number is known.
BT_CHECKED bt_status bt_store_run_set_out_dir(bt_store *store, int64_t run, const char *out_dir);
// Sets the user's name and note of the run; NULL: unchanged.
// Errors  INVALID_ARGUMENT (no such run)
BT_CHECKED bt_status bt_store_run_label(bt_store *store, int64_t run, const char *name,
                                        const char *note);
// The newest run of this name, and the one `back` runs before the newest of all; 0: none.
BT_CHECKED bt_status bt_store_run_named(bt_store *store, const char *name, int64_t *run);
BT_CHECKED bt_status bt_store_run_back(bt_store *store, int64_t back, int64_t *run);
// The newest earlier run that can be compared with this one: both passed, with the same suite and
// profile, and with a case, other than a ceiling, on the same system; 0: none.
BT_CHECKED bt_status bt_store_run_before(bt_store *store, int64_t run, int64_t *earlier);
// Appends the names of runs, each once, separated by '|'.
BT_CHECKED bt_status bt_store_run_names(bt_store *store, bt_str *out);
// status must not be RUNNING. message: why it failed, "" otherwise.
BT_CHECKED bt_status bt_store_run_end(bt_store *store, int64_t run, bt_run_status status,
                                      const char *message);
// Resumes a run that was interrupted, lost its process or failed: it is running again, owned by the
// calling process; rounds that had begun and not ended become interrupted; the gap is recorded.
// Errors  INVALID_ARGUMENT (no such run, still running, passed)
BT_CHECKED bt_status bt_store_run_resume(bt_store *store, int64_t run);
// `ordinal` counts the rounds of one case and system from 0. A round that ended without passing may
// be repeated under its ordinal; it passes at most once.
BT_CHECKED bt_status bt_store_round_begin(bt_store *store, int64_t run, const bt_store_case *what,
                                          int64_t ordinal, int64_t *round);
BT_CHECKED bt_status bt_store_round_describe(bt_store *store, int64_t round,
                                             const bt_store_shape *shape);
// params_digest "" if there is none.
BT_CHECKED bt_status bt_store_round_end(bt_store *store, int64_t round, bt_run_status status,
                                        const char *message, const char *params_digest);
// bt_store_step_add(store, round, step) and so on, for each record of a round; and any of them.
#define BT_STORE_SERIES_ADD(name, kind)                                                            \
    BT_CHECKED bt_status bt_store_##name##_add(bt_store *store, int64_t round,                     \
                                               const bt_store_##name *name);
BT_STORE_SERIES_LIST(BT_STORE_SERIES_ADD)
#undef BT_STORE_SERIES_ADD
BT_CHECKED bt_status bt_store_record_add(bt_store *store, int64_t round, bt_fields_of kind,
                                         const void *record);
// Appends `text` to the action of the round's last fault of this step and kind, if there is one.
BT_CHECKED bt_status bt_store_fault_extend(bt_store *store, int64_t round, int64_t step,
                                           const char *kind, const char *text);
// Replaces an earlier measurement of the same metric of the round.
BT_CHECKED bt_status bt_store_measure(bt_store *store, int64_t round,
                                      const bt_store_measurement *measurement);
// Telemetry samples [count] of the round, and its label ("": none). Replaces earlier ones.
// Errors  INVALID_ARGUMENT (no such round)
BT_CHECKED bt_status bt_store_telemetry_set(bt_store *store, int64_t round, const char *label,
                                            const bt_store_telemetry *samples, int64_t count);
BT_CHECKED bt_status bt_store_artifact_add(bt_store *store, int64_t run,
                                           const bt_store_artifact *artifact);
// Replaces all verdicts of one kind; each item's `kind` is ignored. All are written, or none.
// Errors  INVALID_ARGUMENT (no such run)
BT_CHECKED bt_status bt_store_verdicts_set(bt_store *store, int64_t run, const char *kind,
                                           const bt_store_verdict *verdicts, int64_t count);
// Sets, or replaces, the order of a run's rounds.
BT_CHECKED bt_status bt_store_schedule_set(bt_store *store, int64_t run,
                                           const bt_store_schedule *schedule);
// Replaces all calibrations made from a run; each item's `run` is ignored.
BT_CHECKED bt_status bt_store_calibrations_set(bt_store *store, int64_t run,
                                               const bt_store_calibration *list, int64_t count);
// Keeps a copy of the file's bytes; replaces an earlier one of the same kind.
BT_CHECKED bt_status bt_store_file_set(bt_store *store, int64_t run, const bt_store_file *file);
// Flushes if rows have been queued for half a second. Call it when the event loop is idle.
BT_CHECKED bt_status bt_store_tick(bt_store *store);
BT_CHECKED bt_status bt_store_flush(bt_store *store);

// ---- reading -----------------------------------------------------------------------------------

// Reads everything of one run, in one transaction.
// Owns    the caller, until bt_store_run_release; independent of the store
// Errors  INVALID_ARGUMENT if there is no such run: lists the existing ones
BT_CHECKED bt_status bt_store_run_read(bt_store *store, int64_t run, bt_store_run *out);
// The newest calibration of a case in an environment on a card: by the rule of `of`, or if there is
// none by another rule; *found says whether there is one.
// Owns    its texts are in the arena
BT_CHECKED bt_status bt_store_calibration_find(bt_store *store, const bt_store_calibration *of,
                                               bt_arena *arena, bt_store_calibration *out,
                                               bool *found);
// All of them, by case, newest first.
// Owns    in the arena
BT_CHECKED bt_status bt_store_calibrations_list(bt_store *store, bt_arena *arena,
                                                const bt_store_calibration **list, int64_t *count);
// Removes those whose case matches a glob; *removed: their number.
BT_CHECKED bt_status bt_store_calibrations_remove(bt_store *store, const char *glob,
                                                  int64_t *removed);
// The newest runs of a kind of schedule that passed and began at since_ns or later, except
// `except`: numbers [<= room] written, their number in *count.
BT_CHECKED bt_status bt_store_sessions_of(bt_store *store, const char *kind, int64_t since_ns,
                                          int64_t except, int64_t *numbers, int64_t room,
                                          int64_t *count);
// Writes a run that was read from this or another database: all of it or nothing. Artifacts are
// omitted, since their files are elsewhere. With `number` its number is kept (and must be free),
// otherwise it gets the next one; *id is its number. Errors: INVALID_ARGUMENT (it is still running;
// the number is taken)
BT_CHECKED bt_status bt_store_run_import(bt_store *store, const bt_store_run *run, bool number,
                                         int64_t *id);

// The number of the run in this database that began at the same time, with the same plan, build and
// environment: an earlier import of it; 0: none.
BT_CHECKED bt_status bt_store_run_find(bt_store *store, const bt_store_run *run, int64_t *id);

// Appends the references to a run: "baseline main of nvidia-h200, the verdicts of run 9"; nothing
// if there are none. Errors  INVALID_ARGUMENT (no such run)
BT_CHECKED bt_status bt_store_run_references(bt_store *store, int64_t run, bt_str *out);
// Deletes a run, all of it or nothing, with everything that only it used. Errors: INVALID_ARGUMENT
// (no such run; it is still running)
BT_CHECKED bt_status bt_store_run_remove(bt_store *store, int64_t run);
// The first other run that recorded the same folder for its files; 0: none. Relative folders are
// relative to the working directory.
BT_CHECKED bt_status bt_store_run_beside(bt_store *store, int64_t run, const char *folder,
                                         int64_t *other);
// Returns unused space to the file system. Errors  UNAVAILABLE (in use)
BT_CHECKED bt_status bt_store_compact(bt_store *store, int64_t *freed_bytes);

// A line of the list of runs.
typedef struct bt_store_run_row {
    int64_t id;
    const char *suite, *profile;
    bt_run_status status;
    int64_t started_ns, ended_ns;
    int64_t round_count, step_count; // a repeated round counts once
    const char *name, *note;         // of the user; "": none
    const char *report;              // path of its page, "": none
    const char *git_commit;          // of its build, "": unknown
    bool modified;                   // the build had uncommitted changes
} bt_store_run_row;

typedef struct bt_store_run_list {
    bt_store_run_row *rows; // newest first
    int64_t count;
    bt_arena arena; // holds the rows
} bt_store_run_list;
BT_STORE_RELEASED(bt_store_run_list)

// Owns    the caller, until bt_store_run_list_release
BT_CHECKED bt_status bt_store_run_list_read(bt_store *store, bt_store_run_list *out);

// ---- index.c: a value per case, system and round over all runs ---------------------------------

// A round that passed and was timed.
typedef struct bt_store_point {
    int64_t run, case_id; // one case_id: the same case with the same settings
    const char *suite, *name, *system, *kind;
    const char *environment; // digest of the hard facts
    double value;            // ns of a call; tokens/s of a training case
} bt_store_point;

typedef struct bt_store_points {
    bt_store_point *rows; // by suite, case, system, environment and run
    int64_t count;
    bt_arena arena; // holds the rows
} bt_store_points;
BT_STORE_RELEASED(bt_store_points)

// Owns    the caller, until bt_store_points_release
BT_CHECKED bt_status bt_store_points_read(bt_store *store, bt_store_points *out);

// ---- history.c: one case over all runs ---------------------------------------------------------

// A passed round that has the requested metric.
typedef struct bt_store_history_row {
    int64_t run, started_ns, ordinal; // wall clock of the run
    double value, low, high;          // of the metric; low, high NaN: no interval
    int64_t env;                      // index of envs
    const char *suite, *git_commit, *git_diff;
    const char *name, *system, *axes_json; // of the case
    bool total; // a time or rate is the mean or total; false: a median, as in earlier versions
} bt_store_history_row;

typedef struct bt_store_history {
    const bt_store_history_row *rows; // by run, in the order begun
    int64_t count;
    const bt_store_env *envs; // each environment of a row, once; digests are ""
    int64_t env_count;
    bt_arena arena; // holds all of it
} bt_store_history;
BT_STORE_RELEASED(bt_store_history)

// Every passed round of a case with this name, in every suite; if no case has it, of those into
// which a plan expanded a case of this name: NAME.forward.f32.8x4, NAME.lr=3e-4. system NULL: on
// all systems. Samples are not read. No rows is not an error.
// Owns    the caller, until bt_store_history_release
BT_CHECKED bt_status bt_store_history_read(bt_store *store, const char *name, bt_metric metric,
                                           const char *system, bt_store_history *out);
// Appends the names of all recorded cases, separated by '|'.
BT_CHECKED bt_status bt_store_case_names(bt_store *store, bt_str *out);

// ---- baselines ---------------------------------------------------------------------------------
// Setting a baseline adds a row; the newest of a name and machine is current, the others are its
// history.

typedef struct bt_store_baseline_list {
    const bt_store_baseline *rows; // by name, newest first
    int64_t count;
    bt_arena arena; // holds the rows
} bt_store_baseline_list;
BT_STORE_RELEASED(bt_store_baseline_list)

// Adds a row; `id` is ignored.
BT_CHECKED bt_status bt_store_baseline_add(bt_store *store, const bt_store_baseline *baseline);
// The newest of a name and a machine, with its document, in the arena; *found says whether there is
// one. machine NULL: of any machine.
BT_CHECKED bt_status bt_store_baseline_read(bt_store *store, const char *name, const char *machine,
                                            bt_arena *arena, bt_store_baseline *out, bool *found);
// name NULL: all of them.
// Owns    the caller, until bt_store_baseline_list_release
BT_CHECKED bt_status bt_store_baseline_list_read(bt_store *store, const char *name,
                                                 bt_store_baseline_list *out);

#endif
