/* UpSampling on the CPU: copies for repeated pixels; sums of such copies; depthwise transposed
 * convolutions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/movement/movement.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

/* ---- nearest, side by side ------------------------------------------------------------------------------------ */

static mx_code run_copies(const mx_kernel_call *call)
{
    const mx_upsampling_attrs *p = call->attrs;
    if (p->sample_type == MX_UPSAMPLING_BILINEAR || (p->multi_input_mode != MX_UPSAMPLING_CONCAT && call->n_in > 1))
        return MX_DECLINED;
    const mx_movement *rule = call->op->user;
    mx_move move = {0};
    for (int i = 0; rule->plan(call, i, &move); i++, move = (mx_move){0})
        mx_cpu_move(&move, mx_data(call->out[0]), mx_data(call->in[i]),
                    (size_t)mx_dtype_size((mx_dtype)call->out[0]->dtype));
    return MX_OK;
}

/* ---- nearest, added; bilinear --------------------------------------------------------------------------------- */

typedef struct upsampling_job {
    const mx_kernel_call *call;
    int64_t scale, kernel, pad; /* bilinear */
} upsampling_job;

#define T float
#define NAME(x) x##_f
#include "cpu/kernels/image/upsampling_body.h"
#undef T
#undef NAME
#define T double
#define NAME(x) x##_d
#include "cpu/kernels/image/upsampling_body.h"
#undef T
#undef NAME

static mx_code run(const mx_kernel_call *call)
{
    const mx_upsampling_attrs *p = call->attrs;
    const bool bilinear = p->sample_type == MX_UPSAMPLING_BILINEAR;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const mx_array *out = call->out[0];
    const int64_t planes = out->shape[0] * out->shape[1], each = out->shape[2] * out->shape[3];
    upsampling_job job = {call, p->scale, 2 * p->scale - p->scale % 2, p->scale / 2};
    if (bilinear)
        mx_parallel(planes, 1 + MX_GRAIN / (8 * each + 1),
                    compute == MX_FLOAT32 ? bilinear_planes_f : bilinear_planes_d, &job);
    else
        mx_parallel(planes, 1 + MX_GRAIN / (call->n_in * each + 1), compute == MX_FLOAT32 ? sum_planes_f : sum_planes_d,
                    &job);
    return MX_OK;
}

MX_CPU_KERNELS(upsampling) = {
    {"UpSampling", run_copies, NULL}, {"UpSampling", run, NULL, MX_KERNEL_WIDEN}, {NULL, NULL, NULL}};
