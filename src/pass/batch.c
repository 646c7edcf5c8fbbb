/* The batch pass: while predicting, entries of a batch that do not fit into the caches together are computed in groups.
 *
 *     a = conv(x); b = conv(a); ...   ->   for each group: x' = x[from:to]; a' = conv(x'); b' = conv(a') ...
 *                                          b = Concat(b', b'' ...)
 *
 * A region is a run of steps that compute every entry by itself (by_entry in their descriptions).  It ends where the values
 * of the whole batch are small.  The groups' values share memory, so a plan for many images also needs less of it.
 * Results are the same bits: an entry does not depend on its neighbours.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/threads.h"
#include "gluon/op.gen.h"
#include "pass/passes.h"
#include "pass/rebuild.h"

#define LARGE_BYTES ((int64_t)16 << 20) /* values of this size leave the caches before they are read */
#define GROUP_BYTES ((int64_t)2 << 20)  /* of what a step of a group reads and writes, per thread; one entry may have more */
#define MOST_STEPS 2048                 /* of all groups */

typedef struct region {
    mx_rebuild r;
    int64_t first, end;   /* steps */
    int64_t batch, group; /* entries */
    int32_t *copy;        /* by value: that of the current group; -1: none */
    int32_t *parts;       /* (groups, values that are read after the region) */
} region;

static const mx_value *value_of(const mx_program *program, int32_t v) { return &program->values.items[v]; }

static int64_t entries(const mx_program *program, int32_t v)
{
    const mx_shape_t *shape = &value_of(program, v)->shape;
    return shape->ndim > 0 ? shape->dim[0] : 0;
}

/* Input k has an entry for each of the output. */
static bool divided(const mx_step *step, int k) { return step->in[k] >= 0 && step->op->by_entry >> k & 1; }

/* ---- the region -------------------------------------------------------------------------------------------------- */

static bool belongs(const mx_program *program, const mx_step *step, int64_t batch)
{
    if (!step->op->by_entry || step->n_out != 1 || entries(program, step->out[0]) != batch)
        return false;
    for (int k = 0; k < step->n_in; k++)
        if (divided(step, k) && entries(program, step->in[k]) != batch)
            return false;
    return true;
}

/* Bytes of what the step reads and writes of the batch. */
static int64_t traffic(const mx_program *program, const mx_step *step)
{
    int64_t bytes = mx_value_bytes(value_of(program, step->out[0]));
    for (int k = 0; k < step->n_in; k++)
        bytes += divided(step, k) ? mx_value_bytes(value_of(program, step->in[k])) : 0;
    return bytes;
}

/* The run of steps that begins at `first`, up to the last that reads a large value. */
static void find_end(const mx_program *program, region *g)
{
    g->end = g->first;
    g->batch = entries(program, program->steps.items[g->first].out[0]);
    for (int64_t i = g->first; i < program->steps.length && belongs(program, &program->steps.items[i], g->batch); i++)
        if (i > g->first && mx_value_bytes(value_of(program, program->steps.items[i].in[0])) >= LARGE_BYTES)
            g->end = i + 1;
}

static bool find_region(const mx_program *program, region *g)
{
    for (g->first = program->prepared; g->first < program->steps.length; g->first++) {
        if (!program->steps.items[g->first].op->by_entry)
            continue;
        find_end(program, g);
        if (g->end > g->first)
            return true;
    }
    return false;
}

static void choose_group(const mx_program *program, region *g)
{
    int64_t most = 1;
    for (int64_t i = g->first; i < g->end; i++) {
        const int64_t bytes = traffic(program, &program->steps.items[i]) / g->batch;
        most = bytes > most ? bytes : most;
    }
    const int64_t fits = GROUP_BYTES * mx_num_threads() / most, steps = g->end - g->first;
    const int64_t least = (g->batch * steps + MOST_STEPS - 1) / MOST_STEPS;
    g->group = fits > least ? fits : least;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static int32_t new_value(const region *g, int32_t like, int64_t count)
{
    mx_value value = *value_of(g->r.program, like);
    value.shape.dim[0] = count;
    return mx_program_value(g->r.program, &value.shape, value.dtype);
}

/* Entries [begin, end) of an input of the region; cut once per group. */
static mx_code cut(region *g, int32_t v, int64_t begin, int64_t end)
{
    if (g->copy[v] >= 0)
        return MX_OK;
    const int32_t to = new_value(g, v, end - begin);
    if (to < 0 || mx_rebuild_rows(&g->r, v, begin, end, to))
        return MX_ERR_MEMORY;
    g->r.steps.items[g->r.steps.length - 1].training = false;
    g->copy[v] = to;
    return MX_OK;
}

static mx_code repeat_step(region *g, const mx_step *from, int64_t begin, int64_t end)
{
    mx_step step;
    g->r.name = from->name;
    for (int k = 0; k < from->n_in; k++)
        if (divided(from, k) && cut(g, from->in[k], begin, end))
            return MX_ERR_MEMORY;
    if (mx_rebuild_copy(&g->r, from, &step, from->n_in))
        return MX_ERR_MEMORY;
    for (int k = 0; k < from->n_in; k++)
        if (divided(from, k))
            step.in[k] = g->copy[from->in[k]];
    const int32_t out = new_value(g, from->out[0], end - begin);
    if (out < 0)
        return MX_ERR_MEMORY;
    step.out[0] = g->copy[from->out[0]] = out;
    return mx_rebuild_push(&g->r, step);
}

static bool read_after(const mx_program *program, const region *g, int32_t v)
{
    for (int64_t h = 0; h < program->results.length; h++)
        if (program->results.items[h] == v)
            return true;
    for (int64_t i = g->end; i < program->steps.length; i++)
        for (int k = 0; k < program->steps.items[i].n_in; k++)
            if (program->steps.items[i].in[k] == v)
                return true;
    return false;
}

/* Value v is what the groups computed of it: part k of group i is parts[i * steps + k]. */
static mx_code join(region *g, int32_t v, const int32_t *parts, int64_t groups, int64_t steps)
{
    const mx_value value = *value_of(g->r.program, v);
    const mx_concat_attrs attrs = {.num_args = groups, .dim = 0};
    const size_t bytes = (size_t)groups * sizeof(int32_t);
    int32_t *in = mx_alloc(bytes);
    if (!in)
        return MX_ERR_MEMORY;
    for (int64_t i = 0; i < groups; i++)
        in[i] = parts[i * steps];
    const int32_t made =
        mx_rebuild_new(&g->r, MX_OP("Concat"), &attrs, sizeof attrs, (int)groups, in, value.shape, value.dtype);
    mx_free(in, bytes);
    if (made < 0)
        return MX_ERR_MEMORY;
    mx_step *step = &g->r.steps.items[g->r.steps.length - 1];
    step->out[0] = v, step->training = false;
    return MX_OK;
}

static mx_code repeat_region(region *g, int64_t groups)
{
    const mx_program *program = g->r.program;
    const int64_t steps = g->end - g->first;
    const size_t values = (size_t)program->values.length * sizeof *g->copy;
    for (int64_t i = 0; i < groups; i++) {
        const int64_t begin = i * g->batch / groups, end = (i + 1) * g->batch / groups;
        memset(g->copy, 0xff, values);
        for (int64_t k = 0; k < steps; k++) {
            const mx_step *step = &program->steps.items[g->first + k];
            if (repeat_step(g, step, begin, end))
                return MX_ERR_MEMORY;
            g->parts[i * steps + k] = g->copy[step->out[0]];
        }
    }
    for (int64_t k = 0; k < steps; k++) {
        const int32_t v = program->steps.items[g->first + k].out[0];
        if (read_after(program, g, v) && join(g, v, g->parts + k, groups, steps))
            return MX_ERR_MEMORY;
    }
    return MX_OK;
}

static mx_code rewrite(region *g)
{
    const mx_program *program = g->r.program;
    const int64_t groups = (g->batch + g->group - 1) / g->group;
    for (int64_t i = 0; i < program->steps.length; i++) {
        mx_rebuild_at(&g->r, i);
        if (i == g->first && repeat_region(g, groups))
            return MX_ERR_MEMORY;
        if ((i < g->first || i >= g->end) && mx_rebuild_push(&g->r, program->steps.items[i]))
            return MX_ERR_MEMORY;
    }
    return MX_OK;
}

mx_code mx_pass_batch(mx_program *program)
{
    region g = {.r = {.program = program}};
    if (!mx_program_predicts(program) || !find_region(program, &g))
        return MX_OK;
    choose_group(program, &g);
    if (g.group >= g.batch)
        return MX_OK;
    const int64_t groups = (g.batch + g.group - 1) / g.group;
    const size_t values = (size_t)program->values.length * sizeof *g.copy;
    const size_t parts = (size_t)(groups * (g.end - g.first)) * sizeof *g.parts;
    g.copy = mx_alloc(values), g.parts = mx_alloc(parts);
    mx_code code = g.copy && g.parts ? rewrite(&g) : MX_ERR_MEMORY;
    mx_free(g.parts, parts);
    mx_free(g.copy, values);
    if (code)
        mx_rebuild_drop(&g.r);
    else
        mx_rebuild_finish(&g.r);
    return code;
}
