/* im2col and col2im: the windows of a convolution as columns, and columns added up at the positions of their windows.
 *
 * Each is the other's transpose and therefore its gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "op/op.h"
#include "op/formula/windows.h"

#define WINDOW_ATTRS(X) \
    X(DIMS, kernel, REQUIRED, "", "size of the window") \
    X(DIMS, stride, "()", "", "step of the window") \
    X(DIMS, dilate, "()", "", "distance between the elements of a window") \
    X(DIMS, pad, "()", "", "zeros added on both sides")
MX_ATTRS(im2col, WINDOW_ATTRS)

#define COL2IM_ATTRS(X) X(DIMS, output_size, REQUIRED, "", "spatial size of the result") WINDOW_ATTRS(X)
MX_ATTRS(col2im, COL2IM_ATTRS)

#define LARGE 1000000

static bool fits(const mx_dims *d, int n, int64_t least, bool may_be_absent)
{
    if (d->n <= 0 && may_be_absent)
        return true;
    bool ok = d->n == n;
    for (int i = 0; i < n && ok; i++)
        ok = d->d[i] >= least && d->d[i] <= LARGE;
    return ok;
}

static int64_t pick(const mx_dims *d, int i, int64_t otherwise) { return d->n > i ? d->d[i] : otherwise; }

/* sizes: of the data's spatial axes.  False if the windows do not fit. */
static bool windows_of(const mx_im2col_attrs *p, const int64_t *sizes, mx_windows *w)
{
    *w = (mx_windows){.axes = p->kernel.n, .all_sizes = 1, .cells = 1, .all_places = 1};
    for (int i = 0; i < w->axes; i++) {
        w->size[i] = sizes[i], w->kernel[i] = p->kernel.d[i];
        w->stride[i] = pick(&p->stride, i, 1), w->dilate[i] = pick(&p->dilate, i, 1), w->pad[i] = pick(&p->pad, i, 0);
        const int64_t room = w->size[i] + 2 * w->pad[i] - (w->dilate[i] * (w->kernel[i] - 1) + 1);
        if (room < 0 || sizes[i] > INT32_MAX)
            return false;
        w->places[i] = room / w->stride[i] + 1;
        w->all_sizes *= w->size[i], w->cells *= w->kernel[i], w->all_places *= w->places[i];
    }
    return w->cells <= INT32_MAX && w->all_places <= ((int64_t)1 << 40);
}

static mx_code check_windows(const char *op, const mx_im2col_attrs *p)
{
    const int n = p->kernel.n;
    if (n < 1 || n > 3 || !fits(&p->kernel, n, 1, false) || !fits(&p->stride, n, 1, true) ||
        !fits(&p->dilate, n, 1, true) || !fits(&p->pad, n, 0, true))
        return mx_fail(MX_ERR_ATTRIBUTE,
                       "%s: kernel must have one to three positive numbers; stride, dilate and pad as many or none",
                       op);
    return MX_OK;
}
static mx_code check_im2col(const void *a) { return check_windows("im2col", a); }

static mx_im2col_attrs inner(const mx_col2im_attrs *p)
{
    return (mx_im2col_attrs){p->kernel, p->stride, p->dilate, p->pad};
}

static mx_code check_col2im(const void *a)
{
    const mx_col2im_attrs *p = a;
    const mx_im2col_attrs windows = inner(p);
    if (check_windows("col2im", &windows))
        return mx_error_code();
    return fits(&p->output_size, p->kernel.n, 1, false)
               ? MX_OK
               : mx_fail(MX_ERR_ATTRIBUTE, "col2im: output_size must have as many numbers as kernel");
}

static mx_code wrong_shape(const mx_infer *infer, const char *wanted)
{
    char text[MX_SHAPE_TEXT];
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted %s", mx_shape_text(&infer->in[0], text),
                      wanted);
}

static mx_code infer_im2col(mx_infer *infer)
{
    const mx_im2col_attrs *p = infer->attrs;
    const mx_shape_t *data = &infer->in[0];
    mx_windows w;
    if (data->ndim >= 0 && data->ndim != p->kernel.n + 2)
        return wrong_shape(infer, "(batch, channels, as many axes as the kernel has)");
    if (!mx_shape_known(data))
        return MX_OK;
    if (!windows_of(p, data->dim + 2, &w))
        return wrong_shape(infer, "data that is at least as large as the window");
    const mx_shape_t out = {.ndim = 3, .dim = {data->dim[0], data->dim[1] * w.cells, w.all_places}};
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_col2im(mx_infer *infer)
{
    const mx_col2im_attrs *p = infer->attrs;
    const mx_im2col_attrs windows = inner(p);
    const mx_shape_t *data = &infer->in[0];
    int64_t sizes[3] = {0};
    mx_windows w;
    for (int i = 0; i < p->kernel.n; i++)
        sizes[i] = p->output_size.d[i];
    if (data->ndim >= 0 && data->ndim != 3)
        return wrong_shape(infer, "(batch, channels * window elements, windows)");
    if (!mx_shape_known(data))
        return MX_OK;
    if (!windows_of(&windows, sizes, &w))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "output_size is smaller than the window");
    if (data->dim[1] % w.cells || data->dim[2] != w.all_places)
        return wrong_shape(infer, "channels divisible by the kernel size, and one column per window of output_size");
    mx_shape_t out = {.ndim = 2 + w.axes, .dim = {data->dim[0], data->dim[1] / w.cells, sizes[0], sizes[1], sizes[2]}};
    return mx_infer_out(infer, 0, &out);
}

static mx_code grad_im2col(mx_grad *grad)
{
    const mx_im2col_attrs *p = grad->attrs;
    mx_shape_t spatial = {.ndim = p->kernel.n};
    memcpy(spatial.dim, grad->in_shape[0].dim + 2, (size_t)p->kernel.n * sizeof *spatial.dim);
    const mx_col2im_attrs attrs = {mx_dims_of_shape(&spatial), p->kernel, p->stride, p->dilate, p->pad};
    return mx_give(grad, 0, mx_g_call(MX_OP("col2im"), &attrs, 1, &grad->ograd[0]));
}

static mx_code grad_col2im(mx_grad *grad)
{
    const mx_im2col_attrs attrs = inner(grad->attrs);
    return mx_give(grad, 0, mx_g_call(MX_OP("im2col"), &attrs, 1, &grad->ograd[0]));
}

static void ref_im2col(const mx_reference_call *call)
{
    mx_windows w;
    windows_of(call->attrs, call->in_shape[0].dim + 2, &w);
    for (int64_t e = 0; e < mx_shape_size(&call->out_shape[0]); e++) {
        const int64_t from = mx_window_at(&w, e / w.all_places % w.cells, e % w.all_places);
        call->out[0][e] = from < 0 ? 0 : call->in[0][e / w.all_places / w.cells * w.all_sizes + from];
    }
}

static void ref_col2im(const mx_reference_call *call)
{
    const mx_im2col_attrs windows = inner(call->attrs);
    mx_windows w;
    windows_of(&windows, call->out_shape[0].dim + 2, &w);
    memset(call->out[0], 0, (size_t)mx_shape_size(&call->out_shape[0]) * sizeof(double));
    for (int64_t e = 0; e < mx_shape_size(&call->in_shape[0]); e++) {
        const int64_t to = mx_window_at(&w, e / w.all_places % w.cells, e % w.all_places);
        if (to >= 0)
            call->out[0][e / w.all_places / w.cells * w.all_sizes + to] += call->in[0][e];
    }
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
mx_op mx_family_columns[] = {
    {.name = "im2col", .input_named = true, .inputs = "data", .doc = "arranges the windows of a convolution as columns", .schema = &im2col_schema, .check = check_im2col,
     .infer_shape = infer_im2col, .gradient = grad_im2col, .reference = ref_im2col,
     .samples = SAMPLES({"2,3,5,6", "kernel=(2, 3)", 0, 0, "floatonly"}, {"1,2,5,6", "kernel=(3, 3), stride=(2, 1), pad=(1, 1), dilate=(1, 2)", 0, 0, "floatonly"},
                        {"2,2,7", "kernel=(3,), stride=(2,), pad=(1,)", 0, 0, "floatonly"}, {"1,1,3,3,4", "kernel=(2, 2, 2)", 0, 0, "floatonly"})},
    {.name = "col2im", .input_named = true, .inputs = "data", .doc = "adds columns up at the positions of their windows: the transpose of im2col", .schema = &col2im_schema, .check = check_col2im,
     .infer_shape = infer_col2im, .gradient = grad_col2im, .reference = ref_col2im,
     .samples = SAMPLES({"2,18,16", "output_size=(5, 6), kernel=(2, 3)", 0, 0, "floatonly"},
                        {"1,18,12", "output_size=(5, 6), kernel=(3, 3), stride=(2, 1), pad=(1, 1), dilate=(1, 2)", 0, 0, "floatonly"},
                        {"2,6,4", "output_size=(7,), kernel=(3,), stride=(2,), pad=(1,)", 0, 0, "floatonly"})},
    {0},
};
