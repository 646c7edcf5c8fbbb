/* UpSampling of planes for one element type: included with T and NAME(x) defined.  SPDX-License-Identifier:
 * Apache-2.0 */

/* out[y, x] = sum over the inputs of in[y / high, x / wide] */
static void NAME(sum_planes)(void *arg, int64_t begin, int64_t end)
{
    const mx_kernel_call *call = ((const upsampling_job *)arg)->call;
    const int64_t height = call->out[0]->shape[2], width = call->out[0]->shape[3];
    for (int64_t row = begin * height; row < end * height; row++) {
        T *out = (T *)mx_data(call->out[0]) + row * width;
        memset(out, 0, (size_t)width * sizeof(T));
        for (int k = 0; k < call->n_in; k++) {
            const int64_t *s = call->in[k]->shape, wide = width / s[3], y = row % height / (height / s[2]);
            const T *in = (const T *)mx_data(call->in[k]) + (row / height * s[2] + y) * s[3];
            for (int64_t x = 0; x < s[3]; x++)
                for (int64_t q = 0; q < wide; q++)
                    out[x * wide + q] += in[x];
        }
    }
}

/* out[j * scale + shift] += in[j] * weight, within the row; n inputs give a row of n * scale */
static void NAME(add_row)(T *restrict out, const T *restrict in, T weight, int64_t n, int64_t scale, int64_t shift)
{
    const int64_t width = n * scale, first = shift < 0 ? (-shift + scale - 1) / scale : 0;
    const int64_t room = shift < width ? (width - 1 - shift) / scale + 1 : 0, end = room < n ? room : n;
    for (int64_t j = first; j < end; j++)
        out[j * scale + shift] += in[j] * weight;
}

/* out[i * scale - pad + q] += in[i] * weight[q], down and across */
static void NAME(bilinear_planes)(void *arg, int64_t begin, int64_t end)
{
    const upsampling_job *job = arg;
    const int64_t *s = job->call->in[0]->shape, kernel = job->kernel, height = s[2] * job->scale,
                  width = s[3] * job->scale;
    for (int64_t plane = begin; plane < end; plane++) {
        const T *in = (const T *)mx_data(job->call->in[0]) + plane * s[2] * s[3];
        const T *weight = (const T *)mx_data(job->call->in[1]) + plane % s[1] * kernel * kernel;
        T *out = (T *)mx_data(job->call->out[0]) + plane * height * width;
        memset(out, 0, (size_t)(height * width) * sizeof(T));
        for (int64_t i = 0; i < s[2] && (i % 8 || !mx_stop_wanted()); i++)
            for (int64_t q = 0; q < kernel * kernel; q++) {
                const int64_t y = i * job->scale - job->pad + q / kernel;
                if (y >= 0 && y < height)
                    NAME(add_row)(out + y * width, in + i * s[3], weight[q], s[3], job->scale, q % kernel - job->pad);
            }
    }
}
