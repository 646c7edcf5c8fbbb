/* Running means of channels; the data is passed through.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

typedef struct mean_job {
    const void *data; /* (batch, channels, inner) */
    void *mean;       /* (channels) */
    int64_t batch, channels, inner;
    double momentum;
} mean_job;

#define MEANS(name, T)                                                                            \
    static void name(void *arg, int64_t begin, int64_t end)                                       \
    {                                                                                             \
        const mean_job *job = arg;                                                                \
        for (int64_t c = begin; c < end; c++) {                                                   \
            double sum = 0;                                                                       \
            for (int64_t n = 0; n < job->batch; n++)                                              \
                for (int64_t i = 0; i < job->inner; i++)                                          \
                    sum += (double)((const T *)job->data)[(n * job->channels + c) * job->inner + i]; \
            T *mean = (T *)job->mean + c;                                                         \
            *mean = (T)(job->momentum * (double)*mean + (1 - job->momentum) * sum / (double)(job->batch * job->inner)); \
        }                                                                                         \
    }
MEANS(means_f, float)
MEANS(means_d, double)

static mx_code run(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const mx_array *x = call->in[0];
    if (x->size)
        memcpy(mx_data(call->out[0]), mx_data(x), mx_bytes(x));
    if (!call->training || !x->size)
        return MX_OK;
    mean_job job = {mx_data(x), mx_data(call->in[1]), x->shape[0], x->shape[1], x->size / (x->shape[0] * x->shape[1]),
                    ((const mx_sparse_reg_attrs *)call->attrs)->momentum};
    mx_parallel(job.channels, 1 + MX_GRAIN / (job.batch * job.inner), compute == MX_FLOAT32 ? means_f : means_d, &job);
    return MX_OK;
}

MX_CPU_KERNELS(sparse_reg) = {{"IdentityAttachKLSparseReg", run, NULL, MX_KERNEL_WIDEN}, {NULL, NULL, NULL}};
