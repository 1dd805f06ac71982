// harness/run/event.c - reads and writes events using tables of fields
//
// An event that is a record of the round has the members of harness/record/fields.h; the table here
// has the members of the others.
#include "harness/run/event.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "framework/base/timeline.h"
#include "harness/record/fields.h"

typedef enum field_type {
    FIELD_INTEGER,
    FIELD_REAL,       // finite
    FIELD_REAL_NULL,  // null: not finite, NaN in memory
    FIELD_FLOAT_NULL, // the same, stored as float
    FIELD_BITS,       // float as 8 hex digits
    FIELD_TEXT,
    FIELD_BOOL,
    FIELD_NUMBERS // bt_run_event_samples: a list of numbers > 0
} field_type;

typedef struct field {
    bt_run_event_type event;
    const char *key;
    field_type type;
    bool required; // may be absent: 0, "", false, NaN
    size_t offset; // offset in bt_run_event
} field;

#define FIELD(event, key, type, required, member)                                                  \
    {                                                                                              \
        BT_RUN_EVENT_##event, key, FIELD_##type, required, offsetof(bt_run_event, as.member)       \
    }

static const field fields[] = {
    FIELD(START, "protocol", INTEGER, true, start.protocol),
    FIELD(START, "system", TEXT, true, start.system),
    FIELD(START, "device", TEXT, true, start.device),
    FIELD(START, "parameters", INTEGER, false, start.parameters),
    FIELD(START, "tensors", INTEGER, false, start.tensors),
    FIELD(START, "accumulation", INTEGER, false, start.accumulation),
    FIELD(START, "train_tokens", INTEGER, false, start.train_tokens),
    FIELD(START, "val_tokens", INTEGER, false, start.val_tokens),
    FIELD(START, "first_step", INTEGER, false, start.first_step),
    FIELD(START, "compile_ns", INTEGER, false, start.compile_ns),
    FIELD(STEP, "loss_bits", BITS, false, step.loss), // after the record's loss: takes precedence
    FIELD(STEP, "launch_ns", INTEGER, false, step.launch_ns),
    FIELD(SAMPLES, "times_ns", NUMBERS, true, samples),
    FIELD(MEASURED, "calls_per_sample", INTEGER, false, measured.calls_per_sample),
    FIELD(MEASURED, "error_share", REAL_NULL, false, measured.error_share),
    FIELD(MEASURED, "stop", TEXT, false, measured.stop),
    FIELD(MEASURED, "cpu_time_ns", REAL, false, measured.cpu_time_ns),
    FIELD(MEASURED, "launch_time_ns", REAL, false, measured.launch_time_ns),
    FIELD(MEASURED, "compile_time_ns", REAL, false, measured.compile_time_ns),
    FIELD(MEASURED, "load_time_ns", REAL, false, measured.load_time_ns),
    FIELD(RESULT, "steps_done", INTEGER, true, result.steps_done),
    FIELD(RESULT, "stopped", BOOL, false, result.stopped),
    FIELD(RESULT, "params_digest", TEXT, false, result.params_digest),
    FIELD(RESULT, "val_loss", REAL_NULL, false, result.val_loss),
    FIELD(RESULT, "behind_ns", INTEGER, false, result.behind_ns),
    FIELD(ERROR, "status", TEXT, true, error.status),
    FIELD(ERROR, "message", TEXT, true, error.message),
    FIELD(VERSIONS, "packages", TEXT, true, versions.packages),
    FIELD(OUTPUTS, "precision", TEXT, false, outputs.precision),
    FIELD(SAVE, "kind", TEXT, true, save.kind),
    FIELD(SAVE, "step", INTEGER, true, save.step),
    FIELD(SAVE, "seen_step", INTEGER, false, save.seen_step),
    FIELD(SAVE, "host_ns", INTEGER, false, save.host_ns),
    FIELD(SAVE, "blocked_ns", INTEGER, false, save.blocked_ns),
    FIELD(SAVE, "size_bytes", INTEGER, false, save.size_bytes),
    FIELD(SAVE, "message", TEXT, false, save.message),
    FIELD(RECOVERY, "step", INTEGER, true, recovery.step),
    FIELD(RECOVERY, "from_step", INTEGER, true, recovery.from_step),
    FIELD(RECOVERY, "generation", INTEGER, true, recovery.generation),
    FIELD(RECOVERY, "ranks", INTEGER, true, recovery.ranks),
    FIELD(RECOVERY, "kind", TEXT, true, recovery.kind),
    FIELD(RECOVERY, "detect_ns", INTEGER, false, recovery.detect_ns),
    FIELD(RECOVERY, "group_ns", INTEGER, true, recovery.group_ns),
    FIELD(RECOVERY, "resume_ns", INTEGER, true, recovery.resume_ns),
    FIELD(RECOVERY, "step_ns", INTEGER, true, recovery.step_ns),
    FIELD(CAUGHT_UP, "step", INTEGER, true, caught_up.step),
    FIELD(CAUGHT_UP, "time_ns", INTEGER, true, caught_up.time_ns),
};

// Events that are records, with the keys that they must have.
typedef struct record_event {
    bt_run_event_type event;
    bt_fields_of kind;
    const char *required; // separated by spaces
} record_event;

static const record_event records[] = {
    {BT_RUN_EVENT_STEP, BT_FIELDS_STEP, "step loss tokens host_ns"},
    {BT_RUN_EVENT_EVAL, BT_FIELDS_EVAL, "step loss"},
    {BT_RUN_EVENT_RANGE, BT_FIELDS_RANGE, "step path count"},
    {BT_RUN_EVENT_KERNEL, BT_FIELDS_KERNEL, "op kernel"},
    {BT_RUN_EVENT_SCORE, BT_FIELDS_SCORE, "step questions correct normalised_correct"},
    {BT_RUN_EVENT_STATE, BT_FIELDS_STATE, "step digest"},
    {BT_RUN_EVENT_LAUNCH, BT_FIELDS_LAUNCH, "step way"},
    {BT_RUN_EVENT_GROUP, BT_FIELDS_GROUP, "direction kind kernel ops count calls"},
    {BT_RUN_EVENT_GROUP_CALLS, BT_FIELDS_GROUP_CALLS, "direction kernel time_ns"},
    {BT_RUN_EVENT_TIMELINE, BT_FIELDS_TIMELINE,
     "step rank start_ns time_ns communication_ns work phases"},
    {BT_RUN_EVENT_FAULT, BT_FIELDS_FAULT, "step kind action"},
    {BT_RUN_EVENT_MEMORY, BT_FIELDS_MEMORY, "phase"},
};

enum { FIELDS_MAX = 24 }; // of an event

static bool is_listed(const char *words, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = words; *at; at += strcspn(at, " "), at += *at == ' ') {
        if (strcspn(at, " ") == length && strncmp(at, word, length) == 0) {
            return true;
        }
    }
    return false;
}

static const record_event *record_of(bt_run_event_type type)
{
    for (size_t i = 0; i < sizeof records / sizeof records[0]; ++i) {
        if (records[i].event == type) {
            return &records[i];
        }
    }
    return NULL;
}

bool bt_run_event_is_record(bt_run_event_type type, bt_fields_of *kind)
{
    const record_event *record = record_of(type);
    *kind = record ? record->kind : BT_FIELDS_COUNT;
    return record != NULL;
}

// The fields of an event, those of its record first. Returns their number.
static size_t fields_of(bt_run_event_type type, field rows[FIELDS_MAX])
{
    static const field_type field_types[] = {[BT_FIELD_INTEGER] = FIELD_INTEGER,
                                             [BT_FIELD_REAL] = FIELD_REAL,
                                             [BT_FIELD_FLOAT] = FIELD_FLOAT_NULL,
                                             [BT_FIELD_LOSS] = FIELD_FLOAT_NULL,
                                             [BT_FIELD_REAL_LOSS] = FIELD_REAL_NULL,
                                             [BT_FIELD_BOOL] = FIELD_BOOL,
                                             [BT_FIELD_TEXT] = FIELD_TEXT};
    const record_event *record = record_of(type);
    const bt_fields *members = record ? bt_fields_info(record->kind) : NULL;
    size_t count = 0;
    for (size_t i = 0; members && i < members->count; ++i) {
        const bt_field *from = &members->rows[i];
        rows[count++] = (field){type, from->key, field_types[from->type],
                                is_listed(record->required, from->key),
                                offsetof(bt_run_event, as) + from->offset};
    }
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
        if (fields[i].event == type) {
            rows[count++] = fields[i];
        }
    }
    return count;
}

static const struct {
    const char *word;
    enum { ANY, TRAIN, CALLS } cases;
} types[BT_RUN_EVENT_COUNT] = {
#define BT_RUN_EVENT_ROW(name, text, cases) {text, cases},
    BT_RUN_EVENT_LIST(BT_RUN_EVENT_ROW)
#undef BT_RUN_EVENT_ROW
};

const char *bt_run_event_name(bt_run_event_type type) { return types[type].word; }

bt_status bt_run_event_status(const char *text)
{
    for (int i = 1; i < BT_STATUS_COUNT; ++i) {
        if (strcmp(bt_status_text((bt_status)i), text) == 0) {
            return (bt_status)i;
        }
    }
    return BT_STATUS_INTERNAL;
}

int64_t bt_run_event_repeated(const bt_run_event_recovery *recovery)
{
    return recovery->step > recovery->from_step ? recovery->step - recovery->from_step : 0;
}

bt_text bt_run_event_restart(const bt_run_event_recovery *recovery)
{
    return bt_textf("from step %lld, %s repeated", (long long)recovery->from_step,
                    bt_format_items(bt_run_event_repeated(recovery), "step").text);
}

// ---- reading -----------------------------------------------------------------------------------

static bool parse_bits(const cJSON *node, float *value)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t bits = 0;
    if (!cJSON_IsString(node) || strlen(node->valuestring) != 8) {
        return false;
    }
    for (const char *at = node->valuestring; *at; ++at) {
        const char *digit = strchr(digits, *at);
        if (!digit) {
            return false;
        }
        bits = bits << 4 | (uint32_t)(digit - digits);
    }
    memcpy(value, &bits, sizeof bits);
    return true;
}

// A list of times; false if it is none, or out of memory.
static bool parse_numbers(const cJSON *list, bt_run_event *event)
{
    void *block = NULL;
    int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (count == 0 || event->numbers ||
        bt_mem_alloc((size_t)count, sizeof(double), &block) != BT_OK) {
        return false;
    }
    event->numbers = block;
    event->as.samples = (bt_run_event_samples){event->numbers, 0};
    for (const cJSON *node = list->child; node; node = node->next) {
        if (!cJSON_IsNumber(node) || !(node->valuedouble > 0) || !isfinite(node->valuedouble)) {
            return false;
        }
        event->numbers[event->as.samples.count++] = node->valuedouble;
    }
    return true;
}

// Stores a value at the row's offset; false if it has the wrong type or range.
static bool store_field(const field *row, const cJSON *node, bt_run_event *event)
{
    void *place = (char *)event + row->offset;
    double value = cJSON_IsNumber(node) ? node->valuedouble : (double)NAN;
    switch (row->type) {
    case FIELD_INTEGER:
        if (!(value >= 0 && value < 9007199254740992.0) || value > floor(value)) {
            return false;
        }
        *(int64_t *)place = (int64_t)value;
        return true;
    case FIELD_REAL:
        *(double *)place = value;
        return isfinite(value);
    case FIELD_REAL_NULL:
        *(double *)place = value;
        return cJSON_IsNumber(node) || cJSON_IsNull(node);
    case FIELD_FLOAT_NULL:
        *(float *)place = (float)value;
        return cJSON_IsNumber(node) || cJSON_IsNull(node);
    case FIELD_BITS:
        return parse_bits(node, place);
    case FIELD_TEXT:
        *(const char **)place = node->valuestring;
        return cJSON_IsString(node);
    case FIELD_BOOL:
        *(bool *)place = cJSON_IsTrue(node);
        return cJSON_IsBool(node);
    case FIELD_NUMBERS:
        return parse_numbers(node, event);
    }
    return false;
}

// The value of an optional key that is absent: "", NaN; others are 0 already.
static void set_unknown(const field *row, bt_run_event *event)
{
    void *place = (char *)event + row->offset;
    if (row->type == FIELD_TEXT) {
        *(const char **)place = "";
    } else if (row->type == FIELD_REAL_NULL) {
        *(double *)place = (double)NAN;
    } else if (row->type == FIELD_FLOAT_NULL) {
        *(float *)place = NAN;
    }
}

BT_PRINTF(2, 3)
static bt_status refuse(const bt_run_event_state *state, const char *format, ...)
{
    char what[768];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return bt_error(BT_STATUS_CORRUPT_DATA, "worker, line %lld: %s", (long long)state->line, what);
}

static bt_status fill(const bt_run_event_state *state, bt_run_event *event)
{
    field rows[FIELDS_MAX];
    const size_t count = fields_of(event->type, rows);
    for (size_t i = 0; i < count; ++i) {
        const field *row = &rows[i];
        const cJSON *node = bt_json_get(event->json.root, row->key);
        if (!node && row->required) {
            return refuse(state, "%s lacks a required key", bt_run_event_name(event->type));
        }
        if (!node) {
            set_unknown(row, event);
        } else if (!store_field(row, node, event)) {
            return refuse(state, "wrong type or range of %s", row->key);
        }
    }
    return BT_OK;
}

int64_t bt_run_event_lines_max(int64_t steps) { return 20000 + 2000 * steps; }

// Whether a worker of this kind of case has such events.
static bool is_of_kind(const bt_run_event_state *state, bt_run_event_type type)
{
    const char *kind = state->limits.kind;
    const bool trains = kind && strcmp(kind, "train") == 0;
    return !kind || types[type].cases == ANY || types[type].cases == (trains ? TRAIN : CALLS);
}

static bt_status check_limits(bt_run_event_state *state, const bt_run_event *event)
{
    const bt_run_event_limits *limits = &state->limits;
    bt_run_event_type type = event->type;
    if (limits->lines && state->line > limits->lines) {
        return refuse(state, "more lines than a correct worker prints: %lld",
                      (long long)limits->lines);
    }
    if (!is_of_kind(state, type)) {
        return refuse(state, "not an event of this kind of case: %s", bt_run_event_name(type));
    }
    if (type == BT_RUN_EVENT_STEP && limits->steps && event->as.step.step >= limits->steps) {
        return refuse(state, "more steps than the plan's %lld", (long long)limits->steps);
    }
    if (type == BT_RUN_EVENT_SAMPLES) {
        state->samples += event->as.samples.count;
    }
    if (limits->samples && state->samples > limits->samples) {
        return refuse(state, "more samples than requested: %lld", (long long)limits->samples);
    }
    return BT_OK;
}

// Evaluations, scores and states come at most once for a step, in order of the steps.
static bt_status check_ascends(bt_run_event_state *state, bt_run_event_type type, int64_t step,
                               const char *what)
{
    if (step < state->next[type] || step > state->next_step) {
        return refuse(state, "%s of a step that was not run, or that already has one", what);
    }
    state->next[type] = step + 1;
    return BT_OK;
}

static bt_status check_score(const bt_run_event_state *state, const bt_store_score *score)
{
    return score->questions < 1 || score->correct > score->questions ||
                   score->normalised_correct > score->questions
               ? refuse(state, "a score with more correct answers than questions, or with none")
               : BT_OK;
}

static bt_status check_state(const bt_run_event_state *state, const bt_store_state *given)
{
    return strlen(given->digest) != 32 || strspn(given->digest, "0123456789abcdef") != 32
               ? refuse(state, "a state's digest is not 32 hex digits")
               : BT_OK;
}

enum { TIMELINE_RANKS_MAX = 1024 };

static bt_status check_timeline(const bt_run_event_state *state, const bt_store_timeline *given)
{
    const double parts = (double)given->products_ns + (double)given->attention_ns +
                         (double)given->other_ns + (double)given->communication_ns;
    if (strlen(given->work) != BT_TIMELINE_PARTS || strlen(given->phases) != BT_TIMELINE_PARTS) {
        return refuse(state, "a timeline's work and phases need 600 letters each");
    }
    if (given->rank >= TIMELINE_RANKS_MAX) {
        return refuse(state, "a timeline of a rank above 1023");
    }
    return parts > (double)given->time_ns
               ? refuse(state, "the parts of a timeline take longer than its time_ns")
               : BT_OK;
}

// Order of events while measuring: evaluations ascend, measured follows the samples and comes once.
static bt_status check_sequence(bt_run_event_state *state, const bt_run_event *event)
{
    bool measuring = event->type == BT_RUN_EVENT_SAMPLES || event->type == BT_RUN_EVENT_MEASURED;
    if (measuring && state->measured) {
        return refuse(state, "an event of the measurement follows the event measured");
    }
    state->measured = state->measured || event->type == BT_RUN_EVENT_MEASURED;
    switch ((int)event->type) {
    case BT_RUN_EVENT_EVAL:
        return check_ascends(state, event->type, event->as.eval.step, "an evaluation");
    case BT_RUN_EVENT_SCORE:
        BT_TRY(check_ascends(state, event->type, event->as.score.step, "a score"));
        return check_score(state, &event->as.score);
    case BT_RUN_EVENT_STATE:
        BT_TRY(check_ascends(state, event->type, event->as.state.step, "a state"));
        return check_state(state, &event->as.state);
    case BT_RUN_EVENT_LAUNCH:
        return event->as.launch.step != state->next_step - 1
                   ? refuse(state, "a launch of another step than the last")
                   : BT_OK;
    case BT_RUN_EVENT_TIMELINE:
        return check_timeline(state, &event->as.timeline);
    default:
        return BT_OK;
    }
}

static bt_status check_order(bt_run_event_state *state, const bt_run_event *event)
{
    bt_run_event_type type = event->type;
    if (state->failed) {
        return refuse(state, "an event follows the error");
    }
    if (type == BT_RUN_EVENT_ERROR) {
        state->failed = true;
        return BT_OK;
    }
    if (state->done) {
        return refuse(state, "an event follows the result");
    }
    if ((type == BT_RUN_EVENT_START) == state->started) {
        return refuse(state, "%s",
                      state->started ? "a second start" : "the first event is not start");
    }
    state->started = true;
    if (type == BT_RUN_EVENT_START && event->as.start.protocol != BT_RUN_EVENT_PROTOCOL) {
        return refuse(state, "another protocol than 1");
    }
    if (type == BT_RUN_EVENT_START) {
        state->next_step = state->next[BT_RUN_EVENT_EVAL] = event->as.start.first_step;
        if (state->next_step > state->limits.first_step) {
            return refuse(state, "first_step is beyond the last recorded step, %lld",
                          (long long)state->limits.first_step);
        }
    }
    BT_TRY(check_limits(state, event));
    if (type == BT_RUN_EVENT_STEP && event->as.step.step != state->next_step++) {
        return refuse(state, "steps must count up from the first without a gap");
    }
    BT_TRY(check_sequence(state, event));
    if (type == BT_RUN_EVENT_RESULT) {
        state->done = true;
        if (event->as.result.steps_done != state->next_step) {
            return refuse(state, "steps_done is not the number of steps");
        }
    }
    return BT_OK;
}

enum { QUOTED_MAX = 60 }; // excerpt of an invalid line

// The beginning of a line as printable ASCII.
static void quote(const char *line, size_t size_bytes, char out[QUOTED_MAX + 4])
{
    size_t count = size_bytes < QUOTED_MAX ? size_bytes : QUOTED_MAX;
    for (size_t i = 0; i < count; ++i) {
        out[i] = line[i] >= ' ' && line[i] <= '~' ? line[i] : '?';
    }
    (void)snprintf(&out[count], 4, "%s", size_bytes > count ? "..." : "");
}

static bt_status parse(bt_run_event_state *state, const char *line, size_t size_bytes,
                       bt_run_event *event)
{
    bt_status status = bt_json_parse("event", line, size_bytes, &event->json);
    if (status == BT_STATUS_INVALID_ARGUMENT) {
        char quoted[QUOTED_MAX + 4];
        quote(line, size_bytes, quoted);
        return refuse(state, "not a JSON object: \"%s\"; %.200s", quoted, bt_error_message());
    }
    BT_TRY(status);
    const cJSON *name = bt_json_get(event->json.root, "event");
    if (!cJSON_IsObject(event->json.root) || !cJSON_IsString(name)) {
        return refuse(state, "an object without the key event");
    }
    for (int i = 0; i < BT_RUN_EVENT_COUNT; ++i) {
        if (strcmp(name->valuestring, bt_run_event_name((bt_run_event_type)i)) == 0) {
            event->type = (bt_run_event_type)i;
            BT_TRY(fill(state, event));
            return check_order(state, event);
        }
    }
    return refuse(state, "unknown event");
}

bt_status bt_run_event_parse(bt_run_event_state *state, const char *line, size_t size_bytes,
                             bt_run_event *event)
{
    memset(event, 0, sizeof *event);
    ++state->line;
    bt_status status = size_bytes <= BT_RUN_EVENT_LINE_BYTES_MAX
                           ? parse(state, line, size_bytes, event)
                           : refuse(state, "longer than 65536 bytes");
    if (status != BT_OK) {
        bt_run_event_release(event);
    }
    return status;
}

void bt_run_event_release(bt_run_event *event)
{
    bt_json_doc_release(&event->json);
    BT_MEM_FREE(event->numbers);
}

// ---- writing -----------------------------------------------------------------------------------

static void write_field(const field *row, const bt_run_event *event, bt_str *out)
{
    const void *place = (const char *)event + row->offset;
    uint32_t bits = 0;
    switch (row->type) {
    case FIELD_INTEGER:
        bt_str_format(out, "%lld", (long long)*(const int64_t *)place);
        break;
    case FIELD_REAL:
    case FIELD_REAL_NULL:
        bt_json_number(*(const double *)place, out);
        break;
    case FIELD_FLOAT_NULL:
        bt_json_number((double)*(const float *)place, out);
        break;
    case FIELD_BITS:
        memcpy(&bits, place, sizeof bits);
        bt_str_format(out, "\"%08x\"", bits);
        break;
    case FIELD_TEXT:
        bt_json_string(*(const char *const *)place, out);
        break;
    case FIELD_BOOL:
        bt_str_append(out, *(const bool *)place ? "true" : "false");
        break;
    case FIELD_NUMBERS:
        for (int64_t i = 0; i < event->as.samples.count; ++i) {
            bt_str_append(out, i ? "," : "[");
            bt_json_number(event->as.samples.times_ns[i], out);
        }
        bt_str_append(out, "]");
        break;
    }
}

void bt_run_event_write(const bt_run_event *event, bt_str *out)
{
    bt_str_format(out, "{\"event\":\"%s\"", bt_run_event_name(event->type));
    field rows[FIELDS_MAX];
    const size_t count = fields_of(event->type, rows);
    for (size_t i = 0; i < count; ++i) {
        bt_str_format(out, ",\"%s\":", rows[i].key);
        write_field(&rows[i], event, out);
    }
    bt_str_append(out, "}\n");
}

bt_status bt_run_event_copy(const bt_run_event *event, bt_run_event *out)
{
    const bt_run_event_state state = {.line = 1};
    BT_SCOPED(bt_str) line = {0};
    *out = (bt_run_event){.type = event->type};
    bt_run_event_write(event, &line);
    BT_TRY(bt_str_status(&line));
    bt_status status = bt_json_parse("event", line.text, line.length_bytes - 1, &out->json);
    BT_IF_OK(status, fill(&state, out));
    if (status != BT_OK) {
        bt_run_event_release(out);
    }
    return status;
}
