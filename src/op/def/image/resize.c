/* Resampling of images: bilinear resizing and adaptive mean pooling.
 *
 * Both are linear maps that act on rows and columns separately (op/formula/resize.h), and so are their transposes: the two
 * hidden operators are each other's gradients.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/emit.h"
#include "op/formula/resize.h"

#include "base/error.h"
#include "op/op.h"

#define RESIZE_ATTRS(X) \
    X(INT, height, "1", "1..1000000", "height of the result") \
    X(INT, width, "1", "1..1000000", "width of the result") \
    X(FLOAT, scale_height, "None", "", "height of the result as a multiple of the input's") \
    X(FLOAT, scale_width, "None", "", "width of the result as a multiple of the input's") \
    X(ENUM, mode, "size", "size|odd_scale|like|to_even_down|to_even_up|to_odd_down|to_odd_up", "how the output size is determined") \
    X(BOOL, align_corners, "True", "", "align the centres of the corner pixels, else the outer edges")
MX_ATTRS(bilinear_resize, RESIZE_ATTRS)
enum { SIZE, ODD_SCALE, LIKE, TO_EVEN_DOWN, TO_EVEN_UP, TO_ODD_DOWN, TO_ODD_UP };

#define ADAPTIVE_ATTRS(X) X(DIMS, output_size, "()", "", "height and width of the result; one number: both; none: 1")
MX_ATTRS(adaptive_pooling, ADAPTIVE_ATTRS)

#define RESAMPLE_ATTRS(X) \
    X(INT, height, REQUIRED, "1..1000000", "height of the result") \
    X(INT, width, REQUIRED, "1..1000000", "width of the result") \
    X(ENUM, kind, REQUIRED, "corners|centers|mean", "how the weights are computed")
MX_ATTRS(resample, RESAMPLE_ATTRS)

static mx_code wrong_shape(const mx_infer *infer, int i)
{
    char text[MX_SHAPE_TEXT], name[64];
    return mx_op_fail(infer->op, MX_ERR_SHAPE,
                      "%s has shape %s, wanted (batch, channels, height, width) that is not empty",
                      mx_op_input_name(infer->op, i, name), mx_shape_text(&infer->in[i], text));
}

static mx_code infer_image(mx_infer *infer, int64_t height, int64_t width)
{
    mx_shape_t out = infer->in[0];
    out.dim[2] = height, out.dim[3] = width;
    return mx_infer_out(infer, 0, &out);
}

static bool is_image(const mx_shape_t *s) { return s->ndim == 4 && s->dim[2] > 0 && s->dim[3] > 0; }

/* ---- BilinearResize2D ----------------------------------------------------------------------------------------------- */

static int64_t resized(int mode, int64_t from, int64_t wanted, double scale, int64_t like)
{
    const double scaled = isnan(scale) ? (double)wanted : (double)from * scale;
    switch (mode) {
    case ODD_SCALE: return from % 2 ? (int64_t)((double)(from - 1) * scale) + 1 : (int64_t)scaled;
    case LIKE: return like;
    case TO_EVEN_DOWN: return from - from % 2;
    case TO_EVEN_UP: return from + from % 2;
    case TO_ODD_DOWN: return from - 1 + from % 2;
    case TO_ODD_UP: return from + 1 - from % 2;
    default: return (int64_t)scaled;
    }
}

static mx_code check_resize(const void *a)
{
    const mx_bilinear_resize_attrs *p = a;
    const bool one = isnan(p->scale_height) != isnan(p->scale_width);
    if (one || p->scale_height > 1e6 || p->scale_width > 1e6 || p->scale_height <= 0 || p->scale_width <= 0)
        return mx_fail(
            MX_ERR_ATTRIBUTE,
            "_contrib_BilinearResize2D: scale_height and scale_width must be given together and be positive");
    if (p->mode == ODD_SCALE && isnan(p->scale_height))
        return mx_fail(MX_ERR_ATTRIBUTE,
                       "_contrib_BilinearResize2D: mode odd_scale needs scale_height and scale_width");
    return MX_OK;
}

static int count_resize_inputs(const void *a) { return ((const mx_bilinear_resize_attrs *)a)->mode == LIKE ? 2 : 1; }

static mx_code infer_resize(mx_infer *infer)
{
    const mx_bilinear_resize_attrs *p = infer->attrs;
    const mx_shape_t *data = &infer->in[0], *like = infer->n_in > 1 ? &infer->in[1] : NULL;
    if (!mx_shape_known(data) || (p->mode == LIKE && (!like || !mx_shape_known(like))))
        return data->ndim >= 0 && data->ndim != 4 ? wrong_shape(infer, 0) : MX_OK;
    if (!is_image(data))
        return wrong_shape(infer, 0);
    if (p->mode == LIKE && !is_image(like))
        return wrong_shape(infer, 1);
    const int64_t height =
        resized(p->mode, data->dim[2], p->height, p->scale_height, p->mode == LIKE ? like->dim[2] : 0);
    const int64_t width = resized(p->mode, data->dim[3], p->width, p->scale_width, p->mode == LIKE ? like->dim[3] : 0);
    if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "the result would be %lld by %lld", (long long)height,
                          (long long)width);
    return infer_image(infer, height, width);
}

/* ---- AdaptiveAvgPooling2D --------------------------------------------------------------------------------------------- */

static mx_code check_adaptive(const void *a)
{
    const mx_dims *size = &((const mx_adaptive_pooling_attrs *)a)->output_size;
    bool ok = size->n <= 2;
    for (int i = 0; i < size->n && ok; i++)
        ok = size->d[i] > 0 && size->d[i] <= 1000000;
    return ok ? MX_OK
              : mx_fail(MX_ERR_ATTRIBUTE,
                        "_contrib_AdaptiveAvgPooling2D: output_size must be one or two positive numbers");
}

static mx_code infer_adaptive(mx_infer *infer)
{
    const mx_dims *size = &((const mx_adaptive_pooling_attrs *)infer->attrs)->output_size;
    if (!mx_shape_known(&infer->in[0]))
        return infer->in[0].ndim >= 0 && infer->in[0].ndim != 4 ? wrong_shape(infer, 0) : MX_OK;
    if (!is_image(&infer->in[0]))
        return wrong_shape(infer, 0);
    return infer_image(infer, size->n > 0 ? size->d[0] : 1, size->n > 1 ? size->d[1] : size->n > 0 ? size->d[0] : 1);
}

/* ---- the linear map and its transpose ---------------------------------------------------------------------------------- */

static mx_code infer_resample(mx_infer *infer)
{
    const mx_resample_attrs *p = infer->attrs;
    if (!mx_shape_known(&infer->in[0]))
        return infer->in[0].ndim >= 0 && infer->in[0].ndim != 4 ? wrong_shape(infer, 0) : MX_OK;
    return is_image(&infer->in[0]) ? infer_image(infer, p->height, p->width) : wrong_shape(infer, 0);
}

static mx_code resampled(mx_grad *grad, mx_op *op, int kind)
{
    const mx_shape_t *in = &grad->in_shape[0];
    const mx_resample_attrs attrs = {in->dim[2], in->dim[3], kind};
    if (!grad->wanted[0])
        return MX_OK;
    return mx_give(grad, 0, mx_g_call(op, &attrs, 1, &grad->ograd[0]));
}
static int resize_kind(const void *a)
{
    return ((const mx_bilinear_resize_attrs *)a)->align_corners ? MX_RESIZE_CORNERS : MX_RESIZE_CENTERS;
}
static mx_code grad_resize(mx_grad *grad)
{
    return resampled(grad, MX_OP("_resample_transposed"), resize_kind(grad->attrs));
}
static mx_code grad_adaptive(mx_grad *grad) { return resampled(grad, MX_OP("_resample_transposed"), MX_RESIZE_MEAN); }
static mx_code grad_transposed(mx_grad *grad)
{
    return resampled(grad, MX_OP("_resample"), ((const mx_resample_attrs *)grad->attrs)->kind);
}
static mx_code grad_resample(mx_grad *grad)
{
    return resampled(grad, MX_OP("_resample_transposed"), ((const mx_resample_attrs *)grad->attrs)->kind);
}

/* transposed: `small` is what the weights belong to, the input; else the output */
static void apply(const mx_reference_call *call, int kind, bool transposed)
{
    const mx_shape_t *from = transposed ? &call->out_shape[0] : &call->in_shape[0],
                     *to = transposed ? &call->in_shape[0] : &call->out_shape[0];
    const int64_t planes = from->dim[0] * from->dim[1], H = from->dim[2], W = from->dim[3], h = to->dim[2],
                  w = to->dim[3];
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = 0;
    for (int64_t e = 0; e < planes * h * w; e++) {
        const mx_resize_taps down = mx_resize_at(kind, H, h, e / w % h), across = mx_resize_at(kind, W, w, e % w);
        for (int64_t i = 0; i < down.count; i++)
            for (int64_t j = 0; j < across.count; j++) {
                const double weight = (i ? down.next : down.weight) * (j ? across.next : across.weight);
                const int64_t at = (e / w / h * H + down.first + i) * W + across.first + j;
                if (transposed)
                    call->out[0][at] += weight * call->in[0][e];
                else
                    call->out[0][e] += weight * call->in[0][at];
            }
    }
}
static void ref_resize(const mx_reference_call *call) { apply(call, resize_kind(call->attrs), false); }
static void ref_adaptive(const mx_reference_call *call) { apply(call, MX_RESIZE_MEAN, false); }
static void ref_resample(const mx_reference_call *call)
{
    apply(call, ((const mx_resample_attrs *)call->attrs)->kind, false);
}
static void ref_transposed(const mx_reference_call *call)
{
    apply(call, ((const mx_resample_attrs *)call->attrs)->kind, true);
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
#define PLAIN_SAMPLES SAMPLES({"2,2,3,4", "height=5, width=7, kind=corners", 0, 0, "floatonly"}, {"1,2,5,3", "height=2, width=4, kind=centers", 0, 0, "floatonly"}, \
                              {"2,1,5,3", "height=2, width=2, kind=mean", 0, 0, "floatonly"})
#define GROWN_SAMPLES SAMPLES({"2,2,5,7", "height=3, width=4, kind=corners", 0, 0, "floatonly"}, {"1,2,2,4", "height=5, width=3, kind=centers", 0, 0, "floatonly"}, \
                              {"2,1,2,2", "height=5, width=3, kind=mean", 0, 0, "floatonly"})
/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_adaptive(const mx_emit_call *n)
{
    mx_emit_open(n, "adaptive", 1);
    mx_emit_print(n, "%lld, %lld, %lld, %lld, %lld", (long long)(n->x->dim[0] * n->x->dim[1]), (long long)n->x->dim[2],
                  (long long)n->x->dim[3], (long long)n->y->dim[2], (long long)n->y->dim[3]);
    return mx_emit_close(n);
}

mx_op mx_family_resize[] = {
    {.name = "_contrib_BilinearResize2D", .c_name = "bilinear_resize2d", .inputs = "data like?", .doc = "resizes images by bilinear interpolation",
     .schema = &bilinear_resize_schema, .check = check_resize, .count_in = count_resize_inputs, .infer_shape = infer_resize, .gradient = grad_resize,
     .no_grad_inputs = 2, .reference = ref_resize,
     .samples = SAMPLES({"2,2,3,4", "height=5, width=7", 0, 0, "floatonly absent:1"}, {"1,2,5,4", "height=3, width=2, align_corners=False", 0, 0, "floatonly absent:1"},
                        {"1,2,3,4", "scale_height=2, scale_width=1.5, mode=odd_scale", 0, 0, "floatonly absent:1"}, {"1,1,5,4", "mode=to_even_up", 0, 0, "floatonly absent:1"},
                        {"1,1,5,4", "mode=to_odd_down", 0, 0, "floatonly absent:1"}, {"1,1,3,4;1,1,2,6", "mode=like", 0, 0, "floatonly"}, {"1,3,1,1", "height=3, width=2", 0, 0, "floatonly absent:1"})},
    {.name = "_contrib_AdaptiveAvgPooling2D", MX_EMIT(emit_adaptive), .look = MX_LOOK_POOLING,
     .c_name = "adaptive_avg_pooling2d",
     .inputs = "data", .doc = "average pooling to a given output size; windows cover the image evenly and may overlap",
     .schema = &adaptive_pooling_schema, .check = check_adaptive, .infer_shape = infer_adaptive, .gradient = grad_adaptive, .reference = ref_adaptive,
     .samples = SAMPLES({"2,2,5,7", "", 0, 0, "floatonly"}, {"2,2,5,7", "output_size=3", 0, 0, "floatonly"}, {"1,2,3,4", "output_size=(5, 2)", 0, 0, "floatonly"})},
    {.name = "_resample", .inputs = "data", .doc = "resampling of images", .schema = &resample_schema, .flags = MX_OP_HIDDEN, .infer_shape = infer_resample,
     .gradient = grad_resample, .reference = ref_resample, .samples = PLAIN_SAMPLES},
    {.name = "_resample_transposed", .inputs = "data", .doc = "the transpose of image resampling", .schema = &resample_schema, .flags = MX_OP_HIDDEN,
     .infer_shape = infer_resample, .gradient = grad_transposed, .reference = ref_transposed, .samples = GROWN_SAMPLES},
    {0},
};
