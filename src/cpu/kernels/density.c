/* Densities of distributions on the CPU: what depends on parameters alone is computed once per row of samples.
 *
 *     density = scale * exp(exponent(x)),  log density = log(scale) + exponent(x)
 *
 * Logarithms and gamma functions are the work: everything is computed in double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "op/pointwise_double.h" /* before op.gen.h, which has operators of the same names */
#include "gluon/op.gen.h"

typedef struct row {
    double scale;
    double a, b, c; /* further constants of the row: what they are is the distribution's */
} row;
typedef struct density {
    const char *op;
    row (*prepare)(double first, double second);
    double (*exponent)(const row *r, double x);
} density;

static double times_log(double a, double x) { return a == 0 ? 0 : a * log(x); } /* 0 log 0 = 0 */

static row row_uniform(double low, double high) { return (row){1 / (high - low), 0, 0, 0}; }
static double log_uniform(const row *r, double x) { return (void)r, (void)x, 0; }

static row row_normal(double mu, double sigma)
{
    return (row){1 / (sigma * sqrt(2 * 3.14159265358979323846)), mu, 1 / sigma, 0};
}
static double log_normal(const row *r, double x)
{
    const double u = (x - r->a) * r->b;
    return -u * u / 2;
}

static row row_gamma(double alpha, double beta)
{
    return (row){1, alpha - 1, beta, alpha * log(beta) - mx_lgamma(alpha)};
}
static double log_gamma(const row *r, double x) { return r->c + times_log(r->a, x) - r->b * x; }

static row row_exponential(double lam, double none) { return (void)none, (row){lam, lam, 0, 0}; }
static double log_exponential(const row *r, double x) { return -r->a * x; }

static row row_poisson(double lam, double none) { return (void)none, (row){1, lam, 0, 0}; }
static double log_poisson(const row *r, double x) { return times_log(x, r->a) - r->a - mx_lgamma(x + 1); }

static row row_negative_binomial(double k, double p) { return (row){1, k, p, times_log(k, p) - mx_lgamma(k)}; }
static double log_negative_binomial(const row *r, double x)
{
    return r->c + mx_lgamma(x + r->a) - mx_lgamma(x + 1) + times_log(x, 1 - r->b);
}
static row row_generalized(double mu, double alpha) { return row_negative_binomial(1 / alpha, 1 / (1 + mu * alpha)); }

static const density densities[] = {
    {"_random_pdf_uniform", row_uniform, log_uniform},
    {"_random_pdf_normal", row_normal, log_normal},
    {"_random_pdf_gamma", row_gamma, log_gamma},
    {"_random_pdf_exponential", row_exponential, log_exponential},
    {"_random_pdf_poisson", row_poisson, log_poisson},
    {"_random_pdf_negative_binomial", row_negative_binomial, log_negative_binomial},
    {"_random_pdf_generalized_negative_binomial", row_generalized, log_negative_binomial},
};

typedef struct density_job {
    const density *of;                   /* NULL: Dirichlet */
    const void *sample, *first, *second; /* second: NULL if there is one parameter */
    void *out;
    int64_t each, last; /* samples per row; numbers of one draw of a Dirichlet distribution */
    bool single, is_log;
} density_job;

static double number(const density_job *job, const void *from, int64_t i)
{
    return job->single ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

/* scale: its logarithm, where that is wanted */
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
        const row r =
            job->of->prepare(number(job, job->first, which), job->second ? number(job, job->second, which) : 0);
        const double scale = job->is_log ? log(r.scale) : r.scale;
        for (; e < stop; e++)
            store(job, e, scale, job->of->exponent(&r, number(job, job->sample, e)));
    }
}

static void run_vectors(void *arg, int64_t begin, int64_t end)
{
    const density_job *job = arg;
    for (int64_t e = begin; e < end;) {
        const int64_t which = e / job->each, stop = (which + 1) * job->each < end ? (which + 1) * job->each : end;
        double all = 0, fixed = 0;
        for (int64_t i = 0; i < job->last; i++) {
            const double alpha = number(job, job->first, which * job->last + i);
            all += alpha, fixed -= mx_lgamma(alpha);
        }
        for (; e < stop; e++) {
            double sum = fixed + mx_lgamma(all);
            for (int64_t i = 0; i < job->last; i++)
                sum += times_log(number(job, job->first, which * job->last + i) - 1,
                                 number(job, job->sample, e * job->last + i));
            store(job, e, job->is_log ? 0 : 1, sum);
        }
    }
}

static mx_code run(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_all_of_type(call, compute))
        return mx_run_widened(call, compute, run);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    density_job job = {.sample = mx_data(call->in[0]), .first = mx_data(call->in[1]), .second = call->n_in > 2 ? mx_data(call->in[2]) : NULL,
                       .out = mx_data(call->out[0]), .last = 1, .single = compute == MX_FLOAT32,
                       .is_log = ((const mx_random_pdf_attrs *)call->attrs)->is_log};
    for (size_t i = 0; i < sizeof densities / sizeof *densities; i++)
        if (!strcmp(densities[i].op, call->op->name))
            job.of = &densities[i];
    const int64_t n = call->out[0]->size;
    if (!n)
        return MX_OK;
    if (!job.of)
        job.last = call->in[1]->shape[call->in[1]->ndim - 1];
    job.each = n / (job.last ? call->in[1]->size / job.last : 1);
    mx_parallel(n, 1 + MX_GRAIN / (16 * (job.last + 1)), job.of ? run_rows : run_vectors, &job);
    return MX_OK;
}

MX_CPU_KERNELS(density) = {{"_random_pdf_uniform", run, NULL},
                           {"_random_pdf_normal", run, NULL},
                           {"_random_pdf_gamma", run, NULL},
                           {"_random_pdf_exponential", run, NULL},
                           {"_random_pdf_poisson", run, NULL},
                           {"_random_pdf_negative_binomial", run, NULL},
                           {"_random_pdf_generalized_negative_binomial", run, NULL},
                           {"_random_pdf_dirichlet", run, NULL},
                           {NULL, NULL, NULL}};
