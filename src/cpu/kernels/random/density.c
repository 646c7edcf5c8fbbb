/* Densities of distributions on the CPU (op/formula/density.h): the scale is computed once per row of
 * samples.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "op/formula/density.h" /* before op.gen.h, which has operators of the same names */
#include "gluon/op.gen.h"

static const char *const densities[] = {
#define DENSITY_NAME(name) "_random_pdf_" #name,
    MX_DENSITIES(DENSITY_NAME)};

typedef struct density_job {
    mx_density of;
    const void *sample, *first, *second; /* second: NULL if there is one parameter */
    void *out;
    int64_t each, last; /* samples per row; numbers of one draw of a Dirichlet distribution */
    bool single, is_log;
} density_job;

static double number(const density_job *job, const void *from, int64_t i)
{
    return job->single ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

/* scale: its logarithm if is_log */
static void store(const density_job *job, int64_t i, double scale, double exponent)
{
    const double value = job->is_log ? scale + exponent : scale * exp(exponent);
    if (job->single)
        ((float *)job->out)[i] = (float)value;
    else
        ((double *)job->out)[i] = value;
}

static void run_rows(void *arg, int64_t begin, int64_t end)
{
    const density_job *job = arg;
    for (int64_t e = begin; e < end;) {
        const int64_t which = e / job->each, stop = (which + 1) * job->each < end ? (which + 1) * job->each : end;
        const mx_density_row r = mx_density_prepare(job->of, number(job, job->first, which),
                                                    job->second ? number(job, job->second, which) : 0);
        const double scale = job->is_log ? log(r.scale) : r.scale;
        for (; e < stop; e++)
            store(job, e, scale, mx_density_exponent(job->of, &r, number(job, job->sample, e)));
    }
}

static void run_vectors(void *arg, int64_t begin, int64_t end)
{
    const density_job *job = arg;
    for (int64_t e = begin; e < end;) {
        const int64_t which = e / job->each, stop = (which + 1) * job->each < end ? (which + 1) * job->each : end;
        double all = 0, fixed = 0;
        for (int64_t i = 0; i < job->last && !mx_stop_wanted_at(i); i++) {
            const double alpha = number(job, job->first, which * job->last + i);
            all += alpha, fixed -= mx_lgamma(alpha);
        }
        for (; e < stop; e++) {
            double sum = fixed + mx_lgamma(all);
            for (int64_t i = 0; i < job->last && !mx_stop_wanted_at(i); i++)
                sum += mx_times_log(number(job, job->first, which * job->last + i) - 1,
                                    number(job, job->sample, e * job->last + i));
            store(job, e, job->is_log ? 0 : 1, sum);
        }
    }
}

static mx_code run(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    density_job job = {.sample = mx_data(call->in[0]), .first = mx_data(call->in[1]), .second = call->n_in > 2 ? mx_data(call->in[2]) : NULL,
                       .out = mx_data(call->out[0]), .last = 1, .single = compute == MX_FLOAT32,
                       .is_log = ((const mx_random_pdf_attrs *)call->attrs)->is_log};
    while (job.of < MX_DENSITY_dirichlet && strcmp(densities[job.of], call->op->name))
        job.of++;
    const bool vectors = job.of == MX_DENSITY_dirichlet;
    const int64_t n = call->out[0]->size;
    if (!n)
        return MX_OK;
    if (vectors)
        job.last = call->in[1]->shape[call->in[1]->ndim - 1];
    job.each = n / (job.last ? call->in[1]->size / job.last : 1);
    mx_parallel(n, 1 + MX_GRAIN / (16 * (job.last + 1)), vectors ? run_vectors : run_rows, &job);
    return MX_OK;
}

MX_CPU_KERNELS(density) = {{"_random_pdf_uniform", run, NULL, MX_KERNEL_WIDEN},
                           {"_random_pdf_normal", run, NULL, MX_KERNEL_WIDEN},
                           {"_random_pdf_gamma", run, NULL, MX_KERNEL_WIDEN},
                           {"_random_pdf_exponential", run, NULL, MX_KERNEL_WIDEN},
                           {"_random_pdf_poisson", run, NULL, MX_KERNEL_WIDEN},
                           {"_random_pdf_negative_binomial", run, NULL, MX_KERNEL_WIDEN},
                           {"_random_pdf_generalized_negative_binomial", run, NULL, MX_KERNEL_WIDEN},
                           {"_random_pdf_dirichlet", run, NULL, MX_KERNEL_WIDEN},
                           {NULL, NULL, NULL}};
