// harness/plan/sweep.c - --set KEY=[A,B]: a case for each value, or combination of values
#include "harness/plan/sweep.h"

#include <string.h>

#include "framework/base/idioms.h"
#include "framework/base/mem.h"
#include "harness/plan/plan.h"

// A list is a sweep if the key takes a single value. Lists of micro-batches, of a kernel's types or
// shapes, and of a command's words have another meaning.
static bool takes_one_value(const char *given)
{
    const bt_suite_key *key = bt_plan_set_key(given);
    return key && (key->type == BT_SUITE_INTEGER || key->type == BT_SUITE_NUMBER ||
                   key->type == BT_SUITE_BOOL || key->type == BT_SUITE_CHOICE ||
                   key->type == BT_SUITE_DATA);
}

static bool is_list(const char *given)
{
    const char *value = strchr(given, '=');
    return value && value[1] == '[' && given[strlen(given) - 1] == ']' && takes_one_value(given);
}

// ---- reading -----------------------------------------------------------------------------------

static bt_status no_value(const char *given)
{
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "--set %s: expected values between the commas, as in "
                    "train.optimizer.lr=[3e-4,6e-4]",
                    given);
}

// The values of a list, as consecutive texts "key=value".
static bt_status read_list(const char *given, bt_plan_sweep_axis *axis)
{
    const char *equals = strchr(given, '='), *end = given + strlen(given) - 1;
    axis->given = given;
    axis->key_bytes = equals - given;
    for (const char *at = equals + 2; at <= end; ++at) {
        const char *value = at;
        const size_t length = bt_plan_list_value(&value, &at);
        if (!length) {
            return no_value(given);
        }
        bt_str_format(&axis->sets, "%.*s=%.*s", (int)axis->key_bytes, given, (int)length, value);
        bt_str_append_bytes(&axis->sets, "", 1);
        ++axis->count;
    }
    return bt_str_status(&axis->sets);
}

bt_status bt_plan_sweep_make(const char *const *sets, int64_t set_count, const char *kind,
                             bt_plan_sweep *out)
{
    memset(out, 0, sizeof *out);
    out->combinations = 1;
    BT_TRY(BT_MEM_ARRAY(set_count + 1, &out->axes));
    BT_TRY(BT_MEM_ARRAY(set_count + 1, &out->sets));
    for (int64_t i = 0; i < set_count; ++i) {
        bt_plan_sweep_axis *axis = &out->axes[out->axis_count];
        if (!is_list(sets[i])) {
            out->sets[out->set_count++] = sets[i];
        } else if (bt_plan_set_concerns(sets[i], kind)) {
            axis->position = out->set_count++;
            ++out->axis_count;
            BT_TRY(read_list(sets[i], axis));
            out->combinations *= axis->count;
        }
        BT_FAIL_IF(out->combinations > BT_PLAN_SWEEP_MAX, BT_STATUS_INVALID_ARGUMENT,
                   "--set %.80s: the lists of --set have more than %d combinations", sets[i],
                   BT_PLAN_SWEEP_MAX);
    }
    return BT_OK;
}

void bt_plan_sweep_release(bt_plan_sweep *sweep)
{
    for (int64_t i = 0; i < sweep->axis_count; ++i) {
        bt_str_release(&sweep->axes[i].sets);
    }
    bt_mem_free(sweep->axes);
    bt_mem_free(sweep->sets);
    memset(sweep, 0, sizeof *sweep);
}

// ---- one combination ---------------------------------------------------------------------------

// The last part of the key, or the whole key if another axis has the same last part.
static const char *short_key(const bt_plan_sweep *sweep, const bt_plan_sweep_axis *axis)
{
    const char *part = axis->given;
    for (const char *at = axis->given; at < axis->given + axis->key_bytes; ++at) {
        part = *at == '.' ? at + 1 : part;
    }
    const size_t length = (size_t)(axis->given + axis->key_bytes - part);
    BT_EACH(const bt_plan_sweep_axis, other, sweep->axes, sweep->axis_count) {
        const char *end = other->given + other->key_bytes;
        if (other != axis && other->key_bytes > (int64_t)length &&
            strncmp(end - length, part, length) == 0 && end[-(int64_t)length - 1] == '.') {
            return axis->given;
        }
    }
    return part;
}

bt_status bt_plan_sweep_at(bt_plan_sweep *sweep, int64_t index, bt_str *suffix)
{
    int64_t each = sweep->combinations;
    for (int64_t i = 0; i < sweep->axis_count; ++i) { // the last one varies fastest
        const bt_plan_sweep_axis *axis = &sweep->axes[i];
        const char *set = bt_str_text(&axis->sets);
        each /= axis->count;
        for (int64_t skipped = index / each % axis->count; skipped > 0; --skipped) {
            set += strlen(set) + 1;
        }
        sweep->sets[axis->position] = set;
        bt_str_format(suffix, ".%s", set + (short_key(sweep, axis) - axis->given));
    }
    return bt_str_status(suffix);
}
