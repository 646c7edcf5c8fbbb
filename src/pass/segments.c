/* Training with less memory: the forward part is cut into segments, of which only the values at the cuts are saved; what the
 * backward part needs of a segment is computed again before its gradients.
 *
 *     forward    s1 s2 s3 | s4 s5 s6 | s7 s8 s9          values that cross a cut, and those of the last segment, are saved
 *     backward   g9 g8 g7  s4 s5 g6 g5 g4  s1 s2 g3 g2 g1
 *
 * Asked for by hybridize(recompute=True) or MXNET_BACKWARD_DO_MIRROR=1, or because the saved values would not fit into the
 * memory of the device.  With n equal segments 1/n of the values and the cuts are in memory at a time, for at most one more
 * forward part of time.  Cuts are made where few bytes cross them; of several numbers of segments the one that needs the
 * least memory is taken.  The bits are the same: steps are repeated as they are.  What draws random numbers or writes
 * running statistics is saved, or computed from saved parts of its results (struct mx_again).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "pass/passes.h"
#include "pass/repeat.h"

#define MOST_SEGMENTS 48
#define WORTH 0.9 /* of the saved bytes: less is not gained */

enum fate { DROPPED, SAVED, REPEATED };

/* Of values that share memory, views of one another, the first stands for all: the root. */
typedef struct cutting {
    const mx_program *program;
    mx_read *reads;    /* (values) of a root: those of its views, too */
    int32_t *root;     /* (values) -1: an external */
    int32_t *last;     /* (values) of a root: last step of the forward part that touches it */
    uint8_t *fate;     /* (values) of a root: enum fate */
    bool *result;      /* (values) of a root: its memory is the caller's */
    int64_t *crossing; /* (forward + 1) bytes made before step s that are read from it on */
    int64_t *weight;   /* (forward + 1) bytes made before step s that the backward part reads */
    int32_t *segment;  /* (forward) of each step */
    bool *repeats;     /* (forward) the step can be repeated */
    bool *changed;     /* (values) externals that are written */
    int64_t last_read; /* the last step of the backward part that reads a value of the forward part */
} cutting;

static int64_t forward_of(const cutting *c) { return c->program->forward; }
static const mx_step *step_of(const cutting *c, int64_t i) { return &c->program->steps.items[i]; }
static int32_t maker_of(const cutting *c, int32_t v) { return c->program->values.items[v].maker; }
static int64_t bytes_of(const cutting *c, int32_t v)
{
    return c->result[v] ? 0 : mx_value_bytes(&c->program->values.items[v]);
}

/* ---- what is there ------------------------------------------------------------------------------------------------ */

static void join_reads(mx_read *to, const mx_read *from)
{
    if (from->first >= 0 && (to->first < 0 || from->first < to->first))
        to->first = from->first;
    to->last = from->last > to->last ? from->last : to->last;
}

static void find_roots(cutting *c)
{
    const mx_program *program = c->program;
    for (int64_t v = 0; v < program->values.length; v++)
        c->root[v] = -1;
    for (int32_t i = 0; i < forward_of(c); i++) {
        const mx_step *step = step_of(c, i);
        for (int k = 0; k < step->n_in; k++)
            if (step->in[k] >= 0 && c->root[step->in[k]] >= 0)
                c->last[c->root[step->in[k]]] = i;
        for (int k = 0; k < step->n_out; k++) {
            const int32_t v = step->out[k];
            if (program->values.items[v].external >= 0)
                continue;
            c->root[v] = v, c->last[v] = i;
            if (k == 0 && step->op->flags & MX_OP_VIEW) {
                c->root[v] = c->root[step->in[0]];
                if (c->root[v] >= 0)
                    join_reads(&c->reads[c->root[v]], &c->reads[v]);
            }
        }
    }
    for (int64_t h = 0; h < program->results.length; h++)
        if (program->results.items[h] >= 0 && c->root[program->results.items[h]] >= 0)
            c->result[c->root[program->results.items[h]]] = true;
}

static bool is_root(const cutting *c, int32_t v, int64_t maker) { return c->root[v] == v && maker_of(c, v) == maker; }

static void find_weights(cutting *c)
{
    for (int64_t i = 0; i < forward_of(c); i++)
        for (int k = 0; k < step_of(c, i)->n_out; k++) {
            const int32_t v = step_of(c, i)->out[k];
            if (!is_root(c, v, i))
                continue;
            c->weight[i + 1] += c->reads[v].first >= 0 ? bytes_of(c, v) : 0;
            c->crossing[i + 1] += bytes_of(c, v);
            c->crossing[c->last[v] + 1] -= bytes_of(c, v);
            c->last_read = c->reads[v].last > c->last_read ? c->reads[v].last : c->last_read;
        }
    for (int64_t i = 0; i < forward_of(c); i++) {
        c->weight[i + 1] += c->weight[i];
        c->crossing[i + 1] += c->crossing[i];
    }
}

/* Externals that a step writes before the last read of a saved value: repeating a step that reads them gives other numbers. */
static void find_changed(cutting *c)
{
    const mx_value *values = c->program->values.items;
    for (int64_t i = 0; i <= c->last_read; i++) {
        const mx_step *step = step_of(c, i);
        for (int k = 0; k < step->n_in; k++)
            if (step->in[k] >= 0 && mx_op_writes(step->op, step->attrs, k))
                c->changed[step->in[k]] = true;
        for (int k = 0; k < step->n_out; k++)
            c->changed[step->out[k]] |= values[step->out[k]].external >= 0;
    }
}

static bool reads_changed(const cutting *c, const mx_step *step)
{
    for (int k = 0; k < step->n_in; k++)
        if (step->in[k] >= 0 && c->changed[step->in[k]])
            return true;
    return false;
}

static void find_repeatable(cutting *c)
{
    mx_again again;
    for (int64_t i = 0; i < forward_of(c); i++)
        c->repeats[i] =
            mx_step_repeats(c->program, step_of(c, i), &again) && (again.op || !reads_changed(c, step_of(c, i)));
}

/* ---- cutting ------------------------------------------------------------------------------------------------------ */

/* Segments of about equal weight: each cut is where the fewest bytes cross, at most half a segment from its place. */
static void cut(cutting *c, int segments)
{
    const int64_t all = c->weight[forward_of(c)];
    int64_t at = 0;
    for (int s = 0; s < segments; s++) {
        int64_t end = forward_of(c), least = INT64_MAX;
        for (int64_t i = at + 1; s < segments - 1 && i < forward_of(c); i++) {
            const int64_t place = 2 * segments * c->weight[i];
            if (place > (2 * s + 1) * all && place < (2 * s + 3) * all && c->crossing[i] < least)
                least = c->crossing[i], end = i;
        }
        for (; at < end; at++)
            c->segment[at] = s;
    }
}

static bool can_repeat(const cutting *c, int32_t root, int segments)
{
    const int32_t maker = maker_of(c, root), segment = c->segment[maker];
    mx_again again;
    if (!c->repeats[maker] || c->result[root] || segment == segments - 1 || c->segment[c->last[root]] != segment)
        return false;
    mx_step_repeats(c->program, step_of(c, maker), &again);
    return !again.op || step_of(c, maker)->out[0] == root;
}

/* A repeated step needs the value. */
static void need(cutting *c, int32_t v, int segments)
{
    const int32_t root = v < 0 ? -1 : c->root[v];
    if (root >= 0 && c->fate[root] == DROPPED)
        c->fate[root] = can_repeat(c, root, segments) ? REPEATED : SAVED;
}

static void need_inputs(cutting *c, const mx_step *step, int segments)
{
    mx_again again;
    mx_step_repeats(c->program, step, &again);
    for (int k = 0; !again.op && k < step->n_in; k++)
        need(c, step->in[k], segments);
    for (int k = 0; again.op && k < again.n_in; k++)
        need(c, again.from[k] < 0 ? step->out[-1 - again.from[k]] : step->in[again.from[k]], segments);
}

static void decide(cutting *c, int segments)
{
    for (int32_t v = 0; v < c->program->values.length; v++) {
        c->fate[v] = DROPPED;
        if (c->root[v] == v && c->reads[v].first >= 0)
            c->fate[v] = can_repeat(c, v, segments) ? REPEATED : SAVED;
    }
    for (int64_t i = forward_of(c) - 1; i >= 0; i--) {
        bool repeated = false;
        for (int k = 0; k < step_of(c, i)->n_out; k++)
            repeated |= is_root(c, step_of(c, i)->out[k], i) && c->fate[step_of(c, i)->out[k]] == REPEATED;
        if (repeated)
            need_inputs(c, step_of(c, i), segments);
    }
}

/* The most bytes of values of the forward part that are in memory at a time in the backward part. */
static int64_t most_bytes(const cutting *c)
{
    int64_t saved = 0, repeated[MOST_SEGMENTS + 1] = {0}, kept[MOST_SEGMENTS + 1] = {0}, most = 0;
    for (int64_t i = 0; i < forward_of(c); i++)
        for (int k = 0; k < step_of(c, i)->n_out; k++) {
            const int32_t v = step_of(c, i)->out[k];
            if (is_root(c, v, i) && c->fate[v] != DROPPED)
                (c->fate[v] == SAVED ? kept : repeated)[c->segment[i]] += bytes_of(c, v);
        }
    for (int s = 0; s < MOST_SEGMENTS; s++) {
        saved += kept[s];
        most = saved + repeated[s] > most ? saved + repeated[s] : most;
    }
    return most;
}

/* Marks what to repeat; false: nothing is worth it. */
static bool choose(cutting *c)
{
    int64_t least = (int64_t)(WORTH * (double)c->weight[forward_of(c)]);
    int best = 0;
    for (int segments = 2; segments <= MOST_SEGMENTS; segments += 1 + segments / 8) {
        cut(c, segments);
        decide(c, segments);
        const int64_t bytes = most_bytes(c);
        if (bytes < least)
            least = bytes, best = segments;
    }
    if (!best)
        return false;
    cut(c, best);
    decide(c, best);
    for (int64_t v = 0; v < c->program->values.length; v++)
        c->reads[v].repeated = c->root[v] >= 0 && c->fate[c->root[v]] == REPEATED;
    return true;
}

/* ---- the pass ------------------------------------------------------------------------------------------------------ */

static mx_code open(cutting *c)
{
    const size_t values = (size_t)c->program->values.length, forward = (size_t)forward_of(c);
    c->reads = mx_reads_new(c->program);
    c->root = mx_alloc_zero(values * sizeof *c->root), c->last = mx_alloc_zero(values * sizeof *c->last);
    c->fate = mx_alloc_zero(values), c->result = mx_alloc_zero(values);
    c->crossing = mx_alloc_zero((forward + 1) * sizeof *c->crossing);
    c->weight = mx_alloc_zero((forward + 1) * sizeof *c->weight);
    c->segment = mx_alloc_zero(forward * sizeof *c->segment), c->repeats = mx_alloc_zero(forward);
    c->changed = mx_alloc_zero(values);
    if (!c->reads || !c->root || !c->last || !c->fate || !c->result || !c->crossing || !c->weight || !c->segment ||
        !c->repeats || !c->changed)
        return MX_ERR_MEMORY;
    find_roots(c);
    find_weights(c);
    find_changed(c);
    find_repeatable(c);
    return MX_OK;
}

static void close(cutting *c, size_t values, size_t forward)
{
    mx_free(c->reads, values * sizeof *c->reads);
    mx_free(c->root, values * sizeof *c->root), mx_free(c->last, values * sizeof *c->last);
    mx_free(c->fate, values), mx_free(c->result, values);
    mx_free(c->crossing, (forward + 1) * sizeof *c->crossing), mx_free(c->weight, (forward + 1) * sizeof *c->weight);
    mx_free(c->segment, forward * sizeof *c->segment), mx_free(c->repeats, forward), mx_free(c->changed, values);
}

/* Bytes that arrays on the program's device may still take. */
static int64_t bytes_left(const mx_program *program)
{
    const mx_device *device = program->device;
    size_t unused, all, now, most;
    if (mx_context_is_host(program->context))
        return mx_alloc_left();
    if (!device->memory_info || !device->memory_used || device->memory_info(program->context, &unused, &all) ||
        device->memory_used(program->context, &now, &most)) {
        mx_error_clear();
        return INT64_MAX;
    }
    return (int64_t)(all - now);
}

mx_code mx_pass_segments(mx_program *program)
{
    if (!program->forward || program->forward == program->steps.length)
        return MX_OK;
    const size_t values = (size_t)program->values.length, forward = (size_t)program->forward;
    cutting c = {.program = program};
    mx_code code = open(&c);
    if (!code && (program->recompute || c.weight[forward] > bytes_left(program) / 5 * 4) && choose(&c))
        code = mx_reads_repeat(program, c.reads);
    close(&c, values, forward);
    return code;
}
