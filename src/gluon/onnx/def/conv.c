/* Convolutions and pooling.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* ---- windows over the image axes --------------------------------------------------------------------------------- */

typedef struct windows {
    int axes;                                   /* of the image */
    mx_dims kernel, stride, dilate, begin, end; /* all have `axes` numbers; begin and end: padding */
    bool equal;                                 /* begin and end are the same */
} windows;

static bool take_numbers(mx_onnx_in *n, const char *attr, int count, int64_t fallback, mx_dims *dims)
{
    if (!mx_onnx_ints(n, attr, dims))
        return false;
    if (dims->n >= 0 && dims->n != count)
        return !mx_onnx_fail(n, MX_ERR_FILE, "%s has %d numbers, wanted %d", attr, dims->n, count);
    for (int i = 0; dims->n < 0 && i < count; i++)
        dims->d[i] = fallback;
    dims->n = count;
    return true;
}

/* SAME_UPPER and SAME_LOWER: as many results as strides fit into the image. */
static bool pad_same(mx_onnx_in *n, windows *w, bool upper)
{
    mx_dims shape;
    if (!mx_onnx_shape(n, 0, &shape))
        return false;
    for (int i = 0; i < w->axes; i++) {
        const int64_t size = shape.d[i + 2], span = (w->kernel.d[i] - 1) * w->dilate.d[i] + 1;
        const int64_t results = (size + w->stride.d[i] - 1) / w->stride.d[i];
        const int64_t need = (results - 1) * w->stride.d[i] + span - size, total = need > 0 ? need : 0;
        w->begin.d[i] = upper ? total / 2 : total - total / 2;
        w->end.d[i] = total - w->begin.d[i];
    }
    return true;
}

static bool take_windows(mx_onnx_in *n, windows *w, int axes)
{
    char text[64];
    mx_dims pads;
    *w = (windows){.axes = axes, .begin = {.n = axes}, .end = {.n = axes}, .equal = true};
    if (axes < 1 || axes > 3)
        return !mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "images of %d axes; one to three are supported", axes);
    if (!take_numbers(n, "kernel_shape", axes, 0, &w->kernel) || !take_numbers(n, "strides", axes, 1, &w->stride) ||
        !take_numbers(n, "dilations", axes, 1, &w->dilate) || !take_numbers(n, "pads", 2 * axes, 0, &pads))
        return false;
    for (int i = 0; i < axes; i++) {
        if (!w->kernel.d[i] && n->n_in > 1 && n->in[1]->ndim == axes + 2)
            w->kernel.d[i] = n->in[1]->shape[i + 2];
        const int64_t numbers[] = {w->kernel.d[i], w->stride.d[i], w->dilate.d[i], pads.d[i] + 1, pads.d[i + axes] + 1};
        bool valid = true;
        for (int k = 0; k < 5; k++)
            valid &= numbers[k] >= 1 && numbers[k] <= 1 << 20;
        if (!valid)
            return !mx_onnx_fail(n, MX_ERR_FILE, "the window is not valid along image axis %d", i);
        w->begin.d[i] = pads.d[i];
        w->end.d[i] = pads.d[i + axes];
    }
    mx_onnx_text(n, "auto_pad", text, "NOTSET");
    if (!strncmp(text, "SAME", 4) && !pad_same(n, w, !strcmp(text, "SAME_UPPER")))
        return false;
    for (int i = 0; i < axes; i++)
        w->equal &= w->begin.d[i] == w->end.d[i];
    return true;
}

/* Padding that differs at the two ends is an operator of its own. */
static mx_array *pad_image(mx_array *x, windows *w, double value)
{
    mx_dims width = {.n = 2 * (w->axes + 2)};
    for (int i = 0; i < w->axes; i++) {
        width.d[4 + 2 * i] = w->begin.d[i];
        width.d[5 + 2 * i] = w->end.d[i];
        w->begin.d[i] = w->end.d[i] = 0;
    }
    return w->axes > 1 ? mx_pad(x, .mode = MX_PAD_CONSTANT, .pad_width = width, .constant_value = value)
                       : mx_squeeze(mx_pad(mx_expand_dims(x, .axis = 2), .mode = MX_PAD_CONSTANT,
                                           .pad_width = MX_DIMS(0, 0, 0, 0, 0, 0, width.d[4], width.d[5]),
                                           .constant_value = value),
                                    .axis = MX_DIMS(2));
}

static void set_windows(mx_onnx_out *o, int axes, const mx_dims *kernel, const mx_dims *stride, const mx_dims *pad,
                        const mx_dims *dilate)
{
    int64_t strides[3], pads[6], dilations[3];
    for (int i = 0; i < axes; i++) {
        strides[i] = stride->n > i ? stride->d[i] : 1;
        pads[i] = pads[i + axes] = pad->n > i ? pad->d[i] : 0;
        dilations[i] = dilate && dilate->n > i ? dilate->d[i] : 1;
    }
    mx_onnx_set_ints(o, "kernel_shape", axes, kernel->d);
    mx_onnx_set_ints(o, "strides", axes, strides);
    mx_onnx_set_ints(o, "pads", 2 * axes, pads);
    if (dilate)
        mx_onnx_set_ints(o, "dilations", axes, dilations);
}

/* Channels last to channels first (first), or back; ONNX has them first. */
static const char *put_channels(mx_onnx_out *o, const char *out, const char *x, int axes, bool first)
{
    int64_t perm[5] = {0};
    for (int i = 0; i < axes; i++)
        perm[i + (first ? 2 : 1)] = i + (first ? 1 : 2);
    perm[first ? 1 : axes + 1] = first ? axes + 1 : 1;
    const char *y = mx_onnx_put(o, out, "Transpose", x);
    mx_onnx_set_ints(o, "perm", axes + 2, perm);
    return y;
}

/* ---- convolution ------------------------------------------------------------------------------------------------- */

mx_code mx_onnx_read_conv(mx_onnx_in *n)
{
    windows w;
    if (!take_windows(n, &w, mx_onnx_rank(n, 0) - 2))
        return mx_error_code();
    const int64_t filters = n->in[1]->ndim > 0 ? n->in[1]->shape[0] : 0;
    mx_array *x = w.equal ? n->in[0] : pad_image(n->in[0], &w, 0);
    n->out[0] = mx_convolution(x, n->in[1], mx_onnx_input(n, 2), .kernel = w.kernel, .stride = w.stride,
                               .dilate = w.dilate, .pad = w.begin, .num_filter = filters,
                               .num_group = mx_onnx_int(n, "group", 1), .no_bias = !mx_onnx_given(n, 2));
    return MX_OK;
}

static mx_code write_conv(mx_onnx_out *o)
{
    const mx_convolution_attrs *a = o->attrs;
    const bool last = a->layout >= MX_CONVOLUTION_NWC;
    const int axes = a->kernel.n;
    const char *x = last ? put_channels(o, NULL, o->in[0], axes, true) : o->in[0],
               *w = last ? put_channels(o, NULL, o->in[1], axes, true) : o->in[1];
    const char *y = mx_onnx_put(o, last ? NULL : o->out[0], "Conv", x, w, a->no_bias || o->n_in < 3 ? NULL : o->in[2]);
    set_windows(o, axes, &a->kernel, &a->stride, &a->pad, &a->dilate);
    mx_onnx_set_int(o, "group", a->num_group);
    if (last)
        put_channels(o, o->out[0], y, axes, false);
    return mx_onnx_done(o);
}

/* Padding of a transposed convolution follows from the shape that is wanted. */
static bool pad_to_shape(mx_onnx_in *n, windows *w, const mx_dims *adj, mx_dims *wanted)
{
    char text[64];
    mx_dims shape;
    mx_onnx_text(n, "auto_pad", text, "NOTSET");
    const bool same = !strncmp(text, "SAME", 4);
    if (!mx_onnx_ints(n, "output_shape", wanted))
        return false;
    if ((wanted->n < 0 && !same) || !mx_onnx_shape(n, 0, &shape))
        return wanted->n < 0 && !same;
    if (wanted->n >= 0 && wanted->n < w->axes)
        return !mx_onnx_fail(n, MX_ERR_FILE, "output_shape has %d sizes, wanted at least %d", wanted->n, w->axes);
    for (int i = 0; i < w->axes; i++) {
        const int64_t span = (w->kernel.d[i] - 1) * w->dilate.d[i] + 1;
        const int64_t size = wanted->n < 0 ? shape.d[i + 2] * w->stride.d[i] : wanted->d[wanted->n - w->axes + i];
        const int64_t total = w->stride.d[i] * (shape.d[i + 2] - 1) + adj->d[i] + span - size;
        if (total < 0)
            return !mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "output_shape is larger than what the windows reach");
        w->begin.d[i] = strcmp(text, "SAME_UPPER") ? total - total / 2 : total / 2;
        w->end.d[i] = total - w->begin.d[i];
    }
    w->equal = !memcmp(w->begin.d, w->end.d, (size_t)w->axes * sizeof(int64_t));
    return true;
}

static mx_code read_deconv(mx_onnx_in *n)
{
    windows w;
    mx_dims adj, wanted;
    if (!take_windows(n, &w, mx_onnx_rank(n, 0) - 2) || !take_numbers(n, "output_padding", w.axes, 0, &adj) ||
        !pad_to_shape(n, &w, &adj, &wanted))
        return mx_error_code();
    const int64_t group = mx_onnx_int(n, "group", 1), filters = (n->in[1]->ndim > 1 ? n->in[1]->shape[1] : 0) * group;
    mx_dims none = {.n = w.axes};
    mx_array *y = mx_deconvolution(n->in[0], n->in[1], mx_onnx_input(n, 2), .kernel = w.kernel, .stride = w.stride,
                                   .dilate = w.dilate, .pad = w.equal ? w.begin : none, .adj = adj,
                                   .num_filter = filters, .num_group = group, .no_bias = !mx_onnx_given(n, 2));
    for (int i = 0; y && !w.equal && i < w.axes; i++)
        y = mx_slice_axis(y, .axis = i + 2, .begin = w.begin.d[i], .end = w.end.d[i] ? -w.end.d[i] : MX_NONE_INT);
    n->out[0] = y;
    return MX_OK;
}

/* Padding that gives the target: the rest of an odd sum is added at the end. */
static bool aim(const mx_onnx_out *o, const mx_deconvolution_attrs *a, bool last, mx_dims *pad, mx_dims *adj)
{
    pad->n = adj->n = a->kernel.n;
    for (int i = 0; i < a->kernel.n; i++) {
        const int64_t in = o->in_shape[0].ndim == a->kernel.n + 2 ? o->in_shape[0].dim[i + (last ? 1 : 2)] : -1,
                      stride = i < a->stride.n ? a->stride.d[i] : 1, dilate = i < a->dilate.n ? a->dilate.d[i] : 1;
        const int64_t rest = stride * (in - 1) + (a->kernel.d[i] - 1) * dilate + 1 - a->target_shape.d[i];
        if (in < 1 || rest < 0)
            return false;
        pad->d[i] = (rest + 1) / 2;
        adj->d[i] = rest % 2;
    }
    return true;
}

static mx_code write_deconv(mx_onnx_out *o)
{
    const mx_deconvolution_attrs *a = o->attrs;
    const bool last = a->layout >= MX_DECONVOLUTION_NWC;
    const int axes = a->kernel.n;
    mx_dims pad = a->pad, adj = a->adj;
    if (a->target_shape.n > 0 && !aim(o, a, last, &pad, &adj))
        return mx_onnx_refuse(o, "the size of its image is not known; give the shapes of the inputs");
    const char *x = last ? put_channels(o, NULL, o->in[0], axes, true) : o->in[0],
               *w = last ? put_channels(o, NULL, o->in[1], axes, true) : o->in[1];
    const char *y =
        mx_onnx_put(o, last ? NULL : o->out[0], "ConvTranspose", x, w, a->no_bias || o->n_in < 3 ? NULL : o->in[2]);
    set_windows(o, axes, &a->kernel, &a->stride, &pad, &a->dilate);
    mx_onnx_set_int(o, "group", a->num_group);
    if (adj.n > 0)
        mx_onnx_set_ints(o, "output_padding", adj.n, adj.d);
    if (last)
        put_channels(o, o->out[0], y, axes, false);
    return mx_onnx_done(o);
}

/* ---- pooling --------------------------------------------------------------------------------------------------- */

static mx_code read_global(mx_onnx_in *n)
{
    const int kind = !strcmp(n->op, "GlobalMaxPool")       ? MX_POOLING_MAX
                     : !strcmp(n->op, "GlobalAveragePool") ? MX_POOLING_AVG
                                                           : MX_POOLING_LP;
    const int axes = mx_onnx_rank(n, 0) - 2;
    mx_dims kernel = {.n = axes}, over = {.n = axes};
    for (int i = 0; i < axes; i++) {
        kernel.d[i] = 1;
        over.d[i] = i + 2;
    }
    if (axes < 1 || axes > 3 || !mx_dtype_is_float(n->in[0]->dtype)) /* any number of axes: as a reduction */
        n->out[0] = kind == MX_POOLING_MAX   ? mx_max(n->in[0], .axis = over, .keepdims = true)
                    : kind == MX_POOLING_AVG ? mx_mean(n->in[0], .axis = over, .keepdims = true)
                                             : NULL;
    else
        n->out[0] = mx_pooling(n->in[0], .kernel = kernel, .pool_type = kind, .global_pool = true,
                               .p_value = kind == MX_POOLING_LP ? mx_onnx_int(n, "p", 2) : MX_NONE_INT);
    return MX_OK;
}

/* The number of every element of input 0; along columns first, if storage_order says so. */
static mx_array *numbered(mx_onnx_in *n, int axes)
{
    mx_dims shape;
    double size = 1;
    if (!mx_onnx_shape(n, 0, &shape))
        return NULL;
    for (int i = 0; i < shape.n; i++)
        size *= (double)shape.d[i];
    const bool columns = axes == 2 && mx_onnx_int(n, "storage_order", 0);
    if (columns) {
        const int64_t high = shape.d[2];
        shape.d[2] = shape.d[3];
        shape.d[3] = high;
    }
    mx_array *x = mx_reshape(mx_arange(.start = 0, .stop = size, .dtype = MX_FLOAT64), .shape = shape);
    return columns ? mx_swapaxes(x, .dim1 = 2, .dim2 = 3) : x;
}

/* A dilated window: the maximum or sum over shifted, strided views; for a second result, where the maximum is. */
static mx_array *pool_dilated(mx_onnx_in *n, const windows *w, bool max, bool ceil_mode, bool include)
{
    windows pads = *w;
    const int64_t *size = n->in[0]->shape + 2;
    mx_dims at = {.n = w->axes}, out = {.n = w->axes};
    for (int i = 0; i < w->axes; i++)
        if (size[i] < 0)
            return mx_onnx_fail(n, MX_ERR_SHAPE, "the size of the image is not known; give the shapes of the inputs"),
                   NULL;
    const double lowest = mx_dtype_is_float(n->in[0]->dtype) ? -INFINITY : n->in[0]->dtype == MX_UINT8 ? 0 : -128;
    for (int i = 0; i < w->axes; i++) {
        const int64_t span = (w->kernel.d[i] - 1) * w->dilate.d[i] + 1;
        const int64_t room = size[i] + w->begin.d[i] + w->end.d[i] - span;
        out.d[i] = (ceil_mode ? (room + w->stride.d[i] - 1) / w->stride.d[i] : room / w->stride.d[i]) + 1;
        if (ceil_mode && (out.d[i] - 1) * w->stride.d[i] >= size[i] + w->begin.d[i])
            out.d[i]--; /* no window begins in the padding */
        const int64_t need = (out.d[i] - 1) * w->stride.d[i] + span - size[i] - w->begin.d[i];
        pads.end.d[i] = need > w->end.d[i] ? need : w->end.d[i];
    }
    windows inner = *w, rest = pads;
    mx_array *x = pad_image(n->in[0], &pads, max ? lowest : 0), *ones = NULL, *y = NULL, *count = NULL;
    if (!max) { /* how many elements a window has */
        ones = mx_ones_like(n->in[0]);
        for (int i = 0; i < w->axes; i++)
            rest.begin.d[i] = include ? 0 : w->begin.d[i],
            rest.end.d[i] = include ? rest.end.d[i] - w->end.d[i] : rest.end.d[i];
        if (include) {
            ones = mx_ones_like(pad_image(ones, &inner, 0));
        }
        ones = pad_image(ones, &rest, 0);
    }
    const bool places = max && n->n_out > 1;
    if (places && !(ones = pad_image(numbered(n, w->axes), &rest, 0)))
        return NULL;
    for (bool more = true; more;) {
        mx_array *part = x, *there = ones;
        for (int i = 0; i < w->axes; i++) {
            mx_dims begin = {.n = i + 3}, end = {.n = i + 3}, step = {.n = i + 3};
            for (int k = 0; k < i + 3; k++)
                begin.d[k] = end.d[k] = step.d[k] = MX_NONE_INT;
            begin.d[i + 2] = at.d[i] * w->dilate.d[i];
            end.d[i + 2] = begin.d[i + 2] + (out.d[i] - 1) * w->stride.d[i] + 1;
            step.d[i + 2] = w->stride.d[i];
            part = mx_slice(part, .begin = begin, .end = end, .step = step);
            there = there ? mx_slice(there, .begin = begin, .end = end, .step = step) : NULL;
        }
        count = !count ? there : places ? mx_where(mx_greater(part, y), there, count) : mx_add(count, there);
        y = !y ? part : max ? mx_maximum(y, part) : mx_add(y, part);
        int i = w->axes - 1;
        for (; i >= 0 && ++at.d[i] == w->kernel.d[i]; i--)
            at.d[i] = 0;
        more = i >= 0;
    }
    if (places)
        n->out[1] = mx_onnx_cast(count, MX_INT64);
    return max ? y : mx_div(y, count);
}

static mx_code read_pool(mx_onnx_in *n)
{
    windows w;
    const bool max = n->op[0] == 'M', lp = n->op[0] == 'L', ceil_mode = mx_onnx_int(n, "ceil_mode", 0);
    const bool include = mx_onnx_int(n, "count_include_pad", 0);
    if (!take_windows(n, &w, mx_onnx_rank(n, 0) - 2))
        return mx_error_code();
    int64_t cells = 1;
    bool dilated = !mx_dtype_is_float(n->in[0]->dtype);
    for (int i = 0; i < w.axes; i++) {
        dilated |= w.dilate.d[i] > 1 || w.begin.d[i] >= w.kernel.d[i];
        cells *= w.kernel.d[i];
    }
    bool padded = !w.equal; /* or a window may begin beyond the image */
    for (int i = 0; i < w.axes; i++)
        padded |= w.begin.d[i] > 0 || w.stride.d[i] > w.kernel.d[i];
    dilated |= (ceil_mode && (padded || !max)) || (!w.equal && !max && !lp) || (max && n->n_out > 1);
    if (dilated && !lp && cells <= 4096) {
        n->out[0] = pool_dilated(n, &w, max, ceil_mode, include);
        return MX_OK;
    }
    if (dilated)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "such windows are not supported");
    mx_array *x = lp ? mx_abs(n->in[0]) : n->in[0]; /* ours are powers of x itself */
    x = w.equal ? x : pad_image(x, &w, max ? -INFINITY : 0);
    n->out[0] = mx_pooling(x, .kernel = w.kernel, .stride = w.stride, .pad = w.begin,
                           .pool_type = max  ? MX_POOLING_MAX
                                        : lp ? MX_POOLING_LP
                                             : MX_POOLING_AVG,
                           .pooling_convention = ceil_mode ? MX_POOLING_FULL : MX_POOLING_VALID,
                           .count_include_pad = include, .p_value = lp ? mx_onnx_int(n, "p", 2) : MX_NONE_INT);
    return MX_OK;
}

/* Every element goes to its place; a larger shape that is asked for has zeros at the ends. */
static mx_code read_unpool(mx_onnx_in *n)
{
    windows w;
    mx_dims in, out, wanted;
    int64_t size = 1;
    if (!take_windows(n, &w, mx_onnx_rank(n, 0) - 2) || !mx_onnx_shape(n, 0, &in) || !mx_onnx_dims(n, 2, &wanted))
        return mx_error_code();
    out = in;
    for (int i = 0; i < in.n; i++) {
        if (i > 1)
            out.d[i] = (in.d[i] - 1) * w.stride.d[i - 2] + w.kernel.d[i - 2] - w.begin.d[i - 2] - w.end.d[i - 2];
        if (out.d[i] < 1 || out.d[i] > (INT64_C(1) << 28) / size)
            return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "its result would have the size %lld along axis %d",
                                (long long)out.d[i], i);
        size *= out.d[i];
    }
    mx_array *at = mx_reshape(mx_onnx_cast(n->in[1], MX_INT64), .shape = MX_DIMS(1, -1));
    mx_array *flat = mx_scatter_nd(mx_reshape(n->in[0], .shape = MX_DIMS(-1)), at, .shape = MX_DIMS(size));
    mx_array *y = mx_reshape(flat, .shape = out);
    windows more = {.axes = w.axes};
    bool larger = false;
    for (int i = 0; i < w.axes && wanted.n == in.n; i++) {
        more.end.d[i] = wanted.d[i + 2] - out.d[i + 2];
        larger |= more.end.d[i] > 0;
    }
    more.begin.n = more.end.n = w.axes;
    n->out[0] = larger ? pad_image(y, &more, 0) : y;
    return MX_OK;
}

static void write_global(mx_onnx_out *o, const mx_pooling_attrs *a, const char *out, const char *x, int axes)
{
    static const char *const ops[] = {"GlobalMaxPool", "GlobalAveragePool", NULL, "GlobalLpPool"};
    if (ops[a->pool_type])
        mx_onnx_put(o, out, ops[a->pool_type], x);
    else
        mx_onnx_put_reduce(o, out, "ReduceSum", x, axes, (int64_t[]){2, 3, 4}, true);
    if (a->pool_type == MX_POOLING_LP)
        mx_onnx_set_int(o, "p", a->p_value);
}

static void write_windows(mx_onnx_out *o, const mx_pooling_attrs *a, const char *out, const char *x)
{
    static const char *const ops[] = {"MaxPool", "AveragePool", "AveragePool", "LpPool"};
    const bool sum = a->pool_type == MX_POOLING_SUM;
    const char *y = mx_onnx_put(o, sum ? NULL : out, ops[a->pool_type], x);
    set_windows(o, a->kernel.n, &a->kernel, &a->stride, &a->pad, NULL);
    if (a->pooling_convention == MX_POOLING_FULL)
        mx_onnx_set_int(o, "ceil_mode", 1);
    if (a->pool_type == MX_POOLING_AVG || sum)
        mx_onnx_set_int(o, "count_include_pad", sum || a->count_include_pad);
    if (a->pool_type == MX_POOLING_LP)
        mx_onnx_set_int(o, "p", a->p_value);
    double cells = 1;
    for (int i = 0; i < a->kernel.n; i++)
        cells *= (double)a->kernel.d[i];
    if (sum)
        mx_onnx_put(o, out, "Mul", y, mx_onnx_put_number(o, cells, o->in_type[0]));
}

static mx_code write_pool(mx_onnx_out *o)
{
    const mx_pooling_attrs *a = o->attrs;
    const bool last = a->layout >= MX_POOLING_NWC;
    if (a->pooling_convention == MX_POOLING_SAME)
        return mx_onnx_refuse(o, "pooling_convention=same cannot be written");
    const int axes = a->global_pool || last ? mx_onnx_out_rank(o, 0) - 2 : a->kernel.n;
    if (axes < 1 || axes > 3)
        return mx_onnx_refuse(o, "images of %d axes", axes);
    const char *x = last ? put_channels(o, NULL, o->in[0], axes, true) : o->in[0];
    const char *out = last ? mx_onnx_spare(o) : o->out[0];
    if (a->global_pool)
        write_global(o, a, out, x, axes);
    else
        write_windows(o, a, out, x);
    if (last)
        put_channels(o, o->out[0], out, axes, false);
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_conv[] = {
    BOTH("Conv", "Convolution", mx_onnx_read_conv, write_conv),
    BOTH("ConvTranspose", "Deconvolution", read_deconv, write_deconv),
    BOTH("MaxPool", "Pooling", read_pool, write_pool),
    READ("MaxUnpool", read_unpool, .constants = 4),
    READ("AveragePool", read_pool),
    READ("LpPool", read_pool),
    READ("GlobalMaxPool", read_global),
    READ("GlobalAveragePool", read_global),
    READ("GlobalLpPool", read_global),
    {0}};
