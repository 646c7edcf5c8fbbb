/* Resampling rows of one type: T of elements, ACC of sums, WEIGHTS the weight array, STORE the final rounding.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* One source row (W, C) along x into ACC (W', C).  When it is inlined, the numbers of channels and weights are constants. */
static inline __attribute__((always_inline)) void NAME(along)(const table *t, int64_t width, int64_t channels,
                                                              int64_t most, const T *from, ACC *to)
{
    for (int64_t x = 0; x < width; x++) {
        const int64_t *cell = t->cell + x * most;
        const ACC *weight = t->WEIGHTS + x * most;
        for (int64_t c = 0; c < channels; c++) {
            ACC sum = 0;
            for (int64_t k = 0; k < most; k++)
                sum += weight[k] * (ACC)from[cell[k] * channels + c];
            to[x * channels + c] = sum;
        }
    }
}

static inline __attribute__((always_inline)) void NAME(along_pair)(const table *t, int64_t width, int64_t channels,
                                                                   const T *from, ACC *to)
{
    for (int64_t x = 0; x < width; x++) {
        const T *left = from + t->cell[2 * x] * channels, *right = from + t->cell[2 * x + 1] * channels;
        const ACC a = t->WEIGHTS[2 * x], b = t->WEIGHTS[2 * x + 1];
        for (int64_t c = 0; c < channels; c++)
            to[x * channels + c] = a * (ACC)left[c] + b * (ACC)right[c];
    }
}

static void NAME(along_x)(const resize_job *j, const T *from, ACC *to)
{
    const table *t = &j->columns;
    const int64_t width = j->out.width, channels = j->out.channels;
    if (t->most == 2 && channels == 3)
        NAME(along_pair)(t, width, 3, from, to);
    else if (t->most == 2)
        NAME(along_pair)(t, width, channels, from, to);
    else if (t->most == 4 && channels == 3)
        NAME(along)(t, width, 3, 4, from, to);
    else if (t->most == 8 && channels == 3)
        NAME(along)(t, width, 3, 8, from, to);
    else if (channels == 3)
        NAME(along)(t, width, 3, t->most, from, to);
    else
        NAME(along)(t, width, channels, t->most, from, to);
}

/* The rows of the ring with their weights, in pieces that stay in registers or the first-level cache. */
static void NAME(mix)(const ACC *ring, int64_t n, int64_t most, const int64_t *cell, const ACC *weight, T *to)
{
    for (int64_t begin = 0; begin < n; begin += PIECE) {
        const int64_t count = n - begin < PIECE ? n - begin : PIECE;
        const ACC *first = ring + cell[0] % most * n + begin;
        ACC sum[PIECE];
        for (int64_t i = 0; i < count; i++)
            sum[i] = weight[0] * first[i];
        for (int64_t k = 1; k < most; k++) {
            const ACC *row = ring + cell[k] % most * n + begin;
            for (int64_t i = 0; i < count; i++)
                sum[i] += weight[k] * row[i];
        }
        for (int64_t i = 0; i < count; i++)
            to[begin + i] = STORE(sum[i]);
    }
}

/* The nearest pixel: nothing is computed. */
static void NAME(pick)(const resize_job *j, const T *from, T *to)
{
    const int64_t channels = j->in.channels;
    for (int64_t x = 0; x < j->out.width; x++)
        for (int64_t c = 0; c < channels; c++)
            to[x * channels + c] = from[j->columns.cell[x] * channels + c];
}

/* A part of all output rows of all images. */
static void NAME(rows)(void *arg, int part, int parts)
{
    const resize_job *j = arg;
    const int64_t total = j->out.images * j->out.height, begin = total * part / parts, end = total * (part + 1) / parts,
                  n = j->out.width * j->out.channels, most = j->rows.most, stride = j->in.width * j->in.channels;
    int64_t *held = (int64_t *)(j->scratch + (size_t)part * j->scratch_each); /* (most): source row in each slot */
    ACC *ring = (ACC *)(held + most);                                         /* (most, W', C) */
    for (int64_t i = begin; i < end && (i % 8 || !mx_stop_wanted()); i++) {
        const int64_t image = i / j->out.height, y = i % j->out.height, *cell = j->rows.cell + y * most;
        if (most == 1 && j->columns.most == 1) {
            NAME(pick)(j, (const T *)j->from + (image * j->in.height + cell[0]) * stride, (T *)j->to + i * n);
            continue;
        }
        if (i == begin || y == 0)
            for (int64_t k = 0; k < most; k++)
                held[k] = -1;
        for (int64_t k = 0; k < most; k++) {
            const int64_t slot = cell[k] % most;
            if (held[slot] == cell[k])
                continue;
            held[slot] = cell[k];
            NAME(along_x)(j, (const T *)j->from + (image * j->in.height + cell[k]) * stride, ring + slot * n);
        }
        NAME(mix)(ring, n, most, cell, j->rows.WEIGHTS + y * most, (T *)j->to + i * n);
    }
}

#undef T
#undef ACC
#undef WEIGHTS
#undef STORE
