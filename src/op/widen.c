/* Converted copies around a kernel that computes in one type: MX_KERNEL_WIDEN of op.h.
 *
 * A call whose floating arrays are all float32, or all float64, runs as it is.  Others run in float64 if one of their
 * arrays is, else in float32; results, and inputs that the operator writes, are converted back.  Integer arrays (labels,
 * lengths, indices) are passed through.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "base/scratch.h"
#include "base/threads.h"
#include "ndarray/convert.h"
#include "op/op.h"

static bool must_widen(const mx_array *x, mx_dtype compute)
{
    return !mx_is_none(x) && x->dtype != (int)compute && mx_dtype_is_float(x->dtype);
}

typedef struct conversion {
    mx_array *to;
    const mx_array *from;
} conversion;

static void convert_range(void *arg, int64_t begin, int64_t end)
{
    const conversion *c = arg;
    const mx_dtype to = (mx_dtype)c->to->dtype, from = (mx_dtype)c->from->dtype;
    mx_convert((char *)mx_data(c->to) + begin * mx_dtype_size(to), to,
               (const char *)mx_data(c->from) + begin * mx_dtype_size(from), from, end - begin);
}

static void convert(mx_array *to, const mx_array *from)
{
    if (to->size)
        mx_parallel_all(to->size, MX_GRAIN, convert_range, &(conversion){to, from});
}

static mx_array *copy_as(const mx_array *x, mx_dtype compute, bool with_values)
{
    mx_shape_t shape = {.ndim = x->ndim};
    memcpy(shape.dim, x->shape, sizeof shape.dim);
    mx_array *copy = mx_array_new(&shape, compute, x->context);
    if (copy && with_values)
        convert(copy, x);
    return copy;
}

/* Replaces arrays[i] by a copy where its type differs; false if memory ran out. */
static bool widen(mx_array **copies, mx_array *const *arrays, int n, mx_dtype compute, bool with_values)
{
    for (int i = 0; i < n; i++) {
        copies[i] = arrays[i];
        if (!must_widen(arrays[i], compute))
            continue;
        copies[i] = copy_as(arrays[i], compute, with_values);
        if (!copies[i])
            return false;
    }
    return true;
}

static bool is_written(const mx_op *op, int i) { return i < 32 && (op->mutates >> i & 1); }

static void give_back(const mx_kernel_call *call, mx_array **in, mx_array **out)
{
    for (int i = 0; i < call->n_in; i++)
        if (in[i] != call->in[i] && is_written(call->op, i))
            convert(call->in[i], in[i]);
    for (int i = 0; i < call->n_out; i++)
        if (out[i] != call->out[i])
            convert(call->out[i], out[i]);
}

static void drop(mx_array **copies, mx_array *const *arrays, int n)
{
    for (int i = 0; i < n && copies[i]; i++)
        if (copies[i] != arrays[i])
            mx_release(copies[i]);
}

static mx_code run_converted(const mx_kernel_call *call, mx_dtype compute, mx_kernel_fn run)
{
    const int total = call->n_in + call->n_out;
    const size_t bytes = (size_t)total * sizeof(mx_array *);
    mx_array **in = mx_scratch_take_zero(bytes), **out = in + call->n_in;
    if (!in)
        return MX_ERR_MEMORY;
    mx_kernel_call widened = *call;
    widened.in = in, widened.out = out;
    mx_code code = MX_ERR_MEMORY;
    if (widen(in, call->in, call->n_in, compute, true) && widen(out, call->out, call->n_out, compute, false))
        code = run(&widened);
    if (!code)
        give_back(call, in, out);
    drop(in, call->in, call->n_in);
    drop(out, call->out, call->n_out);
    mx_scratch_give(in, bytes);
    return code;
}

/* Bit t: the call has an array of type t; absent ones (type -1) are bit 31. */
static uint32_t types_of(const mx_kernel_call *call)
{
    uint32_t types = 0;
    for (int i = 0; i < call->n_in; i++)
        types |= 1u << (call->in[i]->dtype & 31);
    for (int i = 0; i < call->n_out; i++)
        types |= 1u << (call->out[i]->dtype & 31);
    return types;
}

mx_code mx_run_widened(const mx_kernel_call *call, mx_kernel_fn run)
{
    const uint32_t wide = 1u << MX_FLOAT64, single = 1u << MX_FLOAT32, half = 1u << MX_FLOAT16 | 1u << MX_BFLOAT16,
                   types = types_of(call);
    if (!(types & half) && (types & (wide | single)) != (wide | single))
        return run(call);
    return run_converted(call, types & wide ? MX_FLOAT64 : MX_FLOAT32, run);
}
