/* The log likelihood of Hawkes processes: events of K kinds; each event makes further events of its kind more
 * likely for a while.
 *
 *     intensity of kind k at time t: lambda = lda + alpha * beta * memory(t)
 *     memory(t) = state * exp(-beta t) + sum over events of kind k at s < t of exp(-beta (t - s))
 *     log likelihood = sum over events of log(lambda) - sum over kinds of the integral of lambda over (0, max_time]
 *
 * lda, state (N, K); alpha, beta (K); lags (N, T): times between events; marks (N, T): their kinds; valid_length,
 * max_time (N). Results: the log likelihood (N) and the memory at max_time (N, K).  With A the memory at an event, M
 * the one at max_time, B = state (1 - exp(-beta T)) + sum (1 - exp(-beta (T - s))) and ' the slope by beta:
 *
 *     dlda   = g (sum 1 / lambda - T)
 *     dalpha = g (sum beta A / lambda - B)
 *     dbeta  = g (sum alpha (A + beta A') / lambda - alpha B') + h M'
 *     dstate = g (sum alpha beta exp(-beta t) / lambda - alpha (1 - exp(-beta T))) + h exp(-beta T)
 *
 * g, h: gradients of likelihood and memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "op/op.h"

enum { LDA, ALPHA, BETA, STATE, LAGS, MARKS, LENGTH, MAX_TIME, INPUTS };

static mx_code infer_shape(mx_infer *infer)
{
    const mx_shape_t *lda = &infer->in[LDA], *lags = &infer->in[LAGS];
    char text[MX_SHAPE_TEXT];
    if (mx_infer_in(infer, STATE, lda) || mx_infer_in(infer, LDA, &infer->in[STATE]) ||
        mx_infer_in(infer, MARKS, lags) || mx_infer_in(infer, LAGS, &infer->in[MARKS]))
        return mx_error_code();
    if ((lda->ndim >= 0 && lda->ndim != 2) || (lags->ndim >= 0 && lags->ndim != 2))
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted two axes", lda->ndim == 2 ? "lags" : "lda",
                          mx_shape_text(lda->ndim == 2 ? lags : lda, text));
    if (lda->ndim < 0)
        return MX_OK;
    const mx_shape_t kinds = {.ndim = 1, .dim = {lda->dim[1]}}, batch = {.ndim = 1, .dim = {lda->dim[0]}},
                     times = {.ndim = 2, .dim = {lda->dim[0], -1}};
    if (mx_infer_in(infer, ALPHA, &kinds) || mx_infer_in(infer, BETA, &kinds) || mx_infer_in(infer, LAGS, &times) ||
        mx_infer_in(infer, LENGTH, &batch) || mx_infer_in(infer, MAX_TIME, &batch) || mx_infer_out(infer, 0, &batch))
        return mx_error_code();
    return mx_infer_out(infer, 1, lda);
}

/* All of one type, but for the marks, which may be of any. */
static mx_code infer_type(mx_infer *infer)
{
    for (int i = 0; i < INPUTS; i++)
        if (i != MARKS &&
            (mx_infer_in_type(infer, i, infer->in_type[0]) || mx_infer_in_type(infer, 0, infer->in_type[i])))
            return mx_error_code();
    return mx_infer_out_type(infer, 0, infer->in_type[0]) ? mx_error_code()
                                                          : mx_infer_out_type(infer, 1, infer->in_type[0]);
}

/* The eight inputs, then the two gradients -> gradients of lda, alpha, beta, state */
static mx_code infer_backward(mx_infer *infer)
{
    if (mx_infer_through(infer, infer_shape, (const int[]){0, 1, 2, 3, 4, 5, 6, 7, -2}, (const int[]){8, 9, -2}))
        return mx_error_code();
    for (int i = 0; i < 4; i++)
        if (mx_infer_out(infer, i, &infer->in[i]))
            return mx_error_code();
    return MX_OK;
}

static mx_code infer_backward_type(mx_infer *infer)
{
    for (int i = 0; i < infer->n_in; i++)
        if (i != MARKS && mx_infer_in_type(infer, i, infer->in_type[0]))
            return mx_error_code();
    for (int i = 0; i < 4; i++)
        if (mx_infer_out_type(infer, i, infer->in_type[0]))
            return mx_error_code();
    return MX_OK;
}

static mx_code gradient(mx_grad *grad)
{
    mx_array *in[INPUTS + 2], *out[MX_MAX_OUTPUTS] = {NULL};
    if (grad->create_graph)
        return mx_fail(MX_ERR_AUTOGRAD, "_contrib_hawkesll has no second-order gradient");
    memcpy(in, grad->in, INPUTS * sizeof *in);
    in[INPUTS] = grad->ograd[0] ? grad->ograd[0] : mx_g1("zeros_like", grad->in[MAX_TIME]);
    in[INPUTS + 1] = grad->ograd[1] ? grad->ograd[1] : mx_g1("zeros_like", grad->in[STATE]);
    if (!in[INPUTS] || !in[INPUTS + 1] ||
        mx_invoke(MX_OP("_backward__contrib_hawkesll"), NULL, INPUTS + 2, in, MX_MAX_OUTPUTS, out))
        return mx_error_code();
    for (int i = 0; i < 4; i++)
        grad->igrad[i] = grad->wanted[i] ? out[i] : NULL;
    return MX_OK;
}

/* ---- reference: the sums above, evaluated literally ----------------------------------------------------------- */

typedef struct process { /* one kind in one sample */
    double lda, alpha, beta, state, max_time;
    const double *lags, *marks;
    int64_t kind, events;
} process;

static process process_of(const mx_reference_call *call, int64_t n, int64_t k)
{
    const int64_t kinds = call->in_shape[LDA].dim[1], times = call->in_shape[LAGS].dim[1];
    const double length = call->in[LENGTH][n];
    return (process){call->in[LDA][n * kinds + k], call->in[ALPHA][k], call->in[BETA][k], call->in[STATE][n * kinds + k], call->in[MAX_TIME][n],
                     call->in[LAGS] + n * times, call->in[MARKS] + n * times, k,
                     !(length > 0) ? 0 : length > (double)times ? times : (int64_t)length};
}

/* state * f(t) + sum over the first `events` events of the kind of f(t - s) */
static double remembered(const process *p, int64_t events, double t, double (*f)(double beta, double age))
{
    double sum = p->state * f(p->beta, t), s = 0;
    for (int64_t e = 0; e < events; e++) {
        s += p->lags[e];
        if ((int64_t)p->marks[e] == p->kind)
            sum += f(p->beta, t - s);
    }
    return sum;
}
static double fading(double beta, double age) { return exp(-beta * age); }
static double fading_slope(double beta, double age) { return -age * exp(-beta * age); } /* by beta */
static double faded(double beta, double age) { return 1 - exp(-beta * age); }

static void reference(const mx_reference_call *call)
{
    const int64_t batch = call->in_shape[LDA].dim[0], kinds = call->in_shape[LDA].dim[1];
    for (int64_t i = 0; i < batch; i++)
        call->out[0][i] = 0;
    for (int64_t i = 0; i < batch * kinds; i++) {
        const process p = process_of(call, i / kinds, i % kinds);
        double t = 0, *sum = &call->out[0][i / kinds];
        for (int64_t e = 0; e < p.events; e++) {
            t += p.lags[e];
            if ((int64_t)p.marks[e] == p.kind)
                *sum += log(p.lda + p.alpha * p.beta * remembered(&p, e, t, fading));
        }
        *sum -= p.lda * p.max_time + p.alpha * remembered(&p, p.events, p.max_time, faded);
        call->out[1][i] = remembered(&p, p.events, p.max_time, fading);
    }
}

static void ref_backward(const mx_reference_call *call)
{
    const int64_t batch = call->in_shape[LDA].dim[0], kinds = call->in_shape[LDA].dim[1];
    for (int i = 0; i < 4; i++)
        memset(call->out[i], 0, (size_t)mx_shape_size(&call->out_shape[i]) * sizeof(double));
    for (int64_t i = 0; i < batch * kinds; i++) {
        const process p = process_of(call, i / kinds, i % kinds);
        const double g = call->in[INPUTS][i / kinds], h = call->in[INPUTS + 1][i];
        const double slope = remembered(&p, p.events, p.max_time, fading_slope);
        double t = 0, sums[4] = {-p.max_time, -remembered(&p, p.events, p.max_time, faded), p.alpha * slope,
                                 -p.alpha * faded(p.beta, p.max_time)};
        for (int64_t e = 0; e < p.events; e++) {
            t += p.lags[e];
            if ((int64_t)p.marks[e] != p.kind)
                continue;
            const double memory = remembered(&p, e, t, fading), lambda = p.lda + p.alpha * p.beta * memory;
            sums[0] += 1 / lambda, sums[1] += p.beta * memory / lambda;
            sums[2] += p.alpha * (memory + p.beta * remembered(&p, e, t, fading_slope)) / lambda;
            sums[3] += p.alpha * p.beta * fading(p.beta, t) / lambda;
        }
        call->out[0][i] = g * sums[0], call->out[1][i % kinds] += g * sums[1];
        call->out[2][i % kinds] += g * sums[2] + h * slope;
        call->out[3][i] = g * sums[3] + h * fading(p.beta, p.max_time);
    }
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
mx_op mx_family_hawkes[] = {
    {.name = "_contrib_hawkesll", .c_name = "hawkesll", .inputs = "lda alpha beta state lags marks valid_length max_time", .outputs = "output out_state",
     .n_out = 2, .doc = "log likelihood of Hawkes processes, and their memory at the end; marks must be valid event kinds",
     .infer_shape = infer_shape, .infer_type = infer_type, .gradient = gradient, .grad_in = 255, .no_grad_inputs = 0xf0, .reference = reference,
     .samples = SAMPLES({"2,3;3;3;2,3;2,4;2,4;2;2", "", 1, 3, "int:5 int:6 f32only"}, {"3,3;3;3;3,3;3,9;3,9;3;3", "", 0, 3, "int:5 int:6 positive f32only"},
                        {"2,2;2;2;2,2;2,0;2,0;2;2", "", 0.5, 2, "f32only"})},
    {.name = "_backward__contrib_hawkesll", .inputs = "lda alpha beta state lags marks valid_length max_time ograd ograd_state",
     .outputs = "lda alpha beta state", .n_out = 4, .doc = "gradients of hawkesll", .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT,
     .infer_shape = infer_backward, .infer_type = infer_backward_type, .reference = ref_backward,
     .samples = SAMPLES({"2,3;3;3;2,3;2,4;2,4;2;2;2;2,3", "", 1, 3, "int:5 int:6 f32only"})},
    {0},
};
