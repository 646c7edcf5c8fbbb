/* Conversion to 8-bit integers and back (op/formula/quantize.h), and the histogram's threshold.  Ranges stay on the
 * device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/numbers.h"
extern "C" {
#include "op/formula/quantize.h"
}

#define PARTS 256 /* partial ranges */

static __device__ float number(const void *x, int type) { return mx_cuda_load<float>(x, type, 0); }

/* What is read: elements times a scale that is 1 or follows from the range of sums. */
struct source {
    const void *data, *low, *high; /* low, high NULL: the scale is 1 */
    int type, low_type, high_type;
    __device__ float scale() const
    {
        return low ? mx_quantize_sum_step(number(low, low_type), number(high, high_type)) : 1;
    }
    __device__ float at(int64_t i, float scale) const { return mx_cuda_load<float>(data, type, i) * scale; }
};

struct range {
    float low, high;
};

static source source_of(const mx_kernel_call *call, bool sums)
{
    const mx_array *x = call->in[0];
    if (!sums)
        return {mx_data(x), nullptr, nullptr, x->dtype, 0, 0};
    return {mx_data(x), mx_data(call->in[1]), mx_data(call->in[2]), x->dtype, call->in[1]->dtype, call->in[2]->dtype};
}

/* The numbers to the range that find() gives, and the range that follows in outputs 1 and 2. */
template <class F> static mx_code quantize_to(const mx_kernel_call *call, const source &s, F find)
{
    const bool bytes = call->out[0]->dtype == MX_UINT8;
    void *to = mx_data(call->out[0]);
    const int64_t n = call->in[0]->size;
    float *first = (float *)mx_data(call->out[1]), *last = (float *)mx_data(call->out[2]);
    return mx_cuda_each(call, n ? n : 1, [=] __device__(int64_t i) {
        const range r = find();
        const mx_quantize_scale q = mx_quantize_scale_of(r.low, r.high, bytes);
        if (!i)
            *first = q.first, *last = q.last;
        if (i >= n)
            return;
        const float x = s.at(i, s.scale());
        if (bytes)
            ((uint8_t *)to)[i] = mx_quantize_byte(x, q.low, q.factor);
        else
            ((int8_t *)to)[i] = mx_quantize_signed(x, q.factor);
    });
}

static mx_code run_quantize(const mx_kernel_call *call)
{
    const void *low = mx_data(call->in[1]), *high = mx_data(call->in[2]);
    const int low_type = call->in[1]->dtype, high_type = call->in[2]->dtype;
    if (!mx_dtype_is_float(call->in[0]->dtype))
        return MX_DECLINED;
    return quantize_to(call, source_of(call, false), [=] __device__() {
        return range{number(low, low_type), number(high, high_type)};
    });
}

/* Least and largest number of all into *to; 0 if there are none. */
static mx_code find_range(const mx_kernel_call *call, const source &s, range *parts, range *to)
{
    const int64_t n = call->in[0]->size;
    const mx_code code = mx_cuda_rows(call, PARTS, n / PARTS, [=] __device__(int64_t part) {
        const float scale = s.scale();
        float low = INFINITY, high = -INFINITY;
        for (int64_t i = part * blockDim.x + threadIdx.x; i < n; i += (int64_t)PARTS * blockDim.x) {
            const float x = s.at(i, scale);
            low = x < low ? x : low, high = x > high ? x : high;
        }
        low = -mx_cuda_block_max(-low), high = mx_cuda_block_max(high);
        if (!threadIdx.x)
            parts[part] = {low, high};
    });
    if (code)
        return code;
    return mx_cuda_rows(call, 1, PARTS, [=] __device__(int64_t) {
        float low = INFINITY, high = -INFINITY;
        for (int i = threadIdx.x; i < PARTS; i += blockDim.x)
            low = fminf(low, parts[i].low), high = fmaxf(high, parts[i].high);
        low = -mx_cuda_block_max(-low), high = mx_cuda_block_max(high);
        if (!threadIdx.x)
            *to = low > high ? range{0, 0} : range{low, high};
    });
}

static mx_code quantize_calibrated(const mx_kernel_call *call, bool sums)
{
    const mx_quantize_calibrated_attrs *p = (const mx_quantize_calibrated_attrs *)call->attrs;
    const range given = {(float)p->min_calib_range, (float)p->max_calib_range};
    const bool known = given.low == given.low && given.high == given.high,
               positive = sums && call->out[0]->dtype == MX_UINT8; /* then the range begins at 0 */
    const source s = source_of(call, sums);
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    mx_cuda_scratch room(d, known ? 0 : (PARTS + 1) * sizeof(range));
    if (!known && !room.memory)
        return mx_error_code();
    range *found = room.as<range>();
    const mx_code code = known ? MX_OK : find_range(call, s, found + 1, found);
    return code ? code : quantize_to(call, s, [=] __device__() {
        range r = known ? given : *found;
        r.low = positive && r.low < 0 ? 0 : r.low;
        return r;
    });
}
static mx_code run_requantize(const mx_kernel_call *call) { return quantize_calibrated(call, true); }
static mx_code run_quantize_v2(const mx_kernel_call *call)
{
    return mx_dtype_is_float(call->in[0]->dtype) ? quantize_calibrated(call, false) : MX_DECLINED;
}

static mx_code run_dequantize(const mx_kernel_call *call)
{
    const void *from = mx_data(call->in[0]), *lows = mx_data(call->in[1]), *highs = mx_data(call->in[2]);
    const int type = call->in[0]->dtype, low_type = call->in[1]->dtype, high_type = call->in[2]->dtype;
    const bool bytes = type == MX_UINT8;
    float *to = (float *)mx_data(call->out[0]);
    return mx_cuda_each(call, call->in[0]->size, [=] __device__(int64_t i) {
        const mx_dequantize_scale scale =
            mx_dequantize_scale_of(number(lows, low_type), number(highs, high_type), bytes);
        to[i] = mx_cuda_load<float>(from, type, i) * scale.factor + scale.low;
    });
}

/* ---- calibrate_entropy: every block takes some candidates ------------------------------------------------------ */

struct histogram {
    mx_cuda_numbers count; /* (bins) */
    double *before;        /* (bins + 1): the sum of count[0 .. i) */
    double *divergence;    /* per candidate */
    double *scratch;       /* (blocks, 2, bins) */
    int64_t bins, quantized, candidates;
};

/* Smooths empty bins; false: the others hold too little. */
static __device__ bool smooth(double *p, int64_t n)
{
    double empty = 0, sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        empty += p[i] == 0;
    empty = mx_cuda_block_sum(empty);
    const double less = mx_calibrate_excess(empty, n);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        sum += p[i] = mx_calibrate_smooth(p[i], less);
    sum = mx_cuda_block_sum(sum);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        p[i] /= sum;
    return less < 1;
}

/* The divergence of the bins around the middle from their quantized histogram. */
static __device__ void candidate(const histogram &h, int64_t which, double *p, double *q)
{
    const mx_calibrate_bins b = mx_calibrate_bins_of(which, h.bins, h.quantized);
    const int64_t n = b.n;
    for (int64_t k = threadIdx.x; k < n; k += blockDim.x) /* values outside count for the first and the last bin */
        p[k] =
            h.count[b.begin + k] + (k ? 0 : h.before[b.begin]) + (k == n - 1 ? h.before[h.bins] - h.before[b.end] : 0);
    __syncthreads();
    for (int64_t j = threadIdx.x; j < h.quantized; j += blockDim.x) { /* its quantized form skips the first bin */
        int64_t from, to;
        double used = 0;
        mx_calibrate_part(&b, j, &from, &to);
        for (int64_t k = from ? from : 1; k < to; k++)
            used += h.count[b.begin + k] != 0;
        const double mean = mx_calibrate_mean(&b, h.before, from, to, used);
        for (int64_t k = from; k < to; k++)
            q[k] = p[k] != 0 ? mean : 0;
    }
    __syncthreads();
    const bool p_fine = smooth(p, n), q_fine = smooth(q, n);
    double sum = 0;
    for (int64_t k = threadIdx.x; k < n; k += blockDim.x)
        sum += mx_calibrate_term(p[k], q[k]);
    sum = mx_cuda_block_sum(sum);
    if (!threadIdx.x)
        h.divergence[which] = p_fine && q_fine ? sum : INFINITY;
}

/* The first candidate with the least divergence: its threshold is the upper edge of its bins. */
static mx_code choose(const mx_kernel_call *call, const histogram &h)
{
    const mx_cuda_numbers edges(call->in[1]);
    const mx_cuda_results threshold(call->out[0]), divergence(call->out[1]);
    return mx_cuda_each(call, 1, [=] __device__(int64_t) {
        double least = INFINITY;
        int64_t edge = h.bins;
        for (int64_t c = 0; c < h.candidates; c++)
            if (h.divergence[c] < least)
                least = h.divergence[c], edge = mx_calibrate_bins_of(c, h.bins, h.quantized).end;
        threshold.put(0, edges[edge]), divergence.put(0, least);
    });
}

static mx_code run_calibrate(const mx_kernel_call *call)
{
    const int64_t bins = call->in[0]->size,
                  quantized = ((const mx_calibrate_entropy_attrs *)call->attrs)->num_quantized_bins,
                  candidates = bins / 2 - quantized / 2 + 1;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!mx_dtype_is_float(call->in[0]->dtype))
        return MX_DECLINED;
    if (!d)
        return mx_error_code();
    const int64_t blocks = candidates < 4 * d->multiprocessors ? candidates : 4 * d->multiprocessors;
    mx_cuda_scratch room(d, (size_t)(bins + 1 + candidates + 2 * blocks * bins) * sizeof(double));
    if (!room.memory)
        return mx_error_code();
    double *before = room.as<double>();
    const histogram h = {mx_cuda_numbers(call->in[0]), before, before + bins + 1, before + bins + 1 + candidates,
                         bins, quantized, candidates};
    mx_code code = mx_cuda_each(call, 1, [=] __device__(int64_t) {
        h.before[0] = 0;
        for (int64_t i = 0; i < h.bins; i++)
            h.before[i + 1] = h.before[i] + h.count[i];
    });
    code = code ? code : mx_cuda_rows(call, blocks, bins, [=] __device__(int64_t block) {
        double *p = h.scratch + 2 * block * h.bins;
        for (int64_t c = block; c < h.candidates; c += blocks)
            candidate(h, c, p, p + h.bins);
    });
    return code ? code : choose(call, h);
}

MX_CUDA_KERNELS(quantize) = {{"_contrib_quantize", run_quantize, NULL},
                             {"_contrib_dequantize", run_dequantize, NULL},
                             {"_contrib_requantize", run_requantize, NULL},
                             {"_contrib_quantize_v2", run_quantize_v2, NULL},
                             {"_contrib_calibrate_entropy", run_calibrate, NULL},
                             {NULL, NULL, NULL}};
