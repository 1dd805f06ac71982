// harness/cases/lab/candidates.c - calls over rotating operands, and who can compute them
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/cases/lab/lab.h"

enum { CACHES = 5 }; // rotating operands take this many times the cache

// ---- calls -------------------------------------------------------------------------------------

static size_t size_of(const bt_kernel_body *body, int index)
{
    const bt_operand *operand = &body->operands[index];
    return (size_t)bt_operand_count(operand, body->rows) * bt_dtype_size(operand->dtype);
}

static void set_args(const lab *self, const kernel_run *run, kernel_call *call)
{
    const bt_kernel_asked asked = {.rows = run->body.rows,
                                   .at = call->at,
                                   .accumulate = self->options.add != 0,
                                   .items = &call->items};
    run->body.args(&run->body, &asked, &call->args);
}

// Products times GELU's slope also sum D's columns, weight gradients A's: into one block for all
// copies.
static void add_column_sums(lab *self, lab_work *work)
{
    kernel_run *run = &work->members[0];
    bt_gemm_args *first = &run->calls[0].args.gemm;
    if (!self->options.columns || work->grouped || run->body.is_chain ||
        run->body.op != BT_KERNEL_GEMM ||
        !(first->epilogue == BT_EPILOGUE_DGELU || first->trans_a)) {
        return;
    }
    const int64_t count = first->trans_a ? first->m : first->n;
    lab_require(bt_pool_alloc(self->pool, (size_t)count * sizeof(float), self->stream, "sums",
                              &work->extra));
    for (int64_t i = 0; i < run->call_count; ++i) {
        bt_gemm_args *args = &run->calls[i].args.gemm;
        args->dbias = work->extra;
        args->dbias_dtype = BT_F32;
        args->dbias_of_a = args->trans_a;
    }
}

// A call with copies of the first call's operands. It has no workspace: candidates share one.
static void clone_call(lab *self, const kernel_run *run, kernel_call *call)
{
    const kernel_call *from = &run->calls[0];
    for (int i = 0; i < run->body.count; ++i) {
        const size_t size_bytes = size_of(&run->body, i);
        lab_require(bt_pool_alloc(self->pool, size_bytes, self->stream, run->body.operands[i].name,
                                  &call->at[i]));
        lab_require(self->device->backend->copy(self->device, call->at[i], from->at[i], size_bytes,
                                                BT_COPY_DEVICE_TO_DEVICE, self->stream));
    }
    set_args(self, run, call);
    call->launch = from->launch;
}

static void make_run(lab *self, const cJSON *item, kernel_run *run)
{
    const cJSON *kernel = bt_json_get(item, "kernel");
    *run = (kernel_run){.seed = 1, .device = self->device, .pool = self->pool};
    run->stream = self->stream;
    run->generates = strcmp(bt_json_text_of(kernel, "compile"), "on") == 0;
    lab_require(bt_kernel_body_make(kernel, &run->body));
}

void lab_work_make(lab *self, const cJSON *const *items, int count, lab_work *out)
{
    memset(out, 0, sizeof *out);
    out->member_count = count;
    out->grouped = self->options.group != 0;
    for (int m = 0; m < count; ++m) {
        kernel_run *run = &out->members[m];
        make_run(self, items[m], run);
        for (int i = 0; i < run->body.count; ++i) {
            out->operand_bytes += size_of(&run->body, i);
        }
        out->bytes += bt_kernel_bytes(run->body.what, run->body.backward, &run->body.shape,
                                      (int)bt_dtype_size(run->body.dtype));
        out->flops += bt_kernel_flops(run->body.what, run->body.backward, &run->body.shape);
    }
    const uint64_t copies =
        CACHES * bt_kernel_cache_bytes(self->device) / (out->operand_bytes + 1) + 1;
    const bool rotates = lab_has_mode(self, out, LAB_GRAPH) || lab_has_mode(self, out, LAB_SUSTAIN);
    out->copies = !rotates                   ? 1
                  : copies > LAB_COPIES_MOST ? LAB_COPIES_MOST
                  : copies < 2               ? 2
                                             : (int64_t)copies;
    for (int m = 0; m < count; ++m) {
        kernel_run *run = &out->members[m];
        lab_require(BT_MEM_ARRAY(out->copies, &run->calls));
        lab_require(bt_kernel_call_make(run, &run->calls[run->call_count++]));
        set_args(self, run, &run->calls[0]);
        for (int i = 0; self->options.add && i < run->body.count; ++i) {
            if (run->body.operands[i].role == BT_OPERAND_OUT) { // sums start from 0, not from NaN
                lab_require(self->device->backend->fill(self->device, run->calls[0].at[i], 0,
                                                        size_of(&run->body, i), self->stream));
            }
        }
        while (run->call_count < out->copies) {
            clone_call(self, run, &run->calls[run->call_count++]);
        }
        for (int64_t copy = 0; out->grouped && copy < out->copies; ++copy) {
            out->products[copy][m] = run->calls[copy].args.gemm;
            out->groups[copy] = (bt_gemm_grouped_args){out->products[copy], count};
        }
    }
    lab_attention_restrict(self, out);
    add_column_sums(self, out);
}

void lab_work_release(lab *self, lab_work *work)
{
    lab_require(self->device->backend->stream_synchronize(self->device, self->stream));
    for (int m = 0; m < work->member_count; ++m) {
        kernel_run *run = &work->members[m];
        for (int64_t i = 0; i < run->call_count; ++i) {
            bt_kernel_call_release(run, &run->calls[i]);
        }
        bt_mem_free(run->calls);
        bt_kernel_generated_release(run->generated);
        bt_kernel_chain_release(run->chain);
    }
    if (work->workspace) {
        bt_pool_free(self->pool, work->workspace);
    }
    if (work->extra) {
        bt_pool_free(self->pool, work->extra);
    }
}

// ---- candidates --------------------------------------------------------------------------------

static bool is_wanted(const lab_options *options, const char *name)
{
    bool wanted = options->word_count == 0;
    for (int i = 0; i < options->word_count; ++i) {
        wanted = wanted || strstr(name, options->words[i]);
    }
    return wanted;
}

static void add(lab *self, const lab_candidate *next, const char *view, bool all,
                lab_candidate *list, int *count)
{
    lab_candidate *to = &list[*count];
    *to = *next;
    to->error_share = -1;
    (void)snprintf(to->name, sizeof to->name, "%s%s%s%s%s", view, *view ? ": " : "",
                   next->row ? next->row->name : "one after the other", *next->plan.name ? " " : "",
                   next->plan.name);
    *count += (all || is_wanted(&self->options, to->name)) && *count + 1 < LAB_CANDIDATES_MOST;
}

// Whether fewer than `most` of the plans before `index` have its tile, the first word of a name.
static bool is_among_first(const bt_kernel_plan *plans, int index, int most)
{
    const size_t length = strcspn(plans[index].name, " ") + 1;
    int before = 0;
    for (int i = 0; i < index; ++i) {
        before += strncmp(plans[i].name, plans[index].name, length) == 0;
    }
    return before < most;
}

// A row that does not serve the call because another one is faster by its estimate still has plans.
static void add_row(lab *self, lab_view *view, const bt_kernel *row, const void *args, bool serves,
                    bool all, lab_candidate *list, int *count)
{
    bt_kernel_plan plans[LAB_PLANS_MOST];
    const bt_device *device = &view->device;
    const int plans_wanted = all ? 0 : self->options.plans;
    const int found =
        device->backend->plans && (row->op == BT_KERNEL_GEMM || row->op == BT_KERNEL_GEMM_GROUPED)
            ? device->backend->plans(device, row, args, plans, LAB_PLANS_MOST)
            : 0;
    lab_candidate next = {.device = &view->device, .row = row};
    if (found == 0) {
        next.plan.workspace_bytes = row->workspace ? row->workspace(device, args) : 0;
        next.serves = serves;
        add(self, &next, view->gemm, all, list, count);
    }
    for (int i = 0; i < found; ++i) {
        next.plan = plans[i];
        next.serves = serves && i == 0;
        if (i == 0 || is_among_first(plans, i, plans_wanted)) {
            add(self, &next, view->gemm, all, list, count);
        }
    }
}

// Whether the row serves the call, as bt_kernel_lookup asks it, or has plans for the product.
static bool is_able(const bt_device *device, const bt_kernel *row, bt_kernel_op op, bt_dtype dtype,
                    const void *args)
{
    bt_kernel_plan plan;
    return row->op == op && (row->dtype == dtype || row->dtype == BT_DTYPE_COUNT) &&
           row->min_arch <= device->info.arch &&
           (!row->accepts || row->accepts(device, args) ||
            (op == BT_KERNEL_GEMM && device->backend->plans &&
             device->backend->plans(device, row, args, &plan, 1) > 0));
}

static void add_rows(lab *self, lab_view *view, const lab_work *work, bool all, bool serves,
                     lab_candidate *list, int *count)
{
    const kernel_run *first = &work->members[0];
    const void *args =
        work->grouped ? (const void *)&work->groups[0] : (const void *)&first->calls[0].args;
    const bt_kernel_op op = work->grouped ? BT_KERNEL_GEMM_GROUPED : first->body.op;
    const bt_dtype dtype = first->body.main;
    const bt_kernel *serving = bt_kernel_lookup(&view->device, op, dtype, args);
    int rows = 0;
    const bt_kernel *table = bt_kernel_table(&view->device, &rows);
    for (int pass = 0; pass < 2; ++pass) {
        for (const bt_kernel *row = table; row < table + rows; ++row) {
            if ((row == serving) == (pass == 0) && is_able(&view->device, row, op, dtype, args)) {
                add_row(self, view, row, args, row == serving && serves, all, list, count);
            }
        }
    }
}

int lab_candidates(lab *self, lab_work *work, bool all, lab_candidate list[LAB_CANDIDATES_MOST])
{
    const kernel_run *first = &work->members[0];
    const bool made = first->generated || first->chain; // for the case: it has no row of the table
    size_t workspace_bytes = 0;
    int count = 0;
    if (work->grouped) { // what the product does where no row serves groups
        const lab_candidate next = {.device = self->device};
        add(self, &next, "", all, list, &count);
    } else if (made) {
        const lab_candidate next = {.device = self->device,
                                    .row = first->kernel,
                                    .plan.workspace_bytes = first->calls[0].launch.workspace_bytes,
                                    .serves = true};
        add(self, &next, "", all, list, &count);
    }
    for (int i = 0; i < self->view_count && !first->body.is_chain; ++i) {
        add_rows(self, &self->views[i], work, all, i == 0 && !made, list, &count);
    }
    for (int i = 0; i < count; ++i) {
        const size_t wanted = list[i].plan.workspace_bytes;
        workspace_bytes = wanted > workspace_bytes ? wanted : workspace_bytes;
    }
    if (workspace_bytes > 0) {
        lab_require(bt_pool_alloc(self->pool, workspace_bytes, self->stream, "workspace",
                                  &work->workspace));
    }
    return count;
}

// ---- launching ---------------------------------------------------------------------------------

bt_status lab_launch(lab *self, const lab_work *work, const lab_candidate *by, int64_t copy)
{
    if (by->row) {
        const bt_launch launch = {.device = by->device,
                                  .stream = self->stream,
                                  .workspace = work->workspace,
                                  .workspace_bytes = by->plan.workspace_bytes,
                                  .plan = by->plan.number};
        return by->row->launch(&launch, work->grouped
                                            ? (const void *)&work->groups[copy]
                                            : (const void *)&work->members[0].calls[copy].args);
    }
    for (int m = 0; m < work->member_count; ++m) {
        const kernel_run *run = &work->members[m];
        BT_TRY(run->kernel->launch(&run->calls[0].launch, &run->calls[copy].args));
    }
    return BT_OK;
}

bt_status lab_check(lab *self, lab_work *work, lab_candidate *by)
{
    by->error_share = 0;
    for (int m = 0; m < work->member_count; ++m) {
        BT_TRY(bt_kernel_call_fill(&work->members[m], &work->members[m].calls[0]));
    }
    BT_TRY(lab_launch(self, work, by, 0));
    BT_TRY(self->device->backend->stream_synchronize(self->device, self->stream));
    for (int m = 0; m < work->member_count; ++m) {
        double worst = 0;
        const bt_status status =
            bt_kernel_check(&work->members[m], &work->members[m].calls[0], &worst);
        by->error_share = !(worst <= by->error_share) ? worst : by->error_share;
        BT_TRY(status);
    }
    return BT_OK;
}
