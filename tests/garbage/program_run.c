/* Running a random program in every way that must agree (see program.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "gluon/deploy.h"
#include "gluon/executor.h"
#include "outcome.h"
#include "program.h"

/* ---- the program on any arrays ------------------------------------------------------------------------------- */

mx_code program_compute(const program *p, mx_array **value)
{
    for (int i = 0; i < p->n_steps; i++) {
        const program_step *s = &p->step[i];
        mx_array *in[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL};
        for (int k = 0; k < s->n_in; k++)
            in[k] = s->in[k] < 0 ? MX_NONE : value[s->in[k]];
        if (mx_invoke(s->op, s->attrs, s->n_in, in, MX_MAX_OUTPUTS, out))
            return mx_error_code();
        memcpy(value + s->first, out, (size_t)s->n_out * sizeof *out);
    }
    return MX_OK;
}

static bool is_output(const program_value *v)
{
    return !v->input && !v->used && !v->dropped && mx_dtype_is_float(v->type);
}

int program_outputs(const program *p, mx_array *const *value, mx_array **out)
{
    int n = 0;
    for (int i = 0; i < p->n_values && n < MX_MAX_OUTPUTS; i++)
        if (is_output(&p->value[i]))
            out[n++] = value[i];
    return n;
}

bool program_learns(const program_value *v) { return v->input && !v->written && mx_dtype_is_float(v->type); }

static bool make_inputs(const program *p, bool gradients, mx_array **value)
{
    for (int i = 0; i < p->n_values; i++) {
        const program_value *v = &p->value[i];
        value[i] =
            v->input ? mx_array_to(ops_array(&v->shape, v->type, v->elements, false), mx_current_context()) : NULL;
        if (v->input && (!value[i] || (gradients && program_learns(v) && mx_attach_grad(value[i], MX_GRAD_WRITE))))
            return false;
    }
    return true;
}

/* Backward from every floating-point output; gradients in the order of the values. */
static void differentiate(const program *p, mx_array *const *value, outcome *o)
{
    mx_array *heads[MX_MAX_OUTPUTS];
    int n = 0;
    for (int i = 0; i < o->n_out; i++)
        if (o->out[i]->node)
            heads[n++] = o->out[i];
    o->backward = n && mx_backward_all((mx_arrays){heads, n}, NULL) == MX_OK;
    mx_error_clear();
    for (int i = 0; i < p->n_values; i++)
        if (program_learns(&p->value[i]))
            o->grad[o->n_in++] = o->backward ? mx_gradient(value[i]) : NULL;
}

/* ---- the ways ------------------------------------------------------------------------------------------------ */

static void run_imperative(const program *p, bool record, outcome *o)
{
    mx_array *value[PROGRAM_VALUES];
    *o = (outcome){0};
    if (!make_inputs(p, record, value))
        return outcome_error(o, mx_error_code());
    mx_mode mode = mx_mode_enter(record, record);
    mx_code code = program_compute(p, value);
    mx_mode_leave(&mode);
    if (code)
        return outcome_error(o, code);
    o->n_out = program_outputs(p, value, o->out);
    if (record)
        differentiate(p, value, o);
}

static mx_symbol *symbol_of(const program *p)
{
    mx_array *value[PROGRAM_VALUES], *out[MX_MAX_OUTPUTS];
    for (int i = 0; i < p->n_values; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        value[i] = p->value[i].input ? mx_variable(name) : NULL;
    }
    if (program_compute(p, value))
        return NULL;
    mx_symbol *symbol = mx_symbol_of((mx_arrays){out, program_outputs(p, value, out)});
    const char *text = symbol ? mx_symbol_json_with_casts(symbol) : NULL;
    return text ? mx_symbol_from_json(text, strlen(text)) : NULL;
}

/* The program as a block of one's own. */
static mx_arrays forward(mx_block *self, mx_arrays in)
{
    const program *p = mx_block_user(self);
    mx_array *value[PROGRAM_VALUES], *out[MX_MAX_OUTPUTS];
    for (int i = 0, n = 0; i < p->n_values; i++)
        value[i] = p->value[i].input ? in.v[n++] : NULL;
    if (program_compute(p, value))
        return (mx_arrays){NULL, -1};
    return mx_results_make((mx_arrays){out, program_outputs(p, value, out)});
}

/* The program as its file says, a block of all inputs. */
static mx_block *read_again(const program *p)
{
    char names[PROGRAM_VALUES * 6] = "";
    for (int i = 0, used = 0; i < p->n_values; i++)
        if (p->value[i].input)
            used += snprintf(names + used, sizeof names - (size_t)used, "x%d ", i);
    mx_symbol *symbol = symbol_of(p);
    return symbol ? mx_symbol_block(symbol, names) : NULL;
}

static void run_block(const program *p, mx_block *block, bool record, outcome *o)
{
    mx_array *value[PROGRAM_VALUES], *in[PROGRAM_VALUES];
    int n = 0;
    *o = (outcome){0};
    if (!block || !make_inputs(p, record, value))
        return outcome_error(o, mx_error_code());
    for (int i = 0; i < p->n_values; i++)
        if (p->value[i].input)
            in[n++] = value[i];
    mx_mode mode = mx_mode_enter(record, record);
    mx_arrays out = mx_block_call_many(block, (mx_arrays){in, n});
    mx_mode_leave(&mode);
    if (mx_error_code())
        return outcome_error(o, mx_error_code());
    o->n_out = (int)out.n;
    memcpy(o->out, out.v, (size_t)o->n_out * sizeof *o->out);
    if (record)
        differentiate(p, value, o);
}

/* ---- agreement ----------------------------------------------------------------------------------------------- */

/* Copies, to see later whether results that are held have changed. */
static void copy_results(const outcome *o, outcome *copy)
{
    *copy = *o;
    for (int i = 0; i < o->n_out; i++)
        copy->out[i] = mx_array_copy(o->out[i]);
}

/* Hybridized, twice, against `reference`. */
static const char *check_hybridized(const program *p, mx_block *block, const char *way, bool recompute,
                                    const outcome *reference)
{
    outcome first, held, second;
    const char *d;
    if (mx_hybridize_with(block, &(struct mx_hybridize_options){.active = true, .recompute = recompute}))
        return outcome_wrong("%s: %s", way, mx_error_message());
    run_block(p, block, true, &first);
    if ((d = outcome_compare(way, reference, &first)) || first.code)
        return d;
    copy_results(&first, &held);
    run_block(p, block, true, &second);
    if ((d = outcome_compare(way, reference, &second)))
        return d;
    held.backward = false;
    return outcome_compare("held while another call ran", &held, &first);
}

/* A file keeps the graph but not the order of its steps: sums of gradients may be rounded differently. */
static const char *check_read_again(const program *p, const outcome *reference)
{
    outcome plain;
    const char *d;
    mx_block *block = read_again(p);
    run_block(p, block, true, &plain);
    if ((d = outcome_close("read again", reference, &plain, 2e-2)) || plain.code)
        return d;
    return check_hybridized(p, block, "read again, hybridized", false, &plain);
}

static const char *check_prediction(const program *p, mx_block *block)
{
    outcome reference, folded;
    run_imperative(p, false, &reference);
    run_block(p, block, false, &folded);
    return outcome_close("predicting", &reference, &folded, 1e-3);
}

const char *program_run(program *p)
{
    MX_SCOPE;
    outcome reference;
    const char *d;
    mx_error_clear();
    run_imperative(p, true, &reference);
    if (reference.code ||
        !reference.backward) /* values can be refused, such as indices; some operators have no gradient */
        return NULL;
    mx_block *block = mx_block_new("Program", .forward_many = forward, .hybrid = true, .user = p);
    if ((d = check_hybridized(p, block, "hybridized", false, &reference)) ||
        (d = check_hybridized(p, block, "hybridized, recomputing", true, &reference)) ||
        (d = check_read_again(p, &reference)))
        return d;
    if ((d = program_train(p)))
        return d;
    return check_prediction(p, block);
}
