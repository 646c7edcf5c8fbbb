/* Building programs from graphs, and functions for passes to change them (see program.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "pass/program.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ndarray/device.h"
#include "graph/infer.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

#define CHUNK_BYTES 16384

void *mx_program_alloc(mx_program *program, size_t bytes)
{
    bytes = (bytes + 15) / 16 * 16;
    mx_chunk *chunk = program->memory;
    if (!chunk || chunk->bytes - chunk->used < bytes) {
        const size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        chunk = mx_alloc_zero(sizeof(mx_chunk) + room + 16);
        if (!chunk)
            return NULL;
        *chunk = (mx_chunk){program->memory, room, 0};
        program->memory = chunk;
    }
    const uintptr_t start = ((uintptr_t)(chunk + 1) + 15) / 16 * 16;
    void *memory = (void *)(start + chunk->used);
    chunk->used += bytes;
    return memory;
}

void mx_program_free(mx_program *program)
{
    for (int64_t i = 0; i < program->externals.length; i++)
        mx_release(program->externals.items[i].array);
    for (int64_t i = 0; i < program->kept.length; i++)
        mx_release(program->kept.items[i]);
    mx_vec_free(&program->kept);
    mx_vec_free(&program->values);
    mx_vec_free(&program->steps);
    mx_vec_free(&program->externals);
    mx_vec_free(&program->results);
    for (mx_chunk *chunk = program->memory, *next; chunk; chunk = next) {
        next = chunk->next;
        mx_free(chunk, sizeof(mx_chunk) + chunk->bytes + 16);
    }
    *program = (mx_program){0};
}

static char *copy_text(mx_program *program, const char *text)
{
    char *copy = mx_program_alloc(program, strlen(text) + 1);
    if (copy)
        memcpy(copy, text, strlen(text) + 1);
    return copy;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

int32_t mx_program_value(mx_program *program, const mx_shape_t *shape, int dtype)
{
    mx_value value = {*shape, dtype, -1, -1, 0};
    return mx_vec_push(&program->values, value) ? (int32_t)program->values.length - 1 : -1;
}

static int32_t new_external(mx_program *program, const mx_external *given, const mx_shape_t *shape, int dtype)
{
    MX_SCOPE;
    mx_external external = *given;
    if (external.kind == MX_EXTERNAL_CONSTANT && !mx_context_equal(external.array->context, program->context))
        external.array = mx_array_to(external.array, program->context); /* it may be on another device */
    if (external.kind == MX_EXTERNAL_CONSTANT && !external.array)
        return -1;
    external.value = mx_program_value(program, shape, dtype);
    if (external.value < 0 || !mx_vec_push(&program->externals, external))
        return -1;
    mx_retain(external.array);
    program->values.items[external.value].external = (int32_t)program->externals.length - 1;
    return external.value;
}

int32_t mx_program_constant(mx_program *program, mx_array *array)
{
    mx_shape_t shape = mx_array_shape(array);
    mx_external constant = {.kind = MX_EXTERNAL_CONSTANT, .array = array};
    return new_external(program, &constant, &shape, array->dtype);
}

int32_t mx_program_state(mx_program *program, mx_array *array, int64_t index)
{
    mx_shape_t shape = mx_array_shape(array);
    mx_external state = {.kind = MX_EXTERNAL_STATE, .array = array, .index = index};
    return new_external(program, &state, &shape, array->dtype);
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

typedef struct builder {
    mx_program *program;
    const struct mx_program_source *source;
    mx_graph graph;
    mx_shape_t *shape; /* (entries) */
    int *type;         /* (entries) */
    int32_t *value;    /* (entries) value of each entry; -1: not computed yet */
    int64_t *order;    /* (nodes) by creation */
} builder;

static int64_t position(int64_t n, mx_gnode *const *list, const mx_gnode *node)
{
    for (int64_t i = 0; i < n; i++)
        if (list[i] == node)
            return i;
    return -1;
}

static mx_code add_variable(builder *b, int64_t i)
{
    mx_gnode *node = b->graph.nodes[i];
    const struct mx_program_source *source = b->source;
    const int64_t entry = b->graph.row[i], input = position(source->n_inputs, source->inputs, node),
                  parameter = position(source->n_parameters, source->parameters, node);
    mx_external external = {.kind = MX_EXTERNAL_INPUT, .index = input};
    if (input < 0 && node->value)
        external.kind = MX_EXTERNAL_CONSTANT, external.array = node->value;
    else if (input < 0 && parameter >= 0)
        external.kind = MX_EXTERNAL_PARAMETER, external.index = parameter;
    else if (input < 0)
        return mx_fail(MX_ERR_ARGUMENT, "plan: variable %s has no array", node->name);
    b->value[entry] = new_external(b->program, &external, &b->shape[entry], b->type[entry]);
    return b->value[entry] < 0 ? MX_ERR_MEMORY : MX_OK;
}

static mx_code check_known(const builder *b, const mx_gnode *node, int64_t entry)
{
    char text[MX_SHAPE_TEXT];
    if (mx_shape_known(&b->shape[entry]) && mx_dtype_valid(b->type[entry]) && mx_shape_size(&b->shape[entry]) >= 0)
        return MX_OK;
    if (b->source->unplanned)
        *b->source->unplanned = true;
    return mx_fail(MX_ERR_SHAPE, "plan: the shape %s or type of %s does not follow from the inputs",
                   mx_shape_text(&b->shape[entry], text), node->name);
}

/* Retains subgraphs and the like as long as the program. */
static mx_code keep_callee(mx_program *program, const mx_gnode *node)
{
    mx_callee *callee = mx_callee_of(node->op, node->attrs);
    if (!callee)
        return MX_OK;
    if (!mx_vec_push(&program->kept, callee))
        return MX_ERR_MEMORY;
    mx_retain(callee);
    return MX_OK;
}

static mx_code add_step(builder *b, int64_t i)
{
    const mx_gnode *node = b->graph.nodes[i];
    const bool list = node->op->flags & MX_OP_LIST;
    const int n_in = list || node->n_in > node->op->declared_inputs ? node->n_in : node->op->declared_inputs;
    mx_step step = {.op = node->op, .n_in = n_in, .n_out = node->n_out};
    step.training = node->sequence > b->source->last_forward || b->source->training;
    step.in = mx_program_alloc(b->program, ((size_t)n_in + (size_t)node->n_out) * sizeof(int32_t));
    step.name = step.in ? copy_text(b->program, node->name) : NULL;
    if (step.name && node->op->schema && (step.attrs = mx_program_alloc(b->program, node->op->schema->size)))
        memcpy(step.attrs, node->attrs, node->op->schema->size);
    if (!step.name || (node->op->schema && !step.attrs) || keep_callee(b->program, node))
        return MX_ERR_MEMORY;
    step.out = step.in + n_in;
    for (int k = 0; k < n_in; k++) {
        const int64_t entry = k < node->n_in ? b->graph.in_entry[b->graph.in_row[i] + k] : -1;
        step.in[k] = entry < 0 ? -1 : b->value[entry];
    }
    for (int k = 0; k < node->n_out; k++) {
        const int64_t entry = b->graph.row[i] + k;
        step.out[k] = b->value[entry] = mx_program_value(b->program, &b->shape[entry], b->type[entry]);
        if (step.out[k] < 0)
            return MX_ERR_MEMORY;
    }
    if (node->sequence <= b->source->last_forward)
        b->program->forward = b->program->steps.length + 1;
    return mx_vec_push(&b->program->steps, step) ? MX_OK : MX_ERR_MEMORY;
}

static mx_code add_nodes(builder *b)
{
    mx_graph_by_creation(&b->graph, b->order);
    for (int64_t k = 0; k < b->graph.n; k++) {
        const int64_t i = b->order[k];
        const mx_gnode *node = b->graph.nodes[i];
        for (int64_t e = b->graph.row[i]; e < b->graph.row[i + 1]; e++)
            if (check_known(b, node, e))
                return mx_error_code();
        mx_code code = mx_gnode_is_variable(node) ? add_variable(b, i) : add_step(b, i);
        if (code)
            return code;
    }
    return MX_OK;
}

static mx_code add_results(builder *b, int64_t count, const mx_gentry *results, int64_t *next)
{
    for (int64_t i = 0; i < count; i++) {
        const int32_t value = results[i].node ? b->value[b->graph.results[(*next)++]] : -1;
        if (!mx_vec_push(&b->program->results, value))
            return MX_ERR_MEMORY;
    }
    return MX_OK;
}

static void mark_written(mx_program *program)
{
    for (int64_t i = 0; i < program->steps.length; i++) {
        const mx_step *step = &program->steps.items[i];
        for (int k = 0; k < step->n_in && (k < 32 || mx_op_calls(step->op)); k++)
            if (mx_op_writes(step->op, step->attrs, k) && step->in[k] >= 0) {
                const int32_t slot = program->values.items[step->in[k]].external;
                if (slot >= 0)
                    program->externals.items[slot].written = true;
            }
    }
}

static mx_code build(builder *b)
{
    const struct mx_program_source *s = b->source;
    const size_t bytes = (size_t)(s->n_results + s->n_gradients + s->n_kept) * sizeof(mx_gentry);
    mx_gentry *all = mx_alloc(bytes);
    if (!all)
        return MX_ERR_MEMORY;
    int64_t count = 0, next = 0;
    for (int64_t i = 0; i < s->n_results + s->n_gradients; i++) {
        const mx_gentry e = i < s->n_results ? s->results[i] : s->gradients[i - s->n_results];
        if (e.node)
            all[count++] = e;
    }
    for (int64_t i = 0; i < s->n_kept; i++)
        all[count++] = s->kept[i];
    mx_code code = mx_graph_of(&b->graph, count, all);
    mx_free(all, bytes);
    if (code)
        return code;
    const size_t entries = (size_t)b->graph.row[b->graph.n];
    b->shape = mx_alloc(entries * sizeof *b->shape);
    b->type = mx_alloc(entries * sizeof *b->type);
    b->value = mx_alloc(entries * sizeof *b->value);
    b->order = mx_alloc((size_t)b->graph.n * sizeof *b->order);
    if (!b->shape || !b->type || !b->value || !b->order)
        return MX_ERR_MEMORY;
    mx_graph_infer_start(&b->graph, b->shape, b->type);
    code = mx_graph_infer(&b->graph, b->shape, b->type);
    if (!code)
        code = add_nodes(b);
    if (!code)
        code = add_results(b, s->n_results, s->results, &next);
    if (!code)
        code = add_results(b, s->n_gradients, s->gradients, &next);
    return code;
}

mx_code mx_program_build(mx_program *program, const struct mx_program_source *source)
{
    *program = (mx_program){.context = source->context,
                            .forward_results = source->n_results,
                            .n_inputs = source->n_forward_inputs,
                            .training = source->training,
                            .recompute = source->recompute};
    program->device = mx_device_of(source->context, "plan");
    if (!program->device)
        return mx_error_code();
    builder b = {.program = program, .source = source};
    mx_code code = build(&b);
    const size_t entries = b.graph.row ? (size_t)b.graph.row[b.graph.n] : 0;
    mx_free(b.shape, entries * sizeof *b.shape);
    mx_free(b.type, entries * sizeof *b.type);
    mx_free(b.value, entries * sizeof *b.value);
    mx_free(b.order, (size_t)b.graph.n * sizeof *b.order);
    mx_graph_free(&b.graph);
    if (code) {
        mx_program_free(program);
        return mx_has_error() ? mx_error_code() : mx_fail(code, "plan: out of memory");
    }
    mark_written(program);
    mx_program_count(program);
    return MX_OK;
}

mx_code mx_program_update(mx_program *program, const mx_step *given, int32_t target)
{
    mx_step step = *given;
    const int n_in = step.n_in, n_out = mx_op_count_out(step.op, step.attrs);
    int32_t *lists = mx_program_alloc(program, ((size_t)n_in + (size_t)n_out) * sizeof *lists);
    void *attrs = step.op->schema ? mx_program_alloc(program, step.op->schema->size) : NULL;
    char *name = copy_text(program, step.name);
    if (!lists || !name || (step.op->schema && !attrs) || n_out != 1)
        return n_out != 1 ? MX_ERR_UNSUPPORTED : MX_ERR_MEMORY;
    memcpy(lists, step.in, (size_t)n_in * sizeof *lists);
    lists[n_in] = target;
    if (attrs)
        memcpy(attrs, step.attrs, step.op->schema->size);
    step.in = lists, step.out = lists + n_in, step.n_out = n_out, step.attrs = attrs, step.name = name;
    if (!mx_vec_push(&program->steps, step))
        return MX_ERR_MEMORY;
    program->externals.items[program->values.items[target].external].written = true;
    mark_written(program);
    mx_program_count(program);
    return MX_OK;
}

/* ---- changing ---------------------------------------------------------------------------------------------------- */

void mx_program_count(mx_program *program)
{
    for (int64_t i = 0; i < program->values.length; i++)
        program->values.items[i].uses = 0, program->values.items[i].maker = -1;
    for (int64_t i = 0; i < program->steps.length; i++) {
        const mx_step *step = &program->steps.items[i];
        for (int k = 0; k < step->n_in && !step->dead; k++)
            if (step->in[k] >= 0)
                program->values.items[step->in[k]].uses++;
        for (int k = 0; k < step->n_out && !step->dead; k++)
            if (program->values.items[step->out[k]].external < 0)
                program->values.items[step->out[k]].maker = (int32_t)i;
    }
    for (int64_t i = 0; i < program->results.length; i++)
        if (program->results.items[i] >= 0)
            program->values.items[program->results.items[i]].uses++;
}

void mx_program_sweep(mx_program *program)
{
    int64_t n = 0, forward = 0;
    for (int64_t i = 0; i < program->steps.length; i++) {
        if (program->steps.items[i].dead)
            continue;
        forward += i < program->forward;
        program->steps.items[n++] = program->steps.items[i];
    }
    program->steps.length = n;
    program->forward = forward;
    mx_program_count(program);
}

void mx_program_replace(mx_program *program, int32_t from, int32_t to)
{
    for (int64_t i = 0; i < program->steps.length; i++)
        for (int k = 0; k < program->steps.items[i].n_in; k++)
            if (program->steps.items[i].in[k] == from)
                program->steps.items[i].in[k] = to;
    for (int64_t i = 0; i < program->results.length; i++)
        if (program->results.items[i] == from)
            program->results.items[i] = to;
}

bool mx_step_has_effects(const mx_program *program, const mx_step *step)
{
    if (step->op->flags & MX_OP_RANDOM || mx_step_mutates(step))
        return true;
    for (int k = 0; k < step->n_out; k++)
        if (program->values.items[step->out[k]].external >= 0)
            return true;
    return false;
}

bool mx_step_reads_written(const mx_program *program, const mx_step *step)
{
    for (int k = 0; k < step->n_in; k++) {
        const int32_t slot = step->in[k] < 0 ? -1 : program->values.items[step->in[k]].external;
        if (slot >= 0 && program->externals.items[slot].written)
            return true;
    }
    return false;
}
