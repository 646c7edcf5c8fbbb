/* Changing the element type, and running kernels on widened arrays.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"

#define MOST_ARRAYS 16

template <class C> static mx_code cast_through(const mx_kernel_call *call, const mx_array *from, mx_array *to)
{
    const void *source = mx_data(from);
    void *target = mx_data(to);
    const int source_type = from->dtype, target_type = to->dtype;
    return mx_cuda_each(call, to->size, [=] __device__(int64_t i) {
        mx_cuda_store<C>(target, target_type, i, mx_cuda_load<C>(source, source_type, i));
    });
}

/* Through double unless an integer would lose precision there. */
mx_code mx_cuda_cast(const mx_kernel_call *call, const mx_array *from, mx_array *to)
{
    if (!mx_dtype_is_float(from->dtype) && !mx_dtype_is_float(to->dtype))
        return cast_through<int64_t>(call, from, to);
    return cast_through<double>(call, from, to);
}

static mx_code run_cast(const mx_kernel_call *call)
{
    mx_code code = MX_OK;
    for (int i = 0; !code && i < call->n_out; i++)
        code = mx_cuda_cast(call, call->in[i], call->out[i]);
    return code;
}

/* ---- kernels for float and double, run on the other floating types --------------------------------------------- */

static bool must_widen(const mx_array *x, mx_dtype compute)
{
    return !mx_is_none(x) && x->dtype != (int)compute && mx_dtype_is_float(x->dtype);
}

bool mx_cuda_all_of_type(const mx_kernel_call *call, mx_dtype compute)
{
    for (int i = 0; i < call->n_in; i++)
        if (must_widen(call->in[i], compute))
            return false;
    for (int i = 0; i < call->n_out; i++)
        if (must_widen(call->out[i], compute))
            return false;
    return true;
}

/* Copies of the arrays of other floating types; the other arrays as they are. */
static mx_code widen(const mx_kernel_call *call, mx_array *const *arrays, int n, mx_dtype compute, bool fill,
                     mx_array **wide)
{
    mx_code code = MX_OK;
    for (int i = 0; i < n; i++)
        wide[i] = arrays[i];
    for (int i = 0; !code && i < n; i++) {
        if (!must_widen(arrays[i], compute))
            continue;
        const mx_shape_t shape = mx_array_shape(arrays[i]);
        wide[i] = mx_array_new(&shape, compute, arrays[i]->context);
        code = !wide[i] ? mx_error_code() : fill ? mx_cuda_cast(call, arrays[i], wide[i]) : MX_OK;
    }
    return code;
}

/* Copies back results, and inputs that the operator writes. */
static mx_code narrow(const mx_kernel_call *call, mx_array *const *arrays, mx_array *const *wide, int n, uint32_t mask)
{
    mx_code code = MX_OK;
    for (int i = 0; !code && i < n; i++)
        if (wide[i] != arrays[i] && (mask >> (i < 31 ? i : 31) & 1))
            code = mx_cuda_cast(call, wide[i], arrays[i]);
    return code;
}

static void drop(mx_array *const *arrays, mx_array *const *wide, int n)
{
    for (int i = 0; i < n; i++)
        if (wide[i] != arrays[i])
            mx_release(wide[i]);
}

mx_code mx_cuda_widened(const mx_kernel_call *call, mx_dtype compute, mx_kernel_fn run)
{
    mx_array *in[MOST_ARRAYS], *out[MOST_ARRAYS];
    if (call->n_in > MOST_ARRAYS || call->n_out > MOST_ARRAYS)
        return MX_DECLINED;
    mx_code code = widen(call, call->in, call->n_in, compute, true, in);
    if (code)
        return drop(call->in, in, call->n_in), code;
    code = widen(call, call->out, call->n_out, compute, false, out);
    mx_kernel_call wide = *call;
    wide.in = in, wide.out = out;
    code = code ? code : run(&wide);
    code = code ? code : narrow(call, call->out, out, call->n_out, UINT32_MAX);
    code = code ? code : narrow(call, call->in, in, call->n_in, call->op->mutates);
    drop(call->in, in, call->n_in);
    drop(call->out, out, call->n_out);
    return code;
}

MX_CUDA_KERNELS(cast) = {
    {"Cast", run_cast, NULL}, {"amp_cast", run_cast, NULL}, {"amp_multicast", run_cast, NULL}, {NULL, NULL, NULL}};
