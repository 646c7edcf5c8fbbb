/* Gathering and scattering compact planes (model in conv_compact.h).  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/conv/conv_compact.h"

#include "base/scratch.h"
#include "base/threads.h"
#include "cpu/kernels/conv/conv_vector.h"

static int64_t volume(const int64_t size[3]) { return size[0] * size[1] * size[2]; }

mx_code conv_compact_open(conv_compact *c, const mx_conv_shape *s, bool of_result, bool joined)
{
    *c = (conv_compact){.images = s->batch, .channels = of_result ? s->out_channels : s->in_channels};
    for (int i = 0; i < 3; i++) {
        c->out[i] = s->out[i];
        c->in[i] = of_result ? s->out[i] : s->in[i];
        c->stride[i] = of_result ? 1 : s->stride[i];
    }
    const int64_t plane = volume(c->out);
    c->image = joined ? plane : c->channels * plane;
    c->channel = joined ? c->images * plane : plane;
    c->bytes = (size_t)(c->images * c->channels * plane) * sizeof(float);
    c->data = mx_scratch_take(c->bytes);
    return c->data ? MX_OK : conv_scratch_failed("a compact copy of the positions", c->bytes);
}

void conv_compact_close(conv_compact *c)
{
    mx_scratch_give(c->data, c->bytes);
    c->data = NULL;
}

typedef struct move_run {
    const conv_compact *c;
    const float *from; /* gather: the full array */
    float *to;         /* scatter: the full array */
} move_run;

static float *compact_plane(const conv_compact *c, int64_t number)
{
    return c->data + number / c->channels * c->image + number % c->channels * c->channel;
}

static void gather_planes(void *arg, int64_t begin, int64_t end)
{
    const move_run *r = arg;
    const conv_compact *c = r->c;
    for (int64_t i = begin; i < end; i++) {
        const float *plane = r->from + i * volume(c->in);
        float *to = compact_plane(c, i);
        for (int64_t d = 0; d < c->out[0]; d++)
            for (int64_t h = 0; h < c->out[1]; h++, to += c->out[2])
                conv_copy_strided(to, plane + (d * c->stride[0] * c->in[1] + h * c->stride[1]) * c->in[2], c->out[2],
                                  c->stride[2]);
    }
}

/* A line of the result's gradient with zeros between and after its positions, `count` floats in all. */
static void spread_line(float *to, const float *from, int64_t positions, int64_t stride, int64_t count)
{
    int64_t i = 0;
    for (; stride == 2 && i + LANES <= positions && 2 * (i + LANES) <= count; i += LANES) {
        const vfloat v = vector_load(from + i), zero = {0};
        vector_store(to + 2 * i, VECTOR_WEAVE_LOW(v, zero));
        vector_store(to + 2 * i + LANES, VECTOR_WEAVE_HIGH(v, zero));
    }
    for (int64_t p = i * stride; p < count; p++)
        to[p] = 0;
    for (; i < positions; i++)
        to[i * stride] = from[i];
}

static void finish_line(float *to, const float *from, float bias, bool relu, int64_t count)
{
    for (int64_t p = 0; p < count; p += LANES) {
        const vfloat v = vector_load_part(from + p, count - p) + vector_all(bias);
        vector_store_part(to + p, relu ? vector_max((vfloat){0}, v) : v, count - p);
    }
}

static void scatter_planes(void *arg, int64_t begin, int64_t end)
{
    const move_run *r = arg;
    const conv_compact *c = r->c;
    const bool same = c->stride[0] == 1 && c->stride[1] == 1 && c->stride[2] == 1;
    for (int64_t i = begin; i < end; i++) {
        const float *from = compact_plane(c, i);
        float *line = r->to + i * volume(c->in);
        if (same) {
            finish_line(line, from, c->bias ? c->bias[i % c->channels] : 0, c->relu, volume(c->in));
            continue;
        }
        for (int64_t d = 0; d < c->in[0]; d++)
            for (int64_t h = 0; h < c->in[1]; h++, line += c->in[2]) {
                const int64_t at_d = d / c->stride[0], at_h = h / c->stride[1];
                if (d % c->stride[0] || h % c->stride[1] || at_d >= c->out[0] || at_h >= c->out[1])
                    memset(line, 0, (size_t)c->in[2] * sizeof(float));
                else
                    spread_line(line, from + (at_d * c->out[1] + at_h) * c->out[2], c->out[2], c->stride[2], c->in[2]);
            }
    }
}

static void move_planes(const conv_compact *c, mx_range_fn move, move_run *r)
{
    mx_parallel(c->images * c->channels, MX_GRAIN / volume(c->in) + 1, move, r);
}

void conv_compact_gather(const conv_compact *c, const float *full)
{
    move_planes(c, gather_planes, &(move_run){.c = c, .from = full});
}

void conv_compact_scatter(const conv_compact *c, float *full)
{
    move_planes(c, scatter_planes, &(move_run){.c = c, .to = full});
}
