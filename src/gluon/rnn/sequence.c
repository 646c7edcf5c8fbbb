/* Conversions between a sequence as one array and as a list of steps.
 *
 * On symbolic arrays every conversion is a node; which nodes there are, and in which order, is part of the interface:
 * their numbered names appear in exported graphs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/rnn/sequence.h"

#include <string.h>

#include "base/error.h"
#include "exec/list.h"
#include "gluon/op.gen.h"
#include "graph/node.h"

mx_code mx_sequence_layout_from(const char *layout, mx_sequence_layout *axes)
{
    const char *time = layout ? strchr(layout, 'T') : NULL, *batch = layout ? strchr(layout, 'N') : NULL;
    if (!time || !batch)
        return mx_fail(MX_ERR_ARGUMENT, "unroll: layout='%s', wanted NTC or TNC", layout ? layout : "None");
    *axes = (mx_sequence_layout){(int)(time - layout), (int)(batch - layout)};
    return MX_OK;
}

static mx_array *first_of(const mx_sequence *s) { return s->one ? s->one : s->steps.n > 0 ? s->steps.v[0] : NULL; }

bool mx_sequence_symbolic(const mx_sequence *s) { return first_of(s) && mx_is_symbolic(first_of(s)); }

int64_t mx_sequence_batch(const mx_sequence *s, const mx_sequence_layout *axes)
{
    const mx_array *first = first_of(s);
    const int axis = s->one ? axes->batch : 0;
    return !first || mx_is_symbolic(first) || axis >= first->ndim ? 0 : first->shape[axis];
}

int64_t mx_sequence_length(const mx_sequence *s, const char *layout)
{
    mx_sequence_layout axes;
    if (!s->one)
        return s->steps.n;
    return mx_sequence_layout_from(layout, &axes) || axes.time >= s->one->ndim ? -1 : s->one->shape[axes.time];
}

static mx_code split(mx_sequence *s, int64_t length, int axis)
{
    const mx_array *x = s->one;
    if (mx_is_symbolic(x)) {
        if (length < 0)
            return mx_fail(MX_ERR_ARGUMENT, "unroll: inputs is a Symbol, which needs length");
    } else {
        const int64_t steps = axis < x->ndim ? x->shape[axis] : -1;
        if (steps < 0 || (length >= 0 && length != steps)) {
            char shape[MX_SHAPE_TEXT];
            const mx_dims dims = mx_shape(x);
            return mx_fail(MX_ERR_ARGUMENT, "unroll: inputs has shape %s, which is %lld steps; length is %lld",
                           mx_dims_text(&dims, shape), (long long)(steps < 0 ? 0 : steps), (long long)length);
        }
        length = steps;
    }
    s->steps = mx_split(s->one, .axis = axis, .num_outputs = length, .squeeze_axis = true);
    s->one = NULL;
    return s->steps.n == length ? MX_OK : mx_error_code();
}

static mx_code join(mx_sequence *s, int axis)
{
    s->one = mx_stack(s->steps, .axis = axis, .num_args = s->steps.n);
    s->steps = (mx_arrays){0};
    return s->one ? MX_OK : mx_error_code();
}

mx_code mx_sequence_form(mx_sequence *s, int64_t length, const mx_sequence_layout *axes, mx_merge merge)
{
    if (!s->one && length >= 0 && s->steps.n != length)
        return mx_fail(MX_ERR_ARGUMENT, "unroll: inputs has %lld steps, length is %lld", (long long)s->steps.n,
                       (long long)length);
    if (!first_of(s))
        return mx_fail(MX_ERR_ARGUMENT, "unroll: inputs is empty");
    if (s->one && merge == MX_STEPS)
        return split(s, length, axes->time);
    return !s->one && merge == MX_MERGED ? join(s, axes->time) : MX_OK;
}

mx_code mx_sequence_zero_past(mx_sequence *s, int64_t length, mx_array *valid_length, const mx_sequence_layout *axes,
                              bool merge)
{
    if (!s->one && join(s, axes->time))
        return mx_error_code();
    s->one = mx_sequence_mask(s->one, .sequence_length = valid_length, .use_sequence_length = true, .axis = axes->time);
    if (!s->one)
        return mx_error_code();
    return merge ? MX_OK : split(s, length, axes->time);
}

mx_array *mx_sequence_end(mx_arrays steps, mx_array *valid_length)
{
    return mx_sequence_last(mx_stack(steps, .axis = 0, .num_args = steps.n), .sequence_length = valid_length,
                            .use_sequence_length = true, .axis = 0);
}

mx_arrays mx_sequence_backwards(mx_arrays steps, mx_array *valid_length)
{
    mx_array **list = mx_list_new(steps.n);
    if (!list || !valid_length) {
        for (int64_t i = 0; list && i < steps.n; i++)
            list[i] = steps.v[steps.n - 1 - i];
        return list ? (mx_arrays){list, steps.n} : mx_list_failed();
    }
    mx_array *turned = mx_sequence_reverse(mx_stack(steps, .axis = 0, .num_args = steps.n),
                                           .sequence_length = valid_length, .use_sequence_length = true);
    if (steps.n > 1)
        return mx_split(turned, .axis = 0, .num_outputs = steps.n, .squeeze_axis = true);
    list[0] = mx_squeeze(turned, .axis = {1, {0}});
    return list[0] ? (mx_arrays){list, 1} : mx_list_failed();
}
