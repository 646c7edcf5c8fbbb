/* Batch normalisation with the statistics of all processes, and of the contexts of each that have threads of their own, as a custom
 * operator, so that it is part of plans, too.
 *
 *     mean = sum(x) / n,  variance = sum((x - mean)^2) / n       sums over all batches
 *     y = gamma x' + beta,  x' = (x - mean) r,  r = 1 / sqrt(variance + eps)
 *     dx = gamma r (dy - sum(dy) / n - x' sum(dy x') / n)        sums likewise
 *     dgamma = sum(dy x'), dbeta = sum(dy)                       of this context: the trainer sums them
 *
 * All processes and contexts run the layer in the same order (contexts: see comm/meeting.c).  Sums are computed in double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/sync_norm.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/threads.h"
#include "comm/comm.h"
#include "comm/meeting.h"
#include "gluon/custom.h"

#define OP_TYPE "_sync_batch_norm"

/* ---- loops over one channel: data (N, C, L) ------------------------------------------------------------------------- */

typedef struct job {
    int64_t n, channels, inner;
    const float *x, *dy; /* (N, C, L) */
    float *out;          /* y or dx */
    double *a, *b;       /* (C) sums, or factors */
    const double *mean, *r;
    const float *gamma, *beta; /* (C); gamma NULL: 1 */
    void (*row)(const struct job *job, int64_t c, int64_t at);
} job;

static void over_channels(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t c = begin; c < end; c++)
        for (int64_t i = 0; i < j->n; i++)
            j->row(j, c, (i * j->channels + c) * j->inner);
}

static void run_rows(job *j, void (*row)(const job *j, int64_t c, int64_t at))
{
    j->row = row;
    mx_parallel_all(j->channels, 1 + MX_GRAIN / (1 + j->n * j->inner), over_channels, j);
}

static void sum_row(const job *j, int64_t c, int64_t at)
{
    for (int64_t l = 0; l < j->inner; l++)
        j->a[c] += j->x[at + l];
}

static void square_row(const job *j, int64_t c, int64_t at)
{
    for (int64_t l = 0; l < j->inner; l++)
        j->a[c] += (j->x[at + l] - j->mean[c]) * (j->x[at + l] - j->mean[c]);
}

static void normalise_row(const job *j, int64_t c, int64_t at)
{
    const double factor = j->r[c] * (j->gamma ? j->gamma[c] : 1), shift = j->beta[c];
    for (int64_t l = 0; l < j->inner; l++)
        j->out[at + l] = (float)((j->x[at + l] - j->mean[c]) * factor + shift);
}

static void gradient_sums_row(const job *j, int64_t c, int64_t at)
{
    for (int64_t l = 0; l < j->inner; l++) {
        j->a[c] += j->dy[at + l];
        j->b[c] += j->dy[at + l] * (j->x[at + l] - j->mean[c]) * j->r[c];
    }
}

/* a, b: the sums over all processes, divided by n */
static void gradient_row(const job *j, int64_t c, int64_t at)
{
    const double factor = j->r[c] * (j->gamma ? j->gamma[c] : 1);
    for (int64_t l = 0; l < j->inner; l++)
        j->out[at + l] = (float)(factor * (j->dy[at + l] - j->a[c] - (j->x[at + l] - j->mean[c]) * j->r[c] * j->b[c]));
}

/* ---- arrays as float32 in host memory -------------------------------------------------------------------------------- */

/* Owned by the scope; x itself if it is that already. */
static mx_array *as_floats(mx_array *x)
{
    const mx_shape_t shape = mx_array_shape(x);
    if (x->dtype == MX_FLOAT32 && mx_context_is_host(x->context))
        return x;
    mx_array *made = mx_scope_add(mx_array_new(&shape, MX_FLOAT32, mx_cpu(0)));
    return made && !mx_array_set(made, x) ? made : NULL;
}

static mx_array *empty_like(mx_array *x)
{
    const mx_shape_t shape = mx_array_shape(x);
    return mx_scope_add(mx_array_new(&shape, MX_FLOAT32, mx_cpu(0)));
}

static mx_code write_doubles(mx_array *x, const double *numbers)
{
    MX_SCOPE;
    mx_array *made = empty_like(x);
    if (!made)
        return mx_error_code();
    for (int64_t i = 0; i < x->size; i++)
        ((float *)mx_data(made))[i] = (float)numbers[i];
    return mx_array_set(x, made);
}

static job job_of(const mx_array *x)
{
    job j = {.n = x->shape[0], .channels = x->shape[1], .inner = 1};
    for (int i = 2; i < x->ndim; i++)
        j.inner *= x->shape[i];
    return j;
}

/* ---- the operator ---------------------------------------------------------------------------------------------------- */

typedef struct options {
    double eps, momentum;
    bool fix_gamma;
    int contexts; /* of this process */
    char *key;    /* at which they meet; owned */
} options;

/* The failure of the thread's call is known to its partners already. */
static _Thread_local bool reported;

/* What backward needs: the statistics, and n of all processes. */
typedef struct state {
    int64_t channels;
    double n;
    double numbers[]; /* mean (C), r (C) */
} state;

static void release(void *self)
{
    options *o = self;
    mx_strfree(o->key);
    mx_free(o, sizeof *o);
}

static void *create(void *user, int n, const char *const *keys, const char *const *values)
{
    (void)user;
    options *o = mx_alloc_zero(sizeof *o);
    for (int i = 0; o && i < n; i++) {
        const double number = strtod(values[i], NULL);
        if (!strcmp(keys[i], "eps"))
            o->eps = number;
        else if (!strcmp(keys[i], "momentum"))
            o->momentum = number;
        else if (!strcmp(keys[i], "fix_gamma"))
            o->fix_gamma = number != 0;
        else if (!strcmp(keys[i], "contexts"))
            o->contexts = (int)number;
        else if (!strcmp(keys[i], "key") && !(o->key = mx_strdup(values[i])))
            return release(o), NULL;
    }
    return o;
}
static void release_state(void *s)
{
    mx_free(s, s ? sizeof(state) + 2 * (size_t)((state *)s)->channels * sizeof(double) : 0);
}

static const char *const *names(void *self, enum mx_custom_list which, int *n)
{
    static const char *const arguments[] = {"data", "gamma", "beta"}, *const outputs[] = {"output"},
                             *const auxiliary[] = {"moving_mean", "moving_var"};
    (void)self;
    *n = which == MX_CUSTOM_ARGUMENTS ? 3 : which == MX_CUSTOM_OUTPUTS ? 1 : 2;
    return which == MX_CUSTOM_ARGUMENTS ? arguments : which == MX_CUSTOM_OUTPUTS ? outputs : auxiliary;
}

static mx_code infer(void *self, const mx_custom_shapes *s)
{
    (void)self;
    if (s->arguments[0].n < 2)
        return mx_fail(MX_ERR_SHAPE, "SyncBatchNorm: data must have at least two axes");
    const mx_dims channels = MX_DIMS(s->arguments[0].d[1]);
    s->outputs[0] = s->arguments[0];
    s->arguments[1] = s->arguments[2] = s->auxiliary[0] = s->auxiliary[1] = channels;
    s->output_types[0] = s->argument_types[0];
    for (int i = 1; i < 3; i++)
        if (s->argument_types[i] == MX_DTYPE_NONE)
            s->argument_types[i] = MX_FLOAT32;
    for (int i = 0; i < 2; i++)
        if (s->auxiliary_types[i] == MX_DTYPE_NONE)
            s->auxiliary_types[i] = MX_FLOAT32;
    return MX_OK;
}

static mx_meeting_call call_of(const options *o, mx_context context, const char *phase)
{
    return (mx_meeting_call){.key = o->key, .phase = phase, .contexts = o->contexts, .context = context};
}

/* Sums over all contexts and processes. */
static mx_code sum_all(const mx_meeting_call *call, double *numbers, int64_t count)
{
    mx_comm *world = mx_comm_world();
    if (!world)
        return mx_error_code();
    if (call->contexts < 2)
        return mx_comm_reduce_memory(world, numbers, count, MX_FLOAT64, MX_SUM);
    const mx_code code = mx_meeting_sum(call, numbers, count);
    reported |= code != MX_OK;
    return code;
}

/* sums: (C + 1) scratch */
static mx_code find_statistics(job *j, state *s, double *sums, const options *o, mx_context context)
{
    const mx_meeting_call mean_call = call_of(o, context, "mean"), variance_call = call_of(o, context, "variance");
    double *mean = s->numbers, *r = s->numbers + j->channels;
    j->a = sums, j->mean = mean, j->r = r;
    sums[j->channels] = (double)(j->n * j->inner);
    run_rows(j, sum_row);
    if (sum_all(&mean_call, sums, j->channels + 1))
        return mx_error_code();
    s->n = sums[j->channels];
    for (int64_t c = 0; c < j->channels; c++)
        mean[c] = sums[c] / s->n, sums[c] = 0;
    run_rows(j, square_row);
    if (sum_all(&variance_call, sums, j->channels))
        return mx_error_code();
    for (int64_t c = 0; c < j->channels; c++) {
        sums[c] /= s->n; /* the variance */
        r[c] = 1 / sqrt(sums[c] + o->eps);
    }
    return MX_OK;
}

static mx_code update_running(mx_array *running, const double *now, double momentum)
{
    MX_SCOPE;
    mx_array *old = as_floats(running), *made = empty_like(running);
    if (!old || !made)
        return mx_error_code();
    for (int64_t c = 0; c < running->size; c++)
        ((float *)mx_data(made))[c] = (float)(momentum * ((float *)mx_data(old))[c] + (1 - momentum) * now[c]);
    return mx_array_set(running, made);
}

static mx_code normalise(const options *o, mx_custom_run *run, state *s, double *sums)
{
    mx_array *x = as_floats(run->arguments.v[0]), *gamma = as_floats(run->arguments.v[1]),
             *beta = as_floats(run->arguments.v[2]), *y = x ? empty_like(x) : NULL;
    if (!gamma || !beta || !y)
        return mx_error_code();
    job j = job_of(x);
    j.x = mx_data(x), j.out = mx_data(y), j.gamma = o->fix_gamma ? NULL : mx_data(gamma), j.beta = mx_data(beta);
    if (find_statistics(&j, s, sums, o, run->context))
        return mx_error_code();
    run_rows(&j, normalise_row);
    return mx_array_set(run->outputs.v[0], y) || update_running(run->auxiliary.v[0], s->numbers, o->momentum) ||
                   update_running(run->auxiliary.v[1], sums, o->momentum)
               ? mx_error_code()
               : MX_OK;
}

/* The partners need not wait for this context any more. */
static void report(const options *o, mx_context context, const char *phase)
{
    const mx_meeting_call call = call_of(o, context, phase);
    if (o->contexts > 1 && !reported)
        mx_meeting_fail(&call);
    reported = true;
}

static mx_code forward(void *self, mx_custom_run *run)
{
    MX_SCOPE;
    reported = false;
    const int64_t channels = run->arguments.v[0]->shape[1];
    const size_t bytes = (size_t)(channels + 1) * sizeof(double);
    state *s = mx_alloc_zero(sizeof *s + 2 * (size_t)channels * sizeof(double));
    double *sums = mx_alloc_zero(bytes);
    if (s)
        s->channels = channels;
    const mx_code code = s && sums ? normalise(self, run, s, sums) : mx_error_code();
    mx_free(sums, bytes);
    run->state = s;
    if (code)
        report(self, run->context, "mean");
    return code;
}

static mx_code find_gradients(const options *o, mx_custom_run *run, const state *s, double *sums)
{
    mx_array *x = as_floats(run->arguments.v[0]), *gamma = as_floats(run->arguments.v[1]),
             *dy = as_floats(run->output_grads.v[0]), *dx = x ? empty_like(x) : NULL;
    if (!gamma || !dy || !dx)
        return mx_error_code();
    job j = job_of(x);
    const int64_t channels = j.channels;
    const mx_meeting_call call = call_of(o, run->context, "gradient");
    j.x = mx_data(x), j.dy = mx_data(dy), j.out = mx_data(dx), j.gamma = o->fix_gamma ? NULL : mx_data(gamma);
    j.mean = s->numbers, j.r = s->numbers + channels, j.a = sums, j.b = sums + channels;
    run_rows(&j, gradient_sums_row);
    if ((!o->fix_gamma && write_doubles(run->argument_grads.v[1], j.b)) ||
        write_doubles(run->argument_grads.v[2], j.a) || sum_all(&call, sums, 2 * channels))
        return mx_error_code();
    for (int64_t c = 0; c < 2 * channels; c++)
        sums[c] /= s->n;
    run_rows(&j, gradient_row);
    return mx_array_set(run->argument_grads.v[0], dx);
}

static mx_code backward(void *self, mx_custom_run *run)
{
    MX_SCOPE;
    const state *s = run->state;
    if (!s)
        return mx_fail(MX_ERR_STATE, "SyncBatchNorm: backward without the forward's statistics");
    const size_t bytes = 2 * (size_t)s->channels * sizeof(double);
    double *sums = mx_alloc_zero(bytes);
    reported = false;
    const mx_code code = sums ? find_gradients(self, run, s, sums) : mx_error_code();
    mx_free(sums, bytes);
    if (code)
        report(self, run->context, "gradient");
    return code;
}

/* ---- the call -------------------------------------------------------------------------------------------------------- */

static void register_once(void)
{
    mx_custom_register(&(mx_custom_class){.op_type = OP_TYPE, .create = create, .release = release, .names = names,
                                          .infer = infer, .forward = forward, .backward = backward,
                                          .release_state = release_state});
}

mx_array *mx_sync_norm(mx_array *const in[5], const mx_sync_norm_options *o)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char e[40], m[40], n[16];
    pthread_once(&once, register_once);
    snprintf(e, sizeof e, "%.17g", o->eps);
    snprintf(m, sizeof m, "%.17g", o->momentum);
    snprintf(n, sizeof n, "%d", o->contexts);
    const char *keys[] = {"eps", "momentum", "fix_gamma", "contexts", "key"},
               *values[] = {e, m, o->fix_gamma ? "1" : "0", n, o->key};
    reported = false;
    mx_arrays y = mx_custom(&(struct mx_custom_args){.op_type = OP_TYPE, .n_in = 5, .in = in, .n_options = 5, .keys = keys,
                                                     .values = values});
    if (!y.n && in[0] && in[0]->storage) /* it may have failed before its forward */
        report(&(options){.contexts = o->contexts, .key = (char *)o->key}, in[0]->context, "mean");
    return y.n ? y.v[0] : NULL;
}
