/* Batches of examples of different shapes, padded to the largest: each example is in the first corner of its slot.
 *
 *     (2, 3) and (1, 4)  -->  (2, 2, 4):   a a a v     b b b b
 *                                          a a a v     v v v v        v: the padding value
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "exec/list.h"
#include "base/given.h"
#include "gluon/data/data.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

/* Extends the shape of the batch to hold one example; shape[0] is the number of examples. */
static bool batch_shape(const struct mx_pad_batch_args *a, mx_dims *shape)
{
    char text[MX_SHAPE_TEXT];
    *shape = (mx_dims){.n = a->examples.v[0]->ndim + 1, .d = {a->examples.n}};
    for (int64_t i = 0; i < a->examples.n; i++) {
        const mx_array *x = a->examples.v[i];
        const mx_shape_t own = mx_array_shape(x);
        if (x->ndim + 1 != shape->n) {
            mx_fail(MX_ERR_SHAPE, "mx_pad_batch: example %lld has shape %s, the first has %d axes", (long long)i,
                    mx_shape_text(&own, text), shape->n - 1);
            return false;
        }
        for (int k = 0; k < x->ndim; k++)
            shape->d[k + 1] = x->shape[k] > shape->d[k + 1] ? x->shape[k] : shape->d[k + 1];
    }
    for (int k = 1; a->round_to > 1 && k < shape->n; k++)
        if (a->axis == MX_NONE_INT || (a->axis < 0 ? a->axis + shape->n : a->axis + 1) == k)
            shape->d[k] = (shape->d[k] + a->round_to - 1) / a->round_to * a->round_to;
    return true;
}

/* The axis that lengths are measured along. */
static int64_t length_axis(const struct mx_pad_batch_args *a)
{
    return a->axis == MX_NONE_INT ? 0 : a->axis < 0 ? a->axis + a->examples.v[0]->ndim : a->axis;
}

static bool examples_ok(const struct mx_pad_batch_args *a)
{
    if (a->examples.n < 1)
        return mx_fail(MX_ERR_ARGUMENT, "mx_pad_batch: there are no examples"), false;
    const int64_t axis = length_axis(a);
    if (!a->lengths || (axis >= 0 && axis < a->examples.v[0]->ndim))
        return true;
    mx_fail(MX_ERR_ARGUMENT, "mx_pad_batch: lengths are along axis %lld, examples have %d axes", (long long)axis,
            a->examples.v[0]->ndim);
    return false;
}

static void fill(mx_array *out, double value)
{
    char *to = mx_data(out), item[16];
    const size_t bytes = (size_t)mx_dtype_size((mx_dtype)out->dtype);
    mx_convert(item, (mx_dtype)out->dtype, &value, MX_FLOAT64, 1);
    for (int64_t i = 0; i < out->size; i++)
        memcpy(to + (size_t)i * bytes, item, bytes);
}

/* Copies an example, row by row of the last axis, into slot i of the batch. */
static void put(const mx_array *x, mx_array *out, int64_t i)
{
    const int64_t row = x->ndim ? x->shape[x->ndim - 1] : 1, rows = x->size && row ? x->size / row : 0,
                  from_bytes = (int64_t)mx_dtype_size((mx_dtype)x->dtype),
                  to_bytes = (int64_t)mx_dtype_size((mx_dtype)out->dtype);
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = 0, left = r, stride = x->ndim ? out->shape[out->ndim - 1] : 1;
        for (int k = x->ndim - 2; k >= 0; k--) {
            at += left % x->shape[k] * stride;
            left /= x->shape[k];
            stride *= out->shape[k + 1];
        }
        at += i * (out->size / out->shape[0]);
        mx_convert((char *)mx_data(out) + at * to_bytes, (mx_dtype)out->dtype,
                   (const char *)mx_data(x) + r * row * from_bytes, (mx_dtype)x->dtype, row);
    }
}

static mx_array *lengths_of(const struct mx_pad_batch_args *a)
{
    mx_array *lengths = mx_empty(MX_DIMS(a->examples.n), MX_INT32, mx_cpu(0));
    const int64_t axis = length_axis(a);
    for (int64_t i = 0; lengths && i < a->examples.n; i++)
        ((int32_t *)mx_data(lengths))[i] = (int32_t)a->examples.v[i]->shape[axis];
    return lengths;
}

mx_array *mx_pad_batch_make(const struct mx_pad_batch_args *args)
{
    if (!mx_given(args, "mx_pad_batch", "args"))
        return NULL;
    struct mx_pad_batch_args counted = *args, *const a = &counted;
    mx_dims shape;
    if (mx_list_check(&a->examples, "mx_pad_batch", "examples") || !examples_ok(a) || !batch_shape(a, &shape))
        return NULL;
    const mx_dtype type = a->dtype == MX_DTYPE_NONE ? (mx_dtype)a->examples.v[0]->dtype : a->dtype;
    mx_array *out = mx_empty(shape, type, mx_cpu(0));
    if (!out || (a->lengths && !(*a->lengths = lengths_of(a))))
        return NULL;
    fill(out, a->value);
    for (int64_t i = 0; i < a->examples.n; i++) {
        mx_array *x = mx_array_to(a->examples.v[i], mx_cpu(0));
        if (!x)
            return NULL;
        mx_array_wait(x);
        put(x, out, i);
    }
    return out;
}
