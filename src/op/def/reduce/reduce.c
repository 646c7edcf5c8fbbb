/* Reductions over axes: sum, mean, prod, max, min, norm and others.
 *
 * Gradients put the folded axes back as ones and broadcast: with y = fold(x), g the incoming gradient,
 *     sum   dx = g            mean  dx = g / count       max, min  dx = g where x == y
 *     prod  dx = g y / x      norm  dx = g sign(x) or g x / y
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/emit.h"
#include "op/formula/reduce.h"

#include "base/error.h"

#define REDUCE_ATTRS(X) \
    X(DIMS, axis, "None", "", "axes to reduce; None: all of them") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1") \
    X(BOOL, exclude, "False", "", "reduce all axes except those given")
MX_ATTRS(reduce, REDUCE_ATTRS)

#define NORM_ATTRS(X) \
    X(INT, ord, "2", "1..2", "1: sum of absolute values, 2: square root of the sum of squares") \
    X(DIMS, axis, "None", "", "axes to reduce; None: all of them") \
    X(DTYPE, out_dtype, "None", "", "element type of the result; None: that of data") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1")
MX_ATTRS(norm, NORM_ATTRS)

#define SUM_TO_ATTRS(X) X(DIMS, shape, REQUIRED, "", "shape of the result, which broadcasts to the shape of data")
MX_ATTRS(sum_to, SUM_TO_ATTRS)

/* ---- inference ------------------------------------------------------------------------------------------------- */

static mx_code infer_folded(mx_infer *infer, const mx_dims *axis, bool exclude, bool keepdims)
{
    if (infer->in[0].ndim < 0)
        return MX_OK;
    const int mask = mx_fold_axes(infer->op, axis, exclude, infer->in[0].ndim);
    if (mask < 0)
        return mx_error_code();
    const mx_shape_t out = mx_fold_shape(&infer->in[0], mask, keepdims);
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_reduce(mx_infer *infer)
{
    const mx_reduce_attrs *attrs = infer->attrs;
    return infer_folded(infer, &attrs->axis, attrs->exclude, attrs->keepdims);
}

static mx_code infer_norm(mx_infer *infer)
{
    const mx_norm_attrs *attrs = infer->attrs;
    return infer_folded(infer, &attrs->axis, false, attrs->keepdims);
}

static mx_code infer_norm_type(mx_infer *infer)
{
    const mx_norm_attrs *attrs = infer->attrs;
    if (attrs->out_dtype != MX_DTYPE_NONE)
        return mx_infer_out_type(infer, 0, attrs->out_dtype);
    return mx_infer_same_type(infer);
}

static mx_code infer_sum_to(mx_infer *infer)
{
    const mx_sum_to_attrs *attrs = infer->attrs;
    mx_shape_t target = mx_shape_of_dims(&attrs->shape), together;
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    if (target.ndim < 0)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "shape must have 0 to %d axes", MX_MAX_NDIM);
    if (!mx_shape_known(&infer->in[0]))
        return MX_OK;
    if (!mx_shape_broadcast(&target, &infer->in[0], &together) || !mx_shape_equal(&together, &infer->in[0]))
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "shape %s does not broadcast to data's %s",
                          mx_shape_text(&target, a), mx_shape_text(&infer->in[0], b));
    return mx_infer_out(infer, 0, &target);
}

/* ---- gradients ------------------------------------------------------------------------------------------------- */

/* What a gradient needs: the reduced axes, the shape with ones for them, how many elements were reduced. */
typedef struct folding {
    const mx_shape_t *in;
    mx_shape_t ones; /* broadcasts against the input */
    double count;
} folding;

static bool folding_of(const mx_grad *grad, const mx_dims *axis, bool exclude, folding *f)
{
    const int mask = mx_fold_axes(grad->op, axis, exclude, grad->in_shape[0].ndim);
    f->in = &grad->in_shape[0];
    f->count = 1;
    if (mask < 0)
        return false;
    f->ones = mx_fold_shape(f->in, mask, true);
    for (int i = 0; i < f->in->ndim; i++)
        f->count *= mask >> i & 1 ? (double)f->in->dim[i] : 1;
    return true;
}

static mx_array *back(const folding *f, mx_array *y) { return mx_g_reshape(y, &f->ones); }

static mx_code grad_sum(mx_grad *grad)
{
    const mx_reduce_attrs *attrs = grad->attrs;
    folding f;
    if (!folding_of(grad, &attrs->axis, attrs->exclude, &f))
        return mx_error_code();
    return mx_give(grad, 0, mx_g_broadcast_to(back(&f, grad->ograd[0]), f.in));
}

static mx_code grad_mean(mx_grad *grad)
{
    const mx_reduce_attrs *attrs = grad->attrs;
    folding f;
    if (!folding_of(grad, &attrs->axis, attrs->exclude, &f))
        return mx_error_code();
    return mx_give(grad, 0, mx_g_broadcast_to(back(&f, mx_g_scale(grad->ograd[0], 1 / f.count)), f.in));
}

/* 0 for numbers and 1 for NaN, and the other way round. */
static mx_array *is_number(mx_array *x) { return mx_g2("broadcast_equal", x, x); }
static mx_array *without_nan(mx_array *x, double instead)
{
    mx_array *filler = mx_g_shift(mx_g1("zeros_like", x), instead);
    return mx_g3("where", is_number(x), x, filler);
}

static mx_code grad_nansum(mx_grad *grad)
{
    const mx_reduce_attrs *attrs = grad->attrs;
    folding f;
    if (!folding_of(grad, &attrs->axis, attrs->exclude, &f))
        return mx_error_code();
    return mx_give(grad, 0, mx_g_mul(back(&f, grad->ograd[0]), is_number(grad->in[0])));
}

/* dx = g y / x; a single zero makes this 0 / 0, so zeros are replaced by ones where the quotient is formed, and the
 * product without the zero is formed for them.  z: where x is zero; count of zeros per result:
 *     no zero     dx = g y / x
 *     one zero    dx = g p z, p the product of the other elements
 *     more        dx = 0 */
static mx_array *prod_slope(const mx_grad *grad, const folding *f, mx_array *x)
{
    const mx_reduce_attrs *attrs = grad->attrs;
    mx_array *zero = mx_g1("logical_not", x), *filled = mx_g_add(x, zero);
    mx_array *product = back(f, mx_g_call(MX_OP("prod"), attrs, 1, &filled));
    mx_array *zeros = back(f, mx_g_call(MX_OP("sum"), attrs, 1, &zero));
    mx_array *one_zero = mx_g2("broadcast_equal", zeros, mx_g1("ones_like", zeros));
    mx_array *factor = mx_g_add(mx_g1("logical_not", zeros), mx_g_mul(one_zero, zero));
    return mx_g_mul(factor, mx_g_div(product, filled));
}

static mx_code grad_prod(mx_grad *grad)
{
    const mx_reduce_attrs *attrs = grad->attrs;
    folding f;
    if (!folding_of(grad, &attrs->axis, attrs->exclude, &f))
        return mx_error_code();
    return mx_give(grad, 0, mx_g_mul(back(&f, grad->ograd[0]), prod_slope(grad, &f, grad->in[0])));
}

static mx_code grad_nanprod(mx_grad *grad)
{
    const mx_reduce_attrs *attrs = grad->attrs;
    mx_array *x = grad->in[0];
    folding f;
    if (!folding_of(grad, &attrs->axis, attrs->exclude, &f))
        return mx_error_code();
    mx_array *slope = mx_g_mul(prod_slope(grad, &f, without_nan(x, 1)), is_number(x));
    return mx_give(grad, 0, mx_g_mul(back(&f, grad->ograd[0]), slope));
}

static mx_code grad_extreme(mx_grad *grad)
{
    const mx_reduce_attrs *attrs = grad->attrs;
    folding f;
    if (!folding_of(grad, &attrs->axis, attrs->exclude, &f))
        return mx_error_code();
    mx_array *here = mx_g2("broadcast_equal", grad->in[0], back(&f, grad->out[0]));
    return mx_give(grad, 0, mx_g_mul(here, back(&f, grad->ograd[0])));
}

static mx_code grad_squares(mx_grad *grad)
{
    const mx_reduce_attrs *attrs = grad->attrs;
    folding f;
    if (!folding_of(grad, &attrs->axis, attrs->exclude, &f))
        return mx_error_code();
    return mx_give(grad, 0, mx_g_mul(grad->in[0], back(&f, mx_g_scale(grad->ograd[0], 2))));
}

static mx_array *cast_to(mx_array *x, int dtype)
{
    return !x || x->dtype == dtype ? x : mx_g_call(MX_OP("Cast"), &(mx_dtype){(mx_dtype)dtype}, 1, &x);
}

/* At y = 0 all x are 0: the divisor becomes 1 and the gradient 0. */
static mx_code grad_norm(mx_grad *grad)
{
    const mx_norm_attrs *attrs = grad->attrs;
    mx_array *x = grad->in[0], *g = cast_to(grad->ograd[0], grad->in_type[0]),
             *y = cast_to(grad->out[0], grad->in_type[0]);
    folding f;
    if (!folding_of(grad, &attrs->axis, false, &f))
        return mx_error_code();
    if (attrs->ord == 1)
        return mx_give(grad, 0, mx_g_mul(mx_g1("sign", x), back(&f, g)));
    return mx_give(grad, 0, mx_g_mul(x, back(&f, mx_g_div(g, mx_g_add(y, mx_g1("logical_not", y))))));
}

static mx_code grad_sum_to(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_broadcast_to(grad->ograd[0], &grad->in_shape[0]));
}

/* ---- references ------------------------------------------------------------------------------------------------ */

/* Index of the result to which element `index` of the input belongs. */
static int64_t result_of(const mx_shape_t *in, int mask, int64_t index)
{
    int64_t result = 0, step = 1;
    for (int axis = in->ndim - 1; axis >= 0; index /= in->dim[axis], axis--) {
        if (mask >> axis & 1)
            continue;
        result += index % in->dim[axis] * step;
        step *= in->dim[axis];
    }
    return result;
}

static double join(mx_fold fold, double t, double v)
{
    switch (fold) {
    case MX_FOLD_SUM:
    case MX_FOLD_MEAN: return t + v;
    case MX_FOLD_PROD: return t * v;
    case MX_FOLD_NANSUM: return isnan(v) ? t : t + v;
    case MX_FOLD_NANPROD: return isnan(v) ? t : t * v;
    case MX_FOLD_MAX: return v > t || isnan(v) ? v : t;
    case MX_FOLD_MIN: return v < t || isnan(v) ? v : t;
    case MX_FOLD_NORM1: return t + fabs(v);
    default: return t + v * v;
    }
}

static double start(mx_fold fold)
{
    return fold == MX_FOLD_PROD || fold == MX_FOLD_NANPROD ? 1
           : fold == MX_FOLD_MAX                           ? -INFINITY
           : fold == MX_FOLD_MIN                           ? INFINITY
                                                           : 0;
}

static void reference(const mx_reference_call *call, mx_fold fold, int mask)
{
    const int64_t size = mx_shape_size(&call->in_shape[0]), results = mx_shape_size(&call->out_shape[0]);
    double *out = call->out[0];
    for (int64_t i = 0; i < results; i++)
        out[i] = start(fold);
    for (int64_t i = 0; i < size; i++) {
        double *t = &out[result_of(&call->in_shape[0], mask, i)];
        *t = join(fold, *t, call->in[0][i]);
    }
    for (int64_t i = 0; i < results; i++)
        out[i] = fold == MX_FOLD_MEAN    ? out[i] / (double)(size / results)
                 : fold == MX_FOLD_NORM2 ? sqrt(out[i])
                                         : out[i];
}

#define REFERENCE(name, fold)                                                                                        \
    static void ref_##name(const mx_reference_call *call)                                                            \
    {                                                                                                                \
        const mx_reduce_attrs *attrs = call->attrs;                                                                  \
        reference(call, fold, mx_fold_axes(NULL, &attrs->axis, attrs->exclude, call->in_shape[0].ndim));             \
    }
REFERENCE(sum, MX_FOLD_SUM)
REFERENCE(mean, MX_FOLD_MEAN)
REFERENCE(prod, MX_FOLD_PROD)
REFERENCE(nansum, MX_FOLD_NANSUM)
REFERENCE(nanprod, MX_FOLD_NANPROD)
REFERENCE(max, MX_FOLD_MAX)
REFERENCE(min, MX_FOLD_MIN)
REFERENCE(squares, MX_FOLD_SQUARES)

static void ref_norm(const mx_reference_call *call)
{
    const mx_norm_attrs *attrs = call->attrs;
    const int mask = mx_fold_axes(NULL, &attrs->axis, false, call->in_shape[0].ndim);
    reference(call, attrs->ord == 1 ? MX_FOLD_NORM1 : MX_FOLD_NORM2, mask);
}

static void ref_sum_to(const mx_reference_call *call)
{
    reference(call, MX_FOLD_SUM, mx_broadcast_axes(&call->in_shape[0], &call->out_shape[0]));
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_fold_of(const mx_emit_call *n, int kind, int mask)
{
    int64_t dim[2][MX_MAX_NDIM], step[2][MX_MAX_NDIM], count[2] = {1, 1}, stride = mx_shape_size(n->x);
    int axes[2] = {0, 0};
    if (mask < 0)
        return mx_error_code();
    for (int i = 0; i < n->x->ndim; i++) {
        const int to = mask >> i & 1;
        stride = n->x->dim[i] ? stride / n->x->dim[i] : 0;
        dim[to][axes[to]] = n->x->dim[i];
        step[to][axes[to]++] = stride;
        count[to] *= n->x->dim[i];
    }
    mx_emit_open(n, "fold", 1);
    mx_emit_print(n, "%d", kind);
    for (int to = 0; to < 2; to++) {
        mx_emit_print(n, ", %lld, %d, ", (long long)count[to], axes[to]);
        mx_emit_longs(&n->file->body, axes[to], dim[to]);
        mx_emit_print(n, ", ");
        mx_emit_longs(&n->file->body, axes[to], step[to]);
    }
    return mx_emit_close(n);
}

/* Numbers of the folds in the kernel: the norms are 5 (ord 1) and 6. */
static mx_code emit_fold(const mx_emit_call *n)
{
    static const int kinds[] = {MX_FOLD_SUM, MX_FOLD_MEAN, MX_FOLD_PROD, MX_FOLD_MAX, MX_FOLD_MIN};
    const mx_reduce_attrs *attrs = n->attrs;
    int kind = 0;
    while (kind < 4 && kinds[kind] != *(const int *)n->op->user)
        kind++;
    return emit_fold_of(n, kind, mx_fold_axes(n->op, &attrs->axis, attrs->exclude, n->x->ndim));
}

static mx_code emit_norm(const mx_emit_call *n)
{
    const mx_norm_attrs *attrs = n->attrs;
    return emit_fold_of(n, attrs->ord == 1 ? 5 : 6, mx_fold_axes(n->op, &attrs->axis, false, n->x->ndim));
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

#define COMMON_SAMPLES(low, high, note) \
    {"2,3", "", low, high, note}, {"2,3", "axis=1", low, high, note}, \
    {"2,3", "axis=0, keepdims=True", low, high, note}, {"2,3,4", "axis=(0, 2)", low, high, note}, \
    {"2,3,4", "axis=-2, exclude=True", low, high, note}, {"3,5,2", "axis=1", low, high, note}, \
    {"2,1,3", "axis=1", low, high, note}, {"3,70", "axis=-1", low, high, note}, {"80,3", "axis=0", low, high, note}, \
    {"2,3", "axis=(), keepdims=True", low, high, note}, {"()", "", low, high, note}
#define SAMPLES(low, high, note) (const mx_sample[]){COMMON_SAMPLES(low, high, note), {0}}
#define SUM_SAMPLES \
    (const mx_sample[]){COMMON_SAMPLES(0, 0, NULL), {"2,0,3", "axis=1", 0, 0, NULL}, {"0,3", "axis=1", 0, 0, NULL}, {0}}
/* Products stay near one, so that they fit into small types. */
#define PROD_SAMPLES \
    (const mx_sample[]){{"2,3", "", 0.5, 1.5, NULL}, {"2,3", "axis=1", -2, 2, NULL}, \
                        {"2,3,4", "axis=(0, 2), keepdims=True", 0.7, 1.3, NULL}, {"3,20", "axis=1", 0.9, 1.1, NULL}, \
                        {"20,3", "axis=0", 0.9, 1.1, NULL}, {"2,0,3", "axis=1", 0, 0, NULL}, {0}}

#define FOLD(x) .user = &(const int){MX_FOLD_##x}
#define ROW(name_, aliases_, doc_, x) \
    .name = name_, .aliases = aliases_, .doc = doc_, .inputs = "data", .schema = &reduce_schema, \
    .infer_shape = infer_reduce, FOLD(x)

mx_op mx_family_reduce[] = {
    {ROW("sum", "_sparse_sum sum_axis", "sum over axes; without axis over all elements", SUM), MX_EMIT(emit_fold), .methods = "sum",
     .sparse = MX_SPARSE_FOLD,
     .precision = MX_PRECISION_FLOAT32, .gradient = grad_sum,
     .samples = SUM_SAMPLES,
     .reference = ref_sum},
    {ROW("mean", "_sparse_mean", "arithmetic mean over axes; without axis over all elements", MEAN), MX_EMIT(emit_fold), .methods = "mean",
     .sparse = MX_SPARSE_FOLD,
     .precision = MX_PRECISION_FLOAT32,
     .gradient = grad_mean,
     .samples = SAMPLES(0, 0, NULL), .reference = ref_mean},
    {ROW("prod", NULL, "product over axes", PROD), MX_EMIT(emit_fold), .methods = "prod",
     .precision = MX_PRECISION_FLOAT32,
     .gradient = grad_prod,
     .grad_in = 1, .samples = PROD_SAMPLES,
     .reference = ref_prod},
    {ROW("nansum", NULL, "sum over axes, treating NaN as 0", NANSUM), .methods = "nansum",
     .precision = MX_PRECISION_FLOAT32,
     .gradient = grad_nansum, .grad_in = 1,
     .samples = SUM_SAMPLES, .reference = ref_nansum},
    {ROW("nanprod", NULL, "product over axes, treating NaN as 1", NANPROD), .methods = "nanprod",
     .precision = MX_PRECISION_FLOAT32,
     .gradient = grad_nanprod, .grad_in = 1,
     .samples = PROD_SAMPLES, .reference = ref_nanprod},
    {ROW("max", "max_axis", "maximum over axes; NaN if there is a NaN", MAX), MX_EMIT(emit_fold),
     .methods = "max",
     .gradient = grad_extreme,
     .grad_in = 1, .grad_out = 1, .samples = SAMPLES(0, 0, "distinct"), .reference = ref_max},
    {ROW("min", "min_axis", "minimum over axes; NaN if there is a NaN", MIN), MX_EMIT(emit_fold),
     .methods = "min",
     .gradient = grad_extreme,
     .grad_in = 1, .grad_out = 1, .samples = SAMPLES(0, 0, "distinct"), .reference = ref_min},
    {ROW("_square_sum", NULL, "sum of squares over axes", SQUARES), .gradient = grad_squares, .grad_in = 1,
     .samples = SUM_SAMPLES, .reference = ref_squares},
    {.name = "norm", MX_EMIT(emit_norm), .methods = "norm", .sparse = MX_SPARSE_FOLD,
     .precision = MX_PRECISION_FLOAT32,
     .aliases = "_sparse_norm",
     .doc = "L1 or L2 norm over axes; the sum of magnitudes, or the root of the sum of squares",
     .inputs = "data", .schema = &norm_schema,
     .infer_shape = infer_norm,
     .infer_type = infer_norm_type, .gradient = grad_norm, .grad_in = 1, .grad_out = 1, .reference = ref_norm,
     .samples = (const mx_sample[]){{"2,3", "", 0.2, 2, NULL}, {"2,3", "ord=1", 0.2, 2, NULL},
                                    {"2,3,4", "axis=(0, 2), keepdims=True", 0.2, 2, NULL},
                                    {"3,70", "axis=-1", 0.2, 2, NULL}, {"70,3", "ord=1, axis=0", 0.2, 2, NULL},
                                    {"4", "out_dtype=float64", 0.2, 2, NULL}, {0}}},
    {.name = "_sum_to", .doc = "undoes broadcasting: sums data down to a shape that broadcasts to it",
     .inputs = "data", .schema = &sum_to_schema,
     .flags = MX_OP_HIDDEN, .infer_shape = infer_sum_to, .gradient = grad_sum_to, .reference = ref_sum_to,
     .samples = (const mx_sample[]){{"2,3", "shape=(3,)", 0, 0, NULL}, {"2,3", "shape=(2, 1)", 0, 0, NULL},
                                    {"2,3,4", "shape=(3, 1)", 0, 0, NULL},
                                    {"2,3", "shape=()", 0, 0, NULL}, {"2,3", "shape=(2, 3)", 0, 0, NULL},
                                    {"3,2,4", "shape=(1, 2, 1)", 0, 0, NULL},
                                    {"200,7", "shape=(7,)", 0, 0, NULL}, {0}}},
    {0},
};
