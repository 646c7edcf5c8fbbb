/* Convolutions and pooling over blocked channels: used inside plans (pass/layout.c).
 *
 *     blocked data (N, blocks, H, W, block): channel c is element c % block of block c / block.
 *     Elements past the last channel hold what the operators compute from zeros; they are never used.
 *
 * _block_weight blocks weights in the same way; data with few channels may stay unblocked:
 *
 *     data (N, C/b, H, W, b)   weight (O/b, C/b, KH, KW, b of C, b of O)
 *     data (N, C, H, W)        weight (O/b, C, KH, KW, b of O)
 *     data (N, C/b, H, W, b)   weight (C/b, KH, KW, b)                    depthwise
 *     data (N, C/b, H, W, b)   weight (16, O/b, C/b, b of C, b of O)      3x3 windows by Winograd's method
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "op/op.h"

#define TO_BLOCKED_ATTRS(X) X(INT, block, "16", "1..1024", "channels per block")
MX_ATTRS(to_blocked, TO_BLOCKED_ATTRS)
#define FROM_BLOCKED_ATTRS(X) X(INT, channels, REQUIRED, "1..", "number of channels, without the padding of the last block")
MX_ATTRS(from_blocked, FROM_BLOCKED_ATTRS)
#define BLOCK_WEIGHT_ATTRS(X) \
    X(INT, block, "16", "1..1024", "channels per block") \
    X(ENUM, form, "blocked", "blocked|plain|depthwise|winograd", \
      "for blocked data, for unblocked (NCHW) data, depthwise, or 3x3 windows by Winograd's method")
MX_ATTRS(block_weight, BLOCK_WEIGHT_ATTRS)
#define BLOCKED_CONVOLUTION_ATTRS(X) \
    X(DIMS, stride, "()", "", "step of the window; (): 1") \
    X(DIMS, dilate, "()", "", "distance between the elements of the window; (): 1") \
    X(DIMS, pad, "()", "", "zeros added on both sides; (): 0") \
    X(INT, channels, REQUIRED, "1..", "number of output channels") \
    X(FLOAT, low, "None", "", "lower bound of the results") \
    X(FLOAT, high, "None", "", "upper bound of the results")
MX_ATTRS(blocked_convolution, BLOCKED_CONVOLUTION_ATTRS)
#define BLOCKED_POOLING_ATTRS(X) \
    X(DIMS, kernel, REQUIRED, "", "size of the window") \
    X(DIMS, size, REQUIRED, "", "height and width of the result") \
    X(DIMS, stride, "()", "", "step of the window; (): 1") \
    X(DIMS, pad, "()", "", "padding on both sides; (): 0") \
    X(ENUM, pool_type, "max", "max|avg|sum", "how the elements of a window are combined") \
    X(BOOL, count_include_pad, "True", "", "avg divides by the full window size, padding included")
MX_ATTRS(blocked_pooling, BLOCKED_POOLING_ATTRS)

static int64_t up(int64_t a, int64_t b) { return a / b + (a % b != 0); } /* rounds up without overflow */
static int64_t at(const mx_dims *dims, int i, int64_t fallback) { return dims->n > i ? dims->d[i] : fallback; }

static mx_code wrong_rank(mx_infer *infer, int i, const char *wanted)
{
    char name[64], text[MX_SHAPE_TEXT];
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted %s", mx_op_input_name(infer->op, i, name),
                      mx_shape_text(&infer->in[i], text), wanted);
}

static mx_code check_dims(const char *op, const char *name, const mx_dims *dims, int64_t least, bool required)
{
    if (dims->n != 2 && (required || dims->n > 0))
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s has %d numbers, wanted 2", op, name, dims->n);
    for (int i = 0; i < dims->n; i++)
        if (dims->d[i] < least || dims->d[i] > INT32_MAX)
            return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s[%d]=%lld is out of range", op, name, i, (long long)dims->d[i]);
    return MX_OK;
}

/* ---- to and from the layout -------------------------------------------------------------------------------------- */

static mx_code infer_to(mx_infer *infer)
{
    const mx_to_blocked_attrs *a = infer->attrs;
    const mx_shape_t *x = &infer->in[0];
    if (!mx_shape_known(x))
        return MX_OK;
    if (x->ndim != 4)
        return wrong_rank(infer, 0, "(N, C, H, W)");
    const mx_shape_t y = {.ndim = 5, .dim = {x->dim[0], up(x->dim[1], a->block), x->dim[2], x->dim[3], a->block}};
    return mx_infer_out(infer, 0, &y);
}

static mx_code infer_from(mx_infer *infer)
{
    const mx_from_blocked_attrs *a = infer->attrs;
    const mx_shape_t *x = &infer->in[0];
    if (!mx_shape_known(x))
        return MX_OK;
    if (x->ndim != 5 || x->dim[4] < 1 || up(a->channels, x->dim[4]) != x->dim[1])
        return wrong_rank(infer, 0, "(N, blocks, H, W, block) with as many blocks as the channels need");
    const mx_shape_t y = {.ndim = 4, .dim = {x->dim[0], a->channels, x->dim[2], x->dim[3]}};
    return mx_infer_out(infer, 0, &y);
}

/* Offset of channel c, pixel p of image n in (N, blocks, pixels, block). */
static int64_t blocked_at(int64_t n, int64_t c, int64_t p, int64_t blocks, int64_t pixels, int64_t block)
{
    return ((n * blocks + c / block) * pixels + p) * block + c % block;
}

static void reference_to(const mx_reference_call *call)
{
    const mx_shape_t *x = &call->in_shape[0], *y = &call->out_shape[0];
    const int64_t pixels = x->dim[2] * x->dim[3];
    for (int64_t i = 0; i < mx_shape_size(y); i++)
        call->out[0][i] = 0;
    for (int64_t i = 0; i < mx_shape_size(x); i++)
        call->out[0][blocked_at(i / pixels / x->dim[1], i / pixels % x->dim[1], i % pixels, y->dim[1], pixels,
                                y->dim[4])] = call->in[0][i];
}

static void reference_from(const mx_reference_call *call)
{
    const mx_shape_t *x = &call->in_shape[0], *y = &call->out_shape[0];
    const int64_t pixels = x->dim[2] * x->dim[3];
    for (int64_t i = 0; i < mx_shape_size(y); i++)
        call->out[0][i] = call->in[0][blocked_at(i / pixels / y->dim[1], i / pixels % y->dim[1], i % pixels, x->dim[1],
                                                 pixels, x->dim[4])];
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

enum { BLOCKED, PLAIN, DEPTHWISE, WINOGRAD };

static mx_code infer_weight(mx_infer *infer)
{
    const mx_block_weight_attrs *a = infer->attrs;
    const mx_shape_t *w = &infer->in[0]; /* (O, C, KH, KW) */
    if (!mx_shape_known(w))
        return MX_OK;
    if (w->ndim != 4 || (a->form == DEPTHWISE && w->dim[1] != 1))
        return wrong_rank(infer, 0, a->form == DEPTHWISE ? "(C, 1, KH, KW)" : "(O, C, KH, KW)");
    if (a->form == WINOGRAD && (w->dim[2] != 3 || w->dim[3] != 3))
        return wrong_rank(infer, 0, "(O, C, 3, 3)");
    const int64_t blocks = up(w->dim[0], a->block), kh = w->dim[2], kw = w->dim[3];
    const mx_shape_t shapes[] = {
        {.ndim = 6, .dim = {blocks, up(w->dim[1], a->block), kh, kw, a->block, a->block}},
        {.ndim = 5, .dim = {blocks, w->dim[1], kh, kw, a->block}},
        {.ndim = 4, .dim = {blocks, kh, kw, a->block}},
        {.ndim = 5, .dim = {16, blocks, up(w->dim[1], a->block), a->block, a->block}},
    };
    return mx_infer_out(infer, 0, &shapes[a->form]);
}

/* Offset of weight (o, c, k) among the blocked ones. */
static int64_t weight_at(int form, int64_t o, int64_t c, int64_t k, int64_t channels, int64_t taps, int64_t block)
{
    switch (form) {
    case BLOCKED:
        return (((o / block * up(channels, block) + c / block) * taps + k) * block + c % block) * block + o % block;
    case PLAIN: return ((o / block * channels + c) * taps + k) * block + o % block;
    default: return (o / block * taps + k) * block + o % block;
    }
}

/* Winograd's method for 2 x 2 results of 3 x 3 windows: y = A' [(G w G') (B' d B)] A, the middle product by elements. */
static const double G[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
static const double B[4][4] = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}}; /* transposed, as is A */
static const double A[2][4] = {{1, 1, 1, 0}, {0, 1, -1, -1}};

/* Offset of number k of weight (o, c) among (16, O/b, C/b, b, b). */
static int64_t winograd_at(int64_t k, int64_t o, int64_t c, int64_t out_blocks, int64_t blocks, int64_t block)
{
    return (((k * out_blocks + o / block) * blocks + c / block) * block + c % block) * block + o % block;
}

static void reference_winograd_weight(const mx_reference_call *call)
{
    const mx_shape_t *w = &call->in_shape[0], *u = &call->out_shape[0];
    for (int64_t i = 0; i < w->dim[0] * w->dim[1] * 16; i++) {
        const int64_t k = i % 16, c = i / 16 % w->dim[1], o = i / 16 / w->dim[1];
        double sum = 0;
        for (int t = 0; t < 9; t++)
            sum += G[k / 4][t / 3] * call->in[0][(o * w->dim[1] + c) * 9 + t] * G[k % 4][t % 3];
        call->out[0][winograd_at(k, o, c, u->dim[1], u->dim[2], u->dim[4])] = sum;
    }
}

static void reference_weight(const mx_reference_call *call)
{
    const mx_block_weight_attrs *a = call->attrs;
    const mx_shape_t *w = &call->in_shape[0];
    const int64_t taps = w->dim[2] * w->dim[3];
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = 0;
    if (a->form == WINOGRAD) {
        reference_winograd_weight(call);
        return;
    }
    for (int64_t i = 0; i < mx_shape_size(w); i++)
        call->out[0][weight_at(a->form, i / taps / w->dim[1], i / taps % w->dim[1], i % taps, w->dim[1], taps,
                               a->block)] = call->in[0][i];
}

/* ---- convolution ------------------------------------------------------------------------------------------------- */

static int form_of(const mx_shape_t *x, const mx_shape_t *w)
{
    return x->ndim == 4 ? PLAIN : w->ndim == 6 ? BLOCKED : w->ndim == 5 ? WINOGRAD : DEPTHWISE;
}

static mx_code check_convolution(const void *attrs)
{
    const mx_blocked_convolution_attrs *a = attrs;
    if (check_dims("_blocked_convolution", "stride", &a->stride, 1, false) ||
        check_dims("_blocked_convolution", "dilate", &a->dilate, 1, false))
        return mx_error_code();
    return check_dims("_blocked_convolution", "pad", &a->pad, 0, false);
}

static mx_code check_weight(mx_infer *infer)
{
    const mx_shape_t *x = &infer->in[0], *w = &infer->in[1];
    const int64_t channels = ((const mx_blocked_convolution_attrs *)infer->attrs)->channels;
    if (x->ndim != 4 && x->ndim != 5)
        return wrong_rank(infer, 0, "(N, blocks, H, W, block) or (N, C, H, W)");
    if (x->ndim == 4 ? w->ndim != 5 : w->ndim < 4 || w->ndim > 6)
        return wrong_rank(infer, 1, "a weight made by _block_weight for such data");
    const int form = form_of(x, w), in_axis = form == DEPTHWISE ? 0 : form == WINOGRAD ? 2 : 1;
    const int64_t block = w->dim[w->ndim - 1];
    bool fits = block >= 1 && w->dim[in_axis] == x->dim[1] && up(channels, block) == w->dim[form == WINOGRAD];
    if (form == BLOCKED || form == WINOGRAD)
        fits &= w->dim[w->ndim - 2] == block;
    if (form == WINOGRAD)
        fits &= w->dim[0] == 16;
    if (!fits || (form != PLAIN && x->dim[4] != block))
        return wrong_rank(infer, 1, "a weight for as many channels as data and result have");
    return MX_OK;
}

/* Size of the window on a spatial axis. */
static int64_t window_size(const mx_shape_t *x, const mx_shape_t *w, int axis)
{
    const int form = form_of(x, w);
    return form == WINOGRAD ? 3 : w->dim[(form == DEPTHWISE ? 1 : 2) + axis];
}

static mx_code infer_convolution(mx_infer *infer)
{
    const mx_blocked_convolution_attrs *a = infer->attrs;
    const mx_shape_t *x = &infer->in[0], *w = &infer->in[1];
    const mx_shape_t bias = {.ndim = 1, .dim = {a->channels}};
    if (!mx_shape_known(x) || !mx_shape_known(w))
        return MX_OK;
    if (check_weight(infer))
        return mx_error_code();
    const bool winograd = form_of(x, w) == WINOGRAD;
    mx_shape_t y = {.ndim = 5, .dim = {x->dim[0], w->dim[winograd], 0, 0, w->dim[w->ndim - 1]}};
    for (int i = 0; i < 2; i++) {
        const int64_t kernel = window_size(x, w, i);
        if (winograd && (at(&a->stride, i, 1) != 1 || at(&a->dilate, i, 1) != 1))
            return wrong_rank(infer, 1, "another form of weight where there are strides or dilation");
        const int64_t window = at(&a->dilate, i, 1) * (kernel - 1) + 1, padded = x->dim[2 + i] + 2 * at(&a->pad, i, 0);
        if (padded < window || window < 1)
            return wrong_rank(infer, 0, "a size that the window fits into");
        y.dim[2 + i] = (padded - window) / at(&a->stride, i, 1) + 1;
    }
    if (infer->n_in > 2 && infer->in[2].ndim >= 0 && mx_infer_in(infer, 2, &bias))
        return mx_error_code();
    if (infer->n_in > 3 && infer->in[3].ndim >= 0 && mx_infer_in(infer, 3, &y))
        return mx_error_code();
    return mx_infer_out(infer, 0, &y);
}

/* Every input that is present has the type of data. */
static mx_code infer_type(mx_infer *infer)
{
    for (int i = 1; i < infer->n_in; i++)
        if ((i < 2 || infer->in_type[i] != MX_DTYPE_NONE) && mx_infer_in_type(infer, i, infer->in_type[0]))
            return mx_error_code();
    return mx_infer_out_type(infer, 0, infer->in_type[0]);
}

/* The same for Winograd's weights: result (oy % 2, ox % 2) of a tile. */
static double one_winograd_sum(const mx_reference_call *call, int64_t n, int64_t o, int64_t oy, int64_t ox)
{
    const mx_blocked_convolution_attrs *a = call->attrs;
    const mx_shape_t *x = &call->in_shape[0], *u = &call->in_shape[1];
    const int64_t block = x->dim[4], y0 = oy / 2 * 2 - at(&a->pad, 0, 0), x0 = ox / 2 * 2 - at(&a->pad, 1, 0);
    double sum = 0;
    for (int64_t c = 0; c < x->dim[1] * block; c++)
        for (int k = 0; k < 16; k++) {
            double v = 0;
            for (int t = 0; t < 16; t++) {
                const int64_t iy = y0 + t / 4, ix = x0 + t % 4;
                if (iy >= 0 && iy < x->dim[2] && ix >= 0 && ix < x->dim[3])
                    v += B[k / 4][t / 4] * B[k % 4][t % 4] *
                         call->in[0][blocked_at(n, c, iy * x->dim[3] + ix, x->dim[1], x->dim[2] * x->dim[3], block)];
            }
            sum += A[oy % 2][k / 4] * A[ox % 2][k % 4] * v *
                   call->in[1][winograd_at(k, o, c, u->dim[1], u->dim[2], block)];
        }
    return sum;
}

/* One sum: channel o at pixel (oy, ox) of image n. */
static double one_sum(const mx_reference_call *call, int64_t n, int64_t o, int64_t oy, int64_t ox)
{
    const mx_blocked_convolution_attrs *a = call->attrs;
    const mx_shape_t *x = &call->in_shape[0], *w = &call->in_shape[1];
    const int form = form_of(x, w);
    const int64_t block = w->dim[w->ndim - 1], kh = window_size(x, w, 0), kw = window_size(x, w, 1);
    if (form == WINOGRAD)
        return one_winograd_sum(call, n, o, oy, ox);
    const int64_t channels = form == BLOCKED ? x->dim[1] * block : form == PLAIN ? x->dim[1] : 1;
    double sum = 0;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t k = 0; k < kh * kw; k++) {
            const int64_t iy = oy * at(&a->stride, 0, 1) - at(&a->pad, 0, 0) + k / kw * at(&a->dilate, 0, 1);
            const int64_t ix = ox * at(&a->stride, 1, 1) - at(&a->pad, 1, 0) + k % kw * at(&a->dilate, 1, 1);
            if (iy < 0 || iy >= x->dim[2] || ix < 0 || ix >= x->dim[3])
                continue;
            const int64_t from = blocked_at(n, form == DEPTHWISE ? o : c, iy * x->dim[3] + ix, x->dim[1],
                                            x->dim[2] * x->dim[3], form == PLAIN ? 1 : block);
            sum += call->in[0][from] * call->in[1][weight_at(form, o, c, k, channels, kh * kw, block)];
        }
    return sum;
}

static void reference_convolution(const mx_reference_call *call)
{
    const mx_blocked_convolution_attrs *a = call->attrs;
    const mx_shape_t *y = &call->out_shape[0];
    const int64_t block = y->dim[4], pixels = y->dim[2] * y->dim[3];
    for (int64_t i = 0; i < mx_shape_size(y); i++) {
        const int64_t p = i / block % pixels, plane = i / block / pixels, o = plane % y->dim[1] * block + i % block;
        double v = one_sum(call, plane / y->dim[1], o, p / y->dim[3], p % y->dim[3]);
        if (call->n_in > 2 && call->in[2] && o < a->channels)
            v += call->in[2][o];
        if (call->n_in > 3 && call->in[3])
            v += call->in[3][i];
        v = v < a->low ? a->low : v; /* None is NaN */
        call->out[0][i] = v > a->high ? a->high : v;
    }
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

enum { MAX, AVG, SUM };

static mx_code check_pooling(const void *attrs)
{
    const mx_blocked_pooling_attrs *a = attrs;
    if (check_dims("_blocked_pooling", "kernel", &a->kernel, 1, true) ||
        check_dims("_blocked_pooling", "size", &a->size, 1, true) ||
        check_dims("_blocked_pooling", "stride", &a->stride, 1, false) ||
        check_dims("_blocked_pooling", "pad", &a->pad, 0, false))
        return mx_error_code();
    for (int i = 0; i < a->pad.n; i++)
        if (a->pad.d[i] >= a->kernel.d[i])
            return mx_fail(MX_ERR_ATTRIBUTE, "_blocked_pooling: pad[%d]=%lld must be less than the kernel", i,
                           (long long)a->pad.d[i]);
    return MX_OK;
}

static mx_code infer_pooling(mx_infer *infer)
{
    const mx_blocked_pooling_attrs *a = infer->attrs;
    const mx_shape_t *x = &infer->in[0];
    if (!mx_shape_known(x))
        return MX_OK;
    if (x->ndim != 5)
        return wrong_rank(infer, 0, "(N, blocks, H, W, block)");
    for (int i = 0; i < 2; i++) /* every window begins inside the padded data */
        if (x->dim[2 + i] < 1 || (a->size.d[i] - 1) * at(&a->stride, i, 1) >= x->dim[2 + i] + 2 * at(&a->pad, i, 0))
            return wrong_rank(infer, 0, "a size that the windows fit into");
    const mx_shape_t y = {.ndim = 5, .dim = {x->dim[0], x->dim[1], a->size.d[0], a->size.d[1], x->dim[4]}};
    return mx_infer_out(infer, 0, &y);
}

/* One window, clipped to the data. */
static double one_window(const mx_blocked_pooling_attrs *a, const mx_shape_t *x, const double *plane, int64_t oy,
                         int64_t ox)
{
    const int64_t o[2] = {oy, ox};
    int64_t from[2], to[2], count = 1;
    double sum = 0, most = -INFINITY;
    for (int i = 0; i < 2; i++) {
        const int64_t pad = at(&a->pad, i, 0), size = x->dim[2 + i];
        from[i] = o[i] * at(&a->stride, i, 1) - pad, to[i] = from[i] + a->kernel.d[i];
        to[i] = to[i] < size + pad ? to[i] : size + pad;
        if (a->count_include_pad)
            count *= to[i] - from[i];
        from[i] = from[i] < 0 ? 0 : from[i], to[i] = to[i] < size ? to[i] : size;
        if (!a->count_include_pad)
            count *= to[i] - from[i];
    }
    for (int64_t h = from[0]; h < to[0]; h++)
        for (int64_t w = from[1]; w < to[1]; w++) {
            const double v = plane[(h * x->dim[3] + w) * x->dim[4]];
            sum += v, most = v > most ? v : most;
        }
    return a->pool_type == MAX ? most : a->pool_type == AVG ? sum / (double)count : sum;
}

static void reference_pooling(const mx_reference_call *call)
{
    const mx_shape_t *x = &call->in_shape[0], *y = &call->out_shape[0];
    const int64_t block = y->dim[4], pixels = y->dim[2] * y->dim[3];
    for (int64_t i = 0; i < mx_shape_size(y); i++) {
        const int64_t p = i / block % pixels, plane = i / block / pixels;
        call->out[0][i] = one_window(call->attrs, x, call->in[0] + plane * x->dim[2] * x->dim[3] * block + i % block,
                                     p / y->dim[3], p % y->dim[3]);
    }
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
#define FLAGS (MX_OP_HIDDEN | MX_OP_NO_GRADIENT)
#define F32 0, 0, "f32only"
mx_op mx_family_blocked[] = {
    {.name = "_to_blocked", .doc = "converts data (N, C, H, W) to blocked channels", .inputs = "data", .schema = &to_blocked_schema,
     .flags = FLAGS, .by_entry = 1, .infer_shape = infer_to, .reference = reference_to,
     .samples = SAMPLES({"2,5,3,4", "block=4", F32}, {"1,32,5,7", "block=16", F32}, {"2,19,4,5", "", F32}, {"2,11,3,5", "block=8", F32})},
    {.name = "_from_blocked", .doc = "converts data with blocked channels to (N, C, H, W)", .inputs = "data", .schema = &from_blocked_schema,
     .flags = FLAGS, .by_entry = 1, .infer_shape = infer_from, .reference = reference_from,
     .samples = SAMPLES({"2,2,3,4,4", "channels=5", F32}, {"1,2,5,7,16", "channels=32", F32}, {"2,2,4,5,16", "channels=19", F32},
                        {"2,2,3,5,8", "channels=11", F32})},
    {.name = "_block_weight", .doc = "packs the weight of a convolution for blocked channels", .inputs = "weight", .schema = &block_weight_schema,
     .flags = FLAGS, .infer_shape = infer_weight, .reference = reference_weight,
     .samples = SAMPLES({"6,5,3,2", "block=4", F32}, {"6,3,3,2", "block=4, form=plain", F32}, {"6,1,3,3", "block=4, form=depthwise", F32},
                        {"18,17,1,1", "", F32}, {"6,5,3,3", "block=4, form=winograd", F32})},
    {.name = "_blocked_convolution", .doc = "convolution over blocked channels, plus bias and another array, clipped to [low, high]",
     .inputs = "data weight bias? addend?", .schema = &blocked_convolution_schema, .flags = FLAGS, .by_entry = 1 | 1 << 3, .check = check_convolution,
     .infer_shape = infer_convolution, .infer_type = infer_type, .reference = reference_convolution,
     .samples = SAMPLES({"2,2,5,6,4;2,2,3,3,4,4;7;2,2,5,6,4", "channels=7, pad=(1, 1), low=0", F32},
                        {"1,2,7,7,16;3,2,3,3,16,16;48;1,3,7,7,16", "channels=48, pad=(1, 1), low=0", F32},
                        {"2,1,9,17,16;1,1,3,3,16,16;9", "channels=9, pad=(1, 1), stride=(2, 2), low=0, high=6", 0, 0, "f32only absent:3"},
                        {"3,2,5,5,16;2,2,1,1,16,16", "channels=32", 0, 0, "f32only absent:2 absent:3"},
                        {"1,1,9,9,16;1,1,3,3,16,16;16", "channels=16, dilate=(2, 2), pad=(2, 1)", 0, 0, "f32only absent:3"},
                        {"2,1,8,7,16;2,1,1,1,16,16;32", "channels=32, stride=(3, 2)", 0, 0, "f32only absent:3"},
                        {"1,3,11,15;2,3,5,5,16;20", "channels=20, stride=(2, 2), pad=(2, 2)", 0, 0, "f32only absent:3"},
                        {"1,3,11,15;1,3,5,5,16;16", "channels=16, stride=(4, 4), pad=(2, 2)", 0, 0, "f32only absent:3"},
                        {"1,2,9,12,16;2,3,3,16;20;1,2,9,12,16", "channels=20, pad=(1, 1), low=0", F32},
                        {"2,1,9,12,16;1,3,3,16;16", "channels=16, pad=(1, 1), stride=(2, 2)", 0, 0, "f32only absent:3"},
                        {"2,1,9,12,8;1,5,4,8;8", "channels=8, pad=(2, 1), dilate=(1, 2)", 0, 0, "f32only absent:3"},
                        {"2,2,6,7,8;3,2,3,3,8,8;20;2,3,6,7,8", "channels=20, pad=(1, 1), low=0", F32},
                        {"2,2,9,12,16;16,3,2,16,16;40;2,3,9,12,16", "channels=40, pad=(1, 1), low=0", F32},
                        {"1,3,7,7,8;16,2,3,8,8;16", "channels=16, pad=(1, 0)", 0, 0, "f32only absent:3"},
                        {"1,2,5,4,4;16,1,2,4,4", "channels=4", 0, 0, "f32only absent:2 absent:3"},
                        {"2,2,6,7,8;3,2,1,1,8,8;24", "channels=24", 0, 0, "f32only absent:3"})},
    {.name = "_blocked_pooling", .doc = "pooling over blocked channels", .inputs = "data", .schema = &blocked_pooling_schema,
     .flags = FLAGS, .by_entry = 1, .check = check_pooling, .infer_shape = infer_pooling, .reference = reference_pooling,
     .samples = SAMPLES({"2,2,6,7,4", "kernel=(2, 2), stride=(2, 2), size=(3, 3)", F32},
                        {"1,2,7,7,16", "kernel=(3, 3), stride=(2, 2), pad=(1, 1), size=(4, 4)", F32},
                        {"1,2,7,7,16", "kernel=(3, 3), pad=(1, 1), size=(7, 7), pool_type=avg, count_include_pad=False", F32},
                        {"2,1,5,5,8", "kernel=(5, 5), size=(1, 1), pool_type=avg", F32})},
    {0},
};
