/* Random numbers of all distributions, each element from a stream of its own (op/formula/draw.h): the same as on the CPU for
 * a seed.
 *
 * Floating uniform and normal numbers with number parameters are drawn in random.cu.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"
extern "C" {
#include "op/formula/draw.h"
}

/* A parameter: one number for all elements, or one element of an array for every `repeat` of them. */
struct parameter {
    double number;
    const void *data; /* NULL: the number */
    int type;
    int64_t repeat;
    __device__ double at(int64_t i) const { return data ? mx_cuda_load<double>(data, type, i / repeat) : number; }
};

static mx_code draw_all(const mx_kernel_call *call, mx_distribution which, const parameter &first,
                        const parameter &second)
{
    mx_array *out = call->out[0];
    void *to = mx_data(out);
    const int type = out->dtype;
    const mx_rng rng = mx_rng_reserve((uint64_t)out->size);
    return mx_cuda_each(call, out->size, [=] __device__(int64_t i) {
        mx_rng_stream stream = {rng.seed, rng.counter + (uint64_t)i, 0, 0, {}};
        mx_cuda_store<double>(to, type, i, mx_draw(which, &stream, first.at(i), second.at(i)));
    });
}

/* The attributes begin with the parameters; only negative_binomial begins with an integer. */
static mx_code run_random(const mx_kernel_call *call)
{
    const mx_random_use *use = (const mx_random_use *)call->op->user;
    const double *numbers = (const double *)call->attrs;
    const bool simple = use->distribution == MX_DRAW_uniform || use->distribution == MX_DRAW_normal;
    if (simple && mx_dtype_is_float(call->out[0]->dtype))
        return MX_DECLINED;
    const double first =
        use->distribution == MX_DRAW_negative_binomial ? (double)*(const int64_t *)call->attrs : numbers[0];
    return draw_all(call, use->distribution, {first, nullptr, 0, 1},
                    {use->parameters > 1 ? numbers[1] : 0, nullptr, 0, 1});
}

static mx_code run_sample(const mx_kernel_call *call)
{
    const mx_random_use *use = (const mx_random_use *)call->op->user;
    if (!call->out[0]->size)
        return MX_OK;
    const int64_t repeat = call->out[0]->size / call->in[0]->size;
    parameter p[2] = {};
    for (int i = 0; i < use->parameters; i++)
        p[i] = {0, mx_data(call->in[i]), call->in[i]->dtype, repeat};
    return draw_all(call, use->distribution, p[0], p[1]);
}

#define KERNELS(id, ...) \
    {"_random_" #id, run_random, NULL}, {"_random_" #id "_like", run_random, NULL}, {"_sample_" #id, run_sample, NULL},
MX_CUDA_KERNELS(random_draw) = {MX_DISTRIBUTIONS(KERNELS){NULL, NULL, NULL}};
