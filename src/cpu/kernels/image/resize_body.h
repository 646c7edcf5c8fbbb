/* Resampling of planes for one element type: included with T and NAME(x) defined.
 *
 * Rows are blended first, a row at a time, then the columns of the blended row; transposed, in the other order.
 *
 * SPDX-License-Identifier: Apache-2.0 */

static void NAME(forward_plane)(const resample_job *job, const T *x, T *y, T *row)
{
    const int64_t W = job->from_width;
    for (int64_t i = 0; i < job->to_height && (i % 8 || !mx_stop_wanted()); i++) {
        const mx_resize_taps *d = &job->down[i];
        for (int64_t j = 0; j < W; j++)
            row[j] = (T)d->weight * x[d->first * W + j];
        for (int64_t k = 1; k < d->count; k++)
            for (int64_t j = 0; j < W; j++)
                row[j] += (T)d->next * x[(d->first + k) * W + j];
        for (int64_t j = 0; j < job->to_width; j++) {
            const mx_resize_taps *a = &job->across[j];
            T sum = (T)a->weight * row[a->first];
            for (int64_t k = 1; k < a->count; k++)
                sum += (T)a->next * row[a->first + k];
            y[i * job->to_width + j] = sum;
        }
    }
}

/* x (to) -> y (from) */
static void NAME(transposed_plane)(const resample_job *job, const T *x, T *y, T *row)
{
    const int64_t W = job->from_width;
    memset(y, 0, (size_t)(job->from_height * W) * sizeof(T));
    for (int64_t i = 0; i < job->to_height && (i % 8 || !mx_stop_wanted()); i++) {
        const mx_resize_taps *d = &job->down[i];
        memset(row, 0, (size_t)W * sizeof(T));
        for (int64_t j = 0; j < job->to_width; j++) {
            const mx_resize_taps *a = &job->across[j];
            const T value = x[i * job->to_width + j];
            for (int64_t k = 0; k < a->count; k++)
                row[a->first + k] += (T)(k ? a->next : a->weight) * value;
        }
        for (int64_t k = 0; k < d->count; k++)
            for (int64_t j = 0; j < W; j++)
                y[(d->first + k) * W + j] += (T)(k ? d->next : d->weight) * row[j];
    }
}

static void NAME(planes)(void *arg, int part, int parts)
{
    const resample_job *job = arg;
    T *row = (T *)job->rows + part * job->from_width;
    const int64_t from = job->from_height * job->from_width, to = job->to_height * job->to_width;
    for (int64_t p = job->planes * part / parts; p < job->planes * (part + 1) / parts; p++)
        if (job->transposed)
            NAME(transposed_plane)(job, (const T *)job->in + p * to, (T *)job->out + p * from, row);
        else
            NAME(forward_plane)(job, (const T *)job->in + p * from, (T *)job->out + p * to, row);
}
