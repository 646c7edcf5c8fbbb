/* Deformable convolution on the CPU: columns of one image, then a product (see op/formula/deformable.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/deformable.h"

#include <string.h>

#include "base/alloc.h"
#include "base/threads.h"
#include "cpu/kernels/gemm/gemm.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

typedef struct deformable_job { /* of one image; elements are of the compute type */
    mx_deformable d;
    const void *data, *offset, *mask; /* (C, H, W), (points, 2, places), NULL or (points, places) */
    void *padded;                     /* (C, H + 2, W + 2) */
    int32_t *at;                      /* (points, 4, places): where in a padded plane; points = offset_groups * cells */
    void *weight, *rest;      /* (points, 4, places) with the mask; (points, 2, places): distances from the corner */
    void *columns, *dcolumns; /* (C, cells, places) */
    void *ddata, *doffset, *dmask;
} deformable_job;

typedef mx_gemm_f32 gemm_f;
typedef mx_gemm_f64 gemm_d;
static mx_code run_gemm_f(const mx_gemm_f32 *g) { return mx_gemm_f32_run(g); }
static mx_code run_gemm_d(const mx_gemm_f64 *g) { return mx_gemm_f64_run(g); }

#define T float
#define NAME(x) x##_f
#include "cpu/kernels/conv/deformable_body.h"
#undef T
#undef NAME
#define T double
#define NAME(x) x##_d
#include "cpu/kernels/conv/deformable_body.h"
#undef T
#undef NAME

/* Assigns the job's scratch from one block; returns the block, NULL if out of memory. */
static void *scratch(deformable_job *job, size_t item, bool back, size_t *bytes)
{
    const mx_deformable *d = &job->d;
    const double points = (double)d->offset_groups * (double)d->cells * (double)d->places,
                 columns = (double)d->channels * (double)d->cells * (double)d->places,
                 planes = (double)d->channels * (double)(d->size[0] + 2) * (double)(d->size[1] + 2);
    const double parts[] = {16 * points, 4 * points * (double)item, 2 * points * (double)item, planes * (double)item,
                            columns * (double)item, back ? columns * (double)item : 0};
    void **to[] = {(void **)&job->at, &job->weight, &job->rest, &job->padded, &job->columns, &job->dcolumns};
    double all = 0;
    for (int i = 0; i < 6; i++)
        all += parts[i] + MX_ALIGN;
    *bytes = all < 1e15 ? (size_t)all : (size_t)1 << 50;
    char *block = mx_alloc(*bytes), *next = block;
    for (int i = 0; i < 6 && block; i++) {
        *to[i] = next;
        next += ((size_t)parts[i] + MX_ALIGN - 1) / MX_ALIGN * MX_ALIGN;
    }
    return block;
}

static const void *image(const mx_array *x, int64_t n, size_t item)
{
    return (const char *)mx_data(x) + (size_t)(n * (x->size / x->shape[0])) * item;
}

static int64_t grain(int64_t each) { return 1 + MX_GRAIN / (4 * each + 1); }

static void columns_of(deformable_job *job, bool single)
{
    const mx_deformable *d = &job->d;
    mx_parallel(d->offset_groups * d->cells, grain(4 * d->places), single ? find_taps_f : find_taps_d, job);
    mx_parallel(d->channels, grain(d->all), single ? pad_planes_f : pad_planes_d, job);
    mx_parallel(d->channels * d->cells, grain(d->places), single ? fill_columns_f : fill_columns_d, job);
}

static mx_code forward(const mx_kernel_call *call, deformable_job *job, bool single, int mask, int weight)
{
    const size_t item = single ? 4 : 8;
    const void *bias = mx_is_none(call->in[weight + 1]) ? NULL : mx_data(call->in[weight + 1]);
    mx_code code = MX_OK;
    for (int64_t n = 0; n < call->out[0]->shape[0] && !code; n++) {
        job->data = image(call->in[0], n, item), job->offset = image(call->in[1], n, item);
        job->mask = mask > 0 ? image(call->in[mask], n, item) : NULL;
        columns_of(job, single);
        code = (single ? product_f : product_d)(job, mx_data(call->in[weight]), bias,
                                                (void *)image(call->out[0], n, item));
    }
    return code;
}

static mx_code backward(const mx_kernel_call *call, deformable_job *job, bool single)
{
    const mx_deformable *d = &job->d;
    const size_t item = single ? 4 : 8;
    const bool modulated = call->n_out > 3;
    mx_code code = MX_OK;
    if (mx_bytes(call->out[2]))
        memset(mx_data(call->out[2]), 0, mx_bytes(call->out[2]));
    for (int64_t n = 0; n < call->in[0]->shape[0] && !code; n++) {
        job->data = image(call->in[1], n, item), job->offset = image(call->in[2], n, item);
        job->mask = modulated ? image(call->in[4], n, item) : NULL;
        job->ddata = (void *)image(call->out[0], n, item), job->doffset = (void *)image(call->out[1], n, item);
        job->dmask = modulated ? (void *)image(call->out[3], n, item) : NULL;
        columns_of(job, single);
        code = (single ? products_back_f : products_back_d)(job, mx_data(call->in[3]), image(call->in[0], n, item),
                                                            mx_data(call->out[2]));
        if (code)
            break;
        const int64_t points = d->offset_groups * d->cells;
        mx_parallel(points, grain(d->channels / d->offset_groups * d->places), single ? add_offsets_f : add_offsets_d,
                    job);
        mx_parallel(d->channels, grain(d->cells * d->places), single ? add_data_f : add_data_d, job);
    }
    return code;
}

static mx_deformable sizes(const mx_deformable_backward_attrs *p, const mx_array *data)
{
    return mx_deformable_of(&p->kernel, &p->stride, &p->dilate, &p->pad, p->num_filter, p->num_group,
                            p->num_deformable_group, data->shape);
}

/* mask and weight: their numbers among the inputs */
static mx_code run(const mx_kernel_call *call, bool back, int mask, int weight)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    /* the attributes of all three begin with the geometry */
    deformable_job job = {.d = sizes(call->attrs, call->in[back ? 1 : 0])};
    size_t bytes;
    void *block = scratch(&job, (size_t)mx_dtype_size(compute), back, &bytes);
    if (!block)
        return mx_error_code();
    const mx_code code =
        back ? backward(call, &job, compute == MX_FLOAT32) : forward(call, &job, compute == MX_FLOAT32, mask, weight);
    mx_free(block, bytes);
    return code;
}
static mx_code run_deformable(const mx_kernel_call *call) { return run(call, false, 0, 2); }
static mx_code run_modulated(const mx_kernel_call *call) { return run(call, false, 2, 3); }
static mx_code run_backward(const mx_kernel_call *call) { return run(call, true, 4, 3); }

MX_CPU_KERNELS(deformable) = {{"_contrib_DeformableConvolution", run_deformable, NULL, MX_KERNEL_WIDEN},
                              {"_contrib_ModulatedDeformableConvolution", run_modulated, NULL, MX_KERNEL_WIDEN},
                              {"_backward__contrib_DeformableConvolution", run_backward, NULL, MX_KERNEL_WIDEN},
                              {NULL, NULL, NULL}};
