/* Control flow: conditions and loops.  SPDX-License-Identifier: Apache-2.0
 *
 * A condition that is constant selects its branch while the file is read; loops that run a known number of times are
 * unrolled; other ones are the library's own. */
#include <string.h>

#include "gluon/block.h"
#include "gluon/control.h"
#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

enum { MOST_STEPS = 4096, MOST_VALUES = 64 };

/* ---- If -------------------------------------------------------------------------------------------------------- */

typedef struct branch {
    mx_onnx_in *n;
} branch;

static mx_code run_branch(mx_onnx_in *n, const char *name, mx_arrays *outputs)
{
    mx_array *out[MOST_VALUES] = {NULL};
    const mx_code code = mx_onnx_subgraph(n, name, (mx_arrays){NULL, 0}, n->n_out, out);
    if (!code)
        *outputs = mx_results_make((mx_arrays){out, n->n_out});
    return code;
}

static mx_code then_branch(void *user, mx_arrays *outputs)
{
    return run_branch(((branch *)user)->n, "then_branch", outputs);
}
static mx_code else_branch(void *user, mx_arrays *outputs)
{
    return run_branch(((branch *)user)->n, "else_branch", outputs);
}

static mx_code read_if(mx_onnx_in *n)
{
    double condition = 0;
    branch b = {n};
    mx_arrays out = {0};
    if (n->n_out > MOST_VALUES)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "more than %d outputs", MOST_VALUES);
    if (!n->live) {
        if (!mx_onnx_number(n, 0, 0, &condition) || (condition != 0 ? then_branch(&b, &out) : else_branch(&b, &out)))
            return mx_error_code();
    } else
        out = mx_cond(mx_onnx_cast(n->in[0], MX_FLOAT32), then_branch, else_branch, &b);
    for (int i = 0; i < n->n_out && i < out.n; i++)
        n->out[i] = out.v[i];
    return mx_has_error() ? mx_error_code() : MX_OK;
}

/* ---- Loop ------------------------------------------------------------------------------------------------------ */

/* Collected values of all steps along a new first axis. */
static mx_array *stacked(mx_array **parts, int64_t n)
{
    return n ? mx_stack((mx_arrays){parts, n}, .axis = 0, .num_args = n) : NULL;
}

typedef struct looping {
    mx_onnx_in *n;
    int carried, collected;
} looping;

/* Variables: number of the step, condition, carried values. */
static mx_array *loop_condition(void *user, mx_arrays variables)
{
    const looping *l = user;
    mx_array *most = mx_onnx_given(l->n, 0) ? mx_onnx_cast(mx_onnx_as_scalar(l->n->in[0]), MX_INT64) : NULL;
    mx_array *left = most ? mx_onnx_cast(mx_lesser(variables.v[0], most), MX_FLOAT32) : NULL;
    return left ? mx_mul(variables.v[1], left) : variables.v[1];
}

static mx_code loop_step(void *user, mx_arrays variables, mx_arrays *outputs, mx_arrays *next)
{
    const looping *l = user;
    mx_array *in[MOST_VALUES + 2], *out[MOST_VALUES + 2];
    for (int i = 0; i < l->carried + 2; i++)
        in[i] = i == 1 ? mx_onnx_cast(variables.v[1], MX_BOOL) : variables.v[i];
    mx_code code = mx_onnx_subgraph(l->n, "body", (mx_arrays){in, l->carried + 2}, l->carried + 1, out + 1);
    if (code)
        return code;
    out[0] = mx_plus_scalar(variables.v[0], .scalar = 1);
    out[1] = mx_mul(variables.v[1], mx_onnx_cast(mx_onnx_as_scalar(out[1]), MX_FLOAT32)); /* it was 1 */
    *next = mx_results_make((mx_arrays){out, l->carried + 2});
    *outputs = MX_NO_ARRAYS;
    return mx_has_error() ? mx_error_code() : MX_OK;
}

/* The number of steps depends on the network's inputs: a loop of the library. */
static mx_code loop_while(looping *l)
{
    mx_onnx_in *n = l->n;
    mx_array *values[MOST_VALUES + 2];
    double number;
    if (l->collected && (!mx_onnx_number(n, 0, 0, &number) || !mx_onnx_number(n, 1, 0, &number)))
        return mx_error_code();
    if (l->collected)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED,
                            "the number of steps depends on the network's inputs, so the size of its results does");
    values[0] = mx_onnx_scalar(0, MX_INT64);
    values[1] =
        mx_onnx_given(n, 1) ? mx_onnx_cast(mx_onnx_as_scalar(n->in[1]), MX_FLOAT32) : mx_onnx_scalar(1, MX_FLOAT32);
    for (int i = 0; i < l->carried; i++)
        values[i + 2] = n->in[i + 2];
    const mx_loop loop = mx_while_loop(loop_condition, loop_step, l, (mx_arrays){values, l->carried + 2}, INT32_MAX);
    for (int i = 0; !loop.failed && i < l->carried; i++)
        n->out[i] = loop.states.v[i + 2];
    return loop.failed ? mx_error_code() : MX_OK;
}

/* Steps one by one: the number of steps, or the condition, is constant.  *open: it is not, after all. */
static mx_code loop_unrolled(const looping *l, double steps, double condition, bool *open)
{
    mx_onnx_in *n = l->n;
    const size_t bytes = (size_t)(l->collected * MOST_STEPS + 1) * sizeof(mx_array *);
    mx_array *values[MOST_VALUES + 2], *out[2 * MOST_VALUES + 1], **parts = mx_alloc_zero(bytes);
    mx_code code = parts ? MX_OK : MX_ERR_MEMORY;
    int64_t step = 0;
    for (int i = 0; i < l->carried; i++)
        values[i + 2] = n->in[i + 2];
    for (; !code && !*open && condition != 0 && (double)step < steps; step++) {
        if (step == MOST_STEPS) {
            code = mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "more than %d steps", MOST_STEPS);
            break;
        }
        values[0] = mx_array_from(MX_SCALAR_DIMS, MX_INT64, &step);
        values[1] = mx_onnx_scalar(condition, MX_BOOL);
        code = mx_onnx_subgraph(n, "body", (mx_arrays){values, l->carried + 2}, l->carried + 1 + l->collected, out);
        if (code || (*open = !out[0]->storage))
            break;
        code = mx_array_read_doubles(out[0], &condition, 1);
        for (int i = 0; i < l->carried; i++)
            values[i + 2] = out[i + 1];
        for (int i = 0; i < l->collected; i++)
            parts[i * MOST_STEPS + step] = out[l->carried + 1 + i];
    }
    for (int i = 0; !code && i < l->carried; i++)
        n->out[i] = values[i + 2];
    for (int i = 0; !code && !*open && i < l->collected; i++)
        n->out[l->carried + i] = stacked(parts + i * MOST_STEPS, step);
    mx_free(parts, bytes);
    return code;
}

static mx_code read_loop(mx_onnx_in *n)
{
    looping l = {.n = n, .carried = n->n_in - 2, .collected = n->n_out - (n->n_in - 2)};
    double steps = MOST_STEPS + 1, condition = 1;
    if (l.carried < 0 || l.collected < 0 || l.carried > MOST_VALUES || l.collected > MOST_VALUES)
        return mx_onnx_fail(n, MX_ERR_FILE, "%d inputs and %d outputs do not fit together", n->n_in, n->n_out);
    bool open = (mx_onnx_given(n, 0) && !n->value[0]) || (mx_onnx_given(n, 1) && !n->value[1]);
    if (!open) {
        mx_code code = !mx_onnx_number(n, 0, MOST_STEPS + 1, &steps) || !mx_onnx_number(n, 1, 1, &condition)
                           ? mx_error_code()
                           : loop_unrolled(&l, steps, condition, &open);
        if (code || !open)
            return code;
    }
    return loop_while(&l);
}

/* ---- Scan ------------------------------------------------------------------------------------------------------ */

enum { MOST_SCANNED = 16, MOST_UNROLLED = 64 };

typedef struct scan {
    mx_onnx_in *n;
    int states, scanned, collected;
    mx_dims in_axes, out_axes, in_way, out_way; /* axes; 1: backwards */
    bool number[MOST_SCANNED];                  /* results of the steps that are single numbers */
} scan;

static int64_t listed(const mx_dims *dims, int i) { return i < dims->n ? dims->d[i] : 0; }

static bool take_scan(mx_onnx_in *n, scan *s)
{
    const int64_t scanned = mx_onnx_int(n, "num_scan_inputs", 0);
    if (n->opset < 9)
        return !mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "Scan before opset 9 is not supported");
    if (scanned < 1 || scanned > n->n_in || scanned > MOST_SCANNED || n->n_in - scanned > MOST_SCANNED ||
        n->n_out < n->n_in - scanned || n->n_out > n->n_in - scanned + MOST_SCANNED)
        return !mx_onnx_fail(n, MX_ERR_FILE, "%d inputs and %d outputs do not fit together", n->n_in, n->n_out);
    *s = (scan){.n = n, .scanned = (int)scanned, .states = n->n_in - (int)scanned};
    s->collected = n->n_out - s->states;
    for (int i = 0; i < s->scanned; i++)
        if (mx_onnx_rank(n, s->states + i) < 1)
            return false;
    return mx_onnx_ints(n, "scan_input_axes", &s->in_axes) && mx_onnx_ints(n, "scan_output_axes", &s->out_axes) &&
           mx_onnx_ints(n, "scan_input_directions", &s->in_way) &&
           mx_onnx_ints(n, "scan_output_directions", &s->out_way);
}

/* x with axis `from` moved to `to`. */
static mx_array *moved(mx_onnx_in *n, mx_array *x, int64_t from, int64_t to)
{
    mx_dims axes = {.n = 0};
    if (!x || !mx_onnx_axis(n, &from, x->ndim) || !mx_onnx_axis(n, &to, x->ndim))
        return NULL;
    for (int k = 0, other = 0; k < x->ndim; k++, other++) {
        other += other == from && k != to;
        axes.d[axes.n++] = k == to ? from : other;
        other -= k == to;
    }
    return from == to ? x : mx_transpose(x, .axes = axes);
}

/* Data i with the steps along the first axis, in their order. */
static mx_array *scan_data(const scan *s, int i)
{
    mx_array *x = moved(s->n, s->n->in[s->states + i], listed(&s->in_axes, i), 0);
    return x && listed(&s->in_way, i) ? mx_reverse(x, .axis = MX_DIMS(0)) : x;
}

static void give_collected(const scan *s, int i, mx_array *x)
{
    x = x && listed(&s->out_way, i) ? mx_reverse(x, .axis = MX_DIMS(0)) : x;
    s->n->out[s->states + i] = moved(s->n, x, 0, listed(&s->out_axes, i));
}

/* A row as ONNX has it: numbers have no axes. */
static mx_array *without_axes(mx_array *x) { return mx_g_reshape(x, &(mx_shape_t){.ndim = 0}); }

static mx_code scan_step(void *user, mx_arrays data, mx_arrays states, mx_arrays *outputs, mx_arrays *next)
{
    scan *s = user;
    mx_array *in[2 * MOST_SCANNED], *out[2 * MOST_SCANNED];
    for (int i = 0; i < s->states; i++)
        in[i] = states.v[i];
    for (int i = 0; i < s->scanned; i++)
        in[s->states + i] = s->n->in[s->states + i]->ndim == 1 ? without_axes(data.v[i]) : data.v[i];
    mx_code code = mx_onnx_subgraph(s->n, "body", (mx_arrays){in, s->n->n_in}, s->n->n_out, out);
    for (int i = 0; !code && i < s->collected; i++) {
        mx_array **y = &out[s->states + i];
        s->number[i] = (*y)->ndim == 0;
        *y = s->number[i] ? mx_reshape(*y, .shape = MX_DIMS(1)) : *y;
        code = *y ? MX_OK : mx_error_code();
    }
    if (code)
        return code;
    *next = mx_results_make((mx_arrays){out, s->states});
    *outputs = mx_results_make((mx_arrays){out + s->states, s->collected});
    return MX_OK;
}

/* One node of the graph. */
static mx_code scan_as_loop(scan *s)
{
    mx_array *data[MOST_SCANNED];
    for (int i = 0; i < s->scanned; i++)
        if (!(data[i] = scan_data(s, i)))
            return mx_error_code();
    const mx_loop loop = mx_foreach(scan_step, s, (mx_arrays){data, s->scanned}, (mx_arrays){s->n->in, s->states});
    if (loop.failed)
        return mx_error_code();
    for (int i = 0; i < s->states; i++)
        s->n->out[i] = loop.states.v[i];
    for (int i = 0; i < s->collected; i++)
        give_collected(s, i, s->number[i] ? mx_squeeze(loop.outputs.v[i], .axis = MX_DIMS(1)) : loop.outputs.v[i]);
    return mx_has_error() ? mx_error_code() : MX_OK;
}

/* Step t of data: a slice without the axis of the steps. */
static mx_array *step_of(mx_array *x, int64_t t)
{
    mx_array *row = mx_slice_axis(x, .axis = 0, .begin = t, .end = t + 1);
    mx_shape_t shape = {.ndim = row ? row->ndim - 1 : 0};
    bool known = row != NULL;
    for (int k = 0; k < shape.ndim; k++)
        known &= (shape.dim[k] = row->shape[k + 1]) >= 0;
    return known ? mx_g_reshape(row, &shape) : mx_squeeze(row, .axis = MX_DIMS(0));
}

/* Steps one by one. */
static mx_code scan_unrolled(scan *s, int64_t steps)
{
    const size_t bytes = (size_t)(s->collected * steps + 1) * sizeof(mx_array *);
    mx_array *values[2 * MOST_SCANNED], *out[2 * MOST_SCANNED], *data[MOST_SCANNED], **parts = mx_alloc_zero(bytes);
    mx_code code = parts ? MX_OK : MX_ERR_MEMORY;
    for (int i = 0; i < s->scanned; i++)
        data[i] = scan_data(s, i);
    for (int i = 0; i < s->states; i++)
        values[i] = s->n->in[i];
    for (int64_t t = 0; !code && !mx_has_error() && t < steps; t++) {
        for (int i = 0; i < s->scanned; i++)
            values[s->states + i] = step_of(data[i], t);
        code = mx_has_error() ? mx_error_code()
                              : mx_onnx_subgraph(s->n, "body", (mx_arrays){values, s->n->n_in}, s->n->n_out, out);
        for (int i = 0; !code && i < s->states; i++)
            values[i] = out[i];
        for (int i = 0; !code && i < s->collected; i++)
            parts[i * steps + t] = out[s->states + i];
    }
    for (int i = 0; !code && i < s->states; i++)
        s->n->out[i] = values[i];
    for (int i = 0; !code && steps && i < s->collected; i++)
        give_collected(s, i, stacked(parts + i * steps, steps));
    mx_free(parts, bytes);
    return mx_has_error() ? mx_error_code() : code;
}

static mx_code read_scan(mx_onnx_in *n)
{
    scan s;
    if (!take_scan(n, &s))
        return mx_error_code();
    int64_t axis = listed(&s.in_axes, 0);
    if (!mx_onnx_axis(n, &axis, n->in[s.states]->ndim))
        return mx_error_code();
    const int64_t steps = n->in[s.states]->shape[axis];
    if (n->live && (steps < 0 || steps > MOST_UNROLLED))
        return scan_as_loop(&s);
    return steps <= MOST_STEPS ? scan_unrolled(&s, steps)
                               : mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "more than %d steps", MOST_STEPS);
}

const mx_onnx_row mx_onnx_control[] = {
    READ("If", read_if), READ("Loop", read_loop, .constants = 3), READ("Scan", read_scan), {0}};
