// framework/train/compiled.c - steps that run compiled (compiler/step.h)
#include "framework/train/trainer.h"

// What rules it out for the whole run; NULL: nothing.
static const char *excluded(const bt_trainer *t)
{
    return t->parallel          ? "several ranks or virtual shards reduce gradients on the way"
           : t->plan->anomaly   ? "anomaly mode checks every op"
           : t->observer->value ? "the values of every op are told"
                                : NULL;
}

bt_status bt_trainer_compile(bt_trainer *t)
{
    bt_context *context = &t->session.context;
    const bt_feed_slot *slot = &t->feed.slots[0];
    const bt_batch batch = {.count = 2, .items = {{"ids", slot->ids}, {"targets", slot->targets}}};
    if (!t->plan->compile || excluded(t)) {
        return BT_OK;
    }
    BT_TRY(bt_code_cache_from_environment(&t->code));
    BT_TRY(bt_compiled_step_create(context, &t->model, &t->code, &t->compiled));
    context->tape = t->session.tape;
    bt_status status = bt_compiled_step_prepare(t->compiled, &batch, false);
    if (status == BT_OK && t->accumulation > 1) {
        status = bt_compiled_step_prepare(t->compiled, &batch, true);
    }
    context->tape = NULL;
    return bt_error_context(status, "compile");
}

bt_status bt_trainer_report_compiled(const bt_trainer *t)
{
    const bt_compiled_kind *kind = NULL;
    if (!t->plan->compile || !t->observer->note) {
        return BT_OK;
    }
    if (!t->compiled) {
        bt_str text = {0};
        bt_str_format(&text, "compile: steps run eagerly: %s", excluded(t));
        bt_status status = bt_str_status(&text);
        status = status ? status : t->observer->note(t->observer->self, bt_str_text(&text));
        bt_str_release(&text);
        return status;
    }
    for (int i = 0; (kind = bt_compiled_step_kind(t->compiled, i)); ++i) {
        bt_str text = {0};
        bt_compiled_kind_print(kind, &text);
        bt_status status = bt_str_status(&text);
        status = status ? status : t->observer->note(t->observer->self, bt_str_text(&text));
        bt_str_release(&text);
        BT_TRY(status);
    }
    return BT_OK;
}

bool bt_trainer_runs_compiled(const bt_trainer *t)
{
    return t->compiled && !t->session.context.anomaly;
}

void bt_trainer_compile_close(bt_trainer *t)
{
    bt_compiled_step_destroy(t->compiled);
    bt_code_cache_close(&t->code);
}
