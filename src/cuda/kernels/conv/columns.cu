/* im2col and col2im (op/formula/windows.h): every result gathers its terms.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/numbers.h"
#include "cuda/kernels/planes.h"
extern "C" {
#include "op/formula/windows.h"
}

template <class T> static mx_code im2col(const mx_kernel_call *call)
{
    const mx_im2col_attrs *p = (const mx_im2col_attrs *)call->attrs;
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    const mx_windows w = mx_windows_of(call->in[0]->shape, &p->kernel, &p->stride, &p->dilate, &p->pad);
    const T *in = (const T *)mx_data(call->in[0]);
    T *out = (T *)mx_data(call->out[0]);
    return mx_cuda_planes(call, call->in[0]->shape[0] * call->in[0]->shape[1], w.cells, w.all_places,
                          [=] __device__(int64_t plane, int cell, int place) {
                              const int64_t at = mx_window_at(&w, cell, place);
                              out[(plane * w.cells + cell) * w.all_places + place] =
                                  at < 0 ? 0 : in[plane * w.all_sizes + at];
                          });
}

/* The window whose cell is at an element of the data; -1: none. */
static __device__ int64_t window_over(const mx_windows &w, int64_t cell, int64_t at)
{
    int64_t place = 0, step = 1;
    for (int i = w.axes - 1; i >= 0; i--) {
        const int64_t x = at % w.size[i] + w.pad[i] - cell % w.kernel[i] * w.dilate[i];
        if (x < 0 || x % w.stride[i] || x / w.stride[i] >= w.places[i])
            return -1;
        place += x / w.stride[i] * step, step *= w.places[i];
        at /= w.size[i], cell /= w.kernel[i];
    }
    return place;
}

template <class T> static mx_code col2im(const mx_kernel_call *call)
{
    const mx_col2im_attrs *p = (const mx_col2im_attrs *)call->attrs;
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    const mx_windows w = mx_windows_of(call->out[0]->shape, &p->kernel, &p->stride, &p->dilate, &p->pad);
    const T *in = (const T *)mx_data(call->in[0]);
    T *out = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        const T *columns = in + i / w.all_sizes * w.cells * w.all_places;
        T sum = 0;
        for (int64_t cell = 0; cell < w.cells; cell++) {
            const int64_t place = window_over(w, cell, i % w.all_sizes);
            sum += place < 0 ? 0 : columns[cell * w.all_places + place];
        }
        out[i] = sum;
    });
}
MX_CUDA_FLOATS(run_im2col, im2col)
MX_CUDA_FLOATS(run_col2im, col2im)

MX_CUDA_KERNELS(columns) = {{"im2col", run_im2col, NULL}, {"col2im", run_col2im, NULL}, {NULL, NULL, NULL}};
