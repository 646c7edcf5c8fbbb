/* gelu between dense layers is computed again in the backward part instead of saved, in the step that computes its gradient
 * (MX_CAN_RECOMPUTE): that step reads what gelu needs, and can add up the gradient of the bias as well.
 *
 *     forward   y = LeakyReLU(x) [gelu]; z = dense(y, w)
 *     backward  dy = dot(dz, w); dw, db = _dense_gradients(dz, y); dx = _backward_LeakyReLU(dy, x); dv, dc = _dense_gradients(dx, u)
 *         ->    dy = dot(dz, w); dx, y', dc = _gelu_gradients(dy, x); dw, db = _dense_gradients(dz, y'); dv = dot(dx', u)
 *
 * So y, often the largest array of a transformer's cell, is not saved, and no pass over memory is added: the sums dc would be one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/op.gen.h"
#include "pass/passes.h"
#include "pass/rebuild.h"

#define MOST_READERS 4

typedef struct found {
    int64_t gradient;             /* number of the step _backward_LeakyReLU */
    int64_t weights;              /* that of the _dense_gradients that sums its result */
    int64_t after;                /* the new step comes after this one, which computes its first operand */
    int32_t y;                    /* the saved value */
    int64_t reader[MOST_READERS]; /* steps of the backward part that read y, or views of it */
    int readers;
} found;

static const mx_step *step_of(const mx_program *program, int64_t i) { return &program->steps.items[i]; }
static mx_value *value_of(const mx_program *program, int32_t v) { return &program->values.items[v]; }

static bool is_gelu(const mx_step *step, const char *op)
{
    return !step->dead && mx_step_is(step, op) &&
           ((const mx_leaky_relu_attrs *)step->attrs)->act_type == MX_LEAKY_RELU_GELU;
}

/* How often steps from `from` on read v; *first: the first that does. */
static int count_reads(const mx_program *program, int32_t v, int64_t from, int64_t *first)
{
    int reads = 0;
    *first = -1;
    for (int64_t i = from; i < program->steps.length; i++)
        for (int k = 0; k < step_of(program, i)->n_in; k++)
            if (!step_of(program, i)->dead && step_of(program, i)->in[k] == v) {
                *first = *first < 0 ? i : *first;
                reads++;
            }
    return reads;
}

static bool is_view(const mx_step *step) { return mx_step_is(step, "_reshape_to"); }

/* dx as a matrix: itself, or its only reader's result; else -1 */
static int32_t matrix_of(const mx_program *program, int32_t dx)
{
    const mx_shape_t *whole = &value_of(program, dx)->shape;
    int64_t view;
    if (whole->ndim == 2)
        return dx;
    if (value_of(program, dx)->uses != 1 || count_reads(program, dx, program->forward, &view) != 1 ||
        !is_view(step_of(program, view)))
        return -1;
    const int32_t matrix = step_of(program, view)->out[0];
    const mx_shape_t *shape = &value_of(program, matrix)->shape;
    return shape->ndim == 2 && shape->dim[1] == whole->dim[whole->ndim - 1] ? matrix : -1;
}

/* The step that adds up the columns of dx; else -1 */
static int64_t find_weights(const mx_program *program, int32_t dx)
{
    const int32_t matrix = matrix_of(program, dx);
    for (int64_t i = program->forward; matrix >= 0 && i < program->steps.length; i++)
        if (!step_of(program, i)->dead && mx_step_is(step_of(program, i), "_dense_gradients") &&
            step_of(program, i)->in[0] == matrix)
            return i;
    return -1;
}

/* Finds what reads y in the backward part; false: something does so before step f->after. */
static bool find_readers(const mx_program *program, found *f)
{
    for (int64_t i = program->forward; i < program->steps.length; i++) {
        const mx_step *step = step_of(program, i);
        int64_t first = i;
        int reads = 0;
        for (int k = 0; k < step->n_in && !step->dead; k++)
            reads += step->in[k] == f->y;
        if (!reads)
            continue;
        if (f->readers == MOST_READERS ||
            (is_view(step) && count_reads(program, step->out[0], i, &first) != value_of(program, step->out[0])->uses) ||
            first <= f->after)
            return false;
        f->reader[f->readers++] = i;
    }
    return f->readers > 0;
}

/* The forward step on the same data; -1: none */
static int32_t result_of(const mx_program *program, int32_t x)
{
    for (int64_t i = 0; i < program->forward; i++)
        if (is_gelu(step_of(program, i), "LeakyReLU") && step_of(program, i)->in[0] == x)
            return step_of(program, i)->out[0];
    return -1;
}

static bool find(const mx_program *program, int64_t i, found *f)
{
    const mx_step *step = step_of(program, i);
    if (!is_gelu(step, "_backward_LeakyReLU") || step->in[0] < 0 ||
        value_of(program, step->in[0])->maker < program->forward)
        return false;
    *f = (found){.gradient = i, .weights = find_weights(program, step->out[0]), .y = result_of(program, step->in[1])};
    f->after = value_of(program, step->in[0])->maker;
    const mx_value *x = value_of(program, step->in[1]);
    for (int64_t k = 0; k < program->results.length; k++)
        if (program->results.items[k] == f->y || program->results.items[k] == step->out[0])
            return false;
    return f->weights > i && f->y >= 0 && value_of(program, f->y)->dtype == x->dtype &&
           value_of(program, step->in[0])->dtype == x->dtype && find_readers(program, f);
}

/* The new step, and views of gelu's values; other steps read these, too. */
static mx_code push_gradients(mx_rebuild *to, const found *f)
{
    const mx_step *old = step_of(to->program, f->gradient), *weights = step_of(to->program, f->weights);
    const int32_t again =
        mx_program_value(to->program, &value_of(to->program, f->y)->shape, value_of(to->program, f->y)->dtype);
    int32_t *lists = mx_program_alloc(to->program, 5 * sizeof *lists);
    if (again < 0 || !lists)
        return MX_ERR_MEMORY;
    memcpy(lists, (int32_t[]){old->in[0], old->in[1], old->out[0], again, weights->out[1]}, 5 * sizeof *lists);
    const mx_step step = {.op = MX_OP("_gelu_gradients"), .in = lists, .n_in = 2, .out = lists + 2, .n_out = 3, .training = true,
                          .name = old->name};
    if (mx_rebuild_push(to, step))
        return MX_ERR_MEMORY;
    for (int k = 0; k < f->readers; k++) {
        mx_step *reader = &to->program->steps.items[f->reader[k]];
        for (int i = 0; i < reader->n_in; i++)
            reader->in[i] = reader->in[i] == f->y ? again : reader->in[i];
        if (is_view(reader) && mx_rebuild_push(to, *reader))
            return MX_ERR_MEMORY;
    }
    return MX_OK;
}

/* The gradient of the weight alone. */
static mx_code push_weights(mx_rebuild *to, const mx_step *both)
{
    const mx_dot_attrs attrs = {.transpose_a = true};
    const mx_value weight = *value_of(to->program, both->out[0]);
    const int32_t made =
        mx_rebuild_new(to, MX_OP("dot"), &attrs, sizeof attrs, 2, both->in, weight.shape, weight.dtype);
    if (made < 0)
        return MX_ERR_MEMORY;
    mx_step *step = &to->steps.items[to->steps.length - 1];
    step->out[0] = both->out[0], step->name = both->name;
    return MX_OK;
}

static mx_code rewrite(mx_program *program, const found *f)
{
    mx_rebuild to = {.program = program};
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < program->steps.length; i++) {
        const mx_step step = *step_of(program, i);
        bool gone = i == f->gradient;
        for (int k = 0; k < f->readers; k++)
            gone |= i == f->reader[k] && is_view(&step);
        to.name = step.name;
        mx_rebuild_at(&to, i);
        code = gone ? MX_OK : i == f->weights ? push_weights(&to, &step) : mx_rebuild_push(&to, step);
        if (!code && i == f->after)
            code = push_gradients(&to, f);
    }
    if (code)
        mx_rebuild_drop(&to);
    else
        mx_rebuild_finish(&to);
    return code;
}

mx_code mx_pass_gelu(mx_program *program)
{
    found f;
    for (int64_t i = program->forward; i < program->steps.length; i++) {
        if (!find(program, i, &f))
            continue;
        if (rewrite(program, &f))
            return MX_ERR_MEMORY;
    }
    return MX_OK;
}
