/* Constants, and shapes as values.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* ---- constants ------------------------------------------------------------------------------------------------- */

static mx_code read_constant(mx_onnx_in *n)
{
    mx_dims ints;
    mx_floats floats;
    if (mx_onnx_has(n, "value"))
        n->out[0] = mx_onnx_tensor(n, "value");
    else if (mx_onnx_has(n, "value_float"))
        n->out[0] = mx_onnx_scalar(mx_onnx_float(n, "value_float", 0), MX_FLOAT32);
    else if (mx_onnx_has(n, "value_int"))
        n->out[0] = mx_array_from(MX_SCALAR_DIMS, MX_INT64, &(int64_t){mx_onnx_int(n, "value_int", 0)});
    else if (mx_onnx_has(n, "value_ints"))
        n->out[0] = mx_onnx_ints(n, "value_ints", &ints) ? mx_onnx_int64s(&ints) : NULL;
    else if (mx_onnx_has(n, "value_floats"))
        n->out[0] = mx_onnx_floats(n, "value_floats", &floats)
                        ? mx_onnx_constant(MX_DIMS(floats.n), MX_FLOAT32, floats.d)
                        : NULL;
    else
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "only numbers are supported");
    return MX_OK;
}

static mx_code read_constant_of_shape(mx_onnx_in *n)
{
    mx_dims shape;
    mx_array *value = mx_onnx_tensor(n, "value");
    if (!mx_onnx_dims(n, 0, &shape) || mx_has_error())
        return mx_error_code();
    const mx_dtype type = value ? (mx_dtype)value->dtype : MX_FLOAT32;
    mx_array *y = mx_onnx_zeros(n, &shape, type);
    n->out[0] = value && y && y->storage ? (mx_array_set(y, mx_onnx_as_scalar(value)) ? NULL : y)
                : value && y             ? mx_add(y, value)
                                         : y;
    return MX_OK;
}

static mx_code read_range(mx_onnx_in *n)
{
    double start, limit, delta;
    if (!mx_onnx_number(n, 0, 0, &start) || !mx_onnx_number(n, 1, 0, &limit) || !mx_onnx_number(n, 2, 1, &delta))
        return mx_error_code();
    const mx_dtype type = (mx_dtype)n->in[0]->dtype;
    const double count = delta == 0 ? -1 : ceil((limit - start) / delta);
    if (delta == 0 || fabs(count) > 1 << 26 || mx_onnx_is_unknown((int64_t)limit) || mx_onnx_is_unknown((int64_t)start))
        return mx_onnx_fail(n, MX_ERR_SHAPE,
                            "a step of 0, or a limit that is not known; give the shapes of the inputs");
    const int64_t length = count > 0 ? (int64_t)count : 0;
    double *numbers = mx_alloc((size_t)length * sizeof *numbers + 1);
    for (int64_t i = 0; numbers && i < length; i++)
        numbers[i] = start + (double)i * delta;
    n->out[0] = numbers ? mx_onnx_constant(MX_DIMS(length), type, numbers) : NULL;
    mx_free(numbers, (size_t)length * sizeof *numbers + 1);
    return MX_OK;
}

static mx_code read_eye(mx_onnx_in *n)
{
    mx_dims shape;
    const mx_onnx_type *type = mx_onnx_type_of(mx_onnx_int(n, "dtype", 0));
    if (!mx_onnx_shape(n, 0, &shape) || shape.n != 2)
        return mx_onnx_fail(n, MX_ERR_SHAPE, "its input is not a matrix");
    if ((double)shape.d[0] * (double)shape.d[1] > 1 << 26)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "a constant of %g elements is too large",
                            (double)shape.d[0] * (double)shape.d[1]);
    n->out[0] = mx_eye(.N = shape.d[0], .M = shape.d[1], .k = mx_onnx_int(n, "k", 0),
                       .dtype = type ? type->dtype : (mx_dtype)n->in[0]->dtype);
    return MX_OK;
}

static mx_code read_trilu(mx_onnx_in *n)
{
    double k;
    const int rank = mx_onnx_rank(n, 0);
    if (!mx_onnx_number(n, 1, 0, &k) || rank < 2)
        return mx_error_code();
    const int64_t rows = n->in[0]->shape[rank - 2], columns = n->in[0]->shape[rank - 1];
    if (rows < 0 || columns < 0)
        return mx_onnx_fail(n, MX_ERR_SHAPE, "the sizes of its matrices are not known");
    const bool upper = mx_onnx_int(n, "upper", 1);
    if (!rows || !columns) {
        n->out[0] = mx_copy(n->in[0]);
        return MX_OK;
    }
    mx_array *r = mx_onnx_count(n, rows, MX_FLOAT32), *c = mx_onnx_count(n, columns, MX_FLOAT32);
    mx_array *d = mx_sub(mx_expand_dims(c, .axis = 0), mx_expand_dims(r, .axis = 1)); /* column - row */
    mx_array *mask = upper ? mx_greater_equal_scalar(d, .scalar = k) : mx_lesser_equal_scalar(d, .scalar = k);
    mx_array *x = n->in[0];
    mx_dims shape = {.n = rank};
    for (int i = 0; i < rank; i++)
        shape.d[i] = i < rank - 2 ? 1 : i == rank - 2 ? rows : columns;
    mask = mx_reshape(mask, .shape = shape);
    n->out[0] = mx_dtype_is_float(x->dtype) && n->live ? mx_where(mx_broadcast_like(mask, x), x, mx_zeros_like(x))
                                                       : mx_mul(x, mx_onnx_cast(mask, (mx_dtype)x->dtype));
    return MX_OK;
}

/* ---- shapes as values ---------------------------------------------------------------------------------------------- */

/* Known sizes are numbers; the others placeholders, which movements, sums and products pass on. */
static mx_code read_shape(mx_onnx_in *n)
{
    const int rank = mx_onnx_rank(n, 0);
    int64_t start = mx_onnx_int(n, "start", 0), end = mx_onnx_int(n, "end", rank);
    if (rank < 0)
        return mx_error_code();
    start = start < -rank ? 0 : start < 0 ? start + rank : start > rank ? rank : start;
    end = end < -rank ? 0 : end < 0 ? end + rank : end > rank ? rank : end;
    mx_dims shape = {.n = 0};
    for (int64_t i = start; i < end; i++)
        shape.d[shape.n++] = n->in[0]->shape[i] >= 0 ? n->in[0]->shape[i] : mx_onnx_placeholder(n, n->in[0], (int)i);
    n->out[0] = mx_onnx_int64s(&shape);
    return MX_OK;
}

static mx_code read_size(mx_onnx_in *n)
{
    mx_dims shape;
    int64_t size = 1;
    if (!mx_onnx_shape(n, 0, &shape))
        return mx_error_code();
    for (int i = 0; i < shape.n; i++)
        size *= shape.d[i];
    n->out[0] = mx_array_from(MX_SCALAR_DIMS, MX_INT64, &size);
    return MX_OK;
}

static mx_code write_shape_array(mx_onnx_out *o)
{
    return mx_onnx_put(o, o->out[0], "Shape", o->in[0]), mx_onnx_done(o);
}

static mx_code write_size_array(mx_onnx_out *o)
{
    mx_onnx_put(o, o->out[0], "Reshape", mx_onnx_put(o, NULL, "Size", o->in[0]), mx_onnx_put_ints(o, MX_ONNX_LIST(1)));
    return mx_onnx_done(o);
}

static const char *like(mx_onnx_out *o, double value)
{
    const char *shape = mx_onnx_put(o, NULL, "Shape", o->in[0]);
    return mx_onnx_put(o, o->out[0], "Expand", mx_onnx_put_number(o, value, o->out_type[0]), shape);
}
static mx_code write_zeros_like(mx_onnx_out *o) { return like(o, 0), mx_onnx_done(o); }
static mx_code write_ones_like(mx_onnx_out *o) { return like(o, 1), mx_onnx_done(o); }

/* Constants: what the operator computes is written.  Zeros of an open shape are initial states, which ONNX adds itself. */
static mx_code write_created(mx_onnx_out *o)
{
    mx_array *y[1] = {NULL};
    const mx_field *shape = mx_schema_find(o->node->op->schema, "shape");
    const mx_dims *dims = shape && shape->type == MX_FIELD_DIMS
                              ? (const mx_dims *)(const void *)((const char *)o->attrs + shape->offset)
                              : NULL;
    for (int i = 0; dims && i < dims->n; i++)
        if (dims->d[i] <= 0)
            return MX_OK;
    if (mx_invoke(o->node->op, o->attrs, 0, NULL, 1, y) || !y[0])
        return mx_error_code();
    mx_onnx_put(o, o->out[0], "Identity", mx_onnx_put_array(o, y[0]));
    return mx_onnx_done(o);
}

/* 0, 1, 2 ... along an axis: a cumulative sum of ones. */
static mx_code write_arange_like(mx_onnx_out *o)
{
    const mx_arange_like_attrs *a = o->attrs;
    if (a->axis == MX_NONE_INT || a->repeat != 1)
        return mx_onnx_refuse(o, "only ranges along an axis can be written");
    const int type = o->out_type[0];
    const char *shape = mx_onnx_put(o, NULL, "Shape", o->in[0]);
    const char *size = mx_onnx_put(o, NULL, "Gather", shape, mx_onnx_put_number(o, (double)a->axis, MX_INT64));
    const char *range =
        mx_onnx_put(o, NULL, "Range", mx_onnx_put_number(o, 0, MX_INT64), size, mx_onnx_put_number(o, 1, MX_INT64));
    const char *x =
        mx_onnx_put(o, NULL, "Mul", mx_onnx_put_cast(o, NULL, range, type), mx_onnx_put_number(o, a->step, type));
    mx_onnx_put(o, o->out[0], "Add", x, mx_onnx_put_number(o, a->start, type));
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_shape_rows[] = {
    READ("Constant", read_constant),
    READ("ConstantOfShape", read_constant_of_shape, .constants = 1),
    READ("Range", read_range, .constants = 7),
    READ("EyeLike", read_eye),
    READ("Trilu", read_trilu, .constants = 2),
    BOTH("Shape", "shape_array", read_shape, write_shape_array),
    BOTH("Size", "size_array", read_size, write_size_array),
    WRITE(NULL, "zeros_like", write_zeros_like),
    WRITE(NULL, "ones_like", write_ones_like),
    WRITE(NULL, "_zeros", write_created),
    WRITE(NULL, "_ones", write_created),
    WRITE(NULL, "_full", write_created),
    WRITE(NULL, "_arange", write_created),
    WRITE(NULL, "_linspace", write_created),
    WRITE(NULL, "_eye", write_created),
    WRITE(NULL, "_contrib_arange_like", write_arange_like),
    {0}};
