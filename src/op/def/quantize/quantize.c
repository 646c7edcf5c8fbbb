/* Quantization to 8-bit integers and back, and calibration of the range.
 *
 * A range [min, max] accompanies the numbers.  With R = max(|min|, |max|):
 *     int8   q = sign(x) * min(floor(|x| * 127 / R + 1/2), 127), and the range becomes [-R, R]
 *     uint8  q = floor((x - min) * 255 / (max - min) + 1/2), clipped to 0..255; all 0 if max <= min
 * int32 numbers (sums of products) represent q * R / (2^31 - 1).
 *
 * calibrate_entropy looks for the threshold: for every i the histogram's 2 i + 1 middle bins, with the outer counts
 * added to the first and the last, are compared with their image in num_quantized_bins bins; the least
 * Kullback-Leibler divergence wins.  The image does not include the first bin, as in MXNet.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "op/op.h"

#define QUANTIZE_ATTRS(X) X(ENUM, out_type, "uint8", "int8|uint8", "type of the result")
MX_ATTRS(quantize, QUANTIZE_ATTRS)
#define DEQUANTIZE_ATTRS(X) X(ENUM, out_type, "float32", "float32", "type of the result")
MX_ATTRS(dequantize, DEQUANTIZE_ATTRS)
#define CALIBRATED_ATTRS(X) \
    X(ENUM, out_type, "int8", "auto|int8|uint8", "type of the result; auto: uint8 if the range has no negative numbers") \
    X(FLOAT, min_calib_range, "None", "", "given range; None: the range of the data") \
    X(FLOAT, max_calib_range, "None", "", "given range; None: the range of the data")
MX_ATTRS(quantize_calibrated, CALIBRATED_ATTRS)
#define CALIBRATE_ATTRS(X) X(INT, num_quantized_bins, "255", "1..1000000", "bins of the quantized histogram")
MX_ATTRS(calibrate_entropy, CALIBRATE_ATTRS)
enum { AUTO = 0, INT8 = 1, UINT8 = 2 }; /* of the calibrated ones */

static mx_code infer_ranges(mx_infer *infer)
{
    const mx_shape_t one = {.ndim = 1, .dim = {1}};
    for (int i = 1; i < infer->n_in; i++) {
        char text[MX_SHAPE_TEXT];
        if (mx_shape_known(&infer->in[i]) && mx_shape_size(&infer->in[i]) != 1)
            return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted one number",
                              i == 1 ? "min_range" : "max_range", mx_shape_text(&infer->in[i], text));
        if (infer->in[i].ndim < 0 && mx_infer_in(infer, i, &one))
            return mx_error_code();
    }
    for (int i = 1; i < infer->n_out; i++)
        if (mx_infer_out(infer, i, &one))
            return mx_error_code();
    return mx_infer_out(infer, 0, &infer->in[0]) ? mx_error_code() : mx_infer_in(infer, 0, &infer->out[0]);
}

static mx_code types(mx_infer *infer, int first)
{
    for (int i = 1; i < infer->n_out; i++)
        if (mx_infer_out_type(infer, i, MX_FLOAT32))
            return mx_error_code();
    return mx_infer_out_type(infer, 0, first);
}
static mx_code infer_quantize_type(mx_infer *infer)
{
    return types(infer, ((const mx_quantize_attrs *)infer->attrs)->out_type == 0 ? MX_INT8 : MX_UINT8);
}
static mx_code infer_dequantize_type(mx_infer *infer) { return types(infer, MX_FLOAT32); }
static bool to_bytes(const mx_quantize_calibrated_attrs *p)
{
    return p->out_type == UINT8 || (p->out_type == AUTO && p->min_calib_range >= 0);
}
static mx_code infer_calibrated_type(mx_infer *infer)
{
    return types(infer, to_bytes(infer->attrs) ? MX_UINT8 : MX_INT8);
}

/* ---- reference ------------------------------------------------------------------------------------------------ */

static double largest(double low, double high) { return fmax(fabs(low), fabs(high)); }

static double quantized(double x, double low, double high, bool bytes)
{
    if (bytes && !(high > low))
        return 0;
    if (bytes)
        return fmin(fmax(floor((x - low) * 255 / (high - low) + 0.5), 0), 255);
    return copysign(fmin(floor(fabs(x) * 127 / largest(low, high) + 0.5), 127), x);
}

static void put(const mx_reference_call *call, double scale, double low, double high, bool bytes)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = quantized(call->in[0][i] * scale, low, high, bytes);
    call->out[1][0] = bytes ? low : -largest(low, high);
    call->out[2][0] = bytes ? high : largest(low, high);
}

static void ref_quantize(const mx_reference_call *call)
{
    put(call, 1, call->in[1][0], call->in[2][0], ((const mx_quantize_attrs *)call->attrs)->out_type == 1);
}

/* The range of the attributes, or that of the numbers times `scale`. */
static void ref_calibrated(const mx_reference_call *call, double scale)
{
    const mx_quantize_calibrated_attrs *p = call->attrs;
    double low = p->min_calib_range, high = p->max_calib_range;
    const bool given = low == low && high == high;
    for (int64_t i = 0; !given && i < mx_shape_size(&call->in_shape[0]); i++) {
        low = i ? fmin(low, call->in[0][i] * scale) : call->in[0][i] * scale;
        high = i ? fmax(high, call->in[0][i] * scale) : call->in[0][i] * scale;
    }
    put(call, scale, to_bytes(p) && scale != 1 ? fmax(low, 0) : low, high, to_bytes(p));
}
static void ref_requantize(const mx_reference_call *call)
{
    ref_calibrated(call, largest(call->in[1][0], call->in[2][0]) / 2147483647.0);
}
static void ref_quantize_v2(const mx_reference_call *call) { ref_calibrated(call, 1); }

/* The tests draw numbers as floats, which are taken as int8. */
static void ref_dequantize(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = call->in[0][i] * largest(call->in[1][0], call->in[2][0]) / 127;
}

/* ---- calibrate_entropy ---------------------------------------------------------------------------------------- */

static mx_code infer_calibrate(mx_infer *infer)
{
    const mx_shape_t *hist = &infer->in[0], one = {.ndim = 1, .dim = {1}};
    char text[MX_SHAPE_TEXT];
    if (hist->ndim >= 0 && hist->ndim != 1)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "hist has shape %s, wanted one axis", mx_shape_text(hist, text));
    if (mx_shape_known(hist)) {
        const mx_shape_t edges = {.ndim = 1, .dim = {hist->dim[0] + 1}};
        if (hist->dim[0] < ((const mx_calibrate_entropy_attrs *)infer->attrs)->num_quantized_bins)
            return mx_op_fail(infer->op, MX_ERR_SHAPE, "hist has shape %s, wanted at least num_quantized_bins bins",
                              mx_shape_text(hist, text));
        if (mx_infer_in(infer, 1, &edges))
            return mx_error_code();
    }
    return mx_infer_out(infer, 0, &one) ? mx_error_code() : mx_infer_out(infer, 1, &one);
}

/* Moves a little from non-empty bins to empty ones; false if there is not enough. */
static bool smooth(double *p, int64_t n)
{
    double empty = 0, sum = 0;
    for (int64_t i = 0; i < n; i++)
        empty += p[i] == 0;
    const double less = 1e-4 * empty / ((double)n - empty);
    if (!(less < 1))
        return false;
    for (int64_t i = 0; i < n; i++)
        sum += p[i] += p[i] == 0 ? 1e-4 : -less;
    for (int64_t i = 0; i < n; i++)
        p[i] /= sum;
    return true;
}

/* Divergence of the bins [begin, end) from their image; p, q: scratch. */
static double divergence(const double *hist, int64_t bins, int64_t begin, int64_t end, int64_t quantized_bins,
                         double *p, double *q)
{
    const int64_t n = end - begin, each = n / quantized_bins;
    double sum = 0;
    memcpy(p, hist + begin, (size_t)n * sizeof *p);
    for (int64_t i = 0; i < bins; i++)
        if (i < begin || i >= end)
            p[i < begin ? 0 : n - 1] += hist[i];
    for (int64_t j = 0; j < quantized_bins; j++) {
        const int64_t from = j * each, to = j + 1 < quantized_bins ? from + each : n;
        double count = 0, used = 0;
        for (int64_t i = from; i < to; i++)
            count += i ? hist[begin + i] : 0, used += i && hist[begin + i] != 0;
        for (int64_t i = from; i < to; i++)
            q[i] = p[i] != 0 && used > 0 ? count / used : 0;
    }
    if (!smooth(p, n) || !smooth(q, n))
        return INFINITY;
    for (int64_t i = 0; i < n; i++)
        sum += p[i] > 0 ? p[i] * log(p[i] / q[i]) : 0;
    return sum;
}

static void ref_calibrate(const mx_reference_call *call)
{
    const int64_t bins = call->in_shape[0].dim[0],
                  quantized_bins = ((const mx_calibrate_entropy_attrs *)call->attrs)->num_quantized_bins;
    const size_t bytes = (size_t)(2 * bins) * sizeof(double);
    double *scratch = mx_alloc(bytes);
    call->out[1][0] = INFINITY, call->out[0][0] = call->in[1][bins];
    for (int64_t i = quantized_bins / 2; scratch && i <= bins / 2; i++) {
        const int64_t begin = bins / 2 - i > 0 ? bins / 2 - i : 0,
                      end = bins / 2 + i + 1 < bins ? bins / 2 + i + 1 : bins;
        const double d = divergence(call->in[0], bins, begin, end, quantized_bins, scratch, scratch + bins);
        if (d < call->out[1][0])
            call->out[1][0] = d, call->out[0][0] = call->in[1][end];
    }
    mx_free(scratch, bytes);
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
#define CONSTANT .flags = MX_OP_ZERO_GRADIENT
mx_op mx_family_quantize[] = {
    {.name = "_contrib_quantize", .c_name = "quantize", .inputs = "data min_range max_range", .outputs_numbered = true, .outputs = "output min_output max_output", .n_out = 3,
     .doc = "quantizes numbers of a range to 8-bit integers", .schema = &quantize_schema, CONSTANT, .infer_shape = infer_ranges, .infer_type = infer_quantize_type,
     .reference = ref_quantize,
     .samples = SAMPLES({"3,4;1;1", "out_type=int8", 0.5, 2, "f32only nograd"}, {"7;1;1", "out_type=uint8", 0.5, 2, "f32only nograd"},
                        {"3,5;1;1", "", 0.5, 2, "f32only nograd"}, {"4,2;1;1", "", 0.5, 2, "f32only nograd"}, {"9;1;1", "", -1, 2, "f32only nograd"})},
    {.name = "_contrib_dequantize", .c_name = "dequantize", .inputs = "data min_range max_range",
     .doc = "converts 8-bit integers of a range back to numbers; arrays that are not uint8 are taken as int8", .schema = &dequantize_schema, CONSTANT,
     .infer_shape = infer_ranges, .infer_type = infer_dequantize_type, .reference = ref_dequantize,
     .samples = SAMPLES({"3,4;1;1", "", 1, 100, "int:0 f32only nograd"})},
    {.name = "_contrib_requantize", .c_name = "requantize", .inputs = "data min_range max_range", .outputs_numbered = true, .outputs = "output min_output max_output", .n_out = 3,
     .doc = "converts 32-bit integers of a range to 8-bit integers", .schema = &quantize_calibrated_schema, CONSTANT, .infer_shape = infer_ranges,
     .infer_type = infer_calibrated_type, .reference = ref_requantize,
     .samples = SAMPLES({"3,4;1;1", "", 1, 1000000, "int:0 f32only nograd"}, {"3,4;1;1", "min_calib_range=-300, max_calib_range=400.0", 1, 1000000, "int:0 f32only nograd"})},
    {.name = "_contrib_quantize_v2", .input_named = true, .c_name = "quantize_v2", .inputs = "data", .outputs_numbered = true, .outputs = "output min_output max_output", .n_out = 3,
     .doc = "quantizes numbers to 8-bit integers; their range is given or computed", .schema = &quantize_calibrated_schema, CONSTANT, .infer_shape = infer_ranges,
     .infer_type = infer_calibrated_type, .reference = ref_quantize_v2,
     .samples = SAMPLES({"3,4", "", 0, 0, "f32only nograd"}, {"3,4", "out_type=auto, min_calib_range=0.0, max_calib_range=1.5", 0, 0, "f32only nograd"},
                        {"3,4", "out_type=uint8", 0, 0, "f32only nograd"})},
    {.name = "_contrib_calibrate_entropy", .c_name = "calibrate_entropy", .inputs = "hist hist_edges", .outputs_numbered = true, .outputs = "threshold divergence", .n_out = 2,
     .doc = "the threshold that minimises the divergence of the quantized from the original histogram", .schema = &calibrate_entropy_schema, CONSTANT,
     .infer_shape = infer_calibrate, .reference = ref_calibrate,
     .samples = SAMPLES({"41;42", "num_quantized_bins=7", 0, 30, "int:0 f32only nograd"}, {"101;102", "num_quantized_bins=15", 0, 9, "int:0 f32only nograd"})},
    {0},
};
