/* Quantization to 8-bit integers and back on the CPU, and calibration of the threshold.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/threads.h"
#include "cpu/kernels/linalg/doubles.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"
#include "op/formula/quantize.h"

#define TILE 1024

typedef struct quantize_job {
    const mx_array *in;
    mx_array *out;
    float scale;               /* of the input */
    float low, factor;         /* uint8: (x - low) * factor; int8: x * factor */
    bool bytes;                /* uint8 */
    float least[64], most[64]; /* of each part: the range of the input */
} quantize_job;

static void load(const quantize_job *job, int64_t at, int64_t n, float *tile)
{
    const int64_t item = mx_dtype_size((mx_dtype)job->in->dtype);
    mx_convert(tile, MX_FLOAT32, (const char *)mx_data(job->in) + at * item, (mx_dtype)job->in->dtype, n);
    for (int64_t i = 0; i < n; i++)
        tile[i] *= job->scale;
}

static void quantize_part(void *arg, int64_t begin, int64_t end)
{
    const quantize_job *job = arg;
    const float low = job->low, factor = job->factor;
    float tile[TILE];
    for (int64_t at = begin; at < end; at += TILE) {
        const int64_t n = end - at < TILE ? end - at : TILE;
        load(job, at, n, tile);
        if (job->bytes) {
            uint8_t *out = (uint8_t *)mx_data(job->out) + at;
            for (int64_t i = 0; i < n; i++)
                out[i] = mx_quantize_byte(tile[i], low, factor);
        } else {
            int8_t *out = (int8_t *)mx_data(job->out) + at;
            for (int64_t i = 0; i < n; i++)
                out[i] = mx_quantize_signed(tile[i], factor);
        }
    }
}

static void range_part(void *arg, int part, int parts)
{
    quantize_job *job = arg;
    float tile[TILE], least = INFINITY, most = -INFINITY;
    const int64_t begin = job->in->size * part / parts, end = job->in->size * (part + 1) / parts;
    for (int64_t at = begin; at < end; at += TILE) {
        const int64_t n = end - at < TILE ? end - at : TILE;
        load(job, at, n, tile);
        for (int64_t i = 0; i < n; i++)
            least = tile[i] < least ? tile[i] : least, most = tile[i] > most ? tile[i] : most;
    }
    job->least[part] = least, job->most[part] = most;
}

static float number(const mx_array *x)
{
    float value;
    mx_convert(&value, MX_FLOAT32, mx_data(x), (mx_dtype)x->dtype, 1);
    return value;
}

/* Quantizes to the range [low, high] and writes the resulting range. */
static mx_code quantize_to(const mx_kernel_call *call, quantize_job *job, float low, float high)
{
    const mx_quantize_scale scale = mx_quantize_scale_of(low, high, job->bytes);
    job->low = scale.low, job->factor = scale.factor;
    mx_parallel(job->in->size, MX_GRAIN, quantize_part, job);
    *(float *)mx_data(call->out[1]) = scale.first;
    *(float *)mx_data(call->out[2]) = scale.last;
    return MX_OK;
}

static mx_code run_quantize(const mx_kernel_call *call)
{
    quantize_job job = {.in = call->in[0], .out = call->out[0], .scale = 1, .bytes = call->out[0]->dtype == MX_UINT8};
    return mx_dtype_is_float(call->in[0]->dtype) ? quantize_to(call, &job, number(call->in[1]), number(call->in[2]))
                                                 : MX_DECLINED;
}

static mx_code quantize_calibrated(const mx_kernel_call *call, float scale, bool sums)
{
    const mx_quantize_calibrated_attrs *p = call->attrs;
    quantize_job job = {
        .in = call->in[0], .out = call->out[0], .scale = scale, .bytes = call->out[0]->dtype == MX_UINT8};
    float low = (float)p->min_calib_range, high = (float)p->max_calib_range;
    if (!(low == low && high == high)) {
        const int wanted = (int)(job.in->size / MX_GRAIN + 1 < 64 ? job.in->size / MX_GRAIN + 1 : 64),
                  parts = wanted < mx_num_threads() ? wanted : mx_num_threads();
        mx_parallel_parts(parts, range_part, &job);
        low = job.least[0], high = job.most[0];
        for (int i = 1; i < parts; i++)
            low = job.least[i] < low ? job.least[i] : low, high = job.most[i] > high ? job.most[i] : high;
        if (low > high) /* there are no numbers */
            low = high = 0;
    }
    return quantize_to(call, &job, job.bytes && sums && low < 0 ? 0 : low, high);
}
static mx_code run_requantize(const mx_kernel_call *call)
{
    return quantize_calibrated(call, mx_quantize_sum_step(number(call->in[1]), number(call->in[2])), true);
}
static mx_code run_quantize_v2(const mx_kernel_call *call)
{
    return mx_dtype_is_float(call->in[0]->dtype) ? quantize_calibrated(call, 1, false) : MX_DECLINED;
}

static void dequantize_part(void *arg, int64_t begin, int64_t end)
{
    const quantize_job *job = arg;
    const int64_t item = mx_dtype_size((mx_dtype)job->in->dtype);
    float *out = (float *)mx_data(job->out);
    mx_convert(out + begin, MX_FLOAT32, (const char *)mx_data(job->in) + begin * item, (mx_dtype)job->in->dtype,
               end - begin);
    for (int64_t i = begin; i < end; i++)
        out[i] = out[i] * job->factor + job->low;
}

static mx_code run_dequantize(const mx_kernel_call *call)
{
    const mx_dequantize_scale scale =
        mx_dequantize_scale_of(number(call->in[1]), number(call->in[2]), call->in[0]->dtype == MX_UINT8);
    quantize_job job = {.in = call->in[0], .out = call->out[0], .low = scale.low, .factor = scale.factor};
    mx_parallel(job.in->size, MX_GRAIN, dequantize_part, &job);
    return MX_OK;
}

/* ---- calibrate_entropy: every thread takes some candidates ---------------------------------------------------- */

typedef struct calibrate_job {
    const double *hist, *before; /* (bins); before[i]: the sum of hist[0 .. i) */
    double *divergence;          /* per candidate */
    double *scratch;             /* (parts, 2, bins) */
    int64_t bins, quantized_bins, count;
} calibrate_job;

static bool smooth(double *p, int64_t n)
{
    double empty = 0, sum = 0;
    for (int64_t i = 0; i < n; i++)
        empty += p[i] == 0;
    const double less = mx_calibrate_excess(empty, n);
    for (int64_t i = 0; i < n; i++)
        sum += p[i] = mx_calibrate_smooth(p[i], less);
    for (int64_t i = 0; i < n; i++)
        p[i] /= sum;
    return less < 1;
}

static void candidate(const calibrate_job *job, int64_t which, double *p, double *q, double *result)
{
    const mx_calibrate_bins b = mx_calibrate_bins_of(which, job->bins, job->quantized_bins);
    const int64_t n = b.n;
    memcpy(p, job->hist + b.begin, (size_t)n * sizeof *p);
    /* what lies outside is the first's and the last's; the image does not count the first bin */
    p[0] += job->before[b.begin], p[n - 1] += job->before[job->bins] - job->before[b.end];
    for (int64_t j = 0; j < job->quantized_bins; j++) {
        int64_t from, to;
        double used = 0;
        mx_calibrate_part(&b, j, &from, &to);
        for (int64_t k = from ? from : 1; k < to; k++)
            used += job->hist[b.begin + k] != 0;
        const double mean = mx_calibrate_mean(&b, job->before, from, to, used);
        for (int64_t k = from; k < to; k++)
            q[k] = p[k] != 0 ? mean : 0;
    }
    *result = INFINITY;
    if (!smooth(p, n) || !smooth(q, n))
        return;
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += mx_calibrate_term(p[k], q[k]);
    *result = sum;
}

static void candidates(void *arg, int part, int parts)
{
    const calibrate_job *job = arg;
    double *p = job->scratch + 2 * part * job->bins;
    for (int64_t c = part; c < job->count; c += parts)
        candidate(job, c, p, p + job->bins, &job->divergence[c]);
}

static mx_code calibrate(const mx_doubles *d)
{
    const int64_t bins = d->call->in[0]->size,
                  quantized_bins = ((const mx_calibrate_entropy_attrs *)d->call->attrs)->num_quantized_bins,
                  count = bins / 2 - quantized_bins / 2 + 1;
    const int parts = count * bins < MX_GRAIN ? 1 : mx_num_threads();
    const size_t bytes = (size_t)(bins + 1 + count + 2 * parts * bins) * sizeof(double);
    double *before = mx_alloc(bytes);
    if (!before)
        return mx_error_code();
    calibrate_job job = {d->in[0], before, before + bins + 1, before + bins + 1 + count, bins, quantized_bins, count};
    before[0] = 0;
    for (int64_t i = 0; i < bins; i++)
        before[i + 1] = before[i] + d->in[0][i];
    mx_parallel_parts(parts, candidates, &job);
    d->out[1][0] = INFINITY, d->out[0][0] = d->in[1][bins];
    for (int64_t c = 0; c < count; c++)
        if (job.divergence[c] < d->out[1][0]) {
            d->out[1][0] = job.divergence[c];
            d->out[0][0] = d->in[1][mx_calibrate_bins_of(c, bins, quantized_bins).end];
        }
    mx_free(before, bytes);
    return MX_OK;
}
static mx_code run_calibrate(const mx_kernel_call *call) { return mx_run_doubles(call, 0, calibrate); }

MX_CPU_KERNELS(quantize) = {{"_contrib_quantize", run_quantize, NULL},
                            {"_contrib_dequantize", run_dequantize, NULL},
                            {"_contrib_requantize", run_requantize, NULL},
                            {"_contrib_quantize_v2", run_quantize_v2, NULL},
                            {"_contrib_calibrate_entropy", run_calibrate, NULL},
                            {NULL, NULL, NULL}};
