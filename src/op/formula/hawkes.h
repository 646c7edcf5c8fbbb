/* Hawkes processes: one pass over the events of a sample, which tracks the memory of every kind and its slopes.
 *
 * Between two events of a kind, d apart, its memory m decays: m -> m exp(-beta d) + 1.  Everything is computed in
 * double, with the same functions on every device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_HAWKES_H
#define MX_OP_HAWKES_H

#include <math.h>
#include <stdbool.h>

#include "base/rng.h"

#ifndef MX_HAWKES_STOP
#define MX_HAWKES_STOP(event) false /* where work can be interrupted: whether it should end now, without a result */
#endif

enum mx_hawkes_input {
    MX_HAWKES_LDA, MX_HAWKES_ALPHA, MX_HAWKES_BETA, MX_HAWKES_STATE, MX_HAWKES_LAGS, MX_HAWKES_MARKS, MX_HAWKES_LENGTH,
    MX_HAWKES_MAX_TIME, MX_HAWKES_INPUTS
};

typedef struct mx_hawkes {
    const double *in[MX_HAWKES_INPUTS + 2]; /* the inputs as doubles; backwards also the two gradients */
    double *out[4];                         /* backwards: of alpha and beta per sample (N, K) */
    double *memory; /* (N, 4, K): memory, its slopes by beta and by the state, time of the last event */
    int64_t kinds, times;
    bool back;
} mx_hawkes;

/* Advances the memory of a kind by d; adds what the likelihood loses in that time. */
MX_ANY_DEVICE static inline void mx_hawkes_fade(const mx_hawkes *job, int64_t n, int64_t k, double d,
                                                double *likelihood)
{
    const int64_t kinds = job->kinds, i = n * kinds + k;
    double *m = job->memory + 4 * n * kinds + k, *by_beta = m + kinds, *by_state = by_beta + kinds;
    const double lda = job->in[MX_HAWKES_LDA][i], alpha = job->in[MX_HAWKES_ALPHA][k],
                 beta = job->in[MX_HAWKES_BETA][k], g = job->back ? job->in[MX_HAWKES_INPUTS][n] : 0;
    const double left = exp(-beta * d), gone = 1 - left;
    *likelihood -= lda * d + alpha * *m * gone;
    if (job->back) {
        job->out[0][i] -= g * d, job->out[1][i] -= g * *m * gone;
        job->out[2][i] -= g * alpha * (*by_beta * gone + *m * d * left), job->out[3][i] -= g * alpha * *by_state * gone;
    }
    *by_beta = (*by_beta - *m * d) * left, *by_state *= left, *m *= left;
}

/* An event of kind k: its intensity, then its memory grows by one. */
MX_ANY_DEVICE static inline void mx_hawkes_happen(const mx_hawkes *job, int64_t n, int64_t k, double *likelihood)
{
    const int64_t kinds = job->kinds, i = n * kinds + k;
    double *m = job->memory + 4 * n * kinds + k, *by_beta = m + kinds, *by_state = by_beta + kinds;
    const double alpha = job->in[MX_HAWKES_ALPHA][k], beta = job->in[MX_HAWKES_BETA][k],
                 lambda = job->in[MX_HAWKES_LDA][i] + alpha * beta * *m;
    *likelihood += log(lambda);
    if (job->back) {
        const double g = job->in[MX_HAWKES_INPUTS][n] / lambda;
        job->out[0][i] += g, job->out[1][i] += g * beta * *m;
        job->out[2][i] += g * alpha * (*m + beta * *by_beta), job->out[3][i] += g * alpha * beta * *by_state;
    }
    *m += 1;
}

/* Sample n from its first event to max_time. */
MX_ANY_DEVICE static inline void mx_hawkes_sample(const mx_hawkes *job, int64_t n)
{
    const int64_t kinds = job->kinds;
    double *memory = job->memory + 4 * n * kinds, *last = memory + 3 * kinds, t = 0, likelihood = 0;
    const double length = job->in[MX_HAWKES_LENGTH][n];
    const int64_t events = !(length > 0) ? 0 : length > (double)job->times ? job->times : (int64_t)length;
    for (int64_t k = 0; k < kinds; k++)
        memory[k] = job->in[MX_HAWKES_STATE][n * kinds + k], memory[kinds + k] = 0, memory[2 * kinds + k] = 1,
        last[k] = 0;
    for (int64_t e = n * job->times; e < n * job->times + events && !MX_HAWKES_STOP(e); e++) {
        const int64_t k = (int64_t)job->in[MX_HAWKES_MARKS][e];
        t += job->in[MX_HAWKES_LAGS][e];
        mx_hawkes_fade(job, n, k, t - last[k], &likelihood);
        mx_hawkes_happen(job, n, k, &likelihood);
        last[k] = t;
    }
    for (int64_t k = 0; k < kinds; k++) {
        mx_hawkes_fade(job, n, k, job->in[MX_HAWKES_MAX_TIME][n] - last[k], &likelihood);
        if (job->back) {
            const double h = job->in[MX_HAWKES_INPUTS + 1][n * kinds + k];
            job->out[2][n * kinds + k] += h * memory[kinds + k];
            job->out[3][n * kinds + k] += h * memory[2 * kinds + k];
        } else
            job->out[1][n * kinds + k] = memory[k];
    }
    if (!job->back)
        job->out[0][n] = likelihood;
}

#endif
