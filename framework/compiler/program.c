// framework/compiler/program.c - schedules a graph and assigns memory to its values
#include "framework/compiler/program_parts.h"

// State while a program is built.
typedef struct maker {
    bt_program *p;
    const int *homes; // borrowed, or NULL
    int *uses;        // owned [value_count], reads still to come
    bool *done;       // owned [node_count]
    bool *home;       // owned [value_count]: some output ends there
    bt_status status;
} maker;

// ---- places -------------------------------------------------------------------------------------

static void act(maker *m, bt_program_action_kind kind, int a, int b)
{
    bt_program *p = m->p;
    if (m->status == BT_OK && p->action_count == p->action_capacity) {
        const int capacity = p->action_capacity ? 2 * p->action_capacity : 256;
        void *items = p->actions;
        m->status = bt_mem_resize(&items, (size_t)capacity, sizeof *p->actions);
        p->actions = items;
        p->action_capacity = m->status ? p->action_capacity : capacity;
    }
    if (m->status == BT_OK) {
        p->actions[p->action_count++] = (bt_program_action){kind, a, b};
    }
}

static int home_of(const maker *m, int value)
{
    return m->homes ? m->homes[value] : BT_PROGRAM_NONE;
}

static int new_place(maker *m, int value)
{
    bt_program *p = m->p;
    const bt_dag_value *v = &p->graph->values[value];
    const bool own_output = v->is_output && home_of(m, value) < 0;
    p->places[p->place_count] = (bt_program_place){
        v->size_bytes, v->producer < 0 || own_output ? value : BT_PROGRAM_NONE, value};
    p->place_of[value] = p->place_count;
    return p->place_count++;
}

static int input_place(maker *m, int value)
{
    return m->p->place_of[value] >= 0 ? m->p->place_of[value] : new_place(m, value);
}

static void make_place(maker *m, int value)
{
    if (m->p->place_of[value] < 0) { // else another operand writes it too
        act(m, BT_PROGRAM_MAKE, new_place(m, value), BT_PROGRAM_NONE);
    }
}

// The memory of a result: its base's if nothing else reads that any more, else new memory, with a
// copy of the base if the call reads or keeps part of it.
static void place_result(maker *m, const bt_dag_operand *x)
{
    bt_program *p = m->p;
    const int base = x->value, value = x->result;
    if (p->place_of[value] >= 0) {
        return;
    }
    const bool free_base =
        base >= 0 && m->uses[base] == 1 && (p->graph->values[base].producer >= 0 || m->home[base]);
    if (free_base) {
        const int at = input_place(m, base);
        p->place_of[value] = at;
        p->places[at].latest = value;
        if (p->graph->values[value].is_output && home_of(m, value) < 0) {
            p->places[at].given = p->places[at].given < 0 ? value : p->places[at].given;
        }
        return;
    }
    make_place(m, value);
    if (base >= 0) {
        act(m, BT_PROGRAM_COPY, input_place(m, base), p->place_of[value]);
    }
}

// Frees memory that is no longer needed.
static void drop(maker *m, int value)
{
    const int at = m->p->place_of[value];
    if (m->uses[value] == 0 && at >= 0 && m->p->places[at].given < 0 &&
        m->p->places[at].latest == value) {
        m->p->places[at].latest = BT_PROGRAM_NONE;
        act(m, BT_PROGRAM_DROP, at, BT_PROGRAM_NONE);
    }
}

// ---- order --------------------------------------------------------------------------------------

static void place_node(maker *m, const bt_dag_node *node)
{
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].value >= 0) {
            (void)input_place(m, node->operands[i].value);
        }
    }
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].result >= 0) {
            place_result(m, &node->operands[i]);
        }
    }
}

static void place_group(maker *m, const bt_fused *group)
{
    for (int i = 0; i < group->operand_count; ++i) {
        const bt_fused_operand *x = &group->operands[i];
        if (x->is_written) {
            make_place(m, x->value);
        } else {
            (void)input_place(m, x->value);
        }
    }
}

static void finish_node(maker *m, int at)
{
    const bt_dag_node *node = &m->p->graph->nodes[at];
    m->done[at] = true;
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].value >= 0) {
            m->uses[node->operands[i].value] -= 1;
        }
    }
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].value >= 0) {
            drop(m, node->operands[i].value);
        }
        if (node->operands[i].result >= 0) {
            drop(m, node->operands[i].result);
        }
    }
}

static int group_at(const maker *m, int node)
{
    return m->p->fusion ? m->p->fusion->unit_of[node] : BT_PROGRAM_NONE;
}

// Is everything made that the node reads from outside of its group?
static bool is_ready(const maker *m, int at)
{
    const bt_dag *graph = m->p->graph;
    const bt_dag_node *node = &graph->nodes[at];
    const int group = group_at(m, at);
    for (int i = 0; i < node->operand_count; ++i) {
        const int value = node->operands[i].value;
        const int producer = value >= 0 ? graph->values[value].producer : BT_PROGRAM_NONE;
        const bool own = producer >= 0 && group >= 0 && group_at(m, producer) == group;
        if (producer >= 0 && !own && !m->done[producer]) {
            return false;
        }
    }
    return true;
}

static bool group_is_ready(const maker *m, const bt_fusion *fusion)
{
    for (int i = 0; i < fusion->node_count; ++i) {
        if (!is_ready(m, fusion->nodes[i])) {
            return false;
        }
    }
    return true;
}

// The number of calls starting at `at` that form one list of products.
static int list_length(const maker *m, int at)
{
    const bt_dag *graph = m->p->graph;
    int count = 1;
    while (graph->nodes[at].list && at + count < graph->node_count && count < BT_PROGRAM_PRODUCTS &&
           graph->nodes[at + count].list == graph->nodes[at].list && !m->done[at + count] &&
           group_at(m, at + count) < 0 && is_ready(m, at + count)) {
        ++count;
    }
    return count;
}

static void add_unit(maker *m, int at, int group)
{
    bt_program *p = m->p;
    bt_program_unit *u = &p->units[p->unit_count++];
    const bt_fusion *fusion = group >= 0 ? &p->fusion->groups[group] : NULL;
    *u = (bt_program_unit){.fusion = group, .node = at, .before = p->action_count};
    u->count = fusion ? fusion->node_count : list_length(m, at);
    for (int i = 0; i < u->count && !fusion; ++i) {
        place_node(m, &p->graph->nodes[at + i]);
    }
    if (fusion) {
        place_group(m, fusion->group);
    }
    u->after = p->action_count;
    for (int i = 0; i < u->count; ++i) {
        finish_node(m, fusion ? fusion->nodes[i] : at + i);
    }
    u->until = p->action_count;
}

// Appends the ready units, in the graph's order; false if there was none.
static bool add_ready(maker *m)
{
    bool any = false;
    for (int i = 0; i < m->p->graph->node_count && m->status == BT_OK; ++i) {
        const int group = group_at(m, i);
        if (!m->done[i] &&
            (group >= 0 ? group_is_ready(m, &m->p->fusion->groups[group]) : is_ready(m, i))) {
            add_unit(m, i, group);
            any = true;
        }
    }
    return any;
}

// Copies outputs that are not yet in their final memory.
static void bring_home(maker *m)
{
    bt_program *p = m->p;
    p->ending = p->action_count;
    for (int i = 0; i < p->graph->value_count; ++i) {
        const int home = p->graph->values[i].is_output ? home_of(m, i) : BT_PROGRAM_NONE;
        if (home >= 0 && input_place(m, i) != input_place(m, home)) {
            act(m, BT_PROGRAM_COPY, p->place_of[i], p->place_of[home]);
            m->uses[i] = 0;
            drop(m, i);
        }
    }
}

static bt_status make(maker *m)
{
    const bt_dag *graph = m->p->graph;
    bt_dag_uses(graph, m->uses);
    for (int i = 0; i < graph->value_count; ++i) {
        m->p->place_of[i] = BT_PROGRAM_NONE;
        if (graph->values[i].is_output && home_of(m, i) >= 0) {
            m->home[home_of(m, i)] = true;
        }
    }
    for (bool any = true; any && m->status == BT_OK;) {
        any = add_ready(m);
    }
    for (int i = 0; i < graph->node_count && m->status == BT_OK; ++i) {
        if (!m->done[i]) {
            return bt_error(BT_STATUS_INTERNAL, "node %d waits for itself", i);
        }
        if (bt_kernel_operands_struct_bytes(graph->nodes[i].op) > BT_PROGRAM_ARGS_BYTES) {
            return bt_error(BT_STATUS_INTERNAL, "node %d has too many attributes", i);
        }
    }
    for (int i = 0; i < graph->value_count; ++i) { // an input that is also an output
        if (graph->values[i].is_output) {
            (void)input_place(m, i);
        }
    }
    bring_home(m);
    return m->status;
}

bt_status bt_program_create(const bt_dag *graph, const bt_fusion_plan *fusion, const int *homes,
                            bt_program **out)
{
    void *block = NULL, *units = NULL, *places = NULL, *place_of = NULL;
    void *uses = NULL, *done = NULL, *home = NULL;
    const size_t values = (size_t)graph->value_count + 1, nodes = (size_t)graph->node_count + 1;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_program), &block));
    bt_program *p = block;
    bt_status status = bt_mem_alloc(nodes, sizeof *p->units, &units);
    status = status ? status : bt_mem_alloc(values, sizeof *p->places, &places);
    status = status ? status : bt_mem_alloc(values, sizeof *p->place_of, &place_of);
    status = status ? status : bt_mem_alloc(values, sizeof(int), &uses);
    status = status ? status : bt_mem_alloc(nodes, sizeof(bool), &done);
    status = status ? status : bt_mem_alloc(values, sizeof(bool), &home);
    *p = (bt_program){
        .graph = graph, .fusion = fusion, .units = units, .places = places, .place_of = place_of};
    maker m = {.p = p, .homes = homes, .uses = uses, .done = done, .home = home};
    status = status ? status : make(&m);
    bt_mem_free(uses);
    bt_mem_free(done);
    bt_mem_free(home);
    if (status) {
        bt_program_destroy(p);
        return status;
    }
    *out = p;
    return BT_OK;
}

void bt_program_destroy(bt_program *program)
{
    if (program) {
        bt_mem_free(program->units);
        bt_mem_free(program->actions);
        bt_mem_free(program->places);
        bt_mem_free(program->place_of);
        bt_mem_free(program);
    }
}
