/* Rotation of images (op/formula/rotate.h).  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/numbers.h"
#include "cuda/kernels/planes.h"
extern "C" {
#include "op/formula/rotate.h"
}

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

MX_CUDA_KERNELS(image_rotate) = {{"_image_rotate", run_rotate, NULL}, {NULL, NULL, NULL}};
