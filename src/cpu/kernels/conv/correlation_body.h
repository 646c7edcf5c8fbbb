/* Correlation of one image for one element type: included with T, NAME(x) and ABSOLUTE defined.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* Planes [begin, end) of both maps with zeros around; in backward the sums of their gradients are cleared, too. */
static void NAME(pad_planes)(void *arg, int64_t begin, int64_t end)
{
    const correlation_job *job = arg;
    const mx_correlation_sizes *c = &job->c;
    const int64_t each = job->high * job->wide;
    for (int64_t p = begin; p < end; p++) {
        const int64_t map = p / c->channels, channel = p % c->channels;
        T *to = (T *)job->padded[map] + channel * each;
        memset(to, 0, (size_t)each * sizeof(T));
        if (job->g)
            memset((T *)job->sum[map] + channel * each, 0, (size_t)each * sizeof(T));
        for (int64_t y = 0; y < c->height; y++)
            memcpy(to + (y + c->pad) * job->wide + c->pad,
                   (const T *)job->from[map] + (channel * c->height + y) * c->width, (size_t)c->width * sizeof(T));
    }
}

/* out[j] += a[j * stride] * b[j * stride], or the absolute difference */
static void NAME(add_row)(T *restrict out, const T *restrict a, const T *restrict b, int64_t n, int64_t stride,
                          bool multiply)
{
    if (multiply && stride == 1)
        for (int64_t j = 0; j < n; j++)
            out[j] += a[j] * b[j];
    else if (multiply)
        for (int64_t j = 0; j < n; j++)
            out[j] += a[j * stride] * b[j * stride];
    else
        for (int64_t j = 0; j < n; j++)
            out[j] += ABSOLUTE(a[j * stride] - b[j * stride]);
}

/* Rows [begin, end) of displacements * rows. */
static void NAME(forward)(void *arg, int64_t begin, int64_t end)
{
    const correlation_job *job = arg;
    const mx_correlation_sizes *c = &job->c;
    const T scale = (T)1 / (T)(c->kernel * c->kernel * c->channels);
    for (int64_t r = begin; r < end; r++) {
        const int64_t move = r / c->rows, y = r % c->rows * c->stride + c->reach;
        const int64_t away =
            (move / c->grid - c->radius) * c->step * job->wide + (move % c->grid - c->radius) * c->step;
        T *out = (T *)job->out + r * c->columns;
        memset(out, 0, (size_t)c->columns * sizeof(T));
        for (int64_t k = 0; k < c->channels * c->kernel * c->kernel; k++) {
            const int64_t channel = k / c->kernel / c->kernel,
                          at = ((channel * job->high) + y + k / c->kernel % c->kernel) * job->wide + c->reach +
                               k % c->kernel;
            NAME(add_row)(out, (const T *)job->padded[0] + at, (const T *)job->padded[1] + at + away, c->columns,
                          c->stride, job->multiply);
        }
        for (int64_t j = 0; j < c->columns; j++)
            out[j] *= scale;
    }
}

/* One row of patches: da += g b, db += g a; or the signs of the difference. */
static void NAME(add_back)(T *restrict da, T *restrict db, const T *restrict g, const T *restrict a,
                           const T *restrict b, int64_t n, int64_t stride, bool multiply)
{
    if (multiply)
        for (int64_t j = 0; j < n; j++) {
            da[j * stride] += g[j] * b[j * stride];
            db[j * stride] += g[j] * a[j * stride];
        }
    else
        for (int64_t j = 0; j < n; j++) {
            const T signed_g = a[j * stride] >= b[j * stride] ? g[j] : -g[j];
            da[j * stride] += signed_g;
            db[j * stride] -= signed_g;
        }
}

/* Planes [begin, end) of both gradients. */
static void NAME(backward)(void *arg, int64_t begin, int64_t end)
{
    const correlation_job *job = arg;
    const mx_correlation_sizes *c = &job->c;
    const T scale = (T)1 / (T)(c->kernel * c->kernel * c->channels);
    const int64_t rows_at_once = 1 + PRODUCTS_AT_ONCE / (c->kernel * c->kernel * c->columns + 1);
    for (int64_t channel = begin; channel < end; channel++) {
        for (int64_t r = 0; r < c->grid * c->grid * c->rows && (r % rows_at_once || !mx_stop_wanted()); r++)
            for (int64_t k = 0; k < c->kernel * c->kernel; k++) {
                const int64_t move = r / c->rows, y = r % c->rows * c->stride + c->reach + k / c->kernel;
                const int64_t at = (channel * job->high + y) * job->wide + c->reach + k % c->kernel;
                const int64_t to =
                    at + (move / c->grid - c->radius) * c->step * job->wide + (move % c->grid - c->radius) * c->step;
                NAME(add_back)((T *)job->sum[0] + at, (T *)job->sum[1] + to, (const T *)job->g + r * c->columns,
                               (const T *)job->padded[0] + at, (const T *)job->padded[1] + to, c->columns, c->stride,
                               job->multiply);
            }
        for (int map = 0; map < 2; map++)
            for (int64_t e = 0; e < c->height * c->width; e++)
                ((T *)job->to[map])[channel * c->height * c->width + e] =
                    scale * ((const T *)job->sum[map])[(channel * job->high + e / c->width + c->pad) * job->wide +
                                                       e % c->width + c->pad];
    }
}
