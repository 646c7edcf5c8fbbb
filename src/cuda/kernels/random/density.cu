/* Densities of distributions: op/formula/density.h, an element per thread.  SPDX-License-Identifier: Apache-2.0 */
#include <cstring>

#include "cuda/cuda.h"
extern "C" {
#include "op/formula/density.h"
}

static const char *const densities[] = {
#define DENSITY_NAME(name) "_random_pdf_" #name,
    MX_DENSITIES(DENSITY_NAME)};

template <class T> static mx_code dirichlet(const mx_kernel_call *call, bool is_log)
{
    const mx_array *alpha = call->in[1];
    const int64_t last = alpha->shape[alpha->ndim - 1], n = call->out[0]->size,
                  each = last ? n / (alpha->size / last) : 1;
    const T *sample = (const T *)mx_data(call->in[0]), *parameter = (const T *)mx_data(alpha);
    T *out = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, n, [=] __device__(int64_t e) {
        const T *p = parameter + e / each * last, *x = sample + e * last;
        double all = 0, sum = 0;
        for (int64_t i = 0; i < last; i++) {
            all += (double)p[i];
            sum += mx_times_log((double)p[i] - 1, (double)x[i]) - lgamma((double)p[i]);
        }
        sum += lgamma(all);
        out[e] = (T)(is_log ? sum : exp(sum));
    });
}

template <class T> static mx_code density(const mx_kernel_call *call)
{
    const bool is_log = ((const mx_random_pdf_attrs *)call->attrs)->is_log;
    const int64_t n = call->out[0]->size;
    if (!n)
        return MX_OK;
    int which = 0;
    while (which < MX_DENSITY_dirichlet && strcmp(densities[which], call->op->name))
        which++;
    if (which == MX_DENSITY_dirichlet)
        return dirichlet<T>(call, is_log);
    const mx_density of = (mx_density)which;
    const int64_t each = n / call->in[1]->size;
    const T *sample = (const T *)mx_data(call->in[0]), *first = (const T *)mx_data(call->in[1]);
    const T *second = call->n_in > 2 ? (const T *)mx_data(call->in[2]) : nullptr;
    T *out = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, n, [=] __device__(int64_t e) {
        const mx_density_row r = mx_density_prepare(of, (double)first[e / each], second ? (double)second[e / each] : 0);
        const double exponent = mx_density_exponent(of, &r, (double)sample[e]);
        out[e] = (T)(is_log ? log(r.scale) + exponent : r.scale * exp(exponent));
    });
}
MX_CUDA_FLOATS(run, density)

#define KERNEL(name) {"_random_pdf_" #name, run, NULL},
MX_CUDA_KERNELS(density) = {MX_DENSITIES(KERNEL){"_random_pdf_dirichlet", run, NULL}, {NULL, NULL, NULL}};
