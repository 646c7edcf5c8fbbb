/* LeakyReLU with several slopes for element type T: included once per type (see activation.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* in: x, g, slopes.  One slope per element (rrelu: channels is 0), or per channel. */
#define SLOPE_LOOPS(name, expression)                                                                                \
    static void NAME(name)(void *arg, int64_t begin, int64_t end)                                                    \
    {                                                                                                                \
        const activation_job *job = arg;                                                                             \
        const T *xs = job->in[0], *gs = job->in[1], *slopes = job->in[2];                                            \
        T *out = job->out;                                                                                           \
        if (!job->channels)                                                                                          \
            MX_IVDEP for (int64_t i = begin; i < end; i++)                                                           \
            {                                                                                                        \
                __attribute__((unused)) const T x = xs[i], g = gs[i], p = slopes[i];                                 \
                out[i] = (T)(expression);                                                                            \
            }                                                                                                        \
        else                                                                                                         \
            for (int64_t i = begin; i < end; i++) {                                                                  \
                __attribute__((unused)) const T x = xs[i], g = gs[i],                                                \
                                                p = slopes[i / job->inner % job->channels];                          \
                out[i] = (T)(expression);                                                                            \
            }                                                                                                        \
    }
MX_SLOPE_ROWS(SLOPE_LOOPS)
#undef SLOPE_LOOPS

/* dgamma[c] = sum of g x over the elements of channel c where x <= 0; parallel over channels. */
static void NAME(prelu_sums)(void *arg, int64_t begin, int64_t end)
{
    const activation_job *job = arg;
    const T *x = job->in[0], *g = job->in[1];
    for (int64_t c = begin; c < end; c++) {
        double sum = 0;
        for (int64_t outer = 0; outer < job->outer; outer++) {
            const int64_t at = (outer * job->channels + c) * job->inner;
            for (int64_t i = at; i < at + job->inner && !mx_stop_wanted_at(i); i++)
                sum += x[i] > 0 ? 0 : (double)g[i] * (double)x[i];
        }
        ((T *)job->sums)[c] = (T)sum;
    }
}
