/* Uniform, normal and integer numbers: the same numbers as on the CPU for a seed.
 *
 * Words come in groups of 64 from 16 consecutive counters of Philox (base/rng.h): word w of lane l of group j is number
 * 64 j + 16 w + l, so a thread finds its own word without its neighbours.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"
extern "C" {
#include "op/formula/random.h"
}

#define GROUP 64
#define LANES 16

struct draw {
    mx_rng rng;
    double a, b;
    void *out;
    int type;
    int64_t size;
    __device__ void put(int64_t i, double v) const
    {
        if (i < size)
            mx_cuda_store<double>(out, type, i, v);
    }
    __device__ void put_f(int64_t i, float v) const
    {
        if (i < size)
            mx_cuda_store<float>(out, type, i, v);
    }
};

/* A thread works on the four words of one lane: numbers 64 j + 16 w + l. */
static __device__ void uniform_lane(const draw &d, int64_t unit)
{
    uint32_t words[4];
    mx_philox(d.rng.seed, d.rng.counter + (uint64_t)unit, words);
    const float low = (float)d.a, width = (float)(d.b - d.a), last = nextafterf((float)d.b, low);
    for (int w = 0; w < 4; w++) {
        const float value = __fadd_rn(low, __fmul_rn(__fmul_rn((float)(int32_t)(words[w] >> 8), 0x1p-24f), width));
        d.put_f(unit / LANES * GROUP + 16 * w + unit % LANES, width > 0 && value > last ? last : value);
    }
}

/* Box and Muller: words 0 and 1 of a lane, and words 2 and 3. */
static __device__ void normal_lane(const draw &d, int64_t unit)
{
    uint32_t words[4];
    mx_philox(d.rng.seed, d.rng.counter + (uint64_t)unit, words);
    const float mean = (float)d.a, deviation = (float)d.b;
    for (int half = 0; half < 2; half++) {
        const float u = ((float)(int32_t)(words[2 * half] >> 8) + 1) * 0x1p-24f;
        const float angle = (float)(int32_t)(words[2 * half + 1] >> 8) * (6.28318530717958648f * 0x1p-24f);
        const float radius = sqrtf(-2 * logf(u)) * deviation;
        const int64_t at = unit / LANES * GROUP + 32 * half + unit % LANES;
        d.put_f(at, mean + radius * cosf(angle));
        d.put_f(at + 16, mean + radius * sinf(angle));
    }
}

/* Two doubles of a lane: 32 j + l and 32 j + 16 + l. */
static __device__ void double_lane(const draw &d, int64_t unit, bool uniform)
{
    uint32_t words[4];
    mx_philox(d.rng.seed, d.rng.counter + (uint64_t)unit, words);
    const double u = mx_uniform53(words[0], words[1]), v = mx_uniform53(words[2], words[3]);
    const int64_t at = unit / LANES * 32 + unit % LANES;
    const double radius = sqrt(-2 * log(1 - u)) * d.b, angle = 6.28318530717958647692 * v;
    d.put(at, uniform ? d.a + u * (d.b - d.a) : d.a + radius * cos(angle));
    d.put(at + 16, uniform ? d.a + v * (d.b - d.a) : d.a + radius * sin(angle));
}

static mx_code run_random(const mx_kernel_call *call)
{
    const mx_random_use *use = (const mx_random_use *)call->op->user;
    const bool uniform = use->distribution == MX_DRAW_uniform;
    mx_array *out = call->out[0];
    const double *numbers = (const double *)call->attrs; /* the attributes begin with the parameters */
    draw d = {{}, numbers[0], numbers[1], mx_data(out), out->dtype, out->size};
    if (!mx_dtype_is_float(out->dtype))
        return MX_DECLINED;
    const bool wide = out->dtype == MX_FLOAT64;
    const int64_t per_group = wide ? 32 : GROUP, lanes = (out->size + per_group - 1) / per_group * LANES;
    d.rng = mx_rng_reserve((uint64_t)lanes);
    return mx_cuda_each(call, lanes, [=] __device__(int64_t unit) {
        if (wide)
            double_lane(d, unit, uniform);
        else if (uniform)
            uniform_lane(d, unit);
        else
            normal_lane(d, unit);
    });
}

static mx_code run_randint(const mx_kernel_call *call)
{
    const mx_randint_attrs *a = (const mx_randint_attrs *)call->attrs;
    mx_array *out = call->out[0];
    const mx_rng rng = mx_rng_reserve((uint64_t)out->size);
    const int64_t low = a->low;
    const uint64_t range = (uint64_t)a->high - (uint64_t)a->low;
    void *target = mx_data(out);
    const int type = out->dtype;
    return mx_cuda_each(call, out->size, [=] __device__(int64_t i) {
        uint32_t words[4];
        mx_philox(rng.seed, rng.counter + (uint64_t)i, words);
        const uint64_t bits = (uint64_t)words[0] << 32 | words[1];
        mx_cuda_store<int64_t>(target, type, i, (int64_t)((uint64_t)low + __umul64hi(bits, range)));
    });
}

MX_CUDA_KERNELS(random) = {{"_random_uniform", run_random, NULL},  {"_random_uniform_like", run_random, NULL},
                           {"_random_normal", run_random, NULL},   {"_random_normal_like", run_random, NULL},
                           {"_random_randint", run_randint, NULL}, {NULL, NULL, NULL}};
