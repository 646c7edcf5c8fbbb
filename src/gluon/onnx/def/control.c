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

/* Steps one by one: the number of steps, or the condition, is constant. */
static mx_code read_loop(mx_onnx_in *n)
{
    const int carried = n->n_in - 2, collected = n->n_out - carried;
    double steps = MOST_STEPS + 1, condition = 1;
    mx_array *values[MOST_VALUES + 2], *out[2 * MOST_VALUES];
    if (carried < 0 || collected < 0 || carried > MOST_VALUES || collected > MOST_VALUES)
        return mx_onnx_fail(n, MX_ERR_FILE, "%d inputs and %d outputs do not fit together", n->n_in, n->n_out);
    if (!mx_onnx_number(n, 0, MOST_STEPS + 1, &steps) || !mx_onnx_number(n, 1, 1, &condition))
        return mx_error_code();
    for (int i = 0; i < carried; i++)
        values[i + 2] = n->in[i + 2];
    mx_array **parts = mx_alloc_zero((size_t)(collected * MOST_STEPS + 1) * sizeof *parts);
    int64_t step = 0;
    mx_code code = parts ? MX_OK : MX_ERR_MEMORY;
    for (; !code && condition != 0 && (double)step < steps; step++) {
        if (step == MOST_STEPS) {
            code = mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "more than %d steps", MOST_STEPS);
            break;
        }
        values[0] = mx_array_from(MX_SCALAR_DIMS, MX_INT64, &step);
        values[1] = mx_onnx_scalar(condition, MX_BOOL);
        code = mx_onnx_subgraph(n, "body", (mx_arrays){values, carried + 2}, carried + 1 + collected, out);
        if (code)
            break;
        if (!out[0]->storage)
            code = mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "the condition depends on the network's inputs");
        else
            code = mx_array_read_doubles(out[0], &condition, 1);
        for (int i = 0; i < carried; i++)
            values[i + 2] = out[i + 1];
        for (int i = 0; i < collected; i++)
            parts[i * MOST_STEPS + step] = out[carried + 1 + i];
    }
    for (int i = 0; !code && i < carried; i++)
        n->out[i] = values[i + 2];
    for (int i = 0; !code && i < collected; i++)
        n->out[carried + i] = stacked(parts + i * MOST_STEPS, step);
    mx_free(parts, (size_t)(collected * MOST_STEPS + 1) * sizeof *parts);
    return code;
}

/* ---- Scan ------------------------------------------------------------------------------------------------------ */

static mx_code read_scan(mx_onnx_in *n)
{
    const int64_t scanned = mx_onnx_int(n, "num_scan_inputs", 0);
    const int states = n->n_in - (int)scanned, collected = n->n_out - states;
    mx_dims in_axes, out_axes, in_way, out_way;
    if (n->opset < 9)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "Scan before opset 9 is not supported");
    if (!mx_onnx_ints(n, "scan_input_axes", &in_axes) || !mx_onnx_ints(n, "scan_output_axes", &out_axes) ||
        !mx_onnx_ints(n, "scan_input_directions", &in_way) || !mx_onnx_ints(n, "scan_output_directions", &out_way))
        return mx_error_code();
    if (scanned < 1 || states < 0 || collected < 0 || scanned > 16 || states > 16 || collected > 16)
        return mx_onnx_fail(n, MX_ERR_FILE, "%d inputs and %d outputs do not fit together", n->n_in, n->n_out);
    int64_t first = in_axes.n > 0 ? in_axes.d[0] : 0;
    const int rank = mx_onnx_rank(n, states);
    if (rank < 1 || !mx_onnx_axis(n, &first, rank))
        return mx_error_code();
    const int64_t steps = n->in[states]->shape[first];
    if (steps < 0 || steps > MOST_STEPS)
        return mx_onnx_fail(n, MX_ERR_SHAPE, "the number of steps is not known, or above %d", MOST_STEPS);
    mx_array *values[32], *out[32], **parts = mx_alloc_zero((size_t)(collected * MOST_STEPS + 1) * sizeof *parts);
    mx_code code = parts ? MX_OK : MX_ERR_MEMORY;
    for (int i = 0; i < states; i++)
        values[i] = n->in[i];
    for (int64_t step = 0; !code && step < steps; step++) {
        for (int i = 0; i < scanned; i++) {
            mx_array *x = n->in[states + i];
            const int64_t axis = i < in_axes.n ? in_axes.d[i] : 0,
                          at = i < in_way.n && in_way.d[i] ? steps - 1 - step : step;
            x = mx_slice_axis(x, .axis = axis, .begin = at, .end = at + 1);
            mx_shape_t shape = {.ndim = 0};
            bool known = x != NULL;
            for (int k = 0; x && k < x->ndim; k++)
                if (k != mx_axis(axis, x->ndim))
                    known &= (shape.dim[shape.ndim++] = x->shape[k]) >= 0;
            values[states + i] = known ? mx_g_reshape(x, &shape) : mx_squeeze(x, .axis = MX_DIMS(axis));
        }
        code = mx_onnx_subgraph(n, "body", (mx_arrays){values, n->n_in}, n->n_out, out);
        for (int i = 0; !code && i < states; i++)
            values[i] = out[i];
        for (int i = 0; !code && i < collected; i++)
            parts[i * MOST_STEPS + (i < out_way.n && out_way.d[i] ? steps - 1 - step : step)] = out[states + i];
    }
    for (int i = 0; !code && i < states; i++)
        n->out[i] = values[i];
    for (int i = 0; !code && i < collected; i++)
        n->out[states + i] = steps ? mx_stack((mx_arrays){parts + i * MOST_STEPS, steps},
                                              .axis = i < out_axes.n ? out_axes.d[i] : 0, .num_args = steps)
                                   : NULL;
    mx_free(parts, (size_t)(collected * MOST_STEPS + 1) * sizeof *parts);
    return code;
}

const mx_onnx_row mx_onnx_control[] = {
    READ("If", read_if), READ("Loop", read_loop, .constants = 3), READ("Scan", read_scan), {0}};
