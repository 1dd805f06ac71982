// harness/diff/bisect_print.c - the divergence of two runs, as text and JSON
#include "harness/diff/bisect.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"

static void write_span(const bt_bisect_side sides[2], const bt_bisect_result *result, bt_str *out)
{
    const bt_bisect_span *span = &result->span;
    if (span->differs == BT_BISECT_CHECKPOINT) {
        bt_str_format(out,
                      "recorded     losses and gradient norms are the same, the checkpoints of "
                      "step %lld are not\n",
                      (long long)span->last + 1);
    } else if (span->differs == BT_BISECT_STATE) {
        bt_str_format(out, "recorded     the first difference is the state after step %lld\n",
                      (long long)span->last);
    } else if (span->differs == BT_BISECT_DIGEST) {
        bt_str_append(out,
                      "recorded     every loss and gradient norm is the same, the state at the "
                      "end is not\n");
    } else {
        bt_str_format(out, "recorded     the first difference is the %s of step %lld\n",
                      bt_bisect_record_name(span->differs), (long long)span->last);
    }
    if (span->first > 0) {
        bt_str_format(out,
                      "replayed     from the checkpoint of step %lld, which is the same in %s "
                      "and %s: ",
                      (long long)span->first, sides[0].name, sides[1].name);
    } else {
        bt_str_append(out, "replayed     from the beginning: ");
    }
    bt_str_format(out, "%s\n", bt_format_items(result->replayed, "step").text);
}

static void write_value(const bt_bisect_side sides[2], const bt_bisect_result *result, bt_str *out)
{
    const bt_difference *d = &result->difference;
    char shape[BT_SHAPE_TEXT_BYTES], element[64];
    bt_str_format(out, "first        step %lld, %s: ", (long long)result->step, result->name);
    if (*result->op) {
        bt_str_format(out, "op %s, ", result->op);
    }
    bt_str_format(
        out,
        "layer %s, %s %s; %lld of %lld elements differ\nelement      %s: %.9g in %s, %.9g "
        "in %s\n",
        result->layer, bt_shape_text(&result->shape, shape), bt_dtype_name(result->dtype),
        (long long)d->differing, (long long)d->elements,
        bt_element_text(&result->shape, d->first, element), d->first_a, sides[0].name, d->first_b,
        sides[1].name);
}

static void write_records(const bt_bisect_side sides[2], const bt_bisect_result *result,
                          bt_str *out)
{
    for (int i = 0; i < 2; ++i) {
        if (result->strange[i] >= 0) {
            bt_str_format(
                out,
                "record       %s, step %lld: the replay has another loss or norm than "
                "the record. Another build made the run, or the hardware computed wrongly\n",
                sides[i].name, (long long)result->strange[i]);
        } else {
            bt_str_format(out, "record       %s: the replay has the recorded bits\n",
                          sides[i].name);
        }
    }
}

void bt_bisect_text(const bt_bisect_side sides[2], const bt_bisect_result *result, bt_str *out)
{
    if (result->span.differs == BT_BISECT_NOTHING) {
        bt_str_format(out, "%s and %s have the same bits\n", sides[0].name, sides[1].name);
        return;
    }
    write_span(sides, result, out);
    if (result->found) {
        write_value(sides, result, out);
    } else if (result->strange[0] >= 0 || result->strange[1] >= 0) {
        bt_str_append(out, "first        none: the replays have the same bits, so this build does "
                           "not cause the difference\n");
    } else {
        bt_str_append(out,
                      "first        none: every value of the replays is the same. The digest of "
                      "a state also covers schedule, seed and data position\n");
    }
    write_records(sides, result, out);
}

static void write_found(bt_json_writer *json, const bt_bisect_result *result)
{
    const bt_difference *d = &result->difference;
    char element[64];
    BT_JSON_OBJECT(json, "first", BT_KV("step", result->step), BT_KV("name", result->name),
                   BT_KV("op", result->op), BT_KV("layer", result->layer),
                   BT_KV("element", bt_element_text(&result->shape, d->first, element)),
                   BT_KV("index", d->first), BT_KV("a", d->first_a), BT_KV("b", d->first_b),
                   BT_KV("differing", d->differing), BT_KV("elements", d->elements));
}

bt_status bt_bisect_json(const bt_bisect_side sides[2], const bt_bisect_result *result, bt_str *out)
{
    static const char *const keys[] = {"unlike_record_a", "unlike_record_b"};
    bt_json_writer json = {.out = out, .indent = 1};
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("a", sides[0].name), BT_KV("b", sides[1].name),
            BT_KV("differs", bt_bisect_record_name(result->span.differs)),
            BT_KV("replayed_from", result->span.first), BT_KV("last_step", result->span.last),
            BT_KV("replayed", result->replayed));
    for (int i = 0; i < 2; ++i) {
        if (result->strange[i] >= 0) {
            bt_json_writer_integer(&json, keys[i], result->strange[i]);
        } else {
            bt_json_writer_null(&json, keys[i]);
        }
    }
    if (result->found) {
        write_found(&json, result);
    } else {
        bt_json_writer_null(&json, "first");
    }
    return bt_json_writer_end(&json, '}');
}
