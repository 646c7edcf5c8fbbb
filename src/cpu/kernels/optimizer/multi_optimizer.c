/* Optimizer updates of several tensors: one after the other, each on all threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/multi_optimizer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/threads.h"
#include "cpu/kernels/optimizer/optimizer.h"
#include "cpu/kernels/loss/rows.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

#define PIECE 4096

static double norm(const void *x, int64_t n, mx_dtype dtype)
{
    double sum = 0;
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t count = n - at < PIECE ? n - at : PIECE;
        const float *f = (const float *)x + at;
        const double *d = (const double *)x + at;
        sum += dtype == MX_FLOAT32 ? (double)row_dot_f(f, f, count) : row_dot_d(d, d, count);
    }
    return sqrt(sum);
}

/* Both phases: writes the direction to scratch memory, then its norm and the weight's scale the step. */
static mx_code lamb(const mx_update_constants *k, update_arrays *x, mx_dtype dtype)
{
    const size_t bytes = (size_t)(x->size * mx_dtype_size(dtype));
    void *direction = mx_alloc(bytes), *to = x->to;
    if (!direction)
        return MX_ERR_MEMORY;
    x->to = direction;
    mx_update_run(MX_UPDATE_lamb_update_phase1, k, x, dtype);
    double r1 = norm(x->from, x->size, dtype), r2 = norm(direction, x->size, dtype);
    r1 = k->lower_bound >= 0 ? fmax(r1, k->lower_bound) : r1;
    r1 = k->upper_bound >= 0 ? fmin(r1, k->upper_bound) : r1;
    const mx_update_constants step = {.x = r1 == 0 || r2 == 0 ? k->lr : k->lr * r1 / r2};
    x->to = to, x->grad = direction;
    mx_update_run(MX_UPDATE_lamb_update_phase2, &step, x, dtype);
    mx_free(direction, bytes);
    return MX_OK;
}

/* One tensor, in one type: inputs are its group, attrs the prepared constants (see run_multi). */
static mx_code run_tensor(const mx_kernel_call *call)
{
    const mx_multi_use *use = call->op->user;
    const mx_update_constants *k = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    mx_array *out = call->out[0], *weight = use->precision ? call->in[call->n_in - 1] : call->in[0];
    update_arrays x = {.from = mx_data(weight), .grad = mx_data(call->in[1]), .size = out->size};
    x.to = use->precision ? mx_data(weight) : mx_data(out);
    for (int i = 0; i < use->states; i++)
        x.state[i] = mx_data(call->in[2 + i]);
    mx_code code = MX_OK;
    if (use->row == MX_UPDATE_lamb_update_phase1)
        code = lamb(k, &x, compute);
    else
        mx_update_run(use->row, k, &x, compute);
    if ((use->precision || k->skip) && mx_data(out) != mx_data(weight) && out->size)
        memcpy(mx_data(out), mx_data(weight), mx_bytes(out));
    return code;
}

static double number_at(const mx_array *x, int64_t i)
{
    double value;
    mx_convert(&value, MX_FLOAT64, (const char *)mx_data(x) + i * mx_dtype_size((mx_dtype)x->dtype), (mx_dtype)x->dtype,
               1);
    return value;
}

/* Every tensor is a separate call, with an operator that describes what one group writes. */
static mx_code run_multi(const mx_kernel_call *call)
{
    const mx_multi_use *use = call->op->user;
    const int group = mx_multi_group(use), groups = group * call->n_out;
    for (int i = 0; i < groups; i++)
        if (!mx_dtype_is_float(call->in[i]->dtype))
            return MX_DECLINED;
    mx_op one = *call->op;
    one.mutates = ((1u << (group - 2)) - 1) << 2;
    for (int t = 0; t < call->n_out; t++) {
        mx_update_constants k;
        mx_multi_constants(call->op, call->attrs, t, &k);
        if (use->tail == 2)
            k.lr = number_at(call->in[groups], t), k.wd = number_at(call->in[groups + 1], t);
        if (use->tail == 1) {
            k.rescale_grad = number_at(call->in[groups], 0);
            k.skip = k.rescale_grad == 0 || !isfinite(k.rescale_grad);
        }
        const mx_kernel_call tensor = {
            .op = &one, .attrs = &k, .n_in = group, .n_out = 1, .in = call->in + t * group, .out = call->out + t};
        mx_code code = mx_run_widened(&tensor, run_tensor);
        if (code)
            return code;
    }
    return MX_OK;
}

#define LARS_GRAIN 512 /* of numbers that are converted one by one */

/* lr eta |w| / (rescale |g| + wd |w| + eps) where both norms are positive */
static void lars_range(void *arg, int64_t begin, int64_t end)
{
    const mx_kernel_call *call = arg;
    const mx_multi_lars_attrs *attrs = call->attrs;
    const mx_dtype dtype = (mx_dtype)call->out[0]->dtype;
    for (int64_t i = begin; i < end; i++) {
        const double w = sqrt(number_at(call->in[1], i)), g = sqrt(number_at(call->in[2], i)) * attrs->rescale_grad;
        const double ratio = w > 0 && g > 0 ? attrs->eta * w / (g + number_at(call->in[3], i) * w + attrs->eps) : 1;
        const double rate = number_at(call->in[0], i) * ratio;
        mx_convert((char *)mx_data(call->out[0]) + i * mx_dtype_size(dtype), dtype, &rate, MX_FLOAT64, 1);
    }
}

static mx_code run_lars(const mx_kernel_call *call)
{
    if (!mx_dtype_is_float(call->in[0]->dtype))
        return MX_DECLINED;
    mx_parallel(call->out[0]->size, LARS_GRAIN, lars_range, (void *)call);
    return MX_OK;
}

/* ---- one history per row --------------------------------------------------------------------------------------- */

typedef struct row_update {
    const mx_array *weight, *grad;
    mx_array *history, *out;
    const mx_group_adagrad_attrs *attrs;
    int64_t n;
} row_update;

#define ROWS(name, T, SQRT)                                                                                          \
    static void name(void *arg, int64_t begin, int64_t end)                                                          \
    {                                                                                                                \
        const row_update *job = arg;                                                                                 \
        const T rescale = (T)job->attrs->rescale_grad, clip = (T)job->attrs->clip_gradient;                          \
        const T limit = clip < 0 ? (T)INFINITY : clip;                                                               \
        for (int64_t row = begin; row < end; row++) {                                                                \
            const T *w = (const T *)mx_data(job->weight) + row * job->n, *g = (const T *)mx_data(job->grad) + row * job->n; \
            T *out = (T *)mx_data(job->out) + row * job->n, *history = (T *)mx_data(job->history) + row;             \
            double sum = 0;                                                                                          \
            for (int64_t i = 0; i < job->n; i++) {                                                                   \
                const T scaled = g[i] * rescale, d = scaled < -limit ? -limit : scaled > limit ? limit : scaled;     \
                sum += (double)(d * d);                                                                              \
            }                                                                                                        \
            *history += (T)(sum / (double)job->n);                                                                   \
            const T step = (T)job->attrs->lr / SQRT(*history + (T)job->attrs->epsilon);                              \
            MX_IVDEP                                                                                                 \
            for (int64_t i = 0; i < job->n; i++) {                                                                   \
                const T scaled = g[i] * rescale, d = scaled < -limit ? -limit : scaled > limit ? limit : scaled;     \
                out[i] = w[i] - step * d;                                                                            \
            }                                                                                                        \
        }                                                                                                            \
    }
ROWS(adagrad_rows_f, float, sqrtf)
ROWS(adagrad_rows_d, double, sqrt)

static mx_code run_group_adagrad(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const int64_t rows = call->in[0]->shape[0];
    row_update job = {call->in[0],  call->in[1], call->in[2],
                      call->out[0], call->attrs, rows ? call->in[0]->size / rows : 0};
    if (job.n)
        mx_parallel(rows, 1 + MX_GRAIN / job.n, compute == MX_FLOAT32 ? adagrad_rows_f : adagrad_rows_d, &job);
    return MX_OK;
}

static mx_code run_reset(const mx_kernel_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i]->size)
            memset(mx_data(call->in[i]), 0, mx_bytes(call->in[i]));
    return MX_OK;
}

MX_CPU_KERNELS(multi_optimizer) = {{"multi_sgd_update", run_multi, NULL},
                                   {"multi_sgd_mom_update", run_multi, NULL},
                                   {"multi_mp_sgd_update", run_multi, NULL},
                                   {"multi_mp_sgd_mom_update", run_multi, NULL},
                                   {"preloaded_multi_sgd_update", run_multi, NULL},
                                   {"preloaded_multi_sgd_mom_update", run_multi, NULL},
                                   {"preloaded_multi_mp_sgd_update", run_multi, NULL},
                                   {"preloaded_multi_mp_sgd_mom_update", run_multi, NULL},
                                   {"_multi_adamw_update", run_multi, NULL},
                                   {"_multi_mp_adamw_update", run_multi, NULL},
                                   {"_multi_lamb_update", run_multi, NULL},
                                   {"_multi_mp_lamb_update", run_multi, NULL},
                                   {"multi_lars", run_lars, NULL},
                                   {"_contrib_group_adagrad_update", run_group_adagrad, NULL, MX_KERNEL_WIDEN},
                                   {"reset_arrays", run_reset, NULL},
                                   {NULL, NULL, NULL}};
