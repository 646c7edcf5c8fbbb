/* Histograms: bins of equal width, or between given edges.  SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/op.h"

#define HISTOGRAM_ATTRS(X) \
    X(INT, bin_cnt, "None", "1..1000000000", "number of bins of equal width; None: the input bins holds the edges") \
    X(FLOATS, range, "None", "", "lower end of the first bin and upper end of the last; None: those of the data")
MX_ATTRS(histogram, HISTOGRAM_ATTRS)

static mx_code infer_histogram(mx_infer *infer)
{
    const mx_histogram_attrs *attrs = infer->attrs;
    const bool given = attrs->bin_cnt != MX_NONE_INT;
    if (given && attrs->range.n >= 0 && (attrs->range.n != 2 || !(attrs->range.d[0] <= attrs->range.d[1])))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "range must be two numbers in ascending order");
    if (!given && infer->n_in > 1 && infer->in[1].ndim < 0)
        return MX_OK;
    if (!given && (infer->n_in < 2 || infer->in[1].ndim != 1 || infer->in[1].dim[0] == 1 || infer->in[1].dim[0] == 0))
        return mx_op_fail(infer->op, MX_ERR_SHAPE,
                          "bins must be a vector of at least two edges when bin_cnt is not given");
    const int64_t edges = given ? attrs->bin_cnt + 1 : infer->in[1].dim[0];
    mx_shape_t counts = {1, {edges < 0 ? -1 : edges - 1}}, bins = {1, {edges}};
    return mx_infer_out(infer, 0, &counts) ? mx_error_code() : mx_infer_out(infer, 1, &bins);
}

static mx_code infer_histogram_type(mx_infer *infer)
{
    if (infer->n_in > 1 && mx_infer_in_type(infer, 1, infer->in_type[0]))
        return mx_error_code();
    return mx_infer_out_type(infer, 0, MX_INT64) ? mx_error_code() : mx_infer_out_type(infer, 1, infer->in_type[0]);
}

static int count_histogram(const void *attrs)
{
    return ((const mx_histogram_attrs *)attrs)->bin_cnt == MX_NONE_INT ? 2 : 1;
}

static void ref_histogram(const mx_reference_call *call)
{
    const mx_histogram_attrs *attrs = call->attrs;
    const int64_t bins = call->out_shape[0].dim[0], n = mx_shape_size(&call->in_shape[0]);
    double low = 0, high = 1;
    for (int64_t i = 0; i < n; i++) {
        low = i && low < call->in[0][i] ? low : call->in[0][i];
        high = i && high > call->in[0][i] ? high : call->in[0][i];
    }
    if (attrs->range.n == 2)
        low = attrs->range.d[0], high = attrs->range.d[1];
    if (low == high)
        low -= 0.5, high += 0.5;
    for (int64_t i = 0; i <= bins; i++)
        call->out[1][i] =
            attrs->bin_cnt == MX_NONE_INT ? call->in[1][i] : low + (high - low) * (double)i / (double)bins;
    for (int64_t b = 0; b < bins; b++) {
        call->out[0][b] = 0;
        for (int64_t i = 0; i < n; i++) {
            const double x = call->in[0][i];
            call->out[0][b] +=
                x >= call->out[1][b] && (x < call->out[1][b + 1] || (b == bins - 1 && x == call->out[1][bins]));
        }
    }
}

// clang-format off
mx_op mx_family_histogram[] = {
    {.name = "_histogram", .aliases = "_npi_histogram",
     .doc = "number of elements in each bin, and the edges of the bins", .inputs = "data bins?",
     .outputs_numbered = true, .outputs = "counts edges",
     .schema = &histogram_schema, .n_out = 2, .flags = MX_OP_NO_GRADIENT, .count_in = count_histogram,
     .infer_shape = infer_histogram, .infer_type = infer_histogram_type,
     .reference = ref_histogram,
     .samples = (const mx_sample[]){{"4,5", "bin_cnt=4, range=(-2, 2)", 0, 0, "nograd f32only"},
         {"9", "bin_cnt=3, range=(-1, 1)", 0, 0, "nograd f32only"}, {0}}},
    {0},
};
// clang-format on
