/* Making random programs: steps that succeed on what the steps before them gave (see program.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define COUNT(list) (int)(sizeof(list) / sizeof *(list))
#define MOST_ELEMENTS 4096

/* What networks are made of: these meet each other often enough for fusions to happen. */
static const char *const common[] = {
    "Convolution", "FullyConnected", "BatchNorm", "Activation", "Pooling", "elemwise_add", "elemwise_mul", "broadcast_add", "broadcast_mul",
    "relu", "sigmoid", "tanh", "exp", "negative", "_plus_scalar", "_mul_scalar", "LayerNorm", "softmax", "log_softmax", "Reshape", "transpose",
    "Flatten", "Concat", "slice_axis", "sum", "mean", "max", "dot", "batch_dot", "LeakyReLU", "Cast", "expand_dims", "square", "sqrt", "clip",
    "Deconvolution", "Embedding", "_div_scalar", "broadcast_sub", "erf", "SliceChannel", "where", "L2Normalization"};

static void tell(program *p, const char *format, ...) MX_PRINTF(2, 3);
static void tell(program *p, const char *format, ...)
{
    size_t used = strlen(p->story);
    va_list args;
    va_start(args, format);
    vsnprintf(p->story + used, sizeof p->story - used, format, args);
    va_end(args);
}

static bool suits(const mx_op *op)
{
    const uint32_t strange = MX_OP_HIDDEN | MX_OP_RANDOM | MX_OP_CALLS | MX_OP_CREATE;
    return op && !(op->flags & strange) && op->samples && !strstr(op->name, "_update") &&
           !strstr(op->name, "all_finite") && !strstr(op->name, "reset_arrays") &&
           !strstr(op->name, "quantize"); /* a range may be () or (1,) */
}

static mx_op *choose_op(garbage_dice *dice)
{
    static int count;
    while (mx_op_at(count))
        count++;
    for (int tries = 0; tries < 20; tries++) {
        mx_op *op = garbage_roll(dice, 100) < 70 ? mx_op_find(common[garbage_roll(dice, COUNT(common))])
                                                 : mx_op_at((int)garbage_roll(dice, (uint64_t)count));
        mx_error_clear();
        if (suits(op))
            return op;
    }
    return NULL;
}

/* ---- inputs of a step -------------------------------------------------------------------------------------- */

static int add_input(program *p, const mx_shape_t *shape, mx_dtype type, const double *elements, int64_t n)
{
    const int64_t size = mx_shape_size(shape);
    if (p->n_values == PROGRAM_VALUES || size > MOST_ELEMENTS)
        return -1;
    program_value *v = &p->value[p->n_values];
    *v = (program_value){
        .input = true, .shape = *shape, .type = type, .elements = calloc((size_t)size + 1, sizeof(double))};
    for (int64_t i = 0; n && i < size; i++)
        v->elements[i] = elements[i % n];
    return p->n_values++;
}

/* A value of earlier steps, later ones first; -1: none. */
static int choose_value(const program *p, garbage_dice *dice)
{
    if (p->n_values == 0)
        return -1;
    const int back = (int)garbage_roll(dice, p->n_values < 3 ? (uint64_t)p->n_values : 3), i = p->n_values - 1 - back;
    return p->value[i].written ? -1 : i;
}

/* Shapes of a step's other inputs, as inference derives them from the first; unknown ones are as in the sample. */
static void infer_inputs(const garbage_call *call, const program_value *first, mx_shape_t *shapes)
{
    mx_shape_t out[MX_MAX_OUTPUTS];
    int types[OPS_MAX_IN], out_types[MX_MAX_OUTPUTS];
    for (int k = 0; k < OPS_MAX_IN; k++)
        shapes[k] = MX_UNKNOWN_SHAPE, types[k] = MX_DTYPE_NONE;
    for (int k = 0; k < MX_MAX_OUTPUTS; k++)
        out[k] = MX_UNKNOWN_SHAPE, out_types[k] = MX_DTYPE_NONE;
    shapes[0] = first->shape, types[0] = (int)first->type;
    const mx_op *op = call->c.op;
    const int n = call->c.n_in > op->declared_inputs ? call->c.n_in : op->declared_inputs;
    mx_infer infer = {
        op, call->c.attrs ? call->c.attrs : op->defaults, n, call->c.n_out, shapes, out, types, out_types, NULL};
    mx_op_infer(&infer);
    mx_error_clear();
    for (int k = 1; k < call->c.n_in; k++)
        if (!mx_shape_known(&shapes[k]))
            shapes[k] = call->c.integer[k] || call->c.n_in > 2 ? call->values.shape[k] : first->shape;
}

static bool choose_inputs(program *p, program_step *s, garbage_call *call, garbage_dice *dice)
{
    mx_shape_t shapes[OPS_MAX_IN];
    int first = choose_value(p, dice);
    if (first >= 0 && (call->c.integer[0] || ops_mutates(s->op, 0)))
        first = -1;
    if (first >= 0)
        infer_inputs(call, &p->value[first], shapes);
    for (int k = 0; k < s->n_in; k++) {
        if (call->c.absent[k]) {
            s->in[k] = -1;
            continue;
        }
        const bool fresh = call->c.integer[k] || ops_mutates(s->op, k);
        const mx_shape_t *shape = first >= 0 ? &shapes[k] : &call->values.shape[k];
        const mx_dtype type = first >= 0 && !call->c.integer[k] ? p->value[first].type : (mx_dtype)call->types[k];
        int v = k == 0 ? first : !fresh && garbage_roll(dice, 100) < 40 ? choose_value(p, dice) : -1;
        if (v < 0)
            v = add_input(p, shape, type, call->values.v[k], call->values.size[k]);
        if (v < 0)
            return false;
        s->in[k] = v;
    }
    return true;
}

/* ---- steps ------------------------------------------------------------------------------------------------- */

static void forget_values(program *p, int from)
{
    for (int i = from; i < p->n_values; i++)
        free(p->value[i].elements);
    p->n_values = from;
}

/* Runs the step on abstract arrays: do shapes and types fit?  Appends its results. */
static bool append_results(program *p, program_step *s)
{
    MX_SCOPE;
    mx_array *in[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL};
    for (int k = 0; k < s->n_in; k++) {
        const program_value *v = s->in[k] < 0 ? NULL : &p->value[s->in[k]];
        in[k] = v ? mx_scope_add(mx_array_abstract(&v->shape, v->type, mx_cpu(0))) : MX_NONE;
    }
    const bool ok = mx_invoke(s->op, s->attrs, s->n_in, in, MX_MAX_OUTPUTS, out) == MX_OK;
    mx_error_clear();
    s->first = p->n_values, s->n_out = ok ? mx_op_count_visible(s->op, s->attrs ? s->attrs : s->op->defaults) : 0;
    for (int i = 0; ok && i < s->n_out; i++) {
        mx_shape_t shape = ops_shape_of(out[i]);
        if (p->n_values == PROGRAM_VALUES || !mx_shape_known(&shape) || mx_shape_size(&shape) > MOST_ELEMENTS ||
            !mx_shape_size(&shape))
            return false;
        p->value[p->n_values++] = (program_value){.shape = shape, .type = (mx_dtype)out[i]->dtype};
    }
    return ok && s->n_out > 0;
}

static void describe(program *p, const program_step *s)
{
    tell(p, "    ");
    for (int i = 0; i < s->n_out; i++)
        tell(p, "%sv%d", i ? ", " : "", s->first + i);
    tell(p, " = %s(", s->op->name);
    for (int k = 0; k < s->n_in; k++)
        if (s->in[k] >= 0)
            tell(p, "%s%s%d", k ? ", " : "", p->value[s->in[k]].input ? "x" : "v", s->in[k]);
    char text[MX_VALUE_TEXT];
    for (int i = 0; s->op->schema && i < s->op->schema->count; i++) {
        const mx_field *f = &s->op->schema->fields[i];
        const char *value = mx_field_text(f, s->attrs, text);
        if (!f->fallback || strcmp(value, f->fallback))
            tell(p, ", %s=%s", f->name, value);
    }
    tell(p, ")\n");
}

static void add_step(program *p, garbage_dice *dice)
{
    garbage_call call;
    mx_op *op = choose_op(dice);
    if (!op || !garbage_make_plain(&call, op, dice))
        return;
    program_step *s = &p->step[p->n_steps];
    *s = (program_step){.op = op, .attrs = call.c.attrs, .n_in = call.c.n_in};
    const int before = p->n_values;
    if (choose_inputs(p, s, &call, dice) && append_results(p, s)) {
        for (int k = 0; k < s->n_in; k++)
            if (ops_mutates(op, k) && s->in[k] >= 0)
                p->value[s->in[k]].written = true;
        p->n_steps++;
        call.c.attrs = NULL; /* belongs to the step */
    } else
        forget_values(p, before);
    garbage_free(&call);
}

static bool is_live(const program *p, const program_step *s)
{
    for (int i = s->first; i < s->first + s->n_out; i++)
        if (p->value[i].used || mx_dtype_is_float(p->value[i].type))
            return true;
    return false;
}

/* Drops steps that lead to no floating-point result, and inputs that nothing uses. */
static void prune(program *p)
{
    for (int i = 0; i < p->n_values; i++)
        p->value[i].used = false;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        program_step *s = &p->step[i];
        if (is_live(p, s)) {
            for (int k = 0; k < s->n_in; k++)
                if (s->in[k] >= 0)
                    p->value[s->in[k]].used = true;
        } else {
            free(s->attrs);
            for (int k = 0; k < s->n_out; k++)
                p->value[s->first + k].dropped = true;
            memmove(s, s + 1, (size_t)(--p->n_steps - i) * sizeof *s);
        }
    }
    for (int i = 0; i < p->n_values; i++)
        if (p->value[i].input && !p->value[i].used)
            p->value[i].input = false, p->value[i].dropped = true;
}

bool program_make(program *p, garbage_dice *dice)
{
    *p = (program){0};
    const int wanted = 2 + (int)garbage_roll(dice, PROGRAM_STEPS - 1);
    for (int tries = 0; tries < 40 && p->n_steps < wanted; tries++)
        add_step(p, dice);
    prune(p);
    for (int i = 0; i < p->n_steps; i++)
        describe(p, &p->step[i]);
    for (int i = 0; i < p->n_values; i++)
        if (p->value[i].input) {
            tell(p, "    x%d: %s (", i, mx_dtype_name(p->value[i].type));
            for (int k = 0; k < p->value[i].shape.ndim; k++)
                tell(p, "%s%lld", k ? ", " : "", (long long)p->value[i].shape.dim[k]);
            tell(p, ")\n");
        }
    return p->n_steps > 0;
}

void program_free(program *p)
{
    forget_values(p, 0);
    for (int i = 0; i < p->n_steps; i++)
        free(p->step[i].attrs);
}
