/* NumPy's functions that count elements.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "op/def/np/axes.h"
#include "op/def/np/values.h"

#define BINCOUNT_ATTRS(X) X(INT, minlength, "0", "0..", "at least so many counts")
MX_ATTRS(np_bincount, BINCOUNT_ATTRS)
/* Weights, or ones, added at the places that the elements name. */
static mx_code bincount(const mx_expand *call)
{
    const int64_t least = ((const mx_np_bincount_attrs *)call->attrs)->minlength;
    mx_array *x = call->in[0], *weights = call->in[1];
    if (mx_want_values(call, x))
        return mx_error_code();
    if (x->ndim != 1 || (weights != MX_NONE && (weights->ndim != 1 || weights->size != x->size)))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "wanted a vector, and weights of the same size");
    if (mx_dtype_is_float((mx_dtype)x->dtype))
        return mx_op_fail(call->op, MX_ERR_DTYPE, "is not defined for %s, wanted integers",
                          mx_dtype_name((mx_dtype)x->dtype));
    const mx_range range = mx_range_of(x);
    if (mx_error_code())
        return mx_error_code();
    if (x->size && range.low < 0)
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "elements must not be negative");
    const int64_t needed = x->size ? (int64_t)range.high + 1 : 0, n = needed > least ? needed : least;
    mx_array *added = weights == MX_NONE ? mx_g1("ones_like", mx_expand_cast(x, MX_INT64))
                                         : mx_expand_cast(weights, mx_float_of((mx_dtype)weights->dtype));
    mx_array *places = mx_expand_cast(x, MX_INT64),
             *row = places ? mx_g_reshape(places, &(mx_shape_t){.ndim = 2, .dim = {1, x->size}}) : NULL;
    if (!n || !x->size) {
        char ctx[32];
        return mx_expand_give(call,
                              mx_expand_text(MX_OP("_zeros"), 0, NULL, "shape=(%lld,), dtype=%s, ctx=%s", (long long)n,
                                             added ? mx_dtype_name((mx_dtype)added->dtype) : "int64",
                                             mx_context_text(x->context, ctx)));
    }
    return mx_expand_give(
        call, row && added ? mx_expand2("_backward_gather_nd", added, row, "shape=(%lld,)", (long long)n) : NULL);
}

#define HISTOGRAM_ATTRS(X) \
    X(INT, bins, "10", "1..", "number of bins of equal width; with the input edges: ignored") \
    X(FLOATS, range, "None", "", "lower end of the first bin and upper end of the last; None: those of the data") \
    X(BOOL, normed, "None", "", "the same as density") \
    X(BOOL, density, "None", "", "counts divided by their sum and the width of the bin")
MX_ATTRS(np_histogram, HISTOGRAM_ATTRS)
static mx_code histogram(const mx_expand *call)
{
    const mx_np_histogram_attrs *attrs = call->attrs;
    mx_array *x = mx_expand_by_rules(call, call->in[0]), *edges = call->in[1], *out[2] = {NULL};
    if (!x)
        return mx_error_code();
    x = mx_expand_cast(x, MX_FLOAT64), edges = edges == MX_NONE ? NULL : mx_expand_cast(edges, MX_FLOAT64);
    if (attrs->range.n >= 0 && (attrs->range.n != 2 || !(attrs->range.d[0] <= attrs->range.d[1])))
        return mx_op_fail(call->op, MX_ERR_ATTRIBUTE, "range must be two numbers in ascending order");
    struct { int64_t bin_cnt; mx_floats range; } classic = {edges ? MX_NONE_INT : attrs->bins, attrs->range};
    if (!x || mx_invoke(MX_OP("_histogram"), &classic, edges ? 2 : 1, (mx_array *const[]){x, edges}, 2, out))
        return mx_error_code();
    call->out[0] = out[0], call->out[1] = mx_expand_cast(out[1], mx_float_of((mx_dtype)call->in[0]->dtype));
    if (attrs->density || attrs->normed) {
        const int64_t n = out[1]->shape[0];
        mx_array *counts = mx_expand_cast(out[0], MX_FLOAT64), *total = mx_g1("np.sum", counts);
        mx_array *width = mx_g_sub(mx_part(out[1], 0, 1, n), mx_part(out[1], 0, 0, n - 1));
        call->out[0] =
            mx_expand_cast(mx_g_div(counts, mx_g_mul(width, total)), mx_float_of((mx_dtype)call->in[0]->dtype));
    }
    return call->out[0] && call->out[1] ? MX_OK : mx_error_code();
}

#define CHECK_ATTRS(X) X(STR, msg, "Constraint violated!", "", "what the error says")
MX_ATTRS(npx_constraint_check, CHECK_ATTRS)
/* While tracing there are no elements to look at: a plan does not check. */
static mx_code constraint_check(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]), *all = x ? mx_g1("np.all", x) : NULL;
    if (all && mx_values_known(all) && mx_range_of(all).low == 0)
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "%s", ((const mx_npx_constraint_check_attrs *)call->attrs)->msg);
    return mx_expand_give(call, all);
}

// clang-format off
mx_op mx_family_np_count[] = {
    {.name = "np.bincount", .c_name = "np_bincount", .doc = "how often each number from 0 on occurs, or the sum of its weights", .inputs = "x weights?",
     .flags = MX_OP_EXPANDS, .schema = &np_bincount_schema, .user = &(mx_expansion){bincount, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
    {.name = "np.histogram", .c_name = "np_histogram", .doc = "how many elements are in each bin, and the edges of the bins", .inputs = "a edges?", .n_out = 2,
     .flags = MX_OP_EXPANDS, .schema = &np_histogram_schema, .user = &(mx_expansion){histogram, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
    {.name = "npx.constraint_check", .c_name = "npx_constraint_check", .doc = "an error unless all elements are true", .inputs = "x",
     .flags = MX_OP_EXPANDS, .schema = &npx_constraint_check_schema, .user = &(mx_expansion){constraint_check, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
    {0},
};
