/* Sampling of images for one element type: included with T and NAME(x) defined.
 *
 * The four pixels around a position are found once for all channels.  In backward each image belongs to one thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */

static inline mx_sampler_corners NAME(corners)(const sampler_job *job, const T *grid, int64_t p)
{
    return NAME(mx_sampler_corners)(grid[p], grid[job->places + p], job->height, job->width);
}

/* Places [begin, end) of all images. */
static void NAME(sample_places)(void *arg, int64_t begin, int64_t end)
{
    const sampler_job *job = arg;
    const int64_t map = job->height * job->width;
    for (int64_t e = begin; e < end; e++) {
        const int64_t n = e / job->places, p = e % job->places;
        const mx_sampler_corners c = NAME(corners)(job, (const T *)job->grid + n * 2 * job->places, p);
        const T *data = (const T *)job->data + n * job->channels * map,
                w[4] = {(T)c.weight[0], (T)c.weight[1], (T)c.weight[2], (T)c.weight[3]};
        T *out = (T *)job->out + n * job->channels * job->places + p;
        for (int64_t i = 0; i < job->channels; i++, data += map)
            out[i * job->places] =
                w[0] * data[c.at[0]] + w[1] * data[c.at[1]] + w[2] * data[c.at[2]] + w[3] * data[c.at[3]];
    }
}

static void NAME(sample_images_back)(void *arg, int64_t begin, int64_t end)
{
    const sampler_job *job = arg;
    const int64_t map = job->height * job->width, image = job->channels * map;
    memset((T *)job->ddata + begin * image, 0, (size_t)((end - begin) * image) * sizeof(T));
    for (int64_t e = begin * job->places; e < end * job->places && !mx_stop_wanted_at(e); e++) {
        const int64_t n = e / job->places, p = e % job->places;
        const mx_sampler_corners c = NAME(corners)(job, (const T *)job->grid + n * 2 * job->places, p);
        const T *g = (const T *)job->ograd + n * job->channels * job->places + p;
        double dx = 0, dy = 0;
        for (int64_t i = 0; i < job->channels; i++)
            for (int k = 0; k < 4; k++) {
                const int64_t at = n * image + i * map + c.at[k];
                const double value = (double)((const T *)job->data)[at] * (double)g[i * job->places];
                dx += c.dx[k] * value, dy += c.dy[k] * value;
                if (c.weight[k] != 0)
                    ((T *)job->ddata)[at] += (T)c.weight[k] * g[i * job->places];
            }
        T *dgrid = (T *)job->dgrid + n * 2 * job->places + p;
        dgrid[0] = (T)mx_grid_slope(dx, job->width);
        dgrid[job->places] = (T)mx_grid_slope(dy, job->height);
    }
}

/* Rows [begin, end) of all grids. */
static void NAME(grid_rows)(void *arg, int64_t begin, int64_t end)
{
    const grid_job *job = arg;
    for (int64_t r = begin; r < end; r++) {
        const int64_t y = r % job->height, axis = r / job->height % 2, n = r / job->height / 2;
        const T *from = (const T *)job->in + (job->warp ? r * job->width : n * 6 + 3 * axis);
        const double down = mx_grid_place(y, job->height);
        T *to = (T *)job->out + r * job->width;
        for (int64_t x = 0; x < job->width; x++) {
            const double across = mx_grid_place(x, job->width);
            to[x] = job->warp ? (T)((axis ? down : across) + job->pixel[axis] * (double)from[x])
                              : (T)mx_grid_affine((double)from[0], (double)from[1], (double)from[2], across, down);
        }
    }
}

static void NAME(grid_back)(void *arg, int64_t begin, int64_t end) /* (image, axis) pairs */
{
    const grid_job *job = arg;
    for (int64_t r = begin; r < end; r++) {
        const T *g = (const T *)job->in + r * job->height * job->width;
        double sum[3] = {0};
        for (int64_t e = 0; e < job->height * job->width; e++) {
            const double v = (double)g[e];
            if (job->warp)
                ((T *)job->out)[r * job->height * job->width + e] = (T)(v * job->pixel[r % 2]);
            sum[0] += v * mx_grid_place(e % job->width, job->width),
                sum[1] += v * mx_grid_place(e / job->width, job->height), sum[2] += v;
        }
        for (int k = 0; k < 3 && !job->warp; k++)
            ((T *)job->out)[r * 3 + k] = (T)sum[k];
    }
}
