/* Images whose pixels move: random flips, borders, resizing (op/formula/resample.h) and rotation (op/formula/rotate.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstring>

#include "cuda/kernels/movement/items.h"
#include "cuda/kernels/numbers.h"
#include "cuda/kernels/norm/planes.h"
extern "C" {
#include "op/formula/image.h"
#include "op/formula/resample.h"
#include "op/formula/rotate.h"
}

/* ---- random flips -------------------------------------------------------------------------------------------- */

/* Image n takes its coin from counter n. */
template <class T> static mx_code flip_as(const mx_kernel_call *call, bool columns)
{
    const mx_image_size s = mx_image_size_of(call->in[0]->ndim, call->in[0]->shape);
    const mx_rng rng = mx_rng_reserve((uint64_t)s.images);
    const T *from = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(call->out[0]);
    return mx_cuda_planes(
        call, s.images, s.height, s.width * s.channels, [=] __device__(int64_t n, int y, int element) {
            const int x = element / (int)s.channels, c = element % (int)s.channels;
            uint32_t words[4];
            mx_philox(rng.seed, rng.counter + (uint64_t)n, words);
            const bool turn = words[0] >> 31;
            const int64_t row = turn && !columns ? s.height - 1 - y : y, column = turn && columns ? s.width - 1 - x : x;
            to[(n * s.height + y) * s.width * s.channels + element] =
                from[((n * s.height + row) * s.width + column) * s.channels + c];
        });
}
static mx_code flip(const mx_kernel_call *call, bool columns)
{
    return mx_cuda_by_item(call->in[0], [&](auto item) { return flip_as<decltype(item)>(call, columns); });
}
static mx_code run_left_right(const mx_kernel_call *call) { return flip(call, true); }
static mx_code run_top_bottom(const mx_kernel_call *call) { return flip(call, false); }

/* ---- borders ------------------------------------------------------------------------------------------------- */

template <class T> struct fill {
    T value[MX_MAX_TUPLE]; /* per channel; the first one for all if `one` */
    bool one;
};

template <class T> static mx_code border(const mx_kernel_call *call)
{
    const mx_cvcopyMakeBorder_attrs *a = (const mx_cvcopyMakeBorder_attrs *)call->attrs;
    const mx_array *x = call->in[0], *y = call->out[0];
    const mx_image_size in = mx_image_size_of(x->ndim, x->shape), out = mx_image_size_of(y->ndim, y->shape);
    const int64_t top = a->top, left = a->left, type = a->type;
    const T *from = (const T *)mx_data(x);
    T *to = (T *)mx_data(y);
    fill<T> f = {};
    f.one = a->values.n <= 0;
    mx_convert(f.value, (mx_dtype)x->dtype, f.one ? &a->value : a->values.d, MX_FLOAT64, f.one ? 1 : a->values.n);
    return mx_cuda_planes(
        call, out.images, out.height, out.width * out.channels, [=] __device__(int64_t n, int line, int element) {
            const int c = element % (int)out.channels;
            const int64_t column = mx_border_fold(element / (int)out.channels - left, in.width, type),
                          row = mx_border_fold(line - top, in.height, type);
            to[(n * out.height + line) * out.width * out.channels + element] =
                row < 0 || column < 0 ? f.value[f.one ? 0 : c]
                                      : from[((n * in.height + row) * in.width + column) * in.channels + c];
        });
}
static mx_code run_border(const mx_kernel_call *call)
{
    return mx_cuda_by_item(call->in[0], [&](auto item) { return border<decltype(item)>(call); });
}

/* ---- resizing ------------------------------------------------------------------------------------------------ */

/* Weights of one axis for all output cells, `most` per cell; missing ones are 0. */
struct table {
    int64_t most;
    double *weight; /* (out, most) */
    int64_t *cell;  /* (out, most): source cells, clamped */
};

static mx_code fill_table(const mx_kernel_call *call, const mx_resample &r, const table &t)
{
    return mx_cuda_each(call, r.out, [=] __device__(int64_t i) {
        int64_t first, *cell = t.cell + i * t.most;
        double *weight = t.weight + i * t.most;
        const int64_t count = mx_resample_weights(&r, i, &first, weight);
        for (int64_t k = 0; k < t.most; k++) {
            weight[k] = k < count ? weight[k] : 0;
            cell[k] = mx_resample_clamp(&r, first + (k < count ? k : count - 1));
        }
    });
}

static __device__ void put(uint8_t *to, float v) { *to = (uint8_t)(v <= 0 ? 0 : v >= 255 ? 255 : v + 0.5f); }
static __device__ void put(float *to, float v) { *to = v; }
static __device__ void put(double *to, double v) { *to = v; }

/* T elements, ACC sums: along x first, as on the CPU. */
template <class T, class ACC>
static mx_code mix(const mx_kernel_call *call, const mx_image_size &in, const mx_image_size &out, const table &rows,
                   const table &columns)
{
    const T *from = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(call->out[0]);
    return mx_cuda_planes(call, out.images, out.height, out.width * out.channels,
                          [=] __device__(int64_t n, int line, int element) {
                              const int c = element % (int)out.channels;
                              const int64_t x = element / (int)out.channels * columns.most, y = line * rows.most;
                              ACC sum = 0;
                              for (int64_t r = 0; r < rows.most; r++) {
                                  const T *row = from + (n * in.height + rows.cell[y + r]) * in.width * in.channels + c;
                                  ACC part = 0;
                                  for (int64_t k = 0; k < columns.most; k++)
                                      part += (ACC)columns.weight[x + k] * (ACC)row[columns.cell[x + k] * in.channels];
                                  sum += (ACC)rows.weight[y + r] * part;
                              }
                              put(&to[(n * out.height + line) * out.width * out.channels + element], sum);
                          });
}

static mx_code resize(const mx_kernel_call *call, int64_t interp)
{
    const mx_array *x = call->in[0], *y = call->out[0];
    const mx_image_size in = mx_image_size_of(x->ndim, x->shape), out = mx_image_size_of(y->ndim, y->shape);
    const bool shrinks = out.height <= in.height && out.width <= in.width;
    const mx_resample down = mx_resample_axis((int)interp, in.height, out.height, shrinks),
                      across = mx_resample_axis((int)interp, in.width, out.width, shrinks);
    table rows = {mx_resample_most(&down)}, columns = {mx_resample_most(&across)};
    mx_cuda_device *d = mx_cuda_of(call);
    if (x->dtype != MX_UINT8 && x->dtype != MX_FLOAT32 && x->dtype != MX_FLOAT64)
        return MX_DECLINED;
    if (!d || !y->size)
        return d ? MX_OK : mx_error_code();
    const int64_t first = out.height * rows.most, all = first + out.width * columns.most;
    mx_cuda_scratch room(d, (size_t)all * (sizeof(double) + sizeof(int64_t)));
    if (!room.memory)
        return mx_error_code();
    rows.weight = room.as<double>(), columns.weight = rows.weight + first;
    rows.cell = (int64_t *)(rows.weight + all), columns.cell = rows.cell + first;
    mx_code code = fill_table(call, down, rows);
    code = code ? code : fill_table(call, across, columns);
    if (code)
        return code;
    return x->dtype == MX_UINT8     ? mix<uint8_t, float>(call, in, out, rows, columns)
           : x->dtype == MX_FLOAT32 ? mix<float, float>(call, in, out, rows, columns)
                                    : mix<double, double>(call, in, out, rows, columns);
}

/* 16-bit floats are widened as a whole. */
static mx_code run_resize(const mx_kernel_call *call)
{
    const int type = call->in[0]->dtype;
    if (type == MX_FLOAT16 || type == MX_BFLOAT16)
        return mx_cuda_widened(call, MX_FLOAT32, run_resize);
    return resize(call, !strcmp(call->op->name, "_cvimresize") ? ((const mx_cvimresize_attrs *)call->attrs)->interp
                                                               : ((const mx_image_resize_attrs *)call->attrs)->interp);
}

/* ---- rotation ------------------------------------------------------------------------------------------------ */

template <class T> __device__ T pixel(const T *plane, int64_t height, int64_t width, int64_t y, int64_t x)
{
    return x < 0 || y < 0 || x >= width || y >= height ? 0 : plane[y * width + x];
}

/* (N, C, H, W) or (C, H, W); degrees: one number, or one per image */
template <class T> static mx_code rotate(const mx_kernel_call *call)
{
    const mx_image_rotate_attrs *a = (const mx_image_rotate_attrs *)call->attrs;
    const mx_array *x = call->in[0];
    const int64_t planes = x->shape[x->ndim - 3], height = x->shape[x->ndim - 2], width = x->shape[x->ndim - 1];
    const bool one = call->in[1]->size == 1, zoom_in = a->zoom_in, zoom_out = a->zoom_out;
    const mx_cuda_numbers degrees(call->in[1]);
    const T *data = (const T *)mx_data(x);
    T *to = (T *)mx_data(call->out[0]);
    return mx_cuda_planes(call, height && width ? x->size / (height * width) : 0, height, width,
                          [=] __device__(int64_t plane, int row, int column) {
                              const int64_t i = (plane * height + row) * width + column;
                              const mx_rotation r =
                                  mx_rotation_of(degrees[one ? 0 : plane / planes], height, width, zoom_in, zoom_out);
                              const T *from = data + plane * height * width;
                              double u, v;
                              mx_rotate_back(&r, row, column, &v, &u);
                              if (!(u > -1 && v > -1 && u < (double)width && v < (double)height)) {
                                  to[i] = 0;
                                  return;
                              }
                              const int64_t left = (int64_t)floor(u), top = (int64_t)floor(v);
                              const T dx = (T)(u - (double)left), dy = (T)(v - (double)top);
                              to[i] = (1 - dy) * ((1 - dx) * pixel(from, height, width, top, left) +
                                                  dx * pixel(from, height, width, top, left + 1)) +
                                      dy * ((1 - dx) * pixel(from, height, width, top + 1, left) +
                                            dx * pixel(from, height, width, top + 1, left + 1));
                          });
}

static mx_code run_rotate(const mx_kernel_call *call)
{
    return call->in[0]->dtype == MX_FLOAT32   ? rotate<float>(call)
           : call->in[0]->dtype == MX_FLOAT64 ? rotate<double>(call)
                                              : MX_DECLINED;
}

MX_CUDA_KERNELS(image_geometry) = {
    {"_image_random_flip_left_right", run_left_right, NULL},
    {"_image_random_flip_top_bottom", run_top_bottom, NULL},
    {"_cvcopyMakeBorder", run_border, NULL},
    {"_image_resize", run_resize, NULL},
    {"_cvimresize", run_resize, NULL},
    {"_image_rotate", run_rotate, NULL},
    {NULL, NULL, NULL},
};
