/* Rotation of images: each output row is read along a slanted line.  SPDX-License-Identifier: Apache-2.0 */
#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"
#include "op/formula/rotate.h"

typedef struct rotate_job {
    const mx_array *x, *degrees;
    mx_array *y;
    const mx_image_rotate_attrs *attrs;
    int64_t planes, height, width; /* planes per image */
} rotate_job;

static mx_rotation rotation_of_image(const rotate_job *j, int64_t image)
{
    double degrees;
    const int64_t item = mx_dtype_size((mx_dtype)j->degrees->dtype);
    mx_convert(&degrees, MX_FLOAT64, (const char *)mx_data(j->degrees) + (j->degrees->size == 1 ? 0 : image) * item,
               (mx_dtype)j->degrees->dtype, 1);
    return mx_rotation_of(degrees, j->height, j->width, j->attrs->zoom_in, j->attrs->zoom_out);
}

#define ROTATE_ROWS(T)                                                                                                     \
    static T at_##T(const T *plane, int64_t height, int64_t width, int64_t y, int64_t x)                                   \
    {                                                                                                                      \
        return x < 0 || y < 0 || x >= width || y >= height ? 0 : plane[y * width + x];                                     \
    }                                                                                                                      \
    static void rows_##T(void *arg, int64_t begin, int64_t end)                                                            \
    {                                                                                                                      \
        const rotate_job *j = arg;                                                                                         \
        const int64_t height = j->height, width = j->width;                                                                \
        for (int64_t i = begin; i < end; i++) {                                                                            \
            const int64_t plane = i / height;                                                                              \
            const mx_rotation r = rotation_of_image(j, plane / j->planes);                                                 \
            const T *from = (const T *)mx_data(j->x) + plane * height * width;                                             \
            T *to = (T *)mx_data(j->y) + i * width;                                                                        \
            for (int64_t column = 0; column < width; column++) {                                                           \
                double x, y;                                                                                               \
                mx_rotate_back(&r, i % height, column, &y, &x);                                                            \
                if (!(x > -1 && y > -1 && x < (double)width && y < (double)height)) {                                      \
                    to[column] = 0;                                                                                        \
                    continue;                                                                                              \
                }                                                                                                          \
                const int64_t left = (int64_t)floor(x), top = (int64_t)floor(y);                                           \
                const T u = (T)(x - (double)left), v = (T)(y - (double)top);                                               \
                to[column] = (1 - v) * ((1 - u) * at_##T(from, height, width, top, left) +                                 \
                                        u * at_##T(from, height, width, top, left + 1)) +                                  \
                             v * ((1 - u) * at_##T(from, height, width, top + 1, left) +                                   \
                                  u * at_##T(from, height, width, top + 1, left + 1));                                     \
            }                                                                                                              \
        }                                                                                                                  \
    }
ROTATE_ROWS(float)
ROTATE_ROWS(double)

static mx_code run_rotate(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    if (x->dtype != MX_FLOAT32 && x->dtype != MX_FLOAT64)
        return MX_DECLINED;
    rotate_job j = {
        x, call->in[1], call->out[0], call->attrs, x->shape[x->ndim - 3], x->shape[x->ndim - 2], x->shape[x->ndim - 1]};
    mx_parallel(x->size / j.width, MX_GRAIN / (8 * j.width) + 1, x->dtype == MX_FLOAT32 ? rows_float : rows_double, &j);
    return MX_OK;
}

MX_CPU_KERNELS(image_rotate) = {{"_image_rotate", run_rotate, NULL}, {NULL, NULL, NULL}};
