/* Random flips and borders of images; crops and other flips: movement.cu.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/items.h"
#include "cuda/kernels/planes.h"
extern "C" {
#include "op/formula/image.h"
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

MX_CUDA_KERNELS(image_move) = {{"_image_random_flip_left_right", run_left_right, NULL},
                               {"_image_random_flip_top_bottom", run_top_bottom, NULL},
                               {"_cvcopyMakeBorder", run_border, NULL},
                               {NULL, NULL, NULL}};
