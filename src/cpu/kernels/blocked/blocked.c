/* Operators over blocked channels on top of the kernels of blocked.h; conversion of data and weights to that layout.
 *
 * Blocks as wide as a vector run the fast kernels; blocked_reference.c handles the others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/blocked/blocked.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "gluon/op.gen.h"

static int64_t at(const mx_dims *dims, int i, int64_t fallback) { return dims->n > i ? dims->d[i] : fallback; }

/* ---- to and from the layout -------------------------------------------------------------------------------------- */

typedef struct moved {
    const float *from;
    float *to;
    int64_t channels, blocks, pixels, block;
} moved;

/* LANES channels of LANES pixels: a square, transposed. */
static void to_square(const float *from, int64_t channels, int64_t pixels, int64_t left, float *to)
{
    vfloat v[LANES];
    for (int i = 0; i < LANES; i++)
        v[i] = i < channels ? vector_load_part(from + i * pixels, left) : (vfloat){0};
    vector_transpose(v);
    for (int i = 0; i < LANES && i < left; i++)
        vector_store(to + i * LANES, v[i]);
}

static void from_square(const float *from, int64_t channels, int64_t pixels, int64_t left, float *to)
{
    vfloat v[LANES];
    for (int i = 0; i < LANES; i++)
        v[i] = i < left ? vector_load(from + i * LANES) : (vfloat){0};
    vector_transpose(v);
    for (int i = 0; i < LANES && i < channels; i++)
        vector_store_part(to + i * pixels, v[i], left);
}

/* One block of one image; valid: the number of its channels that exist. */
static void to_block(const moved *m, const float *from, int64_t valid, float *to)
{
    if (m->block == LANES) {
        for (int64_t p = 0; p < m->pixels; p += LANES)
            to_square(from + p, valid, m->pixels, m->pixels - p, to + p * LANES);
        return;
    }
    for (int64_t p = 0; p < m->pixels; p++)
        for (int64_t c = 0; c < m->block; c++)
            to[p * m->block + c] = c < valid ? from[c * m->pixels + p] : 0;
}

static void from_block(const moved *m, const float *from, int64_t valid, float *to)
{
    if (m->block == LANES) {
        for (int64_t p = 0; p < m->pixels; p += LANES)
            from_square(from + p * LANES, valid, m->pixels, m->pixels - p, to + p);
        return;
    }
    for (int64_t c = 0; c < valid; c++)
        for (int64_t p = 0; p < m->pixels; p++)
            to[c * m->pixels + p] = from[p * m->block + c];
}

static void move_blocks(const moved *m, int64_t begin, int64_t end,
                        void (*one)(const moved *, const float *, int64_t, float *), bool into)
{
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = i / m->blocks, c = i % m->blocks * m->block, left = m->channels - c;
        const int64_t plain = (n * m->channels + c) * m->pixels, blocked = i * m->pixels * m->block;
        one(m, m->from + (into ? plain : blocked), left < m->block ? left : m->block, m->to + (into ? blocked : plain));
    }
}
static void to_range(void *arg, int64_t begin, int64_t end) { move_blocks(arg, begin, end, to_block, true); }
static void from_range(void *arg, int64_t begin, int64_t end) { move_blocks(arg, begin, end, from_block, false); }

static mx_code run_move(const mx_kernel_call *call, const mx_array *plain, const mx_array *blocked, mx_range_fn range)
{
    if (plain->dtype != MX_FLOAT32 || blocked->dtype != MX_FLOAT32)
        return MX_DECLINED;
    moved m = {mx_data(call->in[0]),
               mx_data(call->out[0]),
               plain->shape[1],
               blocked->shape[1],
               plain->shape[2] * plain->shape[3],
               blocked->shape[4]};
    mx_parallel(blocked->shape[0] * m.blocks, 1 + MX_GRAIN / (m.pixels * m.block + 1), range, &m);
    return MX_OK;
}
static mx_code run_to(const mx_kernel_call *call) { return run_move(call, call->in[0], call->out[0], to_range); }
static mx_code run_from(const mx_kernel_call *call) { return run_move(call, call->out[0], call->in[0], from_range); }

/* ---- weights ----------------------------------------------------------------------------------------------------- */

typedef struct packed {
    const float *w; /* (O, C, taps) */
    float *to;
    int64_t out, in, taps, block;
    int form;
} packed;

/* U = G w G' of one 3x3 window: G = ( 1 0 0 | 1/2 1/2 1/2 | 1/2 -1/2 1/2 | 0 0 1 ). */
static void transform_window(const float *w, float u[16])
{
    float half[12]; /* G w (4, 3) */
    for (int i = 0; i < 3; i++) {
        half[i] = w[i], half[9 + i] = w[6 + i];
        half[3 + i] = 0.5f * (w[i] + w[3 + i] + w[6 + i]), half[6 + i] = 0.5f * (w[i] - w[3 + i] + w[6 + i]);
    }
    for (int i = 0; i < 4; i++) {
        const float *r = half + 3 * i;
        u[4 * i] = r[0], u[4 * i + 3] = r[2];
        u[4 * i + 1] = 0.5f * (r[0] + r[1] + r[2]), u[4 * i + 2] = 0.5f * (r[0] - r[1] + r[2]);
    }
}

/* One output block of (16, O / block, C / block, block, block). */
static void pack_winograd(const packed *p, int64_t index)
{
    const int64_t blocks = (p->in + p->block - 1) / p->block, all = (p->out + p->block - 1) / p->block;
    const int64_t square = p->block * p->block;
    for (int64_t c = 0; c < blocks * p->block; c++)
        for (int64_t o = 0; o < p->block; o++) {
            const int64_t channel = index * p->block + o;
            float u[16] = {0};
            if (c < p->in && channel < p->out)
                transform_window(p->w + (channel * p->in + c) * 9, u);
            float *to = p->to + (index * blocks + c / p->block) * square + c % p->block * p->block + o;
            for (int k = 0; k < 16; k++)
                to[k * all * blocks * square] = u[k];
        }
}

/* One output block: (C / block, taps, block, block), (C, taps, block) or (taps, block). */
static void pack_block(const packed *p, int64_t index)
{
    if (p->form == MX_BLOCK_WEIGHT_WINOGRAD) {
        pack_winograd(p, index);
        return;
    }
    const int64_t inner = p->form == MX_BLOCK_WEIGHT_BLOCKED ? p->block : 1, blocks = (p->in + inner - 1) / inner;
    const int64_t first = index * p->block;
    float *to = p->to + index * blocks * p->taps * inner * p->block;
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t k = 0; k < p->taps; k++)
            for (int64_t c = b * inner; c < (b + 1) * inner; c++, to += p->block)
                for (int64_t o = 0; o < p->block; o++)
                    to[o] = first + o < p->out && c < p->in ? p->w[((first + o) * p->in + c) * p->taps + k] : 0;
}

static void pack_range(void *arg, int64_t begin, int64_t end)
{
    for (; begin < end; begin++)
        pack_block(arg, begin);
}

static mx_code run_weight(const mx_kernel_call *call)
{
    const mx_block_weight_attrs *a = call->attrs;
    const mx_array *w = call->in[0], *out = call->out[0];
    if (w->dtype != MX_FLOAT32)
        return MX_DECLINED;
    packed p = {mx_data(w), mx_data(out), w->shape[0], w->shape[1], w->shape[2] * w->shape[3], a->block, a->form};
    mx_parallel((p.out + p.block - 1) / p.block, 1 + MX_GRAIN / (p.in * p.taps * p.block + 1), pack_range, &p);
    return MX_OK;
}

/* ---- convolution ------------------------------------------------------------------------------------------------- */

static layout_finish finish_of(const mx_blocked_convolution_attrs *a)
{
    return (layout_finish){!isnan(a->low) || !isnan(a->high), isnan(a->low) ? -INFINITY : (float)a->low,
                           isnan(a->high) ? INFINITY : (float)a->high};
}

static const float *data_or_null(const mx_array *x) { return mx_is_none(x) ? NULL : mx_data(x); }

static bool is_pointwise(const layout_conv *c)
{
    const bool strided = c->stride[0] > 1 || c->stride[1] > 1;
    return !c->plain && c->kernel[0] == 1 && c->kernel[1] == 1 && !c->pad[0] && !c->pad[1] &&
           (!strided || c->out_blocks >= c->blocks); /* strided pixels are copied, which few results do not pay for */
}

static mx_code run_convolution(const mx_kernel_call *call)
{
    const mx_blocked_convolution_attrs *a = call->attrs;
    const mx_array *x = call->in[0], *w = call->in[1], *y = call->out[0];
    if (y->dtype != MX_FLOAT32 || y->shape[4] != LANES || !mx_size(x))
        return MX_DECLINED;
    if (!mx_size(y))
        return MX_OK;
    const bool depthwise = x->ndim == 5 && w->ndim == 4, winograd = x->ndim == 5 && w->ndim == 5;
    layout_conv c = {.batch = x->shape[0],
                     .blocks = x->shape[1],
                     .height = x->shape[2],
                     .width = x->shape[3],
                     .plain = x->ndim == 4,
                     .out_blocks = y->shape[1],
                     .channels = a->channels,
                     .out_height = y->shape[2],
                     .out_width = y->shape[3],
                     .x = mx_data(x),
                     .w = mx_data(w),
                     .bias = data_or_null(call->in[2]),
                     .add = data_or_null(call->in[3]),
                     .y = mx_data(y),
                     .finish = finish_of(a)};
    for (int i = 0; i < 2; i++) {
        c.kernel[i] = winograd ? 3 : w->shape[(depthwise ? 1 : 2) + i];
        c.stride[i] = at(&a->stride, i, 1), c.dilate[i] = at(&a->dilate, i, 1), c.pad[i] = at(&a->pad, i, 0);
    }
    return depthwise          ? layout_depthwise(&c)
           : winograd         ? layout_winograd(&c)
           : is_pointwise(&c) ? layout_pointwise(&c)
                              : layout_convolve(&c);
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

typedef struct pooled {
    const mx_blocked_pooling_attrs *a;
    const float *x;
    float *y;
    int64_t height, width, out_height, out_width;
    int64_t stride[2], pad[2];
} pooled;

/* The window of result pixel `o` on one axis, clipped to the data; count: elements that an average divides by. */
static void cut(const pooled *p, int axis, int64_t o, int64_t *from, int64_t *to, int64_t *count)
{
    const int64_t size = axis ? p->width : p->height;
    *from = o * p->stride[axis] - p->pad[axis];
    *to = *from + p->a->kernel.d[axis];
    *to = *to < size + p->pad[axis] ? *to : size + p->pad[axis];
    *count = *to - *from;
    *from = *from < 0 ? 0 : *from;
    *to = *to < size ? *to : size;
    if (!p->a->count_include_pad)
        *count = *to - *from;
}

static vfloat pool_window(const pooled *p, const float *plane, const int64_t *rows, const int64_t *columns)
{
    const bool max = p->a->pool_type == MX_BLOCKED_POOLING_MAX;
    vfloat v = vector_all(max ? -FLT_MAX : 0);
    for (int64_t r = rows[0]; r < rows[1]; r++) {
        const float *line = plane + r * p->width * LANES;
        if (max)
            for (int64_t c = columns[0]; c < columns[1]; c++)
                v = vector_max(vector_load(line + c * LANES), v);
        else
            for (int64_t c = columns[0]; c < columns[1]; c++)
                v += vector_load(line + c * LANES);
    }
    return v;
}

static void pool_rows(void *arg, int64_t begin, int64_t end) /* rows of all blocks of all images */
{
    const pooled *p = arg;
    for (int64_t i = begin; i < end; i++) {
        const float *plane = p->x + i / p->out_height * p->height * p->width * LANES;
        float *y = p->y + i * p->out_width * LANES;
        int64_t rows[2], columns[2], high, wide;
        cut(p, 0, i % p->out_height, &rows[0], &rows[1], &high);
        for (int64_t o = 0; o < p->out_width; o++) {
            cut(p, 1, o, &columns[0], &columns[1], &wide);
            vfloat v = pool_window(p, plane, rows, columns);
            if (p->a->pool_type == MX_BLOCKED_POOLING_AVG)
                v *= vector_all(high * wide > 0 ? 1.0f / (float)(high * wide) : 0);
            vector_store(y + o * LANES, v);
        }
    }
}

static mx_code run_pooling(const mx_kernel_call *call)
{
    const mx_blocked_pooling_attrs *a = call->attrs;
    const mx_array *x = call->in[0], *y = call->out[0];
    if (y->dtype != MX_FLOAT32 || y->shape[4] != LANES)
        return MX_DECLINED;
    pooled p = {a,
                mx_data(x),
                mx_data(y),
                x->shape[2],
                x->shape[3],
                y->shape[2],
                y->shape[3],
                {at(&a->stride, 0, 1), at(&a->stride, 1, 1)},
                {at(&a->pad, 0, 0), at(&a->pad, 1, 0)}};
    const int64_t work = p.out_width * a->kernel.d[0] * a->kernel.d[1] * LANES;
    mx_parallel(y->shape[0] * y->shape[1] * p.out_height, 1 + MX_GRAIN / (work + 1), pool_rows, &p);
    return MX_OK;
}

MX_CPU_KERNELS(blocked) = {{"_to_blocked", run_to, NULL},           {"_from_blocked", run_from, NULL},
                          {"_block_weight", run_weight, NULL},     {"_blocked_convolution", run_convolution, NULL},
                          {"_blocked_pooling", run_pooling, NULL}, {NULL, NULL, NULL}};
