/* im2col and col2im on the CPU: one thread per channel plane, so that sums do not conflict.  SPDX-License-Identifier: Apache-2.0 */
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "op/formula/windows.h"

typedef struct columns_job {
    const void *in;
    void *out;
    mx_windows w;
    bool back; /* columns -> data */
} columns_job;

#define PLANES(name, T)                                                                                                  \
    static void name(void *arg, int64_t begin, int64_t end)                                                              \
    {                                                                                                                    \
        const columns_job *job = arg;                                                                                    \
        const mx_windows *w = &job->w;                                                                                   \
        for (int64_t plane = begin; plane < end; plane++) {                                                              \
            const T *in = (const T *)job->in + plane * (job->back ? w->cells * w->all_places : w->all_sizes);            \
            T *out = (T *)job->out + plane * (job->back ? w->all_sizes : w->cells * w->all_places);                      \
            for (int64_t i = 0; i < w->all_sizes && job->back; i++)                                                      \
                out[i] = 0;                                                                                              \
            for (int64_t cell = 0; cell < w->cells && !mx_stop_wanted(); cell++)                                         \
                for (int64_t place = 0; place < w->all_places; place++) {                                                \
                    const int64_t at = mx_window_at(w, cell, place), column = cell * w->all_places + place;              \
                    if (!job->back)                                                                                      \
                        out[column] = at < 0 ? 0 : in[at];                                                               \
                    else if (at >= 0)                                                                                    \
                        out[at] += in[column];                                                                           \
                }                                                                                                        \
        }                                                                                                                \
    }
PLANES(planes_f, float)
PLANES(planes_d, double)

static mx_code run(const mx_kernel_call *call, mx_dtype compute, const mx_dims *kernel, const mx_dims *stride,
                   const mx_dims *dilate, const mx_dims *pad, bool back)
{
    const mx_array *data = back ? call->out[0] : call->in[0];
    columns_job job = {mx_data(call->in[0]), mx_data(call->out[0]),
                       mx_windows_of(data->shape, kernel, stride, dilate, pad), back};
    mx_parallel(data->shape[0] * data->shape[1], 1 + MX_GRAIN / (8 * job.w.cells * job.w.all_places + 1),
                compute == MX_FLOAT32 ? planes_f : planes_d, &job);
    return MX_OK;
}

static mx_code run_im2col(const mx_kernel_call *call)
{
    const mx_im2col_attrs *p = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    return mx_inputs_are(call, compute, 0) ? run(call, compute, &p->kernel, &p->stride, &p->dilate, &p->pad, false)
                                           : MX_DECLINED;
}

static mx_code run_col2im(const mx_kernel_call *call)
{
    const mx_col2im_attrs *p = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    return mx_inputs_are(call, compute, 0) ? run(call, compute, &p->kernel, &p->stride, &p->dilate, &p->pad, true)
                                           : MX_DECLINED;
}

MX_CPU_KERNELS(columns) = {
    {"im2col", run_im2col, NULL, MX_KERNEL_WIDEN}, {"col2im", run_col2im, NULL, MX_KERNEL_WIDEN}, {NULL, NULL, NULL}};
