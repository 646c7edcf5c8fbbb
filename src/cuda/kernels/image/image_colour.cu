/* Changes of colours (op/formula/image.h) with the same strengths as on the CPU.
 *
 * A change of colours runs step by step over all images at once; integers are rounded after every step.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/planes.h"
extern "C" {
#include "op/formula/image.h"
}

#define MOST_STEPS 4
#define PARTS 64 /* partial sums of an image's gray */

/* How the steps of an image are chosen. */
struct recipe {
    enum { FACTOR, JITTER, LIGHTING, RANDOM_LIGHTING } way;
    int count; /* steps */
    mx_rng rng;
    mx_colour_kind kind; /* FACTOR */
    double numbers[4]; /* FACTOR: least and largest; JITTER: the widths; LIGHTING: the strengths; else the deviation */
    __device__ void steps(int64_t n, mx_colour_step *to) const
    {
        to[0] = {kind, {numbers[0], numbers[1], numbers[2]}}; /* LIGHTING */
        if (way == FACTOR)
            to[0].alpha[0] = mx_colour_factor(rng, n, numbers[0], numbers[1]);
        else if (way == JITTER)
            mx_colour_jitter(rng, n, numbers, to);
        else if (way == RANDOM_LIGHTING)
            to[0] = mx_colour_lighting(rng, n, numbers[0]);
    }
};

namespace /* the name is also used elsewhere */
{
struct images {
    int type;
    mx_image_size size;
    int64_t pixels; /* of one image */
    bool whole;
    double low, high;     /* range of integers */
    mx_colour_step *step; /* (images, MOST_STEPS) */
    double *gray;         /* (images, PARTS) */
};
} // namespace

static mx_code find_steps(const mx_kernel_call *call, const recipe &r, const images &m)
{
    return mx_cuda_each(call, m.size.images, [=] __device__(int64_t n) { r.steps(n, m.step + n * MOST_STEPS); });
}

/* Sums of gray, PARTS of every image whose step k changes the contrast; then their mean in the first one. */
static mx_code mean_gray(const mx_kernel_call *call, const images &m, const void *from, int k)
{
    const mx_code code = mx_cuda_rows(call, m.size.images * PARTS, m.pixels / PARTS, [=] __device__(int64_t row) {
        const int64_t n = row / PARTS, part = row % PARTS;
        if (m.step[n * MOST_STEPS + k].kind != MX_CONTRAST)
            return;
        double sum = 0, pixel[3];
        for (int64_t p = part * blockDim.x + threadIdx.x; p < m.pixels; p += (int64_t)PARTS * blockDim.x) {
            for (int64_t c = 0; c < m.size.channels && c < 3; c++)
                pixel[c] = mx_cuda_load<double>(from, m.type, (n * m.pixels + p) * m.size.channels + c);
            sum += mx_gray(pixel, m.size.channels);
        }
        sum = mx_cuda_block_sum(sum);
        if (!threadIdx.x)
            m.gray[row] = sum;
    });
    if (code)
        return code;
    return mx_cuda_each(call, m.size.images, [=] __device__(int64_t n) {
        double sum = 0;
        for (int i = 0; i < PARTS; i++)
            sum += m.gray[n * PARTS + i];
        m.gray[n * PARTS] = sum / (double)m.pixels;
    });
}

static __device__ void change(const mx_colour_step &s, double mean, int64_t channels, double *v)
{
    const double a = s.alpha[0];
    const bool colours = channels == 3;
    double rotated[3];
    if (s.kind == MX_HUE && colours)
        mx_turn_hue(a, v, rotated);
    const double other = s.kind == MX_CONTRAST ? mean : s.kind == MX_SATURATION ? mx_gray(v, channels) : 0;
    for (int64_t c = 0; c < channels; c++)
        if (s.kind == MX_BRIGHTNESS)
            v[c] *= a;
        else if (s.kind == MX_CONTRAST || (s.kind == MX_SATURATION && colours))
            v[c] = mx_colour_blend(v[c], a, other);
        else if (s.kind == MX_HUE && colours)
            v[c] = rotated[c];
        else if (s.kind == MX_LIGHTING && colours)
            v[c] += mx_lighting_shift(c, s.alpha);
}

static mx_code change_pixels(const mx_kernel_call *call, const images &m, const void *from, int k)
{
    void *to = mx_data(call->out[0]);
    return mx_cuda_planes(call, m.size.images, 1, m.pixels, [=] __device__(int64_t n, int, int pixel) {
        const int64_t i = n * m.pixels + pixel, channels = m.size.channels;
        double v[3] = {};
        for (int64_t c = 0; c < channels; c++)
            v[c] = mx_cuda_load<double>(from, m.type, i * channels + c);
        change(m.step[n * MOST_STEPS + k], m.gray[n * PARTS], channels, v);
        for (int64_t c = 0; c < channels; c++)
            mx_cuda_store<double>(to, m.type, i * channels + c, m.whole ? mx_colour_whole(v[c], m.low, m.high) : v[c]);
    });
}

static mx_code run_recipe(const mx_kernel_call *call, const recipe &r)
{
    const mx_array *x = call->in[0];
    mx_cuda_device *d = mx_cuda_of(call);
    const int t = x->dtype;
    images m = {t, mx_image_size_of(x->ndim, x->shape)};
    m.pixels = m.size.height * m.size.width, m.whole = !mx_dtype_is_float(t);
    m.low = mx_colour_min(t), m.high = mx_colour_max(t);
    if (!d || !x->size)
        return d ? MX_OK : mx_error_code();
    if (m.size.channels > 3)
        return MX_DECLINED;
    mx_cuda_scratch steps(d, (size_t)(m.size.images * MOST_STEPS) * sizeof(mx_colour_step)),
        gray(d, (size_t)(m.size.images * PARTS) * sizeof(double));
    m.step = steps.as<mx_colour_step>(), m.gray = gray.as<double>();
    if (!m.step || !m.gray)
        return mx_error_code();
    mx_code code = find_steps(call, r, m);
    const void *from = mx_data(x);
    for (int k = 0; k < r.count && !code; k++, from = mx_data(call->out[0])) {
        code = r.way == recipe::JITTER || r.kind == MX_CONTRAST ? mean_gray(call, m, from, k) : MX_OK;
        code = code ? code : change_pixels(call, m, from, k);
    }
    return code;
}

static uint64_t images_of(const mx_kernel_call *call)
{
    return (uint64_t)mx_image_size_of(call->in[0]->ndim, call->in[0]->shape).images;
}

static mx_code run_factor(const mx_kernel_call *call, mx_colour_kind kind)
{
    const mx_image_random_factor_attrs *a = (const mx_image_random_factor_attrs *)call->attrs;
    return run_recipe(call, {recipe::FACTOR, 1, mx_rng_reserve(images_of(call)), kind, {a->min_factor, a->max_factor}});
}
static mx_code run_brightness(const mx_kernel_call *call) { return run_factor(call, MX_BRIGHTNESS); }
static mx_code run_contrast(const mx_kernel_call *call) { return run_factor(call, MX_CONTRAST); }
static mx_code run_saturation(const mx_kernel_call *call) { return run_factor(call, MX_SATURATION); }
static mx_code run_hue(const mx_kernel_call *call) { return run_factor(call, MX_HUE); }

static mx_code run_jitter(const mx_kernel_call *call)
{
    const mx_image_random_color_jitter_attrs *a = (const mx_image_random_color_jitter_attrs *)call->attrs;
    return run_recipe(call, {recipe::JITTER,
                             4,
                             mx_rng_reserve(images_of(call) * 2),
                             MX_BRIGHTNESS,
                             {a->brightness, a->contrast, a->saturation, a->hue}});
}

static mx_code run_lighting(const mx_kernel_call *call)
{
    const double *alpha = ((const mx_image_adjust_lighting_attrs *)call->attrs)->alpha.d;
    return run_recipe(call, {recipe::LIGHTING, 1, {}, MX_LIGHTING, {alpha[0], alpha[1], alpha[2]}});
}

static mx_code run_random_lighting(const mx_kernel_call *call)
{
    const double deviation = ((const mx_image_random_lighting_attrs *)call->attrs)->alpha_std;
    return run_recipe(call, {recipe::RANDOM_LIGHTING, 1, mx_rng_reserve(images_of(call)), MX_LIGHTING, {deviation}});
}

MX_CUDA_KERNELS(image_colour) = {
    {"_image_random_brightness", run_brightness, NULL},
    {"_image_random_contrast", run_contrast, NULL},
    {"_image_random_saturation", run_saturation, NULL},
    {"_image_random_hue", run_hue, NULL},
    {"_image_random_color_jitter", run_jitter, NULL},
    {"_image_adjust_lighting", run_lighting, NULL},
    {"_image_random_lighting", run_random_lighting, NULL},
    {NULL, NULL, NULL},
};
