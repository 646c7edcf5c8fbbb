/* L2Normalization and LRN for element type T: included once per type (see normalize.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */

static double NAME(product_sum)(const T *a, const T *b, int64_t n, int64_t step)
{
    double sum = 0;
    for (int64_t at = 0; step == 1 && at < n; at += PIECE)
        sum += (double)NAME(row_dot)(a + at, b + at, n - at < PIECE ? n - at : PIECE);
    for (int64_t k = 0; step != 1 && k < n; k++)
        sum += (double)(a[k * step] * b[k * step]);
    return sum;
}

static void NAME(l2_rows)(void *arg, int64_t begin, int64_t end)
{
    const norm_job *job = arg;
    const int64_t n = job->n, step = job->inner;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row / step * n * step + row % step;
        const T *x = (const T *)job->in[0] + at;
        T *y = (T *)job->out + at;
        const double norm = sqrt(NAME(product_sum)(x, x, n, step) + job->eps);
        const T inverse = (T)(1 / norm);
        ((T *)job->norm)[row] = (T)norm;
        for (int64_t k = 0; k < n; k++)
            y[k * step] = x[k * step] * inverse;
    }
}

/* dx = (g - y sum(g y)) / norm */
static void NAME(l2_rows_backward)(void *arg, int64_t begin, int64_t end)
{
    const norm_job *job = arg;
    const int64_t n = job->n, step = job->inner;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row / step * n * step + row % step;
        const T *g = (const T *)job->in[0] + at, *y = (const T *)job->in[1] + at;
        T *dx = (T *)job->out + at;
        const T sum = (T)NAME(product_sum)(g, y, n, step), inverse = 1 / ((const T *)job->norm)[row];
        for (int64_t k = 0; k < n; k++)
            dx[k * step] = (g[k * step] - y[k * step] * sum) * inverse;
    }
}

/* Channel c of sample o: item = o * channels + c.  The window is summed again for each channel: it is short. */
static void NAME(lrn_planes)(void *arg, int64_t begin, int64_t end)
{
    const norm_job *job = arg;
    const int64_t inner = job->inner, half = job->window / 2;
    for (int64_t item = begin; item < end; item++) {
        const int64_t c = item % job->n, first = c < half ? 0 : c - half,
                      last = c + half < job->n ? c + half : job->n - 1;
        const T *x = (const T *)job->in[0] + item * inner;
        T *y = (T *)job->out + item * inner, *norm = (T *)job->norm + item * inner;
        for (int64_t i = 0; i < inner; i++)
            norm[i] = 0;
        for (int64_t w = first - c; w <= last - c; w++)
            for (int64_t i = 0; i < inner; i++)
                norm[i] += x[w * inner + i] * x[w * inner + i];
        for (int64_t i = 0; i < inner; i++) {
            norm[i] = (T)job->eps + (T)job->scale * norm[i];
            y[i] = x[i] * POW(norm[i], (T)-job->beta);
        }
    }
}

static void NAME(window_planes)(void *arg, int64_t begin, int64_t end)
{
    const norm_job *job = arg;
    const int64_t inner = job->inner, half = job->window / 2;
    for (int64_t item = begin; item < end; item++) {
        const int64_t c = item % job->n, first = c < half ? 0 : c - half,
                      last = c + half < job->n ? c + half : job->n - 1;
        const T *x = (const T *)job->in[0] + item * inner;
        T *y = (T *)job->out + item * inner;
        for (int64_t i = 0; i < inner; i++)
            y[i] = 0;
        for (int64_t w = first - c; w <= last - c; w++)
            for (int64_t i = 0; i < inner; i++)
                y[i] += x[w * inner + i];
    }
}

/* dx[c] = g norm^-beta - 2 beta scale x[c] sum over the window of g x norm^(-beta - 1) */
static void NAME(lrn_planes_backward)(void *arg, int64_t begin, int64_t end)
{
    const norm_job *job = arg;
    const int64_t inner = job->inner, half = job->window / 2;
    const T factor = (T)(2 * job->beta * job->scale);
    for (int64_t item = begin; item < end; item++) {
        const int64_t c = item % job->n, first = c < half ? 0 : c - half,
                      last = c + half < job->n ? c + half : job->n - 1;
        const T *g = (const T *)job->in[0] + item * inner, *x = (const T *)job->in[1] + item * inner;
        const T *norm = (const T *)job->norm + item * inner;
        T *dx = (T *)job->out + item * inner;
        for (int64_t i = 0; i < inner; i++)
            dx[i] = 0;
        for (int64_t w = (first - c) * inner; w <= (last - c) * inner; w += inner)
            for (int64_t i = 0; i < inner; i++)
                dx[i] += g[w + i] * x[w + i] * POW(norm[w + i], (T)(-job->beta - 1));
        for (int64_t i = 0; i < inner; i++)
            dx[i] = g[i] * POW(norm[i], (T)-job->beta) - factor * x[i] * dx[i];
    }
}
