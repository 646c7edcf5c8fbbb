/* Images to tensors, normalisation per channel.  SPDX-License-Identifier: Apache-2.0 */
#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

#define TILE 256

typedef struct tensor_job {
    const mx_array *x;
    float *y;
    int64_t channels, area, item;
} tensor_job;

/* One plane (image, channel) after the other; other types than uint8 are converted in tiles. */
static void to_planes(void *arg, int64_t begin, int64_t end)
{
    const tensor_job *j = arg;
    const char *data = mx_data(j->x);
    for (int64_t plane = begin; plane < end; plane++) {
        const int64_t start = plane / j->channels * j->area * j->channels + plane % j->channels;
        float *y = j->y + plane * j->area;
        if (j->x->dtype == MX_UINT8) {
            const uint8_t *x = (const uint8_t *)data + start;
            for (int64_t i = 0; i < j->area; i++)
                y[i] = (float)x[i * j->channels] / 255.0f;
            continue;
        }
        for (int64_t i = 0; i < j->area; i++) {
            float value;
            mx_convert(&value, MX_FLOAT32, data + (start + i * j->channels) * j->item, (mx_dtype)j->x->dtype, 1);
            y[i] = value / 255.0f;
        }
    }
}

static mx_code run_to_tensor(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    mx_array *y = call->out[0];
    tensor_job j = {x, mx_data(y), x->shape[x->ndim - 1], x->shape[x->ndim - 3] * x->shape[x->ndim - 2],
                    mx_dtype_size((mx_dtype)x->dtype)};
    mx_parallel(y->size / j.area, MX_GRAIN / j.area + 1, to_planes, &j);
    return MX_OK;
}

typedef struct normalize_job {
    const mx_array *x;
    mx_array *y;
    const mx_image_normalize_attrs *attrs;
    int64_t channels, area, item;
} normalize_job;

static void normalize_planes(void *arg, int64_t begin, int64_t end)
{
    const normalize_job *j = arg;
    const mx_dtype type = (mx_dtype)j->x->dtype;
    for (int64_t plane = begin; plane < end; plane++) {
        const int64_t channel = plane % j->channels;
        const double mean = j->attrs->mean.d[j->attrs->mean.n == 1 ? 0 : channel],
                     std = j->attrs->std.d[j->attrs->std.n == 1 ? 0 : channel];
        for (int64_t done = 0; done < j->area; done += TILE) {
            double tile[TILE];
            const int64_t n = j->area - done < TILE ? j->area - done : TILE, at = (plane * j->area + done) * j->item;
            mx_convert(tile, MX_FLOAT64, (const char *)mx_data(j->x) + at, type, n);
            for (int64_t i = 0; i < n; i++)
                tile[i] = (tile[i] - mean) / std;
            mx_convert((char *)mx_data(j->y) + at, type, tile, MX_FLOAT64, n);
        }
    }
}

static mx_code run_normalize(const mx_kernel_call *call)
{
    mx_array *x = call->in[0];
    if (!mx_dtype_is_float(x->dtype))
        return MX_DECLINED;
    normalize_job j = {x, call->out[0], call->attrs, x->shape[x->ndim - 3], x->shape[x->ndim - 2] * x->shape[x->ndim - 1],
                       mx_dtype_size((mx_dtype)x->dtype)};
    mx_parallel(x->size / j.area, MX_GRAIN / j.area + 1, normalize_planes, &j);
    return MX_OK;
}

MX_CPU_KERNELS(image) = {
    {"_image_to_tensor", run_to_tensor, NULL}, {"_image_normalize", run_normalize, NULL}, {NULL, NULL, NULL}};
