/* getnnz, edge_id and dgl_adjacency of dense arrays on the CPU.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/interrupt.h"
#include "cpu/kernel.h"
#include "cpu/kernels/index/indices.h"
#include "gluon/op.gen.h"

/* The elements as numbers, (x->size), to be freed with free_numbers; NULL with an error. */
static double *load_numbers(const mx_array *x)
{
    double *numbers = mx_scratch_take((size_t)x->size * sizeof *numbers);
    if (numbers)
        mx_convert(numbers, MX_FLOAT64, mx_data(x), (mx_dtype)x->dtype, x->size);
    return numbers;
}
static void free_numbers(double *numbers, const mx_array *x)
{
    mx_scratch_give(numbers, (size_t)x->size * sizeof *numbers);
}

static mx_code run_getnnz(const mx_kernel_call *call)
{
    const int64_t axis = ((const mx_getnnz_attrs *)call->attrs)->axis, columns = call->in[0]->shape[1];
    int64_t *count = mx_data(call->out[0]);
    double *x = load_numbers(call->in[0]);
    if (!x)
        return mx_error_code();
    memset(count, 0, mx_bytes(call->out[0]));
    for (int64_t i = 0; i < call->in[0]->size && !mx_stop_wanted_at(i); i++)
        count[axis == MX_NONE_INT ? 0 : axis ? i / columns : i % columns] += x[i] != 0;
    free_numbers(x, call->in[0]);
    return MX_OK;
}

static mx_code edges(const mx_kernel_call *call, const int64_t *u, const int64_t *v)
{
    const mx_array *data = call->in[0];
    const size_t item = (size_t)mx_dtype_size((mx_dtype)data->dtype);
    const double none = -1;
    for (int64_t i = 0; i < call->out[0]->size && !mx_stop_wanted_at(i); i++) {
        if (u[i] < 0 || u[i] >= data->shape[0] || v[i] < 0 || v[i] >= data->shape[1])
            return mx_op_fail(call->op, MX_ERR_INDEX, "(u, v) is (%lld, %lld) outside of a matrix of %lld by %lld",
                              (long long)u[i], (long long)v[i], (long long)data->shape[0], (long long)data->shape[1]);
        const char *from = (const char *)mx_data(data) + (size_t)(u[i] * data->shape[1] + v[i]) * item;
        char *to = (char *)mx_data(call->out[0]) + (size_t)i * item;
        double edge;
        mx_convert(&edge, MX_FLOAT64, from, (mx_dtype)data->dtype, 1);
        if (edge != 0)
            memcpy(to, from, item);
        else
            mx_convert(to, (mx_dtype)data->dtype, &none, MX_FLOAT64, 1);
    }
    return MX_OK;
}

static mx_code run_edge_id(const mx_kernel_call *call)
{
    int64_t *u = mx_load_indices(call->in[1]), *v = mx_load_indices(call->in[2]);
    mx_code code = u && v ? edges(call, u, v) : mx_error_code();
    mx_free_indices(u, call->in[1]);
    mx_free_indices(v, call->in[2]);
    return code;
}

static mx_code run_adjacency(const mx_kernel_call *call)
{
    float *out = mx_data(call->out[0]);
    double *x = load_numbers(call->in[0]);
    for (int64_t i = 0; x && i < call->in[0]->size; i++)
        out[i] = x[i] != 0;
    free_numbers(x, call->in[0]);
    return x ? MX_OK : mx_error_code();
}

MX_CPU_KERNELS(graph) = {{"_contrib_getnnz", run_getnnz, NULL},
                         {"_contrib_edge_id", run_edge_id, NULL},
                         {"_contrib_dgl_adjacency", run_adjacency, NULL},
                         {NULL, NULL, NULL}};
