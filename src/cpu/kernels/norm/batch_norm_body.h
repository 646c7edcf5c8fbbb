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

/* dx = p g + (q (x - mean) + r), which compilers can contract in one way only */
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

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static void NAME(limit_row)(const norm_job *job, T *y, int64_t n)
{
    if (isnan(job->bounds[1]))
        LOOPS[MX_ROW_relu].unary(y, y, n);
    else
        NUMBERS[MX_NUMBER_clip](y, y, y, n, job->bounds);
}

/* The gradients of results y before the limit, in their place. */
static void NAME(flow_row)(const norm_job *job, const T *g, T *y, int64_t n)
{
    if (isnan(job->bounds[1]))
        LOOPS[MX_ROW_relu].backward(g, y, y, y, n);
    else
        NUMBERS[MX_NUMBER_clip_gradient](y, g, y, n, job->bounds);
}

/* ---- planes ---------------------------------------------------------------------------------------------------- */

static void NAME(normalise_row)(const T *x, T *y, int64_t n, T mean, T scale, T beta)
{
    MX_IVDEP
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * scale + beta;
}

/* The same, limited while it is in the first-level cache. */
static void NAME(limited_row)(const norm_job *job, const T *x, T *y, int64_t n, T mean, T scale, T beta)
{
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t count = n - i < PIECE ? n - i : PIECE;
        NAME(normalise_row)(x + i, y + i, count, mean, scale, beta);
        if (job->limit)
            NAME(limit_row)(job, y + i, count);
    }
}

/* The gradient of one channel: g, or at most PIECE elements of it that flow through the limit, in `room`. */
static const T *NAME(flow)(const norm_job *job, const T *g, const T *x, int64_t n, int64_t c, T *room)
{
    if (!job->limit)
        return g;
    const T *gamma = job->gamma, *beta = job->beta, *mean = job->mean, *inverse = job->inverse;
    NAME(normalise_row)(x, room, n, mean[c], inverse[c] * (job->fix_gamma ? 1 : gamma[c]), beta[c]);
    NAME(flow_row)(job, g, room, n);
    return room;
}

/* The same for neighbouring elements of the channels from c on. */
static const T *NAME(flow_flat)(const norm_job *job, const T *g, const T *x, int64_t n, int64_t c, T *room)
{
    if (!job->limit)
        return g;
    const T *gamma = job->gamma, *beta = job->beta, *mean = job->mean, *inverse = job->inverse;
    MX_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const T scale = inverse[c + i] * (job->fix_gamma ? 1 : gamma[c + i]);
        room[i] = (x[i] - mean[c + i]) * scale + beta[c + i];
    }
    NAME(flow_row)(job, g, room, n);
    return room;
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
            NAME(limited_row)(job, x + o * job->channels * job->inner, y + o * job->channels * job->inner, job->inner,
                              mean[c], scale, beta[c]);
    }
}

static void NAME(plane_products)(const T *g, const T *x, const norm_job *job, int64_t c, double *sum, double *products)
{
    T room[PIECE];
    for (int64_t o = 0; o < job->outer; o++)
        for (int64_t i = 0; i < job->inner; i += PIECE) {
            const int64_t at = o * job->channels * job->inner + i, n = job->inner - i < PIECE ? job->inner - i : PIECE;
            T s = 0, q = 0;
            NAME(row_products)(NAME(flow)(job, g + at, x + at, n, c, room), x + at, n, ((const T *)job->mean)[c], &s,
                               &q);
            *sum += (double)s, *products += (double)q;
        }
}

static void NAME(slope_row)(const T *g, const T *x, T *dx, int64_t n, T mean, NAME(line) k)
{
    MX_IVDEP
    for (int64_t i = 0; i < n; i++)
        dx[i] = k.p * g[i] + (k.q * (x[i] - mean) + k.r);
}

static void NAME(planes_backward)(void *arg, int64_t begin, int64_t end)
{
    const norm_job *job = arg;
    T room[PIECE];
    for (int64_t c = begin; c < end; c++) {
        const T *g = (const T *)job->ograd + c * job->inner, *x = (const T *)job->data + c * job->inner;
        T *dx = (T *)job->out + c * job->inner;
        const T mean = ((const T *)job->mean)[c];
        double sum = 0, products = 0;
        NAME(plane_products)(g, x, job, c, &sum, &products);
        const NAME(line) k = NAME(finish_backward)(job, c, sum, products);
        for (int64_t o = 0; o < job->outer; o++)
            for (int64_t i = 0; i < job->inner; i += PIECE) {
                const int64_t at = o * job->channels * job->inner + i,
                              n = job->inner - i < PIECE ? job->inner - i : PIECE;
                NAME(slope_row)(NAME(flow)(job, g + at, x + at, n, c, room), x + at, dx + at, n, mean, k);
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
    T room[PIECE];
    for (int64_t chunk = begin; chunk < end; chunk++) {
        T *sum = (T *)job->partial + chunk * 2 * channels, *products = sum + channels;
        memset(sum, 0, (size_t)(2 * channels) * sizeof(T));
        const int64_t last = (chunk + 1) * job->chunk < job->outer ? (chunk + 1) * job->chunk : job->outer;
        for (int64_t row = chunk * job->chunk; row < last; row++) {
            const T *x = (const T *)job->data + row * channels * inner,
                    *g = (const T *)job->ograd + row * channels * inner;
            for (int64_t c = 0; inner > 1 && c < channels; c++)
                NAME(row_products)(NAME(flow)(job, g + c * inner, x + c * inner, inner, c, room), x + c * inner, inner,
                                   mean[c], &sum[c], &products[c]);
            for (int64_t c = 0; c < flat; c += PIECE) {
                const int64_t n = flat - c < PIECE ? flat - c : PIECE;
                const T *h = NAME(flow_flat)(job, g + c, x + c, n, c, room);
                MX_IVDEP
                for (int64_t i = 0; i < n; i++)
                    sum[c + i] += h[i], products[c + i] += h[i] * (x[c + i] - mean[c + i]);
            }
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
            NAME(limited_row)(job, x + c * inner, y + c * inner, inner, mean[c], scale[c], beta[c]);
        MX_IVDEP
        for (int64_t c = 0; c < flat; c++)
            y[c] = (x[c] - mean[c]) * scale[c] + beta[c];
        if (job->limit && flat)
            NAME(limit_row)(job, y, flat);
    }
}

static void NAME(rows_backward)(void *arg, int64_t begin, int64_t end)
{
    const norm_job *job = arg;
    const int64_t channels = job->channels, inner = job->inner, flat = inner == 1 ? channels : 0;
    const T *mean = job->mean, *p = job->scale, *q = p + channels, *r = q + channels;
    T room[PIECE];
    for (int64_t row = begin; row < end; row++) {
        const T *g = (const T *)job->ograd + row * channels * inner, *x = (const T *)job->data + row * channels * inner;
        T *dx = (T *)job->out + row * channels * inner;
        for (int64_t c = 0; inner > 1 && c < channels; c++)
            NAME(slope_row)(NAME(flow)(job, g + c * inner, x + c * inner, inner, c, room), x + c * inner,
                            dx + c * inner, inner, mean[c], (NAME(line)){p[c], q[c], r[c]});
        for (int64_t c = 0; c < flat; c += PIECE) {
            const int64_t n = flat - c < PIECE ? flat - c : PIECE;
            const T *h = NAME(flow_flat)(job, g + c, x + c, n, c, room);
            MX_IVDEP
            for (int64_t i = 0; i < n; i++)
                dx[c + i] = p[c + i] * h[i] + (q[c + i] * (x[c + i] - mean[c + i]) + r[c + i]);
        }
    }
}

/* With statistics that are known: the bits of the other forms. */
static void NAME(apply)(norm_job *job)
{
    const T *gamma = job->gamma, *inverse = job->inverse;
    T *scale = job->scale;
    for (int64_t c = 0; c < job->channels; c++)
        scale[c] = inverse[c] * (job->fix_gamma ? 1 : gamma[c]);
    mx_parallel(job->outer, 1 + MX_GRAIN / (job->channels * job->inner + 1), NAME(rows), job);
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
