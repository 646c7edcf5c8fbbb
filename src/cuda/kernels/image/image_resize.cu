/* Resizing of images (op/formula/resample.h): first the weights of both axes, then each element independently.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstring>

#include "cuda/kernels/planes.h"
extern "C" {
#include "op/formula/image.h"
#include "op/formula/resample.h"
}

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

/* 16-bit floats: the arrays are widened. */
static mx_code run_resize(const mx_kernel_call *call)
{
    const int type = call->in[0]->dtype;
    if (type == MX_FLOAT16 || type == MX_BFLOAT16)
        return mx_cuda_widened(call, MX_FLOAT32, run_resize);
    return resize(call, !strcmp(call->op->name, "_cvimresize") ? ((const mx_cvimresize_attrs *)call->attrs)->interp
                                                               : ((const mx_image_resize_attrs *)call->attrs)->interp);
}

MX_CUDA_KERNELS(image_resize) = {
    {"_image_resize", run_resize, NULL}, {"_cvimresize", run_resize, NULL}, {NULL, NULL, NULL}};
