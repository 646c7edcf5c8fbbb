/* Random flips and borders of images; crops and fixed flips are movements.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/interrupt.h"
#include "base/rng.h"
#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/movement/movement.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"
#include "op/formula/image.h"

/* ---- random flips -------------------------------------------------------------------------------------------------- */

/* axis 0: rows, 1: columns.  Image n draws its random bit from counter n. */
static mx_code flip_some(const mx_kernel_call *call, int axis)
{
    const mx_array *x = call->in[0];
    const mx_image_size s = mx_image_size_of(x->ndim, x->shape);
    const int64_t image = s.height * s.width * s.channels, dims[3] = {s.height, s.width, s.channels},
                  strides[3] = {s.width * s.channels, s.channels, 1};
    const mx_rng rng = mx_rng_reserve((uint64_t)s.images);
    for (int64_t n = 0; n < s.images && !mx_stop_wanted(); n++) {
        uint32_t words[4];
        mx_philox(rng.seed, rng.counter + (uint64_t)n, words);
        mx_move move = {.ndim = 3, .to_offset = n * image, .from_offset = n * image};
        for (int i = 0; i < 3; i++)
            move.dim[i] = dims[i], move.to[i] = move.from[i] = strides[i];
        if (words[0] >> 31) {
            move.from_offset += (dims[axis] - 1) * strides[axis];
            move.from[axis] = -strides[axis];
        }
        mx_cpu_move(&move, mx_data(call->out[0]), mx_data(x), (size_t)mx_dtype_size((mx_dtype)x->dtype));
    }
    return MX_OK;
}
static mx_code run_left_right(const mx_kernel_call *call) { return flip_some(call, 1); }
static mx_code run_top_bottom(const mx_kernel_call *call) { return flip_some(call, 0); }

/* ---- borders --------------------------------------------------------------------------------------------------------- */

typedef struct border_job {
    const mx_cvcopyMakeBorder_attrs *attrs;
    const char *from;
    char *to;
    mx_image_size in, out;
    size_t pixel;                             /* bytes */
    size_t item;                              /* bytes of an element */
    char fill[MX_MAX_TUPLE * sizeof(double)]; /* per channel; all from the first if `one` */
    bool one;
} border_job;

static void fill_pixels(const border_job *j, char *to, int64_t count)
{
    for (int64_t i = 0; i < count * j->in.channels; i++)
        memcpy(to + (size_t)i * j->item, j->fill + (j->one ? 0 : (size_t)(i % j->in.channels) * j->item), j->item);
}

static void border_row(const border_job *j, char *to, const char *row)
{
    const mx_cvcopyMakeBorder_attrs *a = j->attrs;
    const int64_t width = j->in.width;
    if (!row) {
        fill_pixels(j, to, j->out.width);
        return;
    }
    memcpy(to + (size_t)a->left * j->pixel, row, (size_t)width * j->pixel);
    for (int64_t x = 0; x < j->out.width; x++) {
        const int64_t at = mx_border_fold(x - a->left, width, a->type);
        if (x == a->left && width > 0)
            x += width - 1; /* the inside is already written */
        else if (at < 0)
            fill_pixels(j, to + (size_t)x * j->pixel, 1);
        else
            memcpy(to + (size_t)x * j->pixel, row + (size_t)at * j->pixel, j->pixel);
    }
}

static void border_rows(void *arg, int64_t begin, int64_t end)
{
    const border_job *j = arg;
    for (int64_t i = begin; i < end; i++) {
        const int64_t image = i / j->out.height,
                      y = mx_border_fold(i % j->out.height - j->attrs->top, j->in.height, j->attrs->type);
        const char *row = y < 0 ? NULL : j->from + (size_t)((image * j->in.height + y) * j->in.width) * j->pixel;
        border_row(j, j->to + (size_t)(i * j->out.width) * j->pixel, row);
    }
}

static mx_code run_border(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    const mx_array *y = call->out[0];
    const mx_dtype type = (mx_dtype)x->dtype;
    border_job j = {.attrs = call->attrs, .from = mx_data(x), .to = mx_data(y), .in = mx_image_size_of(x->ndim, x->shape),
                    .out = mx_image_size_of(y->ndim, y->shape), .item = (size_t)mx_dtype_size(type)};
    j.pixel = (size_t)j.in.channels * j.item;
    j.one = j.attrs->values.n <= 0;
    mx_convert(j.fill, type, j.one ? &j.attrs->value : j.attrs->values.d, MX_FLOAT64, j.one ? 1 : j.attrs->values.n);
    const int64_t row = j.out.width * j.out.channels;
    mx_parallel(j.out.images * j.out.height, MX_GRAIN / (row + 1) + 1, border_rows, &j);
    return MX_OK;
}

MX_CPU_KERNELS(image_move) = {
    {"_image_random_flip_left_right", run_left_right, NULL},
    {"_image_random_flip_top_bottom", run_top_bottom, NULL},
    {"_cvcopyMakeBorder", run_border, NULL},
    {NULL, NULL, NULL},
};
