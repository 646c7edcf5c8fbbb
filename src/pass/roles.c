/* On devices that may round anew: queries, keys and values of self-attention by one product.
 *
 *     q, k, v = FullyConnected(x, wq), (x, wk), (x, wv); y = _contrib_attention(q, k, v)
 *         ->  w = Concat(wq, wk, wv); qkv = FullyConnected(x, w); y = _contrib_attention(qkv)  [packed]
 *     dq, dk, dv = _backward_attention(...); dx = dq wq + dk wk + dv wv; dwq = dq' x ...
 *         ->  dqkv = _backward_attention(...); dx = dqkv w; dw = dqkv' x; dwq, dwk, dwv are rows of dw
 *
 * Three products of one third of the columns are slower than one, and the sum of three gradients needs two passes over memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/op.gen.h"
#include "op/formula/attention.h"
#include "pass/passes.h"
#include "pass/rebuild.h"

enum { DATA, WEIGHT, BIAS };
#define ROLES 3

/* Steps by number; of every role.  The backward part: -1 if there is none. */
typedef struct found {
    int64_t attention, dense[ROLES];
    int64_t backward, view[ROLES], data[ROLES], shaped[ROLES], weight[ROLES], sum[ROLES];
    int first;           /* role whose gradients are computed first */
    int64_t all;         /* columns of all roles */
    int32_t x, qkv, w;   /* values; qkv and w: new */
    int32_t grads, rows; /* new: gradient of qkv, and as a matrix */
} found;

static const mx_step *step_of(const mx_program *program, int64_t i) { return &program->steps.items[i]; }
static const mx_value *value_of(const mx_program *program, int32_t v) { return &program->values.items[v]; }

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static bool find_dense(const mx_program *program, found *f)
{
    const mx_step *attention = step_of(program, f->attention);
    const mx_dense_attrs *first = NULL;
    f->all = 0;
    for (int r = 0; r < ROLES; r++) {
        const mx_step *dense = mx_step_maker(program, attention->in[r], "FullyConnected");
        const mx_dense_attrs *a = dense ? dense->attrs : NULL;
        if (!dense || (r && (dense->in[DATA] != f->x || a->no_bias != first->no_bias || a->flatten)) || a->flatten)
            return false;
        f->dense[r] = dense - program->steps.items, f->all += a->num_hidden;
        if (!r)
            f->x = dense->in[DATA], first = a;
    }
    return f->dense[0] != f->dense[1] && f->dense[1] != f->dense[2] && f->dense[0] != f->dense[2];
}

/* The only live step after `from` that reads v; -1: none, or several. */
static int64_t only_reader(const mx_program *program, int32_t v, int64_t from)
{
    for (int64_t i = from + 1; i < program->steps.length && value_of(program, v)->uses == 1; i++)
        for (int k = 0; k < step_of(program, i)->n_in; k++)
            if (!step_of(program, i)->dead && step_of(program, i)->in[k] == v)
                return i;
    return -1;
}

static bool multiplies(const mx_step *step, bool transpose_a, int32_t a, int32_t b)
{
    const mx_dot_attrs *attrs = step->attrs;
    return mx_step_is(step, "dot") && attrs->transpose_a == transpose_a && !attrs->transpose_b && step->in[0] == a &&
           (b < 0 || step->in[1] == b);
}

/* The two products that read the gradient d of a role, a matrix: with its weight, and with x. */
static bool find_products(const mx_program *program, found *f, int r, int32_t d)
{
    if (value_of(program, d)->uses != 2 || value_of(program, d)->shape.ndim != 2)
        return false;
    for (int64_t i = f->view[r] + 1; i < program->steps.length; i++) {
        const mx_step *step = step_of(program, i);
        if (step->dead || !step->n_in || step->in[0] != d)
            continue;
        if (multiplies(step, false, d, step_of(program, f->dense[r])->in[WEIGHT]))
            f->data[r] = i;
        else if (multiplies(step, true, d, -1) || mx_step_is(step, "_dense_gradients"))
            f->weight[r] = i;
    }
    return f->data[r] >= 0 && f->weight[r] >= 0;
}

/* The addition of the gradient of x by this role to that by others. */
static bool find_sum(const mx_program *program, found *f, int r)
{
    int64_t at = f->data[r], next = only_reader(program, step_of(program, at)->out[0], at);
    if (next >= 0 && mx_step_is(step_of(program, next), "_reshape_to"))
        f->shaped[r] = at = next, next = only_reader(program, step_of(program, at)->out[0], at);
    if (next < 0 || !mx_step_is(step_of(program, next), "elemwise_add"))
        return false;
    f->sum[r] = next;
    return true;
}

static bool find_backward(const mx_program *program, found *f)
{
    const mx_step *attention = step_of(program, f->attention);
    const bool trains = value_of(program, attention->in[0])->uses > 1;
    for (int64_t i = f->attention + 1; i < program->steps.length && trains && f->backward < 0; i++)
        if (!step_of(program, i)->dead && mx_step_is(step_of(program, i), "_backward_attention") &&
            step_of(program, i)->in[MX_ATTENTION_BACK_IN] == attention->in[0])
            f->backward = i;
    if (trains && f->backward < 0)
        return false;
    for (int r = 0; r < ROLES; r++) {
        if (value_of(program, attention->in[r])->uses != 1 + trains)
            return false;
        if (!trains)
            continue;
        const mx_step *backward = step_of(program, f->backward);
        if (backward->in[MX_ATTENTION_BACK_IN + r] != attention->in[r] || backward->n_out != ROLES)
            return false;
        f->view[r] = only_reader(program, backward->out[r], f->backward);
        if (f->view[r] < 0 || !mx_step_is(step_of(program, f->view[r]), "_reshape_to") ||
            !find_products(program, f, r, step_of(program, f->view[r])->out[0]) || !find_sum(program, f, r))
            return false;
        if (f->data[r] < f->data[f->first])
            f->first = r;
    }
    if (!trains)
        return true;
    const int kind = step_of(program, f->weight[0])->n_out, a = (f->first + 1) % ROLES, b = (f->first + 2) % ROLES;
    return step_of(program, f->weight[1])->n_out == kind && step_of(program, f->weight[2])->n_out == kind &&
           f->sum[a] != f->sum[b]; /* each sum has an operand that stays */
}

static bool find(const mx_program *program, int64_t i, found *f)
{
    const mx_step *step = step_of(program, i);
    *f = (found){.attention = i, .backward = -1, .data = {-1, -1, -1}, .weight = {-1, -1, -1}, .sum = {-1, -1, -1}, .shaped = {-1, -1, -1},
                 .view = {-1, -1, -1}};
    return !step->dead && mx_step_is(step, "_contrib_attention") &&
           ((const mx_attention_attrs *)step->attrs)->roles == MX_ROLES_APART && find_dense(program, f) &&
           find_backward(program, f);
}

/* ---- rewriting --------------------------------------------------------------------------------------------------- */

/* The inputs number `input` of the three dense layers, one after another. */
static int32_t push_joined(mx_rebuild *to, const found *f, int input)
{
    int32_t in[ROLES];
    const mx_concat_attrs attrs = {.num_args = ROLES, .dim = 0};
    for (int r = 0; r < ROLES; r++)
        in[r] = step_of(to->program, f->dense[r])->in[input];
    mx_shape_t shape = value_of(to->program, in[0])->shape;
    shape.dim[0] = f->all;
    return mx_rebuild_new(to, MX_OP("Concat"), &attrs, sizeof attrs, ROLES, in, shape,
                          value_of(to->program, in[0])->dtype);
}

/* A value like v with another number of columns. */
static int32_t with_columns(mx_program *program, int32_t v, int64_t columns)
{
    mx_shape_t shape = value_of(program, v)->shape;
    shape.dim[shape.ndim - 1] = columns;
    return mx_program_value(program, &shape, value_of(program, v)->dtype);
}

static mx_code take_dense(mx_rebuild *to, found *f, const mx_step *given)
{
    mx_step dense;
    const bool biased = !((const mx_dense_attrs *)given->attrs)->no_bias;
    const int32_t w = push_joined(to, f, WEIGHT), b = biased ? push_joined(to, f, BIAS) : -1;
    f->w = w, f->qkv = with_columns(to->program, given->out[0], f->all);
    if (w < 0 || (biased && b < 0) || f->qkv < 0 || mx_rebuild_copy(to, given, &dense, given->n_in))
        return MX_ERR_MEMORY;
    ((mx_dense_attrs *)dense.attrs)->num_hidden = f->all;
    dense.in[WEIGHT] = w, dense.out[0] = f->qkv;
    if (biased)
        dense.in[BIAS] = b;
    return mx_rebuild_push(to, dense);
}

/* The operator or its gradient; first: its number of inputs before query, key, value */
static mx_code take_attention(mx_rebuild *to, found *f, const mx_step *given, int first)
{
    mx_step step;
    if (mx_rebuild_copy(to, given, &step, given->n_in))
        return MX_ERR_MEMORY;
    ((mx_attention_attrs *)step.attrs)->roles = MX_ROLES_PACKED;
    step.in[first] = f->qkv, step.in[first + 1] = step.in[first + 2] = -1;
    if (first) {
        step.out[0] = f->grads = with_columns(to->program, given->out[0], f->all), step.n_out = 1;
        if (f->grads < 0)
            return MX_ERR_MEMORY;
    }
    return mx_rebuild_push(to, step);
}

static mx_code take_view(mx_rebuild *to, found *f, const mx_step *given)
{
    mx_shape_t shape = value_of(to->program, given->out[0])->shape;
    shape.dim[1] = f->all;
    return (f->rows = mx_rebuild_view(to, f->grads, shape)) < 0 ? MX_ERR_MEMORY : MX_OK;
}

static mx_code take_product(mx_rebuild *to, const found *f, const mx_step *given)
{
    mx_step step;
    if (mx_rebuild_copy(to, given, &step, given->n_in))
        return MX_ERR_MEMORY;
    step.in[0] = f->rows, step.in[1] = f->w;
    return mx_rebuild_push(to, step);
}

/* The gradients of all weights and biases, then those of each. */
static mx_code take_weights(mx_rebuild *to, const found *f, const mx_step *given)
{
    mx_step step;
    if (mx_rebuild_copy(to, given, &step, given->n_in))
        return MX_ERR_MEMORY;
    step.in[0] = f->rows;
    for (int k = 0; k < step.n_out; k++) {
        mx_shape_t shape = value_of(to->program, given->out[k])->shape;
        shape.dim[0] = f->all;
        if ((step.out[k] = mx_program_value(to->program, &shape, value_of(to->program, given->out[k])->dtype)) < 0)
            return MX_ERR_MEMORY;
    }
    if (mx_rebuild_push(to, step))
        return MX_ERR_MEMORY;
    for (int64_t r = 0, begin = 0; r < ROLES; r++) {
        const int64_t end = begin + ((const mx_dense_attrs *)step_of(to->program, f->dense[r])->attrs)->num_hidden;
        for (int k = 0; k < step.n_out; k++)
            if (mx_rebuild_rows(to, step.out[k], begin, end, step_of(to->program, f->weight[r])->out[k]))
                return MX_ERR_MEMORY;
        begin = end;
    }
    return MX_OK;
}

/* Steps of the other roles that have gone. */
static bool gone(const found *f, int64_t i)
{
    for (int r = 0; r < ROLES; r++)
        if (i == f->dense[r] ||
            (r != f->first && (i == f->view[r] || i == f->data[r] || i == f->shaped[r] || i == f->weight[r])))
            return true;
    return false;
}

/* One role's gradient is that of all: sums with those of the others are the other operand. */
static void drop_sums(mx_program *program, const found *f)
{
    for (int r = 0; r < ROLES; r++) {
        if (f->backward < 0 || r == f->first)
            continue;
        const mx_step *data = step_of(program, f->data[r]);
        mx_step *sum = &program->steps.items[f->sum[r]];
        const int32_t part = data->out[0];
        const mx_step *view = mx_step_maker(program, sum->in[0], "_reshape_to");
        const bool left = sum->in[0] == part || (view && view->in[0] == part);
        mx_program_replace(program, sum->out[0], sum->in[left]);
        sum->dead = true;
    }
}

static mx_code rewrite(mx_program *program, found *f)
{
    mx_rebuild to = {.program = program, .name = step_of(program, f->dense[0])->name};
    int64_t start = f->dense[0];
    for (int r = 1; r < ROLES; r++)
        start = f->dense[r] < start ? f->dense[r] : start;
    drop_sums(program, f);
    for (int64_t i = 0; i < program->steps.length; i++) {
        const mx_step step = *step_of(program, i);
        mx_rebuild_at(&to, i);
        const mx_code code = i == start                 ? take_dense(&to, f, &step)
                             : i == f->attention        ? take_attention(&to, f, &step, 0)
                             : gone(f, i)               ? MX_OK
                             : f->backward < 0          ? mx_rebuild_push(&to, step)
                             : i == f->backward         ? take_attention(&to, f, &step, MX_ATTENTION_BACK_IN)
                             : i == f->view[f->first]   ? take_view(&to, f, &step)
                             : i == f->data[f->first]   ? take_product(&to, f, &step)
                             : i == f->weight[f->first] ? take_weights(&to, f, &step)
                                                        : mx_rebuild_push(&to, step);
        if (code) {
            mx_rebuild_drop(&to);
            return code;
        }
    }
    mx_rebuild_finish(&to);
    return MX_OK;
}

mx_code mx_pass_roles(mx_program *program)
{
    bool changed = false;
    found f;
    for (int64_t i = 0; i < program->steps.length; i++) {
        if (!find(program, i, &f))
            continue;
        if (rewrite(program, &f))
            return MX_ERR_MEMORY;
        changed = true;
    }
    if (changed)
        mx_program_sweep(program);
    return MX_OK;
}
