/* LeakyReLU and the gradients of Activation for element type T: included once per type (see activation.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */

#define EACH                                        \
    MX_IVDEP                                        \
    for (int64_t i = begin; i < end; i++)

static void NAME(activation_backward)(void *arg, int64_t begin, int64_t end)
{
    const activation_job *job = arg;
    const T *g = job->in[0], *y = job->in[1];
    T *dx = job->out;
    switch (job->type) {
    case MX_ACTIVATION_RELU: EACH dx[i] = y[i] > 0 ? g[i] : 0; break;
    case MX_ACTIVATION_SIGMOID: EACH dx[i] = g[i] * (y[i] * (1 - y[i])); break;
    case MX_ACTIVATION_TANH: EACH dx[i] = g[i] * (1 - y[i] * y[i]); break;
    case MX_ACTIVATION_SOFTRELU: EACH dx[i] = g[i] * (1 - EXP(-y[i])); break;
    default: EACH dx[i] = g[i] * ((1 - FABS(y[i])) * (1 - FABS(y[i]))); break;
    }
}

static void NAME(leaky)(void *arg, int64_t begin, int64_t end)
{
    const activation_job *job = arg;
    const T *x = job->in[0], *slopes = job->in[1], slope = (T)job->slope;
    T *y = job->out;
    switch (job->type) {
    case MX_LEAKY_RELU_LEAKY: EACH y[i] = x[i] > 0 ? x[i] : slope * x[i]; break;
    case MX_LEAKY_RELU_RRELU: EACH y[i] = x[i] > 0 ? x[i] : slopes[i] * x[i]; break;
    case MX_LEAKY_RELU_PRELU:
        for (int64_t i = begin; i < end; i++)
            y[i] = x[i] > 0 ? x[i] : slopes[i / job->inner % job->channels] * x[i];
        break;
    case MX_LEAKY_RELU_ELU: EACH y[i] = x[i] > 0 ? x[i] : slope * EXPM1(x[i]); break;
    case MX_LEAKY_RELU_SELU: EACH y[i] = (T)SELU_SCALE * (x[i] > 0 ? x[i] : (T)SELU_ALPHA * EXPM1(x[i])); break;
    default: EACH y[i] = x[i] * (T)0.5 * (1 + ERF(x[i] * (T)0.70710678118654752440)); break;
    }
}

static void NAME(leaky_backward)(void *arg, int64_t begin, int64_t end)
{
    const activation_job *job = arg;
    const T *g = job->in[0], *x = job->in[1], *slopes = job->in[2], slope = (T)job->slope;
    T *dx = job->out;
    switch (job->type) {
    case MX_LEAKY_RELU_LEAKY: EACH dx[i] = x[i] > 0 ? g[i] : slope * g[i]; break;
    case MX_LEAKY_RELU_RRELU: EACH dx[i] = x[i] > 0 ? g[i] : slopes[i] * g[i]; break;
    case MX_LEAKY_RELU_PRELU:
        for (int64_t i = begin; i < end; i++)
            dx[i] = x[i] > 0 ? g[i] : slopes[i / job->inner % job->channels] * g[i];
        break;
    case MX_LEAKY_RELU_ELU: EACH dx[i] = x[i] > 0 ? g[i] : slope * EXP(x[i]) * g[i]; break;
    case MX_LEAKY_RELU_SELU: EACH dx[i] = (T)SELU_SCALE * (x[i] > 0 ? g[i] : (T)SELU_ALPHA * EXP(x[i]) * g[i]); break;
    default:
        EACH dx[i] = g[i] * ((T)0.5 * (1 + ERF(x[i] * (T)0.70710678118654752440)) +
                             x[i] * EXP(x[i] * x[i] * (T)-0.5) * (T)0.39894228040143267794);
        break;
    }
}

/* dgamma[c] = sum of g x over the elements of channel c where x <= 0; channels go to threads. */
static void NAME(prelu_sums)(void *arg, int64_t begin, int64_t end)
{
    const activation_job *job = arg;
    const T *g = job->in[0], *x = job->in[1];
    for (int64_t c = begin; c < end; c++) {
        double sum = 0;
        for (int64_t outer = 0; outer < job->outer; outer++) {
            const int64_t at = (outer * job->channels + c) * job->inner;
            for (int64_t i = at; i < at + job->inner; i++)
                sum += x[i] > 0 ? 0 : (double)g[i] * (double)x[i];
        }
        ((T *)job->sums)[c] = (T)sum;
    }
}

#undef EACH
