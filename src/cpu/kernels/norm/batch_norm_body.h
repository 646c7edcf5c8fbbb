/* BatchNorm loops for element type T: included once per type (see batch_norm.c).
 *
 * Planes: channels are far apart (inner is large); one thread owns a channel and passes over it twice.
 * Linear: memory is read from beginning to end.  Samples are split into parts of fixed size, whose sums are added in
 * order: results do not depend on the number of threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* ---- results from the sums of a channel ---------------------------------------------------------------------- */

/* From sums of x - shift and its square: mean, inverse deviation, running statistics. */
static void NAME(finish_channel)(const norm_job *job, int64_t c, double shift, double sum, double squares)
{
    T *mean = job->mean, *inverse = job->inverse, *moving_mean = job->moving_mean, *moving_var = job->moving_var;
    if (!job->batch) {
        mean[c] = moving_mean[c];
        inverse[c] = (T)(1 / sqrt((double)moving_var[c] + job->eps));
        return;
    }
    const double count = (double)(job->outer * job->inner), offset = sum / count;
    const double var = fmax(squares / count - offset * offset, 0), center = shift + offset;
    mean[c] = (T)center;
    inverse[c] = (T)(1 / sqrt(var + job->eps));
    moving_mean[c] = (T)((double)moving_mean[c] * job->momentum + center * (1 - job->momentum));
    moving_var[c] = (T)((double)moving_var[c] * job->momentum + var * (1 - job->momentum));
}

/* dx = p g + q (x - mean) + r */
typedef struct NAME(line) {
    T p, q, r;
} NAME(line);

static NAME(line) NAME(finish_backward)(const norm_job *job, int64_t c, double sum, double products)
{
    const T *gamma = job->gamma, *inverse = job->inverse;
    const double inv = (double)inverse[c], count = (double)(job->outer * job->inner);
    const double factor = (job->fix_gamma ? 1 : (double)gamma[c]) * inv;
    ((T *)job->gamma_grad)[c] = job->fix_gamma ? 0 : (T)(products * inv);
    ((T *)job->beta_grad)[c] = (T)sum;
    if (!job->batch)
        return (NAME(line)){(T)factor, 0, 0};
    return (NAME(line)){(T)factor, (T)(-factor * inv * inv * products / count), (T)(-factor * sum / count)};
}

/* ---- planes ---------------------------------------------------------------------------------------------------- */

static void NAME(normalise_row)(const T *x, T *y, int64_t n, T mean, T scale, T beta)
{
    MX_IVDEP
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * scale + beta;
}

static void NAME(plane_sums)(const T *x, const norm_job *job, double shift, double *sum, double *squares)
{
    for (int64_t o = 0; o < job->outer; o++)
        for (int64_t i = 0; i < job->inner; i += PIECE) {
            T s = 0, q = 0;
            NAME(row_moments)(x + o * job->channels * job->inner + i, job->inner - i < PIECE ? job->inner - i : PIECE,
                              (T)shift, &s, &q);
            *sum += (double)s, *squares += (double)q;
        }
}

static void NAME(planes)(void *arg, int64_t begin, int64_t end)
{
    const norm_job *job = arg;
    const T *gamma = job->gamma, *beta = job->beta, *mean = job->mean, *inverse = job->inverse;
    for (int64_t c = begin; c < end; c++) {
        const T *x = (const T *)job->data + c * job->inner;
        T *y = (T *)job->out + c * job->inner;
        double sum = 0, squares = 0;
        const double shift = job->batch ? (double)x[0] : 0;
        if (job->batch)
            NAME(plane_sums)(x, job, shift, &sum, &squares);
        NAME(finish_channel)(job, c, shift, sum, squares);
        const T scale = inverse[c] * (job->fix_gamma ? 1 : gamma[c]);
        for (int64_t o = 0; o < job->outer; o++)
            NAME(normalise_row)(x + o * job->channels * job->inner, y + o * job->channels * job->inner, job->inner,
                                mean[c], scale, beta[c]);
    }
}

static void NAME(plane_products)(const T *g, const T *x, const norm_job *job, T mean, double *sum, double *products)
{
    for (int64_t o = 0; o < job->outer; o++)
        for (int64_t i = 0; i < job->inner; i += PIECE) {
            const int64_t at = o * job->channels * job->inner + i;
            T s = 0, q = 0;
            NAME(row_products)(g + at, x + at, job->inner - i < PIECE ? job->inner - i : PIECE, mean, &s, &q);
            *sum += (double)s, *products += (double)q;
        }
}

static void NAME(slope_row)(const T *g, const T *x, T *dx, int64_t n, T mean, NAME(line) k)
{
    MX_IVDEP
    for (int64_t i = 0; i < n; i++)
        dx[i] = k.p * g[i] + k.q * (x[i] - mean) + k.r;
}

static void NAME(planes_backward)(void *arg, int64_t begin, int64_t end)
{
    const norm_job *job = arg;
    for (int64_t c = begin; c < end; c++) {
        const T *g = (const T *)job->ograd + c * job->inner, *x = (const T *)job->data + c * job->inner;
        T *dx = (T *)job->out + c * job->inner;
        const T mean = ((const T *)job->mean)[c];
        double sum = 0, products = 0;
        NAME(plane_products)(g, x, job, mean, &sum, &products);
        const NAME(line) k = NAME(finish_backward)(job, c, sum, products);
        for (int64_t o = 0; o < job->outer; o++) {
            const int64_t at = o * job->channels * job->inner;
            NAME(slope_row)(g + at, x + at, dx + at, job->inner, mean, k);
        }
    }
}

/* ---- linear -------------------------------------------------------------------------------------------------------- */

/* Part `chunk` of the samples: sums of x - shift and its square per channel, to job->partial (chunks, 2, C).  The shift
 * is the first value of the channel. */
static void NAME(chunk_sums)(void *arg, int64_t begin, int64_t end)
{
    const norm_job *job = arg;
    const int64_t channels = job->channels, inner = job->inner, flat = inner == 1 ? channels : 0;
    const T *shift = job->data;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        T *sum = (T *)job->partial + chunk * 2 * channels, *squares = sum + channels;
        memset(sum, 0, (size_t)(2 * channels) * sizeof(T));
        const int64_t last = (chunk + 1) * job->chunk < job->outer ? (chunk + 1) * job->chunk : job->outer;
        for (int64_t row = chunk * job->chunk; row < last; row++) {
            const T *x = (const T *)job->data + row * channels * inner;
            for (int64_t c = 0; inner > 1 && c < channels; c++)
                NAME(row_moments)(x + c * inner, inner, shift[c * inner], &sum[c], &squares[c]);
            MX_IVDEP
            for (int64_t c = 0; c < flat; c++) {
                const T u = x[c] - shift[c];
                sum[c] += u, squares[c] += u * u;
            }
        }
    }
}

static void NAME(chunk_products)(void *arg, int64_t begin, int64_t end)
{
    const norm_job *job = arg;
    const int64_t channels = job->channels, inner = job->inner, flat = inner == 1 ? channels : 0;
    const T *mean = job->mean;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        T *sum = (T *)job->partial + chunk * 2 * channels, *products = sum + channels;
        memset(sum, 0, (size_t)(2 * channels) * sizeof(T));
        const int64_t last = (chunk + 1) * job->chunk < job->outer ? (chunk + 1) * job->chunk : job->outer;
        for (int64_t row = chunk * job->chunk; row < last; row++) {
            const T *x = (const T *)job->data + row * channels * inner,
                    *g = (const T *)job->ograd + row * channels * inner;
            for (int64_t c = 0; inner > 1 && c < channels; c++)
                NAME(row_products)(g + c * inner, x + c * inner, inner, mean[c], &sum[c], &products[c]);
            MX_IVDEP
            for (int64_t c = 0; c < flat; c++)
                sum[c] += g[c], products[c] += g[c] * (x[c] - mean[c]);
        }
    }
}

static void NAME(total)(const norm_job *job, int64_t c, double *first, double *second)
{
    *first = *second = 0;
    for (int64_t chunk = 0; chunk < job->chunks; chunk++) {
        const T *sum = (const T *)job->partial + chunk * 2 * job->channels;
        *first += (double)sum[c], *second += (double)sum[job->channels + c];
    }
}

static void NAME(rows)(void *arg, int64_t begin, int64_t end)
{
    const norm_job *job = arg;
    const int64_t channels = job->channels, inner = job->inner, flat = inner == 1 ? channels : 0;
    const T *mean = job->mean, *scale = job->scale, *beta = job->beta;
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)job->data + row * channels * inner;
        T *y = (T *)job->out + row * channels * inner;
        for (int64_t c = 0; inner > 1 && c < channels; c++)
            NAME(normalise_row)(x + c * inner, y + c * inner, inner, mean[c], scale[c], beta[c]);
        MX_IVDEP
        for (int64_t c = 0; c < flat; c++)
            y[c] = (x[c] - mean[c]) * scale[c] + beta[c];
    }
}

static void NAME(rows_backward)(void *arg, int64_t begin, int64_t end)
{
    const norm_job *job = arg;
    const int64_t channels = job->channels, inner = job->inner, flat = inner == 1 ? channels : 0;
    const T *mean = job->mean, *p = job->scale, *q = p + channels, *r = q + channels;
    for (int64_t row = begin; row < end; row++) {
        const T *g = (const T *)job->ograd + row * channels * inner, *x = (const T *)job->data + row * channels * inner;
        T *dx = (T *)job->out + row * channels * inner;
        for (int64_t c = 0; inner > 1 && c < channels; c++)
            NAME(slope_row)(g + c * inner, x + c * inner, dx + c * inner, inner, mean[c],
                            (NAME(line)){p[c], q[c], r[c]});
        MX_IVDEP
        for (int64_t c = 0; c < flat; c++)
            dx[c] = p[c] * g[c] + q[c] * (x[c] - mean[c]) + r[c];
    }
}

static void NAME(linear)(norm_job *job)
{
    const T *gamma = job->gamma, *inverse = job->inverse, *shift = job->data;
    T *scale = job->scale;
    if (job->batch)
        mx_parallel(job->chunks, 1 + MX_GRAIN / (job->chunk * job->channels * job->inner + 1), NAME(chunk_sums), job);
    for (int64_t c = 0; c < job->channels && !mx_stop_wanted_at(c); c++) { /* running statistics need all sums */
        double sum = 0, squares = 0;
        if (job->batch)
            NAME(total)(job, c, &sum, &squares);
        NAME(finish_channel)(job, c, job->batch ? (double)shift[c * job->inner] : 0, sum, squares);
        scale[c] = inverse[c] * (job->fix_gamma ? 1 : gamma[c]);
    }
    mx_parallel(job->outer, 1 + MX_GRAIN / (job->channels * job->inner + 1), NAME(rows), job);
}

static void NAME(linear_backward)(norm_job *job)
{
    T *scale = job->scale;
    mx_parallel(job->chunks, 1 + MX_GRAIN / (job->chunk * job->channels * job->inner + 1), NAME(chunk_products), job);
    for (int64_t c = 0; c < job->channels && !mx_stop_wanted_at(c); c++) {
        double sum, products;
        NAME(total)(job, c, &sum, &products);
        const NAME(line) k = NAME(finish_backward)(job, c, sum, products);
        scale[c] = k.p, scale[job->channels + c] = k.q, scale[2 * job->channels + c] = k.r;
    }
    mx_parallel(job->outer, 1 + MX_GRAIN / (job->channels * job->inner + 1), NAME(rows_backward), job);
}
