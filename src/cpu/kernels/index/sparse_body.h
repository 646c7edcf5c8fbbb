/* _rows_sum for element type T: included once per type with T and NAME(x) defined.
 *
 * SPDX-License-Identifier: Apache-2.0 */

static void NAME(sum_rows)(const rows_job *job, int64_t begin, int64_t end)
{
    const int64_t run = job->run;
    const T *data = job->data, *factor = job->factor;
    for (int64_t i = begin; i < end; i++) {
        T *out = (T *)job->out + i * run;
        memset(out, 0, (size_t)run * sizeof(T));
        for (int64_t k = job->start[i]; k < job->start[i + 1]; k++) {
            const T *row = data + job->row[k] * run;
            const T f = factor ? factor[k] : (T)1;
            MX_IVDEP
            for (int64_t c = 0; c < run; c++)
                out[c] += f * row[c];
        }
    }
}
