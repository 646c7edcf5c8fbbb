/* Other sizes: empty inputs, inputs large enough for several threads, and inference without data.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ops_check.h"

static const mx_dtype preferred[] = {MX_FLOAT32, MX_FLOAT64, MX_INT32, MX_INT64,
                                     MX_UINT8,   MX_INT8,    MX_BOOL,  MX_DTYPE_NONE};

#define LARGE 120000      /* elements of the first input */
#define TOO_LARGE 4000000 /* of any output: not worth the time */

/* The case with the first axis of the first input, and of all inputs that share its size, replaced. */
static bool with_first_axis(const ops_case *c, int64_t size, bool all, ops_case *other)
{
    *other = *c;
    if (!c->n_in || c->absent[0] || c->shape[0].ndim < 1)
        return false;
    for (int k = 0; k < c->n_in; k++)
        if (!c->absent[k] && c->shape[k].ndim > 0 && (k == 0 || all) && c->shape[k].dim[0] == c->shape[0].dim[0])
            other->shape[k].dim[0] = size;
    return true;
}

/* ---- empty ---------------------------------------------------------------------------------------------- */

static void run_empty(const ops_case *c, const int *types, mx_dtype dtype)
{
    MX_SCOPE;
    mx_array *arrays[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL};
    mx_shape_t shapes[MX_MAX_OUTPUTS];
    int out_types[MX_MAX_OUTPUTS];
    ops_values in;
    if (!ops_draw(c, dtype, &in))
        return;
    if (!ops_arrays(c, &in, types, true, arrays) || ops_run(c, arrays, out))
        ops_check_error(c, "empty input");
    else if (!ops_infer(c, &in, types, shapes, out_types))
        ops_check_error(c, "empty input, inference");
    else
        for (int i = 0; i < c->n_visible; i++)
            if (!ops_shape_is(out[i], &shapes[i]) || out[i]->dtype != out_types[i])
                ops_fail(c, "empty input: output %d is not what inference said", i);
    for (int k = 0; k < c->n_in; k++)
        if (!c->absent[k] && !ops_guards_intact(arrays[k]))
            ops_fail(c, "empty input: bytes outside input %d were written", k);
    ops_values_free(&in);
}

void ops_check_empty(const ops_case *c)
{
    int types[OPS_MAX_IN];
    mx_dtype dtype;
    ops_case empty;
    if (!ops_first_type(c, preferred, &dtype, types))
        return;
    for (int all = 0; all < 2; all++)
        if (with_first_axis(c, 0, all, &empty))
            run_empty(&empty, types, dtype);
}

/* ---- threads -------------------------------------------------------------------------------------------- */

static bool fits(const ops_case *c, const int *types)
{
    ops_values shapes_only = {.n = c->n_in};
    mx_shape_t shapes[MX_MAX_OUTPUTS];
    int out_types[MX_MAX_OUTPUTS];
    memcpy(shapes_only.shape, c->shape, sizeof c->shape);
    bool ok = ops_infer(c, &shapes_only, types, shapes, out_types);
    for (int i = 0; ok && i < c->n_out; i++)
        ok = mx_shape_known(&shapes[i]) && mx_shape_size(&shapes[i]) <= TOO_LARGE;
    for (int k = 0; ok && k < c->n_in; k++)
        ok = c->absent[k] || mx_shape_size(&c->shape[k]) <= TOO_LARGE;
    mx_error_clear();
    return ok;
}

static bool run_with_threads(const ops_case *c, const ops_values *in, const int *types, int threads, ops_values *got,
                             int *got_types)
{
    MX_SCOPE;
    mx_array *arrays[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL};
    const int previous = mx_num_threads();
    got->n = 0;
    if (!ops_arrays(c, in, types, false, arrays))
        return false;
    mx_set_num_threads(threads);
    mx_code code = ops_run(c, arrays, out);
    mx_set_num_threads(previous);
    if (code)
        return false;
    for (int i = 0; i < c->n_visible; i++) {
        mx_shape_t shape = ops_shape_of(out[i]);
        ops_values_add(got, &shape);
        got_types[i] = out[i]->dtype;
        mx_array_read_doubles(out[i], got->v[i], out[i]->size);
    }
    return true;
}

/* distinct values would need a permutation of all of them in few bits: drawn without that here */
static bool large_case(const ops_case *c, const int *types, ops_case *large)
{
    if (!c->n_in || c->absent[0] || c->shape[0].ndim < 1)
        return false;
    int64_t rest = 1;
    for (int i = 1; i < c->shape[0].ndim; i++)
        rest *= c->shape[0].dim[i];
    if (rest < 1 || c->shape[0].dim[0] < 1)
        return false;
    int64_t repeat = LARGE / (rest * c->shape[0].dim[0]) + 1;
    for (int all = 1; all >= 0; all--)
        if (with_first_axis(c, repeat * c->shape[0].dim[0], all, large) && fits(large, types)) {
            large->distinct = false;
            return true;
        }
    return false;
}

/* The number of threads changes no bit. */
static void compare_exactly(const ops_case *c, int threads, int output, const double *one, const double *several,
                            int64_t size)
{
    for (int64_t i = 0; i < size; i++)
        if (memcmp(&one[i], &several[i], sizeof one[i]) && !(one[i] != one[i] && several[i] != several[i])) {
            ops_fail(c, "enlarged: element %lld of output %d is %.17g with one thread, %.17g with %d", (long long)i,
                     output, one[i], several[i], threads);
            return;
        }
}

bool ops_check_threads(const ops_case *c)
{
    int types[OPS_MAX_IN], got_types[MX_MAX_OUTPUTS];
    mx_dtype dtype;
    ops_case large;
    ops_values in, one = {0}, several = {0};
    if (c->random || !ops_first_type(c, preferred, &dtype, types) || !large_case(c, types, &large) ||
        !ops_draw(&large, dtype, &in))
        return false;
    bool ok = run_with_threads(&large, &in, types, 1, &one, got_types);
    for (int threads = 2; ok && threads <= 3; threads++) {
        if (!run_with_threads(&large, &in, types, threads, &several, got_types))
            ops_fail(c, "enlarged, %d threads: %s", threads, mx_error_message());
        for (int i = 0; i < several.n; i++)
            compare_exactly(c, threads, i, one.v[i], several.v[i], one.size[i]);
        ops_values_free(&several);
    }
    mx_error_clear();
    ops_values_free(&one);
    ops_values_free(&in);
    return ok;
}

/* ---- without data --------------------------------------------------------------------------------------- */

/* Results whose size depends on the elements (boolean_mask) have no shape without data. */
static bool depends_on_values(const ops_case *c, const int *types)
{
    ops_values shapes_only = {.n = c->n_in};
    mx_shape_t out[MX_MAX_OUTPUTS];
    int out_types[MX_MAX_OUTPUTS];
    bool known = true;
    memcpy(shapes_only.shape, c->shape, sizeof c->shape);
    if (!ops_infer(c, &shapes_only, types, out, out_types))
        return false;
    for (int i = 0; i < c->n_out; i++)
        known &= mx_shape_known(&out[i]);
    return !known;
}

static void compare_abstract(const ops_case *c, const ops_values *in, const int *types)
{
    MX_SCOPE;
    mx_array *arrays[OPS_MAX_IN], *real[MX_MAX_OUTPUTS] = {NULL}, *out[MX_MAX_OUTPUTS] = {NULL};
    if (!ops_arrays(c, in, types, false, arrays) || ops_run(c, arrays, real))
        return mx_error_clear();
    for (int k = 0; k < c->n_in; k++)
        if (!c->absent[k])
            arrays[k] = mx_scope_add(mx_array_abstract(&in->shape[k], (mx_dtype)types[k], mx_cpu(0)));
    if (ops_run(c, arrays, out)) {
        if (!depends_on_values(c, types))
            ops_fail(c, "without data: %s", mx_error_message());
        return mx_error_clear();
    }
    if (depends_on_values(c, types))
        return;
    for (int i = 0; i < c->n_visible; i++) {
        mx_shape_t shape = ops_shape_of(real[i]);
        if (!ops_shape_is(out[i], &shape) || out[i]->dtype != real[i]->dtype)
            ops_fail(c, "without data: output %d has another shape or type than with data", i);
        if (c->n_in && out[i]->storage)
            ops_fail(c, "without data: output %d has data", i);
    }
}

/* The inferred shapes must be a legal call with the same outputs (a parameter can have several legal shapes). */
static void check_learned(const ops_case *c, const char *what, const int *types, const mx_shape_t *learned,
                          const mx_shape_t *truth)
{
    char text[MX_SHAPE_TEXT];
    ops_values in = {.n = c->n_in};
    mx_shape_t out[MX_MAX_OUTPUTS];
    int out_types[MX_MAX_OUTPUTS];
    bool same = true;
    for (int k = 0; k < c->n_in; k++) {
        bool known = !c->absent[k] && mx_shape_known(&learned[k]);
        in.shape[k] = known ? learned[k] : c->shape[k];
        same &= mx_shape_equal(&in.shape[k], &c->shape[k]);
    }
    if (same)
        return;
    bool ok = ops_infer(c, &in, types, out, out_types);
    for (int i = 0; ok && i < c->n_out; i++)
        ok = mx_shape_equal(&out[i], &truth[i]);
    for (int k = 0; !ok && k < c->n_in; k++)
        if (!mx_shape_equal(&in.shape[k], &c->shape[k]))
            ops_fail(c, "inference with %s: input %d becomes %s, which is not legal", what, k,
                     mx_shape_text(&in.shape[k], text));
    mx_error_clear();
}

static void infer_with(const ops_case *c, const ops_values *in, const int *types, bool first, bool outputs)
{
    mx_shape_t shapes[OPS_MAX_IN], out[MX_MAX_OUTPUTS], truth[MX_MAX_OUTPUTS];
    int in_types[OPS_MAX_IN], out_types[MX_MAX_OUTPUTS], true_types[MX_MAX_OUTPUTS];
    if (!ops_infer(c, in, types, truth, true_types))
        return mx_error_clear();
    for (int k = 0; k < c->n_in; k++) {
        bool known = first && k == 0 && !c->absent[0];
        shapes[k] = known ? in->shape[k] : MX_UNKNOWN_SHAPE;
        in_types[k] = known ? types[k] : MX_DTYPE_NONE;
    }
    for (int i = 0; i < c->n_out; i++) {
        out[i] = outputs ? truth[i] : MX_UNKNOWN_SHAPE;
        out_types[i] = outputs ? true_types[i] : MX_DTYPE_NONE;
    }
    mx_infer infer = {c->op, c->attrs ? c->attrs : c->op->defaults, c->n_in, c->n_out, shapes, out, in_types, out_types,
                      NULL};
    const char *what = first ? "only input 0 known" : outputs ? "only outputs known" : "nothing known";
    if (mx_op_infer(&infer)) {
        ops_fail(c, "inference with %s: %s", what, mx_error_message());
        return mx_error_clear();
    }
    check_learned(c, what, types, shapes, truth);
}

void ops_check_abstract(const ops_case *c)
{
    int types[OPS_MAX_IN];
    mx_dtype dtype;
    ops_values in;
    if (!ops_first_type(c, preferred, &dtype, types) || !ops_draw(c, dtype, &in))
        return;
    compare_abstract(c, &in, types);
    infer_with(c, &in, types, true, false);
    infer_with(c, &in, types, false, true);
    infer_with(c, &in, types, false, false);
    ops_values_free(&in);
}
