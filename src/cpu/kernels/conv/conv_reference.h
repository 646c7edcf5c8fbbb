/* The reference convolution loops for one type: included once per T (element) with NAME(x) giving the function names.
 *
 * Every sum is taken in double, in the order of the loops.  Nothing here is fast; the other kernels are compared with it.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* One element of y without its bias: the sum over input channels and kernel elements inside the input. */
static double NAME(sum_products)(const mx_conv_shape *s, const conv_place *p, const T *x, const T *w)
{
    const int64_t from = s->in_channels / s->groups, group = p->o / (s->out_channels / s->groups);
    double sum = 0;
    for (int64_t c = 0; c < from; c++)
        for (int64_t k0 = 0; k0 < s->kernel[0]; k0++)
            for (int64_t k1 = 0; k1 < s->kernel[1]; k1++)
                for (int64_t k2 = 0; k2 < s->kernel[2]; k2++) {
                    const int64_t k[3] = {k0, k1, k2};
                    const int64_t i = conv_place_input(s, p, k, group * from + c);
                    if (i >= 0)
                        sum += (double)x[i] * (double)w[conv_place_weight(s, p->o, c, k)];
                }
    return sum;
}

static void NAME(forward)(const mx_conv_shape *s, const T *x, const T *w, const T *bias, bool relu, T *y)
{
    conv_place p;
    for (conv_place_begin(&p); conv_place_valid(s, &p); conv_place_next(s, &p)) {
        const double sum = NAME(sum_products)(s, &p, x, w) + (bias ? (double)bias[p.o] : 0.0);
        y[conv_place_output(s, &p)] = (T)(relu && sum < 0 ? 0 : sum);
    }
}

/* dx[i] += dy[p] * w[k] and dw[k] += dy[p] * x[i] over the same products; NULL if not needed. */
static void NAME(backward)(const mx_conv_shape *s, const T *x, const T *w, const T *dy, T *dx, T *dw)
{
    const int64_t from = s->in_channels / s->groups;
    conv_place p;
    for (conv_place_begin(&p); conv_place_valid(s, &p); conv_place_next(s, &p)) {
        const int64_t group = p.o / (s->out_channels / s->groups);
        const T d = dy[conv_place_output(s, &p)];
        for (int64_t c = 0; c < from; c++)
            for (int64_t k0 = 0; k0 < s->kernel[0]; k0++)
                for (int64_t k1 = 0; k1 < s->kernel[1]; k1++)
                    for (int64_t k2 = 0; k2 < s->kernel[2]; k2++) {
                        const int64_t k[3] = {k0, k1, k2};
                        const int64_t i = conv_place_input(s, &p, k, group * from + c);
                        if (i < 0)
                            continue;
                        const int64_t at = conv_place_weight(s, p.o, c, k);
                        if (dx)
                            dx[i] += d * w[at];
                        else
                            dw[at] += d * x[i];
                    }
    }
}

static void NAME(bias_sums)(const mx_conv_shape *s, const T *dy, T *dbias)
{
    conv_place p;
    for (int64_t o = 0; o < s->out_channels; o++)
        dbias[o] = 0;
    for (conv_place_begin(&p); conv_place_valid(s, &p); conv_place_next(s, &p))
        dbias[p.o] += dy[conv_place_output(s, &p)];
}
