/* Calling operators on samples: arrays between guard bytes, types of inputs, inference, the reference.
 *
 *     | 64 guard bytes + one element | the window | 64 guard bytes |      one storage
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ndarray/convert.h"
#include "ops_case.h"

#define GUARD 64
#define GUARD_BYTE 0xA5
#define SPARE 271828.0 /* in the element after those of a reference's output */

/* ---- arrays --------------------------------------------------------------------------------------------- */

mx_shape_t ops_shape_of(const mx_array *x)
{
    mx_shape_t shape = {.ndim = x->ndim};
    memcpy(shape.dim, x->shape, (size_t)(x->ndim > 0 ? x->ndim : 0) * sizeof *shape.dim);
    return shape;
}

bool ops_shape_is(const mx_array *x, const mx_shape_t *shape)
{
    mx_shape_t mine = ops_shape_of(x);
    return mx_shape_equal(&mine, shape);
}

/* The first element of a guarded window is one element after a 64-byte boundary: kernels may not assume more. */
static mx_array *guarded_window(const mx_shape_t *shape, mx_dtype dtype)
{
    const int64_t item = mx_dtype_size(dtype), bytes = mx_shape_size(shape) * item;
    mx_shape_t whole = {.ndim = 1, .dim = {2 * GUARD + item + bytes}};
    mx_array *storage = mx_scope_add(mx_array_new(&whole, MX_UINT8, mx_cpu(0)));
    if (!storage)
        return NULL;
    memset(mx_data(storage), GUARD_BYTE, mx_bytes(storage));
    return mx_scope_add(mx_array_view(storage, GUARD + item, shape, dtype));
}

bool ops_guards_intact(const mx_array *x)
{
    const unsigned char *all = x->storage->memory;
    const size_t begin = (size_t)x->offset, end = begin + mx_bytes(x);
    for (size_t i = 0; i < x->storage->bytes; i++)
        if ((i < begin || i >= end) && all[i] != GUARD_BYTE)
            return false;
    return true;
}

mx_array *ops_array(const mx_shape_t *shape, mx_dtype dtype, const double *values, bool guarded)
{
    mx_array *x = guarded ? guarded_window(shape, dtype) : mx_scope_add(mx_array_new(shape, dtype, mx_cpu(0)));
    if (x && x->size && values)
        mx_convert(mx_data(x), dtype, values, MX_FLOAT64, x->size);
    else if (x && x->size)
        memset(mx_data(x), GUARD_BYTE, mx_bytes(x)); /* so that unwritten elements are noticed */
    return x;
}

/* A copy of input 0 for cases that treat it as symmetric, else NULL. */
static double *symmetric_input(const ops_case *c, const ops_values *in)
{
    if (!c->symmetric || !in->v[0])
        return NULL;
    double *copy = malloc(((size_t)in->size[0] + 1) * sizeof *copy);
    memcpy(copy, in->v[0], (size_t)in->size[0] * sizeof *copy);
    ops_make_symmetric(&in->shape[0], copy, in->size[0]);
    return copy;
}

bool ops_arrays(const ops_case *c, const ops_values *in, const int *types, bool guarded, mx_array **arrays)
{
    double *symmetric = symmetric_input(c, in);
    bool ok = true;
    for (int k = 0; k < c->n_in; k++) {
        const double *values = k == 0 && symmetric ? symmetric : in->v[k];
        arrays[k] = c->absent[k] ? MX_NONE : ops_array(&in->shape[k], (mx_dtype)types[k], values, guarded);
        ok &= arrays[k] != NULL;
    }
    free(symmetric);
    return ok;
}

/* ---- calls ---------------------------------------------------------------------------------------------- */

mx_code ops_run(const ops_case *c, mx_array *const *in, mx_array **out)
{
    mx_mode mode = mx_mode_enter(-1, c->train);
    mx_code code = mx_invoke(c->op, c->attrs, c->n_in, in, MX_MAX_OUTPUTS, out);
    mx_mode_leave(&mode);
    return code;
}

bool ops_infer(const ops_case *c, const ops_values *in, const int *types, mx_shape_t *out, int *out_types)
{
    MX_SCOPE;
    int n = c->op->flags & MX_OP_LIST || c->n_in > c->op->declared_inputs ? c->n_in : c->op->declared_inputs;
    mx_shape_t shapes[OPS_MAX_IN];
    mx_array *arrays[OPS_MAX_IN];
    int in_types[OPS_MAX_IN];
    bool values = true; /* only shapes are known when the size of a large case is estimated */
    for (int k = 0; k < n; k++) {
        bool there = k < c->n_in && !c->absent[k];
        shapes[k] = there ? in->shape[k] : MX_UNKNOWN_SHAPE;
        in_types[k] = there ? types[k] : MX_DTYPE_NONE;
        values &= !there || in->v[k];
    }
    for (int k = 0; k < c->n_out; k++)
        out[k] = MX_UNKNOWN_SHAPE, out_types[k] = MX_DTYPE_NONE;
    values = values && ops_arrays(c, in, types, false, arrays);
    mx_infer infer = {c->op,
                      c->attrs ? c->attrs : c->op->defaults,
                      n,
                      c->n_out,
                      shapes,
                      out,
                      in_types,
                      out_types,
                      values ? arrays : NULL};
    return mx_op_infer(&infer) == MX_OK;
}

/* Types of the inputs when only the first one is known to be `dtype`. */
static bool inferred_types(const ops_case *c, mx_dtype dtype, int *types)
{
    mx_shape_t in[OPS_MAX_IN], out[MX_MAX_OUTPUTS];
    int out_types[MX_MAX_OUTPUTS], n = c->n_in > c->op->declared_inputs ? c->n_in : c->op->declared_inputs;
    for (int k = 0; k < n; k++)
        in[k] = k < c->n_in ? c->shape[k] : MX_UNKNOWN_SHAPE, types[k] = k ? MX_DTYPE_NONE : (int)dtype;
    for (int k = 0; k < c->n_out; k++)
        out[k] = MX_UNKNOWN_SHAPE, out_types[k] = MX_DTYPE_NONE;
    mx_infer infer = {c->op, c->attrs ? c->attrs : c->op->defaults, n, c->n_out, in, out, types, out_types, NULL};
    if (!c->op->infer_type || mx_op_infer(&infer)) {
        mx_error_clear();
        return false;
    }
    for (int k = 0; k < n; k++)
        types[k] = mx_dtype_valid(types[k]) ? types[k] : (int)dtype;
    return true;
}

/* All of one type; what inference derives from the first; indices in int32, in int64, in float32. */
bool ops_types(const ops_case *c, mx_dtype dtype, int variant, int *types)
{
    static const mx_dtype index_types[] = {MX_INT32, MX_INT64, MX_FLOAT32};
    if (variant > 4)
        return false;
    if (variant == 1 && c->n_in && inferred_types(c, dtype, types))
        return true;
    for (int k = 0; k < OPS_MAX_IN; k++)
        types[k] = variant > 1 && c->integer[k] ? (int)index_types[variant - 2] : (int)dtype;
    return true;
}

void ops_reference(const ops_case *c, const ops_values *in, ops_values *out)
{
    const mx_shape_t *in_shape = in->shape;
    const double *values[OPS_MAX_IN] = {NULL};
    for (int k = 0; k < in->n; k++)
        values[k] = in->v[k];
    double *symmetric = symmetric_input(c, in);
    if (symmetric)
        values[0] = symmetric;
    mx_reference_call call = {
        c->attrs ? c->attrs : c->op->defaults, c->n_in, out->n, in_shape, out->shape, values, out->v, c->train};
    for (int i = 0; i < out->n; i++)
        if (out->v[i])
            out->v[i][out->size[i]] = SPARE;
    c->op->reference(&call);
    for (int i = 0; i < out->n; i++)
        if (out->v[i] && out->v[i][out->size[i]] != SPARE)
            ops_fail(c, "the reference writes past output %d", i);
    free(symmetric);
}
