/* Random samplers: every element is a function of the seed and of counters reserved for the call.
 *
 * Uniform and normal numbers with scalar parameters use the fast path: groups of 64 words, see philox.h.  All others
 * have a stream per element, so that rejection sampling does not affect neighbouring elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/draw.h"

#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/pointwise/math_f32.h"
#include "cpu/kernels/random/philox.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

typedef struct random_job {
    char *out;
    int64_t size;
    mx_dtype dtype;
    mx_rng rng;
    mx_distribution distribution;
    double parameter[2];
    float last; /* of uniform floats: the largest below the upper bound, which rounding may not reach */
    const mx_array *parameters[2]; /* one per `repeat` elements; NULL: the numbers above */
    int64_t repeat;
    int64_t low; /* of randint */
    uint64_t range;
} random_job;

/* ---- groups of uniform and normal numbers ------------------------------------------------------------------ */

static void uniform_group_f(const random_job *job, const uint32_t *words, float *out)
{
    const float low = (float)job->parameter[0], width = (float)(job->parameter[1] - job->parameter[0]);
    const float last = job->last;
    for (int i = 0; i < PHILOX_GROUP; i++) {
        const float value = low + (float)(int32_t)(words[i] >> 8) * 0x1p-24f * width;
        out[i] = width > 0 && value > last ? last : value;
    }
}

/* Box and Muller: two uniform numbers u, v give sqrt(-2 log u) times cos and sin of 2 pi v.  Words 0-15 and 32-47 are u,
 * the 16 after each of them v; the results overwrite them. */
static void normal_group_f(const random_job *job, const uint32_t *words, float *out)
{
    const float mean = (float)job->parameter[0], deviation = (float)job->parameter[1];
    float radius[32], angle[32], cosine[32], sine[32];
    for (int l = 0; l < 16; l++) {
        radius[l] = ((float)(int32_t)(words[l] >> 8) + 1) * 0x1p-24f;
        radius[16 + l] = ((float)(int32_t)(words[32 + l] >> 8) + 1) * 0x1p-24f;
        angle[l] = (float)(int32_t)(words[16 + l] >> 8) * (6.28318530717958648f * 0x1p-24f);
        angle[16 + l] = (float)(int32_t)(words[48 + l] >> 8) * (6.28318530717958648f * 0x1p-24f);
    }
    for (int l = 0; l < 32; l++)
        radius[l] = m_sqrt(-2 * mx_log_near_f32(radius[l])) * deviation;
    for (int l = 0; l < 32; l++)
        cosine[l] = mean + radius[l] * mx_cos_near_f32(angle[l]);
    for (int l = 0; l < 32; l++)
        sine[l] = mean + radius[l] * mx_sin_near_f32(angle[l]);
    for (int half = 0; half < 2; half++) {
        memcpy(out + 32 * half, cosine + 16 * half, 16 * sizeof *out);
        memcpy(out + 32 * half + 16, sine + 16 * half, 16 * sizeof *out);
    }
}

/* 32 doubles from 64 words. */
static void group_d(const random_job *job, const uint32_t *words, double *out)
{
    const double a = job->parameter[0], b = job->parameter[1];
    for (int l = 0; l < 16; l++) {
        const double u = mx_uniform53(words[l], words[16 + l]), v = mx_uniform53(words[32 + l], words[48 + l]);
        if (job->distribution == MX_DRAW_uniform) {
            out[l] = a + u * (b - a), out[16 + l] = a + v * (b - a);
            continue;
        }
        const double radius = sqrt(-2 * log(1 - u)) * b, angle = 6.28318530717958647692 * v;
        out[l] = a + radius * cos(angle), out[16 + l] = a + radius * sin(angle);
    }
}

static void groups(void *arg, int64_t begin, int64_t end)
{
    const random_job *job = arg;
    const bool wide = job->dtype == MX_FLOAT64;
    const int64_t per_group = wide ? 32 : 64, item = mx_dtype_size(job->dtype);
    const philox_keys keys = philox_schedule(job->rng.seed);
    for (int64_t group = begin; group < end; group++) {
        uint32_t words[PHILOX_GROUP];
        union { float f[64]; double d[32]; } values;
        philox_group(&keys, job->rng.counter + (uint64_t)group * PHILOX_LANES, words);
        if (wide)
            group_d(job, words, values.d);
        else if (job->distribution == MX_DRAW_uniform)
            uniform_group_f(job, words, values.f);
        else
            normal_group_f(job, words, values.f);
        const int64_t at = group * per_group, rest = job->size - at;
        if (rest >= per_group && job->dtype == MX_FLOAT32)
            memcpy(job->out + at * item, &values, sizeof values);
        else
            mx_convert(job->out + at * item, job->dtype, &values, wide ? MX_FLOAT64 : MX_FLOAT32,
                       rest < per_group ? rest : per_group);
    }
}

static void run_groups(random_job *job)
{
    const int64_t per_group = job->dtype == MX_FLOAT64 ? 32 : 64, count = (job->size + per_group - 1) / per_group;
    job->rng = mx_rng_reserve((uint64_t)count * PHILOX_LANES);
    job->last = nextafterf((float)job->parameter[1], (float)job->parameter[0]);
    mx_parallel(count, MX_GRAIN / 256, groups, job);
}

/* ---- a stream per element ---------------------------------------------------------------------------------- */

static double parameter_at(const random_job *job, int i, int64_t element)
{
    const mx_array *x = job->parameters[i];
    double value = job->parameter[i];
    if (x)
        mx_convert(&value, MX_FLOAT64,
                   (const char *)mx_data(x) + element / job->repeat * mx_dtype_size((mx_dtype)x->dtype),
                   (mx_dtype)x->dtype, 1);
    return value;
}

static void streams(void *arg, int64_t begin, int64_t end)
{
    const random_job *job = arg;
    const int64_t item = mx_dtype_size(job->dtype);
    for (int64_t i = begin; i < end; i++) {
        mx_rng_stream stream = {.seed = job->rng.seed, .counter = job->rng.counter + (uint64_t)i};
        const double value = mx_draw(job->distribution, &stream, parameter_at(job, 0, i), parameter_at(job, 1, i));
        mx_convert(job->out + i * item, job->dtype, &value, MX_FLOAT64, 1);
    }
}

static void run_streams(random_job *job)
{
    job->rng = mx_rng_reserve((uint64_t)job->size);
    mx_parallel(job->size, MX_GRAIN / 64, streams, job);
}

/* ---- entries ------------------------------------------------------------------------------------------------ */

static random_job job_for(mx_array *out)
{
    return (random_job){.out = mx_data(out), .size = out->size, .dtype = (mx_dtype)out->dtype, .repeat = 1};
}

/* The attributes begin with the parameters; only negative_binomial begins with an integer. */
static void read_parameters(random_job *job, const void *attrs, int count)
{
    const double *numbers = attrs;
    job->parameter[0] = job->distribution == MX_DRAW_negative_binomial ? (double)*(const int64_t *)attrs : numbers[0];
    job->parameter[1] = count > 1 ? numbers[1] : 0;
}

static mx_code run_random(const mx_kernel_call *call)
{
    const mx_random_use *use = call->op->user;
    random_job job = job_for(call->out[0]);
    job.distribution = use->distribution;
    read_parameters(&job, call->attrs, use->parameters);
    const bool floats = mx_dtype_is_float(job.dtype);
    if (floats && (job.distribution == MX_DRAW_uniform || job.distribution == MX_DRAW_normal))
        run_groups(&job);
    else
        run_streams(&job);
    return MX_OK;
}

static mx_code run_sample(const mx_kernel_call *call)
{
    const mx_random_use *use = call->op->user;
    random_job job = job_for(call->out[0]);
    job.distribution = use->distribution;
    for (int i = 0; i < use->parameters; i++)
        job.parameters[i] = call->in[i];
    job.repeat = job.size / call->in[0]->size;
    run_streams(&job);
    return MX_OK;
}

/* The upper half of a 128-bit product maps 64 random bits to [0, range) with a bias below 2^-32 for any 32-bit range. */
static void integers(void *arg, int64_t begin, int64_t end)
{
    const random_job *job = arg;
    const int64_t item = mx_dtype_size(job->dtype);
    for (int64_t i = begin; i < end; i++) {
        uint32_t words[4];
        mx_philox(job->rng.seed, job->rng.counter + (uint64_t)i, words);
        const uint64_t bits = (uint64_t)words[0] << 32 | words[1];
        const uint64_t below = (uint64_t)((__extension__(unsigned __int128) bits * job->range) >> 64);
        const int64_t value = (int64_t)((uint64_t)job->low + below);
        mx_convert(job->out + i * item, job->dtype, &value, MX_INT64, 1);
    }
}

static mx_code run_randint(const mx_kernel_call *call)
{
    const mx_randint_attrs *attrs = call->attrs;
    random_job job = job_for(call->out[0]);
    job.low = attrs->low, job.range = (uint64_t)attrs->high - (uint64_t)attrs->low;
    job.rng = mx_rng_reserve((uint64_t)job.size);
    mx_parallel(job.size, MX_GRAIN / 16, integers, &job);
    return MX_OK;
}

#define KERNELS(id, ...) \
    {"_random_" #id, run_random, NULL}, {"_random_" #id "_like", run_random, NULL}, {"_sample_" #id, run_sample, NULL},
MX_CPU_KERNELS(random) = {MX_DISTRIBUTIONS(KERNELS){"_random_randint", run_randint, NULL}, {NULL, NULL, NULL}};
