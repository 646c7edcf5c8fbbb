/* The memory pass: liveness, views, in-place results, one arena.
 *
 *     value -> buffer (values that share memory: views, in-place results) -> offset in the arena
 *
 * A buffer is live from the first step that writes it to the last that reads it.  Buffers are placed greedily, the
 * largest first, each at the lowest offset that is free during its lifetime.  What the backward part reads stays where
 * it is until then; after that its memory is free for the rest of the backward part.
 *
 * On a GPU, steps that touch no common memory run in parallel (cuda/capture_flow.cu), so there the values of a small
 * program share no memory.
 *
 * Results of prepared steps are in a separate block, because they outlive the run: what later steps read is never freed,
 * the rest lives until its last use.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "pass/memory.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sort.h"

#define SMALL ((int64_t)32 << 20) /* bytes; they fit into a GPU's cache */

typedef struct buffer {
    int64_t bytes;
    int32_t first, last; /* steps between which it lives, both included */
    int32_t external, result;
    bool prepared; /* in the block of prepared values */
    int64_t offset;
} buffer;

typedef struct planner {
    const mx_program *program;
    mx_memory *memory;
    int32_t *of; /* (values) buffer; -1: none */
    MX_VEC(buffer) buffers;
    int32_t *last_use; /* (values) last step that reads it */
    bool roomy;        /* memory is not reused */
} planner;

static int64_t rounded(int64_t bytes) { return (bytes + MX_ALIGN - 1) / MX_ALIGN * MX_ALIGN; }

static int32_t new_buffer(planner *p, buffer b)
{
    b.offset = -1;
    return mx_vec_push(&p->buffers, b) ? (int32_t)p->buffers.length - 1 : -1;
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

static void find_last_uses(planner *p)
{
    const mx_program *g = p->program;
    for (int64_t v = 0; v < g->values.length; v++)
        p->last_use[v] = -1;
    for (int64_t s = 0; s < g->steps.length; s++)
        for (int k = 0; k < g->steps.items[s].n_in; k++)
            if (g->steps.items[s].in[k] >= 0)
                p->last_use[g->steps.items[s].in[k]] = (int32_t)s;
    for (int64_t s = 0; s < g->prepared; s++)
        for (int k = 0; k < g->steps.items[s].n_out; k++)
            if (p->last_use[g->steps.items[s].out[k]] >= g->prepared)
                p->last_use[g->steps.items[s].out[k]] = INT32_MAX;
}

static void touch(planner *p, int32_t b, int32_t step)
{
    buffer *x = &p->buffers.items[b];
    x->first = step < x->first ? step : x->first;
    x->last = step > x->last ? step : x->last;
}

/* Everything in the buffer is read for the last time by this step. */
static bool ends_here(const planner *p, int32_t b, int32_t step)
{
    return p->buffers.items[b].external < 0 && p->buffers.items[b].last <= step;
}

static bool same_layout(const mx_value *a, const mx_value *b)
{
    return a->dtype == b->dtype && mx_shape_size(&a->shape) == mx_shape_size(&b->shape);
}

/* How many inputs, from the first on, may give their memory to this output. */
static int givers(const mx_step *step, int output)
{
    if (mx_step_mutates(step))
        return 0;
    if (output == 0 && step->op->flags & MX_OP_INPLACE)
        return step->n_in;
    return output == 1 && step->op->flags & MX_OP_SECOND_INPLACE ? 1 : 0;
}

/* An input whose memory the output may take over; -1: none. */
static int32_t input_to_reuse(const planner *p, int32_t s, int output)
{
    const mx_program *g = p->program;
    const mx_step *step = &g->steps.items[s];
    const mx_value *out = &g->values.items[step->out[output]];
    if (p->roomy || out->external >= 0)
        return -1;
    for (int k = 0; k < givers(step, output); k++) {
        const int32_t v = step->in[k];
        if (v < 0 || p->of[v] < 0 || !ends_here(p, p->of[v], s) || !same_layout(&g->values.items[v], out))
            continue;
        if (s >= g->forward && p->buffers.items[p->of[v]].first < g->forward)
            continue;          /* a gradient's array is not known yet while the forward part runs */
        bool overlaps = false; /* another input in the same memory, laid out differently */
        for (int j = 0; j < step->n_in; j++)
            overlaps |= step->in[j] >= 0 && step->in[j] != v && p->of[step->in[j]] == p->of[v] &&
                        !same_layout(&g->values.items[step->in[j]], out);
        if (!overlaps)
            return v;
    }
    return -1;
}

/* Extends the buffer's lifetime to the last use of every value in it, before code tests whether it ends. */
static void extend(planner *p, int32_t value, int32_t step)
{
    touch(p, p->of[value], step);
    if (p->last_use[value] >= 0)
        touch(p, p->of[value], p->last_use[value]);
}

static mx_code place_output(planner *p, int32_t s, int k)
{
    const mx_program *g = p->program;
    const mx_step *step = &g->steps.items[s];
    const int32_t v = step->out[k];
    const mx_value *value = &g->values.items[v];
    if (value->external >= 0)
        return MX_OK;
    int32_t from = -1;
    if (k == 0 && (step->op->flags & MX_OP_VIEW))
        from = step->in[0];
    else
        from = input_to_reuse(p, s, k);
    p->of[v] = from >= 0 ? p->of[from]
                         : new_buffer(p,
                  (buffer){.bytes = rounded(mx_value_bytes(value)), .first = s, .last = s, .external = -1, .result = -1,
                           .prepared = s < g->prepared});
    if (p->of[v] < 0)
        return MX_ERR_MEMORY;
    extend(p, v, s);
    return MX_OK;
}

static mx_code make_buffers(planner *p)
{
    const mx_program *g = p->program;
    for (int64_t v = 0; v < g->values.length; v++)
        p->of[v] = -1;
    for (int64_t e = 0; e < g->externals.length; e++) {
        const int32_t b = new_buffer(p, (buffer){.external = (int32_t)e, .result = -1, .last = INT32_MAX});
        if (b < 0)
            return MX_ERR_MEMORY;
        p->of[g->externals.items[e].value] = b;
    }
    for (int64_t h = 0; h < g->results.length; h++) { /* results outlive the run: their memory is not reused */
        const int32_t v = g->results.items[h];
        if (v >= 0)
            p->last_use[v] = INT32_MAX;
    }
    for (int64_t s = 0; s < g->steps.length; s++)
        for (int k = 0; k < g->steps.items[s].n_out; k++)
            if (place_output(p, (int32_t)s, k))
                return MX_ERR_MEMORY;
    for (int64_t h = 0; h < g->results.length; h++)
        if (g->results.items[h] >= 0)
            p->buffers.items[p->of[g->results.items[h]]].result = (int32_t)h;
    return MX_OK;
}

static mx_code add_workspace(planner *p, const size_t *workspace)
{
    for (int64_t s = 0; s < p->program->steps.length; s++) {
        p->memory->workspace[s] = -1;
        if (!workspace || !workspace[s])
            continue;
        const int32_t b = new_buffer(p, (buffer){.bytes = rounded((int64_t)workspace[s]),
                                                 .first = (int32_t)s,
                                                 .last = (int32_t)s,
                                                 .external = -1,
                                                 .result = -1});
        if (b < 0)
            return MX_ERR_MEMORY;
        p->memory->workspace[s] = b; /* becomes an offset when the buffers are placed */
    }
    return MX_OK;
}

/* ---- placement -------------------------------------------------------------------------------------------------- */

static bool in_arena(const buffer *b) { return b->external < 0 && b->result < 0 && b->bytes > 0; }

/* Numbers of buffers: the largest first, then those that are used earlier. */
static int largest_first(const void *a, const void *b, const void *buffers)
{
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    const buffer *x = (const buffer *)buffers + i, *y = (const buffer *)buffers + j;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return i < j ? -1 : i > j;
}

/* Placed buffers are in `placed`, sorted by offset; takes the first gap between those that are live. */
static void place(planner *p, int32_t which, int32_t *placed, int64_t *count)
{
    buffer *b = &p->buffers.items[which];
    int64_t at = 0, position = 0;
    for (int64_t i = 0; i < *count; i++) {
        const buffer *other = &p->buffers.items[placed[i]];
        const bool apart = !p->roomy && (other->last < b->first || other->first > b->last);
        if (apart || other->prepared != b->prepared)
            continue;
        if (other->offset >= at + b->bytes)
            break;
        if (other->offset + other->bytes > at)
            at = other->offset + other->bytes;
    }
    b->offset = at;
    while (position < *count && p->buffers.items[placed[position]].offset <= at)
        position++;
    memmove(placed + position + 1, placed + position, (size_t)(*count - position) * sizeof *placed);
    placed[position] = which;
    (*count)++;
    int64_t *size = b->prepared ? &p->memory->prepared : &p->memory->arena;
    if (at + b->bytes > *size)
        *size = at + b->bytes;
}

static mx_code place_buffers(planner *p)
{
    const int64_t n = p->buffers.length;
    int32_t *order = mx_alloc((size_t)n * 2 * sizeof *order);
    if (!order)
        return MX_ERR_MEMORY;
    int64_t used = 0, count = 0;
    for (int32_t i = 0; i < n; i++)
        if (in_arena(&p->buffers.items[i]))
            order[used++] = i;
    mx_sort(order, used, sizeof *order, largest_first, p->buffers.items);
    for (int64_t i = 0; i < used; i++)
        place(p, order[i], order + n, &count);
    mx_free(order, (size_t)n * 2 * sizeof *order);
    return MX_OK;
}

static void write_places(planner *p)
{
    mx_memory *m = p->memory;
    for (int64_t v = 0; v < m->values; v++) {
        const buffer *b = p->of[v] < 0 ? NULL : &p->buffers.items[p->of[v]];
        m->place[v] = (mx_place){MX_PLACE_NOWHERE, 0};
        if (b && b->external >= 0)
            m->place[v] = (mx_place){MX_PLACE_EXTERNAL, b->external};
        else if (b && b->result >= 0)
            m->place[v] = (mx_place){MX_PLACE_RESULT, b->result};
        else if (b)
            m->place[v] = (mx_place){b->prepared ? MX_PLACE_PREPARED : MX_PLACE_ARENA, b->bytes ? b->offset : 0};
    }
    for (int64_t s = 0; s < m->steps; s++)
        if (m->workspace[s] >= 0)
            m->workspace[s] = p->buffers.items[m->workspace[s]].offset;
}

static bool is_roomy(const mx_program *program)
{
    int64_t bytes = 0;
    for (int64_t s = 0; s < program->steps.length; s++)
        for (int k = 0; k < program->steps.items[s].n_out; k++)
            bytes += rounded(mx_value_bytes(&program->values.items[program->steps.items[s].out[k]]));
    return mx_program_can(program, MX_CAN_OVERLAP) && bytes <= SMALL;
}

mx_code mx_memory_plan(mx_memory *memory, const mx_program *program, const size_t *workspace)
{
    const size_t values = (size_t)program->values.length, steps = (size_t)program->steps.length;
    *memory = (mx_memory){.values = program->values.length, .steps = program->steps.length};
    planner p = {.program = program, .memory = memory, .roomy = is_roomy(program)};
    memory->place = mx_alloc(values * sizeof *memory->place);
    memory->workspace = mx_alloc(steps * sizeof *memory->workspace);
    p.of = mx_alloc(values * sizeof *p.of);
    p.last_use = mx_alloc(values * sizeof *p.last_use);
    mx_code code = memory->place && memory->workspace && p.of && p.last_use ? MX_OK : MX_ERR_MEMORY;
    if (!code)
        find_last_uses(&p);
    if (!code)
        code = make_buffers(&p);
    if (!code)
        code = add_workspace(&p, workspace);
    if (!code)
        code = place_buffers(&p);
    if (!code)
        write_places(&p);
    mx_vec_free(&p.buffers);
    mx_free(p.of, values * sizeof *p.of);
    mx_free(p.last_use, values * sizeof *p.last_use);
    if (code)
        mx_memory_free(memory);
    return code;
}

void mx_memory_free(mx_memory *memory)
{
    mx_free(memory->place, (size_t)memory->values * sizeof *memory->place);
    mx_free(memory->workspace, (size_t)memory->steps * sizeof *memory->workspace);
    *memory = (mx_memory){0};
}
