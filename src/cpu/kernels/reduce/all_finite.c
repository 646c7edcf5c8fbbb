/* Whether arrays hold infinities or NaN.  SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"
#include "gluon/op.gen.h"

#define TILE 512 /* elements converted at a time */

typedef struct finite_job {
    const mx_array *in;
    atomic_bool found; /* an element that is not finite */
} finite_job;

static void finite_part(void *arg, int64_t begin, int64_t end)
{
    finite_job *j = arg;
    const mx_dtype type = (mx_dtype)j->in->dtype;
    double tile[TILE];
    for (; begin < end; begin += TILE) {
        const int64_t n = end - begin < TILE ? end - begin : TILE;
        int bad = 0;
        const char *x = (const char *)mx_data(j->in) + begin * mx_dtype_size(type);
        if (type == MX_FLOAT32) { /* x - x is NaN for infinities and NaN */
            const float *v = (const float *)(const void *)x;
            for (int64_t i = 0; i < n; i++)
                bad |= !(v[i] - v[i] == 0);
        } else {
            mx_convert_fast(tile, MX_FLOAT64, x, type, n);
            for (int64_t i = 0; i < n; i++)
                bad |= !(tile[i] - tile[i] == 0);
        }
        if (bad) {
            atomic_store(&j->found, true);
            return;
        }
    }
}

static mx_code run_finite(const mx_kernel_call *call, bool init_output)
{
    float *out = mx_data(call->out[0]);
    bool finite = init_output || *out != 0;
    for (int k = 0; finite && k < call->n_in; k++) {
        finite_job j = {call->in[k], false};
        if (mx_dtype_is_float(call->in[k]->dtype))
            mx_parallel(call->in[k]->size, MX_GRAIN, finite_part, &j);
        finite = !atomic_load(&j.found);
    }
    *out = finite;
    return MX_OK;
}

static mx_code run_all_finite(const mx_kernel_call *call)
{
    return run_finite(call, ((const mx_all_finite_attrs *)call->attrs)->init_output);
}

static mx_code run_multi_all_finite(const mx_kernel_call *call)
{
    return run_finite(call, ((const mx_multi_all_finite_attrs *)call->attrs)->init_output);
}

MX_CPU_KERNELS(all_finite) = {
    {"all_finite", run_all_finite, NULL}, {"multi_all_finite", run_multi_all_finite, NULL}, {NULL, NULL, NULL}};
