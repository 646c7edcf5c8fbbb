/* Fused optimizer updates: one pass over weight, gradient and states.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/optimizer/optimizer.h"

#include <string.h>

#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

typedef void (*update_loop)(const mx_update_constants *k, const update_arrays *x, int64_t begin, int64_t end);

#define SIGN(x) ((T)(((x) > 0) - ((x) < 0)))
#define T float
#define NAME(x) x##_f
#define SQRT sqrtf
#define FABS fabsf
#include "cpu/kernels/optimizer/optimizer_body.h"
#undef T
#undef NAME
#undef SQRT
#undef FABS
#define T double
#define NAME(x) x##_d
#define SQRT sqrt
#define FABS fabs
#include "cpu/kernels/optimizer/optimizer_body.h"
#undef T
#undef NAME
#undef SQRT
#undef FABS

typedef struct update_job {
    update_loop loop;
    const mx_update_constants *k;
    const update_arrays *arrays;
} update_job;

static void update_range(void *arg, int64_t begin, int64_t end)
{
    const update_job *job = arg;
    job->loop(job->k, job->arrays, begin, end);
}

void mx_update_run(mx_update_row row, const mx_update_constants *k, const update_arrays *x, mx_dtype dtype)
{
    update_job job = {dtype == MX_FLOAT32 ? loops_f[row] : loops_d[row], k, x};
    if (!k->skip)
        mx_parallel(x->size, MX_GRAIN, update_range, &job);
}

/* ---- constants of a call: attributes, scalars, derived values ------------------------------------------------ */

#define PREPARE(id, name, aliases, inputs, states, scalars, ATTRS, prepare, ...)              \
    static void prepare_##id(const mx_##id##_attrs *attrs, const double *s, mx_update_constants *k)     \
    {                                                                                         \
        (void)s;                                                                              \
        ATTRS(MX_UPDATE_FIELD)                                                                \
        prepare;                                                                              \
    }
MX_UPDATE_ROWS(PREPARE)

typedef void (*prepare_fn)(const void *attrs, const double *s, mx_update_constants *k);
#define PREPARE_ENTRY(id, ...) [MX_UPDATE_##id] = (prepare_fn)prepare_##id,
static const prepare_fn preparations[MX_UPDATE_COUNT] = {MX_UPDATE_ROWS(PREPARE_ENTRY)};

static void copy_over(mx_array *to, const mx_array *from)
{
    if (mx_data(to) != mx_data(from) && to->size)
        memcpy(mx_data(to), mx_data(from), mx_bytes(to));
}

/* With a 32-bit weight that is updated, the result is its copy. */
static mx_code run_update(const mx_kernel_call *call)
{
    const mx_update_use *use = call->op->user;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, ((1u << use->scalars) - 1) << use->scalars_at))
        return MX_DECLINED;
    mx_update_constants k = {0};
    double scalars[2] = {0, 0};
    for (int i = 0; i < use->scalars; i++) {
        const mx_array *x = call->in[use->scalars_at + i];
        mx_convert(&scalars[i], MX_FLOAT64, mx_data(x), (mx_dtype)x->dtype, 1);
    }
    preparations[use->row](call->attrs, scalars, &k);
    mx_array *out = call->out[0], *weight = call->in[use->master_at];
    const bool keeps_master = use->master_at && (call->op->mutates >> use->master_at & 1);
    update_arrays arrays = {.from = mx_data(weight), .grad = mx_data(call->in[1]), .size = out->size};
    arrays.to = keeps_master ? mx_data(weight) : mx_data(out);
    for (int i = 0; i < use->states; i++)
        arrays.state[i] = mx_data(call->in[2 + i]);
    mx_update_run(use->row, &k, &arrays, compute);
    if (keeps_master || k.skip)
        copy_over(out, weight);
    return MX_OK;
}

#define KERNEL(id, name, ...) {name, run_update, NULL, MX_KERNEL_WIDEN},
MX_CPU_KERNELS(optimizer) = {MX_UPDATE_ROWS(KERNEL) MX_PRECISION_ROWS(KERNEL){NULL, NULL, NULL}};
