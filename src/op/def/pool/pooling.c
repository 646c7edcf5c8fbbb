/* Pooling over 1 to 3 spatial axes: max, avg, sum, lp.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "op/emit.h"
#include "op/op.h"

#define POOLING_ATTRS(X) \
    X(DIMS, kernel, "()", "", "size of the window, per spatial axis; not needed with global_pool") \
    X(ENUM, pool_type, "max", "max|avg|sum|lp", "how the elements of a window are combined") \
    X(BOOL, global_pool, "False", "", "one window that covers the data") \
    X(BOOL, cudnn_off, "False", "", "accepted for compatibility") \
    X(ENUM, pooling_convention, "valid", "full|valid|same", "how the output size is rounded: valid: down, full: up, same: size / stride, up") \
    X(DIMS, stride, "()", "", "step of the window; (): 1") \
    X(DIMS, pad, "()", "", "padding on both sides; (): 0") \
    X(INT, p_value, "None", "1..3", "exponent of lp") \
    X(BOOL, count_include_pad, "True", "", "avg divides by the full window size, padding included") \
    X(ENUM, layout, "None", "NCW|NCHW|NCDHW|NWC|NHWC|NDHWC", "order of the axes; None: channels first")
MX_ATTRS(pooling, POOLING_ATTRS)

enum { MAX, AVG, SUM, LP };
enum { FULL, VALID, SAME };

static int64_t at(const mx_dims *dims, int i, int64_t fallback) { return dims->n > i ? dims->d[i] : fallback; }

static mx_code check(const void *attrs)
{
    const mx_pooling_attrs *a = attrs;
    const mx_dims *lists[] = {&a->kernel, &a->stride, &a->pad};
    static const char *const names[] = {"kernel", "stride", "pad"};
    if (!a->global_pool && (a->kernel.n < 1 || a->kernel.n > 3))
        return mx_fail(MX_ERR_ATTRIBUTE, "Pooling: kernel has %d numbers, wanted 1 to 3", a->kernel.n);
    for (int k = 0; k < 3 && !a->global_pool; k++) {
        if (lists[k]->n > 0 && lists[k]->n < a->kernel.n) /* old programs have surplus numbers, which are ignored */
            return mx_fail(MX_ERR_ATTRIBUTE, "Pooling: %s has %d numbers, kernel has %d", names[k], lists[k]->n,
                           a->kernel.n);
        for (int i = 0; i < lists[k]->n && i < a->kernel.n; i++)
            if (lists[k]->d[i] < (k < 2) || lists[k]->d[i] > INT32_MAX)
                return mx_fail(MX_ERR_ATTRIBUTE, "Pooling: %s[%d]=%lld is out of range", names[k], i,
                               (long long)lists[k]->d[i]);
    }
    for (int i = 0; i < a->pad.n && i < a->kernel.n && !a->global_pool; i++)
        if (a->pad.d[i] >= a->kernel.d[i])
            return mx_fail(MX_ERR_ATTRIBUTE, "Pooling: pad[%d]=%lld must be less than the kernel %lld", i,
                           (long long)a->pad.d[i], (long long)a->kernel.d[i]);
    if (a->pool_type == LP && a->p_value == MX_NONE_INT)
        return mx_fail(MX_ERR_ATTRIBUTE, "Pooling: pool_type=lp needs p_value");
    return MX_OK;
}

static int64_t output_size(const mx_pooling_attrs *a, int i, int64_t size)
{
    if (a->global_pool)
        return 1;
    const int64_t kernel = a->kernel.d[i], stride = at(&a->stride, i, 1), padded = size + 2 * at(&a->pad, i, 0);
    if (a->pooling_convention == SAME)
        return (size + 2 * at(&a->pad, i, 0) + stride - 1) / stride;
    if (padded < kernel)
        return -1;
    return a->pooling_convention == FULL ? (padded - kernel + stride - 1) / stride + 1 : (padded - kernel) / stride + 1;
}

static mx_code infer(mx_infer *infer)
{
    const mx_pooling_attrs *a = infer->attrs;
    const mx_shape_t *x = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (!mx_shape_known(x))
        return MX_OK;
    const int axes = a->global_pool ? x->ndim - 2 : a->kernel.n;
    if (x->ndim != axes + 2 || axes < 1 || axes > 3 || (a->layout >= 0 && a->layout % 3 + 1 != axes))
        return mx_op_fail(infer->op, MX_ERR_SHAPE,
                          "data has shape %s, wanted %d axes (batch, channels and the pooled ones)",
                          mx_shape_text(x, text), a->global_pool ? 4 : axes + 2);
    mx_shape_t out = *x;
    const int first = a->layout >= 3 ? 1 : 2;
    for (int i = 0; i < axes; i++) {
        out.dim[first + i] = output_size(a, i, x->dim[first + i]);
        if (out.dim[first + i] < 0 || x->dim[first + i] == 0)
            return mx_op_fail(infer->op, MX_ERR_SHAPE, "the window %lld does not fit into data %s with padding",
                              (long long)at(&a->kernel, i, 1), mx_shape_text(x, text));
    }
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_backward(mx_infer *backward) /* (ograd, data) -> gradient of data */
{
    mx_infer forward = {.op = backward->op,
                        .attrs = backward->attrs,
                        .n_in = 1,
                        .n_out = 1,
                        .in = &backward->in[1],
                        .out = &backward->in[0]};
    if (infer(&forward)) /* ograd must have the shape that pooling data gives */
        return mx_error_code();
    return mx_shape_known(&backward->in[1]) ? mx_infer_out(backward, 0, &backward->in[1]) : MX_OK;
}

/* The gradient is linear in ograd, and (except for lp) data only decides where it goes, so its gradients are
 *     avg, sum:  d/dograd = Pooling(gg)         max:  d/dograd = _pool_pick(gg, data), whose own gradient is max's again
 */
static mx_array *pool_back(const mx_pooling_attrs *a, mx_array *g, mx_array *data)
{
    return mx_g_call(MX_OP("_backward_Pooling"), a, 2, (mx_array *const[]){g, data});
}

/* lp as a composition: dx = x^(p - 1) times the sum's gradient of g / y^(p - 1); where y is 0 so is x */
static mx_array *lp_gradient(const mx_pooling_attrs *a, mx_array *g, mx_array *x)
{
    mx_pooling_attrs sum = *a;
    sum.pool_type = SUM;
    if (a->p_value == 1)
        return pool_back(&sum, g, x);
    mx_array *y = mx_g_call(MX_OP("Pooling"), a, 1, &x);
    mx_array *safe = mx_g_add(y, mx_g_text(MX_OP("_equal_scalar"), "scalar=0", 1, &y));
    return a->p_value == 2 ? mx_g_mul(pool_back(&sum, mx_g_div(g, safe), x), x)
                           : mx_g_mul(pool_back(&sum, mx_g_div(g, mx_g_mul(safe, safe)), x), mx_g_mul(x, x));
}

static mx_code gradient(mx_grad *grad)
{
    if (grad->create_graph && ((const mx_pooling_attrs *)grad->attrs)->pool_type == LP) {
        return mx_give(grad, 0, lp_gradient(grad->attrs, grad->ograd[0], grad->in[0]));
    }
    return mx_give(grad, 0, pool_back(grad->attrs, grad->ograd[0], grad->in[0]));
}

static mx_code gradient_of_backward(mx_grad *grad) /* (ograd, data) */
{
    const int type = ((const mx_pooling_attrs *)grad->attrs)->pool_type;
    if (type == LP)
        return mx_fail(MX_ERR_AUTOGRAD, "_backward_Pooling with pool_type=lp has no second-order gradient");
    if (grad->wanted[0])
        grad->igrad[0] = type == MAX ? mx_g_call(MX_OP("_pool_pick"), grad->attrs, 2,
                                                 (mx_array *const[]){grad->ograd[0], grad->in[1]})
                                     : mx_g_call(MX_OP("Pooling"), grad->attrs, 1, grad->ograd);
    return grad->wanted[0] && !grad->igrad[0] ? mx_error_code() : MX_OK;
}

/* _pool_pick(values, data): of every window, the value at the position where data is largest */
static mx_code check_max(const void *attrs)
{
    const mx_code code = check(attrs);
    if (code || ((const mx_pooling_attrs *)attrs)->pool_type == MAX)
        return code;
    return mx_fail(MX_ERR_ATTRIBUTE, "_pool_pick, _backward_pool_relu: pool_type must be max");
}

static mx_code infer_pick(mx_infer *pick)
{
    if (mx_shape_known(&pick->in[1]) && mx_infer_in(pick, 0, &pick->in[1]))
        return mx_error_code();
    if (mx_shape_known(&pick->in[0]) && mx_infer_in(pick, 1, &pick->in[0]))
        return mx_error_code();
    return infer(pick);
}

static mx_code gradient_of_pick(mx_grad *grad)
{
    if (grad->wanted[0])
        grad->igrad[0] = pool_back(grad->attrs, grad->ograd[0], grad->in[1]);
    return grad->wanted[0] && !grad->igrad[0] ? mx_error_code() : MX_OK;
}

/* ---- reference: windows one by one ------------------------------------------------------------------------------ */

typedef struct window { int64_t begin[3], end[3], count; } window; /* clipped to the data; count: what avg divides by */
typedef struct sizes { int64_t outer, channels, in[3], out[3], k[3], s[3], p[3]; bool last; } sizes;

static sizes sizes_of(const mx_pooling_attrs *a, const mx_shape_t *x, const mx_shape_t *y)
{
    const int axes = x->ndim - 2, lead = 3 - axes, first = a->layout >= 3 ? 1 : 2;
    sizes z = {.outer = x->dim[0], .channels = x->dim[a->layout >= 3 ? axes + 1 : 1], .in = {1, 1, 1}, .out = {1, 1, 1}, .k = {1, 1, 1},
               .s = {1, 1, 1}, .last = a->layout >= 3};
    for (int i = 0; i < axes; i++) {
        z.in[lead + i] = x->dim[first + i], z.out[lead + i] = y->dim[first + i];
        z.k[lead + i] = a->global_pool ? x->dim[first + i] : a->kernel.d[i];
        z.s[lead + i] = a->global_pool ? 1 : at(&a->stride, i, 1),
                   z.p[lead + i] = a->global_pool ? 0 : at(&a->pad, i, 0);
    }
    return z;
}

static window window_of(const mx_pooling_attrs *a, const sizes *z, const int64_t *o)
{
    window w = {.count = 1};
    int64_t inside = 1;
    for (int i = 0; i < 3; i++) {
        int64_t begin = o[i] * z->s[i] - z->p[i], end = begin + z->k[i];
        end = end < z->in[i] + z->p[i] ? end : z->in[i] + z->p[i];
        w.count *= end - begin;
        w.begin[i] = begin < 0 ? 0 : begin;
        w.end[i] = end < z->in[i] ? end : z->in[i];
        inside *= w.end[i] - w.begin[i];
    }
    if (!a->count_include_pad)
        w.count = inside;
    return w;
}

static int64_t offset(const sizes *z, int64_t n, int64_t c, int64_t i0, int64_t i1, int64_t i2, const int64_t *size)
{
    int64_t pixel = (i0 * size[1] + i1) * size[2] + i2, area = size[0] * size[1] * size[2];
    return z->last ? (n * area + pixel) * z->channels + c : (n * z->channels + c) * area + pixel;
}

static double pool(const mx_pooling_attrs *a, const sizes *z, const double *x, int64_t n, int64_t c, const window *w)
{
    double sum = 0, most = -INFINITY, p = a->pool_type == LP ? (double)a->p_value : 1;
    for (int64_t i = w->begin[0]; i < w->end[0]; i++)
        for (int64_t j = w->begin[1]; j < w->end[1]; j++)
            for (int64_t k = w->begin[2]; k < w->end[2]; k++) {
                double v = x[offset(z, n, c, i, j, k, z->in)];
                most = v > most ? v : most;
                sum += a->pool_type == LP ? pow(fabs(v), p) : v;
            }
    return a->pool_type == MAX   ? most
           : a->pool_type == AVG ? sum / (double)w->count
           : a->pool_type == LP  ? pow(sum, 1 / p)
                                 : sum;
}

static void reference(const mx_reference_call *call)
{
    const mx_pooling_attrs *a = call->attrs;
    sizes z = sizes_of(a, &call->in_shape[0], &call->out_shape[0]);
    const int64_t pixels = z.out[0] * z.out[1] * z.out[2];
    for (int64_t n = 0; n < z.outer; n++)
        for (int64_t c = 0; c < z.channels; c++)
            for (int64_t y = 0; y < pixels; y++) {
                int64_t o[3] = {y / z.out[2] / z.out[1], y / z.out[2] % z.out[1], y % z.out[2]};
                window w = window_of(a, &z, o);
                call->out[0][offset(&z, n, c, o[0], o[1], o[2], z.out)] = pool(a, &z, call->in[0], n, c, &w);
            }
}

/* d out / d x: max: 1 at the first largest; avg: 1 / count; sum: 1; lp: sign(x) (|x| / y)^(p-1); relu: 0 if y <= 0 */
static void spread(const mx_pooling_attrs *a, const sizes *z, const mx_reference_call *call, int64_t n, int64_t c,
                   const int64_t *o, bool relu)
{
    window w = window_of(a, z, o);
    const int64_t at_y = offset(z, n, c, o[0], o[1], o[2], z->out);
    const double y = pool(a, z, call->in[1], n, c, &w), g = relu && y <= 0 ? 0 : call->in[0][at_y];
    bool found = false;
    for (int64_t i = w.begin[0]; i < w.end[0]; i++)
        for (int64_t j = w.begin[1]; j < w.end[1]; j++)
            for (int64_t k = w.begin[2]; k < w.end[2]; k++) {
                const int64_t at_x = offset(z, n, c, i, j, k, z->in);
                const double x = call->in[1][at_x];
                double slope = a->pool_type == AVG ? 1 / (double)w.count : 1;
                if (a->pool_type == MAX)
                    slope = !found && x == y;
                if (a->pool_type == LP)
                    slope = y == 0 ? 0 : copysign(pow(fabs(x) / y, (double)a->p_value - 1), x);
                found |= x == y;
                call->out[0][at_x] += g * slope;
            }
}

static void spread_all(const mx_reference_call *call, bool relu)
{
    const mx_pooling_attrs *a = call->attrs;
    sizes z = sizes_of(a, &call->in_shape[1], &call->in_shape[0]);
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = 0;
    for (int64_t n = 0; n < z.outer; n++)
        for (int64_t c = 0; c < z.channels; c++)
            for (int64_t y = 0; y < z.out[0] * z.out[1] * z.out[2]; y++)
                spread(a, &z, call, n, c,
                       (const int64_t[]){y / z.out[2] / z.out[1], y / z.out[2] % z.out[1], y % z.out[2]}, relu);
}
static void reference_backward(const mx_reference_call *call) { spread_all(call, false); }
static void reference_backward_relu(const mx_reference_call *call) { spread_all(call, true); }

static double pick(const sizes *z, const mx_reference_call *call, int64_t n, int64_t c, const window *w)
{
    double most = -INFINITY, value = 0;
    for (int64_t i = w->begin[0]; i < w->end[0]; i++)
        for (int64_t j = w->begin[1]; j < w->end[1]; j++)
            for (int64_t k = w->begin[2]; k < w->end[2]; k++) {
                const int64_t at_x = offset(z, n, c, i, j, k, z->in);
                if (call->in[1][at_x] > most)
                    most = call->in[1][at_x], value = call->in[0][at_x];
            }
    return value;
}

static void reference_pick(const mx_reference_call *call)
{
    const mx_pooling_attrs *a = call->attrs;
    const sizes z = sizes_of(a, &call->in_shape[1], &call->out_shape[0]);
    const int64_t pixels = z.out[0] * z.out[1] * z.out[2];
    for (int64_t e = 0; e < z.outer * z.channels * pixels; e++) {
        const int64_t y = e % pixels, c = e / pixels % z.channels, n = e / pixels / z.channels;
        const int64_t o[3] = {y / z.out[2] / z.out[1], y / z.out[2] % z.out[1], y % z.out[2]};
        const window w = window_of(a, &z, o);
        call->out[0][offset(&z, n, c, o[0], o[1], o[2], z.out)] = pick(&z, call, n, c, &w);
    }
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_pooling(const mx_emit_call *n)
{
    const mx_pooling_attrs *attrs = n->attrs;
    mx_emit_windows all = {MX_NO_DIMS, MX_NO_DIMS, MX_NO_DIMS, MX_NO_DIMS};
    mx_emit_image image;
    if (mx_emit_take_image(n, attrs->layout, &image))
        return mx_error_code();
    if (!attrs->global_pool)
        all.kernel = attrs->kernel, all.stride = attrs->stride, all.pad = attrs->pad;
    mx_emit_open(n, "pooling", 1);
    mx_emit_print(n, "%lld, %lld, %d, %d", (long long)(n->x->dim[0] * (image.last ? 1 : image.channels)),
                  (long long)(image.last ? image.channels : 1), attrs->pool_type, attrs->count_include_pad);
    mx_emit_add(n, attrs->pool_type == LP ? (double)attrs->p_value : 1);
    return mx_emit_close_windows(n, &image, &all);
}

mx_op mx_family_pooling[] = {
    {.name = "Pooling", .input_named = true, MX_EMIT(emit_pooling), .shows = "pool_type, kernel/stride", .look = MX_LOOK_POOLING,
     .aliases = "_npx_pooling Pooling_v1", .doc = "maximum, mean, sum or Lp norm of every window",
     .inputs = "data",
     .schema = &pooling_schema, .check = check, .infer_shape = infer, .gradient = gradient, .grad_in = 1, .reference = reference,
     .samples = SAMPLES({"2,3,6,8", "kernel=(2, 2), stride=(2, 2)", 0, 0, "distinct floatonly"},
                        {"2,3,7,6", "kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type=avg", 0, 0, "floatonly"},
                        {"2,3,7,6", "kernel=(2, 2), stride=(2, 2, 9), pad=(1, 1, 7)", 0, 0, "distinct floatonly"},
                        {"2,3,7,6", "kernel=(3, 2), stride=(2, 2), pad=(1, 0), pool_type=avg, count_include_pad=False, pooling_convention=full", 0, 0, "floatonly"},
                        {"1,2,7,7", "kernel=(3, 3), stride=(2, 2), pooling_convention=full", 0, 0, "distinct floatonly"},
                        {"2,3,5,4", "global_pool=True, pool_type=avg", 0, 0, "floatonly"}, {"2,3,5,4", "global_pool=True", 0, 0, "distinct floatonly"},
                        {"2,3,9", "kernel=(3,), stride=(2,), pool_type=sum", 0, 0, "floatonly"},
                        {"1,2,4,5,4", "kernel=(2, 3, 2), pool_type=max", 0, 0, "distinct floatonly"},
                        {"1,2,4,4", "kernel=(2, 2), pool_type=lp, p_value=2", 0.2, 2, "floatonly"},
                        {"1,2,4,5", "kernel=(2, 2), pool_type=lp, p_value=3", 0.2, 2, "floatonly"},
                        {"2,6,5,3", "kernel=(2, 2), stride=(2, 1), layout=NHWC", 0, 0, "distinct floatonly"})},
    {.name = "_backward_Pooling", .doc = "gradient of Pooling", .inputs = "ograd data", .schema = &pooling_schema,
     .flags = MX_OP_HIDDEN, .check = check, .infer_shape = infer_backward, .gradient = gradient_of_backward, .grad_in = 2,
     .reference = reference_backward,
     .samples = SAMPLES({"2,3,3,4;2,3,7,9", "kernel=(3, 3), stride=(2, 2), pool_type=avg", 0, 0, "floatonly"},
                        {"2,3,3,4;2,3,6,8", "kernel=(2, 2), stride=(2, 2), pool_type=sum", 0, 0, "floatonly"},
                        {"2,2,3,3;2,2,5,6", "kernel=(3, 3), stride=(2, 2), pad=(1, 1)", 0, 0, "distinct floatonly"})},
    {.name = "_backward_pool_relu", .doc = "gradient of max pooling and relu in sequence, with respect to their input",
     .inputs = "ograd data", .schema = &pooling_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .check = check_max,
     .infer_shape = infer_backward, .reference = reference_backward_relu,
     .samples = SAMPLES({"2,3,3,4;2,3,6,8", "kernel=(2, 2), stride=(2, 2)", 0, 0, "distinct floatonly"},
                        {"2,2,2,3;2,2,5,6", "kernel=(2, 2), stride=(2, 2)", 0, 0, "distinct floatonly"},
                        {"2,3,4,8;2,6,8,8", "kernel=(2, 2), stride=(2, 2), layout=NHWC", 0, 0, "distinct floatonly"},
                        {"2,2,3,3;2,2,5,6", "kernel=(3, 3), stride=(2, 2), pad=(1, 1)", 0, 0, "distinct floatonly"})},
    {.name = "_pool_pick", .doc = "of every window, the value at the position where data is largest", .inputs = "values data",
     .schema = &pooling_schema, .flags = MX_OP_HIDDEN, .check = check_max, .infer_shape = infer_pick,
     .gradient = gradient_of_pick, .grad_in = 2, .reference = reference_pick,
     .samples = SAMPLES({"2,3,6,8;2,3,6,8", "kernel=(2, 2), stride=(2, 2)", 0, 0, "distinct floatonly"},
                        {"1,2,7,7;1,2,7,7", "kernel=(3, 3), stride=(2, 2), pad=(1, 1)", 0, 0, "distinct floatonly"},
                        {"2,5,4,6;2,5,4,6", "kernel=(2, 3), layout=NHWC", 0, 0, "distinct floatonly"},
                        {"2,3,9;2,3,9", "global_pool=True", 0, 0, "distinct floatonly"})},
    {0},
};
