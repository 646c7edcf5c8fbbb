/* The states of CTCLoss, shared by the kernels of all devices.
 *
 * The labels l1 l2 ... become states  b l1 b l2 b ...  with blanks between; alpha[t][s] is the log probability of all
 * paths that are in state s at time t, beta[t][s] that of all continuations.  Then
 *     loss = -log sum(alpha[0] beta[0]),  gradient[t][c] = softmax[t][c] - sum over states of class c of alpha beta / total
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_CTC_H
#define MX_OP_CTC_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

typedef struct mx_ctc_states { /* of one sequence */
    const int64_t *label;
    int64_t count, blank; /* states: 2 * labels + 1; class of the blank */
} mx_ctc_states;

MX_ANY_DEVICE static inline double mx_log_add(double a, double b)
{
    const double max = a > b ? a : b, min = a > b ? b : a;
    return min == -INFINITY ? max : max + log1p(exp(min - max));
}

MX_ANY_DEVICE static inline int64_t mx_ctc_class(const mx_ctc_states *q, int64_t s)
{
    return s % 2 ? q->label[s / 2] : q->blank;
}

/* State s can follow s - 2 directly: another label, without a blank between. */
MX_ANY_DEVICE static inline bool mx_ctc_skips(const mx_ctc_states *q, int64_t s)
{
    return s % 2 && s > 1 && q->label[s / 2] != q->label[s / 2 - 1];
}

/* alpha[t][s] without the probability of state s itself; before: alpha[t - 1], NULL at the first time. */
MX_ANY_DEVICE static inline double mx_ctc_arrive(const mx_ctc_states *q, const double *before, int64_t s)
{
    if (!before)
        return s < 2 ? 0 : -INFINITY;
    double sum = before[s];
    if (s > 0)
        sum = mx_log_add(sum, before[s - 1]);
    return mx_ctc_skips(q, s) ? mx_log_add(sum, before[s - 2]) : sum;
}

/* beta[t][s]; after: beta[t + 1] with the probabilities of its states, NULL at the last time. */
MX_ANY_DEVICE static inline double mx_ctc_go_on(const mx_ctc_states *q, const double *after, int64_t s)
{
    if (!after)
        return s >= q->count - 2 ? 0 : -INFINITY;
    double sum = after[s];
    if (s + 1 < q->count)
        sum = mx_log_add(sum, after[s + 1]);
    return s + 2 < q->count && mx_ctc_skips(q, s + 2) ? mx_log_add(sum, after[s + 2]) : sum;
}

/* log of the sum of all paths; last: alpha at the last time */
MX_ANY_DEVICE static inline double mx_ctc_total(const mx_ctc_states *q, const double *last)
{
    return q->count > 1 ? mx_log_add(last[q->count - 1], last[q->count - 2]) : last[0];
}

#endif
