/* Row normalisation for element type T: included once per type (see layer_norm.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* A row as contiguous values: itself, or gathered into `buffer`. */
static const T *NAME(gather)(const row_job *job, const void *data, int64_t row, T *buffer)
{
    const T *x = (const T *)data + row / job->step * job->n * job->step + row % job->step;
    if (job->step == 1)
        return x;
    for (int64_t k = 0; k < job->n; k++)
        buffer[k] = x[k * job->step];
    return buffer;
}

static void NAME(scatter)(const row_job *job, int64_t row, const T *buffer)
{
    T *y = (T *)job->out + row / job->step * job->n * job->step + row % job->step;
    for (int64_t k = 0; k < job->n; k++)
        y[k * job->step] = buffer[k];
}

static void NAME(row_statistics)(const row_job *job, const T *x, int64_t row)
{
    double sum = 0, squares = 0;
    const T shift = job->n ? x[0] : 0;
    for (int64_t at = 0; at < job->n; at += PIECE) {
        T s = 0, q = 0;
        NAME(row_moments)(x + at, job->n - at < PIECE ? job->n - at : PIECE, shift, &s, &q);
        sum += (double)s, squares += (double)q;
    }
    const double count = job->n ? (double)job->n : 1, offset = sum / count;
    ((T *)job->mean)[row] = (T)((double)shift + offset);
    ((T *)job->std)[row] = (T)sqrt(fmax(squares / count - offset * offset, 0) + job->eps);
}

static void NAME(forward)(void *arg, int64_t begin, int64_t end)
{
    const row_job *job = arg;
    const T *gamma = job->gamma, *beta = job->beta;
    const int64_t n = job->n;
    _Alignas(64) T tile[STREAM_ROW];
    for (int64_t chunk = begin; chunk < end; chunk++) {
        T *buffer = (T *)job->buffers + chunk * job->buffer;
        const int64_t last = (chunk + 1) * job->chunk < job->rows ? (chunk + 1) * job->chunk : job->rows;
        for (int64_t row = chunk * job->chunk; row < last; row++) {
            const T *x = NAME(gather)(job, job->data, row, buffer);
            T *y = job->stream ? tile : job->step == 1 ? (T *)job->out + row * n : buffer;
            NAME(row_statistics)(job, x, row);
            const T mean = ((T *)job->mean)[row], inverse = 1 / ((T *)job->std)[row];
            if (job->groups) {
                const T scale = inverse * gamma[row % job->groups], shift = beta[row % job->groups];
                MX_IVDEP
                for (int64_t k = 0; k < n; k++)
                    y[k] = (x[k] - mean) * scale + shift;
            } else {
                MX_IVDEP
                for (int64_t k = 0; k < n; k++)
                    y[k] = (x[k] - mean) * inverse * gamma[k] + beta[k];
            }
            if (job->stream)
                mx_stream((T *)job->out + row * n, tile, (size_t)n * sizeof(T));
            else if (job->step != 1)
                NAME(scatter)(job, row, y);
        }
    }
    if (job->stream)
        mx_stream_end();
}

/* One parameter per row: writes sums to `sums` (rows, 2); dx = gamma (g - first) / std - (x - mean) second. */
static void NAME(group_row)(const row_job *job, int64_t row, const T *g, const T *x, T *dx)
{
    const int64_t n = job->n;
    const T mean = ((const T *)job->mean)[row], inverse = 1 / ((const T *)job->std)[row],
            gamma = ((const T *)job->gamma)[row % job->groups];
    double sum = 0, products = 0;
    for (int64_t at = 0; at < n; at += PIECE) {
        T s = 0, p = 0;
        NAME(row_products)(g + at, x + at, n - at < PIECE ? n - at : PIECE, mean, &s, &p);
        sum += (double)s, products += (double)p;
    }
    double *sums = job->sums;
    sums[2 * row] = sum, sums[2 * row + 1] = products * (double)inverse;
    const T scale = gamma * inverse, first = (T)(sum / (double)n),
            second = (T)(products / (double)n) * inverse * inverse;
    MX_IVDEP
    for (int64_t k = 0; k < n; k++)
        dx[k] = scale * (g[k] - first - (x[k] - mean) * second);
}

/* One parameter per value: dgamma and dbeta are added up per chunk. */
static void NAME(value_row)(const row_job *job, int64_t row, const T *g, const T *x, T *dx, T *gamma_sum, T *beta_sum)
{
    const int64_t n = job->n;
    const T *gamma = job->gamma, mean = ((const T *)job->mean)[row], inverse = 1 / ((const T *)job->std)[row];
    double sum = 0, products = 0;
    for (int64_t at = 0; at < n; at += PIECE) {
        T s = 0, p = 0;
        NAME(row_weighted)(g + at, gamma + at, x + at, n - at < PIECE ? n - at : PIECE, mean, &s, &p);
        sum += (double)s, products += (double)p;
    }
    const T first = (T)(sum / (double)n), second = (T)(products / (double)n) * inverse * inverse;
    MX_IVDEP
    for (int64_t k = 0; k < n; k++) {
        const T gk = g[k], centered = x[k] - mean;
        gamma_sum[k] += gk * centered * inverse;
        beta_sum[k] += gk;
        dx[k] = inverse * (gk * gamma[k] - first - centered * second);
    }
}

static void NAME(backward)(void *arg, int64_t begin, int64_t end)
{
    const row_job *job = arg;
    const int64_t n = job->n;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        T *gamma_sum = (T *)job->buffers + chunk * job->buffer, *beta_sum = gamma_sum + n, *spare = beta_sum + n;
        if (!job->groups)
            memset(gamma_sum, 0, (size_t)(2 * n) * sizeof(T));
        const int64_t last = (chunk + 1) * job->chunk < job->rows ? (chunk + 1) * job->chunk : job->rows;
        for (int64_t row = chunk * job->chunk; row < last; row++) {
            const T *g = NAME(gather)(job, job->ograd, row, spare), *x = NAME(gather)(job, job->data, row, spare + n);
            T *dx = job->step == 1 ? (T *)job->out + row * n : spare + 2 * n;
            if (job->groups)
                NAME(group_row)(job, row, g, x, dx);
            else
                NAME(value_row)(job, row, g, x, dx, gamma_sum, beta_sum);
            if (job->step != 1)
                NAME(scatter)(job, row, dx);
        }
    }
}

/* The sums of rows or chunks, in order. */
static void NAME(finish)(const row_job *job)
{
    T *gamma_grad = job->gamma_grad, *beta_grad = job->beta_grad;
    const double *sums = job->sums;
    for (int64_t p = 0; p < (job->groups ? job->groups : job->n); p++) {
        double of_gamma = 0, of_beta = 0;
        for (int64_t row = p; job->groups && row < job->rows; row += job->groups)
            of_beta += sums[2 * row], of_gamma += sums[2 * row + 1];
        for (int64_t chunk = 0; !job->groups && chunk < job->chunks; chunk++) {
            const T *part = (const T *)job->buffers + chunk * job->buffer;
            of_gamma += (double)part[p], of_beta += (double)part[job->n + p];
        }
        gamma_grad[p] = (T)of_gamma, beta_grad[p] = (T)of_beta;
    }
}
